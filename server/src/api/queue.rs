//! What waits for an approver, for programs; and what gates ask about.
//!
//! Invariant: it is what the page shows, grouped alike; a definition that is sent is one whose digest the contract engine computes
//! here, whoever sent it.

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::{Extension, Json};
use mcpindex_contract::approval::{DEFAULT_TENANT, MAX_IDENTITY, MAX_TOOL};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::identity::{Identity, IdentityError};
use mcpindex_contract::surface::{Member, MemberKind};
use mcpindex_store::StoreError;
use mcpindex_store::accounts::Scope;
use mcpindex_store::approvals::queue::{MAX_RELEASES, Place};
use mcpindex_store::approvals::requests::NewRequest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::approvals::with_scope;
use super::body_of;
use crate::access::Caller;
use crate::api::keys::holder;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::queue::{self, Before, Item, Release};
use crate::when::rfc3339;

/// Releases of one answer, when the asker doesn't say.
const PAGE: i64 = 10;
/// The most definitions of one call.
const MOST: usize = 256;
/// The longest definition, in bytes.
const MAX_DEFINITION: usize = 256 * 1024;
/// The longest note, in characters.
const MAX_NOTE: usize = 500;

const ASKED: &str = "`{\"requests\": [{\"identity\": …, \"tool\": …, \"digest\": \"sha256:…\", \"definition\": TEXT, \"baseline\": TEXT, \
                     \"note\": …}]}`";

/// What waits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueueBody {
    /// The head's sequence before this was read: what a decision names as `seen`.
    seen: u64,
    /// What is wrong with the chain of approvals, where something is: nothing can be decided then.
    flaw: Option<String>,
    /// What people sent from gates, the newest first; on the first page alone.
    requests: Vec<ReleaseBody>,
    /// What the crawl sees, the newest declaration first.
    releases: Vec<ReleaseBody>,
    /// Where the next page begins; null at the end. A page may be empty and yet have a next one.
    next: Option<String>,
}

/// What waits of one server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitingRelease)]
struct ReleaseBody {
    identity: String,
    /// The version that was looked at last; null where there are none, or the index does not know the server.
    version: Option<String>,
    /// Since when it declares this, or when a gate asked last.
    since: Option<String>,
    /// How many tools wait; 1001 stands for more than a thousand.
    waiting: i64,
    /// The same change over many tools is one row; the dangerous ones first.
    rows: Vec<RowBody>,
    /// Where this server's queue is for people.
    page: String,
}

/// Tools with the same change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitingRow)]
struct RowBody {
    /// `marker`, `power`, `narrowing`, `opaque`, `instructions`, `new`, `meaning`, `text` or `benign`.
    section: &'static str,
    dangerous: bool,
    reasons: Vec<WhyBody>,
    /// The kinds of its changes, as `/api/v1/vocabulary` has them.
    kinds: Vec<&'static str>,
    /// The classes of markers that it brings.
    markers: Vec<&'static str>,
    /// What a call does, by the declaration.
    action: Option<&'static str>,
    tools: Vec<ToolBody>,
}

/// Why a gate holds it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitingReason)]
struct WhyBody {
    code: &'static str,
    sentence: String,
}

/// One definition that waits.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitingTool)]
struct ToolBody {
    tool: String,
    digest: String,
    /// What it is compared with; null where there is nothing.
    before: Option<String>,
    /// `approved`, `seen` or `pinned`: why it is compared with that.
    before_is: Option<&'static str>,
    /// `proposed`, `expired`, `withdrawn`, `doubtful`, or `none`: what was decided about exactly this.
    approval: &'static str,
    first_seen: Option<String>,
    last_seen: Option<String>,
    /// Other servers that declare exactly this; null where a gate asks.
    elsewhere: Option<i64>,
    /// Who asked first; null where the crawl sees it.
    asked_by: Option<String>,
    asked_at: Option<String>,
    note: Option<String>,
}

/// What gates ask about.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestsBody {
    #[schema(min_items = 1, max_items = 256)]
    requests: Vec<RequestBody>,
}

/// One definition that a gate holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestBody {
    /// In its written form.
    #[schema(min_length = 1, max_length = 1500)]
    identity: String,
    #[schema(max_length = 4096)]
    tool: String,
    /// Of the definition.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    digest: String,
    /// The tool's JSON text as the server sent it.
    #[schema(max_length = 262144)]
    definition: String,
    /// What the tool is pinned to there.
    #[schema(max_length = 262144)]
    baseline: Option<String>,
    #[schema(max_length = 500)]
    note: Option<String>,
}

