//! Words of names and prose, and what they say: the one tokeniser that `action` and `capability` share.
//!
//! A text is decomposed (NFKD), accents and invisible characters fall away, look-alike letters become the Latin
//! ones they pass for, and it is split at anything that is no letter, at camelCase and at digits. Chinese and Japanese,
//! which have no spaces, are searched for the longest known words. All of it is for matching only; nothing folded is shown
//! as the server's words.
//!
//! Invariant: a word matches whole (`envelope` is not `env`); time and memory are linear in the text, up to a bound.

mod lexicon;

use crate::digest::Digest;
use std::sync::OnceLock;
use unicode_normalization::UnicodeNormalization;

/// The version of the word tables: what seals call the classifier's version.
pub const RULES_VERSION: &str = lexicon::VERSION;

/// The most words of one text that are looked at; what a longer text goes on to say is not classified.
pub(crate) const MAX_WORDS: usize = 20_000;

/// The longest known word of a language without spaces, in characters.
const LONGEST_UNSPACED: usize = 8;

/// The digest of the word tables, for whoever records what classified a tool.
pub fn rules_digest() -> Digest {
    let rows = lexicon::ROWS.iter();
    let text: Vec<String> = rows
        .map(|(sense, language, words)| format!("{sense:?} {language} {words}"))
        .collect();
    Digest::of_raw(&text.join("\n"))
}

/// What a word can say. Verbs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sense {
    Delete,
    Pay,
    Execute,
    /// Runs code when a parameter takes code.
    Evaluate,
    Admin,
    /// Starts, stops, switches: admin of infrastructure, else an update.
    Control,
    Auth,
    /// Gives rights.
    Elevate,
    Send,
    Write,
    Update,
    /// Makes something new without saying where it goes.
    Make,
    /// Acts on a user interface.
    Interact,
    Search,
    List,
    Read,
    /// Answers from what it is given.
    Answer,
    /// Moves data over a network.
    Transfer,
    Install,
    Capture,
    AlsoNoun,
    And,
    Not,
    Code,
    Process,
    Statement,
    Database,
    Droppable,
    Secret,
    Token,
    Key,
    KeyKind,
    TokenKind,
    /// Beside `token` and `key`: no credential.
    Paging,
    Environment,
    EnvironmentLong,
    Variable,
    Place,
    Address,
    /// An address that data is sent to.
    Outlet,
    Web,
    Request,
    Content,
    Payload,
    Recipient,
    Money,
    Billing,
    Amount,
    Message,
    Agent,
    Browser,
    Element,
    Screen,
    Clipboard,
    Permission,
    Infra,
    /// A noun that names something to be read.
    Fact,
    Wide,
    Pattern,
    Choice,
    /// What an argument says where something is kept in the place it names: `saved to`.
    Kept,
    /// What an argument says where something is run.
    Ran,
    /// In an argument's name, beside a place: something goes there.
    Goal,
    /// In an argument's name, after what is done: `save_to`.
    Into,
    /// An argument's name that is a place where something goes, as one word.
    Destination,
    /// Found with its `-s` or `-es` taken off: a plural, or a verb's third person.
    Inflected,
    /// A word of a language where the verb may stand anywhere in the sentence.
    Foreign,
}

/// A set of [`Sense`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Senses(u128);

impl Senses {
    pub(crate) const fn of(senses: &[Sense]) -> Senses {
        let mut bits = 0;
        let mut index = 0;
        while index < senses.len() {
            bits |= 1 << senses[index] as u8;
            index += 1;
        }
        Senses(bits)
    }

    pub(crate) const fn has(self, sense: Sense) -> bool {
        self.0 & (1 << sense as u8) != 0
    }

    pub(crate) const fn meets(self, other: Senses) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, sense: Sense) {
        self.0 |= 1 << sense as u8;
    }
}

/// One word of a [`Words`].
#[derive(Debug, Clone, Copy)]
struct Word {
    start: u32,
    end: u32,
    senses: Senses,
    begins_sentence: bool,
}

