//! How to reach a server: what a person types, what a list says, and what the store keeps.
//!
//! Invariant: what is stored holds no credential; whoever gives one is told so, and nothing is stored.

use std::path::Path;

use mcpindex_contract::identity::{Identity, Registry};
use mcpindex_store::targets::NewTarget;
use url::Url;

use crate::package::PackageName;
use crate::version::exact;
use crate::{CrawlError, sources};

/// How to reach one server. Kept in the store as JSON.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reach {
    /// A package, started with these arguments.
    Package {
        /// `npm` or `pypi`.
        registry: String,
        /// The normalised name.
        name: String,
        /// Another registry's base URL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alternative: Option<String>,
        /// Arguments for the server.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// Names of variables that the server wants and nobody gave: it is started with stand-ins, since many servers say what
        /// they declare all the same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        variables: Vec<String>,
    },
    /// A URL.
    Url(String),
    /// A command.
    Command(Vec<String>),
    /// It can't be reached without these (headers, parts of its address, arguments), which nobody gave.
    NeedsConfig(Vec<String>),
    /// An image, which takes a container runtime.
    Container {},
}

impl Reach {
    /// As the store keeps it.
    pub fn to_json(&self) -> String {
        // Strings and lists of strings always have JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From what the store keeps; the error is one line.
    pub fn from_json(text: &str) -> Result<Reach, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The package to ask its registry about, when this is one.
    pub fn package(&self) -> Option<PackageName> {
        let Reach::Package {
            registry,
            name,
            alternative,
            ..
        } = self
        else {
            return None;
        };
        let registry = match registry.as_str() {
            "npm" => Registry::Npm,
            "pypi" => Registry::Pypi,
            _ => return None,
        };
        Some(PackageName {
            registry,
            name: name.clone(),
            alternative: alternative.clone(),
        })
    }
}

/// A target as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// Which server.
    pub identity: Identity,
    /// The version asked for.
    pub version: Option<String>,
    /// How to reach it.
    pub reach: Reach,
}

impl TargetSpec {
    /// From what a person types: `npm:NAME[@VERSION]`, `pypi:NAME[@VERSION]` (with arguments for the server), or a URL. A
    /// package given without arguments gets those that the starter list knows for it, since some don't start without.
    pub fn from_reference(text: &str, args: &[String]) -> Result<TargetSpec, CrawlError> {
        let mut spec = TargetSpec::from_reference_exactly(text, args)?;
        if let Reach::Package { args, .. } = &mut spec.reach
            && args.is_empty()
        {
            *args = sources::known_args(&spec.identity);
        }
        Ok(spec)
    }

    /// The same, with these arguments and no others.
    pub(crate) fn from_reference_exactly(text: &str, args: &[String]) -> Result<TargetSpec, CrawlError> {
        let launched = Identity::from_reference(text)?;
        if launched.has_secret {
            return Err(CrawlError::Credential);
        }
        let refuse = |reason| CrawlError::Target {
            target: text.to_owned(),
            reason,
        };
        let version = match (&launched.identity, launched.version.as_deref()) {
            // Without a version, the newest is looked at.
            (_, None | Some("latest")) => None,
            (
                Identity::Package {
                    registry: registry @ (Registry::Npm | Registry::Pypi),
                    ..
                },
                Some(version),
            ) => match exact(*registry, version) {
                Some(version) => Some(version),
                None => {
                    return Err(refuse(
                        "only an exact version can be looked at; leave it out for the newest one",
                    ));
                }
            },
            (_, Some(version)) => Some(version.to_owned()),
        };
        let reach = match &launched.identity {
            Identity::Remote { .. } if !args.is_empty() => {
                return Err(refuse("a URL takes no arguments"));
            }
            Identity::Remote { .. } => Reach::Url(storable_url(text)?),
            Identity::Package {
                registry,
                name,
                alternative,
            } => {
                let (registry, launcher) = match registry {
                    Registry::Npm => ("npm", "npx"),
                    Registry::Pypi => ("pypi", "uvx"),
                    Registry::Oci => {
                        return Err(refuse(
                            "container images are not run yet; give an npm or PyPI package or a URL",
                        ));
                    }
                };
                let mut line = vec![launcher.to_owned(), name.clone()];
                line.extend_from_slice(args);
                refuse_credentials(&line)?;
                Reach::Package {
                    registry: registry.to_owned(),
                    name: name.clone(),
                    alternative: alternative.clone(),
                    args: args.to_vec(),
                    variables: Vec::new(),
                }
            }
            Identity::Command { .. } => return Err(refuse("give the command after `--`")),
        };
        Ok(TargetSpec {
            identity: launched.identity,
            version,
            reach,
        })
    }

