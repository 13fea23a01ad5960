//! How a gated session ends: whoever ends first, the other hears of it, what was asked is answered, and nobody is left.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use tokio::io::AsyncWriteExt;

use crate::proxy::{EXECUTABLE, Gated, INITIALIZE, INITIALIZED, LIMIT, ended, request, until};
use crate::stdio::{FIXTURE, gone};

fn signal(name: &str, gated: &Gated) {
    let pid = gated.child.id().unwrap().to_string();
    assert!(
        Command::new("kill")
            .args([name, &pid])
            .status()
            .unwrap()
            .success()
    );
}

/// A fixture that leaves a grandchild behind, whose id is in the file `grandchild`.
fn with_grandchild(fixture: &[&str]) -> Gated {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (log, child) = (path("log"), format!("child={}", path("grandchild")));
    let server = [&[FIXTURE, "gated", &log, &child], fixture].concat();
    Gated::start_server(directory, &[], &server)
}

#[tokio::test]
async fn when_the_client_ends_the_server_ends_and_its_code_is_ours() {
    let mut gated = Gated::start(&["--server", "notes"], &[]);
    gated.shake_hands().await;
    assert_snapshot!(gated.end().await, @r"
    exit 0
    --
    mcpindex: notes is new: 3 tools pinned
    ");
}

#[tokio::test]
async fn what_was_asked_before_the_client_closed_its_end_is_answered() {
    let mut gated = Gated::start(&[], &[]);
    let mut input = gated.take_input();
    // All at once, and the call waits for a listing that has not begun.
    let lines = [
        INITIALIZE,
        INITIALIZED,
        &request("a", "tools/call", r#"{"name":"echo"}"#),
    ];
    input
        .write_all((lines.join("\n") + "\n").as_bytes())
        .await
        .unwrap();
    drop(input);
    assert_eq!(gated.hear().await["id"], 0);
    assert!(gated.hear().await["result"].is_object());
    assert_eq!(gated.hear_line().await, "");
    assert_eq!(ended(&mut gated.child).await, 0);
}

#[tokio::test]
async fn a_last_line_without_an_end_is_a_message_too() {
    let mut gated = Gated::start(&[], &[]);
    gated.shake_hands().await;
    let mut input = gated.take_input();
    input
        .write_all(request("a", "ping", "{}").as_bytes())
        .await
        .unwrap();
    drop(input);
    assert_eq!(gated.hear().await["id"], "a");
}

#[tokio::test]
async fn a_server_that_ends_over_a_call_leaves_an_answer_and_its_code() {
    let mut gated = Gated::start(&["--server", "notes"], &["end-after=2"]);
    gated.shake_hands().await;
    gated.call("a", "echo").await;
    let answer = gated.call("b", "echo").await;
    assert!(answer["error"].is_object(), "{answer}");
    assert_snapshot!(gated.end().await, @r"
    exit 7
    --
    mcpindex: notes is new: 3 tools pinned
    ");
}

#[tokio::test]
async fn a_server_that_crashes_while_another_holds_its_pipes_is_known_to_be_gone() {
    let mut gated = with_grandchild(&["end-after=1"]);
    gated.shake_hands().await;
    assert!(gated.call("a", "echo").await["error"].is_object());
    let file = gated.file("grandchild");
    assert_eq!(gated.hear_line().await, "");
    assert_eq!(ended(&mut gated.child).await, 7);
    gone(&file).await;
}

#[tokio::test]
async fn a_launcher_that_hands_its_pipes_over_and_ends_well_is_no_end() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    // A shell gives what it puts in the background another stdin, unless told.
    let script = format!("exec 3<&0; '{FIXTURE}' gated '{}' <&3 & exit 0", log.display());
    let mut gated = Gated::start_server(directory, &[], &["sh", "-c", &script]);
    gated.shake_hands().await;
    assert!(gated.call("a", "echo").await["result"].is_object());
    assert!(gated.end().await.starts_with("exit 0"));
}

#[tokio::test]
async fn a_server_that_ignores_the_end_of_its_input_is_ended_with_its_group() {
    let mut gated = with_grandchild(&["stays"]);
    gated.shake_hands().await;
    let file = gated.file("grandchild");
    assert!(gated.end().await.starts_with("exit 0\n--"));
    gone(&file).await;
}

#[tokio::test]
async fn a_server_that_ignores_signals_too_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = format!("trap '' TERM; exec '{FIXTURE}' gated '{}' stays", log.display());
    let mut gated = Gated::start_server(directory, &[], &["sh", "-c", &script]);
    gated.shake_hands().await;
    assert!(gated.end().await.starts_with("exit 0\n--"));
}

#[tokio::test]
async fn each_signal_ends_the_server_and_its_group() {
    for name in ["-INT", "-TERM", "-HUP"] {
        let mut gated = with_grandchild(&["stays", "no-answers"]);
        gated.shake_hands().await;
        gated.say(&request("a", "tools/call", r#"{"name":"echo"}"#)).await;
        until("the call", || gated.calls() == 1).await;
        signal(name, &gated);
        let file = gated.file("grandchild");
        gone(&file).await;
        assert_eq!(ended(&mut gated.child).await, 130, "{name}");
    }
}

#[tokio::test]
async fn a_gate_that_is_killed_closes_the_servers_input() {
    let mut gated = Gated::start(&[], &[]);
    gated.shake_hands().await;
    let pid = gated.ask("a", "pid", "{}").await["result"]["pid"].to_string();
    std::fs::write(gated.file("pid"), &pid).unwrap();
    signal("-KILL", &gated);
    gone(&gated.file("pid")).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_any_more_ends_it() {
    let mut gated = with_grandchild(&["stays"]);
    gated.shake_hands().await;
    let mut input = gated.take_input();
    let file = gated.file("grandchild");
    let (mut child, directory) = gated.close_output();
    let ping = request("a", "ping", "{}") + "\n";
    input.write_all(ping.as_bytes()).await.unwrap();
    assert_eq!(ended(&mut child).await, 0);
    gone(&file).await;
    drop((directory, input));
}

#[tokio::test]
async fn a_server_that_closes_its_output_alone_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!("read line; exec >&-; exec '{FIXTURE}' park");
    let mut gated = Gated::start_server(directory, &[], &["sh", "-c", &script]);
    gated.say(INITIALIZE).await;
    assert!(gated.hear().await["error"].is_object());
    assert_eq!(gated.hear_line().await, "");
    ended(&mut gated.child).await;
}

#[tokio::test]
async fn a_server_that_closes_its_input_alone_may_say_its_last_words() {
    let directory = tempfile::tempdir().unwrap();
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"last words"}}"#;
    let script = format!(
        "read line; exec <&-; echo closed >&2; read line <\"$0\"; echo '{note}'; exec '{FIXTURE}' park <\"$0\""
    );
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut gated = Gated::start_server(directory, &[], &["sh", "-c", &script, fifo.to_str().unwrap()]);
    gated.say(INITIALIZE).await;
    let stderr = gated.file("stderr");
    until("its input is closed", || {
        std::fs::read_to_string(&stderr).unwrap().contains("closed")
    })
    .await;
    gated.say(&request("a", "ping", "{}")).await;
    std::fs::write(&fifo, "go on\n").unwrap();
    let mut heard = Vec::new();
    loop {
        let line = gated.hear_line().await;
        if line.is_empty() {
            break;
        }
        heard.push(line);
    }
    assert_eq!(heard.first().map(|line| line.trim_end()), Some(note));
    // Both requests, in the server's place.
    assert_eq!(heard.len(), 3, "{heard:?}");
    ended(&mut gated.child).await;
}

#[tokio::test]
async fn files_and_sockets_serve_as_well_as_pipes() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let gate = |stdin: Stdio, stdout: Stdio| {
        let mut command = Command::new(EXECUTABLE);
        command
            .args(["gate", "--", FIXTURE, "gated"])
            .arg(&log)
            .env("MCPINDEX_STATE_DIR", directory.path().join("state"))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::null());
        command
    };
    let said = [
        INITIALIZE,
        INITIALIZED,
        &request("a", "tools/call", r#"{"name":"echo"}"#),
        "",
    ]
    .join("\n");
    let (input, output) = (directory.path().join("input"), directory.path().join("output"));
    std::fs::write(&input, &said).unwrap();
    let status = gate(
        File::open(&input).unwrap().into(),
        File::create(&output).unwrap().into(),
    )
    .status();
    assert_eq!(status.unwrap().code(), Some(0));
    let through_files = std::fs::read_to_string(&output).unwrap();
    assert_eq!(through_files.lines().count(), 2, "{through_files}");

    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(LIMIT)).unwrap();
    let mut child = gate(
        std::os::fd::OwnedFd::from(theirs.try_clone().unwrap()).into(),
        std::os::fd::OwnedFd::from(theirs).into(),
    )
    .spawn()
    .unwrap();
    let mut through_socket = String::new();
    std::io::Write::write_all(&mut &ours, said.as_bytes()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    std::io::Read::read_to_string(&mut &ours, &mut through_socket).unwrap();
    assert_eq!(through_socket, through_files);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn gate_of(command: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(EXECUTABLE)
        .args(["gate", "--server", "notes", "--"])
        .args(command)
        .env("MCPINDEX_STATE_DIR", directory.path())
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // What `env` says for itself depends on who wrote it.
    let ours: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("mcpindex: ") || line.starts_with("error: "))
        .collect();
    format!("exit {}\n{}", output.status.code().unwrap_or(-1), ours.join("\n"))
}

