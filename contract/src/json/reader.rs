//! The reader itself: one pass over the text, with a stack of its own in place of recursion.
//!
//! Members and elements of everything that is open lie on two shared stacks and move into a vector of
//! exactly their size when their container closes; pointers are made from these stacks, and only when a
//! flaw is found. Invariant: the work is linear in the text (n log n for an object of n members).

use super::surrogates::{Surrogates, push_kept_surrogate, push_kept_text};
use super::text::{Sent, Text};
use super::{Document, Flaw, FlawKind, MAX_DEPTH, Number, ReadError, Value, push_token};
use std::ops::Range;

/// Reads one JSON text.
pub(super) fn read<'t, S: Text<'t>>(text: &'t str, surrogates: Surrogates) -> Result<Document<S>, ReadError> {
    let mut reader = Reader::new(text, surrogates, None);
    let value = reader.document()?;
    Ok(Document {
        value,
        flaws: reader.flaws,
    })
}

/// The exact text of the first top-level member of this name.
pub(crate) fn member_text<'t>(text: &'t str, name: &'static str) -> Option<&'t str> {
    let mut reader = Reader::<Sent<'_>>::new(text, Surrogates::Replace, Some(name));
    reader.document().ok()?;
    reader.wanted_span.and_then(|span| text.get(span))
}

/// Where the run of bytes from `at` ends that stand for themselves in a JSON string: at a quote, a
/// backslash, a control character, or the end. Eight bytes a step: descriptions are long.
pub(crate) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = ONES << 7;
    // The high bit of each byte that is zero. A borrow can mark bytes above the first such byte only.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let quotes = zeros(word ^ (ONES * 0x22));
        let backslashes = zeros(word ^ (ONES * 0x5C));
        let stops = (controls | quotes | backslashes) & HIGH_BITS;
        if stops != 0 {
            return at + stops.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes
        .get(at)
        .is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        at += 1;
    }
    at
}

/// Where the string that goes on at `at` ends, when RFC 8785 writes it as it stands here: every escape the short one
/// that it would choose. `None` for any other, also for one that is not JSON.
fn canonical_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = plain_end(bytes, at);
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'"', _) => return Some(at),
            (b'\\', Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't')) => at += 2,
            _ => return None,
        }
    }
}

/// A container that is not closed yet, with where its content starts on its stack.
#[derive(Clone, Copy)]
enum Open {
    Array { start: usize },
    Object { start: usize },
}

struct Reader<'t, S> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    surrogates: Surrogates,
    open: Vec<Open>,
    /// Members of all open objects; a member whose value is being read holds `null` until then.
    members: Vec<(S, Value<S>)>,
    /// Elements of all open arrays.
    items: Vec<Value<S>>,
    /// Where a string with escapes is put together.
    unescaped: String,
    flaws: Vec<Flaw>,
    /// Whether the document itself, or the top-level member at hand, has its flaw named already.
    root_is_flawed: bool,
    part_is_flawed: bool,
    /// The top-level member whose place is asked for.
    wanted: Option<&'static str>,
    wanted_start: usize,
    wanted_span: Option<Range<usize>>,
}

