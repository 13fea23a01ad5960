//! Two surfaces in, the changes between them out.
//!
//! This file pairs what both sides declare; `member` says how one declared thing differs, and which calls a schema
//! accepts is [`crate::schema`]'s answer.
//!
//! Invariants: a kind whose listing failed on either side is not compared (nothing may be concluded), and
//! two definitions have different digests exactly when some change other than `meta-changed` is given.

mod member;

use std::collections::BTreeMap;

use crate::canonical::same;
use crate::change::{Change, ChangeKind, Subject};
use crate::definition::{Definition, Meta};
use crate::json::{self, Value};
use crate::numeric::is_numeric_churn;
use crate::surface::{Instructions, Listing, Member, MemberKind, Surface};

pub use member::diff_member;

/// The changes from `before` to `after`: the server itself, its instructions, then by kind, name and pointer; equal
/// surfaces give none.
pub fn diff(before: &Surface, after: &Surface) -> Vec<Change> {
    let mut changes = Vec::new();
    diff_server(before, after, &mut changes);
    changes.extend(diff_instructions(
        before.instructions.as_ref(),
        after.instructions.as_ref(),
    ));
    for kind in MemberKind::ALL {
        if is_determined(before, kind) && is_determined(after, kind) {
            diff_listing(kind, before, after, &mut changes);
        }
    }
    sort(&mut changes);
    changes
}

fn is_determined(surface: &Surface, kind: MemberKind) -> bool {
    !matches!(surface.listing(kind), Listing::Failed { .. })
}

fn sort(changes: &mut [Change]) {
    changes.sort_by(|one, other| {
        (
            &one.subject,
            &one.pointer,
            one.kind,
            one.before_digest,
            one.after_digest,
        )
            .cmp(&(
                &other.subject,
                &other.pointer,
                other.kind,
                other.before_digest,
                other.after_digest,
            ))
    });
}

/// What the server says of itself. A side that says nothing was not asked, or is older than the member: nothing may
/// be concluded from that.
fn diff_server(before: &Surface, after: &Surface, changes: &mut Vec<Change>) {
    let mut add = |kind, pointer: &str, before: String, after: String| {
        changes.push(Change {
            kind,
            subject: Subject::Server,
            pointer: pointer.to_owned(),
            before: Some(before),
            after: Some(after),
            before_digest: None,
            after_digest: None,
            witness: None,
            rule: None,
        });
    };
    if before.protocol_version != after.protocol_version
        && !before.protocol_version.is_empty()
        && !after.protocol_version.is_empty()
    {
        let (before, after) = (before.protocol_version.clone(), after.protocol_version.clone());
        add(
            ChangeKind::ProtocolVersionChanged,
            "/protocolVersion",
            before,
            after,
        );
    }
    let texts = [
        (
            ChangeKind::ServerInfoChanged,
            "/serverInfo",
            &before.server_info,
            &after.server_info,
        ),
        (
            ChangeKind::CapabilitiesChanged,
            "/capabilities",
            &before.capabilities,
            &after.capabilities,
        ),
    ];
    for (kind, pointer, before, after) in texts {
        if let (Some(before), Some(after)) = (before, after)
            && !same_text(before, after)
        {
            add(kind, pointer, readable_text(before), readable_text(after));
        }
    }
}

/// Whether RFC 8785 calls two JSON texts the same.
fn same_text(one: &str, other: &str) -> bool {
    one == other
        || match (json::read(one), json::read(other)) {
            (Ok(one), Ok(other)) => {
                one.flaws.is_empty() && other.flaws.is_empty() && same(&one.value, &other.value)
            }
            _ => false,
        }
}

fn readable_text(text: &str) -> String {
    json::read(text).map_or_else(|_| text.to_owned(), |document| readable(&document.value))
}

/// The change of a server's instructions, when there is one.
pub(crate) fn diff_instructions(
    before: Option<&Instructions>,
    after: Option<&Instructions>,
) -> Option<Change> {
    let kind = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => ChangeKind::InstructionsAdded,
        (Some(_), None) => ChangeKind::InstructionsRemoved,
        (Some(before), Some(after)) if before.digest == after.digest => return None,
        (Some(before), Some(after)) if is_numeric_churn(&before.text, &after.text) => {
            ChangeKind::InstructionsNumeric
        }
        (Some(_), Some(_)) => ChangeKind::InstructionsChanged,
    };
    Some(Change {
        kind,
        subject: Subject::Instructions,
        pointer: String::new(),
        before: before.map(|instructions| instructions.text.clone()),
        after: after.map(|instructions| instructions.text.clone()),
        before_digest: before.map(|instructions| instructions.digest),
        after_digest: after.map(|instructions| instructions.digest),
        witness: None,
        rule: None,
    })
}

