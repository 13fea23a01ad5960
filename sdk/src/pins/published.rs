//! The published client's pin files (version 2), read to take them over; never written.
//!
//! Invariant: a file that is not exactly such a store is named and skipped, never half taken over.

use crate::state::StateDirectory;

/// One of its pin files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPins {
    /// Its name for the server: the entry's name in a host's configuration.
    pub server_id: String,
    /// The tools: name and definition as recorded (JSON text).
    pub tools: Vec<(String, String)>,
}

/// All of them, or what is wrong with one.
pub fn published_pins(state: &StateDirectory) -> Vec<Result<PublishedPins, String>> {
    let _ = state;
    todo!("pins")
}
