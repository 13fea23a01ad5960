//! A drift's page: each change with its text before and after, side by side.
//!
//! Real releases change many tools in one way, so changes are grouped: tools whose same lines changed are one group, and
//! what was only added or removed stands in lists. Tools come first, resources last; within each, what is safety relevant.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use mcpindex::text_diff::{MAX_BYTES, Row, changed_lines};
use mcpindex_contract::change::{Change, Subject};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::drifts::{DriftRecord, MAX_EXCERPT};

use super::changes::{ChangesView, RowView, TextView, by_kind, rows};
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
/// Up to so many things added or removed are unfolded at once, and up to so many prompts or resources that changed.
const UNFOLDED: usize = 2;
/// More prompts or resources than this, added or removed, are folded into one line.
const LISTED: usize = 12;
/// Up to so many names of a group stand in its heading.
const NAMES: usize = 20;

#[derive(Template)]
#[template(path = "drift.html")]
struct DriftPage {
    frame: Frame,
    id: i64,
    title: String,
    drift: DriftView,
    before_observed: Option<When>,
    /// What changed, a section for each kind of thing.
    sections: Vec<SectionView>,
    older: Option<String>,
    newer: Option<String>,
    api: String,
}

/// Everything that happened to things of one kind.
struct SectionView {
    /// `tools`, `instructions`, …
    id: &'static str,
    heading: &'static str,
    /// What was removed and added.
    lists: Vec<ListView>,
    changed: Vec<GroupView>,
    /// How many changed.
    changed_count: usize,
    safety_relevant: bool,
    /// Whether the changed ones are shown at once.
    unfolded: bool,
}

/// Subjects that changed in the same way.
struct GroupView {
    subjects: Vec<SubjectView>,
    /// By kind.
    kinds: Vec<ChangesView>,
    safety_relevant: bool,
}

impl GroupView {
    /// Those whose names the heading has.
    fn named(&self) -> &[SubjectView] {
        &self.subjects[..self.subjects.len().min(NAMES)]
    }
}

struct SubjectView {
    /// `tool`, `prompt`, …, or `server` for its instructions.
    kind: &'static str,
    name: Words,
    before: Option<DigestView>,
    after: Option<DigestView>,
}

/// Everything that was added, or removed, of one kind.
struct ListView {
    heading: String,
    kind: &'static str,
    safety_relevant: bool,
    added: bool,
    /// Whether even the names are folded away.
    folded: bool,
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
    let (older, newer) = app.store.drift_neighbours(drift.id).await?;
    // Comparing texts is work for the processor: not on the threads that answer everybody.
    let comparing = tokio::task::spawn_blocking(move || sections(&changes));
    let sections = comparing.await.map_err(|error| Problem::internal(&error))?;
    let now = app.now();
    page(&DriftPage {
        frame: Frame::new(&app, "drifts"),
        id: drift.id,
        title: title(&drift),
        before_observed: when(drift.before_observed_at, now),
        sections,
        older: older.map(links::drift_page),
        newer: newer.map(links::drift_page),
        api: links::drift_api(drift.id),
        drift: DriftView::new(&drift, now),
    })
}

/// The server, and from where to where.
fn title(drift: &DriftRecord) -> String {
    let name = Words::plain(&drift.identity);
    match (&drift.before_version, &drift.after_version) {
        (Some(before), Some(after)) => {
            format!("{name} {} → {}", Words::plain(before), Words::plain(after))
        }
        _ => name,
    }
}

/// The sections in the order of the page, each with its place in the address and its heading.
const SECTIONS: [(&str, &str); 6] = [
    ("tools", "Tools"),
    ("instructions", "Instructions to the model"),
    ("server", "What the server says of itself"),
    ("prompts", "Prompts"),
    ("resources", "Resources"),
    ("resource-templates", "Resource templates"),
];

fn section_of(subject: &Subject) -> &'static str {
    match subject {
        Subject::Server => "server",
        Subject::Instructions => "instructions",
        Subject::Member(MemberKind::Tool, _) => "tools",
        Subject::Member(MemberKind::Prompt, _) => "prompts",
        Subject::Member(MemberKind::Resource, _) => "resources",
        Subject::Member(MemberKind::ResourceTemplate, _) => "resource-templates",
    }
}

fn sections(changes: &[Change]) -> Vec<SectionView> {
    let mut budget = MAX_PAGE_TEXT;
    let mut sections = Vec::new();
    for (id, heading) in SECTIONS {
        let changes: Vec<&Change> = changes
            .iter()
            .filter(|change| section_of(&change.subject) == id)
            .collect();
        if changes.is_empty() {
            continue;
        }
        let (coming_or_going, changing): (Vec<&Change>, Vec<&Change>) =
            changes.iter().partition(|change| came_or_went(change));
        let changed = groups(&changing, &mut budget);
        let lists = lists(&coming_or_going, &mut budget);
        let changed_count = changed.iter().map(|group| group.subjects.len()).sum();
        sections.push(SectionView {
            id,
            heading,
            lists,
            unfolded: matches!(id, "tools" | "instructions" | "server") || changed_count <= UNFOLDED,
            changed,
            changed_count,
            safety_relevant: changing.iter().any(|change| change.kind.safety_relevant()),
        });
    }
    sections
}

/// Whether a change is only that something came or went, with its whole definition on one side.
fn came_or_went(change: &Change) -> bool {
    matches!(change.subject, Subject::Member(..))
        && change.pointer.is_empty()
        && change.before.is_some() != change.after.is_some()
}

/// What makes two subjects' changes the same: kinds, places, and the lines that differ.
type Signature = Vec<(&'static str, String, Vec<Row>)>;

fn groups(changes: &[&Change], budget: &mut usize) -> Vec<GroupView> {
    let mut by_subject: Vec<(&Subject, Vec<&Change>)> = Vec::new();
    for &change in changes {
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
            kinds: by_kind(changes.into_iter().zip(rows).collect()),
        });
    }
    // Where much changed alike, that is the release; a single tool is a detail of it.
    groups.sort_by_key(|group| (!group.safety_relevant, std::cmp::Reverse(group.subjects.len())));
    groups
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

/// What came and what went, a list for each kind of change; what went first, since calls may break by it.
fn lists(changes: &[&Change], budget: &mut usize) -> Vec<ListView> {
    let mut lists: Vec<ListView> = Vec::new();
    for change in changes {
        let member = member_view(change, budget);
        let kind = change.kind.name();
        if let Some(list) = lists.iter_mut().find(|list| list.kind == kind) {
            list.members.push(member);
            continue;
        }
        lists.push(ListView {
            heading: String::new(),
            kind,
            safety_relevant: change.kind.safety_relevant(),
            added: change.after.is_some(),
            folded: false,
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
        list.folded = count > LISTED && list.members[0].subject.kind != kind_word(MemberKind::Tool);
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
