//! One schema object's keywords, read into what they say about values.
//!
//! Invariant: a keyword that is malformed, or that only another dialect knows, becomes an opaque rule; it is
//! never left out. Words that no dialect gives a meaning to say nothing about which values are accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::atom::{Bound, Constant, Items, Kind, Members, Read, Rule};
use super::decimal::Decimal;
use super::document::Dialect;
use super::format;
use super::normal::{EVERYTHING, Engine, Id, NOTHING};
use crate::json::Value;

/// Patterns that every string matches.
pub(super) const EMPTY_PATTERNS: [&str; 6] = ["", "^", "$", ".*", "^.*", ".*$"];

/// Reads what `value` says.
pub(super) fn read<'a>(engine: &mut Engine<'a>, value: &'a Value, document: usize, part: bool) -> Read {
    let Value::Object(words) = value else {
        return Read::new();
    };
    let dialect = engine.documents[document].dialect;
    let together = engine.documents[document].reading.together;
    // Whether the schemas that speak of the same value are closed with this one.
    let parts = together && (part || engine.has_parts(value));
    let branches = parts && (part || value.get("properties").is_some() || value.get("allOf").is_some());
    let closed = engine.closing(value, document, part);
    let mut reader = Reader {
        engine,
        value,
        document,
        dialect,
        parts,
        branches,
        closed,
        read: Read::new(),
    };
    for (word, said) in words {
        if reader.word(word, said).is_none() {
            // These mean nothing without what stands beside them.
            let alone = !word.starts_with("unevaluated") && !word.ends_with("ontains") && word != "if";
            let rule = Rule::Opaque(
                reader
                    .engine
                    .opaque(document, word, if alone { said } else { value }),
            );
            match kind_of_word(word) {
                Some(kind) => reader.read.by_kind.push((kind, rule)),
                None => reader.read.all.rules.push(rule),
            }
        }
    }
    reader.members();
    reader.items();
    reader.read
}

/// The kind of values that a keyword is about, when it is about one only.
pub(super) fn kind_of_word(word: &str) -> Option<Kind> {
    match word {
        "minLength" | "maxLength" | "pattern" | "contentEncoding" | "contentMediaType" => Some(Kind::String),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => Some(Kind::Number),
        "items" | "prefixItems" | "additionalItems" | "minItems" | "maxItems" | "uniqueItems"
        | "contains" | "minContains" | "maxContains" | "unevaluatedItems" => Some(Kind::Array),
        "properties"
        | "patternProperties"
        | "additionalProperties"
        | "required"
        | "minProperties"
        | "maxProperties"
        | "propertyNames"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies"
        | "unevaluatedProperties" => Some(Kind::Object),
        _ => None,
    }
}

struct Reader<'e, 'a> {
    engine: &'e mut Engine<'a>,
    value: &'a Value,
    document: usize,
    dialect: Dialect,
    parts: bool,
    branches: bool,
    /// The names of the members there may be, where the object is read as closed.
    closed: Option<BTreeSet<Rc<str>>>,
    read: Read,
}

