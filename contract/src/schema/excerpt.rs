//! Excerpts of schemas for people: a string's own text, anything else indented, cut to a bounded size.
//!
//! Invariant: an excerpt's size is bounded, and so is the work to make it, whatever the value.

use crate::json::Value;

/// The longest excerpt, in bytes.
const MAX_EXCERPT: usize = 2_048;
/// The most nodes of a value that are written out, and how deep.
const MAX_NODES: usize = 200;
const MAX_LEVELS: usize = 16;

/// A value as text for people, cut when long.
pub(super) fn excerpt(value: &Value) -> String {
    let mut text = match value {
        Value::String(text) => text.clone(),
        _ => outline(value).to_pretty(),
    };
    if text.len() > MAX_EXCERPT {
        let end = (0..=MAX_EXCERPT)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The value down to a bounded depth and number of nodes.
fn outline(value: &Value) -> Value {
    fn part(value: &Value, levels: usize, left: &mut usize) -> Value {
        *left = left.saturating_sub(1);
        if levels == 0 || *left == 0 {
            return match value {
                Value::Array(_) | Value::Object(_) => Value::String("…".to_owned()),
                Value::String(text) => Value::String(text.chars().take(MAX_EXCERPT).collect()),
                other => other.clone(),
            };
        }
        match value {
            Value::Array(items) => {
                let mut shown = Vec::new();
                for item in items {
                    if *left == 0 {
                        break;
                    }
                    shown.push(part(item, levels - 1, left));
                }
                Value::Array(shown)
            }
            Value::Object(members) => {
                let mut shown = Vec::new();
                for (name, member) in members {
                    if *left == 0 {
                        break;
                    }
                    shown.push((name.clone(), part(member, levels - 1, left)));
                }
                Value::Object(shown)
            }
            Value::String(text) => Value::String(text.chars().take(MAX_EXCERPT).collect()),
            other => other.clone(),
        }
    }
    let mut left = MAX_NODES;
    part(value, MAX_LEVELS, &mut left)
}
