//! The marker rules: phrases looked for in one pass, and sequences of them with bounded gaps.
//!
//! A rule is a sequence of word lists (`ignore`, then within 40 bytes `previous`, …). It is followed along the
//! phrases' hits, so the work is linear in the text whatever the rules or the text say; there is no pattern that
//! could backtrack or blow up. Invariant: everything looked for is in `rules.txt`; its digest is [`super::rules_digest`].

use super::fold::{Folded, is_unspaced};
use super::phrases::{Hit, Phrases};
use super::strings::Source;
use super::{MarkerClass, RULES_VERSION};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The rules as they stand in the project.
pub(super) const RULES_TEXT: &str = include_str!("rules.txt");

/// How far before a match a negation still belongs to it, in bytes of the folded text.
const NEGATION_REACH: usize = 24;

/// What a negation takes away.
const NEGATED: u32 = 4;

/// The most matches that one view gives.
const MOST_MATCHES: usize = 256;

/// Read once. That they can be read is what a test holds, since they are part of the build.
static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::read(RULES_TEXT).unwrap_or_default());

/// The same phrases without their spaces, for text whose word bounds are lost.
static SPACELESS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let phrases = RULES.phrases.iter().map(|phrase| phrase.replace(' ', ""));
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(phrases)
        .ok()
});

/// A rule's match in a view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match {
    pub(super) class: MarkerClass,
    pub(super) weight: u32,
    /// The rule's number, so that one finding is told from another.
    pub(super) rule: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Default)]
struct Rules {
    rules: Vec<Rule>,
    /// Folded and sorted.
    phrases: Vec<String>,
    /// The uses of each phrase, in the same order.
    uses: Vec<Vec<Use>>,
    tree: Option<Phrases>,
    /// For each list: which steps of which rules it is.
    steps: Vec<Vec<Step>>,
    not: usize,
    not_after_all: usize,
    defence: usize,
}

#[derive(Debug)]
struct Rule {
    class: MarkerClass,
    weight: u32,
    only: Only,
    /// Whether a negation before it takes weight away.
    negatable: bool,
    /// How many bytes may lie before each list but the first.
    gaps: Vec<usize>,
    /// Where this rule's progress starts in the table of all.
    first: usize,
}

/// Where a rule's words count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    Anywhere,
    /// In the names of arguments that take text.
    Names,
    /// In what is said of arguments that take text.
    Arguments,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    rule: usize,
    index: usize,
}

/// How one list uses a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    list: usize,
    goes_on: bool,
    at_start: bool,
    at_end: bool,
    is_mail: bool,
}

/// A place where words of a list stand.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: usize,
    end: usize,
    sentence: usize,
}

/// What stands around a phrase.
struct Around<'t> {
    text: &'t str,
    end: usize,
    before: Option<char>,
    after: Option<char>,
    /// Whether the phrase could go on as a longer word at its start, or at its end.
    joins_before: bool,
    joins_after: bool,
}

/// How far a rule has come: the two latest ways to have its first lists. A span that ends at 0 is none.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    latest: Span,
    before: Span,
}

