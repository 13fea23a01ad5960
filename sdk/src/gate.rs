//! The gate: between a client and a server, it decides on each listing and on each call. No transport in it.
//!
//! Messages go in, messages and events come out; whoever drives it moves the bytes ([`crate::proxy`]). A listing is read to
//! its end, each tool is compared with its pin, tools that are held are left out, and the verdict is kept, so that a later
//! call is refused with the reason. Whatever is neither a list of tools nor a call, nor the handshake, nor an announcement
//! of a changed list passes to the byte.
//!
//! Invariants: no call reaches the server unless the last whole listing was compared with readable pins and let it
//! through (under monitor: unless it was compared at all); no message of the gate's own, nor its answer, reaches the client;
//! the server's bytes are never re-rendered, at most a slice of them is cut out.

pub mod event;
pub mod hold;
pub mod refusal;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpindex_contract::posture::Posture;

use crate::clock::Clock;
use crate::pins::{Pins, PinsError};
use event::Event;
use hold::Hold;

/// Which exchange a message belongs to. Opaque to the gate: an answer to the client goes out on the channel that its
/// question came in on, a forwarded request goes on with its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel(pub u64);

impl Channel {
    /// The only channel of a transport that has one (stdio), and the one for what belongs to no exchange.
    pub const ONLY: Channel = Channel(0);
    /// The gate's own requests, whose answers come back on it.
    pub const OWN: Channel = Channel(u64::MAX);
}

/// What the gate wants done, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send these bytes to the server: one message, without a line end of ours.
    ToServer {
        /// The exchange.
        channel: Channel,
        /// One JSON-RPC message.
        message: Vec<u8>,
    },
    /// Send these bytes to the client.
    ToClient {
        /// The exchange.
        channel: Channel,
        /// One JSON-RPC message.
        message: Vec<u8>,
    },
    /// Something that people or programs want to know.
    Event(Event),
}

/// What happens to tools that a pinned server lists for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NewTools {
    /// They wait for a person.
    #[default]
    Review,
    /// They are trusted on first sight, as on the first day.
    Tofu,
}

/// How a gate behaves.
#[derive(Clone)]
pub struct GateOptions {
    /// How much is held.
    pub posture: Posture,
    /// What happens to new tools of a pinned server.
    pub new_tools: NewTools,
    /// How long a call waits for a listing of the gate's own (10 s).
    pub list_timeout: Duration,
    /// Whether results of calls are scanned for markers.
    pub scan_results: bool,
    /// Whether the blast radius is told in a refusal (`MCPINDEX_ACTION_CLASSIFICATION_ENABLED`); never moves a decision.
    pub tell_action: bool,
    /// How the server is called in texts for people and agents: its identity, or the name in the host's configuration.
    pub server: String,
    /// Bounds on what the server sends.
    pub limits: GateLimits,
    /// The time of day, for the record.
    pub clock: Arc<dyn Clock>,
}

/// Every bound of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateLimits {
    /// Bytes of one message (64 MiB).
    pub message_bytes: usize,
    /// Pages of one listing (1,000).
    pub pages: usize,
    /// Tools of one listing (20,000).
    pub tools: usize,
    /// Bytes of one listing in all (64 MiB).
    pub listing_bytes: usize,
    /// Requests of the client without an answer yet (65,536); more are refused.
    pub in_flight: usize,
}

impl Default for GateLimits {
    fn default() -> GateLimits {
        GateLimits {
            message_bytes: 64 << 20,
            pages: 1_000,
            tools: 20_000,
            listing_bytes: 64 << 20,
            in_flight: 65_536,
        }
    }
}

/// The state machine. See the module.
pub struct Gate {
    // gate
}

impl Gate {
    /// A gate over these pins. Nothing is read or written yet.
    pub fn new(options: GateOptions, pins: Pins) -> Gate {
        let _ = (options, pins);
        todo!("gate")
    }

    /// One message from the client (without its line end).
    pub fn from_client(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let _ = (channel, message, now, outputs);
        todo!("gate")
    }

    /// One message from the server (without its line end).
    pub fn from_server(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let _ = (channel, message, now, outputs);
        todo!("gate")
    }

    /// Time went by: what waited too long is decided, pins that moved are looked at again.
    pub fn tick(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let _ = (now, outputs);
        todo!("gate")
    }

    /// When [`Gate::tick`] has something to do at the latest; `None`: nothing is due.
    pub fn next_tick(&self) -> Option<Instant> {
        todo!("gate")
    }

    /// Whether something of the client is kept back until the server has answered a question of the gate's own.
    pub fn is_waiting(&self) -> bool {
        todo!("gate")
    }

    /// How many requests of the client have no answer yet.
    pub fn open_requests(&self) -> usize {
        todo!("gate")
    }

    /// Its bounds.
    pub fn limits(&self) -> &GateLimits {
        todo!("gate")
    }

    /// The exchange ended without an answer (an HTTP answer that broke off, a server that went away): what was asked on it
    /// is answered with an error, and the gate's own questions are asked again when they are needed.
    pub fn channel_closed(&mut self, channel: Channel, now: Instant, outputs: &mut Vec<Output>) {
        let _ = (channel, now, outputs);
        todo!("gate")
    }

    /// The connection to the server is a new one: the listing has to be read again before the next call.
    pub fn reconnected(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let _ = (now, outputs);
        todo!("gate")
    }

    /// What is held now, and why.
    pub fn pending(&self) -> Vec<Hold> {
        todo!("gate")
    }

    /// Approves exactly this held digest of a tool; `false` when it is not held. What follows from it (the client is told
    /// that its list changed) is in `outputs`.
    pub fn approve(
        &mut self,
        tool: &str,
        digest: &str,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) -> Result<bool, PinsError> {
        let _ = (tool, digest, now, outputs);
        todo!("gate")
    }
}
