//! One list of tools, page by page as the server sent it, and what of it is shown.
//!
//! Invariant: a page's message stays the server's text; whatever is not shown is cut out of it with one comma, and nothing
//! else of it moves.

use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use crate::gate::GateLimits;
use crate::wire::message::{Elements, answer, clear_members, elements, member_spans, place, string};

/// The shortest time that a server can give its list to live.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// The pages of one list, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Page>,
    cursors: HashSet<String>,
    /// The cursor of the last page, unescaped.
    next_cursor: Option<String>,
    bytes: usize,
    tools: usize,
    life: Option<Duration>,
}

/// One page.
#[derive(Debug)]
pub(super) struct Page {
    /// The whole message.
    text: String,
    /// Its `result`.
    result: Range<usize>,
    /// The elements of `tools`.
    items: Vec<Range<usize>>,
    /// The cursor that led here, unescaped; `None` for the first page.
    cursor: Option<String>,
}

/// What becomes of one element of a list of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is shown as it was sent.
    Shown,
    /// It is shown without its top-level `_meta`.
    WithoutMeta,
    /// It is left out.
    Cut,
}

impl Pages {
    /// Adds the next page. `result` is its place in `text`. What comes back is the JSON text of the cursor that goes on, or
    /// why this is no list of tools that can be read.
    pub(super) fn add(
        &mut self,
        text: String,
        result: Range<usize>,
        limits: &GateLimits,
    ) -> Result<Option<String>, String> {
        let result_text = text.get(result.clone()).unwrap_or_default();
        let [tools, next_cursor, kind, ttl] =
            clear_members(result_text, ["tools", "nextCursor", "resultType", "ttlMs"])
                .map_err(|error| error.to_string())?;
        if kind.and_then(string).is_some_and(|kind| kind != "complete") {
            return Err("it is not complete".to_owned());
        }
        let tools = tools.ok_or("it has no `tools`")?;
        let left = limits.tools.saturating_sub(self.tools);
        let Elements { texts, total } = elements(tools, left).ok_or("`tools` is no array")?;
        if total > texts.len() {
            return Err(format!("it has more than {} tools", limits.tools));
        }
        self.tools += total;
        self.bytes += text.len();
        if self.bytes > limits.listing_bytes {
            return Err(format!("it has more than {} bytes", limits.listing_bytes));
        }
        if self.pages.len() >= limits.pages {
            return Err(format!("it has more than {} pages", limits.pages));
        }
        let life = ttl.and_then(milliseconds);
        self.life = [self.life, life].into_iter().flatten().min();
        let next = match next_cursor {
            None | Some("null") => None,
            Some(cursor) => {
                let unescaped = string(cursor).ok_or("`nextCursor` is no string")?;
                Some((cursor.to_owned(), unescaped.into_owned()))
            }
        };
        let items = texts.iter().map(|item| place(&text, item)).collect();
        let (next_cursor, unescaped) = next.unzip();
        let cursor = std::mem::replace(&mut self.next_cursor, unescaped);
        self.pages.push(Page {
            text,
            result,
            items,
            cursor,
        });
        if let Some(unescaped) = &self.next_cursor
            && !self.cursors.insert(unescaped.clone())
        {
            return Err("its cursors go in a circle".to_owned());
        }
        Ok(next_cursor)
    }

    /// Whether there is a page behind the first one.
    pub(super) fn has_more_than_one(&self) -> bool {
        self.pages.len() > 1
    }

    /// The first page's message as the server sent it.
    pub(super) fn into_first_message(self) -> Option<Vec<u8>> {
        self.pages.into_iter().next().map(|page| page.text.into_bytes())
    }

    /// How long the server says that the list holds.
    pub(super) fn life(&self) -> Option<Duration> {
        self.life.map(|life| life.max(SHORTEST_LIFE))
    }

    /// Whether the server answered the same, message envelopes aside.
    pub(super) fn same_results(&self, other: &Pages) -> bool {
        self.pages.len() == other.pages.len()
            && self
                .pages
                .iter()
                .zip(&other.pages)
                .all(|(one, other)| one.result_text() == other.result_text())
    }

