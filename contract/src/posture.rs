//! What a gate does about a definition: monitor, guard or strict, with reasons a person and a program can use.
//!
//! `before` is always the baseline: the definition that a person approved, or that was pinned at first sight. What proceeds
//! here never becomes the baseline, so that many small steps can't walk away from it.
//!
//! Invariants: strict never lets through what guard holds, and guard nothing that differs without a rule that says why;
//! a reason's sentence is ours to the letter, the server's words stand in changes and markers alone.

mod bare;
mod gains;
mod hints;

use crate::action::{Action, ActionType};
use crate::capability::Capabilities;
use crate::change::{Change, Treatment};
use crate::definition::Definition;
use crate::diff::{added, diff_instructions, diff_member, removed};
use crate::digest::NoDigest;
use crate::markers::{self, Level, Marker, MarkerClass, Scan};
use crate::surface::{Instructions, Member, MemberKind};
use gains::Classes;

/// The most benign widenings at once that guard lets through: with more, it is another tool than the one approved.
pub const MAX_WIDENINGS: usize = 32;

/// How much a gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posture {
    /// Nothing is held; what guard would hold is noted.
    Monitor,
    /// What may break a call, mislead the model or do more than before is held.
    Guard,
    /// Any drift at all is held.
    Strict,
}

impl Posture {
    /// Every posture, the mildest first.
    pub const ALL: [Posture; 3] = [Posture::Monitor, Posture::Guard, Posture::Strict];

    /// `monitor`, `guard` or `strict`.
    pub fn name(self) -> &'static str {
        match self {
            Posture::Monitor => "monitor",
            Posture::Guard => "guard",
            Posture::Strict => "strict",
        }
    }
}

/// What becomes of the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is listed and can be called.
    Proceed,
    /// It is withheld until a person approves it.
    Hold,
    /// Nothing could be decided: one side is no tool at all. A gate fails closed.
    Inconclusive,
}

impl Decision {
    /// `proceed`, `hold` or `inconclusive`.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Proceed => "proceed",
            Decision::Hold => "hold",
            Decision::Inconclusive => "inconclusive",
        }
    }
}

/// One reason for a decision, or one note beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// For programs: a [`crate::change::ChangeKind`]'s name, or one of the codes below.
    pub code: &'static str,
    /// One sentence for people; no word of it is the server's.
    pub sentence: String,
    /// RFC 6901 pointer into the definition (empty: the whole of it).
    pub pointer: String,
}

/// The codes of reasons that are no kind of change, each with its sentence.
pub const CODES: &[(&str, &str)] = &[
    (NEW_TOOL, "A new tool on a server that is pinned."),
    (TOOL_GONE, "The tool is gone from the listing."),
    (
        NO_DIGEST,
        "The definition can't be read without doubt, so nothing can be pinned to it.",
    ),
    (UNREADABLE, "What the server sent is no tool definition."),
    (
        MARKER,
        "The change brings text that addresses the model or points to a way out for data.",
    ),
    (
        ASKS_FOR_CONTEXT,
        "The change asks the model for what it knows: the conversation, its instructions, files or secrets.",
    ),
    (
        SCAN_INCOMPLETE,
        "The text is too large to be searched for markers to its end.",
    ),
    (
        CAPABILITY_GAINED,
        "By its declaration the tool can do something that it could not.",
    ),
    (
        BLAST_RADIUS_GAINED,
        "By its declaration a call of the tool can do more harm than before.",
    ),
    (
        DANGEROUS_WIDENING,
        "The tool deletes, executes, administers or pays, and takes calls that it refused before.",
    ),
    (
        MANY_WIDENINGS,
        "So much is new at once that it is another tool than the one approved.",
    ),
    (
        HINT_NOT_BORNE_OUT,
        "The hint makes the tool look more harmless than its declaration shows.",
    ),
    (
        OUTPUT_SCHEMA_PROSE,
        "The new output schema carries text that the model reads.",
    ),
    (
        FIRST_SIGHT_MARKER,
        "A definition never seen before carries markers of a high level.",
    ),
];

