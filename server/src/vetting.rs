//! "Has this been vetted?", as far as an index can say: what the crawl saw and what installs told, in one verdict with reasons.
//!
//! Pure but for the store's answer that is handed in. It never says that a tool is safe: `ready` means that what was asked about
//! is what the server is known to declare, and that nothing known speaks against it, or that the organisation approved exactly it.
//!
//! Invariant: what could not be determined is `unknown`, and never `ready`; nothing that one network could have told alone
//! changes a verdict.

mod decided;
mod evidence;

use std::collections::BTreeSet;

use mcpindex::check::Answer;
use mcpindex::check::shape::CODES;
use mcpindex_contract::change::{ChangeKind, Treatment};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::{Level, scan_definition, scan_text};
use mcpindex_contract::surface::{Listing, MemberKind, Surface};
use mcpindex_store::servers::ServerRecord;
use mcpindex_store::sightings::{Question, Reference, Sightings};
use mcpindex_store::signals::ToldDefinition;

use crate::ingest::FleetRule;
use crate::when::DAY;
pub(crate) use decided::{Approval, Decided};
use evidence::evidence;
pub(crate) use evidence::{Evidence, STALE_AFTER, is_stale};

/// Seconds for which a change that matters is a reason to look.
pub(crate) const LATELY: i64 = 7 * DAY;
/// Seconds that a definition has to have stood to be a release, and no slip or test.
const BRIEFLY: i64 = 3 * DAY;
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
    /// What the crawl's looks are worth.
    pub(crate) evidence: Evidence,
    pub(crate) declared: Option<Declared>,
    pub(crate) seen: Option<Installs>,
    pub(crate) others: Option<Installs>,
    pub(crate) alone: Option<bool>,
    /// What the organisation decided.
    pub(crate) approval: Approval,
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
        if self.0.iter().any(|reason| reason.code == code) {
            // One reason of a kind is enough.
            return;
        }
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

    /// These are told beside: they decide nothing any more.
    fn overrule(&mut self, is_overruled: impl Fn(&str) -> bool) {
        for reason in &mut self.0 {
            if is_overruled(reason.code) {
                reason.means = None;
            }
        }
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

/// Judges what was asked at each server that may be meant; the answer is what there is most to be said against. `more`: the
/// name leads to further servers, which nobody looked at.
pub(crate) fn of_servers(
    question: &Question,
    servers: Vec<(Sightings, Tools, Decided)>,
    more: bool,
    rule: Option<&FleetRule>,
    now: i64,
) -> Option<(Sightings, Vetting)> {
    let several = servers.len() > 1 || more;
    let judged = servers.into_iter().map(|(found, tools, decided)| {
        let vetting = match &question.tool {
            Some(_) => of_tool(question, &found, &decided, rule, now),
            None => of_server(question, &found, &tools, &decided, now),
        };
        (found, vetting)
    });
    // That one has no such tool says nothing while another is not known.
    let against = |vetting: &Vetting| match vetting.verdict {
        Answer::NeedsPerson => 4,
        Answer::TryLater => 3,
        Answer::Unknown => 2,
        Answer::NoSuch => 1,
        Answer::Ready => 0,
    };
    let (found, mut vetting) = judged.reduce(|worst, next| {
        if against(&next.1) > against(&worst.1) {
            next
        } else {
            worst
        }
    })?;
    if several {
        let mut reasons = Reasons(vetting.reasons);
        reasons.add("several-servers", more.then_some(Answer::Unknown));
        (vetting.verdict, vetting.reasons) = reasons.verdict();
    }
    Some((found, vetting))
}

/// Judges one tool, or what is asked of a tool that is not known.
fn of_tool(
    question: &Question,
    found: &Sightings,
    decided: &Decided,
    rule: Option<&FleetRule>,
    now: i64,
) -> Vetting {
    let mut reasons = Reasons::default();
    let declared = declared(question, found);
    let evidence = history(&mut reasons, question, found, declared, now);
    let asked = question.digest.or(found.current);
    let digest = asked.map(|digest| digest.to_string());
    let (mut seen, mut others) = (None, None);
    if let Some(rule) = rule {
        let is_asked = |told: &&ToldDefinition| told.digest.is_some() && told.digest == digest;
        // The published hash leaves out what a model reads as well (annotations, the output's schema, titles): where it differs the
        // definition does, and where it is the same nothing is said.
        let is_another = |told: &&ToldDefinition| match (&told.digest, &question.hash) {
            (Some(_), _) => digest.is_some() && told.digest != digest,
            (None, Some(hash)) => told.hash != *hash,
            (None, None) => false,
        };
        seen = Some(installs(rule, found.told.iter().filter(is_asked)));
        others = Some(installs(rule, found.told.iter().filter(is_another)));
    }
    let installs_see_it = seen.is_some_and(|seen| seen.at_least > 0);
    let installs_see_another = others.is_some_and(|others| others.at_least > 0);
    let crawl_sees_it = matches!(declared, Some(Declared::Now | Declared::Before));
    // What was not seen long ago, or by a look that failed, may well be there.
    let crawl_sees_another = declared == Some(Declared::Never) && evidence.is_good() && !list_failed(found);
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
        digestible(&mut reasons, &definition);
        if scan_definition(&definition).level == Level::High {
            reasons.add("marker", Some(Answer::NeedsPerson));
        }
    }
    let about = found.tool.as_deref().zip(asked);
    let approval = decided::of_tool(&mut reasons, decided, about, question.digest.is_some());
    let (verdict, reasons) = reasons.verdict();
    Vetting {
        verdict,
        reasons,
        evidence,
        declared,
        seen,
        others,
        alone,
        approval,
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
fn of_server(question: &Question, found: &Sightings, tools: &Tools, decided: &Decided, now: i64) -> Vetting {
    let mut reasons = Reasons::default();
    let mut weighed = Evidence::None;
    let mut approval = Approval::Unknown;
    if let Some(server) = known(&mut reasons, question, found) {
        weighed = evidence(&mut reasons, server, now);
        match tools {
            Tools::Whole(surface) => surface_of(&mut reasons, surface, weighed),
            Tools::None if weighed == Evidence::None => {}
            Tools::None => reasons.add("tools-not-determined", Some(Answer::Unknown)),
            Tools::TooMany => reasons.add("not-scanned", Some(Answer::Unknown)),
        }
        lately(&mut reasons, &found.changed);
        let surface = match tools {
            Tools::Whole(surface) => Some(&**surface),
            Tools::None | Tools::TooMany => None,
        };
        approval = decided::of_server(&mut reasons, decided, surface);
    }
    let (verdict, reasons) = reasons.verdict();
    Vetting {
        verdict,
        reasons,
        approval,
        evidence: weighed,
        declared: None,
        seen: None,
        others: None,
        alone: None,
    }
}

/// What all that a server declares says, tools and what stands around them alike: a model reads it all.
fn surface_of(reasons: &mut Reasons, surface: &Surface, weighed: Evidence) {
    let failed = |kind: &MemberKind| matches!(surface.listing(*kind), Listing::Failed { .. });
    let mut names = BTreeSet::new();
    for tool in surface.members_of(MemberKind::Tool) {
        digestible(reasons, &tool.definition);
        if !names.insert(&tool.name) {
            reasons.add("duplicate-name", Some(Answer::NeedsPerson));
        }
    }
    let instructions = surface.instructions.as_ref();
    let addresses_model = |level| level == Level::High;
    if instructions.is_some_and(|instructions| addresses_model(scan_text(&instructions.text).level))
        || (surface.members.iter()).any(|member| addresses_model(scan_definition(&member.definition).level))
    {
        reasons.add("marker", Some(Answer::NeedsPerson));
    }
    if failed(&MemberKind::Tool) {
        reasons.add("tools-not-determined", Some(Answer::Unknown));
    } else {
        reasons.add("tools-declared", weighed.ready());
    }
    let around = |kind: &MemberKind| *kind != MemberKind::Tool && failed(kind);
    if MemberKind::ALL.iter().any(around) {
        reasons.add("list-not-determined", Some(Answer::Unknown));
    }
}

/// The server, if there is one.
fn known<'f>(reasons: &mut Reasons, question: &Question, found: &'f Sightings) -> Option<&'f ServerRecord> {
    if found.server.is_none() {
        match &question.server {
            Reference::Name(_) => reasons.add("no-such-server", Some(Answer::NoSuch)),
            Reference::Fingerprint(_) => reasons.add("server-not-known", Some(Answer::Unknown)),
        }
    }
    found.server.as_ref()
}

