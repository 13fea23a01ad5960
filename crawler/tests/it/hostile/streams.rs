//! Servers that keep us waiting: drips, silence, and streams without an end.

use std::time::Duration;

use futures::FutureExt;
use mcpindex::wire::limits::{Limits, Pace};
use mcpindex_crawler::guarded_client::Times;

use super::stub::{Line, Stub, check_within, client, look_with, told, tool};

const SOON: Duration = Duration::from_millis(300);

#[test]
fn a_crawl_is_as_patient_as_this() {
    let limits = Limits::crawl();
    assert_eq!(limits.whole, Duration::from_secs(60));
    assert_eq!(limits.pace.bytes, 10 << 10);
    assert_eq!(limits.pace.within, Duration::from_secs(10));
    assert_eq!(limits.stream_bytes, 8 << 20);
    assert_eq!(limits.stream_events, 10_000);
    assert_eq!(limits.stream_wait, Duration::from_secs(30));
    let Times {
        connect,
        resolve,
        head,
    } = Times::default();
    assert_eq!([connect, resolve, head].map(|time| time.as_secs()), [5, 5, 15]);
}

/// What becomes of a server that is slow before there is a body.
async fn check_head(url: &str, times: Times, expected: &str) {
    let inspection = look_with(&client(&times), url, &[], &Limits::crawl()).await;
    assert_eq!(told(&inspection), expected);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_is_given_up() {
    let stub = Stub::new(|_, mut line| {
        async move {
            line.say("HTTP/1.1 200 OK\r\nX-Slow: ").await?;
            line.drip("x").await
        }
        .boxed()
    })
    .await;
    let times = Times {
        head: SOON,
        ..Times::default()
    };
    check_head(&stub.url(), times, "timed_out: timed out").await;
    stub.is_left().await;
}

#[tokio::test]
async fn interim_answers_without_an_end_are_given_up() {
    let stub =
        Stub::new(|_, mut line| async move { line.drip("HTTP/1.1 100 Continue\r\n\r\n").await }.boxed())
            .await;
    let times = Times {
        head: SOON,
        ..Times::default()
    };
    check_head(&stub.url(), times, "timed_out: timed out").await;
    stub.is_left().await;
}

#[tokio::test]
async fn a_handshake_of_tls_that_never_ends_is_given_up() {
    // The port takes the connection, and nobody speaks.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let times = Times {
        connect: SOON,
        ..Times::default()
    };
    check_head(&url, times, "timed_out: timed out").await;
}

/// A server whose list of tools is dealt with so.
async fn check_list<F, A>(limits: Limits, handle: F, expected: &str)
where
    F: Fn(Line) -> A + Send + Sync + 'static,
    A: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let stub = Stub::listing(move |_, line| handle(line).boxed()).await;
    check_within(&limits, &stub, expected).await;
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_long_before_its_time() {
    let limits = Limits {
        pace: Pace {
            bytes: 1 << 10,
            within: SOON,
        },
        request: Duration::from_secs(40),
        ..Limits::crawl()
    };
    check_list(
        limits,
        async |mut line| {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
            line.say(head).await?;
            line.drip(" ").await
        },
        "timed_out: the answer came too slowly: fewer than 1024 bytes in 0.3 s",
    )
    .await;
}

#[tokio::test]
async fn a_body_that_takes_long_and_keeps_its_pace_is_read() {
    let limits = Limits {
        pace: Pace {
            bytes: 1,
            within: SOON,
        },
        ..Limits::crawl()
    };
    let stub = Stub::listing(|asked, mut line| {
        async move {
            line.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
                .await?;
            let _ = tokio::time::timeout(3 * SOON, line.drip(" ")).await;
            line.say(asked.with_tools(&tool("patience"))).await
        }
        .boxed()
    })
    .await;
    check_within(&limits, &stub, "ok: patience").await;
}

#[tokio::test]
async fn the_whole_look_has_its_time_however_small_the_steps_are() {
    let limits = Limits {
        whole: 2 * SOON,
        pages: usize::MAX,
        ..Limits::crawl()
    };
    let stub = Stub::listing(|asked, mut line| {
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let next = format!(r#"{{"tools":[],"nextCursor":"{}"}}"#, asked.body["id"]);
            line.json(asked.answered(&next)).await
        }
        .boxed()
    })
    .await;
    let begun = std::time::Instant::now();
    let inspection = look_with(&client(&Times::default()), &stub.url(), &[], &limits).await;
    stub.is_left().await;
    assert_eq!(inspection.outcome().name(), "timed_out", "{}", told(&inspection));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn comments_that_never_end_are_bytes() {
    check_list(
        Limits::crawl(),
        async |mut line| {
            line.events().await?;
            line.for_ever(|_| ": ping\n".repeat(1_000)).await
        },
        "over_limit: more than 8388608 bytes in one stream",
    )
    .await;
}

#[tokio::test]
async fn answers_to_questions_that_nobody_asked_never_end_either() {
    check_list(
        Limits::crawl(),
        async |mut line| {
            line.events().await?;
            line.for_ever(|round| {
                format!(
                    "data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{}}}}\n\n",
                    round + 1_000
                )
            })
            .await
        },
        "over_limit: more than 10000 events in one answer",
    )
    .await;
}

#[tokio::test]
async fn a_stream_that_talks_of_other_things_is_not_waited_for() {
    let limits = Limits {
        stream_wait: SOON,
        ..Limits::crawl()
    };
    check_list(
        limits,
        async |mut line| {
            line.events().await?;
            line.drip(": still here\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
                .await
        },
        "timed_out: no answer to `tools/list` within 0.3 s",
    )
    .await;
}

#[tokio::test]
async fn a_stream_of_the_older_transport_has_the_same_bounds() {
    let stub = Stub::new(|asked, mut line| {
        async move {
            if asked.verb == "GET" {
                line.events().await?;
                line.say("event: endpoint\ndata: /post\n\n").await?;
                return line.for_ever(|_| ": ping\n".repeat(1_000)).await;
            }
            match asked.path.as_str() {
                "/post" => line.answer("202 Accepted", "").await,
                _ => line.answer("405 Method Not Allowed", "").await,
            }
        }
        .boxed()
    })
    .await;
    check_within(
        &Limits::crawl(),
        &stub,
        "over_limit: more than 8388608 bytes in one stream",
    )
    .await;
}
