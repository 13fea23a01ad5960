//! Which words of a name or of prose are verbs that say what the tool does.
//!
//! Names are read as people write them: `get_issue`, `issue_create`, `email_list`, `get_and_delete`. A word that is
//! a noun as often (`post`, `issue`, `run`) is a verb only where a verb stands. Of prose the first verb counts, what is joined to it, and
//! sentences that begin with a verb in the third person.
//!
//! Invariant: a doubtful word can only add a verb, never take another one away.

use super::{Confidence, Source, is_credential_name};
use crate::words::{Sense, Senses, Words};

/// How many words into a sentence its verb is looked for: `This tool also deletes …`.
const LEAD: usize = 4;

/// How many words before a verb a denial reaches.
const DENIAL: usize = 3;

const VERBS: Senses = Senses::of(&[
    Sense::Delete,
    Sense::Pay,
    Sense::Execute,
    Sense::Evaluate,
    Sense::Admin,
    Sense::Control,
    Sense::Auth,
    Sense::Elevate,
    Sense::Send,
    Sense::Write,
    Sense::Update,
    Sense::Make,
    Sense::Interact,
    Sense::Search,
    Sense::List,
    Sense::Read,
    Sense::Answer,
    Sense::Transfer,
    Sense::Install,
    Sense::Capture,
]);
const READING: Senses = Senses::of(&[Sense::Search, Sense::List, Sense::Read, Sense::Answer]);
/// Verbs whose object a reading word may be: `run_query`, `save_search`.
const TAKES_A_SEARCH: Senses = Senses::of(&[
    Sense::Execute,
    Sense::Delete,
    Sense::Install,
    Sense::Control,
    Sense::Write,
    Sense::Update,
]);

/// Verbs that a reading tool must not get away with.
const WORST: Senses = Senses::of(&[Sense::Delete, Sense::Pay, Sense::Execute, Sense::Send]);

/// A verb that says what the tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verb {
    /// The word, folded.
    pub(crate) word: String,
    pub(crate) source: Source,
    pub(crate) confidence: Confidence,
    /// Where it stands among the words of its text.
    pub(crate) index: usize,
    senses: Senses,
}

impl Verb {
    pub(crate) fn is(&self, sense: Sense) -> bool {
        self.senses.has(sense)
    }

    /// A name without a verb that ends in something to be read: `git_status`.
    pub(super) fn of_fact(name: &Words) -> Verb {
        let index = name.len().saturating_sub(1);
        Verb {
            senses: Senses::of(&[Sense::Read]),
            ..Verb::at(name, index, Source::Name, Confidence::Low)
        }
    }

    fn at(words: &Words, index: usize, source: Source, confidence: Confidence) -> Verb {
        Verb {
            word: words.text(index).to_owned(),
            source,
            confidence,
            index,
            senses: words.senses(index),
        }
    }
}

/// The verbs of a name, or of a choice that is written like one.
pub(crate) fn verbs_of_name(words: &Words, source: Source, confidence: Confidence) -> Vec<Verb> {
    let hits: Vec<usize> = (0..words.len())
        .filter(|index| may_be_verb(words, *index))
        .collect();
    let strict = |index: usize| !words.has(index, Sense::AlsoNoun);
    let joined = |index: usize| index > 0 && words.has(index - 1, Sense::And);
    let Some(first) = hits.first().copied() else {
        return Vec::new();
    };
    let last = words.len() - 1;
    let lead = match hits.iter().copied().find(|index| strict(*index)) {
        Some(lead) => lead,
        // `email_list`, `order_query`: the reading word at the end is what is done.
        None if hits.contains(&last) && is_what_is_done(words, first, last) => last,
        None => first,
    };
    let only_reads = words.senses(lead).meets(READING) && !may_change(words.senses(lead));
    let counts = |index: usize| {
        index == lead || joined(index) || (strict(index) && (!only_reads || index < lead || index == last))
    };
    let verbs = hits.into_iter().filter(|index| counts(*index));
    verbs
        .map(|index| Verb::at(words, index, source, confidence))
        .collect()
}

/// Whether the last word of a name of doubtful words is its verb: `email_list`, not `start_search`.
fn is_what_is_done(words: &Words, first: usize, last: usize) -> bool {
    let takes_a_list =
        words
            .senses(first)
            .meets(Senses::of(&[Sense::Execute, Sense::Delete, Sense::Install]));
    if words.has(last, Sense::List) {
        return !takes_a_list;
    }
    words.senses(last).meets(READING) && !words.senses(first).meets(TAKES_A_SEARCH)
}

