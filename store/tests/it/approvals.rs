//! The chain of approvals in the database: added whole or not at all, and every change of it by other hands found and named.

use mcpindex_contract::approval::{ChainFlaw, Decision, Record, Standing, State};
use mcpindex_contract::digest::Digest;
use mcpindex_store::approvals::{Appended, Imported, NewDecision};
use mcpindex_store::audit::Action;
use mcpindex_store::testing::{TestStore, on_each_backend, on_each_database};
use mcpindex_store::{Store, StoreError};

use crate::fixture::START;

const TENANT: &str = "default";
const ANN: &str = "ann@local";
const BOB: &str = "bob@local";

fn digest(of: &str) -> Digest {
    Digest::of_canonical(of)
}

fn about(tool: &str, decision: Decision) -> NewDecision {
    NewDecision {
        identity: "npm:a".to_owned(),
        tool: tool.to_owned(),
        digest: digest(tool),
        decision,
        reason: None,
        reference: None,
        expires_at: None,
    }
}

async fn append(store: &Store, decisions: &[NewDecision], subject: &str, seen: u64) -> Appended {
    store
        .append_approvals(TENANT, decisions, subject, 1, seen, START)
        .await
        .unwrap()
}

async fn done(store: &Store, decisions: &[NewDecision]) -> Vec<Record> {
    let (head, _) = store.approvals_since(TENANT, 0, 0).await.unwrap();
    match append(store, decisions, ANN, head.sequence).await {
        Appended::Done(records) => records,
        Appended::Conflict(records) => panic!("{records:?}"),
    }
}

/// A chain of this many approvals, of the tools `1`, `2`, …
async fn approved(store: &Store, count: usize) {
    for number in 1..=count {
        done(store, &[about(&number.to_string(), Decision::Approve)]).await;
    }
}

/// The tools of `npm:a` in this state, by name.
async fn in_state(store: &Store, state: State) -> Vec<String> {
    let stood = store.standing(TENANT, "npm:a", START).await.unwrap();
    stood
        .standing
        .into_iter()
        .filter(|standing| standing.state == state)
        .map(|standing| standing.record.tool)
        .collect()
}

async fn by_other_hands(database: &TestStore, statements: &[&str]) {
    for statement in statements {
        database.execute(statement).await;
    }
}

#[tokio::test]
async fn decisions_are_added_in_a_chain_and_read_back_from_any_place() {
    on_each_backend(async |store| {
        let (head, records) = store.approvals_since(TENANT, 0, 10).await.unwrap();
        assert_eq!((head.sequence, records.len()), (0, 0));
        let full = NewDecision {
            tool: "a\0b \u{1f} \u{fdd0}".to_owned(),
            digest: Digest::of_raw("x"),
            reason: Some("read it".to_owned()),
            reference: Some("TICKET-1".to_owned()),
            expires_at: Some(START + 50),
            ..about("", Decision::Approve)
        };
        let first = done(&store, &[full, about("b", Decision::Refuse)]).await;
        let second = done(&store, &[about("c", Decision::Withdraw)]).await;
        let all = [first, second].concat();
        let (head, records) = store.approvals_since(TENANT, 0, 10).await.unwrap();
        assert_eq!(records, all);
        assert_eq!((head.sequence, head.hash), (3, all[2].hash()));
        let (_, records) = store.approvals_since(TENANT, 1, 1).await.unwrap();
        assert_eq!(records, all[1..2]);
        let state = store.verified_approvals(TENANT, START).await.unwrap();
        assert_eq!((state.head, state.good, state.flaw), (head, 3, None));
        // Another organisation's chain is its own.
        store
            .append_approvals("other", &[about("b", Decision::Approve)], BOB, 2, 0, START)
            .await
            .unwrap();
        assert_eq!(store.approvals_since(TENANT, 0, 10).await.unwrap().1, all);
        let state = store.verified_approvals("other", START).await.unwrap();
        assert_eq!((state.good, state.flaw), (1, None));
    })
    .await;
}

