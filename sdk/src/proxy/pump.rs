//! Two byte streams of lines with a gate between them: framing, back-pressure, timers, and who ends when.
//!
//! When the client ends, what it said is passed on first, and what it asked may still be answered for a while. When the
//! server ends, what was asked of it is answered with an error, and all answers go out first.
//!
//! Invariant: a side that does not read stops only what is meant for it; neither direction waits for the other.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::drill::Drill;
use super::lines::{Incoming, Outgoing};
use crate::gate::event::Event;
use crate::gate::{Channel, Gate, Output};

/// Reading from a side rests while this much waits for the other side.
const QUEUE_BYTES: usize = 256 << 10;

/// Reading from a side rests while this much waits for that side itself: answers of ours that it does not fetch. Far more
/// than [`QUEUE_BYTES`], so that the answers of a server never stop a client's questions.
const OWN_QUEUE_BYTES: usize = 64 << 20;

/// How long a server may take to end once the client has gone.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// How long while something that the client asked is still unanswered.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// How long a server may be silent that does not read any more, or whose process has crashed while somebody holds its pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The least time between two ticks of the gate.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server closed its output; everything was passed on.
    ServerClosed,
    /// The client closed its input and the server did not end within its time.
    ClientClosed,
    /// The client does not read any more.
    ClientGone,
    /// A message was longer than messages may be.
    TooLong(Peer),
}

/// A connection. See the module.
pub(super) struct Pump<CR, CW, SR, SW, T> {
    gate: Gate,
    drill: Option<Drill>,
    from_client: Incoming<CR>,
    to_client: Outgoing<CW>,
    from_server: Incoming<SR>,
    to_server: Outgoing<SW>,
    tell: T,
    outputs: Vec<Output>,
    /// The server said something.
    server_spoke: bool,
    /// The server has until then.
    deadline: Option<Instant>,
    /// Since when nothing is expected of the server any more.
    idle_since: Option<Instant>,
    /// When the server last read or said anything.
    server_moved: Instant,
    /// The server has until then to say more, since it does not read or has crashed.
    silent_until: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
    due: Option<Instant>,
}

