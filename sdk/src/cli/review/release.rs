//! What is held of one server, put together as a person looks at a release: the dangerous first, the same change in many
//! tools once.
//!
//! Invariant: each held definition that waits stands in exactly one row, with the digest, the text and the baseline it was
//! compared with, so that a decision can be bound to what was shown.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::organisation::{Organisation, Said};
use mcpindex::gate::step::{self, Section, Step};
use mcpindex::pins::{Held, Pin, Record, TextPin, ToolPin};

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
        section: step.section(),
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
    let rows = step::rows(items, |item| &item.step, |_| (), |item| item.what.clone());
    let row = |items: Vec<Item>| {
        let section = items.first()?.section;
        Some(Row { section, items })
    };
    rows.into_iter().filter_map(row).collect()
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
        let make = || {
            Rc::new(Step::of_tool(
                &held.definition,
                baseline.map(|baseline| baseline.text.as_str()),
                is_first_sight,
            ))
        };
        Rc::clone(self.known.entry(key).or_insert_with(make))
    }

    fn of_instructions(&mut self, digest: &str, held: &Held, baseline: Option<&Baseline>) -> Rc<Step> {
        let key = (
            What::Instructions,
            digest.to_owned(),
            baseline.map(|baseline| baseline.digest.clone()),
            false,
        );
        let make = || {
            Rc::new(Step::of_instructions(
                &held.definition,
                baseline.map(|baseline| baseline.text.as_str()),
            ))
        };
        Rc::clone(self.known.entry(key).or_insert_with(make))
    }
}
