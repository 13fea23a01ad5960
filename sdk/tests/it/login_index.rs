//! A stand-in for an index, as far as a desk asks it: sign-in, device grant, keys. Says yes as the real one does, and no as it is
//! told to.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use mcpindex::index::key::with_checksum;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const EXPIRES: &str = "2027-05-29T00:00:00Z";

/// What a sign-in in the browser comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Consent {
    #[default]
    Given,
    Refused,
    /// The answer names another index.
    OfAnother,
}

#[derive(Default)]
pub(crate) struct Index {
    pub(crate) base: String,
    pub(crate) consent: Consent,
    /// Every request: its method, its address, and whether a key came along.
    pub(crate) requests: Vec<String>,
    /// The status of every answer but the browser's, where something is wrong.
    pub(crate) failing: Option<u16>,
    /// The status of the answers that end a key.
    pub(crate) failing_deletes: Option<u16>,
    /// What polls are answered before the key.
    pub(crate) polls: VecDeque<&'static str>,
    pub(crate) has_no_device: bool,
    /// Whether codes are good no more.
    pub(crate) takes_no_code: bool,
    pub(crate) keys: Vec<Key>,
    codes: HashMap<String, Code>,
}

struct Code {
    challenge: String,
    name: String,
}

pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) scopes: Value,
    pub(crate) expires_at: Option<String>,
    pub(crate) revoked: bool,
}

impl Index {
    fn make_key(&mut self, name: &str, scopes: Value, expires_at: Option<String>) -> &Key {
        let number = self.keys.len() + 1;
        self.keys.push(Key {
            text: key_text(number),
            id: format!("key_{number:016x}"),
            name: name.to_owned(),
            scopes,
            expires_at,
            revoked: false,
        });
        self.keys.last().unwrap()
    }

    /// A key that somebody made on the page.
    pub(crate) fn add_key(&mut self, name: &str) -> String {
        let key = self.make_key(name, json!(["read"]), None);
        key.text.clone()
    }

    pub(crate) fn revoked(&self) -> Vec<&str> {
        let revoked = self.keys.iter().filter(|key| key.revoked);
        revoked.map(|key| key.id.as_str()).collect()
    }

    fn of(&self, headers: &HeaderMap) -> Option<&Key> {
        let given = headers
            .get(AUTHORIZATION)?
            .to_str()
            .ok()?
            .strip_prefix("Bearer ")?;
        self.keys.iter().find(|key| key.text == given && !key.revoked)
    }
}

/// The text of the key of this number, with its checksum.
pub(crate) fn key_text(number: usize) -> String {
    with_checksum(format!("mcpk_canary{number:024}"))
}

fn shown(key: &Key) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "shown": format!("{}…", &key.text[..9]),
        "scopes": key.scopes,
        "created_at": "2026-11-30T10:00:00Z",
        "expires_at": key.expires_at,
        "last_used_on": null,
        "revoked_at": key.revoked.then_some("2026-12-01T10:00:00Z"),
    })
}

fn problem(status: u16, title: &str, detail: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let body = json!({"type": "urn:mcpindex:problem:x", "title": title, "status": status.as_u16(), "detail": detail});
    (status, [(RETRY_AFTER, "60")], Json(body)).into_response()
}

fn unknown_key() -> Response {
    problem(
        401,
        "Not signed in",
        "The key is not known, has ended or was revoked.",
    )
}

type Shared = Arc<Mutex<Index>>;

fn locked(index: &Shared) -> MutexGuard<'_, Index> {
    index.lock().unwrap()
}

/// A running one. Its thread ends with the test's process.
pub(crate) struct StandIn {
    pub(crate) base: String,
    index: Shared,
}

