//! Registries that tell of servers: when each is read, what it said, and what is followed because of it.
//!
//! A reading is a lease as a look is: it pushes `due` forward and raises an epoch, and each page is taken under it. Nothing is
//! concluded from what a registry no longer lists: only an entry that says of itself that it is deleted, or that names other packages
//! now, ends what was followed because of it. What was observed stays in any case.
//!
//! Invariant: a source changes only targets that it asked for itself; the mark moves only by a reading that came to its end.

use mcpindex_contract::identity::Identity;

use crate::session::{Session, on};
use crate::targets::NewTarget;
use crate::text::{MAX_VERSION, indexed, restored, restored_option, stored};
use crate::{Store, StoreError, finding, servers};

/// Bytes of a source's address and of an entry's name.
const MAX_NAME: usize = 500;

/// A source as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRecord {
    /// The registry's address.
    pub address: String,
    /// Seconds between two readings.
    pub every: i64,
    /// When it is due, or until when a reading holds it.
    pub due: i64,
    /// Whether it is being read.
    pub is_read: bool,
    /// Up to which change the readings have come.
    pub mark: Option<i64>,
    /// The last reading that came to its end.
    pub read_at: Option<i64>,
    /// The last one of everything, not only of what was changed.
    pub whole_at: Option<i64>,
    /// Entries that could not be read then.
    pub skipped: i64,
    /// The last try.
    pub tried_at: Option<i64>,
    /// Why that failed.
    pub problem: Option<String>,
    /// Tries that failed in a row.
    pub failures: i64,
}

/// What a source tells of, by the latest version of each server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Servers.
    pub servers: i64,
    /// Of them, deleted there.
    pub deleted: i64,
    /// Of them, deprecated there.
    pub deprecated: i64,
    /// Packages and remotes that are looked at.
    pub targets: i64,
    /// Those that need a setting first.
    pub needs_config: i64,
    /// Images.
    pub needs_container: i64,
    /// Of kinds that are not looked at.
    pub unsupported: i64,
    /// That can't be read.
    pub refused: i64,
}

/// The right to take a source's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The source.
    pub address: String,
    /// The fencing epoch.
    pub epoch: i64,
}

/// The latest version of one server, as a source tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceEntry {
    /// Its name there, which leads to its servers.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `active`, `deprecated` or `deleted`.
    pub status: &'static str,
    /// When it was changed there.
    pub updated_at: Option<i64>,
    /// What is to be followed of it; nothing, where it is deleted.
    pub targets: Vec<NewTarget>,
    /// Counts of what it has: targets among them.
    pub coverage: Coverage,
}

/// How a reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadingEnd {
    /// It came to its end.
    Complete {
        /// The mark for the next; `None` keeps the one there was.
        mark: Option<i64>,
        /// Whether it was of everything.
        whole: bool,
        /// Entries that could not be read.
        skipped: i64,
    },
    /// It broke off.
    Failed {
        /// One line.
        problem: String,
    },
    /// It was given up by its reader, which says nothing of the source.
    Stopped,
}

/// What came of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Targets that were not there before.
    pub new: i64,
    /// Targets that are followed no more.
    pub dropped: i64,
}

type SourceRow = (
    String,
    i64,
    i64,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    i64,
    Option<i64>,
    Option<String>,
    i64,
);

macro_rules! source {
    ($rest:literal) => {
        concat!(
            "SELECT address, every, due, worker, mark, read_at, whole_at, skipped, tried_at, problem, failures FROM source ",
            $rest
        )
    };
}

fn source_from_row(row: SourceRow) -> Result<SourceRecord, StoreError> {
    Ok(SourceRecord {
        address: restored(row.0)?,
        every: row.1,
        due: row.2,
        is_read: row.3.is_some(),
        mark: row.4,
        read_at: row.5,
        whole_at: row.6,
        skipped: row.7,
        tried_at: row.8,
        problem: restored_option(row.9)?,
        failures: row.10,
    })
}

