//! PyPI packages through `pip`, each version in a virtual environment of its own.
//!
//! Only wheels are taken, since building a source distribution runs its code. `pip` runs from the machine's `python3` and
//! installs into the environment, which has no `pip` itself.
//!
//! Invariant: no package's code runs here; what was resolved is known by the hash of each wheel.

mod launch;

use std::path::Path;

use mcpindex_contract::digest::Digest;
use mcpindex_contract::identity::Registry;
use serde::Deserialize;

use super::cache::Record;
use super::client::{Call, Output, failed, one_line, run};
use super::{PackageError, PackageName, PublishedVersion};
use crate::jails::{Interpreter, Jails};
use crate::version;

pub(super) use launch::launch;

/// What errors call the client.
pub(super) const CLIENT: &str = "pip";

/// The virtual environment, within a version's folder.
const ENVIRONMENT: &str = "venv";

/// The longest name that is passed on, in bytes; PyPI's own limit is in the same order.
const MAX_NAME: usize = 200;

/// What says that pip gave up reaching an index: the last of its retries failed.
const LAST_RETRY: &str = "Retrying (Retry(total=0";

/// Settings that a user may have for their own installations, and that would put this one elsewhere or refuse it.
const NEUTRAL: &[(&str, &str)] = &[
    ("PIP_USER", "0"),
    ("PIP_REQUIRE_VIRTUALENV", "0"),
    ("PIP_DRY_RUN", "0"),
];

/// An empty setting takes the place of the user's: with another index named, nothing comes from a third place.
const ONLY_THE_INDEX: &[(&str, &str)] = &[
    ("PIP_USER", "0"),
    ("PIP_REQUIRE_VIRTUALENV", "0"),
    ("PIP_DRY_RUN", "0"),
    ("PIP_EXTRA_INDEX_URL", ""),
    ("PIP_FIND_LINKS", ""),
];

/// Whether this can be a project's name: not an option, a path, an extra or a URL.
pub(super) fn is_name(name: &str) -> bool {
    let edge = |edge: Option<char>| edge.is_some_and(|edge| edge.is_ascii_alphanumeric());
    edge(name.chars().next())
        && edge(name.chars().next_back())
        && name.chars().all(|other| other.is_ascii_alphanumeric() || "-._".contains(other))
        && name.len() <= MAX_NAME
        // What ends so is a file to pip.
        && ![".whl", ".zip", ".gz", ".bz2", ".xz", ".tar"].iter().any(|ending| name.to_ascii_lowercase().ends_with(ending))
}

/// The name as PEP 503 normalises it.
fn normalised(name: &str) -> String {
    let mut normal = String::new();
    for part in name.split(['-', '_', '.']).filter(|part| !part.is_empty()) {
        if !normal.is_empty() {
            normal.push('-');
        }
        normal.push_str(&part.to_ascii_lowercase());
    }
    normal
}

fn arguments(package: &PackageName, command: &[&str]) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--retries=3",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend(command.iter().map(|&argument| argument.to_owned()));
    arguments.extend(package.alternative.iter().map(|url| format!("--index-url={url}")));
    arguments
}

async fn pip(
    jails: &Jails,
    package: &PackageName,
    command: &[&str],
    directory: &Path,
) -> Result<Output, PackageError> {
    let output = run(&Call {
        program: &jails.python().await?.program.display().to_string(),
        client: "python3",
        registry: "pypi",
        args: &arguments(package, command),
        directory,
        env: if package.alternative.is_some() {
            ONLY_THE_INDEX
        } else {
            NEUTRAL
        },
        jails,
    })
    .await?;
    if output.stderr.contains("No module named pip") {
        return Err(PackageError::ClientMissing {
            client: CLIENT,
            registry: "pypi",
        });
    }
    Ok(output)
}

/// The published versions, in the client's order: those that this machine's Python can take.
pub(super) async fn versions(
    jails: &Jails,
    package: &PackageName,
) -> Result<Vec<PublishedVersion>, PackageError> {
    let empty = tempfile::tempdir().map_err(|error| failed(CLIENT, &error.to_string()))?;
    let output = pip(
        jails,
        package,
        &["index", "versions", "--pre", &package.name],
        empty.path(),
    )
    .await?;
    read_versions(package, &output)
}

/// `pip index versions` writes `Available versions: 2.0, 1.0` among other lines.
fn read_versions(package: &PackageName, output: &Output) -> Result<Vec<PublishedVersion>, PackageError> {
    if !output.success {
        let error = client_error(&output.stderr);
        if error.is_transient() || !output.stderr.contains("No matching distribution found") {
            return Err(error);
        }
        return Err(match other_python(&output.stderr, None) {
            Some(needed) => failed(
                CLIENT,
                &format!("`{}` needs another Python ({needed})", package.name),
            ),
            None => package.not_found(),
        });
    }
    let Some(listed) = output
        .stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("Available versions:"))
    else {
        return Err(failed(CLIENT, "it listed no versions"));
    };
    Ok(listed
        .split(',')
        .map(str::trim)
        .filter(|version| !version.is_empty())
        .map(|version| PublishedVersion {
            version: version.to_owned(),
            published_at: None,
            prerelease: version::is_prerelease(Registry::Pypi, version),
        })
        .collect())
}

