//! What this process counts and times, for Prometheus (`/metrics`).
//!
//! Names and units follow Prometheus' conventions (`_total`, `_seconds`), and every name has its line in [`DESCRIBED`]. Labels are
//! of closed sets: the router's own routes, known methods, classes of statuses, names of tables of ours.
//!
//! Invariant: no label ever holds what a request brought along (a path, a name, an address, a key, a fingerprint), so the
//! number of series is bounded by this program, and they tell nothing of what the index holds.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::{MatchedPath, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use mcpindex::clock::{Clock as _, SystemClock};
use mcpindex_contract::outcome::Outcome;
use mcpindex_store::StoreError;
use metrics::{Counter, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::access::Metrics;
use crate::app::App;
use crate::problem::Problem;

/// Between two tidyings of what was timed since the last one.
const TIDY_EVERY: Duration = Duration::from_secs(5);

/// Bounds of the buckets of times, in seconds: from an answer out of memory to the longest that an answer may take.
const SECONDS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];

#[derive(Clone, Copy)]
enum Sort {
    Counter,
    Gauge,
    Histogram,
}

/// Every name: its sort, and what it says.
const DESCRIBED: [(&str, Sort, &str); 12] = [
    (
        "mcpindex_http_requests_total",
        Sort::Counter,
        "Requests by route, method and class of the answer's status.",
    ),
    (
        "mcpindex_http_request_duration_seconds",
        Sort::Histogram,
        "Time until the head of the answer, by route and method.",
    ),
    (
        "mcpindex_ingest_batches_total",
        Sort::Counter,
        "Batches that installs sent, by kind (signals, receipts) and outcome: acknowledged after their commit, refused, or busy (sent \
         away to come again).",
    ),
    (
        "mcpindex_ingest_items_total",
        Sort::Counter,
        "Signals and receipts that were acknowledged, those told again among them.",
    ),
    (
        "mcpindex_ingest_new_items_total",
        Sort::Counter,
        "Signals and receipts that were told for the first time.",
    ),
    (
        "mcpindex_ingest_waiting_items",
        Sort::Gauge,
        "Signals and receipts that wait for their commit.",
    ),
    (
        "mcpindex_crawl_looks_total",
        Sort::Counter,
        "Looks that this process took at servers, by outcome.",
    ),
    (
        "mcpindex_webhook_attempts_total",
        Sort::Counter,
        "Attempts at deliveries of webhooks, by form and outcome: delivered, failed (and tried again), gave_up.",
    ),
    (
        "mcpindex_webhook_deliveries_under_way",
        Sort::Gauge,
        "Deliveries of webhooks that this process is making.",
    ),
    (
        "mcpindex_store_errors_total",
        Sort::Counter,
        "Calls of the database that failed, by sort of error.",
    ),
    (
        "mcpindex_build_info",
        Sort::Gauge,
        "1, with the version of this program.",
    ),
    (
        "process_start_time_seconds",
        Sort::Gauge,
        "When this process began to count, as unix seconds.",
    ),
];

/// What holds the numbers; made at its first use. `None` where another recorder was set in this process, which then has them.
fn numbers() -> Option<&'static PrometheusHandle> {
    static NUMBERS: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    NUMBERS
        .get_or_init(|| {
            let seconds = Matcher::Suffix("_seconds".to_owned());
            let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS);
            let handle = builder.and_then(PrometheusBuilder::install_recorder);
            let handle = handle.map_err(|error| tracing::error!(%error, "nothing is counted for /metrics"));
            for (name, sort, about) in DESCRIBED {
                match sort {
                    Sort::Counter => metrics::describe_counter!(name, about),
                    Sort::Gauge => metrics::describe_gauge!(name, about),
                    Sort::Histogram => metrics::describe_histogram!(name, about),
                }
            }
            gauge!("mcpindex_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
            // Exact up to 2^53 seconds.
            gauge!("process_start_time_seconds").set(SystemClock.unix_seconds() as f64);
            handle.ok()
        })
        .as_ref()
}

/// Starts counting, and the tidying without which times would pile up where nobody asks for them.
pub(crate) fn start(stop: CancellationToken) -> JoinHandle<()> {
    let numbers = numbers();
    tokio::spawn(async move {
        let Some(numbers) = numbers else { return };
        let mut ticks = tokio::time::interval(TIDY_EVERY);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            numbers.run_upkeep();
        }
    })
}

