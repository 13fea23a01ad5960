//! Two texts as lines of a terminal: side by side where there is room, one under the other where there is not.
//!
//! Invariant: a server's words stand behind a bar, and no line is wider than the terminal; what is left out is counted.

use mcpindex::text_diff::{Part, Row, compare};
use mcpindex::visible::visible;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::super::output::Style;

/// Parts of one line, each with its look.
pub(super) type Line = Vec<(Style, String)>;

/// From this width on two columns can be read.
const SIDE_BY_SIDE: usize = 88;
/// The width where no terminal says one.
const NO_TERMINAL: usize = 100;
/// Wider columns are harder to read, not easier.
const WIDEST: usize = 180;
/// The most lines of one text, and of one that is only noted.
const LINES: usize = 40;
const BRIEF: usize = 6;
/// Characters of a long stretch that both sides have, shown beside a difference.
const AROUND: usize = 60;

/// How texts are laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    width: usize,
    is_side_by_side: bool,
    has_colour: bool,
    /// The most lines of one text; `usize::MAX` for all.
    lines: usize,
    /// Whether long stretches that both sides have are shortened.
    is_shortened: bool,
}

impl Layout {
    /// For a terminal of this width; `None`: there is no terminal.
    pub(super) fn new(width: Option<usize>, has_colour: bool) -> Layout {
        let columns = width.unwrap_or(NO_TERMINAL).clamp(24, WIDEST);
        Layout {
            width: columns,
            is_side_by_side: width.is_some() && columns >= SIDE_BY_SIDE,
            has_colour,
            lines: LINES,
            is_shortened: true,
        }
    }

    /// The same without leaving anything out.
    pub(super) fn whole(self) -> Layout {
        Layout {
            lines: usize::MAX,
            is_shortened: false,
            ..self
        }
    }

    /// For what is only noted: a glance, unless everything is asked for.
    pub(super) fn brief(self) -> Layout {
        Layout {
            lines: match self.is_shortened {
                true => BRIEF,
                false => self.lines,
            },
            ..self
        }
    }

    /// What differs between two texts.
    pub(super) fn difference(self, before: &str, after: &str) -> Vec<Line> {
        let Ok(rows) = compare(before, after) else {
            let sizes = format!("{} and {} bytes", before.len(), after.len());
            return vec![vec![(
                Style::Faint,
                format!("  too long to be compared here ({sizes}): `mcpindex review --json` has both whole"),
            )]];
        };
        let lines = match self.is_side_by_side && !before.is_empty() && !after.is_empty() {
            true => self.side_by_side(&rows),
            false => self.one_under_the_other(&rows),
        };
        self.bounded(lines)
    }

    /// One text behind a bar.
    pub(super) fn text(self, text: &str) -> Vec<Line> {
        let column = self.width.saturating_sub(4);
        let lines = text
            .split('\n')
            .flat_map(|line| wrap(&[(Style::Plain, visible(line))], column))
            .map(|line| behind_bar("  │ ", line));
        self.bounded(lines.collect())
    }

    /// Prose of ours or a list of names, indented and wrapped.
    pub(super) fn prose(self, style: Style, indent: usize, text: &str) -> Vec<Line> {
        let column = self.width.saturating_sub(indent);
        wrap(&[(style, visible(text))], column)
            .into_iter()
            .map(|line| behind_bar(&" ".repeat(indent), line))
            .collect()
    }

    /// Whether `more` fits on the last of these lines, two blanks apart.
    pub(super) fn has_room(self, lines: &[Line], more: &str) -> bool {
        let last = lines.last().map_or(0, |line| width_of(line));
        last + 2 + visible(more).width() <= self.width
    }

    fn bounded(self, mut lines: Vec<Line>) -> Vec<Line> {
        let rest = lines.len().saturating_sub(self.lines);
        if rest > 1 {
            lines.truncate(self.lines);
            lines.push(vec![(
                Style::Faint,
                format!("  … {rest} lines more: d shows them"),
            )]);
        }
        lines
    }

