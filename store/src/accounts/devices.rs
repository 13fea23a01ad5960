//! The device grant (RFC 8628): a program without a browser shows a short code, a person enters it elsewhere and decides, and the
//! program asks until it knows.
//!
//! Invariant: a request gives at most one key, within ten minutes, and is decided at most once.

use super::keys::make_key;
use super::{KeyMaterial, KeyRecord, MAX_NAME, Over, SecretHash, hold_enabled};
use crate::session::on;
use crate::text::{indexed, restored};
use crate::{Store, StoreError};

/// Seconds from the request to its end.
const GOOD_FOR: i64 = 600;
/// Seconds between two polls, and what each poll before its time adds to them.
const INTERVAL: i64 = 5;
/// Seconds that a poll may come before its time: clocks here count whole ones.
const TOLERANCE: i64 = 1;
/// Bytes of a user code.
const MAX_USER_CODE: usize = 64;

pub(super) const OVER: Over = ("device_request", "hash", "expires_at <= $1");

/// A request that waits for somebody's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    /// What the key would be called: the name of the machine, as it says.
    pub key_name: String,
    /// Where the request came from, as it is shown.
    pub network_shown: String,
    /// When it was made.
    pub started_at: i64,
    /// When it is over.
    pub expires_at: i64,
}

/// What a program that asks is told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one lives at a time, and no caller should have to unbox it"
)]
pub enum Polled {
    /// Nobody has decided yet.
    Pending,
    /// Nobody has decided yet, and it must wait five seconds longer between two polls from now on.
    SlowDown,
    /// Somebody refused, or may no longer allow it.
    Denied,
    /// It is over, has given its key already, or never was.
    Expired,
    /// A new key.
    Key(KeyRecord),
}

type DeviceRow = (String, i64, i64, i64, Option<i64>, Option<bool>);

impl Store {
    /// Makes a request, under the user code as the caller writes all of them. False: that user code is in use.
    ///
    /// [`StoreError::Refused`]: a text is longer than is kept.
    pub async fn begin_device(
        &self,
        device: SecretHash,
        user_code: &str,
        key_name: &str,
        network_shown: &str,
        now: i64,
    ) -> Result<bool, StoreError> {
        let user_code = indexed("user code", user_code, MAX_USER_CODE)?;
        let key_name = indexed("name of the key", key_name, MAX_NAME)?;
        let network_shown = indexed("network", network_shown, MAX_NAME)?;
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query("DELETE FROM device_request WHERE user_code = $1 AND expires_at <= $2")
                .bind(&*user_code).bind(now).execute(connection).await?;
        });
        let made = on!(session, connection => {
            sqlx::query(
                "INSERT INTO device_request
                     (hash, user_code, key_name, network_shown, started_at, expires_at, poll_interval, next_poll_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $5) ON CONFLICT DO NOTHING",
            )
            .bind(device.bytes()).bind(&*user_code).bind(&*key_name).bind(&*network_shown).bind(now)
            .bind(now.saturating_add(GOOD_FOR)).bind(INTERVAL).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(made == 1)
    }

    /// The request under this user code that waits for a decision.
    pub async fn device(&self, user_code: &str, now: i64) -> Result<Option<DeviceRequest>, StoreError> {
        let Ok(user_code) = indexed("user code", user_code, MAX_USER_CODE) else {
            return Ok(None);
        };
        let mut session = self.read().await?;
        let row: Option<(String, String, i64, i64)> = on!(session, connection => {
            sqlx::query_as(
                "SELECT key_name, network_shown, started_at, expires_at FROM device_request
                 WHERE user_code = $1 AND expires_at > $2 AND allowed IS NULL",
            )
            .bind(&*user_code).bind(now).fetch_optional(connection).await?
        });
        row.map(|(key_name, network_shown, started_at, expires_at)| {
            Ok(DeviceRequest {
                key_name: restored(key_name)?,
                network_shown: restored(network_shown)?,
                started_at,
                expires_at,
            })
        })
        .transpose()
    }

    /// Decides on the request under this user code, in the name of this account. False: none waits for a decision.
    pub async fn decide_device(
        &self,
        user_code: &str,
        account: i64,
        allow: bool,
        now: i64,
    ) -> Result<bool, StoreError> {
        let Ok(user_code) = indexed("user code", user_code, MAX_USER_CODE) else {
            return Ok(false);
        };
        let mut session = self.write().await?;
        let decided = on!(session, connection => {
            sqlx::query(
                "UPDATE device_request SET account = $2, allowed = $3
                 WHERE user_code = $1 AND expires_at > $4 AND allowed IS NULL",
            )
            .bind(&*user_code).bind(account).bind(allow).bind(now).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(decided == 1)
    }

    /// What became of a request: once it is allowed, a key made of this material, which is given once.
    ///
    /// [`StoreError::Refused`]: the account has as many keys as it may; the request stays as it is.
    pub async fn poll_device(
        &self,
        device: SecretHash,
        material: &KeyMaterial,
        now: i64,
    ) -> Result<Polled, StoreError> {
        const REQUEST: &str = "SELECT key_name, expires_at, poll_interval, next_poll_at, account, allowed
             FROM device_request WHERE hash = $1";
        const AND_HOLD: &str = "SELECT key_name, expires_at, poll_interval, next_poll_at, account, allowed
             FROM device_request WHERE hash = $1 FOR UPDATE";
        let mut session = self.write().await?;
        // SQLite has one writer at a time.
        let statement = if session.is_postgres() { AND_HOLD } else { REQUEST };
        let row: Option<DeviceRow> = on!(session, connection => {
            sqlx::query_as(statement).bind(device.bytes()).fetch_optional(connection).await?
        });
        let Some((name, expires_at, interval, next_poll_at, account, allowed)) = row else {
            return Ok(Polled::Expired);
        };
        if expires_at <= now {
            return Ok(Polled::Expired);
        }
        let account = match (allowed, account) {
            (Some(true), Some(account)) => account,
            (None, _) => {
                let too_early = now < next_poll_at - TOLERANCE;
                let interval = if too_early { interval + INTERVAL } else { interval };
                on!(session, connection => {
                    sqlx::query("UPDATE device_request SET poll_interval = $2, next_poll_at = $3 WHERE hash = $1")
                        .bind(device.bytes()).bind(interval).bind(now.saturating_add(interval))
                        .execute(connection).await?;
                });
                session.commit().await?;
                return Ok(if too_early {
                    Polled::SlowDown
                } else {
                    Polled::Pending
                });
            }
            _ => return Ok(Polled::Denied),
        };
        let Some(account) = hold_enabled(&mut session, account).await? else {
            return Ok(Polled::Denied);
        };
        let key = material.for_account(account.id, restored(name)?);
        let record = make_key(&mut session, &key, &account, now).await?;
        on!(session, connection => {
            sqlx::query("DELETE FROM device_request WHERE hash = $1")
                .bind(device.bytes()).execute(connection).await?;
        });
        session.commit().await?;
        Ok(Polled::Key(record))
    }
}