fn may_be_verb(words: &Words, index: usize) -> bool {
    let senses = words.senses(index);
    if !senses.meets(VERBS) {
        return false;
    }
    // `deletes_file` yes, `list_updates` no.
    if senses.has(Sense::Inflected) && (index > 0 || senses.has(Sense::AlsoNoun)) {
        return false;
    }
    match words.text(index) {
        // A pull request, a merge request, a customer's request.
        "pull" | "merge" => !matches!(words.text(index + 1), "request" | "requests"),
        "request" => index == 0 || words.has(index - 1, Sense::Web),
        // Issuing is a verb for credentials only; anywhere else it is the ticket.
        "issue" => index == 0 && is_credential_name(words),
        _ => true,
    }
}

fn may_change(senses: Senses) -> bool {
    let changes = [
        Sense::Delete,
        Sense::Pay,
        Sense::Execute,
        Sense::Admin,
        Sense::Auth,
        Sense::Send,
        Sense::Write,
        Sense::Update,
    ];
    changes.into_iter().any(|sense| senses.has(sense))
}

/// The verbs of a description.
pub(super) fn verbs_of_prose(words: &Words) -> Vec<Verb> {
    let mut verbs = Vec::new();
    let mut has_lead = false;
    let mut start = 0;
    while start < words.len() {
        let next = (start + 1..words.len()).find(|index| words.begins_sentence(*index));
        let end = next.unwrap_or(words.len());
        let lead = (start..end).find(|index| leads(words, start, *index, has_lead));
        if let Some(lead) = lead {
            let joined = (lead + 1..end).filter(|index| is_joined(words, lead, *index));
            let said = std::iter::once(lead).chain(joined.filter(|_| !has_lead));
            let said = said.filter(|index| !is_denied(words, start, *index));
            verbs.extend(said.map(|index| Verb::at(words, index, Source::Description, Confidence::Medium)));
            has_lead = true;
        }
        start = end;
    }
    verbs
}

/// Whether a word is a second verb of the sentence that `lead` is the verb of.
fn is_joined(words: &Words, lead: usize, index: usize) -> bool {
    let senses = words.senses(index);
    if !words.has(index - 1, Sense::And) || !senses.meets(VERBS) || senses.has(Sense::AlsoNoun) {
        return false;
    }
    // `Get who can view and edit` does not edit; `get and delete` deletes wherever it stands.
    let is_alike = index == lead + 2 || senses.has(Sense::Inflected) || may_change(words.senses(lead));
    is_alike || senses.meets(WORST)
}

/// Whether a word is the verb of the sentence that begins at `start`.
fn leads(words: &Words, start: usize, index: usize, has_lead: bool) -> bool {
    let senses = words.senses(index);
    if !senses.meets(VERBS) {
        return false;
    }
    let is_third_person = senses.has(Sense::Inflected) && (index == start || !senses.has(Sense::AlsoNoun));
    let is_near = index < start + LEAD;
    if senses.has(Sense::Foreign) {
        return !has_lead || index == start;
    }
    // `Run this first`: said to the reader, not about the tool.
    let is_advice = senses.has(Sense::Execute)
        && !senses.has(Sense::Inflected)
        && matches!(
            words.text(index + 1),
            "this" | "it" | "first" | "before" | "after"
        );
    if has_lead {
        // A later sentence in the imperative is advice, unless it sends something somewhere.
        let sends = senses.has(Sense::Send)
            && (index..index + LEAD + 2)
                .any(|near| words.has(near, Sense::Outlet) || words.has(near, Sense::Address));
        let before = words.text(index.wrapping_sub(1));
        let is_said_of_it =
            index > start && matches!(before, "it" | "tool" | "this" | "also" | "then" | "permanently");
        return (is_near && is_third_person && (index == start || is_said_of_it))
            || (index == start && sends);
    }
    let leads_in = matches!(words.text(index.saturating_sub(1)), "to" | "will" | "can");
    let follows_to = index > start && leads_in && !senses.has(Sense::AlsoNoun);
    // `email (text): …` in a list of arguments is no verb; a short label may stand before the first sentence.
    let is_first =
        index == start && (!senses.has(Sense::AlsoNoun) || start < LEAD || senses.has(Sense::Inflected));
    !is_advice && is_near && (is_first || is_third_person) || follows_to
}

fn is_denied(words: &Words, start: usize, index: usize) -> bool {
    (index.saturating_sub(DENIAL).max(start)..index).any(|before| words.has(before, Sense::Not))
}
