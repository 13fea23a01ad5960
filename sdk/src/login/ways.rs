//! How an index signs people in, by its own word (`/.well-known/mcp-index.json`), asked before anybody waits for it.
//!
//! Invariant: what an index does not say is not held against it: an older one, or one of another make, is tried.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::index::{Base, IndexClient};
use crate::login::{ANSWER_BYTES, LoginError, unexpected};
use crate::visible::visible_within;

const DESCRIPTION: &str = ".well-known/mcp-index.json";
/// Characters of a provider's name that are shown, and names.
const MAX_NAME: usize = 40;
const MAX_NAMES: usize = 10;

/// The ways in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ways {
    /// Who may say who somebody is, by the names that `--provider` takes.
    pub providers: Vec<String>,
    /// Whether a machine without a browser can ask for a key.
    pub device: bool,
}

impl Ways {
    /// What this index says; `None` where it says nothing.
    pub async fn of(client: &IndexClient) -> Result<Option<Ways>, LoginError> {
        #[derive(Deserialize)]
        struct Description {
            sign_in: Option<Ways>,
        }
        let answer = client.get(DESCRIPTION, ANSWER_BYTES).await?;
        match answer.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(unexpected(client.base(), DESCRIPTION, &answer))
            }
            status if status.is_success() => Ok(answer
                .json::<Description>()
                .and_then(|description| description.sign_in)),
            _ => Ok(None),
        }
    }

    /// Whether somebody can sign in here: by device or by browser, there with this provider where one is named.
    pub fn admit(&self, base: &Base, is_device: bool, provider: Option<&str>) -> Result<(), LoginError> {
        if self.providers.is_empty() {
            return Err(LoginError::NoSignIn { base: base.clone() });
        }
        if is_device && !self.device {
            return Err(LoginError::NoDevice { base: base.clone() });
        }
        match provider.filter(|named| !self.providers.iter().any(|provider| provider == named)) {
            None => Ok(()),
            Some(named) => Err(LoginError::NoProvider {
                base: base.clone(),
                named: visible_within(named, MAX_NAME).into(),
                providers: self
                    .providers
                    .iter()
                    .take(MAX_NAMES)
                    .map(|provider| visible_within(provider, MAX_NAME))
                    .collect::<Vec<_>>()
                    .join(", ")
                    .into(),
            }),
        }
    }
}
