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
        let of = |places: &[&Place<'a>]| {
            let mut texts: BTreeMap<&'a str, (&'a Value, String)> = BTreeMap::new();
            for place in places {
                let Value::Object(words) = place.value else {
                    continue;
                };
                for (word, said) in words {
                    if !decides(word) && !HOLDERS.contains(&word.as_str()) {
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
            let Some((_, pointer)) = new.or(old) else { continue };
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
            self.add(kind, &pointer.clone(), old_value, new_value);
        }
    }

    /// Texts that are nowhere in the old schema and that no difference so far shows, wherever they stand.
    pub(super) fn unseen_texts(&mut self, before: &'a Value, after: &'a Value) {
        let known: BTreeSet<String> = texts_inside(before)
            .into_iter()
            .filter_map(|(pointer, said)| key(&pointer, said))
            .collect();
        for (pointer, said) in texts_inside(after) {
            if key(&pointer, said).is_some_and(|text| known.contains(&text)) {
                continue;
            }
            let mut tokens = pointer.rsplit('/');
            let (word, name) = (tokens.next(), tokens.next().unwrap_or_default());
            let kind = if word == Some(HEADER) && names_a_header(Some(said)) {
                ChangeKind::ParamMirroredToHeader
            } else {
                ChangeKind::ParamTextChanged
            };
            let shown = |one: &Difference| {
                let rest = one_inside(&pointer, &one.pointer);
                let new = one.before.is_none() && one.after.is_some();
                rest == Some("") || (kind == ChangeKind::ParamTextChanged && new && rest.is_some())
            };
            let renamed = || said.as_str().is_some_and(|title| plain(title) == plain(name));
            if self.found.iter().any(shown) || (word == Some("title") && renamed()) {
                continue;
            }
            self.add(kind, &pointer, None, Some(said));
            if self.found.len() >= MAX_DIFFERENCES {
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
                        let kind = if texts_inside(schema).is_empty() {
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

/// What of `pointer` is left below `place`; `None` when it is not there.
fn one_inside<'p>(pointer: &'p str, place: &str) -> Option<&'p str> {
    pointer
        .strip_prefix(place)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A text as it is compared with others; a header with the argument that is mirrored to it.
fn key(pointer: &str, said: &Value) -> Option<String> {
    let text = canonical(said, None).ok()?;
    match pointer.strip_suffix(HEADER) {
        Some(owner) => {
            let name = owner.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            Some(format!("{HEADER} {name} {text}"))
        }
        None => Some(text),
    }
}

/// What stands in a schema and those inside it that says nothing about acceptance, with its pointers.
fn texts_inside(schema: &Value) -> Vec<(String, &Value)> {
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
    while let Some((pointer, schema)) = open.pop() {
        let Value::Object(words) = schema else { continue };
        for (word, said) in words {
            let inner = below(&pointer, &[word]);
            match said {
                Value::Object(schemas) if maps.contains(&word.as_str()) => {
                    open.extend(
                        schemas
                            .iter()
                            .map(|(name, schema)| (below(&inner, &[name]), schema)),
                    );
                }
                _ if values.contains(&word.as_str()) => {}
                Value::Array(schemas) if decides(word) => {
                    let place = |(index, schema)| (below(&inner, &[&usize::to_string(&index)]), schema);
                    open.extend(schemas.iter().enumerate().map(place));
                }
                _ if decides(word) => open.push((inner, said)),
                _ if HOLDERS.contains(&word.as_str()) => {}
                _ => texts.push((inner, said)),
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
