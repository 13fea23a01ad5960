//! A person's API keys, asked about and changed with one of them; and what happens to a key that somebody found.
//!
//! Invariant: a key is in one answer, the one that gives it; with a key nobody reaches another account's keys, nor one
//! that allows more than it does or lives longer.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use mcpindex_store::accounts::{KeyRecord, Scope, Scopes};
use mcpindex_store::signals::Network;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body_of;
use crate::access::Caller;
use crate::access::issue::{self, IssueError, Wish, issue};
use crate::access::key::KeyText;
use crate::access::keys::KeyHolder;
use crate::access::limits::{Counted, Sender};
use crate::app::App;
use crate::login::key::refused;
use crate::problem::Problem;
use crate::query::Query;
use crate::when::{DAY, rfc3339};

const WISH: &str =
    "`{\"name\": TEXT, \"scopes\": [\"read\", \"ingest\"], \"expires_in_days\": NUMBER or null}`";
const REPORT: &str = "`{\"key\": \"mcpk_…\"}`";

/// Who asks, and with which key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WhoAmIBody {
    login: String,
    /// `member`, `approver` or `admin`.
    role: &'static str,
    /// Who says who this is: a provider's issuer, or `local`.
    issuer: String,
    key: OwnKeyBody,
}

/// The key that asks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OwnKeyBody {
    id: String,
    name: String,
    shown: String,
    scopes: Vec<&'static str>,
    expires_at: Option<String>,
}

/// One of a person's keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyBody {
    id: String,
    name: String,
    /// Its first letters.
    shown: String,
    scopes: Vec<&'static str>,
    created_at: Option<String>,
    /// Null: it ends when it is revoked.
    expires_at: Option<String>,
    /// A day; null when never.
    last_used_on: Option<String>,
    revoked_at: Option<String>,
    /// The key that a rotation put in its place.
    replaced_by: Option<String>,
    /// The key that it was made or rotated with; null: a person made it.
    made_by: Option<String>,
    /// Whether it is the one that asks.
    current: bool,
}

/// All keys of a person.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeysBody {
    keys: Vec<KeyBody>,
}

/// A key that was made, and the only answer that has it whole.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewKeyBody {
    key: String,
    #[serde(flatten)]
    record: KeyBody,
}

/// A key that is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WishBody {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// `read`, `ingest`, `admin`.
    #[schema(min_items = 1)]
    scopes: Vec<String>,
    /// Null or left out: it has no end of its own. Whatever is asked for, it ends with the key that asks, at the latest.
    #[schema(minimum = 1, maximum = 3650)]
    expires_in_days: Option<u32>,
}

/// A key that somebody found.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportBody {
    key: String,
}

fn names(scopes: Scopes) -> Vec<&'static str> {
    scopes.iter().map(Scope::name).collect()
}

fn key_body(key: KeyRecord, current: &str) -> KeyBody {
    KeyBody {
        current: key.id == current,
        id: key.id,
        name: key.name,
        shown: key.shown,
        scopes: names(key.scopes),
        created_at: rfc3339(key.created_at),
        expires_at: key.expires_at.and_then(rfc3339),
        last_used_on: key.last_used_on.and_then(day),
        revoked_at: key.revoked_at.and_then(rfc3339),
        replaced_by: key.replaced_by,
        made_by: key.made_by,
    }
}

/// `2026-11-30`, of days since 1970-01-01.
pub(super) fn day(day: i64) -> Option<String> {
    let time = rfc3339(day.saturating_mul(DAY))?;
    time.split_once('T').map(|(date, _)| date.to_owned())
}

pub(super) fn holder(caller: &Caller) -> Result<&Arc<KeyHolder>, Problem> {
    match caller {
        Caller::Key(holder) => Ok(holder),
        Caller::Anonymous | Caller::Session | Caller::FeedPath => Err(Problem::unauthorized()),
    }
}

/// [`holder`] of a key that may change keys: one that another has taken the place of may not, since it is on its way out and
/// who had it may still have it.
fn manager(caller: &Caller) -> Result<&Arc<KeyHolder>, Problem> {
    let holder = holder(caller)?;
    match &holder.key.replaced_by {
        None => Ok(holder),
        Some(successor) => Err(Problem::forbidden(format!(
            "`{successor}` has taken the place of the key that you ask with: change keys with that one, or on your account's page"
        ))),
    }
}

