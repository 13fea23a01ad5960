//! How programs get a key: a one-time code over loopback, the device grant, the published client's form.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpindex_server::login::settings::LoginSettings;
use mcpindex_store::testing::on_each_backend;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::browser::{BASE, Browser, Index, encoded, field, parameters};
use crate::client::Answer;
use crate::fake_github::FakeGithub;

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const TOKEN: &str = "/api/v1/cli/token";
const DEVICE_CODE: &str = "/api/v1/device/code";
const DEVICE_TOKEN: &str = "/api/v1/device/token";
const SENDER: &str = "198.51.100.7";

fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

fn cli(port: &str) -> String {
    format!(
        "/cli/login?port={port}&challenge={}&state=abc&name=desk",
        challenge()
    )
}

async fn index() -> (FakeGithub, Index) {
    let github = FakeGithub::start().await;
    let settings = LoginSettings {
        published_form: Some(true),
        ..github.settings(&["everyone:github"])
    };
    let index = Index::start(&settings).await;
    (github, index)
}

/// The fields of a consent page's form, without the decision.
fn fields(page: &str, names: &[&'static str]) -> Vec<(&'static str, String)> {
    names.iter().map(|name| (*name, field(page, name))).collect()
}

/// What a browser sends for a decision on the page of `path`; where it is led.
async fn decide(browser: &Browser<'_>, path: &str, names: &[&'static str], decision: &str) -> Answer {
    let page = browser.page(path).await;
    let fields = fields(&page, names);
    let mut form: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    form.push(("decision", decision));
    browser.post(path.split('?').next().unwrap(), &form).await
}

const CLI_FIELDS: &[&str] = &["csrf", "port", "challenge", "state", "name"];

/// A one-time code that somebody allowed.
async fn code(browser: &Browser<'_>) -> String {
    let answer = decide(browser, &cli("45123"), CLI_FIELDS, "allow").await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    parameters(answer.header("location"))["code"].clone()
}

async fn redeem(index: &Index, from: &str, code: &str, verifier: &str) -> Answer {
    let body = json!({"code": code, "code_verifier": verifier});
    index.post_json(from, TOKEN, &body).await
}

/// Whether this key is one that works.
async fn works(index: &Index, key: &Value) -> bool {
    let hash = mcpindex_store::accounts::SecretHash::of(key.as_str().unwrap());
    let found = index.store.key_of(hash).await.unwrap();
    found.is_some_and(|(key, _)| key.works(crate::client::NOW))
}

#[tokio::test]
async fn a_program_gets_a_key_after_a_yes_on_the_page_that_shows_its_code() {
    let (_github, index) = index().await;
    let browser = index.browser();
    // Whoever is not signed in signs in first, with the provider that the program names, and comes back.
    let there = browser.leads(&format!("{}&provider=github", cli("45123"))).await;
    let next = parameters(&there)["next"].clone();
    assert!(there.starts_with("/auth/github?"), "{there}");
    assert_eq!(browser.sign_in("github", &next).await, next);

    let answer = browser.get(&next).await;
    let page = answer.text();
    assert!(
        page.contains("Create a key for “desk”?") && page.contains("alice"),
        "{page}"
    );
    assert!(page.contains("class=\"code-shown\""), "{page}");
    let policy = answer.header("content-security-policy");
    assert!(
        policy.contains("form-action 'self' http://127.0.0.1:45123;"),
        "{policy}"
    );
    assert_eq!(answer.header("cache-control"), "no-store");

    // Whose session ends meanwhile decides after signing in again.
    let session = browser.cookies.lock().unwrap().clone();
    let mut sent = fields(&page, CLI_FIELDS);
    sent.push(("decision", "allow".to_owned()));
    let sent: Vec<(&str, &str)> = sent.iter().map(|(name, value)| (*name, value.as_str())).collect();
    browser.cookies.lock().unwrap().clear();
    let over = browser.post("/cli/login", &sent).await;
    assert_eq!(over.status, 401);
    let again = format!("href=\"/login?next={}\"", encoded(&next));
    assert!(over.text().contains(&again), "{again} {}", over.text());
    *browser.cookies.lock().unwrap() = session;

    let answer = decide(&browser, &next, CLI_FIELDS, "allow").await;
    let location = answer.header("location");
    assert!(
        location.starts_with("http://127.0.0.1:45123/callback?"),
        "{location}"
    );
    let told = parameters(location);
    assert_eq!((told["state"].as_str(), told["iss"].as_str()), ("abc", BASE));

    let answer = redeem(&index, SENDER, &told["code"], VERIFIER).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, "no-store")
    );
    let given = answer.json();
    assert_eq!(given["login"], "alice");
    assert_eq!(given["expires_at"], "2027-05-29T17:04:05Z");
    assert!(given["key"].as_str().unwrap().starts_with("mcpk_"));
    assert!(works(&index, &given["key"]).await);
    let keys = index.store.keys(None).await.unwrap();
    assert_eq!(
        (keys.len(), keys[0].name.as_str(), keys[0].scopes.to_string()),
        (1, "desk", "read ingest".to_owned())
    );
}

