//! Every string of a definition, member names included, each with where it stands.
//!
//! Invariant: no recursion, and no more than [`MAX_SCANNED_BYTES`] of text; what lies past that is told, not dropped silently.

use crate::json::{Sent, Value, push_token};
use std::borrow::Cow;

/// The most bytes of text that one scan reads.
pub(super) const MAX_SCANNED_BYTES: usize = 2 << 20;

/// One string of a definition.
#[derive(Debug)]
pub(super) struct Source<'v> {
    pub(super) text: Cow<'v, str>,
    /// Whether this names something (a tool, an argument) rather than says something.
    pub(super) is_name: bool,
    /// Whether the model may be asked for something here: anywhere but in results and in what a tool is called.
    pub(super) asks: bool,
    /// Whether this is about an argument that takes text of the model's own.
    pub(super) fills: bool,
    node: usize,
}

/// The strings, in the order sent.
#[derive(Debug, Default)]
pub(super) struct Strings<'v> {
    pub(super) sources: Vec<Source<'v>>,
    /// Whether some were left out.
    pub(super) incomplete: bool,
    nodes: Vec<Node<'v>>,
    pub(super) bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Node<'v> {
    parent: usize,
    token: Token<'v>,
}

#[derive(Debug, Clone, Copy)]
enum Token<'v> {
    Root,
    Name(&'v str),
    Index(usize),
}

/// What part of a definition a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Top,
    Arguments,
    Results,
    Other,
}

impl<'v> Strings<'v> {
    /// A text alone: instructions, a result.
    pub(super) fn of_text(text: &'v str) -> Strings<'v> {
        let mut strings = Strings::rooted();
        strings.add(Cow::Borrowed(text), false, true, false, 0);
        strings
    }

    /// Every string of a tool, prompt, resource or template.
    pub(super) fn of_definition(value: &'v Value<Sent<'v>>) -> Strings<'v> {
        let mut strings = Strings::rooted();
        let mut open = vec![(value, 0, Part::Top, true)];
        while let Some((value, node, part, carries)) = open.pop() {
            if strings.incomplete {
                break;
            }
            match value {
                Value::String(text) => {
                    let named = match strings.nodes[node] {
                        Node {
                            parent: 0,
                            token: Token::Name("name" | "title"),
                        } => true,
                        Node {
                            token: Token::Name("name"),
                            ..
                        } => part == Part::Arguments,
                        _ => false,
                    };
                    // What a tool is called says nothing of what the model fills in.
                    let asks = part != Part::Results && (!named || part == Part::Arguments);
                    let token = strings.nodes[node].token;
                    let says = matches!(token, Token::Name("description" | "title" | "$comment" | "name"));
                    let fills = part == Part::Arguments && carries && says;
                    strings.add(text.to_text(), named, asks, fills, node);
                }
                Value::Array(items) => {
                    let first = open.len();
                    for (index, item) in items.iter().enumerate() {
                        if matches!(item, Value::String(_) | Value::Array(_) | Value::Object(_)) {
                            let child = strings.node(node, Token::Index(index));
                            open.push((item, child, part, carries));
                        }
                    }
                    open[first..].reverse();
                }
                Value::Object(members) => {
                    let carries = carries_text(value);
                    let first = open.len();
                    for (name, item) in members {
                        let name = name.as_ref();
                        let child = strings.node(node, Token::Name(name));
                        let part = match (part, name) {
                            (Part::Top, "inputSchema" | "arguments") => Part::Arguments,
                            (Part::Top, "outputSchema") => Part::Results,
                            (Part::Top, _) => Part::Other,
                            (part, _) => part,
                        };
                        let is_argument = part == Part::Arguments;
                        let fills = is_argument && carries_text(item);
                        strings.add(Cow::Borrowed(name), true, is_argument, fills, child);
                        open.push((item, child, part, carries));
                    }
                    open[first..].reverse();
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        strings
    }

    /// The RFC 6901 pointer of a string; a member name has its member's.
    pub(super) fn pointer(&self, source: &Source<'_>) -> String {
        let mut tokens = Vec::new();
        let mut at = source.node;
        while let Some(Node { parent, token }) = self.nodes.get(at).copied()
            && !matches!(token, Token::Root)
        {
            tokens.push(token);
            at = parent;
        }
        let mut pointer = String::new();
        for token in tokens.into_iter().rev() {
            match token {
                Token::Root => {}
                Token::Name(name) => push_token(&mut pointer, name),
                Token::Index(index) => push_token(&mut pointer, &index.to_string()),
            }
        }
        pointer
    }

    fn rooted() -> Strings<'v> {
        let root = Node {
            parent: 0,
            token: Token::Root,
        };
        Strings {
            nodes: vec![root],
            ..Strings::default()
        }
    }

    fn node(&mut self, parent: usize, token: Token<'v>) -> usize {
        self.nodes.push(Node { parent, token });
        self.nodes.len() - 1
    }

    fn add(&mut self, text: Cow<'v, str>, is_name: bool, asks: bool, fills: bool, node: usize) {
        if is_of_the_protocol(&text) {
            return;
        }
        let room = MAX_SCANNED_BYTES - self.bytes;
        let read = text.floor_char_boundary(room);
        self.incomplete |= read < text.len();
        self.bytes += read;
        let text = match text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..read]),
            Cow::Owned(mut text) => {
                text.truncate(read);
                Cow::Owned(text)
            }
        };
        if !text.is_empty() {
            self.sources.push(Source {
                text,
                is_name,
                asks,
                fills,
                node,
            });
        }
    }
}

