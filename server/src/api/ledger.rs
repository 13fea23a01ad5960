//! What drifted lately, in the published shape with our own vocabulary beside it.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use mcpindex_contract::signal::FingerprintKey;
use mcpindex_store::ledger::LedgerEntry;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::ingest::fleet::published;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::when::rfc3339;

/// The published name of the shape; members of ours stand beside its own.
const SCHEMA: &str = "mcpindex.drift.ledger/2";
/// What it is and is not.
const FRAMING: &str = "What the crawl of this index saw servers change in what they declare. A drift is a fact about declarations; \
                       it says nothing about intent, and no drift nothing about safety.";
/// Published kinds of one event.
const MAX_KINDS: usize = 24;

/// The ledger.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LedgerBody {
    schema: &'static str,
    /// When the newest drift in it was found: it says the same until there is another.
    generated_at: Option<String>,
    framing: &'static str,
    stat: StatBody,
    /// Tools, the latest first.
    events: Vec<EventBody>,
    /// What stands around the tools: instructions, prompts, resources.
    context_events: Vec<EventBody>,
}

/// How much there is in all.
#[derive(Debug, Serialize, ToSchema)]
struct StatBody {
    tools_observed_drifting: i64,
    total_contract_drifts_observed: i64,
    servers: i64,
    safety_relevant: i64,
}

/// What one drift did to one tool, or around the tools.
#[derive(Debug, Serialize, ToSchema)]
struct EventBody {
    /// Under the public constant; tools alone have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_fp: Option<String>,
    server_fp: String,
    /// Who saw it: the crawl.
    sources: u64,
    safety_relevant: bool,
    last_seen: Option<String>,
    /// Names of the published vocabulary.
    change_kinds: Vec<String>,
    identity: String,
    short_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// Names of this index's vocabulary.
    kinds: Vec<&'static str>,
    drift: i64,
    page: String,
}

/// What drifted lately.
#[utoipa::path(
    get,
    path = "/api/v1/ledger",
    tag = "index",
    responses((status = 200, body = LedgerBody))
)]
pub(crate) async fn ledger(State(app): State<App>, uri: Uri) -> Result<Json<LedgerBody>, Problem> {
    Query::strict(&uri, &[])?;
    let ledger = app.store.ledger().await?;
    let totals = ledger.totals;
    let generated_at = ledger.entries.iter().map(|entry| entry.found_at).max();
    let (tools, around): (Vec<_>, Vec<_>) = ledger.entries.iter().partition(|entry| entry.tool.is_some());
    Ok(Json(LedgerBody {
        schema: SCHEMA,
        generated_at: generated_at.and_then(rfc3339),
        framing: FRAMING,
        stat: StatBody {
            tools_observed_drifting: totals.tools,
            total_contract_drifts_observed: totals.drifts,
            servers: totals.servers,
            safety_relevant: totals.safety_relevant,
        },
        events: tools.into_iter().map(event_body).collect(),
        context_events: around.into_iter().map(event_body).collect(),
    }))
}

fn event_body(entry: &LedgerEntry) -> EventBody {
    let key = FingerprintKey::public();
    let tool_fp = entry
        .tool
        .as_ref()
        .map(|tool| key.tool(&entry.identity, tool).to_string());
    let mut change_kinds = published(entry.kinds.iter().map(|kind| kind.name()));
    change_kinds.truncate(MAX_KINDS);
    EventBody {
        tool_fp,
        server_fp: key.server(&entry.identity).to_string(),
        sources: 1,
        safety_relevant: entry.kinds.iter().any(|kind| kind.safety_relevant()),
        last_seen: rfc3339(entry.found_at),
        change_kinds,
        identity: entry.identity.clone(),
        short_id: entry.short_id.clone(),
        tool: entry.tool.clone(),
        kinds: entry.kinds.iter().map(|kind| kind.name()).collect(),
        drift: entry.drift,
        page: links::drift_page(entry.drift),
    }
}
