//! Deliveries: leased to be made, tried again until they arrive or are given up, and kept for a while as the log.
//!
//! Invariant: one holder of a lease at a time, and a result is taken from it alone; a target has no more deliveries under way
//! than its form bears, whichever processes make them; what waits is never removed but with its target.

use super::{Event, Form, NewWebhook, Webhook, WebhookRow, unknown, webhook, webhook_from_row};
use crate::session::{Session, on};
use crate::text::{restored, restored_option, stored};
use crate::{Store, StoreError};

/// Ended deliveries of one target that are kept as the log, and for how many days.
pub const KEPT_DELIVERIES: i64 = 200;
pub const KEPT_DAYS: i64 = 30;
const DAY: i64 = 86_400;
const MINUTE: i64 = 60;
/// Bytes kept of what was wrong with an attempt.
const MAX_ERROR: usize = 500;

impl Form {
    /// Deliveries of one target that are under way at the same time. An issue is opened, told more and closed in the order
    /// of what happened.
    fn at_once(self) -> i64 {
        match self {
            Form::Json | Form::Slack => 4,
            Form::GithubIssue => 1,
        }
    }

    /// Seconds that an attempt may take before somebody else may make it too. Senders end theirs before.
    pub fn lease(self) -> i64 {
        match self {
            Form::Json | Form::Slack => 30,
            // Several requests.
            Form::GithubIssue => 90,
        }
    }
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver took it.
    Delivered,
    /// It is not tried any more.
    GaveUp,
}

impl DeliveryOutcome {
    /// `delivered` or `gave-up`.
    pub fn name(self) -> &'static str {
        match self {
            DeliveryOutcome::Delivered => "delivered",
            DeliveryOutcome::GaveUp => "gave-up",
        }
    }
}

/// One event on its way to one target, or what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its place in the log.
    pub number: i64,
    /// What receivers know it by, the same at each attempt.
    pub id: String,
    /// The target.
    pub webhook: String,
    /// What happened.
    pub event: Event,
    /// When it was made.
    pub created_at: i64,
    /// When it is tried next, or until when it is leased; `None` once it has ended.
    pub due: Option<i64>,
    /// Whether it is leased.
    pub under_way: bool,
    /// Attempts that have ended.
    pub attempts: i64,
    /// When the last one did.
    pub attempted_at: Option<i64>,
    /// The HTTP status that it had.
    pub status: Option<u16>,
    /// What was wrong with it, in words.
    pub error: Option<String>,
    /// How it ended; `None` while it waits.
    pub outcome: Option<DeliveryOutcome>,
}

/// The right to say what became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryLease {
    /// The delivery's place in the log.
    pub number: i64,
    /// The fencing epoch of the claim.
    pub epoch: i64,
}

/// A delivery to be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What is delivered.
    pub delivery: Delivery,
    /// To whom.
    pub webhook: NewWebhook,
    /// The right to say what became of it.
    pub lease: DeliveryLease,
}

/// What comes after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The receiver took it.
    Delivered,
    /// It failed, and is tried again then.
    Again {
        /// Unix seconds.
        due: i64,
    },
    /// It failed, and is not tried any more.
    GaveUp,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Of this claim.
    pub lease: DeliveryLease,
    /// What comes now.
    pub ended: Ended,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// What was wrong, in words.
    pub error: Option<String>,
}

/// What came of asking for a delivery again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivery {
    /// It is due now, and has three days again.
    Due,
    /// It is on its way now.
    UnderWay,
    /// The target has none of this id (any more).
    Unknown,
}

type DeliveryRow = (
    i64,
    String,
    String,
    String,
    i64,
    i64,
    Option<i64>,
    Option<String>,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
);

macro_rules! delivery {
    ($rest:literal) => {
        concat!(
            "SELECT number, id, webhook, event, subject, created_at, due, worker, attempts, attempted_at, status, error, outcome
             FROM webhook_delivery ",
            $rest
        )
    };
}

