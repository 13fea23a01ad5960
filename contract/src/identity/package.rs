//! Package names and versions as npm, PyPI and OCI registries write them.
//!
//! Invariant: what is read here names a package of a registry and nothing else; a path, a URL, a repository
//! or an alias (`x@npm:y`), which would install something other than its name says, is refused.

use super::{IdentityError, Registry, shown};

/// The usual registry of images that name none.
const DEFAULT_IMAGE_REGISTRY: &str = "docker.io";

/// The longest name that npm takes.
const LONGEST_NPM_NAME: usize = 214;

/// The longest name that an OCI registry takes.
const LONGEST_OCI_NAME: usize = 255;

const LONGEST_VERSION: usize = 128;

/// A name in its registry's normal form, and the version that stands beside it.
type Named = (String, Option<String>);

/// Reads `name@version` (npm), `name==version` or `name@version` (PyPI, extras are left out), `name:tag@digest` (OCI).
pub(super) fn read(registry: Registry, spec: &str) -> Result<Named, IdentityError> {
    match registry {
        Registry::Npm => read_npm(spec),
        Registry::Pypi => read_pypi(spec),
        Registry::Oci => read_oci(spec),
    }
}

fn no_name(registry: Registry, name: &str) -> IdentityError {
    IdentityError::PackageName {
        name: shown(name),
        registry: registry.name(),
    }
}

fn read_npm(spec: &str) -> Result<Named, IdentityError> {
    // The first character may be the `@` of a scope.
    let (name, version) = match spec
        .char_indices()
        .skip(1)
        .find(|(_, character)| *character == '@')
    {
        Some((index, _)) => (&spec[..index], Some(&spec[index + 1..])),
        None => (spec, None),
    };
    if !is_npm_name(name) {
        return Err(no_name(Registry::Npm, name));
    }
    Ok((
        name.to_owned(),
        version.map(|version| read_version(version, spec)).transpose()?,
    ))
}

/// Also true for names of the time when npm took upper case: they still install.
fn is_npm_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '_', '-'])
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let is_scoped = match name.strip_prefix('@') {
        Some(rest) => rest
            .split_once('/')
            .is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    };
    is_scoped && name.len() <= LONGEST_NPM_NAME && !matches!(name, "node_modules" | "favicon.ico")
}

fn read_pypi(spec: &str) -> Result<Named, IdentityError> {
    let end = spec
        .find(|character: char| !(character.is_ascii_alphanumeric() || "-_.".contains(character)))
        .unwrap_or(spec.len());
    let (name, rest) = spec.split_at(end);
    let is_name = |name: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(name.as_bytes().first()) && edge(name.as_bytes().last())
    };
    let rest = without_extras(rest.trim_start());
    let starts_version = rest.is_empty() || rest.starts_with(['=', '<', '>', '~', '!', '@']);
    if !is_name(name) || !starts_version {
        return Err(no_name(Registry::Pypi, spec));
    }
    let version = match rest {
        "" => None,
        _ => {
            let exact = ["===", "==", "@"].iter().find_map(|sign| rest.strip_prefix(sign));
            Some(read_version(exact.unwrap_or(rest).trim(), spec)?)
        }
    };
    Ok((normal_pypi_name(name), version))
}

fn without_extras(text: &str) -> &str {
    match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((_, after)) => after.trim_start(),
        None => text,
    }
}

/// PEP 503: lower case, each run of `-`, `_` and `.` one `-`.
fn normal_pypi_name(name: &str) -> String {
    name.split(['-', '_', '.'])
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
        .to_ascii_lowercase()
}

fn read_oci(spec: &str) -> Result<Named, IdentityError> {
    let (tagged, digest) = match spec.split_once('@') {
        Some((tagged, digest)) => (tagged, Some(digest)),
        None => (spec, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let name_start = tagged.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match tagged[name_start..].find(':') {
        Some(colon) => (
            &tagged[..name_start + colon],
            Some(&tagged[name_start + colon + 1..]),
        ),
        None => (tagged, None),
    };
    let full_name = full_image_name(&name.to_ascii_lowercase());
    if !is_full_image_name(&full_name) {
        return Err(no_name(Registry::Oci, name));
    }
    let tag = tag.map(|tag| read_version(tag, spec)).transpose()?;
    let digest = digest.map(|digest| read_image_digest(digest, spec)).transpose()?;
    let version = match (tag, digest) {
        (Some(tag), Some(digest)) => Some(format!("{tag}@{digest}")),
        (tag, digest) => tag.or(digest),
    };
    Ok((full_name, version))
}

/// Whether the full name of an image says the usual registry.
pub(super) fn is_usual_image(name: &str) -> bool {
    let host = name.split_once('/').map(|(host, _)| host);
    host == Some(DEFAULT_IMAGE_REGISTRY)
}

/// Writes out what a short image name leaves unsaid: `fetch` is `docker.io/library/fetch`.
fn full_image_name(name: &str) -> String {
    let (host, path) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_IMAGE_REGISTRY, name),
    };
    let host = host
        .strip_prefix("index.")
        .filter(|host| *host == DEFAULT_IMAGE_REGISTRY)
        .unwrap_or(host);
    if host == DEFAULT_IMAGE_REGISTRY && !path.contains('/') {
        return format!("{host}/library/{path}");
    }
    format!("{host}/{path}")
}

fn is_full_image_name(name: &str) -> bool {
    let Some((host, path)) = name.split_once('/') else {
        return false;
    };
    let host_is_fine = host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[')
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let is_part = |part: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        edge(part.as_bytes().first())
            && edge(part.as_bytes().last())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    name.len() <= LONGEST_OCI_NAME && host_is_fine && path.split('/').all(is_part)
}

fn read_image_digest(digest: &str, spec: &str) -> Result<String, IdentityError> {
    let is_digest = digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty()
            && algorithm.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && hex.len() >= 32
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if !is_digest || digest.len() > 2 * LONGEST_VERSION {
        return Err(IdentityError::Version { spec: shown(spec) });
    }
    Ok(digest.to_owned())
}

/// A version, tag or range. A colon or a slash would make it a URL, a path, a repository or an alias.
fn read_version(version: &str, spec: &str) -> Result<String, IdentityError> {
    let is_version = !version.trim().is_empty()
        && version.len() <= LONGEST_VERSION
        && version
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".+-_~^<>=!*|, ".contains(&byte));
    if !is_version {
        return Err(IdentityError::Version { spec: shown(spec) });
    }
    Ok(version.to_owned())
}
