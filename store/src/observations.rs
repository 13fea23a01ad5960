//! Observations: each look at a server, what it found or why it found nothing, and the drift that follows from it.
//!
//! A server's timeline is ordered by version where there are versions (a backfilled old version takes its place before the
//! newer ones, whenever it was looked at), then by the order of looking. Recording an observation, comparing it with its
//! neighbours in the timeline and finishing the target's lease are one transaction.
//!
//! Invariant: observations are only added; a look that determined nothing takes part in no comparison; a list that failed is
//! compared with nothing, and the next good one is compared with the last good one before it.

use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::Surface;

use crate::compare::{Compared, Timeline, compare_neighbours};
use crate::finding;
use crate::servers::{outcome_from_text, unknown_server};
use crate::session::{Session, on};
use crate::targets::Lease;
use crate::text::{MAX_CONTEXT, MAX_VERSION, MAX_VERSION_KEY, indexed, restored, restored_option, stored};
use crate::{Store, StoreError, surfaces, targets};

/// The package bytes behind an observation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Artifact {
    /// The exact version.
    pub version: String,
    /// npm integrity or PyPI hash, as the package client tells it.
    pub integrity: Option<String>,
    /// Digest of the resolved dependency set.
    pub dependencies: Option<String>,
    /// The runtime, for example `node v20.20.2`.
    pub runtime: Option<String>,
    /// When this version was published, as the package client tells it; for show only.
    pub published_at: Option<i64>,
}

/// One look's result, to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObservation {
    /// The identity's written form; the server is known.
    pub identity: String,
    /// Sortable text of the version (the crawler makes it); `None` where there are no versions, and when the look failed
    /// before the version was known: it then stands at the newest version known so far.
    pub version_key: Option<String>,
    /// The package, when one was run or was to be run.
    pub artifact: Option<Artifact>,
    /// The auth context: `local` or `anonymous`.
    pub context: String,
    /// When.
    pub observed_at: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// One line about it: why it failed, or what was odd.
    pub detail: Option<String>,
    /// What was declared; present exactly when the outcome has a surface.
    pub surface: Option<Surface>,
    /// The level of the walls that it ran behind; `None` where nothing was run.
    pub sandbox: Option<String>,
}

/// What finishing a lease does to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// The lease the result was made under.
    pub lease: Lease,
    /// When the target is due again; `None` for a one-off that is done.
    pub due: Option<i64>,
}

/// What came of recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The observation's number.
    pub observation: i64,
    /// The drift from the neighbour before, when there is one.
    pub drift: Option<i64>,
    /// How many changes that drift has.
    pub changes: usize,
    /// Whether there was an earlier determined observation to compare with.
    pub compared: bool,
}

/// One observation as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationRecord {
    /// The row's number.
    pub id: i64,
    /// The identity's written form.
    pub identity: String,
    /// The package.
    pub artifact: Option<Artifact>,
    /// The auth context.
    pub context: String,
    /// When.
    pub observed_at: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// One line about it.
    pub detail: Option<String>,
    /// The surface digest, when one was determined.
    pub surface_digest: Option<String>,
    /// The protocol version spoken.
    pub protocol_version: Option<String>,
    /// `serverInfo` as sent (JSON text).
    pub server_info: Option<String>,
    /// How many tools were listed; `None` when that could not be determined.
    pub tools: Option<i64>,
    /// The level of the walls that it ran behind; `None` where nothing was run.
    pub sandbox: Option<String>,
}

macro_rules! observation {
    ($rest:literal) => {
        concat!(
            "SELECT o.id, o.identity, o.version, o.integrity, o.dependencies, o.runtime, o.published_at, o.context,
                 o.observed_at, o.outcome, o.detail, s.digest, s.protocol_version, s.server_info, s.tools, o.sandbox
             FROM observation o LEFT JOIN surface s ON s.record = o.record
             WHERE ",
            $rest
        )
    };
}

type ObservationRow = (
    i64,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    String,
    i64,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<String>,
);

fn observation_from_row(row: ObservationRow) -> Result<ObservationRecord, StoreError> {
    let artifact = match restored_option(row.2)? {
        Some(version) => Some(Artifact {
            version,
            integrity: restored_option(row.3)?,
            dependencies: restored_option(row.4)?,
            runtime: restored_option(row.5)?,
            published_at: row.6,
        }),
        None => None,
    };
    Ok(ObservationRecord {
        id: row.0,
        identity: restored(row.1)?,
        artifact,
        context: restored(row.7)?,
        observed_at: row.8,
        outcome: outcome_from_text(&row.9)?,
        detail: restored_option(row.10)?,
        surface_digest: row.11,
        protocol_version: restored_option(row.12)?,
        server_info: restored_option(row.13)?,
        tools: row.14,
        sandbox: restored_option(row.15)?,
    })
}