impl<'a> Reader<'_, 'a> {
    /// Reads one keyword; `None` where it is not understood.
    fn word(&mut self, word: &str, said: &'a Value) -> Option<()> {
        let modern = self.dialect != Dialect::Draft7;
        match word {
            "type" => self.types(said)?,
            "enum" => {
                let Value::Array(values) = said else { return None };
                self.values(values.iter().map(Constant::new).collect::<Option<_>>()?);
            }
            "const" => self.values(vec![Constant::new(said)?]),
            "minimum" | "exclusiveMinimum" => {
                let bound = Bound {
                    at: decimal(said)?,
                    exclusive: word == "exclusiveMinimum",
                };
                let other = self.read.all.minimum.take();
                self.read.all.minimum = super::atom::tighter(other.as_ref(), Some(&bound), true);
            }
            "maximum" | "exclusiveMaximum" => {
                let bound = Bound {
                    at: decimal(said)?,
                    exclusive: word == "exclusiveMaximum",
                };
                let other = self.read.all.maximum.take();
                self.read.all.maximum = super::atom::tighter(other.as_ref(), Some(&bound), false);
            }
            "multipleOf" => self.read.all.multiples.push(decimal(said).filter(is_positive)?),
            "minLength" => self.read.all.min_length = count(said)?,
            "maxLength" => self.read.all.max_length = Some(count(said)?),
            "pattern" => {
                let pattern = said.as_str()?;
                if !EMPTY_PATTERNS.contains(&pattern) {
                    self.read.all.patterns.insert(pattern.into());
                }
            }
            "format" => {
                let name = said.as_str()?;
                if !format::is_known(name, self.dialect) {
                    return None;
                }
                self.read.all.formats.insert(name.into(), self.dialect);
            }
            "contentEncoding" | "contentMediaType" if !modern => return None,
            "minItems" => self.read.all.min_items = count(said)?,
            "maxItems" => self.read.all.max_items = Some(count(said)?),
            "uniqueItems" => match said {
                Value::Bool(unique) => self.read.all.unique = *unique,
                _ => return None,
            },
            "contains" => self.contains(said, modern)?,
            "minContains" | "maxContains" => {
                let known = modern && self.value.get("contains").is_some();
                if !known {
                    return if modern { Some(()) } else { None };
                }
                count(said)?;
            }
            "prefixItems" if self.dialect != Dialect::Draft2020 => return None,
            "additionalItems" if self.dialect == Dialect::Draft2020 => return None,
            "items" | "prefixItems" | "additionalItems" => self.check_items(word, said)?,
            "required" => {
                let names = names(said)?;
                self.read.all.required = names;
            }
            "minProperties" => self.read.all.min_members = count(said)?,
            "maxProperties" => self.read.all.max_members = Some(count(said)?),
            // Every name is a string.
            "propertyNames" if is_any_string(said) => {}
            "propertyNames" => {
                let id = self.child(said, false)?;
                self.read.by_kind.push((Kind::Object, Rule::Names(id)));
            }
            "properties" | "patternProperties" => {
                matches!(said, Value::Object(_)).then_some(())?;
            }
            "additionalProperties" => {
                matches!(said, Value::Object(_) | Value::Bool(_)).then_some(())?;
            }
            "dependentRequired" | "dependentSchemas" | "unevaluatedProperties" | "unevaluatedItems"
                if !modern =>
            {
                return None;
            }
            "dependencies" if modern => return None,
            "dependentRequired" | "dependentSchemas" | "dependencies" => self.dependencies(word, said)?,
            // Where the object is read as closed, everything is evaluated already.
            "unevaluatedProperties" if self.closed.is_some() => {}
            "unevaluatedProperties" => unevaluated_is_simple(self.value, self.dialect, "").then_some(())?,
            "unevaluatedItems" => unevaluated_is_simple(self.value, self.dialect, "contains").then_some(())?,
            "$ref" => {
                said.as_str()?;
                let id = self.engine.reference(said, self.value, self.document, self.parts);
                self.read.within.push(id);
            }
            "$recursiveRef" | "$dynamicRef" => return None,
            "allOf" => {
                let ids = self.list(said, self.parts)?;
                self.read.within.extend(ids);
            }
            "anyOf" => {
                let ids = self.list(said, self.branches)?;
                let any = self.engine.any(ids);
                self.read.within.push(any);
            }
            "oneOf" => {
                let ids = self.list(said, self.branches)?;
                match ids[..] {
                    [only] => self.read.within.push(only),
                    _ => self.read.one_of.push(ids),
                }
            }
            "not" => {
                let id = self.child(said, self.parts)?;
                match id {
                    NOTHING => {}
                    EVERYTHING => self.read.kinds.clear(),
                    _ => self.read.all.rules.push(Rule::Not(id)),
                }
            }
            "if" => self.condition(said)?,
            _ => {}
        }
        Some(())
    }

    fn child(&mut self, said: &'a Value, part: bool) -> Option<Id> {
        matches!(said, Value::Object(_) | Value::Bool(_)).then_some(())?;
        Some(self.engine.schema(said, self.document, part))
    }

    fn list(&mut self, said: &'a Value, part: bool) -> Option<Vec<Id>> {
        let Value::Array(schemas) = said else { return None };
        if schemas.is_empty() || !self.engine.steps(schemas.len()) {
            return None;
        }
        schemas.iter().map(|schema| self.child(schema, part)).collect()
    }

    fn types(&mut self, said: &Value) -> Option<()> {
        let list = match said {
            Value::String(_) => std::slice::from_ref(said),
            Value::Array(types) if !types.is_empty() => types,
            _ => return None,
        };
        let names: BTreeSet<&str> = list.iter().map(Value::as_str).collect::<Option<_>>()?;
        let mut kinds: BTreeSet<Kind> = BTreeSet::new();
        for name in &names {
            kinds.insert(match *name {
                "null" => Kind::Null,
                "boolean" => Kind::Boolean,
                "number" | "integer" => Kind::Number,
                "string" => Kind::String,
                "array" => Kind::Array,
                "object" => Kind::Object,
                _ => return None,
            });
        }
        self.read.all.whole = names.contains("integer") && !names.contains("number");
        let nullable = self.engine.documents[self.document].reading.nullable;
        if nullable && self.value.get("nullable") == Some(&Value::Bool(true)) {
            kinds.insert(Kind::Null);
        }
        self.read.kinds.retain(|kind| kinds.contains(kind));
        Some(())
    }

    fn values(&mut self, values: Vec<Constant>) {
        let texts: BTreeSet<Rc<str>> = values.iter().map(|constant| constant.text.clone()).collect();
        match &mut self.read.all.values {
            Some(known) => known.retain(|constant| texts.contains(&constant.text)),
            none => *none = Some(values),
        }
    }

    fn contains(&mut self, said: &'a Value, modern: bool) -> Option<()> {
        let bound = |word: &str| self.value.get(word).filter(|_| modern).map(count);
        let least = bound("minContains").unwrap_or(Some(1))?;
        let most = match bound("maxContains") {
            Some(most) => Some(most?),
            None => None,
        };
        let item = self.child(said, false)?;
        self.read
            .by_kind
            .push((Kind::Array, Rule::Contains { item, least, most }));
        Some(())
    }

    fn check_items(&self, word: &str, said: &Value) -> Option<()> {
        let fits = match said {
            Value::Object(_) | Value::Bool(_) => word != "prefixItems",
            Value::Array(_) => {
                word == "prefixItems" || (word == "items" && self.dialect != Dialect::Draft2020)
            }
            _ => false,
        };
        fits.then_some(())
    }

    /// What is said about each item.
    fn items(&mut self) {
        let (first, rest) = match self.dialect {
            Dialect::Draft2020 => ("prefixItems", "items"),
            _ => ("items", "additionalItems"),
        };
        let tuple = match self.value.get(first) {
            Some(Value::Array(schemas)) => Some(schemas),
            _ => None,
        };
        let mut ids = Vec::new();
        for schema in tuple.into_iter().flatten() {
            if !self.engine.steps(1) {
                return;
            }
            let id = self.child(schema, false);
            ids.push(id.unwrap_or(EVERYTHING));
        }
        let rest = match (self.dialect, tuple) {
            (Dialect::Draft7 | Dialect::Draft2019, None) => "items",
            _ => rest,
        };
        let mut others = self.value.get(rest).and_then(|schema| self.child(schema, false));
        if others.is_none() && unevaluated_is_simple(self.value, self.dialect, "contains") {
            let name = "unevaluatedItems";
            others = self.value.get(name).and_then(|schema| self.child(schema, false));
        }
        if ids.is_empty() && others.is_none() {
            return;
        }
        self.read.all.items.push(Items {
            first: ids,
            rest: others.unwrap_or(EVERYTHING),
        });
    }

    /// What is said about each member.
    fn members(&mut self) {
        let mut named: BTreeMap<Rc<str>, Id> = BTreeMap::new();
        if let Some(Value::Object(properties)) = self.value.get("properties") {
            for (name, schema) in properties {
                if !self.engine.steps(1) {
                    return self.unread("properties");
                }
                match self.child(schema, false) {
                    Some(id) => named.insert(name.as_str().into(), id),
                    None => return self.unread("properties"),
                };
            }
        }
        let mut by_pattern = Vec::new();
        if let Some(Value::Object(patterns)) = self.value.get("patternProperties") {
            for (pattern, schema) in patterns {
                if !self.engine.steps(1) {
                    return self.unread("patternProperties");
                }
                match self.child(schema, false) {
                    Some(id) => by_pattern.push((Rc::from(pattern.as_str()), id)),
                    None => return self.unread("patternProperties"),
                }
            }
        }
        let mut others = EVERYTHING;
        if let Some(names) = self.closed.take() {
            for name in names {
                named.entry(name).or_insert(EVERYTHING);
            }
            others = NOTHING;
        } else if let Some(schema) = self.value.get("additionalProperties") {
            others = self.child(schema, false).unwrap_or(EVERYTHING);
        } else if unevaluated_is_simple(self.value, self.dialect, "") {
            let schema = self.value.get("unevaluatedProperties");
            let id = schema.and_then(|schema| self.child(schema, false));
            others = id.unwrap_or(EVERYTHING);
        }
        if named.is_empty() && by_pattern.is_empty() && others == EVERYTHING {
            return;
        }
        self.read.all.members.push(Members {
            named,
            by_pattern,
            others,
        });
    }

    fn unread(&mut self, word: &str) {
        let rule = match self.value.get(word) {
            Some(said) => self.engine.opaque(self.document, word, said),
            None => self.engine.unlike_any(),
        };
        self.read.by_kind.push((Kind::Object, Rule::Opaque(rule)));
    }

    fn dependencies(&mut self, word: &str, said: &'a Value) -> Option<()> {
        let Value::Object(dependencies) = said else {
            return None;
        };
        for (member, asked) in dependencies {
            let rule = match asked {
                Value::Array(_) if word != "dependentSchemas" => Rule::Requires {
                    member: member.as_str().into(),
                    others: names(asked)?,
                },
                _ if word == "dependentRequired" => return None,
                _ => Rule::Implies {
                    member: member.as_str().into(),
                    schema: self.child(asked, self.parts)?,
                },
            };
            self.read.by_kind.push((Kind::Object, rule));
        }
        Some(())
    }

    fn condition(&mut self, said: &'a Value) -> Option<()> {
        let condition = self.child(said, self.parts)?;
        let mut branch = |word: &str| match self.value.get(word) {
            Some(schema) => self.child(schema, self.parts),
            None => Some(EVERYTHING),
        };
        let (then, otherwise) = (branch("then")?, branch("else")?);
        if then != EVERYTHING || otherwise != EVERYTHING {
            self.read.all.rules.push(Rule::If {
                condition,
                then,
                otherwise,
            });
        }
        Some(())
    }
}

