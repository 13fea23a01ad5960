//! Streamable HTTP, both eras: one POST a message, answered by JSON or by an event stream.
//!
//! The HTTP client comes from the caller, who decides which addresses may be contacted. What is absent: the separate
//! stream of a GET, on which a server may send what nobody asked for, and resuming a broken stream; an inspection needs
//! neither. The older HTTP+SSE transport (2024-11-05) is not spoken.
//!
//! Invariant: every byte of a body is counted before it is kept.

mod events;

use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Response};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use crate::wire::error::WireError;
use crate::wire::http::events::Events;
use crate::wire::limits::Limits;
use crate::wire::message::{self, Answer, Message};
use crate::wire::read_only::{Ask, MODERN};

/// Why a request did not get an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The caller's rules refuse the address. `rule` names the rule, not the address.
    #[error("blocked address ({rule})")]
    Blocked {
        /// For example `private network 10.0.0.0/8`.
        rule: String,
    },
    /// The TLS certificate is not valid.
    #[error("TLS certificate not valid: {reason}")]
    Tls {
        /// One line.
        reason: String,
    },
    /// Nobody answers.
    #[error("unreachable: {reason}")]
    Unreachable {
        /// One line.
        reason: String,
    },
    /// No answer in time.
    #[error("timed out")]
    TimedOut,
    /// More bytes than allowed.
    #[error("more than {limit} bytes")]
    OverLimit {
        /// The limit.
        limit: usize,
    },
}

/// Sends one request. Redirects are the implementation's business; time and bytes of the body are counted by the wire.
pub trait HttpClient: Send + Sync {
    /// Sends `request` and gives the answer as soon as its head is there.
    fn send(&self, request: reqwest::Request) -> BoxFuture<'_, Result<reqwest::Response, HttpError>>;
}

/// Where a remote server is.
#[derive(Clone)]
pub struct Endpoint {
    /// The URL to post to.
    pub url: url::Url,
    /// Headers for every request; values can't be printed.
    pub headers: Vec<(String, secrecy::SecretString)>,
}

/// Bounds on a conversation that lasts: the gate's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteLimits {
    /// Bytes of one message (64 MiB).
    pub message_bytes: usize,
    /// Requests posted at a time (128); more wait for their turn.
    pub requests: usize,
    /// How long the handshake's answer may take (60 s).
    pub handshake: Duration,
    /// How long any other answer may be silent (15 min), but for a subscription.
    pub silence: Duration,
    /// How often in a row a stream that broke off is taken up again without a message in between (5).
    pub resumptions: usize,
    /// The longest pause before a stream is opened again (60 s).
    pub pause: Duration,
}

impl Default for RemoteLimits {
    fn default() -> RemoteLimits {
        RemoteLimits {
            message_bytes: 64 << 20,
            requests: 128,
            handshake: Duration::from_secs(60),
            silence: Duration::from_secs(15 * 60),
            resumptions: 5,
            pause: Duration::from_secs(60),
        }
    }
}

/// Bytes read of an answer that says that something is wrong.
const ERROR_BODY_BYTES: usize = 64 << 10;

/// How long the farewell to a session may take.
const FAREWELL: Duration = Duration::from_secs(2);

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// A conversation with one endpoint.
pub(in crate::wire) struct Http<'c> {
    client: &'c dyn HttpClient,
    endpoint: &'c Endpoint,
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
    answer: Body,
    received: usize,
    message_bytes: usize,
    total_bytes: usize,
    stream_events: usize,
}

/// The answer to the question that is open.
enum Body {
    Nothing,
    Message(Vec<u8>),
    Stream(Box<Stream>),
}

struct Stream {
    response: Response,
    events: Events,
}

