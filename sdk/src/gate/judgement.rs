//! What becomes of each tool of a whole list, by the pins.
//!
//! Invariants: a list is judged on the newest record, in the same update that writes what follows from it, so that two
//! processes can't both trust at first sight; a tool that differs from its pin, or has none, is never taken for one that
//! doesn't; without readable pins nothing proceeds; what the organisation refused proceeds by nobody's word here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::quality::RandomState;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::markers::Scan;
use mcpindex_contract::posture::{Posture, Reason};
use mcpindex_contract::surface::{Member, MemberKind};

use crate::approvals::Word;
use crate::gate::comparison::{Against, Compared, Outcome, compare};
use crate::gate::event::Event;
use crate::gate::hold::{Hold, HoldClass};
use crate::gate::listing::{Fate, Pages, without_meta};
use crate::gate::organisation::{Organisation, Words};
use crate::gate::parallel;
use crate::gate::sighting::{Sight, Sighting, Watch};
use crate::gate::told::Told;
use crate::gate::{GateOptions, NewTools};
use crate::pins::{Pin, Pins, PinsError, Record, Via};
use crate::wire::message::{members, string};

/// What was decided about one whole list.
#[derive(Debug)]
pub(super) struct Judgement {
    /// By name; `Err` when there were no pins to judge by: nothing proceeds, for this reason.
    standings: Result<Standings, PinsError>,
    /// Of every element, in order, pages one after the other.
    pub(super) fates: Vec<Fate>,
    /// What the client sees of it.
    pub(super) view: View,
}

/// By name; asked for at each call, by a hash whose seed no server knows.
type Standings = HashMap<String, Standing, RandomState>;

/// Whether a tool can be called.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    /// It can.
    Proceeds,
    /// It is held (under monitor: would be).
    Held(Arc<Hold>),
}

/// All that a client can tell two lists apart by, but for their order: name, digest and meta digest as shown.
pub(super) type View = Vec<(String, Digest, Option<Digest>)>;

impl Judgement {
    /// How this name stands; `None` when the list has no such tool.
    pub(super) fn standing(&self, tool: &str) -> Result<Option<&Standing>, &PinsError> {
        self.standings.as_ref().map(|standings| standings.get(tool))
    }

    /// Whether a call of this tool proceeds.
    pub(super) fn proceeds(&self, tool: &str) -> bool {
        self.standing(tool) == Ok(Some(&Standing::Proceeds))
    }

    /// Everything that is held, by name.
    pub(super) fn held(&self) -> Vec<&Arc<Hold>> {
        let standings = self.standings.iter().flat_map(HashMap::values);
        let mut held: Vec<&Arc<Hold>> = standings
            .filter_map(|standing| match standing {
                Standing::Held(hold) => Some(hold),
                Standing::Proceeds => None,
            })
            .collect();
        held.sort_by(|one, other| one.tool.cmp(&other.tool));
        held
    }

    /// Whether there were pins to judge by.
    pub(super) fn has_pins(&self) -> bool {
        self.standings.is_ok()
    }

    /// Whether a change of the pins could set something free.
    pub(super) fn waits_for_pins(&self) -> bool {
        match &self.standings {
            Ok(standings) => standings
                .values()
                .any(|standing| matches!(standing, Standing::Held(_))),
            Err(_) => true,
        }
    }
}

/// Judges lists by the pins of one server.
pub(super) struct Judge {
    pins: Pins,
    /// Whether the record is, or may be, another one than the last list was judged by.
    has_moved: bool,
    /// The last comparison of each tool that was not what its pin says.
    compared: HashMap<String, Compared>,
    watch: Option<Arc<dyn Watch>>,
    organisation: Option<Organisation>,
}

/// By what a list is judged, beside the pins.
struct Rules<'r> {
    options: &'r GateOptions,
    words: Words,
}

/// One tool of a list.
struct Declared {
    name: String,
    definition: Definition,
    /// Its markers, when it is likely to be trusted at first sight.
    scan: Option<Scan>,
}

