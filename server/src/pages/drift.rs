//! A drift's page: each change with its text before and after, side by side.
//!
//! Real releases change many tools in one way, so changes are grouped: tools whose same lines changed are one group,
//! what is safety relevant comes first, and what was only added or removed stands in lists of its own.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use mcpindex::text_diff::{MAX_BYTES, Row, changed_lines, compare};
use mcpindex_contract::change::{Change, Direction, Subject};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::drifts::{DriftRecord, MAX_EXCERPT};

use super::{DigestView, DriftView, Frame, page};
use crate::api::drifts::find;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::when::{When, when};
use crate::words::Words;

/// Bytes of text that one page compares and shows in all; what comes after is linked only.
const MAX_PAGE_TEXT: usize = 1024 * 1024;
// A text that the store has cut must never be compared: what is left may be equal where the whole is not.
const _: () = assert!(MAX_BYTES + 16 < MAX_EXCERPT);
/// How many of a server's newest drifts are looked through for the neighbours of this one.
const NEIGHBOURS: i64 = 500;
/// Up to so many things added or removed are unfolded at once.
const UNFOLDED: usize = 2;

#[derive(Template)]
#[template(path = "drift.html")]
struct DriftPage {
    frame: Frame,
    id: i64,
    title: String,
    drift: DriftView,
    before_observed: Option<When>,
    changed: Vec<GroupView>,
    /// What was removed and added, by kind of change.
    lists: Vec<ListView>,
    older: Option<String>,
    newer: Option<String>,
    api: String,
}

/// Subjects that changed in the same way.
struct GroupView {
    subjects: Vec<SubjectView>,
    changes: Vec<ChangeView>,
    safety_relevant: bool,
}

struct SubjectView {
    /// `tool`, `prompt`, …, or `server` for its instructions.
    kind: &'static str,
    name: Words,
    before: Option<DigestView>,
    after: Option<DigestView>,
}

struct ChangeView {
    kind: &'static str,
    direction: &'static str,
    sentence: &'static str,
    safety_relevant: bool,
    pointer: Option<Words>,
    witness: Option<WitnessView>,
    rule: Option<String>,
    text: TextView,
}

/// What proves a change: arguments or a result, as JSON.
struct WitnessView {
    says: &'static str,
    json: Words,
}

/// What is shown of a change's texts.
enum TextView {
    Rows(Vec<RowView>),
    /// Too long, alone or with all before it.
    LeftOut,
    /// Neither side has one.
    Nothing,
}

enum RowView {
    Same(Words),
    Changed {
        before: Option<Vec<PartView>>,
        after: Option<Vec<PartView>>,
    },
    Skipped(usize),
}

struct PartView {
    words: Words,
    changed: bool,
}

/// Everything that was added, or removed, of one kind.
struct ListView {
    heading: String,
    kind: &'static str,
    sentence: &'static str,
    safety_relevant: bool,
    added: bool,
    unfolded: bool,
    members: Vec<MemberView>,
}

struct MemberView {
    subject: SubjectView,
    title: Option<Words>,
    description: Option<Words>,
    /// The whole definition, unless it is too long.
    text: Option<Words>,
}

