//! Signing in and out: the choice of a provider, the way there and back, and the session that comes of it.
//!
//! Invariant: whoever comes back must hold the cookie that they were sent away with, once; a session's secret is new with each
//! sign-in; nobody is led on to another site.

use std::net::IpAddr;

use askama::Template;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Uri, Version};
use axum::response::{IntoResponse, Redirect, Response};
use mcpindex_store::accounts::SignIn;
use url::Url;

use super::{Frame, page};
use crate::access::limits::Counted;
use crate::api::bytes_of;
use crate::app::App;
use crate::links;
use crate::login::DEV;
use crate::login::admission::Person;
use crate::login::cookie::Cookie;
use crate::login::error::SignInError;
use crate::login::secret::{Secret, same};
use crate::login::session::{SignedIn, checked_form, elsewhere, from_our_pages, signed_in};
use crate::login::settings::Named;
use crate::problem::Problem;
use crate::query::Query;

/// The longest address that somebody goes on to after signing in, in bytes.
const MAX_NEXT: usize = 2_000;
/// The parameter by which somebody asks to sign in as somebody else than the provider has them signed in as.
const ANOTHER: &str = "another";
/// The longest login that is kept, in letters.
const MAX_LOGIN: usize = 100;

/// What proxies add to what they pass on.
const FORWARDED: [&str; 5] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: Frame,
    choices: Vec<ChoiceView>,
    /// Whether anybody may sign in under any name.
    dev: bool,
    next: String,
    /// What waits behind the sign-in, for whoever a program sent here.
    purpose: Option<&'static str>,
}

struct ChoiceView {
    label: String,
    href: String,
}

/// An answer that no cache keeps.
pub(super) fn unkept(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether an answer may be made smaller by a compressor. One that no cache keeps holds a form's token beside what its address
/// says, and how small that gets would tell the token, letter by letter (BREACH).
pub(crate) fn may_be_compressed(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let value = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
    !value.is_some_and(|value| value.contains("no-store"))
}

/// Where a page is asked for under the name that it must have, if that is another one.
pub(super) fn at_its_name(app: &App, headers: &HeaderMap, uri: &Uri) -> Option<Response> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    elsewhere(app, headers, path).map(|url| unkept(Redirect::to(&url)))
}

/// Where somebody is sent who must sign in first, and comes back from; straight to `provider` when it is one.
pub(super) fn sign_in_first(app: &App, next: &str, provider: Option<&str>) -> Response {
    let named = provider
        .and_then(Named::from_name)
        .filter(|named| app.login.has(*named));
    let path = match named {
        Some(named) => format!("/auth/{}", named.name()),
        None => "/login".to_owned(),
    };
    unkept(Redirect::to(&links::with_query(
        &path,
        &[("next", Some(next.to_owned()))],
    )))
}

/// A path of this server, or the home page: what stands in an address may have been put there by anybody.
fn safe_next(base: &Url, next: Option<&str>) -> String {
    let home = || "/".to_owned();
    let Some(next) = next else { return home() };
    let is_path = next.starts_with('/') && !next.starts_with("//");
    if !is_path || next.contains(|c: char| c == '\\' || c.is_control()) {
        return home();
    }
    let Ok(url) = base.join(next) else { return home() };
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    // What is a path as it was written may be another host once its dots are taken out: `/.//evil.example`.
    // As it is written now: what was short may be long once it is percent-encoded.
    match url.origin() == base.origin() && !path.starts_with("//") && path.len() <= MAX_NEXT {
        true => path.to_owned(),
        false => home(),
    }
}

fn is_on(app: &App) -> Result<(), Problem> {
    match app.login.is_on() {
        true => Ok(()),
        false => Err(Problem::unknown(
            "no-sign-in",
            "Nobody can sign in here",
            "this index has no provider to sign in with; its administrator sets one in `[github]`, `[google]` or `[oidc]`, or \
             makes a key on the server's shell"
                .to_owned(),
        )),
    }
}

/// `GET /login`
pub(crate) async fn login(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    is_on(&app)?;
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    let next = safe_next(&app.base, Query::lenient(&uri).value("next"));
    if signed_in(&app, &headers).await?.is_some() {
        return Ok(unkept(Redirect::to(&next)));
    }
    let choices = app
        .login
        .choices()
        .into_iter()
        .filter(|choice| choice.named != Named::Dev);
    let page = page(&SignInPage {
        frame: Frame::new(&app, "account"),
        choices: choices
            .map(|choice| ChoiceView {
                href: links::with_query(
                    &format!("/auth/{}", choice.named.name()),
                    &[("next", Some(next.clone()))],
                ),
                label: choice.label,
            })
            .collect(),
        dev: app.login.has(Named::Dev),
        purpose: purpose(&next),
        next,
    })?;
    Ok(unkept(page))
}

