//! Webhooks: what is told to whom, once; leases; the log; issues.

use mcpindex_contract::approval::Decision;
use mcpindex_contract::digest::Digest;
use mcpindex_store::Store;
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::testing::{TestStore, on_each_backend};
use mcpindex_store::webhooks::{
    Claimed, DeliveryOutcome, Ended, Event, Finished, Form, Issue, KEPT_DAYS, KEPT_DELIVERIES, MOST_WAITING,
    NewWebhook, Redelivery, Severity,
};
use tokio::task::JoinSet;

use crate::fixture::{add, look, record, remote_look, surface};

const NOW: i64 = 10_000;
const DAY: i64 = 86_400;

fn wish(id: &str) -> NewWebhook {
    NewWebhook {
        id: id.to_owned(),
        name: "the team's channel".to_owned(),
        form: Form::Json,
        destination: "https://hooks.example.com/mcp".to_owned(),
        severity: Severity::All,
        servers: Vec::new(),
        untrusted: false,
        key_check: "0011".to_owned(),
        created_by: "ada@local".to_owned(),
    }
}

async fn add_webhook(store: &Store, wish: NewWebhook) {
    store.add_webhook(&wish, NOW).await.unwrap();
}

/// A drift of this server: one tool less, or one more.
async fn drift(store: &Store, reference: &str, safety_relevant: bool) -> i64 {
    add(store, reference).await;
    let both = surface(&[("a", "one"), ("b", "two")]);
    let one = surface(&[("a", "one")]);
    let (before, after) = if safety_relevant { (both, one) } else { (one, both) };
    record(store, &look(reference, "1", before)).await;
    let id = record(store, &look(reference, "2", after)).await.drift.unwrap();
    let (recorded, _) = store.drift(id).await.unwrap().unwrap();
    assert_eq!(recorded.safety_relevant, safety_relevant, "{reference}");
    id
}

async fn derive_all(store: &Store) -> u64 {
    let mut made = 0;
    loop {
        let derived = store.derive_deliveries(NOW).await.unwrap();
        made += derived.deliveries;
        if !derived.more {
            return made;
        }
    }
}

async fn told(store: &Store, webhook: &str) -> Vec<Event> {
    let log = store.deliveries(webhook, None, 10_000).await.unwrap();
    let mut events: Vec<Event> = log.into_iter().map(|delivery| delivery.event).collect();
    events.reverse();
    events
}

fn finished(claimed: &Claimed, ended: Ended) -> Finished {
    Finished {
        lease: claimed.lease.clone(),
        ended,
        status: Some(500),
        error: Some("HTTP 500".to_owned()),
    }
}

