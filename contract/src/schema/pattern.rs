//! Patterns as text: what can be read off one without running it on anything.
//!
//! Strings are made from a pattern piece by piece, so that they match; lengths that can't match are known; two
//! patterns alike piece by piece are compared. Only what every dialect of regular expressions reads the same way is understood: letters, classes, groups,
//! alternatives, counts, anchors at the ends.
//!
//! Invariant: what is said here of a pattern holds in every dialect; work and length are bounded.

use std::collections::BTreeSet;

/// The longest string, in characters, and the deepest nesting of groups.
const MAX_LENGTH: usize = 2_048;
const MAX_NESTING: usize = 16;
const MAX_PATTERN: usize = 4_096;

/// How often a piece without an upper count is repeated beyond its least count, in the strings tried.
const EXTRA: [usize; 6] = [0, 1, 3, 8, 20, 40];

/// A pattern that was understood.
pub(super) struct Pattern {
    branches: Vec<Branch>,
}

struct Branch {
    /// Whether it begins and ends where the text does.
    start: bool,
    end: bool,
    pieces: Vec<Piece>,
}

struct Piece {
    what: What,
    least: usize,
    most: Option<usize>,
}

enum What {
    One(Class),
    Group(Vec<Vec<Piece>>),
}

/// Some characters.
#[derive(Default, PartialEq, Eq)]
struct Class {
    negated: bool,
    ranges: Vec<(char, char)>,
    /// `\d`, `\w` and the like, by their letters: what else than ASCII they hold differs by dialect; `.` is one too.
    named: BTreeSet<char>,
}

impl Pattern {
    /// `None` when the pattern is not understood.
    pub(super) fn parse(pattern: &str) -> Option<Pattern> {
        if pattern.len() > MAX_PATTERN {
            return None;
        }
        let characters: Vec<char> = pattern.chars().collect();
        let mut parser = Parser {
            characters: &characters,
            next: 0,
        };
        let branches = parser.branches()?;
        (parser.next == characters.len()).then_some(Pattern { branches })
    }

    /// A few strings that match, of growing length.
    pub(super) fn examples(&self) -> Vec<String> {
        let mut examples = Vec::new();
        for extra in EXTRA {
            for branch in self.branches.iter().take(4) {
                let mut text = String::new();
                if write(&branch.pieces, extra, &mut text).is_some() && !examples.contains(&text) {
                    examples.push(text);
                }
            }
        }
        examples
    }

    /// Whether a text of so many characters is too short, or too long, to match.
    pub(super) fn refuses_length(&self, length: usize) -> bool {
        self.branches.iter().all(|branch| {
            let (least, most) = lengths(&branch.pieces);
            length < least || (branch.start && branch.end && most.is_some_and(|most| length > most))
        })
    }

    /// Whether whatever matches this also matches `other`, since they are alike piece by piece.
    pub(super) fn fits(&self, other: &Pattern) -> bool {
        self.branches.iter().all(|branch| {
            other.branches.iter().any(|larger| {
                (branch.start || !larger.start)
                    && (branch.end || !larger.end)
                    && all_fit(&branch.pieces, &larger.pieces)
            })
        })
    }
}

/// The longest lists of pieces that are compared.
const MAX_COMPARED: usize = 64;

/// Whether whatever these pieces take, `larger` takes, its optional ones left out where that helps.
fn all_fit(pieces: &[Piece], larger: &[Piece]) -> bool {
    if pieces.len() > MAX_COMPARED || larger.len() > MAX_COMPARED {
        return false;
    }
    // Whether the pieces so far fit the first so many of `larger`.
    let mut fitting: Vec<bool> = vec![false; larger.len() + 1];
    fitting[0] = true;
    let skip_optional = |fitting: &mut Vec<bool>| {
        for (index, other) in larger.iter().enumerate() {
            fitting[index + 1] |= fitting[index] && other.least == 0;
        }
    };
    skip_optional(&mut fitting);
    for piece in pieces {
        let mut next = vec![false; larger.len() + 1];
        for (index, other) in larger.iter().enumerate() {
            next[index + 1] = fitting[index] && piece.fits(other);
        }
        skip_optional(&mut next);
        fitting = next;
    }
    fitting[larger.len()]
}

