//! What the organisation decided about tools: read as a chain that its reader verifies, added to by approvers.
//!
//! Invariant: records are sent as they are hashed, in their order; whoever obeys them verifies them first.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use mcpindex_contract::approval::{DEFAULT_TENANT, Decision, Head, Record};
use mcpindex_store::StoreError;
use mcpindex_store::accounts::Scope;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body_of;
use super::shapes::ApprovalRecord;
use crate::access::Caller;
use crate::access::keys::KeyHolder;
use crate::api::keys::holder;
use crate::app::App;
use crate::approvals::{DecideError, Wish, decide, undo};
use crate::problem::{AsPublished, Problem};
use crate::query::Query;
use crate::when::unix;

/// Records of one answer.
const PAGE: i64 = 1_000;
const MOST: i64 = 10_000;
/// The longest that an answer waits for the next decision, in seconds.
const LONGEST_WAIT: i64 = 25;

const WISH: &str = "`{\"seen\": NUMBER, \"decisions\": [{\"identity\": …, \"tool\": …, \"digest\": \"sha256:…\", \"decision\": \
                    \"approve\", \"refuse\" or \"withdraw\", \"reason\": …, \"reference\": …, \"expires_at\": TIME}]}`";
const UNDO: &str = "`{\"sequences\": [NUMBER]}`";

/// The end of the chain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeadBody {
    sequence: u64,
    /// The hash of that record; of an empty chain, that of its beginning.
    hash: String,
}

/// Records in their order, each exactly as it is hashed (RFC 8785), and the head that they lead to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordsBody {
    head: HeadBody,
    #[schema(value_type = Vec<ApprovalRecord>)]
    records: Vec<Box<RawValue>>,
    /// Whether there are more: ask again after the last of these.
    next: bool,
    /// What is wrong with the chain, where something is: nothing from there on approves anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    flaw: Option<String>,
}

/// Decisions that are made together, or not at all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionsBody {
    /// The head's sequence when the decider was shown what is decided about: what others decided since is no surprise.
    seen: u64,
    #[schema(min_items = 1, max_items = 256)]
    decisions: Vec<DecisionBody>,
}

/// One decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionBody {
    #[schema(min_length = 1, max_length = 1500)]
    identity: String,
    #[schema(max_length = 4096)]
    tool: String,
    #[schema(pattern = "^(raw-)?sha256:[0-9a-f]{64}$")]
    digest: String,
    #[schema(pattern = "^(approve|refuse|withdraw)$")]
    decision: String,
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// Where more is written about it: a ticket, an address.
    #[schema(max_length = 500)]
    reference: Option<String>,
    /// RFC 3339; from then on it is as if nobody had decided.
    #[schema(format = "date-time")]
    expires_at: Option<String>,
}

/// Which decisions to take back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoBody {
    #[schema(min_items = 1, max_items = 256)]
    sequences: Vec<u64>,
}

/// The records that came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecidedBody {
    #[schema(value_type = Vec<ApprovalRecord>)]
    records: Vec<Box<RawValue>>,
}

/// Others' decisions about the same definitions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConflictBody {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'static str,
    #[schema(value_type = Vec<ApprovalRecord>)]
    records: Vec<Box<RawValue>>,
}

/// Records as they are hashed: no serializer puts them in another form.
fn texts(records: &[Record]) -> Vec<Box<RawValue>> {
    let texts = records.iter().map(|record| RawValue::from_string(record.text()));
    texts.flatten().collect()
}

