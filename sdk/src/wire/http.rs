//! Streamable HTTP, both eras: one POST a message, answered by JSON or by an event stream; and, to a server that answers
//! the first POST as those of 2024-11-05 do, HTTP+SSE (`sse`).
//!
//! The HTTP client comes from the caller, who decides which addresses may be contacted. `Http` is an inspection's
//! conversation, one question at a time: it opens no separate stream of a GET and takes up no broken one. `remote` is the
//! gate's: many at a time, and both of these.
//!
//! Invariant: every byte of a body is counted before it is kept, no redirect is followed here, and the caller's headers go
//! to the origin that it named and to no other.

pub(crate) mod answer;
pub(in crate::wire) mod body;
pub(crate) mod events;
pub(crate) mod mirror;
pub(crate) mod remote;

use std::error::Error;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use crate::wire::error::WireError;
use crate::wire::http::answer::{EventStream, Kind, Refusal, judge};
use crate::wire::http::body::Budget;
use crate::wire::http::events::Events;
use crate::wire::limits::Limits;
use crate::wire::read_only::{Ask, MODERN};
use crate::wire::sse::Sse;

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
    /// More than allowed.
    #[error("more than {limit} {what}")]
    OverLimit {
        /// What there is too much of, in the plural.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The answer leads elsewhere, and the caller's rules follow it no further.
    #[error("{reason}")]
    NotFollowed {
        /// One line that names no more of the target than its origin.
        reason: String,
    },
}

impl HttpError {
    /// Why the HTTP client had no answer, in as few words as help.
    pub fn of(error: &reqwest::Error) -> HttpError {
        if error.is_timeout() {
            return HttpError::TimedOut;
        }
        let causes = || std::iter::successors(error.source(), |cause| (*cause).source());
        // An I/O error hides the TLS error inside it from `source`.
        let tls = causes().find_map(|cause| {
            let inner = cause
                .downcast_ref::<std::io::Error>()
                .and_then(std::io::Error::get_ref);
            cause
                .downcast_ref::<rustls::Error>()
                .or_else(|| inner?.downcast_ref::<rustls::Error>())
        });
        match tls {
            Some(error) => HttpError::Tls {
                reason: error.to_string(),
            },
            None => HttpError::Unreachable {
                reason: causes()
                    .last()
                    .map_or_else(|| error.to_string(), ToString::to_string),
            },
        }
    }
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
    /// How long a client over HTTP may take to send a body (30 s).
    pub body: Duration,
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
            body: Duration::from_secs(30),
        }
    }
}

/// How long the farewell to a session may take.
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// A request to `url` with the endpoint's headers and these, which yield to the endpoint's. `url` is of the endpoint's
/// origin.
pub(in crate::wire) fn request(
    endpoint: &Endpoint,
    url: &url::Url,
    method: Method,
    mut headers: HeaderMap,
    body: Option<Vec<u8>>,
) -> Result<Request, HttpError> {
    let mut own = HeaderMap::new();
    for (name, value) in &endpoint.headers {
        let unfit = || HttpError::Unreachable {
            reason: format!("the header `{name}` can't be sent"),
        };
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| unfit())?;
        value.set_sensitive(true);
        own.append(
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit())?,
            value,
        );
    }
    headers.extend(own);
    headers.entry(header::ACCEPT).or_insert_with(|| {
        HeaderValue::from_static(match method {
            Method::GET => "text/event-stream",
            _ => "application/json, text/event-stream",
        })
    });
    // A body that is not packed can't unpack to more than was counted.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut request = Request::new(method, url.clone());
    if let Some(body) = body {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Some(body.into());
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// An inspection's conversation with one endpoint.
pub(in crate::wire) struct Http<'c> {
    client: &'c dyn HttpClient,
    endpoint: &'c Endpoint,
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
    answer: Open,
    older: Option<Sse>,
    budget: Budget,
    message_bytes: usize,
    stream_events: usize,
}

