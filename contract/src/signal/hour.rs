//! A signal's time: a full hour in UTC, written `2026-11-30T15:00:00Z`.
//!
//! Invariant: only hours that a calendar has are read, and each has one written form.

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// Unix seconds of an hour as written; `None` for any other text, a day that no month has among them.
pub fn hour_from_text(text: &str) -> Option<i64> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let number = |from: usize, length: usize| {
        bytes[from..from + length].iter().try_fold(0_i64, |number, byte| {
            byte.is_ascii_digit()
                .then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day, hour) = (number(0, 4)?, number(5, 2)?, number(8, 2)?, number(11, 2)?);
    let seconds = days_from_civil(year, month, day) * DAY + hour * HOUR;
    // What is written otherwise (a 31 February, an hour 24, another separator) does not come back as it was.
    (hour_text(seconds) == text).then_some(seconds)
}

/// An hour as written; seconds within the hour are left out.
pub fn hour_text(seconds: i64) -> String {
    let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
    let hour = seconds.rem_euclid(DAY) / HOUR;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:00:00Z")
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, in which years start in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_and_written() {
        let check = |text: &str, seconds| {
            assert_eq!(hour_from_text(text), Some(seconds), "{text}");
            assert_eq!(hour_text(seconds), text);
        };
        check("1970-01-01T00:00:00Z", 0);
        check("1969-12-31T23:00:00Z", -3_600);
        check("2000-02-29T12:00:00Z", 951_825_600);
        check("2026-11-30T17:00:00Z", 1_796_058_000);
        check("9999-12-31T23:00:00Z", 253_402_297_200);
    }

    #[test]
    fn what_no_calendar_has_is_no_hour() {
        for text in [
            "",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-11-00T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T17:30:00Z",
            "2026-11-30 17:00:00Z",
            "2026-11-30T17:00:00+",
            "٢٠٢٦-11-30T17",
        ] {
            assert_eq!(hour_from_text(text), None, "{text}");
        }
    }
}
