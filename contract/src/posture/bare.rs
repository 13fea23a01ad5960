//! Whether a schema carries names and types only, or prose as well.
//!
//! Invariant: a string of a schema is prose unless a rule here says what else it is; so a keyword that nobody knows can't
//! carry text past.

use crate::json::{Value, push_token};

/// The longest name that is no text.
const MAX_NAME: usize = 64;
/// The deepest schema that is looked through; below, nothing is called bare.
const MAX_DEPTH: usize = 64;

/// The pointer of the first text in this schema that is more than a name or a type.
pub(super) fn prose(schema: &Value) -> Option<String> {
    let mut place = String::new();
    prose_in(schema, Role::Schema, None, 0, &mut place).then_some(place)
}

/// What a value is, by where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A schema: its members are keywords.
    Schema,
    /// An object whose members are named by the author: `properties`, `$defs`.
    Named,
    /// A list of names or constants: `required`, `enum`.
    Names,
    /// A word of the specification or a reference: `type`, `format`, `$ref`.
    Word,
    /// The title of what `name` names.
    Title,
    /// Anything else.
    Other,
}

/// Whether there is prose in `value`; then `place` leads to it.
fn prose_in(value: &Value, role: Role, name: Option<&str>, depth: usize, place: &mut String) -> bool {
    if depth > MAX_DEPTH {
        return true;
    }
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => match role {
            Role::Title => !is_name_of(text, name),
            Role::Names => !is_name(text),
            Role::Word => text.contains(char::is_whitespace) || text.len() > 4 * MAX_NAME,
            Role::Schema | Role::Named | Role::Other => !text.is_empty(),
        },
        Value::Array(items) => items.iter().enumerate().any(|(index, item)| {
            descend(place, &index.to_string(), |place| {
                prose_in(item, role, None, depth + 1, place)
            })
        }),
        Value::Object(members) => members.iter().any(|(key, member)| {
            descend(place, key, |place| {
                let inner = match role {
                    Role::Schema => keyword(key),
                    Role::Named => Role::Schema,
                    Role::Names | Role::Word | Role::Title | Role::Other => Role::Other,
                };
                let name = match role {
                    Role::Named => Some(key.as_str()),
                    // A title stands beside the keywords of the schema that it names.
                    _ => name,
                };
                !is_name(key) || prose_in(member, inner, name, depth + 1, place)
            })
        }),
    }
}

/// Runs `inner` with one token more on `place`; keeps it only when prose was found there.
fn descend(place: &mut String, token: &str, inner: impl FnOnce(&mut String) -> bool) -> bool {
    let length = place.len();
    push_token(place, token);
    let found = inner(place);
    if !found {
        place.truncate(length);
    }
    found
}

/// What the value of a keyword is.
fn keyword(key: &str) -> Role {
    match key {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => Role::Named,
        "required" | "enum" | "const" | "dependentRequired" => Role::Names,
        "type" | "format" | "$ref" | "$schema" | "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor"
        | "contentEncoding" | "contentMediaType" => Role::Word,
        "title" => Role::Title,
        "items"
        | "additionalItems"
        | "prefixItems"
        | "additionalProperties"
        | "propertyNames"
        | "contains"
        | "allOf"
        | "anyOf"
        | "oneOf"
        | "not"
        | "if"
        | "then"
        | "else"
        | "unevaluatedProperties"
        | "unevaluatedItems" => Role::Schema,
        _ => Role::Other,
    }
}

/// A name as programs use them: short, and no words with blanks between.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && !text.contains(char::is_whitespace)
}

/// Whether a title is only the name with other case and separators, or one word or two of its own like `Result`.
fn is_name_of(title: &str, name: Option<&str>) -> bool {
    let letters = |text: &str| -> String {
        text.chars()
            .filter(|character| character.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect()
    };
    let is_recased = name.is_some_and(|name| letters(name) == letters(title));
    is_recased || is_name(title)
}
