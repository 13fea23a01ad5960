//! Keys: found by their hash, listed, rotated, revoked, noted as used.

use mcpindex_store::accounts::{KeyRecord, NewKey, Scope, Scopes, SecretHash, Successor};
use mcpindex_store::signals::Network;
use mcpindex_store::testing::{on_each_backend, on_each_database};
use mcpindex_store::{Store, StoreError};

use crate::accounts::{DAY, HOUR, NOW, key, sign_in, successor};

async fn found(store: &Store, secret: &str) -> KeyRecord {
    store.key_of(SecretHash::of(secret)).await.unwrap().unwrap().0
}

async fn rotate(store: &Store, id: &str, secret: &str, now: i64) -> Option<KeyRecord> {
    store.rotate_key(id, None, &successor(secret), now).await.unwrap()
}

#[tokio::test]
async fn a_key_is_found_by_its_hash_with_its_account() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await;
        let added = store.add_key(&key(ann.id, "secret"), NOW).await.unwrap();
        assert_eq!(
            store.key_of(SecretHash::of("secret")).await.unwrap(),
            Some((added.clone(), ann.clone()))
        );
        assert_eq!(store.key_of(SecretHash::of("Secret")).await.unwrap(), None);
        assert_eq!(
            (added.login.as_str(), added.name.as_str(), added.shown.as_str()),
            ("ann", "laptop", "mcpk_AbCd…")
        );
        assert!(
            added.id.starts_with("key_") && added.id.len() == 20,
            "{}",
            added.id
        );
        assert_eq!(added.created_from.unwrap().shown(), "192.0.2.0/24");
        assert!(found(&store, "secret").await.works(NOW + 180 * DAY - 1));
        assert!(!found(&store, "secret").await.works(NOW + 180 * DAY));
        // One that never ends by itself.
        let endless = NewKey {
            expires_at: None,
            network: None,
            ..key(ann.id, "endless")
        };
        assert!(store.add_key(&endless, NOW).await.unwrap().works(i64::MAX));
    })
    .await;
}