    /// From a command. `npx NAME` and the like stand for the package, which is installed and started as others are: what the
    /// command would fetch while it runs it could not, without a network. A look starts in a folder of its own, so parts of any other
    /// command that name something in the current folder are kept as absolute paths; the identity is that of the command as given.
    pub fn from_command(argv: &[String]) -> Result<TargetSpec, CrawlError> {
        let launched = Identity::from_launch(argv)?;
        if launched.has_secret {
            return Err(CrawlError::Credential);
        }
        if let Some(reach) = started_package(&launched.identity, argv) {
            let exact = |version: String| exact(registry_of(&launched.identity)?, &version);
            return Ok(TargetSpec {
                // A tag or a range is what follows the newest.
                version: launched.version.and_then(exact),
                identity: launched.identity,
                reach,
            });
        }
        let argv = match launched.identity {
            Identity::Command { .. } => argv
                .iter()
                .enumerate()
                .map(|(at, part)| absolute(at, part))
                .collect(),
            _ => argv.to_vec(),
        };
        Ok(TargetSpec {
            identity: launched.identity,
            version: launched.version,
            reach: Reach::Command(argv),
        })
    }

    /// What the store is to keep: `source` is `shell`, `starter` or `list`, `every` the seconds between two looks (`None`:
    /// once), `due` the first one.
    pub fn to_new_target(&self, source: &str, every: Option<i64>, due: i64) -> NewTarget {
        NewTarget {
            identity: self.identity.clone(),
            version: self.version.clone(),
            launch: self.reach.to_json(),
            source: source.to_owned(),
            every,
            due,
        }
    }
}

/// The package that a launch line starts, with the server's arguments; `None` where the line names the package in an option, and the
/// program that it starts may be another one of it.
fn started_package(identity: &Identity, argv: &[String]) -> Option<Reach> {
    let Identity::Package {
        name, alternative, ..
    } = identity
    else {
        return None;
    };
    let registry = registry_of(identity)?.name();
    let names_it = |word: &String| {
        let read = Identity::from_reference(&format!("{registry}:{word}"));
        read.is_ok_and(|read| matches!(read.identity, Identity::Package { name: read, .. } if read == *name))
    };
    let at = argv.iter().position(names_it)?;
    let before = argv.get(at.checked_sub(1)?)?;
    if ["-p", "--package", "--from", "--spec", "-w", "--with"].contains(&before.as_str()) {
        return None;
    }
    Some(Reach::Package {
        registry: registry.to_owned(),
        name: name.clone(),
        alternative: alternative.clone(),
        args: argv[at + 1..].to_vec(),
        variables: Vec::new(),
    })
}

/// The registry whose packages are installed here.
fn registry_of(identity: &Identity) -> Option<Registry> {
    match identity {
        Identity::Package {
            registry: registry @ (Registry::Npm | Registry::Pypi),
            ..
        } => Some(*registry),
        _ => None,
    }
}

fn refuse_credentials(argv: &[String]) -> Result<(), CrawlError> {
    if Identity::from_launch(argv)?.has_secret {
        return Err(CrawlError::Credential);
    }
    Ok(())
}

/// The URL with its query, which the identity leaves out but a server may need, and without its fragment.
fn storable_url(text: &str) -> Result<String, CrawlError> {
    let mut url = Url::parse(text).map_err(|_| CrawlError::Target {
        target: text.to_owned(),
        reason: "the URL can't be read",
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(CrawlError::Credential);
    }
    // A command line's rules for credentials hold for a query too: `--NAME=VALUE` a pair.
    let mut line = vec!["url".to_owned()];
    line.extend(url.query_pairs().map(|(name, value)| format!("--{name}={value}")));
    refuse_credentials(&line)?;
    url.set_fragment(None);
    Ok(url.into())
}

fn absolute(at: usize, part: &str) -> String {
    let path = Path::new(part);
    // A program without a slash is looked up on PATH, whatever the current folder holds.
    let is_name = at == 0 && !part.contains('/');
    if part.is_empty() || part.starts_with('-') || is_name || path.is_absolute() || !path.exists() {
        return part.to_owned();
    }
    match std::path::absolute(path) {
        Ok(absolute) => absolute.to_string_lossy().into_owned(),
        Err(_) => part.to_owned(),
    }
}
