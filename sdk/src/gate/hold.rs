//! One hold: what is not let through, and on what evidence.
//!
//! Invariant: the words of the server stand in `changes`, `markers` and `tool` alone.

use mcpindex_contract::action::Action;
use mcpindex_contract::change::Change;
use mcpindex_contract::markers::Marker;
use mcpindex_contract::posture::{Decision, Reason};

/// Why something is held, as a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldClass {
    /// The tool is not what was approved.
    Drift,
    /// A tool that a pinned server did not have.
    NewTool,
    /// A tool seen for the first time carries markers.
    FirstSight,
    /// Two tools of one name.
    Duplicate,
    /// The definition has no digest, or is no tool at all.
    Unreadable,
    /// A person refused this digest.
    Refused,
    /// The organisation refused this digest.
    OrganisationRefused,
    /// What the tool is pinned to is approved by the organisation no more.
    ApprovalOver,
    /// The name is not in the server's last whole listing.
    NotListed,
    /// There is no listing to judge by: none came in time, or it could not be read to its end.
    NoListing,
    /// The pins can't be read or saved.
    PinsUnusable,
    /// The call ran; its result carries markers.
    Result,
    /// Staged, so that a person sees what a hold looks like.
    Drill,
}

impl HoldClass {
    /// For programs: `drift`, `new-tool`, `first-sight`, `duplicate`, `unreadable`, `refused`, `organisation-refused`, `approval-over`, `not-listed`, `no-listing`,
    /// `pins-unusable`, `result`, `drill`.
    pub fn name(self) -> &'static str {
        match self {
            HoldClass::Drift => "drift",
            HoldClass::NewTool => "new-tool",
            HoldClass::FirstSight => "first-sight",
            HoldClass::Duplicate => "duplicate",
            HoldClass::Unreadable => "unreadable",
            HoldClass::Refused => "refused",
            HoldClass::OrganisationRefused => "organisation-refused",
            HoldClass::ApprovalOver => "approval-over",
            HoldClass::NotListed => "not-listed",
            HoldClass::NoListing => "no-listing",
            HoldClass::PinsUnusable => "pins-unusable",
            HoldClass::Result => "result",
            HoldClass::Drill => "drill",
        }
    }
}

/// One hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// The server's name in texts ([`super::GateOptions::server`]).
    pub server: String,
    /// The tool's name as the server (or the call) spells it.
    pub tool: String,
    /// The class.
    pub class: HoldClass,
    /// `hold` or `inconclusive`.
    pub decision: Decision,
    /// Why; never empty.
    pub reasons: Vec<Reason>,
    /// How it differs from the baseline.
    pub changes: Vec<Change>,
    /// Markers that the baseline lacks.
    pub markers: Vec<Marker>,
    /// The written digest of the baseline.
    pub approved_digest: Option<String>,
    /// The written digest of what is declared now.
    pub declared_digest: Option<String>,
    /// What a call of it does, by its declaration; `None` when that is switched off or unknown.
    pub action: Option<Action>,
}

impl Hold {
    /// By which two holds of a tool are the same thing to tell.
    pub(super) fn mark(&self) -> String {
        let declared = self.declared_digest.as_deref().unwrap_or(self.class.name());
        match self.class {
            HoldClass::OrganisationRefused | HoldClass::ApprovalOver => {
                format!("{declared} {}", self.class.name())
            }
            _ => declared.to_owned(),
        }
    }
}
