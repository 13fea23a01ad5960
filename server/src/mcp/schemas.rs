//! JSON Schema of the API's own shapes, so that a tool says what it takes and gives in the same words as the API's description.
//!
//! Invariant: a schema stands alone: what it refers to is in its own `$defs`, and its root is an object's.

use rmcp::model::JsonObject;
use serde_json::{Map, Value};
use utoipa::ToSchema;

const IN_OPENAPI: &str = "#/components/schemas/";
const HERE: &str = "#/$defs/";

/// The schema of a shape.
pub(super) fn of<T: ToSchema>() -> JsonObject {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let mut schema = written(&T::schema());
    let definitions: Map<String, Value> = named
        .iter()
        .map(|(name, schema)| (name.clone(), Value::Object(written(schema))))
        .collect();
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

/// As JSON, with references that stay within it.
fn written(schema: &impl serde::Serialize) -> JsonObject {
    // A type of ours always has a JSON form.
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    stay_here(&mut value);
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

fn stay_here(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(reference) if name == "$ref" => {
                        *reference = reference.replace(IN_OPENAPI, HERE);
                    }
                    member => stay_here(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(stay_here),
        _ => {}
    }
}
