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
        let mut scanner = Scanner {
            text,
            at: 0,
            end,
            is_first: true,
            open: Vec::new(),
        };
        scanner.expect(start)?;
        Ok(scanner)
    }

    /// The JSON text of the next member's name; `None` once the object, and the text with it, is at its end.
    pub(super) fn name(&mut self) -> Result<Option<&'a str>> {
        if !self.has_more()? {
            return Ok(None);
        }
        self.skip_white_space();
        let start = self.at;
        self.skip_string()?;
        Ok(Some(&self.text[start..self.at]))
    }

    /// The JSON text of the value under the name that was just read.
    pub(super) fn value(&mut self) -> Result<&'a str> {
        self.expect(b':')?;
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
        if self.next() == Some(self.end) {
            self.at += 1;
            return match self.next() {
                None => Ok(false),
                Some(_) => Err(Malformed),
            };
        }
        if !std::mem::take(&mut self.is_first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn any(&mut self) -> Result<&'a str> {
        self.skip_white_space();
        let start = self.at;
        self.skip_value()?;
        Ok(&self.text[start..self.at])
    }

    fn skip_value(&mut self) -> Result<()> {
        self.open.clear();
        loop {
            match self.next().ok_or(Malformed)? {
                b'"' => self.skip_string()?,
                b'-' | b'0'..=b'9' => self.skip_number()?,
                b't' => self.skip_word("true")?,
                b'f' => self.skip_word("false")?,
                b'n' => self.skip_word("null")?,
                b'{' => {
                    self.at += 1;
                    if self.next() != Some(b'}') {
                        self.open.push(b'}');
                        self.skip_name()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' => {
                    self.at += 1;
                    if self.next() != Some(b']') {
                        self.open.push(b']');
                        continue;
                    }
                    self.at += 1;
                }
                _ => return Err(Malformed),
            }
            // After a value: up to where the next one starts.
            loop {
                let Some(&end) = self.open.last() else {
                    return Ok(());
                };
                let next = self.next();
                self.at += 1;
                if next == Some(end) {
                    self.open.pop();
                } else if next == Some(b',') {
                    if end == b'}' {
                        self.skip_name()?;
                    }
                    break;
                } else {
                    return Err(Malformed);
                }
            }
        }
    }

    fn skip_name(&mut self) -> Result<()> {
        self.skip_white_space();
        self.skip_string()?;
        self.expect(b':')
    }

    fn skip_string(&mut self) -> Result<()> {
        if self.byte() != Some(b'"') {
            return Err(Malformed);
        }
        self.at += 1;
        loop {
            self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => match self.text.as_bytes()[self.at + 1..] {
                    [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
                    [b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(u8::is_ascii_hexdigit) => self.at += 6,
                    _ => return Err(Malformed),
                },
                _ => return Err(Malformed),
            }
        }
    }

    fn skip_number(&mut self) -> Result<()> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            // There can be only one leading 0; a digit behind it is no value's end.
            Some(b'0') => self.at += 1,
            _ => self.skip_digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<()> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(Malformed) } else { Ok(()) }
    }

    fn skip_word(&mut self, word: &str) -> Result<()> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.next() != Some(byte) {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(())
    }

    /// The next byte that is no white space, which is where `at` is then.
    fn next(&mut self) -> Option<u8> {
        self.skip_white_space();
        self.byte()
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.byte() {
            self.at += 1;
        }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// How many bytes there are before the first that is no plain part of a string: a quote, a backslash or a control character.
/// Eight at a time; a byte of a word is below `n` when subtracting `n` borrows from its highest bit.
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
