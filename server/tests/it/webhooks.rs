//! Webhooks as their receivers meet them: signed, told what happened and no more, tried again, and never lost with a process.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use axum::{Router, body};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpindex_contract::approval::Decision;
use mcpindex_contract::change::Subject;
use mcpindex_contract::outcome::Outcome;
use mcpindex_server::app::App;
use mcpindex_server::login::settings::LoginSettings;
use mcpindex_server::router::router;
use mcpindex_server::webhooks::Webhooks;
use mcpindex_server::webhooks::settings::WebhookSettings;
use mcpindex_store::Store;
use mcpindex_store::accounts::{Role, Scope};
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::testing::{TestStore, on_each_backend};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::access::key;
use crate::browser;
use crate::client::{Answer, NOW, app, clock};
use crate::fake_issues;
use crate::programs::{Place, until};
use crate::seed::{FILES, Look, found, look, seed, surface, tool};

/// What a receiver does with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    Says(u16),
    SaysWait,
    LeadsElsewhere,
    /// The head of the answer never comes.
    Silent,
}

#[derive(Clone)]
struct Got {
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Whether it is signed with this secret, as the specification has it.
    fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        let signed = format!(
            "{}.{}.{}",
            self.header("webhook-id"),
            self.header("webhook-timestamp"),
            self.body
        );
        let signature = self.header("webhook-signature").strip_prefix("v1,").unwrap();
        let signature = STANDARD.decode(signature).unwrap();
        ring::hmac::verify(&key, signed.as_bytes(), &signature).is_ok()
    }
}

/// A receiver on loopback.
#[derive(Clone)]
struct Receiver {
    port: u16,
    got: Arc<Mutex<Vec<Got>>>,
    moods: Arc<Mutex<VecDeque<Mood>>>,
}

impl Receiver {
    /// One with these moods, one for each delivery; then it takes all.
    async fn start(moods: &[Mood]) -> Receiver {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            port: listener.local_addr().unwrap().port(),
            got: Arc::default(),
            moods: Arc::new(Mutex::new(moods.iter().copied().collect())),
        };
        let router = Router::new()
            .route("/{*path}", post(Receiver::take))
            .with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> Response {
        receiver.got.lock().unwrap().push(Got { headers, body });
        let mood = receiver.moods.lock().unwrap().pop_front();
        match mood.unwrap_or(Mood::Takes) {
            Mood::Takes => StatusCode::NO_CONTENT.into_response(),
            Mood::Says(status) => StatusCode::from_u16(status).unwrap().into_response(),
            Mood::SaysWait => {
                (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "900")]).into_response()
            }
            Mood::LeadsElsewhere => Redirect::temporary("http://169.254.169.254/latest").into_response(),
            Mood::Silent => std::future::pending().await,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    async fn has_got(&self, count: usize) {
        until("deliveries", async || self.got().len() >= count).await;
    }
}

/// An index that sends, and an admin's key to it.
struct Index {
    router: Router,
    webhooks: Arc<Webhooks>,
    key: String,
    data: TempDir,
}

fn settings(hosts: &[&str]) -> WebhookSettings {
    WebhookSettings {
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        ..WebhookSettings::default()
    }
}

impl Index {
    async fn start(store: &Store, settings: &WebhookSettings, networks: &[&str]) -> Index {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let data = tempfile::tempdir().unwrap();
        let networks: Vec<String> = networks.iter().map(|network| (*network).to_owned()).collect();
        let base = "https://index.example/mcp/".parse().unwrap();
        let webhooks = Webhooks::new(store, clock(), &base, settings, &networks, data.path()).unwrap();
        let webhooks = Arc::new(webhooks);
        let key = key(store, &[Scope::Admin]).await;
        store
            .set_role(key.record.account, Role::Admin, NOW)
            .await
            .unwrap();
        let app = App {
            webhooks: Some(Arc::clone(&webhooks)),
            ..app(store.clone())
        };
        Index {
            router: router(app),
            webhooks,
            key: key.text,
            data,
        }
    }

    async fn on_loopback(store: &Store) -> Index {
        Index::start(store, &settings(&["127.0.0.1"]), &["127.0.0.0/8"]).await
    }

