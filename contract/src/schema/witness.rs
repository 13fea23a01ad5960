//! Values that one node accepts and another refuses.
//!
//! Candidates are made from the bounds, names and constants of both sides, smallest first; only one that the
//! evaluator of [`super::validate`] is certain about is given out.
//!
//! Invariant: a sample is accepted by its node, and a counterexample is accepted by the one and refused by the
//! other, in the engine's own reading of both.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::accept::most_members;
use super::atom::{Atom, Kind, Rule};
use super::format;
use super::normal::{EVERYTHING, Engine, Id, MAX_DEPTH, NOTHING};
use crate::canonical::canonical;
use crate::json::{Value, read};

/// The most values kept for one node or pair.
const MAX_KEPT: usize = 6;
/// The most alternatives of one node that values are made for.
const MAX_ATOMS: usize = 24;
/// The most members that are varied one by one.
const MAX_VARIED: usize = 256;
/// The longest array and string made.
const MAX_ITEMS: u64 = 200;
const MAX_LENGTH: u64 = 100_000;
/// A member's name that no schema declares (if one does, the candidate is of no use, and not wrong).
const UNDECLARED: &str = "undeclared";

impl Engine<'_> {
    /// A few values that the node accepts.
    pub(super) fn samples(&mut self, id: Id) -> Vec<Rc<Value>> {
        if let Some(found) = self.samples.get(&id) {
            return found.clone();
        }
        if self.depth + 2 >= MAX_DEPTH || !self.steps(1) {
            return Vec::new();
        }
        // A value that contains itself is found nowhere.
        self.samples.insert(id, Vec::new());
        self.depth += 1;
        let atoms = self.alternatives(id);
        let mut kept: Vec<Rc<Value>> = Vec::new();
        for atom in atoms.iter().take(MAX_ATOMS) {
            let candidates = self.candidates(atom, &[]);
            let mut of_atom = 0;
            for candidate in candidates {
                if of_atom >= 2 || kept.len() >= MAX_KEPT {
                    break;
                }
                if !kept.iter().any(|known| **known == candidate)
                    && self.accepts(id, &candidate) == Some(true)
                {
                    kept.push(Rc::new(candidate));
                    of_atom += 1;
                }
            }
        }
        self.depth -= 1;
        self.samples.insert(id, kept.clone());
        kept
    }

    /// A few values that `accepting` accepts and `refusing` refuses.
    pub(super) fn counterexamples(&mut self, accepting: Id, refusing: Id) -> Vec<Rc<Value>> {
        if accepting == refusing || refusing == EVERYTHING || accepting == NOTHING {
            return Vec::new();
        }
        if let Some(found) = self.counterexamples.get(&(accepting, refusing)) {
            return found.clone();
        }
        if self.depth + 2 >= MAX_DEPTH || !self.steps(1) {
            return Vec::new();
        }
        self.counterexamples.insert((accepting, refusing), Vec::new());
        if self.includes(accepting, refusing) {
            return Vec::new();
        }
        self.depth += 1;
        let (atoms, others) = (self.alternatives(accepting), self.alternatives(refusing));
        let mut kept: Vec<Rc<Value>> = Vec::new();
        for atom in atoms.iter().take(MAX_ATOMS) {
            let against: Vec<Atom> = others
                .iter()
                .filter(|other| other.kind == atom.kind)
                .take(MAX_ATOMS)
                .cloned()
                .collect();
            let mut of_atom = 0;
            for candidate in self.candidates(atom, &against) {
                if of_atom >= 2 || kept.len() >= MAX_KEPT {
                    break;
                }
                if self.accepts(refusing, &candidate) == Some(false)
                    && self.accepts(accepting, &candidate) == Some(true)
                {
                    kept.push(Rc::new(candidate));
                    of_atom += 1;
                }
            }
        }
        self.depth -= 1;
        self.counterexamples.insert((accepting, refusing), kept.clone());
        kept
    }

    /// Values to try: of `atom` by its own account, and near where the `against` end.
    fn candidates(&mut self, atom: &Atom, against: &[Atom]) -> Vec<Value> {
        if let Some(values) = &atom.values {
            return values.iter().map(|constant| (*constant.value).clone()).collect();
        }
        let mut candidates = match atom.kind {
            Kind::Null | Kind::Boolean => Vec::new(),
            Kind::Number => numbers(atom, against),
            Kind::String => self.strings(atom, against),
            Kind::Array => self.arrays(atom, against),
            Kind::Object => self.objects(atom, against),
        };
        for rule in against.iter().flat_map(|other| &other.rules) {
            candidates.extend(self.around(rule).iter().map(|value| (**value).clone()));
        }
        candidates.retain(|candidate| Kind::of(candidate) == atom.kind);
        candidates
    }

    /// Values on either side of what a rule asks for.
    fn around(&mut self, rule: &Rule) -> Vec<Rc<Value>> {
        let ids: Vec<Id> = match rule {
            Rule::Within(id) | Rule::Not(id) | Rule::Implies { schema: id, .. } => vec![*id],
            Rule::One(ids) => ids.iter().copied().take(MAX_ATOMS).collect(),
            Rule::If {
                condition,
                then,
                otherwise,
            } => vec![*condition, *then, *otherwise],
            _ => Vec::new(),
        };
        let mut values = Vec::new();
        for id in ids {
            values.extend(self.samples(id));
            values.extend(self.counterexamples(EVERYTHING, id));
        }
        values
    }

    fn strings(&mut self, atom: &Atom, against: &[Atom]) -> Vec<Value> {
        let mut texts: Vec<String> = Vec::new();
        for text in &atom.patterns {
            let Some(pattern) = self.pattern(text) else {
                continue;
            };
            for example in pattern.examples() {
                self.matching.insert((text.clone(), example.clone()));
                texts.push(example);
            }
        }
        for (name, dialect) in atom
            .formats
            .iter()
            .chain(against.iter().flat_map(|other| &other.formats))
        {
            texts.extend(format::samples(name, *dialect).map(str::to_owned));
        }
        let mut lengths = BTreeSet::from([atom.min_length, 1.max(atom.min_length)]);
        lengths.extend(atom.max_length);
        for other in against {
            lengths.insert(other.min_length.saturating_sub(1));
            lengths.extend(other.max_length.map(|most| most.saturating_add(1)));
        }
        for length in lengths {
            let longest = length <= atom.max_length.unwrap_or(u64::MAX).min(MAX_LENGTH);
            if longest && length >= atom.min_length && self.steps(1 + length as usize / 64) {
                texts.push("a".repeat(length as usize));
            }
        }
        for other in against {
            for constant in other.values.iter().flatten().take(MAX_KEPT) {
                // A constant's neighbour is no constant.
                texts.extend(constant.value.as_str().map(|text| format!("{text}a")));
            }
        }
        texts.into_iter().map(Value::String).collect()
    }

    fn arrays(&mut self, atom: &Atom, against: &[Atom]) -> Vec<Value> {
        let stated = |atom: &Atom| {
            atom.items
                .iter()
                .map(|items| items.first.len())
                .max()
                .unwrap_or(0)
        };
        let longest = against.iter().map(stated).max().unwrap_or(0).max(stated(atom));
        let mut lengths = BTreeSet::from([atom.min_items, atom.min_items + 1, longest as u64 + 1]);
        lengths.extend(atom.max_items);
        for other in against {
            lengths.insert(other.min_items.saturating_sub(1));
            lengths.extend(other.max_items.map(|most| most.saturating_add(1)));
        }
        let mut arrays = Vec::new();
        for length in lengths {
            let most = atom.max_items.unwrap_or(MAX_ITEMS).min(MAX_ITEMS);
            if length >= atom.min_items && length <= most {
                arrays.extend(self.array(atom, length as usize, None));
            }
        }
        for index in 0..=longest.min(MAX_VARIED) {
            let item = self.item(&atom.items, index);
            for other in against {
                let asked = self.item(&other.items, index);
                for value in self.counterexamples(item, asked) {
                    let length = atom.min_items.max(index as u64 + 1).min(MAX_ITEMS);
                    arrays.extend(self.array(atom, length as usize, Some((index, &value))));
                }
            }
        }
        if !atom.unique && against.iter().any(|other| other.unique) {
            let items = self.item(&atom.items, longest);
            if let Some(value) = self.samples(items).first() {
                arrays.push(Value::Array(vec![
                    (**value).clone();
                    2.max(atom.min_items.min(MAX_ITEMS) as usize)
                ]));
            }
        }
        let contained: Vec<Id> = against
            .iter()
            .flat_map(|other| &other.rules)
            .filter_map(contained)
            .collect();
        for item in contained {
            for value in self.samples(item).iter().take(2) {
                arrays.push(Value::Array(vec![
                    (**value).clone();
                    1.max(atom.min_items.min(MAX_ITEMS) as usize)
                ]));
                arrays.push(Value::Array(vec![
                    (**value).clone();
                    3.max(atom.min_items.min(MAX_ITEMS) as usize)
                ]));
            }
        }
        arrays
    }

    /// An array of this length, one item given.
    pub(super) fn array(
        &mut self,
        atom: &Atom,
        length: usize,
        with: Option<(usize, &Value)>,
    ) -> Option<Value> {
        let mut items: Vec<Value> = Vec::new();
        let mut used: BTreeSet<String> = BTreeSet::new();
        if atom.unique
            && let Some((_, value)) = with
        {
            used.insert(canonical(value, None).ok()?);
        }
        let mut wanted: Vec<Value> = Vec::new();
        for rule in &atom.rules {
            if let Rule::Contains { item, least, .. } = rule {
                let found = self.samples(*item);
                let times = (*least).min(MAX_ITEMS) as usize;
                wanted.extend(found.iter().cycle().take(times).map(|value| (**value).clone()));
            }
        }
        let mut wanted = wanted.into_iter();
        for index in 0..length.max(wanted.len()) {
            if let Some((at, value)) = with
                && at == index
            {
                items.push(value.clone());
                continue;
            }
            if let Some(value) = wanted.next() {
                used.insert(canonical(&value, None).ok()?);
                items.push(value);
                continue;
            }
            let item = self.item(&atom.items, index);
            let found = self.samples(item);
            let mut chosen = None;
            for value in found {
                if !atom.unique || used.insert(canonical(&value, None).ok()?) {
                    chosen = Some((*value).clone());
                    break;
                }
            }
            items.push(chosen?);
        }
        Some(Value::Array(items))
    }

    fn objects(&mut self, atom: &Atom, against: &[Atom]) -> Vec<Value> {
        let mut objects: Vec<Value> = self.object(atom, &[]).into_iter().collect();
        if against.is_empty() && !objects.is_empty() {
            // A second sample, for arrays of distinct ones.
            let open = self.member(&atom.members, UNDECLARED);
            if open != NOTHING {
                let more = [1, 2].map(|number| (UNDECLARED.to_owned(), number_value(&number.to_string())));
                objects.extend(
                    more.iter()
                        .filter_map(|member| self.object(atom, std::slice::from_ref(member))),
                );
            }
        }
        let stated = |atom: &Atom| -> BTreeSet<Rc<str>> {
            atom.members
                .iter()
                .flat_map(|members| members.named.keys().cloned())
                .collect()
        };
        let mut names = stated(atom);
        for other in against {
            names.extend(stated(other));
            names.extend(other.rules.iter().filter_map(|rule| match rule {
                Rule::Requires { member, .. } | Rule::Implies { member, .. } => Some(member.clone()),
                _ => None,
            }));
        }
        let mut all: Vec<(String, Value)> = Vec::new();
        let mut varied = 0;
        for name in names.iter().map(|name| &**name).chain([UNDECLARED]) {
            if !self.steps(1) {
                break;
            }
            let member = self.member(&atom.members, name);
            if member == NOTHING {
                continue;
            }
            let samples = self.samples(member);
            if name != UNDECLARED || samples.is_empty() {
                all.extend(samples.first().map(|value| (name.to_owned(), (**value).clone())));
            }
            let mut values: Vec<Rc<Value>> = Vec::new();
            for other in against {
                let asked = self.member(&other.members, name);
                values.extend(self.counterexamples(member, asked).into_iter().take(2));
            }
            if !against.is_empty()
                && against
                    .iter()
                    .any(|other| !other.rules.is_empty() || against.len() > 1)
            {
                values.extend(samples);
            }
            if values.is_empty() || varied >= MAX_VARIED {
                continue;
            }
            varied += 1;
            for value in values {
                objects.extend(self.object(atom, &[(name.to_owned(), (*value).clone())]));
            }
        }
        for other in against {
            if let Some(most) = most_members(other).filter(|most| *most < MAX_ITEMS) {
                let enough: Vec<_> = all.iter().take(most as usize + 1).cloned().collect();
                objects.extend(self.object(atom, &enough));
                let missing = (most as usize + 1).saturating_sub(enough.len());
                let filled: Vec<_> = enough.into_iter().chain(self.fillers(atom, missing)).collect();
                objects.extend(self.object(atom, &filled));
            }
            for rule in &other.rules {
                if let Rule::Names(refused) = rule {
                    for name in self.counterexamples(EVERYTHING, *refused) {
                        let Some(name) = name.as_str() else { continue };
                        let member = self.member(&atom.members, name);
                        for value in self.samples(member).into_iter().take(1) {
                            objects.extend(self.object(atom, &[(name.to_owned(), (*value).clone())]));
                        }
                    }
                }
            }
        }
        if all.len() <= 64 {
            objects.extend(self.object(atom, &all));
        }
        objects
    }

    /// Members with names that nothing declares.
    fn fillers(&mut self, atom: &Atom, count: usize) -> Vec<(String, Value)> {
        let member = self.member(&atom.members, UNDECLARED);
        let Some(value) = self.samples(member).first().cloned() else {
            return Vec::new();
        };
        (0..count)
            .map(|index| (format!("{UNDECLARED}{index}"), (*value).clone()))
            .collect()
    }

    /// The smallest object of this atom that has these members.
    pub(super) fn object(&mut self, atom: &Atom, with: &[(String, Value)]) -> Option<Value> {
        let mut members: BTreeMap<String, Value> = with.iter().cloned().collect();
        if !self.steps(members.len() + atom.required.len()) {
            return None;
        }
        let mut wanted: BTreeSet<Rc<str>> = atom.required.clone();
        for rule in &atom.rules {
            if let Rule::Requires { member, others } = rule
                && (members.contains_key(&**member) || wanted.contains(member))
            {
                wanted.extend(others.iter().cloned());
            }
        }
        for name in wanted {
            if !members.contains_key(&*name) {
                let member = self.member(&atom.members, &name);
                let value = self.samples(member).first()?.clone();
                members.insert(name.to_string(), (*value).clone());
            }
        }
        if members.len() as u64 >= atom.min_members {
            return Some(Value::Object(members.into_iter().collect()));
        }
        let stated = atom
            .members
            .iter()
            .flat_map(|members| members.named.keys().cloned());
        let mut more = stated.collect::<BTreeSet<_>>().into_iter();
        while (members.len() as u64) < atom.min_members.min(MAX_ITEMS) {
            let Some(name) = more.next() else {
                let missing = atom.min_members.min(MAX_ITEMS) as usize - members.len();
                members.extend(self.fillers(atom, missing));
                break;
            };
            let member = self.member(&atom.members, &name);
            if let Some(value) = self.samples(member).first() {
                members
                    .entry(name.to_string())
                    .or_insert_with(|| (**value).clone());
            }
        }
        Some(Value::Object(members.into_iter().collect()))
    }
}

