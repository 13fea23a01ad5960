//! What can be of no value at all, and what can share none, proved by rule.
//!
//! Invariant: "nothing" and "disjoint" are never wrong; whatever no rule proves may still be so.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::atom::{Atom, Bound, Kind};
use super::normal::{Engine, Id, MAX_DEPTH, NOTHING, Node};

impl Engine<'_> {
    /// Whether the node provably accepts no value.
    pub(super) fn accepts_nothing(&mut self, id: Id) -> bool {
        match self.nodes[id] {
            Node::Nothing => true,
            Node::Everything | Node::Exactly(_) => false,
            _ => {
                if self.depth >= MAX_DEPTH || !self.steps(1) {
                    return false;
                }
                self.depth += 1;
                let atoms = self.alternatives(id);
                let empty = atoms.iter().all(|atom| self.is_empty(atom));
                self.depth -= 1;
                empty
            }
        }
    }

    /// Whether no value can be of this atom, as far as its own constraints show.
    pub(super) fn is_empty(&mut self, atom: &Atom) -> bool {
        if atom.kind != Kind::Object || self.depth + 1 >= MAX_DEPTH {
            return false;
        }
        atom.required.iter().any(|name| {
            let member = self.member(&atom.members, name);
            member == NOTHING || (self.steps(1) && self.alternatives(member).is_empty())
        })
    }

    /// Whether no value is accepted by two of these, as far as that can be seen.
    pub(super) fn all_disjoint(&mut self, ids: &[Id]) -> bool {
        if ids.len() > 32 || self.depth + 2 >= MAX_DEPTH {
            return false;
        }
        for (index, one) in ids.iter().enumerate() {
            for other in &ids[index + 1..] {
                if one == other || !self.disjoint(*one, *other) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether two nodes provably share no value.
    pub(super) fn disjoint(&mut self, one: Id, other: Id) -> bool {
        if !self.steps(1) || self.depth + 2 >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        let (ones, others) = (self.alternatives(one), self.alternatives(other));
        let disjoint = ones.iter().all(|left| {
            others.iter().all(|right| {
                left.kind != right.kind
                    || self.atoms_disjoint(left, right)
                    || self.values_refused(left, other)
                    || self.values_refused(right, one)
            })
        });
        self.depth -= 1;
        disjoint
    }

    fn values_refused(&mut self, atom: &Atom, node: Id) -> bool {
        let Some(values) = &atom.values else { return false };
        values
            .iter()
            .all(|constant| self.steps(1) && self.accepts(node, &constant.value) == Some(false))
    }

    pub(super) fn atoms_disjoint(&mut self, left: &Atom, right: &Atom) -> bool {
        if left.kind != right.kind {
            return true;
        }
        if !self.steps(1) {
            return false;
        }
        if let (Some(ours), Some(theirs)) = (&left.values, &right.values) {
            return self.steps(ours.len() * theirs.len())
                && !ours
                    .iter()
                    .any(|one| theirs.iter().any(|other| one.text == other.text));
        }
        let apart = match left.kind {
            Kind::Number => {
                below(left.maximum.as_ref(), right.minimum.as_ref())
                    || below(right.maximum.as_ref(), left.minimum.as_ref())
            }
            Kind::String => {
                crossed(left.max_length, right.min_length) || crossed(right.max_length, left.min_length)
            }
            Kind::Array => {
                crossed(left.max_items, right.min_items) || crossed(right.max_items, left.min_items)
            }
            _ => false,
        };
        if apart || left.kind != Kind::Object {
            return apart;
        }
        let required: BTreeSet<Rc<str>> = left.required.union(&right.required).cloned().collect();
        required.iter().any(|name| {
            let (one, other) = (
                self.member(&left.members, name),
                self.member(&right.members, name),
            );
            one == NOTHING || other == NOTHING || self.disjoint(one, other)
        })
    }
}

fn below(high: Option<&Bound>, low: Option<&Bound>) -> bool {
    match (high, low) {
        (Some(high), Some(low)) => {
            high.at < low.at || (high.at == low.at && (high.exclusive || low.exclusive))
        }
        _ => false,
    }
}

fn crossed(most: Option<u64>, least: u64) -> bool {
    most.is_some_and(|most| most < least)
}