/// Whether nothing stands beside an `unevaluated…` keyword that could have evaluated more than the plain keywords
/// do; `beside` is one more that does.
pub(super) fn unevaluated_is_simple(schema: &Value, dialect: Dialect, beside: &str) -> bool {
    const APPLICATORS: [&str; 12] = [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependencies",
    ];
    dialect != Dialect::Draft7
        && !APPLICATORS.iter().any(|word| schema.get(word).is_some())
        && (beside.is_empty() || schema.get(beside).is_none())
}

/// A `multipleOf` must be above zero.
fn is_positive(number: &Decimal) -> bool {
    *number > Decimal::from(0)
}

fn decimal(said: &Value) -> Option<Decimal> {
    match said {
        Value::Number(number) => Decimal::parse(number.text()),
        _ => None,
    }
}

/// A length or count.
pub(super) fn count(said: &Value) -> Option<u64> {
    u64::try_from(decimal(said)?.to_whole()?).ok()
}

fn names(said: &Value) -> Option<BTreeSet<Rc<str>>> {
    let Value::Array(names) = said else { return None };
    names.iter().map(|name| name.as_str().map(Rc::from)).collect()
}

/// Every keyword that decides which values are accepted, in some dialect.
pub(super) fn decides(word: &str) -> bool {
    let others = [
        "type",
        "enum",
        "const",
        "format",
        "$ref",
        "$recursiveRef",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "nullable",
        "$id",
    ];
    kind_of_word(word).is_some() || others.contains(&word)
}

/// Whether a schema refuses no string, by a rule that needs no look at others.
fn is_any_string(schema: &Value) -> bool {
    match schema {
        Value::Bool(accepts) => *accepts,
        Value::Object(words) => words
            .iter()
            .all(|(word, said)| !decides(word) || (word == "type" && said.as_str() == Some("string"))),
        _ => false,
    }
}
