//! The record of one server: what is pinned, what was accepted, what waits for a person.
//!
//! Invariant: only [`Record::pin`], and [`Record::approve`], [`Record::obey`] and [`Record::age`] by it, move a tool's baseline; a definition without a digest never
//! becomes one; nothing a server sends makes a record grow without bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{Instructions, MemberKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a definition came to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// Nothing of this server was pinned before.
    FirstSight,
    /// A new tool of a pinned server under `--new-tools tofu`.
    NewTool,
    /// A person approved exactly this digest.
    Approved,
    /// Judged benign by the rules; never a baseline.
    AutoAccept,
    /// Taken over from the published client's pins.
    Imported,
    /// The organisation approved exactly this digest, at its index.
    Index,
    /// Nobody approved it: an index knows exactly this digest for long, and independent installs see it too.
    Aged,
}

impl Via {
    /// As it stands in a record: `first-sight`, `new-tool`, `approved`, `auto-accept`, `imported`, `index`, `aged`.
    pub fn name(self) -> &'static str {
        match self {
            Via::FirstSight => "first-sight",
            Via::NewTool => "new-tool",
            Via::Approved => "approved",
            Via::AutoAccept => "auto-accept",
            Via::Imported => "imported",
            Via::Index => "index",
            Via::Aged => "aged",
        }
    }
}

/// A definition that is the baseline of its tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The written digest.
    pub digest: String,
    /// The written meta digest, where there is `_meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_digest: Option<String>,
    /// The definition as the server sent it; shared, since records are copied to be changed.
    #[serde(serialize_with = "write_shared", deserialize_with = "read_shared")]
    pub definition: Arc<str>,
    /// Unix seconds.
    pub at: i64,
    /// How.
    pub via: Via,
    /// Of [`Via::Index`], which decision in the chain of the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<u64>,
    /// Of [`Via::Aged`], what the index said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<AgedEvidence>,
}

/// What an index said of a definition that stood long enough to be let through without a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgedEvidence {
    /// Which index.
    pub index: String,
    /// The published version that declares it.
    pub version: String,
    /// When that was published, unix seconds.
    pub published_at: i64,
    /// When the crawl saw the definition first, unix seconds.
    pub first_seen: i64,
    /// How many independent installs see it, at least.
    pub installs: u64,
}

/// A definition that was trusted at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// The written digest.
    pub digest: String,
    /// Unix seconds.
    pub at: i64,
    /// How.
    pub via: Via,
}

/// All that is remembered of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolPin {
    /// What it is judged against; `None` while only something held is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Pin>,
    /// Every baseline and accepted step, oldest first, at most [`Record::MAX_HISTORY`].
    pub history: Vec<Accepted>,
    /// Digest and time of what was shown last, when it is not the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Accepted>,
    /// Every definition that was held, by written digest; at most [`Record::MAX_HELD`] a tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, Held>,
    /// The held digest that the server declared when it listed the tool last; `None` while what it declares is let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_now: Option<String>,
    /// Digests that a person refused, and when (unix seconds). What is refused and held waits for nobody.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, i64>,
}

impl ToolPin {
    /// What waits for a person, with its written digest: what the server declares now, when that is held and not refused. A
    /// definition that was held once and is declared no more waits for nobody.
    pub fn waiting(&self) -> Option<(&str, &Held)> {
        waiting(&self.held, self.held_now.as_ref(), &self.refused)
    }

    /// Whether what the server declares now was refused by a person.
    pub fn is_refused_now(&self) -> bool {
        let refused = |digest| self.refused.contains_key(digest);
        self.held_now.as_ref().is_some_and(refused)
    }

    /// Whether this definition was seen before beside the baseline that there is now, be it held or let through.
    pub fn has_seen(&self, digest: &str) -> bool {
        let baseline = self.baseline.as_ref().map(|baseline| baseline.digest.as_str());
        let let_through = self.history.iter().rev();
        let mut let_through = let_through.take_while(|step| step.via == Via::AutoAccept);
        baseline == Some(digest)
            || self.held.contains_key(digest)
            || let_through.any(|step| step.digest == digest)
    }

