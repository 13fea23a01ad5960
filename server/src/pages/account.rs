//! One's own account: who one is here, one's keys, and the browsers that are signed in.
//!
//! Invariant: a key is shown whole once, on the answer to the form that made it; everything here is the reader's own.

use askama::Template;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Redirect, Response};
use mcpindex_store::accounts::{KeyRecord, Role, Scope, Scopes};
use mcpindex_store::signals::Network;

use super::sign_in::{at_its_name, form_of, sign_in_first, unkept};
use super::{Frame, page};
use crate::access::Read;
use crate::access::feed_path::FeedToken;
use crate::access::issue::{USUAL_DAYS, Wish, issue};
use crate::app::App;
use crate::links;
use crate::login::key::not_issued;
use crate::login::session::{SignedIn, checked_form, signed_in};
use crate::problem::Problem;
use crate::query::Query;
use crate::when::{When, when};
use crate::words::Words;

const DAY: i64 = 86_400;

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    frame: Frame,
    csrf: String,
    login: Words,
    issuer: Words,
    email: Option<Words>,
    role: &'static str,
    is_admin: bool,
    /// A key that was just made; shown this once.
    made: Option<MadeView>,
    /// Their own path to the feeds, on an index that shows them to members alone.
    feeds: Option<FeedsView>,
    keys: Vec<KeyView>,
    sessions: Vec<SessionView>,
    days: u32,
}

struct MadeView {
    name: Words,
    text: String,
}

struct FeedsView {
    /// The address of a path that was just made; shown this once.
    made: Option<String>,
    /// Whether there is a path.
    exists: bool,
    created: Option<When>,
    used: Option<When>,
}

struct KeyView {
    name: Words,
    shown: String,
    scopes: String,
    created: Option<When>,
    used: Option<When>,
    expires: Option<When>,
    /// How it stands: `works`, `revoked`, `expired`.
    state: &'static str,
    works: bool,
    revoke: String,
}

struct SessionView {
    created: Option<When>,
    used: Option<When>,
    is_this: bool,
}

/// `GET /account`
pub(crate) async fn account(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    match signed_in(&app, &headers).await? {
        Some(signed_in) => show(&app, &signed_in, Made::Nothing).await,
        None => Ok(sign_in_first(&app, "/account", None)),
    }
}

/// What was just made, and is shown this once.
enum Made {
    Nothing,
    Key(MadeView),
    FeedPath(FeedToken),
}

async fn show(app: &App, signed_in: &SignedIn, made: Made) -> Result<Response, Problem> {
    let now = app.now();
    let account = &signed_in.account;
    let keys = app.store.keys(Some(account.id)).await?;
    let sessions = app.store.sessions(account.id, now).await?;
    let this = signed_in.session.short_id();
    let (made, feed_token) = match made {
        Made::Nothing => (None, None),
        Made::Key(made) => (Some(made), None),
        Made::FeedPath(token) => (None, Some(token)),
    };
    let feeds = match app.access.rules.read {
        Read::Public => None,
        Read::Members => {
            let kept = app.store.feed_path(account.id).await?;
            Some(FeedsView {
                made: feed_token
                    .map(|token| links::absolute(&app.base, &format!("{}drifts.atom", token.expose_path()))),
                exists: kept.is_some(),
                created: kept.and_then(|kept| when(kept.created_at, now)),
                used: kept
                    .and_then(|kept| kept.last_used_on)
                    .and_then(|day| when(day.saturating_mul(DAY), now)),
            })
        }
    };
    let page = page(&AccountPage {
        frame: Frame::new(app, "account"),
        csrf: signed_in.csrf().to_owned(),
        login: Words::label(&account.login),
        issuer: Words::label(&account.issuer),
        email: account.email.as_deref().map(Words::label),
        role: account.role.name(),
        is_admin: account.role == Role::Admin,
        made,
        feeds,
        keys: keys.iter().map(|key| KeyView::new(key, now)).collect(),
        sessions: sessions
            .iter()
            .map(|session| SessionView {
                created: when(session.created_at, now),
                used: when(session.used_at, now),
                is_this: session.id == this,
            })
            .collect(),
        days: USUAL_DAYS,
    })?;
    Ok(unkept(page))
}

