//! The read API of the official registry, `/v0.1`: servers, their versions, one version.
//!
//! Invariant: answers and errors have the official form (`{"error": …}`); any page may read them (CORS), and who may is a switch of
//! its own, since hosts that enforce a registry may send no key.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::problem::{AsPublished, Problem};
use crate::query::Query;
use crate::registry::name::is_name;
use crate::registry::{EntryBody, Wanted, entries, of_name, page};
use crate::when::unix;

/// Where all of it is.
pub(crate) const ROOT: &str = "/v0.1/";
/// Entries of one answer, when the asker doesn't say.
const PAGE: i64 = 30;
const MOST: i64 = 100;

/// A page of entries.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServersBody {
    servers: Vec<EntryBody>,
    metadata: MetadataBody,
}

/// What stands beside a page.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegistryMetadata)]
struct MetadataBody {
    count: usize,
    /// Absent at the end.
    #[serde(rename = "nextCursor", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// The official error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegistryError)]
pub(crate) struct ErrorBody<'d> {
    error: &'d str,
}

/// A failed answer in the official form.
pub(crate) fn error(problem: &Problem) -> Response {
    let body = Json(ErrorBody {
        error: &problem.detail,
    });
    let mut response = (problem.status, body).into_response();
    response.extensions_mut().insert(AsPublished);
    response
}

/// Lets pages of others read an answer.
pub(crate) fn open_to_pages(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("ETag, Retry-After, X-Request-Id"),
    );
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("cross-origin"),
    );
}

/// What a browser asks before it sends a key along.
pub(crate) async fn preflight() -> Response {
    let headers = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, OPTIONS"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type, If-None-Match, X-Request-Id",
        ),
        (ACCESS_CONTROL_MAX_AGE, "86400"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Servers in the official form, by the registry's policy. What is delisted is there as `deleted` with `include_deleted`, and with
/// `updated_since`, so that mirrors learn it.
#[utoipa::path(
    get,
    path = "/v0.1/servers",
    tag = "registry",
    params(
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 100, description = "Entries of one answer; 30"),
        ("search" = Option<String>, Query, description = "What the name holds, in any case"),
        ("updated_since" = Option<String>, Query, description = "RFC 3339"),
        ("version" = Option<String>, Query, description = "`latest`, or one version"),
        ("include_deleted" = Option<bool>, Query, description = "Whether what is delisted is there too"),
    ),
    responses(
        (status = 200, body = ServersBody),
        (status = 400, body = ErrorBody<'static>, description = "A parameter can't be used"),
        (status = 401, body = ErrorBody<'static>, description = "`[access] registry` is `members`, and no key was sent"),
    )
)]
pub(crate) async fn servers(State(app): State<App>, uri: Uri) -> Result<Json<ServersBody>, Problem> {
    // Hosts send parameters of later versions too: those that are not known are nobody's business.
    let query = Query::lenient(&uri);
    let updated_since = query.value("updated_since").map(|text| {
        unix(text).ok_or_else(|| Problem::bad_parameter("updated_since", "a time like 2026-12-31T00:00:00Z"))
    });
    let updated_since = updated_since.transpose()?;
    let include_deleted = match query.value("include_deleted") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_parameter("include_deleted", "`true` or `false`")),
    };
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(PAGE);
    let wanted = Wanted {
        after: query.value("cursor").map(place).transpose()?,
        search: query.line("search")?,
        updated_since,
        version: query.line("version")?,
        deleted: include_deleted || updated_since.is_some(),
        limit: usize::try_from(limit).unwrap_or(1),
    };
    let (servers, next) = page(&app, &wanted).await?;
    Ok(Json(ServersBody {
        metadata: MetadataBody {
            count: servers.len(),
            next_cursor: next.map(|(identity, version)| format!("{identity} {version}")),
        },
        servers,
    }))
}

/// The last entry of the page before: its server and its version.
fn place(cursor: &str) -> Result<(String, String), Problem> {
    let place = cursor
        .split_once(' ')
        .filter(|_| cursor.len() <= 4_096 && !cursor.contains('\0'));
    match place {
        Some((identity, version)) => Ok((identity.to_owned(), version.to_owned())),
        None => Err(Problem::bad_parameter(
            "cursor",
            "`nextCursor` of the page before",
        )),
    }
}

/// All versions of a server, the newest first.
#[utoipa::path(
    get,
    path = "/v0.1/servers/{name}/versions",
    tag = "registry",
    params(("name" = String, Path, description = "The server's name in this registry, percent-encoded")),
    responses(
        (status = 200, body = ServersBody),
        (status = 404, body = ErrorBody<'static>, description = "No server of that name is listed"),
    )
)]
pub(crate) async fn versions(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<ServersBody>, Problem> {
    let listed = found(&app, &name).await?;
    let entries = entries(&listed, &Wanted::default(), None);
    let servers: Vec<EntryBody> = entries.iter().map(|entry| entry.body(&app)).collect();
    Ok(Json(ServersBody {
        metadata: MetadataBody {
            count: servers.len(),
            next_cursor: None,
        },
        servers,
    }))
}

/// One version of a server, or its `latest`.
#[utoipa::path(
    get,
    path = "/v0.1/servers/{name}/versions/{version}",
    tag = "registry",
    params(
        ("name" = String, Path, description = "The server's name in this registry, percent-encoded"),
        ("version" = String, Path, description = "`latest`, or one version"),
    ),
    responses(
        (status = 200, body = EntryBody),
        (status = 404, body = ErrorBody<'static>, description = "No server of that name is listed, or no such version"),
    )
)]
pub(crate) async fn version(
    State(app): State<App>,
    Path((name, version)): Path<(String, String)>,
) -> Result<Json<EntryBody>, Problem> {
    let listed = found(&app, &name).await?;
    let wanted = Wanted {
        version: Some(version),
        ..Wanted::default()
    };
    match entries(&listed, &wanted, None).first() {
        Some(entry) => Ok(Json(entry.body(&app).with_verdict(&app, &listed).await?)),
        None => Err(Problem::not_listed("no such version of the server is listed")),
    }
}

async fn found(app: &App, name: &str) -> Result<crate::registry::Listed, Problem> {
    if !is_name(name) {
        return Err(Problem::not_listed("that is no server's name"));
    }
    let listed = of_name(app, name).await?;
    listed.ok_or_else(|| Problem::not_listed("no server of that name is listed"))
}
