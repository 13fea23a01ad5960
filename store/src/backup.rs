//! A copy of a SQLite index while it is in use, and bringing one back.
//!
//! A copy is made under another name, read whole and made durable, and then has its name at once; it never takes the place of
//! a file. What is brought back is tried as a copy first; a database that a program has open is left alone, and one that has data is
//! kept beside.
//!
//! Invariant: at no moment is there half a file under a name that was asked for, and no data is ever gone.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpindex_contract::approval::{ChainFlaw, DEFAULT_TENANT};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{ConnectOptions as _, Connection as _};

use crate::{Database, Location, SchemaState, Store, StoreError, error};

/// How long a program that has the database open may take to be done.
const BUSY_LIMIT: Duration = Duration::from_secs(2);
/// Where an index has its data: any row in one of these is data that must not go.
const DATA: [&str; 6] = [
    "server",
    "target",
    "account",
    "signal",
    "receipt",
    "approval_record",
];

/// Why there is no copy, or why it was not brought back.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database is on Postgres, which has programs of its own for it.
    #[error("the database is on Postgres")]
    OnPostgres,
    /// Something has that name.
    #[error("`{path}` is there already, nothing was written: choose another name")]
    Exists {
        /// The name.
        path: String,
    },
    /// A file or folder can't be read or written.
    #[error("`{path}` can't be {done}: {reason}")]
    File {
        /// Which one.
        path: String,
        /// `read` or `written`.
        done: &'static str,
        /// The system's words.
        reason: String,
    },
    /// It is no copy of an index.
    #[error("`{path}` is no copy of an index: {reason}")]
    NotAnIndex {
        /// The file.
        path: String,
        /// What was found.
        reason: String,
    },
    /// The file is damaged.
    #[error("`{path}` is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What SQLite says.
        reason: String,
    },
    /// The approvals in it are not as they were written.
    #[error("the approvals in `{path}` are not as they were written: {flaw}")]
    ChainBroken {
        /// The file.
        path: String,
        /// What is wrong, and where.
        flaw: ChainFlaw,
    },
    /// A program has the database open.
    #[error("`{path}` is in use: stop the server that has it open first")]
    InUse {
        /// The database.
        path: String,
    },
    /// The database has data.
    #[error("`{path}` has data: --replace puts the copy in its place and keeps it beside")]
    HasData {
        /// The database.
        path: String,
    },
    /// Any other failure of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its size.
    pub bytes: u64,
    /// How many approvals are in it, verified.
    pub approvals: u64,
    /// What its schema lacks of this program's.
    pub schema: SchemaState,
}

/// What was brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What is there now.
    pub copy: Copied,
    /// Where the database that was there is now.
    pub kept: Option<PathBuf>,
}

impl Store {
    /// Writes a copy of the database as of one moment to a new file that only its owner may read; other programs may read and
    /// write the database meanwhile. What the copy holds is read whole before it gets its name.
    pub async fn back_up(&self, path: &Path, now: i64) -> Result<Copied, BackupError> {
        let Database::Sqlite { writer, .. } = &self.database else {
            return Err(BackupError::OnPostgres);
        };
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let partial = Partial::new(path)?;
        sqlx::query("VACUUM INTO $1")
            .bind(partial.path.display().to_string())
            .execute(writer)
            .await
            .map_err(StoreError::from)?;
        let copied = examine(&partial.path, path, now).await?;
        partial.keep(path)?;
        Ok(copied)
    }
}

/// Puts a copy in the place of the SQLite database of this location, which nobody may have open.
///
/// A database that has data is refused unless `replace`; then it is kept beside under a name with `now` in it.
pub async fn restore(
    from: &Path,
    location: &Location,
    replace: bool,
    now: i64,
) -> Result<Restored, BackupError> {
    let Location::Sqlite(path) = location else {
        return Err(BackupError::OnPostgres);
    };
    // A link to the database stays a link to it.
    let path = path.canonicalize().unwrap_or_else(|_| path.clone());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
    }
    if from.canonicalize().is_ok_and(|from| from == path) {
        return Err(BackupError::NotAnIndex {
            path: shown(from),
            reason: "it is the index itself".to_owned(),
        });
    }
    if with_end(from, "-wal").symlink_metadata().is_ok() {
        return Err(BackupError::NotAnIndex {
            path: shown(from),
            reason: "a log lies beside it, so it is a database in use: `admin backup` makes a copy of it"
                .to_owned(),
        });
    }
    if has_data(&path).await? && !replace {
        return Err(BackupError::HasData { path: shown(&path) });
    }
    let mut partial = Partial::new(&path)?;
    let unread = |error: std::io::Error| BackupError::File {
        path: shown(from),
        done: "read",
        reason: error.to_string(),
    };
    let mut source = File::open(from).map_err(unread)?;
    std::io::copy(&mut source, &mut partial.file).map_err(|error| unwritten(&partial.path, &error))?;
    let copy = examine(&partial.path, from, now).await?;
    // Somebody may have begun to use it meanwhile.
    let kept = if has_data(&path).await? {
        Some(set_aside(&path, now)?)
    } else {
        None
    };
    partial.replace(&path)?;
    Ok(Restored { copy, kept })
}

