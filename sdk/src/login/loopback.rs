//! Waits at a loopback address for the browser that comes back from the index.
//!
//! Anything on this machine can connect here, and any page in the browser can send requests here, also under a name that it
//! made point here. So: only our own address is taken for a `Host`, nothing is allowed to pages (no CORS, `OPTIONS` refused), a
//! request is short and quick or it is none, and one that is not of this sign-in is refused without ending the wait.
//!
//! Invariant: what ends the wait is a request with the state of this attempt, the time, or the twentieth guess; a page shows
//! nothing of what was sent.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use secrecy::SecretString;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};

use crate::index::Base;

const PATH: &str = "/callback";
/// A code of ours has 43 characters.
const MAX_CODE: usize = 512;
/// What a sender may still have under way when it was answered.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 64 << 10;

/// Bounds on the wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopbackLimits {
    /// For all of it (5 min).
    pub whole: Duration,
    /// For the head of one request (5 s).
    pub head: Duration,
    /// Bytes of the head of one request (8 KiB).
    pub head_bytes: usize,
    /// Requests with another state than ours (20).
    pub bad_tries: usize,
    /// Connections at a time (16); browsers open some in advance.
    pub connections: usize,
}

impl Default for LoopbackLimits {
    fn default() -> LoopbackLimits {
        LoopbackLimits {
            whole: Duration::from_secs(5 * 60),
            head: Duration::from_secs(5),
            head_bytes: 8 << 10,
            bad_tries: 20,
            connections: 16,
        }
    }
}

/// Why no answer of the browser was taken.
#[derive(Debug, thiserror::Error)]
pub enum LoopbackError {
    /// No loopback address can be listened on.
    #[error("no address of this machine can be listened on ({0}): sign in with `--device`")]
    NoAddress(#[source] io::Error),
    /// Nobody came.
    #[error("no browser came back in time: sign in again")]
    TimedOut,
    /// Somebody guesses.
    #[error(
        "{0} requests came that are not of this sign-in: something on this machine, or a page, guesses; sign in again"
    )]
    Guessed(usize),
    /// The sign-in began at one index and came back from another.
    #[error(
        "the answer came from `{said}`, and the sign-in began at `{base}`: use the address that the index itself goes by"
    )]
    OtherIndex {
        /// What the answer names.
        said: String,
        /// Where the sign-in began.
        base: Base,
    },
}

/// What the browser brought back.
#[derive(Debug)]
pub enum Returned {
    /// The code for the key.
    Code(SecretString),
    /// The person, or the index, said no: `access_denied`.
    Refused(String),
}

/// A loopback address that is listened on.
#[derive(Debug)]
pub struct Loopback {
    listener: TcpListener,
    address: SocketAddr,
}

impl Loopback {
    /// A free port of 127.0.0.1, or of ::1 where there is no IPv4. Must be called within a Tokio runtime with I/O.
    pub async fn open() -> Result<Loopback, LoopbackError> {
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
                .await
                .map_err(LoopbackError::NoAddress)?,
        };
        let address = listener.local_addr().map_err(LoopbackError::NoAddress)?;
        Ok(Loopback { listener, address })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Whether it is ::1.
    pub fn is_v6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// Waits for the answer of the sign-in with this state at this index. The address is closed when this returns.
    pub async fn wait(
        self,
        state: &str,
        base: &Base,
        limits: &LoopbackLimits,
    ) -> Result<Returned, LoopbackError> {
        let Loopback { listener, address } = self;
        let expected = Expected {
            // Written so by `SocketAddr`: `127.0.0.1:P`, `[::1]:P`.
            host: address.to_string(),
            state,
            base,
        };
        let end = Instant::now() + limits.whole;
        let mut connections = FuturesUnordered::new();
        let mut bad_tries = 0;
        loop {
            let verdict = tokio::select! {
                accepted = listener.accept(), if connections.len() < limits.connections => {
                    // One that was gone before it was accepted is no matter of ours.
                    if let Ok((stream, _)) = accepted {
                        connections.push(serve(stream, &expected, limits));
                    }
                    continue;
                }
                Some(verdict) = connections.next() => verdict,
                () = tokio::time::sleep_until(end) => return Err(LoopbackError::TimedOut),
            };
            match verdict {
                Verdict::Returned(stream, returned) => {
                    // Nobody else is let in, and this one is told.
                    drop(listener);
                    let answer = match &returned {
                        Ok(Returned::Code(_)) => Reply::Done,
                        Ok(Returned::Refused(_)) => Reply::NotDone,
                        Err(_) => Reply::OtherIndex,
                    };
                    let _ = timeout_at(end, say(stream, answer)).await;
                    return returned;
                }
                Verdict::Guess => {
                    bad_tries += 1;
                    if bad_tries >= limits.bad_tries {
                        return Err(LoopbackError::Guessed(bad_tries));
                    }
                }
                Verdict::Other => {}
            }
        }
    }
}

/// What a request has to say to be ours.
struct Expected<'e> {
    host: String,
    state: &'e str,
    base: &'e Base,
}

/// What became of a connection.
enum Verdict {
    /// It is of this sign-in, and not answered yet.
    Returned(TcpStream, Result<Returned, LoopbackError>),
    /// It has another state, and was told so.
    Guess,
    /// It was nothing, or something else, and was told so.
    Other,
}

