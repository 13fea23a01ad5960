//! What people decided about definitions: one append-only chain of records for each tenant, and its head.
//!
//! `rows` reads and writes the two tables, `verified` knows what of a chain this process has verified, and verifies it; `queue` says what
//! waits for somebody to decide, and `requests` what gates ask about.
//!
//! Invariant: records are only added, all of one call or none, by whoever holds the head's row; what can't be verified approves
//! nothing, and whoever asks is told the flaw beside the answer.

pub mod queue;
pub mod requests;
mod rows;
mod verified;

pub use verified::ChainState;
pub(crate) use verified::Verified;

use std::collections::BTreeSet;

use mcpindex_contract::approval::{ChainFlaw, Decision, Head, Record, Standing, Standings, verify};
use mcpindex_contract::digest::Digest;

use crate::audit::{self, Action, NewLine};
use crate::session::Session;
use crate::{Store, StoreError};

/// The most decisions of one call.
pub const MAX_DECISIONS: usize = 1_000;
/// Records that are compared at once.
const PAGE: i64 = 2_000;
/// The most records that are read to be shown.
const MAX_SHOWN: i64 = 1_000;
/// The most records of one reading.
pub const MAX_RECORDS: i64 = 10_000;

/// One decision to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDecision {
    /// Which server.
    pub identity: String,
    /// Which tool of it.
    pub tool: String,
    /// Exactly which definition.
    pub digest: Digest,
    /// What was decided.
    pub decision: Decision,
    /// Why, in their words.
    pub reason: Option<String>,
    /// Where more is written about it.
    pub reference: Option<String>,
    /// From when on it is as if nobody had decided; later than now.
    pub expires_at: Option<i64>,
}

/// What came of adding decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// They are in the chain.
    Done(Vec<Record>),
    /// Nothing was added: others have decided about the same definitions since, in these records.
    Conflict(Vec<Record>),
}

/// What came of adding another index's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Imported {
    /// So many were added after so many that were there already.
    Done {
        /// There before.
        there: u64,
        /// Added now.
        added: u64,
    },
    /// Nothing was added: this record is another one here.
    Differs {
        /// Which record.
        sequence: u64,
    },
    /// Nothing was added: the chain here goes on past these records.
    GoesOn {
        /// How far the chain here goes.
        here: u64,
    },
}

/// How definitions stand, and whether the chain that says so is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stood<T> {
    /// The chain. With a flaw, nothing from the flaw on has approved anything.
    pub chain: ChainState,
    /// What was asked for.
    pub standing: T,
}

