//! One-time codes: how a program on somebody's desk gets a key through their browser.
//!
//! A code alone is worth nothing, since it is bound to a verifier that never left the program. Whoever brings one a second
//! time shows that two have it: the key it gave is revoked (RFC 6749 §4.1.2), and whatever that key was rotated to.
//!
//! Invariant: a code gives at most one key, within 60 seconds.

use super::keys::{make_key, revoke_line};
use super::{KeyMaterial, KeyRecord, MAX_NAME, Over, SecretHash, hold_account, hold_enabled};
use crate::session::on;
use crate::text::{indexed, restored};
use crate::{Store, StoreError};

/// Seconds between the browser's answer and the program's question.
const GOOD_FOR: i64 = 60;
/// Seconds after its end that a code's return is still noticed.
pub(super) const REMEMBERED: i64 = 86_400;
/// Bytes of a challenge; that of S256 has 43.
const MAX_CHALLENGE: usize = 128;

pub(super) const OVER: Over = ("login_code", "hash", "expires_at <= $1");

/// What came of bringing a code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, and no caller should have to unbox it"
)]
pub enum Redeemed {
    /// A new key.
    Key(KeyRecord),
    /// Not the verifier of the one that the code is for. The code is good no more.
    WrongVerifier,
    /// It was brought before.
    Spent {
        /// The key it gave, which is revoked now; `None` when it gave none.
        revoked: Option<String>,
    },
    /// There is no such code, it came too late, or its account was disabled meanwhile.
    Unknown,
}

impl Store {
    /// Makes a code good for 60 seconds. It will give a key of this account under this name.
    ///
    /// [`StoreError::Refused`]: a text is longer than is kept.
    pub async fn add_code(
        &self,
        code: SecretHash,
        account: i64,
        challenge: &str,
        key_name: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let challenge = indexed("challenge", challenge, MAX_CHALLENGE)?;
        let key_name = indexed("name of the key", key_name, MAX_NAME)?;
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query(
                "INSERT INTO login_code (hash, account, challenge, key_name, expires_at) VALUES ($1, $2, $3, $4, $5)",
            )
            .bind(code.bytes()).bind(account).bind(&*challenge).bind(&*key_name)
            .bind(now.saturating_add(GOOD_FOR)).execute(connection).await?;
        });
        session.commit().await
    }

    /// Gives the key that a code is for, made of this material. `challenge` is worked out from the verifier that came with the
    /// code.
    ///
    /// [`StoreError::Refused`]: the account has as many keys as it may; the code stays good.
    pub async fn redeem_code(
        &self,
        code: SecretHash,
        challenge: &str,
        material: &KeyMaterial,
        now: i64,
    ) -> Result<Redeemed, StoreError> {
        let mut session = self.write().await?;
        // One statement, so that one of those who come at once has it. The others wait here until its key is written.
        let won: Option<(i64, String, String)> = on!(session, connection => {
            sqlx::query_as(
                "UPDATE login_code SET used_at = $2 WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
                 RETURNING account, challenge, key_name",
            )
            .bind(code.bytes()).bind(now).fetch_optional(connection).await?
        });
        let Some((account, expected, name)) = won else {
            let spent: Option<(i64, Option<String>)> = on!(session, connection => {
                sqlx::query_as("SELECT account, key_id FROM login_code WHERE hash = $1 AND used_at IS NOT NULL")
                    .bind(code.bytes()).fetch_optional(connection).await?
            });
            let Some((account, key)) = spent else {
                return Ok(Redeemed::Unknown);
            };
            if let Some(key) = &key {
                let account = hold_account(&mut session, account).await?;
                let subject = account.map(|account| account.who()).unwrap_or_default();
                revoke_line(&mut session, key, &subject, now).await?;
            }
            session.commit().await?;
            return Ok(Redeemed::Spent { revoked: key });
        };
        if restored(expected)? != challenge {
            session.commit().await?;
            return Ok(Redeemed::WrongVerifier);
        }
        let Some(account) = hold_enabled(&mut session, account).await? else {
            session.commit().await?;
            return Ok(Redeemed::Unknown);
        };
        let key = material.for_account(account.id, restored(name)?);
        let record = make_key(&mut session, &key, &account, now).await?;
        on!(session, connection => {
            sqlx::query("UPDATE login_code SET key_id = $2 WHERE hash = $1")
                .bind(code.bytes()).bind(&record.id).execute(connection).await?;
        });
        session.commit().await?;
        Ok(Redeemed::Key(record))
    }
}
