//! API keys: made, found by their hash, rotated, revoked.
//!
//! Invariant: of a key its SHA-256 and its first letters are kept; a key that was revoked never works again.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use super::{
    Account, MAX_NAME, Over, Role, SecretHash, account_of, hold_account, hold_admins, hold_enabled,
    local_account, not_enabled, note,
};
use crate::audit::{self, Action, NewLine, SHELL};
use crate::session::{Session, on};
use crate::signals::Network;
use crate::text::{indexed, restored, restored_option, stored};
use crate::{Store, StoreError};

/// Seconds that a key still works after it was rotated.
const OVERLAP: i64 = 24 * 3_600;
/// Seconds of a day.
const DAY: i64 = 86_400;
/// Keys of one account that work at once.
const MAX_KEYS: i64 = 500;
/// Keys of one account that ended and are listed, however many work.
const ENDED_KEYS: i64 = 100;
/// Seconds after its end that a key is still listed.
pub(super) const REMEMBERED: i64 = 366 * 86_400;
/// Bytes of what is shown of a key.
const MAX_SHOWN: usize = 32;

/// A code that a key was given for still leads to it.
pub(super) const OVER: Over = (
    "api_key",
    "id",
    "(revoked_at <= $1 OR expires_at <= $1) AND NOT EXISTS (SELECT 1 FROM login_code c WHERE c.key_id = api_key.id)",
);

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Reading a members-only index.
    Read,
    /// Sending signals.
    Ingest,
    /// Deciding about tools; the account's role must allow it too.
    Approve,
    /// What an admin may do; the account's role must allow it too.
    Admin,
}

impl Scope {
    /// All of them, in the order in which they are written.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Ingest, Scope::Approve, Scope::Admin];

    /// `read`, `ingest`, `approve` or `admin`.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Ingest => "ingest",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }

    /// The scope of this name.
    pub fn from_name(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A set of scopes, written `read ingest`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u8);

/// A word that names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no scope: expected {}", .0.escape_debug(), Scopes::of(&Scope::ALL))]
pub struct UnknownScope(pub String);

impl Scopes {
    /// The set of these.
    pub fn of(scopes: &[Scope]) -> Scopes {
        Scopes(scopes.iter().fold(0, |bits, scope| bits | Scopes::bit(*scope)))
    }

    /// Whether this one is in it.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & Scopes::bit(scope) != 0
    }

    /// Whether all of these are in that set too.
    pub fn is_within(self, other: Scopes) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether there is none in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in it, in the order in which they are written.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }

    fn bit(scope: Scope) -> u8 {
        match scope {
            Scope::Read => 1,
            Scope::Ingest => 2,
            Scope::Admin => 4,
            Scope::Approve => 8,
        }
    }
}

impl fmt::Display for Scopes {
    /// Names separated by spaces; nothing for the empty set.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Scope::name).collect();
        formatter.write_str(&names.join(" "))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Scopes({self})")
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    /// Names separated by spaces, in any order.
    fn from_str(text: &str) -> Result<Scopes, UnknownScope> {
        let mut scopes = Vec::new();
        for name in text.split_ascii_whitespace() {
            scopes.push(Scope::from_name(name).ok_or_else(|| UnknownScope(name.to_owned()))?);
        }
        Ok(Scopes::of(&scopes))
    }
}

/// A key to add.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose it is.
    pub account: i64,
    /// SHA-256 of the whole key.
    pub hash: SecretHash,
    /// Its first letters: `mcpk_AbCd…`.
    pub shown: String,
    /// What it is called.
    pub name: String,
    /// What it may be used for.
    pub scopes: Scopes,
    /// When it ends; `None`: never by itself.
    pub expires_at: Option<i64>,
    /// Where it was asked for.
    pub network: Option<Network>,
    /// The id of the key that asks for it, if one does.
    pub made_by: Option<String>,
}

/// A key to add whose account and name a code or a device request tells.
#[derive(Debug, Clone)]
pub struct KeyMaterial {
    /// SHA-256 of the whole key.
    pub hash: SecretHash,
    /// Its first letters: `mcpk_AbCd…`.
    pub shown: String,
    /// What it may be used for.
    pub scopes: Scopes,
    /// When it ends; `None`: never by itself.
    pub expires_at: Option<i64>,
    /// Where it was asked for.
    pub network: Option<Network>,
}

