//! Where a program that waits at somebody's desk is answered: on a port of the machine that the browser runs on.
//!
//! Two forms: ours (`/cli/login`: a port, a PKCE challenge, a state) and the published client's (a whole callback address,
//! which gets the key itself).
//!
//! Invariant: the address is made here of a number, or is one of the published client's closed form; no text from outside is
//! ever a redirect's target.

use url::Url;

use super::secret::is_secret;
use crate::links;

/// The longest name of a machine that is taken, in letters.
const MAX_NAME: usize = 64;
/// The longest state of a program, in letters.
const MAX_STATE: usize = 128;
/// The longest callback of the published client, in bytes.
const MAX_CALLBACK: usize = 128;

/// A program that asks for a key over loopback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliRequest {
    port: u16,
    /// Whether it listens on `[::1]` rather than on 127.0.0.1.
    v6: bool,
    pub(crate) challenge: String,
    state: String,
    /// The machine's name, as it says.
    pub(crate) name: String,
}

/// Which parameter can't be used, and what was expected.
pub(crate) type Wrong = (&'static str, &'static str);

impl CliRequest {
    /// Reads the parameters of a query or of a form.
    pub(crate) fn read(value_of: impl Fn(&str) -> Option<String>) -> Result<CliRequest, Wrong> {
        let given = |name: &str| value_of(name).unwrap_or_default();
        let port = given("port");
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| is_number && *port >= 1024);
        let state = given("state");
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        let request = CliRequest {
            port: port.ok_or(("port", "a number from 1024 to 65535"))?,
            v6: value_of("v6").is_some_and(|v6| v6 == "1"),
            challenge: given("challenge"),
            name: machine_name(&given("name")),
            state,
        };
        if !is_secret(&request.challenge) {
            return Err(("challenge", "32 bytes in base64url without padding"));
        }
        if request.state.is_empty() || request.state.len() > MAX_STATE || !request.state.chars().all(is_word)
        {
            return Err(("state", "1 to 128 letters, digits or `-._~`"));
        }
        Ok(request)
    }

    /// Where the program listens, as `http://127.0.0.1:PORT`.
    pub(crate) fn origin(&self) -> String {
        let host = if self.v6 { "[::1]" } else { "127.0.0.1" };
        format!("http://{host}:{}", self.port)
    }

    /// What a Content-Security-Policy must name for the way there. A policy can't name an IPv6 address.
    pub(crate) fn form_action(&self) -> String {
        match self.v6 {
            true => "http:".to_owned(),
            false => self.origin(),
        }
    }

    /// The answer with a one-time code.
    pub(crate) fn allowed(&self, base: &Url, code: &str) -> String {
        self.answer(base, ("code", code))
    }

    /// The answer that says no.
    pub(crate) fn refused(&self, base: &Url) -> String {
        self.answer(base, ("error", "access_denied"))
    }

    fn answer(&self, base: &Url, (name, value): (&str, &str)) -> String {
        let parameters = [
            (name, Some(value.to_owned())),
            ("state", Some(self.state.clone())),
            ("iss", Some(base.to_string())),
        ];
        links::with_query(&format!("{}/callback", self.origin()), &parameters)
    }

    /// The parameters again, for a form's hidden fields and for the way back after signing in.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![
            ("port", self.port.to_string()),
            ("challenge", self.challenge.clone()),
            ("state", self.state.clone()),
            ("name", self.name.clone()),
        ];
        if self.v6 {
            parameters.push(("v6", "1".to_owned()));
        }
        parameters
    }
}

/// What a machine calls itself, as it is kept and shown: plain letters, and not many.
pub(crate) fn machine_name(text: &str) -> String {
    let shown = |c: &char| c.is_alphanumeric() || " -_.:@()".contains(*c);
    let name: String = text.chars().filter(shown).take(MAX_NAME).collect();
    match name.trim() {
        "" => "a machine without a name".to_owned(),
        name => name.to_owned(),
    }
}

/// A callback of the published client, as published:
/// `^http://(127\.0\.0\.1|localhost)(:\d{1,5})?(/[A-Za-z0-9._~\-/]*)?$`, at most 128 characters; and with a port from 1024 on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublishedCallback {
    text: String,
    origin: String,
}

