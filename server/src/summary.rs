//! A drift in one line for people: `2 tools added, 1 removed, 7 changed (arguments, hints); 1 prompt changed`.
//!
//! What comes first is what matters most to whoever calls the server: tools, then the instructions, then prompts and
//! resources.
//!
//! Invariant: every tool, prompt and resource that did something is counted in the line, once for each thing it did; the names of kinds stay in the API.

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::surface::MemberKind;

/// The line for a drift of these kinds of change, in which so many members `changed` without coming or going.
pub(crate) fn summary(kinds: &[(String, i64)], changed: &[(MemberKind, i64)]) -> String {
    let count = |kind: ChangeKind| {
        let found = kinds.iter().find(|(name, _)| name == kind.name());
        found.map_or(0, |(_, count)| *count)
    };
    let mut parts = Vec::new();
    for kind in MemberKind::ALL {
        let (added, removed) = coming_and_going(kind);
        let changed = changed.iter().find(|(member, _)| *member == kind);
        let changed = changed.map_or(0, |(_, count)| *count);
        if let Some(mut part) = members(kind, count(added), count(removed), changed) {
            if kind == MemberKind::Tool
                && changed > 0
                && let Some(ways) = ways(kinds)
            {
                part.push_str(&format!(" ({ways})"));
            }
            parts.push(part);
        }
        if kind == MemberKind::Tool {
            parts.extend(instructions(&count));
        }
    }
    parts.join("; ")
}

fn coming_and_going(kind: MemberKind) -> (ChangeKind, ChangeKind) {
    match kind {
        MemberKind::Tool => (ChangeKind::ToolAdded, ChangeKind::ToolRemoved),
        MemberKind::Prompt => (ChangeKind::PromptAdded, ChangeKind::PromptRemoved),
        MemberKind::Resource => (ChangeKind::ResourceAdded, ChangeKind::ResourceRemoved),
        MemberKind::ResourceTemplate => (
            ChangeKind::ResourceTemplateAdded,
            ChangeKind::ResourceTemplateRemoved,
        ),
    }
}

/// `12 tools added, 10 removed, 1 changed`; `None` when none of the kind did anything.
fn members(kind: MemberKind, added: i64, removed: i64, changed: i64) -> Option<String> {
    let mut text = String::new();
    for (count, verb) in [(added, "added"), (removed, "removed"), (changed, "changed")] {
        match (count, text.is_empty()) {
            (0, _) => {}
            (count, true) => text = format!("{} {verb}", counted(kind, count)),
            (count, false) => text.push_str(&format!(", {count} {verb}")),
        }
    }
    Some(text).filter(|text| !text.is_empty())
}

/// `1 tool`, `2 tools`.
pub(crate) fn counted(kind: MemberKind, count: i64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {}{plural}", kind.name().replace('-', " "))
}

fn instructions(count: &impl Fn(ChangeKind) -> i64) -> Option<String> {
    let happened = |(kind, verb)| (count(kind) > 0).then(|| format!("instructions {verb}"));
    [
        (ChangeKind::InstructionsAdded, "added"),
        (ChangeKind::InstructionsRemoved, "removed"),
        (ChangeKind::InstructionsChanged, "changed"),
        (ChangeKind::InstructionsNumeric, "changed in numbers"),
    ]
    .into_iter()
    .find_map(happened)
}

/// In which ways the tools changed, what is safety relevant first.
fn ways(kinds: &[(String, i64)]) -> Option<String> {
    let mut kinds: Vec<ChangeKind> = kinds
        .iter()
        .filter_map(|(name, _)| ChangeKind::from_name(name))
        .collect();
    kinds.sort_by_key(|kind| !kind.safety_relevant());
    let means_the_same =
        |kind: &ChangeKind| matches!(kind, ChangeKind::DefaultStated | ChangeKind::SchemaRewritten);
    if kinds
        .iter()
        .any(|kind| !means_the_same(kind) && way(*kind).is_some())
    {
        // Next to a change, what means the same is not worth a word.
        kinds.retain(|kind| !means_the_same(kind));
    }
    let mut words: Vec<&str> = Vec::new();
    for word in kinds.into_iter().filter_map(way) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    Some(words.join(", ")).filter(|words| !words.is_empty())
}

