//! Entries of MCP registries: what of their packages and remotes can be looked at, and why the rest can't.

use mcpindex_crawler::sources::registry::{MAX_ARGUMENTS, MAX_FILLED, Reached, read_page};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::registry_page::{OFFICIAL, page, server, shown};

fn reached(members: Value) -> String {
    let page = page(json!([server(members)]));
    assert_eq!(page.skipped, []);
    let reached: Vec<String> = page.entries[0].reached.iter().map(shown).collect();
    reached.join("\n")
}

fn of_package(package: Value) -> String {
    let mut whole = json!({"registryType": "npm", "identifier": "notes", "version": "1.0.0", "transport": {"type": "stdio"}});
    for (name, value) in package.as_object().unwrap() {
        whole[name] = value.clone();
    }
    reached(json!({ "packages": [whole] }))
}

fn of_remote(remote: Value) -> String {
    let mut whole = json!({"type": "streamable-http", "url": "https://mcp.example.com/mcp"});
    for (name, value) in remote.as_object().unwrap() {
        whole[name] = value.clone();
    }
    reached(json!({ "remotes": [whole] }))
}

#[test]
fn packages_are_targets_with_their_exact_version() {
    let check = |package: Value, expected: &str| assert_eq!(of_package(package), expected);
    check(
        json!({}),
        r#"target npm:notes@1.0.0 {"package":{"registry":"npm","name":"notes"}}"#,
    );
    check(
        json!({"version": null}),
        r#"target npm:notes {"package":{"registry":"npm","name":"notes"}}"#,
    );
    check(
        json!({"version": "latest"}),
        r#"target npm:notes {"package":{"registry":"npm","name":"notes"}}"#,
    );
    check(
        json!({"registryType": "pypi", "identifier": "Demo_Notes", "version": "2025.07.01"}),
        r#"target pypi:demo-notes@2025.7.1 {"package":{"registry":"pypi","name":"demo-notes"}}"#,
    );
    check(
        json!({"identifier": "notes@1.0.0"}),
        r#"target npm:notes@1.0.0 {"package":{"registry":"npm","name":"notes"}}"#,
    );
    check(
        json!({"identifier": "notes@1.0.1"}),
        "refused package 1: it names two versions",
    );
    check(
        json!({"version": "^1.0.0"}),
        "refused package 1: `npm:notes@^1.0.0` can't be looked at: only an exact version can be looked at; leave it out for the newest one",
    );
    check(json!({"version": 1}), "refused package 1: its version is no text");
    check(
        json!({"identifier": "../notes"}),
        "refused package 1: `../notes` is no npm package name",
    );
    check(
        json!({"identifier": ""}),
        "refused package 1: it has no `identifier`",
    );
    check(
        json!({"registryType": 7}),
        "refused package 1: it has no `registryType`",
    );
    // What the starter list knows to be needed, where the entry gives no arguments.
    check(
        json!({"identifier": "@modelcontextprotocol/server-filesystem"}),
        r#"target npm:@modelcontextprotocol/server-filesystem@1.0.0 {"package":{"registry":"npm","name":"@modelcontextprotocol/server-filesystem","args":["."]}}"#,
    );
}

#[test]
fn what_can_t_be_looked_at_is_named_by_its_kind() {
    let check = |package: Value, expected: &str| assert_eq!(of_package(package), expected);
    for kind in ["nuget", "mcpb", "cargo", "maven", "gem"] {
        check(json!({ "registryType": kind }), &format!("unsupported {kind} ?"));
    }
    check(json!({"registryType": "a\u{1b}b"}), "unsupported a\\u{1b}b ?");
    check(
        json!({"registryType": "oci", "identifier": "acme/notes", "registryBaseUrl": "https://ghcr.io", "version": "2"}),
        "image oci:ghcr.io/acme/notes@2",
    );
    check(
        json!({"registryType": "docker", "identifier": "ghcr.io/acme/notes:2@sha256:0123456789abcdef0123456789abcdef"}),
        "image oci:ghcr.io/acme/notes@2@sha256:0123456789abcdef0123456789abcdef",
    );
    check(
        json!({"transport": {"type": "streamable-http", "url": "http://localhost:8080/mcp"}}),
        "unsupported npm over streamable-http npm:notes@1.0.0",
    );
    assert_eq!(of_remote(json!({"type": "websocket"})), "unsupported websocket ?");
}

