//! What the crawl is doing, on its page and as data, on both databases.

use insta::{assert_json_snapshot, assert_snapshot};
use mcpindex_contract::identity::Identity;
use mcpindex_store::Store;
use mcpindex_store::sources::{Coverage, ReadingEnd, SourceEntry};
use mcpindex_store::targets::NewTarget;
use mcpindex_store::testing::on_each_backend;

use crate::client::{Client, NOW};
use crate::pages::read;

const ADDRESS: &str = "https://registry.example.com";

fn target(reference: &str, source: &str, due: i64) -> NewTarget {
    NewTarget {
        identity: Identity::from_reference(reference).unwrap().identity,
        version: None,
        launch: "{}".to_owned(),
        source: source.to_owned(),
        every: Some(3_600),
        due,
    }
}

/// One look under way, one that waits, and a registry that told of a server and then broke.
async fn crawl(store: &Store) {
    store
        .add_target(&target("npm:running", "shell", NOW - 9), NOW)
        .await
        .unwrap();
    store.claim_targets("worker", NOW, 60, 1, None).await.unwrap();
    store
        .add_target(&target("npm:waiting", "list", NOW - 5), NOW)
        .await
        .unwrap();
    store
        .keep_sources(&[ADDRESS.to_owned()], 3_600, NOW - 7_200)
        .await
        .unwrap();
    let (_, reading) = store
        .claim_source("worker", NOW - 7_200, 60)
        .await
        .unwrap()
        .unwrap();
    let entry = SourceEntry {
        name: "com.example/listed".to_owned(),
        version: "1.0.0".to_owned(),
        status: "deprecated",
        updated_at: Some(NOW - 9_000),
        targets: vec![target("https://listed.example.com/mcp", ADDRESS, NOW + 60)],
        coverage: Coverage {
            targets: 1,
            unsupported: 2,
            ..Coverage::default()
        },
    };
    store
        .take_entries(&reading, &[entry], NOW - 7_000, NOW - 7_100)
        .await
        .unwrap();
    let complete = ReadingEnd::Complete {
        mark: Some(NOW - 9_000),
        whole: true,
        skipped: 3,
    };
    store
        .finish_reading(&reading, &complete, NOW - 60, NOW - 7_000)
        .await
        .unwrap();
    let (_, reading) = store.claim_source("worker", NOW - 50, 60).await.unwrap().unwrap();
    let failed = ReadingEnd::Failed {
        problem: "page 1 can't be read: it is HTML, not JSON".to_owned(),
    };
    store
        .finish_reading(&reading, &failed, NOW + 60, NOW - 40)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_crawl_is_shown_as_it_is_and_as_data() {
    on_each_backend(async |store| {
        crawl(&store).await;
        let client = Client(store);
        assert_json_snapshot!("crawl", client.ok("/api/v1/crawl").await.json());
        assert_snapshot!("crawl_page", read(&client.ok("/crawl").await.text()));
    })
    .await;
}

#[tokio::test]
async fn a_crawl_of_nothing_says_how_to_begin() {
    on_each_backend(async |store| {
        let page = Client(store).ok("/crawl").await.text();
        assert!(page.contains("Nothing is followed yet."), "{page}");
    })
    .await;
}
