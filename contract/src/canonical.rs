//! RFC 8785 (JSON Canonicalization Scheme) bytes: the one text that every digest of ours covers.
//!
//! Invariant: two values that RFC 8785 calls the same give the same bytes; a value that it can't carry
//! exactly gives a named [`NoDigest`] reason and never an approximation.

use crate::digest::NoDigest;
use crate::json::{Text, Value, plain_end, push_token};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The deepest nesting that has a digest (the value itself is level 0, its members 1), from the lock format.
pub const MAX_DIGEST_DEPTH: usize = 512;

/// From here on, not every whole number is a double.
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;

/// The canonical text of `value`. `skip_member` leaves one top-level member out (`_meta`).
///
/// The caller has refused flawed documents before: duplicates here would be written twice.
pub fn canonical(value: &Value, skip_member: Option<&str>) -> Result<String, NoDigest> {
    canonical_at(value, skip_member, 0, 0)
}

/// Whether RFC 8785 calls two values the same; where it can't carry a part exactly, both must have written that part
/// alike.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let canonical = |sent: &str| {
                let mut text = String::new();
                write_number(&mut text, sent).then_some(text)
            };
            one == other || canonical(one.text()).is_some_and(|text| canonical(other.text()) == Some(text))
        }
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| same(one, other))
        }
        (Value::Object(ones), Value::Object(others)) => same_members(ones, others),
        (one, other) => one == other,
    }
}

fn same_members(ones: &[(String, Value)], others: &[(String, Value)]) -> bool {
    if ones.len() != others.len() {
        return false;
    }
    let pairs = || ones.iter().zip(others);
    if pairs().all(|((one, _), (other, _))| one == other) {
        return pairs().all(|((_, one), (_, other))| same(one, other));
    }
    // In another order. A name that is there twice makes the order count.
    let (by_name, by_other_name) = (by_name(ones), by_name(others));
    by_name.len() == ones.len()
        && by_other_name.len() == others.len()
        && by_name
            .iter()
            .zip(&by_other_name)
            .all(|((name, one), (other_name, other))| name == other_name && same(one, other))
}

fn by_name(members: &[(String, Value)]) -> BTreeMap<&str, &Value> {
    members
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

/// The canonical text of a value that stands at `level`, of about `size` bytes.
pub(crate) fn canonical_at<'t, S: Text<'t>>(
    value: &Value<S>,
    skip_member: Option<&str>,
    level: usize,
    size: usize,
) -> Result<String, NoDigest> {
    let mut text = String::with_capacity(size);
    let mut open: Vec<Open<'_, S>> = Vec::with_capacity(16);
    // The members of all open objects, each object's in the order to write them.
    let mut order: Vec<Place> = Vec::with_capacity(32);
    let mut due = value;
    loop {
        if level + open.len() > MAX_DIGEST_DEPTH {
            return Err(NoDigest::TooDeep);
        }
        match due {
            Value::Null => text.push_str("null"),
            Value::Bool(true) => text.push_str("true"),
            Value::Bool(false) => text.push_str("false"),
            Value::String(string) => write_text(&mut text, string),
            Value::Number(number) => {
                if !write_number(&mut text, number.text()) {
                    return Err(NoDigest::NumberOutOfRange {
                        pointer: pointer(&open, &order),
                    });
                }
            }
            Value::Array(items) => {
                text.push('[');
                open.push(Open::Array { items, next: 0 });
            }
            Value::Object(members) => {
                text.push('{');
                let start = order.len();
                let skipped = if open.is_empty() { skip_member } else { None };
                for (index, (name, _)) in members.iter().enumerate() {
                    if Some(name.as_ref()) != skipped {
                        order.push((utf16_prefix(name.as_ref().as_bytes()), index));
                    }
                }
                let name = |place: &Place| members[place.1].0.as_ref().as_bytes();
                order[start..].sort_unstable_by(|left, right| {
                    let by_prefix = left.0.cmp(&right.0);
                    by_prefix.then_with(|| utf16_order(name(left), name(right)))
                });
                open.push(Open::Object {
                    members,
                    start,
                    next: start,
                });
            }
        }
        due = loop {
            match open.last_mut() {
                None => return Ok(text),
                Some(Open::Array { items, next }) => {
                    if let Some(item) = items.get(*next) {
                        if *next > 0 {
                            text.push(',');
                        }
                        *next += 1;
                        break item;
                    }
                    text.push(']');
                }
                Some(Open::Object { members, start, next }) => {
                    if let Some(&(_, index)) = order.get(*next) {
                        if next > start {
                            text.push(',');
                        }
                        *next += 1;
                        let (name, value) = &members[index];
                        write_text(&mut text, name);
                        text.push(':');
                        break value;
                    }
                    order.truncate(*start);
                    text.push('}');
                }
            }
            open.pop();
        };
    }
}

/// A member's index in its object, with the start of its name by which most are told apart.
type Place = (u64, usize);

/// A container that is being written, with what comes next in it.
enum Open<'v, S> {
    Array {
        items: &'v [Value<S>],
        next: usize,
    },
    Object {
        members: &'v [(S, Value<S>)],
        start: usize,
        next: usize,
    },
}

