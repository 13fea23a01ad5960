//! The rules that make findings of a declaration, one function for each family of classes.
//!
//! Invariant: a rule only adds; the one finding that depends on the others (a place alone reads files) comes last.

use super::{Class, near};
use crate::action::payment_verb;
use crate::declaration::{
    Confidence, Declaration, Evidence, OBJECT_REACH, Parameter, Source, Verb, credentials, quoted,
};
use crate::words::{Sense, Words};
use Confidence::{High, Low, Medium};

type Findings = Vec<(Class, Evidence)>;

/// Everything that a declaration shows, in no particular order.
pub(super) fn findings(declaration: &Declaration<'_>) -> Findings {
    let mut findings = Findings::new();
    deletes(declaration, &mut findings);
    secrets(declaration, &mut findings);
    runs(declaration, &mut findings);
    reaches_the_network(declaration, &mut findings);
    uses_databases(declaration, &mut findings);
    writes(declaration, &mut findings);
    sends_and_pays(declaration, &mut findings);
    sees(declaration, &mut findings);
    hints(declaration, &mut findings);
    reads_files(declaration, &mut findings);
    findings
}

fn add(findings: &mut Findings, class: Class, source: Source, confidence: Confidence, detail: String) {
    let evidence = Evidence {
        source,
        detail,
        confidence,
    };
    findings.push((class, evidence));
}

fn add_verb(findings: &mut Findings, class: Class, confidence: Confidence, verb: &Verb) {
    add(
        findings,
        class,
        verb.source,
        confidence.min(verb.confidence),
        quoted(&verb.word),
    );
}

fn add_parameter(findings: &mut Findings, class: Class, confidence: Confidence, parameter: &Parameter<'_>) {
    add(
        findings,
        class,
        Source::Parameter,
        confidence,
        parameter.describe(),
    );
}

fn verbs<'a>(declaration: &'a Declaration<'_>, sense: Sense) -> impl Iterator<Item = &'a Verb> {
    declaration.verbs.iter().filter(move |verb| verb.is(sense))
}

fn any_parameter(declaration: &Declaration<'_>, sense: Sense) -> bool {
    declaration
        .parameters
        .iter()
        .any(|parameter| parameter.words.ends_with(sense) && parameter.takes_text())
}

fn deletes(declaration: &Declaration<'_>, findings: &mut Findings) {
    for verb in verbs(declaration, Sense::Delete) {
        // What is dropped on a page is not dropped from a database.
        let is_loose = verb.word == "drop"
            && !declaration.name.any(Sense::Droppable)
            && !declaration.description.any(Sense::Droppable);
        let confidence = if is_loose { Low } else { verb.confidence };
        add_verb(findings, Class::FsDelete, confidence, verb);
    }
}

fn secrets(declaration: &Declaration<'_>, findings: &mut Findings) {
    let name = &declaration.name;
    let in_name = (0..name.len()).find(|index| names_secret(name, *index));
    if let Some(index) = in_name {
        add(
            findings,
            Class::Credentials,
            Source::Name,
            High,
            quoted(name.text(index)),
        );
    }
    let prose = &declaration.description;
    for index in 0..prose.len() {
        let reads = [Sense::Read, Sense::List, Sense::Search, Sense::Make]
            .into_iter()
            .any(|sense| prose.has(index, sense));
        if !reads || (index.saturating_sub(3)..index).any(|before| prose.has(before, Sense::Not)) {
            continue;
        }
        let object = (index + 1..=index + OBJECT_REACH)
            .take_while(|next| !prose.begins_sentence(*next))
            .find(|next| says_secret(prose, index, *next));
        if let Some(object) = object {
            let confidence = if in_name.is_some() { High } else { Medium };
            let detail = format!("\"{} … {}\"", prose.text(index), prose.text(object));
            add(
                findings,
                Class::Credentials,
                Source::Description,
                confidence,
                detail,
            );
            break;
        }
    }
    for parameter in credentials(&declaration.outputs) {
        let detail = format!("answers with a credential: {}", parameter.describe());
        add(findings, Class::Credentials, Source::Output, Medium, detail);
    }
}

