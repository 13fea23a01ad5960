//! `mcpindex gate --url URL`: the client on our own stdin and stdout, the server over streamable HTTP or, where it is an
//! older one, HTTP+SSE (2024-11-05).
//!
//! Invariant: the credentials given go to the origin that was named and to no other.

pub(in crate::proxy) mod client_side;
pub(in crate::proxy) mod relay;
pub(in crate::proxy) mod terminal;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::gate::event::Event;
use crate::gate::{Channel, Gate};
use crate::pins::AuthContext;
use crate::proxy::drill::Drill;
use crate::proxy::lines::{Incoming, TooLong};
use crate::state::StateDirectory;
use crate::wire::http::remote::Remote;
use crate::wire::http::{Endpoint, HttpClient, RemoteLimits};
use relay::{EndOnDrop, Relay};
use terminal::{Said, Terminal};

/// How long the server may still answer what was asked, once the client has closed its end.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// How long the client may take to read what is left for it.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where the server is and what may be taken from it.
pub struct HttpOptions {
    /// Sends the requests; must follow no redirect and must have no time limit for a whole answer.
    pub client: Arc<dyn HttpClient>,
    /// The URL, and the headers of every request (`--header`, `--bearer-env` as `Authorization`).
    pub endpoint: Endpoint,
    /// Bounds.
    pub limits: RemoteLimits,
    /// Where a drill is armed; without it there is none.
    pub drills: Option<StateDirectory>,
}

/// What a person should know beside the messages.
pub enum Notice {
    /// Something the gate tells.
    Event(Box<Event>),
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
    /// The client sent a message that is too long to be read.
    #[error("the client sent a message of more than {0} bytes: the session was ended")]
    TooLong(usize),
    /// The gate itself failed half-way, so that nothing can be judged any more.
    #[error("the gate failed: the session was ended")]
    Failed,
}

/// With which credentials these headers ask: `anonymous`, or `header:NAME` for the first that carries one.
pub fn auth_context(headers: &[(String, SecretString)]) -> AuthContext {
    match credential(headers.iter().map(|(name, _)| name.as_str())) {
        Some(name) => AuthContext::Header(name),
        None => AuthContext::Anonymous,
    }
}

/// The header, in lower case, that carries a credential: `authorization` before any other that is named like one.
pub(in crate::proxy) fn credential<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    const WORDS: [&str; 9] = [
        "auth",
        "authorization",
        "key",
        "apikey",
        "token",
        "secret",
        "cookie",
        "credential",
        "password",
    ];
    // Not the protocol's own, nor an argument that a tool wants mirrored, nor what a browser or a proxy adds.
    const OTHERS: [&str; 3] = ["mcp-", "sec-", "proxy-"];
    let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
    let is_named_so = |name: &&String| {
        !OTHERS.iter().any(|start| name.starts_with(start))
            && name.split(['-', '_']).any(|word| WORDS.contains(&word))
    };
    let authorization = names.iter().find(|name| *name == "authorization");
    authorization.or_else(|| names.iter().find(is_named_so)).cloned()
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
    let message_bytes = options.limits.message_bytes;
    let drill = options.drills.as_ref().map(Drill::of);
    let credential = credential(options.endpoint.headers.iter().map(|(name, _)| name.as_str()));
    let remote = Arc::new(Remote::new(options.client, options.endpoint, options.limits));
    let (say, said) = mpsc::unbounded_channel();
    let (finish, mut finished) = watch::channel(false);
    let terminal = Terminal::new(say.clone(), Arc::clone(&tell), finish, credential);
    let relay = Relay::new(gate, remote, terminal, tell, drill);
    let _ends_with_us = EndOnDrop(Arc::clone(&relay));
    let mut writer = tokio::spawn(write(client_write, said));

    let end = tokio::select! {
        end = read(&relay, client_read, message_bytes) => end,
        // The client reads no more: it is gone, whatever its other end says.
        _ = &mut writer => Ok(()),
        () = relay.ended() => Err(HttpEnd::Failed),
        _ = finished.wait_for(|finished| *finished) => Ok(()),
        () = stop => Ok(()),
    };
    if !writer.is_finished() {
        let (done, is_done) = tokio::sync::oneshot::channel();
        let last_words = async {
            if say.send(Said::Last(done)).is_ok() {
                // Answered once everything before it is out.
                let _ = is_done.await;
            }
        };
        let _ = timeout(LAST_WORDS, last_words).await;
        writer.abort();
    }
    relay.end();
    if let Some(headers) = relay.client.farewell() {
        relay.remote.end_session(headers).await;
    }
    // The client may have closed its end over that answer before we did.
    match relay.client.wants_sign_in() {
        Some(line) => Err(HttpEnd::SignIn(line)),
        None => end,
    }
}

/// Everything that the client says, until its end closes and what it asked is answered.
async fn read(
    relay: &Arc<Relay<Terminal>>,
    client_read: impl AsyncRead + Unpin,
    message_bytes: usize,
) -> Result<(), HttpEnd> {
    let mut incoming = Incoming::new(client_read, message_bytes);
    let mut exchanges = 0;
    loop {
        while let Some(message) = incoming.next() {
            let message = message.map_err(|TooLong| HttpEnd::TooLong(message_bytes))?;
            exchanges += 1;
            relay.from_client(Channel(exchanges), message).await;
        }
        if !incoming.is_open() {
            break;
        }
        poll_fn(|context| incoming.poll_fill(context)).await;
    }
    // What is asked and answered by then is still told; a subscription has no answer to wait for.
    let _ = timeout(LAST_ANSWERS, relay.is_answered()).await;
    Ok(())
}

async fn write(
    mut client_write: impl AsyncWrite + Unpin,
    mut said: mpsc::UnboundedReceiver<Said>,
) -> std::io::Result<()> {
    while let Some(next) = said.recv().await {
        match next {
            Said::Message(mut message, _place) => {
                message.push(b'\n');
                client_write.write_all(&message).await?;
                if said.is_empty() {
                    client_write.flush().await?;
                }
            }
            Said::Last(done) => {
                client_write.flush().await?;
                let _ = done.send(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_known_by_the_name_of_its_header() {
        fn check(names: &[&str], expected: Option<&str>) {
            let found = credential(names.iter().copied());
            assert_eq!(found.as_deref(), expected, "{names:?}");
        }
        check(&[], None);
        check(&["Accept-Language", "X-Author", "Mcp-Param-Key"], None);
        check(&["X-Trace", "X-API-Key"], Some("x-api-key"));
        check(&["X-Api-Key", "AUTHORIZATION"], Some("authorization"));
    }
}