/// The pointer of the value being written.
fn pointer<S: AsRef<str>>(open: &[Open<'_, S>], order: &[Place]) -> String {
    let mut pointer = String::new();
    for container in open {
        match container {
            Open::Array { next, .. } => push_token(&mut pointer, &(next - 1).to_string()),
            Open::Object { members, next, .. } => {
                push_token(&mut pointer, members[order[next - 1].1].0.as_ref());
            }
        }
    }
    pointer
}

fn write_text<'t, S: Text<'t>>(text: &mut String, string: &S) {
    match string.canonical() {
        Some(canonical) => {
            text.push('"');
            text.push_str(canonical);
            text.push('"');
        }
        None => write_string(text, string.as_ref()),
    }
}

/// Writes a string with no more escapes than JSON asks for, in RFC 8785's form.
pub(crate) fn write_string(text: &mut String, string: &str) {
    let bytes = string.as_bytes();
    text.push('"');
    let mut start = 0;
    loop {
        let end = plain_end(bytes, start);
        text.push_str(&string[start..end]);
        let Some(&byte) = bytes.get(end) else {
            break;
        };
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x08 => text.push_str("\\b"),
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            0x0C => text.push_str("\\f"),
            b'\r' => text.push_str("\\r"),
            control => {
                text.push_str("\\u00");
                text.push(if control < 0x10 { '0' } else { '1' });
                text.push(char::from(b"0123456789abcdef"[usize::from(control & 0x0F)]));
            }
        }
        start = end + 1;
    }
    text.push('"');
}

/// Writes a number as ECMAScript does; false when it is out of range.
fn write_number(text: &mut String, sent: &str) -> bool {
    // Whole numbers of up to 15 digits are written as sent; nearly all are such.
    if sent.len() <= 15 && sent.bytes().all(|byte| byte.is_ascii_digit()) {
        text.push_str(sent);
        return true;
    }
    match sent.parse::<f64>() {
        Ok(number) if number.abs() < TWO_TO_53 => {
            text.push_str(ryu_js::Buffer::new().format_finite(number));
            true
        }
        _ => false,
    }
}

/// The order of two UTF-8 texts by their UTF-16 code units. It is the order of their bytes, but that
/// U+E000 to U+FFFF (first byte EE or EF) comes after everything beyond U+FFFF (first byte F0 or more).
fn utf16_order(left: &[u8], right: &[u8]) -> Ordering {
    let left = left.iter().copied().map(utf16_rank);
    left.cmp(right.iter().copied().map(utf16_rank))
}

/// Where a byte of UTF-8 stands among others in that order.
fn utf16_rank(byte: u8) -> u8 {
    match byte {
        0xEE | 0xEF => byte + 0x10,
        other => other,
    }
}

/// The ranks of the first eight bytes as one number, so that one comparison does for most names.
fn utf16_prefix(name: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    for (rank, &byte) in prefix.iter_mut().zip(name) {
        *rank = utf16_rank(byte);
    }
    u64::from_be_bytes(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    #[test]
    fn values_are_the_same_where_their_canonical_texts_are() {
        let values = [
            "1",
            "1.0",
            "10e-1",
            "-0",
            "0",
            r#""1""#,
            "null",
            "[]",
            "[1,2]",
            "[1,2.0]",
            "[2,1]",
            "{}",
            r#"{"a":1,"b":[{}]}"#,
            r#"{"b":[{}],"a":1.0}"#,
            r#"{"b":[{}],"a":2}"#,
            r#"{"b":[{}],"c":1}"#,
            r#"{"a":1}"#,
        ]
        .map(|text| read(text).unwrap().value);
        for one in &values {
            for other in &values {
                let texts = [one, other].map(|value| canonical(value, None).unwrap());
                assert_eq!(same(one, other), texts[0] == texts[1], "{texts:?}");
            }
        }
    }

    #[test]
    fn what_has_no_canonical_text_is_the_same_only_as_written() {
        let check = |one: &str, other: &str, expected: bool| {
            let [one, other] = [one, other].map(|text| read(text).unwrap().value);
            assert_eq!(same(&one, &other), expected, "{one:?} {other:?}");
        };
        check("1e400", "1e400", true);
        check("1e400", "10e399", false);
        check(r#"{"x":1e400,"y":1}"#, r#"{"y":1.0,"x":1e400}"#, true);
        check(r#"{"a":1,"a":2}"#, r#"{"a":1.0,"a":2}"#, true);
        check(r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false);
        check(r#"{"a":1,"a":1,"b":2}"#, r#"{"b":2,"a":1,"a":1}"#, false);
        check(r#"{"a":1,"a":1}"#, r#"{"a":1,"b":1}"#, false);
    }
}
