//! Replacements in a configuration's text, and how new names, values and lists are written into it: in its own style, with
//! its own line ends.
//!
//! Invariant: what is written reads back as the same text in JSON, TOML and YAML.

use std::ops::Range;

use super::document::{Document, Format, Layout, Member, Node};

/// One replacement in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) text: String,
}

/// The text with all edits made. They don't overlap.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.span.start);
    let mut result = String::with_capacity(text.len() + 256);
    let mut done = 0;
    for edit in edits {
        result.push_str(text.get(done..edit.span.start).unwrap_or_default());
        result.push_str(&edit.text);
        done = edit.span.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    result
}

/// A text in double quotes, written so that JSON, TOML and YAML all read it back.
pub(super) fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.chars()
        .map(|character| match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                format!("\\u{:04x}", u32::from(character))
            }
            _ => character.to_string(),
        })
        .collect()
}

pub(super) fn bare_or_quoted(format: Format, name: &str) -> String {
    match format {
        Format::Json => quoted(name),
        Format::Toml | Format::Yaml => name.to_owned(),
    }
}

pub(super) fn name_of(format: Format, name: &str) -> String {
    match format {
        Format::Json => format!("{}: ", quoted(name)),
        Format::Toml => format!("{name} = "),
        Format::Yaml => format!("{name}: "),
    }
}

pub(super) fn flow_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// The words as the first elements of a list, in the list's own style.
pub(super) fn put_in_front(document: &Document, list: &Node, words: &[String]) -> Edit {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let elements = list.elements().unwrap_or_default();
    let Some(first) = elements.first() else {
        let inside = list.span.start + 1;
        return Edit {
            span: inside..inside,
            text: words.join(", "),
        };
    };
    let start = element_start(document, list.layout(), first);
    let text = match (list.layout(), line_start_of(document, start)) {
        (Layout::Block, _) => {
            let next = format!("{}- ", new_line_with(document, column_indent(document, start)));
            format!("- {}{}", words.join(&next), next.trim_end_matches("- "))
        }
        (Layout::Flow, Some(indent)) => {
            let next = format!(",{}", new_line_with(document, indent.to_owned()));
            format!("{}{next}", words.join(&next))
        }
        (Layout::Flow, None) => format!("{}, ", words.join(", ")),
    };
    Edit {
        span: start..start,
        text,
    }
}

/// Where an element begins: in a block, at its dash.
pub(super) fn element_start(document: &Document, layout: Layout, element: &Node) -> usize {
    match layout {
        Layout::Flow => element.span.start,
        Layout::Block => document
            .slice(&(0..element.span.start))
            .rfind('-')
            .unwrap_or(element.span.start),
    }
}

/// A further member right behind `before`, which stands in `map`.
pub(super) fn put_behind(document: &Document, map: &Node, before: &Member, text: &str) -> Edit {
    let separator = separator(document, map.layout(), before.name_span.start);
    let at = match map.layout() {
        Layout::Flow => before.value.span.end,
        // A comment may stand behind the value.
        Layout::Block => line_end(document, before.value.span.end),
    };
    Edit {
        span: at..at,
        text: format!("{separator}{text}"),
    }
}

/// What stands between two members of a map, the first of which begins at `start`.
pub(super) fn separator(document: &Document, layout: Layout, start: usize) -> String {
    match (layout, line_start_of(document, start)) {
        (Layout::Block, Some(indent)) => new_line_with(document, indent.to_owned()),
        (Layout::Block, None) => new_line_with(document, column_indent(document, start)),
        (Layout::Flow, Some(indent)) => format!(",{}", new_line_with(document, indent.to_owned())),
        (Layout::Flow, None) => ", ".to_owned(),
    }
}

/// The white space before `offset` if there is nothing else on its line.
pub(super) fn line_start_of(document: &Document, offset: usize) -> Option<&str> {
    let before = document.slice(&(0..offset));
    let start = before.rfind('\n')? + 1;
    let indent = &before[start..];
    indent
        .chars()
        .all(|character| character == ' ' || character == '\t')
        .then_some(indent)
}

/// As many spaces as there are characters before `offset` on its line.
fn column_indent(document: &Document, offset: usize) -> String {
    let (_, column) = document.position(offset);
    " ".repeat(column - 1)
}

/// A line end as the file has them, and the indent of the next line.
fn new_line_with(document: &Document, indent: String) -> String {
    let end = match document.text.find('\n') {
        Some(index) if document.text[..index].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    format!("{end}{indent}")
}

fn line_end(document: &Document, offset: usize) -> usize {
    let after = document.text.get(offset..).unwrap_or_default();
    let length = after.find('\n').unwrap_or(after.len());
    let line = &after[..length];
    offset + line.strip_suffix('\r').unwrap_or(line).len()
}
