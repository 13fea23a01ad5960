//! Targets as people give them, and as the store keeps them.

use mcpindex_crawler::target::{Reach, TargetSpec};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn shown(spec: Result<TargetSpec, mcpindex_crawler::CrawlError>) -> String {
    match spec {
        Ok(spec) => format!(
            "{} {} {}",
            spec.identity,
            spec.version.as_deref().unwrap_or("-"),
            spec.reach.to_json()
        ),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_version_is_exact_and_the_latest_is_that_of_the_day() {
    let check = |text: &str, expected: &str| {
        assert_eq!(shown(TargetSpec::from_reference(text, &[])), expected);
    };
    check(
        "npm:@demo/server@latest",
        r#"npm:@demo/server - {"package":{"registry":"npm","name":"@demo/server"}}"#,
    );
    check(
        "pypi:demo@2025.07.01",
        r#"pypi:demo 2025.7.1 {"package":{"registry":"pypi","name":"demo"}}"#,
    );
    for text in [
        "npm:demo@^1.0.0",
        "npm:demo@next",
        "npm:demo@1.0.0 --x",
        "pypi:demo@>=1",
    ] {
        let expected = format!(
            "`{text}` can't be looked at: only an exact version can be looked at; leave it out for the newest one"
        );
        check(text, &expected);
    }
}

#[test]
fn a_reference_becomes_a_package_or_a_url() {
    let check = |text: &str, args: &str, expected: &str| {
        assert_eq!(shown(TargetSpec::from_reference(text, &words(args))), expected);
    };
    check(
        "npm:@demo/server@1.2.3",
        "",
        r#"npm:@demo/server 1.2.3 {"package":{"registry":"npm","name":"@demo/server"}}"#,
    );
    check(
        "pypi:Demo_Server",
        "--path /srv/demo",
        r#"pypi:demo-server - {"package":{"registry":"pypi","name":"demo-server","args":["--path","/srv/demo"]}}"#,
    );
    check(
        "https://MCP.example.com/mcp?tools=all#top",
        "",
        r#"https://mcp.example.com/mcp - {"url":"https://mcp.example.com/mcp?tools=all"}"#,
    );
}

#[test]
fn a_reference_that_can_t_be_looked_at_says_why() {
    let check = |text: &str, args: &str, expected: &str| {
        assert_eq!(shown(TargetSpec::from_reference(text, &words(args))), expected);
    };
    check(
        "gem:demo",
        "",
        "`gem:demo` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL",
    );
    check(
        "oci:demo/server:1",
        "",
        "`oci:demo/server:1` can't be looked at: container images are not run yet; give an npm or PyPI package or a URL",
    );
    check(
        "https://mcp.example.com/mcp",
        "--verbose",
        "`https://mcp.example.com/mcp` can't be looked at: a URL takes no arguments",
    );
}

#[test]
fn a_credential_is_refused_and_not_repeated() {
    let refusal = "a part of this target looks like a credential, and the index stores none: leave it out";
    let check = |text: &str, args: &str| {
        assert_eq!(
            shown(TargetSpec::from_reference(text, &words(args))),
            refusal,
            "{text} {args}"
        );
    };
    check("npm:demo", "--api-key abc");
    check("npm:demo", "--token=abc");
    check("pypi:demo", "API_KEY=abc");
    check("https://user:word@mcp.example.com/mcp", "");
    check("https://mcp.example.com/mcp?api_key=abc", "");
    let command = words("node server.js --password abc");
    assert_eq!(shown(TargetSpec::from_command(&command)), refusal);
}

#[test]
fn a_package_that_needs_arguments_gets_the_known_ones_unless_some_are_given() {
    let args = |args: &str| match TargetSpec::from_reference(
        "npm:@modelcontextprotocol/server-filesystem",
        &words(args),
    )
    .unwrap()
    .reach
    {
        Reach::Package { args, .. } => args,
        other => panic!("{other:?}"),
    };
    assert_eq!(args(""), ["."]);
    assert_eq!(args("/srv/demo"), ["/srv/demo"]);
}

#[test]
fn a_command_keeps_its_identity_and_gets_absolute_paths_for_what_is_in_the_current_folder() {
    let spec = TargetSpec::from_command(&words("node Cargo.toml --flag missing.js")).unwrap();
    let here = std::env::current_dir().unwrap().join("Cargo.toml");
    let expected = Reach::Command(vec![
        "node".to_owned(),
        here.to_str().unwrap().to_owned(),
        "--flag".to_owned(),
        "missing.js".to_owned(),
    ]);
    assert_eq!(spec.reach, expected);
    assert!(spec.identity.to_string().ends_with(":node"), "{}", spec.identity);
}

#[test]
fn a_launcher_command_is_the_packages_server_and_is_installed_as_others_are() {
    let check = |line: &str, expected: &str| {
        assert_eq!(shown(TargetSpec::from_command(&words(line))), expected, "{line}");
    };
    check(
        "npx -y @demo/server@2.0.0 src",
        r#"npm:@demo/server 2.0.0 {"package":{"registry":"npm","name":"@demo/server","args":["src"]}}"#,
    );
    check(
        "uvx demo-server@latest --path /srv",
        r#"pypi:demo-server - {"package":{"registry":"pypi","name":"demo-server","args":["--path","/srv"]}}"#,
    );
    // Which program of the package it starts is said apart.
    check(
        "uvx --from demo-server other-program",
        r#"pypi:demo-server - {"command":["uvx","--from","demo-server","other-program"]}"#,
    );
    let empty = TargetSpec::from_command(&[]).unwrap_err();
    assert_eq!(empty.to_string(), "the command is empty");
}

#[test]
fn what_the_store_keeps_is_read_back_and_nothing_else_is() {
    for json in [
        r#"{"package":{"registry":"npm","name":"demo","alternative":"https://npm.example.com/","args":["."]}}"#,
        r#"{"url":"https://mcp.example.com/mcp"}"#,
        r#"{"command":["node","server.js"]}"#,
    ] {
        assert_eq!(Reach::from_json(json).unwrap().to_json(), json);
    }
    for json in [
        "",
        "{}",
        r#"{"shell":"x"}"#,
        r#"{"package":{"registry":"npm"}}"#,
        r#"{"url":"x","command":[]}"#,
    ] {
        assert!(Reach::from_json(json).is_err(), "{json}");
    }
}
