//! `mcpindex gate --listen ADDR`: loopback HTTP in, HTTP out, one gate for each session of a client.
//!
//! Invariant: only loopback is listened on, and a request whose Origin or Host is not ours is refused.

mod door;
mod reply;
mod session;
mod sessions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::any;
use tokio::net::TcpListener;
use tokio::time::{interval, timeout};

use crate::gate::{Channel, Gate};
use crate::pins::AuthContext;
use crate::proxy::drill::Drill;
use crate::proxy::http::{Tell, credential};
use crate::state::StateDirectory;
use crate::wire::error::WireError;
use crate::wire::http::answer::content_type;
use crate::wire::http::mirror::Posting;
use crate::wire::http::remote::Remote;
use crate::wire::http::{Endpoint, HttpClient, RemoteLimits, SESSION, VERSION};
use crate::wire::message::elements;
use crate::wire::read_only::MODERN;
use reply::Refused;
use session::{Part, Session, Unasked};
use sessions::{Entry, Sessions};

/// Messages of one batch.
const BATCH: usize = 1_000;

/// Where to listen, where the server is, and what may be taken from both sides.
pub struct ListenOptions {
    /// A loopback address; port 0 is a free one.
    pub address: SocketAddr,
    /// Sends the requests; must follow no redirect and must have no time limit for a whole answer.
    pub client: Arc<dyn HttpClient>,
    /// The server's URL, and headers for every request beside the client's own.
    pub endpoint: Endpoint,
    /// Bounds on what the server sends and the client posts.
    pub limits: RemoteLimits,
    /// Sessions at a time (256).
    pub sessions: usize,
    /// How long a session may be unused before it is forgotten (30 min).
    pub idle: Duration,
    /// Where a drill is armed; without it there is none.
    pub drills: Option<StateDirectory>,
}

/// A gate for a new session: called with the credentials that the client uses. `--context` is the caller's to put in.
pub type NewGate = Arc<dyn Fn(AuthContext) -> Gate + Send + Sync>;

/// Why nothing is listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Not a loopback address.
    #[error("--listen {0}: only loopback is listened on: 127.0.0.1:PORT or [::1]:PORT")]
    NotLoopback(SocketAddr),
    /// The address can't be had.
    #[error("--listen {address}: {reason}")]
    NotBound {
        /// As asked for.
        address: SocketAddr,
        /// What the system said.
        reason: String,
    },
}

/// Listens until `stop` resolves. `listening` is told the URL that clients use, once. Needs a Tokio runtime with time and
/// I/O.
pub async fn run(
    options: ListenOptions,
    new_gate: NewGate,
    listening: impl FnOnce(&str) + Send,
    tell: Tell,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ListenError> {
    let address = options.address;
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback(address));
    }
    let not_bound = |error: std::io::Error| ListenError::NotBound {
        address,
        reason: error.to_string(),
    };
    let listener = TcpListener::bind(address).await.map_err(not_bound)?;
    let bound = listener.local_addr().map_err(not_bound)?;
    let idle = options.idle;
    let listening_at = Arc::new(Listening {
        bound,
        sessions: Sessions::new(options.sessions, idle),
        options,
        new_gate,
        tell,
    });
    let ending = EndOnDrop(Arc::clone(&listening_at));
    let router = Router::new()
        .route("/mcp", any(serve))
        .fallback(|| async { Refused::NoSuchPath.response() })
        .with_state(Arc::clone(&listening_at));
    listening(&format!("http://{bound}/mcp"));
    let sweep = async {
        let mut now_and_then = interval((idle / 4).max(Duration::from_millis(100)));
        loop {
            now_and_then.tick().await;
            listening_at.sessions.forget_idle();
        }
    };
    let end = tokio::select! {
        served = axum::serve(listener, router) => served.map_err(not_bound),
        () = sweep => Ok(()),
        () = stop => Ok(()),
    };
    drop(ending);
    end
}

/// Ends all sessions when dropped, so that nothing of them outlives whoever listens.
struct EndOnDrop(Arc<Listening>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        for entry in self.0.sessions.drain() {
            entry.relay.end();
        }
    }
}

struct Listening {
    bound: SocketAddr,
    options: ListenOptions,
    new_gate: NewGate,
    tell: Tell,
    sessions: Sessions,
}

async fn serve(State(listening): State<Arc<Listening>>, request: Request) -> Response {
    let served = match door::admit(request.headers(), listening.bound) {
        Err(refused) => Err(refused),
        Ok(()) => match *request.method() {
            Method::POST => listening.post(request).await,
            Method::GET => listening.get(request.headers()).await,
            Method::DELETE => listening.delete(request.headers()).await,
            _ => Err(Refused::Verb),
        },
    };
    served.unwrap_or_else(Refused::response)
}

