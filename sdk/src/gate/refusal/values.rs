//! What of a server's values can be told to an agent: the part that differs, and nothing that carries a marker.
//!
//! Invariant: a text with a marker is told by its length alone, a pointer down to where a name in it carries one.

use mcpindex_contract::change::Change;
use mcpindex_contract::markers;

use super::{VALUE, quoted};
use crate::gate::hold::Hold;
use crate::visible::visible_within;

/// Characters of what is the same, before a difference.
const CONTEXT: usize = 24;

/// What is told of one change's values.
pub(super) struct Told {
    pub(super) before: Value,
    pub(super) after: Value,
    pub(super) witness: Value,
}

/// What is told of one value that a server wrote.
pub(super) enum Value {
    Nothing,
    Text(String),
    /// It carries a marker; so many characters.
    Marked(usize),
}

impl Told {
    pub(super) fn of(change: &Change, hold: &Hold) -> Told {
        let (before, after) = excerpts(change.before.as_deref(), change.after.as_deref());
        let is_marked = hold.markers.iter().any(|marker| {
            let (place, marked) = (change.pointer.as_str(), marker.pointer.as_str());
            marked.starts_with(place) || place.starts_with(marked)
        });
        let value = |excerpt: Option<String>, whole: &Option<String>, is_marked: bool| match excerpt {
            None => Value::Nothing,
            Some(text) if is_marked || carries_marker(&text) => {
                Value::Marked(whole.as_deref().map_or(0, |whole| whole.chars().count()))
            }
            Some(text) => Value::Text(text),
        };
        Told {
            before: value(before, &change.before, false),
            after: value(after, &change.after, is_marked),
            witness: value(change.witness.clone(), &change.witness, false),
        }
    }
}

impl Value {
    pub(super) fn line(&self) -> String {
        match self {
            Value::Nothing => "nothing".to_owned(),
            Value::Text(text) => quoted(text, VALUE),
            Value::Marked(characters) => {
                format!("{characters} characters that carry a marker, not repeated here")
            }
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(visible_within(text, VALUE)),
            Value::Nothing | Value::Marked(_) => None,
        }
    }
}

fn carries_marker(text: &str) -> bool {
    !markers::scan_text(text).markers.is_empty()
}

/// A pointer, down to where a name in it carries a marker.
pub(super) fn tellable(pointer: &str) -> String {
    if !carries_marker(pointer) {
        return pointer.to_owned();
    }
    // As the protocol spells them; whatever comes below may be the server's own words.
    let known = [
        "/inputSchema",
        "/outputSchema",
        "/annotations",
        "/_meta",
        "/execution",
        "/icons",
    ];
    let known = known.into_iter().find(|known| pointer.starts_with(known));
    format!("{}/…", known.unwrap_or_default())
}

/// Both sides from shortly before the place where they begin to differ.
fn excerpts(before: Option<&str>, after: Option<&str>) -> (Option<String>, Option<String>) {
    let (Some(before), Some(after)) = (before, after) else {
        return (before.map(on_one_line), after.map(on_one_line));
    };
    let (mut old, mut new) = (on_one_line(before), on_one_line(after));
    if old == new {
        // Only line breaks and blanks differ: they are the news.
        (old, new) = (before.to_owned(), after.to_owned());
    }
    let same = old
        .chars()
        .zip(new.chars())
        .take_while(|(left, right)| left == right)
        .count();
    let cut = |text: &str| {
        let skipped = same.saturating_sub(CONTEXT);
        match skipped {
            0 => text.to_owned(),
            _ => format!("…{}", text.chars().skip(skipped).collect::<String>()),
        }
    };
    // A text that is shown to its end anyway needs no cut at its beginning.
    match old.chars().count().max(new.chars().count()) <= VALUE {
        true => (Some(old), Some(new)),
        false => (Some(cut(&old)), Some(cut(&new))),
    }
}

/// Line breaks with the blanks around them as one blank.
fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    for (position, piece) in text.split('\n').enumerate() {
        if position > 0 {
            line.truncate(line.trim_end_matches([' ', '\t', '\r']).len());
            line.push(' ');
            line.push_str(piece.trim_start_matches([' ', '\t']));
        } else {
            line.push_str(piece);
        }
    }
    line
}
