//! Full text over names, tools and what servers say of themselves.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use mcpindex_store::search::{Found, Matched, Place};
use serde::Serialize;
use utoipa::ToSchema;

use super::Page;
use super::servers::{ServerBody, server_body};
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;

/// A server that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FoundBody {
    server: ServerBody,
    /// Where all words were found: `name`, in names of its tools too (`tool`), or in what they say of themselves too (`text`).
    matched: &'static str,
    /// Tools in whose names a word was found, at most 10.
    tools: Vec<String>,
}

/// Servers by words, the closest first.
#[utoipa::path(
    get,
    path = "/api/v1/search",
    tag = "index",
    params(
        ("q" = String, Query, max_length = 200, description = "Words, of which each must begin a word of the server's names, tools or texts"),
        ("after" = Option<String>, Query, max_length = 2100, description = "From `next` of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 50, description = "Servers on a page; 20"),
    ),
    responses((status = 200, body = Page<FoundBody>))
)]
pub(crate) async fn search(State(app): State<App>, uri: Uri) -> Result<Json<Page<FoundBody>>, Problem> {
    let query = Query::strict(&uri, &["q", "after", "limit"])?;
    let question = query
        .line("q")?
        .ok_or_else(|| Problem::bad_parameter("q", "words to search for"))?;
    let limit = query.number("limit", 1..=50)?.unwrap_or(20);
    let after = match query.identity("after")? {
        Some(after) => {
            Some(place(&after).ok_or_else(|| Problem::bad_parameter("after", "what `next` says"))?)
        }
        None => None,
    };
    let rows = app.store.search(&question, after.as_ref(), limit + 1).await?;
    let next = |last: &Found| {
        let place = &last.place;
        let after = format!(
            "{} {} {}",
            place.matched.name(),
            place.names_length,
            place.identity
        );
        let parameters = [
            ("q", Some(question.clone())),
            ("after", Some(after)),
            ("limit", Some(limit.to_string())),
        ];
        links::with_query("/api/v1/search", &parameters)
    };
    Ok(Json(Page::cut(rows, limit, next, found_body)))
}

fn place(text: &str) -> Option<Place> {
    let mut parts = text.splitn(3, ' ');
    Some(Place {
        matched: Matched::from_name(parts.next()?)?,
        names_length: parts.next()?.parse().ok()?,
        identity: parts.next()?.to_owned(),
    })
}

fn found_body(found: &Found) -> FoundBody {
    FoundBody {
        server: server_body(&found.server),
        matched: found.matched.name(),
        tools: found.tools.clone(),
    }
}