/// What the rules find in a view, whose lines come from these sources. `has_bounds` is false where words run together.
pub(super) fn find<'s>(
    view: &Folded,
    has_bounds: bool,
    source_of: impl Fn(usize) -> Option<&'s Source<'s>>,
) -> (Vec<Match>, bool) {
    let rules = &*RULES;
    let mut progress = vec![Progress::default(); rules.rules.iter().map(|rule| rule.gaps.len() + 1).sum()];
    let (mut negations, mut denials, mut defences) = (Vec::new(), Vec::new(), Vec::new());
    let mut matches: Vec<Match> = Vec::new();
    let mut overflow = false;
    let mut sentences = 0;
    let follow = |hit: Hit| {
        // Hits come by rising end, so sentences are counted once.
        while view.ends.get(sentences).is_some_and(|end| *end < hit.end) {
            sentences += 1;
        }
        let around = Around::of(&view.text, &hit);
        let begins = view.ends[..sentences].last().is_none_or(|end| hit.start >= *end);
        let here = Span {
            start: hit.start,
            end: hit.end,
            sentence: match begins {
                true => sentences,
                false => view.sentence(hit.start),
            },
        };
        for used in &rules.uses[hit.phrase] {
            if has_bounds && !used.stands(&around) {
                continue;
            }
            if used.list == rules.not {
                negations.push(here);
            } else if used.list == rules.not_after_all {
                denials.push(here);
            } else if used.list == rules.defence {
                defences.push(here);
            }
            for step in &rules.steps[used.list] {
                let rule = &rules.rules[step.rule];
                let reached = match step.index.checked_sub(1) {
                    None => Some(here),
                    Some(before) => progress[rule.first + before].reach(here, rule.gaps[before]),
                };
                let Some(reached) = reached else { continue };
                if step.index < rule.gaps.len() {
                    progress[rule.first + step.index].push(reached);
                    continue;
                }
                let is_due = source_of(view.line(reached.start)).is_some_and(|source| rule.is_due(source));
                let again = matches.iter().rev().take(8);
                if !is_due
                    || again
                        .clone()
                        .any(|old| old.rule == step.rule && old.start == reached.start)
                {
                    continue;
                }
                if matches.len() >= MOST_MATCHES {
                    overflow = true;
                    break;
                }
                matches.push(Match {
                    class: rule.class,
                    weight: rule.weight,
                    rule: step.rule,
                    start: reached.start,
                    end: reached.end,
                });
            }
        }
    };
    if has_bounds {
        let hits = rules.tree.iter().flat_map(|tree| tree.hits(&view.text));
        hits.for_each(follow);
    } else {
        let hits = SPACELESS
            .iter()
            .flat_map(|automaton| automaton.find_overlapping_iter(&view.text));
        hits.map(|hit| Hit {
            end: hit.end(),
            start: hit.start(),
            phrase: hit.pattern().as_usize(),
        })
        .for_each(follow);
    }
    take_weight_away(&mut matches, view, &negations, &denials, &defences);
    // What is left of a defensive sentence is no finding.
    matches.retain(|found| found.weight > 1 || found.weight == rules.rules[found.rule].weight);
    (matches, overflow)
}

/// What is negated, or said in warning, weighs less. A warning takes nothing from a line that also asks for secrecy.
fn take_weight_away(
    matches: &mut [Match],
    view: &Folded,
    negations: &[Span],
    denials: &[Span],
    defences: &[Span],
) {
    let secret = matches.iter().filter(|found| found.class == MarkerClass::Secrecy);
    let secret_lines: BTreeSet<usize> = secret.map(|found| view.line(found.start)).collect();
    for found in matches {
        let line = view.line(found.start);
        let is_negated =
            RULES.rules[found.rule].negatable && is_negated(negations, denials, view, found.start);
        let is_defended = found.class == MarkerClass::Override && !secret_lines.contains(&line) && {
            let sentence = view.sentence(found.start);
            let first = defences.partition_point(|defence| defence.sentence + 1 < sentence);
            let mut near = defences[first..]
                .iter()
                .take_while(|defence| defence.sentence <= sentence + 1);
            near.any(|defence| view.line(defence.start) == line)
        };
        if is_negated || is_defended {
            found.weight = found.weight.saturating_sub(NEGATED);
        }
    }
}

/// Whether the words at `start` are what the writer says not to do.
fn is_negated(negations: &[Span], denials: &[Span], view: &Folded, start: usize) -> bool {
    let sentence = view.sentence(start);
    let last = negations.partition_point(|negation| negation.end <= start);
    let near = negations[..last].iter().rev().take(4);
    near.into_iter().any(|negation| {
        negation.sentence == sentence && start - negation.end <= NEGATION_REACH && {
            let first = denials.partition_point(|denial| denial.end <= negation.end);
            let mut between = denials[first..].iter().take_while(|denial| denial.end <= start);
            // "Do not hesitate to …" asks for it.
            between.next().is_none() && !view.text[negation.end..start].contains([',', ';', ':'])
        }
    })
}

