//! Which jail runs what: a package client may use the network and runs nothing of the package; a server runs without network.
//!
//! The machine's own Node.js and Python are found once, or named in the settings; nothing else of the machine is in a jail but the
//! folders that its program needs.
//!
//! Invariant: nothing of a package and no command of a target runs outside of a jail; where there is none, it does not run.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mcpindex::sandbox::{Jail, JailLimits, Level, Sandbox, is_larger};
use tokio::sync::OnceCell;

use crate::package::PackageError;
use crate::settings::Settings;

/// How long an interpreter may take to say where it is.
const INTERPRETER_LIMIT: Duration = Duration::from_secs(20);

/// The interpreters' own words on where they are: program, what it needs beside it, version.
const ASK_NODE: &[&str] = &[
    "-e",
    "console.log(process.execPath); console.log(''); console.log('node ' + process.version)",
];
const ASK_PYTHON: &[&str] = &[
    "-I",
    "-c",
    "import platform, sys; print(sys.executable); print(sys.base_prefix); print('python ' + platform.python_version())",
];

/// Variables by which a user tells the package clients about the registry, the way there and its certificates. All that begin so are
/// handed on to the clients, and no other: ours may hold secrets.
const CLIENT_VARIABLES: &[&str] = &[
    "all_proxy",
    "curl_ca_bundle",
    "http_proxy",
    "https_proxy",
    "netrc",
    "no_proxy",
    "node_extra_ca_certs",
    "npm_config_",
    "pip_",
    "requests_ca_bundle",
    "ssl_cert_dir",
    "ssl_cert_file",
];

/// A user's own files with the same, below the home directory, and the variable that names one from elsewhere.
const CLIENT_FILES: &[(&str, &str)] = &[
    ("NPM_CONFIG_USERCONFIG", ".npmrc"),
    ("PIP_CONFIG_FILE", ".config/pip/pip.conf"),
    ("PIP_CONFIG_FILE", ".pip/pip.conf"),
    ("NETRC", ".netrc"),
];

/// An interpreter of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// Its program, past every link and version manager.
    pub(crate) program: PathBuf,
    /// `node v20.20.2`, `python 3.11.7`.
    pub(crate) version: String,
    /// What it needs to be able to read.
    needs: PathBuf,
}

/// The jails of one crawler.
pub struct Jails {
    entrance: PathBuf,
    named_node: Option<PathBuf>,
    named_python: Option<PathBuf>,
    /// What commands may read in any case.
    read: Vec<PathBuf>,
    /// Where the clients keep what they have downloaded, and work.
    clients: PathBuf,
    /// When the downloads were measured last.
    measured: Mutex<Option<Instant>>,
    sandbox: OnceCell<Result<Sandbox, String>>,
    node: OnceCell<Interpreter>,
    python: OnceCell<Interpreter>,
}

/// What a package client is run with.
pub(crate) struct Workplace {
    pub(crate) jail: Jail,
    /// Its own folder, gone with this value.
    pub(crate) home: tempfile::TempDir,
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Held while the client may use what was downloaded.
    pub(crate) downloads: File,
}

/// How often a process measures what the clients keep.
const MEASURE_EVERY: Duration = Duration::from_secs(3_600);

/// Bytes of what the clients keep of their downloads; when it is more, it is thrown away once nobody uses it.
const MAX_DOWNLOADS: u64 = 4 << 30;

/// Makes sure that what was downloaded stays while this is held, and throws it away first where it has grown too large and no process
/// uses it.
fn downloads_lock(clients: &Path, downloads: &Path, measure: bool) -> std::io::Result<File> {
    std::fs::create_dir_all(downloads)?;
    let lock = File::create(clients.join("downloads.lock"))?;
    if measure && lock.try_lock().is_ok() {
        if is_larger(downloads, MAX_DOWNLOADS) {
            std::fs::remove_dir_all(downloads)?;
            std::fs::create_dir_all(downloads)?;
        }
        lock.unlock()?;
    }
    lock.lock_shared()?;
    Ok(lock)
}

