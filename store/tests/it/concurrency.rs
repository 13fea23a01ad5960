//! Many at once: each target claimed once, no write transaction refused, one timeline.

use std::collections::BTreeSet;

use mcpindex_store::Store;
use mcpindex_store::observations::Finish;
use mcpindex_store::targets::NewTarget;
use mcpindex_store::testing::{TestStore, on_each_backend, on_each_database};
use tokio::task::JoinSet;

use crate::fixture::{START, add, identity, look, record, story, surface, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_workers_claim_two_hundred_targets_each_once() {
    on_each_backend(async |store| {
        for number in 0..200 {
            let once = NewTarget {
                every: None,
                ..target(&format!("npm:server-{number}"))
            };
            store.add_target(&once, START).await.unwrap();
        }
        let mut workers = JoinSet::new();
        for worker in 0..8 {
            workers.spawn(claim_all(store.clone(), format!("worker {worker}")));
        }
        let claimed: Vec<Vec<i64>> = workers.join_all().await;
        let all: Vec<i64> = claimed.into_iter().flatten().collect();
        assert_eq!(all.len(), 200);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 200);
        let progress = store.progress().await.unwrap();
        assert_eq!((progress.total, progress.done), (200, 200));
    })
    .await;
}

/// Claims and finishes until nothing is due.
async fn claim_all(store: Store, worker: String) -> Vec<i64> {
    let mut ids = Vec::new();
    loop {
        let claimed = store.claim_targets(&worker, START, 60, 7, None).await.unwrap();
        if claimed.is_empty() && store.next_due().await.unwrap().is_none_or(|due| due > START) {
            return ids;
        }
        for (target, lease) in claimed {
            let mut observation = look("npm:x", "1.0", surface(&[("shared", "by all")]));
            observation.identity = target.identity;
            store
                .record_observation(&observation, Some(Finish { lease, due: None }))
                .await
                .unwrap();
            ids.push(target.id);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_write_transactions_from_two_programs_all_succeed() {
    on_each_database(async |database| {
        let other = Store::open(&database.location).await.unwrap();
        let mut writers = JoinSet::new();
        for task in 0..8 {
            let store = if task % 2 == 0 {
                database.store.clone()
            } else {
                other.clone()
            };
            writers.spawn(async move {
                let server = format!("npm:server-{task}");
                add(&store, &server).await;
                for number in 0..25 {
                    let version = format!("1.{number:02}");
                    record(&store, &look(&server, &version, surface(&[("t", &version)]))).await;
                }
            });
        }
        writers.join_all().await;
        assert_eq!(database.store.count_drifts().await.unwrap(), 8 * 24);
        other.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn versions_of_one_server_recorded_at_once_make_one_timeline() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let mut writers = JoinSet::new();
        for number in [5, 1, 4, 0, 3, 7, 2, 6] {
            let store = store.clone();
            writers.spawn(async move {
                let version = format!("1.{number}");
                record(&store, &look("npm:a", &version, surface(&[("t", &version)]))).await;
            });
        }
        writers.join_all().await;
        let expected: Vec<String> = (0..7)
            .rev()
            .map(|number| format!("1.{number}→1.{}: description-only tool t", number + 1))
            .collect();
        assert_eq!(story(&store, "npm:a").await, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_with_definitions_in_common_do_not_wait_for_each_other_in_a_circle() {
    let Some(database) = TestStore::postgres().await else {
        return;
    };
    let mut writers = JoinSet::new();
    for task in 0..8 {
        let store = database.store.clone();
        writers.spawn(async move {
            let server = format!("npm:server-{task}");
            add(&store, &server).await;
            for round in 0..5 {
                let mut names: Vec<String> = (0..20).map(|number| format!("tool-{round}-{number}")).collect();
                names.rotate_left(task * 2);
                let tools: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "d")).collect();
                record(&store, &look(&server, &format!("1.{round}"), surface(&tools))).await;
            }
        });
    }
    writers.join_all().await;
    assert_eq!(
        database
            .store
            .find_server(&identity("npm:server-0").to_string())
            .await
            .unwrap()
            .unwrap()
            .drifts,
        4
    );
}
