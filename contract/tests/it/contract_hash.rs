//! The published clients' contract hash, by vectors and by the text of its preimage.

use mcpindex_contract::contract_hash::{NoContractHash, contract_hash};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;

fn hash(tool: &str) -> Result<String, NoContractHash> {
    contract_hash(&Definition::read(tool))
}

/// A tool whose schema is `{"s":SCHEMA}` hashes the preimage that has `expected` there.
#[track_caller]
fn check(schema: &str, expected: &str) {
    let tool = format!(r#"{{"name":"n","inputSchema":{{"s":{schema}}}}}"#);
    let preimage = format!(r#"{{"description":"","input_schema":{{"s":{expected}}},"name":"n"}}"#);
    assert_eq!(
        hash(&tool),
        Ok(Digest::of_canonical(&preimage).to_string()),
        "{schema} should be hashed as {expected}"
    );
}

#[test]
fn the_published_example_holds() {
    assert_eq!(
        hash(
            r#"{"name":"search_docs","description":"Search the docs.","inputSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}"#
        )
        .as_deref(),
        Ok("sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10")
    );
    assert_eq!(
        hash(
            r#"{"name":"search_docs","title":"not covered","description":"Search the docs.","inputSchema":{"required":["q","token"],"type":"object","properties":{"token":{"type":"string"},"q":{"type":"string"}}}}"#
        )
        .as_deref(),
        Ok("sha256:b33b6351e21b326a04cb79a2d0499a3033e571f701aa87cf97153cf4f98fd711")
    );
}

#[test]
fn what_is_absent_is_hashed_as_empty() {
    let expected = r#"{"description":"","input_schema":{},"name":"n"}"#;
    for tool in [
        r#"{"name":"n"}"#,
        r#"{"name":"n","description":null,"inputSchema":null}"#,
        r#"{"name":"n","inputSchema":[1],"_meta":{"x":1},"outputSchema":{}}"#,
    ] {
        assert_eq!(hash(tool), Ok(Digest::of_canonical(expected).to_string()));
    }
}

#[test]
fn whole_numbers_are_their_digits_and_others_strings_in_c_form() {
    check("[0,-0,-7,9007199254740993]", "[0,0,-7,9007199254740993]");
    check("123456789012345678901234567890", "123456789012345678901234567890");
    check("0.5", r#""5.00000000000000000e-01""#);
    check("1.0", r#""1.00000000000000000e+00""#);
    check("1E3", r#""1.00000000000000000e+03""#);
    check("-0.0", r#""0.00000000000000000e+00""#);
    check("-0e1", r#""0.00000000000000000e+00""#);
    check("0.1", r#""1.00000000000000006e-01""#);
    check("-2.5e-7", r#""-2.49999999999999989e-07""#);
    check("1e100", r#""1.00000000000000002e+100""#);
    check("1.7976931348623157e308", r#""1.79769313486231571e+308""#);
    check("5e-324", r#""4.94065645841246544e-324""#);
    check("1e-400", r#""0.00000000000000000e+00""#);
    // Exactly between two: to the even digit, as C does.
    check("1.000003814697265625", r#""1.00000381469726562e+00""#);
    check("1.000011444091796875", r#""1.00001144409179688e+00""#);
}

#[test]
fn strings_are_nfc_and_ascii() {
    check(r#""e\u0301""#, r#""\u00e9""#);
    check("\"é😀\u{7f}/\"", r#""\u00e9\ud83d\ude00\u007f/""#);
    check(
        r#""\"\\\b\f\n\r\t\u0001\u001f""#,
        r#""\"\\\b\f\n\r\t\u0001\u001f""#,
    );
}

#[test]
fn a_string_that_looks_like_a_float_or_starts_with_nul_gets_a_nul() {
    check(
        r#""5.00000000000000000e-01""#,
        r#""\u00005.00000000000000000e-01""#,
    );
    check(
        r#""-5.00000000000000000e+123""#,
        r#""\u0000-5.00000000000000000e+123""#,
    );
    check(r#""\u0000abc""#, r#""\u0000\u0000abc""#);
    for other in [
        r#""5.0000000000000000e-01""#,
        r#""5.00000000000000000e-1""#,
        r#""5.00000000000000000e01""#,
        r#""55.00000000000000000e-01""#,
        r#""5.00000000000000000e-01 ""#,
        r#""+5.00000000000000000e-01""#,
        r#""5.00000000000000000E-01""#,
        r#""""#,
    ] {
        check(other, other);
    }
    check(
        r#""\u0661.00000000000000000e-01""#,
        r#""\u0661.00000000000000000e-01""#,
    );
}

#[test]
fn names_are_nfc_and_sorted_by_code_point() {
    check(r#"{"b":1,"e\u0301":2,"a":3}"#, r#"{"a":3,"b":1,"\u00e9":2}"#);
    // By code point, where RFC 8785 would put the emoji first.
    check(
        r#"{"\ud83d\ude00":1,"\ufb33":2}"#,
        // U+FB33 decomposes under NFC.
        r#"{"\u05d3\u05bc":2,"\ud83d\ude00":1}"#,
    );
    check(
        r#"{"\ud83d\ude00":1,"\uffee":2}"#,
        r#"{"\uffee":2,"\ud83d\ude00":1}"#,
    );
}

#[test]
fn names_that_nfc_would_merge_are_kept() {
    check(
        r#"{"\u00e9":1,"e\u0301":2,"a\u030a":3}"#,
        r#"{"e\u0301":2,"\u00e5":3,"\u00e9":1}"#,
    );
}

#[test]
fn the_last_of_duplicate_members_is_hashed() {
    check(r#"{"a":1,"b":0,"a":2}"#, r#"{"a":2,"b":0}"#);
    assert_eq!(hash(r#"{"name":"m","name":"n"}"#), hash(r#"{"name":"n"}"#));
    assert_eq!(
        hash(r#"{"name":"n","inputSchema":{"a":1},"inputSchema":{}}"#),
        hash(r#"{"name":"n"}"#)
    );
}

#[test]
fn lone_surrogates_are_hashed_as_what_they_are() {
    check(r#""x\ud800""#, r#""x\ud800""#);
    check(r#""\uDFFF\ud83d\ude00""#, r#""\udfff\ud83d\ude00""#);
    check(r#""e\ud800\u0301""#, r#""e\ud800\u0301""#);
    // Characters that the reader marks surrogates with stay themselves.
    check(
        r#""\udbff\udfff\udb80\udc00\ud800""#,
        r#""\udbff\udfff\udb80\udc00\ud800""#,
    );
    check("\"\u{10ffff}\u{f0000}\"", r#""\udbff\udfff\udb80\udc00""#);
    check(
        r#"{"\uffee":1,"\ud801":2,"\ud800":3,"\ue000":4,"\ud7ff":5}"#,
        r#"{"\ud7ff":5,"\ud800":3,"\ud801":2,"\ue000":4,"\uffee":1}"#,
    );
}

#[test]
fn the_depth_limit_counts_scalars() {
    // The preimage is level 0, the schema 1, what `s` holds 2.
    let nested = |arrays: usize| format!("{}1{}", "[".repeat(arrays), "]".repeat(arrays));
    check(&nested(62), &nested(62));
    let tool = |arrays| format!(r#"{{"name":"n","inputSchema":{{"s":{}}}}}"#, nested(arrays));
    assert_eq!(hash(&tool(63)), Err(NoContractHash::TooDeep));
    assert_eq!(hash(&tool(2_000)), Err(NoContractHash::TooDeep));
    assert_eq!(hash(&tool(3_000)), Err(NoContractHash::NotATool));
    // What is not hashed is not counted.
    assert_eq!(
        hash(&format!(r#"{{"name":"n","x":{}}}"#, nested(100))),
        hash(r#"{"name":"n"}"#)
    );
}

#[test]
fn a_number_beyond_doubles_has_no_hash() {
    for number in ["1e400", "-1.0e999"] {
        let tool = format!(r#"{{"name":"n","inputSchema":{{"s":{number}}}}}"#);
        assert_eq!(hash(&tool), Err(NoContractHash::NotFinite));
    }
}

#[test]
fn what_is_no_tool_has_no_hash() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"name":null}"#,
        r#"{"name":1}"#,
        r#"{"name":"n","description":1}"#,
    ] {
        assert_eq!(hash(text), Err(NoContractHash::NotATool), "{text}");
    }
}
