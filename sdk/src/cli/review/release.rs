//! What is held of one server, put together as a person looks at a release: the dangerous first, the same change in many
//! tools once.
//!
//! Invariant: each held definition that waits stands in exactly one row, with the digest, the text and the baseline it was
//! compared with, so that a decision can be bound to what was shown.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::organisation::{Organisation, Said};
use mcpindex::gate::danger::Danger;
use mcpindex::pins::{Held, Pin, Record, TextPin, ToolPin};
use mcpindex::text_diff::{self, changed_lines};
use mcpindex_contract::change::{Change, ChangeKind, Subject};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::{self, Marker};
use mcpindex_contract::posture::{Examination, Posture, Reason, examine, first_sight, judge_instructions};
use mcpindex_contract::surface::Instructions;

/// What kind of decision a row is, the one that matters most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Section {
    Marker,
    Power,
    Narrowing,
    Opaque,
    Instructions,
    New,
    Meaning,
    Text,
    Benign,
}

impl Section {
    pub(super) fn title(self) -> &'static str {
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
    pub(super) fn name(self) -> &'static str {
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

    pub(super) fn is_dangerous(self) -> bool {
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

/// What is held.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Tool(String),
    Instructions,
}

impl What {
    pub(super) fn name(&self) -> &str {
        match self {
            What::Tool(name) => name,
            What::Instructions => "instructions",
        }
    }
}

/// One held definition, as it was when it was read from the record.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) what: What,
    /// The written digest.
    pub(super) digest: String,
    pub(super) held: Held,
    /// Digest, time and way of what it is compared with.
    pub(super) baseline: Option<Baseline>,
    pub(super) step: Rc<Step>,
    pub(super) section: Section,
    /// What is refused already of the same tool.
    pub(super) refused_before: usize,
    /// What the organisation says of it, where it says anything.
    pub(super) said: Option<Said>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Baseline {
    pub(super) digest: String,
    pub(super) text: String,
    pub(super) at: i64,
    pub(super) via: &'static str,
}

impl Baseline {
    fn of_tool(pin: &Pin) -> Baseline {
        Baseline {
            digest: pin.digest.clone(),
            text: pin.definition.as_ref().to_owned(),
            at: pin.at,
            via: pin.via.name(),
        }
    }

    fn of_text(pin: &TextPin) -> Baseline {
        Baseline {
            digest: pin.digest.clone(),
            text: pin.literal.clone(),
            at: pin.at,
            via: pin.via.name(),
        }
    }
}

/// The step from the baseline to what is held.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) changes: Vec<Change>,
    /// Why it is held, the most dangerous first.
    pub(super) reasons: Vec<Reason>,
    /// Markers that the baseline lacks.
    pub(super) markers: Vec<Marker>,
    /// What a call does, by the declaration; `None` for instructions.
    pub(super) examination: Option<Examination>,
    /// The same of the baseline.
    pub(super) before: Option<Examination>,
    /// Why nothing can be pinned to it.
    pub(super) no_digest: Option<String>,
    /// By which two steps are the same one.
    signature: String,
}

/// Held definitions that one decision is about: one, or several tools with the same change.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) section: Section,
    /// Never empty; by name.
    pub(super) items: Vec<Item>,
}

impl Row {
    pub(super) fn first(&self) -> &Item {
        &self.items[0]
    }

    /// Whether it can be approved at all.
    pub(super) fn is_approvable(&self) -> bool {
        self.items.iter().all(|item| item.step.no_digest.is_none())
    }
}

/// All that waits for a person of one server.
#[derive(Debug)]
pub(super) struct Release {
    /// The most dangerous first; never a row twice.
    pub(super) rows: Vec<Row>,
    /// How many tools have a baseline.
    pub(super) pinned: usize,
}

/// Steps that were examined already, so that nothing is compared twice in a run.
#[derive(Default)]
pub(super) struct Steps {
    known: HashMap<(What, String, Option<String>, bool), Rc<Step>>,
}

impl Release {
    pub(super) fn of(record: &Record, steps: &mut Steps) -> Release {
        let is_first_sight = record.is_empty();
        let mut items: Vec<Item> = Vec::new();
        for (name, pin) in &record.tools {
            items.extend(item_of_tool(name, pin, is_first_sight, steps));
        }
        items.extend(item_of_instructions(record, steps));
        Release {
            rows: rows(items),
            pinned: record.tools.values().filter(|pin| pin.baseline.is_some()).count(),
        }
    }

    /// The same with what the organisation says of each tool.
    pub(super) fn with(mut self, organisation: &Organisation, identity: &str) -> Release {
        for item in self.rows.iter_mut().flat_map(|row| &mut row.items) {
            if let What::Tool(tool) = &item.what {
                item.said = organisation.says(identity, tool, &item.digest);
            }
        }
        self
    }

