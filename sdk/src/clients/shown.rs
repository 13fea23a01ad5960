//! A configuration's text as it may be shown: the lines stay where they are, and every value that may be a credential is
//! replaced by `…`.
//!
//! Invariant: of all texts in the file only launch lines, addresses, types and names are shown, and of these only what does not look
//! like a credential. A line without such a text (a comment) that looks like one is left out too.

use std::ops::Range;

use super::document::{Document, Kind, Node};
use super::edit::{Edit, apply};
use super::entry::Launch;
use super::entry::{
    KIND_NAMES, SECRET, URL_NAMES, behind_the_gate, launch, looks_secret, sites, without_secrets,
};

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
    let text = apply(&document.text, masks);
    text.split_inclusive('\n')
        .map(without_credential_in_comment)
        .collect()
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

fn without_credential_in_comment(line: &str) -> String {
    let comment = ["//", "#", "/*"].iter().filter_map(|mark| line.find(mark)).min();
    match comment {
        Some(start) if looks_secret(&line[start..]) => {
            let end = &line[line.trim_end_matches(['\r', '\n']).len()..];
            format!("{}{SECRET}{end}", &line[..start])
        }
        _ => line.to_owned(),
    }
}