pub(crate) const NEW_TOOL: &str = "new-tool";
pub(crate) const TOOL_GONE: &str = "tool-gone";
pub(crate) const NO_DIGEST: &str = "no-digest";
pub(crate) const UNREADABLE: &str = "unreadable";
pub(crate) const MARKER: &str = "marker-introduced";
pub(crate) const ASKS_FOR_CONTEXT: &str = "asks-for-context";
pub(crate) const SCAN_INCOMPLETE: &str = "scan-incomplete";
pub(crate) const CAPABILITY_GAINED: &str = "capability-gained";
pub(crate) const BLAST_RADIUS_GAINED: &str = "blast-radius-gained";
pub(crate) const DANGEROUS_WIDENING: &str = "dangerous-widening";
pub(crate) const MANY_WIDENINGS: &str = "many-widenings";
pub(crate) const HINT_NOT_BORNE_OUT: &str = "hint-not-borne-out";
pub(crate) const OUTPUT_SCHEMA_PROSE: &str = "output-schema-prose";
pub(crate) const FIRST_SIGHT_MARKER: &str = "first-sight-marker";

impl Reason {
    /// A reason by its code, with the table's sentence.
    fn coded(code: &'static str, pointer: &str) -> Reason {
        let sentence = CODES.iter().find(|(name, _)| *name == code);
        Reason {
            code,
            sentence: sentence.map_or("", |(_, sentence)| sentence).to_owned(),
            pointer: pointer.to_owned(),
        }
    }

    fn of(change: &Change) -> Reason {
        Reason {
            code: change.kind.name(),
            sentence: change.kind.sentence().to_owned(),
            pointer: change.pointer.clone(),
        }
    }
}

/// A decision and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of the tool.
    pub decision: Decision,
    /// Why it does not proceed; empty when it does.
    pub reasons: Vec<Reason>,
    /// What is worth knowing beside; under monitor also what guard would hold for.
    pub notes: Vec<Reason>,
}

impl Verdict {
    /// The same under monitor: it proceeds, and what it would be held for is noted.
    pub fn under_monitor(mut self) -> Verdict {
        self.reasons.append(&mut self.notes);
        Verdict {
            decision: Decision::Proceed,
            reasons: Vec::new(),
            notes: self.reasons,
        }
    }
}

/// All that is known of one step from a baseline to what is declared now, from which every posture decides.
#[derive(Debug, Clone)]
pub struct Examination {
    /// Whether the tool is there now, and whether there is a baseline.
    presence: Presence,
    /// How it differs from the baseline.
    pub changes: Vec<Change>,
    /// What the definition now (or, when it is gone, the last one) can do.
    pub action: Action,
    /// What it can do, by classes.
    pub capabilities: Capabilities,
    /// The markers in it.
    pub scan: Scan,
    /// Those of its markers that the baseline lacks; all of them when there is no baseline.
    pub introduced: Vec<Marker>,
    /// What guard holds it for.
    holds: Vec<Reason>,
    /// What guard notes.
    notes: Vec<Reason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Nothing,
    Readable,
    /// One side is no tool at all.
    Unreadable,
}

/// Decides about one tool. `before: None` is a tool that a pinned server lists for the first time, `after: None` one that
/// it lists no more.
pub fn judge(posture: Posture, before: Option<&Definition>, after: Option<&Definition>) -> Verdict {
    if let (Some(before), Some(after)) = (before, after)
        && before.digest() == after.digest()
        && before.meta() == after.meta()
        && after.no_digest().is_none()
    {
        return proceed();
    }
    examine(before, after).verdict(posture)
}

/// Decides about a tool of a server that nothing is pinned of, under guard and strict.
pub fn first_sight(definition: &Definition) -> Verdict {
    first_sight_scanned(definition, &markers::scan_definition(definition))
}