#[tokio::test]
async fn a_target_is_told_once_of_what_it_is_about_and_of_nothing_before_its_time() {
    on_each_backend(async |store| {
        drift(&store, "npm:before", true).await;
        add_webhook(&store, wish("all")).await;
        add_webhook(
            &store,
            NewWebhook {
                severity: Severity::SafetyRelevant,
                ..wish("severe")
            },
        )
        .await;
        add_webhook(
            &store,
            NewWebhook {
                servers: vec!["npm:@acme/*".to_owned(), "npm:c".to_owned()],
                ..wish("some")
            },
        )
        .await;
        assert!(!store.webhooks_are_behind().await.unwrap());
        let a = drift(&store, "npm:@acme/a", false).await;
        let b = drift(&store, "npm:b", true).await;
        let c = drift(&store, "npm:c", false).await;
        assert!(store.webhooks_are_behind().await.unwrap());
        assert_eq!(derive_all(&store).await, 3 + 1 + 2);
        assert!(!store.webhooks_are_behind().await.unwrap());
        assert_eq!(derive_all(&store).await, 0);
        let drifts = |ids: &[i64]| ids.iter().copied().map(Event::Drift).collect::<Vec<_>>();
        assert_eq!(told(&store, "all").await, drifts(&[a, b, c]));
        assert_eq!(told(&store, "severe").await, drifts(&[b]));
        assert_eq!(told(&store, "some").await, drifts(&[a, c]));
        let all = store.webhooks().await.unwrap();
        assert_eq!(all.iter().map(|webhook| webhook.waiting).sum::<i64>(), 6);
        let kept = store.webhook("some").await.unwrap().unwrap();
        assert_eq!(
            kept.wish,
            NewWebhook {
                servers: vec!["npm:@acme/*".to_owned(), "npm:c".to_owned()],
                ..wish("some")
            }
        );
        assert!(store.remove_webhook("some", "ada@local", NOW).await.unwrap());
        assert!(!store.remove_webhook("some", "ada@local", NOW).await.unwrap());
        assert!(told(&store, "some").await.is_empty());
        let log = store.audit(None, 2).await.unwrap();
        let log: Vec<_> = log
            .iter()
            .map(|line| {
                (
                    line.subject.as_str(),
                    line.object.as_str(),
                    line.detail.as_deref().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            log,
            [
                ("ada@local", "some", "webhook removed"),
                ("ada@local", "some", "webhook made")
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn the_decisions_of_one_act_are_told_as_one() {
    on_each_backend(async |store| {
        let decide = async |identity: &str, tools: &[&str], decision: Decision, subject: &str| {
            let decisions: Vec<NewDecision> = tools
                .iter()
                .map(|tool| NewDecision {
                    identity: identity.to_owned(),
                    tool: (*tool).to_owned(),
                    digest: Digest::of_canonical(tool),
                    decision,
                    reason: None,
                    reference: None,
                    expires_at: None,
                })
                .collect();
            let (head, _) = store.approvals_since("default", 0, 0).await.unwrap();
            let done = store
                .append_approvals("default", &decisions, subject, 1, head.sequence, NOW)
                .await
                .unwrap();
            assert!(matches!(done, Appended::Done(_)), "{done:?}");
        };
        decide("npm:a", &["before"], Decision::Approve, "ada@local").await;
        add_webhook(&store, wish("one")).await;
        assert!(!store.webhooks_are_behind().await.unwrap());
        decide("npm:a", &["b", "c"], Decision::Approve, "ada@local").await;
        decide("npm:a", &["d"], Decision::Refuse, "ada@local").await;
        decide("npm:b", &["e"], Decision::Refuse, "ada@local").await;
        decide("npm:b", &["f"], Decision::Refuse, "bob@local").await;
        assert!(store.webhooks_are_behind().await.unwrap());
        assert_eq!(derive_all(&store).await, 4);
        assert_eq!(derive_all(&store).await, 0);
        assert!(!store.webhooks_are_behind().await.unwrap());
        assert_eq!(told(&store, "one").await, [2, 4, 5, 6].map(Event::Decision));
        let act = async |first: i64| {
            let records = store.decisions_of_act(first).await.unwrap();
            records.into_iter().map(|record| record.tool).collect::<Vec<_>>()
        };
        assert_eq!(act(2).await, ["b", "c"]);
        assert_eq!(act(6).await, ["f"]);
        assert!(act(7).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn nothing_is_lost_or_told_twice_while_many_write_and_several_derive() {
    on_each_backend(async |store| {
        add_webhook(&store, wish("one")).await;
        add_webhook(&store, wish("two")).await;
        let mut writers = JoinSet::new();
        for writer in 0..4 {
            let store = store.clone();
            writers.spawn(async move {
                for server in 0..8 {
                    drift(&store, &format!("npm:w{writer}-s{server}"), false).await;
                }
            });
        }
        let mut derivers = JoinSet::new();
        for _ in 0..2 {
            let store = store.clone();
            derivers.spawn(async move {
                for _ in 0..30 {
                    store.derive_deliveries(NOW).await.unwrap();
                }
            });
        }
        writers.join_all().await;
        derivers.join_all().await;
        derive_all(&store).await;
        for webhook in ["one", "two"] {
            let mut events: Vec<i64> = told(&store, webhook)
                .await
                .into_iter()
                .map(Event::subject)
                .collect();
            events.sort_unstable();
            events.dedup();
            assert_eq!(events.len(), 32);
            assert_eq!(told(&store, webhook).await.len(), 32);
        }
    })
    .await;
}

#[tokio::test]
async fn what_happens_while_too_much_waits_is_told_when_there_is_room() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    add_webhook(store, wish("one")).await;
    let more = 5;
    add(store, "https://example.com/mcp").await;
    for look in 0..=MOST_WAITING + more {
        let surface = surface(&[("a", &format!("description of look {look}"))]);
        record(store, &remote_look("https://example.com/mcp", surface)).await;
    }
    let drifts = store.count_drifts().await.unwrap();
    assert!(drifts > MOST_WAITING, "{drifts}");
    let made = i64::try_from(derive_all(store).await).unwrap();
    assert!((MOST_WAITING..=drifts).contains(&made), "{made}");
    assert!(made >= drifts || !store.webhooks_are_behind().await.unwrap());
    let mut delivered = 0;
    while delivered < drifts {
        let claimed = store.claim_deliveries("w", NOW, 50).await.unwrap();
        assert!(!claimed.is_empty(), "{delivered} of {drifts}");
        delivered += i64::try_from(claimed.len()).unwrap();
        let all: Vec<Finished> = claimed
            .iter()
            .map(|claimed| finished(claimed, Ended::Delivered))
            .collect();
        assert!(store.finish_deliveries(&all, NOW).await.unwrap().is_empty());
        derive_all(store).await;
    }
    assert_eq!(delivered, drifts);
}

#[tokio::test]
async fn a_delivery_has_one_holder_and_a_result_comes_from_it_alone() {
    on_each_backend(async |store| {
        add_webhook(&store, wish("one")).await;
        drift(&store, "npm:a", true).await;
        derive_all(&store).await;
        let first = store.claim_deliveries("first", NOW, 10).await.unwrap().remove(0);
        assert!(
            store
                .claim_deliveries("second", NOW, 10)
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            store
                .claim_delivery(&first.delivery.id, "second", NOW)
                .await
                .unwrap(),
            None
        );
        let later = NOW + Form::Json.lease();
        assert_eq!(store.next_delivery_due().await.unwrap(), Some(later));
        let second = store
            .claim_deliveries("second", later, 10)
            .await
            .unwrap()
            .remove(0);
        assert_eq!(second.delivery.id, first.delivery.id);
        let lost = store
            .finish_deliveries(&[finished(&first, Ended::Delivered)], later)
            .await
            .unwrap();
        assert_eq!(lost, [first.lease.number]);
        store
            .release_deliveries(std::slice::from_ref(&first.lease), later)
            .await
            .unwrap();
        let again = finished(&second, Ended::Again { due: later + 10 });
        assert!(store.finish_deliveries(&[again], later).await.unwrap().is_empty());
        let delivery = store.delivery("one", &first.delivery.id).await.unwrap().unwrap();
        assert_eq!(
            (
                delivery.attempts,
                delivery.due,
                delivery.status,
                delivery.error.as_deref()
            ),
            (1, Some(later + 10), Some(500), Some("HTTP 500"))
        );
        let third = store
            .claim_deliveries("first", later + 10, 1)
            .await
            .unwrap()
            .remove(0);
        store
            .release_deliveries(std::slice::from_ref(&third.lease), later + 11)
            .await
            .unwrap();
        let fourth = store
            .claim_delivery(&first.delivery.id, "first", later + 11)
            .await
            .unwrap()
            .unwrap();
        let given_up = finished(&fourth, Ended::GaveUp);
        store.finish_deliveries(&[given_up], later + 12).await.unwrap();
        let log = store.deliveries("one", None, 10).await.unwrap();
        assert_eq!(log[0].outcome, Some(DeliveryOutcome::GaveUp));
        assert_eq!(store.next_delivery_due().await.unwrap(), None);

        let id = &first.delivery.id;
        let redeliver =
            async |webhook: &str, id: &str| store.redeliver(webhook, id, later + 20).await.unwrap();
        assert_eq!(redeliver("one", id).await, Redelivery::Due);
        assert_eq!(redeliver("one", "msg_unknown").await, Redelivery::Unknown);
        assert_eq!(redeliver("two", id).await, Redelivery::Unknown);
        let fifth = store
            .claim_deliveries("w", later + 20, 1)
            .await
            .unwrap()
            .remove(0);
        assert_eq!((&fifth.delivery.id, fifth.delivery.outcome), (id, None));
        assert_eq!(redeliver("one", id).await, Redelivery::UnderWay);
    })
    .await;
}

#[tokio::test]
async fn a_slow_target_takes_few_places_and_an_issue_is_told_in_order() {
    on_each_backend(async |store| {
        add_webhook(&store, wish("slow")).await;
        add_webhook(
            &store,
            NewWebhook {
                form: Form::GithubIssue,
                destination: "acme/drifts".to_owned(),
                ..wish("issues")
            },
        )
        .await;
        for server in 0..6 {
            drift(&store, &format!("npm:s{server}"), false).await;
        }
        derive_all(&store).await;
        let mut claims = JoinSet::new();
        for worker in 0..4 {
            let store = store.clone();
            claims.spawn(async move {
                store
                    .claim_deliveries(&format!("w{worker}"), NOW, 20)
                    .await
                    .unwrap()
            });
        }
        let claimed: Vec<Claimed> = claims.join_all().await.into_iter().flatten().collect();
        let of = |id: &str| claimed.iter().filter(|claimed| claimed.webhook.id == id).count();
        assert_eq!((of("slow"), of("issues")), (4, 1));
        let issue = claimed
            .iter()
            .find(|claimed| claimed.webhook.id == "issues")
            .unwrap();
        // The one that failed is tried again before any later one is.
        let again = finished(issue, Ended::Again { due: NOW + 100 });
        store.finish_deliveries(&[again], NOW).await.unwrap();
        let next = store.claim_deliveries("w", NOW + 20, 20).await.unwrap();
        assert!(
            next.iter().all(|claimed| claimed.webhook.id == "slow"),
            "{next:?}"
        );
        let next = store.claim_deliveries("w", NOW + 100, 20).await.unwrap();
        let next = next
            .iter()
            .find(|claimed| claimed.webhook.id == "issues")
            .unwrap();
        assert_eq!(next.delivery.id, issue.delivery.id);
    })
    .await;
}

#[tokio::test]
async fn the_log_is_bounded_and_what_waits_is_no_log() {
    on_each_backend(async |store| {
        add_webhook(&store, wish("one")).await;
        add_webhook(&store, wish("two")).await;
        let deliver = async |webhook: &str, count: i64, at: i64| {
            for number in 0..count {
                let id = format!("msg_{webhook}_{at}_{number}");
                assert!(store.add_test_delivery(webhook, &id, at).await.unwrap());
                let claimed = store.claim_delivery(&id, "w", at).await.unwrap().unwrap();
                let done = finished(&claimed, Ended::Delivered);
                store.finish_deliveries(&[done], at).await.unwrap();
            }
        };
        assert!(!store.add_test_delivery("none", "msg_x", NOW).await.unwrap());
        deliver("two", 3, NOW).await;
        let later = NOW + KEPT_DAYS * DAY + 1;
        deliver("one", KEPT_DELIVERIES + 7, later).await;
        assert!(store.add_test_delivery("one", "msg_waits", NOW).await.unwrap());
        assert_eq!(store.sweep_deliveries(later).await.unwrap(), 3 + 7);
        assert_eq!(store.sweep_deliveries(later).await.unwrap(), 0);
        let log = store.deliveries("one", None, 10_000).await.unwrap();
        assert_eq!(i64::try_from(log.len()).unwrap(), KEPT_DELIVERIES + 1);
        assert_eq!(log[0].id, "msg_waits");
        let page = store.deliveries("one", Some(log[0].number), 2).await.unwrap();
        assert_eq!(page[0], log[1]);
        assert_eq!(page.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn an_issue_is_kept_until_it_is_closed_and_goes_with_its_target() {
    on_each_backend(async |store| {
        add_webhook(&store, wish("one")).await;
        let issue = Issue {
            webhook: "one".to_owned(),
            issue: 7,
            identity: "npm:a".to_owned(),
            fingerprint: "0123456789abcdef".to_owned(),
            first_drift: 3,
            last_drift: 3,
        };
        let open = async || store.open_issue("one", "npm:a").await.unwrap();
        assert_eq!(open().await, None);
        store.keep_issue(&issue).await.unwrap();
        let goes_on = Issue {
            last_drift: 9,
            ..issue.clone()
        };
        store.keep_issue(&goes_on).await.unwrap();
        assert_eq!(open().await, Some(goes_on));
        store.close_issue("one", 7, NOW).await.unwrap();
        assert_eq!(open().await, None);
        let next = Issue {
            issue: 8,
            ..issue.clone()
        };
        store.keep_issue(&next).await.unwrap();
        assert_eq!(open().await, Some(next));
        assert!(store.remove_webhook("one", "ada@local", NOW).await.unwrap());
        store.keep_issue(&issue).await.unwrap();
        assert_eq!(open().await, None);
    })
    .await;
}
