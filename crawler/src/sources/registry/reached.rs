//! What an entry's packages and remotes are to a crawler: something to look at, or a reason why not.
//!
//! Invariant: a target holds no credential and starts or contacts nothing but what its identity names; whatever can't be read
//! refuses the one package or remote that it is part of.

use mcpindex::visible::visible_within;
use mcpindex_contract::identity::{Identity, Registry as PackageRegistry};
use serde_json::Value;

use super::input::{self, Filled, list, member, shown_label, text};
use crate::CrawlError;
use crate::target::TargetSpec;

/// Packages and remotes of one entry.
pub const MAX_REACHED: usize = 100;
/// Characters of a reason.
pub(super) const MAX_REASON: usize = 300;
/// Characters of a kind that nobody knows.
const MAX_KIND: usize = 60;

/// One package or remote of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// It can be looked at.
    Target {
        /// How; a package has the entry's version beside it, and the arguments that the entry fixes.
        spec: TargetSpec,
    },
    /// A person has to give something first.
    NeedsConfig {
        /// Which server; none where a part of its address is what is missing.
        identity: Option<Identity>,
        /// The version of a package.
        version: Option<String>,
        /// How it is reached without what is missing, where that is only headers or environment variables: a server may
        /// declare itself all the same.
        spec: Option<TargetSpec>,
        /// The names of what is missing, each once; never a value.
        names: Vec<String>,
    },
    /// An image, which is not run yet.
    NeedsContainerRuntime {
        /// Which.
        identity: Identity,
        /// Its tag or digest.
        version: Option<String>,
    },
    /// Nothing that can be looked at.
    Unsupported {
        /// `nuget`, `mcpb`, `npm over streamable-http`, or what else the entry calls it, in text that can be shown.
        kind: String,
        /// Which server, where it is a package that others can start.
        identity: Option<Identity>,
        /// Its version.
        version: Option<String>,
    },
    /// It can't be read, or holds what looks like a credential.
    Refused {
        /// One line, which begins with its place in the entry: `package 2: …`.
        reason: String,
    },
}

impl Reached {
    /// Which server and version; `None` where that is not known.
    fn key(&self) -> Option<(&Identity, Option<&str>)> {
        match self {
            Reached::Target { spec } => Some((&spec.identity, spec.version.as_deref())),
            Reached::NeedsConfig {
                identity, version, ..
            }
            | Reached::Unsupported {
                identity, version, ..
            } => Some((identity.as_ref()?, version.as_deref())),
            Reached::NeedsContainerRuntime { identity, version } => Some((identity, version.as_deref())),
            Reached::Refused { .. } => None,
        }
    }

    /// The lower, the more can be done with it.
    fn rank(&self) -> u8 {
        match self {
            Reached::Target { .. } => 0,
            Reached::NeedsConfig { .. } | Reached::NeedsContainerRuntime { .. } => 1,
            Reached::Unsupported { .. } | Reached::Refused { .. } => 2,
        }
    }
}

/// Everything by which an entry says that its server is reached. What is there twice, by identity and version, is kept once: in
/// the way with which most can be done, and of several the first, since entries put the way that they prefer first.
pub(super) fn reached(server: &Value) -> Result<Vec<Reached>, String> {
    let packages = list(server, "packages")?;
    let remotes = list(server, "remotes")?;
    if packages.len() + remotes.len() > MAX_REACHED {
        return Err(format!("more than {MAX_REACHED} packages and remotes"));
    }
    let packages = numbered("package", packages, package);
    let remotes = numbered("remote", remotes, remote);
    let mut kept: Vec<Reached> = Vec::new();
    for one in packages.chain(remotes) {
        let same = |other: &&mut Reached| **other == one || (one.key().is_some() && one.key() == other.key());
        match kept.iter_mut().find(same) {
            None => kept.push(one),
            Some(before) if one.rank() < before.rank() => *before = one,
            Some(_) => {}
        }
    }
    Ok(kept)
}

fn numbered<'v>(
    what: &'static str,
    items: &'v [Value],
    read: fn(&Value) -> Result<Reached, String>,
) -> impl Iterator<Item = Reached> + 'v {
    items.iter().enumerate().map(move |(number, item)| {
        let read = match item.is_object() {
            true => read(item),
            false => Err("it is no object".to_owned()),
        };
        read.unwrap_or_else(|reason| Reached::Refused {
            reason: visible_within(&format!("{what} {}: {reason}", number + 1), MAX_REASON),
        })
    })
}

