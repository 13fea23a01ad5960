//! Bodies that are more than they seem: packed, giant, deep, or heads without an end.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::FutureExt;
use mcpindex::wire::limits::Limits;

use super::stub::{Asked, Stub, check, check_crawl, check_within, tool};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A server that packs its list, as its head says or not.
async fn packing(head: &'static str, pack: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Stub {
    Stub::listing(move |asked, mut line| {
        let body = pack(&asked);
        async move { line.answer(head, body).await }.boxed()
    })
    .await
}

const PACKED: &str = "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip";

#[tokio::test]
async fn what_is_packed_once_though_that_was_declined_is_read() {
    let stub = packing(PACKED, |asked| {
        assert_eq!(asked.header("accept-encoding"), Some("identity"));
        gzip(asked.with_tools(&tool("packed")).as_bytes())
    })
    .await;
    check(&stub, "ok: packed").await;

    let head = "200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: X-GZIP";
    let stub = packing(head, |asked| {
        gzip(format!("data: {}\n\n", asked.with_tools(&tool("streamed"))).as_bytes())
    })
    .await;
    check(&stub, "ok: streamed").await;
}

#[tokio::test]
async fn a_packed_stream_is_read_as_it_comes() {
    let stub = Stub::listing(|asked, mut line| {
        async move {
            line.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n")
                .await?;
            let mut packing = GzEncoder::new(Vec::new(), Compression::default());
            packing.write_all(format!("data: {}\n\n", asked.with_tools(&tool("early"))).as_bytes())?;
            packing.flush()?;
            // Byte by byte, and without an end: the answer is there all the same.
            for byte in std::mem::take(packing.get_mut()) {
                line.say([byte]).await?;
            }
            line.wait().await
        }
        .boxed()
    })
    .await;
    check(&stub, "ok: early").await;
}

#[tokio::test]
async fn a_bomb_is_given_up_by_its_ratio() {
    let bomb = gzip(&vec![b' '; 10 << 20]);
    assert!(bomb.len() < 12_000, "{}", bomb.len());
    let stub = packing(PACKED, move |_| bomb.clone()).await;
    check(
        &stub,
        "over_limit: more than 100 times the size that the answer was packed in",
    )
    .await;
}

#[tokio::test]
async fn what_is_unpacked_counts_as_what_is_sent() {
    // Numbers pack to about a third.
    let numbers: String = (0..40_000_u64)
        .map(|number| (number * 0x9e37_79b9_7f4a).to_string())
        .collect();
    let packed = gzip(numbers.as_bytes());
    assert!(packed.len() * 2 > 200_000 && packed.len() < numbers.len());
    let limits = Limits {
        message_bytes: packed.len() + 1_000,
        ..Limits::crawl()
    };
    let stub = packing(PACKED, move |_| packed.clone()).await;
    let expected = format!(
        "over_limit: more than {} bytes in one message",
        limits.message_bytes
    );
    check_within(&limits, &stub, &expected).await;
}

#[tokio::test]
async fn what_is_packed_otherwise_is_no_answer() {
    for (head, said) in [
        (
            "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip, gzip",
            "HTTP 200 OK is packed as `gzip, gzip`, though that was declined",
        ),
        (
            "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Encoding: gzip",
            "HTTP 200 OK is packed as `gzip, gzip`, though that was declined",
        ),
        (
            "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: br",
            "HTTP 200 OK is packed as `br`, though that was declined",
        ),
        (
            PACKED,
            "the answer is packed, though that was declined, and can't be unpacked",
        ),
    ] {
        let stub = packing(head, |asked| asked.with_tools("").into_bytes()).await;
        check(&stub, &format!("not_mcp: no MCP server: {said}")).await;
    }
    let cut = |asked: &Asked| {
        let mut packed = gzip(asked.with_tools("").as_bytes());
        packed.truncate(packed.len() - 9);
        packed
    };
    let longer = |asked: &Asked| [gzip(asked.with_tools("").as_bytes()), b"more".to_vec()].concat();
    for stub in [packing(PACKED, cut).await, packing(PACKED, longer).await] {
        check(
            &stub,
            "not_mcp: no MCP server: the answer is packed, though that was declined, and can't be unpacked",
        )
        .await;
    }
}

#[tokio::test]
async fn a_giant_answer_stops_at_its_limit() {
    let stub = Stub::saying(|asked| {
        asked
            .with_tools(&format!("{}\"{}\"", " ".repeat(10), "x".repeat(9 << 20)))
            .into_bytes()
    })
    .await;
    check(&stub, "over_limit: more than 8388608 bytes in one message").await;
}

