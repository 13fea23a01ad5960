//! npm packages through the `npm` client.
//!
//! A version is installed as the one dependency of an empty project, so its lock file says what was resolved. The program
//! is the one that `npx` would start.
//!
//! Invariant: no install script runs, and nothing comes from anywhere but the registry: git, URL and folder dependencies
//! are refused by the client's options before they are fetched, and again by what the lock file says.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use mcpindex::wire::stdio::Launch;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::identity::Registry;
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::cache::Record;
use super::client::{Call, Output, failed, one_line, read_bounded, run};
use super::{PackageError, PackageName, PublishedVersion};
use crate::jails::Jails;
use crate::version;

/// What errors call the client.
pub(super) const CLIENT: &str = "npm";

/// The longest name that npm takes, in bytes.
const MAX_NAME: usize = 214;

/// How an installation is asked for. The last is for clients that don't know `--allow-git`: they find no git. A registry that fails, or
/// whose answer does not have its hash, is asked again soon: by itself the client waits for longer than a call may take.
const INSTALL: &[&str] = &[
    "install",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--json",
    "--prefix=.",
    "--global=false",
    "--omit=dev",
    "--install-strategy=hoisted",
    "--package-lock=true",
    "--lockfile-version=3",
    "--omit-lockfile-registry-resolved=true",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=10000",
    "--allow-git=none",
    "--allow-remote=none",
    "--allow-file=none",
    "--allow-directory=none",
    "--git=mcpindex-refuses-git",
];

/// Codes of npm's errors that say the registry could not be reached.
const UNREACHABLE: &[&str] = &[
    "EAI_AGAIN",
    "ECONNABORTED",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "EIDLETIMEOUT",
    "ENETUNREACH",
    "ENOTFOUND",
    "EPIPE",
    "ERR_SOCKET_TIMEOUT",
    "ETIMEDOUT",
    "FETCH_ERROR",
    "E429",
    "E500",
    "E502",
    "E503",
    "E504",
];

/// Whether this can be a package's name: not an option, a path, an archive or a git shorthand.
pub(super) fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part
                .chars()
                .all(|other| other.is_ascii_alphanumeric() || "-._~".contains(other))
    };
    let lower = name.to_ascii_lowercase();
    let archive = [".tgz", ".tar.gz", ".tar"]
        .iter()
        .any(|ending| lower.ends_with(ending));
    let valid = match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    };
    valid && !archive && name.len() <= MAX_NAME
}

/// Options that name another registry than the user's. A scope may have a registry of its own in the user's
/// configuration, so it is named too.
fn registry_options(package: &PackageName) -> Vec<String> {
    let Some(url) = &package.alternative else {
        return Vec::new();
    };
    let mut options = vec![format!("--registry={url}")];
    if let Some((scope, _)) = package.name.split_once('/') {
        options.push(format!("--{scope}:registry={url}"));
    }
    options
}

fn view_arguments(package: &PackageName) -> Vec<String> {
    let mut arguments: Vec<String> = ["view", "--json", &package.name, "versions", "time"]
        .map(str::to_owned)
        .into();
    arguments.extend(registry_options(package));
    arguments
}

fn install_arguments(package: &PackageName) -> Vec<String> {
    let mut arguments: Vec<String> = INSTALL.iter().map(|&argument| argument.to_owned()).collect();
    arguments.extend(registry_options(package));
    arguments
}

async fn npm(jails: &Jails, arguments: &[String], directory: &Path) -> Result<Output, PackageError> {
    let npm = jails.npm().await?.display().to_string();
    let line = [&[npm], arguments].concat();
    run(&Call {
        program: &jails.node().await?.program.display().to_string(),
        client: CLIENT,
        registry: "npm",
        args: &line,
        directory,
        env: &[],
        jails,
    })
    .await
}

/// The published versions, in the client's order.
pub(super) async fn versions(
    jails: &Jails,
    package: &PackageName,
) -> Result<Vec<PublishedVersion>, PackageError> {
    let empty = tempfile::tempdir().map_err(|error| failed(CLIENT, &error.to_string()))?;
    let output = npm(jails, &view_arguments(package), empty.path()).await?;
    read_view(package, &output)
}

/// `npm view --json NAME versions time`: an object of both, where a lone version is a string and not a list; only the
/// versions, when the registry tells no times; nothing at all, when every version is withdrawn.
fn read_view(package: &PackageName, output: &Output) -> Result<Vec<PublishedVersion>, PackageError> {
    if !output.success {
        let error = ClientError::read(output);
        return Err(if error.code == "E404" {
            package.not_found()
        } else {
            error.into_package_error()
        });
    }
    if output.stdout.trim().is_empty() {
        return Err(package.not_found());
    }
    let answer: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| failed(CLIENT, &format!("its answer is no JSON: {error}")))?;
    let (versions, time) = match &answer {
        Value::Object(members) => (
            members.get("versions").unwrap_or(&Value::Null),
            members.get("time"),
        ),
        versions => (versions, None),
    };
    let versions: Vec<&str> = match versions {
        Value::String(version) => vec![version],
        Value::Array(versions) => versions.iter().filter_map(Value::as_str).collect(),
        _ => return Err(package.not_found()),
    };
    let published_at = |version: &str| {
        let text = time?.get(version)?.as_str()?;
        Some(OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp())
    };
    Ok(versions
        .into_iter()
        .map(|version| PublishedVersion {
            version: version.to_owned(),
            published_at: published_at(version),
            prerelease: version::is_prerelease(Registry::Npm, version),
        })
        .collect())
}

