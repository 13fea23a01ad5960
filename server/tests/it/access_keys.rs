//! Keys over the API: asked about, made, rotated, revoked, reported; and how long a process believes what it looked up.

use axum::http::Method;
use mcpindex_server::access::Read;
use mcpindex_store::accounts::{Role, Scope};
use mcpindex_store::testing::{TestStore, on_each_backend};
use serde_json::Value;

use crate::access::{Index, Key, account, foreign_key, key, key_of};
use crate::client::{Answer, NOW};

const KEYS: &str = "/api/v1/keys";
const DAY: i64 = 86_400;

fn problem(answer: &Answer) -> String {
    let body = answer.json();
    format!("{} {}", answer.status.as_u16(), body["detail"].as_str().unwrap())
}

async fn created(index: &Index, with: &str, body: &str) -> Value {
    let answer = index.ask(with, Method::POST, KEYS, body).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), "private, no-store");
    answer.json()
}

#[tokio::test]
async fn a_key_says_whose_it_is() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let member = key(&store, &[Scope::Read, Scope::Ingest]).await;
        let mut body = index.get_with(&member.text, "/api/v1/whoami").await.json();
        assert_eq!(body["key"]["id"], member.record.id.as_str());
        assert_eq!(body["key"]["shown"], member.record.shown.as_str());
        body["key"]["id"] = "ID".into();
        body["key"]["shown"] = "SHOWN".into();
        insta::allow_duplicates! {
            insta::assert_snapshot!(body, @r#"{"issuer":"https://login.example","key":{"expires_at":null,"id":"ID","name":"laptop","scopes":["read","ingest"],"shown":"SHOWN"},"login":"ada","role":"member"}"#);
        }
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_key_is_made_shown_once_and_listed() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let first = key(&store, &[Scope::Read, Scope::Ingest]).await;
        let made = created(
            &index,
            &first.text,
            r#"{"name":"ci","scopes":["ingest"],"expires_in_days":90}"#,
        )
        .await;
        let text = made["key"].as_str().unwrap();
        assert_eq!(made["expires_at"], "2027-02-28T17:04:05Z");
        assert_eq!(made["shown"], format!("{}…", &text[..9]));
        assert_eq!(index.get_with(text, "/api/v1/whoami").await.status, 200);
        let listed = index.get_with(&first.text, KEYS).await;
        assert!(!listed.text().contains(text));
        let keys = listed.json()["keys"].as_array().unwrap().clone();
        let shown: Vec<(&str, bool, &Value)> = keys
            .iter()
            .map(|key| {
                let name = key["name"].as_str().unwrap();
                (name, key["current"].as_bool().unwrap(), &key["scopes"])
            })
            .collect();
        assert_eq!(shown.len(), 2);
        assert!(shown.contains(&("ci", false, &serde_json::json!(["ingest"]))));
        assert!(shown.contains(&("laptop", true, &serde_json::json!(["read", "ingest"]))));
        // Nobody else's are there.
        let bob = account(&store, "bob").await;
        let other = key_of(&store, &bob, &[Scope::Read], None).await;
        let keys = index.get_with(&other.text, KEYS).await.json();
        assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn nobody_gets_more_than_the_key_allows() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let index = Index::members(store);
    let ada = account(store, "ada").await;
    let read = key_of(store, &ada, &[Scope::Read], None).await;
    let both = key_of(store, &ada, &[Scope::Read, Scope::Ingest], None).await;
    let admin = key_of(store, &ada, &[Scope::Read, Scope::Ingest, Scope::Admin], None).await;
    let bob = key_of(store, &account(store, "bob").await, &[Scope::Read], None).await;
    let asked = async |key: &Key, method, path: &str, body: &str| {
        let answer = index.ask(&key.text, method, path, body).await;
        match answer.status.as_u16() {
            status @ (201 | 204) => status.to_string(),
            _ => problem(&answer),
        }
    };
    let more =
        "403 that key allows more than the one you ask with, which has `read`; use one that has as much";
    let wish = r#"{"name":"a","scopes":["read","ingest"]}"#;
    assert_eq!(asked(&read, Method::POST, KEYS, wish).await, more);
    let path = |key: &Key| format!("{KEYS}/{}", key.record.id);
    assert_eq!(
        asked(&read, Method::POST, &format!("{}/rotate", path(&both)), "").await,
        more
    );
    assert_eq!(asked(&read, Method::DELETE, &path(&both), "").await, more);
    let unknown = format!(
        "404 you have no key `{}`; `mcpindex keys list` shows them",
        bob.record.id
    );
    assert_eq!(asked(&read, Method::DELETE, &path(&bob), "").await, unknown);
    assert_eq!(
        asked(&both, Method::POST, &format!("{}/rotate", path(&bob)), "").await,
        unknown
    );
    // The scope is more than the account's role allows, whatever its key says.
    let wish = r#"{"name":"a","scopes":["admin"]}"#;
    let role = "403 only an admin has keys with the scope `admin`";
    assert_eq!(asked(&admin, Method::POST, KEYS, wish).await, role);
    store.set_role(ada.id, Role::Admin, NOW).await.unwrap();
    index.clock.pass(30);
    assert_eq!(asked(&admin, Method::POST, KEYS, wish).await, "201");
    assert_eq!(asked(&both, Method::DELETE, &path(&read), "").await, "204");
    index.stop().await;
}

