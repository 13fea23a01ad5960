//! Signing in with an OpenID Connect issuer: what is believed of it and what is not, and how often it is asked.

use mcpindex_store::accounts::Account;

use crate::browser::{Browser, Index, parameters};
use crate::own_issuer::{OwnIssuer, Wrong};
use crate::programs::until;

async fn index() -> (OwnIssuer, Index) {
    let issuer = OwnIssuer::start().await;
    let index = Index::start(&issuer.settings()).await;
    (issuer, index)
}

/// One sign-in, which must come to nothing for this reason.
async fn refused(browser: &Browser<'_>, part: &str) {
    let back = browser.at_provider("oidc", "/").await;
    let answer = browser.get(&back).await;
    let page = answer.text();
    assert!(!browser.has_session());
    assert!(answer.status.is_client_error() || answer.status == 502, "{page}");
    assert!(page.contains(part), "{part}: {page}");
    assert!(page.contains("href=\"/auth/oidc?next=%2F"), "a way on: {page}");
    assert!(!page.contains("hush") && !page.contains("eyJ"), "{page}");
}

async fn check(wrong: Wrong, part: &str) {
    let (issuer, index) = index().await;
    issuer.wrong(wrong);
    refused(&index.browser(), part).await;
    issuer.wrong(Wrong::Nothing);
    assert_eq!(index.browser().sign_in("oidc", "/drifts").await, "/drifts");
}

#[tokio::test]
async fn somebody_is_the_issuers_subject() {
    let (issuer, index) = index().await;
    let browser = index.browser();
    assert_eq!(browser.sign_in("oidc", "/").await, "/");
    let account = index.store.accounts(None, 9).await.unwrap().remove(0);
    assert_eq!(
        (account.issuer, account.subject.as_str()),
        (issuer.url.clone(), "subject-1")
    );
    assert_eq!(
        (account.login.as_str(), account.email.as_deref()),
        ("alice", Some("alice@acme.example"))
    );
}

