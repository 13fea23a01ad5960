//! The audit log: each act of accounts and keys leaves its line, written with it, and what was refused leaves none.

use mcpindex_store::Store;
use mcpindex_store::accounts::{Role, SecretHash};
use mcpindex_store::audit::{Action, NewLine};
use mcpindex_store::signals::Network;
use mcpindex_store::testing::on_each_backend;

use crate::accounts::{DAY, NOW, admin, key, material, sign_in, successor};

/// The lines from the oldest on, without those of before `skip`. Ids of keys are written `KEY`.
async fn lines(store: &Store, skip: usize) -> Vec<String> {
    let mut lines: Vec<String> = store
        .audit(None, 1_000)
        .await
        .unwrap()
        .into_iter()
        .map(|line| {
            let object = if line.object.starts_with("key_") {
                "KEY"
            } else {
                &line.object
            };
            let detail = line.detail.unwrap_or_default();
            let detail = if detail.starts_with("now key_") {
                "now KEY"
            } else {
                &detail
            };
            format!("{} {} {object} {detail}", line.subject, line.action.name())
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.reverse();
    lines.split_off(skip)
}

const ANN: &str = "ann@https://id.example";
const BOB: &str = "bob@https://id.example";

#[tokio::test]
async fn roles_and_sign_ins_are_told() {
    on_each_backend(async |store| {
        let ann = admin(&store, "ann").await;
        let bob = sign_in(&store, "bob").await;
        store.set_role(ann.id, Role::Member, NOW).await.unwrap();
        store.set_role(bob.id, Role::Approver, NOW).await.unwrap();
        store.disable_account(bob.id, NOW).await.unwrap();
        sign_in(&store, "bob").await;
        store.enable_account(bob.id, NOW).await.unwrap();
        store.enable_account(999, NOW).await.unwrap();
        assert_eq!(
            lines(&store, 0).await,
            [
                format!("{ANN} signed-in {ANN}"),
                format!("shell role-given {ANN} admin, member before"),
                format!("{BOB} signed-in {BOB}"),
                // The last admin stays one, and a disabled account does not sign in: nothing was done.
                format!("shell role-given {BOB} approver, member before"),
                format!("shell account-disabled {BOB}"),
                format!("shell account-enabled {BOB}"),
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn the_first_admin_is_told() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await;
        store.add_setup_code(SecretHash::of("code"), NOW).await.unwrap();
        assert!(
            !store
                .claim_admin(ann.id, SecretHash::of("wrong"), NOW)
                .await
                .unwrap()
        );
        assert!(
            store
                .claim_admin(ann.id, SecretHash::of("code"), NOW)
                .await
                .unwrap()
        );
        assert_eq!(
            lines(&store, 1).await,
            [format!("{ANN} role-given {ANN} admin, by a set-up code")]
        );
    })
    .await;
}

#[tokio::test]
async fn what_becomes_of_a_key_is_told() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let id = store.add_key(&key(ann, "one"), NOW).await.unwrap().id;
        let two = successor("two");
        let rotating = store.rotate_key(&id, Some(ann), &two, NOW);
        let second = rotating.await.unwrap().unwrap().id;
        assert!(!store.revoke_key(&id, Some(ann + 1), NOW).await.unwrap());
        store.revoke_key(&id, Some(ann), NOW).await.unwrap();
        store.revoke_key(&second, None, NOW).await.unwrap();
        store.add_key(&key(ann, "three"), NOW).await.unwrap();
        store
            .revoke_key_by_hash(SecretHash::of("three"), NOW)
            .await
            .unwrap();
        let code = SecretHash::of("code");
        store.add_code(code, ann, "challenge", "desk", NOW).await.unwrap();
        for _ in 0..2 {
            store
                .redeem_code(code, "challenge", &material("four"), NOW)
                .await
                .unwrap();
        }
        assert_eq!(
            lines(&store, 1).await,
            [
                format!("{ANN} key-made KEY laptop (read ingest)"),
                format!("{ANN} key-rotated KEY now KEY"),
                format!("{ANN} key-revoked KEY"),
                "shell key-revoked KEY".to_owned(),
                format!("{ANN} key-made KEY laptop (read ingest)"),
                format!("{ANN} key-revoked KEY by who had the key"),
                format!("{ANN} key-made KEY desk (read ingest)"),
                format!("{ANN} key-revoked KEY the code that it came from was used again"),
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn the_use_of_a_key_is_told_once_for_each_day_and_network() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await.id;
        let id = store.add_key(&key(ann, "one"), NOW).await.unwrap().id;
        let network = |address: &str| Network::of(address.parse().unwrap());
        for (address, at) in [
            ("192.0.2.1", NOW),
            ("192.0.2.9", NOW + 60),
            ("198.51.100.1", NOW + 60),
            ("192.0.2.1", NOW + DAY),
        ] {
            store
                .note_key_used(&id, Some(&network(address)), at)
                .await
                .unwrap();
        }
        store.note_key_used("key_unknown", None, NOW).await.unwrap();
        assert_eq!(
            lines(&store, 2).await,
            [
                format!("{ANN} key-used KEY 192.0.2.0/24"),
                format!("{ANN} key-used KEY 198.51.100.0/24"),
                format!("{ANN} key-used KEY 192.0.2.0/24"),
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn other_acts_are_told_by_who_does_them_in_pages_the_newest_first() {
    on_each_backend(async |store| {
        let long = "x".repeat(3_000);
        for object in ["one", "two", "three"] {
            let line = NewLine {
                subject: ANN,
                action: Action::SettingChanged,
                object,
                detail: Some(&long),
            };
            store.note_audit(&line, NOW).await.unwrap();
        }
        let first = store.audit(None, 2).await.unwrap();
        let objects: Vec<&str> = first.iter().map(|line| line.object.as_str()).collect();
        assert_eq!(objects, ["three", "two"]);
        assert_eq!(first[0].detail.as_ref().unwrap().len(), 2_000);
        let rest = store.audit(Some(first[1].id), 2).await.unwrap();
        assert_eq!(rest.len(), 1);
        assert_eq!((rest[0].object.as_str(), rest[0].at), ("one", NOW));
        for action in Action::ALL {
            assert_eq!(Action::from_name(action.name()), Some(action));
        }
    })
    .await;
}
