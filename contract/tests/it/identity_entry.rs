//! Identities of what an MCP registry's entries name.

use mcpindex_contract::identity::{Identity, Registry, is_server_name};

fn entry(registry: Registry, identifier: &str, base: Option<&str>) -> String {
    match Identity::from_entry_package(registry, identifier, base) {
        Ok(launched) => format!(
            "{} {}{}",
            launched.identity,
            launched.version.as_deref().unwrap_or("-"),
            if launched.has_secret { " secret" } else { "" }
        ),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_package_without_an_address_is_the_usual_registrys() {
    for registry in [Registry::Npm, Registry::Pypi] {
        let short = entry(registry, "notes", None);
        assert_eq!(short, format!("{}:notes -", registry.name()));
        assert_eq!(entry(registry, "notes", Some("")), short);
    }
}

#[test]
fn another_registry_is_part_of_the_identity() {
    let check = |registry, identifier: &str, base: &str, expected: &str| {
        assert_eq!(entry(registry, identifier, Some(base)), expected);
    };
    let npm = Registry::Npm;
    check(
        npm,
        "@a/notes",
        "https://R.example/npm/",
        "npm:@a/notes?registry=https://r.example/npm -",
    );
    check(
        npm,
        "notes@1.0.0",
        "https://r.example",
        "npm:notes?registry=https://r.example 1.0.0",
    );
    check(
        npm,
        "notes",
        "https://user@r.example",
        "npm:notes?registry=https://r.example - secret",
    );
    check(
        npm,
        "notes",
        "https://r.example/?token=abc",
        "npm:notes?registry=https://r.example - secret",
    );
    check(
        npm,
        "notes",
        "ftp://r.example",
        "`ftp://r.example` can't name a server: it is no http(s) URL",
    );
}

#[test]
fn an_image_has_its_registry_in_its_name_or_beside_it() {
    let check = |identifier: &str, base: Option<&str>, expected: &str| {
        assert_eq!(entry(Registry::Oci, identifier, base), expected);
    };
    check("mcp/notes:1", None, "oci:docker.io/mcp/notes 1");
    check(
        "mcp/notes:1",
        Some("https://docker.io"),
        "oci:docker.io/mcp/notes 1",
    );
    check("acme/notes", Some("https://ghcr.io/"), "oci:ghcr.io/acme/notes -");
    check(
        "ghcr.io/acme/notes",
        Some("https://docker.io"),
        "oci:ghcr.io/acme/notes -",
    );
}

#[test]
fn an_identifier_names_a_package_and_nothing_else() {
    let check = |registry, identifier: &str, expected: &str| {
        assert_eq!(entry(registry, identifier, None), expected);
    };
    check(
        Registry::Npm,
        "notes?registry=https://r.example",
        "`notes?registry=https://r.example` is no npm package name",
    );
    check(Registry::Npm, "../notes", "`../notes` is no npm package name");
    check(
        Registry::Pypi,
        "notes @ git+https://r.example/x",
        "`notes @ git+https://r.example/x` names no version: expected a number, a tag or a range after the name",
    );
    check(Registry::Pypi, "Demo_Notes[all]", "pypi:demo-notes -");
}

#[test]
fn a_servers_name_follows_the_official_grammar() {
    let longest = format!("a/{}", "b".repeat(198));
    for name in ["a/b", "io.github.acme/notes", "A-1.x/_n.o-t_es", &longest] {
        assert!(is_server_name(name), "{name}");
    }
    let too_long = format!("{longest}b");
    for name in [
        "", "a", "a/", "/b", "a/b/c", "a_b/c", "a b/c", "ü/b", "a/b\n", &too_long,
    ] {
        assert!(!is_server_name(name), "{name}");
    }
}
