//! The strict JSON reader (RFC 8259) for everything a server declares.
//!
//! It keeps what other readers lose: the text of every number, members in the order sent, and the fact
//! that a member was sent twice or that a string held half a surrogate pair. Such flaws do not stop the
//! reading (one bad tool must never hide the others); they are named, with the place, in
//! [`Document::flaws`], and whoever needs exactness (the digest) refuses them.
//!
//! Invariant: no recursion on the way in or out; text nested deeper than [`MAX_DEPTH`] is refused, not overflowed.

mod pretty;
mod reader;
mod surrogates;
mod text;

pub(crate) use reader::{member_text, plain_end};
use surrogates::Surrogates;
pub(crate) use surrogates::code_points;
pub(crate) use text::{Sent, Text};

/// The most arrays and objects that may be open at once. The digest has a lower limit of its own.
pub const MAX_DEPTH: usize = 2_048;

/// A JSON value, nothing lost: numbers as text, members in the order sent, duplicates kept.
///
/// Its texts are `String`s; only the digest, which needs no value of its own, reads into ones that borrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<S = String> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, by its text.
    Number(Number<S>),
    /// A string, unescaped. Half a surrogate pair is read as U+FFFD and named in [`Document::flaws`].
    String(S),
    /// An array.
    Array(Vec<Value<S>>),
    /// An object: members in the order sent, duplicates included.
    Object(Vec<(S, Value<S>)>),
}

/// A number's text as sent, for example `1.0` or `1e400`: valid by RFC 8259's grammar, of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number<S = String>(S);

/// What one text says, and what is wrong with it that a reader could still get past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<S = String> {
    /// The value.
    pub value: Value<S>,
    /// Duplicate members and lone surrogates; empty for nearly every text. A duplicate is met where its
    /// object ends. Named are the first flaw of the document itself (its own member names) and the first
    /// inside each top-level member or element, so that pointers never outweigh the text.
    pub flaws: Vec<Flaw>,
}

/// One thing that two JSON readers may take differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// What it is.
    pub kind: FlawKind,
    /// Where: an RFC 6901 pointer into the document. For a name with a lone surrogate, its object.
    pub pointer: String,
}

/// The kinds of [`Flaw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlawKind {
    /// An object has two members of one name.
    DuplicateMember,
    /// A string holds half of a surrogate pair.
    LoneSurrogate,
}

/// Why a text could not be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The text is not JSON.
    #[error("not JSON at byte {offset}: expected {expected}")]
    Syntax {
        /// Bytes from the start of the text.
        offset: usize,
        /// What would have been right there.
        expected: &'static str,
    },
    /// The text nests deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels at byte {offset}")]
    TooDeep {
        /// Bytes from the start of the text.
        offset: usize,
    },
}

/// Reads one JSON text, surrounded by nothing but white space.
pub fn read(text: &str) -> Result<Document, ReadError> {
    reader::read(text, Surrogates::Replace)
}

/// Reads like [`read`], but texts that are canonical already stay where they are.
pub(crate) fn read_borrowed(text: &str) -> Result<Document<Sent<'_>>, ReadError> {
    reader::read(text, Surrogates::Replace)
}

/// Reads like [`read`], but keeps what each lone surrogate was, in the code of [`Surrogates::Keep`].
pub(crate) fn read_keeping_surrogates(text: &str) -> Result<Value, ReadError> {
    reader::read(text, Surrogates::Keep).map(|document: Document| document.value)
}

/// Appends one reference token to an RFC 6901 pointer.
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    if !token.contains(['~', '/']) {
        return pointer.push_str(token);
    }
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

impl<S: AsRef<str>> Number<S> {
    /// The text as sent.
    pub fn text(&self) -> &str {
        self.0.as_ref()
    }
}

impl<S: AsRef<str>> Value<S> {
    /// The first member of this name, when this is an object.
    pub fn get(&self, name: &str) -> Option<&Value<S>> {
        match self {
            Value::Object(members) => members
                .iter()
                .find(|(key, _)| key.as_ref() == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

impl Value {
    /// The string, when this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value an RFC 6901 pointer names; the empty pointer names this value. Of duplicate members the first.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        let tokens = pointer.strip_prefix('/')?;
        tokens.split('/').try_fold(self, |value, token| match value {
            Value::Object(_) => value.get(&token.replace("~1", "/").replace("~0", "~")),
            Value::Array(items) => items.get(array_index(token)?),
            _ => None,
        })
    }

    /// Indented text for people (two spaces, members in the order sent, numbers as sent). What nests deeper than 32
    /// levels stays on one line, so that the text is never more than about 35 times as long as what was read.
    pub fn to_pretty(&self) -> String {
        pretty::pretty(self)
    }
}

/// RFC 6901's array index: decimal digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with(['0', '+']);
    if canonical { token.parse().ok() } else { None }
}