impl Store {
    /// Adds decisions of one person to a tenant's chain, all or none, with a line in the audit log. `needed` is how many people
    /// an approval takes; `seen` is the head's sequence when they were shown what they decide about.
    ///
    /// [`StoreError::Refused`]: no decision or more than 1,000, one definition twice, an end that is past, a text that is longer
    /// than is kept, `seen` beyond the head. [`StoreError::ChainBroken`]: nothing is added to a chain that is broken.
    pub async fn append_approvals(
        &self,
        tenant: &str,
        decisions: &[NewDecision],
        subject: &str,
        needed: u8,
        seen: u64,
        now: i64,
    ) -> Result<Appended, StoreError> {
        check_decisions(decisions, now)?;
        let known = self.verified.of(tenant);
        let mut session = self.write().await?;
        let mut head = rows::hold_head(&mut session, tenant).await?;
        if let Some(flaw) = known.and_then(|known| known.flaw_beside(&head)) {
            return Err(StoreError::ChainBroken { flaw });
        }
        check_end(&mut session, tenant, &head).await?;
        if seen > head.sequence {
            return Err(refused(format!(
                "nobody can have seen record {seen}: the chain goes to {}",
                head.sequence
            )));
        }
        let digests: Vec<Digest> = decisions.iter().map(|decision| decision.digest).collect();
        let others = rows::of_digests(&mut session, tenant, &digests, seen).await?;
        let others = others.into_iter().collect::<Result<Vec<Record>, ChainFlaw>>();
        let others: Vec<Record> = others
            .map_err(|flaw| StoreError::ChainBroken { flaw })?
            .into_iter()
            .filter(|record| decisions.iter().any(|decision| is_about(decision, record)))
            .collect();
        if !others.is_empty() {
            return Ok(Appended::Conflict(others));
        }
        let mut records = Vec::with_capacity(decisions.len());
        for decision in decisions {
            let record = Record {
                tenant: tenant.to_owned(),
                sequence: head.sequence + 1,
                subject: subject.to_owned(),
                identity: decision.identity.clone(),
                tool: decision.tool.clone(),
                digest: decision.digest,
                decision: decision.decision,
                needed,
                reason: decision.reason.clone(),
                reference: decision.reference.clone(),
                expires_at: decision.expires_at,
                at: now,
                before: head.hash,
            };
            record
                .check()
                .map_err(|error| refused(format!("a decision: {error}")))?;
            head = Head {
                sequence: record.sequence,
                hash: record.hash(),
            };
            records.push(record);
        }
        rows::insert(&mut session, &records).await?;
        rows::move_head(&mut session, tenant, &head).await?;
        let (object, detail) = summary(&records);
        let line = NewLine {
            subject,
            action: Action::Decided,
            object: &object,
            detail: Some(&detail),
        };
        audit::note(&mut session, &line, now).await?;
        session.commit().await?;
        Ok(Appended::Done(records))
    }

    /// Adds the records of another index to a chain that is empty, or that begins as they do, all or none. They keep their
    /// subjects and times; who brought them is in the audit log.
    ///
    /// [`StoreError::ChainBroken`]: the records, or the chain here, are not whole.
    pub async fn import_approvals(
        &self,
        tenant: &str,
        stated: &Head,
        records: &[Record],
        subject: &str,
        now: i64,
    ) -> Result<Imported, StoreError> {
        let broken = |flaw| StoreError::ChainBroken { flaw };
        verify(tenant, Head::empty(tenant), records, stated).map_err(broken)?;
        let mut session = self.write().await?;
        let here = rows::hold_head(&mut session, tenant).await?;
        let chain = verified::whole(&mut session, tenant, &here).await?;
        chain.map_err(broken)?;
        let mut rest = records;
        while let Some(first) = rest.first().filter(|first| first.sequence <= here.sequence) {
            let page = rows::after(&mut session, tenant, first.sequence - 1, PAGE).await?;
            for own in page {
                let own = own.map_err(broken)?;
                let Some((other, after)) = rest.split_first() else {
                    break;
                };
                if own != *other {
                    return Ok(Imported::Differs {
                        sequence: own.sequence,
                    });
                }
                rest = after;
            }
        }
        if stated.sequence < here.sequence {
            return Ok(Imported::GoesOn { here: here.sequence });
        }
        if !rest.is_empty() {
            rows::insert(&mut session, rest).await?;
            rows::move_head(&mut session, tenant, stated).await?;
            let (object, detail) = summary(rest);
            let line = NewLine {
                subject,
                action: Action::ApprovalsImported,
                object: &object,
                detail: Some(&detail),
            };
            audit::note(&mut session, &line, now).await?;
            session.commit().await?;
        }
        Ok(Imported::Done {
            there: here.sequence,
            added: stated.sequence - here.sequence,
        })
    }

    /// The head of a tenant's chain as it is stated, and the records after this one, at most `limit` of them and 10,000, as they
    /// are: whoever takes them verifies them. They end before one that is no record by its form.
    ///
    /// [`StoreError::ChainBroken`]: the first of them is no record.
    pub async fn approvals_since(
        &self,
        tenant: &str,
        sequence: u64,
        limit: i64,
    ) -> Result<(Head, Vec<Record>), StoreError> {
        let mut session = self.read().await?;
        let broken = |flaw| StoreError::ChainBroken { flaw };
        let head = rows::head(&mut session, tenant).await?;
        let found = rows::after(&mut session, tenant, sequence, limit.clamp(0, MAX_RECORDS)).await?;
        let mut records = Vec::with_capacity(found.len());
        for record in found {
            match record {
                Ok(record) => records.push(record),
                Err(flaw) if records.is_empty() => return Err(broken(flaw)),
                Err(_) => break,
            }
        }
        Ok((head, records))
    }