fn package(package: &Value) -> Result<Reached, String> {
    let kind = text(package, "registryType").or(text(package, "registryName"));
    let kind = kind.ok_or("it has no `registryType`")?.to_ascii_lowercase();
    let registry = match kind.as_str() {
        "npm" => PackageRegistry::Npm,
        "pypi" => PackageRegistry::Pypi,
        "oci" | "docker" => PackageRegistry::Oci,
        _ => return Ok(unsupported(&kind)),
    };
    let identifier = text(package, "identifier").or(text(package, "name"));
    let identifier = identifier.ok_or("it has no `identifier`")?;
    let base = match member(package, "registryBaseUrl") {
        None => None,
        Some(Value::String(base)) => Some(base.as_str()),
        // Left out it would be the usual registry's package.
        Some(_) => return Err("its `registryBaseUrl` is no text".to_owned()),
    };
    let launched =
        Identity::from_entry_package(registry, identifier, base).map_err(|error| error.to_string())?;
    if launched.has_secret {
        return Err(credential());
    }
    if registry == PackageRegistry::Oci {
        // What stands in an image's reference says more than the version beside it.
        let beside = text(package, "version").map(str::to_owned);
        return Ok(Reached::NeedsContainerRuntime {
            identity: launched.identity,
            version: launched.version.or(beside),
        });
    }
    let version = version(package, launched.version)?;

    let mut missing = Vec::new();
    let of_runtime = input::arguments(list(package, "runtimeArguments")?, &mut missing)?;
    let arguments = input::arguments(list(package, "packageArguments")?, &mut missing)?;
    let is_whole = missing.is_empty();
    for variable in list(package, "environmentVariables")? {
        missing.extend(open_inputs(variable, "environment variable")?);
    }
    let identity = under_runtime(launched.identity, &of_runtime)?;
    // As from a person, what the starter list knows to be needed is added where an entry gives no arguments.
    let reference = reference(&identity, version.as_deref());
    let spec = TargetSpec::from_reference(&reference, &arguments).map_err(|error| reason(&error))?;
    if spec.identity != identity {
        return Err("its version names more than a version".to_owned());
    }
    match transport(package) {
        None | Some("stdio") => Ok(target(spec, missing, is_whole)),
        // It would have to be started, found on a port and asked there.
        Some(other) => Ok(Reached::Unsupported {
            kind: shown_kind(&format!("{kind} over {other}")),
            identity: Some(spec.identity),
            version: spec.version,
        }),
    }
}

fn remote(remote: &Value) -> Result<Reached, String> {
    match transport(remote) {
        None | Some("streamable-http" | "streamable" | "http" | "sse") => {}
        Some(other) => return Ok(unsupported(other)),
    }
    let template = text(remote, "url").ok_or("it has no `url`")?;
    let variables = member(remote, "variables");
    let (url, mut missing) = input::fill_url(template, variables)?;
    let is_whole = missing.is_empty();
    for header in list(remote, "headers")? {
        missing.extend(open_inputs(header, "header")?);
    }
    if !is_whole {
        dedupe(&mut missing);
        return Ok(Reached::NeedsConfig {
            identity: identity_of_template(&url)?,
            version: None,
            spec: None,
            names: missing,
        });
    }
    if url.contains(['{', '}']) {
        return Err("its URL has a brace that belongs to no variable".to_owned());
    }
    // Anything else, `npm:NAME` for one, would be read as another reference.
    Identity::from_url(&url).map_err(|error| error.to_string())?;
    let spec = TargetSpec::from_reference(&url, &[]).map_err(|error| reason(&error))?;
    Ok(target(spec, missing, true))
}

fn target(spec: TargetSpec, mut missing: Vec<String>, is_whole: bool) -> Reached {
    if missing.is_empty() {
        return Reached::Target { spec };
    }
    dedupe(&mut missing);
    Reached::NeedsConfig {
        identity: Some(spec.identity.clone()),
        version: spec.version.clone(),
        spec: is_whole.then_some(spec),
        names: missing,
    }
}

