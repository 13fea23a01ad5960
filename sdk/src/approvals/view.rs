//! What stands of the organisation's decisions, as of a verified head of their chain and of when the index was heard last.
//!
//! Invariant: without a verified chain there is no word on anything ([`Word::Unheard`]), which is another thing than that nobody
//! decided ([`Word::Nothing`]).

use std::time::Duration;

use mcpindex_contract::approval::{Head, Record, Standings, State};
use mcpindex_contract::digest::Digest;

/// How far the clock may have been set back since the index was heard, in seconds; more, and when that was is not known.
const SET_BACK: i64 = 60 * 60;

/// What the organisation says of one definition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Word {
    /// No chain of decisions is known.
    Unheard,
    /// Nobody ever decided about it.
    Nothing,
    /// It may be used.
    Approved {
        /// The decision's place in the chain.
        sequence: u64,
        /// Until when, unix seconds; `None`: until somebody decides again.
        until: Option<i64>,
        /// Whether the index was heard recently enough for this to set something free.
        is_fresh: bool,
    },
    /// It may not be used.
    Refused {
        /// The decision's place in the chain.
        sequence: u64,
        /// Why, in the approver's words.
        reason: Option<String>,
    },
    /// One of two people has approved it.
    Proposed {
        /// The decision's place in the chain.
        sequence: u64,
    },
    /// What was decided was taken back, or can't be trusted any more.
    Withdrawn {
        /// The decision's place in the chain.
        sequence: u64,
    },
    /// What was decided is over.
    Expired {
        /// The decision's place in the chain.
        sequence: u64,
    },
}

/// See the module.
#[derive(Debug, Clone)]
pub struct View {
    standings: Standings,
    /// `None`: no chain is known.
    head: Option<Head>,
    /// When the index last stated this head, unix seconds.
    heard_at: i64,
    max_age: Duration,
}

impl View {
    /// Nothing is known yet.
    pub fn unheard(max_age: Duration) -> View {
        View {
            standings: Standings::default(),
            head: None,
            heard_at: 0,
            max_age,
        }
    }

    /// What these records say, which were verified up to this head; heard of at `heard_at`, unix seconds.
    pub fn of<'r>(
        records: impl IntoIterator<Item = &'r Record>,
        head: Head,
        heard_at: i64,
        max_age: Duration,
    ) -> View {
        let mut standings = Standings::default();
        for record in records {
            standings.add(record);
        }
        View {
            standings,
            head: Some(head),
            heard_at,
            max_age,
        }
    }

    /// The same chain, gone on with these records up to this head.
    pub(super) fn and<'r>(
        mut self,
        records: impl IntoIterator<Item = &'r Record>,
        head: Head,
        heard_at: i64,
    ) -> View {
        for record in records {
            self.standings.add(record);
        }
        self.head = Some(head);
        self.heard_at = heard_at;
        self
    }

    /// How far the chain goes that this was made of.
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// When the index last stated that head, unix seconds.
    pub fn heard_at(&self) -> i64 {
        self.heard_at
    }

    /// Whether the index was heard recently enough for its approvals to set something free.
    pub fn is_fresh(&self, now: i64) -> bool {
        let age = now.saturating_sub(self.heard_at);
        self.head.is_some() && age >= -SET_BACK && age <= self.longest()
    }

    fn longest(&self) -> i64 {
        i64::try_from(self.max_age.as_secs()).unwrap_or(i64::MAX)
    }

    /// What is said of exactly this definition, at this time (unix seconds).
    pub fn word(&self, identity: &str, tool: &str, digest: &Digest, now: i64) -> Word {
        if self.head.is_none() {
            return Word::Unheard;
        }
        let Some(standing) = self.standings.of(identity, tool, digest, now) else {
            return Word::Nothing;
        };
        let sequence = standing.record.sequence;
        match standing.state {
            State::Approved => Word::Approved {
                sequence,
                until: standing.until,
                is_fresh: self.is_fresh(now),
            },
            State::Refused => Word::Refused {
                sequence,
                reason: standing.record.reason,
            },
            State::Proposed => Word::Proposed { sequence },
            State::Withdrawn | State::Doubtful => Word::Withdrawn { sequence },
            State::Expired => Word::Expired { sequence },
        }
    }

    /// From when on some word on this server is another one by the time alone, unix seconds.
    pub fn next_change(&self, identity: &str, now: i64) -> Option<i64> {
        let ends = self.standings.of_identity(identity, now).into_iter();
        let ends = ends.filter_map(|standing| standing.until);
        let is_old = self.heard_at.saturating_add(self.longest()).saturating_add(1);
        let is_old = self.is_fresh(now).then_some(is_old);
        ends.chain(is_old).filter(|time| *time > now).min()
    }
}

#[cfg(test)]
mod tests {
    use mcpindex_contract::approval::{ChainHash, DEFAULT_TENANT, Decision};

    use super::*;

    const DAY: i64 = 86_400;
    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    fn digest() -> Digest {
        Digest::of_canonical("{}")
    }

    fn view(decision: Decision, expires_at: Option<i64>) -> View {
        let record = Record {
            tenant: DEFAULT_TENANT.to_owned(),
            sequence: 1,
            subject: "ann@github".to_owned(),
            identity: "npm:docs".to_owned(),
            tool: "search".to_owned(),
            digest: digest(),
            decision,
            needed: 1,
            reason: Some("reads mail".to_owned()),
            reference: None,
            expires_at,
            at: 0,
            before: ChainHash::genesis(DEFAULT_TENANT),
        };
        let head = Head {
            sequence: 1,
            hash: record.hash(),
        };
        View::of([&record], head, DAY, WEEK)
    }

    fn check(view: &View, now: i64, expected: &Word) {
        assert_eq!(view.word("npm:docs", "search", &digest(), now), *expected);
    }

    #[test]
    fn an_approval_is_fresh_for_as_long_as_the_index_was_heard_lately() {
        let approved = |is_fresh| Word::Approved {
            sequence: 1,
            until: None,
            is_fresh,
        };
        let view = view(Decision::Approve, None);
        check(&view, DAY, &approved(true));
        check(&view, 8 * DAY, &approved(true));
        check(&view, 8 * DAY + 1, &approved(false));
        assert_eq!(view.next_change("npm:docs", DAY), Some(8 * DAY + 1));
        assert_eq!(view.next_change("npm:docs", 9 * DAY), None);
        // A clock that was set back a little says nothing; one that was set back a day could make a year of a week.
        check(&view, DAY - 60, &approved(true));
        check(&view, 0, &approved(false));
    }

    #[test]
    fn a_refusal_counts_however_old_it_is() {
        let refused = Word::Refused {
            sequence: 1,
            reason: Some("reads mail".to_owned()),
        };
        check(&view(Decision::Refuse, None), 900 * DAY, &refused);
    }

    #[test]
    fn what_has_an_end_is_another_word_from_then_on() {
        let view = view(Decision::Approve, Some(2 * DAY));
        assert_eq!(view.next_change("npm:docs", DAY), Some(2 * DAY));
        assert_eq!(view.next_change("npm:other", DAY), Some(8 * DAY + 1));
        check(&view, 2 * DAY, &Word::Expired { sequence: 1 });
    }

    #[test]
    fn no_chain_is_another_thing_than_no_decision() {
        check(&View::unheard(WEEK), DAY, &Word::Unheard);
        let empty = View::of([], Head::empty(DEFAULT_TENANT), DAY, WEEK);
        check(&empty, DAY, &Word::Nothing);
    }
}
