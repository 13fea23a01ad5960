//! The organisation's own fingerprint key: what its installs tell of stays unreadable to whoever has the public constant alone.
//!
//! Invariant: there is one key for the life of the database.

use crate::session::on;
use crate::{Store, StoreError};

impl Store {
    /// The organisation's fingerprint key: `fresh` on the first call ever, and that one ever after.
    pub async fn organisation_key(&self, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        const KEPT: &str = "SELECT fingerprint_key FROM organisation";
        let mut session = self.read().await?;
        let kept: Option<Vec<u8>> =
            on!(session, connection => sqlx::query_scalar(KEPT).fetch_optional(connection).await?);
        drop(session);
        let kept = match kept {
            Some(kept) => kept,
            None => {
                let mut session = self.write().await?;
                on!(session, connection => {
                    sqlx::query(
                        "INSERT INTO organisation (id, fingerprint_key) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
                    )
                    .bind(fresh.as_slice()).execute(connection).await?;
                });
                let kept: Vec<u8> =
                    on!(session, connection => sqlx::query_scalar(KEPT).fetch_one(connection).await?);
                session.commit().await?;
                kept
            }
        };
        kept.as_slice().try_into().map_err(|_| StoreError::Corrupt {
            what: format!("a fingerprint key of {} bytes", kept.len()),
        })
    }
}
