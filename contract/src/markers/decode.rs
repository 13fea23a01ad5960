//! What a text says once its encodings are undone: entities, percent and backslash escapes, base64, hex, spaced-out
//! letters, digits for letters.
//!
//! Invariant: bounded. At most [`MAX_VIEWS`] views per scan, [`MAX_VIEW_BYTES`] each and [`MAX_VIEWS_BYTES`] together,
//! [`MAX_DEPTH`] decodings deep; what is left out is told. The one guess (digits for letters) reads the first
//! [`MAX_VIEW_BYTES`] and claims no more.

use super::fold::Offsets;

/// The most decoded views of one scan.
pub(super) const MAX_VIEWS: usize = 32;
/// The most bytes of one decoded view.
pub(super) const MAX_VIEW_BYTES: usize = 64 << 10;
/// The most bytes of all decoded views of one scan.
pub(super) const MAX_VIEWS_BYTES: usize = 256 << 10;
/// How often a decoded text is decoded again.
pub(super) const MAX_DEPTH: usize = 2;

/// The fewest characters of base64 or hex that are decoded.
const SHORTEST_RUN: usize = 24;
/// The fewest single letters in a row that are joined.
const SHORTEST_SPACED: usize = 6;
/// How much of the text around escapes is decoded with them.
const CONTEXT_BYTES: usize = 512;
/// The fewest escapes that make a text worth decoding.
const FEWEST_ESCAPES: usize = 3;

/// A decoded text.
#[derive(Debug)]
pub(super) struct View {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) offsets: Offsets,
    /// Whether words are still apart.
    pub(super) has_bounds: bool,
    /// Whether the whole text is read again, and not a hidden part of it.
    pub(super) is_whole: bool,
    /// How many decodings led here.
    pub(super) depth: usize,
}

/// What an encoded piece stands for (nothing, for a comment), and its length in bytes.
type Piece = (Option<char>, usize);

/// What a first look over a text says about the decodings it is worth.
#[derive(Debug, Default)]
struct Signs {
    ampersands: usize,
    percents: usize,
    backslashes: usize,
    comments: bool,
    /// Where the runs of base64 or hex are.
    runs: Vec<(usize, usize)>,
    spaced: bool,
    /// Words of letters with digits or signs among them.
    mixed_words: usize,
}

/// All decodings of a text that say something else than the text.
pub(super) fn views(text: &str) -> (Vec<View>, bool) {
    let signs = Signs::of(text);
    let mut found = Vec::new();
    let mut incomplete = false;
    let mut whole = |name, decoded: Option<(String, Offsets)>| {
        let Some((text, offsets)) = decoded else { return };
        found.push(View {
            name,
            text,
            offsets,
            has_bounds: true,
            is_whole: true,
            depth: 1,
        });
    };
    if signs.ampersands > 0 {
        whole("entities", replaced(text, b'&', 1, entity, &mut incomplete));
    }
    if signs.percents >= FEWEST_ESCAPES {
        whole("percent", percent_decoded(text, &mut incomplete));
    }
    if signs.backslashes >= FEWEST_ESCAPES {
        whole(
            "escapes",
            replaced(text, b'\\', FEWEST_ESCAPES, escape, &mut incomplete),
        );
    }
    if signs.comments {
        whole(
            "markup-removed",
            replaced(text, b'<', 1, comment, &mut incomplete),
        );
    }
    if signs.mixed_words >= 2 {
        let decoded = digits_as_letters(&text[..text.floor_char_boundary(MAX_VIEW_BYTES)]);
        found.push(View {
            name: "digits-as-letters",
            text: decoded,
            offsets: Offsets::all_at(0),
            has_bounds: true,
            is_whole: true,
            depth: 1,
        });
    }
    if signs.spaced {
        for (text, offsets) in joined_letters(text) {
            found.push(View {
                name: "letters-joined",
                text,
                offsets,
                has_bounds: false,
                is_whole: false,
                depth: 1,
            });
        }
    }
    for (start, end) in signs.runs {
        let run = &text[start..end];
        let hex = hex_decoded(run).and_then(printable);
        let (name, decoded) = match hex {
            Some(decoded) => ("hex", Some(decoded)),
            None => ("base64", base64_decoded(run).and_then(printable)),
        };
        if let Some(text) = decoded {
            incomplete |= run.len() > 2 * MAX_VIEW_BYTES;
            found.push(View {
                name,
                text,
                offsets: Offsets::all_at(start),
                has_bounds: true,
                is_whole: false,
                depth: 1,
            });
        }
    }
    (found, incomplete)
}

