//! Pairs of schemas with what the comparison says about them, keyword by keyword and as real servers changed them.

use mcpindex_contract::json::{Value, read};
use mcpindex_contract::schema::{Comparison, compare_input, compare_output};

fn schema(text: &str) -> Value {
    read(text).unwrap().value
}

fn told(comparison: &Comparison) -> String {
    let mut told = format!("{:?}", comparison.acceptance).to_lowercase();
    for one in &comparison.differences {
        let place = if one.pointer.is_empty() {
            "(whole)"
        } else {
            &one.pointer
        };
        told.push_str(&format!("\n{} {place}", one.kind.name()));
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

/// Compares two schemas of results.
#[track_caller]
fn check_results(before: &str, after: &str, expected: &str) {
    let comparison = compare_output(&schema(before), &schema(after));
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
fn bounds_are_compared_as_numbers() {
    check_argument(
        r#"{"type":"number"}"#,
        r#"{"type":"number","minimum":1}"#,
        r#"narrower
           constraint-narrowed /properties/a/minimum {"a":0}"#,
    );
    check_argument(
        r#"{"type":"number","minimum":1}"#,
        r#"{"type":"number","minimum":1.0}"#,
        "equal",
    );
    check_argument(
        r#"{"type":"number","maximum":0.1}"#,
        r#"{"type":"number","maximum":0.10000000000000000001}"#,
        "equal",
    );
    check_argument(
        r#"{"type":"number","exclusiveMinimum":0}"#,
        r#"{"type":"number","minimum":0}"#,
        "wider
           constraint-widened /properties/a/exclusiveMinimum
           schema-rewritten /properties/a/minimum",
    );
    check_argument(
        r#"{"type":"number","minimum":0}"#,
        r#"{"type":"number","exclusiveMinimum":0}"#,
        r#"narrower
           schema-rewritten /properties/a/minimum
           constraint-narrowed /properties/a/exclusiveMinimum {"a":0}"#,
    );
    check_argument(
        r#"{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":1000000}"#,
        r#"{"type":"integer","minimum":1,"maximum":999999}"#,
        "equal
           schema-rewritten /properties/a/exclusiveMinimum
           schema-rewritten /properties/a/exclusiveMaximum
           schema-rewritten /properties/a/minimum
           schema-rewritten /properties/a/maximum",
    );
    check_argument(
        r#"{"type":"number","exclusiveMaximum":1000000}"#,
        r#"{"type":"number","maximum":999999}"#,
        r#"narrower
           schema-rewritten /properties/a/exclusiveMaximum
           constraint-narrowed /properties/a/maximum {"a":999999.5}"#,
    );
    check_argument(
        r#"{"type":"integer"}"#,
        r#"{"type":"integer","maximum":9007199254740991}"#,
        r#"narrower
           constraint-narrowed /properties/a/maximum {"a":9007199254740992}"#,
    );
    check_argument(
        r#"{"type":"integer"}"#,
        r#"{"type":"number"}"#,
        "wider
           union-branch-added /properties/a/type",
    );
    check_argument(
        r#"{"type":"number"}"#,
        r#"{"type":"integer"}"#,
        r#"narrower
           type-changed /properties/a/type {"a":0.5}"#,
    );
    check_argument(
        r#"{"type":"integer","multipleOf":4}"#,
        r#"{"type":"integer","multipleOf":2}"#,
        "wider
           constraint-widened /properties/a/multipleOf",
    );
    check_argument(
        r#"{"type":"integer","multipleOf":2}"#,
        r#"{"type":"integer","multipleOf":4}"#,
        r#"narrower
           constraint-narrowed /properties/a/multipleOf {"a":2}"#,
    );
}

#[test]
fn strings_are_compared_by_length_format_and_pattern() {
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","maxLength":5}"#,
        r#"narrower
           constraint-narrowed /properties/a/maxLength {"a":"aaaaaa"}"#,
    );
    check_argument(
        r#"{"type":"string","minLength":3}"#,
        r#"{"type":"string","minLength":2}"#,
        "wider
           constraint-widened /properties/a/minLength",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","format":"uri"}"#,
        r#"narrower
           constraint-narrowed /properties/a/format {"a":""}"#,
    );
    check_argument(
        r#"{"type":"string","format":"uri"}"#,
        r#"{"type":"string"}"#,
        "wider
           constraint-widened /properties/a/format",
    );
    check_argument(
        r#"{"type":"string","format":"date"}"#,
        r#"{"type":"string","format":"email"}"#,
        r#"incomparable
           constraint-narrowed /properties/a/format {"a":"2020-01-31"}"#,
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","format":"int32"}"#,
        "undecidable
           schema-undecided /properties/a/format",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","pattern":"^[A-Z]+-[0-9]+$"}"#,
        r#"narrower
           constraint-narrowed /properties/a/pattern {"a":""}"#,
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","pattern":"^a*$"}"#,
        "undecidable
           schema-undecided /properties/a/pattern",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","pattern":"^a"}"#,
        r#"narrower
           constraint-narrowed /properties/a/pattern {"a":""}"#,
    );
    check_argument(
        r#"{"type":"string","pattern":"^[A-Z]+$"}"#,
        r#"{"type":"string","pattern":"^[A-Z_]+$"}"#,
        "wider
           constraint-widened /properties/a/pattern",
    );
    check_argument(
        r#"{"type":"string","pattern":"^[A-Z_]+$"}"#,
        r#"{"type":"string","pattern":"^[A-Z]+$"}"#,
        "undecidable
           schema-undecided /properties/a/pattern",
    );
    check_argument(
        r#"{"type":"string","pattern":"^[A-Z]+$"}"#,
        r#"{"type":"string"}"#,
        "wider
           constraint-widened /properties/a/pattern",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","pattern":".*"}"#,
        "equal
           schema-rewritten /properties/a/pattern",
    );
}

