//! Which server it is, in normal form: the one key of pins, locks, seals and index rows.
//!
//! Three forms (mcp.lock draft 1 §2): a remote URL, a package of a registry, a command. Version and
//! credentials are never part of an identity.
//!
//! Invariant: one server, one identity: every way of writing the same server (a launch line, a URL, a registry
//! entry) gives the same [`Identity`], whose written form is its [`std::fmt::Display`].

mod entry;
mod launch;
mod package;
mod secret;

use std::fmt;

use url::Url;

use crate::canonical::canonical;
use crate::digest::Digest;
use crate::json::Value;

pub use entry::{LONGEST_SERVER_NAME, is_server_name};

/// A package registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Registry {
    /// npm
    Npm,
    /// PyPI
    Pypi,
    /// An OCI registry; its name is part of the package's name.
    Oci,
}

impl Registry {
    /// `npm`, `pypi` or `oci`.
    pub fn name(self) -> &'static str {
        match self {
            Registry::Npm => "npm",
            Registry::Pypi => "pypi",
            Registry::Oci => "oci",
        }
    }
}

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// A server behind a URL, normalised.
    Remote {
        /// Scheme, lower-case host, port unless default, path; nothing else.
        url: String,
    },
    /// A package, without its version.
    Package {
        /// Where.
        registry: Registry,
        /// The name, normalised as its registry does.
        name: String,
        /// Another registry than the usual one (`--registry`, `--index-url`), normalised.
        alternative: Option<String>,
    },
    /// A command that nothing else describes.
    Command {
        /// The program's base name.
        command: String,
        /// The arguments as given; credential-shaped values are `<secret>`.
        args: Vec<String>,
    },
}

/// An identity with what a launch line says beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// Which server.
    pub identity: Identity,
    /// The version that the line asks for, if any: an exact one, a tag, or a range as written.
    pub version: Option<String>,
    /// Whether an argument looked like a credential, so that a lock must refuse the line.
    pub has_secret: bool,
}

/// Why a text names no server. What was given is shown escaped and without a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// None of the known forms.
    #[error("`{text}` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL")]
    UnknownForm {
        /// What was given.
        text: String,
    },
    /// A command's identity, which holds only a hash of the command.
    #[error(
        "`{text}` does not say what to start: give the command itself, or `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL"
    )]
    CommandForm {
        /// What was given.
        text: String,
    },
    /// The package name breaks its registry's rules.
    #[error("`{name}` is no {registry} package name")]
    PackageName {
        /// What was given.
        name: String,
        /// `npm`, `pypi` or `oci`.
        registry: &'static str,
    },
    /// What stands where the version is due can't be one.
    #[error("`{spec}` names no version: expected a number, a tag or a range after the name")]
    Version {
        /// What was given, with the package's name.
        spec: String,
    },
    /// The URL can't be an identity.
    #[error("`{url}` can't name a server: {problem}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An empty launch line.
    #[error("the command is empty")]
    EmptyCommand,
}

impl Identity {
    /// From a URL: http or https, in ASCII. Userinfo, query and fragment are dropped; the path stays as written.
    pub fn from_url(url: &str) -> Result<Identity, IdentityError> {
        Ok(Identity::Remote {
            url: normal_url(url)?,
        })
    }

    /// From a launch line (`npx -y @scope/name@1.2 …`, `uvx --from …`, `docker run …`, or any command).
    ///
    /// A line that a package runner could read in more than one way is a command, never a guessed package.
    pub fn from_launch(argv: &[String]) -> Result<Launched, IdentityError> {
        let (program, args) = argv.split_first().ok_or(IdentityError::EmptyCommand)?;
        let command = launch::base_name(program);
        if command.trim().is_empty() {
            return Err(IdentityError::EmptyCommand);
        }
        let (shown_args, has_secret) = secret::without_secrets(args);
        let (identity, version) = launch::package(command, args).unwrap_or_else(|| {
            let command = command.to_owned();
            let args = shown_args;
            (Identity::Command { command, args }, None)
        });
        Ok(Launched {
            identity,
            version,
            has_secret,
        })
    }

    /// From what a person types: `npm:NAME[@VERSION]`, `pypi:NAME[@VERSION]` (or `==VERSION`), `oci:NAME[:TAG]`,
    /// the first two also with `?registry=URL` at the end, or a URL. Every remote's and package's
    /// [`fmt::Display`] is such a text. A `cmd:` form can't be taken apart again and is refused here.
    pub fn from_reference(text: &str) -> Result<Launched, IdentityError> {
        let text = text.trim();
        let (form, rest) = text.split_once(':').unwrap_or((text, ""));
        let (identity, version) = match form.to_ascii_lowercase().as_str() {
            "npm" => package_reference(Registry::Npm, rest)?,
            "pypi" => package_reference(Registry::Pypi, rest)?,
            "oci" => package_reference(Registry::Oci, rest)?,
            "http" | "https" => (Identity::from_url(text)?, None),
            "cmd" => return Err(IdentityError::CommandForm { text: shown(text) }),
            _ => return Err(IdentityError::UnknownForm { text: shown(text) }),
        };
        Ok(Launched {
            identity,
            version,
            has_secret: secret::looks_secret(text),
        })
    }

