//! Channels that a person does not see: tag characters, variation selectors, zero-width codes, reversed text; and words
//! written in letters of two alphabets.
//!
//! Invariant: looked for before anything is dropped, and what such a channel says is scanned like any other text. What
//! honest text needs is let through: emoji and flags, joiners of Persian and Indic scripts, marks of right-to-left text.

use super::decode::{MAX_VIEW_BYTES, MAX_VIEWS_BYTES, View};
use super::fold::{Offsets, is_ignorable, is_styled, passes_for_ascii_letter};
use unicode_security::MixedScript;

/// The fewest variation selectors, or zero-width characters, in a row that say something.
const SHORTEST_SELECTORS: usize = 4;
const SHORTEST_ZERO_WIDTH: usize = 8;
/// The most tag characters of a flag (a region's code).
const LONGEST_FLAG: usize = 7;

/// The most things of one text that are told; any one of most kinds is enough.
const MOST_HIDDEN: usize = 64;

/// One thing hidden in a text.
#[derive(Debug)]
pub(super) struct Hidden {
    pub(super) kind: HiddenKind,
    /// Where it starts and ends, in bytes of the text.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What hides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenKind {
    Tags,
    Selectors,
    ZeroWidth,
    Bidi,
    TerminalEscape,
    MixedLetters,
}

impl HiddenKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            HiddenKind::Tags => "tag-characters",
            HiddenKind::Selectors => "variation-selectors",
            HiddenKind::ZeroWidth => "zero-width",
            HiddenKind::Bidi => "reversed",
            HiddenKind::TerminalEscape => "terminal-escape",
            HiddenKind::MixedLetters => "mixed-letters",
        }
    }
}

/// What is hidden in a text, what it says, and whether there may be more.
pub(super) fn look(text: &str) -> (Vec<Hidden>, Vec<View>, bool) {
    let mut found = Vec::new();
    let mut views = Vec::new();
    let mut said = |kind: HiddenKind, start: usize, text: String| {
        if !text.is_empty() {
            let offsets = Offsets::all_at(start);
            views.push(View {
                name: kind.name(),
                text,
                offsets,
                has_bounds: true,
                is_whole: false,
                depth: 1,
            });
        }
    };
    if text.contains('\u{1B}') {
        let start = text.find('\u{1B}').unwrap_or_default();
        found.push(Hidden {
            kind: HiddenKind::TerminalEscape,
            start,
            end: start + 1,
        });
    }
    if text.is_ascii() {
        return (found, views, false);
    }
    let is_tag = |character: char| matches!(character, '\u{E0000}'..='\u{E007F}');
    for (start, run) in runs(text, is_tag) {
        if found.len() >= MOST_HIDDEN {
            break;
        }
        let is_flag = text[..start].ends_with('\u{1F3F4}')
            && run.ends_with('\u{E007F}')
            && run.chars().count() <= LONGEST_FLAG;
        if !is_flag {
            found.push(Hidden {
                kind: HiddenKind::Tags,
                start,
                end: start + run.len(),
            });
            let letters = run
                .chars()
                .filter_map(|tag| char::from_u32(u32::from(tag) - 0xE0000));
            said(
                HiddenKind::Tags,
                start,
                letters.filter(|letter| matches!(letter, ' '..='~')).collect(),
            );
        }
    }
    let is_selector =
        |character: char| matches!(character, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}');
    for (start, run) in runs(text, is_selector) {
        if found.len() >= MOST_HIDDEN {
            break;
        }
        if run.chars().count() >= SHORTEST_SELECTORS {
            found.push(Hidden {
                kind: HiddenKind::Selectors,
                start,
                end: start + run.len(),
            });
            let byte = |selector: char| match u32::from(selector) {
                code @ 0xFE00..=0xFE0F => (code - 0xFE00) as u8,
                code => (code.wrapping_sub(0xE0100) + 16) as u8,
            };
            let bytes: Vec<u8> = run.chars().take(MAX_VIEW_BYTES).map(byte).collect();
            said(
                HiddenKind::Selectors,
                start,
                String::from_utf8_lossy(&bytes).into_owned(),
            );
        }
    }
    let is_zero_width = |character: char| matches!(character, '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{180E}');
    for (start, run) in runs(text, is_zero_width) {
        if found.len() >= MOST_HIDDEN {
            break;
        }
        if run.chars().count() >= SHORTEST_ZERO_WIDTH {
            found.push(Hidden {
                kind: HiddenKind::ZeroWidth,
                start,
                end: start + run.len(),
            });
            said(HiddenKind::ZeroWidth, start, bits(run));
        }
    }
    let mut reversed = 0;
    let mut overrides = text.match_indices(['\u{202D}', '\u{202E}']);
    // No more is reversed than all views may hold.
    while reversed < MAX_VIEWS_BYTES
        && found.len() < MOST_HIDDEN
        && let Some((start, mark)) = overrides.next()
    {
        let body = &text[start + mark.len()..];
        let body = &body[..body.floor_char_boundary(MAX_VIEW_BYTES)];
        let end = body.find(['\u{202C}', '\u{2069}', '\n']).unwrap_or(body.len());
        reversed += mark.len() + end;
        found.push(Hidden {
            kind: HiddenKind::Bidi,
            start,
            end: start + mark.len(),
        });
        said(HiddenKind::Bidi, start, body[..end].chars().rev().collect());
    }
    if let Some((start, word)) = words(text).find(|(_, word)| is_mixed(word)) {
        found.push(Hidden {
            kind: HiddenKind::MixedLetters,
            start,
            end: start + word.len(),
        });
    }
    let incomplete = found.len() >= MOST_HIDDEN || overrides.next().is_some();
    (found, views, incomplete)
}