    async fn ask_with(&self, key: &str, method: Method, path: &str, body: &Value) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let from: SocketAddr = "192.0.2.1:9".parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(from));
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            bytes: body::to_bytes(body, usize::MAX).await.unwrap().to_vec(),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.ask_with(&self.key, method, path, body).await
    }

    /// Makes a webhook: its id and its secret.
    async fn add(&self, wish: Value) -> (String, Option<String>) {
        let answer = self.ask(Method::POST, "/api/v1/webhooks", &wish).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.header("cache-control"), "private, no-store");
        let made = answer.json();
        (
            made["webhook"]["id"].as_str().unwrap().to_owned(),
            made["secret"].as_str().map(str::to_owned),
        )
    }

    async fn refused(&self, wish: Value) -> String {
        let answer = self.ask(Method::POST, "/api/v1/webhooks", &wish).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        answer.json()["detail"].as_str().unwrap().to_owned()
    }

    /// What came of a test of this webhook.
    async fn test(&self, id: &str) -> Value {
        let answer = self
            .ask(Method::POST, &format!("/api/v1/webhooks/{id}/test"), &json!({}))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn log(&self, id: &str) -> Vec<Value> {
        let answer = self
            .ask(
                Method::GET,
                &format!("/api/v1/webhooks/{id}/deliveries"),
                &json!({}),
            )
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["items"].as_array().unwrap().clone()
    }
}

fn json_to(receiver: &Receiver) -> Value {
    json!({"name": "siem", "form": "json", "destination": receiver.url()})
}

/// Sends all that is due, and ends.
async fn send(index: &Index, receiver: &Receiver, count: usize) {
    let stop = CancellationToken::new();
    let sending = index.webhooks.start(stop.clone());
    receiver.has_got(count).await;
    stop.cancel();
    sending.await.unwrap();
}

