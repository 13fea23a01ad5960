//! The two lists of migrations, the same numbers and names on both databases, and bringing a schema up to date.
//!
//! There are no down-migrations: each migration must be compatible with the program that is still running while it
//! is applied.
//!
//! Invariant: a database that a newer program has migrated is never touched; two programs that start at once apply
//! each migration once.

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::session::{Session, on};
use crate::{Database, Store, StoreError};

macro_rules! migrations {
    ($($number:literal $name:literal),+ $(,)?) => {
        /// Number, name, and the text for SQLite and for Postgres.
        pub(crate) const MIGRATIONS: &[(i64, &str, &str, &str)] = &[
            $((
                $number,
                $name,
                include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
                include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
            )),+
        ];
    };
}

migrations! {
    1 "0001_servers",
    2 "0002_surfaces",
    3 "0003_observations",
    4 "0004_drifts",
    5 "0005_declarations",
    6 "0006_drift_timeline",
    7 "0007_changed_members",
    8 "0008_witnesses",
    9 "0009_signals",
    10 "0010_accounts",
    11 "0011_answers",
    12 "0012_receipts",
    13 "0013_agreement",
    14 "0014_made_by",
    15 "0015_approvals",
    16 "0016_webhooks",
    17 "0017_feed_paths",
    18 "0018_search_order",
    19 "0019_queue",
            20 "0020_crawl",
            21 "0021_sources",
}

/// From this migration on there are approvals.
pub(crate) const APPROVALS: i64 = 15;

/// How far a database's schema is from this program's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// As this program needs it.
    Current,
    /// `migrate` would bring it up to date.
    Behind {
        /// Migrations missing.
        missing: usize,
    },
    /// Migrated by a newer program: this one must not write.
    Ahead,
}

impl Store {
    /// Brings the schema up to date; refuses a newer one. Gives the number of migrations applied.
    pub async fn migrate(&self) -> Result<usize, StoreError> {
        let before = self.applied().await?;
        let found = before.iter().copied().max().unwrap_or(0);
        if found > newest() {
            return Err(StoreError::NewerSchema {
                found,
                known: newest(),
            });
        }
        match &self.database {
            // The driver has no lock of its own here, so that two programs would apply the same migration: the write
            // transaction is the lock.
            Database::Sqlite { writer, .. } => {
                let mut session = self.write().await?;
                if let Session::Sqlite(transaction) = &mut session {
                    migrator(false)
                        .run_direct(None, &mut **transaction, false)
                        .await
                        .map_err(|error| failed(&error))?;
                }
                session.commit().await?;
                // SQLite uses some indexes only when it knows how much they narrow down; what can't be looked at now, since
                // another program writes, is at the next start.
                let _ = sqlx::raw_sql("PRAGMA analysis_limit = 400; PRAGMA optimize = 0x10002;")
                    .execute(writer)
                    .await;
            }
            // Under an advisory lock of the driver's.
            Database::Postgres(pool) => migrator(true).run(pool).await.map_err(|error| failed(&error))?,
        }
        Ok(self.applied().await?.len().saturating_sub(before.len()))
    }

    /// How far the schema is from this program's; changes nothing.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        let applied = self.applied().await?;
        if applied.iter().any(|number| *number > newest()) {
            return Ok(SchemaState::Ahead);
        }
        let missing = MIGRATIONS
            .iter()
            .filter(|(number, ..)| !applied.contains(number))
            .count();
        Ok(match missing {
            0 => SchemaState::Current,
            missing => SchemaState::Behind { missing },
        })
    }

    /// The newest migration that was applied; `None` for a database without any.
    pub(crate) async fn newest_applied(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.applied().await?.into_iter().max())
    }

    async fn applied(&self) -> Result<Vec<i64>, StoreError> {
        let mut session = self.read().await?;
        let table = if session.is_postgres() {
            "SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = '_sqlx_migrations'"
        } else {
            "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'"
        };
        let tables: i64 = on!(session, connection => sqlx::query_scalar(table).fetch_one(connection).await?);
        if tables == 0 {
            return Ok(Vec::new());
        }
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT version FROM _sqlx_migrations ORDER BY version").fetch_all(connection).await?
        }))
    }
}

pub(crate) fn newest() -> i64 {
    MIGRATIONS.iter().map(|(number, ..)| *number).max().unwrap_or(0)
}

fn migrator(postgres: bool) -> Migrator {
    let migration =
        |(number, name, sqlite, on_postgres): &(i64, &'static str, &'static str, &'static str)| {
            let text = if postgres { *on_postgres } else { *sqlite };
            Migration::new(
                *number,
                (*name).into(),
                MigrationType::Simple,
                text.into_sql_str(),
                false,
            )
        };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

fn failed(error: &MigrateError) -> StoreError {
    let words = error.to_string();
    StoreError::Database(words.lines().map(str::trim).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_migrations_is_listed_in_both_folders() {
        let listed: Vec<String> = MIGRATIONS
            .iter()
            .map(|(_, name, ..)| format!("{name}.sql"))
            .collect();
        for folder in ["sqlite", "postgres"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../migrations")
                .join(folder);
            let mut files: Vec<String> = std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            assert_eq!(files, listed, "migrations/{folder}");
        }
        for (number, name, ..) in MIGRATIONS {
            assert!(
                name.starts_with(&format!("{number:04}_")),
                "{name} is listed as {number}"
            );
        }
    }
}
