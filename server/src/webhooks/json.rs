//! The form `json`: our own closed shape, in the envelope that the Standard Webhooks specification recommends.
//!
//! Invariant: a server's own words stand in members named `untrusted_…` alone, escaped so that nothing in them hides, and only
//! where the target asks for them. A name that is more than a plain name is one of those too.

use mcpindex::visible::visible_within;
use serde::Serialize;
use url::Url;

use super::event::{ChangedSubject, Told, ToldDecision, ToldDrift, absolute};
use crate::when::rfc3339;

/// Subjects that are written out; more are counted.
const MOST_SUBJECTS: usize = 100;
/// Changes of one subject that are written out.
const MOST_CHANGES: usize = 20;
/// Characters of one of the server's texts, and of all of them together.
const MAX_TEXT: usize = 2_000;
const MAX_TEXTS: usize = 100_000;
/// The longest name that may be a plain one.
const MAX_NAME: usize = 128;

#[derive(Serialize)]
struct Envelope<T> {
    /// `drift.recorded`, `decision.recorded` or `test`.
    r#type: &'static str,
    /// When it happened.
    timestamp: Option<String>,
    format: &'static str,
    data: T,
}

#[derive(Serialize)]
struct TestBody<'t> {
    index: String,
    webhook: &'t str,
}

#[derive(Serialize)]
struct DriftBody<'t> {
    index: String,
    identity: &'t str,
    short_id: &'t str,
    drift: i64,
    before: SideBody<'t>,
    after: SideBody<'t>,
    cause: &'t str,
    safety_relevant: bool,
    replaced: bool,
    summary: String,
    kinds: Vec<KindBody<'t>>,
    /// Tools, prompts, resources and the server's instructions.
    subjects: Vec<SubjectBody<'t>>,
    subjects_left_out: usize,
    links: LinksBody,
}

#[derive(Serialize)]
struct DecisionBody<'t> {
    index: String,
    identity: &'t str,
    /// `approve`, `refuse` or `withdraw`.
    decision: &'static str,
    /// Who decided, and how many people an approval takes.
    subject: &'t str,
    needed: u8,
    decided: Vec<DecidedBody<'t>>,
    decided_left_out: usize,
    links: DecisionLinksBody,
}

#[derive(Serialize)]
struct DecidedBody<'t> {
    /// Its place in the chain of approvals.
    sequence: u64,
    /// Absent where it is no plain name.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_tool: Option<String>,
    digest: String,
    reason: Option<&'t str>,
    reference: Option<&'t str>,
    expires_at: Option<String>,
}

#[derive(Serialize)]
struct DecisionLinksBody {
    server: String,
}

#[derive(Serialize)]
struct SideBody<'t> {
    version: Option<&'t str>,
    observed_at: Option<String>,
}

#[derive(Serialize)]
struct KindBody<'t> {
    kind: &'t str,
    count: i64,
}

#[derive(Serialize)]
struct SubjectBody<'t> {
    kind: &'static str,
    /// Absent where it is no plain name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_name: Option<String>,
    before_digest: Option<String>,
    after_digest: Option<String>,
    changes: Vec<ChangeBody>,
    changes_left_out: usize,
}

#[derive(Serialize)]
struct ChangeBody {
    kind: &'static str,
    direction: &'static str,
    safety_relevant: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_pointer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    untrusted_after: Option<String>,
}

#[derive(Serialize)]
struct LinksBody {
    page: String,
    api: String,
    server: String,
}

/// The body of a delivery to the target of this id.
pub(crate) fn body(
    told: &Told,
    base: &Url,
    webhook: &str,
    untrusted: bool,
    made_at: i64,
) -> Result<String, serde_json::Error> {
    const FORMAT: &str = "mcpindex-event/1";
    match told {
        Told::Test => serde_json::to_string(&Envelope {
            r#type: "test",
            timestamp: rfc3339(made_at),
            format: FORMAT,
            data: TestBody {
                index: absolute(base, ""),
                webhook,
            },
        }),
        Told::Decision(told) => serde_json::to_string(&Envelope {
            r#type: "decision.recorded",
            timestamp: rfc3339(told.first.at),
            format: FORMAT,
            data: decision_body(told, base, untrusted),
        }),
        Told::Drift(told) => serde_json::to_string(&Envelope {
            r#type: "drift.recorded",
            timestamp: rfc3339(told.drift.found_at),
            format: FORMAT,
            data: drift_body(told, base, untrusted),
        }),
    }
}

