//! Every address of the server in one table, and what lies around all of them.
//!
//! Invariant: an address that is not in this table doesn't exist; no handler runs outside these layers.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use tokio::time::timeout;
use tower::util::MapResponseLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate, SizeAbove};
use tower_http::limit::RequestBodyLimitLayer;
use tracing::Instrument as _;

use crate::access::gate::gate;
use crate::access::redaction::shown_path;
use crate::app::App;
use crate::headers::REQUEST_ID;
use crate::login::session::name_host;
use crate::pages::sign_in::may_be_compressed;
use crate::{api, assets, badges, feeds, headers, llms, mcp, measure, openapi, pages, problem};

/// The longest that making one answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The largest request body, in bytes, where a call has no limit of its own.
const MAX_BODY: usize = 64 * 1024;
/// The largest body of decisions, or of what gates ask about, in bytes: 256 decisions, with reasons.
const MAX_DECISIONS: usize = 1024 * 1024;
/// From how many bytes on an answer is compressed; a smaller one is one packet either way.
const MIN_GZIP: u64 = 1_024;

/// The whole server as one service.
pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    let table = Router::new()
        .route("/", get(pages::home::home))
        .route("/servers", get(pages::servers::servers))
        .route("/servers/{identity}", get(pages::server::server))
        .route("/drifts", get(pages::drifts::drifts))
        .route("/drifts/{id}", get(pages::drift::drift))
        .route("/definitions/{digest}", get(pages::definition::definition))
        .route("/definitions/{digest}/text", get(pages::definition::text))
        .route("/vocabulary", get(pages::vocabulary::vocabulary))
        .route("/assets/{file}", get(assets::asset))
        .route("/feeds/drifts.atom", get(feeds::drifts))
        .route("/feeds/servers/{file}", get(feeds::server))
        .route("/feeds/t/{token}/drifts.atom", get(feeds::drifts))
        .route("/feeds/t/{token}/servers/{file}", get(feeds::server))
        .route("/badges/{file}", get(badges::badge))
        .route("/llms.txt", get(llms::llms))
        .route("/api/v1/servers", get(api::servers::servers))
        .route("/api/v1/servers/{identity}", get(api::servers::server))
        .route("/api/v1/servers/{identity}/tools", get(api::servers::tools))
        .route(
            "/api/v1/servers/{identity}/observations",
            get(api::servers::observations),
        )
        .route(
            "/api/v1/servers/{identity}/drifts",
            get(api::drifts::server_drifts),
        )
        .route("/api/v1/drifts", get(api::drifts::drifts))
        .route("/api/v1/drifts/{id}", get(api::drifts::drift))
        .route("/api/v1/definitions/{digest}", get(api::definitions::definition))
        .route(
            "/api/v1/fingerprint-key",
            get(api::fingerprint_key::fingerprint_key),
        )
        .route("/api/v1/search", get(api::search::search))
        .route("/api/v1/ledger", get(api::ledger::ledger))
        .route("/api/v1/crawl", get(api::crawl::crawl))
        .route("/crawl", get(pages::crawl::crawl))
        .route("/api/v1/trust/server/{server_id}", get(api::trust::server))
        .route(
            "/api/v1/trust/tool/{server_id}/{tool_name}",
            get(api::trust::tool),
        )
        .route("/api/v1/vocabulary", get(api::vocabulary::vocabulary))
        .route("/login", get(pages::sign_in::login))
        .route(
            "/auth/{provider}",
            get(pages::sign_in::start).post(pages::sign_in::dev),
        )
        .route("/auth/{provider}/callback", get(pages::sign_in::callback))
        .route("/logout", post(pages::sign_in::logout))
        .route(
            "/cli/login",
            get(pages::consent::cli).post(pages::consent::decide_cli),
        )
        .route(
            "/cli/published",
            get(pages::consent::published).post(pages::consent::decide_published),
        )
        .route("/setup", get(pages::setup::setup).post(pages::setup::claim))
        .route("/device", get(pages::device::device).post(pages::device::enter))
        .route("/device/decision", post(pages::device::decide))
        .route("/account", get(pages::account::account))
        .route(
            "/account/keys",
            get(pages::account::to_account).post(pages::account::create_key),
        )
        .route("/account/keys/{id}/revoke", post(pages::account::revoke_key))
        .route("/account/sessions/end", post(pages::account::end_sessions))
        .route("/account/feed-path", post(pages::account::make_feed_path))
        .route("/account/feed-path/end", post(pages::account::end_feed_path))
        .route(
            "/admin/webhooks",
            get(pages::webhooks::webhooks).post(pages::webhooks::create),
        )
        .route("/admin/webhooks/{id}/test", post(pages::webhooks::test))
        .route("/admin/webhooks/{id}/remove", post(pages::webhooks::remove))
        .route("/api/auth/login/start", get(api::sign_in::published_start))
        .route("/api/v1/cli/token", post(api::sign_in::cli_token))
        .route("/api/v1/device/code", post(api::sign_in::device_code))
        .route("/api/v1/device/token", post(api::sign_in::device_token))
        .route("/api/v1/whoami", get(api::keys::whoami))
        .route("/api/v1/keys", get(api::keys::list).post(api::keys::create))
        .route("/api/v1/keys/report-leak", post(api::keys::report_leak))
        .route("/api/v1/keys/{id}", delete(api::keys::revoke))
        .route("/api/v1/keys/{id}/rotate", post(api::keys::rotate))
        .route(
            "/api/v1/feed-path",
            get(api::feed_path::look)
                .post(api::feed_path::make)
                .delete(api::feed_path::end),
        )
        .route(
            "/v0.1/servers",
            get(api::registry::servers).options(api::registry::preflight),
        )
        .route(
            "/v0.1/servers/{name}/versions",
            get(api::registry::versions).options(api::registry::preflight),
        )
        .route(
            "/v0.1/servers/{name}/versions/{version}",
            get(api::registry::version).options(api::registry::preflight),
        )
        .route("/approvals/undo", post(pages::approvals::undo))
        .route("/approvals/log", get(pages::approvals::log))
        .route("/admin/audit", get(pages::audit::audit))
        .route("/api/v1/approvals/queue", get(api::queue::waiting))
        .route("/api/v1/approvals/undo", post(api::approvals::take_back))
        .route(
            "/api/v1/webhooks",
            get(api::webhooks::list).post(api::webhooks::create),
        )
        .route("/api/v1/webhooks/{id}", delete(api::webhooks::remove))
        .route("/api/v1/webhooks/{id}/test", post(api::webhooks::test))
        .route("/api/v1/webhooks/{id}/deliveries", get(api::webhooks::deliveries))
        .route(
            "/api/v1/webhooks/{id}/deliveries/{delivery}/redeliver",
            post(api::webhooks::redeliver),
        )
        .route("/api/openapi.json", get(openapi::openapi))
        .route("/healthz", get(api::health::healthz))
        .route("/readyz", get(api::health::readyz))
        .route("/metrics", get(measure::metrics))
        .route("/.well-known/mcp-index.json", get(api::signals::index))
        .fallback(pages::error::no_such_address)
        .layer(RequestBodyLimitLayer::new(MAX_BODY));
    // These have limits of their own, and say of what is larger what their askers know.
    let signals = Router::new()
        .route("/mcp", mcp::route(&app))
        .route("/api/v1/check", post(api::check::check))
        .route("/api/v1/drift", post(api::signals::drift))
        .route("/api/v1/receipts", post(api::receipts::receipts))
        .route(
            "/api/v1/drift/register",
            post(api::signals::register).delete(api::signals::revoke),
        )
        .route(
            "/api/v1/drift/any",
            get(api::signals::any).post(api::signals::any_of_many),
        );
    let decisions = Router::new()
        .route(
            "/api/v1/approvals",
            get(api::approvals::since).post(api::approvals::add),
        )
        .route(
            "/approvals",
            get(pages::approvals::queue).post(pages::approvals::decide),
        )
        .route("/api/v1/approvals/requests", post(api::queue::ask))
        .layer(RequestBodyLimitLayer::new(MAX_DECISIONS));
    let table = table.merge(signals).merge(decisions).with_state(Arc::clone(&app));
    within_layers(table, app, ANSWER_TIME)
}

