//! Two surfaces in, the changes between them out.
//!
//! So far a change names the member that differs; which calls a new schema accepts is the schema engine's
//! question, and its answer will replace `input-schema-changed` and `output-schema-changed` here.
//!
//! Invariants: a kind whose listing failed on either side is not compared (nothing may be concluded), and
//! two definitions have different digests exactly when some change other than `meta-changed` is given.

use std::collections::BTreeMap;

use crate::canonical::canonical;
use crate::change::{Change, ChangeKind, Subject};
use crate::definition::{Definition, Meta};
use crate::json::{Value, push_token};
use crate::surface::{Instructions, Listing, Member, MemberKind, Surface};

/// The changes from `before` to `after`: instructions first, then by kind, name and pointer; equal surfaces
/// give none.
pub fn diff(before: &Surface, after: &Surface) -> Vec<Change> {
    let mut changes = Vec::new();
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

/// The changes of one definition, both sides present and of one kind, by pointer.
pub fn diff_member(before: &Member, after: &Member) -> Vec<Change> {
    let mut comparison = Comparison {
        before,
        after,
        changes: Vec::new(),
    };
    if before.definition.digest() != after.definition.digest() {
        if before.definition.digest().is_raw() || after.definition.digest().is_raw() {
            comparison.undigestable();
        } else {
            comparison.members();
            comparison.meta();
        }
    } else {
        comparison.meta();
    }
    comparison.name_the_description();
    sort(&mut comparison.changes);
    comparison.changes
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

fn diff_instructions(before: Option<&Instructions>, after: Option<&Instructions>) -> Option<Change> {
    let kind = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => ChangeKind::InstructionsAdded,
        (Some(_), None) => ChangeKind::InstructionsRemoved,
        (Some(before), Some(after)) if before.digest == after.digest => return None,
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

fn added(member: &Member) -> Change {
    let kind = match member.kind {
        MemberKind::Tool => ChangeKind::ToolAdded,
        MemberKind::Prompt => ChangeKind::PromptAdded,
        MemberKind::Resource => ChangeKind::ResourceAdded,
        MemberKind::ResourceTemplate => ChangeKind::ResourceTemplateAdded,
    };
    Change {
        kind,
        subject: subject(member),
        pointer: String::new(),
        before: None,
        after: Some(whole_text(&member.definition)),
        before_digest: None,
        after_digest: Some(member.definition.digest()),
    }
}

fn removed(member: &Member) -> Change {
    let kind = match member.kind {
        MemberKind::Tool => ChangeKind::ToolRemoved,
        MemberKind::Prompt => ChangeKind::PromptRemoved,
        MemberKind::Resource => ChangeKind::ResourceRemoved,
        MemberKind::ResourceTemplate => ChangeKind::ResourceTemplateRemoved,
    };
    Change {
        kind,
        subject: subject(member),
        pointer: String::new(),
        before: Some(whole_text(&member.definition)),
        after: None,
        before_digest: Some(member.definition.digest()),
        after_digest: None,
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

/// The changes found so far between two definitions of one kind and name.
struct Comparison<'a> {
    before: &'a Member,
    after: &'a Member,
    changes: Vec<Change>,
}

impl Comparison<'_> {
    fn add(&mut self, kind: ChangeKind, pointer: String, before: Option<String>, after: Option<String>) {
        self.changes.push(Change {
            kind,
            subject: subject(self.after),
            pointer,
            before,
            after,
            before_digest: Some(self.before.definition.digest()),
            after_digest: Some(self.after.definition.digest()),
        });
    }

    fn add_values(&mut self, kind: ChangeKind, path: &[&str], before: Option<&Value>, after: Option<&Value>) {
        self.add(kind, pointer(path), before.map(readable), after.map(readable));
    }

    /// Without two canonical texts nothing inside can be compared for sure, `_meta` included.
    fn undigestable(&mut self) {
        self.add(
            ChangeKind::UndigestableChanged,
            String::new(),
            Some(self.before.definition.text().to_owned()),
            Some(self.after.definition.text().to_owned()),
        );
    }

    fn meta(&mut self) {
        if same_meta(&self.before.definition, &self.after.definition) {
            return;
        }
        let text = |definition: &Definition| definition.meta().map(|meta| meta_text(definition, meta));
        let (before, after) = (text(&self.before.definition), text(&self.after.definition));
        self.add(ChangeKind::MetaChanged, "/_meta".to_owned(), before, after);
    }

    fn members(&mut self) {
        let (Some(before), Some(after)) = (self.before.definition.value(), self.after.definition.value())
        else {
            return;
        };
        for (name, before, after) in differing_members(Some(before), Some(after)) {
            if name == "_meta" {
                continue;
            }
            let kind = match self.after.kind {
                MemberKind::Tool => {
                    self.tool_member(name, before, after);
                    continue;
                }
                MemberKind::Prompt => ChangeKind::PromptChanged,
                MemberKind::Resource => ChangeKind::ResourceChanged,
                MemberKind::ResourceTemplate => ChangeKind::ResourceTemplateChanged,
            };
            self.add_values(kind, &[name], before, after);
        }
    }

    fn tool_member(&mut self, name: &str, before: Option<&Value>, after: Option<&Value>) {
        let kind = match name {
            "description" => ChangeKind::DescriptionOnly,
            "title" => ChangeKind::TitleChanged,
            "inputSchema" => ChangeKind::InputSchemaChanged,
            "outputSchema" if !says_something(before) && says_something(after) => {
                ChangeKind::OutputSchemaAdded
            }
            "outputSchema" => ChangeKind::OutputSchemaChanged,
            "annotations" => {
                let otherwise = ChangeKind::UnknownMemberChanged;
                return self.inside(name, before, after, otherwise, annotation_kind);
            }
            "execution" => {
                let otherwise = ChangeKind::ExecutionChanged;
                return self.inside(name, before, after, otherwise, execution_kind);
            }
            "icons" => ChangeKind::IconsChanged,
            _ => ChangeKind::UnknownMemberChanged,
        };
        self.add_values(kind, &[name], before, after);
    }

    /// The changes inside one top-level object, of which nothing at all and `{}` mean the same.
    fn inside(
        &mut self,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
        otherwise: ChangeKind,
        kind_of: fn(&str, Option<&Value>, Option<&Value>) -> ChangeKind,
    ) {
        let is_object = |side: Option<&Value>| side.is_none_or(|value| matches!(value, Value::Object(_)));
        if !is_object(before) || !is_object(after) {
            return self.add_values(otherwise, &[name], before, after);
        }
        let differing = differing_members(before, after);
        if differing.is_empty() {
            return self.add_values(ChangeKind::DefaultStated, &[name], before, after);
        }
        for (inner, before, after) in differing {
            let kind = kind_of(inner, before, after);
            self.add_values(kind, &[name, inner], before, after);
        }
    }

    /// Whether the description is all that changed is known only at the end. `_meta` and defaults written out
    /// don't count: neither changes what the tool is.
    fn name_the_description(&mut self) {
        let counts = |change: &&Change| {
            !matches!(
                change.kind,
                ChangeKind::DescriptionOnly | ChangeKind::MetaChanged | ChangeKind::DefaultStated
            )
        };
        if self.changes.iter().any(|change| counts(&change)) {
            for change in &mut self.changes {
                if change.kind == ChangeKind::DescriptionOnly {
                    change.kind = ChangeKind::DescriptionChanged;
                }
            }
        }
    }
}

fn says_something(side: Option<&Value>) -> bool {
    side.is_some_and(|value| *value != Value::Null)
}

/// The hints of the protocol with what each is taken to be where it is absent.
const HINTS: [(&str, bool); 4] = [
    ("readOnlyHint", false),
    ("destructiveHint", true),
    ("idempotentHint", false),
    ("openWorldHint", true),
];

fn annotation_kind(name: &str, before: Option<&Value>, after: Option<&Value>) -> ChangeKind {
    if let Some((_, default)) = HINTS.iter().find(|(hint, _)| *hint == name) {
        return if states_default(before, after, &Value::Bool(*default)) {
            ChangeKind::DefaultStated
        } else {
            ChangeKind::AnnotationHintChanged
        };
    }
    if name == "title" {
        ChangeKind::TitleChanged
    } else {
        ChangeKind::UnknownMemberChanged
    }
}

fn execution_kind(name: &str, before: Option<&Value>, after: Option<&Value>) -> ChangeKind {
    let default = Value::String("forbidden".to_owned());
    if name == "taskSupport" && states_default(before, after, &default) {
        ChangeKind::DefaultStated
    } else {
        ChangeKind::ExecutionChanged
    }
}

fn states_default(before: Option<&Value>, after: Option<&Value>, default: &Value) -> bool {
    before.unwrap_or(default) == after.unwrap_or(default)
}

/// One member's name and its value on each side.
type Differing<'a> = (&'a str, Option<&'a Value>, Option<&'a Value>);

/// The members of two objects (or of nothing) that RFC 8785 does not call the same, in the order sent.
fn differing_members<'a>(before: Option<&'a Value>, after: Option<&'a Value>) -> Vec<Differing<'a>> {
    let members = |side: Option<&'a Value>| match side {
        Some(Value::Object(members)) => members.as_slice(),
        _ => &[],
    };
    let after_by_name: BTreeMap<&str, &Value> = members(after)
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let before_by_name: BTreeMap<&str, &Value> = members(before)
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    let mut differing = Vec::new();
    for (name, value) in members(before) {
        let other = after_by_name.get(name.as_str()).copied();
        if !other.is_some_and(|other| same(value, other)) {
            differing.push((name.as_str(), Some(value), other));
        }
    }
    for (name, value) in members(after) {
        if !before_by_name.contains_key(name.as_str()) {
            differing.push((name.as_str(), None, Some(value)));
        }
    }
    differing
}

fn same(one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    match (canonical(one, None), canonical(other, None)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// The RFC 6901 pointer of the member that these names lead to.
fn pointer(names: &[&str]) -> String {
    let mut pointer = String::new();
    for name in names {
        push_token(&mut pointer, name);
    }
    pointer
}
