//! The API's description: it names what the router answers, it is checked in as it is, and its shapes are those that are read
//! and written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use axum::http::Method;
use mcpindex_contract::signal::{Digests, Event, Fingerprint, InstallId, Sdk, Signal, write};
use mcpindex_server::openapi;
use mcpindex_store::accounts::{Role, Scope};
use mcpindex_store::testing::TestStore;
use serde_json::Value;

use crate::access::key;
use crate::client::{Client, NOW};
use crate::programs::Place;

/// Addresses that programs call, and only these, are in the document.
fn is_for_programs(path: &str) -> bool {
    [
        "/api/",
        "/v0.1/",
        "/.well-known/",
        "/healthz",
        "/readyz",
        "/metrics",
    ]
    .iter()
    .any(|start| path.starts_with(start))
}

/// Every address of the router, from where it is written.
fn routed_paths() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for call in code.split(".route(").skip(1) {
            let literal = call
                .trim_start()
                .strip_prefix('"')
                .and_then(|rest| rest.split('"').next());
            let literal =
                literal.unwrap_or_else(|| panic!("{}: a route's path must be a literal", path.display()));
            paths.insert(literal.to_owned());
        }
    }
    assert!(paths.len() > 20, "{paths:?}");
    paths
}

/// What the document says: methods by path.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let document = openapi::document();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .map(|(path, item)| (path.clone(), item.as_object().unwrap().keys().cloned().collect()))
        .collect()
}

#[tokio::test]
async fn the_document_names_the_routes_and_methods_of_the_router() {
    let database = TestStore::sqlite().await;
    let client = Client(database.store.clone());
    let key = key(&database.store, &Scope::ALL).await;
    // What is for admins takes one.
    let admin = database
        .store
        .set_role(key.record.account, Role::Admin, crate::client::NOW);
    admin.await.unwrap();
    let key = format!("Bearer {}", key.text);
    let mut routed = BTreeMap::new();
    for path in routed_paths().into_iter().filter(|path| is_for_programs(path)) {
        // Nobody has this method, so the answer lists those that there are.
        let method = Method::from_bytes(b"PROBE").unwrap();
        let filled = path.replace(['{', '}'], "");
        let answer = client.send(method, &filled, &[("authorization", &key)]).await;
        assert_eq!(answer.status, 405, "{path}: {}", answer.text());
        let methods = answer
            .header("allow")
            .split(',')
            .map(|name| name.trim().to_lowercase());
        // HEAD comes with each GET, and a preflight is the browser's question, not a program's.
        routed.insert(
            path,
            methods
                .filter(|name| name != "head" && name != "options")
                .collect::<BTreeSet<_>>(),
        );
    }
    assert_eq!(documented(), routed, "a route and openapi.rs do not agree");
}

#[test]
fn the_document_is_checked_in_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, openapi::text()).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == openapi::text(),
        "docs/openapi.json is not what the code says: run with UPDATE_DOCS=1"
    );
}

#[tokio::test]
async fn the_program_prints_what_the_server_serves() {
    let database = TestStore::sqlite().await;
    let served = Client(database.store.clone()).ok("/api/openapi.json").await;
    assert_eq!(served.header("content-type"), "application/json");
    let printed = Place::new().run(&["openapi"]).await;
    assert_eq!((printed.code(), printed.stdout()), (Some(0), served.text()));
}

/// Every operation as `method path`.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter()
            .map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    operations.collect()
}

#[test]
fn each_operation_says_what_it_is_and_what_it_answers() {
    let document = openapi::document();
    let tags: Vec<&Value> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| &tag["name"])
        .collect();
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(
            operation["summary"]
                .as_str()
                .is_some_and(|text| text.ends_with('.')),
            "{name}"
        );
        assert!(
            tags.contains(&&operation["tags"][0]),
            "{name}: {}",
            operation["tags"]
        );
        assert!(
            ids.insert(operation["operationId"].to_string()),
            "{name}: its id is another one's"
        );
        for (status, response) in operation["responses"].as_object().unwrap() {
            assert!(response["description"].is_string(), "{name} {status}");
            let failed = status.starts_with(['4', '5']);
            assert!(!failed || response["content"].is_object(), "{name} {status}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = openapi::document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// The members of a written object are those of a shape, and what the shape requires is there.
fn check_shape(name: &str, written: &Value) {
    let document = openapi::document();
    let shape = &document["components"]["schemas"][name];
    let properties = shape["properties"].as_object().unwrap();
    let members = written.as_object().unwrap();
    for member in members.keys() {
        assert!(properties.contains_key(member), "{name} has no `{member}`");
    }
    for required in shape["required"].as_array().unwrap() {
        assert!(
            members.contains_key(required.as_str().unwrap()),
            "{name} requires {required}"
        );
    }
}

#[test]
fn a_signal_is_written_in_the_shape_that_the_document_names() {
    let hash = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let signal = Signal {
        event: Event::Drift,
        server: Fingerprint::from_bytes([1; 16]),
        tool: Fingerprint::from_bytes([2; 16]),
        hash_before: Some(hash("a")),
        hash_after: hash("b"),
        digests: None,
        kinds: vec!["removed-param"],
        safety_relevant: true,
        hour: Some(NOW - NOW % 3_600),
        sdk: Sdk::Rs,
        install: InstallId::from_bytes([3; 16]),
    };
    let digests = Digests {
        before: Some(hash("a").parse().unwrap()),
        after: hash("b").parse().unwrap(),
    };
    let newer = Signal {
        digests: Some(digests),
        ..signal.clone()
    };
    let batch: Value = serde_json::from_str(&write(&[signal, newer])).unwrap();
    check_shape("SignalBatch", &batch);
    check_shape("Signal", &batch["signals"][0]);
    check_shape("Signal", &batch["signals"][1]);
}
