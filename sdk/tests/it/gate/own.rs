//! Requests of the gate's own: nothing of them reaches the client, however late.

use std::time::Duration;

use super::session::Session;

const ONLY: &str = r#"{"tools":[{"name":"one"}]}"#;

/// What the client gets of this message, which names a request of the gate's own (`OWN`).
fn reaches_the_client(message: &str) -> bool {
    let mut session = Session::legacy();
    session.call(1, "one");
    let message = message.replace("OWN", &session.own_id());
    session.transcript();
    session.server(&message);
    session.transcript().contains("-> client: as sent")
}

#[test]
fn what_speaks_of_an_own_request_is_kept_from_the_client() {
    for message in [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"OWN","progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"OWN"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"answering OWN"}}"#,
        r#"{"jsonrpc":"2.0","id":"OWN","error":{"code":-32601,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":"OWN","result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"OWN","result":{"tools":[]},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":"OWN7","result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"OWNx","result":{"tools":[]}}"#,
    ] {
        assert!(!reaches_the_client(message), "{message}");
        let escaped = message.replace("mcpindex", r"\u006dcpindex");
        assert!(!reaches_the_client(&escaped), "{escaped}");
    }
    assert!(reaches_the_client(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#
    ));
}

#[test]
fn a_late_answer_to_an_own_request_is_nobodys() {
    let mut session = Session::legacy();
    session.call(1, "one").pass(Duration::from_secs(11));
    let late = session.own_id();
    session.transcript();
    session.answer(ONLY);
    session.call(2, "one");
    // The first question's answer once more answers no other question.
    session.server(&format!(
        r#"{{"jsonrpc":"2.0","id":"{late}","result":{{"tools":[]}}}}"#
    ));
    session.answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[]}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn a_client_can_not_use_an_own_id() {
    let mut session = Session::legacy();
    session.call(1, "one");
    let own = session.own_id();
    session.client(&format!(
        r#"{{"jsonrpc":"2.0","id":"{own}","method":"tools/list"}}"#
    ));
    session.answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    client: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list"}
      -> client: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id is one of the gate's own"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn two_gates_never_share_an_id() {
    let own = || {
        let mut session = Session::legacy();
        session.call(1, "one");
        session.own_id()
    };
    let (one, other) = (own(), own());
    assert_ne!(one, other);
    assert!(one.len() == "mcpindex-".len() + 32 + "-1".len(), "{one}");
}
