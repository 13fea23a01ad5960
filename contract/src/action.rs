//! What calling a tool does to the world, by its declaration: type of action, blast radius, reversibility, egress,
//! and how far it may run without a person.
//!
//! It is inference from words and schemas, not observation: a tool may do less or more than it says. The types and
//! their scale are those of the published client, with `payment` added and its known mistakes mended.
//!
//! Invariant: a server's hints can raise what is found here and never lower it, and where nothing matched the answer is
//! *unknown*, which is trusted least.

mod escalation;
mod scale;

pub use escalation::{Escalation, escalates};
pub use scale::{
    ActionType, Blast, Ceiling, Domain, Egress, Reversibility, RiskNote, Scope, Selection, SideEffect,
};

use crate::declaration::{Confidence, Declaration, Evidence, Parameter, Source, Verb, credentials, quoted};
use crate::definition::Definition;
use crate::words::Sense;
use scale::DRASTIC;

/// The properties past which a schema is said to reach everything.
const MANY_PROPERTIES: usize = 512;

/// What one tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Everything it is said to do, worst first; never empty.
    pub types: Vec<ActionType>,
    /// The worst of them.
    pub effective: ActionType,
    /// The worst of them when the server's own hints are left out.
    pub effective_without_hints: ActionType,
    /// What it is about.
    pub domain: Domain,
    /// How much one wrong call can reach.
    pub blast: Blast,
    /// What a call leaves behind.
    pub side_effect: SideEffect,
    /// Whether a call can be taken back.
    pub reversibility: Reversibility,
    /// Where data goes.
    pub egress: Egress,
    /// How far it may run without a person.
    pub ceiling: Ceiling,
    /// How its arguments pick what it acts on.
    pub selection: Selection,
    /// How much they reach.
    pub scope: Scope,
    /// A parameter that carries what is written, sent or run; its pointer.
    pub write_payload: Option<String>,
    /// A parameter that takes a credential; its pointer.
    pub credential: Option<String>,
    /// What a person should know.
    pub notes: Vec<RiskNote>,
    /// Why, in a fixed order.
    pub evidence: Vec<Evidence>,
    /// What was not looked at; empty for nearly every tool.
    pub warnings: Vec<String>,
}

/// What one tool does, by its definition.
pub fn classify(definition: &Definition) -> Action {
    of(&Declaration::of(definition))
}

/// What one tool does, by a declaration that was read already.
pub fn of(declaration: &Declaration<'_>) -> Action {
    let mut findings = Findings::default();
    findings.take_verbs(declaration);
    findings.take_parameters(declaration);
    let effective_without_hints = findings.worst();
    let by_words = findings.types.clone();
    findings.take_hints(declaration);
    let effective = findings.worst();

    let changes = by_words.iter().any(|kind| kind.changes());
    let domain = domain(declaration, &by_words);
    let write_payload = write_payload(declaration, changes || by_words.is_empty());
    let credential = credentials(&declaration.parameters).next();
    if let Some(parameter) = credential {
        findings.add_evidence(
            Source::Parameter,
            format!("takes a credential: {}", parameter.describe()),
            Confidence::High,
        );
    }
    let outlet = declaration
        .parameters
        .iter()
        .find(|parameter| parameter.is_outlet());
    if let Some(parameter) = outlet {
        findings.add_evidence(
            Source::Parameter,
            format!("sends to an address: {}", parameter.describe()),
            Confidence::High,
        );
    }
    let moves_money =
        effective_without_hints == ActionType::Payment || (domain == Domain::Payments && changes);
    let is_high = moves_money || by_words.contains(&ActionType::Execute) || (changes && credential.is_some());
    let only_reads = !by_words.is_empty() && !changes;
    let blast = match (
        is_high,
        only_reads && domain <= Domain::Data && write_payload.is_none(),
    ) {
        (true, _) => Blast::High,
        (false, true) => Blast::Low,
        (false, false) => Blast::Medium,
    };
    let types = findings.types_worst_first();
    let is_in = |wanted: &[ActionType]| types.iter().any(|kind| wanted.contains(kind));
    let sends = is_in(&[ActionType::Send]) || (domain == Domain::Comms && changes) || outlet.is_some();
    let side_effect = if is_in(&DRASTIC) || moves_money {
        SideEffect::Destructive
    } else if sends {
        SideEffect::Outbound
    } else if only_reads && write_payload.is_none() && types.iter().all(|kind| !kind.changes()) {
        SideEffect::None
    } else {
        SideEffect::LocalWrite
    };
    let reversibility = if side_effect == SideEffect::Destructive || is_in(&[ActionType::Auth]) {
        Reversibility::Irreversible
    } else if side_effect == SideEffect::Outbound || is_in(&[ActionType::Write, ActionType::Update]) {
        Reversibility::HardToReverse
    } else {
        Reversibility::Reversible
    };
    let address = declaration
        .parameters
        .iter()
        .find(|parameter| parameter.is_address());
    if let Some(parameter) = address {
        findings.add_evidence(
            Source::Parameter,
            format!("goes to an address: {}", parameter.describe()),
            Confidence::High,
        );
    }
    let egress = if sends || address.is_some() {
        Egress::External
    } else if side_effect == SideEffect::None {
        Egress::None
    } else {
        Egress::Internal
    };
    let ceiling = ceiling(
        effective_without_hints,
        &types,
        blast,
        side_effect,
        reversibility,
        egress,
    );
    let mut notes = Vec::new();
    if declaration.hints.read_only == Some(true)
        && (changes || side_effect != SideEffect::None)
        && !by_words.is_empty()
    {
        notes.push(RiskNote::ReadOnlyHintContradicted);
    }
    if side_effect == SideEffect::Destructive {
        notes.push(RiskNote::NoUndo);
    }
    let (selection, scope) = selection(declaration);
    findings.evidence.sort();
    findings.evidence.dedup();
    Action {
        effective,
        effective_without_hints,
        domain,
        blast,
        side_effect,
        reversibility,
        egress,
        ceiling,
        selection,
        scope,
        write_payload,
        credential: credential.map(|parameter| parameter.pointer.clone()),
        notes,
        evidence: findings.evidence,
        warnings: declaration.warnings.clone(),
        types,
    }
}

