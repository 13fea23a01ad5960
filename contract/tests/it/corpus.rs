//! Every tool that was captured from a real server is read and digested.
//!
//! The captures are shared data and not part of the project; without them this test does nothing.

use crate::shared::shared;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::json::read;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) fn captures(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            captures(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_captured_definition_has_a_digest_that_reads_back() {
    let Some(shared) = shared() else { return };
    let mut found = Vec::new();
    captures(&shared.join("corpus"), &mut found);
    let mut definitions = 0;
    for capture in &found {
        let capture: BTreeMap<&str, &RawValue> = serde_json::from_str(capture).unwrap();
        for list in ["tools", "prompts", "resources", "resource_templates"] {
            let Some(list_text) = capture.get(list) else {
                continue;
            };
            let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(list_text.get()) else {
                continue;
            };
            for item in items {
                definitions += 1;
                let definition = Definition::read(item.get());
                assert_eq!(definition.no_digest(), None, "{}", item.get());
                let again = Definition::read(&definition.digested_text());
                assert_eq!(again.digest(), definition.digest());
                let value = definition.value().unwrap();
                assert_eq!(read(&value.to_pretty()).unwrap().value, *value);
                let oracle = serde_json::from_str::<serde_json::Value>(&definition.digested_text());
                let oracle = serde_json_canonicalizer::to_string(&oracle.unwrap()).unwrap();
                assert_eq!(oracle, definition.digested_text());
                if list == "tools" {
                    assert!(contract_hash(&definition).is_ok(), "{}", item.get());
                }
            }
        }
    }
    assert!(definitions > 1_000, "only {definitions} definitions were found");
}