fn delivery_from_row(row: DeliveryRow) -> Result<Delivery, StoreError> {
    let outcome = match row.12.as_deref() {
        None => None,
        Some("delivered") => Some(DeliveryOutcome::Delivered),
        Some("gave-up") => Some(DeliveryOutcome::GaveUp),
        Some(other) => return Err(unknown("a delivery's outcome", other)),
    };
    let status = row.10.map(u16::try_from).transpose();
    Ok(Delivery {
        number: row.0,
        id: row.1,
        webhook: restored(row.2)?,
        event: Event::read(&row.3, row.4)?,
        created_at: row.5,
        due: row.6,
        under_way: row.7.is_some(),
        attempts: row.8,
        attempted_at: row.9,
        status: status.map_err(|_| unknown("a delivery's status", "out of range"))?,
        error: restored_option(row.11)?,
        outcome,
    })
}

impl Store {
    /// When the next delivery is due, or a lease runs out.
    pub async fn next_delivery_due(&self) -> Result<Option<i64>, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT MIN(due) FROM webhook_delivery WHERE due IS NOT NULL").fetch_one(connection).await?
        }))
    }

    /// Leases at most `limit` due deliveries, of the targets that have waited longest first.
    pub async fn claim_deliveries(
        &self,
        worker: &str,
        now: i64,
        limit: i64,
    ) -> Result<Vec<Claimed>, StoreError> {
        let mut session = self.write().await?;
        // Whoever claims for a target holds it, so that two processes together keep to what it bears. Postgres passes over targets
        // that another one holds now; SQLite has one writer at a time.
        let statement = if session.is_postgres() {
            "SELECT w.id FROM webhook w
             JOIN (SELECT webhook, MIN(due) AS first FROM webhook_delivery WHERE due <= $1 GROUP BY webhook) d
                 ON d.webhook = w.id
             ORDER BY d.first, w.id LIMIT $2 FOR UPDATE OF w SKIP LOCKED"
        } else {
            "SELECT w.id FROM webhook w
             JOIN (SELECT webhook, MIN(due) AS first FROM webhook_delivery WHERE due <= $1 GROUP BY webhook) d
                 ON d.webhook = w.id
             ORDER BY d.first, w.id LIMIT $2"
        };
        let targets: Vec<String> = on!(session, connection => {
            sqlx::query_scalar(statement).bind(now).bind(limit.max(0)).fetch_all(connection).await?
        });
        let mut claimed = Vec::new();
        for id in targets {
            let room = limit - i64::try_from(claimed.len()).unwrap_or(i64::MAX);
            if room <= 0 {
                break;
            }
            claim_of_target(&mut session, &id, worker, now, room, &mut claimed).await?;
        }
        session.commit().await?;
        Ok(claimed)
    }

    /// Leases this one delivery, whenever it is due; `None` when it has ended or is under way.
    pub async fn claim_delivery(
        &self,
        id: &str,
        worker: &str,
        now: i64,
    ) -> Result<Option<Claimed>, StoreError> {
        let mut session = self.write().await?;
        let row: Option<DeliveryRow> = on!(session, connection => {
            sqlx::query_as(delivery!("WHERE id = $1 AND due IS NOT NULL AND (worker IS NULL OR due <= $2)"))
                .bind(stored(id)).bind(now).fetch_optional(connection).await?
        });
        let Some(row) = row else { return Ok(None) };
        let delivery = delivery_from_row(row)?;
        let webhook = target(&mut session, &delivery.webhook).await?;
        let claimed = lease(&mut session, delivery, &webhook, worker, now).await?;
        session.commit().await?;
        Ok(claimed)
    }

    /// Keeps what became of these attempts; gives the places of those whose lease was lost, of which nothing is kept.
    pub async fn finish_deliveries(&self, finished: &[Finished], now: i64) -> Result<Vec<i64>, StoreError> {
        let mut session = self.write().await?;
        let mut lost = Vec::new();
        for one in finished {
            let (due, outcome) = match one.ended {
                Ended::Delivered => (None, Some(DeliveryOutcome::Delivered)),
                Ended::Again { due } => (Some(due), None),
                Ended::GaveUp => (None, Some(DeliveryOutcome::GaveUp)),
            };
            let error = one.error.as_deref().map(|error| {
                let end = error.floor_char_boundary(MAX_ERROR);
                stored(&error[..end]).into_owned()
            });
            let held = on!(session, connection => {
                sqlx::query(
                    "UPDATE webhook_delivery SET due = $3, worker = NULL, attempts = attempts + 1, attempted_at = $4,
                         status = $5, error = $6, outcome = $7, ended_at = $8
                     WHERE number = $1 AND epoch = $2 AND worker IS NOT NULL",
                )
                .bind(one.lease.number).bind(one.lease.epoch).bind(due).bind(now)
                .bind(one.status.map(i64::from)).bind(error).bind(outcome.map(DeliveryOutcome::name))
                .bind(outcome.map(|_| now))
                .execute(connection).await?.rows_affected()
            });
            if held == 0 {
                lost.push(one.lease.number);
            }
        }
        session.commit().await?;
        Ok(lost)
    }

    /// Gives leases back without a result, due at once (shutdown). What was lost meanwhile stays as it is.
    pub async fn release_deliveries(&self, leases: &[DeliveryLease], now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        for lease in leases {
            on!(session, connection => {
                sqlx::query(
                    "UPDATE webhook_delivery SET due = $3, worker = NULL WHERE number = $1 AND epoch = $2 AND worker IS NOT NULL",
                )
                .bind(lease.number).bind(lease.epoch).bind(now).execute(connection).await?;
            });
        }
        session.commit().await
    }

    /// A delivery that tells nothing but that it arrives; due in a minute, if whoever asks for it does not make it at once
    /// ([`Store::claim_delivery`]). False: there is no such target.
    pub async fn add_test_delivery(&self, webhook: &str, id: &str, now: i64) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let made = on!(session, connection => {
            sqlx::query(
                "INSERT INTO webhook_delivery (id, webhook, event, subject, created_at, due, epoch, attempts)
                 SELECT $2, id, $3, $4, $5, $6, 0, 0 FROM webhook WHERE id = $1",
            )
            .bind(stored(webhook)).bind(id).bind(Event::Test.name()).bind(Event::Test.subject()).bind(now)
            .bind(now.saturating_add(MINUTE))
            .execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(made == 1)
    }

    /// The log of one target, what waits in it too, newest first; `before` is the last place of the page before.
    pub async fn deliveries(
        &self,
        webhook: &str,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<Delivery>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<DeliveryRow> = on!(session, connection => {
            sqlx::query_as(delivery!("WHERE webhook = $1 AND number < $2 ORDER BY number DESC LIMIT $3"))
                .bind(stored(webhook)).bind(before.unwrap_or(i64::MAX)).bind(limit.max(0)).fetch_all(connection).await?
        });
        rows.into_iter().map(delivery_from_row).collect()
    }

    /// One delivery of a target.
    pub async fn delivery(&self, webhook: &str, id: &str) -> Result<Option<Delivery>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<DeliveryRow> = on!(session, connection => {
            sqlx::query_as(delivery!("WHERE webhook = $1 AND id = $2"))
                .bind(stored(webhook)).bind(stored(id)).fetch_optional(connection).await?
        });
        row.map(delivery_from_row).transpose()
    }

    /// Makes a delivery due now, under the same id, whether it has ended or waits.
    pub async fn redeliver(&self, webhook: &str, id: &str, now: i64) -> Result<Redelivery, StoreError> {
        let mut session = self.write().await?;
        let due = on!(session, connection => {
            sqlx::query(
                "UPDATE webhook_delivery SET due = $3, created_at = $3, worker = NULL, outcome = NULL, ended_at = NULL
                 WHERE webhook = $1 AND id = $2 AND (worker IS NULL OR due <= $3)",
            )
            .bind(stored(webhook)).bind(stored(id)).bind(now).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        if due == 1 {
            return Ok(Redelivery::Due);
        }
        Ok(match self.delivery(webhook, id).await? {
            Some(_) => Redelivery::UnderWay,
            None => Redelivery::Unknown,
        })
    }

    /// Removes what is past keeping of every log; gives how much that was.
    pub async fn sweep_deliveries(&self, now: i64) -> Result<u64, StoreError> {
        let mut session = self.write().await?;
        let old = on!(session, connection => {
            sqlx::query("DELETE FROM webhook_delivery WHERE ended_at < $1")
                .bind(now - KEPT_DAYS * DAY).execute(connection).await?.rows_affected()
        });
        let many = on!(session, connection => {
            sqlx::query(
                "DELETE FROM webhook_delivery WHERE number IN (
                     SELECT number FROM (
                         SELECT number, ROW_NUMBER() OVER (PARTITION BY webhook ORDER BY number DESC) AS place
                         FROM webhook_delivery WHERE ended_at IS NOT NULL
                     ) ranked WHERE place > $1
                 )",
            )
            .bind(KEPT_DELIVERIES).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(old + many)
    }
}

/// Leases what this target bears beside what is under way.
async fn claim_of_target(
    session: &mut Session,
    id: &str,
    worker: &str,
    now: i64,
    room: i64,
    claimed: &mut Vec<Claimed>,
) -> Result<(), StoreError> {
    let target: Webhook = target(session, id).await?;
    let under_way: i64 = on!(*session, connection => {
        sqlx::query_scalar("SELECT COUNT(*) FROM webhook_delivery WHERE webhook = $1 AND worker IS NOT NULL AND due > $2")
            .bind(id).bind(now).fetch_one(connection).await?
    });
    let room = room.min(target.wish.form.at_once() - under_way);
    if room <= 0 {
        return Ok(());
    }
    let rows: Vec<DeliveryRow> = match target.wish.form {
        Form::Json | Form::Slack => on!(*session, connection => {
            sqlx::query_as(delivery!("WHERE webhook = $1 AND due <= $2 ORDER BY due, number LIMIT $3"))
                .bind(id).bind(now).bind(room).fetch_all(connection).await?
        }),
        // The oldest that has not ended, if it is its time; the others come after it.
        Form::GithubIssue => on!(*session, connection => {
            sqlx::query_as(delivery!("WHERE webhook = $1 AND due IS NOT NULL ORDER BY number LIMIT $2"))
                .bind(id).bind(room).fetch_all(connection).await?
        }),
    };
    for row in rows {
        let delivery = delivery_from_row(row)?;
        if delivery.due.is_some_and(|due| due <= now) {
            claimed.extend(lease(session, delivery, &target, worker, now).await?);
        }
    }
    Ok(())
}

async fn target(session: &mut Session, id: &str) -> Result<Webhook, StoreError> {
    let row: WebhookRow = on!(*session, connection => {
        sqlx::query_as(webhook!("WHERE id = $1")).bind(stored(id)).fetch_one(connection).await?
    });
    webhook_from_row(row)
}

/// `None`: another process was faster.
async fn lease(
    session: &mut Session,
    mut delivery: Delivery,
    webhook: &Webhook,
    worker: &str,
    now: i64,
) -> Result<Option<Claimed>, StoreError> {
    let until = now.saturating_add(webhook.wish.form.lease());
    let epoch: Option<i64> = on!(*session, connection => {
        sqlx::query_scalar(
            "UPDATE webhook_delivery SET due = $2, epoch = epoch + 1, worker = $3
             WHERE number = $1 AND due IS NOT NULL AND (worker IS NULL OR due <= $4) RETURNING epoch",
        )
        .bind(delivery.number).bind(until).bind(stored(worker)).bind(now).fetch_optional(connection).await?
    });
    delivery.due = Some(until);
    delivery.under_way = true;
    Ok(epoch.map(|epoch| Claimed {
        lease: DeliveryLease {
            number: delivery.number,
            epoch,
        },
        delivery,
        webhook: webhook.wish.clone(),
    }))
}