/// What npm says under `--json` when it fails: a code, a line, and a text.
struct ClientError {
    code: String,
    summary: String,
    detail: String,
}

impl ClientError {
    fn read(output: &Output) -> ClientError {
        let answer: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        let member = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
        let mut error = ClientError {
            code: member("code"),
            summary: member("summary"),
            detail: member("detail"),
        };
        if error.summary.is_empty() {
            error.summary = last_words(&output.stderr);
        }
        error
    }

    fn into_package_error(self) -> PackageError {
        let reason = one_line(&self.summary);
        if UNREACHABLE.contains(&self.code.as_str()) {
            return PackageError::RegistryUnreachable {
                client: CLIENT,
                reason,
            };
        }
        PackageError::Client {
            client: CLIENT,
            reason,
        }
    }
}

/// The last line of npm's errors that says something: not where its log is, not an empty frame.
fn last_words(stderr: &str) -> String {
    let said = stderr.lines().rev().filter_map(|line| {
        let line = line.trim();
        let line = line
            .strip_prefix("npm error")
            .or_else(|| line.strip_prefix("npm ERR!"))
            .unwrap_or(line)
            .trim();
        let tells = !line.is_empty() && !line.starts_with("A complete log of this run");
        tells.then(|| line.to_owned())
    });
    said.into_iter()
        .next()
        .unwrap_or_else(|| "it gave no reason".to_owned())
}

/// Installs the version into the empty `folder`.
pub(super) async fn install(
    jails: &Jails,
    package: &PackageName,
    exact: &str,
    folder: &Path,
) -> Result<Record, PackageError> {
    let project = serde_json::json!({ "private": true, "dependencies": { &package.name: exact } });
    std::fs::write(folder.join("package.json"), project.to_string())
        .map_err(|error| failed(CLIENT, &error.to_string()))?;
    let arguments = install_arguments(package);
    // The publication times come from a second question, asked at the same time; they are for show, so that its failure is none.
    let (output, published) = tokio::join!(npm(jails, &arguments, folder), versions(jails, package));
    let output = output?;
    if !output.success {
        return Err(install_error(package, exact, &output));
    }
    let lock = std::fs::read_to_string(folder.join("package-lock.json"))
        .map_err(|error| failed(CLIENT, &format!("package-lock.json: {error}")))?;
    let mut record = read_lock(package, &lock, |path| folder.join(path).exists())?;
    record.published_at = published
        .ok()
        .and_then(|versions| {
            versions
                .into_iter()
                .find(|published| published.version == record.version)
        })
        .and_then(|published| published.published_at);
    Ok(record)
}

/// Tells what is wrong with the package itself from what is wrong with a dependency.
fn install_error(package: &PackageName, exact: &str, output: &Output) -> PackageError {
    let error = ClientError::read(output);
    let ours = format!("{}@{exact}", package.name);
    let names_ours = |text: &str| {
        text.split(|end: char| end.is_whitespace() || "'\"`".contains(end))
            .any(|word| word.trim_end_matches('.') == ours)
    };
    match error.code.as_str() {
        "ETARGET" if names_ours(&error.summary) => package.no_such_version(exact),
        "E404" if error.summary.contains("No match found for version") && names_ours(&error.detail) => {
            package.no_such_version(exact)
        }
        "E404" if names_ours(&error.detail) => package.not_found(),
        "EALLOWGIT" | "EALLOWREMOTE" | "EALLOWFILE" | "EALLOWDIRECTORY" | "ENOGIT" => failed(
            CLIENT,
            &format!("a dependency comes from outside the registry: {}", error.summary),
        ),
        _ => error.into_package_error(),
    }
}

/// The members of a lock file (version 3) that say what was resolved.
#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

/// One resolved package; the registry's own URLs are left out (`--omit-lockfile-registry-resolved`), so any other shows.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Locked {
    /// Said where it is not what the path says.
    name: Option<String>,
    version: Option<String>,
    integrity: Option<String>,
    resolved: Option<String>,
    #[serde(default)]
    link: bool,
    #[serde(default)]
    in_bundle: bool,
    #[serde(default)]
    has_install_script: bool,
}

/// One entry of the digest of dependencies. The members are in the order of their names and plain text, so that what
/// serde_json writes is RFC 8785.
#[derive(serde::Serialize)]
struct Dependency<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    integrity: Option<&'a str>,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
}

