//! `/llms.txt`: what this index is and how an agent asks it, for an agent that found the address.
//!
//! Invariant: it says the same to everybody, and nothing of what is in the index.

use askama::Template;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::access::Read;
use crate::app::App;
use crate::mcp;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "llms.txt", whitespace = "preserve")]
struct ForAgents<'a> {
    /// The address of the pages, with a slash at its end.
    base: &'a str,
    /// Whether a key is needed.
    members: bool,
    /// Whether a program can get one by signing somebody in.
    sign_in: bool,
    /// What can be called over MCP, and what that does.
    tools: Vec<(&'a str, &'a str)>,
}

/// `GET /llms.txt`
pub(crate) async fn llms(State(app): State<App>) -> Result<Response, Problem> {
    let page = ForAgents {
        base: app.base.as_str(),
        members: app.access.rules.read == Read::Members,
        sign_in: app.login.is_on(),
        tools: mcp::tools().collect(),
    };
    let text = page.render().map_err(|error| Problem::internal(&error))?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}
