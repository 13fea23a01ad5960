//! Pairs of schemas with what the comparison says about them, keyword by keyword and as real servers changed them.

use mcpindex_contract::json::{Value, read};
use mcpindex_contract::schema::{Acceptance, Comparison, compare_input, compare_output};

fn schema(text: &str) -> Value {
    read(text).unwrap().value
}

fn told(comparison: &Comparison) -> String {
    let mut told = format!("{:?}", comparison.acceptance).to_lowercase();
    for one in &comparison.differences {
        told.push_str(&format!("\n{} {}", one.kind.name(), one.pointer));
        if let Some(witness) = &one.witness {
            let witness: serde_json::Value = serde_json::from_str(&witness.to_pretty()).unwrap();
            told.push_str(&format!(" {witness}"));
        }
        if let Some(rule) = one.rule {
            told.push_str(&format!(" by {rule}"));
        }
    }
    told
}

/// Compares two schemas of arguments.
#[track_caller]
fn check(before: &str, after: &str, expected: &str) {
    let comparison = compare_input(&schema(before), &schema(after));
    let expected: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(told(&comparison), expected.join("\n"), "\n{before}\n{after}");
}

/// Compares two schemas of one argument, `a`.
#[track_caller]
fn check_argument(before: &str, after: &str, expected: &str) {
    let whole = |argument: &str| format!(r#"{{"type":"object","properties":{{"a":{argument}}}}}"#);
    check(&whole(before), &whole(after), expected);
}

#[test]
fn smoke() {
    let pairs = [
        (
            r#"{"type":"integer","exclusiveMaximum":1000000,"exclusiveMinimum":0}"#,
            r#"{"type":"integer","minimum":1,"maximum":999999}"#,
        ),
        (
            r#"{"type":"string","enum":["off","strict"]}"#,
            r#"{"anyOf":[{"const":"off"},{"const":"strict"}]}"#,
        ),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}"#,
            r#"{"type":"string","default":null}"#,
        ),
        (r#"{"type":"string"}"#, r#"{"type":["string","null"]}"#),
        (
            r#"{"type":"string"}"#,
            r#"{"type":"array","items":{"type":"string"}}"#,
        ),
        (r#"{"type":"number"}"#, r#"{"type":"number","minimum":1}"#),
        (
            r#"{"type":"array","items":{}}"#,
            r#"{"type":"array","items":{"type":"string"}}"#,
        ),
        (r#"{"type":"string"}"#, r#"{"type":"string","pattern":"^a"}"#),
        (r#"{"type":"string","format":"uri"}"#, r#"{"type":"string"}"#),
        (r#"{"type":"string"}"#, r#"{"type":"string","format":"uri"}"#),
        (r#"{"type":"string","title":"A"}"#, r#"{"type":"string"}"#),
        (
            r#"{"type":"object","properties":{"x":{"type":"string"}}}"#,
            r#"{"type":"object"}"#,
        ),
        (
            r#"{"type":"object","properties":{"x":{"type":"string"}}}"#,
            r#"{"type":"object","properties":{"y":{"type":"string"}},"required":["y"]}"#,
        ),
    ];
    for (before, after) in pairs {
        let whole =
            |argument: &str| schema(&format!(r#"{{"type":"object","properties":{{"a":{argument}}}}}"#));
        panic_free(before, after, &compare_input(&whole(before), &whole(after)));
    }
}

fn panic_free(before: &str, after: &str, comparison: &Comparison) {
    use std::io::Write;
    writeln!(std::io::stderr(), "{before}\n{after}\n => {}\n", told(comparison)).unwrap();
}