impl Store {
    /// Records one look in one transaction: the observation, its definitions, the drifts from its neighbours in the timeline, the
    /// server's state, and the end of the lease. [`StoreError::LeaseLost`] when `finish` is stale; nothing is written then.
    ///
    /// [`StoreError::Refused`] when the server is not known, when outcome and surface contradict each other, or when a
    /// version or context is too long to be kept.
    pub async fn record_observation(
        &self,
        observation: &NewObservation,
        finish: Option<Finish>,
    ) -> Result<Recorded, StoreError> {
        if observation.surface.is_some() != observation.outcome.has_surface() {
            return Err(StoreError::Refused {
                what: format!(
                    "an observation with outcome {} {} a surface",
                    observation.outcome.name(),
                    if observation.surface.is_some() {
                        "has"
                    } else {
                        "lacks"
                    }
                ),
            });
        }
        let context = indexed("context", &observation.context, MAX_CONTEXT)?;
        let identity = stored(&observation.identity);
        let mut session = self.write().await?;
        if let Some(finish) = finish {
            targets::finish(&mut session, finish, observation.outcome).await?;
        }
        lock_server(&mut session, &observation.identity).await?;
        let record = match &observation.surface {
            Some(surface) => Some(surfaces::save(&mut session, surface, observation.observed_at).await?),
            None => None,
        };
        let is_new = match &record {
            Some(record) => surfaces::declare(&mut session, record, &identity).await?,
            None => false,
        };
        let id = insert(&mut session, observation, &context, record.as_deref()).await?;
        if record.is_some() {
            surfaces::see(&mut session, id).await?;
        }
        let compared = if record.is_some() {
            let timeline = Timeline {
                identity: &identity,
                context: &context,
                now: observation.observed_at,
            };
            compare_neighbours(&mut session, &timeline, id).await?
        } else {
            Compared {
                compared: false,
                drift: None,
                changes: 0,
            }
        };
        update_server(&mut session, &identity).await?;
        if let Some(surface) = observation.surface.as_ref().filter(|_| is_new) {
            finding::keep_tools(&mut session, &identity, surface).await?;
        }
        finding::keep_words(&mut session, &identity).await?;
        session.commit().await?;
        self.told_anew();
        Ok(Recorded {
            observation: id,
            drift: compared.drift,
            changes: compared.changes,
            compared: compared.compared,
        })
    }

    /// A server's observations, newest in the timeline first; `before` is the last one of the page before.
    pub async fn observations(
        &self,
        identity: &str,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<ObservationRecord>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<ObservationRow> = match before {
            None => on!(session, connection => {
                sqlx::query_as(observation!("o.identity = $1 ORDER BY o.version_key DESC, o.id DESC LIMIT $2"))
                    .bind(stored(identity)).bind(limit.max(0)).fetch_all(connection).await?
            }),
            Some(before) => {
                // Bound as values, since neither database reads a subquery's row as the end of an index range.
                let place: Option<String> = on!(session, connection => {
                    sqlx::query_scalar("SELECT version_key FROM observation WHERE id = $1")
                        .bind(before).fetch_optional(connection).await?
                });
                let Some(version_key) = place else {
                    return Ok(Vec::new());
                };
                on!(session, connection => {
                    sqlx::query_as(observation!(
                        "o.identity = $1 AND (o.version_key, o.id) < ($2, $3)
                         ORDER BY o.version_key DESC, o.id DESC LIMIT $4"
                    ))
                    .bind(stored(identity)).bind(version_key).bind(before).bind(limit.max(0))
                    .fetch_all(connection).await?
                })
            }
        };
        rows.into_iter().map(observation_from_row).collect()
    }

    /// One observation.
    pub async fn observation(&self, id: i64) -> Result<Option<ObservationRecord>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<ObservationRow> = on!(session, connection => {
            sqlx::query_as(observation!("o.id = $1")).bind(id).fetch_optional(connection).await?
        });
        row.map(observation_from_row).transpose()
    }

    /// What an observation determined, rebuilt from the stored definitions; `None` when it determined nothing. Every
    /// digest is as it was; a definition's text may differ in spacing and in the order of its members.
    pub async fn surface(&self, observation: i64) -> Result<Option<Surface>, StoreError> {
        let mut session = self.read().await?;
        let record: Option<Option<String>> = on!(session, connection => {
            sqlx::query_scalar("SELECT record FROM observation WHERE id = $1")
                .bind(observation).fetch_optional(connection).await?
        });
        match record.flatten() {
            Some(record) => Ok(Some(surfaces::load(&mut session, &record).await?)),
            None => Ok(None),
        }
    }

    /// Whether a determined observation of this version is there already.
    pub async fn has_version(&self, identity: &str, version: &str) -> Result<bool, StoreError> {
        let mut session = self.read().await?;
        let found: i64 = on!(session, connection => {
            sqlx::query_scalar(
                "SELECT COUNT(*) FROM observation WHERE identity = $1 AND version = $2 AND record IS NOT NULL",
            )
            .bind(stored(identity)).bind(stored(version)).fetch_one(connection).await?
        });
        Ok(found > 0)
    }
}