fn list_failed(found: &Sightings) -> bool {
    matches!(found.listing, Some(Listing::Failed { .. }))
}

fn declared(question: &Question, found: &Sightings) -> Option<Declared> {
    if found.declared.is_empty() {
        return None;
    }
    let Some(asked) = question.digest else {
        return found.current.map(|_| Declared::Now);
    };
    Some(
        match found.current == Some(asked) || found.namesakes.contains(&asked) {
            true => Declared::Now,
            false if found.declared.iter().any(|sighting| sighting.digest == asked) => Declared::Before,
            false => Declared::Never,
        },
    )
}

/// What the crawl's history says of a tool.
fn history(
    reasons: &mut Reasons,
    question: &Question,
    found: &Sightings,
    declared: Option<Declared>,
    now: i64,
) -> Evidence {
    let Some(server) = known(reasons, question, found) else {
        return Evidence::None;
    };
    let evidence = evidence(reasons, server, now);
    if evidence == Evidence::None {
        return evidence;
    }
    if list_failed(found) {
        reasons.add("tools-not-determined", Some(Answer::Unknown));
    }
    if found.tool.is_none() {
        reasons.add("tool-not-known", Some(Answer::Unknown));
        return evidence;
    }
    if found.declared.is_empty() {
        if !list_failed(found) {
            reasons.add("no-such-tool", evidence.is_good().then_some(Answer::NoSuch));
        }
        return evidence;
    }
    if !list_failed(found) && found.current.is_none() {
        reasons.add("removed", Some(Answer::NeedsPerson));
    }
    if !found.namesakes.is_empty() {
        reasons.add("duplicate-name", Some(Answer::NeedsPerson));
    }
    match declared {
        Some(Declared::Now) => {
            reasons.add("declared-now", evidence.ready());
            lately(reasons, &found.changed);
        }
        Some(Declared::Before) => {
            reasons.add("declared-before", Some(Answer::Unknown));
            left(reasons, found, now);
            lately(reasons, &found.changed);
        }
        Some(Declared::Never) => reasons.add("not-declared", Some(Answer::Unknown)),
        None => {}
    }
    evidence
}

/// What speaks against a definition that the server has left.
fn left(reasons: &mut Reasons, found: &Sightings, now: i64) {
    let Some(stay) = found.stay else {
        return;
    };
    if now - stay.left < LATELY {
        reasons.add("left-lately", Some(Answer::NeedsPerson));
    }
    if stay.came.is_some_and(|came| stay.left - came < BRIEFLY) {
        reasons.add("stood-briefly", Some(Answer::NeedsPerson));
    }
}

fn digestible(reasons: &mut Reasons, definition: &Definition) {
    if definition.no_digest().is_some() {
        reasons.add("no-digest", Some(Answer::NeedsPerson));
    }
}

/// Whether something changed lately that a gate holds.
fn lately(reasons: &mut Reasons, changed: &BTreeSet<ChangeKind>) {
    if changed.iter().any(|kind| kind.guard() == Treatment::Hold) {
        reasons.add("changed-lately", Some(Answer::NeedsPerson));
    }
}

/// What enough installs tell alike of these definitions.
pub(crate) fn installs<'t>(rule: &FleetRule, told: impl Iterator<Item = &'t ToldDefinition>) -> Installs {
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