impl Rule {
    /// Whether its words count in a string that stands there.
    fn is_due(&self, source: &Source<'_>) -> bool {
        let is_there = match self.only {
            Only::Anywhere => true,
            Only::Names => source.is_name && source.fills,
            Only::Arguments => !source.is_name && source.fills,
        };
        is_there && (source.asks || self.class != MarkerClass::AsksForContext)
    }
}

impl Progress {
    /// The way to have this list's words too, when they follow closely enough.
    fn reach(&self, here: Span, gap: usize) -> Option<Span> {
        let follows = |before: &Span| {
            before.end > 0
                && before.end <= here.start
                && here.start - before.end <= gap
                && before.sentence == here.sentence
        };
        let before = [self.latest, self.before].into_iter().find(follows)?;
        Some(Span {
            start: before.start,
            ..here
        })
    }

    fn push(&mut self, reached: Span) {
        self.before = self.latest;
        self.latest = reached;
    }
}

impl<'t> Around<'t> {
    fn of(text: &'t str, hit: &Hit) -> Around<'t> {
        let character = |found: Option<char>| found.is_some_and(is_part_of_word);
        let inside = &text[hit.start..hit.end];
        let (before, after) = (
            text[..hit.start].chars().next_back(),
            text[hit.end..].chars().next(),
        );
        let (first, last) = (inside.chars().next(), inside.chars().next_back());
        Around {
            text,
            end: hit.end,
            before,
            after,
            joins_before: (character(first) || first == Some('.')) && character(before),
            joins_after: character(last) && character(after),
        }
    }

    /// Whether an address of mail has its `@` here.
    fn is_mail(&self) -> bool {
        let character = |found: Option<char>| found.is_some_and(is_part_of_word);
        let host = self.text[self.end..]
            .split(|found: char| !(found.is_ascii_alphanumeric() || found == '.' || found == ' '));
        let host = host
            .into_iter()
            .next()
            .unwrap_or_default()
            .split(' ')
            .next()
            .unwrap_or_default();
        character(self.before) && character(self.after) && host.trim_end_matches('.').contains('.')
    }
}

/// Whether a character is a part of a word that others can be part of too.
fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() && !is_unspaced(character)
}

impl Use {
    /// Whether the phrase stands here as words of its own.
    fn stands(&self, around: &Around<'_>) -> bool {
        if self.is_mail {
            return around.is_mail();
        }
        !(around.joins_before
            || around.joins_after && !self.goes_on
            || self.at_start && around.before.is_some_and(|found| found != '\n')
            || self.at_end && around.after.is_some_and(|found| found != '\n'))
    }
}

/// Why the rules can't be read: only the project's own tests ever meet one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the marker rules, line {line}: {problem}")]
pub(super) struct RulesError {
    line: usize,
    problem: &'static str,
}

