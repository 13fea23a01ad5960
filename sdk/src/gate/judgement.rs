//! What becomes of each tool of a whole list, by the pins.
//!
//! Invariants: a list is judged on the newest record, in the same update that writes what follows from it, so that two
//! processes can't both trust at first sight; a tool that differs from its pin, or has none, is never taken for one that
//! doesn't; without readable pins nothing proceeds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::posture::Posture;
use mcpindex_contract::surface::{Member, MemberKind};

use crate::gate::comparison::{Against, Compared, Outcome, compare};
use crate::gate::event::Event;
use crate::gate::hold::{Hold, HoldClass};
use crate::gate::listing::{Fate, Pages};
use crate::gate::parallel;
use crate::gate::sighting::{Sight, Sighting, Watch};
use crate::gate::told::Told;
use crate::gate::{GateOptions, NewTools};
use crate::pins::{Pins, PinsError, Record, Via};
use crate::wire::message::{members, string};

/// What was decided about one whole list.
#[derive(Debug)]
pub(super) struct Judgement {
    /// By name; `Err` when there were no pins to judge by: nothing proceeds, for this reason.
    standings: Result<HashMap<String, Standing>, PinsError>,
    /// Of every element, in order, pages one after the other.
    pub(super) fates: Vec<Fate>,
    /// What the client sees of it.
    pub(super) view: View,
}

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
}

/// One tool of a list.
struct Declared {
    name: String,
    definition: Definition,
}