#[test]
fn constants_are_compared_as_sets() {
    check_argument(
        r#"{"enum":["a","b"]}"#,
        r#"{"enum":["b","a"]}"#,
        "equal
           schema-rewritten /properties/a/enum",
    );
    check_argument(
        r#"{"enum":["a"]}"#,
        r#"{"const":"a"}"#,
        "equal
           schema-rewritten /properties/a/const",
    );
    check_argument(
        r#"{"type":"string","enum":["off","strict"]}"#,
        r#"{"anyOf":[{"const":"off","type":"string"},{"const":"strict","type":"string"}]}"#,
        "equal
           schema-rewritten /properties/a",
    );
    check_argument(
        r#"{"enum":["a","b"]}"#,
        r#"{"enum":["a"]}"#,
        r#"narrower
           enum-values-removed /properties/a/enum {"a":"b"}"#,
    );
    check_argument(
        r#"{"enum":["a"]}"#,
        r#"{"enum":["a","b"]}"#,
        "wider
           enum-values-added /properties/a/enum",
    );
    check_argument(
        r#"{"enum":["markdown","html"]}"#,
        r#"{"enum":["Markdown","Html"]}"#,
        r#"incomparable
           enum-values-removed /properties/a/enum {"a":"html"}
           enum-values-added /properties/a/enum"#,
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","enum":["a"]}"#,
        r#"narrower
           type-changed /properties/a/enum {"a":""}"#,
    );
    check_argument(
        r#"{"type":"string","enum":["a"]}"#,
        r#"{"type":"string"}"#,
        "wider
           constraint-widened /properties/a/enum",
    );
    check_argument(
        r#"{"type":"boolean"}"#,
        r#"{"enum":[true,false]}"#,
        "equal
           schema-rewritten /properties/a/enum
           schema-rewritten /properties/a/type",
    );
    check_argument(r#"{"const":1}"#, r#"{"const":1.0}"#, "equal");
}

#[test]
fn types_and_unions_are_one_thing() {
    check_argument(
        r#"{"type":["string","null"]}"#,
        r#"{"anyOf":[{"type":"null"},{"type":"string"}]}"#,
        "equal
           schema-rewritten /properties/a",
    );
    check_argument(
        r#"{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}"#,
        r#"{"type":"string","default":null}"#,
        r#"narrower
           union-branch-removed /properties/a/anyOf/1 {"a":null}"#,
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":["string","array"],"items":{"type":"string"}}"#,
        "wider
           union-branch-added /properties/a/type",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"array","items":{"type":"string"}}"#,
        r#"incomparable
           type-changed /properties/a/type {"a":""}"#,
    );
    check_argument(
        r#"{"oneOf":[{"type":"string"},{"type":"integer"}]}"#,
        r#"{"anyOf":[{"type":"integer"},{"type":"string"}]}"#,
        "equal
           schema-rewritten /properties/a",
    );
    check_argument(
        r#"{"oneOf":[{"type":"string"}]}"#,
        r#"{"oneOf":[{"type":"string"},{"type":"array"}]}"#,
        "wider
           union-branch-added /properties/a/oneOf/1",
    );
    check_argument(
        r#"{"oneOf":[{"type":"number"},{"type":"integer"}]}"#,
        r#"{"type":"number"}"#,
        "wider
           constraint-widened /properties/a",
    );
    check_argument(
        r#"{"type":"string","nullable":true}"#,
        r#"{"type":"string"}"#,
        "undecidable
           schema-undecided /properties/a/nullable",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","nullable":true}"#,
        "wider
           constraint-widened /properties/a/nullable",
    );
    check_argument(
        r#"{}"#,
        r#"{"type":"string"}"#,
        r#"narrower
           type-changed /properties/a/type {"a":null}"#,
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"true"#,
        "wider
           constraint-widened /properties/a",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"false"#,
        r#"narrower
           type-changed /properties/a {"a":""}"#,
    );
}

