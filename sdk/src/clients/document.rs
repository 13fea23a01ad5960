//! A configuration file as a tree in which every name and value knows where it stands in the text. One tree for JSON (with
//! comments and trailing commas), TOML and YAML, so that what is found and edited is told once.
//!
//! Invariant: the text between the spans is never looked at again, so comments, order, spaces and line ends survive any edit.

mod json;
mod toml;
mod yaml;

use std::ops::Range;
use std::path::Path;

/// How deep a file may nest.
const MAX_DEPTH: usize = 128;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, comments and trailing commas allowed.
    Json,
    /// TOML
    Toml,
    /// YAML
    Yaml,
}

/// Where in a file something is wrong, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) problem: String,
}

pub(super) struct Document {
    pub(super) format: Format,
    pub(super) text: String,
    /// `None` for a file without content.
    pub(super) root: Option<Node>,
}

pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
    /// What is written in a way that an edit can't keep: an alias, a tag, dotted names.
    pub(super) oddity: Option<&'static str>,
}

pub(super) enum Kind {
    Text(String),
    Bool(bool),
    /// A number, a date, nothing.
    Other,
    List(Layout, Vec<Node>),
    Map(Layout, Vec<Member>),
}

/// How the parts of a list or map follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In brackets, with commas.
    Flow,
    /// Each on a line of its own.
    Block,
}

pub(super) struct Member {
    pub(super) name: String,
    pub(super) name_span: Range<usize>,
    pub(super) value: Node,
}

impl Format {
    /// By the file's ending, else by its content.
    pub(super) fn of(path: &Path, text: &str) -> Format {
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("json" | "jsonc") => Format::Json,
            Some("toml") => Format::Toml,
            Some("yaml" | "yml") => Format::Yaml,
            _ if text.trim_start().starts_with(['{', '/']) => Format::Json,
            _ if toml::parse(text).is_ok() => Format::Toml,
            _ => Format::Yaml,
        }
    }
}

impl Document {
    pub(super) fn parse(format: Format, text: String) -> Result<Document, Fault> {
        let root = match format {
            Format::Json => json::parse(&text),
            Format::Toml => toml::parse(&text),
            Format::Yaml => yaml::parse(&text),
        }?;
        Ok(Document { format, text, root })
    }

    /// The text of a span; spans are of this document.
    pub(super) fn slice(&self, span: &Range<usize>) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// Line and column of an offset, both from 1, the column in characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        position(&self.text, offset)
    }
}

/// Line and column of an offset, both from 1, the column in characters.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

impl Node {
    fn new(span: Range<usize>, kind: Kind) -> Node {
        Node {
            span,
            kind,
            oddity: None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn members(&self) -> Option<&[Member]> {
        match &self.kind {
            Kind::Map(_, members) => Some(members),
            _ => None,
        }
    }

    pub(super) fn elements(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::List(_, elements) => Some(elements),
            _ => None,
        }
    }

    pub(super) fn layout(&self) -> Layout {
        match &self.kind {
            Kind::List(layout, _) | Kind::Map(layout, _) => *layout,
            _ => Layout::Flow,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        self.members().is_some()
    }

    /// The texts of a list that holds nothing else.
    pub(super) fn texts(&self) -> Option<Vec<String>> {
        self.elements()?
            .iter()
            .map(|element| element.text().map(str::to_owned))
            .collect()
    }

    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members()?.iter().find(|member| member.name == name)
    }

    /// The value of a map's member, or the map in a list whose `name` it is.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(..) => self.member(name).map(|member| &member.value),
            Kind::List(_, elements) => elements
                .iter()
                .find(|element| element.get("name").and_then(Node::text) == Some(name)),
            _ => None,
        }
    }

    pub(super) fn at(&self, path: &[String]) -> Option<&Node> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    /// The first thing in it that stands twice under one name, with its offset.
    pub(super) fn repeated(&self) -> Option<(&str, usize)> {
        match &self.kind {
            Kind::List(_, elements) => elements.iter().find_map(Node::repeated),
            Kind::Map(_, members) => {
                repeated_name(members).or_else(|| members.iter().find_map(|member| member.value.repeated()))
            }
            _ => None,
        }
    }

    /// The first oddity in it, with its offset.
    pub(super) fn first_oddity(&self) -> Option<(&'static str, usize)> {
        if let Some(oddity) = self.oddity {
            return Some((oddity, self.span.start));
        }
        match &self.kind {
            Kind::List(_, elements) => elements.iter().find_map(Node::first_oddity),
            Kind::Map(_, members) => members.iter().find_map(|member| member.value.first_oddity()),
            _ => None,
        }
    }
}

/// The first name that a map has twice, with the offset of its second place.
pub(super) fn repeated_name(members: &[Member]) -> Option<(&str, usize)> {
    let mut seen = std::collections::BTreeSet::new();
    members
        .iter()
        .find(|member| !seen.insert(member.name.as_str()))
        .map(|member| (member.name.as_str(), member.name_span.start))
}