#[tokio::test]
async fn a_no_is_told_to_the_program_and_makes_nothing() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let answer = decide(&browser, &cli("45123"), CLI_FIELDS, "refuse").await;
    let told = parameters(answer.header("location"));
    assert_eq!(
        (told["error"].as_str(), told["state"].as_str()),
        ("access_denied", "abc")
    );
    assert!(!told.contains_key("code"));
    assert_eq!(index.store.keys(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_port_or_an_address_that_is_none_is_no_place_to_answer_to() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    for port in [
        "",
        "0",
        "22",
        "65536",
        "127.0.0.1%40evil",
        "45123%40evil",
        "45123%23x",
        "45123%2F..%2F",
    ] {
        let answer = browser.get(&cli(port)).await;
        assert_eq!(answer.status, 400, "{port}");
        assert!(answer.text().contains("mcpindex login"), "{}", answer.text());
        let token = browser.token("/account").await;
        let decoded = parameters(&cli(port))["port"].clone();
        let form = [
            ("csrf", token.as_str()),
            ("port", &decoded),
            ("challenge", &challenge()),
            ("state", "abc"),
            ("decision", "allow"),
        ];
        assert_eq!(browser.post("/cli/login", &form).await.status, 400, "{port}");
    }
    assert_eq!(
        browser
            .get("/cli/login?port=45123&challenge=short&state=a")
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_program_on_the_newer_loopback_is_answered_there() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let path = format!("{}&v6=1", cli("45123"));
    let names = [CLI_FIELDS, &["v6"]].concat();
    let answer = decide(&browser, &path, &names, "allow").await;
    let location = answer.header("location");
    assert!(
        location.starts_with("http://[::1]:45123/callback?code="),
        "{location}"
    );
    let policy = browser
        .get(&path)
        .await
        .header("content-security-policy")
        .to_owned();
    assert!(policy.contains("form-action 'self' http:;"), "{policy}");
}

#[tokio::test]
async fn no_other_page_lets_a_form_lead_away() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    for path in ["/", "/account", "/device", "/servers"] {
        let answer = browser.get(path).await;
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("form-action 'self';"), "{path}: {policy}");
    }
}

#[tokio::test]
async fn no_page_of_another_site_makes_a_key() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let page = browser.page(&cli("45123")).await;
    let fields = fields(&page, CLI_FIELDS);
    let mut form: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    form.push(("decision", "allow"));
    let foreign = [("sec-fetch-site", "cross-site")];
    assert_eq!(browser.post_from("/cli/login", &foreign, &form).await.status, 403);
    let without: Vec<(&str, &str)> = form.iter().copied().filter(|(name, _)| *name != "csrf").collect();
    assert_eq!(browser.post("/cli/login", &without).await.status, 403);
    // Nobody's browser.
    assert_eq!(index.browser().post("/cli/login", &form).await.status, 401);
}

#[tokio::test]
async fn a_code_that_is_brought_twice_takes_its_key_with_it() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let code = code(&browser).await;
    let key = redeem(&index, SENDER, &code, VERIFIER).await.json()["key"].clone();
    assert!(works(&index, &key).await);
    let again = redeem(&index, SENDER, &code, VERIFIER).await;
    assert_eq!(again.status, 400);
    assert_eq!(again.json()["type"], "urn:mcpindex:problem:invalid-code");
    assert!(!works(&index, &key).await);
}

