//! What is to be looked at, when, and by whom: leases with a fencing epoch.
//!
//! A claim pushes `due` forward by the lease and raises the epoch; a result is taken only with the epoch of its claim,
//! so a worker that was given up for dead can't write over its successor.
//!
//! Invariant: a target's result is written by at most one holder of each claim, and a target has one lease at a time.

use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;

use crate::observations::Finish;
use crate::pace::{Pace, Turn, take_turn};
use crate::servers::{self, outcome_from_text};
use crate::session::{Session, on};
use crate::text::{MAX_VERSION, indexed, restored, stored};
use crate::{Store, StoreError};

/// A target to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTarget {
    /// Which server.
    pub identity: Identity,
    /// The version to look at; `None` follows the newest.
    pub version: Option<String>,
    /// How to reach it: the crawler's own JSON.
    pub launch: String,
    /// Who asked for it: `shell`, `starter`, `list` (once, at the shell) or `targets` (the list of the settings).
    pub source: String,
    /// Seconds between two looks; `None` is looked at once.
    pub every: Option<i64>,
    /// When it is first due.
    pub due: i64,
}

/// One thing to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The row's number.
    pub id: i64,
    /// The identity's written form.
    pub identity: String,
    /// The version to look at; `None` follows the newest.
    pub version: Option<String>,
    /// How to reach it: the crawler's own JSON.
    pub launch: String,
    /// Who asked for it.
    pub source: String,
    /// Seconds between two looks; `None` is looked at once.
    pub every: Option<i64>,
    /// When it is due, or until when it is leased; `None` when a one-off has been looked at.
    pub due: Option<i64>,
    /// Looks that failed in a row.
    pub failures: i64,
    /// How the last look ended.
    pub outcome: Option<Outcome>,
}

/// The right to write one target's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The target.
    pub target: i64,
    /// The fencing epoch of the claim.
    pub epoch: i64,
}

/// How many targets are in which state, by who asked for them and how their last look ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetCount {
    /// Who asked for them.
    pub source: String,
    /// How their last look ended; `None` before the first.
    pub outcome: Option<Outcome>,
    /// All of them.
    pub targets: i64,
    /// Of them, under a look now.
    pub running: i64,
    /// Of them, due and waiting for a worker.
    pub waiting: i64,
    /// Of them, those whose last looks failed.
    pub failing: i64,
}

/// One-off looks (a backfill) done and still to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// One-off targets in all.
    pub total: i64,
    /// Of them, looked at.
    pub done: i64,
}

/// Rounds of one claim: in each, targets may be put off, and others take their place.
const MOST_ROUNDS: usize = 32;

macro_rules! target {
    ($rest:literal) => {
        concat!(
            "SELECT id, identity, version, launch, source, every, due, failures, outcome FROM target ",
            $rest
        )
    };
}

type TargetRow = (
    i64,
    String,
    String,
    String,
    String,
    Option<i64>,
    Option<i64>,
    i64,
    Option<String>,
);

fn target_from_row(row: TargetRow) -> Result<Target, StoreError> {
    let version = restored(row.2)?;
    Ok(Target {
        id: row.0,
        identity: restored(row.1)?,
        version: (!version.is_empty()).then_some(version),
        launch: restored(row.3)?,
        source: restored(row.4)?,
        every: row.5,
        due: row.6,
        failures: row.7,
        outcome: row.8.as_deref().map(outcome_from_text).transpose()?,
    })
}

