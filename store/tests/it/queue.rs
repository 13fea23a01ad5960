//! What waits for a decision: exactly what no decision settles, found without folding the whole chain, and paged without gaps.

use std::collections::BTreeSet;

use mcpindex_contract::approval::{Decision, State};
use mcpindex_contract::digest::Digest;
use mcpindex_store::Store;
use mcpindex_store::approvals::queue::{Origin, Queue, Release, Scope};
use mcpindex_store::approvals::requests::NewRequest;
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::testing::on_each_backend;

use crate::fixture::{START, add, look, surface, tool};

const TENANT: &str = "default";
const NPM: &str = "npm:a";

fn digest(name: &str, description: &str) -> Digest {
    tool(name, description).definition.digest()
}

fn about(identity: &str, name: &str, description: &str, decision: Decision) -> NewDecision {
    NewDecision {
        identity: identity.to_owned(),
        tool: name.to_owned(),
        digest: digest(name, description),
        decision,
        reason: None,
        reference: None,
        expires_at: None,
    }
}

async fn decide(store: &Store, decision: NewDecision, subject: &str, needed: u8) {
    let seen = store.approvals_head(TENANT).await.unwrap();
    let decisions = [decision];
    let appended = store.append_approvals(TENANT, &decisions, subject, needed, seen, START);
    assert!(matches!(appended.await.unwrap(), Appended::Done(_)));
}

async fn approve(store: &Store, identity: &str, name: &str, description: &str) {
    let decision = about(identity, name, description, Decision::Approve);
    decide(store, decision, "ann@local", 1).await;
}

/// Records a look at a version that declares these tools.
async fn saw(store: &Store, reference: &str, version: &str, at: i64, tools: &[(&str, &str)]) {
    let mut look = look(reference, version, surface(tools));
    look.observed_at = at;
    store.record_observation(&look, None).await.unwrap();
}

async fn queue(store: &Store, scope: Scope) -> Queue {
    store.queue(TENANT, scope, None, (50, 200), START).await.unwrap()
}

fn names(release: &Release) -> Vec<&str> {
    release.tools.iter().map(|tool| tool.tool.as_str()).collect()
}

