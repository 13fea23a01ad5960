//! The program itself: its text, its document, its exit codes.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::http::Listening;
use crate::stdio::{FIXTURE, gone};

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_mcpindex");

fn run(arguments: &[&str]) -> Output {
    // Whatever proxy the machine has, loopback is not behind it.
    let mut command = Command::new(EXECUTABLE);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    command.args(arguments).output().unwrap()
}

/// Exit code, stdout and stderr, without what differs between machines.
fn shown(output: &Output) -> String {
    let text = format!(
        "exit {}\n{}--\n{}",
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    text.replace(FIXTURE, "FIXTURE")
}

fn inspect(arguments: &[&str]) -> String {
    shown(&run(&[&["inspect"], arguments].concat()))
}

#[test]
fn text_says_what_is_declared() {
    assert_snapshot!(inspect(&["--env", "FIXTURE_API_KEY=canary-7f3a9c51", "--", FIXTURE, "needs-key"]), @r"
    exit 0
    fixture 1.0.0
      cmd:63c892431ed76cd1:fixture-server
      protocol 2025-11-25
      ran in an empty directory of its own, with FIXTURE_API_KEY

    instructions  sha256:21cdbaae19c0
      Ask first.

    1 tool
      keyed  sha256:8d7b8baf17c9
        Uses the key {env:FIXTURE_API_KEY}.

    1 prompt
      greet  sha256:9508adb177c0
        Greets.

    1 resource
      note:///1  sha256:6ab1d3b94975

    1 resource template
      note:///{id}  sha256:929979512f0b

    surface sha256:1720c8cea9c4a451e5ed7e43878abdffc01a3cc1a234a84311ecb060356020e6
    declarations only: no tool was called, no resource read

    notes
      the server echoed a value that it was given: shown and digested as `{env:FIXTURE_API_KEY}`
    --
    ");
}

#[test]
fn bad_tools_are_named_and_their_neighbours_stay() {
    assert_snapshot!(inspect(&["--", FIXTURE, "bad-tool"]), @r"
    exit 0
    fixture 1.0.0
      cmd:84a5fa752b8d3100:fixture-server
      protocol 2025-11-25
      ran in an empty directory of its own

    instructions  sha256:21cdbaae19c0
      Ask first.

    6 tools
      read_note  sha256:a401f0d0d383
        Reads one note.
      twice  raw-sha256:cfc09bc29118
        no definition digest: duplicate member at /description
        a
      half  raw-sha256:dabebc200102
        no definition digest: lone surrogate at /description
        �
      (no name)  raw-sha256:a1924d4e4190
        no definition digest: not an object
      big  raw-sha256:39af540082c9
        no definition digest: number out of range at /x
      last  sha256:8c135d783f07
        still here

    1 prompt
      greet  sha256:9508adb177c0
        Greets.

    1 resource
      note:///1  sha256:6ab1d3b94975

    1 resource template
      note:///{id}  sha256:929979512f0b

    surface sha256:ec53ec69931aecca7cff027cc0483a15084e68355bc81a35ee8b1be0899812dc
    declarations only: no tool was called, no resource read
    --
    ");
}

#[test]
fn a_part_that_failed_is_named_and_has_its_exit_code() {
    assert_snapshot!(inspect(&["--", FIXTURE, "resources-failed"]), @r"
    exit 5
    fixture 1.0.0
      cmd:2cc524de5f244d5d:fixture-server
      protocol 2025-11-25
      ran in an empty directory of its own

    instructions  sha256:21cdbaae19c0
      Ask first.

    1 tool
      read_note  sha256:a401f0d0d383
        Reads one note.

    1 prompt
      greet  sha256:9508adb177c0
        Greets.

    1 resource template
      note:///{id}  sha256:929979512f0b

    could not be determined
      resources: `resources/list` was answered with error -32603: connect ECONNREFUSED 127.0.0.1:5432

    declarations only: no tool was called, no resource read
    --
    ");
}

#[test]
fn a_failure_shows_why_and_the_last_words() {
    assert_snapshot!(inspect(&["--", FIXTURE, "crash"]), @r#"
    exit 5
    could not be determined: crashed
      the process ended (exit status: 3) before `initialize` was answered: ImportError: boom \u{1b}[31m

    last lines of its stderr
      Traceback (most recent call last):
        File "x.py", line 1
      ImportError: boom \u{1b}[31m
    --
    "#);
    assert_snapshot!(inspect(&["--", "no-such-program"]), @r"
    exit 5
    could not be determined: crashed
      `no-such-program` could not be started: not found
    --
    ");
}

#[test]
fn no_control_character_of_a_server_is_printed() {
    for scenario in ["escapes", "crash"] {
        for options in [&["inspect"][..], &["inspect", "--json"]] {
            let output = run(&[options, &["--", FIXTURE, scenario]].concat());
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8(printed).unwrap();
            let dangerous = |character| character != '\n' && mcpindex::visible::is_dangerous(character);
            assert!(!printed.contains(dangerous), "{scenario}: {printed}");
        }
    }
}

#[test]
fn no_line_is_a_command_to_a_ci_job() {
    for options in [&["inspect"][..], &["inspect", "--json"]] {
        let output = run(&[options, &["--", FIXTURE, "escapes"]].concat());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains(":error::"), "{printed}");
        assert!(!printed.contains("##["), "{printed}");
        assert!(
            !printed.lines().any(|line| line.trim_start().starts_with("::")),
            "{printed}"
        );
    }
}

#[test]
fn a_credential_among_the_arguments_is_not_told() {
    for line in [
        &[FIXTURE, "plain", "--api-key", "canary-7f3a9c51"][..],
        &["npx", "no-such", "--token=canary-7f3a9c51"],
    ] {
        for options in [
            &["inspect", "--timeout", "1000"][..],
            &["inspect", "--timeout", "1000", "--json"],
        ] {
            let output = run(&[options, &["--"], line].concat());
            let printed = shown(&output);
            assert!(!printed.contains("canary"), "{printed}");
            if options.contains(&"--json") {
                assert!(printed.contains("<secret>"), "{printed}");
            }
        }
    }
}

#[test]
fn quiet_is_the_exit_code_alone() {
    for (arguments, exit) in [
        (&["-q", "--", FIXTURE, "plain"][..], 0),
        (&["-q", "--", FIXTURE, "crash"], 5),
        (&["-q", "--env", "MCPINDEX_NEVER_SET", "--", FIXTURE, "plain"], 2),
    ] {
        assert_eq!(inspect(arguments), format!("exit {exit}\n--\n"));
    }
}

#[test]
fn each_limit_has_an_option() {
    let mut reports = String::new();
    for arguments in [
        &["--timeout", "300", "--", FIXTURE, "hang"][..],
        &["--deadline", "300", "--", FIXTURE, "hang"],
        &["--max-message-bytes", "100", "--", FIXTURE, "plain"],
        &["--max-total-bytes", "300", "--", FIXTURE, "plain"],
        &["--max-pages", "2", "--", FIXTURE, "paged"],
        &["--max-items", "2", "--", FIXTURE, "paged"],
    ] {
        reports += &inspect(arguments);
    }
    assert_snapshot!(reports, @r"
    exit 5
    could not be determined: timed_out
      no answer to `initialize` within 0.3 s
    --
    exit 5
    could not be determined: timed_out
      no answer to `initialize` within 0.3 s
    --
    exit 5
    could not be determined: over_limit
      more than 100 bytes in one message
    --
    exit 5
    could not be determined: over_limit
      more than 300 bytes in all
    --
    exit 5
    could not be determined: over_limit
      more than 2 pages of tools
    --
    exit 5
    could not be determined: over_limit
      more than 2 tools
    --
    ");
}

#[test]
fn the_document_is_complete() {
    let output = run(&[
        "inspect",
        "--json",
        "--env",
        "FIXTURE_API_KEY=canary-7f3a9c51",
        "--",
        FIXTURE,
        "needs-key",
    ]);
    assert_snapshot!(shown(&output), @r#"
    exit 0
    {
      "schema": "mcpindex.inspect/1",
      "status": "ok",
      "exit": 0,
      "identity": "cmd:63c892431ed76cd1:fixture-server",
      "invocation": {
        "kind": "stdio",
        "command": [
          "FIXTURE",
          "needs-key"
        ],
        "cwd": null
      },
      "env": [
        "FIXTURE_API_KEY"
      ],
      "server": {
        "protocolVersion": "2025-11-25",
        "info": {"name":"fixture","version":"1.0.0"},
        "capabilities": {"tools":{},"prompts":{},"resources":{}}
      },
      "instructions": {
        "text": "Ask first.",
        "digest": "sha256:21cdbaae19c056ce672c0e68ffe7fb128b04058264113e82b5b7710ed9c7da9b"
      },
      "tools": [
        {
          "name": "keyed",
          "digest": "sha256:8d7b8baf17c9359c6c85eef01f4737f2bbacc60adb843d4831a7159b1b30129a",
          "description": "Uses the key {env:FIXTURE_API_KEY}.",
          "definition": {"name":"keyed","description":"Uses the key {env:FIXTURE_API_KEY}.","inputSchema":{"type":"object"}}
        }
      ],
      "prompts": [
        {
          "name": "greet",
          "digest": "sha256:9508adb177c080032330daf51ec092bca86518970d78b57e392ed69854b22284",
          "description": "Greets.",
          "definition": {"name":"greet","description":"Greets."}
        }
      ],
      "resources": [
        {
          "name": "note:///1",
          "digest": "sha256:6ab1d3b94975dd041b180d429890dd3d84b5708607abc69459f2f08b74cf02d2",
          "definition": {"name":"Note","uri":"note:///1"}
        }
      ],
      "resourceTemplates": [
        {
          "name": "note:///{id}",
          "digest": "sha256:929979512f0bcf653b51657c886f37875fa91e4936fbecdffc375a3ecf261520",
          "definition": {"name":"Any note","uriTemplate":"note:///{id}"}
        }
      ],
      "missing": [],
      "warnings": [
        "the server echoed a value that it was given: shown and digested as `{env:FIXTURE_API_KEY}`"
      ],
      "serverAsked": [],
      "surfaceDigest": "sha256:1720c8cea9c4a451e5ed7e43878abdffc01a3cc1a234a84311ecb060356020e6"
    }
    --
    "#);
}

#[test]
fn there_is_one_document_on_every_exit() {
    let cases: [(&[&str], &str, i32); 7] = [
        (&["--", FIXTURE, "plain"], "ok", 0),
        (&["--", FIXTURE, "bad-tool"], "ok", 0),
        (&["--", FIXTURE, "resources-failed"], "partial", 5),
        (&["--", FIXTURE, "list-failed"], "list_failed", 5),
        (&["--timeout", "1000", "--", FIXTURE, "hang"], "timed_out", 5),
        (&[], "usage", 2),
        (
            &["--env", "MCPINDEX_NEVER_SET", "--", FIXTURE, "plain"],
            "usage",
            2,
        ),
    ];
    for (arguments, status, exit) in cases {
        let output = run(&[&["inspect", "--json"], arguments].concat());
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "mcpindex.inspect/1");
        assert_eq!(
            (document["status"].as_str(), document["exit"].as_i64()),
            (Some(status), Some(exit.into()))
        );
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}");
        let missing = document["missing"].as_array().map(Vec::len);
        assert_eq!(missing == Some(0), exit == 0, "{arguments:?}");
    }
}

#[test]
fn a_list_that_could_not_be_determined_is_null_in_the_document() {
    let lists = ["tools", "prompts", "resources", "resourceTemplates"];
    let check = |arguments: &[&str], undetermined: &[&str]| {
        let output = run(&[&["inspect", "--json"], arguments].concat());
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for list in lists {
            let is_null = document[list].is_null();
            assert_eq!(is_null, undetermined.contains(&list), "{list} of {arguments:?}");
        }
    };
    check(&["--", FIXTURE, "plain"], &[]);
    check(&["--", FIXTURE, "resources-failed"], &["resources"]);
    check(&["--", FIXTURE, "list-failed"], &lists);
    check(&[], &lists);
}

#[test]
fn mistakes_start_nothing() {
    let mut reports = String::new();
    for arguments in [
        &["--url", "ftp://a.example/"][..],
        &["--url", "http://user:word@a.example/"],
        &["--url", "http://a.example/", "--header", "no colon"],
        &["--cwd", "/no/such/directory", "--", FIXTURE, "plain"],
        &["--env", "MCPINDEX_NEVER_SET", "--", FIXTURE, "plain"],
    ] {
        reports += &format!("{}\n", inspect(arguments));
    }
    assert_snapshot!(reports, @r"
    exit 2
    --
    error: --url: expected http:// or https://

    exit 2
    --
    error: --url: a name or password in a URL is not sent; use --header

    exit 2
    --
    error: --header needs `Name: value`

    exit 2
    --
    error: --cwd: `/no/such/directory` is no directory

    exit 2
    --
    error: --env MCPINDEX_NEVER_SET: the variable is not set here
    ");
}

#[test]
fn a_remote_server_is_looked_at_and_its_header_kept_quiet() {
    let server = Listening::fixture("key");
    let output = run(&[
        "inspect",
        "--json",
        "--url",
        &server.url,
        "--header",
        "Authorization: Bearer fixture-token",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["status"], "ok");
    assert_eq!(
        document["invocation"]["headerNames"],
        serde_json::json!(["Authorization"])
    );
    assert!(!text.contains("fixture-token"));
    let redirected = Listening::fixture("redirect");
    assert_snapshot!(shown(&run(&["inspect", "--url", &redirected.url])), @r"
    exit 5
    could not be determined: not_mcp
      no MCP server: HTTP 307 Temporary Redirect redirects to `http://127.0.0.1:1/`
    --
    ");
}

#[test]
fn a_reader_who_leaves_ends_the_output_quietly() {
    let script = format!("'{EXECUTABLE}' inspect --json -- '{FIXTURE}' paged | head -c 10");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).len(), 10);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn relative_paths_are_meant_from_where_the_person_stands() {
    let directory = std::path::Path::new(FIXTURE).parent().unwrap();
    let output = Command::new(EXECUTABLE)
        .args(["inspect", "--json", "--", "./fixture-server", "plain"])
        .current_dir(directory)
        .output()
        .unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["status"], "ok", "{document}");
}

#[tokio::test]
async fn a_signal_ends_the_server_and_all_that_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!(
        "'{FIXTURE}' grandchild '{}' </dev/null; exec '{FIXTURE}' hang",
        file.to_str().unwrap()
    );
    let mut child = Command::new(EXECUTABLE)
        .args(["inspect", "--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    let limit = Instant::now() + Duration::from_secs(20);
    while file.metadata().map_or(0, |metadata| metadata.len()) == 0 {
        assert!(Instant::now() < limit, "the server never started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    gone(&file).await;
}