/// What went wrong, from pip's words: the index out of reach, or its last error that says something.
fn client_error(stderr: &str) -> PackageError {
    if let Some(line) = stderr.lines().rfind(|line| line.contains(LAST_RETRY)) {
        // Before that mark is only the address of an object in pip's memory.
        let reason = line
            .rsplit_once(">: ")
            .or_else(|| line.split_once("connection broken by "));
        let reason = reason.map_or(line, |(_, reason)| reason);
        return PackageError::RegistryUnreachable {
            client: CLIENT,
            reason: one_line(reason),
        };
    }
    let errors = stderr
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ERROR:"));
    let mut said = errors
        .map(str::trim)
        .filter(|line| !line.starts_with("ResolutionImpossible"));
    let last_line = || stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    failed(
        CLIENT,
        said.next_back().or_else(last_line).unwrap_or("it gave no reason"),
    )
}

/// What pip says of versions that need another Python (`1.0 Requires-Python >=3.12; …`): of `exact`, or of the last one.
fn other_python(stderr: &str, exact: Option<&str>) -> Option<String> {
    let ignored = "Ignored the following versions that require a different python version:";
    let (_, listed) = stderr.lines().find_map(|line| line.split_once(ignored))?;
    let mut needs = listed
        .split(';')
        .filter_map(|each| each.trim().split_once(" Requires-Python "));
    match exact {
        Some(exact) => needs
            .find(|(version, _)| version::exact(Registry::Pypi, version).as_deref() == Some(exact))
            .map(|(_, python)| python.to_owned()),
        None => needs.next_back().map(|(_, python)| python.to_owned()),
    }
}

/// Installs the version into the empty `folder`.
pub(super) async fn install(
    jails: &Jails,
    package: &PackageName,
    exact: &str,
    folder: &Path,
) -> Result<Record, PackageError> {
    let make = ["-m", "venv", "--without-pip", ENVIRONMENT].map(str::to_owned);
    let call = Call {
        program: &jails.python().await?.program.display().to_string(),
        client: "python3",
        registry: "pypi",
        args: &make,
        directory: folder,
        env: &[],
        jails,
    };
    let made = run(&call).await?;
    if made.stderr.contains("No module named venv") {
        return Err(PackageError::ClientMissing {
            client: "python3-venv",
            registry: "pypi",
        });
    }
    if !made.success {
        return Err(client_error(&made.stderr));
    }
    let requirement = format!("{}=={exact}", package.name);
    let python = format!("{ENVIRONMENT}/bin/python");
    let command = [
        "--python",
        python.as_str(),
        "install",
        "--quiet",
        "--only-binary=:all:",
        "--no-warn-script-location",
        "--report=report.json",
        requirement.as_str(),
    ];
    let output = pip(jails, package, &command, folder).await?;
    if !output.success {
        if let Some(missing) = Missing::read(package, exact, &output.stderr) {
            return Err(missing.explain(jails, package, exact).await);
        }
        return Err(match other_python(&output.stderr, Some(exact)) {
            Some(needed) => failed(CLIENT, &format!("{requirement} needs another Python ({needed})")),
            None => client_error(&output.stderr),
        });
    }
    let report = std::fs::read_to_string(folder.join("report.json"))
        .map_err(|error| failed(CLIENT, &format!("report.json: {error}")))?;
    read_report(package, &report)
}

/// A requirement for which pip found no wheel; whether there is none, or no such version, is a second question.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    /// The version asked for.
    Own,
    /// A dependency: its name, and what is asked of it.
    Dependency { name: String, asked: String },
}

impl Missing {
    /// From pip's words; `None` when they say something else, or say enough.
    fn read(package: &PackageName, exact: &str, stderr: &str) -> Option<Missing> {
        if stderr.contains(LAST_RETRY) {
            return None;
        }
        let (_, requirement) = stderr
            .lines()
            .find_map(|line| line.split_once("Could not find a version that satisfies the requirement "))?;
        let (requirement, found) = requirement.split_once(" (from ")?;
        let end = requirement
            .find(|other: char| !other.is_ascii_alphanumeric() && !"-._".contains(other))
            .unwrap_or(requirement.len());
        let (name, asked) = requirement.split_at(end);
        if normalised(name) == normalised(&package.name) && asked == format!("=={exact}") {
            return other_python(stderr, Some(exact))
                .is_none()
                .then_some(Missing::Own);
        }
        // Where versions with wheels are there, but none that fits, pip's own words say enough.
        let dependency = Missing::Dependency {
            name: name.to_owned(),
            asked: asked.to_owned(),
        };
        found.ends_with("(from versions: none)").then_some(dependency)
    }