/// What is to be written about one tool.
enum Step {
    Pin(Via),
    Accept,
    Hold(Vec<&'static str>),
}

/// What a pass over a list came to.
#[derive(Default)]
struct Pass<'d> {
    is_first_sight: bool,
    standings: HashMap<String, Standing>,
    steps: Vec<(&'d Declared, Step)>,
    without_meta: BTreeSet<String>,
    events: Vec<(&'static str, String, Event)>,
    pinned: usize,
    gone: Vec<String>,
    /// What this record does not know yet.
    unknown: Vec<&'d Declared>,
}

impl Judge {
    pub(super) fn new(pins: Pins) -> Judge {
        Judge {
            pins,
            has_moved: false,
            compared: HashMap::new(),
            watch: None,
        }
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

    /// Whether somebody else changed the pins since the last list was judged by them.
    pub(super) fn has_moved(&self) -> bool {
        self.has_moved || self.pins.has_moved()
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
        let elements = parallel::map(&items, |item| declared(item));
        for (item, element) in pages.items().zip(&elements) {
            if element.is_none() && told.first("no-tool", "", &Digest::of_raw(item).to_string()) {
                events.push(Event::Dropped {
                    reason: "an element of the tool list that is no tool".to_owned(),
                });
            }
        }
        let names = by_name(&elements);
        let decided = self.decide(&names, options);
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
                Event::Accepted { tool, .. } => tool.as_str(),
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
    fn show(&mut self, unknown: &[&Declared], told: &mut Told) {
        let Some(watch) = self.watch.clone() else {
            return;
        };
        let Ok(record) = self.pins.record() else {
            return;
        };
        for Declared { name, definition } in unknown {
            let digest = definition.digest().to_string();
            let baseline = record.tools.get(name).and_then(|tool| tool.baseline.as_ref());
            let sight = match baseline {
                None => Sight::Withheld,
                Some(baseline) if baseline.digest == digest => Sight::Pinned,
                Some(baseline) => Sight::Drifted {
                    before: baseline.definition.clone(),
                    kinds: self.compared.get(name).map_or_else(Vec::new, Compared::kinds),
                },
            };
            let pinned = baseline.map_or("", |baseline| baseline.digest.as_str());
            if told.first("seen", name, &format!("{pinned} {digest}")) {
                watch.seen(Sighting {
                    tool: name.clone(),
                    definition: definition.text().to_owned(),
                    sight,
                });
            }
        }
    }

    /// One pass over the list on the newest record, written.
    fn decide<'d>(
        &mut self,
        names: &BTreeMap<&str, Vec<&'d Declared>>,
        options: &GateOptions,
    ) -> Result<Pass<'d>, PinsError> {
        let at = options.clock.unix_seconds();
        self.has_moved = false;
        let record = self.pins.record()?;
        let compared = &mut self.compared;
        let mut pass = pass_over(names, &record, compared, options);
        if pass.steps.is_empty() {
            return Ok(pass);
        }
        self.pins.update(|newest| {
            if *newest != *record {
                pass = pass_over(names, newest, compared, options);
            }
            for (declared, step) in &pass.steps {
                let (name, definition) = (declared.name.as_str(), &declared.definition);
                match step {
                    Step::Pin(via) => newest.pin(name, definition, *via, at),
                    Step::Accept => newest.accept(name, definition, at),
                    Step::Hold(codes) => newest.hold(name, definition, codes, at),
                }
            }
        })?;
        Ok(pass)
    }
}

/// Decides about every name of a list by one record.
fn pass_over<'d>(
    names: &BTreeMap<&str, Vec<&'d Declared>>,
    record: &Record,
    compared: &mut HashMap<String, Compared>,
    options: &GateOptions,
) -> Pass<'d> {
    let has_pin = record.tools.values().any(|tool| tool.baseline.is_some());
    let mut pass = Pass {
        is_first_sight: !has_pin,
        ..Pass::default()
    };
    compare_all(names, record, !has_pin, compared, options);
    for (name, same_name) in names {
        let Some(declared) = same_name.first() else {
            continue;
        };
        let standing = rule(name, same_name, declared, record, compared, options, &mut pass);
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
    options: &GateOptions,
) -> Option<Against> {
    let definition = &same_name.first()?.definition;
    let digest = definition.digest();
    let meta = definition.meta().map(|meta| meta.digest);
    let is_one_tool = same_name.iter().all(|other| {
        other.definition.digest() == digest && other.definition.meta().map(|meta| meta.digest) == meta
    });
    let known = record.tools.get(name);
    let written = digest.to_string();
    if !is_one_tool {
        return Some(Against::Duplicate);
    }
    if known.is_some_and(|tool| tool.refused.contains_key(&written)) {
        return Some(Against::Refused);
    }
    let Some(baseline) = known.and_then(|tool| tool.baseline.as_ref()) else {
        return Some(match is_first_sight || options.new_tools == NewTools::Tofu {
            true => Against::FirstSight,
            false => Against::NewTool,
        });
    };
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
    options: &GateOptions,
) {
    let mut due: Vec<(&str, &Definition, Against)> = Vec::new();
    for (name, same_name) in names {
        let against = against(name, same_name, record, is_first_sight, options);
        let (Some(against), Some(declared)) = (against, same_name.first()) else {
            continue;
        };
        let is_made = compared
            .get(*name)
            .is_some_and(|last| last.is_of(&against, &declared.definition));
        if !is_made {
            due.push((name, &declared.definition, against));
        }
    }
    let made = parallel::map(&due, |(name, definition, against)| Compared {
        against: against.clone(),
        digest: definition.digest(),
        meta: definition.meta().map(|meta| meta.digest),
        outcome: compare(name, record.baseline(name).as_ref(), definition, against, options),
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
    options: &GateOptions,
    pass: &mut Pass<'d>,
) -> Standing {
    let definition = &declared.definition;
    let digest = definition.digest();
    let meta = definition.meta().map(|meta| meta.digest);
    let known = record.tools.get(name);
    let baseline = known.and_then(|tool| tool.baseline.as_ref());
    let written = digest.to_string();
    let Some(against) = against(name, same_name, record, pass.is_first_sight, options) else {
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
            &against,
            options,
        ),
    };
    let is_seen = known.is_some_and(|tool| tool.has_seen(&written));
    match &outcome {
        Outcome::Held(hold) => {
            let is_kept = known.is_some_and(|tool| tool.held.contains_key(&written));
            let waits_for_a_person = matches!(
                hold.class,
                HoldClass::Drift | HoldClass::NewTool | HoldClass::FirstSight
            );
            let is_noted = known.is_some_and(|tool| tool.held_now.as_ref() == Some(&written));
            if !is_seen && (waits_for_a_person || hold.class == HoldClass::Unreadable) {
                pass.unknown.push(declared);
            }
            if waits_for_a_person && !is_kept || is_kept && !is_noted {
                let codes = hold.reasons.iter().map(|reason| reason.code).collect();
                pass.steps.push((declared, Step::Hold(codes)));
            }
            let event = Event::Withheld(Hold::clone(hold));
            pass.events.push(("withheld", written.clone(), event));
            Standing::Held(Arc::clone(hold))
        }
        Outcome::Proceeds { changes, notes } => {
            match baseline {
                None => {
                    let via = match pass.is_first_sight {
                        true => Via::FirstSight,
                        false => Via::NewTool,
                    };
                    pass.pinned += 1;
                    pass.steps.push((declared, Step::Pin(via)));
                    pass.unknown.push(declared);
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
                        pass.unknown.push(declared);
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

/// An element of a list as a tool; `None` for one that is no object or has no name.
fn declared(item: &str) -> Option<Declared> {
    let Member { name, definition, .. } = Member::read(MemberKind::Tool, item);
    let name = match name.is_empty() {
        false => name,
        // Too deep to be read whole, or truly without a name.
        true => {
            let [name] = members(item, ["name"]).ok()?;
            string(name?)?.into_owned()
        }
    };
    Some(Declared { name, definition })
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
    standings: &HashMap<String, Standing>,
    without_meta: &BTreeSet<String>,
    posture: Posture,
) -> Fate {
    if posture == Posture::Monitor {
        return Fate::Shown;
    }
    let Some(Declared { name, definition }) = element else {
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
            Some(Declared { name, definition }) => {
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