/// Every handler with what lies around it.
fn within_layers(table: Router, app: Arc<App>, answer_time: Duration) -> Router {
    // On the heap from the start: each layer moves the future of what is within it, and this one is large.
    let around = move |request, next| Box::pin(around(Arc::clone(&app), answer_time, request, next));
    let gzip = CompressionLayer::new().gzip(true);
    let worth_it = DefaultPredicate::new()
        .and(SizeAbove::new(MIN_GZIP))
        .and(may_be_compressed);
    let table = table.layer((from_fn(around), gzip.compress_when(worth_it)));
    // Outside of the table, since the table itself says which methods a route has, whatever its layers answer.
    Router::new()
        .fallback_service(table)
        .layer(MapResponseLayer::new(headers::methods_only_where_asked))
}

/// What lies around every handler, in the order in which a request meets it, and then its answer. One function, since each layer
/// of its own costs every request several allocations.
async fn around(app: Arc<App>, answer_time: Duration, mut request: Request, next: Next) -> Response {
    let start = Instant::now();
    name_host(&mut request);
    let id = headers::request_id(&mut request);
    let (uri, method) = (request.uri().clone(), request.method().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let known = request.headers().get(IF_NONE_MATCH).cloned();
    let answered = async {
        let handled = unless_it_panics(gate(&app, request, next));
        let response = match timeout(answer_time, handled).await {
            Ok(response) => response,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        };
        let mut response = problem::render(&app, &uri, &id, response);
        if matches!(method, Method::GET | Method::HEAD) {
            response = headers::validated(known, response).await;
        }
        if uri.path().starts_with(api::registry::ROOT) {
            api::registry::open_to_pages(&mut response);
        }
        headers::secure(&app, &mut response);
        let (status, took) = (response.status(), start.elapsed());
        measure::request(route.as_ref(), &method, status, took);
        if status.is_server_error() {
            tracing::error!(status = status.as_u16(), ?took, "the answer is a failure");
        } else {
            tracing::debug!(status = status.as_u16(), ?took, "answered");
        }
        response
    };
    let mut response = answered.instrument(request_span(&method, &uri, &id)).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// What the log says beside everything that happens during one request. The query is left out: it is the reader's.
fn request_span(method: &Method, uri: &Uri, id: &HeaderValue) -> tracing::Span {
    tracing::info_span!("request", %method, path = shown_path(uri.path()), id = id.to_str().ok())
}

/// The answer, or that of a panic, which the panic hook has logged.
async fn unless_it_panics(handled: impl Future<Output = Response>) -> Response {
    let mut handled = pin!(handled);
    // A handler that panicked is never polled again, and what handlers share holds after a panic as before it.
    poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| handled.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(problem::panicked()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use mcpindex::clock::SystemClock;
    use mcpindex_store::testing::TestStore;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use super::*;
    use crate::access::Access;
    use crate::approvals::Approvals;
    use crate::config::ApprovalSettings;
    use crate::login::Login;
    use crate::registry::Policy;

    /// The answer of one handler within the layers, as JSON.
    async fn answer(path: &str, table: Router) -> (StatusCode, serde_json::Value) {
        let database = TestStore::sqlite().await;
        let app = App {
            store: database.store.clone(),
            clock: Arc::new(SystemClock),
            version: "0.0.0-test",
            crawling: None,
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
        };
        let service = within_layers(table, Arc::new(app), Duration::from_millis(1));
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response: Response = service.oneshot(request).await.unwrap();
        assert!(response.headers().contains_key("content-security-policy"));
        let status = response.status();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_that_tells_nothing_of_its_cause() {
        async fn panics() -> &'static str {
            panic!("a secret")
        }
        let (status, problem) = answer("/api/x", Router::new().route("/api/x", get(panics))).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(problem["type"], "urn:mcpindex:problem:internal");
        assert!(!problem.to_string().contains("secret"), "{problem}");
    }

    #[tokio::test]
    async fn an_answer_that_takes_too_long_is_given_up() {
        let table = Router::new().route("/api/x", get(std::future::pending::<&'static str>));
        let (status, problem) = answer("/api/x", table).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(problem["type"], "urn:mcpindex:problem:unavailable");
    }
}
