//! `mcpindex gate --url URL`: the client on our own stdin and stdout, the server over streamable HTTP or, where it is an
//! older one, HTTP+SSE (2024-11-05).
//!
//! Invariant: the credentials given go to the origin that was named and to no other.

use std::sync::Arc;

use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::gate::Gate;
use crate::gate::event::Event;
use crate::pins::AuthContext;
use crate::wire::http::{Endpoint, HttpClient, RemoteLimits};

/// Where the server is and what may be taken from it.
pub struct HttpOptions {
    /// Sends the requests; must follow no redirect and must have no time limit for a whole answer.
    pub client: Arc<dyn HttpClient>,
    /// The URL, and the headers of every request (`--header`, `--bearer-env` as `Authorization`).
    pub endpoint: Endpoint,
    /// Bounds.
    pub limits: RemoteLimits,
}

/// What a person should know beside the messages.
pub enum Notice {
    /// Something the gate tells.
    Event(Event),
    /// One line about the connection. Texts of the server in it are as sent: made visible where it is shown.
    Line(String),
}

/// Who is told; called from any task, must not block for long.
pub type Tell = Arc<dyn Fn(Notice) + Send + Sync>;

/// Why a gate over HTTP ended before its client went.
#[derive(Debug, thiserror::Error)]
pub enum HttpEnd {
    /// The server asks for a sign-in, or refuses the one given. The line says what to do.
    #[error("{0}")]
    SignIn(String),
    /// Reading from or writing to the client failed.
    #[error("the client's end: {0}")]
    Client(String),
}

/// With which credentials these headers ask: `anonymous`, or `header:NAME` for the first that carries one.
pub fn auth_context(headers: &[(String, SecretString)]) -> AuthContext {
    let _ = headers;
    todo!("http")
}

/// Moves messages between a client on two byte streams and a remote server until the client's end closes (`Ok`), `stop`
/// resolves (`Ok`), or the server refuses the handshake for want of a sign-in. Needs a Tokio runtime with time and I/O.
pub async fn run(
    options: HttpOptions,
    gate: Gate,
    client_read: impl AsyncRead + Send + Unpin + 'static,
    client_write: impl AsyncWrite + Send + Unpin + 'static,
    tell: Tell,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), HttpEnd> {
    let _ = (options, gate, client_read, client_write, tell, stop);
    todo!("http")
}