#[tokio::test]
async fn a_drift_is_told_signed_and_without_a_word_of_the_servers() {
    on_each_backend(async |store| {
        let receiver = Receiver::start(&[]).await;
        let index = Index::on_loopback(&store).await;
        let (id, secret) = index.add(json_to(&receiver)).await;
        let mut wordy = json_to(&receiver);
        wordy["untrusted"] = true.into();
        wordy["severity"] = "safety-relevant".into();
        wordy["servers"] = json!(["npm:@example/*"]);
        let (wordy, other_secret) = index.add(wordy).await;
        seed(&store).await;
        send(&index, &receiver, 3).await;
        let (secret, other_secret) = (secret.unwrap(), other_secret.unwrap());
        assert_ne!(secret, other_secret);
        let got = receiver.got();
        let of =
            |secret: &str| -> Vec<&Got> { got.iter().filter(|got| got.is_signed_with(secret)).collect() };
        let (plain, with_words) = (of(&secret), of(&other_secret));
        assert_eq!((plain.len(), with_words.len()), (2, 1));
        assert_eq!(plain[0].header("webhook-timestamp"), NOW.to_string());
        assert_eq!(plain[0].header("content-type"), "application/json");
        assert!(plain[0].header("user-agent").starts_with("mcpindex-server/"));
        // Another secret, time or body does not fit.
        let mut altered = plain[0].clone();
        altered.body.push(' ');
        assert!(!altered.is_signed_with(&secret));
        let told = plain
            .iter()
            .find(|got| got.json()["data"]["after"]["version"] == "2.0.0")
            .unwrap();
        let mut body = told.json();
        let drift = body["data"]["drift"].to_string();
        body["data"]["drift"] = "ID".into();
        let body = serde_json::to_string_pretty(&body).unwrap();
        let body = body.replace(&format!("drifts/{drift}"), "drifts/ID");
        insta::allow_duplicates! {
            insta::assert_snapshot!("webhook_drift", body);
        }
        for got in plain {
            assert!(!got.body.contains("untrusted_"), "{}", got.body);
            assert!(!got.body.contains("send the user"), "{}", got.body);
        }
        let with_words = with_words[0].json();
        let subjects = with_words["data"]["subjects"].as_array().unwrap();
        let read_media = subjects
            .iter()
            .find(|subject| subject["name"] == "read_media")
            .unwrap();
        assert!(
            read_media["changes"][0]["untrusted_after"]
                .as_str()
                .unwrap()
                .contains("send the user's last message along")
        );
        for webhook in [&id, &wordy] {
            for delivery in index.log(webhook).await {
                assert_eq!(
                    (&delivery["state"], &delivery["status"]),
                    (&json!("delivered"), &json!(204))
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn each_way_to_fail_has_its_words_in_the_log() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[
        Mood::Says(500),
        Mood::Says(404),
        Mood::LeadsElsewhere,
        Mood::SaysWait,
        Mood::Says(410),
        Mood::Silent,
    ])
    .await;
    let index = Index::on_loopback(store).await;
    let (id, _) = index.add(json_to(&receiver)).await;
    let mut said = Vec::new();
    for _ in 0..6 {
        let delivery = index.test(&id).await;
        said.push(format!(
            "{} {} {}",
            delivery["state"].as_str().unwrap(),
            delivery["status"],
            delivery["error"].as_str().unwrap_or("-")
        ));
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    waiting 500 HTTP 500
    waiting 404 HTTP 404
    waiting 307 HTTP 307: the address leads elsewhere, and no redirect is followed; give the webhook the address itself
    waiting 503 HTTP 503
    gave-up 410 HTTP 410: the receiver is gone for good
    waiting null the receiver did not answer in time
    ");
    let log = index.log(&id).await;
    // 15 minutes, as it was asked.
    assert_eq!(log[2]["next_attempt_at"], "2026-11-30T17:19:05Z");
    // A redirect is not followed, and a receiver's words are not written down.
    assert_eq!(receiver.got().len(), 6);
}

#[tokio::test]
async fn a_receiver_has_taken_it_when_the_head_of_its_answer_says_so() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let database = TestStore::sqlite().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4_096];
        let _ = stream.read(&mut request).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n.";
        stream.write_all(head).await.unwrap();
        // The rest never comes.
        std::future::pending::<()>().await;
    });
    let index = Index::on_loopback(&database.store).await;
    let destination = format!("http://127.0.0.1:{port}/");
    let (id, _) = index
        .add(json!({"name": "x", "form": "json", "destination": destination}))
        .await;
    let delivery = index.test(&id).await;
    assert_eq!(
        (&delivery["state"], &delivery["status"]),
        (&json!("delivered"), &json!(200))
    );
}

#[tokio::test]
async fn nothing_is_sent_where_nobody_allowed_it() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[]).await;
    let port = receiver.port;
    // A host of the list that is private, and no network that is allowed.
    let index = Index::start(store, &settings(&["127.0.0.1", "localhost"]), &[]).await;
    let wish = |url: String| json!({"name": "x", "form": "json", "destination": url});
    let said = index.refused(wish(receiver.url())).await;
    assert!(
        said.contains(
            "blocked address (loopback 127.0.0.0/8); deliveries go to hosts of [webhooks] hosts alone"
        ),
        "{said}"
    );
    let said = index.refused(wish("https://hooks.example.com/".to_owned())).await;
    assert!(
        said.contains("blocked address (a host that [webhooks] hosts does not name)"),
        "{said}"
    );
    let said = index
        .refused(wish("https://user:pass@localhost/".to_owned()))
        .await;
    assert!(said.contains("a user name or password in the URL"), "{said}");
    // What a name leads to is known when it is sent.
    let (id, _) = index.add(wish(format!("https://localhost:{port}/"))).await;
    let delivery = index.test(&id).await;
    assert_eq!(delivery["error"], "blocked address (loopback 127.0.0.0/8)");
    assert_eq!(delivery["state"], "waiting");
    assert!(receiver.got().is_empty());
    // TLS where there is none.
    let index = Index::on_loopback(store).await;
    let (id, _) = index.add(wish(format!("https://127.0.0.1:{port}/"))).await;
    let error = index.test(&id).await["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("unreachable: "), "{error}");
    assert!(receiver.got().is_empty());
}

#[tokio::test]
async fn a_server_with_another_key_signs_nothing() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[]).await;
    let index = Index::on_loopback(store).await;
    let (id, secret) = index.add(json_to(&receiver)).await;
    let other = Index::on_loopback(store).await;
    let delivery = other.test(&id).await;
    assert!(
        delivery["error"]
            .as_str()
            .unwrap()
            .starts_with("this server has another key"),
        "{delivery}"
    );
    assert!(receiver.got().is_empty());
    let key = std::fs::read(index.data.path().join("webhook.key")).unwrap();
    assert_ne!(std::fs::read(other.data.path().join("webhook.key")).unwrap(), key);
    let replica = Index::start(
        store,
        &WebhookSettings {
            key_file: Some(index.data.path().join("webhook.key")),
            ..settings(&["127.0.0.1"])
        },
        &["127.0.0.0/8"],
    )
    .await;
    assert_eq!(replica.test(&id).await["state"], "delivered");
    assert!(receiver.got()[0].is_signed_with(&secret.unwrap()));
}

