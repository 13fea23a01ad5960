//! What a delivery tells, read from the database when it is made.
//!
//! Invariant: nothing here is a server's own words but names and versions, which each form escapes in its own way, and the texts of
//! changes, which only targets get that ask for them.

use std::collections::BTreeMap;

use mcpindex_contract::approval::{DEFAULT_TENANT, Decision, Record};
use mcpindex_contract::change::{Change, Subject};
use mcpindex_contract::digest::Digest;
use mcpindex_store::drifts::DriftRecord;
use mcpindex_store::webhooks::Event;
use mcpindex_store::{Store, StoreError};
use url::Url;

use crate::links;
use crate::summary::summary;

/// What happened.
pub(crate) enum Told {
    Drift(Box<ToldDrift>),
    Decision(Box<ToldDecision>),
    Test,
}

/// The decisions of one person about one server at one time; at least one.
pub(crate) struct ToldDecision {
    pub(crate) first: Record,
    pub(crate) rest: Vec<Record>,
}

/// A drift with its changes.
pub(crate) struct ToldDrift {
    pub(crate) drift: DriftRecord,
    pub(crate) changes: Vec<Change>,
}

/// One tool, prompt, …, or the server's instructions, with all that changed of it.
pub(crate) struct ChangedSubject<'d> {
    pub(crate) subject: &'d Subject,
    pub(crate) before: Option<Digest>,
    pub(crate) after: Option<Digest>,
    pub(crate) changes: Vec<&'d Change>,
}

impl Told {
    /// What happened; `None` when the database has it no more.
    ///
    /// [`StoreError::ChainBroken`]: a decision that can't be trusted is not told.
    pub(crate) async fn read(store: &Store, event: Event, now: i64) -> Result<Option<Told>, StoreError> {
        Ok(match event {
            Event::Drift(number) => store
                .drift(number)
                .await?
                .map(|(drift, changes)| Told::Drift(Box::new(ToldDrift { drift, changes }))),
            Event::Decision(first) => {
                let mut records = store.decisions_of_act(first).await?.into_iter();
                let Some(first) = records.next() else {
                    return Ok(None);
                };
                let told = ToldDecision {
                    first,
                    rest: records.collect(),
                };
                let chain = store.verified_approvals(DEFAULT_TENANT, now).await?;
                match chain.flaw {
                    Some(flaw) if chain.good < told.last() => return Err(StoreError::ChainBroken { flaw }),
                    _ => Some(Told::Decision(Box::new(told))),
                }
            }
            Event::Test => Some(Told::Test),
        })
    }
}

impl ToldDecision {
    /// All of them, in the order of the chain.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(crate) fn count(&self) -> usize {
        1 + self.rest.len()
    }

    fn last(&self) -> u64 {
        self.rest.last().unwrap_or(&self.first).sequence
    }

    /// `approved`, `refused` or `withdrawn`.
    pub(crate) fn verb(&self) -> &'static str {
        match self.first.decision {
            Decision::Approve => "approved",
            Decision::Refuse => "refused",
            Decision::Withdraw => "withdrawn",
        }
    }

    pub(crate) fn server(&self, base: &Url) -> String {
        absolute(base, &links::server_page_of(&self.first.identity))
    }
}

impl ToldDrift {
    /// By what changed, what is safety relevant first, tools first.
    pub(crate) fn subjects(&self) -> Vec<ChangedSubject<'_>> {
        let mut subjects: BTreeMap<(u8, &str), ChangedSubject<'_>> = BTreeMap::new();
        for change in &self.changes {
            let key = match &change.subject {
                Subject::Server => (2, ""),
                Subject::Instructions => (1, ""),
                Subject::Member(kind, name) => {
                    (if *kind as u8 == 0 { 0 } else { 3 + *kind as u8 }, name.as_str())
                }
            };
            let entry = subjects.entry(key).or_insert_with(|| ChangedSubject {
                subject: &change.subject,
                before: change.before_digest,
                after: change.after_digest,
                changes: Vec::new(),
            });
            entry.changes.push(change);
        }
        let mut subjects: Vec<ChangedSubject<'_>> = subjects.into_values().collect();
        subjects.sort_by_key(|subject| !subject.is_safety_relevant());
        subjects
    }

    /// The drift in one line, without a word of the server's.
    pub(crate) fn summary(&self) -> String {
        summary(&self.drift.kinds, &self.drift.changed)
    }

    pub(crate) fn page(&self, base: &Url) -> String {
        absolute(base, &links::drift_page(self.drift.id))
    }

    pub(crate) fn api(&self, base: &Url) -> String {
        absolute(base, &links::drift_api(self.drift.id))
    }

    pub(crate) fn server(&self, base: &Url) -> String {
        absolute(base, &links::server_page(&self.drift.short_id))
    }

    /// The same for the same changes of the same server, in every database and at every attempt: 16 hex digits.
    pub(crate) fn fingerprint(&self) -> String {
        let mut lines: Vec<String> = self
            .changes
            .iter()
            .map(|change| {
                let digest =
                    |digest: Option<Digest>| digest.map_or("-".to_owned(), |digest| digest.to_string());
                let subject = match &change.subject {
                    Subject::Server => "server",
                    Subject::Instructions => "instructions",
                    Subject::Member(kind, _) => kind.name(),
                };
                format!(
                    "{} {subject} {} {}",
                    change.kind.name(),
                    digest(change.before_digest),
                    digest(change.after_digest)
                )
            })
            .collect();
        lines.sort();
        lines.dedup();
        let text = format!("mcpindex drift\n{}\n{}", self.drift.identity, lines.join("\n"));
        let mut hex = Digest::of_canonical(&text).hex();
        hex.truncate(16);
        hex
    }
}

impl ChangedSubject<'_> {
    pub(crate) fn is_safety_relevant(&self) -> bool {
        self.changes.iter().any(|change| change.kind.safety_relevant())
    }

    /// `tool`, `prompt`, … or `instructions`.
    pub(crate) fn kind(&self) -> &'static str {
        match self.subject {
            Subject::Server => "server",
            Subject::Instructions => "instructions",
            Subject::Member(kind, _) => kind.name(),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self.subject {
            Subject::Member(_, name) => Some(name),
            Subject::Server | Subject::Instructions => None,
        }
    }

    /// The names of its kinds of change, each once.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        let mut kinds: Vec<&'static str> = Vec::new();
        for change in &self.changes {
            if !kinds.contains(&change.kind.name()) {
                kinds.push(change.kind.name());
            }
        }
        kinds
    }
}

/// An address of this index as people elsewhere can open it.
pub(crate) fn absolute(base: &Url, path: &str) -> String {
    let path = path.trim_start_matches('/');
    base.join(path).map_or_else(|_| path.to_owned(), String::from)
}