/// What is to be written about one tool.
enum Step {
    Pin(Via),
    /// The organisation approved it, by this decision.
    Obey(u64),
    Accept,
    Hold(Vec<&'static str>),
}

/// What a pass over a list came to.
#[derive(Default)]
struct Pass<'d> {
    is_first_sight: bool,
    standings: Standings,
    steps: Vec<(&'d Declared, Step)>,
    without_meta: BTreeSet<String>,
    events: Vec<(&'static str, String, Event)>,
    pinned: usize,
    gone: Vec<String>,
    /// What this record does not know yet.
    unknown: Vec<Unknown<'d>>,
}

/// A tool that the record does not know as it is declared.
struct Unknown<'d> {
    declared: &'d Declared,
    /// The written digest and the definition that it differs from, where the record holds another baseline by now.
    before: Option<(String, Arc<str>)>,
}

impl<'d> From<&'d Declared> for Unknown<'d> {
    fn from(declared: &'d Declared) -> Unknown<'d> {
        Unknown {
            declared,
            before: None,
        }
    }
}

impl Judge {
    pub(super) fn new(pins: Pins) -> Judge {
        Judge {
            pins,
            has_moved: false,
            compared: HashMap::new(),
            watch: None,
            organisation: None,
        }
    }

    pub(super) fn obey(&mut self, organisation: Organisation) {
        self.organisation = Some(organisation);
    }

    /// Whether decisions of an organisation are obeyed.
    pub(super) fn obeys(&self) -> bool {
        self.organisation.is_some()
    }

    /// Whether the organisation's word may be another one than the last list was judged by.
    pub(super) fn organisation_has_moved(&self) -> bool {
        self.organisation.as_ref().is_some_and(Organisation::has_moved)
    }

    pub(super) fn watch(&mut self, watch: Arc<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// The newest record, for whatever else than tools is pinned in it.
    pub(super) fn record(&mut self) -> Result<Arc<Record>, PinsError> {
        self.has_moved = self.has_moved();
        self.pins.record()
    }

    /// Changes the newest record.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut Record)) -> Result<Arc<Record>, PinsError> {
        self.has_moved = self.has_moved();
        self.pins.update(change)
    }

    /// Whether somebody else changed the pins, or the organisation decided, since the last list was judged by them.
    pub(super) fn has_moved(&self) -> bool {
        self.has_moved || self.pins.has_moved() || self.organisation_has_moved()
    }

    /// Judges a whole list and writes what follows from it, all in one update of the pins.
    pub(super) fn judge(
        &mut self,
        pages: &Pages,
        options: &GateOptions,
        told: &mut Told,
        events: &mut Vec<Event>,
    ) -> Judgement {
        let items: Vec<&str> = pages.items().collect();
        let is_first_sight = self.pins.record().is_ok_and(|record| record.is_empty());
        let elements = parallel::map(&items, |item| declared(item, is_first_sight));
        for (item, element) in pages.items().zip(&elements) {
            if element.is_none() && told.first("no-tool", "", &Digest::of_raw(item).to_string()) {
                events.push(Event::Dropped {
                    reason: "an element of the tool list that is no tool".to_owned(),
                });
            }
        }
        let names = by_name(&elements);
        let rules = Rules {
            options,
            words: self
                .organisation
                .as_mut()
                .map_or_else(Words::default, Organisation::look),
        };
        let decided = self.decide(&names, &rules);
        if let Some(notice) = self.pins.take_notice() {
            events.push(Event::PinsNotice { notice });
        }
        let pass = match decided {
            Ok(pass) => pass,
            Err(error) => {
                let reason = error.to_string();
                if told.first("pins-unusable", "", &reason) {
                    events.push(Event::PinsUnusable { reason });
                }
                return without_pins(error, &elements, pages, options.posture);
            }
        };
        // What was pinned at first sight is compared with its pin from now on.
        self.compared.retain(|name, made| {
            let is_pinned_now =
                made.against == Against::FirstSight && matches!(made.outcome, Outcome::Proceeds { .. });
            pass.standings.contains_key(name) && !is_pinned_now
        });
        if pass.is_first_sight && !pass.standings.is_empty() && told.first("first-sight", "", "") {
            events.push(Event::FirstSight {
                pinned: pass.pinned,
                withheld: pass.standings.len() - pass.pinned,
            });
        }
        for (what, digest, event) in pass.events {
            let name = match &event {
                Event::Withheld(hold) => hold.tool.as_str(),
                Event::Accepted { tool, .. } | Event::Obeyed { tool, .. } => tool.as_str(),
                _ => "",
            };
            if told.first(what, name, &digest) {
                events.push(event);
            }
        }
        self.show(&pass.unknown, told);
        for tool in pass.gone {
            if told.first("gone", &tool, "") {
                events.push(Event::ToolGone { tool });
            }
        }
        let fates = elements
            .iter()
            .map(|element| {
                fate(
                    element.as_ref(),
                    &pass.standings,
                    &pass.without_meta,
                    options.posture,
                )
            })
            .collect::<Vec<_>>();
        Judgement {
            view: view(&elements, &fates, pages),
            standings: Ok(pass.standings),
            fates,
        }
    }

