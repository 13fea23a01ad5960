//! Ten thousand broken requests over a real socket against the real server: each is answered 4xx or its connection ends, nothing
//! of any is kept, and memory stays where it was.
//!
//! What is sent is made from one seed, which a failure names; `MCPINDEX_HOSTILE_SEED` sets another one.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcpindex_contract::signal::{Event, Fingerprint, InstallId, Sdk, Signal, write};
use mcpindex_contract::{receipt, signal};
use mcpindex_store::{Location, Store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::programs::Place;
use crate::receipts::batch;

const REQUESTS: u64 = 10_000;
/// After so many, the server's memory is what it needs for this work.
const FIRST: u64 = 2_000;
const CLIENTS: u64 = 16;
const SEED: u64 = 0x6d63_7069_6e64_6578;
/// The most that memory may differ then: what the allocator holds back, and no leak of ours.
const MOST_GROWTH: u64 = 24 * 1024;
/// So long for what is broken.
const WAITS: Duration = Duration::from_millis(40);
/// No answer takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

fn now() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
}

fn signals() -> String {
    let one = |number: u128| Signal {
        event: Event::Drift,
        server: Fingerprint::from_bytes([1; 16]),
        tool: Fingerprint::from_bytes([2; 16]),
        hash_before: Some(format!("sha256:{}", "a".repeat(64))),
        hash_after: format!("sha256:{}", "b".repeat(64)),
        digests: None,
        kinds: vec!["removed-param"],
        safety_relevant: true,
        hour: Some(now() - now() % 3_600),
        sdk: Sdk::Rs,
        install: InstallId::from_bytes(number.to_be_bytes()),
    };
    write(&[one(1), one(2), one(3)])
}

/// Pieces that JSON readers, UTF-8 readers and HTTP readers trip over.
const PIECES: [&[u8]; 24] = [
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"\"",
    b"\\ud800",
    b"\\u0000",
    b"{",
    b"]",
    b",",
    b":",
    b"null",
    b"-0",
    b"1e999999999",
    b"99999999999999999999",
    b"0x10",
    b" ",
    b"\t",
    b"%00",
    b"../",
    b"__proto__",
];

/// Breaks bytes somewhere, once or a few times.
fn broken(dice: &mut Dice, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        let to = (at + dice.below(40)).min(bytes.len());
        match dice.below(9) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..to)),
            2 => drop(bytes.splice(at..at, dice.of(&PIECES).to_vec())),
            3 => drop(bytes.splice(at..to, dice.of(&PIECES).to_vec())),
            4 => {
                let again = bytes[at..to].to_vec();
                drop(bytes.splice(at..at, again));
            }
            5 => {
                let deep = [b'[', b'{'][dice.below(2)];
                let depth = dice.below(5_000);
                drop(bytes.splice(at..at, std::iter::repeat_n(deep, depth)));
            }
            6 => {
                let digits = dice.below(5_000);
                drop(bytes.splice(at..at, std::iter::repeat_n(b'9', digits)));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u8::try_from(dice.roll() % 256).unwrap();
                }
            }
        }
    }
    bytes
}

