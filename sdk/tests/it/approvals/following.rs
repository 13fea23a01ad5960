//! Following an index: what comes is shown once it is verified, and whatever does not continue it changes nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpindex::approvals::{Approvals, Cache, FollowOptions, MAX_AGE, Pauses, Word};
use mcpindex::clock::{Clock, SystemClock};
use mcpindex::state::StateDirectory;
use mcpindex_contract::approval::{Decision, Head};
use mcpindex_contract::digest::Digest;

use super::stand_in::Index;
use crate::proxy::until;

/// An index that is followed, and what was said of it.
pub(super) struct Followed {
    pub(super) approvals: Approvals,
    said: Arc<Mutex<Vec<String>>>,
}

impl Followed {
    pub(super) fn start(index: &Index, state: &StateDirectory) -> Followed {
        Followed::at(index, state, Arc::new(SystemClock))
    }

    fn at(index: &Index, state: &StateDirectory, clock: Arc<dyn Clock>) -> Followed {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&said);
        let approvals = Approvals::follow(FollowOptions {
            index: index.chosen(),
            state: state.clone(),
            identities: vec!["npm:docs".to_owned()],
            max_age: MAX_AGE,
            clock,
            say: Arc::new(move |line| lines.lock().unwrap().push(line.to_owned())),
            pauses: Pauses {
                between: Duration::from_millis(20),
                retry: Duration::from_millis(10),
                longest: Duration::from_millis(40),
            },
        });
        Followed { approvals, said }
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Waits until a line was said that holds this; the line.
    async fn until_said(&self, part: &str) -> String {
        until(part, || self.said().iter().any(|line| line.contains(part))).await;
        self.said().into_iter().find(|line| line.contains(part)).unwrap()
    }

    fn word(&self, tool: &str) -> Word {
        let now = SystemClock.unix_seconds();
        let view = self.approvals.view();
        view.word("npm:docs", tool, &digest(), now)
    }
}

fn digest() -> Digest {
    Digest::of_canonical("{}")
}

fn sequence(approvals: &Approvals) -> Option<u64> {
    approvals.view().head().map(|head| head.sequence)
}

pub(super) async fn until_head(approvals: &Approvals, wanted: u64) {
    until("the head", || sequence(approvals) == Some(wanted)).await;
}

fn refused(sequence: u64) -> Word {
    Word::Refused {
        sequence,
        reason: None,
    }
}

#[tokio::test]
async fn decisions_come_by_themselves_whether_the_index_waits_or_not() {
    for is_hasty in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let index = Index::start().await;
        index.now(|says| says.is_hasty = is_hasty);
        let followed = Followed::start(&index, &StateDirectory::at(directory.path()));
        until_head(&followed.approvals, 0).await;
        assert_eq!(followed.word("read"), Word::Nothing);
        let turn = followed.approvals.turn();
        index.decide("npm:docs", "read", digest(), Decision::Refuse);
        until_head(&followed.approvals, 1).await;
        assert_eq!(followed.word("read"), refused(1));
        assert_ne!(followed.approvals.turn(), turn);
        index.decide("npm:docs", "read", digest(), Decision::Approve);
        until_head(&followed.approvals, 2).await;
        assert!(matches!(
            followed.word("read"),
            Word::Approved {
                sequence: 2,
                is_fresh: true,
                ..
            }
        ));
        assert!(followed.said().is_empty(), "{:?}", followed.said());
    }
}

#[tokio::test]
async fn a_long_chain_comes_in_pages_and_only_what_is_wanted_stays() {
    let directory = tempfile::tempdir().unwrap();
    let index = Index::start().await;
    index.now(|says| {
        says.page = Some(7);
        for number in 0..100 {
            let identity = ["npm:docs", "npm:other"][number % 2];
            let tool = format!("tool-{number}");
            says.chain.decide(identity, &tool, digest(), Decision::Refuse);
        }
    });
    let followed = Followed::start(&index, &StateDirectory::at(directory.path()));
    until_head(&followed.approvals, 100).await;
    assert_eq!(followed.word("tool-98"), refused(99));
    let now = SystemClock.unix_seconds();
    let other = followed
        .approvals
        .view()
        .word("npm:other", "tool-99", &digest(), now);
    assert_eq!(other, Word::Nothing, "it is verified and not kept in memory");
}

