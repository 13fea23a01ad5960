//! Accounts: who they are, what they may do, the first admin and the last one, and what is kept of secrets.

use mcpindex_store::accounts::{
    Account, KeyMaterial, NewKey, Redeemed, Role, RoleChange, Scope, Scopes, SecretHash, SignIn, Successor,
};
use mcpindex_store::signals::Network;
use mcpindex_store::testing::{TestStore, on_each_backend, on_each_database};
use mcpindex_store::{Location, Store, StoreError};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinSet;

pub(crate) const NOW: i64 = 1_700_000_000;
pub(crate) const HOUR: i64 = 3_600;
pub(crate) const DAY: i64 = 86_400;

pub(crate) async fn sign_in(store: &Store, login: &str) -> Account {
    store.sign_in(&known_as(login), NOW).await.unwrap()
}

pub(crate) fn known_as(login: &str) -> SignIn {
    SignIn {
        issuer: "https://id.example".to_owned(),
        subject: format!("subject of {login}"),
        login: login.to_owned(),
        email: Some(format!("{login}@example.org")),
    }
}

/// An account that is an admin.
pub(crate) async fn admin(store: &Store, login: &str) -> Account {
    let account = sign_in(store, login).await;
    assert_eq!(
        store.set_role(account.id, Role::Admin, NOW).await.unwrap(),
        RoleChange::Done
    );
    account
}

pub(crate) fn material(secret: &str) -> KeyMaterial {
    KeyMaterial {
        hash: SecretHash::of(secret),
        shown: "mcpk_AbCd…".to_owned(),
        scopes: Scopes::of(&[Scope::Read, Scope::Ingest]),
        expires_at: Some(NOW + 180 * DAY),
        network: Some(Network::of("192.0.2.7".parse().unwrap())),
    }
}

pub(crate) fn successor(secret: &str) -> Successor {
    let material = material(secret);
    Successor {
        hash: material.hash,
        shown: material.shown,
        network: material.network,
        made_by: None,
        ends_by: None,
    }
}

pub(crate) fn key(account: i64, secret: &str) -> NewKey {
    let material = material(secret);
    NewKey {
        account,
        hash: material.hash,
        shown: material.shown,
        name: "laptop".to_owned(),
        scopes: material.scopes,
        expires_at: material.expires_at,
        network: material.network,
        made_by: None,
    }
}

async fn is_now(store: &Store, id: i64) -> (Role, bool) {
    let account = store.account(id).await.unwrap().unwrap();
    (account.role, account.disabled_at.is_none())
}