    /// Asks which versions there are, wheels or not.
    async fn explain(self, jails: &Jails, package: &PackageName, exact: &str) -> PackageError {
        match self {
            Missing::Own => match versions(jails, package).await {
                Ok(published) => explain_own(package, exact, &published),
                Err(error) => error,
            },
            Missing::Dependency { name, asked } => {
                let dependency = PackageName {
                    name,
                    ..package.clone()
                };
                match versions(jails, &dependency).await {
                    Ok(_) => {
                        let version = if asked.is_empty() {
                            "in any version".to_owned()
                        } else {
                            one_line(&asked)
                        };
                        PackageError::NeedsBuild {
                            name: dependency.name,
                            version,
                        }
                    }
                    Err(PackageError::NotFound { name, .. }) => failed(
                        CLIENT,
                        &format!("`{}` needs `{name}`, which the index does not have", package.name),
                    ),
                    Err(error) => error,
                }
            }
        }
    }
}

fn explain_own(package: &PackageName, exact: &str, published: &[PublishedVersion]) -> PackageError {
    let key = version::sort_key(Registry::Pypi, exact);
    if published
        .iter()
        .any(|published| version::sort_key(Registry::Pypi, &published.version) == key)
    {
        PackageError::NeedsBuild {
            name: package.name.clone(),
            version: exact.to_owned(),
        }
    } else {
        package.no_such_version(exact)
    }
}

/// The members of pip's installation report (version 1) that say what was resolved.
#[derive(Deserialize)]
struct Report {
    install: Vec<Resolved>,
}

#[derive(Deserialize)]
struct Resolved {
    download_info: DownloadInfo,
    #[serde(default)]
    is_direct: bool,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct DownloadInfo {
    archive_info: Option<ArchiveInfo>,
}

#[derive(Deserialize)]
struct ArchiveInfo {
    /// `sha256=…`; the older of the two forms.
    hash: Option<String>,
    #[serde(default)]
    hashes: Hashes,
}

#[derive(Default, Deserialize)]
struct Hashes {
    sha256: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

impl Resolved {
    /// `sha256:…` of the wheel.
    fn integrity(&self) -> Option<String> {
        let archive = self.download_info.archive_info.as_ref()?;
        let older = || archive.hash.as_deref()?.strip_prefix("sha256=");
        archive
            .hashes
            .sha256
            .as_deref()
            .or_else(older)
            .map(|hash| format!("sha256:{hash}"))
    }
}

/// One entry of the digest of dependencies. The members are in the order of their names and plain text, so that what
/// serde_json writes is RFC 8785.
#[derive(PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
struct Dependency {
    integrity: String,
    name: String,
    version: String,
}

/// What was resolved. The digest of dependencies covers every wheel but the package's own, sorted by normalised name. Wheels
/// differ by platform, and so does it.
fn read_report(package: &PackageName, text: &str) -> Result<Record, PackageError> {
    let report: Report =
        serde_json::from_str(text).map_err(|error| failed(CLIENT, &format!("report.json: {error}")))?;
    let mut own = None;
    let mut dependencies = Vec::new();
    for resolved in &report.install {
        let name = normalised(&resolved.metadata.name);
        if resolved.is_direct {
            return Err(failed(CLIENT, &format!("`{name}` comes from outside the index")));
        }
        let Some(integrity) = resolved.integrity() else {
            return Err(failed(CLIENT, &format!("no hash is known for `{name}`")));
        };
        let version = resolved.metadata.version.clone();
        if name == normalised(&package.name) {
            own = Some((
                version::exact(Registry::Pypi, &version).unwrap_or(version),
                integrity,
            ));
        } else {
            dependencies.push(Dependency {
                integrity,
                name,
                version,
            });
        }
    }
    let Some((version, integrity)) = own else {
        return Err(failed(CLIENT, "report.json does not name the package"));
    };
    dependencies.sort_by(|left, right| left.name.cmp(&right.name));
    let canonical = serde_json::to_string(&dependencies)
        .map_err(|error| failed(CLIENT, &format!("report.json: {error}")))?;
    Ok(Record {
        version,
        integrity: Some(integrity),
        dependencies: Some(Digest::of_canonical(&canonical).to_string()),
        published_at: None,
        // Wheels have none.
        has_install_script: false,
    })
}

/// Whether the environment still fits the machine's Python: one that was replaced by another looks for its packages in another folder.
pub(super) fn still_runs(folder: &Path, python: &Interpreter) -> bool {
    let environment = folder.join(ENVIRONMENT);
    let minor = python
        .version
        .trim_start_matches("python ")
        .rsplit_once('.')
        .map_or("", |(minor, _)| minor);
    let same = |one: &Path, other: &Path| matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other);
    let packages = environment.join("lib").join(format!("python{minor}"));
    same(&environment.join("bin/python"), &python.program) && packages.join("site-packages").is_dir()
}

#[cfg(test)]
mod tests;
