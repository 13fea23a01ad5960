//! Who gets in: a members-only index seen from outside, by its members, and what an answer says to caches and logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::Method;
use mcpindex::clock::Clock;
use mcpindex_server::access::key::KeyText;
use mcpindex_server::access::{Access, AccessRules, Metrics, Rates, Read};
use mcpindex_server::app::App;
use mcpindex_server::approvals::Approvals;
use mcpindex_server::config::ApprovalSettings;
use mcpindex_server::ingest::{Ingest, IngestRules, Running};
use mcpindex_server::router::router;
use mcpindex_store::Store;
use mcpindex_store::accounts::{Account, KeyRecord, NewKey, Scope, Scopes, SignIn};
use mcpindex_store::testing::TestStore;
use tokio_util::sync::CancellationToken;

use crate::client::{self, Answer, NOW, app};
use crate::programs::{Place, client};
use crate::seed::{FILES, PENDING, seed};
use crate::signals;

/// An address that most tests ask from.
const HERE: &str = "192.0.2.1";

/// A clock that a test moves.
pub(crate) struct Hand(AtomicI64);

impl Hand {
    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn unix_seconds(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One replica of an index.
pub(crate) struct Index {
    pub(crate) router: Router,
    pub(crate) clock: Arc<Hand>,
    /// Whoever waits for a decision waits no longer.
    pub(crate) stop: CancellationToken,
    ingesting: Running,
}

/// A key that a test has made.
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) record: KeyRecord,
}

impl Index {
    pub(crate) fn start(store: &Store, read: Read, takes_signals: bool) -> Index {
        let rules = AccessRules {
            read,
            registry: read,
            rates: Rates::default(),
            proxies: Vec::new(),
            metrics: match read {
                Read::Public => Metrics::Open,
                Read::Members => Metrics::Admins,
            },
            badges: Vec::new(),
        };
        Index::with(store, rules, takes_signals)
    }

    pub(crate) fn members(store: &Store) -> Index {
        Index::start(store, Read::Members, false)
    }

    pub(crate) fn with(store: &Store, rules: AccessRules, takes_signals: bool) -> Index {
        Index::built(store, rules, takes_signals, false)
    }

    /// A members-only one, where an approval takes two people or one.
    pub(crate) fn deciding(store: &Store, two_person: bool) -> Index {
        let rules = AccessRules {
            read: Read::Members,
            registry: Read::Members,
            rates: Rates::default(),
            proxies: Vec::new(),
            metrics: Metrics::Admins,
            badges: Vec::new(),
        };
        Index::built(store, rules, false, two_person)
    }

    fn built(store: &Store, rules: AccessRules, takes_signals: bool, two_person: bool) -> Index {
        let clock = Arc::new(Hand(AtomicI64::new(NOW)));
        let ingest_rules = IngestRules {
            open: takes_signals,
            ..signals::rules()
        };
        let stop = CancellationToken::new();
        let settings = ApprovalSettings {
            two_person,
            ..ApprovalSettings::default()
        };
        let (ingest, ingesting) = Ingest::start(store, Arc::<Hand>::clone(&clock), ingest_rules);
        let app = App {
            clock: Arc::<Hand>::clone(&clock),
            ingest: Some(ingest),
            access: Arc::new(Access::new(rules, Arc::<Hand>::clone(&clock))),
            approvals: Arc::new(Approvals::new(&settings, stop.clone())),
            ..app(store.clone())
        };
        Index {
            stop,
            router: router(app),
            clock,
            ingesting,
        }
    }

    pub(crate) async fn stop(self) {
        self.ingesting.stop().await;
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

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(HERE, Method::GET, path, &[], "").await
    }

    /// Asks with a key.
    pub(crate) async fn ask(&self, key: &str, method: Method, path: &str, body: &str) -> Answer {
        let authorization = format!("Bearer {key}");
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        self.send(HERE, method, path, &headers, body.to_owned()).await
    }

    pub(crate) async fn get_with(&self, key: &str, path: &str) -> Answer {
        self.ask(key, Method::GET, path, "").await
    }
}

pub(crate) async fn account(store: &Store, login: &str) -> Account {
    let sign_in = SignIn {
        issuer: "https://login.example".to_owned(),
        subject: login.to_owned(),
        login: login.to_owned(),
        email: None,
    };
    store.sign_in(&sign_in, NOW).await.unwrap()
}

