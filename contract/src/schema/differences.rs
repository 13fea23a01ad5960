//! The two schemas side by side: what differs where, which way each difference goes, and a call that shows it.
//!
//! The walk never decides what the whole comparison says: it is told what is proved of both wholes, and proves or
//! disproves its own pairs with the same engine. A difference that is called narrowing has a witness that every
//! reading confirms, or a rule; one that can't be shown either way is called undecided.
//!
//! Invariant: two texts that differ give at least one difference, and each text is cut to a bounded size.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::keywords::{count, decides, kind_of_word};
use super::normal::{Atom, EVERYTHING, Engine, Id, Kind, MAX_DEPTH, NOTHING, below};
use super::{Acceptance, Comparison, Difference, EMPTIED, decimal::Decimal, document};
use crate::canonical::canonical;
use crate::change::{ChangeKind, Direction};
use crate::json::Value;

/// The longest excerpt, in bytes.
const MAX_EXCERPT: usize = 2_048;
/// The most differences that are listed; the rest are summed up in one.
const MAX_DIFFERENCES: usize = 512;
/// The most nodes of an excerpt that are written out.
const MAX_EXCERPT_NODES: usize = 200;

/// Words that name or hold other schemas; what they hold is compared where it is used.
const HOLDERS: [&str; 9] = [
    "$schema",
    "$defs",
    "definitions",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
    "$id",
    "id",
];

/// A whole instance that the old root accepts and the new one refuses, in every reading.
pub(super) fn witness(engine: &mut Engine<'_>, roots: &[(Id, Id)]) -> Option<Value> {
    for (before, after) in roots {
        for value in engine.counterexamples(*before, *after) {
            if confirmed(engine, roots, &value) {
                return Some((*value).clone());
            }
        }
    }
    None
}

fn confirmed(engine: &mut Engine<'_>, roots: &[(Id, Id)], value: &Value) -> bool {
    roots.iter().all(|(before, after)| {
        engine.accepts(*before, value) == Some(true) && engine.accepts(*after, value) == Some(false)
    })
}

/// A schema at its place.
#[derive(Clone)]
struct Place<'a> {
    value: &'a Value,
    document: usize,
    pointer: String,
}

