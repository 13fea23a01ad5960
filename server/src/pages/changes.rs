//! Changes of a definition as pages show them: by kind, each with its text before and after, side by side.
//!
//! Invariant: a text that is too long, alone or with all before it on the page, is left out and said to be, never cut.

use mcpindex::text_diff::{Row, compare};
use mcpindex_contract::change::{Change, Direction};

use crate::words::Words;

/// A text on one line of up to so many characters is shown as a value, without a table around it.
const VALUE: usize = 60;

/// Changes of one kind.
pub(super) struct ChangesView {
    pub(super) kind: &'static str,
    pub(super) direction: &'static str,
    pub(super) sentence: &'static str,
    pub(super) safety_relevant: bool,
    pub(super) changes: Vec<ChangeView>,
}

pub(super) struct ChangeView {
    pub(super) pointer: Option<Words>,
    pub(super) witness: Option<WitnessView>,
    pub(super) rule: Option<String>,
    pub(super) text: TextView,
}

/// What proves a change: arguments or a result, as JSON.
pub(super) struct WitnessView {
    pub(super) says: &'static str,
    pub(super) json: Words,
}

/// What is shown of a change's texts.
pub(super) enum TextView {
    Rows(Vec<RowView>),
    /// Both fit on one line.
    Values {
        before: Option<Words>,
        after: Option<Words>,
    },
    /// Too long, alone or with all before it.
    LeftOut,
    /// Neither side has one.
    Nothing,
}

pub(super) enum RowView {
    Same(Words),
    Changed {
        before: Option<Vec<PartView>>,
        after: Option<Vec<PartView>>,
    },
    Skipped(usize),
}

pub(super) struct PartView {
    pub(super) words: Words,
    pub(super) changed: bool,
}

/// One subject's changes by kind, what is safety relevant first.
pub(super) fn by_kind(changes: Vec<(&Change, Option<Vec<Row>>)>) -> Vec<ChangesView> {
    let mut kinds: Vec<ChangesView> = Vec::new();
    for (change, rows) in changes {
        let view = change_view(change, rows);
        let kind = change.kind;
        match kinds.iter_mut().find(|known| known.kind == kind.name()) {
            Some(known) => known.changes.push(view),
            None => kinds.push(ChangesView {
                kind: kind.name(),
                direction: kind.direction().name(),
                sentence: kind.sentence(),
                safety_relevant: kind.safety_relevant(),
                changes: vec![view],
            }),
        }
    }
    kinds.sort_by_key(|kind| !kind.safety_relevant);
    kinds
}

/// The rows of a change, unless it or all before it are too long.
pub(super) fn rows(change: &Change, budget: &mut usize) -> Option<Vec<Row>> {
    let before = change.before.as_deref().unwrap_or_default();
    let after = change.after.as_deref().unwrap_or_default();
    *budget = budget.checked_sub(before.len() + after.len())?;
    compare(before, after).ok()
}

fn change_view(change: &Change, rows: Option<Vec<Row>>) -> ChangeView {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let text = match rows {
        _ if before.is_none() && after.is_none() => TextView::Nothing,
        Some(_) if before.is_none_or(is_value) && after.is_none_or(is_value) => TextView::Values {
            before: before.map(Words::text),
            after: after.map(Words::text),
        },
        Some(rows) => TextView::Rows(rows.into_iter().map(row_view).collect()),
        None => TextView::LeftOut,
    };
    ChangeView {
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

fn is_value(text: &str) -> bool {
    !text.is_empty() && !text.contains('\n') && text.chars().nth(VALUE).is_none()
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
