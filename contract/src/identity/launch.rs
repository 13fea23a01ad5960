//! Launch lines of the package runners: which package does this command start?
//!
//! Invariant: a line is read as a package only when every option before it is known, so that an option's value
//! is never taken for the package, and nothing that changes where the package comes from goes unseen. Any
//! other line is a command.

use super::package;
use super::{Identity, Registry, normal_registry};

/// The options of one runner that may stand before the package.
struct Options {
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options whose value is in the same argument (`--name=value`, `-nvalue`) or is the next one.
    with_value: &'static [&'static str],
}

/// For `npx`, `npm exec`, `bunx`, `pnpm dlx` and `yarn dlx`. What starts a shell (`--call`) or reads another
/// configuration is missing on purpose.
const NPM: Options = Options {
    flags: &[
        "-y",
        "--yes",
        "--no",
        "--no-install",
        "-q",
        "--quiet",
        "-s",
        "--silent",
        "--verbose",
        "-f",
        "--force",
        "--offline",
        "--prefer-offline",
        "--prefer-online",
        "--ignore-scripts",
        "--legacy-peer-deps",
        "--no-audit",
        "--no-fund",
        "--no-progress",
        "--no-update-notifier",
        "--bun",
    ],
    with_value: &["-p", "--package", "--registry", "--loglevel", "--cache"],
};

/// For `uvx`, `uv tool run` and `pipx run`. Requirement files, configuration files and `--find-links` are missing
/// on purpose.
const PYPI: Options = Options {
    flags: &[
        "-q",
        "--quiet",
        "-v",
        "--verbose",
        "-n",
        "--no-cache",
        "--isolated",
        "--refresh",
        "--reinstall",
        "-U",
        "--upgrade",
        "--offline",
        "--no-config",
        "--no-env-file",
        "--no-progress",
        "--native-tls",
        "--managed-python",
        "--no-managed-python",
        "--no-python-downloads",
        "--no-build",
        "--system-site-packages",
        "--fetch-missing-python",
    ],
    with_value: &[
        "--from",
        "--spec",
        "-w",
        "--with",
        "-p",
        "--python",
        "-i",
        "--index-url",
        "--default-index",
        "--index",
        "--extra-index-url",
        "--index-strategy",
        "--keyring-provider",
        "--python-preference",
        "--prerelease",
        "--resolution",
        "--exclude-newer",
        "--refresh-package",
        "--cache-dir",
        "--link-mode",
        "--env-file",
        "--color",
    ],
};

/// For `docker run` and `podman run`. `--entrypoint` is missing on purpose: with it the image alone does not say what runs.
const OCI: Options = Options {
    flags: &[
        "-i",
        "-t",
        "-d",
        "-it",
        "-ti",
        "-id",
        "-di",
        "-dit",
        "-itd",
        "-P",
        "-q",
        "--interactive",
        "--tty",
        "--detach",
        "--rm",
        "--init",
        "--quiet",
        "--privileged",
        "--read-only",
        "--publish-all",
        "--no-healthcheck",
        "--sig-proxy",
        "--oom-kill-disable",
        "--replace",
    ],
    with_value: &[
        "-e",
        "--env",
        "--env-file",
        "-v",
        "--volume",
        "--mount",
        "--tmpfs",
        "--name",
        "--network",
        "--net",
        "--network-alias",
        "--add-host",
        "--dns",
        "-p",
        "--publish",
        "--expose",
        "-h",
        "--hostname",
        "-w",
        "--workdir",
        "-u",
        "--user",
        "--userns",
        "--group-add",
        "-l",
        "--label",
        "--label-file",
        "--annotation",
        "--cap-add",
        "--cap-drop",
        "--security-opt",
        "--device",
        "--gpus",
        "--cpus",
        "--cpu-shares",
        "--cpuset-cpus",
        "-m",
        "--memory",
        "--memory-swap",
        "--memory-reservation",
        "--pids-limit",
        "--shm-size",
        "--ulimit",
        "--sysctl",
        "--ipc",
        "--pid",
        "--uts",
        "--cgroupns",
        "--platform",
        "--pull",
        "--restart",
        "--runtime",
        "--stop-signal",
        "--stop-timeout",
        "--log-driver",
        "--log-opt",
        "--cidfile",
    ],
};

/// The options of a line, and what follows them.
struct Line<'a> {
    options: Vec<(&'a str, &'a str)>,
    rest: &'a [String],
}

/// The program's name without its folder, by either system's separators.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// The package that this command starts, with the version it asks for; `None` when it is a command like any other.
pub(super) fn package(command: &str, args: &[String]) -> Option<(Identity, Option<String>)> {
    match behind_the_shell(command, args) {
        Some((program, args)) => runners_package(base_name(program), args),
        None => runners_package(command, args),
    }
}

fn runners_package(command: &str, args: &[String]) -> Option<(Identity, Option<String>)> {
    let words: Vec<&str> = args.iter().take(2).map(String::as_str).collect();
    match (runner(command).as_str(), words.as_slice()) {
        ("npx" | "bunx" | "pnpx", _) => npm(args),
        ("npm", ["exec" | "x", ..]) | ("pnpm" | "yarn", ["dlx", ..]) | ("bun", ["x", ..]) => npm(&args[1..]),
        ("uvx", _) => pypi(args, "--from"),
        ("uv", ["tool", "run"]) => pypi(&args[2..], "--from"),
        ("pipx", ["run", ..]) => pypi(&args[1..], "--spec"),
        ("docker" | "podman", ["run", ..]) => oci(&args[1..]),
        ("docker" | "podman", ["container", "run"]) => oci(&args[2..]),
        _ => None,
    }
}

