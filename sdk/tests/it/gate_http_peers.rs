//! Clients and servers of other makers on both sides of a gate over HTTP: they see what they see without it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcpindex::inspect::inspect_stdio;
use mcpindex_contract::surface::Surface;
use rmcp::model::{CallToolRequestParams, ClientConfig};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::client::look_at;
use crate::gate_http_listen::Door;
use crate::http::Listening;
use crate::peers::path;
use crate::proxy::{EXECUTABLE, LIMIT};
use crate::proxy_peers::{OF_EVERYTHING, check_same, run};
use crate::report::limits;
use crate::rmcp::{MODERN, serving};
use crate::stdio::launch;

/// server-everything over this transport, on a port that was free a moment ago; ended when dropped.
struct Everything {
    child: Child,
    url: String,
}

impl Everything {
    #[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
    fn start(transport: &str) -> Everything {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let script = path("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
        let child = Command::new("node")
            .args([&script, transport])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = std::time::Instant::now() + LIMIT;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                std::time::Instant::now() < end,
                "server-everything does not listen"
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
        let name = if transport == "sse" { "sse" } else { "mcp" };
        Everything {
            child,
            url: format!("http://127.0.0.1:{port}/{name}"),
        }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gate that listens, as a process; ended when dropped.
pub(crate) struct ListeningGate {
    _child: tokio::process::Child,
    pub(crate) url: String,
}

impl ListeningGate {
    pub(crate) async fn start(url: &str, state: &Path) -> ListeningGate {
        let mut child = tokio::process::Command::new(EXECUTABLE)
            .args(["gate", "--url", url, "--listen", "127.0.0.1:0"])
            .env("MCPINDEX_STATE_DIR", state)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().unwrap();
        let gate = ListeningGate {
            url: line.rsplit(' ').next().unwrap().to_owned(),
            _child: child,
        };
        // What else it says is read, so that it never waits for somebody to do so.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        gate
    }
}

/// A client sees the same of a server by its URL, through `--url`, and through `--listen`.
async fn check(client: &[&str], url: &str) {
    let state = tempfile::tempdir().unwrap();
    let gate = ListeningGate::start(url, state.path()).await;
    let gated = gate.url.clone();
    let client: Vec<String> = client.iter().map(|word| (*word).to_owned()).collect();
    let url = url.to_owned();
    let work = move || {
        let client: Vec<&str> = client.iter().map(String::as_str).collect();
        let (alone, _) = run(&client, &[&url], &state);
        for what in OF_EVERYTHING {
            assert!(alone.contains(&format!("{{\"{what}\":")), "no {what}: {alone}");
        }
        let (through, told) = run(
            &client,
            &[EXECUTABLE, "gate", "--server", "it", "--url", &url],
            &state,
        );
        assert!(told.contains("mcpindex: it is new:"), "{told}");
        check_same(&without_ids(&alone), &without_ids(&through));
        let (through, _) = run(&client, &[&gated], &state);
        check_same(&without_ids(&alone), &without_ids(&through));
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}

/// The server tells the id of its session, which is another one each time.
fn without_ids(text: &str) -> String {
    const BEFORE: &str = "for session ";
    let mut parts = text.split(BEFORE);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| {
        shown + BEFORE + "ID" + part.get(36..).unwrap_or_default()
    })
}

#[tokio::test]
async fn the_typescript_client_sees_the_same_of_the_everything_server() {
    let server = Everything::start("streamableHttp");
    check(&["node", &path("client.mjs")], &server.url).await;
}

#[tokio::test]
async fn the_python_client_sees_the_same_of_the_everything_server() {
    let server = Everything::start("streamableHttp");
    check(&[&path("venv/bin/python"), &path("client.py")], &server.url).await;
}

#[tokio::test]
async fn the_typescript_client_sees_the_same_of_the_everything_server_over_the_older_transport() {
    let server = Everything::start("sse");
    check(&["node", &path("client.mjs")], &server.url).await;
}

/// An inspection finds the same surface at a URL, through `--url`, and through `--listen`.
async fn check_surface(url: &str) -> Surface {
    let alone = look_at(url, &[], &limits()).await.result.unwrap();
    let door = Door::before(url).await;
    let through = look_at(&door.url, &[], &limits()).await.result.unwrap();
    assert_eq!(alone.digest(), through.digest(), "{url} through --listen");
    let state = tempfile::tempdir().unwrap();
    let mut gate = launch(EXECUTABLE, &["gate", "--url", url]);
    let state = state.path().to_str().unwrap().to_owned();
    gate.env.push(("MCPINDEX_STATE_DIR".to_owned(), state.into()));
    let through = inspect_stdio(&gate, &limits()).await.result.unwrap();
    assert_eq!(alone.digest(), through.digest(), "{url} through --url");
    assert_eq!(alone.protocol_version, through.protocol_version);
    alone
}

#[tokio::test]
async fn an_inspection_finds_the_same_through_the_gate() {
    for (program, script) in [
        ("node".to_owned(), path("server.mjs")),
        (path("venv/bin/python"), path("server.py")),
    ] {
        let server = Listening::start(Command::new(program).args([&script, "--http"]));
        check_surface(&server.url).await;
    }
    let (url, server) = serving(::rmcp::model::ProtocolVersion::KNOWN_VERSIONS, Default::default()).await;
    assert_eq!(check_surface(&url).await.protocol_version, "2025-11-25");
    server.abort();
    let (url, server) = serving(MODERN, Default::default()).await;
    assert_eq!(check_surface(&url).await.protocol_version, "2026-07-28");
    server.abort();
}

#[tokio::test]
async fn rmcp_speaks_with_itself_through_a_gate_that_listens_in_both_eras() {
    let modern = ClientLifecycleMode::Discover {
        preferred_versions: MODERN.to_vec(),
    };
    for (versions, lifecycle) in [
        (
            ::rmcp::model::ProtocolVersion::KNOWN_VERSIONS,
            ClientLifecycleMode::Initialize,
        ),
        (::rmcp::model::ProtocolVersion::KNOWN_VERSIONS, modern.clone()),
        (MODERN, modern),
    ] {
        let (url, server) = serving(versions, Default::default()).await;
        let door = Door::before(&url).await;
        let transport = StreamableHttpClientTransport::from_uri(door.url.clone());
        let client = ClientConfig::default();
        let client = client.serve_with_lifecycle(transport, lifecycle).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 1);
        let call = CallToolRequestParams::new(tools[0].name.clone());
        // The notes know no call; that the refusal is theirs and not the gate's is what counts.
        let answer = client.call_tool(call).await.unwrap_err();
        assert!(answer.to_string().contains("-32601"), "{answer}");
        client.cancel().await.unwrap();
        server.abort();
    }
}