#[tokio::test]
async fn a_key_made_with_a_key_does_not_outlive_it() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let ada = account(&store, "ada").await;
        let end = NOW + 10 * DAY;
        let asking = key_of(&store, &ada, &[Scope::Read], Some(end)).await;
        let ends = async |path: &str, body: &str| {
            let answer = index.ask(&asking.text, Method::POST, path, body).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
            answer.json()["expires_at"].clone()
        };
        let its_own = "2026-12-10T17:04:05Z";
        for days in ["", r#","expires_in_days":null"#, r#","expires_in_days":11"#] {
            let wish = format!(r#"{{"name":"a","scopes":["read"]{days}}}"#);
            assert_eq!(ends(KEYS, &wish).await, its_own, "{wish}");
        }
        let wish = r#"{"name":"a","scopes":["read"],"expires_in_days":9}"#;
        assert_eq!(ends(KEYS, wish).await, "2026-12-09T17:04:05Z");
        // Nor is another's place taken by one that does, nor its own.
        let endless = key_of(&store, &ada, &[Scope::Read], None).await;
        for old in [&endless, &asking] {
            let rotate = format!("{KEYS}/{}/rotate", old.record.id);
            assert_eq!(ends(&rotate, "").await, its_own);
        }
        index.clock.pass(10 * DAY);
        let keys = store.keys(Some(ada.id)).await.unwrap();
        assert!(keys.iter().all(|key| !key.works(end)), "{keys:?}");
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_wish_that_can_not_be_is_told_what_would_be_right() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let key = key(&database.store, &[Scope::Read]).await;
    let expected = r#"400 the body can't be used: expected `{"name": TEXT, "scopes": ["read", "ingest"], "expires_in_days": NUMBER or null}`"#;
    let check = async |body: &str, more: &str| {
        let answer = index.ask(&key.text, Method::POST, KEYS, body).await;
        assert_eq!(problem(&answer), format!("{expected}{more}"), "{body}");
    };
    for body in [
        "",
        "null",
        "[]",
        r#"{"name":"a"}"#,
        r#"{"name":"a","scopes":"read"}"#,
        r#"{"name":"a","scopes":["write"]}"#,
        r#"{"name":"a","scopes":["read"],"expires_in_days":-1}"#,
        r#"{"name":"a","scopes":["read"],"admin":true}"#,
    ] {
        check(body, "").await;
    }
    check(
        r#"{"name":"","scopes":["read"]}"#,
        "; the name is not 1 to 100 characters without control characters",
    )
    .await;
    check(
        r#"{"name":"a","scopes":["read"],"expires_in_days":0}"#,
        "; a key lives from 1 to 3650 days, or without an end",
    )
    .await;
    index.stop().await;
}