impl Store {
    /// Follows exactly these sources, each read every so many seconds; a new one is due at once. What was followed because of any
    /// other is followed no more. Gives the addresses of those.
    pub async fn keep_sources(
        &self,
        addresses: &[String],
        every: i64,
        now: i64,
    ) -> Result<Vec<String>, StoreError> {
        let mut session = self.write().await?;
        for address in addresses {
            let address = indexed("source", address, MAX_NAME)?;
            on!(session, connection => {
                sqlx::query(
                    "INSERT INTO source (address, every, due, epoch, skipped, failures) VALUES ($1, $2, $3, 0, 0, 0)
                     ON CONFLICT (address) DO UPDATE SET every = excluded.every,
                         due = CASE WHEN source.due > $3 + excluded.every THEN $3 + excluded.every ELSE source.due END",
                )
                .bind(&*address).bind(every).bind(now).execute(connection).await?;
            });
        }
        let known: Vec<String> = on!(session, connection => {
            sqlx::query_scalar("SELECT address FROM source ORDER BY address").fetch_all(connection).await?
        });
        let mut dropped = Vec::new();
        for kept in known {
            let address = restored(kept.clone())?;
            if addresses.contains(&address) {
                continue;
            }
            on!(session, connection => {
                sqlx::query("DELETE FROM target WHERE source = $1").bind(&kept).execute(connection).await?;
            });
            on!(session, connection => {
                sqlx::query("DELETE FROM source WHERE address = $1").bind(&kept).execute(connection).await?;
            });
            dropped.push(address);
        }
        session.commit().await?;
        Ok(dropped)
    }

    /// Leases the source that is due longest until `now + lease` seconds, if one is due.
    pub async fn claim_source(
        &self,
        worker: &str,
        now: i64,
        lease: i64,
    ) -> Result<Option<(SourceRecord, Reading)>, StoreError> {
        let mut session = self.write().await?;
        let statement = if session.is_postgres() {
            source!("WHERE due <= $1 ORDER BY due, address LIMIT 1 FOR UPDATE SKIP LOCKED")
        } else {
            source!("WHERE due <= $1 ORDER BY due, address LIMIT 1")
        };
        let row: Option<SourceRow> = on!(session, connection => {
            sqlx::query_as(statement).bind(now).fetch_optional(connection).await?
        });
        let Some(row) = row else { return Ok(None) };
        let source = source_from_row(row)?;
        let epoch: i64 = on!(session, connection => {
            sqlx::query_scalar(
                "UPDATE source SET due = $2, epoch = epoch + 1, worker = $3 WHERE address = $1 RETURNING epoch",
            )
            .bind(stored(&source.address)).bind(now.saturating_add(lease)).bind(stored(worker))
            .fetch_one(connection).await?
        });
        session.commit().await?;
        let reading = Reading {
            address: source.address.clone(),
            epoch,
        };
        Ok(Some((source, reading)))
    }

    /// Takes one page under its reading, and holds that until `until`; [`StoreError::SourceTaken`] when another reads now.
    pub async fn take_entries(
        &self,
        reading: &Reading,
        entries: &[SourceEntry],
        until: i64,
        now: i64,
    ) -> Result<Taken, StoreError> {
        let mut session = self.write().await?;
        let held = on!(session, connection => {
            sqlx::query("UPDATE source SET due = $3 WHERE address = $1 AND epoch = $2 AND worker IS NOT NULL")
                .bind(stored(&reading.address)).bind(reading.epoch).bind(until)
                .execute(connection).await?.rows_affected()
        });
        require(held, reading)?;
        let mut taken = Taken::default();
        for entry in entries {
            take(&mut session, &reading.address, entry, now, &mut taken).await?;
        }
        session.commit().await?;
        Ok(taken)
    }

