//! The outermost level of a JSON text in one pass: where each member of an object, or each element of an array, stands in it.
//!
//! Whatever is nested is held to JSON's grammar and skipped, without recursion, whatever its depth.
//!
//! Invariant: a text is read to its end exactly when `serde_json` reads it; a property test holds the two side by side.

/// The text is no JSON, or not of the kind that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

type Result<T> = std::result::Result<T, Malformed>;

/// One object or array, read from its start.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// What ends the object or array itself.
    end: u8,
    is_first: bool,
    /// What ends each of those that are open within the value that is skipped.
    open: Vec<u8>,
}

impl<'a> Scanner<'a> {
    /// Of the members of an object: [`Scanner::name`] and [`Scanner::value`] in turn.
    pub(super) fn object(text: &'a str) -> Result<Scanner<'a>> {
        Scanner::new(text, b'{', b'}')
    }

    /// Of the elements of an array: [`Scanner::element`].
    pub(super) fn array(text: &'a str) -> Result<Scanner<'a>> {
        Scanner::new(text, b'[', b']')
    }

    fn new(text: &'a str, start: u8, end: u8) -> Result<Scanner<'a>> {
        Ok(Scanner {
            text,
            at: after(text.as_bytes(), 0, start)?,
            end,
            is_first: true,
            open: Vec::new(),
        })
    }

    /// The JSON text of the next member's name; `None` once the object, and the text with it, is at its end.
    pub(super) fn name(&mut self) -> Result<Option<&'a str>> {
        if !self.has_more()? {
            return Ok(None);
        }
        let start = after_space(self.bytes(), self.at);
        self.at = after_string(self.bytes(), start)?;
        Ok(Some(&self.text[start..self.at]))
    }

    /// The JSON text of the value under the name that was just read.
    pub(super) fn value(&mut self) -> Result<&'a str> {
        self.at = after(self.bytes(), self.at, b':')?;
        self.any()
    }

    /// The JSON text of the next element; `None` once the array, and the text with it, is at its end.
    pub(super) fn element(&mut self) -> Result<Option<&'a str>> {
        match self.has_more()? {
            true => self.any().map(Some),
            false => Ok(None),
        }
    }

    fn has_more(&mut self) -> Result<bool> {
        let at = after_space(self.bytes(), self.at);
        if self.bytes().get(at) == Some(&self.end) {
            self.at = after_space(self.bytes(), at + 1);
            return match self.at == self.text.len() {
                true => Ok(false),
                false => Err(Malformed),
            };
        }
        if !std::mem::take(&mut self.is_first) {
            self.at = after(self.bytes(), at, b',')?;
        }
        Ok(true)
    }

    fn any(&mut self) -> Result<&'a str> {
        let start = after_space(self.bytes(), self.at);
        self.at = after_value(self.text.as_bytes(), start, &mut self.open)?;
        Ok(&self.text[start..self.at])
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }
}

// Each of these says where what stands at `at` ends.

/// Any value. `open` is room to work in.
fn after_value(bytes: &[u8], mut at: usize, open: &mut Vec<u8>) -> Result<usize> {
    open.clear();
    loop {
        at = after_space(bytes, at);
        match bytes.get(at).ok_or(Malformed)? {
            b'"' => at = after_string(bytes, at)?,
            b'-' | b'0'..=b'9' => at = after_number(bytes, at)?,
            b't' => at = after_word(bytes, at, b"true")?,
            b'f' => at = after_word(bytes, at, b"false")?,
            b'n' => at = after_word(bytes, at, b"null")?,
            b'{' => {
                at = after_space(bytes, at + 1);
                if bytes.get(at) != Some(&b'}') {
                    open.push(b'}');
                    at = after_name(bytes, at)?;
                    continue;
                }
                at += 1;
            }
            b'[' => {
                at = after_space(bytes, at + 1);
                if bytes.get(at) != Some(&b']') {
                    open.push(b']');
                    continue;
                }
                at += 1;
            }
            _ => return Err(Malformed),
        }
        // After a value: up to where the next one starts.
        loop {
            let Some(&end) = open.last() else {
                return Ok(at);
            };
            at = after_space(bytes, at);
            let next = bytes.get(at).copied();
            at += 1;
            if next == Some(end) {
                open.pop();
            } else if next == Some(b',') {
                if end == b'}' {
                    at = after_name(bytes, after_space(bytes, at))?;
                }
                break;
            } else {
                return Err(Malformed);
            }
        }
    }
}

/// A member's name and its colon.
#[inline]
fn after_name(bytes: &[u8], at: usize) -> Result<usize> {
    after(bytes, after_string(bytes, at)?, b':')
}

#[inline]
fn after_string(bytes: &[u8], mut at: usize) -> Result<usize> {
    if bytes.get(at) != Some(&b'"') {
        return Err(Malformed);
    }
    at += 1;
    loop {
        at += plain_bytes(&bytes[at..]);
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += escape_length(&bytes[at + 1..])?,
            _ => return Err(Malformed),
        }
    }
}