    fn remember(&mut self, step: Accepted) {
        if self
            .history
            .last()
            .is_some_and(|last| last.digest == step.digest && last.via == step.via)
        {
            return;
        }
        self.history.push(step);
        if self.history.len() > Record::MAX_HISTORY {
            // What a person decided, and first sights, are worth more than what was merely let through.
            let benign = self.history.iter().position(|step| step.via == Via::AutoAccept);
            self.history.remove(benign.unwrap_or(0));
        }
    }
}

/// A definition that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The definition as the server sent it.
    pub definition: String,
    /// When it was seen first, unix seconds.
    pub first_seen: i64,
    /// The codes of the reasons under the posture it was held by (`posture::Reason::code`).
    pub codes: Vec<String>,
}

/// The pin of a text (instructions).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextPin {
    /// The written digest.
    pub digest: String,
    /// The text's JSON literal as sent.
    pub literal: String,
    /// Unix seconds.
    pub at: i64,
    /// How.
    pub via: Via,
}

/// What is remembered of a prompt, resource or template: reported, never held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberPin {
    /// The written digest of the baseline.
    pub digest: String,
    /// The definition as sent.
    pub definition: String,
    /// Unix seconds.
    pub at: i64,
    /// Digests that were reported already, at most [`Record::MAX_REPORTED`].
    pub reported: Vec<String>,
}

/// All that is remembered of one server under one auth context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// By name.
    pub tools: BTreeMap<String, ToolPin>,
    /// The instructions' baseline; outer `None`: never seen; inner: pinned as absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "seen")]
    pub instructions: Option<Option<TextPin>>,
    /// Instructions that were held, by written digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held_instructions: BTreeMap<String, Held>,
    /// The held ones that the server gave last; `None` while what it gives is let through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_instructions_now: Option<String>,
    /// Instructions that a person refused, by written digest, and when (unix seconds): held without waiting.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_instructions: BTreeMap<String, i64>,
    /// Prompts, resources and templates, by [`MemberKind::name`] and key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub members: BTreeMap<String, BTreeMap<String, MemberPin>>,
}

impl Record {
    /// The most steps remembered of one tool; what was merely let through goes first, then the oldest.
    pub const MAX_HISTORY: usize = 100;
    /// The most held definitions kept of one tool; the oldest goes first.
    pub const MAX_HELD: usize = 16;
    /// The most bytes of held definitions kept of one server; the oldest go first.
    pub const MAX_HELD_BYTES: usize = 64 * 1024 * 1024;
    /// The most members of one kind that are remembered; the oldest go first.
    pub const MAX_MEMBERS: usize = 10_000;
    /// The most bytes of members that are remembered; the oldest go first.
    pub const MAX_MEMBER_BYTES: usize = 64 * 1024 * 1024;
    /// The most digests of one member that are known to be reported; the oldest goes first.
    pub const MAX_REPORTED: usize = 16;

    /// Whether no tool of this server was ever trusted, so that what it lists is seen for the first time. Instructions,
    /// prompts and resources don't count: they come before the tools, or without any.
    pub fn is_empty(&self) -> bool {
        self.tools.values().all(|tool| tool.baseline.is_none())
    }

    /// The baseline of a tool, read.
    pub fn baseline(&self, tool: &str) -> Option<Definition> {
        let pin = self.tools.get(tool)?.baseline.as_ref()?;
        Some(Definition::read(&pin.definition))
    }

