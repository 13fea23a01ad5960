//! Definitions by digest: the exact text that a digest stands for.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use mcpindex_contract::digest::Digest;
use mcpindex_store::definitions::StoredDefinition;
use serde::Serialize;
use utoipa::ToSchema;

use super::digest_kind;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::when::rfc3339;

/// The text that a digest stands for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionBody {
    digest: String,
    /// `canonical`: the text is RFC 8785 without `_meta`; `raw`: it is the text as sent.
    digest_kind: &'static str,
    untrusted_text: String,
    first_seen_at: Option<String>,
    /// At most 50.
    declared_by: Vec<DeclarationBody>,
}

/// Who declared it.
#[derive(Debug, Serialize, ToSchema)]
struct DeclarationBody {
    identity: String,
    kind: String,
    name: String,
    server: String,
}

/// The definition of a digest as written in a path.
pub(crate) async fn find(app: &App, digest: &str) -> Result<StoredDefinition, Problem> {
    let shown: String = digest.chars().take(100).collect();
    let Ok(digest) = digest.parse::<Digest>() else {
        return Err(Problem::unknown(
            "unknown-definition",
            "No such definition",
            format!("`{shown}` is no digest: expected `sha256:` or `raw-sha256:` and 64 hex digits"),
        ));
    };
    app.store.definition(&digest).await?.ok_or_else(|| {
        Problem::unknown(
            "unknown-definition",
            "No such definition",
            format!(
                "nothing in this index has the digest {digest}; a server's tools and their digests are at \
                 `/api/v1/servers/{{identity}}/tools`"
            ),
        )
    })
}

/// The exact text that a digest stands for, and who declared it.
#[utoipa::path(
    get,
    path = "/api/v1/definitions/{digest}",
    tag = "index",
    params(("digest" = String, Path, description = "`sha256:` or `raw-sha256:` and 64 hex digits")),
    responses((status = 200, body = DefinitionBody), (status = 404, description = "No such definition"))
)]
pub(crate) async fn definition(
    State(app): State<App>,
    Path(digest): Path<String>,
    uri: Uri,
) -> Result<Json<DefinitionBody>, Problem> {
    Query::strict(&uri, &[])?;
    let definition = find(&app, &digest).await?;
    let declaration = |(identity, kind, name): &(String, String, String)| DeclarationBody {
        identity: identity.clone(),
        kind: kind.clone(),
        name: name.clone(),
        server: format!("/api/v1/servers/{}", links::segment(identity)),
    };
    Ok(Json(DefinitionBody {
        digest: definition.digest.to_string(),
        digest_kind: digest_kind(&definition.digest),
        first_seen_at: rfc3339(definition.first_seen_at),
        declared_by: definition.declared_by.iter().map(declaration).collect(),
        untrusted_text: definition.text,
    }))
}
