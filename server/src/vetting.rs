//! "Has this been vetted?", as far as an index can say: what the crawl saw and what installs told, in one verdict with reasons.
//!
//! Pure but for the store's answer that is handed in. It never says that a tool is safe: `ready` means that what was asked about
//! is what the server is known to declare, and that nothing known speaks against it.
//!
//! Invariant: what could not be determined is `unknown`, and never `ready`; nothing that one network could have told alone
//! changes a verdict.

use mcpindex::check::Answer;
use mcpindex::check::shape::CODES;
use mcpindex_contract::change::{ChangeKind, Treatment};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::{Level, scan_definition};
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Listing, MemberKind, Surface};
use mcpindex_store::servers::ServerRecord;
use mcpindex_store::sightings::{Question, Reference, Sightings, ToolDrift};
use mcpindex_store::signals::ToldDefinition;

use crate::ingest::FleetRule;
use crate::state::State;
use crate::when::DAY;

/// Seconds after which a look says nothing about today.
pub(crate) const STALE_AFTER: i64 = 14 * DAY;
/// Seconds for which a change that matters is a reason to look.
const LATELY: i64 = 7 * DAY;
/// What counts of installs are rounded down to.
const STEPS: [u64; 6] = [10_000, 1_000, 100, 10, 2, 1];
/// Definitions that are scanned for one request.
pub(crate) const MAX_SCANNED: i64 = 4_000;

/// How a digest stands in the crawl's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declared {
    Now,
    Before,
    Never,
}

impl Declared {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Declared::Now => "now",
            Declared::Before => "before",
            Declared::Never => "never",
        }
    }
}

/// How many installs see something, rounded down; none where not enough agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Installs {
    pub(crate) at_least: u64,
    pub(crate) corroboration: Option<&'static str>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) code: &'static str,
    pub(crate) sentence: String,
    /// What it alone would answer; none where it is told beside.
    means: Option<Answer>,
}

/// The verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vetting {
    pub(crate) verdict: Answer,
    /// Never empty; what decided first.
    pub(crate) reasons: Vec<Reason>,
    pub(crate) declared: Option<Declared>,
    pub(crate) seen: Option<Installs>,
    pub(crate) others: Option<Installs>,
    pub(crate) alone: Option<bool>,
}

impl Vetting {
    pub(crate) fn has(&self, code: &str) -> bool {
        self.reasons.iter().any(|reason| reason.code == code)
    }
}

/// What is said for and against, as it is gathered.
#[derive(Default)]
struct Reasons(Vec<Reason>);

impl Reasons {
    fn add(&mut self, code: &'static str, means: Option<Answer>) {
        self.add_with(code, means, "");
    }

    /// With a sentence of ours after the code's own.
    fn add_with(&mut self, code: &'static str, means: Option<Answer>, more: &str) {
        let row = CODES.iter().find(|(name, _)| *name == code);
        let sentence = row.map_or("", |(_, sentence)| sentence);
        let sentence = match more {
            "" => sentence.to_owned(),
            more => format!("{sentence} {more}"),
        };
        self.0.push(Reason {
            code,
            sentence,
            means,
        });
    }

    /// A person is needed wherever something asks for one; else what can't be said goes before what is fine.
    fn verdict(self) -> (Answer, Vec<Reason>) {
        let order = [
            Answer::NeedsPerson,
            Answer::NoSuch,
            Answer::Unknown,
            Answer::Ready,
        ];
        let says = |answer: &Answer| self.0.iter().any(|reason| reason.means == Some(*answer));
        let verdict = order.into_iter().find(says).unwrap_or(Answer::Unknown);
        let mut reasons = self.0;
        reasons.sort_by_key(|reason| reason.means != Some(verdict));
        (verdict, reasons)
    }
}

