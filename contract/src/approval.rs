//! Approvals: what people decided about exactly one definition, as a chain of records that can't be changed unnoticed.
//!
//! A [`Record`] says who decided what about one (identity, tool, digest), and carries the hash of the record before it; a
//! [`Head`] says how far the chain goes. [`Verifier`] finds whatever was altered, removed, put in another order or moved back
//! and names it as a [`ChainFlaw`]; [`Standings`] says what stands at a given time.
//!
//! Invariant: a record's hash covers every member of it, in one written form ([`Record::text`]), and reading that form gives
//! the same record; nothing is ever removed from a chain: what was decided is undone by deciding again.

mod chain;
mod form;
mod standing;

pub use chain::{ChainFlaw, ChainHash, Head, Verifier, verify};
pub use form::{FORMAT, RecordError};
pub use standing::{Standing, Standings, State};

use std::fmt;

use crate::digest::Digest;

/// The tenant of an index that serves one organisation.
pub const DEFAULT_TENANT: &str = "default";
/// The most characters of a reason.
pub const MAX_REASON: usize = 2_000;
/// The most characters of a reference.
pub const MAX_REFERENCE: usize = 500;
/// The most bytes of a tenant's name.
pub const MAX_TENANT: usize = 100;
/// The most bytes of who decided.
pub const MAX_SUBJECT: usize = 1_600;
/// The most bytes of an identity.
pub const MAX_IDENTITY: usize = 1_500;
/// The most bytes of a tool's name.
pub const MAX_TOOL: usize = 4_096;
/// Numbers of a record stay below this: RFC 8785 carries no larger ones exactly.
pub(crate) const TOO_LARGE: i64 = 1 << 53;

/// What a person says of one definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decision {
    /// It may be used.
    Approve,
    /// It may not be used.
    Refuse,
    /// What was decided before does not count any more.
    Withdraw,
}

impl Decision {
    /// All of them.
    pub const ALL: [Decision; 3] = [Decision::Approve, Decision::Refuse, Decision::Withdraw];

    /// `approve`, `refuse` or `withdraw`.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Approve => "approve",
            Decision::Refuse => "refuse",
            Decision::Withdraw => "withdraw",
        }
    }

    /// The decision of this name.
    pub fn from_name(name: &str) -> Option<Decision> {
        Decision::ALL.into_iter().find(|decision| decision.name() == name)
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One decision in its place in a tenant's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Whose chain: [`DEFAULT_TENANT`], but where one database serves several organisations.
    pub tenant: String,
    /// Its place: 1, 2, 3, …
    pub sequence: u64,
    /// Who decided: `login@issuer`.
    pub subject: String,
    /// Which server, in the written form of [`crate::identity::Identity`].
    pub identity: String,
    /// Which tool, by its name.
    pub tool: String,
    /// Exactly which definition.
    pub digest: Digest,
    /// What was decided.
    pub decision: Decision,
    /// How many people an approval takes: 1, or 2 under the two-person rule.
    pub needed: u8,
    /// Why, in their words.
    pub reason: Option<String>,
    /// Where more is written about it: a ticket, an address.
    pub reference: Option<String>,
    /// From when on it is as if nobody had decided, in unix seconds; `None`: never.
    pub expires_at: Option<i64>,
    /// When it was decided, in unix seconds.
    pub at: i64,
    /// The hash of the record before this one, or [`ChainHash::genesis`] before the first.
    pub before: ChainHash,
}

impl Record {
    /// What is wrong with it as a record, wherever it stands.
    pub fn check(&self) -> Result<(), RecordError> {
        let wrong = |member, expected| Err(RecordError { member, expected });
        let is_named = |text: &str, most: usize| !text.is_empty() && text.len() <= most;
        let is_time = |time: i64| (-TOO_LARGE + 1..TOO_LARGE).contains(&time);
        if !is_named(&self.tenant, MAX_TENANT) || has_control(&self.tenant) {
            return wrong("tenant", "1 to 100 bytes without control characters");
        }
        if self.sequence == 0 || self.sequence >= TOO_LARGE.unsigned_abs() {
            return wrong("sequence", "a number from 1 on, below 2^53");
        }
        if !is_named(&self.subject, MAX_SUBJECT) || has_control(&self.subject) {
            return wrong("subject", "1 to 1,600 bytes without control characters");
        }
        if !is_named(&self.identity, MAX_IDENTITY) || has_control(&self.identity) {
            return wrong("identity", "1 to 1,500 bytes without control characters");
        }
        // The name is the server's, which may have put anything into it: such a tool can be refused too.
        if self.tool.len() > MAX_TOOL {
            return wrong("tool", "at most 4,096 bytes");
        }
        if !matches!(self.needed, 1 | 2) {
            return wrong("needed", "1 or 2");
        }
        let is_words = |text: &Option<String>, most: usize| {
            text.as_deref()
                .is_none_or(|text| text.chars().count() <= most && !has_control(text))
        };
        if !is_words(&self.reason, MAX_REASON) {
            return wrong("reason", "at most 2,000 characters without control characters");
        }
        if !is_words(&self.reference, MAX_REFERENCE) {
            return wrong("reference", "at most 500 characters without control characters");
        }
        if !self.expires_at.is_none_or(is_time) {
            return wrong("expires_at", "unix seconds below 2^53");
        }
        if !is_time(self.at) {
            return wrong("at", "unix seconds below 2^53");
        }
        Ok(())
    }
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}
