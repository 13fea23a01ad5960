//! What can be said about values of one kind, as a conjunction of constraints.
//!
//! Invariant: merging two atoms leaves exactly the values that both admit.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::decimal::Decimal;
use super::document::Dialect;
use super::normal::Id;
use crate::canonical::canonical;
use crate::json::Value;

/// A constant, with the canonical text by which constants are compared.
#[derive(Debug, Clone)]
pub(super) struct Constant {
    pub(super) text: Rc<str>,
    pub(super) value: Rc<Value>,
}

impl Constant {
    /// `None` where RFC 8785 can't carry the value.
    pub(super) fn new(value: &Value) -> Option<Constant> {
        let text = canonical(value, None).ok()?.into();
        Some(Constant {
            text,
            value: Rc::new(value.clone()),
        })
    }
}

/// The kinds of values; a whole number is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

pub(super) const KINDS: [Kind; 6] = [
    Kind::Null,
    Kind::Boolean,
    Kind::Number,
    Kind::String,
    Kind::Array,
    Kind::Object,
];

impl Kind {
    pub(super) fn of(value: &Value) -> Kind {
        match value {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Boolean,
            Value::Number(_) => Kind::Number,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::Array,
            Value::Object(_) => Kind::Object,
        }
    }
}

/// A bound on a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) at: Decimal,
    pub(super) exclusive: bool,
}

/// One schema's say on the members of an object.
#[derive(Debug, Clone)]
pub(super) struct Members {
    pub(super) named: BTreeMap<Rc<str>, Id>,
    pub(super) by_pattern: Vec<(Rc<str>, Id)>,
    pub(super) others: Id,
}

/// One schema's say on the items of an array.
#[derive(Debug, Clone)]
pub(super) struct Items {
    pub(super) first: Vec<Id>,
    pub(super) rest: Id,
}

impl Items {
    pub(super) fn at(&self, index: usize) -> Id {
        self.first.get(index).copied().unwrap_or(self.rest)
    }
}

/// A constraint that has no simpler form.
#[derive(Debug, Clone)]
pub(super) enum Rule {
    /// Something not understood, by its canonical text (and whatever it refers to).
    Opaque(Rc<str>),
    /// Accepted by this node: kept as a rule where spreading it would be too wide.
    Within(Id),
    /// Accepted by exactly one of these.
    One(Vec<Id>),
    Not(Id),
    If {
        condition: Id,
        then: Id,
        otherwise: Id,
    },
    Contains {
        item: Id,
        least: u64,
        most: Option<u64>,
    },
    Names(Id),
    Requires {
        member: Rc<str>,
        others: BTreeSet<Rc<str>>,
    },
    Implies {
        member: Rc<str>,
        schema: Id,
    },
}

/// Values of one kind, by all that is said about them.
#[derive(Debug, Clone)]
pub(super) struct Atom {
    pub(super) kind: Kind,
    /// The only values it can have, where these are known.
    pub(super) values: Option<Vec<Constant>>,
    pub(super) whole: bool,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiples: Vec<Decimal>,
    pub(super) min_length: u64,
    pub(super) max_length: Option<u64>,
    pub(super) patterns: BTreeSet<Rc<str>>,
    /// Known formats, each with the oldest dialect that asks for it here.
    pub(super) formats: BTreeMap<Rc<str>, Dialect>,
    pub(super) items: Vec<Items>,
    pub(super) min_items: u64,
    pub(super) max_items: Option<u64>,
    pub(super) unique: bool,
    pub(super) members: Vec<Members>,
    pub(super) required: BTreeSet<Rc<str>>,
    pub(super) min_members: u64,
    pub(super) max_members: Option<u64>,
    pub(super) rules: Vec<Rule>,
}

