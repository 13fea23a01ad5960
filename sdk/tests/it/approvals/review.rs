//! `mcpindex review` where an organisation decides: what it says of what is held, and what is submitted to it.

use std::process::Command;

use insta::assert_snapshot;
use mcpindex::approvals::Cache;
use mcpindex::pins::Via;
use mcpindex_contract::approval::Decision;
use mcpindex_contract::definition::Definition;
use serde_json::Value;

use super::following::{Followed, until_head};
use super::stand_in::{Index, key};
use crate::proxy::until;
use crate::review::{Machine, Terminal};

const SERVER: &str = "npm:docs";
const READ: &str = r#"{"name":"read","description":"Reads a note."}"#;
const READ_ALL: &str = r#"{"name":"read","description":"Reads every note."}"#;
const SEND: &str = r#"{"name":"send","description":"Sends a note."}"#;
const DROP: &str = r#"{"name":"drop","description":"Drops a note."}"#;
const RAW: &str = r#"{"name":"raw","x":1,"x":2}"#;

/// One tool changed, two are new, and of one more nothing can be pinned.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.update(SERVER, |record| {
        record.pin("read", &Definition::read(READ), Via::FirstSight, 1_772_359_200);
        for text in [READ_ALL, SEND, DROP, RAW] {
            let definition = Definition::read(text);
            let name = definition.name().unwrap().to_owned();
            record.hold(&name, &definition, &["code"], 1_772_400_000);
        }
    });
    machine
}

fn command(machine: &Machine, index: &Index, arguments: &[&str]) -> Command {
    let mut command = machine.command(arguments);
    command
        .env("MCPINDEX_WEB_BASE", index.base.as_str())
        .env("MCPINDEX_API_KEY", key());
    command
}

fn terminal(machine: &Machine, index: &Index) -> Command {
    let mut command = command(machine, index, &["review"]);
    command.env("NO_COLOR", "1");
    command
}

fn shown(machine: &Machine, index: &Index, arguments: &[&str]) -> String {
    let output = command(machine, index, arguments).output().unwrap();
    machine.shown(&output).replace(index.base.as_str(), "INDEX/")
}

/// What the index decided is kept on the machine, as a gate keeps it.
async fn heard(machine: &Machine, index: &Index) {
    let tools = [(SEND, Decision::Refuse), (DROP, Decision::Approve)];
    for (text, decision) in tools {
        let definition = Definition::read(text);
        let tool = definition.name().unwrap();
        index.now(|says| {
            says.chain
                .add(SERVER, tool, definition.digest(), decision, |record| {
                    record.reason = Some("sends to “anybody”".to_owned());
                });
        });
    }
    let followed = Followed::start(index, &machine.state);
    until_head(&followed.approvals, 2).await;
    let cache = Cache::of(&machine.state, &index.base);
    until("it is kept", || cache.path().exists()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_says_what_the_organisation_decided_about_it() {
    let (machine, index) = (machine(), Index::start().await);
    heard(&machine, &index).await;
    let mut person = Terminal::start(terminal(&machine, &index), 100);
    let mut all = person.until_asked();
    for _ in 0..3 {
        all.push_str(&person.types("s"));
    }
    all.push_str(&person.types_last("q\n"));
    assert_snapshot!(all);
    let output = command(&machine, &index, &["review", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["servers"][0]["rows"].as_array().unwrap().iter();
    let held = rows.flat_map(|row| row["held"].as_array().unwrap());
    let said: Vec<String> = held
        .map(|held| format!("{} {}", held["name"], held["organisation"]["state"]))
        .collect();
    assert_snapshot!(said.join("\n"), @r#"
    "raw" null
    "drop" "approved"
    "send" "refused"
    "read" null
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_and_undecided_is_submitted_and_nothing_is_decided_by_that() {
    let (machine, index) = (machine(), Index::start().await);
    heard(&machine, &index).await;
    let before = machine.record(SERVER);
    let said = shown(
        &machine,
        &index,
        &["review", "--submit", "--note", "for the release"],
    );
    assert_snapshot!(said, @"
    exit 0
    2 definitions are decided by the organisation already: not submitted
    1 held item is no tool that something can be pinned to: not submitted, `mcpindex review` shows it
    1 definition in the queue of INDEX/: https://index.example/approvals
    --
    ");
    assert_eq!(machine.record(SERVER), before);
    let submitted = serde_json::to_string_pretty(&index.submitted()).unwrap();
    assert_snapshot!(submitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_is_submitted_by_a_letter_and_stays() {
    let (machine, index) = (machine(), Index::start().await);
    let mut person = Terminal::start(terminal(&machine, &index), 100);
    person.until_asked();
    let not_this = person.types("o");
    assert!(
        not_this.starts_with("the organisation decides about tools"),
        "{not_this}"
    );
    person.types("s");
    let sent = person.types("o");
    assert_snapshot!(sent.replace(index.base.as_str(), "INDEX/"));
    assert_eq!(index.submitted().len(), 1);
    person.types_last("q\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_submitted_some_at_a_time() {
    let (machine, index) = (Machine::new(), Index::start().await);
    machine.update(SERVER, |record| {
        for number in 0..230 {
            let text = format!(r#"{{"name":"tool-{number}"}}"#);
            record.hold(&format!("tool-{number}"), &Definition::read(&text), &[], 0);
        }
    });
    let said = shown(&machine, &index, &["review", "--submit"]);
    assert!(said.contains("230 definitions in the queue of INDEX/"), "{said}");
    let sizes: Vec<usize> = index
        .submitted()
        .iter()
        .map(|body| body["requests"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [100, 100, 30]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_submitted_is_one_line() {
    let (machine, index) = (machine(), Index::start().await);
    let mut said = vec![
        machine.shown(&machine.run(&["review", "--submit"])),
        shown(&machine, &index, &["review", "--note", "x"]),
        shown(&machine, &index, &["review", "--submit", "--note", "a\nb"]),
    ];
    for status in [401, 403, 404, 500, 503] {
        index.now(|says| says.failing = Some(status));
        said.push(shown(&machine, &index, &["review", "--submit"]));
    }
    assert_snapshot!(said.join("\n"));
}
