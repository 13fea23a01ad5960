//! Markers: text that addresses the model, hides from the person, or names a way out for data.
//!
//! Every string of a definition (member names included), instructions and results are read in several views: folded
//! (case, look-alikes, invisible characters and white space no longer count), decoded, and what hidden channels say.
//! Rules from a versioned data file are followed over each. A finding names the original pointer and offset and says
//! in which view it was seen. It is evidence for a person and a reason to hold, never a verdict on a server.
//!
//! Invariant: the work is bounded and linear in the text; past a bound [`Scan::incomplete`] says so. Digests and diffs
//! never see a view, and a change of the rules is never drift.

mod decode;
mod fold;
mod hidden;
mod phrases;
mod rules;
mod strings;

use crate::definition::Definition;
use crate::digest::Digest;
use crate::json::{self, Document, ReadError, Sent};
use decode::View;
use fold::Folded;
use hidden::HiddenKind;
use rules::Match;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use strings::{Source, Strings};

/// The version of the rules; a finding that is kept is kept with it.
pub const RULES_VERSION: &str = "2026.12.2";

/// The most markers that a scan names. More would tell a reader nothing new.
pub const MAX_MARKERS: usize = 64;

/// The total of weights, one per class, from which on a scan is [`Level::High`] when two classes share it.
pub const HIGH_TOTAL: u32 = 8;

/// The weight of a hidden channel: high alone.
const HIDDEN_WEIGHT: u32 = 10;
/// The weight of a disguise: high with nearly anything that was disguised.
const DISGUISE_WEIGHT: u32 = 3;
/// The most that a finding weighs when digits had to be read as letters for it.
const GUESSED_WEIGHT: u32 = 2;
/// The most characters of an excerpt before escaping, and of the words that tell two findings apart.
const EXCERPT_CHARACTERS: usize = 120;
/// The characters shown on either side of a match.
const CONTEXT_CHARACTERS: usize = 30;

/// What a marker is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkerClass {
    /// Text that a person does not see: tag characters, variation selectors, zero-width codes, a reversed name.
    HiddenChannel,
    /// Text written so that a plain search misses it: encoded, or in letters of two alphabets.
    Disguise,
    /// Tells the model to leave what it was told before.
    Override,
    /// Tells the model to keep something from the person.
    Secrecy,
    /// Claims a person's consent, or tells the model to do without.
    Consent,
    /// Sends the model to files or to other tools.
    Steering,
    /// Names a place where credentials are kept.
    SensitivePath,
    /// Names a way out for data.
    Sink,
    /// Dresses up as the host's own text.
    PseudoMarkup,
    /// Rules over what other tools do.
    Shadowing,
    /// Has commands run beside the tool's own work.
    Execution,
    /// Asks for what the model holds beside the task: conversation, prompts, reasoning, memory, credentials, identity.
    AsksForContext,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// What it is about.
    pub class: MarkerClass,
    /// How much it counts; from 2 to 10. 1 is what a person should see when a change brings it and what says nothing
    /// about a tool that always had it: it has no part in [`Level::High`].
    pub weight: u32,
    /// RFC 6901 pointer of the string (of the member, for its name) in the definition; empty for a text alone.
    pub pointer: String,
    /// Where it starts, in bytes of that string.
    pub offset: usize,
    /// The text around it as its view reads, what is invisible escaped; at most some 120 characters of the text.
    pub excerpt: String,
    /// The view it was seen in: `text`, or the name of a decoding or a hidden channel.
    pub view: &'static str,
    /// The matched words, folded: what makes two findings the same one.
    pub matched: String,
}

/// How much the markers of a scan say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No marker.
    None,
    /// Markers, but neither two classes that weigh [`HIGH_TOTAL`] together nor a hidden channel.
    Low,
    /// Two classes that weigh [`HIGH_TOTAL`] or more together and are more than a manner of speaking, or a hidden channel.
    High,
}

/// What was found in one definition or text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The findings by class, then by where they stand; at most [`MAX_MARKERS`].
    pub markers: Vec<Marker>,
    /// How much they say together.
    pub level: Level,
    /// Whether there is a marker of [`MarkerClass::AsksForContext`].
    pub asks_for_context: bool,
    /// Whether a bound was met, so that there may be more.
    pub incomplete: bool,
}

/// Scans every string of a definition. One that is not JSON is scanned as text.
pub fn scan_definition(definition: &Definition) -> Scan {
    // Read by itself: nothing is copied so, and a definition that is only seen for the first time is never read into values.
    scan_read(definition.text(), json::read_borrowed(definition.text()).as_ref())
}

