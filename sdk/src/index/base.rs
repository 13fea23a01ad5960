//! The address of an index: what all its other addresses begin with.
//!
//! Invariant: it is `http` or `https`, names a host, ends in a slash and has no name, password, query or fragment; two
//! spellings of one address are equal.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use crate::index::IndexError;

/// Where an index is: `https://index.example/`, or a path below a host. Ends in a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base(Url);

impl Base {
    /// Reads an address as a person writes it; a missing slash at the end is added.
    pub fn parse(text: &str) -> Result<Base, IndexError> {
        let text = text.trim();
        let no = |why| {
            // A password that stood in it is not repeated.
            let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
            Err(IndexError::NoBase {
                text: shown.chars().take(200).collect(),
                why,
            })
        };
        let lower = text.to_ascii_lowercase();
        if !lower.starts_with("https://") && !lower.starts_with("http://") {
            return no("it begins with https://, or with http:// on this machine");
        }
        let Ok(mut url) = Url::parse(text) else {
            return no("it can't be read as a URL");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return no("it must hold no name and no password");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return no("it ends before any `?` and `#`");
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        Ok(Base(url))
    }

    /// The address as a URL.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// The address as text, with its slash at the end.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// An address below this one: `api/v1/whoami`, with a query after a `?` where there is one. Whatever the text says, the
    /// result is of this origin.
    pub fn at(&self, path: &str) -> Url {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path()));
        url.set_query(query);
        url
    }

    /// Whether a key may be sent there.
    pub fn is_protected(&self) -> bool {
        self.0.scheme() == "https" || is_loopback(&self.0)
    }
}

/// Whether a URL's host is this very machine, so that nobody else reads what is sent there: `localhost` itself, 127.0.0.0/8 and
/// `::1`. A name below `localhost` is whatever the machine's resolver makes of it, and an IPv4 address within IPv6 takes a way
/// that not every system keeps inside: neither counts.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl fmt::Display for Base {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for Base {
    type Err = IndexError;

    fn from_str(text: &str) -> Result<Base, IndexError> {
        Base::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_spelling() {
        let check = |text: &str, expected: &str| assert_eq!(Base::parse(text).unwrap().as_str(), expected);
        check("https://index.example", "https://index.example/");
        check(" HTTPS://Index.Example:443/ ", "https://index.example/");
        check("https://index.example/a/b", "https://index.example/a/b/");
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080/");
        check("http://[::1]:8080/", "http://[::1]:8080/");
    }

    #[test]
    fn what_is_no_address_of_an_index_is_said() {
        let check = |text: &str, expected: &str| {
            let error = Base::parse(text).unwrap_err().to_string();
            assert_eq!(error, expected, "{text}");
        };
        check(
            "index.example",
            "`index.example` is no address of an index: it begins with https://, or with http:// on this machine",
        );
        check(
            "https://ann:secret@index.example/",
            "`index.example/` is no address of an index: it must hold no name and no password",
        );
        check(
            "https://index.example/?a=b",
            "`https://index.example/?a=b` is no address of an index: it ends before any `?` and `#`",
        );
        check(
            "https://",
            "`https://` is no address of an index: it can't be read as a URL",
        );
        for text in [
            "",
            "ftp://a.example/",
            "javascript:alert(1)",
            "https:index.example",
        ] {
            assert!(Base::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_is_safe_over_tls_and_on_this_machine() {
        let check = |text: &str, expected: bool| {
            assert_eq!(Base::parse(text).unwrap().is_protected(), expected, "{text}");
        };
        check("https://index.example/", true);
        check("http://127.0.0.1/", true);
        check("http://127.8.0.1:1/", true);
        check("http://localhost:1/", true);
        check("http://[::1]/", true);
        check("http://index.example/", false);
        check("http://10.0.0.1/", false);
        check("http://localhost.example/", false);
        check("http://127.0.0.1.example/", false);
    }

    #[test]
    fn this_machine_is_known_by_its_own_addresses_alone() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_loopback(&text.parse().unwrap()), expected, "{text}");
        };
        check("http://localhost/", true);
        check("https://LOCALHOST:8443/a", true);
        check("http://127.0.0.1:8080/", true);
        check("http://127.255.255.254/", true);
        // Another spelling of 127.0.0.1, which URLs read as that.
        check("http://127.1/", true);
        check("http://[::1]:8080/", true);
        check("http://[0:0::1]/", true);
        check("http://ann@localhost/", true);
        check("http://a.localhost/", false);
        check("http://localhost./", false);
        check("http://localhost.example/", false);
        check("http://127.0.0.1.example/", false);
        check("http://localhost@index.example/", false);
        check("http://[::ffff:127.0.0.1]/", false);
        check("http://0.0.0.0/", false);
        check("http://[::]/", false);
        check("http://128.0.0.1/", false);
        check("http://10.0.0.1/", false);
        check("file:///localhost", false);
        check("mailto:ann@localhost", false);
    }

    #[test]
    fn no_path_leads_to_another_origin() {
        let base = Base::parse("https://index.example/a").unwrap();
        let check = |path: &str, expected: &str| assert_eq!(base.at(path).as_str(), expected);
        check("api/v1/whoami", "https://index.example/a/api/v1/whoami");
        check("api?x=y%20z&q=a?b", "https://index.example/a/api?x=y%20z&q=a?b");
        for path in [
            "//evil.example/",
            "https://evil.example/",
            "@evil.example",
            "../../..",
            "#f",
        ] {
            assert_eq!(base.at(path).host_str(), Some("index.example"), "{path}");
        }
    }
}
