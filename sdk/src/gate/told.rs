//! What was told already, so that a server that lists the same thing a thousand times is told of once.
//!
//! Invariant: its size is bounded; once that is reached everything may be told once more.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// As many things are remembered at a time.
const MAX_TOLD: usize = 16_384;
/// As many dropped messages are told of; a server that sends more has made its point.
const MAX_DROPPED: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By hash: the names are the server's, and may be of any length.
    things: HashSet<u64>,
    hasher: RandomState,
    dropped: usize,
}

impl Told {
    /// Whether this is the first time, by what kind of thing it is, the name and the digest.
    pub(super) fn first(&mut self, what: &'static str, name: &str, digest: &str) -> bool {
        if self.things.len() >= MAX_TOLD {
            self.things.clear();
        }
        self.things.insert(self.hasher.hash_one((what, name, digest)))
    }

    /// Whether one more dropped message is told of.
    pub(super) fn dropped(&mut self) -> bool {
        self.dropped += 1;
        self.dropped <= MAX_DROPPED
    }
}
