//! How large a pair of schemas may be before it is not compared at all.
//!
//! Invariant: the look at the size itself ends at the limit, however large the schemas are.

use crate::json::Value;

/// The most values of two schemas together that are compared: every object, list, text, number and word counts as one.
const MAX_VALUES: usize = 60_000;
/// The most bytes of names, texts and numbers of two schemas together that are compared.
const MAX_TEXT: usize = 1 << 20;

/// Whether two schemas together are past the limits.
pub(super) fn is_over_limit(before: &Value, after: &Value) -> bool {
    let (mut values, mut bytes) = (0, 0);
    let mut open = vec![before, after];
    while let Some(value) = open.pop() {
        values += 1;
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => bytes += number.text().len(),
            Value::String(text) => bytes += text.len(),
            Value::Array(items) if values + open.len() + items.len() > MAX_VALUES => return true,
            Value::Array(items) => open.extend(items),
            Value::Object(members) if values + open.len() + members.len() > MAX_VALUES => return true,
            Value::Object(members) => {
                bytes += members.iter().map(|(name, _)| name.len()).sum::<usize>();
                open.extend(members.iter().map(|(_, value)| value));
            }
        }
        if bytes > MAX_TEXT {
            return true;
        }
    }
    false
}