/// Whether a word of a tool's name says that it is about secrets.
fn names_secret(name: &Words, index: usize) -> bool {
    let after = |sense| index > 0 && name.has(index - 1, sense);
    if name.has(index, Sense::Secret) || name.has(index, Sense::Environment) {
        return true;
    }
    if name.has(index, Sense::Token) {
        // Counted tokens are words, and tokens with a price are coins.
        let is_other = after(Sense::Paging) || after(Sense::Answer) || name.has(index + 1, Sense::Paging);
        return !is_other;
    }
    name.has(index, Sense::Key) && after(Sense::KeyKind)
}

/// Whether a word of prose names a secret; tokens, keys and environments only with what makes them one.
fn says_secret(prose: &Words, verb: usize, index: usize) -> bool {
    let after = |sense| index > verb + 1 && prose.has(index - 1, sense);
    prose.has(index, Sense::Secret)
        || prose.has(index, Sense::Environment)
        || (prose.has(index, Sense::EnvironmentLong) && prose.has(index + 1, Sense::Variable))
        || (prose.has(index, Sense::Token) && after(Sense::TokenKind))
        || (prose.has(index, Sense::Key) && after(Sense::KeyKind))
}

fn runs(declaration: &Declaration<'_>, findings: &mut Findings) {
    for (parameter, confidence) in declaration.code_parameters() {
        add_parameter(findings, Class::Exec, confidence, parameter);
    }
    let name = &declaration.name;
    for verb in verbs(declaration, Sense::Execute) {
        let is_alone = name.len() == 1;
        let confidence = if verb.source == Source::Name && (is_alone || name.any(Sense::Code)) {
            High
        } else {
            Medium
        };
        if verb.source != Source::Description
            || near(&declaration.description, Sense::Code, verb.index, OBJECT_REACH).is_some()
        {
            add_verb(findings, Class::Exec, confidence, verb);
        }
    }
    let handles_process = |verb: &&Verb| verb.source == Source::Name && name.any(Sense::Process);
    for verb in verbs(declaration, Sense::Admin).filter(handles_process) {
        add_verb(findings, Class::Exec, Medium, verb);
    }
    for verb in verbs(declaration, Sense::Control).filter(handles_process) {
        add_verb(findings, Class::Exec, Medium, verb);
    }
    for verb in verbs(declaration, Sense::Install) {
        add_verb(findings, Class::Install, High, verb);
    }
    let starts = [Sense::Execute, Sense::Write, Sense::Control, Sense::Send].into_iter();
    let starts = starts
        .flat_map(|sense| verbs(declaration, sense))
        .find(|verb| verb.source == Source::Name);
    if let Some(agent) = name
        .find(Sense::Agent)
        .filter(|word| starts.is_some() || matches!(*word, "llm" | "sampling"))
    {
        add(findings, Class::AgentSpawn, Source::Name, High, quoted(agent));
    }
    for verb in verbs(declaration, Sense::Elevate) {
        add_verb(findings, Class::Privilege, High, verb);
    }
    let changes = [Sense::Write, Sense::Update]
        .into_iter()
        .flat_map(|sense| verbs(declaration, sense));
    for verb in changes.filter(|verb| verb.source == Source::Name && name.any(Sense::Permission)) {
        add_verb(findings, Class::Privilege, Medium, verb);
    }
}