#[tokio::test]
async fn decisions_are_all_added_or_none() {
    on_each_backend(async |store| {
        let refused = async |decisions: &[NewDecision], subject: &str, needed: u8| {
            let adding = store.append_approvals(TENANT, decisions, subject, needed, 0, START);
            adding.await.unwrap_err().to_string()
        };
        let good = about("a", Decision::Approve);
        let long = NewDecision {
            reason: Some("x".repeat(2_001)),
            ..about("b", Decision::Approve)
        };
        let past = NewDecision {
            expires_at: Some(START),
            ..about("b", Decision::Approve)
        };
        let many: Vec<NewDecision> = (0..1_001)
            .map(|number| about(&number.to_string(), Decision::Approve))
            .collect();
        let lines = [
            refused(&[], ANN, 1).await,
            refused(&[good.clone(), long], ANN, 1).await,
            refused(&[good.clone(), past], ANN, 1).await,
            refused(&[good.clone(), about("a", Decision::Refuse)], ANN, 1).await,
            refused(&many, ANN, 1).await,
            refused(std::slice::from_ref(&good), "", 1).await,
            refused(&[good], ANN, 3).await,
        ];
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines.join("\n"), @r#"
            refused: no decision was given
            refused: a decision: reason: expected at most 2,000 characters without control characters
            refused: the decision about `b` ends before it begins
            refused: two decisions about one definition of `a`
            refused: 1001 decisions at once, at most 1000 are taken: send them in pieces
            refused: a decision: subject: expected 1 to 1,600 bytes without control characters
            refused: a decision: needed: expected 1 or 2
            "#);
        }
        assert_eq!(store.approvals_since(TENANT, 0, 10).await.unwrap().0.sequence, 0);
        assert_eq!(store.audit(None, 10).await.unwrap(), []);
        // As many as are taken at once, in one chain.
        done(&store, &many[..1_000]).await;
        let state = store.verified_approvals(TENANT, START).await.unwrap();
        assert_eq!((state.good, state.flaw), (1_000, None));
    })
    .await;
}

#[tokio::test]
async fn who_did_not_see_the_last_decision_is_told_of_it() {
    on_each_backend(async |store| {
        let first = done(&store, &[about("a", Decision::Approve)]).await;
        // About something else, it does not matter.
        let other = append(&store, &[about("b", Decision::Refuse)], BOB, 0).await;
        assert!(matches!(other, Appended::Done(_)), "{other:?}");
        let both = [about("c", Decision::Approve), about("a", Decision::Refuse)];
        assert_eq!(append(&store, &both, BOB, 0).await, Appended::Conflict(first));
        // The same digest of another tool or server is something else.
        let elsewhere = NewDecision {
            identity: "npm:b".to_owned(),
            ..about("a", Decision::Refuse)
        };
        let other = append(&store, &[elsewhere], BOB, 0).await;
        assert!(matches!(other, Appended::Done(_)), "{other:?}");
        assert_eq!(in_state(&store, State::Approved).await, ["a"]);
        let both = append(&store, &both, BOB, 3).await;
        assert!(matches!(both, Appended::Done(_)), "{both:?}");
        assert_eq!(in_state(&store, State::Refused).await, ["a", "b"]);
    })
    .await;
}

#[tokio::test]
async fn of_two_approvers_at_once_one_is_told_of_the_other() {
    on_each_database(async |database| {
        let other = Store::open(&database.location).await.unwrap();
        for round in 0..10_u64 {
            let tool = round.to_string();
            let decisions = [about(&tool, Decision::Approve)];
            let (one, two) = tokio::join!(
                append(&database.store, &decisions, ANN, round),
                append(&other, &decisions, BOB, round),
            );
            let (won, lost) = match (one, two) {
                (Appended::Done(won), Appended::Conflict(lost)) => (won, lost),
                (Appended::Conflict(lost), Appended::Done(won)) => (won, lost),
                both => panic!("{both:?}"),
            };
            assert_eq!(won, lost);
        }
        let state = database.store.verified_approvals(TENANT, START).await.unwrap();
        assert_eq!((state.good, state.flaw), (10, None));
    })
    .await;
}

