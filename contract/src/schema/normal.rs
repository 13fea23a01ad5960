//! Schemas in the form they are compared in: a node is opened into its alternatives, each an [`Atom`] that
//! admits values of one kind only and states every constraint on them as a conjunction.
//!
//! Whatever is not understood becomes an opaque [`Rule`], which only the very same text can meet. A node is
//! opened when it is first asked for, so references may go in circles.
//!
//! Invariant: a value that a node accepts is accepted by some of its atoms; and a value that meets all that one
//! atom says, rules included, is accepted by the node.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::decimal::Decimal;
use super::document::{Dialect, Document, Reading, declares_and_closes};
use super::pattern::Pattern;
use crate::canonical::canonical;
use crate::json::{Value, push_token};

/// Which node; two ids of one engine are the same node exactly when they are equal.
pub(super) type Id = usize;

/// The node that accepts every value.
pub(super) const EVERYTHING: Id = 0;
/// The node that accepts none.
pub(super) const NOTHING: Id = 1;

/// The most alternatives that a node is spread into; beyond them it is kept as one rule.
const MAX_ALTERNATIVES: usize = 128;
/// The deepest nesting that is followed: of schemas in schemas, of references, of values in values.
pub(super) const MAX_DEPTH: usize = 64;
/// The work that one comparison may take, in nodes and members looked at.
const BUDGET: u64 = 150_000;

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

#[derive(Debug, Clone)]
pub(super) enum Node<'a> {
    Everything,
    Nothing,
    /// A schema of a document; `part` when it is closed with its owner, not alone (see [`Reading::together`]).
    Schema {
        value: &'a Value,
        document: usize,
        pointer: Rc<str>,
        part: bool,
    },
    /// What all of these accept.
    All(Vec<Id>),
    /// What at least one of these accepts.
    Any(Vec<Id>),
    /// One value.
    Exactly(Constant),
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
            kind,
            values: values.map(|values| values.iter().filter_map(Constant::new).collect()),
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

    fn exactly(constant: &Constant) -> Atom {
        Atom {
            values: Some(vec![constant.clone()]),
            ..Atom::free(Kind::of(&constant.value))
        }
    }

    /// What both say; `None` where they clearly contradict each other.
    fn merged(&self, other: &Atom) -> Option<Atom> {
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
    fn is_only_values(&self) -> bool {
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

/// What is known about whether one node accepts all that another accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inclusion {
    Proved,
    Unproved,
    /// Being proved, from this many steps into values.
    Open {
        within: usize,
    },
}

/// Both documents' nodes, in every reading, with all that has been found out about them.
pub(super) struct Engine<'a> {
    pub(super) documents: Vec<Document<'a>>,
    pub(super) nodes: Vec<Node<'a>>,
    by_place: BTreeMap<(usize, usize, bool), Id>,
    by_parts: BTreeMap<(bool, Vec<Id>), Id>,
    alternatives: BTreeMap<Id, Rc<[Atom]>>,
    opening: BTreeSet<Id>,
    steps_left: u64,
    /// Whether a bound was met, so that something was left out.
    pub(super) exhausted: bool,
    pub(super) inclusions: BTreeMap<(Id, Id), Inclusion>,
    pub(super) proved: Vec<(Id, Id)>,
    pub(super) within: usize,
    pub(super) depth: usize,
    pub(super) samples: BTreeMap<Id, Vec<Rc<Value>>>,
    pub(super) counterexamples: BTreeMap<(Id, Id), Vec<Rc<Value>>>,
    pub(super) matching: BTreeSet<(Rc<str>, String)>,
    patterns: BTreeMap<Rc<str>, Option<Rc<Pattern>>>,
    fresh: usize,
    definitions: BTreeMap<usize, Option<usize>>,
    held: Vec<String>,
}