impl KeyMaterial {
    /// The key of this account and name.
    pub fn for_account(&self, account: i64, name: String) -> NewKey {
        NewKey {
            account,
            hash: self.hash,
            shown: self.shown.clone(),
            name,
            scopes: self.scopes,
            expires_at: self.expires_at,
            network: self.network.clone(),
            made_by: None,
        }
    }
}

/// A key to put in the place of another.
#[derive(Debug, Clone)]
pub struct Successor {
    /// SHA-256 of the whole key.
    pub hash: SecretHash,
    /// Its first letters: `mcpk_AbCd…`.
    pub shown: String,
    /// Where it was asked for.
    pub network: Option<Network>,
    /// When it ends at the latest, however long the other was to live: the end of the key that asked for it. `None`: no key
    /// asked, or one without an end.
    pub ends_by: Option<i64>,
    /// The id of the key that asks for it, if one does.
    pub made_by: Option<String>,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// `key_` and 16 hexadecimal digits; public.
    pub id: String,
    /// Whose it is.
    pub account: i64,
    /// What they are called.
    pub login: String,
    /// Its first letters: `mcpk_AbCd…`.
    pub shown: String,
    /// What it is called.
    pub name: String,
    /// What it may be used for.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: i64,
    /// Where it was asked for.
    pub created_from: Option<Network>,
    /// When it ends; `None`: never by itself.
    pub expires_at: Option<i64>,
    /// The day it was last used, in days since 1970-01-01.
    pub last_used_on: Option<i64>,
    /// Where it was last used.
    pub last_used_from: Option<Network>,
    /// When it was revoked.
    pub revoked_at: Option<i64>,
    /// The key that a rotation put in its place.
    pub replaced_by: Option<String>,
    /// The id of the key that it was made or rotated with, if one did.
    pub made_by: Option<String>,
}

impl KeyRecord {
    /// Whether it works at this time, as far as the key itself tells: its account may be disabled.
    pub fn works(&self, now: i64) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

type KeyRow = (
    String,
    i64,
    String,
    String,
    String,
    String,
    i64,
    Option<Vec<u8>>,
    Option<i64>,
    Option<i64>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<String>,
    Option<String>,
);

macro_rules! key {
    ($rest:literal) => {
        concat!(
            "SELECT k.id, k.account, a.login, k.shown, k.name, k.scopes, k.created_at, k.created_from, k.expires_at,
                 k.last_used_on, k.last_used_from, k.revoked_at, k.replaced_by, k.made_by
             FROM api_key k JOIN account a ON a.id = k.account ",
            $rest
        )
    };
}

fn key_from_row(row: KeyRow) -> Result<KeyRecord, StoreError> {
    let network = |bytes: Option<Vec<u8>>| bytes.map(Network::from_bytes).transpose();
    Ok(KeyRecord {
        id: row.0,
        account: row.1,
        login: restored(row.2)?,
        shown: restored(row.3)?,
        name: restored(row.4)?,
        scopes: row.5.parse().map_err(|error: UnknownScope| StoreError::Corrupt {
            what: format!("scopes: {error}"),
        })?,
        created_at: row.6,
        created_from: network(row.7)?,
        expires_at: row.8,
        last_used_on: row.9,
        last_used_from: network(row.10)?,
        revoked_at: row.11,
        replaced_by: restored_option(row.12)?,
        made_by: row.13,
    })
}

impl Store {
    /// Adds a key.
    ///
    /// [`StoreError::Refused`]: the account is disabled or unknown, has 500 keys that work, a text is longer than is kept, or the
    /// key that asks works no more or has a successor.
    pub async fn add_key(&self, key: &NewKey, now: i64) -> Result<KeyRecord, StoreError> {
        let mut session = self.write().await?;
        let Some(account) = hold_enabled(&mut session, key.account).await? else {
            return Err(not_enabled(key.account));
        };
        let record = make_key(&mut session, key, &account, now).await?;
        session.commit().await?;
        Ok(record)
    }

