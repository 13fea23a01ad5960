//! One tool beside what it has to be: its pin, or what is asked of a tool that has none.
//!
//! Invariant: a tool proceeds only by a verdict of `contract::posture`, and never when it has no digest, when its list has
//! two of its name that differ, or when a person or the organisation refused exactly this definition.

use std::borrow::Cow;
use std::sync::Arc;

use mcpindex_contract::action;
use mcpindex_contract::change::{Change, ChangeKind};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::markers::{self, Marker, Scan};
use mcpindex_contract::posture::{self, Decision, Posture, Reason, Verdict};

use crate::gate::GateOptions;
use crate::gate::hold::{Hold, HoldClass};
use crate::gate::organisation::Over;
use crate::gate::refusal::quoted;

/// The longest words of an approver that are repeated, in characters.
const WORDS: usize = 200;

/// One comparison, kept: an unchanged list of drifted tools costs nothing again.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    pub(super) against: Against,
    pub(super) digest: Digest,
    pub(super) meta: Option<Digest>,
    pub(super) outcome: Outcome,
}

impl Compared {
    /// Whether it is the comparison of this definition with this.
    pub(super) fn is_of(&self, against: &Against, definition: &Definition) -> bool {
        self.against == *against
            && self.digest == definition.digest()
            && self.meta == definition.meta().map(|meta| meta.digest)
    }

    /// The kind of each change that it found.
    pub(super) fn kinds(&self) -> Vec<ChangeKind> {
        let changes = match &self.outcome {
            Outcome::Proceeds { changes, .. } => changes,
            Outcome::Held(hold) => &hold.changes,
        };
        changes.iter().map(|change| change.kind).collect()
    }
}

/// What a tool was compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Against {
    FirstSight,
    NewTool,
    Refused,
    Duplicate,
    /// The organisation refused it, by this decision and for this reason.
    OrganisationRefused(u64, Option<String>),
    /// The organisation approved it, by this decision.
    Approved(u64),
    /// The pin, which the organisation has ended, by its written digest and meta digest.
    Ended(Over, String, Option<String>),
    /// The pin's written digest and meta digest.
    Baseline(String, Option<String>),
}

/// What came of a comparison.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Proceeds {
        changes: Vec<Change>,
        notes: Vec<Reason>,
    },
    Held(Arc<Hold>),
}

/// Compares one tool with what it is to be compared with. `scan` is that of the definition, where it was made already.
pub(super) fn compare(
    name: &str,
    before: Option<&Definition>,
    definition: &Definition,
    scan: Option<&Scan>,
    against: &Against,
    options: &GateOptions,
) -> Outcome {
    // Monitor judges as guard does, and only notes.
    let posture = match options.posture {
        Posture::Monitor => Posture::Guard,
        strictness => strictness,
    };
    let (mut verdict, changes, introduced): (Verdict, Vec<Change>, Vec<Marker>) = match against {
        // A new tool is no matter of a person's refusal, nor of two tools of one name.
        Against::FirstSight | Against::Refused | Against::OrganisationRefused(..) | Against::Duplicate
            if before.is_none() =>
        {
            let scan = match scan {
                Some(scan) => Cow::Borrowed(scan),
                None => Cow::Owned(markers::scan_definition(definition)),
            };
            let verdict = posture::first_sight_scanned(definition, &scan);
            let found = match verdict.decision {
                Decision::Proceed => Vec::new(),
                _ => scan.into_owned().markers,
            };
            (verdict, Vec::new(), found)
        }
        _ => {
            let examination = posture::examine(before, Some(definition));
            let verdict = examination.verdict(posture);
            (verdict, examination.changes, examination.introduced)
        }
    };
    if let Against::Approved(_) = against {
        return Outcome::Proceeds {
            changes,
            notes: verdict.notes,
        };
    }
    let class = match against {
        Against::OrganisationRefused(..) => HoldClass::OrganisationRefused,
        _ if definition.digest().is_raw() => HoldClass::Unreadable,
        Against::Duplicate => HoldClass::Duplicate,
        Against::Refused => HoldClass::Refused,
        Against::FirstSight => HoldClass::FirstSight,
        Against::NewTool => HoldClass::NewTool,
        // What changed beside it says more.
        Against::Ended(..) if verdict.decision == Decision::Proceed => HoldClass::ApprovalOver,
        Against::Approved(_) | Against::Ended(..) | Against::Baseline(..) => HoldClass::Drift,
    };
    if let Some(reason) = of_its_own(class, against) {
        verdict.reasons.insert(0, reason);
        if verdict.decision == Decision::Proceed {
            verdict.decision = Decision::Hold;
        }
    }
    if verdict.decision == Decision::Proceed {
        return Outcome::Proceeds {
            changes,
            notes: verdict.notes,
        };
    }
    Outcome::Held(Arc::new(Hold {
        server: options.server.clone(),
        tool: name.to_owned(),
        class,
        decision: match options.posture {
            Posture::Monitor => Decision::Proceed,
            Posture::Guard | Posture::Strict => verdict.decision,
        },
        reasons: verdict.reasons,
        changes,
        markers: introduced,
        approved_digest: before.map(|before| before.digest().to_string()),
        declared_digest: Some(definition.digest().to_string()),
        action: options.tell_action.then(|| action::classify(definition)),
    }))
}

/// What holds it whatever its definition says.
fn of_its_own(class: HoldClass, against: &Against) -> Option<Reason> {
    let said = |code, sentence: String| {
        Some(Reason {
            code,
            sentence,
            pointer: String::new(),
        })
    };
    match (against, class) {
        (_, HoldClass::Duplicate) => Some(reason(
            class,
            "The server lists more than one tool of this name, and they differ.",
        )),
        (Against::Refused, _) => Some(reason(
            HoldClass::Refused,
            "A person refused exactly this definition.",
        )),
        (Against::OrganisationRefused(decision, why), _) => {
            let sentence = format!("The organisation refused exactly this definition (decision {decision})");
            match why {
                Some(words) => said("refused", format!("{sentence}: {}.", quoted(words, WORDS))),
                None => said("refused", format!("{sentence}.")),
            }
        }
        (Against::Ended(over, ..), _) => match over {
            Over::Refused(decision) => said(
                "approval-withdrawn",
                format!("The organisation refused what the tool is pinned to (decision {decision})."),
            ),
            Over::Withdrawn => said(
                "approval-withdrawn",
                "The organisation's approval of what the tool is pinned to was taken back.".to_owned(),
            ),
            Over::Expired => said(
                "approval-expired",
                "The organisation's approval of what the tool is pinned to has ended.".to_owned(),
            ),
        },
        _ => None,
    }
}

/// A reason that is a matter of the gate, not of a definition.
pub(super) fn reason(class: HoldClass, sentence: &str) -> Reason {
    Reason {
        code: class.name(),
        sentence: sentence.to_owned(),
        pointer: String::new(),
    }
}