impl<'c> Http<'c> {
    pub(in crate::wire) fn new(
        client: &'c dyn HttpClient,
        endpoint: &'c Endpoint,
        limits: &Limits,
    ) -> Http<'c> {
        Http {
            client,
            endpoint,
            session: None,
            version: None,
            answer: Body::Nothing,
            received: 0,
            message_bytes: limits.message_bytes,
            total_bytes: limits.total_bytes,
            stream_events: limits.stream_events,
        }
    }

    /// From now on every request names this version.
    pub(in crate::wire) fn settle(&mut self, version: &str) {
        self.version = HeaderValue::from_str(version).ok();
    }

    /// Posts one message and keeps its answer for [`Http::receive`].
    pub(in crate::wire) async fn send(&mut self, text: &str, method: &'static str) -> Result<(), WireError> {
        self.answer = Body::Nothing;
        let response = self.post(text, method).await?;
        if method == Ask::Initialize.method() {
            self.session = response.headers().get(SESSION).cloned();
        }
        self.answer = self.open(response, method).await?;
        Ok(())
    }

    /// Posts an answer of ours; the open question's answer stays where it is.
    pub(in crate::wire) async fn send_beside(
        &mut self,
        text: &str,
        method: &'static str,
    ) -> Result<(), WireError> {
        self.post(text, method).await.map(drop)
    }

    /// The next message of the open answer. Safe to drop half-way.
    pub(in crate::wire) async fn receive(&mut self, method: &'static str) -> Result<Vec<u8>, WireError> {
        loop {
            match &mut self.answer {
                Body::Nothing => return Err(WireError::Ended { method }),
                Body::Message(_) => {
                    if let Body::Message(message) = std::mem::replace(&mut self.answer, Body::Nothing) {
                        return Ok(message);
                    }
                }
                Body::Stream(stream) => {
                    let Stream { response, events } = &mut **stream;
                    if let Some(message) = events.next()? {
                        return Ok(message);
                    }
                    match response.chunk().await.map_err(|error| body_error(&error))? {
                        None => self.answer = Body::Nothing,
                        Some(chunk) => {
                            count(&mut self.received, chunk.len(), self.total_bytes)?;
                            events.push(&chunk);
                        }
                    }
                }
            }
        }
    }

    /// Ends the session, when the server gave one.
    pub(in crate::wire) async fn close(mut self) {
        self.answer = Body::Nothing;
        if self.session.is_some()
            && let Ok(request) = self.request(Method::DELETE, None)
        {
            let _ = timeout(FAREWELL, self.client.send(request)).await;
        }
    }

    async fn post(&self, text: &str, method: &'static str) -> Result<Response, WireError> {
        let mut request = self.request(Method::POST, Some(text))?;
        let modern = HeaderValue::from_static(MODERN);
        if method == Ask::Discover.method() || self.version.as_ref() == Some(&modern) {
            request
                .headers_mut()
                .insert(METHOD, HeaderValue::from_static(method));
            request.headers_mut().insert(VERSION, modern);
        }
        Ok(self.client.send(request).await?)
    }

    fn request(&self, method: Method, body: Option<&str>) -> Result<Request, HttpError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.endpoint.headers {
            let unfit = || HttpError::Unreachable {
                reason: format!("the header `{name}` can't be sent"),
            };
            let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| unfit())?;
            value.set_sensitive(true);
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?,
                value,
            );
        }
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        // A body that is not packed can't unpack to more than was counted.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
        let mut request = Request::new(method, self.endpoint.url.clone());
        if let Some(body) = body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.to_owned().into());
        }
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Judges an answer by its head, and reads it unless it is a stream.
    async fn open(&mut self, response: Response, method: &'static str) -> Result<Body, WireError> {
        let status = response.status();
        match status.as_u16() {
            202 | 204 => return Ok(Body::Nothing),
            200..=299 => {}
            401 | 403 => {
                return Err(WireError::AuthRequired {
                    status: status.as_u16(),
                });
            }
            300..=399 => {
                let target = response
                    .headers()
                    .get(header::LOCATION)
                    .map_or(String::new(), |location| {
                        // Behind the path may stand a key that was in ours.
                        let location = String::from_utf8_lossy(location.as_bytes());
                        format!(" to `{}`", location.split(['?', '#']).next().unwrap_or_default())
                    });
                return Err(WireError::NotMcp {
                    reason: format!("HTTP {status} redirects{target}"),
                });
            }
            _ => return Err(self.refused(response, method).await),
        }
        if let Some(packed) = response.headers().get(header::CONTENT_ENCODING)
            && packed != "identity"
        {
            return Err(WireError::NotMcp {
                reason: format!(
                    "HTTP {status} is packed as `{}`, though that was declined",
                    String::from_utf8_lossy(packed.as_bytes())
                ),
            });
        }
        let kind = content_type(&response);
        match kind.as_str() {
            "application/json" => Ok(Body::Message(self.whole(response, self.message_bytes).await?)),
            "text/event-stream" => {
                let events = Events::new(self.message_bytes, self.stream_events);
                Ok(Body::Stream(Box::new(Stream { response, events })))
            }
            // Notifications are answered with all sorts of empty bodies.
            _ if method.starts_with("notifications/") => Ok(Body::Nothing),
            "" => Err(WireError::NotMcp {
                reason: format!("HTTP {status} without a content type"),
            }),
            _ => Err(WireError::NotMcp {
                reason: format!("HTTP {status} with {kind}"),
            }),
        }
    }

    /// An error status: a JSON-RPC error where there is one, whatever its id, since it answers this request.
    async fn refused(&mut self, response: Response, method: &'static str) -> WireError {
        let status = response.status();
        let kind = content_type(&response);
        let limit = self.message_bytes.min(ERROR_BODY_BYTES);
        if kind == "application/json"
            && let Ok(body) = self.whole(response, limit).await
            && let Ok(text) = std::str::from_utf8(&body)
            && let Message::Response {
                answer: Answer::Error(error),
                ..
            } = message::read(text)
        {
            return WireError::Refused { method, error };
        }
        match status.as_u16() {
            429 | 500..=599 => WireError::Unavailable {
                status: status.as_u16(),
            },
            _ => WireError::NotMcp {
                reason: format!("HTTP {status}"),
            },
        }
    }

    async fn whole(&mut self, mut response: Response, limit: usize) -> Result<Vec<u8>, WireError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| body_error(&error))? {
            count(&mut self.received, chunk.len(), self.total_bytes)?;
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
}

fn count(received: &mut usize, bytes: usize, limit: usize) -> Result<(), WireError> {
    *received += bytes;
    if *received > limit {
        return Err(WireError::OverLimit {
            what: "bytes in all",
            limit,
        });
    }
    Ok(())
}

fn content_type(response: &Response) -> String {
    let value = response
        .headers()
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
