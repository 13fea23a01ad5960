//! Which packages come from another registry than the usual one on this machine, by its environment and by the files in which
//! package programs are told of one.
//!
//! A company's packages are mostly reached by a line in such a file (`@acme:registry=…` in `.npmrc`), with nothing of it on the
//! command line. The files' full rules (which one wins, what a project may say) are their programs' own; a line that could
//! name a registry counts wherever it stands.
//!
//! Invariant: a file that is there and can't be read counts as one that names another registry.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use mcpindex_contract::identity::{Identity, Registry};

/// The most that is read of a file; a longer one counts as one that names another registry.
const MAX_FILE: u64 = 1 << 20;

/// Variables that name another registry, in lower case: package programs read some of them in either.
const VARIABLES: [(Registry, &str); 14] = [
    (Registry::Npm, "yarn_npm_registry_server"),
    (Registry::Npm, "yarn_registry"),
    (Registry::Npm, "bun_config_registry"),
    (Registry::Pypi, "uv_index_url"),
    (Registry::Pypi, "uv_default_index"),
    (Registry::Pypi, "uv_extra_index_url"),
    (Registry::Pypi, "uv_index"),
    (Registry::Pypi, "uv_find_links"),
    (Registry::Pypi, "uv_no_index"),
    (Registry::Pypi, "pip_index_url"),
    (Registry::Pypi, "pip_extra_index_url"),
    (Registry::Pypi, "pip_find_links"),
    (Registry::Pypi, "pip_no_index"),
    (Registry::Pypi, "pipx_index_url"),
];

/// What of a line says that packages of this kind come from elsewhere.
const YARN: (Registry, &[&str]) = (Registry::Npm, &["registry", "npmscopes", "npmregistries"]);
const BUN: (Registry, &[&str]) = (Registry::Npm, &["registry", "scopes"]);
const PIP: (Registry, &[&str]) = (
    Registry::Pypi,
    &[
        "index-url",
        "index_url",
        "find-links",
        "find_links",
        "no-index",
        "no_index",
    ],
);
const UV: (Registry, &[&str]) = (Registry::Pypi, &["index", "find-links"]);
const CONTAINERS: (Registry, &[&str]) = (Registry::Oci, &["unqualified-search-registries", "location"]);

/// The packages that come from elsewhere than their names say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnRegistries {
    /// All packages of these kinds.
    kinds: Vec<Registry>,
    /// Packages of these npm scopes (`@acme`), in lower case.
    scopes: Vec<String>,
}

/// Where a process's package programs look.
struct Surroundings {
    variables: Vec<(String, String)>,
    current: Option<PathBuf>,
    /// `/`, but in tests.
    root: PathBuf,
}

impl OwnRegistries {
    /// As this process's package programs would find them. Reads a dozen small files at most.
    pub fn of_this_process() -> OwnRegistries {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Surroundings {
            variables: std::env::vars_os()
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            current: std::env::current_dir().ok(),
            root: PathBuf::from("/"),
        }
        .own_registries()
    }

    /// All packages of these kinds, and no others.
    pub fn of_kinds(kinds: &[Registry]) -> OwnRegistries {
        OwnRegistries {
            kinds: kinds.to_vec(),
            scopes: Vec::new(),
        }
    }

    /// Whether this package comes from one of them.
    pub(crate) fn has(&self, identity: &Identity) -> bool {
        let Identity::Package { registry, name, .. } = identity else {
            return false;
        };
        let scope = name.split_once('/').map(|(scope, _)| scope.to_ascii_lowercase());
        self.kinds.contains(registry)
            || (*registry == Registry::Npm && scope.is_some_and(|scope| self.scopes.contains(&scope)))
    }

    fn add(&mut self, kind: Registry) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    /// What npm calls `registry` or `@scope:registry`.
    fn add_npm(&mut self, key: &str) {
        let key = key.trim().trim_matches('"').to_ascii_lowercase();
        match key.strip_suffix(":registry") {
            Some(scope) if scope.starts_with('@') => self.scopes.push(scope.to_owned()),
            _ if key == "registry" => self.add(Registry::Npm),
            _ => {}
        }
    }

    fn read_npmrc(&mut self, path: &Path) {
        match lines(path) {
            Ok(lines) => {
                for line in lines {
                    self.add_npm(line.split_once('=').map_or("", |(key, _)| key));
                }
            }
            Err(Unreadable) => self.add(Registry::Npm),
        }
    }

    fn read(&mut self, path: &Path, (kind, words): (Registry, &[&str])) {
        let names_one = |line: &String| words.iter().any(|word| line.contains(word));
        if lines(path).map_or(true, |lines| lines.iter().any(names_one)) {
            self.add(kind);
        }
    }
}

