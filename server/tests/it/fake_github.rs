//! A small GitHub of our own: the four addresses that sign-in uses, as strict as the real one where it matters, and wrong in
//! the ways that a test names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpindex_server::login::settings::LoginSettings;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::browser::{client_of, listen};

const SECRET: &str = "github-secret-hush";

/// What it does instead of what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Good,
    /// Every answer of its API and of its token address is 500.
    Down,
    /// The person says no.
    Refuses,
    /// It answers with more than anybody reads.
    Endless,
}

pub(crate) struct FakeGithub {
    pub(crate) url: String,
    state: Arc<Github>,
}

struct Github {
    mood: Mutex<Mood>,
    user: Mutex<Value>,
    emails: Mutex<Value>,
    organisations: Mutex<BTreeMap<String, &'static str>>,
    /// Each code with its challenge, until it is used.
    codes: Mutex<BTreeMap<String, String>>,
    scopes: Mutex<Vec<String>>,
}

impl FakeGithub {
    pub(crate) async fn start() -> FakeGithub {
        let state = Arc::new(Github {
            mood: Mutex::new(Mood::Good),
            user: Mutex::new(json!({"id": 583_231, "login": "alice"})),
            emails: Mutex::new(json!([])),
            organisations: Mutex::default(),
            codes: Mutex::default(),
            scopes: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        let url = listen(|_| {
            Router::new()
                .route("/login/oauth/authorize", get(authorize))
                .route("/login/oauth/access_token", post(token))
                .route("/", get(front))
                .route("/api/v3/", get(front))
                .route("/api/v3/user", get(user))
                .route("/api/v3/user/emails", get(emails))
                .route("/api/v3/user/memberships/orgs/{name}", get(membership))
                .with_state(shared)
        })
        .await;
        FakeGithub { url, state }
    }

    pub(crate) fn settings(&self, allow: &[&str]) -> LoginSettings {
        LoginSettings {
            github: client_of("github-id", SECRET),
            github_url: Some(format!("{}/", self.url).parse().unwrap()),
            allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
            ..LoginSettings::default()
        }
    }

    pub(crate) fn mood(&self, mood: Mood) {
        *self.state.mood.lock().unwrap() = mood;
    }

    pub(crate) fn user(&self, id: i64, login: &str) {
        *self.state.user.lock().unwrap() = json!({"id": id, "login": login});
    }

    pub(crate) fn emails(&self, emails: Value) {
        *self.state.emails.lock().unwrap() = emails;
    }

    pub(crate) fn member_of(&self, name: &str, state: &'static str) {
        self.state
            .organisations
            .lock()
            .unwrap()
            .insert(name.to_owned(), state);
    }

    /// The scopes that were asked for last.
    pub(crate) fn scopes(&self) -> String {
        self.state
            .scopes
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap_or_default()
    }
}

type Shared = State<Arc<Github>>;

async fn authorize(State(github): Shared, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let redirect = &query["redirect_uri"];
    assert_eq!(query["client_id"], "github-id");
    assert_eq!(query["response_type"], "code");
    assert_eq!(query["code_challenge_method"], "S256");
    github
        .scopes
        .lock()
        .unwrap()
        .push(query.get("scope").cloned().unwrap_or_default());
    let state = &query["state"];
    if *github.mood.lock().unwrap() == Mood::Refuses {
        let back = format!("{redirect}?error=access_denied&error_description=no&state={state}");
        return Redirect::to(&back).into_response();
    }
    let mut codes = github.codes.lock().unwrap();
    let code = format!("code-{}", codes.len());
    codes.insert(code.clone(), query["code_challenge"].clone());
    Redirect::to(&format!("{redirect}?code={code}&state={state}")).into_response()
}

/// Something is there.
async fn front(State(github): Shared) -> StatusCode {
    match *github.mood.lock().unwrap() {
        Mood::Down => StatusCode::INTERNAL_SERVER_ERROR,
        Mood::Good | Mood::Refuses | Mood::Endless => StatusCode::OK,
    }
}

/// It answers 200 to what it refuses, as the real one does.
async fn token(State(github): Shared, body: Bytes) -> Response {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let refused = |error: &str| Json(json!({"error": error})).into_response();
    match *github.mood.lock().unwrap() {
        Mood::Down => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Endless => return vec![b' '; 3 << 20].into_response(),
        _ => {}
    }
    if form["client_id"] != "github-id" || form["client_secret"] != SECRET {
        return refused("incorrect_client_credentials");
    }
    let Some(challenge) = github
        .codes
        .lock()
        .unwrap()
        .insert(form["code"].clone(), String::new())
    else {
        return refused("bad_verification_code");
    };
    if challenge != URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"])) {
        return refused("bad_verification_code");
    }
    Json(json!({"access_token": "gho_hush", "scope": "", "token_type": "bearer"})).into_response()
}

fn answer(github: &Github, headers: &HeaderMap, value: Value) -> Response {
    if *github.mood.lock().unwrap() == Mood::Down {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if headers["authorization"] != "Bearer gho_hush" || !headers.contains_key("user-agent") {
        return StatusCode::FORBIDDEN.into_response();
    }
    Json(value).into_response()
}

async fn user(State(github): Shared, headers: HeaderMap) -> Response {
    let user = github.user.lock().unwrap().clone();
    answer(&github, &headers, user)
}

async fn emails(State(github): Shared, headers: HeaderMap) -> Response {
    let emails = github.emails.lock().unwrap().clone();
    answer(&github, &headers, emails)
}

async fn membership(State(github): Shared, headers: HeaderMap, Path(name): Path<String>) -> Response {
    match github.organisations.lock().unwrap().get(&name).copied() {
        Some("restricted") => StatusCode::FORBIDDEN.into_response(),
        Some(state) => answer(&github, &headers, json!({"state": state})),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
