//! Requests to providers: the guarded client as the `oauth2` crate wants one.
//!
//! Invariant: no redirect is followed; an answer has at most 1 MiB and ten seconds, whatever its provider does.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcpindex::wire::http::{HttpClient, HttpError};
use oauth2::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, USER_AGENT};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use url::Url;

/// The most bytes of an answer.
const MAX_ANSWER: usize = 1024 * 1024;
/// From the request to the last byte of the answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How we name ourselves to providers; GitHub answers nobody without a name.
const NAME: &str = concat!("mcpindex-server/", env!("CARGO_PKG_VERSION"));

/// The way to the providers.
#[derive(Clone)]
pub(crate) struct Outgoing(pub(crate) Arc<dyn HttpClient>);

/// Why there is no answer that could be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutgoingError {
    /// It was not reached, or may not be.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The answer is none of HTTP, or broke off.
    #[error("the answer can't be read: {0}")]
    Unreadable(String),
    /// Not the status that was asked for.
    #[error("it answered with HTTP {0}")]
    Status(u16),
}

impl Outgoing {
    async fn send(&self, request: reqwest::Request) -> Result<HttpResponse, OutgoingError> {
        tokio::time::timeout(ANSWER_TIME, self.answer(request))
            .await
            .map_err(|_| HttpError::TimedOut)?
    }

    async fn answer(&self, mut request: reqwest::Request) -> Result<HttpResponse, OutgoingError> {
        let unreadable = |error: &dyn std::fmt::Display| OutgoingError::Unreadable(error.to_string());
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static(NAME));
        let mut response = self.0.send(request).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| unreadable(&error.without_url()))?
        {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(HttpError::OverLimit {
                    what: "bytes",
                    limit: MAX_ANSWER,
                }
                .into());
            }
            body.extend_from_slice(&chunk);
        }
        let mut answer = HttpResponse::new(body);
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        Ok(answer)
    }

    /// What is at an address, whatever the status.
    pub(crate) async fn get(&self, url: &Url) -> Result<HttpResponse, OutgoingError> {
        let mut request = reqwest::Request::new(reqwest::Method::GET, url.clone());
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static("application/json"));
        self.send(request).await
    }

    /// Reads JSON at an address, with an access token where one is given.
    pub(crate) async fn json<T: DeserializeOwned>(
        &self,
        url: &Url,
        token: Option<&SecretString>,
    ) -> Result<T, OutgoingError> {
        let mut request = reqwest::Request::new(reqwest::Method::GET, url.clone());
        request
            .headers_mut()
            .insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
                .map_err(|_| OutgoingError::Unreadable("the access token is no header".to_owned()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let answer = self.send(request).await?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(OutgoingError::Status(answer.status().as_u16()));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| OutgoingError::Unreadable(format!("no JSON as expected: {error}")))
    }
}

impl<'c> AsyncHttpClient<'c> for Outgoing {
    type Error = OutgoingError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, OutgoingError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request)
                .map_err(|error| OutgoingError::Unreadable(error.without_url().to_string()))?;
            self.send(request).await
        })
    }
}