    /// Adds a key of the account of this login that was made on the server's shell, which is made now if there is none, and is an
    /// admin or an approver from now on where the key allows what those may. All of it is done, or nothing.
    ///
    /// [`StoreError::Refused`]: as [`Store::add_key`].
    pub async fn add_local_key(
        &self,
        login: &str,
        name: &str,
        material: &KeyMaterial,
        now: i64,
    ) -> Result<(KeyRecord, Account), StoreError> {
        let mut session = self.write().await?;
        let is_admin = material.scopes.contains(Scope::Admin);
        if is_admin {
            hold_admins(&mut session).await?;
        }
        let id = local_account(&mut session, login, now).await?.id;
        let Some(mut account) = hold_enabled(&mut session, id).await? else {
            return Err(not_enabled(id));
        };
        let needed = match material.scopes {
            scopes if scopes.contains(Scope::Admin) => Role::Admin,
            scopes if scopes.contains(Scope::Approve) && account.role == Role::Member => Role::Approver,
            _ => account.role,
        };
        if needed != account.role {
            on!(session, connection => {
                sqlx::query("UPDATE account SET role = $2 WHERE id = $1")
                    .bind(id).bind(needed.name()).execute(connection).await?;
            });
            let detail = format!("{}, {} before", needed.name(), account.role.name());
            let who = account.who();
            note(&mut session, SHELL, Action::RoleGiven, &who, Some(&detail), now).await?;
            account.role = needed;
        }
        let key = material.for_account(id, name.to_owned());
        let record = make_key(&mut session, &key, &account, now).await?;
        session.commit().await?;
        Ok((record, account))
    }

    /// The keys of an account, or all of them; those that were not revoked first, the newest first.
    pub async fn keys(&self, account: Option<i64>) -> Result<Vec<KeyRecord>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<KeyRow> = on!(session, connection => {
            sqlx::query_as(key!(
                "WHERE k.account = $1 OR $1 IS NULL
                 ORDER BY k.revoked_at IS NOT NULL, k.created_at DESC, k.id"
            ))
            .bind(account).fetch_all(connection).await?
        });
        rows.into_iter().map(key_from_row).collect()
    }

