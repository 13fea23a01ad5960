//! Programs of other makers ask a running index over MCP, as agents do: the official SDKs, our own wire, and a gate in between.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpindex::clock::SystemClock;
use mcpindex::gate::event::Event;
use mcpindex::gate::{Gate, GateLimits, GateOptions, NewTools};
use mcpindex::inspect::inspect_http;
use mcpindex::pins::{Pins, ServerKey};
use mcpindex::proxy::http::Notice;
use mcpindex::proxy::listen::{ListenOptions, run};
use mcpindex::state::StateDirectory;
use mcpindex::wire::http::{Endpoint, HttpClient, HttpError, RemoteLimits};
use mcpindex::wire::limits::Limits;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::posture::Posture;
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::{Location, Store};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::peers::path;
use crate::programs::{Ended, Place, Served, client, ended};
use crate::seed::{FILES, seed};

const TOOLS: [&str; 5] = [
    "check_tool",
    "check_server",
    "search_servers",
    "recent_drift",
    "explain_drift",
];

/// One call of each tool.
fn calls() -> Value {
    json!([
        ["check_tool", {"server": FILES, "tool": "read_media"}],
        ["check_server", {"server": FILES, "include_untrusted": true}],
        ["search_servers", {"query": "files"}],
        ["recent_drift", {"limit": 1}],
        ["explain_drift", {"drift": 2, "include_untrusted": true}],
        ["explain_drift", {"drift": 99}],
    ])
}

/// A running index with a few servers in it, and a key of it.
async fn serving(read: &str) -> (Place, Served, String) {
    let place = Place::new();
    let made = place
        .run(&["admin", "create-key", "agent", "--scopes", "read", "--json"])
        .await
        .json();
    let store = Store::open(&Location::Sqlite(place.path("data/mcpindex.db")))
        .await
        .unwrap();
    seed(&store).await;
    store.close().await;
    let settings = place.write("index.toml", &format!("[access]\nread = \"{read}\"\n"));
    let served = place.serve(&["--no-crawl", "--config", &settings]).await;
    (place, served, made["key"].as_str().unwrap().to_owned())
}

async fn typescript(url: &str, key: Option<&str>) -> Ended {
    let mut command = Command::new("node");
    command
        .arg(path("index_client.mjs"))
        .args([url, &calls().to_string()])
        .args(key);
    ended(piped(command)).await
}

async fn python(url: &str, mode: &str, key: Option<&str>) -> Ended {
    let mut command = Command::new(path("venv/bin/python"));
    command
        .arg(path("index_client.py"))
        .args([url, &calls().to_string(), mode])
        .args(key);
    ended(piped(command)).await
}

fn piped(mut command: Command) -> Command {
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    command
}

/// What a client printed under this name, in order.
fn printed(client: &Ended, name: &str) -> Vec<Value> {
    assert_eq!(client.code(), Some(0), "{}{}", client.stdout(), client.stderr());
    let stdout = client.stdout();
    let lines = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line.get(name).cloned()).collect()
}

/// The answers are right, whoever asked.
fn check_answers(client: &Ended) {
    let answer = |name: &str| printed(client, name)[0]["structuredContent"].clone();
    assert_eq!(answer("check_tool")["answer"]["verdict"], "needs-person");
    let words = answer("check_server")["untrusted_text"]["tools"].clone();
    assert_eq!(words.as_array().unwrap().len(), 10);
    assert_eq!(answer("search_servers")["servers"][0]["identity"], FILES);
    assert_eq!(answer("recent_drift")["drifts"][0]["id"], 2);
    let explained = printed(client, "explain_drift");
    assert_eq!(explained[0]["structuredContent"]["kinds"][0]["gate"], "hold");
    let text = explained[0]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("instructions-added") && !text.contains("last message"),
        "{text}"
    );
    assert_eq!(explained[1]["isError"], true);
}

fn names(listed: &Value) -> Vec<&str> {
    listed
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn the_official_clients_call_every_tool() {
    let (_place, served, _) = serving("public").await;
    let url = format!("{}/mcp", served.base);
    let client = typescript(&url, None).await;
    assert_eq!(printed(&client, "server")[0][0]["name"], "mcpindex");
    assert_eq!(names(&printed(&client, "tools")[0]), TOOLS);
    check_answers(&client);
    for (mode, protocol) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let client = python(&url, mode, None).await;
        assert_eq!(printed(&client, "protocol"), [json!(protocol)]);
        assert_eq!(names(&printed(&client, "tools")[0]["tools"]), TOOLS);
        check_answers(&client);
    }
    served.terminate().await;
}

