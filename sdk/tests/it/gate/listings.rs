//! Lists of tools: pages, cursors, changes, time.

use std::time::Duration;

use mcpindex::gate::{Channel, GateLimits, GateOptions};
use mcpindex::pins::Pins;
use mcpindex_contract::posture::Posture;

use super::session::{LIST_CHANGED, Session, options};

const ONE: &str = r#"{"tools":[{"name":"one"}],"nextCursor":"p2"}"#;
const TWO: &str = r#"{"tools":[{"name":"two"}],"nextCursor":"p\u0033"}"#;
const THREE: &str = r#"{"tools":[{"name":"three"}]}"#;
const ONLY: &str = r#"{"tools":[{"name":"one"}]}"#;
const MORE: &str = r#"{"tools":[{"name":"one"},{"name":"two"}]}"#;

fn monitor() -> GateOptions {
    GateOptions {
        posture: Posture::Monitor,
        ..options()
    }
}

fn limited(limits: GateLimits) -> Session {
    Session::legacy_with(GateOptions { limits, ..options() }, Pins::memory())
}

fn page(session: &mut Session, id: u64, cursor: &str) {
    session.client(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"cursor":"{cursor}"}}}}"#
    ));
}

#[test]
fn a_list_is_read_to_its_end_before_its_first_page_goes_out() {
    let mut session = Session::legacy();
    session.list(1, ONE).answer(TWO).answer(THREE);
    page(&mut session, 2, "p2");
    page(&mut session, 3, "p3");
    session.call(4, "three");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"two"}],"nextCursor":"p\u0033"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{"cursor":"p\u0033"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"three"}]}}
      * first sight: 3 pinned, 0 withheld
      -> client: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"p2"}}
      -> client: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"two"}],"nextCursor":"p\u0033"}}
    client: {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"p3"}}
      -> client: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"three"}]}}
    client: {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"three"}}
      -> server: as sent
    "#);
}

#[test]
fn a_held_tool_is_cut_out_of_the_page_that_it_stands_on() {
    let mut session = Session::legacy();
    session.list(1, ONE).answer(TWO).answer(THREE);
    session.transcript();
    session
        .list(2, ONE)
        .answer(r#"{"tools":[{"name":"new"},{"name":"two"}],"nextCursor":"p3"}"#)
        .answer(r#"{ "tools" : [{"name":"three","description":"changed"}] }"#);
    page(&mut session, 3, "p2");
    page(&mut session, 4, "p3");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":2,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-3","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-3","result":{"tools":[{"name":"new"},{"name":"two"}],"nextCursor":"p3"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-4","method":"tools/list","params":{"cursor":"p3"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-4","result":{ "tools" : [{"name":"three","description":"changed"}] }}
      * withheld: hold new-tool "new" new-tool
      * withheld: hold drift "three" description-only
      -> client: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
    client: {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"p2"}}
      -> client: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"two"}],"nextCursor":"p3"}}
    client: {"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":"p3"}}
      -> client: {"jsonrpc":"2.0","id":4,"result":{ "tools" : [] }}
    "#);
}

#[test]
fn a_cursor_of_another_list_is_refused() {
    let mut session = Session::legacy();
    page(&mut session, 1, "p2");
    session.list(2, ONE).answer(THREE);
    session.transcript();
    page(&mut session, 3, "p9");
    session.list_changed().answer(ONLY);
    page(&mut session, 4, "p2");
    session.client(r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":5}}"#);
    session.client(r#"{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"cursor":null}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"p9"}}
      -> client: {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"this cursor belongs to a listing that changed; list again from the start"}}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
      * gone: "three"
      -> client: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    client: {"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":"p2"}}
      -> client: {"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"this cursor belongs to a listing that changed; list again from the start"}}
    client: {"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":5}}
      -> client: {"jsonrpc":"2.0","id":5,"error":{"code":-32602,"message":"the cursor is no string"}}
    client: {"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"cursor":null}}
      -> server: as sent
    "#);
}

#[test]
fn under_monitor_a_cursor_that_is_unknown_goes_to_the_server() {
    let mut session = Session::legacy_with(monitor(), Pins::memory());
    page(&mut session, 1, "p2");
    session.server(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"p2"}}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
      -> client: as sent
    "#);
}

#[test]
fn an_own_list_with_other_cursors_leaves_the_clients_pages_as_they_are() {
    let mut session = Session::legacy();
    session.list(1, ONE).answer(THREE);
    session
        .list_changed()
        .answer(r#"{"tools":[{"name":"one"}],"nextCursor":"other"}"#)
        .answer(THREE);
    session.transcript();
    page(&mut session, 2, "p2");
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"p2"}}
      -> client: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"three"}]}}
    "#);
}