/// What was decided, from a record on. With `wait` the answer comes when there is more than was asked after, or after that many
/// seconds: a gate that asks again at once knows of a decision within a second or two.
#[utoipa::path(
    get,
    path = "/api/v1/approvals",
    tag = "approvals",
    security(("key" = [])),
    params(
        ("since" = Option<u64>, Query, minimum = 0, description = "The last record that is known; 0"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 10000, description = "Records of one answer; 1,000"),
        ("wait" = Option<i64>, Query, minimum = 0, maximum = 25, description = "Seconds to wait for the next record; 0"),
    ),
    responses(
        (status = 200, body = RecordsBody),
        (status = 403, description = "The key has no scope `read`"),
        (status = 503, description = "What was asked for is no record by its form: the chain is broken there"),
    )
)]
pub(crate) async fn since(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<RecordsBody>, Problem> {
    with_scope(&caller, Scope::Read)?;
    let query = Query::strict(&uri, &["since", "limit", "wait"])?;
    let after = query.number("since", 0..=i64::MAX)?.unwrap_or(0);
    let after = u64::try_from(after).unwrap_or(0);
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(PAGE);
    let wait = query.number("wait", 0..=LONGEST_WAIT)?.unwrap_or(0);
    let mut found = read(&app, after, limit).await?;
    if found.1.is_empty() && wait > 0 {
        let longest = Duration::from_secs(u64::try_from(wait).unwrap_or(0));
        app.approvals.wait(&app.store, after, longest).await;
        found = read(&app, after, limit).await?;
    }
    let (head, records) = found;
    let chain = app.store.verified_approvals(DEFAULT_TENANT, app.now()).await?;
    Ok(Json(RecordsBody {
        flaw: chain.flaw.map(|flaw| flaw.to_string()),
        next: records.last().is_some_and(|last| last.sequence < head.sequence),
        records: texts(&records),
        head: HeadBody {
            sequence: head.sequence,
            hash: head.hash.to_string(),
        },
    }))
}

async fn read(app: &App, after: u64, limit: i64) -> Result<(Head, Vec<Record>), Problem> {
    let read = app.store.approvals_since(DEFAULT_TENANT, after, limit).await;
    read.map_err(broken)
}

/// A chain that is broken is for whoever runs the index to mend.
fn broken(error: StoreError) -> Problem {
    match error {
        StoreError::ChainBroken { flaw } => {
            tracing::error!(%flaw, "the chain of approvals is broken; `admin approvals verify` says where");
            Problem::unavailable(&format!(
                "the chain of approvals is broken ({flaw}): nothing is decided until whoever runs the index has mended it"
            ))
        }
        error => error.into(),
    }
}

/// Decides about definitions that the index has seen, all of them or none. The key needs the scope `approve`, and its owner the
/// role of an approver or an admin.
#[utoipa::path(
    post,
    path = "/api/v1/approvals",
    tag = "approvals",
    security(("key" = [])),
    request_body = DecisionsBody,
    responses(
        (status = 200, body = DecidedBody),
        (status = 403, description = "The key has no scope `approve`, or its owner does not decide here"),
        (status = 413, description = "More than this address takes"),
        (status = 409, body = ConflictBody, description = "Others have decided about the same definitions since; their records"),
        (status = 422, description = "Nothing was decided: the index has not seen one of the definitions, so nobody can have been shown it, or one is \
                                      nothing that could be decided"),
    )
)]
pub(crate) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let holder = with_scope(&caller, Scope::Approve)?;
    let body: DecisionsBody = body_of(request, WISH).await?;
    let wishes = body.decisions.into_iter().enumerate().map(|(item, decision)| {
        wish(decision).map_err(|expected| Problem::bad_body(&format!("{expected} of decisions[{item}]")))
    });
    let wishes = wishes.collect::<Result<Vec<Wish>, Problem>>()?;
    let decided = decide(&app, &holder.account, &wishes, body.seen).await;
    answer(decided)
}

/// Takes back what the asker decided within the last minute: what stood before stands again.
#[utoipa::path(
    post,
    path = "/api/v1/approvals/undo",
    tag = "approvals",
    security(("key" = [])),
    request_body = UndoBody,
    responses(
        (status = 200, body = DecidedBody),
        (status = 403, description = "The key has no scope `approve`, or its owner does not decide here"),
        (status = 413, description = "More than this address takes"),
        (status = 409, body = ConflictBody, description = "Others have decided about the same definitions since; their records"),
        (status = 422, description = "It is another's decision, too old, or not there"),
    )
)]
pub(crate) async fn take_back(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let holder = with_scope(&caller, Scope::Approve)?;
    let body: UndoBody = body_of(request, UNDO).await?;
    let decided = undo(&app, &holder.account, &body.sequences).await;
    answer(decided)
}

pub(crate) fn with_scope(caller: &Caller, scope: Scope) -> Result<&KeyHolder, Problem> {
    let holder = holder(caller)?;
    match holder.key.scopes.contains(scope) {
        true => Ok(holder),
        false => Err(Problem::lacks_scope(scope)),
    }
}

fn wish(body: DecisionBody) -> Result<Wish, &'static str> {
    Ok(Wish {
        identity: body.identity,
        tool: body.tool,
        digest: body
            .digest
            .parse()
            .map_err(|_| "`sha256:` or `raw-sha256:` and 64 hex digits as `digest`")?,
        decision: Decision::from_name(&body.decision)
            .ok_or("`approve`, `refuse` or `withdraw` as `decision`")?,
        reason: body.reason,
        reference: body.reference,
        expires_at: body
            .expires_at
            .map(|text| unix(&text).ok_or("a time like 2026-12-31T00:00:00Z as `expires_at`"))
            .transpose()?,
    })
}

fn answer(decided: Result<Vec<Record>, DecideError>) -> Result<Response, Problem> {
    match decided {
        Ok(records) => Ok(Json(DecidedBody {
            records: texts(&records),
        })
        .into_response()),
        Err(DecideError::Conflict(others)) => {
            let body = ConflictBody {
                r#type: "urn:mcpindex:problem:decided-since",
                title: "Others have decided since",
                status: StatusCode::CONFLICT.as_u16(),
                detail: "others have decided about the same definitions since; look at their records and decide again",
                records: texts(&others),
            };
            let kind = [(CONTENT_TYPE, "application/problem+json")];
            let mut response = (StatusCode::CONFLICT, kind, Json(body)).into_response();
            response.extensions_mut().insert(AsPublished);
            Ok(response)
        }
        Err(error) => Err(problem(error)),
    }
}

/// What a refused decision is, for whoever asked.
pub(crate) fn problem(error: DecideError) -> Problem {
    match error {
        DecideError::NotAllowed => Problem::forbidden(error.to_string()),
        DecideError::NotShown { .. } | DecideError::NotUndone { .. } | DecideError::Bad(_) => {
            Problem::not_decided(error.to_string())
        }
        DecideError::Conflict(_) => Problem::conflict(error.to_string()),
        DecideError::Store(error) => broken(error),
    }
}
