//! Strings made from a pattern, piece by piece, so that they match it without anything being run.
//!
//! Only what every dialect of regular expressions reads the same way is understood: letters, classes, groups,
//! alternatives, counts, anchors at the ends.
//!
//! Invariant: a string given here matches; work and length are bounded, whatever the pattern.

/// The longest string, in characters, and the deepest nesting of groups.
const MAX_LENGTH: usize = 2_048;
const MAX_NESTING: usize = 16;
const MAX_PATTERN: usize = 4_096;

/// How often a piece without an upper count is repeated beyond its least count, in the strings tried.
const EXTRA: [usize; 6] = [0, 1, 3, 8, 20, 40];

/// A few strings that match, of growing length; none when the pattern is not understood.
pub(super) fn examples(pattern: &str) -> Vec<String> {
    if pattern.len() > MAX_PATTERN {
        return Vec::new();
    }
    let characters: Vec<char> = pattern.chars().collect();
    let mut parser = Parser {
        characters: &characters,
        next: 0,
    };
    let Some(alternatives) = parser.alternatives(0) else {
        return Vec::new();
    };
    if parser.next < characters.len() {
        return Vec::new();
    }
    let mut examples = Vec::new();
    for extra in EXTRA {
        for pieces in alternatives.iter().take(4) {
            let mut text = String::new();
            if write(pieces, extra, &mut text).is_some() && !examples.contains(&text) {
                examples.push(text);
            }
        }
    }
    examples
}

enum What {
    One(char),
    Group(Vec<Vec<Piece>>),
}

struct Piece {
    what: What,
    least: usize,
    most: Option<usize>,
}

/// `None` when the text would be too long.
fn write(pieces: &[Piece], extra: usize, text: &mut String) -> Option<()> {
    for piece in pieces {
        let times = piece
            .most
            .unwrap_or(usize::MAX)
            .min(piece.least.saturating_add(extra));
        for _ in 0..times {
            match &piece.what {
                What::One(character) => text.push(*character),
                What::Group(alternatives) => {
                    let before = text.len();
                    write(alternatives.first()?, extra, text)?;
                    if text.len() == before {
                        break;
                    }
                }
            }
            if text.len() > MAX_LENGTH {
                return None;
            }
        }
    }
    Some(())
}

struct Parser<'p> {
    characters: &'p [char],
    next: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.next).copied()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.next += 1;
        Some(character)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    fn alternatives(&mut self, nesting: usize) -> Option<Vec<Vec<Piece>>> {
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.pieces(nesting)?);
            if !self.eat('|') {
                return Some(alternatives);
            }
        }
    }

    fn pieces(&mut self, nesting: usize) -> Option<Vec<Piece>> {
        if nesting == 0 {
            self.eat('^');
        }
        let mut pieces = Vec::new();
        loop {
            let what = match self.peek() {
                None | Some('|' | ')') => return Some(pieces),
                Some('$') if nesting == 0 => {
                    self.next += 1;
                    return matches!(self.peek(), None | Some('|')).then_some(pieces);
                }
                Some('^' | '$' | '*' | '+' | '?' | '{' | '}' | ']') => return None,
                Some('(') => {
                    self.next += 1;
                    if self.eat('?') && !self.eat(':') {
                        return None;
                    }
                    if nesting >= MAX_NESTING {
                        return None;
                    }
                    let alternatives = self.alternatives(nesting + 1)?;
                    if !self.eat(')') {
                        return None;
                    }
                    What::Group(alternatives)
                }
                Some('[') => {
                    self.next += 1;
                    What::One(self.class()?)
                }
                Some('.') => {
                    self.next += 1;
                    What::One('a')
                }
                Some('\\') => {
                    self.next += 1;
                    What::One(Set::escaped(self.take()?)?.first()?)
                }
                Some(letter) => {
                    self.next += 1;
                    What::One(letter)
                }
            };
            let (least, most) = self.count()?;
            pieces.push(Piece { what, least, most });
        }
    }

    fn count(&mut self) -> Option<(usize, Option<usize>)> {
        let count = match self.peek() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                self.next += 1;
                let least = self.number()?;
                let most = if self.eat(',') {
                    if self.peek() == Some('}') {
                        None
                    } else {
                        Some(self.number()?)
                    }
                } else {
                    Some(least)
                };
                if self.peek() != Some('}') || most.is_some_and(|most| most < least) {
                    return None;
                }
                (least, most)
            }
            _ => return Some((1, Some(1))),
        };
        self.next += 1;
        self.eat('?');
        Some(count)
    }

    fn number(&mut self) -> Option<usize> {
        let start = self.next;
        while self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
            self.next += 1;
        }
        self.characters[start..self.next]
            .iter()
            .collect::<String>()
            .parse()
            .ok()
    }

    /// A character of the class whose `[` was taken.
    fn class(&mut self) -> Option<char> {
        let negated = self.eat('^');
        let mut set = Set::default();
        loop {
            let start = match self.take()? {
                ']' => break,
                // Set operations of some dialects begin with these.
                '[' | '&' | '~' => return None,
                '\\' => match Set::escaped(self.take()?)? {
                    Set {
                        ranges,
                        complete: true,
                    } if ranges.len() == 1 && ranges[0].0 == ranges[0].1 => ranges[0].0,
                    class => {
                        set.ranges.extend(class.ranges);
                        set.complete &= class.complete;
                        continue;
                    }
                },
                letter => letter,
            };
            let is_range = self.peek() == Some('-') && self.characters.get(self.next + 1) != Some(&']');
            if !is_range {
                set.ranges.push((start, start));
                continue;
            }
            self.next += 1;
            let end = match self.take()? {
                '\\' | '[' | '-' => return None,
                letter => letter,
            };
            if end < start {
                return None;
            }
            set.ranges.push((start, end));
        }
        if !negated {
            return set.first();
        }
        let outside = ['a', '0', 'A', '_', '-', ' ', 'x', '5'];
        let free = |one: &char| !set.ranges.iter().any(|(start, end)| start <= one && one <= end);
        if set.complete {
            outside.into_iter().find(free)
        } else {
            None
        }
    }
}

