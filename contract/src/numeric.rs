//! Numeric-only churn: a text whose numbers alone moved (counters, dates, versions), which vendors re-render often.
//!
//! The bounds are those of the published clients, and some of our own: a number that says where something is sent or what
//! it costs is never churn. Such numbers are a price, a port, an address of any kind, or a telephone number.
//!
//! Invariant: two texts for which [`is_numeric_churn`] says yes have the same bytes but for ASCII digits, each in the
//! same place; so churn upon churn is churn, or is refused.

/// The most digits of a text that may still be churn.
const MAX_DIGITS: usize = 256;
/// The largest share of digits among a text's characters, in percent.
const MAX_PERCENT: usize = 15;
/// From this many digits on, groups of digits look like a telephone number.
const PHONE_DIGITS: usize = 7;

/// Words that make an amount of the number beside them; compared without case.
const CURRENCIES: [&str; 27] = [
    "usd", "eur", "gbp", "jpy", "chf", "cny", "rmb", "inr", "krw", "brl", "cad", "aud", "btc", "eth", "usdc",
    "usdt", "dollar", "dollars", "euro", "euros", "cent", "cents", "pound", "pounds", "yen", "credits",
    "sats",
];

/// Whether the texts differ, and differ in nothing but numbers that stand for no price, port or address.
pub fn is_numeric_churn(before: &str, after: &str) -> bool {
    if before == after || before.len() != after.len() {
        return false;
    }
    let same_prose = before
        .bytes()
        .zip(after.bytes())
        .all(|(one, other)| one == other || one.is_ascii_digit() && other.is_ascii_digit());
    let digits = before.bytes().filter(u8::is_ascii_digit).count();
    if !same_prose || digits > MAX_DIGITS || digits * 100 > MAX_PERCENT * before.chars().count() {
        return false;
    }
    // White space is the same in both, so both have the same words.
    let before: Vec<&str> = before.split_whitespace().collect();
    let after: Vec<&str> = after.split_whitespace().collect();
    let moved = (0..before.len()).filter(|&index| before[index] != after[index]);
    moved
        .into_iter()
        .all(|index| !points_somewhere(&before, index) && !points_somewhere(&after, index))
}

/// Whether the number in this word is part of a price, a port, an address or a telephone number.
fn points_somewhere(words: &[&str], index: usize) -> bool {
    is_address(words[index])
        || is_after_port(words, index)
        || is_amount(words, index)
        || is_phone(words, index)
}

/// URLs, paths, hosts, mail addresses, IP addresses, `host:port`.
fn is_address(word: &str) -> bool {
    let word = trimmed(word);
    let bytes = word.as_bytes();
    let is_date = is_date(word);
    let has_slash =
        word.contains(['/', '\\']) && !is_date && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let has_port = bytes
        .windows(2)
        .any(|pair| pair[0] == b':' && pair[1].is_ascii_digit());
    // A dot between a letter or digit and a letter: a host or a file.
    let has_host = bytes
        .windows(3)
        .any(|three| three[0].is_ascii_alphanumeric() && three[1] == b'.' && three[2].is_ascii_alphabetic());
    let groups: Vec<&str> = word.split('.').collect();
    let is_ip = groups.len() >= 4 && groups.iter().all(|group| starts_or_ends_in_digit(group));
    word.contains(['@', '#']) || has_slash || has_port || has_host || is_ip
}

fn starts_or_ends_in_digit(group: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    is_digit(group.as_bytes().first()) || is_digit(group.as_bytes().last())
}

/// `port 8080`, `ports: 80`, `port=80`.
fn is_after_port(words: &[&str], index: usize) -> bool {
    let says_port = |word: &str| {
        word.split(|character: char| !character.is_alphanumeric())
            .filter(|part| !part.is_empty() && !part.bytes().all(|byte| byte.is_ascii_digit()))
            .any(|part| part.eq_ignore_ascii_case("port") || part.eq_ignore_ascii_case("ports"))
    };
    let neighbours = words[index.saturating_sub(2)..].iter().take(index.min(2) + 2);
    neighbours.into_iter().any(|word| says_port(word))
}

/// A currency's sign or word in or beside the number, which may be written in several groups.
fn is_amount(words: &[&str], index: usize) -> bool {
    let is_group = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_digit() || b",.'".contains(&byte))
    };
    let (first, last) = run_around(words, index, is_group);
    words[first.saturating_sub(1)..]
        .iter()
        .take(last + 2 - first.saturating_sub(1))
        .any(|word| has_currency(word))
}