impl<'a> Engine<'a> {
    pub(super) fn new() -> Engine<'a> {
        Engine {
            documents: Vec::new(),
            nodes: vec![Node::Everything, Node::Nothing],
            by_place: BTreeMap::new(),
            by_parts: BTreeMap::new(),
            alternatives: BTreeMap::new(),
            opening: BTreeSet::new(),
            steps_left: BUDGET,
            exhausted: false,
            inclusions: BTreeMap::new(),
            proved: Vec::new(),
            within: 0,
            depth: 0,
            samples: BTreeMap::new(),
            counterexamples: BTreeMap::new(),
            matching: BTreeSet::new(),
            patterns: BTreeMap::new(),
            fresh: 0,
            definitions: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// Adds a document in a reading and gives its root.
    pub(super) fn add_document(&mut self, root: &'a Value, reading: Reading) -> Id {
        self.documents.push(Document::new(root, reading));
        self.schema(root, self.documents.len() - 1, "", false)
    }

    /// A pattern as far as it is understood.
    pub(super) fn pattern(&mut self, text: &str) -> Option<Rc<Pattern>> {
        if let Some(known) = self.patterns.get(text) {
            return known.clone();
        }
        self.steps(text.len() / 8).then_some(())?;
        let pattern = Pattern::parse(text).map(Rc::new);
        self.patterns.insert(text.into(), pattern.clone());
        pattern
    }

    /// Gives a phase of the comparison its own share of work, however little the ones before left.
    pub(super) fn allow_more_steps(&mut self) {
        self.steps_left = BUDGET;
    }

    /// Takes `count` steps; false when the budget does not have them.
    pub(super) fn steps(&mut self, count: usize) -> bool {
        match self.steps_left.checked_sub(count as u64) {
            Some(left) => {
                self.steps_left = left;
                true
            }
            None => {
                self.steps_left = 0;
                self.exhausted = true;
                false
            }
        }
    }

    /// The node of a schema at its place in a document.
    pub(super) fn schema(&mut self, value: &'a Value, document: usize, pointer: &str, part: bool) -> Id {
        match value {
            Value::Bool(true) => return EVERYTHING,
            Value::Bool(false) => return NOTHING,
            Value::Object(members) if members.is_empty() => return EVERYTHING,
            _ => {}
        }
        let place = (document, std::ptr::from_ref(value).addr(), part);
        if let Some(id) = self.by_place.get(&place) {
            return *id;
        }
        self.nodes.push(Node::Schema {
            value,
            document,
            pointer: pointer.into(),
            part,
        });
        self.by_place.insert(place, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// What all of these accept.
    pub(super) fn all(&mut self, ids: impl IntoIterator<Item = Id>) -> Id {
        let mut parts: BTreeSet<Id> = BTreeSet::new();
        for id in ids {
            match &self.nodes[id] {
                Node::Everything => {}
                Node::Nothing => return NOTHING,
                Node::All(inner) => parts.extend(inner),
                _ => {
                    parts.insert(id);
                }
            }
        }
        self.join(true, parts, EVERYTHING)
    }

    /// What at least one of these accepts.
    pub(super) fn any(&mut self, ids: impl IntoIterator<Item = Id>) -> Id {
        let mut parts: BTreeSet<Id> = BTreeSet::new();
        for id in ids {
            match &self.nodes[id] {
                Node::Everything => return EVERYTHING,
                Node::Nothing => {}
                Node::Any(inner) => parts.extend(inner),
                _ => {
                    parts.insert(id);
                }
            }
        }
        self.join(false, parts, NOTHING)
    }

    fn join(&mut self, all: bool, parts: BTreeSet<Id>, of_none: Id) -> Id {
        let parts: Vec<Id> = parts.into_iter().collect();
        match parts[..] {
            [] => of_none,
            [only] => only,
            _ => {
                if let Some(id) = self.by_parts.get(&(all, parts.clone())) {
                    return *id;
                }
                let id = self.nodes.len();
                self.by_parts.insert((all, parts.clone()), id);
                self.nodes
                    .push(if all { Node::All(parts) } else { Node::Any(parts) });
                id
            }
        }
    }

    /// The node that accepts this value only.
    pub(super) fn exactly(&mut self, constant: &Constant) -> Id {
        self.nodes.push(Node::Exactly(constant.clone()));
        self.nodes.len() - 1
    }

    /// The alternatives of a node; none when it accepts nothing.
    pub(super) fn alternatives(&mut self, id: Id) -> Rc<[Atom]> {
        if let Some(found) = self.alternatives.get(&id) {
            return found.clone();
        }
        if !self.steps(1) || self.depth >= MAX_DEPTH || !self.opening.insert(id) {
            // A schema that refers to itself before any step into the value says nothing that could be used.
            self.exhausted |= self.depth >= MAX_DEPTH;
            let rule = Rule::Opaque(format!("node {id}").into());
            return KINDS
                .map(|kind| Atom {
                    rules: vec![rule.clone()],
                    ..Atom::free(kind)
                })
                .into();
        }
        self.depth += 1;
        let atoms = match self.nodes[id].clone() {
            Node::Everything => KINDS.map(Atom::free).to_vec(),
            Node::Nothing => Vec::new(),
            Node::Exactly(constant) => vec![Atom::exactly(&constant)],
            Node::All(ids) => {
                let everything = KINDS.map(Atom::free).to_vec();
                ids.into_iter()
                    .fold(everything, |atoms, id| self.crossed(atoms, id))
            }
            Node::Any(ids) => {
                let mut atoms: Vec<Atom> = Vec::new();
                for branch in ids {
                    let opened = self.alternatives(branch);
                    if !self.steps(opened.len()) {
                        break;
                    }
                    for atom in opened.iter() {
                        gather(&mut atoms, atom.clone());
                    }
                    if atoms.len() > MAX_ALTERNATIVES {
                        let rule = Rule::Within(id);
                        atoms = KINDS
                            .map(|kind| Atom {
                                rules: vec![rule.clone()],
                                ..Atom::free(kind)
                            })
                            .into();
                        break;
                    }
                }
                if self.exhausted && self.steps_left == 0 {
                    let rule = Rule::Within(id);
                    atoms = KINDS
                        .map(|kind| Atom {
                            rules: vec![rule.clone()],
                            ..Atom::free(kind)
                        })
                        .into();
                }
                atoms
            }
            Node::Schema {
                value,
                document,
                pointer,
                part,
            } => self.opened(value, document, &pointer, part),
        };
        self.depth -= 1;
        self.opening.remove(&id);
        let atoms: Rc<[Atom]> = atoms.into();
        // What was cut short inside a circle is right only there.
        if self.opening.is_empty() || !atoms.iter().any(|atom| atom.rules.iter().any(is_circle)) {
            self.alternatives.insert(id, atoms.clone());
        }
        atoms
    }

    /// `atoms`, each only as far as the node accepts it.
    fn crossed(&mut self, atoms: Vec<Atom>, id: Id) -> Vec<Atom> {
        let others = self.alternatives(id);
        if !self.steps(atoms.len() * others.len()) {
            return within(atoms, id);
        }
        let mut crossed: Vec<Atom> = Vec::new();
        for atom in &atoms {
            for other in others.iter().filter(|other| other.kind == atom.kind) {
                if let Some(both) = atom.merged(other) {
                    gather(&mut crossed, both);
                }
                if crossed.len() > MAX_ALTERNATIVES {
                    return within(atoms, id);
                }
            }
        }
        crossed
    }

    /// What the schema says about values, by kind.
    fn opened(&mut self, value: &'a Value, document: usize, pointer: &str, part: bool) -> Vec<Atom> {
        let Value::Object(words) = value else {
            return opaque_atoms(&self.opaque(document, "", value));
        };
        if !self.steps(words.len()) {
            return opaque_atoms(&self.unlike_any());
        }
        let dialect = self.documents[document].dialect;
        if dialect == Dialect::Draft7
            && let Some(reference) = value.get("$ref")
        {
            let target = self.reference(reference, value, document, part);
            return self.alternatives(target).to_vec();
        }
        if value.get("$id").is_some() && !pointer.is_empty() {
            // References below count from another base.
            return opaque_atoms(&self.opaque(document, "$id", value));
        }
        let mut read = super::keywords::read(self, value, document, pointer, part);
        let mut atoms: Vec<Atom> = Vec::new();
        for kind in KINDS {
            if let Some(atom) = read.atom(kind) {
                atoms.push(atom);
            }
        }
        for id in std::mem::take(&mut read.within) {
            atoms = self.crossed(atoms, id);
        }
        for ids in std::mem::take(&mut read.one_of) {
            let any = self.any(ids.iter().copied());
            atoms = self.crossed(atoms, any);
            if !self.all_disjoint(&ids) {
                for atom in &mut atoms {
                    atom.rules.push(Rule::One(ids.clone()));
                }
            }
        }
        atoms
    }

    /// The text by which something not understood is known: the same text means the same in both documents.
    pub(super) fn opaque(&mut self, document: usize, word: &str, value: &Value) -> Rc<str> {
        let text = canonical(value, None)
            .ok()
            .filter(|text| self.steps(text.len() / 64));
        let Some(mut text) = text else {
            return self.unlike_any();
        };
        if text.contains("Ref\"") || text.contains("$ref\"") {
            let Some(held) = self
                .definitions(document)
                .filter(|_| refers_to_definitions(&text))
            else {
                return self.unlike_any();
            };
            text.push_str(&held.to_string());
        }
        if word.is_empty() {
            // A reference to somewhere else counts from the document's own name, and reads the same in every dialect.
            let own = self.documents[document].root.get("$id").and_then(Value::as_str);
            text.push_str(own.unwrap_or_default());
        }
        let dialect = self.documents[document].dialect;
        let dialect = if word.is_empty() {
            String::new()
        } else {
            format!("{dialect:?}")
        };
        format!("{word} {dialect} {text}").into()
    }

    /// A text that nothing else is known by.
    pub(super) fn unlike_any(&mut self) -> Rc<str> {
        self.fresh += 1;
        format!("unlike any {}", self.fresh).into()
    }

    /// A number for the definitions that references can lead to, the same for documents that hold the same.
    fn definitions(&mut self, document: usize) -> Option<usize> {
        if let Some(known) = self.definitions.get(&document) {
            return *known;
        }
        let Value::Object(words) = self.documents[document].root else {
            return None;
        };
        let mut text = String::new();
        for (word, said) in words
            .iter()
            .filter(|(word, _)| word == "$defs" || word == "definitions")
        {
            text.push_str(word);
            text.push_str(&canonical(said, None).ok()?);
        }
        let number = refers_to_definitions(&text).then(|| {
            self.held
                .iter()
                .position(|held| *held == text)
                .unwrap_or_else(|| {
                    self.held.push(text);
                    self.held.len() - 1
                })
        });
        self.definitions.insert(document, number);
        number
    }

    /// What a reference leads to, or a node that only the same reference meets.
    pub(super) fn reference(
        &mut self,
        reference: &Value,
        schema: &'a Value,
        document: usize,
        part: bool,
    ) -> Id {
        let found = reference
            .as_str()
            .and_then(|reference| self.documents[document].resolve(reference));
        match found {
            Some((target, pointer)) if !std::ptr::eq(target, schema) => {
                self.schema(target, document, &pointer, part)
            }
            _ => {
                // A schema object that is none: opened, it is opaque.
                let Value::Object(members) = schema else {
                    return EVERYTHING;
                };
                let own = members.iter().find(|(name, _)| name == "$ref");
                own.map_or(EVERYTHING, |(_, text)| self.schema(text, document, "", part))
            }
        }
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

fn is_circle(rule: &Rule) -> bool {
    matches!(rule, Rule::Opaque(text) if text.starts_with("node "))
}

fn within(mut atoms: Vec<Atom>, id: Id) -> Vec<Atom> {
    for atom in &mut atoms {
        atom.rules.push(Rule::Within(id));
    }
    atoms
}

/// Adds an alternative; plain sets of values of one kind become one.
fn gather(atoms: &mut Vec<Atom>, atom: Atom) {
    if atom.is_only_values()
        && let Some(other) = atoms
            .iter_mut()
            .find(|other| other.kind == atom.kind && other.is_only_values())
        && let (Some(ours), Some(theirs)) = (&mut other.values, atom.values.as_ref())
    {
        for constant in theirs {
            if !ours.iter().any(|known| known.text == constant.text) {
                ours.push(constant.clone());
            }
        }
        return;
    }
    atoms.push(atom);
}

/// Whether every reference in this text leads to a definition.
fn refers_to_definitions(text: &str) -> bool {
    text.match_indices("\"#").all(|(at, _)| {
        let target = &text[at + 2..];
        target.starts_with("/$defs/") || target.starts_with("/definitions/")
    })
}

fn opaque_atoms(text: &str) -> Vec<Atom> {
    let rule = Rule::Opaque(text.into());
    KINDS
        .map(|kind| Atom {
            rules: vec![rule.clone()],
            ..Atom::free(kind)
        })
        .to_vec()
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
        let all = Atom {
            values: None,
            ..Atom::free(Kind::Null)
        };
        Read {
            kinds: KINDS.into_iter().collect(),
            all,
            by_kind: Vec::new(),
            within: Vec::new(),
            one_of: Vec::new(),
        }
    }

    /// The part of it that is about values of this kind.
    fn atom(&self, kind: Kind) -> Option<Atom> {
        if !self.kinds.contains(&kind) {
            return None;
        }
        let all = &self.all;
        let mut atom = Atom::free(kind);
        if let Some(values) = &all.values {
            let fits = |constant: &&Constant| {
                Kind::of(&constant.value) == kind
                    && (!all.whole || kind != Kind::Number || is_whole(&constant.value))
            };
            atom.values = Some(values.iter().filter(fits).cloned().collect());
        }
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

/// A pointer one token longer.
pub(super) fn below(pointer: &str, tokens: &[&str]) -> String {
    let mut longer = pointer.to_owned();
    for token in tokens {
        push_token(&mut longer, token);
    }
    longer
}
