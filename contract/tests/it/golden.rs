//! The published client's recorded hashes and digests, case by case.
//!
//! The cases themselves are shared data and not part of the project; without them these tests do nothing.

use crate::shared::shared;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

type Case = BTreeMap<String, Box<RawValue>>;

fn string(case: &Case, field: &str) -> Option<String> {
    serde_json::from_str(case.get(field)?.get()).unwrap()
}

/// The exact text of one side: the object as it stands, or a string that holds it.
fn side(case: &Case, side: &str) -> Definition {
    let text = string(case, &format!("{side}_text"));
    Definition::read(&text.unwrap_or_else(|| case[side].get().to_owned()))
}

/// Cases where we mean to differ from the published client, each with why.
const DELIBERATE: [(&str, &str); 1] = [(
    "numform-014-dupkey tool_digest_before:",
    "a duplicate member has no definition digest here; the client digests the last",
)];

#[test]
fn every_recorded_hash_and_digest_agrees() {
    let Some(shared) = shared() else { return };
    let file = std::fs::read_to_string(shared.join("vectors/golden.jsonl")).unwrap();
    let mut cases = 0;
    let mut differences = Vec::new();
    for line in file.lines() {
        cases += 1;
        let case: Case = serde_json::from_str(line).unwrap();
        let id = string(&case, "id").unwrap();
        let mut compare = |what: &str, expected: Option<String>, ours: Option<String>| {
            if expected != ours {
                differences.push(format!("{id} {what}: expected {expected:?}, got {ours:?}"));
            }
        };
        for name in ["before", "after"] {
            let tool = side(&case, name);
            let field = format!("contract_hash_{name}");
            compare(&field, string(&case, &field), contract_hash(&tool).ok());
            let field = format!("tool_digest_{name}");
            let digest = tool.no_digest().is_none().then(|| tool.digest().to_string());
            compare(&field, string(&case, &field), digest);
        }
        let after = side(&case, "after");
        let meta = after.meta().map(|meta| meta.digest.to_string());
        compare("meta_digest_after", string(&case, "meta_digest_after"), meta);
    }
    assert!(cases > 0, "no cases were found");
    let unexpected: Vec<&String> = differences
        .iter()
        .filter(|line| !DELIBERATE.iter().any(|(id, _)| line.starts_with(id)))
        .collect();
    assert!(
        unexpected.is_empty(),
        "{} of {cases} cases' values differ: {unexpected:#?}",
        unexpected.len()
    );
    assert!(
        differences.len() == DELIBERATE.len(),
        "a deliberate difference is gone"
    );
}