#[tokio::test]
async fn a_code_with_another_verifier_is_spent() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let code = code(&browser).await;
    for verifier in ["another-verifier-another-verifier-another-v", VERIFIER] {
        assert_eq!(
            redeem(&index, SENDER, &code, verifier).await.status,
            400,
            "{verifier}"
        );
    }
    assert_eq!(index.store.keys(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_code_is_good_for_a_minute() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let code = code(&browser).await;
    index.clock.forward(61);
    assert_eq!(redeem(&index, SENDER, &code, VERIFIER).await.status, 400);
}

#[tokio::test]
async fn fifty_who_bring_a_code_at_once_get_one_key_together() {
    on_each_backend(async |store| {
        let github = FakeGithub::start().await;
        let settings = github.settings(&["everyone:github"]);
        // Two replicas over one database.
        let replicas = [
            Index::over(&store, &settings, Some(BASE)),
            Index::over(&store, &settings, Some(BASE)),
        ];
        let browser = replicas[0].browser();
        browser.sign_in("github", "/").await;
        let code = code(&browser).await;
        let body = json!({"code": code, "code_verifier": VERIFIER});
        let mut racing = tokio::task::JoinSet::new();
        for number in 0..50_u8 {
            let router = replicas[usize::from(number % 2)].router.clone();
            let body = body.to_string();
            racing.spawn(async move { bring(router, number, body).await });
        }
        let statuses = racing.join_all().await;
        let of = |status: u16| statuses.iter().filter(|found| **found == status).count();
        assert_eq!((of(200), of(400)), (1, 49), "{statuses:?}");
        assert_eq!(store.keys(None).await.unwrap().len(), 1);
    })
    .await;
}

async fn bring(router: axum::Router, number: u8, body: String) -> u16 {
    use tower::ServiceExt as _;
    let mut request = axum::http::Request::post(TOKEN)
        .header("content-type", "application/json")
        .body(axum::body::Body::from(body))
        .unwrap();
    let from = std::net::SocketAddr::from(([198, 51, 100, number], 9));
    request.extensions_mut().insert(axum::extract::ConnectInfo(from));
    router.oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn codes_from_one_address_are_limited() {
    let (_github, index) = index().await;
    for _ in 0..10 {
        assert_eq!(redeem(&index, SENDER, "guess", VERIFIER).await.status, 400);
    }
    let answer = redeem(&index, SENDER, "guess", VERIFIER).await;
    assert_eq!(answer.status, 429);
    assert_eq!(
        redeem(&index, "198.51.100.8", "guess", VERIFIER).await.status,
        400
    );
}

#[tokio::test]
async fn what_is_no_code_is_refused_with_what_is() {
    let (_github, index) = index().await;
    for body in [
        json!({}),
        json!([]),
        json!({"code": 1, "code_verifier": "a"}),
        json!({"code": "a"}),
    ] {
        let answer = index.post_json(SENDER, TOKEN, &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["type"], "urn:mcpindex:problem:bad-body", "{body}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_answered_as_that_though_it_says_no_length() {
    let (_github, index) = index().await;
    let large = "x".repeat(65 * 1024);
    for path in [TOKEN, DEVICE_CODE, DEVICE_TOKEN] {
        let answer = index.post_json(SENDER, path, &json!({ "code": large })).await;
        assert_eq!(answer.status, 413, "{path}: {}", answer.text());
    }
    let browser = index.browser();
    assert_eq!(browser.post("/logout", &[("csrf", &large)]).await.status, 413);
}

async fn begin_device(index: &Index) -> Value {
    let answer = index
        .post_json(SENDER, DEVICE_CODE, &json!({"name": "build server"}))
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("cache-control")),
        (200, "no-store")
    );
    answer.json()
}

async fn poll(index: &Index, begun: &Value) -> (u16, Value) {
    let answer = index
        .post_json(
            SENDER,
            DEVICE_TOKEN,
            &json!({"device_code": begun["device_code"]}),
        )
        .await;
    (answer.status.as_u16(), answer.json())
}

fn error(name: &str) -> (u16, Value) {
    (400, json!({ "error": name }))
}

/// Types a code in and decides.
async fn decide_device(browser: &Browser<'_>, code: &str, decision: &str) -> Answer {
    let token = browser.token("/device").await;
    let answer = browser.post("/device", &[("csrf", &token), ("code", code)]).await;
    let page = answer.text();
    assert!(
        page.contains("Allow this only if you started it yourself"),
        "{page}"
    );
    assert!(
        page.contains("build server") && page.contains("198.51.100.0/24"),
        "{page}"
    );
    let code = field(&page, "code");
    browser
        .post(
            "/device/decision",
            &[("csrf", &token), ("code", &code), ("decision", decision)],
        )
        .await
}

#[tokio::test]
async fn a_device_that_asks_without_end_is_told_to_slow_down_and_asks_the_database_no_more() {
    let (_github, index) = index().await;
    let invented = json!({ "device_code": "invented" });
    for _ in 0..240 {
        assert_eq!(poll(&index, &invented).await, error("expired_token"));
    }
    assert_eq!(poll(&index, &invented).await, error("slow_down"));
}

#[tokio::test]
async fn a_machine_without_a_browser_gets_a_key_when_somebody_types_its_code() {
    let (_github, index) = index().await;
    let begun = begin_device(&index).await;
    assert_eq!(begun["verification_uri"], format!("{BASE}device"));
    assert_eq!(
        (&begun["expires_in"], &begun["interval"]),
        (&json!(600), &json!(5))
    );
    assert_eq!(poll(&index, &begun).await, error("authorization_pending"));
    assert_eq!(poll(&index, &begun).await, error("slow_down"));

    let browser = index.browser();
    assert_eq!(browser.leads("/device").await, "/login?next=%2Fdevice");
    browser.sign_in("github", "/device").await;
    let typed = begun["user_code"]
        .as_str()
        .unwrap()
        .to_lowercase()
        .replace('-', " ");
    let answer = decide_device(&browser, &typed, "allow").await;
    assert!(answer.text().contains("Allowed"), "{}", answer.text());

    let (status, given) = poll(&index, &begun).await;
    assert_eq!((status, &given["login"]), (200, &json!("alice")));
    assert!(works(&index, &given["key"]).await);
    assert_eq!(poll(&index, &begun).await, error("expired_token"));
}

#[tokio::test]
async fn a_device_that_is_refused_is_told_so() {
    let (_github, index) = index().await;
    let begun = begin_device(&index).await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let code = begun["user_code"].as_str().unwrap();
    let answer = decide_device(&browser, code, "refuse").await;
    assert!(answer.text().contains("Refused"), "{}", answer.text());
    assert_eq!(poll(&index, &begun).await, error("access_denied"));
    // It is decided once.
    let token = browser.token("/device").await;
    let again = [("csrf", token.as_str()), ("code", code), ("decision", "allow")];
    assert_eq!(browser.post("/device/decision", &again).await.status, 409);
    assert_eq!(index.store.keys(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_device_that_nobody_helps_is_over_after_ten_minutes() {
    let (_github, index) = index().await;
    let begun = begin_device(&index).await;
    index.clock.forward(601);
    assert_eq!(poll(&index, &begun).await, error("expired_token"));
    assert_eq!(
        poll(&index, &json!({"device_code": "nobodys"})).await,
        error("expired_token")
    );
}

#[tokio::test]
async fn whoever_guesses_codes_is_slowed_down() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let token = browser.token("/device").await;
    for number in 0..10 {
        let guess = if number % 2 == 0 { "WDJB-MJHT" } else { "<b>" };
        let answer = browser
            .post("/device", &[("csrf", &token), ("code", guess)])
            .await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("role=\"alert\""), "{}", answer.text());
    }
    let answer = browser
        .post("/device", &[("csrf", &token), ("code", "WDJB-MJHT")])
        .await;
    assert_eq!(answer.status, 429);
}

#[tokio::test]
async fn whoever_guesses_codes_from_many_addresses_is_slowed_down() {
    let (_github, index) = index().await;
    let mut browser = index.browser();
    browser.sign_in("github", "/").await;
    let token = browser.token("/device").await;
    let guess = [("csrf", token.as_str()), ("code", "WDJB-MJHT")];
    for number in 0..10 {
        browser.address = format!("192.0.2.{}", 10 + number).parse().unwrap();
        assert_eq!(browser.post("/device", &guess).await.status, 200);
    }
    browser.address = "192.0.2.99".parse().unwrap();
    assert_eq!(browser.post("/device", &guess).await.status, 429);
}

#[tokio::test]
async fn devices_can_be_switched_off() {
    let github = FakeGithub::start().await;
    let settings = LoginSettings {
        device: false,
        ..github.settings(&["everyone:github"])
    };
    let index = Index::start(&settings).await;
    assert_eq!(
        index
            .post_json(SENDER, DEVICE_CODE, &json!({"name": "a"}))
            .await
            .status,
        404
    );
    assert_eq!(
        index
            .post_json(SENDER, DEVICE_TOKEN, &json!({"device_code": "a"}))
            .await
            .status,
        404
    );
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let answer = browser.get("/device").await;
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("--with-token"), "{}", answer.text());
}

fn start(callback: &str) -> String {
    format!("/api/auth/login/start?cli_callback={}", encoded(callback))
}

#[tokio::test]
async fn the_published_clients_sign_in_ends_with_a_key_after_the_same_consent() {
    let (_github, index) = index().await;
    let browser = index.browser();
    let callback = "http://127.0.0.1:45123/nonce_Nonce-nonce";
    let page = browser.leads(&start(callback)).await;
    let there = browser.leads(&page).await;
    let next = parameters(&there)["next"].clone();
    browser.sign_in("github", &next).await;
    let answer = browser.get(&next).await;
    let policy = answer.header("content-security-policy");
    assert!(
        policy.contains("form-action 'self' http://127.0.0.1:45123;"),
        "{policy}"
    );
    let answer = decide(&browser, &next, &["csrf", "cli_callback"], "allow").await;
    let location = answer.header("location");
    assert!(
        location.starts_with(&format!("{callback}?key=mcpk_")),
        "{location}"
    );
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    let key = json!(parameters(location)["key"]);
    assert!(works(&index, &key).await);
    let answer = decide(&browser, &next, &["csrf", "cli_callback"], "refuse").await;
    assert_eq!(answer.status, 403);
    assert_eq!(index.store.keys(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_published_callback_off_this_machine_is_refused_as_published() {
    let (_github, index) = index().await;
    let browser = index.browser();
    for callback in [
        "",
        "https://127.0.0.1:45123/a",
        "http://127.0.0.1@evil.example/a",
        "http://127.0.0.1.evil.example/a",
        "http://evil.example/a",
        "http://u:p@127.0.0.1:45123/a",
        "http://127.0.0.1:45123/a#b",
        "http://127.0.0.1:0/a",
        "http://127.0.0.1:22/a",
        "http://127.0.0.1:65536/a",
    ] {
        let answer = browser.get(&start(callback)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()),
            (400, json!({"error": "bad_callback"})),
            "{callback}"
        );
        let answer = browser
            .get(&format!("/cli/published?cli_callback={}", encoded(callback)))
            .await;
        assert_eq!(answer.status, 400, "{callback}");
    }
}

#[tokio::test]
async fn the_published_form_is_off_unless_the_settings_say_so() {
    let github = FakeGithub::start().await;
    // Others reach it, through a proxy on this machine.
    let settings = github.settings(&["everyone:github"]);
    let index = Index::start(&settings).await;
    let browser = index.browser();
    let answer = browser.get(&start("http://127.0.0.1:45123/a")).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (404, json!({"error": "not_found"}))
    );
    assert_eq!(browser.get("/cli/published?cli_callback=x").await.status, 404);
}

#[tokio::test]
async fn somebody_makes_and_revokes_keys_on_their_own_page() {
    let (github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let token = browser.token("/account").await;
    let form = [
        ("csrf", token.as_str()),
        ("name", "build"),
        ("read", "1"),
        ("days", "30"),
    ];
    let page = browser.post("/account/keys", &form).await.text();
    let key = page
        .split("class=\"key\">")
        .nth(1)
        .unwrap()
        .split('<')
        .next()
        .unwrap()
        .to_owned();
    assert!(works(&index, &json!(key)).await);
    assert!(!browser.page("/account").await.contains(&key), "it is shown once");
    let record = index.store.keys(None).await.unwrap().remove(0);
    assert_eq!(
        (record.name.as_str(), record.scopes.to_string().as_str()),
        ("build", "read")
    );

    // Nobody makes a key of what they may not do, nor of nothing.
    for wrong in [
        &[("name", "x"), ("admin", "1")][..],
        &[("name", "x")],
        &[("read", "1")],
        &[("name", "x"), ("read", "1"), ("days", "x")],
    ] {
        let form = [&[("csrf", token.as_str())][..], wrong].concat();
        assert_eq!(
            browser.post("/account/keys", &form).await.status,
            400,
            "{wrong:?}"
        );
    }
    // Nor revokes another's.
    let revoke = format!("/account/keys/{}/revoke", record.id);
    github.user(2, "mallory");
    let other = index.browser();
    other.sign_in("github", "/").await;
    let others_token = other.token("/account").await;
    other.post(&revoke, &[("csrf", &others_token)]).await;
    assert!(works(&index, &json!(key)).await);
    assert_eq!(browser.post(&revoke, &[("csrf", &token)]).await.status, 303);
    assert!(!works(&index, &json!(key)).await);
}

/// The key that a page shows once.
fn shown_key(page: &str) -> String {
    let after = page
        .split("class=\"key\">")
        .nth(1)
        .unwrap_or_else(|| panic!("no key in {page}"));
    after.split('<').next().unwrap().to_owned()
}

/// Whether the index lets a program in with this key now.
async fn lets_in(index: &Index, key: &str) -> bool {
    let request = axum::http::Request::get("/api/v1/whoami")
        .header("authorization", format!("Bearer {key}"))
        .body(axum::body::Body::empty())
        .unwrap();
    let answer = index.send(SENDER.parse().unwrap(), request).await;
    answer.status == 200
}

#[tokio::test]
async fn somebody_rotates_a_key_on_their_own_page() {
    let (github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let token = browser.token("/account").await;
    let wish = [
        ("csrf", token.as_str()),
        ("name", "build"),
        ("read", "1"),
        ("days", "30"),
    ];
    let old = shown_key(&browser.post("/account/keys", &wish).await.text());
    let record = index.store.keys(None).await.unwrap().remove(0);
    index.clock.forward(20 * 86_400);
    browser.sign_in("github", "/").await;

    // By nobody else, and by no form of another site.
    let replaces = ("replaces", record.id.as_str());
    github.user(2, "mallory");
    let other = index.browser();
    other.sign_in("github", "/").await;
    let others_token = other.token("/account").await;
    for (who, csrf, status) in [(&other, &others_token, 400), (&browser, &others_token, 403)] {
        let answer = who.post("/account/keys", &[("csrf", csrf), replaces]).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(index.store.keys(None).await.unwrap().len(), 1);

    let token = browser.token("/account").await;
    let page = browser
        .post("/account/keys", &[("csrf", &token), replaces])
        .await
        .text();
    let new = shown_key(&page);
    let said = format!(
        "takes the place of <code>{}</code>, which works for 24 hours more",
        record.shown
    );
    assert!(page.contains(&said), "{page}");
    assert!(!browser.page("/account").await.contains(&new), "it is shown once");
    let records = index.store.keys(None).await.unwrap();
    let successor = records.iter().find(|key| key.id != record.id).unwrap();
    assert_eq!(
        (successor.name.as_str(), successor.scopes, successor.expires_at),
        ("build", record.scopes, Some(successor.created_at + 30 * 86_400)),
        "a person asks, so it has its whole life"
    );
    assert!(lets_in(&index, &old).await && lets_in(&index, &new).await);
    // Once: the old one has no button, and its form leads nowhere.
    let page = browser.page("/account").await;
    assert_eq!(page.matches("name=\"replaces\"").count(), 1);
    let again = browser.post("/account/keys", &[("csrf", &token), replaces]).await;
    assert_eq!(again.status, 400, "{}", again.text());
    index.clock.forward(86_400);
    assert!(!lets_in(&index, &old).await && lets_in(&index, &new).await);
}

#[tokio::test]
async fn signing_out_everywhere_ends_every_browser() {
    let (_github, index) = index().await;
    let (one, other) = (index.browser(), index.browser());
    one.sign_in("github", "/").await;
    other.sign_in("github", "/").await;
    let token = one.token("/account").await;
    one.post("/account/sessions/end", &[("csrf", &token)]).await;
    for browser in [&one, &other] {
        assert_eq!(browser.leads("/account").await, "/login?next=%2Faccount");
    }
}

#[tokio::test]
async fn a_session_ends_when_it_is_not_used_and_after_a_week_whatever_its_use() {
    let (_github, index) = index().await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    for _ in 0..14 {
        index.clock.forward(11 * 3_600);
        browser.page("/account").await;
    }
    index.clock.forward(15 * 3_600);
    assert_eq!(
        browser.leads("/account").await,
        "/login?next=%2Faccount",
        "unused for 15 hours"
    );
    browser.sign_in("github", "/").await;
    let mut days: BTreeMap<i64, bool> = BTreeMap::new();
    for hours in 1..=16 {
        index.clock.forward(11 * 3_600);
        days.insert(hours * 11, browser.get("/account").await.status == 200);
    }
    assert_eq!((days[&165], days[&176]), (true, false), "{days:?}");
}