/// The answer to the question that is open.
enum Open {
    Nothing,
    Message(Vec<u8>),
    Stream(Box<EventStream>),
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
            answer: Open::Nothing,
            older: None,
            budget: Budget::of(limits),
            message_bytes: limits.message_bytes,
            stream_events: limits.stream_events,
        }
    }

    /// From now on every request names this version.
    pub(in crate::wire) fn settle(&mut self, version: &str) {
        self.version = HeaderValue::from_str(version).ok();
    }

    /// Posts one message and keeps its answer for [`Http::receive`].
    pub(in crate::wire) async fn send(&mut self, text: &str, method: &'static str) -> Result<(), WireError> {
        self.answer = Open::Nothing;
        let refusal = match self.post(text, method).await {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        if method == Ask::Initialize.method() && self.older.is_none() && refusal.may_be_older() {
            let events = Events::new(self.message_bytes, self.stream_events);
            let headers = HeaderMap::new();
            if let Ok(older) = Sse::open(self.client, self.endpoint, headers, events, &mut self.budget).await
            {
                self.older = Some(older);
                return self.post(text, method).await.map_err(Refusal::into_error);
            }
        }
        Err(refusal.into_error())
    }

    /// Posts an answer of ours; the open question's answer stays where it is.
    pub(in crate::wire) async fn send_beside(
        &mut self,
        text: &str,
        method: &'static str,
    ) -> Result<(), WireError> {
        let request = self.message(text, method)?;
        self.client.send(request).await.map(drop).map_err(WireError::from)
    }

    async fn post(&mut self, text: &str, method: &'static str) -> Result<(), Refusal> {
        let request = self.message(text, method)?;
        let response = self.client.send(request).await?;
        if method == Ask::Initialize.method() {
            self.session = response.headers().get(SESSION).cloned();
        }
        // The older transport answers on its stream, and a POST with whatever it likes.
        let is_notification = self.older.is_some() || method.starts_with("notifications/");
        let kind = judge(
            response,
            method,
            is_notification,
            self.message_bytes,
            &mut self.budget,
        )
        .await?;
        self.answer = match kind {
            _ if self.older.is_some() => Open::Nothing,
            Kind::Nothing => Open::Nothing,
            Kind::Whole(body) => Open::Message(body.whole(self.message_bytes, &mut self.budget).await?),
            Kind::Stream(body) => {
                let events = Events::new(self.message_bytes, self.stream_events);
                Open::Stream(Box::new(EventStream::new(body, events)))
            }
        };
        Ok(())
    }

    /// The next message of the open answer. Safe to drop half-way.
    pub(in crate::wire) async fn receive(&mut self, method: &'static str) -> Result<Vec<u8>, WireError> {
        if let Some(older) = &mut self.older {
            return match older.next(&mut self.budget).await? {
                Some(message) => Ok(message),
                None => Err(WireError::Ended { method }),
            };
        }
        match std::mem::replace(&mut self.answer, Open::Nothing) {
            Open::Nothing => Err(WireError::Ended { method }),
            Open::Message(message) => Ok(message),
            Open::Stream(stream) => {
                // Put back before it is waited on: whoever drops this half-way goes on with the same stream.
                self.answer = Open::Stream(stream);
                let Open::Stream(stream) = &mut self.answer else {
                    return Err(WireError::Ended { method });
                };
                let event = stream.next(&mut self.budget).await?;
                match event {
                    Some(event) => Ok(event.data),
                    None => {
                        self.answer = Open::Nothing;
                        Err(WireError::Ended { method })
                    }
                }
            }
        }
    }

    /// Ends the session, when the server gave one.
    pub(in crate::wire) async fn close(mut self) {
        self.answer = Open::Nothing;
        if self.session.is_some()
            && let Ok(request) = self.request(Method::DELETE, None)
        {
            let _ = timeout(FAREWELL, self.client.send(request)).await;
        }
    }

    fn message(&self, text: &str, method: &'static str) -> Result<Request, HttpError> {
        let mut request = self.request(Method::POST, Some(text))?;
        let modern = HeaderValue::from_static(MODERN);
        if method == Ask::Discover.method() || self.version.as_ref() == Some(&modern) {
            request
                .headers_mut()
                .insert(METHOD, HeaderValue::from_static(method));
            request.headers_mut().insert(VERSION, modern);
        }
        Ok(request)
    }

    fn request(&self, method: Method, body: Option<&str>) -> Result<Request, HttpError> {
        let mut headers = HeaderMap::new();
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
        let url = self.older.as_ref().map_or(&self.endpoint.url, Sse::post_to);
        let body = body.map(|body| body.as_bytes().to_vec());
        request(self.endpoint, url, method, headers, body)
    }
}
