//! Lists that could not be read: compared with nothing, and the next good one with the last good one before it.

use mcpindex_contract::surface::{MemberKind, Surface};
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{add, changes, failing, look, record, story, surface, with_prompts};

fn declared(tools: &[(&str, &str)], prompts: &[&str]) -> Surface {
    with_prompts(surface(tools), prompts)
}

#[tokio::test]
async fn a_failed_list_takes_nothing_away_and_the_next_good_one_meets_the_last_good_one() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(
            &store,
            &look("npm:a", "1.0", declared(&[("t", "d")], &["p", "q"])),
        )
        .await;
        let failed = failing(declared(&[("t", "d"), ("u", "d")], &[]), MemberKind::Prompt);
        let partial = record(&store, &look("npm:a", "1.1", failed)).await;
        assert_eq!(
            changes(&store, partial.drift.unwrap()).await,
            ["tool-added tool u"]
        );
        let good = record(
            &store,
            &look("npm:a", "1.2", declared(&[("t", "d"), ("u", "d")], &["p", "r"])),
        )
        .await;
        assert_eq!(
            changes(&store, good.drift.unwrap()).await,
            ["prompt-removed prompt q", "prompt-added prompt r"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_list_that_was_never_read_before_starts_without_a_drift() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(
            &store,
            &look("npm:a", "1.0", failing(declared(&[], &["p"]), MemberKind::Tool)),
        )
        .await;
        let good = record(&store, &look("npm:a", "1.1", declared(&[("t", "d")], &["p"]))).await;
        assert_eq!((good.drift, good.compared), (None, true));
    })
    .await;
}

#[tokio::test]
async fn a_list_that_stops_being_declared_is_determined() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", declared(&[], &["p"]))).await;
        let gone = record(&store, &look("npm:a", "1.1", surface(&[]))).await;
        assert_eq!(
            changes(&store, gone.drift.unwrap()).await,
            ["prompt-removed prompt p"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_good_list_in_the_middle_reaches_past_failed_ones() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        let failed = || failing(declared(&[("t", "d")], &[]), MemberKind::Prompt);
        record(&store, &look("npm:a", "1.0", declared(&[("t", "d")], &["p"]))).await;
        record(&store, &look("npm:a", "3.0", failed())).await;
        record(&store, &look("npm:a", "4.0", failed())).await;
        let last = record(
            &store,
            &look("npm:a", "5.0", declared(&[("t", "d")], &["p", "q", "r"])),
        )
        .await;
        assert_eq!(last.changes, 2);
        let untouched = record(&store, &look("npm:a", "6.0", declared(&[], &["p", "q", "r"]))).await;

        record(
            &store,
            &look("npm:a", "2.0", declared(&[("t", "d")], &["p", "q"])),
        )
        .await;
        assert_eq!(
            story(&store, "npm:a").await,
            [
                "5.0→6.0: tool-removed tool t",
                "4.0→5.0: prompt-added prompt r",
                "1.0→2.0: prompt-added prompt q",
            ]
        );
        assert!(
            store
                .drift(last.drift.unwrap())
                .await
                .unwrap()
                .unwrap()
                .0
                .replaced
        );
        assert!(
            !store
                .drift(untouched.drift.unwrap())
                .await
                .unwrap()
                .unwrap()
                .0
                .replaced
        );
    })
    .await;
}

#[tokio::test]
async fn a_failed_list_in_the_middle_moves_nothing() {
    on_each_backend(async |store| {
        add(&store, "npm:a").await;
        record(&store, &look("npm:a", "1.0", declared(&[("t", "d")], &["p"]))).await;
        record(&store, &look("npm:a", "3.0", declared(&[("t", "d")], &["q"]))).await;
        let failed = failing(declared(&[("t", "d")], &[]), MemberKind::Prompt);
        assert_eq!(record(&store, &look("npm:a", "2.0", failed)).await.drift, None);
        assert_eq!(
            story(&store, "npm:a").await,
            ["2.0→3.0: prompt-removed prompt p, prompt-added prompt q"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_list_that_failed_for_longer_than_is_searched_starts_afresh() {
    on_each_backend(async |store| {
        let failed = || failing(declared(&[("t", "d")], &[]), MemberKind::Prompt);
        for (server, failures, changes) in [("npm:a", 50, 1), ("npm:b", 51, 0)] {
            add(&store, server).await;
            record(&store, &look(server, "1.0", declared(&[("t", "d")], &["p"]))).await;
            for _ in 0..failures {
                record(&store, &look(server, "1.0", failed())).await;
            }
            let good = record(&store, &look(server, "1.0", declared(&[("t", "d")], &["q", "p"]))).await;
            assert_eq!(good.changes, changes, "{server}");
        }
    })
    .await;
}

/// Every order of `0..length`.
fn orders(length: usize) -> Vec<Vec<usize>> {
    let Some(last) = length.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let place_last = |order: Vec<usize>| {
        (0..=order.len()).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last);
            order
        })
    };
    orders(last).into_iter().flat_map(place_last).collect()
}

#[tokio::test]
async fn a_history_with_failed_lists_is_the_same_in_whatever_order_it_is_observed() {
    on_each_backend(async |store| {
        let versions = [
            declared(&[("t", "one")], &["p"]),
            failing(declared(&[("t", "two")], &[]), MemberKind::Prompt),
            failing(declared(&[], &["p", "q"]), MemberKind::Tool),
            failing(declared(&[("t", "two")], &[]), MemberKind::Prompt),
            declared(&[("t", "three")], &["q"]),
        ];
        for (number, order) in orders(versions.len()).into_iter().step_by(3).enumerate() {
            let server = format!("npm:server-{number}");
            add(&store, &server).await;
            for index in &order {
                record(
                    &store,
                    &look(&server, &format!("{index}.0"), versions[*index].clone()),
                )
                .await;
            }
            let told = story(&store, &server).await;
            let expected = [
                "3.0→4.0: description-only tool t, prompt-removed prompt p",
                "1.0→2.0: prompt-added prompt q",
                "0.0→1.0: description-only tool t",
            ];
            assert_eq!(told, expected, "observed in the order {order:?}");
        }
    })
    .await;
}