/// A sign-in that must succeed although the issuer does this; the account that comes of it.
async fn check_believed(unusual: Wrong) -> Account {
    let (issuer, index) = index().await;
    issuer.wrong(unusual);
    assert_eq!(index.browser().sign_in("oidc", "/drifts").await, "/drifts");
    index.store.accounts(None, 9).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_name_that_somebody_chose_is_not_what_they_are_called_by() {
    assert_eq!(check_believed(Wrong::OnlyName).await.login, "alice@acme.example");
}

#[tokio::test]
async fn an_address_counts_when_either_answer_says_that_it_is_verified() {
    let email = async |unusual| check_believed(unusual).await.email;
    assert_eq!(
        email(Wrong::EmailInBoth).await.as_deref(),
        Some("alice@acme.example")
    );
    assert_eq!(
        email(Wrong::EmailInToken).await.as_deref(),
        Some("alice@acme.example")
    );
    check(Wrong::EmailsDiffer, "You may not use this index").await;
}

#[tokio::test]
async fn a_token_for_two_clients_is_believed_when_it_was_given_to_this_one() {
    check_believed(Wrong::SecondAudienceForUs).await;
}

#[tokio::test]
async fn a_token_about_nobody_is_not_believed() {
    check(Wrong::NoSubject, "whom it is about").await;
}

#[tokio::test]
async fn a_subject_that_is_longer_than_is_kept_is_a_page_of_its_own() {
    check(Wrong::LongSubject, "What the provider tells can&#39;t be kept").await;
}

#[tokio::test]
async fn whoever_waits_for_an_issuer_that_hangs_shares_the_one_look() {
    let (issuer, index) = index().await;
    let start = async || index.browser().get("/auth/oidc?next=/").await.status.as_u16();
    let hang = issuer.hang().await;
    let release = async {
        until("the first to ask", async || issuer.asked_for_configuration() == 1).await;
        index.clock.forward(6);
        drop(hang);
    };
    // The second and third come within this task, before the first is answered.
    let (first, second, third, ()) = tokio::join!(
        start(),
        async {
            until("the first to ask", async || issuer.asked_for_configuration() == 1).await;
            start().await
        },
        start(),
        release
    );
    assert_eq!([first, second, third], [502; 3]);
    assert_eq!(issuer.asked_for_configuration(), 1);
}

#[tokio::test]
async fn a_token_of_another_issuer_is_not_believed() {
    check(Wrong::Issuer, "names another issuer").await;
    check(Wrong::IssuerWithSlash, "names another issuer").await;
}

#[tokio::test]
async fn a_token_for_another_client_is_not_believed() {
    check(Wrong::Audience, "made for another client").await;
    check(Wrong::SecondAudience, "made for another client").await;
    check(Wrong::AuthorizedParty, "made for another client").await;
}

#[tokio::test]
async fn a_token_that_nobody_signed_is_not_believed() {
    check(Wrong::Unsigned, "not signed with RS256 or ES256").await;
    check(Wrong::NoSignatureBytes, "signature of its ID token is wrong").await;
}

#[tokio::test]
async fn a_token_signed_with_a_shared_secret_is_not_believed_whatever_the_secret() {
    check(Wrong::SharedSecret, "not signed with RS256 or ES256").await;
    check(Wrong::PublicKeyAsSecret, "not signed with RS256 or ES256").await;
}

#[tokio::test]
async fn a_token_signed_with_another_key_is_not_believed() {
    check(Wrong::OtherKey, "signature of its ID token is wrong").await;
}

#[tokio::test]
async fn a_token_of_another_time_is_not_believed() {
    check(Wrong::Expired, "The clocks differ").await;
    check(Wrong::FromTheFuture, "The clocks differ").await;
}

#[tokio::test]
async fn a_clock_that_is_a_little_off_is_no_matter() {
    let (_issuer, index) = index().await;
    index.clock.forward(350);
    index.browser().sign_in("oidc", "/").await;
}

#[tokio::test]
async fn a_token_of_another_sign_in_is_not_believed() {
    check(Wrong::NoNonce, "belongs to another sign-in").await;
    check(Wrong::OtherNonce, "belongs to another sign-in").await;
}

#[tokio::test]
async fn an_answer_without_a_token_signs_nobody_in() {
    check(Wrong::NoToken, "no ID token").await;
}

#[tokio::test]
async fn an_answer_that_another_issuer_sent_the_browser_with_is_not_taken() {
    check(Wrong::OtherIss, "another issuer than the one that was asked").await;
    check(Wrong::NoIss, "doesn&#39;t say which issuer").await;
}

#[tokio::test]
async fn what_is_told_of_somebody_else_is_not_taken() {
    check(Wrong::UserInfoOfAnother, "tells of somebody else").await;
}

#[tokio::test]
async fn an_address_that_nobody_verified_lets_nobody_in() {
    check(Wrong::EmailNotVerified, "You may not use this index").await;
    check(
        Wrong::EmailNotVerified,
        "no verified e-mail address is in <code>acme.example</code>",
    )
    .await;
}

#[tokio::test]
async fn a_code_is_taken_once_and_from_its_own_browser() {
    let (_issuer, index) = index().await;
    let (one, other) = (index.browser(), index.browser());
    let back = one.at_provider("oidc", "/").await;
    let code = parameters(&back)["code"].clone();
    let own = other.at_provider("oidc", "/").await;
    let iss = crate::browser::encoded(&parameters(&own)["iss"]);
    let state = &parameters(&own)["state"];
    // The issuer gives the token for the code, but it is made for the other browser's nonce.
    let answer = other
        .get(&format!(
            "/auth/oidc/callback?code={code}&state={state}&iss={iss}"
        ))
        .await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert!(
        answer.text().contains("belongs to another sign-in"),
        "{}",
        answer.text()
    );
    let answer = one.get(&back).await;
    assert_eq!(answer.status, 502, "the code is gone: {}", answer.text());
}

#[tokio::test]
async fn an_issuer_that_calls_itself_by_another_name_is_not_used() {
    let issuer = OwnIssuer::start().await;
    issuer.wrong(Wrong::Discovery);
    let index = Index::start(&issuer.settings()).await;
    let answer = index.browser().get("/auth/oidc").await;
    assert_eq!(answer.status, 502);
    let page = answer.text();
    assert!(page.contains("they must be the same to the letter"), "{page}");
}

#[tokio::test]
async fn an_issuer_is_asked_once_in_ten_minutes() {
    let (issuer, index) = index().await;
    for _ in 0..3 {
        index.browser().sign_in("oidc", "/").await;
        index.clock.forward(100);
    }
    assert_eq!(
        (issuer.asked_for_configuration(), issuer.asked_for_keys()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_key_that_is_new_is_looked_for() {
    let (issuer, index) = index().await;
    index.browser().sign_in("oidc", "/").await;
    issuer.change_key();
    index.browser().sign_in("oidc", "/").await;
    assert_eq!(issuer.asked_for_keys(), 2);
}

#[tokio::test]
async fn a_storm_of_unknown_keys_makes_us_ask_once_a_minute() {
    let (issuer, index) = index().await;
    issuer.wrong(Wrong::UnknownKey);
    for _ in 0..8 {
        refused(&index.browser(), "a key that the issuer doesn&#39;t publish").await;
    }
    assert_eq!(issuer.asked_for_keys(), 2);
    index.clock.forward(61);
    refused(&index.browser(), "a key that the issuer doesn&#39;t publish").await;
    assert_eq!(issuer.asked_for_keys(), 3);
}
