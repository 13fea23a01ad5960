//! Reading a registry to its end, against registries on loopback that are large, broken, slow or mean no good.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Uri;
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use mcpindex_crawler::CrawlError;
use mcpindex_crawler::guarded_client::GuardedClient;
use mcpindex_crawler::sources::registry::{
    OVERLAP, PAGE_ENTRIES, Page, Registry, RegistryError, RegistryLimits, Sink, Summary,
};
use serde_json::{Value, json};

use crate::install_tls_provider;

/// 2026-11-30T16:54:05Z
const NOW: i64 = 1_796_057_645;

/// A registry on loopback, and what it was asked for.
struct Stub {
    base: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    async fn start(answer: impl Fn(&Uri) -> Response + Clone + Send + Sync + 'static) -> Stub {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let known = Arc::clone(&asked);
        let router = Router::new().fallback(move |uri: Uri| async move {
            known.lock().unwrap().push(uri.to_string());
            answer(&uri)
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Stub { base, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    async fn read(&self, limits: RegistryLimits) -> (Result<Summary, RegistryError>, Kept) {
        self.read_since(None, limits).await
    }

    async fn read_since(
        &self,
        since: Option<i64>,
        limits: RegistryLimits,
    ) -> (Result<Summary, RegistryError>, Kept) {
        let client = loopback_client();
        let mut kept = Kept::default();
        let registry = Registry::new(&client, &self.base, limits).unwrap();
        let summary = registry.read(since, NOW, &mut kept).await;
        (summary, kept)
    }

    /// Why it can't be read.
    async fn refusal(&self, limits: RegistryLimits) -> String {
        let (summary, _) = self.read(limits).await;
        summary.unwrap_err().to_string()
    }
}

fn loopback_client() -> GuardedClient {
    install_tls_provider();
    GuardedClient::new(&["127.0.0.0/8".to_owned()], false).unwrap()
}

/// Keeps what a test looks at.
#[derive(Default)]
struct Kept {
    pages: Vec<(usize, usize)>,
    names: BTreeSet<String>,
    /// What the registry was asked for when each page came.
    asked: Option<Arc<Mutex<Vec<String>>>>,
    is_full: bool,
}

impl Sink for Kept {
    fn take(&mut self, page: Page) -> BoxFuture<'_, Result<(), CrawlError>> {
        async move {
            if self.is_full {
                return Err(CrawlError::Credential);
            }
            let asked = self.asked.as_ref().map_or(0, |asked| asked.lock().unwrap().len());
            self.pages.push((page.entries.len(), asked));
            self.names
                .extend(page.entries.into_iter().map(|entry| entry.name));
            Ok(())
        }
        .boxed()
    }
}

fn answered(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).unwrap()
}

fn page(servers: &[Value], next: Option<&str>) -> Response {
    let body = json!({"servers": servers, "metadata": {"count": servers.len(), "nextCursor": next}});
    answered(200, &[("content-type", "application/json")], body.to_string())
}

fn entry(number: usize, updated_at: &str) -> Value {
    let official = json!({"status": "active", "isLatest": true, "updatedAt": updated_at});
    json!({
        "server": {
            "name": format!("io.github.acme/server-{number}"),
            "description": "one of many",
            "version": "1.0.0",
            "remotes": [{"type": "streamable-http", "url": format!("https://example.com/{number}/mcp")}],
        },
        "_meta": {"io.modelcontextprotocol.registry/official": official},
    })
}

fn some_entry() -> Value {
    entry(1, "2026-11-01T00:00:00Z")
}

fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let url = url::Url::parse(&format!("http://stub{uri}")).unwrap();
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

#[tokio::test]
async fn ten_thousand_entries_come_page_by_page_and_none_is_missing() {
    let stub = Stub::start(|uri| {
        let start: usize = parameter(uri, "cursor").map_or(0, |cursor| {
            cursor.strip_prefix("after & before: ").unwrap().parse().unwrap()
        });
        let limit: usize = parameter(uri, "limit").unwrap().parse().unwrap();
        let time = |number: usize| format!("2026-11-{:02}T12:00:00.25Z", number % 28 + 1);
        let entries: Vec<Value> = (start..start + limit)
            .map(|number| entry(number, &time(number)))
            .collect();
        let next = start + limit;
        page(
            &entries,
            (next < 10_000)
                .then(|| format!("after & before: {next}"))
                .as_deref(),
        )
    })
    .await;
    let client = loopback_client();
    let registry = Registry::new(&client, &stub.base, RegistryLimits::default()).unwrap();
    let mut kept = Kept {
        asked: Some(Arc::clone(&stub.asked)),
        ..Kept::default()
    };
    let summary = registry.read(None, NOW, &mut kept).await.unwrap();
    let expected = Summary {
        pages: 100,
        entries: 10_000,
        skipped: 0,
        // 2026-11-28T12:00:00Z
        newest: Some(1_795_867_200),
    };
    assert_eq!(summary, expected);
    assert_eq!(kept.names.len(), 10_000);
    // Each page was handed on before the next was asked for.
    let one_by_one: Vec<(usize, usize)> = (1..=100).map(|number| (PAGE_ENTRIES, number)).collect();
    assert_eq!(kept.pages, one_by_one);
    insta::assert_snapshot!(stub.asked()[..2].join("\n"), @r#"
    /v0.1/servers?limit=100&include_deleted=true
    /v0.1/servers?limit=100&include_deleted=true&cursor=after+%26+before%3A+100
    "#);
}

#[tokio::test]
async fn a_later_reading_begins_before_the_mark() {
    let stub = Stub::start(|_| page(&[], None)).await;
    stub.read_since(Some(NOW), RegistryLimits::default())
        .await
        .0
        .unwrap();
    stub.read_since(Some(i64::MAX), RegistryLimits::default())
        .await
        .0
        .unwrap();
    assert_eq!(OVERLAP, 600);
    insta::assert_snapshot!(stub.asked().join("\n"), @r#"
    /v0.1/servers?limit=100&include_deleted=true&updated_since=2026-11-30T16%3A44%3A05Z
    /v0.1/servers?limit=100&include_deleted=true
    "#);
}

#[tokio::test]
async fn the_mark_is_never_after_the_beginning_of_the_reading() {
    let check = async |times: &'static [&'static str], expected: Option<i64>| {
        let stub = Stub::start(move |_| {
            let entries: Vec<Value> = times.iter().map(|time| entry(1, time)).collect();
            page(&entries, None)
        })
        .await;
        let (summary, _) = stub.read(RegistryLimits::default()).await;
        assert_eq!(summary.unwrap().newest, expected, "{times:?}");
    };
    check(&["2026-11-30T16:54:04Z", "2026-11-30T16:54:03Z"], Some(NOW - 1)).await;
    check(&["2026-11-30T16:54:04Z", "2026-11-30T16:54:06Z"], Some(NOW)).await;
    check(&["9999-01-01T00:00:00Z"], Some(NOW)).await;
    check(&["soon", ""], None).await;
}

#[tokio::test]
async fn a_registry_that_shrank_to_nothing_is_a_complete_reading_of_nothing() {
    let stub = Stub::start(|_| page(&[], None)).await;
    let (summary, kept) = stub.read(RegistryLimits::default()).await;
    let expected = Summary {
        pages: 1,
        ..Summary::default()
    };
    assert_eq!(summary.unwrap(), expected);
    assert_eq!(kept.pages, [(0, 0)]);
}

#[tokio::test]
async fn entries_that_can_t_be_read_are_counted() {
    let stub = Stub::start(|_| page(&[json!(7), some_entry(), json!({})], None)).await;
    let (summary, _) = stub.read(RegistryLimits::default()).await;
    let summary = summary.unwrap();
    assert_eq!((summary.entries, summary.skipped), (1, 2));
}

#[tokio::test]
async fn pages_that_lead_back_or_nowhere_end_the_reading() {
    let limits = RegistryLimits::default;
    let itself = Stub::start(|_| page(&[some_entry()], Some("again"))).await;
    insta::assert_snapshot!(itself.refusal(limits()).await, @"page 2 names a next page that was read before");
    let circle = Stub::start(|uri| {
        let next = match parameter(uri, "cursor").as_deref() {
            Some("b") => "c",
            Some("c") => "a",
            _ => "b",
        };
        page(&[some_entry()], Some(next))
    })
    .await;
    // Page 1 has no cursor of its own, so that the circle is seen when `b` is named again.
    insta::assert_snapshot!(circle.refusal(limits()).await, @"page 4 names a next page that was read before");
    let ever_new = |count: usize| {
        move |uri: &Uri| {
            let number: usize = parameter(uri, "cursor").map_or(0, |cursor| cursor.parse().unwrap());
            page(&vec![some_entry(); count], Some(&(number + 1).to_string()))
        }
    };
    let empty = Stub::start(ever_new(0)).await;
    insta::assert_snapshot!(empty.refusal(limits()).await, @r#"
    page 2 has no entry, as the one before it, and yet names a next one
    "#);
    assert_eq!(empty.asked().len(), 2);
    let endless = Stub::start(ever_new(1)).await;
    let few = RegistryLimits { pages: 3, ..limits() };
    insta::assert_snapshot!(endless.refusal(few).await, @"more than 3 pages");
    assert_eq!(endless.asked().len(), 3);
}

#[tokio::test]
async fn one_empty_page_on_the_way_is_no_end() {
    let stub = Stub::start(|uri| match parameter(uri, "cursor").as_deref() {
        None => page(&[some_entry()], Some("a")),
        Some("a") => page(&[], Some("b")),
        Some("b") => page(&[some_entry()], Some("c")),
        Some("c") => page(&[], Some("d")),
        _ => page(&[some_entry()], None),
    })
    .await;
    let summary = stub.read(RegistryLimits::default()).await.0.unwrap();
    assert_eq!((summary.pages, summary.entries), (5, 3));
}

#[tokio::test]
async fn what_is_no_registry_is_not_taken_for_an_empty_one() {
    let limits = RegistryLimits::default;
    let html = Stub::start(|_| answered(200, &[("content-type", "text/html")], "<html>Welcome</html>")).await;
    insta::assert_snapshot!(html.refusal(limits()).await, @"page 1 can't be read: it is HTML, not JSON");
    let other = Stub::start(|_| answered(200, &[], r#"{"status": "fine"}"#)).await;
    insta::assert_snapshot!(other.refusal(limits()).await, @r#"
    page 1 can't be read: it is no page of a registry: it has no `servers`
    "#);
    let half_way = Stub::start(|uri| match parameter(uri, "cursor") {
        None => page(&[some_entry()], Some("a")),
        Some(_) => answered(200, &[], "<html>Please sign in</html>"),
    })
    .await;
    let (summary, kept) = half_way.read(limits()).await;
    insta::assert_snapshot!(summary.unwrap_err(), @"page 2 can't be read: it is HTML, not JSON");
    assert_eq!(kept.pages.len(), 1);
}

#[tokio::test]
async fn a_page_has_so_many_bytes_and_all_pages_have() {
    let limits = RegistryLimits {
        page_bytes: 2_000,
        total_bytes: 3_000,
        ..RegistryLimits::default()
    };
    let endless = Stub::start(|_| {
        let chunks = stream::repeat_with(|| Ok::<_, Infallible>(vec![b' '; 512]));
        answered(200, &[], Body::from_stream(chunks))
    })
    .await;
    insta::assert_snapshot!(endless.refusal(limits.clone()).await, @"more than 2000 bytes in a page");
    let many = Stub::start(|uri| {
        let next = parameter(uri, "cursor").map_or(1, |cursor| cursor.parse::<usize>().unwrap() + 1);
        let filler = json!({"server": {"name": "a/b", "version": "1", "title": "x".repeat(1_000)}});
        page(&[filler], Some(&next.to_string()))
    })
    .await;
    insta::assert_snapshot!(many.refusal(limits).await, @"more than 3000 bytes in all");
    assert_eq!(many.asked().len(), 3);
}

#[tokio::test]
async fn a_cursor_has_so_many_bytes() {
    let check = async |bytes: usize, pages: usize| {
        let stub = Stub::start(move |uri| match parameter(uri, "cursor") {
            None => page(&[some_entry()], Some(&"c".repeat(bytes))),
            Some(_) => page(&[some_entry()], None),
        })
        .await;
        let (summary, kept) = stub.read(RegistryLimits::default()).await;
        assert_eq!(kept.pages.len(), pages);
        summary.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(check(4_096, 2).await, Ok(()));
    assert_eq!(
        check(4_097, 1).await,
        Err("more than 4096 bytes in a cursor".to_owned())
    );
}

#[tokio::test]
async fn a_page_takes_so_long_and_all_pages_take() {
    let slow = Stub::start(|_| {
        let begun = stream::iter([Ok::<_, Infallible>("{\"servers\":")]);
        answered(200, &[], Body::from_stream(begun.chain(stream::pending())))
    })
    .await;
    let page_limit = RegistryLimits {
        page_time: Duration::from_millis(50),
        ..RegistryLimits::default()
    };
    insta::assert_snapshot!(slow.refusal(page_limit).await, @"a page took longer than 50ms");
    let whole = RegistryLimits {
        whole: Duration::ZERO,
        ..RegistryLimits::default()
    };
    insta::assert_snapshot!(slow.refusal(whole).await, @"the registry took longer than 0ns");
}

#[tokio::test]
async fn a_registry_that_asks_to_come_again_later_says_when() {
    let check = async |status: u16, retry_after: Option<&'static str>, expected: u64| {
        let stub = Stub::start(move |_| {
            let headers: Vec<(&str, &str)> = retry_after
                .map(|value| ("retry-after", value))
                .into_iter()
                .collect();
            answered(status, &headers, "")
        })
        .await;
        let error = stub.read(RegistryLimits::default()).await.0.unwrap_err();
        let RegistryError::RetryLater { after } = error else {
            panic!("{error}");
        };
        assert_eq!(after, expected, "{status} {retry_after:?}");
    };
    check(429, Some("120"), 120).await;
    check(503, Some("Mon, 30 Nov 2026 16:55:05 GMT"), 60).await;
    check(503, Some("Mon, 30 Nov 2020 16:55:05 GMT"), 1).await;
    check(429, Some("0"), 1).await;
    check(429, Some("99999999999999999999999"), 86_400).await;
    check(503, Some("-5"), 60).await;
    check(503, None, 60).await;
}

#[tokio::test]
async fn an_older_registry_is_read_at_its_older_path() {
    let older = |uri: &Uri| match uri.path() {
        "/sub/v0/servers" => match parameter(uri, "cursor") {
            None => page(&[some_entry()], Some("a")),
            Some(_) => page(&[some_entry()], None),
        },
        _ => answered(404, &[], r#"{"error": "no such page"}"#),
    };
    let mut stub = Stub::start(older).await;
    let origin = stub.base.clone();
    for base in ["/sub", "/sub/", "/sub/v0", "/sub/v0.1/servers"] {
        stub.base = format!("{origin}{base}");
        stub.asked.lock().unwrap().clear();
        let summary = stub.read(RegistryLimits::default()).await.0.unwrap();
        assert_eq!(summary.entries, 2);
        let asked = stub.asked();
        let paths: Vec<&str> = asked
            .iter()
            .map(|asked| asked.split('?').next().unwrap())
            .collect();
        assert_eq!(
            paths,
            ["/sub/v0.1/servers", "/sub/v0/servers", "/sub/v0/servers"],
            "{base}"
        );
    }
    stub.base = origin;
    let refusal = stub.refusal(RegistryLimits::default()).await;
    insta::assert_snapshot!(refusal, @r#"it answered with status 404: "no such page""#);
}

#[tokio::test]
async fn a_page_that_is_gone_half_way_is_an_error() {
    let stub = Stub::start(|uri| match parameter(uri, "cursor") {
        None => page(&[some_entry()], Some("a")),
        Some(_) => answered(404, &[], ""),
    })
    .await;
    insta::assert_snapshot!(stub.refusal(RegistryLimits::default()).await, @"it answered with status 404");
    assert_eq!(stub.asked().len(), 2);
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let check = async |location: &'static str, expected: &str| {
        let stub = Stub::start(move |_| answered(308, &[("location", location)], "")).await;
        let error = stub.read(RegistryLimits::default()).await.0.unwrap_err();
        let RegistryError::Redirected { status: 308, to } = error else {
            panic!("{error}");
        };
        assert_eq!(to.replace(&stub.base, "<base>"), expected);
        assert_eq!(stub.asked().len(), 1);
    };
    check(
        "https://user:hidden@registry.example.com/v0.1/servers?token=hidden#x",
        "https://registry.example.com/v0.1/servers",
    )
    .await;
    check("/elsewhere?limit=100", "<base>/elsewhere").await;
    check("http://[/?token=hidden", "http://[/").await;
    let nowhere = Stub::start(|_| answered(302, &[], "")).await;
    insta::assert_snapshot!(nowhere.refusal(RegistryLimits::default()).await, @"it answered with status 302");
}

#[tokio::test]
async fn a_refusal_is_told_in_the_registrys_words() {
    let check = async |body: &'static str, expected: &str| {
        let stub = Stub::start(move |_| answered(403, &[], body)).await;
        assert_eq!(stub.refusal(RegistryLimits::default()).await, expected);
    };
    check(
        r#"{"error": "members\u001b[2J only"}"#,
        "it answered with status 403: \"members\\u{1b}[2J only\"",
    )
    .await;
    check(
        r#"{"title": "Forbidden", "detail": "no"}"#,
        "it answered with status 403: \"no\"",
    )
    .await;
    check("<html>", "it answered with status 403").await;
}

#[tokio::test]
async fn an_address_that_may_not_be_contacted_is_not() {
    let stub = Stub::start(|_| page(&[], None)).await;
    install_tls_provider();
    let client = GuardedClient::new(&[], true).unwrap();
    let registry = Registry::new(&client, &stub.base, RegistryLimits::default()).unwrap();
    let error = registry.read(None, NOW, &mut Kept::default()).await.unwrap_err();
    insta::assert_snapshot!(error, @"blocked address (loopback 127.0.0.0/8)");
    assert_eq!(stub.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn what_can_t_be_kept_ends_the_reading() {
    let stub = Stub::start(|_| page(&[some_entry()], Some("a"))).await;
    let client = loopback_client();
    let base = stub.base.clone();
    // In a task of its own, as a schedule does it.
    let read = tokio::spawn(async move {
        let registry = Registry::new(&client, &base, RegistryLimits::default()).unwrap();
        let mut full = Kept {
            is_full: true,
            ..Kept::default()
        };
        registry.read(None, NOW, &mut full).await
    });
    let error = read.await.unwrap().unwrap_err();
    assert!(matches!(error, RegistryError::NotKept(_)), "{error}");
    assert_eq!(stub.asked().len(), 1);
}

#[test]
fn an_address_is_that_of_a_registry_or_says_why_not() {
    let client = loopback_client();
    let check = |base: &str, expected: &str| {
        let error = Registry::new(&client, base, RegistryLimits::default())
            .err()
            .unwrap();
        assert_eq!(error.to_string(), expected);
    };
    check(
        "registry",
        "`registry` can't be a registry's address: it is no URL",
    );
    check(
        "ftp://r.example",
        "`ftp://r.example` can't be a registry's address: it is no http(s) URL",
    );
    check(
        "https://user:hidden@r.example/v0.1",
        "`https://r.example/v0.1` can't be a registry's address: it holds a user name or password",
    );
    check(
        "https://r.example/?token=hidden",
        "`https://r.example/` can't be a registry's address: it has a query or a fragment",
    );
}

#[test]
fn the_limits_are_those_that_are_promised() {
    let limits = RegistryLimits::default();
    assert_eq!(limits.pages, 10_000);
    assert_eq!(limits.page_bytes, 8 << 20);
    assert_eq!(limits.total_bytes, 2 << 30);
    assert_eq!(limits.cursor_bytes, 4_096);
    assert_eq!(limits.page_time, Duration::from_secs(30));
    assert_eq!(limits.whole, Duration::from_secs(4 * 3_600));
}