    /// Ends a reading; the source is due again at `due`.
    pub async fn finish_reading(
        &self,
        reading: &Reading,
        end: &ReadingEnd,
        due: i64,
        now: i64,
    ) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        let held = match end {
            ReadingEnd::Complete { mark, whole, skipped } => on!(session, connection => {
                sqlx::query(
                    "UPDATE source SET due = $3, worker = NULL, tried_at = $4, read_at = $4, problem = NULL, failures = 0,
                         skipped = $5, mark = COALESCE($6, mark), whole_at = CASE WHEN $7 = 1 THEN $4 ELSE whole_at END
                     WHERE address = $1 AND epoch = $2 AND worker IS NOT NULL",
                )
                .bind(stored(&reading.address)).bind(reading.epoch).bind(due).bind(now).bind(*skipped).bind(*mark)
                .bind(i64::from(*whole)).execute(connection).await?.rows_affected()
            }),
            ReadingEnd::Stopped => on!(session, connection => {
                sqlx::query("UPDATE source SET due = $3, worker = NULL WHERE address = $1 AND epoch = $2 AND worker IS NOT NULL")
                    .bind(stored(&reading.address)).bind(reading.epoch).bind(due).execute(connection).await?
                    .rows_affected()
            }),
            ReadingEnd::Failed { problem } => on!(session, connection => {
                sqlx::query(
                    "UPDATE source SET due = $3, worker = NULL, tried_at = $4, problem = $5, failures = failures + 1
                     WHERE address = $1 AND epoch = $2 AND worker IS NOT NULL",
                )
                .bind(stored(&reading.address)).bind(reading.epoch).bind(due).bind(now).bind(stored(problem))
                .execute(connection).await?.rows_affected()
            }),
        };
        require(held, reading)?;
        session.commit().await
    }

    /// Every source with what it tells of, by address.
    pub async fn sources(&self) -> Result<Vec<(SourceRecord, Coverage)>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<SourceRow> = on!(session, connection => {
            sqlx::query_as(source!("ORDER BY address")).fetch_all(connection).await?
        });
        let mut sources = Vec::with_capacity(rows.len());
        for row in rows {
            let source = source_from_row(row)?;
            let counts: (i64, i64, i64, i64, i64, i64, i64, i64) = on!(session, connection => {
                sqlx::query_as(
                    "SELECT COUNT(*), COUNT(CASE WHEN status = 'deleted' THEN 1 END),
                         COUNT(CASE WHEN status = 'deprecated' THEN 1 END),
                         CAST(COALESCE(SUM(targets), 0) AS BIGINT), CAST(COALESCE(SUM(needs_config), 0) AS BIGINT),
                         CAST(COALESCE(SUM(needs_container), 0) AS BIGINT),
                         CAST(COALESCE(SUM(unsupported), 0) AS BIGINT), CAST(COALESCE(SUM(refused), 0) AS BIGINT)
                     FROM source_entry WHERE address = $1",
                )
                .bind(stored(&source.address)).fetch_one(connection).await?
            });
            let coverage = Coverage {
                servers: counts.0,
                deleted: counts.1,
                deprecated: counts.2,
                targets: counts.3,
                needs_config: counts.4,
                needs_container: counts.5,
                unsupported: counts.6,
                refused: counts.7,
            };
            sources.push((source, coverage));
        }
        Ok(sources)
    }

    /// When the next source is due, if there is one.
    pub async fn next_source_due(&self) -> Result<Option<i64>, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT MIN(due) FROM source").fetch_one(connection).await?
        }))
    }
}

/// Takes one entry, unless it is the one that is known.
async fn take(
    session: &mut Session,
    address: &str,
    entry: &SourceEntry,
    now: i64,
    taken: &mut Taken,
) -> Result<(), StoreError> {
    let name = indexed("name", &entry.name, MAX_NAME)?;
    let version = indexed("version", &entry.version, MAX_VERSION)?;
    let address = stored(address);
    let known: Option<(String, String, Option<i64>)> = on!(*session, connection => {
        sqlx::query_as("SELECT version, status, updated_at FROM source_entry WHERE address = $1 AND name = $2")
            .bind(&*address).bind(&*name).fetch_optional(connection).await?
    });
    let is_known = known.as_ref().is_some_and(|(kept, status, updated_at)| {
        **kept == *version && status == entry.status && *updated_at == entry.updated_at
    });
    if is_known {
        return Ok(());
    }
    let is_new_version = known.is_none_or(|(kept, ..)| *kept != *version);
    let coverage = &entry.coverage;
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO source_entry (address, name, version, status, updated_at, targets, needs_config, needs_container,
                 unsupported, refused)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
             ON CONFLICT (address, name) DO UPDATE SET
                 version = excluded.version, status = excluded.status, updated_at = excluded.updated_at,
                 targets = excluded.targets, needs_config = excluded.needs_config,
                 needs_container = excluded.needs_container, unsupported = excluded.unsupported,
                 refused = excluded.refused",
        )
        .bind(&*address).bind(&*name).bind(&*version).bind(entry.status).bind(entry.updated_at)
        .bind(coverage.targets).bind(coverage.needs_config).bind(coverage.needs_container)
        .bind(coverage.unsupported).bind(coverage.refused).execute(connection).await?;
    });
    let mut named = Vec::with_capacity(entry.targets.len());
    for target in &entry.targets {
        follow(session, &address, target, is_new_version, now, taken).await?;
        lead(session, &name, &target.identity, &address, now).await?;
        named.push(target.identity.to_string());
    }
    drop_others(session, &name, &address, &named, taken).await
}

