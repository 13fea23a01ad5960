//! A definition's digest, its raw digest where there is none, and its `_meta` beside it.

use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::{Digest, NoDigest};

fn duplicate(pointer: &str) -> NoDigest {
    let pointer = pointer.to_owned();
    NoDigest::DuplicateMember { pointer }
}

fn lone(pointer: &str) -> NoDigest {
    let pointer = pointer.to_owned();
    NoDigest::LoneSurrogate { pointer }
}

/// The definition's digest covers `canonical`.
#[track_caller]
fn check(text: &str, canonical: &str) -> Definition {
    let tool = Definition::read(text);
    assert_eq!(tool.no_digest(), None, "{text}");
    assert_eq!(tool.digested_text(), canonical);
    assert_eq!(tool.digest(), Digest::of_canonical(canonical));
    assert_eq!(Definition::read(&tool.digested_text()).digest(), tool.digest());
    assert_eq!(tool.text(), text);
    tool
}

/// The definition has but a raw digest, for this reason.
#[track_caller]
fn check_raw(text: &str, reason: NoDigest) -> Definition {
    let tool = Definition::read(text);
    assert_eq!(tool.no_digest(), Some(&reason), "{text}");
    assert_eq!(tool.digested_text(), text);
    assert_eq!(tool.digest(), Digest::of_raw(text));
    assert_eq!(Definition::read(&tool.digested_text()).digest(), tool.digest());
    assert_eq!(tool.text(), text);
    tool
}

#[track_caller]
fn check_meta(tool: &Definition, digest: Digest, text: &str) {
    let meta = tool.meta().unwrap();
    assert_eq!((meta.digest, meta.text.as_str()), (digest, text));
}

