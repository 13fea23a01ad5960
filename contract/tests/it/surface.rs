//! The surface digest and the instructions digest.

use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};

fn surface(instructions: Option<&str>, members: &[(MemberKind, &str)]) -> Surface {
    Surface {
        protocol_version: "2025-11-25".to_owned(),
        server_info: None,
        capabilities: None,
        instructions: instructions.and_then(Instructions::read),
        members: members
            .iter()
            .map(|&(kind, text)| Member::read(kind, text))
            .collect(),
        listings: [const { Listing::Complete }; 4],
    }
}

const TOOL_A: (MemberKind, &str) = (MemberKind::Tool, r#"{"name":"a"}"#);
const TOOL_B: (MemberKind, &str) = (MemberKind::Tool, r#"{"name":"b"}"#);
const PROMPT_A: (MemberKind, &str) = (MemberKind::Prompt, r#"{"name":"a"}"#);

#[test]
fn the_lock_formats_instructions_vector_holds() {
    let instructions = Instructions::read("\"Be nice.\"").unwrap();
    assert_eq!(instructions.text, "Be nice.");
    assert_eq!(
        instructions.digest.to_string(),
        "sha256:02695ae4db6dcce17ca65c2e624ab935bdaeefbb8c953a51b7994e679786d733"
    );
    assert_eq!(
        Instructions::read(" \"Be\\u0020nice.\" ").map(|other| other.digest),
        Some(instructions.digest)
    );
}

#[test]
fn instructions_with_a_lone_surrogate_have_a_raw_digest() {
    let instructions = Instructions::read(r#""a\ud800""#).unwrap();
    assert_eq!(instructions.text, "a\u{fffd}");
    assert_eq!(instructions.digest, Digest::of_raw(r#""a\ud800""#));
}

#[test]
fn what_is_no_string_is_no_instructions() {
    for text in ["null", "{}", "[\"a\"]", "1", "", "Be nice."] {
        assert_eq!(Instructions::read(text), None, "{text}");
    }
}

#[test]
fn the_surface_digest_covers_the_documented_text() {
    let digest = |text: &str| Definition::read(text).digest();
    let with_two = surface(Some("\"Be nice.\""), &[TOOL_B, PROMPT_A]);
    let text = format!(
        r#"{{"instructions":"{}","members":[{{"digest":"{}","kind":"prompt","name":"a"}},{{"digest":"{}","kind":"tool","name":"b"}}]}}"#,
        with_two.instructions.as_ref().unwrap().digest,
        digest(PROMPT_A.1),
        digest(TOOL_B.1),
    );
    assert_eq!(with_two.digest(), Digest::of_canonical(&text));
    // The text is canonical as it stands.
    assert_eq!(Definition::read(&text).digested_text(), text);

    let empty = surface(None, &[]);
    let text = r#"{"instructions":null,"members":[]}"#;
    assert_eq!(empty.digest(), Digest::of_canonical(text));
}

#[test]
fn the_order_of_listing_and_meta_do_not_matter() {
    let with_meta = (MemberKind::Tool, r#"{"_meta":{"k":1e99}, "name":"a"}"#);
    let digest = surface(None, &[TOOL_A, TOOL_B, PROMPT_A]).digest();
    assert_eq!(surface(None, &[PROMPT_A, TOOL_B, TOOL_A]).digest(), digest);
    assert_eq!(surface(None, &[TOOL_B, with_meta, PROMPT_A]).digest(), digest);

    let mut other_words = surface(None, &[TOOL_A, TOOL_B, PROMPT_A]);
    other_words.server_info = Some("{}".to_owned());
    other_words.protocol_version = "2024-11-05".to_owned();
    assert_eq!(other_words.digest(), digest);
}

#[test]
fn everything_else_does() {
    let digest = surface(None, &[TOOL_A, TOOL_B]).digest();
    for other in [
        surface(None, &[TOOL_A]),
        surface(None, &[TOOL_A, TOOL_B, TOOL_B]),
        surface(None, &[PROMPT_A, TOOL_B]),
        surface(Some("\"\""), &[TOOL_A, TOOL_B]),
        surface(None, &[TOOL_A, (MemberKind::Tool, r#"{"name":"b","x":null}"#)]),
        surface(None, &[TOOL_A, (MemberKind::Tool, r#"{"name":"b","name":"b"}"#)]),
    ] {
        assert_ne!(other.digest(), digest);
    }
}

#[test]
fn a_name_is_escaped_in_the_digested_text() {
    let odd = surface(None, &[(MemberKind::Resource, r#"{"uri":"x:\"\n\\\u0001é"}"#)]);
    let digest = odd.members[0].definition.digest();
    let text = format!(
        r#"{{"instructions":null,"members":[{{"digest":"{digest}","kind":"resource","name":"x:\"\n\\\u0001é"}}]}}"#
    );
    assert_eq!(odd.digest(), Digest::of_canonical(&text));
}

#[test]
fn members_of_one_name_are_sorted_by_digest() {
    let one = (MemberKind::Tool, r#"{"name":"a","x":1}"#);
    let other = (MemberKind::Tool, r#"{"name":"a","x":2}"#);
    assert_eq!(
        surface(None, &[one, other]).digest(),
        surface(None, &[other, one]).digest()
    );
}

#[test]
fn a_members_name_is_unescaped_however_it_was_escaped() {
    let check = |sent: &str, name: &str| {
        let member = Member::read(
            MemberKind::Tool,
            &format!(r#"{{"name":"{sent}","description":"{sent}"}}"#),
        );
        assert_eq!(member.name, name);
        assert_eq!(member.definition.name(), Some(name));
        assert_eq!(
            Member::read(MemberKind::Tool, &member.definition.digested_text()).name,
            name
        );
    };
    check("plain", "plain");
    check(r#"\\b\"f\n\r\t\b\fé"#, "\\b\"f\n\r\t\u{8}\u{c}é");
    check(r"\\\\n", "\\\\n");
    check(r"a\/b\u0041\n", "a/bA\n");
    check(r"\ud83d\ude00\n", "😀\n");
}