    /// Shows whoever watches what the record did not know before this list.
    fn show(&mut self, unknown: &[Unknown<'_>], told: &mut Told) {
        let Some(watch) = self.watch.clone() else {
            return;
        };
        let Ok(record) = self.pins.record() else {
            return;
        };
        for Unknown { declared, before } in unknown {
            let Declared { name, definition, .. } = declared;
            let digest = definition.digest().to_string();
            let baseline = record.tools.get(name).and_then(|tool| tool.baseline.as_ref());
            let baseline = baseline.map(|baseline| (baseline.digest.as_str(), &baseline.definition));
            let before = before
                .as_ref()
                .map(|(digest, definition)| (digest.as_str(), definition));
            let against = before.or(baseline);
            let sight = match against {
                None => Sight::Withheld,
                Some((pinned, _)) if pinned == digest => Sight::Pinned,
                Some((_, before)) => Sight::Drifted {
                    before: before.clone(),
                    kinds: self.compared.get(name).map_or_else(Vec::new, Compared::kinds),
                },
            };
            let pinned = against.map_or("", |(pinned, _)| pinned);
            if told.first("seen", name, &format!("{pinned} {digest}")) {
                watch.seen(Sighting {
                    tool: name.clone(),
                    definition: definition.shared_text(),
                    sight,
                });
            }
        }
    }

    /// One pass over the list on the newest record, written.
    fn decide<'d>(
        &mut self,
        names: &BTreeMap<&str, Vec<&'d Declared>>,
        rules: &Rules<'_>,
    ) -> Result<Pass<'d>, PinsError> {
        let at = rules.options.clock.unix_seconds();
        self.has_moved = false;
        let record = self.pins.record()?;
        let compared = &mut self.compared;
        let mut pass = pass_over(names, &record, compared, rules);
        if pass.steps.is_empty() {
            return Ok(pass);
        }
        self.pins.update(|newest| {
            if *newest != *record {
                pass = pass_over(names, newest, compared, rules);
            }
            for (declared, step) in &pass.steps {
                let (name, definition) = (declared.name.as_str(), &declared.definition);
                match step {
                    Step::Pin(via) => newest.pin(name, definition, *via, at),
                    Step::Obey(decision) => obey(newest, name, definition, *decision, at),
                    Step::Accept => newest.accept(name, definition, at),
                    Step::Hold(codes) => newest.hold(name, definition, codes, at),
                }
            }
        })?;
        Ok(pass)
    }
}

/// Whether there is a `_meta` that is not what was pinned of the tool, so that nobody approved it.
fn has_new_meta(record: &Record, name: &str, definition: &Definition) -> bool {
    let baseline = record.tools.get(name).and_then(|tool| tool.baseline.as_ref());
    let pinned = baseline.and_then(|baseline| baseline.meta_digest.clone());
    let meta = definition.meta().map(|meta| meta.digest.to_string());
    meta.is_some() && meta != pinned
}

/// What may become the baseline of a definition that was approved, or known, by its digest: that leaves `_meta` out, so nobody has
/// seen it, and it goes along only where it is what was pinned before.
pub(crate) fn without_new_meta(record: &Record, name: &str, definition: &Definition) -> Option<Definition> {
    has_new_meta(record, name, definition).then(|| Definition::read(&without_meta(definition.text())))
}

/// Makes what the organisation approved the baseline.
fn obey(record: &mut Record, name: &str, definition: &Definition, decision: u64, at: i64) {
    let without = without_new_meta(record, name, definition);
    record.obey(name, without.as_ref().unwrap_or(definition), decision, at);
}

