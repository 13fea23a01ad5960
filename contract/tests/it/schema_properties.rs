//! No claim about two schemas is ever contradicted by an independent validator.
//!
//! Schemas are made at random over all keywords, in pairs that are independent or one changed here and there.
//! Values are made for both, and for what lies between. The validator gets both schemas closed as the comparison
//! reads them; `schema-emptied` is a rule without a witness and is left out.

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::json::{Value, read};
use mcpindex_contract::schema::{Acceptance, Comparison, compare_input, compare_output};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value as Json, json};
use std::io::Write;

/// Closes every object schema that declares properties, as a call is read.
fn close(schema: &mut Json) {
    match schema {
        Json::Object(words) => {
            for (word, said) in words.iter_mut() {
                match word.as_str() {
                    "enum" | "const" | "default" | "examples" | "required" => {}
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                    | "dependencies" => {
                        if let Json::Object(schemas) = said {
                            schemas.values_mut().for_each(close);
                        }
                    }
                    _ => close(said),
                }
            }
            let is_schema = |word: &str| words.get(word).is_some_and(Json::is_object);
            let is_map = words.get("properties") == Some(&json!({}))
                && words.get("additionalProperties") == Some(&json!(true));
            if is_schema("properties")
                && !is_map
                && !is_schema("additionalProperties")
                && !words.contains_key("patternProperties")
                && !is_schema("unevaluatedProperties")
            {
                words.insert("additionalProperties".to_owned(), false.into());
            }
        }
        Json::Array(schemas) => schemas.iter_mut().for_each(close),
        _ => {}
    }
}

fn validator(schema: &Json) -> Option<jsonschema::Validator> {
    let mut closed = schema.clone();
    close(&mut closed);
    jsonschema::options()
        .should_validate_formats(true)
        .build(&closed)
        .ok()
}

const NAMES: [&str; 4] = ["a", "b", "c", "kind"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Into::into),
        (-3..8_i64).prop_map(Into::into),
        prop::sample::select(vec![
            json!(0.5),
            json!(1.0),
            json!(2.5),
            json!(-1.5),
            json!(1e6),
            json!(1_000_000)
        ]),
        prop::sample::select(vec![
            "",
            "a",
            "ab",
            "aaa",
            "x1",
            "2020-01-31",
            "192.0.2.1",
            "a@example.com",
            "https://example.com/a",
            "é",
            "\n",
        ])
        .prop_map(Into::into),
    ]
}

fn instance() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn type_name() -> impl Strategy<Value = Json> {
    let names = vec![
        "null", "boolean", "integer", "number", "string", "array", "object", "object", "string",
    ];
    prop::sample::select(names).prop_map(Into::into)
}