#[test]
fn cursors_that_go_in_a_circle_end_the_list_and_hold_the_calls() {
    let mut session = Session::legacy();
    session.list(1, ONE).answer(ONE).call(2, "one");
    session.answer(ONE).answer(ONE);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      * listing failed: its cursors go in a circle
      -> client: {"jsonrpc":"2.0","id":1,"error":{"code":-32014,"message":"the server's list of tools is not relayed: its cursors go in a circle"}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-3","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-3","result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      * listing failed: its cursors go in a circle
      -> client: 2 inconclusive no-listing "one" no-listing
      * call held: inconclusive no-listing "one" no-listing
    "#);
}

#[test]
fn under_monitor_a_list_without_an_end_passes_page_by_page() {
    let mut session = Session::legacy_with(monitor(), Pins::memory());
    session.list(1, ONE).answer(ONE);
    page(&mut session, 2, "p2");
    session.server(&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{ONE}}}"#));
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      * listing failed: its cursors go in a circle
      -> client: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"p2"}}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> client: as sent
    "#);
}

#[test]
fn a_list_past_a_bound_is_not_relayed() {
    fn check(limits: GateLimits, expected: &str) {
        let mut session = limited(limits);
        session.list(1, ONE);
        if session.has_own_question() {
            session.answer(TWO);
        }
        let transcript = session.transcript();
        assert!(
            transcript.contains(&format!("listing failed: {expected}")),
            "{transcript}"
        );
        assert!(
            transcript.contains(r#"-> client: {"jsonrpc":"2.0","id":1,"error":{"code":-32014,"#),
            "{transcript}"
        );
    }
    let limits = GateLimits::default();
    check(
        GateLimits {
            pages: 1,
            ..limits.clone()
        },
        "it has more than 1 pages",
    );
    check(
        GateLimits {
            tools: 1,
            ..limits.clone()
        },
        "it has more than 1 tools",
    );
    check(
        GateLimits {
            listing_bytes: 90,
            ..limits
        },
        "it has more than 90 bytes",
    );
}

#[test]
fn what_is_no_list_is_not_relayed() {
    fn check(result: &str, expected: &str) {
        let mut session = Session::legacy();
        session.list(1, result);
        let transcript = session.transcript();
        assert!(
            transcript.contains(&format!("listing failed: {expected}\n")),
            "{transcript}"
        );
        assert!(transcript.contains(r#""code":-32014"#), "{transcript}");
    }
    check("{}", "it has no `tools`");
    check("null", "it is no object");
    check(r#"{"tools":{}}"#, "`tools` is no array");
    check(r#"{"tools":[],"tools":[]}"#, "it has two members `tools`");
    check(
        r#"{"tools":[],"Tools":[]}"#,
        "it has a member that differs from `tools` only in upper and lower case",
    );
    check(
        r#"{"tools":[],"nextcursor":"x"}"#,
        "it has a member that differs from `nextCursor` only in upper and lower case",
    );
    check(
        r#"{"tools":[],"tool\u017f":[]}"#,
        "it has a member that differs from `tools` only in upper and lower case",
    );
    check(r#"{"tools":[],"nextCursor":5}"#, "`nextCursor` is no string");
    check(
        r#"{"tools":[],"resultType":"input_required"}"#,
        "it is not complete",
    );
}

#[test]
fn an_error_in_place_of_a_later_page_ends_the_list() {
    let mut session = Session::legacy();
    session.list(1, ONE).answer_with_error();
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","error":{"code":-32603,"message":"no"}}
      * listing failed: the server answered with an error
      -> client: {"jsonrpc":"2.0","id":1,"error":{"code":-32014,"message":"the server's list of tools is not relayed: the server answered with an error"}}
    "#);
}

#[test]
fn a_later_page_that_never_comes_ends_the_list() {
    let mut session = Session::legacy();
    session.list(1, ONE).pass(Duration::from_secs(11)).answer(THREE);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    time: 
      * listing failed: the server did not answer within 10 s
      -> client: {"jsonrpc":"2.0","id":1,"error":{"code":-32014,"message":"the server's list of tools is not relayed: the server did not answer within 10 s"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"three"}]}}
    "#);
}

#[test]
fn the_servers_own_error_passes() {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    session.server(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"none"}}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"none"}}
      -> client: as sent
    "#);
}

#[test]
fn a_list_that_did_not_change_is_not_announced() {
    let mut session = Session::legacy();
    session.list(1, ONLY);
    session.transcript();
    for _ in 0..3 {
        session.list_changed().answer(ONLY).pass(Duration::from_secs(1));
    }
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-3","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-3","result":{"tools":[{"name":"one"}]}}
    "#);
}

#[test]
fn a_list_that_changed_is_announced_in_the_servers_own_bytes_once_it_is_known() {
    let mut session = Session::legacy();
    session.list(1, MORE);
    session.transcript();
    session.server(r#"{"jsonrpc":"2.0", "method":"notifications\/tools\/list_changed","params":{"x":1}}"#);
    session.answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0", "method":"notifications\/tools\/list_changed","params":{"x":1}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * gone: "two"
      -> client: {"jsonrpc":"2.0", "method":"notifications\/tools\/list_changed","params":{"x":1}}
    "#);
}

#[test]
fn a_change_that_the_client_does_not_see_is_not_announced() {
    let mut session = Session::legacy();
    session.list(1, ONLY);
    session.transcript();
    session.list_changed().answer(MORE);
    session.call(2, "two");
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"},{"name":"two"}]}}
      * withheld: hold new-tool "two" new-tool
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"two"}}
      -> client: 2 hold new-tool "two" new-tool
      * call held: hold new-tool "two" new-tool
    "#);
}

