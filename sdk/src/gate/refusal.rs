//! What a client gets in place of an answer: the text for its agent, the data for programs.
//!
//! Invariants: evidence in a neutral voice, no order to the model and no banner; whatever the server or the model wrote
//! is made visible, cut to a length and stands between quotation marks that it can't close ([`quoted`]), each value on the
//! line of its own label; the text never outgrows [`TEXT`]. Text that carries a marker is named and never repeated, here nor
//! in the data: it was held so that the model would not read it.

mod data;
mod values;

use mcpindex_contract::action::{Action, Blast, Reversibility};
use mcpindex_contract::change::{Change, ChangeKind, Direction};
use mcpindex_contract::markers::Marker;
use mcpindex_contract::posture::{Decision, Reason};

use crate::gate::danger::Danger;
use crate::gate::hold::{Hold, HoldClass};
use crate::visible::visible_within;
use values::{Told, Value, tellable};

/// A held call or withheld result (JSON-RPC error −32010).
pub const HELD: i64 = -32010;
/// A fault of the gate's own (−32012).
pub const INTERNAL: i64 = -32012;
/// A listing that is not relayed, since it could not be read or judged (−32014).
pub const LIST_NOT_RELAYED: i64 = -32014;

/// The longest text for an agent, in characters.
pub const TEXT: usize = 2_000;
/// The longest value that somebody else wrote, in characters.
pub const VALUE: usize = 120;
/// The longest sentence of a reason: ours, but with a path or a system's message in it.
const SENTENCE: usize = 300;

/// The text for an agent, lines of at most some 200 characters, [`TEXT`] in all.
pub fn agent_text(hold: &Hold) -> String {
    let opening = opening(hold);
    let closing = closing(hold);
    let fixed = length(&opening) + length(&closing);
    // What says how much is left out has its room too.
    let mut room = TEXT.saturating_sub(fixed + 80);
    let evidence = evidence(hold);
    let mut lines = opening;
    let mut left_out = 0;
    for piece in &evidence {
        let needed = length(piece);
        if left_out == 0 && needed <= room {
            room -= needed;
            lines.extend(piece.iter().cloned());
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        lines.push(format!("- {left_out} more, not shown here"));
    }
    lines.extend(closing);
    lines.join("\n")
}

/// The one line for the person on stderr.
pub fn person_line(hold: &Hold) -> String {
    let (tool, server) = (named(&hold.tool), named(&hold.server));
    let verb = match (hold.decision, hold.class) {
        (Decision::Proceed, _) => "would hold",
        (_, HoldClass::Result) => "withheld a result of",
        _ => "held",
    };
    let mut reasons: Vec<&Reason> = hold.reasons.iter().collect();
    reasons.sort_by_key(|reason| Danger::of_code(reason.code));
    let own = class_sentence(hold.class);
    let why = match (hold.class, reasons.first()) {
        (HoldClass::OrganisationRefused | HoldClass::ApprovalOver, _) => decided(hold),
        (HoldClass::Drift | HoldClass::FirstSight | HoldClass::PinsUnusable, Some(first)) => {
            visible_within(&first.sentence, SENTENCE)
        }
        _ => own.to_owned(),
    };
    let end = if why.ends_with('.') { "" } else { "." };
    let more = match (hold.class, reasons.len()) {
        (HoldClass::Drift | HoldClass::FirstSight, 2) => " 1 more reason.".to_owned(),
        (HoldClass::Drift | HoldClass::FirstSight, many @ 3..) => format!(" {} more reasons.", many - 1),
        _ => String::new(),
    };
    let next = match next_step(hold.class) {
        Some(command) => format!(" See `{command}`."),
        None => String::new(),
    };
    format!("mcpindex: {verb} {tool} on {server}: {why}{end}{more}{next}")
}

/// The whole answer (one JSON-RPC message) to the request of this id (JSON text).
pub fn held_answer(id: &str, hold: &Hold) -> Vec<u8> {
    data::answer(id, HELD, &agent_text(hold), Some(&data::data(hold)))
}

/// Any other refusal: an error with this code and message, and no data of the server's.
pub fn error_answer(id: &str, code: i64, message: &str) -> Vec<u8> {
    data::answer(id, code, message, None)
}

/// `text` between marks that no character of it can be taken for, at most `limit` characters of it.
pub fn quoted(text: &str, limit: usize) -> String {
    let mut inside = String::new();
    for (position, character) in text.chars().enumerate() {
        match character {
            // Would sit on our own mark and change how it looks.
            _ if position == 0 && is_combining(character) => escape(&mut inside, character),
            _ if is_quotation_mark(character) => escape(&mut inside, character),
            _ => inside.push(character),
        }
        // Enough to fill the limit however it is shown.
        if position > limit {
            break;
        }
    }
    format!("“{}”", visible_within(&inside, limit))
}

/// A name on its own where nobody could read it as words of ours, [`quoted`] otherwise.
pub fn named(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_-./:@~?=&".contains(character);
    match !name.is_empty() && name.len() <= VALUE && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => quoted(name, VALUE),
    }
}

