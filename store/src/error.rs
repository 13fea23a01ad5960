//! What can go wrong with the database, as far as a caller can act on it.
//!
//! Invariant: every message is one line, and none holds a credential.

use mcpindex_contract::approval::ChainFlaw;

/// A failed call to the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached or opened.
    #[error("the database can't be opened: {reason}")]
    Unreachable {
        /// One line, without credentials.
        reason: String,
    },
    /// The SQLite file or its folder can't be written.
    #[error("`{path}` is not writable: {reason}")]
    NotWritable {
        /// The file or folder.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// A newer program has migrated this database.
    #[error("the database was migrated by a newer mcpindex (schema {found}, this program knows {known})")]
    NewerSchema {
        /// The newest migration in the database.
        found: i64,
        /// The newest one this program has.
        known: i64,
    },
    /// The lease was lost: another worker has taken the target over, or the result is there already.
    #[error("the lease on target {target} was lost to another worker")]
    LeaseLost {
        /// The target.
        target: i64,
    },
    /// A reading was lost: another worker reads the source now, or it is followed no more.
    #[error("the reading of {address} was lost to another worker")]
    SourceTaken {
        /// The source.
        address: String,
    },
    /// The call can't be carried out as it stands, however often it is made.
    #[error("refused: {what}")]
    Refused {
        /// What is wrong with it.
        what: String,
    },
    /// The records of what was approved don't fit together; none was read or added.
    #[error("the chain of approvals is broken: {flaw}")]
    ChainBroken {
        /// What is wrong, and where.
        flaw: ChainFlaw,
    },
    /// Something in the database isn't what this program writes.
    #[error("unexpected data in the database: {what}")]
    Corrupt {
        /// Which value.
        what: String,
    },
    /// Any other database error.
    #[error("database error: {0}")]
    Database(String),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed => StoreError::Unreachable {
                reason: one_line(&error),
            },
            _ => StoreError::Database(one_line(&error)),
        }
    }
}

/// The driver's words on one line.
pub(crate) fn one_line(error: &sqlx::Error) -> String {
    let words = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Io(error) => error.to_string(),
        _ => error.to_string(),
    };
    words.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
