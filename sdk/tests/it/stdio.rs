//! Servers as child processes: each way to behave has a result of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use mcpindex::inspect::{Inspection, inspect_stdio};
use mcpindex::wire::limits::Limits;
use mcpindex::wire::stdio::Launch;
use secrecy::SecretString;

use crate::report::{limits, report};

pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture-server");

pub(crate) fn launch(program: &str, args: &[&str]) -> Launch {
    Launch {
        program: program.to_owned(),
        args: args.iter().map(|argument| (*argument).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        label: None,
        jail: None,
    }
}

async fn look_within(scenario: &str, limits: &Limits) -> Inspection {
    inspect_stdio(&launch(FIXTURE, &[scenario]), limits).await
}

async fn look(scenario: &str) -> String {
    report(&look_within(scenario, &limits()).await)
}

async fn look_with_key(scenario: &str, key: &str) -> String {
    let mut launch = launch(FIXTURE, &[scenario]);
    launch
        .env
        .push(("FIXTURE_API_KEY".to_owned(), SecretString::from(key)));
    report(&inspect_stdio(&launch, &limits()).await)
}

#[tokio::test]
async fn everything_that_is_declared_is_listed() {
    assert_snapshot!(look("plain").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn the_oldest_protocol_is_spoken() {
    assert_snapshot!(look("legacy").await, @r"
    ok
    protocol: 2024-11-05
    instructions: Ask first.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}

#[tokio::test]
async fn a_server_without_initialize_is_discovered() {
    assert_snapshot!(look("modern-only").await, @r"
    ok
    protocol: 2026-07-28
    instructions: Ask first.
    tools: read_note
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}

#[tokio::test]
async fn a_server_that_ends_over_initialize_is_started_again_and_discovered() {
    assert_eq!(look("modern-and-gone").await, look("modern-only").await);
    assert_eq!(look("refuses-and-gone").await, look("refuses").await);
}

#[tokio::test]
async fn a_server_that_refuses_and_then_falls_silent_is_not_waited_for_long() {
    assert_snapshot!(look("refuses-and-hangs").await, @r"
    not_mcp
    reason: `initialize` was answered with error 0: not today
    ");
}

#[tokio::test]
async fn a_version_that_nobody_knows_is_no_guess() {
    assert_snapshot!(look("future").await, @r"
    not_mcp
    reason: no MCP server: the answer to `initialize` names a protocol version that is unknown
    ");
}

#[tokio::test]
async fn a_server_that_declares_no_tools_has_none() {
    assert_snapshot!(look("no-tools").await, @r"
    ok
    protocol: 2025-06-18
    instructions: Ask first.
    tools: not declared
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
}

#[tokio::test]
async fn pages_are_read_to_the_end_and_an_empty_cursor_is_a_cursor() {
    assert_snapshot!(look("paged").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: a, b, c
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn pages_that_lead_back_to_themselves_are_a_cursor_loop() {
    assert_snapshot!(look("cursor-loop").await, @r"
    cursor_loop
    reason: `tools/list` gives a cursor that it gave before
    ");
}

#[tokio::test]
async fn pages_items_and_bytes_have_limits_of_their_own() {
    let limits = Limits {
        pages: 20,
        item_bytes: 1 << 20,
        ..limits()
    };
    let mut reports = String::new();
    for scenario in ["endless-pages", "long-cursor", "tool-bomb", "giant-tool"] {
        reports += &report(&look_within(scenario, &limits).await);
    }
    assert_snapshot!(reports, @r"
    over_limit
    reason: more than 20 pages of tools
    over_limit
    reason: more than 4096 bytes in a cursor
    over_limit
    reason: more than 20000 tools
    over_limit
    reason: more than 1048576 bytes in a tool
    ");
}

#[tokio::test]
async fn a_line_without_an_end_stops_at_its_limit() {
    assert_snapshot!(look("twenty-megabytes").await, @r"
    over_limit
    reason: more than 16777216 bytes in one message
    ");
}

#[tokio::test]
async fn bytes_in_all_stop_at_their_limit() {
    let limits = Limits {
        total_bytes: 1 << 20,
        ..limits()
    };
    assert_snapshot!(report(&look_within("notification-flood", &limits).await), @r"
    over_limit
    reason: more than 1048576 bytes in all
    ");
}

#[tokio::test]
async fn a_server_that_never_stops_talking_meets_the_deadline() {
    let limits = Limits {
        request: Duration::from_millis(300),
        total_bytes: usize::MAX,
        ..limits()
    };
    assert_eq!(
        look_within("notification-flood", &limits).await.outcome().name(),
        "timed_out"
    );
}

#[tokio::test]
async fn a_server_that_never_answers_times_out() {
    let limits = Limits {
        handshake: Duration::from_secs(1),
        ..limits()
    };
    assert_snapshot!(report(&look_within("hang", &limits).await), @r"
    timed_out
    reason: no answer to `initialize` within 1 s
    ");
}

#[tokio::test]
async fn the_whole_look_has_a_deadline() {
    let limits = Limits {
        whole: Duration::from_secs(3),
        ..limits()
    };
    let failure = look_within("silent-tools", &limits).await.result.unwrap_err();
    assert_eq!(failure.outcome.name(), "timed_out");
    assert!(failure.reason.contains("`tools/list`"), "{}", failure.reason);
}

#[tokio::test]
async fn prompts_that_never_come_leave_the_rest() {
    let limits = Limits {
        request: Duration::from_secs(3),
        ..limits()
    };
    assert_snapshot!(report(&look_within("silent-prompts", &limits).await), @r"
    partial
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: failed: no answer to `prompts/list` within 3 s
    resources: note:///1
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn an_end_before_the_answer_says_how_and_why() {
    let mut reports = String::new();
    for scenario in [
        "crash",
        "silent-exit",
        "needs-key",
        "usage",
        "offline-exit",
        "exits-mid-session",
    ] {
        reports += &look(scenario).await;
    }
    assert_snapshot!(reports, @r"
    crashed
    reason: the process ended (exit status: 3) before `initialize` was answered: ImportError: boom \u{1b}[31m
    crashed
    reason: the process ended (exit status: 1) before `initialize` was answered
    needs_config
    reason: the process ended (exit status: 1) before `initialize` was answered: Error: the FIXTURE_API_KEY environment variable is required
    needs_config
    reason: the process ended (exit status: 2) before `initialize` was answered: fixture: error: the following arguments are required: --path
    needs_network
    reason: the process ended (exit status: 1) before `initialize` was answered: cause: getaddrinfo ENOTFOUND api.example.com
    crashed
    reason: the process ended (exit status: 4) before `tools/list` was answered
    ");
}

#[tokio::test]
async fn a_program_that_is_not_there_says_so() {
    let mut reports = report(&inspect_stdio(&launch("no-such-program", &[]), &limits()).await);
    let mut nowhere = launch("fixture", &["plain"]);
    nowhere.cwd = Some("/no/such/directory".into());
    reports += &report(&inspect_stdio(&nowhere, &limits()).await);
    assert_snapshot!(reports, @r"
    crashed
    reason: `no-such-program` could not be started: not found
    crashed
    reason: `fixture` could not be started: the working directory `/no/such/directory` is none
    ");
}

#[tokio::test]
async fn noise_is_tolerated_and_told() {
    assert_snapshot!(look("noise").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    note: 4 lines that are no JSON-RPC, the first: `Fixture server 1.0 listening on stdio`
    ");
    assert_snapshot!(look("noise-flood").await, @r"
    over_limit
    reason: more than 1000 lines that are no JSON-RPC
    note: 1001 lines that are no JSON-RPC, the first: `line 0`
    ");
}

#[tokio::test]
async fn a_flood_on_stderr_blocks_nothing_and_its_end_is_kept() {
    let limits = Limits {
        stderr_bytes: 100,
        ..limits()
    };
    let inspection = look_within("stderr-flood", &limits).await;
    assert_eq!(inspection.outcome().name(), "ok");
    assert!(
        inspection
            .stderr
            .ends_with("line 99999 of a very talkative server\n"),
        "{}",
        inspection.stderr
    );
    let lines = inspection.stderr.lines().count();
    assert_eq!(
        lines, 2,
        "whole lines of the last 100 bytes: {}",
        inspection.stderr
    );
}

#[tokio::test]
async fn one_bad_tool_never_hides_the_others() {
    assert_snapshot!(look("bad-tool").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note, twice (duplicate-member), half (lone-surrogate),  (not-an-object), big (number-out-of-range), last
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
    assert_snapshot!(look("deep").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools:  (too-deep), read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
    assert_snapshot!(look("duplicate-names").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: same, same
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn a_list_that_failed_is_never_an_empty_one() {
    let mut reports = String::new();
    for scenario in [
        "list-failed",
        "needs-network",
        "unknown-list",
        "wrong-shape",
        "twice",
        "both",
        "refuses",
    ] {
        reports += &look(scenario).await;
    }
    assert_snapshot!(reports, @r"
    list_failed
    reason: `tools/list` was answered with error -32603: database is locked
    needs_network
    reason: `tools/list` was answered with error -32603: fetch failed
    list_failed
    reason: `tools/list` was answered with error -32601: Method not found
    list_failed
    reason: the answer to `tools/list` can't be used: `tools` is no array
    list_failed
    reason: the answer to `tools/list` can't be used: it has two members `result`
    not_mcp
    reason: the answer to `initialize` can't be used: it has both a result and an error
    not_mcp
    reason: `initialize` was answered with error 0: not today
    ");
}

#[tokio::test]
async fn other_lists_that_fail_leave_a_partial_surface() {
    assert_snapshot!(look("resources-failed").await, @r"
    partial
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: failed: `resources/list` was answered with error -32603: connect ECONNREFUSED 127.0.0.1:5432
    resource-templates: note:///{id}
    ");
    assert_snapshot!(look("resources-loop").await, @r"
    partial
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: failed: `resources/list` gives a cursor that it gave before
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn a_capability_without_its_method_is_not_declared_and_told() {
    assert_snapshot!(look("no-prompts").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: not declared
    resources: note:///1
    resource-templates: note:///{id}
    note: declares prompts but knows no `prompts/list`
    ");
}

#[tokio::test]
async fn only_the_answer_with_our_id_counts() {
    assert_snapshot!(look("wrong-ids").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    note: 2 answers to no open question were ignored
    ");
}

#[tokio::test]
async fn a_list_that_changes_is_read_again() {
    assert_snapshot!(look("changes").await, @r"
    ok
    protocol: 2025-06-18
    instructions: Ask first.
    tools: read_note, late
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    ");
    assert_snapshot!(look("never-settles").await, @r"
    ok
    protocol: 2025-06-18
    instructions: Ask first.
    tools: t4
    prompts: not declared
    resources: not declared
    resource-templates: not declared
    note: `tools/list` was still changing after 3 more readings
    ");
}

#[tokio::test]
async fn the_server_hears_that_it_is_initialized() {
    assert_snapshot!(look("must-be-initialized").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    ");
}

#[tokio::test]
async fn pings_are_answered_and_all_else_is_refused() {
    assert_snapshot!(look("asks-back").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: read_note
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    server asked: ping, sampling/createMessage
    ");
    assert_snapshot!(look("sampling-flood").await, @r"
    over_limit
    reason: more than 100 requests from the server
    server asked: sampling/createMessage
    ");
}

#[tokio::test]
async fn a_value_that_we_gave_is_shown_by_its_name() {
    assert_snapshot!(look_with_key("echo", "canary-7f3a9c51").await, @r"
    ok
    protocol: 2025-11-25
    instructions: Ask first.
    tools: keyed
    prompts: greet
    resources: note:///1
    resource-templates: note:///{id}
    note: the server echoed a value that it was given: shown and digested as `{env:FIXTURE_API_KEY}`
    ");
    let one = inspect_key_digest("canary-7f3a9c51").await;
    let other = inspect_key_digest("another-value").await;
    assert_eq!(one, other);
    assert_snapshot!(look_with_key("crash-with-key", "canary-7f3a9c51").await, @r"
    crashed
    reason: the process ended (exit status: 1) before `initialize` was answered: the key {env:FIXTURE_API_KEY} was not accepted
    note: the server echoed a value that it was given: shown and digested as `{env:FIXTURE_API_KEY}`
    ");
}

async fn inspect_key_digest(key: &str) -> String {
    let mut launch = launch(FIXTURE, &["echo"]);
    launch
        .env
        .push(("FIXTURE_API_KEY".to_owned(), SecretString::from(key)));
    inspect_stdio(&launch, &limits())
        .await
        .result
        .unwrap()
        .digest()
        .to_string()
}

#[tokio::test]
async fn a_value_that_we_gave_is_known_wherever_a_text_is_cut() {
    let mut launch = launch(FIXTURE, &["tells-key"]);
    launch.env.push((
        "FIXTURE_API_KEY".to_owned(),
        SecretString::from("canary-7f3a9c51"),
    ));
    let limits = Limits {
        stderr_bytes: 100,
        ..limits()
    };
    let inspection = inspect_stdio(&launch, &limits).await;
    let told = format!("{:?}", (&inspection.notes, &inspection.stderr));
    assert!(inspection.stderr.ends_with("last words\n"), "{told}");
    assert!(told.contains("x{env:FIX"), "{told}");
    assert!(!told.contains("canary") && !told.contains("9c51"), "{told}");
}

#[tokio::test]
async fn a_server_that_names_its_directory_says_the_same_at_each_look() {
    let mut launch = launch(FIXTURE, &["names-home"]);
    launch.label = Some("a_server_that_names_its_directory".to_owned());
    let first = inspect_stdio(&launch, &limits()).await;
    let second = inspect_stdio(&launch, &limits()).await;
    assert_eq!(first.result.unwrap().digest(), second.result.unwrap().digest());
    assert_snapshot!(second.notes.join("\n"), @"the server names the directory that it ran in: its digest holds where that is called the same");
}

#[tokio::test]
async fn a_directory_that_is_new_each_time_is_told_when_it_is_named() {
    let inspection = look_within("names-home", &limits()).await;
    assert_snapshot!(inspection.notes.join("\n"), @"the server names the directory that it ran in, which is new for this look: its digest will differ");
}

#[tokio::test]
async fn a_server_that_ignores_the_end_of_stdin_is_ended() {
    assert_eq!(
        look_within("ignores-stdin-close", &limits())
            .await
            .outcome()
            .name(),
        "ok"
    );
}

#[tokio::test]
async fn a_server_that_ignores_signals_is_killed() {
    let script = format!("trap '' TERM; exec '{FIXTURE}' ignores-stdin-close");
    let inspection = inspect_stdio(&launch("sh", &["-c", &script]), &limits()).await;
    assert_eq!(inspection.outcome().name(), "ok");
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipes_neither_hangs_us_nor_survives() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let launch = launch(FIXTURE, &["grandchild", file.to_str().unwrap()]);
    let inspection = inspect_stdio(&launch, &limits()).await;
    assert_eq!(inspection.outcome().name(), "ok");
    gone(&file).await;
}

#[tokio::test]
async fn a_look_that_is_dropped_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!(
        "'{FIXTURE}' grandchild '{}' </dev/null; exec '{FIXTURE}' hang",
        file.to_str().unwrap()
    );
    let launch = launch("sh", &["-c", &script]);
    let limits = limits();
    {
        let look = inspect_stdio(&launch, &limits);
        tokio::pin!(look);
        until(
            || file.metadata().is_ok_and(|metadata| metadata.len() > 0),
            &mut look,
        )
        .await;
    }
    gone(&file).await;
}

/// Drives `look` until `condition` holds.
async fn until(condition: impl Fn() -> bool, look: &mut (impl Future<Output = Inspection> + Unpin)) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < limit, "the condition never came");
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut *look).await;
    }
}

/// Waits for the end of the process whose id is in the file.
pub(crate) async fn gone(file: &Path) {
    let pid = std::fs::read_to_string(file).unwrap();
    let status = format!("/proc/{pid}/stat");
    let limit = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < limit, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
