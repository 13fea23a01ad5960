//! Texts inside schemas: what the model reads, and what says nothing about which values are accepted.
//!
//! Invariant: a text that stands nowhere in the old schema is in some difference, wherever it stands in the new.

use std::collections::{BTreeMap, BTreeSet};

use super::Difference;
use super::differences::{MAX_DIFFERENCES, May, Place, Walk, by_name, same};
use super::keywords::decides;
use super::normal::below;
use crate::canonical::canonical;
use crate::change::ChangeKind;
use crate::json::Value;

/// The protocol's own word in an argument's schema: its value is sent as a header too.
const HEADER: &str = "x-mcp-header";
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

impl<'a> Walk<'_, 'a> {
    /// Texts and whatever else says nothing about acceptance. The outer place's own text goes first.
    pub(super) fn texts(&mut self, before: &[&Place<'a>], after: &[&Place<'a>], name: Option<&str>) {
        let of = |places: &[&'_ Place<'a>]| {
            let mut texts: BTreeMap<&'a str, (&'a Value, usize)> = BTreeMap::new();
            for (index, place) in places.iter().enumerate() {
                let Value::Object(words) = place.value else {
                    continue;
                };
                for (word, said) in words {
                    if !decides(word) && !HOLDERS.contains(&word.as_str()) {
                        texts.entry(word).or_insert((said, index));
                    }
                }
            }
            texts
        };
        let (ours, theirs) = (of(before), of(after));
        let words: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
        let last_token = |place: &&&Place<'a>| place.pointer.rsplit('/').next().map(str::to_owned);
        let definitions: Vec<String> = before
            .iter()
            .chain(after)
            .filter_map(|place| last_token(&place))
            .collect();
        for word in words {
            let (old, new) = (ours.get(word), theirs.get(word));
            let (old_value, new_value) = (old.map(|(value, _)| *value), new.map(|(value, _)| *value));
            if same(old_value, new_value) {
                continue;
            }
            let place = match (new, old) {
                (Some((_, index)), _) => after[*index],
                (None, Some((_, index))) => before[*index],
                (None, None) => continue,
            };
            let recased = |value: Option<&Value>| {
                value.is_none_or(|value| {
                    let title = value.as_str().unwrap_or("\u{0}");
                    let names = definitions.iter().map(String::as_str).chain(name);
                    names.into_iter().any(|name| plain(name) == plain(title))
                })
            };
            let kind = match word {
                "default" => ChangeKind::DefaultChanged,
                "title" if recased(old_value) && recased(new_value) => ChangeKind::SchemaRewritten,
                HEADER if names_a_header(new_value) => ChangeKind::ParamMirroredToHeader,
                _ => ChangeKind::ParamTextChanged,
            };
            self.add(kind, &below(&place.pointer, &[word]), old_value, new_value);
        }
    }

    /// Texts that are nowhere in the old schema and that no difference so far shows, wherever they stand.
    pub(super) fn unseen_texts(&mut self, before: &'a Value, after: &'a Value) {
        let new = texts_inside(after, |schema| self.engine.unchanged.contains(schema));
        if new.is_empty() {
            return;
        }
        let old = texts_inside(before, |_| false);
        let known: BTreeSet<Key<'_>> = old.iter().filter_map(Text::key).collect();
        for text in new {
            if text.key().is_some_and(|key| known.contains(&key)) {
                continue;
            }
            let kind = if text.word == HEADER && names_a_header(Some(text.said)) {
                ChangeKind::ParamMirroredToHeader
            } else {
                ChangeKind::ParamTextChanged
            };
            let pointer = below(&text.owner, &[text.word]);
            let shown = |one: &Difference| {
                let rest = pointer
                    .strip_prefix(one.pointer.as_str())
                    .filter(|rest| rest.is_empty() || rest.starts_with('/'));
                let new = one.before.is_none() && one.after.is_some();
                rest == Some("") || (kind == ChangeKind::ParamTextChanged && new && rest.is_some())
            };
            if self.found.iter().any(shown) || text.is_name_recased() {
                continue;
            }
            self.add(kind, &pointer, None, Some(text.said));
            if self.found.len() > MAX_DIFFERENCES {
                return;
            }
        }
    }

    /// Definitions that nothing compared refers to are read by the model all the same.
    pub(super) fn unused_definitions(&mut self, before: &Place<'a>, after: &Place<'a>) {
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
                    None => {
                        let kind = if texts_inside(schema, |_| false).is_empty() {
                            ChangeKind::SchemaRewritten
                        } else {
                            ChangeKind::ParamTextChanged
                        };
                        self.add(kind, &other.pointer, None, Some(schema));
                    }
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

/// Whether an argument's value is also sent as a header of this name.
fn names_a_header(said: Option<&Value>) -> bool {
    said.and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}

/// What a schema says beside what it accepts.
struct Text<'a> {
    /// The pointer of the schema that says it.
    owner: String,
    word: &'a str,
    said: &'a Value,
}

/// A text as it is compared with others; a header with the argument that is mirrored to it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'t> {
    Text(&'t str),
    Other(String),
    Header(&'t str, String),
}

impl Text<'_> {
    /// What the schema that says it is called.
    fn name(&self) -> &str {
        self.owner.rsplit('/').next().unwrap_or_default()
    }

    /// `None` where it can't be compared.
    fn key(&self) -> Option<Key<'_>> {
        match self.said {
            said if self.word == HEADER => Some(Key::Header(self.name(), canonical(said, None).ok()?)),
            Value::String(text) => Some(Key::Text(text)),
            said => canonical(said, None).ok().map(Key::Other),
        }
    }

    /// A title that is only the name of what it stands for.
    fn is_name_recased(&self) -> bool {
        self.word == "title"
            && self
                .said
                .as_str()
                .is_some_and(|title| plain(title) == plain(self.name()))
    }
}

/// What stands in a schema and those inside it that says nothing about acceptance; schemas that are `skipped` are not
/// looked into.
fn texts_inside<'a>(schema: &'a Value, skipped: impl Fn(&Value) -> bool) -> Vec<Text<'a>> {
    let maps = [
        "properties",
        "patternProperties",
        "$defs",
        "definitions",
        "dependentSchemas",
        "dependencies",
    ];
    let values = ["enum", "const", "required", "dependentRequired", "type"];
    let mut texts = Vec::new();
    let mut open = vec![(String::new(), schema)];
    while let Some((owner, schema)) = open.pop() {
        let Value::Object(words) = schema else { continue };
        for (word, said) in words {
            match said {
                Value::Object(schemas) if maps.contains(&word.as_str()) => {
                    let place = |(name, schema): &'a (String, Value)| (below(&owner, &[word, name]), schema);
                    open.extend(schemas.iter().filter(|(_, schema)| !skipped(schema)).map(place));
                }
                _ if values.contains(&word.as_str()) => {}
                Value::Array(schemas) if decides(word) => {
                    let place = |(index, schema)| (below(&owner, &[word, &usize::to_string(&index)]), schema);
                    let wanted = schemas.iter().enumerate().filter(|(_, schema)| !skipped(schema));
                    open.extend(wanted.map(place));
                }
                Value::Object(_) if decides(word) => {
                    if !skipped(said) {
                        open.push((below(&owner, &[word]), said));
                    }
                }
                _ if decides(word) || HOLDERS.contains(&word.as_str()) => {}
                _ => texts.push(Text {
                    owner: owner.clone(),
                    word,
                    said,
                }),
            }
        }
    }
    texts
}

/// Letters and digits only, in lower case.
fn plain(text: &str) -> String {
    text.chars()
        .filter(|one| one.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}
