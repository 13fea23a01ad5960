//! Two texts side by side: which lines differ, and in these which words.
//!
//! Lines are compared first, then the words of each block of lines that was replaced. Everything is bounded: the texts come
//! from servers, and a comparison's time grows with the product of what differs.
//!
//! Invariant: the parts of each side, put together, are that side's text; nothing is lost or reordered but long stretches
//! of equal lines, which are counted in [`Row::Skipped`].

use similar::{DiffOp, TextDiff};

/// The longest text that is compared, in bytes. Longer ones are offered whole instead.
pub const MAX_BYTES: usize = 48 * 1024;
/// The most lines that are compared.
const MAX_LINES: usize = 2_000;
/// The most words of one block that are compared one by one; past that its lines are marked whole.
const MAX_WORDS: usize = 4_000;
/// Below this share of common words a block was rewritten, and marks inside its lines would be noise.
const RELATED: f32 = 0.3;
/// Equal lines shown around a difference.
const CONTEXT: usize = 3;

/// One row of the two columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Row {
    /// A line that both sides have.
    Same(String),
    /// What stands on either side; one of them may have nothing there.
    Changed {
        /// The line before, in its parts.
        before: Option<Vec<Part>>,
        /// The line after, in its parts.
        after: Option<Vec<Part>>,
    },
    /// So many equal lines are left out.
    Skipped(usize),
}

/// A stretch of one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// The text itself.
    pub text: String,
    /// Whether the other side lacks it.
    pub changed: bool,
}

/// The texts are too long to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Compares two texts.
pub fn compare(before: &str, after: &str) -> Result<Vec<Row>, TooLong> {
    if before.len() > MAX_BYTES || after.len() > MAX_BYTES {
        return Err(TooLong);
    }
    let old = lines(before);
    let new = lines(after);
    if old.len() > MAX_LINES || new.len() > MAX_LINES {
        return Err(TooLong);
    }
    let mut rows = Vec::new();
    for op in TextDiff::from_slices(&old, &new).ops() {
        match *op {
            DiffOp::Equal { old_index, len, .. } => {
                let same = &old[old_index..old_index + len];
                rows.extend(same.iter().map(|line| Row::Same((*line).to_owned())));
            }
            DiffOp::Delete {
                old_index, old_len, ..
            } => {
                rows.extend(
                    old[old_index..old_index + old_len]
                        .iter()
                        .map(|line| Row::Changed {
                            before: Some(whole(line)),
                            after: None,
                        }),
                );
            }
            DiffOp::Insert {
                new_index, new_len, ..
            } => {
                rows.extend(
                    new[new_index..new_index + new_len]
                        .iter()
                        .map(|line| Row::Changed {
                            before: None,
                            after: Some(whole(line)),
                        }),
                );
            }
            DiffOp::Replace {
                old_index,
                old_len,
                new_index,
                new_len,
            } => rows.extend(replaced(
                &old[old_index..old_index + old_len],
                &new[new_index..new_index + new_len],
            )),
        }
    }
    Ok(with_context(rows))
}

/// The changed lines alone, by which two differences in different texts are known to be the same.
pub fn changed_lines(rows: &[Row]) -> Vec<&Row> {
    rows.iter()
        .filter(|row| matches!(row, Row::Changed { .. }))
        .collect()
}

/// A text's lines; the empty text has none.
fn lines(text: &str) -> Vec<&str> {
    match text {
        "" => Vec::new(),
        text => text.split('\n').collect(),
    }
}

/// A line that the other side lacks; its indentation is not worth a mark.
fn whole(line: &str) -> Vec<Part> {
    let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
    let part = |text: &str, changed| Part {
        text: text.to_owned(),
        changed,
    };
    [
        part(&line[..indentation], false),
        part(&line[indentation..], true),
    ]
    .into_iter()
    .filter(|part| !part.text.is_empty())
    .collect()
}

