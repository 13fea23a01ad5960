//! What happened at a gate, as the one line that a person reads on stderr.
//!
//! Invariant: one event, one line; the words of the server in it are cut, and made visible where they are written.

use mcpindex::gate::event::Event;
use mcpindex::gate::refusal::person_line;
use mcpindex::visible::visible_within;
use mcpindex_contract::change::Change;
use mcpindex_contract::surface::MemberKind;

/// The longest name of a tool, prompt or resource that is shown whole.
const NAME_LENGTH: usize = 80;

/// The most kinds of change that are named in one line.
const KINDS: usize = 4;

/// The line. `server` is how the server is called.
pub(super) fn line(server: &str, event: &Event) -> String {
    match event {
        Event::Withheld(hold) | Event::CallHeld(hold) => person_line(hold),
        Event::FirstSight { pinned, withheld: 0 } => {
            format!("mcpindex: {server} is new: {} pinned", tools(*pinned))
        }
        Event::FirstSight { pinned, withheld } => format!(
            "mcpindex: {server} is new: {} pinned, {withheld} withheld: see `mcpindex review`",
            tools(*pinned)
        ),
        Event::Accepted { tool, changes, .. } => format!(
            "mcpindex: {} on {server} changed and is shown: {}",
            name(tool),
            kinds(changes)
        ),
        Event::Obeyed { tool, decision, .. } => format!(
            "mcpindex: {} on {server} is shown as the organisation approved it (decision {decision})",
            name(tool)
        ),
        Event::ToolGone { tool } => {
            format!(
                "mcpindex: {} is not listed by {server} any more; its pin is kept",
                name(tool)
            )
        }
        Event::ResultMarked { tool, withheld } => format!(
            "mcpindex: a result of {} on {server} carries text addressed to the model: {}",
            name(tool),
            if *withheld { "withheld" } else { "passed on" }
        ),
        Event::ContextDrift {
            kind,
            name: of,
            changes,
            withheld,
        } => format!(
            "mcpindex: {} of {server} changed{}: {}",
            context(*kind, of),
            if *withheld { " and were left out" } else { "" },
            kinds(changes)
        ),
        Event::Dropped { reason } => format!("mcpindex: {server}: a message was dropped: {reason}"),
        Event::ListingFailed { reason } => {
            format!("mcpindex: the tools of {server} could not be listed: {reason}")
        }
        Event::PinsUnusable { reason } => format!("mcpindex: calls are held: {reason}"),
        Event::PinsNotice { notice } => format!("mcpindex: {notice}"),
        Event::Released { tool, .. } => format!("mcpindex: {} on {server} is shown again", name(tool)),
    }
}

fn tools(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        _ => format!("{count} tools"),
    }
}

fn name(text: &str) -> String {
    visible_within(text, NAME_LENGTH)
}

fn context(kind: Option<MemberKind>, of: &str) -> String {
    match kind {
        None => "the instructions".to_owned(),
        Some(kind) => format!("the {} {}", kind.name(), name(of)),
    }
}

fn kinds(changes: &[Change]) -> String {
    let mut names: Vec<&str> = changes.iter().map(|change| change.kind.name()).collect();
    names.dedup();
    let more = names.len().saturating_sub(KINDS);
    names.truncate(KINDS);
    let mut text = names.join(", ");
    if text.is_empty() {
        // A change of `_meta` alone has no kind.
        text.push_str("its metadata");
    }
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
