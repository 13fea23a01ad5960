//! An HTTP answer judged by its head: a message, a stream of them, nothing, or no MCP at all.
//!
//! Invariant: every byte of a body is counted before it is kept, and a body is read only when its head says that it is
//! what was asked for, or an error that is worth a look.

use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use crate::wire::error::{ServerError, WireError};
use crate::wire::http::HttpError;
use crate::wire::http::events::{Events, StreamEvent};
use crate::wire::message::{self, Answer, Message};

/// Bytes read of an answer that says that something is wrong.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// Codes that the protocol of 2026-07-28 gives with an error status: a server that knows them is no older one.
const MODERN_ERRORS: [i64; 4] = [-32020, -32021, -32022, -32601];

/// What an answer is by its head.
pub(in crate::wire) enum Kind {
    /// Accepted, and nothing more.
    Nothing,
    /// A body that is one message.
    Whole(Response),
    /// A body that is a stream of messages.
    Stream(Response),
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

/// Bytes that may still come.
pub(in crate::wire) struct Budget {
    received: usize,
    limit: usize,
}

impl Budget {
    pub(in crate::wire) fn of(limit: usize) -> Budget {
        Budget { received: 0, limit }
    }

    pub(in crate::wire) fn spend(&mut self, bytes: usize) -> Result<(), WireError> {
        self.received = self.received.saturating_add(bytes);
        if self.received > self.limit {
            return Err(WireError::OverLimit {
                what: "bytes in all",
                limit: self.limit,
            });
        }
        Ok(())
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
    if let Some(packed) = response.headers().get(header::CONTENT_ENCODING)
        && packed != "identity"
    {
        let reason = format!(
            "HTTP {status} is packed as `{}`, though that was declined",
            String::from_utf8_lossy(packed.as_bytes())
        );
        return Err(WireError::NotMcp { reason }.into());
    }
    let kind = content_type(response.headers());
    match kind.as_str() {
        "application/json" => Ok(Kind::Whole(response)),
        "text/event-stream" => Ok(Kind::Stream(response)),
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
    let body = whole(response, message_bytes.min(ERROR_BODY_BYTES), budget)
        .await
        .unwrap_or_default();
    let error = match status.as_u16() {
        code @ (401 | 403) => WireError::AuthRequired { status: code },
        300..=399 => WireError::NotMcp {
            reason: format!("HTTP {status} redirects{}", target(&headers)),
        },
        code => match rpc_error(&headers, &body) {
            Some(error) => WireError::Refused { method, error },
            None if matches!(code, 429 | 500..=599) => WireError::Unavailable { status: code },
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

/// A body that is one message.
pub(in crate::wire) async fn whole(
    mut response: Response,
    limit: usize,
    budget: &mut Budget,
) -> Result<Vec<u8>, WireError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| body_error(&error))? {
        budget.spend(chunk.len())?;
        if body.len() + chunk.len() > limit {
            return Err(WireError::OverLimit {
                what: "bytes in one message",
                limit,
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A body that is a stream of messages.
pub(in crate::wire) struct EventStream {
    response: Response,
    silence: Option<Duration>,
    pub(in crate::wire) events: Events,
}

impl EventStream {
    pub(in crate::wire) fn new(response: Response, events: Events) -> EventStream {
        EventStream {
            response,
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
                None => self.response.chunk().await,
                Some(silence) => timeout(silence, self.response.chunk())
                    .await
                    .map_err(|_| HttpError::TimedOut)?,
            };
            match chunk.map_err(|error| body_error(&error))? {
                None => return Ok(None),
                Some(chunk) => {
                    budget.spend(chunk.len())?;
                    self.events.push(&chunk);
                }
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

fn body_error(error: &reqwest::Error) -> WireError {
    if error.is_timeout() {
        return HttpError::TimedOut.into();
    }
    HttpError::Unreachable {
        reason: "the connection broke while the answer was read".to_owned(),
    }
    .into()
}
