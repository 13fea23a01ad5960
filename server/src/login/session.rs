//! Who is signed in with this browser, and whether a form that it sends is one of ours.
//!
//! Invariant: nothing is changed by a request that another site could have caused: a form must come from these pages and
//! carry what only they know.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use mcpindex::index::is_loopback;
use mcpindex_store::StoreError;
use mcpindex_store::accounts::{Account, SecretHash};
use secrecy::{ExposeSecret as _, SecretString};

use super::cookie::Cookie;
use super::secret::same;
use crate::app::App;
use crate::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Somebody who is signed in.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// Who.
    pub account: Account,
    /// What a form of theirs carries.
    csrf: SecretString,
    /// Their session.
    pub session: SecretHash,
}

impl SignedIn {
    /// The token that goes into every form on a page of theirs.
    pub(crate) fn csrf(&self) -> &str {
        self.csrf.expose_secret()
    }
}

/// Who is signed in with this browser.
pub(crate) async fn signed_in(app: &App, headers: &HeaderMap) -> Result<Option<SignedIn>, StoreError> {
    let Some(secret) = Cookie::Session.of(&app.base, headers) else {
        return Ok(None);
    };
    let Some(csrf) = secret.derive("form") else {
        return Ok(None);
    };
    let session = secret.hash();
    let account = app.store.session(session, app.now()).await?;
    Ok(account.map(|account| SignedIn {
        account,
        csrf: csrf.into(),
        session,
    }))
}

/// Who sent this form, which must be one of our own pages'. `token` is what its field `csrf` holds.
pub(crate) async fn checked_form(
    app: &App,
    headers: &HeaderMap,
    token: Option<&str>,
) -> Result<SignedIn, Problem> {
    from_our_pages(app, headers)?;
    let signed_in = signed_in(app, headers).await?.ok_or_else(not_signed_in)?;
    match token {
        Some(token) if same(token, signed_in.csrf()) => Ok(signed_in),
        _ => Err(not_ours("the form belongs to another session")),
    }
}

/// Refuses a form that another site sends, or another name for this machine.
pub(crate) fn from_our_pages(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    if !is_at_base(app, headers) {
        return Err(not_ours("the form was sent to another name of this machine"));
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // A page that says `no-referrer`, as all of ours do, sends `Origin: null` with its own forms; so the browser's own word
    // on where a form comes from is asked first.
    let ours = match (text(FETCH_SITE), text(ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => origin == app.base.origin().ascii_serialization(),
        (None, None) => false,
    };
    match ours {
        true => Ok(()),
        false => Err(not_ours("the form was not sent by a page of this index")),
    }
}

/// Whether the request was sent to the address that people use. It matters where that is this machine: its pages would be
/// anybody's whose name for it the browser believes, and cookies would be lost between two names for it. Elsewhere a proxy in
/// front may have changed the name.
pub(crate) fn is_at_base(app: &App, headers: &HeaderMap) -> bool {
    if !is_loopback(&app.base) {
        return true;
    }
    let authority = &app.base[url::Position::BeforeHost..url::Position::AfterPort];
    headers
        .get(HOST)
        .is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()))
}

/// Where a page must be asked for instead, when it was asked for under another name of this machine.
pub(crate) fn elsewhere(app: &App, headers: &HeaderMap, path_and_query: &str) -> Option<String> {
    if is_at_base(app, headers) {
        return None;
    }
    let base = app.base.as_str().trim_end_matches('/');
    Some(format!("{base}{path_and_query}"))
}

fn not_signed_in() -> Problem {
    Problem::of_sign_in(
        StatusCode::UNAUTHORIZED,
        "not-signed-in",
        "You are not signed in",
        "the session is over, or was ended; sign in again and repeat what you did".to_owned(),
    )
}

fn not_ours(why: &str) -> Problem {
    Problem::of_sign_in(
        StatusCode::FORBIDDEN,
        "foreign-form",
        "Nothing was changed",
        format!("{why}; open the page here and send it again"),
    )
}