/// The verb by which a tool moves money.
pub(crate) fn payment_verb<'a>(declaration: &'a Declaration<'_>) -> Option<&'a Verb> {
    let mut verbs = declaration.verbs.iter();
    verbs.find(|verb| kind_of(verb, declaration) == ActionType::Payment)
}

impl Action {
    /// Whether the tool deletes, pays, runs code or administers, by its words or by its own hint.
    pub fn is_drastic(&self) -> bool {
        self.effective.is_drastic()
    }
}

#[derive(Default)]
struct Findings {
    types: Vec<ActionType>,
    evidence: Vec<Evidence>,
}

impl Findings {
    fn add(&mut self, kind: ActionType, source: Source, detail: String, confidence: Confidence) {
        if !self.types.contains(&kind) {
            self.types.push(kind);
        }
        self.add_evidence(source, format!("{kind}: {detail}"), confidence);
    }

    fn add_evidence(&mut self, source: Source, detail: String, confidence: Confidence) {
        self.evidence.push(Evidence {
            source,
            detail,
            confidence,
        });
    }

    fn worst(&self) -> ActionType {
        self.types.iter().copied().max().unwrap_or(ActionType::Unknown)
    }

    fn types_worst_first(&self) -> Vec<ActionType> {
        let mut types = self.types.clone();
        types.sort_unstable_by(|left, right| right.cmp(left));
        if types.is_empty() {
            types.push(ActionType::Unknown);
        }
        types
    }

    fn take_verbs(&mut self, declaration: &Declaration<'_>) {
        for verb in &declaration.verbs {
            let kind = kind_of(verb, declaration);
            // Prose that says less than the name adds nothing.
            if verb.source == Source::Description && !self.types.is_empty() && kind < ActionType::Update {
                continue;
            }
            self.add(kind, verb.source, quoted(&verb.word), verb.confidence);
        }
    }

    fn take_parameters(&mut self, declaration: &Declaration<'_>) {
        let code = declaration.code_parameters().into_iter();
        // `code` in a tool that runs nothing may be a country's.
        for (parameter, confidence) in code.filter(|(_, confidence)| *confidence == Confidence::High) {
            self.add(
                ActionType::Execute,
                Source::Parameter,
                parameter.describe(),
                confidence,
            );
        }
        for parameter in declaration.statement_parameters() {
            self.add(
                ActionType::Execute,
                Source::Parameter,
                parameter.describe(),
                Confidence::High,
            );
        }
    }

    /// Hints that raise. Those that promise less are looked at nowhere.
    fn take_hints(&mut self, declaration: &Declaration<'_>) {
        if declaration.hints.destructive == Some(true) {
            self.add(
                ActionType::Delete,
                Source::Hint,
                "destructiveHint is true".to_owned(),
                Confidence::High,
            );
        }
        // Nothing known stays nothing known: a hint that it changes things must not make it look known.
        if declaration.hints.read_only == Some(false) && !self.types.is_empty() {
            self.add(
                ActionType::Update,
                Source::Hint,
                "readOnlyHint is false".to_owned(),
                Confidence::Low,
            );
        }
    }
}