    /// Makes `definition` the baseline. One without a digest is left out: a raw digest covers a text that readers
    /// disagree on, so there is nothing to hold a server to.
    pub fn pin(&mut self, tool: &str, definition: &Definition, via: Via, at: i64) {
        if definition.no_digest().is_some() {
            return;
        }
        let digest = definition.digest().to_string();
        let pin = self.tools.entry(tool.to_owned()).or_default();
        pin.held.remove(&digest);
        pin.held_now.take_if(|now| *now == digest);
        pin.refused.remove(&digest);
        pin.last_seen = None;
        pin.remember(Accepted {
            digest: digest.clone(),
            at,
            via,
        });
        pin.baseline = Some(Pin {
            digest,
            meta_digest: definition.meta().map(|meta| meta.digest.to_string()),
            definition: definition.shared_text(),
            at,
            via,
            decision: None,
            evidence: None,
        });
    }

    /// An index knows exactly this held definition for long: it becomes the baseline, with what the index said. `false` when the
    /// server does not declare it now, or a person refused it.
    pub fn age(&mut self, tool: &str, definition: &Definition, evidence: AgedEvidence, at: i64) -> bool {
        let digest = definition.digest().to_string();
        let waits = self.tools.get(tool).and_then(ToolPin::waiting);
        if waits.is_none_or(|(waiting, _)| waiting != digest) || definition.no_digest().is_some() {
            return false;
        }
        self.pin(tool, definition, Via::Aged, at);
        if let Some(baseline) = self.tools.get_mut(tool).and_then(|pin| pin.baseline.as_mut()) {
            baseline.evidence = Some(evidence);
        }
        true
    }

    /// The organisation approved exactly this definition, by this decision of its chain: it becomes the baseline.
    pub fn obey(&mut self, tool: &str, definition: &Definition, decision: u64, at: i64) {
        self.pin(tool, definition, Via::Index, at);
        let digest = definition.digest().to_string();
        let baseline = self.tools.get_mut(tool).and_then(|pin| pin.baseline.as_mut());
        if let Some(baseline) = baseline.filter(|baseline| baseline.digest == digest) {
            baseline.decision = Some(decision);
        }
    }

    /// Notes that `definition` was let through without being the baseline. The baseline itself may come here too: then the
    /// tool has come back to it, and nothing else was seen last. A tool without a baseline has nothing to be let through by.
    pub fn accept(&mut self, tool: &str, definition: &Definition, at: i64) {
        let Some(pin) = self.tools.get_mut(tool) else {
            return;
        };
        let Some(baseline) = &pin.baseline else {
            return;
        };
        pin.held_now = None;
        let digest = definition.digest().to_string();
        if digest == baseline.digest {
            pin.last_seen = None;
            return;
        }
        if pin.last_seen.as_ref().is_some_and(|last| last.digest == digest) {
            return;
        }
        let step = Accepted {
            digest,
            at,
            via: Via::AutoAccept,
        };
        pin.remember(step.clone());
        pin.last_seen = Some(step);
    }

    /// Keeps `definition` for review. One that is held already stays as it was seen first: an approval by digest must not
    /// take a `_meta` that nobody was shown.
    pub fn hold(&mut self, tool: &str, definition: &Definition, codes: &[&str], at: i64) {
        let pin = self.tools.entry(tool.to_owned()).or_default();
        let digest = definition.digest().to_string();
        pin.held_now = Some(digest.clone());
        keep(&mut pin.held, digest, definition.text(), codes, at);
    }

    /// A person approved exactly this digest: the held definition becomes the baseline. `false` when no such digest is held,
    /// or it is a raw one (see [`Record::pin`]).
    pub fn approve(&mut self, tool: &str, digest: &str, at: i64) -> bool {
        let held = self.tools.get(tool).and_then(|pin| pin.held.get(digest));
        let Some(definition) = held.map(|held| Definition::read(&held.definition)) else {
            return false;
        };
        if definition.no_digest().is_some() || definition.digest().to_string() != digest {
            return false;
        }
        self.pin(tool, &definition, Via::Approved, at);
        true
    }

    /// A person refused exactly this digest: it stays held without waiting. `false` when no such digest is held.
    pub fn refuse(&mut self, tool: &str, digest: &str, at: i64) -> bool {
        let Some(pin) = self.tools.get_mut(tool) else {
            return false;
        };
        if !pin.held.contains_key(digest) {
            return false;
        }
        pin.refused.entry(digest.to_owned()).or_insert(at);
        true
    }