fn escape(text: &mut String, character: char) {
    text.push_str(&character.escape_unicode().to_string());
}

/// Whatever may pass for one of the two marks of [`quoted`].
fn is_quotation_mark(character: char) -> bool {
    matches!(
        character,
        '\u{201c}'..='\u{201f}'
            | '\u{2033}'
            | '\u{2036}'
            | '\u{2ba}'
            | '\u{2dd}'
            | '\u{2ee}'
            | '\u{5f4}'
            | '\u{275d}'..='\u{275e}'
            | '\u{2e42}'
            | '\u{301d}'..='\u{301f}'
            | '\u{ff02}'
            | '\u{1f676}'..='\u{1f678}'
    )
}

fn is_combining(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

/// In characters, each line with its end.
fn length(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count() + 1).sum()
}

fn opening(hold: &Hold) -> Vec<String> {
    let (tool, server) = (quoted(&hold.tool, VALUE), named(&hold.server));
    let first = match hold.class {
        HoldClass::Result => {
            format!("The result of {tool} on {server} was withheld. The call reached the server and ran.")
        }
        _ => format!("The call of {tool} on {server} was held. It did not reach the server."),
    };
    let second = match hold.class {
        HoldClass::OrganisationRefused | HoldClass::ApprovalOver => decided(hold),
        class => class_sentence(class).to_owned(),
    };
    vec![first, second]
}

/// What the organisation decided, of a hold that is a matter of that.
fn decided(hold: &Hold) -> String {
    let own = hold.reasons.iter().find(|reason| is_decided(reason.code));
    own.map_or_else(|| class_sentence(hold.class).to_owned(), sentence)
}

fn is_decided(code: &str) -> bool {
    matches!(code, "refused" | "approval-withdrawn" | "approval-expired")
}

/// What the class says, as a sentence.
fn class_sentence(class: HoldClass) -> &'static str {
    match class {
        HoldClass::Drift => "The tool changed since it was pinned.",
        HoldClass::NewTool => "The server did not have this tool when its tools were pinned.",
        HoldClass::FirstSight => "The tool was seen for the first time, and no person has approved it.",
        HoldClass::Duplicate => "The server lists several different tools of this name.",
        HoldClass::Unreadable => {
            "The tool's definition can be read in more than one way, or not at all, so nothing can be pinned to it."
        }
        HoldClass::Refused => "A person refused this definition of the tool.",
        HoldClass::OrganisationRefused => "The organisation refused this definition of the tool.",
        HoldClass::ApprovalOver => "The organisation approves what the tool is pinned to no more.",
        HoldClass::NotListed => "The server's last whole listing has no tool of this name.",
        HoldClass::NoListing => {
            "There is no whole and current listing of the server's tools to judge the call by."
        }
        HoldClass::PinsUnusable => {
            "The pins of this server can't be used, so there is nothing to judge the call by."
        }
        HoldClass::Result => {
            "The result carries text that addresses the model or points to a way out for data."
        }
        HoldClass::Drill => "This hold was staged (`mcpindex wire --drill`): the tool did not change.",
    }
}

