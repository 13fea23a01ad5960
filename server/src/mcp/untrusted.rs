//! The words of servers, for an agent that asked for them: bounded, and with every hidden character written out.
//!
//! Invariant: nothing of a server's text is in an answer but through here.

use mcpindex::visible::visible_within;
use mcpindex_contract::change::{Change, Subject};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::surface::{Member, MemberKind, Surface};
use serde::Serialize;
use utoipa::ToSchema;

/// Characters of a name, of a short text, and of a text that is the whole of what was asked for.
const NAME: usize = 200;
const EXCERPT: usize = 400;
const TEXT: usize = 2_000;
/// Tools, changes and names in one answer.
const MAX_TOOLS: usize = 50;
const MAX_CHANGES: usize = 50;

/// What a tool says of itself. A quotation, cut and with hidden characters written out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolWords {
    name: String,
    title: Option<String>,
    description: Option<String>,
}

/// What a server's tools say of themselves. A quotation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServerWords {
    tools: Vec<ToolWords>,
    /// Tools beyond those.
    left_out: usize,
}

/// Names that a server goes by in registries, and those of its tools in which a word was found. A quotation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FoundWords {
    names: Vec<String>,
    tools: Vec<String>,
}

/// What a drift changed, in the server's words before and after. A quotation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DriftWords {
    changes: Vec<ChangeWords>,
    /// Changes beyond those.
    left_out: usize,
}

/// One change.
#[derive(Debug, Serialize, ToSchema)]
struct ChangeWords {
    kind: &'static str,
    /// The tool, prompt or resource; null where the server as a whole or its instructions changed.
    name: Option<String>,
    /// Where in the definition, as RFC 6901.
    pointer: String,
    before: Option<String>,
    after: Option<String>,
    /// JSON: arguments that were accepted before and are refused now, or a result that was not allowed before and is now.
    witness: Option<String>,
}

/// The words of one tool, by the text of its definition.
pub(super) fn of_tool(name: &str, definition: &str) -> ToolWords {
    tool_words(name, &Definition::read(definition), TEXT)
}

/// The words of what a server declares now.
pub(super) fn of_server(surface: &Surface) -> ServerWords {
    let words = |tool: &Member| tool_words(&tool.name, &tool.definition, EXCERPT);
    let tools: Vec<ToolWords> = surface
        .members_of(MemberKind::Tool)
        .take(MAX_TOOLS)
        .map(words)
        .collect();
    ServerWords {
        left_out: surface.members_of(MemberKind::Tool).count() - tools.len(),
        tools,
    }
}

/// The names of what a search found.
pub(super) fn of_names(names: &[String], tools: &[String]) -> FoundWords {
    let shown = |all: &[String]| {
        let all = all.iter().take(MAX_TOOLS);
        all.map(|name| visible_within(name, NAME)).collect()
    };
    FoundWords {
        names: shown(names),
        tools: shown(tools),
    }
}

/// The words of these changes.
pub(super) fn of_changes<'c>(changes: impl Iterator<Item = &'c Change>) -> DriftWords {
    let mut words = DriftWords {
        changes: Vec::new(),
        left_out: 0,
    };
    for change in changes {
        if words.changes.len() == MAX_CHANGES {
            words.left_out += 1;
            continue;
        }
        let excerpt = |text: &Option<String>| text.as_deref().map(|text| visible_within(text, EXCERPT));
        words.changes.push(ChangeWords {
            kind: change.kind.name(),
            name: match &change.subject {
                Subject::Member(_, name) => Some(visible_within(name, NAME)),
                Subject::Server | Subject::Instructions => None,
            },
            pointer: visible_within(&change.pointer, NAME),
            before: excerpt(&change.before),
            after: excerpt(&change.after),
            witness: excerpt(&change.witness),
        });
    }
    words
}

fn tool_words(name: &str, definition: &Definition, longest: usize) -> ToolWords {
    ToolWords {
        name: visible_within(name, NAME),
        title: definition.title().map(|title| visible_within(title, NAME)),
        description: definition
            .description()
            .map(|description| visible_within(description, longest)),
    }
}
