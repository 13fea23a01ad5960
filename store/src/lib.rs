//! The index's memory, on SQLite or on Postgres, from one SQL text.
//!
//! Methods are named for what the product does (`record_observation`, `claim_targets`), not for tables. Times are
//! unix seconds and come from the caller.
//!
//! Invariant: no SQL anywhere else; every write transaction goes through one door (`BEGIN IMMEDIATE` on SQLite);
//! what a method has acknowledged is durable.

pub mod accounts;
pub mod approvals;
pub mod audit;
pub mod backup;
mod compare;
pub mod definitions;
pub mod drifts;
pub mod error;
pub mod finding;
pub mod ledger;
mod location;
pub mod migrate;
pub mod observations;
pub mod pace;
pub mod receipts;
pub mod registry;
pub mod search;
pub mod servers;
mod session;
pub mod sightings;
pub mod signals;
pub mod sources;
mod surfaces;
pub mod targets;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
pub mod webhooks;

pub use error::StoreError;
pub use location::{Location, LocationError};
pub use migrate::SchemaState;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection};

use session::{Session, on};

/// How long the first connection to a Postgres server may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long a SQLite connection waits for another process's write transaction.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// How long after a lock was met in opening a file it is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// How long a call waits for a connection while all of them are in use here.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(30);
/// Connections to Postgres for each process, and reading connections to a SQLite file.
const CONNECTIONS: u32 = 10;
const SQLITE_READERS: u32 = 4;

/// The database, one of two. Cloning is cheap: clones share their connections.
#[derive(Clone)]
pub struct Store {
    database: Database,
    /// What this process has verified of each tenant's chain of approvals.
    verified: approvals::Verified,
    /// See [`Store::told`].
    told: Arc<AtomicU64>,
    ledger: Arc<ledger::Kept>,
}

#[derive(Clone)]
enum Database {
    Sqlite {
        /// One connection: writers of this process queue here instead of at the file's lock.
        writer: SqlitePool,
        readers: SqlitePool,
    },
    Postgres(PgPool),
}

impl Store {
    /// Connects; makes the SQLite file and its folder if they are missing; migrates nothing.
    ///
    /// [`StoreError::NotWritable`] names the file or folder; [`StoreError::Unreachable`] comes after at most five
    /// seconds and never holds a password.
    pub async fn open(location: &Location) -> Result<Store, StoreError> {
        let database = match location {
            Location::Sqlite(path) => open_sqlite(path).await?,
            Location::Postgres(url) => {
                open_postgres(url)
                    .await
                    .map_err(|reason| StoreError::Unreachable {
                        reason: format!("{location}: {reason}"),
                    })?
            }
        };
        Ok(Store {
            database,
            verified: approvals::Verified::default(),
            told: Arc::default(),
            ledger: Arc::default(),
        })
    }

    /// One trivial query, for `/readyz`.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut session = self.read().await?;
        on!(session, connection => { sqlx::query("SELECT 1").execute(connection).await?; });
        Ok(())
    }

    /// Grows whenever this store, or a clone of it, has recorded an observation, counted signals or forgotten an install, and so may
    /// have changed what [`Store::told_drifts`] says. It knows nothing of new aliases and of what other programs do. For whoever
    /// keeps such answers for a moment.
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// What is told of drifts is another from now on.
    fn told_anew(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
    }

    /// `sqlite` or `postgres`.
    pub fn backend(&self) -> &'static str {
        match self.database {
            Database::Sqlite { .. } => "sqlite",
            Database::Postgres(_) => "postgres",
        }
    }

    /// Closes the pools; SQLite checkpoints its log when this is the last program that has the file open.
    pub async fn close(&self) {
        match &self.database {
            Database::Sqlite { writer, readers } => {
                // The last connection to close checkpoints, and only the writer may.
                readers.close().await;
                writer.close().await;
            }
            Database::Postgres(pool) => pool.close().await,
        }
    }

    /// The only door to a write transaction. On SQLite it takes the write lock at once: a deferred transaction that
    /// reads first fails with `SQLITE_BUSY_SNAPSHOT`, whatever the busy timeout.
    async fn write(&self) -> Result<Session, StoreError> {
        Ok(self.begin_write().await?)
    }

    /// [`Store::write`] with the driver's own error.
    async fn begin_write(&self) -> Result<Session, sqlx::Error> {
        Ok(match &self.database {
            Database::Sqlite { writer, .. } => Session::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            Database::Postgres(pool) => Session::Postgres(pool.begin().await?),
        })
    }

    /// A transaction that reads one state of the database, however many statements it takes.
    async fn read(&self) -> Result<Session, StoreError> {
        Ok(match &self.database {
            Database::Sqlite { readers, .. } => Session::Sqlite(readers.begin().await?),
            Database::Postgres(pool) => Session::Postgres(
                pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                    .await?,
            ),
        })
    }
}