/// Decides about every name of a list by one record.
fn pass_over<'d>(
    names: &BTreeMap<&str, Vec<&'d Declared>>,
    record: &Record,
    compared: &mut HashMap<String, Compared>,
    rules: &Rules<'_>,
) -> Pass<'d> {
    let has_pin = record.tools.values().any(|tool| tool.baseline.is_some());
    // A server of which something was refused that it declared here is no stranger: a new wording is not trusted at first sight.
    let mut tools = record.tools.iter();
    let is_first_sight = !has_pin && !tools.any(|(name, tool)| rules.words.refused_some(name, tool));
    let mut pass = Pass {
        is_first_sight,
        ..Pass::default()
    };
    compare_all(names, record, is_first_sight, compared, rules);
    for (name, same_name) in names {
        let Some(declared) = same_name.first() else {
            continue;
        };
        let standing = rule(name, same_name, declared, record, compared, rules, &mut pass);
        pass.standings.insert((*name).to_owned(), standing);
    }
    let pinned = record.tools.iter().filter(|(_, tool)| tool.baseline.is_some());
    pass.gone = pinned
        .filter(|(name, _)| !names.contains_key(name.as_str()))
        .map(|(name, _)| name.clone())
        .collect();
    pass
}

/// What a tool is to be compared with; `None`: it is what its pin says.
fn against(
    name: &str,
    same_name: &[&Declared],
    record: &Record,
    is_first_sight: bool,
    Rules { options, words }: &Rules<'_>,
) -> Option<Against> {
    let definition = &same_name.first()?.definition;
    let digest = definition.digest();
    let meta = definition.meta().map(|meta| meta.digest);
    let is_one_tool = same_name.iter().all(|other| {
        other.definition.digest() == digest && other.definition.meta().map(|meta| meta.digest) == meta
    });
    if !is_one_tool {
        return Some(Against::Duplicate);
    }
    let word = words.of(name, &digest);
    if let Word::Refused { sequence, reason } = word {
        return Some(Against::OrganisationRefused(sequence, reason));
    }
    let known = record.tools.get(name).map(|tool| (tool, digest.to_string()));
    if let Some((tool, written)) = &known
        && tool.refused.contains_key(written)
    {
        return Some(Against::Refused);
    }
    let baseline = known.and_then(|(tool, written)| Some((tool.baseline.as_ref()?, written)));
    let is_baseline = (baseline.as_ref()).is_some_and(|(baseline, written)| baseline.digest == *written);
    if let Word::Approved {
        sequence,
        is_fresh: true,
        ..
    } = word
        && !is_baseline
        && definition.no_digest().is_none()
        && !(options.posture == Posture::Strict && has_new_meta(record, name, definition))
    {
        return Some(Against::Approved(sequence));
    }
    let Some((baseline, written)) = baseline else {
        let known = record.tools.get(name);
        let is_refused = known.is_some_and(|tool| words.refused_some(name, tool));
        return Some(
            match is_first_sight || options.new_tools == NewTools::Tofu && !is_refused {
                true => Against::FirstSight,
                false => Against::NewTool,
            },
        );
    };
    if let Some(over) = words.over(name, baseline) {
        let Pin {
            digest, meta_digest, ..
        } = baseline;
        return Some(Against::Ended(over, digest.clone(), meta_digest.clone()));
    }
    let meta = meta.map(|meta| meta.to_string());
    let is_the_pin =
        baseline.digest == written && baseline.meta_digest == meta && definition.no_digest().is_none();
    (!is_the_pin).then(|| Against::Baseline(baseline.digest.clone(), baseline.meta_digest.clone()))
}

/// Makes the comparisons of a list that were not made before, on all cores: a search for markers takes longer than all else.
fn compare_all(
    names: &BTreeMap<&str, Vec<&Declared>>,
    record: &Record,
    is_first_sight: bool,
    compared: &mut HashMap<String, Compared>,
    rules: &Rules<'_>,
) {
    let mut due: Vec<(&str, &Declared, Against)> = Vec::new();
    for (name, same_name) in names {
        let against = against(name, same_name, record, is_first_sight, rules);
        let (Some(against), Some(declared)) = (against, same_name.first()) else {
            continue;
        };
        let is_made = compared
            .get(*name)
            .is_some_and(|last| last.is_of(&against, &declared.definition));
        if !is_made {
            due.push((name, declared, against));
        }
    }
    let made = parallel::map(&due, |(name, declared, against)| {
        let Declared { definition, scan, .. } = declared;
        let before = record.baseline(name);
        Compared {
            against: against.clone(),
            digest: definition.digest(),
            meta: definition.meta().map(|meta| meta.digest),
            outcome: compare(
                name,
                before.as_ref(),
                definition,
                scan.as_ref(),
                against,
                rules.options,
            ),
        }
    });
    for ((name, ..), comparison) in due.into_iter().zip(made) {
        compared.insert(name.to_owned(), comparison);
    }
}

