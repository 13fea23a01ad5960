//! What a person sees before deciding: the release as a list, then each row with all that speaks for and against it.
//!
//! Invariant: a server's words stand behind a bar or between quotation marks; what a decision would be bound to (digest,
//! names, baseline) is on the screen.

use mcpindex::gate::refusal::{quoted, short_digest};
use mcpindex::gate::step::{Section, Step};
use mcpindex::visible::visible_within;
use mcpindex_contract::action::{Action, Egress};
use mcpindex_contract::capability::{self, Class};
use mcpindex_contract::change::{Change, ChangeKind, Direction};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::Marker;
use mcpindex_contract::posture::Examination;

use super::super::output::{Output, Style};
use super::super::pins::{count, date};
use super::columns::{Layout, Line};
use super::organisation::Said;
use super::release::{Baseline, Item, Release, Row, What};

/// The longest name in a list.
const NAME: usize = 40;
/// The longest witness, pointer or excerpt on one line before it is cut.
const VALUE: usize = 400;
/// The most rows of one section in the list.
const MAX_ROWS: usize = 12;
/// The most names of one row that are written out without being asked for.
const MAX_NAMES: usize = 60;
/// The most findings of markers shown of one definition without being asked for.
const MAX_MARKERS: usize = 8;

/// The list of all that waits.
pub(super) fn print_overview(server: &str, release: &Release, output: &mut Output) {
    let waiting = release.waiting();
    let verb = if waiting == 1 { "waits" } else { "wait" };
    output.line(
        Style::Strong,
        &format!(
            "{server}: {} {verb}, {} pinned",
            count(waiting, "definition", "definitions"),
            count(release.pinned, "tool", "tools")
        ),
    );
    let numbered = release.rows.iter().enumerate();
    let mut section = None;
    let mut shown = 0;
    for (index, row) in numbered {
        if section != Some(row.section) {
            output.line(heading_style(row.section), &format!("  {}", row.section.title()));
            section = Some(row.section);
            shown = 0;
        }
        shown += 1;
        if shown <= MAX_ROWS {
            let (number, names, summary) = (index + 1, names(row), summary(row));
            output.line(
                Style::Plain,
                &format!("    {number:>3}  {names:NAME$}  {summary}"),
            );
        } else if release.rows.get(index + 1).map(|next| next.section) != section {
            output.line(
                Style::Faint,
                &format!("         … and {} more", count(shown - MAX_ROWS, "row", "rows")),
            );
        }
    }
    output.line(Style::Plain, "");
}

fn heading_style(section: Section) -> Style {
    match section.is_dangerous() {
        true => Style::Alarm,
        false => Style::Strong,
    }
}

/// The row's name, in a list and beside its decision.
pub(super) fn names(row: &Row) -> String {
    names_within(row, NAME - 14)
}

fn names_within(row: &Row, limit: usize) -> String {
    let first = row.first();
    let name = match &first.what {
        What::Instructions => "the server's instructions".to_owned(),
        What::Tool(name) => visible_within(name, limit),
    };
    match row.items.len() - 1 {
        0 => name,
        more => format!("{name} and {more} more"),
    }
}

/// Why it is held in a few words: codes, or for a new tool what it does.
fn summary(row: &Row) -> String {
    let step = &row.first().step;
    if let (Section::New, Some(examination)) = (row.section, &step.examination) {
        return format!(
            "{}, blast radius {}",
            examination.action.effective,
            blast(&examination.action)
        );
    }
    let mut codes: Vec<&str> = Vec::new();
    for reason in &step.reasons {
        if !codes.contains(&reason.code) {
            codes.push(reason.code);
        }
    }
    const SHOWN: usize = 2;
    let shown = codes.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match codes.len().saturating_sub(SHOWN) {
        0 => shown,
        rest => format!("{shown} +{rest}"),
    }
}

fn blast(action: &Action) -> &'static str {
    match action.blast.name() {
        "med" => "medium",
        name => name,
    }
}