#[tokio::test]
async fn many_large_answers_stop_at_the_limit_for_all() {
    let limits = Limits {
        total_bytes: 200_000,
        ..Limits::crawl()
    };
    let stub = Stub::saying(|asked| {
        let blank = " ".repeat(50_000);
        let next = format!(r#"{{"tools":[],"nextCursor":"{}"{blank}}}"#, asked.body["id"]);
        asked.answered(&next).into_bytes()
    })
    .await;
    check_within(&limits, &stub, "over_limit: more than 200000 bytes in all").await;
}

#[tokio::test]
async fn a_giant_handshake_is_over_a_limit_of_its_own() {
    let stub = Stub::new(|asked, mut line| {
        async move {
            let words = "words ".repeat(200_000);
            let hello = format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"instructions":"{words}"}}"#
            );
            line.json(asked.answered(&hello)).await
        }
        .boxed()
    })
    .await;
    check(
        &stub,
        "over_limit: more than 1048576 bytes in the answer to the handshake",
    )
    .await;
}

fn with_default(number: &str) -> String {
    format!(
        r#"{{"name":"counts","inputSchema":{{"type":"object","properties":{{"n":{{"type":"number","default":{number},"maximum":{number}}}}}}}}}"#
    )
}

#[tokio::test]
async fn numbers_that_no_machine_holds_are_kept_as_text() {
    for number in [
        "1e999999".to_owned(),
        "9".repeat(100_000),
        "-0.0e-999999999999".to_owned(),
    ] {
        check_crawl(&Stub::with_tools(with_default(&number)).await, "ok, 1, -").await;
    }
    let million = with_default(&"9".repeat(1_000_000));
    check_crawl(
        &Stub::with_tools(million).await,
        "over_limit, -, more than 262144 bytes in a tool",
    )
    .await;
}

#[tokio::test]
async fn depth_overflows_no_stack() {
    let deep = "[".repeat(100_000);
    check_crawl(
        &Stub::saying(move |_| deep.clone().into_bytes()).await,
        "not_mcp, -, the connection ended before `tools/list` was answered",
    )
    .await;
    // Whole, it is an item like any other: kept as it was sent, and no digest is made of it.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check_crawl(&Stub::with_tools(deep).await, "ok, 1, -").await;
    for levels in [60, 200, 400, 10_000] {
        let schema = format!(
            "{}{{}}{}",
            r#"{"properties":{"a":"#.repeat(levels),
            "}}".repeat(levels)
        );
        let tools = format!(r#"{{"name":"deep","inputSchema":{schema}}},{}"#, tool("flat"));
        check_crawl(&Stub::with_tools(tools).await, "ok, 2, -").await;
    }
}

#[tokio::test]
async fn a_head_without_an_end_is_over_its_limit() {
    let cookies = |count: usize, value: usize| {
        let cookies: String = (0..count)
            .map(|number| format!("\r\nSet-Cookie: c{number}={}", "x".repeat(value)))
            .collect();
        format!("200 OK\r\nContent-Type: application/json{cookies}")
    };
    for head in [cookies(1_000, 10), cookies(90, 1_000), cookies(10, 100_000)] {
        let stub = Stub::new(move |asked, mut line| {
            let head = head.clone();
            async move { line.answer(&head, asked.answered("{}")).await }.boxed()
        })
        .await;
        check(
            &stub,
            "over_limit: more than 100 headers, or 64 KiB of them, in one answer",
        )
        .await;
        assert_eq!(stub.requests(), ["POST /mcp"]);
    }
}

#[tokio::test]
async fn no_cookie_is_kept() {
    let stub = Stub::new(|asked, mut line| {
        async move {
            let head = "200 OK\r\nContent-Type: application/json\r\nSet-Cookie: who=you; Path=/";
            match asked.method() {
                "initialize" => line.answer(head, asked.answered(super::stub::HELLO)).await,
                "tools/list" => line.answer(head, asked.with_tools(&tool("plain"))).await,
                _ => line.answer("202 Accepted\r\nSet-Cookie: who=you", "").await,
            }
        }
        .boxed()
    })
    .await;
    check(&stub, "ok: plain").await;
    let asked = stub.asked();
    assert!(asked.len() >= 3);
    assert!(asked.iter().all(|asked| asked.header("cookie").is_none()));
}
