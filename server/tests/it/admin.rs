//! `mcpindex-server admin`: the first admin, roles, keys and forgetting, from the server's shell.

use mcpindex_contract::signal::InstallId;
use mcpindex_server::access::key::KeyText;
use mcpindex_store::Location;
use mcpindex_store::accounts::{NewKey, Role, Scope, Scopes, SecretHash, SignIn};
use mcpindex_store::testing::{TestStore, on_each_database};

use crate::access::{account, key_of};
use crate::client::NOW;
use crate::programs::{Ended, Place};

/// The program over this database.
fn place(database: &TestStore) -> Place {
    Place::with_database(match &database.location {
        Location::Sqlite(path) => path.display().to_string(),
        Location::Postgres(url) => url.clone(),
    })
}

fn refused(ended: &Ended, line: &str) {
    assert_eq!(ended.code(), Some(2), "{}", ended.stdout());
    assert_eq!(ended.stderr(), format!("mcpindex-server: {line}\n"));
}

fn done(ended: &Ended, line: &str) {
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    assert_eq!(ended.stdout(), format!("{line}\n"));
}

#[tokio::test]
async fn the_first_admin_is_made_on_the_shell_and_the_last_one_stays() {
    on_each_database(async |database| {
        let (store, place) = (&database.store, place(database));
        let admin = async |arguments: &[&str]| place.run(&[&["admin"], arguments].concat()).await;
        refused(
            &admin(&["make-admin", "ada"]).await,
            "`ada` is no account here: give its number (`admin users` lists them), a verified e-mail address, the name of one \
             made on this shell, or `login:ada` for whoever is called so at a provider",
        );
        let ada = account(store, "ada").await;
        let bob = account(store, "bob").await;
        done(
            &admin(&["make-admin", "login:Ada"]).await,
            "ada (no verified e-mail address, subject ada of https://login.example) is an admin",
        );
        assert_eq!(store.account(ada.id).await.unwrap().unwrap().role, Role::Admin);
        let last = "ada (no verified e-mail address, subject ada of https://login.example) is the only admin; make another \
                    one first (`admin make-admin`)";
        refused(&admin(&["role", "login:ada", "member"]).await, last);
        refused(&admin(&["disable", "login:ada"]).await, last);
        done(
            &admin(&["role", &bob.id.to_string(), "approver"]).await,
            "bob (no verified e-mail address, subject bob of https://login.example) is an approver",
        );
        done(
            &admin(&["disable", "login:bob"]).await,
            "bob (no verified e-mail address, subject bob of https://login.example) is disabled, the sessions are ended and the keys revoked; a server that runs knows \
             within 30 seconds",
        );
        refused(
            &admin(&["make-admin", "login:bob"]).await,
            "bob (no verified e-mail address, subject bob of https://login.example) is disabled; `admin enable` comes first",
        );
        let users = admin(&["users", "--json"]).await.json();
        let users: Vec<(&str, &str, bool)> = users["users"]
            .as_array()
            .unwrap()
            .iter()
            .map(|user| {
                let text = |name: &str| user[name].as_str().unwrap();
                (text("login"), text("role"), user["disabled_at"].is_null())
            })
            .collect();
        assert_eq!(users, [("ada", "admin", true), ("bob", "approver", false)]);
        done(
            &admin(&["enable", "login:bob"]).await,
            "bob (no verified e-mail address, subject bob of https://login.example) may sign in again; the keys stay revoked",
        );
    })
    .await;
}

#[tokio::test]
async fn whom_a_command_means_is_certain_or_nothing_is_done() {
    let database = TestStore::sqlite().await;
    let place = place(&database);
    let ada = account(&database.store, "ada").await;
    let local = database.store.local_account("ada", NOW).await.unwrap();
    let ended = place.run(&["admin", "make-admin", "login:ada"]).await;
    refused(
        &ended,
        &format!(
            "`login:ada` may be {} (ada of https://login.example), {} (ada of local); give the number",
            ada.id, local.id
        ),
    );
    assert!(!database.store.has_admin().await.unwrap());
    let ended = place.run(&["admin", "make-admin", &local.id.to_string()]).await;
    done(&ended, "ada (local) is an admin");
}