/// Follows a target, unless somebody else does; a new version is looked at when the target says.
async fn follow(
    session: &mut Session,
    address: &str,
    target: &NewTarget,
    is_new_version: bool,
    now: i64,
    taken: &mut Taken,
) -> Result<(), StoreError> {
    servers::insert(session, &target.identity, now).await?;
    let identity = stored(&target.identity.to_string()).into_owned();
    let version = indexed(
        "version",
        target.version.as_deref().unwrap_or_default(),
        MAX_VERSION,
    )?;
    let inserted = on!(*session, connection => {
        sqlx::query(
            "INSERT INTO target (identity, version, launch, source, every, due, epoch, failures, added_at)
             VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7) ON CONFLICT (identity, version) DO NOTHING",
        )
        .bind(&identity).bind(&*version).bind(stored(&target.launch)).bind(address).bind(target.every).bind(target.due)
        .bind(now).execute(connection).await?.rows_affected()
    });
    if inserted == 1 {
        taken.new += 1;
    } else if is_new_version {
        // A look under way at the old line loses its lease only where the line is another one.
        on!(*session, connection => {
            sqlx::query(
                "UPDATE target SET every = $5,
                     due = CASE WHEN worker IS NULL AND (due IS NULL OR due > $6) THEN $6 ELSE due END,
                     epoch = CASE WHEN launch = $3 THEN epoch ELSE epoch + 1 END,
                     worker = CASE WHEN launch = $3 THEN worker ELSE NULL END,
                     launch = $3
                 WHERE identity = $1 AND version = $2 AND source = $4",
            )
            .bind(&identity).bind(&*version).bind(stored(&target.launch)).bind(address).bind(target.every)
            .bind(target.due).execute(connection).await?;
        });
    }
    Ok(())
}

async fn lead(
    session: &mut Session,
    name: &str,
    identity: &Identity,
    address: &str,
    now: i64,
) -> Result<(), StoreError> {
    let identity = stored(&identity.to_string()).into_owned();
    let added = on!(*session, connection => {
        sqlx::query(
            "INSERT INTO alias (name, identity, source, added_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (name, identity) DO NOTHING",
        )
        .bind(name).bind(&identity).bind(address).bind(now).execute(connection).await?.rows_affected()
    });
    if added == 1 {
        finding::keep_all(session, &identity).await?;
    }
    Ok(())
}

/// Ends what was followed because of this name and is not named by it any more, nor by another name of the same source.
async fn drop_others(
    session: &mut Session,
    name: &str,
    address: &str,
    named: &[String],
    taken: &mut Taken,
) -> Result<(), StoreError> {
    let led: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT a.identity FROM alias a WHERE a.name = $1 AND a.source = $2
             AND NOT EXISTS (
                 SELECT 1 FROM alias o JOIN source_entry e ON e.address = o.source AND e.name = o.name
                 WHERE o.identity = a.identity AND o.source = $2 AND o.name <> $1 AND e.status <> 'deleted')",
        )
        .bind(name).bind(address).fetch_all(connection).await?
    });
    for identity in led {
        if named.contains(&restored(identity.clone())?) {
            continue;
        }
        taken.dropped += on!(*session, connection => {
            let dropped = sqlx::query("DELETE FROM target WHERE identity = $1 AND source = $2")
                .bind(&identity).bind(address).execute(connection).await?.rows_affected();
            i64::try_from(dropped).unwrap_or(i64::MAX)
        });
    }
    Ok(())
}

fn require(held: u64, reading: &Reading) -> Result<(), StoreError> {
    if held == 0 {
        return Err(StoreError::SourceTaken {
            address: reading.address.clone(),
        });
    }
    Ok(())
}
