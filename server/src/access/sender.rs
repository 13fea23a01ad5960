//! Who sent a request, by address: the peer, or what a proxy of ours says of it.
//!
//! Invariant: a header counts only where the settings name the proxy that wrote it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap};

/// The sender's address. Without a connection (a router that is called directly) it is 0.0.0.0.
pub(crate) fn address(extensions: &Extensions, headers: &HeaderMap, proxies: &[IpAddr]) -> IpAddr {
    let peer = extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| {
            peer.ip().to_canonical()
        });
    if !proxies.contains(&peer) {
        return peer;
    }
    // Each proxy adds what it saw at the end; what stands before those of ours is the sender's own claim, and so is what
    // stands before an entry that can't be read, whoever that was.
    let values: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .map(|value| value.to_str().unwrap_or_default())
        .collect();
    let mut nearest = peer;
    for entry in values.iter().rev().flat_map(|value| value.rsplit(',')) {
        match address_of(entry.trim()) {
            Some(proxy) if proxies.contains(&proxy) => nearest = proxy,
            Some(sender) => return sender,
            None => return nearest,
        }
    }
    nearest
}

/// `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:443`, as proxies write them.
fn address_of(entry: &str) -> Option<IpAddr> {
    let bare = entry
        .strip_prefix('[')
        .and_then(|entry| entry.strip_suffix(']'))
        .unwrap_or(entry);
    let address = bare
        .parse::<IpAddr>()
        .or_else(|_| entry.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proxy_of_ours_says_who_sent() {
        let proxies: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|one| one.parse().unwrap());
        let check = |peer: &str, forwarded: &str, expected: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            let found = address(&extensions, &headers, &proxies);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {forwarded}");
        };
        check("192.0.2.1", "203.0.113.9", "192.0.2.1");
        check("::ffff:192.0.2.1", "203.0.113.9", "192.0.2.1");
        check("10.0.0.1", "203.0.113.9", "203.0.113.9");
        check("10.0.0.1", "1.2.3.4, 203.0.113.9, 10.0.0.2", "203.0.113.9");
        check("10.0.0.1", "nobody", "10.0.0.1");
        check("10.0.0.1", "203.0.113.9, 10.0.0.2", "203.0.113.9");
        check("10.0.0.1", "10.0.0.2", "10.0.0.2");
        // What the sender claims stands before what a proxy wrote, in whatever form that is.
        for (wrote, expected) in [
            ("203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db8::9]:4711", "2001:db8::9"),
            ("[2001:db8::9]", "2001:db8::9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("unknown", "10.0.0.1"),
            ("_hidden", "10.0.0.1"),
            ("", "10.0.0.1"),
            ("[]", "10.0.0.1"),
            ("unknown, 10.0.0.2:80", "10.0.0.2"),
        ] {
            check("10.0.0.1", &format!("1.2.3.4, {wrote}"), expected);
        }
        assert_eq!(
            address(&Extensions::new(), &HeaderMap::new(), &[]),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        );
    }
}
