//! What happened since a target's cursor, made into deliveries.
//!
//! Invariant: a cursor moves in the transaction that keeps the deliveries of what it passes; it passes nothing that may still be
//! committed before it, and nothing while too much waits for its target.

use mcpindex_contract::approval::{DEFAULT_TENANT, Record};
use mcpindex_contract::digest::Digest;

use super::{Event, NewWebhook, Severity, Webhook, WebhookRow, webhook, webhook_from_row};
use crate::session::{Session, on};
use crate::text::{restored, stored};
use crate::{Store, StoreError};

/// Deliveries that wait for one target; what happens beyond that becomes a delivery when some of them have ended.
pub const MOST_WAITING: i64 = 1_000;
/// Pairs of a target and an event that one transaction looks at.
const AT_ONCE: i64 = 2_000;
/// Targets that one transaction looks at.
const TARGETS: i64 = 200;
/// Decisions that are read at once: more than one call may add.
const DECISIONS: i64 = 2_000;

impl Store {
    /// Whether anything may have happened that a target does not know of and has room for. Cheap, for whoever looks often.
    pub async fn webhooks_are_behind(&self) -> Result<bool, StoreError> {
        let decisions = self.decisions_end().await?;
        let mut session = self.read().await?;
        let behind: Option<i64> = on!(session, connection => {
            sqlx::query_scalar(
                "SELECT w.drift_cursor FROM webhook w
                 WHERE (w.drift_cursor < (SELECT COALESCE(MAX(id), 0) FROM drift) OR w.decision_cursor < $2)
                     AND (SELECT COUNT(*) FROM webhook_delivery d WHERE d.webhook = w.id AND d.due IS NOT NULL) < $1
                 LIMIT 1",
            )
            .bind(MOST_WAITING).bind(decisions).fetch_optional(connection).await?
        });
        Ok(behind.is_some())
    }

    /// Makes deliveries, due now, of a share of what happened; to be called again while there is more.
    pub async fn derive_deliveries(&self, now: i64) -> Result<Derived, StoreError> {
        let drifts = self.derive(&Cursor::DRIFTS, now).await?;
        let decisions = self.derive(&Cursor::DECISIONS, now).await?;
        Ok(Derived {
            deliveries: drifts.deliveries + decisions.deliveries,
            more: drifts.more || decisions.more,
        })
    }

    async fn derive(&self, cursor: &Cursor, now: i64) -> Result<Derived, StoreError> {
        let end = match cursor.happened {
            Happened::Drifts => self.drifts_end().await?,
            Happened::Decisions => self.decisions_end().await?,
        };
        let mut session = self.write().await?;
        let behind: Vec<(String, i64)> = on!(session, connection => {
            sqlx::query_as(cursor.behind).bind(end).bind(MOST_WAITING).bind(TARGETS).fetch_all(connection).await?
        });
        let is_all = i64::try_from(behind.len()).unwrap_or(i64::MAX) < TARGETS;
        let mut ready: Vec<(Webhook, i64)> = Vec::new();
        for (id, place) in behind {
            // Another process that holds it now makes its deliveries.
            if !hold(&mut session, &id).await? {
                continue;
            }
            let row: WebhookRow = on!(session, connection => {
                sqlx::query_as(webhook!("WHERE id = $1")).bind(&id).fetch_one(connection).await?
            });
            let webhook = webhook_from_row(row)?;
            if webhook.waiting < MOST_WAITING {
                ready.push((webhook, place));
            }
        }
        let Some(first) = ready.iter().map(|(_, place)| *place).min() else {
            return Ok(Derived::default());
        };
        let targets = i64::try_from(ready.len()).unwrap_or(i64::MAX);
        let limit = (AT_ONCE / targets).clamp(1, MOST_WAITING);
        let news = match cursor.happened {
            Happened::Drifts => drifts_after(&mut session, first, end, limit).await?,
            Happened::Decisions => self.decisions_after(first, end).await?,
        };
        let mut derived = Derived::default();
        for (webhook, place) in &ready {
            let new = news.events.iter().filter(|news| news.event.subject() > *place);
            for one in new.filter(|news| news.is_told(&webhook.wish)) {
                derived.deliveries += insert(&mut session, &webhook.wish.id, one.event, now).await?;
            }
            on!(session, connection => {
                sqlx::query(cursor.advance).bind(stored(&webhook.wish.id)).bind(news.reached).execute(connection).await?;
            });
        }
        session.commit().await?;
        derived.more = news.reached > first && (news.reached < end || !is_all);
        Ok(derived)
    }

