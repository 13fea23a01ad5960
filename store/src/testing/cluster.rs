//! A Postgres server of the test run's own, started from local binaries.
//!
//! It listens on a Unix socket in its temporary folder and on no port. A small shell is its watchdog: it starts the
//! server, starts it anew when it is told so, waits until its input ends (the test process closed it, or is gone, however it
//! ended), stops the server and removes the folder.
//!
//! Invariant: the server never outlives the process that started it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

const NO_POSTGRES: &str = "no Postgres found: install the Debian package `postgresql`, or name a folder of its programs in \
     MCPINDEX_TEST_PG_BIN or a running server in MCPINDEX_TEST_PG_URL (MCPINDEX_TEST_PG=off leaves its tests out)";

/// Many test processes share the server.
const SETTINGS: &str = "-c listen_addresses= -c max_connections=400 -c shared_buffers=64MB";
/// For tests in which nothing is lost with the server.
const NOT_DURABLE: &str = " -c fsync=off -c synchronous_commit=off -c full_page_writes=off";

/// `$1` programs, `$2` data folder, `$3` log, `$4` settings, `$5` the folder to remove.
const WATCHDOG: &str = r#"
start() {
    if "$1/pg_ctl" start -w -t 60 -D "$2" -l "$3" -o "$4" >/dev/null 2>&1; then echo ready; else echo failed; fi
}
start "$@"
while read -r mode; do
    "$1/pg_ctl" stop -w -m "$mode" -D "$2" >/dev/null 2>&1
    start "$@"
done
"$1/pg_ctl" stop -w -m immediate -D "$2" >/dev/null 2>&1
cd / && rm -rf "$5"
"#;

/// A running Postgres server; stopped and removed when this is dropped and when the process ends.
#[derive(Debug)]
pub struct Cluster {
    url: String,
    log: PathBuf,
    watchdog: Child,
    answers: BufReader<ChildStdout>,
    // The watchdog removes it; this is for a watchdog that was killed.
    _folder: TempDir,
}

impl Cluster {
    /// Starts a server that is as fast as tests need it, and waits until it is ready. What it acknowledged does not outlive it.
    ///
    /// # Panics
    /// With one sentence when no Postgres is installed, and with the server's own words when it does not start.
    pub fn start() -> Cluster {
        Cluster::with(&format!("{SETTINGS}{NOT_DURABLE}"))
    }

    /// Starts a server that commits as one in use does.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn durable() -> Cluster {
        Cluster::with(SETTINGS)
    }

    fn with(wanted: &str) -> Cluster {
        let Some(programs) = programs() else {
            panic!("{NO_POSTGRES}");
        };
        let folder = tempfile::Builder::new()
            .prefix("mcpindex-pg-")
            .tempdir()
            .expect("a temporary folder");
        let path = folder.path();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).expect("a private folder");
        let account = other_account(path);
        if let Some((user, group)) = account {
            chown(path, Some(user), Some(group)).expect("a folder for another user");
        }
        let data = path.join("data");
        let initialised = command(&programs.join("initdb"), path, account)
            .args([
                "-A",
                "trust",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-sync",
                "--no-instructions",
                "-D",
            ])
            .arg(&data)
            .stdin(Stdio::null())
            .output()
            .expect("initdb runs");
        let words = String::from_utf8_lossy(&initialised.stderr);
        assert!(initialised.status.success(), "initdb failed: {words}");
        let log = path.join("log");
        let mut watchdog = command(Path::new("sh"), path, account)
            .args(["-c", WATCHDOG, "watchdog"])
            .args([&programs, &data, &log])
            .arg(settings(wanted, path))
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A key that interrupts the tests is not for the watchdog, which has still to clean up.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let answers = BufReader::new(watchdog.stdout.take().expect("the watchdog's answers"));
        let mut cluster = Cluster {
            url: format!("postgres:///postgres?host={}&user=postgres", path.display()),
            log,
            watchdog,
            answers,
            _folder: folder,
        };
        cluster.await_ready();
        cluster
    }

    /// Ends the server, as if it had crashed or (`gently`) breaking off what is under way, starts it again and waits until it is
    /// ready. Blocks the thread.
    ///
    /// # Panics
    /// With the server's own words when it does not start.
    pub fn restart(&mut self, gently: bool) {
        let mode = if gently { "fast" } else { "immediate" };
        let watchdog = self.watchdog.stdin.as_mut().expect("the watchdog listens");
        writeln!(watchdog, "{mode}").expect("the watchdog listens");
        self.await_ready();
    }

    fn await_ready(&mut self) {
        let mut answer = String::new();
        self.answers
            .read_line(&mut answer)
            .expect("the watchdog's answer");
        if answer.trim() != "ready" {
            let words = std::fs::read_to_string(&self.log).unwrap_or_default();
            panic!("Postgres did not start: {words}");
        }
    }

    /// The URL of its database `postgres`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        if let Err(error) = self.watchdog.wait() {
            let _ = writeln!(std::io::stderr(), "the test Postgres was not stopped: {error}");
        }
    }
}

fn settings(wanted: &str, socket_folder: &Path) -> OsString {
    let mut settings = OsString::from(wanted);
    settings.push(" -k ");
    settings.push(socket_folder);
    settings
}

/// `MCPINDEX_TEST_PG_BIN`, else `PATH`, else the newest of Debian's folders, which are not on `PATH`.
fn programs() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres"]
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    if let Some(named) = std::env::var_os("MCPINDEX_TEST_PG_BIN") {
        return Some(PathBuf::from(named)).filter(has_all);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find(has_all).or_else(|| {
        let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let folder = entry.ok()?.path();
                let version = folder.file_name()?.to_str()?.parse().ok()?;
                Some((version, folder.join("bin")))
            })
            .collect();
        versions.sort();
        versions.into_iter().map(|(_, folder)| folder).rfind(has_all)
    })
}

/// Postgres refuses to run as root: `postgres`, which Debian's package makes, or else `nobody`. `None`: as ourselves.
fn other_account(own_folder: &Path) -> Option<(u32, u32)> {
    let is_root = std::fs::metadata(own_folder).is_ok_and(|metadata| metadata.uid() == 0);
    if !is_root {
        return None;
    }
    let accounts = std::fs::read_to_string("/etc/passwd").expect("the list of users");
    let ids = |name: &str| {
        let line = accounts
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(
        ids("postgres")
            .or_else(|| ids("nobody"))
            .expect("root needs a user `postgres` or `nobody` to run Postgres as"),
    )
}

fn command(program: &Path, folder: &Path, account: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    if let Some((user, group)) = account {
        command.uid(user).gid(group);
    }
    command
}
