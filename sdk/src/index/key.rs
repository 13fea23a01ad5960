//! The text of a key, as far as it can be judged without asking anybody.
//!
//! A key of ours is `mcpk_`, 30 base62 characters, and the CRC-32 (IEEE) over all of that as 6 base62 characters: a slip of the
//! hand is found here. The published server's keys are `mcpk_` and 43 base64url characters, without a checksum.
//!
//! Invariant: no part of a key is in an error.

use secrecy::SecretString;

const PREFIX: &str = "mcpk_";
const OURS: usize = 41;
const OF_THE_PUBLISHED_SERVER: usize = 48;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

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
    let secret = text.strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
    let is_base62 = |byte: u8| byte.is_ascii_alphanumeric();
    match text.len() {
        OURS if !secret.bytes().all(is_base62) => Err(KeyError::Character),
        OURS => {
            let (content, sum) = text.split_at(OURS - 6);
            match checksum(content.as_bytes()) == sum.as_bytes() {
                true => Ok(SecretString::from(text)),
                false => Err(KeyError::Checksum),
            }
        }
        OF_THE_PUBLISHED_SERVER
            if secret
                .bytes()
                .all(|byte| is_base62(byte) || matches!(byte, b'-' | b'_')) =>
        {
            Ok(SecretString::from(text))
        }
        OF_THE_PUBLISHED_SERVER => Err(KeyError::Character),
        _ => Err(KeyError::Length(text.chars().count())),
    }
}

/// CRC-32 as base62, the most significant digit first, filled up with `0`.
fn checksum(content: &[u8]) -> [u8; 6] {
    let mut rest = crc32fast::hash(content) as usize;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[rest % 62];
        rest /= 62;
    }
    digits
}

#[cfg(test)]
pub(super) mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    /// The key that begins so.
    pub(crate) fn with_checksum(content: &str) -> String {
        let sum = checksum(content.as_bytes());
        format!("{content}{}", std::str::from_utf8(&sum).unwrap())
    }

    #[test]
    fn a_key_is_read_and_a_slip_is_found() {
        let key = with_checksum("mcpk_0123456789abcdefghijABCDEFGHIJ");
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
        for place in PREFIX.len()..OURS {
            let mut changed = key.clone().into_bytes();
            changed[place] = if changed[place] == b'x' { b'y' } else { b'x' };
            assert!(
                read_key(std::str::from_utf8(&changed).unwrap()).is_err(),
                "{place}"
            );
        }
    }

    #[test]
    fn a_key_of_the_published_server_is_one_too() {
        let key = format!("mcpk_{}", "Ab-_".repeat(11).get(..43).unwrap());
        assert_eq!(read_key(&key).unwrap().expose_secret(), key);
        assert_eq!(read_key(&key.replace('-', "+")).unwrap_err(), KeyError::Character);
    }
}