#[test]
fn arrays_are_compared_item_by_item() {
    check_argument(
        r#"{"type":"array","items":{}}"#,
        r#"{"type":"array","items":{"type":"string"}}"#,
        r#"narrower
           type-changed /properties/a/items/type {"a":[null]}"#,
    );
    check_argument(
        r#"{"type":"array","maxItems":2}"#,
        r#"{"type":"array","maxItems":3}"#,
        "wider
           constraint-widened /properties/a/maxItems",
    );
    check_argument(
        r#"{"type":"array"}"#,
        r#"{"type":"array","minItems":1}"#,
        r#"narrower
           constraint-narrowed /properties/a/minItems {"a":[]}"#,
    );
    check_argument(
        r#"{"type":"array"}"#,
        r#"{"type":"array","uniqueItems":true}"#,
        r#"narrower
           constraint-narrowed /properties/a/uniqueItems {"a":[null,null]}"#,
    );
    check_argument(
        r#"{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],"items":false}"#,
        r#"{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}],"items":false}"#,
        r#"incomparable
           type-changed /properties/a/prefixItems/1/type {"a":[0,0]}"#,
    );
    check_argument(
        r#"{"type":"array","contains":{"const":1}}"#,
        r#"{"type":"array"}"#,
        "wider
           constraint-widened /properties/a/contains",
    );
    check_argument(
        r#"{"type":"array","items":{"type":"integer"}}"#,
        r#"{"type":"array","items":{"type":"integer"},"contains":{"const":1}}"#,
        r#"narrower
           constraint-narrowed /properties/a/contains {"a":[]}"#,
    );
    check(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"number"}],"additionalItems":false,"type":"array"}}}"#,
        r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"prefixItems":[{"type":"number"}],"items":false,"type":"array"}}}"#,
        "equal
           schema-rewritten /$schema
           schema-rewritten /properties/a/items
           schema-rewritten /properties/a/additionalItems
           schema-rewritten /properties/a/prefixItems",
    );
}

