//! What leads to a session or a key: sign-ins under way, one-time codes, devices; and sessions themselves.

use mcpindex_store::accounts::{KeyRecord, Polled, Redeemed, SecretHash};
use mcpindex_store::testing::{on_each_backend, on_each_database};
use mcpindex_store::{Store, StoreError};
use tokio::task::JoinSet;

use crate::accounts::{DAY, HOUR, NOW, key, material, sign_in};

/// The login whose session this is at that time.
async fn at(store: &Store, cookie: SecretHash, now: i64) -> Option<String> {
    let account = store.session(cookie, now).await.unwrap();
    account.map(|account| account.login)
}

#[tokio::test]
async fn a_session_is_over_after_twelve_hours_without_use() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let cookie = SecretHash::of("cookie");
        store.add_session(cookie, ann, NOW).await.unwrap();
        assert_eq!(
            at(&store, cookie, NOW + 12 * HOUR - 1).await.as_deref(),
            Some("ann")
        );
        // That was a use.
        assert_eq!(
            at(&store, cookie, NOW + 24 * HOUR - 2).await.as_deref(),
            Some("ann")
        );
        assert_eq!(at(&store, cookie, NOW + 36 * HOUR - 2).await, None);
        assert_eq!(store.sessions(ann, NOW + 36 * HOUR - 2).await.unwrap(), []);
        assert_eq!(at(&store, SecretHash::of("other"), NOW).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_session_is_over_after_seven_days_whatever_its_use() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let cookie = SecretHash::of("cookie");
        store.add_session(cookie, ann, NOW).await.unwrap();
        for hours in (10..=160).step_by(10) {
            assert!(at(&store, cookie, NOW + hours * HOUR).await.is_some(), "{hours}");
        }
        assert!(at(&store, cookie, NOW + 7 * DAY - 1).await.is_some());
        assert_eq!(at(&store, cookie, NOW + 7 * DAY).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_use_is_written_down_at_most_every_five_minutes() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let cookie = SecretHash::of("cookie");
        store.add_session(cookie, ann, NOW).await.unwrap();
        let used_at = async |now| {
            at(&store, cookie, now).await.unwrap();
            store.sessions(ann, now).await.unwrap()[0].used_at
        };
        assert_eq!(used_at(NOW + 299).await, NOW);
        assert_eq!(used_at(NOW + 300).await, NOW + 300);
        // A clock that is behind takes nothing back.
        assert_eq!(used_at(NOW).await, NOW + 300);
    })
    .await;
}

#[tokio::test]
async fn sessions_end_alone_or_all_at_once() {
    on_each_backend(async |store| {
        let (ann, bob) = (sign_in(&store, "ann").await.id, sign_in(&store, "bob").await.id);
        let [one, two, three, other] = ["one", "two", "three", "other"].map(SecretHash::of);
        for (cookie, account, begun) in [
            (one, ann, NOW),
            (two, ann, NOW + 1),
            (three, ann, NOW + 2),
            (other, bob, NOW),
        ] {
            store.add_session(cookie, account, begun).await.unwrap();
        }
        let sessions = store.sessions(ann, NOW + 3).await.unwrap();
        let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
        assert_eq!(ids, [three.short_id(), two.short_id(), one.short_id()]);
        store.end_session(one).await.unwrap();
        store.end_session(one).await.unwrap();
        assert_eq!(at(&store, one, NOW + 3).await, None);
        assert_eq!(store.end_sessions(ann).await.unwrap(), 2);
        assert_eq!(at(&store, two, NOW + 3).await, None);
        assert_eq!(at(&store, other, NOW + 3).await.as_deref(), Some("bob"));
    })
    .await;
}

#[tokio::test]
async fn a_sign_in_under_way_is_taken_once_within_ten_minutes() {
    on_each_backend(async |store| {
        let [one, two] = ["one", "two"].map(SecretHash::of);
        for cookie in [one, two] {
            store
                .begin_sign_in(cookie, "github", "/account?a=\0", NOW)
                .await
                .unwrap();
        }
        assert_eq!(
            store.take_sign_in(one, NOW + 599).await.unwrap(),
            Some(("github".to_owned(), "/account?a=\0".to_owned()))
        );
        assert_eq!(store.take_sign_in(one, NOW + 599).await.unwrap(), None);
        assert_eq!(store.take_sign_in(two, NOW + 600).await.unwrap(), None);
        assert_eq!(
            store.take_sign_in(SecretHash::of("other"), NOW).await.unwrap(),
            None
        );
        let long = store
            .begin_sign_in(SecretHash::of("three"), "github", &"/".repeat(4_001), NOW)
            .await;
        assert!(matches!(long, Err(StoreError::Refused { .. })), "{long:?}");
    })
    .await;
}

