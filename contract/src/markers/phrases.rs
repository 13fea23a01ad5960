//! The phrases of the rules as one tree of their bytes, followed from wherever a word may start.
//!
//! A phrase that begins with a letter or a digit stands for whole words, so nothing is looked for within a word: most words
//! end the search after a few bytes, which an automaton that goes over every byte can't do.
//!
//! Invariant: the hits are those of a search for every phrase at every place, but for the ones that [`Phrases::may_start`]
//! rules out; they come by rising end, of one end the longest first. The work at a place is bounded by the longest phrase.

use super::fold::is_unspaced;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// From so many children on, a node has a table of all bytes.
const MANY_CHILDREN: usize = 8;

/// The number for what is not there: the root is nobody's child, and phrases are numbered from 0.
const NO_NODE: u32 = 0;
const NO_PHRASE: u32 = u32::MAX;
const NO_TABLE: u16 = u16::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Phrases {
    /// The root first; the children of a node next to each other, by rising byte.
    nodes: Vec<Node>,
    /// The byte that leads to each node.
    bytes: Vec<u8>,
    /// Behind that byte, what all phrases through a node have in common, one after the other.
    labels: Vec<u8>,
    tables: Vec<[u32; 256]>,
    root: [u32; 256],
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// Its place among the labels, and its length.
    label: (u32, u32),
    first_child: u32,
    children: u16,
    table: u16,
    /// The phrase that ends behind the label.
    phrase: u32,
}

/// A phrase's place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    pub(super) end: usize,
    pub(super) start: usize,
    /// Its number among those that the tree was made of.
    pub(super) phrase: usize,
}

impl Phrases {
    /// The tree of these phrases, which are sorted, differ and are not empty.
    pub(super) fn new(phrases: &[String]) -> Phrases {
        let root = Node {
            label: (0, 0),
            first_child: 0,
            children: 0,
            table: NO_TABLE,
            phrase: NO_PHRASE,
        };
        let mut tree = Phrases {
            nodes: vec![root],
            bytes: vec![0],
            labels: Vec::new(),
            tables: Vec::new(),
            root: [NO_NODE; 256],
        };
        // Of each node that has no children yet: the phrases below it, and how many bytes lead to it.
        let mut due = vec![(0..phrases.len(), 0)];
        let mut node = 0;
        while let Some((below, mut depth)) = due.get(node).cloned() {
            let mut at = below.start;
            if node > 0 {
                // Sorted, so what the first and the last have in common all have.
                let (first, last) = (phrases[at].as_bytes(), phrases[below.end - 1].as_bytes());
                let both = first[depth..].iter().zip(&last[depth..]);
                let common = both.take_while(|(one, other)| one == other).count();
                tree.nodes[node].label = (number(tree.labels.len()), number(common));
                tree.labels.extend_from_slice(&first[depth..depth + common]);
                depth += common;
            }
            if depth > 0 && phrases[at].len() == depth {
                tree.nodes[node].phrase = number(at);
                at += 1;
            }
            let first = tree.nodes.len();
            while at < below.end {
                let byte = phrases[at].as_bytes()[depth];
                let alike = phrases[at..below.end]
                    .iter()
                    .take_while(|phrase| phrase.as_bytes()[depth] == byte)
                    .count();
                tree.nodes.push(root);
                tree.bytes.push(byte);
                due.push((at..at + alike, depth + 1));
                at += alike;
            }
            let children = tree.nodes.len() - first;
            let mut table = [NO_NODE; 256];
            for child in first..first + children {
                table[usize::from(tree.bytes[child])] = number(child);
            }
            if node == 0 {
                tree.root = table;
            } else if children >= MANY_CHILDREN && tree.tables.len() < usize::from(NO_TABLE) {
                tree.nodes[node].table = tree.tables.len() as u16;
                tree.tables.push(table);
            }
            tree.nodes[node].first_child = number(first);
            // No more than there are bytes.
            tree.nodes[node].children = children as u16;
            node += 1;
        }
        tree
    }

    /// The hits in a text.
    pub(super) fn hits<'t>(&'t self, text: &'t str) -> Hits<'t> {
        Hits {
            phrases: self,
            text,
            at: 0,
            waiting: BinaryHeap::new(),
        }
    }

