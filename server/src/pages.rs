//! The pages: what the index knows, for people, without a script.
//!
//! Each page is a struct with its template beside it in `templates/`; what several pages show in the same way is a view
//! here and a macro in `templates/parts.html`.
//!
//! Invariant: text that a server wrote reaches a template as [`Words`] or through the template's own escaping, and
//! stands where it is marked as the server's.

pub(crate) mod account;
pub(crate) mod approvals;
pub(crate) mod audit;
mod changes;
pub(crate) mod consent;
pub(crate) mod crawl;
pub(crate) mod definition;
pub(crate) mod device;
pub(crate) mod drift;
pub(crate) mod drifts;
pub(crate) mod error;
pub(crate) mod home;
pub(crate) mod server;
pub(crate) mod servers;
pub(crate) mod setup;
pub(crate) mod sign_in;
pub(crate) mod vocabulary;
pub(crate) mod webhooks;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::digest::Digest;
use mcpindex_store::drifts::DriftRecord;

use crate::access::Read;
use crate::app::App;
use crate::assets;
use crate::links;
use crate::problem::Problem;
use crate::state::State;
use crate::summary::summary;
use crate::when::{When, when};
use crate::words::Words;

/// What every page has around its content.
struct Frame {
    version: &'static str,
    style: &'static str,
    icon: &'static str,
    /// The entry of the site's navigation that this page is under: `servers`, `drifts`, `vocabulary`, `approvals`, `account` or nothing.
    section: &'static str,
    /// Whether anybody can have an account here.
    sign_in: bool,
    /// Whether a browser that is not signed in reads what is here, which it never is where programs read.
    is_public: bool,
    /// What a feed reader finds on this page.
    feeds: Vec<FeedView>,
}

impl Frame {
    fn new(app: &App, section: &'static str) -> Frame {
        Frame {
            // Nothing that somebody should know who only found the address.
            version: match app.access.rules.read {
                Read::Public => app.version,
                Read::Members => "",
            },
            style: assets::style_path(),
            icon: assets::icon_path(),
            section,
            sign_in: app.login.is_on(),
            is_public: app.access.rules.read == Read::Public,
            feeds: Vec::new(),
        }
    }

    fn with_feed(mut self, title: String, href: String) -> Frame {
        self.feeds.push(FeedView { title, href });
        self
    }

    fn with_drifts_feed(self) -> Frame {
        self.with_feed("Drifts".to_owned(), links::drifts_feed().to_owned())
    }
}

/// A feed.
struct FeedView {
    title: String,
    href: String,
}

fn page(template: &impl Template) -> Result<Response, Problem> {
    match template.render() {
        Ok(html) => Ok(Html(html).into_response()),
        Err(error) => Err(Problem::internal(&error)),
    }
}

/// A state with its look.
struct StateView {
    name: &'static str,
    label: String,
    sentence: &'static str,
    tone: &'static str,
}

impl From<State> for StateView {
    fn from(state: State) -> StateView {
        StateView {
            name: state.name(),
            label: state.label(),
            sentence: state.sentence(),
            tone: state.tone(),
        }
    }
}

/// A digest with its page.
struct DigestView {
    /// The whole, for people who compare.
    full: String,
    /// The first digits, for the eye.
    short: String,
    href: String,
}

impl From<Digest> for DigestView {
    fn from(digest: Digest) -> DigestView {
        let full = digest.to_string();
        let hex = full.find(':').map_or(0, |colon| colon + 1);
        DigestView {
            short: full.chars().take(hex + 12).collect(),
            href: links::definition_page(&digest),
            full,
        }
    }
}

/// How many changes of one kind.
struct KindView {
    kind: String,
    count: i64,
    sentence: &'static str,
    safety_relevant: bool,
}

/// A drift in a list.
struct DriftView {
    href: String,
    server: Words,
    server_href: String,
    before_version: Option<Words>,
    after_version: Option<Words>,
    cause: &'static str,
    observed: Option<When>,
    published: Option<When>,
    /// In one line, in people's words.
    summary: String,
    kinds: Vec<KindView>,
    safety_relevant: bool,
    replaced: bool,
}

impl DriftView {
    fn new(drift: &DriftRecord, now: i64) -> DriftView {
        let kind = |(name, count): &(String, i64)| {
            let kind = ChangeKind::from_name(name);
            KindView {
                kind: name.clone(),
                count: *count,
                sentence: kind.map_or("", ChangeKind::sentence),
                safety_relevant: kind.is_some_and(ChangeKind::safety_relevant),
            }
        };
        let mut kinds: Vec<KindView> = drift.kinds.iter().map(kind).collect();
        kinds.sort_by_key(|kind| !kind.safety_relevant);
        DriftView {
            href: links::drift_page(drift.id),
            server: Words::name(&drift.identity),
            server_href: links::server_page(&drift.short_id),
            before_version: drift.before_version.as_deref().map(Words::label),
            after_version: drift.after_version.as_deref().map(Words::label),
            cause: cause_sentence(&drift.cause),
            observed: when(drift.after_observed_at, now),
            published: drift.after_published_at.and_then(|at| when(at, now)),
            summary: summary(&drift.kinds, &drift.changed),
            kinds,
            safety_relevant: drift.safety_relevant,
            replaced: drift.replaced,
        }
    }
}

/// What differs beside the contract, in words.
pub(crate) fn cause_sentence(cause: &str) -> &'static str {
    match cause {
        "version" => "The package's version changed.",
        "dependencies" => "The version is the same; its dependencies resolved differently.",
        "unexplained" => "Version and dependencies are the same: nothing on record explains the change.",
        _ => "Nothing on record says what else changed.",
    }
}
