//! Pages of MCP registries: what is read of each form, and what of a broken one.

use mcpindex_crawler::sources::registry::{
    MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_REACHED, Page, Reached, Status, read_page,
};
use serde_json::{Value, json};

pub(crate) const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

pub(crate) fn page(servers: Value) -> Page {
    read_page(json!({ "servers": servers }).to_string().as_bytes()).unwrap()
}

/// An entry with these members beside its name and version.
pub(crate) fn server(members: Value) -> Value {
    let mut server =
        json!({"name": "io.github.acme/notes", "description": "keeps notes", "version": "1.0.0"});
    for (name, value) in members.as_object().unwrap() {
        server[name] = value.clone();
    }
    json!({ "server": server })
}

pub(crate) fn shown(reached: &Reached) -> String {
    let named = |identity: &Option<_>| {
        identity.as_ref().map_or_else(
            || "?".to_owned(),
            |identity: &mcpindex_contract::identity::Identity| identity.to_string(),
        )
    };
    let at = |version: &Option<String>| {
        version
            .as_deref()
            .map_or_else(String::new, |version| format!("@{version}"))
    };
    match reached {
        Reached::Target { spec } => {
            format!(
                "target {}{} {}",
                spec.identity,
                at(&spec.version),
                spec.reach.to_json()
            )
        }
        Reached::NeedsConfig {
            identity,
            version,
            spec,
            names,
        } => format!(
            "needs {} for {}{}{}",
            names.join(", "),
            named(identity),
            at(version),
            spec.as_ref()
                .map_or_else(String::new, |spec| format!(" {}", spec.reach.to_json()))
        ),
        Reached::NeedsContainerRuntime { identity, version } => format!("image {identity}{}", at(version)),
        Reached::Unsupported {
            kind,
            identity,
            version,
        } => format!("unsupported {kind} {}{}", named(identity), at(version)),
        Reached::Refused { reason } => format!("refused {reason}"),
    }
}

fn every_entry(page: &Page) -> String {
    let mut lines = Vec::new();
    for entry in &page.entries {
        let latest = if entry.is_latest { " latest" } else { "" };
        lines.push(format!(
            "{} {} {:?}{latest} {:?}",
            entry.name, entry.version, entry.status, entry.updated_at
        ));
        lines.extend(entry.reached.iter().map(|one| format!("  {}", shown(one))));
    }
    let skipped = page.skipped.iter();
    lines.extend(skipped.map(|skipped| format!("skipped {}: {}", skipped.entry, skipped.reason)));
    lines.push(format!("next {:?}", page.next_cursor));
    lines.join("\n")
}