/// The rows of a block that was replaced, its words compared across its lines.
fn replaced(old: &[&str], new: &[&str]) -> Vec<Row> {
    let (old_text, new_text) = (old.join("\n"), new.join("\n"));
    let (old_words, new_words) = (words(&old_text), words(&new_text));
    let mut before = LineParts::default();
    let mut after = LineParts::default();
    let small = old_words.len() <= MAX_WORDS && new_words.len() <= MAX_WORDS;
    let diff = small.then(|| TextDiff::from_slices(&old_words, &new_words));
    match diff.filter(|diff| diff.ratio() >= RELATED) {
        None => {
            before.push(&old_text, true);
            after.push(&new_text, true);
        }
        Some(diff) => {
            for op in diff.ops() {
                let changed = !matches!(op, DiffOp::Equal { .. });
                before.push(&old_words[op.old_range()].concat(), changed);
                after.push(&new_words[op.new_range()].concat(), changed);
            }
        }
    }
    let (mut before, mut after) = (before.joined().into_iter(), after.joined().into_iter());
    let longer = old.len().max(new.len());
    std::iter::repeat_with(|| Row::Changed {
        before: before.next(),
        after: after.next(),
    })
    .take(longer)
    .collect()
}

/// Collects parts, a new line at each line feed.
struct LineParts {
    lines: Vec<Vec<Part>>,
}

impl Default for LineParts {
    fn default() -> LineParts {
        LineParts {
            lines: vec![Vec::new()],
        }
    }
}

impl LineParts {
    fn joined(self) -> Vec<Vec<Part>> {
        self.lines.into_iter().map(join_phrases).collect()
    }

    fn push(&mut self, text: &str, changed: bool) {
        for (position, piece) in text.split('\n').enumerate() {
            if position > 0 {
                self.lines.push(Vec::new());
            }
            let Some(line) = self.lines.last_mut().filter(|_| !piece.is_empty()) else {
                continue;
            };
            match line.last_mut().filter(|last| last.changed == changed) {
                Some(last) => last.text.push_str(piece),
                None => line.push(Part {
                    text: piece.to_owned(),
                    changed,
                }),
            }
        }
    }
}

/// Marks blanks between two marked parts too, so that a marked phrase is one part.
fn join_phrases(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        if let [.., phrase, blank] = joined.as_mut_slice()
            && part.changed
            && phrase.changed
            && blank
                .text
                .chars()
                .all(|character| matches!(character, ' ' | '\t'))
        {
            let rest = format!("{}{}", blank.text, part.text);
            phrase.text.push_str(&rest);
            joined.pop();
            continue;
        }
        joined.push(part);
    }
    joined
}

