//! What somebody asks for when they make a webhook, and whether it can be had.
//!
//! A destination never holds a secret: `{secret:NAME}` stands for one, whose text is in a file of the settings' folder and is
//! put in when a delivery is made.
//!
//! Invariant: a wish that is taken can be delivered as far as that can be told without sending anything; what is refused is refused
//! with what would be right.

use std::path::Path;

use mcpindex_contract::identity::Identity;
use mcpindex_store::webhooks::{Form, Severity};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::key::read_secret;

/// Characters of a name.
const MAX_NAME: usize = 100;
/// Bytes of a destination, and of one entry of servers.
const MAX_DESTINATION: usize = 2_000;
const MAX_SERVER: usize = 1_500;
/// Entries of servers.
const MOST_SERVERS: usize = 100;
/// What a server's identity begins with.
const SCHEMES: [&str; 6] = ["npm:", "pypi:", "oci:", "https://", "http://", "cmd:"];
const OPEN: &str = "{secret:";

/// A webhook that is asked for.
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) form: Form,
    pub(crate) destination: String,
    pub(crate) severity: Severity,
    pub(crate) servers: Vec<String>,
    pub(crate) untrusted: bool,
}

/// A URL in which names stand for secrets.
pub(crate) struct Destination<'t> {
    /// Text and names in turn, text first and last.
    texts: Vec<&'t str>,
    names: Vec<&'t str>,
}

/// Checks the parts that need no settings, and brings them into the form that is kept.
pub(crate) fn checked(mut wish: Wish) -> Result<Wish, String> {
    wish.name = wish.name.trim().to_owned();
    if wish.name.is_empty() || wish.name.chars().count() > MAX_NAME || wish.name.contains(char::is_control) {
        return Err(format!("expected a name of 1 to {MAX_NAME} characters"));
    }
    wish.destination = wish.destination.trim().to_owned();
    if wish.destination.len() > MAX_DESTINATION {
        return Err(format!("the destination is longer than {MAX_DESTINATION} bytes"));
    }
    match wish.form {
        Form::GithubIssue => {
            repository(&wish.destination).ok_or_else(|| {
                "a destination of the form github-issue is a repository: write it as owner/name".to_owned()
            })?;
        }
        Form::Json | Form::Slack => {
            let destination = Destination::read(&wish.destination)?;
            if wish.form == Form::Slack && destination.names.is_empty() {
                return Err(
                    "who has the address of a Slack webhook may post there, so its last part is a secret that is not kept here: put \
                     it alone into a file in the folder of [webhooks] secrets, and write the address as \
                     https://hooks.slack.com/services/{secret:FILE}"
                        .to_owned(),
                );
            }
        }
    }
    if wish.servers.len() > MOST_SERVERS {
        return Err(format!("expected at most {MOST_SERVERS} entries of servers"));
    }
    wish.servers = wish
        .servers
        .iter()
        .map(|entry| server(entry.trim()))
        .collect::<Result<_, _>>()?;
    Ok(wish)
}

/// One entry of servers in the form that it is compared in.
fn server(entry: &str) -> Result<String, String> {
    let refused = || {
        format!(
            "`{}` names no server: write an identity as npm:@acme/files, or the beginning of one with a star as npm:@acme/*",
            entry.chars().take(100).collect::<String>().escape_debug()
        )
    };
    if entry.len() > MAX_SERVER || entry.contains(char::is_control) {
        return Err(refused());
    }
    if let Some(beginning) = entry.strip_suffix('*') {
        let known = SCHEMES
            .iter()
            .any(|scheme| beginning.starts_with(scheme) || scheme == &beginning);
        return if known && !beginning.contains('*') {
            Ok(entry.to_owned())
        } else {
            Err(refused())
        };
    }
    let found = Identity::from_reference(entry).map_err(|_| refused())?;
    Ok(found.identity.to_string())
}

/// The owner and the name of a repository.
pub(crate) fn repository(text: &str) -> Option<(&str, &str)> {
    let (owner, name) = text.split_once('/')?;
    let is_word = |word: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        !word.is_empty() && word.len() <= 100 && word.bytes().all(plain) && word != "." && word != ".."
    };
    (is_word(owner) && is_word(name)).then_some((owner, name))
}