#[test]
fn entries_of_the_official_registry_are_read() {
    let stdio = json!({"type": "stdio"});
    let official = |status: &str, at: Option<&str>, is_latest: bool| {
        let mut meta = json!({"status": status, "isLatest": is_latest});
        if let Some(at) = at {
            meta["publishedAt"] = json!(at);
            meta["updatedAt"] = json!(at);
        }
        json!({ OFFICIAL: meta })
    };
    let page = json!({
        "servers": [
            {
                "server": {
                    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
                    "name": "io.github.domdomegg/airtable-mcp-server",
                    "description": "bases, tables and rows",
                    "version": "1.7.2",
                    "packages": [
                        {"registryType": "npm", "identifier": "airtable-mcp-server", "version": "1.7.2", "runtimeHint": "npx",
                         "transport": stdio, "environmentVariables": [
                            {"name": "AIRTABLE_API_KEY", "description": "a token", "isRequired": true, "isSecret": true}]},
                        {"registryType": "oci", "identifier": "docker.io/domdomegg/airtable-mcp-server:1.7.2",
                         "runtimeHint": "docker", "transport": stdio},
                        {"registryType": "mcpb", "identifier": "https://example.com/airtable-mcp-server.mcpb",
                         "fileSha256": "8220de07a08ebe908f04da139ea03dbfe29758141347e945da60535fb7bcca20", "transport": stdio},
                    ],
                },
                "_meta": official("active", Some("2025-10-01T00:00:00Z"), false),
            },
            {
                "server": {
                    "name": "io.github.domdomegg/airtable-mcp-server", "description": "the same", "version": "1.7.3",
                    "packages": [{"registryType": "npm", "identifier": "airtable-mcp-server", "version": "1.7.3",
                                  "runtimeHint": "npx", "transport": stdio}],
                },
                "_meta": official("active", None, true),
            },
            {
                "server": {
                    "name": "io.github.domdomegg/time-mcp-nuget", "description": "the time", "version": "1.0.8",
                    "packages": [{"registryType": "nuget", "identifier": "TimeMcpServer", "version": "1.0.8",
                                  "runtimeHint": "dnx", "transport": stdio}],
                },
                "_meta": official("active", None, true),
            },
            {
                "server": {
                    "name": "io.github.domdomegg/time-mcp-pypi", "description": "the time", "version": "1.0.6",
                    "packages": [{"registryType": "pypi", "identifier": "time-mcp-pypi", "version": "1.0.6",
                                  "runtimeHint": "python", "transport": stdio}],
                },
                "_meta": official("active", None, true),
            },
            {
                "server": {
                    "name": "io.github.slimslenderslacks/remote", "description": "far away", "version": "0.1.0",
                    "remotes": [{"type": "sse", "url": "http://mcp-fs.anonymous.modelcontextprotocol.io/sse", "headers": [
                        {"name": "X-API-Key", "is_required": true, "is_secret": true},
                        {"name": "X-Region", "default": "us-east-1", "choices": ["us-east-1", "eu-west-1"]}]}],
                },
                "_meta": official("deprecated", None, true),
            },
            {
                "server": {
                    "name": "com.example/acme-analytics", "description": "figures", "version": "2.0.0",
                    "remotes": [
                        {"type": "streamable-http", "url": "https://{tenant_id}.analytics.example.com/mcp",
                         "variables": {"tenant_id": {"description": "whose", "isRequired": true}}},
                        {"type": "sse", "url": "https://analytics.example.com/sse"},
                    ],
                },
                "_meta": official("deleted", None, true),
            },
        ],
        "metadata": {"count": 6, "nextCursor": "com.example/acme-analytics:2.0.0"},
    });
    insta::assert_snapshot!(every_entry(&read_page(page.to_string().as_bytes()).unwrap()), @r#"
    io.github.domdomegg/airtable-mcp-server 1.7.2 Active Some(1759276800)
      needs AIRTABLE_API_KEY for npm:airtable-mcp-server@1.7.2 {"package":{"registry":"npm","name":"airtable-mcp-server"}}
      image oci:docker.io/domdomegg/airtable-mcp-server@1.7.2
      unsupported mcpb ?
    io.github.domdomegg/airtable-mcp-server 1.7.3 Active latest None
      target npm:airtable-mcp-server@1.7.3 {"package":{"registry":"npm","name":"airtable-mcp-server"}}
    io.github.domdomegg/time-mcp-nuget 1.0.8 Active latest None
      unsupported nuget ?
    io.github.domdomegg/time-mcp-pypi 1.0.6 Active latest None
      target pypi:time-mcp-pypi@1.0.6 {"package":{"registry":"pypi","name":"time-mcp-pypi"}}
    io.github.slimslenderslacks/remote 0.1.0 Deprecated latest None
      needs X-API-Key for http://mcp-fs.anonymous.modelcontextprotocol.io/sse {"url":"http://mcp-fs.anonymous.modelcontextprotocol.io/sse"}
    com.example/acme-analytics 2.0.0 Deleted latest None
      needs tenant_id for ?
      target https://analytics.example.com/sse {"url":"https://analytics.example.com/sse"}
    next Some("com.example/acme-analytics:2.0.0")
    "#);
}

#[test]
fn older_forms_are_read() {
    let page = json!({
        "servers": [
            // Summer 2025: snake_case, the version in a detail, the registry's words beside the server.
            {
                "server": {
                    "name": "io.github.acme/old", "description": "old", "version_detail": {"version": "0.9.0"},
                    "packages": [{"registry_name": "pypi", "name": "Old_Notes", "version": "0.9.0", "package_arguments": [
                        {"type": "positional", "value_hint": "folder", "default": "."}], "environment_variables": [
                        {"name": "OLD_TOKEN", "is_required": true}]}],
                    "remotes": [{"transport_type": "sse", "url": "https://old.example.com/sse"}],
                },
                "x-io.modelcontextprotocol.registry": {"is_latest": false, "updated_at": "2025-07-01T10:00:00.5Z"},
            },
            // Without a wrapping.
            {
                "name": "io.github.acme/flat", "description": "flat", "version": "1.1.0", "status": "deprecated",
                "packages": [{"registry_type": "npm", "identifier": "@acme/flat", "version": "1.1.0",
                              "transport": {"type": "stdio"}}],
                "_meta": {OFFICIAL: {"is_latest": true, "updated_at": "2025-09-01T00:00:00+02:00"}},
            },
            // With nothing said of how it stands.
            {"server": {"name": "io.github.acme/bare", "description": "bare", "version": "v3", "packages": null}},
        ],
        "metadata": {"next_cursor": "abc", "count": 3},
    });
    insta::assert_snapshot!(every_entry(&read_page(page.to_string().as_bytes()).unwrap()), @r#"
    io.github.acme/old 0.9.0 Active Some(1751364000)
      needs OLD_TOKEN for pypi:old-notes@0.9.0 {"package":{"registry":"pypi","name":"old-notes","args":["."]}}
      target https://old.example.com/sse {"url":"https://old.example.com/sse"}
    io.github.acme/flat 1.1.0 Deprecated latest Some(1756677600)
      target npm:@acme/flat@1.1.0 {"package":{"registry":"npm","name":"@acme/flat"}}
    io.github.acme/bare v3 Active latest None
    next Some("abc")
    "#);
}

#[test]
fn what_the_registry_says_comes_before_what_the_publisher_says() {
    let page = page(json!([{
        "server": {
            "name": "a/b", "version": "1", "status": "active",
            "_meta": {OFFICIAL: {"status": "active", "isLatest": true}},
        },
        "_meta": {OFFICIAL: {"status": "deleted", "isLatest": false}},
    }]));
    assert_eq!(page.entries[0].status, Status::Deleted);
    assert!(!page.entries[0].is_latest);
}

#[test]
fn our_own_registrys_pages_are_read() {
    let meta = |status: &str, identity: &str| {
        json!({
            OFFICIAL: {
                "status": status,
                "statusChangedAt": "2026-11-28T16:54:05Z",
                "publishedAt": "2026-11-28T16:54:05Z",
                "updatedAt": "2026-11-30T16:54:05Z",
                "isLatest": true,
            },
            "dev.mcpindex/verdict": {"identity": identity, "policy": "all", "approval": "none", "tools": 2},
        })
    };
    let entry = |name: &str, member: &str, reached: Value, meta: Value| {
        let mut server = json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": name, "description": "one of ours", "version": "1.0.0",
        });
        server[member] = json!([reached]);
        json!({"server": server, "_meta": meta})
    };
    let stdio = json!({"type": "stdio"});
    let page = json!({
        "servers": [
            entry("npm.acme/notes", "packages", json!({"registryType": "npm", "identifier": "@acme/notes", "version": "1.0.0",
                "runtimeHint": "npx", "transport": stdio}), meta("active", "npm:@acme/notes")),
            entry("pypi/notes", "packages", json!({"registryType": "pypi", "identifier": "notes", "version": "1.0.0",
                "runtimeHint": "uvx", "transport": stdio}), meta("deleted", "pypi:notes")),
            entry("oci.ghcr.io/acme-notes-d30d4273c8155475", "packages", json!({"registryType": "oci",
                "identifier": "ghcr.io/acme/notes:1.0.0", "version": "1.0.0", "runtimeHint": "docker", "transport": stdio}),
                meta("active", "oci:ghcr.io/acme/notes")),
            entry("com.example.mcp/v1-mcp-022711de5f88d01f", "remotes", json!({"type": "streamable-http",
                "url": "https://mcp.example.com/v1/mcp"}), meta("active", "https://mcp.example.com/v1/mcp")),
        ],
        "metadata": {"count": 4, "nextCursor": "https://mcp.example.com/v1/mcp 0.0.0-0123456789ab"},
    });
    let read = read_page(page.to_string().as_bytes()).unwrap();
    insta::assert_snapshot!(every_entry(&read), @r#"
    npm.acme/notes 1.0.0 Active latest Some(1796057645)
      target npm:@acme/notes@1.0.0 {"package":{"registry":"npm","name":"@acme/notes"}}
    pypi/notes 1.0.0 Deleted latest Some(1796057645)
      target pypi:notes@1.0.0 {"package":{"registry":"pypi","name":"notes"}}
    oci.ghcr.io/acme-notes-d30d4273c8155475 1.0.0 Active latest Some(1796057645)
      image oci:ghcr.io/acme/notes@1.0.0
    com.example.mcp/v1-mcp-022711de5f88d01f 1.0.0 Active latest Some(1796057645)
      target https://mcp.example.com/v1/mcp {"url":"https://mcp.example.com/v1/mcp"}
    next Some("https://mcp.example.com/v1/mcp 0.0.0-0123456789ab")
    "#);
    for (entry, written) in read.entries.iter().zip(page["servers"].as_array().unwrap()) {
        let identity = match &entry.reached[0] {
            Reached::Target { spec } => spec.identity.to_string(),
            Reached::NeedsContainerRuntime { identity, .. } => identity.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(written["_meta"]["dev.mcpindex/verdict"]["identity"], identity);
    }
}

#[test]
fn a_malformed_entry_hides_no_other() {
    let deep = "[".repeat(300) + &"]".repeat(300);
    let body = format!(
        r#"{{"servers": [
            {{"server": {{"name": "a/first", "version": "1"}}}},
            7,
            {{"server": []}},
            {{"server": {{"version": "1"}}}},
            {{"server": {{"name": "no\u202e name", "version": "1"}}}},
            {{"server": {{"name": "a/no-version"}}}},
            {{"server": {{"name": "a/odd-version", "version": "1\u001b[2J"}}}},
            {{"server": {{"name": "a/packages", "version": "1", "packages": "npm"}}}},
            {{"server": {{"name": "a/status", "version": "1", "status": "asleep"}}}},
            {{"server": {{"name": "a/latest", "version": "1"}}, "_meta": {{"isLatest": "yes"}}}},
            {{"server": {{"name": "a/deep", "version": "1", "icons": {deep}}}}},
            {{"server": {{"name": "a/half \ud800", "version": "1"}}}},
            {{"server": {{"name": "a/time", "version": "1", "updatedAt": "yesterday"}}}},
            {{"server": {{"name": "a/last", "version": "1"}}}}
        ]}}"#
    );
    insta::assert_snapshot!(every_entry(&read_page(body.as_bytes()).unwrap()), @r#"
    a/first 1 Active latest None
    a/time 1 Active latest None
    a/last 1 Active latest None
    skipped entry 2: it is no object
    skipped entry 3: it is no object
    skipped entry 4: it has no `name`
    skipped no\u{202e} name: its name is not of the form `namespace/name`
    skipped a/no-version: it has no `version`
    skipped a/odd-version: its version is too long, or holds what can't be shown
    skipped a/packages: its `packages` is no list
    skipped a/status: its status is none of active, deprecated and deleted
    skipped a/latest: its `isLatest` is neither true nor false
    skipped entry 11: recursion limit exceeded at line 1 column 181
    skipped entry 12: unexpected end of hex escape at line 1 column 35
    next None
    "#);
}

