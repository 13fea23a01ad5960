//! A client on two byte streams, to a server over HTTP: it knows nothing of sessions and headers, so they are kept here.
//!
//! Invariant: a session's id goes to the server that gave it and ends with the next handshake; a message's headers say
//! what its body says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use crate::gate::Channel;
use crate::gate::refusal::error_answer;
use crate::proxy::http::client_side::{Asked, ClientSide, answered_id};
use crate::proxy::http::relay::Relay;
use crate::proxy::http::{Notice, Tell};
use crate::wire::error::WireError;
use crate::wire::http::answer::Refusal;
use crate::wire::http::mirror::{MarkedArguments, Posting};
use crate::wire::http::remote::{Posted, pause};
use crate::wire::http::{SESSION, VERSION};
use crate::wire::message::{members, string};

/// The server could not be asked, or gave no answer that is one (a JSON-RPC internal error).
pub(in crate::proxy) const NO_ANSWER: i64 = -32603;

/// Bytes that may wait for the client to read them before the server is not read any more; a longer message waits alone.
const QUEUE_BYTES: u32 = 1 << 20;

/// What the writer is given.
pub(super) enum Said {
    /// A message, and its place in the queue.
    Message(Vec<u8>, Option<OwnedSemaphorePermit>),
    /// Nothing before it is left unwritten when this is answered.
    Last(oneshot::Sender<()>),
}

/// See the module.
pub(super) struct Terminal {
    say: mpsc::UnboundedSender<Said>,
    room: Arc<Semaphore>,
    tell: Tell,
    /// Ends it all, once the client is told why.
    finish: watch::Sender<bool>,
    /// The header whose credential the server gets, if any.
    credential: Option<String>,
    conversation: Mutex<Conversation>,
}

#[derive(Default)]
struct Conversation {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// The version of the new era, where the client speaks that.
    modern: Option<String>,
    marked: MarkedArguments,
    /// Ends the stream of what the server says unasked, when dropped.
    unasked: Option<oneshot::Sender<()>>,
    sign_in: Option<String>,
}

impl Terminal {
    pub(super) fn new(
        say: mpsc::UnboundedSender<Said>,
        tell: Tell,
        finish: watch::Sender<bool>,
        credential: Option<String>,
    ) -> Terminal {
        Terminal {
            say,
            room: Arc::new(Semaphore::new(QUEUE_BYTES as usize)),
            tell,
            finish,
            credential,
            conversation: Mutex::default(),
        }
    }

    /// The headers to end the session with, when there is one.
    pub(super) fn farewell(&self) -> Option<HeaderMap> {
        let mut conversation = self.conversation();
        conversation.unasked = None;
        let headers = conversation.headers();
        conversation.session.take().map(|_| headers)
    }

    /// The line that says so, once the server has refused the handshake for want of a sign-in.
    pub(super) fn wants_sign_in(&self) -> Option<String> {
        self.conversation().sign_in.clone()
    }

    fn conversation(&self) -> MutexGuard<'_, Conversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of a message, in one line, and whether a person has to do something before another try.
    fn explain(&self, asked: &Asked, refusal: &Refusal) -> (String, bool) {
        let status = refusal.answered.as_ref().map(|answered| answered.status.as_u16());
        match (&refusal.error, status) {
            (WireError::AuthRequired { status }, _) => (self.sign_in(*status), true),
            (_, Some(404)) if self.forget_session() => (
                "HTTP 404: the server has ended the session; a new one begins with a new connection"
                    .to_owned(),
                false,
            ),
            (error, _) => {
                let about = asked.method.as_deref().unwrap_or("an answer");
                (format!("`{about}` got no answer: {error}"), false)
            }
        }
    }

    /// Whether there was one.
    fn forget_session(&self) -> bool {
        let mut conversation = self.conversation();
        conversation.unasked = None;
        conversation.session.take().is_some()
    }

    fn sign_in(&self, status: u16) -> String {
        match &self.credential {
            None => format!(
                "HTTP {status}: the server wants a sign-in: give its token with --bearer-env VARIABLE, or its key with \
                 --header 'NAME: VALUE' (signing in from here comes later)"
            ),
            Some(name) => format!(
                "HTTP {status}: the server does not accept the credential in the header `{name}`: renew it, or give another \
                 with --bearer-env VARIABLE or --header 'NAME: VALUE'"
            ),
        }
    }
}

impl Terminal {
    fn answer_instead(&self, asked: &Asked, refusal: &Refusal) -> Option<Vec<u8>> {
        let id = asked.id.as_deref().filter(|_| asked.channel != Channel::OWN);
        let gone = refusal
            .answered
            .as_ref()
            .is_some_and(|answered| answered.status == 404)
            && self.conversation().session.is_some();
        if let (WireError::Refused { error, .. }, Some(answered), false) =
            (&refusal.error, &refusal.answered, gone)
        {
            // The server's own words about this request: no matter for a line.
            if answered_id(&answered.body).is_some_and(|answered| asked.id.as_deref() == Some(answered)) {
                return Some(answered.body.clone());
            }
            return Some(error_answer(id?, error.code.unwrap_or(NO_ANSWER), &error.message));
        }
        let (line, is_sign_in) = self.explain(asked, refusal);
        let answer = id.map(|id| error_answer(id, NO_ANSWER, &line));
        if is_sign_in && asked.is_handshake() {
            self.conversation().sign_in = Some(line);
        } else {
            (self.tell)(Notice::Line(line));
        }
        answer
    }
}

