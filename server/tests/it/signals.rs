//! What installs send and ask over HTTP: the published answers to the byte, what is refused, what is shown and when.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use mcpindex_contract::signal::{
    Digests, Event, Fingerprint, FingerprintKey, InstallId, Sdk, Signal, read, write,
};
use mcpindex_server::access::{Access, AccessRules, Metrics, Rates, Read};
use mcpindex_server::app::App;
use mcpindex_server::ingest::{FleetRule, Ingest, IngestRules, Running};
use mcpindex_server::router::router;
use mcpindex_store::Store;
use mcpindex_store::testing::{TestStore, on_each_backend};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::client::{self, Answer, Client, NOW, app, clock};
use crate::seed::{FILES, seed};

const DRIFT: &str = "/api/v1/drift";
const REGISTER: &str = "/api/v1/drift/register";
const ANY: &str = "/api/v1/drift/any";
/// An address that most tests send from.
const HERE: &str = "192.0.2.1";

pub(crate) fn rules() -> IngestRules {
    IngestRules {
        open: true,
        fleet: FleetRule {
            authenticated_installs: 2,
            authenticated_networks: 2,
            anonymous_installs: 10,
            anonymous_networks: 3,
        },
        keep: 30 * 86_400,
        receipts: false,
        keep_receipts: 90 * 86_400,
    }
}

/// Everybody may read, and send without end.
const UNLIMITED: Rates = Rates {
    batches_per_minute: u64::MAX,
    signals_per_hour: u64::MAX,
    lookups_per_minute: u64::MAX,
    registrations_per_minute: u64::MAX,
    key_batches_per_minute: u64::MAX,
    key_signals_per_hour: u64::MAX,
};

/// An index that takes signals.
pub(crate) struct Index {
    router: Router,
    pub(crate) store: Store,
    pub(crate) running: Running,
}

impl Index {
    pub(crate) fn start(store: &Store, rules: IngestRules) -> Index {
        Index::limited(store, rules, UNLIMITED)
    }

    fn limited(store: &Store, rules: IngestRules, rates: Rates) -> Index {
        let (ingest, running) = Ingest::start(store, clock(), rules);
        let access = AccessRules {
            read: Read::Public,
            registry: Read::Public,
            rates,
            proxies: Vec::new(),
            metrics: Metrics::Open,
            badges: Vec::new(),
        };
        let app = App {
            ingest: Some(ingest),
            access: Arc::new(Access::new(access, clock())),
            ..app(store.clone())
        };
        Index {
            router: router(app),
            store: store.clone(),
            running,
        }
    }

    pub(crate) async fn send(
        &self,
        from: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let request = client::request(method, path, headers, body);
        let request = client::from(from.parse().unwrap(), request);
        client::answer(self.router.clone(), request).await
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, from: &str, path: &str, body: impl Into<Body>) -> Answer {
        self.send(
            from,
            Method::POST,
            path,
            &[("content-type", "application/json")],
            body,
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(HERE, Method::GET, path, &[], "").await
    }

    /// Sends signals that must be taken, and counts them.
    async fn told(&self, from: &str, signals: &[Signal]) {
        let answer = self.post(from, DRIFT, write(signals)).await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (204, ""));
    }

    /// What is said of the tool of [`drift`], after counting.
    async fn said(&self) -> Value {
        self.store.count_signals().await.unwrap();
        self.get(&format!("{ANY}?fp={}", drift(0).tool)).await.json()
    }

    /// How many signals are kept.
    async fn kept(&self) -> i64 {
        self.store.signals_kept().await.unwrap()
    }
}