/// The same with the scan of this very definition.
pub fn first_sight_scanned(definition: &Definition, scan: &Scan) -> Verdict {
    let mut reasons = unreadable(definition);
    let mut notes = Vec::new();
    match scan.level {
        Level::High => reasons.push(Reason::coded(FIRST_SIGHT_MARKER, "")),
        Level::None | Level::Low => notes = marker_reasons(&scan.markers),
    }
    if scan.incomplete {
        reasons.push(Reason::coded(SCAN_INCOMPLETE, ""));
    }
    let decision = match definition.no_digest() {
        Some(NoDigest::NotJson | NoDigest::NotAnObject) => Decision::Inconclusive,
        _ if reasons.is_empty() => Decision::Proceed,
        _ => Decision::Hold,
    };
    Verdict {
        decision,
        reasons,
        notes,
    }
}

/// Decides whether a server's instructions are left in the handshake (proceed) or out of it (hold).
pub fn judge_instructions(
    posture: Posture,
    before: Option<&Instructions>,
    after: Option<&Instructions>,
) -> Verdict {
    let Some(change) = diff_instructions(before, after) else {
        return proceed();
    };
    let scan = |side: Option<&Instructions>| markers::scan_text(side.map_or("", |side| &side.text));
    let (old, new) = (scan(before), scan(after));
    let mut reasons = marker_reasons(&markers::introduced(&old, &new));
    if new.incomplete {
        reasons.push(Reason::coded(SCAN_INCOMPLETE, ""));
    }
    let treatment = match posture {
        Posture::Monitor | Posture::Guard => change.kind.guard(),
        Posture::Strict => change.kind.guard().under_strict(),
    };
    let mut notes = Vec::new();
    match treatment {
        Treatment::Hold => reasons.insert(0, Reason::of(&change)),
        _ => notes.push(Reason::of(&change)),
    }
    let verdict = Verdict {
        decision: match reasons.is_empty() {
            true => Decision::Proceed,
            false => Decision::Hold,
        },
        reasons,
        notes,
    };
    match posture {
        Posture::Monitor => verdict.under_monitor(),
        Posture::Guard | Posture::Strict => verdict,
    }
}

/// Compares, scans and classifies once, for every posture.
pub fn examine(before: Option<&Definition>, after: Option<&Definition>) -> Examination {
    let nothing = Definition::read("{}");
    let shown = after.or(before).unwrap_or(&nothing);
    let scan = markers::scan_definition(shown);
    let introduced = match (before, after) {
        (Some(before), Some(_)) => markers::introduced(&markers::scan_definition(before), &scan),
        (None, _) => scan.markers.clone(),
        (Some(_), None) => Vec::new(),
    };
    let classes = Classes::of(shown);
    let mut examination = Examination {
        presence: presence(before, after),
        changes: Vec::new(),
        action: classes.action.clone(),
        capabilities: classes.capabilities.clone(),
        scan,
        introduced,
        holds: Vec::new(),
        notes: Vec::new(),
    };
    for definition in [before, after].into_iter().flatten() {
        examination.holds.extend(unreadable(definition));
    }
    match (before, after) {
        (None, None) => {}
        (None, Some(after)) => {
            examination.holds.push(Reason::coded(NEW_TOOL, ""));
            examination.changes.push(added(&tool(after)));
        }
        (Some(before), None) => {
            examination.holds.push(Reason::coded(TOOL_GONE, ""));
            examination.changes.push(removed(&tool(before)));
        }
        (Some(before), Some(after)) => examination.compare(before, after, &classes),
    }
    let found = marker_reasons(&examination.introduced);
    examination.holds.extend(found);
    examination.holds.dedup();
    examination
}