#[test]
fn a_command_that_is_not_there_names_the_path_that_was_seen() {
    assert_snapshot!(gate_of(&["mcpindex-no-such-runtime", "-y", "x"]), @r"
    exit 127
    error: `mcpindex-no-such-runtime` is not on the PATH that we were started with (PATH=/usr/bin:/bin): give its full path, or set PATH in the host's configuration
    ");
    assert_snapshot!(gate_of(&["/no/such/program"]), @r"
    exit 127
    error: `/no/such/program` can't be started: there is no such file
    ");
    assert_snapshot!(gate_of(&["/usr/bin/env", "mcpindex-no-such-runtime"]), @r"
    exit 127
    mcpindex: notes ended with 127 before it said anything; programs were looked up on PATH=/usr/bin:/bin
    ");
}

#[test]
fn a_command_that_can_not_be_started_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let run =
        || gate_of(&[script.to_str().unwrap()]).replace(directory.path().to_str().unwrap(), "DIRECTORY");
    assert_snapshot!(run(), @r"
    exit 126
    error: `DIRECTORY/script` can't be started: permission denied
    ");
    let mut permissions = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&script, permissions).unwrap();
    assert_snapshot!(run(), @r"
    exit 126
    error: `DIRECTORY/script` can't be started: the interpreter that its first line names is missing
    ");
}

#[test]
fn arguments_that_can_not_be_used_start_nothing() {
    fn check(arguments: &[&str], expected: &str) {
        let output = Command::new(EXECUTABLE)
            .arg("gate")
            .args(arguments)
            .env_remove("MCPINDEX_NO_TOKEN")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert_eq!(stderr.lines().next(), Some(expected));
    }
    check(
        &["--posture", "lax", "--", "x"],
        "error: invalid value 'lax' for '--posture <POSTURE>'",
    );
    check(
        &["--list-timeout", "0", "--", "x"],
        "error: invalid value '0' for '--list-timeout <SECONDS>': 0 is not in 1..=3600",
    );
    check(
        &["--listen", "127.0.0.1:0", "--", "x"],
        "error: the argument '--listen <ADDRESS:PORT>' cannot be used with '[COMMAND]...'",
    );
    check(
        &["--url", "ftp://a.example/mcp"],
        "error: --url: expected http:// or https://",
    );
    check(
        &[
            "--url",
            "https://a.example/mcp",
            "--bearer-env",
            "MCPINDEX_NO_TOKEN",
        ],
        "error: --bearer-env MCPINDEX_NO_TOKEN: the variable is not set here",
    );
    check(&[], "error: the following required arguments were not provided:");
}
