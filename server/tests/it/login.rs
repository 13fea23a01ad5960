//! Signing in with a browser, against a small GitHub of our own: who may, and what may go wrong on the way.

use axum::http::{Method, Request};
use mcpindex_server::login::settings::LoginSettings;
use mcpindex_store::accounts::{RoleChange, Scope, SignIn};
use serde_json::json;

use crate::browser::{BASE, Browser, Index, field, parameters};
use crate::fake_github::{FakeGithub, Mood};
use crate::programs::{Place, ended};

const EVERYBODY: &[&str] = &["everyone:github"];

async fn index_of(allow: &[&str]) -> (FakeGithub, Index) {
    let github = FakeGithub::start().await;
    let index = Index::start(&github.settings(allow)).await;
    (github, index)
}

/// The page that says why nobody was signed in, with a way on.
async fn refused(browser: &Browser<'_>, back: &str, status: u16, title: &str) -> String {
    let answer = browser.get(back).await;
    let page = answer.text();
    assert_eq!(answer.status, status, "{page}");
    assert!(page.contains(title), "{page}");
    assert!(
        page.contains("href=\"/login\"") || page.contains("href=\"/auth/github"),
        "{page}"
    );
    assert!(!browser.has_session());
    page
}

#[tokio::test]
async fn somebody_signs_in_and_is_led_on_to_where_they_were() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    assert!(
        browser
            .page("/login?next=%2Fdrifts")
            .await
            .contains("/auth/github?next=%2Fdrifts")
    );
    assert_eq!(browser.sign_in("github", "/drifts").await, "/drifts");
    let page = browser.page("/account").await;
    assert!(page.contains("alice") && page.contains("member"), "{page}");
    let accounts = index.store.accounts(None, 9).await.unwrap();
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0].subject, "583231");
    // Who is signed in already goes on at once.
    assert_eq!(browser.leads("/login?next=%2Fdrifts").await, "/drifts");
}

#[tokio::test]
async fn somebody_is_their_number_whatever_their_login_becomes() {
    let (github, index) = index_of(EVERYBODY).await;
    index.browser().sign_in("github", "/").await;
    github.user(583_231, "alice-renamed");
    index.browser().sign_in("github", "/").await;
    github.user(99, "alice");
    index.browser().sign_in("github", "/").await;
    let accounts = index.store.accounts(None, 9).await.unwrap();
    let logins: Vec<&str> = accounts.iter().map(|account| account.login.as_str()).collect();
    assert_eq!(logins, ["alice-renamed", "alice"]);
}

#[tokio::test]
async fn whom_the_settings_do_not_name_gets_no_account() {
    let (github, index) = index_of(&["github-org:acme", "github:bob", "domain:acme.example"]).await;
    let check = async |admitted: bool| {
        let browser = index.browser();
        let back = browser.at_provider("github", "/").await;
        if admitted {
            browser.leads(&back).await;
            assert!(browser.has_session());
        } else {
            refused(&browser, &back, 403, "You may not use this index").await;
        }
    };
    check(false).await;
    assert_eq!(index.store.accounts(None, 9).await.unwrap(), []);
    assert_eq!(github.scopes(), "read:org user:email");

    for (state, admitted) in [("pending", false), ("restricted", false), ("active", true)] {
        github.member_of("acme", state);
        check(admitted).await;
    }
    github.member_of("acme", "pending");
    github.emails(json!([{"email": "alice@acme.example", "verified": false, "primary": true}]));
    check(false).await;
    github.emails(json!([{"email": "alice@acme.example", "verified": true}]));
    check(true).await;
    github.emails(json!([{"email": "alice@acme.example.evil", "verified": true}]));
    check(false).await;
    github.user(7, "Bob");
    check(true).await;
}

#[tokio::test]
async fn no_more_is_asked_of_github_than_the_settings_need() {
    let (github, index) = index_of(&["github:alice"]).await;
    index.browser().sign_in("github", "/").await;
    assert_eq!(github.scopes(), "");
}

#[tokio::test]
async fn a_disabled_account_does_not_get_in_again() {
    let (_github, index) = index_of(EVERYBODY).await;
    let sign_in = SignIn {
        issuer: "admin".to_owned(),
        subject: "1".to_owned(),
        login: "root".to_owned(),
        email: None,
    };
    index.store.sign_in(&sign_in, 1).await.unwrap();
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let id = index.store.find_accounts("login:alice").await.unwrap()[0].id;
    assert_eq!(
        index.store.disable_account(id, 2).await.unwrap(),
        RoleChange::Done
    );
    assert_eq!(browser.leads("/account").await, "/login?next=%2Faccount");
    let other = index.browser();
    let back = other.at_provider("github", "/").await;
    refused(&other, &back, 403, "This account is disabled").await;
}