impl<'t> Destination<'t> {
    /// Reads the text of a destination.
    pub(crate) fn read(text: &'t str) -> Result<Destination<'t>, String> {
        let mut destination = Destination {
            texts: Vec::new(),
            names: Vec::new(),
        };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (name, after) = after
                .split_once('}')
                .filter(|(name, _)| is_secret_name(name))
                .ok_or("a secret is named as {secret:NAME}, with letters, digits, `-` and `_`")?;
            destination.texts.push(before);
            destination.names.push(name);
            rest = after;
        }
        destination.texts.push(rest);
        let host = destination
            .texts
            .first()
            .and_then(|first| first.split_once("://"))
            .map(|(_, rest)| rest);
        if !destination.names.is_empty() && !host.is_some_and(|host| host.contains('/')) {
            return Err("a secret stands behind the host, in the path or the query".to_owned());
        }
        let url = destination.filled(|_| Ok("x".to_owned().into()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`{}:` is no http(s) URL", url.scheme()));
        }
        if url.fragment().is_some() || text.contains(['{', '}']) && destination.names.is_empty() {
            return Err(
                "the destination is no plain URL: no fragment, and no braces but {secret:NAME}".to_owned(),
            );
        }
        Ok(destination)
    }

    /// The URL that stands for it where no secret is known.
    pub(crate) fn sample(&self) -> Result<Url, String> {
        self.filled(|_| Ok("x".to_owned().into()))
    }

    /// The URL with its secrets, from the files of this folder.
    pub(crate) fn with_secrets(&self, folder: Option<&Path>) -> Result<Url, String> {
        self.filled(|name| {
            let folder = folder
                .ok_or("the destination names a secret, and [webhooks] secrets names no folder for them")?;
            let secret = read_secret(&folder.join(name))
                .map_err(|problem| format!("the secret `{name}`: {problem}"))?;
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%=&".contains(&byte);
            if !secret.expose_secret().bytes().all(fits) {
                return Err(format!("the secret `{name}` is no part of a URL"));
            }
            Ok(secret)
        })
    }

    /// The words of an error hold no secret.
    fn filled(&self, secret: impl Fn(&str) -> Result<SecretString, String>) -> Result<Url, String> {
        let mut text = String::new();
        for (place, part) in self.texts.iter().enumerate() {
            text.push_str(part);
            if let Some(name) = self.names.get(place) {
                text.push_str(secret(name)?.expose_secret());
            }
        }
        Url::parse(&text).map_err(|error| format!("the destination is no URL: {error}"))
    }
}

fn is_secret_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=60).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(form: Form, destination: &str, servers: &[&str]) -> Wish {
        Wish {
            name: " ops ".to_owned(),
            form,
            destination: destination.to_owned(),
            severity: Severity::All,
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
            untrusted: false,
        }
    }

    fn refused(form: Form, destination: &str, servers: &[&str]) -> String {
        checked(wish(form, destination, servers)).err().unwrap()
    }

    #[test]
    fn a_wish_is_kept_in_its_normal_form() {
        let kept = checked(wish(
            Form::Json,
            " https://hooks.example.com/a?b=c ",
            &["npm:@acme/*", "npm:files@1.2", "https://*"],
        ))
        .ok()
        .unwrap();
        assert_eq!(kept.name, "ops");
        assert_eq!(kept.destination, "https://hooks.example.com/a?b=c");
        assert_eq!(kept.servers, ["npm:@acme/*", "npm:files", "https://*"]);
        assert!(checked(wish(Form::GithubIssue, "acme/mcp.drifts", &[])).is_ok());
        assert!(
            checked(wish(
                Form::Slack,
                "https://hooks.slack.com/services/{secret:team}",
                &[]
            ))
            .is_ok()
        );
    }

    #[test]
    fn what_can_not_be_had_is_refused_with_what_would_be_right() {
        let check = |form: Form, destination: &str, part: &str| {
            let said = refused(form, destination, &[]);
            assert!(said.contains(part), "{destination}: {said}");
        };
        check(Form::Json, "hooks.example.com", "is no URL");
        check(Form::Json, "ftp://hooks.example.com/", "no http(s) URL");
        check(Form::Json, "https://hooks.example.com/#x", "no fragment");
        check(Form::Json, "https://hooks.example.com/{token}", "no braces");
        check(Form::Json, "https://{secret:host}/x", "behind the host");
        check(Form::Json, "https://a.example{secret:host}/x", "behind the host");
        check(Form::Json, "https://a.example/{secret:../key}", "letters, digits");
        check(
            Form::Slack,
            "https://hooks.slack.com/services/T0/B0/abc",
            "[webhooks] secrets",
        );
        check(Form::GithubIssue, "https://github.com/acme/a", "owner/name");
        check(Form::GithubIssue, "acme/..", "owner/name");
        for entry in ["*", "acme", "npm:a*b*", "ftp://*", ""] {
            let said = refused(Form::Json, "https://a.example/", &[entry]);
            assert!(said.contains("names no server"), "{entry}: {said}");
        }
    }

    #[test]
    fn a_secret_is_put_in_when_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let destination = Destination::read("https://hooks.slack.com/services/{secret:team}").unwrap();
        let said = destination.with_secrets(None).unwrap_err();
        assert!(said.contains("[webhooks] secrets names no folder"), "{said}");
        let said = destination.with_secrets(Some(folder.path())).unwrap_err();
        assert!(said.starts_with("the secret `team`: No such file"), "{said}");
        std::fs::write(folder.path().join("team"), "T0/B0/abc\n").unwrap();
        assert_eq!(
            destination.with_secrets(Some(folder.path())).unwrap().as_str(),
            "https://hooks.slack.com/services/T0/B0/abc"
        );
        std::fs::write(folder.path().join("team"), "x?y#z").unwrap();
        let said = destination.with_secrets(Some(folder.path())).unwrap_err();
        assert_eq!(said, "the secret `team` is no part of a URL");
    }
}