/// Judges one tool, or what is asked of a tool that is not known.
pub(crate) fn of_tool(question: &Question, found: &Sightings, rule: Option<&FleetRule>, now: i64) -> Vetting {
    let mut reasons = Reasons::default();
    let declared = declared(question, found);
    history(&mut reasons, question, found, declared, now);
    let digest = question.digest.or(found.current).map(|digest| digest.to_string());
    let (mut seen, mut others) = (None, None);
    if let Some(rule) = rule {
        let is_asked = |told: &&ToldDefinition| match &told.digest {
            Some(told) => digest.as_ref() == Some(told),
            None => question.hash.as_ref() == Some(&told.hash),
        };
        let is_another = |told: &&ToldDefinition| {
            !is_asked(told) && digest.is_some() && (told.digest.is_some() || question.hash.is_some())
        };
        seen = Some(installs(rule, found.told.iter().filter(is_asked)));
        others = Some(installs(rule, found.told.iter().filter(is_another)));
    }
    let installs_see_it = seen.is_some_and(|seen| seen.at_least > 0);
    let installs_see_another = others.is_some_and(|others| others.at_least > 0);
    let crawl_sees_it = matches!(declared, Some(Declared::Now | Declared::Before));
    let crawl_sees_another = declared == Some(Declared::Never);
    let alone = question.digest.and_then(|_| {
        let others = crawl_sees_another || installs_see_another;
        match crawl_sees_it || installs_see_it {
            true => Some(false),
            false => others.then_some(true),
        }
    });
    if alone == Some(true) {
        reasons.add("alone", Some(Answer::NeedsPerson));
    }
    if installs_see_it {
        reasons.add("installs-see-it", None);
    }
    if installs_see_another {
        reasons.add("installs-see-another", None);
    }
    if let Some(text) = &found.definition {
        let definition = Definition::read(text);
        text_of(&mut reasons, &definition);
    }
    if declared == Some(Declared::Now) {
        lately(&mut reasons, found.drift.as_ref(), now);
    }
    let (verdict, reasons) = reasons.verdict();
    Vetting {
        verdict,
        reasons,
        declared,
        seen,
        others,
        alone,
    }
}

/// What there is of a server's tools to be looked through.
#[derive(Debug, Clone)]
pub(crate) enum Tools {
    /// All that it declares now.
    Whole(Box<Surface>),
    /// Nothing was determined.
    None,
    /// More than is looked through in one answer.
    TooMany,
}

/// Judges a server as a whole.
pub(crate) fn of_server(question: &Question, found: &Sightings, tools: &Tools, now: i64) -> Vetting {
    let mut reasons = Reasons::default();
    if let Some(server) = known(&mut reasons, question, found) {
        let means = age(&mut reasons, server, now);
        match tools {
            Tools::Whole(surface) if matches!(surface.listing(MemberKind::Tool), Listing::Failed { .. }) => {
                reasons.add("tools-not-determined", Some(Answer::Unknown));
            }
            Tools::Whole(surface) => {
                for tool in surface.members_of(MemberKind::Tool) {
                    text_of(&mut reasons, &tool.definition);
                }
                // One reason of a kind is enough.
                let mut told = Vec::new();
                reasons.0.retain(|reason| {
                    let is_new = !told.contains(&reason.code);
                    told.push(reason.code);
                    is_new
                });
                reasons.add("tools-declared", means);
            }
            Tools::None => reasons.add("tools-not-determined", Some(Answer::Unknown)),
            Tools::TooMany => reasons.add("not-scanned", Some(Answer::Unknown)),
        }
        lately(&mut reasons, found.drift.as_ref(), now);
    }
    let (verdict, reasons) = reasons.verdict();
    Vetting {
        verdict,
        reasons,
        declared: None,
        seen: None,
        others: None,
        alone: None,
    }
}

/// The server, if there is one that some look has determined.
fn known<'f>(reasons: &mut Reasons, question: &Question, found: &'f Sightings) -> Option<&'f ServerRecord> {
    let Some(server) = &found.server else {
        match &question.server {
            Reference::Name(_) => reasons.add("no-such-server", Some(Answer::NoSuch)),
            Reference::Fingerprint(_) => reasons.add("server-not-known", Some(Answer::Unknown)),
        }
        return None;
    };
    match (server.current_observation, server.outcome) {
        (Some(_), _) => Some(server),
        (None, None) => {
            reasons.add("not-looked-at", Some(Answer::Unknown));
            None
        }
        (None, Some(_)) => {
            let sentence = State(server.outcome).sentence();
            reasons.add_with("not-determined", Some(Answer::Unknown), sentence);
            None
        }
    }
}