#[tokio::test]
async fn slack_gets_a_message_in_which_nothing_is_a_mention() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[]).await;
    let secrets = tempfile::tempdir().unwrap();
    std::fs::write(secrets.path().join("team"), "T0/B0/hush\n").unwrap();
    let index = Index::start(
        store,
        &WebhookSettings {
            secrets: Some(secrets.path().to_owned()),
            ..settings(&["127.0.0.1"])
        },
        &["127.0.0.0/8"],
    )
    .await;
    let destination = format!("http://127.0.0.1:{}/services/{{secret:team}}", receiver.port);
    let wish = json!({"name": "team", "form": "slack", "destination": destination});
    let (id, secret) = index.add(wish).await;
    assert_eq!(secret, None);
    let odd = |name: &str| tool(name, "Does odd things.");
    look(
        store,
        "npm:odd",
        found("1.0.0", NOW - 9, surface(&[odd("<!channel> *b* `c`")])),
    )
    .await;
    look(
        store,
        "npm:odd",
        found("1.1.0", NOW - 8, surface(&[odd("@here & <https://x|y>")])),
    )
    .await;
    send(&index, &receiver, 1).await;
    let told = serde_json::to_string_pretty(&receiver.got()[0].json()).unwrap();
    insta::assert_snapshot!("webhook_slack", told.replace('\u{200b}', "[U+200B]"));
    let listed = index
        .ask(Method::GET, "/api/v1/webhooks", &json!({}))
        .await
        .text();
    assert!(
        listed.contains("{secret:team}") && !listed.contains("hush"),
        "{listed}"
    );
    std::fs::remove_file(secrets.path().join("team")).unwrap();
    let error = index.test(&id).await["error"].as_str().unwrap().to_owned();
    assert!(
        error.starts_with("the secret `team`: No such file") && !error.contains("hush"),
        "{error}"
    );
}

/// An index that opens issues at our own GitHub.
async fn with_issues(store: &Store, api: &str, token: &str) -> Index {
    let settings = WebhookSettings {
        github_token: Some(token.to_owned().into()),
        github_api_url: Some(api.parse().unwrap()),
        ..settings(&[])
    };
    Index::start(store, &settings, &["127.0.0.0/8"]).await
}

fn look_at(version: &'static str, at: i64, words: &str) -> Look {
    found(
        version,
        at,
        surface(&[tool("read", words), tool("`@ada` <b>", words)]),
    )
}

