//! Two schema objects keyword by keyword: which constraint differs, and which way each difference goes.
//!
//! Invariant: a keyword that decides which values are accepted and that differs gives a difference, here or in what is
//! called for it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::atom::Kind;
use super::decimal::Decimal;
use super::differences::{May, Place, Step, Walk, same};
use super::keywords::{count, decides, kind_of_word};
use super::normal::below;
use crate::canonical::canonical;
use crate::change::{ChangeKind, Direction};
use crate::json::Value;

impl<'a> Walk<'_, 'a> {
    /// A difference in a constraint, whichever way it goes for this pair as a whole.
    pub(super) fn constraint(
        &mut self,
        before: &Place<'a>,
        after: &Place<'a>,
        word: &str,
        may: May,
        goes: Option<Direction>,
    ) {
        let (ours, theirs) = (before.value.get(word), after.value.get(word));
        let place = if theirs.is_some() { after } else { before };
        let pointer = below(&place.pointer, &[word]);
        if !may.narrow && !may.widen {
            return self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
        }
        let narrows = may.narrow && goes != Some(Direction::Widening);
        if !narrows {
            let widens = may.widen && goes != Some(Direction::Narrowing);
            let kind = if widens {
                ChangeKind::ConstraintWidened
            } else {
                ChangeKind::SchemaRewritten
            };
            return self.add(kind, &pointer, ours, theirs);
        }
        let (before_id, after_id) = (self.id(before), self.id(after));
        let values = self.engine.counterexamples(before_id, after_id);
        self.narrowing(
            ChangeKind::ConstraintNarrowed,
            &pointer,
            ours,
            theirs,
            &values,
            None,
        );
    }

    /// Compares two schema objects keyword by keyword.
    pub(super) fn keywords(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (Value::Object(ours), Value::Object(theirs)) = (before.value, after.value) else {
            return self.wholes(before, after, may);
        };
        let mut words: Vec<&str> = Vec::new();
        for (word, _) in ours.iter().chain(theirs) {
            if decides(word) && !words.contains(&word.as_str()) {
                words.push(word);
            }
        }
        let admit = |place: &Place<'a>| types(place.value.get("type")).contains("object");
        if admit(before) && admit(after) {
            self.members(before, after, may);
        }
        let differ = |word: &str| !same(before.value.get(word), after.value.get(word));
        let two = |ours: &str, theirs: &str| differ(ours) || differ(theirs);
        if two("enum", "const") {
            self.values(before, after, may);
        }
        if differ("type") {
            self.types(before, after, may);
        }
        // Where a type came or went, so did what is said about its values.
        let (old, new) = (types(before.value.get("type")), types(after.value.get("type")));
        let told_by_type = |word: &str| {
            let names: &[&str] = match kind_of_word(word) {
                Some(Kind::Number) => &["integer", "number"],
                Some(Kind::String) => &["string"],
                Some(Kind::Array) => &["array"],
                Some(Kind::Object) => &["object"],
                _ => return false,
            };
            let has = |types: &BTreeSet<&str>| names.iter().any(|name| types.contains(name));
            has(&old) != has(&new)
        };
        for word in words {
            match word {
                "properties" | "required" | "enum" | "const" | "type" => {}
                _ if told_by_type(word) => {}
                "additionalProperties" => self.additional(before, after, may),
                "items"
                | "additionalItems"
                | "not"
                | "contains"
                | "propertyNames"
                | "if"
                | "then"
                | "else"
                | "unevaluatedItems"
                | "unevaluatedProperties" => {
                    self.one_below(before, after, word, may);
                }
                "prefixItems" | "allOf" => self.list_below(before, after, word, may),
                "anyOf" | "oneOf" => {
                    let (ours, theirs) = (before.schemas(word), after.schemas(word));
                    if ours.is_empty() || theirs.is_empty() {
                        self.constraint(before, after, word, may, None);
                    } else {
                        self.unions(before, after, &ours, &theirs, may);
                    }
                }
                "patternProperties" => self.patterns(before, after, may),
                "dependentSchemas" | "dependencies" if differ(word) => {
                    self.constraint(before, after, word, may, None);
                }
                "nullable" if differ(word) => {
                    let pointer = below(&after.pointer, &[word]);
                    let (ours, theirs) = (before.value.get(word), after.value.get(word));
                    self.add(ChangeKind::SchemaUndecided, &pointer, ours, theirs);
                }
                _ if differ(word) => {
                    let goes = direction(word, before.value.get(word), after.value.get(word));
                    self.constraint(before, after, word, may, goes);
                }
                _ => {}
            }
        }
    }

    /// A schema that is `true` or `false` on one side.
    pub(super) fn wholes(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (Some(before.value), Some(after.value));
        if *after.value == Value::Bool(true) && !before.members("properties").is_empty() {
            return self.emptied(before, after, may);
        }
        if same(ours, theirs) {
            return;
        }
        let pointer = &after.pointer;
        if may.narrow {
            let (before_id, after_id) = (self.id(before), self.id(after));
            let values = self.engine.counterexamples(before_id, after_id);
            self.narrowing(ChangeKind::TypeChanged, pointer, ours, theirs, &values, None);
        } else if may.widen {
            self.add(ChangeKind::ConstraintWidened, pointer, ours, theirs);
        } else {
            self.add(ChangeKind::SchemaRewritten, pointer, ours, theirs);
        }
    }

    fn one_below(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
        let (ours, theirs) = (before.value.get(word), after.value.get(word));
        match (ours, theirs) {
            (Some(Value::Array(_)), Some(Value::Array(_))) => self.list_below(before, after, word, may),
            (Some(ours), Some(theirs))
                if !matches!((ours, theirs), (Value::Array(_), _) | (_, Value::Array(_))) =>
            {
                let (one, other) = (before.child(&[word], ours), after.child(&[word], theirs));
                let id = self.id(before);
                let step = if word == "items" {
                    Step::Item(self.first_rest(before))
                } else {
                    Step::Unknown
                };
                if matches!(step, Step::Unknown) {
                    if !same(Some(ours), Some(theirs)) {
                        self.constraint_or_text(before, after, word, may);
                    }
                    return;
                }
                self.chain.push((id, step));
                self.pair(&one, &other, may, None);
                self.chain.pop();
            }
            (ours, theirs) if same(ours, theirs) => {}
            _ => self.constraint(before, after, word, may, None),
        }
    }

    /// The first place in an array that the schema of all other items speaks of.
    fn first_rest(&self, place: &Place<'a>) -> usize {
        place.schemas("prefixItems").len().min(64)
    }

    /// A schema below a keyword that no instance is made for: its texts one by one, its acceptance as a whole.
    fn constraint_or_text(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
        let found = self.found.len();
        if let (Some(ours), Some(theirs)) = (before.value.get(word), after.value.get(word)) {
            let (one, other) = (before.child(&[word], ours), after.child(&[word], theirs));
            let id = self.id(before);
            self.chain.push((id, Step::Unknown));
            self.pair(
                &one,
                &other,
                May {
                    narrow: false,
                    widen: false,
                },
                None,
            );
            self.chain.pop();
        }
        let texts_only = !may.narrow && !may.widen && self.found.len() > found;
        if !texts_only {
            self.constraint(before, after, word, may, None);
        }
    }

    fn list_below(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
        let (ours, theirs) = (before.schemas(word), after.schemas(word));
        let id = self.id(before);
        for (index, (one, other)) in ours.iter().zip(&theirs).enumerate() {
            let step = if word == "allOf" {
                Step::Same
            } else {
                Step::Item(index)
            };
            self.chain.push((id, step));
            self.pair(one, other, may, None);
            self.chain.pop();
        }
        if ours.len() != theirs.len() {
            self.constraint(before, after, word, may, None);
        }
    }

    pub(super) fn types(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (before.value.get("type"), after.value.get("type"));
        let place = if theirs.is_some() { after } else { before };
        let pointer = below(&place.pointer, &["type"]);
        if !may.narrow && !may.widen {
            return self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
        }
        let (old, new) = (types(ours), types(theirs));
        if !may.narrow || old.is_subset(&new) {
            let kind = match ours {
                _ if !may.widen => ChangeKind::SchemaRewritten,
                Some(_) if theirs.is_some() => ChangeKind::UnionBranchAdded,
                _ => ChangeKind::ConstraintWidened,
            };
            return self.add(kind, &pointer, ours, theirs);
        }
        let (before_id, after_id) = (self.id(before), self.id(after));
        let values = self.engine.counterexamples(before_id, after_id);
        self.narrowing(ChangeKind::TypeChanged, &pointer, ours, theirs, &values, None);
    }

    pub(super) fn values(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let word = |place: &Place<'a>| {
            if place.value.get("enum").is_some() {
                "enum"
            } else {
                "const"
            }
        };
        let (ours, theirs) = (before.value.get(word(before)), after.value.get(word(after)));
        let place = if theirs.is_some() { after } else { before };
        let pointer = below(&place.pointer, &[word(place)]);
        if !may.narrow && !may.widen {
            return self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
        }
        let (old, new) = (constants(before.value), constants(after.value));
        let (before_id, after_id) = (self.id(before), self.id(after));
        let (Some(old), Some(new)) = (old, new) else {
            if may.narrow && theirs.is_some() {
                let values = self.engine.counterexamples(before_id, after_id);
                return self.narrowing(ChangeKind::TypeChanged, &pointer, ours, theirs, &values, None);
            }
            let kind = if may.widen {
                ChangeKind::ConstraintWidened
            } else {
                ChangeKind::SchemaRewritten
            };
            return self.add(kind, &pointer, ours, theirs);
        };
        let lost: Vec<Rc<Value>> = old
            .iter()
            .filter(|(text, _)| !new.contains_key(*text))
            .map(|(_, value)| Rc::new((*value).clone()))
            .collect();
        if !lost.is_empty() && may.narrow {
            self.narrowing(ChangeKind::EnumValuesRemoved, &pointer, ours, theirs, &lost, None);
        }
        if may.widen && new.keys().any(|text| !old.contains_key(text)) {
            self.add(ChangeKind::EnumValuesAdded, &pointer, ours, theirs);
        }
    }
}

