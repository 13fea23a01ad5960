//! Asks an index one question at a time.
//!
//! Invariant: no redirect is followed and no cookie kept, the key goes to the index that was chosen and to no other, and an
//! answer is bounded in time and bytes.

use std::fmt;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::index::{Base, Chosen, IndexError, is_loopback};
use crate::visible::visible_within;
use crate::wire::http::HttpError;

/// The most that is read of an answer, whatever the caller admits.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Characters of a problem's words that are shown.
const MAX_WORDS: usize = 300;
/// Where an install's token goes when `Authorization` holds a key.
const INSTALL_TOKEN: HeaderName = HeaderName::from_static("mcpindex-install-token");

const CONNECT: Duration = Duration::from_secs(5);
const WHOLE: Duration = Duration::from_secs(10);

/// Asks one index, with its key where there is one.
#[derive(Debug, Clone)]
pub struct IndexClient {
    base: Base,
    /// Whether the key goes along is settled here: the client sends it with each question.
    client: reqwest::Client,
    has_key: bool,
    /// Goes along with each question beside what the client sends by itself.
    header: Option<(HeaderName, HeaderValue)>,
}

/// An index's own words for what went wrong (RFC 9457). They are a server's words: to be shown with care.
#[derive(Debug, Clone, Deserialize)]
pub struct Problem {
    /// `https://…` or `urn:…`, whose end names the sort.
    #[serde(default)]
    pub r#type: String,
    /// In short.
    pub title: String,
    /// This case.
    pub detail: Option<String>,
}

impl Problem {
    /// The detail, or the title where there is none, on one line that can be gone on with.
    pub fn words(&self) -> String {
        let words = self.detail.as_ref().filter(|detail| !detail.is_empty());
        let words = words.unwrap_or(&self.title).trim_end_matches('.');
        visible_within(words, MAX_WORDS)
    }
}

/// What an index said, whatever its status. It may hold a key, so its `Debug` leaves the body out.
#[derive(Clone)]
pub struct Answer {
    /// A redirect among them, which was not followed.
    pub status: StatusCode,
    /// As they came.
    pub headers: HeaderMap,
    /// At most as long as the caller admitted.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON of this shape; `None` where it is something else.
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// What the index says went wrong; `None` where the body is nothing of the kind.
    pub fn problem(&self) -> Option<Problem> {
        self.json()
    }

    /// Whether an index says that this sort of thing went wrong; any server says 404 of what it does not have.
    pub fn is_problem(&self, sort: &str) -> bool {
        self.problem()
            .is_some_and(|problem| problem.r#type.rsplit([':', '/']).next() == Some(sort))
    }

    /// `Retry-After` in seconds; `None` where there is none, or a date.
    pub fn retry_after(&self) -> Option<u64> {
        self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Answer");
        shown
            .field("status", &self.status)
            .field("bytes", &self.body.len());
        shown.finish_non_exhaustive()
    }
}

impl IndexClient {
    /// A client of this index. Refuses to send a key over plain HTTP to another machine.
    pub fn new(chosen: &Chosen) -> Result<IndexClient, IndexError> {
        let base = chosen.base.clone();
        let mut headers = HeaderMap::new();
        if let Some(key) = &chosen.key {
            if !base.is_protected() {
                return Err(IndexError::PlainHttp { base });
            }
            let value = format!("Bearer {}", key.expose_secret());
            let mut value = HeaderValue::try_from(value).map_err(|_| IndexError::Client {
                reason: format!("the key for {base} holds a character that can't be sent"),
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // Fails only when a provider was installed before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        #[expect(clippy::disallowed_methods, reason = "one index, which a person named")]
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("mcpindex/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers)
            .connect_timeout(CONNECT)
            .timeout(WHOLE);
        if is_loopback(base.url()) {
            // A proxy is another machine.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| IndexError::Client {
            reason: error.to_string(),
        })?;
        Ok(IndexClient {
            base,
            client,
            has_key: chosen.key.is_some(),
            header: None,
        })
    }

    /// The same client, which shows beside each question which install it speaks for: in a header of its own beside a key,
    /// else as the published server takes it. Refuses to send a token over plain HTTP to another machine.
    pub fn with_install_token(&self, token: &SecretString) -> Result<IndexClient, IndexError> {
        let base = self.base.clone();
        if !base.is_protected() {
            return Err(IndexError::PlainHttp { base });
        }
        let (name, value) = match self.has_key {
            true => (INSTALL_TOKEN, token.expose_secret().to_owned()),
            false => (AUTHORIZATION, format!("Bearer {}", token.expose_secret())),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| IndexError::Client {
            reason: format!("the install's token for {base} holds a character that can't be sent"),
        })?;
        value.set_sensitive(true);
        let mut client = self.clone();
        client.header = Some((name, value));
        Ok(client)
    }

    /// Which index is asked.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Whether a key goes along.
    pub fn has_key(&self) -> bool {
        self.has_key
    }

    /// Reads `path`, which is below the base (`api/v1/whoami`). At most `limit` bytes are admitted.
    pub async fn get(&self, path: &str, limit: usize) -> Result<Answer, IndexError> {
        self.ask(Method::GET, path, None, limit).await
    }

    /// The same of an answer that the index may keep back until there is news: at most this long, in place of 10 s.
    pub async fn get_within(&self, path: &str, limit: usize, time: Duration) -> Result<Answer, IndexError> {
        let request = self.client.request(Method::GET, self.base.at(path));
        self.send(request.timeout(time), limit).await
    }

    /// Posts this as JSON.
    pub async fn post(
        &self,
        path: &str,
        content: &impl Serialize,
        limit: usize,
    ) -> Result<Answer, IndexError> {
        let content = serde_json::to_vec(content).map_err(|error| IndexError::Question {
            base: self.base.clone(),
            reason: error.to_string(),
        })?;
        self.ask(Method::POST, path, Some(content), limit).await
    }

    /// Deletes what `path` names.
    pub async fn delete(&self, path: &str, limit: usize) -> Result<Answer, IndexError> {
        self.ask(Method::DELETE, path, None, limit).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Answer, IndexError> {
        let mut request = self.client.request(method, self.base.at(path));
        if let Some(content) = content {
            request = request.header(CONTENT_TYPE, "application/json").body(content);
        }
        self.send(request, limit).await
    }

    async fn send(&self, mut request: reqwest::RequestBuilder, limit: usize) -> Result<Answer, IndexError> {
        if let Some((name, value)) = &self.header {
            request = request.header(name, value);
        }
        read(request, limit.min(MAX_ANSWER_BYTES))
            .await
            .map_err(|source| IndexError::NoAnswer {
                base: self.base.clone(),
                source,
            })
    }
}

async fn read(request: reqwest::RequestBuilder, limit: usize) -> Result<Answer, HttpError> {
    let mut response = request.send().await.map_err(|error| HttpError::of(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| HttpError::of(&error))? {
        if body.len() + chunk.len() > limit {
            return Err(HttpError::OverLimit { what: "bytes", limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer {
        status: response.status(),
        headers: response.headers().clone(),
        body,
    })
}
