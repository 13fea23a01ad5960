//! The folded view of a text: what is left when case, look-alikes, marks, invisible characters and the amount of
//! white space no longer count. Rules are matched here; [`Offsets`] lead back to where a finding stood.
//!
//! Invariant: phrases of the rules and texts of servers go through this one fold, so whatever it does to a letter
//! (a Cyrillic `о` read as `o`, a kana without its mark) it does to both.

use std::sync::LazyLock;
use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};

/// Characters whose fold is remembered while one text is read; a power of two.
const REMEMBERED: usize = 512;

/// The most bytes that one character may fold to; the few that say more stay as they are.
const LONGEST_FOLD: usize = 14;

/// What each ASCII character becomes; 0 = dropped. Joiners of words read as spaces, marks of emphasis and
/// apostrophes as nothing.
static ASCII: LazyLock<[u8; 128]> = LazyLock::new(|| {
    std::array::from_fn(|index| match index as u8 {
        b'\t' | b'\n' | 0x0B | 0x0C | b'\r' | 0x1C..=0x1F | b' ' | b'_' | b'-' => b' ',
        0..=0x1F | 0x7F | b'*' | b'`' | b'\'' => 0,
        other => other.to_ascii_lowercase(),
    })
});

/// How far an ASCII character can be taken over with those around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plain {
    /// As it is.
    Same,
    /// In lower case; in names it may begin a word.
    Upper,
    /// As it is, behind anything but a space.
    Space,
    /// Not without a look at it.
    No,
}

static PLAIN: LazyLock<[Plain; 256]> = LazyLock::new(|| {
    std::array::from_fn(|index| match u8::try_from(index) {
        Ok(b' ') => Plain::Space,
        // NUL is dropped; the others may end a sentence.
        Ok(0 | b'.' | b'!' | b'?') => Plain::No,
        Ok(byte) if byte.is_ascii_uppercase() => Plain::Upper,
        Ok(byte) if ASCII.get(index) == Some(&byte) => Plain::Same,
        _ => Plain::No,
    })
});

/// Where each stretch of a view lies in the text it was made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Offsets(Vec<(usize, usize)>);

impl Offsets {
    /// Every place of the view stands for the same place of the text.
    pub(super) fn all_at(original: usize) -> Offsets {
        Offsets(vec![(0, original)])
    }

    /// From `view` on, the view's bytes are the text's bytes from `original` on.
    pub(super) fn note(&mut self, view: usize, original: usize) {
        match self.0.last_mut() {
            Some(last) if last.0 == view => last.1 = original,
            Some(last) if last.1.wrapping_add(view - last.0) == original => {}
            _ => self.0.push((view, original)),
        }
    }

    /// The place in the text.
    pub(super) fn original(&self, view: usize) -> usize {
        let after = self.0.partition_point(|(start, _)| *start <= view);
        match after.checked_sub(1).map(|index| self.0[index]) {
            // A stretch that shrank (one escape, one decoded run) ends where the next one starts.
            Some((start, original)) => match self.0.get(after) {
                Some((_, next)) if *next > original => (original + view - start).min(*next),
                _ => original + view - start,
            },
            None => view,
        }
    }

    /// These offsets, into the text that `parent` leads to.
    pub(super) fn through(&self, parent: &Offsets) -> Offsets {
        let at = |(view, original): &(usize, usize)| (*view, parent.original(*original));
        Offsets(self.0.iter().map(at).collect())
    }
}

/// One or more texts, folded, one per line.
#[derive(Default)]
pub(super) struct Folded {
    pub(super) text: String,
    /// Into the text of the line that a place is in.
    pub(super) offsets: Offsets,
    /// Where sentences end, rising. Each line ends one.
    pub(super) ends: Vec<usize>,
    /// Where each line starts, rising.
    lines: Vec<usize>,
    memory: Memory,
}

impl Folded {
    pub(super) fn of(text: &str) -> Folded {
        let mut folded = Folded::default();
        folded.add(text, false);
        folded
    }

    /// Room for so many lines, and bytes in all of them.
    pub(super) fn with_room(lines: usize, bytes: usize) -> Folded {
        Folded {
            text: String::with_capacity(bytes + lines),
            // A name that begins with a capital, or a word within one, has a stretch of its own.
            offsets: Offsets(Vec::with_capacity(2 * lines)),
            ends: Vec::with_capacity(2 * lines),
            lines: Vec::with_capacity(lines),
            memory: Memory::default(),
        }
    }

