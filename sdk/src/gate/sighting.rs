//! A tool as a gate sees it for the first time, or changed: what telemetry is made of.
//!
//! Invariant: a sighting is told once for each pin and new definition, also over many processes, since the record of pins
//! says what was seen before; a call tells none.

use mcpindex_contract::change::ChangeKind;

/// One tool that a listing shows as it was not seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Its name.
    pub tool: String,
    /// The definition as the server sent it.
    pub definition: String,
    /// What is new about it.
    pub sight: Sight,
}

/// What is new about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// It was pinned, having had no pin.
    Pinned,
    /// It has no pin and waits for a person.
    Withheld,
    /// It differs from its pin.
    Drifted {
        /// The pinned definition, as sent.
        before: String,
        /// What changed; more than one change may be of a kind.
        kinds: Vec<ChangeKind>,
    },
}

/// Who is shown each sighting. Called while a listing is judged: it must take what it is given and be done.
pub trait Watch: Send + Sync {
    /// One sighting.
    fn seen(&self, sighting: Sighting);
}