/// What Windows' shell starts in `cmd /c npx …`, the way in which hosts there start a script.
fn behind_the_shell<'a>(command: &str, args: &'a [String]) -> Option<(&'a String, &'a [String])> {
    let is_switch = |argument: &&String, switches: &[&str]| {
        switches
            .iter()
            .any(|switch| argument.eq_ignore_ascii_case(switch))
    };
    if runner(command) != "cmd" {
        return None;
    }
    let before = args
        .iter()
        .take_while(|argument| is_switch(argument, &["/d", "/s", "/q"]))
        .count();
    args.get(before).filter(|argument| is_switch(argument, &["/c"]))?;
    args.get(before + 1..)?.split_first()
}

/// `npx.cmd` is `npx`.
fn runner(command: &str) -> String {
    let lower = command.to_ascii_lowercase();
    [".exe", ".cmd", ".bat", ".ps1"]
        .iter()
        .find_map(|ending| lower.strip_suffix(ending))
        .unwrap_or(&lower)
        .to_owned()
}

fn npm(args: &[String]) -> Option<(Identity, Option<String>)> {
    let line = split(args, &NPM)?;
    let spec = match line.values(&["-p", "--package"]).as_slice() {
        [] => line.rest.first()?,
        [package] => *package,
        // The program may come from any of several packages.
        _ => return None,
    };
    let (name, version) = package::read(Registry::Npm, spec).ok()?;
    let scope_option = name
        .split_once('/')
        .map_or_else(String::new, |(scope, _)| format!("--{scope}:registry"));
    let urls = match line.values(&[&scope_option]) {
        urls if urls.is_empty() => line.values(&["--registry"]),
        urls => urls,
    };
    named(Registry::Npm, name, version, &urls)
}

fn pypi(args: &[String], spec_option: &str) -> Option<(Identity, Option<String>)> {
    let line = split(args, &PYPI)?;
    // A requirement beside it may name another source for the package itself (`x @ git+https://…`).
    if line
        .values(&["-w", "--with"])
        .iter()
        .any(|spec| package::read(Registry::Pypi, spec).is_err())
    {
        return None;
    }
    let spec = match line.values(&[spec_option]).as_slice() {
        [] => line.rest.first()?,
        [spec] => *spec,
        _ => return None,
    };
    let (name, version) = package::read(Registry::Pypi, spec).ok()?;
    let urls = line.values(&[
        "-i",
        "--index-url",
        "--default-index",
        "--index",
        "--extra-index-url",
    ]);
    named(Registry::Pypi, name, version, &urls)
}

fn oci(args: &[String]) -> Option<(Identity, Option<String>)> {
    let line = split(args, &OCI)?;
    let (name, version) = package::read(Registry::Oci, line.rest.first()?).ok()?;
    named(Registry::Oci, name, version, &[])
}

/// More than one other registry can't be told from the line's own order of trust, so that stays a command.
fn named(
    registry: Registry,
    name: String,
    version: Option<String>,
    other_registries: &[&str],
) -> Option<(Identity, Option<String>)> {
    let alternative = match other_registries {
        [] => None,
        [url] => Some(normal_registry(url).ok()?),
        _ => return None,
    };
    let identity = Identity::Package {
        registry,
        name,
        alternative,
    };
    Some((identity, version))
}

/// Takes the options off the front of a line; `None` when one is not known.
fn split<'a>(args: &'a [String], known: &Options) -> Option<Line<'a>> {
    let mut options = Vec::new();
    let mut rest = args;
    while let Some((argument, after)) = rest.split_first() {
        if !argument.starts_with('-') || argument == "-" {
            break;
        }
        rest = after;
        if argument == "--" {
            break;
        }
        if known.flags.contains(&argument.as_str()) {
            continue;
        }
        if known.takes_value(argument) {
            let (value, after) = rest.split_first()?;
            options.push((argument.as_str(), value.as_str()));
            rest = after;
            continue;
        }
        let (name, value) = attached_value(argument)?;
        if known.takes_value(name) {
            options.push((name, value));
        } else if !known.flags.contains(&name) || !matches!(value, "true" | "false") {
            return None;
        }
    }
    Some(Line { options, rest })
}

/// `--name=value`, `-nvalue` or `-n=value`, taken apart.
fn attached_value(argument: &str) -> Option<(&str, &str)> {
    if argument.starts_with("--") {
        return argument.split_once('=');
    }
    let (name, value) = argument.split_at_checked(2)?;
    Some((name, value.strip_prefix('=').unwrap_or(value)))
}

impl Options {
    fn takes_value(&self, name: &str) -> bool {
        // npm's own way to give one scope another registry.
        let is_scope_registry = name.starts_with("--@") && name.ends_with(":registry");
        self.with_value.contains(&name) || is_scope_registry
    }
}

impl<'a> Line<'a> {
    fn values(&self, names: &[&str]) -> Vec<&'a str> {
        self.options
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(_, value)| *value)
            .collect()
    }
}
