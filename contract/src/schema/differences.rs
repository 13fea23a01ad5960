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
use super::keywords::{count, decides, kind_of_word};
use super::normal::{Engine, Id, MAX_DEPTH, below};
use super::summary::confirmed;
use super::{Difference, OVER_LIMIT, decimal::Decimal, document};
use crate::canonical::{self, canonical};
use crate::change::{ChangeKind, Direction};
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

    fn schemas(&self, word: &str) -> Vec<Place<'a>> {
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

    pub(super) fn add_with(
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
    pub(super) fn unexplained(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
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
    pub(super) fn embedded(&mut self, part: &Value) -> Option<Value> {
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

    /// A difference in a constraint, whichever way it goes for this pair as a whole.
    pub(super) fn constraint(
        &mut self,
        before: &Place<'a>,
        after: &Place<'a>,
        word: &str,
        may: May,
        goes: Option<Direction>,
    ) {
        let (ours, theirs) = (before.value.get(word), after.value.get(word));
        let place = if theirs.is_some() { after } else { before };
        let pointer = below(&place.pointer, &[word]);
        if !may.narrow && !may.widen {
            return self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
        }
        let narrows = may.narrow && goes != Some(Direction::Widening);
        if !narrows {
            let widens = may.widen && goes != Some(Direction::Narrowing);
            let kind = if widens {
                ChangeKind::ConstraintWidened
            } else {
                ChangeKind::SchemaRewritten
            };
            return self.add(kind, &pointer, ours, theirs);
        }
        let (before_id, after_id) = (self.id(before), self.id(after));
        let values = self.engine.counterexamples(before_id, after_id);
        self.narrowing(
            ChangeKind::ConstraintNarrowed,
            &pointer,
            ours,
            theirs,
            &values,
            None,
        );
    }

    /// Compares two schema objects keyword by keyword.
    pub(super) fn keywords(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (Value::Object(ours), Value::Object(theirs)) = (before.value, after.value) else {
            return self.wholes(before, after, may);
        };
        let mut words: Vec<&str> = Vec::new();
        for (word, _) in ours.iter().chain(theirs) {
            if decides(word) && !words.contains(&word.as_str()) {
                words.push(word);
            }
        }
        let admit = |place: &Place<'a>| types(place.value.get("type")).contains("object");
        if admit(before) && admit(after) {
            self.members(before, after, may);
        }
        let differ = |word: &str| !same(before.value.get(word), after.value.get(word));
        let two = |ours: &str, theirs: &str| differ(ours) || differ(theirs);
        if two("enum", "const") {
            self.values(before, after, may);
        }
        if differ("type") {
            self.types(before, after, may);
        }
        // Where a type came or went, so did what is said about its values.
        let (old, new) = (types(before.value.get("type")), types(after.value.get("type")));
        let told_by_type = |word: &str| {
            let names: &[&str] = match kind_of_word(word) {
                Some(Kind::Number) => &["integer", "number"],
                Some(Kind::String) => &["string"],
                Some(Kind::Array) => &["array"],
                Some(Kind::Object) => &["object"],
                _ => return false,
            };
            let has = |types: &BTreeSet<&str>| names.iter().any(|name| types.contains(name));
            has(&old) != has(&new)
        };
        for word in words {
            match word {
                "properties" | "required" | "enum" | "const" | "type" => {}
                _ if told_by_type(word) => {}
                "additionalProperties" => self.additional(before, after, may),
                "items"
                | "additionalItems"
                | "not"
                | "contains"
                | "propertyNames"
                | "if"
                | "then"
                | "else"
                | "unevaluatedItems"
                | "unevaluatedProperties" => {
                    self.one_below(before, after, word, may);
                }
                "prefixItems" | "allOf" => self.list_below(before, after, word, may),
                "anyOf" | "oneOf" => {
                    let (ours, theirs) = (before.schemas(word), after.schemas(word));
                    if ours.is_empty() || theirs.is_empty() {
                        self.constraint(before, after, word, may, None);
                    } else {
                        self.unions(before, after, &ours, &theirs, may);
                    }
                }
                "patternProperties" => self.patterns(before, after, may),
                "dependentSchemas" | "dependencies" if differ(word) => {
                    self.constraint(before, after, word, may, None);
                }
                "nullable" if differ(word) => {
                    let pointer = below(&after.pointer, &[word]);
                    let (ours, theirs) = (before.value.get(word), after.value.get(word));
                    self.add(ChangeKind::SchemaUndecided, &pointer, ours, theirs);
                }
                _ if differ(word) => {
                    let goes = direction(word, before.value.get(word), after.value.get(word));
                    self.constraint(before, after, word, may, goes);
                }
                _ => {}
            }
        }
    }

    /// A schema that is `true` or `false` on one side.
    pub(super) fn wholes(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (Some(before.value), Some(after.value));
        if *after.value == Value::Bool(true) && !before.members("properties").is_empty() {
            return self.emptied(before, after, may);
        }
        if same(ours, theirs) {
            return;
        }
        let pointer = &after.pointer;
        if may.narrow {
            let (before_id, after_id) = (self.id(before), self.id(after));
            let values = self.engine.counterexamples(before_id, after_id);
            self.narrowing(ChangeKind::TypeChanged, pointer, ours, theirs, &values, None);
        } else if may.widen {
            self.add(ChangeKind::ConstraintWidened, pointer, ours, theirs);
        } else {
            self.add(ChangeKind::SchemaRewritten, pointer, ours, theirs);
        }
    }

    pub(super) fn one_below(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
        let (ours, theirs) = (before.value.get(word), after.value.get(word));
        match (ours, theirs) {
            (Some(Value::Array(_)), Some(Value::Array(_))) => self.list_below(before, after, word, may),
            (Some(ours), Some(theirs))
                if !matches!((ours, theirs), (Value::Array(_), _) | (_, Value::Array(_))) =>
            {
                let (one, other) = (before.child(&[word], ours), after.child(&[word], theirs));
                let id = self.id(before);
                let step = if word == "items" {
                    Step::Item(self.first_rest(before))
                } else {
                    Step::Unknown
                };
                if matches!(step, Step::Unknown) {
                    if !same(Some(ours), Some(theirs)) {
                        self.constraint_or_text(before, after, word, may);
                    }
                    return;
                }
                self.chain.push((id, step));
                self.pair(&one, &other, may, None);
                self.chain.pop();
            }
            (ours, theirs) if same(ours, theirs) => {}
            _ => self.constraint(before, after, word, may, None),
        }
    }

    /// The first place in an array that the schema of all other items speaks of.
    pub(super) fn first_rest(&self, place: &Place<'a>) -> usize {
        place.schemas("prefixItems").len().min(64)
    }

    /// A schema below a keyword that no instance is made for: its texts one by one, its acceptance as a whole.
    pub(super) fn constraint_or_text(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
        let found = self.found.len();
        if let (Some(ours), Some(theirs)) = (before.value.get(word), after.value.get(word)) {
            let (one, other) = (before.child(&[word], ours), after.child(&[word], theirs));
            let id = self.id(before);
            self.chain.push((id, Step::Unknown));
            self.pair(
                &one,
                &other,
                May {
                    narrow: false,
                    widen: false,
                },
                None,
            );
            self.chain.pop();
        }
        let texts_only = !may.narrow && !may.widen && self.found.len() > found;
        if !texts_only {
            self.constraint(before, after, word, may, None);
        }
    }

    pub(super) fn list_below(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
        let (ours, theirs) = (before.schemas(word), after.schemas(word));
        let id = self.id(before);
        for (index, (one, other)) in ours.iter().zip(&theirs).enumerate() {
            let step = if word == "allOf" {
                Step::Same
            } else {
                Step::Item(index)
            };
            self.chain.push((id, step));
            self.pair(one, other, may, None);
            self.chain.pop();
        }
        if ours.len() != theirs.len() {
            self.constraint(before, after, word, may, None);
        }
    }

    pub(super) fn types(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (before.value.get("type"), after.value.get("type"));
        let place = if theirs.is_some() { after } else { before };
        let pointer = below(&place.pointer, &["type"]);
        if !may.narrow && !may.widen {
            return self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
        }
        let (old, new) = (types(ours), types(theirs));
        if !may.narrow || old.is_subset(&new) {
            let kind = match ours {
                _ if !may.widen => ChangeKind::SchemaRewritten,
                Some(_) if theirs.is_some() => ChangeKind::UnionBranchAdded,
                _ => ChangeKind::ConstraintWidened,
            };
            return self.add(kind, &pointer, ours, theirs);
        }
        let (before_id, after_id) = (self.id(before), self.id(after));
        let values = self.engine.counterexamples(before_id, after_id);
        self.narrowing(ChangeKind::TypeChanged, &pointer, ours, theirs, &values, None);
    }

    pub(super) fn values(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let word = |place: &Place<'a>| {
            if place.value.get("enum").is_some() {
                "enum"
            } else {
                "const"
            }
        };
        let (ours, theirs) = (before.value.get(word(before)), after.value.get(word(after)));
        let place = if theirs.is_some() { after } else { before };
        let pointer = below(&place.pointer, &[word(place)]);
        if !may.narrow && !may.widen {
            return self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
        }
        let (old, new) = (constants(before.value), constants(after.value));
        let (before_id, after_id) = (self.id(before), self.id(after));
        let (Some(old), Some(new)) = (old, new) else {
            if may.narrow && theirs.is_some() {
                let values = self.engine.counterexamples(before_id, after_id);
                return self.narrowing(ChangeKind::TypeChanged, &pointer, ours, theirs, &values, None);
            }
            let kind = if may.widen {
                ChangeKind::ConstraintWidened
            } else {
                ChangeKind::SchemaRewritten
            };
            return self.add(kind, &pointer, ours, theirs);
        };
        let lost: Vec<Rc<Value>> = old
            .iter()
            .filter(|(text, _)| !new.contains_key(*text))
            .map(|(_, value)| Rc::new((*value).clone()))
            .collect();
        if !lost.is_empty() && may.narrow {
            self.narrowing(ChangeKind::EnumValuesRemoved, &pointer, ours, theirs, &lost, None);
        }
        if may.widen && new.keys().any(|text| !old.contains_key(text)) {
            self.add(ChangeKind::EnumValuesAdded, &pointer, ours, theirs);
        }
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

/// The types a `type` admits, the whole numbers apart from all others.
fn types(said: Option<&Value>) -> BTreeSet<&str> {
    let mut types: BTreeSet<&str> = match said {
        None => ["null", "boolean", "number", "string", "array", "object"].into(),
        Some(Value::String(name)) => [name.as_str()].into(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => BTreeSet::new(),
    };
    if types.contains("number") {
        types.insert("integer");
    }
    types
}

fn constants(schema: &Value) -> Option<BTreeMap<String, &Value>> {
    let list = match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => std::slice::from_ref(only),
        (None, Some(Value::Array(values))) => values,
        _ => return None,
    };
    list.iter()
        .map(|value| Some((canonical(value, None).ok()?, value)))
        .collect()
}

/// Which way a bound of its own moves, where that is plain.
fn direction(word: &str, before: Option<&Value>, after: Option<&Value>) -> Option<Direction> {
    let (Some(before), Some(after)) = (before, after) else {
        let gone = if after.is_none() {
            Direction::Widening
        } else {
            Direction::Narrowing
        };
        return (!matches!(word, "$ref" | "$id" | "minContains" | "maxContains")).then_some(gone);
    };
    let order = match (before, after) {
        (Value::Number(before), Value::Number(after)) => {
            Decimal::parse(after.text())?.cmp(&Decimal::parse(before.text())?)
        }
        _ => return None,
    };
    let upper = match word {
        "minimum" | "exclusiveMinimum" => false,
        "maximum" | "exclusiveMaximum" => true,
        "minLength" | "minItems" | "minProperties" => count(before).zip(count(after)).map(|_| false)?,
        "maxLength" | "maxItems" | "maxProperties" => count(before).zip(count(after)).map(|_| true)?,
        _ => return None,
    };
    Some(if order.is_gt() == upper {
        Direction::Widening
    } else {
        Direction::Narrowing
    })
}

pub(super) fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => canonical::same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
