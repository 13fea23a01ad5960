//! Drifts from a place in the timeline, also when that place is in the middle.

use mcpindex_store::testing::on_each_backend;

use crate::fixture::{add, changes, identity, look, record, story, surface, with_instructions};

#[tokio::test]
async fn versions_observed_in_order_tell_their_story() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", surface(&[("echo", "one")]))).await;
        let second = record(
            &store,
            &look("npm:a", "1.1", surface(&[("echo", "two"), ("sum", "adds")])),
        )
        .await;
        assert_eq!((second.changes, second.compared), (2, true));
        let same = record(
            &store,
            &look("npm:a", "1.2", surface(&[("echo", "two"), ("sum", "adds")])),
        )
        .await;
        assert_eq!((same.drift, same.changes, same.compared), (None, 0, true));
        let third = with_instructions(surface(&[("sum", "adds")]), "hello");
        record(&store, &look("npm:a", "2.0", third)).await;
        assert_eq!(
            story(&store, "npm:a").await,
            [
                "1.2→2.0: instructions-added instructions, tool-removed tool echo",
                "1.0→1.1: description-only tool echo, tool-added tool sum",
            ]
        );
        assert_eq!(store.count_drifts().await.unwrap(), 2);
        assert_eq!(store.find_server("npm:a").await.unwrap().unwrap().drifts, 2);
    })
    .await;
}

#[tokio::test]
async fn a_version_observed_later_takes_its_place_in_the_middle() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", surface(&[("a", "d")]))).await;
        let coarse = record(
            &store,
            &look("npm:a", "3.0", surface(&[("a", "d"), ("b", "d"), ("c", "d")])),
        )
        .await;
        assert_eq!(coarse.changes, 2);

        let middle = record(&store, &look("npm:a", "2.0", surface(&[("a", "d"), ("b", "d")]))).await;
        assert_eq!(
            changes(&store, middle.drift.unwrap()).await,
            ["tool-added tool b"]
        );
        assert_eq!(
            story(&store, "npm:a").await,
            ["2.0→3.0: tool-added tool c", "1.0→2.0: tool-added tool b"]
        );
        assert_eq!(store.count_drifts().await.unwrap(), 2);

        let (replaced, coarse_changes) = store.drift(coarse.drift.unwrap()).await.unwrap().unwrap();
        assert!(replaced.replaced);
        assert_eq!(coarse_changes.len(), 2);
        // What is declared now is still the newest version.
        assert_eq!(
            store
                .find_server("npm:a")
                .await
                .unwrap()
                .unwrap()
                .current_version
                .as_deref(),
            Some("3.0")
        );
    })
    .await;
}

#[tokio::test]
async fn a_history_is_the_same_in_whatever_order_it_is_observed() {
    on_each_backend(async |store| {
        let versions = [
            ("1.0", surface(&[("a", "one")])),
            ("1.1", surface(&[("a", "one"), ("b", "one")])),
            ("1.2", surface(&[("a", "one"), ("b", "one")])),
            ("1.3", surface(&[("a", "two"), ("b", "one")])),
        ];
        let mut stories = Vec::new();
        for (number, order) in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]]
            .iter()
            .enumerate()
        {
            let server = format!("npm:server-{number}");
            add(&store, &server).await;
            for index in order {
                let (version, declared) = &versions[*index];
                record(&store, &look(&server, version, declared.clone())).await;
            }
            stories.push(story(&store, &server).await);
        }
        let expected = ["1.2→1.3: description-only tool a", "1.0→1.1: tool-added tool b"];
        for told in stories {
            assert_eq!(told, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn the_oldest_version_observed_last_is_compared_with_the_next() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "2.0", surface(&[("a", "d")]))).await;
        let oldest = record(&store, &look("npm:a", "1.0", surface(&[]))).await;
        assert_eq!((oldest.drift, oldest.compared), (None, false));
        assert_eq!(story(&store, "npm:a").await, ["1.0→2.0: tool-added tool a"]);
    })
    .await;
}

