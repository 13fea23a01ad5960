//! Which instances does one JSON Schema accept compared with another? (draft-07, 2019-09 and 2020-12.)
//!
//! A call is made of declared arguments: an object schema that declares properties and says nothing of others is
//! read as closed, on both sides alike. Where a text is read in more than one way (`nullable`; parts of one object
//! in `allOf`), a claim is made only if it holds in every reading. `format` is asserted, patterns are compared as
//! text and never run, and a reference to elsewhere is never followed.
//!
//! Invariant: sound before complete. *Equal* and *wider* are claimed only when proved by rule, *narrower* and
//! *incomparable* only with a checked witness or by a certain rule that names itself; all else is undecidable.
//! Work, depth and the size of what is given out are bounded, whatever the schemas.

mod accept;
mod arguments;
mod atom;
mod closing;
mod constraints;
mod decimal;
mod differences;
mod disjoint;
mod document;
mod excerpt;
mod format;
mod keywords;
mod moved;
mod normal;
mod pattern;
mod size;
mod summary;
mod texts;
mod unchanged;
mod unions;
mod validate;
mod witness;

use crate::canonical::same;
use crate::change::{ChangeKind, Direction};
use crate::json::Value;
use document::Reading;
use normal::{Engine, Id};

/// How what the new schema accepts stands to what the old one accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// Exactly the same.
    Equal,
    /// All that the old accepts.
    Wider,
    /// Nothing that the old does not accept, and not all of it; or the rule of emptied schemas applies.
    Narrower,
    /// Not all that the old accepts, and it is not proved that it accepts nothing more.
    Incomparable,
    /// None of these could be proved.
    Undecidable,
}

/// One difference that decides the comparison, blocks it, or is worth saying beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What kind of change.
    pub kind: ChangeKind,
    /// RFC 6901 pointer into the schema that has it: the one after, if both do.
    pub pointer: String,
    /// What stood there before: a string's own text, anything else as indented JSON; cut when long.
    pub before: Option<String>,
    /// What stands there after, likewise.
    pub after: Option<String>,
    /// For narrowing: a whole instance that the old schema accepts and the new one refuses (for results, the
    /// other way round).
    pub witness: Option<Value>,
    /// The certain rule by which it is narrowing, where there is no witness; or [`OVER_LIMIT`].
    pub rule: Option<&'static str>,
}

/// What was found out about two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The answer.
    pub acceptance: Acceptance,
    /// What leads to it, and changes of text inside the schemas, which never do.
    pub differences: Vec<Difference>,
}

/// Compares two schemas of a tool's arguments.
pub fn compare_input(before: &Value, after: &Value) -> Comparison {
    compare(before, after, false)
}

/// Compares two schemas of a tool's results, seen from who reads them: *wider* when every result of the new
/// schema is one that the old promised.
pub fn compare_output(before: &Value, after: &Value) -> Comparison {
    compare(before, after, true)
}

/// What [`Difference::rule`] says where two schemas are too large to be compared.
pub const OVER_LIMIT: &str = "schema-over-limit";
/// What the rule of emptied schemas is called in [`Difference::rule`].
const EMPTIED: &str = "schema-emptied";

fn compare(before: &Value, after: &Value, results: bool) -> Comparison {
    if same(before, after) {
        return Comparison {
            acceptance: Acceptance::Equal,
            differences: Vec::new(),
        };
    }
    if size::is_over_limit(before, after) {
        return summary::over_limit(before, after);
    }
    let mut engine = Engine::new(before, after);
    let roots: Vec<(Id, Id)> = readings(before, after)
        .into_iter()
        .map(|reading| engine.add_reading(before, after, reading))
        .collect();
    let forward = roots
        .iter()
        .all(|(before, after)| engine.includes(*before, *after));
    engine.allow_more_steps();
    let backward = roots
        .iter()
        .all(|(before, after)| engine.includes(*after, *before));
    engine.allow_more_steps();
    let mut found = differences::Walk::new(&mut engine, &roots, forward, backward).walk(before, after);
    moved::settle(&mut found, before, after);
    let narrowed = |difference: &Difference| {
        difference.kind.direction() == Direction::Narrowing
            && (difference.witness.is_some() || difference.rule.is_some_and(|rule| rule != EMPTIED))
    };
    let shown = found.iter().any(narrowed);
    engine.allow_more_steps();
    let whole = if forward || shown {
        None
    } else {
        summary::witness(&mut engine, &roots)
    };
    let refused = !forward && (shown || whole.is_some());
    let emptied = found.iter().any(|difference| difference.rule == Some(EMPTIED));
    let acceptance = match (forward, backward) {
        (true, true) => Acceptance::Equal,
        (true, false) => Acceptance::Wider,
        (false, true) if refused => Acceptance::Narrower,
        (false, false) if refused => Acceptance::Incomparable,
        _ => Acceptance::Undecidable,
    };
    summary::complete(&mut found, acceptance, whole, engine.exhausted, before, after);
    if results {
        let reversed: Vec<(Id, Id)> = roots.iter().map(|(before, after)| (*after, *before)).collect();
        engine.allow_more_steps();
        let beyond = if backward {
            None
        } else {
            summary::witness(&mut engine, &reversed)
        };
        return summary::for_results(found, acceptance, forward, backward, beyond);
    }
    let acceptance = match acceptance {
        Acceptance::Wider | Acceptance::Undecidable if emptied => Acceptance::Narrower,
        other => other,
    };
    Comparison {
        acceptance,
        differences: found,
    }
}

/// The readings that these two texts can be read in.
fn readings(before: &Value, after: &Value) -> Vec<Reading> {
    let (mut nullable, mut parts) = (false, false);
    let mut open = vec![before, after];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                let has = |words: &[&str]| members.iter().any(|(name, _)| words.contains(&name.as_str()));
                nullable |= members
                    .iter()
                    .any(|(name, said)| name == "nullable" && *said == Value::Bool(true));
                parts |= has(&["allOf", "if", "not", "dependentSchemas", "dependencies"])
                    || (has(&["properties"]) && has(&["anyOf", "oneOf", "$ref"]));
                open.extend(members.iter().map(|(_, member)| member));
            }
            _ => {}
        }
    }
    let mut readings = vec![Reading {
        nullable: false,
        together: false,
    }];
    if nullable {
        readings.push(Reading {
            nullable: true,
            together: false,
        });
    }
    if parts {
        let together: Vec<Reading> = readings
            .iter()
            .map(|reading| Reading {
                together: true,
                ..*reading
            })
            .collect();
        readings.extend(together);
    }
    readings
}