/// Scans the text of a definition that was read already.
pub(crate) fn scan_read(text: &str, read: Result<&Document<Sent<'_>>, &ReadError>) -> Scan {
    match read {
        Ok(document) => scan(&Strings::of_definition(&document.value)),
        Err(_) => scan_text(text),
    }
}

/// Scans a text that a server sent: instructions, a result. Pointers are empty.
pub fn scan_text(text: &str) -> Scan {
    scan(&Strings::of_text(text))
}

/// The markers of `after` that `before` had nowhere: by class and matched words, so that a text that only moved
/// introduces nothing.
pub fn introduced(before: &Scan, after: &Scan) -> Vec<Marker> {
    let known: BTreeSet<(MarkerClass, &str)> = before.markers.iter().map(Marker::identity).collect();
    let is_new = |marker: &&Marker| !known.contains(&marker.identity());
    after.markers.iter().filter(is_new).cloned().collect()
}

/// The digest of the rules as they stand in this build.
pub fn rules_digest() -> Digest {
    Digest::of_raw(rules::RULES_TEXT)
}

impl Marker {
    fn identity(&self) -> (MarkerClass, &str) {
        (self.class, &self.matched)
    }
}

impl MarkerClass {
    const ALL: [MarkerClass; 12] = [
        MarkerClass::HiddenChannel,
        MarkerClass::Disguise,
        MarkerClass::Override,
        MarkerClass::Secrecy,
        MarkerClass::Consent,
        MarkerClass::Steering,
        MarkerClass::SensitivePath,
        MarkerClass::Sink,
        MarkerClass::PseudoMarkup,
        MarkerClass::Shadowing,
        MarkerClass::Execution,
        MarkerClass::AsksForContext,
    ];

    /// Every class.
    pub fn all() -> &'static [MarkerClass] {
        &MarkerClass::ALL
    }

    /// The name in rules and answers.
    pub fn name(self) -> &'static str {
        match self {
            MarkerClass::HiddenChannel => "hidden-channel",
            MarkerClass::Disguise => "disguise",
            MarkerClass::Override => "override",
            MarkerClass::Secrecy => "secrecy",
            MarkerClass::Consent => "consent",
            MarkerClass::Steering => "steering",
            MarkerClass::SensitivePath => "sensitive-path",
            MarkerClass::Sink => "sink",
            MarkerClass::PseudoMarkup => "pseudo-markup",
            MarkerClass::Shadowing => "shadowing",
            MarkerClass::Execution => "execution",
            MarkerClass::AsksForContext => "asks-for-context",
        }
    }

    /// One sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            MarkerClass::HiddenChannel => "Carries text in characters that a person does not see.",
            MarkerClass::Disguise => "Carries text that is written so that a plain search misses it.",
            MarkerClass::Override => "Tells the model to leave what it was told before.",
            MarkerClass::Secrecy => "Tells the model to keep something from the person.",
            MarkerClass::Consent => "Claims a person's consent, or tells the model to do without it.",
            MarkerClass::Steering => "Sends the model to files or to other tools.",
            MarkerClass::SensitivePath => "Names a place where credentials are kept.",
            MarkerClass::Sink => "Names a way out for data.",
            MarkerClass::PseudoMarkup => "Dresses up as text of the host.",
            MarkerClass::Shadowing => "Rules over what other tools do.",
            MarkerClass::Execution => "Has commands run.",
            MarkerClass::AsksForContext => "Asks for what the model holds beside the task.",
        }
    }

    /// Whether this is but a manner of speaking to the model, one that pushy but honest tools have too: such classes
    /// alone are never high.
    fn is_manner(self) -> bool {
        matches!(
            self,
            MarkerClass::Consent | MarkerClass::Steering | MarkerClass::PseudoMarkup | MarkerClass::Shadowing
        )
    }

    /// The class of this name.
    pub fn from_name(name: &str) -> Option<MarkerClass> {
        MarkerClass::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl Level {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Low => "low",
            Level::High => "high",
        }
    }
}

/// A scan under way.
struct Scanner<'s, 'v> {
    strings: &'s Strings<'v>,
    /// Each with the number of its string.
    markers: Vec<(usize, Marker)>,
    /// Rule, string and offset of what was found, so that a decoded view does not repeat the text it came from.
    seen: BTreeSet<(usize, usize, usize)>,
    views: usize,
    view_bytes: usize,
    incomplete: bool,
}

