//! The path under which an account's feed reader finds the feeds of a members-only index.
//!
//! Invariant: an account has at most one; a new one ends the one before, and one of a disabled account opens nothing.

use super::{Account, SecretHash, account_of, hold_enabled, not_enabled};
use crate::session::on;
use crate::{Store, StoreError};

const DAY: i64 = 86_400;

/// An account's feed path, as its page shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPathRecord {
    /// When it was made.
    pub created_at: i64,
    /// The day of its last use, in days since 1970-01-01.
    pub last_used_on: Option<i64>,
}

impl Store {
    /// Gives an account a feed path, in the place of the one that it has.
    ///
    /// [`StoreError::Refused`]: the account is disabled.
    pub async fn set_feed_path(&self, account: i64, token: SecretHash, now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        if hold_enabled(&mut session, account).await?.is_none() {
            return Err(not_enabled(account));
        }
        on!(session, connection => {
            sqlx::query(
                "INSERT INTO feed_path (account, hash, created_at, last_used_on) VALUES ($1, $2, $3, NULL)
                 ON CONFLICT (account) DO UPDATE SET hash = excluded.hash, created_at = excluded.created_at,
                     last_used_on = NULL",
            )
            .bind(account).bind(token.bytes()).bind(now).execute(connection).await?;
        });
        session.commit().await
    }

    /// An account's feed path, if it has one.
    pub async fn feed_path(&self, account: i64) -> Result<Option<FeedPathRecord>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<(i64, Option<i64>)> = on!(session, connection => {
            sqlx::query_as("SELECT created_at, last_used_on FROM feed_path WHERE account = $1")
                .bind(account).fetch_optional(connection).await?
        });
        Ok(row.map(|(created_at, last_used_on)| FeedPathRecord {
            created_at,
            last_used_on,
        }))
    }

    /// Ends an account's feed path; whether it had one.
    pub async fn revoke_feed_path(&self, account: i64) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let ended = on!(session, connection => {
            sqlx::query("DELETE FROM feed_path WHERE account = $1")
                .bind(account).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(ended > 0)
    }

    /// Whose feed path this is; `None`: nobody's who may read. Notes the day.
    pub async fn feed_path_holder(&self, token: SecretHash, now: i64) -> Result<Option<Account>, StoreError> {
        let today = now.div_euclid(DAY);
        let mut session = self.read().await?;
        let found: Option<(i64, Option<i64>)> = on!(session, connection => {
            sqlx::query_as("SELECT account, last_used_on FROM feed_path WHERE hash = $1")
                .bind(token.bytes()).fetch_optional(connection).await?
        });
        let Some((account, last_used_on)) = found else {
            return Ok(None);
        };
        let account = account_of(&mut session, account).await?;
        drop(session);
        let Some(account) = account.filter(|account| account.disabled_at.is_none()) else {
            return Ok(None);
        };
        if last_used_on.is_none_or(|day| day < today) {
            let mut session = self.write().await?;
            on!(session, connection => {
                sqlx::query("UPDATE feed_path SET last_used_on = $2 WHERE hash = $1")
                    .bind(token.bytes()).bind(today).execute(connection).await?;
            });
            session.commit().await?;
        }
        Ok(Some(account))
    }
}
