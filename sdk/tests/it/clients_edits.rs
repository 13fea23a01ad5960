//! Entries are wired in every host's format, and back to the byte; what can't be wired is left alone with the reason.

use insta::{assert_snapshot, with_settings};
use mcpindex::clients::{Environment, Fate, HOSTS, Platform, Record, Rewrite};
use mcpindex_contract::posture::Posture;

use crate::clients::{Desk, check, example, round_trip};

#[test]
fn every_host_goes_behind_the_gate_and_back() {
    for host in HOSTS {
        let environment = Environment::new(Platform::Linux, "/home/me");
        let place = host.places(&environment)[0].display().to_string();
        let name = place.replace("/home/me/", "").replace('*', "x");
        let desk = Desk::new(&name, example(host.name).as_bytes());
        // What has no launch line stays as it is.
        let wired = if host.name == "goose" {
            let before = desk.text();
            let fates = desk.wire(&[]);
            let wired = String::from_utf8(desk.text()).unwrap();
            assert_eq!(
                fates.iter().filter(|(_, fate)| *fate == Fate::Wired).count(),
                2,
                "{fates:?}"
            );
            assert!(desk.unwire(&[]).1);
            assert_eq!(desk.text(), before);
            wired
        } else {
            round_trip(&desk)
        };
        with_settings!({snapshot_suffix => host.name}, { assert_snapshot!("wired", wired) });
    }
}

#[test]
fn no_value_of_a_variable_or_header_is_remembered() {
    for host in ["claude-code", "codex", "zed", "vibe", "continue"] {
        let name = match host {
            "codex" | "vibe" => "a.toml",
            "continue" => "a.yaml",
            _ => "a.json",
        };
        let desk = Desk::new(name, example(host).as_bytes());
        desk.wire(&[]);
        let record = desk.record();
        for secret in ["one-two-three", "four-five-six", "seven-eight"] {
            assert!(!record.contains(secret), "{host}");
        }
        let mut record = Record::open(&desk.state()).unwrap();
        let file = desk.file();
        let rewrite = Rewrite::unwire(&file, &record, &|_| true).unwrap();
        let (before, after) = rewrite.shown();
        for secret in ["one-two-three", "four-five-six", "seven-eight"] {
            assert!(!before.contains(secret) && !after.contains(secret), "{host}");
        }
        rewrite.write(&file, &mut record).unwrap();
    }
}