/// Whether there is data in the database, whose log is folded into its file to see it. A file that can't be read may hold data.
async fn has_data(path: &Path) -> Result<bool, BackupError> {
    if path.symlink_metadata().is_err() {
        return Ok(false);
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        // Only who is alone with the database may change this.
        .journal_mode(SqliteJournalMode::Delete)
        .disable_statement_logging();
    // SQLite does not wait for others here.
    let deadline = tokio::time::Instant::now() + BUSY_LIMIT;
    let mut connection = loop {
        match SqliteConnection::connect_with(&options).await {
            Ok(connection) => break connection,
            Err(error) if !crate::is_busy(&error) => return Ok(true),
            Err(_) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(crate::BUSY_PAUSE).await;
            }
            Err(_) => return Err(BackupError::InUse { path: shown(path) }),
        }
    };
    let mut has_data = false;
    for table in DATA {
        let there = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM sqlite_master WHERE name = $1")
            .bind(table)
            .fetch_one(&mut connection)
            .await;
        has_data |= match there {
            Ok(0) => false,
            Ok(_) => {
                // One of this file's own names.
                let statement = sqlx::AssertSqlSafe(format!("SELECT EXISTS (SELECT 1 FROM {table})"));
                let rows = sqlx::query_scalar::<_, bool>(statement)
                    .fetch_one(&mut connection)
                    .await;
                rows.unwrap_or(true)
            }
            Err(_) => true,
        };
    }
    // What could not be closed is read no more.
    let _ = connection.close().await;
    Ok(has_data)
}

/// Reads a copy whole: its pages, its schema's version, its approvals. `named` is what it is called to people.
async fn examine(path: &Path, named: &Path, now: i64) -> Result<Copied, BackupError> {
    let not_an_index = |reason: &str| BackupError::NotAnIndex {
        path: shown(named),
        reason: reason.to_owned(),
    };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Delete)
        .disable_statement_logging();
    let damaged = |error: sqlx::Error| BackupError::Damaged {
        path: shown(named),
        reason: error::one_line(&error),
    };
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(|error| not_an_index(&error::one_line(&error)))?;
    let said: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check(1)")
        .fetch_all(&mut connection)
        .await
        .map_err(damaged)?;
    if said != ["ok"] {
        return Err(BackupError::Damaged {
            path: shown(named),
            reason: said.join(", "),
        });
    }
    connection.close().await.map_err(damaged)?;
    let store = Store::open(&Location::Sqlite(path.to_owned())).await?;
    let found = examine_index(&store, named, now).await;
    store.close().await;
    let (schema, approvals) = found?;
    // Back from the log that reading made, so that the copy is one file.
    let connection = SqliteConnection::connect_with(&options).await.map_err(damaged)?;
    connection.close().await.map_err(damaged)?;
    let bytes = path.metadata().map_err(|error| unwritten(path, &error))?.len();
    Ok(Copied {
        bytes,
        approvals,
        schema,
    })
}

async fn examine_index(store: &Store, named: &Path, now: i64) -> Result<(SchemaState, u64), BackupError> {
    let Some(newest) = store.newest_applied().await? else {
        return Err(BackupError::NotAnIndex {
            path: shown(named),
            reason: "no migration was ever applied to it".to_owned(),
        });
    };
    let schema = store.schema_state().await?;
    if schema == SchemaState::Ahead {
        let known = crate::migrate::newest();
        return Err(StoreError::NewerSchema { found: newest, known }.into());
    }
    // Older ones have no approvals.
    if newest < crate::migrate::APPROVALS {
        return Ok((schema, 0));
    }
    let chain = store.verify_approvals(DEFAULT_TENANT, now).await?;
    match chain.flaw {
        None => Ok((schema, chain.good)),
        Some(flaw) => Err(BackupError::ChainBroken {
            path: shown(named),
            flaw,
        }),
    }
}

/// Gives the old database another name beside, and takes its own at the last moment.
fn set_aside(path: &Path, now: i64) -> Result<PathBuf, BackupError> {
    let kept = beside(path, &format!("replaced-{now}"));
    if kept.symlink_metadata().is_ok() {
        return Err(exists(&kept));
    }
    std::fs::hard_link(path, &kept).map_err(|error| unwritten(&kept, &error))?;
    // A log that could not be folded in belongs to the file that it is kept with.
    for end in ["-wal", "-shm"] {
        if with_end(path, end).symlink_metadata().is_ok() {
            std::fs::rename(with_end(path, end), with_end(&kept, end))
                .map_err(|error| unwritten(&kept, &error))?;
        }
    }
    Ok(kept)
}

/// A file under a name of its own until it is whole; gone with this unless it was kept.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// Beside `path`, empty, for its owner alone.
    fn new(path: &Path) -> Result<Partial, BackupError> {
        let path = beside(path, &format!("partial-{}", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| unwritten(&path, &error))?;
        Ok(Partial { path, file })
    }

    /// Gives it a name that nothing has.
    fn keep(self, path: &Path) -> Result<(), BackupError> {
        self.file.sync_all().map_err(|error| unwritten(path, &error))?;
        std::fs::hard_link(&self.path, path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => exists(path),
            _ => unwritten(path, &error),
        })?;
        sync_folder(path)
    }

    /// Gives it a name, whatever has it.
    fn replace(self, path: &Path) -> Result<(), BackupError> {
        self.file.sync_all().map_err(|error| unwritten(path, &error))?;
        std::fs::rename(&self.path, path).map_err(|error| unwritten(path, &error))?;
        sync_folder(path)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm", "-journal"] {
            // Mostly it is not there.
            let _ = std::fs::remove_file(with_end(&self.path, end));
        }
    }
}

/// `index.db` becomes `index.db.END`.
fn beside(path: &Path, end: &str) -> PathBuf {
    with_end(path, &format!(".{end}"))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// A name lasts when its folder does.
fn sync_folder(path: &Path) -> Result<(), BackupError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| unwritten(folder, &error))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn exists(path: &Path) -> BackupError {
    BackupError::Exists { path: shown(path) }
}

fn unwritten(path: &Path, error: &std::io::Error) -> BackupError {
    BackupError::File {
        path: shown(path),
        done: "written",
        reason: error.to_string(),
    }
}
