//! Which objects are read as closed, and by which schemas together.
//!
//! Invariant: an object is closed only where its schema declares members and nothing says what others must be; in the
//! reading that takes the parts of an object together, all of them must agree.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::document::declares_and_closes;
use super::normal::Engine;
use crate::json::Value;

impl<'a> Engine<'a> {
    /// Whether other schemas say something about the same object as this one does.
    pub(super) fn has_parts(&self, value: &Value) -> bool {
        let beside = value.get("$ref").is_some() && value.get("properties").is_some();
        beside || part_schemas(value).next().is_some()
    }

    /// The names an owner declares in its parts, and whether it is read as closed.
    pub(super) fn closing(
        &mut self,
        value: &'a Value,
        document: usize,
        part: bool,
    ) -> Option<BTreeSet<Rc<str>>> {
        let mut extra = BTreeSet::new();
        if !self.documents[document].reading.together {
            return declares_and_closes(value).then_some(extra);
        }
        if part || !self.has_parts(value) {
            return (!part && declares_and_closes(value)).then_some(extra);
        }
        let is_schema = |value: &Value, name: &str| matches!(value.get(name), Some(Value::Object(_)));
        let mut open = vec![value];
        let mut seen = BTreeSet::new();
        let mut declares = false;
        while let Some(schema) = open.pop() {
            if !seen.insert(std::ptr::from_ref(schema).addr()) || !self.steps(1) {
                continue;
            }
            let says_more = is_schema(schema, "additionalProperties")
                || is_schema(schema, "unevaluatedProperties")
                || schema.get("patternProperties").is_some();
            if says_more {
                return None;
            }
            if let Some(Value::Object(properties)) = schema.get("properties") {
                declares = true;
                extra.extend(properties.iter().map(|(name, _)| Rc::from(name.as_str())));
            }
            open.extend(part_schemas(schema));
            let target = schema.get("$ref").and_then(Value::as_str);
            if let Some((target, _)) = target.and_then(|text| self.documents[document].resolve(text)) {
                open.push(target);
            }
        }
        declares.then_some(extra)
    }
}

/// The schemas that say something about the same object, other than by being alternatives of it.
fn part_schemas<'a>(schema: &'a Value) -> impl Iterator<Item = &'a Value> {
    let list = |name: &str| match schema.get(name) {
        Some(Value::Array(items)) => items.as_slice(),
        _ => &[],
    };
    let under = |name: &str| match schema.get(name) {
        Some(Value::Object(members)) => members.as_slice(),
        _ => &[],
    };
    let beside_properties = schema.get("properties").is_some() || schema.get("allOf").is_some();
    let unions: [&'a [Value]; 2] = if beside_properties {
        [list("anyOf"), list("oneOf")]
    } else {
        [&[], &[]]
    };
    let single = ["then", "else"].into_iter().filter_map(|name| schema.get(name));
    let dependent = under("dependentSchemas")
        .iter()
        .chain(under("dependencies"))
        .map(|(_, schema)| schema);
    let lists = list("allOf").iter().chain(unions[0]).chain(unions[1]);
    lists.chain(single).chain(dependent)
}
