//! What a process has verified of a chain, so that it does not hash it anew for each question.
//!
//! Invariant: what is known here was read in a transaction that began before, so a head that is behind it was moved back; a chain
//! that was found whole once is held to that as long as the process lives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mcpindex_contract::approval::{ChainFlaw, Head, Verifier};

use super::rows;
use crate::session::Session;
use crate::{Store, StoreError};

/// Seconds after which a whole chain is verified again.
const WHOLE_FOR: i64 = 600;
/// Seconds after which a broken chain is looked at again: it may have been mended.
const BROKEN_FOR: i64 = 10;
/// Records that are read at once.
const PAGE: i64 = 2_000;

/// How a chain stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainState {
    /// The head as the database states it.
    pub head: Head,
    /// The last record that counts: the head's, unless there is a flaw.
    pub good: u64,
    /// What is wrong with the chain.
    pub flaw: Option<ChainFlaw>,
}

impl ChainState {
    fn of(head: Head, flaw: Option<ChainFlaw>) -> ChainState {
        let good = match &flaw {
            None => head.sequence,
            Some(flaw) => flaw.first_bad().saturating_sub(1),
        };
        ChainState { head, good, flaw }
    }

    /// Notes a flaw that was found beside; the first one in the chain is kept.
    pub(super) fn note(&mut self, flaw: ChainFlaw) {
        if self
            .flaw
            .as_ref()
            .is_none_or(|known| flaw.first_bad() < known.first_bad())
        {
            *self = ChainState::of(self.head, Some(flaw));
        }
    }
}

/// What is known of one chain.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// As far as the chain was whole.
    whole: Option<Head>,
    /// How it stood when it was last looked at.
    state: ChainState,
    /// When it was last verified from its beginning; `None`: it is to be done now.
    at: Option<i64>,
}

impl Known {
    /// The same for somebody who wants to see for themselves.
    pub(super) fn unproved(self) -> Known {
        Known { at: None, ..self }
    }

    /// The flaw that is known, or that this head shows.
    pub(super) fn flaw_beside(&self, head: &Head) -> Option<ChainFlaw> {
        if self.state.flaw.is_some() {
            return self.state.flaw.clone();
        }
        let whole = self.whole.filter(|whole| head.sequence < whole.sequence)?;
        Some(ChainFlaw::HeadBehind {
            head: head.sequence,
            records: whole.sequence,
        })
    }

    fn is_recent(&self, now: i64) -> bool {
        let good_for = if self.state.flaw.is_some() {
            BROKEN_FOR
        } else {
            WHOLE_FOR
        };
        let age = self.at.and_then(|at| now.checked_sub(at));
        age.is_some_and(|age| (0..good_for).contains(&age))
    }
}

/// What this process knows of each tenant's chain. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Verified(Arc<Mutex<BTreeMap<String, Known>>>);

impl Verified {
    /// What is known; to be read before the transaction in which the chain is.
    pub(super) fn of(&self, tenant: &str) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tenant).cloned()
    }

    fn note(&self, tenant: &str, found: Known) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have looked later, and seen more.
        let is_older = |found: &Known, known: &Known| {
            let reach = |known: &Known| known.whole.map_or(0, |head| head.sequence);
            found.state.flaw.is_none() && reach(found) < reach(known)
        };
        if !known.get(tenant).is_some_and(|known| is_older(&found, known)) {
            known.insert(tenant.to_owned(), found);
        }
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Verified(…)")
    }
}

/// How the chain stands that this transaction sees.
pub(super) async fn chain(
    store: &Store,
    session: &mut Session,
    tenant: &str,
    known: Option<Known>,
    now: i64,
) -> Result<ChainState, StoreError> {
    let stated = rows::head(session, tenant).await?;
    if let Some(known) = known.as_ref().filter(|known| known.is_recent(now)) {
        if known.state.head == stated {
            return Ok(known.state.clone());
        }
        let grown = known
            .whole
            .filter(|whole| known.state.flaw.is_none() && stated.sequence > whole.sequence);
        if let Some(whole) = grown
            && let Ok(head) = walk(session, tenant, whole, &stated, None).await?
        {
            let state = ChainState::of(head, None);
            let found = Known {
                whole: Some(head),
                state: state.clone(),
                at: known.at,
            };
            store.verified.note(tenant, found);
            return Ok(state);
        }
    }
    let whole = known.and_then(|known| known.whole);
    let found = walk(session, tenant, Head::empty(tenant), &stated, whole).await?;
    let found = Known {
        whole: found.as_ref().ok().copied().or(whole),
        state: ChainState::of(stated, found.err()),
        at: Some(now),
    };
    store.verified.note(tenant, found.clone());
    Ok(found.state)
}

/// Verifies a whole chain, whatever is known of it.
pub(super) async fn whole(
    session: &mut Session,
    tenant: &str,
    stated: &Head,
) -> Result<Result<Head, ChainFlaw>, StoreError> {
    walk(session, tenant, Head::empty(tenant), stated, None).await
}

/// Verifies what lies between a head and the one that is stated. `whole` is how far the chain was whole before.
async fn walk(
    session: &mut Session,
    tenant: &str,
    before: Head,
    stated: &Head,
    whole: Option<Head>,
) -> Result<Result<Head, ChainFlaw>, StoreError> {
    let mut verifier = Verifier::after(tenant, before);
    let mut is_another = false;
    loop {
        let page = rows::after(session, tenant, verifier.head().sequence, PAGE).await?;
        let is_last = i64::try_from(page.len()).is_ok_and(|length| length < PAGE);
        for record in page {
            if let Err(flaw) = record.and_then(|record| verifier.push(&record)) {
                return Ok(Err(flaw));
            }
            let head = verifier.head();
            is_another |=
                whole.is_some_and(|whole| whole.sequence == head.sequence && whole.hash != head.hash);
        }
        if is_last {
            break;
        }
    }
    let head = match verifier.finish(stated) {
        Ok(head) => head,
        Err(flaw) => return Ok(Err(flaw)),
    };
    Ok(match whole {
        Some(whole) if is_another => Err(ChainFlaw::Rewritten {
            sequence: whole.sequence,
        }),
        Some(whole) if head.sequence < whole.sequence => Err(ChainFlaw::HeadBehind {
            head: head.sequence,
            records: whole.sequence,
        }),
        _ => Ok(head),
    })
}