#[test]
fn a_storm_of_announcements_is_one_question_and_one_more_afterwards() {
    let mut session = Session::legacy();
    session.list(1, ONLY);
    session.transcript();
    for _ in 0..20 {
        session.list_changed();
    }
    assert_eq!(session.transcript().matches("-> server").count(), 1);
    session.answer(ONLY).pass(Duration::from_millis(500));
    session
        .pass(Duration::from_millis(500))
        .answer(ONLY)
        .pass(Duration::from_secs(60));
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
    time: 
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
    "#);
}

#[test]
fn a_server_that_announces_whenever_it_is_asked_is_asked_once_a_second_and_its_tools_are_called() {
    let mut session = Session::legacy();
    session.list(1, ONLY);
    session.list_changed();
    session.transcript();
    session.call(2, "one").list_changed().answer(ONLY);
    session
        .pass(Duration::from_secs(1))
        .list_changed()
        .answer(ONLY)
        .pass(Duration::from_millis(900));
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    time: 
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
    "#);
}

#[test]
fn a_client_that_never_listed_is_told_all_the_same_and_once() {
    let mut session = Session::legacy();
    session.list_changed().answer(ONLY);
    session.pass(Duration::from_secs(1)).list_changed().answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> client: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
    "#);
}

#[test]
fn nothing_of_the_gates_own_goes_out_before_the_client_is_initialized() {
    let mut session = Session::new(options(), Pins::memory());
    session.client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
    session.list_changed();
    session.server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
    session.list_changed();
    session.client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    session.answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}
      -> server: as sent
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    server: {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}
      -> client: as sent
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    client: {"jsonrpc":"2.0","method":"notifications/initialized"}
      -> server: as sent
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> client: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    "#);
}

#[test]
fn an_announcement_is_passed_on_where_the_list_behind_it_can_not_be_read() {
    let mut session = Session::legacy();
    session.list(1, ONLY);
    session.transcript();
    session.list_changed().answer_with_error().call(2, "one");
    session.pass(Duration::from_secs(10)).list(3, ONLY).call(4, "one");
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","error":{"code":-32603,"message":"no"}}
      * listing failed: the server answered with an error
      -> client: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    time: 
      -> client: 2 inconclusive no-listing "one" no-listing
      * call held: inconclusive no-listing "one" no-listing
      * listing failed: the server did not answer within 10 s
    client: {"jsonrpc":"2.0","id":3,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"one"}]}}
      -> client: as sent
    client: {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"one"}}
      -> server: as sent
    "#);
}

#[test]
fn a_list_asked_for_before_the_change_does_not_settle_it() {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    session.list_changed();
    session.server(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{ONLY}}}"#));
    session.call(2, "two").answer(MORE);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> client: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"two"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"},{"name":"two"}]}}
      * withheld: hold new-tool "two" new-tool
      -> client: 2 hold new-tool "two" new-tool
      * call held: hold new-tool "two" new-tool
    "#);
}

