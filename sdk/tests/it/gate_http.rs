//! `mcpindex gate --url URL`: a client on stdin and stdout, a server behind real sockets.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;
use mcpindex::clock::SystemClock;
use mcpindex::gate::{Gate, GateLimits, GateOptions, NewTools};
use mcpindex::pins::Pins;
use mcpindex::proxy::http::{HttpOptions, Notice, run};
use mcpindex::wire::http::{Endpoint, RemoteLimits};
use mcpindex_contract::posture::Posture;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::client::loopback;
use crate::http::Listening;
use crate::proxy::{Gated, INITIALIZE, INITIALIZED, LIMIT, request, until};
use crate::stdio::FIXTURE;

/// `_meta` of a client of the new era.
pub(crate) const MODERN_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The fixture over HTTP, and what it was asked.
pub(crate) struct Server {
    pub(crate) listening: Listening,
    directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(transport: &str, options: &[&str]) -> Server {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut command = Command::new(FIXTURE);
        command.args(["--http", "gated", log.to_str().unwrap(), transport]);
        Server {
            listening: Listening::start(command.args(options)),
            directory,
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.listening.url
    }

    /// What it received, one method a line, with the credential.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.log().lines().filter(|known| known.starts_with(line)).count()
    }

    fn gated(&self, options: &[&str]) -> Gated {
        let options = [&["--url", self.url()], options].concat();
        Gated::start_server(tempfile::tempdir().unwrap(), &options, &[])
    }
}

pub(crate) fn modern(id: &str, method: &str, members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    request(id, method, &format!("{{{members}{comma}{MODERN_META}}}"))
}

/// Handshake and list in the server's era; the names listed.
async fn shake_hands(gated: &mut Gated, transport: &str) -> Vec<String> {
    let listed = if transport == "modern" {
        gated.say(&modern("0", "server/discover", "")).await;
        assert_eq!(gated.hear().await["result"]["resultType"], "complete");
        gated
            .say(&modern(
                "s",
                "subscriptions/listen",
                r#""notifications":{"toolsListChanged":true}"#,
            ))
            .await;
        let acknowledged = gated.hear().await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        gated.say(&modern("list", "tools/list", "")).await;
        answer(gated, "list").await
    } else {
        gated.say(INITIALIZE).await;
        while gated.hear().await["id"] != 0 {}
        gated.say(INITIALIZED).await;
        gated.ask("list", "tools/list", "{}").await
    };
    names(&listed)
}

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{listed}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn answer(gated: &mut Gated, id: &str) -> Value {
    loop {
        let heard = gated.hear().await;
        if heard["id"] == id {
            return heard;
        }
    }
}

