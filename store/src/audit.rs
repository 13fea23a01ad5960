//! Who did what, for whoever has to answer for it: decisions, keys, roles, sign-ins.
//!
//! Invariant: an act and its line here are written in one transaction, where the act is; nothing in a line proves anything (no
//! secret, no part of one); lines are only ever added.

use crate::session::{Session, on};
use crate::text::{restored, restored_option, stored};
use crate::{Store, StoreError};

/// Who did what no account did: whoever is at the server's shell.
pub const SHELL: &str = "shell";
/// Characters that are kept of a detail.
const MAX_DETAIL: usize = 2_000;
/// The most lines of one reading.
const MAX_LINES: i64 = 1_000;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Definitions were approved, refused, or a decision withdrawn.
    Decided,
    /// Records of another index were added to an empty chain, or to the same one.
    ApprovalsImported,
    /// A key was made.
    KeyMade,
    /// A key was put in the place of another.
    KeyRotated,
    /// A key was ended.
    KeyRevoked,
    /// A key was used: once for each day and network.
    KeyUsed,
    /// Somebody was given a role.
    RoleGiven,
    /// Somebody may do nothing any more.
    AccountDisabled,
    /// Somebody may sign in again.
    AccountEnabled,
    /// Somebody signed in.
    SignedIn,
    /// A setting that is kept in the database was changed.
    SettingChanged,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 11] = [
        Action::Decided,
        Action::ApprovalsImported,
        Action::KeyMade,
        Action::KeyRotated,
        Action::KeyRevoked,
        Action::KeyUsed,
        Action::RoleGiven,
        Action::AccountDisabled,
        Action::AccountEnabled,
        Action::SignedIn,
        Action::SettingChanged,
    ];

    /// Its name in the database and in APIs: `decided`, `key-made`, …
    pub fn name(self) -> &'static str {
        match self {
            Action::Decided => "decided",
            Action::ApprovalsImported => "approvals-imported",
            Action::KeyMade => "key-made",
            Action::KeyRotated => "key-rotated",
            Action::KeyRevoked => "key-revoked",
            Action::KeyUsed => "key-used",
            Action::RoleGiven => "role-given",
            Action::AccountDisabled => "account-disabled",
            Action::AccountEnabled => "account-enabled",
            Action::SignedIn => "signed-in",
            Action::SettingChanged => "setting-changed",
        }
    }

    /// The action of this name.
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// A line to write.
#[derive(Debug, Clone)]
pub struct NewLine<'a> {
    /// Who: [`crate::accounts::Account::who`], or [`SHELL`].
    pub subject: &'a str,
    /// What they did.
    pub action: Action,
    /// What it was done to: a key's id, an account, records.
    pub object: &'a str,
    /// What else is to be known of it; cut at 2,000 characters.
    pub detail: Option<&'a str>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// The row's number, larger for later lines.
    pub id: i64,
    /// When.
    pub at: i64,
    /// Who: `login@issuer`, or `shell`.
    pub subject: String,
    /// What they did.
    pub action: Action,
    /// What it was done to.
    pub object: String,
    /// What else is to be known of it.
    pub detail: Option<String>,
}

macro_rules! lines {
    ($filter:literal) => {
        concat!(
            "SELECT id, happened_at, subject, action, object, detail FROM audit WHERE id < $1 ",
            $filter,
            " ORDER BY id DESC LIMIT $2"
        )
    };
}

impl Store {
    /// Writes a line about an act that is not the store's own.
    pub async fn note_audit(&self, line: &NewLine<'_>, now: i64) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        note(&mut session, line, now).await?;
        session.commit().await
    }

    /// The newest lines before this one (`None`: before the end), at most `limit` of them and 1,000, the newest first.
    pub async fn audit(&self, before: Option<i64>, limit: i64) -> Result<Vec<AuditLine>, StoreError> {
        self.audit_of(None, None, before, limit).await
    }

    /// [`Store::audit`] of one person, as the lines name them, or of one act, or both.
    pub async fn audit_of(
        &self,
        subject: Option<&str>,
        action: Option<Action>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<AuditLine>, StoreError> {
        type Row = (i64, i64, String, String, String, Option<String>);
        let statement = match (subject, action) {
            (None, None) => lines!(""),
            (Some(_), None) => lines!("AND subject = $3"),
            (None, Some(_)) => lines!("AND action = $3"),
            (Some(_), Some(_)) => lines!("AND subject = $3 AND action = $4"),
        };
        let mut session = self.read().await?;
        let rows: Vec<Row> = on!(session, connection => {
            let mut query = sqlx::query_as(statement)
                .bind(before.unwrap_or(i64::MAX)).bind(limit.clamp(0, MAX_LINES));
            if let Some(subject) = subject {
                query = query.bind(stored(subject));
            }
            if let Some(action) = action {
                query = query.bind(action.name());
            }
            query.fetch_all(connection).await?
        });
        rows.into_iter()
            .map(|(id, at, subject, action, object, detail)| {
                Ok(AuditLine {
                    id,
                    at,
                    subject: restored(subject)?,
                    action: Action::from_name(&action).ok_or_else(|| StoreError::Corrupt {
                        what: format!("an action `{}`", action.escape_debug()),
                    })?,
                    object: restored(object)?,
                    detail: restored_option(detail)?,
                })
            })
            .collect()
    }
}

/// Writes a line in the transaction of the act.
pub(crate) async fn note(session: &mut Session, line: &NewLine<'_>, now: i64) -> Result<(), StoreError> {
    insert(session, line, None, now).await
}

/// Writes a line unless there is one of this `once`.
pub(crate) async fn note_once(
    session: &mut Session,
    line: &NewLine<'_>,
    once: &str,
    now: i64,
) -> Result<(), StoreError> {
    insert(session, line, Some(once), now).await
}

async fn insert(
    session: &mut Session,
    line: &NewLine<'_>,
    once: Option<&str>,
    now: i64,
) -> Result<(), StoreError> {
    let detail: Option<String> = line
        .detail
        .map(|detail| detail.chars().take(MAX_DETAIL).collect());
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO audit (happened_at, subject, action, object, detail, once) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (once) DO NOTHING",
        )
        .bind(now).bind(stored(line.subject)).bind(line.action.name()).bind(stored(line.object))
        .bind(detail.as_deref().map(stored)).bind(once).execute(connection).await?;
    });
    Ok(())
}
