//! One call of a package client (`npm`, `python3 -m pip`, `node`), within limits.
//!
//! It runs in a jail, and gets of our environment what tells it the user's registry, proxy and certificates; it runs in a folder that
//! holds nothing else, so that no project's settings reach it.
//!
//! Invariant: a call ends, with its whole process group, within its time limit or when its future is dropped; what it
//! wrote is bounded; and its words reach an error as one line without control characters.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcpindex::sandbox::{self, Exceeded, Watch};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::PackageError;
use crate::jails::{Jails, Workplace};

/// How long one call may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(180);

/// How much of a client's standard output is read, in bytes; a call that writes more fails.
pub const MAX_OUTPUT: usize = 32 << 20;

/// The longest file by which a package describes itself that is read, in bytes: it is read outside of any jail.
const MAX_DESCRIPTION: usize = 4 << 20;

/// How much of the end of its standard error is kept, in bytes.
const KEPT_ERRORS: usize = 256 << 10;

/// The longest line of a client's words in an error, in characters.
const MAX_REASON: usize = 300;

/// A call to be made.
pub(super) struct Call<'a> {
    /// The program's path.
    pub program: &'a str,
    /// What errors call it.
    pub client: &'static str,
    /// `npm` or `pypi`.
    pub registry: &'static str,
    /// Its arguments.
    pub args: &'a [String],
    /// Where it runs.
    pub directory: &'a Path,
    /// Variables set on top of those for every client.
    pub env: &'a [(&'static str, &'static str)],
    /// Whose jail it runs in.
    pub jails: &'a Jails,
}

/// What a call that ended wrote.
#[derive(Debug)]
pub(super) struct Output {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

/// A child whose process group does not outlive this value.
struct Running(Box<dyn ChildWrapper>);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only when the group is gone already.
        let _ = self.0.start_kill();
    }
}

/// Makes the call. An exit status other than 0 is no error here: what it means is the caller's to read from the words.
pub(super) async fn run(call: &Call<'_>) -> Result<Output, PackageError> {
    let Workplace {
        jail,
        home,
        variables,
        downloads: _held,
    } = call.jails.installing(call.directory).await?;
    let mut command = jail.command(home.path(), call.directory, call.program, call.args);
    command
        .envs(variables)
        .envs(call.env.iter().copied())
        .env("LANG", "C.UTF-8")
        .env("NO_COLOR", "1");
    let watch = |leader| Watch::new(&jail, home.path(), leader);
    run_within(command, (call.client, call.registry), watch, TIME_LIMIT).await
}

async fn run_within(
    command: std::process::Command,
    (client, registry): (&'static str, &'static str),
    watch: impl Fn(u32) -> Watch,
    limit: Duration,
) -> Result<Output, PackageError> {
    let mut command = Command::from(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => PackageError::ClientMissing { client, registry },
        _ => failed(client, &error.to_string()),
    })?;
    let watch = child.id().map(watch);
    let stdout = child.stdout().take();
    let stderr = child.stderr().take();
    let mut running = Running(child);
    let ended = async {
        let (stdout, stderr) = tokio::join!(read_all(stdout), read_end(stderr));
        let status = running
            .0
            .wait()
            .await
            .map_err(|error| failed(client, &error.to_string()))?;
        let Some(stdout) = stdout else {
            return Err(failed(
                client,
                &format!("it wrote more than {} MiB", MAX_OUTPUT >> 20),
            ));
        };
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        if sandbox::never_entered(Some(status), &stderr) {
            let reason = one_line(&stderr);
            return Err(PackageError::SandboxUnavailable { reason });
        }
        Ok(Output {
            success: status.success(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr,
        })
    };
    let exceeded = async {
        match watch {
            Some(watch) => watch.exceeded().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = tokio::time::timeout(limit, ended) => ended.unwrap_or(Err(PackageError::TimedOut {
            client,
            seconds: limit.as_secs(),
        })),
        Exceeded { what, limit } = exceeded => Err(PackageError::OverLimit {
            client,
            what,
            limit,
        }),
    }
}

/// Everything, or `None` when it is more than [`MAX_OUTPUT`]. A pipe that breaks ends as one that is closed.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut read).await;
    }
    (read.len() <= MAX_OUTPUT).then_some(read)
}

