//! What the crawl's looks at a server are worth as evidence of what it declares today.
//!
//! Invariant: every outcome of a look has its weight in one table; only a look that determined something, and not too long ago,
//! and after which none failed, lets anything be called ready, missing or unlike what others see.

use mcpindex::check::Answer;
use mcpindex_contract::outcome::Outcome;
use mcpindex_store::servers::ServerRecord;

use super::{DAY, Reasons};
use crate::state::State;

/// Seconds after which a look says nothing about today.
pub(crate) const STALE_AFTER: i64 = 14 * DAY;

/// Whether what was determined then says nothing about today.
pub(crate) fn is_stale(determined_at: i64, now: i64) -> bool {
    now - determined_at > STALE_AFTER
}

/// What one look came to, as evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// It saw all that the server declares.
    Whole,
    /// It saw some of the lists.
    Part,
    /// It saw nothing, and what was there before may still be.
    Nothing,
    /// What was looked for is not there, so the name is free to mean something else.
    Gone,
}

fn weight(outcome: Outcome) -> Weight {
    match outcome {
        Outcome::Ok => Weight::Whole,
        Outcome::Partial => Weight::Part,
        Outcome::PackageNotFound | Outcome::VersionNotFound => Weight::Gone,
        Outcome::AuthRequired
        | Outcome::NotMcp
        | Outcome::Unreachable
        | Outcome::TlsInvalid
        | Outcome::BlockedAddress
        | Outcome::NeedsConfig
        | Outcome::NeedsNetwork
        | Outcome::NeedsInstallScript
        | Outcome::NeedsContainerRuntime
        | Outcome::OverLimit
        | Outcome::CursorLoop
        | Outcome::TimedOut
        | Outcome::Crashed
        | Outcome::ListFailed
        | Outcome::InstallFailed
        | Outcome::SandboxUnavailable
        | Outcome::Interrupted => Weight::Nothing,
    }
}

/// What all looks at a server together say about today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// There is no such server, or no look ever determined anything.
    None,
    /// Something was determined, but a later look failed, or it is too long ago.
    Old,
    /// The last look saw some of the lists, lately.
    Part,
    /// The last look saw everything, lately.
    Whole,
}

impl Evidence {
    /// Whether it says anything about today.
    pub(crate) fn is_good(self) -> bool {
        match self {
            Evidence::Part | Evidence::Whole => true,
            Evidence::None | Evidence::Old => false,
        }
    }

    /// What a good sight of something means then.
    pub(crate) fn ready(self) -> Option<Answer> {
        self.is_good().then_some(Answer::Ready)
    }
}

/// Weighs the looks at a server, and says what speaks against them.
pub(super) fn evidence(reasons: &mut Reasons, server: &ServerRecord, now: i64) -> Evidence {
    let Some(outcome) = server.outcome else {
        reasons.add("not-looked-at", Some(Answer::Unknown));
        return Evidence::None;
    };
    let weight = weight(outcome);
    if weight == Weight::Gone {
        reasons.add("gone", Some(Answer::NeedsPerson));
    }
    let sentence = State(server.outcome).sentence();
    let Some(determined_at) = server.determined_at else {
        reasons.add_with("not-determined", Some(Answer::Unknown), sentence);
        return Evidence::None;
    };
    let is_stale = is_stale(determined_at, now);
    if is_stale {
        reasons.add("stale", Some(Answer::Unknown));
    }
    match weight {
        Weight::Whole if !is_stale => Evidence::Whole,
        Weight::Part if !is_stale => Evidence::Part,
        Weight::Whole | Weight::Part => Evidence::Old,
        Weight::Nothing | Weight::Gone => {
            reasons.add_with("last-look-failed", Some(Answer::Unknown), sentence);
            Evidence::Old
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000 * DAY;

    fn server(outcome: Option<Outcome>, determined_at: Option<i64>) -> ServerRecord {
        ServerRecord {
            identity: "npm:a".to_owned(),
            short_id: String::new(),
            form: "npm".to_owned(),
            aliases: Vec::new(),
            added_at: 0,
            outcome,
            detail: None,
            looked_at: Some(NOW - 3_600),
            current_observation: determined_at.map(|_| 1),
            determined_at,
            current_version: None,
            tools: Some(1),
            drifts: 0,
        }
    }

    fn weighed(outcome: Option<Outcome>, determined_at: Option<i64>) -> (Evidence, Answer) {
        let mut reasons = Reasons::default();
        let evidence = evidence(&mut reasons, &server(outcome, determined_at), NOW);
        reasons.add("declared-now", evidence.ready());
        (evidence, reasons.verdict().0)
    }

    #[test]
    fn only_a_last_look_with_a_surface_makes_anything_ready() {
        for outcome in Outcome::all() {
            let (evidence, answer) = weighed(Some(*outcome), Some(NOW - DAY));
            assert_eq!(answer == Answer::Ready, outcome.has_surface(), "{outcome:?}");
            assert_eq!(evidence.is_good(), outcome.has_surface(), "{outcome:?}");
        }
    }

    #[test]
    fn what_is_gone_needs_a_person_whether_or_not_it_was_ever_seen() {
        for outcome in [Outcome::PackageNotFound, Outcome::VersionNotFound] {
            assert_eq!(
                weighed(Some(outcome), Some(NOW - DAY)),
                (Evidence::Old, Answer::NeedsPerson)
            );
            assert_eq!(
                weighed(Some(outcome), None),
                (Evidence::None, Answer::NeedsPerson)
            );
        }
    }

    #[test]
    fn the_age_is_that_of_what_was_determined() {
        let check = |outcome, age, expected| {
            assert_eq!(
                weighed(Some(outcome), Some(NOW - age)),
                expected,
                "{outcome:?} {age}"
            );
        };
        check(Outcome::Ok, STALE_AFTER, (Evidence::Whole, Answer::Ready));
        check(Outcome::Ok, STALE_AFTER + 1, (Evidence::Old, Answer::Unknown));
        check(Outcome::Partial, DAY, (Evidence::Part, Answer::Ready));
        check(Outcome::Unreachable, 300 * DAY, (Evidence::Old, Answer::Unknown));
        check(
            Outcome::PackageNotFound,
            300 * DAY,
            (Evidence::Old, Answer::NeedsPerson),
        );
        assert_eq!(weighed(None, None), (Evidence::None, Answer::Unknown));
    }
}
