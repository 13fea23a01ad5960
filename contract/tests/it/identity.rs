//! One server, one identity: launch lines, references and URLs, with the lock format's vectors.

use insta::assert_snapshot;
use mcpindex_contract::identity::{Identity, Launched};
use proptest::prelude::*;

fn launched(line: &str) -> Launched {
    let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
    Identity::from_launch(&argv).unwrap()
}

/// Each launch line has this written form and version.
fn check(cases: &[(&str, &str, Option<&str>)]) {
    for (line, identity, version) in cases {
        let launched = launched(line);
        assert_eq!(launched.identity.to_string(), *identity, "{line}");
        assert_eq!(launched.version.as_deref(), *version, "version of {line}");
    }
}

fn check_is_a_command(lines: &[&str]) {
    for line in lines {
        let launched = launched(line);
        assert_eq!(launched.identity.form(), "command", "{line}");
        assert_eq!(launched.version, None, "{line}");
    }
}

fn refusal(reference: &str) -> String {
    Identity::from_reference(reference).unwrap_err().to_string()
}

fn lock_json_and_id(identity: &Identity) -> String {
    format!("{} {}", identity.to_lock_json(), identity.short_id())
}

#[test]
fn the_lock_formats_vectors_hold() {
    let remote = Identity::from_url("HTTPS://MCP.Example.com:443/v1/mcp?x=1#f").unwrap();
    assert_snapshot!(lock_json_and_id(&remote), @r#"{"kind":"remote","url":"https://mcp.example.com/v1/mcp"} 022711de5f88d01f"#);
    let package = launched("npx -y @example/docs-server").identity;
    assert_snapshot!(lock_json_and_id(&package), @r#"{"kind":"stdio","package":"npm:@example/docs-server"} 95715d48fcf97a92"#);
    let command = launched("uvx git+https://github.com/example/server").identity;
    assert_snapshot!(lock_json_and_id(&command), @r#"{"args":["git+https://github.com/example/server"],"command":"uvx","kind":"stdio"} 58e070748bea9f0f"#);
    assert_eq!(remote.short_id(), "022711de5f88d01f");
    assert_eq!(package.short_id(), "95715d48fcf97a92");
    assert_eq!(command.short_id(), "58e070748bea9f0f");
}

#[test]
fn npm_runners_name_a_package() {
    check(&[
        ("npx x", "npm:x", None),
        ("npx -y x", "npm:x", None),
        ("npx -y x@1.2", "npm:x", Some("1.2")),
        (
            "npx --yes @scope/name@latest --root /srv",
            "npm:@scope/name",
            Some("latest"),
        ),
        (
            "npx -p @scope/name@1.2.3 name --flag",
            "npm:@scope/name",
            Some("1.2.3"),
        ),
        ("npx --package=x@^1 other", "npm:x", Some("^1")),
        ("npx -y -- x", "npm:x", None),
        ("/usr/local/bin/npx x", "npm:x", None),
        (r"C:\node\npx.CMD -y x", "npm:x", None),
        ("npm exec -y -- x@2", "npm:x", Some("2")),
        ("bunx --bun x", "npm:x", None),
        ("bun x y", "npm:y", None),
        ("pnpm dlx x@3", "npm:x", Some("3")),
        ("yarn dlx -q x", "npm:x", None),
        ("npx JSONStream", "npm:JSONStream", None),
    ]);
}

#[test]
fn python_runners_name_a_package_by_its_normal_name() {
    check(&[
        ("uvx mcp-server-git", "pypi:mcp-server-git", None),
        ("uvx MCP_Server..Git@1.0", "pypi:mcp-server-git", Some("1.0")),
        (
            "uvx --from Some.Pkg==2.1 entry --flag",
            "pypi:some-pkg",
            Some("2.1"),
        ),
        ("uvx --from pkg[cli,dev]>=1,<2 entry", "pypi:pkg", Some(">=1,<2")),
        ("uvx --python 3.12 --with mcp<2 pkg", "pypi:pkg", None),
        ("uvx -p3.12 pkg", "pypi:pkg", None),
        ("uv tool run pkg@latest", "pypi:pkg", Some("latest")),
        ("pipx run pkg", "pypi:pkg", None),
        ("pipx run --spec pkg==1 entry", "pypi:pkg", Some("1")),
    ]);
}

#[test]
fn container_runners_name_an_image_in_full() {
    check(&[
        ("docker run -i --rm mcp/fetch", "oci:docker.io/mcp/fetch", None),
        (
            "docker run -it fetch:1.2",
            "oci:docker.io/library/fetch",
            Some("1.2"),
        ),
        (
            "docker run index.docker.io/Fetch",
            "oci:docker.io/library/fetch",
            None,
        ),
        (
            "podman run -e KEY -v /a:/b images.example/Owner/App:v1 serve",
            "oci:images.example/owner/app",
            Some("v1"),
        ),
        (
            "docker container run --env=A=b -p8080:80 localhost:5000/app",
            "oci:localhost:5000/app",
            None,
        ),
        (
            "docker run x/y:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "oci:docker.io/x/y",
            Some("1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
        ),
    ]);
}

#[test]
fn another_package_registry_is_another_identity() {
    check(&[
        (
            "npx --registry=https://NPM.corp.example/ x",
            "npm:x?registry=https://npm.corp.example",
            None,
        ),
        (
            "npx --registry https://u:p@npm.corp.example/a/ x@1",
            "npm:x?registry=https://npm.corp.example/a",
            Some("1"),
        ),
        (
            "npx --@s:registry=https://npm.corp.example @s/x",
            "npm:@s/x?registry=https://npm.corp.example",
            None,
        ),
        (
            "npx --@s:registry=https://npm.corp.example @other/x",
            "npm:@other/x",
            None,
        ),
        (
            "uvx --index-url https://py.corp.example/simple/ x",
            "pypi:x?registry=https://py.corp.example/simple",
            None,
        ),
        (
            "uvx --extra-index-url https://py.corp.example x",
            "pypi:x?registry=https://py.corp.example",
            None,
        ),
    ]);
    assert_snapshot!(
        launched("npx --registry=https://npm.corp.example x").identity.to_lock_json(),
        @r#"{"kind":"stdio","package":"npm:x?registry=https://npm.corp.example"}"#
    );
}

#[test]
fn a_script_started_by_the_shell_of_windows_is_itself() {
    check(&[
        ("cmd /c npx -y x@1.2", "npm:x", Some("1.2")),
        (
            r"C:\Windows\System32\cmd.exe /d /s /C npx.cmd -y x",
            "npm:x",
            None,
        ),
        ("cmd /c uvx x", "pypi:x", None),
    ]);
    check_is_a_command(&["cmd npx -y x", "cmd /c", "cmd /k npx x", "cmd /c cmd /c npx x"]);
}

#[test]
fn a_line_that_could_be_read_in_two_ways_is_a_command() {
    check_is_a_command(&[
        "npx --unheard-of x y",
        "npx -c x",
        "npx --userconfig=/etc/other x",
        "npx -p a -p b run",
        "npx github:owner/repository",
        "npx owner/repository",
        "npx ./local",
        "npx alias@npm:other@1",
        "npx x@https://example.com/x.tgz",
        "npx --registry=file:///srv x",
        "npx",
        "npx -y",
        "npx --registry",
        "yarn add x",
        "uvx --with x@git+https://example.com/x x",
        "uvx --from ./local entry",
        "uvx --index https://a.example --index https://b.example x",
        "uv run server.py",
        "docker run --unheard-of x y",
        "docker run --entrypoint sh x",
        "docker run ${IMAGE}",
        "docker compose up",
        "node server.js",
    ]);
}

#[test]
fn an_empty_command_names_nothing() {
    for argv in [vec![], vec![String::new()], vec!["/".to_owned()]] {
        assert_eq!(
            Identity::from_launch(&argv).unwrap_err().to_string(),
            "the command is empty"
        );
    }
}

#[test]
fn a_credential_never_reaches_an_identity() {
    // Token shapes are put together here, so that no scanner takes this file for a leak.
    let shape = |beginning: &str, length: usize| format!("{beginning}{}", "a1".repeat(length / 2));
    let token_shapes = [
        shape("sk-", 16),
        shape("sk_live_", 4),
        shape("ghp_", 20),
        shape("github_pat_", 4),
        shape("glpat-", 4),
        shape("xoxb-", 4),
        shape("AKIA", 16),
        shape("AIza", 30),
        shape("npm_", 30),
        format!("{}.{}.c2ln", shape("eyJ", 8), shape("eyJ", 8)),
        format!("-----BEGIN {} KEY-----", "PRIVATE"),
        "Authorization: Bearer x1".to_owned(),
        "X-Api-Key:x1".to_owned(),
        "https://user:x1@host/mcp".to_owned(),
        "https://host/mcp?access_token=x1".to_owned(),
        r#"{"apiKey": "x1"}"#.to_owned(),
        "db;Password=x1;".to_owned(),
    ];
    for secret in token_shapes {
        let argv = [
            "server".to_owned(),
            "--option".to_owned(),
            secret.clone(),
            format!("--x={secret}"),
        ];
        let launched = Identity::from_launch(&argv).unwrap();
        assert!(launched.has_secret, "{secret}");
        let Identity::Command { args, .. } = launched.identity else {
            panic!("{secret} made a package");
        };
        assert_eq!(args, ["--option", "<secret>", "--x=<secret>"], "{secret}");
    }
}

#[test]
fn a_value_is_a_credential_by_the_name_beside_it() {
    let check = |line: &str, shown: &str| {
        let launched = launched(line);
        let Identity::Command { args, .. } = &launched.identity else {
            panic!("{line} made a package");
        };
        assert_eq!(args.join(" "), shown);
        assert_eq!(launched.has_secret, shown.contains("<secret>"), "{line}");
    };
    check("s --api-key abc --port 80", "--api-key <secret> --port 80");
    check("s --apiKey=abc", "--apiKey=<secret>");
    check("s GITHUB_TOKEN=abc", "GITHUB_TOKEN=<secret>");
    check("s --env=DB_PASSWORD=abc", "--env=<secret>");
    check("s Server=db;Password=abc;", "Server=<secret>");
    check("s --password -abc", "--password <secret>");
    check(
        "s --header Authorization: Bearer abc",
        "--header Authorization: Bearer <secret>",
    );
    check("s --token --verbose", "--token --verbose");
    check(
        "s --token= --keyboard us --monkey=1",
        "--token= --keyboard us --monkey=1",
    );
    check(
        "s http://auth:8080/mcp task-token a=b",
        "http://auth:8080/mcp task-token a=b",
    );
}

#[test]
fn a_credential_beside_a_package_is_reported_and_left_out() {
    let with_value = launched("docker run -e API_KEY=abc mcp/fetch");
    assert_eq!(with_value.identity.to_string(), "oci:docker.io/mcp/fetch");
    assert!(with_value.has_secret);
    assert!(!launched("docker run -e API_KEY mcp/fetch").has_secret);
}

#[test]
fn a_reference_is_a_package_or_a_url() {
    let check = |reference: &str, identity: &str, version: Option<&str>| {
        let launched = Identity::from_reference(reference).unwrap();
        assert_eq!(launched.identity.to_string(), identity);
        assert_eq!(launched.version.as_deref(), version);
    };
    check("npm:@scope/name@1.2.3", "npm:@scope/name", Some("1.2.3"));
    check("NPM:name", "npm:name", None);
    check(
        "npm:name@1?registry=https://R.example/npm/",
        "npm:name?registry=https://r.example/npm",
        Some("1"),
    );
    check("pypi:Name==1.0", "pypi:name", Some("1.0"));
    check("pypi:Name@1.0", "pypi:name", Some("1.0"));
    check("oci:mcp/fetch:2", "oci:docker.io/mcp/fetch", Some("2"));
    check(
        " https://Example.com:8443/mcp ",
        "https://example.com:8443/mcp",
        None,
    );
}

#[test]
fn a_text_that_names_no_server_says_what_would() {
    assert_snapshot!(refusal("everything"), @"`everything` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL");
    assert_snapshot!(refusal(""), @"`` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL");
    assert_snapshot!(refusal("cmd:58e070748bea9f0f:uvx"), @"`cmd:58e070748bea9f0f:uvx` does not say what to start: give the command itself, or `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL");
    assert_snapshot!(refusal("npm:"), @"`` is no npm package name");
    assert_snapshot!(refusal("npm:../x"), @"`../x` is no npm package name");
    assert_snapshot!(refusal("npm:x@"), @"`x@` names no version: expected a number, a tag or a range after the name");
    assert_snapshot!(refusal("npm:x@file:y"), @"`x@file:y` names no version: expected a number, a tag or a range after the name");
    assert_snapshot!(refusal("npm:x?other=1"), @"`npm:x?other=1` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL");
    assert_snapshot!(refusal("pypi:-x"), @"`-x` is no pypi package name");
    assert_snapshot!(refusal("oci:a//b"), @"`a//b` is no oci package name");
    assert_snapshot!(refusal("https://user:hidden@exa mple/?token=hidden"), @"`https://exa mple/` can't name a server: it holds a space or control character");
    assert_snapshot!(refusal("https://"), @"`https://` can't name a server: it is no valid URL");
    assert_snapshot!(refusal("https:///mcp"), @"`https:///mcp` can't name a server: it has no host");
    assert_snapshot!(refusal("http://h\\x"), @r#"`http://h\\x` can't name a server: it holds a backslash"#);
    assert_snapshot!(refusal("https://bücher.example/"), @"`https://bücher.example/` can't name a server: it is not ASCII");
    assert_snapshot!(refusal("odd\u{1b}[2J"), @r#"`odd\u{1b}[2J` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL"#);
    assert_snapshot!(refusal("token:hidden"), @"`<secret>` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL");
    assert_snapshot!(refusal(&"x".repeat(500)), @"`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` names no server: expected `npm:NAME`, `pypi:NAME`, `oci:NAME` or an http(s) URL");
}

#[test]
fn npm_names_follow_npms_rules() {
    for name in ["x", "@a/b", "a.b-c_d~e", "JSONStream", &"x".repeat(214)] {
        assert!(Identity::from_reference(&format!("npm:{name}")).is_ok(), "{name}");
    }
    for name in [
        ".x",
        "_x",
        "-x",
        "a b",
        "@a",
        "@a/",
        "@/b",
        "@a/b/c",
        "a/b",
        "node_modules",
        "ü",
        &"x".repeat(215),
    ] {
        assert!(
            Identity::from_reference(&format!("npm:{name}")).is_err(),
            "{name}"
        );
    }
}

#[test]
fn a_url_keeps_its_path_as_written_and_nothing_behind_it() {
    let check = |url: &str, normal: &str| {
        assert_eq!(Identity::from_url(url).unwrap().to_string(), normal);
    };
    check("https://Example.com", "https://example.com");
    check("https://example.com/", "https://example.com/");
    check(
        "http://example.com:80/A/%7e/../b",
        "http://example.com/A/%7e/../b",
    );
    check("http://example.com:443/", "http://example.com:443/");
    check("https://u:p@example.com/a@b?c#d", "https://example.com/a@b");
    check("https://[2001:DB8::1]:8443/x", "https://[2001:db8::1]:8443/x");
    check("http://0x7f.1/x", "http://127.0.0.1/x");
    check("https://example.com?x=/y", "https://example.com");
}

#[test]
fn commands_differ_by_their_arguments() {
    let one = launched("node a.js").identity;
    let other = launched("node b.js").identity;
    assert_ne!(one.short_id(), other.short_id());
    assert_eq!(one.short_id(), launched("/opt/bin/node a.js").identity.short_id());
    assert_snapshot!(one.to_string(), @"cmd:72d319465cecdea9:node");
}

/// Package and URL references that are often valid.
fn references() -> impl Strategy<Value = String> {
    prop_oneof![
        "npm:(@[a-z0-9]{1,4}/)?[A-Za-z0-9][A-Za-z0-9._~-]{0,8}(@[0-9.^~]{1,5})?(\\?registry=https?://[A-Za-z.]{1,9}(/[a-z]{0,3}){0,3})?",
        "pypi:[A-Za-z0-9][A-Za-z0-9._-]{0,8}(\\[[a-z]{1,3}\\])?(==|@|>=)?[0-9.]{0,4}(\\?registry=https://[a-z.]{1,9}/?)?",
        "oci:([a-zA-Z.]{1,6}(:[0-9]{1,4})?/)?[a-z0-9]{1,5}(/[a-z._-]{1,5})?(:[a-z0-9.]{1,4})?",
        "(https?|HTTPS)://([a-z:]{1,4}@)?[A-Za-z0-9.%-]{1,9}(:[0-9]{0,5})?(/[!-~]{0,6}){0,3}(\\?[!-~]{0,5})?(#[!-~]{0,5})?",
        "[ -~]{0,20}",
        "(npm|pypi|oci|https|http):[ -~]{0,20}",
        any::<String>(),
    ]
}

/// Arguments of which many mean something to a runner or look like a credential.
fn arguments() -> impl Strategy<Value = Vec<String>> {
    let argument = prop_oneof![
        "[ -~]{0,8}",
        "-{0,2}[a-z]{1,6}(=[ -~]{0,6})?",
        prop::sample::select(vec![
            "-y",
            "-p",
            "-p=x",
            "--from",
            "run",
            "tool",
            "dlx",
            "exec",
            "--",
            "-",
            "x@1",
            "@a/b",
            "--token",
            "Bearer",
            "Authorization:",
            "basic",
            "<secret>",
            "--registry",
            "https://h/x",
            "-e",
            "A_KEY=1",
            "--key=é",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::vec(argument, 0..6)
}

proptest! {
    #[test]
    fn a_written_identity_reads_back_as_itself(reference in references()) {
        if let Ok(launched) = Identity::from_reference(&reference) {
            let written = launched.identity.to_string();
            let again = Identity::from_reference(&written).unwrap();
            prop_assert_eq!(&again.identity, &launched.identity);
            prop_assert_eq!(again.version, None);
            prop_assert_eq!(again.identity.short_id().len(), 16);
        }
    }

    #[test]
    fn a_url_identity_carries_no_credential_and_is_stable(
        user in "[a-z]{1,6}", path in "(/[a-z0-9]{0,4}){0,3}", query in "[a-z=]{0,6}", port in 1u16..,
    ) {
        let bare = Identity::from_url(&format!("https://example.com:{port}{path}")).unwrap();
        let full = format!("HTTPS://{user}:hidden@EXAMPLE.com:{port}{path}?{query}#{query}");
        prop_assert_eq!(Identity::from_url(&full).unwrap(), bare.clone());
        prop_assert_eq!(Identity::from_url(&bare.to_string()).unwrap(), bare);
    }

    #[test]
    fn a_commands_identity_is_stable(
        program in prop::sample::select(vec!["npx", "uvx", "docker", "uv", "node", "pnpm", "pipx"]),
        args in arguments(),
    ) {
        let argv = |args: &[String]| [&[program.to_owned()], args].concat();
        let first = Identity::from_launch(&argv(&args)).unwrap();
        if let Identity::Command { args: shown, .. } = &first.identity {
            let again = Identity::from_launch(&argv(shown)).unwrap();
            prop_assert_eq!(&again, &first);
        } else {
            let again = Identity::from_reference(&first.identity.to_string()).unwrap();
            prop_assert_eq!(again.identity, first.identity);
        }
    }
}
