//! A reader without a socket: requests go straight into the router.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use mcpindex::clock::Clock;
use mcpindex_crawler::settings::Every;
use mcpindex_server::access::Access;
use mcpindex_server::app::{App, Crawling};
use mcpindex_server::approvals::Approvals;
use mcpindex_server::config::ApprovalSettings;
use mcpindex_server::login::Login;
use mcpindex_server::registry::Policy;
use mcpindex_server::router::router;
use mcpindex_store::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The time of every test: 30 Nov 2026, 17:04:05 UTC.
pub(crate) const NOW: i64 = 1_796_058_245;

/// The clock of every test.
pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(Stopped)
}

struct Stopped;

impl Clock for Stopped {
    fn unix_seconds(&self) -> i64 {
        NOW
    }
}

pub(crate) fn app(store: Store) -> App {
    App {
        store,
        clock: clock(),
        version: "0.0.0-test",
        crawling: Some(Crawling {
            every: Every {
                package: 86_400,
                remote: 3_600,
            },
        }),
        ingest: None,
        base: "http://127.0.0.1:8080/".parse().unwrap(),
        access: Arc::new(Access::public()),
        login: Arc::new(Login::none()),
        registry: Policy::All,
        approvals: Arc::new(Approvals::new(
            &ApprovalSettings::default(),
            CancellationToken::new(),
        )),
        webhooks: None,
    }
}

pub(crate) struct Client(pub(crate) Store);

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A request with these headers.
pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}

/// The same request as it comes from this address.
pub(crate) fn from(address: IpAddr, mut request: Request<Body>) -> Request<Body> {
    request
        .extensions_mut()
        .insert(ConnectInfo(SocketAddr::new(address, 9)));
    request
}

/// What a router answers.
pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Answer {
        status: parts.status,
        headers: parts.headers,
        bytes: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
    }
}

impl Client {
    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = request(method, path, headers, Body::empty());
        answer(router(app(self.0.clone())), request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[]).await
    }

    /// The page or answer, which must be there.
    pub(crate) async fn ok(&self, path: &str) -> Answer {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text());
        answer
    }

    /// A problem of this status, as JSON.
    pub(crate) async fn problem(&self, path: &str, status: u16) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert_eq!(answer.header("content-type"), "application/problem+json");
        answer.json()
    }
}