impl<'t, S: Text<'t>> Reader<'t, S> {
    fn new(text: &'t str, surrogates: Surrogates, wanted: Option<&'static str>) -> Self {
        Reader {
            text,
            bytes: text.as_bytes(),
            at: 0,
            surrogates,
            // Room for what a usual tool has open at once.
            open: Vec::with_capacity(16),
            members: Vec::with_capacity(16),
            items: Vec::with_capacity(16),
            unescaped: String::new(),
            flaws: Vec::new(),
            root_is_flawed: false,
            part_is_flawed: false,
            wanted,
            wanted_start: 0,
            wanted_span: None,
        }
    }

    fn document(&mut self) -> Result<Value<S>, ReadError> {
        loop {
            let Some(value) = self.value_or_open()? else {
                continue;
            };
            if let Some(root) = self.place(value)? {
                self.skip_space();
                return if self.at == self.bytes.len() {
                    Ok(root)
                } else {
                    self.expected("the end of the text")
                };
            }
        }
    }

    /// Reads a whole value, or opens a container and stops where its first value is due.
    fn value_or_open(&mut self) -> Result<Option<Value<S>>, ReadError> {
        self.skip_space();
        let value = match self.peek() {
            Some(b'"') => Value::String(self.string_value()?),
            Some(b'{') => {
                let start = self.members.len();
                self.open(Open::Object { start })?;
                if self.peek() != Some(b'}') {
                    self.name()?;
                    return Ok(None);
                }
                self.at += 1;
                self.open.pop();
                Value::Object(Vec::new())
            }
            Some(b'[') => {
                let start = self.items.len();
                self.open(Open::Array { start })?;
                if self.peek() != Some(b']') {
                    return Ok(None);
                }
                self.at += 1;
                self.open.pop();
                Value::Array(Vec::new())
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true", Value::Bool(true))?,
            Some(b'f') => self.literal("false", Value::Bool(false))?,
            Some(b'n') => self.literal("null", Value::Null)?,
            _ => return self.expected("a value"),
        };
        Ok(Some(value))
    }

    /// Puts a value in its place and closes what ends after it. Gives the root once that is complete;
    /// otherwise stops where the next value is due.
    fn place(&mut self, mut value: Value<S>) -> Result<Option<Value<S>>, ReadError> {
        loop {
            let Some(&open) = self.open.last() else {
                return Ok(Some(value));
            };
            if self.open.len() == 1 {
                self.end_of_part();
            }
            match open {
                Open::Object { start } => {
                    if let Some(member) = self.members.last_mut() {
                        member.1 = value;
                    }
                    self.skip_space();
                    match self.peek() {
                        Some(b',') => {
                            self.at += 1;
                            self.skip_space();
                            self.name()?;
                            return Ok(None);
                        }
                        Some(b'}') => {
                            self.at += 1;
                            self.name_duplicate(start);
                            self.open.pop();
                            value = Value::Object(self.members.split_off(start));
                        }
                        _ => return self.expected("`,` or `}`"),
                    }
                }
                Open::Array { start } => {
                    self.items.push(value);
                    self.skip_space();
                    match self.peek() {
                        Some(b',') => {
                            self.at += 1;
                            return Ok(None);
                        }
                        Some(b']') => {
                            self.at += 1;
                            self.open.pop();
                            value = Value::Array(self.items.split_off(start));
                        }
                        _ => return self.expected("`,` or `]`"),
                    }
                }
            }
        }
    }

    /// A top-level member or element is complete.
    fn end_of_part(&mut self) {
        self.part_is_flawed = false;
        if let (Some(wanted), None, Some((name, _))) = (self.wanted, &self.wanted_span, self.members.last())
            && name.as_ref() == wanted
        {
            self.wanted_span = Some(self.wanted_start..self.at);
        }
    }

    fn open(&mut self, container: Open) -> Result<(), ReadError> {
        if self.open.len() == MAX_DEPTH {
            return Err(ReadError::TooDeep { offset: self.at });
        }
        self.open.push(container);
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Reads a member's name and colon, and makes the member's place.
    fn name(&mut self) -> Result<(), ReadError> {
        if self.peek() != Some(b'"') {
            return self.expected("a member name");
        }
        let (name, is_whole) = self.string()?;
        if !is_whole {
            self.flaw(FlawKind::LoneSurrogate, self.open.len() - 1, None);
        }
        self.skip_space();
        if self.peek() != Some(b':') {
            return self.expected("`:`");
        }
        self.at += 1;
        self.members.push((name, Value::Null));
        if self.wanted.is_some() && self.open.len() == 1 {
            self.skip_space();
            self.wanted_start = self.at;
        }
        Ok(())
    }

    fn string_value(&mut self) -> Result<S, ReadError> {
        if S::KEEPS_ESCAPES
            && let Some(end) = canonical_end(self.bytes, self.at + 1)
        {
            let sent = &self.text[self.at + 1..end];
            self.at = end + 1;
            return Ok(S::escaped(sent));
        }
        let (text, is_whole) = self.string()?;
        if !is_whole {
            self.flaw(FlawKind::LoneSurrogate, self.open.len(), None);
        }
        Ok(text)
    }

    /// Reads a string, and says whether it had no lone surrogate.
    fn string(&mut self) -> Result<(S, bool), ReadError> {
        let start = self.at + 1;
        let end = plain_end(self.bytes, start);
        if self.bytes.get(end) == Some(&b'"') && self.surrogates == Surrogates::Replace {
            self.at = end + 1;
            return Ok((S::as_sent(&self.text[start..end]), true));
        }
        self.string_with_escapes(start, end)
    }

    fn string_with_escapes(&mut self, mut start: usize, mut end: usize) -> Result<(S, bool), ReadError> {
        self.unescaped.clear();
        let mut is_whole = true;
        loop {
            let run = &self.text[start..end];
            match self.surrogates {
                Surrogates::Replace => self.unescaped.push_str(run),
                Surrogates::Keep => push_kept_text(&mut self.unescaped, run),
            }
            self.at = end;
            match self.bytes.get(end) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((S::unescaped(&self.unescaped), is_whole));
                }
                Some(b'\\') => is_whole &= self.escape()?,
                Some(_) => return self.expected("an escape in place of a control character"),
                None => return self.expected("`\"`"),
            }
            start = self.at;
            end = plain_end(self.bytes, start);
        }
    }

    /// Reads one escape (a surrogate pair is one), and says whether it was no lone surrogate.
    fn escape(&mut self) -> Result<bool, ReadError> {
        self.at += 1;
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return self.expected("an escape character"),
        };
        self.at += 1;
        self.unescaped.push(character);
        Ok(true)
    }

    fn unicode_escape(&mut self) -> Result<bool, ReadError> {
        let unit = self.four_hex()?;
        if (0xD800..0xDC00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            let after_first = self.at;
            self.at += 2;
            let second = self.four_hex()?;
            if (0xDC00..0xE000).contains(&second) {
                let code_point = 0x1_0000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
                self.push(char::from_u32(code_point).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(true);
            }
            // The second is no other half: it is read again on its own.
            self.at = after_first;
        }
        match (char::from_u32(unit), self.surrogates) {
            (Some(character), _) => {
                self.push(character);
                return Ok(true);
            }
            (None, Surrogates::Replace) => self.unescaped.push(char::REPLACEMENT_CHARACTER),
            (None, Surrogates::Keep) => push_kept_surrogate(&mut self.unescaped, unit),
        }
        Ok(false)
    }

    fn four_hex(&mut self) -> Result<u32, ReadError> {
        let digits = self.bytes.get(self.at..self.at + 4).unwrap_or_default();
        let unit = digits.iter().try_fold(0, |unit, &digit| {
            Some(unit * 16 + char::from(digit).to_digit(16)?)
        });
        match unit {
            Some(unit) if digits.len() == 4 => {
                self.at += 4;
                Ok(unit)
            }
            _ => self.expected("four hex digits"),
        }
    }

    fn push(&mut self, character: char) {
        match self.surrogates {
            Surrogates::Replace => self.unescaped.push(character),
            Surrogates::Keep => push_kept_text(&mut self.unescaped, character.encode_utf8(&mut [0; 4])),
        }
    }

    fn number(&mut self) -> Result<Value<S>, ReadError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Value::Number(Number(S::as_sent(&self.text[start..self.at]))))
    }

    fn digits(&mut self) -> Result<(), ReadError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return self.expected("a digit");
        }
        Ok(())
    }

    fn literal(&mut self, literal: &'static str, value: Value<S>) -> Result<Value<S>, ReadError> {
        if !self.bytes[self.at..].starts_with(literal.as_bytes()) {
            return self.expected("a value");
        }
        self.at += literal.len();
        Ok(value)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, ReadError> {
        Err(ReadError::Syntax {
            offset: self.at,
            expected,
        })
    }

    /// Names the first member of the innermost open object that has the name of one before it.
    fn name_duplicate(&mut self, start: usize) {
        if let Some(index) = first_duplicate(&self.members[start..]) {
            let name = self.members[start + index].0.as_ref().to_owned();
            self.flaw(FlawKind::DuplicateMember, self.open.len() - 1, Some(&name));
        }
    }

    /// Names a flaw inside the value that the first `depth` open containers lead to.
    fn flaw(&mut self, kind: FlawKind, depth: usize, member: Option<&str>) {
        let is_named = if depth == 0 {
            &mut self.root_is_flawed
        } else {
            &mut self.part_is_flawed
        };
        if std::mem::replace(is_named, true) {
            return;
        }
        let mut pointer = self.pointer(depth);
        if let Some(member) = member {
            push_token(&mut pointer, member);
        }
        self.flaws.push(Flaw { kind, pointer });
    }

    /// The pointer that leads through the first `depth` open containers.
    fn pointer(&self, depth: usize) -> String {
        let mut members_end = self.members.len();
        let mut items_end = self.items.len();
        let mut tokens = Vec::with_capacity(self.open.len());
        for open in self.open.iter().rev() {
            match *open {
                Open::Object { start } => {
                    let name = members_end.checked_sub(1).map(|last| &self.members[last].0);
                    tokens.push(name.map(|name| name.as_ref().to_owned()).unwrap_or_default());
                    members_end = start;
                }
                Open::Array { start } => {
                    tokens.push((items_end - start).to_string());
                    items_end = start;
                }
            }
        }
        let mut pointer = String::new();
        for token in tokens.iter().rev().take(depth) {
            push_token(&mut pointer, token);
        }
        pointer
    }
}

/// The index of the first member whose name came before.
fn first_duplicate<S: AsRef<str>>(members: &[(S, Value<S>)]) -> Option<usize> {
    // Comparing each with each is the quickest for few, and hopeless for a hundred thousand.
    const FEW: usize = 16;
    let name = |index: usize| members[index].0.as_ref();
    if members.len() <= FEW {
        return (1..members.len()).find(|&index| {
            let this = name(index);
            (0..index).any(|before| name(before) == this)
        });
    }
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|&left, &right| name(left).cmp(name(right)));
    order
        .windows(2)
        .filter(|pair| name(pair[0]) == name(pair[1]))
        .map(|pair| pair[1])
        .min()
}
