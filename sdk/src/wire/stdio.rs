//! A server as a child process: one JSON-RPC message a line on stdin and stdout.
//!
//! The child gets a minimal environment, a working directory of its own and a process group of its own, which is killed
//! as a whole, also when the inspection is dropped half-way. In a jail ([`Launch::jail`]) everything that it started ends with it.
//!
//! Invariant: nothing here waits for the child's good will: a line without an end, a pipe that a grandchild keeps open
//! and a process that ignores signals all end at a limit.

mod home;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio as Pipe};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::sandbox::{self, Exceeded, Jail, Watch};
use crate::wire::error::WireError;
use crate::wire::limits::Limits;
use home::Home;

/// How long a server may take to end by itself once its stdin is closed.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long it may take to end after SIGTERM, and to be gone after SIGKILL.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// How long output may still arrive once the process has ended, while somebody else holds the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

const TERMINATE: i32 = 15;

/// How to start a server.
#[derive(Clone)]
pub struct Launch {
    /// The program: a path, or a name looked up on PATH.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside the minimal environment (PATH, HOME, LANG, TZ); values can't be printed.
    pub env: Vec<(String, secrecy::SecretString)>,
    /// The working directory; `None` is an empty one for this look.
    pub cwd: Option<PathBuf>,
    /// Names the empty directory, which is the server's HOME too: looks with one label find it under one path, unless they
    /// run at the same time. Without a label its path is new each time.
    pub label: Option<String>,
    /// What it runs in; `None`: as this program does. In a jail a working directory is one that it may read.
    pub jail: Option<Box<Jail>>,
}

/// How a process ended, and what it said on stderr.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// How it ended by itself; `None` when we ended it.
    pub(crate) exit: Option<ExitStatus>,
    /// The last bytes of stderr, read as UTF-8.
    pub(crate) stderr: String,
    /// Whether what ended was the jail, before there was a server in it.
    pub(crate) never_entered: bool,
}

/// The running server. Dropping it kills its process group.
pub(in crate::wire) struct Stdio {
    child: Box<dyn ChildWrapper>,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Bytes of stdout: those before `start` were given out, those before `searched` hold no line end.
    pending: Vec<u8>,
    start: usize,
    searched: usize,
    received: usize,
    exit: Option<ExitStatus>,
    stderr: StderrTail,
    message_bytes: usize,
    total_bytes: usize,
    home: Arc<Home>,
    closed: bool,
    is_jailed: bool,
    /// Ends when the jail's processes use too much.
    watch: Option<AbortOnDropHandle<Exceeded>>,
}

impl Stdio {
    /// Starts the process.
    pub(in crate::wire) fn start(launch: &Launch, limits: &Limits) -> Result<Stdio, WireError> {
        let home = Home::make(launch.label.as_deref(), &std::env::temp_dir())
            .map_err(|error| not_started(launch, format!("no temporary directory: {error}")))?;
        Stdio::start_in(Arc::new(home), launch, limits)
    }

    /// Starts another process for the same look, in the same directory.
    pub(in crate::wire) fn start_again(&self, launch: &Launch, limits: &Limits) -> Result<Stdio, WireError> {
        Stdio::start_in(Arc::clone(&self.home), launch, limits)
    }