    /// The decisions after this one, as far as the chain of them can be read. Whether it is whole is looked at when they are told.
    async fn decisions_after(&self, after: i64, end: i64) -> Result<News, StoreError> {
        let since = u64::try_from(after).unwrap_or(0);
        let records = match self.approvals_since(DEFAULT_TENANT, since, DECISIONS).await {
            Ok((_, records)) => records,
            // A record that can't be read is not passed over.
            Err(StoreError::ChainBroken { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        let is_all = i64::try_from(records.len()).unwrap_or(i64::MAX) < DECISIONS;
        let mut acts: Vec<&[Record]> = records.chunk_by(is_one_act).collect();
        // The last one may go on behind what was read.
        if !is_all && acts.len() > 1 {
            acts.pop();
        }
        let number = |record: &Record| i64::try_from(record.sequence).unwrap_or(i64::MAX);
        let reached = acts.last().and_then(|act| act.last()).map_or(after, number);
        let event = |act: &&[Record]| {
            let first = act.first()?;
            Some(New {
                event: Event::Decision(number(first)),
                identity: first.identity.clone(),
                safety_relevant: true,
            })
        };
        Ok(News {
            events: acts.iter().filter_map(event).collect(),
            reached: reached.min(end),
        })
    }

    /// The decisions of one person about one server that this one is the first of; none where there is no such decision.
    pub async fn decisions_of_act(&self, first: i64) -> Result<Vec<Record>, StoreError> {
        let before = u64::try_from(first.saturating_sub(1)).unwrap_or(0);
        let (_, mut records) = self.approvals_since(DEFAULT_TENANT, before, DECISIONS).await?;
        let length = records.chunk_by(is_one_act).next().map_or(0, <[Record]>::len);
        records.truncate(length);
        Ok(records)
    }

    /// The last decision that was made.
    pub(super) async fn decisions_end(&self) -> Result<i64, StoreError> {
        let (head, _) = self.approvals_since(DEFAULT_TENANT, 0, 0).await?;
        Ok(i64::try_from(head.sequence).unwrap_or(i64::MAX))
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

/// What happened of one sort, and how a target's cursor over it is read and moved.
struct Cursor {
    happened: Happened,
    /// Targets that are behind and have room.
    behind: &'static str,
    advance: &'static str,
}

#[derive(Clone, Copy)]
enum Happened {
    Drifts,
    Decisions,
}

macro_rules! cursor {
    ($happened:expr, $column:literal) => {
        Cursor {
            happened: $happened,
            behind: concat!(
                "SELECT w.id, w.",
                $column,
                " FROM webhook w WHERE w.",
                $column,
                " < $1 AND (SELECT COUNT(*) FROM webhook_delivery d WHERE d.webhook = w.id AND d.due IS NOT NULL) < $2
                 ORDER BY 2, 1 LIMIT $3"
            ),
            advance: concat!(
                "UPDATE webhook SET ",
                $column,
                " = $2 WHERE id = $1 AND ",
                $column,
                " < $2"
            ),
        }
    };
}

impl Cursor {
    const DRIFTS: Cursor = cursor!(Happened::Drifts, "drift_cursor");
    const DECISIONS: Cursor = cursor!(Happened::Decisions, "decision_cursor");
}

/// What happened in a stretch, and the end of it.
struct News {
    events: Vec<New>,
    reached: i64,
}

struct New {
    event: Event,
    identity: String,
    safety_relevant: bool,
}

impl New {
    fn is_told(&self, wish: &NewWebhook) -> bool {
        let severe = wish.severity == Severity::All || self.safety_relevant;
        severe && wish.is_about(&self.identity)
    }
}

/// Whether two neighbouring decisions are one act of one person.
fn is_one_act(one: &Record, next: &Record) -> bool {
    let of = |record: &Record| {
        (
            record.at,
            record.subject.clone(),
            record.identity.clone(),
            record.decision,
        )
    };
    of(one) == of(next)
}

/// Holds a target until this transaction ends. False: another process does, or it is gone.
async fn hold(session: &mut Session, id: &str) -> Result<bool, StoreError> {
    // SQLite has one writer at a time.
    let statement = if session.is_postgres() {
        "SELECT id FROM webhook WHERE id = $1 FOR UPDATE SKIP LOCKED"
    } else {
        "SELECT id FROM webhook WHERE id = $1"
    };
    let held: Option<String> = on!(*session, connection => {
        sqlx::query_scalar(statement).bind(id).fetch_optional(connection).await?
    });
    Ok(held.is_some())
}

async fn drifts_after(session: &mut Session, after: i64, end: i64, limit: i64) -> Result<News, StoreError> {
    let rows: Vec<(i64, String, bool)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT id, identity, safety_relevant FROM drift
             WHERE id > $1 AND id <= $2 AND replaced_at IS NULL ORDER BY id LIMIT $3",
        )
        .bind(after).bind(end).bind(limit).fetch_all(connection).await?
    });
    // Where all were read, the rest up to the end are numbers that were never given, or drifts that were replaced.
    let reached = match rows.last() {
        Some((last, ..)) if i64::try_from(rows.len()).unwrap_or(i64::MAX) == limit => *last,
        _ => end,
    };
    let events = rows.into_iter().map(|(id, identity, safety_relevant)| {
        Ok(New {
            event: Event::Drift(id),
            identity: restored(identity)?,
            safety_relevant,
        })
    });
    Ok(News {
        events: events.collect::<Result<_, StoreError>>()?,
        reached,
    })
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