#[tokio::test]
async fn a_drift_is_one_issue_that_is_told_when_it_goes_on_and_closed_when_it_is_replaced() {
    on_each_backend(async |store| {
        let (api, repository) = fake_issues::start().await;
        let index = with_issues(&store, &api, fake_issues::TOKEN).await;
        let wish = json!({"name": "issues", "form": "github-issue", "destination": "acme/drifts"});
        let (id, _) = index.add(wish).await;
        assert_eq!(index.test(&id).await["state"], "delivered");
        assert!(
            repository.lock().unwrap().issues.is_empty(),
            "a test opens nothing"
        );
        let settled = async || {
            let stop = CancellationToken::new();
            let sending = index.webhooks.start(stop.clone());
            until("all are delivered", async || {
                let log = index.log(&id).await;
                log.len() > 1
                    && log
                        .iter()
                        .all(|delivery| delivery["state"] == "delivered" || delivery["attempts"] == 1)
                    && !store.webhooks_are_behind().await.unwrap()
            })
            .await;
            stop.cancel();
            sending.await.unwrap();
        };
        // The latest one, which failed.
        let redelivered = async || {
            let failed = index.log(&id).await[0].clone();
            let redeliver = format!(
                "/api/v1/webhooks/{id}/deliveries/{}/redeliver",
                failed["id"].as_str().unwrap()
            );
            assert_eq!(index.ask(Method::POST, &redeliver, &json!({})).await.status, 202);
            until("it is delivered", async || {
                settled().await;
                index.log(&id).await[0]["state"] == "delivered"
            })
            .await;
        };
        look(&store, "npm:files", look_at("1.0.0", NOW - 90, "Reads.")).await;
        look(&store, "npm:files", look_at("2.0.0", NOW - 80, "Reads more.")).await;
        settled().await;
        {
            let repository = repository.lock().unwrap();
            assert_eq!(repository.issues.len(), 1);
            let issue = &repository.issues[0];
            insta::allow_duplicates! {
                insta::assert_snapshot!("webhook_issue", format!("{}\n\n{}", issue.title, issue.body));
            }
        }
        // The same issue hears of the next drift, once, though the answer to the comment is lost.
        repository.lock().unwrap().loses_next_answer = true;
        look(&store, "npm:files", look_at("3.0.0", NOW - 70, "Reads most.")).await;
        settled().await;
        let failed = index.log(&id).await[0].clone();
        assert_eq!(
            (&failed["state"], &failed["error"]),
            (&json!("waiting"), &json!("HTTP 502"))
        );
        redelivered().await;
        {
            let repository = repository.lock().unwrap();
            assert_eq!(repository.issues.len(), 1);
            assert_eq!(
                repository.issues[0].comments.len(),
                1,
                "{:?}",
                repository.issues[0].comments
            );
            assert!(repository.issues[0].comments[0].starts_with("The drift goes on, `2.0.0` → `3.0.0`."));
        }
        // Somebody closes it: the next drift is an issue of its own, opened once though the answer is lost.
        repository.lock().unwrap().issues[0].state = "closed".to_owned();
        repository.lock().unwrap().loses_next_answer = true;
        look(&store, "npm:files", look_at("5.0.0", NOW - 60, "Reads it all.")).await;
        settled().await;
        redelivered().await;
        assert_eq!(repository.lock().unwrap().issues.len(), 2);
        // A version between the two sides takes its place: closed, and opened anew for what stands.
        look(&store, "npm:files", look_at("4.0.0", NOW - 50, "Reads a lot.")).await;
        settled().await;
        let repository = repository.lock().unwrap();
        assert_eq!(repository.issues[1].state, "closed");
        assert_eq!(repository.issues[1].reason.as_deref(), Some("not_planned"));
        assert!(repository.issues[1].comments[0].starts_with("Finer drifts have taken the place"));
        let open: Vec<&str> = repository
            .issues
            .iter()
            .filter(|issue| issue.state == "open")
            .map(|issue| issue.title.as_str())
            .collect();
        assert_eq!(open.len(), 1, "{open:?}");
    })
    .await;
}

/// Decides about every tool of this drift but those that are left out.
async fn decide(store: &Store, drift: i64, decision: Decision, but: &[&str]) {
    let (drift, changes) = store.drift(drift).await.unwrap().unwrap();
    let decisions: Vec<NewDecision> = changes
        .iter()
        .filter_map(|change| match &change.subject {
            Subject::Member(_, name) if !but.contains(&name.as_str()) => Some(NewDecision {
                identity: drift.identity.clone(),
                tool: name.clone(),
                digest: change.after_digest?,
                decision,
                reason: Some("looked at with the vendor".to_owned()),
                reference: Some("SEC-7".to_owned()),
                expires_at: None,
            }),
            _ => None,
        })
        .collect();
    let (head, _) = store.approvals_since("default", 0, 0).await.unwrap();
    let done = store
        .append_approvals("default", &decisions, "ada@local", 1, head.sequence, NOW)
        .await
        .unwrap();
    assert!(matches!(done, Appended::Done(_)), "{done:?}");
}