#[test]
fn a_list_that_the_client_asked_for_since_the_change_settles_it() {
    let mut session = Session::legacy();
    session.list(1, ONLY).list_changed().answer_with_error();
    session.transcript();
    session.client(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    session.call(3, "one");
    session.server(&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{ONLY}}}"#));
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":2,"method":"tools/list"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}
    server: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}]}}
      -> client: as sent
      -> server: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn a_cancelled_list_is_waited_for_no_longer() {
    let mut session = Session::legacy();
    session
        .client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .call(2, "one");
    session.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    session.answer(ONLY);
    session.server(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{ONLY}}}"#));
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    client: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
      -> server: as sent
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}]}}
      -> client: as sent
    "#);
}

#[test]
fn two_lists_at_once_each_get_their_own_pages() {
    let mut session = Session::legacy();
    session.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    session.client(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    session.server(&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{ONE}}}"#));
    session.server(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{ONE}}}"#));
    session.answer(THREE).answer(THREE);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"three"}]}}
      * first sight: 2 pinned, 0 withheld
      -> client: {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"three"}]}}
      -> client: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
    "#);
}

#[test]
fn an_answer_to_the_client_goes_out_where_its_question_came_in() {
    let mut session = Session::legacy();
    session.client_on(Channel(7), br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    session.server_on(
        Channel(7),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{ONE}}}"#).as_bytes(),
    );
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":"{}","result":{THREE}}}"#,
        session.take_own_id()
    );
    session.server_on(Channel::OWN, answer.as_bytes());
    session.server_on(Channel(9), LIST_CHANGED.as_bytes());
    session.answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server (7): as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"cursor":"p2"}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"three"}]}}
      * first sight: 2 pinned, 0 withheld
      -> client (7): {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"nextCursor":"p2"}}
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[{"name":"one"}]}}
      * gone: "three"
      -> client (9): {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    "#);
}

#[test]
fn a_list_lives_as_long_as_the_server_says_and_a_second_at_least() {
    let mut session = Session::legacy();
    session.list(1, r#"{"tools":[{"name":"one"}],"ttlMs":60000}"#);
    session.pass(Duration::from_secs(59)).call(2, "one");
    session.pass(Duration::from_secs(1)).call(3, "one");
    session.answer(r#"{"tools":[{"name":"one"}],"ttlMs":0}"#);
    session.pass(Duration::from_millis(999)).call(4, "one");
    session.pass(Duration::from_millis(1)).call(5, "one");
    session.answer(r#"{"tools":[],"ttlMs":-5}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"tools/list"}
      -> server: as sent
    server: {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"one"}],"ttlMs":60000}}
      * first sight: 1 pinned, 0 withheld
      -> client: as sent
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}],"ttlMs":0}}
      -> server: {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"one"}}
    client: {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"one"}}
      -> server: as sent
    client: {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-2","result":{"tools":[],"ttlMs":-5}}
      * gone: "one"
      -> client: 5 hold not-listed "one" not-listed
      * call held: hold not-listed "one" not-listed
    "#);
}

#[test]
fn after_a_new_connection_the_list_is_read_again_before_the_next_call() {
    let mut session = Session::legacy();
    session.list(1, ONLY);
    session.transcript();
    session.on("reconnected", |gate, now, outputs| gate.reconnected(now, outputs));
    session.call(2, "one").answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    reconnected: 
    client: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      -> server: {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"one"}}
    "#);
}

#[test]
fn other_lists_are_announced_at_once() {
    let mut session = Session::legacy();
    session.server(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#);
    session.server(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#);
    insta::assert_snapshot!(session.transcript(), @r#"
    server: {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}
      -> client: as sent
    server: {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
      -> client: as sent
    "#);
}

#[test]
fn in_the_newer_protocol_an_announcement_of_a_subscription_goes_out_on_its_stream() {
    let mut session = Session::new(options(), Pins::memory());
    session.client_on(
        Channel(3),
        br#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"progressToken":"x","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name" : "c"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    );
    session.server_on(
        Channel(3),
        br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#,
    );
    session.answer(ONLY);
    insta::assert_snapshot!(session.transcript(), @r#"
    client: {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"progressToken":"x","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.mode…
      -> server (3): as sent
    server: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}
      -> server (own): {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name" : "c"},"io.modelcontextprotocol/clientCapabilities":{}}}}
    server: {"jsonrpc":"2.0","id":"mcpindex-RANDOM-1","result":{"tools":[{"name":"one"}]}}
      * first sight: 1 pinned, 0 withheld
      -> client (3): {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}
    "#);
}
