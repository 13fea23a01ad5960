//! RFC 8785 text: key order, number form, escapes, and what has no canonical text.

use mcpindex_contract::canonical::canonical;
use mcpindex_contract::digest::NoDigest;
use mcpindex_contract::json::read;

#[track_caller]
fn check(text: &str, expected: &str) {
    let value = read(text).unwrap().value;
    assert_eq!(canonical(&value, None).as_deref(), Ok(expected));
}

#[track_caller]
fn check_out_of_range(text: &str, pointer: &str) {
    let value = read(text).unwrap().value;
    let pointer = pointer.to_owned();
    assert_eq!(
        canonical(&value, None),
        Err(NoDigest::NumberOutOfRange { pointer }),
        "{text}"
    );
}

#[test]
fn white_space_goes_and_members_are_sorted_at_every_level() {
    check(
        " { \"b\" : [ { \"d\" : null , \"c\" : true } , false ] , \"a\" : { } , \"\" : [ ] } ",
        r#"{"":[],"a":{},"b":[{"c":true,"d":null},false]}"#,
    );
    check(
        r#"{"ab":1,"a":2,"B":3,"a b":4}"#,
        r#"{"B":3,"a":2,"a b":4,"ab":1}"#,
    );
}

#[test]
fn members_are_sorted_by_utf_16_code_units() {
    // The example of RFC 8785 §3.2.3: the emoji's surrogates come before U+FB33.
    check(
        r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
        "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
    );
    check(
        "{\"\u{ffff}\":1,\"\u{10000}\":2,\"\u{10ffff}\":3,\"\u{e000}\":4,\"\u{d7ff}\":5,\"\u{e000}a\":6}",
        "{\"\u{d7ff}\":5,\"\u{10000}\":2,\"\u{10ffff}\":3,\"\u{e000}\":4,\"\u{e000}a\":6,\"\u{ffff}\":1}",
    );
}

#[test]
fn strings_are_escaped_no_more_than_json_asks() {
    check(
        r#""\u0000\u0007\u0008\u0009\u000a\u000b\u000c\u000d\u001f\u0020\"\\\/\u007f\u2028\u00e9\ud83d\ude00""#,
        "\"\\u0000\\u0007\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\u{7f}\u{2028}é😀\"",
    );
}

#[test]
fn numbers_are_written_as_ecmascript_does() {
    check(
        "[0,-0,-0.0,0e5,1.0,1,4.50,2e-3,0.000001,1e-7,5e-324,-1.5E2,333333333.33333329,1e15]",
        "[0,0,0,0,1,1,4.5,0.002,0.000001,1e-7,5e-324,-150,333333333.3333333,1000000000000000]",
    );
    check(
        "[999999999999999,9007199254740991,-9007199254740991,0.1e1]",
        "[999999999999999,9007199254740991,-9007199254740991,1]",
    );
}

#[test]
fn a_number_too_small_for_a_double_is_zero() {
    check("[1e-400,-1e-400,1e-99999999999]", "[0,0,0]");
}

#[test]
fn a_number_of_2_to_53_or_more_has_no_canonical_text() {
    check_out_of_range("9007199254740992", "");
    check_out_of_range("[1,-9007199254740992]", "/1");
    check_out_of_range(r#"{"b":{"a/b":[0,{"~":1e21}]},"a":1}"#, "/b/a~1b/1/~0");
    check_out_of_range("1e400", "");
    check_out_of_range("-1e400", "");
    check_out_of_range("123456789012345678901234567890", "");
    // It rounds to 2^53.
    check_out_of_range("9007199254740991.9", "");
}

#[test]
fn one_top_level_member_can_be_left_out() {
    let value = read(r#"{"b":{"_meta":1},"_meta":{"x":1e99},"a":1}"#)
        .unwrap()
        .value;
    assert_eq!(
        canonical(&value, Some("_meta")).as_deref(),
        Ok(r#"{"a":1,"b":{"_meta":1}}"#)
    );
    let array = read(r#"[{"_meta":1}]"#).unwrap().value;
    assert_eq!(
        canonical(&array, Some("_meta")).as_deref(),
        Ok(r#"[{"_meta":1}]"#)
    );
}