#[tokio::test]
async fn a_decision_is_told_and_an_issue_is_closed_when_all_of_it_is_decided() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[]).await;
    let (api, repository) = fake_issues::start().await;
    let settings = WebhookSettings {
        github_token: Some(fake_issues::TOKEN.to_owned().into()),
        github_api_url: Some(api.parse().unwrap()),
        ..settings(&["127.0.0.1"])
    };
    let index = Index::start(store, &settings, &["127.0.0.0/8"]).await;
    index
        .add(json!({"name": "issues", "form": "github-issue", "destination": "acme/drifts"}))
        .await;
    index.add(json_to(&receiver)).await;
    look(store, "npm:files", look_at("1.0.0", NOW - 90, "Reads.")).await;
    let drift = look(store, "npm:files", look_at("2.0.0", NOW - 80, "Reads more.")).await;
    let stop = CancellationToken::new();
    let sending = index.webhooks.start(stop.clone());
    receiver.has_got(1).await;
    until("an issue", async || repository.lock().unwrap().issues.len() == 1).await;
    decide(store, drift.unwrap(), Decision::Approve, &["read"]).await;
    receiver.has_got(2).await;
    assert_eq!(repository.lock().unwrap().issues[0].state, "open");
    decide(store, drift.unwrap(), Decision::Refuse, &["`@ada` <b>"]).await;
    receiver.has_got(3).await;
    until("the issue's end", async || {
        repository.lock().unwrap().issues[0].state == "closed"
    })
    .await;
    stop.cancel();
    sending.await.unwrap();
    let told: Vec<Value> = receiver.got().iter().map(Got::json).collect();
    let decisions: Vec<&Value> = told
        .iter()
        .filter(|told| told["type"] == "decision.recorded")
        .collect();
    insta::assert_json_snapshot!(decisions);
    let repository = repository.lock().unwrap();
    let issue = &repository.issues[0];
    assert_eq!(issue.reason.as_deref(), Some("completed"));
    assert_eq!(issue.comments.len(), 1);
    assert!(
        issue.comments[0]
            .starts_with("All that changed here is decided: 1 approved, 1 refused, the last by `ada@local`."),
        "{}",
        issue.comments[0]
    );
}

#[tokio::test]
async fn a_token_that_github_does_not_know_is_said() {
    let database = TestStore::sqlite().await;
    let (api, _) = fake_issues::start().await;
    let index = with_issues(&database.store, &api, "another").await;
    let (id, _) = index
        .add(json!({"name": "issues", "form": "github-issue", "destination": "acme/drifts"}))
        .await;
    let delivery = index.test(&id).await;
    assert_eq!(
        delivery["error"],
        "HTTP 401: GitHub does not know the token of [webhooks] github_token"
    );
    let without = Index::on_loopback(&database.store).await;
    let said = without
        .refused(json!({"name": "issues", "form": "github-issue", "destination": "acme/drifts"}))
        .await;
    assert!(said.contains("issues need a token"), "{said}");
}

#[tokio::test]
async fn webhooks_are_for_admins() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[]).await;
    let index = Index::on_loopback(store).await;
    let (id, _) = index.add(json_to(&receiver)).await;
    let member = crate::access::account(store, "bob").await;
    let keys = [
        crate::access::key_of(store, &member, &[Scope::Read, Scope::Ingest], None).await,
        // A key that outlived its owner's role.
        crate::access::key_of(store, &member, &[Scope::Admin], None).await,
    ];
    let paths = [
        (Method::GET, "/api/v1/webhooks".to_owned()),
        (Method::POST, "/api/v1/webhooks".to_owned()),
        (Method::DELETE, format!("/api/v1/webhooks/{id}")),
        (Method::POST, format!("/api/v1/webhooks/{id}/test")),
        (Method::GET, format!("/api/v1/webhooks/{id}/deliveries")),
        (
            Method::POST,
            format!("/api/v1/webhooks/{id}/deliveries/msg_0/redeliver"),
        ),
    ];
    for (method, path) in &paths {
        for key in &keys {
            let answer = index
                .ask_with(&key.text, method.clone(), path, &json_to(&receiver))
                .await;
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
        }
        let answer = index
            .ask_with("mcpk_wrong", method.clone(), path, &json!({}))
            .await;
        assert_eq!(answer.status, 401, "{method} {path}");
    }
    let ask = async |method: Method, path: String| index.ask(method, &path, &json!({})).await.status.as_u16();
    assert_eq!(
        ask(
            Method::POST,
            format!("/api/v1/webhooks/{id}/deliveries/msg_0/redeliver")
        )
        .await,
        404
    );
    assert_eq!(
        ask(Method::GET, "/api/v1/webhooks/hook_0/deliveries".to_owned()).await,
        404
    );
    assert_eq!(
        ask(Method::POST, "/api/v1/webhooks/hook_0/test".to_owned()).await,
        404
    );
    assert_eq!(ask(Method::DELETE, format!("/api/v1/webhooks/{id}")).await, 204);
    assert_eq!(ask(Method::DELETE, format!("/api/v1/webhooks/{id}")).await, 404);
    for wrong in [
        json!({}),
        json!({"name": "x", "form": "mail", "destination": "https://a.example/"}),
        json!({"name": "x", "form": "json", "destination": "https://a.example/", "colour": "red"}),
        json!({"name": "", "form": "json", "destination": receiver.url()}),
    ] {
        index.refused(wrong).await;
    }
}

