//! The closed vocabulary of changes: one table, from which the documentation page, the API and the telemetry's
//! closed set are made.
//!
//! Invariant: a kind's name never changes its meaning, and a name of the published clients' vocabulary keeps
//! their meaning and their "safety relevant"; every kind here is one that [`crate::diff`] gives.

mod row;
mod table;

pub use row::{CamelRow, Row};
pub use table::ChangeKind;

use crate::digest::Digest;
use crate::surface::MemberKind;

/// What a change does to calls that were valid before, or to what the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Every call that was valid stays valid.
    Widening,
    /// Some call that was valid no longer is.
    Narrowing,
    /// Text that the model reads, or what comes back, differs.
    Meaning,
    /// An annotation differs, or only how something is written.
    Hint,
    /// It could not be compared further.
    Opaque,
}

impl Direction {
    /// `widening`, `narrowing`, `meaning`, `hint` or `opaque`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Widening => "widening",
            Direction::Narrowing => "narrowing",
            Direction::Meaning => "meaning",
            Direction::Hint => "hint",
            Direction::Opaque => "opaque",
        }
    }
}

/// What guard does about a kind of change. Strict holds whatever guard decides about, and monitor holds nothing;
/// a marker, a request for context or a capability that the change brings is held under guard whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Held until a person approves it.
    Hold,
    /// Proceeds with a note.
    Proceed,
    /// Proceeds unless it is more than a harmless widening.
    ProceedIfBenign,
    /// Proceeds when our own classes agree with the hint.
    ProceedIfAgreed,
    /// Proceeds when it brings names and types only.
    ProceedIfBare,
    /// Reported in every posture, strict too: no tool's contract.
    Report,
}

impl Treatment {
    /// `hold`, `proceed`, `proceed-if-benign`, `proceed-if-agreed`, `proceed-if-bare` or `report`.
    pub fn name(self) -> &'static str {
        match self {
            Treatment::Hold => "hold",
            Treatment::Proceed => "proceed",
            Treatment::ProceedIfBenign => "proceed-if-benign",
            Treatment::ProceedIfAgreed => "proceed-if-agreed",
            Treatment::ProceedIfBare => "proceed-if-bare",
            Treatment::Report => "report",
        }
    }

    /// What strict does about the same kind.
    pub fn under_strict(self) -> Treatment {
        match self {
            Treatment::Report => Treatment::Report,
            _ => Treatment::Hold,
        }
    }

    /// One sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Treatment::Hold => "Held until a person approves it.",
            Treatment::Proceed => "Proceeds, with a note.",
            Treatment::ProceedIfBenign => {
                "Proceeds, with a note; held for a tool that deletes, executes, administers or pays, and where very \
                 many names are new at once."
            }
            Treatment::ProceedIfAgreed => {
                "Proceeds, with a note, when what the tool is seen to do agrees with the hint; held otherwise."
            }
            Treatment::ProceedIfBare => {
                "Proceeds, with a note, when it brings names and types only; held when it brings prose."
            }
            Treatment::Report => "Reported, and nothing is held: it is no part of a tool's contract.",
        }
    }

    /// Every treatment, in the order shown.
    pub fn all() -> &'static [Treatment] {
        &[
            Treatment::Hold,
            Treatment::Proceed,
            Treatment::ProceedIfBenign,
            Treatment::ProceedIfAgreed,
            Treatment::ProceedIfBare,
            Treatment::Report,
        ]
    }
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// What the server says of itself: its info, its capabilities, the protocol version.
    Server,
    /// The server's instructions.
    Instructions,
    /// One declared thing, by kind and name.
    Member(MemberKind, String),
}

/// One change between two surfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What kind of change.
    pub kind: ChangeKind,
    /// What it is about.
    pub subject: Subject,
    /// RFC 6901 pointer into the definition (empty: the whole of it).
    pub pointer: String,
    /// The text before: a string's own text, anything else indented JSON; `None` where there was nothing.
    pub before: Option<String>,
    /// The text after, likewise.
    pub after: Option<String>,
    /// The digest of the definition (or instructions) before.
    pub before_digest: Option<Digest>,
    /// The digest of the definition (or instructions) after.
    pub after_digest: Option<Digest>,
    /// For a narrowing: arguments, as compact JSON, that were accepted before and are refused now. For a changed
    /// output schema: a result that was not allowed before and is now.
    pub witness: Option<String>,
    /// The rule that decided, where there is no witness.
    pub rule: Option<String>,
}
