//! The published client's pin files (version 2), read to take them over; never written.
//!
//! Its pins are keyed by the name of an entry in a host's configuration, and what they hold is not the server's text: null
//! members are left out. A definition of theirs is taken over in canonical form, and has the digest of what the server sent
//! unless that had members that are null. Records of before 0.19 (`_mcpindex_contract_fields` absent or below 2) know only
//! name, description and input schema for sure; older ones without a `schema` have a contract hash alone.
//!
//! Invariant: a file that is not exactly such a store is named and skipped, never half taken over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mcpindex_contract::canonical::canonical;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::json::{self, Value};
use serde::Deserialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::record::{Record, Via};
use crate::state::{StateDirectory, read_own_file};

/// The version of the files that are understood.
const VERSION: u64 = 2;
/// The largest file that is read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The member that the client puts into a definition, and from which value on a record has all members.
const CONTRACT_FIELDS: &str = "_mcpindex_contract_fields";
const ALL_FIELDS: u64 = 2;

/// What the published client pinned under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPins {
    /// Its name for the server: the entry's name in a host's configuration.
    pub server_id: String,
    /// Where it stands.
    pub file: PathBuf,
    /// The tools with a definition, by name.
    pub tools: Vec<PublishedTool>,
    /// The tools of which only a contract hash is known, which covers too little to be a baseline.
    pub hash_only: Vec<String>,
}

/// One tool as the published client knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTool {
    /// The tool's name.
    pub name: String,
    /// The definition as recorded, canonical (RFC 8785).
    pub definition: String,
    /// Whether only name, description and input schema were surely recorded, so that what else the server declares will
    /// differ from this.
    pub is_partial: bool,
    /// When, unix seconds, if the record says so in a form that is known.
    pub pinned_at: Option<i64>,
}

/// What became of taking pins over, by tool name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// They are the baseline now.
    pub taken: Vec<String>,
    /// Those among them that were recorded only in part ([`PublishedTool::is_partial`]).
    pub partial: Vec<String>,
    /// They had a baseline already, which stays.
    pub kept: Vec<String>,
    /// There is nothing to hold a server to: only a contract hash, or a definition without a digest.
    pub unusable: Vec<String>,
}

impl PublishedPins {
    /// Makes the definitions baselines of `record` ([`Via::Imported`]), each since it was pinned or else since `now`. A
    /// baseline of our own is exact where theirs is not, so it stays.
    pub fn take_over(&self, record: &mut Record, now: i64) -> TakenOver {
        let mut became = TakenOver {
            unusable: self.hash_only.clone(),
            ..TakenOver::default()
        };
        for tool in &self.tools {
            let definition = Definition::read(&tool.definition);
            let known = record.tools.get(&tool.name);
            let name = tool.name.clone();
            if known.is_some_and(|known| known.baseline.is_some()) {
                became.kept.push(name);
            } else if definition.no_digest().is_some() {
                became.unusable.push(name);
            } else {
                record.pin(
                    &tool.name,
                    &definition,
                    Via::Imported,
                    tool.pinned_at.unwrap_or(now),
                );
                if tool.is_partial {
                    became.partial.push(name.clone());
                }
                became.taken.push(name);
            }
        }
        became
    }
}

/// Everything in the state directory's `pins/`, or what is wrong with a file.
pub fn published_pins(state: &StateDirectory) -> Vec<Result<PublishedPins, String>> {
    let Ok(entries) = std::fs::read_dir(state.path().join("pins")) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.ends_with(".json") && !name.starts_with('.')
        })
        .collect();
    paths.sort_unstable();
    paths
        .iter()
        .flat_map(|path| match published_pins_in(path) {
            Ok(pins) => pins.into_iter().map(Ok).collect(),
            Err(problem) => vec![Err(problem)],
        })
        .collect()
}

