//! What follows from what a registry says: who is followed, what is not, and that nothing ends but by an entry's own word.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mcpindex_contract::outcome::Outcome;
use mcpindex_crawler::event::Event;
use mcpindex_store::sources::Coverage;
use mcpindex_store::testing::on_each_backend;

use crate::desk::{Desk, NOW};

/// A registry that says what it is told to say, and remembers what it was asked.
#[derive(Clone, Default)]
struct Stub {
    says: Arc<Mutex<(u16, String)>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    async fn start() -> (Stub, String) {
        let stub = Stub::default();
        let router = Router::new()
            .route("/v0.1/servers", get(answer))
            .with_state(stub.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, router).into_future());
        (stub, address)
    }

    fn says(&self, status: u16, body: String) {
        *self.says.lock().unwrap() = (status, body);
    }

    fn lists(&self, entries: &[String]) {
        self.says(
            200,
            format!(
                r#"{{"servers":[{}],"metadata":{{"count":1}}}}"#,
                entries.join(",")
            ),
        );
    }
}

async fn answer(State(stub): State<Stub>, uri: Uri) -> Response {
    stub.asked
        .lock()
        .unwrap()
        .push(uri.query().unwrap_or_default().to_owned());
    let (status, body) = stub.says.lock().unwrap().clone();
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn entry(name: &str, version: &str, status: &str, changed: &str, how: &str) -> String {
    format!(
        r#"{{"server":{{"name":"{name}","description":"x","version":"{version}",{how}}},
            "_meta":{{"io.modelcontextprotocol.registry/official":{{"status":"{status}","isLatest":true,"updatedAt":"{changed}"}}}}}}"#
    )
}

const CHANGED: &str = "2026-01-02T03:04:05Z";

fn remote(address: &str) -> String {
    format!(r#""remotes":[{{"type":"streamable-http","url":"{address}/mcp"}}]"#)
}

/// An hour and a bit later: reads the registry, and then looks at what is due because of it.
async fn read(desk: &mut Desk) -> (usize, i64, i64, Option<String>) {
    for _ in 0..2 {
        desk.later(1_900);
        desk.crawl().await;
    }
    let mut read = None;
    while let Ok(event) = desk.events.try_recv() {
        if let Event::Read(told) = event {
            read = Some((told.entries, told.new, told.dropped, told.problem));
        }
    }
    read.expect("it was read")
}

#[tokio::test]
async fn what_a_registry_lists_is_followed_and_what_it_calls_deleted_is_not() {
    on_each_backend(async |store| {
        let (stub, address) = Stub::start().await;
        let mut desk = Desk::with(&store, |settings| settings.registries = Some(vec![address.clone()]));
        stub.lists(&[
            entry("com.example/remote", "1.0.0", "active", CHANGED, &remote(&address)),
            entry(
                "com.example/image",
                "1.0.0",
                "deprecated",
                CHANGED,
                r#""packages":[{"registryType":"oci","identifier":"docker.io/example/image:1.0.0","transport":{"type":"stdio"}}]"#,
            ),
            entry(
                "com.example/keyed",
                "1.0.0",
                "active",
                CHANGED,
                r#""remotes":[{"type":"streamable-http","url":"https://keyed.example.com/mcp","headers":[{"name":"X-Key","isRequired":true,"isSecret":true}]}]"#,
            ),
            entry("com.example/other", "1.0.0", "active", CHANGED, r#""packages":[{"registryType":"nuget","identifier":"Other","version":"1.0.0","transport":{"type":"stdio"}}]"#),
            r#"{"server":{"name":"broken"}}"#.to_owned(),
        ]);
        assert_eq!(read(&mut desk).await, (4, 3, 0, None));

        let (source, coverage) = store.sources().await.unwrap().remove(0);
        assert_eq!(
            coverage,
            Coverage {
                servers: 4,
                deleted: 0,
                deprecated: 1,
                targets: 1,
                needs_config: 1,
                needs_container: 1,
                unsupported: 1,
                refused: 0,
            }
        );
        assert_eq!((source.skipped, source.problem), (1, None));
        assert!(source.read_at.is_some());
        let state = async |name: &str| store.find_server(name).await.unwrap().unwrap().outcome;
        assert_eq!(state("com.example/remote").await, Some(Outcome::NotMcp));
        assert_eq!(state("com.example/image").await, Some(Outcome::NeedsContainerRuntime));
        assert_eq!(state("com.example/keyed").await, Some(Outcome::NeedsConfig));
        let keyed = store.find_server("com.example/keyed").await.unwrap().unwrap();
        assert!(keyed.detail.unwrap().contains("X-Key"));

        stub.lists(&[entry(
            "com.example/remote",
            "1.0.0",
            "deleted",
            "2026-01-03T00:00:00Z",
            &remote(&address),
        )]);
        assert_eq!(read(&mut desk).await, (1, 0, 1, None));
        assert!(stub.asked.lock().unwrap()[1].contains("updated_since=2026-01-02T02%3A54%3A05Z"));
        assert!(store.find_server("com.example/remote").await.unwrap().is_some(), "what is known stays");
        assert_eq!(store.sources().await.unwrap()[0].1.deleted, 1);
    })
    .await;
}

#[tokio::test]
async fn a_registry_that_breaks_or_shrinks_to_nothing_ends_nothing() {
    on_each_backend(async |store| {
        let (stub, address) = Stub::start().await;
        let mut desk = Desk::with(&store, |settings| {
            settings.registries = Some(vec![address.clone()]);
        });
        stub.lists(&[entry(
            "com.example/remote",
            "1.0.0",
            "active",
            CHANGED,
            &remote(&address),
        )]);
        read(&mut desk).await;
        let followed = async || store.targets(None).await.unwrap().len();
        assert_eq!(followed().await, 1);

        let mut check = async |expected: Option<&str>| {
            let (_, _, dropped, problem) = read(&mut desk).await;
            assert_eq!((dropped, problem.as_deref()), (0, expected));
            assert_eq!(followed().await, 1);
        };
        stub.says(200, "<html>maintenance</html>".to_owned());
        check(Some("page 1 can't be read: it is HTML, not JSON")).await;
        stub.says(503, String::new());
        check(Some("it asks to come again in 60 s")).await;
        stub.lists(&[]);
        check(None).await;
    })
    .await;
}

#[tokio::test]
async fn a_source_is_read_by_one_at_a_time_and_a_stale_reader_takes_nothing() {
    on_each_backend(async |store| {
        let address = "https://registry.example.com".to_owned();
        store
            .keep_sources(std::slice::from_ref(&address), 3_600, NOW)
            .await
            .unwrap();
        let (_, first) = store.claim_source("one", NOW, 10).await.unwrap().unwrap();
        assert!(store.claim_source("two", NOW, 10).await.unwrap().is_none());
        let (_, second) = store.claim_source("two", NOW + 11, 10).await.unwrap().unwrap();
        let stale = store
            .take_entries(&first, &[], NOW + 30, NOW + 12)
            .await
            .unwrap_err();
        assert_eq!(
            stale.to_string(),
            "the reading of https://registry.example.com was lost to another worker"
        );
        store
            .take_entries(&second, &[], NOW + 30, NOW + 12)
            .await
            .unwrap();

        let dropped = store.keep_sources(&[], 3_600, NOW).await.unwrap();
        assert_eq!(dropped, [address]);
        assert!(
            store
                .take_entries(&second, &[], NOW + 40, NOW + 13)
                .await
                .is_err()
        );
    })
    .await;
}
