//! How the program ends: the one table of exit codes, and the one place where an error becomes a code and a line.
//!
//! Invariant: scripts can rely on the numbers; whatever went wrong is one line on stderr that says what, where and what to do.

use std::net::SocketAddr;
use std::process::ExitCode;

use mcpindex_crawler::CrawlError;
use mcpindex_store::StoreError;

use crate::config::ConfigError;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    Done,
    /// Something failed; each failure has its line.
    Failed,
    /// The command line, the configuration or a variable is not understood.
    Usage,
    /// The address to listen on can't be had.
    CantListen,
    /// The database can't be reached or opened.
    DatabaseUnreachable,
    /// The data folder can't be written.
    DataNotWritable,
    /// The database was migrated by a newer program.
    NewerSchema,
    /// Stopped by the user before the end.
    Interrupted,
}

impl Exit {
    /// Every ending, for the table in the help.
    pub const ALL: [Exit; 8] = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::CantListen,
        Exit::DatabaseUnreachable,
        Exit::DataNotWritable,
        Exit::NewerSchema,
        Exit::Interrupted,
    ];

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::CantListen => 10,
            Exit::DatabaseUnreachable => 11,
            Exit::DataNotWritable => 12,
            Exit::NewerSchema => 13,
            Exit::Interrupted => 130,
        }
    }

    /// What it means, for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Exit::Done => "everything asked for was done",
            Exit::Failed => "something failed; each failure has its line",
            Exit::Usage => "the command line, the configuration or a variable is not understood",
            Exit::CantListen => "the address to listen on can't be had",
            Exit::DatabaseUnreachable => "the database can't be reached or opened",
            Exit::DataNotWritable => "the data folder can't be written",
            Exit::NewerSchema => "the database was migrated by a newer mcpindex-server",
            Exit::Interrupted => "stopped before the end",
        }
    }

    /// What to do about it, where that is always the same.
    fn way_out(self) -> Option<&'static str> {
        match self {
            Exit::CantListen => Some("choose another address with --listen, or stop what listens there"),
            Exit::DatabaseUnreachable => Some("check --database, and that the database runs"),
            Exit::DataNotWritable => {
                Some("choose another folder with --data, or another place for the database with --database")
            }
            Exit::NewerSchema => {
                Some("run the newer mcpindex-server, or choose another database with --database")
            }
            Exit::Done | Exit::Failed | Exit::Usage | Exit::Interrupted => None,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// What the commands themselves find wrong; errors of the crates below are kept as they are.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Somebody else listens there.
    #[error("{address} is taken by another program")]
    PortTaken {
        /// The address.
        address: SocketAddr,
    },
    /// The system refuses the address.
    #[error("can't listen on {address}: {reason}")]
    CantListen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        reason: String,
    },
    /// The data folder can't be made or written.
    #[error("the data folder `{path}` can't be used: {reason}")]
    DataFolder {
        /// The folder.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// What was asked for can't be done as it was asked.
    #[error("{0}")]
    Usage(String),
    /// The user stopped it.
    #[error("stopped")]
    Interrupted,
}

/// The code and the line for an error, whichever crate it comes from; no line when nobody is left to read it.
pub fn of(error: &anyhow::Error) -> (Exit, Option<String>) {
    if is_closed_pipe(error) {
        return (Exit::Failed, None);
    }
    let exit = code_of(error);
    let line = match exit.way_out() {
        Some(way_out) => format!("{error:#}; {way_out}"),
        None => format!("{error:#}"),
    };
    (exit, Some(line))
}

fn code_of(error: &anyhow::Error) -> Exit {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return match failure {
            Failure::PortTaken { .. } | Failure::CantListen { .. } => Exit::CantListen,
            Failure::DataFolder { .. } => Exit::DataNotWritable,
            Failure::Usage(_) => Exit::Usage,
            Failure::Interrupted => Exit::Interrupted,
        };
    }
    if error.downcast_ref::<ConfigError>().is_some() {
        return Exit::Usage;
    }
    if let Some(store) = error.downcast_ref::<StoreError>() {
        return of_store(store);
    }
    match error.downcast_ref::<CrawlError>() {
        Some(
            CrawlError::Identity(_)
            | CrawlError::Target { .. }
            | CrawlError::Credential
            | CrawlError::TargetList { .. }
            | CrawlError::Setting { .. },
        ) => Exit::Usage,
        Some(CrawlError::Store(store)) => of_store(store),
        Some(CrawlError::Cache { .. }) => Exit::DataNotWritable,
        _ => Exit::Failed,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Unreachable { .. } => Exit::DatabaseUnreachable,
        StoreError::NotWritable { .. } => Exit::DataNotWritable,
        StoreError::NewerSchema { .. } => Exit::NewerSchema,
        _ => Exit::Failed,
    }
}

/// `mcpindex-server … | head`: the reader has seen enough.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: impl Into<anyhow::Error>, expected: u8) {
        let error = error.into();
        assert_eq!(of(&error).0.code(), expected, "{error}");
    }

    #[test]
    fn every_kind_of_error_has_its_code() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        check(Failure::PortTaken { address }, 10);
        check(Failure::Usage("no".to_owned()), 2);
        check(Failure::Interrupted, 130);
        check(
            ConfigError::Variable {
                variable: "V".to_owned(),
                problem: "p".to_owned(),
            },
            2,
        );
        let unreachable = || StoreError::Unreachable {
            reason: "refused".to_owned(),
        };
        check(unreachable(), 11);
        check(CrawlError::Store(unreachable()), 11);
        check(anyhow::Error::from(unreachable()).context("while planning"), 11);
        check(StoreError::NewerSchema { found: 2, known: 1 }, 13);
        check(
            StoreError::NotWritable {
                path: "p".to_owned(),
                reason: "r".to_owned(),
            },
            12,
        );
        check(anyhow::anyhow!("anything else"), 1);
    }

    #[test]
    fn the_codes_differ() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
    }
}