impl Jails {
    /// The jails that these settings ask for; nothing is tried yet.
    pub fn new(settings: &Settings) -> Arc<Jails> {
        Arc::new(Jails {
            entrance: settings.entrance.clone(),
            named_node: settings.node.clone(),
            named_python: settings.python.clone(),
            read: settings.read.clone(),
            clients: settings.cache.join("clients"),
            measured: Mutex::new(None),
            sandbox: OnceCell::new(),
            node: OnceCell::new(),
            python: OnceCell::new(),
        })
    }

    /// The level of the walls here, found out at the first question; the error is one line.
    pub async fn level(&self) -> Result<Level, String> {
        match self.sandbox().await {
            Ok(sandbox) => Ok(sandbox.level()),
            Err(PackageError::SandboxUnavailable { reason }) => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn sandbox(&self) -> Result<Sandbox, PackageError> {
        let chosen = self.sandbox.get_or_init(|| async {
            let entrance = self.entrance.clone();
            let choosing = tokio::task::spawn_blocking(move || Sandbox::choose(&entrance));
            match choosing.await {
                Ok(chosen) => chosen.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        });
        chosen
            .await
            .clone()
            .map_err(|reason| PackageError::SandboxUnavailable { reason })
    }

    pub(crate) async fn node(&self) -> Result<&Interpreter, PackageError> {
        let missing = PackageError::ClientMissing {
            client: "node",
            registry: "npm",
        };
        let named = self.named_node.as_deref().unwrap_or(Path::new("node"));
        self.node.get_or_try_init(|| find(named, ASK_NODE, missing)).await
    }

    pub(crate) async fn python(&self) -> Result<&Interpreter, PackageError> {
        let missing = PackageError::ClientMissing {
            client: "python3",
            registry: "pypi",
        };
        let named = self.named_python.as_deref().unwrap_or(Path::new("python3"));
        self.python
            .get_or_try_init(|| find(named, ASK_PYTHON, missing))
            .await
    }

    /// npm's own program, to be given to Node.js: the one beside it, else the one on PATH.
    pub(crate) async fn npm(&self) -> Result<PathBuf, PackageError> {
        let node = self.node().await?;
        let beside = node.needs.join("lib/node_modules/npm/bin/npm-cli.js");
        let found = beside.is_file().then_some(beside).or_else(|| {
            let found = on_path("npm")?.canonicalize().ok()?;
            found.ends_with("npm-cli.js").then_some(found)
        });
        found.ok_or(PackageError::ClientMissing {
            client: "npm",
            registry: "npm",
        })
    }

    /// For a package client that works in `folder`.
    pub(crate) async fn installing(&self, folder: &Path) -> Result<Workplace, PackageError> {
        let unusable = |error: std::io::Error| PackageError::Cache {
            path: self.clients.display().to_string(),
            reason: error.to_string(),
        };
        let clients = std::path::absolute(&self.clients).map_err(unusable)?;
        let downloads = clients.join("downloads");
        let lock = self
            .hold_downloads(&clients, &downloads)
            .await
            .map_err(unusable)?;
        let home = tempfile::Builder::new()
            .prefix("work-")
            .tempdir_in(&clients)
            .map_err(unusable)?;
        let mut jail = self.sandbox().await?.jail(JailLimits::installing());
        jail.network = true;
        jail.write = vec![folder.to_owned(), home.path().to_owned()];
        jail.share = vec![downloads.clone()];
        if let Ok(npm) = self.npm().await
            && let Some(package) = npm.ancestors().nth(2)
        {
            jail.read.push(package.to_owned());
        }
        for interpreter in self.found().await {
            jail.read.push(interpreter.needs.clone());
            jail.programs
                .extend(interpreter.program.parent().map(Path::to_owned));
        }
        let mut variables = client_variables(std::env::vars_os().collect(), home_directory());
        for (_, value) in &variables {
            // A file that a variable names is part of what it says.
            let path = Path::new(value);
            if path.is_absolute() && path.exists() {
                jail.read.push(path.to_owned());
            }
        }
        variables.push(("NPM_CONFIG_CACHE".into(), downloads.join("npm").into()));
        variables.push(("PIP_CACHE_DIR".into(), downloads.join("pip").into()));
        variables.push(("TMPDIR".into(), home.path().into()));
        Ok(Workplace {
            jail,
            home,
            variables,
            downloads: lock,
        })
    }

    async fn hold_downloads(&self, clients: &Path, downloads: &Path) -> std::io::Result<File> {
        let measure = {
            let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = measured.is_none_or(|at| at.elapsed() > MEASURE_EVERY);
            if is_due {
                *measured = Some(Instant::now());
            }
            is_due
        };
        let (clients, downloads) = (clients.to_owned(), downloads.to_owned());
        let holding = tokio::task::spawn_blocking(move || downloads_lock(&clients, &downloads, measure));
        holding.await.map_err(std::io::Error::other)?
    }

    /// For a server that needs these folders or files.
    pub(crate) async fn listing(&self, read: Vec<PathBuf>) -> Result<Jail, PackageError> {
        let mut jail = self.sandbox().await?.jail(JailLimits::listing());
        jail.read = read;
        for interpreter in self.found().await {
            jail.read.push(interpreter.needs.clone());
            jail.programs
                .extend(interpreter.program.parent().map(Path::to_owned));
        }
        Ok(jail)
    }

    /// For a command of a person's own.
    pub(crate) async fn commanding(&self, program: &str, args: &[String]) -> Result<Jail, PackageError> {
        let mut jail = self.listing(folders_of(program, args)).await?;
        jail.read.extend_from_slice(&self.read);
        Ok(jail)
    }

    /// The interpreters that there are.
    async fn found(&self) -> impl Iterator<Item = &Interpreter> {
        let (node, python) = tokio::join!(self.node(), self.python());
        node.into_iter().chain(python)
    }
}

/// Asks an interpreter of this machine where it is. It runs as this program does: it is the machine's own, and is given
/// nothing of anybody else's.
async fn find(named: &Path, question: &[&str], missing: PackageError) -> Result<Interpreter, PackageError> {
    let nowhere = || missing.clone();
    let empty = tempfile::tempdir().map_err(|_| nowhere())?;
    let asked = tokio::process::Command::new(named)
        .args(question)
        .current_dir(empty.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let answer = tokio::time::timeout(INTERPRETER_LIMIT, asked)
        .await
        .map_err(|_| nowhere())?
        .map_err(|_| nowhere())?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut lines = text.lines();
    let (Some(program), Some(beside), Some(version)) = (lines.next(), lines.next(), lines.next()) else {
        return Err(nowhere());
    };
    let program = PathBuf::from(program);
    let prefix = match beside {
        "" => program.ancestors().nth(2).map(Path::to_owned),
        beside => Some(PathBuf::from(beside)),
    };
    // A program straight in somebody's home needs nothing else of that.
    let is_whole = |prefix: &PathBuf| prefix.parent().is_some() && home_directory().as_ref() != Some(prefix);
    Ok(Interpreter {
        needs: prefix.filter(is_whole).unwrap_or_else(|| program.clone()),
        program,
        version: version.to_owned(),
    })
}

/// What marks the folder that a program's own files and dependencies are below.
const PROJECT: &[&str] = &["package.json", "pyproject.toml", "Cargo.toml", "go.mod", ".git"];

/// What a command names on this machine, and so may read: its program and each file or folder of its arguments. Of a file it is the
/// project or else the folder that it is in, unless that is somebody's whole home or the root.
fn folders_of(program: &str, args: &[String]) -> Vec<PathBuf> {
    let program = match program.contains('/') {
        true => Some(PathBuf::from(program)),
        false => on_path(program),
    };
    let named = args.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    let mut folders = Vec::new();
    for path in program.into_iter().chain(named).filter(|path| path.exists()) {
        let links = [Some(path.clone()), path.canonicalize().ok()];
        folders.extend(links.into_iter().flatten().map(|path| project_of(&path)));
    }
    folders
}

fn project_of(path: &Path) -> PathBuf {
    let above: Vec<&Path> = path
        .ancestors()
        .skip(usize::from(!path.is_dir()))
        .take_while(|folder| folder.parent().is_some() && home_directory().as_deref() != Some(folder))
        .collect();
    let is_project = |folder: &&&Path| PROJECT.iter().any(|mark| folder.join(mark).exists());
    let project = above.iter().find(is_project).or(above.first());
    project.map_or(path, |folder| *folder).to_owned()
}

/// Where a program is that is looked up by name.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|program| program.is_absolute() && program.is_file())
}

fn home_directory() -> Option<PathBuf> {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
}

/// What the clients get of `ours`, and the user's own files where no variable names others.
fn client_variables(ours: Vec<(OsString, OsString)>, home: Option<PathBuf>) -> Vec<(OsString, OsString)> {
    let is_known = |name: &OsString| {
        let name = name.to_string_lossy().to_ascii_lowercase();
        CLIENT_VARIABLES.iter().any(|known| match known.ends_with('_') {
            true => name.starts_with(known),
            false => name == *known,
        })
    };
    let mut variables: Vec<(OsString, OsString)> =
        ours.into_iter().filter(|(name, _)| is_known(name)).collect();
    for (name, file) in CLIENT_FILES {
        let is_set = variables.iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
        let path = home
            .as_ref()
            .map(|home| home.join(file))
            .filter(|path| path.is_file());
        if let (false, Some(path)) = (is_set, path) {
            variables.push(((*name).into(), path.into()));
        }
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed_on(ours: &[(&str, &str)], home: Option<&Path>) -> String {
        let ours = ours
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let names: Vec<String> = client_variables(ours, home.map(Path::to_owned))
            .into_iter()
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect();
        names.join(" ")
    }

    #[test]
    fn downloads_stay_while_somebody_uses_them() {
        let clients = tempfile::tempdir().unwrap();
        let downloads = clients.path().join("downloads");
        let used = downloads_lock(clients.path(), &downloads, true).unwrap();
        std::fs::write(downloads.join("kept"), "").unwrap();
        // A second user waits for nobody, and may not even measure.
        let second = downloads_lock(clients.path(), &downloads, true).unwrap();
        assert!(downloads.join("kept").exists());
        drop((used, second));
    }

    #[test]
    fn a_command_reads_the_project_of_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("project/dist")).unwrap();
        std::fs::create_dir_all(path("loose/inner")).unwrap();
        for file in [
            "project/package.json",
            "project/dist/index.js",
            "loose/inner/server.py",
        ] {
            std::fs::write(path(file), "").unwrap();
        }
        assert_eq!(project_of(&path("project/dist/index.js")), path("project"));
        assert_eq!(project_of(&path("loose/inner/server.py")), path("loose/inner"));
        assert_eq!(project_of(&path("loose")), path("loose"));
        assert_eq!(project_of(Path::new("/file")), Path::new("/file"));
    }

    #[test]
    fn clients_get_what_is_meant_for_them_and_nothing_else() {
        let ours = [
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("npm_config_registry", "https://npm.example.com/"),
            ("PIP_INDEX_URL", "https://pypi.example.com/simple"),
            ("SSL_CERT_FILE", "/etc/ssl/ca.pem"),
            ("MCPINDEX_DATABASE", "postgres://u:secret@db/mcpindex"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("PIPELINE_TOKEN", "secret"),
            ("NODE_OPTIONS", "--require=/tmp/x.js"),
        ];
        assert_eq!(
            handed_on(&ours, None),
            "HTTPS_PROXY npm_config_registry PIP_INDEX_URL SSL_CERT_FILE"
        );
    }

    #[test]
    fn a_users_own_files_are_named_unless_others_are() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".npmrc"), "").unwrap();
        std::fs::create_dir(home.path().join(".pip")).unwrap();
        std::fs::write(home.path().join(".pip/pip.conf"), "").unwrap();
        assert_eq!(
            handed_on(&[], Some(home.path())),
            "NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE"
        );
        let named = [("npm_config_userconfig", "/elsewhere")];
        assert_eq!(
            handed_on(&named, Some(home.path())),
            "npm_config_userconfig PIP_CONFIG_FILE"
        );
    }
}