    /// Pins the instructions (or their absence) when nothing of them is known; keeps a drifted text for review otherwise.
    pub fn pin_instructions(
        &mut self,
        instructions: Option<&Instructions>,
        literal: Option<&str>,
        via: Via,
        at: i64,
    ) {
        let sent = instructions.zip(literal);
        let Some(known) = &self.instructions else {
            self.instructions = Some(sent.map(|(instructions, literal)| TextPin {
                digest: instructions.digest.to_string(),
                literal: literal.to_owned(),
                at,
                via,
            }));
            return;
        };
        if let Some((instructions, literal)) = sent {
            let digest = instructions.digest.to_string();
            if known.as_ref().is_none_or(|known| known.digest != digest) {
                self.hold_instructions(instructions, literal, &[], at);
            }
        }
    }

    /// Keeps instructions for review without pinning them, as at a first sight with markers.
    pub fn hold_instructions(&mut self, instructions: &Instructions, literal: &str, codes: &[&str], at: i64) {
        let digest = instructions.digest.to_string();
        self.held_instructions_now = Some(digest.clone());
        keep(&mut self.held_instructions, digest, literal, codes, at);
    }

    /// What the server gives as instructions now is let through.
    pub fn let_instructions_through(&mut self) {
        self.held_instructions_now = None;
    }

    /// A person approved exactly these instructions. `false` when no such digest is held, or it is a raw one.
    pub fn approve_instructions(&mut self, digest: &str, at: i64) -> bool {
        let Some(held) = self.held_instructions.get(digest) else {
            return false;
        };
        let read = Instructions::read(&held.definition);
        if read.is_none_or(|read| read.digest.is_raw() || read.digest.to_string() != digest) {
            return false;
        }
        self.instructions = Some(Some(TextPin {
            digest: digest.to_owned(),
            literal: held.definition.clone(),
            at,
            via: Via::Approved,
        }));
        self.held_instructions.remove(digest);
        self.held_instructions_now.take_if(|now| now == digest);
        self.refused_instructions.remove(digest);
        true
    }

    /// A person refused exactly these instructions: they stay held without waiting. `false` when no such digest is held.
    pub fn refuse_instructions(&mut self, digest: &str, at: i64) -> bool {
        if !self.held_instructions.contains_key(digest) {
            return false;
        }
        self.refused_instructions.entry(digest.to_owned()).or_insert(at);
        true
    }

    /// The instructions that wait for a person, with their written digest: as [`ToolPin::waiting`].
    pub fn waiting_instructions(&self) -> Option<(&str, &Held)> {
        let now = self.held_instructions_now.as_ref();
        waiting(&self.held_instructions, now, &self.refused_instructions)
    }

    /// Pins a prompt, resource or template that is new, or notes that this digest was reported. `true` when it has to be
    /// reported now: it is neither the baseline nor reported before.
    pub fn note_member(
        &mut self,
        kind: MemberKind,
        name: &str,
        digest: &Digest,
        definition: &str,
        at: i64,
    ) -> bool {
        let digest = digest.to_string();
        let members = self.members.entry(kind.name().to_owned()).or_default();
        let Some(known) = members.get_mut(name) else {
            members.insert(
                name.to_owned(),
                MemberPin {
                    digest,
                    definition: definition.to_owned(),
                    at,
                    reported: Vec::new(),
                },
            );
            return false;
        };
        if known.digest == digest || known.reported.contains(&digest) {
            return false;
        }
        known.reported.push(digest);
        if known.reported.len() > Record::MAX_REPORTED {
            known.reported.remove(0);
        }
        true
    }