fn contained(rule: &Rule) -> Option<Id> {
    match rule {
        Rule::Contains { item, .. } => Some(*item),
        _ => None,
    }
}

/// Numbers around the bounds of all, then small ones.
fn numbers(atom: &Atom, against: &[Atom]) -> Vec<Value> {
    let mut texts: Vec<String> = Vec::new();
    let atoms = || std::iter::once(atom).chain(against);
    for bound in atoms().flat_map(|atom| atom.minimum.iter().chain(&atom.maximum)) {
        let (Some(floor), Some(ceiling)) = (bound.at.floor(), bound.at.ceiling()) else {
            continue;
        };
        texts.extend([ceiling, floor, ceiling + 1, floor - 1].map(|number| number.to_string()));
        texts.extend([floor, floor - 1].map(|number| format!("{}", number as f64 + 0.5)));
        if !bound.at.is_whole() {
            texts.push(bound.at.to_text());
        }
    }
    if let (Some(low), Some(high)) = (&atom.minimum, &atom.maximum)
        && let (Ok(low), Ok(high)) = (low.at.to_text().parse::<f64>(), high.at.to_text().parse::<f64>())
    {
        texts.push(format!("{}", f64::midpoint(low, high)));
    }
    for unit in atoms().flat_map(|atom| &atom.multiples) {
        texts.push(unit.to_text());
        texts.extend(unit.floor().map(|unit| (unit + 1).to_string()));
        if let (Some(unit), Some(low)) = (
            unit.to_whole(),
            atom.minimum.as_ref().and_then(|low| low.at.ceiling()),
        ) {
            texts.push((low.div_euclid(unit) * unit + unit).to_string());
        }
    }
    texts.extend(["0", "1", "-1", "0.5", "2", "3", "1000000"].map(str::to_owned));
    for constant in against
        .iter()
        .flat_map(|other| other.values.iter().flatten())
        .take(MAX_KEPT)
    {
        if let Value::Number(number) = &*constant.value
            && let Some(number) =
                super::decimal::Decimal::parse(number.text()).and_then(|number| number.floor())
        {
            texts.push((number + 1).to_string());
        }
    }
    texts
        .iter()
        .filter(|text| text.len() < 40)
        .map(|text| number_value(text))
        .collect()
}

/// The number of this text; `null` where it is none, which is never accepted as a number.
fn number_value(text: &str) -> Value {
    read(text).map_or(Value::Null, |document| document.value)
}
