//! Accounts and their roles, and how an index gets its first admin.
//!
//! An account is what one issuer calls one subject for good; its login and e-mail address are only shown. What proves to
//! be an account is below: `keys`, `sessions`, `feed_paths`, and what leads to them (`sign_ins`, `codes`, `devices`). All of it lies in the
//! database, so that two replicas behave as one.
//!
//! Invariant: a secret is kept as its SHA-256 and nothing else; a disabled account has no session and no key that works,
//! and gets none; once there is an enabled admin there always is one.

mod codes;
mod devices;
mod feed_paths;
mod keys;
mod organisation;
mod secret;
mod sessions;
mod sign_ins;

pub use codes::Redeemed;
pub use devices::{DeviceRequest, Polled};
pub use feed_paths::FeedPathRecord;
pub use keys::{KeyMaterial, KeyRecord, NewKey, Scope, Scopes, Successor, UnknownScope};
pub use secret::SecretHash;
pub use sessions::SessionRecord;

use sqlx::AssertSqlSafe;

use crate::audit::{self, Action, NewLine, SHELL};
use crate::session::{Session, on};
use crate::text::{indexed, restored, restored_option, stored};
use crate::{Store, StoreError};

/// Bytes of an issuer and of a subject: both take part in one index.
const MAX_ISSUER: usize = 1_000;
const MAX_SUBJECT: usize = 1_000;
/// Bytes of a login and of an e-mail address.
const MAX_LOGIN: usize = 500;
/// Bytes of the names that keys, devices and providers are shown by.
const MAX_NAME: usize = 300;
/// The issuer of accounts that were made on the server's shell.
pub const LOCAL: &str = "local";
/// Seconds that a set-up code is good for.
const SETUP_CODE: i64 = 24 * 3_600;
/// Whoever changes who is an admin does so one after the other.
const ADMINS_LOCK: i64 = 0x6d63_7069_6164_6d73;

/// Which rows are over: table, key, and the condition on a time.
type Over = (&'static str, &'static str, &'static str);
const SETUP_CODE_OVER: Over = ("setup_code", "hash", "expires_at <= $1");

/// What an account may do. A later one may all that an earlier one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads, and has keys of its own.
    Member,
    /// Approves definitions for everybody.
    Approver,
    /// Changes who may do what.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Role; 3] = [Role::Member, Role::Approver, Role::Admin];

    /// `member`, `approver` or `admin`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Member => "member",
            Role::Approver => "approver",
            Role::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Somebody who may use this index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The row's number.
    pub id: i64,
    /// Who says who this is: a provider's issuer, or `local` for an account made on the server's shell.
    pub issuer: String,
    /// What the issuer calls them for good.
    pub subject: String,
    /// What they are called here, for people.
    pub login: String,
    /// Their e-mail address, when the issuer tells it.
    pub email: Option<String>,
    /// What they may do.
    pub role: Role,
    /// When it was made.
    pub created_at: i64,
    /// When they last signed in; `None` when never.
    pub signed_in_at: Option<i64>,
    /// Since when they may do nothing; `None` when they may.
    pub disabled_at: Option<i64>,
}

impl Account {
    /// Who this is in records that outlast the account: `login@issuer`, as they were called then.
    pub fn who(&self) -> String {
        format!("{}@{}", self.login, self.issuer)
    }
}

/// Who signed in, as the provider tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    /// The provider's issuer.
    pub issuer: String,
    /// What it calls them for good.
    pub subject: String,
    /// What it calls them now.
    pub login: String,
    /// Their e-mail address, if it tells one.
    pub email: Option<String>,
}

/// What came of changing a role, or of disabling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleChange {
    /// It is so now.
    Done,
    /// Refused: nobody else is an admin.
    LastAdmin,
    /// No such account.
    Unknown,
}

type AccountRow = (
    i64,
    String,
    String,
    String,
    Option<String>,
    String,
    i64,
    Option<i64>,
    Option<i64>,
);

macro_rules! account {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " id, issuer, subject, login, email, role, created_at, signed_in_at, disabled_at ",
            $after
        )
    };
}