impl Store {
    /// Adds a target and its server; the same identity and version again updates launch, source and `every`, and makes it due
    /// at `target.due`. True when it was new.
    ///
    /// A look that is under way at that moment loses its lease: its result would be that of the old launch line.
    pub async fn add_target(&self, target: &NewTarget, now: i64) -> Result<bool, StoreError> {
        let version = indexed(
            "version",
            target.version.as_deref().unwrap_or_default(),
            MAX_VERSION,
        )?;
        let mut session = self.write().await?;
        servers::insert(&mut session, &target.identity, now).await?;
        let epoch: i64 = on!(session, connection => {
            sqlx::query_scalar(
                "INSERT INTO target (identity, version, launch, source, every, due, epoch, failures, added_at)
                 VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7)
                 ON CONFLICT (identity, version) DO UPDATE SET
                     launch = excluded.launch, source = excluded.source, every = excluded.every, due = excluded.due,
                     epoch = target.epoch + 1, worker = NULL
                 RETURNING epoch",
            )
            .bind(stored(&target.identity.to_string())).bind(&*version).bind(stored(&target.launch))
            .bind(stored(&target.source)).bind(target.every).bind(target.due).bind(now)
            .fetch_one(connection).await?
        });
        session.commit().await?;
        Ok(epoch == 0)
    }

    /// Stops following what this source asked for but for those to keep (identity and version); servers and their history stay,
    /// and a look that is under way loses its lease. Gives the identities that are followed no longer.
    pub async fn keep_targets(
        &self,
        source: &str,
        keep: &[(String, Option<String>)],
    ) -> Result<Vec<String>, StoreError> {
        let mut session = self.write().await?;
        let rows: Vec<TargetRow> = on!(session, connection => {
            sqlx::query_as(target!("WHERE source = $1 AND every IS NOT NULL ORDER BY id"))
                .bind(stored(source)).fetch_all(connection).await?
        });
        let mut dropped = Vec::new();
        for row in rows {
            let target = target_from_row(row)?;
            let kept = |(identity, version): &(String, Option<String>)| {
                *identity == target.identity && *version == target.version
            };
            if keep.iter().any(kept) {
                continue;
            }
            on!(session, connection => {
                sqlx::query("DELETE FROM target WHERE id = $1").bind(target.id).execute(connection).await?;
            });
            dropped.push(target.identity);
        }
        session.commit().await?;
        Ok(dropped)
    }

    /// Leases at most `limit` due targets until `now + lease` seconds, the longest due first. With a pace, those whose domain has no
    /// turn now are put off to when it has one.
    pub async fn claim_targets(
        &self,
        worker: &str,
        now: i64,
        lease: i64,
        limit: i64,
        pace: Option<&Pace>,
    ) -> Result<Vec<(Target, Lease)>, StoreError> {
        let mut session = self.write().await?;
        // Postgres passes over rows that another worker is claiming now; SQLite has one writer at a time.
        let statement = if session.is_postgres() {
            target!("WHERE due <= $1 ORDER BY due, id LIMIT $2 FOR UPDATE SKIP LOCKED")
        } else {
            target!("WHERE due <= $1 ORDER BY due, id LIMIT $2")
        };
        let wanted = usize::try_from(limit).unwrap_or(0);
        let mut claimed = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let missing = i64::try_from(wanted - claimed.len()).unwrap_or(0);
            let rows: Vec<TargetRow> = on!(session, connection => {
                sqlx::query_as(statement).bind(now).bind(missing).fetch_all(connection).await?
            });
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let target = target_from_row(row)?;
                if let Some(taken) = claim(&mut session, target, worker, now, lease, pace).await? {
                    claimed.push(taken);
                }
            }
            if claimed.len() >= wanted {
                break;
            }
        }
        session.commit().await?;
        Ok(claimed)
    }

    /// Holds a lease for longer; [`StoreError::LeaseLost`] when another worker has it.
    pub async fn extend_lease(&self, lease: Lease, until: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        let held = on!(session, connection => {
            sqlx::query("UPDATE target SET due = $3 WHERE id = $1 AND epoch = $2 AND worker IS NOT NULL")
                .bind(lease.target).bind(lease.epoch).bind(until).execute(connection).await?.rows_affected()
        });
        require(held, lease)?;
        session.commit().await
    }

    /// Gives a lease back without a result, due at once (shutdown); [`StoreError::LeaseLost`] when another worker has
    /// it.
    pub async fn release(&self, lease: Lease, now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        let held = on!(session, connection => {
            sqlx::query("UPDATE target SET due = $3, worker = NULL WHERE id = $1 AND epoch = $2 AND worker IS NOT NULL")
                .bind(lease.target).bind(lease.epoch).bind(now).execute(connection).await?.rows_affected()
        });
        require(held, lease)?;
        session.commit().await
    }

    /// All targets of one server, or of every server, by number.
    pub async fn targets(&self, identity: Option<&str>) -> Result<Vec<Target>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<TargetRow> = match identity {
            Some(identity) => on!(session, connection => {
                sqlx::query_as(target!("WHERE identity = $1 ORDER BY id"))
                    .bind(stored(identity)).fetch_all(connection).await?
            }),
            None => on!(session, connection => {
                sqlx::query_as(target!("ORDER BY id")).fetch_all(connection).await?
            }),
        };
        rows.into_iter().map(target_from_row).collect()
    }

    /// When the next target is due (or a lease runs out), if any is.
    pub async fn next_due(&self) -> Result<Option<i64>, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT MIN(due) FROM target").fetch_one(connection).await?
        }))
    }

    /// All targets that are or were to be looked at, counted.
    pub async fn count_targets(&self, now: i64) -> Result<Vec<TargetCount>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<(String, Option<String>, i64, i64, i64, i64)> = on!(session, connection => {
            sqlx::query_as(
                "SELECT source, outcome, COUNT(*), COUNT(CASE WHEN worker IS NOT NULL AND due > $1 THEN 1 END),
                     COUNT(CASE WHEN due <= $1 THEN 1 END), COUNT(CASE WHEN failures > 0 THEN 1 END)
                 FROM target GROUP BY source, outcome ORDER BY source, outcome",
            )
            .bind(now).fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|row| {
                Ok(TargetCount {
                    source: restored(row.0)?,
                    outcome: row.1.as_deref().map(outcome_from_text).transpose()?,
                    targets: row.2,
                    running: row.3,
                    waiting: row.4,
                    failing: row.5,
                })
            })
            .collect()
    }

    /// Targets under a look now, the longest held first; at most so many.
    pub async fn running_targets(&self, now: i64, limit: i64) -> Result<Vec<Target>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<TargetRow> = on!(session, connection => {
            sqlx::query_as(target!("WHERE worker IS NOT NULL AND due > $1 ORDER BY due, id LIMIT $2"))
                .bind(now).bind(limit.max(0)).fetch_all(connection).await?
        });
        rows.into_iter().map(target_from_row).collect()
    }

    /// Targets whose looks fail, most failures first; at most so many.
    pub async fn failing_targets(&self, limit: i64) -> Result<Vec<Target>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<TargetRow> = on!(session, connection => {
            sqlx::query_as(target!("WHERE failures > 0 ORDER BY failures DESC, id LIMIT $1"))
                .bind(limit.max(0)).fetch_all(connection).await?
        });
        rows.into_iter().map(target_from_row).collect()
    }

    /// How far the one-off looks are.
    pub async fn progress(&self) -> Result<Progress, StoreError> {
        let mut session = self.read().await?;
        let (total, waiting): (i64, i64) = on!(session, connection => {
            sqlx::query_as("SELECT COUNT(*), COUNT(due) FROM target WHERE every IS NULL").fetch_one(connection).await?
        });
        Ok(Progress {
            total,
            done: total - waiting,
        })
    }
}

