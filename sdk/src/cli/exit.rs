//! Every exit code of the program, and nowhere else one.

use std::process::ExitCode;

use mcpindex_contract::outcome::Outcome;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Everything was determined.
    Ok,
    /// A fault of this program or of the machine.
    Internal,
    /// The arguments can't be used; nothing was started.
    Usage,
    /// Something could not be determined: no start, no answer, no MCP, or only a part.
    Undetermined,
    /// `check`: nothing is known of it.
    Unknown,
    /// A person has to act first: decide (`check`), or sign in.
    NeedsPerson,
    /// There is no such server, tool, held digest or key among the known ones.
    NoSuch,
    /// It can't be said or done now (pins locked; for `check`, also unreadable; an index that asks to wait).
    TryLater,
    /// `gate`: as the server ended, or 127 and 126 where it could not be found or started.
    OfServer(u8),
    /// Stopped by a signal; what was started has been ended.
    Stopped,
}

impl Exit {
    /// The code of one look.
    pub(super) fn of(outcome: Outcome) -> Exit {
        match outcome {
            Outcome::Ok => Exit::Ok,
            _ => Exit::Undetermined,
        }
    }

    pub(super) fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Internal => 1,
            Exit::Usage => 2,
            Exit::Undetermined => 5,
            Exit::Unknown => 10,
            Exit::NeedsPerson => 11,
            Exit::NoSuch => 12,
            Exit::TryLater => 13,
            Exit::OfServer(code) => code,
            Exit::Stopped => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