    fn start_in(home: Arc<Home>, launch: &Launch, limits: &Limits) -> Result<Stdio, WireError> {
        let not_started = |reason| not_started(launch, reason);
        let cwd = launch.cwd.as_deref().unwrap_or(home.path());
        if !cwd.is_dir() {
            return Err(not_started(format!(
                "the working directory `{}` is none",
                cwd.display()
            )));
        }
        let mut command = match &launch.jail {
            Some(jail) => Command::from(jail.command(home.path(), cwd, &launch.program, &launch.args)),
            None => {
                let mut command = Command::new(&launch.program);
                command
                    .args(&launch.args)
                    .current_dir(cwd)
                    .env_clear()
                    .env("PATH", std::env::var_os("PATH").unwrap_or_default())
                    .env("HOME", home.path());
                command
            }
        };
        command
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .envs(
                launch
                    .env
                    .iter()
                    .map(|(name, value)| (name, value.expose_secret())),
            )
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::piped());
        let mut child = CommandWrap::from(command)
            .wrap(ProcessGroup::leader())
            .wrap(KillOnDrop)
            .spawn()
            .map_err(|error| not_started(why(&error)))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(not_started("its pipes are missing".to_owned()));
        };
        let watch = launch.jail.as_ref().zip(child.id()).map(|(jail, leader)| {
            let watch = Watch::new(jail, home.path(), leader);
            AbortOnDropHandle::new(tokio::spawn(async move { watch.exceeded().await }))
        });
        Ok(Stdio {
            is_jailed: launch.jail.is_some(),
            watch,
            child,
            stdin: Some(stdin),
            stdout,
            pending: Vec::new(),
            start: 0,
            searched: 0,
            received: 0,
            exit: None,
            stderr: StderrTail::follow(stderr, limits.stderr_bytes),
            message_bytes: limits.message_bytes,
            total_bytes: limits.total_bytes,
            home,
            closed: false,
        })
    }

    /// The directory that the child has as its HOME.
    pub(in crate::wire) fn home(&self) -> &std::path::Path {
        self.home.path()
    }

    /// Whether the next look with the same label has it too.
    pub(in crate::wire) fn has_lasting_home(&self) -> bool {
        self.home.is_lasting()
    }

    /// Writes one message.
    pub(in crate::wire) async fn send(&mut self, text: &str, method: &'static str) -> Result<(), WireError> {
        let ended = WireError::Ended { method };
        let Some(stdin) = &mut self.stdin else {
            return Err(ended);
        };
        let line = format!("{text}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            // Nobody reads any more. What the process still had to say is on its stdout and stderr.
            self.stdin = None;
            return Err(ended);
        }
        Ok(())
    }

    /// The next line, without its end. Safe to drop half-way: nothing that was read is lost.
    pub(in crate::wire) async fn receive(&mut self, method: &'static str) -> Result<Vec<u8>, WireError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(line);
            }
            if self.pending.len() > self.message_bytes {
                return Err(WireError::OverLimit {
                    what: "bytes in one message",
                    limit: self.message_bytes,
                });
            }
            let before = self.pending.len();
            let ended = if self.exit.is_some() {
                // The process is gone, but what it wrote may still be in the pipe, which a grandchild may hold open.
                tokio::select! {
                    biased;
                    exceeded = exceeded(&mut self.watch) => return Err(self.end_at_once(exceeded)),
                    read = timeout(LAST_WORDS, self.stdout.read_buf(&mut self.pending)) =>
                        !matches!(read, Ok(Ok(bytes)) if bytes > 0),
                }
            } else {
                tokio::select! {
                    biased;
                    read = self.stdout.read_buf(&mut self.pending) => !matches!(read, Ok(bytes) if bytes > 0),
                    exceeded = exceeded(&mut self.watch) => return Err(self.end_at_once(exceeded)),
                    status = self.child.wait() => {
                        self.exit = status.ok();
                        self.exit.is_none()
                    }
                }
            };
            if ended {
                return match self.take_rest() {
                    Some(line) => Ok(line),
                    None => Err(WireError::Ended { method }),
                };
            }
            self.received += self.pending.len() - before;
            if self.received > self.total_bytes {
                return Err(WireError::OverLimit {
                    what: "bytes in all",
                    limit: self.total_bytes,
                });
            }
        }
    }

    /// For a jail that uses too much: it would go on while it is asked to end.
    fn end_at_once(&mut self, Exceeded { what, limit }: Exceeded) -> WireError {
        let _ = self.child.start_kill();
        self.watch = None;
        WireError::OverLimit { what, limit }
    }

    /// The next whole line. When there is none, the bytes given out before are dropped.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        match self.pending[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            Some(offset) => {
                let end = self.searched + offset;
                let line = self.pending[self.start..end].to_vec();
                self.start = end + 1;
                self.searched = self.start;
                Some(line)
            }
            None => {
                self.pending.drain(..self.start);
                self.start = 0;
                self.searched = self.pending.len();
                None
            }
        }
    }

    /// What stood after the last line end, once nothing can follow.
    fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.searched = 0;
        let rest = std::mem::take(&mut self.pending);
        (!rest.is_empty()).then_some(rest)
    }

    /// Ends the process: closes its stdin, waits, asks its group to end, waits, kills the group.
    pub(in crate::wire) async fn close(mut self) -> Ending {
        self.stdin = None;
        if self.exit.is_none() {
            self.exit = self.wait_while_reading(PATIENCE).await;
        }
        let exit = self.exit;
        if exit.is_none() {
            let _ = self.child.signal(TERMINATE);
            let _ = self.wait_while_reading(LAST_PATIENCE).await;
        }
        // The group may outlive its leader: whoever is left in it goes now.
        let _ = self.child.start_kill();
        let _ = timeout(LAST_PATIENCE, self.child.wait()).await;
        self.closed = true;
        let stderr = self.stderr.finish().await;
        Ending {
            never_entered: self.is_jailed && sandbox::never_entered(exit, &stderr),
            exit,
            stderr,
        }
    }

    /// Waits for the end with patience, and reads on meanwhile: a server that is stuck writing could not end. One that uses the time
    /// to use too much loses what is left of it.
    async fn wait_while_reading(&mut self, patience: Duration) -> Option<ExitStatus> {
        let mut scrap = vec![0; 8 << 10];
        let mut open = true;
        let Stdio {
            child, stdout, watch, ..
        } = self;
        let end = async {
            let mut wait = child.wait();
            loop {
                tokio::select! {
                    status = &mut wait => return Ok(status.ok()),
                    exceeded = exceeded(watch) => return Err(exceeded),
                    read = stdout.read(&mut scrap), if open => open = matches!(read, Ok(bytes) if bytes > 0),
                }
            }
        };
        match timeout(patience, end).await {
            Ok(Ok(exit)) => exit,
            Ok(Err(exceeded)) => {
                let _ = self.end_at_once(exceeded);
                None
            }
            Err(_) => None,
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // `KillOnDrop` ends the leader alone; the group has to be told.
        if !self.closed {
            let _ = self.child.start_kill();
        }
    }
}