fn hash(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn drift(install: u128) -> Signal {
    Signal {
        event: Event::Drift,
        server: Fingerprint::from_bytes([1; 16]),
        tool: Fingerprint::from_bytes([2; 16]),
        hash_before: Some(hash('a')),
        hash_after: hash('b'),
        digests: None,
        kinds: vec!["removed-param"],
        safety_relevant: true,
        hour: Some(1_796_054_400),
        sdk: Sdk::Rs,
        install: InstallId::from_bytes(install.to_be_bytes()),
    }
}

fn drift_2(install: u128) -> Signal {
    Signal {
        digests: Some(Digests {
            before: Some(hash('a').parse().unwrap()),
            after: hash('b').parse().unwrap(),
        }),
        kinds: vec!["enum-values-added", "schema-emptied"],
        ..drift(install)
    }
}

/// An answer as it goes over the wire: status, the headers that clients read, body.
pub(crate) fn wire(answer: &Answer) -> String {
    let mut lines = vec![answer.status.as_u16().to_string()];
    for name in ["content-type", "retry-after", "cache-control"] {
        if let Some(value) = answer.headers.get(name) {
            lines.push(format!("{name}: {}", value.to_str().unwrap()));
        }
    }
    lines.push(answer.text());
    lines.join(" | ")
}

#[tokio::test]
async fn the_published_answers_are_given() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, rules());
    let mut answers = Vec::new();
    let mut keep = |what: &str, answer: Answer| answers.push(format!("{what}: {}", wire(&answer)));
    let signals = write(&[drift(1)]);

    keep("a batch", index.post(HERE, DRIFT, signals.clone()).await);
    let charset = [("content-type", "application/json; charset=utf-8")];
    keep(
        "a charset",
        index
            .send(HERE, Method::POST, DRIFT, &charset, signals.clone())
            .await,
    );
    keep(
        "no content type",
        index.send(HERE, Method::POST, DRIFT, &[], signals.clone()).await,
    );
    let text = [("content-type", "text/plain")];
    keep(
        "text",
        index
            .send(HERE, Method::POST, DRIFT, &text, signals.clone())
            .await,
    );
    keep("no JSON", index.post(HERE, DRIFT, "{").await);
    keep("no signals", index.post(HERE, DRIFT, r#"{"signals":[]}"#).await);
    let old = |signal: Signal| {
        write(&[Signal {
            hour: Some(1_796_054_400 - 8 * 86_400),
            ..signal
        }])
    };
    keep("an old hour", index.post(HERE, DRIFT, old(drift(1))).await);
    keep(
        "an old hour, version 2",
        index.post(HERE, DRIFT, old(drift_2(1))).await,
    );
    keep(
        "too large",
        index.post(HERE, DRIFT, " ".repeat(1024 * 1024 + 1)).await,
    );

    keep("no fp", index.get(ANY).await);
    keep("a bad fp", index.get("/api/v1/drift/any?fp=xyz").await);
    keep(
        "not drifted",
        index.get(&format!("{ANY}?fp={}", "AB".repeat(16))).await,
    );
    let many = json!({ "fps": ["CD".repeat(16), drift(1).tool.to_string()] }).to_string();
    keep("many", index.post(HERE, ANY, many.clone()).await);
    keep(
        "many as text",
        index.send(HERE, Method::POST, ANY, &[], many).await,
    );
    keep("none", index.post(HERE, ANY, r#"{"fps":[]}"#).await);
    let too_many = json!({ "fps": vec!["00".repeat(16); 257] }).to_string();
    keep("too many", index.post(HERE, ANY, too_many).await);
    keep("no JSON", index.post(HERE, ANY, "[").await);

    keep(
        "no install",
        index.post(HERE, REGISTER, r#"{"install_id":"x"}"#).await,
    );
    keep("no JSON", index.post(HERE, REGISTER, "").await);
    let id = drift(1).install.to_string();
    let by_query = format!("{REGISTER}?install_id={id}");
    keep(
        "no token",
        index.send(HERE, Method::DELETE, &by_query, &[], "").await,
    );
    let bearer = [("authorization", "Bearer none")];
    keep(
        "not its token",
        index.send(HERE, Method::DELETE, &by_query, &bearer, "").await,
    );
    keep("the index", index.get("/.well-known/mcp-index.json").await);
    insta::assert_snapshot!("published_answers", answers.join("\n"));
}

#[tokio::test]
async fn where_signals_are_not_taken_nothing_is_answered() {
    let database = TestStore::sqlite().await;
    let client = Client(database.store.clone());
    for (method, path) in [
        (Method::POST, DRIFT),
        (Method::POST, REGISTER),
        (Method::DELETE, REGISTER),
        (Method::GET, ANY),
        (Method::POST, ANY),
    ] {
        let answer = client
            .send(method, path, &[("content-type", "application/json")])
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.text().as_str()),
            (404, r#"{"error":"not_found"}"#)
        );
    }
    let index = client.ok("/.well-known/mcp-index.json").await.json();
    assert_eq!(index["signals"], Value::Null);
}

#[tokio::test]
async fn a_replay_is_answered_like_the_first_and_counted_once() {
    on_each_backend(async |store| {
        let index = Index::start(&store, rules());
        let signals = [drift(1), drift_2(1), drift(2)];
        for _ in 0..3 {
            index.told(HERE, &signals).await;
        }
        assert_eq!(index.kept().await, 3);
        index.running.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_senders_at_once_are_each_acknowledged_after_the_commit() {
    on_each_backend(async |store| {
        let index = Arc::new(Index::start(&store, rules()));
        let mut senders = tokio::task::JoinSet::new();
        for sender in 0..40_u128 {
            let index = Arc::clone(&index);
            senders.spawn(async move {
                for batch in 0..5_u128 {
                    let signals: Vec<Signal> =
                        (0..16).map(|n| drift(sender * 1_000 + batch * 16 + n)).collect();
                    index.told(HERE, &signals).await;
                }
            });
        }
        senders.join_all().await;
        assert_eq!(index.kept().await, 40 * 5 * 16);
    })
    .await;
}

#[tokio::test]
async fn what_waits_when_the_server_stops_is_written() {
    on_each_backend(async |store| {
        let Index {
            router,
            store,
            running,
        } = Index::start(&store, rules());
        let mut waiting = tokio::task::JoinSet::new();
        for install in 0..50_u128 {
            let request = Request::post(DRIFT).header("content-type", "application/json");
            let request = request.body(Body::from(write(&[drift(install)]))).unwrap();
            waiting.spawn(router.clone().oneshot(request));
        }
        tokio::task::yield_now().await;
        running.stop().await;
        let mut acknowledged = 0;
        for answer in waiting.join_all().await {
            match answer.unwrap().status().as_u16() {
                204 => acknowledged += 1,
                // It came when nothing was taken any more.
                503 => {}
                other => panic!("{other}"),
            }
        }
        assert_eq!(store.signals_kept().await.unwrap(), acknowledged);
    })
    .await;
}

#[tokio::test]
async fn more_than_can_wait_is_turned_away_and_said_when_to_come_again() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, rules());
    // Nothing is written while another program holds the file.
    let mcpindex_store::Location::Sqlite(path) = &database.location else {
        panic!("SQLite")
    };
    let mut other = sqlite(path).await;
    other.begin().await;
    let signals = |batch: u128| (0..256).map(|n| drift(batch * 256 + n)).collect::<Vec<_>>();
    let mut waiting = tokio::task::JoinSet::new();
    for batch in 0..100 {
        let request = Request::post(DRIFT).header("content-type", "application/json");
        let request = request.body(Body::from(write(&signals(batch)))).unwrap();
        waiting.spawn(index.router.clone().oneshot(request));
    }
    // 78 batches of 256 fit in; the others are answered while those wait.
    let mut refused = 0;
    while refused < 22 {
        let answer = waiting.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "5");
        refused += 1;
    }
    other.end().await;
    for answer in waiting.join_all().await {
        assert_eq!(answer.unwrap().status(), 204);
    }
    assert_eq!(index.kept().await, 78 * 256);
}

/// Another program's connection.
struct Other(tokio::process::Child, tokio::process::ChildStdin);

async fn sqlite(path: &std::path::Path) -> Other {
    let script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\nsys.stdin.readline()\nc.execute('ROLLBACK')\n";
    let mut child = tokio::process::Command::new("python3")
        .args(["-c", script])
        .arg(path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    Other(child, stdin)
}

impl Other {
    async fn begin(&mut self) {
        use tokio::io::AsyncBufReadExt as _;
        let stdout = self.0.stdout.take().unwrap();
        let mut lines = tokio::io::BufReader::new(stdout).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("held"));
    }

    async fn end(mut self) {
        drop(self.1);
        assert!(self.0.wait().await.unwrap().success());
    }
}

/// Numbers that look random and are the same each time (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn mutated(numbers: &mut Numbers) -> Vec<u8> {
    const BYTES: &[u8] = b"{}[],:\"\\0aZ \x00\x1f\xff\xc3\n-.e";
    let signals = [drift(1), drift_2(2), drift(3)];
    let mut body = write(&signals[..=numbers.below(3)]).into_bytes();
    match numbers.below(6) {
        0 => body.truncate(numbers.below(body.len())),
        1 => {
            for _ in 0..=numbers.below(4) {
                let at = numbers.below(body.len());
                body[at] = *numbers.pick(BYTES);
            }
        }
        2 => {
            let at = numbers.below(body.len());
            body.insert(at, *numbers.pick(BYTES));
        }
        3 => {
            let (from, length) = (numbers.below(body.len()), numbers.below(40));
            body.drain(from..(from + length).min(body.len()));
        }
        4 => {
            let text = String::from_utf8(body).unwrap();
            let members = [
                "v",
                "event",
                "tool_fp",
                "new_hash",
                "at_hour",
                "sdk",
                "install_id",
                "change_kinds",
            ];
            let values = [
                "null",
                "true",
                "-1",
                "1e400",
                "\"\"",
                "[]",
                "{}",
                "[[[[",
                "\"\\ud800\"",
                "\"pin\"",
            ];
            let (member, value) = (*numbers.pick(&members), *numbers.pick(&values));
            body = text
                .replacen(
                    &format!("\"{member}\":"),
                    &format!("\"{member}\":{value},\"x\":"),
                    1,
                )
                .into_bytes();
        }
        _ => body = "[".repeat(numbers.below(5_000)).into_bytes(),
    }
    body
}

#[tokio::test]
async fn ten_thousand_mutated_bodies_are_refused_and_leave_nothing() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, rules());
    let mut numbers = Numbers(5);
    let (mut sent, mut skipped) = (0, 0);
    while sent < 10_000 {
        let body = mutated(&mut numbers);
        if read(&body, NOW).is_ok() {
            // Another hex digit, white space: still of the shape.
            skipped += 1;
            continue;
        }
        let answer = index.post(HERE, DRIFT, body.clone()).await;
        let shown = String::from_utf8_lossy(&body).into_owned();
        assert!(
            matches!(answer.status.as_u16(), 400 | 422),
            "{}: {shown}",
            answer.status
        );
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(
            ["invalid_json", "invalid_signal", "hour_out_of_range"].contains(&error.as_str()),
            "{shown}"
        );
        sent += 1;
    }
    assert!(skipped < 3_000, "{skipped}");
    assert_eq!(index.kept().await, 0);
    assert_eq!(index.said().await["drifted"], false);
}

