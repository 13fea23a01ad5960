//! Starting `mcpindex-server` and the fixture server, and waiting for what they do.
//!
//! Invariant: a wait is for a condition and has a limit; a process that a test starts ends with the test.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The longest that anything here may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(50);

/// A folder for one index, with the program's own settings out of the environment.
pub(crate) struct Place {
    folder: TempDir,
    database: Option<String>,
}

impl Place {
    /// An index on SQLite in its own folder.
    pub(crate) fn new() -> Place {
        Place {
            folder: tempfile::tempdir().expect("a temporary folder"),
            database: None,
        }
    }

    /// An index on this database.
    pub(crate) fn with_database(url: String) -> Place {
        Place {
            database: Some(url),
            ..Place::new()
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and gives its path as text.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// `mcpindex-server` with these arguments, its data in this place.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpindex-server"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MCPINDEX_") {
                command.env_remove(name);
            }
        }
        command
            .env("MCPINDEX_DATA", self.path("data"))
            // Scripts of these tests start the fixture, which no line of theirs names.
            .env(
                "MCPINDEX_CRAWL_READ",
                fixture().parent().unwrap_or(Path::new("/")),
            )
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(url) = &self.database {
            command.env("MCPINDEX_DATABASE", url);
        }
        command
    }

    /// Runs it to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments)).await
    }

    /// Starts `serve` on a free port and waits until it is ready.
    pub(crate) async fn serve(&self, arguments: &[&str]) -> Served {
        self.serve_logging(arguments, Stdio::inherit()).await
    }

    /// The same, with the log there.
    pub(crate) async fn serve_logging(&self, arguments: &[&str], log: Stdio) -> Served {
        let mut line = vec!["serve", "--listen", "127.0.0.1:0"];
        line.extend(arguments);
        let mut child = self.command(&line).stderr(log).spawn().expect("serve starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
        let mut printed = Vec::new();
        let base = loop {
            let line = within("the address", lines.next_line())
                .await
                .expect("stdout")
                .expect("an address");
            printed.push(line.clone());
            if let Some(address) = line.trim().strip_prefix("listening") {
                break address.trim().to_owned();
            }
        };
        let served = Served {
            child,
            base,
            lines,
            printed,
            client: client(),
        };
        until("the server is ready", async || {
            served.get("readyz").await.0 == 200
        })
        .await;
        served
    }
}

/// Runs a command to its end.
pub(crate) async fn ended(mut command: Command) -> Ended {
    Ended(
        within("the end of a command", command.output())
            .await
            .expect("it starts"),
    )
}

/// What a command left.
pub(crate) struct Ended(Output);

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("text")
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout())
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout(), self.stderr()))
    }
}

/// A server that runs.
pub(crate) struct Served {
    child: Child,
    pub(crate) base: String,
    lines: Lines<BufReader<ChildStdout>>,
    printed: Vec<String>,
    client: reqwest::Client,
}

impl Served {
    /// Status and body of one read; status 0 when nobody answers.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let address = format!("{}/{path}", self.base);
        match self.client.get(address).send().await {
            Ok(answer) => (answer.status().as_u16(), answer.text().await.unwrap_or_default()),
            Err(_) => (0, String::new()),
        }
    }

    pub(crate) async fn json(&self, path: &str) -> serde_json::Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The next line on its stdout that holds `part`.
    pub(crate) async fn line_with(&mut self, part: &str) -> String {
        loop {
            let line = within(part, self.lines.next_line()).await.expect("stdout");
            let line = line.unwrap_or_else(|| panic!("no line with `{part}` in {:?}", self.printed));
            self.printed.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Ends it in the middle of what it does (SIGKILL).
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it runs");
    }

    /// Asks it to end, and gives the exit code.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().expect("it runs");
        assert!(kill("-TERM", id).await, "the signal is sent");
        within("the end of serve", self.child.wait())
            .await
            .expect("it ended")
            .code()
    }
}

/// `kill SIGNAL ID`; false when there is no such process.
pub(crate) async fn kill(signal: &str, id: u32) -> bool {
    let mut command = Command::new("kill");
    command.args([signal, &id.to_string()]).stderr(Stdio::null());
    command.status().await.expect("kill is there").success()
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    within(what, async {
        while !condition().await {
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .unwrap_or_else(|_| panic!("waited {} s for {what}", LIMIT.as_secs()))
}

/// The fixture MCP server of the sdk's tests.
pub(crate) fn fixture() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_server-fixture-server"))
}

#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
pub(crate) fn client() -> reqwest::Client {
    // An error says that another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .timeout(LIMIT)
        .build()
        .expect("a client")
}
