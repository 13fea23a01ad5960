//! The organisation's own fingerprint key, for its own installs: under it they may tell and ask of servers whose names nobody
//! outside is to guess.
//!
//! Invariant: it is given to whoever shows a key of this index, and to nobody else, whatever may be read here by everybody; and to
//! nobody at all where anybody may join, since installs take an index that has one for their organisation's own.

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use mcpindex_store::Store;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Caller;
use crate::app::App;
use crate::assets::hex;
use crate::problem::Problem;

/// The key.
#[derive(Serialize, ToSchema)]
pub(crate) struct FingerprintKeyBody {
    /// 64 hex digits.
    key: String,
}

/// The key under which this organisation's installs make fingerprints.
#[utoipa::path(
    get,
    path = "/api/v1/fingerprint-key",
    tag = "signals",
    security(("key" = [])),
    responses(
        (status = 200, body = FingerprintKeyBody),
        (status = 403, description = "Anybody may join this index, so there is no organisation whose own it is"),
    )
)]
pub(crate) async fn fingerprint_key(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    if !matches!(caller, Caller::Key(_)) {
        return Err(Problem::unauthorized());
    }
    if app.login.is_open_to_the_public() {
        return Err(Problem::forbidden(
            "anybody may join this index (`everyone:github` or `everyone:google`), so it is no organisation's own and has no \
             fingerprint key; use the public constant"
                .to_owned(),
        ));
    }
    let key = organisation_key(&app.store).await?;
    let body = Json(FingerprintKeyBody { key: hex(&key) });
    Ok(([(CACHE_CONTROL, "no-store")], body).into_response())
}

/// The organisation's key, which is made when it is first asked for.
pub(crate) async fn organisation_key(store: &Store) -> Result<[u8; 32], Problem> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|error| Problem::internal(&error))?;
    Ok(store.organisation_key(fresh).await?)
}