impl KeyView {
    fn new(key: &KeyRecord, now: i64) -> KeyView {
        let works = key.works(now);
        KeyView {
            name: Words::label(&key.name),
            shown: key.shown.clone(),
            scopes: key.scopes.to_string(),
            created: when(key.created_at, now),
            used: key
                .last_used_on
                .and_then(|day| when(day.saturating_mul(DAY), now)),
            expires: key.expires_at.and_then(|at| when(at, now)),
            state: match (works, key.revoked_at) {
                (true, _) => "works",
                (false, Some(_)) => "revoked",
                (false, None) => "expired",
            },
            works,
            revoke: format!("/account/keys/{}/revoke", links::segment(&key.id)),
        }
    }
}

/// `POST /account/keys`
pub(crate) async fn create_key(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let address = app.access.sender(request.extensions(), request.headers());
    let headers = request.headers().clone();
    let form = form_of(request).await?;
    let signed_in = checked_form(&app, &headers, form.value("csrf")).await?;
    let chosen = Scope::ALL
        .into_iter()
        .filter(|scope| form.value(scope.name()).is_some());
    let chosen: Vec<Scope> = chosen.collect();
    let days = match form.value("days") {
        None => None,
        Some(days) => Some(days.parse().map_err(|_| no_key("the days are no number"))?),
    };
    let wish = Wish {
        name: form.value("name").unwrap_or_default().trim().to_owned(),
        scopes: Scopes::of(&chosen),
        days,
    };
    let issued = issue(
        &app.store,
        &signed_in.account,
        &wish,
        Some(Network::of(address)),
        app.now(),
    )
    .await;
    let (text, record) = issued.map_err(not_issued)?;
    let made = MadeView {
        name: Words::label(&record.name),
        text: text.expose().to_owned(),
    };
    show(&app, &signed_in, Made::Key(made)).await
}

fn no_key(why: &str) -> Problem {
    Problem::of_sign_in(
        StatusCode::BAD_REQUEST,
        "no-such-key",
        "No key was made",
        why.to_owned(),
    )
    .with_way("/account", "Your keys")
}

/// `POST /account/keys/{id}/revoke`
pub(crate) async fn revoke_key(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let form = Query::of_form(&body);
    let signed_in = checked_form(&app, &headers, form.value("csrf")).await?;
    // A key that is gone already, or somebody else's, changes nothing: the page shows how things stand.
    if app
        .store
        .revoke_key(&id, Some(signed_in.account.id), app.now())
        .await?
    {
        app.access.keys.forget(&id);
    }
    Ok(unkept(Redirect::to("/account#keys")))
}

/// `POST /account/feed-path`: in the place of the one that there is.
pub(crate) async fn make_feed_path(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let form = Query::of_form(&body);
    let signed_in = checked_form(&app, &headers, form.value("csrf")).await?;
    let token = FeedToken::generate().map_err(|error| Problem::internal(&error))?;
    app.store
        .set_feed_path(signed_in.account.id, token.hash(), app.now())
        .await?;
    show(&app, &signed_in, Made::FeedPath(token)).await
}

/// `POST /account/feed-path/end`
pub(crate) async fn end_feed_path(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let form = Query::of_form(&body);
    let signed_in = checked_form(&app, &headers, form.value("csrf")).await?;
    app.store.revoke_feed_path(signed_in.account.id).await?;
    Ok(unkept(Redirect::to("/account#feeds")))
}

/// `POST /account/sessions/end`: this one too.
pub(crate) async fn end_sessions(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let form = Query::of_form(&body);
    let signed_in = checked_form(&app, &headers, form.value("csrf")).await?;
    app.store.end_sessions(signed_in.account.id).await?;
    Ok(unkept(Redirect::to("/login")))
}
