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

use super::atom::{Atom, Constant, KINDS, Rule};
use super::document::{Dialect, Document, Reading};
use super::pattern::Pattern;
use super::unchanged::Unchanged;
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
const BUDGET: u64 = 60_000;

#[derive(Debug, Clone)]
pub(super) enum Node<'a> {
    Everything,
    Nothing,
    /// A schema of a document; `part` when it is closed with its owner, not alone (see [`Reading::together`]).
    Schema {
        value: &'a Value,
        document: usize,
        part: bool,
    },
    /// What all of these accept.
    All(Vec<Id>),
    /// What at least one of these accepts.
    Any(Vec<Id>),
    /// One value.
    Exactly(Constant),
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
    /// In each reading the old schema, then the new one.
    pub(super) documents: Vec<Document<'a>>,
    pub(super) unchanged: Unchanged<'a>,
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
    pub(super) fn new(before: &'a Value, after: &'a Value) -> Engine<'a> {
        Engine {
            documents: Vec::new(),
            unchanged: Unchanged::between(before, after),
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

    /// Adds both schemas in a reading and gives their roots.
    pub(super) fn add_reading(&mut self, before: &'a Value, after: &'a Value, reading: Reading) -> (Id, Id) {
        let first = self.documents.len();
        let documents = [before, after].map(|root| Document::new(root, reading));
        self.documents.extend(documents);
        (
            self.schema(before, first, false),
            self.schema(after, first + 1, false),
        )
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
    pub(super) fn schema(&mut self, value: &'a Value, document: usize, part: bool) -> Id {
        match value {
            Value::Bool(true) => return EVERYTHING,
            Value::Bool(false) => return NOTHING,
            Value::Object(members) if members.is_empty() => return EVERYTHING,
            _ => {}
        }
        // What the new schema says as the old one does is one node with it.
        let (value, document) = match self.unchanged.before(value) {
            Some(before) if document % 2 == 1 => (before, document - 1),
            _ => (value, document),
        };
        let place = (document, std::ptr::from_ref(value).addr(), part);
        if let Some(id) = self.by_place.get(&place) {
            return *id;
        }
        self.nodes.push(Node::Schema {
            value,
            document,
            part,
        });
        self.by_place.insert(place, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// What all of these accept.
    pub(super) fn all(&mut self, ids: impl IntoIterator<Item = Id>) -> Id {
        let mut ids = ids.into_iter();
        let (Some(first), second) = (ids.next(), ids.next()) else {
            return EVERYTHING;
        };
        let Some(second) = second else { return first };
        let mut parts: BTreeSet<Id> = BTreeSet::new();
        for id in [first, second].into_iter().chain(ids) {
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
        let mut ids = ids.into_iter();
        let (Some(first), second) = (ids.next(), ids.next()) else {
            return NOTHING;
        };
        let Some(second) = second else { return first };
        let mut parts: BTreeSet<Id> = BTreeSet::new();
        for id in [first, second].into_iter().chain(ids) {
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
                part,
            } => self.opened(value, document, part),
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
    fn opened(&mut self, value: &'a Value, document: usize, part: bool) -> Vec<Atom> {
        let Value::Object(words) = value else {
            // The text of a reference that leads elsewhere, or no schema at all.
            let is_reference = value.as_str().is_some() && !self.documents[document].is_root(value);
            let word = if is_reference { "" } else { "no schema" };
            return opaque_atoms(&self.opaque(document, word, value));
        };
        if !self.steps(words.len()) {
            return opaque_atoms(&self.unlike_any());
        }
        let dialect = self.documents[document].dialect;
        if dialect == Dialect::Draft7
            && let Some(reference) = value.get("$ref")
        {
            if reference.as_str().is_none() {
                return opaque_atoms(&self.opaque(document, "$ref", reference));
            }
            let target = self.reference(reference, value, document, part);
            return self.alternatives(target).to_vec();
        }
        if value.get("$id").is_some() && !self.documents[document].is_root(value) {
            // References below count from another base.
            return opaque_atoms(&self.opaque(document, "$id", value));
        }
        let mut read = super::keywords::read(self, value, document, part);
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
        if self.steps_left == 0 {
            return self.unlike_any();
        }
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
            Some((target, _)) if !std::ptr::eq(target, schema) => self.schema(target, document, part),
            _ => {
                // A schema object that is none: opened, it is opaque.
                let Value::Object(members) = schema else {
                    return EVERYTHING;
                };
                let own = members.iter().find(|(name, _)| name == "$ref");
                own.map_or(EVERYTHING, |(_, text)| self.schema(text, document, part))
            }
        }
    }
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
        // One that is there twice changes nothing; looking for it would make a long union quadratic.
        ours.extend_from_slice(theirs);
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

/// A pointer one token longer.
pub(super) fn below(pointer: &str, tokens: &[&str]) -> String {
    let mut longer = pointer.to_owned();
    for token in tokens {
        push_token(&mut longer, token);
    }
    longer
}