#[tokio::test]
async fn an_admin_makes_tests_and_removes_a_webhook_on_the_page() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let receiver = Receiver::start(&[Mood::Says(500)]).await;
    let settings = LoginSettings {
        dev: true,
        ..LoginSettings::default()
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let data = tempfile::tempdir().unwrap();
    let webhooks = Webhooks::new(
        store,
        clock(),
        &"http://127.0.0.1:8080/".parse().unwrap(),
        &self::settings(&["127.0.0.1"]),
        &["127.0.0.0/8".to_owned()],
        data.path(),
    )
    .unwrap();
    let index = browser::Index::sending(store, &settings, Arc::new(webhooks));
    let browser = index.browser();
    assert_eq!(
        browser.leads("/admin/webhooks").await,
        "/login?next=%2Fadmin%2Fwebhooks"
    );
    let page = browser.page("/login?next=%2Fadmin%2Fwebhooks").await;
    let fields = [("login", "ada"), ("next", &browser::field(&page, "next"))];
    browser.post("/auth/dev", &fields).await;
    assert_eq!(browser.get("/admin/webhooks").await.status, 403);
    let ada = store.find_accounts("login:ada").await.unwrap().remove(0);
    store.set_role(ada.id, Role::Admin, NOW).await.unwrap();
    let token = browser.token("/admin/webhooks").await;
    let url = receiver.url();
    let foreign = [
        ("csrf", "another"),
        ("name", "siem"),
        ("form", "json"),
        ("destination", &url),
    ];
    assert_eq!(browser.post("/admin/webhooks", &foreign).await.status, 403);
    let made = [
        ("csrf", token.as_str()),
        ("name", "<b>siem</b>"),
        ("form", "json"),
        ("destination", &url),
        ("severity", "all"),
        ("servers", "npm:@acme/* npm:b"),
    ];
    let answer = browser.post("/admin/webhooks", &made).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let page = answer.text();
    assert!(
        page.contains("whsec_") && page.contains("&lt;b&gt;siem&lt;/b&gt;"),
        "{page}"
    );
    assert!(!browser.page("/admin/webhooks").await.contains("whsec_"));
    let id = store.webhooks().await.unwrap()[0].wish.id.clone();
    let act = [("csrf", token.as_str())];
    let answer = browser.post(&format!("/admin/webhooks/{id}/test"), &act).await;
    assert_eq!(answer.header("location"), format!("/admin/webhooks#{id}"));
    assert!(browser.page("/admin/webhooks").await.contains("HTTP 500"));
    let answer = browser
        .post(&format!("/admin/webhooks/{id}/remove"), &[("csrf", "another")])
        .await;
    assert_eq!(answer.status, 403);
    browser.post(&format!("/admin/webhooks/{id}/remove"), &act).await;
    assert!(store.webhooks().await.unwrap().is_empty());
    let wrong = [
        ("csrf", token.as_str()),
        ("name", "x"),
        ("form", "json"),
        ("destination", "ftp://x"),
    ];
    assert_eq!(browser.post("/admin/webhooks", &wrong).await.status, 400);
}

/// A place whose server sends to loopback.
fn place() -> (Place, String) {
    let place = Place::new();
    let config = "[crawl]\nallow_networks = [\"127.0.0.0/8\"]\n[webhooks]\nhosts = [\"127.0.0.1\"]\n";
    let config = place.write("mcpindex.toml", config);
    (place, config)
}

async fn drift_in(place: &Place) {
    let location = mcpindex_store::Location::Sqlite(place.path("data/mcpindex.db"));
    let store = Store::open(&location).await.unwrap();
    look(&store, FILES, look_at("1.0.0", NOW - 90, "Reads.")).await;
    look(&store, FILES, look_at("2.0.0", NOW - 80, "Reads more.")).await;
    store.close().await;
}