/// The last [`KEPT_ERRORS`] bytes.
async fn read_end(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut pipe) = pipe else { return kept };
    let mut chunk = vec![0; 8 << 10];
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => return kept,
            Ok(count) => kept.extend_from_slice(&chunk[..count]),
        }
        if kept.len() > 2 * KEPT_ERRORS {
            kept.drain(..kept.len() - KEPT_ERRORS);
        }
    }
}

/// A file that a package brought along, as text; the error is one line.
pub(super) fn read_bounded(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let name = path.file_name().unwrap_or_default().display().to_string();
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_DESCRIPTION as u64 + 1).read_to_string(&mut text))
        .map_err(|error| format!("{name}: {error}"))?;
    match text.len() > MAX_DESCRIPTION {
        true => Err(format!("{name} is longer than {MAX_DESCRIPTION} bytes")),
        false => Ok(text),
    }
}

/// A failure in the client's words.
pub(super) fn failed(client: &'static str, words: &str) -> PackageError {
    PackageError::Client {
        client,
        reason: one_line(words),
    }
}

/// The text as one line: control characters and runs of spaces become one space, and the end is cut off.
pub(super) fn one_line(words: &str) -> String {
    let words: String = words
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use mcpindex::sandbox::{JailLimits, Level, Sandbox};

    use super::*;

    async fn started(command: std::process::Command, limit: Duration) -> Result<Output, PackageError> {
        let limits = JailLimits::installing();
        let nobody = Sandbox::at(Level::Landlock, Path::new("")).unwrap();
        let watch = |leader| Watch::new(&nobody.jail(limits), Path::new("/proc/none"), leader);
        run_within(command, ("npm", "npm"), watch, limit).await
    }

    async fn shell(script: &str, limit: Duration) -> Result<Output, PackageError> {
        let directory = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(directory.path())
            .env("LEVEL", "7");
        started(command, limit).await
    }

    #[tokio::test]
    async fn a_call_gives_what_was_written_and_how_it_ended() {
        let output = shell(
            "echo $LEVEL; pwd -P >/dev/null; ls; echo oh >&2; exit 3",
            TIME_LIMIT,
        )
        .await
        .unwrap();
        assert_eq!(
            (output.success, output.stdout.as_str(), output.stderr.as_str()),
            (false, "7\n", "oh\n")
        );
    }

    #[tokio::test]
    async fn a_call_over_its_time_ends_with_all_that_it_started() {
        let mark = tempfile::tempdir().unwrap();
        let pid_file = mark.path().join("pid");
        // The grandchild holds the pipe open, so that only the end of the whole group can end it.
        let script = format!("sleep 600 & echo $! >{}; wait", pid_file.display());
        let error = shell(&script, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(
            error,
            PackageError::TimedOut {
                client: "npm",
                seconds: 1
            }
        );
        let grandchild: u32 = std::fs::read_to_string(&pid_file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let stat = format!("/proc/{grandchild}/stat");
        let gone = async {
            // A zombie that nobody has reaped yet runs no more.
            while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_that_writes_without_end_fails_by_name() {
        let error = shell("yes", TIME_LIMIT).await.unwrap_err();
        insta::assert_snapshot!(error, @"npm failed: it wrote more than 32 MiB");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let command = std::process::Command::new("mcpindex-no-such-client");
        insta::assert_snapshot!(started(command, TIME_LIMIT).await.unwrap_err(), @"`npm` is not installed; it is needed for npm packages");
    }

    #[test]
    fn words_become_one_line() {
        assert_eq!(one_line("  a\tb\r\n\u{1b}[31mc  "), "a b [31mc");
        assert_eq!(one_line(&"é".repeat(400)).chars().count(), 301);
    }
}
