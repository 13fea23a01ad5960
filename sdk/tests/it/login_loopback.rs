//! The loopback address that a browser comes back to: what it takes, what it refuses, and what ends it.

use std::io;
use std::time::Duration;

use insta::assert_snapshot;
use mcpindex::index::Base;
use mcpindex::login::loopback::{Loopback, LoopbackError, LoopbackLimits, Returned};
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

const STATE: &str = "c3RhdGUtb2YtdGhpcw";
/// `https://index.example/`, as it stands in a query.
const ISS: &str = "https%3A%2F%2Findex.example%2F";

/// A sign-in that waits for its browser.
struct Waiting {
    port: u16,
    result: JoinHandle<Result<Returned, LoopbackError>>,
}

impl Waiting {
    async fn within(limits: LoopbackLimits) -> Waiting {
        let loopback = Loopback::open().await.unwrap();
        assert!(!loopback.is_v6());
        let base = Base::parse("https://index.example").unwrap();
        Waiting {
            port: loopback.port(),
            result: tokio::spawn(async move { loopback.wait(STATE, &base, &limits).await }),
        }
    }

    async fn start() -> Waiting {
        Waiting::within(LoopbackLimits::default()).await
    }

    #[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// The whole answer to these bytes.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await.unwrap()
    }

    /// The answer to a request line, under our own name.
    async fn ask(&self, line: &str) -> String {
        let port = self.port;
        self.send(format!("{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes())
            .await
    }

    /// The first line of that answer; whatever it is, it allows nothing to a page.
    async fn status(&self, line: &str) -> String {
        let answer = self.ask(line).await;
        assert_is_static(&answer);
        answer.lines().next().unwrap_or_default().to_owned()
    }

    async fn code(self) -> String {
        match self.result.await.unwrap() {
            Ok(Returned::Code(code)) => code.expose_secret().to_owned(),
            other => panic!("no code: {other:?}"),
        }
    }

    async fn error(self) -> String {
        self.result.await.unwrap().unwrap_err().to_string()
    }
}

async fn read_all(stream: &mut TcpStream) -> io::Result<String> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8(answer).unwrap())
}

fn assert_is_static(answer: &str) {
    let lower = answer.to_ascii_lowercase();
    for header in [
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "connection: close",
    ] {
        assert!(lower.contains(header), "{header}: {answer}");
    }
    for absent in ["access-control-", "<script", "set-cookie", "canary"] {
        assert!(!lower.contains(absent), "{absent}: {answer}");
    }
}

fn callback(rest: &str) -> String {
    format!("GET /callback?{rest}")
}

fn ours(code: &str) -> String {
    callback(&format!("code={code}&state={STATE}&iss={ISS}"))
}

