//! The JSON of `explain`, one object for each tool; its parts stand in the document of `review` too.
//!
//! Invariant: a digest or hash that can't be had is `null` and its reason stands beside it; every string of the server is a
//! value, never a member's name, and a witness is JSON as the schema engine made it.

use mcpindex_contract::action::Action;
use mcpindex_contract::capability::Capabilities;
use mcpindex_contract::change::Change;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::declaration::Evidence;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::Marker;
use mcpindex_contract::posture::{Posture, Reason};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Explanation;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    /// Of a batch: the line's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Option<&'a RawValue>>,
    name: &'a str,
    definition_digest: Sides,
    #[serde(skip_serializing_if = "Sides::is_empty")]
    no_definition_digest: Sides,
    contract_hash: Sides,
    #[serde(skip_serializing_if = "Sides::is_empty")]
    no_contract_hash: Sides,
    changes: Vec<ChangePart<'a>>,
    postures: Postures,
    reasons: Vec<ReasonPart<'a>>,
    notes: Vec<ReasonPart<'a>>,
    marker_level: &'static str,
    markers: Vec<MarkerPart<'a>>,
    capabilities: CapabilitiesPart<'a>,
    action: ActionPart<'a>,
}

#[derive(Serialize)]
struct Sides {
    before: Option<String>,
    after: Option<String>,
}

impl Sides {
    fn of(explanation: &Explanation, view: impl Fn(&Definition) -> Option<String>) -> Sides {
        Sides {
            before: explanation.before.as_ref().and_then(&view),
            after: explanation.after.as_ref().and_then(&view),
        }
    }

    fn is_empty(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct ChangePart<'a> {
    kind: &'static str,
    pointer: &'a str,
    direction: &'static str,
    safety_relevant: bool,
    before: Option<&'a str>,
    after: Option<&'a str>,
    witness: Option<&'a RawValue>,
    rule: Option<&'a str>,
    published_kind: &'static str,
    sentence: &'static str,
}

#[derive(Serialize)]
struct Postures {
    monitor: &'static str,
    guard: &'static str,
    strict: &'static str,
}

#[derive(Serialize)]
pub(in crate::cli) struct ReasonPart<'a> {
    code: &'static str,
    sentence: &'a str,
    pointer: &'a str,
    /// The postures that hold for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    postures: Vec<&'static str>,
}

#[derive(Serialize)]
pub(in crate::cli) struct MarkerPart<'a> {
    class: &'static str,
    weight: u32,
    pointer: &'a str,
    offset: usize,
    excerpt: &'a str,
    view: &'static str,
    /// Whether the baseline lacks it.
    introduced: bool,
}

/// One line of a batch.
pub(super) fn line(id: Option<&RawValue>, explanation: &Explanation) -> String {
    let document = Document {
        id: Some(id),
        ..document(explanation)
    };
    // Fails only for maps with keys that are no strings; there are none.
    serde_json::to_string(&document).unwrap_or_default()
}

/// The document of one tool.
pub(super) fn pretty(explanation: &Explanation) -> String {
    serde_json::to_string_pretty(&document(explanation)).unwrap_or_default()
}

#[derive(Serialize)]
struct Mistake<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Option<&'a RawValue>>,
    error: &'a str,
}

/// Instead of a document, where nothing could be explained.
pub(super) fn mistake(error: &str) -> String {
    serde_json::to_string_pretty(&Mistake { id: None, error }).unwrap_or_default()
}

/// Instead of a line, where nothing could be explained.
pub(super) fn line_mistake(id: Option<&RawValue>, error: &str) -> String {
    serde_json::to_string(&Mistake { id: Some(id), error }).unwrap_or_default()
}

fn document(explanation: &Explanation) -> Document<'_> {
    let examination = &explanation.examination;
    let decision = |posture| explanation.verdict(posture).decision.name();
    let strict = explanation.verdict(Posture::Strict);
    let guard = explanation.verdict(Posture::Guard);
    Document {
        id: None,
        name: explanation.name(),
        definition_digest: Sides::of(explanation, |definition| {
            (definition.no_digest().is_none()).then(|| definition.digest().to_string())
        }),
        no_definition_digest: Sides::of(explanation, |definition| {
            definition.no_digest().map(ToString::to_string)
        }),
        contract_hash: Sides::of(explanation, |definition| contract_hash(definition).ok()),
        no_contract_hash: Sides::of(explanation, |definition| {
            contract_hash(definition).err().map(|reason| reason.to_string())
        }),
        changes: examination.changes.iter().map(change_part).collect(),
        postures: Postures {
            monitor: decision(Posture::Monitor),
            guard: decision(Posture::Guard),
            strict: decision(Posture::Strict),
        },
        reasons: strict
            .reasons
            .iter()
            .map(|reason| {
                let holds = |posture: &Posture| explanation.verdict(*posture).reasons.contains(reason);
                reason_part(reason, Posture::ALL.iter().filter(|posture| holds(posture)))
            })
            .collect(),
        notes: guard
            .notes
            .iter()
            .map(|note| reason_part(note, [].iter()))
            .collect(),
        marker_level: examination.scan.level.name(),
        markers: examination
            .scan
            .markers
            .iter()
            .map(|marker| marker_part(marker, examination.introduced.contains(marker)))
            .collect(),
        capabilities: capabilities_part(&examination.capabilities),
        action: action_part(&examination.action),
    }
}