fn unsupported(kind: &str) -> Reached {
    Reached::Unsupported {
        kind: shown_kind(kind),
        identity: None,
        version: None,
    }
}

fn shown_kind(kind: &str) -> String {
    shown_label(kind, MAX_KIND)
}

/// The version of a package: an exact one as the entry gives it, or none.
fn version(package: &Value, of_identifier: Option<String>) -> Result<Option<String>, String> {
    let given = match member(package, "version") {
        None => None,
        Some(Value::String(version)) => Some(version.clone()),
        Some(_) => return Err("its version is no text".to_owned()),
    };
    let given = given.filter(|version| !version.is_empty() && version != "latest");
    match (given, of_identifier) {
        (Some(given), Some(other)) if given != other => Err("it names two versions".to_owned()),
        (given, other) => Ok(given.or(other)),
    }
}

/// The runtime's own arguments are not used, since packages are started without `npx` and `uvx`; but they may name another
/// package, or another registry, and then they are a part of which server it is.
fn under_runtime(identity: Identity, arguments: &[String]) -> Result<Identity, String> {
    let Identity::Package {
        registry,
        name,
        alternative,
    } = &identity
    else {
        return Ok(identity);
    };
    if arguments.is_empty() {
        return Ok(identity);
    }
    let runtime = if *registry == PackageRegistry::Npm {
        "npx"
    } else {
        "uvx"
    };
    let mut line = vec![runtime.to_owned()];
    line.extend_from_slice(arguments);
    line.push(name.clone());
    let launched = Identity::from_launch(&line).map_err(|error| error.to_string())?;
    if launched.has_secret {
        return Err(credential());
    }
    let named = match launched.identity {
        Identity::Package {
            registry: same,
            name: started,
            alternative,
        } if same == *registry && started == *name => alternative,
        _ => return Err("its runtime arguments may start something else than the package".to_owned()),
    };
    let named = named.filter(|url| !registry.is_usual_base(url));
    let alternative = match (alternative, named) {
        (Some(base), Some(named)) if *base != named => {
            return Err("it names two package registries".to_owned());
        }
        (base, named) => named.or_else(|| base.clone()),
    };
    Ok(Identity::Package {
        registry: *registry,
        name: name.clone(),
        alternative,
    })
}

/// A package's identity and version as one text, which is how a target is made of them.
fn reference(identity: &Identity, version: Option<&str>) -> String {
    let text = identity.to_string();
    let (name, registry) = match text.split_once('?') {
        Some((name, registry)) => (name, format!("?{registry}")),
        None => (text.as_str(), String::new()),
    };
    match version {
        Some(version) => format!("{name}@{version}{registry}"),
        None => text,
    }
}

/// The server of a URL with open variables, where they are all behind what makes the identity.
fn identity_of_template(url: &str) -> Result<Option<Identity>, String> {
    let base = url.split(['?', '#']).next().unwrap_or_default();
    if base.contains(['{', '}']) {
        return Ok(None);
    }
    Identity::from_url(base).map_err(|error| error.to_string())?;
    let launched = Identity::from_reference(base).map_err(|error| error.to_string())?;
    match launched.has_secret {
        true => Err(credential()),
        false => Ok(Some(launched.identity)),
    }
}

/// What of a header or an environment variable has to be given by a person.
fn open_inputs(input: &Value, what: &str) -> Result<Vec<String>, String> {
    if !input.is_object() {
        return Err(format!("its list of {what}s holds what is no object"));
    }
    let unnamed = format!("{what} without a name");
    Ok(
        match input::fill(input, text(input, "name").unwrap_or(&unnamed))? {
            Filled::Missing(names) => names,
            Filled::Value(_) | Filled::Nothing => Vec::new(),
        },
    )
}

/// The name of a transport, in today's form or an older one.
fn transport(item: &Value) -> Option<&str> {
    match member(item, "transport") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(transport) => text(transport, "type"),
        None => text(item, "type").or(text(item, "transportType")),
    }
}

fn dedupe(names: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
}

fn credential() -> String {
    reason(&CrawlError::Credential)
}

fn reason(error: &CrawlError) -> String {
    match error {
        // Whoever reads this did not write the entry, and can leave nothing out of it.
        CrawlError::Credential => {
            "a part of it looks like a credential, and the index stores none".to_owned()
        }
        other => other.to_string(),
    }
}
