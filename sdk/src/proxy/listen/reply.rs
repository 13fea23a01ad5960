//! Answers to a client over HTTP: the server's as they came, and our own refusals, each with the status that says it.
//!
//! Invariant: no body reaches the client that the gate did not pass, but for an error's that carries no result.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::gate::refusal::error_answer;
use crate::proxy::http::terminal::NO_ANSWER;
use crate::proxy::listen::door;
use crate::proxy::listen::session::{Head, Leaving, Part, Unasked};
use crate::wire::error::WireError;
use crate::wire::http::answer::Refusal;
use crate::wire::http::{HttpError, SESSION};
use crate::wire::message::{MembersError, clear_members};

/// A stream that has nothing to say says so this often, so that nobody takes it for dead.
const STILL_HERE: Duration = Duration::from_secs(15);

/// JSON-RPC: the request can't be used.
const INVALID: i64 = -32600;

/// Why a request got no further than here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("this is not the Host that is listened on: use the URL that the gate printed")]
    Host,
    #[error("requests of web pages are not taken: the Origin is not this address")]
    Origin,
    #[error("the gate is at /mcp")]
    NoSuchPath,
    #[error("only POST, and in versions before 2026-07-28 GET and DELETE")]
    Verb,
    #[error("the body must be application/json")]
    ContentType,
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    #[error("the body took too long")]
    Slow,
    #[error("the body was cut off")]
    Cut,
    #[error("too many messages in one batch")]
    Batch,
    #[error("no Mcp-Session-Id: begin with initialize")]
    NoSession,
    #[error("this session is not known here (any more): begin with initialize")]
    UnknownSession,
    #[error("too many sessions are busy")]
    Full,
    #[error("the session has ended")]
    Ended,
    #[error("the server gave no answer")]
    NoAnswer,
    #[error("this machine has no randomness for the id of a session")]
    NoRandomness,
}

