//! The gate below an rmcp client, inside the process.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use mcpindex::clock::SystemClock;
use mcpindex::gate::event::Event;
use mcpindex::gate::{Gate, GateLimits, GateOptions, NewTools};
use mcpindex::pins::Pins;
use mcpindex::proxy::attach::{ApproveError, Attached, Closed, Control};
use mcpindex_contract::posture::Posture;
use rmcp::model::{CallToolRequestParams, Tool};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::{ClientHandler, ServiceExt};
use tokio::process::{Child, Command};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::proxy::LIMIT;
use crate::stdio::FIXTURE;

/// Hears that the list of tools changed.
#[derive(Clone, Default)]
struct Client {
    list_changed: Arc<Notify>,
}

impl ClientHandler for Client {
    async fn on_tool_list_changed(&self, _context: rmcp::service::NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }
}

struct Session {
    server: Child,
    client: RunningService<RoleClient, Client>,
    list_changed: Arc<Notify>,
    events: mpsc::Receiver<Event>,
    control: Control,
    directory: tempfile::TempDir,
}

impl Session {
    async fn start(fixture: &[&str]) -> Session {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Command::new(FIXTURE)
            .arg("gated")
            .arg(directory.path().join("log"))
            .args(fixture)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let options = GateOptions {
            posture: Posture::Guard,
            new_tools: NewTools::Review,
            list_timeout: Duration::from_secs(10),
            scan_results: false,
            tell_action: true,
            server: "notes".to_owned(),
            limits: GateLimits::default(),
            clock: Arc::new(SystemClock),
        };
        let gate = Gate::new(options, Pins::memory());
        let Attached {
            stream,
            events,
            control,
        } = gate.attach(server.stdout.take().unwrap(), server.stdin.take().unwrap());
        let handler = Client::default();
        let list_changed = Arc::clone(&handler.list_changed);
        let client = timeout(LIMIT, handler.serve(stream)).await.unwrap().unwrap();
        Session {
            server,
            client,
            list_changed,
            events,
            control,
            directory,
        }
    }

    async fn tools(&self) -> Vec<Tool> {
        timeout(LIMIT, self.client.list_all_tools())
            .await
            .unwrap()
            .unwrap()
    }

    async fn names(&self) -> String {
        let names: Vec<_> = self.tools().await.into_iter().map(|tool| tool.name).collect();
        names.join(", ")
    }

    /// What becomes of a call: `answered`, or the code of the error.
    async fn call(&self, tool: &'static str) -> String {
        let call = self.client.call_tool(CallToolRequestParams::new(tool));
        match timeout(LIMIT, call).await.unwrap() {
            Ok(_) => "answered".to_owned(),
            Err(ServiceError::McpError(error)) => error.code.0.to_string(),
            Err(error) => panic!("{error}"),
        }
    }

    fn calls(&self) -> usize {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        log.lines().filter(|line| line.starts_with("tools/call")).count()
    }
}

#[tokio::test]
async fn a_tool_that_changed_is_held_until_its_digest_is_approved() {
    let mut session = Session::start(&["change-after=1", "announce"]).await;
    assert_eq!(session.names().await, "read_note, echo, big");
    assert_eq!(session.call("read_note").await, "answered");
    timeout(LIMIT, session.list_changed.notified()).await.unwrap();
    assert_eq!(session.names().await, "echo, big");
    assert_eq!(session.call("read_note").await, "-32010");
    assert_eq!(session.calls(), 1);

    let pending = session.control.pending().await.unwrap();
    assert_eq!(pending.len(), 1);
    let digest = pending[0].declared_digest.clone().unwrap();
    let is_told = |event: &Event| matches!(event, Event::CallHeld(hold) if hold.declared_digest.as_ref() == Some(&digest));
    let mut told = false;
    while !told {
        told = is_told(&timeout(LIMIT, session.events.recv()).await.unwrap().unwrap());
    }

    assert!(
        !session
            .control
            .approve("read_note", &format!("sha256:{}", "0".repeat(64)))
            .await
            .unwrap()
    );
    assert_eq!(session.call("read_note").await, "-32010");
    assert!(session.control.approve("read_note", &digest).await.unwrap());
    timeout(LIMIT, session.list_changed.notified()).await.unwrap();
    assert_eq!(session.names().await, "read_note, echo, big");
    assert_eq!(session.call("read_note").await, "answered");
    assert_eq!(session.control.pending().await.unwrap(), []);
}

#[tokio::test]
async fn when_the_client_goes_the_server_hears_it_and_there_is_nobody_to_ask() {
    let mut session = Session::start(&[]).await;
    session.tools().await;
    session.client.cancel().await.unwrap();
    let status = timeout(LIMIT, session.server.wait()).await.unwrap().unwrap();
    assert!(status.success());
    while timeout(LIMIT, session.events.recv()).await.unwrap().is_some() {}
    assert_eq!(session.control.pending().await, Err(Closed));
    assert_eq!(
        session.control.approve("a", "b").await,
        Err(ApproveError::Closed(Closed))
    );
}

#[tokio::test]
async fn when_the_server_goes_the_call_is_answered() {
    let session = Session::start(&["end-after=1"]).await;
    session.tools().await;
    assert_eq!(session.call("echo").await, "-32012");
}

#[test]
fn the_example_lists_what_the_gate_lets_through() {
    let test = std::env::current_exe().unwrap();
    let example = test
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples/gated_rmcp_client");
    assert!(
        example.is_file(),
        "the example is not built: run `cargo build -p mcpindex-sdk --examples` first"
    );
    let output = std::process::Command::new(example)
        .args([FIXTURE, "bad-tool"])
        .output()
        .unwrap();
    assert_snapshot!(String::from_utf8_lossy(&output.stdout), @r"
    read_note
    last
    withheld: big (unreadable)
    withheld: half (unreadable)
    withheld: twice (unreadable)
    ");
}
