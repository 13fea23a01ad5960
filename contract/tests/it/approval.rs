//! Approvals: the one written form, the chain that finds every change, and what stands when.

use mcpindex_contract::approval::{
    ChainFlaw, ChainHash, Decision, Head, Record, Standings, State, Verifier, verify,
};
use mcpindex_contract::digest::Digest;
use proptest::prelude::*;

const TENANT: &str = "default";

fn record(sequence: u64, subject: &str, tool: &str, decision: Decision) -> Record {
    Record {
        tenant: TENANT.to_owned(),
        sequence,
        subject: subject.to_owned(),
        identity: "npm:a".to_owned(),
        tool: tool.to_owned(),
        digest: Digest::of_canonical("{}"),
        decision,
        needed: 1,
        reason: None,
        reference: None,
        expires_at: None,
        at: 1_000,
        before: ChainHash::genesis(TENANT),
    }
}

/// Puts records into a chain, one after the other.
fn chained(mut records: Vec<Record>) -> (Vec<Record>, Head) {
    let mut head = Head::empty(TENANT);
    for record in &mut records {
        record.sequence = head.sequence + 1;
        record.before = head.hash;
        head = Head {
            sequence: record.sequence,
            hash: record.hash(),
        };
    }
    (records, head)
}

fn chain(length: u64) -> (Vec<Record>, Head) {
    chained(
        (1..=length)
            .map(|number| record(number, "ann@local", &format!("tool {number}"), Decision::Approve))
            .collect(),
    )
}

fn found(records: &[Record], head: &Head) -> Result<Head, ChainFlaw> {
    verify(TENANT, Head::empty(TENANT), records, head)
}

/// The flaw, and the first record that may not be obeyed.
fn check(records: &[Record], head: &Head, name: &str, first_bad: u64) {
    let flaw = found(records, head).unwrap_err();
    assert_eq!((flaw.name(), flaw.first_bad()), (name, first_bad), "{flaw}");
}