impl Conversation {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
        headers
    }
}

impl ClientSide for Terminal {
    fn headers(&self, asked: &Asked, posting: &Posting<'_>) -> HeaderMap {
        let mut conversation = self.conversation();
        if asked.is("initialize") {
            *conversation = Conversation::default();
            return HeaderMap::new();
        }
        if let Some(version) = &asked.modern {
            conversation.modern = Some(version.clone());
        }
        match &conversation.modern {
            Some(version) => posting.modern_headers(version, &conversation.marked),
            None => conversation.headers(),
        }
    }

    fn begins(&self, _: &Asked) {}

    fn head<'a>(&'a self, asked: &'a Asked, posted: &'a Posted) -> BoxFuture<'a, ()> {
        if asked.is("initialize") {
            self.conversation().session = posted.headers.get(SESSION).cloned();
        }
        futures::future::ready(()).boxed()
    }

    fn heard(&self, asked: &Asked, message: &[u8]) {
        if asked.is("initialize") && answered_id(message) == asked.id.as_deref() {
            let version = std::str::from_utf8(message)
                .ok()
                .and_then(|text| members(text, ["result"]).ok())
                .and_then(|[result]| members(result?, ["protocolVersion"]).ok())
                .and_then(|[version]| version.and_then(string));
            self.conversation().version = version.and_then(|version| HeaderValue::from_str(&version).ok());
        }
        let mut conversation = self.conversation();
        if asked.is("tools/list") && conversation.modern.is_some() {
            conversation.marked.learn(message);
        }
    }

    fn told(&self, relay: &Arc<Relay<Terminal>>, asked: &Asked) {
        if !asked.is("notifications/initialized") {
            return;
        }
        let mut conversation = self.conversation();
        if relay.remote.is_older() {
            return;
        }
        let (end, mut ended) = oneshot::channel();
        let headers = conversation.headers();
        conversation.unasked = Some(end);
        let relay_too = Arc::clone(relay);
        relay.run(async move {
            tokio::select! {
                () = hear_unasked(relay_too, headers) => {}
                _ = &mut ended => {}
            }
        });
    }

    fn refused<'a>(&'a self, asked: &'a Asked, refusal: Refusal) -> BoxFuture<'a, Option<Vec<u8>>> {
        futures::future::ready(self.answer_instead(asked, &refusal)).boxed()
    }

    fn ends<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, ()> {
        if self.wants_sign_in().is_some() {
            self.finish.send_replace(true);
        }
        futures::future::ready(()).boxed()
    }

    fn leaves_to_cancel(&self) -> bool {
        self.conversation().modern.is_some()
    }

    fn deliver(&self, _: Channel, mut message: Vec<u8>) -> BoxFuture<'_, ()> {
        async move {
            keep_to_one_line(&mut message);
            let bytes = u32::try_from(message.len())
                .unwrap_or(QUEUE_BYTES)
                .min(QUEUE_BYTES);
            let place = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok();
            // Fails when the writer has ended, and then all ends.
            let _ = self.say.send(Said::Message(message, place));
        }
        .boxed()
    }
}

/// Over HTTP a message may span lines; to this client each line would be a message of its own, and one that nobody judged.
/// In JSON a line feed stands between values only, as good as a space.
fn keep_to_one_line(message: &mut [u8]) {
    let mut from = 0;
    while let Some(found) = message.get(from..).and_then(|rest| memchr::memchr(b'\n', rest)) {
        from += found;
        if let Some(byte) = message.get_mut(from) {
            *byte = b' ';
        }
    }
}

/// What the server says unasked, on a stream of its own that is opened again when it breaks off. Most servers have none.
async fn hear_unasked(relay: Arc<Relay<Terminal>>, headers: HeaderMap) {
    let mut failures = 0;
    let mut last_id: Option<Vec<u8>> = None;
    let mut retry = None;
    let mut was_open = false;
    loop {
        match relay.remote.listen(headers.clone(), last_id.as_deref()).await {
            Ok((_, _, mut messages)) => {
                let opened = Instant::now();
                if std::mem::replace(&mut was_open, true) {
                    // What it said in between is lost.
                    relay.changed_unseen();
                }
                loop {
                    match messages.next().await {
                        Ok(Some(event)) => {
                            failures = 0;
                            relay.from_server(Channel::ONLY, event.data).await;
                        }
                        Ok(None) | Err(WireError::Http(_)) => break,
                        Err(error) => {
                            relay.line(format!("the stream of its own messages is given up: {error}"));
                            return;
                        }
                    }
                }
                if opened.elapsed() > relay.remote.limits().pause {
                    failures = 0;
                }
                last_id = messages.last_id().map(<[u8]>::to_vec);
                retry = messages.retry();
            }
            Err(Refusal {
                answered: Some(answered),
                ..
            }) if answered.status.is_client_error() => return,
            Err(refusal) if failures == 0 => {
                relay.line(format!(
                    "the stream of its own messages can't be opened: {}",
                    refusal.error
                ));
            }
            Err(_) => {}
        }
        sleep(pause(failures, retry, relay.remote.limits().pause)).await;
        failures += 1;
    }
}
