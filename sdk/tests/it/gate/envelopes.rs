//! What two readers could take differently does not pass; whatever else it is passes to the byte.

use mcpindex::gate::GateOptions;
use mcpindex::pins::Pins;
use mcpindex_contract::posture::Posture;

use super::session::{Session, options};

/// What becomes of one message of the client.
fn from_client(message: &[u8]) -> String {
    let mut session = Session::legacy();
    session.client_bytes(message);
    outcome(&session.transcript())
}

/// What becomes of one message of the server while the requests 1 and "s" are open.
fn from_server(message: &[u8]) -> String {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read"}"#);
    session.client(r#"{"jsonrpc":"2.0","id":"s","method":"resources/read"}"#);
    session.transcript();
    session.server_bytes(message);
    outcome(&session.transcript())
}

fn outcome(transcript: &str) -> String {
    let lines: Vec<&str> = transcript.lines().filter(|line| line.starts_with("  ")).collect();
    lines
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn from_the_client_everything_but_doubt_passes() {
    // An empty message can't be told from silence by its bytes.
    assert_eq!(from_client(b""), "-> server:");
    for message in [
        " \r",
        "3",
        "\"text\"",
        "null",
        "{}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":-1.5e3,"method":"ping","extra":1,"extra":2}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"},"method":null}"#,
        r#"{"id":1,"method":"unheard/of","params":[1,{"name":"a","name":"b","a":"\ud800"}]}"#,
        "  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}  \r",
        "{\"jsonrpc\":\"2.0\",\r\"id\":1,\r\"method\":\"ping\"}",
    ] {
        assert_eq!(from_client(message.as_bytes()), "-> server: as sent", "{message}");
    }
}

#[test]
fn from_the_client_doubt_is_refused() {
    fn check(message: &[u8], id: &str, code: i64) {
        let outcome = from_client(message);
        let expected = format!(r#"-> client: {{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"#);
        let message = String::from_utf8_lossy(message);
        assert!(
            outcome.starts_with(&expected) && !outcome.contains('\n'),
            "{message}: {outcome}"
        );
    }
    for broken in [
        &b"hello"[..],
        b"{",
        b"[1",
        b"NaN",
        br#"{"jsonrpc":"2.0","params":{"n":NaN},"id":1,"method":"ping"}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"n\":\"\xff\"}}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
    ] {
        check(broken, "null", -32_700);
    }
    for broken_behind_its_id in [
        br#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#.as_slice(),
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":NaN}}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":01}}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"n\":\"\t\"}}",
        br#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\"}",
    ] {
        check(broken_behind_its_id, "1", -32_700);
    }
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
        "1",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call"}"#,
        "1",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#,
        "1",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","PARAMS":{}}"#,
        "1",
        -32_600,
    );
    check(
        "{\"id\":1,\"method\":\"ping\",\"param\u{17f}\":{}}".as_bytes(),
        "1",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        "null",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}"#,
        "null",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":"a","method":"ping"}"#,
        r#""a""#,
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{}}"#,
        "1",
        -32_600,
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","error":null}"#,
        "1",
        -32_600,
    );
    check(br#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#, "1", -32_600);
    check(br#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, "1", -32_600);
    check(
        br#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
        "1",
        -32_600,
    );
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":\r{\"method\":\"tools/call\"}\r}",
        "null",
        -32_600,
    );
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":\r[{\"Method\":\"tools/call\"}]\r}",
        "null",
        -32_600,
    );
    check(b"[]", "null", -32_600);
    check(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "null", -32_600);
}

#[test]
fn from_the_server_everything_but_doubt_passes() {
    // An empty message can't be told from silence by its bytes.
    assert_eq!(from_server(b""), "-> client:");
    for message in [
        &b"Listening on stdio"[..],
        "✓ ready".as_bytes(),
        b"\x1b[32m[info]\x1b[0m started {\"port\":1}",
        b"[2026-01-01] started",
        b"[1, 2]",
        b"caf\xe9 ready",
        b"3",
        br#"{"level":"info","msg":"started"}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{"contents":[{"text":"\ud800"}]}}"#,
        br#"{"id":1,"result":null}"#,
        br#"{"jsonrpc":"2.0","id":"s","error":{"code":-1,"message":"no"}}"#,
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
        br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":""}}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{},"method":null}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[]}}"#,
        br#"{"jsonrpc":"2.0","id":{"odd":1},"method":"roots/list"}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        b"\xef\xbb\xbf \t{\"jsonrpc\":\"2.0\", \"id\":1.0, \"result\":{}} \r",
        b"{\r  \"jsonrpc\": \"2.0\",\r \"id\":1,\r \"result\":\r {\r}\r}",
    ] {
        let shown = String::from_utf8_lossy(message);
        assert_eq!(from_server(message), "-> client: as sent", "{shown}");
    }
}

