//! Which addresses may be contacted: the public internet, and the networks that the operator allows.
//!
//! An IPv6 address that carries an IPv4 one (mapped, 6to4, NAT64) is judged by what it carries, so that a private network
//! has no second spelling. Reserved ranges follow the IANA special-purpose registries.
//!
//! Invariant: a verdict names the rule and never the address, since it may be shown to people who must not learn what a
//! name resolves to inside the operator's network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IPv4 or IPv6 network, written `10.1.0.0/16`; an address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Not an address with a prefix length.
    #[error(
        "`{text}` is no network: expected an address and a prefix length, as `10.1.0.0/16` or `fd00::/8`"
    )]
    Form {
        /// What was given.
        text: String,
    },
    /// Bits are set behind the prefix.
    #[error("`{text}` has bits set behind its prefix: the network is `{network}`")]
    HostBits {
        /// What was given.
        text: String,
        /// The network it lies in.
        network: String,
    },
}

impl Network {
    /// Whether the address lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => in_v4(address, base, self.prefix),
            (IpAddr::V6(base), IpAddr::V6(address)) => in_v6(address, base, self.prefix),
            _ => false,
        }
    }

    fn is_one_address(&self) -> bool {
        self.prefix == width(self.base)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let form = || NetworkError::Form {
            text: text.to_owned(),
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(prefix.parse::<u8>().map_err(|_| form())?))
            }
            Some(_) => return Err(form()),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let prefix = prefix.unwrap_or(width(address));
        if prefix > width(address) {
            return Err(form());
        }
        let base = match address {
            IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask_v4(prefix))),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask_v6(prefix))),
        };
        let network = Network { base, prefix };
        if base != address {
            return Err(NetworkError::HostBits {
                text: text.to_owned(),
                network: network.to_string(),
            });
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.base, self.prefix)
    }
}

/// What the rules say about one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// On the public internet.
    Public,
    /// Refused by the rules, but in a network that the operator allows.
    Allowed,
    /// Not to be contacted; the text names the rule.
    Blocked(String),
}

/// The address rules with the operator's exceptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRules {
    allowed: Vec<Network>,
}

impl AddressRules {
    /// The rules, with these networks admitted although the rules refuse them.
    pub fn new(allowed: Vec<Network>) -> AddressRules {
        AddressRules { allowed }
    }

