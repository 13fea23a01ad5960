//! Atom feeds (RFC 4287) of drifts: of all servers, of one, of those that some words find.
//!
//! A feed has the latest entries and no more; its ids are tag URIs (RFC 4151) that name the index and the drift, so that a reader
//! knows an entry again under whatever address the feed was read. All sentences are ours; what a server is called and its versions
//! are quoted, cut, and with every character written out that XML or a reader might stumble over.
//!
//! Invariant: a feed says nothing that the list of drifts does not say to the same reader; it is the same text until there is
//! another drift.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use mcpindex::visible::visible_within;
use mcpindex_contract::change::ChangeKind;
use mcpindex_store::drifts::DriftRecord;
use url::{Host, Url};

use crate::app::App;
use crate::links;
use crate::pages::cause_sentence;
use crate::problem::Problem;
use crate::query::Query;
use crate::summary::summary;
use crate::when::rfc3339;

/// Entries of a feed: what a reader that asks once a day needs.
const ENTRIES: i64 = 50;
/// Characters of an identity, and of a version.
const NAME: usize = 300;
const VERSION: usize = 60;
/// What a feed's file is called at its end.
const ENDING: &str = ".atom";

#[derive(Template)]
#[template(path = "feed.xml")]
struct Feed {
    id: String,
    title: String,
    subtitle: String,
    updated: String,
    /// The address that it was read at.
    this: String,
    /// The same for people.
    page: String,
    entries: Vec<Entry>,
}

struct Entry {
    id: String,
    title: String,
    updated: String,
    page: String,
    categories: Vec<String>,
    summary: String,
}

/// `GET /feeds/drifts.atom?q=`: of all servers, or of those that are found by these words.
pub(crate) async fn drifts(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let question = Query::lenient(&uri).line("q")?;
    let rows = match &question {
        None => app.store.drifts(None, None, ENTRIES).await?,
        Some(question) => app.store.drifts_found(question, ENTRIES).await?,
    };
    let asked = [("q", question.clone())];
    let (title, subtitle, page) = match &question {
        None => (
            "Drifts · mcpindex".to_owned(),
            "What MCP servers changed in what they declare.".to_owned(),
            "/drifts".to_owned(),
        ),
        Some(question) => (
            format!("Drifts of “{}” · mcpindex", quoted(question, NAME)),
            "What MCP servers that are found by these words changed in what they declare.".to_owned(),
            links::with_query("/servers", &[("search", Some(question.clone()))]),
        ),
    };
    let feed = Feed {
        id: tag(&app.base, &links::with_query("feeds/drifts", &asked)),
        title,
        subtitle,
        updated: updated(&rows, 0),
        this: links::absolute(&app.base, &links::with_query(uri.path(), &asked)),
        page: links::absolute(&app.base, &page),
        entries: rows.iter().filter_map(|drift| entry(&app.base, drift)).collect(),
    };
    written(&feed)
}

/// `GET /feeds/servers/{file}`: of one server, by its short id (or any name of it) and `.atom`.
pub(crate) async fn server(
    State(app): State<App>,
    Path(parameters): Path<Vec<(String, String)>>,
    uri: Uri,
) -> Result<Response, Problem> {
    // Under a person's own path there is a parameter before it.
    let file = parameters.last().map(|(_, file)| file.as_str());
    let reference = file
        .and_then(|file| file.strip_suffix(ENDING))
        .ok_or_else(Problem::no_page)?;
    let server = app.server(reference).await?;
    let rows = app.store.drifts(Some(&server.identity), None, ENTRIES).await?;
    let name = quoted(&server.identity, NAME);
    let feed = Feed {
        id: tag(&app.base, &format!("feeds/servers/{}", server.short_id)),
        title: format!("Drifts of {name} · mcpindex"),
        subtitle: "What this MCP server changed in what it declares.".to_owned(),
        updated: updated(&rows, server.added_at),
        this: links::absolute(&app.base, uri.path()),
        page: links::absolute(&app.base, &links::server_page(&server.short_id)),
        entries: rows.iter().filter_map(|drift| entry(&app.base, drift)).collect(),
    };
    written(&feed)
}

