//! Much at once: long messages, many calls, and sides that do not read.

use tokio::io::AsyncWriteExt;

use crate::proxy::{Gated, ended, request};

/// The most memory that the gate ever had, in bytes.
fn peak(gated: &Gated) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gated.child.id().unwrap())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    peak.trim()
        .trim_end_matches(" kB")
        .trim()
        .parse::<usize>()
        .unwrap()
        << 10
}

#[tokio::test]
async fn a_message_of_nearly_64_megabytes_passes_both_ways() {
    let mut gated = Gated::start(&[], &[]);
    gated.shake_hands().await;
    let long = "x".repeat(63 << 20);
    let params = format!(r#"{{"name":"echo","arguments":{{"text":"{long}"}}}}"#);
    let mut input = gated.take_input();
    let message = request("a", "tools/call", &params) + "\n";
    let (sent, heard) = tokio::join!(input.write_all(message.as_bytes()), gated.hear_line());
    sent.unwrap();
    assert!(
        heard.starts_with(r#"{"jsonrpc":"2.0","id":"a","result":{"content""#),
        "{}",
        &heard[..100]
    );
    assert!(heard.ends_with(&format!("{long}\"}}}}}}\n")));
}

#[tokio::test]
async fn a_longer_one_of_the_client_ends_the_session_with_a_line() {
    let mut gated = Gated::start(&["--server", "notes"], &[]);
    gated.shake_hands().await;
    let mut input = gated.take_input();
    let long = vec![b'x'; 65 << 20];
    // It may end before all of it is read.
    let _ = input.write_all(&long).await;
    let told = gated.end().await;
    insta::assert_snapshot!(told, @r"
    exit 5
    --
    mcpindex: notes is new: 3 tools pinned
    mcpindex: the client sent a message of more than 67108864 bytes: the session was ended
    ");
}

#[tokio::test]
async fn a_longer_one_of_the_server_ends_the_session_and_its_question_is_answered() {
    let mut gated = Gated::start(&["--server", "notes"], &[]);
    gated.shake_hands().await;
    let bytes = 65 << 20;
    gated
        .say(&request(
            "a",
            "tools/call",
            &format!(r#"{{"name":"big","arguments":{{"bytes":{bytes}}}}}"#),
        ))
        .await;
    let answer = gated.hear().await;
    assert!(answer["error"].is_object(), "{answer}");
    insta::assert_snapshot!(gated.end().await, @r"
    exit 5
    --
    mcpindex: notes is new: 3 tools pinned
    mcpindex: notes sent a message of more than 67108864 bytes: the session was ended
    ");
}

#[tokio::test]
async fn thousands_of_calls_in_flight_are_all_answered() {
    const CALLS: usize = 5_000;
    let mut gated = Gated::start(&[], &[]);
    gated.shake_hands().await;
    let mut input = gated.take_input();
    let calls: String = (0..CALLS)
        .map(|call| request(&call.to_string(), "tools/call", r#"{"name":"echo"}"#) + "\n")
        .collect();
    let writer = tokio::spawn(async move {
        input.write_all(calls.as_bytes()).await.unwrap();
        input
    });
    for call in 0..CALLS {
        assert_eq!(gated.hear().await["id"], call.to_string());
    }
    drop(writer.await.unwrap());
    assert_eq!(gated.calls(), CALLS);
}

/// Its questions fill every pipe long before the answers are fetched, which are fifty times as long.
#[tokio::test]
async fn a_client_that_reads_late_makes_everybody_wait_and_nobody_grow() {
    const CALLS: usize = 10_000;
    let mut gated = Gated::start(&[], &[]);
    gated.shake_hands().await;
    let mut input = gated.take_input();
    let calls: String = (0..CALLS)
        .map(|call| {
            request(
                &call.to_string(),
                "tools/call",
                r#"{"name":"big","arguments":{"bytes":5000}}"#,
            ) + "\n"
        })
        .collect();
    let length = calls.len();
    let (progress, mut written) = tokio::sync::watch::channel(0_usize);
    let writer = tokio::spawn(async move {
        for piece in calls.as_bytes().chunks(4_096) {
            input.write_all(piece).await.unwrap();
            progress.send_modify(|bytes| *bytes += piece.len());
        }
        input
    });
    // More than the pipes hold: the gate has read, and the server has been asked.
    written.wait_for(|bytes| *bytes > 300_000).await.unwrap();
    assert!(*written.borrow() < length);
    for call in 0..CALLS {
        assert_eq!(gated.hear().await["id"], call.to_string());
    }
    let peak = peak(&gated);
    assert!(peak < 40 << 20, "{peak} bytes");
    drop(writer.await.unwrap());
}

/// It answers nothing and reads nothing, and the client may still be told to go.
#[tokio::test]
async fn a_server_that_does_not_read_makes_the_client_wait_and_nobody_grow() {
    let directory = tempfile::tempdir().unwrap();
    let mut gated = Gated::start_server(directory, &[], &[crate::stdio::FIXTURE, "park"]);
    let mut input = gated.take_input();
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"and so on"}}"#;
    let (progress, mut written) = tokio::sync::watch::channel(0_usize);
    let writer = tokio::spawn(async move {
        let many = format!("{note}\n").repeat(100);
        loop {
            if input.write_all(many.as_bytes()).await.is_err() {
                return;
            }
            progress.send_modify(|bytes| *bytes += many.len());
        }
    });
    // What the gate's queue and the two pipes hold at least.
    written.wait_for(|bytes| *bytes > 350_000).await.unwrap();
    let peak = peak(&gated);
    assert!(peak < 40 << 20, "{peak} bytes");
    let pid = gated.child.id().unwrap().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(ended(&mut gated.child).await, 130);
    writer.await.unwrap();
}

/// Both ends are closed long before it begins to read, and nothing of the answers is lost.
#[tokio::test]
async fn a_client_that_reads_after_everybody_ended_gets_it_all() {
    const CALLS: usize = 1_000;
    let mut gated = Gated::start(&[], &[]);
    gated.shake_hands().await;
    let mut input = gated.take_input();
    for call in 0..CALLS {
        let params = r#"{"name":"big","arguments":{"bytes":100}}"#;
        let call = request(&call.to_string(), "tools/call", params) + "\n";
        input.write_all(call.as_bytes()).await.unwrap();
    }
    let pid = request("pid", "pid", "{}") + "\n";
    input.write_all(pid.as_bytes()).await.unwrap();
    drop(input);
    crate::proxy::until("all questions", || gated.log().ends_with("pid\n")).await;
    for call in 0..CALLS {
        assert_eq!(gated.hear().await["id"], call.to_string());
    }
    assert_eq!(gated.hear().await["id"], "pid");
    assert_eq!(gated.hear_line().await, "");
    assert_eq!(ended(&mut gated.child).await, 0);
}
