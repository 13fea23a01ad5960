//! The API's description (OpenAPI 3.1), made from the handlers and from the types that they answer with.
//!
//! Each handler says what is its own (`#[utoipa::path]`); what all have in common is added here once: the problem as the
//! body of every failure without a body of its own, the failures that any address may answer, 304 on reads, names of
//! operations.
//!
//! Invariant: it names exactly the routes and methods that programs can call, which a test holds against the router; it is the
//! same text for every installation, so that it can be checked in.

use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::api;
use crate::api::shapes::StateName;
use crate::measure;
use crate::problem::ProblemBody;

/// One line for each route, in the order of the router's table.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "mcpindex",
        description = "What MCP servers declared, what changed, and who saw it. Members named `untrusted_…` are a server's own words.",
    ),
    paths(
        api::servers::servers,
        api::servers::server,
        api::servers::tools,
        api::servers::observations,
        api::drifts::server_drifts,
        api::drifts::drifts,
        api::drifts::drift,
        api::definitions::definition,
        api::fingerprint_key::fingerprint_key,
        api::search::search,
        api::ledger::ledger,
        api::crawl::crawl,
        api::check::check,
        api::trust::server,
        api::trust::tool,
        api::vocabulary::vocabulary,
        api::sign_in::published_start,
        api::sign_in::cli_token,
        api::sign_in::device_code,
        api::sign_in::device_token,
        api::keys::whoami,
        api::keys::list,
        api::keys::create,
        api::keys::report_leak,
        api::keys::revoke,
        api::keys::rotate,
        api::feed_path::look,
        api::feed_path::make,
        api::feed_path::end,
        api::approvals::since,
        api::approvals::add,
        api::approvals::take_back,
        api::queue::waiting,
        api::queue::ask,
        api::registry::servers,
        api::registry::versions,
        api::registry::version,
        api::webhooks::list,
        api::webhooks::create,
        api::webhooks::remove,
        api::webhooks::test,
        api::webhooks::deliveries,
        api::webhooks::redeliver,
        api::health::healthz,
        api::health::readyz,
        measure::metrics,
        api::signals::index,
        api::signals::drift,
        api::receipts::receipts,
        api::signals::register,
        api::signals::revoke,
        api::signals::any,
        api::signals::any_of_many,
        openapi,
    ),
    components(schemas(ProblemBody<'static>, StateName)),
    tags(
        (name = "index", description = "Servers, what they declare, and what changed"),
        (name = "signals", description = "What installs tell and ask, in the published clients' shapes"),
        (name = "sign-in", description = "How programs get a key when somebody signs in"),
        (name = "keys", description = "A person's keys, and what became of them"),
        (name = "registry", description = "The read API of the official registry, for hosts that enforce one"),
        (name = "approvals", description = "What the organisation decided about tools; with a key"),
        (name = "webhooks", description = "Who outside is told, and what became of it; for admins"),
        (name = "operation", description = "For whoever runs or looks for an index"),
    ),
    // Whoever may read does so without; members show a key where the index is theirs alone.
    security((), ("key" = [])),
)]
struct Document;

/// The methods of an OpenAPI path.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// What any address may answer, beside what its handler says.
const EVERYWHERE: [(&str, &str); 3] = [
    (
        "400",
        "The request can't be read; the problem names what is wrong",
    ),
    (
        "500",
        "It failed on our side; the cause is in the log under the request id",
    ),
    ("503", "Not available right now; try again in a moment"),
];

/// What an address that is not public may answer besides.
const FOR_MEMBERS: [(&str, &str); 3] = [
    (
        "401",
        "A key is needed and there is none, or the one that is shown doesn't work",
    ),
    ("403", "The key may not do this"),
    (
        "429",
        "Too many keys that don't work came from this address; `Retry-After` says when to come again",
    ),
];

/// The document as text, indented, with a line break at its end.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{:#}\n", document()))
}

/// The document.
pub fn document() -> Value {
    let mut described = Document::openapi();
    let schemes = &mut described.components.get_or_insert_default().security_schemes;
    for (name, about) in [
        ("key", "A key of this index: `mcpk_…`"),
        (
            "install",
            "An install's token, as `POST /api/v1/drift/register` gave it",
        ),
    ] {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(about));
        schemes.insert(name.to_owned(), SecurityScheme::Http(scheme.build()).into());
    }
    // A type of ours always has a JSON form.
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for method in METHODS {
            if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                complete(method, path, operation);
            }
        }
    }
    document
}

/// Adds what all operations have in common.
fn complete(method: &str, path: &str, operation: &mut Map<String, Value>) {
    operation.insert("operationId".to_owned(), operation_id(method, path).into());
    // `security(())` alone names an address where keys are not looked at.
    let is_public = operation.get("security").is_some_and(|ways| *ways == json!([{}]));
    let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) else {
        return;
    };
    let for_members: &[_] = if is_public { &[] } else { &FOR_MEMBERS };
    for (status, about) in EVERYWHERE.iter().chain(for_members) {
        let response = responses
            .entry(*status)
            .or_insert_with(|| json!({ "description": about }));
        with_problem(response);
    }
    for (status, response) in responses.iter_mut() {
        if response.get("description").is_none() {
            response["description"] = "The answer".into();
        }
        if status.starts_with(['4', '5']) && response.get("content").is_none() {
            with_problem(response);
        }
    }
    if method == "get" && responses.contains_key("200") {
        let unchanged =
            json!({ "description": "Unchanged since the answer with the `ETag` in `If-None-Match`" });
        responses.entry("304").or_insert(unchanged);
    }
}

/// The problem as one of the bodies of an answer.
fn with_problem(response: &mut Value) {
    response["content"]["application/problem+json"] =
        json!({ "schema": { "$ref": "#/components/schemas/Problem" } });
}

/// `get /api/v1/servers/{identity}` is `get_servers_identity`.
fn operation_id(method: &str, path: &str) -> String {
    let path = path.strip_prefix("/api/v1").unwrap_or(path);
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = [method]
        .into_iter()
        .chain(words)
        .filter(|word| !word.is_empty())
        .collect();
    words.join("_")
}

/// This description.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    tag = "operation",
    responses((status = 200, body = Value, description = "OpenAPI 3.1"))
)]
pub(crate) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], text()).into_response()
}