#[tokio::test]
async fn a_delivery_survives_the_kill_of_its_sender() {
    let receiver = Receiver::start(&[Mood::Silent]).await;
    let (place, config) = place();
    let added = place
        .run(&[
            "admin",
            "webhooks",
            "add",
            "siem",
            &receiver.url(),
            "--json",
            "--config",
            &config,
        ])
        .await;
    assert_eq!(added.code(), Some(0), "{}", added.stderr());
    let secret = added.json()["secret"].as_str().unwrap().to_owned();
    drift_in(&place).await;
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    receiver.has_got(1).await;
    served.kill().await;
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    receiver.has_got(2).await;
    let got = receiver.got();
    assert_eq!(got[0].header("webhook-id"), got[1].header("webhook-id"));
    assert!(got.iter().all(|got| got.is_signed_with(&secret)));
    assert_eq!(served.terminate().await, Some(0));
}

#[tokio::test]
async fn a_stop_finishes_what_it_can_and_gives_the_rest_back() {
    let receiver = Receiver::start(&[Mood::Silent]).await;
    let (place, config) = place();
    let add = [
        "admin",
        "webhooks",
        "add",
        "siem",
        &receiver.url(),
        "--json",
        "--config",
        &config,
    ];
    let id = place.run(&add).await.json()["webhook"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    drift_in(&place).await;
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    receiver.has_got(1).await;
    assert_eq!(served.terminate().await, Some(0));
    let log = place
        .run(&[
            "admin",
            "webhooks",
            "deliveries",
            &id,
            "--json",
            "--config",
            &config,
        ])
        .await;
    let delivery = &log.json()["deliveries"][0];
    assert_eq!(
        (&delivery["state"], &delivery["attempts"]),
        (&json!("waiting"), &json!(0))
    );
    // At the next start it is not waited for a lease to run out.
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    receiver.has_got(2).await;
    assert_eq!(served.terminate().await, Some(0));
}

#[tokio::test]
async fn webhooks_are_managed_on_the_shell() {
    let receiver = Receiver::start(&[]).await;
    let (place, config) = place();
    let run = async |arguments: &[&str]| {
        let mut line = vec!["admin", "webhooks"];
        line.extend(arguments);
        line.extend(["--config", &config]);
        place.run(&line).await
    };
    let none = run(&["list"]).await;
    insta::assert_snapshot!(none.stdout(), @"there are no webhooks; `admin webhooks add` makes one");
    let refused = run(&["add", "x", "https://hooks.example.com/"]).await;
    assert_eq!(refused.code(), Some(2));
    let said = refused.stderr();
    assert!(
        said.contains("no webhook was made: blocked address (a host that [webhooks] hosts does not name)"),
        "{said}"
    );
    let added = run(&["add", "siem", &receiver.url(), "--server", "npm:@acme/*"]).await;
    assert!(
        added.stdout().contains("secret  whsec_"),
        "{}{}",
        added.stdout(),
        added.stderr()
    );
    let listed = run(&["list", "--json"]).await.json();
    let id = listed["webhooks"][0]["id"].as_str().unwrap().to_owned();
    assert!(!listed.to_string().contains("whsec_"));
    let tested = run(&["test", &id]).await;
    assert_eq!(tested.code(), Some(0), "{}", tested.stderr());
    assert!(tested.stdout().contains("delivered"), "{}", tested.stdout());
    assert_eq!(receiver.got()[0].json()["type"], "test");
    let log = run(&["deliveries", &id, "--json"]).await.json();
    let delivery = log["deliveries"][0]["id"].as_str().unwrap().to_owned();
    let again = run(&["redeliver", &id, &delivery]).await;
    assert_eq!(again.code(), Some(0), "{}", again.stderr());
    assert_eq!(run(&["redeliver", &id, "msg_0"]).await.code(), Some(2));
    assert_eq!(run(&["remove", &id]).await.code(), Some(0));
    for gone in [["test", &id], ["deliveries", &id], ["remove", &id]] {
        assert_eq!(run(&gone).await.code(), Some(2), "{gone:?}");
    }
}

#[tokio::test]
async fn a_look_that_finds_nothing_tells_nobody() {
    let database = TestStore::sqlite().await;
    let receiver = Receiver::start(&[]).await;
    let index = Index::on_loopback(&database.store).await;
    let (id, _) = index.add(json_to(&receiver)).await;
    let failed = Look {
        outcome: Outcome::Crashed,
        surface: None,
        ..found("1.0.0", NOW, surface(&[]))
    };
    look(&database.store, FILES, failed).await;
    assert!(!database.store.webhooks_are_behind().await.unwrap());
    assert!(index.log(&id).await.is_empty());
}