#[test]
fn from_the_server_doubt_is_dropped_and_who_asked_is_told() {
    fn check(message: &[u8], answers: Option<&str>) {
        let outcome = from_server(message);
        let shown = String::from_utf8_lossy(message);
        assert!(outcome.starts_with("* dropped: "), "{shown}: {outcome}");
        let rest = outcome.split_once('\n').map(|(_, rest)| rest);
        match (answers, rest) {
            (None, None) => {}
            (Some(id), Some(rest)) => {
                let expected = format!(r#"-> client: {{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"#);
                assert!(
                    rest.starts_with(&expected) && !rest.contains('\n'),
                    "{shown}: {outcome}"
                );
            }
            _ => panic!("{shown}: {outcome}"),
        }
    }
    check(
        br#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
        Some("1"),
    );
    check(
        br#"{"jsonrpc":"2.0","id":1,"result":{},"result":{"x":1}}"#,
        Some("1"),
    );
    check(
        br#"{"jsonrpc":"2.0","id":"\u0073","result":{},"Result":{"x":1}}"#,
        Some(r#""s""#),
    );
    check(
        "{\"id\":1,\"result\":{},\"re\u{17f}ult\":1}".as_bytes(),
        Some("1"),
    );
    check(br#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, Some("1"));
    check(br#"{"jsonrpc":"2.0","id":1,"id":7,"result":{}}"#, Some("1"));
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\r{\"id\":\"s\",\"result\":{}}\r}",
        Some("1"),
    );
    check(
        br#"{"jsonrpc":"2.0","method":"notifications/message","Params":{}}"#,
        None,
    );
    check(br#"{"jsonrpc":"2.0","method":7}"#, None);
    check(br#"{"jsonrpc":"2.0","id":2,"result":{}}"#, None);
    check(br#"{"jsonrpc":"2.0","id":"1","result":{}}"#, None);
    check(br#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None);
    check(
        br#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":""}}"#,
        None,
    );
    check(br#"{"jsonrpc":"2.0","id":1,"result":{"n":NaN}}"#, Some("1"));
    check(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"\xff\"}}",
        Some("1"),
    );
    check(b"ready\r{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", None);
    check(
        "ready\u{2028}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".as_bytes(),
        None,
    );
    check(b"\x00{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", None);
    check(
        "\u{a0}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".as_bytes(),
        None,
    );
    check(br#"{"jsonrpc":"2.0","id":1,"result":{}} trailing"#, Some("1"));
    check(br#"[ {"jsonrpc":"2.0","id":1,"result":{}}"#, None);
    check(br#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, Some("1"));
}

#[test]
fn a_list_in_doubt_is_not_relayed() {
    let mut session = Session::legacy();
    session
        .client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .call(2, "one");
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]},"error":{"code":1,"message":""}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[]},"error":{"code":1,"message":""}}
      * dropped: a message of the server: it has both a result and an error
      -> client: {"jsonrpc":"2.0","id":1,"error":{"code":-32014,"message":"the server's list of tools is not relayed: the server's answer: it has both a result and an error"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    "#);
}

#[test]
fn batches_are_split_where_the_protocol_has_them() {
    let mut session = Session::new(options(), Pins::memory());
    session.shake_hands("2025-03-26");
    session.client(
        r#"[ {"jsonrpc":"2.0","id":1,"method":"ping"} , {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}, 5 ]"#,
    );
    session.client("[]");
    session.server(
        r#"[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}, {"jsonrpc":"2.0","id":1, "result":{}}, {"jsonrpc":"2.0","id":9,"result":{}}]"#,
    );
    session.answer(r#"{"tools":[{"name":"one"}]}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: [ {"jsonrpc":"2.0","id":1,"method":"ping"} , {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}, 5 ]
      -> server: {"jsonrpc":"2.0","id":1,"method":"ping"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
      -> client: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an element of the batch is no message"}}
    client: []
      -> client: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the batch is empty"}}
    server: [{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}, {"jsonrpc":"2.0","id":1, "result":{}}, {"jsonrpc":"2.0","id":9,"result":{}}]
      -> client: {"jsonrpc":"2.0","id":1, "result":{}}
      * dropped: an answer to a request that nobody made
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn a_server_that_sends_only_doubt_is_told_of_a_thousand_times() {
    let mut session = Session::legacy();
    for _ in 0..1_100 {
        session.server("{");
    }
    assert_eq!(session.transcript().matches("* dropped").count(), 1_000);
}

#[test]
fn what_the_gate_does_not_look_at_passes_between_both_sides() {
    let mut session = Session::legacy_with(
        GateOptions {
            posture: Posture::Strict,
            ..options()
        },
        Pins::memory(),
    );
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}"#);
    session.client(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#);
    session.server(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    session.client(r#"{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t"}}"#);
    session.server(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#);
    let transcript = session.transcript();
    assert_eq!(transcript.matches("as sent").count(), 7, "{transcript}");
}
