//! Schemas made to hurt: every comparison ends, within a small stack and a bounded number of steps.

use mcpindex_contract::change::{Change, ChangeKind, Direction};
use mcpindex_contract::diff::diff_member;
use mcpindex_contract::json::{Value, read};
use mcpindex_contract::schema::{
    Acceptance, Comparison, Difference, OVER_LIMIT, compare_input, compare_output,
};
use mcpindex_contract::surface::{Member, MemberKind};
use std::fmt::Write as _;

fn schema(text: &str) -> Value {
    read(text).unwrap().value
}

/// Compares in a thread whose stack is no larger than a worker's.
fn compared(before: String, after: String) -> Comparison {
    let work = move || {
        let (before, after) = (schema(&before), schema(&after));
        let comparison = compare_input(&before, &after);
        let size: usize = comparison
            .differences
            .iter()
            .map(|one| one.before.as_ref().map_or(0, String::len) + one.after.as_ref().map_or(0, String::len))
            .sum();
        assert!(size < 4 << 20, "{size} bytes of differences");
        compare_output(&before, &after);
        compare_input(&after, &before);
        comparison
    };
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .unwrap()
        .join()
        .unwrap()
}

#[track_caller]
fn check(before: String, after: String, expected: Acceptance) {
    let comparison = compared(before, after);
    let kinds: Vec<_> = comparison
        .differences
        .iter()
        .take(8)
        .map(|one| (one.kind.name(), &one.pointer))
        .collect();
    assert_eq!(comparison.acceptance, expected, "{kinds:?}");
}

