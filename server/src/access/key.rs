//! An API key as its holder sends it, and new ones. How its text is made is `mcpindex::index::key`.
//!
//! Invariant: the text is in no log and no message: the type has neither `Debug` nor `Display`, and gives its text to
//! whoever asks for exactly that.

use mcpindex::index::key::{DIGITS, LENGTH, PREFIX, RANDOM, check_ours, with_checksum};
use mcpindex::login::code::drawn;
use mcpindex_store::accounts::SecretHash;
use secrecy::{ExposeSecret as _, SecretString};

/// Characters of the random part that lists show.
const SHOWN: usize = 4;

/// A key as its holder sends it.
pub struct KeyText(SecretString);

impl KeyText {
    /// A new one, from the system's random numbers.
    pub fn generate() -> Result<KeyText, getrandom::Error> {
        let random = SecretString::from(drawn(DIGITS, RANDOM)?);
        // With room for all of it, so that no part is left behind where it grew.
        let mut text = String::with_capacity(LENGTH);
        text.push_str(PREFIX);
        text.push_str(random.expose_secret());
        Ok(KeyText(with_checksum(text).into()))
    }

    /// The key that this text is; `None` when it is none, or mistyped.
    pub fn parse(text: &str) -> Option<KeyText> {
        check_ours(text).ok().map(|()| KeyText(text.into()))
    }

    /// The whole text, for the one answer that hands it to its owner.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What the store keeps of it.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.expose())
    }

    /// What a list shows of it: `mcpk_AbCd…`.
    pub fn shown(&self) -> String {
        let start: String = self.expose().chars().take(PREFIX.len() + SHOWN).collect();
        format!("{start}…")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn random() -> KeyText {
        KeyText::generate().unwrap()
    }

    #[test]
    fn a_generated_key_is_of_the_form_that_scanners_know() {
        let keys: Vec<KeyText> = (0..500).map(|_| random()).collect();
        for key in &keys {
            let text = key.expose();
            assert_eq!((text.len(), &text[..5]), (41, "mcpk_"));
            assert!(text[5..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert!(KeyText::parse(text).is_some());
            assert_eq!(key.shown(), format!("{}…", &text[..9]));
        }
        let distinct: BTreeSet<&str> = keys.iter().map(KeyText::expose).collect();
        assert_eq!(distinct.len(), keys.len());
        let digits: BTreeSet<char> = keys.iter().flat_map(|key| key.expose()[5..].chars()).collect();
        assert_eq!(digits.len(), 62, "every digit comes up");
    }

    #[test]
    fn a_mistyped_key_is_none() {
        let key = random();
        assert!(KeyText::parse(&key.expose()[1..]).is_none());
        assert!(KeyText::parse(&format!("{} ", key.expose())).is_none());
        assert!(KeyText::parse(&format!("mcpk_{}", "A".repeat(43))).is_none());
    }
}
