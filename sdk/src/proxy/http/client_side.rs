//! What a relay has to know of the side that its client is on: which headers a message goes with, what becomes of a server's
//! answer or refusal, and where a message for the client goes.
//!
//! Invariant: every message that begins also ends, whatever became of it.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::header::HeaderMap;

use crate::gate::Channel;
use crate::proxy::http::relay::Relay;
use crate::wire::http::answer::Refusal;
use crate::wire::http::mirror::Posting;
use crate::wire::http::remote::Posted;
use crate::wire::message::{Envelope, envelope};

/// A message on its way to the server, as far as it has to be known while it is under way.
#[derive(Debug, Clone)]
pub(in crate::proxy) struct Asked {
    pub(in crate::proxy) channel: Channel,
    /// The id's JSON text, for a request.
    pub(in crate::proxy) id: Option<String>,
    pub(in crate::proxy) method: Option<String>,
    /// The version that it names in itself, in the new era.
    pub(in crate::proxy) modern: Option<String>,
}

impl Asked {
    pub(super) fn of(channel: Channel, posting: &Posting<'_>) -> Asked {
        Asked {
            channel,
            id: posting
                .is_request()
                .then(|| posting.id.unwrap_or_default().to_owned()),
            method: posting.method.as_deref().map(str::to_owned),
            modern: posting.modern_version().map(Cow::into_owned),
        }
    }

    pub(in crate::proxy) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    pub(in crate::proxy) fn is_handshake(&self) -> bool {
        self.is("initialize") || self.is("server/discover")
    }

    pub(super) fn is_subscription(&self) -> bool {
        self.is("subscriptions/listen")
    }
}

/// The client's side.
pub(in crate::proxy) trait ClientSide: Send + Sync + Sized + 'static {
    /// The headers of a message to the server.
    fn headers(&self, asked: &Asked, posting: &Posting<'_>) -> HeaderMap;
    /// A message is under way.
    fn begins(&self, asked: &Asked);
    /// The server answers: this is the head.
    fn head<'a>(&'a self, asked: &'a Asked, posted: &'a Posted) -> BoxFuture<'a, ()>;
    /// A message of the server on this exchange, before the gate sees it.
    fn heard(&self, asked: &Asked, message: &[u8]);
    /// A notification or an answer was taken by the server.
    fn told(&self, relay: &Arc<Relay<Self>>, asked: &Asked);
    /// A message was not taken. What the client's request is answered with instead, as the server's answer; `None` leaves it
    /// to the gate.
    fn refused<'a>(&'a self, asked: &'a Asked, refusal: Refusal) -> BoxFuture<'a, Option<Vec<u8>>>;
    /// It is not under way any more.
    fn ends<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, ()>;
    /// Whether a request is cancelled by leaving its exchange (the new era), and not by a message.
    fn leaves_to_cancel(&self) -> bool;
    /// A message for the client.
    fn deliver(&self, channel: Channel, message: Vec<u8>) -> BoxFuture<'_, ()>;
}

/// The id's JSON text, when the message is an answer; read as the gate reads it.
pub(in crate::proxy) fn answered_id(message: &[u8]) -> Option<&str> {
    let Envelope {
        id,
        method,
        result,
        error,
        ..
    } = envelope(std::str::from_utf8(message).ok()?);
    let is_answer = method.is_none_or(|method| method == "null")
        && (result.is_some() || error.is_some_and(|error| error != "null"));
    is_answer.then(|| id.unwrap_or("null"))
}