#[tokio::test]
async fn an_answer_with_no_state_or_a_wrong_one_signs_nobody_in() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    let back = browser.at_provider("github", "/").await;
    let code = &parameters(&back)["code"];
    for wrong in [
        format!("/auth/github/callback?code={code}"),
        format!("/auth/github/callback?code={code}&state="),
        format!("/auth/github/callback?code={code}&state={}", "A".repeat(43)),
    ] {
        refused(&browser, &wrong, 400, "This sign-in was not begun here").await;
    }
    // None of these took the right answer away.
    browser.leads(&back).await;
    assert!(browser.has_session());
}

#[tokio::test]
async fn an_answer_is_taken_once() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    let back = browser.at_provider("github", "/").await;
    let begun = browser.cookies.lock().unwrap().clone();
    browser.leads(&back).await;
    // The same browser, with the cookie that it had then.
    *browser.cookies.lock().unwrap() = begun;
    refused(&browser, &back, 400, "This sign-in is over").await;
}

#[tokio::test]
async fn a_sign_in_that_takes_longer_than_ten_minutes_is_over() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    let back = browser.at_provider("github", "/").await;
    index.clock.forward(601);
    refused(&browser, &back, 400, "This sign-in is over").await;
}

#[tokio::test]
async fn an_attackers_answer_in_the_victims_browser_signs_nobody_in() {
    let (_github, index) = index_of(EVERYBODY).await;
    let (attacker, victim) = (index.browser(), index.browser());
    let back = attacker.at_provider("github", "/").await;
    refused(&victim, &back, 400, "This sign-in was not begun here").await;
    // Nor when the victim has a sign-in of their own under way.
    victim.at_provider("github", "/").await;
    refused(&victim, &back, 400, "This sign-in was not begun here").await;
}

#[tokio::test]
async fn a_code_that_was_begun_with_another_browsers_verifier_is_refused_by_the_provider() {
    let (_github, index) = index_of(EVERYBODY).await;
    let (one, other) = (index.browser(), index.browser());
    let stolen = parameters(&one.at_provider("github", "/").await)["code"].clone();
    let own = other.at_provider("github", "/").await;
    let state = &parameters(&own)["state"];
    let injected = format!("/auth/github/callback?code={stolen}&state={state}");
    refused(&other, &injected, 502, "The provider refused the sign-in").await;
}

#[tokio::test]
async fn a_session_that_somebody_put_into_the_browser_is_not_the_one_that_is_signed_in() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    let planted = "A".repeat(43);
    browser
        .cookies
        .lock()
        .unwrap()
        .insert("__Host-mcpindex".to_owned(), planted.clone());
    browser.sign_in("github", "/").await;
    let first = browser.session().unwrap();
    assert_ne!(first, planted);
    browser.sign_in("github", "/").await;
    let second = browser.session().unwrap();
    assert_ne!(first, second);
    // The one before has ended with it.
    for ended in [planted, first] {
        let other = index.browser();
        other
            .cookies
            .lock()
            .unwrap()
            .insert("__Host-mcpindex".to_owned(), ended);
        assert_eq!(other.leads("/account").await, "/login?next=%2Faccount");
    }
}

#[tokio::test]
async fn nobody_is_led_to_another_site() {
    let (_github, index) = index_of(EVERYBODY).await;
    for evil in [
        "//evil.example",
        "/.//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "/\t/evil.example",
    ] {
        assert_eq!(index.browser().sign_in("github", evil).await, "/", "{evil}");
        let page = index
            .browser()
            .page(&format!("/login?next={}", crate::browser::encoded(evil)))
            .await;
        assert!(!page.contains("evil.example"), "{page}");
    }
}

#[tokio::test]
async fn cookies_are_this_hosts_alone_and_unreadable_to_scripts() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    let begun = browser.get("/auth/github").await;
    let cookie = begun.header("set-cookie");
    assert!(cookie.starts_with("__Host-mcpindex-sign-in="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"),
        "{cookie}"
    );
    assert_eq!(begun.header("cache-control"), "no-store");
    let back = browser.at_provider("github", "/").await;
    let done = browser.get(&back).await;
    let cookies: Vec<&str> = done
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    assert!(cookies[0].starts_with("__Host-mcpindex="), "{cookies:?}");
    assert!(
        cookies[0].ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure"),
        "{cookies:?}"
    );
    assert!(cookies[1].contains("Max-Age=0"), "{cookies:?}");
    assert_eq!(done.header("strict-transport-security"), "max-age=31536000");
}

