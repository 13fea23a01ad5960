//! One schema text as a document: its dialect, what its references name, which of its objects are read as closed.
//!
//! Invariant: a reference leads only within the document; whatever else it names is not looked for.

use crate::json::Value;

/// How a document is read where texts are read in more than one way. A claim must hold in every reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// `nullable: true` adds `null` to the types, as OpenAPI has it; JSON Schema does not know the word.
    pub(super) nullable: bool,
    /// Parts of one object schema (`allOf`, `if`, branches beside `properties`) are closed together, not each alone.
    pub(super) together: bool,
}

/// The dialects that are told apart; all others are read as 2020-12, the protocol's own default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dialect {
    Draft7,
    Draft2019,
    Draft2020,
}

/// A schema's root with how it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) root: &'a Value,
    pub(super) dialect: Dialect,
    pub(super) reading: Reading,
}

impl Dialect {
    /// The dialect that a whole schema names.
    pub(super) fn of(root: &Value) -> Dialect {
        match root.get("$schema").and_then(Value::as_str) {
            Some(name)
                if ["draft-04", "draft-06", "draft-07"]
                    .iter()
                    .any(|draft| name.contains(draft)) =>
            {
                Dialect::Draft7
            }
            Some(name) if name.contains("2019-09") => Dialect::Draft2019,
            _ => Dialect::Draft2020,
        }
    }
}

impl<'a> Document<'a> {
    pub(super) fn new(root: &'a Value, reading: Reading) -> Document<'a> {
        Document {
            root,
            dialect: Dialect::of(root),
            reading,
        }
    }

    /// Whether this is the whole schema, not one inside it.
    pub(super) fn is_root(&self, schema: &Value) -> bool {
        std::ptr::eq(schema, self.root)
    }

    /// What a local reference (`#`, `#/…`) names, with its pointer.
    pub(super) fn resolve(&self, reference: &str) -> Option<(&'a Value, String)> {
        let fragment = reference.strip_prefix('#')?;
        let pointer = percent_decoded(fragment)?;
        let value = self.root.pointer(&pointer)?;
        Some((value, pointer))
    }
}

/// A URI fragment's text; `None` when it is not UTF-8.
fn percent_decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escape = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (
            byte,
            escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        ) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether an object schema is read as closed: it declares properties, and nothing says what others must be. One that
/// declares none and says that any are taken is a map.
pub(super) fn declares_and_closes(schema: &Value) -> bool {
    let is_schema = |name: &str| matches!(schema.get(name), Some(Value::Object(_)));
    let declares_none =
        matches!(schema.get("properties"), Some(Value::Object(members)) if members.is_empty());
    let is_map = declares_none && schema.get("additionalProperties") == Some(&Value::Bool(true));
    is_schema("properties")
        && !is_map
        && !is_schema("additionalProperties")
        && schema.get("patternProperties").is_none()
        && !is_schema("unevaluatedProperties")
}
