//! The schemas of captured servers, each version against the one before: how many can't be decided.
//!
//! The captures are shared data and not part of the project; without them this test does nothing.

use crate::shared::shared;
use mcpindex_contract::json::{Value, read};
use mcpindex_contract::schema::{Acceptance, Comparison, compare_input, compare_output};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The folders that hold captures of one package, each with its versions in order.
fn packages(folder: &Path, found: &mut Vec<Vec<PathBuf>>) {
    let mut versions = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            packages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            versions.push(path);
        }
    }
    versions.sort_by_key(|path| {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let numbers = name
            .split(|letter: char| !letter.is_ascii_digit())
            .map(|digits| digits.parse::<u64>().ok());
        (numbers.collect::<Vec<_>>(), name)
    });
    found.push(versions);
}

fn tools(path: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let capture: BTreeMap<&str, &RawValue> = serde_json::from_str(&text).unwrap();
    let tools = capture.get("tools").map_or("[]", |tools| tools.get());
    let tools: Vec<BTreeMap<String, Box<RawValue>>> = serde_json::from_str(tools).unwrap_or_default();
    tools
        .iter()
        .map(|tool| {
            let name = serde_json::from_str(tool["name"].get()).unwrap();
            (
                name,
                tool.iter()
                    .map(|(member, said)| (member.clone(), said.get().to_owned()))
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn few_schemas_of_captured_servers_are_undecidable() {
    let Some(shared) = shared() else { return };
    let mut found = Vec::new();
    packages(&shared.join("corpus"), &mut found);
    let mut report = String::new();
    let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (one, other) in found
        .iter()
        .flat_map(|versions| versions.iter().zip(versions.iter().skip(1)))
    {
        let (old, new) = (tools(one), tools(other));
        for (name, before) in &old {
            let Some(after) = new.get(name) else { continue };
            for (member, compare) in [
                ("inputSchema", compare_input as fn(&_, &_) -> Comparison),
                ("outputSchema", compare_output),
            ] {
                let (Some(before), Some(after)) = (before.get(member), after.get(member)) else {
                    continue;
                };
                let (before, after) = (read(before).unwrap().value, read(after).unwrap().value);
                let comparison = compare(&before, &after);
                if comparison.differences.is_empty() {
                    assert_eq!(comparison.acceptance, Acceptance::Equal);
                    continue;
                }
                *counts
                    .entry((member, format!("{:?}", comparison.acceptance)))
                    .or_default() += 1;
                for one in &comparison.differences {
                    *kinds.entry(one.kind.name()).or_default() += 1;
                }
                writeln!(
                    report,
                    "{} {name} {member} {:?}",
                    other.display(),
                    comparison.acceptance
                )
                .unwrap();
                for one in &comparison.differences {
                    let witness = one
                        .witness
                        .as_ref()
                        .map(|value| value.to_pretty().replace(char::is_whitespace, ""));
                    let rule = one.rule.unwrap_or_default();
                    writeln!(
                        report,
                        "    {} {} {witness:?} {rule}",
                        one.kind.name(),
                        one.pointer
                    )
                    .unwrap();
                }
            }
        }
    }
    if let Some(path) = std::env::var_os("SCHEMA_REPORT") {
        std::fs::write(path, report).unwrap();
    }
    let differing: usize = counts.values().sum();
    let undecidable: usize = counts
        .iter()
        .filter(|((_, acceptance), _)| acceptance == "Undecidable")
        .map(|(_, count)| count)
        .sum();
    let share = 100.0 * undecidable as f64 / differing as f64;
    writeln!(
        std::io::stderr(),
        "{undecidable} of {differing} differing schemas undecidable ({share:.2} %)\n{counts:?}\n{kinds:?}"
    )
    .unwrap();
    assert!(differing > 100 && share <= 2.0, "{share}");
}

/// The calls that the labels of real drifts found by trying: one that only the old schema takes, and one that only
/// the new one does. (Arguments that neither declares are no part of a call.)
#[test]
fn calls_found_by_trying_contradict_no_claim_about_real_drifts() {
    let Some(shared) = shared() else { return };
    let drifts = std::fs::read_to_string(shared.join("vectors/real-drifts.jsonl")).unwrap();
    let mut compared = 0;
    for line in drifts.lines() {
        let drift = read(line).unwrap().value;
        let schema = |side: &str| drift.get(side)?.get("inputSchema").cloned();
        let (Some(before), Some(after)) = (schema("before"), schema("after")) else {
            continue;
        };
        if before.get("properties").is_none() {
            // The labels take a schema that declares nothing as one of no arguments.
            continue;
        }
        // A call that one schema takes and the other refuses, if it is made of arguments that the one declares.
        let found = |which: &str, takes: &Value| {
            let call = drift.get("counterexample")?.get(which)?;
            let Value::Object(arguments) = call else {
                return None;
            };
            let declared = |name: &str| takes.get("properties").is_some_and(|all| all.get(name).is_some());
            let made_of_declared = arguments.iter().all(|(name, _)| declared(name));
            made_of_declared.then(|| call.to_pretty())
        };
        let lost = found("old_valid_new_invalid", &before);
        let gained = found("new_valid_old_invalid", &after);
        let comparison = compare_input(&before, &after);
        let id = drift.get("id").and_then(Value::as_str).unwrap_or_default();
        compared += 1;
        match comparison.acceptance {
            Acceptance::Equal => assert_eq!((lost, gained), (None, None), "{id}"),
            Acceptance::Wider => assert_eq!(lost, None, "{id}"),
            Acceptance::Narrower => assert_eq!(gained, None, "{id}"),
            Acceptance::Incomparable | Acceptance::Undecidable => {}
        }
    }
    assert!(compared > 300, "{compared}");
}
