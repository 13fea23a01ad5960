//! Text that moved between a schema and its union's branches, or is said once where it was said twice.
//!
//! A generator that writes `anyOf` around a type moves the description outwards; the model reads the same words of the
//! same argument.
//!
//! Invariant: only a text that came or went is looked at, never one that reads differently; and it counts as said only
//! where it stands for the same argument and for all of it.

use super::Difference;
use crate::canonical::same;
use crate::change::ChangeKind;
use crate::json::Value;

/// The most unions inside each other that are looked through, and the most branches of them together.
const MAX_UNIONS: usize = 4;
const MAX_BRANCHES: usize = 1_000;
const UNIONS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Where the other side has the text that a difference says came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// At the same place: nothing differs but what stands around it.
    There,
    /// Elsewhere, for the same argument.
    Elsewhere,
    /// Nowhere, or this is no text that came or went.
    Nowhere,
}

/// Leaves out what is said at the same place on both sides, and calls a rewriting what is said elsewhere of the same
/// argument.
pub(super) fn settle(found: &mut Vec<Difference>, before: &Value, after: &Value) {
    found.retain_mut(|difference| {
        let said = said_again(difference, before, after);
        if said == Said::Elsewhere {
            difference.kind = ChangeKind::SchemaRewritten;
        }
        said != Said::There
    });
}

/// Looks for the text of this difference on the other side.
fn said_again(difference: &Difference, before: &Value, after: &Value) -> Said {
    if !matches!(
        difference.kind,
        ChangeKind::ParamTextChanged | ChangeKind::DefaultChanged
    ) {
        return Said::Nowhere;
    }
    let (saying, other) = match (&difference.before, &difference.after) {
        (Some(_), None) => (before, after),
        (None, Some(_)) => (after, before),
        _ => return Said::Nowhere,
    };
    let Some((owner, word)) = difference.pointer.rsplit_once('/') else {
        return Said::Nowhere;
    };
    let Some(said) = saying.pointer(&difference.pointer) else {
        return Said::Nowhere;
    };
    let says = |schema: &Value| schema.get(word).is_some_and(|text| same(text, said));
    if other.pointer(owner).is_some_and(says) {
        return Said::There;
    }
    // What a union says holds for each of its branches.
    let mut place = owner;
    while let Some(outer) = out_of_union(place) {
        place = outer;
        if other.pointer(place).is_some_and(says) {
            return Said::Elsewhere;
        }
    }
    // What a branch says holds for the whole when it says it before the union was written around it, or after.
    let mut schemas: Vec<&Value> = other.pointer(owner).into_iter().collect();
    for _ in 0..MAX_UNIONS {
        schemas = schemas
            .into_iter()
            .flat_map(branches)
            .take(MAX_BRANCHES)
            .collect();
        if schemas.iter().any(|schema| says(schema)) {
            return Said::Elsewhere;
        }
    }
    Said::Nowhere
}

fn branches(schema: &Value) -> impl Iterator<Item = &Value> {
    UNIONS
        .into_iter()
        .filter_map(|union| match schema.get(union) {
            Some(Value::Array(branches)) => Some(branches),
            _ => None,
        })
        .flatten()
}

/// The pointer of the schema whose union this one is a branch of.
fn out_of_union(pointer: &str) -> Option<&str> {
    let (list, index) = pointer.rsplit_once('/')?;
    let (outer, union) = list.rsplit_once('/')?;
    let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    (is_index && UNIONS.contains(&union)).then_some(outer)
}