/// One keyword with what it says; schemas inside come from `inner`.
fn keyword(inner: BoxedStrategy<Json>) -> BoxedStrategy<(String, Json)> {
    let number = prop_oneof![
        (-2..6_i64).prop_map(Json::from),
        prop::sample::select(vec![json!(0.5), json!(2.5), json!(1.0), json!(-0.5)]),
    ];
    let count = (0..4_u64).prop_map(Json::from);
    let names = prop::collection::btree_set(name(), 0..3).prop_map(|names| json!(names));
    let map = prop::collection::btree_map(name(), inner.clone(), 0..4).prop_map(|map| json!(map));
    let pattern = prop::sample::select(vec![
        "^[a-c]$",
        "^a",
        "^x[0-9]+$",
        "b",
        ".*",
        "^.{2,3}$",
        "(?=a)a",
    ]);
    let by_pattern =
        prop::collection::btree_map(pattern.clone(), inner.clone(), 1..3).prop_map(|map| json!(map));
    let list = prop::collection::vec(inner.clone(), 1..4).prop_map(|list| json!(list));
    let one = |word: &'static str, said: BoxedStrategy<Json>| {
        said.prop_map(move |said| (word.to_owned(), said)).boxed()
    };
    let of = |words: &'static [&'static str], said: BoxedStrategy<Json>| {
        (prop::sample::select(words.to_vec()), said)
            .prop_map(|(word, said)| (word.to_owned(), said))
            .boxed()
    };
    prop_oneof![
        6 => one("type", type_name().boxed()),
        2 => one("type", prop::collection::btree_set(
            prop::sample::select(vec!["null", "string", "integer", "number", "object", "array"]), 1..4,
        ).prop_map(|types| json!(types)).boxed()),
        3 => of(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], number.boxed()),
        1 => one("multipleOf", prop::sample::select(vec![json!(1), json!(2), json!(3), json!(0.5)]).boxed()),
        3 => of(&["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], count.clone().boxed()),
        1 => of(&["minContains", "maxContains"], count.boxed()),
        1 => one("pattern", pattern.prop_map(Json::from).boxed()),
        1 => one("format", prop::sample::select(vec![
            "date", "uri", "uuid", "email", "ipv4", "date-time", "hostname", "int32", "regex", "json-pointer", "duration",
        ]).prop_map(Json::from).boxed()),
        1 => one("uniqueItems", any::<bool>().prop_map(Json::from).boxed()),
        3 => one("enum", prop::collection::vec(scalar(), 1..4).prop_map(|values| json!(values)).boxed()),
        2 => one("const", instance().boxed()),
        8 => one("properties", map.boxed()),
        3 => one("required", names.boxed()),
        2 => one("additionalProperties", prop_oneof![any::<bool>().prop_map(Json::from), inner.clone()].boxed()),
        1 => one("patternProperties", by_pattern.boxed()),
        1 => one("propertyNames", prop_oneof![
            inner.clone(), Just(json!({"maxLength": 1})), Just(json!({"enum": ["a", "b"]})),
        ].boxed()),
        1 => of(&["dependentRequired", "dependencies"], prop::collection::btree_map(
            name(), prop::collection::btree_set(name(), 0..3), 1..3).prop_map(|map| json!(map)).boxed()),
        1 => of(&["dependentSchemas", "dependencies"],
            prop::collection::btree_map(name(), inner.clone(), 1..3).prop_map(|map| json!(map)).boxed()),
        3 => one("items", inner.clone().boxed()),
        1 => of(&["prefixItems", "items"], list.clone().boxed()),
        1 => of(&["additionalItems", "unevaluatedItems", "unevaluatedProperties", "contains"], inner.clone().boxed()),
        3 => one("anyOf", list.clone().boxed()),
        2 => one("oneOf", list.clone().boxed()),
        1 => one("allOf", list.boxed()),
        1 => of(&["not", "if", "then", "else"], inner.boxed()),
        1 => one("$ref", prop::sample::select(vec!["#/$defs/one", "#/$defs/two", "#"]).prop_map(Json::from).boxed()),
        1 => one("default", scalar().boxed()),
        1 => of(&["title", "description"], prop::sample::select(vec!["A", "B"]).prop_map(Json::from).boxed()),
        1 => one("nullable", any::<bool>().prop_map(Json::from).boxed()),
    ]
    .boxed()
}

fn subschema() -> BoxedStrategy<Json> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Json::from),
        1 => Just(json!({})),
        4 => type_name().prop_map(|name| json!({"type": name})),
        2 => prop::collection::vec(scalar(), 1..3).prop_map(|values| json!({"enum": values})),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 0..4)
            .prop_map(|words| Json::Object(words.into_iter().collect::<Map<_, _>>()))
    })
    .boxed()
}

fn document() -> BoxedStrategy<Json> {
    let dialect = prop::sample::select(vec![
        None,
        None,
        Some("http://json-schema.org/draft-07/schema#"),
        Some("https://json-schema.org/draft/2020-12/schema"),
    ]);
    let definitions = (subschema(), subschema()).prop_map(|(one, two)| json!({"one": one, "two": two}));
    let arguments = prop::collection::btree_map(name(), subschema(), 1..4);
    let call = (
        arguments,
        prop::collection::btree_set(name(), 0..2),
        prop::collection::vec(keyword(subschema()), 0..2),
    );
    let call = call.prop_map(|(arguments, required, words)| {
        let mut root: Map<String, Json> = words.into_iter().collect();
        root.insert("type".to_owned(), "object".into());
        root.insert("properties".to_owned(), json!(arguments));
        root.insert("required".to_owned(), json!(required));
        Json::Object(root)
    });
    (prop_oneof![3 => call, 1 => subschema()], definitions, dialect)
        .prop_map(|(root, definitions, dialect)| {
            let mut root = match root {
                Json::Object(root) => root,
                other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
            };
            root.insert("$defs".to_owned(), definitions);
            if let Some(dialect) = dialect {
                root.insert("$schema".to_owned(), dialect.into());
            }
            Json::Object(root)
        })
        .boxed()
}

/// Every schema object inside, by pointer.
fn places(schema: &Json, pointer: &str, found: &mut Vec<String>) {
    if let Json::Object(words) = schema {
        found.push(pointer.to_owned());
        for (word, said) in words {
            let pointer = format!("{pointer}/{}", word.replace('/', "~1"));
            match (word.as_str(), said) {
                (
                    "properties" | "$defs" | "patternProperties" | "dependentSchemas",
                    Json::Object(schemas),
                ) => {
                    for (name, schema) in schemas {
                        places(schema, &format!("{pointer}/{}", name.replace('/', "~1")), found);
                    }
                }
                ("enum" | "const" | "default" | "required", _) => {}
                (_, Json::Array(schemas)) => {
                    for (index, schema) in schemas.iter().enumerate() {
                        places(schema, &format!("{pointer}/{index}"), found);
                    }
                }
                _ => places(said, &pointer, found),
            }
        }
    }
}

