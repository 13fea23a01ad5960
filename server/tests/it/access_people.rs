//! People at a members-only index: sent to sign in, let in by their session, and the first admin among them.

use std::sync::Arc;

use axum::http::Method;
use mcpindex::clock::{Clock, SystemClock};
use mcpindex_crawler::guarded_client::GuardedClient;
use mcpindex_server::config;
use mcpindex_server::login::settings::LoginSettings;
use mcpindex_server::login::{Login, admitted};
use mcpindex_store::accounts::{Role, SecretHash};
use mcpindex_store::testing::{TestStore, on_each_backend};

use crate::browser::{Browser, Index, field};
use crate::client::NOW;
use crate::fake_github::{FakeGithub, Mood};
use crate::own_issuer::{OwnIssuer, Wrong};
use crate::programs::Place;
use crate::seed::seed;

fn dev() -> LoginSettings {
    LoginSettings {
        dev: true,
        ..LoginSettings::default()
    }
}

/// Signs in under this name; where that leads.
async fn sign_in(browser: &Browser<'_>, login: &str, next: &str) -> String {
    let page = browser.page(next).await;
    let fields = [("login", login), ("next", &field(&page, "next"))];
    let answer = browser.post("/auth/dev", &fields).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.header("location").to_owned()
}

#[tokio::test]
async fn a_person_is_sent_to_sign_in_and_comes_back_to_the_page() {
    let database = TestStore::sqlite().await;
    seed(&database.store).await;
    let index = Index::of_members(&database.store, &dev());
    let browser = index.browser();
    let login = browser.leads("/drifts?after=1").await;
    assert_eq!(login, "/login?next=%2Fdrifts%3Fafter%3D1");
    assert_eq!(sign_in(&browser, "ada", &login).await, "/drifts?after=1");
    let answer = browser.get("/drifts").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, "private, no-cache")
    );
    assert!(
        answer
            .headers
            .get_all("vary")
            .iter()
            .any(|value| value == "Authorization, Cookie")
    );
    assert_eq!(browser.get("/nothing").await.status, 404);
    // The same cookie opens nothing to programs, which other pages could make the browser call.
    assert_eq!(browser.get("/api/v1/servers").await.status, 401);
    // It ends with the session.
    let token = browser.token("/account").await;
    browser.post("/logout", &[("csrf", &token)]).await;
    assert_eq!(browser.leads("/drifts").await, "/login?next=%2Fdrifts");
}

#[tokio::test]
async fn somebody_who_was_disabled_is_a_stranger_at_once() {
    on_each_backend(async |store| {
        let index = Index::of_members(&store, &dev());
        let browser = index.browser();
        let login = browser.leads("/servers").await;
        sign_in(&browser, "ada", &login).await;
        assert_eq!(browser.get("/servers").await.status, 200);
        let account = store.find_accounts("login:ada").await.unwrap()[0].id;
        store.disable_account(account, NOW).await.unwrap();
        assert_eq!(browser.leads("/servers").await, "/login?next=%2Fservers");
    })
    .await;
}

#[tokio::test]
async fn the_first_to_arrive_is_no_admin_and_the_one_with_the_code_is() {
    on_each_backend(async |store| {
        let index = Index::of_members(&store, &dev());
        let browser = index.browser();
        let login = browser.leads("/setup").await;
        assert_eq!(sign_in(&browser, "ada", &login).await, "/setup");
        assert!(!store.has_admin().await.unwrap());
        store
            .add_setup_code(SecretHash::of("WDJBMJHTWDJBMJHT"), NOW)
            .await
            .unwrap();
        let token = browser.token("/setup").await;
        let wrong = browser
            .post("/setup", &[("csrf", &token), ("code", "BBBB-BBBB-BBBB-BBBB")])
            .await;
        assert_eq!(wrong.status, 400);
        let foreign = [("sec-fetch-site", "cross-site")];
        let code = ("code", "wdjb-mjht-wdjb-mjht");
        let stolen = browser
            .post_from("/setup", &foreign, &[("csrf", &token), code])
            .await;
        assert_eq!(stolen.status, 403);
        let untold = browser.post("/setup", &[code]).await;
        assert_eq!(untold.status, 403);
        assert!(!store.has_admin().await.unwrap());
        let right = browser.post("/setup", &[("csrf", &token), code]).await;
        assert_eq!(
            (right.status.as_u16(), right.header("location")),
            (303, "/account")
        );
        assert_eq!(
            store.find_accounts("login:ada").await.unwrap()[0].role,
            Role::Admin
        );
        // Once.
        let other = index.browser();
        let login = other.leads("/setup").await;
        sign_in(&other, "bob", &login).await;
        assert_eq!(other.get("/setup").await.status, 409);
        let again = other
            .post("/setup", &[("csrf", &other.token("/account").await), code])
            .await;
        assert_eq!(again.status, 409);
        assert_eq!(
            store.find_accounts("login:bob").await.unwrap()[0].role,
            Role::Member
        );
    })
    .await;
}