    /// Every tool with something that waits for a person, by name.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, &ToolPin)> {
        self.tools
            .iter()
            .filter(|(_, pin)| pin.waiting().is_some())
            .map(|(name, pin)| (name.as_str(), pin))
    }

    /// The part of the record that decisions about these tools, or about the instructions, change.
    pub fn part(&self, tools: &[&str]) -> Record {
        let pin = |tool: &&str| Some(((*tool).to_owned(), self.tools.get(*tool)?.clone()));
        Record {
            tools: tools.iter().filter_map(pin).collect(),
            instructions: self.instructions.clone(),
            held_instructions: self.held_instructions.clone(),
            held_instructions_now: self.held_instructions_now.clone(),
            refused_instructions: self.refused_instructions.clone(),
            members: BTreeMap::new(),
        }
    }

    /// Takes a decision back: what [`Record::part`] was before it, `was`, in the place of what it was after, `left`. `false`,
    /// and nothing changes, when something else was written there since.
    pub fn take_back(&mut self, left: &Record, was: &Record) -> bool {
        let texts = |record: &Record| {
            (
                record.instructions.clone(),
                record.held_instructions.clone(),
                record.refused_instructions.clone(),
            )
        };
        let about_instructions = texts(left) != texts(was);
        let is_as_left = left
            .tools
            .iter()
            .all(|(tool, pin)| self.tools.get(tool) == Some(pin))
            && (!about_instructions || texts(self) == texts(left));
        if !is_as_left {
            return false;
        }
        self.tools
            .extend(was.tools.iter().map(|(tool, pin)| (tool.clone(), pin.clone())));
        if about_instructions {
            (
                self.instructions,
                self.held_instructions,
                self.refused_instructions,
            ) = texts(was);
        }
        true
    }
}

/// What is held now, unless a person refused it.
fn waiting<'r>(
    held: &'r BTreeMap<String, Held>,
    now: Option<&String>,
    refused: &BTreeMap<String, i64>,
) -> Option<(&'r str, &'r Held)> {
    let (digest, held) = held.get_key_value(now?)?;
    (!refused.contains_key(digest)).then_some((digest.as_str(), held))
}

/// Keeps a text for review under its digest, at most [`Record::MAX_HELD`] of them.
fn keep(held: &mut BTreeMap<String, Held>, digest: String, text: &str, codes: &[&str], at: i64) {
    let codes: Vec<String> = codes.iter().map(|&code| code.to_owned()).collect();
    if let Some(known) = held.get_mut(&digest) {
        known.codes = codes;
        return;
    }
    if held.len() >= Record::MAX_HELD {
        let oldest = held.iter().min_by_key(|(_, held)| held.first_seen);
        if let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) {
            held.remove(&oldest);
        }
    }
    held.insert(
        digest,
        Held {
            definition: text.to_owned(),
            first_seen: at,
            codes,
        },
    );
}

fn write_shared<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn read_shared<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(deserializer).map(Arc::from)
}

