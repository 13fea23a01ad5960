//! Which servers may be named to an index of the public: packages of the usual registries and servers at public addresses.
//!
//! The public constant hides no name that somebody can guess, so a command, a package of a company's registry or a server
//! inside its network is named only to the organisation's own index, under its key.
//!
//! Invariant: what is not known to be public is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcpindex_contract::identity::Identity;
use url::{Host, Url};

use super::OwnRegistries;

/// Endings of names that nobody outside can look up, or that stand for no machine.
const RESERVED: [&str; 12] = [
    "local",
    "localhost",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "test",
    "invalid",
];

/// Whether everybody may know that this server is used. Looks its name up, where it has one. Packages of `own_registries`
/// come from elsewhere than their names say.
pub(crate) async fn is_public(identity: &Identity, own_registries: &OwnRegistries) -> bool {
    match identity {
        Identity::Command { .. } => false,
        Identity::Package { .. } => identity.is_of_usual_registry() && !own_registries.has(identity),
        Identity::Remote { url } => match Url::parse(url).ok().as_ref().and_then(Url::host) {
            None => false,
            Some(Host::Ipv4(address)) => is_public_address(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => is_public_address(IpAddr::V6(address)),
            Some(Host::Domain(name)) => is_public_name(name) && is_at_public_addresses(name).await,
        },
    }
}

/// Whether a name may be looked up by everybody.
pub(crate) fn is_public_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let ends_so = |reserved: &&str| {
        name.strip_suffix(*reserved)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    name.contains('.') && !RESERVED.iter().any(ends_so)
}

/// Whether all addresses behind a name are public, and there is one.
#[expect(clippy::disallowed_methods, reason = "nobody connects to what comes of it")]
async fn is_at_public_addresses(name: &str) -> bool {
    match tokio::net::lookup_host((name, 443)).await {
        Ok(found) => {
            let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
            !addresses.is_empty() && addresses.into_iter().all(is_public_address)
        }
        Err(_) => false,
    }
}

/// Whether an address is of the public internet, by the special-purpose registries of IANA.
fn is_public_address(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = match first {
        0 | 10 | 127 => true,
        100 => second & 0xc0 == 64,
        169 => second == 254,
        172 => second & 0xf0 == 16,
        192 => second == 168 || (second == 0 && matches!(third, 0 | 2)) || (second == 88 && third == 99),
        198 => second & 0xfe == 18 || (second == 51 && third == 100),
        203 => second == 0 && third == 113,
        _ => first >= 224,
    };
    !is_special
}

/// Global unicast, without the parts of it that document, translate or tunnel.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first & 0xe000 == 0x2000
        && first != 0x2002
        && !(first == 0x2001 && (second < 0x0200 || second == 0x0db8))
        && !(first == 0x3fff && second < 0x1000)
}

#[cfg(test)]
mod tests {
    use mcpindex_contract::identity::Registry;

    use super::*;

    async fn check(text: &str, expected: bool) {
        let identity = Identity::from_reference(text).unwrap().identity;
        assert_eq!(
            is_public(&identity, &OwnRegistries::default()).await,
            expected,
            "{text}"
        );
    }

    #[tokio::test]
    async fn packages_of_the_usual_registries_are_public_and_others_are_not() {
        check("npm:@scope/name", true).await;
        check("pypi:name", true).await;
        check("oci:mcp/fetch", true).await;
        check("npm:name?registry=https://packages.example", false).await;
        check("oci:registry.example/mcp/fetch", false).await;
        let package = Identity::from_reference("npm:name").unwrap().identity;
        assert!(!is_public(&package, &OwnRegistries::of_kinds(&[Registry::Npm])).await);
        assert!(is_public(&package, &OwnRegistries::of_kinds(&[Registry::Pypi])).await);
        let command = ["./server".to_owned(), "--fast".to_owned()];
        let command = Identity::from_launch(&command).unwrap().identity;
        assert!(!is_public(&command, &OwnRegistries::default()).await);
    }

    #[tokio::test]
    async fn addresses_inside_a_network_are_not_public() {
        for inside in [
            "http://localhost:3000/mcp",
            "https://mcp.corp/",
            "https://printer.local/",
            "https://wiki/mcp",
            "https://a.internal./",
            "http://10.1.2.3/",
            "http://127.0.0.1:8080/",
            "http://100.64.0.1/",
            "http://169.254.169.254/",
            "http://172.31.0.1/",
            "http://192.168.1.1/",
            "http://198.19.0.1/",
            "http://203.0.113.9/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://[2001:db8::1]/",
            "http://[2002:a00:1::]/",
            "http://[64:ff9b::a00:1]/",
        ] {
            check(inside, false).await;
        }
        check("http://8.8.8.8/mcp", true).await;
        check("http://172.32.0.1/mcp", true).await;
        check("http://[2606:4700::1]/mcp", true).await;
    }

    #[test]
    fn a_name_is_public_when_somebody_outside_can_look_it_up() {
        assert!(is_public_name("mcp.example.com"));
        assert!(is_public_name("MCP.Example.COM."));
        assert!(is_public_name("notlocal.io"));
        assert!(!is_public_name("mcp"));
        assert!(!is_public_name("LOCALHOST"));
        assert!(!is_public_name("nas.Home.Arpa"));
        assert!(is_public_name("myhome.arpa"));
    }
}