fn written(feed: &Feed) -> Result<Response, Problem> {
    match feed.render() {
        Ok(xml) => Ok(([(CONTENT_TYPE, "application/atom+xml; charset=utf-8")], xml).into_response()),
        Err(error) => Err(Problem::internal(&error)),
    }
}

/// When the newest of these drifts was found; of none, this time.
fn updated(rows: &[DriftRecord], of_none: i64) -> String {
    let newest = rows.iter().map(|drift| drift.found_at).max();
    rfc3339(newest.unwrap_or(of_none)).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned())
}

/// A drift as an entry; none of a time that no calendar has.
fn entry(base: &Url, drift: &DriftRecord) -> Option<Entry> {
    let name = quoted(&drift.identity, NAME);
    let version = |version: &Option<String>| version.as_deref().map(|version| quoted(version, VERSION));
    let mut text = match (version(&drift.before_version), version(&drift.after_version)) {
        (Some(before), Some(after)) => format!("{before} → {after}. "),
        _ => String::new(),
    };
    text.push_str(cause_sentence(&drift.cause));
    for (name, count) in &drift.kinds {
        let sentence = ChangeKind::from_name(name).map_or("", ChangeKind::sentence);
        text.push_str(&format!(" {name} ({count}): {sentence}"));
    }
    let mut categories: Vec<String> = drift.kinds.iter().map(|(kind, _)| kind.clone()).collect();
    if drift.safety_relevant {
        categories.insert(0, "safety-relevant".to_owned());
    }
    Some(Entry {
        id: tag(base, &format!("drifts/{}", drift.id)),
        title: format!("{name}: {}", summary(&drift.kinds, &drift.changed)),
        updated: rfc3339(drift.found_at)?,
        page: links::absolute(base, &links::drift_page(drift.id)),
        categories,
        summary: text,
    })
}

/// A text from outside for XML, which has no control characters and none of two others.
fn quoted(text: &str, longest: usize) -> String {
    visible_within(text, longest)
        .replace('\u{fffe}', "\\u{fffe}")
        .replace('\u{ffff}', "\\u{ffff}")
}

/// `tag:index.example.com,2026:drifts/12`: this index's own name for something, as long as it has its address.
fn tag(base: &Url, rest: &str) -> String {
    let host = match base.host() {
        // A tag takes letters, digits, dots and hyphens.
        Some(Host::Ipv6(address)) => format!("v6-{:032x}", u128::from(address)),
        Some(host) => host.to_string(),
        None => "localhost".to_owned(),
    };
    let port = base
        .port()
        .map(|port| format!("port-{port}/"))
        .unwrap_or_default();
    format!("tag:{host},2026:{port}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_the_index_by_its_address() {
        let check = |base: &str, expected: &str| {
            assert_eq!(tag(&base.parse().unwrap(), "drifts/12"), expected);
        };
        check(
            "https://index.example.com/",
            "tag:index.example.com,2026:drifts/12",
        );
        check("http://127.0.0.1:8080/", "tag:127.0.0.1,2026:port-8080/drifts/12");
        check(
            "http://[::1]:8081/",
            "tag:v6-00000000000000000000000000000001,2026:port-8081/drifts/12",
        );
    }

    #[test]
    fn what_xml_can_not_hold_is_written_out() {
        assert_eq!(
            quoted("a\0b\u{1b}\u{202e}\u{fffe}\u{ffff}\n<&>", NAME),
            "a\\u{0}b\\u{1b}\\u{202e}\\u{fffe}\\u{ffff}\\n<&>"
        );
        assert_eq!(quoted("abc", 2), "ab…");
    }
}