impl Listening {
    async fn post(self: &Arc<Self>, request: Request) -> Result<Response, Refused> {
        let (head, body) = request.into_parts();
        if content_type(&head.headers) != "application/json" {
            return Err(Refused::ContentType);
        }
        let body = self.body(body).await?;
        let said = Said::read(&body)?;
        let (entry, is_new) = self.session_for(&head.headers, &said, &body)?;
        let relay = &entry.relay;
        let headers = door::for_the_server(&head.headers, !relay.client.has_own_id());
        let (channel, mut parts) = relay.client.open(headers, &said);
        let leaving = session::Leaving::new(Arc::clone(relay), channel);
        let saying = Arc::clone(relay);
        relay.run(async move {
            saying.from_client(channel, body).await;
            saying.client.said(channel);
        });

        let mut answered = None;
        loop {
            let part = tokio::select! {
                part = parts.recv() => part,
                () = relay.ended() => return Err(Refused::Ended),
            };
            match part {
                Some(Part::Head(head)) if head.is_stream => {
                    let id = is_new.then(|| self.sessions.settle(&entry, &head.headers));
                    return Ok(reply::stream(Some(head), id, None, parts, leaving));
                }
                Some(Part::Head(head)) => answered = Some(head),
                Some(Part::Message { message, is_last }) => {
                    let none = HeaderMap::new();
                    let id = if !is_new {
                        None
                    } else if is_last && !session::is_result(&message) {
                        self.sessions.remove(&entry);
                        None
                    } else {
                        let headers = answered.as_ref().map_or(&none, |head| &head.headers);
                        Some(self.sessions.settle(&entry, headers))
                    };
                    return Ok(if is_last && !(said.is_batch && said.requests > 0) {
                        reply::message(answered, id, message, said.requests > 0)
                    } else {
                        reply::stream(answered, id, Some(message), parts, leaving)
                    });
                }
                Some(Part::Refused(refusal)) => {
                    let status = refusal.answered.as_ref().map(|answered| answered.status);
                    // A session that the server has forgotten is none here either.
                    let is_gone = status == Some(StatusCode::NOT_FOUND) && relay.client.has_own_id();
                    if is_new || is_gone {
                        self.sessions.remove(&entry);
                    }
                    return Ok(reply::refusal(refusal, said.id.as_deref()));
                }
                None if said.requests == 0 => return Ok(reply::accepted(answered)),
                None => return Err(Refused::Ended),
            }
        }
    }

    async fn body(&self, body: Body) -> Result<Vec<u8>, Refused> {
        let limit = self.options.limits.message_bytes;
        let read = timeout(self.options.limits.body, to_bytes(body, limit))
            .await
            .map_err(|_| Refused::Slow)?;
        read.map(Vec::from).map_err(|error| {
            let too_long = std::error::Error::source(&error)
                .is_some_and(|cause| cause.to_string().contains("length limit"));
            if too_long {
                Refused::TooLong(limit)
            } else {
                Refused::Cut
            }
        })
    }

    /// The session that a message belongs to, and whether it begins with it.
    fn session_for(
        self: &Arc<Self>,
        headers: &HeaderMap,
        said: &Said,
        body: &[u8],
    ) -> Result<(Arc<Entry>, bool), Refused> {
        if said.is_initialize {
            let entry = self.sessions.begin(|| self.new_session(headers, false))?;
            return Ok((entry, true));
        }
        if let Some(id) = headers.get(SESSION) {
            return Ok((self.sessions.find(id)?, false));
        }
        let posting = Posting::read(body);
        if posting.modern_version().is_none() && !names_modern(headers) {
            return Err(Refused::NoSession);
        }
        let authorization = credential(headers.keys().map(axum::http::HeaderName::as_str))
            .and_then(|name| headers.get(name))
            .map(|value| value.as_bytes().to_vec());
        let client = posting.client_info().unwrap_or_default().to_owned();
        let key = (authorization, client);
        let entry = self
            .sessions
            .of_client(key, said.id.as_deref(), || self.new_session(headers, true))?;
        Ok((entry, false))
    }

