//! The organisation's word on what a server declares, as one look at its decisions has it.
//!
//! Invariant: a list is judged by one look from its start to its end; whatever is decided, or ends, after that look is a move, and
//! the list is judged again.

use std::sync::Arc;

use mcpindex_contract::digest::Digest;

use crate::approvals::{Approvals, View, Word};
use crate::clock::Clock;
use crate::pins::{Pin, ToolPin, Via};

/// Whose decisions are obeyed about one server.
pub(super) struct Organisation {
    approvals: Approvals,
    identity: Arc<str>,
    clock: Arc<dyn Clock>,
    /// At the last look; `None` before it.
    seen: Option<Seen>,
}

#[derive(Clone, Copy)]
struct Seen {
    turn: u64,
    /// When some word becomes another one by itself.
    until: Option<i64>,
}

/// One look. Without an organisation, nothing is ever heard of.
#[derive(Default)]
pub(super) struct Words(Option<Look>);

struct Look {
    view: Arc<View>,
    identity: Arc<str>,
    now: i64,
}

/// Why a baseline can't be judged by any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    /// The organisation refused it.
    Refused(u64),
    /// The approval that it was made by was taken back.
    Withdrawn,
    /// The approval that it was made by has ended.
    Expired,
}

impl Organisation {
    pub(super) fn new(approvals: Approvals, identity: &str, clock: Arc<dyn Clock>) -> Organisation {
        Organisation {
            approvals,
            identity: Arc::from(identity),
            clock,
            seen: None,
        }
    }

    /// Whether some word may be another one than at the last look.
    pub(super) fn has_moved(&self) -> bool {
        self.seen.is_none_or(|seen| {
            seen.turn != self.approvals.turn()
                || seen.until.is_some_and(|until| until <= self.clock.unix_seconds())
        })
    }

    pub(super) fn look(&mut self) -> Words {
        let turn = self.approvals.turn();
        let view = self.approvals.view();
        let now = self.clock.unix_seconds();
        self.seen = Some(Seen {
            turn,
            until: view.next_change(&self.identity, now),
        });
        Words(Some(Look {
            view,
            identity: Arc::clone(&self.identity),
            now,
        }))
    }
}

impl Words {
    /// What is said of exactly this definition.
    pub(super) fn of(&self, tool: &str, digest: &Digest) -> Word {
        match &self.0 {
            None => Word::Unheard,
            // A raw digest covers a text that readers disagree on: nothing can be approved by it.
            Some(look) => match look.view.word(&look.identity, tool, digest, look.now) {
                Word::Approved { .. } | Word::Proposed { .. } if digest.is_raw() => Word::Nothing,
                word => word,
            },
        }
    }

    /// Whether something that was held of this tool is refused.
    pub(super) fn refused_some(&self, tool: &str, known: &ToolPin) -> bool {
        self.0.is_some()
            && known.held.keys().any(|digest| {
                let digest = digest.parse();
                digest.is_ok_and(|digest| matches!(self.of(tool, &digest), Word::Refused { .. }))
            })
    }

    /// Why this baseline counts no more; `None`: it does.
    pub(super) fn over(&self, tool: &str, baseline: &Pin) -> Option<Over> {
        self.0.as_ref()?;
        let Ok(digest) = baseline.digest.parse() else {
            return None;
        };
        match (self.of(tool, &digest), baseline.via) {
            (Word::Refused { sequence, .. }, _) => Some(Over::Refused(sequence)),
            (Word::Unheard | Word::Approved { .. }, _) => None,
            (Word::Expired { .. }, Via::Index) => Some(Over::Expired),
            // An index that knows nothing of the decision is another one than it was made at.
            (Word::Nothing | Word::Withdrawn { .. } | Word::Proposed { .. }, Via::Index) => {
                Some(Over::Withdrawn)
            }
            _ => None,
        }
    }
}