/// Whether what a rule matched was written so that a reader of the raw text would not match it.
pub(super) fn is_disguised(text: &str) -> bool {
    !text.is_ascii() && {
        let mut before = ' ';
        let mut apart = false;
        text.chars().any(|character| {
            if is_ignorable(character) {
                apart = true;
                return false;
            }
            let split = apart && before.is_ascii_alphabetic() && character.is_ascii_alphabetic();
            (before, apart) = (character, false);
            split || is_styled(character)
        }) || words(text).any(|(_, word)| is_mixed(word) || is_struck(word))
    }
}

/// Whether a word takes letters of two scripts, one of which passes for ASCII. Units (`μs`) and Japanese do not count.
fn is_mixed(word: &str) -> bool {
    !word.is_ascii()
        && word.chars().filter(char::is_ascii_alphabetic).count() >= 1
        && word.chars().count() >= 4
        && !word.is_single_script()
        && word.chars().any(|character| {
            character.is_alphabetic() && !is_latin(character) && passes_for_ascii_letter(character)
        })
}

/// Whether marks that no writing uses lie over plain letters: struck through, overlaid, circled.
fn is_struck(word: &str) -> bool {
    word.chars()
        .filter(|mark| matches!(mark, '\u{334}'..='\u{338}' | '\u{20D0}'..='\u{20F0}'))
        .count()
        >= 2
}

fn is_latin(character: char) -> bool {
    matches!(character, '\u{C0}'..='\u{24F}' | '\u{1E00}'..='\u{1EFF}' | '\u{AA}' | '\u{BA}' | '\u{B5}')
}

/// The words of a text, with what is invisible left in.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_letter = |character: char| {
        character.is_alphanumeric() || unicode_normalization::char::is_combining_mark(character)
    };
    runs(text, is_letter)
}

/// The longest runs of characters of a kind.
fn runs(text: &str, is_kind: impl Fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(&is_kind)?;
        let length = text[start..]
            .find(|character| !is_kind(character))
            .unwrap_or(text.len() - start);
        at = start + length;
        Some((start, &text[start..at]))
    })
}

/// A run of two kinds of zero-width characters, read as bits of bytes, either way round.
fn bits(run: &str) -> String {
    let Some(zero) = run.chars().next() else {
        return String::new();
    };
    let read = |one_first: bool| -> Option<String> {
        let bits: Vec<u8> = run
            .chars()
            .take(8 * MAX_VIEW_BYTES)
            .map(|bit| u8::from((bit == zero) == one_first))
            .collect();
        let bytes = bits
            .chunks_exact(8)
            .map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | bit))
            .collect();
        String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.chars().any(char::is_control))
    };
    read(false).or_else(|| read(true)).unwrap_or_default()
}
