//! One's own feed path, for feed readers that send no header: made, looked at and ended with a key.
//!
//! Invariant: the path is in one answer, the one that gives it; a key that may not read makes none.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use mcpindex_store::accounts::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use super::keys::{day, holder};
use crate::access::Caller;
use crate::access::feed_path::FeedToken;
use crate::app::App;
use crate::links;
use crate::login::key::refused;
use crate::problem::Problem;
use crate::when::rfc3339;

/// Whether there is one, and since when.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedPathBody {
    exists: bool,
    created_at: Option<String>,
    /// The day, as `2026-11-30`.
    last_used_on: Option<String>,
}

/// A path that was made; this answer alone has it.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewFeedPathBody {
    /// Whoever has it reads the feeds: all below `/feeds/` are below it too.
    path: String,
    /// The address of the feed of all drifts.
    drifts: String,
}

/// Whether whoever asks has a feed path.
#[utoipa::path(
    get,
    path = "/api/v1/feed-path",
    tag = "keys",
    security(("key" = [])),
    responses((status = 200, body = FeedPathBody))
)]
pub(crate) async fn look(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<FeedPathBody>, Problem> {
    let kept = app.store.feed_path(holder(&caller)?.account.id).await?;
    Ok(Json(FeedPathBody {
        exists: kept.is_some(),
        created_at: kept.and_then(|kept| rfc3339(kept.created_at)),
        last_used_on: kept.and_then(|kept| kept.last_used_on).and_then(day),
    }))
}

/// Makes a feed path, in the place of the one that there is. This answer alone has it whole.
#[utoipa::path(
    post,
    path = "/api/v1/feed-path",
    tag = "keys",
    security(("key" = [])),
    responses((status = 201, body = NewFeedPathBody))
)]
pub(crate) async fn make(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let holder = holder(&caller)?;
    if !holder.scopes().contains(Scope::Read) {
        return Err(Problem::lacks_scope(Scope::Read));
    }
    let token = FeedToken::generate().map_err(|error| Problem::internal(&error))?;
    let made = app
        .store
        .set_feed_path(holder.account.id, token.hash(), app.now())
        .await;
    made.map_err(refused)?;
    let path = token.expose_path();
    let body = NewFeedPathBody {
        drifts: links::absolute(&app.base, &format!("{path}drifts.atom")),
        path,
    };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)).into_response())
}

/// Ends the feed path of whoever asks.
#[utoipa::path(
    delete,
    path = "/api/v1/feed-path",
    tag = "keys",
    security(("key" = [])),
    responses((status = 204, description = "There is none, or none any more"))
)]
pub(crate) async fn end(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, Problem> {
    app.store.revoke_feed_path(holder(&caller)?.account.id).await?;
    Ok(StatusCode::NO_CONTENT)
}
