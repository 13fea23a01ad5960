//! `mcpindex status`: one look over hosts, servers and pins.

use std::fs;

use insta::assert_snapshot;
use mcpindex::pins::{Record, Via};
use mcpindex_contract::definition::Definition;
use serde_json::Value;

use crate::review::{Machine, key};

/// 2026-03-01 10:00 UTC.
const MARCH: i64 = 1_772_359_200;

fn pin(record: &mut Record, names: &[&str]) {
    for name in names {
        let definition = Definition::read(&format!(r#"{{"name":"{name}"}}"#));
        record.pin(name, &definition, Via::FirstSight, MARCH);
    }
}

fn write(machine: &Machine, path: &str, text: &str) {
    let path = machine.home().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The text, whose exit code the document shares.
fn status(machine: &Machine) -> String {
    let json = machine.run(&["status", "--json"]);
    let text = machine.run(&["status"]);
    assert_eq!(json.status.code(), text.status.code());
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    let next = document["next"].as_str().unwrap();
    let shown = machine.shown(&text);
    assert!(shown.contains(&format!("next: {next}\n")), "{shown}");
    shown
}

/// Two hosts, of which one has a gate in front of one server.
fn desk() -> Machine {
    let machine = Machine::new();
    write(
        &machine,
        ".cursor/mcp.json",
        r#"{"mcpServers":{
            "docs":{"command":"npx","args":["-y","@acme/docs"]},
            "remote":{"url":"https://mcp.example.com/v1"},
            "old":{"command":"npx","args":["-y","old"],"disabled":true}
        }}"#,
    );
    let wired = machine.run(&["wire", "--yes", "--host", "cursor", "--server", "docs"]);
    assert!(wired.status.success(), "{}", machine.shown(&wired));
    machine
}

#[test]
fn nothing_here_says_where_to_begin() {
    assert_snapshot!(status(&Machine::new()), @r#"
    exit 0
    next: no host's configuration names a server here: `mcpindex gate -- COMMAND` gates one by hand
    --
    "#);
}

#[test]
fn a_desk_is_told_host_by_host_and_what_to_do_next() {
    let machine = desk();
    assert_snapshot!(status(&machine));
    machine.update("npm:@acme/docs", |record| pin(record, &["search", "fetch"]));
    machine.update("npm:elsewhere", |record| pin(record, &["list"]));
    machine.update("npm:@acme/docs", |record| {
        record.hold(
            "fetch",
            &Definition::read(r#"{"name":"fetch","title":"x"}"#),
            &["title-added"],
            MARCH,
        );
    });
    assert_snapshot!(status(&machine));
    assert_snapshot!(machine.shown(&machine.run(&["status", "--json"])));
}

#[test]
fn what_can_not_be_read_is_named() {
    let machine = desk();
    machine.update("npm:@acme/docs", |record| pin(record, &["search"]));
    write(
        &machine,
        ".codeium/windsurf/mcp_config.json",
        "{\"mcpServers\": {\n  oops\n}}",
    );
    let file = machine.state.gate().join(key("npm:@acme/docs").file_name());
    fs::write(file, "{}").unwrap();
    fs::write(machine.state.gate().join("stray.json"), "x").unwrap();
    // What is wrong with pins, the pins say themselves.
    let said = [(
        r"the pins of npm:@acme/docs can't be read: .*",
        "the pins of npm:@acme/docs can't be read: WHY",
    )];
    insta::with_settings!({filters => said}, { assert_snapshot!(status(&machine)) });
}

#[test]
fn the_published_clients_servers_and_pins_are_mentioned() {
    let machine = Machine::new();
    write(
        &machine,
        ".cursor/mcp.json",
        r#"{"mcpServers":{"docs":{
            "command":"uvx",
            "args":["--from","mcpindex-gate==0.19.0","mcpindex-proxy","--mcpindex-stdio","--server-id=docs","--upstream-command=npx","--upstream-arg=-y","--upstream-arg=@acme/docs"],
            "_mcpindexWired":{"marker":"mcpindex","original":{"command":"npx","args":["-y","@acme/docs"]}}
        }}}"#,
    );
    let pins = machine.state.path().join("pins");
    fs::create_dir_all(&pins).unwrap();
    fs::write(pins.join("broken.json"), "{").unwrap();
    assert_snapshot!(status(&machine));
}