fn scan(strings: &Strings<'_>) -> Scan {
    let mut scanner = Scanner {
        strings,
        markers: Vec::new(),
        seen: BTreeSet::new(),
        views: 0,
        view_bytes: 0,
        incomplete: strings.incomplete,
    };
    scanner.scan_plain();
    for (index, source) in strings.sources.iter().enumerate() {
        scanner.scan_hidden(index, source);
    }
    scanner.finish()
}

impl Scanner<'_, '_> {
    /// All strings at once, one line each: the texts are short and the automaton is warm.
    fn scan_plain(&mut self) {
        let sources = &self.strings.sources;
        let mut folded = Folded::with_room(sources.len(), self.strings.bytes);
        for source in sources {
            folded.add(&source.text, source.is_name);
        }
        let (matches, overflow) = rules::find(&folded, true, |line| sources.get(line));
        self.incomplete |= overflow;
        for found in matches {
            let index = folded.line(found.start);
            let Some(source) = sources.get(index) else {
                continue;
            };
            let span = span(&folded, &found, &source.text);
            self.seen.insert((found.rule, index, span.0));
            let matched = &folded.text[found.start..found.end];
            if hidden::is_disguised(&source.text[span.0..span.1]) {
                self.mark(
                    MarkerClass::Disguise,
                    DISGUISE_WEIGHT,
                    index,
                    span,
                    span.0,
                    &source.text,
                    "text",
                    matched,
                );
            }
            self.mark(
                found.class,
                found.weight,
                index,
                span,
                span.0,
                &source.text,
                "text",
                matched,
            );
        }
    }

    /// Hidden channels of one string, and its decoded views down to their depth.
    fn scan_hidden(&mut self, index: usize, source: &Source<'_>) {
        let (found, mut views, incomplete) = hidden::look(&source.text);
        self.incomplete |= incomplete;
        for found in found {
            let (class, weight) = match found.kind {
                HiddenKind::Tags | HiddenKind::Selectors | HiddenKind::ZeroWidth => {
                    (MarkerClass::HiddenChannel, HIDDEN_WEIGHT)
                }
                HiddenKind::Bidi if source.is_name => (MarkerClass::HiddenChannel, HIDDEN_WEIGHT),
                HiddenKind::Bidi | HiddenKind::TerminalEscape | HiddenKind::MixedLetters => {
                    (MarkerClass::Disguise, DISGUISE_WEIGHT)
                }
            };
            let said = views
                .iter()
                .find(|view| view.name == found.kind.name() && view.offsets.original(0) == found.start);
            let matched = said.map_or(found.kind.name(), |view| &view.text).to_owned();
            let span = (found.start, found.end);
            self.mark(
                class,
                weight,
                index,
                span,
                found.start,
                &source.text,
                found.kind.name(),
                &matched,
            );
        }
        let (decoded, incomplete) = decode::views(&source.text);
        self.incomplete |= incomplete;
        views.extend(decoded);
        views.reverse();
        while let Some(view) = views.pop() {
            if self.views >= decode::MAX_VIEWS || self.view_bytes + view.text.len() > decode::MAX_VIEWS_BYTES
            {
                self.incomplete = true;
                return;
            }
            self.views += 1;
            self.view_bytes += view.text.len();
            self.scan_view(index, source, &view);
            let (inner, incomplete) = decode::views(&view.text);
            if view.depth >= decode::MAX_DEPTH {
                continue;
            }
            self.incomplete |= incomplete;
            for mut inner in inner.into_iter().rev() {
                inner.offsets = inner.offsets.through(&view.offsets);
                inner.depth = view.depth + 1;
                views.push(inner);
            }
        }
    }

    fn scan_view(&mut self, index: usize, source: &Source<'_>, view: &View) {
        let folded = Folded::of(&view.text);
        let (matches, overflow) = rules::find(&folded, view.has_bounds, |_| Some(source));
        self.incomplete |= overflow;
        let mut told = false;
        for found in matches {
            let span = span(&folded, &found, &view.text);
            let offset = source.text.floor_char_boundary(view.offsets.original(span.0));
            if !self.seen.insert((found.rule, index, offset)) && view.is_whole {
                continue;
            }
            let matched = &folded.text[found.start..found.end];
            let is_guess = view.name == "digits-as-letters";
            let most = if is_guess { GUESSED_WEIGHT } else { u32::MAX };
            let weight = found.weight.min(most);
            if !told {
                self.mark(
                    MarkerClass::Disguise,
                    DISGUISE_WEIGHT.min(most),
                    index,
                    span,
                    offset,
                    &view.text,
                    view.name,
                    matched,
                );
                told = true;
            }
            self.mark(
                found.class,
                weight,
                index,
                span,
                offset,
                &view.text,
                view.name,
                matched,
            );
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a marker's parts, each from another place"
    )]
    fn mark(
        &mut self,
        class: MarkerClass,
        weight: u32,
        index: usize,
        span: (usize, usize),
        offset: usize,
        text: &str,
        view: &'static str,
        matched: &str,
    ) {
        let Some(source) = self.strings.sources.get(index) else {
            return;
        };
        let pointer = self.strings.pointer(source);
        let excerpt = excerpt(text, span);
        let matched = matched.chars().take(EXCERPT_CHARACTERS).collect();
        let marker = Marker {
            class,
            weight,
            pointer,
            offset,
            excerpt,
            view,
            matched,
        };
        self.markers.push((index, marker));
    }

