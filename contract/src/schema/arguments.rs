//! The members of two object schemas side by side: arguments added, removed, asked for, and those not declared.
//!
//! Invariant: an argument that is only on one side is reported by that side's pointer, once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::atom::Kind;
use super::differences::{May, Place, Step, Walk, by_name, same};
use super::normal::{EVERYTHING, Engine, Id, NOTHING, below};
use super::{EMPTIED, document};
use crate::change::ChangeKind;
use crate::json::Value;

impl<'a> Walk<'_, 'a> {
    pub(super) fn emptied(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let kind = ChangeKind::SchemaEmptied;
        let values = if may.narrow {
            let (before_id, after_id) = (self.id(before), self.id(after));
            self.engine.counterexamples(before_id, after_id)
        } else {
            Vec::new()
        };
        let before = before.value.get("properties");
        self.narrowing(
            kind,
            &after.pointer,
            before,
            Some(after.value),
            &values,
            Some(EMPTIED),
        );
    }

    pub(super) fn members(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (before.members("properties"), after.members("properties"));
        let in_place = [
            "$ref",
            "allOf",
            "anyOf",
            "oneOf",
            "if",
            "enum",
            "const",
            "$dynamicRef",
            "$recursiveRef",
        ];
        let elsewhere = in_place.iter().any(|word| after.value.get(word).is_some());
        let after_id = self.id(after);
        let elsewhere = elsewhere || self.declared_beside;
        if !ours.is_empty() && theirs.is_empty() && !elsewhere && admits_objects(self.engine, after_id) {
            self.emptied(before, after, may);
            self.requirements(before, after, may);
            return;
        }
        let closed = (
            document::declares_and_closes(before.value),
            document::declares_and_closes(after.value),
        );
        let ours_by_name: BTreeMap<&str, &'a Value> = by_name(ours);
        let theirs_by_name: BTreeMap<&str, &'a Value> = by_name(theirs);
        let before_id = self.id(before);
        for (name, schema) in ours {
            if theirs_by_name.contains_key(name.as_str()) {
                continue;
            }
            let one = before.child(&["properties", name], schema);
            self.chain.push((before_id, Step::Member(name.as_str().into())));
            self.removed(&one, name, after_id, closed.1, may);
            self.chain.pop();
        }
        let required = names(after.value);
        for (name, schema) in theirs {
            let old = ours_by_name.get(name.as_str()).copied();
            if old.is_some_and(|old| self.is_unchanged(old, schema)) {
                continue;
            }
            let other = after.child(&["properties", name], schema);
            if let Some(old) = old {
                let one = before.child(&["properties", name], old);
                self.chain.push((before_id, Step::Member(name.as_str().into())));
                self.pair(&one, &other, may, Some(name));
                self.chain.pop();
            } else {
                self.added(
                    before,
                    &other,
                    name,
                    required.contains(name.as_str()),
                    closed.0,
                    may,
                );
            }
        }
        self.requirements(before, after, may);
    }

    /// An argument that is no longer declared, in an object that was known by `after`, and whether that is closed.
    fn removed(&mut self, one: &Place<'a>, name: &str, after: Id, closed: bool, may: May) {
        let (kind, pointer, schema) = (ChangeKind::RemovedParam, &one.pointer, Some(one.value));
        let id = self.id(one);
        if !may.narrow {
            let kind = if may.widen {
                ChangeKind::ConstraintWidened
            } else {
                ChangeKind::SchemaRewritten
            };
            return self.add(kind, pointer, schema, None);
        }
        if closed {
            let values = self.engine.samples(id);
            let in_place = |(_, step): &(Id, Step)| !matches!(step, Step::Same | Step::Unknown);
            let certain =
                self.chain.iter().all(in_place) && self.roots.len() == 1 && !self.engine.accepts_nothing(id);
            let rule = certain.then_some("undeclared-argument-refused");
            return self.narrowing(kind, pointer, schema, None, &values, rule);
        }
        let mut values = Vec::new();
        let alternatives = self.engine.alternatives(after);
        for atom in alternatives.iter().filter(|atom| atom.kind == Kind::Object) {
            let asked = self.engine.member(&atom.members, name);
            values.extend(self.engine.counterexamples(id, asked));
        }
        self.narrowing(kind, pointer, schema, None, &values, None);
    }

    pub(super) fn added(
        &mut self,
        before: &Place<'a>,
        other: &Place<'a>,
        name: &str,
        required: bool,
        closed: bool,
        may: May,
    ) {
        let pointer = &other.pointer;
        let before_id = self.id(before);
        if required && may.narrow {
            let values = self.without(before_id, name);
            return self.narrowing(
                ChangeKind::AddedRequiredParam,
                pointer,
                None,
                Some(other.value),
                &values,
                None,
            );
        }
        if !closed && may.narrow {
            // It could be given before, as an argument of which nothing was said.
            let id = self.id(other);
            let values = self.engine.counterexamples(EVERYTHING, id);
            self.chain.push((before_id, Step::Member(name.into())));
            self.narrowing(
                ChangeKind::ConstraintNarrowed,
                pointer,
                None,
                Some(other.value),
                &values,
                None,
            );
            self.chain.pop();
            return;
        }
        let id = self.id(other);
        let kind = if id == NOTHING {
            ChangeKind::SchemaRewritten
        } else {
            ChangeKind::AddedOptionalParam
        };
        self.add(kind, pointer, None, Some(other.value));
    }

    /// Objects that the node accepts without a member of this name.
    pub(super) fn without(&mut self, id: Id, name: &str) -> Vec<Rc<Value>> {
        let mut values = Vec::new();
        for atom in self
            .engine
            .alternatives(id)
            .iter()
            .filter(|atom| atom.kind == Kind::Object)
            .take(16)
        {
            if let Some(object) = self.engine.object(atom, &[])
                && object.get(name).is_none()
                && self.engine.accepts(id, &object) == Some(true)
            {
                values.push(Rc::new(object));
            }
        }
        values
    }

    fn requirements(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (names(before.value), names(after.value));
        let (old, new) = (
            by_name(before.members("properties")),
            by_name(after.members("properties")),
        );
        let is_new = |name: &str| new.contains_key(name) && !old.contains_key(name);
        let is_gone = |name: &str| old.contains_key(name) && !new.contains_key(name);
        if ours == theirs {
            return;
        }
        let (old_entries, new_entries) = (entries(before.value), entries(after.value));
        let entry = |place: &Place<'_>, entries: &BTreeMap<&str, usize>, name: &str| {
            let index = entries.get(name).copied().unwrap_or_default();
            below(&place.pointer, &["required", &index.to_string()])
        };
        let mut rewritten = false;
        let before_id = self.id(before);
        for name in theirs.difference(&ours) {
            if is_new(name) {
                continue;
            }
            if !may.narrow {
                rewritten = true;
                continue;
            }
            let values = self.without(before_id, name);
            let text = Value::String((*name).to_owned());
            let pointer = entry(after, &new_entries, name);
            self.narrowing(
                ChangeKind::RequiredSetExpanded,
                &pointer,
                None,
                Some(&text),
                &values,
                None,
            );
        }
        for name in ours.difference(&theirs) {
            if is_gone(name) {
                continue;
            }
            if may.widen {
                let text = Value::String((*name).to_owned());
                let pointer = entry(before, &old_entries, name);
                self.add(ChangeKind::RemovedRequired, &pointer, Some(&text), None);
            } else {
                rewritten = true;
            }
        }
        if rewritten {
            let pointer = below(&after.pointer, &["required"]);
            self.add(
                ChangeKind::SchemaRewritten,
                &pointer,
                before.value.get("required"),
                after.value.get("required"),
            );
        }
    }

    pub(super) fn additional(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let word = "additionalProperties";
        let (ours, theirs) = (before.value.get(word), after.value.get(word));
        if let (Some(ours @ Value::Object(_)), Some(theirs @ Value::Object(_))) = (ours, theirs) {
            let (one, other) = (before.child(&[word], ours), after.child(&[word], theirs));
            let id = self.id(before);
            self.chain.push((id, Step::Member("undeclared".into())));
            self.pair(&one, &other, may, None);
            self.chain.pop();
            return;
        }
        if same(ours, theirs) {
            return;
        }
        let undeclared_only = |said: Option<&Value>| matches!(said, None | Some(Value::Bool(_)));
        let both_closed =
            document::declares_and_closes(before.value) && document::declares_and_closes(after.value);
        if undeclared_only(ours) && undeclared_only(theirs) && (both_closed || (!may.narrow && !may.widen)) {
            let place = if theirs.is_some() { after } else { before };
            let pointer = below(&place.pointer, &[word]);
            return self.add(ChangeKind::AdditionalPropertiesChanged, &pointer, ours, theirs);
        }
        self.constraint(before, after, word, may, None);
    }

    pub(super) fn patterns(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let word = "patternProperties";
        let (ours, theirs) = (by_name(before.members(word)), by_name(after.members(word)));
        let id = self.id(before);
        for (pattern, schema) in &ours {
            if let Some(other) = theirs.get(pattern) {
                let (one, other) = (
                    before.child(&[word, pattern], schema),
                    after.child(&[word, pattern], other),
                );
                self.chain.push((id, Step::Unknown));
                self.pair(&one, &other, may, None);
                self.chain.pop();
            }
        }
        if ours.keys().ne(theirs.keys()) {
            let place = if after.value.get(word).is_some() {
                after
            } else {
                before
            };
            let pointer = below(&place.pointer, &[word]);
            let (ours, theirs) = (before.value.get(word), after.value.get(word));
            if may.narrow || may.widen {
                self.add(ChangeKind::PatternPropertiesChanged, &pointer, ours, theirs);
            } else {
                self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
            }
        }
    }
}

fn admits_objects(engine: &mut Engine<'_>, id: Id) -> bool {
    engine
        .alternatives(id)
        .iter()
        .any(|atom| atom.kind == Kind::Object)
}

/// Where each required name stands first.
fn entries(schema: &Value) -> BTreeMap<&str, usize> {
    let Some(Value::Array(names)) = schema.get("required") else {
        return BTreeMap::new();
    };
    let mut entries = BTreeMap::new();
    for (index, name) in names.iter().enumerate() {
        if let Some(name) = name.as_str() {
            entries.entry(name).or_insert(index);
        }
    }
    entries
}

fn names(schema: &Value) -> BTreeSet<&str> {
    match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
}
