//! Servers that ask, answer what was not asked, or want something first.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use mcpindex::wire::limits::Limits;
use mcpindex_crawler::guarded_client::Times;
use tokio::sync::Notify;

use super::stub::{Asked, Stub, check, client, look_with, told, tool};

#[tokio::test]
async fn questions_from_a_server_stop_at_a_hundred() {
    let stub = Stub::listing(|_, mut line| {
        async move {
            line.events().await?;
            line.for_ever(|round| {
                format!("data: {{\"jsonrpc\":\"2.0\",\"id\":\"s{round}\",\"method\":\"sampling/createMessage\",\"params\":{{}}}}\n\n")
            })
            .await
        }
        .boxed()
    })
    .await;
    check(&stub, "over_limit: more than 100 requests from the server").await;
}

#[tokio::test]
async fn a_ping_is_answered_all_else_is_refused_and_no_url_is_opened() {
    let answers = Arc::new((Mutex::new(Vec::new()), Notify::new()));
    let lure = Stub::with_tools(String::new()).await;
    let (noted, lured) = (Arc::clone(&answers), lure.base.clone());
    let stub = Stub::new(move |asked, mut line| {
        let (answers, lure) = (Arc::clone(&noted), lured.clone());
        async move {
            if asked.body.get("result").or(asked.body.get("error")).is_some() {
                answers.0.lock().unwrap().push(asked.body.to_string());
                answers.1.notify_one();
                return line.answer("202 Accepted", "").await;
            }
            match asked.method() {
                "initialize" => line.json(asked.answered(super::stub::HELLO)).await,
                "tools/list" => {
                    line.events().await?;
                    // The list comes only to whoever answers first.
                    for (id, method, params) in [
                        (1, "ping", "{}".to_owned()),
                        (2, "elicitation/create", format!(r#"{{"mode":"url","url":"{lure}/sign-in"}}"#)),
                        (3, "roots/list", "{}".to_owned()),
                    ] {
                        line.say(format!(
                            "data: {{\"jsonrpc\":\"2.0\",\"id\":\"q{id}\",\"method\":\"{method}\",\"params\":{params}}}\n\n"
                        ))
                        .await?;
                        answers.1.notified().await;
                    }
                    line.say(format!("data: {}\n\n", asked.with_tools(&tool("after")))).await?;
                    line.wait().await
                }
                _ => line.answer("202 Accepted", "").await,
            }
        }
        .boxed()
    })
    .await;
    check(&stub, "ok: after").await;
    assert!(lure.requests().is_empty());
    let answers = answers.0.lock().unwrap().join("\n");
    insta::assert_snapshot!(answers, @r#"
    {"id":"q1","jsonrpc":"2.0","result":{}}
    {"error":{"code":-32601,"message":"this client only lists and declares no capabilities"},"id":"q2","jsonrpc":"2.0"}
    {"error":{"code":-32601,"message":"this client only lists and declares no capabilities"},"id":"q3","jsonrpc":"2.0"}
    "#);
    let offered = &stub.asked()[0].body["params"]["capabilities"];
    assert_eq!(offered.to_string(), "{}");
}

/// What becomes of a list that is answered so; `ID` stands for the question's.
async fn check_answer(events: bool, answer: &'static str, expected: &str) {
    let stub = Stub::listing(move |asked: Asked, mut line| {
        async move {
            let id = asked.body["id"].to_string();
            if !events {
                return line.json(answer.replace("ID", &id)).await;
            }
            line.events().await?;
            for message in answer.replace("ID", &id).lines() {
                line.say(format!("data: {message}\n\n")).await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await;
    check(&stub, expected).await;
}

#[tokio::test]
async fn only_the_answer_under_the_questions_own_id_counts() {
    let unanswered = "not_mcp: the connection ended before `tools/list` was answered";
    for wrong in [
        r#"{"jsonrpc":"2.0","id":99,"result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"ID","result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":ID.0,"result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":IDe0,"result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","id":[ID],"result":{"tools":[]}}"#,
        r#"{"jsonrpc":"2.0","result":{"tools":[]}}"#,
        r#"[{"jsonrpc":"2.0","id":ID,"result":{"tools":[]}}]"#,
    ] {
        check_answer(false, wrong, unanswered).await;
        check_answer(true, wrong, unanswered).await;
    }
    check_answer(
        true,
        "{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"tools\":[{\"name\":\"no\"}]}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"tools\":[{\"name\":\"first\"}]}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"tools\":[{\"name\":\"second\"}]}}",
        "ok: first",
    )
    .await;
    check_answer(
        false,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":[]},"error":{"code":1,"message":"no"}}"#,
        "list_failed: the answer to `tools/list` can't be used: it has both a result and an error",
    )
    .await;
    check_answer(
        false,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"tools":[]},"result":{"tools":[{"name":"x"}]}}"#,
        "list_failed: the answer to `tools/list` can't be used: it has two members `result`",
    )
    .await;
}

#[tokio::test]
async fn where_to_sign_in_is_not_looked_at() {
    let metadata = Stub::with_tools(String::new()).await;
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let head = format!(
            "{status}\r\nWWW-Authenticate: Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource\"",
            metadata.base
        );
        let stub = Stub::new(move |_, mut line| {
            let head = head.clone();
            async move { line.answer(&head, "").await }.boxed()
        })
        .await;
        let code = &status[..3];
        check(&stub, &format!("auth_required: HTTP {code}: a sign-in is needed")).await;
        assert_eq!(stub.requests(), ["POST /mcp"]);
    }
    assert!(metadata.requests().is_empty());
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_says_for_how_long() {
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 09:49:37 GMT";
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"slow down"}}"#;
    for (head, body, seconds) in [
        ("429 Too Many Requests\r\nRetry-After: 7200", "", Some(7_200)),
        (
            "429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 60",
            error,
            Some(60),
        ),
        ("503 Service Unavailable\r\nRetry-After: 999999", "", Some(86_400)),
        ("503 Service Unavailable", "", None),
        (&format!("503 Service Unavailable\r\n{date}"), "", Some(3_600)),
    ] {
        let (sent, body) = (head.to_owned(), body.to_owned());
        let stub = Stub::new(move |_, mut line| {
            let (head, body) = (sent.clone(), body.clone());
            async move { line.answer(&head, body).await }.boxed()
        })
        .await;
        let inspection = look_with(&client(&Times::default()), &stub.url(), &[], &Limits::crawl()).await;
        stub.is_left().await;
        let code = &head[..3];
        assert_eq!(
            told(&inspection),
            format!("unreachable: HTTP {code}: the server can't answer now")
        );
        let failure = inspection.result.unwrap_err();
        assert_eq!(failure.retry_after, seconds.map(Duration::from_secs), "{head}");
        // Nor is it asked a second time in another way.
        assert_eq!(stub.requests(), ["POST /mcp"]);
    }
}
