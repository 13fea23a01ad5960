//! The text of an API key: `mcpk_`, 30 random characters of base62, and 6 of the CRC32 (IEEE) over all before it.
//!
//! The checksum tells a mistyped or cut key from a real one without the database; it is no security, the 178 random bits
//! are. What scanners look for is `\bmcpk_[0-9A-Za-z]{36}\b`.
//!
//! Invariant: the text is in no log and no message: the type has neither `Debug` nor `Display`, and gives its text to
//! whoever asks for exactly that.

use mcpindex_store::accounts::SecretHash;
use secrecy::{ExposeSecret as _, SecretString};

/// What every key begins with, those of the published clients too.
pub const PREFIX: &str = "mcpk_";
const RANDOM: usize = 30;
const CHECKSUM: usize = 6;
/// The length of a key, in bytes.
pub const LENGTH: usize = PREFIX.len() + RANDOM + CHECKSUM;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of the random part that lists show.
const SHOWN: usize = 4;

/// A key as its holder sends it.
pub struct KeyText(SecretString);

impl KeyText {
    /// A new one, from the system's random numbers.
    pub fn generate() -> Result<KeyText, getrandom::Error> {
        let mut text = String::with_capacity(LENGTH);
        text.push_str(PREFIX);
        let mut bytes = [0; 2 * RANDOM];
        while text.len() < PREFIX.len() + RANDOM {
            getrandom::fill(&mut bytes)?;
            // The bytes from the largest multiple of 62 on would make some digits likelier than others.
            let fair = bytes.iter().filter_map(|byte| {
                let digit = DIGITS.get(usize::from(byte % 62))?;
                (*byte < 248).then_some(char::from(*digit))
            });
            let missing = PREFIX.len() + RANDOM - text.len();
            text.extend(fair.take(missing));
        }
        let checksum = checksum(&text);
        text.push_str(&checksum);
        Ok(KeyText(text.into()))
    }

    /// The key that this text is; `None` when it is none, or mistyped.
    pub fn parse(text: &str) -> Option<KeyText> {
        let random = text.strip_prefix(PREFIX)?;
        if text.len() != LENGTH || !random.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let (checked, stated) = text.split_at_checked(PREFIX.len() + RANDOM)?;
        (checksum(checked) == stated).then(|| KeyText(text.into()))
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

/// Six digits of base62, zeros in front.
fn checksum(text: &str) -> String {
    let mut rest = u64::from(crc32fast::hash(text.as_bytes()));
    let mut digits = [b'0'; CHECKSUM];
    for digit in digits.iter_mut().rev() {
        let value = usize::try_from(rest % 62).unwrap_or_default();
        *digit = DIGITS.get(value).copied().unwrap_or(b'0');
        rest /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

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
    fn the_checksum_is_crc32_in_base62() {
        // The check value of CRC-32/ISO-HDLC, 0xCBF43926 = 3421780262.
        assert_eq!(crc32fast::hash(b"123456789"), 3_421_780_262);
        assert_eq!(checksum("123456789"), "3jZRME");
        assert_eq!(checksum(""), "000000");
    }

    #[test]
    fn a_mistyped_key_is_none() {
        let key = random();
        for position in 0..LENGTH {
            let mut text: Vec<char> = key.expose().chars().collect();
            text[position] = if text[position] == 'x' { 'y' } else { 'x' };
            let text: String = text.into_iter().collect();
            assert!(KeyText::parse(&text).is_none());
        }
        for cut in 0..LENGTH {
            assert!(KeyText::parse(&key.expose()[..cut]).is_none());
        }
        assert!(KeyText::parse(&format!("{} ", key.expose())).is_none());
        assert!(KeyText::parse(&format!("{}0", key.expose())).is_none());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(mcpk_)?.{0,45}") {
            // Nobody can guess a checksum of 2^32 in a few tries.
            prop_assert!(KeyText::parse(&text).is_none());
        }
    }
}
