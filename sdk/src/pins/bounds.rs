//! How large a record may grow by what a server makes up: new names, ever new definitions, resources that come and go.
//!
//! Invariant: what goes is the oldest of what is held or merely reported; a baseline never goes, since a tool that comes back
//! must meet its old pin.

use std::collections::BTreeMap;

use super::record::{Held, MemberPin, Record, ToolPin};

impl Record {
    /// Brings the whole within its bounds. A baseline never goes.
    pub(super) fn trim(&mut self) {
        self.trim_held(Record::MAX_HELD_BYTES);
        self.trim_members(Record::MAX_MEMBERS, Record::MAX_MEMBER_BYTES);
    }

    fn trim_held(&mut self, most_bytes: usize) {
        let bytes = |held: &Held| held.definition.len();
        let mut excess = self
            .tools
            .values()
            .flat_map(|pin| pin.held.values())
            .map(bytes)
            .sum::<usize>()
            .saturating_sub(most_bytes);
        if excess == 0 {
            return;
        }
        let mut oldest: Vec<(i64, String, String, usize)> = Vec::new();
        for (tool, pin) in &self.tools {
            for (digest, held) in &pin.held {
                oldest.push((held.first_seen, tool.clone(), digest.clone(), bytes(held)));
            }
        }
        oldest.sort_unstable();
        for (_, tool, digest, bytes) in oldest {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            if let Some(pin) = self.tools.get_mut(&tool) {
                pin.held.remove(&digest);
                pin.held_now.take_if(|now| *now == digest);
                if *pin == ToolPin::default() {
                    self.tools.remove(&tool);
                }
            }
        }
    }

    fn trim_members(&mut self, most: usize, most_bytes: usize) {
        for members in self.members.values_mut() {
            let excess = members.len().saturating_sub(most);
            if excess == 0 {
                continue;
            }
            for (_, name, _) in oldest_first(members).into_iter().take(excess) {
                members.remove(&name);
            }
        }
        let all = self.members.values().flat_map(BTreeMap::values);
        let bytes: usize = all.map(|member| member.definition.len()).sum();
        let mut excess = bytes.saturating_sub(most_bytes);
        if excess == 0 {
            return;
        }
        let mut oldest: Vec<(i64, String, usize, String)> = Vec::new();
        for (kind, members) in &self.members {
            let of_kind = oldest_first(members).into_iter();
            oldest.extend(of_kind.map(|(at, name, bytes)| (at, name, bytes, kind.clone())));
        }
        oldest.sort_unstable();
        for (_, name, bytes, kind) in oldest {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            if let Some(members) = self.members.get_mut(&kind) {
                members.remove(&name);
            }
        }
    }
}

/// When each was pinned, its name and the length of its definition, the oldest first.
fn oldest_first(members: &BTreeMap<String, MemberPin>) -> Vec<(i64, String, usize)> {
    let mut oldest: Vec<_> = members
        .iter()
        .map(|(name, member)| (member.at, name.clone(), member.definition.len()))
        .collect();
    oldest.sort_unstable();
    oldest
}

#[cfg(test)]
mod tests {
    use mcpindex_contract::definition::Definition;
    use mcpindex_contract::surface::MemberKind;

    use super::super::record::Via;
    use super::*;

    #[test]
    fn what_a_server_makes_up_goes_by_age_and_never_a_baseline() {
        let named = |name: &str| Definition::read(&format!(r#"{{"name":"{name}"}}"#));
        let length = named("t0").text().len();
        let mut record = Record::default();
        record.pin("a", &named("a"), Via::FirstSight, 0);
        let note = |record: &mut Record, kind, name: &str, at| {
            let definition = named(name);
            record.note_member(kind, name, &definition.digest(), definition.text(), at);
        };
        for (name, at) in [("t0", 0), ("t1", 1), ("t2", 2)] {
            record.hold(name, &named(name), &[], at);
            note(&mut record, MemberKind::Resource, name, at);
        }
        for (name, at) in [("p7", 7), ("p8", 8), ("p9", 9)] {
            note(&mut record, MemberKind::Prompt, name, at);
        }
        let before = record.clone();
        record.trim();
        assert_eq!(record, before, "nothing is near a bound");

        record.trim_held(2 * length);
        let tools: Vec<&str> = record.tools.keys().map(String::as_str).collect();
        assert_eq!(tools, ["a", "t1", "t2"]);

        record.trim_members(2, 3 * length);
        let names = |kind: &str| record.members[kind].keys().cloned().collect::<Vec<_>>();
        assert_eq!(names("prompt"), ["p8", "p9"]);
        assert_eq!(names("resource"), ["t2"]);
    }
}