#[tokio::test]
async fn records_too_long_for_an_answer_are_asked_for_in_smaller_ones() {
    let directory = tempfile::tempdir().unwrap();
    let index = Index::start().await;
    index.now(|says| {
        for _ in 0..400 {
            says.chain
                .add("npm:docs", "read", digest(), Decision::Refuse, |record| {
                    record.reason = Some("\u{1f512}".repeat(2_000));
                });
        }
    });
    let followed = Followed::start(&index, &StateDirectory::at(directory.path()));
    until_head(&followed.approvals, 400).await;
    assert!(index.asked().iter().any(|asked| asked.contains("limit=125")));
}

#[tokio::test]
async fn without_the_index_what_is_kept_is_obeyed() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::at(directory.path());
    let index = Index::start().await;
    index.decide("npm:docs", "read", digest(), Decision::Refuse);
    let first = Followed::start(&index, &state);
    until_head(&first.approvals, 1).await;
    until("it is kept", || Cache::of(&state, &index.base).path().exists()).await;
    drop(first);
    index.now(|says| says.failing = Some(503));
    let second = Followed::start(&index, &state);
    // The first look waits for what is kept, and for nothing else.
    assert_eq!(second.word("read"), refused(1));
    let line = second.until_said("503").await;
    let expected = "INDEX/ is not heard: it answered 503. Decisions up to #1 are obeyed as they are known";
    assert_eq!(line.replace(index.base.as_str(), "INDEX/"), expected);
    index.until_asked_again().await;
    index.until_asked_again().await;
    assert_eq!(second.said().len(), 1, "it is said once");
    index.now(|says| {
        says.failing = None;
        says.chain
            .decide("npm:docs", "read", digest(), Decision::Withdraw);
    });
    until_head(&second.approvals, 2).await;
    second.until_said("is heard again").await;
}

