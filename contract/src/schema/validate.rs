//! Whether a node accepts one value: a small evaluator of the schema text itself, apart from the normal form, by
//! which every witness is checked.
//!
//! Patterns are never run, so a string's verdict under one is unknown, unless the string was made from it.
//!
//! Invariant: `Some` is never wrong; `None` says that it can't be told.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::atom::{Kind, is_whole};
use super::decimal::Decimal;
use super::document::Dialect;
use super::format;
use super::keywords::{EMPTY_PATTERNS, count, kind_of_word, unevaluated_is_simple};
use super::normal::{EVERYTHING, Engine, Id, MAX_DEPTH, NOTHING, Node};
use crate::canonical::canonical;
use crate::json::Value;

type Verdict = Option<bool>;

/// Both.
fn and(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Whether all hold: one that does not decides, whatever else is unknown.
fn all(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut all = Some(true);
    for verdict in verdicts {
        all = and(all, verdict);
    }
    all
}

/// How many verdicts of each sort there were.
#[derive(Default)]
struct Tally {
    yes: u64,
    unknown: u64,
}

impl Tally {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Some(true) => self.yes += 1,
            None => self.unknown += 1,
            Some(false) => {}
        }
    }

    fn at_least(&self, least: u64) -> Verdict {
        match () {
            () if self.yes >= least => Some(true),
            () if self.yes + self.unknown < least => Some(false),
            () => None,
        }
    }
}

impl<'a> Engine<'a> {
    /// Whether the node accepts the value.
    pub(super) fn accepts(&mut self, id: Id, value: &Value) -> Verdict {
        match id {
            EVERYTHING => return Some(true),
            NOTHING => return Some(false),
            _ => {}
        }
        if !self.steps(1) {
            return None;
        }
        if self.depth >= MAX_DEPTH {
            self.exhausted = true;
            return None;
        }
        self.depth += 1;
        let verdict = match self.nodes[id].clone() {
            Node::Everything => Some(true),
            Node::Nothing => Some(false),
            Node::Exactly(constant) => canonical(value, None).ok().map(|text| text == *constant.text),
            Node::All(ids) => self.each(ids, value),
            Node::Any(ids) => {
                let mut tally = Tally::default();
                for id in ids {
                    tally.add(self.accepts(id, value));
                    if tally.yes > 0 {
                        break;
                    }
                }
                tally.at_least(1)
            }
            Node::Schema {
                value: schema,
                document,
                part,
            } => Evaluation {
                schema,
                document,
                part,
                value,
            }
            .run(self),
        };
        self.depth -= 1;
        verdict
    }

    /// Whether all of these accept the value.
    fn each(&mut self, ids: impl IntoIterator<Item = Id>, value: &Value) -> Verdict {
        let mut verdict = Some(true);
        for id in ids {
            verdict = and(verdict, self.accepts(id, value));
            if verdict == Some(false) {
                break;
            }
        }
        verdict
    }
}

/// One schema object and the value it is asked about.
struct Evaluation<'a, 'v> {
    schema: &'a Value,
    document: usize,
    part: bool,
    value: &'v Value,
}