impl<CR, CW, SR, SW, T> Pump<CR, CW, SR, SW, T>
where
    CR: AsyncRead + Unpin,
    CW: AsyncWrite + Unpin,
    SR: AsyncRead + Unpin,
    SW: AsyncWrite + Unpin,
    T: FnMut(Event),
{
    /// Must be made within a Tokio runtime with timers.
    pub(super) fn new(gate: Gate, client: (CR, CW), server: (SR, SW), drill: Option<Drill>, tell: T) -> Self {
        let message_bytes = gate.limits().message_bytes;
        Pump {
            gate,
            drill,
            from_client: Incoming::new(client.0, message_bytes),
            to_client: Outgoing::new(client.1),
            from_server: Incoming::new(server.0, message_bytes),
            to_server: Outgoing::new(server.1),
            tell,
            outputs: Vec::new(),
            server_spoke: false,
            deadline: None,
            idle_since: None,
            server_moved: Instant::now(),
            silent_until: None,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            due: None,
        }
    }

    /// Moves messages until the connection is over. `crashed` says that the server's process is gone while its output may be
    /// held open by somebody. Nothing is lost when this is dropped and called again.
    pub(super) async fn run(&mut self, crashed: impl Future<Output = ()>) -> End {
        let mut crashed = pin!(crashed);
        let mut has_crashed = false;
        poll_fn(|context| {
            if !has_crashed && crashed.as_mut().poll(context).is_ready() {
                has_crashed = true;
                self.silent_until = Some(Instant::now() + LAST_WORDS);
            }
            loop {
                match self.turn(context) {
                    Ok(true) => {}
                    Ok(false) => return Poll::Pending,
                    Err(end) => return Poll::Ready(end),
                }
            }
        })
        .await
    }

    /// Whether the server has ever said anything.
    pub(super) fn server_spoke(&self) -> bool {
        self.server_spoke
    }

    /// What is asked of the gate from beside the connection; what follows from it is passed on.
    pub(super) fn ask<A>(&mut self, question: impl FnOnce(&mut Gate, Instant, &mut Vec<Output>) -> A) -> A {
        let answer = question(&mut self.gate, Instant::now(), &mut self.outputs);
        self.pass_on();
        answer
    }

    /// Listens to the client no longer, tells the server so once it has what waits for it, and gives it this much time more;
    /// without a client (`gone`) what it still says is dropped.
    pub(super) fn wind_up(&mut self, gone: bool, patience: Duration) {
        self.from_client.close();
        self.to_server.close();
        if gone {
            self.to_client.abandon();
        }
        self.deadline = Some(Instant::now() + patience);
    }

    /// Does what can be done now; whether anything was.
    fn turn(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut moved = self.read_client(context)?;
        moved |= self.read_server(context)?;
        moved |= self.to_client.write(context).map_err(|_| End::ClientGone)?;
        match self.to_server.write(context) {
            Ok(false) => {}
            Ok(true) => {
                self.server_moved = Instant::now();
                moved = true;
            }
            Err(_) => {
                // It may still have something to say.
                self.to_server.abandon();
                self.silent_until.get_or_insert(Instant::now() + LAST_WORDS);
                moved = true;
            }
        }
        if !self.from_server.is_open() && self.to_client.is_drained() {
            return Err(End::ServerClosed);
        }
        Ok(moved | self.keep_time(context)?)
    }

    fn read_client(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        if !self.from_client.is_open() || !self.from_server.is_open() {
            return Ok(false);
        }
        if self.to_server.bytes() >= QUEUE_BYTES || self.to_client.bytes() >= OWN_QUEUE_BYTES {
            return Ok(false);
        }
        if self.from_client.poll_fill(context).is_pending() {
            return Ok(false);
        }
        let now = Instant::now();
        while let Some(message) = self.from_client.next() {
            let message = message.map_err(|_| End::TooLong(Peer::Client))?;
            if let Some(drill) = &mut self.drill
                && drill.is_due(&message, now)
            {
                self.gate.arm_drill();
            }
            self.gate
                .from_client(Channel::ONLY, message, now, &mut self.outputs);
            self.pass_on();
        }
        Ok(true)
    }

    fn read_server(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        if !self.from_server.is_open() {
            return Ok(false);
        }
        if self.to_client.bytes() >= QUEUE_BYTES || self.to_server.bytes() >= OWN_QUEUE_BYTES {
            return Ok(false);
        }
        if self.from_server.poll_fill(context).is_pending() {
            return Ok(false);
        }
        let now = Instant::now();
        self.server_moved = now;
        if let Some(silent_until) = &mut self.silent_until {
            *silent_until = now + LAST_WORDS;
        }
        while let Some(message) = self.from_server.next() {
            self.server_spoke = true;
            let Ok(message) = message else {
                self.from_server.close();
                self.server_ended(now);
                return Err(End::TooLong(Peer::Server));
            };
            self.gate
                .from_server(Channel::ONLY, message, now, &mut self.outputs);
            self.pass_on();
        }
        if !self.from_server.is_open() {
            self.server_ended(now);
        }
        Ok(true)
    }

    /// Nothing more comes from the server: what was asked of it is answered in its place.
    fn server_ended(&mut self, now: Instant) {
        self.to_server.abandon();
        self.gate.channel_closed(Channel::ONLY, now, &mut self.outputs);
        self.pass_on();
    }

    fn pass_on(&mut self) {
        for output in self.outputs.drain(..) {
            match output {
                Output::ToServer { message, .. } => self.to_server.push(message),
                Output::ToClient { message, .. } => self.to_client.push(message),
                Output::Event(event) => (self.tell)(*event),
            }
        }
    }

    /// Ends what is over by now, lets the gate do what is due, and sets the timer for what comes next.
    fn keep_time(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let now = Instant::now();
        let mut moved = false;
        if !self.from_client.is_open() {
            moved |= !self.gate.is_waiting() && self.to_server.close();
        }
        let until = self.until(now);
        if until.is_some_and(|until| until <= now) {
            return Err(End::ClientClosed);
        }
        if self.silent_until.take_if(|until| *until <= now).is_some() {
            if self.to_client.bytes() >= QUEUE_BYTES {
                // It is not silent: it was not listened to.
                self.silent_until = Some(now + LAST_WORDS);
            } else {
                self.from_server.close();
                self.server_ended(now);
                moved = true;
            }
        }
        if self.gate.next_tick().is_some_and(|tick| tick <= now) {
            self.gate.tick(now, &mut self.outputs);
            moved |= !self.outputs.is_empty();
            self.pass_on();
        }
        let tick = self.gate.next_tick().map(|tick| tick.max(now + SHORTEST_PAUSE));
        let due = [tick, until, self.silent_until].into_iter().flatten().min();
        if due != self.due
            && let Some(due) = due
        {
            self.sleep.as_mut().reset(due.into());
        }
        self.due = due;
        // Polled each time, so that it wakes this very task.
        Ok(moved | (due.is_some() && self.sleep.as_mut().poll(context).is_ready()))
    }

    /// When the server has to be gone, since the client is.
    fn until(&mut self, now: Instant) -> Option<Instant> {
        let by_itself = if self.from_client.is_open() || !self.from_server.is_open() {
            // A client that is there, or a server that is not: what waits for the client may take its time.
            None
        } else if self.to_server.is_closed() && self.gate.open_requests() == 0 {
            Some(*self.idle_since.get_or_insert(now) + PATIENCE)
        } else {
            self.idle_since = None;
            Some(self.server_moved + ANSWER_PATIENCE)
        };
        [self.deadline, by_itself].into_iter().flatten().min()
    }

    /// Gives the client what waits for it, unless it takes nothing for so long.
    pub(super) async fn finish(&mut self, patience: Duration) {
        let to_client = &mut self.to_client;
        loop {
            let step = poll_fn(|context| match to_client.write(context) {
                _ if to_client.is_drained() => Poll::Ready(false),
                Ok(true) => Poll::Ready(true),
                Ok(false) => Poll::Pending,
                Err(_) => Poll::Ready(false),
            });
            if !matches!(tokio::time::timeout(patience, step).await, Ok(true)) {
                return;
            }
        }
    }
}