#[tokio::test]
async fn few_set_up_codes_can_be_tried() {
    let database = TestStore::sqlite().await;
    let index = Index::of_members(&database.store, &dev());
    let browser = index.browser();
    let login = browser.leads("/setup").await;
    sign_in(&browser, "ada", &login).await;
    let token = browser.token("/setup").await;
    let attempt = async || {
        let answer = browser.post("/setup", &[("csrf", &token), ("code", "B")]).await;
        answer.status.as_u16()
    };
    for _ in 0..10 {
        assert_eq!(attempt().await, 400);
    }
    assert_eq!(attempt().await, 429);
}

#[tokio::test]
async fn a_stranger_changes_nothing_by_any_form() {
    let database = TestStore::sqlite().await;
    let index = Index::of_members(&database.store, &dev());
    let browser = index.browser();
    for path in ["/servers", "/nothing/here", "/drifts/1"] {
        let answer = browser.send(Method::POST, path, &[], String::new()).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, "/login"),
            "{path}"
        );
    }
    let answer = browser.post("/setup", &[("code", "BBBB-BBBB-BBBB-BBBB")]).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn doctor_says_what_of_access_is_wrong() {
    let place = Place::new();
    let check = async |text: &str, expected: &[(&str, &str, &str)]| {
        let file = place.write("mcpindex.toml", text);
        let report = place.run(&["doctor", "--json", "--config", &file]).await.json();
        for (name, state, says) in expected {
            let row = report["checks"]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| row["name"] == *name)
                .unwrap_or_else(|| panic!("no {name}: {report}"));
            assert_eq!(row["state"], *state, "{row}");
            assert!(row["text"].as_str().unwrap().contains(says), "{row}");
        }
    };
    check(
        "[server]\nlisten = \"127.0.0.1:0\"\n",
        &[
            ("readers", "ok", "everybody who reaches"),
            ("sign-in", "ok", "off"),
        ],
    )
    .await;
    check(
        "[server]\nlisten = \"0.0.0.0:0\"\n",
        &[("readers", "warn", "admin create-key NAME")],
    )
    .await;
    check(
        "[server]\nlisten = \"127.0.0.1:0\"\npublic_url = \"https://a.example/\"\n[login]\ndev = true\n",
        &[
            ("sign-in", "fail", "for this machine alone"),
            ("proxies", "warn", "`[server] proxies` names none"),
        ],
    )
    .await;
    let migrated = place.run(&["migrate"]).await;
    assert_eq!(migrated.code(), Some(0));
    check(
        "[server]\nlisten = \"127.0.0.1:0\"\n[login]\ndev = true\n",
        &[("admin", "warn", "admin make-admin WHO")],
    )
    .await;
}

/// What `doctor` says of a provider in these settings: `state text`, or nothing.
async fn said_of(provider: &str, settings: &str, flags: &[&str]) -> String {
    let place = Place::new();
    let text =
        format!("[server]\nlisten = \"127.0.0.1:0\"\n[login]\nallow = [\"everyone:{provider}\"]\n{settings}");
    let file = place.write("mcpindex.toml", &text);
    let line = [&["doctor", "--json", "--config", &file], flags].concat();
    let report = place.run(&line).await;
    let document = report.json();
    let rows = document["checks"].as_array().unwrap();
    let Some(row) = rows.iter().find(|row| row["name"] == provider) else {
        return String::new();
    };
    let (state, text) = (row["state"].as_str().unwrap(), row["text"].as_str().unwrap());
    assert_eq!(report.code(), Some(i32::from(state == "fail")), "{document}");
    format!("{state} {text}")
}

