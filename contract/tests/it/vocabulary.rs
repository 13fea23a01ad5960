//! The closed vocabularies: every name is its own, and every kind of change is one that some diff gives.

use std::collections::BTreeSet;
use std::path::Path;

use mcpindex_contract::change::{ChangeKind, Treatment};
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::posture::CODES;

use super::diff::{CASES, Case, deep_changes};

#[test]
fn every_outcome_has_a_name_of_its_own_and_a_sentence() {
    let names: BTreeSet<&str> = Outcome::all().iter().map(|outcome| outcome.name()).collect();
    assert_eq!(names.len(), Outcome::all().len());
    for outcome in Outcome::all() {
        assert_eq!(Outcome::from_name(outcome.name()), Some(*outcome));
        assert!(
            outcome
                .name()
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        );
        assert!(outcome.sentence().ends_with('.'), "{}", outcome.name());
    }
    assert_eq!(Outcome::from_name("0 tools"), None);
}

#[test]
fn every_kind_of_change_has_a_name_that_the_wire_takes_and_a_sentence() {
    let names: BTreeSet<&str> = ChangeKind::all().iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), ChangeKind::all().len());
    for kind in ChangeKind::all() {
        assert_eq!(ChangeKind::from_name(kind.name()), Some(*kind));
        // The published ingest's rule for a kind: `^[a-z0-9-]{1,64}$`.
        assert!(kind.name().len() <= 64);
        assert!(
            kind.name()
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        );
        assert!(kind.sentence().ends_with('.'), "{}", kind.name());
    }
    assert_eq!(ChangeKind::from_name("tool_added"), None);
}

#[test]
fn every_kind_of_change_is_given_by_some_case() {
    let given: BTreeSet<&str> = CASES
        .iter()
        .flat_map(Case::changes)
        .chain(deep_changes())
        .map(|change| change.kind.name())
        .collect();
    let all: BTreeSet<&str> = ChangeKind::all().iter().map(|kind| kind.name()).collect();
    assert_eq!(given, all);
}

/// The page of the documentation, from the tables.
fn page() -> String {
    let mut page = String::from(
        "# Kinds of change\n\nGenerated from the table in `contract::change`; a test keeps it true \
         (`UPDATE_DOCS=1 cargo test -p mcpindex-contract the_documentation` writes it anew).\n\n\
         *Guard* is what a gate does in its default posture. **strict** holds any drift of a tool at all, **monitor** holds \
         nothing and notes what guard would hold. Whatever the kind, guard also holds a change for one of the other reasons \
         below. *Published* is the kind that stands for it on the telemetry wire, in the vocabulary of the published \
         clients.\n\n\
         | kind | direction | safety relevant | guard | published | what it says |\n|---|---|---|---|---|---|\n",
    );
    for kind in ChangeKind::all() {
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | `{}` | {} |\n",
            kind.name(),
            kind.direction().name(),
            if kind.safety_relevant() { "yes" } else { "" },
            kind.guard().name(),
            kind.published(),
            kind.sentence()
        ));
    }
    page.push_str("\n## What guard does\n\n| word | what it says |\n|---|---|\n");
    for treatment in Treatment::all() {
        page.push_str(&format!("| {} | {} |\n", treatment.name(), treatment.sentence()));
    }
    page.push_str("\n## Other reasons to hold\n\n| code | what it says |\n|---|---|\n");
    for (code, sentence) in CODES {
        page.push_str(&format!("| `{code}` | {sentence} |\n"));
    }
    page
}

#[test]
fn the_documentation_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kinds.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == page(),
        "docs/kinds.md is not what the table says: run with UPDATE_DOCS=1"
    );
}

/// The published clients' closed set, with what they call safety relevant.
const PUBLISHED: [(&str, bool); 26] = [
    ("added-optional-param", false),
    ("added-required-param", true),
    ("removed-param", true),
    ("type-changed", true),
    ("enum-values-removed", true),
    ("constraint-narrowed", true),
    ("required-set-expanded", true),
    ("annotation-flip-to-destructive", true),
    ("param-mirrored-to-header", true),
    ("output-schema-added", false),
    ("output-schema-changed", true),
    ("tool-added", false),
    ("tool-removed", true),
    ("description-only", false),
    ("description-numeric", false),
    ("deep-schema-undiffable", true),
    ("instructions-added", true),
    ("instructions-removed", false),
    ("instructions-changed", true),
    ("instructions-numeric", false),
    ("prompt-added", false),
    ("prompt-removed", false),
    ("prompt-description-changed", false),
    ("prompt-args-changed", true),
    ("annotation-hint-changed", true),
    ("title-changed", false),
];

#[test]
fn names_of_the_published_vocabulary_keep_their_safety_flag() {
    for (name, safety_relevant) in PUBLISHED {
        let kind = ChangeKind::from_name(name).unwrap();
        assert_eq!(kind.safety_relevant(), safety_relevant, "{name}");
        assert_eq!(kind.published(), name);
    }
}

#[test]
fn every_kind_has_a_place_on_the_telemetry_wire() {
    for kind in ChangeKind::all() {
        let is_published = PUBLISHED.iter().any(|(name, _)| *name == kind.published());
        assert!(is_published, "{}: {}", kind.name(), kind.published());
    }
}