/// The types a `type` admits, the whole numbers apart from all others.
fn types(said: Option<&Value>) -> BTreeSet<&str> {
    let mut types: BTreeSet<&str> = match said {
        None => ["null", "boolean", "number", "string", "array", "object"].into(),
        Some(Value::String(name)) => [name.as_str()].into(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => BTreeSet::new(),
    };
    if types.contains("number") {
        types.insert("integer");
    }
    types
}

fn constants(schema: &Value) -> Option<BTreeMap<String, &Value>> {
    let list = match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => std::slice::from_ref(only),
        (None, Some(Value::Array(values))) => values,
        _ => return None,
    };
    list.iter()
        .map(|value| Some((canonical(value, None).ok()?, value)))
        .collect()
}

/// Which way a bound of its own moves, where that is plain.
fn direction(word: &str, before: Option<&Value>, after: Option<&Value>) -> Option<Direction> {
    let (Some(before), Some(after)) = (before, after) else {
        let gone = if after.is_none() {
            Direction::Widening
        } else {
            Direction::Narrowing
        };
        return (!matches!(word, "$ref" | "$id" | "minContains" | "maxContains")).then_some(gone);
    };
    let order = match (before, after) {
        (Value::Number(before), Value::Number(after)) => {
            Decimal::parse(after.text())?.cmp(&Decimal::parse(before.text())?)
        }
        _ => return None,
    };
    let upper = match word {
        "minimum" | "exclusiveMinimum" => false,
        "maximum" | "exclusiveMaximum" => true,
        "minLength" | "minItems" | "minProperties" => count(before).zip(count(after)).map(|_| false)?,
        "maxLength" | "maxItems" | "maxProperties" => count(before).zip(count(after)).map(|_| true)?,
        _ => return None,
    };
    Some(if order.is_gt() == upper {
        Direction::Widening
    } else {
        Direction::Narrowing
    })
}
