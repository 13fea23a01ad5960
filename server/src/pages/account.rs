//! One's own account: who one is here, one's keys, and the browsers that are signed in.
//!
//! Invariant: a key is shown whole once, on the answer to the form that made it; everything here is the reader's own.

use askama::Template;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{Redirect, Response};
use mcpindex_store::accounts::{KeyRecord, Role, Scope, Scopes};
use mcpindex_store::signals::Network;

use super::sign_in::{OwnForm, at_its_name, sign_in_first, unkept};
use super::{Frame, page};
use crate::access::Read;
use crate::access::feed_path::FeedToken;
use crate::access::issue::{USUAL_DAYS, Wish, rotate};
use crate::api::keys::may_make;
use crate::app::App;
use crate::links;
use crate::login::key::{issued, no_key, not_issued};
use crate::login::session::{SignedIn, signed_in};
use crate::problem::Problem;
use crate::when::{DAY, When, when};
use crate::words::Words;

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
    is_approver: bool,
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
    /// The key whose place it takes, and when that one ends.
    replaces: Option<(String, Option<When>)>,
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
    created_from: Option<String>,
    used: Option<DayView>,
    used_from: Option<String>,
    expires: Option<When>,
    /// How it stands, where that is not plain from what can be done with it: `revoked`, `expired`, `replaced`.
    state: Option<&'static str>,
    works: bool,
    /// The key that it was made with, as it is shown.
    made_by: Option<String>,
    /// Whether a key was made with it that works.
    has_made: bool,
    id: String,
    can_rotate: bool,
    revoke: String,
}

/// A day, of which no hour is known.
struct DayView {
    /// `2026-11-30`
    iso: String,
    /// `30 Nov 2026`
    text: String,
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
    let keys = app.store.keys_of(account.id, now).await?;
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
        is_approver: account.role != Role::Member,
        made,
        feeds,
        keys: keys.iter().map(|key| KeyView::new(key, &keys, now)).collect(),
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
    fn new(key: &KeyRecord, all: &[KeyRecord], now: i64) -> KeyView {
        let works = key.works(now);
        let made_by = key.made_by.as_ref();
        let has_made = |other: &KeyRecord| other.works(now) && other.made_by.as_ref() == Some(&key.id);
        KeyView {
            name: Words::label(&key.name),
            shown: key.shown.clone(),
            scopes: key.scopes.to_string(),
            created: when(key.created_at, now),
            created_from: key.created_from.as_ref().map(Network::shown),
            used: key.last_used_on.and_then(DayView::new),
            used_from: key.last_used_from.as_ref().map(Network::shown),
            expires: key.expires_at.and_then(|at| when(at, now)),
            state: match (works, key.revoked_at) {
                (true, _) => key.replaced_by.is_some().then_some("replaced"),
                (false, Some(_)) => Some("revoked"),
                (false, None) => Some("expired"),
            },
            works,
            made_by: made_by
                .and_then(|id| all.iter().find(|key| key.id == *id))
                .map(|key| key.shown.clone()),
            has_made: all.iter().any(has_made),
            id: key.id.clone(),
            can_rotate: works && key.replaced_by.is_none(),
            revoke: format!("/account/keys/{}/revoke", links::segment(&key.id)),
        }
    }
}

impl DayView {
    /// Of days since 1970-01-01.
    fn new(day: i64) -> Option<DayView> {
        let midnight = day.saturating_mul(DAY);
        let When { iso, text, .. } = when(midnight, midnight)?;
        let date = |text: String, end: char| text.split(end).next().map(str::to_owned);
        Some(DayView {
            iso: date(iso, 'T')?,
            text: date(text, ',')?,
        })
    }
}

/// `GET /account/keys`: the address that the browser shows beside a new key, which somebody may load again.
pub(crate) async fn to_account() -> Response {
    unkept(Redirect::to("/account#keys"))
}

/// `POST /account/keys`: a new key, or one that `replaces` another.
pub(crate) async fn create_key(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    may_make(&app, form.signed_in.account.id)?;
    if let Some(id) = form.fields.value("replaces") {
        return rotate_key(&app, &form.signed_in, id, Network::of(form.address)).await;
    }
    let chosen = Scope::ALL
        .into_iter()
        .filter(|scope| form.fields.value(scope.name()).is_some());
    let chosen: Vec<Scope> = chosen.collect();
    let days = match form.fields.value("days") {
        None => None,
        Some(days) => {
            let no_number = |_| no_key("the days are no number");
            Some(days.parse().map_err(no_number)?)
        }
    };
    let wish = Wish {
        name: form.fields.value("name").unwrap_or_default().trim().to_owned(),
        scopes: Scopes::of(&chosen),
        days,
        ends_by: None,
        made_by: None,
    };
    let (text, record) = issued(&app, &form.signed_in.account, &wish, form.address).await?;
    let made = MadeView {
        name: Words::label(&record.name),
        text: text.expose().to_owned(),
        replaces: None,
    };
    show(&app, &form.signed_in, Made::Key(made)).await
}

/// As the API's rotation, but for a full life again: a person asks, not a key that ends.
async fn rotate_key(
    app: &App,
    signed_in: &SignedIn,
    id: &str,
    network: Network,
) -> Result<Response, Problem> {
    let now = app.now();
    let rotated = rotate(&app.store, &signed_in.account, id, None, network, now).await;
    // It ends sooner than is remembered of it.
    app.access.keys.forget(id);
    let (text, record) = rotated.map_err(not_issued)?.ok_or_else(|| {
        no_key(
            "the key to replace has ended, or another has taken its place already; your keys show which one",
        )
    })?;
    let old = app.store.key(id, signed_in.account.id).await?;
    let made = MadeView {
        name: Words::label(&record.name),
        text: text.expose().to_owned(),
        replaces: old.map(|old| (old.shown, old.expires_at.and_then(|at| when(at, now)))),
    };
    show(app, signed_in, Made::Key(made)).await
}

/// `POST /account/keys/{id}/revoke`
pub(crate) async fn revoke_key(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    // A key that is gone already, or somebody else's, changes nothing: the page shows how things stand.
    let (account, now) = (Some(form.signed_in.account.id), app.now());
    if form.fields.value("made").is_some() {
        app.store.revoke_key_and_made(&id, account, now).await?;
        app.access.keys.forget_all();
    } else if app.store.revoke_key(&id, account, now).await? {
        app.access.keys.forget(&id);
    }
    Ok(unkept(Redirect::to("/account#keys")))
}

/// `POST /account/feed-path`: in the place of the one that there is.
pub(crate) async fn make_feed_path(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    let token = FeedToken::generate().map_err(|error| Problem::internal(&error))?;
    let account = form.signed_in.account.id;
    app.store.set_feed_path(account, token.hash(), app.now()).await?;
    show(&app, &form.signed_in, Made::FeedPath(token)).await
}

/// `POST /account/feed-path/end`
pub(crate) async fn end_feed_path(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    app.store.revoke_feed_path(form.signed_in.account.id).await?;
    Ok(unkept(Redirect::to("/account#feeds")))
}

/// `POST /account/sessions/end`: this one too.
pub(crate) async fn end_sessions(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    app.store.end_sessions(form.signed_in.account.id).await?;
    Ok(unkept(Redirect::to("/login")))
}
