//! A lasting conversation with a remote server, many exchanges at a time: the gate's half of streamable HTTP, and of
//! HTTP+SSE where the server is an older one.
//!
//! What headers a message has is the caller's to say; here is how it is carried. A stream that breaks off is taken up
//! again with `Last-Event-ID` where the server gave ids.
//!
//! Invariant: an exchange ends: with its answer, with the end of its stream, or with an error at one of the limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::wire::error::WireError;
use crate::wire::http::answer::{EventStream, Kind, Refusal, judge};
use crate::wire::http::body::Budget;
use crate::wire::http::events::{Events, StreamEvent};
use crate::wire::http::mirror::Posting;
use crate::wire::http::{Endpoint, FAREWELL, HttpClient, RemoteLimits, request};
use crate::wire::sse::Sse;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The first pause before a stream is opened again, where the server names none.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Remote {
    client: Arc<dyn HttpClient>,
    endpoint: Endpoint,
    limits: RemoteLimits,
    turns: Arc<Semaphore>,
    /// Where messages go instead, once the server turned out to be an older one.
    older: Mutex<Option<Url>>,
}

/// An answer by its head.
pub(crate) struct Posted {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) reply: Reply,
}

/// What an answer has for us.
pub(crate) enum Reply {
    /// Nothing: it was a notification or an answer of ours, or the answer comes on the older transport's stream.
    Nothing,
    /// One message.
    Message(Vec<u8>),
    /// A stream of them.
    Stream(Box<Messages>),
}

impl Remote {
    pub(crate) fn new(client: Arc<dyn HttpClient>, endpoint: Endpoint, limits: RemoteLimits) -> Remote {
        let turns = Arc::new(Semaphore::new(limits.requests));
        Remote {
            client,
            endpoint,
            limits,
            turns,
            older: Mutex::new(None),
        }
    }

    pub(crate) fn limits(&self) -> &RemoteLimits {
        &self.limits
    }

    /// Posts one message. One of the client's (`waits`) waits for its turn while too many are open, and has long for its
    /// answer; one of the gate's own goes at once and has as long as a handshake.
    pub(crate) async fn post(
        self: &Arc<Self>,
        headers: HeaderMap,
        message: Vec<u8>,
        waits: bool,
    ) -> Result<Posted, Refusal> {
        let posting = Posting::read(&message);
        let method = known(posting.method.as_deref());
        let is_request = posting.is_request();
        let is_subscription = posting.is("subscriptions/listen");
        let within = match method {
            "initialize" | "server/discover" => self.limits.handshake,
            _ if is_request && waits => self.limits.silence,
            _ => self.limits.handshake,
        };
        let turn = match is_request && waits && !is_subscription {
            true => Arc::clone(&self.turns).acquire_owned().await.ok(),
            false => None,
        };
        let older = self.older.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let url = older.as_ref().unwrap_or(&self.endpoint.url);
        let request = request(&self.endpoint, url, Method::POST, headers.clone(), Some(message))?;
        let mut budget = Budget::endless();
        let late = || WireError::TimedOut { method, within };
        let response = timeout(within, self.client.send(request))
            .await
            .map_err(|_| late())??;
        let (status, answered) = (response.status(), response.headers().clone());
        let is_free = older.is_some() || !is_request;
        let judged = judge(response, method, is_free, self.limits.message_bytes, &mut budget);
        let kind = timeout(within, judged).await.map_err(|_| late())??;
        let reply = match kind {
            _ if is_free => Reply::Nothing,
            Kind::Nothing => return Err(WireError::Ended { method }.into()),
            Kind::Whole(body) => {
                let body = body.whole(self.limits.message_bytes, &mut budget);
                Reply::Message(timeout(within, body).await.map_err(|_| late())??)
            }
            Kind::Stream(body) => {
                let events = Events::new(self.limits.message_bytes, usize::MAX);
                let silence = (!is_subscription).then_some(within);
                Reply::Stream(Box::new(Messages {
                    remote: Arc::clone(self),
                    method,
                    headers,
                    stream: EventStream::new(body, events).within(silence),
                    // A subscription has no answer to come back for.
                    takes_up: !is_subscription,
                    failures: 0,
                    heard: Instant::now(),
                    turn,
                }))
            }
        };
        Ok(Posted {
            status,
            headers: answered,
            reply,
        })
    }