/// The package behind an observation.
pub(crate) async fn artifact(session: &mut Session, id: i64) -> Result<Option<Artifact>, StoreError> {
    let row: Option<ObservationRow> = on!(*session, connection => {
        sqlx::query_as(observation!("o.id = $1")).bind(id).fetch_optional(connection).await?
    });
    Ok(row
        .map(observation_from_row)
        .transpose()?
        .and_then(|observation| observation.artifact))
}

/// Two looks at one server are recorded one after the other, so that each sees its neighbours. On SQLite the write
/// transaction is that lock already.
pub(crate) async fn lock_server(session: &mut Session, identity: &str) -> Result<(), StoreError> {
    let statement = if session.is_postgres() {
        "SELECT identity FROM server WHERE identity = $1 FOR NO KEY UPDATE"
    } else {
        "SELECT identity FROM server WHERE identity = $1"
    };
    let known: Option<String> = on!(*session, connection => {
        sqlx::query_scalar(statement).bind(stored(identity)).fetch_optional(connection).await?
    });
    if known.is_none() {
        return Err(unknown_server(identity));
    }
    Ok(())
}

async fn insert(
    session: &mut Session,
    observation: &NewObservation,
    context: &str,
    record: Option<&str>,
) -> Result<i64, StoreError> {
    let identity = stored(&observation.identity);
    let version_key = match &observation.version_key {
        Some(version_key) => indexed("version key", version_key, MAX_VERSION_KEY)?.into_owned(),
        // A look that did not get as far as a version was one at the newest known: it stands there, after the looks
        // that were made before it. Where there are no versions this is the empty key.
        None => on!(*session, connection => {
            sqlx::query_scalar::<_, String>(
                "SELECT COALESCE(MAX(version_key), '') FROM observation WHERE identity = $1 AND outcome <> $2",
            )
            .bind(&*identity).bind(Outcome::VersionNotFound.name()).fetch_one(connection).await?
        }),
    };
    let artifact = observation.artifact.as_ref();
    let version = artifact
        .map(|artifact| indexed("version", &artifact.version, MAX_VERSION))
        .transpose()?;
    Ok(on!(*session, connection => {
        sqlx::query_scalar(
            "INSERT INTO observation (identity, context, version_key, version, integrity, dependencies, runtime,
                 published_at, observed_at, outcome, detail, record, sandbox)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id",
        )
        .bind(&*identity)
        .bind(context)
        .bind(&version_key)
        .bind(version.as_deref())
        .bind(artifact.and_then(|artifact| artifact.integrity.as_deref()).map(stored))
        .bind(artifact.and_then(|artifact| artifact.dependencies.as_deref()).map(stored))
        .bind(artifact.and_then(|artifact| artifact.runtime.as_deref()).map(stored))
        .bind(artifact.and_then(|artifact| artifact.published_at))
        .bind(observation.observed_at)
        .bind(observation.outcome.name())
        .bind(observation.detail.as_deref().map(stored))
        .bind(record)
        .bind(observation.sandbox.as_deref().map(stored))
        .fetch_one(connection).await?
    }))
}

/// Sets how the server stands: by the look that is last in its timeline, failed or not. So a backfilled old version
/// changes nothing here when a newer one has been looked at, and a failed look at the newest does.
///
/// A version that does not exist is no state of the server (someone mistyped it, or it was withdrawn), however high
/// its number: it counts only where there is no other look at all.
async fn update_server(session: &mut Session, identity: &str) -> Result<(), StoreError> {
    let existing: Option<i64> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT id FROM observation WHERE identity = $1 AND outcome <> $2 ORDER BY version_key DESC, id DESC LIMIT 1",
        )
        .bind(identity).bind(Outcome::VersionNotFound.name()).fetch_optional(connection).await?
    });
    let state: Option<i64> = match existing {
        Some(id) => Some(id),
        None => on!(*session, connection => {
            sqlx::query_scalar("SELECT MAX(id) FROM observation WHERE identity = $1")
                .bind(identity).fetch_one(connection).await?
        }),
    };
    on!(*session, connection => {
        sqlx::query(
            "UPDATE server SET
                 outcome = (SELECT o.outcome FROM observation o WHERE o.id = $2),
                 detail = (SELECT o.detail FROM observation o WHERE o.id = $2),
                 looked_at = (SELECT o.observed_at FROM observation o WHERE o.id = $2),
                 current_observation = (
                     SELECT o.id FROM observation o WHERE o.identity = $1 AND o.record IS NOT NULL
                     ORDER BY o.version_key DESC, o.id DESC LIMIT 1),
                 declared_since = (
                     SELECT r.first_at FROM observation o JOIN surface_seen r ON r.identity = o.identity AND r.record = o.record
                     WHERE o.identity = $1 AND o.record IS NOT NULL
                     ORDER BY o.version_key DESC, o.id DESC LIMIT 1)
             WHERE identity = $1",
        )
        .bind(identity).bind(state).execute(connection).await?;
    });
    Ok(())
}
