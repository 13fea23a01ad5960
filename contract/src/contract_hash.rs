//! The published clients' contract hash, only to understand and to answer them.
//!
//! It covers `{name, description, input_schema}` alone, by byte rules of its own (floats as `%.17e` strings,
//! NFC, ASCII escapes, keys by code point, of duplicate members the last). Nothing of ours is keyed by it.
//!
//! Invariant: the bytes are those of the published Python client 0.22; where it refuses to hash, so do we.

use crate::definition::Definition;
use crate::digest::Digest;
use crate::json::{self, Value, code_points};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unicode_normalization::UnicodeNormalization as _;

/// The deepest level that is hashed; the preimage object is level 0, and scalars count too.
const MAX_LEVEL: usize = 64;

/// Why a definition has no contract hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoContractHash {
    /// Nested deeper than 64 levels below the preimage object.
    #[error("nested deeper than 64 levels")]
    TooDeep,
    /// A number that is not finite as a double.
    #[error("a number is not finite")]
    NotFinite,
    /// The definition is not an object with a string name, or its description is neither a string nor `null`.
    #[error("not a tool: no object with a string name and, if any, a string description")]
    NotATool,
}

/// `sha256:<64 hex>` as the published clients compute it.
pub fn contract_hash(tool: &Definition) -> Result<String, NoContractHash> {
    Ok(Digest::of_canonical(&preimage(tool.text())?).to_string())
}

/// The bytes that the hash covers, from the tool's text: ASCII throughout.
fn preimage(tool: &str) -> Result<String, NoContractHash> {
    // Read again from the text, since half a surrogate pair is hashed here as what it was.
    let tool = json::read_keeping_surrogates(tool).map_err(|_| NoContractHash::NotATool)?;
    let Value::Object(members) = &tool else {
        return Err(NoContractHash::NotATool);
    };
    let last = |wanted: &str| {
        let member = members.iter().rev().find(|(name, _)| name == wanted);
        member.map(|(_, value)| value)
    };
    let Some(name @ Value::String(_)) = last("name") else {
        return Err(NoContractHash::NotATool);
    };
    let no_description = Value::String(String::new());
    let description = match last("description") {
        None | Some(Value::Null) => &no_description,
        Some(description @ Value::String(_)) => description,
        Some(_) => return Err(NoContractHash::NotATool),
    };
    let no_schema = Value::Object(Vec::new());
    let input_schema = match last("inputSchema") {
        Some(schema @ Value::Object(_)) => schema,
        _ => &no_schema,
    };

    let mut text = String::from("{\"description\":");
    write_value(&mut text, description, 1)?;
    text.push_str(",\"input_schema\":");
    write_value(&mut text, input_schema, 1)?;
    text.push_str(",\"name\":");
    write_value(&mut text, name, 1)?;
    text.push('}');
    Ok(text)
}

/// Recursion is bounded by [`MAX_LEVEL`].
fn write_value(text: &mut String, value: &Value, level: usize) -> Result<(), NoContractHash> {
    if level > MAX_LEVEL {
        return Err(NoContractHash::TooDeep);
    }
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number.text())?,
        Value::String(string) => {
            let normal: String = string.nfc().collect();
            if normal.starts_with('\0') || looks_like_a_float(&normal) {
                write_ascii(text, &format!("\0{normal}"));
            } else {
                write_ascii(text, &normal);
            }
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_value(text, item, level + 1)?;
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, (name, value)) in hashed_members(members).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_ascii(text, &name);
                text.push(':');
                write_value(text, value, level + 1)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

/// The members as hashed: of duplicates the last; names in NFC, unless two of them would then be the same,
/// which keep their own; in the order of their code points.
fn hashed_members(members: &[(String, Value)]) -> Vec<(String, &Value)> {
    let last_of_each: BTreeMap<&str, &Value> = members
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let mut groups: BTreeMap<String, Vec<(&str, &Value)>> = BTreeMap::new();
    for (name, value) in last_of_each {
        let normal = name.nfc().collect();
        groups.entry(normal).or_default().push((name, value));
    }
    let mut hashed: Vec<(String, &Value)> = Vec::with_capacity(members.len());
    for (normal, group) in groups {
        if let [(_, value)] = group[..] {
            hashed.push((normal, value));
        } else {
            hashed.extend(group.iter().map(|&(name, value)| (name.to_owned(), value)));
        }
    }
    hashed.sort_by(|(left, _), (right, _)| code_points(left).cmp(code_points(right)));
    hashed
}

/// A whole number is its digits; one with a point or an exponent is a string in C's `%.17e`.
fn write_number(text: &mut String, sent: &str) -> Result<(), NoContractHash> {
    if !sent.contains(['.', 'e', 'E']) {
        text.push_str(if sent == "-0" { "0" } else { sent });
        return Ok(());
    }
    let number: f64 = sent.parse().map_err(|_| NoContractHash::NotFinite)?;
    if !number.is_finite() {
        return Err(NoContractHash::NotFinite);
    }
    // Adding zero makes zero of minus zero and leaves every other number as it is.
    let rust_form = format!("{:.17e}", number + 0.0);
    let (digits, exponent) = rust_form.split_once('e').unwrap_or((&rust_form, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    text.push_str(&format!("\"{digits}e{sign}{exponent:0>2}\""));
    Ok(())
}

/// Whether a string is what a float would be written as: `-?[0-9]\.[0-9]{17}e[+-][0-9]{2,}`.
fn looks_like_a_float(text: &str) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let Some((mantissa, exponent)) = unsigned.split_once('e') else {
        return false;
    };
    let Some((whole, fraction)) = mantissa.split_once('.') else {
        return false;
    };
    let Some(exponent) = exponent.strip_prefix(['+', '-']) else {
        return false;
    };
    (whole.len() == 1 && is_digits(whole))
        && (fraction.len() == 17 && is_digits(fraction))
        && (exponent.len() >= 2 && is_digits(exponent))
}

/// Writes a string with everything but printable ASCII escaped, in UTF-16 code units.
fn write_ascii(text: &mut String, string: &str) {
    text.push('"');
    for code_point in code_points(string) {
        match code_point {
            0x22 => text.push_str("\\\""),
            0x5C => text.push_str("\\\\"),
            0x08 => text.push_str("\\b"),
            0x09 => text.push_str("\\t"),
            0x0A => text.push_str("\\n"),
            0x0C => text.push_str("\\f"),
            0x0D => text.push_str("\\r"),
            0x20..=0x7E => text.extend(char::from_u32(code_point)),
            0x1_0000.. => {
                let offset = code_point - 0x1_0000;
                write_unit(text, 0xD800 + (offset >> 10));
                write_unit(text, 0xDC00 + (offset & 0x3FF));
            }
            unit => write_unit(text, unit),
        }
    }
    text.push('"');
}

fn write_unit(text: &mut String, unit: u32) {
    // Writing to a String can't fail.
    let _ = write!(text, "\\u{unit:04x}");
}