/// A text's words, runs of blanks, line feeds and single other characters, in order.
fn words(text: &str) -> Vec<&str> {
    #[derive(PartialEq, Eq, Clone, Copy)]
    enum Class {
        Word,
        Blank,
        Alone,
    }
    let class = |character: char| match character {
        ' ' | '\t' => Class::Blank,
        '_' => Class::Word,
        word if word.is_alphanumeric() => Class::Word,
        _ => Class::Alone,
    };
    let mut words = Vec::new();
    let mut start = 0;
    let mut running = Class::Alone;
    for (position, character) in text.char_indices() {
        let next = class(character);
        if position > start && (next != running || next == Class::Alone) {
            words.push(&text[start..position]);
            start = position;
        }
        running = next;
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

/// Leaves out equal lines that are far from every difference.
fn with_context(rows: Vec<Row>) -> Vec<Row> {
    let mut shown = Vec::with_capacity(rows.len());
    let mut same: Vec<Row> = Vec::new();
    let mut met_a_change = false;
    let flush = |shown: &mut Vec<Row>, same: &mut Vec<Row>, at_start: bool, at_end: bool| {
        let head = if at_start { 0 } else { CONTEXT };
        let tail = if at_end { 0 } else { CONTEXT };
        // A single line is no longer than the note in its place.
        if same.len() <= head + tail + 1 {
            shown.append(same);
            return;
        }
        let skipped = same.len() - head - tail;
        let rest = same.split_off(head + skipped);
        same.truncate(head);
        shown.append(same);
        shown.push(Row::Skipped(skipped));
        shown.extend(rest);
    };
    for row in rows {
        if matches!(row, Row::Same(_)) {
            same.push(row);
        } else {
            flush(&mut shown, &mut same, !met_a_change, false);
            met_a_change = true;
            shown.push(row);
        }
    }
    flush(&mut shown, &mut same, !met_a_change, true);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows as text: `=` same, `-`/`+` sides, `[…]` marked parts, `…n` skipped.
    fn shown(rows: &[Row]) -> String {
        let line = |mark: char, parts: &[Part]| {
            let parts: String = parts
                .iter()
                .map(|part| {
                    if part.changed {
                        format!("[{}]", part.text)
                    } else {
                        part.text.clone()
                    }
                })
                .collect();
            format!("{mark} {parts}\n")
        };
        rows.iter()
            .map(|row| match row {
                Row::Same(text) => format!("= {text}\n"),
                Row::Skipped(lines) => format!("…{lines}\n"),
                Row::Changed { before, after } => {
                    let before = before.as_deref().map(|parts| line('-', parts));
                    let after = after.as_deref().map(|parts| line('+', parts));
                    before.unwrap_or_default() + &after.unwrap_or_default()
                }
            })
            .collect()
    }

    fn check(before: &str, after: &str) -> String {
        shown(&compare(before, after).unwrap())
    }

    /// One side, put together again.
    fn side(rows: &[Row], after: bool) -> Vec<String> {
        rows.iter()
            .filter_map(|row| match row {
                Row::Same(text) => Some(text.clone()),
                Row::Skipped(_) => panic!("nothing is skipped here"),
                Row::Changed {
                    before: old,
                    after: new,
                } => {
                    let parts = if after { new } else { old };
                    parts
                        .as_ref()
                        .map(|parts| parts.iter().map(|part| part.text.as_str()).collect())
                }
            })
            .collect()
    }

    #[test]
    fn a_changed_word_is_marked_within_its_line() {
        insta::assert_snapshot!(check("Reads a file.", "Reads a whole file!"), @r#"
        - Reads a file[.]
        + Reads a [whole ]file[!]
        "#);
    }

    #[test]
    fn a_line_that_was_added_stands_alone() {
        insta::assert_snapshot!(check("{\n  \"a\": 1\n}", "{\n  \"a\": 1,\n  \"b\": 2\n}"), @r#"
        = {
        -   "a": 1
        +   "a": 1[,]
        + [  "b": 2]
        = }
        "#);
    }

    #[test]
    fn a_rewritten_line_is_marked_whole() {
        insta::assert_snapshot!(check("Deletes everything", "lorem ipsum dolor sit amet"), @r#"
        - [Deletes everything]
        + [lorem ipsum dolor sit amet]
        "#);
    }

    #[test]
    fn nothing_before_means_that_all_is_new() {
        insta::assert_snapshot!(check("", "a\nb"), @r#"
        + [a]
        + [b]
        "#);
    }

    #[test]
    fn equal_lines_far_from_a_change_are_counted() {
        let before: Vec<String> = (0..20).map(|line| format!("line {line}")).collect();
        let mut after = before.clone();
        after[10] = "line ten".to_owned();
        insta::assert_snapshot!(check(&before.join("\n"), &after.join("\n")), @r#"
        …7
        = line 7
        = line 8
        = line 9
        - line [10]
        + line [ten]
        = line 11
        = line 12
        = line 13
        …6
        "#);
    }

    #[test]
    fn a_text_past_the_limits_is_not_compared() {
        let long = "x".repeat(MAX_BYTES + 1);
        assert_eq!(compare(&long, ""), Err(TooLong));
        assert_eq!(compare("", &"\n".repeat(MAX_LINES)), Err(TooLong));
    }

    #[test]
    fn a_block_of_too_many_words_is_marked_by_lines() {
        let words = |last: &str| format!("{}{last}", "a ".repeat(MAX_WORDS));
        let rows = compare(&words("x"), &words("y")).unwrap();
        let [
            Row::Changed {
                before: Some(parts), ..
            },
        ] = rows.as_slice()
        else {
            panic!("one line on each side")
        };
        assert_eq!(parts.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn both_sides_come_back_whole(before in "([a-c ]{0,3}\n){0,4}[a-c]{1,3}", after in "([a-c ]{0,3}\n){0,4}[a-c]{1,3}") {
            let rows = compare(&before, &after).unwrap();
            proptest::prop_assume!(!rows.iter().any(|row| matches!(row, Row::Skipped(_))));
            proptest::prop_assert_eq!(side(&rows, false).join("\n"), before);
            proptest::prop_assert_eq!(side(&rows, true).join("\n"), after);
        }
    }
}