#[tokio::test]
async fn a_rotated_key_works_for_another_day() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let old = key(&store, &[Scope::Read]).await;
        let path = format!("{KEYS}/{}/rotate", old.record.id);
        let answer = index.ask(&old.text, Method::POST, &path, "").await;
        assert_eq!(answer.status, 201);
        let new = answer.json()["key"].as_str().unwrap().to_owned();
        let works = async |key: &str| index.get_with(key, "/api/v1/whoami").await.status == 200;
        assert!(works(&old.text).await && works(&new).await);
        let answer = index.ask(&new, Method::POST, &path, "").await;
        assert_eq!(answer.status, 409, "once");
        index.clock.pass(DAY - 1);
        assert!(works(&old.text).await);
        index.clock.pass(1);
        assert!(!works(&old.text).await && works(&new).await);
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_key_that_another_took_the_place_of_changes_no_keys_and_ends_itself() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let old = key(&store, &[Scope::Read]).await;
        let path = |id: &str| format!("{KEYS}/{id}");
        let rotate = format!("{}/rotate", path(&old.record.id));
        let new = index.ask(&old.text, Method::POST, &rotate, "").await.json();
        let (new_id, new_key) = (new["id"].as_str().unwrap(), new["key"].as_str().unwrap());
        assert_eq!(new["made_by"], old.record.id.as_str());
        let wish = r#"{"name":"a","scopes":["read"]}"#;
        let asked = async |method, path: &str, body: &str| {
            let answer = index.ask(&old.text, method, path, body).await;
            assert!(
                problem(&answer).contains("has taken the place"),
                "{}",
                answer.text()
            );
            answer.status.as_u16()
        };
        assert_eq!(asked(Method::POST, KEYS, wish).await, 403);
        assert_eq!(asked(Method::DELETE, &path(new_id), "").await, 403);
        let rotate_new = format!("{}/rotate", path(new_id));
        assert_eq!(asked(Method::POST, &rotate_new, "").await, 403);
        assert_eq!(index.get_with(new_key, "/api/v1/whoami").await.status, 200);
        let own = path(&old.record.id);
        assert_eq!(index.ask(&old.text, Method::DELETE, &own, "").await.status, 204);
        assert_eq!(index.ask(new_key, Method::POST, KEYS, wish).await.status, 201);
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_was_made_with_a_lost_key_ends_with_it_when_that_is_asked() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let ada = account(&store, "ada").await;
        let lost = key_of(&store, &ada, &[Scope::Read], None).await;
        let other = key_of(&store, &ada, &[Scope::Read], None).await;
        let wish = r#"{"name":"a","scopes":["read"]}"#;
        let made = async |with: &str| {
            let made = created(&index, with, wish).await;
            made["key"].as_str().unwrap().to_owned()
        };
        let child = made(&lost.text).await;
        let grandchild = made(&child).await;
        let apart = made(&other.text).await;
        let works = async |key: &str| index.get_with(key, "/api/v1/whoami").await.status == 200;
        assert!(works(&child).await && works(&grandchild).await);
        let path = format!("{KEYS}/{}", lost.record.id);
        let answer = index
            .ask(&other.text, Method::DELETE, &format!("{path}?made=all"), "")
            .await;
        assert_eq!(answer.status, 400);
        assert_eq!(
            index.ask(&other.text, Method::DELETE, &path, "").await.status,
            204
        );
        assert!(works(&child).await, "the key alone");
        let with_made = format!("{path}?made=too");
        assert_eq!(
            index
                .ask(&other.text, Method::DELETE, &with_made, "")
                .await
                .status,
            204
        );
        assert!(!works(&child).await && !works(&grandchild).await);
        assert!(works(&apart).await && works(&other.text).await);
        // A key that is reported takes along what was made with it.
        let body = serde_json::json!({ "key": other.text }).to_string();
        let report = "/api/v1/keys/report-leak";
        assert_eq!(
            index
                .send("192.0.2.9", Method::POST, report, &[], body)
                .await
                .status,
            204
        );
        assert!(!works(&other.text).await && !works(&apart).await);
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn keys_of_one_account_are_made_at_a_pace() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let one = key(&database.store, &[Scope::Read]).await;
    let wish = r#"{"name":"a","scopes":["read"]}"#;
    for _ in 0..50 {
        created(&index, &one.text, wish).await;
    }
    let answer = index.ask(&one.text, Method::POST, KEYS, wish).await;
    assert_eq!(
        problem(&answer),
        "429 50 keys of this account were made within an hour; try again in 56 minutes"
    );
    let bob = account(&database.store, "bob").await;
    let other = key_of(&database.store, &bob, &[Scope::Read], None).await;
    created(&index, &other.text, wish).await;
    index.clock.pass(3_600);
    created(&index, &one.text, wish).await;
    index.stop().await;
}