    /// Every address is admitted but a cloud's metadata address: for an origin that the administrator named.
    pub fn everywhere() -> AddressRules {
        let every = |base| Network { base, prefix: 0 };
        AddressRules::new(vec![
            every(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            every(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        ])
    }

    /// Judges one address. An allowed network admits a cloud's metadata address only when it names exactly that address:
    /// whoever allows a whole private network rarely means the credentials that are served there.
    pub fn judge(&self, address: IpAddr) -> Verdict {
        let refused = match address {
            IpAddr::V4(address) => refuse_v4(address).map(str::to_owned),
            IpAddr::V6(address) => match carried_v4(address) {
                Some((carrier, carried)) => match self.judge(IpAddr::V4(carried)) {
                    Verdict::Blocked(rule) => Some(format!("{rule} in {carrier}")),
                    verdict => return verdict,
                },
                None => refuse_v6(address).map(str::to_owned),
            },
        };
        let Some(rule) = refused else {
            return if self.allows(address, false) {
                Verdict::Allowed
            } else {
                Verdict::Public
            };
        };
        if self.allows(address, rule.starts_with(METADATA)) {
            Verdict::Allowed
        } else {
            Verdict::Blocked(rule)
        }
    }

    fn allows(&self, address: IpAddr, exactly: bool) -> bool {
        self.allowed
            .iter()
            .any(|network| network.contains(address) && (!exactly || network.is_one_address()))
    }
}

const METADATA: &str = "cloud metadata";

/// Refused IPv4 ranges, the narrower ones first so that the rule named is the one that fits best.
#[rustfmt::skip] // a row is a line
const REFUSED_V4: [(Ipv4Addr, u8, &str); 20] = [
    (Ipv4Addr::new(169, 254, 169, 254), 32, METADATA),
    (Ipv4Addr::new(169, 254, 170, 2), 32, METADATA),
    (Ipv4Addr::new(168, 63, 129, 16), 32, METADATA),
    (Ipv4Addr::new(100, 100, 100, 200), 32, METADATA),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "broadcast 255.255.255.255"),
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network 0.0.0.0/8"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private network 10.0.0.0/8"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared address space 100.64.0.0/10"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback 127.0.0.0/8"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local 169.254.0.0/16"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private network 172.16.0.0/12"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments 192.0.0.0/24"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation 192.0.2.0/24"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay 192.88.99.0/24"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private network 192.168.0.0/16"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking 198.18.0.0/15"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation 198.51.100.0/24"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation 203.0.113.0/24"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast 224.0.0.0/4"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved 240.0.0.0/4"),
];

/// Refused IPv6 ranges. What is in none of them must also lie in 2000::/3, the only range given out for global unicast.
#[rustfmt::skip] // a row is a line
const REFUSED_V6: [(Ipv6Addr, u8, &str); 16] = [
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128, METADATA),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, METADATA),
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified address ::"),
    (Ipv6Addr::LOCALHOST, 128, "loopback ::1"),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible ::/96"),
    // The place of the IPv4 address in it depends on the network, so it can't be taken out and judged.
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "local NAT64 64:ff9b:1::/48"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, "discard-only 100::/64"),
    // A tunnel end behind somebody's NAT: neither of the two IPv4 addresses it carries is where a packet ends up.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "Teredo 2001::/32"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol assignments 2001::/23"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation 2001:db8::/32"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation 3fff::/20"),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, "segment routing 5f00::/16"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "unique local fc00::/7"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local fe80::/10"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local fec0::/10"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast ff00::/8"),
];

fn refuse_v4(address: Ipv4Addr) -> Option<&'static str> {
    REFUSED_V4
        .iter()
        .find(|(base, prefix, _)| in_v4(address, *base, *prefix))
        .map(|(_, _, rule)| *rule)
}

fn refuse_v6(address: Ipv6Addr) -> Option<&'static str> {
    REFUSED_V6
        .iter()
        .find(|(base, prefix, _)| in_v6(address, *base, *prefix))
        .map(|(_, _, rule)| *rule)
        .or_else(|| (address.to_bits() >> 125 != 0b001).then_some("outside global unicast 2000::/3"))
}

/// The IPv4 address that an IPv6 one leads to, and how it carries it.
fn carried_v4(address: Ipv6Addr) -> Option<(&'static str, Ipv4Addr)> {
    let segments = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(("IPv4-mapped ::ffff:0:0/96", joined(high, low))),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(("NAT64 64:ff9b::/96", joined(high, low))),
        [0x2002, high, low, ..] => Some(("6to4 2002::/16", joined(high, low))),
        _ => None,
    }
}

fn in_v4(address: Ipv4Addr, base: Ipv4Addr, prefix: u8) -> bool {
    (address.to_bits() ^ base.to_bits()) & mask_v4(prefix) == 0
}

fn in_v6(address: Ipv6Addr, base: Ipv6Addr, prefix: u8) -> bool {
    (address.to_bits() ^ base.to_bits()) & mask_v6(prefix) == 0
}

fn mask_v4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