/// What one verb means in this tool.
fn kind_of(verb: &Verb, declaration: &Declaration<'_>) -> ActionType {
    let name = &declaration.name;
    let names_money = name.ends_with(Sense::Money) && verb.index + 1 < name.len();
    let has_amount = declaration
        .parameters
        .iter()
        .any(|parameter| parameter.words.ends_with(Sense::Amount));
    if verb.is(Sense::Delete) {
        return ActionType::Delete;
    }
    if verb.is(Sense::Pay) || (verb.word == "transfer" && (names_money || has_amount)) {
        return ActionType::Payment;
    }
    if verb.is(Sense::Execute) || verb.is(Sense::Install) {
        return ActionType::Execute;
    }
    if verb.is(Sense::Evaluate) {
        let takes_code = !declaration.code_parameters().is_empty();
        return if takes_code {
            ActionType::Execute
        } else {
            ActionType::Read
        };
    }
    if verb.is(Sense::Admin) {
        return ActionType::Admin;
    }
    if verb.is(Sense::Auth) {
        return ActionType::Auth;
    }
    let makes = [
        Sense::Write,
        Sense::Send,
        Sense::Update,
        Sense::Make,
        Sense::Control,
    ];
    if verb.source == Source::Name
        && names_money
        && makes.into_iter().any(|sense| verb.is(sense))
        && !verb.is(Sense::Update)
    {
        return ActionType::Payment;
    }
    let by_sense = [
        (
            Sense::Control,
            if verb.source == Source::Name && (name.any(Sense::Infra) || name.any(Sense::Process)) {
                ActionType::Admin
            } else {
                ActionType::Update
            },
        ),
        (Sense::Elevate, ActionType::Auth),
        (Sense::Send, ActionType::Send),
        (Sense::Write, ActionType::Write),
        (Sense::Update, ActionType::Update),
        (Sense::Make, ActionType::Write),
        (Sense::Interact, ActionType::Update),
        (Sense::Search, ActionType::Search),
        (Sense::List, ActionType::List),
    ];
    let known = by_sense.into_iter().find(|(sense, _)| verb.is(*sense));
    known.map_or(ActionType::Read, |(_, kind)| kind)
}

fn domain(declaration: &Declaration<'_>, types: &[ActionType]) -> Domain {
    let name = &declaration.name;
    let is = |sense| name.any(sense);
    if types.contains(&ActionType::Payment) || is(Sense::Billing) {
        Domain::Payments
    } else if types.contains(&ActionType::Admin) || is(Sense::Infra) {
        Domain::Infra
    } else if types.contains(&ActionType::Send) || is(Sense::Message) {
        Domain::Comms
    } else if types.iter().any(|kind| !is_about_no_data(*kind)) || is(Sense::Database) {
        Domain::Data
    } else {
        Domain::Unknown
    }
}

/// Running code and giving rights say nothing about what they are done to.
fn is_about_no_data(kind: ActionType) -> bool {
    matches!(kind, ActionType::Execute | ActionType::Auth)
}

/// The parameter that carries what is written, sent or run. What a tool that only reads calls `title` or `body` is a filter.
fn write_payload(declaration: &Declaration<'_>, may_change: bool) -> Option<String> {
    let code = declaration.code_parameters();
    let statement = declaration
        .statement_parameters()
        .map(|parameter| &parameter.pointer);
    let named = declaration.parameters.iter().filter(|parameter| {
        let words = &parameter.words;
        let strong = words.ends_with(Sense::Payload) && parameter.takes_free_text();
        let amount = words.ends_with(Sense::Payload) && parameter.takes_numbers();
        let weak = may_change && words.ends_with(Sense::Content) && parameter.takes_free_text();
        strong || amount || weak || parameter.is_outlet() || parameter.destination().is_some()
    });
    let found = named.map(|parameter| &parameter.pointer);
    let found = found
        .chain(statement)
        .chain(code.iter().map(|(parameter, _)| &parameter.pointer))
        .min();
    // What could not be looked at may hold one.
    found
        .cloned()
        .or_else(|| declaration.warnings.first().map(|_| String::new()))
}

fn ceiling(
    effective_without_hints: ActionType,
    types: &[ActionType],
    blast: Blast,
    side_effect: SideEffect,
    reversibility: Reversibility,
    egress: Egress,
) -> Ceiling {
    let is_final = reversibility == Reversibility::Irreversible;
    if effective_without_hints == ActionType::Unknown
        || types.contains(&ActionType::Execute)
        || (is_final && blast == Blast::High)
    {
        Ceiling::NeverUnattended
    } else if is_final || side_effect == SideEffect::Outbound {
        Ceiling::NeedsApproval
    } else if side_effect == SideEffect::LocalWrite
        || reversibility == Reversibility::HardToReverse
        || egress == Egress::External
    {
        Ceiling::Reversible
    } else {
        Ceiling::Discovery
    }
}

fn selection(declaration: &Declaration<'_>) -> (Selection, Scope) {
    let top: Vec<&Parameter<'_>> = declaration
        .parameters
        .iter()
        .filter(|parameter| parameter.is_top)
        .collect();
    let any = |test: &dyn Fn(&Parameter<'_>) -> bool| top.iter().any(|parameter| test(parameter));
    if top.is_empty() {
        (Selection::Literal, Scope::Narrow)
    } else if top.len() > MANY_PROPERTIES {
        (Selection::Wildcard, Scope::Unbounded)
    } else if any(&|parameter| parameter.words.len() == 1 && parameter.words.any(Sense::Pattern)) {
        (Selection::Glob, Scope::Unbounded)
    } else if any(&|parameter| parameter.takes_arrays()) {
        (Selection::Wildcard, Scope::Unbounded)
    } else if any(&|parameter| parameter.words.ends_with(Sense::Wide)) {
        (Selection::Wildcard, Scope::Broad)
    } else {
        (Selection::SingleArgument, Scope::Narrow)
    }
}