#[test]
fn bytes_that_are_no_utf_8_are_their_entrys_business() {
    let body =
        b"{\"servers\":[{\"name\":\"a/\xff\",\"version\":\"1\"},{\"name\":\"a/b\",\"version\":\"1\"}]}";
    let page = read_page(body).unwrap();
    assert_eq!((page.entries.len(), page.skipped.len()), (1, 1));
}

#[test]
fn a_body_that_is_no_page_says_so_in_one_line() {
    let check = |body: &str, expected: &str| {
        assert_eq!(
            read_page(body.as_bytes()).unwrap_err().to_string(),
            expected,
            "{body}"
        );
    };
    check("\n<!doctype html><title>Welcome</title>", "it is HTML, not JSON");
    check("", "it is not JSON: EOF while parsing a value at line 1 column 0");
    check(
        "{\"servers\": [",
        "it is not JSON: EOF while parsing a list at line 1 column 13",
    );
    check("[[], null]", "it is no page of a registry: it is no object");
    check("{}", "it is no page of a registry: it has no `servers`");
    check(
        "{\"error\": \"no\"}",
        "it is no page of a registry: it has no `servers`",
    );
    check(
        "{\"servers\": {}}",
        "it is no page of a registry: its `servers` is no list",
    );
    check(
        "{\"servers\": [], \"servers\": []}",
        "it is no page of a registry: a member of it is there twice",
    );
    for metadata in ["7", "{\"nextCursor\": 7}"] {
        check(
            &format!("{{\"servers\": [], \"metadata\": {metadata}}}"),
            "it is no page of a registry: its `metadata` can't be read",
        );
    }
    let many = format!("{{\"servers\": [{}0]}}", "0,".repeat(MAX_ENTRIES));
    check(&many, "it has more than 20000 entries");
}

