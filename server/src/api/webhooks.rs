//! Webhooks over the API: made, listed, tested, removed, and what became of their deliveries; with a key of the scope `admin`.
//!
//! Invariant: a webhook's secret is in one answer, the one that makes it.

use axum::extract::{Path, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use mcpindex_store::webhooks::{Delivery, Form, Redelivery, Severity, Webhook};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::keys::holder;
use super::{Page, body_of};
use crate::access::Caller;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::query::Query;
use crate::webhooks::target::Wish;
use crate::webhooks::{WebhookError, Webhooks};
use crate::when::rfc3339;

const WISH: &str = "`{\"name\": TEXT, \"form\": \"json\", \"slack\" or \"github-issue\", \"destination\": URL or OWNER/REPOSITORY, \
                    \"severity\": \"all\" or \"safety-relevant\", \"servers\": [IDENTITY or BEGINNING*], \"untrusted\": false}`";

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookBody {
    id: String,
    name: String,
    /// `json`, `slack` or `github-issue`.
    form: &'static str,
    /// A URL, in which `{secret:NAME}` stands for a secret of the server's settings; or `owner/repository`.
    destination: String,
    /// `all` or `safety-relevant`.
    severity: &'static str,
    /// Identities, or their beginnings with `*` behind them; none: every server.
    servers: Vec<String>,
    /// Whether the servers' own words go along, in members named `untrusted_…`.
    untrusted: bool,
    created_at: Option<String>,
    created_by: String,
    /// Deliveries that wait, or are under way.
    waiting: i64,
}

/// All webhooks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhooksBody {
    webhooks: Vec<WebhookBody>,
}

/// A webhook that was made, and the only answer that has its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewWebhookBody {
    /// What deliveries are signed with (Standard Webhooks); null where nothing is signed.
    secret: Option<String>,
    webhook: WebhookBody,
}

/// A webhook that is asked for.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookWishBody {
    #[schema(min_length = 1)]
    name: String,
    #[schema(pattern = "^(json|slack|github-issue)$")]
    form: String,
    #[schema(min_length = 1)]
    destination: String,
    /// Left out, it is `all`.
    #[schema(pattern = "^(all|safety-relevant)$")]
    severity: Option<String>,
    #[serde(default)]
    servers: Vec<String>,
    #[serde(default)]
    untrusted: bool,
}

/// One event on its way to one webhook, or what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryBody {
    /// The same at each attempt (`webhook-id`).
    id: String,
    /// Its place in the log.
    number: i64,
    /// `drift`, `decision` or `test`.
    event: &'static str,
    /// The number of the drift, or of the decision; 0 for a test.
    subject: i64,
    /// `waiting`, `under-way`, `delivered` or `gave-up`.
    state: &'static str,
    created_at: Option<String>,
    attempts: i64,
    attempted_at: Option<String>,
    /// When it is tried next.
    next_attempt_at: Option<String>,
    /// The HTTP status of the last attempt.
    status: Option<u16>,
    /// What was wrong with it.
    error: Option<String>,
}

pub(crate) fn webhook_body(webhook: Webhook) -> WebhookBody {
    let wish = webhook.wish;
    WebhookBody {
        id: wish.id,
        name: wish.name,
        form: wish.form.name(),
        destination: wish.destination,
        severity: wish.severity.name(),
        servers: wish.servers,
        untrusted: wish.untrusted,
        created_at: rfc3339(webhook.created_at),
        created_by: wish.created_by,
        waiting: webhook.waiting,
    }
}

/// `waiting`, `under-way`, `delivered` or `gave-up`.
pub(crate) fn state(delivery: &Delivery) -> &'static str {
    match delivery.outcome {
        Some(outcome) => outcome.name(),
        None if delivery.under_way => "under-way",
        None => "waiting",
    }
}

pub(crate) fn delivery_body(delivery: &Delivery) -> DeliveryBody {
    DeliveryBody {
        id: delivery.id.clone(),
        number: delivery.number,
        event: delivery.event.name(),
        subject: delivery.event.subject(),
        state: state(delivery),
        created_at: rfc3339(delivery.created_at),
        attempts: delivery.attempts,
        attempted_at: delivery.attempted_at.and_then(rfc3339),
        next_attempt_at: delivery.due.filter(|_| !delivery.under_way).and_then(rfc3339),
        status: delivery.status,
        error: delivery.error.clone(),
    }
}

impl WebhookWishBody {
    fn read(self) -> Result<Wish, Problem> {
        let severity = self
            .severity
            .as_deref()
            .map_or(Some(Severity::All), Severity::from_name);
        let (Some(form), Some(severity)) = (Form::from_name(&self.form), severity) else {
            return Err(Problem::bad_body(WISH));
        };
        Ok(Wish {
            name: self.name,
            form,
            destination: self.destination,
            severity,
            servers: self.servers,
            untrusted: self.untrusted,
        })
    }
}

pub(crate) fn sending(app: &App) -> Result<&Webhooks, Problem> {
    app.webhooks
        .as_deref()
        .ok_or_else(|| Problem::unavailable("this server sends no webhooks"))
}

pub(crate) fn refused(error: WebhookError) -> Problem {
    match error {
        WebhookError::Wish(detail) => Problem::bad_body(&format!("{WISH}; {detail}")),
        WebhookError::Here(detail) => Problem::internal(&detail),
        WebhookError::Store(error) => error.into(),
    }
}

