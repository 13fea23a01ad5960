//! When a target is due again.
//!
//! Invariant: a target that is looked at regularly is always due again, and never sooner than a minute after a failure.

use mcpindex_contract::outcome::Outcome;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const WEEK: i64 = 7 * 24 * HOUR;

/// How often a one-off look that failed for a passing reason is tried again.
const ONE_OFF_RETRIES: i64 = 3;

/// Whether the same look at the same server may well end otherwise later.
pub(crate) fn may_pass(outcome: Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Unreachable
            | Outcome::TimedOut
            | Outcome::NeedsNetwork
            | Outcome::ListFailed
            | Outcome::Interrupted
    )
}

/// What the look at a target came to, as far as its next one goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// Whether it failed for a reason that may pass.
    pub(crate) passing: bool,
    /// Seconds for which the server asked not to be asked again.
    pub(crate) retry_after: Option<i64>,
}

/// When a target is due after a look at `now` that ended so, `failures` looks having failed in a row before it; `None` when
/// a one-off is done: it is tried again only where nothing was learned about the server itself.
///
/// A reason that may pass is looked into again from an hour on, any other from the usual time on; each failure in a row doubles
/// that, up to a week, so that what is gone for good costs nobody anything.
pub(crate) fn next_due(every: Option<i64>, failures: i64, ended: Ended, now: i64) -> Option<i64> {
    let Some(every) = every else {
        let ours = matches!(ended.outcome, Outcome::InstallFailed | Outcome::Interrupted);
        return (ours && ended.passing && failures < ONE_OFF_RETRIES)
            .then(|| now + doubled(MINUTE, failures, HOUR));
    };
    let every = every.max(1);
    let pause = if ended.outcome.has_surface() {
        every
    } else if ended.passing {
        doubled(every.clamp(MINUTE, HOUR), failures, WEEK)
    } else {
        doubled(every, failures, WEEK.max(every))
    };
    Some(now.saturating_add(pause.max(ended.retry_after.unwrap_or(0))))
}

/// Takes up to a tenth off a pause, the same for the same target and time: what was added together is not looked at together
/// for ever.
pub(crate) fn spread(target: i64, now: i64, due: i64) -> i64 {
    let tenth = (due - now) / 10;
    if tenth < 1 {
        return due;
    }
    // Fibonacci hashing: neighbouring numbers end up far apart.
    let mixed = (target ^ now).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
    due - (mixed >> 1).rem_euclid(tenth + 1)
}

/// When a source is due again after a reading at `now` that broke off, so many having failed in a row before it: from a minute to as
/// often as it is read, and not before it asked to be.
pub(crate) fn after_failed_reading(every: i64, failures: i64, asked_for: Option<i64>, now: i64) -> i64 {
    let pause = doubled(MINUTE, failures, every.max(MINUTE));
    now.saturating_add(pause.max(asked_for.unwrap_or(0)))
}

fn doubled(first: i64, times: i64, most: i64) -> i64 {
    let factor = 1_i64 << times.clamp(0, 20);
    first.saturating_mul(factor).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * HOUR;

    fn check(every: Option<i64>, failures: i64, outcome: Outcome, passing: bool, expected: Option<i64>) {
        let ended = Ended {
            outcome,
            passing,
            retry_after: None,
        };
        assert_eq!(
            next_due(every, failures, ended, 0),
            expected,
            "{every:?} {failures} {outcome:?} {passing}"
        );
    }

    #[test]
    fn a_regular_target_is_due_after_its_interval() {
        check(Some(DAY), 0, Outcome::Ok, false, Some(DAY));
        check(Some(DAY), 3, Outcome::Partial, false, Some(DAY));
    }

    #[test]
    fn passing_failures_back_off_from_an_hour_to_a_week() {
        check(Some(DAY), 0, Outcome::Unreachable, true, Some(HOUR));
        check(Some(DAY), 2, Outcome::Unreachable, true, Some(4 * HOUR));
        check(Some(DAY), 90, Outcome::InstallFailed, true, Some(WEEK));
        check(Some(10 * MINUTE), 0, Outcome::TimedOut, true, Some(10 * MINUTE));
        check(Some(10 * MINUTE), 20, Outcome::TimedOut, true, Some(WEEK));
        check(Some(1), 0, Outcome::TimedOut, true, Some(MINUTE));
    }

    #[test]
    fn other_failures_back_off_from_the_interval_to_a_week() {
        check(Some(HOUR), 0, Outcome::AuthRequired, false, Some(HOUR));
        check(Some(HOUR), 3, Outcome::AuthRequired, false, Some(8 * HOUR));
        check(Some(DAY), 30, Outcome::BlockedAddress, false, Some(WEEK));
        check(Some(30 * DAY), 3, Outcome::Crashed, false, Some(30 * DAY));
    }

    #[test]
    fn a_server_is_not_asked_before_it_asked_to_be() {
        let ended = Ended {
            outcome: Outcome::Unreachable,
            passing: true,
            retry_after: Some(2 * DAY),
        };
        assert_eq!(next_due(Some(DAY), 0, ended, 5), Some(2 * DAY + 5));
    }

    #[test]
    fn pauses_are_spread_over_their_last_tenth() {
        let dues: Vec<i64> = (0..1_000).map(|target| spread(target, 7, 7 + DAY)).collect();
        assert!(dues.iter().all(|due| (7 + DAY * 9 / 10..=7 + DAY).contains(due)));
        let early = dues.iter().filter(|due| **due < 7 + DAY * 95 / 100).count();
        assert!((400..600).contains(&early), "{early}");
        assert_eq!(spread(3, 7, 9), 9);
    }

    #[test]
    fn a_source_that_failed_is_read_again_soon_and_not_before_it_asked_to_be() {
        assert_eq!(after_failed_reading(HOUR, 0, None, 0), MINUTE);
        assert_eq!(after_failed_reading(HOUR, 3, None, 0), 8 * MINUTE);
        assert_eq!(after_failed_reading(HOUR, 60, None, 0), HOUR);
        assert_eq!(after_failed_reading(HOUR, 0, Some(7200), 10), 7210);
    }

    #[test]
    fn a_one_off_is_done_once_it_says_something_about_the_server() {
        check(None, 0, Outcome::Ok, false, None);
        check(None, 0, Outcome::Crashed, false, None);
        check(None, 0, Outcome::TimedOut, true, None);
        check(None, 0, Outcome::VersionNotFound, false, None);
        check(None, 0, Outcome::InstallFailed, false, None);
    }

    #[test]
    fn a_one_off_that_we_failed_ourselves_is_tried_three_times_more() {
        check(None, 0, Outcome::InstallFailed, true, Some(MINUTE));
        check(None, 2, Outcome::Interrupted, true, Some(4 * MINUTE));
        check(None, 3, Outcome::InstallFailed, true, None);
    }
}