fn account_from_row(row: AccountRow) -> Result<Account, StoreError> {
    let role = Role::from_name(&row.5).ok_or_else(|| StoreError::Corrupt {
        what: format!("a role `{}`", row.5.escape_debug()),
    })?;
    Ok(Account {
        id: row.0,
        issuer: restored(row.1)?,
        subject: restored(row.2)?,
        login: restored(row.3)?,
        email: restored_option(row.4)?,
        role,
        created_at: row.6,
        signed_in_at: row.7,
        disabled_at: row.8,
    })
}

impl Store {
    /// Makes the account on its first sign-in, as a member, and updates its login and e-mail address on every later one. A
    /// disabled account comes back as it is, with `disabled_at`.
    ///
    /// [`StoreError::Refused`]: one of the texts is longer than is kept, or the issuer is `local`.
    pub async fn sign_in(&self, sign_in: &SignIn, now: i64) -> Result<Account, StoreError> {
        if sign_in.issuer == LOCAL {
            return Err(StoreError::Refused {
                what: format!(
                    "no provider is the issuer `{LOCAL}`: its accounts are made on the server's shell"
                ),
            });
        }
        let issuer = indexed("issuer", &sign_in.issuer, MAX_ISSUER)?;
        let subject = indexed("subject", &sign_in.subject, MAX_SUBJECT)?;
        let login = indexed("login", &sign_in.login, MAX_LOGIN)?;
        let email = sign_in.email.as_deref();
        let email = email
            .map(|email| indexed("e-mail address", email, MAX_LOGIN))
            .transpose()?;
        let mut session = self.write().await?;
        let written: Option<AccountRow> = on!(session, connection => {
            sqlx::query_as(account!(
                "INSERT INTO account (issuer, subject, login, email, role, created_at, signed_in_at)
                 VALUES ($1, $2, $3, $4, 'member', $5, $5)
                 ON CONFLICT (issuer, subject) DO UPDATE SET
                     login = excluded.login, email = excluded.email, signed_in_at = excluded.signed_in_at
                 WHERE account.disabled_at IS NULL
                 RETURNING",
                ""
            ))
            .bind(&*issuer).bind(&*subject).bind(&*login).bind(email.as_deref()).bind(now)
            .fetch_optional(connection).await?
        });
        let account = match written {
            Some(row) => {
                let account = account_from_row(row)?;
                let who = account.who();
                note(&mut session, &who, Action::SignedIn, &who, None, now).await?;
                account
            }
            None => account_from_row(on!(session, connection => {
                sqlx::query_as(account!("SELECT", "FROM account WHERE issuer = $1 AND subject = $2"))
                    .bind(&*issuer).bind(&*subject).fetch_one(connection).await?
            }))?,
        };
        session.commit().await?;
        Ok(account)
    }

    /// The account of this login that was made on the server's shell; made now if there is none. Nobody can sign in to it.
    pub async fn local_account(&self, login: &str, now: i64) -> Result<Account, StoreError> {
        let mut session = self.write().await?;
        let account = local_account(&mut session, login, now).await?;
        session.commit().await?;
        Ok(account)
    }

    /// The account of this number.
    pub async fn account(&self, id: i64) -> Result<Option<Account>, StoreError> {
        let mut session = self.read().await?;
        account_of(&mut session, id).await
    }

    /// The accounts that somebody means, in the order of their numbers: a number is the account's own and nothing else; what
    /// has an `@` in it is an e-mail address that a provider verified; `login:NAME` is whoever is called so, which people may
    /// choose for themselves at their provider; anything else is the name of an account that was made on the server's shell.
    /// More than one is no rarity: two providers may know the same login.
    pub async fn find_accounts(&self, reference: &str) -> Result<Vec<Account>, StoreError> {
        let (condition, folded) = match reference.split_once("login:") {
            Some(("", login)) => (
                account!("SELECT", "FROM account WHERE lower(login) = $1 ORDER BY id"),
                login,
            ),
            _ if reference.contains('@') => (
                account!("SELECT", "FROM account WHERE lower(email) = $1 ORDER BY id"),
                reference,
            ),
            _ => match reference.parse() {
                Ok(id) => return Ok(self.account(id).await?.into_iter().collect()),
                Err(_) => (
                    account!(
                        "SELECT",
                        "FROM account WHERE issuer = 'local' AND lower(login) = $1 ORDER BY id"
                    ),
                    reference,
                ),
            },
        };
        let mut session = self.read().await?;
        let rows: Vec<AccountRow> = on!(session, connection => {
            sqlx::query_as(condition).bind(stored(&folded.to_ascii_lowercase())).fetch_all(connection).await?
        });
        rows.into_iter().map(account_from_row).collect()
    }

