//! Install tokens: who holds one proves to be that install.
//!
//! Invariant: what is kept of a token is its SHA-256, and a token is compared by that alone.

use std::collections::BTreeSet;

use mcpindex_contract::signal::InstallId;

use super::sixteen;
use crate::accounts::SecretHash;
use crate::session::on;
use crate::{Store, StoreError};

/// What came of registering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// The new token counts from now on, and no other one.
    Done,
    /// The install has a token, and the sender did not show it.
    Taken,
}

impl Store {
    /// Gives an install its first token, or a new one in the place of `current`.
    pub async fn register_install(
        &self,
        install: InstallId,
        token: SecretHash,
        current: Option<SecretHash>,
        now: i64,
    ) -> Result<Registration, StoreError> {
        let current = current
            .map(|current| current.bytes().to_vec())
            .unwrap_or_default();
        let mut session = self.write().await?;
        let written = on!(session, connection => {
            sqlx::query(
                "INSERT INTO install_token (install, token_hash, created_at) VALUES ($1, $2, $3)
                 ON CONFLICT (install) DO UPDATE SET token_hash = excluded.token_hash, created_at = excluded.created_at
                 WHERE install_token.token_hash = $4",
            )
            .bind(install.as_bytes().as_slice()).bind(token.bytes()).bind(now).bind(current)
            .execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(if written == 1 {
            Registration::Done
        } else {
            Registration::Taken
        })
    }

    /// Takes an install's token back; false when it is not this one.
    pub async fn revoke_install(&self, install: InstallId, token: SecretHash) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let gone = on!(session, connection => {
            sqlx::query("DELETE FROM install_token WHERE install = $1 AND token_hash = $2")
                .bind(install.as_bytes().as_slice()).bind(token.bytes())
                .execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(gone == 1)
    }

    /// Those of these installs that this token belongs to.
    pub async fn installs_of_token(
        &self,
        installs: &BTreeSet<InstallId>,
        token: SecretHash,
    ) -> Result<BTreeSet<InstallId>, StoreError> {
        let mut session = self.read().await?;
        let mut proved = BTreeSet::new();
        for install in installs {
            let found: Option<Vec<u8>> = on!(session, connection => {
                sqlx::query_scalar("SELECT install FROM install_token WHERE install = $1 AND token_hash = $2")
                    .bind(install.as_bytes().as_slice()).bind(token.bytes())
                    .fetch_optional(connection).await?
            });
            if let Some(found) = found {
                proved.insert(InstallId::from_bytes(sixteen("install", &found)?));
            }
        }
        Ok(proved)
    }
}
