//! `mcpindex gate --listen ADDRESS --url URL`: clients over HTTP on loopback, a server behind real sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;
use mcpindex::proxy::http::Notice;
use mcpindex::proxy::listen::{ListenError, ListenOptions, run};
use mcpindex::wire::http::{Endpoint, RemoteLimits};
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::client::{look_at, loopback};
use crate::gate_http::{MODERN_META, Server, memory_gate, modern};
use crate::gate_http_peers::ListeningGate;
use crate::http::Listening;
use crate::proxy::{EXECUTABLE, Gated, INITIALIZE, INITIALIZED, LIMIT, request, until};
use crate::report::limits;

/// A gate that listens, in this process.
pub(crate) struct Door {
    pub(crate) url: String,
    /// The credentials that gates were made for.
    contexts: Arc<Mutex<Vec<String>>>,
    lines: Arc<Mutex<Vec<String>>>,
    _stop: oneshot::Sender<()>,
}

impl Door {
    pub(crate) async fn before(url: &str) -> Door {
        Door::with(url, |_| {}).await
    }

    async fn with(url: &str, adjust: impl FnOnce(&mut ListenOptions)) -> Door {
        let mut options = ListenOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            client: loopback(),
            endpoint: Endpoint {
                url: url.parse().unwrap(),
                headers: Vec::new(),
            },
            limits: RemoteLimits::default(),
            sessions: 256,
            idle: Duration::from_secs(1_800),
            drills: None,
        };
        adjust(&mut options);
        let contexts = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&contexts);
        let new_gate = Arc::new(move |context: mcpindex::pins::AuthContext| {
            made.lock().unwrap().push(context.to_string());
            memory_gate()
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&lines);
        let tell = Arc::new(move |notice| {
            if let Notice::Line(line) = notice {
                told.lock().unwrap().push(line);
            }
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let (say, said) = oneshot::channel();
        tokio::spawn(async move {
            let listening = |url: &str| drop(say.send(url.to_owned()));
            run(options, new_gate, listening, tell, async { drop(stopped.await) }).await
        });
        Door {
            url: said.await.unwrap(),
            contexts,
            lines,
            _stop: stop,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
    fn client(&self) -> Client {
        Client {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            url: self.url.clone(),
            headers: HeaderMap::new(),
        }
    }

    async fn session(&self, token: Option<&str>) -> Client {
        let mut client = self.client();
        if let Some(token) = token {
            client.says("authorization", &format!("Bearer {token}"));
        }
        client.shake_hands().await;
        client
    }
}

/// A client over HTTP, spoken by hand.
struct Client {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
}

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    /// The messages in it, from a stream or not.
    fn messages(&self) -> Vec<Value> {
        let read =
            |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        match self.header("content-type") {
            "text/event-stream" => self
                .body
                .lines()
                .filter_map(|line| line.strip_prefix("data: "))
                .map(read)
                .collect(),
            _ => vec![read(&self.body)],
        }
    }

    fn answer(&self) -> Value {
        self.messages().pop().unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn shown(&self) -> String {
        format!("{} {} {}", self.status, self.header("content-type"), self.body)
    }
}

impl Client {
    fn says(&mut self, name: &'static str, value: &str) {
        self.headers.insert(name, value.parse().unwrap());
    }

    async fn post(&self, body: &str) -> Reply {
        self.post_with(body, &[]).await
    }

    async fn post_with(&self, body: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = self
            .http
            .post(&self.url)
            .headers(self.headers.clone())
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        reply(timeout(LIMIT, request.send()).await.unwrap().unwrap()).await
    }

    async fn verb(&self, verb: &str) -> reqwest::Response {
        let request = self
            .http
            .request(verb.parse().unwrap(), &self.url)
            .headers(self.headers.clone());
        timeout(LIMIT, request.send()).await.unwrap().unwrap()
    }

    async fn shake_hands(&mut self) -> Value {
        let initialized = self.post(INITIALIZE).await;
        assert_eq!(initialized.status, 200, "{}", initialized.body);
        self.says("mcp-session-id", initialized.header("mcp-session-id"));
        self.says(
            "mcp-protocol-version",
            initialized.answer()["result"]["protocolVersion"]
                .as_str()
                .unwrap(),
        );
        let accepted = self.post(INITIALIZED).await;
        assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
        self.post(&request("list", "tools/list", "{}")).await.answer()
    }

    async fn call(&self, id: &str, tool: &str) -> Reply {
        self.post(&request(
            id,
            "tools/call",
            &format!(r#"{{"name":"{tool}","arguments":{{"to":"é"}}}}"#),
        ))
        .await
    }

    /// Calls in the new era, with its headers.
    async fn call_modern(&self, id: &str, tool: &str) -> Reply {
        let body = modern(id, "tools/call", &format!(r#""name":"{tool}","arguments":{{}}"#));
        self.post_with(
            &body,
            &[VERSION, ("mcp-method", "tools/call"), ("mcp-name", tool)],
        )
        .await
    }

    async fn ask_modern(&self, id: &str, method: &str, members: &str) -> Reply {
        self.post_with(&modern(id, method, members), &[VERSION, ("mcp-method", method)])
            .await
    }
}

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

async fn reply(response: reqwest::Response) -> Reply {
    Reply {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: timeout(LIMIT, response.text())
            .await
            .expect("the answer has no end")
            .unwrap(),
    }
}

/// Reads a stream until it holds this.
async fn read_until(response: &mut reqwest::Response, text: &str) -> String {
    let mut read = String::new();
    while !read.contains(text) {
        let chunk = timeout(LIMIT, response.chunk())
            .await
            .expect("nothing came in time")
            .unwrap();
        let chunk = chunk.unwrap_or_else(|| panic!("the stream ended: {read}"));
        read += std::str::from_utf8(&chunk).unwrap();
    }
    read
}

#[tokio::test]
async fn a_tool_that_changed_is_held_before_the_server_sees_the_call() {
    for transport in ["json", "stream", "stateless", "older"] {
        let server = Server::start(transport, &["change-after=1"]);
        let door = Door::before(server.url()).await;
        let mut client = door.client();
        let listed = client.shake_hands().await;
        assert_eq!(
            listed["result"]["tools"].as_array().unwrap().len(),
            2,
            "{transport}: {listed}"
        );
        let mut unasked = client.verb("GET").await;
        let called = client.call("a", "read_note").await;
        assert!(
            called.answer()["result"].is_object(),
            "{transport}: {}",
            called.body
        );
        if transport == "stateless" {
            // It has no way to announce anything: the next list tells.
            assert_eq!(unasked.status(), 405);
            client.post(&request("again", "tools/list", "{}")).await;
        } else {
            assert_eq!(unasked.status(), 200, "{transport}");
            read_until(&mut unasked, "notifications/tools/list_changed").await;
        }
        let held = client.call("b", "read_note").await;
        assert_eq!(held.status, 200);
        assert_eq!(
            held.answer()["error"]["code"],
            -32010,
            "{transport}: {}",
            held.body
        );
        assert_eq!(
            held.answer()["error"]["data"]["class"],
            "drift",
            "{transport}: {}",
            held.body
        );
        assert!(
            client.call("c", "echo").await.answer()["result"].is_object(),
            "{transport}"
        );
        assert_eq!(
            server.count("tools/call read_note"),
            1,
            "{transport}: {}",
            server.log()
        );
        let deleted = client.verb("DELETE").await.status();
        assert_eq!(deleted, 200, "{transport}");
        assert_eq!(client.call("d", "echo").await.status, 404, "{transport}");
    }
}

#[tokio::test]
async fn a_tool_that_changed_is_held_in_the_new_era() {
    let server = Server::start("modern", &["change-after=1"]);
    let door = Door::before(server.url()).await;
    let client = door.client();
    assert!(client.ask_modern("0", "server/discover", "").await.answer()["result"].is_object());
    let listen = modern(
        "s",
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true}"#,
    );
    let subscribe = client
        .http
        .post(&client.url)
        .header("content-type", "application/json")
        .header(VERSION.0, VERSION.1)
        .header("mcp-method", "subscriptions/listen")
        .body(listen);
    let mut subscription = timeout(LIMIT, subscribe.send()).await.unwrap().unwrap();
    read_until(&mut subscription, "notifications/subscriptions/acknowledged").await;
    client.ask_modern("1", "tools/list", "").await;
    assert!(client.call_modern("2", "read_note").await.answer()["result"].is_object());
    let announced = read_until(&mut subscription, "list_changed").await;
    assert!(
        announced.contains(r#""io.modelcontextprotocol/subscriptionId":"s""#),
        "{announced}"
    );
    let held = client.call_modern("3", "read_note").await.answer();
    assert_eq!(held["error"]["data"]["class"], "drift", "{held}");
    assert_eq!(server.count("tools/call read_note"), 1, "{}", server.log());
    assert_eq!(door.contexts.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_same_answers_come_with_the_gate_and_without() {
    for transport in ["json", "stream"] {
        let mut seen = Vec::new();
        for gated in [false, true] {
            let server = Server::start(transport, &[]);
            let door = Door::before(server.url()).await;
            let mut client = door.client();
            if !gated {
                client.url = server.url().to_owned();
            }
            let mut replies = vec![client.post(INITIALIZE).await];
            client.says("mcp-session-id", replies[0].header("mcp-session-id"));
            client.says("mcp-protocol-version", "2025-11-25");
            replies.push(client.post(INITIALIZED).await);
            replies.push(
                client
                    .post(r#"{ "jsonrpc":"2.0", "id" : 1e0,"method":"tools/list"}"#)
                    .await,
            );
            replies.push(client.call("a", "echo").await);
            let shown = |reply: &Reply| {
                let session = reply.header("mcp-session-id").to_owned();
                match reply.body.is_empty() {
                    true => (reply.status, session, Vec::new()),
                    false => (reply.status, session, reply.messages()),
                }
            };
            seen.push(replies.iter().map(shown).collect::<Vec<_>>());
        }
        assert_eq!(seen[0], seen[1], "{transport}");
    }
}

#[tokio::test]
async fn a_sign_in_is_the_clients_business_and_its_credential_goes_through() {
    let server = Server::start("json", &["key"]);
    let door = Door::before(server.url()).await;
    let refused = door.client().post(INITIALIZE).await;
    assert_eq!(
        refused.header("www-authenticate"),
        r#"Bearer resource_metadata="https://auth.example/""#
    );
    assert_snapshot!(refused.shown(), @r#"401 application/json {"error":"invalid_token"}"#);
    door.session(Some("fixture-token")).await;
    assert_eq!(
        *door.contexts.lock().unwrap(),
        ["anonymous", "header:authorization"]
    );
}

#[tokio::test]
async fn the_gates_own_questions_carry_their_own_sessions_credential() {
    let server = Server::start("json", &["change-after=1"]);
    let door = Door::before(server.url()).await;
    let one = door.session(Some("one")).await;
    let mut unasked = one.verb("GET").await;
    one.call("a", "read_note").await;
    read_until(&mut unasked, "list_changed").await;
    // One of the client's, and one of the gate's after the announcement.
    assert_eq!(server.count("tools/list Bearer one"), 2, "{}", server.log());
    assert_eq!(server.count("tools/list"), 2, "{}", server.log());
}

#[tokio::test]
async fn only_loopback_and_only_its_own_pages_are_let_in() {
    let server = Server::start("json", &[]);
    let door = Door::before(server.url()).await;
    let client = door.session(None).await;
    let mut seen = String::new();
    let ping = request("p", "ping", "{}");
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("host", "evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("content-type", "text/plain"),
    ] {
        let request = client.http.post(&client.url).headers(client.headers.clone());
        let request = match name {
            "content-type" => request,
            _ => request.header("content-type", "application/json"),
        };
        let response = request
            .header(name, value)
            .body(ping.clone())
            .send()
            .await
            .unwrap();
        seen += &format!("{name}: {value}: {}\n", reply(response).await.shown());
    }
    let port = door.url.rsplit(':').next().unwrap().replace("/mcp", "");
    let own = format!("http://localhost:{port}");
    assert_eq!(client.post_with(&ping, &[("origin", &own)]).await.status, 200);
    assert_eq!(server.count("ping"), 1, "{}", server.log());
    let elsewhere = client
        .http
        .get(door.url.replace("/mcp", "/"))
        .send()
        .await
        .unwrap();
    seen += &format!("elsewhere: {}\n", reply(elsewhere).await.shown());
    seen += &format!("PUT: {}\n", reply(client.verb("PUT").await).await.shown());
    seen += &format!("no JSON: {}\n", client.post("{").await.shown());
    let stranger = door.client();
    seen += &format!(
        "GET without a session: {}\n",
        reply(stranger.verb("GET").await).await.shown()
    );
    seen += &format!("POST without a session: {}\n", stranger.post(&ping).await.shown());
    let unknown = stranger.post_with(&ping, &[("mcp-session-id", "made-up")]).await;
    seen += &format!("unknown session: {}\n", unknown.shown());
    assert_snapshot!(seen, @r#"
    origin: https://evil.example: 403 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"requests of web pages are not taken: the Origin is not this address"}}
    host: evil.example: 403 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this is not the Host that is listened on: use the URL that the gate printed"}}
    sec-fetch-site: cross-site: 403 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"requests of web pages are not taken: the Origin is not this address"}}
    content-type: text/plain: 415 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the body must be application/json"}}
    elsewhere: 404 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the gate is at /mcp"}}
    PUT: 405 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"only POST, and in versions before 2026-07-28 GET and DELETE"}}
    no JSON: 400 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the message can't be read without doubt: it is no object"}}
    GET without a session: 400 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no Mcp-Session-Id: begin with initialize"}}
    POST without a session: 400 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no Mcp-Session-Id: begin with initialize"}}
    unknown session: 404 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this session is not known here (any more): begin with initialize"}}
    "#);

    let out = std::process::Command::new(EXECUTABLE)
        .args(["gate", "--url", server.url(), "--listen", "0.0.0.0:0"])
        .env("MCPINDEX_STATE_DIR", std::env::temp_dir())
        .output()
        .unwrap();
    assert_snapshot!(String::from_utf8_lossy(&out.stderr), @r"error: --listen 0.0.0.0:0: only loopback is listened on: 127.0.0.1:PORT or [::1]:PORT");
    let open = ListenOptions {
        address: "192.0.2.1:0".parse().unwrap(),
        client: loopback(),
        endpoint: Endpoint {
            url: server.url().parse().unwrap(),
            headers: Vec::new(),
        },
        limits: RemoteLimits::default(),
        sessions: 1,
        idle: Duration::from_secs(1),
        drills: None,
    };
    let refused = run(
        open,
        Arc::new(|_| memory_gate()),
        |_| {},
        Arc::new(|_| {}),
        std::future::pending(),
    )
    .await;
    assert!(matches!(refused, Err(ListenError::NotLoopback(_))));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
async fn a_body_that_is_too_long_or_breaks_off_is_refused() {
    let server = Server::start("json", &[]);
    let door = Door::with(server.url(), |options| options.limits.message_bytes = 1_000).await;
    let client = door.client();
    let long = client.post(&format!(r#"{{"x":"{}"}}"#, "x".repeat(2_000))).await;
    assert_snapshot!(long.shown(), @r#"413 application/json {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the body is longer than 1000 bytes"}}"#);

    // One that never says all of it gets in nobody's way, and is sent away in the end.
    let door = Door::with(server.url(), |options| {
        options.limits.body = Duration::from_millis(200);
    })
    .await;
    let address = door
        .url
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/mcp")
        .unwrap();
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    door.session(None).await;
    let mut end = String::new();
    timeout(LIMIT, slow.read_to_string(&mut end))
        .await
        .unwrap()
        .unwrap();
    assert!(end.starts_with("HTTP/1.1 408 "), "{end}");
    let mut cut = TcpStream::connect(address).await.unwrap();
    cut.write_all(head.as_bytes()).await.unwrap();
    cut.shutdown().await.unwrap();
    let mut end = String::new();
    timeout(LIMIT, cut.read_to_string(&mut end))
        .await
        .unwrap()
        .unwrap();
    assert!(end.is_empty() || end.starts_with("HTTP/1.1 400 "), "{end}");
    assert_eq!(server.count("initialize"), 1, "{}", server.log());
}

#[tokio::test]
async fn what_goes_wrong_at_the_server_has_a_status_and_a_line() {
    let mut seen = String::new();
    for scenario in ["html", "not-found", "redirect", "unavailable"] {
        let server = Listening::fixture(scenario);
        let door = Door::before(&server.url).await;
        seen += &format!("{scenario}: {}\n", door.client().post(INITIALIZE).await.shown());
        seen += &format!("{:?}\n", door.lines.lock().unwrap());
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let door = Door::before(&format!("http://127.0.0.1:{port}/mcp")).await;
    seen += &format!(
        "nobody: {}\n{:?}\n",
        door.client().post(INITIALIZE).await.shown(),
        door.lines.lock().unwrap()
    );
    let server = Server::start("stream", &["cut"]);
    let door = Door::before(server.url()).await;
    let client = door.session(None).await;
    seen += &format!(
        "cut: {}\n{:?}\n",
        client.call("a", "echo").await.shown(),
        door.lines.lock().unwrap()
    );
    assert_snapshot!(seen, @r#"
    html: 502 application/json {"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no MCP server: HTTP 200 OK with text/html"}}
    ["`initialize` got no answer: no MCP server: HTTP 200 OK with text/html"]
    not-found: 404 text/plain nothing here
    []
    redirect: 502 application/json {"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no MCP server: HTTP 307 Temporary Redirect redirects to `http://127.0.0.1:1/`"}}
    []
    unavailable: 503 text/plain later
    []
    nobody: 502 application/json {"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"unreachable: connect: true"}}
    ["`initialize` got no answer: unreachable: connect: true"]
    cut: 200 text/event-stream event: message
    data: {"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"the connection ended before `tools/call` was answered"}}


    ["`tools/call` got no answer: the connection ended before `tools/call` was answered"]
    "#);
}

#[tokio::test]
async fn sessions_are_as_many_as_may_be_and_the_idle_go() {
    let server = Server::start("stateless", &[]);
    let door = Door::with(server.url(), |options| options.sessions = 2).await;
    let first = door.session(None).await;
    let second = door.session(None).await;
    let third = door.session(None).await;
    let ping = request("p", "ping", "{}");
    assert_eq!(first.post(&ping).await.status, 404);
    assert_eq!(second.post(&ping).await.status, 200);
    assert_eq!(third.post(&ping).await.status, 200);

    let door = Door::with(server.url(), |options| options.idle = Duration::from_millis(50)).await;
    let client = door.session(None).await;
    let gone = async {
        while client.post(&ping).await.status != 404 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(LIMIT, gone).await.expect("an idle session is kept");
}

#[tokio::test]
async fn two_clients_of_the_new_era_with_the_same_ids_get_their_own_answers() {
    let server = Server::start("modern", &["no-answers"]);
    let door = Door::before(server.url()).await;
    let client = door.client();
    client.ask_modern("0", "server/discover", "").await;
    client.ask_modern("1", "tools/list", "").await;
    let (one, two) = (door.client(), door.client());
    let waiting = tokio::spawn(async move { one.call_modern("same", "echo").await.status });
    until("the first call", || server.count("tools/call") == 1).await;
    let other = tokio::spawn(async move { two.call_modern("same", "echo").await.status });
    until("the second call", || server.count("tools/call") == 2).await;
    assert_eq!(door.contexts.lock().unwrap().len(), 2);
    // Leaving is the cancellation.
    waiting.abort();
    until("that the first was left", || server.count("left") == 1).await;
    other.abort();
    until("that the second was left", || server.count("left") == 2).await;
}

#[tokio::test]
async fn a_batch_gets_all_its_answers_where_the_version_has_batches() {
    let server = Server::start("json", &["version=2025-03-26"]);
    let door = Door::before(server.url()).await;
    let client = door.session(None).await;
    let batch = format!(
        "[{},{},{}]",
        request("a", "tools/call", r#"{"name":"echo","arguments":{"to":"1"}}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        request("b", "tools/call", r#"{"name":"unlisted"}"#)
    );
    let reply = client.post(&batch).await;
    let mut ids: Vec<_> = reply
        .messages()
        .iter()
        .map(|message| {
            (
                message["id"].as_str().unwrap_or_default().to_owned(),
                message["error"]["code"].as_i64(),
            )
        })
        .collect();
    ids.sort();
    assert_eq!(
        ids,
        [("a".to_owned(), None), ("b".to_owned(), Some(-32010))],
        "{}",
        reply.body
    );
    assert_eq!(client.post("[]").await.status, 400);
    let notifications =
        r#"[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}]"#;
    assert_eq!(client.post(notifications).await.status, 202);
}

#[tokio::test]
async fn a_version_without_sessions_has_no_get_and_no_delete() {
    let server = Server::start("modern", &[]);
    let door = Door::before(server.url()).await;
    let mut client = door.client();
    client.says(VERSION.0, VERSION.1);
    assert_eq!(client.verb("GET").await.status(), 405);
    assert_eq!(client.verb("DELETE").await.status(), 405);
    // Headers that say something else than the body are the server's to refuse, and its refusal comes back.
    let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{{{MODERN_META}}}}}"#);
    let refused = client.post_with(&body, &[("mcp-method", "prompts/list")]).await;
    assert_snapshot!(refused.shown(), @r#"400 application/json {"jsonrpc":"2.0","id":"a","error":{"code":-32020,"message":"headers that say something else"}}"#);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
async fn what_was_pinned_by_a_gate_that_listens_is_held_by_the_next_on_stdin() {
    let server = Server::start("stateless", &["change-after=1"]);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let gate = ListeningGate::start(server.url(), &state).await;
    let look = look_at(&gate.url, &[], &limits()).await;
    assert_eq!(look.result.unwrap().members.len(), 2);
    drop(gate);
    // Somebody else makes the server change, past every gate.
    let mut past = Client {
        http: reqwest::Client::builder().no_proxy().build().unwrap(),
        url: server.url().to_owned(),
        headers: HeaderMap::new(),
    };
    past.says("mcp-protocol-version", "2025-11-25");
    past.call("a", "echo").await;

    let mut gated = Gated::start_server(directory, &["--url", server.url()], &[]);
    let listed = gated.shake_hands().await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1, "{listed}");
    assert_eq!(tools[0]["name"], "echo");
    assert_eq!(
        gated.call("b", "read_note").await["error"]["data"]["class"],
        "drift"
    );
    assert_eq!(server.count("tools/call read_note"), 0);
}

#[tokio::test]
async fn many_sessions_at_once_get_their_own_answers() {
    let server = Server::start("stream", &[]);
    let door = Arc::new(Door::before(server.url()).await);
    let sessions = (0..20).map(|session| {
        let door = Arc::clone(&door);
        tokio::spawn(async move {
            let client = door.session(Some(&format!("token-{session}"))).await;
            for call in 0..10 {
                // The same ids in every session.
                let params = format!(r#"{{"name":"echo","arguments":{{"to":"{session}/{call}"}}}}"#);
                let reply = client
                    .post(&request(&format!("{call}"), "tools/call", &params))
                    .await;
                let to = reply.answer()["result"]["structuredContent"]["to"].clone();
                assert_eq!(to, format!("{session}/{call}"), "{}", reply.body);
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    let log = server.log();
    for session in 0..20 {
        let own = format!("tools/call echo Bearer token-{session}");
        assert_eq!(
            log.lines().filter(|line| *line == own).count(),
            10,
            "session {session}"
        );
    }
}

#[tokio::test]
async fn headers_that_name_another_tool_than_the_body_are_mended() {
    let server = Server::start("modern", &[]);
    let door = Door::before(server.url()).await;
    let client = door.client();
    client.ask_modern("l", "tools/list", "").await;
    let body = modern("a", "tools/call", r#""name":"read_note","arguments":{}"#);
    // The fixture refuses, as the protocol says, what it is not told alike in both places; not every server looks.
    let called = client
        .post_with(
            &body,
            &[VERSION, ("mcp-method", "tools/list"), ("mcp-name", "echo")],
        )
        .await;
    assert!(called.answer()["result"].is_object(), "{}", called.shown());
    let listed = client
        .post_with(
            &modern("b", "tools/list", ""),
            &[VERSION, ("mcp-method", "tools/call"), ("mcp-name", "echo")],
        )
        .await;
    assert!(
        listed.answer()["result"]["tools"].is_array(),
        "{}",
        listed.shown()
    );
}
