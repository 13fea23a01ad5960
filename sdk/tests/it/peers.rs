//! The official TypeScript and Python SDKs and servers as foreign peers, pinned in `tests/peers`.
//!
//! `MCPINDEX_TEST_PEERS` names the directory where `tests/peers/install` has put them. Without it the script is run here,
//! once for all tests of a run; no test is left out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use insta::assert_snapshot;
use mcpindex::inspect::inspect_stdio;
use mcpindex_contract::surface::MemberKind;

use crate::client::look_at;
use crate::http::Listening;
use crate::report::{limits, report};
use crate::stdio::launch;

static PEERS: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os("MCPINDEX_TEST_PEERS") {
    Some(directory) => PathBuf::from(directory),
    None => install(),
});

fn install() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("peers");
    std::fs::create_dir_all(&directory).unwrap();
    // Other test processes may have come to the same idea: the lock goes when the file is closed.
    let lock = File::create(directory.join("lock")).unwrap();
    lock.lock().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/install");
    let status = Command::new(&script).arg(&directory).status().unwrap();
    assert!(
        status.success(),
        "`{}` failed: it needs node, npm, python3 and their registries",
        script.display()
    );
    directory
}

pub(crate) fn path(name: &str) -> String {
    PEERS.join(name).to_str().unwrap().to_owned()
}

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
