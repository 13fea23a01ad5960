//! Redirects: a few are followed, each by all rules, and nothing goes along that was for somebody else.

use std::net::IpAddr;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::wire::limits::Limits;
use mcpindex_crawler::guarded_client::{GuardedClient, Resolver, Times};

use super::stub::{Stub, check, client, look_with, told, tool};

/// A server that answers everything with a redirect.
async fn redirecting(status: &'static str, location: &str) -> Stub {
    let head = format!("{status}\r\nLocation: {location}");
    Stub::new(move |_, mut line| {
        let head = head.clone();
        async move { line.answer(&head, "").await }.boxed()
    })
    .await
}

#[tokio::test]
async fn a_redirect_to_where_nobody_goes_is_a_blocked_address() {
    for (location, rule) in [
        ("http://169.254.169.254/latest", "cloud metadata"),
        ("http://10.0.0.1/", "private network 10.0.0.0/8"),
        ("file:///etc/passwd", "scheme `file`: only https is contacted"),
        (
            "https://user@notes.example/",
            "a user name or password in the URL",
        ),
        ("//127.0.0.1:6379/", "port 6379"),
    ] {
        for status in ["307 Temporary Redirect", "302 Found"] {
            let stub = redirecting(status, location).await;
            check(
                &stub,
                &format!("blocked_address: blocked address (by a redirect: {rule})"),
            )
            .await;
            assert_eq!(stub.requests(), ["POST /mcp"]);
        }
    }
}

#[tokio::test]
async fn a_chain_of_redirects_is_judged_at_each_hop() {
    let stub = Stub::new(|asked, mut line| {
        let location = match asked.path.as_str() {
            "/mcp" => "/a",
            "/a" => "/b",
            _ => "http://169.254.169.254/",
        };
        async move {
            line.answer(&format!("308 Permanent Redirect\r\nLocation: {location}"), "")
                .await
        }
        .boxed()
    })
    .await;
    check(
        &stub,
        "blocked_address: blocked address (by a redirect: cloud metadata)",
    )
    .await;
    assert_eq!(stub.requests(), ["POST /mcp", "POST /a", "POST /b"]);
}

#[tokio::test]
async fn a_name_that_a_redirect_leads_to_is_judged_as_any_other() {
    struct Inside;
    impl Resolver for Inside {
        fn resolve(&self, _host: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
            async { Ok(vec![[10, 0, 0, 7].into()]) }.boxed()
        }
    }
    let stub = redirecting("307 Temporary Redirect", "http://inside.test/").await;
    crate::install_tls_provider();
    let client = GuardedClient::with_resolver(&["127.0.0.0/8".to_owned()], true, Arc::new(Inside)).unwrap();
    let client = client.following_redirects();
    let inspection = look_with(&client, &stub.url(), &[], &Limits::crawl()).await;
    stub.is_left().await;
    // A POST leaves its origin no more than its network.
    assert_eq!(
        told(&inspection),
        "not_mcp: HTTP 307 Temporary Redirect redirects a POST to another origin, http://inside.test: not followed"
    );
    let get = reqwest::Request::new(reqwest::Method::GET, stub.url().parse().unwrap());
    let said = mcpindex::wire::http::HttpClient::send(&client, get)
        .await
        .unwrap_err();
    assert_eq!(
        said.to_string(),
        "blocked address (by a redirect: private network 10.0.0.0/8)"
    );
}

#[tokio::test]
async fn a_redirect_to_itself_ends_after_three_hops() {
    let stub = redirecting("307 Temporary Redirect", "/mcp?again=1").await;
    check(&stub, "not_mcp: more than 3 redirects, the last to BASE").await;
    assert_eq!(stub.requests().len(), 4);
}

#[tokio::test]
async fn within_its_origin_a_message_goes_where_the_server_moved() {
    let stub = Stub::new(|asked, mut line| {
        async move {
            match (asked.path.as_str(), asked.method()) {
                ("/mcp", _) => {
                    line.answer("308 Permanent Redirect\r\nLocation: /moved/mcp", "")
                        .await
                }
                (_, "initialize") => {
                    let head = "200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: one";
                    line.answer(head, asked.answered(super::stub::HELLO)).await
                }
                (_, "tools/list") => line.json(asked.with_tools(&tool("here"))).await,
                _ => line.answer("202 Accepted", "").await,
            }
        }
        .boxed()
    })
    .await;
    check(&stub, "ok: here").await;
    let asked = stub.asked();
    let listed = asked
        .iter()
        .find(|asked| asked.method() == "tools/list" && asked.path == "/moved/mcp");
    assert_eq!(listed.unwrap().header("mcp-session-id"), Some("one"));
}

#[tokio::test]
async fn a_message_goes_to_no_other_origin() {
    let other = Stub::with_tools(tool("elsewhere")).await;
    for (status, expected) in [
        (
            "307 Temporary Redirect",
            "HTTP 307 Temporary Redirect redirects a POST to another origin, OTHER: not followed",
        ),
        (
            "308 Permanent Redirect",
            "HTTP 308 Permanent Redirect redirects a POST to another origin, OTHER: not followed",
        ),
        (
            "302 Found",
            "HTTP 302 Found redirects a POST to OTHER and would make a GET of it: not followed",
        ),
    ] {
        let stub = redirecting(status, &format!("{}/mcp?key=1", other.base)).await;
        let expected = expected.replace("OTHER", &other.base);
        check(&stub, &format!("not_mcp: {expected}")).await;
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn a_post_is_not_made_a_get() {
    for status in ["301 Moved Permanently", "302 Found", "303 See Other"] {
        let stub = redirecting(status, "/sse").await;
        check(
            &stub,
            &format!(
                "not_mcp: HTTP {status} redirects a POST to BASE and would make a GET of it: not followed"
            ),
        )
        .await;
        assert_eq!(stub.requests(), ["POST /mcp"]);
    }
}

#[tokio::test]
async fn another_origin_gets_no_credential_and_may_not_lend_its_stream() {
    let other = Stub::new(|_, mut line| {
        async move {
            line.events().await?;
            line.say("event: endpoint\ndata: /mcp\n\n").await?;
            line.wait().await
        }
        .boxed()
    })
    .await;
    let location = other.base.clone();
    let stub = Stub::new(move |asked, mut line| {
        let head = match asked.verb.as_str() {
            "GET" => format!("302 Found\r\nLocation: {location}/sse"),
            _ => "405 Method Not Allowed".to_owned(),
        };
        async move { line.answer(&head, "").await }.boxed()
    })
    .await;
    let headers = [
        ("Authorization", "Bearer one"),
        ("Cookie", "a=b"),
        ("X-Key", "two"),
    ];
    let client = client(&Times::default());
    let inspection = look_with(&client, &stub.url(), &headers, &Limits::crawl()).await;
    stub.is_left().await;
    other.is_left().await;
    assert_eq!(
        told(&inspection),
        "not_mcp: no MCP server: HTTP 405 Method Not Allowed"
    );
    let asked = other.asked();
    assert_eq!(other.requests(), ["GET /sse"]);
    for name in ["authorization", "cookie", "x-key", "mcp-session-id"] {
        assert_eq!(asked[0].header(name), None, "{name}");
    }
    assert_eq!(asked[0].header("accept"), Some("text/event-stream"));
}