/// What stands in one of its files, by name.
pub fn published_pins_in(path: &Path) -> Result<Vec<PublishedPins>, String> {
    let wrong = |problem: String| {
        format!(
            "`{}` is no pin file of the published client: {problem}",
            path.display()
        )
    };
    let own = read_own_file(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let own = own.ok_or_else(|| wrong("there is no such file".to_owned()))?;
    let store = read_store(&own.bytes).map_err(wrong)?;
    let mut servers: BTreeMap<String, PublishedPins> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for pin in store.pins {
        if !seen.insert((pin.server_id.clone(), pin.tool_name.clone())) {
            return Err(wrong(format!("`{}` is pinned twice", pin.tool_name)));
        }
        let server = servers
            .entry(pin.server_id.clone())
            .or_insert_with(|| PublishedPins {
                server_id: pin.server_id.clone(),
                file: path.to_owned(),
                tools: Vec::new(),
                hash_only: Vec::new(),
            });
        match pin.schema.as_deref() {
            None => server.hash_only.push(pin.tool_name),
            Some(schema) => {
                let tool = read_tool(&pin, schema.get());
                server
                    .tools
                    .push(tool.map_err(|problem| wrong(format!("`{}` {problem}", pin.tool_name)))?);
            }
        }
    }
    Ok(servers.into_values().collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    #[serde(rename = "version")]
    _version: u64,
    pins: Vec<StoredPin>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPin {
    server_id: String,
    tool_name: String,
    definition_hash: String,
    pinned_at: String,
    #[serde(default)]
    schema: Option<Box<RawValue>>,
    #[serde(default, rename = "via")]
    _via: Option<String>,
    #[serde(default, rename = "classification")]
    _classification: Option<Box<RawValue>>,
    #[serde(default, rename = "launch_key")]
    _launch_key: Option<String>,
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

fn read_store(bytes: &[u8]) -> Result<Store, String> {
    if let Ok(Version { version }) = serde_json::from_slice(bytes)
        && version != VERSION
    {
        return Err(format!("it is of version {version}, and only {VERSION} is known"));
    }
    let store: Store = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(store)
}

fn read_tool(pin: &StoredPin, schema: &str) -> Result<PublishedTool, String> {
    let document = json::read(schema).map_err(|error| format!("has a definition that is {error}"))?;
    let Value::Object(mut members) = document.value else {
        return Err("has a definition that is no object".to_owned());
    };
    if !document.flaws.is_empty() {
        return Err("has a definition that readers disagree on".to_owned());
    }
    let fields = members.iter().position(|(name, _)| name == CONTRACT_FIELDS);
    let fields = match fields.map(|index| members.remove(index).1) {
        None => 0,
        Some(Value::Number(number)) => number
            .text()
            .parse()
            .map_err(|_| format!("has a `{CONTRACT_FIELDS}` that is no whole number"))?,
        Some(_) => return Err(format!("has a `{CONTRACT_FIELDS}` that is no number")),
    };
    let value = Value::Object(members);
    if value.get("name").and_then(Value::as_str) != Some(&pin.tool_name) {
        return Err("has the definition of another tool".to_owned());
    }
    // On the text, since the client's hash tells 1.0 from 1.
    if contract_hash(&Definition::read(schema)).ok().as_deref() != Some(&pin.definition_hash) {
        return Err("has a definition that does not hash to its `definition_hash`".to_owned());
    }
    // Without canonical text there is no digest either, which is found out when it is taken over.
    let definition = canonical(&value, None).unwrap_or_else(|_| schema.to_owned());
    Ok(PublishedTool {
        name: pin.tool_name.clone(),
        definition,
        is_partial: fields < ALL_FIELDS,
        pinned_at: OffsetDateTime::parse(&pin.pinned_at, &Rfc3339)
            .ok()
            .map(OffsetDateTime::unix_timestamp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `search_docs` as in the published client's own files, hash and all.
    const HASH: &str = "sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10";
    const SCHEMA: &str = r#"{"_mcpindex_contract_fields": 3, "annotations": {"readOnlyHint": true}, "description": "Search the docs.",
        "inputSchema": {"properties": {"q": {"type": "string"}}, "required": ["q"], "type": "object"}, "name": "search_docs"}"#;
    const SENT: &str = r#"{"name":"search_docs","description":"Search the docs.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}"#;

    fn pin(tool: &str, rest: &str) -> String {
        format!(
            r#"{{"server_id": "docs", "tool_name": "{tool}", "definition_hash": "{HASH}", "pinned_at": "2026-03-01T10:00:00+00:00"{rest}}}"#
        )
    }

    fn store(pins: &[String]) -> String {
        format!(r#"{{"version": 2, "pins": [{}]}}"#, pins.join(", "))
    }

    fn read(text: &str) -> Vec<Result<PublishedPins, String>> {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        std::fs::create_dir(directory.path().join("pins")).unwrap();
        std::fs::write(directory.path().join("pins/docs.json"), text).unwrap();
        std::fs::write(directory.path().join("pins/.ever-pinned.json"), "{}").unwrap();
        published_pins(&state)
    }

    #[test]
    fn a_pin_taken_over_has_the_digest_of_what_the_server_sends() {
        let whole = pin(
            "search_docs",
            &format!(r#", "schema": {SCHEMA}, "via": "manual""#),
        );
        let pins = read(&store(&[whole, pin("old", "")])).remove(0).unwrap();
        assert_eq!(pins.server_id, "docs");
        let mut record = Record::default();
        let became = pins.take_over(&mut record, 7);
        let expected = TakenOver {
            taken: vec!["search_docs".to_owned()],
            unusable: vec!["old".to_owned()],
            ..TakenOver::default()
        };
        assert_eq!(became, expected);
        let pin = record.tools["search_docs"].baseline.as_ref().unwrap();
        assert_eq!(pin.digest, Definition::read(SENT).digest().to_string());
        assert_eq!((pin.at, pin.via), (1_772_359_200, Via::Imported));
        let again = pins.take_over(&mut record, 8);
        assert_eq!(again.kept, ["search_docs"]);
    }

    #[test]
    fn a_record_of_before_all_fields_were_kept_says_so() {
        let check = |fields: &str, is_partial: bool| {
            let schema = SCHEMA.replace(r#""_mcpindex_contract_fields": 3, "#, fields);
            let pins = read(&store(&[pin("search_docs", &format!(r#", "schema": {schema}"#))]))
                .remove(0)
                .unwrap();
            let became = pins.take_over(&mut Record::default(), 7);
            assert_eq!(
                (became.taken.len(), became.partial.len()),
                (1, usize::from(is_partial))
            );
        };
        check("", true);
        check(r#""_mcpindex_contract_fields": 1, "#, true);
        check(r#""_mcpindex_contract_fields": 2, "#, false);
    }

    #[test]
    fn what_is_not_exactly_such_a_store_is_named_and_skipped() {
        let check = |text: &str, problem: &str| {
            let read = read(text);
            let [Err(said)] = &read[..] else {
                panic!("{read:?}");
            };
            assert!(said.contains("pins/docs.json"), "{said}");
            assert!(said.ends_with(problem), "{said}");
        };
        let with = |schema: &str| store(&[pin("search_docs", &format!(r#", "schema": {schema}"#))]);
        check("", "EOF while parsing a value at line 1 column 0");
        check(r#"{"version": 3}"#, "it is of version 3, and only 2 is known");
        check(
            r#"{"version": 2, "pins": {}}"#,
            "invalid type: map, expected a sequence at line 1 column 23",
        );
        check(&store(&[pin("a", ""), pin("a", "")]), "`a` is pinned twice");
        check(
            &with(&SCHEMA.replace("Search the docs.", "Search all docs.")),
            "`search_docs` has a definition that does not hash to its `definition_hash`",
        );
        check(
            &with(&SCHEMA.replace("search_docs", "other")),
            "`search_docs` has the definition of another tool",
        );
        check(
            &with(&SCHEMA.replace("\"name\"", "\"description\":\"\",\"name\"")),
            "`search_docs` has a definition that readers disagree on",
        );
        check(&with("[]"), "`search_docs` has a definition that is no object");
        check(
            &with(&SCHEMA.replace(": 3,", ": true,")),
            "`search_docs` has a `_mcpindex_contract_fields` that is no number",
        );
    }
}