fn mask_v6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(address: &str, allowed: &[&str]) -> String {
        let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
        match AddressRules::new(allowed).judge(address.parse().unwrap()) {
            Verdict::Public => "public".to_owned(),
            Verdict::Allowed => "allowed".to_owned(),
            Verdict::Blocked(rule) => rule,
        }
    }

    #[test]
    fn every_refused_range_is_refused_from_its_first_to_its_last_address() {
        for (base, prefix, _) in REFUSED_V4 {
            let last = Ipv4Addr::from_bits(base.to_bits() | !mask_v4(prefix));
            for address in [base, last] {
                assert_ne!(verdict(&address.to_string(), &[]), "public", "{address}");
            }
        }
        for (base, prefix, _) in REFUSED_V6 {
            let last = Ipv6Addr::from_bits(base.to_bits() | !mask_v6(prefix));
            for address in [base, last] {
                assert_ne!(verdict(&address.to_string(), &[]), "public", "{address}");
            }
        }
    }

    #[test]
    fn neighbours_of_refused_ranges_are_public() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
            "3ffe::1",
            "2003::1",
        ] {
            assert_eq!(verdict(address, &[]), "public", "{address}");
        }
    }

    #[test]
    fn an_ipv6_address_is_judged_by_the_ipv4_address_it_carries() {
        let check = |address: &str, expected: &str| assert_eq!(verdict(address, &[]), expected, "{address}");
        check(
            "::ffff:127.0.0.1",
            "loopback 127.0.0.0/8 in IPv4-mapped ::ffff:0:0/96",
        );
        check("::ffff:8.8.8.8", "public");
        check(
            "64:ff9b::10.0.0.1",
            "private network 10.0.0.0/8 in NAT64 64:ff9b::/96",
        );
        check("64:ff9b::8.8.8.8", "public");
        check(
            "2002:c0a8:1::1",
            "private network 192.168.0.0/16 in 6to4 2002::/16",
        );
        check("2002:808:808::1", "public");
        check("2002:a9fe:a9fe::", "cloud metadata in 6to4 2002::/16");
        check("::127.0.0.1", "IPv4-compatible ::/96");
        check("64:ff9b:1::8.8.8.8", "local NAT64 64:ff9b:1::/48");
        check("2001:0:808:808::1", "Teredo 2001::/32");
        check("::ffff:0:8.8.8.8", "outside global unicast 2000::/3");
        check("4000::1", "outside global unicast 2000::/3");
    }

    #[test]
    fn an_allowed_network_admits_its_addresses_in_every_spelling_and_no_others() {
        let check = |address: &str, allowed: &str, expected: &str| {
            assert_eq!(verdict(address, &[allowed]), expected, "{address} with {allowed}");
        };
        check("10.1.2.3", "10.1.0.0/16", "allowed");
        check("::ffff:10.1.2.3", "10.1.0.0/16", "allowed");
        check("10.2.0.1", "10.1.0.0/16", "private network 10.0.0.0/8");
        check("fd12::1", "fd12::/16", "allowed");
        check("fd13::1", "fd12::/16", "unique local fc00::/7");
        check("127.0.0.1", "127.0.0.1", "allowed");
        check("::1", "::/0", "allowed");
        check("8.8.8.8", "8.8.8.0/24", "allowed");
    }

    #[test]
    fn a_metadata_address_is_admitted_only_by_its_own_name() {
        let check = |address: &str, allowed: &str, expected: &str| {
            assert_eq!(verdict(address, &[allowed]), expected, "{address} with {allowed}");
        };
        check("169.254.169.254", "169.254.0.0/16", "cloud metadata");
        check("100.100.100.200", "100.64.0.0/10", "cloud metadata");
        check("fd00:ec2::254", "fd00::/8", "cloud metadata");
        check("169.254.169.254", "169.254.169.254/32", "allowed");
    }

    #[test]
    fn a_text_that_is_no_network_says_what_one_looks_like() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Network>().unwrap_err().to_string(), expected);
        };
        let form = |text: &str| {
            format!(
                "`{text}` is no network: expected an address and a prefix length, as `10.1.0.0/16` or `fd00::/8`"
            )
        };
        for text in [
            "",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0/8",
            "host/8",
            "10.0.0.0/8/8",
        ] {
            check(text, &form(text));
        }
        check(
            "10.1.0.1/16",
            "`10.1.0.1/16` has bits set behind its prefix: the network is `10.1.0.0/16`",
        );
        assert_eq!("0.0.0.0/0".parse::<Network>().unwrap().to_string(), "0.0.0.0/0");
    }
}