async fn serve(mut stream: TcpStream, expected: &Expected<'_>, limits: &LoopbackLimits) -> Verdict {
    let reply = match timeout(limits.head, read_head(&mut stream, limits.head_bytes)).await {
        Err(_) => Reply::TooSlow,
        Ok(Head::Gone) => return Verdict::Other,
        Ok(Head::TooLong) => Reply::TooLong,
        Ok(Head::Whole(head)) => match judge(&head, expected) {
            Ok(returned) => return Verdict::Returned(stream, returned),
            Err(reply) => reply,
        },
    };
    say(stream, reply).await;
    match reply {
        Reply::NotOurs => Verdict::Guess,
        _ => Verdict::Other,
    }
}

enum Head {
    Whole(Vec<u8>),
    TooLong,
    /// It ended, or broke off, before it was whole.
    Gone,
}

async fn read_head(stream: &mut TcpStream, limit: usize) -> Head {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let Ok(read @ 1..) = stream.read(&mut buffer).await else {
            return Head::Gone;
        };
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if head.windows(4).any(|window| window == b"\r\n\r\n") {
            return match head.len() <= limit {
                true => Head::Whole(head),
                false => Head::TooLong,
            };
        }
        if head.len() > limit {
            return Head::TooLong;
        }
    }
}

/// A request of this sign-in, or how it is refused.
fn judge(head: &[u8], expected: &Expected<'_>) -> Result<Result<Returned, LoopbackError>, Reply> {
    let request = Request::read(head).ok_or(Reply::Unreadable)?;
    if request.hosts != [expected.host.as_str()] {
        return Err(Reply::Host);
    }
    match request.method {
        "GET" => {}
        "OPTIONS" => return Err(Reply::NoPages),
        _ => return Err(Reply::Method),
    }
    let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
    if path != PATH {
        return Err(Reply::NoPath);
    }
    let mut members = HashMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        // Said twice, nobody knows which is meant.
        if members.insert(name, value).is_some() {
            return Err(Reply::NotOurs);
        }
    }
    let member = |name: &str| members.get(name).map(AsRef::<str>::as_ref);
    let state = member("state").unwrap_or_default();
    if !bool::from(state.as_bytes().ct_eq(expected.state.as_bytes())) {
        return Err(Reply::NotOurs);
    }
    let said = member("iss").unwrap_or_default();
    if said != expected.base.as_str() {
        return Ok(Err(LoopbackError::OtherIndex {
            said: said.chars().take(200).collect(),
            base: expected.base.clone(),
        }));
    }
    match (member("code"), member("error")) {
        (None, Some(error)) => Ok(Ok(Returned::Refused(error.chars().take(200).collect()))),
        (Some(code), None) if is_code(code) => Ok(Ok(Returned::Code(code.into()))),
        _ => Err(Reply::NotOurs),
    }
}

fn is_code(code: &str) -> bool {
    (1..=MAX_CODE).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The head of a request, as far as it matters.
struct Request<'h> {
    method: &'h str,
    target: &'h str,
    hosts: Vec<&'h str>,
}

impl<'h> Request<'h> {
    fn read(head: &'h [u8]) -> Option<Request<'h>> {
        let head = std::str::from_utf8(head).ok()?;
        let (head, _) = head.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
            return None;
        }
        let mut hosts = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("host") {
                hosts.push(value.trim());
            }
        }
        Some(Request {
            method,
            target,
            hosts,
        })
    }
}

/// All that is ever answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Done,
    NotDone,
    OtherIndex,
    NotOurs,
    Unreadable,
    Host,
    NoPages,
    Method,
    NoPath,
    TooLong,
    TooSlow,
}

impl Reply {
    /// The status, and the words of the page.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Reply::Done => (
                "200 OK",
                "The browser has done its part. The terminal says how it went; this page can be closed.",
            ),
            Reply::NotDone => (
                "200 OK",
                "Nothing was granted. The terminal says why; this page can be closed.",
            ),
            Reply::OtherIndex => (
                "400 Bad Request",
                "This answer is of another index. The terminal says more.",
            ),
            Reply::NotOurs => (
                "400 Bad Request",
                "This is not of the sign-in that the terminal waits for.",
            ),
            Reply::Unreadable => ("400 Bad Request", "This is no request that can be read."),
            Reply::Host => ("421 Misdirected Request", "This address is not called so."),
            Reply::NoPages => ("403 Forbidden", "No page may send requests here."),
            Reply::Method => ("405 Method Not Allowed", "Only GET is answered here."),
            Reply::NoPath => ("404 Not Found", "There is nothing here."),
            Reply::TooLong => ("431 Request Header Fields Too Large", "The request is too long."),
            Reply::TooSlow => ("408 Request Timeout", "The request took too long."),
        }
    }

    fn text(self) -> String {
        let (status, words) = self.parts();
        let page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>mcpindex</title>\n<p>{words}</p>\n</html>\n"
        );
        let allow = match self {
            Reply::Method => "Allow: GET\r\n",
            _ => "",
        };
        format!(
            "HTTP/1.1 {status}\r\n\
             Content-Type: text/html; charset=utf-8\r\n\
             Content-Length: {}\r\n\
             Cache-Control: no-store\r\n\
             Referrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; base-uri 'none'\r\n\
             {allow}\
             Connection: close\r\n\r\n{page}",
            page.len()
        )
    }
}

/// Answers and hangs up. Whoever does not read it in time goes without.
async fn say(mut stream: TcpStream, reply: Reply) {
    let text = reply.text();
    let said = async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        // A connection that is closed with something unread is cut off, and the answer with it.
        tokio::io::copy(&mut (&mut stream).take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    // Who has gone is not told.
    let _ = timeout(LINGER, said).await;
}
