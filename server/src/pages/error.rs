//! A problem as a page, and what answers an address that the table doesn't have.

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Redirect, Response};

use super::Frame;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::words::Words;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: Frame,
    problem: &'a Problem,
    /// The detail as a sentence, in turn plain and (between backticks) as code.
    detail: Vec<DetailPart>,
    request_id: &'a str,
}

struct DetailPart {
    words: Words,
    is_code: bool,
}

/// A problem's detail is one line for logs and programs: lower case, code in backticks, no full stop.
fn sentence(detail: &str) -> Vec<DetailPart> {
    let mut characters = detail.chars();
    let capital = characters
        .next()
        .map(|first| first.to_uppercase().collect::<String>());
    let sentence = capital.unwrap_or_default() + characters.as_str() + ".";
    let part = |(position, text): (usize, &str)| DetailPart {
        words: Words::name(text),
        is_code: position % 2 == 1,
    };
    sentence.split('`').enumerate().map(part).collect()
}

/// The page of a problem.
pub(crate) fn error_page(app: &App, problem: &Problem, request_id: &str) -> Response {
    let page = ErrorPage {
        frame: Frame::new(app, ""),
        problem,
        detail: sentence(&problem.detail),
        request_id,
    };
    match page.render() {
        Ok(html) => (problem.status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(cause = %error, "the error page can't be written");
            (StatusCode::INTERNAL_SERVER_ERROR, problem.title).into_response()
        }
    }
}

/// Everything that no route answers. An identity typed with its slashes leads to its server's page; in the API it is told
/// how to write it.
pub(crate) async fn no_such_address(State(app): State<App>, uri: Uri) -> Result<Redirect, Problem> {
    let path = uri.path();
    if path.starts_with("/api/v1/servers/") {
        return Err(Problem::not_encoded());
    }
    let Some(reference) = path.strip_prefix("/servers/").filter(|rest| !rest.is_empty()) else {
        return Err(Problem::no_page());
    };
    let server = app.server(reference).await?;
    Ok(Redirect::permanent(&links::server_page(&server.short_id)))
}