/// A key of this account, made past the API.
pub(crate) async fn key_of(
    store: &Store,
    account: &Account,
    scopes: &[Scope],
    expires_at: Option<i64>,
) -> Key {
    let text = KeyText::generate().unwrap();
    let key = NewKey {
        account: account.id,
        hash: text.hash(),
        shown: text.shown(),
        name: "laptop".to_owned(),
        scopes: Scopes::of(scopes),
        expires_at,
        network: None,
        made_by: None,
    };
    Key {
        record: store.add_key(&key, NOW).await.unwrap(),
        text: text.expose().to_owned(),
    }
}

pub(crate) async fn key(store: &Store, scopes: &[Scope]) -> Key {
    key_of(store, &account(store, "ada").await, scopes, None).await
}

/// A key that is none of this index's.
pub(crate) fn foreign_key() -> String {
    KeyText::generate().unwrap().expose().to_owned()
}

/// Everything of an answer but what differs from one request to the next in any case: its id and its path.
fn told(answer: &Answer, path: &str) -> String {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "content-length"))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    headers.sort();
    let id = answer.header("x-request-id").to_owned();
    let text = format!("{} {headers:?} {}", answer.status, answer.text());
    let encoded: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
    text.replace(&id, "ID")
        .replace(&format!("next={encoded}\""), "next=PATH\"")
        .replace(&format!("\"instance\":\"{path}\""), "\"instance\":\"PATH\"")
}

#[tokio::test]
async fn a_stranger_is_answered_alike_whatever_is_there() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let index = Index::members(&database.store);
    let known = database.store.find_server(FILES).await.unwrap().unwrap().short_id;
    let check = async |paths: &[String], expected: &str| {
        let etag = {
            let member = key(&database.store, &[Scope::Read]).await;
            let answer = index.get_with(&member.text, "/api/v1/servers").await;
            answer.header("etag").to_owned()
        };
        for path in paths {
            for method in [
                Method::GET,
                Method::HEAD,
                Method::POST,
                Method::PUT,
                Method::OPTIONS,
            ] {
                let is_read = matches!(method, Method::GET | Method::HEAD);
                for condition in ["", "*", &etag] {
                    let headers = [("if-none-match", condition)];
                    let answer = index.send(HERE, method.clone(), path, &headers, "").await;
                    let told = told(&answer, path);
                    // A form is not sent again after signing in.
                    let expected = match is_read {
                        true => expected.to_owned(),
                        false => expected.replace("?next=PATH", ""),
                    };
                    assert_eq!(told, expected, "{method} {path} {condition}");
                }
            }
        }
    };
    let api = [
        "/api/v1/servers".to_owned(),
        format!("/api/v1/servers/{known}"),
        "/api/v1/servers/0123456789abcdef".to_owned(),
        format!("/api/v1/servers/{}", PENDING.replace(':', "%3A")),
        "/api/v1/servers/npm:%40nobody%2Fhere/tools".to_owned(),
        "/api/v1/drifts/1".to_owned(),
        "/api/v1/drifts/999".to_owned(),
        "/api/v1/drifts/x".to_owned(),
        "/api/v1/vocabulary".to_owned(),
        "/api/v1/whoami".to_owned(),
        "/api/v1/keys".to_owned(),
        "/api/v1/keys/key_0123456789abcdef".to_owned(),
        "/api/v1/webhooks".to_owned(),
        "/api/v1/webhooks/hook_0/deliveries".to_owned(),
        "/api/v1/drift".to_owned(),
        "/api/v1/drift/any".to_owned(),
        "/api/v1/drift/register".to_owned(),
        "/api/v2/anything".to_owned(),
        "/api/".to_owned(),
        "/metrics".to_owned(),
    ];
    let pages = [
        "/".to_owned(),
        "/servers".to_owned(),
        format!("/servers/{known}"),
        "/servers/0123456789abcdef".to_owned(),
        "/servers/npm:@nobody/here".to_owned(),
        "/drifts/1".to_owned(),
        "/drifts/999".to_owned(),
        "/definitions/sha256:00".to_owned(),
        "/vocabulary".to_owned(),
        "/nothing/here".to_owned(),
        "/robots.txt".to_owned(),
    ];
    let answer = index.get("/api/v1/servers").await;
    insta::assert_snapshot!(answer.header("cache-control"), @"private, no-store");
    insta::assert_snapshot!(answer.header("www-authenticate"), @r#"Bearer realm="mcpindex""#);
    insta::assert_snapshot!(
        answer.text().replace(answer.header("x-request-id"), "ID"),
        @r#"{"type":"urn:mcpindex:problem:unauthorized","title":"This needs a key","status":401,"detail":"send a key that works as `Authorization: Bearer mcpk_…`; `mcpindex login` gets one","instance":"/api/v1/servers","request_id":"ID","links":[{"href":"/api/v1/servers","title":"All servers"},{"href":"/api/v1/drifts","title":"The latest drifts"}]}"#
    );
    let api_answer = told(&answer, "/api/v1/servers");
    for path in &api {
        for method in [
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let answer = index
                .send(HERE, method.clone(), path, &[("if-none-match", "*")], "")
                .await;
            assert_eq!(told(&answer, path), api_answer, "{method} {path}");
        }
        let answer = index.send(HERE, Method::HEAD, path, &[], "").await;
        assert_eq!((answer.status.as_u16(), answer.bytes.len()), (401, 0), "{path}");
    }
    let answer = index.get("/servers").await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (303, ""));
    insta::assert_snapshot!(answer.header("location"), @"/login?next=%2Fservers");
    check(&pages, &told(&answer, "/servers")).await;
    index.stop().await;
}

