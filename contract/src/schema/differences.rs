//! The two schemas side by side: what differs where, which way each difference goes, and a call that shows it.
//!
//! The walk never decides what the whole comparison says: it is told what is proved of both wholes, and proves or
//! disproves its own pairs with the same engine. A difference that is called narrowing has a witness that every
//! reading confirms, or a rule; one that can't be shown either way is called undecided.
//!
//! Invariant: two texts that differ give at least one difference, and each text is cut to a bounded size.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::atom::{Atom, Kind};
use super::excerpt::excerpt;
use super::keywords::decides;
use super::normal::{Engine, Id, MAX_DEPTH, below};
use super::summary::confirmed;
use super::{Difference, OVER_LIMIT, document};
use crate::canonical;
use crate::change::ChangeKind;
use crate::json::Value;

/// The most differences that are listed; the rest are summed up in one.
pub(super) const MAX_DIFFERENCES: usize = 512;

/// A schema at its place.
#[derive(Clone)]
pub(super) struct Place<'a> {
    pub(super) value: &'a Value,
    document: usize,
    pub(super) pointer: String,
}

impl<'a> Place<'a> {
    pub(super) fn child(&self, tokens: &[&str], value: &'a Value) -> Place<'a> {
        Place {
            value,
            document: self.document,
            pointer: below(&self.pointer, tokens),
        }
    }

    pub(super) fn members(&self, word: &str) -> &'a [(String, Value)] {
        match self.value.get(word) {
            Some(Value::Object(members)) => members,
            _ => &[],
        }
    }