fn request(path: &str, length: impl std::fmt::Display, more: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: index\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{more}\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// A broken body in a right head.
fn of_body(dice: &mut Dice) -> Vec<u8> {
    let receipts = dice.below(2) == 0;
    let (path, whole) = if receipts {
        ("/api/v1/receipts", batch(0..2).to_string())
    } else {
        ("/api/v1/drift", signals())
    };
    loop {
        let body = broken(dice, whole.as_bytes());
        // What is still right after all (another digit in a hash) is no broken request.
        let is_right = if receipts {
            receipt::read(&body).is_ok()
        } else {
            signal::read(&body, now()).is_ok()
        };
        if !is_right {
            return request(path, body.len(), "", &body);
        }
    }
}

/// A broken head before a body that is refused whatever the head says, or that hides a right request behind a body of another
/// length than the head claims.
fn of_head(dice: &mut Dice) -> Vec<u8> {
    let hidden = signals();
    let hidden = request("/api/v1/drift", hidden.len(), "", hidden.as_bytes());
    let length = hidden.len();
    match dice.below(12) {
        0 => request("/api/v1/drift", 0, "transfer-encoding: chunked\r\n", b"0\r\n\r\n"),
        1 => request("/api/v1/drift", length, "content-length: 0\r\n", &hidden),
        2 => request(
            "/api/v1/drift",
            length,
            "transfer-encoding: chunked, identity\r\n",
            &hidden,
        ),
        3 => request(
            "/api/v1/drift",
            length,
            "transfer-encoding: xchunked\r\n",
            &hidden,
        ),
        4 => request(
            "/api/v1/drift",
            *dice.of(&["-1", "+5", "0x10", "1e3", "", "99999999999999999999", "5, 6"]),
            "",
            b"{}",
        ),
        5 => {
            let size = *dice.of(&["-1", "FFFFFFFFFFFFFFFFF", "zz", "1;", "5\n", ""]);
            let head = format!(
                "POST /api/v1/drift HTTP/1.1\r\nhost: index\r\nconnection: close\r\ncontent-type: application/json\r\n\
                 transfer-encoding: chunked\r\n\r\n{size}\r\n{{}}\r\n0\r\n\r\n"
            );
            head.into_bytes()
        }
        6 => {
            let long = "a".repeat(dice.below(600_000));
            request("/api/v1/drift", 2, &format!("x-long: {long}\r\n"), b"{}")
        }
        7 => {
            let many: String = (0..dice.below(2_000))
                .map(|number| format!("x-{number}: 1\r\n"))
                .collect();
            request("/api/v1/drift", 2, &many, b"{}")
        }
        8 => {
            let long = "a".repeat(dice.below(100_000));
            request(&format!("/api/v1/drift?{long}"), 2, "", b"{}")
        }
        9 => {
            let words = [
                "x-request-id",
                "authorization",
                "x-forwarded-for",
                "if-none-match",
                "cookie",
                "expect",
            ];
            let odd =
                String::from_utf8_lossy(&broken(dice, b"Bearer mcpk_aaaaaaaaaaaaaaaaaaaa")).into_owned();
            request(
                "/api/v1/drift",
                2,
                &format!("{}: {odd}\r\n", dice.of(&words)),
                b"{}",
            )
        }
        _ => broken(dice, &request("/api/v1/drift", 2, "accept: */*\r\n", b"{}")),
    }
}

/// What became of one request: the status, or `None` where the connection ended without an answer. A server that waits for more
/// gets the end of it after `waits`.
#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
async fn send(address: &str, request: &[u8], waits: Duration) -> Option<u16> {
    let mut connection = TcpStream::connect(address).await.expect("the server listens");
    // A server that has seen enough stops reading.
    let _ = connection.write_all(request).await;
    let mut answer = Vec::new();
    loop {
        let read = match timeout(waits, connection.read_buf(&mut answer)).await {
            Ok(read) => read,
            // It waits for more, or is busy with others: there is no more.
            Err(_) => {
                let _ = connection.shutdown().await;
                timeout(LIMIT, connection.read_buf(&mut answer))
                    .await
                    .expect("the server hangs")
            }
        };
        // A reset is an end too: what was not read of us is thrown away.
        if !matches!(read, Ok(more) if more > 0) {
            break;
        }
    }
    let status = answer
        .strip_prefix(b"HTTP/1.1 ")
        .or(answer.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(status.get(..3)?).ok()?.parse().ok()
}

/// Kilobytes that a process has in memory, where the system says.
fn resident(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_broken_requests_leave_nothing_behind() {
    let seed = std::env::var("MCPINDEX_HOSTILE_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    writeln!(std::io::stdout(), "seed {seed}").unwrap();
    let place = Place::new();
    let config = place.write(
        "mcpindex.toml",
        "[ingest]\nbatches_per_minute = 1000000\nsignals_per_hour = 100000000\n[receipts]\nopen = true\n",
    );
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    let address = Arc::new(served.base.strip_prefix("http://").unwrap().to_owned());
    let next = Arc::new(AtomicU64::new(0));
    let mut after_first = None;
    let (mut answered, mut ended) = (0, 0);
    for until in [FIRST, REQUESTS] {
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (address, next) = (Arc::clone(&address), Arc::clone(&next));
            clients.spawn(async move {
                let (mut answered, mut ended) = (0_u64, 0_u64);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= until {
                        next.fetch_sub(1, Ordering::Relaxed);
                        return (answered, ended);
                    }
                    let mut dice = Dice(seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
                    let request = if number % 2 == 0 {
                        of_body(&mut dice)
                    } else {
                        of_head(&mut dice)
                    };
                    match send(&address, &request, WAITS).await {
                        Some(status) => {
                            assert!(
                                (400..500).contains(&status),
                                "seed {seed}, request {number} was answered {status}: {}",
                                String::from_utf8_lossy(&request[..request.len().min(2_000)])
                            );
                            answered += 1;
                        }
                        None => ended += 1,
                    }
                }
            });
        }
        for (more_answered, more_ended) in clients.join_all().await {
            answered += more_answered;
            ended += more_ended;
        }
        after_first = after_first.or_else(|| resident(served.id()));
    }
    assert_eq!(answered + ended, REQUESTS);
    assert!(answered > REQUESTS / 2, "only {answered} were answered");
    if let (Some(before), Some(after)) = (after_first, resident(served.id())) {
        assert!(
            after < before + MOST_GROWTH,
            "seed {seed}: memory went from {before} to {after} kB"
        );
    }
    let store = Store::open(&Location::Sqlite(place.path("data/mcpindex.db")))
        .await
        .unwrap();
    assert_eq!(store.signals_kept().await.unwrap(), 0);
    assert_eq!(store.receipts_kept().await.unwrap(), 0);
    // And the server is as it was. A right request is whole: it gets its time, however busy the machine.
    let body = signals();
    let right = request("/api/v1/drift", body.len(), "", body.as_bytes());
    assert_eq!(send(&address, &right, LIMIT).await, Some(204));
    assert_eq!(store.signals_kept().await.unwrap(), 3);
    store.close().await;
    assert_eq!(served.terminate().await, Some(0));
}
