//! What holds for every JSON text, and for every text at all.

use mcpindex_contract::canonical::canonical;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::json::{Value, read};
use proptest::prelude::*;
use serde_json::value::RawValue;

/// A string with what is awkward in JSON: escapes, both sides of the surrogates, combining marks.
fn awkward_string() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        4 => prop::char::range('a', 'e'),
        2 => prop::sample::select(vec![
            '"', '\\', '/', '~', '\0', '\u{8}', '\n', '\u{1f}', '\u{7f}', 'é', '\u{301}', '\u{d7ff}',
            '\u{e000}', '\u{ffff}', '\u{10000}', '😀', '\u{10ffff}', '\u{f0000}',
        ]),
        1 => any::<char>(),
    ];
    prop::collection::vec(character, 0..12).prop_map(String::from_iter)
}

/// JSON in the range that has a canonical text.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        (-(1_i64 << 53) + 1..1_i64 << 53).prop_map(Into::into),
        any::<f64>()
            .prop_filter("in range", |number| number.abs() < 9e15)
            .prop_map(Into::into),
        (-1e6..1e6).prop_map(Into::into),
        awkward_string().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 24, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec((awkward_string(), inner), 0..24)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Text made of JSON's own pieces, so that much of it is nearly JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let pieces = vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\":",
        " ",
        "\n",
        "\\",
        "\\u",
        "\\n",
        "d800",
        "00e9",
        "dc00",
        "\"\\ud83d\\ude00\"",
        "\"\\ud800\"",
        "0",
        "1",
        "-",
        "+",
        ".",
        "e",
        "E",
        "9",
        "1.5e3",
        "true",
        "false",
        "null",
        "nul",
        "é",
        "\u{0}",
        "\u{7f}",
        "\u{feff}",
        "/",
        "'",
    ];
    prop_oneof![
        prop::collection::vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat()),
        any::<String>(),
    ]
}

/// JSON with one place damaged.
fn damaged_json() -> impl Strategy<Value = String> {
    (json(), any::<prop::sample::Index>(), nearly_json()).prop_map(|(json, place, damage)| {
        let text = json.to_string();
        let mut at = place.index(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        format!("{}{damage}{}", &text[..at], &text[at..])
    })
}

/// Spells the same value another way: members reversed, white space between all tokens.
fn respell(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push_str("\t[ ");
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { " ,\n" } else { "" });
                respell(item, text);
            }
            text.push_str(" ]\r");
        }
        Value::Object(members) => {
            text.push_str("{\n");
            for (index, (name, value)) in members.iter().rev().enumerate() {
                text.push_str(if index > 0 { " , " } else { "" });
                text.push_str(&serde_json::to_string(name).unwrap());
                text.push_str(" : ");
                respell(value, text);
            }
            text.push_str("\n} ");
        }
        scalar => text.push_str(&scalar.to_pretty()),
    }
}

#[track_caller]
fn check_against_serde(text: &str) {
    let ours = read(text);
    let theirs = serde_json::from_str::<&RawValue>(text.trim_matches([' ', '\n', '\r', '\t']));
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{text:?}: {ours:?} {theirs:?}");
    // Where serde_json finds a value too, it is the same one.
    if let (Ok(ours), Ok(theirs)) = (ours, serde_json::from_str::<serde_json::Value>(text))
        && ours.flaws.is_empty()
        && let Ok(canonical) = canonical(&ours.value, None)
    {
        let theirs = serde_json_canonicalizer::to_string(&theirs).unwrap();
        assert_eq!(canonical, theirs, "{text:?}");
    }
}

proptest! {
    #[test]
    fn canonical_text_is_the_oracles(json in json()) {
        let document = read(&json.to_string()).unwrap();
        prop_assert!(document.flaws.is_empty());
        let ours = canonical(&document.value, None).unwrap();
        prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&json).unwrap());
        // And a fixed point.
        let again = read(&ours).unwrap().value;
        prop_assert_eq!(canonical(&again, None).unwrap(), ours);
    }

    #[test]
    fn pretty_text_reads_back(json in json()) {
        let document = read(&json.to_string()).unwrap();
        prop_assert_eq!(read(&document.value.to_pretty()).unwrap(), document);
    }

    #[test]
    fn reading_accepts_what_serde_json_accepts(text in nearly_json()) {
        check_against_serde(&text);
    }

    #[test]
    fn reading_accepts_what_serde_json_accepts_of_damaged_text(text in damaged_json()) {
        check_against_serde(&text);
    }

    #[test]
    fn a_digest_does_not_see_member_order_or_white_space(json in json()) {
        let text = format!("{{\"name\":\"a\",\"x\":{json}}}");
        let definition = Definition::read(&text);
        let mut other = String::new();
        respell(definition.value().unwrap(), &mut other);
        let other = Definition::read(&other);
        prop_assert_eq!(definition.no_digest(), None);
        prop_assert_eq!(other.digest(), definition.digest());
        prop_assert_eq!(contract_hash(&other), contract_hash(&definition));
    }

    #[test]
    fn a_definitions_digest_is_that_of_its_digested_text(text in damaged_json(), meta in damaged_json()) {
        for text in [format!("{{\"a\":{text},\"_meta\":{meta}}}"), text] {
            let definition = Definition::read(&text);
            let again = Definition::read(&definition.digested_text());
            prop_assert_eq!(again.digest(), definition.digest());
            prop_assert_eq!(definition.digest().is_raw(), definition.no_digest().is_some());
            let _ = contract_hash(&definition);
        }
    }

    #[test]
    fn every_member_is_found_by_its_pointer(names in prop::collection::vec(awkward_string(), 1..5)) {
        let mut text = "1".to_owned();
        let mut pointer = String::new();
        for name in &names {
            pointer.push('/');
            pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        }
        for name in names.iter().rev() {
            text = format!("{{{}:{text}}}", serde_json::to_string(name).unwrap());
        }
        let document = read(&text).unwrap();
        prop_assert_eq!(document.value.pointer(&pointer).map(Value::to_pretty), Some("1".to_owned()));
    }
}