fn purpose(next: &str) -> Option<&'static str> {
    match next.split('?').next() {
        Some("/cli/login" | "/cli/published") => {
            Some("A program on your computer asks for a key. You decide on the next page.")
        }
        Some("/device") => {
            Some("A program on another machine asks for a key. You enter its code on the next page.")
        }
        _ => None,
    }
}

/// `GET /auth/{provider}`: the way to it. It changes nothing but what this browser has under way.
pub(crate) async fn start(
    State(app): State<App>,
    Path(provider): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let named = Named::from_name(&provider)
        .filter(|named| app.login.has(*named))
        .ok_or_else(Problem::no_page)?;
    let (uri, headers) = (request.uri(), request.headers());
    if let Some(there) = at_its_name(&app, headers, uri) {
        return Ok(there);
    }
    let query = Query::lenient(uri);
    let next = safe_next(&app.base, query.value("next"));
    limit_starts(&app, &request)?;
    let secret = new_secret()?;
    let url = app
        .login
        .authorize_url(named, &app.base, &secret, &*app.clock)
        .await?;
    let Some(mut url) = url else {
        return Ok(sign_in_first(&app, &next, None));
    };
    if query.value(ANOTHER).is_some() {
        // Else a provider that knows the browser sends the same person again.
        url.query_pairs_mut().append_pair("prompt", "select_account");
    }
    app.store
        .begin_sign_in(secret.hash(), named.name(), &next, app.now())
        .await?;
    let mut response = unkept(Redirect::to(url.as_str()));
    set_cookie(&mut response, Cookie::SignIn.set(&app.base, &secret));
    Ok(response)
}

/// Counts a sign-in that is begun.
pub(super) fn limit_starts(app: &App, request: &Request) -> Result<(), Problem> {
    let address = app.access.sender(request.extensions(), request.headers());
    match app.access.limits.allows(Counted::LoginStart, address, 1) {
        true => Ok(()),
        false => Err(Problem::limited(
            app.access.limits.come_again(Counted::LoginStart),
            "too many sign-ins were begun from your address",
        )),
    }
}

fn new_secret() -> Result<Secret, SignInError> {
    Secret::generate().map_err(|error| SignInError::Internal(error.to_string()))
}

fn set_cookie(response: &mut Response, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// `GET /auth/{provider}/callback`
pub(crate) async fn callback(
    State(app): State<App>,
    Path(provider): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let named = Named::from_name(&provider)
        .filter(|named| app.login.has(*named))
        .ok_or_else(Problem::no_page)?;
    let query = Query::lenient(&uri);
    let mut next = None;
    let came_back = match came_back(&app, named, &query, &headers).await {
        Ok((secret, wanted)) => {
            let came_in = come_in(&app, named, &query, &headers, &secret, &wanted).await;
            next = Some(wanted);
            came_in
        }
        // The cookie stays where the answer was none of this browser's own: its own may still come.
        Err(error @ SignInError::NotBegun) => return Err(error.into()),
        Err(error) => Err(error),
    };
    let mut response = came_back.unwrap_or_else(|error| {
        let is_somebody_else = error.wants_another_account();
        let parameters = [
            ("next", next),
            (ANOTHER, is_somebody_else.then(|| "1".to_owned())),
        ];
        let again = links::with_query(&format!("/auth/{}", named.name()), &parameters);
        let title = match is_somebody_else {
            true => "Sign in with another account",
            false => "Try again",
        };
        Problem::from(error).with_way(again, title).into_response()
    });
    set_cookie(&mut response, Cookie::SignIn.forget(&app.base));
    Ok(response)
}

/// The sign-in that this browser began and comes back from, which is over with this: its secret, and where it leads.
async fn came_back(
    app: &App,
    named: Named,
    query: &Query,
    headers: &HeaderMap,
) -> Result<(Secret, String), SignInError> {
    let secret = Cookie::SignIn
        .of(&app.base, headers)
        .ok_or(SignInError::NotBegun)?;
    let state = secret.derive("state").ok_or(SignInError::NotBegun)?;
    if !query.value("state").is_some_and(|given| same(given, &state)) {
        return Err(SignInError::NotBegun);
    }
    let (provider, next) = app
        .store
        .take_sign_in(secret.hash(), app.now())
        .await?
        .ok_or(SignInError::Over)?;
    match provider == named.name() {
        true => Ok((secret, next)),
        false => Err(SignInError::NotBegun),
    }
}

/// Signs in whoever the provider's answer tells of.
async fn come_in(
    app: &App,
    named: Named,
    query: &Query,
    headers: &HeaderMap,
    secret: &Secret,
    next: &str,
) -> Result<Response, SignInError> {
    if let Some(error) = query.value("error") {
        return Err(SignInError::refused(app.login.label(named), error));
    }
    let code = query.value("code").ok_or(SignInError::NoCode)?;
    let answer = (code, query.value("iss"));
    let person = app
        .login
        .person(named, &app.base, answer, secret, &*app.clock)
        .await?;
    welcome(app, headers, person, next).await
}

/// Makes the session of somebody who may in.
async fn welcome(
    app: &App,
    headers: &HeaderMap,
    person: Person,
    next: &str,
) -> Result<Response, SignInError> {
    let login: String = person
        .login
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_LOGIN)
        .collect();
    let sign_in = SignIn {
        login: Some(login)
            .filter(|login| !login.trim().is_empty())
            .unwrap_or_else(|| person.subject.clone()),
        email: person.emails.into_iter().next(),
        issuer: person.issuer,
        subject: person.subject,
    };
    let account = app.store.sign_in(&sign_in, app.now()).await?;
    if account.disabled_at.is_some() {
        return Err(SignInError::Disabled { login: account.login });
    }
    if let Some(earlier) = Cookie::Session.of(&app.base, headers) {
        app.store.end_session(earlier.hash()).await?;
    }
    let secret = new_secret()?;
    app.store
        .add_session(secret.hash(), account.id, app.now())
        .await?;
    tracing::info!(account = account.id, "signed in");
    let mut response = unkept(Redirect::to(&safe_next(&app.base, Some(next))));
    set_cookie(&mut response, Cookie::Session.set(&app.base, &secret));
    Ok(response)
}

