//! What the strict reader takes, what it refuses, and how it names what is flawed.

use mcpindex_contract::json::{Flaw, FlawKind, MAX_DEPTH, ReadError, Value, read};

#[track_caller]
fn value(text: &str) -> Value {
    read(text).unwrap().value
}

#[track_caller]
fn check_refused(text: &str, offset: usize, expected: &'static str) {
    assert_eq!(
        read(text),
        Err(ReadError::Syntax { offset, expected }),
        "{text:?}"
    );
}

#[track_caller]
fn check_flaws(text: &str, flaws: &[(FlawKind, &str)]) {
    let flaws: Vec<Flaw> = flaws
        .iter()
        .map(|&(kind, pointer)| Flaw {
            kind,
            pointer: pointer.to_owned(),
        })
        .collect();
    assert_eq!(read(text).unwrap().flaws, flaws, "{text}");
}

#[test]
fn members_keep_their_order_and_numbers_their_text() {
    let read = value(r#" {"b":[1.0,-0,1e400,12345678901234567890123],"a":{"z":true,"y":null},"c":false} "#);
    insta::assert_snapshot!(read.to_pretty(), @r#"
    {
      "b": [
        1.0,
        -0,
        1e400,
        12345678901234567890123
      ],
      "a": {
        "z": true,
        "y": null
      },
      "c": false
    }
    "#);
}

#[test]
fn strings_are_unescaped() {
    let text = value(r#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00 é😀\u0000""#);
    assert_eq!(text.as_str(), Some("\"\\/\u{8}\u{c}\n\r\tAé€😀 é😀\0"));
}

#[test]
fn a_long_string_is_read_whole_wherever_its_escape_stands() {
    for before in 0..20 {
        for after in 0..20 {
            let (before, after) = ("x".repeat(before), "é".repeat(after));
            let text = value(&format!(r#""{before}\n{after}""#));
            assert_eq!(text.as_str(), Some(format!("{before}\n{after}").as_str()));
        }
    }
}

#[test]
fn every_white_space_of_json_is_skipped_and_no_other() {
    assert_eq!(
        value("\t\r\n [ 1 , { \"a\" : 2 } , [ ] , { } ] \n"),
        value(r#"[1,{"a":2},[],{}]"#)
    );
    check_refused("\u{a0}1", 0, "a value");
    check_refused("1\u{c}", 1, "the end of the text");
}

#[test]
fn what_is_not_json_is_refused_with_the_place() {
    check_refused("", 0, "a value");
    check_refused("  ", 2, "a value");
    check_refused("\u{feff}{}", 0, "a value");
    check_refused("{} x", 3, "the end of the text");
    check_refused("1 2", 2, "the end of the text");
    check_refused("[1,]", 3, "a value");
    check_refused("[1 2]", 3, "`,` or `]`");
    check_refused("[1", 2, "`,` or `]`");
    check_refused("[", 1, "a value");
    check_refused("]", 0, "a value");
    check_refused("{", 1, "a member name");
    check_refused("{a:1}", 1, "a member name");
    check_refused("{\"a\":1,}", 7, "a member name");
    check_refused("{\"a\" 1}", 5, "`:`");
    check_refused("{\"a\":}", 5, "a value");
    check_refused("{\"a\":1 \"b\":2}", 7, "`,` or `}`");
    check_refused("[1}", 2, "`,` or `]`");
    check_refused("{\"a\":1]", 6, "`,` or `}`");
    check_refused("'a'", 0, "a value");
    check_refused("// c\n1", 0, "a value");
}

#[test]
fn words_that_are_not_json_are_refused() {
    check_refused("NaN", 0, "a value");
    check_refused("[Infinity]", 1, "a value");
    check_refused("-Infinity", 1, "a digit");
    check_refused("True", 0, "a value");
    check_refused("nul", 0, "a value");
    check_refused("nulls", 4, "the end of the text");
    check_refused("undefined", 0, "a value");
}

#[test]
fn numbers_outside_the_grammar_are_refused() {
    check_refused("01", 1, "the end of the text");
    check_refused("-01", 2, "the end of the text");
    check_refused("-", 1, "a digit");
    check_refused("+1", 0, "a value");
    check_refused(".5", 0, "a value");
    check_refused("1.", 2, "a digit");
    check_refused("1.e5", 2, "a digit");
    check_refused("1e", 2, "a digit");
    check_refused("1e+", 3, "a digit");
    check_refused("0x10", 1, "the end of the text");
    check_refused("1_000", 1, "the end of the text");
    check_refused("\u{0661}", 0, "a value");
}

#[test]
fn strings_outside_the_grammar_are_refused() {
    check_refused("\"abc", 4, "`\"`");
    check_refused("\"", 1, "`\"`");
    check_refused("\"a\nb\"", 2, "an escape in place of a control character");
    check_refused(
        "\"12345678\u{1f}\"",
        9,
        "an escape in place of a control character",
    );
    check_refused("{\"a\0\":1}", 3, "an escape in place of a control character");
    check_refused(r#""\x41""#, 2, "an escape character");
    check_refused(r#""\"#, 2, "an escape character");
    check_refused(r#""\u12""#, 3, "four hex digits");
    check_refused(r#""\u12é4""#, 3, "four hex digits");
    check_refused(r#""\u+123""#, 3, "four hex digits");
    check_refused(r#""\ud800\u12""#, 9, "four hex digits");
    // A delete character and what lies beyond ASCII stand for themselves.
    assert_eq!(value("\"\u{7f}\u{80}\"").as_str(), Some("\u{7f}\u{80}"));
}

#[test]
fn a_duplicate_member_is_kept_and_named() {
    use FlawKind::DuplicateMember;
    let text = r#"{"a":1,"b":2,"a":3}"#;
    check_flaws(text, &[(DuplicateMember, "/a")]);
    assert_eq!(value(text).get("a"), Some(&value("1")));
    assert!(matches!(value(text), Value::Object(members) if members.len() == 3));
    // Names are compared unescaped.
    check_flaws(r#"{"a":1,"\u0061":3}"#, &[(DuplicateMember, "/a")]);
    check_flaws(r#"{"":1,"":3}"#, &[(DuplicateMember, "/")]);
    check_flaws(
        r#"{"x":[{},{"a/b":{"m~n":1,"m~n":2}}]}"#,
        &[(DuplicateMember, "/x/1/a~1b/m~0n")],
    );
    check_flaws(r#"[{"a":{"a":1}},{"a":{"a":1}}]"#, &[]);
}

#[test]
fn a_duplicate_among_many_members_is_named() {
    let mut members: Vec<String> = (0..100_000)
        .map(|index| format!("\"k{index}\":{index}"))
        .collect();
    check_flaws(&format!("{{{}}}", members.join(",")), &[]);
    members.push("\"k777\":0".to_owned());
    members.push("\"k5\":0".to_owned());
    check_flaws(
        &format!("{{{}}}", members.join(",")),
        &[(FlawKind::DuplicateMember, "/k777")],
    );
}

#[test]
fn a_lone_surrogate_reads_as_u_fffd_and_is_named() {
    use FlawKind::LoneSurrogate;
    let text = r#"{"a":["x",{"b":"1\ud800 2"}]}"#;
    check_flaws(text, &[(LoneSurrogate, "/a/1/b")]);
    assert_eq!(
        value(text).pointer("/a/1/b").and_then(Value::as_str),
        Some("1\u{fffd} 2")
    );
    check_flaws(r#""\udc00""#, &[(LoneSurrogate, "")]);
    check_flaws(r#"["\ud800\ud800"]"#, &[(LoneSurrogate, "/0")]);
    check_flaws(r#"["\ud800\u0041"]"#, &[(LoneSurrogate, "/0")]);
    assert_eq!(value(r#""\ud800\u0041""#).as_str(), Some("\u{fffd}A"));
    assert_eq!(value(r#""\ud800\ud83d\ude00""#).as_str(), Some("\u{fffd}😀"));
    assert_eq!(value(r#""\ude00\ud83d""#).as_str(), Some("\u{fffd}\u{fffd}"));
    check_flaws(r#"["\ud83d\ude00"]"#, &[]);
    // A name's flaw is its object's.
    check_flaws(r#"{"a":{"b":1,"\ud800":1}}"#, &[(LoneSurrogate, "/a")]);
    check_flaws(r#"{"\ud800":1}"#, &[(LoneSurrogate, "")]);
}

#[test]
fn each_top_level_member_names_its_first_flaw() {
    use FlawKind::{DuplicateMember, LoneSurrogate};
    check_flaws(
        r#"{"a":["\ud800","\ud801",{"x":1,"x":2}],"b":{"x":1,"x":"\ud800"},"c":"","a":1,"b":2}"#,
        &[
            (LoneSurrogate, "/a/0"),
            (LoneSurrogate, "/b/x"),
            (DuplicateMember, "/a"),
        ],
    );
    check_flaws(
        r#"[["\ud800","\ud800"],0,"\ud800"]"#,
        &[(LoneSurrogate, "/0/0"), (LoneSurrogate, "/2")],
    );
}

#[test]
fn text_at_the_depth_limit_is_read_and_one_level_more_is_refused() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(
        read(&nested(MAX_DEPTH + 1)),
        Err(ReadError::TooDeep { offset: MAX_DEPTH })
    );
    // The refusal needs no end of the text.
    assert_eq!(
        read(&"{\"a\":".repeat(1_000_000)),
        Err(ReadError::TooDeep {
            offset: MAX_DEPTH * 5
        })
    );
}

#[test]
fn an_error_says_in_one_line_what_was_expected_where() {
    insta::assert_snapshot!(read("[1,]").unwrap_err(), @"not JSON at byte 3: expected a value");
    insta::assert_snapshot!(read(&"[".repeat(3_000)).unwrap_err(), @"nested deeper than 2048 levels at byte 2048");
}

#[test]
fn a_pointer_finds_what_rfc_6901_says() {
    // The example of RFC 6901 §5.
    let document = value(
        r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#,
    );
    let check = |pointer: &str, expected: Option<&str>| {
        let found = document.pointer(pointer).map(Value::to_pretty);
        assert_eq!(found.as_deref(), expected, "{pointer}");
    };
    assert_eq!(document.pointer(""), Some(&document));
    check("/foo/0", Some("\"bar\""));
    check("/", Some("0"));
    check("/a~1b", Some("1"));
    check("/c%d", Some("2"));
    check("/i\\j", Some("5"));
    check("/k\"l", Some("6"));
    check("/ ", Some("7"));
    check("/m~0n", Some("8"));
    check("/foo/2", None);
    check("/foo/-", None);
    check("/foo/00", None);
    check("/foo/+1", None);
    check("/foo/99999999999999999999", None);
    check("/foo/0/x", None);
    check("/none", None);
    check("foo", None);
    assert_eq!(value(r#"{"~1":1}"#).pointer("/~01"), Some(&value("1")));
}

#[test]
fn empty_containers_stay_on_one_line_in_pretty_text() {
    let read = value(r#"{"a":[],"b":{},"c":[[],{"d":"\u0007\"é"}],"c":1}"#);
    insta::assert_snapshot!(read.to_pretty(), @r#"
    {
      "a": [],
      "b": {},
      "c": [
        [],
        {
          "d": "\u0007\"é"
        }
      ],
      "c": 1
    }
    "#);
    assert_eq!(value("[]").to_pretty(), "[]");
    assert_eq!(value("1.50").to_pretty(), "1.50");
}

#[test]
fn pretty_text_does_not_outgrow_what_was_read() {
    // Indented throughout, this would be two thousand times as long.
    let text = format!(
        "[{}]",
        vec![format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000)); 20].join(",")
    );
    let pretty = value(&text).to_pretty();
    assert!(pretty.len() < 2 * text.len(), "{}", pretty.len());
    assert_eq!(read(&pretty).unwrap().value, value(&text));
    let text = format!(
        "{}{}{}",
        "[".repeat(32),
        vec!["1"; 1_000].join(","),
        "]".repeat(32)
    );
    let pretty = value(&text).to_pretty();
    assert!(pretty.len() < 35 * text.len(), "{}", pretty.len());
}