#[tokio::test]
async fn what_nobody_decided_about_waits_and_what_is_settled_does_not() {
    on_each_backend(async |store| {
        add(&store, NPM).await;
        saw(
            &store,
            NPM,
            "1",
            START,
            &[("a", "A."), ("b", "B."), ("c", "C."), ("d", "D.")],
        )
        .await;
        // Of a server that nobody ever decided about nothing waits, unless all do.
        assert!(queue(&store, Scope::Decided).await.releases.is_empty());
        assert_eq!(
            names(&queue(&store, Scope::All).await.releases[0]),
            ["a", "b", "c", "d"]
        );
        approve(&store, NPM, "a", "A.").await;
        decide(&store, about(NPM, "b", "B.", Decision::Refuse), "ann@local", 1).await;
        let found = queue(&store, Scope::Decided).await;
        assert_eq!(names(&found.releases[0]), ["c", "d"]);
        let release = &found.releases[0];
        assert_eq!(
            (release.waiting, release.is_trusted, release.next.is_none()),
            (2, true, true)
        );
        // A definition that changed waits again, beside the one that was approved.
        saw(
            &store,
            NPM,
            "2",
            START + 5,
            &[("a", "Another."), ("b", "B."), ("c", "C."), ("d", "D.")],
        )
        .await;
        let found = queue(&store, Scope::Decided).await;
        let release = &found.releases[0];
        assert_eq!((names(release), release.since), (vec!["a", "c", "d"], START + 5));
        let baseline = release.tools[0].baseline.as_ref().unwrap();
        assert_eq!(baseline.digest, digest("a", "A."));
        assert!(matches!(&baseline.origin, Origin::Approved(record) if record.subject == "ann@local"));
        assert!(release.tools[1].baseline.is_none());
        // One of two is not enough, and is told.
        decide(&store, about(NPM, "c", "C.", Decision::Approve), "ann@local", 2).await;
        let found = queue(&store, Scope::Decided).await;
        let standing = found.releases[0].tools[1].standing.as_ref().unwrap();
        assert_eq!(
            (standing.record.tool.as_str(), standing.state),
            ("c", State::Proposed)
        );
        for name in ["a", "c", "d"] {
            let description = if name == "a" {
                "Another.".to_owned()
            } else {
                format!("{}.", name.to_uppercase())
            };
            decide(
                &store,
                about(NPM, name, &description, Decision::Approve),
                "bob@local",
                if name == "c" { 2 } else { 1 },
            )
            .await;
        }
        assert!(queue(&store, Scope::Decided).await.releases.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_page_goes_on_where_the_last_one_ended_over_servers_and_over_tools() {
    on_each_backend(async |store| {
        let mut expected = BTreeSet::new();
        for number in 0..7 {
            let reference = format!("npm:s{number}");
            add(&store, &reference).await;
            // Three of one time, so that the identity decides.
            saw(
                &store,
                &reference,
                "1",
                START + number / 3,
                &[("x", "X."), ("y", "Y."), ("z", "Z.")],
            )
            .await;
            expected.insert(reference);
        }
        let (mut place, mut found, mut last) = (None, BTreeSet::new(), i64::MAX);
        loop {
            let page = store
                .queue(TENANT, Scope::All, place.as_ref(), (2, 2), START)
                .await
                .unwrap();
            assert!(page.releases.len() <= 2);
            for release in &page.releases {
                assert!(release.since <= last);
                last = release.since;
                assert_eq!((names(release), release.waiting), (vec!["x", "y"], 3));
                let identity = release.server.identity.clone();
                let next = release.next.as_ref();
                let (_, rest) = store.waiting_of(TENANT, &identity, next, 2, START).await.unwrap();
                assert_eq!(names(&rest.unwrap()), ["z"]);
                assert!(found.insert(identity));
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        assert_eq!(found, expected);
    })
    .await;
}

/// A chain over three definitions of one server, by two people, with ends, needed one or two: whatever the statement says to be
/// settled is what the fold says, at several times.
#[tokio::test]
async fn the_statement_and_the_fold_agree() {
    on_each_backend(async |store| {
        add(&store, NPM).await;
        saw(&store, NPM, "1", START, &[("a", "A."), ("b", "B."), ("c", "C.")]).await;
        // A generator without a seed from outside: the same chain each time.
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let tools = [("a", "A."), ("b", "B."), ("c", "C.")];
        for _ in 0..120 {
            let (name, description) = tools[usize::try_from(next(3)).unwrap()];
            let decision = Decision::ALL[usize::try_from(next(5)).unwrap().min(2) % 3];
            let decision = if next(2) == 0 { Decision::Approve } else { decision };
            let ends = (next(3) == 0).then(|| START + 1 + i64::try_from(next(60)).unwrap());
            let decision = NewDecision {
                expires_at: ends,
                ..about(NPM, name, description, decision)
            };
            let subject = ["ann@local", "bob@local"][usize::try_from(next(2)).unwrap()];
            decide(&store, decision, subject, u8::try_from(1 + next(2)).unwrap()).await;
            for now in [START, START + 20, START + 90] {
                let definitions = tools.map(|(name, description)| (NPM, name, digest(name, description)));
                let stood = store.standing_of(TENANT, &definitions, now).await.unwrap();
                let open: Vec<&str> = definitions
                    .iter()
                    .zip(&stood.standing)
                    .filter(|(_, standing)| {
                        let state = standing.as_ref().map(|standing| standing.state);
                        !matches!(state, Some(State::Approved | State::Refused))
                    })
                    .map(|((_, name, _), _)| *name)
                    .collect();
                let (_, release) = store.waiting_of(TENANT, NPM, None, 200, now).await.unwrap();
                let waiting = release.as_ref().map_or_else(Vec::new, names);
                assert_eq!(waiting, open);
                let counted = release.map_or(0, |release| release.waiting);
                assert_eq!(counted, i64::try_from(open.len()).unwrap());
            }
        }
    })
    .await;
}

fn request(name: &str, description: &str) -> NewRequest {
    let definition = tool(name, description).definition;
    NewRequest {
        identity: "cmd:local".to_owned(),
        tool: name.to_owned(),
        digest: definition.digest(),
        definition: definition.text().to_owned(),
        baseline: None,
        note: Some("needed by the release".to_owned()),
    }
}

#[tokio::test]
async fn what_a_gate_asks_is_asked_once_and_is_open_until_it_is_settled() {
    on_each_backend(async |store| {
        let ann = store
            .sign_in(&crate::accounts::known_as("ann"), START)
            .await
            .unwrap();
        let bob = store
            .sign_in(&crate::accounts::known_as("bob"), START)
            .await
            .unwrap();
        let both = [request("a", "A."), request("b", "B.")];
        assert_eq!(store.add_requests(TENANT, ann.id, &both, START).await.unwrap(), 2);
        assert_eq!(
            store
                .add_requests(TENANT, bob.id, &both, START + 1)
                .await
                .unwrap(),
            0
        );
        let (_, open) = store.open_requests(TENANT, None, 200, START).await.unwrap();
        let shown: Vec<(&str, &str, i64)> = open
            .iter()
            .map(|open| (open.request.tool.as_str(), open.by.as_str(), open.at))
            .collect();
        assert_eq!(
            shown,
            [("b", ann.who().as_str(), START), ("a", ann.who().as_str(), START)]
        );
        assert_eq!(open[1].request, both[0]);
        let (_, rest) = store
            .open_requests(TENANT, Some(open[0].id), 200, START)
            .await
            .unwrap();
        assert_eq!(rest.len(), 1);
        decide(
            &store,
            about("cmd:local", "a", "A.", Decision::Refuse),
            "ann@local",
            1,
        )
        .await;
        decide(
            &store,
            about("cmd:local", "b", "B.", Decision::Approve),
            "ann@local",
            2,
        )
        .await;
        let (_, open) = store.open_requests(TENANT, None, 200, START).await.unwrap();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].standing.as_ref().unwrap().state, State::Proposed);
        let asked = [
            ("cmd:local", "a", both[0].digest),
            ("cmd:local", "a", both[1].digest),
            ("cmd:other", "a", both[0].digest),
        ];
        assert_eq!(store.were_requested(&asked).await.unwrap(), [true, false, false]);
    })
    .await;
}

#[tokio::test]
async fn one_account_asks_so_much_and_no_more() {
    on_each_backend(async |store| {
        let ann = store.sign_in(&crate::accounts::known_as("ann"), START).await.unwrap();
        let many: Vec<NewRequest> = (0..1_001).map(|number| request(&number.to_string(), "X.")).collect();
        let error = store.add_requests(TENANT, ann.id, &many, START).await.unwrap_err();
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"refused: you would have 1001 questions open, at most 1000 are taken: wait until some are decided");
        }
        assert_eq!(store.open_requests(TENANT, None, 1, START).await.unwrap().1.len(), 0);
        assert_eq!(store.add_requests(TENANT, ann.id, &many[1..], START).await.unwrap(), 1_000);
        // The same again is nothing new.
        assert_eq!(store.add_requests(TENANT, ann.id, &many[1..3], START).await.unwrap(), 0);
    })
    .await;
}