#[tokio::test]
async fn a_member_reads_what_no_shared_cache_keeps() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let index = Index::members(&database.store);
    let member = key(&database.store, &[Scope::Read]).await;
    let check = async |path: &str, status: u16, cache: &str| {
        let answer = index.get_with(&member.text, path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("cache-control"), cache, "{path}");
        let varies: Vec<&str> = answer
            .headers
            .get_all("vary")
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect();
        assert!(varies.contains(&"Authorization, Cookie"), "{path}: {varies:?}");
        answer
    };
    check("/api/v1/servers/0123456789abcdef", 404, "private, no-store").await;
    check("/api/v2/anything", 404, "private, no-store").await;
    check("/servers", 200, "private, no-cache").await;
    let answer = check("/api/v1/servers", 200, "private, no-cache").await;
    // Its own cache may keep it, and asks again.
    let authorization = format!("Bearer {}", member.text);
    let headers = [
        ("authorization", authorization.as_str()),
        ("if-none-match", answer.header("etag")),
    ];
    let again = index
        .send(HERE, Method::GET, "/api/v1/servers", &headers, "")
        .await;
    assert_eq!(again.status, 304);
    assert_eq!(again.header("cache-control"), "private, no-cache");
    assert!(
        again
            .headers
            .get_all("vary")
            .iter()
            .any(|value| value == "Authorization, Cookie")
    );
    index.stop().await;
}

#[tokio::test]
async fn a_public_index_is_for_everybody_and_a_key_shown_there_must_work() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, Read::Public, true);
    let anonymous = index.get("/api/v1/servers").await;
    assert_eq!(
        (anonymous.status.as_u16(), anonymous.header("cache-control")),
        (200, "no-cache")
    );
    let ingest = key(&database.store, &[Scope::Ingest]).await;
    let answer = index.get_with(&ingest.text, "/api/v1/servers").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, "private, no-cache")
    );
    assert_eq!(
        index.get_with(&foreign_key(), "/api/v1/servers").await.status,
        401
    );
    assert_eq!(index.get_with("anything", "/api/v1/servers").await.status, 401);
    assert_eq!(index.get("/api/v1/keys").await.status, 401);
    // What a proxy in front has for itself is not ours to judge.
    let basic = [("authorization", "Basic dTpw")];
    let answer = index.send(HERE, Method::GET, "/api/v1/servers", &basic, "").await;
    assert_eq!(answer.status, 200);
    index.stop().await;
}