#[test]
fn fixed_arguments_are_carried_in_their_order() {
    let check = |arguments: Value, expected: &str| {
        assert_eq!(of_package(json!({ "packageArguments": arguments })), expected);
    };
    let target = |args: &str| {
        format!(r#"target npm:notes@1.0.0 {{"package":{{"registry":"npm","name":"notes"{args}}}}}"#)
    };
    check(
        json!([
            {"type": "positional", "value": "serve"},
            {"type": "named", "name": "--port", "value": 8080},
            {"type": "named", "name": "--stdio"},
            {"type": "named", "name": "--colour", "default": "{shade} green", "variables": {"shade": {"default": "dark"}}},
            {"type": "positional", "value": "{not-declared}"},
            {"type": "named", "name": "--optional", "valueHint": "a_file"},
            {"type": "positional", "valueHint": "folder"},
            {"type": "positional", "value": "{where}", "variables": {"where": {}}},
        ]),
        &target(r#","args":["serve","--port","8080","--stdio","--colour","dark green","{not-declared}"]"#),
    );
    check(
        json!([
            {"type": "positional", "valueHint": "folder", "isRequired": true},
            {"type": "named", "name": "--user", "value": "{first}:{last}", "variables": {
                "first": {"isRequired": true}, "last": {"isRequired": true, "default": "hidden", "isSecret": true}}},
            {"type": "positional", "valueHint": "folder", "isRequired": true},
            {"type": "positional", "isRequired": true},
        ]),
        "needs folder, first, last, argument 4 for npm:notes@1.0.0",
    );
    check(
        json!([{"type": "named", "name": "--level", "value": "hidden", "isSecret": true}]),
        &target(""),
    );
    check(
        json!([{"type": "named", "name": "--token", "value": "hidden"}]),
        "refused package 1: a part of it looks like a credential, and the index stores none",
    );
    check(
        json!([{"type": "named"}]),
        "refused package 1: its argument 1 has no name",
    );
    check(
        json!([{"type": "spoken"}]),
        "refused package 1: its argument 1 is of no known type",
    );
    check(
        json!([7]),
        "refused package 1: its argument 1 is of no known type",
    );
    check(json!({}), "refused package 1: its `packageArguments` is no list");
    let many = vec![json!({"type": "positional", "value": "x"}); MAX_ARGUMENTS + 1];
    check(json!(many), "refused package 1: it has more than 64 arguments");
}

#[test]
fn what_is_filled_in_does_not_grow_without_bound() {
    let check = |template: String, value: String, is_refused: bool| {
        let reached = of_package(json!({"packageArguments": [
            {"type": "positional", "value": template, "variables": {"a": {"default": value}}}]}));
        let refusal = "refused package 1: a value of it is longer than 8 KiB";
        assert_eq!(reached == refusal, is_refused, "{}", &reached[..100]);
    };
    check("{a}".repeat(10_000), "b".repeat(100_000), true);
    check("{a}".repeat(8), "b".repeat(MAX_FILLED / 8), false);
    check("{a}".repeat(8) + "b", "b".repeat(MAX_FILLED / 8), true);
    check("{".repeat(MAX_FILLED), "b".to_owned(), false);
    check("{".repeat(MAX_FILLED + 1), "b".to_owned(), true);
    // What is filled in is not filled in again.
    check("{a}".repeat(8), "{a}".repeat(300), false);
}

#[test]
fn the_runtimes_arguments_count_only_for_which_server_it_is() {
    let check = |arguments: Value, expected: &str| {
        assert_eq!(
            of_package(json!({"runtimeHint": "npx", "runtimeArguments": arguments})),
            expected
        );
    };
    let plain = r#"target npm:notes@1.0.0 {"package":{"registry":"npm","name":"notes"}}"#;
    check(json!([{"type": "positional", "value": "-y"}]), plain);
    check(json!([{"type": "named", "name": "-y"}]), plain);
    check(
        json!([{"type": "named", "name": "--package", "value": "notes@1.0.0"}]),
        plain,
    );
    check(
        json!([{"type": "named", "name": "--registry", "value": "https://r.example/"}]),
        r#"target npm:notes?registry=https://r.example@1.0.0 {"package":{"registry":"npm","name":"notes","alternative":"https://r.example"}}"#,
    );
    let other = "refused package 1: its runtime arguments may start something else than the package";
    check(
        json!([{"type": "named", "name": "--package", "value": "other"}]),
        other,
    );
    check(json!([{"type": "named", "name": "--call", "value": "sh"}]), other);
    check(
        json!([{"type": "named", "name": "--registry", "value": "https://a:b@r.example/"}]),
        "refused package 1: a part of it looks like a credential, and the index stores none",
    );
}

#[test]
fn another_package_registry_is_part_of_the_identity() {
    let check =
        |base: &str, expected: &str| assert_eq!(of_package(json!({ "registryBaseUrl": base })), expected);
    check(
        "https://r.example/npm/",
        r#"target npm:notes?registry=https://r.example/npm@1.0.0 {"package":{"registry":"npm","name":"notes","alternative":"https://r.example/npm"}}"#,
    );
    check(
        "https://user@r.example/npm/",
        "refused package 1: a part of it looks like a credential, and the index stores none",
    );
    let two = json!({"registryBaseUrl": "https://a.example", "runtimeArguments": [
        {"type": "named", "name": "--registry", "value": "https://b.example"}]});
    assert_eq!(
        of_package(two),
        "refused package 1: it names two package registries"
    );
}

#[test]
fn required_variables_and_headers_are_named_and_their_values_never() {
    let spec = r#"{"package":{"registry":"npm","name":"notes"}}"#;
    let check = |variables: Value, expected: &str| {
        assert_eq!(of_package(json!({ "environmentVariables": variables })), expected);
    };
    check(
        json!([
            {"name": "KEY", "isRequired": true, "isSecret": true, "default": "hidden"},
            {"name": "ODD", "isRequired": true, "isSecret": "yes", "default": "hidden"},
            {"name": "URL", "isRequired": true},
            {"name": "LEVEL", "isRequired": true, "default": "info"},
            {"name": "OPTIONAL", "isSecret": true},
            {"name": "HOME", "value": "/{user}", "variables": {"user": {"isRequired": true}}},
            {"name": "KEY", "isRequired": true},
            {"name": "sk-0123456789abcdefgh", "isRequired": true},
            {"isRequired": "true"},
        ]),
        &format!(
            "needs KEY, ODD, URL, user, <secret>, environment variable without a name for npm:notes@1.0.0 {spec}"
        ),
    );
    check(
        json!([{"name": "LEVEL", "default": "info"}]),
        &format!("target npm:notes@1.0.0 {spec}"),
    );
    check(
        json!([7]),
        "refused package 1: its list of environment variables holds what is no object",
    );
    assert_eq!(
        of_remote(json!({"headers": [
            {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isRequired": true, "isSecret": true}}},
            {"name": "X-Region", "isRequired": true, "default": "north"},
        ]})),
        r#"needs token for https://mcp.example.com/mcp {"url":"https://mcp.example.com/mcp"}"#
    );
}

#[test]
fn a_template_is_filled_in_or_says_what_it_lacks() {
    let check = |url: &str, variables: Value, expected: &str| {
        assert_eq!(
            of_remote(json!({"url": url, "variables": variables})),
            expected,
            "{url}"
        );
    };
    check(
        "https://{region}.example.com/mcp",
        json!({"region": {"default": "eu"}}),
        r#"target https://eu.example.com/mcp {"url":"https://eu.example.com/mcp"}"#,
    );
    check(
        "https://{tenant}.example.com/mcp",
        json!({"tenant": {}}),
        "needs tenant for ?",
    );
    check(
        "https://example.com/{tenant-id}/{tenant-id}",
        json!(null),
        "needs tenant-id for ?",
    );
    check(
        "{baseUrl}/mcp",
        json!({"baseUrl": {"isRequired": true}}),
        "needs baseUrl for ?",
    );
    check(
        "https://example.com/{where}?api_key={key}",
        json!({"where": {"value": "mcp"}, "key": {"default": "hidden", "isSecret": true}}),
        "needs key for https://example.com/mcp",
    );
    check(
        "https://example.com/{",
        json!(null),
        "refused remote 1: its URL has a brace that belongs to no variable",
    );
}

#[test]
fn remotes_are_kept_as_they_are_unless_they_name_no_server() {
    let check = |url: &str, expected: &str| assert_eq!(of_remote(json!({ "url": url })), expected);
    check(
        "http://127.0.0.1:8080/mcp",
        r#"target http://127.0.0.1:8080/mcp {"url":"http://127.0.0.1:8080/mcp"}"#,
    );
    check(
        "https://example.com/mcp?tools=all#x",
        r#"target https://example.com/mcp {"url":"https://example.com/mcp?tools=all"}"#,
    );
    let credential = "refused remote 1: a part of it looks like a credential, and the index stores none";
    check("https://example.com/mcp?token=hidden", credential);
    check("https://user:hidden@example.com/mcp", credential);
    check(
        "https://example.com/ghp_0123456789abcdefghij0123/mcp?x={y}",
        credential,
    );
    check(
        "npm:notes",
        "refused remote 1: `npm:notes` can't name a server: it is no http(s) URL",
    );
    check("", "refused remote 1: it has no `url`");
}

#[test]
fn what_is_there_twice_is_kept_once_in_the_way_with_which_most_can_be_done() {
    let npm = |version: &str, transport: &str, variables: Value| {
        json!({"registryType": "npm", "identifier": "notes", "version": version, "transport": {"type": transport},
               "environmentVariables": variables})
    };
    let needed = json!([{"name": "KEY", "isRequired": true}]);
    insta::assert_snapshot!(reached(json!({
        "packages": [
            npm("1.0.0", "streamable-http", json!([])),
            npm("1.0.0", "stdio", needed.clone()),
            npm("1.0.0", "stdio", json!([])),
            npm("1.0.0", "sse", json!([])),
            npm("1.0.1", "stdio", needed),
            {"registryType": "nuget", "identifier": "Notes"},
            {"registryType": "nuget", "identifier": "Notes"},
            7,
        ],
        "remotes": [
            {"type": "streamable-http", "url": "https://example.com/mcp?a=1"},
            {"type": "sse", "url": "https://example.com/mcp?b=1"},
        ],
    })), @r#"
        target npm:notes@1.0.0 {"package":{"registry":"npm","name":"notes"}}
        needs KEY for npm:notes@1.0.1 {"package":{"registry":"npm","name":"notes"}}
        unsupported nuget ?
        refused package 8: it is no object
        target https://example.com/mcp {"url":"https://example.com/mcp?a=1"}
        "#);
}

/// JSON made of the names and values that entries are made of.
fn likely() -> impl Strategy<Value = Value> {
    const NAMES: &[&str] = &[
        "server",
        "_meta",
        OFFICIAL,
        "x-io.modelcontextprotocol.registry",
        "name",
        "version",
        "version_detail",
        "status",
        "isLatest",
        "is_latest",
        "updatedAt",
        "updated_at",
        "packages",
        "remotes",
        "registryType",
        "registry_type",
        "identifier",
        "registryBaseUrl",
        "transport",
        "type",
        "url",
        "variables",
        "headers",
        "environmentVariables",
        "environment_variables",
        "packageArguments",
        "runtimeArguments",
        "value",
        "default",
        "isRequired",
        "is_required",
        "isSecret",
        "valueHint",
        "a",
    ];
    const TEXTS: &[&str] = &[
        "",
        "a/b",
        "1.0.0",
        "latest",
        "^1",
        "active",
        "deleted",
        "npm",
        "pypi",
        "oci",
        "mcpb",
        "stdio",
        "sse",
        "streamable-http",
        "named",
        "positional",
        "notes",
        "@a/b",
        "a/b:1@sha256:00",
        "https://example.com/{a}",
        "https://u:p@example.com",
        "{a}",
        "{a",
        "}{",
        "{é}",
        "--registry",
        "--token",
        "sk-0123456789abcdefgh",
        "2026-01-01T00:00:00Z",
        "\u{202e}",
        "é",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 96, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(NAMES), inner), 0..8).prop_map(|members| {
                Value::Object(
                    members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

/// An entry that is whole but for its packages and remotes.
fn likely_server() -> impl Strategy<Value = Value> {
    let items = || prop::collection::vec(likely(), 0..4);
    let merge = |whole: Value, item: Value| {
        let mut merged = whole;
        if let (Some(whole), Value::Object(members)) = (merged.as_object_mut(), item) {
            whole.extend(members);
        }
        merged
    };
    (items(), items()).prop_map(move |(packages, remotes)| {
        let package = json!({"registryType": "npm", "identifier": "notes"});
        let remote = json!({"type": "sse", "url": "https://example.com/{a}"});
        let packages: Vec<Value> = packages
            .into_iter()
            .map(|item| merge(package.clone(), item))
            .collect();
        let remotes: Vec<Value> = remotes
            .into_iter()
            .map(|item| merge(remote.clone(), item))
            .collect();
        server(json!({"packages": packages, "remotes": remotes}))
    })
}

fn check_page(servers: Vec<Value>, metadata: Value) -> Result<(), TestCaseError> {
    let count = servers.len();
    let body = json!({"servers": servers, "metadata": metadata}).to_string();
    let Ok(page) = read_page(body.as_bytes()) else {
        return Ok(());
    };
    prop_assert_eq!(page.entries.len() + page.skipped.len(), count);
    for reached in page.entries.iter().flat_map(|entry| &entry.reached) {
        let said = shown(reached);
        prop_assert!(!said.contains(['\n', '\u{202e}']), "{said}");
        prop_assert!(!said.contains("sk-0123456789abcdefgh"), "{said}");
        match reached {
            Reached::Target { spec } => prop_assert!(spec.identity.form() != "command", "{said}"),
            Reached::NeedsConfig { names, .. } => prop_assert!(!names.is_empty(), "{said}"),
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_json_of_known_members_is_more_than_a_page_or_an_error(servers in prop::collection::vec(likely(), 0..4), metadata in likely()) {
        check_page(servers, metadata)?;
    }

    #[test]
    fn no_package_or_remote_is_more_than_something_reached_or_a_reason(servers in prop::collection::vec(likely_server(), 1..3)) {
        check_page(servers, Value::Null)?;
    }

    #[test]
    fn no_bytes_are_more_than_a_page_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_page(&bytes);
    }
}
