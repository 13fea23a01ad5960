//! `mcpindex check`: each answer with its reasons and its exit code.

use insta::assert_snapshot;
use mcpindex::check::CODES;
use mcpindex::pins::{Record, Via};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::surface::Instructions;
use serde_json::Value;

use crate::review::{Machine, key};

/// 2026-03-01 10:00 UTC.
const MARCH: i64 = 1_772_359_200;

fn pin(record: &mut Record, name: &str, via: Via) {
    let definition = Definition::read(&format!(r#"{{"name":"{name}"}}"#));
    record.pin(name, &definition, via, MARCH);
}

fn hold(record: &mut Record, name: &str) -> String {
    let definition = Definition::read(&format!(r#"{{"name":"{name}","title":"New"}}"#));
    record.hold(name, &definition, &["title-added"], MARCH);
    definition.digest().to_string()
}

/// A machine on which one server was seen, with this record.
fn machine(change: impl FnOnce(&mut Record)) -> Machine {
    let machine = Machine::new();
    machine.update("npm:docs", change);
    machine
}

/// The text's exit code and the document's verdict and codes, which must agree.
fn check(machine: &Machine, arguments: &[&str]) -> String {
    let text = machine.run(&[&["check"], arguments].concat());
    let json = machine.run(&[&["check", "--json"], arguments].concat());
    let code = text.status.code().unwrap();
    assert_eq!(json.status.code(), Some(code));
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["exitCode"], code);
    let reasons = document["reasons"].as_array().unwrap();
    for reason in reasons {
        let known = CODES.iter().any(|(name, _)| reason["code"] == *name);
        assert!(known, "{reason}");
        assert!(!reason["sentence"].as_str().unwrap().is_empty(), "{reason}");
    }
    machine.shown(&text)
}

#[test]
fn what_a_person_approved_is_ready() {
    let machine = machine(|record| pin(record, "search", Via::Approved));
    assert_snapshot!(check(&machine, &["npm:docs", "search"]), @r#"
    exit 0
    ready: search on npm:docs
      approved  A person approved exactly this definition.
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs@2.0.0"]), @r#"
    exit 0
    ready: npm:docs
      tools-pinned  The one tool that was seen of it is pinned, and not held.
    --
    "#);
}

#[test]
fn what_was_pinned_at_first_sight_is_ready_and_said_to_be_just_that() {
    let machine = machine(|record| {
        pin(record, "search", Via::FirstSight);
        pin(record, "fetch", Via::Imported);
        let seen = Definition::read(r#"{"name":"search","title":"Search"}"#);
        record.accept("search", &seen, MARCH);
    });
    assert_snapshot!(check(&machine, &["npm:docs", "search"]), @r#"
    exit 0
    ready: search on npm:docs
      pinned-first-sight  Pinned when the server was first seen; no person has approved it.
      accepted-since  The server declared it differently since, and the gate judged the difference benign.
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs", "fetch"]), @r#"
    exit 0
    ready: fetch on npm:docs
      pinned-imported  Taken over from the pins of the published client.
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs"]), @r#"
    exit 0
    ready: npm:docs
      tools-pinned  2 tools are pinned, and none is held.
    --
    "#);
}

#[test]
fn what_is_held_needs_a_person() {
    let machine = machine(|record| {
        pin(record, "search", Via::FirstSight);
        pin(record, "fetch", Via::FirstSight);
        hold(record, "search");
        hold(record, "delete");
        let old = Instructions::read(r#""Old.""#);
        record.pin_instructions(old.as_ref(), Some(r#""Old.""#), Via::FirstSight, MARCH);
        let new = Instructions::read(r#""New.""#);
        record.pin_instructions(new.as_ref(), Some(r#""New.""#), Via::FirstSight, MARCH);
    });
    assert_snapshot!(check(&machine, &["npm:docs", "search"]), @r#"
    exit 11
    needs a person: search on npm:docs
      held  The server declared it differently than it is pinned, and nobody has approved that: title-added.
      instructions-held  The server's instructions to the model changed, and nobody has approved them yet.
      `mcpindex review` shows it, and takes the decision
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs", "fetch"]), @r#"
    exit 0
    ready: fetch on npm:docs
      pinned-first-sight  Pinned when the server was first seen; no person has approved it.
      instructions-held  The server's instructions to the model changed, and nobody has approved them yet.
      `mcpindex review` shows it, and takes the decision
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs"]), @r#"
    exit 11
    needs a person: npm:docs
      held  2 of 3 tools held: delete, search.
      instructions-held  The server's instructions to the model changed, and nobody has approved them yet.
      `mcpindex review` shows it, and takes the decision
    --
    "#);
}

#[test]
fn what_was_refused_and_never_anything_else_needs_a_person() {
    let machine = machine(|record| {
        pin(record, "search", Via::FirstSight);
        let digest = hold(record, "delete");
        record.refuse("delete", &digest, MARCH);
    });
    assert_snapshot!(check(&machine, &["npm:docs", "delete"]), @r#"
    exit 11
    needs a person: delete on npm:docs
      refused  A person refused what the server declared.
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs"]), @r#"
    exit 0
    ready: npm:docs
      tools-pinned  The one tool that was seen of it is pinned, and not held.
      refused  Refused by a person, and left out: delete.
    --
    "#);
}

#[test]
fn what_was_never_seen_is_unknown_and_what_is_not_there_is_said_so() {
    let machine = machine(|record| pin(record, "search", Via::FirstSight));
    machine.update("npm:silent", |record| {
        record.pin_instructions(None, None, Via::FirstSight, MARCH);
    });
    assert_snapshot!(check(&machine, &["npm:other"]), @r#"
    exit 10
    unknown: npm:other
      never-seen  No gate of this machine has seen the server.
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:silent", "search"]), @r#"
    exit 10
    unknown: search on npm:silent
      no-tool-seen  A gate has seen the server, and no tool of it yet.
    --
    "#);
    assert_snapshot!(check(&machine, &["npm:docs", "delete"]), @r#"
    exit 12
    no such server or tool: delete on npm:docs
      no-such-tool  The server never listed a tool of this name.
    --
    "#);
    let unknown = check(&machine, &["docs"]);
    assert!(
        unknown.starts_with("exit 12\nno such server or tool\n  no-such-server  `docs` names no server"),
        "{unknown}"
    );
}

#[test]
fn pins_that_can_not_be_read_are_never_ready() {
    let machine = machine(|record| pin(record, "search", Via::Approved));
    let file = machine.state.gate().join(key("npm:docs").file_name());
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, whole.replace("search", "delete")).unwrap();
    let altered = check(&machine, &["npm:docs", "search"]);
    assert!(
        altered.starts_with("exit 11\nneeds a person: search on npm:docs\n  pins-altered  "),
        "{altered}"
    );
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let broken = check(&machine, &["npm:docs", "search"]);
    assert!(
        broken.starts_with("exit 11\nneeds a person: search on npm:docs\n  pins-unreadable  "),
        "{broken}"
    );
    std::fs::remove_file(&file).unwrap();
    let gone = check(&machine, &["npm:docs"]);
    assert!(
        gone.starts_with("exit 11\nneeds a person: npm:docs\n  pins-gone  "),
        "{gone}"
    );
}

#[test]
fn the_document_names_what_is_pinned_and_what_is_held() {
    let machine = machine(|record| {
        pin(record, "search", Via::FirstSight);
        hold(record, "search");
    });
    assert_snapshot!(machine.shown(&machine.run(&["check", "npm:docs", "search", "--json"])));
}