#[test]
fn arguments_that_are_not_declared_are_no_part_of_a_call() {
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
        r#"narrower
           removed-param /properties/b {"b":0}"#,
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        "wider
           added-optional-param /properties/b",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b"]}"#,
        "incomparable
           added-required-param /properties/b {}",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}"#,
        "narrower
           required-set-expanded /required/0 {}",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b"]}"#,
        "wider
           removed-required /required/0",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b","a"]}"#,
        "equal
           schema-rewritten (whole)",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":false}"#,
        "equal
           additional-properties-changed /additionalProperties",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":false}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":true}"#,
        "equal
           additional-properties-changed /additionalProperties",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":{"type":"string"}}"#,
        "wider
           constraint-widened /additionalProperties",
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":{"type":"string"}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"additionalProperties":false}"#,
        r#"narrower
           constraint-narrowed /additionalProperties {"undeclared":""}"#,
    );
    check(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        "narrower
           schema-rewritten /$schema
           schema-emptied (whole) by schema-emptied
           constraint-widened /type",
    );
    check(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"],"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        r#"narrower
           added-required-param /properties/a {}
           constraint-narrowed /properties/b {"b":null}
           type-changed /type null"#,
    );
    check(
        r#"{"type":"object","properties":{}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"}}}"#,
        "wider
           added-optional-param /properties/a",
    );
    check_argument(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"type":"object"}"#,
        "narrower
           schema-emptied /properties/a by schema-emptied",
    );
    check_argument(
        r#"{"type":"object","properties":{"x":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"y":{"type":"string"}},"required":["y"]}"#,
        r#"incomparable
           removed-param /properties/a/properties/x {"a":{"x":""}}
           added-required-param /properties/a/properties/y {"a":{}}"#,
    );
    check(
        r#"{"type":"object","properties":{"id":{"type":"string","pattern":"(?=a)"},"b":{}},"required":["id"]}"#,
        r#"{"type":"object","properties":{"id":{"type":"string","pattern":"(?=a)"}},"required":["id"]}"#,
        "narrower
           removed-param /properties/b by undeclared-argument-refused",
    );
}