    /// At most `limit` accounts after this number, in the order of their numbers.
    pub async fn accounts(&self, after: Option<i64>, limit: i64) -> Result<Vec<Account>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<AccountRow> = on!(session, connection => {
            sqlx::query_as(account!("SELECT", "FROM account WHERE id > $1 ORDER BY id LIMIT $2"))
                .bind(after.unwrap_or(i64::MIN)).bind(limit.max(0)).fetch_all(connection).await?
        });
        rows.into_iter().map(account_from_row).collect()
    }

    /// Gives an account a role, at the server's shell. The last enabled admin keeps it.
    pub async fn set_role(&self, id: i64, role: Role, now: i64) -> Result<RoleChange, StoreError> {
        let mut session = self.write().await?;
        hold_admins(&mut session).await?;
        let Some(account) = account_of(&mut session, id).await? else {
            return Ok(RoleChange::Unknown);
        };
        if role != Role::Admin && is_last_admin(&mut session, &account).await? {
            return Ok(RoleChange::LastAdmin);
        }
        on!(session, connection => {
            sqlx::query("UPDATE account SET role = $2 WHERE id = $1")
                .bind(id).bind(role.name()).execute(connection).await?;
        });
        let detail = format!("{}, {} before", role.name(), account.role.name());
        let who = account.who();
        note(&mut session, SHELL, Action::RoleGiven, &who, Some(&detail), now).await?;
        session.commit().await?;
        Ok(RoleChange::Done)
    }

    /// Ends an account's sessions, revokes its keys, and lets it sign in no more, at the server's shell. The last enabled admin
    /// stays.
    pub async fn disable_account(&self, id: i64, now: i64) -> Result<RoleChange, StoreError> {
        let mut session = self.write().await?;
        hold_admins(&mut session).await?;
        let Some(account) = account_of(&mut session, id).await? else {
            return Ok(RoleChange::Unknown);
        };
        if is_last_admin(&mut session, &account).await? {
            return Ok(RoleChange::LastAdmin);
        }
        // First the account: whoever makes a session or key of it meanwhile holds it, and is waited for.
        on!(session, connection => {
            sqlx::query("UPDATE account SET disabled_at = COALESCE(disabled_at, $2) WHERE id = $1")
                .bind(id).bind(now).execute(connection).await?;
        });
        on!(session, connection => {
            sqlx::query("DELETE FROM browser_session WHERE account = $1").bind(id).execute(connection).await?;
        });
        on!(session, connection => {
            sqlx::query("UPDATE api_key SET revoked_at = $2 WHERE account = $1 AND revoked_at IS NULL")
                .bind(id).bind(now).execute(connection).await?;
        });
        note(
            &mut session,
            SHELL,
            Action::AccountDisabled,
            &account.who(),
            None,
            now,
        )
        .await?;
        session.commit().await?;
        Ok(RoleChange::Done)
    }

    /// Lets a disabled account sign in again, at the server's shell; its keys stay revoked. False: no such account.
    pub async fn enable_account(&self, id: i64, now: i64) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let Some(account) = hold_account(&mut session, id).await? else {
            return Ok(false);
        };
        on!(session, connection => {
            sqlx::query("UPDATE account SET disabled_at = NULL WHERE id = $1").bind(id).execute(connection).await?;
        });
        note(
            &mut session,
            SHELL,
            Action::AccountEnabled,
            &account.who(),
            None,
            now,
        )
        .await?;
        session.commit().await?;
        Ok(true)
    }

    /// Makes members of all accounts of this issuer; how many were more.
    pub async fn demote_all_of(&self, issuer: &str, now: i64) -> Result<usize, StoreError> {
        let mut session = self.write().await?;
        hold_admins(&mut session).await?;
        let demoted: Vec<AccountRow> = on!(session, connection => {
            sqlx::query_as(concat!(
                "UPDATE account SET role = 'member' WHERE issuer = $1 AND role <> 'member' RETURNING",
                account!("", "")
            ))
            .bind(stored(issuer)).fetch_all(connection).await?
        });
        let demoted: Vec<Account> = demoted
            .into_iter()
            .map(account_from_row)
            .collect::<Result<_, _>>()?;
        for account in &demoted {
            let detail = Some("member, as all of this issuer");
            note(
                &mut session,
                SHELL,
                Action::RoleGiven,
                &account.who(),
                detail,
                now,
            )
            .await?;
        }
        session.commit().await?;
        Ok(demoted.len())
    }

    /// The issuers of enabled accounts, and how many each has.
    pub async fn issuers(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<(String, i64)> = on!(session, connection => {
            sqlx::query_as(
                "SELECT issuer, COUNT(*) FROM account WHERE disabled_at IS NULL GROUP BY issuer ORDER BY issuer",
            )
            .fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|(issuer, count)| Ok((restored(issuer)?, count)))
            .collect()
    }

    /// Whether an enabled account is an admin.
    pub async fn has_admin(&self) -> Result<bool, StoreError> {
        let mut session = self.read().await?;
        other_admin(&mut session, None).await
    }

    /// Makes a set-up code good for 24 hours. Each replica has its own.
    pub async fn add_setup_code(&self, code: SecretHash, now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        on!(session, connection => {
            sqlx::query(
                "INSERT INTO setup_code (hash, expires_at) VALUES ($1, $2)
                 ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at",
            )
            .bind(code.bytes()).bind(now.saturating_add(SETUP_CODE)).execute(connection).await?;
        });
        session.commit().await
    }

    /// Makes this account an admin if there is none and the code is right; then no set-up code is good any more. A code that was
    /// refused stays as good as it was.
    pub async fn claim_admin(&self, account: i64, code: SecretHash, now: i64) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        hold_admins(&mut session).await?;
        if other_admin(&mut session, None).await? {
            return Ok(false);
        }
        let right = on!(session, connection => {
            sqlx::query("DELETE FROM setup_code WHERE hash = $1 AND expires_at > $2")
                .bind(code.bytes()).bind(now).execute(connection).await?.rows_affected()
        });
        let made = on!(session, connection => {
            sqlx::query("UPDATE account SET role = 'admin' WHERE id = $1 AND disabled_at IS NULL")
                .bind(account).execute(connection).await?.rows_affected()
        });
        if right != 1 || made != 1 {
            return Ok(false);
        }
        on!(session, connection => { sqlx::query("DELETE FROM setup_code").execute(connection).await?; });
        if let Some(account) = account_of(&mut session, account).await? {
            let who = account.who();
            note(
                &mut session,
                &who,
                Action::RoleGiven,
                &who,
                Some("admin, by a set-up code"),
                now,
            )
            .await?;
        }
        session.commit().await?;
        Ok(true)
    }

    /// Removes what is over: sign-ins, codes, devices, sessions, set-up codes, and keys that ended more than a year ago. Gives how
    /// many rows went.
    pub async fn sweep_accounts(&self, now: i64) -> Result<u64, StoreError> {
        let mut session = self.write().await?;
        let mut gone = 0;
        for (over, before) in [
            (SETUP_CODE_OVER, now),
            (sign_ins::OVER, now),
            (codes::OVER, now - codes::REMEMBERED),
            (devices::OVER, now),
            (sessions::IDLE_OVER, now - sessions::IDLE),
            (sessions::ABSOLUTE_OVER, now - sessions::ABSOLUTE),
            (keys::OVER, now - keys::REMEMBERED),
        ] {
            let (table, key, condition) = over;
            // What somebody is at now waits for the next time, and so nobody waits here.
            let locked = if session.is_postgres() {
                "FOR UPDATE SKIP LOCKED"
            } else {
                ""
            };
            // Texts of this crate alone are put in.
            let sweep = format!(
                "DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {table} WHERE {condition} {locked})"
            );
            gone += on!(session, connection => {
                sqlx::query(AssertSqlSafe(sweep)).bind(before).execute(connection).await?.rows_affected()
            });
        }
        session.commit().await?;
        Ok(gone)
    }
}