/// What was resolved. The digest of dependencies covers every entry of the lock file but the package itself, sorted by its
/// path in the tree (`node_modules/a/node_modules/b`); the packages of other platforms are in it too, so that it is the
/// same on all of them. `is_there` says whether a path of the tree was installed here.
fn read_lock(
    package: &PackageName,
    text: &str,
    is_there: impl Fn(&str) -> bool,
) -> Result<Record, PackageError> {
    let lock: Lock =
        serde_json::from_str(text).map_err(|error| failed(CLIENT, &format!("package-lock.json: {error}")))?;
    let own_path = format!("node_modules/{}", package.name);
    let mut dependencies = Vec::new();
    let mut has_install_script = false;
    for (path, locked) in lock.packages.iter().filter(|(path, _)| !path.is_empty()) {
        if locked.link || locked.resolved.is_some() {
            return Err(failed(
                CLIENT,
                &format!("`{path}` comes from outside the registry"),
            ));
        }
        // What is packed into another package is covered by that one's integrity.
        if locked.integrity.is_none() && !locked.in_bundle {
            return Err(failed(
                CLIENT,
                &format!("the registry gives no integrity for `{path}`"),
            ));
        }
        has_install_script |= locked.has_install_script && is_there(path);
        if *path != own_path {
            let (integrity, version) = (locked.integrity.as_deref(), locked.version.as_deref());
            dependencies.push(Dependency {
                integrity,
                path,
                version,
            });
        }
    }
    let own = lock.packages.get(&own_path);
    if let Some(other) = own
        .and_then(|own| own.name.as_deref())
        .filter(|name| *name != package.name)
    {
        return Err(failed(CLIENT, &format!("the registry answered with `{other}`")));
    }
    let own = own.and_then(|own| Some((own.version.clone()?, own.integrity.clone())));
    let Some((version, integrity)) = own else {
        return Err(failed(CLIENT, "package-lock.json does not name the package"));
    };
    let canonical = serde_json::to_string(&dependencies)
        .map_err(|error| failed(CLIENT, &format!("package-lock.json: {error}")))?;
    Ok(Record {
        version,
        integrity,
        dependencies: Some(Digest::of_canonical(&canonical).to_string()),
        published_at: None,
        has_install_script,
    })
}

/// How to start what is installed in `folder`: with `node`, when the program is JavaScript by its ending or its first line,
/// otherwise as it is.
pub(super) fn launch(
    package: &PackageName,
    version: &str,
    folder: &Path,
    node: &Path,
) -> Result<Launch, PackageError> {
    let home = folder.join("node_modules").join(&package.name);
    let manifest = read_bounded(&home.join("package.json")).map_err(|reason| failed(CLIENT, &reason))?;
    let manifest: Value =
        serde_json::from_str(&manifest).map_err(|error| failed(CLIENT, &format!("package.json: {error}")))?;
    let program = choose_program(&package.name, &manifest["bin"]).map(|program| home.join(program));
    let Some(program) = program.filter(|program| program.is_file()) else {
        return Err(package.no_program(version));
    };
    let script = program.display().to_string();
    let first_line = first_line(&program).map_err(|error| failed(CLIENT, &error.to_string()))?;
    let node = node.display().to_string();
    let (program, args) = match node_options(&first_line) {
        Some(options) => (node, [options, vec![script]].concat()),
        None if is_javascript(&program) => (node, vec![script]),
        None => (script, Vec::new()),
    };
    Ok(Launch {
        program,
        args,
        env: Vec::new(),
        cwd: None,
        label: None,
        jail: None,
    })
}

/// The program to start, of `bin` (a path, or paths by name): the one named as the package without its scope, else the
/// only one, else the first by name. As the client does, a path never leads out of the package.
fn choose_program(name: &str, bin: &Value) -> Option<PathBuf> {
    let base = name.rsplit('/').next().unwrap_or(name);
    let path = match bin {
        Value::String(path) => path.as_str(),
        Value::Object(programs) => {
            // serde_json's objects are sorted by name.
            programs
                .get(base)
                .or_else(|| programs.values().next())?
                .as_str()?
        }
        _ => return None,
    };
    let inside: PathBuf = Path::new(path)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    (!inside.as_os_str().is_empty()).then_some(inside)
}

fn is_javascript(program: &Path) -> bool {
    program
        .extension()
        .is_some_and(|ending| ["js", "mjs", "cjs"].iter().any(|known| ending == *known))
}

/// The start of the file up to its first line's end, at most 256 bytes: the length that Linux reads of a `#!` line.
fn first_line(program: &Path) -> std::io::Result<String> {
    let mut start = Vec::new();
    std::fs::File::open(program)?.take(256).read_to_end(&mut start)?;
    let start = String::from_utf8_lossy(&start);
    Ok(start.lines().next().unwrap_or_default().to_owned())
}

/// Node's options in a `#!` line that names node (`#!/usr/bin/env -S node --no-warnings`); `None` for any other line.
fn node_options(first_line: &str) -> Option<Vec<String>> {
    let mut words = first_line.strip_prefix("#!")?.split_whitespace().peekable();
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let mut program = base(words.next()?);
    if program == "env" {
        words.next_if_eq(&"-S");
        program = base(words.next()?);
    }
    (program == "node").then(|| words.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
