//! What happens during a crawl, for whoever shows it.

use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::MemberKind;

pub use crate::sources::reading::Read;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A look begins.
    Started {
        /// The server.
        identity: String,
        /// The version.
        version: Option<String>,
    },
    /// A registry was read, or could not be.
    Read(Read),
    /// A look ended and is recorded.
    Looked {
        /// The server.
        identity: String,
        /// The version looked at.
        version: Option<String>,
        /// How it ended.
        outcome: Outcome,
        /// Why, or what was odd.
        detail: Option<String>,
        /// Tools listed.
        tools: Option<usize>,
        /// The drift's number, when there is one.
        drift: Option<i64>,
        /// Its changes by kind name, most first.
        kinds: Vec<(String, i64)>,
        /// How many tools, prompts, … changed without coming or going.
        changed: Vec<(MemberKind, i64)>,
        /// Whether there was something to compare with.
        compared: bool,
    },
}