/// How long an escape is, by what stands behind its backslash.
fn escape_length(rest: &[u8]) -> Result<usize> {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => Ok(2),
        [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => Ok(6),
        _ => Err(Malformed),
    }
}

fn after_number(bytes: &[u8], mut at: usize) -> Result<usize> {
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    match bytes.get(at) {
        // There can be only one leading 0.
        Some(b'0') if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => return Err(Malformed),
        Some(b'0') => at += 1,
        _ => at = after_digits(bytes, at)?,
    }
    if bytes.get(at) == Some(&b'.') {
        at = after_digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = after_digits(bytes, at)?;
    }
    Ok(at)
}

fn after_digits(bytes: &[u8], start: usize) -> Result<usize> {
    let mut at = start;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at == start { Err(Malformed) } else { Ok(at) }
}

fn after_word(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize> {
    match bytes[at..].starts_with(word) {
        true => Ok(at + word.len()),
        false => Err(Malformed),
    }
}

/// White space and this byte.
#[inline]
fn after(bytes: &[u8], at: usize, byte: u8) -> Result<usize> {
    let at = after_space(bytes, at);
    match bytes.get(at) == Some(&byte) {
        true => Ok(at + 1),
        false => Err(Malformed),
    }
}

#[inline]
fn after_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// How many bytes there are before the first that is no plain part of a string: a quote, a backslash or a control character.
/// Eight at a time; a byte of a word is below `n` when subtracting `n` borrows from its highest bit.
#[inline]
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut plain = 0;
    for word in bytes.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(*word);
        let is_below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
        let is = |byte: u8| is_below(word ^ (ONES * u64::from(byte)), 1);
        let found = (is_below(word, 0x20) | is(b'"') | is(b'\\')) & HIGH;
        if found != 0 {
            // Borrows make later bytes of the word wrong, never the first that is found.
            return plain + found.trailing_zeros() as usize / 8;
        }
        plain += 8;
    }
    let is_plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..0x20);
    plain + bytes[plain..].iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fmt;

    use proptest::prelude::*;
    use serde::de::{Deserializer, MapAccess, Visitor};
    use serde_json::value::RawValue;

    use crate::wire::message::{MembersError, is_lookalike};
    use crate::wire::message::{clear_members, elements, member_spans, members, place};

    const NAMES: [&str; 3] = ["id", "method", "s"];

    /// What `serde_json` makes of an object: each name's and each value's text, up to where it gives up.
    struct Read<'a> {
        members: Vec<(&'a str, Option<&'a str>)>,
        is_whole: bool,
    }

    fn read_by_serde(text: &str) -> Read<'_> {
        struct Members<'a, 'r>(&'r mut Vec<(&'a str, Option<&'a str>)>);

        impl<'a> Visitor<'a> for Members<'a, '_> {
            type Value = ();

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some(name) = map.next_key::<&'a RawValue>()? {
                    self.0.push((name.get(), None));
                    let value = map.next_value::<&'a RawValue>()?;
                    self.0.last_mut().unwrap().1 = Some(value.get());
                }
                Ok(())
            }
        }

        let mut members = Vec::new();
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = reader.deserialize_map(Members(&mut members));
        let is_whole = read.is_ok() && reader.end().is_ok();
        Read { members, is_whole }
    }

    /// What the members asked for are by that.
    fn expected(text: &str, is_clear: bool) -> Result<[Option<&str>; 3], MembersError> {
        let Read {
            members,
            mut is_whole,
        } = read_by_serde(text);
        let mut found = [None; 3];
        let mut flaw = None;
        for (name, value) in members {
            let Ok(name) = serde_json::from_str::<Cow<'_, str>>(name) else {
                is_whole = false;
                break;
            };
            match (NAMES.iter().position(|asked| *asked == name), value) {
                (None, _) => {
                    let alike = NAMES.iter().find(|asked| is_clear && is_lookalike(&name, asked));
                    flaw = flaw.or(alike.map(|asked| MembersError::Lookalike(asked)));
                }
                (Some(place), Some(_)) if found[place].is_some() => {
                    flaw = flaw.or(Some(MembersError::Twice(NAMES[place])));
                }
                (Some(place), value) => found[place] = value,
            }
        }
        match flaw {
            Some(flaw) => Err(flaw),
            None if is_whole => Ok(found),
            None => Err(MembersError::NoObject),
        }
    }

    fn check(text: &str) {
        let Read {
            members: read,
            is_whole,
        } = read_by_serde(text);
        let spans = is_whole.then(|| {
            let span = |(name, value): &(&str, Option<&str>)| {
                (
                    place(text, name).start,
                    place(text, value.unwrap_or_default()).end,
                )
            };
            read.iter().map(span).collect::<Vec<_>>()
        });
        let found = member_spans(text);
        let found = found.map(|found| {
            found
                .iter()
                .map(|member| (member.span.start, member.span.end))
                .collect()
        });
        assert_eq!(found, spans, "{text:?}");
        assert_eq!(members(text, NAMES), expected(text, false), "{text:?}");
        assert_eq!(clear_members(text, NAMES), expected(text, true), "{text:?}");

        let array = serde_json::from_str::<Vec<&RawValue>>(text).ok();
        let array: Option<Vec<&str>> = array.map(|array| array.iter().map(|element| element.get()).collect());
        assert_eq!(
            elements(text, usize::MAX).map(|found| found.texts),
            array,
            "{text:?}"
        );
    }

    #[test]
    fn a_digit_behind_a_leading_zero_is_no_value() {
        check(r#"{"id":1,"id":028}"#);
        check(r#"{"id":1,"id":-028.5e3,"method":"a"}"#);
    }

    #[test]
    fn every_rule_of_the_grammar_is_the_one_of_serde_json() {
        let values = [
            "",
            " ",
            "0",
            "-0",
            "01",
            "-",
            "--1",
            "+1",
            "1.",
            ".5",
            "1.5",
            "1.5e",
            "1e+",
            "1e5",
            "1E-5",
            "1e5.5",
            "0e0",
            "00",
            "-01",
            "1 2",
            "NaN",
            "true",
            "tru",
            "truex",
            "false",
            "null",
            "nul",
            "\"\"",
            "\"",
            "\"\\\"",
            "\"\\q\"",
            "\"\\u12g4\"",
            "\"\\u123\"",
            "\"\\ud800\"",
            "\"\\ud800\\udc00\"",
            "\"\t\"",
            "\"\u{7f}\"",
            "\"\u{1f}\"",
            "\"12345678\\\"90\"",
            "\"é\u{20ac}\u{1f600}\"",
            "[]",
            "[",
            "]",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1}",
            "{}",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{1:2}",
            "{\"a\" : [ { } , 1 ] }",
            "{\"a\":1]",
            "[[[]]]",
            "[[]",
            "{\"\\ud800\":1}",
            "\u{a0}1",
            "1\u{b}",
            "/**/1",
            "\u{feff}1",
        ];
        for value in values {
            for text in [
                value.to_owned(),
                format!("[{value}]"),
                format!(" [ 1 , {value} ] "),
                format!("{{\"id\":{value}}}"),
                format!("{{\"id\" : {value} , \"\\u0069d\" : {value}}}"),
                format!("{{\"x\":{value},\"method\":[{value}]}}"),
                format!("{{\"ID\":{value}}} "),
                format!("{{{value}:1}}"),
                format!("{{\"id\":1}}{value}"),
                format!("[]{value}"),
            ] {
                check(&text);
            }
        }
    }

    #[test]
    fn a_control_character_is_found_wherever_it_stands_in_a_string() {
        for length in 0..40 {
            for place in 0..length {
                for inserted in ["\u{0}", "\u{1f}", "\"", "\\", "\\n", "\u{80}", "\u{7f}", " ", "!"] {
                    let mut inner = "\u{e9}".repeat(length / 2) + &"x".repeat(length);
                    if inner.is_char_boundary(place) {
                        inner.insert_str(place, inserted);
                        check(&format!("[\"{inner}\"]"));
                    }
                }
            }
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            r#""([a-zé\u{1f600} ]|\\[nu"\\/]|\\u[0-9a-f]{4}){0,12}""#,
            "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
            "true|false|null",
        ];
        scalar.prop_recursive(4, 40, 5, |inner| {
            let name = prop_oneof![
                Just("\"id\"".to_owned()),
                Just("\"method\"".to_owned()),
                Just("\"\\u0069d\"".to_owned()),
                r#""([a-zA-Z\u{17f}]|\\ud[89][0-9a-f]{2}){0,3}""#,
            ];
            let member = (name, "[ \t\r\n]?", inner.clone())
                .prop_map(|(name, space, value)| format!("{space}{name}{space}:{space}{value}{space}"));
            prop_oneof![
                proptest::collection::vec(inner, 0..5)
                    .prop_map(|elements| format!("[{}]", elements.join(" , "))),
                proptest::collection::vec(member, 0..5)
                    .prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_text_is_read_as_serde_json_reads_it(text in r#"[\[\]{}:,"\\0-9.eutrnl a-eIiDdmhos\u{0}\t\n-]{0,40}"#) {
            check(&text);
            check(&format!("{{\"id\":{text}}}"));
        }

        #[test]
        fn a_changed_text_is_read_as_serde_json_reads_it(
            text in json(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..3, r#"[\[\]{}:,"\\0-9.etnu \t\u{1}-]"#), 0..4),
        ) {
            check(&text);
            let mut characters: Vec<char> = text.chars().collect();
            for (place, kind, inserted) in changes {
                let place = place.index(characters.len() + 1);
                let inserted = inserted.chars().next().unwrap_or(' ');
                match characters.get_mut(place) {
                    Some(character) if kind == 0 => *character = inserted,
                    Some(_) if kind == 1 => drop(characters.remove(place)),
                    _ => characters.insert(place, inserted),
                }
                check(&characters.iter().collect::<String>());
            }
        }
    }
}
