//! Servers, what each declares now, and every look that was taken at it.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use mcpindex_contract::digest::NoDigest;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Listing, Member, MemberKind, Surface};
use mcpindex_store::observations::{Artifact, ObservationRecord};
use mcpindex_store::servers::{ServerFilter, ServerRecord, StandingFilter};
use serde::Serialize;
use utoipa::ToSchema;

use super::shapes::StateName;
use super::{Page, digest_kind};
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State as Standing;
use crate::when::rfc3339;

/// The longest description in an answer, in characters; the definition has the whole.
const MAX_DESCRIPTION: usize = 2_000;

/// A server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerBody {
    identity: String,
    short_id: String,
    form: String,
    /// Names in registries that lead here.
    aliases: Vec<String>,
    /// How the last look ended; `pending` before the first.
    state: &'static str,
    sentence: &'static str,
    /// What was odd about the last look, or why it failed; may quote the server.
    untrusted_detail: Option<String>,
    added_at: Option<String>,
    looked_at: Option<String>,
    /// Whether some look has determined what the server declares.
    determined: bool,
    /// The look that says what it declares now.
    observation: Option<i64>,
    version: Option<String>,
    /// Null when that could not be determined.
    tools: Option<i64>,
    drifts: i64,
    links: ServerLinks,
}

/// Where to go on from a server.
#[derive(Debug, Serialize, ToSchema)]
struct ServerLinks {
    api: String,
    page: String,
    tools: String,
    observations: String,
    drifts: String,
}

/// What a server's tools are, as far as that is known.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolsBody {
    identity: String,
    short_id: String,
    /// How the last look ended; `pending` before the first.
    state: &'static str,
    sentence: &'static str,
    /// Whether the list of tools is known: by the last look, or by an earlier one when `from_last_look` is false.
    determined: bool,
    from_last_look: bool,
    /// The look that the list is from.
    observation: Option<ObservationBody>,
    /// `complete`, `not-declared`, `failed`, or null when nothing was determined.
    listing: Option<&'static str>,
    /// Null when they could not be determined; empty only when the server says that it has none.
    tools: Option<Vec<ToolBody>>,
}

/// A tool as declared.
#[derive(Debug, Serialize, ToSchema)]
struct ToolBody {
    name: String,
    digest: String,
    digest_kind: &'static str,
    /// Why there is only a raw digest.
    no_digest: Option<&'static str>,
    definition: String,
    /// With `?include=descriptions` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_title: Option<String>,
    /// With `?include=descriptions` alone; its first 2,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_description: Option<String>,
}

/// One look at a server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ObservationBody {
    id: i64,
    observed_at: Option<String>,
    /// How it ended.
    state: &'static str,
    determined: bool,
    untrusted_detail: Option<String>,
    artifact: Option<ArtifactBody>,
    /// Under which credentials: `local` or `anonymous`.
    context: String,
    surface_digest: Option<String>,
    protocol_version: Option<String>,
    /// JSON text as sent.
    untrusted_server_info: Option<String>,
    /// Null when that could not be determined.
    tools: Option<i64>,
    /// Behind which walls it ran; null where nothing was run here.
    sandbox: Option<String>,
}

/// The package behind a look.
#[derive(Debug, Serialize, ToSchema)]
struct ArtifactBody {
    version: String,
    integrity: Option<String>,
    /// Digest of the resolved set of dependencies.
    dependencies: Option<String>,
    runtime: Option<String>,
    published_at: Option<String>,
}

pub(crate) fn server_body(server: &ServerRecord) -> ServerBody {
    let state = Standing(server.outcome);
    let path = links::server_api(&server.short_id);
    ServerBody {
        identity: server.identity.clone(),
        short_id: server.short_id.clone(),
        form: server.form.clone(),
        aliases: server.aliases.clone(),
        state: state.name(),
        sentence: state.sentence(),
        untrusted_detail: server.detail.clone(),
        added_at: rfc3339(server.added_at),
        looked_at: server.looked_at.and_then(rfc3339),
        determined: server.current_observation.is_some(),
        observation: server.current_observation,
        version: server.current_version.clone(),
        tools: server.tools,
        drifts: server.drifts,
        links: ServerLinks {
            page: links::server_page(&server.short_id),
            tools: format!("{path}/tools"),
            observations: format!("{path}/observations"),
            drifts: format!("{path}/drifts"),
            api: path,
        },
    }
}

fn observation_body(observation: &ObservationRecord) -> ObservationBody {
    let artifact = |artifact: &Artifact| ArtifactBody {
        version: artifact.version.clone(),
        integrity: artifact.integrity.clone(),
        dependencies: artifact.dependencies.clone(),
        runtime: artifact.runtime.clone(),
        published_at: artifact.published_at.and_then(rfc3339),
    };
    ObservationBody {
        id: observation.id,
        observed_at: rfc3339(observation.observed_at),
        state: observation.outcome.name(),
        determined: observation.outcome.has_surface(),
        untrusted_detail: observation.detail.clone(),
        artifact: observation.artifact.as_ref().map(artifact),
        context: observation.context.clone(),
        surface_digest: observation.surface_digest.clone(),
        protocol_version: observation.protocol_version.clone(),
        untrusted_server_info: observation.server_info.clone(),
        tools: observation.tools,
        sandbox: observation.sandbox.clone(),
    }
}

