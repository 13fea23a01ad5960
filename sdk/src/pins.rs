//! What was declared when somebody trusted it: one record for each server and credential, in a file or in memory.
//!
//! A record holds the baseline of each tool (its pin: seen first, or approved), what was accepted since, what is held and
//! waits for a person, and the pins of instructions, prompts and resources. Nothing is dropped when a tool vanishes: one
//! that returns meets its old pin.
//!
//! Invariants: what was merely accepted never becomes the baseline; a record that is lost, unreadable or altered is an
//! error of its own and never an empty record; every update is one atomic, synced write, made under a lock on the newest
//! state, so that many processes lose nothing of each other's.

mod file;
mod published;
mod record;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use mcpindex_contract::identity::Identity;

use crate::state::StateDirectory;

pub use published::{PublishedPins, published_pins};
pub use record::{Accepted, Held, MemberPin, Pin, Record, TextPin, ToolPin, Via};

/// With which credentials a listing was obtained: never derived from a credential's value, since those rotate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthContext {
    /// A process of this machine.
    Local,
    /// HTTP without credentials.
    Anonymous,
    /// HTTP with a credential in this header (lower case).
    Header(String),
    /// HTTP with a token of this issuer.
    OAuth(String),
    /// As the person named it (`--context`).
    Named(String),
}

impl fmt::Display for AuthContext {
    /// `local`, `anonymous`, `header:NAME`, `oauth:ISSUER`, `context:NAME`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = formatter;
        todo!("pins")
    }
}

impl FromStr for AuthContext {
    type Err = PinsError;

    fn from_str(text: &str) -> Result<AuthContext, PinsError> {
        let _ = text;
        todo!("pins")
    }
}

/// Whose pins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey {
    /// Which server.
    pub identity: Identity,
    /// Seen how.
    pub context: AuthContext,
}

impl ServerKey {
    /// The name of the record's file: `<slug>--<h16>.json` as a lock's shard (lock format §1); the context is part of the name
    /// where it is not the usual one (`local` for a process, `anonymous` for a URL).
    pub fn file_name(&self) -> String {
        todo!("pins")
    }
}

/// Why there are no pins to judge by. Each of them holds every call, in every posture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinsError {
    /// The server was pinned before, and its file is gone.
    #[error(
        "the pins of {server} are gone, though it was pinned before: restore `{path}`, or `mcpindex pins reset` to trust it anew"
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
        /// What is wrong, with line and column where there is one.
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
    #[error("the pins of {server} were altered: `{path}`: {reason}")]
    Altered {
        /// The identity.
        server: String,
        /// The file.
        path: String,
        /// What doesn't fit.
        reason: String,
    },
    /// They can't be saved, so nothing new can be trusted.
    #[error("the pins of {server} can't be saved: `{path}`: {reason}")]
    NotSaved {
        /// The identity.
        server: String,
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// An auth context that is none.
    #[error("`{0}` is no auth context: expected local, anonymous, header:NAME, oauth:ISSUER or context:NAME")]
    Context(String),
}

/// The pins of one server.
pub struct Pins {
    // pins: file or memory
}

impl Pins {
    /// Pins that last as long as the process; for tests and for programs that keep their own.
    pub fn memory() -> Pins {
        todo!("pins")
    }

    /// The pins of this server in this state directory. Nothing is read yet.
    pub fn open(state: &StateDirectory, key: &ServerKey) -> Pins {
        let _ = (state, key);
        todo!("pins")
    }

    /// The record as it is now. The file is read again only when it is another than the one read last (one `stat`). A server
    /// that was never pinned has an empty record ([`Record::is_empty`]).
    pub fn record(&mut self) -> Result<Arc<Record>, PinsError> {
        todo!("pins")
    }

    /// Whether the file was replaced since [`Pins::record`] or [`Pins::update`] gave the last record. One `stat`.
    pub fn has_moved(&self) -> bool {
        todo!("pins")
    }

    /// Changes the newest record under the lock and writes it; nothing is written when `change` changes nothing.
    pub fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<Arc<Record>, PinsError> {
        let _ = change;
        todo!("pins")
    }

    /// Forgets the server, its record and that it was ever pinned: what is served next is trusted on first sight.
    pub fn reset(&mut self) -> Result<(), PinsError> {
        todo!("pins")
    }

    /// Every server that has pins in this state directory, with those whose record can't be read.
    pub fn all(state: &StateDirectory) -> Vec<(ServerKey, Pins)> {
        let _ = state;
        todo!("pins")
    }
}
