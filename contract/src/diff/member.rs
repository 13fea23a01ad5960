//! How one declared thing differs: member by member, and inside a tool's schemas by what they accept.
//!
//! Invariant: when the two digests differ some change other than `meta-changed` is given, and what the schema engine
//! concludes about acceptance is never milder in the changes than in its conclusion.

use std::collections::BTreeMap;

use super::{meta_text, readable, same_meta, sort, subject};
use crate::canonical::{canonical, same};
use crate::change::{Change, ChangeKind, Direction};
use crate::definition::Definition;
use crate::json::{Value, push_token};
use crate::numeric::is_numeric_churn;
use crate::schema::{self, Acceptance, Difference, OVER_LIMIT};
use crate::surface::{Member, MemberKind};

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
            witness: None,
            rule: None,
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
            let kind = match (self.after.kind, name) {
                (MemberKind::Tool, _) => {
                    self.tool_member(name, before, after);
                    continue;
                }
                (MemberKind::Prompt, "arguments") => ChangeKind::PromptArgsChanged,
                (MemberKind::Prompt, "description") => ChangeKind::PromptDescriptionChanged,
                (MemberKind::Prompt, _) => ChangeKind::PromptChanged,
                (MemberKind::Resource, _) => ChangeKind::ResourceChanged,
                (MemberKind::ResourceTemplate, _) => ChangeKind::ResourceTemplateChanged,
            };
            self.add_values(kind, &[name], before, after);
        }
    }

    fn tool_member(&mut self, name: &str, before: Option<&Value>, after: Option<&Value>) {
        if KNOWN.contains(&name) && !says_something(before) && !says_something(after) {
            return self.add_values(ChangeKind::DefaultStated, &[name], before, after);
        }
        let anything = Value::Object(Vec::new());
        // A tool without a schema of its arguments takes any.
        let (old, new) = (before.unwrap_or(&anything), after.unwrap_or(&anything));
        let are_schemas = [old, new]
            .iter()
            .all(|side| matches!(side, Value::Object(_) | Value::Bool(_)));
        let kind = match name {
            "description" => match (before.and_then(Value::as_str), after.and_then(Value::as_str)) {
                (Some(before), Some(after)) if is_numeric_churn(before, after) => {
                    ChangeKind::DescriptionNumeric
                }
                _ => ChangeKind::DescriptionOnly,
            },
            "title" => title_kind(before, after),
            "inputSchema" if are_schemas => return self.input_schema(old, new),
            "inputSchema" => ChangeKind::InputSchemaChanged,
            "outputSchema" if !says_something(before) && says_something(after) => {
                ChangeKind::OutputSchemaAdded
            }
            "outputSchema" if are_schemas && says_something(after) => return self.output_schema(old, new),
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

    fn input_schema(&mut self, before: &Value, after: &Value) {
        let comparison = schema::compare_input(before, after);
        let whole = match comparison.acceptance {
            Acceptance::Equal => ChangeKind::SchemaRewritten,
            Acceptance::Wider => ChangeKind::ConstraintWidened,
            Acceptance::Narrower | Acceptance::Incomparable => ChangeKind::ConstraintNarrowed,
            Acceptance::Undecidable => ChangeKind::SchemaUndecided,
        };
        self.schema_changes("inputSchema", whole, comparison.differences, before, after);
    }

    /// Results are read, not sent: what allows more of them is what a reader may stumble over.
    fn output_schema(&mut self, before: &Value, after: &Value) {
        let mut comparison = schema::compare_output(before, after);
        let whole = match comparison.acceptance {
            Acceptance::Equal => ChangeKind::SchemaRewritten,
            Acceptance::Wider => ChangeKind::OutputSchemaNarrowed,
            Acceptance::Narrower | Acceptance::Incomparable => ChangeKind::OutputSchemaChanged,
            Acceptance::Undecidable => ChangeKind::SchemaUndecided,
        };
        if comparison.acceptance == Acceptance::Wider {
            // What was left open in a part is settled for the whole.
            for difference in &mut comparison.differences {
                if difference.rule != Some(OVER_LIMIT)
                    && matches!(
                        difference.kind,
                        ChangeKind::OutputSchemaChanged
                            | ChangeKind::SchemaUndecided
                            | ChangeKind::DeepSchemaUndiffable
                    )
                {
                    difference.kind = ChangeKind::OutputSchemaNarrowed;
                }
            }
        }
        self.schema_changes("outputSchema", whole, comparison.differences, before, after);
    }

    /// The changes inside one schema, and the one that says what was concluded about it as a whole where none does.
    fn schema_changes(
        &mut self,
        member: &str,
        whole: ChangeKind,
        differences: Vec<Difference>,
        before: &Value,
        after: &Value,
    ) {
        let first = self.changes.len();
        for difference in differences {
            let kind = match difference.kind {
                ChangeKind::DefaultChanged if states_null(&difference) => ChangeKind::DefaultStated,
                kind => kind,
            };
            self.schema_change(kind, member, difference);
        }
        self.agree_with(whole, member, first, before, after);
    }

    fn schema_change(&mut self, kind: ChangeKind, member: &str, difference: Difference) {
        self.add(
            kind,
            pointer(&[member]) + &difference.pointer,
            difference.before,
            difference.after,
        );
        if let Some(change) = self.changes.last_mut() {
            change.witness = difference.witness.as_ref().map(on_one_line);
            change.rule = difference.rule.map(str::to_owned);
        }
    }

    /// Adds what was concluded about the whole schema, unless the changes found inside (from `first` on) say it
    /// already: a schema that differs is never silent, and a conclusion never gets lost.
    fn agree_with(&mut self, whole: ChangeKind, member: &str, first: usize, before: &Value, after: &Value) {
        let inside = &self.changes[first..];
        let is_said = match whole {
            ChangeKind::SchemaRewritten
            | ChangeKind::ConstraintWidened
            | ChangeKind::OutputSchemaNarrowed => !inside.is_empty(),
            ChangeKind::SchemaUndecided => inside
                .iter()
                .any(|change| change.kind.direction() == Direction::Opaque),
            ChangeKind::OutputSchemaChanged => inside.iter().any(|change| change.kind == whole),
            _ => inside
                .iter()
                .any(|change| change.kind.direction() == Direction::Narrowing),
        };
        if !is_said {
            self.add_values(whole, &[member], Some(before), Some(after));
        }
    }

    /// The changes inside one top-level object, of which nothing at all, `null` and `{}` mean the same.
    fn inside(
        &mut self,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
        otherwise: ChangeKind,
        kind_of: fn(&str, Option<&Value>, Option<&Value>) -> ChangeKind,
    ) {
        let is_object =
            |side: Option<&Value>| side.is_none_or(|value| matches!(value, Value::Object(_) | Value::Null));
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

/// The members of a tool that the protocol defines and that may be left out; there `null` is taken as nothing.
const KNOWN: [&str; 6] = [
    "title",
    "description",
    "outputSchema",
    "annotations",
    "execution",
    "icons",
];

fn says_something(side: Option<&Value>) -> bool {
    match side {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

fn title_kind(before: Option<&Value>, after: Option<&Value>) -> ChangeKind {
    if !says_something(before) && matches!(after, Some(Value::String(_))) {
        ChangeKind::TitleAdded
    } else {
        ChangeKind::TitleChanged
    }
}

/// A value on one line, its numbers to the digit: a witness may lie past what RFC 8785 can carry.
fn on_one_line(value: &Value) -> String {
    canonical(value, None).unwrap_or_else(|_| value.to_pretty().lines().map(str::trim_start).collect())
}

/// A default of `null` says that there is none.
fn states_null(difference: &Difference) -> bool {
    let is_null = |side: &Option<String>| side.as_deref().is_none_or(|text| text == "null");
    is_null(&difference.before) && is_null(&difference.after)
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
        return hint_kind(name, *default, before, after);
    }
    match name {
        "title" if !says_something(before) && !says_something(after) => ChangeKind::DefaultStated,
        "title" => title_kind(before, after),
        _ => ChangeKind::UnknownMemberChanged,
    }
}

fn hint_kind(name: &str, default: bool, before: Option<&Value>, after: Option<&Value>) -> ChangeKind {
    if states_default(before, after, &Value::Bool(default)) {
        return ChangeKind::DefaultStated;
    }
    let is_true = |side: Option<&Value>| side == Some(&Value::Bool(true));
    let flips = match name {
        "destructiveHint" => !is_true(before) && after.is_none_or(|value| *value == Value::Bool(true)),
        "readOnlyHint" => is_true(before),
        _ => false,
    };
    if flips {
        ChangeKind::AnnotationFlipToDestructive
    } else if before.is_none() && after == Some(&Value::Bool(!default)) {
        ChangeKind::AnnotationHintDeclared
    } else {
        ChangeKind::AnnotationHintChanged
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

/// The RFC 6901 pointer of the member that these names lead to.
fn pointer(names: &[&str]) -> String {
    let mut pointer = String::new();
    for name in names {
        push_token(&mut pointer, name);
    }
    pointer
}
