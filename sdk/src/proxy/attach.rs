//! The gate below a Rust client's byte streams (for example rmcp's): the same pump, inside the process.
//!
//! Invariant: see [`super`].

use std::future::pending;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::pump::Pump;
use crate::gate::event::Event;
use crate::gate::hold::Hold;
use crate::gate::{Gate, Output};
use crate::pins::PinsError;

/// What the stream that the client gets holds before either side waits for the other.
const STREAM_BYTES: usize = 64 << 10;

/// How many events wait for whoever takes them; further ones are dropped ([`Control::pending`] always tells the whole).
const EVENTS: usize = 1_024;

/// A client's end of a gated connection. Its parts may go to different owners.
pub struct Attached {
    /// What the client reads and writes in place of the server's streams. The connection ends when this is dropped.
    pub stream: DuplexStream,
    /// What happened, each with the tool and digest that it is about. Ends with the connection.
    pub events: mpsc::Receiver<Event>,
    /// Asks the gate and decides.
    pub control: Control,
}

impl Attached {
    /// The stream alone; nobody hears of events then.
    pub fn into_io(self) -> DuplexStream {
        self.stream
    }

    /// The stream alone, in two halves.
    pub fn split(self) -> (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
        tokio::io::split(self.stream)
    }
}

impl Gate {
    /// Puts this gate between a client in this process and a server that is spoken to over these streams, one message a line.
    /// Must be called within a Tokio runtime with timers; the connection runs as a task of it. No index hears of anything unless
    /// the gate is watched by a telemetry ([`Gate::watched_by`]).
    pub fn attach<R, W>(self, read: R, write: W) -> Attached
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (client, ours) = tokio::io::duplex(STREAM_BYTES);
        let (tell, events) = mpsc::channel(EVENTS);
        let (ask, questions) = mpsc::channel(1);
        tokio::spawn(serve(self, ours, (read, write), tell, questions));
        Attached {
            stream: client,
            events,
            control: Control(ask),
        }
    }
}

async fn serve<R, W>(
    gate: Gate,
    client: DuplexStream,
    server: (R, W),
    events: mpsc::Sender<Event>,
    mut questions: mpsc::Receiver<Question>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let tell = |event| {
        // A program that does not take them must not hold up its own calls.
        let _ = events.try_send(event);
    };
    let mut pump = Pump::new(gate, tokio::io::split(client), server, None, tell);
    loop {
        tokio::select! {
            _ = pump.run(pending()) => return,
            Some(question) = questions.recv() => pump.ask(question),
        }
    }
}

type Question = Box<dyn FnOnce(&mut Gate, Instant, &mut Vec<Output>) + Send>;

/// The connection is over, so there is no gate to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gated connection is closed")]
pub struct Closed;

/// Why an approval was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApproveError {
    /// See [`Closed`].
    #[error(transparent)]
    Closed(#[from] Closed),
    /// See [`PinsError`].
    #[error(transparent)]
    Pins(#[from] PinsError),
}

/// Asks a gate that is at work.
#[derive(Clone)]
pub struct Control(mpsc::Sender<Question>);

impl Control {
    /// What is held now, and why.
    pub async fn pending(&self) -> Result<Vec<Hold>, Closed> {
        self.ask(|gate, _, _| gate.pending()).await
    }

    /// Approves exactly this held digest of a tool; `false` when it is not held. The client is told that its list changed.
    pub async fn approve(&self, tool: &str, digest: &str) -> Result<bool, ApproveError> {
        let (tool, digest) = (tool.to_owned(), digest.to_owned());
        let approved = self
            .ask(move |gate, now, outputs| gate.approve(&tool, &digest, now, outputs))
            .await?;
        Ok(approved?)
    }

    async fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Gate, Instant, &mut Vec<Output>) -> A + Send + 'static,
    ) -> Result<A, Closed> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |gate, now, outputs| {
            // Who asked may not wait any more.
            let _ = answer.send(question(gate, now, outputs));
        });
        self.0.send(question).await.map_err(|_| Closed)?;
        answered.await.map_err(|_| Closed)
    }
}