/// Where a person sees it, or nothing where there is no decision to take.
fn next_step(class: HoldClass) -> Option<&'static str> {
    match class {
        HoldClass::Drift
        | HoldClass::NewTool
        | HoldClass::FirstSight
        | HoldClass::Duplicate
        | HoldClass::Unreadable
        | HoldClass::Refused
        | HoldClass::OrganisationRefused
        | HoldClass::ApprovalOver => Some("mcpindex review"),
        HoldClass::PinsUnusable => Some("mcpindex status"),
        HoldClass::NotListed | HoldClass::NoListing | HoldClass::Result | HoldClass::Drill => None,
    }
}

fn closing(hold: &Hold) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(action) = &hold.action {
        lines.push(format!(
            "A call of it, by its declaration: {}; blast radius {}; {}.",
            action.effective.name(),
            blast(action),
            reversibility(action)
        ));
    }
    let digests: Vec<String> = [
        ("pinned", &hold.approved_digest),
        ("declared now", &hold.declared_digest),
    ]
    .into_iter()
    .filter_map(|(when, digest)| Some(format!("{when} {}", short_digest(digest.as_deref()?))))
    .collect();
    if !digests.is_empty() {
        lines.push(format!("Digests: {}.", digests.join(", ")));
    }
    lines.push(
        match hold.class {
            HoldClass::NotListed => "A tool that the server announces later is judged when it is called again.",
            HoldClass::NoListing => "The listing is asked for again at the next call.",
            HoldClass::PinsUnusable => "`mcpindex status` names the file and the way out, on the machine of the gate.",
            HoldClass::Result => "The tool's own record is unchanged, and later calls are judged as before.",
            HoldClass::Drill => "It shows what a hold looks like. The next call passes as usual.",
            HoldClass::Duplicate | HoldClass::Unreadable => {
                "It stays held while the server declares it so. A person sees it with `mcpindex review`, on the machine of the gate."
            }
            HoldClass::OrganisationRefused => {
                "An approver of the organisation decides otherwise, at its index. An approval on this machine does not release it."
            }
            HoldClass::ApprovalOver => {
                "An approver of the organisation decides at its index, or a person with `mcpindex review`, on the machine of the gate."
            }
            HoldClass::Drift | HoldClass::NewTool | HoldClass::FirstSight | HoldClass::Refused => {
                "A person sees it whole and decides with `mcpindex review`, on the machine of the gate."
            }
        }
        .to_owned(),
    );
    lines
}

fn blast(action: &Action) -> &'static str {
    match action.blast {
        Blast::Low => "low",
        Blast::Medium => "medium",
        Blast::High => "high",
    }
}

fn reversibility(action: &Action) -> &'static str {
    match action.reversibility {
        Reversibility::Reversible => "can be taken back",
        Reversibility::HardToReverse => "hard to take back",
        Reversibility::Irreversible => "can't be taken back",
    }
}

/// Enough of a written digest to compare two by eye.
pub fn short_digest(digest: &str) -> String {
    let digits = digest.find(':').map_or(0, |colon| colon + 1);
    digest.chars().take(digits + 12).collect()
}

/// What there is to say, in pieces of some lines, the most dangerous first.
fn evidence(hold: &Hold) -> Vec<Vec<String>> {
    let mut pieces: Vec<(Danger, Vec<String>)> = Vec::new();
    for marker in one_of_each_class(&hold.markers) {
        pieces.push((Danger::Marker, vec![marker_line(marker)]));
    }
    for reason in distinct(&hold.reasons) {
        if !is_told_elsewhere(reason, hold) {
            let line = format!("- {}{}", sentence(reason), place(reason.code, &reason.pointer));
            pieces.push((Danger::of_code(reason.code), vec![line]));
        }
    }
    for change in &hold.changes {
        // What is new is told by its own sentence; its whole definition is for the review.
        if change.kind != ChangeKind::ToolAdded {
            pieces.push((danger(change, hold), change_lines(change, hold)));
        }
    }
    pieces.sort_by_key(|(danger, _)| *danger);
    pieces.into_iter().map(|(_, lines)| lines).collect()
}