#[tokio::test]
async fn a_revoked_key_ends_here_at_once_and_at_another_replica_within_half_a_minute() {
    on_each_backend(async |store| {
        let here = Index::members(&store);
        let there = Index::members(&store);
        let key = key(&store, &[Scope::Read]).await;
        let works = async |index: &Index| {
            let answer = index.get_with(&key.text, "/api/v1/servers").await;
            answer.status == 200
        };
        assert!(works(&here).await && works(&there).await);
        let path = format!("{KEYS}/{}", key.record.id);
        assert_eq!(here.ask(&key.text, Method::DELETE, &path, "").await.status, 204);
        assert!(!works(&here).await);
        there.clock.pass(29);
        assert!(works(&there).await, "as remembered");
        there.clock.pass(1);
        assert!(!works(&there).await);
        here.stop().await;
        there.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_key_revoked_elsewhere_changes_no_keys_while_it_is_remembered_here() {
    on_each_backend(async |store| {
        let index = Index::members(&store);
        let ada = account(&store, "ada").await;
        let lost = key_of(&store, &ada, &[Scope::Read], None).await;
        let other = key_of(&store, &ada, &[Scope::Read], None).await;
        assert_eq!(index.get_with(&lost.text, KEYS).await.status, 200);
        store.revoke_key(&lost.record.id, None, NOW).await.unwrap();
        assert_eq!(index.get_with(&other.text, KEYS).await.status, 200);
        let path = format!("{KEYS}/{}", other.record.id);
        let wish = r#"{"name":"a","scopes":["read"]}"#;
        assert_eq!(index.ask(&lost.text, Method::POST, KEYS, wish).await.status, 401);
        let rotate = format!("{path}/rotate");
        assert_eq!(index.ask(&lost.text, Method::POST, &rotate, "").await.status, 401);
        assert_eq!(index.ask(&lost.text, Method::DELETE, &path, "").await.status, 401);
        assert_eq!(store.keys(Some(ada.id)).await.unwrap().len(), 2);
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_unknown_key_is_looked_up_again_after_five_seconds_and_an_end_is_kept_to_the_second() {
    let database = TestStore::sqlite().await;
    let store = &database.store;
    let index = Index::members(store);
    let ada = account(store, "ada").await;
    let works = async |key: &str| index.get_with(key, "/api/v1/servers").await.status == 200;
    let ends = key_of(store, &ada, &[Scope::Read], Some(NOW + 10)).await;
    assert!(works(&ends.text).await);
    index.clock.pass(9);
    assert!(works(&ends.text).await);
    index.clock.pass(1);
    assert!(!works(&ends.text).await, "remembered for 30 s, but it has ended");
    // Made at another replica, just after it was asked for here.
    let disabled = key_of(store, &account(store, "bob").await, &[Scope::Read], None).await;
    assert!(works(&disabled.text).await);
    store.revoke_key(&disabled.record.id, None, NOW).await.unwrap();
    index.clock.pass(30);
    assert!(!works(&disabled.text).await);
    index.stop().await;
}

#[tokio::test]
async fn a_reported_key_is_revoked_and_the_answer_says_nothing() {
    on_each_backend(async |store| {
        let index = Index::start(&store, Read::Members, false);
        let key = key(&store, &[Scope::Read]).await;
        let works = async || index.get_with(&key.text, "/api/v1/servers").await.status == 200;
        let report = async |text: &str| {
            let body = serde_json::json!({ "key": text }).to_string();
            let path = "/api/v1/keys/report-leak";
            let answer = index.send("192.0.2.9", Method::POST, path, &[], body).await;
            (answer.status.as_u16(), answer.text())
        };
        assert!(works().await);
        let silent = (204, String::new());
        assert_eq!(report(&foreign_key()).await, silent);
        assert_eq!(report("not a key").await, silent);
        assert!(works().await);
        assert_eq!(report(&key.text).await, silent);
        assert!(!works().await);
        assert_eq!(report(&key.text).await, silent);
        for _ in 4..60 {
            assert_eq!(report("not a key").await, silent);
        }
        assert_eq!(report("not a key").await.0, 429);
        index.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_address_that_guesses_keys_is_held_up_and_the_others_are_not() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let member = key(&database.store, &[Scope::Read]).await;
    let ask = async |from: &str, key: &str| {
        let authorization = format!("Bearer {key}");
        let headers = [("authorization", authorization.as_str())];
        let answer = index
            .send(from, Method::GET, "/api/v1/servers", &headers, "")
            .await;
        answer.status.as_u16()
    };
    // One that is in use there goes on working.
    assert_eq!(ask("192.0.2.1", &member.text).await, 200);
    let same = foreign_key();
    for _ in 0..100 {
        // It is asked for in the database once.
        assert_eq!(ask("192.0.2.1", &same).await, 401);
        // What can be no key never is.
        assert_eq!(ask("192.0.2.1", "mcpk_guess").await, 401);
    }
    for _ in 1..60 {
        assert_eq!(ask("192.0.2.1", &foreign_key()).await, 401);
    }
    assert_eq!(ask("192.0.2.1", &foreign_key()).await, 429);
    assert_eq!(ask("192.0.2.1", &member.text).await, 200);
    // And one that was never seen there is let in.
    let bob = account(&database.store, "bob").await;
    let new = key_of(&database.store, &bob, &[Scope::Read], None).await;
    assert_eq!(ask("192.0.2.1", &new.text).await, 200);
    assert_eq!(ask("192.0.2.2", &foreign_key()).await, 401);
    index.clock.pass(60);
    assert_eq!(ask("192.0.2.1", &foreign_key()).await, 401);
    index.stop().await;
}

#[tokio::test]
async fn the_day_of_a_keys_last_use_is_noted_without_holding_up_the_answer() {
    let database = TestStore::sqlite().await;
    let index = Index::members(&database.store);
    let key = key(&database.store, &[Scope::Read]).await;
    let noted = async |day: &str| {
        for _ in 0..1_000 {
            let keys = index.get_with(&key.text, KEYS).await.json();
            if keys["keys"][0]["last_used_on"] == day {
                return true;
            }
            tokio::task::yield_now().await;
        }
        false
    };
    assert!(noted("2026-11-30").await);
    index.clock.pass(DAY);
    assert!(noted("2026-12-01").await);
    index.stop().await;
}