/// A line of the audit log, in the transaction of the act.
async fn note(
    session: &mut Session,
    subject: &str,
    action: Action,
    object: &str,
    detail: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    let line = NewLine {
        subject,
        action,
        object,
        detail,
    };
    audit::note(session, &line, now).await
}

/// [`Store::local_account`] within a transaction.
async fn local_account(session: &mut Session, login: &str, now: i64) -> Result<Account, StoreError> {
    let login = indexed("login", login, MAX_LOGIN)?;
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO account (issuer, subject, login, role, created_at) VALUES ($1, $2, $2, 'member', $3)
             ON CONFLICT (issuer, subject) DO NOTHING",
        )
        .bind(LOCAL).bind(&*login).bind(now).execute(connection).await?;
    });
    let row = on!(*session, connection => {
        sqlx::query_as(account!("SELECT", "FROM account WHERE issuer = $1 AND subject = $2"))
            .bind(LOCAL).bind(&*login).fetch_one(connection).await?
    });
    account_from_row(row)
}

async fn account_of(session: &mut Session, id: i64) -> Result<Option<Account>, StoreError> {
    let row: Option<AccountRow> = on!(*session, connection => {
        sqlx::query_as(account!("SELECT", "FROM account WHERE id = $1"))
            .bind(id).fetch_optional(connection).await?
    });
    row.map(account_from_row).transpose()
}