#[test]
fn an_end_is_an_end_however_it_is_written() {
    for end in [
        r#"{"servers": []}"#,
        r#"{"servers": null, "metadata": null}"#,
        r#"{"servers": [], "metadata": {}}"#,
        r#"{"servers": [], "metadata": {"nextCursor": null, "next_cursor": ""}}"#,
    ] {
        assert_eq!(read_page(end.as_bytes()).unwrap(), Page::default(), "{end}");
    }
}

#[test]
fn limits_on_an_entry_are_that_entrys() {
    let large = "x".repeat(MAX_ENTRY_BYTES);
    let remotes: Vec<Value> = (0..=MAX_REACHED)
        .map(|number| json!({"type": "sse", "url": format!("https://example.com/{number}")}))
        .collect();
    let page = page(json!([
        server(json!({ "title": large })),
        server(json!({ "remotes": remotes })),
        server(json!({ "remotes": &remotes[1..] })),
    ]));
    insta::assert_snapshot!(page.skipped.iter().map(|one| format!("{}: {}", one.entry, one.reason)).collect::<Vec<_>>().join("\n"), @r#"
    entry 1: larger than 256 KiB
    io.github.acme/notes: more than 100 packages and remotes
    "#);
    assert_eq!(page.entries[0].reached.len(), MAX_REACHED);
}
