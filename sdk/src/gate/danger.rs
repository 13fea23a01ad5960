//! Which of several changes and reasons a person should see first.
//!
//! Invariant: it orders what is shown and decides nothing.

use mcpindex_contract::change::{Change, ChangeKind, Direction};

/// How much a change or a reason calls for a look, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Danger {
    /// Text that addresses the model, or that could not be read or searched.
    Marker,
    /// The tool can do more, or says something else about what it destroys.
    Power,
    /// Calls that were valid are refused now.
    Narrowing,
    /// Nobody can say what changed for a call.
    Opaque,
    /// A tool that was not there.
    New,
    /// What a call means or gives back differs.
    Meaning,
    /// Text that the model reads differs.
    Text,
    /// More calls are valid, or only the writing differs.
    Benign,
}

impl Danger {
    /// Of a reason, by its code ([`mcpindex_contract::posture::Reason::code`]).
    pub fn of_code(code: &str) -> Danger {
        match code {
            "marker-introduced" | "first-sight-marker" | "asks-for-context" | "scan-incomplete"
            | "unreadable" | "no-digest" => Danger::Marker,
            "capability-gained"
            | "blast-radius-gained"
            | "dangerous-widening"
            | "hint-not-borne-out"
            | "many-widenings"
            | "approval-withdrawn"
            | "approval-expired" => Danger::Power,
            "output-schema-prose" => Danger::Text,
            // They hold nothing: a person is told how far the organisation got.
            "approval-stale" | "approval-proposed" | "approved-elsewhere" => Danger::Benign,
            "new-tool" => Danger::New,
            "tool-gone" => Danger::Narrowing,
            code => ChangeKind::from_name(code).map_or(Danger::Opaque, Danger::of_kind),
        }
    }

    /// Of a change.
    pub fn of_change(change: &Change) -> Danger {
        Danger::of_kind(change.kind)
    }

    fn of_kind(kind: ChangeKind) -> Danger {
        match (kind, kind.direction()) {
            (ChangeKind::UndigestableChanged, _) => Danger::Marker,
            (
                ChangeKind::AnnotationFlipToDestructive
                | ChangeKind::AnnotationHintChanged
                | ChangeKind::ParamMirroredToHeader,
                _,
            ) => Danger::Power,
            (ChangeKind::ToolAdded, _) => Danger::New,
            (ChangeKind::MetaChanged, _) => Danger::Benign,
            (_, Direction::Narrowing) => Danger::Narrowing,
            (_, Direction::Opaque) => Danger::Opaque,
            (_, Direction::Meaning) if kind.safety_relevant() => Danger::Meaning,
            (_, Direction::Meaning) => Danger::Text,
            (_, Direction::Widening | Direction::Hint) => Danger::Benign,
        }
    }
}