/// One row: everything a decision needs.
pub(super) fn print_row(position: &str, server: &str, row: &Row, layout: Layout, output: &mut Output) {
    let first = row.first();
    let heading = format!("{position}  {}  on {server}", names_within(row, VALUE));
    print_lines(&layout.prose(heading_style(row.section), 0, &heading), output);
    print_lines(&layout.prose(Style::Faint, 2, row.section.title()), output);
    print_origin(row, layout, output);
    if let Some(reason) = &first.step.no_digest {
        let line = format!("can't be approved, since nothing can be pinned to it: {reason}");
        print_lines(&layout.prose(Style::Alarm, 2, &line), output);
    }
    print_classes(&first.step, layout, output);
    print_reasons(&first.step, layout, output);
    print_markers(&first.step.markers, MAX_MARKERS, layout, output);
    if first.baseline.is_none() {
        output.line(Style::Plain, "");
        print_definition(first, layout, output);
    } else {
        print_changes(&first.step, layout, output);
    }
}

/// Digest, day and baseline; of several tools their names.
fn print_origin(row: &Row, layout: Layout, output: &mut Output) {
    let first = row.first();
    if let [_, _, ..] = row.items.as_slice() {
        let names: Vec<&str> = row.items.iter().map(|item| item.what.name()).collect();
        let mut text = names
            .iter()
            .take(MAX_NAMES)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        if names.len() > MAX_NAMES {
            text.push_str(&format!(" and {} more (d shows them)", names.len() - MAX_NAMES));
        }
        let lead = format!(
            "the same change in {}; shown is the first:",
            count(names.len(), "tool", "tools")
        );
        print_lines(&layout.prose(Style::Plain, 2, &lead), output);
        print_lines(&layout.prose(Style::Plain, 4, &text), output);
    }
    let mut origin = format!(
        "declared {}, first seen {}",
        short_digest(&first.digest),
        date(first.held.first_seen)
    );
    match &first.baseline {
        Some(baseline) => origin.push_str(&format!("; {}", baseline_words(baseline))),
        None if first.what == What::Instructions => origin.push_str("; the server gave none before"),
        None => origin.push_str("; nothing of this name is pinned"),
    }
    print_lines(&layout.prose(Style::Faint, 2, &origin), output);
    print_said(row, layout, output);
    if first.refused_before > 0 {
        let refused = count(first.refused_before, "other definition", "other definitions");
        output.line(Style::Faint, &format!("  {refused} of it refused before"));
    }
}

/// What the organisation says of it; of several tools each word once.
fn print_said(row: &Row, layout: Layout, output: &mut Output) {
    let mut lines: Vec<(&Said, usize)> = Vec::new();
    for said in row.items.iter().filter_map(|item| item.said.as_ref()) {
        match lines.iter_mut().find(|(known, _)| *known == said) {
            Some((_, many)) => *many += 1,
            None => lines.push((said, 1)),
        }
    }
    for (said, many) in lines {
        let style = match said.is_refused() {
            true => Style::Alarm,
            false => Style::Plain,
        };
        let of = match row.items.len() {
            1 => String::new(),
            all => format!(" ({many} of {all})"),
        };
        let line = format!("the organisation{of}: {}", said.sentence);
        print_lines(&layout.prose(style, 2, &line), output);
    }
}

fn baseline_words(baseline: &Baseline) -> String {
    let how = match baseline.via {
        "approved" => "approved",
        "first-sight" => "pinned at first sight",
        "new-tool" => "pinned as a new tool without review",
        "imported" => "taken over from the published client",
        "index" => "approved by the organisation",
        other => other,
    };
    format!("{how} {}, {}", date(baseline.at), short_digest(&baseline.digest))
}

/// What it does and can do, and what of that is new.
fn print_classes(step: &Step, layout: Layout, output: &mut Output) {
    let Some(now) = &step.examination else {
        return;
    };
    let (said, was) = (
        action_words(&now.action),
        step.before.as_ref().map(|before| action_words(&before.action)),
    );
    let line = match was {
        Some(was) if was != said => format!("a call of it: {said} (was: {was})"),
        _ => format!("a call of it: {said}"),
    };
    print_lines(&layout.prose(Style::Plain, 2, &line), output);
    let able = classes(now);
    let gained: Vec<&str> = match &step.before {
        Some(before) => capability::gained(&before.capabilities, &now.capabilities)
            .classes
            .into_iter()
            .map(Class::phrase)
            .collect(),
        None => Vec::new(),
    };
    if !able.is_empty() {
        print_lines(
            &layout.prose(
                Style::Plain,
                2,
                &format!("by its declaration it {}", able.join(", ")),
            ),
            output,
        );
    }
    if !gained.is_empty() {
        print_lines(
            &layout.prose(Style::Alarm, 2, &format!("new: it {}", gained.join(", "))),
            output,
        );
    }
}