#[tokio::test]
async fn a_cookie_of_plain_http_is_no_session_over_https() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let session = browser.session().unwrap();
    let other = index.browser();
    other
        .cookies
        .lock()
        .unwrap()
        .insert("mcpindex".to_owned(), session);
    assert_eq!(other.leads("/account").await, "/login?next=%2Faccount");
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let token = browser.token("/account").await;
    let origin = BASE.trim_end_matches('/');
    let fields = [("csrf", token.as_str())];
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site"), ("origin", origin)],
        &[],
    ] {
        let answer = browser.post_from("/logout", headers, &fields).await;
        assert_eq!(answer.status, 403, "{headers:?}");
    }
    for token in ["", "wrong", &"A".repeat(43)] {
        let answer = browser.post("/logout", &[("csrf", token)]).await;
        assert_eq!(answer.status, 403, "{token}");
    }
    assert!(browser.has_session());
    browser.page("/account").await;
    // An older browser says where a form comes from in `Origin` alone.
    let answer = browser.post_from("/logout", &[("origin", origin)], &fields).await;
    assert_eq!(answer.status, 303);
    assert!(!browser.has_session());
}

#[tokio::test]
async fn the_token_of_one_session_is_none_in_another() {
    let (github, index) = index_of(EVERYBODY).await;
    let (alice, mallory) = (index.browser(), index.browser());
    alice.sign_in("github", "/").await;
    github.user(2, "mallory");
    mallory.sign_in("github", "/").await;
    let token = mallory.token("/account").await;
    let answer = alice.post("/logout", &[("csrf", &token)]).await;
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn a_provider_that_is_down_or_refuses_is_a_page_with_a_way_on() {
    let (github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    for (mood, status, title) in [
        (Mood::Down, 502, "The provider can&#39;t be used right now"),
        (Mood::Endless, 502, "The provider can&#39;t be used right now"),
        (Mood::Refuses, 403, "You are not signed in"),
    ] {
        github.mood(mood);
        let back = browser.at_provider("github", "/").await;
        let page = refused(&browser, &back, status, title).await;
        assert!(page.contains("href=\"/auth/github"), "{page}");
        assert!(!page.contains("hush"), "{page}");
    }
    github.mood(Mood::Good);
    let mut settings = github.settings(EVERYBODY);
    settings.github = crate::browser::client_of("github-id", "wrong-hush");
    let index = Index::start(&settings).await;
    let browser = index.browser();
    let back = browser.at_provider("github", "/").await;
    let page = refused(&browser, &back, 502, "The provider refused the sign-in").await;
    assert!(
        page.contains("incorrect_client_credentials") && !page.contains("hush"),
        "{page}"
    );
    // An error of a provider is shown as one plain word.
    let back = browser.at_provider("github", "/").await;
    let state = &parameters(&back)["state"];
    let odd = format!("/auth/github/callback?error=%3Cscript%3Ealert&state={state}");
    let page = refused(&browser, &odd, 502, "The provider refused the sign-in").await;
    assert!(
        page.contains("scriptalert") && !page.contains("<script"),
        "{page}"
    );
}

#[tokio::test]
async fn nobody_answers_at_the_providers_address() {
    let (github, _) = index_of(EVERYBODY).await;
    let mut settings = github.settings(EVERYBODY);
    // A port that was free a moment ago.
    let port = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    settings.oidc = crate::browser::client_of("id", "secret");
    settings.oidc_issuer = Some(format!("http://127.0.0.1:{port}"));
    let index = Index::start(&settings).await;
    let answer = index.browser().get("/auth/oidc").await;
    assert_eq!(answer.status, 502);
    assert!(
        answer.text().contains("The provider can&#39;t be used right now"),
        "{}",
        answer.text()
    );
    // The other provider is not down with it.
    index.browser().sign_in("github", "/").await;
}

#[tokio::test]
async fn sign_ins_from_one_address_are_limited() {
    let (_github, index) = index_of(EVERYBODY).await;
    let mut browser = index.browser();
    for _ in 0..20 {
        browser.leads("/auth/github").await;
    }
    let answer = browser.get("/auth/github").await;
    assert_eq!(answer.status, 429);
    assert!(answer.text().contains("Too much at once"), "{}", answer.text());
    browser.address = "192.0.2.2".parse().unwrap();
    browser.leads("/auth/github").await;
}

fn dev() -> LoginSettings {
    LoginSettings {
        dev: true,
        ..LoginSettings::default()
    }
}

#[tokio::test]
async fn at_a_development_index_any_name_will_do() {
    let index = Index::on_loopback(&dev()).await;
    let browser = index.browser();
    let page = browser.page("/login?next=%2Fdrifts").await;
    let next = field(&page, "next");
    let answer = browser
        .post("/auth/dev", &[("login", "ada"), ("next", &next)])
        .await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("location")),
        (303, "/drifts")
    );
    let cookie = answer.header("set-cookie");
    assert!(
        cookie.starts_with("mcpindex-8080=") && !cookie.contains("Secure"),
        "{cookie}"
    );
    assert!(answer.headers.get("strict-transport-security").is_none());
    assert!(browser.page("/account").await.contains("ada"));
    for wrong in ["", "a b", "<b>", &"a".repeat(101)] {
        let answer = index.browser().post("/auth/dev", &[("login", wrong)]).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_development_index_signs_nobody_in_who_comes_through_a_proxy() {
    let index = Index::on_loopback(&dev()).await;
    let browser = index.browser();
    for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"] {
        let headers = [("sec-fetch-site", "same-origin"), (name, "for=192.0.2.7")];
        let answer = browser
            .post_from("/auth/dev", &headers, &[("login", "ada")])
            .await;
        assert_eq!(answer.status, 403, "{name}");
    }
    assert!(!browser.has_session());
}

#[tokio::test]
async fn who_signed_in_at_a_development_index_is_nobody_at_another() {
    let index = Index::on_loopback(&dev()).await;
    let browser = index.browser();
    browser.post("/auth/dev", &[("login", "ada")]).await;
    browser.page("/account").await;
    let ada = index.store.accounts(None, 1).await.unwrap().remove(0);
    let key = crate::access::key_of(&index.store, &ada, &[Scope::Read], None).await;
    let github = FakeGithub::start().await;
    let public = Index::over(&index.store, &github.settings(EVERYBODY), Some(BASE));
    let there = public.browser();
    there
        .cookies
        .lock()
        .unwrap()
        .insert("__Host-mcpindex".to_owned(), browser.session().unwrap());
    assert_eq!(there.leads("/account").await, "/login?next=%2Faccount");
    let ask = async |index: &Index| {
        let request = Request::get("/api/v1/whoami").header("authorization", format!("Bearer {}", key.text));
        let request = request.body(axum::body::Body::empty()).unwrap();
        index
            .send("192.0.2.1".parse().unwrap(), request)
            .await
            .status
            .as_u16()
    };
    assert_eq!((ask(&index).await, ask(&public).await), (200, 401));
}

#[tokio::test]
async fn two_indexes_on_one_machine_keep_their_cookies_apart() {
    let index = Index::on_loopback(&dev()).await;
    let browser = index.browser();
    browser.post("/auth/dev", &[("login", "ada")]).await;
    // A browser sends the cookies of all ports of a host, and keeps those of one name once.
    let kept: Vec<String> = browser.cookies.lock().unwrap().keys().cloned().collect();
    assert_eq!(kept, ["mcpindex-8080"]);
}

#[tokio::test]
async fn a_request_of_http_2_that_names_its_host_in_the_address_is_at_its_place() {
    let index = Index::on_loopback(&dev()).await;
    let ask = async |authority: &str| {
        let request = Request::get(format!("http://{authority}/login"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        let answer = index.send("127.0.0.1".parse().unwrap(), request).await;
        answer.status.as_u16()
    };
    assert_eq!(ask("127.0.0.1:8080").await, 200);
    assert_eq!(ask("localhost:8080").await, 303);
}

#[tokio::test]
async fn an_address_to_go_on_to_that_is_long_once_it_is_encoded_is_left_out() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    let long = format!("/{}", "é".repeat(990));
    assert_eq!(browser.sign_in("github", &long).await, "/");
}

#[tokio::test]
async fn a_sign_in_that_fails_leads_on_to_where_it_was_to_lead() {
    let (github, index) = index_of(&["github-org:acme"]).await;
    let browser = index.browser();
    let back = browser.at_provider("github", "/drifts?after=1").await;
    github.mood(Mood::Down);
    let page = browser.get(&back).await.text();
    assert!(
        page.contains("href=\"/auth/github?next=%2Fdrifts%3Fafter%3D1\">Try again"),
        "{page}"
    );
    // Whoever may not in is let choose somebody else at the provider.
    github.mood(Mood::Good);
    github.user(9, "stranger");
    let back = browser.at_provider("github", "/drifts").await;
    let page = browser.get(&back).await.text();
    assert!(page.contains("Sign in with another account"), "{page}");
    assert!(
        page.contains("no active membership of <code>acme</code>"),
        "{page}"
    );
    let there = browser.leads("/auth/github?next=%2Fdrifts&another=1").await;
    assert_eq!(parameters(&there)["prompt"], "select_account");
    let there = browser.leads("/auth/github?next=%2Fdrifts").await;
    assert!(!there.contains("prompt="), "{there}");
}

#[tokio::test]
async fn pages_with_a_form_are_not_compressed() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    browser.sign_in("github", "/").await;
    let encoding = async |path: &str| {
        let gzip = [("accept-encoding", "gzip")];
        let answer = browser.send(Method::GET, path, &gzip, String::new()).await;
        assert_eq!(answer.status, 200);
        answer
            .headers
            .get("content-encoding")
            .map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(encoding("/vocabulary").await.as_deref(), Some("gzip"));
    assert_eq!(encoding("/account").await, None);
    assert_eq!(encoding("/device").await, None);
}

#[tokio::test]
async fn the_address_of_a_form_can_be_loaded_again() {
    let (_github, index) = index_of(EVERYBODY).await;
    let browser = index.browser();
    assert_eq!(browser.leads("/account/keys").await, "/account#keys");
}

#[tokio::test]
async fn another_name_for_this_machine_is_led_to_its_own_and_changes_nothing() {
    let index = Index::on_loopback(&dev()).await;
    let browser = index.browser();
    for host in ["evil.example:8080", "localhost:8080", "127.0.0.1:9"] {
        let rebound = [("host", host), ("sec-fetch-site", "same-origin")];
        let answer = browser
            .post_from("/auth/dev", &rebound, &[("login", "ada")])
            .await;
        assert_eq!(answer.status, 403, "{host}");
        let answer = browser
            .send(
                Method::GET,
                "/login?next=%2Fdrifts",
                &[("host", host)],
                String::new(),
            )
            .await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("location")),
            (303, "http://127.0.0.1:8080/login?next=%2Fdrifts")
        );
    }
    let foreign = [("sec-fetch-site", "cross-site")];
    let answer = browser
        .post_from("/auth/dev", &foreign, &[("login", "ada")])
        .await;
    assert_eq!(answer.status, 403);
    assert!(!browser.has_session());
}

