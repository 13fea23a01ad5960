//! What an index is asked of servers and tools, and what it answers: `POST /api/v1/check`, as client and server write it.
//!
//! A program that asks by itself sends fingerprints and digests alone; names are for a person's question.
//!
//! Invariant: a question is a closed shape, so nothing else can be sent or taken; what is not known is null, never left out.

use serde::{Deserialize, Serialize};

/// The most questions in one request.
pub const MAX_ITEMS: usize = 256;

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Questions {
    /// At least one, at most [`MAX_ITEMS`].
    pub items: Vec<Question>,
}

/// One question: exactly one of `server` and `server_fp`, at most one of `tool` and `tool_fp`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// An identity, a registry's name or a short id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The server's fingerprint, 32 hex digits, under the public constant or the organisation's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_fp: Option<String>,
    /// The tool's name; neither this nor `tool_fp`: the whole server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's fingerprint, under the same key as the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_fp: Option<String>,
    /// The definition digest that is asked about, with a tool only; otherwise it is what the server declares now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The published contract hash of the same definition, so that what the published clients told of another one counts as
    /// well. That they told of the same hash says nothing, since it leaves out what a model reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// The answers, as many as were asked, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexAnswers {
    /// One for each question.
    pub items: Vec<IndexAnswer>,
}

/// What an index knows of one server or tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexAnswer {
    /// The name of an [`Answer`](super::Answer).
    pub verdict: String,
    /// Why; what decided first.
    pub reasons: Vec<IndexReason>,
    /// Which server; `None` when the index has none by that name or fingerprint.
    pub server: Option<IndexServer>,
    /// The tool's name, where it is known.
    pub tool: Option<String>,
    /// The digest that the rest is about: the one asked for, else what the server declares now.
    pub digest: Option<String>,
    /// `now`, `before` or `never`, as the crawl saw it; `None` when that could not be determined.
    pub declared: Option<String>,
    /// What the crawl saw of the tool last.
    pub current_digest: Option<String>,
    /// When the crawl saw that digest first, RFC 3339.
    pub first_seen: Option<String>,
    /// When the crawl saw that digest last.
    pub last_seen: Option<String>,
    /// When the crawl found that the server had left that digest; `None` while it declares it.
    pub drifted_since: Option<String>,
    /// The latest drift of the tool, or of the server.
    pub drift: Option<IndexDrift>,
    /// Who sees that digest.
    pub seen_by: SeenBy,
    /// Who sees another digest of the same tool; `None` without a tool.
    pub others: Option<SeenBy>,
    /// Whether others see another contract of this tool and nobody else sees this one; `None` when that can't be said.
    pub alone: Option<bool>,
    /// What the organisation decided of it: `approved`, `refused`, `proposed`, `expired`, `withdrawn`, `doubtful`, `none`, or `unknown`
    /// where it is not known what was asked about.
    pub approval: String,
    /// The newest package with that digest.
    pub artifact: Option<IndexArtifact>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexReason {
    /// For programs; stays what it is.
    pub code: String,
    /// One line for people.
    pub sentence: String,
}

/// A server of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexServer {
    /// The identity's written form.
    pub identity: String,
    /// 16 hex digits.
    pub short_id: String,
    /// How the last look ended; `pending` before the first.
    pub state: String,
    /// Whether some look has determined what it declares.
    pub determined: bool,
    /// When the last look was.
    pub looked_at: Option<String>,
    /// The path of its page.
    pub page: String,
}

/// A drift that the crawl saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDrift {
    /// Its number.
    pub id: i64,
    /// When it was found.
    pub found_at: Option<String>,
    /// The kinds of its changes to that tool, each once.
    pub kinds: Vec<String>,
    /// Whether some of them is safety relevant.
    pub safety_relevant: bool,
    /// The path of its page.
    pub page: String,
}

/// Who sees a digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenBy {
    /// The crawl; `None` when it could not determine that.
    pub crawl: Option<bool>,
    /// Installs; `None` where this index takes no signals.
    pub installs: Option<Installs>,
}