/// A member that is there was seen, and `null` says that it was seen as absent.
fn seen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<TextPin>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400;

    fn tool(description: &str) -> Definition {
        Definition::read(&format!(r#"{{"name":"a","description":"{description}"}}"#))
    }

    fn digest(definition: &Definition) -> String {
        definition.digest().to_string()
    }

    /// Of the tool `a`: baseline, what was seen last, what waits.
    fn check(
        record: &Record,
        baseline: Option<&Definition>,
        last_seen: Option<&Definition>,
        waiting: &[&Definition],
    ) {
        let pin = &record.tools["a"];
        let at = |definition: Option<&Definition>| definition.map(digest);
        assert_eq!(pin.baseline.as_ref().map(|pin| pin.digest.clone()), at(baseline));
        assert_eq!(
            pin.last_seen.as_ref().map(|last| last.digest.clone()),
            at(last_seen)
        );
        let mut expected: Vec<String> = waiting.iter().map(|definition| digest(definition)).collect();
        expected.sort();
        let found: Vec<&str> = pin.waiting().map(|(digest, _)| digest).into_iter().collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_let_through_never_moves_the_baseline_and_coming_back_is_no_drift() {
        let (one, two, three) = (tool("1"), tool("2"), tool("3"));
        let mut record = Record::default();
        record.pin("a", &one, Via::FirstSight, 0);
        for (day, step) in (1..).zip([&two, &three]) {
            record.accept("a", step, day * DAY);
            check(&record, Some(&one), Some(step), &[]);
        }
        record.accept("a", &one, 3 * DAY);
        check(&record, Some(&one), None, &[]);
        let history: Vec<&str> = record.tools["a"]
            .history
            .iter()
            .map(|step| step.via.name())
            .collect();
        assert_eq!(history, ["first-sight", "auto-accept", "auto-accept"]);
        assert_eq!(record.baseline("a"), Some(one));
    }

    #[test]
    fn a_step_that_is_seen_again_is_not_written_again() {
        let mut record = Record::default();
        record.pin("a", &tool("1"), Via::FirstSight, 0);
        record.accept("a", &tool("2"), DAY);
        record.hold("a", &tool("3"), &["code"], DAY);
        let before = record.clone();
        record.accept("a", &tool("2"), 2 * DAY);
        record.hold("a", &tool("3"), &["code"], 2 * DAY);
        record.accept("unknown", &tool("2"), 2 * DAY);
        assert_eq!(record, before);
    }

    #[test]
    fn an_approval_binds_the_digest_and_leaves_what_else_is_held() {
        let (one, two, three) = (tool("1"), tool("2"), tool("3"));
        let mut record = Record::default();
        record.pin("a", &one, Via::FirstSight, 0);
        record.hold("a", &two, &[], DAY);
        record.hold("a", &three, &[], DAY);
        assert!(!record.approve("a", &digest(&one), DAY), "it is not held");
        assert!(!record.approve("b", &digest(&two), DAY), "nor is it of this tool");
        assert!(record.approve("a", &digest(&two), 2 * DAY));
        check(&record, Some(&two), None, &[&three]);
        let pin = record.tools["a"].baseline.as_ref().unwrap();
        assert_eq!((pin.at, pin.via), (2 * DAY, Via::Approved));
    }

    #[test]
    fn what_was_refused_stays_held_until_it_is_approved_after_all() {
        let two = tool("2");
        let mut record = Record::default();
        record.hold("a", &two, &[], 0);
        assert!(record.is_empty(), "what is only held was never trusted");
        assert!(!record.refuse("a", &digest(&tool("3")), DAY));
        assert!(record.refuse("a", &digest(&two), DAY));
        check(&record, None, None, &[]);
        record.hold("a", &two, &[], 2 * DAY);
        check(&record, None, None, &[]);
        assert!(record.approve("a", &digest(&two), 3 * DAY));
        check(&record, Some(&two), None, &[]);
        assert!(record.tools["a"].refused.is_empty());
    }

    #[test]
    fn an_approval_never_takes_a_meta_that_was_not_shown() {
        let meta = |value: u8| Definition::read(&format!(r#"{{"name":"a","_meta":{{"k":{value}}}}}"#));
        let mut record = Record::default();
        record.pin("a", &meta(1), Via::FirstSight, 0);
        record.hold("a", &meta(2), &[], DAY);
        record.hold("a", &meta(3), &[], 2 * DAY);
        assert!(record.approve("a", &digest(&meta(3)), 3 * DAY));
        assert_eq!(record.baseline("a"), Some(meta(2)));
    }

    #[test]
    fn a_definition_without_a_digest_is_held_and_never_a_baseline() {
        let bad = Definition::read(r#"{"name":"a","x":1,"x":2}"#);
        let mut record = Record::default();
        record.pin("a", &bad, Via::FirstSight, 0);
        assert_eq!(record, Record::default());
        record.hold("a", &bad, &["duplicate-member"], 0);
        assert!(!record.approve("a", &digest(&bad), DAY));
        check(&record, None, None, &[&bad]);
    }

    #[test]
    fn history_keeps_what_people_decided_and_the_newest_steps() {
        let mut record = Record::default();
        record.pin("a", &tool("first"), Via::FirstSight, 0);
        for step in 0..2 * Record::MAX_HISTORY {
            record.accept("a", &tool(&step.to_string()), DAY);
        }
        let history = &record.tools["a"].history;
        assert_eq!(history.len(), Record::MAX_HISTORY);
        assert_eq!(history[0].via, Via::FirstSight);
        let newest = tool(&(2 * Record::MAX_HISTORY - 1).to_string());
        assert_eq!(history[Record::MAX_HISTORY - 1].digest, digest(&newest));
    }

    #[test]
    fn the_oldest_of_too_many_held_definitions_goes() {
        let mut record = Record::default();
        for day in 0..=Record::MAX_HELD {
            record.hold(
                "a",
                &tool(&day.to_string()),
                &[],
                i64::try_from(day).unwrap() * DAY,
            );
        }
        let held = &record.tools["a"].held;
        assert_eq!(held.len(), Record::MAX_HELD);
        assert!(!held.contains_key(&digest(&tool("0"))));
        assert!(held.contains_key(&digest(&tool("16"))));
    }

    #[test]
    fn instructions_are_pinned_once_even_as_absent() {
        let ask = Instructions::read(r#""Ask.""#);
        let mut record = Record::default();
        record.pin_instructions(None, None, Via::FirstSight, 0);
        assert_eq!(record.instructions, Some(None));
        record.pin_instructions(ask.as_ref(), Some(r#""Ask.""#), Via::FirstSight, DAY);
        assert_eq!(record.instructions, Some(None));
        let digest = ask.unwrap().digest.to_string();
        assert_eq!(record.held_instructions[&digest].first_seen, DAY);
        assert!(!record.approve_instructions("sha256:0", DAY));
        assert!(record.approve_instructions(&digest, DAY));
        assert_eq!(
            record.instructions.as_ref().unwrap().as_ref().unwrap().digest,
            digest
        );
        assert!(record.held_instructions.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Pin,
        Accept,
        Hold,
        Approve,
        Obey,
        Refuse,
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, String, u8, i64)>> {
        let step = prop_oneof![
            Just(Step::Pin),
            Just(Step::Accept),
            Just(Step::Hold),
            Just(Step::Approve),
            Just(Step::Obey),
            Just(Step::Refuse),
        ];
        prop::collection::vec((step, "[ab\u{1b}]", 0..6u8, any::<i64>()), 0..40)
    }

    proptest! {
        #[test]
        fn whatever_happened_a_record_comes_back_from_its_text_and_verifies(steps in steps(), pins_none in any::<bool>()) {
            let mut record = Record::default();
            if pins_none {
                record.pin_instructions(None, None, Via::FirstSight, 0);
            }
            for (step, name, which, at) in steps {
                let member = serde_json::to_string(&name).unwrap();
                let definition = Definition::read(&format!(r#"{{"name": {member}, "x": {which}, "_meta": {at}}}"#));
                let written = digest(&definition);
                let before = record.tools.get(&name).and_then(|pin| pin.baseline.clone());
                match step {
                    Step::Pin => record.pin(&name, &definition, Via::NewTool, at),
                    Step::Accept => record.accept(&name, &definition, at),
                    Step::Hold => record.hold(&name, &definition, &["code"], at),
                    Step::Obey => record.obey(&name, &definition, 7, at),
                    Step::Approve => drop(record.approve(&name, &written, at)),
                    Step::Refuse => drop(record.refuse(&name, &written, at)),
                }
                if matches!(step, Step::Accept | Step::Hold | Step::Refuse) {
                    let after = record.tools.get(&name).and_then(|pin| pin.baseline.clone());
                    prop_assert_eq!(before, after);
                }
            }
            let text = serde_json::to_string_pretty(&record).unwrap();
            let back: Record = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.verify(&Record::default()), Ok(()));
            prop_assert_eq!(back, record);
        }
    }
}