impl Signs {
    fn of(text: &str) -> Signs {
        let mut signs = Signs::default();
        let bytes = text.as_bytes();
        let (mut at, mut run, mut singles) = (0, 0, 0);
        while at <= bytes.len() {
            let word = at;
            let mut others = 0;
            let byte = loop {
                let letters = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphabetic());
                at += letters.count();
                match bytes.get(at) {
                    Some(b'0'..=b'9') => {}
                    Some(b'@' | b'$') => signs.end_run(&mut run, at),
                    end => break end,
                }
                others += 1;
                at += 1;
            };
            let length = at - word;
            if length == 1 && bytes[word].is_ascii_alphanumeric() {
                singles += 1;
                signs.spaced |= singles >= SHORTEST_SPACED;
            } else if length > 0 {
                singles = 0;
            }
            signs.mixed_words += usize::from(others > 0 && length > others);
            // The word's end: this byte is none of a word.
            match byte {
                Some(b' ') => signs.end_run(&mut run, at),
                Some(b'+' | b'/' | b'-' | b'_') => {}
                _ => {
                    signs.end_run(&mut run, at);
                    match byte {
                        Some(b'&') => signs.ampersands += 1,
                        Some(b'%') => signs.percents += 1,
                        Some(b'\\') => signs.backslashes += 1,
                        Some(b'<') => signs.comments |= bytes[at..].starts_with(b"<!--"),
                        _ => {}
                    }
                }
            }
            at += 1;
        }
        signs
    }

    /// What could be base64 or hex ends before `at`.
    fn end_run(&mut self, run: &mut usize, at: usize) {
        if at - *run >= SHORTEST_RUN {
            self.runs.push((*run, at));
        }
        *run = at + 1;
    }
}

/// The text with every decodable piece that begins with `lead` decoded, when there are at least `fewest`.
fn replaced(
    text: &str,
    lead: u8,
    fewest: usize,
    decode: fn(&str) -> Option<Piece>,
    incomplete: &mut bool,
) -> Option<(String, Offsets)> {
    let (start, end) = around(text, lead)?;
    let mut decoded = String::new();
    let mut offsets = Offsets::all_at(start);
    let mut count = 0;
    let mut at = start;
    while at < end && decoded.len() < MAX_VIEW_BYTES {
        let rest = &text[at..end];
        if rest.as_bytes()[0] == lead
            && let Some((character, length)) = decode(rest)
        {
            decoded.extend(character);
            at += length;
            count += 1;
            offsets.note(decoded.len(), at);
            continue;
        }
        let plain = rest.as_bytes()[1..].iter().position(|byte| *byte == lead);
        let plain = plain.map_or(rest.len(), |plain| plain + 1);
        decoded.push_str(&rest[..plain]);
        at += plain;
    }
    *incomplete |= count >= fewest && at < end;
    (count >= fewest).then_some((decoded, offsets))
}

/// From somewhat before the first byte of a kind to somewhat after the last, so that a few escapes in a long text
/// cost little.
fn around(text: &str, lead: u8) -> Option<(usize, usize)> {
    let first = text.find(char::from(lead))?;
    let last = text.rfind(char::from(lead))?;
    let start = text.floor_char_boundary(first.saturating_sub(CONTEXT_BYTES));
    Some((start, text.ceil_char_boundary(last + CONTEXT_BYTES)))
}

