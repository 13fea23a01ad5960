//! Who is let in, and which headers go through: a page in a browser must not reach a server by way of this machine, also not
//! by a name that it made point here.
//!
//! Invariant: a request passes only with a Host that is ours and, where it has an Origin, with ours.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{self, HeaderMap, HeaderName};

use crate::proxy::listen::reply::Refused;
use crate::wire::http::SESSION;

/// Headers that belong to one connection (RFC 9110 §7.6.1), or to this one's bodies.
const OF_THE_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
];

/// Headers of a client that say something about this address, not about the server.
const OF_THIS_ADDRESS: [HeaderName; 8] = [
    header::HOST,
    header::ORIGIN,
    header::REFERER,
    // Cookies are kept by host name, whatever the port: those of another program on this machine are among them.
    header::COOKIE,
    header::ACCEPT_ENCODING,
    header::CONTENT_TYPE,
    header::EXPECT,
    HeaderName::from_static("last-event-id"),
];

/// Headers of a server that would say something about this address.
const OF_THE_SERVER: [HeaderName; 7] = [
    header::SET_COOKIE,
    header::ALT_SVC,
    header::STRICT_TRANSPORT_SECURITY,
    header::LOCATION,
    header::CONTENT_ENCODING,
    header::CONTENT_TYPE,
    header::DATE,
];

/// Lets a request in, or says why not.
pub(super) fn admit(headers: &HeaderMap, bound: SocketAddr) -> Result<(), Refused> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refused::Host);
    };
    if !host.to_str().is_ok_and(|host| is_ours(host, bound)) {
        return Err(Refused::Host);
    }
    let is_our_page = |origin: &header::HeaderValue| {
        let host = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://"));
        host.is_some_and(|host| is_ours(host, bound))
    };
    if !headers.get_all(header::ORIGIN).iter().all(is_our_page) {
        return Err(Refused::Origin);
    }
    // A browser leaves the Origin out of some requests, and says this with all of them.
    match headers.get("sec-fetch-site").map(header::HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Refused::Origin),
    }
}

/// The address that is listened on, or a loopback name for it.
fn is_ours(host: &str, bound: SocketAddr) -> bool {
    let port = bound.port();
    let address = match bound.ip() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let name = match host.rsplit_once(':') {
        Some((name, given)) if given.parse() == Ok(port) => name,
        // Port 80 goes without saying; what else has a colon is an IPv6 address.
        _ if port == 80 => host,
        _ => return false,
    };
    ["127.0.0.1", "localhost", "[::1]", &address]
        .iter()
        .any(|ours| name.eq_ignore_ascii_case(ours))
}

/// What a client's headers are to the server. A session's id that is ours means nothing there.
pub(super) fn for_the_server(headers: &HeaderMap, is_id_ours: bool) -> HeaderMap {
    let named = named_by_connection(headers);
    let passes = |name: &HeaderName| {
        let stays = OF_THE_CONNECTION.contains(name)
            || OF_THIS_ADDRESS.contains(name)
            || named.iter().any(|named| name.as_str() == named)
            || name.as_str().starts_with("sec-")
            || name.as_str().starts_with("access-control-")
            || (is_id_ours && *name == SESSION);
        !stays
    };
    pass(headers, passes)
}

/// What a server's headers are to the client. The body's type is said anew, since its body is made anew.
pub(super) fn for_the_client(headers: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(headers);
    let passes = |name: &HeaderName| {
        let stays = OF_THE_CONNECTION.contains(name)
            || OF_THE_SERVER.contains(name)
            || named.iter().any(|named| name.as_str() == named)
            // Which pages may read its answers is no decision for this address.
            || name.as_str().starts_with("access-control-");
        !stays
    };
    pass(headers, passes)
}

fn pass(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    headers
        .iter()
        .filter(|(name, _)| passes(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The headers that `Connection` names are the connection's too.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            })
    }

    #[test]
    fn only_this_address_is_let_in() {
        fn check(lines: &[(&'static str, &str)], expected: Result<(), Refused>) {
            assert_eq!(
                admit(&headers(lines), "127.0.0.1:8080".parse().unwrap()),
                expected,
                "{lines:?}"
            );
        }
        for host in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"] {
            check(&[("host", host)], Ok(()));
            check(&[("host", host), ("origin", &format!("http://{host}"))], Ok(()));
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1",
            "127.0.0.1:8081",
            "localhost.evil.example:8080",
            "127.0.0.1:8080.evil.example",
            "",
        ] {
            check(&[("host", host)], Err(Refused::Host));
        }
        check(&[], Err(Refused::Host));
        check(
            &[("host", "localhost:8080"), ("host", "evil.example")],
            Err(Refused::Host),
        );
        for origin in [
            "http://evil.example",
            "https://localhost:8080",
            "null",
            "http://localhost:3000",
        ] {
            check(
                &[("host", "localhost:8080"), ("origin", origin)],
                Err(Refused::Origin),
            );
        }
        check(
            &[("host", "localhost:8080"), ("sec-fetch-site", "cross-site")],
            Err(Refused::Origin),
        );
        check(
            &[("host", "localhost:8080"), ("sec-fetch-site", "same-site")],
            Err(Refused::Origin),
        );
        check(&[("host", "localhost:8080"), ("sec-fetch-site", "none")], Ok(()));
    }

    #[test]
    fn port_80_goes_without_saying() {
        let bound = "127.0.0.2:80".parse().unwrap();
        for host in ["localhost", "[::1]", "127.0.0.2", "127.0.0.2:80"] {
            assert_eq!(admit(&headers(&[("host", host)]), bound), Ok(()), "{host}");
        }
        assert_eq!(
            admit(&headers(&[("host", "evil.example")]), bound),
            Err(Refused::Host)
        );
    }

    #[test]
    fn what_belongs_to_the_connection_or_this_address_stays_here() {
        let found = for_the_server(
            &headers(&[
                ("host", "localhost:1"),
                ("origin", "http://localhost:1"),
                ("connection", "close, X-Hop"),
                ("x-hop", "1"),
                ("cookie", "a=b"),
                ("authorization", "Bearer x"),
                ("mcp-session-id", "s"),
                ("mcp-param-region", "eu"),
                ("x-api-key", "k"),
                ("content-length", "3"),
                ("sec-fetch-mode", "cors"),
            ]),
            false,
        );
        let mut names: Vec<_> = found.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["authorization", "mcp-param-region", "mcp-session-id", "x-api-key"]
        );
        let found = for_the_server(&headers(&[("mcp-session-id", "ours")]), true);
        assert!(found.is_empty());
    }

    #[test]
    fn what_would_speak_for_this_address_does_not_come_back() {
        let found = for_the_client(&headers(&[
            ("www-authenticate", "Bearer"),
            ("set-cookie", "a=b"),
            ("access-control-allow-origin", "*"),
            ("mcp-session-id", "s"),
            ("retry-after", "3"),
            ("transfer-encoding", "chunked"),
        ]));
        let mut names: Vec<_> = found.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["mcp-session-id", "retry-after", "www-authenticate"]);
    }
}
