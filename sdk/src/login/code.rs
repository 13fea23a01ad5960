//! Codes that people read off one screen and compare with another, or type in: what they are made of, and how they are drawn,
//! written and read back.
//!
//! Invariant: each letter of a drawn code is as likely as another.

use sha2::{Digest, Sha256};

/// Consonants that are hard to mistake for one another and spell no word.
pub const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// Letters between two hyphens.
const GROUP: usize = 4;
/// Letters of the code of a challenge.
const OF_CHALLENGE: usize = 8;

/// `count` characters of an alphabet (of ASCII), from the operating system's random numbers.
pub fn drawn<const SIZE: usize>(alphabet: &[u8; SIZE], count: usize) -> Result<String, getrandom::Error> {
    const {
        assert!(
            SIZE > 0 && SIZE <= 256,
            "a byte chooses one of 1 to 256 characters"
        );
    }
    // The bytes from the largest multiple of the size on would make some characters likelier than others.
    let fair = 256 - 256 % SIZE;
    let mut text = String::with_capacity(count);
    let mut bytes = [0; 64];
    while text.len() < count {
        getrandom::fill(&mut bytes)?;
        let chosen = bytes
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < fair);
        let missing = count - text.len();
        text.extend(chosen.take(missing).map(|byte| char::from(alphabet[byte % SIZE])));
    }
    Ok(text)
}

/// The code that stands both in the terminal that asks for a sign-in and on the page that consents to it, so that a person can
/// tell their own sign-in from another's: `WDJB-MJHT`, the first 40 bits of a hash of the challenge (RFC 7636), in base 20 by
/// the [`LETTERS`], the last eight digits of it.
pub fn of_challenge(challenge: &str) -> String {
    let hash = Sha256::digest(format!("mcpindex login code\n{challenge}"));
    let mut rest = hash
        .iter()
        .take(5)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let mut letters = ['B'; OF_CHALLENGE];
    for letter in letters.iter_mut().rev() {
        *letter = char::from(LETTERS[(rest % 20) as usize]);
        rest /= 20;
    }
    grouped(&letters.iter().collect::<String>())
}

/// As it is shown: a hyphen after each four letters.
pub fn grouped(letters: &str) -> String {
    let mut text = String::with_capacity(letters.len() + letters.len() / GROUP);
    for (place, letter) in letters.chars().enumerate() {
        if place > 0 && place % GROUP == 0 {
            text.push('-');
        }
        text.push(letter);
    }
    text
}

/// The letters of a code of `count` as somebody typed it, in upper case: whatever stands between them does not matter. `None`
/// when it is no such code.
pub fn typed(text: &str, count: usize) -> Option<String> {
    let letters: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(count + 1)
        .map(|letter| letter.to_ascii_uppercase())
        .collect();
    let is_code = letters.len() == count && letters.bytes().all(|letter| LETTERS.contains(&letter));
    is_code.then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_text_is_of_its_alphabet_and_of_its_length() {
        for count in [0, 1, 8, 64, 65, 1_000] {
            let text = drawn(LETTERS, count).unwrap();
            assert_eq!(text.len(), count);
            assert!(text.bytes().all(|letter| LETTERS.contains(&letter)), "{text}");
        }
        assert_eq!(drawn(b"x", 3).unwrap(), "xxx");
        assert_ne!(drawn(LETTERS, 100).unwrap(), drawn(LETTERS, 100).unwrap());
        let long = drawn(LETTERS, 10_000).unwrap();
        assert!(
            LETTERS.iter().all(|letter| long.contains(char::from(*letter))),
            "every letter comes up"
        );
    }

    #[test]
    fn both_sides_make_the_same_code_of_a_challenge() {
        // RFC 7636, appendix B; the code was computed by another program.
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(of_challenge(challenge), "PGQZ-HBBK");
        // The same, by another way: the 40 bits digit by digit.
        let hash = Sha256::digest(format!("mcpindex login code\n{challenge}"));
        let mut eight = [0_u8; 8];
        eight[3..].copy_from_slice(&hash[..5]);
        let number = u64::from_be_bytes(eight);
        let digit = |place: u32| char::from(LETTERS[(number / 20_u64.pow(place) % 20) as usize]);
        let letters: String = (0..8).rev().map(digit).collect();
        assert_eq!(of_challenge(challenge), grouped(&letters));
    }

    #[test]
    fn a_code_is_shown_in_groups_of_four() {
        let check = |letters: &str, expected: &str| assert_eq!(grouped(letters), expected);
        check("", "");
        check("BCDF", "BCDF");
        check("BCDFG", "BCDF-G");
        check("WDJBMJHT", "WDJB-MJHT");
        check("BCDFGHJKLMNPQRST", "BCDF-GHJK-LMNP-QRST");
    }

    #[test]
    fn a_typed_code_is_read_however_it_is_written() {
        for text in [
            "WDJB-MJHT",
            "wdjbmjht",
            " wdjb mjht ",
            "W-D-J-B-M-J-H-T",
            "WDJB–MJHT",
            "`WDJB-MJHT`",
        ] {
            assert_eq!(typed(text, 8).as_deref(), Some("WDJBMJHT"), "{text}");
        }
        for text in [
            "",
            "WDJB-MJH",
            "WDJB-MJHTT",
            "WDJB-MJHA",
            "WDJB-MJH1",
            "ÄÖÜß",
            &"B".repeat(100_000),
        ] {
            assert_eq!(typed(text, 8), None, "{text}");
        }
        let code = drawn(LETTERS, 16).unwrap();
        assert_eq!(typed(&grouped(&code), 16), Some(code));
    }
}