fn with_issuer(issuer: &str) -> String {
    format!("[oidc]\nissuer = \"{issuer}\"\nclient_id = \"mcpindex\"\nclient_secret = \"oidc-secret-hush\"\n")
}

#[tokio::test]
async fn doctor_asks_an_issuer_and_says_what_is_wrong_and_what_to_do() {
    let issuer = OwnIssuer::start().await;
    let check = async |settings: String, parts: &[&str]| {
        let said = said_of("oidc", &settings, &[]).await;
        let said = said.replace(&issuer.url, "ISSUER");
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("hush"), "{said}");
    };
    let right = with_issuer(&issuer.url);
    check(
        right.clone(),
        &["ok `ISSUER` is reachable, is that issuer, and publishes its keys"],
    )
    .await;
    let asked = issuer.asked_for_configuration();
    assert_eq!(said_of("oidc", &right, &["--offline"]).await, "");
    assert_eq!(issuer.asked_for_configuration(), asked, "offline");

    let elsewhere = with_issuer(&format!("{}/realm", issuer.url));
    check(
        elsewhere,
        &[
            "fail ISSUER/realm/.well-known/",
            "HTTP 404",
            "the issuer in the settings is",
        ],
    )
    .await;
    let over_tls = with_issuer(&issuer.url.replace("http:", "https:"));
    check(over_tls, &["fail ", "TLS", "check the scheme and the port"]).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    check(
        with_issuer(&format!("http://127.0.0.1:{port}")),
        &["fail ", "unreachable", "the firewall between"],
    )
    .await;
    issuer.wrong(Wrong::Discovery);
    check(
        right,
        &[
            "fail ",
            "it calls itself",
            "the same to the letter",
            "mend the issuer",
        ],
    )
    .await;
}

#[tokio::test]
async fn doctor_asks_a_github_for_its_pages_and_its_api() {
    let github = FakeGithub::start().await;
    let settings = |api: &str| {
        format!(
            "[github]\nurl = \"{0}/\"\n{api}client_id = \"github-id\"\nclient_secret = \"hush\"\n",
            github.url
        )
    };
    let said = async |api: &str| {
        let said = said_of("github", &settings(api), &[]).await;
        said.replace(&github.url, "GITHUB")
    };
    assert_eq!(said("").await, "ok GITHUB/ and GITHUB/api/v3/ are reachable");
    let elsewhere = format!("api_url = \"{}/api/v4/\"\n", github.url);
    assert_eq!(
        said(&elsewhere).await,
        "fail GITHUB/api/v4/ answers with HTTP 404, so there is no GitHub; check [github] api_url"
    );
    github.mood(Mood::Down);
    assert_eq!(
        said("").await,
        "fail GITHUB/ answers with HTTP 500; it is down, try later"
    );
}

#[tokio::test]
async fn doctor_sees_that_the_clocks_differ_by_more_than_a_sign_in_bears() {
    let issuer = OwnIssuer::start().await;
    let settings = issuer.settings();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let guarded = GuardedClient::new(&[], false).unwrap();
    let guarded = guarded.admitting(&admitted(&settings, &[]).unwrap());
    let base = "http://127.0.0.1:8080/".parse().unwrap();
    let place = config::Place {
        listening: "127.0.0.1:8080".parse().unwrap(),
        public_url: None,
        proxies: &[],
    };
    let login = Login::new(&settings, &base, place, Arc::new(guarded)).unwrap();
    let check = async |off: i64, expected: &str| {
        let seen = login.look(SystemClock.unix_seconds() + off).await;
        let said = format!("{:?}", seen[0].found);
        assert!(said.starts_with(expected), "{off}: {said}");
        said
    };
    check(0, "Well").await;
    check(30, "Well").await;
    let ahead = check(600, "Doubtful").await;
    assert!(
        ahead.contains("s ahead of the provider's, and a sign-in bears 60 s"),
        "{ahead}"
    );
    let behind = check(-600, "Doubtful").await;
    assert!(behind.contains("s behind the provider's"), "{behind}");
}
