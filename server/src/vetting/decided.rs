//! What the organisation decided of what is asked about, and what that is worth beside all else that is known.
//!
//! Invariant: a refusal asks for a person whatever else is known. An approval answers what a person would be asked about that one
//! definition. For somebody who holds it, as a gate does, nothing else matters but which tool a call means; to somebody who asks what
//! the server declares now it says nothing about what could not be determined.

use mcpindex::check::Answer;
use mcpindex_contract::approval::{Standing, State};
use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{MemberKind, Surface};

use super::Reasons;

/// Reasons to ask a person that are about the definition itself: who approved exactly this one has been asked.
const ABOUT_THE_DEFINITION: [&str; 3] = ["alone", "changed-lately", "marker"];
/// What stays open even to somebody who holds exactly what was approved: which tool a call means, and what a text means that readers
/// read differently. A gate holds both.
const OPEN: [&str; 2] = ["duplicate-name", "no-digest"];

/// What was decided at one server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decided {
    /// Of the one definition, or of all that somebody decided about at the server.
    pub(crate) standings: Vec<Standing>,
    /// Whether the chain of approvals is broken: nothing from there on has approved anything.
    pub(crate) is_broken: bool,
}

/// What was decided of a tool or a server, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    /// It is not known which tools, or which definition, that would be.
    Unknown,
    /// Nobody has decided, or not of all that a server declares.
    None,
    /// So it stands.
    Decided(State),
}

impl Approval {
    /// `unknown`, `none`, or the name of the state.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Approval::Unknown => "unknown",
            Approval::None => "none",
            Approval::Decided(state) => state.name(),
        }
    }

    fn of(state: Option<State>) -> Approval {
        state.map_or(Approval::None, Approval::Decided)
    }
}

impl Decided {
    fn state(&self, tool: &str, digest: Digest) -> Option<State> {
        let is_it = |standing: &&Standing| standing.record.tool == tool && standing.record.digest == digest;
        self.standings.iter().find(is_it).map(|standing| standing.state)
    }
}

/// Adds what was decided of one definition. `is_held`: whoever asks holds it, and does not ask for what the server declares now.
pub(super) fn of_tool(
    reasons: &mut Reasons,
    decided: &Decided,
    about: Option<(&str, Digest)>,
    is_held: bool,
) -> Approval {
    broken(reasons, decided);
    let Some((tool, digest)) = about else {
        return Approval::Unknown;
    };
    let state = decided.state(tool, digest);
    if state == Some(State::Approved) {
        reasons.overrule(|code| match is_held {
            true => !OPEN.contains(&code),
            false => ABOUT_THE_DEFINITION.contains(&code),
        });
    }
    told(reasons, state);
    Approval::of(state)
}

/// Adds what was decided of all the tools that a server declares now: one that is refused speaks for the server, and only all of
/// them together approve it. What a model reads beside the tools nobody approves, so a marker there still asks for a person.
pub(super) fn of_server(reasons: &mut Reasons, decided: &Decided, surface: Option<&Surface>) -> Approval {
    broken(reasons, decided);
    let Some(surface) = surface else {
        return Approval::Unknown;
    };
    let states: Vec<Option<State>> = surface
        .members_of(MemberKind::Tool)
        .map(|tool| decided.state(&tool.name, tool.definition.digest()))
        .collect();
    let worst = [
        State::Refused,
        State::Doubtful,
        State::Proposed,
        State::Expired,
        State::Withdrawn,
    ];
    let worst = worst.into_iter().find(|state| states.contains(&Some(*state)));
    let all = !states.is_empty() && states.iter().all(|state| *state == Some(State::Approved));
    let state = worst.or_else(|| all.then_some(State::Approved));
    if state == Some(State::Approved) {
        reasons.overrule(|code| code == "changed-lately");
    }
    told(reasons, state);
    Approval::of(state)
}

fn broken(reasons: &mut Reasons, decided: &Decided) {
    if decided.is_broken {
        reasons.add("approvals-broken", None);
    }
}

fn told(reasons: &mut Reasons, state: Option<State>) {
    match state {
        Some(State::Approved) => reasons.add("approved", Some(Answer::Ready)),
        Some(State::Refused) => reasons.add("refused", Some(Answer::NeedsPerson)),
        Some(State::Proposed) => reasons.add("approval-proposed", None),
        Some(State::Expired) => reasons.add("approval-expired", None),
        Some(State::Withdrawn) => reasons.add("approval-withdrawn", None),
        Some(State::Doubtful) => reasons.add("approval-doubtful", None),
        None => {}
    }
}
