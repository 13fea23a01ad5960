//! Prompts, resources and templates: pinned, compared and reported, never held.
//!
//! Invariant: the answer that the client gets is the server's to the byte, whatever is found in it.

use mcpindex_contract::definition::Definition;
use mcpindex_contract::diff::diff_member;
use mcpindex_contract::surface::{Member, MemberKind};

use crate::gate::event::Event;
use crate::gate::{Gate, Output};
use crate::pins::Record;
use crate::wire::message::{elements, members};

impl Gate {
    /// The server answered a request for one of its other lists with this result (or a page of it).
    pub(super) fn context_listed(&mut self, kind: MemberKind, result: &str, outputs: &mut Vec<Output>) {
        let Ok([Some(list)]) = members(result, [list_member(kind)]) else {
            return;
        };
        let Some(listed) = elements(list, self.options.limits.tools) else {
            return;
        };
        let listed: Vec<Member> = listed
            .texts
            .into_iter()
            .map(|item| Member::read(kind, item))
            .filter(|member| !member.name.is_empty())
            .collect();
        // Pins that can't be used are told of, and hold calls, where the list of tools is judged.
        let Ok(record) = self.judge.record() else {
            return;
        };
        let moved: Vec<&Member> = listed
            .iter()
            .filter(|member| !is_known(&record, member))
            .collect();
        if moved.is_empty() {
            return;
        }
        let at = self.options.clock.unix_seconds();
        let mut drifted = Vec::new();
        let written = self.judge.update(|newest| {
            for member in moved {
                let Member { name, definition, .. } = member;
                let before = newest.members.get(kind.name()).and_then(|pins| pins.get(name));
                let before = before.map(|pin| Definition::read(&pin.definition));
                if newest.note_member(kind, name, &definition.digest(), definition.text(), at) {
                    drifted.push((before, member));
                }
            }
        });
        if written.is_err() {
            return;
        }
        for (before, member) in drifted {
            let changes = before.map(|definition| {
                let before = Member {
                    kind,
                    name: member.name.clone(),
                    definition,
                };
                diff_member(&before, member)
            });
            outputs.push(Output::from(Event::ContextDrift {
                kind: Some(kind),
                name: member.name.clone(),
                changes: changes.unwrap_or_default(),
                withheld: false,
            }));
        }
    }
}

/// Whether this definition is the pin, or was reported.
fn is_known(record: &Record, member: &Member) -> bool {
    let digest = member.definition.digest().to_string();
    let pins = record.members.get(member.kind.name());
    pins.and_then(|pins| pins.get(&member.name))
        .is_some_and(|pin| pin.digest == digest || pin.reported.contains(&digest))
}

/// The member of the result that holds the items.
fn list_member(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tools",
        MemberKind::Prompt => "prompts",
        MemberKind::Resource => "resources",
        MemberKind::ResourceTemplate => "resourceTemplates",
    }
}
