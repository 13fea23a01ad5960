//! Entering a jail from within: the started program restricts itself, then becomes the one to be run.
//!
//! It is called before anything else happens in the process, so there is one thread and nothing is open. Everything here goes by safe
//! functions.
//!
//! Invariant: nobody gets past this with a wall missing; whatever fails is said on stderr, and the process ends.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use super::orders::{FIRST_ARGUMENT, Orders, PROBE_ARGUMENT};
use super::probe;

/// How a process ends that could not enter its jail: as `env` and shells do for what can't be run.
pub(crate) const NOT_ENTERED: u8 = 125;

/// And one that entered it, and found nothing to run.
const NOT_STARTED: u8 = 127;

/// What the line of the former on stderr begins with.
pub(crate) const COMPLAINT: &str = "the jail can't be entered: ";

/// Enters a jail and becomes a program in it, where this process was started for that; what it gives back then is the code to end
/// with. To be called first in every `main` of a program that makes jails.
pub fn enter_when_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    if first == FIRST_ARGUMENT {
        let (code, line) = match enter(arguments) {
            Stopped::Outside(reason) => (NOT_ENTERED, format!("{COMPLAINT}{reason}")),
            Stopped::Inside(reason) => (NOT_STARTED, reason),
        };
        let _ = writeln!(std::io::stderr(), "{line}");
        return Some(ExitCode::from(code));
    }
    if first == PROBE_ARGUMENT {
        probe::run(&arguments.next().unwrap_or_default().to_string_lossy());
        return Some(ExitCode::SUCCESS);
    }
    None
}

/// How far it came.
enum Stopped {
    /// A wall could not be put up.
    Outside(String),
    /// All walls stand, and the program can't be started.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has walls"))]
    Inside(String),
}

/// Returns only when something failed.
#[cfg(target_os = "linux")]
fn enter(mut arguments: impl Iterator<Item = OsString>) -> Stopped {
    use std::os::unix::process::CommandExt as _;

    let orders = arguments.next().unwrap_or_default();
    let Ok(orders) = serde_json::from_str::<Orders>(&orders.to_string_lossy()) else {
        return Stopped::Outside("its orders can't be read".to_owned());
    };
    let Some(program) = arguments.next() else {
        return Stopped::Outside("no program is named".to_owned());
    };
    let walls = super::walls::put_up(&orders).and_then(|()| super::calls::put_up(&orders));
    if let Err(reason) = walls {
        return Stopped::Outside(reason);
    }
    let error = std::process::Command::new(&program).args(arguments).exec();
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound => "not found".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    Stopped::Inside(format!("`{}` can't be started: {reason}", program.display()))
}

#[cfg(not(target_os = "linux"))]
fn enter(_: impl Iterator<Item = OsString>) -> Stopped {
    Stopped::Outside("only Linux has the walls".to_owned())
}