impl Surroundings {
    fn own_registries(&self) -> OwnRegistries {
        let mut own = OwnRegistries::default();
        for (name, value) in &self.variables {
            let name = name.to_ascii_lowercase();
            if value.is_empty() {
                continue;
            }
            for (kind, _) in VARIABLES.iter().filter(|(_, known)| *known == name) {
                own.add(*kind);
            }
            if let Some(key) = name.strip_prefix("npm_config_") {
                own.add_npm(key);
            }
        }
        for path in self.npmrc() {
            own.read_npmrc(&path);
        }
        let home = self.home();
        let config = self
            .path_of("XDG_CONFIG_HOME")
            .or_else(|| Some(home.as_ref()?.join(".config")));
        let at = |base: &Option<PathBuf>, file: &str| base.as_ref().map(|base| base.join(file));
        let project = |file: &str| -> Vec<PathBuf> {
            let folders = self.current.iter().flat_map(|folder| folder.ancestors());
            folders.map(|folder| folder.join(file)).collect()
        };
        let anywhere = |named: &str, own: [Option<PathBuf>; 2], system: &[&str]| -> Vec<PathBuf> {
            let named = self.path_of(named).into_iter();
            let system = system.iter().map(|file| self.root.join(file));
            named.chain(own.into_iter().flatten()).chain(system).collect()
        };
        let virtual_environment = self.path_of("VIRTUAL_ENV");
        let mac = at(&home, "Library/Application Support/pip/pip.conf");
        for (paths, what) in [
            (project(".yarnrc.yml"), YARN),
            (project(".yarnrc"), YARN),
            (
                anywhere("", [at(&home, ".yarnrc.yml"), at(&home, ".yarnrc")], &[]),
                YARN,
            ),
            (project("bunfig.toml"), BUN),
            (
                anywhere("", [at(&home, ".bunfig.toml"), at(&config, ".bunfig.toml")], &[]),
                BUN,
            ),
            (
                anywhere(
                    "PIP_CONFIG_FILE",
                    [at(&config, "pip/pip.conf"), at(&home, ".pip/pip.conf")],
                    &["etc/pip.conf", "etc/xdg/pip/pip.conf"],
                ),
                PIP,
            ),
            (
                anywhere("", [mac, at(&virtual_environment, "pip.conf")], &[]),
                PIP,
            ),
            (project("uv.toml"), UV),
            (
                anywhere(
                    "UV_CONFIG_FILE",
                    [at(&config, "uv/uv.toml"), None],
                    &["etc/uv/uv.toml"],
                ),
                UV,
            ),
            (
                anywhere(
                    "CONTAINERS_REGISTRIES_CONF",
                    [at(&config, "containers/registries.conf"), None],
                    &["etc/containers/registries.conf"],
                ),
                CONTAINERS,
            ),
        ] {
            for path in paths {
                own.read(&path, what);
            }
        }
        own
    }

    /// The project's, the person's, and those of the installation; a variable that names one of the latter two stands for it.
    fn npmrc(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = Vec::new();
        let folders = self.current.iter().flat_map(|folder| folder.ancestors());
        paths.extend(folders.map(|folder| folder.join(".npmrc")));
        let usual = || self.home().map(|home| home.join(".npmrc"));
        paths.extend(self.path_of("npm_config_userconfig").or_else(usual));
        if let Some(named) = self.path_of("npm_config_globalconfig") {
            paths.push(named);
            return paths;
        }
        paths.extend(
            self.path_of("npm_config_prefix")
                .map(|prefix| prefix.join("etc/npmrc")),
        );
        // npm's own folder is beside the one that node lies in.
        let programs = self.value("PATH").unwrap_or_default();
        for folder in std::env::split_paths(&programs) {
            let prefix = folder.parent().filter(|_| folder.join("node").exists());
            paths.extend(prefix.map(|prefix| prefix.join("etc/npmrc")));
        }
        let system = ["etc/npmrc", "usr/etc/npmrc", "usr/local/etc/npmrc"];
        paths.extend(system.iter().map(|file| self.root.join(file)));
        paths
    }

    fn home(&self) -> Option<PathBuf> {
        self.path_of("HOME").or_else(|| self.path_of("USERPROFILE"))
    }

    fn path_of(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(PathBuf::from)
    }

    fn value(&self, name: &str) -> Option<String> {
        let named = self
            .variables
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = named.map(|(_, value)| value.clone());
        value.filter(|value| !value.is_empty())
    }
}

/// A file that is there, and whose lines can't be known.
struct Unreadable;

