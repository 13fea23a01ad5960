//! What the list of differences says as a whole, made to agree with what was proved of the two schemas.
//!
//! Invariant: each answer has a difference that stands for it, and a witness holds in every reading.

use super::excerpt::excerpt;
use super::normal::{Engine, Id};
use super::{Acceptance, Comparison, Difference, EMPTIED, OVER_LIMIT};
use crate::change::{ChangeKind, Direction};
use crate::json::Value;

/// A whole instance that the old root accepts and the new one refuses, in every reading.
pub(super) fn witness(engine: &mut Engine<'_>, roots: &[(Id, Id)]) -> Option<Value> {
    for (before, after) in roots {
        for value in engine.counterexamples(*before, *after) {
            if confirmed(engine, roots, &value) {
                return Some((*value).clone());
            }
        }
    }
    None
}

pub(super) fn confirmed(engine: &mut Engine<'_>, roots: &[(Id, Id)], value: &Value) -> bool {
    roots.iter().all(|(before, after)| {
        engine.accepts(*before, value) == Some(true) && engine.accepts(*after, value) == Some(false)
    })
}

/// What is said of two schemas that differ and are too large to be compared.
pub(super) fn over_limit(before: &Value, after: &Value) -> Comparison {
    Comparison {
        acceptance: Acceptance::Undecidable,
        differences: vec![Difference {
            kind: ChangeKind::DeepSchemaUndiffable,
            pointer: String::new(),
            before: Some(excerpt(before)),
            after: Some(excerpt(after)),
            witness: None,
            rule: Some(OVER_LIMIT),
        }],
    }
}

/// Makes the list say what the comparison says: each answer has a difference that stands for it.
pub(super) fn complete(
    found: &mut Vec<Difference>,
    acceptance: Acceptance,
    witness: Option<Value>,
    exhausted: bool,
    before: &Value,
    after: &Value,
) {
    let has = |found: &[Difference], direction| found.iter().any(|one| one.kind.direction() == direction);
    let blank = |kind, witness| Difference {
        kind,
        pointer: String::new(),
        before: Some(excerpt(before)),
        after: Some(excerpt(after)),
        witness,
        rule: None,
    };
    if matches!(acceptance, Acceptance::Equal | Acceptance::Wider) {
        // What was left open in a part is settled for the whole.
        for one in found.iter_mut() {
            if is_settled_with_the_whole(one) {
                one.kind = match acceptance {
                    Acceptance::Equal => ChangeKind::SchemaRewritten,
                    _ => ChangeKind::ConstraintWidened,
                };
            }
        }
    }
    match acceptance {
        Acceptance::Equal if found.is_empty() => found.push(blank(ChangeKind::SchemaRewritten, None)),
        Acceptance::Wider
            if !has(found, Direction::Widening) && !found.iter().any(|one| one.rule == Some(EMPTIED)) =>
        {
            found.push(blank(ChangeKind::ConstraintWidened, None));
        }
        Acceptance::Narrower | Acceptance::Incomparable if !has(found, Direction::Narrowing) => {
            found.push(blank(ChangeKind::ConstraintNarrowed, witness));
        }
        Acceptance::Undecidable if exhausted => found.push(blank(ChangeKind::DeepSchemaUndiffable, None)),
        Acceptance::Undecidable if !has(found, Direction::Opaque) => {
            found.push(blank(ChangeKind::SchemaUndecided, None));
        }
        _ => {}
    }
}

/// Whether this says only that it is open which values a part accepts. What was not looked at stays open, since its texts
/// may differ too.
fn is_settled_with_the_whole(difference: &Difference) -> bool {
    difference.rule != Some(OVER_LIMIT)
        && matches!(
            difference.kind,
            ChangeKind::SchemaUndecided
                | ChangeKind::DeepSchemaUndiffable
                | ChangeKind::PatternPropertiesChanged
        )
}

/// The same differences for who reads results: what can come back that could not before is what matters.
pub(super) fn for_results(
    found: Vec<Difference>,
    acceptance: Acceptance,
    forward: bool,
    backward: bool,
    mut beyond: Option<Value>,
) -> Comparison {
    let acceptance = match (acceptance, forward, backward) {
        (Acceptance::Equal, ..) => Acceptance::Equal,
        (_, _, true) => Acceptance::Wider,
        (_, true, false) if beyond.is_some() => Acceptance::Narrower,
        (_, false, false) if beyond.is_some() => Acceptance::Incomparable,
        _ => Acceptance::Undecidable,
    };
    let differences = found
        .into_iter()
        .map(|mut one| {
            one.kind = match one.kind.direction() {
                Direction::Widening | Direction::Narrowing => ChangeKind::OutputSchemaChanged,
                _ => one.kind,
            };
            one.rule = one.rule.filter(|rule| *rule == OVER_LIMIT);
            one.witness = if one.kind == ChangeKind::OutputSchemaChanged {
                beyond.take()
            } else {
                None
            };
            one
        })
        .collect();
    Comparison {
        acceptance,
        differences,
    }
}
