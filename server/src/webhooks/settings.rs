//! `[webhooks]`: where deliveries may go, and where the secrets are that they need.
//!
//! Invariant: a secret is in no text that this module makes; what is named here is read when it is needed, so that a secret can be
//! changed without a restart.

use std::path::PathBuf;

use mcpindex_crawler::guarded_client::AllowedHost;
use secrecy::SecretString;
use url::Url;

/// What the settings say of webhooks.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The only hosts that deliveries go to.
    pub hosts: Vec<AllowedHost>,
    /// Deliveries at the same time.
    pub at_once: usize,
    /// A file with the key that the targets' secrets are derived from; `None` is `webhook.key` in the data folder, made when it
    /// is first needed.
    pub key_file: Option<PathBuf>,
    /// A folder with a file for each `{secret:NAME}` in a destination.
    pub secrets: Option<PathBuf>,
    /// The token that issues are opened with.
    pub github_token: Option<SecretString>,
    /// A file with nothing but the token in it.
    pub github_token_file: Option<PathBuf>,
    /// Where GitHub's API is, with a slash at its end; `None` is the public one.
    pub github_api_url: Option<Url>,
}

impl Default for WebhookSettings {
    fn default() -> WebhookSettings {
        WebhookSettings {
            hosts: Vec::new(),
            at_once: 64,
            key_file: None,
            secrets: None,
            github_token: None,
            github_token_file: None,
            github_api_url: None,
        }
    }
}

/// The hosts of a list.
pub(crate) fn hosts(texts: &[String]) -> Result<Vec<AllowedHost>, String> {
    texts.iter().map(|text| text.parse()).collect()
}
