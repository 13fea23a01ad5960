//! Indented text of a value, for people.
//!
//! Invariant: it says exactly what the value says (numbers as sent, members in the order sent, duplicates
//! included), whatever the depth, without recursion, and its length is bounded by a multiple of the text's:
//! indentation grows with depth, and a server could otherwise send a small text that is shown as a huge one.

use super::Value;
use crate::canonical::write_string;

/// What nests deeper is written on the line of what holds it.
const MAX_INDENTED_DEPTH: usize = 32;

enum Open<'v> {
    Array(std::slice::Iter<'v, Value>),
    Object(std::slice::Iter<'v, (String, Value)>),
}

/// Two spaces a level, down to [`MAX_INDENTED_DEPTH`]; empty arrays and objects stay on one line.
pub(super) fn pretty(value: &Value) -> String {
    let mut text = String::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut due = value;
    loop {
        let mut is_first = false;
        match due {
            Value::Null => text.push_str("null"),
            Value::Bool(true) => text.push_str("true"),
            Value::Bool(false) => text.push_str("false"),
            Value::Number(number) => text.push_str(number.text()),
            Value::String(string) => write_string(&mut text, string),
            Value::Array(items) if items.is_empty() => text.push_str("[]"),
            Value::Object(members) if members.is_empty() => text.push_str("{}"),
            Value::Array(items) => {
                text.push('[');
                open.push(Open::Array(items.iter()));
                is_first = true;
            }
            Value::Object(members) => {
                text.push('{');
                open.push(Open::Object(members.iter()));
                is_first = true;
            }
        }
        due = loop {
            let depth = open.len();
            let (next, close) = match open.last_mut() {
                None => return text,
                Some(Open::Array(items)) => (items.next().map(|item| (None, item)), ']'),
                Some(Open::Object(members)) => {
                    let next = members.next();
                    (next.map(|(name, value)| (Some(name), value)), '}')
                }
            };
            let Some((name, value)) = next else {
                open.pop();
                new_line(&mut text, depth, depth - 1);
                text.push(close);
                is_first = false;
                continue;
            };
            if !is_first {
                text.push(',');
            }
            new_line(&mut text, depth, depth);
            if let Some(name) = name {
                write_string(&mut text, name);
                text.push_str(": ");
            }
            break value;
        };
    }
}

/// Begins a line inside the innermost of `open` containers, indented to `depth`.
fn new_line(text: &mut String, open: usize, depth: usize) {
    if open > MAX_INDENTED_DEPTH {
        return;
    }
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}
