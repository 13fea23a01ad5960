//! Calls, and the ids of requests.

use std::time::Duration;

use mcpindex::gate::hold::HoldClass;
use mcpindex::gate::{Channel, GateLimits, GateOptions};
use mcpindex::pins::Pins;
use mcpindex_contract::posture::Posture;

use super::session::{Session, options};

const LIST: &str = r#"{"tools":[{"name":"one"},{"name":"two"}]}"#;

#[test]
fn a_call_before_any_list_waits_for_one_of_the_gates_own() {
    let mut session = Session::legacy();
    session.call(1, "one").call(2, "none").call(3, "two");
    session.answer(LIST);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"none"}}
    client: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"two"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"},{"name":"two"}]}}
      * first sight: 2 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> client: 2 hold not-listed "none" not-listed
      * call held: hold not-listed "none" not-listed
      -> server: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"two"}}
    "#);
}

#[test]
fn in_the_newer_protocol_the_gates_question_carries_what_the_clients_carries() {
    let mut session = Session::new(options(), Pins::memory());
    session.client(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one","_meta":{"progressToken":"x","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name" : "c"},"other":1}}}"#,
    );
    session.answer(
        r#"{"resultType":"complete","tools":[{"name":"one"}],"ttlMs":300000,"cacheScope":"private"}"#,
    );
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one","_meta":{"progressToken":"x","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name" : …
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name" : "c"}}}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"resultType":"complete","tools":[{"name":"one"}],"ttlMs":300000,"cacheScope":"private"}}
      * first sight: 1 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one","_meta":{"progressToken":"x","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name" : "c"},"other":1}}}
    "#);
}

#[test]
fn a_probe_for_the_newer_protocol_that_falls_back_leaves_the_older_one() {
    let mut session = Session::new(options(), Pins::memory());
    session.client(
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    );
    session.server(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#);
    session.shake_hands("2025-06-18");
    session.call(2, "one");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    "#);
}

#[test]
fn a_call_before_the_client_is_initialized_waits_until_it_is() {
    let mut session = Session::new(options(), Pins::memory());
    session.client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
    session.call(1, "one");
    session.client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    session.answer(LIST);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
    client: {"jsonrpc":"2.0","method":"notifications/initialized"}
      -> server: as sent
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"},{"name":"two"}]}}
      * first sight: 2 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn a_call_that_no_list_came_for_is_held_after_its_time() {
    let mut session = Session::legacy();
    session.call(1, "one").pass(Duration::from_secs(4)).call(2, "two");
    session.pass(Duration::from_secs(20));
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"two"}}
    time: 
      -> client: 1 inconclusive no-listing "one" no-listing
      * call held: inconclusive no-listing "one" no-listing
      * listing failed: the server did not answer within 10 s
      -> client: 2 inconclusive no-listing "two" no-listing
      * call held: inconclusive no-listing "two" no-listing
    "#);
}