/// Counts a key that is made.
pub(crate) fn may_make(app: &App, account: i64) -> Result<(), Problem> {
    match app
        .access
        .limits
        .allows(Counted::KeyMade, Sender::Account(account), 1)
    {
        true => Ok(()),
        false => Err(Problem::limited(
            app.access.limits.come_again(Counted::KeyMade),
            "50 keys of this account were made within an hour",
        )),
    }
}

/// Whose key this is.
#[utoipa::path(
    get,
    path = "/api/v1/whoami",
    tag = "keys",
    security(("key" = [])),
    responses((status = 200, body = WhoAmIBody))
)]
pub(crate) async fn whoami(Extension(caller): Extension<Caller>) -> Result<Json<WhoAmIBody>, Problem> {
    let KeyHolder { account, key } = holder(&caller)?.as_ref();
    Ok(Json(WhoAmIBody {
        login: account.login.clone(),
        role: account.role.name(),
        issuer: account.issuer.clone(),
        key: OwnKeyBody {
            id: key.id.clone(),
            name: key.name.clone(),
            shown: key.shown.clone(),
            scopes: names(key.scopes),
            expires_at: key.expires_at.and_then(rfc3339),
        },
    }))
}

/// The keys of whoever asks: all that work, and the latest that ended.
#[utoipa::path(
    get,
    path = "/api/v1/keys",
    tag = "keys",
    security(("key" = [])),
    responses((status = 200, body = KeysBody))
)]
pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<KeysBody>, Problem> {
    let holder = holder(&caller)?;
    let keys = app.store.keys_of(holder.account.id, app.now()).await?;
    let keys = keys.into_iter().map(|key| key_body(key, &holder.key.id));
    Ok(Json(KeysBody { keys: keys.collect() }))
}

/// Makes a key, which allows no more than the one that asks and ends with it at the latest. This answer alone has it whole.
#[utoipa::path(
    post,
    path = "/api/v1/keys",
    tag = "keys",
    security(("key" = [])),
    request_body = WishBody,
    responses(
        (status = 201, body = NewKeyBody),
        (status = 409, description = "The account has too many keys"),
        (status = 429, description = "Too many keys were made within the hour, or too many that don't work came from this address; `Retry-After` says when to come again"),
        (status = 413, description = "More than 64 KiB"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let holder = manager(&caller)?;
    let network = Network::of(app.access.sender(request.extensions(), request.headers()));
    let body: WishBody = body_of(request, WISH).await?;
    let scopes: Scopes = body
        .scopes
        .join(" ")
        .parse()
        .map_err(|_| Problem::bad_body(WISH))?;
    if !scopes.is_within(holder.key.scopes) {
        return Err(more_than_this_key(holder));
    }
    let wish = Wish {
        name: body.name,
        scopes,
        days: body.expires_in_days,
        ends_by: holder.key.expires_at,
        made_by: Some(holder.key.id.clone()),
    };
    may_make(&app, holder.account.id)?;
    let issued = issue(&app.store, &holder.account, &wish, Some(network), app.now()).await;
    let (text, record) = issued.map_err(not_issued)?;
    Ok(given(&text, record, &holder.key.id))
}

/// Puts a new key in the place of this one, which works for another 24 hours.
///
/// The new one allows as much and lives as long as
/// that was to live, but ends with the key that asks at the latest: with a key that ends, nobody gets beyond its end.
#[utoipa::path(
    post,
    path = "/api/v1/keys/{id}/rotate",
    tag = "keys",
    security(("key" = [])),
    params(("id" = String, Path, description = "`key_…`")),
    responses(
        (status = 201, body = NewKeyBody),
        (status = 404, description = "No such key of whoever asks"),
        (status = 409, description = "It has ended, or was rotated before"),
        (status = 429, description = "Too many keys were made within the hour, or too many that don't work came from this address; `Retry-After` says when to come again"),
        (status = 413, description = "More than 64 KiB"),
    )
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let holder = manager(&caller)?;
    let network = Network::of(app.access.sender(request.extensions(), request.headers()));
    reachable(&app, holder, &id).await?;
    may_make(&app, holder.account.id)?;
    let asking = Some(&holder.key);
    let rotated = issue::rotate(&app.store, &holder.account, &id, asking, network, app.now()).await;
    app.access.keys.forget(&id);
    let (text, record) = rotated.map_err(not_issued)?.ok_or_else(|| {
        Problem::conflict(format!(
            "the key `{id}` has ended or was rotated before; `mcpindex keys list` shows which one is in its place"
        ))
    })?;
    Ok(given(&text, record, &holder.key.id))
}

