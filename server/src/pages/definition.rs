//! One definition: the text that a digest stands for, to read and to download.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::json::Value;

use super::{Frame, page};
use crate::api::definitions::find;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::when::{When, when};
use crate::words::Words;

#[derive(Template)]
#[template(path = "definition.html")]
struct DefinitionPage {
    frame: Frame,
    digest: String,
    is_raw: bool,
    first_seen: Option<When>,
    declared_by: Vec<DeclarationView>,
    /// Indented, where the text is JSON; as it is otherwise.
    text: Words,
    indented: bool,
    bytes: usize,
    download: String,
    api: String,
}

struct DeclarationView {
    server: Words,
    href: String,
    kind: String,
    name: Words,
}

/// `GET /definitions/{digest}`
pub(crate) async fn definition(
    State(app): State<App>,
    Path(digest): Path<String>,
) -> Result<Response, Problem> {
    let found = find(&app, &digest).await?;
    let definition = Definition::read(&found.text);
    let indented = definition.value().map(|value| match value {
        // Instructions are a string alone.
        Value::String(text) => text.clone(),
        value => value.to_pretty(),
    });
    let declaration = |(identity, kind, name): &(String, String, String)| DeclarationView {
        server: Words::name(identity),
        href: links::server_page_of(identity),
        kind: kind.replace('-', " "),
        name: Words::label(name),
    };
    page(&DefinitionPage {
        frame: Frame::new(&app, ""),
        is_raw: found.digest.is_raw(),
        first_seen: when(found.first_seen_at, app.now()),
        declared_by: found.declared_by.iter().map(declaration).collect(),
        indented: indented.is_some(),
        text: Words::text(indented.as_deref().unwrap_or(&found.text)),
        bytes: found.text.len(),
        download: format!("{}/text", links::definition_page(&found.digest)),
        api: links::definition_api(&found.digest),
        digest: found.digest.to_string(),
    })
}

/// `GET /definitions/{digest}/text`: the exact bytes that the digest covers, as a download.
pub(crate) async fn text(State(app): State<App>, Path(digest): Path<String>) -> Result<Response, Problem> {
    let found = find(&app, &digest).await?;
    let name = found.digest.to_string().replace(':', "-");
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.txt\""),
        ),
    ];
    Ok((headers, found.text).into_response())
}