/// What this process counts and times, as Prometheus reads it.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operation",
    security((), ("key" = [])),
    responses(
        (status = 200, content_type = "text/plain", body = String, description = "Prometheus' text format"),
        (status = 404, description = "Switched off"),
    )
)]
pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    if app.access.rules.metrics == Metrics::Off {
        return Err(Problem::no_page());
    }
    let numbers = numbers().ok_or_else(Problem::no_page)?;
    if let Some(ingest) = &app.ingest {
        waiting("signals", ingest.queue.waiting());
        if let Some(receipts) = &ingest.receipts {
            waiting("receipts", receipts.waiting());
        }
    }
    let headers = [
        (CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"),
        // Never the same twice.
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, numbers.render()).into_response())
}

fn waiting(kind: &'static str, items: usize) {
    let items = u32::try_from(items).unwrap_or(u32::MAX);
    gauge!("mcpindex_ingest_waiting_items", "kind" => kind).set(f64::from(items));
}

/// A request to the route that it matched was answered so, after so long.
pub(crate) fn request(route: Option<&MatchedPath>, method: &Method, status: StatusCode, took: Duration) {
    // Counting begins with the first request, whoever has set this service up.
    numbers();
    // An address that isn't in the table is somebody's own text.
    let route = route.map_or("none", MatchedPath::as_str);
    let ending = (method_name(method), class_name(status));
    let known = REQUESTS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(series) = known.get(route).and_then(|endings| endings.get(&ending)) {
        series.count(took);
        return;
    }
    drop(known);
    let series = RequestSeries::of(route, ending);
    series.count(took);
    let mut known = REQUESTS.write().unwrap_or_else(PoisonError::into_inner);
    known.entry(route.to_owned()).or_default().insert(ending, series);
}

/// The series of requests that were met before, by route, then method and class: to find them costs more than to count.
static REQUESTS: LazyLock<RwLock<HashMap<String, Endings>>> = LazyLock::new(RwLock::default);

type Endings = HashMap<(&'static str, &'static str), RequestSeries>;

struct RequestSeries {
    requests: Counter,
    took: Histogram,
}

impl RequestSeries {
    fn of(route: &str, (method, class): (&'static str, &'static str)) -> RequestSeries {
        let route = route.to_owned();
        RequestSeries {
            requests: counter!(
                "mcpindex_http_requests_total", "route" => route.clone(), "method" => method, "status" => class
            ),
            took: histogram!("mcpindex_http_request_duration_seconds", "route" => route, "method" => method),
        }
    }

    fn count(&self, took: Duration) {
        self.requests.increment(1);
        self.took.record(took.as_secs_f64());
    }
}

fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

fn class_name(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// A batch of this kind ended so.
pub(crate) fn batch(kind: &'static str, status: StatusCode) {
    let outcome = match status {
        StatusCode::NO_CONTENT => "acknowledged",
        StatusCode::SERVICE_UNAVAILABLE => "busy",
        _ => "refused",
    };
    counter!("mcpindex_ingest_batches_total", "kind" => kind, "outcome" => outcome).increment(1);
}

/// So many items of this kind were written, so many of them for the first time.
pub(crate) fn written(kind: &'static str, items: usize, new: u64) {
    let items = u64::try_from(items).unwrap_or(u64::MAX);
    counter!("mcpindex_ingest_items_total", "kind" => kind).increment(items);
    counter!("mcpindex_ingest_new_items_total", "kind" => kind).increment(new);
}

/// A look ended so.
pub(crate) fn look(outcome: Outcome) {
    counter!("mcpindex_crawl_looks_total", "outcome" => outcome.name()).increment(1);
}

/// A call of the database failed.
pub(crate) fn store_error(error: &StoreError) {
    let sort = match error {
        StoreError::Unreachable { .. } => "unreachable",
        StoreError::NotWritable { .. } => "not_writable",
        StoreError::NewerSchema { .. } => "newer_schema",
        StoreError::LeaseLost { .. } => "lease_lost",
        StoreError::SourceTaken { .. } => "source_taken",
        StoreError::Refused { .. } => "refused",
        StoreError::ChainBroken { .. } => "chain_broken",
        StoreError::Corrupt { .. } => "corrupt",
        StoreError::Database(_) => "database",
    };
    counter!("mcpindex_store_errors_total", "error" => sort).increment(1);
}
