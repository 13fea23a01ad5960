//! The step from what was trusted to what is declared now, as a person looks at it before deciding: what changed, why it would be
//! held, what it can do; and which steps are the same one, so that forty tools with one change are one row.
//!
//! Invariant: it orders and groups what is shown and decides nothing; two steps are the same only where a person who read one of
//! them has read every word that differs in the other.

use std::collections::HashMap;
use std::hash::Hash;

use mcpindex_contract::change::{Change, ChangeKind, Subject};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::{self, Marker};
use mcpindex_contract::posture::{Examination, Posture, Reason, examine, first_sight, judge_instructions};
use mcpindex_contract::surface::Instructions;

use super::danger::Danger;
use crate::text_diff::{self, changed_lines};

/// What kind of decision a row is, the one that matters most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Text that addresses the model, or that can't be read.
    Marker,
    /// It can do more than before, or a drastic tool refuses calls that it took.
    Power,
    /// Calls that were valid are refused now.
    Narrowing,
    /// Nobody can say what changed for a call.
    Opaque,
    /// What the server tells the model of itself.
    Instructions,
    /// A tool that was not there.
    New,
    /// What a call means or gives back differs.
    Meaning,
    /// Text that the model reads differs.
    Text,
    /// Nothing that guard holds.
    Benign,
}

impl Section {
    /// For people, without a capital.
    pub fn title(self) -> &'static str {
        match self {
            Section::Marker => "text that addresses the model, or can't be read without doubt",
            Section::Power => "can do more harm than before, or says something else about it",
            Section::Narrowing => "calls that were valid are refused now",
            Section::Opaque => "changed in a way that can't be compared",
            Section::Instructions => "the server's instructions to the model",
            Section::New => "new tools",
            Section::Meaning => "a default or a result means something else",
            Section::Text => "text that the model reads is different",
            Section::Benign => "nothing that guard holds",
        }
    }

    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Section::Marker => "marker",
            Section::Power => "power",
            Section::Narrowing => "narrowing",
            Section::Opaque => "opaque",
            Section::Instructions => "instructions",
            Section::New => "new",
            Section::Meaning => "meaning",
            Section::Text => "text",
            Section::Benign => "benign",
        }
    }

    /// Whether each row of it is to be looked at by itself.
    pub fn is_dangerous(self) -> bool {
        matches!(self, Section::Marker | Section::Power)
    }

    fn of(danger: Danger, is_drastic: bool) -> Section {
        match danger {
            Danger::Marker => Section::Marker,
            Danger::Power => Section::Power,
            Danger::Narrowing if is_drastic => Section::Power,
            Danger::Narrowing => Section::Narrowing,
            Danger::Opaque => Section::Opaque,
            Danger::New => Section::New,
            Danger::Meaning => Section::Meaning,
            Danger::Text => Section::Text,
            Danger::Benign => Section::Benign,
        }
    }
}

/// The step from the baseline to what is declared now.
#[derive(Debug)]
pub struct Step {
    /// What changed, what it is held for first.
    pub changes: Vec<Change>,
    /// Why it is held, the most dangerous first.
    pub reasons: Vec<Reason>,
    /// Markers that the baseline lacks.
    pub markers: Vec<Marker>,
    /// What a call does, by the declaration; `None` for instructions.
    pub examination: Option<Examination>,
    /// The same of the baseline.
    pub before: Option<Examination>,
    /// Why nothing can be pinned to it.
    pub no_digest: Option<String>,
    /// By which two steps are the same one.
    signature: String,
}

impl Step {
    /// Of a tool, by the texts of its definitions now and at the baseline. `is_first_sight`: nothing of this server is trusted yet.
    pub fn of_tool(definition: &str, baseline: Option<&str>, is_first_sight: bool) -> Step {
        let after = Definition::read(definition);
        let before = baseline.map(Definition::read);
        let examination = examine(before.as_ref(), Some(&after));
        let guard = match (is_first_sight, &before) {
            (true, None) => first_sight(&after),
            _ => examination.verdict(Posture::Guard),
        };
        let mut reasons = match guard.reasons.is_empty() {
            // Strict held it, or the rules are milder now.
            true => examination.verdict(Posture::Strict).reasons,
            false => guard.reasons,
        };
        reasons.dedup();
        reasons.sort_by_key(|reason| Danger::of_code(reason.code));
        let mut step = Step {
            changes: examination.changes.clone(),
            reasons,
            markers: examination.introduced.clone(),
            before: before.as_ref().map(|before| examine(Some(before), Some(before))),
            examination: Some(examination),
            no_digest: after.no_digest().map(ToString::to_string),
            signature: String::new(),
        };
        step.changes.sort_by_key(|change| {
            let is_held = step
                .reasons
                .iter()
                .any(|reason| reason.code == change.kind.name());
            (!is_held, Danger::of_change(change))
        });
        step.signature = match before {
            // What is new is looked at by itself.
            None => definition.to_owned(),
            Some(_) => step.sameness(),
        };
        step
    }