#[test]
fn an_address_is_wrapped_only_when_its_sign_in_is_written_beside_it() {
    let fate = |entry: &str| {
        let desk = Desk::new(
            "a.json",
            format!("{{\"mcpServers\": {{\"a\": {entry}}}}}").as_bytes(),
        );
        desk.left_alone()
    };
    let reasons = [
        r#"{"url": "https://a.example.com/mcp", "headers": {}}"#,
        r#"{"url": "https://a.example.com/mcp", "headers": {"X-Toolsets": "all"}}"#,
        r#"{"url": "https://a.example.com/mcp", "oauth": {"clientId": "x"}, "headers": {"Authorization": "Bearer x"}}"#,
        r#"{"url": "https://a.example.com/mcp", "auth": {"CLIENT_ID": "x"}}"#,
        r#"{"url": "https://a.example.com/mcp?api_key=abc", "headers": {"Authorization": "Bearer x"}}"#,
        r#"{"url": "https://me:abc@a.example.com/mcp"}"#,
        r#"{"url": "unix:///var/run/x.sock"}"#,
        r#"{"url": "https://a.example.com/mcp", "env": {"A": "b"}, "headers": {"Authorization": "Bearer x"}}"#,
        r#"{"url": "https://a.example.com/mcp", "headers": {"Authorization": ["Bearer x"]}}"#,
        r#"{"url": "https://a.example.com/mcp", "headers": {"Authori zation": "Bearer x"}}"#,
        r#"{"url": "https://a.example.com/mcp", "headers": "Authorization: Bearer x"}"#,
    ]
    .map(fate);
    assert_snapshot!(reasons.join("\n"), @r##"
    its host may sign in by itself, since no credential stands beside the address (--url-entries wraps it, if it needs none)
    its host may sign in by itself, since no credential stands beside the address (--url-entries wraps it, if it needs none)
    its host signs in by itself (`oauth`), and a gate in between could not
    its host signs in by itself (`auth`), and a gate in between could not
    its address holds what looks like a credential, which on a command line every user of this machine could read: put it in a header, if the server takes one
    its address holds what looks like a credential, which on a command line every user of this machine could read: put it in a header, if the server takes one
    its address is no http or https URL
    it has both `env` and headers, and the headers would have to become variables
    its header `Authorization` is no text
    `Authori zation` is no name of a header
    its `headers` is no map
    "##);
}

#[test]
fn an_address_without_a_credential_is_wrapped_when_asked() {
    let mut desk = Desk::new(
        "a.json",
        b"{\"servers\": {\"context7\": {\"url\": \"https://a.example.com/mcp\", \"headers\": {}}, \"b\": {\"url\": \"https://b.example.com/mcp\"}}}",
    );
    desk.line.url_entries = true;
    desk.line.posture = Some(Posture::Strict);
    assert_snapshot!(round_trip(&desk), @r##"{"servers": {"context7": {"command": "/usr/local/bin/mcpindex", "args": ["gate", "--server", "context7", "--posture", "strict", "--url", "https://a.example.com/mcp"], "env": {}}, "b": {"command": "/usr/local/bin/mcpindex", "args": ["gate", "--server", "b", "--posture", "strict", "--url", "https://b.example.com/mcp"]}}}"##);
}

#[test]
fn what_the_published_client_wired_is_left_to_it() {
    let text = r#"{"mcpServers": {"a": {"command": "uvx", "args": ["mcpindex-proxy"], "_mcpindexWired": {"marker": "mcpindex", "original": {"command": "npx"}}}}}"#;
    let desk = Desk::new("a.json", text.as_bytes());
    assert_snapshot!(desk.left_alone(), @"the published client's proxy is in front of it: take that away with `mcpindex-config-wire unwire` first");
    assert!(matches!(desk.unwire(&[]).0.as_slice(), [(_, Fate::LeftAlone(_))]));
}

#[test]
fn line_ends_marks_tabs_and_a_missing_last_line_end_are_kept() {
    let text = "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": {\r\n\t\t\t\"command\": \"a\"\r\n\t\t},\r\n\t\t\"b\": {\r\n\t\t\t\"command\": \"b\",\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"x\"\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}";
    let wired = check("a.json", text);
    assert!(!wired.replace("\r\n", "").contains(['\r', '\n']), "{wired:?}");
    assert!(wired.contains("\r\n\t\t\t\"args\": [\"gate\""), "{wired:?}");
    let marked = format!("\u{feff}{text}\r\n");
    assert!(check("a.json", &marked).starts_with('\u{feff}'));
    let toml = "[mcp_servers.a]\r\ncommand = \"a\"";
    let wired = check("a.toml", toml);
    assert!(wired.contains("\r\nargs = "), "{wired:?}");
    let yaml =
        "\u{feff}extensions:\r\n  a:\r\n    cmd: a # here\r\n    args:\r\n    - x\r\n  b:\r\n    cmd: b";
    let wired = check("a.yaml", yaml);
    assert!(!wired.replace("\r\n", "").contains(['\r', '\n']), "{wired:?}");
}

#[test]
fn every_way_of_writing_arguments_goes_there_and_back() {
    for args in [
        "[]",
        "[ ]",
        "[ /* none */ ]",
        "[\n]",
        "[\"x\"]",
        "[ \"x\", ]",
        "[\n  \"x\", // one\n  \"y\"\n]",
        "[\"x\",\n \"y\"]",
        "[ // first\n  \"x\"]",
        "[\"--\", \"x\"]",
    ] {
        check(
            "a.json",
            &format!("{{\"mcpServers\": {{\"a\": {{\"args\": {args}, \"command\": \"a b\"}}}}}}"),
        );
        check(
            "a.json",
            &format!("{{\"mcpServers\": {{\"a\": {{\n\"command\": \"a\",\n\"args\": {args},\n}},}}}}"),
        );
    }
    for args in [
        "[]",
        "[ 'x' ]",
        "[\n  # none\n]",
        "[\n  \"\"\"x\"\"\",\n  'y', # why\n]",
    ] {
        check(
            "a.toml",
            &format!("[mcp_servers.a]\nargs = {args}\ncommand = 'a b'\n"),
        );
        check(
            "a.toml",
            &format!("mcp_servers.a = {{ command = \"a\", args = {args} }}\n"),
        );
        check(
            "a.toml",
            "mcp_servers = { a = { command = \"a\" }, b = { command = 'b' } }\n",
        );
    }
    for args in [
        " []",
        " [x, 'y']",
        " [\n      x,\n      \"y\"]",
        "\n    - x\n    - 'y' # why\n",
        "\n      -   x\n      # between\n      - y",
        " # these\n    - --port=1\n    - >-\n      folded\n      text\n",
    ] {
        check(
            "a.yaml",
            &format!("mcpServers:\n  a:\n    command: a b\n    args:{args}\n"),
        );
        check(
            "a.yaml",
            &format!("mcpServers:\n  a:\n    args:{args}\n    command: 'a'"),
        );
    }
    check(
        "a.yaml",
        "mcpServers: {a: {command: a}, b: {command: \"b\", args: [x]}}\n",
    );
    check(
        "a.yaml",
        "mcpServers:\n- command: a\n  name: one\n- {name: two, command: b}\n",
    );
}

#[test]
fn names_that_are_hard_to_write_are_written() {
    for name in ["-x", "--", "a b", "quo\\\"te", "\\u007f\\u2028é", "--server"] {
        check(
            "a.json",
            &format!("{{\"mcpServers\": {{\"{name}\": {{\"command\": \"a\"}}}}}}"),
        );
        check("a.toml", &format!("[mcp_servers.\"{name}\"]\ncommand = \"a\"\n"));
        check(
            "a.yaml",
            &format!("mcpServers:\n  \"{name}\":\n    command: a\n    args: [x]\n"),
        );
    }
}

#[test]
fn what_an_edit_could_break_is_left_alone_with_its_line() {
    let reason = |name: &str, text: &str| Desk::new(name, text.as_bytes()).left_alone();
    let reasons = [
        reason(
            "a.yaml",
            "x: &x [y]\nmcpServers:\n  a:\n    command: a\n    args: *x\n",
        ),
        reason("a.yaml", "mcpServers:\n  a:\n    command: a\n    args: &x [y]\n"),
        reason("a.yaml", "mcpServers:\n  a:\n    command: !!str a\n"),
        reason(
            "a.yaml",
            "x: &x {command: a}\nmcpServers:\n  a:\n    <<: *x\n    args: [b]\n",
        ),
        reason("a.toml", "[mcp_servers]\na.command = 'x'\n"),
        reason(
            "a.json",
            "{\"servers\": {\"a\": {\"command\": \"a\", \"sandboxEnabled\": true}}}",
        ),
    ];
    assert_snapshot!(reasons.join("\n"), @r##"
    line 5 has an alias, which an edit could break: write it out, or wire the entry by hand
    line 4 has an anchor, which an edit could break: write it out, or wire the entry by hand
    line 3 has a tag, which an edit could break: write it out, or wire the entry by hand
    line 4 has a merge key, which an edit could break: write it out, or wire the entry by hand
    line 2 has dotted names, which an edit could break: write it out, or wire the entry by hand
    its host runs it in a sandbox (`sandboxEnabled`), where a gate could not keep its pins
    "##);
}
