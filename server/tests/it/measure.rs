//! `/metrics`: what Prometheus reads, who may, and that nothing of what requests bring along becomes a series.
//!
//! The numbers belong to the process, so other tests move them too: what is checked is what is there, or that it grew.

use axum::http::Method;
use mcpindex_server::access::Read;
use mcpindex_store::accounts::{Role, Scope};
use mcpindex_store::testing::TestStore;

use crate::access::{self, Index, key};
use crate::client::{Client, NOW};
use crate::programs::Place;

/// The value of a series; 0 where there is none yet.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0.0, |value| value.trim().parse().unwrap())
}

#[tokio::test]
async fn requests_are_counted_by_route_method_and_class() {
    let database = TestStore::sqlite().await;
    let client = Client(database.store.clone());
    let found =
        r#"mcpindex_http_requests_total{route="/api/v1/servers/{identity}",method="GET",status="4xx"}"#;
    let before = value(&client.ok("/metrics").await.text(), found);
    client.get("/api/v1/servers/npm:a-name-of-mine").await;
    client.get("/api/v1/servers/npm:another").await;
    let text = client.ok("/metrics").await.text();
    assert!(value(&text, found) >= before + 2.0, "{text}");
    let timed =
        r#"mcpindex_http_request_duration_seconds_count{route="/api/v1/servers/{identity}",method="GET"}"#;
    assert!(value(&text, timed) >= 2.0, "{text}");
}

#[tokio::test]
async fn what_a_request_brings_along_is_in_no_series() {
    let database = TestStore::sqlite().await;
    let client = Client(database.store.clone());
    client.get("/api/v1/servers/npm:marked-word").await;
    client.get("/marked-word/marked-word").await;
    client.get("/servers?search=marked-word").await;
    let odd = Method::from_bytes(b"MARKED-WORD").unwrap();
    client
        .send(
            odd,
            "/",
            &[("x-request-id", "marked-word"), ("host", "marked-word")],
        )
        .await;
    let text = client.ok("/metrics").await.text();
    assert!(!text.to_lowercase().contains("marked-word"), "{text}");
    assert!(
        text.contains(r#"route="none""#) && text.contains(r#"method="other""#),
        "{text}"
    );
}

#[tokio::test]
async fn every_name_has_its_line_and_keeps_to_the_conventions() {
    let database = TestStore::sqlite().await;
    let client = Client(database.store.clone());
    client.ok("/metrics").await;
    let answer = client.ok("/metrics").await;
    assert_eq!(
        answer.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    assert_eq!(answer.header("cache-control"), "no-store");
    let text = answer.text();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, sort) = line.split_once(' ').unwrap();
        assert!(
            text.contains(&format!("# HELP {name} ")),
            "{name} is not described"
        );
        let ends = match sort {
            "counter" => name.ends_with("_total"),
            "histogram" => name.ends_with("_seconds"),
            "gauge" => !name.ends_with("_total"),
            other => panic!("{name}: a {other} has no buckets to be added up over replicas"),
        };
        assert!(ends, "{name} is a {sort}");
    }
    assert!(value(&text, "process_start_time_seconds") > 1.7e9, "{text}");
}

#[tokio::test]
async fn a_members_only_index_tells_its_numbers_to_admins_alone() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let index = Index::start(store, Read::Members, false);
    assert_eq!(index.get("/metrics").await.status, 401);
    let reader: access::Key = key(store, &[Scope::Read, Scope::Ingest]).await;
    assert_eq!(index.get_with(&reader.text, "/metrics").await.status, 403);
    let admin = key(store, &[Scope::Admin]).await;
    store
        .set_role(admin.record.account, Role::Admin, NOW)
        .await
        .unwrap();
    let answer = index.get_with(&admin.text, "/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.header("cache-control").contains("no-store"));
    index.stop().await;
}

#[tokio::test]
async fn an_admin_key_of_somebody_who_is_no_admin_any_more_opens_no_numbers() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let index = Index::start(store, Read::Members, false);
    let other = access::account(store, "grace").await;
    store.set_role(other.id, Role::Admin, NOW).await.unwrap();
    let admin = key(store, &[Scope::Admin]).await;
    store
        .set_role(admin.record.account, Role::Admin, NOW)
        .await
        .unwrap();
    assert_eq!(index.get_with(&admin.text, "/metrics").await.status, 200);
    store
        .set_role(admin.record.account, Role::Member, NOW)
        .await
        .unwrap();
    index.clock.pass(30);
    assert_eq!(index.get_with(&admin.text, "/metrics").await.status, 403);
    index.stop().await;
}

#[tokio::test]
async fn a_server_counts_what_it_takes_in_unless_that_is_switched_off() {
    let place = Place::new();
    let served = place.serve(&["--no-crawl"]).await;
    let post = crate::programs::client().post(format!("{}/api/v1/drift", served.base));
    let refused = post
        .header("content-type", "application/json")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 400);
    let (status, text) = served.get("metrics").await;
    assert_eq!(status, 200);
    let refused = r#"mcpindex_ingest_batches_total{kind="signals",outcome="refused"}"#;
    assert_eq!(value(&text, refused), 1.0, "{text}");
    assert_eq!(
        value(&text, r#"mcpindex_ingest_waiting_items{kind="signals"}"#),
        0.0
    );
    assert_eq!(served.terminate().await, Some(0));

    let config = place.write("mcpindex.toml", "[server]\nmetrics = \"off\"\n");
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    assert_eq!(served.get("metrics").await.0, 404);
    assert_eq!(served.terminate().await, Some(0));
}
