//! The crawl as it goes: how much is looked at, waits and fails, by source and state, and what each registry tells of.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use mcpindex_store::sources::{Coverage, SourceRecord};
use mcpindex_store::targets::Target;

use super::{Frame, StateView, page};
use crate::app::App;
use crate::crawl::{Crawl, Totals};
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State as Standing;
use crate::when::{When, stretch, when};
use crate::words::Words;

#[derive(Template)]
#[template(path = "crawl.html")]
struct CrawlPage {
    frame: Frame,
    totals: Totals,
    states: Vec<(StateView, i64, String)>,
    sources: Vec<(Words, Totals)>,
    registries: Vec<RegistryView>,
    running: Vec<TargetView>,
    failing: Vec<TargetView>,
}

struct RegistryView {
    address: Words,
    every: String,
    is_read: bool,
    read: Option<When>,
    tried: Option<When>,
    problem: Option<Words>,
    skipped: i64,
    coverage: Coverage,
}

struct TargetView {
    identity: Words,
    version: Option<Words>,
    href: String,
    state: StateView,
    failures: i64,
    due: Option<When>,
}

/// `GET /crawl`.
pub(crate) async fn crawl(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    Query::strict(&uri, &[])?;
    let now = app.now();
    let crawl = Crawl::look(&app.store, now).await?;
    let state = |(outcome, count)| {
        let name = Standing(outcome).name().to_owned();
        let href = links::with_query("/servers", &[("state", Some(name))]);
        (Standing(outcome).into(), count, href)
    };
    let target = |target: Target| target_view(target, now);
    page(&CrawlPage {
        frame: Frame::new(&app, "crawl"),
        totals: crawl.totals,
        states: crawl.outcomes.into_iter().map(state).collect(),
        sources: crawl
            .sources
            .into_iter()
            .map(|(source, totals)| (Words::label(&source), totals))
            .collect(),
        registries: crawl
            .registries
            .iter()
            .map(|(source, coverage)| registry_view(source, *coverage, now))
            .collect(),
        running: crawl.running.into_iter().map(target).collect(),
        failing: crawl.failing.into_iter().map(target).collect(),
    })
}

fn registry_view(source: &SourceRecord, coverage: Coverage, now: i64) -> RegistryView {
    RegistryView {
        address: Words::label(&source.address),
        every: stretch(source.every),
        is_read: source.is_read,
        read: source.read_at.and_then(|at| when(at, now)),
        tried: source.tried_at.and_then(|at| when(at, now)),
        problem: source.problem.as_deref().map(Words::text),
        skipped: source.skipped,
        coverage,
    }
}

fn target_view(target: Target, now: i64) -> TargetView {
    TargetView {
        href: links::server_page_of(&target.identity),
        identity: Words::label(&target.identity),
        version: target.version.as_deref().map(Words::label),
        state: Standing(target.outcome).into(),
        failures: target.failures,
        due: target.due.and_then(|at| when(at, now)),
    }
}
