//! Whether one node accepts everything that another accepts, proved by rule.
//!
//! The proof goes down both schemas side by side. A pair that is met again below itself is taken as proved,
//! if a step into the value lies between: that is induction over the size of the value.
//!
//! Invariant: `Proved` is never wrong; whatever no rule proves is unproved, which says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::atom::{Atom, Bound, Items, Kind, Members, Rule};
use super::normal::{EVERYTHING, Engine, Id, Inclusion, MAX_DEPTH, NOTHING, Node};

/// The most values of a member by which an object is split to find the branch for each.
const MAX_SPLIT: usize = 24;

impl Engine<'_> {
    /// Whether `larger` provably accepts whatever `smaller` accepts.
    pub(super) fn includes(&mut self, smaller: Id, larger: Id) -> bool {
        if smaller == larger || larger == EVERYTHING || smaller == NOTHING {
            return true;
        }
        match self.inclusions.get(&(smaller, larger)) {
            Some(Inclusion::Proved) => return true,
            Some(Inclusion::Unproved) => return false,
            Some(Inclusion::Open { within }) => return *within < self.within,
            None => {}
        }
        if !self.steps(1) {
            return false;
        }
        if self.depth >= MAX_DEPTH {
            self.exhausted = true;
            return false;
        }
        self.depth += 1;
        let proved_before = self.proved.len();
        self.inclusions
            .insert((smaller, larger), Inclusion::Open { within: self.within });
        let atoms = self.alternatives(smaller);
        let proved = atoms.iter().all(|atom| self.covers(atom, smaller, larger));
        self.depth -= 1;
        if proved {
            self.proved.push((smaller, larger));
            self.inclusions.insert((smaller, larger), Inclusion::Proved);
        } else {
            // What was proved by taking this pair for granted is open again.
            for pair in self.proved.drain(proved_before..) {
                self.inclusions.remove(&pair);
            }
            self.inclusions.insert((smaller, larger), Inclusion::Unproved);
        }
        proved
    }

    /// [`Engine::includes`] for a part of the value: a member, an item, a name.
    fn part_includes(&mut self, smaller: Id, larger: Id) -> bool {
        self.within += 1;
        let proved = self.includes(smaller, larger);
        self.within -= 1;
        proved
    }

    /// Whether `larger` accepts every value of `atom`, which is one of the alternatives of `smaller`.
    fn covers(&mut self, atom: &Atom, smaller: Id, larger: Id) -> bool {
        if !self.steps(1) {
            return false;
        }
        if let Some(values) = &atom.values {
            let one_by_one = values.iter().all(|constant| {
                self.steps(1)
                    && (self.accepts(larger, &constant.value) == Some(true)
                        || self.accepts(smaller, &constant.value) == Some(false))
            });
            if one_by_one {
                return true;
            }
        }
        let alternatives = self.alternatives(larger);
        let mut of_kind = alternatives.iter().filter(|other| other.kind == atom.kind);
        if of_kind.clone().any(|other| self.fits(atom, other, smaller)) {
            return true;
        }
        if of_kind.clone().nth(1).is_some() && self.covers_split(atom, smaller, larger) {
            return true;
        }
        // Nothing may be accepted here at all.
        of_kind.next();
        self.is_empty(atom)
    }

    /// The same for an object, by each value of a member that must be there.
    fn covers_split(&mut self, atom: &Atom, smaller: Id, larger: Id) -> bool {
        if atom.kind != Kind::Object || self.depth + 1 >= MAX_DEPTH {
            return false;
        }
        for name in atom.required.clone() {
            let member = self.member(&atom.members, &name);
            if member == EVERYTHING {
                continue;
            }
            let values: Option<Vec<_>> = self
                .alternatives(member)
                .iter()
                .map(|one| one.values.clone())
                .collect();
            let Some(values) = values.map(|lists| lists.concat()) else {
                continue;
            };
            if values.len() < 2 || values.len() > MAX_SPLIT {
                continue;
            }
            self.depth += 1;
            let covered = values.iter().all(|value| {
                let only = self.exactly(value);
                let mut one = atom.clone();
                one.members.push(Members {
                    named: BTreeMap::from([(name.clone(), only)]),
                    by_pattern: Vec::new(),
                    others: EVERYTHING,
                });
                let alternatives = self.alternatives(larger);
                let mut of_kind = alternatives.iter().filter(|other| other.kind == Kind::Object);
                of_kind.any(|other| self.fits(&one, other, smaller)) || self.is_empty(&one)
            });
            self.depth -= 1;
            if covered {
                return true;
            }
        }
        false
    }

    /// Whether `other` admits every value of `atom`, both of one kind.
    fn fits(&mut self, atom: &Atom, other: &Atom, smaller: Id) -> bool {
        if !self.steps(1) {
            return false;
        }
        if let Some(theirs) = &other.values {
            let Some(ours) = &atom.values else { return false };
            let texts: BTreeSet<&str> = theirs.iter().map(|constant| &*constant.text).collect();
            if !self.steps(texts.len()) || !ours.iter().all(|constant| texts.contains(&*constant.text)) {
                return false;
            }
        }
        let plain = match atom.kind {
            Kind::Null | Kind::Boolean => true,
            Kind::Number => number_fits(atom, other),
            Kind::String => {
                atom.min_length >= other.min_length
                    && within(atom.max_length, other.max_length)
                    && other
                        .patterns
                        .iter()
                        .all(|pattern| self.matches_too(atom, pattern))
                    && other.formats.keys().all(|name| atom.formats.contains_key(name))
            }
            Kind::Array => self.array_fits(atom, other),
            Kind::Object => self.object_fits(atom, other),
        };
        plain && other.rules.iter().all(|rule| self.meets(atom, rule, smaller))
    }

    /// Whether whatever matches the patterns of `atom` matches this one.
    fn matches_too(&mut self, atom: &Atom, pattern: &str) -> bool {
        if atom.patterns.contains(pattern) {
            return true;
        }
        let Some(larger) = self.pattern(pattern) else {
            return false;
        };
        atom.patterns
            .iter()
            .any(|own| self.pattern(own).is_some_and(|own| own.fits(&larger)))
    }

    fn array_fits(&mut self, atom: &Atom, other: &Atom) -> bool {
        let most = self.most_items(atom);
        let sized = atom.min_items >= other.min_items
            && within(most, other.max_items)
            && (!other.unique || atom.unique || most.is_some_and(|most| most <= 1));
        sized && other.items.iter().all(|items| self.items_fit(atom, most, items))
    }

    fn items_fit(&mut self, atom: &Atom, most: Option<u64>, items: &Items) -> bool {
        let stated = atom
            .items
            .iter()
            .map(|items| items.first.len())
            .max()
            .unwrap_or(0);
        let stated = stated.max(items.first.len());
        for index in 0..stated {
            if most.is_some_and(|most| index as u64 >= most) {
                return true;
            }
            let item = self.item(&atom.items, index);
            if !self.part_includes(item, items.at(index)) {
                return false;
            }
        }
        if most.is_some_and(|most| stated as u64 >= most) {
            return true;
        }
        let item = self.item(&atom.items, stated);
        self.part_includes(item, items.rest)
    }

    /// What an item must be by all that is said.
    pub(super) fn item(&mut self, said: &[Items], index: usize) -> Id {
        self.all(said.iter().map(|items| items.at(index)))
    }

    /// The most items that an array of this atom can have.
    fn most_items(&mut self, atom: &Atom) -> Option<u64> {
        let stated = atom
            .items
            .iter()
            .map(|items| items.first.len())
            .max()
            .unwrap_or(0);
        let mut most = atom.max_items;
        for index in 0..=stated {
            if most.is_some_and(|most| most <= index as u64) || !self.steps(1) {
                break;
            }
            let item = self.item(&atom.items, index);
            if self.accepts_nothing(item) {
                most = Some(index as u64);
                break;
            }
        }
        most
    }

    fn object_fits(&mut self, atom: &Atom, other: &Atom) -> bool {
        let most = most_members(atom);
        let sized = atom.least_members() >= other.min_members
            && other.required.is_subset(&atom.required)
            && within(most, other.max_members);
        sized
            && other
                .members
                .iter()
                .all(|members| self.members_fit(atom, members))
    }

    /// Whether each member that an object of `atom` can have is one that `members` allows.
    fn members_fit(&mut self, atom: &Atom, members: &Members) -> bool {
        let stated = atom.members.iter().flat_map(|said| said.named.keys());
        let names: BTreeSet<Rc<str>> = stated.chain(members.named.keys()).cloned().collect();
        if !self.steps(names.len()) {
            return false;
        }
        let same_pattern = |pattern: &Rc<str>, said: &Members| {
            said.by_pattern
                .iter()
                .find(|(text, _)| text == pattern)
                .map(|(_, schema)| *schema)
        };
        for name in &names {
            let member = self.member(&atom.members, name);
            // Whether a name matches a pattern is not known: both must hold.
            let asked = members.named.get(name).copied().unwrap_or(members.others);
            if (member == asked && members.by_pattern.is_empty()) || self.accepts_nothing(member) {
                continue;
            }
            if !self.part_includes(member, asked) {
                return false;
            }
            for (pattern, schema) in &members.by_pattern {
                let same: Vec<Id> = atom
                    .members
                    .iter()
                    .filter_map(|said| same_pattern(pattern, said))
                    .collect();
                let matching = self.all(same.into_iter().chain([member]));
                if !self.part_includes(matching, *schema) {
                    return false;
                }
            }
        }
        for (pattern, schema) in &members.by_pattern {
            let mut parts = Vec::new();
            for said in &atom.members {
                parts.push(match same_pattern(pattern, said) {
                    Some(schema) => schema,
                    None => self.unnamed(said, &[]),
                });
            }
            let matching = self.all(parts);
            if !self.part_includes(matching, *schema) {
                return false;
            }
        }
        let patterns: Vec<Rc<str>> = members
            .by_pattern
            .iter()
            .map(|(pattern, _)| pattern.clone())
            .collect();
        let parts: Vec<Id> = atom
            .members
            .iter()
            .map(|said| self.unnamed(said, &patterns))
            .collect();
        let other = self.all(parts);
        self.part_includes(other, members.others)
    }

    /// What a member that has no schema of its own must be at least, if it matches none of `except`.
    fn unnamed(&mut self, said: &Members, except: &[Rc<str>]) -> Id {
        let matching = said
            .by_pattern
            .iter()
            .filter(|(pattern, _)| !except.contains(pattern));
        let ids: Vec<Id> = matching.map(|(_, schema)| *schema).chain([said.others]).collect();
        self.any(ids)
    }

    /// What the member of this name must be at least, by all that is said.
    pub(super) fn member(&mut self, said: &[Members], name: &str) -> Id {
        let mut parts = Vec::new();
        for members in said {
            parts.push(match members.named.get(name) {
                Some(schema) => *schema,
                None => self.unnamed(members, &[]),
            });
        }
        self.all(parts)
    }

    /// Whether every value of `atom`, an alternative of `smaller`, meets the rule.
    fn meets(&mut self, atom: &Atom, rule: &Rule, smaller: Id) -> bool {
        if !self.steps(1 + atom.rules.len()) || self.depth + 1 >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        let met = self.meets_rule(atom, rule, smaller);
        self.depth -= 1;
        met
    }

    fn meets_rule(&mut self, atom: &Atom, rule: &Rule, smaller: Id) -> bool {
        match rule {
            Rule::Opaque(text) => {
                let same = |rule: &Rule| matches!(rule, Rule::Opaque(other) if other == text);
                atom.rules.iter().any(same)
            }
            Rule::Within(id) => {
                let stated = |rule: &Rule| matches!(rule, Rule::Within(other) if other == id);
                if atom.rules.iter().any(stated) {
                    return true;
                }
                match self.nodes[*id].clone() {
                    Node::Any(branches) => branches
                        .into_iter()
                        .any(|branch| self.covers(atom, smaller, branch)),
                    Node::All(parts) => parts.into_iter().all(|part| self.covers(atom, smaller, part)),
                    _ => self.includes(smaller, *id),
                }
            }
            Rule::One(ids) => atom.rules.iter().any(|other| match other {
                Rule::One(others) => self.same_nodes(others, ids),
                _ => false,
            }),
            Rule::Not(refused) => {
                let stated = atom.rules.iter().any(|other| match other {
                    Rule::Not(other) => self.includes(*refused, *other),
                    _ => false,
                });
                let apart = |engine: &mut Self| {
                    let refused = engine.alternatives(*refused);
                    refused.iter().all(|one| engine.atoms_disjoint(atom, one))
                };
                stated || apart(self)
            }
            Rule::If {
                condition,
                then,
                otherwise,
            } => {
                let stated = atom.rules.iter().any(|other| match other {
                    Rule::If {
                        condition: other_condition,
                        then: other_then,
                        otherwise: other_otherwise,
                    } => {
                        self.same_nodes(&[*other_condition], &[*condition])
                            && self.includes(*other_then, *then)
                            && self.includes(*other_otherwise, *otherwise)
                    }
                    _ => false,
                });
                stated
                    || (self.covers(atom, smaller, *then)
                        && (self.covers(atom, smaller, *otherwise) || self.covers(atom, smaller, *condition)))
            }
            Rule::Contains { item, least, most } => {
                let enough = *least == 0
                    || atom.rules.iter().any(|other| match other {
                        Rule::Contains {
                            item: other,
                            least: at_least,
                            ..
                        } => at_least >= least && self.part_includes(*other, *item),
                        _ => false,
                    });
                let few = most.is_none_or(|most| {
                    atom.max_items.is_some_and(|items| items <= most)
                        || atom.rules.iter().any(|other| match other {
                            Rule::Contains {
                                item: other,
                                most: Some(at_most),
                                ..
                            } => *at_most <= most && self.part_includes(*item, *other),
                            _ => false,
                        })
                });
                enough && few
            }
            Rule::Names(names) => {
                let stated = atom.rules.iter().any(|other| match other {
                    Rule::Names(other) => self.part_includes(*other, *names),
                    _ => false,
                });
                stated || self.all_strings_fit(*names) || self.all_names_fit(atom, *names)
            }
            Rule::Requires { member, others } => {
                others.is_subset(&atom.required)
                    || atom.rules.iter().any(|other| match other {
                        Rule::Requires {
                            member: other,
                            others: required,
                        } => other == member && others.is_subset(required),
                        _ => false,
                    })
                    || self.never_there(atom, member)
            }
            Rule::Implies { member, schema } => {
                let stated = atom.rules.iter().any(|other| match other {
                    Rule::Implies {
                        member: other,
                        schema: implied,
                    } => other == member && self.includes(*implied, *schema),
                    _ => false,
                });
                stated || self.never_there(atom, member) || self.covers(atom, smaller, *schema)
            }
        }
    }

    fn never_there(&mut self, atom: &Atom, name: &str) -> bool {
        let member = self.member(&atom.members, name);
        self.accepts_nothing(member)
    }

    /// Whether these are pairwise the same, in order.
    fn same_nodes(&mut self, ones: &[Id], others: &[Id]) -> bool {
        ones.len() == others.len()
            && ones
                .iter()
                .zip(others)
                .all(|(one, other)| self.includes(*one, *other) && self.includes(*other, *one))
    }

    fn all_strings_fit(&mut self, names: Id) -> bool {
        self.within += 1;
        let fit = self.covers(&Atom::free(Kind::String), EVERYTHING, names);
        self.within -= 1;
        fit
    }

    fn all_names_fit(&mut self, atom: &Atom, names: Id) -> bool {
        let closed = atom
            .members
            .iter()
            .find(|said| said.others == NOTHING && said.by_pattern.is_empty());
        let Some(closed) = closed else { return false };
        closed.named.keys().all(|name| {
            self.steps(1)
                && (self.accepts(names, &crate::json::Value::String(name.to_string())) == Some(true)
                    || self.never_there(atom, name))
        })
    }
}