    /// All that was decided about definitions of these digests, in the order of the chain for each digest, as it is: whether the
    /// chain is whole is for [`Store::verified_approvals`] to say.
    ///
    /// [`StoreError::ChainBroken`]: one of these is no record by its form.
    pub async fn decisions_about(&self, tenant: &str, digests: &[Digest]) -> Result<Vec<Record>, StoreError> {
        let mut session = self.read().await?;
        let found = rows::of_digests(&mut session, tenant, digests, 0).await?;
        let found = found.into_iter().collect::<Result<Vec<Record>, ChainFlaw>>();
        found.map_err(|flaw| StoreError::ChainBroken { flaw })
    }

    /// The newest decisions before this one (`None`: before the end), of all servers or of one, at most `limit` of them and 1,000, the
    /// newest first; and how the chain stands. One that is no record by its form is the flaw that says so.
    pub async fn decisions(
        &self,
        tenant: &str,
        identity: Option<&str>,
        before: Option<u64>,
        limit: i64,
        now: i64,
    ) -> Result<Stood<Vec<Result<Record, ChainFlaw>>>, StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let chain = verified::chain(self, &mut session, tenant, known, now).await?;
        let (before, limit) = (before.unwrap_or(u64::MAX), limit.clamp(0, MAX_SHOWN));
        let standing = rows::before(&mut session, tenant, identity, before, limit).await?;
        Ok(Stood { chain, standing })
    }

    /// The sequence of the head as it is stated.
    pub async fn approvals_head(&self, tenant: &str) -> Result<u64, StoreError> {
        let mut session = self.read().await?;
        Ok(rows::head(&mut session, tenant).await?.sequence)
    }

    /// Whether a tenant's chain is whole, as far as this process has to look: what came since is verified now, the whole chain
    /// each ten minutes, and the head each time.
    pub async fn verified_approvals(&self, tenant: &str, now: i64) -> Result<ChainState, StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        verified::chain(self, &mut session, tenant, known, now).await
    }

    /// [`Store::verified_approvals`] over every record of the chain, whatever is known of it.
    pub async fn verify_approvals(&self, tenant: &str, now: i64) -> Result<ChainState, StoreError> {
        let known = self.verified.of(tenant).map(verified::Known::unproved);
        let mut session = self.read().await?;
        verified::chain(self, &mut session, tenant, known, now).await
    }

    /// How each definition of a server stands that somebody decided about, by tool and digest.
    pub async fn standing(
        &self,
        tenant: &str,
        identity: &str,
        now: i64,
    ) -> Result<Stood<Vec<Standing>>, StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let mut chain = verified::chain(self, &mut session, tenant, known, now).await?;
        let found = rows::of_identity(&mut session, tenant, identity).await?;
        let standings = fold(found, &mut chain);
        Ok(Stood {
            chain,
            standing: standings.of_identity(identity, now),
        })
    }

    /// How the definitions of these servers stand that somebody decided about.
    pub async fn standings(
        &self,
        tenant: &str,
        identities: &[&str],
        now: i64,
    ) -> Result<Stood<Standings>, StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let mut chain = verified::chain(self, &mut session, tenant, known, now).await?;
        let found = rows::of_identities(&mut session, tenant, identities).await?;
        let standing = fold(found, &mut chain);
        Ok(Stood { chain, standing })
    }

    /// How each of these definitions stands, in their order; `None` where nobody ever decided.
    pub async fn standing_of(
        &self,
        tenant: &str,
        definitions: &[(&str, &str, Digest)],
        now: i64,
    ) -> Result<Stood<Vec<Option<Standing>>>, StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let mut chain = verified::chain(self, &mut session, tenant, known, now).await?;
        let digests: Vec<Digest> = definitions.iter().map(|(_, _, digest)| *digest).collect();
        let found = rows::of_digests(&mut session, tenant, &digests, 0).await?;
        let standings = fold(found, &mut chain);
        let standing = definitions
            .iter()
            .map(|(identity, tool, digest)| standings.of(identity, tool, digest, now))
            .collect();
        Ok(Stood { chain, standing })
    }
}