#[test]
fn under_monitor_a_call_that_no_list_came_for_goes_on_and_is_noted() {
    let monitor = GateOptions {
        posture: Posture::Monitor,
        ..options()
    };
    let mut session = Session::legacy_with(monitor, Pins::memory());
    session
        .call(1, "one")
        .answer_with_error()
        .call(2, "one")
        .answer_with_error();
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","error":{"code":-32603,"message":"no"}}
      * listing failed: the server answered with an error
      * withheld: proceed no-listing "one" no-listing
      -> server: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","error":{"code":-32603,"message":"no"}}
      * listing failed: the server answered with an error
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn a_call_that_names_no_tool_is_refused() {
    fn check(params: &str, expected: &str) {
        let mut session = Session::legacy();
        session.list(1, LIST);
        session.transcript();
        session.client(&format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call"{params}}}"#
        ));
        let transcript = session.transcript();
        let answer = transcript.lines().nth(1).unwrap_or_default();
        assert!(answer.contains(expected), "{transcript}");
        assert!(!transcript.contains("-> server"), "{transcript}");
    }
    check("", r#""code":-32602"#);
    check(r#","params":null"#, r#""code":-32602"#);
    check(r#","params":["one"]"#, r#""code":-32602"#);
    check(r#","params":{"arguments":{}}"#, r#""code":-32602"#);
    check(r#","params":{"name":"one","name":"two"}"#, r#""code":-32600"#);
    check(r#","params":{"name":"one","Name":"two"}"#, r#""code":-32600"#);
    check(
        r#","params":{"name":"one","n\u0061me":"two"}"#,
        r#""code":-32600"#,
    );
    check(r#","params":{"name":5}"#, r#"2 hold not-listed "5" not-listed"#);
    check(r#","params":{"name":"\ud800"}"#, "2 hold not-listed");
    check(
        r#","params":{"name":"One"}"#,
        r#"2 hold not-listed "One" not-listed"#,
    );
    check(r#","Params":{"name":"one"}"#, r#""code":-32600"#);
}

#[test]
fn a_call_goes_on_as_it_came_however_it_is_written() {
    let mut session = Session::legacy();
    session.list(1, LIST);
    session.transcript();
    session.client(
        " {\"params\" : {\"arguments\":{\"name\":\"x\",\"deep\":[[[\"\\ud800\"]]],\"n\":1E400},\"n\\u0061me\":\"\\u006fne\"}, \"method\":\"tools\\/call\",\"id\":2.0}\r",
    );
    session.server(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client:  {"params" : {"arguments":{"name":"x","deep":[[["\ud800"]]],"n":1E400},"n\u0061me":"\u006fne"}, "method":"tools\/call","id":2.0}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":2,"result":{"content":[]}}
      -> client: as sent
    "#);
}

#[test]
fn a_call_that_asks_for_no_answer_does_not_go_on() {
    let mut session = Session::legacy();
    session.list(1, LIST);
    session.transcript();
    session.client(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"one"}}"#);
    session.client(r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"three"}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","method":"tools/call","params":{"name":"one"}}
      * dropped: a call without an id, which nobody could answer
    client: {"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"three"}}
      -> client: null hold not-listed "three" not-listed
      * call held: hold not-listed "three" not-listed
    "#);
}

#[test]
fn a_call_that_is_cancelled_while_it_waits_is_never_sent() {
    let mut session = Session::legacy();
    session.call(1, "one").call(2, "two");
    session.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}"#);
    session.answer(LIST);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"two"}}
    client: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"},{"name":"two"}]}}
      * first sight: 2 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"two"}}
    "#);
}

#[test]
fn an_answer_to_a_call_that_was_not_sent_yet_is_dropped() {
    let mut session = Session::legacy();
    session.call(1, "one");
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    session.answer(LIST);
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
      * dropped: an answer to a request that nobody made
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"},{"name":"two"}]}}
      * first sight: 2 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
    server: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
      -> client: as sent
    "#);
}

#[test]
fn ids_match_by_type_and_value() {
    fn check(asked: &str, answered: &str, passes: bool) {
        let mut session = Session::legacy();
        session.client(&format!(r#"{{"jsonrpc":"2.0","id":{asked},"method":"ping"}}"#));
        session.transcript();
        session.server(&format!(r#"{{"jsonrpc":"2.0","id":{answered},"result":{{}}}}"#));
        let transcript = session.transcript();
        assert_eq!(transcript.contains("-> client: as sent"), passes, "{transcript}");
        assert_eq!(transcript.contains("* dropped"), !passes, "{transcript}");
    }
    check("1", "1", true);
    check("1", "1.0", true);
    check("1e0", "1", true);
    check("1", r#""1""#, false);
    check(r#""1""#, "1", false);
    check(r#""a""#, r#""\u0061""#, true);
    check("1", "2", false);
    check("1", "null", false);
    check("1", "[1]", false);
}

#[test]
fn an_answer_is_taken_once() {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{"second":true}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"ping"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{}}
      -> client: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"second":true}}
      * dropped: an answer to a request that nobody made
    "#);
}

#[test]
fn a_late_answer_to_a_cancelled_request_passes() {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    session.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"ping"}
      -> server: as sent
    client: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{}}
      -> client: as sent
    "#);
}

#[test]
fn an_id_that_is_open_is_not_opened_again() {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    session.client(r#"{"jsonrpc":"2.0","id":1.0,"method":"resources/read"}"#);
    session.call(1, "one");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":1.0,"method":"resources/read"}
      -> client: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a request with this id is still open"}}
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> client: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a request with this id is still open"}}
    "#);
}

#[test]
fn an_id_that_is_none_is_refused() {
    for id in [
        "{}",
        "[1]",
        "true",
        r#""\ud800""#,
        &format!("\"{}\"", "x".repeat(2_000)),
    ] {
        let mut session = Session::legacy();
        session.client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let transcript = session.transcript();
        assert!(
            transcript.contains(r#"-> client: {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#),
            "{transcript}"
        );
    }
}

#[test]
fn more_requests_than_may_be_open_are_refused_and_cancelled_ones_do_not_count() {
    let limits = GateLimits {
        in_flight: 2,
        ..GateLimits::default()
    };
    let mut session = Session::legacy_with(GateOptions { limits, ..options() }, Pins::memory());
    let ping = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    session
        .client(&ping(1))
        .client(&ping(2))
        .client(&ping(3))
        .call(4, "one");
    assert_eq!(session.gate.open_requests(), 2);
    session.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    session.client(&ping(5));
    session
        .server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        .client(&ping(6));
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"ping"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"ping"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":3,"method":"ping"}
      -> client: {"jsonrpc":"2.0","id":3,"error":{"code":-32012,"message":"2 requests wait for the server, and more are not taken"}}
    client: {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"one"}}
      -> client: {"jsonrpc":"2.0","id":4,"error":{"code":-32012,"message":"2 requests wait for the server, and more are not taken"}}
    client: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":5,"method":"ping"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{}}
      -> client: as sent
    client: {"jsonrpc":"2.0","id":6,"method":"ping"}
      -> server: as sent
    "#);
}

#[test]
fn cancelled_requests_are_not_remembered_for_ever() {
    let mut session = Session::legacy();
    for id in 0..2_000 {
        session.client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        session.client(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }
    session.transcript();
    session.server(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1999,"result":{}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","id":5,"result":{}}
      * dropped: an answer to a request that nobody made
    server: {"jsonrpc":"2.0","id":1999,"result":{}}
      -> client: as sent
    "#);
}

#[test]
fn calls_too_large_to_be_kept_waiting_are_held() {
    let limits = GateLimits {
        message_bytes: 150,
        ..GateLimits::default()
    };
    let mut session = Session::legacy_with(GateOptions { limits, ..options() }, Pins::memory());
    session.call(1, "one").call(2, "two").call(3, "one");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"two"}}
    client: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}
      -> client: 3 inconclusive no-listing "one" no-listing
      * call held: inconclusive no-listing "one" no-listing
    "#);
}

#[test]
fn a_drill_holds_one_call_and_no_other() {
    let mut session = Session::legacy();
    session.list(1, LIST);
    session.transcript();
    session.on("arm", |gate, _, _| gate.arm_drill());
    session.call(2, "one").call(3, "one");
    insta::assert_snapshot!(session.transcript(), @r#"
    arm: 
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> client: 2 hold drill "one" drill
      * call held: hold drill "one" drill
    client: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}
      -> server: as sent
    "#);
    assert_eq!(HoldClass::Drill.name(), "drill");
}

#[test]
fn what_was_asked_over_an_exchange_that_ended_is_answered_with_an_error() {
    let mut session = Session::legacy();
    session.list(1, LIST);
    session.transcript();
    session.client_on(
        Channel(4),
        br#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}"#,
    );
    session.client_on(Channel(5), br#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    session.on("closed", |gate, now, outputs| {
        gate.channel_closed(Channel(4), now, outputs)
    });
    session.server_on(Channel(5), br#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (4): as sent
    client: {"jsonrpc":"2.0","id":3,"method":"ping"}
      -> server (5): as sent
    closed: 
      -> client (4): {"jsonrpc":"2.0","id":2,"error":{"code":-32012,"message":"the server ended the exchange without an answer"}}
    server: {"jsonrpc":"2.0","id":3,"result":{}}
      -> client (5): as sent
    "#);
}

#[test]
fn a_server_that_went_away_leaves_no_request_without_an_answer() {
    let mut session = Session::legacy();
    session
        .client(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .call(2, "one");
    session.on("closed", |gate, now, outputs| {
        gate.channel_closed(Channel::ONLY, now, outputs)
    });
    assert_eq!(session.gate.open_requests(), 0);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"ping"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    closed: 
      -> client: {"jsonrpc":"2.0","id":1,"error":{"code":-32012,"message":"the server ended the exchange without an answer"}}
      * listing failed: the server ended the exchange without an answer
      -> client: 2 inconclusive no-listing "one" no-listing
      * call held: inconclusive no-listing "one" no-listing
    "#);
}

#[test]
fn a_question_of_the_gates_own_that_broke_off_is_asked_again_when_it_is_needed() {
    let mut session = Session::legacy();
    session.call(1, "one");
    session.on("closed", |gate, now, outputs| {
        gate.channel_closed(Channel::OWN, now, outputs)
    });
    session.call(2, "one");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    closed: 
      * listing failed: the server ended the exchange without an answer
      -> client: 1 inconclusive no-listing "one" no-listing
      * call held: inconclusive no-listing "one" no-listing
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    "#);
}

#[test]
fn a_retry_with_what_the_server_asked_for_is_a_call_like_any_other() {
    let mut session = Session::legacy();
    session.list(1, LIST).call(2, "one");
    session.server(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{}}}"#);
    session
        .list_changed()
        .answer(r#"{"tools":[{"name":"one","description":"new"}]}"#);
    session.transcript();
    session.client(
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one","inputResponses":{},"requestState":"s"}}"#,
    );
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one","inputResponses":{},"requestState":"s"}}
      -> client: 3 hold drift "one" capability-gained,description-only
      * call held: hold drift "one" description-only,capability-gained
    "#);
}
