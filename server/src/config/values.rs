//! The values of settings that are more than text: spans of time, addresses, places of databases.
//!
//! Invariant: what is refused is named as it was written, with what would be right; a password and a secret never are.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::MAX_AGE;
use mcpindex_store::approvals::queue::Scope;
use mcpindex_store::{Location, LocationError};
use secrecy::SecretString;
use url::Url;

use crate::access::{Metrics, Read};
use crate::registry::Policy;

/// The shortest and the longest time between two looks at a server, in seconds.
const EVERY_SECONDS: std::ops::RangeInclusive<i64> = 10..=365 * 86_400;

/// A span of time, written as `30m`, `24h`, `1h30m` or `7d`; whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(i64);

impl Every {
    /// 1 hour.
    pub(super) const HOUR: Every = Every(3_600);
    /// 24 hours.
    pub(super) const DAY: Every = Every(86_400);
    /// 30 days.
    pub(super) const MONTH: Every = Every(30 * 86_400);
    /// 90 days.
    pub(super) const QUARTER: Every = Every(90 * 86_400);

    /// In seconds.
    pub fn seconds(self) -> i64 {
        self.0
    }
}

const UNITS: [(char, i64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

impl std::str::FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Every, String> {
        let no_time = || format!("`{text}` is no time: write it as 30m, 24h or 7d");
        let mut seconds: i64 = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(no_time)?;
            let (number, after) = rest.split_at(digits);
            let number: i64 = number.parse().map_err(|_| no_time())?;
            let (_, unit) = UNITS
                .into_iter()
                .find(|(letter, _)| after.starts_with(*letter))
                .ok_or_else(no_time)?;
            seconds = number
                .checked_mul(unit)
                .and_then(|more| seconds.checked_add(more))
                .ok_or_else(no_time)?;
            rest = &after[1..];
        }
        if text.is_empty() {
            return Err(no_time());
        }
        if !EVERY_SECONDS.contains(&seconds) {
            return Err(format!("`{text}` is out of bounds: from 10s to 365d"));
        }
        Ok(Every(seconds))
    }
}

impl fmt::Display for Every {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = |(_, unit): &(char, i64)| self.0 % unit == 0;
        let (letter, unit) = UNITS.into_iter().find(largest).unwrap_or(('s', 1));
        // A day is written in hours, as people say it.
        match (letter, self.0 / unit) {
            ('d', 1) => write!(formatter, "24h"),
            (letter, count) => write!(formatter, "{count}{letter}"),
        }
    }
}

/// An address to listen on; `localhost` is the IPv4 loopback address.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    numeric.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!("`{text}` is no address to listen on: write it as 127.0.0.1:8080 or 0.0.0.0:8080")
    })
}

/// How long signals are kept: longer than they may be old when they come.
pub(super) fn keep(text: &str) -> Result<Every, String> {
    let keep: Every = text.parse()?;
    if keep.seconds() < MAX_AGE + Every::DAY.seconds() {
        return Err(format!(
            "`{text}` is too short: signals may be 7 days old when they come, so at least 8d"
        ));
    }
    Ok(keep)
}

/// Addresses, without networks.
pub(super) fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, String> {
    let address = |text: &String| {
        let address: Result<IpAddr, _> = text.parse();
        address.map_err(|_| format!("`{text}` is no address: write it as 10.0.0.1"))
    };
    texts.iter().map(address).collect()
}

/// Who may read.
pub(super) fn read(text: &str) -> Result<Read, String> {
    match text {
        "public" => Ok(Read::Public),
        "members" => Ok(Read::Members),
        _ => Err(format!(
            "`{text}` is no answer to who may read: write public or members"
        )),
    }
}

/// Which servers the registry lists.
pub(super) fn policy(text: &str) -> Result<Policy, String> {
    Policy::from_name(text)
        .ok_or_else(|| format!("`{text}` is no policy: write all, approved or not-drifted"))
}

/// Whose tools wait for an approver.
pub(super) fn queue(text: &str) -> Result<Scope, String> {
    match text {
        "decided" => Ok(Scope::Decided),
        "all" => Ok(Scope::All),
        _ => Err(format!(
            "`{text}` is no answer to whose tools wait: write decided or all"
        )),
    }
}

/// Who may read `/metrics`.
pub(super) fn metrics(text: &str) -> Result<Metrics, String> {
    match text {
        "open" => Ok(Metrics::Open),
        "admins" => Ok(Metrics::Admins),
        "off" => Ok(Metrics::Off),
        _ => Err(format!(
            "`{text}` is no answer to who may read /metrics: write open, admins or off"
        )),
    }
}

/// A number that something must reach.
pub(super) fn at_least_one(number: i64) -> Result<u64, String> {
    u64::try_from(number)
        .ok()
        .filter(|number| *number >= 1)
        .ok_or_else(|| format!("expected a number from 1 on, not {number}"))
}

pub(super) fn public_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{text}` is no http(s) URL"));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "`{text}` has a path, and the pages are at the root of their host"
        ));
    }
    Ok(url)
}

/// The short id of a server that is named by it or by a reference.
pub(super) fn short_id(text: &str) -> Result<String, String> {
    let is_short_id =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match text.trim() {
        text if is_short_id(text) => Ok(text.to_owned()),
        text => Identity::from_reference(text)
            .map(|named| named.identity.short_id())
            .map_err(|_| {
                format!("`{text}` names no server: write npm:NAME, pypi:NAME, oci:NAME, a URL or a short id")
            }),
    }
}

/// A client id: one word, as providers give them out.
pub(super) fn word(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected a text that is not empty".to_owned()),
        text if text.contains(char::is_whitespace) => Err(format!("`{text}` has spaces in it")),
        text => Ok(text.to_owned()),
    }
}

/// A secret: one word, which no message repeats.
pub(super) fn secret(text: &str) -> Result<SecretString, String> {
    let text = text.trim();
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err("expected a secret without spaces in it".to_owned());
    }
    Ok(text.into())
}

/// What `url` names; a relative path starts at `base`.
pub(super) fn database(text: &str, base: &Path) -> Result<Location, String> {
    match text.parse() {
        Ok(Location::Sqlite(path)) => Ok(Location::Sqlite(base.join(path))),
        Ok(location) => Ok(location),
        Err(error) => Err(LocationError::to_string(&error)),
    }
}

/// A registry's address as it is kept: with a host, without what could be a credential, a query or a last slash.
pub(super) fn registry_address(text: &str) -> Result<String, String> {
    let wrong = |reason: &str| format!("`{text}` {reason}: write it as https://registry.example.com");
    let url = Url::parse(text).map_err(|_| wrong("is no address"))?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none() {
        return Err(wrong("is no web address"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err("a registry's address has no user, password or query".to_owned());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_names_a_host_and_no_more() {
        assert!(public_url("https://index.example").is_ok());
        for wrong in [
            "index.example",
            "ftp://index.example",
            "https://index.example/sub/",
            "https://index.example/?a",
        ] {
            assert!(public_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_and_written() {
        let check = |text: &str, seconds, shown: &str| {
            let every: Every = text.parse().expect(text);
            assert_eq!((every.seconds(), every.to_string().as_str()), (seconds, shown));
        };
        check("24h", 86_400, "24h");
        check("7d", 604_800, "7d");
        check("1h30m", 5_400, "90m");
        check("45s", 45, "45s");
        for wrong in [
            "",
            "5",
            "h",
            "1w",
            "-1h",
            "1 h",
            "9s",
            "366d",
            "99999999999999999999d",
            "9223372036854775807h",
        ] {
            assert!(wrong.parse::<Every>().is_err(), "{wrong}");
        }
    }
}