impl Rules {
    fn read(text: &'static str) -> Result<Rules, RulesError> {
        let mut rules = Rules::default();
        let mut lists: BTreeMap<&str, usize> = BTreeMap::new();
        let mut phrases: BTreeMap<String, Vec<Use>> = BTreeMap::new();
        let mut list = None;
        let mut later = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let wrong = |problem| RulesError {
                line: index + 1,
                problem,
            };
            let line = line.trim();
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "" | "#" => {}
                "version" if rest == RULES_VERSION => {}
                "version" => return Err(wrong("another version than the build says")),
                "words" => {
                    let number = lists.len();
                    if lists.insert(rest, number).is_some() {
                        return Err(wrong("a list of this name is there already"));
                    }
                    list = Some(number);
                }
                "rule" => later.push((index + 1, rest)),
                _ if word.len() == 2 => {
                    let list = list.ok_or(wrong("phrases without a list"))?;
                    for phrase in rest.split(" | ") {
                        if phrase.trim_end().trim_end_matches('*').contains('*') {
                            return Err(wrong("a `*` within a phrase"));
                        }
                        let (phrase, used) = Use::read(phrase, list).ok_or(wrong("an empty phrase"))?;
                        let uses = phrases.entry(phrase).or_default();
                        if !uses.contains(&used) {
                            uses.push(used);
                        }
                    }
                }
                _ => return Err(wrong("neither version, words, rule nor a language code")),
            }
        }
        rules.steps = vec![Vec::new(); lists.len()];
        let mut first = 0;
        for (line, text) in later {
            let wrong = |problem| RulesError { line, problem };
            let mut words = text.split(' ').peekable();
            let class = words
                .next()
                .and_then(MarkerClass::from_name)
                .ok_or(wrong("no such class"))?;
            let weight = words
                .next()
                .and_then(|word| word.parse().ok())
                .ok_or(wrong("no weight"))?;
            let only = match words.next_if(|word| matches!(*word, "names" | "arguments")) {
                None => Only::Anywhere,
                Some("names") => Only::Names,
                Some(_) => Only::Arguments,
            };
            let negatable = words.next_if_eq(&"stated").is_none();
            let number = rules.rules.len();
            let mut gaps = Vec::new();
            for step in 0.. {
                if step > 0 {
                    let Some(gap) = words.next() else { break };
                    gaps.push(gap.parse().ok().ok_or(wrong("a gap is a number of bytes"))?);
                }
                let list = words
                    .next()
                    .and_then(|name| lists.get(name))
                    .ok_or(wrong("no such list"))?;
                rules.steps[*list].push(Step {
                    rule: number,
                    index: step,
                });
            }
            let rule = Rule {
                class,
                weight,
                only,
                negatable,
                gaps,
                first,
            };
            first += rule.gaps.len() + 1;
            rules.rules.push(rule);
        }
        // A later step before an earlier one, so that no hit is two steps of one rule.
        for steps in &mut rules.steps {
            steps.sort_by_key(|step| std::cmp::Reverse(step.index));
        }
        let needed = |name| {
            lists.get(name).copied().ok_or(RulesError {
                line: 0,
                problem: "a list of negations is missing",
            })
        };
        rules.not = needed("not")?;
        rules.not_after_all = needed("not-after-all")?;
        rules.defence = needed("defence")?;
        (rules.phrases, rules.uses) = phrases.into_iter().unzip();
        rules.tree = Some(Phrases::new(&rules.phrases));
        Ok(rules)
    }
}

impl Use {
    /// A phrase, folded, and how the list means it.
    fn read(phrase: &str, list: usize) -> Option<(String, Use)> {
        let phrase = phrase.trim();
        let goes_on = phrase.ends_with('*');
        let at_start = phrase.starts_with('^');
        let at_end = phrase.ends_with('$');
        let is_mail = phrase == "@";
        let phrase = phrase.trim_matches(['^', '$', '*']);
        let folded = Folded::of(phrase).text.trim().to_owned();
        let used = Use {
            list,
            goes_on,
            at_start,
            at_end,
            is_mail,
        };
        (!folded.is_empty()).then_some((folded, used))
    }
}

#[cfg(test)]
mod tests {
    use super::{RULES_TEXT, Rules, RulesError};

    #[test]
    fn the_rules_can_be_read() {
        let rules = Rules::read(RULES_TEXT).unwrap();
        assert!(rules.phrases.len() > 500);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = |text| Rules::read(text).map(|_| ()).unwrap_err();
        let at = |line, problem| RulesError { line, problem };
        assert_eq!(error("words a\nen b\nrule nothing 3 a"), at(3, "no such class"));
        assert_eq!(error("version 1"), at(1, "another version than the build says"));
        assert_eq!(error("rule secrecy 3 a"), at(1, "no such list"));
        assert_eq!(
            error("words a\nwords a"),
            at(2, "a list of this name is there already")
        );
        assert_eq!(error("en b"), at(1, "phrases without a list"));
        assert_eq!(
            error("words a\nen b\nrule secrecy 3 a x a"),
            at(3, "a gap is a number of bytes")
        );
        assert_eq!(error("words a\nen b* c"), at(2, "a `*` within a phrase"));
        assert_eq!(error("words a\nen b"), at(0, "a list of negations is missing"));
    }
}
