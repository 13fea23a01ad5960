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
    // Each proxy adds the address that it saw at the end; what stands before those of ours is the sender's own claim.
    let mut said: Vec<IpAddr> = Vec::new();
    for value in headers.get_all("x-forwarded-for") {
        let value = value.to_str().unwrap_or_default();
        said.extend(
            value
                .split(',')
                .filter_map(|one| one.trim().parse::<IpAddr>().ok()),
        );
    }
    let others = said.iter().rev().map(IpAddr::to_canonical);
    others
        .into_iter()
        .find(|one| !proxies.contains(one))
        .unwrap_or(peer)
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
        assert_eq!(
            address(&Extensions::new(), &HeaderMap::new(), &[]),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        );
    }
}