#[tokio::test]
async fn an_address_makes_nobody_an_admin_who_only_calls_themselves_so() {
    let database = TestStore::sqlite().await;
    let (store, place) = (&database.store, place(&database));
    let boss = SignIn {
        issuer: "https://login.example".to_owned(),
        subject: "1".to_owned(),
        login: "boss".to_owned(),
        email: Some("boss@acme.example".to_owned()),
    };
    let mallory = SignIn {
        subject: "2".to_owned(),
        login: "boss@acme.example".to_owned(),
        email: Some("mallory@acme.example".to_owned()),
        ..boss.clone()
    };
    store.sign_in(&mallory, NOW).await.unwrap();
    let make = async || place.run(&["admin", "make-admin", "boss@acme.example"]).await;
    assert_eq!(make().await.code(), Some(2));
    assert!(!store.has_admin().await.unwrap());
    store.sign_in(&boss, NOW).await.unwrap();
    done(
        &make().await,
        "boss (boss@acme.example, subject 1 of https://login.example) is an admin",
    );
}

#[tokio::test]
async fn a_key_makes_no_admin_of_somebody_who_signed_in() {
    let database = TestStore::sqlite().await;
    let (store, place) = (&database.store, place(&database));
    let ada = account(store, "ada").await;
    let create =
        async |who: &str, scopes: &str| place.run(&["admin", "create-key", who, "--scopes", scopes]).await;
    let number = ada.id.to_string();
    refused(
        &create(&number, "read,admin").await,
        "no key was made: only an admin has keys with the scope `admin`; `admin make-admin` comes first",
    );
    refused(
        &create("ada@acme.example", "read").await,
        "no key was made: `ada@acme.example` is no plain name; for somebody who signed in give the number (`admin users`)",
    );
    assert_eq!(create("404", "read").await.code(), Some(2));
    // A name is the shell's own, whoever else is called so.
    let made = create("ada", "read,admin").await.stdout();
    assert!(made.contains("account  ada (local), admin\n"), "{made}");
    assert_eq!(store.account(ada.id).await.unwrap().unwrap().role, Role::Member);
    assert_eq!(create(&number, "read").await.code(), Some(0));
    assert_eq!(store.keys(Some(ada.id)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn who_could_have_been_anybody_is_made_no_admin() {
    let database = TestStore::sqlite().await;
    let place = place(&database);
    let dev = SignIn {
        issuer: "dev".to_owned(),
        subject: "ada".to_owned(),
        login: "ada".to_owned(),
        email: None,
    };
    let ada = database.store.sign_in(&dev, NOW).await.unwrap();
    refused(
        &place.run(&["admin", "make-admin", &ada.id.to_string()]).await,
        "ada (no verified e-mail address, subject ada of dev) signed in while anybody could under any name ([login] dev), so it \
         is no more than a member",
    );
}

#[tokio::test]
async fn a_lost_key_is_revoked_on_the_shell_with_what_was_made_with_it() {
    let database = TestStore::sqlite().await;
    let (store, place) = (&database.store, place(&database));
    let ada = account(store, "ada").await;
    let lost = key_of(store, &ada, &[Scope::Read], None).await.record;
    let text = KeyText::generate().unwrap();
    let child = NewKey {
        account: ada.id,
        hash: text.hash(),
        shown: text.shown(),
        name: "child".to_owned(),
        scopes: Scopes::of(&[Scope::Read]),
        expires_at: None,
        network: None,
        made_by: Some(lost.id.clone()),
    };
    let child = store.add_key(&child, NOW).await.unwrap();
    let ended = place.run(&["admin", "keys", "revoke", &lost.id, "--made"]).await;
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    let child = store.key(&child.id, ada.id).await.unwrap().unwrap();
    assert!(child.revoked_at.is_some());
}

#[tokio::test]
async fn a_key_that_is_not_made_leaves_nobody_an_admin() {
    let database = TestStore::sqlite().await;
    let place = place(&database);
    let root = ["admin", "create-key", "root", "--scopes", "admin", "--name", ""];
    assert_eq!(place.run(&root).await.code(), Some(2));
    assert_eq!(database.store.accounts(None, 9).await.unwrap(), []);
}

#[tokio::test]
async fn a_key_from_the_shell_needs_no_sign_in_and_is_printed_once() {
    on_each_database(async |database| {
        let (store, place) = (&database.store, place(database));
        let made = place
            .run(&[
                "admin",
                "create-key",
                "ci",
                "--scopes",
                "read",
                "--days",
                "30",
                "--json",
            ])
            .await;
        assert_eq!(made.code(), Some(0), "{}", made.stderr());
        let made = made.json();
        let text = made["key"].as_str().unwrap();
        let (key, owner) = store.key_of(SecretHash::of(text)).await.unwrap().unwrap();
        assert_eq!(
            (owner.issuer.as_str(), owner.login.as_str(), owner.role),
            ("local", "ci", Role::Member)
        );
        assert_eq!(key.expires_at, Some(key.created_at + 30 * 86_400));
        assert_eq!(made["scopes"], serde_json::json!(["read"]));
        assert!(!store.has_admin().await.unwrap());

        let root = place
            .run(&[
                "admin",
                "keys",
                "create",
                "root",
                "--scopes",
                "read,ingest,admin",
                "--no-end",
            ])
            .await;
        let shown = root.stdout();
        assert!(shown.starts_with("key      mcpk_"), "{shown}");
        assert!(
            shown.contains("account  root (local), admin\nscopes   read ingest admin, without an end\n"),
            "{shown}"
        );
        assert!(store.has_admin().await.unwrap());

        let listed = place.run(&["admin", "keys", "list"]).await.stdout();
        assert_eq!(listed.lines().count(), 2, "{listed}");
        assert!(!listed.contains(text), "{listed}");
        let of = place
            .run(&["admin", "keys", "list", "--of", "ci", "--json"])
            .await;
        assert_eq!(of.json()["keys"].as_array().unwrap().len(), 1);

        let revoked = place.run(&["admin", "keys", "revoke", &key.id]).await;
        done(
            &revoked,
            &format!(
                "{} is revoked; a server that runs knows within 30 seconds",
                key.id
            ),
        );
        let unknown = place.run(&["admin", "keys", "revoke", "key_0"]).await;
        refused(
            &unknown,
            "there is no key `key_0`; `admin keys list` shows their ids",
        );
        let listed = place.run(&["admin", "keys", "list"]).await.stdout();
        assert!(
            listed.contains(&format!("{}  revoked  ci  made on the server's shell", key.id)),
            "{listed}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_that_can_not_be_is_not_made() {
    let place = Place::new();
    let check = async |arguments: &[&str], expected: &str| {
        let ended = place
            .run(&[&["admin", "create-key", "ci"], arguments].concat())
            .await;
        assert_eq!(ended.code(), Some(2), "{}", ended.stdout());
        assert!(ended.stderr().contains(expected), "{}", ended.stderr());
    };
    check(
        &["--scopes", "write"],
        "`write` is no scope: expected read ingest approve admin",
    )
    .await;
    check(
        &["--days", "0"],
        "no key was made: a key lives from 1 to 3650 days, or without an end",
    )
    .await;
    check(&["--days", "3", "--no-end"], "cannot be used with").await;
    check(&["--name", ""], "no key was made: the name is not").await;
}

#[tokio::test]
async fn an_install_is_forgotten() {
    on_each_database(async |database| {
        let place = place(database);
        let install = InstallId::from_bytes([7; 16]).to_string();
        let ended = place.run(&["admin", "purge", "--install", &install]).await;
        done(&ended, &format!("nothing of install {install} is kept"));
        let wrong = place.run(&["admin", "purge", "--install", "me"]).await;
        assert_eq!(wrong.code(), Some(2));
    })
    .await;
}
