//! The issues that the form `github-issue` has opened, so that a drift that goes on is told in the same one, and closed there.
//!
//! Invariant: a server has at most one open issue at a target. What is kept here may lag behind the repository by one request:
//! the issue carries its fingerprint, by which it is found again.

use crate::session::on;
use crate::text::{MAX_IDENTITY, indexed, restored};
use crate::{Store, StoreError};

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The target.
    pub webhook: String,
    /// Its number in the repository.
    pub issue: i64,
    /// The server that it is about.
    pub identity: String,
    /// Of the drift that opened it; stands in its text.
    pub fingerprint: String,
    /// The drift that opened it.
    pub first_drift: i64,
    /// The last one that it was told of.
    pub last_drift: i64,
}

impl Store {
    /// The open issue about this server at a target.
    pub async fn open_issue(&self, webhook: &str, identity: &str) -> Result<Option<Issue>, StoreError> {
        let identity_kept = indexed("identity", identity, MAX_IDENTITY)?;
        let mut session = self.read().await?;
        let row: Option<(i64, String, i64, i64)> = on!(session, connection => {
            sqlx::query_as(
                "SELECT issue, fingerprint, first_drift, last_drift FROM webhook_issue
                 WHERE webhook = $1 AND identity = $2 AND closed_at IS NULL",
            )
            .bind(webhook).bind(&*identity_kept).fetch_optional(connection).await?
        });
        row.map(|(issue, fingerprint, first_drift, last_drift)| {
            Ok(Issue {
                webhook: webhook.to_owned(),
                issue,
                identity: identity.to_owned(),
                fingerprint: restored(fingerprint)?,
                first_drift,
                last_drift,
            })
        })
        .transpose()
    }

    /// Keeps that an issue is open, and the last drift that it was told of. A target that is gone keeps nothing.
    pub async fn keep_issue(&self, issue: &Issue) -> Result<(), StoreError> {
        let identity = indexed("identity", &issue.identity, MAX_IDENTITY)?;
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query(
                "INSERT INTO webhook_issue (webhook, issue, identity, fingerprint, first_drift, last_drift)
                 SELECT id, $2, $3, $4, $5, $6 FROM webhook WHERE id = $1
                 ON CONFLICT (webhook, issue) DO UPDATE SET
                     last_drift = excluded.last_drift, closed_at = NULL",
            )
            .bind(&issue.webhook).bind(issue.issue).bind(&*identity).bind(&issue.fingerprint)
            .bind(issue.first_drift).bind(issue.last_drift)
            .execute(connection).await?;
        });
        session.commit().await
    }

    /// Keeps that an issue is closed.
    pub async fn close_issue(&self, webhook: &str, issue: i64, now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query("UPDATE webhook_issue SET closed_at = $3 WHERE webhook = $1 AND issue = $2")
                .bind(webhook).bind(issue).bind(now).execute(connection).await?;
        });
        session.commit().await
    }
}