async fn call(gated: &mut Gated, transport: &str, id: &str, tool: &str) -> Value {
    let members = format!(r#""name":"{tool}","arguments":{{"to":"é"}}"#);
    match transport {
        "modern" => gated.say(&modern(id, "tools/call", &members)).await,
        _ => {
            gated
                .say(&request(id, "tools/call", &format!("{{{members}}}")))
                .await;
        }
    }
    answer(gated, id).await
}

#[tokio::test]
async fn a_tool_that_changed_is_held_on_every_transport_before_the_server_sees_the_call() {
    for transport in ["json", "stream", "modern", "older"] {
        let server = Server::start(transport, &["change-after=1"]);
        let mut gated = server.gated(&["--server", "notes"]);
        assert_eq!(
            shake_hands(&mut gated, transport).await,
            ["read_note", "echo"],
            "{transport}"
        );
        if matches!(transport, "json" | "stream") {
            // Nobody can announce anything before.
            until("the stream of what nobody asked for", || server.count("GET") == 1).await;
        }
        let called = call(&mut gated, transport, "a", "read_note").await;
        assert!(called["result"].is_object(), "{transport}: {called}");
        loop {
            let heard = gated.hear().await;
            if heard["method"] == "notifications/tools/list_changed" {
                break;
            }
        }
        let held = call(&mut gated, transport, "b", "read_note").await;
        assert_eq!(held["error"]["code"], -32010, "{transport}: {held}");
        assert_eq!(held["error"]["data"]["class"], "drift", "{transport}: {held}");
        let other = call(&mut gated, transport, "c", "echo").await;
        assert!(other["result"].is_object(), "{transport}: {other}");
        assert_eq!(
            server.count("tools/call read_note"),
            1,
            "{transport}: {}",
            server.log()
        );
        assert_eq!(
            server.count("tools/call echo"),
            1,
            "{transport}: {}",
            server.log()
        );
        let end = gated.end().await;
        assert!(end.starts_with("exit 0"), "{transport}: {end}");
        let ended = usize::from(matches!(transport, "json" | "stream"));
        assert_eq!(server.count("DELETE"), ended, "{transport}: {}", server.log());
    }
}

#[tokio::test]
async fn the_same_messages_come_with_the_gate_and_without() {
    let server = Server::start("stream", &[]);
    let mut gated = server.gated(&[]);
    gated.say(INITIALIZE).await;
    let mut heard = gated.hear_line().await + &gated.hear_line().await;
    gated.say(INITIALIZED).await;
    gated
        .say(r#"{ "jsonrpc":"2.0", "id" : 1e0,"method":"tools/list"}"#)
        .await;
    heard += &(gated.hear_line().await + &gated.hear_line().await);
    let echo = r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"name":"echo","arguments":{"to": "\u00e9 é"}}}"#;
    gated.say(echo).await;
    heard += &(gated.hear_line().await + &gated.hear_line().await);
    assert_snapshot!(heard, @r#"
    {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é"}}
    {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"gated","version":"1"}}}
    {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é"}}
    {"jsonrpc":"2.0","id":1.0,"result":{"tools":[{"name":"read_note","description":"Reads one note.","inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"To"}}}}]}}
    {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"é"}}
    {"jsonrpc":"2.0","id":"a","result":{"content":[], "structuredContent":{"to":"é é"}}}
    "#);
}

#[tokio::test]
async fn a_want_of_a_sign_in_says_what_to_do_and_ends() {
    let server = Server::start("json", &["key"]);
    let mut gated = server.gated(&["--server", "notes"]);
    gated.say(INITIALIZE).await;
    let refused = gated.hear().await;
    assert_eq!(refused["id"], 0);
    assert_snapshot!(refused["error"].to_string(), @r#"{"code":-32603,"message":"HTTP 401: the server wants a sign-in: give its token with --bearer-env VARIABLE, or its key with --header 'NAME: VALUE' (signing in from here comes later)"}"#);
    assert_snapshot!(gated.end().await, @r"
    exit 5
    --
    mcpindex: notes: HTTP 401: the server wants a sign-in: give its token with --bearer-env VARIABLE, or its key with --header 'NAME: VALUE' (signing in from here comes later)
    ");

    let mut gated = server.gated(&["--server", "notes", "--header", "Authorization: Bearer old"]);
    gated.say(INITIALIZE).await;
    assert_eq!(gated.hear().await["id"], 0);
    assert_snapshot!(gated.end().await, @r"
    exit 5
    --
    mcpindex: notes: HTTP 401: the server does not accept the credential in the header `authorization`: renew it, or give another with --bearer-env VARIABLE or --header 'NAME: VALUE'
    ");

    let mut gated = server.gated(&["--header", "Authorization: Bearer fixture-token"]);
    assert_eq!(shake_hands(&mut gated, "json").await, ["read_note", "echo"]);
    assert_eq!(server.count("tools/list Bearer fixture-token"), 1);
    let end = gated.end().await;
    assert!(!end.contains("fixture-token"), "{end}");
}

/// What the client and the person see of a server that answers `initialize` like this.
async fn first_answer(url: &str) -> String {
    let mut gated = Gated::start_server(
        tempfile::tempdir().unwrap(),
        &["--url", url, "--server", "notes"],
        &[],
    );
    gated.say(INITIALIZE).await;
    let refused = gated.hear().await;
    assert_eq!(refused["id"], 0);
    format!("{}\n{}", refused["error"], gated.end().await)
}

#[tokio::test]
async fn what_is_no_mcp_server_gets_one_clear_line_and_the_client_an_answer() {
    let mut seen = String::new();
    for scenario in ["html", "not-found", "redirect", "packed", "unavailable"] {
        let server = Listening::fixture(scenario);
        seen += &first_answer(&server.url).await;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    seen += &first_answer(&format!("http://127.0.0.1:{port}/mcp")).await;
    // One that speaks no TLS.
    let server = Listening::fixture("html");
    seen += &first_answer(&server.url.replace("http:", "https:")).await;
    assert_snapshot!(seen, @r#"
    {"code":-32603,"message":"`initialize` got no answer: no MCP server: HTTP 200 OK with text/html"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: no MCP server: HTTP 200 OK with text/html
    {"code":-32603,"message":"`initialize` got no answer: no MCP server: HTTP 404 Not Found"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: no MCP server: HTTP 404 Not Found
    {"code":-32603,"message":"`initialize` got no answer: no MCP server: HTTP 307 Temporary Redirect redirects to `http://127.0.0.1:1/`"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: no MCP server: HTTP 307 Temporary Redirect redirects to `http://127.0.0.1:1/`
    {"code":-32603,"message":"`initialize` got no answer: no MCP server: HTTP 200 OK is packed as `br`, though that was declined"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: no MCP server: HTTP 200 OK is packed as `br`, though that was declined
    {"code":-32603,"message":"`initialize` got no answer: HTTP 503: the server can't answer now"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: HTTP 503: the server can't answer now
    {"code":-32603,"message":"`initialize` got no answer: unreachable: Connection refused (os error 111)"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: unreachable: Connection refused (os error 111)
    {"code":-32603,"message":"`initialize` got no answer: unreachable: tls handshake eof"}
    exit 0
    --
    mcpindex: notes: `initialize` got no answer: unreachable: tls handshake eof
    "#);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_on_every_transport() {
    for transport in ["stream", "older"] {
        let server = Server::start(transport, &["cut"]);
        let mut gated = server.gated(&["--server", "notes"]);
        shake_hands(&mut gated, transport).await;
        let broken = call(&mut gated, transport, "a", "echo").await;
        assert!(
            broken["error"]["code"].is_i64() || broken["result"].is_object(),
            "{transport}: {broken}"
        );
        if transport == "stream" {
            assert_snapshot!(broken["error"].to_string(), @r#"{"code":-32603,"message":"`tools/call` got no answer: the connection ended before `tools/call` was answered"}"#);
            assert_snapshot!(gated.end().await, @r"
            exit 0
            --
            mcpindex: notes is new: 2 tools pinned
            mcpindex: notes: `tools/call` got no answer: the connection ended before `tools/call` was answered
            ");
        } else {
            // The stream goes after the answer: whoever asks then is told.
            until("the end of the stream", || {
                std::fs::read_to_string(gated.file("stderr"))
                    .unwrap()
                    .contains("stream ended")
            })
            .await;
            let broken = call(&mut gated, transport, "b", "echo").await;
            assert!(broken["error"].is_object(), "{broken}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_to_be_fetched_again_is_fetched_by_its_last_id() {
    let server = Server::start("stream", &["poll"]);
    let mut gated = server.gated(&[]);
    shake_hands(&mut gated, "stream").await;
    let called = call(&mut gated, "stream", "a", "echo").await;
    assert_eq!(called["result"]["structuredContent"]["to"], "é", "{called}");
    assert_eq!(server.count("GET answer-0"), 1);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn a_session_that_is_gone_is_an_error_and_a_new_handshake_begins_another() {
    let server = Server::start("json", &["lost"]);
    let mut gated = server.gated(&["--server", "notes"]);
    shake_hands(&mut gated, "json").await;
    let lost = call(&mut gated, "json", "a", "echo").await;
    assert_snapshot!(lost["error"].to_string(), @r#"{"code":-32603,"message":"HTTP 404: the server has ended the session; a new one begins with a new connection"}"#);
    gated
        .say(&INITIALIZE.replace(r#""id":0"#, r#""id":"again""#))
        .await;
    assert!(answer(&mut gated, "again").await["result"].is_object());
    gated.say(INITIALIZED).await;
    assert_eq!(
        names(&gated.ask("list2", "tools/list", "{}").await),
        ["read_note", "echo"]
    );
    assert_snapshot!(gated.end().await, @r"
    exit 0
    --
    mcpindex: notes is new: 2 tools pinned
    mcpindex: notes: HTTP 404: the server has ended the session; a new one begins with a new connection
    ");
}

#[tokio::test]
async fn a_request_of_the_new_era_is_cancelled_by_leaving_it() {
    let server = Server::start("modern", &["no-answers"]);
    let mut gated = server.gated(&[]);
    shake_hands(&mut gated, "modern").await;
    gated
        .say(&modern("slow", "tools/call", r#""name":"echo","arguments":{}"#))
        .await;
    until("the call", || server.count("tools/call") == 1).await;
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}"#;
    gated.say(cancelled).await;
    until("that the call was left", || server.count("left") == 1).await;
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[tokio::test]
async fn what_was_asked_before_the_client_closed_its_end_is_still_answered() {
    let server = Server::start("json", &[]);
    let mut gated = server.gated(&[]);
    shake_hands(&mut gated, "json").await;
    for number in 0..50 {
        gated
            .say(&request(
                &format!("n{number}"),
                "tools/call",
                r#"{"name":"echo","arguments":{}}"#,
            ))
            .await;
    }
    let end = gated.end().await;
    assert!(end.starts_with("exit 0"), "{end}");
    assert_eq!(end.matches("structuredContent").count(), 50, "{end}");
}

#[tokio::test]
async fn an_armed_drill_holds_one_call() {
    let server = Server::start("json", &[]);
    let mut gated = server.gated(&[]);
    shake_hands(&mut gated, "json").await;
    std::fs::write(gated.file("state/gate/drill-armed"), "").unwrap();
    let held = call(&mut gated, "json", "a", "echo").await;
    assert_eq!(held["error"]["data"]["class"], "drill", "{held}");
    let called = call(&mut gated, "json", "b", "echo").await;
    assert!(called["result"].is_object(), "{called}");
    assert_eq!(server.count("tools/call"), 1);
}

/// The client asks for more than any queue holds before it reads a word.
#[tokio::test]
async fn a_client_that_reads_late_loses_nothing() {
    let server = Server::start("json", &[]);
    let (mut write, mut read, _) = within(&server, RemoteLimits::default()).await;
    say_and_hear(&mut write, &mut read, INITIALIZE).await;
    write
        .write_all(format!("{INITIALIZED}\n").as_bytes())
        .await
        .unwrap();
    let long = "x".repeat(100 << 10);
    for number in 0..40 {
        let params = format!(r#"{{"name":"echo","arguments":{{"to":"{long}"}}}}"#);
        let line = request(&format!("n{number}"), "tools/call", &params) + "\n";
        timeout(LIMIT, write.write_all(line.as_bytes()))
            .await
            .unwrap()
            .unwrap();
    }
    until("every call", || server.count("tools/call") == 40).await;
    for _ in 0..40 {
        let mut heard = String::new();
        timeout(LIMIT, read.read_line(&mut heard))
            .await
            .expect("nothing came in time")
            .unwrap();
        assert!(heard.len() > 100 << 10 && heard.contains("structuredContent"));
    }
}

#[tokio::test]
async fn a_long_message_passes_both_ways() {
    let server = Server::start("json", &[]);
    let mut gated = server.gated(&[]);
    shake_hands(&mut gated, "json").await;
    let long = "é".repeat(4 << 20);
    let params = format!(r#"{{"name":"echo","arguments":{{"to":"{long}"}}}}"#);
    let called = gated.ask("long", "tools/call", &params).await;
    assert!(
        called["result"]["structuredContent"]["to"] == *long,
        "{}",
        server.log()
    );
}

/// A gate that runs in this process, with these bounds; the client's end, and the lines for the person.
async fn within(
    server: &Server,
    limits: RemoteLimits,
) -> (impl AsyncWriteExt, impl AsyncBufReadExt, Arc<Mutex<Vec<String>>>) {
    let options = HttpOptions {
        client: loopback(),
        endpoint: Endpoint {
            url: server.url().parse().unwrap(),
            headers: Vec::new(),
        },
        limits,
        drills: None,
    };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&lines);
    let tell = Arc::new(move |notice| {
        if let Notice::Line(line) = notice {
            told.lock().unwrap().push(line);
        }
    });
    let (client, ours) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    tokio::spawn(async move { run(options, memory_gate(), read, write, tell, std::future::pending()).await });
    let (read, write) = tokio::io::split(client);
    (write, BufReader::new(read), lines)
}

/// A gate whose pins last as long as the test.
pub(crate) fn memory_gate() -> Gate {
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
    Gate::new(options, Pins::memory())
}

async fn say_and_hear(
    write: &mut (impl AsyncWriteExt + Unpin),
    read: &mut (impl AsyncBufReadExt + Unpin),
    line: &str,
) -> Value {
    write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    loop {
        let mut heard = String::new();
        timeout(LIMIT, read.read_line(&mut heard))
            .await
            .expect("nothing came in time")
            .unwrap();
        let heard: Value = serde_json::from_str(&heard).unwrap();
        if !heard["id"].is_null() {
            return heard;
        }
    }
}

#[tokio::test]
async fn silence_and_an_event_without_an_end_stop_at_their_limits() {
    let mut seen = String::new();
    for option in ["no-answers", "endless"] {
        let server = Server::start("stream", &[option]);
        let limits = RemoteLimits {
            message_bytes: 1 << 20,
            silence: Duration::from_secs(1),
            ..RemoteLimits::default()
        };
        let (mut write, mut read, lines) = within(&server, limits).await;
        say_and_hear(&mut write, &mut read, INITIALIZE).await;
        write
            .write_all(format!("{INITIALIZED}\n").as_bytes())
            .await
            .unwrap();
        let broken = say_and_hear(
            &mut write,
            &mut read,
            &request("a", "tools/call", r#"{"name":"echo"}"#),
        )
        .await;
        seen += &format!("{}\n{:?}\n", broken["error"], lines.lock().unwrap());
    }
    assert_snapshot!(seen, @r#"
    {"code":-32603,"message":"`tools/call` got no answer: timed out"}
    ["`tools/call` got no answer: timed out"]
    {"code":-32603,"message":"`tools/call` got no answer: more than 1048576 bytes in one message"}
    ["`tools/call` got no answer: more than 1048576 bytes in one message"]
    "#);
}

#[tokio::test]
async fn more_requests_than_may_be_open_wait_for_their_turn() {
    let server = Server::start("json", &[]);
    let limits = RemoteLimits {
        requests: 2,
        ..RemoteLimits::default()
    };
    let (mut write, mut read, _) = within(&server, limits).await;
    say_and_hear(&mut write, &mut read, INITIALIZE).await;
    write
        .write_all(format!("{INITIALIZED}\n").as_bytes())
        .await
        .unwrap();
    let mut lines = String::new();
    for number in 0..100 {
        lines += &request(
            &format!("n{number}"),
            "tools/call",
            r#"{"name":"echo","arguments":{}}"#,
        );
        lines += "\n";
    }
    write.write_all(lines.as_bytes()).await.unwrap();
    for _ in 0..100 {
        let mut heard = String::new();
        timeout(LIMIT, read.read_line(&mut heard))
            .await
            .expect("nothing came in time")
            .unwrap();
        assert!(heard.contains("structuredContent"), "{heard}");
    }
}

#[tokio::test]
async fn the_older_transport_is_spoken_by_an_inspection_too() {
    let server = Server::start("older", &[]);
    let inspection = crate::client::look_at(server.url(), &[], &crate::report::limits()).await;
    assert_snapshot!(crate::report::report(&inspection), @r"
    ok
    protocol: 2025-11-25
    tools: read_note, echo
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
    assert_snapshot!(server.log(), @r"
    GET
    initialize
    notifications/initialized
    tools/list
    ");
}

/// A server over HTTP that answers each request with what `answer` makes of its method and id.
async fn scripted(answer: impl Fn(&str, &Value) -> String + Send + Sync + 'static) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serve = move |posted: String| {
        let asked: Value = serde_json::from_str(&posted).unwrap_or_default();
        let (status, body) = match (asked["method"].as_str(), asked["id"].is_null()) {
            (Some(method), false) => ("200 OK", answer(method, &asked["id"])),
            _ => ("202 Accepted", String::new()),
        };
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let (mut line, mut length) = (String::new(), 0);
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = said.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            tokio::io::AsyncReadExt::read_exact(&mut stream, &mut body)
                .await
                .unwrap();
            let answer = serve(String::from_utf8(body).unwrap());
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn an_answer_of_many_lines_is_one_message_to_a_client_on_stdio() {
    let url = scripted(|method, id| match method {
        "initialize" => format!(
            "{{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": {id},\n  \"result\": {{\n \"protocolVersion\": \"2025-06-18\"\n}} }}\n"
        ),
        // To a client that reads line by line, the middle one would be a list that nobody judged.
        _ => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\n{{\"jsonrpc\":\"2.0\",\"id\":\"list\",\"result\":{{\"tools\":[{{\"name\":\"evil\"}}]}}}}\n}}}}"
        ),
    })
    .await;
    let options = HttpOptions {
        client: loopback(),
        endpoint: Endpoint {
            url: url.parse().unwrap(),
            headers: Vec::new(),
        },
        limits: RemoteLimits::default(),
        drills: None,
    };
    let (client, ours) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(ours);
    tokio::spawn(async move {
        let tell = Arc::new(|_| {});
        run(options, memory_gate(), read, write, tell, std::future::pending()).await
    });
    let (read, mut write) = tokio::io::split(client);
    let mut read = BufReader::new(read);
    let initialized = say_and_hear(&mut write, &mut read, INITIALIZE).await;
    assert_eq!(initialized["result"]["protocolVersion"], "2025-06-18");
    let answered = say_and_hear(&mut write, &mut read, &request("a", "ping", "{}")).await;
    assert_eq!(
        (&answered["id"], &answered["result"]["x"]["id"]),
        (&Value::from("a"), &Value::from("list"))
    );
}
