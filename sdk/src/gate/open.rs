//! The client's requests that wait for an answer, and what each was about.
//!
//! Invariant: at most one request is open under one id, and at most as many as the limit says; a cancelled one stays known
//! for a while, since its answer may be under way.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

// The keys are the client's own and few: what a slow hash keeps off is no danger here, and it is asked for at each message.
use foldhash::fast::RandomState;
use mcpindex_contract::surface::MemberKind;

use crate::gate::Channel;
use crate::gate::ids::Id;
use crate::gate::short_text::ShortText;

/// The cancelled requests that an answer may still come to.
const MAX_CANCELLED: usize = 1_024;

/// One request of the client.
#[derive(Debug)]
pub(super) struct Open {
    /// The exchange it came on.
    pub(super) channel: Channel,
    /// The id as the client spells it.
    pub(super) id: ShortText,
    /// What its answer is taken for.
    pub(super) purpose: Purpose,
    is_cancelled: bool,
}

impl Open {
    pub(super) fn new(channel: Channel, id: ShortText, purpose: Purpose) -> Open {
        Open {
            channel,
            id,
            purpose,
            is_cancelled: false,
        }
    }
}

/// What a request was about, as far as its answer is looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its answer passes.
    Plain,
    /// `initialize` or `server/discover`: the answer carries instructions.
    Handshake {
        /// Whether the answer settles the protocol's version.
        settles_version: bool,
    },
    /// `tools/list` from the start, asked at this moment.
    Tools {
        /// See [`super::listings::Listings`].
        moment: u64,
    },
    /// A list of prompts, resources or templates.
    Context(MemberKind),
    /// A call; the tool's name where its result is looked at.
    Call {
        /// The tool.
        tool: Option<String>,
    },
    /// A call that was not sent on yet.
    WaitingCall,
}

/// Why a request can't be opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// One with this id is open.
    SameId,
    /// As many are open as may be: the request.
    TooMany(Open),
}

/// See the module.
#[derive(Debug)]
pub(super) struct OpenRequests {
    open: HashMap<Id, Open, RandomState>,
    /// The cancelled among them, the oldest first.
    cancelled: VecDeque<Id>,
    /// Those for the list of tools that are not cancelled, and the moment each was asked at.
    lists: HashMap<Id, u64, RandomState>,
    limit: usize,
}

impl OpenRequests {
    pub(super) fn new(limit: usize) -> OpenRequests {
        OpenRequests {
            open: HashMap::default(),
            cancelled: VecDeque::new(),
            lists: HashMap::default(),
            limit,
        }
    }

    pub(super) fn begin(&mut self, id: Id, open: Open) -> Result<(), Refused> {
        let is_full = self.count() >= self.limit;
        let Entry::Vacant(place) = self.open.entry(id) else {
            return Err(Refused::SameId);
        };
        if is_full {
            return Err(Refused::TooMany(open));
        }
        if let Purpose::Tools { moment } = open.purpose {
            self.lists.insert(place.key().clone(), moment);
        }
        place.insert(open);
        Ok(())
    }

    /// Those that an answer is still wanted to.
    pub(super) fn count(&self) -> usize {
        self.open.len() - self.cancelled.len()
    }

    pub(super) fn is_open(&self, id: &Id) -> bool {
        self.open.contains_key(id)
    }

    /// Ends the request that this answers. A call that never went out has no answer.
    pub(super) fn answered(&mut self, id: &Id) -> Option<Open> {
        let open = self.open.remove(id)?;
        if open.purpose == Purpose::WaitingCall {
            self.open.insert(id.clone(), open);
            return None;
        }
        Some(self.ended(id, open))
    }

    /// Ends a request that the gate answers itself.
    pub(super) fn end(&mut self, id: &Id) -> Option<Open> {
        let open = self.open.remove(id)?;
        Some(self.ended(id, open))
    }

    fn ended(&mut self, id: &Id, ended: Open) -> Open {
        if ended.is_cancelled {
            self.cancelled.retain(|cancelled| cancelled != id);
        }
        if let Purpose::Tools { .. } = ended.purpose {
            self.lists.remove(id);
        }
        ended
    }

    /// The client wants no answer any more: what its request was about, unless nothing of this id is open.
    pub(super) fn cancelled(&mut self, id: &Id) -> Option<&Purpose> {
        let open = self.open.get_mut(id)?;
        if !std::mem::replace(&mut open.is_cancelled, true) {
            self.cancelled.push_back(id.clone());
            self.lists.remove(id);
        }
        if self.cancelled.len() > MAX_CANCELLED
            && let Some(oldest) = self.cancelled.pop_front()
        {
            self.open.remove(&oldest);
        }
        self.open.get(id).map(|open| &open.purpose)
    }

    /// Whether a request for the list of tools is open that was asked at this moment or later, and not cancelled.
    pub(super) fn lists_since(&self, moment: u64) -> bool {
        self.lists.values().any(|asked| *asked >= moment)
    }

    /// Ends every request that was sent on over this exchange.
    pub(super) fn close(&mut self, channel: Channel) -> Vec<Open> {
        let is_over = |open: &Open| open.channel == channel && open.purpose != Purpose::WaitingCall;
        let mut closed: Vec<Id> = Vec::new();
        for (id, open) in &self.open {
            if is_over(open) {
                closed.push(id.clone());
            }
        }
        let mut ended: Vec<Open> = closed.iter().filter_map(|id| self.end(id)).collect();
        ended.sort_by(|one, other| (*one.id).cmp(&other.id));
        ended
    }
}
