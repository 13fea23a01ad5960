//! An HTTP answer judged by its head: a message, a stream of them, nothing, or no MCP at all.
//!
//! Invariant: a body is read only when its head says that it is
//! what was asked for, or an error that is worth a look.

use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Response, StatusCode};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::time::timeout;

use crate::wire::error::{ServerError, WireError};
use crate::wire::http::HttpError;
use crate::wire::http::body::{Body, Budget};
use crate::wire::http::events::{Events, StreamEvent};
use crate::wire::message::{self, Answer, Message};

/// Bytes read of an answer that says that something is wrong.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// The longest time that a server can ask to be left alone for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Codes that the protocol of 2026-07-28 gives with an error status: a server that knows them is no older one.
const MODERN_ERRORS: [i64; 4] = [-32020, -32021, -32022, -32601];

/// What an answer is by its head.
pub(in crate::wire) enum Kind {
    /// Accepted, and nothing more.
    Nothing,
    /// A body that is one message.
    Whole(Body),
    /// A body that is a stream of messages.
    Stream(Body),
}

/// An answer that is none.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What it means.
    pub(crate) error: WireError,
    /// What was answered; `None` when nothing was.
    pub(crate) answered: Option<Answered>,
}

/// An answer that is none, as it came.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Its beginning.
    pub(crate) body: Vec<u8>,
}

impl Refusal {
    /// What it means to whoever may come back another day: a server that asks to be left alone is not there now, whatever
    /// else it says of the question.
    pub(in crate::wire) fn into_error(self) -> WireError {
        match self.answered {
            Some(answered) if matches!(answered.status.as_u16(), 429 | 503) => WireError::Unavailable {
                status: answered.status.as_u16(),
                retry_after: retry_after(&answered.headers),
            },
            _ => self.error,
        }
    }

    /// Whether a server of the older HTTP+SSE transport may have answered so (specification, backward compatibility).
    pub(in crate::wire) fn may_be_older(&self) -> bool {
        let status = self.answered.as_ref().map(|answered| answered.status.as_u16());
        let code = match &self.error {
            WireError::Refused { error, .. } => error.code,
            _ => None,
        };
        matches!(status, Some(400 | 404 | 405)) && !code.is_some_and(|code| MODERN_ERRORS.contains(&code))
    }
}

impl<E: Into<WireError>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        Refusal {
            error: error.into(),
            answered: None,
        }
    }
}

/// Judges an answer to a message of this method.
pub(in crate::wire) async fn judge(
    response: Response,
    method: &'static str,
    is_notification: bool,
    message_bytes: usize,
    budget: &mut Budget,
) -> Result<Kind, Refusal> {
    let status = response.status();
    if matches!(status.as_u16(), 202 | 204) {
        return Ok(Kind::Nothing);
    }
    if !status.is_success() {
        return Err(refused(response, method, message_bytes, budget).await);
    }
    let kind = content_type(response.headers());
    match kind.as_str() {
        "application/json" => Ok(Kind::Whole(Body::of(response)?)),
        "text/event-stream" => Ok(Kind::Stream(Body::of(response)?)),
        // Notifications are answered with all sorts of empty bodies.
        _ if is_notification => Ok(Kind::Nothing),
        "" => Err(WireError::NotMcp {
            reason: format!("HTTP {status} without a content type"),
        }
        .into()),
        _ => Err(WireError::NotMcp {
            reason: format!("HTTP {status} with {kind}"),
        }
        .into()),
    }
}

/// An error status: a JSON-RPC error where there is one, whatever its id, since it answers this request.
async fn refused(
    response: Response,
    method: &'static str,
    message_bytes: usize,
    budget: &mut Budget,
) -> Refusal {
    let status = response.status();
    let headers = response.headers().clone();
    let body = match Body::of(response) {
        Ok(body) => body.whole(message_bytes.min(ERROR_BODY_BYTES), budget).await,
        Err(error) => Err(error),
    };
    let body = body.unwrap_or_default();
    let error = match status.as_u16() {
        code @ (401 | 403) => WireError::AuthRequired { status: code },
        300..=399 => WireError::NotMcp {
            reason: format!("HTTP {status} redirects{}", target(&headers)),
        },
        code => match rpc_error(&headers, &body) {
            Some(error) => WireError::Refused { method, error },
            None if matches!(code, 429 | 500..=599) => WireError::Unavailable {
                status: code,
                retry_after: retry_after(&headers),
            },
            None => WireError::NotMcp {
                reason: format!("HTTP {status}"),
            },
        },
    };
    Refusal {
        error,
        answered: Some(Answered {
            status,
            headers,
            body,
        }),
    }
}