fn has_currency(word: &str) -> bool {
    let has_sign = word
        .chars()
        .any(|character| matches!(character, '$' | '\u{a2}'..='\u{a5}' | '\u{20a0}'..='\u{20cf}'));
    has_sign
        || word
            .split(|character: char| !character.is_alphabetic())
            .any(|part| {
                CURRENCIES
                    .iter()
                    .any(|currency| part.eq_ignore_ascii_case(currency))
            })
}

/// Seven digits or more in several groups that are no date.
fn is_phone(words: &[&str], index: usize) -> bool {
    let is_group = |word: &str| {
        word.bytes().any(|byte| byte.is_ascii_digit())
            && word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b"+()-.,;:".contains(&byte))
    };
    if !is_group(words[index]) || is_date(trimmed(words[index])) {
        return false;
    }
    let (first, last) = run_around(words, index, |word| is_group(word) && !is_date(trimmed(word)));
    let run = words[first..=last].join(" ");
    let run = trimmed(&run);
    let digits = run.bytes().filter(u8::is_ascii_digit).count();
    digits >= PHONE_DIGITS && (run.starts_with('+') || run.bytes().any(|byte| b" ()-.".contains(&byte)))
}

/// The longest run of words like this one around it: first and last index.
fn run_around(words: &[&str], index: usize, belongs: impl Fn(&str) -> bool) -> (usize, usize) {
    let before = words[..index]
        .iter()
        .rev()
        .take_while(|word| belongs(word))
        .count();
    let after = words[index + 1..].iter().take_while(|word| belongs(word)).count();
    (index - before, index + after)
}

/// Four, two and two digits with one separator between them, the largest unit first or last; a time may follow.
fn is_date(word: &str) -> bool {
    let date = word.split('T').next().unwrap_or(word);
    ['-', '/', '.'].into_iter().any(|separator| {
        let lengths: Vec<usize> = date.split(separator).map(str::len).collect();
        let digits = date
            .chars()
            .all(|character| character == separator || character.is_ascii_digit());
        digits && (lengths == [4, 2, 2] || lengths == [2, 2, 4])
    })
}

/// The word without the punctuation around it.
fn trimmed(word: &str) -> &str {
    word.trim_matches(|character: char| !character.is_alphanumeric() && !"+@#:/\\".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROSE: &str = "Searches everything that was ever indexed here and gives the best matches it finds.";

    fn check(before: &str, after: &str, expected: bool) {
        let (before, after) = (format!("{PROSE} {before}"), format!("{PROSE} {after}"));
        assert_eq!(is_numeric_churn(&before, &after), expected, "{before} -> {after}");
        assert_eq!(is_numeric_churn(&after, &before), expected, "{after} -> {before}");
    }

    #[test]
    fn counters_dates_and_versions_are_churn() {
        check("Indexed: 4821 pages.", "Indexed: 5190 pages.", true);
        check("Last update 2026-01-09.", "Last update 2026-11-30.", true);
        check("Updated 09/01/2026", "Updated 30/11/2026", true);
        check("(v1.4.2)", "(v1.5.0)", true);
        check("12,345,678 rows", "12,345,999 rows", true);
    }

    #[test]
    fn prose_that_moved_is_not() {
        check("Indexed: 10 pages", "Indexed: 10 files", false);
        check("Indexed: 9 pages", "Indexed: 10 pages", false);
        check("same", "same", false);
        check("\u{661} page", "\u{662} page", false);
    }

    #[test]
    fn what_a_thing_costs_or_where_it_goes_is_not() {
        check("Costs $5 a call", "Costs $9 a call", false);
        check("Costs 5 USD a call", "Costs 9 USD a call", false);
        check("Costs 1 000 euros", "Costs 9 000 euros", false);
        check("Costs EUR 15", "Costs EUR 95", false);
        check("on port 8080", "on port 8081", false);
        check("(port: 80)", "(port: 81)", false);
        check("localhost:8080", "localhost:8081", false);
        check("to 10.0.0.1 only", "to 10.0.0.9 only", false);
        check("at https://a.example/v1", "at https://a.example/v2", false);
        check("at cdn1.example.org", "at cdn2.example.org", false);
        check("to desk1@example.org", "to desk2@example.org", false);
        check("in /srv/data1", "in /srv/data2", false);
        check("call +49 30 123 456", "call +49 30 123 457", false);
        check("call 555-0100-22", "call 555-0199-22", false);
        check("call (030) 123 4567", "call (030) 123 4568", false);
    }

    #[test]
    fn a_text_of_numbers_is_not() {
        assert!(!is_numeric_churn("12 of 34", "12 of 35"));
        let many = |last: &str| format!("{} {}{last}", "word ".repeat(600), "1 ".repeat(256));
        assert!(!is_numeric_churn(&many("1"), &many("2")));
    }
}