#[tokio::test]
async fn the_official_clients_ask_a_members_only_index_with_a_key() {
    let (_place, served, key) = serving("members").await;
    let url = format!("{}/mcp", served.base);
    let refused = typescript(&url, None).await;
    assert_eq!(
        (refused.code(), refused.stdout().trim()),
        (Some(3), r#"{"refused":"401"}"#)
    );
    check_answers(&typescript(&url, Some(&key)).await);
    check_answers(&python(&url, "auto", Some(&key)).await);
    served.terminate().await;
}

/// Asks over loopback, which needs no rules.
struct Loopback(reqwest::Client);

impl HttpClient for Loopback {
    fn send(
        &self,
        request: reqwest::Request,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<reqwest::Response, HttpError>> + Send + '_>> {
        Box::pin(async move {
            self.0
                .execute(request)
                .await
                .map_err(|error| HttpError::Unreachable {
                    reason: error.to_string(),
                })
        })
    }
}

fn endpoint(url: &str, key: &str) -> Endpoint {
    Endpoint {
        url: url.parse().unwrap(),
        headers: vec![(
            "authorization".to_owned(),
            SecretString::from(format!("Bearer {key}")),
        )],
    }
}

#[tokio::test]
async fn our_own_inspection_lists_it_and_a_gate_in_front_lets_it_work() {
    let (_place, served, key) = serving("members").await;
    let url = format!("{}/mcp", served.base);
    let inspected = inspect_http(&Loopback(client()), &endpoint(&url, &key), &Limits::desk()).await;
    let surface = inspected.result.expect("a surface");
    let listed: Vec<&str> = surface
        .members_of(MemberKind::Tool)
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(listed, TOOLS);

    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let gate = GateInFront::start(&url, &key, Arc::clone(&events)).await;
    check_answers(&typescript(&gate.url, None).await);
    let again = typescript(&gate.url, None).await;
    assert_eq!(names(&printed(&again, "tools")[0]), TOOLS);
    check_answers(&again);
    check_answers(&python(&gate.url, "auto", None).await);
    let held = |event: &&Event| matches!(event, Event::CallHeld(_));
    assert!(events.lock().unwrap().iter().find(held).is_none());
    served.terminate().await;
}

/// A gate that listens in this process, with the pins of all its sessions in one place.
struct GateInFront {
    url: String,
    _stop: oneshot::Sender<()>,
    _state: tempfile::TempDir,
}

impl GateInFront {
    async fn start(url: &str, key: &str, events: Arc<Mutex<Vec<Event>>>) -> GateInFront {
        let state = tempfile::tempdir().unwrap();
        let options = ListenOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            client: Arc::new(Loopback(client())),
            endpoint: endpoint(url, key),
            limits: RemoteLimits::default(),
            sessions: 16,
            idle: Duration::from_secs(600),
            drills: None,
        };
        let pins = StateDirectory::at(state.path());
        let server = ServerKey::usual(Identity::from_reference(url).unwrap().identity);
        let new_gate = Arc::new(move |_| {
            let options = GateOptions {
                posture: Posture::Guard,
                new_tools: NewTools::Review,
                list_timeout: Duration::from_secs(30),
                scan_results: true,
                tell_action: true,
                server: "index".to_owned(),
                limits: GateLimits::default(),
                clock: Arc::new(SystemClock),
            };
            Gate::new(options, Pins::open(&pins, &server))
        });
        let tell = Arc::new(move |notice| {
            if let Notice::Event(event) = notice {
                events.lock().unwrap().push(*event);
            }
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let (say, said) = oneshot::channel();
        tokio::spawn(async move {
            let listening = |url: &str| drop(say.send(url.to_owned()));
            run(options, new_gate, listening, tell, async { drop(stopped.await) }).await
        });
        GateInFront {
            url: said.await.unwrap(),
            _stop: stop,
            _state: state,
        }
    }
}