    /// Of a server's instructions, by their JSON texts.
    pub fn of_instructions(literal: &str, baseline: Option<&str>) -> Step {
        let after = Instructions::read(literal);
        let before = baseline.and_then(Instructions::read);
        let text = |side: &Option<Instructions>| side.as_ref().map(|side| side.text.clone());
        let scan = |side: &Option<Instructions>| markers::scan_text(&text(side).unwrap_or_default());
        let mut reasons = judge_instructions(Posture::Strict, before.as_ref(), after.as_ref()).reasons;
        reasons.sort_by_key(|reason| Danger::of_code(reason.code));
        let kind = match &before {
            None => ChangeKind::InstructionsAdded,
            Some(_) => ChangeKind::InstructionsChanged,
        };
        let change = Change {
            kind,
            subject: Subject::Instructions,
            pointer: String::new(),
            before: text(&before),
            after: text(&after),
            before_digest: before.as_ref().map(|before| before.digest),
            after_digest: after.as_ref().map(|after| after.digest),
            witness: None,
            rule: None,
        };
        Step {
            reasons,
            markers: markers::introduced(&scan(&before), &scan(&after)),
            changes: vec![change],
            examination: None,
            before: None,
            no_digest: after
                .filter(|after| after.digest.is_raw())
                .map(|_| "lone surrogate".to_owned()),
            signature: literal.to_owned(),
        }
    }

    /// What kind of decision it asks for.
    pub fn section(&self) -> Section {
        if self.examination.is_none() {
            return match self.markers.is_empty() {
                true => Section::Instructions,
                false => Section::Marker,
            };
        }
        Section::of(self.worst().unwrap_or(Danger::Benign), self.is_drastic())
    }

    fn worst(&self) -> Option<Danger> {
        let dangers = self.reasons.iter().map(|reason| Danger::of_code(reason.code));
        dangers.min()
    }

    /// Whether the tool deletes, pays, runs code or administers, now or before.
    pub fn is_drastic(&self) -> bool {
        let sides = [&self.examination, &self.before];
        sides.into_iter().flatten().any(|side| side.action.is_drastic())
    }

    /// What is the same in two tools with the same change: kinds, places, and the words that differ.
    fn sameness(&self) -> String {
        let mut sameness = format!("{:?}", self.is_drastic());
        for reason in &self.reasons {
            sameness.push_str(&format!("\n{} {:?}", reason.code, reason.pointer));
        }
        for marker in &self.markers {
            sameness.push_str(&format!(
                "\n{:?} {:?} {:?}",
                marker.class, marker.pointer, marker.matched
            ));
        }
        for change in &self.changes {
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            let words = match text_diff::compare(before.unwrap_or_default(), after.unwrap_or_default()) {
                Ok(rows) => format!("{:?}", changed_words(&rows)),
                Err(text_diff::TooLong) => format!("{before:?} {after:?}"),
            };
            sameness.push_str(&format!("\n{} {:?} {words}", change.kind.name(), change.pointer));
        }
        sameness
    }
}

/// What one side lacks. A few letters mean this here and that there, so they carry their line.
fn changed_words(rows: &[text_diff::Row]) -> Vec<(bool, String)> {
    const PHRASE: usize = 12;
    let mut words = Vec::new();
    for row in changed_lines(rows) {
        let text_diff::Row::Changed { before, after } = row else {
            continue;
        };
        for (is_after, side) in [(false, before), (true, after)] {
            for part in side.iter().flatten().filter(|part| part.changed) {
                let text = match part.text.chars().count() < PHRASE {
                    true => side.iter().flatten().map(|part| part.text.as_str()).collect(),
                    false => part.text.clone(),
                };
                words.push((is_after, text));
            }
        }
    }
    words
}

/// Items with the same step as one row, the rows in the order in which they are decided and the dangerous first. `apart` keeps
/// items from each other whose decisions are not the same one all the same; `name` orders rows that are alike. No row is empty.
pub fn rows<Item, Apart: Hash + Eq, Name: Ord>(
    items: Vec<Item>,
    step: impl Fn(&Item) -> &Step,
    apart: impl Fn(&Item) -> Apart,
    name: impl Fn(&Item) -> Name,
) -> Vec<Vec<Item>> {
    let mut rows: Vec<Vec<Item>> = Vec::new();
    let mut places: HashMap<(Section, String, Apart), usize> = HashMap::new();
    for item in items {
        let of = step(&item);
        let key = (of.section(), of.signature.clone(), apart(&item));
        match places.get(&key).and_then(|place| rows.get_mut(*place)) {
            Some(row) => row.push(item),
            None => {
                places.insert(key, rows.len());
                rows.push(vec![item]);
            }
        }
    }
    rows.sort_by_cached_key(|row| {
        let first = row.first();
        first.map(|first| {
            let of = step(first);
            (of.section(), !of.is_drastic(), of.worst(), name(first))
        })
    });
    rows
}
