//! What a value's texts are kept in: strings of their own, or pieces of the text that was read.
//!
//! Invariant: what [`Text::canonical`] gives is what RFC 8785 writes between the quotes.

use std::borrow::Cow;

/// What a value's texts are kept in. Member names and numbers are read by [`AsRef`].
pub(crate) trait Text<'t>: AsRef<str> {
    /// Whether a string value may stay as it was sent, escapes and all.
    const KEEPS_ESCAPES: bool;
    /// A text that stands in the JSON as it is.
    fn as_sent(text: &'t str) -> Self;
    /// A string value whose escapes are those that RFC 8785 writes; with [`Text::KEEPS_ESCAPES`] only.
    fn escaped(text: &'t str) -> Self;
    /// A text that had escapes.
    fn unescaped(text: &str) -> Self;
    /// The text between the quotes as RFC 8785 writes it, where that is known.
    fn canonical(&self) -> Option<&str>;
}

impl<'t> Text<'t> for String {
    const KEEPS_ESCAPES: bool = false;

    fn as_sent(text: &'t str) -> String {
        text.to_owned()
    }

    fn escaped(text: &'t str) -> String {
        text.to_owned()
    }

    fn unescaped(text: &str) -> String {
        text.to_owned()
    }

    fn canonical(&self) -> Option<&str> {
        None
    }
}

/// A text for the digest alone, which needs no value of its own: where it can it stays where it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent<'t> {
    /// As it stands between the quotes, in canonical form; a name or a number has no escapes then.
    Canonical(&'t str),
    /// Anything else, unescaped.
    Unescaped(String),
}

impl Sent<'_> {
    /// The text itself.
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        let text = match self {
            Sent::Canonical(text) if text.contains('\\') => text,
            other => return Cow::Borrowed(other.as_ref()),
        };
        let mut unescaped = String::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            unescaped.push(match character {
                '\\' => match characters.next() {
                    Some('b') => '\u{8}',
                    Some('f') => '\u{c}',
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(other) => other,
                    None => break,
                },
                other => other,
            });
        }
        Cow::Owned(unescaped)
    }
}

impl AsRef<str> for Sent<'_> {
    /// A name's or a number's text. A string value's may have escapes here: read it by [`Sent::to_text`].
    fn as_ref(&self) -> &str {
        match self {
            Sent::Canonical(text) => text,
            Sent::Unescaped(text) => text,
        }
    }
}

impl<'t> Text<'t> for Sent<'t> {
    const KEEPS_ESCAPES: bool = true;

    fn as_sent(text: &'t str) -> Sent<'t> {
        Sent::Canonical(text)
    }

    fn escaped(text: &'t str) -> Sent<'t> {
        Sent::Canonical(text)
    }

    fn unescaped(text: &str) -> Sent<'t> {
        Sent::Unescaped(text.to_owned())
    }

    fn canonical(&self) -> Option<&str> {
        match self {
            Sent::Canonical(text) => Some(text),
            Sent::Unescaped(_) => None,
        }
    }
}