impl Piece {
    fn fits(&self, larger: &Piece) -> bool {
        let counted = self.least >= larger.least
            && larger
                .most
                .is_none_or(|most| self.most.is_some_and(|own| own <= most));
        counted
            && match (&self.what, &larger.what) {
                (What::One(class), What::One(larger)) => class.fits(larger),
                (What::Group(ones), What::Group(others)) => ones
                    .iter()
                    .all(|one| others.iter().any(|other| all_fit(one, other))),
                _ => false,
            }
    }
}

/// The least and the most characters that these pieces take.
fn lengths(pieces: &[Piece]) -> (usize, Option<usize>) {
    let (mut least, mut most) = (0_usize, Some(0_usize));
    for piece in pieces {
        let (one_least, one_most) = match &piece.what {
            What::One(_) => (1, Some(1)),
            What::Group(branches) => {
                let all = branches.iter().map(|branch| lengths(branch));
                let least = all.clone().map(|(least, _)| least).min().unwrap_or(0);
                (
                    least,
                    all.map(|(_, most)| most)
                        .try_fold(0, |longest, most| most.map(|most| longest.max(most))),
                )
            }
        };
        least = least.saturating_add(one_least.saturating_mul(piece.least));
        most = match (most, one_most, piece.most) {
            (Some(most), Some(one), Some(times)) => Some(most.saturating_add(one.saturating_mul(times))),
            _ => None,
        };
    }
    (least, most)
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
                What::One(class) => text.push(class.first()?),
                What::Group(branches) => {
                    let before = text.len();
                    write(branches.first()?, extra, text)?;
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

impl Class {
    fn one(letter: char) -> Class {
        Class {
            ranges: vec![(letter, letter)],
            ..Class::default()
        }
    }

    /// What a letter after `\` stands for.
    fn escaped(letter: char) -> Option<Class> {
        let plain = match letter {
            'd' | 'w' | 's' | 'D' | 'W' | 'S' => {
                return Some(Class {
                    named: BTreeSet::from([letter]),
                    ..Class::default()
                });
            }
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            mark if mark.is_ascii_punctuation() => mark,
            _ => return None,
        };
        Some(Class::one(plain))
    }

    /// A character that is surely in it.
    fn first(&self) -> Option<char> {
        const TRIED: [char; 11] = ['a', '0', 'A', '_', '-', ' ', 'x', '5', '/', '.', '#'];
        if !self.negated
            && let Some((start, _)) = self.ranges.first()
        {
            return Some(*start);
        }
        TRIED.into_iter().find(|one| self.has(*one))
    }

    /// Whether an ASCII character is in it.
    fn has(&self, one: char) -> bool {
        let ranged = self
            .ranges
            .iter()
            .any(|(start, end)| *start <= one && one <= *end);
        let named = self.named.iter().any(|name| match name {
            'd' => one.is_ascii_digit(),
            'D' => !one.is_ascii_digit(),
            'w' => one.is_ascii_alphanumeric() || one == '_',
            'W' => !one.is_ascii_alphanumeric() && one != '_',
            's' => one == ' ' || ('\t'..='\r').contains(&one),
            'S' => one != ' ' && !('\t'..='\r').contains(&one),
            _ => one != '\n' && one != '\r',
        });
        (ranged || named) != self.negated
    }

    /// Whether every character of it is one of `larger`.
    fn fits(&self, larger: &Class) -> bool {
        if self == larger {
            return true;
        }
        if self.negated || larger.negated || !self.named.is_subset(&larger.named) {
            return false;
        }
        self.ranges.iter().all(|(start, end)| {
            let in_range = larger.ranges.iter().any(|(from, to)| from <= start && end <= to);
            let ascii = *end <= '\u{7f}';
            in_range || (ascii && (*start..=*end).all(|one| larger.has(one)))
        })
    }
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

    fn branches(&mut self) -> Option<Vec<Branch>> {
        let mut branches = Vec::new();
        loop {
            let start = self.eat('^');
            let pieces = self.pieces(0)?;
            let end = self.eat('$');
            branches.push(Branch { start, end, pieces });
            if !self.eat('|') {
                return Some(branches);
            }
        }
    }

    fn group(&mut self, nesting: usize) -> Option<What> {
        if (self.eat('?') && !self.eat(':')) || nesting >= MAX_NESTING {
            return None;
        }
        let mut branches = Vec::new();
        loop {
            branches.push(self.pieces(nesting + 1)?);
            if self.eat(')') {
                return Some(What::Group(branches));
            }
            if !self.eat('|') {
                return None;
            }
        }
    }

    /// Pieces up to what none can begin with.
    fn pieces(&mut self, nesting: usize) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        loop {
            let what = match self.peek() {
                None | Some('|' | ')' | '$') => return Some(pieces),
                Some('^' | '*' | '+' | '?' | '{' | '}' | ']') => return None,
                Some(letter) => {
                    self.next += 1;
                    match letter {
                        '(' => self.group(nesting)?,
                        '[' => What::One(self.class()?),
                        '.' => What::One(Class {
                            named: BTreeSet::from(['.']),
                            ..Class::default()
                        }),
                        '\\' => What::One(Class::escaped(self.take()?)?),
                        letter => What::One(Class::one(letter)),
                    }
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
        // `a++` is possessive in some dialects and an error in others.
        if matches!(self.peek(), Some('+' | '*' | '?' | '{')) {
            None
        } else {
            Some(count)
        }
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

    /// The class whose `[` was taken.
    fn class(&mut self) -> Option<Class> {
        let mut class = Class {
            negated: self.eat('^'),
            ..Class::default()
        };
        loop {
            let start = match self.take()? {
                ']' => break,
                // Set operations of some dialects begin with these.
                '[' | '&' | '~' => return None,
                '\\' => {
                    let escaped = Class::escaped(self.take()?)?;
                    let Some((letter, _)) = escaped.ranges.first().copied() else {
                        class.named.extend(escaped.named);
                        continue;
                    };
                    letter
                }
                letter => letter,
            };
            let is_range = self.peek() == Some('-') && self.characters.get(self.next + 1) != Some(&']');
            let mut end = start;
            if is_range {
                self.next += 1;
                end = match self.take()? {
                    '\\' | '[' | '-' => return None,
                    letter => letter,
                };
            }
            if end < start {
                return None;
            }
            class.ranges.push((start, end));
        }
        let empty = class.ranges.is_empty() && class.named.is_empty();
        if empty { None } else { Some(class) }
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn examples(pattern: &str) -> Vec<String> {
        Pattern::parse(pattern)
            .map(|pattern| pattern.examples())
            .unwrap_or_default()
    }

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
        let patterns = [
            "(?=a)b", r"\bword", "a^b", "a$b", "(a", "[z-a]", r"(a)\1", "a{3,1}", "[a&&b]", r"\p{L}", "a++",
            "[]",
        ];
        for pattern in patterns {
            assert!(Pattern::parse(pattern).is_none(), "{pattern}");
        }
        assert!(Pattern::parse(&"(".repeat(4_000)).is_none());
        assert_eq!(examples("(a{999}){999}"), Vec::<String>::new());
    }

    #[test]
    fn lengths_that_can_not_match_are_known() {
        let refuses = |pattern: &str, length| Pattern::parse(pattern).unwrap().refuses_length(length);
        assert!(refuses("^[A-Z]+-[0-9]+$", 2) && !refuses("^[A-Z]+-[0-9]+$", 3));
        assert!(refuses("^a{2,3}$", 4) && !refuses("^a{2,3}$", 3) && !refuses("a{2,3}", 4));
        assert!(!refuses("^a?|bb$", 0));
    }

    #[test]
    fn patterns_alike_piece_by_piece_are_compared() {
        let fits = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|pattern| Pattern::parse(pattern).unwrap());
            (one.fits(&other), other.fits(&one))
        };
        assert_eq!(fits(r"^[A-Z]+-\d+$", r"^[A-Z_]+-\d+$"), (true, false));
        assert_eq!(fits("^[0-9]{2}$", r"^\d+"), (true, false));
        assert_eq!(fits("^(a|b)$", "^(?:b|c|a)$"), (true, false));
        assert_eq!(fits("^[^a]$", "^[^ab]$"), (false, false));
        assert_eq!(fits("a", "a|b"), (true, false));
        assert_eq!(fits(r"^[A-Z]+-\d+$", r"^[A-Z]+-\d+(?:-\d+)*$"), (true, false));
        assert_eq!(fits("^ab$", "^a?b?c$"), (false, false));
    }
}
