//! Whose turn a look takes: the registrable domain of a remote server, by the public suffix list.
//!
//! Invariant: two servers that one registrant runs share a turn, however many hosts it gives them; tenants of a shared suffix don't.

use url::{Host, Url};

/// The registrable domain of a remote server's identity (`example.co.uk` of `https://mcp.example.co.uk/mcp`), the address where the
/// host is one, the host where it is no public name; `None` for what is not remote.
pub(crate) fn domain_of(identity: &str) -> Option<String> {
    let url = Url::parse(identity).ok()?;
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    match url.host()? {
        Host::Domain(host) => {
            let host = host.trim_end_matches('.');
            Some(psl::domain_str(host).unwrap_or(host).to_owned())
        }
        address => Some(address.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_registrant_share_a_turn_and_tenants_do_not() {
        let check = |identity: &str, expected: Option<&str>| {
            assert_eq!(domain_of(identity).as_deref(), expected, "{identity}");
        };
        check("https://mcp.example.com/mcp", Some("example.com"));
        check("https://a.b.example.co.uk/", Some("example.co.uk"));
        check("https://one.github.io/mcp", Some("one.github.io"));
        check("https://two.github.io/mcp", Some("two.github.io"));
        check("http://10.0.0.7:8080/mcp", Some("10.0.0.7"));
        check("https://[fd00::1]/mcp", Some("[fd00::1]"));
        check("http://localhost:3000/mcp", Some("localhost"));
        check("npm:@scope/name", None);
        check("cmd:0123456789abcdef:node", None);
    }
}