#[test]
fn the_lock_formats_vectors_hold() {
    let digest = |text: &str| Definition::read(text).digest().to_string();
    assert_eq!(
        digest(r#"{"name":"a","inputSchema":{"type":"object"}}"#),
        "sha256:60d4353e9a5499b483d09f13d9e28060e70f34edf787bb7040ba30bd390f85af"
    );
    for text in [r#"{"name":"a","x":1.0}"#, r#"{ "x": 1, "name": "a" }"#] {
        assert_eq!(
            digest(text),
            "sha256:71eb714270fadd7cec47653fb0c74c06d65c6df272847705b4f1dd41e858e404"
        );
    }
    let with_meta = Definition::read(r#"{"name":"a","_meta":{"k":1}}"#);
    assert_eq!(
        with_meta.meta().unwrap().digest.to_string(),
        "sha256:a0da1fce57d0e4f9f0ae4e4cbe040d34dcc046255c6c8d18e97f55aaed0655f0"
    );
}

#[test]
fn the_digest_covers_every_member_but_top_level_meta() {
    let tool = check(
        r#"{ "name": "a", "later": {"_meta": 1}, "_meta": {"k": 1.0} }"#,
        r#"{"later":{"_meta":1},"name":"a"}"#,
    );
    check_meta(&tool, Digest::of_canonical(r#"{"k":1}"#), r#"{"k":1}"#);
    assert_eq!(check(r#"{"name":"a"}"#, r#"{"name":"a"}"#).meta(), None);
    // `null` was sent, so it is there.
    let tool = check(r#"{"_meta":null}"#, "{}");
    check_meta(&tool, Digest::of_canonical("null"), "null");
}

#[test]
fn views_read_the_members_as_sent() {
    let tool = Definition::read(
        r#"{"name":"a","title":"A","description":"b\n","inputSchema":{"type":"object"},"x":1e400}"#,
    );
    assert_eq!(tool.name(), Some("a"));
    assert_eq!(tool.title(), Some("A"));
    assert_eq!(tool.description(), Some("b\n"));
    assert_eq!(tool.input_schema(), tool.value().unwrap().pointer("/inputSchema"));
    assert!(tool.member("x").is_some());
    let odd = Definition::read(r#"{"name":1,"title":null}"#);
    assert_eq!((odd.name(), odd.title(), odd.description()), (None, None, None));
    assert_eq!(odd.input_schema(), None);
}

#[test]
fn a_flaw_leaves_a_raw_digest_and_the_reason() {
    check_raw(r#"{"name":"a","name":"b"}"#, duplicate("/name"));
    check_raw(r#"{"name":"a","x":{"y":[{"z":1,"z":1}]}}"#, duplicate("/x/y/0/z"));
    check_raw(r#"{"name":"\ud800"}"#, lone("/name"));
    check_raw(r#"{"name":"a","\ud800":1}"#, lone(""));
    // The first of several.
    check_raw(r#"{"a":"\ud800","b":{"c":1,"c":1}}"#, lone("/a"));
}

#[test]
fn a_number_out_of_range_leaves_a_raw_digest() {
    let pointer = || "/x/0".to_owned();
    let tool = check_raw(
        r#"{"name":"a","x":[9007199254740993],"_meta":{"k":1}}"#,
        NoDigest::NumberOutOfRange { pointer: pointer() },
    );
    // What can be read still can be, and `_meta` has its own digest.
    assert_eq!(tool.name(), Some("a"));
    check_meta(&tool, Digest::of_canonical(r#"{"k":1}"#), r#"{"k":1}"#);
}

#[test]
fn what_is_no_object_has_a_raw_digest() {
    for text in ["[]", "\"a\"", "null", "1", "1e999"] {
        check_raw(text, NoDigest::NotAnObject);
    }
}

#[test]
fn what_can_not_be_read_has_a_raw_digest() {
    for text in ["", "{", "{\"name\":\"a\"} x", "{'a':1}", "{\"a\":NaN}"] {
        let tool = check_raw(text, NoDigest::NotJson);
        assert_eq!((tool.value(), tool.name(), tool.meta()), (None, None, None));
    }
    let too_deep = format!("{{\"name\":{}", "[".repeat(5_000));
    check_raw(&too_deep, NoDigest::TooDeep);
}

#[test]
fn depth_is_counted_from_the_definition() {
    let tool = |member: &str, levels: usize| {
        format!("{{\"{member}\":{}1{}}}", "[".repeat(levels), "]".repeat(levels))
    };
    let deepest = tool("x", 511);
    check(&deepest, &deepest);
    check_raw(&tool("x", 512), NoDigest::TooDeep);
    // `_meta` keeps its level in the definition, as in the lock format, and its depth is its own affair.
    let definition = check(&tool("_meta", 511), "{}");
    assert!(!definition.meta().unwrap().digest.is_raw());
    let definition = check(&tool("_meta", 512), "{}");
    let meta = format!("{}1{}", "[".repeat(512), "]".repeat(512));
    check_meta(&definition, Digest::of_raw(&meta), &meta);
}

#[test]
fn what_is_wrong_inside_meta_takes_only_the_meta_digest() {
    for meta in [
        r#"{"k":1, "k":2}"#,
        r#""\ud800""#,
        r#"{"\ud800":[ ]}"#,
        r#"{ "k": [1e400] }"#,
        "9007199254740992",
        r#"{"a":{"b":1,"b":{"c":"\udfff"}}}"#,
    ] {
        let text = format!("{{\"a\":1,\"_meta\" : {meta} ,\"b\":2}}");
        let tool = check(&text, r#"{"a":1,"b":2}"#);
        check_meta(&tool, Digest::of_raw(meta), meta);
    }
    // Escapes in the name don't hide it.
    let tool = check(r#"{"\u005fmeta":[1e400]}"#, "{}");
    check_meta(&tool, Digest::of_raw("[1e400]"), "[1e400]");
}

#[test]
fn a_flawed_meta_hides_no_flaw_outside() {
    let tool = check_raw(r#"{"_meta":{"k":1,"k":2},"x":{"y":1,"y":2}}"#, duplicate("/x/y"));
    check_meta(&tool, Digest::of_raw(r#"{"k":1,"k":2}"#), r#"{"k":1,"k":2}"#);
    check_raw(r#"{"_metadata":{"k":1,"k":2}}"#, duplicate("/_metadata/k"));
    check_raw(r#"{"x":{"_meta":{"k":1,"k":2}}}"#, duplicate("/x/_meta/k"));
}

#[test]
fn a_second_meta_is_the_definitions_flaw() {
    let tool = check_raw(r#"{"_meta":{"k":1},"a":1,"_meta":2}"#, duplicate("/_meta"));
    check_meta(&tool, Digest::of_canonical(r#"{"k":1}"#), r#"{"k":1}"#);
}

#[test]
fn definitions_are_equal_when_their_texts_are() {
    let text = r#"{"name":"a"}"#;
    assert_eq!(Definition::read(text), Definition::read(text));
    assert_ne!(Definition::read(text), Definition::read(r#"{"name": "a"}"#));
}