fn classes(examination: &Examination) -> Vec<&'static str> {
    let classes = &examination.capabilities.classes;
    let known = classes
        .iter()
        .filter(|capability| capability.class != Class::Unknown);
    known.map(|capability| capability.class.phrase()).collect()
}

fn action_words(action: &Action) -> String {
    let egress = match action.egress {
        Egress::External => ", data leaves",
        Egress::None | Egress::Internal => "",
    };
    format!(
        "{}, blast radius {}, {}{egress}",
        action.effective,
        blast(action),
        action.reversibility.name()
    )
}

/// The reasons that are no change below.
fn print_reasons(step: &Step, layout: Layout, output: &mut Output) {
    let is_told = |code: &str, pointer: &str| {
        matches!(
            code,
            "new-tool" | "marker-introduced" | "asks-for-context" | "first-sight-marker" | "no-digest"
        ) || step
            .changes
            .iter()
            .any(|change| change.kind.name() == code && change.pointer == pointer)
    };
    for reason in &step.reasons {
        if !is_told(reason.code, &reason.pointer) {
            print_finding(
                Style::Alarm,
                &reason.sentence,
                reason.code,
                &reason.pointer,
                layout,
                output,
            );
        }
    }
}

/// The markers of one class at one place are one finding; past the limit places are only counted.
fn print_markers(markers: &[Marker], limit: usize, layout: Layout, output: &mut Output) {
    let mut findings: Vec<Vec<&Marker>> = Vec::new();
    for marker in markers {
        let is_same = |finding: &&mut Vec<&Marker>| {
            finding[0].class == marker.class && finding[0].pointer == marker.pointer
        };
        match findings.iter_mut().find(is_same) {
            Some(finding) => finding.push(marker),
            None => findings.push(vec![marker]),
        }
    }
    for finding in findings.iter().take(limit) {
        let marker = finding[0];
        let more = match finding.len() {
            1 => String::new(),
            many => format!(" ({many} times)"),
        };
        let code = format!("marker {}{more}", marker.class.name());
        print_finding(
            Style::Alarm,
            marker.class.sentence(),
            &code,
            &marker.pointer,
            layout,
            output,
        );
        let shown = match limit {
            usize::MAX => finding.as_slice(),
            _ => &finding[..1],
        };
        for marker in shown {
            print_lines(&layout.text(&quoted(&marker.excerpt, VALUE)), output);
        }
    }
    if findings.len() > limit {
        let rest = count(findings.len() - limit, "more marker", "more markers");
        output.line(Style::Faint, &format!("  … and {rest}: d shows them"));
    }
}

/// A sentence of ours with its code and place: on one line where there is room.
fn print_finding(
    style: Style,
    sentence: &str,
    code: &str,
    pointer: &str,
    layout: Layout,
    output: &mut Output,
) {
    let place = format!("{code}  {}", visible_within(pointer, VALUE));
    let place = place.trim_end();
    output.line(Style::Plain, "");
    let sentence = layout.prose(style, 2, sentence);
    match (sentence.as_slice(), layout.has_room(&sentence, place)) {
        ([only], true) => {
            let mut line = only.clone();
            line.push((Style::Faint, format!("  {place}")));
            output.parts(&line);
        }
        _ => {
            print_lines(&sentence, output);
            print_lines(&layout.prose(Style::Faint, 2, place), output);
        }
    }
}

fn print_changes(step: &Step, layout: Layout, output: &mut Output) {
    for change in &step.changes {
        print_change(change, step, layout, output);
    }
}