#[test]
fn only_a_schema_that_declares_nothing_at_all_is_emptied() {
    let declared = r#"{"type":"object","properties":{"x":{"type":"string"}}}"#;
    check_argument(
        declared,
        r#"{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}}},{"type":"object","additionalProperties":true}]}"#,
        "wider
         union-branch-added /properties/a/anyOf/1",
    );
    check_argument(
        &format!(r#"{{"anyOf":[{declared},{{"type":"null"}}]}}"#),
        r#"{"anyOf":[{"type":"object"},{"type":"null"}]}"#,
        "narrower
         schema-emptied /properties/a/anyOf/0 by schema-emptied",
    );
    check(
        r#"{"properties":{"a":{}}}"#,
        r#"{"properties":{"a":{}},"$defs":{"x":{"type":"string"}}}"#,
        "equal
         schema-rewritten /$defs/x",
    );
}

#[test]
fn rules_about_members_are_compared() {
    check_argument(
        r#"{"type":"object","patternProperties":{"^x":{"type":"string"}}}"#,
        r#"{"type":"object","patternProperties":{"^x":{"type":"string"},"^y":{"type":"string"}}}"#,
        "undecidable
           pattern-properties-changed /properties/a/patternProperties",
    );
    check_argument(
        r#"{"type":"object","patternProperties":{"^x":{"type":"string"}}}"#,
        r#"{"type":"object","patternProperties":{"^x":{"type":["string","null"]}}}"#,
        "wider
           union-branch-added /properties/a/patternProperties/^x/type",
    );
    check_argument(
        r#"{"type":"object","additionalProperties":{}}"#,
        r#"{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{}}"#,
        "equal
           schema-rewritten /properties/a/propertyNames",
    );
    check_argument(
        r#"{"type":"object"}"#,
        r#"{"type":"object","propertyNames":{"maxLength":3}}"#,
        r#"narrower
           constraint-narrowed /properties/a/propertyNames {"a":{"undeclared":null}}"#,
    );
    check_argument(
        r#"{"type":"object"}"#,
        r#"{"type":"object","maxProperties":2}"#,
        r#"narrower
           constraint-narrowed /properties/a/maxProperties {"a":{"undeclared0":null,"undeclared1":null,"undeclared2":null}}"#,
    );
    check_argument(
        r#"{"type":"object"}"#,
        r#"{"type":"object","dependentRequired":{"a":["b"]}}"#,
        r#"narrower
           constraint-narrowed /properties/a/dependentRequired {"a":{"a":null}}"#,
    );
    check_argument(
        r#"{"type":"object","dependentRequired":{"a":["b","c"]}}"#,
        r#"{"type":"object","dependentRequired":{"a":["b"]}}"#,
        "wider
           constraint-widened /properties/a/dependentRequired",
    );
    check_argument(
        r#"{"type":"object"}"#,
        r#"{"type":"object","unevaluatedProperties":{"type":"string"}}"#,
        r#"narrower
           constraint-narrowed /properties/a/unevaluatedProperties {"a":{"undeclared":null}}"#,
    );
    check_argument(
        r#"{"type":"object"}"#,
        r#"{"type":"object","dependentSchemas":{"a":{"required":["b"]}}}"#,
        r#"narrower
           constraint-narrowed /properties/a/dependentSchemas {"a":{"a":null}}"#,
    );
}

#[test]
fn schemas_made_of_schemas_are_compared() {
    check_argument(
        r#"{"allOf":[{"type":"string"},{"maxLength":3}]}"#,
        r#"{"type":"string","maxLength":3}"#,
        "equal
           schema-rewritten /properties/a/type
           schema-rewritten /properties/a/allOf
           schema-rewritten /properties/a/maxLength",
    );
    check_argument(
        r#"{"not":{"type":"string"}}"#,
        r#"{"not":{"type":["string","null"]}}"#,
        r#"narrower
           schema-rewritten /properties/a/not/type
           constraint-narrowed /properties/a/not {"a":null}"#,
    );
    check_argument(
        r#"{"not":{"type":["string","null"]}}"#,
        r#"{"not":{"type":"string"}}"#,
        "wider
           schema-rewritten /properties/a/not/type
           constraint-widened /properties/a/not",
    );
    check_argument(
        r#"{"if":{"type":"string"},"then":{"maxLength":3}}"#,
        r#"{"if":{"type":"string"},"then":{"maxLength":2}}"#,
        r#"narrower
           schema-rewritten /properties/a/then/maxLength
           constraint-narrowed /properties/a/then {"a":"aaa"}"#,
    );
    check_argument(
        r#"{"if":{"type":"string"},"then":{"maxLength":2}}"#,
        r#"{"if":{"type":"string"},"then":{"maxLength":3}}"#,
        "wider
           schema-rewritten /properties/a/then/maxLength
           constraint-widened /properties/a/then",
    );
    check(
        r#"{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}}}]}"#,
        r#"{"allOf":[{"properties":{"a":{"type":"string","maxLength":3}}},{"properties":{"b":{"type":"string"}}}]}"#,
        "undecidable
           schema-rewritten /allOf/0/properties/a/maxLength
           schema-undecided (whole)",
    );
    check(
        r#"{"properties":{"kind":{"enum":["x","y"]}},"required":["kind"]}"#,
        r#"{"anyOf":[{"properties":{"kind":{"const":"x"}},"required":["kind"]},{"properties":{"kind":{"const":"y"}},"required":["kind"]}]}"#,
        "equal
           schema-rewritten (whole)",
    );
}

#[test]
fn references_are_followed_within_the_document() {
    check(
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string","title":"X"}}}"##,
        r##"{"properties":{"a":{"type":"string"}}}"##,
        "equal
           schema-rewritten /$defs/x/title
           schema-rewritten /properties/a",
    );
    check(
        r##"{"properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##,
        "equal
           schema-rewritten /properties/a",
    );
    check(
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"integer"}}}"##,
        r#"incomparable
           type-changed /$defs/x/type {"a":""}"#,
    );
    check(
        r#"{"properties":{"a":{"$ref":"https://example.com/x"}}}"#,
        r#"{"properties":{"a":{"$ref":"https://example.com/y"}}}"#,
        "undecidable
           schema-undecided /properties/a/$ref",
    );
    check(
        r#"{"properties":{"a":{"$ref":"https://example.com/x"}}}"#,
        r#"{"properties":{"a":{"$ref":"https://example.com/x"},"b":{}}}"#,
        "wider
           added-optional-param /properties/b",
    );
    check(
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/x","maxLength":1}},"definitions":{"x":{"type":"string"}}}"##,
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"string"}}}"##,
        "equal
           schema-rewritten /properties/a",
    );
    check(
        r#"{"properties":{"a":{}},"$defs":{"x":{"description":"old"}}}"#,
        r#"{"properties":{"a":{}},"$defs":{"x":{"description":"new"},"y":{"description":"more"}}}"#,
        "equal
           param-text-changed /$defs/x/description
           param-text-changed /$defs/y",
    );
}

