//! Reading one list to its end, page by page.
//!
//! Invariant: a list is given whole or not at all: whatever stops it before its end is an error, and no item is left out
//! for what it says.

use std::collections::HashSet;

use mcpindex_contract::surface::{Member, MemberKind};
use tokio::time::Instant;

use crate::wire::error::WireError;
use crate::wire::limits::Limits;
use crate::wire::message::page;
use crate::wire::read_only::{Ask, ReadOnly, list_method};

use super::redact::Redactor;

/// All items of one list, in the order sent.
pub(super) async fn read_list(
    wire: &mut ReadOnly<'_>,
    kind: MemberKind,
    limits: &Limits,
    redactor: &Redactor,
) -> Result<Vec<Member>, WireError> {
    let method = list_method(kind);
    let mut members = Vec::new();
    let mut bytes = 0_usize;
    let mut cursor: Option<String> = None;
    let mut cursors = HashSet::new();
    for _ in 0..limits.pages {
        let ask = Ask::List {
            kind,
            cursor: cursor.as_deref(),
        };
        let result = wire.ask(ask, Instant::now() + limits.request).await?;
        let page = page(&result, items_member(kind), limits.items - members.len())
            .map_err(|reason| WireError::Unusable { method, reason })?;
        if page.total > page.items.len() {
            return Err(WireError::OverLimit {
                what: items_limit(kind),
                limit: limits.items,
            });
        }
        for item in page.items {
            if item.len() > limits.item_bytes {
                return Err(WireError::OverLimit {
                    what: item_limit(kind),
                    limit: limits.item_bytes,
                });
            }
            bytes = bytes.saturating_add(item.len());
            if bytes > limits.list_bytes {
                return Err(WireError::OverLimit {
                    what: list_limit(kind),
                    limit: limits.list_bytes,
                });
            }
            members.push(Member::read(kind, &redactor.json(item.to_owned())));
        }
        let Some(next) = page.next_cursor else {
            return Ok(members);
        };
        if next.len() > limits.cursor_bytes {
            return Err(WireError::OverLimit {
                what: "bytes in a cursor",
                limit: limits.cursor_bytes,
            });
        }
        if !cursors.insert(next.to_owned()) {
            return Err(WireError::CursorLoop { method });
        }
        cursor = Some(next.to_owned());
    }
    Err(WireError::OverLimit {
        what: pages_limit(kind),
        limit: limits.pages,
    })
}

/// The member of the result that holds the items.
fn items_member(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tools",
        MemberKind::Prompt => "prompts",
        MemberKind::Resource => "resources",
        MemberKind::ResourceTemplate => "resourceTemplates",
    }
}

fn items_limit(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tools",
        MemberKind::Prompt => "prompts",
        MemberKind::Resource => "resources",
        MemberKind::ResourceTemplate => "resource templates",
    }
}

fn item_limit(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "bytes in a tool",
        MemberKind::Prompt => "bytes in a prompt",
        MemberKind::Resource => "bytes in a resource",
        MemberKind::ResourceTemplate => "bytes in a resource template",
    }
}

fn list_limit(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "bytes in all tools",
        MemberKind::Prompt => "bytes in all prompts",
        MemberKind::Resource => "bytes in all resources",
        MemberKind::ResourceTemplate => "bytes in all resource templates",
    }
}

fn pages_limit(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "pages of tools",
        MemberKind::Prompt => "pages of prompts",
        MemberKind::Resource => "pages of resources",
        MemberKind::ResourceTemplate => "pages of resource templates",
    }
}