fn print_change(change: &Change, step: &Step, layout: Layout, output: &mut Output) {
    let is_held = step
        .reasons
        .iter()
        .any(|reason| reason.code == change.kind.name() && reason.pointer == change.pointer);
    let (style, sentence, layout) = match is_held {
        true => (Style::Strong, change.kind.sentence().to_owned(), layout),
        false => (
            Style::Plain,
            format!("Noted only: {}", change.kind.sentence()),
            layout.brief(),
        ),
    };
    print_finding(
        style,
        &sentence,
        change.kind.name(),
        &change.pointer,
        layout,
        output,
    );
    let (before, after) = values(change);
    print_lines(&layout.difference(&before, &after), output);
    if let Some(witness) = &change.witness {
        let label = match change.kind.direction() {
            Direction::Meaning => "a result that is allowed now and was not:",
            _ => "a call that was accepted and is refused now:",
        };
        print_lines(&layout.prose(Style::Plain, 2, label), output);
        print_lines(&layout.text(&visible_within(witness, VALUE)), output);
    }
    if let Some(rule) = &change.rule {
        print_lines(
            &layout.prose(Style::Faint, 2, &format!("by the rule {rule}")),
            output,
        );
    }
}

/// Both sides; small JSON without its line breaks.
fn values(change: &Change) -> (String, String) {
    const SMALL: usize = 40;
    let side = |text: &Option<String>| text.clone().unwrap_or_default();
    let (before, after) = (side(&change.before), side(&change.after));
    let on_one_line = |text: &str| match text.starts_with(['{', '[']) {
        true => text.lines().map(str::trim_start).collect::<Vec<_>>().join(" "),
        false => text.to_owned(),
    };
    let (short_before, short_after) = (on_one_line(&before), on_one_line(&after));
    match short_before.chars().count().max(short_after.chars().count()) <= SMALL {
        true => (short_before, short_after),
        false => (before, after),
    }
}

/// A definition that nothing can be compared with, whole.
fn print_definition(item: &Item, layout: Layout, output: &mut Output) {
    match item.what {
        What::Instructions => {
            for change in &item.step.changes {
                print_lines(&layout.text(change.after.as_deref().unwrap_or_default()), output);
            }
        }
        What::Tool(_) => {
            let definition = Definition::read(&item.held.definition);
            let text = match definition.value() {
                Some(value) => value.to_pretty(),
                None => item.held.definition.clone(),
            };
            print_lines(&layout.text(&text), output);
        }
    }
}

/// Everything there is about a row, nothing left out.
pub(super) fn print_details(row: &Row, layout: Layout, output: &mut Output) {
    let layout = layout.whole();
    for item in &row.items {
        output.line(Style::Plain, "");
        output.line(
            Style::Strong,
            &format!("  {}", visible_within(item.what.name(), VALUE)),
        );
        output.line(Style::Plain, &format!("    declared  {}", item.digest));
        if let Some(baseline) = &item.baseline {
            output.line(Style::Plain, &format!("    pinned    {}", baseline.digest));
        }
        let codes = item.held.codes.join(", ");
        if !codes.is_empty() {
            print_lines(
                &layout.prose(Style::Faint, 4, &format!("held for  {codes}")),
                output,
            );
        }
        print_evidence(&item.step, layout, output);
        print_markers(&item.step.markers, usize::MAX, layout, output);
        if item.baseline.is_some() {
            print_changes(&item.step, layout, output);
        }
        let is_new = |change: &Change| change.kind == ChangeKind::ToolAdded;
        if item.baseline.is_none() || item.step.changes.iter().any(is_new) || row.items.len() == 1 {
            output.line(Style::Plain, "");
            output.line(Style::Plain, "  as declared:");
            print_definition(item, layout, output);
        }
    }
}

fn print_evidence(step: &Step, layout: Layout, output: &mut Output) {
    let Some(examination) = &step.examination else {
        return;
    };
    for capability in &examination.capabilities.classes {
        if capability.class == Class::Unknown {
            continue;
        }
        let details: Vec<&str> = capability
            .evidence
            .iter()
            .map(|one| one.detail.as_str())
            .collect();
        let line = format!(
            "it {} ({}): {}",
            capability.class.phrase(),
            capability.confidence,
            details.join("; ")
        );
        print_lines(&layout.prose(Style::Faint, 4, &line), output);
    }
    let warnings = examination.capabilities.warnings.iter();
    for note in warnings.chain(&examination.capabilities.notes) {
        print_lines(&layout.prose(Style::Faint, 4, note), output);
    }
}

pub(super) fn print_lines(lines: &[Line], output: &mut Output) {
    for line in lines {
        output.parts(line);
    }
}
