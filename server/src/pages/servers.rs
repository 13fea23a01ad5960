//! The list of servers, which is also what a search finds.

use askama::Template;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use mcpindex_store::servers::{ServerFilter, ServerRecord, StandingFilter};

use super::{Frame, StateView, page};
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::state::State as Standing;
use crate::when::{When, when};
use crate::words::Words;

/// Servers on a page.
const PER_PAGE: usize = 50;

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage {
    frame: Frame,
    search: String,
    state: Option<&'static str>,
    /// The names of all states, for the form.
    states: Vec<StateView>,
    servers: Vec<ServerView>,
    /// Whether this is a page after the first.
    later: bool,
    first: String,
    next: Option<String>,
}

struct ServerView {
    name: Words,
    href: String,
    aliases: Vec<Words>,
    state: StateView,
    version: Option<Words>,
    tools: Option<i64>,
    drifts: i64,
    looked: Option<When>,
}

/// `GET /servers?search=&state=&after=`
pub(crate) async fn servers(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::lenient(&uri);
    let now = app.now();
    let state = query.state()?;
    let filter = ServerFilter {
        search: query.line("search")?,
        standing: state.map_or(StandingFilter::Any, Standing::filter),
        after: query.identity("after")?,
        limit: PER_PAGE as i64 + 1,
    };
    let mut rows = app.store.servers(&filter).await?;
    let more = rows.len() > PER_PAGE;
    rows.truncate(PER_PAGE);
    let state = state.map(Standing::name);
    let path = |after: Option<String>| {
        let parameters = [
            ("search", filter.search.clone()),
            ("state", state.map(str::to_owned)),
            ("after", after),
        ];
        links::with_query("/servers", &parameters)
    };
    let server = |server: &ServerRecord| ServerView {
        name: Words::name(&server.identity),
        href: links::server_page(&server.short_id),
        aliases: server.aliases.iter().map(|alias| Words::label(alias)).collect(),
        state: Standing(server.outcome).into(),
        version: server.current_version.as_deref().map(Words::label),
        tools: server.tools,
        drifts: server.drifts,
        looked: server.looked_at.and_then(|at| when(at, now)),
    };
    let frame = Frame::new(&app, "servers");
    page(&ServersPage {
        frame: match &filter.search {
            Some(words) => frame.with_feed(
                format!("Drifts of servers found by “{}”", Words::plain(words)),
                links::search_feed(words),
            ),
            None => frame,
        },
        state,
        states: Standing::all().map(StateView::from).collect(),
        servers: rows.iter().map(server).collect(),
        later: filter.after.is_some(),
        first: path(None),
        next: rows
            .last()
            .filter(|_| more)
            .map(|last| path(Some(last.identity.clone()))),
        search: filter.search.clone().unwrap_or_default(),
    })
}