    /// Which line a place is in.
    pub(super) fn line(&self, place: usize) -> usize {
        self.lines
            .partition_point(|start| *start <= place)
            .saturating_sub(1)
    }

    /// How many sentences end before a place.
    pub(super) fn sentence(&self, place: usize) -> usize {
        self.ends.partition_point(|end| *end <= place)
    }

    /// Adds a line. In names, `camelCase` is read as words.
    pub(super) fn add(&mut self, text: &str, is_name: bool) {
        let start = self.text.len();
        self.lines.push(start);
        self.offsets.note(start, 0);
        self.text.reserve(text.len() + 1);
        let bytes = text.as_bytes();
        let (ascii, plain) = (&*ASCII, &*PLAIN);
        let mut at = 0;
        // Whether the line so far ends in a space, or in nothing.
        let mut spaced = true;
        while let Some(&byte) = bytes.get(at) {
            // Most of most texts is taken over in long pieces.
            let start = at;
            while let Some(&byte) = bytes.get(at) {
                spaced = match plain[usize::from(byte)] {
                    Plain::Same => false,
                    Plain::Upper if !is_name => false,
                    Plain::Space if !spaced => true,
                    _ => break,
                };
                at += 1;
            }
            if at > start {
                let line = self.text.len();
                self.text.push_str(&text[start..at]);
                self.text[line..].make_ascii_lowercase();
                continue;
            }
            if byte < 0x80 {
                let folded = ascii[usize::from(byte)];
                let camel = is_name && byte.is_ascii_uppercase() && at > 0 && {
                    let before = bytes[at - 1];
                    before.is_ascii_lowercase() || before.is_ascii_digit()
                };
                if camel && !spaced {
                    self.text.push(' ');
                    self.offsets.note(self.text.len(), at);
                }
                at += 1;
                match folded {
                    b' ' if spaced => self.offsets.note(self.text.len(), at),
                    0 => self.offsets.note(self.text.len(), at),
                    _ => {
                        self.text.push(char::from(folded));
                        spaced = folded == b' ';
                        let ends = matches!(folded, b'.' | b'!' | b'?')
                            && bytes.get(at).is_none_or(u8::is_ascii_whitespace);
                        if ends {
                            self.ends.push(self.text.len());
                        }
                    }
                }
                continue;
            }
            let Some(character) = text[at..].chars().next() else {
                break;
            };
            at += character.len_utf8();
            if character.is_whitespace() || character == '\u{2800}' {
                if !spaced {
                    self.text.push(' ');
                    spaced = true;
                }
            } else if stands_for_itself(character) {
                self.text.push(character);
                spaced = false;
            } else {
                let line = self.text.len();
                self.memory.push_fold(&mut self.text, character);
                // A space out of a look-alike (a dash, say) adds to one before it no more than a plain one would.
                if spaced && &self.text[line..] == " " {
                    self.text.truncate(line);
                }
                spaced = self.text.ends_with(' ') || (spaced && self.text.len() == line);
            }
            self.offsets.note(self.text.len(), at);
            if matches!(character, '。' | '！' | '？' | '．' | '｡' | '।' | '؟' | '۔') {
                self.ends.push(self.text.len());
            }
        }
        self.text.push('\n');
        self.ends.push(self.text.len());
    }
}

/// Folds of characters met lately: a text is mostly written in few of them. Empty until one is met that is not ASCII.
#[derive(Default)]
struct Memory(Vec<Option<(char, usize, [u8; LONGEST_FOLD])>>);

impl Memory {
    fn push_fold(&mut self, text: &mut String, character: char) {
        // Jamo that follow one another are one syllable, as Korean phrases write it.
        if ('\u{1161}'..='\u{11FF}').contains(&character)
            && let Some(syllable) = text.chars().next_back().and_then(|last| compose(last, character))
        {
            text.pop();
            text.push(syllable);
            return;
        }
        if self.0.is_empty() {
            self.0.resize(REMEMBERED, None);
        }
        let slot = &mut self.0[character as usize % REMEMBERED];
        let known = match slot {
            Some(known) if known.0 == character => known,
            _ => {
                let fold = fold_character(character);
                let mut bytes = [0; LONGEST_FOLD];
                // The few that fold to a whole phrase stay as they are.
                let mut own = [0; 4];
                let fold = if fold.len() > LONGEST_FOLD {
                    &*character.encode_utf8(&mut own)
                } else {
                    &fold
                };
                bytes[..fold.len()].copy_from_slice(fold.as_bytes());
                slot.insert((character, fold.len(), bytes))
            }
        };
        text.push_str(std::str::from_utf8(&known.2[..known.1]).unwrap_or_default());
    }
}

