//! False alarms over the tools that were captured from real servers.
//!
//! The captures are shared data and not part of the project; without them this test does nothing.

use crate::corpus::captures;
use crate::shared::shared;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::{Level, MarkerClass, introduced, scan_definition, scan_text};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn real_tools_are_rarely_marked_high() {
    let Some(shared) = shared() else { return };
    let mut found = Vec::new();
    captures(&shared.join("corpus"), &mut found);
    let (mut tools, mut servers, mut loud_servers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut classes: BTreeMap<MarkerClass, usize> = BTreeMap::new();
    for capture in &found {
        let capture: BTreeMap<&str, &RawValue> = serde_json::from_str(capture).unwrap();
        let package = capture["package"].get();
        servers.insert(package);
        let initialize: serde_json::Value =
            serde_json::from_str(capture["initialize"].get()).unwrap_or_default();
        if let Some(text) = initialize["instructions"].as_str() {
            let scan = scan_text(text);
            assert_ne!(scan.level, Level::High, "{package}: {scan:#?}");
        }
        let tools_sent = capture
            .get("tools")
            .map(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()));
        for tool in tools_sent.and_then(Result::ok).unwrap_or_default() {
            if !tools.insert(tool.get()) {
                continue;
            }
            let scan = scan_definition(&Definition::read(tool.get()));
            *levels.entry(scan.level.name()).or_default() += 1;
            *levels.entry("asks for context").or_default() += usize::from(scan.asks_for_context);
            *levels.entry("incomplete").or_default() += usize::from(scan.incomplete);
            let marked: BTreeSet<MarkerClass> = scan.markers.iter().map(|marker| marker.class).collect();
            for class in marked {
                *classes.entry(class).or_default() += 1;
            }
            if scan.level == Level::High {
                loud_servers.insert(package);
            }
            if std::env::var_os("MCPINDEX_SHOW_MARKERS").is_some() && scan.level > Level::None {
                for marker in &scan.markers {
                    crate::markers_corpus::show(&format!(
                        "{} {package} {} {} {} [{}] {}",
                        scan.level.name(),
                        marker.class.name(),
                        marker.weight,
                        marker.pointer,
                        marker.matched,
                        marker.excerpt
                    ));
                }
            }
        }
    }
    let high = levels.get("high").copied().unwrap_or_default();
    show(&format!(
        "{} tools of {} servers: {levels:?}; {classes:?}; high on {loud_servers:?}",
        tools.len(),
        servers.len()
    ));
    assert!(tools.len() > 1_000, "only {} tools were found", tools.len());
    assert!(
        high * 200 <= tools.len(),
        "{high} of {} tools are high",
        tools.len()
    );
}

/// Wherever the published client saw a marker in the golden cases, so do we.
#[test]
fn what_the_published_client_marks_is_marked() {
    let Some(shared) = shared() else { return };
    let cases = std::fs::read_to_string(shared.join("vectors/golden.jsonl")).unwrap();
    let (mut marked, mut missed) = (0, Vec::new());
    for case in cases.lines() {
        let case: BTreeMap<&str, &RawValue> = serde_json::from_str(case).unwrap();
        let theirs = case
            .get("markers")
            .is_some_and(|markers| !matches!(markers.get(), "null" | "[]"));
        let Some(after) = case.get("after").filter(|after| theirs && after.get() != "null") else {
            continue;
        };
        marked += 1;
        if scan_definition(&Definition::read(after.get())).level == Level::None {
            missed.push(case["id"].get());
        }
    }
    show(&format!(
        "{} of {marked} golden cases with a marker are marked",
        marked - missed.len()
    ));
    assert!(marked > 10 && missed.is_empty(), "{missed:?}");
}

/// Drifts that are labelled as such that a gate lets through bring no marker with them.
#[test]
fn real_drifts_that_proceed_introduce_no_marker() {
    let Some(shared) = shared() else { return };
    let drifts = std::fs::read_to_string(shared.join("vectors/real-drifts.jsonl")).unwrap();
    let mut proceed = 0;
    for drift in drifts.lines() {
        let drift: BTreeMap<&str, &RawValue> = serde_json::from_str(drift).unwrap();
        if drift["guard"].get() != "\"proceed\"" {
            continue;
        }
        proceed += 1;
        let [before, after] =
            ["before", "after"].map(|side| scan_definition(&Definition::read(drift[side].get())));
        assert_eq!(introduced(&before, &after), [], "{}", drift["id"].get());
    }
    assert!(proceed > 100, "only {proceed} such drifts were found");
}

/// Figures for whoever runs the tests with `--nocapture`.
pub(crate) fn show(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{line}");
}
