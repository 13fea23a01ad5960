//! Jails for programs that nobody trusts: what one may read, write and reach, and how much of the machine it may use.
//!
//! A jail has one of two levels of walls ([`Level`]). Which of them hold on this machine is found out by building one and trying to
//! break out of it ([`Sandbox::choose`]), never by asking for versions. A jail is entered by starting this program again with a hidden
//! first argument: it restricts itself and becomes the program to be run ([`enter_when_asked`], called first in every `main`).
//!
//! Invariant: what is started here runs behind all walls of its level or not at all.

mod bubblewrap;
mod calls;
mod enter;
mod orders;
pub mod probe;
#[cfg(unix)]
mod removal;
mod walls;
mod watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

pub use enter::enter_when_asked;
#[cfg(unix)]
pub use removal::remove_all;
pub use watch::{Exceeded, Watch, is_larger};

use orders::Orders;
use probe::Trial;

/// Which walls a jail has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Namespaces of its own for files, processes, network and users (by bubblewrap), and all that [`Level::Landlock`] has.
    Namespaces,
    /// Files by Landlock; no sockets, and nothing that reaches other processes, by seccomp. For where no namespace can be
    /// made: in a container, mostly.
    Landlock,
}

impl Level {
    /// Both, the stronger first.
    pub const ALL: [Level; 2] = [Level::Namespaces, Level::Landlock];

    /// As observations, pages and `doctor` call it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Namespaces => "ns+landlock+seccomp",
            Level::Landlock => "landlock+seccomp",
        }
    }
}

/// How much of the machine all processes of one jail may use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JailLimits {
    /// Resident memory, in bytes.
    pub memory: usize,
    /// Processor time, in seconds.
    pub processor: usize,
    /// Processes at once.
    pub processes: usize,
    /// The largest file, in bytes.
    pub file: usize,
    /// Bytes below each folder that may be written.
    pub disk: usize,
}

impl JailLimits {
    /// For a server that is asked what it declares.
    pub fn listing() -> JailLimits {
        JailLimits {
            memory: 768 << 20,
            processor: 20,
            processes: 64,
            file: 64 << 20,
            disk: 64 << 20,
        }
    }

    /// For a package client that installs.
    pub fn installing() -> JailLimits {
        JailLimits {
            memory: 2 << 30,
            processor: 300,
            processes: 128,
            file: 512 << 20,
            disk: 1 << 30,
        }
    }
}

/// What one program may do, and behind which walls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jail {
    /// The walls.
    pub sandbox: Sandbox,
    /// Folders and files that it may read and execute, beside the system's programs and libraries.
    pub read: Vec<PathBuf>,
    /// Folders that it may write, too.
    pub write: Vec<PathBuf>,
    /// Folders that it may write and that others write as well: what is in them is not held against its limit.
    pub share: Vec<PathBuf>,
    /// Where programs are looked up first, before the system's folders.
    pub programs: Vec<PathBuf>,
    /// Whether it may use the network: only package clients may.
    pub network: bool,
    /// How much it may use.
    pub limits: JailLimits,
}

impl Jail {
    /// The command that runs this program in `directory`, with `home` as its own folder: where that is none of those that it may
    /// write, what it finds there within namespaces is an empty one in memory. It gets no variable but those of the jail and what is set
    /// on the command.
    pub fn command(&self, home: &Path, directory: &Path, program: &str, args: &[String]) -> Command {
        let orders = Orders::of(self, home).to_json();
        let mut command = match self.sandbox.level {
            Level::Namespaces => {
                let mut command = Command::new(&self.sandbox.bubblewrap);
                command.args(bubblewrap::arguments(self, home, directory));
                command.arg(bubblewrap::ENTRY);
                command
            }
            Level::Landlock => {
                let mut command = Command::new(&self.sandbox.program);
                command.current_dir(directory);
                command
            }
        };
        command
            .arg(orders::FIRST_ARGUMENT)
            .arg(orders)
            .arg(program)
            .args(args)
            .env_clear()
            .env("PATH", self.path())
            .env("HOME", home);
        if self.sandbox.level == Level::Landlock {
            // The machine's own is for everybody.
            command.env("TMPDIR", home);
        }
        command
    }

    fn path(&self) -> OsString {
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
        let folders = self.programs.iter().chain(&system);
        // A folder whose name holds a colon can't be in PATH at all.
        std::env::join_paths(folders.filter(|folder| !folder.to_string_lossy().contains(':')))
            .unwrap_or_default()
    }
}

/// The walls that hold on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    level: Level,
    /// What starts itself again to enter a jail.
    program: PathBuf,
    /// Where bubblewrap is, at [`Level::Namespaces`].
    bubblewrap: PathBuf,
}

/// No level of walls holds here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox holds on this machine: {reasons}")]
pub struct Unavailable {
    /// Of each level in one line, why it can't be used.
    pub reasons: String,
}

impl Sandbox {
    /// The strongest level whose walls hold here, found out by trying. `program` is one whose `main` calls [`enter_when_asked`] first:
    /// this program itself, [`std::env::current_exe`]. Takes about a tenth of a second; blocks.
    pub fn choose(program: &Path) -> Result<Sandbox, Unavailable> {
        let mut reasons = Vec::new();
        for level in Level::ALL {
            match Sandbox::at(level, program).and_then(Sandbox::hold) {
                Ok(sandbox) => return Ok(sandbox),
                Err(reason) => reasons.push(format!("{}: {reason}", level.name())),
            }
        }
        Err(Unavailable {
            reasons: reasons.join("; "),
        })
    }

    /// This level, untried: for `doctor`, which tries each. The error is one line.
    pub fn at(level: Level, program: &Path) -> Result<Sandbox, String> {
        if !cfg!(target_os = "linux") {
            return Err("only Linux has it".to_owned());
        }
        let bubblewrap = match level {
            Level::Namespaces => bubblewrap::find()
                .ok_or_else(|| "`bwrap` is not installed (the package is called bubblewrap)".to_owned())?,
            Level::Landlock => PathBuf::new(),
        };
        Ok(Sandbox {
            level,
            program: program.to_owned(),
            bubblewrap,
        })
    }

    fn hold(self) -> Result<Sandbox, String> {
        let trials = probe::try_to_break_out(&self)?;
        match trials.iter().find(|trial| !trial.held()) {
            None => Ok(self),
            Some(Trial { what, said, .. }) => Err(format!("{what}: {said}")),
        }
    }

    /// The level of its walls.
    pub fn level(&self) -> Level {
        self.level
    }

    /// A jail of these walls, in which nothing more than the system may be read.
    pub fn jail(&self, limits: JailLimits) -> Jail {
        Jail {
            sandbox: self.clone(),
            read: Vec::new(),
            write: Vec::new(),
            share: Vec::new(),
            programs: Vec::new(),
            network: false,
            limits,
        }
    }
}

/// Whether a process that ended so, and said this, was a jail that never got to run its program.
pub fn never_entered(exit: Option<ExitStatus>, stderr: &str) -> bool {
    let code = exit.and_then(|exit| exit.code());
    let begins = |words: &str| stderr.lines().any(|line| line.starts_with(words));
    (code == Some(i32::from(enter::NOT_ENTERED)) && begins(enter::COMPLAINT))
        || (code == Some(1) && begins(bubblewrap::COMPLAINT))
}