#[tokio::test]
async fn each_decision_is_in_the_audit_log_with_who_made_it() {
    on_each_backend(async |store| {
        done(&store, &[about("a", Decision::Approve)]).await;
        let three = ["b", "c", "d"].map(|tool| about(tool, Decision::Approve));
        append(&store, &three, BOB, 1).await;
        append(
            &store,
            &[about("b", Decision::Refuse), about("e", Decision::Approve)],
            ANN,
            4,
        )
        .await;
        let lines: Vec<String> = store
            .audit(None, 10)
            .await
            .unwrap()
            .into_iter()
            .map(|line| {
                assert_eq!((line.action, line.at), (Action::Decided, START));
                format!("{} {}: {}", line.subject, line.object, line.detail.unwrap())
            })
            .collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(lines.join("\n"), @r#"
            ann@local approvals 5-6: approve 1, refuse 1
            bob@local approvals 2-4: approve 3
            ann@local approval 1: approve 1
            "#);
        }
        let first = store.audit(None, 1).await.unwrap();
        let rest = store.audit(Some(first[0].id), 10).await.unwrap();
        assert_eq!(rest.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn what_stands_is_told_for_a_server_and_for_definitions_in_their_order() {
    on_each_backend(async |store| {
        let brief = NewDecision {
            expires_at: Some(START + 50),
            ..about("b", Decision::Approve)
        };
        done(&store, &[about("a", Decision::Refuse), brief]).await;
        let third = [about("c", Decision::Approve)];
        let by_one = store.append_approvals(TENANT, &third, ANN, 2, 2, START);
        by_one.await.unwrap();
        let (a, b, c, d) = (digest("a"), digest("b"), digest("c"), digest("d"));
        let asked = [
            ("npm:a", "d", d),
            ("npm:a", "b", b),
            ("npm:b", "b", b),
            ("npm:a", "a", a),
            ("npm:a", "c", c),
            ("npm:a", "a", b),
        ];
        let states = async |now: i64| {
            let stood = store.standing_of(TENANT, &asked, now).await.unwrap();
            assert_eq!(stood.chain.flaw, None);
            let state = |standing: Option<Standing>| standing.map_or("-", |standing| standing.state.name());
            stood
                .standing
                .into_iter()
                .map(state)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(states(START).await, "- approved - refused proposed -");
        assert_eq!(states(START + 50).await, "- expired - refused proposed -");
        let by_another = store.append_approvals(TENANT, &third, BOB, 2, 3, START);
        by_another.await.unwrap();
        assert_eq!(states(START).await, "- approved - refused approved -");
        assert_eq!(in_state(&store, State::Approved).await, ["b", "c"]);
    })
    .await;
}

/// Breaks a chain of six approvals by other hands, and sees that it is found, named, and not obeyed from there on: by a process that
/// has verified the chain before, and by one that starts.
async fn check_broken(statements: &[&str], expected: &ChainFlaw, obeyed: &[&str]) {
    on_each_database(async |database| {
        approved(&database.store, 6).await;
        assert_eq!(in_state(&database.store, State::Approved).await.len(), 6);
        by_other_hands(database, statements).await;
        let starting = Store::open(&database.location).await.unwrap();
        for store in [&starting, &database.store] {
            let state = store.verify_approvals(TENANT, START).await.unwrap();
            assert_eq!(state.flaw.as_ref(), Some(expected), "{}", store.backend());
            assert_eq!(state.good, expected.first_bad() - 1);
            assert_eq!(in_state(store, State::Approved).await, obeyed);
            // Nothing is added to it, also by who would not have noticed.
            let adding = [about("new", Decision::Approve)];
            let adding = store.append_approvals(TENANT, &adding, ANN, 1, 6, START);
            match adding.await {
                Err(StoreError::ChainBroken { flaw }) => assert_eq!(flaw, *expected),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_altered_record_is_found() {
    for change in [
        "subject = 'eve@local'",
        "identity = 'npm:b'",
        "tool = 'x'",
        "digest = 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'",
        "decision = 'withdraw'",
        "needed = 2",
        "reason = 'x'",
        "reference = 'x'",
        "expires_at = 9999",
        "decided_at = 1",
    ] {
        let statement = format!("UPDATE approval_record SET {change} WHERE sequence = 4");
        check_broken(
            &[&statement],
            &ChainFlaw::Altered { sequence: 4 },
            &["1", "2", "3"],
        )
        .await;
    }
    let last = "UPDATE approval_record SET reason = 'x' WHERE sequence = 6";
    check_broken(
        &[last],
        &ChainFlaw::HeadDiffers { sequence: 6 },
        &["1", "2", "3", "4", "5"],
    )
    .await;
}

#[tokio::test]
async fn a_record_that_is_none_any_more_is_found() {
    let flaw = |what: &str| ChainFlaw::Unreadable {
        sequence: 3,
        what: what.to_owned(),
    };
    let check = async |change: &str, what: &str| {
        let statement = format!("UPDATE approval_record SET {change} WHERE sequence = 3");
        check_broken(&[&statement], &flaw(what), &["1", "2"]).await;
    };
    check("decision = 'bless'", "decision: no such decision").await;
    check("needed = 300", "needed: expected 1 or 2").await;
    check("subject = 'a\u{1f}b'", "a text holds what no stored text does").await;
    check("hash_before = ''", "before: expected `sha256:` and 64 hex digits").await;
    check(
        "decided_at = 9007199254740992",
        "at: expected unix seconds below 2^53",
    )
    .await;
}

#[tokio::test]
async fn a_removed_record_is_found() {
    let gap = ChainFlaw::Gap {
        expected: 4,
        found: Some(5),
    };
    check_broken(
        &["DELETE FROM approval_record WHERE sequence = 4"],
        &gap,
        &["1", "2", "3"],
    )
    .await;
    let end = ChainFlaw::Gap {
        expected: 5,
        found: None,
    };
    check_broken(
        &["DELETE FROM approval_record WHERE sequence > 4"],
        &end,
        &["1", "2", "3", "4"],
    )
    .await;
    // Closing the gap only moves the flaw to what no longer fits.
    let closed = [
        "DELETE FROM approval_record WHERE sequence = 4",
        "UPDATE approval_record SET sequence = 4 WHERE sequence = 5",
        "UPDATE approval_record SET sequence = 5 WHERE sequence = 6",
        "UPDATE approval_head SET sequence = 5",
    ];
    check_broken(&closed, &ChainFlaw::Altered { sequence: 3 }, &["1", "2"]).await;
}

#[tokio::test]
async fn records_in_another_order_are_found() {
    let swapped = [
        "UPDATE approval_record SET sequence = 99 WHERE sequence = 4",
        "UPDATE approval_record SET sequence = 4 WHERE sequence = 5",
        "UPDATE approval_record SET sequence = 5 WHERE sequence = 99",
    ];
    // Of 3 and the new 4 one must be wrong, and neither is believed.
    check_broken(&swapped, &ChainFlaw::Altered { sequence: 3 }, &["1", "2"]).await;
}

#[tokio::test]
async fn a_head_moved_back_is_found() {
    let flaw = ChainFlaw::HeadBehind { head: 4, records: 6 };
    let back = "UPDATE approval_head SET sequence = 4, hash = (SELECT hash_before FROM approval_record WHERE sequence = 5)";
    check_broken(&[back], &flaw, &["1", "2", "3", "4"]).await;
    let lost = ChainFlaw::HeadBehind { head: 0, records: 6 };
    check_broken(&["DELETE FROM approval_head WHERE sequence = 6"], &lost, &[]).await;
    let differs = ChainFlaw::HeadDiffers { sequence: 6 };
    check_broken(
        &["UPDATE approval_head SET hash = 'x'"],
        &differs,
        &["1", "2", "3", "4", "5"],
    )
    .await;
}

#[tokio::test]
async fn a_chain_cut_short_with_its_head_is_found_by_who_saw_it_whole() {
    on_each_database(async |database| {
        let store = &database.store;
        approved(store, 6).await;
        assert_eq!(in_state(store, State::Approved).await.len(), 6);
        by_other_hands(
            database,
            &[
                "UPDATE approval_head SET sequence = 4, hash = (SELECT hash_before FROM approval_record WHERE sequence = 5)",
                "DELETE FROM approval_record WHERE sequence > 4",
            ],
        )
        .await;
        // At the next reading, without waiting for the next whole verification.
        let state = store.verified_approvals(TENANT, START + 1).await.unwrap();
        let cut = ChainFlaw::HeadBehind { head: 4, records: 6 };
        assert_eq!((state.good, state.flaw), (4, Some(cut.clone())));
        let adding = [about("new", Decision::Approve)];
        let adding = store.append_approvals(TENANT, &adding, ANN, 1, 6, START).await;
        assert!(matches!(adding, Err(StoreError::ChainBroken { flaw }) if flaw == cut));
        // Written on as if nothing had been there, it is another chain, now and later.
        let other = Store::open(&database.location).await.unwrap();
        for tool in ["five", "six", "seven"] {
            done(&other, &[about(tool, Decision::Approve)]).await;
        }
        for later in [20, 2_000] {
            let state = store.verified_approvals(TENANT, START + later).await.unwrap();
            assert_eq!(state.flaw, Some(ChainFlaw::Rewritten { sequence: 6 }));
            assert_eq!(in_state(store, State::Approved).await, [""; 0]);
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_verified_is_held_to_the_head_at_once_and_to_every_record_in_time() {
    on_each_database(async |database| {
        let store = &database.store;
        approved(store, 6).await;
        let flaw = async |now: i64| store.verified_approvals(TENANT, now).await.unwrap().flaw;
        assert_eq!(flaw(START).await, None);
        by_other_hands(
            database,
            &["UPDATE approval_record SET reason = 'x' WHERE sequence = 2"],
        )
        .await;
        // What comes new is verified at once.
        done(store, &[about("7", Decision::Approve)]).await;
        assert_eq!(flaw(START + 599).await, None);
        let altered = Some(ChainFlaw::Altered { sequence: 2 });
        assert_eq!(flaw(START + 600).await, altered);
        // Mended by other hands, it is whole again, soon.
        by_other_hands(
            database,
            &["UPDATE approval_record SET reason = NULL WHERE sequence = 2"],
        )
        .await;
        assert_eq!(flaw(START + 609).await, altered);
        assert_eq!(flaw(START + 610).await, None);
        // A clock that went back is no reason to trust.
        by_other_hands(
            database,
            &["UPDATE approval_record SET reason = 'x' WHERE sequence = 2"],
        )
        .await;
        assert_eq!(flaw(START).await, altered);
    })
    .await;
}

#[tokio::test]
async fn a_refusal_past_a_flaw_still_takes_an_approval_away() {
    on_each_database(async |database| {
        let store = &database.store;
        approved(store, 3).await;
        done(store, &[about("1", Decision::Refuse)]).await;
        by_other_hands(
            database,
            &["UPDATE approval_record SET reason = 'x' WHERE sequence = 3"],
        )
        .await;
        let state = store.verify_approvals(TENANT, START).await.unwrap();
        assert_eq!(state.flaw, Some(ChainFlaw::Altered { sequence: 3 }));
        assert_eq!(in_state(store, State::Approved).await, ["2"]);
        assert_eq!(in_state(store, State::Doubtful).await, ["1"]);
    })
    .await;
}

#[tokio::test]
async fn a_record_that_can_not_be_read_any_more_is_a_flaw_where_it_is_met() {
    on_each_database(async |database| {
        let store = &database.store;
        approved(store, 3).await;
        assert_eq!(in_state(store, State::Approved).await, ["1", "2", "3"]);
        by_other_hands(
            database,
            &["UPDATE approval_record SET decision = 'bless' WHERE sequence = 2"],
        )
        .await;
        let stood = store.standing(TENANT, "npm:a", START).await.unwrap();
        let flaw = ChainFlaw::Unreadable {
            sequence: 2,
            what: "decision: no such decision".to_owned(),
        };
        assert_eq!((stood.chain.good, stood.chain.flaw), (1, Some(flaw.clone())));
        assert_eq!(in_state(store, State::Approved).await, ["1"]);
        // What comes before it is given, and it is named where it would be first.
        assert_eq!(store.approvals_since(TENANT, 0, 10).await.unwrap().1.len(), 1);
        let error = store.approvals_since(TENANT, 1, 10).await.unwrap_err();
        assert!(matches!(error, StoreError::ChainBroken { flaw: found } if found == flaw));
        assert_eq!(store.approvals_since(TENANT, 2, 10).await.unwrap().1.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn another_indexs_records_are_taken_into_an_empty_chain_or_go_on_from_the_same_one() {
    on_each_database(async |database| {
        let (from, to) = (&database.store, TestStore::sqlite().await);
        let to = &to.store;
        approved(from, 5).await;
        let (head, records) = from.approvals_since(TENANT, 0, 100).await.unwrap();
        let import = async |count: usize| {
            let part = &records[..count];
            let head = mcpindex_contract::approval::Head {
                sequence: part.last().unwrap().sequence,
                hash: part.last().unwrap().hash(),
            };
            to.import_approvals(TENANT, &head, part, "shell", START + 9)
                .await
                .unwrap()
        };
        let done = |there, added| Imported::Done { there, added };
        assert_eq!(import(3).await, done(0, 3));
        assert_eq!(import(3).await, done(3, 0));
        assert_eq!(import(2).await, Imported::GoesOn { here: 3 });
        assert_eq!(import(5).await, done(3, 2));
        assert_eq!(
            to.approvals_since(TENANT, 0, 100).await.unwrap(),
            (head, records.clone())
        );
        assert_eq!(to.verify_approvals(TENANT, START).await.unwrap().flaw, None);
        assert_eq!(in_state(to, State::Approved).await.len(), 5);
        let lines: Vec<String> = to
            .audit(None, 10)
            .await
            .unwrap()
            .into_iter()
            .map(|line| format!("{} {} {}", line.action.name(), line.object, line.at))
            .collect();
        assert_eq!(
            lines,
            [
                "approvals-imported approvals 4-5 1009",
                "approvals-imported approvals 1-3 1009"
            ]
        );
        // A chain that went another way is not mixed with it.
        let other = TestStore::sqlite().await;
        approved(&other.store, 2).await;
        append(&other.store, &[about("3", Decision::Refuse)], BOB, 2).await;
        let importing = other
            .store
            .import_approvals(TENANT, &head, &records, "shell", START);
        assert_eq!(importing.await.unwrap(), Imported::Differs { sequence: 3 });
        assert_eq!(
            other
                .store
                .approvals_since(TENANT, 0, 9)
                .await
                .unwrap()
                .0
                .sequence,
            3
        );
        // Records that don't fit together are taken nowhere.
        let mut altered = records.clone();
        altered[1].reason = Some("x".to_owned());
        let empty = TestStore::sqlite().await;
        let importing = empty
            .store
            .import_approvals(TENANT, &head, &altered, "shell", START);
        let error = importing.await.unwrap_err();
        let flaw = ChainFlaw::Altered { sequence: 2 };
        assert!(matches!(error, StoreError::ChainBroken { flaw: found } if found == flaw));
        assert_eq!(
            empty
                .store
                .approvals_since(TENANT, 0, 9)
                .await
                .unwrap()
                .0
                .sequence,
            0
        );
    })
    .await;
}
