//! rmcp as a foreign peer: both eras, over stdio and streamable HTTP, sessions and none.

#[path = "../peers/rmcp_notes.rs"]
mod rmcp_notes;

use insta::assert_snapshot;
use mcpindex::inspect::inspect_stdio;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp_notes::Notes;

use crate::client::look_at;
use crate::report::{limits, report};
use crate::stdio::launch;

/// The rmcp peer that cargo built beside this test.
fn peer() -> String {
    let test = std::env::current_exe().unwrap();
    let peer = test
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples/rmcp_server");
    assert!(
        peer.is_file(),
        "the rmcp peer is not built: run `cargo build -p mcpindex-sdk --examples` first"
    );
    peer.to_str().unwrap().to_owned()
}

async fn look_over_stdio(args: &[&str]) -> String {
    report(&inspect_stdio(&launch(&peer(), args), &limits()).await)
}

/// The notes over streamable HTTP: their URL, and the task that serves them.
pub(crate) async fn serving(
    versions: &'static [ProtocolVersion],
    config: StreamableHttpServerConfig,
) -> (String, tokio::task::JoinHandle<std::io::Result<()>>) {
    let service: StreamableHttpService<Notes, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(Notes { versions }), Default::default(), config);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await
    });
    (url, server)
}

async fn look_over_http(versions: &'static [ProtocolVersion], config: StreamableHttpServerConfig) -> String {
    let (url, server) = serving(versions, config).await;
    let inspection = look_at(&url, &[], &limits()).await;
    server.abort();
    report(&inspection)
}

pub(crate) const MODERN: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];

#[tokio::test]
async fn a_server_of_both_eras_is_listed_over_stdio() {
    assert_snapshot!(look_over_stdio(&[]).await, @r"
    ok
    protocol: 2025-11-25
    instructions: Keep notes short.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}

#[tokio::test]
async fn a_server_of_the_new_era_alone_is_listed_over_stdio() {
    assert_snapshot!(look_over_stdio(&["modern"]).await, @r"
    ok
    protocol: 2026-07-28
    instructions: Keep notes short.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}

#[tokio::test]
async fn a_server_of_both_eras_is_listed_over_http_with_a_session_or_none() {
    let config = StreamableHttpServerConfig::default;
    let with_session = look_over_http(ProtocolVersion::KNOWN_VERSIONS, config()).await;
    assert_snapshot!(with_session, @r"
    ok
    protocol: 2025-11-25
    instructions: Keep notes short.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
    let plain = config().with_legacy_session_mode(false).with_json_response(true);
    assert_eq!(
        look_over_http(ProtocolVersion::KNOWN_VERSIONS, plain).await,
        with_session
    );
}

#[tokio::test]
async fn a_server_of_the_new_era_alone_is_listed_over_http() {
    let config = StreamableHttpServerConfig::default();
    assert_snapshot!(look_over_http(MODERN, config).await, @r"
    ok
    protocol: 2026-07-28
    instructions: Keep notes short.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}