#[test]
fn texts_never_change_what_is_accepted() {
    check_argument(
        r#"{"type":"string","description":"one"}"#,
        r#"{"type":"string","description":"two"}"#,
        "equal
           param-text-changed /properties/a/description",
    );
    check_argument(
        r#"{"type":"string","default":"x"}"#,
        r#"{"type":"string","default":"y"}"#,
        "equal
           default-changed /properties/a/default",
    );
    check_argument(
        r#"{"type":"string","title":"A"}"#,
        r#"{"type":"string"}"#,
        "equal
           schema-rewritten /properties/a/title",
    );
    check_argument(
        r#"{"type":"string","title":"A"}"#,
        r#"{"type":"string","title":"Read this first"}"#,
        "equal
           param-text-changed /properties/a/title",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","examples":["x"],"deprecated":true,"$comment":"c"}"#,
        "equal
           param-text-changed /properties/a/$comment
           param-text-changed /properties/a/deprecated
           param-text-changed /properties/a/examples",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","x-mcp-header":"X-A"}"#,
        "equal
           param-mirrored-to-header /properties/a/x-mcp-header",
    );
    check_argument(
        r#"{"type":"string"}"#,
        r#"{"type":"string","x-other":"note"}"#,
        "equal
           param-text-changed /properties/a/x-other",
    );
    check(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"string"}}}"#,
        r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"type":"string"}}}"#,
        "equal
           schema-rewritten /$schema",
    );
    check(
        r#"{"title":"GitAdd","properties":{"a":{"type":"string"}}}"#,
        r#"{"title":"addArguments","properties":{"a":{"type":"string"}}}"#,
        "equal
           param-text-changed /title",
    );
}

#[test]
fn an_argument_sent_as_a_header_too_is_seen_wherever_it_stands() {
    let mirrored = r#"{"type":"string","x-mcp-header":"X-A"}"#;
    check_argument(
        mirrored,
        r#"{"type":"string"}"#,
        "equal
           param-text-changed /properties/a/x-mcp-header",
    );
    check_argument(
        mirrored,
        r#"{"type":"string","x-mcp-header":"X-B"}"#,
        "equal
           param-mirrored-to-header /properties/a/x-mcp-header",
    );
    check_argument(
        r#"{"type":"array","items":{"type":"string"}}"#,
        r#"{"type":"array","items":{"type":"string","x-mcp-header":"X-A"}}"#,
        "equal
           param-mirrored-to-header /properties/a/items/x-mcp-header",
    );
    check(
        r#"{"properties":{"a":{"type":"string"}}}"#,
        r#"{"properties":{"a":{"type":"string"},"b":{"type":"string","x-mcp-header":"X-B"}}}"#,
        "wider
           added-optional-param /properties/b
           param-mirrored-to-header /properties/b/x-mcp-header",
    );
    // In a form that is new as a whole, though the name of the header is known from elsewhere.
    check_argument(
        r#"{"anyOf":[{"type":"null"},{"properties":{"b":{"x-mcp-header":"X-A"}},"type":"object"}]}"#,
        r#"{"anyOf":[{"type":"null"},{"properties":{"b":{"x-mcp-header":"X-A"}},"type":"object"},{"type":"array","items":{"type":"object","properties":{"c":{"x-mcp-header":"X-A"}}}}]}"#,
        "wider
           union-branch-added /properties/a/anyOf/2
           param-mirrored-to-header /properties/a/anyOf/2/items/properties/c/x-mcp-header",
    );
}

#[test]
fn a_map_that_declares_nothing_is_open() {
    let (map, empty) = (
        r#"{"type":"object","properties":{},"additionalProperties":true}"#,
        r#"{"type":"object","properties":{}}"#,
    );
    check_argument(
        map,
        r#"{"type":"object","additionalProperties":true}"#,
        "equal
           schema-rewritten (whole)",
    );
    check_argument(
        map,
        empty,
        r#"narrower
           constraint-narrowed /properties/a/additionalProperties {"a":{"undeclared":null}}"#,
    );
    check_argument(
        empty,
        map,
        "wider
           constraint-widened /properties/a/additionalProperties",
    );
    check_argument(
        r#"{"type":"object","propertyNames":{"type":"string","description":"a name"}}"#,
        r#"{"type":"object"}"#,
        "equal
           schema-rewritten /properties/a/propertyNames",
    );
}

