//! Lists that never end, are too large, or hold what is not to be followed.

use mcpindex::wire::limits::Limits;

use super::stub::{Stub, check, check_crawl, check_within, tool};

/// A server whose every page is this, with a cursor made of the question's number.
async fn paging(page: impl Fn(u64) -> String + Send + Sync + 'static) -> Stub {
    Stub::saying(move |asked| {
        let page = page(asked.body["id"].as_u64().unwrap());
        asked.answered(&page).into_bytes()
    })
    .await
}

#[tokio::test]
async fn pages_that_lead_nowhere_end() {
    let itself = paging(|_| r#"{"tools":[],"nextCursor":"again"}"#.to_owned()).await;
    check(
        &itself,
        "cursor_loop: `tools/list` gives a cursor that it gave before",
    )
    .await;
    assert_eq!(
        itself
            .asked()
            .iter()
            .filter(|asked| asked.method() == "tools/list")
            .count(),
        2
    );
    let ever_new = paging(|number| format!(r#"{{"tools":[],"nextCursor":"{number}"}}"#)).await;
    check(&ever_new, "over_limit: more than 100 pages of tools").await;
    let long = "x".repeat(5_000);
    let long = paging(move |_| format!(r#"{{"tools":[],"nextCursor":"{long}"}}"#)).await;
    check(&long, "over_limit: more than 4096 bytes in a cursor").await;
}

#[tokio::test]
async fn more_than_a_crawl_takes_is_never_taken_in_part() {
    let tools = |count: usize| {
        (0..count)
            .map(|number| tool(&number.to_string()))
            .collect::<Vec<_>>()
    };
    let bomb = Stub::with_tools(tools(100_000).join(",")).await;
    check_crawl(&bomb, "over_limit, -, more than 2000 tools").await;
    let in_pages = paging(move |number| {
        format!(
            r#"{{"tools":[{}],"nextCursor":"{number}"}}"#,
            tools(900).join(",")
        )
    })
    .await;
    check_crawl(&in_pages, "over_limit, -, more than 2000 tools").await;
    let giant = Stub::with_tools(format!(
        r#"{{"name":"giant","description":"{}"}}"#,
        "x".repeat(256 << 10)
    ))
    .await;
    check_crawl(&giant, "over_limit, -, more than 262144 bytes in a tool").await;
}

#[tokio::test]
async fn all_tools_together_have_a_limit_of_their_own() {
    let limits = Limits {
        list_bytes: 10_000,
        ..Limits::crawl()
    };
    let words = "x".repeat(1_000);
    let stub = paging(move |number| {
        format!(r#"{{"tools":[{{"name":"t{number}","description":"{words}"}}],"nextCursor":"{number}"}}"#)
    })
    .await;
    check_within(&limits, &stub, "over_limit: more than 10000 bytes in all tools").await;
    assert_eq!(Limits::crawl().list_bytes, 8 << 20);
}

#[tokio::test]
async fn what_two_readers_read_differently_is_kept_with_its_neighbours() {
    let tools = [
        r#"{"name":"twice","description":"one","description":"two"}"#,
        r#"{"name":"half","description":"\ud800"}"#,
        r#"{"name":"whole","description":"fine"}"#,
    ];
    check_crawl(&Stub::with_tools(tools.join(",")).await, "ok, 3, -").await;
    // No JSON at all, whatever some readers make of it.
    for bad in [
        r#"{"name":"nan","default":NaN}"#,
        r#"{"name":"comma",}"#,
        "{'name':'quoted'}",
    ] {
        let stub = Stub::with_tools(bad.to_owned()).await;
        check_crawl(
            &stub,
            "not_mcp, -, the connection ended before `tools/list` was answered",
        )
        .await;
    }
    let invalid = Stub::saying(|asked| {
        let mut answer = asked.with_tools(&tool("x")).into_bytes();
        let at = answer.iter().position(|byte| *byte == b'x').unwrap();
        answer[at] = 0xff;
        answer
    })
    .await;
    check_crawl(
        &invalid,
        "not_mcp, -, the connection ended before `tools/list` was answered",
    )
    .await;
}

#[tokio::test]
async fn names_that_are_the_same_or_look_it_are_all_kept() {
    let tools = [
        tool("read_file"),
        r#"{"name":"read_file","description":"another"}"#.to_owned(),
        tool("Read_File"),
        tool("reаd_file"),
    ];
    check_crawl(&Stub::with_tools(tools.join(",")).await, "ok, 4, -").await;
}

#[tokio::test]
async fn what_a_schema_points_to_is_never_fetched() {
    let lure = Stub::with_tools(String::new()).await;
    let base = &lure.base;
    let tools = [
        format!(r#"{{"name":"remote","inputSchema":{{"$ref":"{base}/schema"}},"icons":[{{"src":"{base}/icon"}}]}}"#),
        format!(r#"{{"name":"metadata","inputSchema":{{"$id":"{base}/id","$schema":"{base}/meta","$ref":"http://169.254.169.254/"}}}}"#),
        r#"{"name":"file","inputSchema":{"$ref":"file:///etc/passwd"}}"#.to_owned(),
        r##"{"name":"itself","inputSchema":{"$ref":"#"}}"##.to_owned(),
        r##"{"name":"cycle","inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}}"##.to_owned(),
        r##"{"name":"many","inputSchema":{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}}"##.to_owned(),
    ];
    check_crawl(&Stub::with_tools(tools.join(",")).await, "ok, 6, -").await;
    assert!(lure.requests().is_empty());
}

#[tokio::test]
async fn a_servers_pattern_is_not_run() {
    let text = "a".repeat(10_000);
    let tools = format!(
        r#"{{"name":"redos","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string","pattern":"^(a+)+$","default":"{text}!","examples":["{text}!"]}}}},"patternProperties":{{"(x+x+)+y":{{}},"(?:(?:(?:a{{1,1000}}){{1,1000}}){{1,1000}})":{{}}}}}}}}"#
    );
    check_crawl(&Stub::with_tools(tools).await, "ok, 1, -").await;
}
