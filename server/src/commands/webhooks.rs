//! `admin webhooks`: who outside is told, from the server's shell.
//!
//! Invariant: a secret is printed once, by the command that makes the webhook.

use mcpindex_store::Store;
use mcpindex_store::audit::SHELL;
use mcpindex_store::webhooks::{Delivery, Redelivery, Webhook};
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::{now, serve};
use crate::api::webhooks::{delivery_body, state, webhook_body};
use crate::args::{AddWebhook, AdminWebhooks};
use crate::config::Settings;
use crate::exit::Failure;
use crate::output::{self, Ink};
use crate::webhooks::target::Wish;
use crate::webhooks::{WebhookError, Webhooks};
use crate::when::rfc3339;

/// Deliveries that are listed.
const LISTED: i64 = 50;

/// Does it and says what was done.
pub(super) async fn run(settings: &Settings, store: &Store, command: AdminWebhooks) -> anyhow::Result<()> {
    let base = serve::base(settings, settings.server.listen)?;
    let webhooks = serve::webhooks(settings, store, &base)?;
    match command {
        AdminWebhooks::List { json } => list(store, json).await,
        AdminWebhooks::Add(add) => make(&webhooks, add).await,
        AdminWebhooks::Remove { id } => match store.remove_webhook(&id, SHELL, now()).await? {
            true => Ok(output::plain(&format!("{id} is told no more"))?),
            false => Err(unknown(&id).into()),
        },
        AdminWebhooks::Test { id, json } => test(&webhooks, &id, json).await,
        AdminWebhooks::Deliveries { id, json } => deliveries(store, &id, json).await,
        AdminWebhooks::Redeliver { id, delivery } => redeliver(store, &id, &delivery).await,
    }
}

fn unknown(id: &str) -> Failure {
    Failure::Usage(format!(
        "there is no webhook `{id}`; `admin webhooks list` shows their ids"
    ))
}

fn failed(error: WebhookError) -> anyhow::Error {
    match error {
        WebhookError::Wish(detail) => Failure::Usage(format!("no webhook was made: {detail}")).into(),
        WebhookError::Here(detail) => anyhow::anyhow!("{detail}"),
        WebhookError::Store(error) => error.into(),
    }
}

async fn list(store: &Store, as_json: bool) -> anyhow::Result<()> {
    let webhooks = store.webhooks().await?;
    if as_json {
        let webhooks: Vec<_> = webhooks.into_iter().map(webhook_body).collect();
        return Ok(output::json(&json!({ "webhooks": webhooks }))?);
    }
    if webhooks.is_empty() {
        output::plain("there are no webhooks; `admin webhooks add` makes one")?;
    }
    for webhook in &webhooks {
        output::line(&line(webhook))?;
    }
    Ok(())
}

fn line(webhook: &Webhook) -> Vec<(Ink, String)> {
    let wish = &webhook.wish;
    let about = match wish.servers.as_slice() {
        [] => "every server".to_owned(),
        servers => servers.join(", "),
    };
    let mut line = vec![
        (Ink::Strong, wish.id.clone()),
        (
            Ink::Plain,
            format!("  {}  {}  {}", wish.name, wish.form.name(), wish.destination),
        ),
        (Ink::Dim, format!("  {about}, {}", wish.severity.name())),
    ];
    if webhook.waiting > 0 {
        line.push((Ink::Warn, format!("  {} waiting", webhook.waiting)));
    }
    line
}

async fn make(webhooks: &Webhooks, add: AddWebhook) -> anyhow::Result<()> {
    let wish = Wish {
        name: add.name,
        form: add.form,
        destination: add.destination,
        severity: add.severity,
        servers: add.servers,
        untrusted: add.untrusted,
    };
    let (webhook, secret) = webhooks.add(wish, SHELL, now()).await.map_err(failed)?;
    if add.json {
        let secret = secret.as_ref().map(secrecy::ExposeSecret::expose_secret);
        return Ok(output::json(
            &json!({ "secret": secret, "webhook": webhook_body(webhook) }),
        )?);
    }
    output::line(&line(&webhook))?;
    if let Some(secret) = secret {
        output::line(&[
            (Ink::Dim, "secret  ".to_owned()),
            (Ink::Plain, secret.expose_secret().to_owned()),
        ])?;
        output::plain("it is shown this once; the receiver checks signatures with it (Standard Webhooks)")?;
    }
    Ok(output::plain(&format!(
        "`mcpindex-server admin webhooks test {}` shows whether it works",
        webhook.wish.id
    ))?)
}

async fn test(webhooks: &Webhooks, id: &str, as_json: bool) -> anyhow::Result<()> {
    let delivery = webhooks.test(id, now()).await.map_err(failed)?;
    let delivery = delivery.ok_or_else(|| unknown(id))?;
    if as_json {
        output::json(&delivery_body(&delivery))?;
    } else {
        output::line(&delivery_line(&delivery))?;
    }
    match &delivery.error {
        None => Ok(()),
        Some(error) => Err(anyhow::anyhow!(
            "the test did not arrive: {error}; it is tried again by a server that runs"
        )),
    }
}

fn delivery_line(delivery: &Delivery) -> Vec<(Ink, String)> {
    let state = state(delivery);
    let ink = match state {
        "delivered" => Ink::Good,
        "gave-up" => Ink::Bad,
        _ => Ink::Warn,
    };
    let mut line = vec![
        (Ink::Strong, delivery.id.clone()),
        (ink, format!("  {state:<9}")),
        (Ink::Plain, format!("  {}", delivery.event.name())),
    ];
    if delivery.event.subject() > 0 {
        line.push((Ink::Plain, format!(" {}", delivery.event.subject())));
    }
    let plural = if delivery.attempts == 1 { "" } else { "s" };
    line.push((Ink::Dim, format!("  {} attempt{plural}", delivery.attempts)));
    if let Some(at) = delivery.attempted_at.and_then(rfc3339) {
        line.push((Ink::Dim, format!(", the last at {at}")));
    }
    match (&delivery.error, delivery.status) {
        (Some(error), _) => line.push((Ink::Plain, format!("  {error}"))),
        (None, Some(status)) => line.push((Ink::Plain, format!("  HTTP {status}"))),
        (None, None) => {}
    }
    line
}

async fn deliveries(store: &Store, id: &str, as_json: bool) -> anyhow::Result<()> {
    store.webhook(id).await?.ok_or_else(|| unknown(id))?;
    let log = store.deliveries(id, None, LISTED).await?;
    if as_json {
        let log: Vec<_> = log.iter().map(delivery_body).collect();
        return Ok(output::json(&json!({ "deliveries": log }))?);
    }
    if log.is_empty() {
        output::plain("nothing was sent yet")?;
    }
    for delivery in &log {
        output::line(&delivery_line(delivery))?;
    }
    Ok(())
}

async fn redeliver(store: &Store, id: &str, delivery: &str) -> anyhow::Result<()> {
    store.webhook(id).await?.ok_or_else(|| unknown(id))?;
    match store.redeliver(id, delivery, now()).await? {
        Redelivery::Due => Ok(output::plain(
            "it is due now; a server that runs sends it within seconds",
        )?),
        Redelivery::UnderWay => {
            Err(Failure::Usage("it is under way; look again in a minute".to_owned()).into())
        }
        Redelivery::Unknown => Err(Failure::Usage(format!(
            "the webhook has no delivery `{delivery}` (any more); `admin webhooks deliveries {id}` lists them"
        ))
        .into()),
    }
}