impl StandIn {
    pub(crate) fn start() -> StandIn {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let index = Shared::default();
        locked(&index).base = base.clone();
        let app = routes(Arc::clone(&index));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        StandIn { base, index }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Index> {
        locked(&self.index)
    }
}

fn routes(index: Shared) -> Router {
    Router::new()
        .route("/cli/login", get(sign_in))
        .route("/api/v1/cli/token", post(token))
        .route("/api/v1/device/code", post(device_code))
        .route("/api/v1/device/token", post(device_token))
        .route("/api/v1/whoami", get(whoami))
        .route("/api/v1/keys", get(keys).post(create))
        .route("/api/v1/keys/{id}/rotate", post(rotate))
        .route("/api/v1/keys/{id}", delete(revoke))
        .route("/api/v1/moved", get(moved))
        .route("/api/v1/long", get(long))
        .layer(from_fn_with_state(Arc::clone(&index), note))
        .with_state(index)
}

async fn note(State(index): State<Shared>, request: Request, next: Next) -> Response {
    {
        let mut index = locked(&index);
        let key = match request.headers().get(AUTHORIZATION) {
            None => "no key",
            Some(_) => "a key",
        };
        let line = format!("{} {} {key}", request.method(), request.uri());
        index.requests.push(line);
        if let Some(status) = index.failing
            && request.uri().path() != "/cli/login"
        {
            return problem(
                status,
                "Something is wrong",
                "This is a test of what is said then.",
            );
        }
    }
    next.run(request).await
}

/// The person signs in, and consents at once.
async fn sign_in(State(index): State<Shared>, Query(query): Query<HashMap<String, String>>) -> Response {
    let mut index = locked(&index);
    let host = match query.contains_key("v6") {
        true => "[::1]",
        false => "127.0.0.1",
    };
    let port: u16 = query["port"].parse().unwrap();
    let code = format!("code-{}", index.codes.len());
    let outcome = match index.consent {
        Consent::Refused => "error=access_denied".to_owned(),
        Consent::Given | Consent::OfAnother => format!("code={code}"),
    };
    let iss: String = match index.consent {
        Consent::OfAnother => "https://evil.example/".to_owned(),
        _ => index.base.clone(),
    };
    let iss: String = url::form_urlencoded::byte_serialize(iss.as_bytes()).collect();
    index.codes.insert(
        code,
        Code {
            challenge: query["challenge"].clone(),
            name: query["name"].clone(),
        },
    );
    let to = format!(
        "http://{host}:{port}/callback?{outcome}&state={}&iss={iss}",
        query["state"]
    );
    (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response()
}

fn given(key: &Key) -> Response {
    Json(json!({"key": key.text, "key_id": key.id, "login": "ann", "expires_at": key.expires_at}))
        .into_response()
}

async fn token(State(index): State<Shared>, Json(body): Json<Value>) -> Response {
    let mut index = locked(&index);
    let refused = || {
        problem(
            400,
            "Invalid code",
            "The code is not known, was used or has ended.",
        )
    };
    if index.takes_no_code {
        return refused();
    }
    let Some(code) = index.codes.remove(body["code"].as_str().unwrap()) else {
        return refused();
    };
    let verifier = body["code_verifier"].as_str().unwrap();
    if BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)) != code.challenge {
        return refused();
    }
    let key = index.make_key(&code.name, json!("read ingest"), Some(EXPIRES.to_owned()));
    given(key)
}

async fn device_code(State(index): State<Shared>, Json(_): Json<Value>) -> Response {
    let index = locked(&index);
    if index.has_no_device {
        return problem(404, "Not found", "There is nothing here.");
    }
    Json(json!({
        "device_code": "canary-device-code",
        "user_code": "WDJB-MJHT",
        "verification_uri": format!("{}device", index.base),
        "expires_in": 600,
        "interval": 0,
    }))
    .into_response()
}

async fn device_token(State(index): State<Shared>, Json(body): Json<Value>) -> Response {
    let mut index = locked(&index);
    assert_eq!(body["device_code"], "canary-device-code");
    if let Some(error) = index.polls.pop_front() {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    }
    let key = index.make_key("by device", json!(["read"]), Some(EXPIRES.to_owned()));
    given(key)
}

async fn whoami(State(index): State<Shared>, headers: HeaderMap) -> Response {
    let index = locked(&index);
    match index.of(&headers) {
        None => unknown_key(),
        Some(key) => {
            let body = json!({"login": "ann", "role": "member", "issuer": "https://github.example", "key": shown(key)});
            Json(body).into_response()
        }
    }
}

async fn keys(State(index): State<Shared>, headers: HeaderMap) -> Response {
    let index = locked(&index);
    let Some(asking) = index.of(&headers) else {
        return unknown_key();
    };
    let keys: Vec<Value> = index
        .keys
        .iter()
        .map(|key| {
            let mut shown = shown(key);
            shown["current"] = (key.id == asking.id).into();
            shown
        })
        .collect();
    Json(json!({ "keys": keys })).into_response()
}

async fn create(State(index): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let mut index = locked(&index);
    if index.of(&headers).is_none() {
        return unknown_key();
    }
    let body: Value = serde_json::from_slice(&body).unwrap();
    let name = body["name"].as_str().unwrap();
    if body["scopes"].as_array().unwrap().contains(&json!("admin")) {
        return problem(
            403,
            "Not allowed",
            "A key makes keys of its own scopes, and no others.",
        );
    }
    let expires = body["expires_in_days"].as_u64().map(|_| EXPIRES.to_owned());
    let key = index.make_key(name, body["scopes"].clone(), expires);
    made(key)
}

fn made(key: &Key) -> Response {
    let mut body = shown(key);
    body["key"] = key.text.clone().into();
    (StatusCode::CREATED, Json(body)).into_response()
}

async fn rotate(State(index): State<Shared>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let mut index = locked(&index);
    if index.of(&headers).is_none() {
        return unknown_key();
    }
    let Some(old) = index.keys.iter().find(|key| key.id == id && !key.revoked) else {
        return problem(404, "Not found", "There is no such key.");
    };
    let (name, scopes, expires) = (old.name.clone(), old.scopes.clone(), old.expires_at.clone());
    made(index.make_key(&name, scopes, expires))
}

async fn revoke(State(index): State<Shared>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let mut index = locked(&index);
    if let Some(status) = index.failing_deletes {
        return problem(
            status,
            "Something is wrong",
            "This is a test of what is said then.",
        );
    }
    if index.of(&headers).is_none() {
        return unknown_key();
    }
    match index.keys.iter_mut().find(|key| key.id == id && !key.revoked) {
        None => problem(404, "Not found", "There is no such key."),
        Some(key) => {
            key.revoked = true;
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

async fn moved() -> Response {
    (StatusCode::FOUND, [(LOCATION, "/api/v1/whoami")]).into_response()
}

async fn long() -> Vec<u8> {
    vec![b'a'; 1001]
}
