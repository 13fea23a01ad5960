//! A small GitHub of our own: a repository's issues and their comments, wrong in the ways that a test names.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use crate::browser::listen;

pub(crate) const TOKEN: &str = "github_pat_hush";

#[derive(Default)]
pub(crate) struct Repository {
    /// In the order of their numbers, from 1.
    pub(crate) issues: Vec<Issue>,
    /// The next request that writes is carried out, and answered with 502.
    pub(crate) loses_next_answer: bool,
    /// Requests that came, as `METHOD path`.
    pub(crate) asked: Vec<String>,
}

pub(crate) struct Issue {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    pub(crate) comments: Vec<String>,
}

pub(crate) type Shared = Arc<Mutex<Repository>>;

/// The API's address, with a slash at its end, and the repository `acme/drifts` behind it.
pub(crate) async fn start() -> (String, Shared) {
    let shared = Shared::default();
    let state = Arc::clone(&shared);
    let url = listen(|_| {
        Router::new()
            .route("/api/v3/repos/acme/drifts", get(async || Json(json!({"id": 1}))))
            .route("/api/v3/repos/acme/drifts/issues", get(list).post(open))
            .route(
                "/api/v3/repos/acme/drifts/issues/{number}",
                get(one).patch(change),
            )
            .route(
                "/api/v3/repos/acme/drifts/issues/{number}/comments",
                get(comments).post(comment),
            )
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&state), known))
            .with_state(state)
    })
    .await;
    (format!("{url}/api/v3/"), shared)
}

async fn known(
    State(shared): State<Shared>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    let header = |headers: &HeaderMap, name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let asked = format!("{} {}", request.method(), request.uri().path());
    shared.lock().unwrap().asked.push(asked);
    if header(request.headers(), "authorization") != format!("Bearer {TOKEN}") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    assert!(header(request.headers(), "user-agent").starts_with("mcpindex-server/"));
    assert_eq!(header(request.headers(), "x-github-api-version"), "2022-11-28");
    let writes = request.method() != "GET";
    let answer = next.run(request).await;
    let mut repository = shared.lock().unwrap();
    if writes && repository.loses_next_answer {
        repository.loses_next_answer = false;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    answer
}

fn shown(number: usize, issue: &Issue) -> Value {
    json!({"number": number, "state": issue.state, "body": issue.body, "title": issue.title})
}

async fn list(
    State(shared): State<Shared>,
    Query(query): Query<std::collections::BTreeMap<String, String>>,
) -> Json<Value> {
    assert_eq!(query["state"], "open");
    let repository = shared.lock().unwrap();
    let numbered = repository.issues.iter().enumerate().rev();
    let open: Vec<Value> = numbered
        .filter(|(_, issue)| issue.state == "open")
        .map(|(place, issue)| shown(place + 1, issue))
        .collect();
    let page: usize = query["page"].parse().unwrap();
    let size: usize = query["per_page"].parse().unwrap();
    Json(open.into_iter().skip((page - 1) * size).take(size).collect())
}

async fn open(State(shared): State<Shared>, Json(body): Json<Value>) -> (StatusCode, Json<Value>) {
    let mut repository = shared.lock().unwrap();
    let text = |name: &str| body[name].as_str().unwrap().to_owned();
    let issue = Issue {
        title: text("title"),
        body: text("body"),
        state: "open".to_owned(),
        reason: None,
        comments: Vec::new(),
    };
    repository.issues.push(issue);
    let number = repository.issues.len();
    let shown = shown(number, &repository.issues[number - 1]);
    (StatusCode::CREATED, Json(shown))
}

async fn one(State(shared): State<Shared>, Path(number): Path<usize>) -> Response {
    let repository = shared.lock().unwrap();
    match repository.issues.get(number - 1) {
        Some(issue) => Json(shown(number, issue)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn change(
    State(shared): State<Shared>,
    Path(number): Path<usize>,
    Json(body): Json<Value>,
) -> Json<Value> {
    let mut repository = shared.lock().unwrap();
    let issue = &mut repository.issues[number - 1];
    body["state"].as_str().unwrap().clone_into(&mut issue.state);
    issue.reason = body["state_reason"].as_str().map(str::to_owned);
    Json(shown(number, issue))
}

async fn comments(State(shared): State<Shared>, Path(number): Path<usize>) -> Json<Value> {
    let repository = shared.lock().unwrap();
    let comments = repository.issues[number - 1].comments.iter();
    Json(comments.map(|body| json!({"body": body})).collect())
}

async fn comment(
    State(shared): State<Shared>,
    Path(number): Path<usize>,
    Json(body): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let mut repository = shared.lock().unwrap();
    let text = body["body"].as_str().unwrap().to_owned();
    repository.issues[number - 1].comments.push(text);
    (StatusCode::CREATED, Json(json!({"id": 1})))
}
