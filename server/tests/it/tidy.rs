//! The rules of ARCHITECTURE.md that a program can check: the crate graph, what is absent where, and what every file
//! owes its reader.
//!
//! Invariant: each check names the file or the package that breaks the rule, and the rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Who may depend on whom (design: contract ← store, sdk ← crawler ← server; sdk sees store only behind a feature).
const EDGES: &[(&str, &[&str])] = &[
    ("mcpindex-contract", &[]),
    ("mcpindex-store", &["mcpindex-contract"]),
    ("mcpindex-sdk", &["mcpindex-contract", "mcpindex-store"]),
    (
        "mcpindex-crawler",
        &["mcpindex-contract", "mcpindex-sdk", "mcpindex-store"],
    ),
    (
        "mcpindex-server",
        &[
            "mcpindex-contract",
            "mcpindex-crawler",
            "mcpindex-sdk",
            "mcpindex-store",
        ],
    ),
];

/// Licences that one alternative of every package's expression must come from. The same list as in deny.toml.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// One TLS stack, rustls with ring: none of these in the default features.
const BANNED: &[&str] = &["openssl", "openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is above the crate")
        .to_path_buf()
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

fn metadata() -> Value {
    serde_json::from_str(&cargo(&["metadata", "--format-version", "1", "--locked"]))
        .expect("cargo prints JSON")
}

/// The packages that the programs are built from: everything reachable without dev-dependencies.
fn shipped(metadata: &Value) -> Vec<&Value> {
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut open: Vec<&str> = metadata["workspace_members"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().into_iter().flatten() {
            let is_dev_only = dependency["dep_kinds"]
                .as_array()
                .into_iter()
                .flatten()
                .all(|kind| kind["kind"] == "dev");
            if let (false, Some(package)) = (is_dev_only, dependency["pkg"].as_str()) {
                open.push(package);
            }
        }
    }
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| package["id"].as_str().is_some_and(|id| reached.contains(id)))
        .collect()
}

/// Every file below the repository's own folders that git would keep, with one of these endings.
fn files(folders: &[&str], ending: &str) -> Vec<(String, String)> {
    let root = root();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && !matches!(name.as_str(), "target" | "node_modules" | ".venv") {
            open.extend(
                std::fs::read_dir(&path)
                    .expect("a folder")
                    .flatten()
                    .map(|entry| entry.path()),
            );
        } else if path.is_file() && name.ends_with(ending) {
            let relative = path
                .strip_prefix(&root)
                .expect("below the root")
                .to_string_lossy()
                .into_owned();
            found.push((relative, std::fs::read_to_string(&path).expect("UTF-8 text")));
        }
    }
    assert!(!found.is_empty(), "no {ending} files in {folders:?}");
    found.sort();
    found
}

fn rust_files() -> Vec<(String, String)> {
    files(&["contract", "store", "sdk", "crawler", "server"], ".rs")
}

/// Product code of these crates: `src` without its test modules at the files' ends.
fn product_code(crates: &[&str]) -> Vec<(String, String)> {
    let inside = |path: &str| {
        crates
            .iter()
            .any(|name| path.starts_with(&format!("{name}/src/")))
    };
    let strip_tests = |text: String| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    rust_files()
        .into_iter()
        .filter(|(path, _)| inside(path))
        .map(|(path, text)| (path, strip_tests(text)))
        .collect()
}

fn check_absent(crates: &[&str], except: &str, needles: &[&str], rule: &str) {
    for (path, text) in product_code(crates) {
        if !except.is_empty() && path.starts_with(except) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            for needle in needles {
                assert!(
                    is_comment || !line.contains(needle),
                    "{path}:{}: `{needle}`: {rule}",
                    number + 1
                );
            }
        }
    }
}

#[test]
fn the_crate_graph_has_no_edge_that_the_design_does_not_draw() {
    let metadata = metadata();
    for (name, allowed) in EDGES {
        let package = metadata["packages"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|package| package["name"] == *name);
        let package = package.unwrap_or_else(|| panic!("{name} is in the workspace"));
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let on = dependency["name"].as_str().unwrap_or_default();
            if !on.starts_with("mcpindex-") || dependency["kind"] == "dev" {
                continue;
            }
            assert!(allowed.contains(&on), "{name} → {on} is not in the crate graph");
            let is_sdk_to_store = *name == "mcpindex-sdk" && on == "mcpindex-store";
            assert!(
                !is_sdk_to_store || dependency["optional"] == true,
                "sdk → store only behind its feature"
            );
        }
    }
}

#[test]
fn every_shipped_package_has_a_licence_from_the_list() {
    for package in shipped(&metadata()) {
        let expression = package["license"]
            .as_str()
            .unwrap_or_default()
            .replace('/', " OR ");
        let is_allowed = expression.split(" AND ").all(|clause| {
            let clause = clause.trim_matches(['(', ')', ' ']);
            clause
                .split(" OR ")
                .any(|licence| LICENCES.contains(&licence.trim_matches(['(', ')', ' '])))
        });
        assert!(
            is_allowed,
            "{} {}: licence `{expression}`",
            package["name"], package["version"]
        );
    }
}