fn nested(levels: usize, inner: &str, open: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn nesting_past_the_bound_is_undecidable_and_named() {
    for (open, close) in [
        (r#"{"properties":{"a":"#, "}}"),
        (r#"{"items":"#, "}"),
        (r#"{"anyOf":[{"type":"null"},"#, "]}"),
        (r#"{"allOf":["#, "]}"),
        (r#"{"oneOf":[{"type":"null"},"#, "]}"),
        (r#"{"not":"#, "}"),
        (r#"{"if":true,"then":"#, "}"),
        (r#"{"additionalProperties":"#, "}"),
        (r#"{"contains":"#, "}"),
        (r#"{"propertyNames":"#, "}"),
        (r#"{"dependentSchemas":{"a":"#, "}}"),
        (r#"{"patternProperties":{"a":"#, "}}"),
        (r#"{"unevaluatedProperties":"#, "}"),
        (r#"{"x":"#, "}"),
        (r#"{"const":"#, "}"),
        (r#"{"default":["#, "]}"),
    ] {
        for levels in [20, 70, 300, 1_000] {
            let comparison = compared(
                nested(levels, r#"{"type":"string"}"#, open, close),
                nested(levels, r#"{"type":"number"}"#, open, close),
            );
            assert!(!comparison.differences.is_empty(), "{open} {levels}");
        }
    }
    let properties = |inner| nested(500, inner, r#"{"properties":{"a":"#, "}}");
    let comparison = compared(
        properties(r#"{"type":"string"}"#),
        properties(r#"{"type":"number"}"#),
    );
    assert_eq!(comparison.acceptance, Acceptance::Undecidable);
    assert!(
        comparison
            .differences
            .iter()
            .any(|one| one.kind.name() == "deep-schema-undiffable")
    );
}

#[test]
fn circles_of_references_end() {
    let circle = |more: &str| {
        format!(
            r##"{{"$ref":"#/$defs/a","$defs":{{"a":{{"$ref":"#/$defs/b"}},"b":{{"$ref":"#/$defs/a"}}}}{more}}}"##
        )
    };
    check(circle(""), circle(r#","maxLength":3"#), Acceptance::Undecidable);
    let own = |more: &str| format!(r##"{{"anyOf":[{{"$ref":"#"}},{{"type":"string"{more}}}]}}"##);
    check(own(""), own(r#","maxLength":3"#), Acceptance::Undecidable);
    // A tree is no circle: each step goes into the value.
    let tree = |leaf: &str| {
        format!(
            r##"{{"$ref":"#/$defs/n","$defs":{{"n":{{"type":"object","properties":{{"l":{leaf},"n":{{"type":"array","items":{{"$ref":"#/$defs/n"}}}}}}}}}}}}"##
        )
    };
    check(
        tree(r#"{"type":"integer"}"#),
        tree(r#"{"type":"number"}"#),
        Acceptance::Wider,
    );
    check(
        tree(r#"{"type":"number"}"#),
        tree(r#"{"type":"integer"}"#),
        Acceptance::Narrower,
    );
    let list = |word: &str, more: &str| {
        format!(
            r##"{{"$ref":"#/{word}/n","{word}":{{"n":{{"type":"object","properties":{{"n":{{"$ref":"#/{word}/n"}}{more}}}}}}}}}"##
        )
    };
    check(list("$defs", ""), list("definitions", ""), Acceptance::Equal);
    check(list("$defs", ""), list("$defs", r#","m":{}"#), Acceptance::Wider);
    let must = |more: &str| {
        format!(r##"{{"type":"object","properties":{{"n":{{"$ref":"#"}}{more}}},"required":["n"]}}"##)
    };
    compared(must(""), must(r#","m":{}"#));
}

#[test]
fn unions_that_multiply_end() {
    let product = |last: &str| {
        let mut text = r#"{"allOf":["#.to_owned();
        for group in 0..20 {
            text.push_str(r#"{"anyOf":["#);
            for branch in 0..20 {
                write!(
                    text,
                    r#"{{"properties":{{"p{group}":{{"const":{branch}}}}},"additionalProperties":{{}}}},"#
                )
                .unwrap();
            }
            write!(text, r#"{{"type":"string"{last}}}]}},"#).unwrap();
        }
        text + "true]}"
    };
    compared(product(""), product(r#","maxLength":3"#));
    let doubled = |leaf: &str| {
        let mut text = format!(r#"{{"$ref":"{}/d0","$defs":{{"#, "#/$defs");
        for level in 0..40 {
            let next = level + 1;
            write!(
                text,
                r##""d{level}":{{"oneOf":[{{"properties":{{"a":{{"$ref":"#/$defs/d{next}"}}}}}},{{"items":{{"$ref":"#/$defs/d{next}"}}}}]}},"##
            )
            .unwrap();
        }
        write!(text, r#""d40":{leaf}}}}}"#).unwrap();
        text
    };
    compared(doubled(r#"{"type":"string"}"#), doubled(r#"{"type":"number"}"#));
    let nested_any = |leaf: &str| {
        (0..60).fold(leaf.to_owned(), |inner, _| {
            format!(r#"{{"anyOf":[{inner},{{"minimum":1}},{{"maxLength":2}}]}}"#)
        })
    };
    compared(
        nested_any(r#"{"type":"string"}"#),
        nested_any(r#"{"type":"number"}"#),
    );
}

#[test]
fn large_schemas_end() {
    let wide = |count: usize, property: &str| {
        let mut text = r#"{"type":"object","properties":{"#.to_owned();
        for index in 0..count {
            let comma = if index > 0 { "," } else { "" };
            write!(text, r#"{comma}"p{index}":{property}"#).unwrap();
        }
        text + "}}"
    };
    check(
        wide(500, r#"{"type":"string"}"#),
        wide(500, r#"{"type":"string","maxLength":5}"#),
        Acceptance::Narrower,
    );
    check(
        wide(5_000, r#"{"type":"string"}"#),
        wide(5_001, r#"{"type":"string"}"#),
        Acceptance::Wider,
    );
    compared(
        wide(9_000, r#"{"type":"string","minLength":1}"#),
        wide(9_000, r#"{"type":"string","minLength":2}"#),
    );
    let constants = |count: usize| {
        let list: Vec<String> = (0..count).map(|index| format!("\"value {index}\"")).collect();
        list.join(",")
    };
    let listed = |count: usize| format!(r#"{{"properties":{{"a":{{"enum":[{}]}}}}}}"#, constants(count));
    check(listed(200), listed(201), Acceptance::Wider);
    compared(listed(25_000), listed(25_001));
    let branches: Vec<String> = (0..7_000)
        .map(|index| format!(r#"{{"const":"value {index}"}}"#))
        .collect();
    let branches = format!(r#"{{"properties":{{"a":{{"anyOf":[{}]}}}}}}"#, branches.join(","));
    compared(listed(7_000), branches.clone());
    compared(branches, listed(7_000));
    let names = |count: usize| format!(r#"{{"type":"object","required":[{}]}}"#, constants(count));
    compared(names(25_000), names(25_001));
    let long = "a".repeat(500 << 10);
    compared(
        format!(r#"{{"const":"{long}"}}"#),
        format!(r#"{{"const":"{long}b"}}"#),
    );
    compared(
        format!(r#"{{"description":"{long}"}}"#),
        format!(r#"{{"pattern":"{long}b"}}"#),
    );
    check(
        r#"{"type":"string"}"#.to_owned(),
        r#"{"type":"string","minLength":90000000000}"#.to_owned(),
        Acceptance::Narrower,
    );
    compared(
        r#"{"type":"array"}"#.to_owned(),
        r#"{"type":"array","maxItems":90000000000}"#.to_owned(),
    );
    compared(
        r#"{"minimum":1e400000000}"#.to_owned(),
        r#"{"minimum":1e-400000000}"#.to_owned(),
    );
    compared(
        format!(r#"{{"minimum":{}}}"#, "9".repeat(100_000)),
        format!(r#"{{"minimum":0.{}}}"#, "9".repeat(100_000)),
    );
}

/// Compares two schemas that are too large: only that they differ is said, and why no more.
fn check_over_limit(before: &str, after: &str) {
    let [before, after] = [before, after].map(schema);
    for compare in [compare_input, compare_output] {
        let comparison = compare(&before, &after);
        assert_eq!(comparison.acceptance, Acceptance::Undecidable);
        let [difference] = &comparison.differences[..] else {
            panic!("{} differences", comparison.differences.len());
        };
        assert_eq!(difference.kind, ChangeKind::DeepSchemaUndiffable);
        assert_eq!(difference.rule, Some(OVER_LIMIT));
        assert_eq!((difference.pointer.as_str(), &difference.witness), ("", &None));
        let excerpts = [&difference.before, &difference.after];
        assert!(
            excerpts
                .iter()
                .all(|side| side.as_ref().is_some_and(|text| text.len() < 4_096))
        );
        assert_eq!(compare(&before, &before).acceptance, Acceptance::Equal);
    }
}

#[test]
fn schemas_past_the_limit_are_not_compared() {
    let list = |count: usize, last: &str| format!(r#"{{"x":[{}"{last}"]}}"#, "0,".repeat(count));
    // Two objects, two lists and their items: 60,000 values.
    check(list(29_997, "a"), list(29_997, "b"), Acceptance::Equal);
    check_over_limit(&list(29_997, "a"), &list(29_998, "a"));
    let text = |length: usize| format!(r#"{{"description":"{}"}}"#, "a".repeat(length));
    let half = (1 << 19) - "description".len();
    check(text(half), text(half - 1), Acceptance::Equal);
    check_over_limit(&text(half), &text(half + 1));
    let number = |digits: usize| format!(r#"{{"const":{}}}"#, "9".repeat(digits));
    check_over_limit(&number(1 << 20), &number(2));
    let arguments = |count: usize| {
        let arguments: Vec<String> = (0..count)
            .map(|index| format!(r#""p{index}":{{"type":"string"}}"#))
            .collect();
        format!(r#"{{"properties":{{{}}}}}"#, arguments.join(","))
    };
    check_over_limit(&arguments(200_000), &arguments(200_001));
}

/// What is past the longest list of differences may be a text: the rest is never called benign with the whole.
#[test]
fn differences_past_the_longest_list_stay_open() {
    let arguments = |bound: &str, text: &str| {
        let arguments: Vec<String> = (0..600)
            .map(|index| format!(r#""p{index}":{{"type":"integer",{bound}}}"#))
            .collect();
        let last = format!(r#""z":{{"description":"{text}"}}"#);
        format!(
            r#"{{"properties":{{{},{last}}},"required":["z"]}}"#,
            arguments.join(",")
        )
    };
    let (strict, plain) = (r#""exclusiveMinimum":0"#, r#""minimum":1"#);
    let (before, after) = (arguments(strict, "one"), arguments(plain, "two"));
    for compare in [compare_input, compare_output] {
        let comparison = compare(&schema(&before), &schema(&after));
        assert_eq!(comparison.acceptance, Acceptance::Equal);
        let open = |one: &Difference| one.kind == ChangeKind::DeepSchemaUndiffable;
        assert!(comparison.differences.iter().any(open));
    }
    // Nor where what the one promises of its results is more than what the other does.
    let after = arguments(r#""minimum":2"#, "two");
    assert_eq!(
        compare_output(&schema(&before), &schema(&after)).acceptance,
        Acceptance::Wider
    );
    let tool = |schema: &str| {
        let text = format!(r#"{{"name":"a","outputSchema":{schema}}}"#);
        Member::read(MemberKind::Tool, &text)
    };
    let changes = diff_member(&tool(&before), &tool(&after));
    let is_open = |change: &Change| change.kind.direction() == Direction::Opaque;
    assert!(changes.iter().any(is_open));
}

#[test]
fn patterns_are_never_run() {
    let bombs = [
        "(a+)+$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*.*)*x",
        "((((a{9999}){9999}){9999}){9999})",
        "(a|a?)+$",
    ];
    for bomb in bombs {
        compared(
            format!(r#"{{"pattern":"{bomb}"}}"#),
            format!(r#"{{"pattern":"{bomb}b"}}"#),
        );
        compared(
            format!(r#"{{"patternProperties":{{"{bomb}":{{"type":"null"}}}}}}"#),
            r#"{"type":"object"}"#.to_owned(),
        );
    }
    let groups = |count: usize| format!(r#"{{"pattern":"{}{}"}}"#, "(".repeat(count), ")".repeat(count));
    compared(groups(15), groups(2_000));
}

#[test]
fn what_is_no_schema_is_compared_without_a_claim() {
    let odd = [
        "null",
        "1",
        r#""a""#,
        "[]",
        r#"{"type":"no such"}"#,
        r#"{"type":7}"#,
        r#"{"properties":[]}"#,
        r#"{"properties":{"a":1}}"#,
        r#"{"required":"a"}"#,
        r#"{"required":[1]}"#,
        r#"{"anyOf":{}}"#,
        r#"{"anyOf":[]}"#,
        r#"{"enum":{}}"#,
        r#"{"minimum":"1"}"#,
        r#"{"minLength":-1}"#,
        r#"{"minLength":0.5}"#,
        r#"{"multipleOf":0}"#,
        r#"{"$ref":1}"#,
        r##"{"$ref":"#/no/such"}"##,
        r#"{"$ref":"https://example.com/schema"}"#,
        r#"{"items":1}"#,
        r#"{"not":[]}"#,
        r#"{"pattern":1}"#,
        r#"{"dependentRequired":[]}"#,
        r#"{"patternProperties":{"a":1}}"#,
        r#"{"if":1,"then":false}"#,
        r#"{"const":9007199254740993}"#,
        r#"{"propertyNames":3}"#,
    ];
    for one in odd {
        for other in odd {
            let comparison = compared(one.to_owned(), other.to_owned());
            assert_eq!(
                comparison.acceptance == Acceptance::Equal,
                one == other,
                "{one} {other}"
            );
            assert_eq!(comparison.differences.is_empty(), one == other, "{one} {other}");
        }
    }
}