impl<'a> Evaluation<'a, '_> {
    fn run(&self, engine: &mut Engine<'a>) -> Verdict {
        let Value::Object(words) = self.schema else {
            return None;
        };
        let dialect = engine.documents[self.document].dialect;
        if dialect == Dialect::Draft7
            && let Some(reference) = self.schema.get("$ref")
        {
            let target = engine.reference(reference, self.schema, self.document, self.part);
            return engine.accepts(target, self.value);
        }
        if self.schema.get("$id").is_some() && !engine.documents[self.document].is_root(self.schema) {
            return None;
        }
        if !engine.steps(words.len()) {
            return None;
        }
        let kind = Kind::of(self.value);
        let mut verdict = Some(true);
        for (word, said) in words {
            let about = kind_of_word(word).is_none_or(|about| about == kind);
            if about {
                verdict = and(verdict, self.word(engine, dialect, word, said));
            }
            if verdict == Some(false) {
                return verdict;
            }
        }
        match self.value {
            Value::Object(members) => and(verdict, self.members(engine, members)),
            Value::Array(items) => and(verdict, self.items(engine, dialect, items)),
            _ => verdict,
        }
    }

    /// What one keyword says; those about members and items in general come after.
    fn word(&self, engine: &mut Engine<'a>, dialect: Dialect, word: &str, said: &'a Value) -> Verdict {
        let modern = dialect != Dialect::Draft7;
        match (word, self.value) {
            ("type", _) => self.types(engine, said),
            ("const", value) => {
                let text = canonical(said, None).ok()?;
                engine.steps(text.len() / 64).then_some(())?;
                Some(text == canonical(value, None).ok()?)
            }
            ("enum", value) => {
                let Value::Array(values) = said else { return None };
                let text = canonical(value, None).ok()?;
                let mut tally = Tally::default();
                for one in values {
                    let one = canonical(one, None).ok();
                    let size = one.as_ref().map_or(0, |one| one.len() / 64);
                    engine.steps(1 + size).then_some(())?;
                    tally.add(one.map(|one| one == text));
                }
                tally.at_least(1)
            }
            ("minimum", value) => Some(order(value, said)?.is_ge()),
            ("exclusiveMinimum", value) => Some(order(value, said)?.is_gt()),
            ("maximum", value) => Some(order(value, said)?.is_le()),
            ("exclusiveMaximum", value) => Some(order(value, said)?.is_lt()),
            ("multipleOf", Value::Number(number)) => {
                let Value::Number(unit) = said else { return None };
                let value = Decimal::parse(number.text())?.to_whole()?;
                let unit = Decimal::parse(unit.text())?.to_whole()?;
                if unit > 0 && value.abs() < 1 << 53 {
                    Some(value % unit == 0)
                } else {
                    None
                }
            }
            ("minLength", Value::String(text)) => Some(text.chars().count() as u64 >= count(said)?),
            ("maxLength", Value::String(text)) => Some(text.chars().count() as u64 <= count(said)?),
            ("pattern", Value::String(text)) => {
                let pattern = said.as_str()?;
                let known = EMPTY_PATTERNS.contains(&pattern)
                    || engine.matching.contains(&(Rc::from(pattern), text.clone()));
                if known {
                    return Some(true);
                }
                // What counts as one character, and a line's end, differs by dialect.
                let plain = text.is_ascii() && !text.contains(['\n', '\r']);
                let pattern = engine.pattern(pattern)?;
                (plain && pattern.refuses_length(text.len())).then_some(false)
            }
            ("format", value) => {
                let name = said.as_str()?;
                match value {
                    Value::String(text) => format::is_of(name, dialect, text),
                    _ if format::is_known(name, dialect) => Some(true),
                    _ => None,
                }
            }
            ("contentEncoding" | "contentMediaType", _) if !modern => None,
            ("minItems", Value::Array(items)) => Some(items.len() as u64 >= count(said)?),
            ("maxItems", Value::Array(items)) => Some(items.len() as u64 <= count(said)?),
            ("uniqueItems", Value::Array(items)) => match said {
                Value::Bool(false) => Some(true),
                Value::Bool(true) => {
                    engine.steps(items.len()).then_some(())?;
                    let texts: Option<BTreeSet<String>> =
                        items.iter().map(|item| canonical(item, None).ok()).collect();
                    Some(texts?.len() == items.len())
                }
                _ => None,
            },
            ("contains", Value::Array(items)) => self.contains(engine, modern, said, items),
            ("minContains" | "maxContains", _) => {
                if modern {
                    Some(true)
                } else {
                    None
                }
            }
            ("prefixItems", _) if dialect != Dialect::Draft2020 => None,
            ("additionalItems", _) if dialect == Dialect::Draft2020 => None,
            ("required", Value::Object(members)) => {
                let Value::Array(names) = said else { return None };
                engine.steps((members.len() + names.len()) / 8).then_some(())?;
                let given: BTreeSet<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                all(names.iter().map(|name| Some(given.contains(name.as_str()?))))
            }
            ("minProperties", Value::Object(members)) => Some(members.len() as u64 >= count(said)?),
            ("maxProperties", Value::Object(members)) => Some(members.len() as u64 <= count(said)?),
            ("propertyNames", Value::Object(members)) => {
                let id = self.child(engine, said, false)?;
                let mut verdict = Some(true);
                for (name, _) in members {
                    verdict = and(verdict, engine.accepts(id, &Value::String(name.clone())));
                }
                verdict
            }
            ("dependentRequired" | "dependentSchemas" | "unevaluatedProperties" | "unevaluatedItems", _)
                if !modern =>
            {
                None
            }
            ("dependencies", _) if modern => None,
            ("dependentRequired" | "dependentSchemas" | "dependencies", Value::Object(members)) => {
                self.dependencies(engine, word, said, members)
            }
            ("unevaluatedProperties", Value::Object(members)) => {
                let nothing_left = members.is_empty() || *said == Value::Bool(true);
                let closed = engine.closing(self.schema, self.document, self.part).is_some();
                if nothing_left || closed || unevaluated_is_simple(self.schema, dialect, "") {
                    Some(true)
                } else {
                    None
                }
            }
            ("unevaluatedItems", Value::Array(items)) => {
                let nothing_left = items.is_empty() || *said == Value::Bool(true);
                if nothing_left || unevaluated_is_simple(self.schema, dialect, "contains") {
                    Some(true)
                } else {
                    None
                }
            }
            ("$ref", value) => {
                let parts = self.parts(engine);
                let target = engine.reference(said, self.schema, self.document, parts);
                engine.accepts(target, value)
            }
            ("$recursiveRef" | "$dynamicRef", _) => None,
            ("allOf" | "anyOf" | "oneOf", _) => self.combined(engine, word, said),
            ("not", value) => {
                let part = self.parts(engine);
                let id = self.child(engine, said, part)?;
                engine.accepts(id, value).map(|accepted| !accepted)
            }
            ("if", value) => {
                let part = self.parts(engine);
                let condition = self.child(engine, said, part)?;
                let mut branch = |word: &str| match self.schema.get(word) {
                    Some(schema) => {
                        let id = self.child(engine, schema, part)?;
                        engine.accepts(id, value)
                    }
                    None => Some(true),
                };
                let (then, otherwise) = (branch("then"), branch("else"));
                match engine.accepts(condition, value) {
                    Some(true) => then,
                    Some(false) => otherwise,
                    None if then == otherwise => then,
                    None => None,
                }
            }
            _ => Some(true),
        }
    }

    fn child(&self, engine: &mut Engine<'a>, said: &'a Value, part: bool) -> Option<Id> {
        matches!(said, Value::Object(_) | Value::Bool(_)).then_some(())?;
        Some(engine.schema(said, self.document, part))
    }

    /// Whether the schemas that speak of the same value are closed with this one.
    fn parts(&self, engine: &Engine<'a>) -> bool {
        engine.documents[self.document].reading.together && (self.part || engine.has_parts(self.schema))
    }

    fn types(&self, engine: &Engine<'a>, said: &Value) -> Verdict {
        let list = match said {
            Value::String(_) => std::slice::from_ref(said),
            Value::Array(types) if !types.is_empty() => types,
            _ => return None,
        };
        let nullable = engine.documents[self.document].reading.nullable
            && self.schema.get("nullable") == Some(&Value::Bool(true))
            && *self.value == Value::Null;
        let mut tally = Tally {
            yes: u64::from(nullable),
            unknown: 0,
        };
        for name in list {
            tally.add(match (name.as_str()?, Kind::of(self.value)) {
                ("null", kind) => Some(kind == Kind::Null),
                ("boolean", kind) => Some(kind == Kind::Boolean),
                ("number", kind) => Some(kind == Kind::Number),
                ("integer", kind) => Some(kind == Kind::Number && is_whole(self.value)),
                ("string", kind) => Some(kind == Kind::String),
                ("array", kind) => Some(kind == Kind::Array),
                ("object", kind) => Some(kind == Kind::Object),
                _ => return None,
            });
        }
        tally.at_least(1)
    }

    fn contains(&self, engine: &mut Engine<'a>, modern: bool, said: &'a Value, items: &[Value]) -> Verdict {
        let bound = |word: &str| self.schema.get(word).filter(|_| modern).map(count);
        let least = bound("minContains").unwrap_or(Some(1))?;
        let id = self.child(engine, said, false)?;
        let mut tally = Tally::default();
        for item in items {
            tally.add(engine.accepts(id, item));
        }
        let verdict = tally.at_least(least);
        match bound("maxContains") {
            Some(most) => and(verdict, tally.at_least(most?.checked_add(1)?).map(|more| !more)),
            None => verdict,
        }
    }

    fn dependencies(
        &self,
        engine: &mut Engine<'a>,
        word: &str,
        said: &'a Value,
        members: &[(String, Value)],
    ) -> Verdict {
        let Value::Object(dependencies) = said else {
            return None;
        };
        let part = self.parts(engine);
        let mut verdict = Some(true);
        for (member, asked) in dependencies {
            engine.steps(1 + members.len() / 8).then_some(())?;
            if !has(members, member) {
                continue;
            }
            let met = match asked {
                Value::Array(names) if word != "dependentSchemas" => all(names
                    .iter()
                    .map(|name| name.as_str().map(|name| has(members, name)))),
                _ if word == "dependentRequired" => None,
                _ => {
                    let id = self.child(engine, asked, part)?;
                    engine.accepts(id, self.value)
                }
            };
            verdict = and(verdict, met);
        }
        verdict
    }

    fn combined(&self, engine: &mut Engine<'a>, word: &str, said: &'a Value) -> Verdict {
        let Value::Array(schemas) = said else { return None };
        if schemas.is_empty() {
            return None;
        }
        let beside = self.schema.get("properties").is_some() || self.schema.get("allOf").is_some();
        let part = self.parts(engine) && (word == "allOf" || self.part || beside);
        let mut tally = Tally::default();
        let mut refused = false;
        for schema in schemas {
            let id = self.child(engine, schema, part)?;
            let verdict = engine.accepts(id, self.value);
            refused |= verdict == Some(false);
            tally.add(verdict);
            if (word == "allOf" && refused) || (word == "anyOf" && tally.yes > 0) {
                break;
            }
        }
        match word {
            "allOf" if refused => Some(false),
            "allOf" if tally.unknown > 0 => None,
            "allOf" => Some(true),
            "anyOf" => tally.at_least(1),
            _ => and(tally.at_least(1), tally.at_least(2).map(|more| !more)),
        }
    }

    fn members(&self, engine: &mut Engine<'a>, members: &[(String, Value)]) -> Verdict {
        let closed = engine.closing(self.schema, self.document, self.part);
        let own = |word: &str| match self.schema.get(word) {
            Some(Value::Object(_)) | None => Some(self.schema.get(word)),
            Some(_) => None,
        };
        let (properties, patterns) = (own("properties")?, own("patternProperties")?);
        let others = match self.schema.get("additionalProperties") {
            _ if closed.is_some() => NOTHING,
            Some(schema) => self.child(engine, schema, false)?,
            None => {
                let dialect = engine.documents[self.document].dialect;
                let word = "unevaluatedProperties";
                let simple = unevaluated_is_simple(self.schema, dialect, "");
                match self.schema.get(word).filter(|_| simple) {
                    Some(schema) => self.child(engine, schema, false)?,
                    None => EVERYTHING,
                }
            }
        };
        let stated = match properties {
            Some(Value::Object(stated)) => stated.as_slice(),
            _ => &[],
        };
        engine.steps(members.len() + stated.len() / 8).then_some(())?;
        let given: BTreeSet<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        let stated = stated.iter().filter(|(name, _)| given.contains(name.as_str()));
        let stated: BTreeMap<&str, &'a Value> =
            stated.map(|(name, schema)| (name.as_str(), schema)).collect();
        let mut verdict = Some(true);
        for (name, member) in members {
            let schema = stated.get(name.as_str()).copied();
            let own = match schema {
                Some(schema) => {
                    let id = self.child(engine, schema, false)?;
                    engine.accepts(id, member)
                }
                None if closed.as_ref().is_some_and(|names| names.contains(name.as_str())) => Some(true),
                None => engine.accepts(others, member),
            };
            verdict = and(
                verdict,
                self.member(engine, patterns, own, schema.is_some(), member),
            );
            if verdict == Some(false) {
                break;
            }
        }
        verdict
    }

    /// A member's verdict, when which patterns its name matches is not known.
    fn member(
        &self,
        engine: &mut Engine<'a>,
        patterns: Option<&'a Value>,
        own: Verdict,
        named: bool,
        member: &Value,
    ) -> Verdict {
        let Some(Value::Object(patterns)) = patterns else {
            return own;
        };
        let (mut all_accept, mut all_refuse) = (true, true);
        for (_, schema) in patterns {
            let id = self.child(engine, schema, false)?;
            let verdict = engine.accepts(id, member);
            all_accept &= verdict == Some(true);
            all_refuse &= verdict == Some(false);
        }
        match own {
            Some(true) if all_accept => Some(true),
            Some(false) if named || all_refuse => Some(false),
            _ => None,
        }
    }

    fn items(&self, engine: &mut Engine<'a>, dialect: Dialect, items: &[Value]) -> Verdict {
        let tuple_word = if dialect == Dialect::Draft2020 {
            "prefixItems"
        } else {
            "items"
        };
        let tuple = match self.schema.get(tuple_word) {
            Some(Value::Array(schemas)) => schemas.as_slice(),
            Some(_) if dialect == Dialect::Draft2020 => return None,
            _ => &[],
        };
        let is_tuple = matches!(self.schema.get(tuple_word), Some(Value::Array(_)));
        let rest_word = if is_tuple && dialect != Dialect::Draft2020 {
            "additionalItems"
        } else {
            "items"
        };
        let rest = match self.schema.get(rest_word) {
            Some(schema) => self.child(engine, schema, false)?,
            None => {
                let word = "unevaluatedItems";
                let simple = unevaluated_is_simple(self.schema, dialect, "contains");
                match self.schema.get(word).filter(|_| simple) {
                    Some(schema) => self.child(engine, schema, false)?,
                    None => EVERYTHING,
                }
            }
        };
        let mut verdict = Some(true);
        for (index, item) in items.iter().enumerate() {
            let id = match tuple.get(index) {
                Some(schema) => self.child(engine, schema, false)?,
                None => rest,
            };
            verdict = and(verdict, engine.accepts(id, item));
            if verdict == Some(false) {
                break;
            }
        }
        verdict
    }
}

fn has(members: &[(String, Value)], name: &str) -> bool {
    members.iter().any(|(member, _)| member == name)
}

/// How two numbers compare; `None` where they differ as written but not as doubles.
fn order(value: &Value, bound: &Value) -> Option<Ordering> {
    let (Value::Number(value), Value::Number(bound)) = (value, bound) else {
        return None;
    };
    let order = Decimal::parse(value.text())?.cmp(&Decimal::parse(bound.text())?);
    let doubles = value.text().parse::<f64>().ok()? == bound.text().parse::<f64>().ok()?;
    if order.is_ne() && doubles {
        None
    } else {
        Some(order)
    }
}