fn tool_body(tool: &Member, with_descriptions: bool) -> ToolBody {
    let definition = &tool.definition;
    let cut = |text: &str| text.chars().take(MAX_DESCRIPTION).collect();
    let digest = definition.digest();
    ToolBody {
        name: tool.name.clone(),
        digest: digest.to_string(),
        digest_kind: digest_kind(&digest),
        no_digest: definition.no_digest().map(NoDigest::name),
        definition: links::definition_api(&digest),
        untrusted_title: definition.title().filter(|_| with_descriptions).map(cut),
        untrusted_description: definition.description().filter(|_| with_descriptions).map(cut),
    }
}

/// The list of tools of a surface, and what became of that list.
fn listed_tools(surface: &Surface, with_descriptions: bool) -> (&'static str, Option<Vec<ToolBody>>) {
    let tools = || {
        let tools = surface.members_of(MemberKind::Tool);
        Some(tools.map(|tool| tool_body(tool, with_descriptions)).collect())
    };
    match surface.listing(MemberKind::Tool) {
        Listing::Complete => ("complete", tools()),
        Listing::NotDeclared => ("not-declared", tools()),
        Listing::Failed { .. } => ("failed", None),
    }
}

/// The servers of this index, by identity.
#[utoipa::path(
    get,
    path = "/api/v1/servers",
    tag = "index",
    params(
        ("search" = Option<String>, Query, max_length = 200, description = "A part of an identity or of a name in a registry; `/api/v1/search` finds by words, of tools too"),
        ("state" = Option<StateName>, Query, description = "How the last look ended: one of `states` at `/api/v1/vocabulary`, or `pending`"),
        ("after" = Option<String>, Query, description = "The last identity of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "Servers on a page; 100"),
    ),
    responses((status = 200, body = Page<ServerBody>))
)]
pub(crate) async fn servers(State(app): State<App>, uri: Uri) -> Result<Json<Page<ServerBody>>, Problem> {
    let query = Query::strict(&uri, &["search", "state", "after", "limit"])?;
    let limit = query.limit()?;
    let state = query.state()?;
    let filter = ServerFilter {
        search: query.line("search")?,
        standing: state.map_or(StandingFilter::Any, Standing::filter),
        after: query.identity("after")?,
        limit: limit + 1,
    };
    let rows = app.store.servers(&filter).await?;
    let next = |last: &ServerRecord| {
        let parameters = [
            ("search", filter.search.clone()),
            ("state", state.map(|state| state.name().to_owned())),
            ("after", Some(last.identity.clone())),
            ("limit", Some(limit.to_string())),
        ];
        links::with_query("/api/v1/servers", &parameters)
    };
    Ok(Json(Page::cut(rows, limit, next, server_body)))
}

/// One server: how it stands and what it declares now.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{identity}",
    tag = "index",
    params(
        ("identity" = String, Path, description = "Its identity, its short id, or its name in a registry"),
    ),
    responses((status = 200, body = ServerBody), (status = 404, description = "No such server"))
)]
pub(crate) async fn server(
    State(app): State<App>,
    Path(reference): Path<String>,
    uri: Uri,
) -> Result<Json<ServerBody>, Problem> {
    Query::strict(&uri, &[])?;
    Ok(Json(server_body(&app.server(&reference).await?)))
}

/// The tools that a server declares, as far as that is known.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{identity}/tools",
    tag = "index",
    params(
        ("identity" = String, Path, description = "Its identity, its short id, or its name in a registry"),
        ("include" = Option<String>, Query, pattern = "^descriptions$", description = "`descriptions`: titles and descriptions too"),
    ),
    responses((status = 200, body = ToolsBody), (status = 404, description = "No such server"))
)]
pub(crate) async fn tools(
    State(app): State<App>,
    Path(reference): Path<String>,
    uri: Uri,
) -> Result<Json<ToolsBody>, Problem> {
    let query = Query::strict(&uri, &["include"])?;
    let with_descriptions = query.includes("descriptions")?;
    let server = app.server(&reference).await?;
    let state = Standing(server.outcome);
    let mut body = ToolsBody {
        identity: server.identity,
        short_id: server.short_id,
        state: state.name(),
        sentence: state.sentence(),
        determined: false,
        from_last_look: server.outcome.is_some_and(Outcome::has_surface),
        observation: None,
        listing: None,
        tools: None,
    };
    if let Some(id) = server.current_observation {
        let observation = app.store.observation(id).await?;
        body.observation = observation.as_ref().map(observation_body);
        if let Some(surface) = app.store.surface(id).await? {
            let (listing, tools) = listed_tools(&surface, with_descriptions);
            body.listing = Some(listing);
            body.determined = tools.is_some();
            body.tools = tools;
        }
    }
    Ok(Json(body))
}

/// Every look that was taken at a server, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/servers/{identity}/observations",
    tag = "index",
    params(
        ("identity" = String, Path, description = "Its identity, its short id, or its name in a registry"),
        ("before" = Option<i64>, Query, minimum = 1, description = "The last look of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "Looks on a page; 100"),
    ),
    responses((status = 200, body = Page<ObservationBody>), (status = 404, description = "No such server"))
)]
pub(crate) async fn observations(
    State(app): State<App>,
    Path(reference): Path<String>,
    uri: Uri,
) -> Result<Json<Page<ObservationBody>>, Problem> {
    let query = Query::strict(&uri, &["before", "limit"])?;
    let limit = query.limit()?;
    let before = query.before("before")?;
    let server = app.server(&reference).await?;
    let rows = app
        .store
        .observations(&server.identity, before, limit + 1)
        .await?;
    let next = |last: &ObservationRecord| {
        let path = format!("{}/observations", links::server_api(&server.short_id));
        let parameters = [
            ("before", Some(last.id.to_string())),
            ("limit", Some(limit.to_string())),
        ];
        links::with_query(&path, &parameters)
    };
    Ok(Json(Page::cut(rows, limit, next, observation_body)))
}