/// Which place of a schema to change, which of its keywords, how, and with which keyword or schema.
type Edit = (prop::sample::Index, prop::sample::Index, u8, (String, Json), Json);

/// One small change at one place.
fn change() -> BoxedStrategy<Edit> {
    (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0..9_u8,
        keyword(subschema()),
        subschema(),
    )
        .boxed()
}

fn changed(schema: &Json, (place, word, how, (new_word, said), other): &Edit) -> Json {
    let mut schema = schema.clone();
    let mut found = Vec::new();
    places(&schema, "", &mut found);
    if !schema.to_string().contains("$ref") {
        found.retain(|pointer| !pointer.starts_with("/$defs"));
    }
    let pointer = &found[place.index(found.len())];
    let Some(Json::Object(words)) = schema.pointer_mut(pointer) else {
        return schema;
    };
    match how {
        0 | 1 => {
            words.insert(new_word.clone(), said.clone());
        }
        2 | 3 if !words.is_empty() => {
            let name = words
                .keys()
                .nth(word.index(words.len()))
                .cloned()
                .unwrap_or_default();
            if name != "$defs" {
                words.remove(&name);
            }
        }
        4 => {
            if let Some(Json::Object(properties)) = words.get_mut("properties") {
                properties.insert("c".to_owned(), other.clone());
            }
        }
        5 => {
            if let Some(Json::Object(properties)) = words.get_mut("properties") {
                properties.remove("a");
            }
        }
        6 => {
            for word in ["anyOf", "oneOf", "enum", "required", "type"] {
                if let Some(Json::Array(list)) = words.get_mut(word)
                    && list.len() > 1
                {
                    list.pop();
                }
            }
        }
        7 => {
            for word in [
                "minimum",
                "maximum",
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
            ] {
                if let Some(Json::Number(number)) = words.get_mut(word)
                    && let Some(whole) = number.as_u64()
                {
                    *number = (whole + 1).into();
                }
            }
        }
        _ => {
            // The same said another way.
            let inner = Json::Object(std::mem::take(words));
            words.insert("anyOf".to_owned(), json!([inner]));
            if pointer.is_empty() {
                let inner = words["anyOf"][0].clone();
                for word in ["$defs", "$schema"] {
                    if let Some(said) = inner.get(word) {
                        words.insert(word.to_owned(), said.clone());
                    }
                }
            }
        }
    }
    schema
}

fn pair() -> BoxedStrategy<(Json, Json)> {
    prop_oneof![
        1 => (document(), document()),
        4 => (document(), prop::collection::vec(change(), 1..3)).prop_map(|(before, changes)| {
            let after = changes.iter().fold(before.clone(), |schema, change| changed(&schema, change));
            (before, after)
        }),
        2 => (document(), change()).prop_map(|(after, change)| (changed(&after, &change), after)),
    ]
    .boxed()
}

/// Values that a schema may accept, made without care for most keywords.
fn values_for(schema: &Json, root: &Json, levels: usize, values: &mut Vec<Json>) {
    let Json::Object(words) = schema else {
        values.push(json!("a"));
        return;
    };
    if let Some(value) = words.get("const") {
        values.push(value.clone());
    }
    if let Some(Json::Array(list)) = words.get("enum") {
        values.extend(list.iter().cloned());
    }
    for word in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
        if let Some(bound) = words.get(word).and_then(Json::as_f64) {
            values.extend([
                json!(bound),
                json!(bound + 1.0),
                json!(bound - 1.0),
                json!(bound + 0.5),
            ]);
        }
    }
    for word in ["minLength", "maxLength"] {
        if let Some(bound) = words.get(word).and_then(Json::as_u64) {
            let length = bound as usize;
            values.extend([json!("a".repeat(length)), json!("a".repeat(length + 1))]);
        }
    }
    if levels == 0 {
        return;
    }
    let inside = |schema: &Json| {
        let mut inner = Vec::new();
        values_for(schema, root, levels - 1, &mut inner);
        inner.extend([json!("a"), json!(1), json!({}), json!(null)]);
        inner.truncate(6);
        inner
    };
    for word in ["anyOf", "oneOf", "allOf"] {
        for branch in words.get(word).and_then(Json::as_array).into_iter().flatten() {
            values_for(branch, root, levels - 1, values);
        }
    }
    for word in ["not", "if", "then", "else"] {
        if let Some(schema) = words.get(word) {
            values_for(schema, root, levels - 1, values);
        }
    }
    if let Some(target) = words
        .get("$ref")
        .and_then(Json::as_str)
        .and_then(|text| root.pointer(&text[1..]))
    {
        values_for(target, root, levels - 1, values);
    }
    if let Some(Json::Object(properties)) = words.get("properties") {
        let mut all = Map::new();
        for (name, schema) in properties {
            let inner = inside(schema);
            all.insert(name.clone(), inner[0].clone());
            values.extend(inner.into_iter().map(|value| json!({name.as_str(): value})));
        }
        values.push(Json::Object(all.clone()));
        for name in properties.keys() {
            let mut less = all.clone();
            less.remove(name);
            values.push(Json::Object(less));
        }
        all.insert("c".to_owned(), json!(1));
        values.push(Json::Object(all));
    }
    for word in ["items", "contains", "additionalItems"] {
        if let Some(schema @ Json::Object(_)) = words.get(word) {
            let inner = inside(schema);
            values.extend(inner.iter().map(|value| json!([value])));
            values.push(json!(inner));
            values.push(json!([inner[0], inner[0], inner[0]]));
        }
    }
}