/// `&#105;`, `&#x69;` and the few named ones that matter here.
fn entity(text: &str) -> Option<Piece> {
    const NAMED: [(&str, char); 14] = [
        ("lt", '<'),
        ("gt", '>'),
        ("amp", '&'),
        ("quot", '"'),
        ("apos", '\''),
        ("nbsp", ' '),
        ("sol", '/'),
        ("bsol", '\\'),
        ("colon", ':'),
        ("period", '.'),
        ("Tab", '\t'),
        ("NewLine", '\n'),
        ("shy", '\u{AD}'),
        ("ZeroWidthSpace", '\u{200B}'),
    ];
    let bytes = text.as_bytes();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    let body = bytes[1..]
        .iter()
        .take(16)
        .take_while(|byte| is_digit(byte))
        .count();
    let name = &text[1..=body];
    let length = 1 + body + usize::from(bytes.get(1 + body) == Some(&b';'));
    let character = match name.strip_prefix('#') {
        Some(digits) => {
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            code.ok().and_then(char::from_u32)
        }
        None => NAMED
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, character)| *character),
    };
    character.map(|character| (Some(character), length))
}

/// `\x69`, `\u0069`, `\u{69}`, `\U00000069`, `\151` and pairs of surrogates.
fn escape(text: &str) -> Option<Piece> {
    let hex = |start: usize, digits: usize| {
        let part = text.get(start..start + digits)?;
        let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex {
            u32::from_str_radix(part, 16).ok()
        } else {
            None
        }
    };
    let plain = |code: u32, length: usize| char::from_u32(code).map(|character| (Some(character), length));
    match text.as_bytes().get(1)? {
        b'x' => plain(hex(2, 2)?, 4),
        b'U' => plain(hex(2, 8)?, 10),
        b'u' if text.as_bytes().get(2) == Some(&b'{') => {
            let digits = text.as_bytes()[3..]
                .iter()
                .take(6)
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            let closed = text.as_bytes().get(3 + digits) == Some(&b'}');
            if closed {
                plain(hex(3, digits)?, 4 + digits)
            } else {
                None
            }
        }
        b'u' => {
            let high = hex(2, 4)?;
            if (0xD800..0xDC00).contains(&high) && text.get(6..8) == Some("\\u") {
                let low = hex(8, 4)?;
                return plain(
                    0x10000 + ((high - 0xD800) << 10) + (low.checked_sub(0xDC00)? & 0x3FF),
                    12,
                );
            }
            plain(high, 6)
        }
        b'0'..=b'3' => {
            let digits = text.get(2..4)?;
            let is_octal = digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
            if is_octal {
                plain(u32::from_str_radix(&text[1..4], 8).ok()?, 4)
            } else {
                None
            }
        }
        b'n' | b't' | b'r' => Some((Some(' '), 2)),
        _ => None,
    }
}

/// A comment of HTML, which cuts words in two for a rule and for nobody else.
fn comment(text: &str) -> Option<Piece> {
    let body = text.strip_prefix("<!--")?;
    // What is in a long comment is read where it stands.
    let end = body
        .as_bytes()
        .iter()
        .take(64)
        .collect::<Vec<_>>()
        .windows(3)
        .position(|end| end == [&b'-', &b'-', &b'>'])?;
    Some((None, 4 + end + 3))
}

/// Percent escapes, as bytes of UTF-8.
fn percent_decoded(text: &str, incomplete: &mut bool) -> Option<(String, Offsets)> {
    let (start, end) = around(text, b'%')?;
    let bytes = &text.as_bytes()[..end];
    let mut decoded = Vec::new();
    let mut offsets = Offsets::all_at(start);
    let mut count = 0;
    let mut at = start;
    while at < bytes.len() && decoded.len() < MAX_VIEW_BYTES {
        let pair = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let pair = pair.and_then(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?));
        decoded.push(pair.unwrap_or(bytes[at]));
        at += 1;
        if pair.is_some() {
            at += 2;
            count += 1;
            offsets.note(decoded.len(), at);
        }
    }
    *incomplete |= count >= FEWEST_ESCAPES && at < bytes.len();
    // What is no UTF-8 was no text; a piece of it must not hide the rest, nor move it.
    let decoded = match String::from_utf8(decoded) {
        Ok(decoded) => decoded,
        Err(error) => error
            .into_bytes()
            .iter()
            .map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' })
            .collect(),
    };
    (count >= FEWEST_ESCAPES).then_some((decoded, offsets))
}

