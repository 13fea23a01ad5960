//! What was declared when somebody trusted it: one record for each server and credential, in a file or in memory.
//!
//! A record holds the baseline of each tool (its pin: seen first, or approved), what was accepted since, what is held and
//! waits for a person, and the pins of instructions, prompts and resources. Nothing is dropped when a tool vanishes: one
//! that returns meets its old pin.
//!
//! Invariants: what was merely accepted never becomes the baseline; a record that is lost, unreadable or altered is an
//! error of its own and never an empty record; every update is one atomic, synced write, made under a lock on the newest
//! state, so that many processes lose nothing of each other's.

mod bounds;
mod document;
mod file;
mod index;
mod key;
pub(crate) mod lock;
mod published;
mod record;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::state::StateDirectory;
use file::RecordFile;
use index::Index;

pub use key::{AuthContext, ServerKey};
pub use published::{PublishedPins, PublishedTool, TakenOver, published_pins, published_pins_in};
pub use record::{Accepted, AgedEvidence, Held, MemberPin, Pin, Record, TextPin, ToolPin, Via};

/// Why there are no pins to judge by. Each of them holds every call, in every posture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinsError {
    /// The server was pinned before, and its file is gone.
    #[error(
        "the pins of {server} are gone, though it was pinned before: restore `{path}`, or `mcpindex pins reset {server}` to trust it anew"
    )]
    Gone {
        /// The identity.
        server: String,
        /// The file.
        path: String,
    },
    /// The file is there and can't be read as what it should be.
    #[error("the pins of {server} can't be read: `{path}`: {reason}")]
    Unreadable {
        /// The identity.
        server: String,
        /// The file.
        path: String,
        /// What is wrong, with line and column where there is one, and what to do.
        reason: String,
    },
    /// The file was written by a newer mcpindex.
    #[error("the pins of {server} were written by a newer mcpindex (version {version}): update this one")]
    Newer {
        /// The identity.
        server: String,
        /// What the file says.
        version: u64,
    },
    /// The record says something that can't be: a text that doesn't hash to its digest, another server's record.
    #[error(
        "the pins of {server} were altered: `{path}`: {reason}; restore it, or `mcpindex pins reset {server}` to trust it anew"
    )]
    Altered {
        /// The identity.
        server: String,
        /// The file.
        path: String,
        /// What doesn't fit.
        reason: String,
    },
    /// They can't be saved, so nothing new can be trusted.
    #[error("the pins of {server} can't be saved, so nothing new is trusted: `{path}`: {reason}")]
    NotSaved {
        /// The identity.
        server: String,
        /// The file.
        path: String,
        /// What the system said, and what to do.
        reason: String,
    },
    /// Another process is at them, and has been for too long.
    #[error(
        "the pins of {server} are locked by another process, for {seconds} s now: `{path}`; try again, or end that process"
    )]
    Busy {
        /// The identity.
        server: String,
        /// The lock's file.
        path: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// An auth context that is none.
    #[error("`{0}` is no auth context: expected local, anonymous, header:NAME, oauth:ISSUER or context:NAME")]
    Context(String),
}

/// The pins of one server.
pub struct Pins {
    place: Place,
}

enum Place {
    Memory(Arc<Record>),
    File(Box<RecordFile>),
}

impl Pins {
    /// Pins that last as long as the process; for tests and for programs that keep their own.
    pub fn memory() -> Pins {
        Pins {
            place: Place::Memory(Arc::default()),
        }
    }

    /// The pins of this server in this state directory. Nothing is read yet.
    pub fn open(state: &StateDirectory, key: &ServerKey) -> Pins {
        Pins {
            place: Place::File(Box::new(RecordFile::new(state, key))),
        }
    }

    /// The record as it is now. The file is read again only when it is another than the one read last (one `stat`). A server
    /// that was never pinned has an empty record ([`Record::is_empty`]). The file read last is kept open.
    pub fn record(&mut self) -> Result<Arc<Record>, PinsError> {
        match &mut self.place {
            Place::Memory(record) => Ok(Arc::clone(record)),
            Place::File(file) => file.record(),
        }
    }

    /// Whether there is another file than [`Pins::record`] or [`Pins::update`] saw last, be it that it could not be read
    /// then; `true` before either was called. One `stat`, a second one where there was no file.
    pub fn has_moved(&self) -> bool {
        match &self.place {
            Place::Memory(_) => false,
            Place::File(file) => file.has_moved(),
        }
    }

    /// Changes the newest record under the lock and writes it; nothing is written when `change` changes nothing. An error
    /// leaves the record as it was, or, when only the list of servers could not be written, holds the change already.
    pub fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<Arc<Record>, PinsError> {
        match &mut self.place {
            Place::Memory(record) => {
                let changed = Arc::make_mut(record);
                change(changed);
                changed.trim();
                Ok(Arc::clone(record))
            }
            Place::File(file) => file.update(change),
        }
    }

    /// Forgets the server, its record and that it was ever pinned: what is served next is trusted on first sight. A record
    /// that can't be read is forgotten as well.
    pub fn reset(&mut self) -> Result<(), PinsError> {
        match &mut self.place {
            Place::Memory(record) => {
                *record = Arc::default();
                Ok(())
            }
            Place::File(file) => file.reset(),
        }
    }

    /// Something about the list of pinned servers that a person should know, once: it was lost, and with it the knowledge of
    /// which other pins should be there. The pins that are there are judged by all the same.
    pub fn take_notice(&mut self) -> Option<String> {
        match &mut self.place {
            Place::Memory(_) => None,
            Place::File(file) => file.take_notice(),
        }
    }

    /// Every server that has or had pins in this state directory, with those whose record can't be read or is gone, by file
    /// name. Each keeps a file open once its record was asked for: drop it when it was looked at.
    pub fn all(state: &StateDirectory) -> Vec<(ServerKey, Pins)> {
        every(state)
            .into_iter()
            .flatten()
            .map(|key| {
                let pins = Pins::open(state, &key);
                (key, pins)
            })
            .collect()
    }

    /// Files among the records that don't say whose they are: damaged, of a newer mcpindex, or not ours.
    pub fn strays(state: &StateDirectory) -> Vec<PathBuf> {
        every(state).into_iter().filter_map(Result::err).collect()
    }
}

fn every(state: &StateDirectory) -> Vec<Result<ServerKey, PathBuf>> {
    // Nothing is locked to look.
    Index::of(state, Duration::ZERO).all()
}
