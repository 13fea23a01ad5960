//! Who outside is told of what happens here: webhooks, signed, tried again until they arrive, kept in a log.
//!
//! Below it `settings` is what can be set, `target` what may be asked for, `key` what signs; `event` is what a delivery tells, in the
//! forms `json`, `slack` and `issue`; `courier` makes one attempt, `sender` all that are due.
//!
//! Invariant: an event that a target is about arrives at least once, under one id, or its log says why not; it can't be promised to
//! arrive exactly once, since a receiver may take what we never hear the answer to.

mod courier;
mod event;
mod issue;
mod json;
mod key;
mod sender;
pub mod settings;
mod slack;
pub(crate) mod target;

use std::path::Path;
use std::sync::Arc;

use mcpindex::clock::Clock;
use mcpindex_crawler::guarded_client::{AllowedHost, GuardedClient};
use mcpindex_store::webhooks::{Delivery, Form, NewWebhook, Webhook};
use mcpindex_store::{Store, StoreError};
use secrecy::SecretString;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use courier::Courier;
use issue::{Github, Token};
use key::KeyFile;
use sender::Sender;
use settings::WebhookSettings;
use target::{Destination, Wish, checked};

/// What hosts are listed under, in words for people.
const LIST: &str = "[webhooks] hosts";

/// Webhooks as handlers and commands use them.
pub struct Webhooks {
    courier: Arc<Courier>,
    client: Arc<GuardedClient>,
    at_once: usize,
    has_hosts: bool,
}

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    /// It is for whoever asked to mend; the words say how.
    #[error("{0}")]
    Wish(String),
    /// The server's key, or its random numbers, can't be had.
    #[error("{0}")]
    Here(String),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Webhooks {
    /// By these settings. Networks are those that the crawler may go to as well; plain http goes nowhere else. Errors are one line, and
    /// about the settings.
    pub fn new(
        store: &Store,
        clock: Arc<dyn Clock>,
        base: &Url,
        settings: &WebhookSettings,
        networks: &[String],
        data: &Path,
    ) -> Result<Webhooks, String> {
        let token = match (&settings.github_token, &settings.github_token_file) {
            (Some(_), Some(_)) => {
                return Err("[webhooks] has both github_token and github_token_file: keep one".to_owned());
            }
            (Some(token), None) => Some(Token::Text(token.clone())),
            (None, Some(file)) => Some(Token::File(file.clone())),
            (None, None) => None,
        };
        let github = token
            .map(|token| Github::new(settings.github_api_url.clone(), token))
            .transpose()?;
        let mut hosts = settings.hosts.clone();
        // Whoever gives a token has said where it goes.
        hosts.extend(github.as_ref().and_then(|github| AllowedHost::of(github.api())));
        let client = Arc::new(GuardedClient::new(networks, false)?.only(LIST, hosts));
        Ok(Webhooks {
            courier: Arc::new(Courier {
                store: store.clone(),
                clock,
                client: Arc::<GuardedClient>::clone(&client),
                base: base.clone(),
                key: KeyFile::new(settings.key_file.clone(), data),
                secrets: settings.secrets.clone(),
                github,
            }),
            client,
            at_once: settings.at_once,
            has_hosts: !settings.hosts.is_empty(),
        })
    }

    /// Whether the settings name any host that can be told.
    pub fn is_on(&self) -> bool {
        self.has_hosts || self.courier.github.is_some()
    }

    /// Begins to send, until `stop`.
    pub fn start(&self, stop: CancellationToken) -> JoinHandle<()> {
        let sender = Sender::new(
            Arc::clone(&self.courier),
            self.at_once,
            format!("server {}", std::process::id()),
        );
        tokio::spawn(sender.run(stop))
    }

    /// Makes a webhook; gives it with its secret, which is shown this once (`None` where nothing is signed).
    pub(crate) async fn add(
        &self,
        wish: Wish,
        created_by: &str,
        now: i64,
    ) -> Result<(Webhook, Option<SecretString>), WebhookError> {
        let wish = checked(wish).map_err(WebhookError::Wish)?;
        match wish.form {
            Form::Json | Form::Slack => {
                let destination = Destination::read(&wish.destination).map_err(WebhookError::Wish)?;
                let url = destination.sample().map_err(WebhookError::Wish)?;
                self.client.check(&url).map_err(|refused| {
                    WebhookError::Wish(format!(
                        "{refused}; deliveries go to hosts of {LIST} alone, to private addresses and over plain http only in \
                         [crawl] allow_networks"
                    ))
                })?;
            }
            Form::GithubIssue if self.courier.github.is_none() => {
                return Err(WebhookError::Wish(
                    "issues need a token: set [webhooks] github_token or github_token_file".to_owned(),
                ));
            }
            Form::GithubIssue => {}
        }
        let id = random("hook_", 8)?;
        let (key_check, secret) = match wish.form {
            Form::Json => {
                let key = self.courier.key.key().map_err(WebhookError::Here)?;
                (key.check(), Some(key.secret_of(&id).text()))
            }
            Form::Slack | Form::GithubIssue => (String::new(), None),
        };
        let new = NewWebhook {
            id,
            name: wish.name,
            form: wish.form,
            destination: wish.destination,
            severity: wish.severity,
            servers: wish.servers,
            untrusted: wish.untrusted,
            key_check,
            created_by: created_by.to_owned(),
        };
        let made = self.courier.store.add_webhook(&new, now).await;
        let made = made.map_err(|error| match error {
            StoreError::Refused { what } => WebhookError::Wish(what),
            error => error.into(),
        })?;
        Ok((made, secret))
    }

    /// Sends a test to this webhook, now, and gives its place in the log as it stands then; `None`: there is no such webhook.
    pub(crate) async fn test(&self, webhook: &str, now: i64) -> Result<Option<Delivery>, WebhookError> {
        let store = &self.courier.store;
        let id = random("msg_", 16)?;
        if !store.add_test_delivery(webhook, &id, now).await? {
            return Ok(None);
        }
        let worker = format!("test {}", std::process::id());
        if let Some(claimed) = store.claim_delivery(&id, &worker, now).await? {
            let finished = self.courier.attempt(&claimed).await;
            store
                .finish_deliveries(&[finished], self.courier.clock.unix_seconds())
                .await?;
        }
        Ok(store.delivery(webhook, &id).await?)
    }
}

/// A name that nobody had before.
fn random(prefix: &str, bytes: usize) -> Result<String, WebhookError> {
    let mut drawn = vec![0; bytes];
    getrandom::fill(&mut drawn).map_err(|error| WebhookError::Here(error.to_string()))?;
    let hex: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{prefix}{hex}"))
}