#[tokio::test]
async fn each_address_is_limited_by_itself() {
    let database = TestStore::sqlite().await;
    let rates = Rates {
        batches_per_minute: 2,
        signals_per_hour: 3,
        lookups_per_minute: 2,
        registrations_per_minute: 1,
        ..Rates::default()
    };
    let index = Index::limited(&database.store, rules(), rates);
    let status =
        async |from: &str, path: &str, body: String| index.post(from, path, body).await.status.as_u16();
    let batch = |installs: std::ops::Range<u128>| write(&installs.map(drift).collect::<Vec<_>>());
    assert_eq!(status(HERE, DRIFT, batch(0..2)).await, 204);
    assert_eq!(status(HERE, DRIFT, batch(2..4)).await, 429, "4 signals");
    let limited = index.post(HERE, DRIFT, batch(2..3)).await;
    assert_eq!(
        wire(&limited),
        r#"429 | content-type: application/json | retry-after: 55 | cache-control: no-store | {"error":"rate_limited"}"#
    );
    assert_eq!(status("192.0.2.2", DRIFT, batch(4..7)).await, 204);
    assert_eq!(index.kept().await, 5);

    let fps = json!({ "fps": ["00".repeat(16), "11".repeat(16), "22".repeat(16)] }).to_string();
    assert_eq!(status(HERE, ANY, fps).await, 429);
    let install = |number: u128| json!({ "install_id": drift(number).install.to_string() }).to_string();
    assert_eq!(status(HERE, REGISTER, install(1)).await, 200);
    assert_eq!(status(HERE, REGISTER, install(2)).await, 429);
}