    pub(super) fn schemas(&self, word: &str) -> Vec<Place<'a>> {
        match self.value.get(word) {
            Some(Value::Array(schemas)) => {
                let child =
                    |(index, schema): (usize, &'a Value)| self.child(&[word, &index.to_string()], schema);
                schemas.iter().enumerate().map(child).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// What may still go which way inside a pair.
#[derive(Clone, Copy)]
pub(super) struct May {
    pub(super) narrow: bool,
    pub(super) widen: bool,
}

/// How a part of a value stands in the whole.
#[derive(Clone)]
pub(super) enum Step {
    Member(Rc<str>),
    Item(usize),
    Same,
    /// A place that no instance is made for.
    Unknown,
}

pub(super) struct Walk<'e, 'a> {
    pub(super) engine: &'e mut Engine<'a>,
    pub(super) roots: &'e [(Id, Id)],
    may: May,
    /// The nodes before, from the root down, each with the step that leads on.
    pub(super) chain: Vec<(Id, Step)>,
    /// Whether the union whose branches are being compared still declares properties in some branch.
    pub(super) declared_beside: bool,
    /// Whether either document refers to anything.
    referring: bool,
    seen: BTreeSet<(usize, usize)>,
    pub(super) used: BTreeSet<usize>,
    pub(super) found: Vec<Difference>,
}

impl<'e, 'a> Walk<'e, 'a> {
    pub(super) fn new(
        engine: &'e mut Engine<'a>,
        roots: &'e [(Id, Id)],
        forward: bool,
        backward: bool,
    ) -> Self {
        let may = May {
            narrow: !forward,
            widen: !backward,
        };
        Walk {
            engine,
            roots,
            may,
            chain: Vec::new(),
            declared_beside: false,
            referring: false,
            seen: BTreeSet::new(),
            used: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn walk(mut self, before: &'a Value, after: &'a Value) -> Vec<Difference> {
        self.referring = refers(before) || refers(after);
        let before = Place {
            value: before,
            document: 0,
            pointer: String::new(),
        };
        let after = Place {
            value: after,
            document: 1,
            pointer: String::new(),
        };
        if before.value.get("$schema") != after.value.get("$schema") {
            self.add(
                ChangeKind::SchemaRewritten,
                "/$schema",
                before.value.get("$schema"),
                after.value.get("$schema"),
            );
        }
        let may = self.may;
        self.pair(&before, &after, may, None);
        self.unused_definitions(&before, &after);
        self.unseen_texts(before.value, after.value);
        self.found
    }

    pub(super) fn add(
        &mut self,
        kind: ChangeKind,
        pointer: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        self.add_with(kind, pointer, before, after, None, None);
    }

    fn add_with(
        &mut self,
        kind: ChangeKind,
        pointer: &str,
        before: Option<&Value>,
        after: Option<&Value>,
        witness: Option<Value>,
        rule: Option<&'static str>,
    ) {
        let known = |one: &Difference| one.kind == kind && one.pointer == pointer;
        if self.found.len() >= MAX_DIFFERENCES {
            if self.found.len() == MAX_DIFFERENCES {
                self.found.push(Difference {
                    kind: ChangeKind::DeepSchemaUndiffable,
                    pointer: String::new(),
                    before: None,
                    after: None,
                    witness: None,
                    rule: Some(OVER_LIMIT),
                });
            }
            return;
        }
        if self.found.iter().any(known) {
            return;
        }
        let (before, after) = (before.map(excerpt), after.map(excerpt));
        self.found.push(Difference {
            kind,
            pointer: pointer.to_owned(),
            before,
            after,
            witness,
            rule,
        });
    }

    pub(super) fn id(&mut self, place: &Place<'a>) -> Id {
        self.engine.schema(place.value, place.document, false)
    }

    /// Follows references (and an `allOf` of one) that stand alone, as far as acceptance goes.
    pub(super) fn settled(&mut self, place: &Place<'a>) -> Place<'a> {
        let mut place = place.clone();
        for _ in 0..16 {
            let dialect = self.engine.documents[place.document].dialect;
            let alone = |word: &str| {
                let Value::Object(words) = place.value else {
                    return false;
                };
                let siblings_count = dialect != document::Dialect::Draft7 || word != "$ref";
                !words
                    .iter()
                    .any(|(name, _)| name != word && decides(name) && siblings_count)
            };
            let target = match (place.value.get("$ref"), place.value.get("allOf")) {
                (Some(Value::String(reference)), _) if alone("$ref") => {
                    self.engine.documents[place.document].resolve(reference)
                }
                (None, Some(Value::Array(only))) if only.len() == 1 && alone("allOf") => {
                    Some((&only[0], below(&place.pointer, &["allOf", "0"])))
                }
                _ => None,
            };
            let Some((value, pointer)) = target else { break };
            self.used.insert(std::ptr::from_ref(value).addr());
            place = Place {
                value,
                document: place.document,
                pointer,
            };
        }
        place
    }

    /// Whether these two are known to be one.
    pub(super) fn is_unchanged(&self, before: &Value, after: &Value) -> bool {
        let known = self.engine.unchanged.before(after);
        known.is_some_and(|known| std::ptr::eq(known, before))
    }

    /// Compares two schemas of one place; `name` is what the place is called.
    pub(super) fn pair(&mut self, before: &Place<'a>, after: &Place<'a>, may: May, name: Option<&str>) {
        let key = (
            std::ptr::from_ref(before.value).addr(),
            std::ptr::from_ref(after.value).addr(),
        );
        if self.is_unchanged(before.value, after.value)
            || !self.seen.insert(key)
            || (!self.referring && before.value == after.value)
        {
            return;
        }
        if self.chain.len() >= MAX_DEPTH || !self.engine.steps(1) {
            if before.value != after.value {
                self.engine.exhausted = true;
                // Even where both accept the same, the texts inside were not compared.
                self.add_with(
                    ChangeKind::DeepSchemaUndiffable,
                    &after.pointer,
                    Some(before.value),
                    Some(after.value),
                    None,
                    Some(OVER_LIMIT),
                );
            }
            return;
        }
        let (outer_before, outer_after) = (before, after);
        let (before, after) = (&self.settled(outer_before), &self.settled(outer_after));
        let (ours, theirs) = (self.branches(before), self.branches(after));
        self.texts(&[outer_before, before], &[outer_after, after], name);
        let found_before = self.found.len();
        let (before_id, after_id) = (self.id(before), self.id(after));
        let may = May {
            narrow: may.narrow && !self.engine.includes(before_id, after_id),
            widen: may.widen && !self.engine.includes(after_id, before_id),
        };
        let followed = before.value.get("$ref").is_none() && after.value.get("$ref").is_none();
        if followed
            && outer_before.value.get("$ref") != outer_after.value.get("$ref")
            && !may.narrow
            && !may.widen
        {
            self.add(ChangeKind::SchemaRewritten, &outer_after.pointer, None, None);
        }
        match (ours, theirs) {
            (None, None) => self.keywords(before, after, may),
            (ours, theirs) => {
                let ours = ours.unwrap_or_else(|| vec![before.clone()]);
                let theirs = theirs.unwrap_or_else(|| vec![after.clone()]);
                self.unions(before, after, &ours, &theirs, may);
            }
        }
        if self.found.len() == found_before {
            self.unexplained(before, after, may);
        }
    }

    /// Two schemas that differ where no keyword of theirs shows how.
    fn unexplained(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (Some(before.value), Some(after.value));
        if may.narrow {
            let (before_id, after_id) = (self.id(before), self.id(after));
            let values = self.engine.counterexamples(before_id, after_id);
            self.narrowing(
                ChangeKind::ConstraintNarrowed,
                &after.pointer,
                ours,
                theirs,
                &values,
                None,
            );
        } else if may.widen {
            self.add(ChangeKind::ConstraintWidened, &after.pointer, ours, theirs);
        } else if !self.referring && written_otherwise(before.value, after.value) {
            self.add(ChangeKind::SchemaRewritten, &after.pointer, ours, theirs);
        }
    }

    /// A branch that is the whole of the other side may be looked at again, against each of its partners.
    pub(super) fn seen_again(&mut self, before: &Place<'a>, after: &Place<'a>) {
        let key = (
            std::ptr::from_ref(before.value).addr(),
            std::ptr::from_ref(after.value).addr(),
        );
        self.seen.remove(&key);
    }

    /// Reports a difference that is narrowing if one of `values`, which stand at the chain's end, shows it.
    pub(super) fn narrowing(
        &mut self,
        kind: ChangeKind,
        pointer: &str,
        before: Option<&Value>,
        after: Option<&Value>,
        values: &[Rc<Value>],
        rule: Option<&'static str>,
    ) {
        for value in values {
            if let Some(instance) = self.embedded(value)
                && confirmed(self.engine, self.roots, &instance)
            {
                return self.add_with(kind, pointer, before, after, Some(instance), None);
            }
        }
        if rule.is_some() {
            self.add_with(kind, pointer, before, after, None, rule);
        } else {
            self.add(ChangeKind::SchemaUndecided, pointer, before, after);
        }
    }

    /// A whole instance around a part.
    fn embedded(&mut self, part: &Value) -> Option<Value> {
        let mut value = part.clone();
        for (id, step) in self.chain.clone().into_iter().rev() {
            let atoms = self.engine.alternatives(id);
            let whole = |engine: &mut Engine<'a>, atom: &Atom| match &step {
                Step::Member(name) if atom.kind == Kind::Object => {
                    engine.object(atom, &[(name.to_string(), value.clone())])
                }
                Step::Item(index) if atom.kind == Kind::Array => {
                    let length = atom.min_items.max(*index as u64 + 1).min(256);
                    engine.array(atom, length as usize, Some((*index, &value)))
                }
                _ => None,
            };
            match step {
                Step::Same => continue,
                Step::Unknown => return None,
                Step::Member(_) | Step::Item(_) => {}
            }
            let mut found = None;
            for atom in atoms.iter().take(16) {
                if let Some(candidate) = whole(self.engine, atom)
                    && self.engine.accepts(id, &candidate) == Some(true)
                {
                    found = Some(candidate);
                    break;
                }
            }
            value = found?;
        }
        Some(value)
    }
}

/// Whether more than texts differs between two schemas.
fn written_otherwise(before: &Value, after: &Value) -> bool {
    let (Value::Object(ours), Value::Object(theirs)) = (before, after) else {
        return before != after;
    };
    let words: BTreeSet<&str> = ours.iter().chain(theirs).map(|(word, _)| word.as_str()).collect();
    words.into_iter().any(|word| {
        let holds_schemas = [
            "properties",
            "items",
            "additionalProperties",
            "patternProperties",
            "prefixItems",
        ];
        decides(word) && !holds_schemas.contains(&word) && before.get(word) != after.get(word)
    })
}

/// Whether a schema inside may refer to another.
fn refers(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if members.iter().any(|(name, _)| name == "$ref") {
                    return true;
                }
                open.extend(members.iter().map(|(_, member)| member));
            }
            _ => {}
        }
    }
    false
}

pub(super) fn by_name(members: &[(String, Value)]) -> BTreeMap<&str, &Value> {
    members
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => canonical::same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