fn unknown(id: &str) -> Problem {
    Problem::unknown(
        "unknown-webhook",
        "No such webhook",
        format!(
            "no webhook has the id `{}`; `/api/v1/webhooks` lists them",
            id.chars().take(60).collect::<String>().escape_debug()
        ),
    )
}

async fn known(app: &App, id: &str) -> Result<Webhook, Problem> {
    app.store.webhook(id).await?.ok_or_else(|| unknown(id))
}

/// All webhooks.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks",
    tag = "webhooks",
    security(("key" = [])),
    responses((status = 200, body = WebhooksBody))
)]
pub(crate) async fn list(State(app): State<App>) -> Result<Json<WebhooksBody>, Problem> {
    let webhooks = app.store.webhooks().await?;
    Ok(Json(WebhooksBody {
        webhooks: webhooks.into_iter().map(webhook_body).collect(),
    }))
}

/// Makes a webhook, which is told of what happens from now on. This answer alone has its secret.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks",
    tag = "webhooks",
    security(("key" = [])),
    request_body = WebhookWishBody,
    responses(
        (status = 201, body = NewWebhookBody),
        (status = 413, description = "More than 64 KiB"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let by = holder(&caller)?.account.who();
    let wish: WebhookWishBody = body_of(request, WISH).await?;
    let (webhook, secret) = sending(&app)?
        .add(wish.read()?, &by, app.now())
        .await
        .map_err(refused)?;
    let body = NewWebhookBody {
        secret: secret.map(|secret| secret.expose_secret().to_owned()),
        webhook: webhook_body(webhook),
    };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)).into_response())
}

/// Removes a webhook with its log and what waits for it.
#[utoipa::path(
    delete,
    path = "/api/v1/webhooks/{id}",
    tag = "webhooks",
    security(("key" = [])),
    params(("id" = String, Path, description = "`hook_…`")),
    responses(
        (status = 204, description = "It is told no more"),
        (status = 404, description = "No such webhook"),
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let by = holder(&caller)?.account.who();
    match app.store.remove_webhook(&id, &by, app.now()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown(&id)),
    }
}

/// Sends a test to a webhook now, and says what came of it.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/{id}/test",
    tag = "webhooks",
    security(("key" = [])),
    params(("id" = String, Path, description = "`hook_…`")),
    responses(
        (status = 200, body = DeliveryBody, description = "What came of it, well or not"),
        (status = 404, description = "No such webhook"),
    )
)]
pub(crate) async fn test(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<DeliveryBody>, Problem> {
    let delivery = sending(&app)?.test(&id, app.now()).await.map_err(refused)?;
    let delivery = delivery.ok_or_else(|| unknown(&id))?;
    Ok(Json(delivery_body(&delivery)))
}

/// What became of a webhook's deliveries, newest first: the last 200, for 30 days, and what waits.
#[utoipa::path(
    get,
    path = "/api/v1/webhooks/{id}/deliveries",
    tag = "webhooks",
    security(("key" = [])),
    params(
        ("id" = String, Path, description = "`hook_…`"),
        ("before" = Option<i64>, Query, minimum = 1, description = "The last delivery of the page before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 500, description = "Deliveries on a page; 100"),
    ),
    responses(
        (status = 200, body = Page<DeliveryBody>),
        (status = 404, description = "No such webhook"),
    )
)]
pub(crate) async fn deliveries(
    State(app): State<App>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Page<DeliveryBody>>, Problem> {
    let query = Query::strict(&uri, &["before", "limit"])?;
    let limit = query.limit()?;
    known(&app, &id).await?;
    let rows = app
        .store
        .deliveries(&id, query.before("before")?, limit + 1)
        .await?;
    let next = |last: &Delivery| {
        let parameters = [
            ("before", Some(last.number.to_string())),
            ("limit", Some(limit.to_string())),
        ];
        let path = format!("/api/v1/webhooks/{}/deliveries", links::segment(&id));
        links::with_query(&path, &parameters)
    };
    Ok(Json(Page::cut(rows, limit, next, delivery_body)))
}

/// Makes a delivery again, under the same id.
#[utoipa::path(
    post,
    path = "/api/v1/webhooks/{id}/deliveries/{delivery}/redeliver",
    tag = "webhooks",
    security(("key" = [])),
    params(
        ("id" = String, Path, description = "`hook_…`"),
        ("delivery" = String, Path, description = "`msg_…`"),
    ),
    responses(
        (status = 202, body = DeliveryBody, description = "It is due now"),
        (status = 404, description = "No such delivery (any more)"),
        (status = 409, description = "It is under way"),
    )
)]
pub(crate) async fn redeliver(
    State(app): State<App>,
    Path((id, delivery)): Path<(String, String)>,
) -> Result<Response, Problem> {
    known(&app, &id).await?;
    let gone = || {
        Problem::unknown(
            "unknown-delivery",
            "No such delivery",
            "no delivery of this webhook has this id (any more)".to_owned(),
        )
    };
    match app.store.redeliver(&id, &delivery, app.now()).await? {
        Redelivery::Unknown => Err(gone()),
        Redelivery::UnderWay => Err(Problem::conflict(
            "the delivery is under way; look again in a minute".to_owned(),
        )),
        Redelivery::Due => {
            let delivery = app.store.delivery(&id, &delivery).await?.ok_or_else(gone)?;
            Ok((StatusCode::ACCEPTED, Json(delivery_body(&delivery))).into_response())
        }
    }
}
