//! JSON with comments and trailing commas, as hosts read it.

use std::ops::Range;

use jsonc_parser::ast::{ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Fault, Kind, Layout, MAX_DEPTH, Member, Node};

pub(super) fn parse(text: &str) -> Result<Option<Node>, Fault> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| Fault {
        offset: error.range().start,
        problem: lower_first(&error.kind().to_string()),
    })?;
    parsed.value.map(|value| node(&value, 0)).transpose()
}

fn node(value: &Value<'_>, depth: usize) -> Result<Node, Fault> {
    let range = value.range();
    let span = range.start..range.end;
    if depth > MAX_DEPTH {
        return Err(Fault {
            offset: span.start,
            problem: format!("more than {MAX_DEPTH} levels"),
        });
    }
    let kind = match value {
        Value::StringLit(text) => Kind::Text(text.value.to_string()),
        Value::BooleanLit(flag) => Kind::Bool(flag.value),
        Value::NumberLit(_) | Value::NullKeyword(_) => Kind::Other,
        Value::Array(array) => {
            let elements = array
                .elements
                .iter()
                .map(|element| node(element, depth + 1))
                .collect::<Result<_, _>>()?;
            Kind::List(Layout::Flow, elements)
        }
        Value::Object(object) => {
            let members = object
                .properties
                .iter()
                .map(|property| {
                    let (name, name_span) = name(&property.name);
                    let value = node(&property.value, depth + 1)?;
                    Ok(Member {
                        name,
                        name_span,
                        value,
                    })
                })
                .collect::<Result<_, _>>()?;
            Kind::Map(Layout::Flow, members)
        }
    };
    Ok(Node::new(span, kind))
}

fn name(name: &ObjectPropName<'_>) -> (String, Range<usize>) {
    let range = name.range();
    (name.as_str().to_owned(), range.start..range.end)
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(characters).collect()
    })
}
