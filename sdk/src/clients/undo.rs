//! How the gate is taken away from an entry: each edit that put it there has its counterpart, found again by the names of
//! the members, so that a file which its host wrote anew is no obstacle.
//!
//! Invariant: in a file that is as we left it, the result is the original text.

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
    undo.iter().map(|undo| take_back(document, entry, undo)).collect()
}

fn take_back(document: &Document, entry: &Node, undo: &Undo) -> Result<Edit, String> {
    let missing = |name: &str| format!("its `{name}` is gone");
    match undo {
        Undo::Value { at, was } => {
            let value = entry.at(at).ok_or_else(|| missing(&at.join(".")))?;
            Ok(Edit {
                span: value.span.clone(),
                text: was.clone(),
            })
        }
        Undo::Front { at, words, empty } => {
            let list = entry.at(at).ok_or_else(|| missing(&at.join(".")))?;
            let count = our_part(list, words)?;
            let elements = list.elements().unwrap_or_default();
            let (Some(first), Some(last)) = (elements.first(), elements.last()) else {
                return Err(missing("args"));
            };
            match (elements.get(count), empty) {
                (Some(next), _) => Ok(Edit {
                    span: element_start(document, list.layout(), first)
                        ..element_start(document, list.layout(), next),
                    text: String::new(),
                }),
                (None, Some(empty)) => Ok(Edit {
                    span: list.span.clone(),
                    text: empty.clone(),
                }),
                (None, None) if list.layout() == Layout::Flow => Ok(Edit {
                    span: first.span.start..last.span.end,
                    text: String::new(),
                }),
                (None, None) => Err("its arguments are gone".to_owned()),
            }
        }
        Undo::Added { at, words } => {
            let list = entry.at(at).ok_or_else(|| missing(&at.join(".")))?;
            let count = our_part(list, words)?;
            if list.elements().is_some_and(|elements| elements.len() > count) {
                let at = at.clone();
                let words = words.clone();
                return take_back(
                    document,
                    entry,
                    &Undo::Front {
                        at,
                        words,
                        empty: None,
                    },
                );
            }
            remove_member(document, entry, at)
        }
        Undo::Members { first, last, was } => {
            let members = entry.members().unwrap_or_default();
            let at = |name: &str| members.iter().position(|member| member.name == name);
            let (Some(start), Some(end)) = (at(first), at(last)) else {
                return Err(missing(last));
            };
            let follows = end == start || end == start + 1;
            let (Some(first), Some(last)) = (members.get(start), members.get(end).filter(|_| follows)) else {
                return Err(format!("its `{last}` does not follow its `{first}` any more"));
            };
            Ok(Edit {
                span: first.name_span.start..last.value.span.end,
                text: was.clone(),
            })
        }
        Undo::Name { within, now, was } => {
            let member = entry
                .at(within)
                .and_then(|node| node.member(now))
                .ok_or_else(|| missing(now))?;
            Ok(Edit {
                span: member.name_span.clone(),
                text: was.clone(),
            })
        }
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

fn remove_member(document: &Document, entry: &Node, at: &[String]) -> Result<Edit, String> {
    let (name, within) = at.split_last().ok_or("its arguments are gone")?;
    let map = entry.at(within).ok_or("its arguments are gone")?;
    let members = map.members().unwrap_or_default();
    let index = members
        .iter()
        .position(|member| member.name == *name)
        .ok_or("its arguments are gone")?;
    let member = &members[index];
    let start = match map.layout() {
        Layout::Block => {
            let indent = line_start_of(document, member.name_span.start)
                .ok_or("its arguments stand first in a list's element")?;
            let before = document.slice(&(0..member.name_span.start - indent.len()));
            let before = before.strip_suffix('\n').unwrap_or(before);
            before.strip_suffix('\r').unwrap_or(before).len()
        }
        Layout::Flow => match index.checked_sub(1).and_then(|index| members.get(index)) {
            Some(previous) => previous.value.span.end,
            None => {
                let end = members
                    .get(index + 1)
                    .map_or(member.value.span.end, |next| next.name_span.start);
                return Ok(Edit {
                    span: member.name_span.start..end,
                    text: String::new(),
                });
            }
        },
    };
    Ok(Edit {
        span: start..member.value.span.end,
        text: String::new(),
    })
}
