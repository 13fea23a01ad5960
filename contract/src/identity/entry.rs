//! What entries of an MCP registry name: servers, and packages of package registries.
//!
//! Invariant: an entry's package is the same identity as a launch line's or a person's, whether or not the entry spells out the
//! registry where such packages usually are; and an identifier smuggles in nothing beside the name.

use super::{Identity, IdentityError, Launched, Registry, normal_registry, package_reference, secret, shown};
use crate::digest::Digest;

/// The longest name of a server in an MCP registry.
pub const LONGEST_SERVER_NAME: usize = 200;

/// Whether a text is a server's name by the official registry's grammar: `^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`, 3 to 200 characters.
pub fn is_server_name(text: &str) -> bool {
    let Some((space, name)) = text.split_once('/') else {
        return false;
    };
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let is_space = !space.is_empty() && space.bytes().all(word);
    let is_name = !name.is_empty() && name.bytes().all(|byte| word(byte) || byte == b'_');
    is_space && is_name && (3..=LONGEST_SERVER_NAME).contains(&text.len())
}

/// The base URLs that entries give for the registries where packages usually are, as SHA-256 of their normal form: no address of
/// a package registry stands in the source, since a user's own clients know the one to ask.
const USUAL_BASES: [(Registry, &str); 3] = [
    (
        Registry::Npm,
        "036b43b16792c643378e95923ed2f4cc78e800de141b764aeea70d47580396df",
    ),
    (
        Registry::Pypi,
        "b4c93a4591f5e6ddfc66b8a35a37ab125d5d352002bffbc5e9293a87fe06a8ca",
    ),
    (
        Registry::Pypi,
        "5a06749b2297be54ac5699f6f2761716adc5001a2d5f8b915ab2172922dd5706",
    ),
];

impl Registry {
    /// Whether this is the address of the usual registry, spelled out. Of an image the address is a part of its name, so that it
    /// is none there.
    pub fn is_usual_base(self, url: &str) -> bool {
        is_among(&USUAL_BASES, self, url)
    }
}

fn is_among(bases: &[(Registry, &str)], registry: Registry, url: &str) -> bool {
    let Ok(url) = normal_registry(url) else {
        return false;
    };
    let hex = Digest::of_canonical(&url).hex();
    bases.contains(&(registry, hex.as_str()))
}

impl Identity {
    /// From a package of an entry (`server.json`): its identifier, and the base URL of its package registry where one is given.
    pub fn from_entry_package(
        registry: Registry,
        identifier: &str,
        base: Option<&str>,
    ) -> Result<Launched, IdentityError> {
        let form = registry.name();
        // A question mark would begin another registry's address.
        if identifier.contains('?') {
            return Err(IdentityError::PackageName {
                name: shown(identifier),
                registry: form,
            });
        }
        let base = base.filter(|base| !base.is_empty());
        let spec = match (registry, base) {
            (Registry::Oci, Some(base)) => image_at(identifier, base)?,
            _ => identifier.to_owned(),
        };
        let (mut identity, version) = package_reference(registry, &spec)?;
        let other = base.filter(|base| registry != Registry::Oci && !registry.is_usual_base(base));
        if let (Some(other), Identity::Package { alternative, .. }) = (other, &mut identity) {
            *alternative = Some(normal_registry(other)?);
        }
        let is_secret_base = |base: &str| secret::looks_secret(base) || has_user(base);
        Ok(Launched {
            identity,
            version,
            has_secret: secret::looks_secret(identifier) || base.is_some_and(is_secret_base),
        })
    }
}

/// An image's reference with its registry, which older entries give beside it.
fn image_at(identifier: &str, base: &str) -> Result<String, IdentityError> {
    let names_host = identifier
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    if names_host {
        return Ok(identifier.to_owned());
    }
    let url = normal_registry(base)?;
    let host = url.split_once("://").map_or(url.as_str(), |(_, host)| host);
    Ok(format!("{host}/{identifier}"))
}

fn has_user(url: &str) -> bool {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    let authority = after.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_by_its_digest_however_it_is_written() {
        // Of `https://usual.example/npm`.
        let bases = [(
            Registry::Npm,
            "e00361679e143fc6063905edcf9a7c0545a3f07da40ae17dadb5d1fad700993f",
        )];
        for url in [
            "https://usual.example/npm",
            "https://usual.example/npm/",
            "HTTPS://Usual.Example:443/npm",
        ] {
            assert!(is_among(&bases, Registry::Npm, url), "{url}");
            assert!(!is_among(&bases, Registry::Pypi, url), "{url}");
        }
        for url in [
            "http://usual.example/npm",
            "https://usual.example",
            "no address",
            "",
        ] {
            assert!(!is_among(&bases, Registry::Npm, url), "{url}");
        }
    }

    #[test]
    fn the_usual_addresses_are_digests() {
        for (_, hex) in USUAL_BASES {
            assert!(format!("sha256:{hex}").parse::<Digest>().is_ok(), "{hex}");
        }
    }
}