#[tokio::test]
async fn the_code_is_taken_and_the_page_is_static() {
    let waiting = Waiting::start().await;
    let answer = waiting.ask(&ours("canary-code")).await;
    assert_is_static(&answer);
    assert_snapshot!(answer.replace('\r', ""), @r#"
    HTTP/1.1 200 OK
    Content-Type: text/html; charset=utf-8
    Content-Length: 182
    Cache-Control: no-store
    Referrer-Policy: no-referrer
    X-Content-Type-Options: nosniff
    Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; base-uri 'none'
    Connection: close

    <!doctype html>
    <html lang="en">
    <meta charset="utf-8">
    <title>mcpindex</title>
    <p>The browser has done its part. The terminal says how it went; this page can be closed.</p>
    </html>
    "#);
    assert_eq!(waiting.code().await, "canary-code");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
async fn it_is_closed_after_the_first_valid_request() {
    let waiting = Waiting::start().await;
    let port = waiting.port;
    // Opened in advance, as browsers do.
    let mut idle = waiting.connect().await;
    waiting.ask(&ours("one")).await;
    assert_eq!(waiting.code().await, "one");
    let again = TcpStream::connect(("127.0.0.1", port)).await;
    assert_eq!(again.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    // Nobody answers there either: it ends, or is cut off.
    let _ = idle
        .write_all(format!("{} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n", ours("two")).as_bytes())
        .await;
    assert_eq!(read_all(&mut idle).await.unwrap_or_default(), "");
}

#[tokio::test]
async fn a_refused_consent_ends_it_with_the_reason() {
    let waiting = Waiting::start().await;
    let refused = callback(&format!("error=access_denied&state={STATE}&iss={ISS}"));
    assert_eq!(waiting.status(&refused).await, "HTTP/1.1 200 OK");
    match waiting.result.await.unwrap() {
        Ok(Returned::Refused(error)) => assert_eq!(error, "access_denied"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_our_own_name_is_answered() {
    let waiting = Waiting::start().await;
    let port = waiting.port;
    for hosts in [
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: localhost:{port}\r\n"),
        "Host: 127.0.0.1\r\n".to_owned(),
        format!("Host: 127.0.0.1:{port}.evil.example\r\n"),
        format!("Host: [::1]:{port}\r\n"),
        format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n"),
        String::new(),
    ] {
        let line = ours("canary");
        let answer = waiting
            .send(format!("{line} HTTP/1.1\r\n{hosts}\r\n").as_bytes())
            .await;
        assert_is_static(&answer);
        assert!(answer.starts_with("HTTP/1.1 421 "), "{hosts}: {answer}");
    }
    waiting.ask(&ours("good")).await;
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn a_page_is_allowed_nothing() {
    let waiting = Waiting::start().await;
    let port = waiting.port;
    let preflight = format!(
        "OPTIONS /callback?code=canary&state={STATE}&iss={ISS} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: https://evil.example\r\n\
         Access-Control-Request-Method: GET\r\nAccess-Control-Request-Private-Network: true\r\n\r\n"
    );
    let answer = waiting.send(preflight.as_bytes()).await;
    assert_is_static(&answer);
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    waiting.ask(&ours("good")).await;
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn other_methods_and_paths_are_refused_and_it_goes_on() {
    let waiting = Waiting::start().await;
    let query = format!("code=canary&state={STATE}&iss={ISS}");
    let mut said = String::new();
    for line in [
        format!("POST /callback?{query}"),
        format!("HEAD /callback?{query}"),
        format!("GET /?{query}"),
        format!("GET /callback/?{query}"),
        format!("GET /callback/../callback?{query}"),
        format!("GET http://127.0.0.1/callback?{query}"),
        "GET /favicon.ico".to_owned(),
        "nonsense".to_owned(),
    ] {
        let status = waiting.status(&line).await;
        let (line, _) = line.split_once('?').unwrap_or((&line, ""));
        said += &format!("{line}: {status}\n");
    }
    assert_snapshot!(said, @r"
    POST /callback: HTTP/1.1 405 Method Not Allowed
    HEAD /callback: HTTP/1.1 405 Method Not Allowed
    GET /: HTTP/1.1 404 Not Found
    GET /callback/: HTTP/1.1 404 Not Found
    GET /callback/../callback: HTTP/1.1 404 Not Found
    GET http://127.0.0.1/callback: HTTP/1.1 400 Bad Request
    GET /favicon.ico: HTTP/1.1 404 Not Found
    nonsense: HTTP/1.1 400 Bad Request
    ");
    assert!(
        waiting
            .ask(&format!("PUT /callback?{query}"))
            .await
            .contains("\r\nAllow: GET\r\n")
    );
    // None of these was a guess.
    for _ in 0..30 {
        waiting.status("GET /favicon.ico").await;
    }
    waiting.ask(&ours("good")).await;
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn a_wrong_state_is_refused_and_it_keeps_listening() {
    let waiting = Waiting::start().await;
    for rest in [
        format!("code=canary&iss={ISS}"),
        format!("code=canary&state=&iss={ISS}"),
        format!("code=canary&state={STATE}x&iss={ISS}"),
        format!("code=canary&state={}&iss={ISS}", &STATE[1..]),
        format!("code=canary&state={}&iss={ISS}", STATE.to_lowercase()),
        format!("code=canary&state={STATE}&state=other&iss={ISS}"),
        format!("error=access_denied&state=other&iss={ISS}"),
        String::new(),
        // Ours, but nothing to go on with.
        format!("state={STATE}&iss={ISS}"),
        format!("code=&state={STATE}&iss={ISS}"),
        format!("code=a%0Ab&state={STATE}&iss={ISS}"),
        format!("code=canary&error=access_denied&state={STATE}&iss={ISS}"),
        format!("code={}&state={STATE}&iss={ISS}", "a".repeat(513)),
    ] {
        assert_eq!(
            waiting.status(&callback(&rest)).await,
            "HTTP/1.1 400 Bad Request",
            "{rest}"
        );
    }
    waiting.ask(&ours("good")).await;
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn the_twentieth_guess_ends_it() {
    let waiting = Waiting::start().await;
    for number in 0..19 {
        waiting
            .status(&callback(&format!("code=x&state={number}&iss={ISS}")))
            .await;
    }
    assert!(!waiting.result.is_finished());
    waiting
        .status(&callback(&format!("code=x&state=19&iss={ISS}")))
        .await;
    assert_eq!(
        waiting.error().await,
        "20 requests came that are not of this sign-in: something on this machine, or a page, guesses; sign in again"
    );
}

#[tokio::test]
async fn an_answer_of_another_index_is_not_taken() {
    for (iss, said) in [
        ("https%3A%2F%2Fevil.example%2F", "https://evil.example/"),
        ("https%3A%2F%2Findex.example", "https://index.example"),
        ("", ""),
    ] {
        let waiting = Waiting::start().await;
        let line = callback(&format!("code=canary&state={STATE}&iss={iss}"));
        assert_eq!(waiting.status(&line).await, "HTTP/1.1 400 Bad Request");
        assert_eq!(
            waiting.error().await,
            format!(
                "the answer came from `{said}`, and the sign-in began at `https://index.example/`: use the address that the index itself goes by"
            )
        );
    }
}

#[tokio::test]
async fn a_head_may_have_8_kib_and_no_more() {
    let waiting = Waiting::start().await;
    let port = waiting.port;
    let head = |filler: usize| {
        let line = ours("good");
        format!(
            "{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Filler: {}\r\n\r\n",
            "a".repeat(filler)
        )
    };
    let room = 8192 - head(0).len();
    let answer = waiting.send(head(room + 1).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // One without an end is cut off as well.
    let answer = waiting.send(&[b'a'; 8193]).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let answer = waiting.send(head(room).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn a_head_has_its_time_and_others_do_not_wait_for_it() {
    assert_eq!(LoopbackLimits::default().head, Duration::from_secs(5));
    let waiting = Waiting::within(LoopbackLimits {
        head: Duration::from_millis(100),
        connections: 2,
        ..LoopbackLimits::default()
    })
    .await;
    let mut slow = waiting.connect().await;
    slow.write_all(b"GET /callb").await.unwrap();
    let mut silent = waiting.connect().await;
    // Both places are taken: they are free again after their time.
    assert_eq!(waiting.status("GET /").await, "HTTP/1.1 404 Not Found");
    for stream in [&mut slow, &mut silent] {
        let answer = read_all(stream).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    waiting.ask(&ours("good")).await;
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn whoever_hangs_up_is_no_matter() {
    let waiting = Waiting::start().await;
    for bytes in [&b""[..], b"GET /callback HTTP/1.1\r\nHos"] {
        let mut stream = waiting.connect().await;
        stream.write_all(bytes).await.unwrap();
        drop(stream);
    }
    waiting.ask(&ours("good")).await;
    assert_eq!(waiting.code().await, "good");
}

#[tokio::test]
async fn the_wait_has_an_end() {
    assert_eq!(LoopbackLimits::default().whole, Duration::from_secs(300));
    let waiting = Waiting::within(LoopbackLimits {
        whole: Duration::from_millis(50),
        ..LoopbackLimits::default()
    })
    .await;
    let _idle = waiting.connect().await;
    assert_eq!(
        waiting.error().await,
        "no browser came back in time: sign in again"
    );
}