    /// Opens the stream of what the server says unasked. Its head comes with it.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        headers: HeaderMap,
        last_id: Option<&[u8]>,
    ) -> Result<(StatusCode, HeaderMap, Messages), Refusal> {
        let (status, answered, stream) = self.open(headers.clone(), last_id, None).await?;
        let messages = Messages {
            remote: Arc::clone(self),
            method: "GET",
            headers,
            stream,
            takes_up: false,
            failures: 0,
            heard: Instant::now(),
            turn: None,
        };
        Ok((status, answered, messages))
    }

    async fn open(
        &self,
        mut headers: HeaderMap,
        last_id: Option<&[u8]>,
        silence: Option<Duration>,
    ) -> Result<(StatusCode, HeaderMap, EventStream), Refusal> {
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let request = request(&self.endpoint, &self.endpoint.url, Method::GET, headers, None)?;
        let within = self.limits.handshake;
        let opened = async {
            let response = self.client.send(request).await?;
            let (status, answered) = (response.status(), response.headers().clone());
            let mut budget = Budget::endless();
            match judge(response, "GET", false, self.limits.message_bytes, &mut budget).await? {
                Kind::Stream(body) => {
                    let mut events = Events::new(self.limits.message_bytes, usize::MAX);
                    if let Some(id) = last_id {
                        events.go_on_after(id);
                    }
                    Ok((status, answered, EventStream::new(body, events).within(silence)))
                }
                Kind::Nothing | Kind::Whole(_) => Err(WireError::NotMcp {
                    reason: format!("HTTP {status} to GET is no event stream"),
                }
                .into()),
            }
        };
        let late = WireError::TimedOut {
            method: "GET",
            within,
        };
        timeout(within, opened).await.unwrap_or(Err(late.into()))
    }

    /// Tries the older transport after a refusal that leaves it possible; from then on messages are posted to the address
    /// that the stream named.
    pub(crate) async fn open_older(&self, refusal: &Refusal, headers: HeaderMap) -> Option<Older> {
        if !refusal.may_be_older() {
            return None;
        }
        let events = Events::new(self.limits.message_bytes, usize::MAX);
        let mut budget = Budget::endless();
        let sse = Sse::open(&*self.client, &self.endpoint, headers, events, &mut budget)
            .await
            .ok()?;
        *self.older.lock().unwrap_or_else(PoisonError::into_inner) = Some(sse.post_to().clone());
        Some(Older { sse })
    }

    /// Whether messages go the way of the older transport.
    pub(crate) fn is_older(&self) -> bool {
        self.older
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// The older transport's stream ended: the next handshake finds out anew how to speak.
    pub(crate) fn forget_older(&self) {
        *self.older.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Ends a session, politely and shortly. What the server answers, where it does.
    pub(crate) async fn end_session(&self, headers: HeaderMap) -> Option<(StatusCode, HeaderMap)> {
        let request = request(&self.endpoint, &self.endpoint.url, Method::DELETE, headers, None).ok()?;
        let response = timeout(FAREWELL, self.client.send(request)).await.ok()?.ok()?;
        Some((response.status(), response.headers().clone()))
    }
}

/// The messages of one stream.
pub(crate) struct Messages {
    remote: Arc<Remote>,
    method: &'static str,
    headers: HeaderMap,
    stream: EventStream,
    takes_up: bool,
    failures: usize,
    heard: Instant,
    turn: Option<OwnedSemaphorePermit>,
}

impl Messages {
    /// What the stream answers.
    pub(crate) fn method(&self) -> &'static str {
        self.method
    }

    /// What was waited for has come: the stream is not taken up again when it ends, and others have their turn.
    pub(crate) fn has_its_answer(&mut self) {
        self.takes_up = false;
        self.turn = None;
    }

    /// The id after which the stream can be opened again.
    pub(crate) fn last_id(&self) -> Option<&[u8]> {
        self.stream.events.last_id()
    }

    /// How long the server wants us to wait before that.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.stream.events.retry()
    }

    /// The next one; `None` when the stream ended.
    pub(crate) async fn next(&mut self) -> Result<Option<StreamEvent>, WireError> {
        loop {
            let ended = match self.stream.next(&mut Budget::endless()).await {
                Ok(Some(event)) => {
                    self.failures = 0;
                    self.heard = Instant::now();
                    return Ok(Some(event));
                }
                ended @ (Ok(None) | Err(WireError::Http(_))) => ended,
                Err(error) => return Err(error),
            };
            let limits = self.remote.limits.clone();
            let Some(id) = self
                .stream
                .events
                .last_id()
                .filter(|_| self.takes_up)
                .map(<[u8]>::to_vec)
            else {
                return ended;
            };
            let Some(stream) = self.take_up(&id, &limits).await else {
                return ended;
            };
            self.stream = stream;
        }
    }

    async fn take_up(&mut self, id: &[u8], limits: &RemoteLimits) -> Option<EventStream> {
        while self.failures < limits.resumptions && self.heard.elapsed() < limits.silence {
            sleep(pause(self.failures, self.stream.events.retry(), limits.pause)).await;
            let opened = self
                .remote
                .open(self.headers.clone(), Some(id), Some(limits.silence))
                .await;
            match opened {
                Ok((_, _, stream)) => return Some(stream),
                // It says that it knows no such stream.
                Err(Refusal {
                    answered: Some(answered),
                    ..
                }) if answered.status.is_client_error() => return None,
                Err(_) => self.failures += 1,
            }
        }
        None
    }
}

/// The stream of the older transport, on which everything comes that the server says.
pub(crate) struct Older {
    sse: Sse,
}

impl Older {
    /// The next message; `None` when the stream ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        self.sse.next(&mut Budget::endless()).await
    }
}

/// How long to wait before a stream is opened for the `failures + 1`st time: as the server wants it, else longer each time.
pub(crate) fn pause(failures: usize, retry: Option<Duration>, longest: Duration) -> Duration {
    let factor = 1_u32 << failures.min(16);
    retry.unwrap_or(FIRST_PAUSE).saturating_mul(factor).min(longest)
}

/// The method's name for a line, where it is one of the protocol's.
fn known(method: Option<&str>) -> &'static str {
    const KNOWN: [&str; 10] = [
        "initialize",
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "subscriptions/listen",
    ];
    KNOWN
        .into_iter()
        .find(|known| Some(*known) == method)
        .unwrap_or("POST")
}