/// What was exceeded, once it is; without a watch never.
async fn exceeded(watch: &mut Option<AbortOnDropHandle<Exceeded>>) -> Exceeded {
    match watch {
        Some(watch) => match watch.await {
            Ok(exceeded) => exceeded,
            // It never fails by itself; where it did, the limits of time are left.
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn not_started(launch: &Launch, reason: String) -> WireError {
    WireError::NotStarted {
        program: launch.program.clone(),
        reason,
    }
}

fn why(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "not found".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// The last bytes of stderr, drained all the time so that the child never blocks on it.
struct StderrTail {
    kept: Arc<Mutex<Kept>>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Whether earlier bytes were dropped.
    is_cut: bool,
}

impl StderrTail {
    fn follow(mut stderr: ChildStderr, limit: usize) -> StderrTail {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let target = Arc::clone(&kept);
        let reader = tokio::spawn(async move {
            let mut chunk = vec![0; 8 << 10];
            while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
                let mut kept = target.lock().unwrap_or_else(PoisonError::into_inner);
                kept.bytes.extend(&chunk[..read]);
                let surplus = kept.bytes.len().saturating_sub(limit);
                kept.bytes.drain(..surplus);
                kept.is_cut |= surplus > 0;
            }
        });
        StderrTail { kept, reader }
    }

    /// What was kept, once the pipe is closed or has been silent for a moment.
    async fn finish(&mut self) -> String {
        let _ = timeout(LAST_WORDS, &mut self.reader).await;
        self.reader.abort();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (front, back) = kept.bytes.as_slices();
        let bytes = [front, back].concat();
        let whole_lines = match bytes.iter().position(|byte| *byte == b'\n') {
            // Half a line may hold half a secret, which nobody would recognise.
            Some(end) if kept.is_cut => &bytes[end + 1..],
            None if kept.is_cut => &[],
            _ => &bytes[..],
        };
        String::from_utf8_lossy(whole_lines).into_owned()
    }
}

impl Drop for StderrTail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