/// The account, which nobody else changes until this transaction ends. Whoever holds keys or sessions of it as well holds it first,
/// so that nobody waits in a circle.
async fn hold_account(session: &mut Session, id: i64) -> Result<Option<Account>, StoreError> {
    // SQLite has one writer at a time.
    let statement = if session.is_postgres() {
        account!("SELECT", "FROM account WHERE id = $1 FOR NO KEY UPDATE")
    } else {
        account!("SELECT", "FROM account WHERE id = $1")
    };
    let row: Option<AccountRow> = on!(*session, connection => {
        sqlx::query_as(statement).bind(id).fetch_optional(connection).await?
    });
    row.map(account_from_row).transpose()
}

/// [`hold_account`] for one that may have sessions and keys; `None` when it is disabled or not there.
async fn hold_enabled(session: &mut Session, id: i64) -> Result<Option<Account>, StoreError> {
    let account = hold_account(session, id).await?;
    Ok(account.filter(|account| account.disabled_at.is_none()))
}

/// What a caller is told that would give something to an account that may have nothing.
fn not_enabled(account: i64) -> StoreError {
    StoreError::Refused {
        what: format!("account {account} is disabled or unknown"),
    }
}

/// Nobody else changes who is an admin until this transaction ends.
async fn hold_admins(session: &mut Session) -> Result<(), StoreError> {
    // SQLite has one writer at a time.
    if session.is_postgres() {
        on!(*session, connection => {
            sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(ADMINS_LOCK).execute(connection).await?;
        });
    }
    Ok(())
}

async fn is_last_admin(session: &mut Session, account: &Account) -> Result<bool, StoreError> {
    let is_admin = account.role == Role::Admin && account.disabled_at.is_none();
    Ok(is_admin && !other_admin(session, Some(account.id)).await?)
}

/// Whether an enabled account is an admin, other than this one.
async fn other_admin(session: &mut Session, than: Option<i64>) -> Result<bool, StoreError> {
    let found: Option<i64> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT id FROM account WHERE role = 'admin' AND disabled_at IS NULL AND id <> $1 LIMIT 1",
        )
        .bind(than.unwrap_or(i64::MIN)).fetch_optional(connection).await?
    });
    Ok(found.is_some())
}