/// When the server may be asked again, by its own word, in either of the two forms. A date is held against the answer's
/// own, so that no clock but the server's has to be right.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| Some(headers.get(name)?.to_str().ok()?.trim());
    let date = |text: &str| OffsetDateTime::parse(text, &Rfc2822).ok();
    let said = text(header::RETRY_AFTER)?;
    let seconds = match said.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long time.
        true if !said.is_empty() => said.parse().unwrap_or(u64::MAX),
        _ => {
            let wait = date(said)? - date(text(header::DATE)?)?;
            u64::try_from(wait.whole_seconds()).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

fn rpc_error(headers: &HeaderMap, body: &[u8]) -> Option<ServerError> {
    if content_type(headers) != "application/json" {
        return None;
    }
    match message::read(std::str::from_utf8(body).ok()?) {
        Message::Response {
            answer: Answer::Error(error),
            ..
        } => Some(error),
        _ => None,
    }
}

fn target(headers: &HeaderMap) -> String {
    headers.get(header::LOCATION).map_or(String::new(), |location| {
        // Behind the path may stand a key that was in ours.
        let location = String::from_utf8_lossy(location.as_bytes());
        format!(" to `{}`", location.split(['?', '#']).next().unwrap_or_default())
    })
}

/// A body that is a stream of messages.
pub(in crate::wire) struct EventStream {
    body: Body,
    silence: Option<Duration>,
    pub(in crate::wire) events: Events,
}

impl EventStream {
    pub(in crate::wire) fn new(body: Body, events: Events) -> EventStream {
        EventStream {
            body,
            silence: None,
            events,
        }
    }

    /// Ends it with an error when not a byte comes for this long.
    pub(in crate::wire) fn within(mut self, silence: Option<Duration>) -> EventStream {
        self.silence = silence;
        self
    }

    /// The next event; `None` when the stream ended. Safe to drop half-way.
    pub(in crate::wire) async fn next(
        &mut self,
        budget: &mut Budget,
    ) -> Result<Option<StreamEvent>, WireError> {
        loop {
            if let Some(event) = self.events.next()? {
                return Ok(Some(event));
            }
            let chunk = match self.silence {
                None => self.body.next(budget).await,
                Some(silence) => timeout(silence, self.body.next(budget))
                    .await
                    .map_err(|_| HttpError::TimedOut)?,
            };
            match chunk? {
                None => return Ok(None),
                Some(chunk) => self.events.push(&chunk),
            }
        }
    }
}

/// The media type, without its parameters, in lower case.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    fn check(lines: &[(HeaderName, &'static str)], expected: Option<u64>) {
        let headers = lines
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect();
        assert_eq!(
            retry_after(&headers),
            expected.map(Duration::from_secs),
            "{lines:?}"
        );
    }

    #[test]
    fn when_to_come_back_is_read_in_both_forms_and_is_at_most_a_day() {
        let said = |value| (header::RETRY_AFTER, value);
        let at = (header::DATE, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(&[said("120")], Some(120));
        check(&[said("0")], Some(0));
        check(&[said("86401")], Some(86_400));
        check(&[said("99999999999999999999999999")], Some(86_400));
        check(&[said("Sun, 06 Nov 1994 08:51:37 GMT"), at.clone()], Some(120));
        check(&[said("Sun, 06 Nov 1994 08:00:00 GMT"), at.clone()], Some(0));
        check(&[said("Fri, 31 Dec 2999 23:59:59 GMT"), at.clone()], Some(86_400));
        check(&[said("Sun, 06 Nov 1994 08:51:37 GMT")], None);
        for nonsense in ["", "soon", "-1", "1.5", "1e3"] {
            check(&[said(nonsense), at.clone()], None);
        }
        check(&[at], None);
    }
}
