//! The text of `explain`, for people: the verdicts first, then what changed and why it is held.
//!
//! Invariant: the server's words stand on lines of their own, behind a mark or indented under ours; a text too long to be
//! read here is cut, and said so.

use mcpindex::text_diff::{Part, Row, compare};
use mcpindex::visible::visible_within;
use mcpindex_contract::capability::{Capability, Class};
use mcpindex_contract::change::{Change, ChangeKind, Direction};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::markers::Marker;
use mcpindex_contract::posture::{Decision, Posture, Reason};

use super::super::output::{Output, Style};
use super::Explanation;

/// The longest line of a server's text, in characters.
const LINE: usize = 200;
/// The most lines of one change's text.
const MAX_ROWS: usize = 12;
/// The most changes, markers or reasons of one kind that are shown.
const MAX_ITEMS: usize = 60;

pub(super) fn print(explanation: &Explanation, output: &mut Output) {
    print_head(explanation, output);
    print_verdicts(explanation, output);
    print_changes(explanation, output);
    print_reasons(explanation, output);
    print_markers(explanation, output);
    print_classes(explanation, output);
    output.line(Style::Plain, "");
    output.line(
        Style::Faint,
        "inferred from declarations: nothing was called, and nothing here says that a tool is harmless",
    );
}

fn print_head(explanation: &Explanation, output: &mut Output) {
    let name = match explanation.name() {
        "" => "(no name)".to_owned(),
        name => visible_within(name, LINE),
    };
    output.line(Style::Strong, &name);
    let digests = match (&explanation.before, &explanation.after) {
        (None, None) => "there on neither side".to_owned(),
        (None, Some(after)) if explanation.is_first_sight => {
            format!("{}, seen for the first time", short(after.digest()))
        }
        (None, Some(after)) => format!("{}, new on a server that is pinned", short(after.digest())),
        (Some(before), None) => format!("{}, gone", short(before.digest())),
        (Some(before), Some(after)) if before.digest() == after.digest() => {
            format!("{}, the same", short(after.digest()))
        }
        (Some(before), Some(after)) => format!("{} → {}", short(before.digest()), short(after.digest())),
    };
    output.line(Style::Faint, &format!("  {digests}"));
    for (side, definition) in [("before", &explanation.before), ("after", &explanation.after)] {
        if let Some(reason) = definition.as_ref().and_then(Definition::no_digest) {
            output.line(Style::Alarm, &format!("  {side}: no definition digest: {reason}"));
        }
    }
}

fn print_verdicts(explanation: &Explanation, output: &mut Output) {
    output.line(Style::Plain, "");
    for posture in Posture::ALL {
        let verdict = explanation.verdict(posture);
        let why = match (posture, verdict.decision) {
            (Posture::Monitor, _) => match explanation.verdict(Posture::Guard).reasons.len() {
                0 => String::new(),
                held => format!("   noted: {held} that guard holds for"),
            },
            (_, Decision::Proceed) => match verdict.notes.len() {
                0 => String::new(),
                noted => format!("   noted: {noted}"),
            },
            (_, Decision::Hold | Decision::Inconclusive) => format!("   {}", codes(&verdict.reasons)),
        };
        let style = match verdict.decision {
            Decision::Proceed => Style::Plain,
            Decision::Hold | Decision::Inconclusive => Style::Alarm,
        };
        output.line(
            style,
            format!("  {:8} {:8}{why}", posture.name(), verdict.decision.name()).trim_end(),
        );
    }
}

/// Each code once, in order, with how often.
fn codes(reasons: &[Reason]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for reason in reasons {
        match counted.iter_mut().find(|(code, _)| *code == reason.code) {
            Some((_, count)) => *count += 1,
            None => counted.push((reason.code, 1)),
        }
    }
    let words: Vec<String> = counted
        .into_iter()
        .map(|(code, count)| match count {
            1 => code.to_owned(),
            many => format!("{code} ×{many}"),
        })
        .collect();
    words.join(", ")
}

fn print_changes(explanation: &Explanation, output: &mut Output) {
    let changes = &explanation.examination.changes;
    if changes.is_empty() {
        return;
    }
    output.line(Style::Plain, "");
    let plural = if changes.len() == 1 { "" } else { "s" };
    output.line(Style::Strong, &format!("{} change{plural}", changes.len()));
    for change in changes.iter().take(MAX_ITEMS) {
        print_change(change, output);
    }
    print_rest(changes.len(), output);
}

fn print_change(change: &Change, output: &mut Output) {
    let style = match change.kind.safety_relevant() {
        true => Style::Alarm,
        false => Style::Plain,
    };
    let pointer = visible_within(&change.pointer, LINE);
    let (kind, direction) = (change.kind.name(), change.kind.direction().name());
    output.line(style, format!("  {kind}  {direction}  {pointer}").trim_end());
    output.line(Style::Faint, &format!("    {}", change.kind.sentence()));
    if let Some(witness) = &change.witness {
        let says = match change.kind.direction() {
            Direction::Meaning => "a result that is allowed now and was not",
            _ => "a call that was accepted and is refused now",
        };
        output.line(
            Style::Plain,
            &format!("    {says}: {}", visible_within(witness, LINE)),
        );
    }
    if let Some(rule) = &change.rule {
        output.line(Style::Faint, &format!("    by the rule {rule}"));
    }
    // A tool that came or went is told by its name.
    if !matches!(change.kind, ChangeKind::ToolAdded | ChangeKind::ToolRemoved) {
        print_texts(change, output);
    }
}

