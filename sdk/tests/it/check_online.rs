//! `mcpindex check` beside an index on loopback: what it is asked, what its answer does, and that one which can't be asked has
//! said nothing.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use insta::assert_snapshot;
use mcpindex::pins::{Accepted, Via};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::FingerprintKey;
use serde_json::{Value, json};

use crate::review::Machine;

/// 2026-03-01 10:00 UTC.
const MARCH: i64 = 1_772_359_200;
/// A key's text form, with its checksum.
const KEY: &str = "mcpk_0123456789abcdefghijABCDEFGHIJ14qmBa";

/// One index; what it was asked, as `METHOD path body`.
struct Index {
    base: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Index {
    /// Answers each question by `verdict` and `alone`, and gives `key` as the organisation's.
    async fn start(status: u16, answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Index {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let (remembered, answer) = (Arc::clone(&asked), Arc::new(answer));
        let router = axum::Router::new().fallback(move |request: Request<Body>| {
            let (remembered, answer) = (Arc::clone(&remembered), Arc::clone(&answer));
            async move {
                let what = format!("{} {}", request.method(), request.uri());
                let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let body = String::from_utf8(body.to_vec()).unwrap();
                remembered.lock().unwrap().push((what.clone(), body.clone()));
                if what.contains("fingerprint-key") {
                    return (StatusCode::OK, json!({"key": "07".repeat(32)}).to_string());
                }
                let questions: Value = serde_json::from_str(&body).unwrap_or_default();
                let items = questions["items"].as_array().cloned().unwrap_or_default();
                let items: Vec<Value> = items.iter().map(|item| answer(item)).collect();
                (
                    StatusCode::from_u16(status).unwrap(),
                    json!({"items": items}).to_string(),
                )
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Index { base, asked }
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }

    /// The one thing that it was asked.
    fn question(&self) -> Value {
        let asked = self.asked();
        let (what, body) = asked.last().unwrap();
        assert_eq!(what, "POST /api/v1/check");
        serde_json::from_str(body).unwrap()
    }
}

fn item(verdict: &str, code: &str, sentence: &str, alone: Option<bool>) -> Value {
    json!({
        "verdict": verdict, "reasons": [{"code": code, "sentence": sentence}],
        "server": {"identity": "npm:docs", "short_id": "0", "state": "ok", "determined": true, "looked_at": null, "page": "/"},
        "tool": null, "digest": null, "declared": null, "current_digest": null, "first_seen": null, "last_seen": null,
        "drifted_since": null, "drift": null, "seen_by": {"crawl": null, "installs": null}, "others": null, "alone": alone,
        "approval": "unknown", "artifact": null, "of a later index": true
    })
}

fn ready(_: &Value) -> Value {
    item(
        "ready",
        "declared-now",
        "The crawler sees exactly this definition at the server.",
        Some(false),
    )
}

/// The text's exit code and the document's, which must agree, with the index's address left out.
fn check(machine: &Machine, index: &Index, arguments: &[&str], key: Option<&str>) -> String {
    let run = |json: bool| {
        let mut command = machine.command(&["check"]);
        command.args(arguments).args(json.then_some("--json"));
        command.env("MCPINDEX_WEB_BASE", &index.base);
        command.envs(key.map(|key| ("MCPINDEX_API_KEY", key)));
        command.stdin(std::process::Stdio::null()).output().unwrap()
    };
    let (text, json) = (run(false), run(true));
    assert_eq!(text.status.code(), json.status.code());
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["exitCode"], text.status.code().unwrap());
    machine.shown(&text).replace(&index.base, "INDEX/")
}

fn pinned(via: Via) -> Machine {
    let machine = Machine::new();
    machine.update("npm:docs", |record| {
        for name in ["search", "fetch"] {
            let definition = Definition::read(&format!(r#"{{"name":"{name}"}}"#));
            record.pin(name, &definition, via, MARCH);
        }
    });
    machine
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_knows_what_this_machine_never_saw() {
    let index = Index::start(200, ready).await;
    let machine = Machine::new();
    assert_snapshot!(check(&machine, &index, &["npm:docs", "search"], None), @r#"
    exit 0
    ready: search on npm:docs
      never-seen  No gate of this machine has seen the server.
      INDEX/ says:
      declared-now  The crawler sees exactly this definition at the server.
    --
    "#);
    assert_eq!(
        index.question(),
        json!({"items": [{"server": "npm:docs", "tool": "search"}]})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_and_could_be_private_is_told_to_no_index_but_as_a_fingerprint() {
    let index = Index::start(200, ready).await;
    let machine = Machine::new();
    // The last of them is an image of a company's, as it may be typed, and no name of a registry.
    for (typed, is_asked) in [
        ("io.github.example/docs", true),
        ("registry.acme.example/image", true),
        ("http://8.8.8.8/s/what-opens-it/mcp", true),
        ("registry.acme.example/team/image", false),
    ] {
        for key in [None, Some(KEY)] {
            let before = index.asked().len();
            check(&machine, &index, &[typed, "search"], key);
            let asked = index.asked().split_off(before);
            assert_eq!(!asked.is_empty(), is_asked, "{typed} {asked:?}");
            for word in ["example", "acme", "opens", "search"] {
                assert!(!format!("{asked:?}").contains(word), "{typed} {asked:?}");
            }
        }
    }
    // By the public constant, and under the organisation's key where it has one.
    let fingerprint =
        |key: &FingerprintKey, name: &str| json!({"items": [{"server_fp": key.server(name).to_string()}]});
    let named = check(&machine, &index, &["io.github.example/docs"], None);
    assert!(named.starts_with("exit 0\nready"), "{named}");
    assert_eq!(
        index.question(),
        fingerprint(&FingerprintKey::public(), "io.github.example/docs")
    );
    check(&machine, &index, &["io.github.example/docs"], Some(KEY));
    assert_eq!(
        index.question(),
        fingerprint(&FingerprintKey::new(&[7; 32]), "io.github.example/docs")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_of_a_companys_registry_is_named_to_no_index_but_the_organisations_own() {
    let index = Index::start(200, ready).await;
    let machine = Machine::new();
    std::fs::create_dir_all(machine.home()).unwrap();
    let line = "@acme:registry=https://npm.acme.example/\n";
    std::fs::write(machine.home().join(".npmrc"), line).unwrap();
    let unasked = check(&machine, &index, &["npm:@acme/tool"], None);
    assert!(
        unasked.contains("was not asked: this server is not public"),
        "{unasked}"
    );
    assert_eq!(index.asked(), []);
    check(&machine, &index, &["npm:@acme/tool"], Some(KEY));
    assert!(!format!("{:?}", index.asked()).contains("acme"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_index_or_with_offline_nothing_is_sent() {
    let index = Index::start(200, ready).await;
    let machine = Machine::new();
    let offline = check(&machine, &index, &["npm:docs", "--offline"], None);
    assert!(offline.starts_with("exit 10\n"), "{offline}");
    assert_eq!(index.asked(), []);
    let document = machine.run(&["check", "npm:docs", "--json"]);
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["index"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pinned_is_asked_about_by_digest() {
    let index = Index::start(200, |question: &Value| match question["tool"].as_str() {
        Some("search") => item(
            "needs-person",
            "alone",
            "Others see another definition of this tool.",
            Some(true),
        ),
        _ => ready(question),
    })
    .await;
    let machine = pinned(Via::FirstSight);
    assert_snapshot!(check(&machine, &index, &["npm:docs", "search"], None), @r#"
    exit 11
    needs a person: search on npm:docs
      pinned-first-sight  Pinned when the server was first seen; no person has approved it.
      INDEX/ says:
      alone  Others see another definition of this tool.
    --
    "#);
    let question = index.question();
    let definition = Definition::read(r#"{"name":"search"}"#);
    assert_eq!(question["items"][0]["digest"], definition.digest().to_string());
    assert!(
        question["items"][0]["hash"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    // A whole server: each tool that no person approved is asked about.
    assert_snapshot!(check(&machine, &index, &["npm:docs"], None), @r#"
    exit 11
    needs a person: npm:docs
      tools-pinned  2 tools are pinned, and none is held.
      INDEX/ says:
      declared-now  The crawler sees exactly this definition at the server.
      alone  search: Others see another definition of this tool.
    --
    "#);
    assert_eq!(index.question()["items"].as_array().unwrap().len(), 3);
    // What a person approved stands.
    let machine = pinned(Via::Approved);
    let approved = check(&machine, &index, &["npm:docs", "search"], None);
    assert!(approved.starts_with("exit 0\nready"), "{approved}");
    assert!(approved.contains("alone  Others see another"), "{approved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_speaks_against_one_tool_speaks_against_its_server() {
    let index = Index::start(200, |question: &Value| match question["tool"].as_str() {
        Some("search") => item("needs-person", "changed-lately", "It changed lately.", None),
        _ => ready(question),
    })
    .await;
    let said = check(&pinned(Via::FirstSight), &index, &["npm:docs"], None);
    assert!(said.starts_with("exit 11\n"), "{said}");
    assert!(
        said.contains("changed-lately  search: It changed lately."),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_let_through_last_is_what_is_asked_about() {
    let index = Index::start(200, ready).await;
    let machine = pinned(Via::Approved);
    let widened = Definition::read(r#"{"name":"search","title":"Search"}"#)
        .digest()
        .to_string();
    machine.update("npm:docs", |record| {
        let pin = record.tools.get_mut("search").unwrap();
        let step = Accepted {
            digest: widened.clone(),
            at: 2,
            via: Via::AutoAccept,
        };
        pin.history.push(step.clone());
        pin.last_seen = Some(step);
    });
    check(&machine, &index, &["npm:docs", "search"], None);
    assert_eq!(index.question()["items"][0]["digest"], widened);
    // No person approved that, so it is asked about for the whole server too.
    check(&machine, &index, &["npm:docs"], None);
    assert_eq!(index.question()["items"][1]["digest"], widened);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_listed_to_a_credential_is_not_asked_about() {
    let index = Index::start(200, ready).await;
    let machine = pinned(Via::FirstSight);
    let said = check(&machine, &index, &["npm:docs", "--context", "work"], Some(KEY));
    assert!(
        said.contains("was not asked: it knows what the server lists to anybody"),
        "{said}"
    );
    assert_eq!(index.asked(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_behind_more_than_one_question_takes_is_asked_about_too() {
    let index = Index::start(200, |question: &Value| match question["tool"].as_str() {
        Some("tool-299") => item("needs-person", "alone", "Others see another.", Some(true)),
        _ => ready(question),
    })
    .await;
    let machine = Machine::new();
    machine.update("npm:docs", |record| {
        for number in 0..300 {
            let name = format!("tool-{number:03}");
            let definition = Definition::read(&format!(r#"{{"name":"{name}"}}"#));
            record.pin(&name, &definition, Via::FirstSight, MARCH);
        }
    });
    let checked = check(&machine, &index, &["npm:docs"], None);
    assert!(
        checked.contains("exit 11") && checked.contains("tool-299"),
        "{checked}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_public_is_named_to_no_index_but_the_organisations_own() {
    let index = Index::start(200, ready).await;
    let machine = Machine::new();
    assert_snapshot!(check(&machine, &index, &["http://10.0.0.1/mcp", "search"], None), @r#"
    exit 10
    unknown: search on http://10.0.0.1/mcp
      never-seen  No gate of this machine has seen the server.
      INDEX/ was not asked: this server is not public, and the index is not known to be your organisation's own
    --
    "#);
    assert_eq!(index.asked(), []);
    let own = check(&machine, &index, &["http://10.0.0.1/mcp", "search"], Some(KEY));
    assert!(own.starts_with("exit 0\nready"), "{own}");
    let key = FingerprintKey::new(&[7; 32]);
    let identity = Identity::from_url("http://10.0.0.1/mcp").unwrap().to_string();
    assert_eq!(
        index.question(),
        json!({"items": [{
            "server_fp": key.server(&identity).to_string(),
            "tool_fp": key.tool(&identity, "search").to_string(),
        }]})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_could_not_be_asked_has_said_nothing() {
    let machine = Machine::new();
    let failing = Index::start(503, ready).await;
    assert_snapshot!(check(&machine, &failing, &["npm:docs"], None), @r#"
    exit 13
    try later: npm:docs
      never-seen  No gate of this machine has seen the server.
      INDEX/ could not be asked: it answered 503
    --
    "#);
    let closed = Index::start(401, ready).await;
    let refused = check(&machine, &closed, &["npm:docs"], None);
    assert!(refused.contains("`mcpindex login`"), "{refused}");
    let other = Index::start(403, ready).await;
    let refused = check(&machine, &other, &["npm:docs"], Some(KEY));
    assert!(
        refused.contains("your key may not ask there; `mcpindex login` gets one that may ask and tell"),
        "{refused}"
    );
    // Another number of answers than questions, and an answer of another shape.
    let short = Index::start(200, |_: &Value| json!({"verdict": "ready"})).await;
    let unread = check(&machine, &short, &["npm:docs"], None);
    assert!(unread.starts_with("exit 13\n"), "{unread}");
    // What this machine knows for sure needs no index.
    let pinned = check(&pinned(Via::FirstSight), &failing, &["npm:docs"], None);
    assert!(pinned.starts_with("exit 0\nready"), "{pinned}");
    assert!(pinned.contains("could not be asked"), "{pinned}");
    let nowhere = Index {
        base: "not an address".to_owned(),
        asked: Arc::default(),
    };
    let unusable = check(&machine, &nowhere, &["npm:docs"], None);
    assert!(unusable.starts_with("exit 13\n"), "{unusable}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_can_not_write_on_the_terminal() {
    let index = Index::start(200, |_: &Value| {
        item("ready", "x\u{1b}[2J", "a\u{1b}]0;b\u{7}\nready", None)
    })
    .await;
    let shown = check(&Machine::new(), &index, &["npm:docs"], None);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    assert_eq!(shown.matches("\nready").count(), 1, "{shown}");
}
