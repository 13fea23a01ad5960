//! The closed vocabularies: every name is its own, and every kind of change is one that some diff gives.

use std::collections::BTreeSet;

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::outcome::Outcome;

use super::diff::CASES;

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
fn names_of_the_published_vocabulary_keep_their_safety_flag() {
    let published = [
        ("tool-added", false),
        ("tool-removed", true),
        ("description-only", false),
        ("output-schema-added", false),
        ("output-schema-changed", true),
        ("instructions-added", true),
        ("instructions-removed", false),
        ("instructions-changed", true),
        ("prompt-added", false),
        ("prompt-removed", false),
        ("title-changed", false),
    ];
    for (name, safety_relevant) in published {
        let kind = ChangeKind::from_name(name).unwrap();
        assert_eq!(kind.safety_relevant(), safety_relevant, "{name}");
    }
}

#[test]
fn every_kind_of_change_is_given_by_some_case() {
    let given: BTreeSet<&str> = CASES
        .iter()
        .flat_map(|case| case.changes().into_iter().map(|change| change.kind.name()))
        .collect();
    let all: BTreeSet<&str> = ChangeKind::all().iter().map(|kind| kind.name()).collect();
    assert_eq!(given, all);
}
