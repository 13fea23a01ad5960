//! What installs tell of calls, in the published client's own shape, errors included.
//!
//! Invariant: a batch is refused whole, with nothing kept, or all of it is durable when it is answered.

use std::collections::BTreeSet;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use mcpindex_contract::receipt;
use mcpindex_store::receipts::ReceivedReceipt;
use mcpindex_store::signals::Network;

use super::shapes::ReceiptBatch;
use super::signals::{Asked, BUSY, MAX_BATCH_BODY, NOT_FOUND, Refusal, RefusalBody, refusal};
use crate::access::limits::Counted;
use crate::app::App;
use crate::measure;

/// Takes a batch of receipts in; acknowledged when it is durable.
#[utoipa::path(
    post,
    path = "/api/v1/receipts",
    tag = "signals",
    security((), ("install" = []), ("key" = [])),
    request_body = ReceiptBatch,
    responses(
        (status = 204, description = "All of it is kept"),
        (status = 400, body = RefusalBody, description = "`invalid_json` or `invalid_receipt`; nothing of it is kept"),
        (status = 404, body = RefusalBody, description = "Receipts are not taken here"),
        (status = 413, body = RefusalBody, description = "More than 1 MiB"),
        (status = 415, body = RefusalBody, description = "Not `application/json`"),
        (status = 429, body = RefusalBody, description = "More than one address may send; `Retry-After` says when to come again"),
        (status = 503, body = RefusalBody, description = "`busy`: nothing of it is kept; `Retry-After` says when to come again"),
    )
)]
pub(crate) async fn receipts(State(app): State<App>, request: Request) -> Response {
    let response = match take_in(&app, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    };
    measure::batch("receipts", response.status());
    response
}

async fn take_in(app: &App, request: Request) -> Result<(), Refusal> {
    let mut asked = Asked::of(app, request)?;
    if asked.ingest.receipts.is_none() {
        return Err(NOT_FOUND);
    }
    asked.is_json()?;
    asked.limit(Counted::ReceiptBatches, 1)?;
    let body = asked.body(MAX_BATCH_BODY).await?;
    let batch = receipt::read(&body).map_err(|error| {
        tracing::debug!(%error, "a batch of receipts was refused");
        refusal(StatusCode::BAD_REQUEST, error.name())
    })?;
    asked.limit(Counted::Receipts, batch.receipts.len())?;
    let authenticated = match asked.token() {
        Some(token) => {
            let install = BTreeSet::from([batch.install]);
            let proved = app.store.installs_of_token(&install, token).await;
            let proved = proved.map_err(|error| {
                measure::store_error(&error);
                tracing::error!(%error, "a token could not be looked up");
                BUSY
            })?;
            !proved.is_empty()
        }
        None => false,
    };
    let network = Network::of(asked.address);
    let received = batch.receipts.into_iter().map(|receipt| ReceivedReceipt {
        install: batch.install,
        receipt,
        network: network.clone(),
        authenticated,
    });
    let queue = asked.ingest.receipts.as_ref().ok_or(NOT_FOUND)?;
    queue.put(received.collect()).await.map_err(|_| BUSY)
}