/// What stands by these records, which are in the order of the chain. Those from a flaw on approve nothing.
fn fold(found: Vec<Result<Record, ChainFlaw>>, chain: &mut ChainState) -> Standings {
    // One that was verified before and can't be read any more is a flaw that is found here.
    let unreadable = found.iter().filter_map(|row| row.as_ref().err());
    if let Some(flaw) = unreadable.min_by_key(|flaw| flaw.first_bad()) {
        chain.note(flaw.clone());
    }
    let mut standings = Standings::default();
    for record in found.into_iter().flatten() {
        if record.sequence <= chain.good {
            standings.add(&record);
        } else {
            standings.distrust(&record);
        }
    }
    standings
}

fn is_about(decision: &NewDecision, record: &Record) -> bool {
    decision.digest == record.digest && decision.identity == record.identity && decision.tool == record.tool
}

fn refused(what: String) -> StoreError {
    StoreError::Refused { what }
}

fn check_decisions(decisions: &[NewDecision], now: i64) -> Result<(), StoreError> {
    if decisions.is_empty() {
        return Err(refused("no decision was given".to_owned()));
    }
    if decisions.len() > MAX_DECISIONS {
        return Err(refused(format!(
            "{} decisions at once, at most {MAX_DECISIONS} are taken: send them in pieces",
            decisions.len()
        )));
    }
    let mut about = BTreeSet::new();
    for decision in decisions {
        if !about.insert((&decision.identity, &decision.tool, &decision.digest)) {
            return Err(refused(format!(
                "two decisions about one definition of `{}`",
                decision.tool.escape_debug()
            )));
        }
        if decision.expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(refused(format!(
                "the decision about `{}` ends before it begins",
                decision.tool.escape_debug()
            )));
        }
    }
    Ok(())
}

/// Whether the last record is the one that the head names: what is added hangs on it.
async fn check_end(session: &mut Session, tenant: &str, head: &Head) -> Result<(), StoreError> {
    let before = head.sequence.saturating_sub(1);
    let end = rows::after(session, tenant, before, 2).await?;
    let flaw = match end.last() {
        None if *head == Head::empty(tenant) => return Ok(()),
        None if head.sequence == 0 => ChainFlaw::HeadDiffers { sequence: 0 },
        None => ChainFlaw::Gap {
            expected: head.sequence,
            found: None,
        },
        Some(Err(flaw)) => flaw.clone(),
        Some(Ok(record)) if record.sequence > head.sequence => ChainFlaw::HeadBehind {
            head: head.sequence,
            records: record.sequence,
        },
        Some(Ok(record)) if record.hash() != head.hash => ChainFlaw::HeadDiffers {
            sequence: head.sequence,
        },
        Some(Ok(_)) => return Ok(()),
    };
    Err(StoreError::ChainBroken { flaw })
}

/// Which records these are, and what they say, for the audit log.
fn summary(records: &[Record]) -> (String, String) {
    let object = match records {
        [first, .., last] => format!("approvals {}-{}", first.sequence, last.sequence),
        [only] => format!("approval {}", only.sequence),
        [] => "approvals".to_owned(),
    };
    let counts: Vec<String> = Decision::ALL
        .into_iter()
        .map(|decision| {
            (
                decision,
                records
                    .iter()
                    .filter(|record| record.decision == decision)
                    .count(),
            )
        })
        .filter(|(_, count)| *count > 0)
        .map(|(decision, count)| format!("{decision} {count}"))
        .collect();
    (object, counts.join(", "))
}