pub(in crate::cli) fn change_part(change: &Change) -> ChangePart<'_> {
    ChangePart {
        kind: change.kind.name(),
        pointer: &change.pointer,
        direction: change.kind.direction().name(),
        safety_relevant: change.kind.safety_relevant(),
        before: change.before.as_deref(),
        after: change.after.as_deref(),
        witness: change
            .witness
            .as_deref()
            .and_then(|witness| serde_json::from_str(witness).ok()),
        rule: change.rule.as_deref(),
        published_kind: change.kind.published(),
        sentence: change.kind.sentence(),
    }
}

pub(in crate::cli) fn reason_part<'a, 'b>(
    reason: &'a Reason,
    postures: impl Iterator<Item = &'b Posture>,
) -> ReasonPart<'a> {
    ReasonPart {
        code: reason.code,
        sentence: &reason.sentence,
        pointer: &reason.pointer,
        postures: postures.map(|posture| posture.name()).collect(),
    }
}

pub(in crate::cli) fn marker_part(marker: &Marker, introduced: bool) -> MarkerPart<'_> {
    MarkerPart {
        class: marker.class.name(),
        weight: marker.weight,
        pointer: &marker.pointer,
        offset: marker.offset,
        excerpt: &marker.excerpt,
        view: marker.view,
        introduced,
    }
}

#[derive(Serialize)]
pub(in crate::cli) struct CapabilitiesPart<'a> {
    rank: &'static str,
    destructive: bool,
    classes: Vec<CapabilityPart<'a>>,
    notes: &'a [String],
    warnings: &'a [String],
}

#[derive(Serialize)]
struct CapabilityPart<'a> {
    class: &'static str,
    confidence: String,
    evidence: Vec<EvidencePart<'a>>,
}

#[derive(Serialize)]
struct EvidencePart<'a> {
    source: String,
    detail: &'a str,
    confidence: String,
}

fn evidence_parts(evidence: &[Evidence]) -> Vec<EvidencePart<'_>> {
    evidence
        .iter()
        .map(|one| EvidencePart {
            source: one.source.to_string(),
            detail: &one.detail,
            confidence: one.confidence.to_string(),
        })
        .collect()
}

pub(in crate::cli) fn capabilities_part(capabilities: &Capabilities) -> CapabilitiesPart<'_> {
    CapabilitiesPart {
        rank: capabilities.rank.name(),
        destructive: capabilities.destructive,
        classes: capabilities
            .classes
            .iter()
            .map(|capability| CapabilityPart {
                class: capability.class.name(),
                confidence: capability.confidence.to_string(),
                evidence: evidence_parts(&capability.evidence),
            })
            .collect(),
        notes: &capabilities.notes,
        warnings: &capabilities.warnings,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct ActionPart<'a> {
    types: Vec<&'static str>,
    effective: &'static str,
    blast_radius: &'static str,
    side_effect: &'static str,
    reversibility: &'static str,
    egress: &'static str,
    autonomy_ceiling: &'static str,
    domain: &'static str,
    selection: &'static str,
    scope: &'static str,
    write_payload: Option<&'a str>,
    credential: Option<&'a str>,
    notes: Vec<&'static str>,
    evidence: Vec<EvidencePart<'a>>,
}

pub(in crate::cli) fn action_part(action: &Action) -> ActionPart<'_> {
    ActionPart {
        types: action.types.iter().map(|kind| kind.name()).collect(),
        effective: action.effective.name(),
        blast_radius: action.blast.name(),
        side_effect: action.side_effect.name(),
        reversibility: action.reversibility.name(),
        egress: action.egress.name(),
        autonomy_ceiling: action.ceiling.name(),
        domain: action.domain.name(),
        selection: action.selection.name(),
        scope: action.scope.name(),
        write_payload: action.write_payload.as_deref(),
        credential: action.credential.as_deref(),
        notes: action.notes.iter().map(|note| note.name()).collect(),
        evidence: evidence_parts(&action.evidence),
    }
}