#[test]
fn results_are_compared_by_who_reads_them() {
    check_results(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}"#,
        "wider
           output-schema-changed /required/0",
    );
    check_results(
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}"#,
        r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#,
        "narrower
           output-schema-changed /required/0 {}",
    );
    check_results(
        r#"{"properties":{"result":{"type":"string"}}}"#,
        r#"{"properties":{"result":{"type":"object"}}}"#,
        r#"incomparable
           output-schema-changed /properties/result/type {"result":{}}"#,
    );
    check_results(
        r#"{"properties":{"n":{"type":"integer"}}}"#,
        r#"{"properties":{"n":{"type":"integer","maximum":9007199254740991}}}"#,
        "wider
           output-schema-changed /properties/n/maximum",
    );
    check_results(
        r#"{"properties":{"n":{"type":"integer"}}}"#,
        r#"{"properties":{"n":{"type":"integer"},"m":{}}}"#,
        r#"narrower
           output-schema-changed /properties/m {"m":null}"#,
    );
    check_results(
        r#"{"properties":{"n":{"description":"one"}}}"#,
        r#"{"properties":{"n":{"description":"two"}}}"#,
        "equal
           param-text-changed /properties/n/description",
    );
}

#[test]
fn what_real_servers_changed() {
    check(
        r#"{"properties":{"searchText":{"type":"string"},"project":{"type":"string"},"repository":{"type":"string"},"author":{"type":"string"}},"required":["project","repository"]}"#,
        r#"{"properties":{"searchText":{"type":"string"},"project":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},"repository":{"type":"array","items":{"type":"string"}},"author":{"type":"array","items":{"type":"string"}}},"required":["searchText"]}"#,
        r#"incomparable
           union-branch-added /properties/project/anyOf/1
           type-changed /properties/repository/type {"project":"","repository":""}
           type-changed /properties/author/type {"author":"","project":"","repository":""}
           required-set-expanded /required/0 {"project":"","repository":""}
           removed-required /required/0
           removed-required /required/1"#,
    );
    check(
        r#"{"properties":{"channel":{"type":"string"}},"required":["channel"]}"#,
        r#"{"properties":{"subscription_id":{"type":"string"}},"required":["subscription_id"]}"#,
        r#"incomparable
           removed-param /properties/channel {"channel":""}
           added-required-param /properties/subscription_id {"channel":""}"#,
    );
    check(
        r#"{"properties":{"count":{"type":"integer","description":"up to 50"}}}"#,
        r#"{"properties":{"count":{"type":"integer","description":"up to 100"}}}"#,
        "equal
           param-text-changed /properties/count/description",
    );
    check(
        r#"{"properties":{"query":{"type":"string"},"strip_thinking":{"type":"boolean"}},"required":["query"]}"#,
        r#"{"properties":{"query":{"type":"string"}},"required":["query"]}"#,
        r#"narrower
           removed-param /properties/strip_thinking {"query":"","strip_thinking":false}"#,
    );
    check(
        r#"{"properties":{"text":{"type":"string"}}}"#,
        r#"{"properties":{"text":{"type":"string"},"filename":{"type":"string","description":"where to write"}}}"#,
        "wider
           added-optional-param /properties/filename",
    );
    check(
        r#"{"properties":{"format":{"enum":["markdown","html"],"default":"html"},"id":{"type":"number"},"project":{"type":"string"}},"required":["project"]}"#,
        r#"{"properties":{"format":{"enum":["Markdown","Html"],"default":"Markdown"},"id":{"type":"number","minimum":1},"project":{"type":"string"}}}"#,
        r#"incomparable
           default-changed /properties/format/default
           enum-values-removed /properties/format/enum {"format":"html","project":""}
           enum-values-added /properties/format/enum
           constraint-narrowed /properties/id/minimum {"id":0,"project":""}
           removed-required /required/0"#,
    );
    check(
        r#"{"properties":{"fields":{"type":"string","default":"a,b,c"}}}"#,
        r#"{"properties":{"fields":{"type":"string","default":"c,a,b"}}}"#,
        "equal
           default-changed /properties/fields/default",
    );
    check(
        r#"{"properties":{"data":{"type":"array","items":{}}}}"#,
        r#"{"properties":{"data":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}}"#,
        r#"narrower
           type-changed /properties/data/items/type {"data":[null]}
           constraint-narrowed /properties/data/items/items {"data":[null]}"#,
    );
}
