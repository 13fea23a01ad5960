//! Clients of other makers through the gate: they see what they see without it.

use std::process::{Command, Stdio};

use crate::peers::path;
use crate::proxy::EXECUTABLE;

/// What a client prints that starts a server by this line, and what is written to stderr.
pub(crate) fn run(client: &[&str], server: &[&str], state: &tempfile::TempDir) -> (String, String) {
    let output = Command::new(client[0])
        .args(&client[1..])
        .args(server)
        .env("MCPINDEX_STATE_DIR", state.path())
        // The Inspector looks for a `../package.json` from wherever it is started.
        .current_dir(path("node_modules"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    (String::from_utf8(output.stdout).unwrap(), stderr)
}

/// The same with and without the gate, the first time and with pins.
fn check(client: &[&str], server: &[&str]) -> String {
    let state = tempfile::tempdir().unwrap();
    let (alone, _) = run(client, server, &state);
    let gated = [&[EXECUTABLE, "gate", "--server", "everything", "--"], server].concat();
    let (first, told) = run(client, &gated, &state);
    assert!(told.contains("mcpindex: everything is new:"), "{told}");
    let (second, told) = run(client, &gated, &state);
    assert!(!told.contains("mcpindex:"), "{told}");
    check_same(&alone, &first);
    check_same(&alone, &second);
    alone
}

/// The same lines; what comes by itself may come before an answer or after it.
pub(crate) fn check_same(alone: &str, gated: &str) {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (alone, gated) = (sorted(alone), sorted(gated));
    for (one, other) in alone.iter().zip(&gated) {
        assert!(one == other, "without: {one:.300}\nwith:    {other:.300}");
    }
    assert_eq!(alone.len(), gated.len());
}

fn everything() -> [String; 3] {
    let script = path("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    ["node".to_owned(), script, "stdio".to_owned()]
}

pub(crate) const OF_EVERYTHING: [&str; 8] = [
    "roots",
    "sampling",
    "elicitation",
    "progress",
    "cancelled",
    "updated",
    "ping",
    "tools",
];

#[test]
fn the_typescript_client_sees_the_same_of_the_everything_server() {
    let server = everything();
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let seen = check(&["node", &path("client.mjs")], &server);
    for what in OF_EVERYTHING {
        assert!(seen.contains(&format!("{{\"{what}\":")), "no {what}");
    }
}

#[test]
fn the_python_client_sees_the_same_of_the_everything_server() {
    let server = everything();
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let seen = check(&[&path("venv/bin/python"), &path("client.py")], &server);
    for what in OF_EVERYTHING {
        assert!(seen.contains(&format!("{{\"{what}\":")), "no {what}");
    }
}

#[test]
fn the_python_client_of_the_new_era_sees_the_same() {
    let python = path("venv/bin/python");
    let seen = check(
        &[&python, &path("client_modern.py")],
        &[&python, &path("server.py")],
    );
    assert!(seen.starts_with("protocol 2026-07-28\n"), "{seen:.300}");
}

#[test]
fn fastmcp_sees_the_same_of_the_everything_server() {
    let server = everything();
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let seen = check(&[&path("venv/bin/python"), &path("fastmcp_client.py")], &server);
    assert!(
        seen.contains("sampled ") && seen.ends_with("ping True\n"),
        "{seen:.300}"
    );
}

#[test]
fn the_inspector_sees_the_same_of_the_everything_server() {
    let server = everything();
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let inspector = path("node_modules/.bin/mcp-inspector-cli");
    let state = tempfile::tempdir().unwrap();
    let variable = format!("MCPINDEX_STATE_DIR={}", state.path().display());
    let asked: [&[&str]; 3] = [
        &["--method", "tools/list"],
        &["--method", "resources/list"],
        &[
            "--method",
            "tools/call",
            "--tool-name",
            "echo",
            "--tool-arg",
            "message=hello",
        ],
    ];
    for method in asked {
        let look = |server: &[&str]| {
            let line = [&["node", &inspector, "--cli", "-e", &variable], server, method].concat();
            run(&line, &[], &state).0
        };
        // Its own arguments end at a `--` as the gate's do, so the gate is started by a shell.
        let gated = format!(
            "exec '{EXECUTABLE}' gate --server everything -- {}",
            server.join(" ")
        );
        assert_eq!(look(&["sh", "-c", &gated]), look(&server), "{method:?}");
    }
    assert!(state.path().join("gate").is_dir(), "the gate was not there");
}