/// The words of one text, folded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words {
    folded: String,
    words: Vec<Word>,
    /// Whether the text has more words than [`MAX_WORDS`].
    pub(crate) truncated: bool,
}

impl Words {
    /// Splits a text.
    pub(crate) fn of(text: &str) -> Words {
        let mut splitter = Splitter {
            words: Words {
                folded: String::with_capacity(text.len().min(MAX_WORDS)),
                words: Vec::with_capacity(text.len() / 6 + 1),
                truncated: false,
            },
            lexicon: lexicon(),
            start: 0,
            last: Last::None,
            upper_run: 0,
            dot: false,
            begins_sentence: true,
        };
        if text.is_ascii() {
            for byte in text.bytes() {
                splitter.push(char::from(byte));
                if splitter.words.truncated {
                    break;
                }
            }
        } else {
            for character in text.nfkd() {
                splitter.push(character);
                if splitter.words.truncated {
                    break;
                }
            }
        }
        splitter.end_word();
        splitter.words
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The folded word at an index; empty past the end.
    pub(crate) fn text(&self, index: usize) -> &str {
        let word = self.words.get(index);
        word.map_or("", |word| &self.folded[word.start as usize..word.end as usize])
    }

    /// What the word at an index can say; nothing past the end.
    pub(crate) fn senses(&self, index: usize) -> Senses {
        self.words
            .get(index)
            .map_or(Senses::default(), |word| word.senses)
    }

    pub(crate) fn has(&self, index: usize, sense: Sense) -> bool {
        self.senses(index).has(sense)
    }

    pub(crate) fn begins_sentence(&self, index: usize) -> bool {
        self.words.get(index).is_some_and(|word| word.begins_sentence)
    }

    /// The first word of this sense.
    pub(crate) fn find(&self, sense: Sense) -> Option<&str> {
        let index = self.words.iter().position(|word| word.senses.has(sense))?;
        Some(self.text(index))
    }

    /// Whether any word has this sense.
    pub(crate) fn any(&self, sense: Sense) -> bool {
        self.words.iter().any(|word| word.senses.has(sense))
    }

    /// Whether the last word has this sense: what a compound name is a kind of.
    pub(crate) fn ends_with(&self, sense: Sense) -> bool {
        self.words.last().is_some_and(|word| word.senses.has(sense))
    }
}

/// What kind of character came last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    None,
    Lower,
    Upper,
    Unspaced,
}

struct Splitter {
    words: Words,
    lexicon: &'static Lexicon,
    /// Where in `words.folded` the open word begins.
    start: usize,
    last: Last,
    /// How many upper-case letters the open word ends with.
    upper_run: usize,
    /// A full stop that white space will make a sentence's end.
    dot: bool,
    begins_sentence: bool,
}

impl Splitter {
    fn push(&mut self, character: char) {
        let kind = match character {
            'a'..='z' => Last::Lower,
            'A'..='Z' => Last::Upper,
            _ if character.is_ascii() => Last::None,
            _ if is_invisible(character) || matches!(character, '\u{300}'..='\u{36f}') => return,
            _ if is_unspaced(character) => Last::Unspaced,
            _ if character.is_uppercase() => Last::Upper,
            _ if character.is_alphabetic() => Last::Lower,
            _ => Last::None,
        };
        if kind == Last::None {
            self.end_word();
            match character {
                '.' | '!' | '?' => self.dot = true,
                '\n' | '。' | '|' | ';' => self.begins_sentence = true,
                _ if character.is_whitespace() => self.begins_sentence |= self.dot,
                _ => {}
            }
            if !matches!(character, '.' | '!' | '?' | ')' | '"') {
                self.dot = false;
            }
            return;
        }
        self.dot = false;
        let is_break = match (self.last, kind) {
            (Last::Lower, Last::Upper) => true,
            (Last::Unspaced, Last::Unspaced) => false,
            (Last::Unspaced, _) | (Last::Lower | Last::Upper, Last::Unspaced) => true,
            _ => false,
        };
        if is_break {
            self.end_word();
        } else if self.last == Last::Upper && kind == Last::Lower && self.upper_run > 1 {
            // `HTTPServer`: the last capital begins the next word.
            self.split_before_last();
        }
        self.upper_run = if kind == Last::Upper {
            self.upper_run + 1
        } else {
            0
        };
        self.last = kind;
        for lower in character.to_lowercase() {
            if !matches!(lower, '\u{300}'..='\u{36f}') {
                self.words.folded.push(latin(lower));
            }
        }
    }

