//! `mcpindex gate --listen ADDR`: loopback HTTP in, HTTP out, one gate for each session of a client.
//!
//! Invariant: only loopback is listened on, and a request whose Origin or Host is not ours is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::gate::Gate;
use crate::pins::AuthContext;
use crate::proxy::http::Tell;
use crate::wire::http::{Endpoint, HttpClient, RemoteLimits};

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
    let _ = (options, new_gate, listening, tell, stop);
    todo!("http")
}