impl Examination {
    /// What this posture does.
    pub fn verdict(&self, posture: Posture) -> Verdict {
        let mut reasons = self.holds.clone();
        let mut notes = self.notes.clone();
        if posture == Posture::Strict {
            // Whatever guard only notes is a drift all the same.
            reasons.append(&mut notes);
        }
        let decision = match self.presence {
            Presence::Unreadable => Decision::Inconclusive,
            Presence::Nothing | Presence::Readable if reasons.is_empty() => Decision::Proceed,
            Presence::Nothing | Presence::Readable => Decision::Hold,
        };
        let verdict = Verdict {
            decision,
            reasons,
            notes,
        };
        match posture {
            Posture::Monitor => verdict.under_monitor(),
            Posture::Guard | Posture::Strict => verdict,
        }
    }

    fn compare(&mut self, before: &Definition, after: &Definition, classes: &Classes) {
        self.changes = diff_member(&tool(before), &tool(after));
        if self.changes.is_empty() {
            return;
        }
        let mut widenings = 0;
        for change in &self.changes {
            let reason = Reason::of(change);
            let held = match change.kind.guard() {
                Treatment::Hold => Some(reason.clone()),
                Treatment::Proceed | Treatment::Report => None,
                Treatment::ProceedIfBenign => {
                    widenings += 1;
                    is_drastic(&self.action).then(|| Reason::coded(DANGEROUS_WIDENING, &change.pointer))
                }
                Treatment::ProceedIfAgreed => (!hints::agrees(change, classes))
                    .then(|| Reason::coded(HINT_NOT_BORNE_OUT, &change.pointer)),
                Treatment::ProceedIfBare => {
                    let prose = after.member("outputSchema").and_then(bare::prose);
                    prose.map(|place| Reason::coded(OUTPUT_SCHEMA_PROSE, &format!("/outputSchema{place}")))
                }
            };
            match held {
                Some(reason) => self.holds.push(reason),
                None => self.notes.push(reason),
            }
        }
        if widenings > MAX_WIDENINGS {
            self.holds.push(Reason::coded(MANY_WIDENINGS, ""));
        }
        if self.scan.incomplete {
            self.holds.push(Reason::coded(SCAN_INCOMPLETE, ""));
        }
        self.holds.extend(classes.gained_since(&Classes::of(before)));
    }
}

fn proceed() -> Verdict {
    Verdict {
        decision: Decision::Proceed,
        reasons: Vec::new(),
        notes: Vec::new(),
    }
}

fn presence(before: Option<&Definition>, after: Option<&Definition>) -> Presence {
    let is_no_tool = |definition: &&Definition| {
        matches!(
            definition.no_digest(),
            Some(NoDigest::NotJson | NoDigest::NotAnObject)
        )
    };
    let mut sides = [before, after].into_iter().flatten().peekable();
    if sides.peek().is_none() {
        Presence::Nothing
    } else if sides.any(|side| is_no_tool(&side)) {
        Presence::Unreadable
    } else {
        Presence::Readable
    }
}

/// Why nothing can be pinned to this definition.
fn unreadable(definition: &Definition) -> Vec<Reason> {
    match definition.no_digest() {
        None => Vec::new(),
        Some(NoDigest::NotJson | NoDigest::NotAnObject) => vec![Reason::coded(UNREADABLE, "")],
        Some(reason) => vec![Reason::coded(NO_DIGEST, reason.pointer())],
    }
}

/// One reason for each place and class.
fn marker_reasons(found: &[Marker]) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for marker in found {
        let code = match marker.class {
            MarkerClass::AsksForContext => ASKS_FOR_CONTEXT,
            _ => MARKER,
        };
        let reason = Reason::coded(code, &marker.pointer);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Whether more calls of this tool are more than a convenience. By its words, since many a tool that only changes things
/// hints that it may destroy; where they say nothing, the hint is all there is.
fn is_drastic(action: &Action) -> bool {
    match action.effective_without_hints {
        ActionType::Unknown => action.is_drastic(),
        by_words => by_words.is_drastic(),
    }
}

/// The definition as a member of a listing.
fn tool(definition: &Definition) -> Member {
    Member {
        kind: MemberKind::Tool,
        name: definition.name().unwrap_or_default().to_owned(),
        definition: definition.clone(),
    }
}