#[tokio::test]
async fn a_subject_of_an_issuer_is_one_account_whatever_it_is_called() {
    on_each_backend(async |store| {
        let first = sign_in(&store, "ann").await;
        assert_eq!(
            (first.role, first.created_at, first.signed_in_at),
            (Role::Member, NOW, Some(NOW))
        );
        let renamed = SignIn {
            login: "anna".to_owned(),
            email: None,
            ..known_as("ann")
        };
        let again = store.sign_in(&renamed, NOW + 5).await.unwrap();
        assert_eq!(
            again,
            Account {
                login: "anna".to_owned(),
                email: None,
                signed_in_at: Some(NOW + 5),
                ..first.clone()
            }
        );
        assert_eq!(store.account(first.id).await.unwrap(), Some(again));
        // The same e-mail address and login at another issuer, or of another subject, are somebody else.
        for other in [
            SignIn {
                issuer: "https://other.example".to_owned(),
                ..known_as("ann")
            },
            SignIn {
                subject: "another".to_owned(),
                ..known_as("ann")
            },
        ] {
            assert_ne!(store.sign_in(&other, NOW).await.unwrap().id, first.id);
        }
        assert_eq!(store.account(999).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn sign_ins_of_one_person_at_once_make_one_account() {
    on_each_backend(async |store| {
        let mut tasks = JoinSet::new();
        for _ in 0..20 {
            let store = store.clone();
            tasks.spawn(async move { sign_in(&store, "ann").await.id });
        }
        let ids = tasks.join_all().await;
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    })
    .await;
}

#[tokio::test]
async fn an_account_of_the_shell_is_made_once_and_nobody_signs_in_to_it() {
    on_each_backend(async |store| {
        let first = store.local_account("build", NOW).await.unwrap();
        assert_eq!(
            (first.issuer.as_str(), first.subject.as_str(), first.signed_in_at),
            ("local", "build", None)
        );
        assert_eq!(store.local_account("build", NOW + 9).await.unwrap(), first);
        assert_ne!(store.local_account("Build", NOW).await.unwrap().id, first.id);
        let pretended = SignIn {
            issuer: first.issuer.clone(),
            subject: first.subject.clone(),
            ..known_as("mallory")
        };
        let error = store.sign_in(&pretended, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        assert_eq!(store.account(first.id).await.unwrap(), Some(first));
    })
    .await;
}

#[tokio::test]
async fn accounts_are_found_by_number_login_and_address_and_paged() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "Ann").await.id;
        let local = store.local_account("ann", NOW).await.unwrap().id;
        // A login may be a number.
        let number = sign_in(&store, &ann.to_string()).await.id;
        let check = async |reference: &str, expected: &[i64]| {
            let found = store.find_accounts(reference).await.unwrap();
            let found: Vec<i64> = found.iter().map(|account| account.id).collect();
            assert_eq!(found, expected, "{reference}");
        };
        check("login:aNN", &[ann, local]).await;
        check("aNN", &[local]).await;
        check("ANN@example.org", &[ann]).await;
        check(&ann.to_string(), &[ann]).await;
        check(&format!("login:{ann}"), &[number]).await;
        check("an", &[]).await;
        check("login:", &[]).await;
        check("%", &[]).await;
        check("\0", &[]).await;

        let page = store.accounts(None, 2).await.unwrap();
        assert_eq!(page.iter().map(|one| one.id).collect::<Vec<_>>(), [ann, local]);
        let page = store.accounts(Some(local), 2).await.unwrap();
        assert_eq!(page.iter().map(|one| one.id).collect::<Vec<_>>(), [number]);
        assert_eq!(store.accounts(Some(number), 2).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn nobody_is_meant_by_an_address_that_they_call_themselves_by() {
    on_each_backend(async |store| {
        let mallory = SignIn {
            login: "boss@example.org".to_owned(),
            ..known_as("mallory")
        };
        store.sign_in(&mallory, NOW).await.unwrap();
        assert_eq!(store.find_accounts("boss@example.org").await.unwrap(), []);
        let boss = sign_in(&store, "boss").await;
        assert_eq!(store.find_accounts("boss@example.org").await.unwrap(), [boss]);
    })
    .await;
}

#[tokio::test]
async fn all_of_an_issuer_are_members_again() {
    on_each_backend(async |store| {
        let ann = admin(&store, "ann").await.id;
        let dev = SignIn {
            issuer: "dev".to_owned(),
            ..known_as("bob")
        };
        let bob = store.sign_in(&dev, NOW).await.unwrap().id;
        store.set_role(bob, Role::Admin, NOW).await.unwrap();
        assert_eq!(
            store.issuers().await.unwrap(),
            [("dev".to_owned(), 1), ("https://id.example".to_owned(), 1)]
        );
        assert_eq!(store.demote_all_of("dev", NOW).await.unwrap(), 1);
        assert_eq!(store.demote_all_of("dev", NOW).await.unwrap(), 0);
        assert_eq!(is_now(&store, bob).await, (Role::Member, true));
        assert_eq!(is_now(&store, ann).await, (Role::Admin, true));
        let line = store.audit(None, 1).await.unwrap().remove(0);
        assert_eq!(
            (line.object.as_str(), line.detail.as_deref()),
            ("bob@dev", Some("member, as all of this issuer"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_for_an_admin_is_made_with_the_role_or_not_at_all() {
    on_each_backend(async |store| {
        let wish = |secret: &str, scope| KeyMaterial {
            scopes: Scopes::of(&[scope]),
            ..material(secret)
        };
        let (_, ci) = store
            .add_local_key("ci", "runner", &wish("1", Scope::Read), NOW)
            .await
            .unwrap();
        assert_eq!((ci.issuer.as_str(), ci.role), ("local", Role::Member));
        // The name of the key is longer than is kept.
        let too_long = "n".repeat(400);
        for login in ["ci", "new"] {
            let error = store
                .add_local_key(login, &too_long, &wish("2", Scope::Admin), NOW)
                .await
                .unwrap_err();
            assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        }
        assert_eq!(store.find_accounts("new").await.unwrap(), []);
        assert_eq!(is_now(&store, ci.id).await, (Role::Member, true));
        let (key, account) = store
            .add_local_key("ci", "root", &wish("3", Scope::Admin), NOW)
            .await
            .unwrap();
        assert_eq!(
            (account.id, account.role, key.account),
            (ci.id, Role::Admin, ci.id)
        );
        assert_eq!(is_now(&store, ci.id).await, (Role::Admin, true));
        let other = admin(&store, "ann").await;
        assert_ne!(other.id, ci.id);
        store.disable_account(ci.id, NOW).await.unwrap();
        let error = store
            .add_local_key("ci", "again", &wish("4", Scope::Admin), NOW)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn any_text_comes_back_and_one_that_is_too_long_is_refused() {
    on_each_backend(async |store| {
        let odd = SignIn {
            login: "\0 \u{1f}'\"; é 𝒳".to_owned(),
            ..known_as("ann")
        };
        let account = store.sign_in(&odd, NOW).await.unwrap();
        assert_eq!(account.login, odd.login);
        assert_eq!(
            store
                .find_accounts(&format!("login:{}", odd.login))
                .await
                .unwrap(),
            [account]
        );
        // As long as both may be, they fit into one index.
        let long = SignIn {
            issuer: "i".repeat(1_000),
            subject: "é".repeat(500),
            ..known_as("ann")
        };
        assert_eq!(store.sign_in(&long, NOW).await.unwrap().subject, long.subject);
        let too_long = SignIn {
            subject: "s".repeat(1_001),
            ..known_as("ann")
        };
        let error = store.sign_in(&too_long, NOW).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Refused { what } if what.contains("subject")),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn the_last_admin_can_be_neither_unmade_nor_disabled() {
    on_each_backend(async |store| {
        assert!(!store.has_admin().await.unwrap());
        let ann = admin(&store, "ann").await.id;
        let bob = sign_in(&store, "bob").await.id;
        assert!(store.has_admin().await.unwrap());
        assert_eq!(
            store.set_role(ann, Role::Approver, NOW).await.unwrap(),
            RoleChange::LastAdmin
        );
        assert_eq!(
            store.disable_account(ann, NOW).await.unwrap(),
            RoleChange::LastAdmin
        );
        assert_eq!(
            store.set_role(ann, Role::Admin, NOW).await.unwrap(),
            RoleChange::Done
        );
        // A disabled admin is none.
        store.set_role(bob, Role::Admin, NOW).await.unwrap();
        assert_eq!(store.disable_account(bob, NOW).await.unwrap(), RoleChange::Done);
        assert_eq!(
            store.set_role(ann, Role::Member, NOW).await.unwrap(),
            RoleChange::LastAdmin
        );
        assert_eq!(
            store.set_role(bob, Role::Member, NOW).await.unwrap(),
            RoleChange::Done
        );
        assert_eq!(is_now(&store, ann).await, (Role::Admin, true));
        assert_eq!(is_now(&store, bob).await, (Role::Member, false));
        assert_eq!(
            store.set_role(999, Role::Admin, NOW).await.unwrap(),
            RoleChange::Unknown
        );
        assert_eq!(
            store.disable_account(999, NOW).await.unwrap(),
            RoleChange::Unknown
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_admins_who_unmake_each_other_at_once_leave_one() {
    on_each_database(async |database| {
        let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
        let (ann, bob) = (admin(here, "ann").await.id, admin(here, "bob").await.id);
        for round in 0..20 {
            let disable = round % 2 == 0;
            let store = there.clone();
            let other = tokio::spawn(async move {
                if disable {
                    store.disable_account(bob, NOW).await.unwrap()
                } else {
                    store.set_role(bob, Role::Member, NOW).await.unwrap()
                }
            });
            let mut came = [
                here.set_role(ann, Role::Approver, NOW).await.unwrap(),
                other.await.unwrap(),
            ];
            came.sort_by_key(|change| *change == RoleChange::LastAdmin);
            assert_eq!(came, [RoleChange::Done, RoleChange::LastAdmin]);
            assert!(here.has_admin().await.unwrap());
            for id in [ann, bob] {
                here.enable_account(id, NOW).await.unwrap();
                here.set_role(id, Role::Admin, NOW).await.unwrap();
            }
        }
        there.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_set_up_code_makes_the_first_admin_and_nobody_after() {
    on_each_backend(async |store| {
        let (ann, bob) = (sign_in(&store, "ann").await.id, sign_in(&store, "bob").await.id);
        let [one, two, old] = ["one", "two", "old"].map(SecretHash::of);
        store.add_setup_code(old, NOW - DAY).await.unwrap();
        store.add_setup_code(one, NOW).await.unwrap();
        store.add_setup_code(one, NOW).await.unwrap();
        store.add_setup_code(two, NOW).await.unwrap();
        let claim = async |account, code| store.claim_admin(account, code, NOW).await.unwrap();
        assert!(!claim(ann, SecretHash::of("wrong")).await);
        assert!(!claim(ann, old).await);
        // Not for an account that is unknown or disabled, and the code is as good as before.
        assert!(!claim(999, one).await);
        store.disable_account(bob, NOW).await.unwrap();
        assert!(!claim(bob, one).await);
        assert!(!store.has_admin().await.unwrap());
        assert!(claim(ann, one).await);
        assert_eq!(is_now(&store, ann).await, (Role::Admin, true));
        store.enable_account(bob, NOW).await.unwrap();
        // Neither the same code nor that of another replica.
        assert!(!claim(bob, one).await);
        assert!(!claim(bob, two).await);
        // Not even one that is made while there is an admin.
        let late = SecretHash::of("late");
        store.add_setup_code(late, NOW).await.unwrap();
        assert!(!claim(bob, late).await);
        assert_eq!(is_now(&store, bob).await, (Role::Member, true));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_ten_who_claim_to_be_the_first_admin_at_once_one_is() {
    // With a code for each, and with one for all.
    for codes in [10, 1] {
        on_each_database(async |database| {
            let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
            let mut ready = Vec::new();
            for number in 0..10 {
                let account = sign_in(here, &format!("user {number}")).await.id;
                let code = SecretHash::of(&format!("code {}", number % codes));
                here.add_setup_code(code, NOW).await.unwrap();
                let store = if number % 2 == 0 {
                    here.clone()
                } else {
                    there.clone()
                };
                ready.push((store, account, code));
            }
            let mut claims = JoinSet::new();
            for (store, account, code) in ready {
                claims.spawn(async move { (account, store.claim_admin(account, code, NOW).await.unwrap()) });
            }
            let claims = claims.join_all().await;
            assert_eq!(claims.iter().filter(|(_, made)| *made).count(), 1, "{claims:?}");
            for (account, made) in claims {
                let role = if made { Role::Admin } else { Role::Member };
                assert_eq!(is_now(here, account).await.0, role);
            }
            there.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_disabled_account_has_no_session_no_key_and_gets_none() {
    on_each_backend(async |store| {
        let ann = sign_in(&store, "ann").await;
        let (cookie, code, device) = (
            SecretHash::of("cookie"),
            SecretHash::of("code"),
            SecretHash::of("device"),
        );
        store.add_session(cookie, ann.id, NOW).await.unwrap();
        store.add_key(&key(ann.id, "key"), NOW).await.unwrap();
        store
            .add_code(code, ann.id, "challenge", "laptop", NOW)
            .await
            .unwrap();
        assert!(
            store
                .begin_device(device, "WDJBMJHT", "laptop", "192.0.2.0/24", NOW)
                .await
                .unwrap()
        );
        assert!(store.decide_device("WDJBMJHT", ann.id, true, NOW).await.unwrap());

        assert_eq!(
            store.disable_account(ann.id, NOW + 1).await.unwrap(),
            RoleChange::Done
        );
        assert_eq!(
            store.disable_account(ann.id, NOW + 9).await.unwrap(),
            RoleChange::Done
        );
        assert_eq!(store.session(cookie, NOW + 1).await.unwrap(), None);
        let (record, account) = store.key_of(SecretHash::of("key")).await.unwrap().unwrap();
        assert_eq!(
            (record.revoked_at, account.disabled_at),
            (Some(NOW + 1), Some(NOW + 1))
        );
        assert_eq!(
            store
                .redeem_code(code, "challenge", &material("2"), NOW + 1)
                .await
                .unwrap(),
            Redeemed::Unknown
        );
        assert_eq!(
            store.poll_device(device, &material("3"), NOW + 1).await.unwrap(),
            mcpindex_store::accounts::Polled::Denied
        );
        for refused in [
            store
                .add_session(SecretHash::of("other"), ann.id, NOW + 1)
                .await
                .unwrap_err(),
            store.add_key(&key(ann.id, "4"), NOW + 1).await.unwrap_err(),
            store.add_key(&key(999, "4"), NOW + 1).await.unwrap_err(),
        ] {
            assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
        }
        assert_eq!(
            store
                .rotate_key(&record.id, None, &successor("5"), NOW + 1)
                .await
                .unwrap(),
            None
        );
        // Signing in changes nothing.
        let back = store.sign_in(&known_as("ann"), NOW + 2).await.unwrap();
        assert_eq!(
            back,
            Account {
                disabled_at: Some(NOW + 1),
                ..ann.clone()
            }
        );

        // Enabled again, it has to sign in anew, and its keys stay revoked.
        assert!(store.enable_account(ann.id, NOW).await.unwrap());
        assert!(!store.enable_account(999, NOW).await.unwrap());
        assert_eq!(store.session(cookie, NOW + 3).await.unwrap(), None);
        let (record, _) = store.key_of(SecretHash::of("key")).await.unwrap().unwrap();
        assert!(!record.works(NOW + 3));
        assert_eq!(store.keys(Some(ann.id)).await.unwrap().len(), 1);
        let back = store.sign_in(&known_as("ann"), NOW + 4).await.unwrap();
        assert_eq!((back.disabled_at, back.signed_in_at), (None, Some(NOW + 4)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_made_while_an_account_is_disabled_does_not_outlive_it_and_nobody_waits_in_a_circle() {
    on_each_database(async |database| {
        let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
        let mut tasks = JoinSet::new();
        for number in 0..8 {
            let (here, there) = (here.clone(), there.clone());
            tasks.spawn(async move {
                let secret = |what: &str| SecretHash::of(&format!("{what} {number}"));
                let account = sign_in(&here, &format!("user {number}")).await.id;
                let first = here
                    .add_key(&key(account, &format!("first {number}")), NOW)
                    .await
                    .unwrap();
                here.add_code(secret("code"), account, "challenge", "laptop", NOW)
                    .await
                    .unwrap();
                let redeemed = material(&format!("redeemed {number}"));
                let next = successor(&format!("rotated {number}"));
                let (disabled, cookie, rotated, one, two, revoked, swept) = tokio::join!(
                    there.disable_account(account, NOW),
                    here.add_session(secret("cookie"), account, NOW),
                    here.rotate_key(&first.id, None, &next, NOW),
                    there.redeem_code(secret("code"), "challenge", &redeemed, NOW),
                    here.redeem_code(secret("code"), "challenge", &redeemed, NOW),
                    there.revoke_key(&first.id, None, NOW),
                    here.sweep_accounts(NOW),
                );
                assert_eq!(disabled.unwrap(), RoleChange::Done);
                assert!(
                    matches!(cookie, Ok(()) | Err(StoreError::Refused { .. })),
                    "{cookie:?}"
                );
                rotated.unwrap();
                one.unwrap();
                two.unwrap();
                assert!(revoked.unwrap());
                swept.unwrap();
                (account, secret("cookie"))
            });
        }
        for (account, cookie) in tasks.join_all().await {
            assert!(!is_now(here, account).await.1, "the account was not disabled");
            here.enable_account(account, NOW).await.unwrap();
            assert_eq!(here.session(cookie, NOW).await.unwrap(), None);
            let keys = here.keys(Some(account)).await.unwrap();
            assert!(keys.iter().all(|key| !key.works(NOW)), "{keys:?}");
        }
        there.close().await;
    })
    .await;
}

#[tokio::test]
async fn the_organisation_has_one_key_for_good() {
    on_each_database(async |database| {
        let (here, there) = (&database.store, Store::open(&database.location).await.unwrap());
        let (one, two) = tokio::join!(here.organisation_key([1; 32]), there.organisation_key([2; 32]));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one, two);
        assert!(one == [1; 32] || one == [2; 32], "{one:?}");
        assert_eq!(here.organisation_key([3; 32]).await.unwrap(), one);
        there.close().await;
    })
    .await;
}

#[tokio::test]
async fn roles_have_names_and_an_order() {
    for role in Role::ALL {
        assert_eq!(Role::from_name(role.name()), Some(role));
    }
    assert_eq!(Role::from_name("Admin"), None);
    assert!(Role::Member < Role::Approver && Role::Approver < Role::Admin);
}

/// Every byte that the database holds: the files on SQLite, every row of every table as text on Postgres.
async fn all_that_is_kept(database: &TestStore) -> Vec<u8> {
    let url = match &database.location {
        Location::Sqlite(path) => {
            let mut bytes = std::fs::read(path).unwrap();
            bytes.extend(std::fs::read(path.with_extension("db-wal")).unwrap());
            return bytes;
        }
        Location::Postgres(url) => url,
    };
    let mut connection = PgConnection::connect(url).await.unwrap();
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    let mut text = String::new();
    for table in tables {
        // `escape` shows the bytes of printable characters as they are.
        sqlx::query("SET bytea_output = 'escape'")
            .execute(&mut connection)
            .await
            .unwrap();
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(format!("SELECT t::text FROM {table} t")))
            .fetch_all(&mut connection)
            .await
            .unwrap();
        text.extend(rows);
    }
    text.into_bytes()
}

#[tokio::test]
async fn no_secret_is_kept() {
    on_each_database(async |database| {
        let store = &database.store;
        let ann = admin(store, "ann-in-the-clear").await.id;
        let secret = |what: &str| format!("secret-{what}");
        let hash = |what: &str| SecretHash::of(&secret(what));
        store.add_setup_code(hash("setup"), NOW).await.unwrap();
        store.add_session(hash("session"), ann, NOW).await.unwrap();
        store
            .begin_sign_in(hash("sign-in"), "github", "/account", NOW)
            .await
            .unwrap();
        let first = store.add_key(&key(ann, &secret("key")), NOW).await.unwrap();
        let rotated = Successor {
            shown: "mcpk_Rota…".to_owned(),
            ..successor(&secret("rotated"))
        };
        store
            .rotate_key(&first.id, None, &rotated, NOW)
            .await
            .unwrap()
            .unwrap();
        for what in ["code", "spent-code"] {
            store
                .add_code(hash(what), ann, "challenge", "laptop", NOW)
                .await
                .unwrap();
        }
        store
            .redeem_code(
                hash("spent-code"),
                "challenge",
                &material(&secret("redeemed")),
                NOW,
            )
            .await
            .unwrap();
        store
            .begin_device(hash("device"), "WDJBMJHT", "laptop", "192.0.2.0/24", NOW)
            .await
            .unwrap();
        let kept = all_that_is_kept(database).await;
        let holds = |text: &str| kept.windows(text.len()).any(|window| window == text.as_bytes());
        for shown in ["ann-in-the-clear", "mcpk_AbCd…", "mcpk_Rota…", "WDJBMJHT"] {
            assert!(holds(shown), "{shown} is not found, so nothing is proved");
        }
        assert!(!holds("secret-"));
    })
    .await;
}

#[test]
fn nothing_that_is_printed_holds_a_secret_or_its_hash() {
    let hash = SecretHash::of("secret");
    assert_eq!(format!("{hash:?}"), "SecretHash(…)");
    assert_eq!(
        format!("{:?}", key(1, "secret")),
        "NewKey { account: 1, hash: SecretHash(…), shown: \"mcpk_AbCd…\", name: \"laptop\", scopes: Scopes(read ingest), \
         expires_at: Some(1715552000), network: Some(Network(…)), made_by: None }"
    );
    let printed = format!("{:?}", material("secret"));
    assert!(
        printed.starts_with("KeyMaterial { hash: SecretHash(…), "),
        "{printed}"
    );
    // Nor can what is shown of a hash be found in it: the hash begins 2bb80d537b1da3e3.
    assert_eq!(hash.short_id(), "c4e55e3d195c3cea");
}
