//! The two cookies: a session's, and a sign-in's that is under way.
//!
//! Invariant: over https both bear `__Host-`, so that no other host and no plain http can set or read them; none is readable
//! by a script, and none is sent along when another site posts here.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use url::Url;

use super::secret::Secret;

/// Seconds that a browser keeps a session's cookie; the server's own limits are shorter or the same.
const SESSION_AGE: i64 = 7 * 86_400;
/// Seconds that a sign-in may be under way.
const SIGN_IN_AGE: i64 = 600;

/// Which cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cookie {
    Session,
    SignIn,
}

impl Cookie {
    fn name(self, base: &Url) -> String {
        let name = match self {
            Cookie::Session => "mcpindex",
            Cookie::SignIn => "mcpindex-sign-in",
        };
        match is_secure(base) {
            true => format!("__Host-{name}"),
            // Browsers send a host's cookies to all of its ports, so that two indexes on one machine need two names.
            false => format!("{name}-{}", base.port_or_known_default().unwrap_or_default()),
        }
    }

    /// The secret that a browser sends.
    pub(crate) fn of(self, base: &Url, headers: &HeaderMap) -> Option<Secret> {
        let name = self.name(base);
        let cookies = headers.get_all(COOKIE).into_iter();
        let pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        pairs
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(found, _)| *found == name)
            .find_map(|(_, value)| Secret::parse(value))
    }

    /// `Set-Cookie` that hands it over.
    pub(crate) fn set(self, base: &Url, secret: &Secret) -> Option<HeaderValue> {
        let age = match self {
            Cookie::Session => SESSION_AGE,
            Cookie::SignIn => SIGN_IN_AGE,
        };
        self.header(base, secret.expose(), age)
    }

    /// `Set-Cookie` that takes it away.
    pub(crate) fn forget(self, base: &Url) -> Option<HeaderValue> {
        self.header(base, "", 0)
    }

    fn header(self, base: &Url, value: &str, age: i64) -> Option<HeaderValue> {
        let name = self.name(base);
        let secure = if is_secure(base) { "; Secure" } else { "" };
        // Lax: a browser that comes back from its provider brings them along.
        let text = format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
        let mut header = HeaderValue::from_str(&text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

fn is_secure(base: &Url) -> bool {
    base.scheme() == "https"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_https_a_cookie_is_this_hosts_alone() {
        let secret = Secret::parse(&"A".repeat(43)).unwrap();
        let set = |base: &str| {
            let header = Cookie::Session.set(&base.parse().unwrap(), &secret).unwrap();
            header.to_str().unwrap().replace(&"A".repeat(43), "SECRET")
        };
        insta::assert_snapshot!(
            set("https://a.example/"),
            @"__Host-mcpindex=SECRET; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure"
        );
        insta::assert_snapshot!(
            set("http://127.0.0.1:8080/"),
            @"mcpindex-8080=SECRET; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax"
        );
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name_among_others() {
        let found = |base: &str, header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, header.parse().unwrap());
            Cookie::Session.of(&base.parse().unwrap(), &headers).is_some()
        };
        let secret = "B".repeat(42) + "A";
        let https = "https://a.example/";
        assert!(found(https, &format!("a=b; __Host-mcpindex={secret}")));
        assert!(
            !found(https, &format!("mcpindex={secret}")),
            "one that plain http could have set"
        );
        assert!(!found(https, &format!("x__Host-mcpindex={secret}")));
        assert!(!found(https, "__Host-mcpindex=short"));
        assert!(found(
            "http://127.0.0.1:1/",
            &format!("mcpindex-1=; mcpindex-1={secret}")
        ));
        assert!(
            !found("http://127.0.0.1:1/", &format!("mcpindex-2={secret}")),
            "another index on this machine"
        );
    }
}
