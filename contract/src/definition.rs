//! One tool, prompt, resource or resource template as the server sent it, with views on the members we know.
//!
//! Invariant: [`Definition::text`] is the server's text to the byte; every view reads from it, and no
//! member that we don't know is dropped on the way to the digest.

use crate::canonical::canonical_at;
use crate::digest::{Digest, NoDigest};
use crate::json::{self, Document, Flaw, FlawKind, ReadError, Sent, Text, Value, member_text};
use std::sync::{Arc, OnceLock};

/// The member that the definition digest leaves out.
const META: &str = "_meta";

/// A definition as sent. Reading never fails: what can't be read or digested says why in
/// [`Definition::no_digest`] and is known by its raw digest.
#[derive(Debug, Clone)]
pub struct Definition {
    text: Arc<str>,
    /// Read when first asked for: most definitions are only compared by digest.
    value: OnceLock<Option<Value>>,
    digest: Digest,
    no_digest: Option<NoDigest>,
    meta: Option<Meta>,
}

/// The top-level `_meta` of a definition, which its digest leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The meta digest; raw where `_meta` has no canonical text.
    pub digest: Digest,
    /// The text that the digest covers.
    pub text: String,
}

impl Definition {
    /// Reads one definition from its exact text.
    pub fn read(text: &str) -> Definition {
        Definition::read_with_key(text, "name").0
    }

    /// Reads one definition, and its top-level member of this name when that is a string.
    pub(crate) fn read_with_key(text: &str, key: &str) -> (Definition, Option<String>) {
        Definition::of(text, json::read_borrowed(text).as_ref(), key)
    }

    /// The same of a text that was read.
    pub(crate) fn of(
        text: &str,
        read: Result<&Document<Sent<'_>>, &ReadError>,
        key: &str,
    ) -> (Definition, Option<String>) {
        let with = |canonical: Result<String, NoDigest>, meta| {
            let (digest, no_digest) = match canonical {
                Ok(canonical) => (Digest::of_canonical(&canonical), None),
                Err(reason) => (Digest::of_raw(text), Some(reason)),
            };
            Definition {
                text: Arc::from(text),
                value: OnceLock::new(),
                digest,
                no_digest,
                meta,
            }
        };
        let document = match read {
            Ok(document) => document,
            Err(ReadError::Syntax { .. }) => return (with(Err(NoDigest::NotJson), None), None),
            Err(ReadError::TooDeep { .. }) => return (with(Err(NoDigest::TooDeep), None), None),
        };
        let value = &document.value;
        // What is wrong inside `_meta` is no concern of the digest that leaves it out.
        let (meta_flaws, flaws): (Vec<&Flaw>, Vec<&Flaw>) =
            document.flaws.iter().partition(|flaw| is_in_meta(flaw));
        let canonical = match (value, flaws.first()) {
            (_, Some(flaw)) => Err(NoDigest::from((*flaw).clone())),
            (Value::Object(_), None) => canonical_at(value, Some(META), 0, text.len()),
            (_, None) => Err(NoDigest::NotAnObject),
        };
        let meta = value.get(META);
        let meta = meta.map(|meta| Meta::of(meta, meta_flaws.is_empty(), text));
        let key = match value.get(key) {
            Some(Value::String(text)) => Some(text.to_text().into_owned()),
            _ => None,
        };
        (with(canonical, meta), key)
    }

    /// The server's text, to the byte.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same, for whoever keeps it.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The definition digest (RFC 8785 of the object without top-level `_meta`), or the raw digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The text that [`Definition::digest`] covers: canonical without `_meta`, or as sent.
    /// `Definition::read` of it gives the same digest.
    pub fn digested_text(&self) -> String {
        let canonical = match (&self.no_digest, self.value()) {
            (None, Some(value)) => canonical_at(value, Some(META), 0, self.text.len()).ok(),
            _ => None,
        };
        canonical.unwrap_or_else(|| self.text.as_ref().to_owned())
    }

    /// Why there is only a raw digest.
    pub fn no_digest(&self) -> Option<&NoDigest> {
        self.no_digest.as_ref()
    }

    /// The top-level `_meta`, when there is one.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// The value, unless the text is not JSON by the strict reader.
    pub fn value(&self) -> Option<&Value> {
        let read = || json::read(&self.text).ok().map(|document| document.value);
        self.value.get_or_init(read).as_ref()
    }

    /// A top-level member (the first of that name).
    pub fn member(&self, name: &str) -> Option<&Value> {
        self.value()?.get(name)
    }

    /// `name`, when it is a string.
    pub fn name(&self) -> Option<&str> {
        self.member("name")?.as_str()
    }

    /// `title`, when it is a string.
    pub fn title(&self) -> Option<&str> {
        self.member("title")?.as_str()
    }

    /// `description`, when it is a string.
    pub fn description(&self) -> Option<&str> {
        self.member("description")?.as_str()
    }

    /// `inputSchema` as sent.
    pub fn input_schema(&self) -> Option<&Value> {
        self.member("inputSchema")
    }
}

/// Two definitions are equal when their texts are: everything else follows from the text.
impl PartialEq for Definition {
    fn eq(&self, other: &Definition) -> bool {
        self.text == other.text
    }
}

impl Eq for Definition {}

impl Meta {
    /// `_meta` of the definition that `definition_text` is the text of.
    fn of<'t, S: Text<'t>>(value: &Value<S>, is_flawless: bool, definition_text: &str) -> Meta {
        // It keeps the level it has in the definition, as the lock format counts.
        if is_flawless && let Ok(text) = canonical_at(value, None, 1, 0) {
            return Meta {
                digest: Digest::of_canonical(&text),
                text,
            };
        }
        let text = member_text(definition_text, META).unwrap_or_default();
        Meta {
            digest: Digest::of_raw(text),
            text: text.to_owned(),
        }
    }
}

/// Whether a flaw lies in the value of the top-level `_meta`; a second `_meta` is the definition's own flaw.
fn is_in_meta(flaw: &Flaw) -> bool {
    match flaw.pointer.strip_prefix("/_meta") {
        Some("") => flaw.kind != FlawKind::DuplicateMember,
        Some(rest) => rest.starts_with('/'),
        None => false,
    }
}

impl From<Flaw> for NoDigest {
    fn from(flaw: Flaw) -> NoDigest {
        let pointer = flaw.pointer;
        match flaw.kind {
            FlawKind::DuplicateMember => NoDigest::DuplicateMember { pointer },
            FlawKind::LoneSurrogate => NoDigest::LoneSurrogate { pointer },
        }
    }
}