/// They are in the queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestedBody {
    /// How many were sent: those that were asked about already are in the queue too.
    requests: usize,
    /// Where people decide.
    queue: String,
}

/// What waits for an approver: what servers declare and nobody has decided about, and what people sent from gates.
#[utoipa::path(
    get,
    path = "/api/v1/approvals/queue",
    tag = "approvals",
    security(("key" = [])),
    params(
        ("cursor" = Option<String>, Query, pattern = "^-?[0-9]{1,18} .+$", description = "`next` of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 50, description = "Servers of one answer; 10"),
    ),
    responses(
        (status = 200, body = QueueBody),
        (status = 403, description = "The key has no scope `read`"),
    )
)]
pub(crate) async fn waiting(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<QueueBody>, Problem> {
    with_scope(&caller, Scope::Read)?;
    let query = Query::strict(&uri, &["cursor", "limit"])?;
    let place = query.value("cursor").map(place).transpose()?;
    let most = i64::try_from(MAX_RELEASES).unwrap_or(i64::MAX);
    let limit = query.number("limit", 1..=most)?.unwrap_or(PAGE);
    let seen = app.store.approvals_head(DEFAULT_TENANT).await?;
    let found = queue::page(&app, place.as_ref(), usize::try_from(limit).unwrap_or(1)).await?;
    let requests = match place {
        None => queue::requests(&app, None).await?.0,
        Some(_) => Vec::new(),
    };
    Ok(Json(QueueBody {
        seen,
        flaw: found.chain.flaw.map(|flaw| flaw.to_string()),
        requests: requests
            .iter()
            .map(|release| release_body(&app, release))
            .collect(),
        releases: found
            .releases
            .iter()
            .map(|release| release_body(&app, release))
            .collect(),
        next: found
            .next
            .map(|place| format!("{} {}", place.since, place.identity)),
    }))
}

fn place(cursor: &str) -> Result<Place, Problem> {
    let parts = cursor.split_once(' ');
    let place = parts.and_then(|(since, identity)| Some((since.parse().ok()?, identity)));
    let place = place.filter(|(_, identity)| identity.len() <= MAX_IDENTITY && !identity.contains('\0'));
    let (since, identity) =
        place.ok_or_else(|| Problem::bad_parameter("cursor", "`next` of the page before"))?;
    Ok(Place {
        since,
        identity: identity.to_owned(),
    })
}

fn release_body(app: &App, release: &Release) -> ReleaseBody {
    let server = release.server.as_ref();
    let page = match server {
        Some(server) => links::with_query("/approvals", &[("server", Some(server.identity.clone()))]),
        None => "/approvals".to_owned(),
    };
    ReleaseBody {
        identity: release.identity.clone(),
        version: server.and_then(|server| server.current_version.clone()),
        since: rfc3339(release.since),
        waiting: release.waiting,
        rows: release.rows.iter().filter_map(|row| row_body(row)).collect(),
        page: links::absolute(&app.base, &page),
    }
}

fn row_body(items: &[Item]) -> Option<RowBody> {
    let step = &items.first()?.step;
    let mut kinds: Vec<&'static str> = step.changes.iter().map(|change| change.kind.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut markers: Vec<&'static str> = step.markers.iter().map(|marker| marker.class.name()).collect();
    markers.sort_unstable();
    markers.dedup();
    let section = step.section();
    Some(RowBody {
        section: section.name(),
        dangerous: section.is_dangerous(),
        reasons: step
            .reasons
            .iter()
            .map(|reason| WhyBody {
                code: reason.code,
                sentence: reason.sentence.clone(),
            })
            .collect(),
        kinds,
        markers,
        action: step
            .examination
            .as_ref()
            .map(|examination| examination.action.effective.name()),
        tools: items.iter().map(tool_body).collect(),
    })
}

fn tool_body(item: &Item) -> ToolBody {
    let (seen, asked) = (item.seen.as_ref(), item.asked.as_ref());
    ToolBody {
        tool: item.tool.clone(),
        digest: item.digest.to_string(),
        before: item.before.as_ref().map(|(digest, _)| digest.to_string()),
        before_is: item.before.as_ref().map(|(_, before)| match before {
            Before::Approved(..) => "approved",
            Before::Seen(_) => "seen",
            Before::Pinned => "pinned",
        }),
        approval: item
            .standing
            .as_ref()
            .map_or("none", |standing| standing.state.name()),
        first_seen: seen.and_then(|seen| rfc3339(seen.first)),
        last_seen: seen.and_then(|seen| rfc3339(seen.last)),
        elsewhere: seen.map(|seen| seen.elsewhere),
        asked_by: asked.map(|asked| asked.by.clone()),
        asked_at: asked.and_then(|asked| rfc3339(asked.at)),
        note: asked.and_then(|asked| asked.note.clone()),
    }
}

/// Asks an approver to decide about definitions that a gate holds. What was asked about before is asked about once; nothing is
/// decided by it.
#[utoipa::path(
    post,
    path = "/api/v1/approvals/requests",
    tag = "approvals",
    security(("key" = [])),
    request_body = RequestsBody,
    responses(
        (status = 202, body = RequestedBody),
        (status = 403, description = "The key has neither the scope `read` nor `ingest`"),
        (status = 409, description = "A thousand questions of this account are open"),
        (status = 413, description = "More than 1 MiB"),
        (status = 422, description = "A definition is not what its digest says, or no tool of that name"),
    )
)]
pub(crate) async fn ask(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<(StatusCode, Json<RequestedBody>), Problem> {
    let holder = holder(&caller)?;
    let scopes = &holder.key.scopes;
    if !scopes.contains(Scope::Read) && !scopes.contains(Scope::Ingest) {
        return Err(Problem::lacks_scope(Scope::Read));
    }
    let body: RequestsBody = body_of(request, ASKED).await?;
    if body.requests.is_empty() || body.requests.len() > MOST {
        return Err(Problem::bad_body(&format!("1 to {MOST} requests")));
    }
    let sent = body.requests.len();
    // Large texts are canonicalized and hashed: not where other answers wait.
    let reading = tokio::task::spawn_blocking(move || {
        let items = body.requests.into_iter().enumerate();
        items
            .map(|(item, request)| read(item, request))
            .collect::<Result<Vec<NewRequest>, Problem>>()
    });
    let requests = reading.await.map_err(|error| Problem::internal(&error))??;
    let added = app
        .store
        .add_requests(DEFAULT_TENANT, holder.account.id, &requests, app.now())
        .await;
    match added {
        Ok(_) => {}
        Err(StoreError::Refused { what }) => return Err(Problem::conflict(what)),
        Err(error) => return Err(error.into()),
    }
    Ok((
        StatusCode::ACCEPTED,
        Json(RequestedBody {
            requests: sent,
            queue: links::absolute(&app.base, "/approvals"),
        }),
    ))
}

fn read(item: usize, body: RequestBody) -> Result<NewRequest, Problem> {
    let wrong = |what: &str| Problem::bad_body(&format!("{what} in requests[{item}]"));
    let differs = |what: &str| Problem::not_decided(format!("requests[{item}]: {what}"));
    // A command, an address of a private network: any identity in its written form, which gates and people may know alone.
    if body.identity.len() > MAX_IDENTITY || !is_written(&body.identity) {
        return Err(wrong("an identity in its written form"));
    }
    if body.tool.len() > MAX_TOOL {
        return Err(wrong("a tool's name of at most 4,096 bytes"));
    }
    let digest: Digest =
        (body.digest.parse()).map_err(|_| wrong("`sha256:` and 64 hex digits as `digest`"))?;
    let is_short = |text: &String| text.len() <= MAX_DEFINITION;
    if !is_short(&body.definition) || !body.baseline.as_ref().is_none_or(is_short) {
        return Err(wrong("definitions of at most 256 KiB"));
    }
    let is_note = |note: &String| note.chars().count() <= MAX_NOTE && !note.chars().any(char::is_control);
    if !body.note.as_ref().is_none_or(is_note) {
        return Err(wrong("a note of at most 500 characters on one line"));
    }
    let tool = Member::read(MemberKind::Tool, &body.definition);
    if tool.definition.digest() != digest {
        return Err(differs("the digest is not that of the definition"));
    }
    if tool.name != body.tool {
        return Err(differs("the definition is that of a tool of another name"));
    }
    if let Some(baseline) = &body.baseline
        && Definition::read(baseline).digest() == digest
    {
        return Err(differs("the baseline is the same definition, so nothing is held"));
    }
    Ok(NewRequest {
        identity: body.identity,
        tool: body.tool,
        digest,
        definition: body.definition,
        baseline: body.baseline,
        note: body.note,
    })
}

/// Whether this is an identity in its written form. That of a command is a hash and a name: what it was can't be told.
fn is_written(text: &str) -> bool {
    match Identity::from_reference(text) {
        Ok(launched) => launched.identity.to_string() == text,
        Err(IdentityError::CommandForm { .. }) => !text.chars().any(char::is_control),
        Err(_) => false,
    }
}