#[tokio::test]
async fn what_everybody_may_ask_tells_nothing_of_a_members_only_index() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let index = Index::members(&database.store);
    let told = async |path: &str| index.get(path).await.json().to_string();
    insta::assert_snapshot!(told("/healthz").await, @r#"{"status":"ok"}"#);
    insta::assert_snapshot!(told("/readyz").await, @r#"{"status":"ready"}"#);
    insta::assert_snapshot!(told("/.well-known/mcp-index.json").await, @r#"{"api":"/api/v1","index":"mcpindex","read":"members","sign_in":{"device":false,"providers":[]},"signals":null}"#);
    let member = key(&database.store, &[Scope::Read]).await;
    let answer = index.get_with(&member.text, "/.well-known/mcp-index.json").await;
    insta::assert_snapshot!(answer.json(), @r#"{"api":"/api/v1","index":"mcpindex","read":"members","sign_in":{"device":false,"providers":[]},"signals":{"ingest":"/api/v1/drift","lookup":"/api/v1/drift/any","max_signals":256,"register":"/api/v1/drift/register","versions":[1,2]},"version":"0.0.0-test"}"#);
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    index.stop().await;
}

#[tokio::test]
async fn a_wrong_key_an_ended_one_and_none_are_one_answer() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let store = &database.store;
    let ada = account(store, "ada").await;
    let bob = account(store, "bob").await;
    let ended = key_of(store, &ada, &[Scope::Read], Some(NOW - 1)).await;
    let revoked = key_of(store, &ada, &[Scope::Read], None).await;
    store.revoke_key(&revoked.record.id, None, NOW).await.unwrap();
    let disabled = key_of(store, &bob, &[Scope::Read], None).await;
    store.disable_account(bob.id, NOW).await.unwrap();
    let path = "/api/v1/servers";
    let none = told(&index.get(path).await, path);
    let mistyped = format!("{}0", &ended.text[..40]);
    for text in [
        &ended.text,
        &revoked.text,
        &disabled.text,
        &foreign_key(),
        &mistyped,
        "mcpk_",
        "other",
        "",
    ] {
        let answer = index.get_with(text, path).await;
        assert_eq!(told(&answer, path), none, "{}", text.len());
    }
    let two = format!("Bearer {}", foreign_key());
    let headers = [("authorization", two.as_str()), ("authorization", two.as_str())];
    let answer = index.send(HERE, Method::GET, path, &headers, "").await;
    assert_eq!(told(&answer, path), none);
    // A cookie is no key, and programs' addresses read none.
    let cookie = format!("mcpindex={0}; __Host-mcpindex={0}", ended.text);
    let answer = index
        .send(HERE, Method::GET, path, &[("cookie", &cookie)], "")
        .await;
    assert_eq!(told(&answer, path), none);
    index.stop().await;
}

#[tokio::test]
async fn a_scope_opens_its_own_doors() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let any = format!("/api/v1/drift/any?fp={}", "0".repeat(32));
    let check = async |scopes: &[Scope], reads: u16, sends: u16, asks: u16| {
        let key = key(&database.store, scopes).await;
        let status = async |method, path: &str, body: &str| {
            index.ask(&key.text, method, path, body).await.status.as_u16()
        };
        assert_eq!(
            status(Method::GET, "/api/v1/servers", "").await,
            reads,
            "{scopes:?}"
        );
        assert_eq!(status(Method::GET, "/servers", "").await, reads, "{scopes:?}");
        let elsewhere = if reads == 200 { 404 } else { 403 };
        assert_eq!(
            status(Method::GET, "/api/v2/x", "").await,
            elsewhere,
            "{scopes:?}"
        );
        assert_eq!(
            status(Method::POST, "/api/v1/drift", "{}").await,
            sends,
            "{scopes:?}"
        );
        assert_eq!(status(Method::GET, &any, "").await, asks, "{scopes:?}");
        assert_eq!(status(Method::GET, "/api/v1/whoami", "").await, 200, "{scopes:?}");
    };
    // 400: the batch is looked at, and is none.
    check(&[Scope::Read], 200, 403, 200).await;
    check(&[Scope::Ingest], 403, 400, 200).await;
    check(&[Scope::Admin], 403, 403, 403).await;
    check(&[Scope::Read, Scope::Ingest], 200, 400, 200).await;
    let wrong = key(&database.store, &[Scope::Ingest]).await;
    let answer = index.get_with(&wrong.text, "/api/v1/servers").await;
    assert_eq!(
        answer.json()["detail"],
        "the key lacks the scope `read`; use one that has it"
    );
    index.stop().await;
}

#[tokio::test]
async fn a_key_for_signals_alone_is_told_which_scope_its_questions_lack() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let tells = key(&database.store, &[Scope::Ingest]).await;
    // What `mcpindex login` gets, with which a gate both tells and asks.
    let both = key(&database.store, &[Scope::Read, Scope::Ingest]).await;
    for (method, path) in [
        (Method::POST, "/api/v1/check"),
        (Method::GET, "/api/v1/trust/tool/npm:docs/search"),
        (Method::GET, "/api/v1/trust/server/npm:docs"),
    ] {
        let body = r#"{"items":[{"server":"npm:docs"}]}"#;
        let refused = index.ask(&tells.text, method.clone(), path, body).await;
        let said = refused.json();
        assert_eq!(refused.status, 403, "{path}: {said}");
        assert_eq!(
            said["detail"], "the key lacks the scope `read`; use one that has it",
            "{path}"
        );
        let answered = index.ask(&both.text, method, path, body).await;
        assert_eq!(answered.status, 200, "{path}: {}", answered.text());
    }
    index.stop().await;
}

