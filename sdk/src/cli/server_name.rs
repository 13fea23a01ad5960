//! Which server a person means: `npm:NAME`, a URL, a short id, or the name of an entry in a host's configuration.
//!
//! Invariant: a name that fits two servers is a mistake that names both, never a guess.

use mcpindex::pins::ServerKey;
use mcpindex::state::StateDirectory;

/// The server with pins (or the identity, when it has none) that `text` names. An error is one line for the person.
pub(super) fn resolve(text: &str, state: &StateDirectory) -> Result<ServerKey, String> {
    let _ = (text, state);
    todo!("pins")
}