    fn new_session(&self, headers: &HeaderMap, is_modern: bool) -> Arc<session::SessionRelay> {
        let names = self
            .options
            .endpoint
            .headers
            .iter()
            .map(|(name, _)| name.as_str());
        let credential =
            credential(names).or_else(|| credential(headers.keys().map(axum::http::HeaderName::as_str)));
        let context = credential.map_or(AuthContext::Anonymous, AuthContext::Header);
        let remote = Remote::new(
            Arc::clone(&self.options.client),
            self.options.endpoint.clone(),
            self.options.limits.clone(),
        );
        let session = Session::new(is_modern, Arc::clone(&self.tell));
        let tell = Arc::clone(&self.tell);
        let drill = self.options.drills.as_ref().map(Drill::of);
        session::SessionRelay::new((self.new_gate)(context), Arc::new(remote), session, tell, drill)
    }

    /// The session that a request without a body is about, which the new era knows none of.
    fn named_session(&self, headers: &HeaderMap) -> Result<Arc<Entry>, Refused> {
        match headers.get(SESSION) {
            Some(id) => self.sessions.find(id),
            None if names_modern(headers) => Err(Refused::Verb),
            None => Err(Refused::NoSession),
        }
    }

    async fn get(&self, headers: &HeaderMap) -> Result<Response, Refused> {
        let entry = self.named_session(headers)?;
        let relay = &entry.relay;
        if relay.remote.is_older() {
            // Its one stream is open already.
            let unasked = relay.client.listen();
            return Ok(reply::unasked(StatusCode::OK, &HeaderMap::new(), unasked));
        }
        let last_id = relay.client.last_id();
        let forward = door::for_the_server(headers, !relay.client.has_own_id());
        let opened = relay.remote.listen(forward, last_id.as_deref()).await;
        let (status, answered, mut messages) = match opened {
            Ok(opened) => opened,
            Err(refusal) => return Ok(reply::refusal(refusal, None)),
        };
        let again = relay.client.was_heard_before();
        let unasked = relay.client.listen();
        let Unasked { gone, .. } = &unasked;
        let (gone, hearing) = (gone.clone(), Arc::clone(relay));
        relay.run(async move {
            if again {
                // What it said in between is lost.
                hearing.changed_unseen();
            }
            loop {
                let next = tokio::select! {
                    next = messages.next() => next,
                    () = gone.closed() => break,
                };
                match next {
                    Ok(Some(event)) => hearing.from_server(Channel::ONLY, event.data).await,
                    Ok(None) | Err(WireError::Http(_)) => break,
                    Err(error) => {
                        hearing.line(format!("the stream of its own messages is cut off: {error}"));
                        break;
                    }
                }
            }
            hearing.client.remember(messages.last_id());
            hearing.client.hang_up(&gone);
        });
        Ok(reply::unasked(status, &answered, unasked))
    }

    async fn delete(&self, headers: &HeaderMap) -> Result<Response, Refused> {
        let entry = self.named_session(headers)?;
        if !entry.relay.client.has_own_id() {
            self.sessions.remove(&entry);
            return Ok(reply::empty(StatusCode::OK));
        }
        let forward = door::for_the_server(headers, false);
        let Some((status, answered)) = entry.relay.remote.end_session(forward).await else {
            return Err(Refused::NoAnswer);
        };
        if status.is_success() || status == StatusCode::NOT_FOUND {
            self.sessions.remove(&entry);
        }
        Ok(reply::bare(status, &answered))
    }
}

/// Whether the request names a version without sessions.
fn names_modern(headers: &HeaderMap) -> bool {
    headers
        .get(VERSION)
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= MODERN)
}

/// A posted body, as far as it has to be known here.
#[derive(Clone)]
struct Said {
    /// How many answers are due.
    requests: usize,
    is_batch: bool,
    is_initialize: bool,
    /// The id's JSON text, for a single request.
    id: Option<String>,
}

impl Said {
    fn read(body: &[u8]) -> Result<Said, Refused> {
        let batch = std::str::from_utf8(body)
            .ok()
            .and_then(|text| elements(text, BATCH));
        if let Some(batch) = batch {
            if batch.total > BATCH {
                return Err(Refused::Batch);
            }
            let is_request = |text: &&&str| Posting::read(text.as_bytes()).is_request();
            return Ok(Said {
                requests: batch.texts.iter().filter(is_request).count(),
                is_batch: true,
                is_initialize: false,
                id: None,
            });
        }
        let posting = Posting::read(body);
        Ok(Said {
            requests: usize::from(posting.is_request()),
            is_batch: false,
            is_initialize: posting.is_request() && posting.is("initialize"),
            id: posting
                .is_request()
                .then(|| posting.id.unwrap_or_default().to_owned()),
        })
    }
}
