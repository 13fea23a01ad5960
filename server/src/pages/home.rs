//! The home page: search, what drifted lately, how the servers stand, and how far a first crawl is.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Redirect, Response};
use mcpindex_store::targets::Progress;

use super::{DriftView, Frame, StateView, page};
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State as Standing;
use crate::when::stretch;

/// How many drifts are shown before "all drifts".
const LATEST: i64 = 12;

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    counts: Vec<CountView>,
    servers: i64,
    drift_count: i64,
    drifts: Vec<DriftView>,
    /// One-off looks, while some are still to do.
    progress: Option<Progress>,
    /// How often servers are looked at, when this process does it.
    every: Option<EveryView>,
}

/// Two stretches of time.
struct EveryView {
    package: String,
    remote: String,
}

struct CountView {
    state: StateView,
    count: i64,
    /// The list of these servers.
    href: String,
}

/// `GET /`; with `?q=` it leads to the search.
pub(crate) async fn home(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    if let Some(search) = Query::lenient(&uri).line("q")? {
        let path = links::with_query("/servers", &[("search", Some(search))]);
        return Ok(Redirect::to(&path).into_response());
    }
    let now = app.now();
    let mut counts = app.store.count_by_outcome().await?;
    counts.sort_by_key(|(outcome, _)| (outcome.is_none(), *outcome));
    let drifts = app.store.drifts(None, None, LATEST).await?;
    let progress = app.store.progress().await?;
    page(&HomePage {
        frame: Frame::new(&app, "").with_drifts_feed(),
        servers: counts.iter().map(|(_, count)| count).sum(),
        counts: counts
            .into_iter()
            .map(|(outcome, count)| CountView {
                href: links::with_query(
                    "/servers",
                    &[("state", Some(Standing(outcome).name().to_owned()))],
                ),
                state: Standing(outcome).into(),
                count,
            })
            .collect(),
        drift_count: app.store.count_drifts().await?,
        drifts: drifts.iter().map(|drift| DriftView::new(drift, now)).collect(),
        progress: Some(progress).filter(|progress| progress.done < progress.total),
        every: app.crawling.map(|crawling| EveryView {
            package: stretch(crawling.every.package),
            remote: stretch(crawling.every.remote),
        }),
    })
}