/// What is only noted comes last, whatever its kind.
fn danger(change: &Change, hold: &Hold) -> Danger {
    match is_held_for(change, hold) {
        true => Danger::of_change(change),
        false => Danger::Benign,
    }
}

fn is_held_for(change: &Change, hold: &Hold) -> bool {
    let names = |reason: &Reason| reason.code == change.kind.name() && reason.pointer == change.pointer;
    hold.reasons.iter().any(names)
}

/// Each reason once, though it may hold at several places that look the same.
fn distinct(reasons: &[Reason]) -> Vec<&Reason> {
    let mut kept: Vec<&Reason> = Vec::new();
    for reason in reasons {
        if !kept.contains(&reason) {
            kept.push(reason);
        }
    }
    kept
}

/// A reason that a change, a marker or the class says already.
fn is_told_elsewhere(reason: &Reason, hold: &Hold) -> bool {
    let is_change = hold
        .changes
        .iter()
        .any(|change| change.kind.name() == reason.code && change.pointer == reason.pointer);
    let is_marker = matches!(
        reason.code,
        "marker-introduced" | "asks-for-context" | "first-sight-marker"
    );
    let is_class = match hold.class {
        HoldClass::NewTool => reason.code == "new-tool",
        HoldClass::Duplicate
        | HoldClass::Refused
        | HoldClass::NotListed
        | HoldClass::Result
        | HoldClass::Drill => true,
        HoldClass::Unreadable => reason.code == "unreadable",
        HoldClass::OrganisationRefused | HoldClass::ApprovalOver => is_decided(reason.code),
        HoldClass::Drift | HoldClass::FirstSight | HoldClass::NoListing | HoldClass::PinsUnusable => false,
    };
    is_change || is_class || (is_marker && !hold.markers.is_empty())
}

fn sentence(reason: &Reason) -> String {
    visible_within(&reason.sentence, SENTENCE)
}

/// ` [code at pointer]`
fn place(code: &str, pointer: &str) -> String {
    match pointer {
        "" => format!(" [{code}]"),
        place => format!(" [{code} at {}]", named(&tellable(place))),
    }
}

/// One example of a class is enough for ten seconds.
fn one_of_each_class(markers: &[Marker]) -> Vec<&Marker> {
    let mut examples: Vec<&Marker> = Vec::new();
    for marker in markers {
        if examples.iter().all(|example| example.class != marker.class) {
            examples.push(marker);
        }
    }
    examples
}

fn marker_line(marker: &Marker) -> String {
    let code = format!("marker {}", marker.class.name());
    format!("- {}{}", marker.class.sentence(), place(&code, &marker.pointer))
}

fn change_lines(change: &Change, hold: &Hold) -> Vec<String> {
    let place = place(change.kind.name(), &change.pointer);
    if !is_held_for(change, hold) {
        return vec![format!("- Noted: {}{place}", change.kind.sentence())];
    }
    let mut lines = vec![format!("- {}{place}", change.kind.sentence())];
    let told = Told::of(change, hold);
    if change.before.is_some() || change.after.is_some() {
        lines.push(format!("    before: {}", told.before.line()));
        lines.push(format!("    after:  {}", told.after.line()));
    }
    if let Value::Text(witness) = &told.witness {
        let label = match change.kind.direction() {
            Direction::Meaning => "a result that is allowed now and was not:",
            _ => "a call that was accepted and is refused now:",
        };
        // JSON of our own making: a quotation mark inside one of its strings is escaped.
        lines.push(format!("    {label} {}", visible_within(witness, VALUE)));
    }
    lines
}