/// Leases one due target, or puts it off where its domain has no turn.
async fn claim(
    session: &mut Session,
    mut target: Target,
    worker: &str,
    now: i64,
    lease: i64,
    pace: Option<&Pace>,
) -> Result<Option<(Target, Lease)>, StoreError> {
    let domain = pace.and_then(|pace| Some((pace, (pace.domain_of)(&target.identity)?)));
    if let Some((pace, domain)) = domain
        && let Turn::Later(due) = take_turn(session, pace, &domain, now).await?
    {
        on!(*session, connection => {
            // Whoever held it is given up for dead.
            sqlx::query("UPDATE target SET due = $2, worker = NULL, epoch = epoch + 1 WHERE id = $1")
                .bind(target.id).bind(due).execute(connection).await?;
        });
        return Ok(None);
    }
    let until = now.saturating_add(lease);
    let epoch: i64 = on!(*session, connection => {
        sqlx::query_scalar(
            "UPDATE target SET due = $2, epoch = epoch + 1, worker = $3 WHERE id = $1 RETURNING epoch",
        )
        .bind(target.id).bind(until).bind(stored(worker)).fetch_one(connection).await?
    });
    target.due = Some(until);
    let lease = Lease {
        target: target.id,
        epoch,
    };
    Ok(Some((target, lease)))
}

/// Ends a lease with a result, within the transaction that records it.
pub(crate) async fn finish(
    session: &mut Session,
    finish: Finish,
    outcome: Outcome,
) -> Result<(), StoreError> {
    let failed = i64::from(!outcome.has_surface());
    let held = on!(*session, connection => {
        sqlx::query(
            "UPDATE target SET due = $3, worker = NULL, outcome = $4, failures = (failures + 1) * $5
             WHERE id = $1 AND epoch = $2 AND worker IS NOT NULL",
        )
        .bind(finish.lease.target).bind(finish.lease.epoch).bind(finish.due).bind(outcome.name()).bind(failed)
        .execute(connection).await?.rows_affected()
    });
    require(held, finish.lease)
}

fn require(held: u64, lease: Lease) -> Result<(), StoreError> {
    if held == 0 {
        return Err(StoreError::LeaseLost { target: lease.target });
    }
    Ok(())
}
