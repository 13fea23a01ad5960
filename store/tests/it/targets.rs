//! Targets, leases and fencing.

use mcpindex_contract::outcome::Outcome;
use mcpindex_store::observations::Finish;
use mcpindex_store::targets::{Lease, NewTarget, Progress};
use mcpindex_store::testing::on_each_backend;
use mcpindex_store::{Store, StoreError};

use crate::fixture::{START, failed_look, look, surface, target};

async fn claim_one(store: &Store, now: i64) -> Lease {
    let claimed = store.claim_targets("one", now, 60, 5, None).await.unwrap();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed[0].1
}

fn assert_lost<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::LeaseLost { .. })), "{result:?}");
}

#[tokio::test]
async fn a_target_is_one_by_identity_and_version_and_brings_its_server() {
    on_each_backend(async |store| {
        assert!(store.add_target(&target("npm:a"), START).await.unwrap());
        let again = NewTarget {
            launch: "{}".to_owned(),
            source: "list".to_owned(),
            every: None,
            due: 7,
            ..target("npm:a")
        };
        assert!(!store.add_target(&again, START).await.unwrap());
        let pinned = NewTarget {
            version: Some("1.0".to_owned()),
            ..target("npm:a")
        };
        assert!(store.add_target(&pinned, START).await.unwrap());
        assert!(store.add_target(&target("npm:b"), START).await.unwrap());

        let targets = store.targets(Some("npm:a")).await.unwrap();
        assert_eq!(targets.len(), 2);
        let first = &targets[0];
        assert_eq!(
            (
                first.version.as_deref(),
                first.launch.as_str(),
                first.source.as_str()
            ),
            (None, "{}", "list")
        );
        assert_eq!(
            (first.every, first.due, first.failures, first.outcome),
            (None, Some(7), 0, None)
        );
        assert_eq!(targets[1].version.as_deref(), Some("1.0"));
        assert_eq!(store.targets(None).await.unwrap().len(), 3);
        assert!(store.find_server("npm:b").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn the_longest_due_is_claimed_first_and_nothing_before_its_time() {
    on_each_backend(async |store| {
        assert_eq!(store.next_due().await.unwrap(), None);
        for (reference, due) in [("npm:late", 30), ("npm:first", 10), ("npm:second", 20)] {
            store
                .add_target(
                    &NewTarget {
                        due,
                        ..target(reference)
                    },
                    0,
                )
                .await
                .unwrap();
        }
        assert_eq!(store.next_due().await.unwrap(), Some(10));
        assert!(
            store
                .claim_targets("one", 9, 60, 5, None)
                .await
                .unwrap()
                .is_empty()
        );
        let claimed = store.claim_targets("one", 20, 60, 5, None).await.unwrap();
        let names: Vec<_> = claimed
            .iter()
            .map(|(target, _)| (target.identity.as_str(), target.due))
            .collect();
        assert_eq!(names, [("npm:first", Some(80)), ("npm:second", Some(80))]);
        assert!(
            store
                .claim_targets("two", 20, 60, 5, None)
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(store.claim_targets("two", 30, 60, 0, None).await.unwrap(), []);
        assert_eq!(
            store.claim_targets("two", 30, 60, 1, None).await.unwrap().len(),
            1
        );
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_ran_out_is_taken_over_and_the_first_holder_writes_nothing() {
    on_each_backend(async |store| {
        store.add_target(&target("npm:a"), START).await.unwrap();
        let stale = claim_one(&store, START).await;
        let held = claim_one(&store, START + 60).await;
        let observation = look("npm:a", "1.0", surface(&[("t", "d")]));
        let finish = |lease| {
            Some(Finish {
                lease,
                due: Some(START + 500),
            })
        };

        assert_lost(store.record_observation(&observation, finish(stale)).await);
        assert_lost(store.extend_lease(stale, START + 999).await);
        assert_lost(store.release(stale, START).await);
        assert_eq!(store.observations("npm:a", None, 9).await.unwrap(), []);
        assert_eq!(store.find_server("npm:a").await.unwrap().unwrap().outcome, None);

        store
            .record_observation(&observation, finish(held))
            .await
            .unwrap();
        let target = &store.targets(None).await.unwrap()[0];
        assert_eq!(
            (target.due, target.failures, target.outcome),
            (Some(START + 500), 0, Some(Outcome::Ok))
        );
        assert_lost(store.record_observation(&observation, finish(held)).await);
        assert_eq!(store.observations("npm:a", None, 9).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_extended_and_given_back() {
    on_each_backend(async |store| {
        store.add_target(&target("npm:a"), START).await.unwrap();
        let lease = claim_one(&store, START).await;
        store.extend_lease(lease, START + 1_000).await.unwrap();
        assert!(
            store
                .claim_targets("two", START + 999, 60, 5, None)
                .await
                .unwrap()
                .is_empty()
        );
        store.release(lease, START + 5).await.unwrap();
        assert_eq!(store.next_due().await.unwrap(), Some(START + 5));
        assert_lost(store.release(lease, START + 5).await);
        assert_ne!(claim_one(&store, START + 5).await.epoch, lease.epoch);
    })
    .await;
}

#[tokio::test]
async fn a_target_that_is_added_again_while_it_is_looked_at_is_looked_at_again() {
    on_each_backend(async |store| {
        store.add_target(&target("npm:a"), START).await.unwrap();
        let old = claim_one(&store, START).await;
        store
            .add_target(
                &NewTarget {
                    launch: "new".to_owned(),
                    ..target("npm:a")
                },
                START,
            )
            .await
            .unwrap();
        let finish = Some(Finish {
            lease: old,
            due: None,
        });
        assert_lost(
            store
                .record_observation(&look("npm:a", "1.0", surface(&[])), finish)
                .await,
        );
        assert_eq!(
            store.claim_targets("one", START, 60, 5, None).await.unwrap()[0]
                .0
                .launch,
            "new"
        );
    })
    .await;
}

#[tokio::test]
async fn failures_in_a_row_are_counted_and_a_good_look_ends_them() {
    on_each_backend(async |store| {
        store.add_target(&target("npm:a"), START).await.unwrap();
        let failed = || failed_look("npm:a", "1.0", Outcome::TimedOut);
        let good = || look("npm:a", "1.0", surface(&[]));
        for (observation, failures) in [(failed(), 1), (failed(), 2), (good(), 0), (failed(), 1)] {
            let lease = claim_one(&store, START).await;
            store
                .record_observation(
                    &observation,
                    Some(Finish {
                        lease,
                        due: Some(START),
                    }),
                )
                .await
                .unwrap();
            let target = &store.targets(None).await.unwrap()[0];
            assert_eq!(
                (target.failures, target.outcome),
                (failures, Some(observation.outcome))
            );
        }
    })
    .await;
}

#[tokio::test]
async fn progress_counts_what_is_looked_at_once() {
    on_each_backend(async |store| {
        assert_eq!(store.progress().await.unwrap(), Progress::default());
        store
            .add_target(
                &NewTarget {
                    due: START + 1,
                    ..target("npm:daily")
                },
                START,
            )
            .await
            .unwrap();
        for version in ["1.0", "2.0"] {
            let once = NewTarget {
                version: Some(version.to_owned()),
                every: None,
                ..target("npm:a")
            };
            store.add_target(&once, START).await.unwrap();
        }
        let claimed = store.claim_targets("one", START, 60, 1, None).await.unwrap();
        let finish = Some(Finish {
            lease: claimed[0].1,
            due: None,
        });
        store
            .record_observation(&look("npm:a", "1.0", surface(&[])), finish)
            .await
            .unwrap();
        assert_eq!(store.progress().await.unwrap(), Progress { total: 2, done: 1 });
        assert_eq!(store.next_due().await.unwrap(), Some(START));
        // Done is done: it is never due again by itself.
        assert_eq!(
            store
                .claim_targets("one", i64::MAX - 60, 60, 9, None)
                .await
                .unwrap()
                .len(),
            2
        );
    })
    .await;
}

#[tokio::test]
async fn what_is_off_a_list_is_followed_no_more_and_nothing_else_is_touched() {
    on_each_backend(async |store| {
        let of = |source: &str, reference: &str| NewTarget {
            source: source.to_owned(),
            ..target(reference)
        };
        for target in [
            of("targets", "npm:a"),
            of("targets", "npm:b"),
            of("shell", "npm:c"),
        ] {
            store.add_target(&target, START).await.unwrap();
        }
        // A version to be looked at once is no following.
        let once = NewTarget {
            version: Some("1.0".to_owned()),
            every: None,
            ..of("targets", "npm:b")
        };
        store.add_target(&once, START).await.unwrap();
        let claimed = store.claim_targets("one", START, 60, 9, None).await.unwrap();
        let (_, lease) = claimed
            .iter()
            .find(|(target, _)| target.identity == "npm:b")
            .unwrap();

        let keep = [("npm:a".to_owned(), None)];
        assert_eq!(store.keep_targets("targets", &keep).await.unwrap(), ["npm:b"]);
        assert_eq!(
            store.keep_targets("targets", &keep).await.unwrap(),
            [] as [String; 0]
        );
        let left: Vec<(String, Option<String>)> = store
            .targets(None)
            .await
            .unwrap()
            .into_iter()
            .map(|target| (target.identity, target.version))
            .collect();
        let expected = [("npm:a", None), ("npm:c", None), ("npm:b", Some("1.0"))];
        assert_eq!(
            left,
            expected.map(|(identity, version)| (identity.to_owned(), version.map(str::to_owned)))
        );
        assert_lost(store.release(*lease, START).await);
        assert!(store.find_server("npm:b").await.unwrap().is_some());
    })
    .await;
}