impl<'a> Place<'a> {
    fn child(&self, tokens: &[&str], value: &'a Value) -> Place<'a> {
        Place {
            value,
            document: self.document,
            pointer: below(&self.pointer, tokens),
        }
    }

    fn members(&self, word: &str) -> &'a [(String, Value)] {
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
struct May {
    narrow: bool,
    widen: bool,
}

/// How a part of a value stands in the whole.
#[derive(Clone)]
enum Step {
    Member(Rc<str>),
    Item(usize),
    Same,
    /// A place that no instance is made for.
    Unknown,
}

pub(super) struct Walk<'e, 'a> {
    engine: &'e mut Engine<'a>,
    roots: &'e [(Id, Id)],
    may: May,
    /// The nodes before, from the root down, each with the step that leads on.
    chain: Vec<(Id, Step)>,
    /// Whether either document refers to anything.
    referring: bool,
    seen: BTreeSet<(usize, usize)>,
    used: BTreeSet<usize>,
    found: Vec<Difference>,
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
        self.found
    }

    fn add(&mut self, kind: ChangeKind, pointer: &str, before: Option<&Value>, after: Option<&Value>) {
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
            let pointer = "";
            let kind = ChangeKind::DeepSchemaUndiffable;
            if !self.found.iter().any(|one| one.kind == kind) {
                let (before, after) = (None, None);
                self.found.push(Difference {
                    kind,
                    pointer: pointer.into(),
                    before,
                    after,
                    witness: None,
                    rule: None,
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

    fn id(&mut self, place: &Place<'a>) -> Id {
        self.engine
            .schema(place.value, place.document, &place.pointer, false)
    }

    /// Follows references (and an `allOf` of one) that stand alone, as far as acceptance goes.
    fn settled(&mut self, place: &Place<'a>) -> Place<'a> {
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

    /// Compares two schemas of one place; `name` is what the place is called.
    fn pair(&mut self, before: &Place<'a>, after: &Place<'a>, may: May, name: Option<&str>) {
        let key = (
            std::ptr::from_ref(before.value).addr(),
            std::ptr::from_ref(after.value).addr(),
        );
        if !self.seen.insert(key) || (!self.referring && before.value == after.value) {
            return;
        }
        if self.chain.len() >= MAX_DEPTH || !self.engine.steps(1) {
            if before.value != after.value {
                self.engine.exhausted = true;
                self.add(
                    ChangeKind::DeepSchemaUndiffable,
                    &after.pointer,
                    Some(before.value),
                    Some(after.value),
                );
            }
            return;
        }
        let (outer_before, outer_after) = (before, after);
        let (before, after) = (&self.settled(outer_before), &self.settled(outer_after));
        self.texts(&[outer_before, before], &[outer_after, after], name);
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
        match (self.branches(before), self.branches(after)) {
            (None, None) => self.keywords(before, after, may),
            (ours, theirs) => {
                let ours = ours.unwrap_or_else(|| vec![before.clone()]);
                let theirs = theirs.unwrap_or_else(|| vec![after.clone()]);
                self.unions(before, after, &ours, &theirs, may);
            }
        }
    }

    /// The branches of a schema that is nothing but a union.
    fn branches(&self, place: &Place<'a>) -> Option<Vec<Place<'a>>> {
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
    fn unions(
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
        for (one, other) in pairs {
            if std::ptr::eq(one.value, before.value) && std::ptr::eq(other.value, after.value) {
                self.keywords(one, other, may);
                continue;
            }
            self.chain.push((before_id, Step::Same));
            self.seen_again(one, other);
            self.pair(one, other, may, None);
            self.chain.pop();
        }
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

    /// A branch that is the whole of the other side may be looked at again, against each of its partners.
    fn seen_again(&mut self, before: &Place<'a>, after: &Place<'a>) {
        let key = (
            std::ptr::from_ref(before.value).addr(),
            std::ptr::from_ref(after.value).addr(),
        );
        self.seen.remove(&key);
    }

    /// Reports a difference that is narrowing if one of `values`, which stand at the chain's end, shows it.
    fn narrowing(
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

    /// A difference in a constraint, whichever way it goes for this pair as a whole.
    fn constraint(
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
    fn keywords(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
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
                "dependentSchemas" | "dependencies" => {
                    if differ(word) {
                        self.constraint(before, after, word, may, None);
                    }
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
    fn wholes(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
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

    fn emptied(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let kind = ChangeKind::SchemaEmptied;
        let values = if may.narrow {
            let (before_id, after_id) = (self.id(before), self.id(after));
            self.engine.counterexamples(before_id, after_id)
        } else {
            Vec::new()
        };
        let before = before.value.get("properties");
        self.narrowing(
            kind,
            &after.pointer,
            before,
            Some(after.value),
            &values,
            Some(EMPTIED),
        );
    }

    fn members(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (before.members("properties"), after.members("properties"));
        let in_place = [
            "$ref",
            "allOf",
            "anyOf",
            "oneOf",
            "if",
            "enum",
            "const",
            "$dynamicRef",
            "$recursiveRef",
        ];
        let elsewhere = in_place.iter().any(|word| after.value.get(word).is_some());
        let after_id = self.id(after);
        if !ours.is_empty() && theirs.is_empty() && !elsewhere && admits_objects(self.engine, after_id) {
            self.emptied(before, after, may);
            self.requirements(before, after, may);
            return;
        }
        let closed = (
            document::declares_and_closes(before.value),
            document::declares_and_closes(after.value),
        );
        let ours_by_name: BTreeMap<&str, &'a Value> = by_name(ours);
        let theirs_by_name: BTreeMap<&str, &'a Value> = by_name(theirs);
        let before_id = self.id(before);
        for (name, schema) in ours {
            if theirs_by_name.contains_key(name.as_str()) {
                continue;
            }
            let one = before.child(&["properties", name], schema);
            let id = self.id(&one);
            self.chain.push((before_id, Step::Member(name.as_str().into())));
            let values = if closed.1 {
                self.engine.samples(id)
            } else {
                Vec::new()
            };
            if closed.1 && may.narrow {
                let certain = self
                    .chain
                    .iter()
                    .all(|(_, step)| !matches!(step, Step::Same | Step::Unknown))
                    && self.roots.len() == 1
                    && !self.engine.accepts_nothing(id);
                let rule = certain.then_some("undeclared-argument-refused");
                self.narrowing(
                    ChangeKind::RemovedParam,
                    &one.pointer,
                    Some(schema),
                    None,
                    &values,
                    rule,
                );
            } else if may.narrow {
                let mut values = Vec::new();
                for atom in self
                    .engine
                    .alternatives(after_id)
                    .iter()
                    .filter(|atom| atom.kind == Kind::Object)
                {
                    let asked = self.engine.member(&atom.members, name);
                    values.extend(self.engine.counterexamples(id, asked));
                }
                self.narrowing(
                    ChangeKind::RemovedParam,
                    &one.pointer,
                    Some(schema),
                    None,
                    &values,
                    None,
                );
            } else {
                let kind = if may.widen {
                    ChangeKind::ConstraintWidened
                } else {
                    ChangeKind::SchemaRewritten
                };
                self.add(kind, &one.pointer, Some(schema), None);
            }
            self.chain.pop();
        }
        let required = names(after.value);
        for (name, schema) in theirs {
            let other = after.child(&["properties", name], schema);
            self.header(&other, ours_by_name.get(name.as_str()).copied());
            if let Some(old) = ours_by_name.get(name.as_str()) {
                let one = before.child(&["properties", name], old);
                self.chain.push((before_id, Step::Member(name.as_str().into())));
                self.pair(&one, &other, may, Some(name));
                self.chain.pop();
            } else {
                self.added(
                    before,
                    &other,
                    name,
                    required.contains(name.as_str()),
                    closed.0,
                    may,
                );
            }
        }
        self.requirements(before, after, may);
    }

    fn added(
        &mut self,
        before: &Place<'a>,
        other: &Place<'a>,
        name: &str,
        required: bool,
        closed: bool,
        may: May,
    ) {
        let pointer = &other.pointer;
        let before_id = self.id(before);
        if required && may.narrow {
            let values = self.without(before_id, name);
            return self.narrowing(
                ChangeKind::AddedRequiredParam,
                pointer,
                None,
                Some(other.value),
                &values,
                None,
            );
        }
        if !closed && may.narrow {
            // It could be given before, as an argument of which nothing was said.
            let id = self.id(other);
            let values = self.engine.counterexamples(EVERYTHING, id);
            self.chain.push((before_id, Step::Member(name.into())));
            self.narrowing(
                ChangeKind::ConstraintNarrowed,
                pointer,
                None,
                Some(other.value),
                &values,
                None,
            );
            self.chain.pop();
            return;
        }
        let id = self.id(other);
        let kind = if id == NOTHING {
            ChangeKind::SchemaRewritten
        } else {
            ChangeKind::AddedOptionalParam
        };
        self.add(kind, pointer, None, Some(other.value));
    }

    /// Objects that the node accepts without a member of this name.
    fn without(&mut self, id: Id, name: &str) -> Vec<Rc<Value>> {
        let mut values = Vec::new();
        for atom in self
            .engine
            .alternatives(id)
            .iter()
            .filter(|atom| atom.kind == Kind::Object)
            .take(16)
        {
            if let Some(object) = self.engine.object(atom, &[])
                && object.get(name).is_none()
                && self.engine.accepts(id, &object) == Some(true)
            {
                values.push(Rc::new(object));
            }
        }
        values
    }

    fn requirements(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let (ours, theirs) = (names(before.value), names(after.value));
        let (old, new) = (
            by_name(before.members("properties")),
            by_name(after.members("properties")),
        );
        let is_new = |name: &str| new.contains_key(name) && !old.contains_key(name);
        let is_gone = |name: &str| old.contains_key(name) && !new.contains_key(name);
        let pointer = |place: &Place<'_>| below(&place.pointer, &["required"]);
        if ours == theirs {
            return;
        }
        let mut rewritten = false;
        let before_id = self.id(before);
        for name in theirs.difference(&ours) {
            if is_new(name) {
                continue;
            }
            if !may.narrow {
                rewritten = true;
                continue;
            }
            let values = self.without(before_id, name);
            let text = Value::String((*name).to_owned());
            let pointer = below(&pointer(after), &[name]);
            self.narrowing(
                ChangeKind::RequiredSetExpanded,
                &pointer,
                None,
                Some(&text),
                &values,
                None,
            );
        }
        for name in ours.difference(&theirs) {
            if is_gone(name) {
                continue;
            }
            if may.widen {
                let text = Value::String((*name).to_owned());
                let pointer = below(&pointer(before), &[name]);
                self.add(ChangeKind::RemovedRequired, &pointer, Some(&text), None);
            } else {
                rewritten = true;
            }
        }
        if rewritten {
            let pointer = pointer(after);
            self.add(
                ChangeKind::SchemaRewritten,
                &pointer,
                before.value.get("required"),
                after.value.get("required"),
            );
        }
    }

    fn header(&mut self, after: &Place<'a>, before: Option<&Value>) {
        let word = "x-mcp-header";
        let (ours, theirs) = (before.and_then(|before| before.get(word)), after.value.get(word));
        if theirs
            .and_then(Value::as_str)
            .is_some_and(|text| !text.is_empty())
            && ours != theirs
        {
            let pointer = below(&after.pointer, &[word]);
            self.add(ChangeKind::ParamMirroredToHeader, &pointer, ours, theirs);
        }
    }

    fn additional(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let word = "additionalProperties";
        let (ours, theirs) = (before.value.get(word), after.value.get(word));
        if let (Some(ours @ Value::Object(_)), Some(theirs @ Value::Object(_))) = (ours, theirs) {
            let (one, other) = (before.child(&[word], ours), after.child(&[word], theirs));
            let id = self.id(before);
            self.chain.push((id, Step::Member("undeclared".into())));
            self.pair(&one, &other, may, None);
            self.chain.pop();
            return;
        }
        if same(ours, theirs) {
            return;
        }
        let undeclared_only = |said: Option<&Value>| matches!(said, None | Some(Value::Bool(_)));
        let both_closed =
            document::declares_and_closes(before.value) && document::declares_and_closes(after.value);
        if undeclared_only(ours) && undeclared_only(theirs) && (both_closed || (!may.narrow && !may.widen)) {
            let place = if theirs.is_some() { after } else { before };
            let pointer = below(&place.pointer, &[word]);
            return self.add(ChangeKind::AdditionalPropertiesChanged, &pointer, ours, theirs);
        }
        self.constraint(before, after, word, may, None);
    }

    fn one_below(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
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
    fn first_rest(&self, place: &Place<'a>) -> usize {
        place.schemas("prefixItems").len().min(64)
    }

    /// A schema below a keyword that no instance is made for: its texts one by one, its acceptance as a whole.
    fn constraint_or_text(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
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

    fn list_below(&mut self, before: &Place<'a>, after: &Place<'a>, word: &str, may: May) {
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

    fn patterns(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
        let word = "patternProperties";
        let (ours, theirs) = (by_name(before.members(word)), by_name(after.members(word)));
        let id = self.id(before);
        for (pattern, schema) in &ours {
            if let Some(other) = theirs.get(pattern) {
                let (one, other) = (
                    before.child(&[word, pattern], schema),
                    after.child(&[word, pattern], other),
                );
                self.chain.push((id, Step::Unknown));
                self.pair(&one, &other, may, None);
                self.chain.pop();
            }
        }
        if ours.keys().ne(theirs.keys()) {
            let place = if after.value.get(word).is_some() {
                after
            } else {
                before
            };
            let pointer = below(&place.pointer, &[word]);
            let (ours, theirs) = (before.value.get(word), after.value.get(word));
            if may.narrow || may.widen {
                self.add(ChangeKind::PatternPropertiesChanged, &pointer, ours, theirs);
            } else {
                self.add(ChangeKind::SchemaRewritten, &pointer, ours, theirs);
            }
        }
    }

    fn types(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
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

    fn values(&mut self, before: &Place<'a>, after: &Place<'a>, may: May) {
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

    /// Texts and whatever else says nothing about acceptance. The outer place's own text goes first.
    fn texts(&mut self, before: &[&Place<'a>], after: &[&Place<'a>], name: Option<&str>) {
        let of = |places: &[&Place<'a>]| {
            let mut texts: BTreeMap<&'a str, (&'a Value, String)> = BTreeMap::new();
            for place in places {
                let Value::Object(words) = place.value else {
                    continue;
                };
                for (word, said) in words {
                    if !decides(word) && !HOLDERS.contains(&word.as_str()) && word != "x-mcp-header" {
                        texts
                            .entry(word)
                            .or_insert_with(|| (said, below(&place.pointer, &[word])));
                    }
                }
            }
            texts
        };
        let (ours, theirs) = (of(before), of(after));
        let words: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
        let definition = after
            .last()
            .and_then(|place| place.pointer.rsplit('/').next())
            .map(str::to_owned);
        for word in words {
            let (old, new) = (ours.get(word), theirs.get(word));
            let (old_value, new_value) = (old.map(|(value, _)| *value), new.map(|(value, _)| *value));
            if same(old_value, new_value) {
                continue;
            }
            let Some((_, pointer)) = new.or(old) else { continue };
            let recased = |value: Option<&Value>| {
                value.is_none_or(|value| {
                    let title = value.as_str().unwrap_or("\u{0}");
                    let names = [name, definition.as_deref()];
                    names
                        .into_iter()
                        .flatten()
                        .any(|name| plain(name) == plain(title))
                })
            };
            let kind = match word {
                "default" => ChangeKind::DefaultChanged,
                "title" if recased(old_value) && recased(new_value) => ChangeKind::SchemaRewritten,
                _ => ChangeKind::ParamTextChanged,
            };
            self.add(kind, &pointer.clone(), old_value, new_value);
        }
    }

    /// Definitions that nothing compared refers to are read by the model all the same.
    fn unused_definitions(&mut self, before: &Place<'a>, after: &Place<'a>) {
        for word in ["$defs", "definitions"] {
            let (ours, theirs) = (by_name(before.members(word)), by_name(after.members(word)));
            for (name, schema) in &theirs {
                let other = after.child(&[word, name], schema);
                if self.used.contains(&std::ptr::from_ref(other.value).addr()) {
                    continue;
                }
                match ours.get(name) {
                    Some(old) if same(Some(old), Some(schema)) => {}
                    Some(old) => {
                        let one = before.child(&[word, name], old);
                        self.pair(
                            &one,
                            &other,
                            May {
                                narrow: false,
                                widen: false,
                            },
                            Some(name),
                        );
                    }
                    None => self.add(ChangeKind::ParamTextChanged, &other.pointer, None, Some(schema)),
                }
            }
            for (name, schema) in &ours {
                let used = self.used.contains(&std::ptr::from_ref(*schema).addr());
                if !theirs.contains_key(name) && !used {
                    let pointer = below("", &[word, name]);
                    self.add(ChangeKind::SchemaRewritten, &pointer, Some(schema), None);
                }
            }
        }
    }
}

/// Makes the list say what the comparison says: each answer has a difference that stands for it.
pub(super) fn complete(
    found: &mut Vec<Difference>,
    acceptance: Acceptance,
    witness: Option<Value>,
    exhausted: bool,
    before: &Value,
    after: &Value,
) {
    let has = |found: &[Difference], direction| found.iter().any(|one| one.kind.direction() == direction);
    let blank = |kind, witness| Difference {
        kind,
        pointer: String::new(),
        before: Some(excerpt(before)),
        after: Some(excerpt(after)),
        witness,
        rule: None,
    };
    match acceptance {
        Acceptance::Equal if found.is_empty() => found.push(blank(ChangeKind::SchemaRewritten, None)),
        Acceptance::Wider
            if !has(found, Direction::Widening) && !found.iter().any(|one| one.rule == Some(EMPTIED)) =>
        {
            found.push(blank(ChangeKind::ConstraintWidened, None));
        }
        Acceptance::Narrower | Acceptance::Incomparable if !has(found, Direction::Narrowing) => {
            found.push(blank(ChangeKind::ConstraintNarrowed, witness));
        }
        Acceptance::Undecidable if exhausted => found.push(blank(ChangeKind::DeepSchemaUndiffable, None)),
        Acceptance::Undecidable if !has(found, Direction::Opaque) => {
            found.push(blank(ChangeKind::SchemaUndecided, None));
        }
        _ => {}
    }
    if matches!(acceptance, Acceptance::Equal | Acceptance::Wider) {
        // What was left open in a part is settled for the whole.
        for one in found.iter_mut() {
            let settled = matches!(
                one.kind,
                ChangeKind::SchemaUndecided
                    | ChangeKind::DeepSchemaUndiffable
                    | ChangeKind::PatternPropertiesChanged
            );
            if settled && acceptance == Acceptance::Equal {
                one.kind = ChangeKind::SchemaRewritten;
            } else if settled {
                one.kind = ChangeKind::ConstraintWidened;
            }
        }
    }
}

/// The same differences for who reads results: what can come back that could not before is what matters.
pub(super) fn for_results(
    found: Vec<Difference>,
    acceptance: Acceptance,
    forward: bool,
    backward: bool,
    mut beyond: Option<Value>,
) -> Comparison {
    let acceptance = match (acceptance, forward, backward) {
        (Acceptance::Equal, ..) => Acceptance::Equal,
        (_, _, true) => Acceptance::Wider,
        (_, true, false) if beyond.is_some() => Acceptance::Narrower,
        (_, false, false) if beyond.is_some() => Acceptance::Incomparable,
        _ => Acceptance::Undecidable,
    };
    let differences = found
        .into_iter()
        .map(|mut one| {
            one.kind = match one.kind.direction() {
                Direction::Widening | Direction::Narrowing => ChangeKind::OutputSchemaChanged,
                _ => one.kind,
            };
            one.rule = None;
            one.witness = if one.kind == ChangeKind::OutputSchemaChanged {
                beyond.take()
            } else {
                None
            };
            one
        })
        .collect();
    Comparison {
        acceptance,
        differences,
    }
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

fn admits_objects(engine: &mut Engine<'_>, id: Id) -> bool {
    engine
        .alternatives(id)
        .iter()
        .any(|atom| atom.kind == Kind::Object)
}

fn by_name(members: &[(String, Value)]) -> BTreeMap<&str, &Value> {
    members
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

fn names(schema: &Value) -> BTreeSet<&str> {
    match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    }
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

fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            one == other || canonical(one, None).is_ok_and(|text| canonical(other, None) == Ok(text))
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Letters and digits only, in lower case.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|one| one.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// A value as text for people, cut when long.
fn excerpt(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => text.clone(),
        _ => outline(value).to_pretty(),
    };
    if text.len() > MAX_EXCERPT {
        let end = (0..=MAX_EXCERPT)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The value down to a bounded depth and number of nodes.
fn outline(value: &Value) -> Value {
    fn part(value: &Value, levels: usize, left: &mut usize) -> Value {
        *left = left.saturating_sub(1);
        if levels == 0 || *left == 0 {
            return match value {
                Value::Array(_) | Value::Object(_) => Value::String("…".to_owned()),
                Value::String(text) => Value::String(text.chars().take(MAX_EXCERPT).collect()),
                other => other.clone(),
            };
        }
        match value {
            Value::Array(items) => {
                let mut shown = Vec::new();
                for item in items {
                    if *left == 0 {
                        break;
                    }
                    shown.push(part(item, levels - 1, left));
                }
                Value::Array(shown)
            }
            Value::Object(members) => {
                let mut shown = Vec::new();
                for (name, member) in members {
                    if *left == 0 {
                        break;
                    }
                    shown.push((name.clone(), part(member, levels - 1, left)));
                }
                Value::Object(shown)
            }
            Value::String(text) => Value::String(text.chars().take(MAX_EXCERPT).collect()),
            other => other.clone(),
        }
    }
    let mut left = MAX_EXCERPT_NODES;
    part(value, 16, &mut left)
}