/// What of a tool is another one after a change of this kind; `None` for kinds that are said otherwise.
fn way(kind: ChangeKind) -> Option<&'static str> {
    Some(match kind {
        ChangeKind::ToolAdded
        | ChangeKind::ToolRemoved
        | ChangeKind::PromptAdded
        | ChangeKind::PromptRemoved
        | ChangeKind::PromptDescriptionChanged
        | ChangeKind::PromptArgsChanged
        | ChangeKind::PromptChanged
        | ChangeKind::ResourceAdded
        | ChangeKind::ResourceRemoved
        | ChangeKind::ResourceChanged
        | ChangeKind::ResourceTemplateAdded
        | ChangeKind::ResourceTemplateRemoved
        | ChangeKind::ResourceTemplateChanged
        | ChangeKind::InstructionsAdded
        | ChangeKind::InstructionsRemoved
        | ChangeKind::InstructionsNumeric
        | ChangeKind::InstructionsChanged
        | ChangeKind::ServerInfoChanged
        | ChangeKind::CapabilitiesChanged
        | ChangeKind::ProtocolVersionChanged => return None,
        ChangeKind::AddedOptionalParam => "optional arguments added",
        ChangeKind::AddedRequiredParam => "required arguments added",
        ChangeKind::RemovedParam | ChangeKind::SchemaEmptied => "arguments removed",
        ChangeKind::RequiredSetExpanded => "arguments required",
        ChangeKind::RemovedRequired => "arguments no longer required",
        ChangeKind::TypeChanged => "types",
        ChangeKind::EnumValuesRemoved | ChangeKind::ConstraintNarrowed | ChangeKind::UnionBranchRemoved => {
            "narrower values"
        }
        ChangeKind::EnumValuesAdded | ChangeKind::ConstraintWidened | ChangeKind::UnionBranchAdded => {
            "wider values"
        }
        ChangeKind::DefaultChanged => "defaults",
        ChangeKind::ParamTextChanged => "arguments' text",
        ChangeKind::SchemaRewritten => "the schema's writing",
        ChangeKind::ParamMirroredToHeader => "request headers",
        ChangeKind::PatternPropertiesChanged
        | ChangeKind::AdditionalPropertiesChanged
        | ChangeKind::DeepSchemaUndiffable
        | ChangeKind::SchemaUndecided
        | ChangeKind::InputSchemaChanged => "arguments",
        ChangeKind::OutputSchemaAdded
        | ChangeKind::OutputSchemaNarrowed
        | ChangeKind::OutputSchemaChanged => "result",
        ChangeKind::DescriptionOnly | ChangeKind::DescriptionChanged => "description",
        ChangeKind::DescriptionNumeric => "numbers in the description",
        ChangeKind::TitleAdded | ChangeKind::TitleChanged => "title",
        ChangeKind::AnnotationFlipToDestructive
        | ChangeKind::AnnotationHintChanged
        | ChangeKind::AnnotationHintDeclared => "hints",
        ChangeKind::IconsChanged => "icons",
        ChangeKind::ExecutionChanged => "execution",
        ChangeKind::UnknownMemberChanged => "unknown members",
        ChangeKind::MetaChanged => "_meta",
        ChangeKind::DefaultStated => "defaults written out",
        ChangeKind::UndigestableChanged => "unreadable definition",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kinds: &[(ChangeKind, i64)], changed: &[(MemberKind, i64)], expected: &str) {
        let kinds: Vec<(String, i64)> = kinds
            .iter()
            .map(|(kind, count)| (kind.name().to_owned(), *count))
            .collect();
        assert_eq!(summary(&kinds, changed), expected);
    }

    #[test]
    fn tools_come_first_and_resources_last() {
        check(
            &[
                (ChangeKind::ResourceChanged, 200),
                (ChangeKind::ToolAdded, 12),
                (ChangeKind::ToolRemoved, 10),
                (ChangeKind::InputSchemaChanged, 1),
                (ChangeKind::InstructionsChanged, 1),
            ],
            &[(MemberKind::Tool, 1), (MemberKind::Resource, 100)],
            "12 tools added, 10 removed, 1 changed (arguments); instructions changed; 100 resources changed",
        );
    }

    #[test]
    fn a_tool_with_many_changes_is_one_tool() {
        check(
            &[
                (ChangeKind::DescriptionChanged, 1),
                (ChangeKind::AnnotationHintChanged, 44),
                (ChangeKind::InputSchemaChanged, 9),
                (ChangeKind::DefaultStated, 8),
                (ChangeKind::PromptChanged, 2),
            ],
            &[(MemberKind::Tool, 13), (MemberKind::Prompt, 1)],
            "13 tools changed (hints, arguments, description); 1 prompt changed",
        );
    }

    #[test]
    fn each_kind_of_change_is_behind_some_word() {
        for kind in ChangeKind::all() {
            let kinds = [(kind.name().to_owned(), 1)];
            let changed = MemberKind::ALL.map(|member| (member, 1));
            let coming_or_going = MemberKind::ALL
                .into_iter()
                .map(coming_and_going)
                .any(|(added, removed)| *kind == added || *kind == removed);
            let changed: &[_] = if coming_or_going { &[] } else { &changed };
            assert_ne!(summary(&kinds, changed), "", "{}", kind.name());
        }
    }
}
