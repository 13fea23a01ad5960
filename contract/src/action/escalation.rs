//! Whether a change of a tool lets it do worse, and why.
//!
//! Invariant: the server's hints have no part in it. What it says of itself is compared as hints are (a value stated at its
//! default is no change); here only its words and schemas count.

use super::{Action, ActionType, Blast};
use std::fmt;

/// Why the later action is worse than the earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Escalation {
    /// One wrong call reaches more.
    Blast {
        /// Before.
        from: Blast,
        /// After.
        to: Blast,
    },
    /// It became one of delete, payment, execute and admin, or a worse one of them.
    Action {
        /// Before.
        from: ActionType,
        /// After.
        to: ActionType,
    },
    /// A parameter carries what is written, sent or run, where none did.
    WritePayload {
        /// Its JSON pointer; empty when the schema could not be looked through.
        pointer: String,
    },
    /// A parameter takes a credential, where none did.
    Credential {
        /// Its JSON pointer.
        pointer: String,
    },
}

/// Whether `after` does worse than `before`; the first reason in the order of [`Escalation`].
pub fn escalates(before: &Action, after: &Action) -> Option<Escalation> {
    let (from, to) = (before.effective_without_hints, after.effective_without_hints);
    if after.blast > before.blast {
        return Some(Escalation::Blast {
            from: before.blast,
            to: after.blast,
        });
    }
    if to.is_drastic() && to > from {
        return Some(Escalation::Action { from, to });
    }
    if let (None, Some(pointer)) = (&before.write_payload, &after.write_payload) {
        return Some(Escalation::WritePayload {
            pointer: pointer.clone(),
        });
    }
    match (&before.credential, &after.credential) {
        (None, Some(pointer)) => Some(Escalation::Credential {
            pointer: pointer.clone(),
        }),
        _ => None,
    }
}

impl fmt::Display for Escalation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Escalation::Blast { from, to } => {
                write!(f, "the blast radius rose from {} to {}", from.name(), to.name())
            }
            Escalation::Action { from, to } => write!(f, "the action became {to}, was {from}"),
            Escalation::WritePayload { pointer } if pointer.is_empty() => {
                f.write_str("the schema can no longer be looked through")
            }
            Escalation::WritePayload { pointer } => {
                write!(
                    f,
                    "a parameter now carries what is written, sent or run: {}",
                    pointer.escape_debug()
                )
            }
            Escalation::Credential { pointer } => {
                write!(
                    f,
                    "a parameter now takes a credential: {}",
                    pointer.escape_debug()
                )
            }
        }
    }
}
