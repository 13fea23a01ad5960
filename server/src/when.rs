//! Times as people and programs read them; inside, a time is unix seconds.
//!
//! Invariant: a time is always shown with its zone, and one that no calendar has (a package client may say anything) is
//! left out rather than shown wrong.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// Seconds of a day.
pub(crate) const DAY: i64 = 86_400;

/// A time for `<time datetime="…">`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct When {
    /// RFC 3339.
    pub(crate) iso: String,
    /// `30 Nov 2026, 17:04 UTC`
    pub(crate) text: String,
    /// `3 days ago`
    pub(crate) ago: String,
}

/// A time as shown to people at `now`.
pub(crate) fn when(seconds: i64, now: i64) -> Option<When> {
    let format = format_description!("[day padding:none] [month repr:short] [year], [hour]:[minute] UTC");
    let moment = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    Some(When {
        iso: rfc3339(seconds)?,
        text: moment.format(format).ok()?,
        ago: ago(seconds, now),
    })
}

/// RFC 3339, as APIs say it.
pub(crate) fn rfc3339(seconds: i64) -> Option<String> {
    OffsetDateTime::from_unix_timestamp(seconds)
        .ok()?
        .format(&Rfc3339)
        .ok()
}

/// The unix seconds of a time in RFC 3339.
pub(crate) fn unix(text: &str) -> Option<i64> {
    Some(OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp())
}

/// The end of a day that a form's field names (`2026-12-31`), in UTC, in unix seconds.
pub(crate) fn day_end(text: &str) -> Option<i64> {
    let format = format_description!("[year]-[month]-[day]");
    let day = time::Date::parse(text, &format).ok()?;
    Some(day.next_day()?.midnight().assume_utc().unix_timestamp())
}

/// How long ago, in the largest unit that fits.
fn ago(seconds: i64, now: i64) -> String {
    let elapsed = now.saturating_sub(seconds);
    let (count, unit) = match elapsed {
        i64::MIN..0 => return "in the future".to_owned(),
        0..60 => return "just now".to_owned(),
        60..3_600 => (elapsed / 60, "minute"),
        3_600..86_400 => (elapsed / 3_600, "hour"),
        86_400..2_592_000 => (elapsed / 86_400, "day"),
        2_592_000..31_536_000 => (elapsed / 2_592_000, "month"),
        _ => (elapsed / 31_536_000, "year"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural} ago")
}

/// A stretch of time in the largest unit that divides it: `24 hours`, `90 seconds`.
pub(crate) fn stretch(seconds: i64) -> String {
    let (count, unit) = match seconds {
        _ if seconds % 3_600 == 0 => (seconds / 3_600, "hour"),
        _ if seconds % 60 == 0 => (seconds / 60, "minute"),
        _ => (seconds, "second"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_with_its_zone() {
        let shown = when(1_796_058_245, 1_796_058_245 + 3 * 86_400).unwrap();
        insta::assert_snapshot!(shown.iso, @"2026-11-30T17:04:05Z");
        insta::assert_snapshot!(shown.text, @"30 Nov 2026, 17:04 UTC");
        insta::assert_snapshot!(shown.ago, @"3 days ago");
    }

    #[test]
    fn a_time_that_no_calendar_has_is_left_out() {
        assert_eq!(when(i64::MAX, 0), None);
    }

    #[test]
    fn how_long_ago_is_said_in_the_largest_unit() {
        let said: Vec<String> = [-5, 0, 59, 60, 7_199, 86_400, 40 * 86_400, 800 * 86_400]
            .into_iter()
            .map(|elapsed| ago(1_000_000_000 - elapsed, 1_000_000_000))
            .collect();
        insta::assert_snapshot!(said.join(", "), @"in the future, just now, just now, 1 minute ago, 1 hour ago, 1 day ago, 1 month ago, 2 years ago");
    }

    #[test]
    fn a_stretch_is_said_in_the_largest_unit_that_divides_it() {
        insta::assert_snapshot!(
            [86_400, 3_600, 90, 120].map(stretch).join(", "),
            @"24 hours, 1 hour, 90 seconds, 2 minutes"
        );
    }
}
