//! `mcpindex gate -- COMMAND`: the client on our own stdin and stdout, the server as a child process.
//!
//! The server gets our environment, our directory and our stderr: it is the client's server, only watched. It has a
//! process group of its own, which ends with it.
//!
//! Invariant: no orphan: the server and its group end when the client goes, when we are told to end, and when we fail.

use std::env;
use std::ffi::OsStr;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio as Pipe};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::drill::Drill;
use super::own_process::{OwnInput, OwnOutput, StopSignals};
use super::pump::{End, PATIENCE, Peer, Pump};
use crate::gate::Gate;
use crate::gate::event::Event;

/// How long a server may take to end after SIGTERM, and to be gone after SIGKILL. Together with [`PATIENCE`] less than the two
/// seconds that clients give us.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How long a client may take nothing of what still waits for it at the end.
const DRAIN_PATIENCE: Duration = Duration::from_millis(250);

const TERMINATE: i32 = 15;

/// How a gated session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The server ended by itself.
    Server {
        /// How.
        status: ExitStatus,
        /// Whether it had said anything before.
        spoke: bool,
    },
    /// The client has gone, and the server with it.
    Client,
    /// A signal told us to end.
    Stopped,
    /// This side sent a message longer than this many bytes.
    TooLong(Peer, usize),
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// There is no such program.
    #[error(
        "`{program}` is not on the PATH that we were started with ({path}): give its full path, or set PATH in the host's configuration"
    )]
    NotOnPath {
        /// The program.
        program: String,
        /// The PATH.
        path: String,
    },
    /// There is no such file.
    #[error("`{program}` can't be started: there is no such file")]
    NoSuchFile {
        /// The program.
        program: String,
    },
    /// It can't be started.
    #[error("`{program}` can't be started: {reason}")]
    NotStarted {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
    /// Our own stdin, stdout or signals can't be used.
    #[error("our own {what} can't be used: {error}")]
    Own {
        /// Which of them.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// Starts the server and passes messages until one side ends. `tell` gets each event when it happens.
pub async fn run(
    command: &[String],
    gate: Gate,
    drill: Drill,
    tell: impl FnMut(Event),
) -> Result<Ended, StdioError> {
    let own = |what| move |error| StdioError::Own { what, error };
    let message_bytes = gate.limits().message_bytes;
    let mut signals = StopSignals::listen().map_err(own("signals"))?;
    let client = (
        OwnInput::open().map_err(own("stdin"))?,
        OwnOutput::open().map_err(own("stdout"))?,
    );
    let (mut server, stdin, stdout) = Server::start(command)?;
    let mut pump = Pump::new(gate, client, (stdout, stdin), Some(drill), tell);

    let end = tokio::select! {
        end = pump.run(server.crash()) => Some(end),
        () = signals.recv() => None,
    };
    if !matches!(end, Some(End::ServerClosed | End::ClientClosed)) {
        pump.wind_up(end == Some(End::ClientGone), PATIENCE);
        pump.run(server.crash()).await;
    }
    let mut status = server.ended_within(Duration::ZERO).await;
    if status.is_none() && end == Some(End::ServerClosed) {
        status = server.ended_within(PATIENCE).await;
    }
    if status.is_none() {
        server.terminate();
        // It may have something to say, and could not end while it is stuck saying it.
        pump.wind_up(false, LAST_PATIENCE);
        tokio::join!(pump.run(pending()), server.ended_within(LAST_PATIENCE));
    }
    server.kill().await;
    pump.finish(DRAIN_PATIENCE).await;

    Ok(match (end, status) {
        (None, _) => Ended::Stopped,
        (Some(End::TooLong(peer)), _) => Ended::TooLong(peer, message_bytes),
        (Some(_), Some(status)) => Ended::Server {
            status,
            spoke: pump.server_spoke(),
        },
        (Some(_), None) => Ended::Client,
    })
}

/// The server's process and its group. Dropping it kills them.
struct Server {
    child: Box<dyn ChildWrapper>,
    gone: bool,
}

impl Server {
    fn start(command: &[String]) -> Result<(Server, ChildStdin, ChildStdout), StdioError> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(StdioError::NotStarted {
                program: String::new(),
                reason: "the command is empty".to_owned(),
            });
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::inherit());
        let mut child = CommandWrap::from(command)
            .wrap(ProcessGroup::leader())
            .wrap(KillOnDrop)
            .spawn()
            .map_err(|error| not_started(program, &error))?;
        match (child.stdin().take(), child.stdout().take()) {
            (Some(stdin), Some(stdout)) => Ok((Server { child, gone: false }, stdin, stdout)),
            _ => Err(StdioError::NotStarted {
                program: program.clone(),
                reason: "its pipes are missing".to_owned(),
            }),
        }
    }

    /// Waits until the process fails. One that ends well may have handed its pipes to another, as launchers do.
    async fn crash(&mut self) {
        if self.child.wait().await.is_ok_and(|status| status.success()) {
            pending::<()>().await;
        }
    }

    async fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        timeout(patience, self.child.wait()).await.ok()?.ok()
    }

    fn terminate(&mut self) {
        // It may have ended in this moment.
        let _ = self.child.signal(TERMINATE);
    }

    /// Ends whoever is left in the group, which may outlive its leader.
    async fn kill(&mut self) {
        let _ = self.child.start_kill();
        let _ = timeout(LAST_PATIENCE, self.child.wait()).await;
        self.gone = true;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `KillOnDrop` ends the leader alone; the group has to be told.
        if !self.gone {
            let _ = self.child.start_kill();
        }
    }
}

fn not_started(program: &str, error: &io::Error) -> StdioError {
    let path = env::var_os("PATH").unwrap_or_default();
    let reason = match error.kind() {
        io::ErrorKind::NotFound if env::current_dir().is_err() => {
            "the directory that we were started in is gone".to_owned()
        }
        io::ErrorKind::NotFound if find(program, &path).is_some() => {
            "the interpreter that its first line names is missing".to_owned()
        }
        io::ErrorKind::NotFound if !program.contains('/') => {
            return StdioError::NotOnPath {
                program: program.to_owned(),
                path: shown(&path),
            };
        }
        io::ErrorKind::NotFound => {
            return StdioError::NoSuchFile {
                program: program.to_owned(),
            };
        }
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    StdioError::NotStarted {
        program: program.to_owned(),
        reason,
    }
}

/// The file that a program's name stands for.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| file.is_file());
    }
    env::split_paths(path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// The PATH that programs are looked up on, for a message.
pub fn shown_path() -> String {
    shown(&env::var_os("PATH").unwrap_or_default())
}

fn shown(path: &OsStr) -> String {
    if path.is_empty() {
        "PATH is not set".to_owned()
    } else {
        format!("PATH={}", path.to_string_lossy())
    }
}
