//! Which ids are one id: by type and value, whatever their spelling.
//!
//! Invariant: two ids are equal here exactly when every reader that keeps type and value takes them for one; `1`, `1.0` and
//! `1e0` are one, `"1"` is another.

use crate::wire::message::{MAX_REQUEST_ID_BYTES, string};

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Id {
    /// `null`.
    Null,
    /// A whole number of at most 15 digits.
    Integer(i64),
    /// Any other number: sign, digits and exponent of ten.
    Number(String),
    /// A string, unescaped.
    Text(String),
}

/// The digits of a whole number that every reader keeps.
const EXACT_DIGITS: usize = 15;

impl Id {
    /// Reads an id from its JSON text; `None` for one that is no id, holds half a surrogate pair, or is longer than an id is.
    pub(super) fn read(text: &str) -> Option<Id> {
        if text.len() > MAX_REQUEST_ID_BYTES {
            return None;
        }
        match text.as_bytes().first()? {
            b'"' => string(text).map(|text| Id::Text(text.into_owned())),
            b'n' => Some(Id::Null),
            b'-' | b'0'..=b'9' => Some(number(text)),
            _ => None,
        }
    }
}

/// A number of JSON's grammar by its value.
fn number(text: &str) -> Id {
    if text.len() <= EXACT_DIGITS
        && let Ok(integer) = text.parse()
    {
        // As nearly everybody spells it; a client has many in flight.
        return Id::Integer(integer);
    }
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = match magnitude.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()),
        None => (magnitude, Some(0)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Id::Integer(0);
    }
    let Some(exponent) = exponent else {
        // An exponent past all reason: known by how it is spelt.
        return Id::Number(text.to_owned());
    };
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let exponent = i64::from(exponent) + length(trailing) - length(fraction.len());
    if let Ok(zeros) = usize::try_from(exponent)
        && significant.len().saturating_add(zeros) <= EXACT_DIGITS
        && let Ok(integer) = format!("{sign}{significant}{}", "0".repeat(zeros)).parse()
    {
        return Id::Integer(integer);
    }
    Id::Number(format!("{sign}{significant}e{exponent}"))
}

/// A length of some part of an id, which is at most [`MAX_REQUEST_ID_BYTES`].
fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn one_value_is_one_id_however_it_is_spelt() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "1e0"),
            ("1", "10E-1"),
            ("100", "1e2"),
            ("0", "-0.0e7"),
            ("-5", "-5.000"),
            ("0.5", "5e-1"),
            ("12345678901234567890", "1.2345678901234567890e19"),
            (r#""a""#, r#""\u0061""#),
        ] {
            assert_eq!(Id::read(one), Id::read(other), "{one} and {other}");
            assert!(Id::read(one).is_some(), "{one}");
        }
    }

    #[test]
    fn another_type_or_value_is_another_id() {
        let ids = [
            "1",
            r#""1""#,
            "null",
            r#""null""#,
            "-1",
            "1.5",
            "10",
            "12345678901234567890",
            "12345678901234567891",
            "1e99999999999",
            "1e5000",
            r#""""#,
        ];
        for (place, one) in ids.iter().enumerate() {
            for other in &ids[place + 1..] {
                assert_ne!(Id::read(one), Id::read(other), "{one} and {other}");
            }
        }
    }

    #[test]
    fn what_is_no_id_is_none() {
        for text in ["{}", "[1]", "true", r#""\ud800""#, ""] {
            assert_eq!(Id::read(text), None, "{text}");
        }
        assert_eq!(Id::read(&format!("\"{}\"", "x".repeat(2_000))), None);
    }
}
