//! Verdicts on one tool or server in the published shape, for connectors of agent frameworks.
//!
//! Invariant: an answer is always 200 with a verdict, and the verdict is that of `crate::vetting` under another name: `ALLOW` is ready,
//! `DENY` was refused, `REVIEW` needs a person otherwise, `UNVERIFIED` is all else.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mcpindex::check::Answer;
use mcpindex_contract::approval::State as Standing;
use mcpindex_store::sightings::{Question, Reference, Sightings};
use serde::Serialize;
use utoipa::ToSchema;

use super::check;
use crate::app::App;
use crate::problem::{AsPublished, Problem};
use crate::vetting::{Approval, Evidence, STALE_AFTER, Vetting};
use crate::when::rfc3339;

/// The longest part of a path, in characters, as published.
const MAX_PART: usize = 256;
/// The published contract of these verdicts.
const VERSION: &str = "1.0.0";
/// What every verdict is limited by: the published names, and two of ours.
const LIMITS: [&str; 4] = [
    "conformance_monitored_not_enforced",
    "calibrated_false_v1",
    "advisory_deployment",
    "declared_contract_only",
];
/// Beside them where nobody decided about what was asked.
const NO_APPROVAL: &str = "approval_unknown";
/// Beside them where nothing is known.
const NO_VERDICT: &str = "no_verdict_data_in_v1_advisory";

/// A verdict.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TrustBody {
    subject: SubjectBody,
    /// `EVALUATED`, `PARTIAL`, `STALE` or `ERROR`.
    status: &'static str,
    /// `ALLOW`, `REVIEW` or `UNVERIFIED`; `DENY` for what the organisation refused.
    directive: &'static str,
    /// `tool` or `server`; null where nothing is known.
    granularity: Option<&'static str>,
    dimensions: Vec<DimensionBody>,
    expires_at: Option<String>,
    honest_limits: Vec<&'static str>,
    verdict_contract_version: &'static str,
}

/// What was asked about, as it was asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TrustSubject)]
struct SubjectBody {
    server_id: String,
    tool_name: Option<String>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize, ToSchema)]
struct DimensionBody {
    id: &'static str,
    /// `PASS`, `FAIL` or `UNVERIFIED`.
    verdict: &'static str,
    /// `INFO`, `MEDIUM` or `HIGH`.
    severity: &'static str,
}

/// The published error.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TrustRefusalBody {
    error: &'static str,
}

/// A verdict on one tool.
#[utoipa::path(
    get,
    path = "/api/v1/trust/tool/{server_id}/{tool_name}",
    tag = "index",
    params(
        ("server_id" = String, Path, description = "Its identity, its short id, or its name in a registry"),
        ("tool_name" = String, Path, description = "The tool's name"),
    ),
    responses(
        (status = 200, body = TrustBody),
        (status = 400, body = TrustRefusalBody, description = "A part of the path is empty, or longer than 256 characters"),
    )
)]
pub(crate) async fn tool(
    State(app): State<App>,
    Path((server, tool)): Path<(String, String)>,
) -> Result<Response, Problem> {
    answer(&app, &server, Some(&tool)).await
}

/// A verdict on one server.
#[utoipa::path(
    get,
    path = "/api/v1/trust/server/{server_id}",
    tag = "index",
    params(("server_id" = String, Path, description = "Its identity, its short id, or its name in a registry")),
    responses(
        (status = 200, body = TrustBody),
        (status = 400, body = TrustRefusalBody, description = "The part of the path is empty, or longer than 256 characters"),
    )
)]
pub(crate) async fn server(State(app): State<App>, Path(server): Path<String>) -> Result<Response, Problem> {
    answer(&app, &server, None).await
}

async fn answer(app: &App, server: &str, tool: Option<&str>) -> Result<Response, Problem> {
    let (server, tool) = (part(server), tool.map(part));
    let (Some(server), Ok(tool)) = (server, tool.map_or(Ok(None), |tool| tool.map(Some).ok_or(()))) else {
        let body = Json(TrustRefusalBody {
            error: "invalid path parameters",
        });
        let mut response = (StatusCode::BAD_REQUEST, body).into_response();
        response.extensions_mut().insert(AsPublished);
        return Ok(response);
    };
    let question = Question {
        server: Reference::Name(server.to_owned()),
        tool: tool.map(|tool| Reference::Name(tool.to_owned())),
        digest: None,
        hash: None,
    };
    let answers = check::answers(app, std::slice::from_ref(&question)).await?;
    let subject = SubjectBody {
        server_id: server.to_owned(),
        tool_name: tool.map(str::to_owned),
    };
    let body = match answers.first() {
        Some(known) => trust_body(subject, &known.0, &known.1),
        None => return Err(Problem::internal(&"a question without an answer")),
    };
    // Asked for again each time: what was fine a minute ago may not be any more, and members' reads are nobody else's.
    Ok(Json(body).into_response())
}