/// The most members that an object of this atom can have.
pub(super) fn most_members(atom: &Atom) -> Option<u64> {
    let closed = atom
        .members
        .iter()
        .filter(|said| said.others == NOTHING && said.by_pattern.is_empty());
    let fewest = closed.map(|said| said.named.len() as u64).min();
    match (atom.max_members, fewest) {
        (Some(stated), Some(fewest)) => Some(stated.min(fewest)),
        (stated, fewest) => stated.or(fewest),
    }
}

fn number_fits(atom: &Atom, other: &Atom) -> bool {
    let one = super::decimal::Decimal::from(1);
    let whole = atom.whole || atom.multiples.iter().any(super::decimal::Decimal::is_whole);
    let divides = |wanted: &super::decimal::Decimal| {
        atom.multiples.iter().any(|has| {
            has == wanted
                || match (has.to_whole(), wanted.to_whole()) {
                    (Some(has), Some(wanted)) => wanted != 0 && has % wanted == 0,
                    _ => false,
                }
        }) || (whole && *wanted == one)
    };
    (!other.whole || whole)
        && reaches(atom.minimum.as_ref(), other.minimum.as_ref(), true)
        && reaches(atom.maximum.as_ref(), other.maximum.as_ref(), false)
        && other.multiples.iter().all(divides)
}

/// Whether the first bound is at least as tight as the second.
fn reaches(bound: Option<&Bound>, asked: Option<&Bound>, from_below: bool) -> bool {
    let Some(asked) = asked else { return true };
    let Some(bound) = bound else { return false };
    let order = bound.at.cmp(&asked.at);
    let order = if from_below { order } else { order.reverse() };
    order.then(bound.exclusive.cmp(&asked.exclusive)).is_ge()
}

fn within(most: Option<u64>, asked: Option<u64>) -> bool {
    asked.is_none_or(|asked| most.is_some_and(|most| most <= asked))
}