impl Atom {
    pub(super) fn free(kind: Kind) -> Atom {
        let values = match kind {
            Kind::Null => Some(vec![Value::Null]),
            Kind::Boolean => Some(vec![Value::Bool(false), Value::Bool(true)]),
            _ => None,
        };
        Atom {
            values: values.map(|values| values.iter().filter_map(Constant::new).collect()),
            ..Atom::blank(kind)
        }
    }

    /// Values of this kind of which not even the values that the kind has are listed.
    fn blank(kind: Kind) -> Atom {
        Atom {
            kind,
            values: None,
            whole: false,
            minimum: None,
            maximum: None,
            multiples: Vec::new(),
            min_length: 0,
            max_length: None,
            patterns: BTreeSet::new(),
            formats: BTreeMap::new(),
            items: Vec::new(),
            min_items: 0,
            max_items: None,
            unique: false,
            members: Vec::new(),
            required: BTreeSet::new(),
            min_members: 0,
            max_members: None,
            rules: Vec::new(),
        }
    }

    pub(super) fn exactly(constant: &Constant) -> Atom {
        Atom {
            values: Some(vec![constant.clone()]),
            ..Atom::blank(Kind::of(&constant.value))
        }
    }

    /// What both say; `None` where they clearly contradict each other.
    pub(super) fn merged(&self, other: &Atom) -> Option<Atom> {
        let mut atom = self.clone();
        atom.values = match (&self.values, &other.values) {
            (Some(ours), Some(theirs)) => {
                let texts: BTreeSet<&str> = theirs.iter().map(|constant| &*constant.text).collect();
                Some(
                    ours.iter()
                        .filter(|constant| texts.contains(&*constant.text))
                        .cloned()
                        .collect(),
                )
            }
            (ours, theirs) => ours.clone().or_else(|| theirs.clone()),
        };
        atom.whole |= other.whole;
        atom.minimum = tighter(self.minimum.as_ref(), other.minimum.as_ref(), true);
        atom.maximum = tighter(self.maximum.as_ref(), other.maximum.as_ref(), false);
        atom.multiples.extend_from_slice(&other.multiples);
        atom.min_length = self.min_length.max(other.min_length);
        atom.max_length = least(self.max_length, other.max_length);
        atom.patterns.extend(other.patterns.iter().cloned());
        atom.formats.extend(
            other
                .formats
                .iter()
                .map(|(name, dialect)| (name.clone(), *dialect)),
        );
        atom.items.extend_from_slice(&other.items);
        atom.min_items = self.min_items.max(other.min_items);
        atom.max_items = least(self.max_items, other.max_items);
        atom.unique |= other.unique;
        atom.members.extend_from_slice(&other.members);
        atom.required.extend(other.required.iter().cloned());
        atom.min_members = self.min_members.max(other.min_members);
        atom.max_members = least(self.max_members, other.max_members);
        atom.rules.extend_from_slice(&other.rules);
        atom.tidy()
    }

    /// Bounds of whole numbers as whole numbers, both inclusive; `None` when no value is left.
    fn tidy(mut self) -> Option<Atom> {
        if self.whole {
            let whole = |bound: &Bound, at: Option<i128>, beyond: i128| {
                let at = at?;
                let shifted = if bound.exclusive && bound.at.is_whole() {
                    at + beyond
                } else {
                    at
                };
                Some(Bound {
                    at: Decimal::from(shifted),
                    exclusive: false,
                })
            };
            if let Some(bound) = &self.minimum {
                self.minimum = whole(bound, bound.at.ceiling(), 1).or(self.minimum);
            }
            if let Some(bound) = &self.maximum {
                self.maximum = whole(bound, bound.at.floor(), -1).or(self.maximum);
            }
        }
        let crossed = match (&self.minimum, &self.maximum) {
            (Some(low), Some(high)) => {
                low.at > high.at || (low.at == high.at && (low.exclusive || high.exclusive))
            }
            _ => false,
        };
        let empty = crossed
            || self.values.as_ref().is_some_and(Vec::is_empty)
            || self.max_length.is_some_and(|most| most < self.min_length)
            || self.max_items.is_some_and(|most| most < self.min_items)
            || self.max_members.is_some_and(|most| most < self.least_members());
        if empty { None } else { Some(self) }
    }