    fn finish(self) -> Scan {
        let mut markers = self.markers;
        let place = |(index, marker): &(usize, Marker)| (marker.class, *index, marker.offset, marker.view);
        // Of several rules of a class at one place, the heaviest speaks.
        markers.sort_by_key(|marked| (place(marked), Reverse(marked.1.weight)));
        markers.dedup_by(|one, other| place(one) == place(other));
        let mut markers: Vec<Marker> = markers.into_iter().map(|(_, marker)| marker).collect();
        let mut heaviest: BTreeMap<MarkerClass, u32> = BTreeMap::new();
        for marker in &markers {
            let weight = heaviest.entry(marker.class).or_default();
            *weight = marker.weight.max(*weight);
        }
        let asks_for_context = heaviest.contains_key(&MarkerClass::AsksForContext);
        let is_hidden = heaviest.contains_key(&MarkerClass::HiddenChannel);
        heaviest.retain(|_, weight| *weight > 1);
        let is_more_than_manner = heaviest.keys().any(|class| !class.is_manner());
        let is_heavy =
            heaviest.len() >= 2 && heaviest.values().sum::<u32>() >= HIGH_TOTAL && is_more_than_manner;
        let level = match markers.is_empty() {
            true => Level::None,
            false if is_hidden || is_heavy => Level::High,
            false => Level::Low,
        };
        let incomplete = self.incomplete || markers.len() > MAX_MARKERS;
        keep_some_of_each_class(&mut markers);
        Scan {
            markers,
            level,
            asks_for_context,
            incomplete,
        }
    }
}

/// Cuts the list to [`MAX_MARKERS`] without losing a class.
fn keep_some_of_each_class(markers: &mut Vec<Marker>) {
    if markers.len() > MAX_MARKERS {
        let share = MAX_MARKERS / MarkerClass::ALL.len();
        let mut counts: BTreeMap<MarkerClass, usize> = BTreeMap::new();
        markers.retain(|marker| {
            let count = counts.entry(marker.class).or_default();
            *count += 1;
            *count <= share
        });
    }
}

/// Where a match lies in the text that was folded.
fn span(folded: &Folded, found: &Match, text: &str) -> (usize, usize) {
    let start = text.floor_char_boundary(folded.offsets.original(found.start));
    // The last byte's place, and then to the end of its character.
    let last = text.floor_char_boundary(folded.offsets.original(found.end.saturating_sub(1)));
    let end = text[last..]
        .chars()
        .next()
        .map_or(last, |character| last + character.len_utf8());
    (start, end.max(start))
}

/// The text around a span: control and invisible characters escaped, bounded, cut off with `…`.
fn excerpt(text: &str, (start, end): (usize, usize)) -> String {
    let before = text[..start].char_indices().rev().take(CONTEXT_CHARACTERS).last();
    let from = before.map_or(start, |(from, _)| from);
    let shown = EXCERPT_CHARACTERS - CONTEXT_CHARACTERS;
    let most = text[start..end].chars().count().min(shown) + CONTEXT_CHARACTERS;
    let to = text[start..]
        .char_indices()
        .nth(most)
        .map_or(text.len(), |(to, _)| start + to);
    let mut excerpt = String::from(if from > 0 { "…" } else { "" });
    for character in text[from..to].chars() {
        if character == '\\'
            || character.is_control()
            || fold::is_ignorable(character)
            || is_line_break(character)
        {
            excerpt.extend(character.escape_default());
        } else {
            excerpt.push(character);
        }
    }
    excerpt.push_str(if to < text.len() { "…" } else { "" });
    excerpt
}

fn is_line_break(character: char) -> bool {
    matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}
