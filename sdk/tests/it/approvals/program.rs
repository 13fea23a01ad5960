//! `mcpindex gate --approvals index` with real processes.

use std::process::Stdio;

use insta::assert_snapshot;
use mcpindex_contract::approval::Decision;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::identity::Identity;
use serde_json::Value;
use tokio::process::Command;

use super::stand_in::{Index, key};
use crate::proxy::{EXECUTABLE, Gated, until};
use crate::stdio::FIXTURE;

const OBEYING: [&str; 4] = ["--server", "notes", "--approvals", "index"];

/// The fixture behind a gate that obeys this index, in a directory that may have been used before.
struct Machine {
    gated: Gated,
    identity: String,
}

impl Machine {
    fn start(directory: tempfile::TempDir, index: &Index, fixture: &[&str]) -> Machine {
        let log = directory.path().join("log");
        let server = [&[FIXTURE, "gated", log.to_str().unwrap()], fixture].concat();
        let launch: Vec<String> = server.iter().map(|&word| word.to_owned()).collect();
        let identity = Identity::from_launch(&launch).unwrap().identity.to_string();
        let key = key();
        let variables = [
            ("MCPINDEX_WEB_BASE", index.base.as_str()),
            ("MCPINDEX_API_KEY", key.as_str()),
            ("MCPINDEX_DRIFT_TELEMETRY", ""),
        ];
        Machine {
            gated: Gated::start_within(directory, &variables, &OBEYING, &server),
            identity,
        }
    }

    fn decide(&self, index: &Index, tool: &Value, decision: Decision) {
        let digest = digest(tool);
        index.decide(&self.identity, tool["name"].as_str().unwrap(), digest, decision);
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(self.gated.file("stderr")).unwrap()
    }

    async fn until_said(&self, part: &str) {
        until(part, || self.stderr().contains(part)).await;
    }
}

fn digest(tool: &Value) -> Digest {
    Definition::read(&tool.to_string()).digest()
}

fn tool(listing: &Value, name: &str) -> Value {
    let tools = listing["result"]["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap().clone()
}

#[tokio::test]
async fn a_decision_reaches_a_gate_at_work_and_holds_without_the_index() {
    let index = Index::start().await;
    let mut machine = Machine::start(tempfile::tempdir().unwrap(), &index, &[]);
    let listing = machine.gated.shake_hands().await;
    let read_note = tool(&listing, "read_note");
    assert!(machine.gated.call("1", "read_note").await["result"].is_object());
    machine.decide(&index, &read_note, Decision::Refuse);
    // Nobody calls: the client hears by itself that its list changed.
    loop {
        let heard = machine.gated.hear().await;
        if heard["method"] == "notifications/tools/list_changed" {
            break;
        }
    }
    let before = machine.gated.calls();
    let held = machine.gated.call("2", "read_note").await;
    assert_eq!(held["error"]["code"], -32010);
    assert_eq!(held["error"]["data"]["class"], "organisation-refused");
    assert_eq!(machine.gated.calls(), before, "it did not reach the server");
    // The index is gone, and the next gate holds it from its first listing on.
    index.now(|says| says.failing = Some(503));
    machine.gated.end().await;
    let mut again = Machine::start(machine.gated.directory, &index, &[]);
    let listing = again.gated.shake_hands().await;
    let names = listing["result"]["tools"].as_array().unwrap().iter();
    assert!(names.clone().all(|tool| tool["name"] != "read_note"), "{listing}");
    let held = again.gated.call("3", "read_note").await;
    assert_eq!(held["error"]["data"]["class"], "organisation-refused");
    again.until_said("is not heard: it answered 503").await;
    assert_eq!(again.gated.calls(), before);
}

#[tokio::test]
async fn what_drifted_is_released_by_an_approval() {
    let index = Index::start().await;
    let mut machine = Machine::start(
        tempfile::tempdir().unwrap(),
        &index,
        &["change-after=1", "announce"],
    );
    machine.gated.shake_hands().await;
    machine.gated.call("1", "read_note").await;
    let held = loop {
        let answer = machine.gated.call("2", "read_note").await;
        if answer["error"].is_object() {
            break answer;
        }
    };
    let declared = held["error"]["data"]["digests"]["declared"].as_str().unwrap();
    index.decide(
        &machine.identity,
        "read_note",
        declared.parse().unwrap(),
        Decision::Approve,
    );
    machine
        .until_said("is shown as the organisation approved it (decision 1)")
        .await;
    assert!(machine.gated.call("3", "read_note").await["result"].is_object());
}

/// How the gate ends where it can't obey anybody.
async fn refused(variables: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(EXECUTABLE)
        .args(["gate", "--approvals", "index", "--", "true"])
        .env("MCPINDEX_STATE_DIR", directory.path())
        .env("MCPINDEX_WEB_BASE", "")
        .env("MCPINDEX_API_KEY", "")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(!directory.path().join("gate").exists(), "nothing was started");
    format!(
        "exit {}\n{}",
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test]
async fn without_an_index_or_a_key_no_gate_is_started() {
    let key = key();
    let cases = [
        refused(&[]).await,
        refused(&[("MCPINDEX_WEB_BASE", "https://index.example")]).await,
        refused(&[
            ("MCPINDEX_WEB_BASE", "http://index.example"),
            ("MCPINDEX_API_KEY", &key),
        ])
        .await,
        refused(&[("MCPINDEX_WEB_BASE", "index")]).await,
    ];
    assert_snapshot!(cases.join("\n"));
}

#[tokio::test]
async fn without_the_option_nothing_is_asked_and_nothing_is_kept() {
    let index = Index::start().await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let server = [FIXTURE, "gated", log.to_str().unwrap()];
    let key = key();
    let variables = [
        ("MCPINDEX_WEB_BASE", index.base.as_str()),
        ("MCPINDEX_API_KEY", key.as_str()),
        ("MCPINDEX_DRIFT_TELEMETRY", ""),
    ];
    let mut gated = Gated::start_within(directory, &variables, &["--server", "notes"], &server);
    gated.shake_hands().await;
    gated.call("1", "read_note").await;
    gated.end().await;
    assert!(index.asked().is_empty(), "{:?}", index.asked());
    assert!(!gated.file("state").join("gate/approvals").exists());
}
