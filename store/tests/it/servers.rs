//! Servers, aliases, search, paging and counts.

use mcpindex_contract::outcome::Outcome;
use mcpindex_store::servers::{ServerFilter, StandingFilter};
use mcpindex_store::testing::on_each_backend;
use mcpindex_store::{Store, StoreError};

use crate::fixture::{START, add, failed_look, identity, look, record, surface};

async fn found(store: &Store, filter: ServerFilter) -> Vec<String> {
    let filter = ServerFilter {
        limit: if filter.limit == 0 { 100 } else { filter.limit },
        ..filter
    };
    store
        .servers(&filter)
        .await
        .unwrap()
        .into_iter()
        .map(|server| server.identity)
        .collect()
}

#[tokio::test]
async fn a_server_is_added_once_and_found_by_identity_short_id_and_alias() {
    on_each_backend(async |store| {
        let server = identity("npm:@example/files");
        assert!(store.add_server(&server, START).await.unwrap());
        assert!(!store.add_server(&server, START + 1).await.unwrap());
        store
            .add_alias("io.example/files", &server, "registry", START)
            .await
            .unwrap();
        store
            .add_alias("io.example/files", &server, "registry", START)
            .await
            .unwrap();
        store
            .add_alias("io.example/a", &server, "registry", START)
            .await
            .unwrap();
        for reference in ["npm:@example/files", &server.short_id(), "io.example/files"] {
            let found = store.find_server(reference).await.unwrap().unwrap();
            assert_eq!(found.identity, "npm:@example/files");
            assert_eq!(found.short_id, server.short_id());
            assert_eq!(found.form, "npm");
            assert_eq!(found.aliases, ["io.example/a", "io.example/files"]);
            assert_eq!(found.added_at, START);
            assert_eq!(
                (found.outcome, found.looked_at, found.tools, found.drifts),
                (None, None, None, 0)
            );
        }
        assert_eq!(store.find_server("npm:@example").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn an_alias_of_several_servers_gives_the_first_and_one_of_none_is_refused() {
    on_each_backend(async |store| {
        let (first, second) = (identity("npm:a"), identity("pypi:a"));
        add(&store, "pypi:a").await;
        let refused = store
            .add_alias("io.example/a", &first, "registry", START)
            .await
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "refused: no server `npm:a` is known, add it first"
        );
        store
            .add_alias("io.example/a", &second, "registry", START)
            .await
            .unwrap();
        add(&store, "npm:a").await;
        store
            .add_alias("io.example/a", &first, "registry", START)
            .await
            .unwrap();
        assert_eq!(
            store.find_server("io.example/a").await.unwrap().unwrap().identity,
            "npm:a"
        );
    })
    .await;
}

#[tokio::test]
async fn servers_are_searched_literally_whatever_the_case_and_paged_by_identity() {
    on_each_backend(async |store| {
        for reference in ["npm:b_x", "npm:a", "npm:bax", "https://mcp.example/B", "pypi:c"] {
            add(&store, reference).await;
        }
        store
            .add_alias("Com.Example/Weather", &identity("pypi:c"), "registry", START)
            .await
            .unwrap();
        let search = |text: &str| ServerFilter {
            search: Some(text.to_owned()),
            ..ServerFilter::default()
        };
        assert_eq!(
            found(&store, ServerFilter::default()).await,
            ["https://mcp.example/B", "npm:a", "npm:b_x", "npm:bax", "pypi:c"]
        );
        assert_eq!(found(&store, search("B_X")).await, ["npm:b_x"]);
        assert_eq!(found(&store, search("weather")).await, ["pypi:c"]);
        assert_eq!(
            found(&store, search("EXAMPLE/b")).await,
            ["https://mcp.example/B"]
        );
        assert_eq!(found(&store, search("%")).await, Vec::<String>::new());
        assert_eq!(found(&store, search("\\")).await, Vec::<String>::new());
        assert_eq!(
            found(&store, search(&"a".repeat(100_000))).await,
            Vec::<String>::new()
        );

        let mut pages = Vec::new();
        let mut after = None;
        loop {
            let page = found(
                &store,
                ServerFilter {
                    after,
                    limit: 2,
                    ..ServerFilter::default()
                },
            )
            .await;
            after = page.last().cloned();
            pages.push(page.len());
            if page.is_empty() {
                break;
            }
        }
        assert_eq!(pages, [2, 2, 1, 0]);
        let none = ServerFilter {
            limit: -1,
            ..ServerFilter::default()
        };
        assert_eq!(store.servers(&none).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn servers_are_counted_and_listed_by_how_they_stand() {
    on_each_backend(async |store| {
        for reference in ["npm:a", "npm:b", "npm:c", "npm:d"] {
            add(&store, reference).await;
        }
        record(&store, &look("npm:b", "1.0", surface(&[("t", "d"), ("u", "d")]))).await;
        record(&store, &failed_look("npm:c", "1.0", Outcome::Crashed)).await;
        assert_eq!(
            store.count_by_outcome().await.unwrap(),
            [(None, 2), (Some(Outcome::Ok), 1), (Some(Outcome::Crashed), 1)]
        );
        let crashed = ServerFilter {
            standing: StandingFilter::Outcome(Outcome::Crashed),
            ..ServerFilter::default()
        };
        assert_eq!(found(&store, crashed).await, ["npm:c"]);
        let pending = ServerFilter {
            standing: StandingFilter::Pending,
            ..ServerFilter::default()
        };
        assert_eq!(found(&store, pending.clone()).await, ["npm:a", "npm:d"]);
        let pending_after = ServerFilter {
            after: Some("npm:a".to_owned()),
            ..pending
        };
        assert_eq!(found(&store, pending_after).await, ["npm:d"]);
        let ok = ServerFilter {
            standing: StandingFilter::Outcome(Outcome::Ok),
            search: Some("npm".to_owned()),
            after: None,
            limit: 9,
        };
        let ok = store.servers(&ok).await.unwrap();
        assert_eq!(
            (ok.len(), ok[0].tools, ok[0].current_version.as_deref()),
            (1, Some(2), Some("1.0"))
        );
        let crashed = store.find_server("npm:c").await.unwrap().unwrap();
        assert_eq!(
            (crashed.tools, crashed.detail.as_deref()),
            (None, Some("because of crashed"))
        );
    })
    .await;
}

#[tokio::test]
async fn an_identity_too_long_for_an_index_is_refused_on_both() {
    on_each_backend(async |store| {
        let longest = identity(&format!("https://mcp.example/{}", "x".repeat(1_480)));
        store.add_server(&longest, START).await.unwrap();
        let too_long = identity(&format!("https://mcp.example/{}", "x".repeat(1_481)));
        let refused = store.add_server(&too_long, START).await.unwrap_err();
        assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    })
    .await;
}