    /// The identity object of the lock format, as canonical JSON.
    ///
    /// The lock format has no word for another package registry, so a lock gives such a launch line the command
    /// form. Here, where the line is not known any more, it is `{"kind":"stdio","package":"npm:NAME?registry=URL"}`:
    /// never the usual registry's package.
    pub fn to_lock_json(&self) -> String {
        let members = match self {
            Identity::Remote { url } => vec![member("kind", "remote"), member("url", url)],
            Identity::Package { .. } => vec![member("kind", "stdio"), member("package", &self.to_string())],
            Identity::Command { command, args } => {
                let args = args.iter().cloned().map(Value::String).collect();
                vec![
                    member("kind", "stdio"),
                    member("command", command),
                    ("args".to_owned(), Value::Array(args)),
                ]
            }
        };
        canonical(&Value::Object(members), None)
            .expect("three levels of strings always have a canonical text")
    }

    /// The short id: the first 16 hex digits of SHA-256 over [`Identity::to_lock_json`] (the lock format's h16).
    pub fn short_id(&self) -> String {
        let mut id = Digest::of_canonical(&self.to_lock_json()).hex();
        id.truncate(16);
        id
    }

    /// Whether it is a package where its kind of package usually is: no other registry was named, and an image names none.
    pub fn is_of_usual_registry(&self) -> bool {
        match self {
            Identity::Package {
                registry: Registry::Oci,
                name,
                alternative: None,
            } => package::is_usual_image(name),
            Identity::Package { alternative, .. } => alternative.is_none(),
            Identity::Remote { .. } | Identity::Command { .. } => false,
        }
    }

    /// `remote`, `npm`, `pypi`, `oci` or `command`.
    pub fn form(&self) -> &'static str {
        match self {
            Identity::Remote { .. } => "remote",
            Identity::Package { registry, .. } => registry.name(),
            Identity::Command { .. } => "command",
        }
    }
}

impl fmt::Display for Identity {
    /// `npm:@scope/name`, `npm:name?registry=https://host/path`, `pypi:name`, `oci:registry/name`,
    /// `https://host/path`, `cmd:<short id>:<basename>`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Remote { url } => formatter.write_str(url),
            Identity::Package {
                registry,
                name,
                alternative,
            } => {
                write!(formatter, "{}:{name}", registry.name())?;
                match alternative {
                    Some(url) => write!(formatter, "?registry={url}"),
                    None => Ok(()),
                }
            }
            Identity::Command { command, .. } => {
                // The short id tells commands apart, so a control character may go: this is shown in terminals.
                let name = command.replace(char::is_control, "-");
                write!(formatter, "cmd:{}:{name}", self.short_id())
            }
        }
    }
}

fn member(name: &str, value: &str) -> (String, Value) {
    (name.to_owned(), Value::String(value.to_owned()))
}

fn package_reference(registry: Registry, text: &str) -> Result<(Identity, Option<String>), IdentityError> {
    let (spec, query) = match text.split_once('?') {
        Some((spec, query)) => (spec, Some(query)),
        None => (text, None),
    };
    let alternative = match query {
        None => None,
        Some(query) => match query.strip_prefix("registry=") {
            Some(url) if registry != Registry::Oci => Some(normal_registry(url)?),
            _ => {
                return Err(IdentityError::UnknownForm {
                    text: shown(&format!("{}:{text}", registry.name())),
                });
            }
        },
    };
    let (name, version) = package::read(registry, spec)?;
    let identity = Identity::Package {
        registry,
        name,
        alternative,
    };
    Ok((identity, version))
}

/// A package registry's URL as part of an identity: one with and without a slash at the end are the same.
fn normal_registry(url: &str) -> Result<String, IdentityError> {
    Ok(normal_url(url)?.trim_end_matches('/').to_owned())
}

/// The lock format's normal form of a URL. The path is taken from the text and not from the parsed URL, which
/// would add a slash to an empty one and resolve dot segments.
fn normal_url(text: &str) -> Result<String, IdentityError> {
    let refuse = |problem| IdentityError::Url {
        url: shown_url(text),
        problem,
    };
    if let Some(odd) = text.chars().find(|character| !character.is_ascii_graphic()) {
        return Err(refuse(if odd.is_ascii() {
            "it holds a space or control character"
        } else {
            "it is not ASCII"
        }));
    }
    if text.contains('\\') {
        return Err(refuse("it holds a backslash"));
    }
    let (scheme, after_scheme) = text
        .split_once("://")
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        .ok_or_else(|| refuse("it is no http(s) URL"))?;
    let parsed = Url::parse(text).map_err(|_| refuse("it is no valid URL"))?;
    if after_scheme.starts_with('/') {
        return Err(refuse("it has no host"));
    }
    let host = parsed.host_str().ok_or_else(|| refuse("it has no host"))?;
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    let until_query = after_scheme.split(['?', '#']).next().unwrap_or_default();
    let path = until_query.find('/').map_or("", |start| &until_query[start..]);
    Ok(format!("{}://{host}{port}{path}", scheme.to_ascii_lowercase()))
}

/// What was given, fit for one line of an error: no credential, no control character, not long.
fn shown(text: &str) -> String {
    const LONGEST: usize = 120;
    if secret::looks_secret(text) {
        return secret::SECRET.to_owned();
    }
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// As [`shown`], without the parts of a URL where credentials stand.
fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return shown(url);
    };
    let after_userinfo = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
    let until_query = after_userinfo.split(['?', '#']).next().unwrap_or_default();
    shown(&format!("{scheme}://{until_query}"))
}