fn decision_body<'t>(told: &'t ToldDecision, base: &Url, untrusted: bool) -> DecisionBody<'t> {
    let mut room = if untrusted { MAX_TEXTS } else { 0 };
    DecisionBody {
        index: absolute(base, ""),
        identity: &told.first.identity,
        decision: told.first.decision.name(),
        subject: &told.first.subject,
        needed: told.first.needed,
        decided: told
            .records()
            .take(MOST_SUBJECTS)
            .map(|record| {
                let plain = is_plain_name(&record.tool);
                DecidedBody {
                    sequence: record.sequence,
                    tool: plain.then_some(record.tool.as_str()),
                    untrusted_tool: words(Some(&record.tool).filter(|_| !plain), &mut room),
                    digest: record.digest.to_string(),
                    reason: record.reason.as_deref(),
                    reference: record.reference.as_deref(),
                    expires_at: record.expires_at.and_then(rfc3339),
                }
            })
            .collect(),
        decided_left_out: told.count().saturating_sub(MOST_SUBJECTS),
        links: DecisionLinksBody {
            server: told.server(base),
        },
    }
}

fn drift_body<'t>(told: &'t ToldDrift, base: &Url, untrusted: bool) -> DriftBody<'t> {
    let drift = &told.drift;
    let subjects = told.subjects();
    let mut room = if untrusted { MAX_TEXTS } else { 0 };
    DriftBody {
        index: absolute(base, ""),
        identity: &drift.identity,
        short_id: &drift.short_id,
        drift: drift.id,
        before: SideBody {
            version: drift.before_version.as_deref(),
            observed_at: rfc3339(drift.before_observed_at),
        },
        after: SideBody {
            version: drift.after_version.as_deref(),
            observed_at: rfc3339(drift.after_observed_at),
        },
        cause: &drift.cause,
        safety_relevant: drift.safety_relevant,
        replaced: drift.replaced,
        summary: told.summary(),
        kinds: drift
            .kinds
            .iter()
            .map(|(kind, count)| KindBody { kind, count: *count })
            .collect(),
        subjects_left_out: subjects.len().saturating_sub(MOST_SUBJECTS),
        subjects: subjects
            .iter()
            .take(MOST_SUBJECTS)
            .map(|subject| subject_body(subject, &mut room))
            .collect(),
        links: LinksBody {
            page: told.page(base),
            api: told.api(base),
            server: told.server(base),
        },
    }
}

fn subject_body<'t>(subject: &ChangedSubject<'t>, room: &mut usize) -> SubjectBody<'t> {
    // The changes hold the name for as long as the drift does.
    let name = subject.changes.first().and_then(|change| match &change.subject {
        mcpindex_contract::change::Subject::Member(_, name) => Some(name.as_str()),
        _ => None,
    });
    let plain = name.filter(|name| is_plain_name(name));
    SubjectBody {
        kind: subject.kind(),
        untrusted_name: name
            .filter(|_| plain.is_none())
            .and_then(|name| words(Some(name), room)),
        name: plain,
        before_digest: subject.before.map(|digest| digest.to_string()),
        after_digest: subject.after.map(|digest| digest.to_string()),
        changes: subject
            .changes
            .iter()
            .take(MOST_CHANGES)
            .map(|change| ChangeBody {
                kind: change.kind.name(),
                direction: change.kind.direction().name(),
                safety_relevant: change.kind.safety_relevant(),
                untrusted_pointer: words(Some(&change.pointer).filter(|pointer| !pointer.is_empty()), room),
                untrusted_before: words(change.before.as_ref(), room),
                untrusted_after: words(change.after.as_ref(), room),
            })
            .collect(),
        changes_left_out: subject.changes.len().saturating_sub(MOST_CHANGES),
    }
}

/// A server's words, while there is room for them.
fn words(text: Option<impl AsRef<str>>, room: &mut usize) -> Option<String> {
    let shown = visible_within(text?.as_ref(), MAX_TEXT);
    *room = room.checked_sub(shown.len())?;
    Some(shown)
}

/// Whether a name is of the letters that the protocol wants in the names of tools.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_plain)
}
