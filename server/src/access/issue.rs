//! Giving out keys: what may be asked for, and by whom.
//!
//! Invariant: nobody gets more by asking with a key than that key allows, nor more than the account's role does; the key
//! itself is given to the one who asked and to nobody else.

use mcpindex_store::accounts::{Account, KeyRecord, NewKey, Role, Scope, Scopes};
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
    fn check(&self, account: &Account) -> Result<(), IssueError> {
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
        if self.scopes.contains(Scope::Admin) && account.role != Role::Admin {
            return Err(IssueError::NotAllowed(format!(
                "only an admin has keys with the scope `{}`",
                Scope::Admin.name()
            )));
        }
        Ok(())
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
    wish.check(account)?;
    let text = KeyText::generate()?;
    let key = NewKey {
        account: account.id,
        hash: text.hash(),
        shown: text.shown(),
        name: wish.name.clone(),
        scopes: wish.scopes,
        expires_at: wish
            .days
            .map(|days| now.saturating_add(i64::from(days).saturating_mul(DAY))),
        network,
    };
    let record = store.add_key(&key, now).await?;
    Ok((text, record))
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
            };
            let found = wish.check(&account(role)).err().map(|error| error.to_string());
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
        let scopes = "no scope is asked for: expected some of read ingest admin";
        check("a", &[], None, member, scopes);
        let days = "a key lives from 1 to 3650 days, or without an end";
        check("a", read, Some(0), member, days);
        check("a", read, Some(3_651), member, days);
        let admin = "only an admin has keys with the scope `admin`";
        check("a", &[Scope::Admin], None, Role::Approver, admin);
        check("a", &[Scope::Admin], None, Role::Admin, "");
    }
}
