//! Servers behind a URL: each way to answer has a result of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use mcpindex::wire::limits::Limits;

use crate::client::look_at;
use crate::report::{limits, report};
use crate::stdio::FIXTURE;

/// A server process whose first line is its URL; ended when dropped.
pub(crate) struct Listening {
    child: Child,
    pub(crate) url: String,
}

impl Listening {
    pub(crate) fn start(command: &mut Command) -> Listening {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        Listening {
            child,
            url: url.trim().to_owned(),
        }
    }

    pub(crate) fn fixture(scenario: &str) -> Listening {
        Listening::start(Command::new(FIXTURE).args(["--http", scenario]))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn look_within(scenario: &str, limits: &Limits) -> String {
    let server = Listening::fixture(scenario);
    report(&look_at(&server.url, &[], limits).await)
}

async fn look(scenario: &str) -> String {
    look_within(scenario, &limits()).await
}

#[tokio::test]
async fn a_session_is_kept_and_every_request_names_the_version() {
    assert_snapshot!(look("plain").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn an_answer_may_come_as_a_stream_with_other_messages_in_it() {
    assert_snapshot!(look("sse").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    server asked: ping
    ");
}

#[tokio::test]
async fn a_server_without_initialize_is_discovered_with_its_own_headers() {
    assert_snapshot!(look("modern-only").await, @r"
    ok
    protocol: 2026-07-28
    instructions: Ask first.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}

#[tokio::test]
async fn pages_are_read_over_http_too() {
    assert_snapshot!(look("paged").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: a, b, c
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
    assert_snapshot!(look("cursor-loop").await, @r"
    cursor_loop
    reason: `tools/list` gives a cursor that it gave before
    ");
}

#[tokio::test]
async fn what_is_no_mcp_server_says_what_it_is() {
    let mut reports = String::new();
    for scenario in [
        "unauthorized",
        "html",
        "not-found",
        "redirect",
        "packed",
        "unavailable",
    ] {
        reports += &look(scenario).await;
    }
    assert_snapshot!(reports, @r"
    auth_required
    reason: HTTP 401: a sign-in is needed
    not_mcp
    reason: no MCP server: HTTP 200 OK with text/html
    not_mcp
    reason: no MCP server: HTTP 404 Not Found
    not_mcp
    reason: no MCP server: HTTP 307 Temporary Redirect redirects to `http://127.0.0.1:1/`
    not_mcp
    reason: no MCP server: HTTP 200 OK is packed as `br`, though that was declined
    unreachable
    reason: HTTP 503: the server can't answer now
    ");
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let inspection = look_at(&format!("http://127.0.0.1:{port}/mcp"), &[], &limits()).await;
    assert_snapshot!(report(&inspection), @r"
    unreachable
    reason: unreachable: connect: true
    ");
}

#[tokio::test]
async fn silence_times_out() {
    let limits = Limits {
        handshake: Duration::from_secs(1),
        ..limits()
    };
    assert_snapshot!(look_within("silent", &limits).await, @r"
    timed_out
    reason: no answer to `initialize` within 1 s
    ");
}

#[tokio::test]
async fn bodies_and_streams_stop_at_their_limits() {
    let limits = Limits {
        stream_events: 1_000,
        ..limits()
    };
    let mut reports = String::new();
    for scenario in ["huge", "sse-endless", "sse-cut"] {
        reports += &look_within(scenario, &limits).await;
    }
    assert_snapshot!(reports, @r"
    over_limit
    reason: more than 16777216 bytes in one message
    over_limit
    reason: more than 1000 events in one answer
    not_mcp
    reason: the connection ended before `tools/list` was answered
    ");
}

#[tokio::test]
async fn a_header_opens_the_door_and_is_not_told() {
    let server = Listening::fixture("key");
    assert_snapshot!(report(&look_at(&server.url, &[], &limits()).await), @r"
    auth_required
    reason: HTTP 403: a sign-in is needed
    ");
    let inspection = look_at(
        &server.url,
        &[("Authorization", "Bearer fixture-token")],
        &limits(),
    )
    .await;
    assert_eq!(inspection.outcome().name(), "ok");
    assert!(!format!("{inspection:?}").contains("fixture-token"));
}