    fn child(&self, node: &Node, byte: u8) -> u32 {
        if let Some(table) = self.tables.get(usize::from(node.table)) {
            return table[usize::from(byte)];
        }
        let first = node.first_child as usize;
        let children = &self.bytes[first..first + usize::from(node.children)];
        match children.iter().position(|child| *child == byte) {
            Some(place) => number(first + place),
            None => NO_NODE,
        }
    }

    fn label(&self, node: &Node) -> &[u8] {
        let (start, length) = node.label;
        &self.labels[start as usize..][..length as usize]
    }

    /// Whether a phrase that begins with this byte could stand at `at` as words of its own: one that begins with an ASCII
    /// letter, a digit or a full stop does not stand behind a letter or a digit.
    fn may_start(byte: u8, text: &str, at: usize) -> bool {
        if !byte.is_ascii_alphanumeric() && byte != b'.' {
            return true;
        }
        match at.checked_sub(1).map(|before| text.as_bytes()[before]) {
            None => true,
            Some(before) if before.is_ascii() => !before.is_ascii_alphanumeric(),
            Some(_) => {
                let before = text[..at].chars().next_back();
                before.is_none_or(|before| !before.is_alphanumeric() || is_unspaced(before))
            }
        }
    }
}

/// The hits in one text.
pub(super) struct Hits<'t> {
    phrases: &'t Phrases,
    text: &'t str,
    /// Where the search goes on.
    at: usize,
    /// Those found whose turn has not come: one that starts later may end before.
    waiting: BinaryHeap<Reverse<(usize, usize, usize)>>,
}

impl Iterator for Hits<'_> {
    type Item = Hit;

    fn next(&mut self) -> Option<Hit> {
        let bytes = self.text.as_bytes();
        loop {
            // Whatever is found from here on ends behind this place.
            if let Some(Reverse((end, ..))) = self.waiting.peek()
                && (*end <= self.at || self.at >= bytes.len())
            {
                let Reverse((end, start, phrase)) = self.waiting.pop()?;
                return Some(Hit { end, start, phrase });
            }
            let start = self.at;
            let byte = *bytes.get(start)?;
            self.at += 1;
            let mut node = self.phrases.root[usize::from(byte)];
            if node != NO_NODE && Phrases::may_start(byte, self.text, start) {
                let mut end = start + 1;
                while node != NO_NODE {
                    let this = &self.phrases.nodes[node as usize];
                    let label = self.phrases.label(this);
                    // Most differ in the first byte.
                    let alike = bytes[end..].iter().zip(label);
                    if alike.take_while(|(one, other)| one == other).count() < label.len() {
                        break;
                    }
                    end += label.len();
                    if this.phrase != NO_PHRASE {
                        self.waiting.push(Reverse((end, start, this.phrase as usize)));
                    }
                    let Some(&byte) = bytes.get(end) else { break };
                    node = self.phrases.child(this, byte);
                    end += 1;
                }
            }
            if byte.is_ascii_alphanumeric() {
                let rest = bytes[self.at..].iter();
                self.at += rest.take_while(|byte| byte.is_ascii_alphanumeric()).count();
            }
        }
    }
}

/// What the tree counts: a few ten thousand nodes and phrases.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(NO_PHRASE)
}

#[cfg(test)]
mod tests {
    use super::{Hit, Phrases};

    #[test]
    fn the_hits_are_those_of_a_search_for_every_phrase_at_every_place() {
        let mut phrases = [
            ".env", "<b", "a", "ab", "ab cd", "b", "cd", "e mail", "не", "忽略", "略",
        ]
        .map(String::from);
        phrases.sort_unstable();
        let tree = Phrases::new(&phrases);
        for text in [
            "",
            "ab cd ab",
            "cab b.env .env",
            "<b <b>ab",
            "неab 忽略ab略 a",
            "ab c",
            "éb é b",
            "e mail e mai",
        ] {
            let mut expected: Vec<Hit> = Vec::new();
            for (phrase, words) in phrases.iter().enumerate() {
                let places = text.char_indices().map(|(start, _)| start);
                expected.extend(
                    places
                        .filter(|start| text[*start..].starts_with(words.as_str()))
                        .filter(|start| Phrases::may_start(words.as_bytes()[0], text, *start))
                        .map(|start| Hit {
                            end: start + words.len(),
                            start,
                            phrase,
                        }),
                );
            }
            expected.sort_unstable();
            assert_eq!(tree.hits(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
