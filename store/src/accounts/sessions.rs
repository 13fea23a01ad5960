//! Browsers that are signed in.
//!
//! Invariant: a session is over 12 hours after it was last used and 7 days after it began, and when its account is disabled.

use super::{Account, Over, SecretHash, account_of, hold_enabled, not_enabled};
use crate::session::on;
use crate::{Store, StoreError};

/// Seconds without use after which a session is over.
pub(super) const IDLE: i64 = 12 * 3_600;
/// Seconds after which it is over whatever its use.
pub(super) const ABSOLUTE: i64 = 7 * 86_400;
/// A use is written down when the last one is this many seconds old, so that a page is no write.
const NOTED_EVERY: i64 = 300;

pub(super) const IDLE_OVER: Over = ("browser_session", "hash", "used_at <= $1");
pub(super) const ABSOLUTE_OVER: Over = ("browser_session", "hash", "created_at <= $1");

/// A browser that is signed in, for the page of its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// [`SecretHash::short_id`] of its cookie.
    pub id: String,
    /// When it signed in.
    pub created_at: i64,
    /// When it was last used, to five minutes.
    pub used_at: i64,
}

impl Store {
    /// Begins a session.
    ///
    /// [`StoreError::Refused`]: the account is disabled.
    pub async fn add_session(&self, cookie: SecretHash, account: i64, now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        if hold_enabled(&mut session, account).await?.is_none() {
            return Err(not_enabled(account));
        }
        on!(session, connection => {
            sqlx::query("INSERT INTO browser_session (hash, account, created_at, used_at) VALUES ($1, $2, $3, $3)")
                .bind(cookie.bytes()).bind(account).bind(now).execute(connection).await?;
        });
        session.commit().await
    }

    /// Whose session this is; `None` when it is over. Counts as a use.
    pub async fn session(&self, cookie: SecretHash, now: i64) -> Result<Option<Account>, StoreError> {
        let mut session = self.read().await?;
        let found: Option<(i64, i64)> = on!(session, connection => {
            sqlx::query_as(
                "SELECT account, used_at FROM browser_session WHERE hash = $1 AND used_at > $2 AND created_at > $3",
            )
            .bind(cookie.bytes()).bind(now - IDLE).bind(now - ABSOLUTE).fetch_optional(connection).await?
        });
        let Some((account, used_at)) = found else {
            return Ok(None);
        };
        let account = account_of(&mut session, account).await?;
        drop(session);
        let Some(account) = account.filter(|account| account.disabled_at.is_none()) else {
            return Ok(None);
        };
        if used_at <= now - NOTED_EVERY {
            let mut session = self.write().await?;
            on!(session, connection => {
                sqlx::query("UPDATE browser_session SET used_at = $2 WHERE hash = $1 AND used_at < $2")
                    .bind(cookie.bytes()).bind(now).execute(connection).await?;
            });
            session.commit().await?;
        }
        Ok(Some(account))
    }

    /// An account's sessions that are not over, the one used last first.
    pub async fn sessions(&self, account: i64, now: i64) -> Result<Vec<SessionRecord>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<(Vec<u8>, i64, i64)> = on!(session, connection => {
            sqlx::query_as(
                "SELECT hash, created_at, used_at FROM browser_session
                 WHERE account = $1 AND used_at > $2 AND created_at > $3 ORDER BY used_at DESC, hash",
            )
            .bind(account).bind(now - IDLE).bind(now - ABSOLUTE).fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|(hash, created_at, used_at)| {
                Ok(SessionRecord {
                    id: SecretHash::from_bytes(&hash)?.short_id(),
                    created_at,
                    used_at,
                })
            })
            .collect()
    }

    /// Ends a session; nothing happens when it is over.
    pub async fn end_session(&self, cookie: SecretHash) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query("DELETE FROM browser_session WHERE hash = $1")
                .bind(cookie.bytes()).execute(connection).await?;
        });
        session.commit().await
    }

    /// Ends all of an account's sessions. Gives how many there were.
    pub async fn end_sessions(&self, account: i64) -> Result<u64, StoreError> {
        let mut session = self.write().await?;
        let ended = on!(session, connection => {
            sqlx::query("DELETE FROM browser_session WHERE account = $1")
                .bind(account).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(ended)
    }
}
