//! The record of one server: what is pinned, what was accepted, what waits for a person.
//!
//! Invariant: only [`Record::pin`] and [`Record::approve`] move a baseline.

use std::collections::BTreeMap;

use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{Instructions, MemberKind};
use serde::{Deserialize, Serialize};

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
}

/// A definition that is the baseline of its tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The written digest.
    pub digest: String,
    /// The written meta digest, where there is `_meta`.
    pub meta_digest: Option<String>,
    /// The definition as the server sent it.
    pub definition: String,
    /// Unix seconds.
    pub at: i64,
    /// How.
    pub via: Via,
}

/// A definition that was trusted at some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The written digest.
    pub digest: String,
    /// Unix seconds.
    pub at: i64,
    /// How.
    pub via: Via,
}

/// All that is remembered of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPin {
    /// What it is judged against; `None` while only something held is known of it.
    pub baseline: Option<Pin>,
    /// Every baseline and accepted step, oldest first, at most [`Record::MAX_HISTORY`].
    pub history: Vec<Accepted>,
    /// Digest and time of what was shown last, when it is not the baseline.
    pub last_seen: Option<Accepted>,
    /// What is held and waits for a person, by written digest; at most [`Record::MAX_HELD`] a tool.
    pub held: BTreeMap<String, Held>,
    /// Digests that a person refused.
    pub refused: BTreeMap<String, i64>,
}

/// A definition that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct MemberPin {
    /// The written digest of the baseline.
    pub digest: String,
    /// The definition as sent.
    pub definition: String,
    /// Unix seconds.
    pub at: i64,
    /// Digests that were reported already.
    pub reported: Vec<String>,
}

/// All that is remembered of one server under one auth context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// By name.
    pub tools: BTreeMap<String, ToolPin>,
    /// The instructions' baseline; outer `None`: never seen; inner: pinned as absent.
    pub instructions: Option<Option<TextPin>>,
    /// Instructions that wait for a person, by written digest.
    pub held_instructions: BTreeMap<String, Held>,
    /// Prompts, resources and templates, by [`MemberKind::name`] and key.
    pub members: BTreeMap<String, BTreeMap<String, MemberPin>>,
}

impl Record {
    /// The most accepted steps remembered of one tool.
    pub const MAX_HISTORY: usize = 100;
    /// The most held definitions kept of one tool; the oldest goes first.
    pub const MAX_HELD: usize = 16;

    /// Whether nothing of this server was ever trusted.
    pub fn is_empty(&self) -> bool {
        todo!("pins")
    }

    /// The baseline of a tool, read.
    pub fn baseline(&self, tool: &str) -> Option<Definition> {
        let _ = tool;
        todo!("pins")
    }

    /// Makes `definition` the baseline.
    pub fn pin(&mut self, tool: &str, definition: &Definition, via: Via, at: i64) {
        let _ = (tool, definition, via, at);
        todo!("pins")
    }

    /// Notes that `definition` was let through without being the baseline.
    pub fn accept(&mut self, tool: &str, definition: &Definition, at: i64) {
        let _ = (tool, definition, at);
        todo!("pins")
    }

    /// Keeps `definition` for review.
    pub fn hold(&mut self, tool: &str, definition: &Definition, codes: &[&str], at: i64) {
        let _ = (tool, definition, codes, at);
        todo!("pins")
    }

    /// A person approved exactly this digest: the held definition becomes the baseline. `false` when no such digest is held.
    pub fn approve(&mut self, tool: &str, digest: &str, at: i64) -> bool {
        let _ = (tool, digest, at);
        todo!("pins")
    }

    /// A person refused exactly this digest: it stays held without waiting. `false` when no such digest is held.
    pub fn refuse(&mut self, tool: &str, digest: &str, at: i64) -> bool {
        let _ = (tool, digest, at);
        todo!("pins")
    }

    /// Pins the instructions (or their absence) when nothing of them is known; keeps a drifted text for review otherwise.
    pub fn pin_instructions(
        &mut self,
        instructions: Option<&Instructions>,
        literal: Option<&str>,
        via: Via,
        at: i64,
    ) {
        let _ = (instructions, literal, via, at);
        todo!("pins")
    }

    /// Pins a prompt, resource or template that is new, or notes that this digest was reported. `true` when it has to be
    /// reported now.
    pub fn note_member(
        &mut self,
        kind: MemberKind,
        name: &str,
        digest: &Digest,
        definition: &str,
        at: i64,
    ) -> bool {
        let _ = (kind, name, digest, definition, at);
        todo!("pins")
    }
}