/// Some characters of a class; all of its ASCII ones when `complete`.
struct Set {
    ranges: Vec<(char, char)>,
    complete: bool,
}

impl Default for Set {
    fn default() -> Set {
        Set {
            ranges: Vec::new(),
            complete: true,
        }
    }
}

impl Set {
    fn first(&self) -> Option<char> {
        self.ranges.first().map(|(start, _)| *start)
    }

    /// What a letter after `\` stands for.
    fn escaped(letter: char) -> Option<Set> {
        let (ranges, complete) = match letter {
            'd' => (vec![('0', '9')], true),
            'w' => (vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')], true),
            's' => (vec![(' ', ' '), ('\t', '\r')], true),
            'D' | 'S' => (vec![('a', 'a')], false),
            'W' => (vec![('-', '-')], false),
            'n' => (vec![('\n', '\n')], true),
            't' => (vec![('\t', '\t')], true),
            'r' => (vec![('\r', '\r')], true),
            mark if mark.is_ascii_punctuation() => (vec![(mark, mark)], true),
            _ => return None,
        };
        Some(Set { ranges, complete })
    }
}

#[cfg(test)]
mod tests {
    use super::examples;

    #[track_caller]
    fn check(pattern: &str, expected: &str) {
        assert_eq!(
            examples(pattern).first().map(String::as_str),
            Some(expected),
            "{pattern}"
        );
    }

    #[test]
    fn strings_are_made_from_a_pattern() {
        check("^[a-z]+$", "a");
        check("^[0-9a-f]{24}$", &"0".repeat(24));
        check(r"^\d{4}-\d{2}$", "0000-00");
        check("^(sort|rank):.+$", "sort:a");
        check("a|b", "a");
        check("^https?://[^/]+/x$", "http://a/x");
        check("^[^a-z]$", "0");
    }

    #[test]
    fn a_pattern_that_is_not_understood_gives_nothing() {
        for pattern in [
            "(?=a)b",
            r"\bword",
            "a^b",
            "(a",
            "[z-a]",
            r"(a)\1",
            "a{3,1}",
            "[a&&b]",
            r"\p{L}",
            "(a{999}){999}",
        ] {
            assert_eq!(examples(pattern), Vec::<String>::new(), "{pattern}");
        }
        assert_eq!(examples(&"(".repeat(9_999)), Vec::<String>::new());
    }
}
