//! One session of a client over HTTP: which of its requests are open, what each is still owed, and the stream of what the
//! server says unasked.
//!
//! Invariants: a message goes to the request that it belongs to or to nobody; the gate's own questions are asked with
//! this session's id and credential and no other's.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, StatusCode};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::gate::Channel;
use crate::gate::refusal::error_answer;
use crate::proxy::http::client_side::{Asked, ClientSide, answered_id};
use crate::proxy::http::relay::Relay;
use crate::proxy::http::terminal::NO_ANSWER;
use crate::proxy::http::{Notice, Tell, credential};
use crate::proxy::listen::Said;
use crate::wire::error::WireError;
use crate::wire::http::answer::Refusal;
use crate::wire::http::mirror::{MarkedArguments, Posting, mend};
use crate::wire::http::remote::{Posted, Reply};
use crate::wire::http::{SESSION, VERSION};
use crate::wire::message::{self, Answer, Message};

/// Parts of one answer that wait for the client to read them.
const PARTS: usize = 4;

/// Messages that wait for the client to read them on the stream of what was not asked for.
const QUEUE: usize = 16;

/// Messages that are kept while no such stream is open.
const KEPT: usize = 16;

/// Bytes of them: a server can send long ones, and a client may never listen.
const KEPT_BYTES: usize = 1 << 20;

/// How long such a stream may take nothing before it is hung up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session with its gate.
pub(super) type SessionRelay = Relay<Session>;

/// What an open request is answered with, in this order.
pub(super) enum Part {
    /// The server's answer began.
    Head(Head),
    /// A message.
    Message {
        message: Vec<u8>,
        /// Nothing more is owed.
        is_last: bool,
    },
    /// The server gave no answer; nothing follows.
    Refused(Refusal),
}

/// How a server's answer began.
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) is_stream: bool,
    /// Whether the answer itself is in it, so that its status is the answer's.
    pub(super) has_answer: bool,
}

/// The stream of what was not asked for.
pub(super) struct Unasked {
    pub(super) messages: mpsc::Receiver<Vec<u8>>,
    /// Closed when the client is gone.
    pub(super) gone: mpsc::Sender<Vec<u8>>,
}

/// See the module.
pub(super) struct Session {
    is_modern: bool,
    /// Whether the server gave the id; else it is ours.
    has_own_id: AtomicBool,
    channels: AtomicU64,
    open: Mutex<HashMap<Channel, Open>>,
    own: Mutex<Own>,
    unasked: Mutex<Listeners>,
    tell: Tell,
}

/// An open request of the client.
struct Open {
    parts: mpsc::Sender<Part>,
    headers: HeaderMap,
    /// Answers that are due.
    due: usize,
    /// Exchanges with the server.
    under_way: usize,
    said: Said,
    has_head: bool,
}

/// What the gate's own questions are asked with.
#[derive(Default)]
struct Own {
    headers: HeaderMap,
    modern: Option<String>,
    marked: MarkedArguments,
}

#[derive(Default)]
struct Listeners {
    streams: Vec<mpsc::Sender<Vec<u8>>>,
    kept: VecDeque<Vec<u8>>,
    last_id: Option<Vec<u8>>,
    heard_before: bool,
}

impl Session {
    pub(super) fn new(is_modern: bool, tell: Tell) -> Session {
        Session {
            is_modern,
            has_own_id: AtomicBool::new(false),
            channels: AtomicU64::new(1),
            open: Mutex::default(),
            own: Mutex::default(),
            unasked: Mutex::default(),
            tell,
        }
    }

    fn open_requests(&self) -> MutexGuard<'_, HashMap<Channel, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.unasked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server gave this session its id.
    pub(super) fn has_own_id(&self) -> bool {
        self.has_own_id.load(Ordering::Relaxed)
    }

    /// The server gave it an id.
    pub(super) fn take_id(&self, id: &axum::http::HeaderValue) {
        self.has_own_id.store(true, Ordering::Relaxed);
        self.own().headers.insert(SESSION, id.clone());
    }

    /// Whether anything is open.
    pub(super) fn is_busy(&self) -> bool {
        let mut listeners = self.listeners();
        listeners.streams.retain(|stream| !stream.is_closed());
        !listeners.streams.is_empty() || !self.open_requests().is_empty()
    }

    /// Whether a request of this id waits for its answer.
    pub(super) fn has_open(&self, id: &str) -> bool {
        let open = self.open_requests();
        open.values()
            .any(|open| open.due > 0 && open.said.id.as_deref() == Some(id))
    }

    /// A POST of the client. The channel is its own, and what it is answered with comes out here.
    pub(super) fn open(&self, headers: HeaderMap, said: &Said) -> (Channel, mpsc::Receiver<Part>) {
        let channel = Channel(self.channels.fetch_add(1, Ordering::Relaxed));
        let (parts, received) = mpsc::channel(PARTS);
        let open = Open {
            parts,
            headers,
            due: said.requests,
            said: said.clone(),
            under_way: 0,
            has_head: false,
        };
        self.open_requests().insert(channel, open);
        (channel, received)
    }

