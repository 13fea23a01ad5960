//! Turns: no domain is contacted faster than its pace, and nobody else waits because of it.

use std::collections::BTreeMap;

use mcpindex_store::Store;
use mcpindex_store::pace::Pace;
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{START, target};

const DAY: i64 = 86_400;

/// The domain is what stands before the first dot of the host, so that tests need no list of suffixes.
fn domain_of(identity: &str) -> Option<String> {
    let host = identity.strip_prefix("https://")?.split('/').next()?;
    Some(host.split('.').next()?.to_owned())
}

const PACE: Pace = Pace {
    gap: 10,
    per_day: 5,
    domain_of,
};

async fn claimed(store: &Store, now: i64, limit: i64) -> Vec<String> {
    let claimed = store
        .claim_targets("worker", now, 10 * DAY, limit, Some(&PACE))
        .await
        .unwrap();
    claimed.into_iter().map(|(target, _)| target.identity).collect()
}

#[tokio::test]
async fn a_domain_has_one_turn_at_a_time_and_others_do_not_wait_behind_it() {
    on_each_backend(async |store| {
        for path in 0..4 {
            let one = target(&format!("https://busy.example.com/{path}"));
            store.add_target(&one, START).await.unwrap();
        }
        for reference in ["https://other.example.com/0", "npm:package-a", "npm:package-b"] {
            store.add_target(&target(reference), START).await.unwrap();
        }
        let first = claimed(&store, START, 4).await;
        assert_eq!(
            first,
            [
                "https://busy.example.com/0",
                "https://other.example.com/0",
                "npm:package-a",
                "npm:package-b"
            ]
        );
        // The other three have turns ten seconds apart.
        for turn in 1..4 {
            assert!(claimed(&store, START + 10 * turn - 1, 9).await.is_empty());
            let next = claimed(&store, START + 10 * turn, 9).await;
            assert_eq!(next, [format!("https://busy.example.com/{turn}")]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_domain_has_so_many_looks_a_day() {
    on_each_backend(async |store| {
        for path in 0..8 {
            let one = target(&format!("https://busy.example.com/{path}"));
            store.add_target(&one, START).await.unwrap();
        }
        let mut by_day: BTreeMap<i64, usize> = BTreeMap::new();
        let mut last = None;
        for now in (START..START + 200).chain(DAY - 5..DAY + 200) {
            for _ in claimed(&store, now, 9).await {
                *by_day.entry(now / DAY).or_default() += 1;
                assert!(last.is_none_or(|last| now - last >= 10), "{last:?} {now}");
                last = Some(now);
            }
        }
        assert_eq!(by_day, BTreeMap::from([(0, 5), (1, 3)]));
    })
    .await;
}

#[tokio::test]
async fn two_workers_share_a_domains_turns() {
    on_each_backend(async |store| {
        for path in 0..6 {
            let one = target(&format!("https://busy.example.com/{path}"));
            store.add_target(&one, START).await.unwrap();
        }
        let (one, two) = tokio::join!(claimed(&store, START, 6), claimed(&store, START, 6));
        assert_eq!(one.len() + two.len(), 1, "{one:?} {two:?}");
    })
    .await;
}
