//! What stands: of each (identity, tool, digest) the last decision, for as long as it is good.
//!
//! Invariant: nothing that can't be trusted makes an approval stand. Records from a flaw on are taken by [`Standings::distrust`],
//! which can take an approval away and never give one.

use std::collections::BTreeMap;

use super::{Decision, Record};
use crate::digest::Digest;

/// How a definition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It may be used.
    Approved,
    /// One of two people has approved it.
    Proposed,
    /// It may not be used.
    Refused,
    /// What was decided was taken back: as if nobody had decided.
    Withdrawn,
    /// What was decided is over: as if nobody had decided.
    Expired,
    /// It was approved, and a record that can't be trusted says otherwise: as if nobody had decided.
    Doubtful,
}

impl State {
    /// All of them.
    pub const ALL: [State; 6] = [
        State::Approved,
        State::Proposed,
        State::Refused,
        State::Withdrawn,
        State::Expired,
        State::Doubtful,
    ];

    /// `approved`, `proposed`, `refused`, `withdrawn`, `expired` or `doubtful`.
    pub fn name(self) -> &'static str {
        match self {
            State::Approved => "approved",
            State::Proposed => "proposed",
            State::Refused => "refused",
            State::Withdrawn => "withdrawn",
            State::Expired => "expired",
            State::Doubtful => "doubtful",
        }
    }
}

/// What was decided of one definition, as of a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// How it stands.
    pub state: State,
    /// The last decision.
    pub record: Record,
    /// Who else approved, where an approval takes two.
    pub second: Option<String>,
    /// Until when this stands; `None`: until somebody decides again. Of two approvals the end of the sooner.
    pub until: Option<i64>,
}

/// The decisions of any number of records, added in the order of the chain.
#[derive(Debug, Clone, Default)]
pub struct Standings {
    // Nested, so that a look-up borrows its texts.
    by_identity: BTreeMap<String, BTreeMap<String, BTreeMap<Digest, Decided>>>,
}

/// What was decided of one definition.
#[derive(Debug, Clone)]
struct Decided {
    last: Record,
    /// Each person's last approval since somebody refused or withdrew: who, and until when.
    approvals: Vec<(String, Option<i64>)>,
    in_doubt: bool,
}

impl Standings {
    /// Adds the next record of a chain that was verified up to it.
    pub fn add(&mut self, record: &Record) {
        let by_digest = self
            .by_identity
            .entry(record.identity.clone())
            .or_default()
            .entry(record.tool.clone())
            .or_default();
        let approval =
            (record.decision == Decision::Approve).then(|| (record.subject.clone(), record.expires_at));
        match by_digest.get_mut(&record.digest) {
            None => {
                by_digest.insert(
                    record.digest,
                    Decided {
                        last: record.clone(),
                        approvals: approval.into_iter().collect(),
                        in_doubt: false,
                    },
                );
            }
            Some(decided) => {
                match approval {
                    Some(approval) => {
                        decided.approvals.retain(|(subject, _)| *subject != approval.0);
                        decided.approvals.push(approval);
                    }
                    None => decided.approvals.clear(),
                }
                decided.last = record.clone();
            }
        }
    }

    /// Takes a record from a flaw on: it approves nothing, and whatever it says otherwise puts an approval in doubt.
    pub fn distrust(&mut self, record: &Record) {
        if record.decision == Decision::Approve {
            return;
        }
        if let Some(decided) = self.decided_mut(&record.identity, &record.tool, &record.digest) {
            decided.in_doubt = true;
        }
    }

    fn decided_mut(&mut self, identity: &str, tool: &str, digest: &Digest) -> Option<&mut Decided> {
        self.by_identity.get_mut(identity)?.get_mut(tool)?.get_mut(digest)
    }

    /// How a definition stands at `now`; `None` when nobody ever decided about it.
    pub fn of(&self, identity: &str, tool: &str, digest: &Digest, now: i64) -> Option<Standing> {
        let decided = self.by_identity.get(identity)?.get(tool)?.get(digest)?;
        Some(decided.at(now))
    }

    /// How each definition of a server stands that somebody decided about, by tool and digest.
    pub fn of_identity(&self, identity: &str, now: i64) -> Vec<Standing> {
        let tools = self.by_identity.get(identity).into_iter().flatten();
        tools
            .flat_map(|(_, by_digest)| by_digest.values())
            .map(|decided| decided.at(now))
            .collect()
    }

    /// How each definition stands that somebody decided about, by identity, tool and digest.
    pub fn all(&self, now: i64) -> impl Iterator<Item = Standing> {
        self.by_identity
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(BTreeMap::values)
            .map(move |decided| decided.at(now))
    }
}

impl Decided {
    fn at(&self, now: i64) -> Standing {
        let is_over = |expires_at: &Option<i64>| expires_at.is_some_and(|expires_at| expires_at <= now);
        let standing = |state, second: Option<String>, until| Standing {
            state,
            record: self.last.clone(),
            second,
            until,
        };
        let ends = self.last.expires_at;
        if is_over(&ends) {
            return standing(State::Expired, None, None);
        }
        match self.last.decision {
            Decision::Refuse => standing(State::Refused, None, ends),
            Decision::Withdraw => standing(State::Withdrawn, None, None),
            Decision::Approve if self.in_doubt => standing(State::Doubtful, None, None),
            Decision::Approve if self.last.needed <= 1 => standing(State::Approved, None, ends),
            Decision::Approve => {
                // The one that lasts longest, if several others have approved.
                let others = self
                    .approvals
                    .iter()
                    .filter(|(subject, expires_at)| *subject != self.last.subject && !is_over(expires_at));
                match others.max_by_key(|(_, expires_at)| expires_at.unwrap_or(i64::MAX)) {
                    None => standing(State::Proposed, None, ends),
                    Some((subject, expires_at)) => {
                        let until = [ends, *expires_at].into_iter().flatten().min();
                        standing(State::Approved, Some(subject.clone()), until)
                    }
                }
            }
        }
    }
}
