//! Keys as they come with requests: read, looked up, judged, noted as used.
//!
//! What was looked up is remembered, good keys for 30 s and unknown ones for 5 s: so long a key that was revoked at another
//! replica may still work here, but for changing keys: there it is looked up each time. A key revoked here is forgotten at once.
//!
//! Invariant: whether a key is mistyped, unknown, ended, revoked or of a disabled account is not told apart.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use mcpindex::index::key::PREFIX;
use mcpindex_store::accounts::{Account, KeyRecord, Role, Scope, Scopes, SecretHash};
use mcpindex_store::signals::Network;

use super::key::KeyText;
use super::limits::Counted;
use crate::app::App;
use crate::problem::Problem;

/// Seconds that a key which works is remembered.
const GOOD_FOR: i64 = 30;
/// Seconds that one which doesn't is.
const UNKNOWN_FOR: i64 = 5;
/// The most that is remembered.
const MOST: usize = 10_000;
/// Seconds between two notes that a key was used.
const NOTED_FOR: i64 = 3_600;

/// A key that works, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyHolder {
    pub(crate) account: Account,
    pub(crate) key: KeyRecord,
}

impl KeyHolder {
    /// What the key allows its account as it is now: one that was made for an approver or an admin may have outlived the role.
    pub(crate) fn scopes(&self) -> Scopes {
        let role = self.account.role;
        let is_allowed = |scope: &Scope| match scope {
            Scope::Read | Scope::Ingest => true,
            Scope::Approve => role != Role::Member,
            Scope::Admin => role == Role::Admin,
        };
        let allowed: Vec<Scope> = self.key.scopes.iter().filter(is_allowed).collect();
        Scopes::of(&allowed)
    }
}

/// What a request's `Authorization` says.
pub(super) enum Credential {
    /// Nothing that is ours to read.
    None,
    Key(KeyText),
    /// It should be a key, and can't be one.
    Wrong,
    /// A bearer token of another kind.
    Token,
}

impl Credential {
    pub(super) fn of(headers: &HeaderMap) -> Credential {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return Credential::None;
        };
        if values.next().is_some() {
            return Credential::Wrong;
        }
        match bearer(value.to_str().unwrap_or_default()) {
            // A proxy's own sign-in may send other schemes on.
            None => Credential::None,
            Some(token) if token.starts_with(PREFIX) => {
                KeyText::parse(token).map_or(Credential::Wrong, Credential::Key)
            }
            Some(_) => Credential::Token,
        }
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

struct Known {
    until: i64,
    holder: Option<Arc<KeyHolder>>,
}

/// What this process remembers of keys.
#[derive(Default)]
pub(crate) struct Keys {
    known: Mutex<HashMap<SecretHash, Known>>,
    /// How often a key was forgotten: what was looked up before that is not remembered after it. Read and moved under `known`.
    forgotten: AtomicU64,
    /// When each key's use was last noted, by its id and network.
    noted: Mutex<HashMap<(String, Network), i64>>,
}

impl Keys {
    /// Whose key this is, when it works.
    pub(super) async fn holder(
        &self,
        app: &App,
        text: &KeyText,
        address: IpAddr,
    ) -> Result<Arc<KeyHolder>, Problem> {
        let (hash, now) = (text.hash(), app.now());
        let remembered = {
            let known = lock(&self.known);
            known
                .get(&hash)
                .filter(|known| now < known.until)
                .map(|known| known.holder.clone())
        };
        let holder = match remembered {
            Some(holder) => holder,
            None => self.look_up(app, hash, address).await?,
        };
        // What is remembered may have ended since.
        let holder = holder
            .filter(|holder| holder.key.works(now))
            .ok_or_else(Problem::unauthorized)?;
        self.note_used(app, &holder.key.id, address);
        Ok(holder)
    }

    async fn look_up(
        &self,
        app: &App,
        hash: SecretHash,
        address: IpAddr,
    ) -> Result<Option<Arc<KeyHolder>>, Problem> {
        let now = app.now();
        let forgotten = self.forgotten.load(Ordering::Acquire);
        let found = app.store.key_of(hash).await?;
        let holder = found
            .filter(|(key, account)| {
                key.works(now) && account.disabled_at.is_none() && app.login.may_be_signed_in(account)
            })
            .map(|(key, account)| Arc::new(KeyHolder { account, key }));
        let remember_for = match holder {
            Some(_) => GOOD_FOR,
            // Who has a key that works is let in, whatever others behind the same address bring.
            None if !app.access.limits.allows(Counted::FailedKey, address, 1) => {
                return Err(Problem::limited(
                    app.access.limits.come_again(Counted::FailedKey),
                    "too many keys that don't work came from this address",
                ));
            }
            None => UNKNOWN_FOR,
        };
        let mut known = lock(&self.known);
        if known.len() >= MOST {
            known.retain(|_, known| now < known.until);
        }
        if known.len() < MOST && self.forgotten.load(Ordering::Acquire) == forgotten {
            let until = now.saturating_add(remember_for);
            let holder = holder.clone();
            known.insert(hash, Known { until, holder });
        }
        Ok(holder)
    }

    /// Looks the key of this id up again when it comes next.
    pub(crate) fn forget(&self, id: &str) {
        let is_other = |known: &Known| known.holder.as_ref().is_none_or(|holder| holder.key.id != id);
        let mut known = lock(&self.known);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        known.retain(|_, known| is_other(known));
    }

    /// Looks every key up again when it comes next.
    pub(crate) fn forget_all(&self) {
        let mut known = lock(&self.known);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        known.clear();
    }

    /// Looks this key up again when it comes next.
    pub(crate) fn forget_hash(&self, hash: SecretHash) {
        let mut known = lock(&self.known);
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        known.remove(&hash);
    }

    /// Notes the use in the background, at most once an hour for each key and network.
    fn note_used(&self, app: &App, id: &str, address: IpAddr) {
        let (now, network) = (app.now(), Network::of(address));
        {
            let used = (id.to_owned(), network.clone());
            let mut noted = lock(&self.noted);
            if noted
                .get(&used)
                .is_some_and(|at| now < at.saturating_add(NOTED_FOR))
            {
                return;
            }
            if noted.len() >= MOST {
                noted.retain(|_, at| now < at.saturating_add(NOTED_FOR));
            }
            noted.insert(used, now);
        }
        let (store, id) = (app.store.clone(), id.to_owned());
        tokio::spawn(async move {
            if let Err(error) = store.note_key_used(&id, Some(&network), now).await {
                tracing::warn!(%error, id, "the use of a key could not be noted");
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_with_our_prefix_is_a_key() {
        let key = KeyText::generate().unwrap();
        let check = |values: &[&str], expected: &str| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            let found = match Credential::of(&headers) {
                Credential::None => "none",
                Credential::Key(_) => "key",
                Credential::Wrong => "wrong",
                Credential::Token => "token",
            };
            assert_eq!(found, expected);
        };
        let with = |scheme: &str| format!("{scheme} {}", key.expose());
        check(&[], "none");
        check(&["Basic dTpw"], "none");
        check(&[&with("Basic")], "none");
        check(&[&with("Bearer")], "key");
        check(&[&with("bEARER ")], "key");
        check(&["Bearer"], "token");
        check(&["Bearer 0123"], "token");
        check(&["Bearer mcpk_0123"], "wrong");
        check(&[&format!("{}0", with("Bearer"))], "wrong");
        check(&[&with("Bearer"), &with("Bearer")], "wrong");
    }
}