#[tokio::test]
async fn where_nobody_can_sign_in_the_pages_say_so() {
    let index = Index::on_loopback(&LoginSettings::default()).await;
    let browser = index.browser();
    for path in ["/login", "/device", "/cli/login?port=1"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    for path in [
        "/auth/github",
        "/auth/dev",
        "/auth/github/callback?code=a&state=b",
    ] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
    assert!(!browser.page("/").await.contains("/account"));
}

#[tokio::test]
async fn serve_does_not_start_with_a_sign_in_that_can_not_be_meant() {
    let place = Place::new();
    let check = async |variables: &[(&str, &str)], part: &str| {
        let mut command = place.command(&["serve", "--no-crawl", "--listen", "127.0.0.1:0"]);
        command.envs(variables.iter().copied());
        let ended = ended(command).await;
        let line = ended.stderr();
        assert_eq!(ended.code(), Some(2), "{line}");
        assert!(line.contains(part) && line.lines().count() == 1, "{line}");
        assert!(!line.contains("hush"), "{line}");
    };
    let public = ("MCPINDEX_PUBLIC_URL", "https://index.example/");
    let dev = ("MCPINDEX_LOGIN_DEV", "true");
    check(&[dev, public], "for this machine alone").await;
    let proxies = ("MCPINDEX_PROXIES", "127.0.0.1");
    check(&[dev, proxies], "others come through 127.0.0.1").await;
    let id = ("MCPINDEX_GITHUB_CLIENT_ID", "id");
    let secret = ("MCPINDEX_GITHUB_CLIENT_SECRET", "hush");
    check(&[id, secret], "[login] allow is empty").await;
    let allow = ("MCPINDEX_LOGIN_ALLOW", "github-org:acme");
    let plain = ("MCPINDEX_PUBLIC_URL", "http://index.example/");
    check(&[id, secret, allow, plain], "sign-in needs https").await;
    let missing = ("MCPINDEX_GITHUB_CLIENT_SECRET_FILE", "/nowhere/hush-not");
    check(
        &[id, allow, ("MCPINDEX_GITHUB_URL", "http://github.corp/")],
        "plain http",
    )
    .await;
    check(&[id, secret, missing, allow], "keep one").await;
    check(&[("MCPINDEX_LOGIN_ALLOW", "alice")], "names nobody").await;
}
