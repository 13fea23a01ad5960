//! How text from outside is kept, so that both databases give back exactly what was put in.
//!
//! Postgres refuses U+0000 in text, and a server may well send it. So U+FDD0 (a noncharacter, left by Unicode to a
//! program's own use) stands before a letter: `z` for U+0000, `s` for U+001F, `n` for U+FDD0 itself. All other text
//! is kept as it is; JSON text in canonical form never holds one of the three but U+FDD0.
//!
//! Invariant: `restored(stored(text)) == text`; two texts are equal exactly when their stored forms are; U+001F never
//! stands in stored text and is free as [`SEPARATOR`].

use std::borrow::Cow;

use crate::StoreError;

const MARK: char = '\u{FDD0}';
/// Joins several stored texts into one value.
pub(crate) const SEPARATOR: &str = "\u{1F}";

/// An identity takes part in every index; Postgres refuses index rows over 2,704 bytes.
pub(crate) const MAX_IDENTITY: usize = 1_500;
/// Bytes of a version.
pub(crate) const MAX_VERSION: usize = 300;
/// Bytes of a version's sortable text.
pub(crate) const MAX_VERSION_KEY: usize = 700;
/// Bytes of an auth context.
pub(crate) const MAX_CONTEXT: usize = 300;

/// The form in which a text is kept.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', '\u{1F}', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => kept.extend([MARK, 'z']),
            '\u{1F}' => kept.extend([MARK, 's']),
            MARK => kept.extend([MARK, 'n']),
            other => kept.push(other),
        }
    }
    Cow::Owned(kept)
}

/// The text that was put in.
pub(crate) fn restored(kept: String) -> Result<String, StoreError> {
    if !kept.contains(MARK) {
        return Ok(kept);
    }
    let mut text = String::with_capacity(kept.len());
    let mut characters = kept.chars();
    while let Some(character) = characters.next() {
        if character != MARK {
            text.push(character);
            continue;
        }
        text.push(match characters.next() {
            Some('z') => '\0',
            Some('s') => '\u{1F}',
            Some('n') => MARK,
            _ => {
                return Err(StoreError::Corrupt {
                    what: "a text with an unknown escape".to_owned(),
                });
            }
        });
    }
    Ok(text)
}

/// [`restored`] for a value that may be absent.
pub(crate) fn restored_option(kept: Option<String>) -> Result<Option<String>, StoreError> {
    kept.map(restored).transpose()
}

/// The stored form of a text that takes part in an index, which has room for `limit` bytes.
pub(crate) fn indexed<'a>(what: &str, text: &'a str, limit: usize) -> Result<Cow<'a, str>, StoreError> {
    let kept = stored(text);
    if kept.len() > limit {
        let start: String = text.chars().take(40).collect();
        return Err(StoreError::Refused {
            what: format!(
                "the {what} `{}…` is longer than {limit} bytes",
                start.escape_debug()
            ),
        });
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kept: &str) {
        assert_eq!(stored(text), kept);
        assert_eq!(restored(kept.to_owned()).unwrap(), text);
    }

    #[test]
    fn every_text_comes_back_as_it_was() {
        check("", "");
        check("plain \\ text\n", "plain \\ text\n");
        check("a\0b", "a\u{FDD0}zb");
        check("\u{1F}", "\u{FDD0}s");
        check("\u{FDD0}", "\u{FDD0}n");
        check("\u{FDD0}z\0", "\u{FDD0}nz\u{FDD0}z");
        check("𝒳\u{10FFFF}\u{FFFE}", "𝒳\u{10FFFF}\u{FFFE}");
    }

    #[test]
    fn an_unknown_escape_is_told_from_text() {
        assert!(restored("\u{FDD0}q".to_owned()).is_err());
        assert!(restored("\u{FDD0}".to_owned()).is_err());
    }
}
