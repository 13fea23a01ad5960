//! What the crawl is doing, for dashboards and scripts.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use mcpindex_store::sources::{Coverage, SourceRecord};
use mcpindex_store::targets::Target;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::crawl::{Crawl, Totals};
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State as Standing;
use crate::when::rfc3339;

/// The crawl at one moment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CrawlBody {
    at: Option<String>,
    #[serde(flatten)]
    totals: TotalsBody,
    /// By who asked for the targets: `shell`, `starter`, `list`, `targets`, or the address of a registry.
    sources: Vec<SourceBody>,
    /// By how the last look ended.
    states: Vec<StateBody>,
    registries: Vec<RegistryBody>,
    /// Looks under way, at most 100.
    looks: Vec<TargetBody>,
    /// Those that failed most often in a row, at most 50.
    failures: Vec<TargetBody>,
}

/// Targets, counted.
#[derive(Debug, Serialize, ToSchema)]
struct TotalsBody {
    targets: i64,
    /// Under a look now.
    running: i64,
    /// Due, and waiting for a worker.
    waiting: i64,
    /// Whose last look failed.
    failing: i64,
}

/// The targets of one source.
#[derive(Debug, Serialize, ToSchema)]
struct SourceBody {
    source: String,
    #[serde(flatten)]
    totals: TotalsBody,
}

/// The targets in one state.
#[derive(Debug, Serialize, ToSchema)]
struct StateBody {
    state: &'static str,
    targets: i64,
}

/// A registry that is followed.
#[derive(Debug, Serialize, ToSchema)]
struct RegistryBody {
    address: String,
    every: i64,
    /// Whether it is being read now.
    reading: bool,
    /// When it is due, or until when a reading holds it.
    due: Option<String>,
    /// When it was last read to its end.
    read_at: Option<String>,
    /// When that was tried last.
    tried_at: Option<String>,
    /// Why that failed, in the registry's or our words.
    untrusted_problem: Option<String>,
    /// Failed tries in a row.
    failures: i64,
    /// Entries of the last reading that could not be read.
    skipped: i64,
    coverage: CoverageBody,
}

/// What a registry tells of, by the latest version of each server.
#[derive(Debug, Serialize, ToSchema)]
struct CoverageBody {
    servers: i64,
    deprecated: i64,
    deleted: i64,
    /// Packages and remotes that are looked at.
    targets: i64,
    needs_config: i64,
    needs_container: i64,
    unsupported: i64,
    refused: i64,
}

/// One target.
#[derive(Debug, Serialize, ToSchema)]
struct TargetBody {
    identity: String,
    version: Option<String>,
    source: String,
    /// When it is due again; of a look under way, until when its worker holds it.
    due: Option<String>,
    /// Failed looks in a row.
    failures: i64,
    state: &'static str,
}

impl From<Totals> for TotalsBody {
    fn from(totals: Totals) -> TotalsBody {
        TotalsBody {
            targets: totals.targets,
            running: totals.running,
            waiting: totals.waiting,
            failing: totals.failing,
        }
    }
}

/// What the crawl is doing.
#[utoipa::path(
    get,
    path = "/api/v1/crawl",
    tag = "index",
    responses((status = 200, body = CrawlBody))
)]
pub(crate) async fn crawl(State(app): State<App>, uri: Uri) -> Result<Json<CrawlBody>, Problem> {
    Query::strict(&uri, &[])?;
    let now = app.now();
    let crawl = Crawl::look(&app.store, now).await?;
    let sources = crawl.sources.into_iter().map(|(source, totals)| SourceBody {
        source,
        totals: totals.into(),
    });
    let states = crawl.outcomes.into_iter().map(|(outcome, targets)| StateBody {
        state: Standing(outcome).name(),
        targets,
    });
    Ok(Json(CrawlBody {
        at: rfc3339(now),
        totals: crawl.totals.into(),
        sources: sources.collect(),
        states: states.collect(),
        registries: crawl.registries.iter().map(registry_body).collect(),
        looks: crawl.running.into_iter().map(target_body).collect(),
        failures: crawl.failing.into_iter().map(target_body).collect(),
    }))
}

fn registry_body((source, coverage): &(SourceRecord, Coverage)) -> RegistryBody {
    RegistryBody {
        address: source.address.clone(),
        every: source.every,
        reading: source.is_read,
        due: rfc3339(source.due),
        read_at: source.read_at.and_then(rfc3339),
        tried_at: source.tried_at.and_then(rfc3339),
        untrusted_problem: source.problem.clone(),
        failures: source.failures,
        skipped: source.skipped,
        coverage: CoverageBody {
            servers: coverage.servers,
            deprecated: coverage.deprecated,
            deleted: coverage.deleted,
            targets: coverage.targets,
            needs_config: coverage.needs_config,
            needs_container: coverage.needs_container,
            unsupported: coverage.unsupported,
            refused: coverage.refused,
        },
    }
}

fn target_body(target: Target) -> TargetBody {
    TargetBody {
        identity: target.identity,
        version: target.version,
        source: target.source,
        due: target.due.and_then(rfc3339),
        failures: target.failures,
        state: Standing(target.outcome).name(),
    }
}