/// A part of the path, trimmed, if it can name anything.
fn part(text: &str) -> Option<&str> {
    let text = text.trim();
    let fits = !text.is_empty() && text.chars().count() <= MAX_PART && !text.contains('\0');
    fits.then_some(text)
}

fn trust_body(subject: SubjectBody, found: &Sightings, vetting: &Vetting) -> TrustBody {
    let of_tool = subject.tool_name.is_some();
    let is_known = !of_tool || !found.declared.is_empty();
    let evidence = if is_known {
        vetting.evidence
    } else {
        Evidence::None
    };
    let known = found.server.as_ref().filter(|_| evidence != Evidence::None);
    let status = match evidence {
        Evidence::None => "ERROR",
        Evidence::Old => "STALE",
        Evidence::Part => "PARTIAL",
        Evidence::Whole => "EVALUATED",
    };
    let directive = match vetting.verdict {
        _ if vetting.approval == Approval::Decided(Standing::Refused) => "DENY",
        Answer::NeedsPerson => "REVIEW",
        Answer::Ready => "ALLOW",
        Answer::Unknown | Answer::NoSuch | Answer::TryLater => "UNVERIFIED",
    };
    let expires_at = known
        .and_then(|server| server.determined_at)
        .and_then(|determined_at| rfc3339(determined_at + STALE_AFTER));
    let limits = LIMITS
        .into_iter()
        .chain(matches!(vetting.approval, Approval::Unknown | Approval::None).then_some(NO_APPROVAL))
        .chain((evidence == Evidence::None).then_some(NO_VERDICT));
    TrustBody {
        granularity: known.map(|_| if of_tool { "tool" } else { "server" }),
        dimensions: match known {
            Some(_) => dimensions(found, vetting, of_tool),
            None => Vec::new(),
        },
        subject,
        status,
        directive,
        expires_at,
        honest_limits: limits.collect(),
        verdict_contract_version: VERSION,
    }
}

fn dimensions(found: &Sightings, vetting: &Vetting, of_tool: bool) -> Vec<DimensionBody> {
    let dimension = |id, verdict, severity| DimensionBody {
        id,
        verdict,
        severity,
    };
    let observed = match vetting.evidence {
        _ if vetting.has("removed") || vetting.has("gone") => {
            dimension("mcpindex.observation", "FAIL", "MEDIUM")
        }
        Evidence::Whole => dimension("mcpindex.observation", "PASS", "INFO"),
        _ => dimension("mcpindex.observation", "UNVERIFIED", "INFO"),
    };
    let is_read = match of_tool {
        true => found.definition.is_some(),
        false => vetting.has("tools-declared"),
    };
    let is_wrong = ["marker", "no-digest", "duplicate-name"].map(|code| vetting.has(code));
    let integrity = match (is_wrong.contains(&true), is_read) {
        (true, _) => dimension("mcpindex.integrity.definition", "FAIL", "HIGH"),
        (false, true) => dimension("mcpindex.integrity.definition", "PASS", "INFO"),
        (false, false) => dimension("mcpindex.integrity.definition", "UNVERIFIED", "INFO"),
    };
    let stability = match (vetting.has("changed-lately"), vetting.evidence.is_good()) {
        (true, _) => dimension("mcpindex.stability.drift", "FAIL", "MEDIUM"),
        (false, true) => dimension("mcpindex.stability.drift", "PASS", "INFO"),
        (false, false) => dimension("mcpindex.stability.drift", "UNVERIFIED", "INFO"),
    };
    let approval = match vetting.approval {
        Approval::Decided(Standing::Approved) => dimension("mcpindex.approval", "PASS", "INFO"),
        Approval::Decided(Standing::Refused) => dimension("mcpindex.approval", "FAIL", "HIGH"),
        _ => dimension("mcpindex.approval", "UNVERIFIED", "INFO"),
    };
    let mut dimensions = vec![observed, integrity, stability, approval];
    if of_tool {
        let sees = |code| vetting.has(code);
        dimensions.push(match (sees("installs-see-it"), sees("installs-see-another")) {
            (true, _) => dimension("mcpindex.fleet.agreement", "PASS", "INFO"),
            (false, true) => dimension("mcpindex.fleet.agreement", "FAIL", "MEDIUM"),
            (false, false) => dimension("mcpindex.fleet.agreement", "UNVERIFIED", "INFO"),
        });
    }
    dimensions
}
