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

mod calls;
mod client;
mod comparison;
mod context;
pub mod danger;
pub mod event;
mod handshake;
pub mod hold;
mod ids;
pub(crate) mod judgement;
mod listing;
mod listings;
mod open;
mod organisation;
mod own;
mod parallel;
pub mod refusal;
mod results;
mod server;
mod short_text;
pub mod sighting;
mod speech;
pub mod step;
mod told;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpindex_contract::posture::Posture;

use crate::approvals::Approvals;
use crate::clock::Clock;
use crate::pins::{Pins, PinsError};
use calls::WaitingCall;
use event::Event;
use hold::Hold;
use judgement::Judge;
use listings::Listings;
use open::OpenRequests;
use organisation::Organisation;
use own::OwnIds;
use refusal::{INTERNAL, error_answer};
use sighting::Watch;
use speech::Speech;
use told::Told;

/// How often the pins are looked at while something is held.
const PINS_PAUSE: Duration = Duration::from_secs(1);
/// What JSON calls white space.
const WHITE_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

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
    /// Something that people or programs want to know; boxed, since events are rare and long beside messages.
    Event(Box<Event>),
}

impl From<Event> for Output {
    fn from(event: Event) -> Output {
        Output::Event(Box::new(event))
    }
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
    options: GateOptions,
    judge: Judge,
    speech: Speech,
    own: OwnIds,
    open: OpenRequests,
    listings: Listings,
    /// The calls that wait for a list, in the order they came in.
    waiting: VecDeque<WaitingCall>,
    waiting_bytes: usize,
    told: Told,
    is_drill_armed: bool,
    /// When the pins were last looked at between two lists.
    pins_checked: Option<Instant>,
}

impl Gate {
    /// A gate over these pins. Nothing is read or written yet.
    pub fn new(options: GateOptions, pins: Pins) -> Gate {
        Gate {
            judge: Judge::new(pins),
            speech: Speech::default(),
            own: OwnIds::new(unguessable()),
            open: OpenRequests::new(options.limits.in_flight),
            listings: Listings::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            told: Told::default(),
            is_drill_armed: false,
            pins_checked: None,
            options,
        }
    }

    /// The same gate, with somebody who is shown each tool that is pinned or seen changed.
    pub fn watched_by(mut self, watch: Arc<dyn Watch>) -> Gate {
        self.judge.watch(watch);
        self
    }

    /// The same gate, which obeys what an organisation decided about the server of this identity (its written form): what it
    /// refused is held in every posture but monitor, what it approved proceeds as if a person had approved it here.
    pub fn obeying(mut self, approvals: Approvals, identity: &str) -> Gate {
        let clock = Arc::clone(&self.options.clock);
        self.judge.obey(Organisation::new(approvals, identity, clock));
        self
    }

    /// One message from the client (without its line end).
    pub fn from_client(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        self.client_message(channel, message, now, outputs);
    }

    /// One message from the server (without its line end).
    pub fn from_server(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        self.server_message(channel, message, now, outputs);
    }

    /// Time went by: what waited too long is decided, pins that moved are looked at again.
    pub fn tick(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        self.give_up_calls(now, outputs);
        self.give_up_listings(now, outputs);
        if self.next_look_at_pins().is_some_and(|due| due <= now) {
            self.pins_checked = Some(now);
            if self.judge.has_moved() || !self.has_pins() {
                self.reconsider(outputs);
            }
        }
        self.pursue_listing(now, outputs);
    }

    /// When [`Gate::tick`] has something to do at the latest; `None`: nothing is due.
    pub fn next_tick(&self) -> Option<Instant> {
        let call = self.waiting.front().map(WaitingCall::deadline);
        let announced = self.announced_list_due();
        let dues = [
            call,
            announced,
            self.listings.next_deadline(),
            self.next_look_at_pins(),
        ];
        dues.into_iter().flatten().min()
    }

