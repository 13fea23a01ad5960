//! What happened since a target's cursor, made into deliveries.
//!
//! Invariant: a cursor moves in the transaction that keeps the deliveries of what it passes; it passes nothing that may still be
//! committed before it, and nothing while too much waits for its target.

use mcpindex_contract::digest::Digest;

use super::{Event, NewWebhook, Severity, Webhook, WebhookRow, webhook, webhook_from_row};
use crate::session::{Session, on};
use crate::text::{restored, stored};
use crate::{Store, StoreError};

/// Deliveries that wait for one target; what happens beyond that becomes a delivery when some of them have ended.
pub const MOST_WAITING: i64 = 1_000;
/// Pairs of a target and an event that one transaction looks at.
const AT_ONCE: i64 = 2_000;

impl Store {
    /// Whether anything may have happened that a target does not know of and has room for. Cheap, for whoever looks often.
    pub async fn webhooks_are_behind(&self) -> Result<bool, StoreError> {
        let mut session = self.read().await?;
        let behind: Option<i64> = on!(session, connection => {
            sqlx::query_scalar(
                "SELECT w.drift_cursor FROM webhook w
                 WHERE w.drift_cursor < (SELECT COALESCE(MAX(id), 0) FROM drift)
                     AND (SELECT COUNT(*) FROM webhook_delivery d WHERE d.webhook = w.id AND d.due IS NOT NULL) < $1
                 LIMIT 1",
            )
            .bind(MOST_WAITING).fetch_optional(connection).await?
        });
        Ok(behind.is_some())
    }

    /// Makes deliveries, due now, of a share of what happened; to be called again while there is more.
    pub async fn derive_deliveries(&self, now: i64) -> Result<Derived, StoreError> {
        let end = self.drifts_end().await?;
        let mut session = self.write().await?;
        // Another process that holds some of them now makes theirs.
        let statement = if session.is_postgres() {
            "SELECT id, drift_cursor FROM webhook WHERE drift_cursor < $1 ORDER BY drift_cursor, id FOR UPDATE SKIP LOCKED"
        } else {
            "SELECT id, drift_cursor FROM webhook WHERE drift_cursor < $1 ORDER BY drift_cursor, id"
        };
        let behind: Vec<(String, i64)> = on!(session, connection => {
            sqlx::query_as(statement).bind(end).fetch_all(connection).await?
        });
        let mut ready: Vec<(Webhook, i64)> = Vec::new();
        for (id, cursor) in behind {
            let row: WebhookRow = on!(session, connection => {
                sqlx::query_as(webhook!("WHERE id = $1")).bind(&id).fetch_one(connection).await?
            });
            let webhook = webhook_from_row(row)?;
            if webhook.waiting < MOST_WAITING {
                ready.push((webhook, cursor));
            }
        }
        let Some(first) = ready.iter().map(|(_, cursor)| *cursor).min() else {
            return Ok(Derived::default());
        };
        let targets = i64::try_from(ready.len()).unwrap_or(i64::MAX);
        let limit = (AT_ONCE / targets).clamp(1, MOST_WAITING);
        let drifts = drifts_after(&mut session, first, end, limit).await?;
        // Where all were read, the rest up to the end are numbers that were never given, or drifts that were replaced.
        let reached = match drifts.last() {
            Some(last) if i64::try_from(drifts.len()).unwrap_or(i64::MAX) == limit => last.id,
            _ => end,
        };
        let mut derived = Derived::default();
        for (webhook, cursor) in &ready {
            let news = drifts.iter().filter(|drift| drift.id > *cursor);
            for drift in news.filter(|drift| drift.is_told(&webhook.wish)) {
                derived.deliveries +=
                    insert(&mut session, &webhook.wish.id, Event::Drift(drift.id), now).await?;
            }
            on!(session, connection => {
                sqlx::query("UPDATE webhook SET drift_cursor = $2 WHERE id = $1 AND drift_cursor < $2")
                    .bind(stored(&webhook.wish.id)).bind(reached).execute(connection).await?;
            });
        }
        session.commit().await?;
        derived.more = reached < end;
        Ok(derived)
    }

    /// The last number before which no drift can come any more.
    pub(super) async fn drifts_end(&self) -> Result<i64, StoreError> {
        let mut session = self.write().await?;
        if session.is_postgres() {
            // Waits for the writers that are under way; those that come wait until the number is read.
            on!(session, connection => {
                sqlx::query("LOCK TABLE ONLY drift IN SHARE MODE").execute(connection).await?;
            });
        }
        let end: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT MAX(id) FROM drift").fetch_one(connection).await?
        });
        session.commit().await?;
        Ok(end.unwrap_or(0))
    }
}

/// What came of looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Derived {
    /// Deliveries that were made.
    pub deliveries: u64,
    /// Whether there is more of the same to look at.
    pub more: bool,
}

struct Recorded {
    id: i64,
    identity: String,
    safety_relevant: bool,
}

impl Recorded {
    fn is_told(&self, wish: &NewWebhook) -> bool {
        let severe = wish.severity == Severity::All || self.safety_relevant;
        severe && wish.is_about(&self.identity)
    }
}

async fn drifts_after(
    session: &mut Session,
    after: i64,
    end: i64,
    limit: i64,
) -> Result<Vec<Recorded>, StoreError> {
    let rows: Vec<(i64, String, bool)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT id, identity, safety_relevant FROM drift
             WHERE id > $1 AND id <= $2 AND replaced_at IS NULL ORDER BY id LIMIT $3",
        )
        .bind(after).bind(end).bind(limit).fetch_all(connection).await?
    });
    let recorded = rows.into_iter().map(|(id, identity, safety_relevant)| {
        Ok(Recorded {
            id,
            identity: restored(identity)?,
            safety_relevant,
        })
    });
    recorded.collect()
}

/// The delivery of an event to a target, due now; 0 when it is there.
async fn insert(session: &mut Session, webhook: &str, event: Event, now: i64) -> Result<u64, StoreError> {
    let id = delivery_id(webhook, event);
    Ok(on!(*session, connection => {
        sqlx::query(
            "INSERT INTO webhook_delivery (id, webhook, event, subject, created_at, due, epoch, attempts)
             VALUES ($1, $2, $3, $4, $5, $5, 0, 0) ON CONFLICT (id) DO NOTHING",
        )
        .bind(&id).bind(stored(webhook)).bind(event.name()).bind(event.subject()).bind(now)
        .execute(connection).await?.rows_affected()
    }))
}

/// The same for the same event, whichever process derives it.
fn delivery_id(webhook: &str, event: Event) -> String {
    let text = format!(
        "mcpindex delivery\n{webhook}\n{}\n{}",
        event.name(),
        event.subject()
    );
    let hash = Digest::of_canonical(&text).hex();
    format!("msg_{}", hash.get(..32).unwrap_or(&hash))
}