/// `GET /drifts/{id}`
pub(crate) async fn drift(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Problem> {
    let (drift, changes) = find(&app, &id).await?;
    let (older, newer) = neighbours(&app, &drift).await?;
    // Comparing texts is work for the processor: not on the threads that answer everybody.
    let comparing = tokio::task::spawn_blocking(move || {
        let mut budget = MAX_PAGE_TEXT;
        let changed = groups(&changes, &mut budget);
        let lists = lists(&changes, &mut budget);
        (changed, lists)
    });
    let (changed, lists) = comparing.await.map_err(|error| Problem::internal(&error))?;
    let now = app.now();
    page(&DriftPage {
        frame: Frame::new(&app, "drifts"),
        id: drift.id,
        title: Words::plain(&drift.identity),
        before_observed: when(drift.before_observed_at, now),
        changed,
        lists,
        older: older.map(links::drift_page),
        newer: newer.map(links::drift_page),
        api: links::drift_api(drift.id),
        drift: DriftView::new(&drift, now),
    })
}

/// The drifts of the same server before and after this one, as far as its newest ones show.
async fn neighbours(app: &App, drift: &DriftRecord) -> Result<(Option<i64>, Option<i64>), Problem> {
    let newest = app.store.drifts(Some(&drift.identity), None, NEIGHBOURS).await?;
    let Some(position) = newest.iter().position(|other| other.id == drift.id) else {
        return Ok((None, None));
    };
    let newer = position.checked_sub(1).map(|position| newest[position].id);
    let older = newest.get(position + 1).map(|older| older.id);
    Ok((older, newer))
}

/// Whether a change is only that something came or went, with its whole definition on one side.
fn came_or_went(change: &Change) -> bool {
    matches!(change.subject, Subject::Member(..))
        && change.pointer.is_empty()
        && change.before.is_some() != change.after.is_some()
}

/// What makes two subjects' changes the same: kinds, places, and the lines that differ.
type Signature = Vec<(&'static str, String, Vec<Row>)>;

fn groups(changes: &[Change], budget: &mut usize) -> Vec<GroupView> {
    let mut by_subject: Vec<(&Subject, Vec<&Change>)> = Vec::new();
    for change in changes.iter().filter(|change| !came_or_went(change)) {
        match by_subject
            .last_mut()
            .filter(|(subject, _)| *subject == &change.subject)
        {
            Some((_, changes)) => changes.push(change),
            None => by_subject.push((&change.subject, vec![change])),
        }
    }
    let mut groups: Vec<GroupView> = Vec::new();
    let mut known: HashMap<Signature, usize> = HashMap::new();
    for (subject, changes) in by_subject {
        let first = changes[0];
        let subject = subject_view(subject, first);
        let rows: Vec<Option<Vec<Row>>> = changes.iter().map(|change| rows(change, budget)).collect();
        let signature = signature(&changes, &rows);
        if let Some(&group) = signature.as_ref().and_then(|signature| known.get(signature)) {
            groups[group].subjects.push(subject);
            continue;
        }
        if let Some(signature) = signature {
            known.insert(signature, groups.len());
        }
        groups.push(GroupView {
            subjects: vec![subject],
            safety_relevant: changes.iter().any(|change| change.kind.safety_relevant()),
            changes: changes
                .into_iter()
                .zip(rows)
                .map(|(change, rows)| change_view(change, rows))
                .collect(),
        });
    }
    groups.sort_by_key(|group| !group.safety_relevant);
    groups
}

/// The rows of a change, unless it or all before it are too long.
fn rows(change: &Change, budget: &mut usize) -> Option<Vec<Row>> {
    let before = change.before.as_deref().unwrap_or_default();
    let after = change.after.as_deref().unwrap_or_default();
    *budget = budget.checked_sub(before.len() + after.len())?;
    compare(before, after).ok()
}

/// `None` where some text was left out: such changes are the same as no other.
fn signature(changes: &[&Change], rows: &[Option<Vec<Row>>]) -> Option<Signature> {
    changes
        .iter()
        .zip(rows)
        .map(|(change, rows)| {
            let lines = changed_lines(rows.as_deref()?).into_iter().cloned().collect();
            Some((change.kind.name(), change.pointer.clone(), lines))
        })
        .collect()
}

fn subject_view(subject: &Subject, change: &Change) -> SubjectView {
    let (kind, name) = match subject {
        Subject::Server => ("server", Words::name("about itself")),
        Subject::Instructions => ("server", Words::name("instructions")),
        Subject::Member(kind, name) => (kind_word(*kind), Words::label(name)),
    };
    SubjectView {
        kind,
        name,
        before: change.before_digest.map(DigestView::from),
        after: change.after_digest.map(DigestView::from),
    }
}

fn kind_word(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tool",
        MemberKind::Prompt => "prompt",
        MemberKind::Resource => "resource",
        MemberKind::ResourceTemplate => "resource template",
    }
}

fn change_view(change: &Change, rows: Option<Vec<Row>>) -> ChangeView {
    let text = match (&change.before, &change.after, rows) {
        (None, None, _) => TextView::Nothing,
        (_, _, Some(rows)) => TextView::Rows(rows.into_iter().map(row_view).collect()),
        (_, _, None) => TextView::LeftOut,
    };
    ChangeView {
        kind: change.kind.name(),
        direction: change.kind.direction().name(),
        sentence: change.kind.sentence(),
        safety_relevant: change.kind.safety_relevant(),
        pointer: Some(&change.pointer)
            .filter(|pointer| !pointer.is_empty())
            .map(|pointer| Words::label(pointer)),
        witness: change.witness.as_deref().map(|json| WitnessView {
            says: match change.kind.direction() {
                Direction::Meaning => "A result that is allowed now and was not before",
                _ => "A call that was accepted before and is refused now",
            },
            json: Words::text(json),
        }),
        rule: change.rule.clone(),
        text,
    }
}

fn row_view(row: Row) -> RowView {
    let parts = |parts: Vec<mcpindex::text_diff::Part>| {
        let part = |part: mcpindex::text_diff::Part| PartView {
            words: Words::text(&part.text),
            changed: part.changed,
        };
        parts.into_iter().map(part).collect()
    };
    match row {
        Row::Same(text) => RowView::Same(Words::text(&text)),
        Row::Skipped(lines) => RowView::Skipped(lines),
        Row::Changed { before, after } => RowView::Changed {
            before: before.map(parts),
            after: after.map(parts),
        },
    }
}

/// What came and what went, a list for each kind of change; what went first, since calls may break by it.
fn lists(changes: &[Change], budget: &mut usize) -> Vec<ListView> {
    let mut lists: Vec<ListView> = Vec::new();
    for change in changes.iter().filter(|change| came_or_went(change)) {
        let member = member_view(change, budget);
        let kind = change.kind.name();
        if let Some(list) = lists.iter_mut().find(|list| list.kind == kind) {
            list.members.push(member);
            continue;
        }
        lists.push(ListView {
            heading: String::new(),
            kind,
            sentence: change.kind.sentence(),
            safety_relevant: change.kind.safety_relevant(),
            added: change.after.is_some(),
            unfolded: false,
            members: vec![member],
        });
    }
    for list in &mut lists {
        let count = list.members.len();
        let plural = if count == 1 { "" } else { "s" };
        let verb = if list.added { "added" } else { "removed" };
        list.heading = format!("{count} {}{plural} {verb}", list.members[0].subject.kind);
        list.unfolded = count <= UNFOLDED;
    }
    lists.sort_by_key(|list| (!list.safety_relevant, list.added));
    lists
}

fn member_view(change: &Change, budget: &mut usize) -> MemberView {
    let text = change
        .after
        .as_deref()
        .or(change.before.as_deref())
        .unwrap_or_default();
    let shown = budget.checked_sub(text.len()).filter(|_| text.len() <= MAX_BYTES);
    *budget = shown.unwrap_or(*budget);
    let definition = shown.map(|_| Definition::read(text));
    let read = |view: fn(&Definition) -> Option<&str>| definition.as_ref().and_then(view).map(Words::text);
    MemberView {
        subject: subject_view(&change.subject, change),
        title: definition.as_ref().and_then(Definition::title).map(Words::label),
        description: read(Definition::description),
        text: shown.map(|_| Words::text(text)),
    }
}