/// Makes a code of this name for an account.
async fn add_code(store: &Store, account: i64, code: &str) {
    store
        .add_code(SecretHash::of(code), account, "challenge", "laptop", NOW)
        .await
        .unwrap();
}

/// What comes of bringing a code.
async fn redeem(store: &Store, code: &str, challenge: &str, secret: &str, now: i64) -> Redeemed {
    store
        .redeem_code(SecretHash::of(code), challenge, &material(secret), now)
        .await
        .unwrap()
}

/// The key that a code gives.
async fn redeemed_key(store: &Store, code: &str, secret: &str, now: i64) -> KeyRecord {
    match redeem(store, code, "challenge", secret, now).await {
        Redeemed::Key(key) => key,
        other => panic!("no key: {other:?}"),
    }
}

#[tokio::test]
async fn a_code_gives_one_key_and_its_return_revokes_it() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        add_code(&store, ann, "code").await;
        let given = redeemed_key(&store, "code", "key", NOW + 59).await;
        assert_eq!(
            (given.account, given.login.as_str(), given.name.as_str()),
            (ann, "ann", "laptop")
        );
        let (kept, _) = store.key_of(SecretHash::of("key")).await.unwrap().unwrap();
        assert_eq!(kept, given);
        // Whoever has it twice got it from somewhere: long after its end too, and whatever verifier comes with it.
        let again = redeem(&store, "code", "other", "second", NOW + HOUR).await;
        assert_eq!(
            again,
            Redeemed::Spent {
                revoked: Some(given.id)
            }
        );
        let (kept, _) = store.key_of(SecretHash::of("key")).await.unwrap().unwrap();
        assert_eq!(kept.revoked_at, Some(NOW + HOUR));
        assert_eq!(store.key_of(SecretHash::of("second")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn rotating_a_key_saves_it_not_from_the_return_of_its_code() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        add_code(&store, ann, "code").await;
        let given = redeemed_key(&store, "code", "0", NOW).await;
        let own = store.add_key(&key(ann, "own"), NOW).await.unwrap();
        let mut id = given.id;
        for secret in ["1", "2"] {
            let rotated = store
                .rotate_key(&id, None, SecretHash::of(secret), "mcpk_…", None, NOW)
                .await;
            id = rotated.unwrap().unwrap().id;
        }
        redeem(&store, "code", "challenge", "3", NOW).await;
        for record in store.keys(Some(ann)).await.unwrap() {
            assert_eq!(record.works(NOW), record.id == own.id, "{record:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_verifier_burns_the_code() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        add_code(&store, ann, "code").await;
        let redeem = async |challenge| redeem(&store, "code", challenge, "key", NOW).await;
        assert_eq!(redeem("Challenge").await, Redeemed::WrongVerifier);
        assert_eq!(redeem("challenge").await, Redeemed::Spent { revoked: None });
        assert_eq!(store.keys(None).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_code_that_is_late_or_was_never_made_gives_nothing() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        add_code(&store, ann, "code").await;
        for (code, now) in [("code", NOW + 60), ("other", NOW)] {
            let redeemed = redeem(&store, code, "challenge", "key", now).await;
            assert_eq!(redeemed, Redeemed::Unknown, "{code}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_redemptions_of_one_code_at_once_give_exactly_one_key() {
    on_each_database(async |database| {
        let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
        let ann = sign_in(here, "ann").await.id;
        add_code(here, ann, "code").await;
        let mut tasks = JoinSet::new();
        for number in 0..50 {
            let store = if number % 2 == 0 {
                here.clone()
            } else {
                there.clone()
            };
            tasks.spawn(async move {
                let secret = format!("key {number}");
                redeem(&store, "code", "challenge", &secret, NOW).await
            });
        }
        let mut keys = Vec::new();
        let mut others = Vec::new();
        for redeemed in tasks.join_all().await {
            match redeemed {
                Redeemed::Key(key) => keys.push(key),
                other => others.push(other),
            }
        }
        let [given] = keys.as_slice() else {
            panic!("{} keys were given", keys.len());
        };
        let revoked = Redeemed::Spent {
            revoked: Some(given.id.clone()),
        };
        assert_eq!(others, vec![revoked; 49]);
        let kept = here.keys(None).await.unwrap();
        assert_eq!(kept.len(), 1);
        assert!(!kept[0].works(NOW));
        there.close().await;
    })
    .await;
}

const USER_CODE: &str = "WDJBMJHT";

async fn begin(store: &Store, device: &str, user_code: &str, now: i64) -> bool {
    store
        .begin_device(
            SecretHash::of(device),
            user_code,
            "build machine",
            "192.0.2.0/24",
            now,
        )
        .await
        .unwrap()
}

async fn poll(store: &Store, device: &str, now: i64) -> Polled {
    store
        .poll_device(
            SecretHash::of(device),
            &material(&format!("key of {device}")),
            now,
        )
        .await
        .unwrap()
}

#[tokio::test]
async fn a_device_that_is_allowed_gets_one_key() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        assert!(begin(&store, "device", USER_CODE, NOW).await);
        assert_eq!(poll(&store, "device", NOW).await, Polled::Pending);
        let asked = store.device(USER_CODE, NOW + 1).await.unwrap().unwrap();
        assert_eq!(
            (asked.key_name.as_str(), asked.network_shown.as_str()),
            ("build machine", "192.0.2.0/24")
        );
        assert_eq!((asked.started_at, asked.expires_at), (NOW, NOW + 600));
        assert!(store.decide_device(USER_CODE, ann, true, NOW + 1).await.unwrap());
        // Decided once, by one person.
        assert!(!store.decide_device(USER_CODE, ann, false, NOW + 1).await.unwrap());
        assert_eq!(store.device(USER_CODE, NOW + 1).await.unwrap(), None);
        // An answer is there: no need to wait.
        let Polled::Key(given) = poll(&store, "device", NOW + 2).await else {
            panic!("no key");
        };
        assert_eq!((given.account, given.name.as_str()), (ann, "build machine"));
        assert!(
            store
                .key_of(SecretHash::of("key of device"))
                .await
                .unwrap()
                .is_some()
        );
        assert_eq!(poll(&store, "device", NOW + 7).await, Polled::Expired);
        assert_eq!(store.keys(None).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_device_that_is_refused_is_told_so() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        assert!(begin(&store, "device", USER_CODE, NOW).await);
        assert!(store.decide_device(USER_CODE, ann, false, NOW).await.unwrap());
        assert_eq!(poll(&store, "device", NOW + 5).await, Polled::Denied);
        assert_eq!(poll(&store, "device", NOW + 10).await, Polled::Denied);
        assert_eq!(store.keys(None).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_device_that_asks_too_often_must_wait_longer_each_time() {
    on_each_backend(async |store| {
        begin(&store, "device", USER_CODE, NOW).await;
        for (seconds, answer) in [
            (0, Polled::Pending),
            (5, Polled::Pending),
            // Clocks count whole seconds, so that one of them is no haste.
            (9, Polled::Pending),
            (12, Polled::SlowDown),
            // Ten seconds now.
            (22, Polled::Pending),
            (27, Polled::SlowDown),
            // Fifteen.
            (42, Polled::Pending),
            (52, Polled::SlowDown),
        ] {
            assert_eq!(poll(&store, "device", NOW + seconds).await, answer, "{seconds}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_device_request_is_over_after_ten_minutes() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        begin(&store, "device", USER_CODE, NOW).await;
        begin(&store, "allowed", "BBBBCCCC", NOW).await;
        assert!(store.decide_device("BBBBCCCC", ann, true, NOW).await.unwrap());
        assert_eq!(store.device(USER_CODE, NOW + 600).await.unwrap(), None);
        assert!(
            !store
                .decide_device(USER_CODE, ann, true, NOW + 600)
                .await
                .unwrap()
        );
        assert_eq!(poll(&store, "device", NOW + 600).await, Polled::Expired);
        assert_eq!(poll(&store, "allowed", NOW + 600).await, Polled::Expired);
        assert_eq!(poll(&store, "unknown", NOW).await, Polled::Expired);
        assert_eq!(store.keys(None).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_user_code_is_used_by_one_device_at_a_time() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        assert!(begin(&store, "one", USER_CODE, NOW).await);
        assert!(!begin(&store, "two", USER_CODE, NOW + 599).await);
        assert!(begin(&store, "two", USER_CODE, NOW + 600).await);
        assert_eq!(poll(&store, "one", NOW + 600).await, Polled::Expired);
        // Nothing that can't be a user code is one.
        for unknown in ["", "wdjbmjht", "\0", &"W".repeat(1_000)] {
            assert_eq!(store.device(unknown, NOW + 600).await.unwrap(), None);
            assert!(!store.decide_device(unknown, ann, true, NOW + 600).await.unwrap());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn polls_of_an_allowed_device_at_once_give_one_key() {
    on_each_database(async |database| {
        let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
        let ann = sign_in(here, "ann").await.id;
        begin(here, "device", USER_CODE, NOW).await;
        here.decide_device(USER_CODE, ann, true, NOW).await.unwrap();
        let mut tasks = JoinSet::new();
        for number in 0..20 {
            let store = if number % 2 == 0 {
                here.clone()
            } else {
                there.clone()
            };
            tasks.spawn(async move {
                let material = material(&format!("key {number}"));
                let polled = store.poll_device(SecretHash::of("device"), &material, NOW).await;
                polled.unwrap()
            });
        }
        let polled = tasks.join_all().await;
        let keys = polled.iter().filter(|polled| matches!(polled, Polled::Key(_)));
        let expired = polled.iter().filter(|polled| **polled == Polled::Expired);
        assert_eq!((keys.count(), expired.count()), (1, 19));
        assert_eq!(here.keys(None).await.unwrap().len(), 1);
        there.close().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_device_is_decided_by_one_of_two_at_once() {
    on_each_backend(async |store| {
        let (ann, bob) = (sign_in(&store, "ann").await.id, sign_in(&store, "bob").await.id);
        for round in 0..10 {
            let (device, code) = (format!("device {round}"), format!("CODE{round}"));
            begin(&store, &device, &code, NOW).await;
            let (allowed, denied) = tokio::join!(
                store.decide_device(&code, ann, true, NOW),
                store.decide_device(&code, bob, false, NOW)
            );
            let allowed = allowed.unwrap();
            assert_ne!(allowed, denied.unwrap());
            let polled = poll(&store, &device, NOW).await;
            assert_eq!(matches!(polled, Polled::Key(_)), allowed, "{polled:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_over_is_swept_and_nothing_else() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let hash = SecretHash::of;
        store.add_setup_code(hash("setup"), NOW).await.unwrap();
        store.add_session(hash("session"), ann, NOW).await.unwrap();
        store
            .begin_sign_in(hash("sign-in"), "github", "/", NOW)
            .await
            .unwrap();
        for code in ["code", "spent"] {
            add_code(&store, ann, code).await;
        }
        redeemed_key(&store, "spent", "given", NOW).await;
        store.add_key(&key(ann, "revoked"), NOW).await.unwrap();
        store.revoke_key_by_hash(hash("revoked"), NOW).await.unwrap();
        begin(&store, "device", USER_CODE, NOW).await;

        for (now, gone) in [
            (NOW, 0),
            (NOW + 599, 0),
            // The sign-in and the device.
            (NOW + 600, 2),
            // The session.
            (NOW + 12 * HOUR, 1),
            // The set-up code.
            (NOW + DAY, 1),
            // Both codes: a day after their minute.
            (NOW + DAY + 59, 0),
            (NOW + DAY + 60, 2),
            // The keys, a year after their end.
            (NOW + 366 * DAY, 1),
            (NOW + (366 + 180) * DAY, 1),
            (NOW + 9_999 * DAY, 0),
        ] {
            assert_eq!(store.sweep_accounts(now).await.unwrap(), gone, "{}", now - NOW);
        }
        assert!(store.account(ann).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_session_in_use_is_swept_when_it_is_seven_days_old() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let cookie = SecretHash::of("cookie");
        store.add_session(cookie, ann, NOW).await.unwrap();
        for hours in (10..168).step_by(10) {
            at(&store, cookie, NOW + hours * HOUR).await.unwrap();
            assert_eq!(store.sweep_accounts(NOW + hours * HOUR).await.unwrap(), 0);
        }
        assert_eq!(store.sweep_accounts(NOW + 7 * DAY).await.unwrap(), 1);
    })
    .await;
}