/// Han, kana and Hangul syllables have no case and no look-alikes that spell a phrase.
fn stands_for_itself(character: char) -> bool {
    matches!(character, '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FC}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

/// Whether a script puts no spaces (or endings without one) between words, so that a phrase has no bounds to check.
pub(super) fn is_unspaced(character: char) -> bool {
    stands_for_itself(character) || matches!(character, '\u{0E00}'..='\u{0EFF}')
}

/// What a character reads as: nothing for marks and what is invisible, an ASCII letter for what passes as one.
fn fold_character(character: char) -> String {
    let mut folded = String::new();
    if is_ignorable(character) {
        return folded;
    }
    if let Some(letter) = styled_letter(character) {
        folded.push(letter);
        return folded;
    }
    decompose_compatible(character, |part| {
        if is_combining_mark(part) || is_ignorable(part) {
            return;
        }
        let mut lower = part.to_lowercase();
        let first = lower.next().unwrap_or(part);
        // A letter reads alike in both cases, whichever of them it is that passes for another.
        let upper = || first.to_uppercase().next().and_then(ascii_look);
        if let Some(ascii) = ascii_look(first).or_else(upper) {
            match ASCII[usize::from(ascii)] {
                0 => {}
                ascii => folded.push(char::from(ascii)),
            }
        } else {
            folded.push(first);
            folded.extend(lower.filter(|mark| !is_combining_mark(*mark)));
        }
    });
    folded
}

/// The ASCII character that this one is, or passes for (UTS #39).
fn ascii_look(character: char) -> Option<u8> {
    if character.is_ascii() {
        return u8::try_from(character).ok();
    }
    let mut buffer = [0; 4];
    let mut skeleton = unicode_security::skeleton(character.encode_utf8(&mut buffer));
    match (skeleton.next(), skeleton.next(), skeleton.next()) {
        (Some(one), None, _) if one.is_ascii_graphic() => u8::try_from(one).ok(),
        // The skeleton of `m` is `rn`.
        (Some('r'), Some('n'), None) => Some(b'm'),
        _ => None,
    }
}

/// Letters that are drawn otherwise and that no Unicode mapping leads back: small capitals, white on black, flags' halves.
fn styled_letter(character: char) -> Option<char> {
    const SMALL_CAPITALS: [char; 26] = [
        'ᴀ', 'ʙ', 'ᴄ', 'ᴅ', 'ᴇ', 'ꜰ', 'ɢ', 'ʜ', 'ɪ', 'ᴊ', 'ᴋ', 'ʟ', 'ᴍ', 'ɴ', 'ᴏ', 'ᴘ', 'ꞯ', 'ʀ', 'ꜱ', 'ᴛ',
        'ᴜ', 'ᴠ', 'ᴡ', 'ꭓ', 'ʏ', 'ᴢ',
    ];
    let letter = |index: u32| char::from_u32(u32::from('a') + index);
    match u32::from(character) {
        code @ 0x1F150..=0x1F169 => letter(code - 0x1F150),
        code @ 0x1F170..=0x1F189 => letter(code - 0x1F170),
        code @ 0x1F1E6..=0x1F1FF => letter(code - 0x1F1E6),
        0x0250..=0x02AF | 0x1D00..=0x1D2B | 0xA730..=0xA7FF | 0xAB53 => {
            let index = SMALL_CAPITALS.iter().position(|small| *small == character)?;
            letter(u32::try_from(index).ok()?)
        }
        _ => None,
    }
}

/// Whether a character is a letter of another face: full width, mathematical, enclosed, small capitals.
pub(super) fn is_styled(character: char) -> bool {
    matches!(character, '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}' | '\u{1D400}'..='\u{1D7FF}'
        | '\u{249C}'..='\u{24E9}' | '\u{1F110}'..='\u{1F12B}' | '\u{1F130}'..='\u{1F149}')
        || styled_letter(character).is_some()
}

/// Characters that a reader does not see: Unicode's default-ignorable ones and the interlinear annotations.
pub(super) fn is_ignorable(character: char) -> bool {
    matches!(character, '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a character passes for a lower- or upper-case ASCII letter without being one.
pub(super) fn passes_for_ascii_letter(character: char) -> bool {
    !character.is_ascii() && ascii_look(character).is_some_and(|ascii| ascii.is_ascii_alphabetic())
}
