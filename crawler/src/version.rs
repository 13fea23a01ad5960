//! The order of versions: semver for npm, PEP 440 for PyPI.
//!
//! The store sorts a timeline in SQL, where neither order is known; so each version gets a text whose bytes sort as the
//! versions do. A number is written behind its own length, a list ends in a character lower than any that can follow it,
//! and whatever comes before the release (pre-release, development release) starts lower than the release's own mark.
//!
//! Invariant: for two versions of one registry, the order of their keys is the order of the versions; two that the
//! registry's rules call equal (`1.0` and `1.0.0` on PyPI, two builds on npm) have one key.

use std::str::FromStr;

use mcpindex_contract::identity::Registry;
use pep440_rs::{LocalSegment, PrereleaseKind};

/// The longest version that has a key, in bytes: npm's own limit, far beyond PyPI's real ones. Every length fits two hex digits.
pub const MAX_VERSION_BYTES: usize = 255;

/// Ends a list or a text; lower than every character that a version can have.
const END: char = '!';

/// A text that sorts (by bytes; `COLLATE "C"` in Postgres) as the versions do, for the store's timeline; `None` for a text
/// that is no version by its registry's rules (an old npm version with leading zeros, for example) and for every OCI tag.
pub fn sort_key(registry: Registry, version: &str) -> Option<String> {
    match registry {
        Registry::Npm => parse_semver(version).map(|version| semver_key(&version)),
        Registry::Pypi => parse_pep440(version).map(|version| pep440_key(&version)),
        Registry::Oci => None,
    }
}

/// Whether this is a pre-release; a text that is no version counts as one.
pub fn is_prerelease(registry: Registry, version: &str) -> bool {
    match registry {
        Registry::Npm => parse_semver(version).is_none_or(|version| !version.pre.is_empty()),
        Registry::Pypi => parse_pep440(version).is_none_or(|version| version.any_prerelease()),
        Registry::Oci => true,
    }
}

/// The one way that the registry's client writes this version (`2025.07.01` is `2025.7.1` on PyPI); `None` for a text
/// that names no exact version.
pub(crate) fn exact(registry: Registry, version: &str) -> Option<String> {
    match registry {
        Registry::Npm => parse_semver(version).map(|version| version.to_string()),
        Registry::Pypi => parse_pep440(version).map(|version| version.to_string()),
        Registry::Oci => None,
    }
}

fn parse_semver(version: &str) -> Option<semver::Version> {
    if version.len() > MAX_VERSION_BYTES {
        return None;
    }
    semver::Version::parse(version).ok()
}

fn parse_pep440(version: &str) -> Option<pep440_rs::Version> {
    if version.len() > MAX_VERSION_BYTES {
        return None;
    }
    pep440_rs::Version::from_str(version).ok()
}

fn semver_key(version: &semver::Version) -> String {
    let mut key = String::new();
    for number in [version.major, version.minor, version.patch] {
        push_digits(&mut key, &number.to_string());
    }
    if version.pre.is_empty() {
        key.push('~');
        return key;
    }
    key.push('-');
    for identifier in version.pre.split('.') {
        if identifier.bytes().all(|byte| byte.is_ascii_digit()) {
            key.push('0');
            push_digits(&mut key, identifier);
        } else {
            key.push('1');
            push_text(&mut key, identifier);
        }
    }
    key.push(END);
    key
}

fn pep440_key(version: &pep440_rs::Version) -> String {
    let mut key = String::new();
    push_digits(&mut key, &version.epoch().to_string());

    let release = version.release();
    let significant = release
        .iter()
        .rposition(|number| *number != 0)
        .map_or(0, |last| last + 1);
    for number in &release[..significant] {
        push_digits(&mut key, &number.to_string());
    }
    key.push(END);

    match version.pre() {
        Some(pre) => {
            key.push('1');
            key.push(match pre.kind {
                PrereleaseKind::Alpha => 'a',
                PrereleaseKind::Beta => 'b',
                PrereleaseKind::Rc => 'c',
            });
            push_digits(&mut key, &pre.number.to_string());
        }
        // A development release of the release itself comes before its first alpha.
        None if version.dev().is_some() && version.post().is_none() => key.push('0'),
        None => key.push('2'),
    }
    match version.post() {
        Some(number) => {
            key.push('1');
            push_digits(&mut key, &number.to_string());
        }
        None => key.push('0'),
    }
    match version.dev() {
        Some(number) => {
            key.push('0');
            push_digits(&mut key, &number.to_string());
        }
        None => key.push('1'),
    }
    for segment in version.local() {
        match segment {
            LocalSegment::String(text) => {
                key.push('0');
                push_text(&mut key, text);
            }
            LocalSegment::Number(number) => {
                key.push('1');
                push_digits(&mut key, &number.to_string());
            }
        }
    }
    key.push(END);
    key
}

/// A number without leading zeros, behind its length in two hex digits.
fn push_digits(key: &mut String, digits: &str) {
    key.push_str(&format!("{:02x}", digits.len()));
    key.push_str(digits);
}

/// A text of ASCII letters, digits and hyphens.
fn push_text(key: &mut String, text: &str) {
    key.push_str(text);
    key.push(END);
}