/// Ends a key.
#[utoipa::path(
    delete,
    path = "/api/v1/keys/{id}",
    tag = "keys",
    security(("key" = [])),
    params(
        ("id" = String, Path, description = "`key_…`"),
        ("made" = Option<String>, Query, description = "`too`: and all that was made with it, for a key that somebody else may have"),
    ),
    responses(
        (status = 204, description = "It doesn't work any more; another replica may take 30 seconds to know"),
        (status = 404, description = "No such key of whoever asks"),
    )
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    // A key ends itself whatever became of it.
    let holder = match holder(&caller)? {
        holder if holder.key.id == id => holder,
        _ => manager(&caller)?,
    };
    let query = Query::strict(&uri, &["made"])?;
    let with_made = match query.value("made") {
        None => false,
        Some("too") => true,
        Some(_) => return Err(Problem::bad_parameter("made", "`too`, or to be left out")),
    };
    reachable(&app, holder, &id).await?;
    let (account, now) = (Some(holder.account.id), app.now());
    if with_made {
        app.store.revoke_key_and_made(&id, account, now).await?;
        app.access.keys.forget_all();
    } else {
        app.store.revoke_key(&id, account, now).await?;
        app.access.keys.forget(&id);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Ends a key that somebody found: who has it may do that. The answer does not say whether it was one.
#[utoipa::path(
    post,
    path = "/api/v1/keys/report-leak",
    tag = "keys",
    security(()),
    request_body = ReportBody,
    responses(
        (status = 204, description = "If it was a key, it is none any more"),
        (status = 413, description = "More than 64 KiB"),
        (status = 429, description = "More than one address may report; `Retry-After` says when to come again"),
    )
)]
pub(crate) async fn report_leak(State(app): State<App>, request: Request) -> Result<StatusCode, Problem> {
    let address = app.access.sender(request.extensions(), request.headers());
    if !app.access.limits.allows(Counted::LeakReport, address, 1) {
        return Err(Problem::limited(
            app.access.limits.come_again(Counted::LeakReport),
            "too many keys were reported from this address",
        ));
    }
    let body: ReportBody = body_of(request, REPORT).await?;
    if let Some(text) = KeyText::parse(body.key.trim()) {
        let hash = text.hash();
        if app.store.revoke_key_by_hash(hash, app.now()).await? {
            tracing::warn!(
                shown = text.shown(),
                "a key was reported as leaked; it is revoked, with all that was made with it"
            );
            app.access.keys.forget_all();
        }
        app.access.keys.forget_hash(hash);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The key of this id is there, of the same account, and allows no more than the one that asks.
async fn reachable(app: &App, holder: &KeyHolder, id: &str) -> Result<(), Problem> {
    let key = app.store.key(id, holder.account.id).await?;
    let key = key.ok_or_else(|| {
        Problem::unknown(
            "unknown-key",
            "No such key",
            format!(
                "you have no key `{}`; `mcpindex keys list` shows them",
                id.escape_debug()
            ),
        )
    })?;
    if key.scopes.is_within(holder.key.scopes) {
        Ok(())
    } else {
        Err(more_than_this_key(holder))
    }
}

fn more_than_this_key(holder: &KeyHolder) -> Problem {
    Problem::forbidden(format!(
        "that key allows more than the one you ask with, which has `{}`; use one that has as much",
        holder.key.scopes
    ))
}

/// 201 with the key.
fn given(text: &KeyText, record: KeyRecord, current: &str) -> Response {
    let body = NewKeyBody {
        key: text.expose().to_owned(),
        record: key_body(record, current),
    };
    (StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// What is refused is the asker's to mend.
fn not_issued(error: IssueError) -> Problem {
    match error {
        IssueError::Wish(detail) => Problem::bad_body(&format!("{WISH}; {detail}")),
        IssueError::NotAllowed(detail) => Problem::forbidden(detail),
        IssueError::Store(error) => refused(error),
        error @ IssueError::Random(_) => Problem::internal(&error),
    }
}
