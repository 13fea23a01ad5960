//! What a gate has to tell beside the messages: for the person's one line, for programs. (Telemetry: `sighting`.)
//!
//! Invariant: an event is told once for the same tool and digest, however often the server lists it.

use mcpindex_contract::change::Change;
use mcpindex_contract::posture::Reason;
use mcpindex_contract::surface::MemberKind;

use crate::gate::hold::Hold;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The first listing of a server that nothing was pinned of.
    FirstSight {
        /// How many tools were pinned.
        pinned: usize,
        /// How many were withheld.
        withheld: usize,
    },
    /// A tool is left out of the listing (or would be, under monitor).
    Withheld(Hold),
    /// A tool changed and is shown all the same: what was noted about it.
    Accepted {
        /// The tool.
        tool: String,
        /// The written digest of what is declared now.
        digest: String,
        /// What changed.
        changes: Vec<Change>,
        /// The notes of the verdict.
        notes: Vec<Reason>,
    },
    /// The organisation approved exactly what a tool declares: it is held to that from now on.
    Obeyed {
        /// The tool.
        tool: String,
        /// The written digest.
        digest: String,
        /// The decision's place in the organisation's chain.
        decision: u64,
    },
    /// A pinned tool is not in the listing any more.
    ToolGone {
        /// The tool.
        tool: String,
    },
    /// A call was refused.
    CallHeld(Hold),
    /// A result was withheld or noted for its markers.
    ResultMarked {
        /// The tool.
        tool: String,
        /// Whether the client did not get it.
        withheld: bool,
    },
    /// Instructions, prompts or resources are not what was pinned.
    ContextDrift {
        /// `None` for instructions.
        kind: Option<MemberKind>,
        /// Name or URI; empty for instructions.
        name: String,
        /// The changes.
        changes: Vec<Change>,
        /// Whether it was left out (instructions under guard and strict).
        withheld: bool,
    },
    /// A message was dropped or refused, since two readers could take it differently or it answers nothing.
    Dropped {
        /// Why, in one line of ours.
        reason: String,
    },
    /// The listing could not be read to its end.
    ListingFailed {
        /// Why, in one line of ours.
        reason: String,
    },
    /// The pins can't be read or saved; calls are held.
    PinsUnusable {
        /// The error's line.
        reason: String,
    },
    /// Something about the pins that a person should know, and that holds nothing ([`crate::pins::Pins::take_notice`]).
    PinsNotice {
        /// One line.
        notice: String,
    },
    /// A person's decision was seen: the tool is listed again.
    Released {
        /// The tool.
        tool: String,
        /// The written digest.
        digest: String,
    },
}