impl Refused {
    fn status(self) -> StatusCode {
        match self {
            Refused::Host | Refused::Origin => StatusCode::FORBIDDEN,
            Refused::NoSuchPath | Refused::UnknownSession => StatusCode::NOT_FOUND,
            Refused::Verb => StatusCode::METHOD_NOT_ALLOWED,
            Refused::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refused::TooLong(_) | Refused::Batch => StatusCode::PAYLOAD_TOO_LARGE,
            Refused::Slow => StatusCode::REQUEST_TIMEOUT,
            Refused::Cut | Refused::NoSession => StatusCode::BAD_REQUEST,
            Refused::Full => StatusCode::SERVICE_UNAVAILABLE,
            Refused::NoAnswer => StatusCode::BAD_GATEWAY,
            Refused::Ended | Refused::NoRandomness => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(super) fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(error_answer("null", INVALID, &self.to_string())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self == Refused::Verb {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
        }
        response
    }
}

/// One message. Without a request it is about what was said.
pub(super) fn message(
    head: Option<Head>,
    session: Option<HeaderValue>,
    message: Vec<u8>,
    was_asked: bool,
) -> Response<Body> {
    let status = match &head {
        Some(head) if head.has_answer && was_asked => head.status,
        _ if was_asked => StatusCode::OK,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = begun(status, head.map(|head| head.headers), session);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = Body::from(message);
    response
}

/// A stream of messages, until nothing more is owed.
pub(super) fn stream(
    head: Option<Head>,
    session: Option<HeaderValue>,
    first: Option<Vec<u8>>,
    parts: mpsc::Receiver<Part>,
    leaving: Leaving,
) -> Response<Body> {
    let headers = head.map(|head| head.headers);
    let source = Source::Answer { parts, leaving };
    as_events(begun(StatusCode::OK, headers, session), first, source)
}

/// The stream of what was not asked for.
pub(super) fn unasked(status: StatusCode, headers: &HeaderMap, unasked: Unasked) -> Response<Body> {
    // Our end of it would keep it open.
    let Unasked { messages, gone: _ } = unasked;
    as_events(
        begun(status, Some(headers.clone()), None),
        None,
        Source::Unasked(messages),
    )
}

/// The server took a notification or an answer.
pub(super) fn accepted(head: Option<Head>) -> Response<Body> {
    match head {
        Some(head) => begun(head.status, Some(head.headers), None),
        None => empty(StatusCode::ACCEPTED),
    }
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    begun(status, None, None)
}

/// An answer of the server without its body.
pub(super) fn bare(status: StatusCode, headers: &HeaderMap) -> Response<Body> {
    begun(status, Some(headers.clone()), None)
}

/// The server's refusal as it came, or what kept us from having an answer.
pub(super) fn refusal(refusal: Refusal, id: Option<&str>) -> Response<Body> {
    let status = match (&refusal.answered, &refusal.error) {
        (Some(answered), _) if !answered.status.is_success() && !answered.status.is_redirection() => {
            answered.status
        }
        (_, WireError::TimedOut { .. } | WireError::Http(HttpError::TimedOut)) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    let passed = refusal.answered.filter(|answered| answered.status == status);
    let (headers, body) = match passed {
        Some(answered) => (Some(answered.headers), answered.body),
        None => (None, Vec::new()),
    };
    let kind = headers
        .as_ref()
        .and_then(|headers| headers.get(header::CONTENT_TYPE))
        .cloned();
    let mut response = begun(status, headers, None);
    if body.is_empty() && response.status() == StatusCode::UNAUTHORIZED {
        return response;
    }
    let (kind, body) = match kind {
        Some(kind) if !body.is_empty() && !is_stream(&kind) && is_harmless(&body) => (kind, body),
        _ => (
            HeaderValue::from_static("application/json"),
            error_answer(id.unwrap_or("null"), NO_ANSWER, &refusal.error.to_string()),
        ),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    *response.body_mut() = Body::from(body);
    response
}

/// Whether a body of this kind is read as a stream, each event of which could be a message.
fn is_stream(kind: &HeaderValue) -> bool {
    let kind = kind.as_bytes().to_ascii_lowercase();
    kind.trim_ascii_start().starts_with(b"text/event-stream")
}

/// Whether no client can take an error's body for an answer with a result, or for a message of the server's.
fn is_harmless(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else {
        return false;
    };
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    match clear_members(text, ["result", "method"]) {
        Ok(found) => found == [None, None],
        Err(MembersError::NoObject) => !text.starts_with(['{', '[']),
        Err(MembersError::Twice(_) | MembersError::Lookalike(_)) => false,
    }
}

fn begun(status: StatusCode, headers: Option<HeaderMap>, session: Option<HeaderValue>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    if let Some(headers) = headers {
        *response.headers_mut() = door::for_the_client(&headers);
    }
    if let Some(session) = session {
        response.headers_mut().insert(SESSION, session);
    }
    response
}

/// Where the messages of a stream come from.
enum Source {
    Answer {
        parts: mpsc::Receiver<Part>,
        /// Dropped with the stream when the client is gone.
        leaving: Leaving,
    },
    Unasked(mpsc::Receiver<Vec<u8>>),
}

impl Source {
    async fn next(&mut self) -> Option<Vec<u8>> {
        match self {
            Source::Unasked(messages) => messages.recv().await,
            Source::Answer { parts, leaving } => loop {
                let part = tokio::select! {
                    part = parts.recv() => part,
                    () = leaving.session_ended() => None,
                };
                match part? {
                    Part::Message { message, .. } => return Some(message),
                    // In the middle of a stream there is no place for another head.
                    Part::Head(_) => {}
                    Part::Refused(_) => return None,
                }
            },
        }
    }
}

/// A stream of messages, with a word in between when there is nothing to say.
fn as_events(mut response: Response<Body>, first: Option<Vec<u8>>, source: Source) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let frames = futures::stream::unfold((first, source), |(first, mut source)| async move {
        let frame = match first {
            Some(first) => framed(&first),
            None => match timeout(STILL_HERE, source.next()).await {
                Ok(message) => framed(&message?),
                Err(_) => Bytes::from_static(b":\n\n"),
            },
        };
        Some((Ok::<_, Infallible>(frame), (None, source)))
    });
    *response.body_mut() = Body::from_stream(frames);
    response
}

/// One message as an event. The line ends in it are white space to a JSON reader, and ends of lines to this format.
fn framed(message: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(message.len() + 32);
    frame.extend_from_slice(b"event: message\n");
    let mut lines = message
        .split(|byte| matches!(byte, b'\r' | b'\n'))
        .filter(|line| !line.is_empty())
        .peekable();
    if lines.peek().is_none() {
        frame.extend_from_slice(b"data: \n");
    }
    for line in lines {
        frame.extend_from_slice(b"data: ");
        frame.extend_from_slice(line);
        frame.push(b'\n');
    }
    frame.push(b'\n');
    frame.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errors_body_that_could_be_a_message_is_not_passed_on() {
        for body in [
            r#"{"id":1,"result":{}}"#,
            r#"{"id":1,"Result":{}}"#,
            r#"{"method":"x"}"#,
            "\u{feff}{",
            "[{}]",
        ] {
            assert!(!is_harmless(body.as_bytes()), "{body}");
        }
        for body in [r#"{"id":1,"error":{}}"#, "no such session", r#"{"detail":"no"}"#] {
            assert!(is_harmless(body.as_bytes()), "{body}");
        }
        let kind = |text| is_stream(&HeaderValue::from_static(text));
        assert!(kind("text/event-stream") && kind(" Text/Event-Stream; charset=utf-8"));
        assert!(!kind("text/plain"));
    }
}