    /// The same without what was left for later.
    pub(super) fn without(mut self, skipped: &BTreeSet<(What, String)>) -> Release {
        for row in &mut self.rows {
            row.items
                .retain(|item| !skipped.contains(&(item.what.clone(), item.digest.clone())));
        }
        self.rows.retain(|row| !row.items.is_empty());
        self
    }

    /// How many definitions wait.
    pub(super) fn waiting(&self) -> usize {
        self.rows.iter().map(|row| row.items.len()).sum()
    }
}

fn item_of_tool(name: &str, pin: &ToolPin, is_first_sight: bool, steps: &mut Steps) -> Option<Item> {
    let (digest, held) = pin.waiting()?;
    let what = What::Tool(name.to_owned());
    let baseline = pin.baseline.as_ref().map(Baseline::of_tool);
    let step = steps.of_tool(&what, digest, held, baseline.as_ref(), is_first_sight);
    Some(Item {
        section: step.section(),
        what,
        digest: digest.to_owned(),
        held: held.clone(),
        baseline,
        step,
        refused_before: pin.refused.len(),
        said: None,
    })
}

fn item_of_instructions(record: &Record, steps: &mut Steps) -> Option<Item> {
    let (digest, held) = record.waiting_instructions()?;
    let pinned = record.instructions.as_ref().and_then(Option::as_ref);
    let baseline = pinned.map(Baseline::of_text);
    let step = steps.of_instructions(digest, held, baseline.as_ref());
    Some(Item {
        section: match step.markers.is_empty() {
            true => Section::Instructions,
            false => Section::Marker,
        },
        what: What::Instructions,
        digest: digest.to_owned(),
        held: held.clone(),
        baseline,
        step,
        refused_before: record.refused_instructions.len(),
        said: None,
    })
}

/// Items of one section with the same step as one row, in the order in which they are decided.
fn rows(items: Vec<Item>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut places: HashMap<(Section, String), usize> = HashMap::new();
    for item in items {
        let key = (item.section, item.step.signature.clone());
        match places.get(&key).and_then(|place| rows.get_mut(*place)) {
            Some(row) => row.items.push(item),
            None => {
                places.insert(key, rows.len());
                rows.push(Row {
                    section: item.section,
                    items: vec![item],
                });
            }
        }
    }
    rows.sort_by_cached_key(|row| {
        let first = row.first();
        let worst = first
            .step
            .reasons
            .first()
            .map(|reason| Danger::of_code(reason.code));
        (row.section, !first.step.is_drastic(), worst, first.what.clone())
    });
    rows
}

impl Steps {
    fn of_tool(
        &mut self,
        what: &What,
        digest: &str,
        held: &Held,
        baseline: Option<&Baseline>,
        is_first_sight: bool,
    ) -> Rc<Step> {
        let key = (
            what.clone(),
            digest.to_owned(),
            baseline.map(|baseline| baseline.digest.clone()),
            is_first_sight,
        );
        let make = || Rc::new(Step::of_tool(held, baseline, is_first_sight));
        Rc::clone(self.known.entry(key).or_insert_with(make))
    }

    fn of_instructions(&mut self, digest: &str, held: &Held, baseline: Option<&Baseline>) -> Rc<Step> {
        let key = (
            What::Instructions,
            digest.to_owned(),
            baseline.map(|baseline| baseline.digest.clone()),
            false,
        );
        let make = || Rc::new(Step::of_instructions(held, baseline));
        Rc::clone(self.known.entry(key).or_insert_with(make))
    }
}

impl Step {
    fn of_tool(held: &Held, baseline: Option<&Baseline>, is_first_sight: bool) -> Step {
        let after = Definition::read(&held.definition);
        let before = baseline.map(|baseline| Definition::read(&baseline.text));
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
            None => held.definition.clone(),
            Some(_) => step.sameness(),
        };
        step
    }

    fn of_instructions(held: &Held, baseline: Option<&Baseline>) -> Step {
        let after = Instructions::read(&held.definition);
        let before = baseline.and_then(|baseline| Instructions::read(&baseline.text));
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
            signature: held.definition.clone(),
        }
    }

    fn section(&self) -> Section {
        let worst = self
            .reasons
            .iter()
            .map(|reason| Danger::of_code(reason.code))
            .min();
        Section::of(worst.unwrap_or(Danger::Benign), self.is_drastic())
    }

    /// Whether the tool deletes, pays, runs code or administers, now or before.
    pub(super) fn is_drastic(&self) -> bool {
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