    fn split_before_last(&mut self) {
        let Some(last) = self.words.folded.pop() else {
            return;
        };
        self.end_word();
        self.words.folded.push(last);
    }

    fn end_word(&mut self) {
        let end = self.words.folded.len();
        if self.last == Last::Unspaced {
            self.end_unspaced(end);
        } else if end > self.start {
            let senses = self.lexicon.look_up(&self.words.folded[self.start..end]);
            self.add(self.start, end, senses);
        }
        self.start = end;
        self.last = Last::None;
        self.upper_run = 0;
    }

    /// Takes the longest known word at each place of a run without spaces.
    fn end_unspaced(&mut self, end: usize) {
        let mut at = self.start;
        while at < end {
            let run = &self.words.folded[at..end];
            let ends = run
                .char_indices()
                .map(|(index, character)| index + character.len_utf8());
            let mut candidates = [0; LONGEST_UNSPACED];
            let mut count = 0;
            for (slot, candidate) in candidates.iter_mut().zip(ends) {
                *slot = candidate;
                count += 1;
            }
            let known = candidates[..count].iter().rev().find_map(|length| {
                let senses = self.lexicon.exact(&run[..*length])?;
                Some((*length, senses))
            });
            match known {
                Some((length, senses)) => {
                    self.add(at, at + length, senses);
                    at += length;
                }
                None => at += candidates[0].max(1),
            }
        }
    }

    fn add(&mut self, start: usize, end: usize, senses: Senses) {
        if self.words.words.len() == MAX_WORDS {
            self.words.truncated = true;
            return;
        }
        let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) else {
            self.words.truncated = true;
            return;
        };
        self.words.words.push(Word {
            start,
            end,
            senses,
            begins_sentence: self.begins_sentence,
        });
        self.begins_sentence = false;
    }
}

/// Han, Kana and the marks that belong to them (decomposed voicing included).
fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Characters that show nothing and so must not split a word or hide in one.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// The Latin letter that a lower-case letter passes for.
fn latin(character: char) -> char {
    match character {
        'а' | 'α' | 'ɑ' => 'a',
        'в' | 'β' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'є' | 'ε' => 'e',
        'ɡ' => 'g',
        'һ' | 'н' => 'h',
        'і' | 'ι' | 'ı' | 'ӏ' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ł' => 'l',
        'м' | 'μ' => 'm',
        'п' | 'η' => 'n',
        'о' | 'ο' | 'ø' | 'σ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ѵ' | 'ν' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        other => other,
    }
}

/// Every known word, folded and sorted, with where each first byte begins.
struct Lexicon {
    words: Vec<(String, Senses)>,
    starts: [usize; 257],
}

fn lexicon() -> &'static Lexicon {
    static LEXICON: OnceLock<Lexicon> = OnceLock::new();
    LEXICON.get_or_init(Lexicon::build)
}