macro_rules! words_of_the_protocol {
    ($($word:literal),+ $(,)?) => {
        /// Whether this is a word that every tool is made of. None of them says anything to the rules, wherever it stands
        /// (a test holds that), and more than half of the strings of most definitions are such.
        fn is_of_the_protocol(text: &str) -> bool {
            matches!(text, $($word)|+)
        }

        #[cfg(test)]
        const WORDS_OF_THE_PROTOCOL: &[&str] = &[$($word),+];
    };
}

words_of_the_protocol![
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "default",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "additionalProperties",
    "anyOf",
    "$ref",
    "$schema",
    "object",
    "string",
    "integer",
    "number",
    "boolean",
    "array",
    "null",
];

/// Whether a schema lets text of the caller's own through: numbers, truth values and listed choices carry nothing away.
/// What is no such schema does.
fn carries_text(schema: &Value<Sent<'_>>) -> bool {
    let is_bare = |kind: &Value<Sent<'_>>| {
        let Value::String(kind) = kind else { return false };
        matches!(kind.as_ref(), "integer" | "number" | "boolean" | "null")
    };
    let is_closed = match schema.get("type") {
        Some(Value::Array(kinds)) => !kinds.is_empty() && kinds.iter().all(is_bare),
        Some(kind) => is_bare(kind),
        None => false,
    };
    let has_choices = matches!(schema.get("enum"), Some(Value::Array(_)))
        || matches!(schema.get("const"), Some(Value::String(_)));
    !is_closed && !has_choices
}

#[cfg(test)]
mod tests {
    use super::super::fold::Folded;
    use super::super::{decode, hidden, rules};
    use super::*;

    #[test]
    fn the_words_that_are_passed_over_say_nothing_wherever_they_stand() {
        for word in WORDS_OF_THE_PROTOCOL {
            for flags in 0..8 {
                let source = Source {
                    text: Cow::Borrowed(word),
                    is_name: flags & 1 > 0,
                    asks: flags & 2 > 0,
                    fills: flags & 4 > 0,
                    node: 0,
                };
                let mut folded = Folded::default();
                folded.add(word, source.is_name);
                let (found, overflow) = rules::find(&folded, true, |_| Some(&source));
                assert!(found.is_empty() && !overflow, "{word}: {found:?}");
            }
            let (hidden, views, incomplete) = hidden::look(word);
            assert!(hidden.is_empty() && views.is_empty() && !incomplete, "{word}");
            assert!(decode::views(word).0.is_empty(), "{word}");
        }
    }
}