fn print_texts(change: &Change, output: &mut Output) {
    let before = change.before.as_deref().unwrap_or_default();
    let after = change.after.as_deref().unwrap_or_default();
    let Ok(rows) = compare(before, after) else {
        output.line(
            Style::Faint,
            "    the texts are too long to be compared here; --json has them whole",
        );
        return;
    };
    let mut lines = Vec::new();
    for row in rows {
        if let Row::Changed { before, after } = row {
            lines.extend(before.map(|parts| marked("-", "[-", "-]", &parts)));
            lines.extend(after.map(|parts| marked("+", "{+", "+}", &parts)));
        }
    }
    let lines: Vec<&String> = lines.iter().filter(|line| line.len() > 2).collect();
    for line in lines.iter().take(MAX_ROWS) {
        output.line(Style::Plain, &format!("    {}", visible_within(line, LINE)));
    }
    if lines.len() > MAX_ROWS {
        let rest = lines.len() - MAX_ROWS;
        output.line(Style::Faint, &format!("    … {rest} lines more; --json has them"));
    }
}

/// One line with what the other side lacks between marks; a line that is all of it needs none.
fn marked(sign: &str, open: &str, close: &str, parts: &[Part]) -> String {
    let is_whole = parts
        .iter()
        .all(|part| part.changed || part.text.trim().is_empty());
    let text: String = parts
        .iter()
        .map(|part| match part.changed && !is_whole {
            true => format!("{open}{}{close}", part.text),
            false => part.text.clone(),
        })
        .collect();
    format!("{sign} {text}")
}

/// The reasons that are no change already told.
fn print_reasons(explanation: &Explanation, output: &mut Output) {
    let told = |reason: &&Reason| ChangeKind::from_name(reason.code).is_none();
    let guard = explanation.verdict(Posture::Guard);
    let reasons: Vec<&Reason> = guard.reasons.iter().filter(told).collect();
    if reasons.is_empty() {
        return;
    }
    output.line(Style::Plain, "");
    let heading = match explanation.examination.changes.is_empty() {
        true => "held under guard, since",
        false => "held under guard also, since",
    };
    output.line(Style::Strong, heading);
    for reason in reasons.iter().take(MAX_ITEMS) {
        let pointer = visible_within(&reason.pointer, LINE);
        output.line(Style::Plain, format!("  {}  {pointer}", reason.code).trim_end());
        output.line(Style::Faint, &format!("    {}", reason.sentence));
    }
    print_rest(reasons.len(), output);
}

fn print_markers(explanation: &Explanation, output: &mut Output) {
    let examination = &explanation.examination;
    let scan = &examination.scan;
    if scan.markers.is_empty() && !scan.incomplete {
        return;
    }
    output.line(Style::Plain, "");
    output.line(Style::Strong, &format!("markers, level {}", scan.level.name()));
    let is_new = |marker: &Marker| examination.introduced.contains(marker);
    let (new, standing): (Vec<&Marker>, Vec<&Marker>) =
        scan.markers.iter().partition(|marker| is_new(marker));
    for marker in new.iter().chain(&standing).take(MAX_ITEMS) {
        let when = match (is_new(marker), explanation.before.is_some()) {
            (true, true) => "  new",
            _ => "",
        };
        let pointer = visible_within(&marker.pointer, LINE);
        output.line(
            Style::Alarm,
            &format!("  {}  {pointer}{when}", marker.class.name()),
        );
        output.line(
            Style::Plain,
            &format!("    “{}”", visible_within(&marker.excerpt, LINE)),
        );
    }
    print_rest(scan.markers.len(), output);
    if scan.incomplete {
        output.line(Style::Alarm, "  the text was too large to be searched to its end");
    }
}

fn print_classes(explanation: &Explanation, output: &mut Output) {
    let action = &explanation.examination.action;
    let capabilities = &explanation.examination.capabilities;
    output.line(Style::Plain, "");
    output.line(Style::Strong, "what it can do, by its declaration");
    let known = |capability: &&Capability| capability.class != Class::Unknown;
    if !capabilities.classes.iter().any(|capability| known(&capability)) {
        output.line(Style::Plain, "  unknown: nothing in it says");
    }
    for capability in capabilities.classes.iter().filter(known) {
        let details: Vec<&str> = capability
            .evidence
            .iter()
            .map(|one| one.detail.as_str())
            .collect();
        let evidence = visible_within(&details.join("; "), LINE);
        let (class, confidence) = (capability.class.name(), capability.confidence.to_string());
        output.line(
            Style::Plain,
            format!("  {class:12}  {confidence:6}  {evidence}").trim_end(),
        );
    }
    output.line(
        Style::Plain,
        &format!(
            "  {}, blast radius {}, side effect {}, {}, egress {}, autonomy {}",
            action.effective.name(),
            action.blast.name(),
            action.side_effect.name(),
            action.reversibility.name(),
            action.egress.name(),
            action.ceiling.name()
        ),
    );
    for note in capabilities.warnings.iter().chain(&capabilities.notes) {
        output.line(Style::Faint, &format!("  {}", visible_within(note, LINE)));
    }
}

fn print_rest(all: usize, output: &mut Output) {
    if all > MAX_ITEMS {
        output.line(
            Style::Faint,
            &format!("  … {} more; --json has them", all - MAX_ITEMS),
        );
    }
}

/// Enough of a digest to compare two by eye.
fn short(digest: Digest) -> String {
    let kind = if digest.is_raw() { "raw-sha256" } else { "sha256" };
    format!("{kind}:{}", &digest.hex()[..12])
}