    /// Whether something of the client is kept back until the server has answered a question of the gate's own.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.listings.count_for_client() > 0
    }

    /// How many requests of the client have no answer yet.
    pub fn open_requests(&self) -> usize {
        self.open.count() + self.listings.count_for_client()
    }

    /// Its bounds.
    pub fn limits(&self) -> &GateLimits {
        &self.options.limits
    }

    /// The exchange ended without an answer (an HTTP answer that broke off, a server that went away): what was asked on it
    /// is answered with an error, and the gate's own questions are asked again when they are needed.
    pub fn channel_closed(&mut self, channel: Channel, now: Instant, outputs: &mut Vec<Output>) {
        let reason = "the server ended the exchange without an answer";
        for open in self.open.close(channel) {
            send_to_client(outputs, open.channel, error_answer(&open.id, INTERNAL, reason));
        }
        if channel == Channel::OWN || channel == Channel::ONLY {
            self.abandon_listings(reason, now, outputs);
        }
        if channel == Channel::ONLY {
            self.hold_waiting_calls(reason, outputs);
        }
        self.pursue_listing(now, outputs);
    }

    /// The connection to the server is a new one: the listing has to be read again before the next call.
    pub fn reconnected(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        self.listings.outdate();
        self.abandon_listings("the connection to the server was lost", now, outputs);
    }

    /// The next call is answered with a staged hold and never sent on, so that a person sees what a hold looks like. Its
    /// [`Event::CallHeld`] is of the class [`hold::HoldClass::Drill`].
    pub fn arm_drill(&mut self) {
        self.is_drill_armed = true;
    }

    /// What is held now, and why; under monitor, what would be.
    pub fn pending(&self) -> Vec<Hold> {
        let judgement = self.listings.whole.as_ref().map(|whole| &whole.judgement);
        let held = judgement.into_iter().flat_map(|judgement| judgement.held());
        held.map(|hold| Hold::clone(hold)).collect()
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
        let at = self.options.clock.unix_seconds();
        let mut is_approved = false;
        self.judge.update(|record| {
            is_approved = record.approve(tool, digest, at);
        })?;
        self.pins_checked = Some(now);
        self.reconsider(outputs);
        Ok(is_approved)
    }

    /// When the pins and decisions are due to be looked at; `None` while nothing waits for them.
    fn next_look_at_pins(&self) -> Option<Instant> {
        let whole = self.listings.whole.as_ref()?;
        let due = self.pins_checked.unwrap_or(whole.judged_at) + PINS_PAUSE;
        (whole.judgement.waits_for_pins() || self.judge.obeys()).then_some(due)
    }

    fn has_pins(&self) -> bool {
        let whole = self.listings.whole.as_ref();
        whole.is_some_and(|whole| whole.judgement.has_pins())
    }

    /// Whether the pins are other ones than those that the last whole list was judged by. Unusable ones are read again, but
    /// not for every call.
    fn pins_may_have_moved(&mut self, now: Instant) -> bool {
        if self.has_pins() {
            return self.judge.has_moved();
        }
        let is_due = self
            .pins_checked
            .is_none_or(|checked| now >= checked + PINS_PAUSE);
        if is_due {
            self.pins_checked = Some(now);
        }
        is_due
    }

    /// Whether the pins were not looked at for a while; from now on they were.
    fn is_look_at_pins_due(&mut self, now: Instant) -> bool {
        let judged = self.listings.whole.as_ref().map(|whole| whole.judged_at);
        let looked = self.pins_checked.max(judged);
        let is_due = looked.is_none_or(|looked| now >= looked + PINS_PAUSE);
        if is_due {
            self.pins_checked = Some(now);
        }
        is_due
    }

    /// A message was dropped.
    fn dropped(&mut self, reason: &str, outputs: &mut Vec<Output>) {
        if self.told.dropped() {
            outputs.push(Output::from(Event::Dropped {
                reason: reason.to_owned(),
            }));
        }
    }
}

fn send_to_client(outputs: &mut Vec<Output>, channel: Channel, message: Vec<u8>) {
    outputs.push(Output::ToClient { channel, message });
}

/// 16 bytes that nobody else knows. Where the system gives none, the keys of the standard library's hash maps do: they come
/// from the same source, read earlier.
fn unguessable() -> [u8; 16] {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let halves = [0, 1].map(|half: u64| RandomState::new().hash_one(half));
        for (half, part) in bytes.chunks_exact_mut(8).zip(halves) {
            half.copy_from_slice(&part.to_le_bytes());
        }
    }
    bytes
}