    /// The gate has seen all of it.
    pub(super) fn said(&self, channel: Channel) {
        self.close_if_done(&mut self.open_requests(), channel);
    }

    fn close_if_done(&self, open: &mut HashMap<Channel, Open>, channel: Channel) {
        if open
            .get(&channel)
            .is_some_and(|open| open.due == 0 && open.under_way == 0)
        {
            open.remove(&channel);
        }
    }

    /// Opens a stream of what was not asked for; what was kept for it is there at once.
    pub(super) fn listen(&self) -> Unasked {
        let (gone, messages) = mpsc::channel(QUEUE);
        let mut listeners = self.listeners();
        listeners.heard_before = true;
        while let Some(message) = listeners.kept.pop_front() {
            // There is room for all that is kept.
            let _ = gone.try_send(message);
        }
        listeners.streams.push(gone.clone());
        Unasked { messages, gone }
    }

    /// Ends a stream.
    pub(super) fn hang_up(&self, stream: &mpsc::Sender<Vec<u8>>) {
        self.listeners()
            .streams
            .retain(|open| !open.same_channel(stream) && !open.is_closed());
    }

    /// Whether such a stream was open before.
    pub(super) fn was_heard_before(&self) -> bool {
        self.listeners().heard_before
    }

    /// The id after which the server's stream goes on.
    pub(super) fn last_id(&self) -> Option<Vec<u8>> {
        self.listeners().last_id.clone()
    }

    /// Keeps that id.
    pub(super) fn remember(&self, last_id: Option<&[u8]>) {
        self.listeners().last_id = last_id.map(<[u8]>::to_vec);
    }

    async fn say_unasked(&self, message: Vec<u8>) {
        loop {
            let stream = {
                let mut listeners = self.listeners();
                listeners.streams.retain(|stream| !stream.is_closed());
                match listeners.streams.last() {
                    Some(stream) => stream.clone(),
                    None => {
                        listeners.kept.push_back(message);
                        let bytes = |kept: &VecDeque<Vec<u8>>| kept.iter().map(Vec::len).sum::<usize>();
                        while listeners.kept.len() > KEPT || bytes(&listeners.kept) > KEPT_BYTES {
                            listeners.kept.pop_front();
                        }
                        return;
                    }
                }
            };
            match timeout(PATIENCE, stream.reserve()).await {
                Ok(Ok(place)) => return place.send(message),
                Ok(Err(_)) => {}
                Err(_) => self.hang_up(&stream),
            }
        }
    }
}

/// Whether a message is an answer with a result.
pub(super) fn is_result(message: &[u8]) -> bool {
    std::str::from_utf8(message).is_ok_and(|text| {
        matches!(
            message::read(text),
            Message::Response {
                answer: Answer::Result(_),
                ..
            }
        )
    })
}

impl ClientSide for Session {
    fn headers(&self, asked: &Asked, posting: &Posting<'_>) -> HeaderMap {
        if let Some(open) = self.open_requests().get(&asked.channel) {
            let mut headers = open.headers.clone();
            mend(&mut headers, posting);
            return headers;
        }
        let own = self.own();
        let mut headers = own.headers.clone();
        if let Some(version) = asked.modern.as_ref().or(own.modern.as_ref()) {
            headers.remove(SESSION);
            headers.extend(posting.modern_headers(version, &own.marked));
        }
        headers
    }

    fn begins(&self, asked: &Asked) {
        if let Some(open) = self.open_requests().get_mut(&asked.channel) {
            open.under_way += 1;
        }
    }

