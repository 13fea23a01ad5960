//! What both schemas say alike, found in one pass down both, so that nothing of it is looked at twice.
//!
//! Invariant: of two parts that are called alike every word is the same, in the same order; and one stands for the
//! other only where no word in it leads out of it.

use std::collections::BTreeMap;

use super::document::Dialect;
use crate::json::Value;

/// How far down the two are read, in levels of JSON; what lies deeper is not known to be alike.
const MAX_LEVELS: usize = 160;
/// Words that lead to other parts of the document.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The objects of the new schema that stand in the old one too.
pub(super) struct Unchanged<'a> {
    /// By the address of the new one: the old one, and whether it stands for the new one.
    found: BTreeMap<usize, (&'a Value, bool)>,
}

/// How two values compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    No,
    /// Word by word, but some word refers to what may differ.
    Written,
    Yes,
}

impl<'a> Unchanged<'a> {
    /// Reads both side by side.
    pub(super) fn between(before: &'a Value, after: &'a Value) -> Unchanged<'a> {
        let mut unchanged = Unchanged {
            found: BTreeMap::new(),
        };
        let may_stand = Dialect::of(before) == Dialect::of(after);
        let best = if may_stand { Alike::Yes } else { Alike::Written };
        unchanged.visit(before, after, best, MAX_LEVELS);
        unchanged
    }

    /// Whether this part of the new schema is written in the old one too.
    pub(super) fn contains(&self, after: &Value) -> bool {
        self.found.contains_key(&std::ptr::from_ref(after).addr())
    }

    /// The part of the old schema that stands for this one of the new.
    pub(super) fn before(&self, after: &Value) -> Option<&'a Value> {
        let (before, stands) = self.found.get(&std::ptr::from_ref(after).addr())?;
        stands.then_some(*before)
    }

    fn visit(&mut self, before: &'a Value, after: &'a Value, best: Alike, levels: usize) -> Alike {
        match (before, after) {
            (Value::Object(_) | Value::Array(_), _) if levels == 0 => Alike::No,
            (Value::Object(ours), Value::Object(theirs)) => {
                let alike = self.visit_members(ours, theirs, best, levels - 1);
                if alike != Alike::No {
                    let stands = alike == Alike::Yes;
                    self.found
                        .insert(std::ptr::from_ref(after).addr(), (before, stands));
                }
                alike
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                let mut alike = if ours.len() == theirs.len() {
                    best
                } else {
                    Alike::No
                };
                for (one, other) in ours.iter().zip(theirs) {
                    alike = alike.min(self.visit(one, other, best, levels - 1));
                }
                alike
            }
            _ if before == after => best,
            _ => Alike::No,
        }
    }

    fn visit_members(
        &mut self,
        ours: &'a [(String, Value)],
        theirs: &'a [(String, Value)],
        best: Alike,
        levels: usize,
    ) -> Alike {
        let mut alike = if ours.len() == theirs.len() {
            best
        } else {
            Alike::No
        };
        // Nearly always they stand in the same order, a few come or gone.
        let mut next = 0;
        let mut by_name: Option<BTreeMap<&str, usize>> = None;
        for (name, value) in theirs {
            let index = if ours.get(next).is_some_and(|(one, _)| one == name) {
                Some(next)
            } else {
                alike = Alike::No;
                let by_name = by_name.get_or_insert_with(|| {
                    let named = |(index, (name, _)): (usize, &'a (String, Value))| (name.as_str(), index);
                    ours.iter().enumerate().map(named).collect()
                });
                by_name.get(name.as_str()).copied()
            };
            let Some(index) = index else { continue };
            next = index + 1;
            alike = alike.min(self.visit(&ours[index].1, value, best, levels));
            if REFERENCES.contains(&name.as_str()) {
                alike = alike.min(Alike::Written);
            }
        }
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    /// Which places of the new schema stand in the old one, and which of them for it.
    fn check(before: &str, after: &str, written: &[&str], standing: &[&str]) {
        let [before, after] = [before, after].map(|text| read(text).unwrap().value);
        let unchanged = Unchanged::between(&before, &after);
        let mut places = vec![""];
        places.extend([
            "/properties",
            "/properties/a",
            "/properties/b",
            "/anyOf/0",
            "/anyOf/1",
        ]);
        let of = |test: &dyn Fn(&Value) -> bool| -> Vec<&str> {
            let met = |place: &&&str| after.pointer(place).is_some_and(test);
            places.iter().filter(met).copied().collect()
        };
        assert_eq!(of(&|part| unchanged.contains(part)), written, "{after:?}");
        assert_eq!(
            of(&|part| unchanged.before(part).is_some()),
            standing,
            "{after:?}"
        );
    }

    #[test]
    fn what_is_written_alike_stands_for_itself_unless_it_leads_elsewhere() {
        check(
            r#"{"properties":{"a":{"type":"string"}}}"#,
            r#"{"properties":{"b":{"type":"null"},"a":{"type":"string"}}}"#,
            &["/properties/a"],
            &["/properties/a"],
        );
        check(
            r##"{"properties":{"a":{"items":{"$ref":"#"}},"b":{"const":1}},"required":["a"]}"##,
            r##"{"properties":{"a":{"items":{"$ref":"#"}},"b":{"const":1}},"required":["b"]}"##,
            &["/properties", "/properties/a", "/properties/b"],
            &["/properties/b"],
        );
        check(
            r#"{"anyOf":[{"const":1},{"const":2}]}"#,
            r#"{"anyOf":[{"const":1.0},{"const":2},{}]}"#,
            &["/anyOf/1"],
            &["/anyOf/1"],
        );
        check(
            r#"{"properties":{"a":{"type":"string","title":"A"},"b":{}}}"#,
            r#"{"properties":{"a":{"title":"A","type":"string"},"b":{}}}"#,
            &["/properties/b"],
            &["/properties/b"],
        );
    }

    #[test]
    fn nothing_stands_for_what_another_dialect_reads() {
        check(
            r#"{"properties":{"a":{"type":"string"}}}"#,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"string"}}}"#,
            &["/properties", "/properties/a"],
            &[],
        );
    }
}
