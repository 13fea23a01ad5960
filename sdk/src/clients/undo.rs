//! How the gate is taken away from an entry: each edit that put it there has its counterpart, found again by the names of
//! the members, so that a file which its host wrote anew is no obstacle.
//!
//! Invariant: in a file that is as we left it, the result is the original text.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::document::{Document, Layout, Node};
use super::text::{Edit, element_start, line_start_of};

/// How one edit is taken back. Names are those of the wired entry, from the entry on; texts are as they stood in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Undo {
    /// The value at this place was written so.
    Value { at: Vec<String>, was: String },
    /// The list at this place began behind our `--` and these words.
    Front {
        at: Vec<String>,
        words: Vec<String>,
        /// What it was if it held nothing.
        empty: Option<String>,
    },
    /// The list at this place, which ends with our `--` and these words, was not there.
    Added { at: Vec<String>, words: Vec<String> },
    /// The members from the first name to the last, which follow each other, stand for this one.
    Members {
        first: String,
        last: String,
        was: String,
    },
    /// The member of this name was called so.
    Name {
        within: Vec<String>,
        now: String,
        was: String,
    },
}

/// Takes the gate away from an entry. An error says what is not as we left it.
pub(super) fn unwire(document: &Document, entry: &Node, undo: &[Undo]) -> Result<Vec<Edit>, String> {
    let mut edits = Vec::new();
    for undo in undo {
        take_back(document, entry, undo, &mut edits)?;
    }
    Ok(edits)
}

fn take_back(document: &Document, entry: &Node, undo: &Undo, edits: &mut Vec<Edit>) -> Result<(), String> {
    let missing = |name: &str| format!("its `{name}` is gone");
    let at_place = |at: &[String]| entry.at(at).ok_or_else(|| missing(&at.join(".")));
    let mut replace = |span: Range<usize>, text: &str| {
        edits.push(Edit {
            span,
            text: text.to_owned(),
        });
    };
    match undo {
        Undo::Value { at, was } => replace(at_place(at)?.span.clone(), was),
        Undo::Front { at, words, empty } => {
            let list = at_place(at)?;
            let (span, text) = without_front(document, list, words, empty.as_deref())?;
            replace(span, text);
        }
        Undo::Added { at, words } => {
            let list = at_place(at)?;
            let has_more = list.elements().map_or(0, <[Node]>::len) > our_part(list, words)?;
            let span = if has_more {
                without_front(document, list, words, None)?.0
            } else {
                span_with_separator(document, entry, at)?
            };
            replace(span, "");
        }
        Undo::Members { first, last, was } => {
            let place = |name: &str| {
                let members = entry.members().unwrap_or_default();
                let found = members.iter().enumerate().find(|(_, member)| member.name == name);
                found.ok_or_else(|| missing(name))
            };
            let ((start, first), (end, last)) = (place(first)?, place(last)?);
            if end == start || end == start + 1 {
                replace(first.name_span.start..last.value.span.end, was);
            } else {
                // Whoever wrote the file anew ordered them otherwise.
                replace(first.name_span.start..first.value.span.end, was);
                replace(
                    span_with_separator(document, entry, std::slice::from_ref(&last.name))?,
                    "",
                );
            }
        }
        Undo::Name { within, now, was } => {
            let member = at_place(within)?.member(now).ok_or_else(|| missing(now))?;
            replace(member.name_span.clone(), was);
        }
    }
    Ok(())
}

/// What goes of a list so that our part is gone from it, and what stands there instead.
fn without_front<'a>(
    document: &Document,
    list: &Node,
    words: &[String],
    empty: Option<&'a str>,
) -> Result<(Range<usize>, &'a str), String> {
    let count = our_part(list, words)?;
    let elements = list.elements().unwrap_or_default();
    let (Some(first), Some(last)) = (elements.first(), elements.last()) else {
        return Err("its arguments are gone".to_owned());
    };
    match (elements.get(count), empty) {
        (Some(next), _) => {
            let start = |element| element_start(document, list.layout(), element);
            Ok((start(first)..start(next), ""))
        }
        (None, Some(empty)) => Ok((list.span.clone(), empty)),
        (None, None) if list.layout() == Layout::Flow => Ok((first.span.start..last.span.end, "")),
        (None, None) => Err("its arguments are gone".to_owned()),
    }
}

/// How many elements of the list are ours: all to the `--`, and the words behind it that were the command.
fn our_part(list: &Node, words: &[String]) -> Result<usize, String> {
    let elements = list.elements().ok_or("its arguments are no list any more")?;
    let text = |index: usize| elements.get(index).and_then(Node::text);
    let end = (0..elements.len())
        .find(|index| text(*index) == Some("--"))
        .ok_or("there is no `--` among its arguments any more")?;
    let is_original = words
        .iter()
        .enumerate()
        .all(|(index, word)| text(end + 1 + index) == Some(word));
    if is_original {
        Ok(end + 1 + words.len())
    } else {
        Err("the command behind its `--` is another one than it was".to_owned())
    }
}

/// A member with what parts it from the one before it.
fn span_with_separator(document: &Document, entry: &Node, at: &[String]) -> Result<Range<usize>, String> {
    let gone = "its arguments are gone";
    let (name, within) = at.split_last().ok_or(gone)?;
    let map = entry.at(within).ok_or(gone)?;
    let members = map.members().unwrap_or_default();
    let index = members
        .iter()
        .position(|member| member.name == *name)
        .ok_or(gone)?;
    let member = members.get(index).ok_or(gone)?;
    let previous = index.checked_sub(1).and_then(|index| members.get(index));
    let (start, end) = match (map.layout(), previous) {
        (Layout::Block, _) => {
            let indent = line_start_of(document, member.name_span.start)
                .ok_or("its arguments stand on the line of a list's dash")?;
            let before = document.slice(&(0..member.name_span.start - indent.len()));
            let before = before.strip_suffix('\n').unwrap_or(before);
            let before = before.strip_suffix('\r').unwrap_or(before);
            (before.len(), member.value.span.end)
        }
        (Layout::Flow, Some(previous)) => (previous.value.span.end, member.value.span.end),
        (Layout::Flow, None) => {
            let next = members.get(index + 1);
            let end = next.map_or(member.value.span.end, |next| next.name_span.start);
            (member.name_span.start, end)
        }
    };
    Ok(start..end)
}
