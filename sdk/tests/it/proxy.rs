//! `mcpindex gate -- COMMAND` with real processes: what passes, and what is held before the server sees it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::stdio::FIXTURE;

pub(crate) const EXECUTABLE: &str = env!("CARGO_BIN_EXE_mcpindex");

/// Far longer than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client's end of a gated server. `FIXTURE gated LOG …` unless a test says otherwise.
pub(crate) struct Gated {
    pub(crate) child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// Holds the state directory `state`, the server's `log`, and whatever a test puts there.
    pub(crate) directory: tempfile::TempDir,
}

impl Gated {
    /// The fixture with these options, behind a gate with these.
    pub(crate) fn start(gate: &[&str], fixture: &[&str]) -> Gated {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let server = [&[FIXTURE, "gated", log.to_str().unwrap()], fixture].concat();
        Gated::start_server(directory, gate, &server)
    }

    /// Any server.
    pub(crate) fn start_server(directory: tempfile::TempDir, gate: &[&str], server: &[&str]) -> Gated {
        Gated::start_within(directory, &[], gate, server)
    }

    /// Any server, in an environment with these variables more.
    pub(crate) fn start_within(
        directory: tempfile::TempDir,
        variables: &[(&str, &str)],
        gate: &[&str],
        server: &[&str],
    ) -> Gated {
        let stderr = std::fs::File::create(directory.path().join("stderr")).unwrap();
        let mut child = Command::new(EXECUTABLE)
            .arg("gate")
            .args(gate)
            .arg("--")
            .args(server)
            .env("MCPINDEX_STATE_DIR", directory.path().join("state"))
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Gated {
            to: child.stdin.take(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
            directory,
        }
    }

    /// The same server again, with the pins that are there.
    pub(crate) async fn start_again(mut self, gate: &[&str], fixture: &[&str]) -> Gated {
        self.end().await;
        let directory = self.directory;
        let log = directory.path().join("log");
        let server = [&[FIXTURE, "gated", log.to_str().unwrap()], fixture].concat();
        Gated::start_server(directory, gate, &server)
    }

    /// Handshake and first listing; its answer.
    pub(crate) async fn shake_hands(&mut self) -> Value {
        self.say(INITIALIZE).await;
        assert_eq!(self.hear().await["id"], 0);
        self.say(INITIALIZED).await;
        self.ask("list", "tools/list", "{}").await
    }

    pub(crate) async fn say(&mut self, line: &str) {
        let to = self.to.as_mut().unwrap();
        timeout(LIMIT, to.write_all(format!("{line}\n").as_bytes()))
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.to.take().unwrap()
    }

    /// The client reads no more.
    pub(crate) fn close_output(self) -> (Child, tempfile::TempDir) {
        (self.child, self.directory)
    }

    /// The next line that the client gets; empty at the end.
    pub(crate) async fn hear_line(&mut self) -> String {
        let mut line = String::new();
        timeout(LIMIT, self.from.read_line(&mut line))
            .await
            .expect("nothing came in time")
            .unwrap();
        line
    }

    pub(crate) async fn hear(&mut self) -> Value {
        let line = self.hear_line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Asks, and waits for the answer; what comes in between is dropped.
    pub(crate) async fn ask(&mut self, id: &str, method: &str, params: &str) -> Value {
        self.say(&request(id, method, params)).await;
        loop {
            let heard = self.hear().await;
            if heard["id"] == id {
                return heard;
            }
        }
    }

    pub(crate) async fn call(&mut self, id: &str, tool: &str) -> Value {
        self.ask(
            id,
            "tools/call",
            &format!(r#"{{"name":"{tool}","arguments":{{}}}}"#),
        )
        .await
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the server received, one method a line.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    pub(crate) fn calls(&self) -> usize {
        self.log()
            .lines()
            .filter(|line| line.starts_with("tools/call"))
            .count()
    }

    /// Closes the client's end and reads the rest: how the gate ended, and what the person saw.
    pub(crate) async fn end(&mut self) -> String {
        self.to = None;
        let mut rest = Vec::new();
        timeout(LIMIT, self.from.read_to_end(&mut rest))
            .await
            .expect("the output was not closed")
            .unwrap();
        let code = ended(&mut self.child).await;
        let stderr = std::fs::read_to_string(self.directory.path().join("stderr")).unwrap();
        let stderr: String = stderr.replace(self.directory.path().to_str().unwrap(), "DIRECTORY");
        format!(
            "exit {code}\n{}--\n{}",
            String::from_utf8_lossy(&rest),
            stderr.replace(FIXTURE, "FIXTURE")
        )
    }
}

pub(crate) fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#)
}

pub(crate) async fn ended(child: &mut Child) -> i32 {
    timeout(LIMIT, child.wait())
        .await
        .expect("the gate did not end")
        .unwrap()
        .code()
        .unwrap_or(-1)
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

fn names(listing: &Value) -> Vec<&str> {
    listing["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

/// `tee` on both sides of the server.
fn recorded(directory: &Path) -> [String; 3] {
    let script = format!(
        "tee '{0}/in' | '{FIXTURE}' gated '{0}/log' | tee '{0}/out'",
        directory.display()
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}

#[tokio::test]
async fn what_is_not_held_passes_to_the_byte() {
    let directory = tempfile::tempdir().unwrap();
    let server = recorded(directory.path());
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let mut gated = Gated::start_server(directory, &["--server", "notes"], &server);
    let said = [
        INITIALIZE,
        INITIALIZED,
        "",
        "{ \"jsonrpc\" : \"2.0\", \"id\" : 1e0 , \"method\":\"tools\\/list\" }\r",
        "{\"id\":\"\\u0061\",\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"arguments\":{\"x\": 1.10,\"y\":\"\\ud800 \u{2028}\"},\"name\":\"ech\\u006f\"}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":7,\"progress\":0.50}}",
        "\t{\"jsonrpc\":\"2.0\",\"id\":-3,\"method\":\"resources/unknown\"}  ",
    ];
    let mut heard = String::new();
    for line in said {
        gated.say(line).await;
        if line.contains("\"id\"") {
            heard += &gated.hear_line().await;
        }
    }
    let (input, output) = (gated.file("in"), gated.file("out"));
    gated.to = None;
    until("all that was said", || {
        std::fs::read(&input).unwrap().len() > said.join("\n").len()
    })
    .await;
    assert_eq!(std::fs::read_to_string(&input).unwrap(), said.join("\n") + "\n");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), heard);
    assert!(
        heard.contains("{\"x\": 1.10,\"y\":\"\\ud800 \u{2028}\"}"),
        "{heard}"
    );
    assert_snapshot!(gated.end().await, @r"
    exit 0
    --
    mcpindex: notes is new: 3 tools pinned
    ");
}

#[tokio::test]
async fn a_tool_that_changed_is_held_before_the_server_sees_the_call() {
    let mut gated = Gated::start(&["--server", "notes"], &["change-after=1", "announce"]);
    assert_eq!(names(&gated.shake_hands().await), ["read_note", "echo", "big"]);
    assert!(gated.call("a", "read_note").await["result"].is_object());
    assert_eq!(gated.hear().await["method"], "notifications/tools/list_changed");

    let held = gated.call("b", "read_note").await;
    assert_eq!(held["error"]["code"], -32010, "{held}");
    assert_eq!(held["error"]["data"]["class"], "drift", "{held}");
    assert!(gated.call("c", "echo").await["result"].is_object());
    assert_eq!(names(&gated.ask("d", "tools/list", "{}").await), ["echo", "big"]);
    assert_snapshot!(gated.log(), @r"
    initialize
    notifications/initialized
    tools/list
    tools/call read_note
    tools/list
    tools/call echo
    tools/list
    ");
    assert_snapshot!(gated.end().await, @r"
    exit 0
    --
    mcpindex: notes is new: 3 tools pinned
    mcpindex: held read_note on notes: By its declaration the tool can do something that it could not. 2 more reasons. See `mcpindex review`.
    mcpindex: held read_note on notes: By its declaration the tool can do something that it could not. 2 more reasons. See `mcpindex review`.
    ");
}

#[tokio::test]
async fn a_tool_that_changed_without_a_word_is_held_from_the_next_listing_on() {
    let mut gated = Gated::start(&[], &["change-after=1"]);
    gated.shake_hands().await;
    gated.call("a", "read_note").await;
    assert_eq!(names(&gated.ask("b", "tools/list", "{}").await), ["echo", "big"]);
    assert_eq!(gated.call("c", "read_note").await["error"]["code"], -32010);
    assert_eq!(gated.calls(), 1);
}

#[tokio::test]
async fn what_changed_between_two_sessions_is_held_in_the_second() {
    let mut gated = Gated::start(&[], &["change-after=1"]);
    gated.shake_hands().await;
    // Another launch line would be another server.
    let mut gated = gated.start_again(&[], &["change-after=1"]).await;
    assert_eq!(names(&gated.shake_hands().await), ["read_note", "echo", "big"]);
    assert_eq!(gated.calls(), 0);
}

#[tokio::test]
async fn monitor_lets_the_call_through_and_says_what_it_would_have_held() {
    let mut gated = Gated::start(
        &["--posture", "monitor", "--server", "notes"],
        &["change-after=1", "announce"],
    );
    gated.shake_hands().await;
    for id in ["a", "b", "c"] {
        assert!(gated.call(id, "read_note").await["result"].is_object());
    }
    assert_eq!(gated.calls(), 3);
    assert_snapshot!(gated.end().await, @r"
    exit 0
    --
    mcpindex: notes is new: 3 tools pinned
    mcpindex: would hold read_note on notes: By its declaration the tool can do something that it could not. 2 more reasons. See `mcpindex review`.
    ");
}

#[tokio::test]
async fn a_drill_is_one_staged_hold_and_the_next_call_passes() {
    let mut gated = Gated::start(&["--server", "notes"], &[]);
    gated.shake_hands().await;
    let armed = gated.file("state/gate/drill-armed");
    std::fs::create_dir_all(armed.parent().unwrap()).unwrap();
    std::fs::write(&armed, "").unwrap();
    let held = gated.call("a", "echo").await;
    assert_eq!(held["error"]["data"]["class"], "drill", "{held}");
    assert!(gated.call("b", "echo").await["result"].is_object());
    assert_eq!(gated.calls(), 1);
    assert!(!armed.exists());
    assert_snapshot!(gated.end().await, @r"
    exit 0
    --
    mcpindex: notes is new: 3 tools pinned
    mcpindex: held echo on notes: This hold was staged (`mcpindex wire --drill`): the tool did not change.
    ");
}

#[tokio::test]
async fn pages_are_read_to_their_end_before_the_first_goes_out() {
    let mut gated = Gated::start(&[], &["pages=3"]);
    let first = gated.shake_hands().await;
    assert_eq!(first["result"]["nextCursor"], "1");
    assert_eq!(gated.log().matches("tools/list").count(), 4);
    // A tool of a page that the client has not asked for is known all the same.
    assert!(gated.call("a", "page_3").await["result"].is_object());
    let second = gated.ask("b", "tools/list", r#"{"cursor":"1"}"#).await;
    assert_eq!(names(&second), ["page_1"]);
    let unknown = gated.ask("c", "tools/list", r#"{"cursor":"elsewhere"}"#).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(gated.log().matches("tools/list").count(), 4);
}

#[tokio::test]
async fn a_storm_of_announcements_costs_few_listings() {
    let mut gated = Gated::start(&[], &["change-after=1", "announce-storm"]);
    gated.shake_hands().await;
    gated.call("a", "echo").await;
    assert_eq!(gated.call("b", "read_note").await["error"]["code"], -32010);
    let listings = gated.log().matches("tools/list").count();
    assert!(listings <= 4, "{listings} listings");
    assert_eq!(gated.calls(), 1);
}

#[tokio::test]
async fn a_call_before_any_listing_waits_for_one_of_the_gates_own() {
    let mut gated = Gated::start(&[], &[]);
    gated.say(INITIALIZE).await;
    gated.hear().await;
    gated.say(INITIALIZED).await;
    assert!(gated.call("a", "read_note").await["result"].is_object());
    assert_snapshot!(gated.log(), @r"
    initialize
    notifications/initialized
    tools/list
    tools/call read_note
    ");
}

#[tokio::test]
async fn a_server_that_never_lists_has_its_calls_held_in_time() {
    let mut gated = Gated::start(&["--list-timeout", "1"], &["no-listing"]);
    gated.say(INITIALIZE).await;
    gated.hear().await;
    gated.say(INITIALIZED).await;
    let held = gated.call("a", "read_note").await;
    assert_eq!(held["error"]["data"]["decision"], "inconclusive", "{held}");
    assert_eq!(gated.calls(), 0);
}

#[tokio::test]
async fn a_server_that_never_answers_a_call_holds_up_nothing_else() {
    let mut gated = Gated::start(&[], &["no-answers"]);
    gated.shake_hands().await;
    gated.say(&request("a", "tools/call", r#"{"name":"echo"}"#)).await;
    assert!(gated.ask("b", "ping", "{}").await["result"].is_object());
    assert_eq!(gated.calls(), 1);
}
