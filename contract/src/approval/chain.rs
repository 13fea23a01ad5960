//! The chain: each record names the hash of the one before it, the head names the last.
//!
//! Invariant: of two that don't fit together (two records, or the last one and the head) neither is good, since either may have
//! been altered. [`ChainFlaw::first_bad`] says from where on no approval may be obeyed.

use std::fmt;
use std::str::FromStr;

use super::Record;
use crate::digest::Digest;

/// SHA-256 of a record's text; written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash(Digest);

impl ChainHash {
    /// What the first record of a tenant names as the hash before it.
    pub fn genesis(tenant: &str) -> ChainHash {
        ChainHash::of(&format!("mcpindex approvals\n{tenant}"))
    }

    /// The hash of a record's text.
    pub(super) fn of(text: &str) -> ChainHash {
        ChainHash(Digest::of_canonical(text))
    }
}

impl FromStr for ChainHash {
    type Err = crate::digest::DigestParseError;

    fn from_str(text: &str) -> Result<ChainHash, Self::Err> {
        let digest: Digest = text.parse()?;
        if digest.is_raw() {
            return Err(crate::digest::DigestParseError);
        }
        Ok(ChainHash(digest))
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// How far a chain goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The last record's place; 0 for an empty chain.
    pub sequence: u64,
    /// The last record's hash; [`ChainHash::genesis`] for an empty chain.
    pub hash: ChainHash,
}

impl Head {
    /// The head of a tenant's empty chain.
    pub fn empty(tenant: &str) -> Head {
        Head {
            sequence: 0,
            hash: ChainHash::genesis(tenant),
        }
    }
}

/// What is wrong with a chain, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFlaw {
    /// A record is missing, or there is one twice.
    #[error("{}", gap(*expected, *found))]
    Gap {
        /// The record that was due.
        expected: u64,
        /// What stands in its place; `None`: the chain ends before its head.
        found: Option<u64>,
    },
    /// A record is not the one that the next one was written after: one of the two was altered, replaced or moved.
    #[error(
        "record {sequence} is not as it was when record {} was written after it: one of the two was altered, replaced or \
         moved", sequence.saturating_add(1)
    )]
    Altered {
        /// The earlier of the two.
        sequence: u64,
    },
    /// A record does not follow what was verified before: it was altered or replaced, or belongs to another chain.
    #[error(
        "record {sequence} does not follow what was verified before it: it was altered or replaced, or is of another chain"
    )]
    Unlinked {
        /// Which record.
        sequence: u64,
    },
    /// There is more than the head knows of: it was moved back, or records were put in past it.
    #[error(
        "the head stands at record {head}, and records go on to {records}: it was moved back, or records were put in past it"
    )]
    HeadBehind {
        /// Where the head stands.
        head: u64,
        /// How far the records go, or went when they were last verified.
        records: u64,
    },
    /// The head names another hash than its record has: the record or the head was altered.
    #[error("the head names another hash than record {sequence} has: one of the two was altered")]
    HeadDiffers {
        /// Where the head stands.
        sequence: u64,
    },
    /// The records fit together, and are others than were verified before: the chain was written anew from some place on.
    #[error("record {sequence} is another than was verified before: the chain was written anew")]
    Rewritten {
        /// How far the chain went when it was verified.
        sequence: u64,
    },
    /// A record is no record by its form.
    #[error("record {sequence} can't be read: {what}")]
    Unreadable {
        /// Which record.
        sequence: u64,
        /// What is wrong with it.
        what: String,
    },
}

fn gap(expected: u64, found: Option<u64>) -> String {
    match found {
        None => format!("record {expected} and what came after it are missing: they were removed"),
        Some(found) if found > expected => {
            format!("record {expected} is missing, record {found} stands in its place: it was removed")
        }
        Some(found) => format!("record {found} stands where record {expected} is due"),
    }
}