impl fmt::Debug for Store {
    /// The kind of database and nothing of how it is reached.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Store").field(&self.backend()).finish()
    }
}

async fn open_sqlite(path: &Path) -> Result<Database, StoreError> {
    make_writable(path).await?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // NORMAL would lose the last commits at a power cut.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_LIMIT)
        .disable_statement_logging();
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_LIMIT)
            // A file needs no probing, and closing idle connections would drop the page cache.
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
    };
    // Of two programs that open a new file at once, SQLite refuses one the change to its log without waiting for the other.
    let deadline = tokio::time::Instant::now() + BUSY_LIMIT;
    let writer = loop {
        match pool(1).connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            opened => break opened.map_err(|error| unopened(path, &error))?,
        }
    };
    // The writer has made the file. A reader must not: it would bring back one that was removed, without a schema.
    let options = options.create_if_missing(false).pragma("query_only", "ON");
    let readers = pool(SQLITE_READERS).connect_lazy_with(options);
    Ok(Database::Sqlite { writer, readers })
}

/// Tries the folder and the file before SQLite does, since its own words (`unable to open database file`) name
/// neither the place nor the cause.
async fn make_writable(path: &Path) -> Result<(), StoreError> {
    let not_writable = |path: &Path, error: std::io::Error| StoreError::NotWritable {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        tokio::fs::create_dir_all(folder)
            .await
            .map_err(|error| not_writable(folder, error))?;
    }
    tokio::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .await
        .map_err(|error| not_writable(path, error))?;
    Ok(())
}

/// Whether another program has the file locked.
fn is_busy(error: &sqlx::Error) -> bool {
    // SQLITE_BUSY; the extended code's low byte is the primary one.
    const BUSY: u32 = 5;
    let code = match error {
        sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<u32>().ok()),
        _ => None,
    };
    code.is_some_and(|code| code & 0xff == BUSY)
}

/// SQLite needs the folder too, for its log beside the file.
fn unopened(path: &Path, error: &sqlx::Error) -> StoreError {
    // SQLITE_READONLY and SQLITE_CANTOPEN; the extended code's low byte is the primary one.
    const NOT_WRITABLE: [u32; 2] = [8, 14];
    let code = match error {
        sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<u32>().ok()),
        _ => None,
    };
    let path = path.display().to_string();
    match code {
        Some(code) if NOT_WRITABLE.contains(&(code & 0xff)) => StoreError::NotWritable {
            path,
            reason: error::one_line(error),
        },
        _ => StoreError::Unreachable {
            reason: format!("`{path}`: {}", error::one_line(error)),
        },
    }
}

/// One connection first: the pool would try again until its own limit and then not say why.
async fn open_postgres(url: &str) -> Result<Database, String> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|_| "not a Postgres URL, expected postgres://USER@HOST/DATABASE".to_owned())?;
    let options = options.application_name("mcpindex").disable_statement_logging();
    let connection = tokio::time::timeout(CONNECT_LIMIT, PgConnection::connect_with(&options))
        .await
        .map_err(|_| format!("no answer within {} seconds", CONNECT_LIMIT.as_secs()))?
        .map_err(|error| error::one_line(&error))?;
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE_LIMIT)
        .connect_lazy_with(options);
    // An error here would only tell that the server is going away; the next query says it better.
    let _ = connection.close().await;
    Ok(Database::Postgres(pool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::TestStore;

    #[tokio::test]
    async fn a_commit_to_sqlite_waits_for_the_disk_and_a_writer_for_other_programs() {
        let database = TestStore::sqlite().await;
        let Database::Sqlite { writer, .. } = &database.store.database else {
            panic!("a SQLite store is on SQLite");
        };
        for (pragma, value) in [
            ("PRAGMA synchronous", 2),
            ("PRAGMA foreign_keys", 1),
            ("PRAGMA busy_timeout", 5_000),
        ] {
            let found: i64 = sqlx::query_scalar(pragma).fetch_one(writer).await.unwrap();
            assert_eq!(found, value, "{pragma}");
        }
    }
}
