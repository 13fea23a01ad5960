//! What was seen and is not told yet, between the gates that see and the one thread that tells.
//!
//! Invariant: it is bounded in number and in bytes, and whoever puts something in never waits: what finds no room is
//! counted and dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::gate::sighting::{Sight, Sighting};
use mcpindex_contract::identity::Identity;

/// The bounds of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLimits {
    /// Sightings that wait (4,096).
    pub sightings: usize,
    /// Bytes of their definitions (16 MiB).
    pub bytes: usize,
}

impl Default for BufferLimits {
    fn default() -> BufferLimits {
        BufferLimits {
            sightings: 4_096,
            bytes: 16 << 20,
        }
    }
}

/// Whose tools are seen.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) identity: Identity,
    /// How the server is called in texts for people.
    pub(super) shown: String,
}

/// One sighting with where and when.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) server: Arc<Server>,
    pub(super) sighting: Sighting,
    /// Unix seconds.
    pub(super) at: i64,
}

impl Seen {
    fn bytes(&self) -> usize {
        let before = match &self.sighting.sight {
            Sight::Drifted { before, .. } => before.len(),
            Sight::Pinned | Sight::Withheld => 0,
        };
        self.sighting.definition.len() + self.sighting.tool.len() + before
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Buffer {
    limits: BufferLimits,
    waiting: Mutex<Waiting>,
    /// Something came, or it is closed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    seen: VecDeque<Seen>,
    bytes: usize,
    offered: u64,
    dropped: u64,
    is_closed: bool,
}

impl Buffer {
    pub(super) fn new(limits: BufferLimits) -> Buffer {
        Buffer {
            limits,
            waiting: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Puts one in, or drops it.
    pub(super) fn offer(&self, seen: Seen) {
        let bytes = seen.bytes();
        let mut waiting = self.waiting();
        waiting.offered += 1;
        let has_room =
            waiting.seen.len() < self.limits.sightings && waiting.bytes + bytes <= self.limits.bytes;
        if !has_room || waiting.is_closed {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += bytes;
        waiting.seen.push_back(seen);
        drop(waiting);
        self.changed.notify_one();
    }

    /// The first ones, at most so many.
    pub(super) fn take(&self, most: usize) -> Vec<Seen> {
        let mut waiting = self.waiting();
        let count = waiting.seen.len().min(most);
        let taken: Vec<Seen> = waiting.seen.drain(..count).collect();
        waiting.bytes -= taken.iter().map(Seen::bytes).sum::<usize>();
        taken
    }

    pub(super) fn len(&self) -> usize {
        self.waiting().seen.len()
    }

    /// Nothing more is taken in.
    pub(super) fn close(&self) {
        self.waiting().is_closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiting().is_closed
    }

    /// How many were offered, and how many of them found no room.
    pub(super) fn counts(&self) -> (u64, u64) {
        let waiting = self.waiting();
        (waiting.offered, waiting.dropped)
    }

    /// Waits until so many wait, or it is closed. One task may wait at a time.
    pub(super) async fn has(&self, count: usize) {
        while self.len() < count && !self.is_closed() {
            self.changed.notified().await;
        }
    }

    /// Waits until it is closed. One task may wait at a time.
    pub(super) async fn closed(&self) {
        while !self.is_closed() {
            self.changed.notified().await;
        }
    }

    /// Held for a few moves of memory at a time and never across a wait.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(server: &Arc<Server>, tool: &str, length: usize) -> Seen {
        Seen {
            server: Arc::clone(server),
            sighting: Sighting {
                tool: tool.to_owned(),
                definition: "x".repeat(length),
                sight: Sight::Pinned,
            },
            at: 0,
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_dropped() {
        let server = Arc::new(Server {
            identity: Identity::from_reference("npm:a").unwrap().identity,
            shown: String::new(),
        });
        let limits = BufferLimits {
            sightings: 3,
            bytes: 20,
        };
        let buffer = Buffer::new(limits);
        for (tool, length) in [("a", 5), ("b", 20), ("c", 5), ("d", 5), ("e", 0)] {
            buffer.offer(seen(&server, tool, length));
        }
        assert_eq!(
            buffer.counts(),
            (5, 2),
            "`b` has too many bytes, `e` is one too many"
        );
        let taken = |most| -> Vec<String> {
            let taken = buffer.take(most);
            taken.into_iter().map(|seen| seen.sighting.tool).collect()
        };
        assert_eq!(taken(2), ["a", "c"]);
        buffer.offer(seen(&server, "f", 13));
        assert_eq!(taken(9), ["d", "f"], "what was taken leaves room");
        buffer.close();
        buffer.offer(seen(&server, "g", 1));
        assert_eq!((buffer.len(), buffer.counts()), (0, (7, 3)));
    }
}