impl Lexicon {
    fn build() -> Lexicon {
        let mut words: Vec<(String, Senses)> = Vec::new();
        for (sense, language, row) in lexicon::ROWS {
            for word in row.split(' ') {
                let mut senses = Senses::of(&[*sense]);
                if *language != "en" {
                    senses.add(Sense::Foreign);
                }
                words.push((fold(word), senses));
            }
        }
        words.sort_by(|left, right| left.0.cmp(&right.0));
        words.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                // An English word stays one though another language has it too.
                let both = Senses(next.1.0 | kept.1.0);
                let foreign = 1_u128 << Sense::Foreign as u8;
                kept.1 = Senses(both.0 & !foreign | (next.1.0 & kept.1.0 & foreign));
            }
            is_same
        });
        let mut starts = [words.len(); 257];
        for (index, (word, _)) in words.iter().enumerate().rev() {
            starts[usize::from(word.as_bytes()[0])] = index;
        }
        for byte in (0..256).rev() {
            starts[byte] = starts[byte].min(starts[byte + 1]);
        }
        Lexicon { words, starts }
    }

    fn exact(&self, word: &str) -> Option<Senses> {
        let first = usize::from(*word.as_bytes().first()?);
        let candidates = &self.words[self.starts[first]..self.starts[first + 1]];
        let found = candidates
            .binary_search_by(|(known, _)| known.as_str().cmp(word))
            .ok()?;
        Some(candidates[found].1)
    }

    /// A word's senses, its plural or third person taken back when only the bare word is known.
    fn look_up(&self, word: &str) -> Senses {
        if let Some(senses) = self.exact(word) {
            return senses;
        }
        let Some(stem) = word
            .strip_suffix('s')
            .filter(|stem| stem.len() > 1 && stem.is_ascii())
        else {
            return Senses::default();
        };
        let found = self
            .exact(stem)
            .or_else(|| self.exact(stem.strip_suffix('e')?))
            .or_else(|| self.exact(&format!("{}y", stem.strip_suffix("ie")?)));
        let mut senses = found.unwrap_or_default();
        if !senses.is_empty() {
            senses.add(Sense::Inflected);
        }
        senses
    }
}

/// A known word as the splitter leaves the words of a text.
fn fold(word: &str) -> String {
    let kept = word
        .nfkd()
        .filter(|character| !matches!(character, '\u{300}'..='\u{36f}'));
    kept.flat_map(char::to_lowercase).map(latin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let words = Words::of(text);
        let found: Vec<&str> = (0..words.len()).map(|index| words.text(index)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn names_are_split_at_marks_case_and_digits() {
        check(
            "get_file-info.v2/all:now",
            &["get", "file", "info", "v", "all", "now"],
        );
        check("getHTTPServerURL", &["get", "http", "server", "url"]);
        check("API_KEY", &["api", "key"]);
        check("envelope", &["envelope"]);
        check("", &[]);
    }

    #[test]
    fn disguised_letters_are_the_ones_they_pass_for() {
        check("dеlеtе_all", &["delete", "all"]);
        check("del\u{200b}ete", &["delete"]);
        check("delete", &["delete"]);
        check("Dosyayı SİL", &["dosyayi", "sil"]);
        check("löschen exécuter", &["loschen", "executer"]);
    }

    #[test]
    fn words_without_spaces_are_found_inside_their_run() {
        check("删除指定的文件", &["删除", "文件"]);
        let words = Words::of("ファイルを削除します");
        assert!(words.any(Sense::Place) && words.any(Sense::Delete));
    }

    #[test]
    fn a_word_matches_whole_or_with_its_ending() {
        assert!(!Words::of("envelope").any(Sense::Environment));
        assert!(!Words::of("prerun").any(Sense::Execute));
        let plural = Words::of("queries pushes deletes");
        assert!((0..3).all(|index| plural.has(index, Sense::Inflected)));
    }

    #[test]
    fn sentences_begin_after_a_stop_and_space() {
        let words = Words::of("Reads a.b now. Deletes it\nRuns");
        let begins: Vec<&str> = (0..words.len())
            .filter(|index| words.begins_sentence(*index))
            .map(|index| words.text(index))
            .collect();
        assert_eq!(begins, ["reads", "deletes", "runs"]);
    }

    #[test]
    fn a_text_past_the_bound_is_said_to_be_cut() {
        let words = Words::of(&"word ".repeat(MAX_WORDS + 1));
        assert!(words.truncated);
        assert_eq!(words.len(), MAX_WORDS);
    }

    #[test]
    fn every_row_holds_words() {
        for (sense, language, row) in lexicon::ROWS {
            assert!(
                row.split(' ').all(|word| !word.is_empty()),
                "{sense:?} {language}"
            );
        }
    }
}