/// The lines that are no comments, in lower case; none of a file that is not there.
fn lines(path: &Path) -> Result<Vec<String>, Unreadable> {
    // Asked first, since opening a pipe would wait for its writer.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Ok(_) | Err(_) => return Err(Unreadable),
    }
    let file = std::fs::File::open(path).map_err(|_| Unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| Unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Unreadable);
    }
    let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with(['#', ';']));
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of three packages and an image comes from elsewhere, with these files below `/` and this environment.
    fn check(files: &[(&str, &str)], variables: &[(&str, &str)], expected: &str) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let place = |text: &str| text.replace("ROOT", &root.display().to_string());
        let home = [("HOME", "ROOT/home/ann")];
        let own = Surroundings {
            variables: home
                .iter()
                .chain(variables)
                .map(|(name, value)| ((*name).to_owned(), place(value)))
                .collect(),
            current: Some(root.join("work/project")),
            root: root.to_owned(),
        }
        .own_registries();
        let packages = ["npm:@acme/tool", "npm:plain", "pypi:plain", "oci:acme/tool"];
        let found = packages.map(|text| Identity::from_reference(text).unwrap().identity);
        let found: Vec<String> = found
            .iter()
            .filter(|identity| own.has(identity))
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.join(" "), expected, "{files:?} {variables:?}");
    }

    #[test]
    fn a_companys_scope_in_an_npmrc_is_not_the_publics() {
        let scope = "; of the company\n@Acme:registry = https://npm.acme.example/\n//npm.acme.example/:_authToken=x\n";
        check(&[], &[], "");
        for place in ["home/ann/.npmrc", "work/.npmrc", "etc/npmrc"] {
            check(&[(place, scope)], &[], "npm:@acme/tool");
        }
        check(
            &[("elsewhere", scope)],
            &[("NPM_CONFIG_USERCONFIG", "ROOT/elsewhere")],
            "npm:@acme/tool",
        );
        check(
            &[("node/bin/node", ""), ("node/etc/npmrc", scope)],
            &[("PATH", "/nowhere:ROOT/node/bin")],
            "npm:@acme/tool",
        );
        check(
            &[],
            &[("npm_config_@acme:registry", "https://npm.acme.example/")],
            "npm:@acme/tool",
        );
        let other = "#registry=https://npm.acme.example/\n@other:registry=https://npm.acme.example/\n";
        check(&[("home/ann/.npmrc", other)], &[], "");
    }

    #[test]
    fn another_registry_for_all_is_found_in_files_and_in_the_environment() {
        let npm = "npm:@acme/tool npm:plain";
        check(
            &[("home/ann/.npmrc", "registry=https://npm.acme.example/")],
            &[],
            npm,
        );
        check(
            &[(
                "work/project/.yarnrc.yml",
                "npmRegistryServer: https://npm.acme.example",
            )],
            &[],
            npm,
        );
        check(
            &[(
                "home/ann/.bunfig.toml",
                "[install]\nregistry = \"https://npm.acme.example\"",
            )],
            &[],
            npm,
        );
        check(&[], &[("NPM_CONFIG_REGISTRY", "https://npm.acme.example/")], npm);
        check(&[], &[("npm_config_registry", "")], "");
        let pypi = "pypi:plain";
        let pip = "[global]\nextra-index-url = https://pypi.acme.example/simple\n";
        for place in [
            "home/ann/.config/pip/pip.conf",
            "home/ann/.pip/pip.conf",
            "etc/pip.conf",
        ] {
            check(&[(place, pip)], &[], pypi);
        }
        check(&[("venv/pip.conf", pip)], &[("VIRTUAL_ENV", "ROOT/venv")], pypi);
        check(
            &[("uv.toml", "[[index]]\nurl = \"https://pypi.acme.example\"")],
            &[("UV_CONFIG_FILE", "ROOT/uv.toml")],
            pypi,
        );
        check(
            &[("home/ann/.config/pip/pip.conf", "[global]\ntimeout = 60\n")],
            &[],
            "",
        );
        check(&[], &[("UV_INDEX", "https://pypi.acme.example")], pypi);
        let images = "unqualified-search-registries = [\"registry.acme.example\"]";
        let image = Identity::from_reference("oci:acme/tool").unwrap().identity;
        check(
            &[("etc/containers/registries.conf", images)],
            &[],
            &image.to_string(),
        );
    }

    #[test]
    fn a_file_that_can_not_be_read_might_name_one() {
        let long = "x".repeat(usize::try_from(MAX_FILE).unwrap() + 1);
        check(&[("home/ann/.npmrc", &long)], &[], "npm:@acme/tool npm:plain");
        check(&[("home/ann/.pip/pip.conf/inside", "")], &[], "pypi:plain");
    }
}