#[tokio::test]
async fn an_index_open_to_installs_is_closed_to_readers_all_the_same() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, Read::Members, true);
    let post = async |path: &str| {
        let headers = [("content-type", "application/json")];
        index
            .send(HERE, Method::POST, path, &headers, "{}")
            .await
            .status
            .as_u16()
    };
    assert_eq!(post("/api/v1/drift").await, 400, "the batch is looked at");
    assert_eq!(post("/api/v1/drift/any").await, 400);
    assert_eq!(index.get("/api/v1/servers").await.status, 401);
    let index_told = index.get("/.well-known/mcp-index.json").await.json();
    assert_eq!(index_told["signals"]["ingest"], "/api/v1/drift");
    // A key that is not for it is told so, though none is needed.
    let reader = key(&database.store, &[Scope::Read]).await;
    let answer = index.ask(&reader.text, Method::POST, "/api/v1/drift", "{}").await;
    assert_eq!(answer.status, 403);
    // An install token is no key, and is looked at by the ingest.
    let token = "0".repeat(64);
    let answer = index.ask(&token, Method::POST, "/api/v1/drift", "{}").await;
    assert_eq!(answer.status, 400);
    index.stop().await;
}

#[tokio::test]
async fn a_key_sends_no_more_than_its_limits_from_all_its_addresses() {
    let database = TestStore::sqlite().await;
    let rules = AccessRules {
        read: Read::Members,
        registry: Read::Members,
        rates: Rates {
            key_batches_per_minute: 3,
            ..Rates::default()
        },
        proxies: Vec::new(),
        metrics: Metrics::Admins,
        badges: Vec::new(),
    };
    let index = Index::with(&database.store, rules, false);
    let one = key(&database.store, &[Scope::Ingest]).await;
    let two = key(&database.store, &[Scope::Ingest]).await;
    let send = async |from: &str, key: &Key| {
        let authorization = format!("Bearer {}", key.text);
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        let answer = index
            .send(from, Method::POST, "/api/v1/drift", &headers, "{}")
            .await;
        answer.status.as_u16()
    };
    for from in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
        assert_eq!(send(from, &one).await, 400);
    }
    assert_eq!(send("192.0.2.4", &one).await, 429);
    assert_eq!(send("192.0.2.4", &two).await, 400);
    index.clock.pass(60);
    assert_eq!(send("192.0.2.4", &one).await, 400);
    index.stop().await;
}

