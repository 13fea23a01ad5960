//! Sign-ins under way: a browser was sent to a provider and is not back yet.
//!
//! What binds the two halves (state, nonce, verifier) the server derives from the browser's cookie, so nothing of it is kept.
//!
//! Invariant: each is taken at most once, within ten minutes.

use super::{MAX_NAME, Over, SecretHash};
use crate::session::on;
use crate::text::{indexed, restored};
use crate::{Store, StoreError};

/// Seconds that people have at the provider.
const GOOD_FOR: i64 = 600;
/// Bytes of the address that they go on to afterwards.
const MAX_NEXT: usize = 4_000;

pub(super) const OVER: Over = ("sign_in", "hash", "expires_at <= $1");

impl Store {
    /// Begins a sign-in with this provider, after which the browser goes on to `next`. The cookie of the browser is the secret.
    ///
    /// [`StoreError::Refused`]: the provider's name or `next` is longer than is kept.
    pub async fn begin_sign_in(
        &self,
        cookie: SecretHash,
        provider: &str,
        next: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let provider = indexed("provider", provider, MAX_NAME)?;
        let next = indexed("address to go on to", next, MAX_NEXT)?;
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query("INSERT INTO sign_in (hash, provider, next, expires_at) VALUES ($1, $2, $3, $4)")
                .bind(cookie.bytes()).bind(&*provider).bind(&*next).bind(now.saturating_add(GOOD_FOR))
                .execute(connection).await?;
        });
        session.commit().await
    }

    /// The provider and `next` of a sign-in under way, which is over with this; `None` when it was taken before, is over ten
    /// minutes old, or was never begun.
    pub async fn take_sign_in(
        &self,
        cookie: SecretHash,
        now: i64,
    ) -> Result<Option<(String, String)>, StoreError> {
        let mut session = self.write().await?;
        let taken: Option<(String, String, i64)> = on!(session, connection => {
            sqlx::query_as("DELETE FROM sign_in WHERE hash = $1 RETURNING provider, next, expires_at")
                .bind(cookie.bytes()).fetch_optional(connection).await?
        });
        session.commit().await?;
        taken
            .filter(|(.., expires_at)| *expires_at > now)
            .map(|(provider, next, _)| Ok((restored(provider)?, restored(next)?)))
            .transpose()
    }
}