fn reaches_the_network(declaration: &Declaration<'_>, findings: &mut Findings) {
    for parameter in declaration
        .parameters
        .iter()
        .filter(|parameter| parameter.is_address())
    {
        add_parameter(findings, Class::Net, High, parameter);
    }
    let told = declaration.parameters.iter();
    for parameter in told.filter(|parameter| parameter.is_outlet() && !parameter.is_address()) {
        add_parameter(findings, Class::Net, Medium, parameter);
    }
    for verb in verbs(declaration, Sense::Transfer) {
        add_verb(findings, Class::Net, High, verb);
    }
    let searches = [Sense::Search, Sense::Read, Sense::Transfer, Sense::List];
    let name = &declaration.name;
    // An API is the thing behind nearly every tool, and so says nothing in a name.
    let web = (0..name.len())
        .find(|index| name.has(*index, Sense::Web) && !matches!(name.text(*index), "api" | "rest" | "apis"));
    if let Some(web) = web.map(|index| name.text(index))
        && declaration
            .verbs
            .iter()
            .any(|verb| verb.source == Source::Name && searches.into_iter().any(|sense| verb.is(sense)))
    {
        add(findings, Class::Net, Source::Name, Medium, quoted(web));
    }
    let prose = &declaration.description;
    let found = (0..prose.len()).find(|index| {
        let is_searched = (index.saturating_sub(OBJECT_REACH)..=index + 2).any(|near| {
            near != *index && (prose.has(near, Sense::Search) || prose.has(near, Sense::Transfer))
        });
        let is_online = matches!(prose.text(*index), "web" | "internet" | "online");
        let is_request = prose.has(*index, Sense::Web)
            && matches!(prose.text(index + 1), "request" | "requests" | "call" | "calls");
        prose.has(*index, Sense::Web) && ((is_online && is_searched) || is_request)
    });
    if let Some(index) = found {
        let detail = quoted(&format!("{} {}", prose.text(index), prose.text(index + 1)));
        add(findings, Class::Net, Source::Description, Medium, detail);
    }
    let drives = declaration.name.find(Sense::Browser);
    let acts = verbs(declaration, Sense::Interact).next();
    let picks = any_parameter(declaration, Sense::Element);
    if let Some(word) = drives.filter(|word| word.starts_with("browser") || picks) {
        add(findings, Class::Browser, Source::Name, High, quoted(word));
    } else if let Some(verb) = acts.filter(|_| picks) {
        add_verb(findings, Class::Browser, Medium, verb);
    } else if let Some(verb) = declaration.verbs.iter().find(|verb| verb.word == "navigate") {
        add_verb(findings, Class::Browser, Medium, verb);
    }
}

fn uses_databases(declaration: &Declaration<'_>, findings: &mut Findings) {
    for parameter in declaration.statement_parameters() {
        add_parameter(findings, Class::DbWrite, High, parameter);
    }
    if declaration.statement_parameters().next().is_some() {
        return;
    }
    let name = &declaration.name;
    let in_name = name.find(Sense::Database).or_else(|| name.find(Sense::Statement));
    let by_parameter = declaration.parameters.iter().find(|parameter| {
        parameter.words.len() == 1 && parameter.words.any(Sense::Database) && parameter.takes_text()
    });
    let detail = match (in_name, by_parameter) {
        (Some(word), _) => (Source::Name, quoted(word)),
        (None, Some(parameter)) => (Source::Parameter, parameter.describe()),
        (None, None) => return,
    };
    let is = |senses: &[Sense]| {
        senses
            .iter()
            .any(|sense| verbs(declaration, *sense).next().is_some())
    };
    if is(&[Sense::Write, Sense::Update, Sense::Delete, Sense::Execute]) {
        add(findings, Class::DbWrite, detail.0, Medium, detail.1.clone());
    } else if is(&[Sense::Read, Sense::List, Sense::Search, Sense::Answer]) {
        add(findings, Class::DbRead, detail.0, Medium, detail.1);
    }
}

/// Whether a verb brings something into being that could be kept.
fn makes(verb: &Verb) -> bool {
    verb.is(Sense::Make) || verb.is(Sense::Capture) || verb.word == "download"
}

fn writes(declaration: &Declaration<'_>, findings: &mut Findings) {
    let has_place = declaration.parameters.iter().any(Parameter::is_place);
    let has_content = any_parameter(declaration, Sense::Content);
    // The place that a command runs in is not where something is written.
    let runs = findings.iter().any(|(class, _)| *class == Class::Exec);
    for parameter in &declaration.parameters {
        if let Some(confidence) = parameter.destination() {
            add_parameter(findings, Class::FsWrite, confidence, parameter);
        }
    }
    let all = declaration.verbs.iter();
    for verb in all.filter(|verb| verb.is(Sense::Write) || verb.is(Sense::Update) || makes(verb)) {
        // What is made, taken or brought is only said to be written where a place for it is named.
        let is_written = verb.is(Sense::Write) || verb.is(Sense::Update) || (has_place && !runs);
        if is_written {
            let confidence = if has_place || has_content { High } else { Medium };
            add_verb(findings, Class::FsWrite, confidence, verb);
        }
    }
    for verb in verbs(declaration, Sense::Admin) {
        add_verb(findings, Class::FsWrite, Medium, verb);
    }
}