/// What contradicts the comparison, if anything does.
fn contradiction(before: &Json, after: &Json, instances: &[Json], counts: &mut [usize; 6]) -> Option<String> {
    let (Some(old), Some(new)) = (validator(before), validator(after)) else {
        counts[5] += 1;
        return None;
    };
    let value = |schema: &Json| read(&schema.to_string()).unwrap().value;
    let (old_value, new_value) = (value(before), value(after));
    let calls = compare_input(&old_value, &new_value);
    counts[calls.acceptance as usize] += 1;
    let mut values = instances.to_vec();
    values_for(before, before, 4, &mut values);
    values_for(after, after, 4, &mut values);
    let results = compare_output(&old_value, &new_value);
    let told = |comparison: &Comparison| {
        let one = |one: &mcpindex_contract::schema::Difference| {
            format!(
                "{} {} {:?}",
                one.kind.name(),
                one.pointer,
                one.witness.as_ref().map(Value::to_pretty)
            )
        };
        format!(
            "{:?} {:#?}",
            comparison.acceptance,
            comparison.differences.iter().map(one).collect::<Vec<_>>()
        )
    };
    for (comparison, old, new) in [(&calls, &old, &new), (&results, &new, &old)] {
        let emptied = comparison
            .differences
            .iter()
            .any(|one| one.kind == ChangeKind::SchemaEmptied);
        for witness in comparison
            .differences
            .iter()
            .filter_map(|one| one.witness.as_ref())
        {
            let witness: Json = serde_json::from_str(&witness.to_pretty()).unwrap();
            if !old.is_valid(&witness) || new.is_valid(&witness) {
                return Some(format!("{witness} is no witness: {}", told(comparison)));
            }
        }
        let lost = values
            .iter()
            .find(|value| old.is_valid(value) && !new.is_valid(value));
        let gained = values
            .iter()
            .find(|value| !old.is_valid(value) && new.is_valid(value));
        let contradicted = match comparison.acceptance {
            Acceptance::Equal => lost.or(gained),
            Acceptance::Wider => lost,
            Acceptance::Narrower if emptied => None,
            Acceptance::Narrower => gained,
            Acceptance::Incomparable | Acceptance::Undecidable => None,
        };
        if let Some(value) = contradicted {
            return Some(format!("{value} contradicts: {}", told(comparison)));
        }
    }
    None
}

#[test]
fn no_claim_is_contradicted_by_a_validator() {
    // More by hand: `SCHEMA_CASES=30000 cargo test …`.
    let cases = std::env::var("SCHEMA_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(600);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        max_local_rejects: u32::MAX,
        ..Config::default()
    });
    let counts = std::cell::RefCell::new([0; 6]);
    let strategy = (pair(), prop::collection::vec(instance(), 30));
    let outcome = runner.run(&strategy, |((before, after), instances)| {
        match contradiction(&before, &after, &instances, &mut counts.borrow_mut()) {
            Some(found) => Err(TestCaseError::fail(format!("{before}\n{after}\n{found}"))),
            None => Ok(()),
        }
    });
    if let Err(failure) = outcome {
        panic!("{failure} {counts:?}");
    }
    let counts = counts.into_inner();
    assert!(counts[..4].iter().all(|count| *count > 0), "{counts:?}");
    writeln!(
        std::io::stderr(),
        "equal, wider, narrower, incomparable, undecidable, no schema: {counts:?}"
    )
    .unwrap();
}
