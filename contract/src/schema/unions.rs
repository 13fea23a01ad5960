//! Two unions side by side: each branch with the one it is most like, and what is left of either.
//!
//! Invariant: a branch is paired at most once, so that none is reported twice.

use super::differences::{May, Place, Step, Walk};
use super::keywords::decides;
use super::normal::Id;
use crate::change::ChangeKind;
use crate::json::Value;

impl<'a> Walk<'_, 'a> {
    /// The branches of a schema that is nothing but a union.
    pub(super) fn branches(&self, place: &Place<'a>) -> Option<Vec<Place<'a>>> {
        let Value::Object(words) = place.value else {
            return None;
        };
        let mut deciding = words
            .iter()
            .map(|(word, _)| word.as_str())
            .filter(|word| decides(word));
        let word = deciding.next().filter(|word| ["anyOf", "oneOf"].contains(word))?;
        let all = deciding.next().is_none().then(|| place.schemas(word))?;
        (!all.is_empty()).then_some(all)
    }

    /// Each branch with the one it is most like; what is left was removed or added.
    pub(super) fn unions(
        &mut self,
        before: &Place<'a>,
        after: &Place<'a>,
        ours: &[Place<'a>],
        theirs: &[Place<'a>],
        may: May,
    ) {
        let mut left: Vec<&Place<'a>> = theirs.iter().collect();
        let mut unmatched: Vec<&Place<'a>> = Vec::new();
        let mut pairs: Vec<(&Place<'a>, &Place<'a>)> = Vec::new();
        let tests: [fn(&Place<'_>, &Place<'_>) -> bool; 3] = [
            |one, other| one.value == other.value,
            |one, other| {
                ["$ref", "title", "const"]
                    .iter()
                    .any(|word| one.value.get(word).is_some() && one.value.get(word) == other.value.get(word))
            },
            |one, other| {
                one.value.get("type").is_some()
                    && one.value.get("type") == other.value.get("type")
                    && one.value.get("const").is_none()
            },
        ];
        let mut open: Vec<&Place<'a>> = ours.iter().collect();
        for alike in tests {
            for one in std::mem::take(&mut open) {
                if !self.engine.steps(1 + left.len()) {
                    unmatched.push(one);
                    continue;
                }
                match left.iter().position(|other| alike(one, other)) {
                    Some(index) => pairs.push((one, left.remove(index))),
                    None => open.push(one),
                }
            }
        }
        unmatched.extend(open);
        if let ([one], [other]) = (&unmatched[..], &left[..])
            && (ours.len() == 1 || theirs.len() == 1 || ours.len() == theirs.len())
        {
            pairs.push((one, other));
            unmatched.clear();
            left.clear();
        }
        let (before_id, after_id) = (self.id(before), self.id(after));
        let declared_outside = self.declared_beside;
        self.declared_beside |= theirs.len() > 1 && self.declares(after_id);
        for (one, other) in pairs {
            let whole = std::ptr::eq(one.value, before.value) || std::ptr::eq(other.value, after.value);
            self.chain.push((before_id, Step::Same));
            if whole {
                let (one, other) = (&self.settled(one), &self.settled(other));
                let (one_id, other_id) = (self.id(one), self.id(other));
                let may = May {
                    narrow: may.narrow && !self.engine.includes(one_id, other_id),
                    widen: may.widen && !self.engine.includes(other_id, one_id),
                };
                if may.narrow || may.widen {
                    self.keywords(one, other, may);
                }
            } else {
                self.seen_again(one, other);
                self.pair(one, other, may, None);
            }
            self.chain.pop();
        }
        self.declared_beside = declared_outside;
        if !may.narrow && !may.widen && (ours.len() != theirs.len() || !unmatched.is_empty()) {
            self.add(
                ChangeKind::SchemaRewritten,
                &after.pointer,
                Some(before.value),
                Some(after.value),
            );
            return;
        }
        for one in unmatched {
            let id = self.id(one);
            if !may.narrow || self.engine.includes(id, after_id) {
                continue;
            }
            let values = self.engine.counterexamples(id, after_id);
            self.narrowing(
                ChangeKind::UnionBranchRemoved,
                &one.pointer,
                Some(one.value),
                None,
                &values,
                None,
            );
        }
        for other in left {
            let id = self.id(other);
            if may.widen && !self.engine.includes(id, before_id) {
                self.add(
                    ChangeKind::UnionBranchAdded,
                    &other.pointer,
                    None,
                    Some(other.value),
                );
            }
        }
    }

    fn declares(&mut self, id: Id) -> bool {
        let atoms = self.engine.alternatives(id);
        let mut members = atoms.iter().flat_map(|atom| &atom.members);
        members.any(|said| !said.named.is_empty())
    }
}
