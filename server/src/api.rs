//! The JSON API under `/api/v1`: what the index knows, for programs.
//!
//! Shapes are structs of their own, never the store's records, so that a change of the database is no change of the API.
//! Times are RFC 3339; lists are `{items, next}`, where `next` is a path or null.
//!
//! Invariant: text that a server wrote stands only in members named `untrusted_…` (names of tools and places in schemas
//! excepted, which are keys), and what could not be determined is null beside `determined: false`, never empty.

pub(crate) mod approvals;
pub(crate) mod check;
pub(crate) mod crawl;
pub(crate) mod definitions;
pub(crate) mod drifts;
pub(crate) mod feed_path;
pub(crate) mod fingerprint_key;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod queue;
pub(crate) mod receipts;
pub(crate) mod registry;
pub(crate) mod search;
pub(crate) mod servers;
pub(crate) mod shapes;
pub(crate) mod sign_in;
pub(crate) mod signals;
pub(crate) mod trust;
pub(crate) mod vocabulary;
pub(crate) mod webhooks;

use axum::body::Bytes;
use axum::extract::Request;
use mcpindex_contract::digest::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::problem::Problem;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<Item> {
    items: Vec<Item>,
    /// The path of the next page; null on the last.
    next: Option<String>,
}

impl<Item> Page<Item> {
    /// A page of at most `limit` of the items, of which one more than that was asked for; `next` makes the path that goes
    /// on after the last one shown.
    fn cut<Row>(
        mut rows: Vec<Row>,
        limit: i64,
        next: impl FnOnce(&Row) -> String,
        item: impl FnMut(&Row) -> Item,
    ) -> Page<Item> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        Page {
            next: rows.last().filter(|_| more).map(next),
            items: rows.iter().map(item).collect(),
        }
    }
}

/// The whole body of a request.
pub(crate) async fn bytes_of(request: Request) -> Result<Bytes, Problem> {
    use axum::extract::FromRequest as _;
    Bytes::from_request(request, &()).await.map_err(|rejection| {
        let detail = "the body is larger than this address takes, or broke off";
        Problem::wrong_body(rejection.status(), detail.to_owned())
    })
}

/// A JSON body, of which `expected` says what it should hold.
async fn body_of<T: DeserializeOwned>(request: Request, expected: &str) -> Result<T, Problem> {
    let body = bytes_of(request).await?;
    serde_json::from_slice(&body).map_err(|_| Problem::bad_body(expected))
}

/// Whether a digest covers canonical text or the text as sent.
fn digest_kind(digest: &Digest) -> &'static str {
    if digest.is_raw() { "raw" } else { "canonical" }
}