    /// An account's keys that work, and the latest hundred at least of those that ended; the newest of each first.
    pub async fn keys_of(&self, account: i64, now: i64) -> Result<Vec<KeyRecord>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<KeyRow> = on!(session, connection => {
            sqlx::query_as(key!(
                "WHERE k.account = $1
                 ORDER BY (k.revoked_at IS NOT NULL OR COALESCE(k.expires_at <= $2, FALSE)), k.created_at DESC, k.id
                 LIMIT $3"
            ))
            .bind(account).bind(now).bind(MAX_KEYS + ENDED_KEYS).fetch_all(connection).await?
        });
        rows.into_iter().map(key_from_row).collect()
    }

    /// The key of this id, of this account.
    pub async fn key(&self, id: &str, account: i64) -> Result<Option<KeyRecord>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<KeyRow> = on!(session, connection => {
            sqlx::query_as(key!("WHERE k.id = $1 AND k.account = $2"))
                .bind(stored(id)).bind(account).fetch_optional(connection).await?
        });
        row.map(key_from_row).transpose()
    }

    /// The key of this hash and its account, whatever their state: see [`KeyRecord::works`] and [`Account::disabled_at`].
    pub async fn key_of(&self, hash: SecretHash) -> Result<Option<(KeyRecord, Account)>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<KeyRow> = on!(session, connection => {
            sqlx::query_as(key!("WHERE k.hash = $1")).bind(hash.bytes()).fetch_optional(connection).await?
        });
        let Some(row) = row else { return Ok(None) };
        let key = key_from_row(row)?;
        let account = account_of(&mut session, key.account).await?;
        Ok(account.map(|account| (key, account)))
    }

    /// Revokes a key, of this account if one is given. False: there is no such key. One that was revoked before stays so.
    pub async fn revoke_key(&self, id: &str, of_account: Option<i64>, now: i64) -> Result<bool, StoreError> {
        self.end_key(id, of_account, false, None, now).await
    }

    /// [`Store::revoke_key`], and all that was made with it, and with that again: for a key that somebody else may have had.
    pub async fn revoke_key_and_made(
        &self,
        id: &str,
        of_account: Option<i64>,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.end_key(id, of_account, true, None, now).await
    }

    /// Revokes the key of this hash and all that was made with it: who has a key may end it. One that is over ends nothing
    /// else: it may lie about for years. False: there is no such key.
    pub async fn revoke_key_by_hash(&self, hash: SecretHash, now: i64) -> Result<bool, StoreError> {
        let Some((key, _)) = self.key_of(hash).await? else {
            return Ok(false);
        };
        let why = Some("by who had the key");
        self.end_key(&key.id, Some(key.account), key.works(now), why, now)
            .await
    }

    /// Ends a key, and with it what was made with it if wanted. The audit log names the account where one is given, and the
    /// shell where none is.
    async fn end_key(
        &self,
        id: &str,
        of_account: Option<i64>,
        with_made: bool,
        why: Option<&str>,
        now: i64,
    ) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let account: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT account FROM api_key WHERE id = $1 AND (account = $2 OR $2 IS NULL)")
                .bind(stored(id)).bind(of_account).fetch_optional(connection).await?
        });
        let Some(account) = account else { return Ok(false) };
        let account = hold_account(&mut session, account).await?;
        let subject = match (of_account, account) {
            (Some(_), Some(account)) => account.who(),
            _ => SHELL.to_owned(),
        };
        if with_made {
            revoke_with_made(&mut session, id, &subject, why, now).await?;
        } else {
            on!(session, connection => {
                sqlx::query("UPDATE api_key SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1")
                    .bind(stored(id)).bind(now).execute(connection).await?;
            });
            note(&mut session, &subject, Action::KeyRevoked, id, why, now).await?;
        }
        session.commit().await?;
        Ok(true)
    }

    /// Puts a new key in the place of one that works: same account, name and scopes, and as long a life unless
    /// [`Successor::ends_by`] is sooner. The old one works for another 24 hours, or until its own end if that is sooner. `None`:
    /// no key of this id (and account) works, or it was rotated before.
    ///
    /// [`StoreError::Refused`]: the account has 500 keys that work, or the key that asks works no more or has a successor.
    pub async fn rotate_key(
        &self,
        id: &str,
        of_account: Option<i64>,
        successor: &Successor,
        now: i64,
    ) -> Result<Option<KeyRecord>, StoreError> {
        let mut session = self.write().await?;
        let owner: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT account FROM api_key WHERE id = $1 AND (account = $2 OR $2 IS NULL)")
                .bind(stored(id)).bind(of_account).fetch_optional(connection).await?
        });
        let account = match owner {
            Some(owner) => hold_enabled(&mut session, owner).await?,
            None => None,
        };
        let Some(account) = account else { return Ok(None) };
        let row: Option<KeyRow> = on!(session, connection => {
            sqlx::query_as(key!("WHERE k.id = $1")).bind(stored(id)).fetch_optional(connection).await?
        });
        let Some(old) = row.map(key_from_row).transpose()? else {
            return Ok(None);
        };
        let ends_at = now.saturating_add(OVERLAP);
        let as_long = old
            .expires_at
            .map(|expires_at| now.saturating_add(expires_at - old.created_at));
        let new = NewKey {
            account: account.id,
            hash: successor.hash,
            shown: successor.shown.clone(),
            name: old.name,
            scopes: old.scopes,
            expires_at: as_long.into_iter().chain(successor.ends_by).min(),
            network: successor.network.clone(),
            made_by: successor.made_by.clone(),
        };
        let record = insert_key(&mut session, &new, &account, now).await?;
        // Judged here and not before, since the key may have been revoked in between.
        let rotated = on!(session, connection => {
            sqlx::query(
                "UPDATE api_key SET replaced_by = $2,
                     expires_at = CASE WHEN expires_at < $3 THEN expires_at ELSE $3 END
                 WHERE id = $1 AND revoked_at IS NULL AND replaced_by IS NULL AND (expires_at IS NULL OR expires_at > $4)",
            )
            .bind(stored(id)).bind(&record.id).bind(ends_at).bind(now).execute(connection).await?.rows_affected()
        });
        if rotated != 1 {
            return Ok(None);
        }
        let subject = of_account.map_or_else(|| SHELL.to_owned(), |_| account.who());
        let detail = format!("now {}", record.id);
        note(&mut session, &subject, Action::KeyRotated, id, Some(&detail), now).await?;
        session.commit().await?;
        Ok(Some(record))
    }

    /// Notes the day and the network of a key's use, and that use in the audit log, once for each day and network.
    pub async fn note_key_used(
        &self,
        id: &str,
        network: Option<&Network>,
        now: i64,
    ) -> Result<(), StoreError> {
        let day = now.div_euclid(DAY);
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query(
                "UPDATE api_key SET last_used_on = $2, last_used_from = $3
                 WHERE id = $1 AND (last_used_on IS NULL OR last_used_on <= $2)",
            )
            .bind(stored(id)).bind(day).bind(network.map(Network::bytes)).execute(connection).await?;
        });
        let account: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT account FROM api_key WHERE id = $1")
                .bind(stored(id)).fetch_optional(connection).await?
        });
        if let Some(account) = account {
            let subject = who(&mut session, account).await?;
            let from = network.map(Network::shown);
            let once = format!("key-used {id} {day} {}", from.as_deref().unwrap_or_default());
            let line = NewLine {
                subject: &subject,
                action: Action::KeyUsed,
                object: id,
                detail: from.as_deref(),
            };
            audit::note_once(&mut session, &line, &once, now).await?;
        }
        session.commit().await
    }
}