    fn head<'a>(&'a self, asked: &'a Asked, posted: &'a Posted) -> BoxFuture<'a, ()> {
        if asked.is("initialize")
            && let Some(id) = posted.headers.get(SESSION)
        {
            self.take_id(id);
        }
        let parts = {
            let mut open = self.open_requests();
            let Some(open) = open.get_mut(&asked.channel) else {
                return ready(()).boxed();
            };
            // The server has taken it, so its credential is good for the gate's own questions.
            let mut own = self.own();
            let name = credential(open.headers.keys().map(HeaderName::as_str));
            for name in [Some(VERSION), name.and_then(|name| name.parse().ok())]
                .into_iter()
                .flatten()
            {
                if let Some(value) = open.headers.get(&name) {
                    own.headers.insert(name, value.clone());
                }
            }
            if asked.modern.is_some() {
                own.modern.clone_from(&asked.modern);
            }
            open.has_head |= matches!(posted.reply, Reply::Stream(_));
            open.parts.clone()
        };
        let head = Head {
            status: posted.status,
            headers: posted.headers.clone(),
            is_stream: matches!(posted.reply, Reply::Stream(_)),
            has_answer: !matches!(posted.reply, Reply::Nothing) || asked.id.is_none(),
        };
        async move {
            // Fails when the client is gone.
            let _ = parts.send(Part::Head(head)).await;
        }
        .boxed()
    }

    fn heard(&self, asked: &Asked, message: &[u8]) {
        if asked.is("tools/list") && self.is_modern {
            self.own().marked.learn(message);
        }
    }

    fn told(&self, _: &Arc<SessionRelay>, _: &Asked) {}

    fn refused<'a>(&'a self, asked: &'a Asked, refusal: Refusal) -> BoxFuture<'a, Option<Vec<u8>>> {
        if refusal.answered.is_none() || asked.channel == Channel::OWN {
            let about = asked.method.as_deref().unwrap_or("an answer");
            let line = format!("`{about}` got no answer: {}", refusal.error);
            (self.tell)(Notice::Line(line));
        }
        let is_the_answer = refusal
            .answered
            .as_ref()
            .filter(|_| matches!(refusal.error, WireError::Refused { .. }))
            .is_some_and(|answered| asked.id.is_some() && answered_id(&answered.body) == asked.id.as_deref());
        let (part, answer, parts) = {
            let mut open = self.open_requests();
            let Some(request) = open.get(&asked.channel) else {
                let body = refusal
                    .answered
                    .filter(|_| is_the_answer)
                    .map(|answered| answered.body);
                return ready(body).boxed();
            };
            let parts = request.parts.clone();
            match refusal.answered {
                Some(answered) if is_the_answer => {
                    let head = Head {
                        status: answered.status,
                        headers: answered.headers,
                        is_stream: false,
                        has_answer: true,
                    };
                    (Part::Head(head), Some(answered.body), parts)
                }
                answered if request.said.is_batch || request.has_head => {
                    drop(answered);
                    let line = refusal.error.to_string();
                    let answer = asked.id.as_deref().map(|id| error_answer(id, NO_ANSWER, &line));
                    return ready(answer).boxed();
                }
                answered => {
                    // What the gate says about it is said in these words already.
                    open.remove(&asked.channel);
                    let error = refusal.error;
                    (Part::Refused(Refusal { error, answered }), None, parts)
                }
            }
        };
        async move {
            // Fails when the client is gone.
            let _ = parts.send(part).await;
            answer
        }
        .boxed()
    }

    fn ends<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, ()> {
        let mut open = self.open_requests();
        if let Some(request) = open.get_mut(&asked.channel) {
            request.under_way = request.under_way.saturating_sub(1);
        }
        self.close_if_done(&mut open, asked.channel);
        ready(()).boxed()
    }

    fn leaves_to_cancel(&self) -> bool {
        self.is_modern
    }

    fn deliver(&self, channel: Channel, message: Vec<u8>) -> BoxFuture<'_, ()> {
        if channel == Channel::ONLY {
            return self.say_unasked(message).boxed();
        }
        let (parts, is_last) = {
            let mut open = self.open_requests();
            let Some(request) = open.get_mut(&channel) else {
                drop(open);
                // News may be told when what brought them is answered already; an answer or a question is nobody else's.
                return match Posting::read(&message).id {
                    None if !self.is_modern => self.say_unasked(message).boxed(),
                    _ => ready(()).boxed(),
                };
            };
            let is_answer = answered_id(&message).is_some();
            request.due = request.due.saturating_sub(usize::from(is_answer));
            request.has_head = true;
            (request.parts.clone(), is_answer && request.due == 0)
        };
        async move {
            // Fails when the client is gone.
            let _ = parts.send(Part::Message { message, is_last }).await;
            self.close_if_done(&mut self.open_requests(), channel);
        }
        .boxed()
    }
}

/// Goes with a request of the client; dropped early, the client is gone.
pub(super) struct Leaving {
    relay: Arc<SessionRelay>,
    channel: Channel,
}

impl Leaving {
    pub(super) fn new(relay: Arc<SessionRelay>, channel: Channel) -> Leaving {
        Leaving { relay, channel }
    }

    /// Resolves once its session has ended.
    pub(super) async fn session_ended(&self) {
        self.relay.ended().await;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let owed = self.relay.client.open_requests().remove(&self.channel);
        // Until 2025-11-25 a lost connection is no cancellation; from then on it is the only one.
        let Some(Open { due: 1.., said, .. }) = owed else {
            return;
        };
        if let Some(id) = said.id.filter(|_| self.relay.client.is_modern) {
            let params = format!(r#"{{"requestId":{id}}}"#);
            let cancelled = message::notification("notifications/cancelled", &params).into_bytes();
            let (relay, channel) = (Arc::clone(&self.relay), self.channel);
            self.relay
                .run(async move { relay.from_client(channel, cancelled).await });
        }
    }
}
