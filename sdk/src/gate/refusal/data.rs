//! The answer itself as one JSON-RPC message, with the data for programs.
//!
//! Invariant: bounded in everything, and each string of somebody else's made visible and cut.

use mcpindex_contract::change::Change;
use serde::Serialize;
use serde_json::value::RawValue;

use super::values::{Told, tellable};
use super::{VALUE, danger, distinct, next_step, sentence};
use crate::gate::danger::Danger;
use crate::gate::hold::{Hold, HoldClass};
use crate::visible::{visible, visible_within};
use crate::wire::message;

/// The most changes that data carry.
const MAX_CHANGES: usize = 6;
/// The most markers that data carry.
const MAX_MARKERS: usize = 6;
/// The most reasons that data carry.
const MAX_REASONS: usize = 12;

#[derive(Serialize)]
struct ErrorPart<'a> {
    code: i64,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Data>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Data {
    mcpindex: bool,
    decision: &'static str,
    class: &'static str,
    server: String,
    tool: String,
    reached_server: bool,
    #[serde(skip_serializing_if = "is_false")]
    drill: bool,
    reasons: Vec<ReasonPart>,
    changes: Vec<ChangePart>,
    /// Reasons, changes and markers that are not in this answer.
    left_out: usize,
    markers: Vec<MarkerPart>,
    digests: Digests,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<ActionPart>,
    /// The command that shows it to a person; null where there is nothing to see.
    review: Option<&'static str>,
}

#[derive(Serialize)]
struct ReasonPart {
    code: &'static str,
    sentence: String,
    pointer: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ChangePart {
    kind: &'static str,
    pointer: String,
    direction: &'static str,
    safety_relevant: bool,
    /// Null where there is nothing, and where a marker stands in it.
    before: Option<String>,
    after: Option<String>,
    witness: Option<String>,
}

#[derive(Serialize)]
struct MarkerPart {
    class: &'static str,
    pointer: String,
}

#[derive(Serialize)]
struct Digests {
    approved: Option<String>,
    declared: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActionPart {
    effective: &'static str,
    types: Vec<&'static str>,
    blast_radius: &'static str,
    side_effect: &'static str,
    reversibility: &'static str,
    egress: &'static str,
    autonomy_ceiling: &'static str,
}

fn is_false(value: &bool) -> bool {
    !value
}

pub(super) fn data(hold: &Hold) -> Data {
    let value = |text: &str| visible_within(text, VALUE);
    let mut reasons = distinct(&hold.reasons);
    reasons.sort_by_key(|reason| Danger::of_code(reason.code));
    let mut changes: Vec<&Change> = hold.changes.iter().collect();
    changes.sort_by_key(|change| danger(change, hold));
    let rest = |all: usize, limit: usize| all.saturating_sub(limit);
    Data {
        mcpindex: true,
        decision: hold.decision.name(),
        class: hold.class.name(),
        server: value(&hold.server),
        tool: value(&hold.tool),
        reached_server: hold.class == HoldClass::Result,
        drill: hold.class == HoldClass::Drill,
        left_out: rest(reasons.len(), MAX_REASONS)
            + rest(changes.len(), MAX_CHANGES)
            + rest(hold.markers.len(), MAX_MARKERS),
        reasons: reasons
            .into_iter()
            .take(MAX_REASONS)
            .map(|reason| ReasonPart {
                code: reason.code,
                sentence: sentence(reason),
                pointer: value(&tellable(&reason.pointer)),
            })
            .collect(),
        changes: changes
            .into_iter()
            .take(MAX_CHANGES)
            .map(|change| {
                let told = Told::of(change, hold);
                ChangePart {
                    kind: change.kind.name(),
                    pointer: value(&tellable(&change.pointer)),
                    direction: change.kind.direction().name(),
                    safety_relevant: change.kind.safety_relevant(),
                    before: told.before.text(),
                    after: told.after.text(),
                    witness: told.witness.text(),
                }
            })
            .collect(),
        markers: hold
            .markers
            .iter()
            .take(MAX_MARKERS)
            .map(|marker| MarkerPart {
                class: marker.class.name(),
                pointer: value(&tellable(&marker.pointer)),
            })
            .collect(),
        digests: Digests {
            approved: hold.approved_digest.clone(),
            declared: hold.declared_digest.clone(),
        },
        action: hold.action.as_ref().map(|action| ActionPart {
            effective: action.effective.name(),
            types: action.types.iter().map(|kind| kind.name()).collect(),
            blast_radius: action.blast.name(),
            side_effect: action.side_effect.name(),
            reversibility: action.reversibility.name(),
            egress: action.egress.name(),
            autonomy_ceiling: action.ceiling.name(),
        }),
        review: next_step(hold.class),
    }
}

pub(super) fn answer(id: &str, code: i64, text: &str, data: Option<&Data>) -> Vec<u8> {
    let error = ErrorPart {
        code,
        message: text.lines().map(visible).collect::<Vec<_>>().join("\n"),
        data,
    };
    // Fails only for maps with keys that are no strings; there are none.
    let error = serde_json::to_string(&error).unwrap_or_default();
    // What is no JSON can't be a request's id; such a request is answered as JSON-RPC answers an unreadable one.
    let id = serde_json::from_str(id).unwrap_or(RawValue::NULL);
    message::error_answer(id.get(), &error).into_bytes()
}