    fn side_by_side(self, rows: &[Row]) -> Vec<Line> {
        // `  │ left │ right`
        let column = (self.width - 7) / 2;
        let mut lines = Vec::new();
        for row in rows {
            let (left, right) = match row {
                Row::Same(text) => {
                    let text = vec![(Style::Faint, visible(&self.shortened(text, Place::Between)))];
                    (text.clone(), text)
                }
                Row::Changed { before, after } => (
                    self.cell(before.as_deref(), Style::Removed),
                    self.cell(after.as_deref(), Style::Added),
                ),
                Row::Skipped(skipped) => {
                    lines.push(behind_bar("  │ ", skipped_line(*skipped)));
                    continue;
                }
            };
            let (left, right) = (wrap(&left, column), wrap(&right, column));
            for index in 0..left.len().max(right.len()) {
                let mut line = behind_bar("  │ ", left.get(index).cloned().unwrap_or_default());
                let used = width_of(&line);
                line.push((
                    Style::Faint,
                    format!("{} │ ", " ".repeat((column + 4).saturating_sub(used))),
                ));
                line.extend(right.get(index).cloned().unwrap_or_default());
                lines.push(line);
            }
        }
        lines
    }

    fn one_under_the_other(self, rows: &[Row]) -> Vec<Line> {
        let column = self.width.saturating_sub(6);
        let mut lines = Vec::new();
        let mut add = |sign: &str, style: Style, cell: Line| {
            for (index, line) in wrap(&cell, column).into_iter().enumerate() {
                let sign = if index == 0 { sign } else { " " };
                let mut shown = vec![(Style::Faint, "  │ ".to_owned()), (style, format!("{sign} "))];
                shown.extend(line);
                lines.push(shown);
            }
        };
        // The lines that went before the lines that came, as far as they stand together.
        let mut came: Vec<Line> = Vec::new();
        for row in rows {
            if !matches!(row, Row::Changed { .. }) {
                came.drain(..).for_each(|cell| add("+", Style::Added, cell));
            }
            match row {
                Row::Same(text) => {
                    let text = visible(&self.shortened(text, Place::Between));
                    add(" ", Style::Faint, vec![(Style::Faint, text)]);
                }
                Row::Changed { before, after } => {
                    if before.is_some() {
                        add("-", Style::Removed, self.cell(before.as_deref(), Style::Removed));
                    }
                    came.extend(after.as_ref().map(|after| self.cell(Some(after), Style::Added)));
                }
                Row::Skipped(skipped) => add(" ", Style::Faint, skipped_line(*skipped)),
            }
        }
        came.drain(..).for_each(|cell| add("+", Style::Added, cell));
        lines
    }

    /// One side of a changed line; without colour what the other side lacks stands between marks.
    fn cell(self, parts: Option<&[Part]>, style: Style) -> Line {
        let parts = parts.unwrap_or_default();
        let is_whole = parts
            .iter()
            .all(|part| part.changed || part.text.trim().is_empty());
        let last = parts.len().saturating_sub(1);
        let mut cell = Line::new();
        for (index, part) in parts.iter().enumerate() {
            if !part.changed {
                let place = match index {
                    0 if last == 0 => Place::Between,
                    0 => Place::First,
                    index if index == last => Place::Last,
                    _ => Place::Between,
                };
                cell.push((Style::Plain, visible(&self.shortened(&part.text, place))));
                continue;
            }
            let (open, close) = match style {
                _ if self.has_colour || is_whole => ("", ""),
                Style::Removed => ("[-", "-]"),
                _ => ("{+", "+}"),
            };
            cell.push((style, format!("{open}{}{close}", visible(&part.text))));
        }
        cell
    }

    /// A stretch that both sides have, without its middle (or the side that is away from the difference).
    fn shortened(self, text: &str, place: Place) -> String {
        let characters: Vec<char> = text.chars().collect();
        let (head, tail) = match place {
            Place::First => (0, AROUND),
            Place::Last => (AROUND, 0),
            Place::Between => (AROUND, AROUND),
        };
        if !self.is_shortened || characters.len() <= head + tail + AROUND {
            return text.to_owned();
        }
        let start: String = characters[..head].iter().collect();
        let end: String = characters[characters.len() - tail..].iter().collect();
        let left_out = characters.len() - head - tail;
        format!("{start} […{left_out} characters the same…] {end}")
            .trim()
            .to_owned()
    }
}

