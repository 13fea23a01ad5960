//! What an entry asks of whoever starts a server: values, defaults, variables in `{braces}`, what is required and what is secret.
//!
//! Invariant: a value that an entry calls secret leaves here under no circumstances; what is missing is told by name alone; and no
//! text grows past [`MAX_FILLED`] by what is filled in.

use mcpindex::visible::visible_within;
use mcpindex_contract::identity::Identity;
use serde_json::Value;

/// Bytes of a value, an argument or a URL with its variables filled in.
pub const MAX_FILLED: usize = 8 << 10;
/// Arguments of one package.
pub const MAX_ARGUMENTS: usize = 64;
/// Characters of the name of something that is missing.
const MAX_LABEL: usize = 100;

/// A member by its name in camelCase, or in the snake_case of older entries; `null` is none.
pub(super) fn member<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    let there = |name: &str| object.get(name).filter(|value| !value.is_null());
    there(name).or_else(|| {
        let mut snake = String::with_capacity(name.len() + 4);
        for character in name.chars() {
            if character.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(character.to_ascii_lowercase());
        }
        there(&snake)
    })
}

/// A member that is a text; an empty one says nothing.
pub(super) fn text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    member(object, name)?.as_str().filter(|text| !text.is_empty())
}

/// A member that is a list; none is an empty one.
pub(super) fn list<'v>(object: &'v Value, name: &str) -> Result<&'v [Value], String> {
    match member(object, name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("its `{name}` is no list")),
    }
}

/// What becomes of one input.
pub(super) enum Filled {
    /// It has this value.
    Value(String),
    /// It has none, and needs none.
    Nothing,
    /// A person has to give these first.
    Missing(Vec<String>),
}

/// Fills one input in: its value, else its default, with the variables of either.
pub(super) fn fill(input: &Value, label: &str) -> Result<Filled, String> {
    let is_required = is_true(input, "isRequired");
    let missing = || match is_required {
        true => Filled::Missing(vec![shown_label(label, MAX_LABEL)]),
        false => Filled::Nothing,
    };
    let Some(template) = written(input, "value").or_else(|| written(input, "default")) else {
        return Ok(missing());
    };
    let variables = member(input, "variables");
    let (mut needed, mut open) = (Vec::new(), false);
    let filled = replace(&template, |name| {
        // What is not declared is no variable but text.
        let variable = variables?.get(name)?;
        let value = own_value(variable);
        if value.is_none() {
            open = true;
            if is_true(variable, "isRequired") {
                needed.push(shown_label(name, MAX_LABEL));
            }
        }
        value
    })?;
    Ok(match (needed.is_empty(), open || is_secret(input)) {
        (false, _) => Filled::Missing(needed),
        (true, true) => missing(),
        (true, false) => Filled::Value(filled),
    })
}

/// Fills the variables of a URL in. What stays open is named beside it: unlike a value, a URL is of no use with braces in it, so
/// that each variable without a value counts, declared or not, required or not.
pub(super) fn fill_url(template: &str, variables: Option<&Value>) -> Result<(String, Vec<String>), String> {
    let mut missing = Vec::new();
    let filled = replace(template, |name| {
        let value = variables.and_then(|variables| own_value(variables.get(name)?));
        if value.is_none() {
            missing.push(shown_label(name, MAX_LABEL));
        }
        value
    })?;
    Ok((filled, missing))
}

/// The arguments that need nobody, in their order; what has to be given first goes to `missing`.
pub(super) fn arguments(given: &[Value], missing: &mut Vec<String>) -> Result<Vec<String>, String> {
    if given.len() > MAX_ARGUMENTS {
        return Err(format!("it has more than {MAX_ARGUMENTS} arguments"));
    }
    let mut arguments = Vec::new();
    for (number, argument) in given.iter().enumerate() {
        let name = text(argument, "name");
        let is_named = match text(argument, "type") {
            Some("named") => true,
            Some("positional") => false,
            None if argument.is_object() => name.is_some(),
            _ => return Err(format!("its argument {} is of no known type", number + 1)),
        };
        let flag = match (is_named, name) {
            (true, None) => return Err(format!("its argument {} has no name", number + 1)),
            (true, name) => name,
            (false, _) => None,
        };
        let numbered = format!("argument {}", number + 1);
        let label = name.or(text(argument, "valueHint")).unwrap_or(&numbered);
        match fill(argument, label)? {
            Filled::Value(value) => {
                arguments.extend(flag.map(str::to_owned));
                arguments.push(value);
            }
            Filled::Missing(names) => missing.extend(names),
            Filled::Nothing if is_switch(argument) => arguments.extend(flag.map(str::to_owned)),
            Filled::Nothing => {}
        }
    }
    Ok(arguments)
}

/// A named argument of which nothing says that it takes a value: `--stdio`. Hosts pass such a name on as it is.
fn is_switch(argument: &Value) -> bool {
    let of_inputs = [
        "valueHint",
        "choices",
        "placeholder",
        "format",
        "variables",
        "default",
    ];
    !is_secret(argument) && of_inputs.iter().all(|name| member(argument, name).is_none())
}

/// A name as it can be told: on one line, bounded, and no credential that somebody wrote in the wrong place.
pub(super) fn shown_label(name: &str, limit: usize) -> String {
    let line = ["name".to_owned(), name.to_owned()];
    match Identity::from_launch(&line) {
        Ok(launched) if launched.has_secret => "<secret>".to_owned(),
        _ => visible_within(name, limit),
    }
}

/// What a variable is replaced by when nobody is asked.
fn own_value(variable: &Value) -> Option<String> {
    if is_secret(variable) {
        return None;
    }
    written(variable, "value").or_else(|| written(variable, "default"))
}

/// A value as a command line has it: booleans and numbers too are written by some.
fn written(input: &Value, name: &str) -> Option<String> {
    match member(input, name)? {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        scalar @ (Value::Bool(_) | Value::Number(_)) => Some(scalar.to_string()),
        _ => None,
    }
}

/// Whatever is not clearly no secret is one.
fn is_secret(input: &Value) -> bool {
    match member(input, "isSecret") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.eq_ignore_ascii_case("false"),
        Some(_) => true,
    }
}

fn is_true(input: &Value, name: &str) -> bool {
    match member(input, name) {
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        Some(value) => value == &Value::Bool(true),
        None => false,
    }
}

/// The text with each `{name}` replaced by its value, where there is one. What was filled in is not looked through again.
fn replace(template: &str, mut value: impl FnMut(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let (before, braced) = rest.split_at(start);
        filled.push_str(before);
        let name = braced[1..]
            .find(['{', '}'])
            .filter(|end| *end > 0 && braced[1 + end..].starts_with('}'))
            .map(|end| &braced[1..=end]);
        let end = name.map_or(1, |name| name.len() + 2);
        match name.and_then(&mut value) {
            Some(value) => filled.push_str(&value),
            None => filled.push_str(&braced[..end]),
        }
        rest = &braced[end..];
        if filled.len() > MAX_FILLED {
            break;
        }
    }
    if filled.len() + rest.len() > MAX_FILLED {
        return Err(format!("a value of it is longer than {} KiB", MAX_FILLED >> 10));
    }
    filled.push_str(rest);
    Ok(filled)
}