/// How many installs, as far as they are corroborated: what a single sender could have made up is 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installs {
    /// A lower bound: 0 or one of the index's steps.
    pub at_least: u64,
    /// Which sort of installs agree: `authenticated` or `anonymous`.
    pub corroboration: Option<String>,
}

/// A package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexArtifact {
    /// The exact version.
    pub version: String,
    /// npm integrity or PyPI hash.
    pub integrity: Option<String>,
    /// Digest of the resolved dependencies.
    pub dependencies: Option<String>,
    /// The runtime that it was looked at with.
    pub runtime: Option<String>,
    /// When the version was published, RFC 3339.
    pub published_at: Option<String>,
}

/// The codes of an index's reasons, which stay what they are; each with what it means.
pub const CODES: &[(&str, &str)] = &[
    ("no-such-server", "No server goes by this name in the index."),
    (
        "server-not-known",
        "The index knows no server by this fingerprint.",
    ),
    (
        "no-such-tool",
        "The crawler never saw a tool of this name at the server.",
    ),
    (
        "tool-not-known",
        "The index knows no tool of the server by this fingerprint.",
    ),
    ("not-looked-at", "The crawler has not looked at the server yet."),
    (
        "not-determined",
        "No look could determine what the server declares.",
    ),
    (
        "tools-not-determined",
        "The crawler could not read the list of tools to its end.",
    ),
    (
        "last-look-failed",
        "The last look failed: this is from an earlier one.",
    ),
    (
        "gone",
        "The package registry knows no such package, or no such version of it: whoever takes the name says what it is.",
    ),
    (
        "stale",
        "The last look that determined what the server declares was more than 14 days ago.",
    ),
    (
        "several-servers",
        "The name leads to several servers: this is the one that most is to be said against. Ask by identity for one of them.",
    ),
    (
        "removed",
        "The server declared the tool before, and does not any more.",
    ),
    (
        "declared-now",
        "The crawler sees exactly this definition at the server.",
    ),
    (
        "declared-before",
        "The crawler saw exactly this definition at the server before; it is another one by now.",
    ),
    (
        "left-lately",
        "The server left this definition within the last 7 days.",
    ),
    (
        "stood-briefly",
        "The server declared this definition for less than 3 days.",
    ),
    (
        "duplicate-name",
        "The server declares more than one tool of this name, so a call may mean another one.",
    ),
    (
        "not-declared",
        "The crawler never saw this definition at the server.",
    ),
    (
        "alone",
        "Others see another definition of this tool, and nobody else is known to see this one: it is newer than the last look, or \
         served to you alone.",
    ),
    (
        "installs-see-it",
        "Independent installs see exactly this definition.",
    ),
    (
        "installs-see-another",
        "Independent installs see another definition of this tool.",
    ),
    (
        "marker",
        "Its text addresses the model or asks for what the model holds.",
    ),
    (
        "no-digest",
        "The definition can't be digested, so only its exact text can be compared.",
    ),
    (
        "changed-lately",
        "It came or changed within the last 7 days in a way that a gate holds.",
    ),
    (
        "tools-declared",
        "The crawler sees the server's whole list of tools.",
    ),
    (
        "list-not-determined",
        "The crawler could not read the list of prompts or resources to its end.",
    ),
    (
        "not-scanned",
        "More tools were asked about at once than are looked through in one answer: ask for fewer servers.",
    ),
    ("approved", "The organisation approved exactly this."),
    (
        "refused",
        "The organisation refused this: a gate that obeys holds it.",
    ),
    (
        "approval-proposed",
        "One approver has approved exactly this; a second one is needed.",
    ),
    (
        "approval-expired",
        "The organisation's decision about exactly this is over.",
    ),
    (
        "approval-withdrawn",
        "The organisation took back what it had decided about exactly this.",
    ),
    (
        "approval-doubtful",
        "It was approved, and behind a flaw of the chain of approvals a record says otherwise: this approval does not count.",
    ),
    (
        "approvals-broken",
        "The chain of approvals is broken: what was decided from the flaw on does not count.",
    ),
];