/// Decides about one tool.
fn rule<'d>(
    name: &str,
    same_name: &[&'d Declared],
    declared: &'d Declared,
    record: &Record,
    compared: &HashMap<String, Compared>,
    rules: &Rules<'_>,
    pass: &mut Pass<'d>,
) -> Standing {
    let definition = &declared.definition;
    let digest = definition.digest();
    let meta = definition.meta().map(|meta| meta.digest);
    let known = record.tools.get(name);
    let baseline = known.and_then(|tool| tool.baseline.as_ref());
    let written = digest.to_string();
    let Some(against) = against(name, same_name, record, pass.is_first_sight, rules) else {
        // It is the baseline, perhaps again: what was let through or held meanwhile is over.
        if known.is_some_and(|tool| tool.last_seen.is_some() || tool.held_now.is_some()) {
            pass.steps.push((declared, Step::Accept));
        }
        return Standing::Proceeds;
    };
    let outcome = match compared.get(name) {
        Some(made) if made.is_of(&against, definition) => made.outcome.clone(),
        _ => compare(
            name,
            record.baseline(name).as_ref(),
            definition,
            declared.scan.as_ref(),
            &against,
            rules.options,
        ),
    };
    let is_seen = known.is_some_and(|tool| tool.has_seen(&written));
    match &outcome {
        Outcome::Held(hold) => {
            let hold = &with_word(hold, &rules.words.of(name, &digest));
            let is_kept = known.is_some_and(|tool| tool.held.contains_key(&written));
            let waits_for_a_person = matches!(
                hold.class,
                HoldClass::Drift
                    | HoldClass::NewTool
                    | HoldClass::FirstSight
                    | HoldClass::OrganisationRefused
                    | HoldClass::ApprovalOver
            );
            let is_noted = known.is_some_and(|tool| tool.held_now.as_ref() == Some(&written));
            if !is_seen && (waits_for_a_person || hold.class == HoldClass::Unreadable) {
                pass.unknown.push(declared.into());
            }
            if waits_for_a_person && !is_kept || is_kept && !is_noted {
                let codes = hold.reasons.iter().map(|reason| reason.code).collect();
                pass.steps.push((declared, Step::Hold(codes)));
            }
            let event = Event::Withheld(Hold::clone(hold));
            pass.events.push(("withheld", hold.mark(), event));
            Standing::Held(Arc::clone(hold))
        }
        Outcome::Proceeds { changes, notes } => {
            match baseline {
                _ if let Against::Approved(decision) = against => {
                    pass.steps.push((declared, Step::Obey(decision)));
                    pass.pinned += usize::from(pass.is_first_sight);
                    if !is_seen {
                        pass.unknown.push(Unknown {
                            declared,
                            before: baseline.map(|pin| (pin.digest.clone(), pin.definition.clone())),
                        });
                    }
                    if has_new_meta(record, name, definition) {
                        pass.without_meta.insert(name.to_owned());
                    }
                    let event = Event::Obeyed {
                        tool: name.to_owned(),
                        digest: written.clone(),
                        decision,
                    };
                    pass.events
                        .push(("obeyed", format!("{written} {decision}"), event));
                }
                None => {
                    let via = match pass.is_first_sight {
                        true => Via::FirstSight,
                        false => Via::NewTool,
                    };
                    pass.pinned += 1;
                    pass.steps.push((declared, Step::Pin(via)));
                    pass.unknown.push(declared.into());
                }
                Some(baseline) => {
                    let last_seen = known.and_then(|tool| tool.last_seen.as_ref());
                    let is_known = baseline.digest == written
                        || last_seen.is_some_and(|last_seen| last_seen.digest == written);
                    let was_held = known.is_some_and(|tool| tool.held_now.is_some());
                    if !is_known || was_held {
                        pass.steps.push((declared, Step::Accept));
                    }
                    if !is_seen {
                        pass.unknown.push(declared.into());
                    }
                    let moved = meta.map(|meta| meta.to_string());
                    if baseline.meta_digest != moved {
                        pass.without_meta.insert(name.to_owned());
                    }
                    let event = Event::Accepted {
                        tool: name.to_owned(),
                        digest: written.clone(),
                        changes: changes.clone(),
                        notes: notes.clone(),
                    };
                    let told = format!("{written} {}", moved.unwrap_or_default());
                    pass.events.push(("accepted", told, event));
                }
            }
            Standing::Proceeds
        }
    }
}

