//! The text of a key, as far as it can be judged without asking anybody.
//!
//! A key of ours is `mcpk_`, 30 random characters of base62, and the CRC-32 (IEEE) over all of that as 6 of base62. The checksum
//! tells a mistyped or cut key from a real one; it is no security, the 178 random bits are. What scanners look for is
//! `\bmcpk_[0-9A-Za-z]{36}\b`. The published server's keys are `mcpk_` and 43 base64url characters, without a checksum.
//!
//! Invariant: no part of a key is in an error.

use secrecy::SecretString;

/// What every key begins with, those of the published server too.
pub const PREFIX: &str = "mcpk_";
/// The random characters of a key of ours.
pub const RANDOM: usize = 30;
/// What they are drawn from: base62, by value.
pub const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The length of a key of ours, in bytes.
pub const LENGTH: usize = PREFIX.len() + RANDOM + CHECKSUM;
const CHECKSUM: usize = 6;
const OF_THE_PUBLISHED_SERVER: usize = 48;

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing, or only white space.
    #[error("there is no key: it is empty")]
    Empty,
    /// Another sort of secret, or of text.
    #[error("this is no key of an index: keys begin with mcpk_")]
    Prefix,
    /// Characters are missing, or there are too many.
    #[error("the key has {0} characters, and a key has 41: part of it is missing, or something was added")]
    Length(usize),
    /// A character that is in no key.
    #[error("the key has a character that no key has")]
    Character,
    /// Some character is not what it was.
    #[error("the key's checksum is wrong: a character of it was changed or left out")]
    Checksum,
}

/// Reads a key as a person pastes it: white space around it is no part of it.
pub fn read_key(text: &str) -> Result<SecretString, KeyError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if text.len() == OF_THE_PUBLISHED_SERVER {
        let secret = text.strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !secret.bytes().all(is_base64url) {
            return Err(KeyError::Character);
        }
    } else {
        check_ours(text)?;
    }
    Ok(SecretString::from(text))
}

/// Whether a text is a key of ours, to the letter: nothing around it, and the right checksum.
pub fn check_ours(text: &str) -> Result<(), KeyError> {
    let secret = text.strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
    if text.len() != LENGTH {
        return Err(KeyError::Length(text.chars().count()));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(KeyError::Character);
    }
    let (content, stated) = text.split_at(LENGTH - CHECKSUM);
    match checksum(content) == stated {
        true => Ok(()),
        false => Err(KeyError::Checksum),
    }
}

/// The key that begins with this prefix and these random characters.
pub fn with_checksum(mut content: String) -> String {
    let checksum = checksum(&content);
    content.push_str(&checksum);
    content
}

/// CRC-32 as base62, the most significant digit first, filled up with `0`.
fn checksum(content: &str) -> String {
    let mut rest = crc32fast::hash(content.as_bytes()) as usize;
    let mut digits = ['0'; CHECKSUM];
    for digit in digits.iter_mut().rev() {
        *digit = char::from(DIGITS[rest % 62]);
        rest /= 62;
    }
    digits.iter().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn the_checksum_is_crc32_in_base62() {
        // The check value of CRC-32/ISO-HDLC, 0xCBF43926 = 3421780262.
        assert_eq!(crc32fast::hash(b"123456789"), 3_421_780_262);
        assert_eq!(checksum("123456789"), "3jZRME");
        assert_eq!(checksum(""), "000000");
    }

    #[test]
    fn a_key_is_read_and_a_slip_is_found() {
        let key = with_checksum("mcpk_0123456789abcdefghijABCDEFGHIJ".to_owned());
        // The CRC-32 of these 35 characters is 0x3ae0e20e, computed by another program.
        assert!(key.ends_with("14qmBa"), "{key}");
        assert_eq!(read_key(&format!(" {key}\n")).unwrap().expose_secret(), key);
        let check = |text: &str, expected: KeyError| assert_eq!(read_key(text).unwrap_err(), expected);
        check("", KeyError::Empty);
        check(" \n", KeyError::Empty);
        check("ghp_0123456789", KeyError::Prefix);
        check(&key[..40], KeyError::Length(40));
        check(&format!("{key}x"), KeyError::Length(42));
        check(&key.replace('a', "b"), KeyError::Checksum);
        check(&key.replace('a', "-"), KeyError::Character);
        check(&key.replace("ab", "é"), KeyError::Character);
        for place in 0..LENGTH {
            let mut changed = key.clone().into_bytes();
            changed[place] = if changed[place] == b'x' { b'y' } else { b'x' };
            assert!(
                read_key(std::str::from_utf8(&changed).unwrap()).is_err(),
                "{place}"
            );
            assert!(read_key(&key[..place]).is_err(), "{place}");
        }
    }

    #[test]
    fn to_the_letter_means_without_white_space_and_ours_alone() {
        let key = with_checksum("mcpk_0123456789abcdefghijABCDEFGHIJ".to_owned());
        assert_eq!(check_ours(&key), Ok(()));
        assert_eq!(check_ours(&format!("{key} ")), Err(KeyError::Length(42)));
        assert_eq!(check_ours(&format!(" {key}")), Err(KeyError::Prefix));
        let published = format!("mcpk_{}", "A".repeat(43));
        assert!(read_key(&published).is_ok());
        assert_eq!(check_ours(&published), Err(KeyError::Length(48)));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(mcpk_)?.{0,45}") {
            // Nobody can guess a checksum of 2^32 in a few tries.
            prop_assert!(check_ours(&text).is_err());
            let is_published = text.trim().len() == OF_THE_PUBLISHED_SERVER;
            prop_assert!(read_key(&text).is_err() || is_published);
        }
    }

    #[test]
    fn a_key_of_the_published_server_is_one_too() {
        let key = format!("mcpk_{}", "Ab-_".repeat(11).get(..43).unwrap());
        assert_eq!(read_key(&key).unwrap().expose_secret(), key);
        assert_eq!(read_key(&key.replace('-', "+")).unwrap_err(), KeyError::Character);
    }
}