#[tokio::test]
async fn an_old_version_looked_at_again_without_news_replaces_nothing() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", surface(&[]))).await;
        let drift = record(&store, &look("npm:a", "2.0", surface(&[("a", "d")])))
            .await
            .drift
            .unwrap();
        record(&store, &look("npm:a", "1.0", surface(&[]))).await;
        let (standing, _) = store.drift(drift).await.unwrap().unwrap();
        assert!(!standing.replaced);
        // The next version that comes between them replaces it all the same.
        record(&store, &look("npm:a", "1.5", surface(&[("a", "e")]))).await;
        assert!(store.drift(drift).await.unwrap().unwrap().0.replaced);
        assert_eq!(
            story(&store, "npm:a").await,
            ["1.5→2.0: description-only tool a", "1.0→1.5: tool-added tool a",]
        );
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_taken_back_in_between_is_two_drifts() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", surface(&[("a", "d")]))).await;
        record(&store, &look("npm:a", "3.0", surface(&[("a", "d")]))).await;
        assert_eq!(store.count_drifts().await.unwrap(), 0);
        record(&store, &look("npm:a", "2.0", surface(&[("a", "bad")]))).await;
        assert_eq!(
            story(&store, "npm:a").await,
            [
                "2.0→3.0: description-only tool a",
                "1.0→2.0: description-only tool a",
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn duplicate_names_in_another_order_are_no_drift() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(
            &store,
            &look("npm:a", "1.0", surface(&[("t", "one"), ("t", "two"), ("u", "d")])),
        )
        .await;
        let turned = surface(&[("u", "d"), ("t", "two"), ("t", "one")]);
        assert_eq!(record(&store, &look("npm:a", "1.1", turned)).await.drift, None);
        let changed = surface(&[("t", "one"), ("t", "three"), ("u", "d")]);
        let drift = record(&store, &look("npm:a", "1.2", changed))
            .await
            .drift
            .unwrap();
        assert_eq!(changes(&store, drift).await, ["description-only tool t"]);
        let read = store.surface(1).await.unwrap().unwrap();
        assert_eq!(read.members.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn drifts_of_all_servers_are_paged_newest_first_and_those_of_one_in_its_timeline() {
    on_each_backend(async |store| {
        for (server, versions) in [("npm:a", ["1.0", "3.0", "2.0"]), ("npm:b", ["1.0", "2.0", "3.0"])] {
            add(&store, server).await;
            for version in versions {
                record(&store, &look(server, version, surface(&[("t", version)]))).await;
            }
        }
        let ids = async |identity: Option<&str>| {
            let mut pages = Vec::new();
            let mut before = None;
            loop {
                let page = store.drifts(identity, before, 3).await.unwrap();
                before = page.last().map(|drift| drift.id);
                pages.push(page.iter().map(|drift| drift.id).collect::<Vec<_>>());
                if page.is_empty() {
                    return pages;
                }
            }
        };
        // 1 was replaced by 2 and 3 when version 2.0 came between its two sides.
        assert_eq!(ids(None).await, [vec![5, 4, 3], vec![2], vec![]]);
        assert_eq!(
            ids(Some(&identity("npm:a").to_string())).await,
            [vec![3, 2], vec![]]
        );
        assert_eq!(ids(Some("npm:c")).await, [Vec::<i64>::new()]);
    })
    .await;
}

#[tokio::test]
async fn a_drift_has_the_standing_drifts_around_it_as_neighbours() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        add(&store, "npm:b").await;
        let observe = async |version: &str| {
            record(&store, &look("npm:b", version, surface(&[("t", version)]))).await;
            record(&store, &look("npm:a", version, surface(&[("t", version)])))
                .await
                .drift
        };
        assert_eq!(observe("1.0").await, None);
        let coarse = observe("1.3").await.unwrap();
        let last = observe("1.4").await.unwrap();
        assert_eq!(store.drift_neighbours(coarse).await.unwrap(), (None, Some(last)));
        // Two versions between: the coarse drift is replaced by three.
        let first = observe("1.1").await.unwrap();
        let second = observe("1.2").await.unwrap();
        let third = store.drifts(Some("npm:a"), None, 9).await.unwrap()[1].id;
        for (drift, neighbours) in [
            (first, (None, Some(second))),
            (second, (Some(first), Some(third))),
            (third, (Some(second), Some(last))),
            (last, (Some(third), None)),
            (coarse, (Some(third), Some(last))),
            (9_999, (None, None)),
        ] {
            assert_eq!(
                store.drift_neighbours(drift).await.unwrap(),
                neighbours,
                "of {drift}"
            );
        }
    })
    .await;
}