    /// The fewest members that an object of this atom has.
    pub(super) fn least_members(&self) -> u64 {
        self.min_members.max(self.required.len() as u64)
    }

    /// Whether the values are all that is said.
    pub(super) fn is_only_values(&self) -> bool {
        self.values.is_some()
            && self.rules.is_empty()
            && !self.whole
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiples.is_empty()
            && self.min_length == 0
            && self.max_length.is_none()
            && self.patterns.is_empty()
            && self.formats.is_empty()
            && self.items.is_empty()
            && self.min_items == 0
            && self.max_items.is_none()
            && !self.unique
            && self.members.is_empty()
            && self.required.is_empty()
            && self.min_members == 0
            && self.max_members.is_none()
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

pub(super) fn tighter(one: Option<&Bound>, other: Option<&Bound>, from_below: bool) -> Option<Bound> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other).cloned();
    };
    let order = one.at.cmp(&other.at);
    let order = if from_below { order } else { order.reverse() };
    let first = order.then(one.exclusive.cmp(&other.exclusive)).is_ge();
    Some(if first { one.clone() } else { other.clone() })
}

/// All that one schema object says, before it is split by kind.
pub(super) struct Read {
    pub(super) kinds: BTreeSet<Kind>,
    pub(super) all: Atom,
    /// Rules that hold for values of one kind only.
    pub(super) by_kind: Vec<(Kind, Rule)>,
    /// Nodes that the value must also be accepted by.
    pub(super) within: Vec<Id>,
    pub(super) one_of: Vec<Vec<Id>>,
}

impl Read {
    pub(super) fn new() -> Read {
        Read {
            kinds: KINDS.into_iter().collect(),
            all: Atom::blank(Kind::Null),
            by_kind: Vec::new(),
            within: Vec::new(),
            one_of: Vec::new(),
        }
    }

    /// The part of it that is about values of this kind.
    pub(super) fn atom(&self, kind: Kind) -> Option<Atom> {
        if !self.kinds.contains(&kind) {
            return None;
        }
        let all = &self.all;
        let mut atom = match &all.values {
            None => Atom::free(kind),
            Some(values) => {
                let fits = |constant: &&Constant| {
                    Kind::of(&constant.value) == kind
                        && (!all.whole || kind != Kind::Number || is_whole(&constant.value))
                };
                Atom {
                    values: Some(values.iter().filter(fits).cloned().collect()),
                    ..Atom::blank(kind)
                }
            }
        };
        match kind {
            Kind::Null | Kind::Boolean => {}
            Kind::Number => {
                atom.whole = all.whole;
                atom.minimum.clone_from(&all.minimum);
                atom.maximum.clone_from(&all.maximum);
                atom.multiples.clone_from(&all.multiples);
            }
            Kind::String => {
                atom.min_length = all.min_length;
                atom.max_length = all.max_length;
                atom.patterns.clone_from(&all.patterns);
                atom.formats.clone_from(&all.formats);
            }
            Kind::Array => {
                atom.items.clone_from(&all.items);
                atom.min_items = all.min_items;
                atom.max_items = all.max_items;
                atom.unique = all.unique;
            }
            Kind::Object => {
                atom.members.clone_from(&all.members);
                atom.required.clone_from(&all.required);
                atom.min_members = all.min_members;
                atom.max_members = all.max_members;
            }
        }
        atom.rules.clone_from(&all.rules);
        let own = self.by_kind.iter().filter(|(of, _)| *of == kind);
        atom.rules.extend(own.map(|(_, rule)| rule.clone()));
        atom.tidy()
    }
}

/// Whether a number has no fraction; true for what is no number.
pub(super) fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => Decimal::parse(number.text()).is_some_and(|number| number.is_whole()),
        _ => true,
    }
}
