//! A server on loopback that says what a test tells it to, byte for byte, and knows who is still connected.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::inspect::{Inspection, inspect_http};
use mcpindex::wire::http::Endpoint;
use mcpindex::wire::limits::Limits;
use mcpindex_crawler::guarded_client::{GuardedClient, SystemResolver, Times};
use mcpindex_crawler::target::TargetSpec;
use mcpindex_store::testing::TestStore;
use secrecy::SecretString;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::desk::Desk;
use crate::install_tls_provider;

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) verb: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The method of the message in it.
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// A message that answers this one.
    pub(super) fn answered(&self, result: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
            self.body["id"]
        )
    }

    /// An answer with these tools.
    pub(super) fn with_tools(&self, tools: &str) -> String {
        self.answered(&format!(r#"{{"tools":[{tools}]}}"#))
    }
}

/// The server's side of a connection, for one request and its answer.
pub(super) struct Line {
    stream: TcpStream,
    open: Arc<AtomicUsize>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Line {
    async fn asked(&mut self) -> io::Result<Asked> {
        let mut reader = BufReader::new(&mut self.stream);
        let mut first = String::new();
        reader.read_line(&mut first).await?;
        let mut words = first.split(' ').map(str::to_owned);
        let (verb, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).await?;
            let Some((name, value)) = line.trim().split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
        reader.read_exact(&mut body).await?;
        Ok(Asked {
            verb,
            path,
            headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Says this; an error when nobody listens any more.
    pub(super) async fn say(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// A whole answer.
    pub(super) async fn answer(&mut self, head: &str, body: impl AsRef<[u8]>) -> io::Result<()> {
        let body = body.as_ref();
        let length = body.len();
        self.say(format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n"))
            .await?;
        self.say(body).await
    }

    /// A whole answer that is a message.
    pub(super) async fn json(&mut self, body: impl AsRef<[u8]>) -> io::Result<()> {
        self.answer("200 OK\r\nContent-Type: application/json", body)
            .await
    }

    /// The head of an answer that is a stream.
    pub(super) async fn events(&mut self) -> io::Result<()> {
        self.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            .await
    }

    /// Says this again and again until nobody listens any more.
    pub(super) async fn for_ever(&mut self, mut bytes: impl FnMut(usize) -> String) -> io::Result<()> {
        for round in 0.. {
            self.say(bytes(round)).await?;
        }
        Ok(())
    }

    /// Says this again and again, a moment apart.
    pub(super) async fn drip(&mut self, bytes: &str) -> io::Result<()> {
        loop {
            self.say(bytes).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Says nothing until the other side is gone.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        while self.stream.read(&mut [0; 1_024]).await? > 0 {}
        Ok(())
    }
}

/// See the module.
pub(super) struct Stub {
    pub(super) base: String,
    open: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<Asked>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Stub {
    /// A server that deals with each request so.
    pub(super) async fn new<F>(handle: F) -> Stub
    where
        F: Fn(Asked, Line) -> BoxFuture<'static, io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (open, asked) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<Asked>>>::default());
        let (opened, noted) = (Arc::clone(&open), Arc::clone(&asked));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                opened.fetch_add(1, Ordering::SeqCst);
                let mut line = Line {
                    stream,
                    open: Arc::clone(&opened),
                };
                let Ok(asked) = line.asked().await else {
                    continue;
                };
                noted.lock().unwrap().push(asked.clone());
                tokio::spawn(handle(asked, line));
            }
        });
        Stub {
            base,
            open,
            asked,
            accepting,
        }
    }

    /// An MCP server with tools that answers all but `tools/list`, and that so.
    pub(super) async fn listing<F>(handle: F) -> Stub
    where
        F: Fn(Asked, Line) -> BoxFuture<'static, io::Result<()>> + Send + Sync + 'static,
    {
        let handle = Arc::new(handle);
        Stub::new(move |asked, mut line| {
            let handle = Arc::clone(&handle);
            async move {
                match asked.method() {
                    "initialize" => line.json(asked.answered(HELLO)).await,
                    "tools/list" => handle(asked, line).await,
                    _ => line.answer("202 Accepted", "").await,
                }
            }
            .boxed()
        })
        .await
    }

    /// An MCP server that answers `tools/list` with what this makes of the question.
    pub(super) async fn saying(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Stub {
        Stub::listing(move |asked, mut line| {
            let answer = answer(&asked);
            async move { line.json(answer).await }.boxed()
        })
        .await
    }

    /// An MCP server with these tools.
    pub(super) async fn with_tools(tools: String) -> Stub {
        Stub::saying(move |asked| asked.with_tools(&tools).into_bytes()).await
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// `VERB path`, for each request so far.
    pub(super) fn requests(&self) -> Vec<String> {
        let asked = self.asked();
        let requests = asked.iter().map(|asked| format!("{} {}", asked.verb, asked.path));
        requests.collect()
    }

    /// Waits until nobody is connected.
    pub(super) async fn is_left(&self) {
        until(
            || self.open.load(Ordering::SeqCst) == 0,
            "every connection is closed",
        )
        .await;
    }
}

/// What a server that has tools says of itself.
pub(super) const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#;

/// A tool of this name.
pub(super) fn tool(name: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)
}

/// A crawl's client, which may go to loopback.
pub(super) fn client(times: &Times) -> GuardedClient {
    install_tls_provider();
    let resolver = Arc::new(SystemResolver);
    let client = GuardedClient::with_times(&["127.0.0.0/8".to_owned()], false, resolver, times);
    client.unwrap().following_redirects()
}

/// Looks with this client; afterwards no task is left that was not there before.
pub(super) async fn look_with(
    client: &GuardedClient,
    url: &str,
    headers: &[(&str, &str)],
    limits: &Limits,
) -> Inspection {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), SecretString::from(*value)));
    let endpoint = Endpoint {
        url: url.parse().unwrap(),
        headers: headers.collect(),
    };
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let look = inspect_http(client, &endpoint, limits);
    let inspection = timeout(Duration::from_secs(50), look).await;
    let inspection = inspection.expect("a look ends");
    until(|| tasks() <= before, "no task is left").await;
    inspection
}

/// `outcome: reason`, or the names of the tools.
pub(super) fn told(inspection: &Inspection) -> String {
    let outcome = inspection.outcome().name();
    match &inspection.result {
        Err(failure) => format!("{outcome}: {}", failure.reason),
        Ok(surface) => {
            let names: Vec<_> = surface
                .members
                .iter()
                .map(|member| member.name.as_str())
                .collect();
            format!("{outcome}: {}", names.join(", "))
        }
    }
}

/// Looks at the server within these limits, and waits until it is left alone.
pub(super) async fn check_within(limits: &Limits, stub: &Stub, expected: &str) {
    let inspection = look_with(&client(&Times::default()), &stub.url(), &[], limits).await;
    stub.is_left().await;
    let told = told(&inspection).replace(&stub.base, "BASE");
    assert_eq!(told, expected, "asked: {:?}", stub.requests());
}

pub(super) async fn check(stub: &Stub, expected: &str) {
    check_within(&Limits::crawl(), stub, expected).await;
}

/// Crawls the server, so that what it says is stored too: `outcome, how many tools, detail`.
pub(super) async fn check_crawl(stub: &Stub, expected: &str) {
    let database = TestStore::sqlite().await;
    let desk = Desk::new(&database.store);
    let spec = TargetSpec::from_reference(&stub.url(), &[]).unwrap();
    let identity = desk.add(&spec, "list").await;
    assert_eq!(desk.crawl().await, 1);
    stub.is_left().await;
    let server = desk.server(&identity).await;
    let told = format!(
        "{}, {}, {}",
        server.outcome.map_or("-", |outcome| outcome.name()),
        server.tools.map_or("-".to_owned(), |tools| tools.to_string()),
        server.detail.as_deref().unwrap_or("-")
    );
    assert_eq!(told.replace(&stub.base, "BASE"), expected);
}

async fn until(condition: impl Fn() -> bool, what: &str) {
    let held = timeout(Duration::from_secs(20), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    held.await.unwrap_or_else(|_| panic!("in vain: {what}"));
}