fn sends_and_pays(declaration: &Declaration<'_>, findings: &mut Findings) {
    let name = &declaration.name;
    let has_recipient = declaration
        .parameters
        .iter()
        .any(|parameter| parameter.words.ends_with(Sense::Recipient) && parameter.takes_text());
    for verb in verbs(declaration, Sense::Send).filter(|verb| !verb.is(Sense::Transfer)) {
        let is_message = has_recipient || verb.is(Sense::Message) || name.any(Sense::Message);
        add_verb(
            findings,
            Class::MessageSend,
            if is_message { High } else { Medium },
            verb,
        );
    }
    for verb in
        verbs(declaration, Sense::Write).filter(|verb| verb.source == Source::Name && !verb.is(Sense::Send))
    {
        let last = name.len().saturating_sub(1);
        let makes_message = (verb.index + 1..=last)
            .any(|index| name.has(index, Sense::Message) && name.text(index) != "post")
            || (verb.index == last && verb.index > 0 && name.has(last - 1, Sense::Message));
        if makes_message {
            add_verb(findings, Class::MessageSend, Medium, verb);
        }
    }
    if let Some(verb) = payment_verb(declaration) {
        let confidence = if verb.is(Sense::Pay) { High } else { Medium };
        add_verb(findings, Class::Payment, confidence, verb);
    }
}

fn sees(declaration: &Declaration<'_>, findings: &mut Findings) {
    let name = &declaration.name;
    if let Some(word) = name.find(Sense::Clipboard) {
        add(findings, Class::Clipboard, Source::Name, High, quoted(word));
    }
    // A picture of a page is no picture of the desk.
    let is_page = findings
        .iter()
        .any(|(class, _)| matches!(class, Class::Browser | Class::Net))
        || ["selector", "page", "element", "width"].iter().any(|known| {
            declaration
                .parameters
                .iter()
                .any(|parameter| parameter.words.text(0) == *known)
        });
    let captures =
        verbs(declaration, Sense::Capture).next().is_some() || name.find(Sense::Screen) == Some("screenshot");
    if let Some(word) = name.find(Sense::Screen).filter(|_| captures && !is_page) {
        add(findings, Class::Screen, Source::Name, High, quoted(word));
    }
}

/// The server's own claims, where they raise. What they promise is looked at nowhere.
fn hints(declaration: &Declaration<'_>, findings: &mut Findings) {
    let hints = declaration.hints;
    if hints.destructive == Some(true) {
        add(
            findings,
            Class::FsDelete,
            Source::Hint,
            High,
            "destructiveHint is true".to_owned(),
        );
    }
    if hints.open_world == Some(true) {
        add(
            findings,
            Class::Net,
            Source::Hint,
            Low,
            "openWorldHint is true".to_owned(),
        );
    }
    if hints.read_only == Some(false) {
        add(
            findings,
            Class::FsWrite,
            Source::Hint,
            Low,
            "readOnlyHint is false".to_owned(),
        );
    }
}

/// A place to read: with a reading verb always, alone only for a tool that shows nothing else.
fn reads_files(declaration: &Declaration<'_>, findings: &mut Findings) {
    let places: Vec<&Parameter<'_>> = declaration
        .parameters
        .iter()
        .filter(|parameter| parameter.is_place())
        .collect();
    let Some(place) = places.first() else { return };
    let reads = [Sense::Read, Sense::List, Sense::Search].into_iter();
    let verb = reads
        .flat_map(|sense| verbs(declaration, sense))
        .find(|verb| verb.source == Source::Name);
    let shows_other = findings
        .iter()
        .any(|(_, evidence)| evidence.source != Source::Hint);
    match verb {
        Some(verb) => {
            add_verb(findings, Class::FsRead, High, verb);
            add_parameter(findings, Class::FsRead, High, place);
        }
        None if !shows_other => add_parameter(findings, Class::FsRead, Medium, place),
        None => {}
    }
}