/// The hold, with what the organisation says of it where that does not release it.
fn with_word(hold: &Arc<Hold>, word: &Word) -> Arc<Hold> {
    let (code, sentence) = match word {
        Word::Approved {
            sequence,
            is_fresh: false,
            ..
        } => (
            "approval-stale",
            format!(
                "The organisation approved exactly this definition (decision {sequence}), but its index has not been heard for \
                 too long."
            ),
        ),
        Word::Approved { sequence, .. } => (
            "approved-elsewhere",
            format!(
                "The organisation approved exactly this definition (decision {sequence}), which does not release it here."
            ),
        ),
        Word::Proposed { sequence } => (
            "approval-proposed",
            format!("One of the two people that it takes has approved it (decision {sequence})."),
        ),
        _ => return Arc::clone(hold),
    };
    let mut hold = Hold::clone(hold);
    hold.reasons.push(Reason {
        code,
        sentence,
        pointer: String::new(),
    });
    Arc::new(hold)
}

/// An element of a list as a tool; `None` for one that is no object or has no name.
fn declared(item: &str, is_first_sight: bool) -> Option<Declared> {
    let (member, scan) = match is_first_sight {
        true => {
            let (member, scan) = Member::read_and_scan(MemberKind::Tool, item);
            (member, Some(scan))
        }
        false => (Member::read(MemberKind::Tool, item), None),
    };
    let Member { name, definition, .. } = member;
    let name = match name.is_empty() {
        false => name,
        // Too deep to be read whole, or truly without a name.
        true => {
            let [name] = members(item, ["name"]).ok()?;
            string(name?)?.into_owned()
        }
    };
    Some(Declared {
        name,
        definition,
        scan,
    })
}

/// The tools by name, in the order of their names.
fn by_name(elements: &[Option<Declared>]) -> BTreeMap<&str, Vec<&Declared>> {
    let mut names: BTreeMap<&str, Vec<&Declared>> = BTreeMap::new();
    for declared in elements.iter().flatten() {
        names.entry(&declared.name).or_default().push(declared);
    }
    names
}

fn fate(
    element: Option<&Declared>,
    standings: &Standings,
    without_meta: &BTreeSet<String>,
    posture: Posture,
) -> Fate {
    if posture == Posture::Monitor {
        return Fate::Shown;
    }
    let Some(Declared { name, definition, .. }) = element else {
        return Fate::Cut;
    };
    match standings.get(name) {
        Some(Standing::Proceeds) if without_meta.contains(name) && definition.meta().is_some() => {
            Fate::WithoutMeta
        }
        Some(Standing::Proceeds) => Fate::Shown,
        Some(Standing::Held(_)) | None => Fate::Cut,
    }
}

fn view(elements: &[Option<Declared>], fates: &[Fate], pages: &Pages) -> View {
    let mut view: View = Vec::new();
    for ((item, element), fate) in pages.items().zip(elements).zip(fates) {
        if *fate == Fate::Cut {
            continue;
        }
        view.push(match element {
            Some(Declared { name, definition, .. }) => {
                let meta = definition.meta().filter(|_| *fate == Fate::Shown);
                (name.clone(), definition.digest(), meta.map(|meta| meta.digest))
            }
            None => (String::new(), Digest::of_raw(item), None),
        });
    }
    view.sort_unstable();
    view
}

/// A list without pins to judge by: nothing of it is shown, but under monitor, where all is; and nothing can be called.
fn without_pins(
    error: PinsError,
    elements: &[Option<Declared>],
    pages: &Pages,
    posture: Posture,
) -> Judgement {
    let fate = match posture {
        Posture::Monitor => Fate::Shown,
        Posture::Guard | Posture::Strict => Fate::Cut,
    };
    let fates = vec![fate; elements.len()];
    Judgement {
        standings: Err(error),
        view: view(elements, &fates, pages),
        fates,
    }
}
