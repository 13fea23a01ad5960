//! A configuration's text as it may be shown: the lines stay where they are, and every value that may be a credential is
//! replaced by `…`.
//!
//! Invariant: of all texts in the file only launch lines, addresses, types and names are shown, and of these only what does not look
//! like a credential. A comment that looks like one is left out too.

use std::ops::Range;

use super::document::{Document, Kind, Node};
use super::entry::{
    KIND_NAMES, Launch, SECRET, URL_NAMES, behind_the_gate, launch, looks_secret, sites, without_secrets,
};
use super::text::{Edit, apply};

/// See the module.
pub(super) fn shown(document: &Document) -> String {
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut masks: Vec<Edit> = Vec::new();
    for site in sites(document).unwrap_or_default() {
        keep_entry(site.node, &mut kept, &mut masks);
    }
    if let Some(root) = &document.root {
        mask(root, &kept, &mut masks);
    }
    mask_comments(document, &mut masks);
    apply(&document.text, masks)
}

/// What of an entry is shown.
fn keep_entry(entry: &Node, kept: &mut Vec<Range<usize>>, masks: &mut Vec<Edit>) {
    let mut keep = |node: &Node| {
        kept.push(node.span.clone());
        if node.text().is_some_and(looks_secret) {
            masks.push(masked(node));
        }
    };
    for name in ["command", "cmd", "name", "env_vars", "bearer_token_env_var"]
        .iter()
        .chain(&URL_NAMES)
        .chain(&KIND_NAMES)
    {
        if let Some(node) = entry.get(name) {
            keep(node);
        }
    }
    let is_wired = match launch(entry) {
        Launch::Command(argv) => behind_the_gate(&argv).is_some(),
        _ => false,
    };
    let nested = entry.get("command").filter(|command| command.is_map());
    for name in ["path", "args"] {
        if let Some(node) = nested.and_then(|command| command.get(name)) {
            keep(node);
        }
    }
    let lists = [
        entry.get("args"),
        entry.get("command"),
        nested.and_then(|command| command.get("args")),
    ];
    for list in lists.into_iter().flatten() {
        let Some(elements) = list.elements() else {
            continue;
        };
        kept.push(list.span.clone());
        // Our own words before the `--` are no credentials, whatever a header is called.
        let ours = elements
            .iter()
            .position(|element| element.text() == Some("--"))
            .map(|end| end + 1)
            .or(Some(elements.len()))
            .filter(|_| is_wired)
            .unwrap_or(0);
        let rest = elements.get(ours..).unwrap_or_default();
        let texts: Vec<String> = rest
            .iter()
            .map(|element| element.text().unwrap_or_default().to_owned())
            .collect();
        for (element, shown) in rest.iter().zip(without_secrets(&texts)) {
            if element.text().is_some_and(|text| text != shown) {
                masks.push(masked(element));
            }
        }
    }
}

/// Masks every text that is not in a kept span.
fn mask(node: &Node, kept: &[Range<usize>], masks: &mut Vec<Edit>) {
    if kept.contains(&node.span) && !node.is_map() {
        return;
    }
    match &node.kind {
        Kind::Text(text) if !text.is_empty() => masks.push(masked(node)),
        Kind::Text(_) | Kind::Bool(_) | Kind::Other => {}
        Kind::List(_, elements) => elements.iter().for_each(|element| mask(element, kept, masks)),
        Kind::Map(_, members) => members.iter().for_each(|member| mask(&member.value, kept, masks)),
    }
}

fn masked(node: &Node) -> Edit {
    Edit {
        span: node.span.clone(),
        text: "\"…\"".to_owned(),
    }
}

/// Masks what looks like a credential between the names and values: in comments.
fn mask_comments(document: &Document, masks: &mut Vec<Edit>) {
    let mut written = Vec::new();
    if let Some(root) = &document.root {
        scalars(root, &mut written);
    }
    written.sort_by_key(|span| span.start);
    let mut between = 0;
    for span in written
        .iter()
        .chain([&(document.text.len()..document.text.len())])
    {
        let mut start = between;
        for piece in document.slice(&(between..span.start)).split_inclusive('\n') {
            let marks = ["//", "/*", "#"].iter().filter_map(|mark| piece.find(mark));
            let shift = marks.min().unwrap_or(0);
            let comment = piece[shift..].trim_end();
            if looks_secret(comment) {
                masks.push(Edit {
                    span: start + shift..start + shift + comment.len(),
                    text: SECRET.to_owned(),
                });
            }
            start += piece.len();
        }
        between = between.max(span.end);
    }
}

/// The places of all names and of all values that are no lists or maps.
fn scalars(node: &Node, found: &mut Vec<Range<usize>>) {
    match &node.kind {
        Kind::Text(_) | Kind::Bool(_) | Kind::Other => found.push(node.span.clone()),
        Kind::List(_, elements) => elements.iter().for_each(|element| scalars(element, found)),
        Kind::Map(_, members) => {
            for member in members {
                found.push(member.name_span.clone());
                scalars(&member.value, found);
            }
        }
    }
}