fn diff_listing(kind: MemberKind, before: &Surface, after: &Surface, changes: &mut Vec<Change>) {
    let mut names: BTreeMap<&str, (Vec<&Member>, Vec<&Member>)> = BTreeMap::new();
    for member in before.members_of(kind) {
        names.entry(&member.name).or_default().0.push(member);
    }
    for member in after.members_of(kind) {
        names.entry(&member.name).or_default().1.push(member);
    }
    for (before, after) in names.into_values() {
        for pair in pair_up(before, after) {
            match pair {
                Pair::Both(before, after) => changes.extend(diff_member(before, after)),
                Pair::Removed(member) => changes.push(removed(member)),
                Pair::Added(member) => changes.push(added(member)),
            }
        }
    }
}

enum Pair<'a> {
    Both(&'a Member, &'a Member),
    Removed(&'a Member),
    Added(&'a Member),
}

/// Pairs the members of one name. A name is nearly always there once on each side; where a server sends it
/// more often, the order of listing must not look like a change, so equal ones find each other first.
fn pair_up<'a>(mut before: Vec<&'a Member>, mut after: Vec<&'a Member>) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    take_pairs(&mut before, &mut after, &mut pairs, |one, other| {
        one.definition.digest() == other.definition.digest() && same_meta(&one.definition, &other.definition)
    });
    take_pairs(&mut before, &mut after, &mut pairs, |one, other| {
        one.definition.digest() == other.definition.digest()
    });
    take_pairs(&mut before, &mut after, &mut pairs, |_, _| true);
    pairs.extend(before.into_iter().map(Pair::Removed));
    pairs.extend(after.into_iter().map(Pair::Added));
    pairs
}

fn take_pairs<'a>(
    before: &mut Vec<&'a Member>,
    after: &mut Vec<&'a Member>,
    pairs: &mut Vec<Pair<'a>>,
    belong_together: impl Fn(&Member, &Member) -> bool,
) {
    before.retain(|one| {
        let Some(index) = after.iter().position(|other| belong_together(one, other)) else {
            return true;
        };
        pairs.push(Pair::Both(one, after.remove(index)));
        false
    });
}

fn same_meta(one: &Definition, other: &Definition) -> bool {
    one.meta().map(|meta| meta.digest) == other.meta().map(|meta| meta.digest)
}

/// The change that a member is there which was not.
pub(crate) fn added(member: &Member) -> Change {
    let kind = match member.kind {
        MemberKind::Tool => ChangeKind::ToolAdded,
        MemberKind::Prompt => ChangeKind::PromptAdded,
        MemberKind::Resource => ChangeKind::ResourceAdded,
        MemberKind::ResourceTemplate => ChangeKind::ResourceTemplateAdded,
    };
    Change {
        after: Some(whole_text(&member.definition)),
        after_digest: Some(member.definition.digest()),
        ..bare(kind, member)
    }
}

/// The change that a member is gone.
pub(crate) fn removed(member: &Member) -> Change {
    let kind = match member.kind {
        MemberKind::Tool => ChangeKind::ToolRemoved,
        MemberKind::Prompt => ChangeKind::PromptRemoved,
        MemberKind::Resource => ChangeKind::ResourceRemoved,
        MemberKind::ResourceTemplate => ChangeKind::ResourceTemplateRemoved,
    };
    Change {
        before: Some(whole_text(&member.definition)),
        before_digest: Some(member.definition.digest()),
        ..bare(kind, member)
    }
}

/// A change of this member as a whole, with neither side yet.
fn bare(kind: ChangeKind, member: &Member) -> Change {
    Change {
        kind,
        subject: subject(member),
        pointer: String::new(),
        before: None,
        after: None,
        before_digest: None,
        after_digest: None,
        witness: None,
        rule: None,
    }
}

fn subject(member: &Member) -> Subject {
    Subject::Member(member.kind, member.name.clone())
}

/// A definition indented, or exactly as sent where only its exact text is known for sure.
fn whole_text(definition: &Definition) -> String {
    match definition.value() {
        Some(value) if !definition.digest().is_raw() => readable(value),
        _ => definition.text().to_owned(),
    }
}

fn meta_text(definition: &Definition, meta: &Meta) -> String {
    match definition.member("_meta") {
        Some(value) if !meta.digest.is_raw() => readable(value),
        _ => meta.text.clone(),
    }
}

/// A value as text for people: a string's own text, anything else indented.
fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        _ => value.to_pretty(),
    }
}