/// Whose a key is, in words.
async fn who(session: &mut Session, account: i64) -> Result<String, StoreError> {
    let account = account_of(session, account).await?;
    Ok(account.map(|account| account.who()).unwrap_or_default())
}

/// [`insert_key`] for one that takes no other's place, which the audit log is told of.
pub(super) async fn make_key(
    session: &mut Session,
    key: &NewKey,
    account: &Account,
    now: i64,
) -> Result<KeyRecord, StoreError> {
    let record = insert_key(session, key, account, now).await?;
    let detail = format!("{} ({})", record.name, record.scopes);
    note(
        session,
        &account.who(),
        Action::KeyMade,
        &record.id,
        Some(&detail),
        now,
    )
    .await?;
    Ok(record)
}

/// Writes a key of an account that is held.
async fn insert_key(
    session: &mut Session,
    key: &NewKey,
    account: &Account,
    now: i64,
) -> Result<KeyRecord, StoreError> {
    let shown = indexed("start of the key", &key.shown, MAX_SHOWN)?;
    let name = indexed("name of the key", &key.name, MAX_NAME)?;
    let working: i64 = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT COUNT(*) FROM api_key
             WHERE account = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)",
        )
        .bind(key.account).bind(now).fetch_one(connection).await?
    });
    if working >= MAX_KEYS {
        return Err(StoreError::Refused {
            what: format!(
                "account {} has {working} keys that work, revoke some first",
                key.account
            ),
        });
    }
    if let Some(made_by) = &key.made_by {
        // Judged here and not before, since it may have been revoked in between, with all that was made with it until then.
        let may: Option<i64> = on!(*session, connection => {
            sqlx::query_scalar(
                "SELECT account FROM api_key WHERE id = $1 AND account = $2 AND replaced_by IS NULL
                 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)",
            )
            .bind(stored(made_by)).bind(key.account).bind(now).fetch_optional(connection).await?
        });
        if may.is_none() {
            return Err(StoreError::Refused {
                what: "the key that asks works no more, or another has taken its place".to_owned(),
            });
        }
    }
    let id = format!("key_{}", key.hash.short_id());
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO api_key (id, account, hash, shown, name, scopes, created_at, created_from, expires_at, made_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(&id).bind(key.account).bind(key.hash.bytes()).bind(&*shown).bind(&*name)
        .bind(key.scopes.to_string()).bind(now).bind(key.network.as_ref().map(Network::bytes))
        .bind(key.expires_at).bind(key.made_by.as_deref()).execute(connection).await?;
    });
    Ok(KeyRecord {
        id,
        account: key.account,
        login: account.login.clone(),
        shown: key.shown.clone(),
        name: key.name.clone(),
        scopes: key.scopes,
        created_at: now,
        created_from: key.network.clone(),
        expires_at: key.expires_at,
        last_used_on: None,
        last_used_from: None,
        revoked_at: None,
        replaced_by: None,
        made_by: key.made_by.clone(),
    })
}

/// Revokes a key of an account that is held, what it was rotated to and what was made with it, and that again.
pub(super) async fn revoke_with_made(
    session: &mut Session,
    id: &str,
    subject: &str,
    why: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    let mut waiting = vec![id.to_owned()];
    let mut done = HashSet::new();
    while let Some(id) = waiting.pop() {
        if !done.insert(id.clone()) {
            continue;
        }
        note(session, subject, Action::KeyRevoked, &id, why, now).await?;
        // Waits for a rotation that is under way, and then knows its key.
        let replaced_by = on!(*session, connection => {
            sqlx::query_scalar::<_, Option<String>>(
                "UPDATE api_key SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1 RETURNING replaced_by",
            )
            .bind(stored(&id)).bind(now).fetch_optional(connection).await?
        });
        waiting.extend(replaced_by.flatten());
        let made: Vec<String> = on!(*session, connection => {
            sqlx::query_scalar("SELECT id FROM api_key WHERE made_by = $1")
                .bind(stored(&id)).fetch_all(connection).await?
        });
        waiting.extend(made);
    }
    Ok(())
}