#[test]
fn the_licence_list_is_the_one_of_deny_toml() {
    let deny: toml::Table = std::fs::read_to_string(root().join("deny.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let allowed: Vec<&str> = deny["licenses"]["allow"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|licence| licence.as_str())
        .collect();
    assert_eq!(allowed, LICENCES);
}

#[test]
fn there_is_one_tls_stack() {
    for package in shipped(&metadata()) {
        let name = package["name"].as_str().unwrap_or_default();
        assert!(
            !BANNED.contains(&name),
            "{name} is in the default features; rustls with ring is the one TLS stack"
        );
    }
}

#[test]
fn serde_json_keeps_its_plain_maps_and_numbers() {
    let metadata = metadata();
    for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
        if !node["id"].as_str().is_some_and(|id| id.contains("#serde_json@")) {
            continue;
        }
        for feature in ["preserve_order", "arbitrary_precision"] {
            let is_on = node["features"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|on| on == feature);
            assert!(
                !is_on,
                "serde_json's `{feature}` changes every crate's maps or numbers"
            );
        }
    }
}

#[test]
fn contract_is_pure() {
    let needles = [
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::time",
        "std::thread",
        "async fn",
        "tokio",
        "HashMap",
    ];
    check_absent(
        &["contract"],
        "",
        &needles,
        "contract has no I/O, clock, randomness or async",
    );
}

#[test]
fn sql_is_only_in_store() {
    let needles = ["sqlx::", "SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM"];
    check_absent(
        &["contract", "sdk", "crawler", "server"],
        "",
        &needles,
        "SQL only in store",
    );
}

#[test]
fn only_store_depends_on_the_database_driver() {
    let metadata = metadata();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let mut dependencies = package["dependencies"].as_array().into_iter().flatten();
        let has_driver = dependencies.any(|dependency| dependency["name"] == "sqlx");
        let is_ours = name.starts_with("mcpindex-") && name != "mcpindex-store";
        assert!(!(is_ours && has_driver), "{name} → sqlx: SQL only in store");
    }
}

#[test]
fn json_rpc_is_written_only_on_the_wire() {
    let needles = ["\"jsonrpc\"", "jsonrpc:"];
    let crates = ["contract", "store", "sdk", "crawler", "server"];
    check_absent(
        &crates,
        "sdk/src/wire",
        &needles,
        "JSON-RPC by hand only in sdk::wire",
    );
}

#[test]
fn outgoing_http_of_the_service_goes_through_the_guarded_client() {
    let needles = ["reqwest::Client", "ClientBuilder", "reqwest::blocking"];
    check_absent(
        &["crawler", "server"],
        "crawler/src/guarded_client",
        &needles,
        "only the guarded client goes out",
    );
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for (path, text) in files(&["contract", "store", "sdk", "crawler", "server"], "Cargo.toml") {
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{path}: `[lints] workspace = true`"
        );
    }
}

#[test]
fn every_file_opens_by_saying_what_it_knows() {
    for (path, text) in rust_files() {
        assert!(text.starts_with("//!"), "{path}: a module comment comes first");
    }
}

#[test]
fn files_are_named_for_what_they_know() {
    let vague = [
        "mod.rs",
        "utils.rs",
        "util.rs",
        "helpers.rs",
        "helper.rs",
        "common.rs",
        "manager.rs",
        "misc.rs",
    ];
    for (path, _) in rust_files() {
        let name = path.rsplit('/').next().unwrap_or_default();
        assert!(!vague.contains(&name), "{path}: named for what it knows");
    }
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    let attribute = ["#[al", "low("].concat();
    let inner = ["#![al", "low("].concat();
    for (path, text) in rust_files() {
        assert!(
            !text.contains(&attribute) && !text.contains(&inner),
            "{path}: `#[expect(…, reason = …)]` instead"
        );
    }
}

#[test]
fn both_databases_have_the_same_migrations() {
    let names = |folder: &str| -> Vec<String> {
        let listed = files(&[folder], ".sql").into_iter();
        listed
            .map(|(path, _)| path.rsplit('/').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(names("migrations/sqlite"), names("migrations/postgres"));
}

#[test]
fn the_architecture_names_every_module_file() {
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (path, _) in product_code(&["contract", "store", "sdk", "crawler", "server"]) {
        let mut parts = path.split("/src/");
        let (name, file) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let top = file.split('/').next().unwrap_or_default();
        let module = format!("`{}`", top.trim_end_matches(".rs"));
        let is_entry = matches!(top, "lib.rs" | "main.rs" | "bin");
        let section = architecture
            .split(&format!("### `{name}`"))
            .nth(1)
            .unwrap_or_default();
        let section = section.split("\n### ").next().unwrap_or_default();
        assert!(
            is_entry || section.contains(&module),
            "ARCHITECTURE.md, section `{name}`: {module} ({path})"
        );
    }
}
