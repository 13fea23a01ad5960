//! The stream of drifts of all servers, newest first.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;

use super::{DriftView, Frame, page};
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;

/// Drifts on a page.
const PER_PAGE: usize = 50;

#[derive(Template)]
#[template(path = "drifts.html")]
struct DriftsPage {
    frame: Frame,
    total: i64,
    drifts: Vec<DriftView>,
    later: bool,
    next: Option<String>,
}

/// `GET /drifts?before=`
pub(crate) async fn drifts(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let before = Query::lenient(&uri).before("before")?;
    let now = app.now();
    let mut rows = app.store.drifts(None, before, PER_PAGE as i64 + 1).await?;
    let more = rows.len() > PER_PAGE;
    rows.truncate(PER_PAGE);
    page(&DriftsPage {
        frame: Frame::new(&app, "drifts").with_drifts_feed(),
        total: app.store.count_drifts().await?,
        drifts: rows.iter().map(|drift| DriftView::new(drift, now)).collect(),
        later: before.is_some(),
        next: rows
            .last()
            .filter(|_| more)
            .map(|last| links::with_query("/drifts", &[("before", Some(last.id.to_string()))])),
    })
}