/// `POST /auth/dev`
pub(crate) async fn dev(
    State(app): State<App>,
    Path(provider): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    if Named::from_name(&provider) != Some(Named::Dev) || !app.login.has(Named::Dev) {
        return Err(Problem::no_page());
    }
    limit_starts(&app, &request)?;
    let headers = request.headers().clone();
    if FORWARDED.iter().any(|name| headers.contains_key(*name)) {
        return Err(Problem::forbidden(
            "this came through a proxy, and `[login] dev` is for this machine alone".to_owned(),
        ));
    }
    from_our_pages(&app, &headers)?;
    let form = form_of(request).await?;
    let login = form.value("login").unwrap_or_default().trim().to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if login.is_empty() || login.len() > MAX_LOGIN || !login.chars().all(is_plain) {
        return Err(Problem::of_sign_in(
            StatusCode::BAD_REQUEST,
            "bad-login",
            "That is no name to sign in under",
            format!("expected 1 to {MAX_LOGIN} letters, digits or `-_.@`"),
        ));
    }
    let person = Person {
        issuer: DEV.to_owned(),
        subject: login.to_ascii_lowercase(),
        login,
        ..Person::default()
    };
    let next = form.value("next").unwrap_or_default().to_owned();
    Ok(welcome(&app, &headers, person, &next).await?)
}

/// The fields of a form.
async fn form_of(request: Request) -> Result<Query, Problem> {
    Ok(Query::of_form(&bytes_of(request).await?))
}

/// A form that a page of ours sent, and who sent it.
pub(super) struct OwnForm {
    pub(super) signed_in: SignedIn,
    pub(super) address: IpAddr,
    pub(super) fields: Query,
}

impl OwnForm {
    /// Refuses a form that is none of ours, or of another session.
    pub(super) async fn of(app: &App, request: Request) -> Result<OwnForm, Problem> {
        OwnForm::or(app, request, |_, problem| problem).await
    }

    /// Refuses it with what `again` makes of the refusal: a way on from what the form was about.
    pub(super) async fn or(
        app: &App,
        request: Request,
        again: impl FnOnce(&Query, Problem) -> Problem,
    ) -> Result<OwnForm, Problem> {
        let address = app.access.sender(request.extensions(), request.headers());
        let headers = request.headers().clone();
        let fields = form_of(request).await?;
        let signed_in = match checked_form(app, &headers, fields.value("csrf")).await {
            Ok(signed_in) => signed_in,
            Err(problem) => return Err(again(&fields, problem)),
        };
        Ok(OwnForm {
            signed_in,
            address,
            fields,
        })
    }
}

/// `POST /logout`
pub(crate) async fn logout(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    app.store.end_session(form.signed_in.session).await?;
    let mut response = unkept(Redirect::to("/"));
    set_cookie(&mut response, Cookie::Session.forget(&app.base));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_on_to_another_site() {
        let base: Url = "https://index.example/".parse().unwrap();
        let check = |next: &str, expected: &str| assert_eq!(safe_next(&base, Some(next)), expected, "{next}");
        check("/servers?search=a#x", "/servers?search=a");
        check("/cli/login?port=1", "/cli/login?port=1");
        for evil in [
            "",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "https:evil.example",
            "javascript:alert(1)",
            "evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            " //evil.example",
            "@evil.example",
        ] {
            check(evil, "/");
        }
        check("/.//evil.example", "/");
        check(&format!("/{}", "a".repeat(MAX_NEXT)), "/");
        check(&format!("/{}", "é".repeat(MAX_NEXT / 3)), "/");
        assert_eq!(safe_next(&base, None), "/");
    }
}