/// Where in its line a stretch stands.
#[derive(Clone, Copy)]
enum Place {
    First,
    Between,
    Last,
}

fn skipped_line(lines: usize) -> Line {
    let plural = if lines == 1 { "" } else { "s" };
    vec![(Style::Faint, format!("… {lines} line{plural} the same"))]
}

fn behind_bar(bar: &str, line: Line) -> Line {
    let mut shown = vec![(Style::Faint, bar.to_owned())];
    shown.extend(line);
    shown
}

fn width_of(line: &[(Style, String)]) -> usize {
    clusters(line).iter().map(|cluster| cluster.width).sum()
}

/// What is shown as one sign: a character with what belongs to it, such as a selector that makes it wider. It may have come
/// from parts of two looks and takes the first one's.
struct Cluster {
    style: Style,
    text: String,
    /// In columns. A line is never wider than the sum of these.
    width: usize,
}

impl Cluster {
    fn is_blank(&self) -> bool {
        self.text == " "
    }
}

fn clusters(line: &[(Style, String)]) -> Vec<Cluster> {
    let whole: String = line.iter().map(|(_, text)| text.as_str()).collect();
    let mut styles = line.iter().flat_map(|(style, text)| text.chars().map(|_| *style));
    whole
        .graphemes(true)
        .map(|text| {
            let style = styles.next().unwrap_or(Style::Plain);
            styles.by_ref().take(text.chars().count() - 1).for_each(drop);
            Cluster {
                style,
                text: text.to_owned(),
                width: text.width(),
            }
        })
        .collect()
}

/// Breaks a line into ones of at most `column` columns, at a blank where one is near. Never empty.
fn wrap(line: &[(Style, String)], column: usize) -> Vec<Line> {
    let column = column.max(8);
    let clusters = clusters(line);
    let mut lines = Vec::new();
    let mut rest = clusters.as_slice();
    loop {
        let mut used = 0;
        let fits = rest
            .iter()
            .take_while(|cluster| {
                used += cluster.width;
                used <= column
            })
            .count();
        if fits == rest.len() {
            lines.push(joined(rest));
            return lines;
        }
        // A sign wider than the column gets a line of its own.
        let fits = fits.max(1);
        let blank = rest[..fits].iter().rposition(Cluster::is_blank);
        let end = match blank {
            _ if rest.get(fits).is_some_and(Cluster::is_blank) => fits,
            Some(blank) if blank > fits / 2 => blank + 1,
            _ => fits,
        };
        let shown = rest[..end].iter().rposition(|cluster| !cluster.is_blank());
        lines.push(joined(&rest[..shown.map_or(end, |last| last + 1)]));
        rest = &rest[end..];
        if rest.first().is_some_and(Cluster::is_blank) {
            rest = &rest[1..];
        }
    }
}

