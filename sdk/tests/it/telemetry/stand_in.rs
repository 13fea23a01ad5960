//! A small index on loopback that answers as a test says, and remembers what it was asked.
//!
//! Invariant: what it was told is read by the same strict reader that the real index has.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use mcpindex::index::Base;
use mcpindex_contract::signal::{self, Signal};
use tokio::net::TcpListener;

use crate::proxy::until;

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// `POST /api/v1/drift`
    pub(super) what: String,
    /// `Bearer …`, or nothing.
    pub(super) authorization: String,
    /// The install's token, where it has a header of its own.
    pub(super) token: String,
    pub(super) body: String,
}

/// A status and a body.
pub(super) type Said = (u16, String);

type Answers = Arc<dyn Fn(&Asked, usize) -> Option<Said> + Send + Sync>;

/// See the module.
pub(super) struct Index {
    pub(super) base: Base,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Index {
    /// Answers by `answers`, which gets each request and how many of the same it was before; where that has no answer, as an
    /// index that takes signals of both versions, gives tokens, and knows of nothing.
    pub(super) async fn start(
        answers: impl Fn(&Asked, usize) -> Option<Said> + Send + Sync + 'static,
    ) -> Index {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = Base::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (remembered, answers): (_, Answers) = (Arc::clone(&asked), Arc::new(answers));
        let router = axum::Router::new().fallback(move |request: Request<Body>| {
            let (asked, answers) = (Arc::clone(&remembered), Arc::clone(&answers));
            async move { answer(request, &asked, &answers).await }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Index { base, asked }
    }

    /// One that takes everything.
    pub(super) async fn willing() -> Index {
        Index::start(|_, _| None).await
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// What it was asked, in that order.
    pub(super) fn questions(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.what).collect()
    }

    /// Every body that came to `POST` this path.
    pub(super) fn bodies(&self, path: &str) -> Vec<String> {
        let posted = format!("POST {path}");
        let asked = self.asked().into_iter();
        asked
            .filter(|asked| asked.what == posted)
            .map(|asked| asked.body)
            .collect()
    }

    /// Every signal that came, taken or not.
    pub(super) fn signals(&self) -> Vec<Signal> {
        let bodies = self.bodies("/api/v1/drift");
        bodies.iter().flat_map(|body| read(body)).collect()
    }

    /// Waits until this was asked so many times.
    pub(super) async fn until_asked(&self, what: &str, times: usize) {
        until(what, || {
            let questions = self.questions();
            questions.iter().filter(|asked| *asked == what).count() >= times
        })
        .await;
    }
}

/// Signals as the real index reads them, at the hour that they say.
pub(super) fn read(body: &str) -> Vec<Signal> {
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    let hour = value["signals"][0]["at_hour"].as_str().unwrap();
    let now = signal::hour_from_text(hour).unwrap();
    signal::read(body.as_bytes(), now).unwrap()
}

async fn answer(request: Request<Body>, asked: &Mutex<Vec<Asked>>, answers: &Answers) -> Response {
    let what = format!("{} {}", request.method(), request.uri());
    let header = |name: &str| {
        let value = request.headers().get(name);
        value.map_or("", |value| value.to_str().unwrap()).to_owned()
    };
    let [authorization, token] = ["authorization", "mcpindex-install-token"].map(header);
    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let request = Asked {
        what,
        authorization,
        token,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    let before = {
        let mut asked = asked.lock().unwrap();
        let before = asked.iter().filter(|before| before.what == request.what).count();
        asked.push(request.clone());
        before
    };
    let (status, body) = answers(&request, before).unwrap_or_else(|| usual(&request));
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn usual(asked: &Asked) -> Said {
    let found = |body: &str| (200, body.to_owned());
    match asked.what.as_str() {
        "GET /.well-known/mcp-index.json" => found(r#"{"signals":{"versions":[1,2]}}"#),
        "POST /api/v1/drift" => (204, String::new()),
        "POST /api/v1/drift/register" => {
            let install: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
            let install = &install["install_id"];
            found(&format!(
                r#"{{"install_id":{install},"install_token":"{}"}}"#,
                "ab".repeat(32)
            ))
        }
        "POST /api/v1/drift/any" => found(r#"{"results":{}}"#),
        _ => (404, r#"{"error":"not_found"}"#.to_owned()),
    }
}
