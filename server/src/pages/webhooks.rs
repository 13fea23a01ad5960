//! Webhooks for admins: made, tested and removed, with what became of their latest deliveries.
//!
//! Invariant: nothing is shown or changed here but for an admin who is signed in; a secret is on one answer, the one to the form that
//! made the webhook.

use askama::Template;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Redirect, Response};
use mcpindex_store::accounts::Role;
use mcpindex_store::webhooks::{Delivery, Event, Form, Severity, Webhook};
use secrecy::ExposeSecret as _;

use super::sign_in::{OwnForm, at_its_name, sign_in_first, unkept};
use super::{Frame, page};
use crate::api::webhooks::{sending, state};
use crate::app::App;
use crate::links;
use crate::login::session::{SignedIn, signed_in};
use crate::problem::Problem;
use crate::webhooks::WebhookError;
use crate::webhooks::target::Wish;
use crate::when::{When, when};
use crate::words::Words;

/// Webhooks that are shown, the oldest first; all are on the shell and in the API.
const MOST: usize = 100;
/// Deliveries that are shown of each webhook.
const SHOWN: i64 = 10;

#[derive(Template)]
#[template(path = "webhooks.html")]
struct WebhooksPage {
    frame: Frame,
    csrf: String,
    is_on: bool,
    /// A webhook that was just made, and its secret; shown this once.
    made: Option<MadeView>,
    webhooks: Vec<WebhookView>,
    left_out: usize,
}

struct MadeView {
    name: Words,
    secret: Option<String>,
}

struct WebhookView {
    id: String,
    name: Words,
    form: &'static str,
    destination: Words,
    about: Words,
    severity: &'static str,
    untrusted: bool,
    waiting: i64,
    test: String,
    remove: String,
    deliveries: Vec<DeliveryView>,
}

struct DeliveryView {
    event: &'static str,
    drift: Option<String>,
    state: &'static str,
    attempts: i64,
    at: Option<When>,
    next: Option<When>,
    error: Option<Words>,
}

fn only_admins() -> Problem {
    Problem::of_sign_in(
        StatusCode::FORBIDDEN,
        "not-an-admin",
        "This is for admins",
        "webhooks are made by admins; `mcpindex-server admin make-admin` makes one".to_owned(),
    )
    .with_way("/account", "Your account")
}

fn admin(signed_in: SignedIn) -> Result<SignedIn, Problem> {
    match signed_in.account.role {
        Role::Admin => Ok(signed_in),
        Role::Member | Role::Approver => Err(only_admins()),
    }
}

/// `GET /admin/webhooks`
pub(crate) async fn webhooks(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    match signed_in(&app, &headers).await? {
        Some(signed_in) => show(&app, &admin(signed_in)?, None).await,
        None => Ok(sign_in_first(&app, "/admin/webhooks", None)),
    }
}

async fn show(app: &App, signed_in: &SignedIn, made: Option<MadeView>) -> Result<Response, Problem> {
    let now = app.now();
    let mut webhooks = Vec::new();
    let all = app.store.webhooks().await?;
    let left_out = all.len().saturating_sub(MOST);
    for webhook in all.into_iter().take(MOST) {
        let deliveries = app.store.deliveries(&webhook.wish.id, None, SHOWN).await?;
        webhooks.push(WebhookView::new(webhook, &deliveries, now));
    }
    let page = page(&WebhooksPage {
        frame: Frame::new(app, "account"),
        csrf: signed_in.csrf().to_owned(),
        is_on: app.webhooks.as_ref().is_some_and(|webhooks| webhooks.is_on()),
        made,
        webhooks,
        left_out,
    })?;
    Ok(unkept(page))
}

impl WebhookView {
    fn new(webhook: Webhook, deliveries: &[Delivery], now: i64) -> WebhookView {
        let wish = webhook.wish;
        let path = |act: &str| format!("/admin/webhooks/{}/{act}", links::segment(&wish.id));
        let about = match wish.servers.as_slice() {
            [] => "every server".to_owned(),
            servers => servers.join(", "),
        };
        WebhookView {
            name: Words::label(&wish.name),
            form: wish.form.name(),
            destination: Words::label(&wish.destination),
            about: Words::label(&about),
            severity: wish.severity.name(),
            untrusted: wish.untrusted,
            waiting: webhook.waiting,
            test: path("test"),
            remove: path("remove"),
            id: wish.id,
            deliveries: deliveries
                .iter()
                .map(|delivery| DeliveryView {
                    event: delivery.event.name(),
                    drift: match delivery.event {
                        Event::Drift(id) => Some(links::drift_page(id)),
                        _ => None,
                    },
                    state: state(delivery),
                    attempts: delivery.attempts,
                    at: delivery
                        .attempted_at
                        .or(Some(delivery.created_at))
                        .and_then(|at| when(at, now)),
                    next: delivery
                        .due
                        .filter(|_| !delivery.under_way)
                        .and_then(|at| when(at, now)),
                    error: delivery.error.as_deref().map(Words::label),
                })
                .collect(),
        }
    }
}

fn not_made(error: WebhookError) -> Problem {
    match error {
        WebhookError::Wish(detail) => Problem::of_sign_in(
            StatusCode::BAD_REQUEST,
            "no-such-webhook",
            "No webhook was made",
            detail,
        )
        .with_way("/admin/webhooks", "Webhooks"),
        WebhookError::Here(detail) => Problem::internal(&detail),
        WebhookError::Store(error) => error.into(),
    }
}

/// `POST /admin/webhooks`
pub(crate) async fn create(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let OwnForm {
        signed_in,
        fields: form,
        ..
    } = OwnForm::of(&app, request).await?;
    let signed_in = admin(signed_in)?;
    let wrong = |what: &str| not_made(WebhookError::Wish(format!("expected {what}")));
    let servers = form.value("servers").unwrap_or_default();
    let wish = Wish {
        name: form.value("name").unwrap_or_default().to_owned(),
        form: form
            .value("form")
            .and_then(Form::from_name)
            .ok_or_else(|| wrong("a form"))?,
        destination: form.value("destination").unwrap_or_default().to_owned(),
        severity: form
            .value("severity")
            .map_or(Some(Severity::All), Severity::from_name)
            .ok_or_else(|| wrong("which drifts"))?,
        servers: servers.split_whitespace().map(str::to_owned).collect(),
        untrusted: form.value("untrusted").is_some(),
    };
    let (webhook, secret) = sending(&app)?
        .add(wish, &signed_in.account.who(), app.now())
        .await
        .map_err(not_made)?;
    let made = MadeView {
        name: Words::label(&webhook.wish.name),
        secret: secret.map(|secret| secret.expose_secret().to_owned()),
    };
    show(&app, &signed_in, Some(made)).await
}

/// `POST /admin/webhooks/{id}/test`
pub(crate) async fn test(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    admin(OwnForm::of(&app, request).await?.signed_in)?;
    // What came of it stands in the log.
    sending(&app)?.test(&id, app.now()).await.map_err(not_made)?;
    back(&id)
}

/// `POST /admin/webhooks/{id}/remove`: one that is gone already changes nothing.
pub(crate) async fn remove(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let by = admin(OwnForm::of(&app, request).await?.signed_in)?.account.who();
    app.store.remove_webhook(&id, &by, app.now()).await?;
    Ok(unkept(Redirect::to("/admin/webhooks")))
}

fn back(id: &str) -> Result<Response, Problem> {
    Ok(unkept(Redirect::to(&format!(
        "/admin/webhooks#{}",
        links::segment(id)
    ))))
}
