//! A small index on loopback that says its chain of decisions as the real one does, or as a test wants it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use mcpindex::index::key::with_checksum;
use mcpindex::index::{Base, Chosen};
use mcpindex_contract::approval::{Decision, Head, Record};
use mcpindex_contract::digest::Digest;
use secrecy::SecretString;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use url::form_urlencoded;

use super::chain::Chain;
use crate::proxy::until;

/// What it says.
#[derive(Debug, Clone, Default)]
pub(super) struct Says {
    pub(super) chain: Chain,
    /// Another head than the chain's.
    pub(super) head: Option<Head>,
    /// A status in place of every answer.
    pub(super) failing: Option<u16>,
    /// Whether it knows nothing of waiting.
    pub(super) is_hasty: bool,
    /// Records of one answer at most.
    pub(super) page: Option<usize>,
}

/// See the module.
pub(super) struct Index {
    pub(super) base: Base,
    says: watch::Sender<Says>,
    asked: Arc<Mutex<Vec<String>>>,
    submitted: Arc<Mutex<Vec<Value>>>,
}

#[derive(Clone)]
struct Shared {
    says: watch::Receiver<Says>,
    asked: Arc<Mutex<Vec<String>>>,
    submitted: Arc<Mutex<Vec<Value>>>,
}

pub(super) fn key() -> String {
    with_checksum("mcpk_OrganisationOrganisationOrgani".to_owned())
}

impl Index {
    pub(super) async fn start() -> Index {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = Base::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let (says, heard) = watch::channel(Says::default());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let submitted: Arc<Mutex<Vec<Value>>> = Arc::default();
        let shared = Shared {
            says: heard,
            asked: Arc::clone(&asked),
            submitted: Arc::clone(&submitted),
        };
        let router = Router::new().fallback(answer).with_state(shared);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Index {
            base,
            says,
            asked,
            submitted,
        }
    }

    pub(super) fn chosen(&self) -> Chosen {
        Chosen {
            base: self.base.clone(),
            key: Some(SecretString::from(key())),
        }
    }

    /// Changes what it says.
    pub(super) fn now(&self, change: impl FnOnce(&mut Says)) {
        self.says.send_modify(change);
    }

    pub(super) fn decide(&self, identity: &str, tool: &str, digest: Digest, decision: Decision) {
        self.now(|says| says.chain.decide(identity, tool, digest, decision));
    }

    /// Every question, in that order.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Every body that was submitted to its queue.
    pub(super) fn submitted(&self) -> Vec<Value> {
        self.submitted.lock().unwrap().clone()
    }

    /// Waits until there was one question more than there are now.
    pub(super) async fn until_asked_again(&self) {
        let before = self.asked().len();
        until("another question", || self.asked().len() > before).await;
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let Shared {
        mut says,
        asked,
        submitted,
    } = shared;
    let query = request.uri().query().unwrap_or_default().to_owned();
    asked
        .lock()
        .unwrap()
        .push(format!("{} {}", request.method(), request.uri()));
    let is_ours = request
        .headers()
        .get("authorization")
        .map(|value| value.to_str().unwrap())
        == Some(&format!("Bearer {}", key()));
    if !is_ours {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if request.method() == Method::POST {
        if let Some(status) = says.borrow().failing {
            return StatusCode::from_u16(status).unwrap().into_response();
        }
        let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let many = body["requests"].as_array().unwrap().len();
        submitted.lock().unwrap().push(body);
        let taken = format!(r#"{{"requests":{many},"queue":"https://index.example/approvals"}}"#);
        return (StatusCode::ACCEPTED, taken).into_response();
    }
    let number = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find_map(|(key, value)| (key == name).then(|| value.parse::<usize>().unwrap()))
    };
    let since = number("since").unwrap_or(0);
    let now = says.borrow().clone();
    if let Some(wait) = number("wait") {
        if now.is_hasty {
            return StatusCode::BAD_REQUEST.into_response();
        }
        let is_news =
            |says: &Says| says.chain.records.len() > since || says.failing.is_some() || says.head.is_some();
        // In vain: nothing came.
        let wait = Duration::from_secs(wait.try_into().unwrap());
        let _ = timeout(wait, says.wait_for(is_news)).await;
    }
    let now = says.borrow().clone();
    if let Some(status) = now.failing {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    page(&now, since, number("limit").unwrap()).into_response()
}

fn page(says: &Says, since: usize, limit: usize) -> String {
    let limit = says.page.map_or(limit, |page| page.min(limit));
    let all = &says.chain.records;
    let texts: Vec<String> = all.iter().skip(since).take(limit).map(Record::text).collect();
    let head = says.head.unwrap_or(says.chain.head());
    let more = since + texts.len() < all.len() && !texts.is_empty();
    format!(
        r#"{{"head":{{"sequence":{},"hash":"{}"}},"records":[{}],"next":{more}}}"#,
        head.sequence,
        head.hash,
        texts.join(",")
    )
}