#[tokio::test]
async fn no_key_comes_back_in_any_answer() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let member = key(&database.store, &[Scope::Read]).await.text;
    let stray = foreign_key();
    let mut answers = Vec::new();
    let authorization = format!("Bearer {member}");
    for key in [&member, &stray] {
        let encoded = key.replace('_', "%5f");
        for path in [
            format!("/api/v1/servers?key={key}"),
            format!("/api/v1/servers?api_key={key}&limit=1"),
            format!("/api/v1/servers?token={encoded}"),
            format!("/servers?search={encoded}"),
            format!("/api/v1/servers/{key}"),
            format!("/servers/{encoded}/{key}"),
            format!("/api/v1/keys/{key}"),
            format!("/healthz?{key}"),
            format!("/assets/{key}"),
            format!("/nothing/{key}"),
        ] {
            for headers in [
                &[("referer", key.as_str()), ("user-agent", key)][..],
                &[("authorization", authorization.as_str())],
            ] {
                let answer = index.send(HERE, Method::GET, &path, headers, "").await;
                assert_eq!(answer.status, 400);
                answers.push(answer);
            }
        }
        // Elsewhere it is no matter, and comes back in nothing.
        for headers in [
            &[("x-request-id", key.as_str())][..],
            &[("referer", key), ("user-agent", key), ("cookie", key)],
            &[("authorization", authorization.as_str()), ("x-request-id", key)],
            &[("authorization", key)],
        ] {
            for path in ["/api/v1/servers", "/servers", "/api/v1/nothing", "/nothing"] {
                answers.push(index.send(HERE, Method::GET, path, headers, "").await);
            }
        }
        for body in [
            format!(r#"{{"name":"{key}","scopes":["read"]}}"#),
            format!(r#"{{"name":"a","scopes":["{key}"]}}"#),
            format!(r#"{{"{key}":1}}"#),
            key.clone(),
        ] {
            answers.push(index.ask(&member, Method::POST, "/api/v1/keys", &body).await);
        }
        let report = format!(r#"{{"key":"{key}"}}"#);
        let path = "/api/v1/keys/report-leak";
        answers.push(index.send(HERE, Method::POST, path, &[], report).await);
    }
    for key in [&member, &stray] {
        // Not even most of it, and not in another spelling.
        let secret = &key[5..25];
        for answer in &answers {
            assert!(!answer.text().contains(secret), "{}", answer.status);
            for value in answer.headers.values() {
                assert!(!value.to_str().unwrap().contains(secret));
            }
        }
    }
    let refused = index.get(&format!("/api/v1/servers?key={stray}")).await;
    insta::assert_snapshot!(refused.json()["detail"].as_str().unwrap(), @r#"send the key as `Authorization: Bearer mcpk_…`; addresses are kept in histories and logs, so revoke this one and get another (`mcpindex keys revoke`, then `mcpindex login`)"#);
    index.stop().await;
}

#[tokio::test]
async fn no_key_is_in_the_programs_log() {
    let place = Place::new();
    let made = place.run(&["admin", "create-key", "ci", "--json"]).await.json();
    let member = made["key"].as_str().unwrap().to_owned();
    let stray = foreign_key();
    let log = place.path("log");
    let file = std::fs::File::create(&log).unwrap();
    let served = place
        .serve_logging(&["--no-crawl", "--log", "trace"], file.into())
        .await;
    let client = client();
    let mut answered = Vec::new();
    for key in [&member, &stray] {
        let encoded = key.replace('_', "%5f");
        for path in [
            "api/v1/whoami".to_owned(),
            "servers".to_owned(),
            format!("api/v1/servers?key={key}"),
            format!("servers?api_key={encoded}"),
            format!("{encoded}/{key}"),
        ] {
            let request = client
                .get(format!("{}/{path}", served.base))
                .bearer_auth(key)
                .header("referer", format!("https://a.example/?key={key}"))
                .header("user-agent", key)
                .header("x-request-id", key)
                .header("cookie", format!("mcpindex={key}"));
            answered.push(request.send().await.unwrap().status().as_u16());
        }
        let body = format!(r#"{{"key":"{stray}","also":"{key}"}}"#);
        let address = format!("{}/api/v1/keys/report-leak", served.base);
        answered.push(
            client
                .post(&address)
                .body(body)
                .send()
                .await
                .unwrap()
                .status()
                .as_u16(),
        );
    }
    assert_eq!(
        answered,
        [200, 200, 400, 400, 400, 400, 401, 401, 400, 400, 400, 400]
    );
    assert_eq!(served.terminate().await, Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("api/v1/whoami"), "the requests are logged");
    for key in [&member, &stray] {
        assert!(!log.contains(&key[5..25]));
    }
}

#[tokio::test]
async fn an_install_proves_itself_beside_a_key() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let sender = key(&database.store, &[Scope::Ingest]).await;
    let path = "/api/v1/drift/register";
    let body = format!(r#"{{"install_id":"{}"}}"#, "0".repeat(32));
    let given = index.ask(&sender.text, Method::POST, path, &body).await;
    assert_eq!(given.status, 200, "{}", given.text());
    let token = given.json()["install_token"].as_str().unwrap().to_owned();
    let authorization = format!("Bearer {}", sender.text);
    let revoked = async |token: &str| {
        let headers = [
            ("authorization", authorization.as_str()),
            ("mcpindex-install-token", token),
        ];
        let answer = index
            .send(HERE, Method::DELETE, path, &headers, body.clone())
            .await;
        answer.status.as_u16()
    };
    assert_eq!(revoked("").await, 401);
    assert_eq!(revoked(&"0".repeat(64)).await, 404);
    assert_eq!(revoked(&token).await, 200);
    // Without the key it is nobody's business whether there is such an install.
    let headers = [("authorization", format!("Bearer {token}"))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let answer = index
        .send(HERE, Method::DELETE, path, &headers, body.clone())
        .await;
    assert_eq!(answer.json()["type"], "urn:mcpindex:problem:unauthorized");
    index.stop().await;
}