fn nibble(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

fn hex_decoded(run: &str) -> Option<Vec<u8>> {
    let run = run.strip_prefix("0x").unwrap_or(run).as_bytes();
    if run.len() % 2 == 1 {
        return None;
    }
    let run = &run[..run.len().min(2 * MAX_VIEW_BYTES)];
    run.chunks_exact(2)
        .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
        .collect()
}

/// Base64 or base64url without its padding.
fn base64_decoded(run: &str) -> Option<Vec<u8>> {
    let run = &run.as_bytes()[..run.len().min(MAX_VIEW_BYTES / 3 * 4)];
    let mut decoded = Vec::with_capacity(run.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in run {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            decoded.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
        // Words and paths are base64 by their letters, but not text once decoded: most end here.
        if decoded.len() == 48
            && std::str::from_utf8(&decoded).is_err_and(|error| error.error_len().is_some())
        {
            return None;
        }
    }
    Some(decoded)
}

/// The bytes as text, when nine in ten of its characters can be seen.
fn printable(bytes: Vec<u8>) -> Option<String> {
    let mut bytes = bytes;
    if let Err(error) = std::str::from_utf8(&bytes)
        && (error.error_len().is_none() || bytes.len() - error.valid_up_to() <= 2)
    {
        // Cut in the middle of a character, or a tail that was no part of it.
        bytes.truncate(error.valid_up_to());
    }
    let text = String::from_utf8(bytes).ok()?;
    let all = text.chars().count();
    let seen = text
        .chars()
        .filter(|character| !character.is_control() || character.is_whitespace())
        .count();
    (all > 0 && seen * 10 >= all * 9).then_some(text)
}

/// Digits and signs read as the letters that they stand for. One byte stays one byte.
fn digits_as_letters(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_letter = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'$'))
    };
    let read = |(at, character): (usize, char)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let after = bytes.get(at + character.len_utf8());
        match character {
            '0' => 'o',
            '1' if before == Some(&b'1') || after == Some(&b'1') => 'l',
            '1' => 'i',
            '3' => 'e',
            '4' => 'a',
            '5' => 's',
            '7' => 't',
            '8' => 'b',
            '@' if is_letter(before) || is_letter(after) => 'a',
            '$' if is_letter(before) || is_letter(after) => 's',
            '!' if is_letter(after) => 'i',
            other => other,
        }
    };
    text.char_indices().map(read).collect()
}

/// Each run of single letters with something between them, joined without anything between.
fn joined_letters(text: &str) -> Vec<(String, Offsets)> {
    let is_gap = |character: char| {
        character.is_whitespace()
            || matches!(
                character,
                '.' | '-' | '_' | '|' | '*' | ',' | '/' | '·' | '\u{200B}' | '~' | '+'
            )
    };
    let mut runs = Vec::new();
    let mut run = (String::new(), Offsets::default(), 0_usize);
    let mut gap = 1;
    let mut characters = text.char_indices().peekable();
    let mut close = |run: &mut (String, Offsets, usize)| {
        let (text, offsets, singles) = std::mem::take(run);
        if singles >= SHORTEST_SPACED {
            runs.push((text, offsets));
        }
    };
    while let Some((at, character)) = characters.next() {
        if !character.is_alphanumeric() {
            gap = if is_gap(character) {
                gap + 1
            } else {
                usize::MAX / 2
            };
            continue;
        }
        let alone = characters.peek().is_none_or(|(_, next)| !next.is_alphanumeric());
        if gap == 0 || gap > 4 || !alone {
            close(&mut run);
        }
        if alone && gap > 0 && run.0.len() < MAX_VIEW_BYTES {
            run.1.note(run.0.len(), at);
            run.0.push(character);
            run.2 += 1;
        }
        gap = 0;
    }
    close(&mut run);
    runs
}