/// Says how old what is known is; gives what a definition that is declared "now" means then.
fn age(reasons: &mut Reasons, server: &ServerRecord, now: i64) -> Option<Answer> {
    if !server.outcome.is_some_and(Outcome::has_surface) {
        reasons.add_with("last-look-failed", None, State(server.outcome).sentence());
    }
    if is_stale(server, now) {
        reasons.add("stale", Some(Answer::Unknown));
        return None;
    }
    Some(Answer::Ready)
}

/// Whether the last look is too long ago to say anything about today.
pub(crate) fn is_stale(server: &ServerRecord, now: i64) -> bool {
    server
        .looked_at
        .is_none_or(|looked_at| now - looked_at > STALE_AFTER)
}

fn declared(question: &Question, found: &Sightings) -> Option<Declared> {
    if found.declared.is_empty() {
        return None;
    }
    let Some(asked) = question.digest else {
        return found.current.map(|_| Declared::Now);
    };
    Some(match found.current == Some(asked) {
        true => Declared::Now,
        false if found.declared.iter().any(|sighting| sighting.digest == asked) => Declared::Before,
        false => Declared::Never,
    })
}

/// What the crawl's history says of a tool.
fn history(
    reasons: &mut Reasons,
    question: &Question,
    found: &Sightings,
    declared: Option<Declared>,
    now: i64,
) {
    let Some(server) = known(reasons, question, found) else {
        return;
    };
    let list_failed = matches!(found.listing, Some(Listing::Failed { .. }));
    if found.tool.is_none() {
        reasons.add("tool-not-known", Some(Answer::Unknown));
        return;
    }
    if found.declared.is_empty() {
        match list_failed {
            true => reasons.add("tools-not-determined", Some(Answer::Unknown)),
            false => reasons.add("no-such-tool", Some(Answer::NoSuch)),
        }
        return;
    }
    let age_means = age(reasons, server, now);
    if list_failed {
        reasons.add("tools-not-determined", Some(Answer::Unknown));
    } else if found.current.is_none() {
        reasons.add("removed", Some(Answer::NeedsPerson));
    }
    match declared {
        Some(Declared::Now) => reasons.add("declared-now", age_means),
        Some(Declared::Before) => reasons.add("declared-before", Some(Answer::Ready)),
        Some(Declared::Never) => reasons.add("not-declared", Some(Answer::Unknown)),
        None => {}
    }
}

/// What the definition's own text says.
fn text_of(reasons: &mut Reasons, definition: &Definition) {
    if definition.no_digest().is_some() {
        reasons.add("no-digest", Some(Answer::NeedsPerson));
    }
    if scan_definition(definition).level == Level::High {
        reasons.add("marker", Some(Answer::NeedsPerson));
    }
}

fn lately(reasons: &mut Reasons, drift: Option<&ToolDrift>, now: i64) {
    // What a gate would hold.
    let matters = |drift: &&ToolDrift| {
        let is_held = |kind: &ChangeKind| kind.guard() == Treatment::Hold;
        now - drift.found_at < LATELY && drift.kinds.iter().any(is_held)
    };
    if drift.filter(matters).is_some() {
        reasons.add("changed-lately", Some(Answer::NeedsPerson));
    }
}

fn installs<'t>(rule: &FleetRule, told: impl Iterator<Item = &'t ToldDefinition>) -> Installs {
    let most = told
        .filter_map(|told| rule.see(told))
        .max_by_key(|(_, count)| *count);
    match most {
        None => Installs {
            at_least: 0,
            corroboration: None,
        },
        Some((corroboration, count)) => Installs {
            at_least: STEPS.into_iter().find(|step| count >= *step).unwrap_or(0),
            corroboration: Some(corroboration),
        },
    }
}
