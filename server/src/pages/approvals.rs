//! The queue for approvers: what waits, by release, each row with what changed; approved or refused by exact digests, and undone
//! within a minute. Below it the log of what was decided.
//!
//! Invariant: what is decided is what the form showed: it carries every digest and the head that was seen. Nothing is shown but to
//! somebody who is signed in, and nothing decided but by an approver or an admin.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Redirect, Response};
use mcpindex::gate::step::Step;
use mcpindex_contract::approval::{DEFAULT_TENANT, Decision, Record, State as Stood};
use mcpindex_contract::digest::Digest;
use mcpindex_store::accounts::Role;
use mcpindex_store::approvals::queue::{Place, ToolPlace};

use super::changes::{ChangesView, RowView, TextView, by_kind, rows};
use super::sign_in::{OwnForm, at_its_name, sign_in_first, unkept};
use super::{DigestView, DriftView, Frame, page};
use crate::app::App;
use crate::approvals::{self, DecideError, MOST, UNDO, Wish};
use crate::links;
use crate::login::session::{SignedIn, signed_in};
use crate::problem::{AsPublished, Problem};
use crate::query::Query;
use crate::queue::{self, Asked, Before, Item, Release, Seen};
use crate::vetting::Installs;
use crate::when::{When, day_end, when};
use crate::words::Words;

/// Releases of one page.
const RELEASES: usize = 6;
/// Decisions of one page of the log.
const LOGGED: i64 = 100;
/// Bytes of text that one page compares and shows in all.
const MAX_PAGE_TEXT: usize = 1024 * 1024;
/// Names of a row that stand in its heading.
const NAMES: usize = 12;
/// Markers that are shown of a row.
const MARKERS: usize = 6;
/// The longest description of a new tool, in characters.
const DESCRIPTION: usize = 2_000;

