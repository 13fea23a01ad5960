//! A text that is kept for a moment and nearly always short: an id as it is spelt, a tool's name. Each call has both, so
//! short ones need no memory of their own.
//!
//! Invariant: it reads as the text that it was made of.

use std::ops::Deref;

/// The longest text that stays where it is.
const SHORT_BYTES: usize = 30;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShortText(Kept);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    Here { bytes: [u8; SHORT_BYTES], length: u8 },
    Apart(Box<str>),
}

impl From<&str> for ShortText {
    fn from(text: &str) -> ShortText {
        let mut bytes = [0; SHORT_BYTES];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(text.as_bytes());
                ShortText(Kept::Here { bytes, length })
            }
            _ => ShortText(Kept::Apart(text.into())),
        }
    }
}

impl Deref for ShortText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Kept::Here { bytes, length } => {
                let text = bytes.get(..usize::from(*length)).map(str::from_utf8);
                text.and_then(Result::ok).unwrap_or_default()
            }
            Kept::Apart(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_it_was_made() {
        for length in 0..100 {
            for letter in ["x", "\u{e9}", "\u{1f600}", "\0"] {
                let text = letter.repeat(length);
                assert_eq!(&*ShortText::from(text.as_str()), text);
            }
        }
    }
}