impl ChainFlaw {
    /// The flaw's name for APIs: `gap`, `altered`, `unlinked`, `head-behind`, `head-differs`, `rewritten` or
    /// `unreadable`.
    pub fn name(&self) -> &'static str {
        match self {
            ChainFlaw::Gap { .. } => "gap",
            ChainFlaw::Altered { .. } => "altered",
            ChainFlaw::Unlinked { .. } => "unlinked",
            ChainFlaw::HeadBehind { .. } => "head-behind",
            ChainFlaw::HeadDiffers { .. } => "head-differs",
            ChainFlaw::Rewritten { .. } => "rewritten",
            ChainFlaw::Unreadable { .. } => "unreadable",
        }
    }

    /// The first record that may not be obeyed; all before it may.
    pub fn first_bad(&self) -> u64 {
        match self {
            ChainFlaw::Gap { expected, .. } => *expected,
            ChainFlaw::HeadBehind { head, .. } => head.saturating_add(1),
            // From which place on is not known.
            ChainFlaw::Rewritten { .. } => 1,
            ChainFlaw::Altered { sequence }
            | ChainFlaw::Unlinked { sequence }
            | ChainFlaw::HeadDiffers { sequence }
            | ChainFlaw::Unreadable { sequence, .. } => *sequence,
        }
    }
}

/// Verifies a chain record by record, however many there are.
#[derive(Debug, Clone)]
pub struct Verifier {
    tenant: String,
    head: Head,
    /// Whether something beyond it has named the head's hash.
    confirmed: bool,
}

impl Verifier {
    /// Begins after what was verified before, or at [`Head::empty`].
    pub fn after(tenant: &str, before: Head) -> Verifier {
        Verifier {
            tenant: tenant.to_owned(),
            head: before,
            confirmed: true,
        }
    }

    /// How far the records pushed so far go. The last of them is not confirmed until [`Verifier::finish`].
    pub fn head(&self) -> Head {
        self.head
    }

    /// Takes the next record. After a flaw there is nothing more to be had of this verifier.
    pub fn push(&mut self, record: &Record) -> Result<(), ChainFlaw> {
        let expected = self.head.sequence.saturating_add(1);
        if record.sequence != expected {
            return Err(ChainFlaw::Gap {
                expected,
                found: Some(record.sequence),
            });
        }
        let unreadable = |what| ChainFlaw::Unreadable {
            sequence: record.sequence,
            what,
        };
        record.check().map_err(|error| unreadable(error.to_string()))?;
        if record.tenant != self.tenant {
            return Err(unreadable("tenant: expected the chain's own".to_owned()));
        }
        if record.before != self.head.hash {
            return Err(if self.confirmed {
                ChainFlaw::Unlinked { sequence: expected }
            } else {
                ChainFlaw::Altered {
                    sequence: self.head.sequence,
                }
            });
        }
        self.head = Head {
            sequence: record.sequence,
            hash: record.hash(),
        };
        self.confirmed = false;
        Ok(())
    }

    /// Holds what was pushed to the head that the chain states.
    pub fn finish(self, stated: &Head) -> Result<Head, ChainFlaw> {
        if stated.sequence > self.head.sequence {
            return Err(ChainFlaw::Gap {
                expected: self.head.sequence.saturating_add(1),
                found: None,
            });
        }
        if stated.sequence < self.head.sequence {
            return Err(ChainFlaw::HeadBehind {
                head: stated.sequence,
                records: self.head.sequence,
            });
        }
        if stated.hash != self.head.hash {
            return Err(ChainFlaw::HeadDiffers {
                sequence: stated.sequence,
            });
        }
        Ok(self.head)
    }
}

/// Verifies the records between two heads: `before`, which was verified earlier or is [`Head::empty`], and the one that the chain
/// states. Gives the head, or the first flaw.
pub fn verify(tenant: &str, before: Head, records: &[Record], stated: &Head) -> Result<Head, ChainFlaw> {
    let mut verifier = Verifier::after(tenant, before);
    for record in records {
        verifier.push(record)?;
    }
    verifier.finish(stated)
}