#[derive(Template)]
#[template(path = "approvals.html")]
struct ApprovalsPage {
    frame: Frame,
    csrf: String,
    /// Whether this person decides.
    decides: bool,
    two_person: bool,
    /// The head that the page was made by.
    seen: u64,
    flaw: Option<String>,
    notice: Option<NoticeView>,
    /// The one server that is shown.
    only: Option<Words>,
    /// Where this page is, to come back to.
    kept: Vec<(&'static str, String)>,
    asked: Vec<ReleaseView>,
    more_asked: Option<String>,
    releases: Vec<ReleaseView>,
    next: Option<String>,
    first: Option<String>,
    /// What would appear here.
    only_decided: bool,
    looked_at: i64,
}

/// What was decided, or undone, a moment ago.
struct NoticeView {
    words: String,
    /// The first and the last record, while it can be undone.
    undo: Option<(u64, u64)>,
}

struct ReleaseView {
    /// For the page's own addresses.
    id: String,
    name: Words,
    identity: String,
    href: Option<String>,
    version: Option<Words>,
    since: Option<When>,
    waiting: String,
    drift: Option<DriftView>,
    rows: Vec<RowOfTools>,
    /// How many tools are shown, and how many of their rows are part of the rest.
    shown: usize,
    calm: usize,
    more: Option<String>,
}

/// Tools with the same change.
struct RowOfTools {
    number: String,
    section: &'static str,
    is_dangerous: bool,
    /// Whether all that is decided about is on the page.
    is_whole: bool,
    /// Whether it is part of what is approved as the rest.
    is_calm: bool,
    tools: Vec<ToolView>,
    reasons: Vec<String>,
    markers: Vec<MarkerView>,
    action: Option<&'static str>,
    action_before: Option<&'static str>,
    before: Option<String>,
    changes: Vec<ChangesView>,
    /// Of a new tool: its words.
    description: Option<Words>,
    definition: Option<Words>,
    standing: Option<String>,
    refused: usize,
    seen: Option<String>,
    asked: Option<String>,
    note: Option<Words>,
    no_digest: Option<String>,
}

impl RowOfTools {
    fn named(&self) -> &[ToolView] {
        &self.tools[..self.tools.len().min(NAMES)]
    }
}

struct ToolView {
    name: Words,
    digest: DigestView,
    before: Option<DigestView>,
    /// What the form sends of it.
    value: String,
}

struct MarkerView {
    class: &'static str,
    excerpt: Words,
}

#[derive(Template)]
#[template(path = "conflict.html")]
struct ConflictPage {
    frame: Frame,
    back: String,
    others: Vec<DecisionView>,
}

#[derive(Template)]
#[template(path = "decisions.html")]
struct DecisionsPage {
    frame: Frame,
    flaw: Option<String>,
    server: String,
    decisions: Vec<DecisionView>,
    first: Option<String>,
    next: Option<String>,
}

/// One decision.
struct DecisionView {
    sequence: u64,
    decision: &'static str,
    tone: &'static str,
    identity: Words,
    href: String,
    tool: Words,
    digest: DigestView,
    by: Words,
    at: Option<When>,
    reason: Option<Words>,
    reference: Option<Words>,
    until: Option<When>,
    two: bool,
}

impl DecisionView {
    fn new(record: &Record, now: i64) -> DecisionView {
        DecisionView {
            sequence: record.sequence,
            decision: match record.decision {
                Decision::Approve => "approved",
                Decision::Refuse => "refused",
                Decision::Withdraw => "withdrawn",
            },
            tone: match record.decision {
                Decision::Approve => "good",
                Decision::Refuse => "bad",
                Decision::Withdraw => "waiting",
            },
            identity: Words::label(&record.identity),
            href: links::server_page_of(&record.identity),
            tool: Words::label(&record.tool),
            digest: record.digest.into(),
            by: Words::label(&record.subject),
            at: when(record.at, now),
            reason: record.reason.as_deref().map(Words::text),
            reference: record.reference.as_deref().map(Words::label),
            until: record.expires_at.and_then(|at| when(at, now)),
            two: record.needed > 1,
        }
    }
}

fn decides(signed_in: &SignedIn) -> bool {
    signed_in.account.role != Role::Member
}

/// `GET /approvals?server=&record=&position=&since=&identity=&before=`
pub(crate) async fn queue(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    let Some(signed_in) = signed_in(&app, &headers).await? else {
        let path = uri.path_and_query().map_or("/approvals", |path| path.as_str());
        return Ok(sign_in_first(&app, path, None));
    };
    let query = Query::lenient(&uri);
    let now = app.now();
    // Read before what is shown by it, so that what is decided meanwhile is a conflict and no surprise.
    let seen = app.store.approvals_head(DEFAULT_TENANT).await?;
    let server = query.identity("server")?;
    let place = place(&query)?;
    let before = query.before("before")?;
    let only_asked = before.is_some();
    let mut budget = MAX_PAGE_TEXT;
    let mut shown = Vec::new();
    let (mut next, mut looked_at) = (None, 0);
    let chain = match &server {
        Some(identity) => {
            let (chain, release) = queue::of_server(&app, identity, tool_place(&query)?.as_ref()).await?;
            shown.extend(release);
            chain
        }
        None if only_asked => app.store.verified_approvals(DEFAULT_TENANT, now).await?,
        None => {
            let found = queue::page(&app, place.as_ref(), RELEASES).await?;
            next = found.next.map(|place| {
                let parameters = [
                    ("since", Some(place.since.to_string())),
                    ("identity", Some(place.identity)),
                ];
                links::with_query("/approvals", &parameters)
            });
            looked_at = found.looked_at;
            shown = found.releases;
            found.chain
        }
    };
    // What gates ask comes first, on the first page and on its own.
    let (asked, more_asked) = match server.is_none() && place.is_none() {
        true => queue::requests(&app, before).await?,
        false => (Vec::new(), None),
    };
    let asked = views(&app, asked, "asked", &mut budget, now).await?;
    let releases = views(&app, shown, "release", &mut budget, now).await?;
    let is_later = place.is_some() || only_asked;
    let notice = notice(&app, &signed_in, &query).await?;
    let page = page(&ApprovalsPage {
        frame: Frame::new(&app, "approvals"),
        csrf: signed_in.csrf().to_owned(),
        decides: decides(&signed_in),
        two_person: app.approvals.needed() > 1,
        seen,
        flaw: chain.flaw.map(|flaw| flaw.to_string()),
        notice,
        only: server.as_deref().map(Words::label),
        kept: kept(&query),
        asked,
        more_asked: more_asked.map(|id| links::with_query("/approvals", &[("before", Some(id.to_string()))])),
        releases,
        next,
        first: (is_later || server.is_some()).then(|| "/approvals".to_owned()),
        only_decided: app.approvals.scope() == mcpindex_store::approvals::queue::Scope::Decided,
        looked_at,
    })?;
    Ok(unkept(page))
}

fn place(query: &Query) -> Result<Option<Place>, Problem> {
    let since = query.number("since", i64::MIN..=i64::MAX)?;
    Ok(since
        .zip(query.identity("identity")?)
        .map(|(since, identity)| Place { since, identity }))
}

fn tool_place(query: &Query) -> Result<Option<ToolPlace>, Problem> {
    let position = query.number("position", 0..=i64::MAX)?;
    let record = query.value("record").map(str::to_owned);
    Ok(position
        .zip(record)
        .map(|(position, record)| ToolPlace { record, position }))
}

/// Where a page of the queue is, without what it says of the last decision.
fn kept(query: &Query) -> Vec<(&'static str, String)> {
    let names = ["server", "record", "position", "since", "identity", "before"];
    let kept = names
        .into_iter()
        .filter_map(|name| Some((name, query.value(name)?.to_owned())));
    kept.collect()
}

fn back_of(fields: &Query) -> String {
    let parameters: Vec<_> = kept(fields)
        .into_iter()
        .map(|(name, value)| (name, Some(value)))
        .collect();
    links::with_query("/approvals", &parameters)
}

/// What `decided=FIRST-LAST` or `undone=N` says, as far as it is so.
async fn notice(app: &App, signed_in: &SignedIn, query: &Query) -> Result<Option<NoticeView>, Problem> {
    if let Some(count) = query.number("undone", 1..=i64::MAX)? {
        return Ok(Some(NoticeView {
            words: format!(
                "Undone: {}.",
                counted(usize::try_from(count).unwrap_or(0), "decision")
            ),
            undo: None,
        }));
    }
    let range = query.value("decided").and_then(|range| range.split_once('-'));
    let Some((Ok(first), Ok(last))) = range.map(|(first, last)| (first.parse::<u64>(), last.parse::<u64>()))
    else {
        return Ok(None);
    };
    let limit = i64::try_from(MOST).unwrap_or(i64::MAX);
    let before = first.saturating_sub(1);
    let found = app.store.approvals_since(DEFAULT_TENANT, before, limit).await;
    let Ok((_, mut records)) = found else {
        return Ok(None);
    };
    records.retain(|record| record.sequence <= last && record.subject == signed_in.account.who());
    let Some(newest) = records.last() else {
        return Ok(None);
    };
    let of = |decision| {
        records
            .iter()
            .filter(|record| record.decision == decision)
            .count()
    };
    let counts = [
        (of(Decision::Approve), "approved"),
        (of(Decision::Refuse), "refused"),
        (of(Decision::Withdraw), "withdrawn"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let more = match newest.needed > 1 && of(Decision::Approve) > 0 {
        true => " An approval takes two people here: one more is needed, unless you were the second.",
        false => "",
    };
    let is_recent = app.now() - newest.at <= UNDO;
    Ok(Some(NoticeView {
        words: format!("Decided: {}.{more}", counts.join(", ")),
        undo: is_recent.then_some((first, newest.sequence)),
    }))
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

async fn views(
    app: &App,
    releases: Vec<Release>,
    kind: &str,
    budget: &mut usize,
    now: i64,
) -> Result<Vec<ReleaseView>, Problem> {
    let mut views = Vec::with_capacity(releases.len());
    for (number, release) in releases.into_iter().enumerate() {
        let id = format!("{kind}-{number}");
        let drift = match &release.server {
            Some(server) if kind == "release" => app.store.drifts(Some(&server.identity), None, 1).await?,
            _ => Vec::new(),
        };
        let drift = drift.first().map(|drift| DriftView::new(drift, now));
        // Comparing texts is work for the processor: not on the threads that answer everybody.
        let mut left = *budget;
        let viewing = tokio::task::spawn_blocking(move || {
            let view = release_view(release, id, &mut left, now);
            (view, left)
        });
        let (mut view, left) = viewing.await.map_err(|error| Problem::internal(&error))?;
        *budget = left;
        view.drift = drift;
        views.push(view);
    }
    Ok(views)
}

fn release_view(release: Release, id: String, budget: &mut usize, now: i64) -> ReleaseView {
    let rows: Vec<RowOfTools> = release
        .rows
        .iter()
        .enumerate()
        .filter_map(|(number, items)| row_view(number, items, budget, now))
        .collect();
    let shown = rows.iter().map(|row| row.tools.len()).sum();
    let waiting = match usize::try_from(release.waiting).unwrap_or(0) {
        many if release.waiting > mcpindex_store::approvals::queue::MAX_COUNTED => {
            format!("more than {} tools wait", many - 1)
        }
        1 => "1 tool waits".to_owned(),
        many => format!("{many} tools wait"),
    };
    ReleaseView {
        more: release.next.map(|place| {
            let parameters = [
                ("server", Some(release.identity.clone())),
                ("record", Some(place.record)),
                ("position", Some(place.position.to_string())),
            ];
            links::with_query("/approvals", &parameters)
        }),
        name: Words::name(&release.identity),
        href: (release.server.as_ref()).map(|server| links::server_page(&server.short_id)),
        version: (release.server.as_ref())
            .and_then(|server| server.current_version.as_deref())
            .map(Words::label),
        since: when(release.since, now),
        calm: rows.iter().filter(|row| row.is_calm).count(),
        identity: release.identity,
        waiting,
        drift: None,
        rows,
        shown,
        id,
    }
}

fn row_view(number: usize, items: &[Item], budget: &mut usize, now: i64) -> Option<RowOfTools> {
    let tools: Vec<ToolView> = items.iter().map(tool_view).collect();
    let first = items.first()?;
    let step = &first.step;
    let section = step.section();
    let is_new = first.before.is_none();
    let changes: Vec<_> = step
        .changes
        .iter()
        .filter(|_| !is_new)
        .map(|change| (change, rows(change, budget)))
        .collect();
    let definition = Some(&first.definition).filter(|text| is_new && text.len() <= *budget);
    *budget -= definition.map_or(0, String::len);
    let read = mcpindex_contract::definition::Definition::read(&first.definition);
    let action = |examination: &mcpindex_contract::posture::Examination| examination.action.effective.name();
    let is_left_out = |change: &ChangesView| {
        change
            .changes
            .iter()
            .any(|change| matches!(change.text, TextView::LeftOut))
    };
    let changes = by_kind(changes);
    let is_whole = match is_new {
        true => definition.is_some(),
        false => !changes.iter().any(is_left_out),
    };
    Some(RowOfTools {
        is_whole,
        is_calm: is_whole && !section.is_dangerous() && step.no_digest.is_none(),
        number: number.to_string(),
        section: section.title(),
        is_dangerous: section.is_dangerous(),
        reasons: reasons(step, is_new),
        markers: step
            .markers
            .iter()
            .take(MARKERS)
            .map(|marker| MarkerView {
                class: marker.class.name(),
                excerpt: Words::label(&marker.excerpt),
            })
            .collect(),
        action: step.examination.as_ref().map(action),
        action_before: step.before.as_ref().map(action),
        before: first.before.as_ref().map(|(_, before)| before_words(before, now)),
        changes,
        description: read
            .description()
            .filter(|_| is_new)
            .map(|text| Words::beginning(text, DESCRIPTION)),
        definition: definition.map(|text| Words::text(text)),
        standing: first.standing.as_ref().map(|standing| {
            let by = Words::plain(&standing.record.subject);
            match standing.state {
                Stood::Proposed => format!("Approved by {by}: one more person is needed."),
                Stood::Expired => format!("What {by} decided about it is over."),
                Stood::Withdrawn => format!("{by} took back what was decided about it."),
                _ => format!(
                    "{by} approved it, and the chain of approvals is broken behind that: it doesn't count."
                ),
            }
        }),
        refused: items.iter().map(|item| item.refused).max().unwrap_or(0),
        seen: first.seen.as_ref().map(|seen| seen_words(seen, now)),
        asked: first.asked.as_ref().map(|asked| asked_words(asked, now)),
        note: first
            .asked
            .as_ref()
            .and_then(|asked| asked.note.as_deref())
            .map(Words::text),
        no_digest: step.no_digest.clone(),
        tools,
    })
}

/// Why it is held, each once. What changed says its own sentence below.
fn reasons(step: &Step, is_new: bool) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for reason in &step.reasons {
        let is_told = step
            .changes
            .iter()
            .any(|change| change.kind.sentence() == reason.sentence);
        if (is_new || !is_told) && !reasons.contains(&reason.sentence) {
            reasons.push(reason.sentence.clone());
        }
    }
    reasons
}

fn tool_view(item: &Item) -> ToolView {
    ToolView {
        name: Words::label(&item.tool),
        digest: item.digest.into(),
        before: item.before.as_ref().map(|(digest, _)| (*digest).into()),
        value: format!("{} {}", item.digest, item.tool),
    }
}

fn before_words(before: &Before, now: i64) -> String {
    let at = |at: i64| when(at, now).map_or_else(String::new, |at| format!(" on {}", at.text));
    match before {
        Before::Approved(by, approved) => {
            format!(
                "Compared with what {} approved{}.",
                Words::plain(by),
                at(*approved)
            )
        }
        Before::Seen(last) => format!("Compared with what was declared before, seen last{}.", at(*last)),
        Before::Pinned => "Compared with what the gate that asks is pinned to.".to_owned(),
    }
}

fn seen_words(seen: &Seen, now: i64) -> String {
    let first = when(seen.first, now).map_or_else(String::new, |at| format!("First seen {}", at.ago));
    let last = when(seen.last, now).map_or_else(String::new, |at| format!(", last {}", at.ago));
    let elsewhere = match seen.elsewhere {
        0 => String::new(),
        1 => "; one other server declares exactly this".to_owned(),
        many => format!("; {many} other servers declare exactly this"),
    };
    let installs = |installs: &Option<Installs>, what: &str| match installs {
        Some(installs) if installs.at_least > 0 => {
            format!("; {} or more installs see {what}", installs.at_least)
        }
        _ => String::new(),
    };
    format!(
        "{first}{last}{elsewhere}{}{}.",
        installs(&seen.installs, "it"),
        installs(&seen.others, "another one"),
    )
}

fn asked_words(asked: &Asked, now: i64) -> String {
    let at = when(asked.at, now).map_or_else(String::new, |at| format!(" {}", at.ago));
    format!("{} asks{at}: a gate holds it there.", Words::plain(&asked.by))
}

/// `POST /approvals`
pub(crate) async fn decide(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let OwnForm {
        signed_in, fields, ..
    } = OwnForm::of(&app, request).await?;
    let back = back_of(&fields);
    let wrong = |detail: String| {
        Problem::of_sign_in(
            StatusCode::UNPROCESSABLE_ENTITY,
            "not-decided",
            "Nothing was decided",
            detail,
        )
        .with_way(back.clone(), "Back to the queue")
    };
    let seen = fields.number("seen", 0..=i64::MAX)?.unwrap_or(0);
    let seen = u64::try_from(seen).unwrap_or(0);
    let wishes = wishes(&fields).map_err(&wrong)?;
    match approvals::decide(&app, &signed_in.account, &wishes, seen).await {
        Ok(records) => {
            let range = records.first().zip(records.last());
            let range = range.map(|(first, last)| format!("{}-{}", first.sequence, last.sequence));
            Ok(unkept(Redirect::to(&with_notice(&back, "decided", range))))
        }
        Err(DecideError::Conflict(others)) => conflict(&app, back, &others),
        Err(error @ DecideError::NotAllowed) => Err(Problem::of_sign_in(
            StatusCode::FORBIDDEN,
            "not-an-approver",
            "This is for approvers",
            error.to_string(),
        )
        .with_way(back, "Back to the queue")),
        Err(error @ (DecideError::NotShown { .. } | DecideError::NotUndone { .. } | DecideError::Bad(_))) => {
            Err(wrong(error.to_string()))
        }
        Err(error) => Err(crate::api::approvals::problem(error)),
    }
}

/// The page again, with what became of it.
fn with_notice(back: &str, name: &str, value: Option<String>) -> String {
    let Some(value) = value else {
        return back.to_owned();
    };
    let joint = if back.contains('?') { '&' } else { '?' };
    format!("{back}{joint}{name}={value}")
}

fn conflict(app: &App, back: String, others: &[Record]) -> Result<Response, Problem> {
    let now = app.now();
    let mut response = page(&ConflictPage {
        frame: Frame::new(app, "approvals"),
        back,
        others: others
            .iter()
            .map(|record| DecisionView::new(record, now))
            .collect(),
    })?;
    *response.status_mut() = StatusCode::CONFLICT;
    response.extensions_mut().insert(AsPublished);
    Ok(unkept(response))
}

/// What the form asks for: of each row that was chosen, the tools that are ticked.
fn wishes(fields: &Query) -> Result<Vec<Wish>, String> {
    let identity = fields.value("of").ok_or("the form names no server")?.to_owned();
    let takes_rest = fields.value("act") == Some("rest");
    let mut chosen: BTreeMap<&str, Decision> = BTreeMap::new();
    for (name, value) in fields.pairs() {
        if let Some(row) = name.strip_prefix("calm-").filter(|_| takes_rest) {
            chosen.entry(row).or_insert(Decision::Approve);
        }
        if let (Some(row), Some(decision)) = (name.strip_prefix("row-"), Decision::from_name(value)) {
            chosen.insert(row, decision);
        }
    }
    let expires_at = match fields.value("until") {
        None => None,
        Some(day) => {
            Some(day_end(day).ok_or_else(|| format!("`{day}` is no day: expected one like 2026-12-31"))?)
        }
    };
    let mut wishes = Vec::new();
    for (name, value) in fields.pairs() {
        let row = name.strip_prefix("tool-");
        let Some(decision) = row.and_then(|row| chosen.get(row)).copied() else {
            continue;
        };
        let (digest, tool) = value
            .split_once(' ')
            .ok_or("the form names a tool without its digest")?;
        wishes.push(Wish {
            identity: identity.clone(),
            tool: tool.to_owned(),
            digest: digest.parse::<Digest>().map_err(|error| error.to_string())?,
            decision,
            reason: fields.value("reason").map(|text| text.trim().to_owned()),
            reference: fields.value("reference").map(|text| text.trim().to_owned()),
            expires_at,
        });
    }
    match wishes.is_empty() {
        true => Err("nothing was chosen: choose approve or refuse for at least one change".to_owned()),
        false => Ok(wishes),
    }
}

/// `POST /approvals/undo`
pub(crate) async fn undo(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let OwnForm {
        signed_in, fields, ..
    } = OwnForm::of(&app, request).await?;
    let back = back_of(&fields);
    let number = |name| fields.number(name, 1..=i64::MAX);
    let (first, last) = (number("first")?.unwrap_or(1), number("last")?.unwrap_or(1));
    let first = u64::try_from(first).unwrap_or(1);
    let most = u64::try_from(MOST).unwrap_or(u64::MAX);
    let last = u64::try_from(last)
        .unwrap_or(1)
        .min(first.saturating_add(most - 1));
    let sequences: Vec<u64> = (first..=last).collect();
    match approvals::undo(&app, &signed_in.account, &sequences).await {
        Ok(records) => {
            let count = Some(records.len().to_string());
            Ok(unkept(Redirect::to(&with_notice(&back, "undone", count))))
        }
        Err(DecideError::Conflict(others)) => conflict(&app, back, &others),
        Err(DecideError::Store(error)) => Err(crate::api::approvals::problem(DecideError::Store(error))),
        Err(error) => Err(Problem::of_sign_in(
            StatusCode::UNPROCESSABLE_ENTITY,
            "not-undone",
            "Nothing was undone",
            error.to_string(),
        )
        .with_way(back, "Back to the queue")),
    }
}

/// `GET /approvals/log?server=&before=`
pub(crate) async fn log(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    if signed_in(&app, &headers).await?.is_none() {
        let path = uri
            .path_and_query()
            .map_or("/approvals/log", |path| path.as_str());
        return Ok(sign_in_first(&app, path, None));
    }
    let query = Query::lenient(&uri);
    let server = query.identity("server")?;
    let before = query
        .before("before")?
        .and_then(|before| u64::try_from(before).ok());
    let now = app.now();
    let found = app
        .store
        .decisions(DEFAULT_TENANT, server.as_deref(), before, LOGGED, now)
        .await?;
    let records: Vec<Record> = found.standing.into_iter().flatten().collect();
    let is_full = i64::try_from(records.len()).is_ok_and(|length| length >= LOGGED);
    let next = records
        .last()
        .filter(|last| is_full && last.sequence > 1)
        .map(|last| {
            let parameters = [
                ("server", server.clone()),
                ("before", Some(last.sequence.to_string())),
            ];
            links::with_query("/approvals/log", &parameters)
        });
    let page = page(&DecisionsPage {
        frame: Frame::new(&app, "approvals"),
        flaw: found.chain.flaw.map(|flaw| flaw.to_string()),
        server: server.clone().unwrap_or_default(),
        decisions: records
            .iter()
            .map(|record| DecisionView::new(record, now))
            .collect(),
        first: before.map(|_| links::with_query("/approvals/log", &[("server", server)])),
        next,
    })?;
    Ok(unkept(page))
}
