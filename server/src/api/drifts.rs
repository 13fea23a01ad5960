//! Drifts: what changed, at which server, between which two looks.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use mcpindex_contract::change::{Change, Subject};
use mcpindex_store::drifts::DriftRecord;
use serde::Serialize;
use utoipa::ToSchema;

use super::Page;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::when::rfc3339;

/// A drift in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DriftBody {
    id: i64,
    identity: String,
    short_id: String,
    before: SideBody,
    after: SideBody,
    /// What differs beside the contract: `version`, `dependencies`, `unexplained` or `unknown`.
    cause: String,
    found_at: Option<String>,
    /// How many changes of each kind, most first.
    kinds: Vec<KindCountBody>,
    safety_relevant: bool,
    /// Whether finer drifts between the same two sides have taken its place in lists.
    replaced: bool,
    links: DriftLinks,
}

/// One side of a drift.
#[derive(Debug, Serialize, ToSchema)]
struct SideBody {
    observation: i64,
    version: Option<String>,
    observed_at: Option<String>,
    /// When the version was published, as the package client tells it; known for the side after at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_at: Option<String>,
}

/// A kind of change, and how often.
#[derive(Debug, Serialize, ToSchema)]
struct KindCountBody {
    kind: String,
    count: i64,
}

/// Where to go on from a drift.
#[derive(Debug, Serialize, ToSchema)]
struct DriftLinks {
    api: String,
    page: String,
    server: String,
}

/// A drift with its changes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DriftDetailBody {
    #[serde(flatten)]
    drift: DriftBody,
    changes: Vec<ChangeBody>,
}

/// One change between two surfaces.
#[derive(Debug, Serialize, ToSchema)]
struct ChangeBody {
    kind: &'static str,
    direction: &'static str,
    safety_relevant: bool,
    sentence: &'static str,
    subject: SubjectBody,
    /// RFC 6901, into the definition.
    pointer: String,
    before_digest: Option<String>,
    after_digest: Option<String>,
    /// Cut after 64 KiB, with `…` at the end; the definition of the digest has the whole.
    untrusted_before: Option<String>,
    untrusted_after: Option<String>,
    /// JSON: arguments that were accepted before and are refused now, or a result that was not allowed before and is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_witness: Option<String>,
    /// The rule that decided, where there is no witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

/// What changed.
#[derive(Debug, Serialize, ToSchema)]
struct SubjectBody {
    /// `server`, `instructions`, `tool`, `prompt`, `resource` or `resource-template`.
    kind: &'static str,
    name: Option<String>,
}

pub(crate) fn drift_body(drift: &DriftRecord) -> DriftBody {
    DriftBody {
        id: drift.id,
        identity: drift.identity.clone(),
        short_id: drift.short_id.clone(),
        before: SideBody {
            observation: drift.before_observation,
            version: drift.before_version.clone(),
            observed_at: rfc3339(drift.before_observed_at),
            published_at: None,
        },
        after: SideBody {
            observation: drift.after_observation,
            version: drift.after_version.clone(),
            observed_at: rfc3339(drift.after_observed_at),
            published_at: drift.after_published_at.and_then(rfc3339),
        },
        cause: drift.cause.clone(),
        found_at: rfc3339(drift.found_at),
        kinds: drift
            .kinds
            .iter()
            .map(|(kind, count)| KindCountBody {
                kind: kind.clone(),
                count: *count,
            })
            .collect(),
        safety_relevant: drift.safety_relevant,
        replaced: drift.replaced,
        links: DriftLinks {
            api: links::drift_api(drift.id),
            page: links::drift_page(drift.id),
            server: links::server_api(&drift.short_id),
        },
    }
}

fn change_body(change: &Change) -> ChangeBody {
    let subject = match &change.subject {
        Subject::Server => SubjectBody {
            kind: "server",
            name: None,
        },
        Subject::Instructions => SubjectBody {
            kind: "instructions",
            name: None,
        },
        Subject::Member(kind, name) => SubjectBody {
            kind: kind.name(),
            name: Some(name.clone()),
        },
    };
    ChangeBody {
        kind: change.kind.name(),
        direction: change.kind.direction().name(),
        safety_relevant: change.kind.safety_relevant(),
        sentence: change.kind.sentence(),
        subject,
        pointer: change.pointer.clone(),
        before_digest: change.before_digest.map(|digest| digest.to_string()),
        after_digest: change.after_digest.map(|digest| digest.to_string()),
        untrusted_before: change.before.clone(),
        untrusted_after: change.after.clone(),
        untrusted_witness: change.witness.clone(),
        rule: change.rule.clone(),
    }
}

/// The drift of a number as written in a path.
pub(crate) async fn find(app: &App, id: &str) -> Result<(DriftRecord, Vec<Change>), Problem> {
    let unknown = || {
        let shown: String = id.chars().take(40).collect();
        Problem::unknown(
            "unknown-drift",
            "No such drift",
            format!("no drift has the number `{shown}`; `/api/v1/drifts` lists them"),
        )
    };
    let number: i64 = id.parse().map_err(|_| unknown())?;
    app.store.drift(number).await?.ok_or_else(unknown)
}

/// The latest drifts of all servers, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/drifts",
    tag = "index",
    params(
        ("before" = Option<i64>, Query, minimum = 1, description = "The last drift of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "Drifts on a page; 100"),
    ),
    responses((status = 200, body = Page<DriftBody>))
)]
pub(crate) async fn drifts(State(app): State<App>, uri: Uri) -> Result<Json<Page<DriftBody>>, Problem> {
    list(&app, &uri, None, "/api/v1/drifts").await
}

/// The drifts of one server, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{identity}/drifts",
    tag = "index",
    params(
        ("identity" = String, Path, description = "Its identity, its short id, or its name in a registry"),
        ("before" = Option<i64>, Query, minimum = 1, description = "The last drift of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "Drifts on a page; 100"),
    ),
    responses((status = 200, body = Page<DriftBody>), (status = 404, description = "No such server"))
)]
pub(crate) async fn server_drifts(
    State(app): State<App>,
    Path(reference): Path<String>,
    uri: Uri,
) -> Result<Json<Page<DriftBody>>, Problem> {
    let server = app.server(&reference).await?;
    let path = format!("{}/drifts", links::server_api(&server.short_id));
    list(&app, &uri, Some(&server.identity), &path).await
}

async fn list(
    app: &App,
    uri: &Uri,
    identity: Option<&str>,
    path: &str,
) -> Result<Json<Page<DriftBody>>, Problem> {
    let query = Query::strict(uri, &["before", "limit"])?;
    let limit = query.limit()?;
    let rows = app
        .store
        .drifts(identity, query.before("before")?, limit + 1)
        .await?;
    let next = |last: &DriftRecord| {
        let parameters = [
            ("before", Some(last.id.to_string())),
            ("limit", Some(limit.to_string())),
        ];
        links::with_query(path, &parameters)
    };
    Ok(Json(Page::cut(rows, limit, next, drift_body)))
}

/// One drift with its changes.
#[utoipa::path(
    get,
    path = "/api/v1/drifts/{id}",
    tag = "index",
    params(("id" = i64, Path, description = "Its number")),
    responses((status = 200, body = DriftDetailBody), (status = 404, description = "No such drift"))
)]
pub(crate) async fn drift(
    State(app): State<App>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<DriftDetailBody>, Problem> {
    Query::strict(&uri, &[])?;
    let (drift, changes) = find(&app, &id).await?;
    Ok(Json(DriftDetailBody {
        drift: drift_body(&drift),
        changes: changes.iter().map(change_body).collect(),
    }))
}
