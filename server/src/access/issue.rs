//! Giving out keys: what may be asked for, and by whom.
//!
//! Invariant: nobody gets more by asking with a key than that key allows, nor for longer than it lives, nor more than the
//! account's role does; the key itself is given to the one who asked and to nobody else.

use mcpindex_store::accounts::{Account, KeyMaterial, KeyRecord, NewKey, Role, Scope, Scopes, Successor};
use mcpindex_store::signals::Network;
use mcpindex_store::{Store, StoreError};

use super::key::KeyText;
use super::redaction::holds_key;
use crate::when::DAY;

/// The longest name of a key, in characters.
const MAX_NAME: usize = 100;
/// The longest life of a key that ends, in days.
const MAX_DAYS: u32 = 3_650;
/// The life of a key when nothing is said, in days.
pub(crate) const USUAL_DAYS: u32 = 180;

/// A key that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) scopes: Scopes,
    /// `None`: it ends when it is revoked.
    pub(crate) days: Option<u32>,
    /// When it ends at the latest, whatever `days` say: the end of the key that asks. A thief of a key that ends would otherwise
    /// make one that doesn't. `None` where a person or the shell asks, or a key without an end.
    pub(crate) ends_by: Option<i64>,
    /// The id of the key that asks, if one does.
    pub(crate) made_by: Option<String>,
}

/// Why a key was not given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssueError {
    /// What was asked for is no key that could be.
    #[error("{0}")]
    Wish(String),
    /// Whoever asked may not have it.
    #[error("{0}")]
    NotAllowed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("no random numbers to be had: {0}")]
    Random(#[from] getrandom::Error),
}

impl Wish {
    /// What any account may wish for.
    fn check(&self) -> Result<(), IssueError> {
        let refused = |text: String| Err(IssueError::Wish(text));
        let length = self.name.chars().count();
        if self.name.trim().is_empty() || length > MAX_NAME || self.name.contains(char::is_control) {
            return refused(format!(
                "the name is not 1 to {MAX_NAME} characters without control characters"
            ));
        }
        if holds_key(&self.name) {
            return refused("the name holds a key".to_owned());
        }
        if self.scopes.is_empty() {
            return refused(format!(
                "no scope is asked for: expected some of {}",
                Scopes::of(&Scope::ALL)
            ));
        }
        if self.days.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) {
            return refused(format!(
                "a key lives from 1 to {MAX_DAYS} days, or without an end"
            ));
        }
        Ok(())
    }

    fn check_for(&self, account: &Account) -> Result<(), IssueError> {
        self.check()?;
        if self.scopes.contains(Scope::Admin) && account.role != Role::Admin {
            return Err(IssueError::NotAllowed(format!(
                "only an admin has keys with the scope `{}`",
                Scope::Admin.name()
            )));
        }
        if self.scopes.contains(Scope::Approve) && account.role == Role::Member {
            return Err(IssueError::NotAllowed(format!(
                "only an approver or an admin has keys with the scope `{}`",
                Scope::Approve.name()
            )));
        }
        Ok(())
    }

    /// The key without its owner.
    pub(crate) fn material(&self, text: &KeyText, network: Option<Network>, now: i64) -> KeyMaterial {
        let wished = self
            .days
            .map(|days| now.saturating_add(i64::from(days).saturating_mul(DAY)));
        KeyMaterial {
            hash: text.hash(),
            shown: text.shown(),
            scopes: self.scopes,
            expires_at: wished.into_iter().chain(self.ends_by).min(),
            network,
        }
    }
}

/// Makes a key of this account.
pub(crate) async fn issue(
    store: &Store,
    account: &Account,
    wish: &Wish,
    network: Option<Network>,
    now: i64,
) -> Result<(KeyText, KeyRecord), IssueError> {
    wish.check_for(account)?;
    let text = KeyText::generate()?;
    let key = NewKey {
        made_by: wish.made_by.clone(),
        ..wish
            .material(&text, network, now)
            .for_account(account.id, wish.name.clone())
    };
    let record = store.add_key(&key, now).await?;
    Ok((text, record))
}

/// Makes a key of an account of the server's shell: what it may is the shell's to say, so a wish for what an admin may makes
/// it one.
pub(crate) async fn issue_local(
    store: &Store,
    login: &str,
    wish: &Wish,
    now: i64,
) -> Result<(KeyText, KeyRecord, Account), IssueError> {
    wish.check()?;
    let text = KeyText::generate()?;
    let material = wish.material(&text, None, now);
    let (record, account) = store.add_local_key(login, &wish.name, &material, now).await?;
    Ok((text, record, account))
}

/// Puts a new key in the place of one of this account's, for as long as that was to live, but not beyond the end of the key that
/// asks. `None`: no such key works, or it was rotated before.
pub(crate) async fn rotate(
    store: &Store,
    account: &Account,
    id: &str,
    asking: Option<&KeyRecord>,
    network: Network,
    now: i64,
) -> Result<Option<(KeyText, KeyRecord)>, IssueError> {
    let text = KeyText::generate()?;
    let successor = Successor {
        hash: text.hash(),
        shown: text.shown(),
        network: Some(network),
        ends_by: asking.and_then(|key| key.expires_at),
        made_by: asking.map(|key| key.id.clone()),
    };
    let record = store.rotate_key(id, Some(account.id), &successor, now).await?;
    Ok(record.map(|record| (text, record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_key_is_refused() {
        let account = |role| Account {
            id: 1,
            issuer: "local".to_owned(),
            subject: "ada".to_owned(),
            login: "ada".to_owned(),
            email: None,
            role,
            created_at: 0,
            signed_in_at: None,
            disabled_at: None,
        };
        let check = |name: &str, scopes: &[Scope], days, role, expected: &str| {
            let wish = Wish {
                name: name.to_owned(),
                scopes: Scopes::of(scopes),
                days,
                ends_by: None,
                made_by: None,
            };
            let found = wish
                .check_for(&account(role))
                .err()
                .map(|error| error.to_string());
            assert_eq!(found.unwrap_or_default(), expected);
        };
        let (read, member) = (&[Scope::Read], Role::Member);
        check("laptop", read, Some(180), member, "");
        check("é工", &[Scope::Read, Scope::Ingest], None, member, "");
        let name = "the name is not 1 to 100 characters without control characters";
        check(" ", read, None, member, name);
        check("a\u{1b}", read, None, member, name);
        check(&"a".repeat(101), read, None, member, name);
        check("mcpk_0123456789", read, None, member, "the name holds a key");
        let scopes = "no scope is asked for: expected some of read ingest approve admin";
        check("a", &[], None, member, scopes);
        let days = "a key lives from 1 to 3650 days, or without an end";
        check("a", read, Some(0), member, days);
        check("a", read, Some(3_651), member, days);
        let admin = "only an admin has keys with the scope `admin`";
        check("a", &[Scope::Admin], None, Role::Approver, admin);
        check("a", &[Scope::Admin], None, Role::Admin, "");
        let approver = "only an approver or an admin has keys with the scope `approve`";
        check("a", &[Scope::Approve], None, member, approver);
        check("a", &[Scope::Approve], None, Role::Approver, "");
        check("a", &[Scope::Approve], None, Role::Admin, "");
    }
}