#[tokio::test]
async fn one_network_alone_shows_nothing_however_much_it_sends() {
    on_each_backend(async |store| {
        let index = Index::start(&store, rules());
        for batch in 0..40_u128 {
            let signals: Vec<Signal> = (0..250).map(|number| drift(batch * 250 + number)).collect();
            index.told(HERE, &signals).await;
        }
        let fp = drift(0).tool.to_string();
        assert_eq!(index.said().await, json!({ "fp": fp, "drifted": false }));
        // A second network is not enough either; a third one is.
        index.told("192.0.3.1", &[drift(20_000)]).await;
        assert_eq!(index.said().await["drifted"], false);
        index.told("2001:db8::1", &[drift(20_001)]).await;
        let said = index.said().await;
        assert_eq!(
            (&said["drifted"], &said["corroboration"]),
            (&json!(true), &json!("anonymous"))
        );
        index.running.stop().await;
    })
    .await;
}

#[tokio::test]
async fn two_installs_with_proof_from_two_networks_are_shown() {
    on_each_backend(async |store| {
        let index = Index::start(&store, rules());
        let token = async |install: u128| {
            let body = json!({ "install_id": drift(install).install.to_string() }).to_string();
            let given = index.post(HERE, REGISTER, body.clone()).await;
            assert_eq!(given.header("cache-control"), "no-store");
            let token = given.json()["install_token"].as_str().unwrap().to_owned();
            assert_eq!(token.len(), 64);
            // Nobody else gets one for it.
            assert_eq!(index.post(HERE, REGISTER, body).await.status, 409);
            token
        };
        let tell = async |from: &str, token: &str, signal: Signal| {
            let bearer = format!("Bearer {token}");
            let headers = [
                ("content-type", "application/json"),
                ("authorization", bearer.as_str()),
            ];
            let answer = index
                .send(from, Method::POST, DRIFT, &headers, write(&[signal]))
                .await;
            assert_eq!(answer.status, 204);
        };
        let (one, two) = (token(1).await, token(2).await);
        tell(HERE, &one, drift_2(1)).await;
        tell(HERE, &two, drift_2(2)).await;
        // Another's token proves nothing.
        tell("198.51.100.1", &one, drift_2(3)).await;
        assert_eq!(index.said().await["drifted"], false, "one network");
        tell(
            "198.51.100.1",
            &two,
            Signal {
                hour: Some(1_796_050_800),
                ..drift_2(2)
            },
        )
        .await;
        let shown = json!({
            "fp": drift(0).tool.to_string(), "drifted": true, "provenance": "installs", "sources": 2,
            "safety_relevant": true, "last_seen": "2026-11-30T16:00:00Z",
            "change_kinds": ["deep-schema-undiffable", "removed-param"], "corroboration": "authenticated",
        });
        assert_eq!(index.said().await, shown);

        // Rotated by its holder, then taken back.
        let body = json!({ "install_id": drift(1).install.to_string() }).to_string();
        let bearer = format!("bearer {one}");
        let headers = [("authorization", bearer.as_str())];
        let rotated = index
            .send(HERE, Method::POST, REGISTER, &headers, body.clone())
            .await
            .json();
        assert_eq!(
            index
                .send(HERE, Method::DELETE, REGISTER, &headers, body.clone())
                .await
                .status,
            404
        );
        let bearer = format!("Bearer {}", rotated["install_token"].as_str().unwrap());
        let headers = [("authorization", bearer.as_str())];
        let revoked = index.send(HERE, Method::DELETE, REGISTER, &headers, body).await;
        assert_eq!(
            (revoked.status.as_u16(), revoked.json()),
            (200, json!({ "revoked": true }))
        );
        index.running.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_the_crawler_saw_is_said_at_once_under_every_name() {
    on_each_backend(async |store| {
        seed(&store).await;
        let index = Index::start(&store, rules());
        let key = FingerprintKey::public();
        for name in [FILES, "io.github.example/files"] {
            let fp = key.tool(name, "read_media");
            let said = index.get(&format!("{ANY}?fp={fp}")).await.json();
            assert_eq!(
                (&said["drifted"], &said["provenance"], &said["sources"]),
                (&json!(true), &json!("crawl"), &json!(1)),
                "{said}"
            );
            assert_eq!(said["change_kinds"], json!(["description-only"]), "{said}");
        }
        let never = key.tool(FILES, "list_directory");
        let said = index.get(&format!("{ANY}?fp={never}")).await.json();
        assert_eq!(said, json!({ "fp": never.to_string(), "drifted": false }));
        index.running.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_database_that_is_gone_answers_unknown_and_takes_nothing() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, rules());
    database.store.close().await;
    let fp = drift(0).tool.to_string();
    let said = index.get(&format!("{ANY}?fp={fp}")).await;
    assert_eq!(
        (said.status.as_u16(), said.json()),
        (200, json!({ "fp": fp, "drifted": null }))
    );
    assert_eq!(index.post(HERE, DRIFT, write(&[drift(1)])).await.status, 503);
}

#[tokio::test]
async fn what_the_published_client_sent_is_taken_and_its_question_answered_in_its_shape() {
    let Some(shared) = std::env::var_os("MCPINDEX_SHARED") else {
        return;
    };
    let path = std::path::Path::new(&shared).join("vectors/telemetry_example.json");
    let example: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let database = TestStore::sqlite().await;
    let rule = FleetRule {
        authenticated_installs: 1,
        authenticated_networks: 1,
        anonymous_installs: 1,
        anonymous_networks: 1,
    };
    let index = Index::start(
        &database.store,
        IngestRules {
            fleet: rule,
            ..rules()
        },
    );
    for which in ["pin_signal", "drift_signal"] {
        let body = example[which]["request"]["body"].as_str().unwrap().to_owned();
        let answer = index.post(HERE, DRIFT, body).await;
        let expected = &example[which]["response_given"];
        assert_eq!(json!(answer.status.as_u16()), expected["status"]);
        assert_eq!(json!(answer.text()), expected["body"]);
    }
    assert_eq!(index.kept().await, 2);
    index.store.count_signals().await.unwrap();
    let query = &example["drift_query"];
    let said = index
        .get(query["request"]["target"].as_str().unwrap())
        .await
        .json();
    let expected: Value = serde_json::from_str(query["response_given"]["body"].as_str().unwrap()).unwrap();
    for (name, value) in expected.as_object().unwrap() {
        assert!(said.get(name).is_some(), "{name} is missing in {said}");
        if !["provenance", "last_seen"].contains(&name.as_str()) {
            assert_eq!(&said[name], value, "{name}");
        }
    }
}