impl PublishedCallback {
    pub(crate) fn parse(text: &str) -> Option<PublishedCallback> {
        if text.len() > MAX_CALLBACK {
            return None;
        }
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // Beyond the published rule: a port that is none, or one of the system's services, gets no key; nor does port 80, which
        // is what an address without a port means.
        let (host, port) = authority.split_once(':')?;
        let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        if !matches!(host, "127.0.0.1" | "localhost") || !digits || port.parse::<u16>().ok()? < 1024 {
            return None;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._~-/".contains(c);
        path.chars().all(plain).then(|| PublishedCallback {
            text: text.to_owned(),
            origin: format!("http://{authority}"),
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// The answer with the key, as the published client takes it.
    pub(crate) fn with_key(&self, key: &str) -> String {
        links::with_query(&self.text, &[("key", Some(key.to_owned()))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn read(port: &str, changed: (&str, &str)) -> Result<CliRequest, Wrong> {
        CliRequest::read(|name| {
            let value = match name {
                _ if name == changed.0 => changed.1,
                "port" => port,
                "challenge" => CHALLENGE,
                "state" => "abc",
                "name" => "desk",
                _ => return None,
            };
            Some(value.to_owned())
        })
    }

    #[test]
    fn the_answer_goes_to_a_port_of_the_same_machine() {
        let base: Url = "https://index.example/".parse().unwrap();
        let request = read("45123", ("", "")).unwrap();
        insta::assert_snapshot!(
            request.allowed(&base, "CODE"),
            @"http://127.0.0.1:45123/callback?code=CODE&state=abc&iss=https%3A%2F%2Findex.example%2F"
        );
        insta::assert_snapshot!(
            read("45123", ("v6", "1")).unwrap().refused(&base),
            @"http://[::1]:45123/callback?error=access_denied&state=abc&iss=https%3A%2F%2Findex.example%2F"
        );
    }

    #[test]
    fn a_port_that_is_none_and_what_is_more_than_a_port_are_refused() {
        for port in [
            "",
            "0",
            "22",
            "80",
            "1023",
            "65536",
            "99999999999",
            "-1",
            "+8080",
            "8080/",
            "8080@evil",
            "127.0.0.1@evil",
            "٣٣٣٣",
        ] {
            assert_eq!(read(port, ("", "")).unwrap_err().0, "port", "{port}");
        }
        assert!(read("1024", ("", "")).is_ok());
        assert!(read("65535", ("", "")).is_ok());
        assert_eq!(read("8080", ("challenge", "short")).unwrap_err().0, "challenge");
        assert_eq!(read("8080", ("state", "")).unwrap_err().0, "state");
        assert_eq!(read("8080", ("state", "a&b")).unwrap_err().0, "state");
    }

    #[test]
    fn a_machines_name_is_kept_plain_and_short() {
        assert_eq!(machine_name("desk-1.example (lab)"), "desk-1.example (lab)");
        assert_eq!(machine_name("a\u{202e}b<b>\n"), "abb");
        assert_eq!(machine_name(" \u{7} "), "a machine without a name");
        assert_eq!(machine_name(&"x".repeat(200)).len(), MAX_NAME);
    }

    #[test]
    fn a_published_callback_is_of_the_published_form_and_on_this_machine() {
        for good in [
            "http://127.0.0.1:45123/abcDEF-_",
            "http://localhost:1024/",
            "http://127.0.0.1:45123",
            "http://localhost:8080/a/b.c~d",
        ] {
            let callback = PublishedCallback::parse(good).expect(good);
            assert!(good.starts_with(callback.origin()));
        }
        for bad in [
            "https://127.0.0.1:45123/a",
            "http://127.0.0.1@evil.example:4512/a",
            "http://127.0.0.1.evil.example/a",
            "http://user:pw@127.0.0.1:45123/a",
            "http://localhost.evil.example:45123/a",
            "http://127.0.0.1/a",
            "http://127.0.0.1:0/a",
            "http://127.0.0.1:22/a",
            "http://127.0.0.1:65536/a",
            "http://127.0.0.1:123456/a",
            "http://127.0.0.1:/a",
            "http://127.0.0.1:45123/a#b",
            "http://127.0.0.1:45123/a?b",
            "http://127.0.0.1:45123?b",
            "http://127.0.0.1:45123\\@evil.example/",
            "http://127.0.0.1:45123/a\r\nx",
            "http://[::1]:45123/a",
            "http://127.1:45123/a",
            "//127.0.0.1:45123/a",
            "",
        ] {
            assert_eq!(PublishedCallback::parse(bad), None, "{bad}");
        }
        assert_eq!(
            PublishedCallback::parse(&format!("http://127.0.0.1/{}", "a".repeat(128))),
            None
        );
    }
}