#[tokio::test]
async fn keys_are_listed_by_account_those_in_force_first() {
    on_each_backend(async |store| {
        let (ann, bob) = (sign_in(&store, "ann").await.id, sign_in(&store, "bob").await.id);
        for (account, secret, at) in [
            (ann, "first", NOW),
            (ann, "second", NOW + 1),
            (bob, "third", NOW + 2),
        ] {
            let named = NewKey {
                name: secret.to_owned(),
                ..key(account, secret)
            };
            store.add_key(&named, at).await.unwrap();
        }
        assert!(
            store
                .revoke_key_by_hash(SecretHash::of("second"), NOW + 3)
                .await
                .unwrap()
        );
        let names = async |account| {
            let keys = store.keys(account).await.unwrap();
            keys.into_iter().map(|key| key.name).collect::<Vec<_>>()
        };
        assert_eq!(names(Some(ann)).await, ["first", "second"]);
        assert_eq!(names(Some(bob)).await, ["third"]);
        assert_eq!(names(None).await, ["third", "first", "second"]);
        assert_eq!(names(Some(999)).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_stays_revoked_and_only_its_account_or_anybodys_hand_revokes_it() {
    on_each_backend(async |store| {
        let (ann, bob) = (sign_in(&store, "ann").await.id, sign_in(&store, "bob").await.id);
        let id = store.add_key(&key(ann, "secret"), NOW).await.unwrap().id;
        assert!(!store.revoke_key(&id, Some(bob), NOW).await.unwrap());
        assert!(!store.revoke_key("key_0000000000000000", None, NOW).await.unwrap());
        assert!(!store.revoke_key("\0", None, NOW).await.unwrap());
        assert!(
            !store
                .revoke_key_by_hash(SecretHash::of("other"), NOW)
                .await
                .unwrap()
        );
        assert_eq!(found(&store, "secret").await.revoked_at, None);
        assert!(store.revoke_key(&id, Some(ann), NOW + 1).await.unwrap());
        assert!(store.revoke_key(&id, None, NOW + 2).await.unwrap());
        assert!(
            store
                .revoke_key_by_hash(SecretHash::of("secret"), NOW + 3)
                .await
                .unwrap()
        );
        let record = found(&store, "secret").await;
        assert_eq!((record.revoked_at, record.works(NOW + 4)), (Some(NOW + 1), false));
        assert_eq!(rotate(&store, &id, "new", NOW + 4).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_rotated_key_works_for_another_day_and_its_successor_as_long_as_it_did() {
    on_each_backend(async |store| {
        let (ann, bob) = (sign_in(&store, "ann").await.id, sign_in(&store, "bob").await.id);
        let old = store.add_key(&key(ann, "old"), NOW).await.unwrap();
        let at = NOW + 100 * DAY;
        let of_bob = store.rotate_key(&old.id, Some(bob), &successor("x"), at).await;
        assert_eq!(of_bob.unwrap(), None);
        let network = Network::of("2001:db8:1::1".parse().unwrap());
        let from_there = Successor {
            network: Some(network.clone()),
            ..successor("new")
        };
        let new = store
            .rotate_key(&old.id, Some(ann), &from_there, at)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (new.name.as_str(), new.scopes, new.shown.as_str()),
            ("laptop", old.scopes, "mcpk_AbCd…")
        );
        assert_eq!(
            (new.created_at, new.expires_at, new.created_from.clone()),
            (at, Some(at + 180 * DAY), Some(network))
        );
        assert_eq!(found(&store, "new").await, new);
        let old = found(&store, "old").await;
        assert_eq!(
            (old.expires_at, old.replaced_by.as_deref()),
            (Some(at + DAY), Some(new.id.as_str()))
        );
        // Once only.
        assert_eq!(rotate(&store, &old.id, "again", at).await, None);
        // One that would end sooner still does; one that never would, does now, and its successor never.
        let soon = NewKey {
            expires_at: Some(NOW + HOUR),
            ..key(ann, "soon")
        };
        let soon = store.add_key(&soon, NOW).await.unwrap();
        let next = rotate(&store, &soon.id, "soon 2", NOW + 60).await.unwrap();
        assert_eq!(next.expires_at, Some(NOW + 60 + HOUR));
        assert_eq!(found(&store, "soon").await.expires_at, Some(NOW + HOUR));
        let endless = NewKey {
            expires_at: None,
            ..key(ann, "endless")
        };
        let endless = store.add_key(&endless, NOW).await.unwrap();
        assert_eq!(
            rotate(&store, &endless.id, "endless 2", NOW)
                .await
                .unwrap()
                .expires_at,
            None
        );
        assert_eq!(found(&store, "endless").await.expires_at, Some(NOW + DAY));
        // One that has ended is not rotated, and nothing is left of the attempt.
        assert_eq!(rotate(&store, &next.id, "late", NOW + DAY).await, None);
        assert_eq!(store.key_of(SecretHash::of("late")).await.unwrap(), None);
        assert_eq!(rotate(&store, "key_0000000000000000", "none", NOW).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_successor_ends_with_the_key_that_asked_for_it() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let check = async |name: &str, expires_at, ends_by, expected| {
            let old = NewKey {
                expires_at,
                ..key(ann, name)
            };
            let old = store.add_key(&old, NOW).await.unwrap();
            let successor = Successor {
                ends_by,
                ..successor(&format!("{name} 2"))
            };
            let new = store.rotate_key(&old.id, None, &successor, NOW + HOUR).await;
            assert_eq!(new.unwrap().unwrap().expires_at, expected, "{name}");
        };
        check("endless", None, Some(NOW + DAY), Some(NOW + DAY)).await;
        check(
            "longer",
            Some(NOW + 9 * DAY),
            Some(NOW + 9 * DAY),
            Some(NOW + 9 * DAY),
        )
        .await;
        check(
            "shorter",
            Some(NOW + DAY),
            Some(NOW + 9 * DAY),
            Some(NOW + HOUR + DAY),
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_rotated_by_two_at_once_has_one_successor() {
    on_each_database(async |database| {
        let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
        let ann = sign_in(here, "ann").await.id;
        let id = here.add_key(&key(ann, "old"), NOW).await.unwrap().id;
        let (one, two) = tokio::join!(rotate(here, &id, "one", NOW), rotate(&there, &id, "two", NOW));
        assert!(one.is_some() != two.is_some(), "{one:?} {two:?}");
        let successor = one.or(two).unwrap().id;
        assert_eq!(found(here, "old").await.replaced_by, Some(successor));
        assert_eq!(here.keys(Some(ann)).await.unwrap().len(), 2);
        there.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_day_and_network_of_the_last_use_are_known() {
    const DAY: i64 = 86_400;
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let id = store.add_key(&key(ann, "secret"), NOW).await.unwrap().id;
        let network = Network::of("198.51.100.9".parse().unwrap());
        store
            .note_key_used(&id, Some(&network), 20_000 * DAY)
            .await
            .unwrap();
        // A replica that is late takes nothing back.
        store.note_key_used(&id, None, 20_000 * DAY - 1).await.unwrap();
        let record = found(&store, "secret").await;
        assert_eq!(
            (record.last_used_on, record.last_used_from),
            (Some(20_000), Some(network))
        );
        store.note_key_used(&id, None, 20_001 * DAY).await.unwrap();
        let record = found(&store, "secret").await;
        assert_eq!((record.last_used_on, record.last_used_from), (Some(20_001), None));
    })
    .await;
}

#[tokio::test]
async fn an_account_has_at_most_five_hundred_keys_that_work() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let mut ids = Vec::new();
        for number in 0..500 {
            let added = store.add_key(&key(ann, &number.to_string()), NOW).await.unwrap();
            ids.push(added.id);
        }
        let refused = store.add_key(&key(ann, "one more"), NOW).await.unwrap_err();
        assert!(
            matches!(&refused, StoreError::Refused { what } if what.contains("500 keys")),
            "{refused}"
        );
        // Others may, and those that are over don't count.
        let bob = sign_in(&store, "bob").await.id;
        store.add_key(&key(bob, "of bob"), NOW).await.unwrap();
        store.revoke_key(&ids[0], None, NOW).await.unwrap();
        store.add_key(&key(ann, "one more"), NOW).await.unwrap();
        let later = NOW + 180 * DAY;
        let next = NewKey {
            expires_at: None,
            ..key(ann, "later")
        };
        store.add_key(&next, later).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_list_has_the_keys_that_work_and_the_latest_that_ended() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        for number in 0..700 {
            let added = store
                .add_key(&key(ann, &format!("ended {number}")), NOW + number)
                .await
                .unwrap();
            store.revoke_key(&added.id, None, NOW + number).await.unwrap();
        }
        let soon = NewKey {
            expires_at: Some(NOW + 1_000),
            ..key(ann, "soon")
        };
        let soon = store.add_key(&soon, NOW - 1).await.unwrap().id;
        let listed = store.keys_of(ann, NOW + 999).await.unwrap();
        assert_eq!(listed.len(), 600);
        assert_eq!(listed[0].id, soon, "the oldest, and it works");
        assert_eq!(
            (listed[1].created_at, listed[599].created_at),
            (NOW + 699, NOW + 101)
        );
        let later = store.keys_of(ann, NOW + 1_000).await.unwrap();
        assert_eq!(later[0].created_at, NOW + 699);
        assert_eq!(store.key(&soon, ann).await.unwrap().unwrap().id, soon);
        assert_eq!(store.key(&soon, ann + 1).await.unwrap(), None);
        assert_eq!(store.key("\0", ann).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_key_and_all_that_was_made_with_it_end_together() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let bob = sign_in(&store, "bob").await.id;
        let first = store.add_key(&key(ann, "first"), NOW).await.unwrap();
        let made = async |secret: &str, with: &str, account: i64| {
            let made = NewKey {
                made_by: Some(with.to_owned()),
                ..key(account, secret)
            };
            store.add_key(&made, NOW).await
        };
        let child = made("child", &first.id, ann).await.unwrap();
        assert_eq!(child.made_by, Some(first.id.clone()));
        let rotated = store
            .rotate_key(&child.id, None, &successor("rotated"), NOW)
            .await
            .unwrap()
            .unwrap();
        let grandchild = made("grandchild", &rotated.id, ann).await.unwrap();
        let apart = store.add_key(&key(ann, "apart"), NOW).await.unwrap();
        // One that is not theirs, has a successor or is over makes none.
        for (with, account) in [(&first.id, bob), (&child.id, ann)] {
            let error = made("refused", with, account).await.unwrap_err();
            assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        }
        assert!(
            !store
                .revoke_key_and_made(&first.id, Some(bob), NOW)
                .await
                .unwrap()
        );
        assert!(!store.revoke_key_and_made("key_0", None, NOW).await.unwrap());
        assert!(
            store
                .revoke_key_and_made(&first.id, Some(ann), NOW + 1)
                .await
                .unwrap()
        );
        for id in [&first.id, &child.id, &rotated.id, &grandchild.id] {
            let key = store.key(id, ann).await.unwrap().unwrap();
            assert_eq!(key.revoked_at, Some(NOW + 1), "{}", key.name);
        }
        let kept = store.key(&apart.id, ann).await.unwrap().unwrap();
        assert_eq!(kept.revoked_at, None);
        let error = made("late", &first.id, ann).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn one_secret_makes_one_key() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        store.add_key(&key(ann, "secret"), NOW).await.unwrap();
        store.add_key(&key(ann, "secret"), NOW).await.unwrap_err();
        assert_eq!(store.keys(None).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn scopes_are_a_set_with_one_written_form() {
    let check = |text: &str, written: &str| assert_eq!(text.parse::<Scopes>().unwrap().to_string(), written);
    check("read", "read");
    check("ingest  read ingest", "read ingest");
    check("admin approve ingest read", "read ingest approve admin");
    check("", "");
    let error = "read Ingest".parse::<Scopes>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`Ingest` is no scope: expected read ingest approve admin"
    );
    let (read, both) = (
        Scopes::of(&[Scope::Read]),
        Scopes::of(&[Scope::Read, Scope::Ingest]),
    );
    assert!(read.is_within(both) && !both.is_within(read) && Scopes::default().is_within(read));
    assert!(Scopes::default().is_empty() && !read.is_empty());
    assert!(both.contains(Scope::Ingest) && !both.contains(Scope::Admin));
    assert_eq!(both.iter().collect::<Vec<_>>(), [Scope::Read, Scope::Ingest]);
}
