//! One request to a registry: where it goes, and what its answer is by its head.
//!
//! Invariant: every byte of a body is counted before it is kept; no redirect is followed; what a registry says of a failure is
//! told as its words, bounded and made visible.

use mcpindex::visible::visible_within;
use mcpindex::wire::http::{HttpClient, HttpError};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Request, Response, StatusCode};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use url::Url;

use super::RegistryError;

/// Bytes that are read of an answer which says that something is wrong.
const ERROR_BODY_BYTES: usize = 64 << 10;
/// Characters of its words that are told.
const MAX_WORDS: usize = 200;
/// Seconds until the next attempt, where a registry asks for one and doesn't say when.
const DEFAULT_RETRY: u64 = 60;
/// The longest pause that a registry may ask for, in seconds.
pub(super) const MAX_RETRY: u64 = 24 * 60 * 60;

/// An answer.
pub(super) enum Answer {
    /// A body.
    Page(Vec<u8>),
    /// A status that says no.
    Failed { status: u16, words: Option<String> },
}

/// A registry's address as it is kept: without the API's version at its end.
pub(super) fn base(text: &str) -> Result<Url, RegistryError> {
    let refuse = |reason| RegistryError::Address {
        base: shown(text),
        reason,
    };
    let mut url = Url::parse(text).map_err(|_| refuse("it is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse("it is no http(s) URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it holds a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("it has a query or a fragment"));
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/servers").unwrap_or(path);
    let path = ["/v0.1", "/v0"]
        .iter()
        .find_map(|version| path.strip_suffix(version))
        .unwrap_or(url.path())
        .to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Asks, and reads at most so many bytes of a page. `now` is about the time, for answers that name one.
pub(super) async fn ask(
    client: &dyn HttpClient,
    url: Url,
    room: usize,
    now: i64,
) -> Result<Answer, RegistryError> {
    let mut request = Request::new(Method::GET, url);
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    // A body that is not packed can't unpack to more than was counted.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut response = client.send(request).await?;
    let status = response.status();
    if status == StatusCode::OK {
        return match read(&mut response, room).await? {
            (body, true) => Ok(Answer::Page(body)),
            (_, false) => Err(HttpError::OverLimit {
                what: "bytes in a page",
                limit: room,
            }
            .into()),
        };
    }
    if status.is_redirection()
        && let Some(to) = points_to(&response)
    {
        return Err(RegistryError::Redirected {
            status: status.as_u16(),
            to,
        });
    }
    if matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        let after = retry_after(response.headers(), now).unwrap_or(DEFAULT_RETRY);
        return Err(RegistryError::RetryLater {
            after: after.clamp(1, MAX_RETRY),
        });
    }
    // The status says enough when the rest of the answer gets lost.
    let body = read(&mut response, ERROR_BODY_BYTES).await;
    Ok(Answer::Failed {
        status: status.as_u16(),
        words: body.ok().and_then(|(body, _)| words(&body)),
    })
}

/// The body as far as there is room for it, and whether that is all.
async fn read(response: &mut Response, room: usize) -> Result<(Vec<u8>, bool), HttpError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| HttpError::of(&error))? {
        if body.len() + chunk.len() > room {
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}

/// `Retry-After` in seconds, of either form.
fn retry_after(headers: &HeaderMap, now: i64) -> Option<u64> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are more than is waited.
        return Some(value.parse().unwrap_or(MAX_RETRY));
    }
    let moment = OffsetDateTime::parse(value, &Rfc2822).ok()?;
    Some(u64::try_from(moment.unix_timestamp().saturating_sub(now)).unwrap_or_default())
}

fn points_to(response: &Response) -> Option<String> {
    let location = String::from_utf8_lossy(response.headers().get(header::LOCATION)?.as_bytes());
    Some(match response.url().join(&location) {
        Ok(url) => shown(url.as_str()),
        Err(_) => shown(&location),
    })
}

/// An address without what may be a credential in it, in text that can be shown.
fn shown(url: &str) -> String {
    let until_query = url.split(['?', '#']).next().unwrap_or_default();
    let shown = match until_query.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => until_query.to_owned(),
    };
    visible_within(&shown, MAX_WORDS)
}

/// What an error's body says, in the official form or as a problem (RFC 9457).
fn words(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let words = ["error", "detail", "message", "title"]
        .iter()
        .find_map(|name| body.get(name)?.as_str())?;
    Some(visible_within(words, MAX_WORDS))
}
