//! The words of a text, cut alike for what is kept and for what is asked, and for both databases.
//!
//! Invariant: a word is letters and digits in lower case, at most [`LONGEST`] of them, so none needs an escape in any query
//! language.

use std::collections::BTreeSet;

/// The most letters of a word; the rest is left out, in what is asked likewise.
const LONGEST: usize = 48;

/// Words each once, in the order of their first place, up to so many bytes.
pub(super) struct Words {
    seen: BTreeSet<String>,
    text: String,
    room: usize,
}

impl Words {
    pub(super) fn new(room: usize) -> Words {
        Words {
            seen: BTreeSet::new(),
            text: String::new(),
            room,
        }
    }

    /// Adds the words of a text, and those that only a change of case holds apart (`readFile`) as one word too.
    pub(super) fn add(&mut self, text: &str) {
        for run in runs(text) {
            let parts = parts(run);
            if parts.len() > 1 {
                self.add_word(lower(run));
            }
            for part in parts {
                self.add_word(lower(part));
            }
        }
    }

    fn add_word(&mut self, word: String) {
        if self.text.len() + 1 + word.len() > self.room || !self.seen.insert(word.clone()) {
            return;
        }
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(&word);
    }

    /// The words with a space between two.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The words that are asked for, each once, at most so many.
pub(super) fn asked(text: &str, most: usize) -> Vec<String> {
    let mut words = Vec::new();
    for part in runs(text).flat_map(parts) {
        let word = lower(part);
        if !words.contains(&word) && words.len() < most {
            words.push(word);
        }
    }
    words
}

/// The longest pieces of letters and digits.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|run| !run.is_empty())
}

/// A run cut where a small letter is followed by a capital one, and around each character of a script without spaces.
fn parts(run: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before: Option<char> = None;
    for (at, character) in run.char_indices() {
        let is_cut = before.is_some_and(|before| {
            is_alone(before) || is_alone(character) || (before.is_lowercase() && character.is_uppercase())
        });
        if is_cut {
            parts.push(&run[start..at]);
            start = at;
        }
        before = Some(character);
    }
    parts.push(&run[start..]);
    parts
}

/// Whether a character is a word by itself: Han, Hiragana, Katakana.
fn is_alone(character: char) -> bool {
    matches!(character,
        '\u{3041}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{323AF}')
}

fn lower(part: &str) -> String {
    // What lower case adds (a dot of its own above an `i`) is no letter, and no word could be cut so again.
    let letters = part.chars().flat_map(char::to_lowercase);
    letters
        .filter(|character| character.is_alphanumeric())
        .take(LONGEST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_alike_for_what_is_kept_and_what_is_asked() {
        let check = |text: &str, kept: &str, wanted: &[&str]| {
            let mut words = Words::new(1_000);
            words.add(text);
            assert_eq!(words.into_text(), kept, "{text}");
            assert_eq!(asked(text, 10), wanted, "{text}");
        };
        check(
            "npm:@example/files",
            "npm example files",
            &["npm", "example", "files"],
        );
        check("read_file", "read file", &["read", "file"]);
        check("readFile", "readfile read file", &["read", "file"]);
        check("Read read READ", "read", &["read"]);
        check("1e5 v1.2", "1e5 v1 2", &["1e5", "v1", "2"]);
        check("文件 café", "文件 文 件 café", &["文", "件", "café"]);
        check("İ", "i", &["i"]);
        check("'; DROP:* \"&|!<-> \u{0}", "drop", &["drop"]);
        check("-- * ()", "", &[]);
    }

    #[test]
    fn what_is_kept_and_asked_is_bounded() {
        let mut words = Words::new(10);
        words.add("one two three four");
        assert_eq!(words.into_text(), "one two");
        assert_eq!(asked("a b c", 2), ["a", "b"]);
        assert_eq!(asked(&"x".repeat(500), 2), ["x".repeat(LONGEST)]);
    }
}
