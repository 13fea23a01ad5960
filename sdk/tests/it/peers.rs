//! The official TypeScript and Python SDKs and servers as foreign peers, pinned in `tests/peers`.

use std::process::Command;

use insta::assert_snapshot;
use mcpindex::inspect::inspect_stdio;
use mcpindex_contract::surface::MemberKind;

use crate::client::look_at;
use crate::http::Listening;
use crate::report::{limits, report};
use crate::stdio::launch;

#[path = "../peers/place.rs"]
mod place;

pub(crate) use place::path;

async fn look(program: &str, args: &[&str]) -> String {
    report(&inspect_stdio(&launch(program, args), &limits()).await)
}

async fn look_over_http(program: &str, script: &str) -> String {
    let server = Listening::start(Command::new(program).args([script, "--http"]));
    report(&look_at(&server.url, &[], &limits()).await)
}

#[tokio::test]
async fn the_typescript_sdk_is_understood_over_both_transports() {
    let over_stdio = look("node", &[&path("server.mjs")]).await;
    assert_snapshot!(over_stdio, @r"
    ok
    protocol: 2025-11-25
    instructions: Keep notes short.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
    assert_eq!(look_over_http("node", &path("server.mjs")).await, over_stdio);
}

#[tokio::test]
async fn the_python_sdk_is_understood_over_both_transports() {
    let python = path("venv/bin/python");
    let over_stdio = look(&python, &[&path("server.py")]).await;
    assert_snapshot!(over_stdio, @r"
    ok
    protocol: 2025-11-25
    instructions: Keep notes short.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
    assert_eq!(look_over_http(&python, &path("server.py")).await, over_stdio);
}

/// It has 12 tools until it has heard that the handshake is done, and 13 from then on.
#[tokio::test]
async fn the_everything_server_shows_its_late_tool_each_time() {
    let script = path("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let mut digests = Vec::new();
    for _ in 0..3 {
        let inspection = inspect_stdio(&launch("node", &[&script, "stdio"]), &limits()).await;
        let surface = inspection.result.unwrap();
        assert_eq!(surface.members_of(MemberKind::Tool).count(), 13);
        assert!(
            surface
                .members_of(MemberKind::Tool)
                .any(|tool| tool.name == "simulate-research-query")
        );
        digests.push(surface.digest());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
}

#[tokio::test]
async fn the_git_server_is_listed() {
    assert_snapshot!(look(&path("venv/bin/mcp-server-git"), &[]).await, @r"
    ok
    protocol: 2025-11-25
    tools: git_status, git_diff_unstaged, git_diff_staged, git_diff, git_commit, git_add, git_reset, git_log, git_create_branch, git_checkout, git_show, git_branch
    prompts: 
    resources: 
    resource-templates:
    ");
}