    /// The element texts of all pages, in order.
    pub(super) fn items(&self) -> impl Iterator<Item = &str> {
        self.pages
            .iter()
            .flat_map(|page| page.items.iter().filter_map(|item| page.text.get(item.clone())))
    }

    /// The first page's message with what is not shown cut out; `fates` are those of all elements.
    pub(super) fn first_message(&self, fates: &[Fate]) -> Vec<u8> {
        let Some(page) = self.pages.first() else {
            return Vec::new();
        };
        page.shown(0..page.text.len(), fates).into_bytes()
    }

    /// The answer to the client's request for the page behind this cursor (unescaped), under the client's id (JSON text).
    pub(super) fn page_at(&self, cursor: &str, id: &str, fates: &[Fate]) -> Option<Vec<u8>> {
        let mut before = 0;
        for page in &self.pages {
            if page.cursor.as_deref() == Some(cursor) {
                let shown = page.shown(page.result.clone(), fates.get(before..).unwrap_or_default());
                return Some(answer(id, &shown).into_bytes());
            }
            before += page.items.len();
        }
        None
    }
}

impl Page {
    fn result_text(&self) -> &str {
        self.text.get(self.result.clone()).unwrap_or_default()
    }

    /// A part of the message that holds the tools, by the fates of this page's elements (and any that follow).
    fn shown(&self, part: Range<usize>, fates: &[Fate]) -> String {
        let fate = |index: usize| fates.get(index).copied().unwrap_or(Fate::Shown);
        let text = |span: Range<usize>| self.text.get(span).unwrap_or_default();
        if (0..self.items.len()).all(|index| fate(index) == Fate::Shown) {
            // One byte more, for the line end that it goes out with.
            let mut shown = String::with_capacity(part.len() + 1);
            shown.push_str(text(part));
            return shown;
        }
        let kept = |index: usize| match fate(index) {
            Fate::Shown => Some(text(self.items[index].clone()).to_owned()),
            Fate::WithoutMeta => Some(without_meta(text(self.items[index].clone()))),
            Fate::Cut => None,
        };
        spliced(&self.text, part, &self.items, kept)
    }
}

/// A tool's text without its top-level `_meta`.
pub(super) fn without_meta(tool: &str) -> String {
    let Some(members) = member_spans(tool) else {
        return tool.to_owned();
    };
    let spans: Vec<Range<usize>> = members.iter().map(|member| member.span.clone()).collect();
    let kept = |index: usize| match string(members[index].name).as_deref() {
        Some("_meta") => None,
        _ => tool.get(spans[index].clone()).map(str::to_owned),
    };
    spliced(tool, 0..tool.len(), &spans, kept)
}

/// A part of a text whose comma-separated pieces stand at `spans`, each replaced by what `kept` gives, or left out with the
/// comma before it (for the first: after it).
fn spliced(
    text: &str,
    part: Range<usize>,
    spans: &[Range<usize>],
    kept: impl Fn(usize) -> Option<String>,
) -> String {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return text.get(part).unwrap_or_default().to_owned();
    };
    let mut out = String::with_capacity(part.len());
    out.push_str(text.get(part.start..first.start).unwrap_or_default());
    let mut is_first = true;
    for (index, span) in spans.iter().enumerate() {
        let Some(piece) = kept(index) else {
            continue;
        };
        if !is_first && let Some(previous) = index.checked_sub(1).and_then(|before| spans.get(before)) {
            out.push_str(text.get(previous.end..span.start).unwrap_or_default());
        }
        out.push_str(&piece);
        is_first = false;
    }
    out.push_str(text.get(last.end..part.end).unwrap_or_default());
    out
}

/// The time that `ttlMs` says; `None` for what is no number.
fn milliseconds(text: &str) -> Option<Duration> {
    let milliseconds: f64 = text.parse().ok()?;
    // A saturating cast: negative is none at all, and an endless one ends in 500 million years.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, as it should"
    )]
    let milliseconds = milliseconds as u64;
    Some(Duration::from_millis(milliseconds))
}