#[tokio::test]
async fn a_week_later_its_age_is_said_once_and_approvals_are_stale() {
    struct Later;
    impl Clock for Later {
        fn unix_seconds(&self) -> i64 {
            SystemClock.unix_seconds() + 8 * 86_400
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::at(directory.path());
    let index = Index::start().await;
    index.decide("npm:docs", "read", digest(), Decision::Approve);
    let first = Followed::start(&index, &state);
    until_head(&first.approvals, 1).await;
    until("it is kept", || Cache::of(&state, &index.base).path().exists()).await;
    drop(first);
    index.now(|says| says.failing = Some(500));
    let second = Followed::at(&index, &state, Arc::new(Later));
    let view = second.approvals.view();
    let word = view.word("npm:docs", "read", &digest(), Later.unix_seconds());
    assert!(matches!(word, Word::Approved { is_fresh: false, .. }), "{word:?}");
    second.until_said("has not been heard for longer").await;
    index.until_asked_again().await;
    index.until_asked_again().await;
    assert_eq!(
        second.said().len(),
        2,
        "its age and the trouble: {:?}",
        second.said()
    );
    // Heard again, it is fresh, which is news though nothing was decided.
    let turn = second.approvals.turn();
    index.now(|says| says.failing = None);
    second.until_said("is heard again").await;
    assert_ne!(second.approvals.turn(), turn);
}

#[tokio::test]
async fn what_does_not_continue_the_chain_is_an_alarm_and_changes_nothing() {
    let check = async |change: &dyn Fn(&Index), expected: &str| {
        let directory = tempfile::tempdir().unwrap();
        let index = Index::start().await;
        for tool in ["read", "send"] {
            index.decide("npm:docs", tool, digest(), Decision::Refuse);
        }
        let followed = Followed::start(&index, &StateDirectory::at(directory.path()));
        until_head(&followed.approvals, 2).await;
        let head = followed.approvals.view().head();
        change(&index);
        let line = followed.until_said("ALARM").await;
        assert!(line.contains(expected), "{line}");
        assert!(
            line.contains("Decisions up to #2 are obeyed as they were"),
            "{line}"
        );
        assert_eq!(followed.approvals.view().head(), head);
        assert_eq!(followed.word("read"), refused(1));
        assert_eq!(followed.word("send"), refused(2));
    };
    let rewritten = |index: &Index| {
        index.now(|says| {
            says.chain.records.clear();
            for tool in ["read", "send", "third"] {
                says.chain.decide("npm:docs", tool, digest(), Decision::Approve);
            }
        });
    };
    check(&rewritten, "record 3 does not follow what was verified before it").await;
    let moved_back = |index: &Index| {
        index.now(|says| {
            says.chain.records.pop();
            says.head = Some(says.chain.head());
        });
    };
    check(&moved_back, "the head stands at record 1, and records go on to 2").await;
    let other_head = |index: &Index| {
        index.now(|says| {
            let Head { sequence, .. } = says.chain.head();
            let hash = Head::empty("other").hash;
            says.head = Some(Head { sequence, hash });
        });
    };
    check(&other_head, "the head names another hash than record 2 has").await;
    let removed = |index: &Index| {
        index.now(|says| {
            says.chain.decide("npm:docs", "a", digest(), Decision::Approve);
            says.chain.decide("npm:docs", "b", digest(), Decision::Approve);
            says.chain.records.remove(2);
        });
    };
    check(&removed, "record 3 is missing, record 4 stands in its place").await;
    let tampered = |index: &Index| {
        index.now(|says| {
            says.chain.decide("npm:docs", "read", digest(), Decision::Approve);
            let head = says.chain.head();
            says.chain.records[2].tool = "send".to_owned();
            says.head = Some(head);
        });
    };
    check(&tampered, "the head names another hash than record 3 has").await;
    let of_another = |index: &Index| {
        index.now(|says| {
            says.chain
                .add("npm:docs", "read", digest(), Decision::Approve, |record| {
                    record.tenant = "other".to_owned();
                });
        });
    };
    check(&of_another, "record 3 can't be read: tenant").await;
}

#[tokio::test]
async fn what_is_kept_and_damaged_is_said_and_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::at(directory.path());
    let index = Index::start().await;
    index.decide("npm:docs", "read", digest(), Decision::Refuse);
    let first = Followed::start(&index, &state);
    until_head(&first.approvals, 1).await;
    let cache = Cache::of(&state, &index.base);
    until("it is kept", || cache.path().exists()).await;
    drop(first);
    let text = std::fs::read_to_string(cache.path()).unwrap();
    std::fs::write(cache.path(), &text[..text.len() / 2]).unwrap();
    let second = Followed::start(&index, &state);
    second
        .until_said("it is not obeyed, and the index is asked for all of it")
        .await;
    until_head(&second.approvals, 1).await;
    until("it is made anew", || {
        cache.read().is_ok_and(|kept| kept.is_some())
    })
    .await;
}

#[tokio::test]
async fn what_was_removed_while_it_is_followed_is_made_anew_with_the_next_decision() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::at(directory.path());
    let index = Index::start().await;
    index.decide("npm:docs", "read", digest(), Decision::Refuse);
    let followed = Followed::start(&index, &state);
    let cache = Cache::of(&state, &index.base);
    until("it is kept", || cache.path().exists()).await;
    std::fs::remove_file(cache.path()).unwrap();
    index.decide("npm:docs", "send", digest(), Decision::Refuse);
    until("it is made anew", || {
        let kept = cache.read().ok().flatten();
        kept.is_some_and(|kept| kept.head.sequence == 2)
    })
    .await;
    assert!(followed.said().is_empty(), "{:?}", followed.said());
}

#[tokio::test]
async fn a_key_that_is_not_taken_and_an_index_without_decisions_are_told_apart() {
    for (status, expected) in [
        (
            401,
            "it does not take the key (401): `mcpindex login` gets another one. No decision of the organisation is known",
        ),
        (
            404,
            "it has no decisions to follow (it answered 404). No decision of the organisation is known",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let index = Index::start().await;
        index.now(|says| says.failing = Some(status));
        let followed = Followed::start(&index, &StateDirectory::at(directory.path()));
        let line = followed.until_said("is not heard").await;
        assert!(line.ends_with(expected), "{line}");
        assert_eq!(followed.word("read"), Word::Unheard);
    }
}

#[tokio::test]
async fn nobody_asks_any_more_when_nobody_wants_it() {
    let directory = tempfile::tempdir().unwrap();
    let index = Index::start().await;
    let followed = Followed::start(&index, &StateDirectory::at(directory.path()));
    until_head(&followed.approvals, 0).await;
    let Followed { approvals, said } = followed;
    let other = approvals.clone();
    drop(approvals);
    index.decide("npm:docs", "read", digest(), Decision::Refuse);
    until_head(&other, 1).await;
    drop(other);
    // The thread holds whom it tells.
    until("the thread has ended", || Arc::strong_count(&said) == 1).await;
}