/// Signs of the same look as one part.
fn joined(clusters: &[Cluster]) -> Line {
    let mut line = Line::new();
    for cluster in clusters {
        match line.last_mut().filter(|(last, _)| *last == cluster.style) {
            Some((_, text)) => text.push_str(&cluster.text),
            None => line.push((cluster.style, cluster.text.clone())),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[Line]) -> String {
        lines
            .iter()
            .map(|line| line.iter().map(|(_, text)| text.as_str()).collect::<String>() + "\n")
            .collect()
    }

    const BEFORE: &str = "Lists the pages of a space, newest first.\nAsks the person before it deletes.";
    const AFTER: &str =
        "Lists all pages of a space, newest first.\nAsks nobody before it deletes.\nSee also: read_page.";

    #[test]
    fn with_room_both_sides_stand_beside_each_other() {
        let layout = Layout::new(Some(96), false);
        insta::assert_snapshot!(shown(&layout.difference(BEFORE, AFTER)), @r#"
        │ Lists [-the-] pages of a space, newest       │ Lists {+all+} pages of a space, newest
        │ first.                                       │ first.
        │ Asks[- the person-] before it deletes.       │ Asks {+nobody+} before it deletes.
        │                                              │ See also: read_page.
        "#);
    }

    #[test]
    fn without_room_they_stand_under_each_other() {
        let layout = Layout::new(Some(44), false);
        insta::assert_snapshot!(shown(&layout.difference(BEFORE, AFTER)), @r#"
        │ - Lists [-the-] pages of a space, newest
        │   first.
        │ - Asks[- the person-] before it deletes.
        │ + Lists {+all+} pages of a space, newest
        │   first.
        │ + Asks {+nobody+} before it deletes.
        │ + See also: read_page.
        "#);
    }

    #[test]
    fn without_a_terminal_they_stand_under_each_other() {
        insta::assert_snapshot!(shown(&Layout::new(None, false).difference(BEFORE, AFTER)), @r#"
        │ - Lists [-the-] pages of a space, newest first.
        │ - Asks[- the person-] before it deletes.
        │ + Lists {+all+} pages of a space, newest first.
        │ + Asks {+nobody+} before it deletes.
        │ + See also: read_page.
        "#);
    }

    #[test]
    fn with_colour_there_are_no_marks() {
        let lines = Layout::new(Some(96), true).difference("one two", "one three");
        assert!(
            lines[0].contains(&(Style::Removed, "two".to_owned())),
            "{lines:?}"
        );
        assert!(
            lines[0].contains(&(Style::Added, "three".to_owned())),
            "{lines:?}"
        );
    }

    #[test]
    fn what_stays_the_same_for_long_is_counted() {
        let long = "word ".repeat(100);
        let layout = Layout::new(Some(60), false);
        let (before, after) = (format!("{long}ends here"), format!("{long}ends there"));
        insta::assert_snapshot!(shown(&layout.difference(&before, &after)), @r#"
        │ - […445 characters the same…] word word word word word
        │   word word word word word word ends[-here-]
        │ + […445 characters the same…] word word word word word
        │   word word word word word word ends{+there+}
        "#);
        assert!(!shown(&layout.whole().difference(&before, &after)).contains("the same"));
    }

    #[test]
    fn a_text_past_the_bound_is_counted_and_whole_on_demand() {
        let text = "line\n".repeat(100);
        let layout = Layout::new(Some(60), false);
        assert_eq!(layout.text(&text).len(), 41);
        assert_eq!(layout.whole().text(&text).len(), 101);
    }

    #[test]
    fn a_selector_that_makes_a_sign_wider_counts() {
        let line = [(Style::Plain, "🕯\u{fe0f}".repeat(8))];
        let lines = wrap(&line, 15);
        let widths: Vec<usize> = lines.iter().map(|line| width_of(line)).collect();
        assert_eq!(widths, [14, 2]);
    }

    #[test]
    fn a_selector_of_another_look_stays_with_its_sign() {
        let line = [
            (Style::Plain, "1234567🕯".to_owned()),
            (Style::Added, "\u{fe0f}ab".to_owned()),
        ];
        let lines = wrap(&line, 8);
        assert_eq!(shown(&lines), "1234567\n🕯\u{fe0f}ab\n");
        assert_eq!(lines[1][1], (Style::Added, "ab".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            before in "(\\PC|[ \n\u{202e}読🕯\u{fe0f}\u{200d}☁👩🇩]){0,200}",
            after in "(\\PC|[ \n\u{202e}読🕯\u{fe0f}\u{200d}☁👩🇩]){0,200}",
            width in 24usize..200,
        ) {
            let layout = Layout::new(Some(width), false);
            for line in layout.difference(&before, &after).iter().chain(&layout.text(&after)) {
                let text: String = line.iter().map(|(_, text)| text.as_str()).collect();
                // A fixed remark of ours may stand on a very narrow one.
                proptest::prop_assert!(text.width() <= width.max(44), "{text:?}");
                proptest::prop_assert!(!text.chars().any(mcpindex::visible::is_dangerous));
            }
        }
    }
}
