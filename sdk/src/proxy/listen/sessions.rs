//! All sessions: by the id that the server gave (or we, where it gave none), and in the new era, which has no sessions, by
//! who asks: credential and client.
//!
//! Two clients of the new era that say the same of themselves share a gate until both have a request of the same id open:
//! then the second gets one of its own, which reads the list of tools anew before each call, since nobody tells it of
//! changes.
//!
//! Invariant: never more sessions than allowed, and none is forgotten while something of it is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use crate::proxy::listen::reply::Refused;
use crate::proxy::listen::session::SessionRelay;
use crate::wire::http::SESSION;

/// The credential's value and the client's own words about itself. Never shown.
pub(super) type WhoAsks = (Option<Vec<u8>>, String);

/// One session.
pub(super) struct Entry {
    pub(super) relay: Arc<SessionRelay>,
    used: Mutex<Instant>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Id(Vec<u8>),
    Client(WhoAsks, usize),
}

/// See the module.
pub(super) struct Sessions {
    all: Mutex<HashMap<Key, Arc<Entry>>>,
    most: usize,
    idle: Duration,
}

impl Entry {
    fn new(relay: Arc<SessionRelay>) -> Arc<Entry> {
        Arc::new(Entry {
            relay,
            used: Mutex::new(Instant::now()),
        })
    }

    fn use_now(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle(&self) -> Option<Duration> {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.relay.client.is_busy()).then(|| used.elapsed())
    }
}

impl Sessions {
    pub(super) fn new(most: usize, idle: Duration) -> Sessions {
        Sessions {
            all: Mutex::default(),
            most,
            idle,
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<Entry>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session, under an id of ours for the time being.
    pub(super) fn begin(&self, new: impl FnOnce() -> Arc<SessionRelay>) -> Result<Arc<Entry>, Refused> {
        let id = own_id()?;
        let mut all = self.all();
        make_room(&mut all, self.most)?;
        let entry = Entry::new(new());
        all.insert(Key::Id(id.into_bytes()), Arc::clone(&entry));
        Ok(entry)
    }

    /// The id that the client is told: the server's where it gave one with these headers, else ours.
    pub(super) fn settle(&self, entry: &Arc<Entry>, answered: &HeaderMap) -> HeaderValue {
        let mut all = self.all();
        let ours = all.iter().find_map(|(key, known)| match key {
            Key::Id(id) if Arc::ptr_eq(known, entry) => Some(id.clone()),
            _ => None,
        });
        match (answered.get(SESSION), ours) {
            (Some(id), ours) => {
                if let Some(ours) = ours {
                    all.remove(&Key::Id(ours));
                }
                let before = all.insert(Key::Id(id.as_bytes().to_vec()), Arc::clone(entry));
                // A server that gives one id twice means one session.
                if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, entry)) {
                    before.relay.end();
                }
                id.clone()
            }
            (None, ours) => HeaderValue::from_bytes(&ours.unwrap_or_default())
                .unwrap_or_else(|_| HeaderValue::from_static("")),
        }
    }

    pub(super) fn find(&self, id: &HeaderValue) -> Result<Arc<Entry>, Refused> {
        let all = self.all();
        let entry = all
            .get(&Key::Id(id.as_bytes().to_vec()))
            .ok_or(Refused::UnknownSession)?;
        entry.use_now();
        Ok(Arc::clone(entry))
    }

    /// A gate for a client of the new era, in which no request of this id is open.
    pub(super) fn of_client(
        &self,
        who: WhoAsks,
        id: Option<&str>,
        new: impl FnOnce() -> Arc<SessionRelay>,
    ) -> Result<Arc<Entry>, Refused> {
        let mut all = self.all();
        for place in 0.. {
            let key = Key::Client(who.clone(), place);
            let Some(entry) = all.get(&key) else {
                make_room(&mut all, self.most)?;
                let entry = Entry::new(new());
                all.insert(key, Arc::clone(&entry));
                return Ok(entry);
            };
            if id.is_some_and(|id| entry.relay.client.has_open(id)) {
                continue;
            }
            entry.use_now();
            if place > 0 {
                entry.relay.changed_unseen();
            }
            return Ok(Arc::clone(entry));
        }
        Err(Refused::Full)
    }

    pub(super) fn remove(&self, entry: &Arc<Entry>) {
        self.all().retain(|_, known| !Arc::ptr_eq(known, entry));
        entry.relay.end();
    }

    /// Forgets what was not used for too long.
    pub(super) fn forget_idle(&self) {
        let idle = self.idle;
        self.all().retain(|_, entry| {
            let stays = entry.idle().is_none_or(|time| time < idle);
            if !stays {
                entry.relay.end();
            }
            stays
        });
    }

    /// Takes all of them out.
    pub(super) fn drain(&self) -> Vec<Arc<Entry>> {
        self.all().drain().map(|(_, entry)| entry).collect()
    }
}

/// Forgets the session that was unused the longest when there are as many as may be.
fn make_room(all: &mut HashMap<Key, Arc<Entry>>, most: usize) -> Result<(), Refused> {
    if all.len() < most {
        return Ok(());
    }
    let oldest = all
        .iter()
        .filter_map(|(key, entry)| entry.idle().map(|time| (time, key.clone())))
        .max_by_key(|(time, _)| *time)
        .map(|(_, key)| key)
        .ok_or(Refused::Full)?;
    if let Some(entry) = all.remove(&oldest) {
        entry.relay.end();
    }
    Ok(())
}

/// An id that nobody can guess.
fn own_id() -> Result<String, Refused> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|_| Refused::NoRandomness)?;
    Ok(format!("mcpindex-{:032x}", u128::from_be_bytes(random)))
}