#[test]
fn a_record_has_one_text_and_its_hash_is_known() {
    let mut record = record(1, "ann@local", "say \"hé\"\u{1}", Decision::Approve);
    insta::assert_snapshot!(record.text(), @r#"
    {"at":1000,"before":"sha256:95cf31c23dfb7c3f2b025af4e6ff8566db25aa9421b1154aee83d40f1e3098c8","decision":"approve","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","format":"mcpindex-approval/1","identity":"npm:a","needed":1,"sequence":1,"subject":"ann@local","tenant":"default","tool":"say \"hé\"\u0001"}
    "#);
    insta::assert_snapshot!(record.hash().to_string(), @r#"
    sha256:92e30b6a71ac29dba028136a43b62af4c57c2ee3703530596d093fdf97f67730
    "#);
    record.needed = 2;
    record.reason = Some("read it".to_owned());
    record.reference = Some("TICKET-1".to_owned());
    record.expires_at = Some(2_000);
    insta::assert_snapshot!(record.text(), @r#"
    {"at":1000,"before":"sha256:95cf31c23dfb7c3f2b025af4e6ff8566db25aa9421b1154aee83d40f1e3098c8","decision":"approve","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","expires_at":2000,"format":"mcpindex-approval/1","identity":"npm:a","needed":2,"reason":"read it","reference":"TICKET-1","sequence":1,"subject":"ann@local","tenant":"default","tool":"say \"hé\"\u0001"}
    "#);
}

#[test]
fn the_first_record_follows_the_tenants_name() {
    insta::assert_snapshot!(ChainHash::genesis(TENANT).to_string(), @r#"
    sha256:95cf31c23dfb7c3f2b025af4e6ff8566db25aa9421b1154aee83d40f1e3098c8
    "#);
    assert_ne!(ChainHash::genesis("other"), ChainHash::genesis(TENANT));
    let (records, head) = chain(2);
    assert!(verify("other", Head::empty("other"), &records, &head).is_err());
    assert_eq!(found(&[], &Head::empty(TENANT)).unwrap(), Head::empty(TENANT));
}

#[test]
fn each_flaw_is_named_with_its_place_and_what_it_means() {
    let (records, head) = chain(4);
    let mut lines = Vec::new();
    let mut note = |records: &[Record], head: &Head| {
        let flaw = found(records, head).unwrap_err();
        lines.push(format!("{} {}: {flaw}", flaw.name(), flaw.first_bad()));
    };
    note(&records[..3], &head);
    note(&[records[0].clone(), records[2].clone()], &head);
    note(&[records[0].clone(), records[0].clone()], &head);
    let altered = |index: usize| {
        let mut records = records.clone();
        records[index].reason = Some("another".to_owned());
        records
    };
    note(&altered(1), &head);
    note(&altered(3), &head);
    let (_, short) = chain(2);
    note(&records, &short);
    let mut foreign = records.clone();
    foreign[0].before = ChainHash::genesis("other");
    note(&foreign, &head);
    let mut unreadable = records.clone();
    unreadable[1].needed = 3;
    note(&unreadable, &head);
    let mut other = records.clone();
    other[2].tenant = "other".to_owned();
    note(&other, &head);
    insta::assert_snapshot!(lines.join("\n"), @r#"
    gap 4: record 4 and what came after it are missing: they were removed
    gap 2: record 2 is missing, record 3 stands in its place: it was removed
    gap 2: record 1 stands where record 2 is due
    altered 2: record 2 is not as it was when record 3 was written after it: one of the two was altered, replaced or moved
    head-differs 4: the head names another hash than record 4 has: one of the two was altered
    head-behind 3: the head stands at record 2, and records go on to 4: it was moved back, or records were put in past it
    unlinked 1: record 1 does not follow what was verified before it: it was altered or replaced, or is of another chain
    unreadable 2: record 2 can't be read: needed: expected 1 or 2
    unreadable 3: record 3 can't be read: tenant: expected the chain's own
    "#);
}

#[test]
fn what_was_verified_before_is_not_asked_for_again() {
    let (records, head) = chain(5);
    let (_, known) = chain(3);
    assert_eq!(verify(TENANT, known, &records[3..], &head), Ok(head));
    // Of two of which one is known to be good, the other is bad.
    let mut altered = records[3..].to_vec();
    altered[0].before = ChainHash::genesis("elsewhere");
    let flaw = verify(TENANT, known, &altered, &head).unwrap_err();
    assert_eq!(flaw, ChainFlaw::Unlinked { sequence: 4 });
    // What was pushed in pieces counts as it would at once.
    let mut verifier = Verifier::after(TENANT, known);
    altered = records[3..].to_vec();
    altered[0].at += 1;
    verifier.push(&altered[0]).unwrap();
    assert_eq!(
        verifier.push(&altered[1]),
        Err(ChainFlaw::Altered { sequence: 4 })
    );
}

#[test]
fn a_text_that_is_no_record_is_refused_by_the_member() {
    let good = record(1, "ann@local", "a", Decision::Refuse).text();
    let check = |from: &str, to: &str, message: &str| {
        assert!(good.contains(from), "{from}");
        let error = Record::read(&good.replace(from, to)).unwrap_err();
        assert_eq!(error.to_string(), message);
    };
    check("{", "[", "record: expected JSON");
    check("\"needed\":1", "\"needed\":3", "needed: expected 1 or 2");
    check("\"needed\":1", "\"needed\":257", "needed: expected 1 or 2");
    check(
        "\"needed\":1",
        "\"needed\":1.5",
        "needed: expected a whole number below 2^53",
    );
    check(
        "\"at\":1000",
        "\"at\":9007199254740992",
        "at: expected a whole number below 2^53",
    );
    check("\"at\":1000,", "", "at: expected a whole number below 2^53");
    check(
        "\"at\":1000",
        "\"at\":1000,\"extra\":1",
        "record: expected no members but those of the form",
    );
    check(
        "\"at\":1000",
        "\"at\":1000,\"at\":1000",
        "record: expected each member once, and whole characters",
    );
    check(
        "refuse",
        "forget",
        "decision: expected `approve`, `refuse` or `withdraw`",
    );
    check(
        "approval/1",
        "approval/2",
        "format: expected `mcpindex-approval/1`, a newer mcpindex may know others",
    );
    check(
        "npm:a",
        "",
        "identity: expected 1 to 1,500 bytes without control characters",
    );
    check(
        "ann@local",
        "a\\nb",
        "subject: expected 1 to 1,600 bytes without control characters",
    );
    check(
        "\"sequence\":1",
        "\"sequence\":0",
        "sequence: expected a number from 1 on, below 2^53",
    );
    check(
        "\"sequence\":1",
        "\"sequence\":-1",
        "sequence: expected a number from 1 on, below 2^53",
    );
    check(
        "\"before\":\"sha256:",
        "\"before\":\"raw-sha256:",
        "before: expected `sha256:` and 64 hex digits",
    );
    check(
        "\"digest\":\"sha256:",
        "\"digest\":\"md5:",
        "digest: expected `sha256:` or `raw-sha256:` and 64 hex digits",
    );
    let too_long = format!("\"needed\":1,\"reason\":\"{}\"", "é".repeat(2_001));
    check(
        "\"needed\":1",
        &too_long,
        "reason: expected at most 2,000 characters without control characters",
    );
    let longest = format!("\"needed\":1,\"reason\":\"{}\"", "é".repeat(2_000));
    assert!(Record::read(&good.replace("\"needed\":1", &longest)).is_ok());
    assert_eq!(
        Record::read("1").unwrap_err().to_string(),
        "record: expected an object"
    );
}

/// What stands of `tool` at a time: the state, who else, until when.
fn stands(records: &[Record], now: i64) -> Option<(State, Option<String>, Option<i64>)> {
    let mut standings = Standings::default();
    for record in records {
        standings.add(record);
    }
    let standing = standings.of("npm:a", "tool", &Digest::of_canonical("{}"), now)?;
    assert_eq!(
        standings.of_identity("npm:a", now),
        std::slice::from_ref(&standing)
    );
    assert_eq!(
        standings.all(now).collect::<Vec<_>>(),
        std::slice::from_ref(&standing)
    );
    Some((standing.state, standing.second, standing.until))
}

fn decided(subject: &str, decision: Decision, needed: u8, expires_at: Option<i64>) -> Record {
    Record {
        needed,
        expires_at,
        ..record(1, subject, "tool", decision)
    }
}

#[test]
fn the_last_decision_stands_until_it_expires() {
    use Decision::{Approve, Refuse, Withdraw};
    let check = |records: &[Record], now: i64, expected: State, until: Option<i64>| {
        assert_eq!(stands(records, now), Some((expected, None, until)));
    };
    assert_eq!(stands(&[], 0), None);
    let approved = decided("ann", Approve, 1, None);
    check(std::slice::from_ref(&approved), 0, State::Approved, None);
    check(
        &[approved.clone(), decided("bob", Refuse, 1, None)],
        0,
        State::Refused,
        None,
    );
    check(
        &[approved.clone(), decided("bob", Withdraw, 1, None)],
        0,
        State::Withdrawn,
        None,
    );
    let briefly = decided("bob", Approve, 1, Some(50));
    check(std::slice::from_ref(&briefly), 49, State::Approved, Some(50));
    check(std::slice::from_ref(&briefly), 50, State::Expired, None);
    // What was decided before does not come back.
    check(&[approved.clone(), briefly], 50, State::Expired, None);
    let refused = decided("bob", Refuse, 1, Some(50));
    check(&[approved.clone(), refused.clone()], 49, State::Refused, Some(50));
    check(&[approved, refused], 50, State::Expired, None);
}

#[test]
fn an_approval_that_takes_two_stands_with_another_persons() {
    use Decision::{Approve, Refuse, Withdraw};
    let ann = |expires_at| decided("ann", Approve, 2, expires_at);
    let bob = |expires_at| decided("bob", Approve, 2, expires_at);
    let check = |records: &[Record], now: i64, state: State, second: Option<&str>, until: Option<i64>| {
        assert_eq!(
            stands(records, now),
            Some((state, second.map(str::to_owned), until))
        );
    };
    check(&[ann(None)], 0, State::Proposed, None, None);
    check(&[ann(None), ann(None)], 0, State::Proposed, None, None);
    check(&[ann(None), bob(None)], 0, State::Approved, Some("ann"), None);
    // Of two the sooner end counts.
    check(
        &[ann(Some(5)), bob(Some(9))],
        4,
        State::Approved,
        Some("ann"),
        Some(5),
    );
    check(&[ann(Some(5)), bob(Some(9))], 5, State::Proposed, None, Some(9));
    check(&[ann(Some(9)), bob(Some(5))], 5, State::Expired, None, None);
    for between in [Refuse, Withdraw] {
        let between = decided("cid", between, 2, None);
        check(
            &[ann(None), between.clone(), bob(None)],
            0,
            State::Proposed,
            None,
            None,
        );
        check(
            &[ann(None), between, ann(None), bob(None)],
            0,
            State::Approved,
            Some("ann"),
            None,
        );
    }
    // Somebody's later approval takes the place of their earlier one.
    check(
        &[ann(None), ann(Some(5)), bob(None)],
        5,
        State::Proposed,
        None,
        None,
    );
    // The rule was made stricter: the approval of one person is half of the next.
    check(
        &[decided("ann", Approve, 1, None), bob(None)],
        0,
        State::Approved,
        Some("ann"),
        None,
    );
    // One person is enough to refuse.
    check(
        &[ann(None), bob(None), decided("ann", Refuse, 2, None)],
        0,
        State::Refused,
        None,
        None,
    );
}

#[test]
fn what_can_not_be_trusted_takes_an_approval_away_and_gives_none() {
    let mut standings = Standings::default();
    let digest = Digest::of_canonical("{}");
    standings.distrust(&record(1, "ann", "b", Decision::Approve));
    assert_eq!(standings.of("npm:a", "b", &digest, 0), None);
    standings.add(&record(1, "ann", "a", Decision::Approve));
    standings.distrust(&record(2, "ann", "a", Decision::Approve));
    let state = |standings: &Standings| standings.of("npm:a", "a", &digest, 0).unwrap().state;
    assert_eq!(state(&standings), State::Approved);
    standings.distrust(&record(3, "ann", "a", Decision::Refuse));
    standings.distrust(&record(4, "ann", "a", Decision::Approve));
    assert_eq!(state(&standings), State::Doubtful);
}

/// Any text that a member may hold; `plain` leaves control characters out.
fn words(plain: bool) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        3 => prop::char::range('a', 'e'),
        2 => prop::sample::select(vec!['"', '\\', '/', 'é', '\u{2028}', '\u{e000}', '😀', '\u{fdd0}', '\0', '\n', '\u{1f}']),
        1 => any::<char>(),
    ];
    let character = character.prop_map(move |character| {
        if plain && character.is_control() {
            '_'
        } else {
            character
        }
    });
    prop::collection::vec(character, 1..12).prop_map(String::from_iter)
}

prop_compose! {
    fn any_record()(
        subject in words(true),
        identity in words(true),
        tool in words(false),
        definition in any::<u8>(),
        raw in any::<bool>(),
        decision in prop::sample::select(Decision::ALL.to_vec()),
        needed in 1..=2_u8,
        reason in prop::option::of(words(true)),
        reference in prop::option::of(words(true)),
        expires_at in prop::option::of(-(1_i64 << 53) + 1..1 << 53),
        at in -(1_i64 << 53) + 1..1 << 53,
    ) -> Record {
        let text = definition.to_string();
        Record {
            subject, identity, tool, decision, needed, reason, reference, expires_at, at,
            digest: if raw { Digest::of_raw(&text) } else { Digest::of_canonical(&text) },
            ..record(1, "", "", Decision::Approve)
        }
    }
}

fn any_chain() -> impl Strategy<Value = (Vec<Record>, Head)> {
    prop::collection::vec(any_record(), 1..12).prop_map(chained)
}

/// Another value in one member of a record; whatever it was, it is not that any more.
fn altered(record: &Record, member: usize) -> Record {
    let mut altered = record.clone();
    let longer = |text: &str| format!("{text}x");
    let other = |words: &Option<String>| match words {
        None => Some(String::new()),
        Some(_) => None,
    };
    match member {
        0 => altered.tenant = longer(&record.tenant),
        1 => altered.subject = longer(&record.subject),
        2 => altered.identity = longer(&record.identity),
        3 => altered.tool = longer(&record.tool),
        4 => altered.digest = Digest::of_canonical(&record.digest.to_string()),
        5 => {
            altered.decision = match record.decision {
                Decision::Approve => Decision::Refuse,
                Decision::Refuse | Decision::Withdraw => Decision::Approve,
            };
        }
        6 => altered.needed = 3 - record.needed,
        7 => altered.reason = other(&record.reason),
        8 => altered.reference = other(&record.reference),
        9 => altered.expires_at = record.expires_at.is_none().then_some(7),
        10 => {
            altered.at = if record.at > 0 {
                record.at - 1
            } else {
                record.at + 1
            }
        }
        11 => altered.before = ChainHash::genesis(&record.before.to_string()),
        _ => altered.sequence += 1,
    }
    altered
}

/// How many members [`altered`] knows: all of them.
const MEMBERS: usize = 13;

proptest! {
    #[test]
    fn a_record_comes_back_from_its_text_and_the_text_is_canonical(record in any_record()) {
        let text = record.text();
        prop_assert_eq!(Record::read(&text).unwrap(), record);
        let canonical = serde_json_canonicalizer::to_string(
            &serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        ).unwrap();
        prop_assert_eq!(text, canonical);
    }

    #[test]
    fn a_chain_is_whole_in_one_piece_and_in_two((records, head) in any_chain(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(found(&records, &head), Ok(head));
        let cut = cut.index(records.len());
        let (_, known) = chained(records[..cut].to_vec());
        prop_assert_eq!(verify(TENANT, known, &records[cut..], &head), Ok(head));
    }

    #[test]
    fn whatever_is_altered_is_found_where_it_is(
        (records, head) in any_chain(), which in any::<prop::sample::Index>(), member in 0..MEMBERS,
    ) {
        let which = which.index(records.len());
        let mut changed = records.clone();
        changed[which] = altered(&records[which], member);
        let flaw = found(&changed, &head).unwrap_err();
        let number = u64::try_from(which).unwrap() + 1;
        // Where two don't fit together, the flaw is named at the first of them.
        prop_assert!((number.saturating_sub(1)..=number).contains(&flaw.first_bad()), "{} of {number}", flaw);
    }

    #[test]
    fn whatever_is_removed_is_found_where_it_was((records, head) in any_chain(), which in any::<prop::sample::Index>()) {
        let mut which = which.index(records.len());
        let mut changed = records.clone();
        changed.remove(which);
        let flaw = found(&changed, &head).unwrap_err();
        prop_assert_eq!(flaw.first_bad(), u64::try_from(which).unwrap() + 1);
        // Also when the numbers are mended.
        for (index, record) in changed.iter_mut().enumerate() {
            record.sequence = u64::try_from(index).unwrap() + 1;
        }
        let flaw = found(&changed, &head).unwrap_err();
        which = which.max(1);
        prop_assert!(flaw.first_bad() <= u64::try_from(which).unwrap() + 1, "{flaw}");
        prop_assert!(flaw.first_bad() >= u64::try_from(which).unwrap(), "{flaw}");
    }

    #[test]
    fn another_order_is_found(
        (records, head) in any_chain(), one in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(),
    ) {
        let (one, other) = (one.index(records.len()), other.index(records.len()));
        prop_assume!(one != other);
        let mut changed = records.clone();
        changed.swap(one, other);
        let first = u64::try_from(one.min(other)).unwrap() + 1;
        prop_assert_eq!(found(&changed, &head).unwrap_err().first_bad(), first);
        // Also when the numbers are mended.
        let sequence = changed[one].sequence;
        changed[one].sequence = changed[other].sequence;
        changed[other].sequence = sequence;
        let flaw = found(&changed, &head).unwrap_err();
        prop_assert!((first.saturating_sub(1)..=first).contains(&flaw.first_bad()), "{flaw}");
    }

    #[test]
    fn a_head_moved_back_or_ahead_is_found((records, head) in any_chain(), back in any::<prop::sample::Index>()) {
        let back = back.index(records.len());
        let (_, earlier) = chained(records[..back].to_vec());
        let flaw = found(&records, &earlier).unwrap_err();
        prop_assert_eq!(flaw, ChainFlaw::HeadBehind { head: earlier.sequence, records: head.sequence });
        let flaw = found(&records[..back], &head).unwrap_err();
        prop_assert_eq!(flaw, ChainFlaw::Gap { expected: earlier.sequence + 1, found: None });
        let elsewhere = Head { hash: earlier.hash, ..head };
        check(&records, &elsewhere, "head-differs", head.sequence);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        let _ = Record::read(&text);
    }
}
