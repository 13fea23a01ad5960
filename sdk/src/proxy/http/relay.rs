//! One gate and its remote server: does what the gate wants, and brings it what the server says. The client's side is a
//! trait, since it is two byte streams in one case and an HTTP session in the other.
//!
//! Each request that goes to the server is an exchange of its own, a task that ends with its answer; notifications and the
//! client's answers are posted one after the other, so that they arrive in the order in which they were said.
//!
//! Invariants: the gate is asked about every message of either side, and every exchange that ends without an answer is told
//! to it; nothing waits while the gate is held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::header::HeaderMap;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{sleep, sleep_until, timeout};

use crate::gate::{Channel, Gate, Output};
use crate::proxy::drill::Drill;
use crate::proxy::http::client_side::{Asked, ClientSide, answered_id};
use crate::proxy::http::{Notice, Tell};
use crate::wire::error::WireError;
use crate::wire::http::mirror::Posting;
use crate::wire::http::remote::{Messages, Older, Remote, Reply};
use crate::wire::message;

/// How long a request that was cancelled may still be answered before its exchange is given up.
const AFTER_CANCELLING: Duration = Duration::from_secs(5);

/// How long the next message waits for a notification or an answer of the client to be taken, so that they arrive in order.
const IN_ORDER: Duration = Duration::from_secs(5);

/// How long a stream is still read that has given its answer and does not end.
const AFTER_ANSWERING: Duration = Duration::from_secs(1);

/// See the module.
pub(in crate::proxy) struct Relay<C> {
    gate: Mutex<Gate>,
    pub(in crate::proxy) remote: Arc<Remote>,
    pub(in crate::proxy) client: C,
    tell: Tell,
    drill: Mutex<Option<Drill>>,
    due: Notify,
    settled: Notify,
    over: watch::Sender<bool>,
    open: Mutex<HashMap<String, Open>>,
}

/// Ends a relay when dropped, so that nothing of it outlives whoever runs it.
pub(in crate::proxy) struct EndOnDrop<C: ClientSide>(pub(in crate::proxy) Arc<Relay<C>>);

impl<C: ClientSide> Drop for EndOnDrop<C> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// An exchange under way.
struct Open {
    channel: Channel,
    is_subscription: bool,
    stop: oneshot::Sender<Stop>,
}

/// Why an exchange is over although its POST is not, or the other way round.
enum Stop {
    /// The answer came on the older transport's stream.
    Answered,
    /// Nobody waits for the answer, or none can come any more.
    GivenUp,
}

impl<C: ClientSide> Relay<C> {
    pub(in crate::proxy) fn new(
        gate: Gate,
        remote: Arc<Remote>,
        client: C,
        tell: Tell,
        drill: Option<Drill>,
    ) -> Arc<Relay<C>> {
        let relay = Arc::new(Relay {
            gate: Mutex::new(gate),
            remote,
            client,
            tell,
            drill: Mutex::new(drill),
            due: Notify::new(),
            settled: Notify::new(),
            over: watch::Sender::new(false),
            open: Mutex::new(HashMap::new()),
        });
        relay.run(Arc::clone(&relay).keep_time());
        relay
    }

    /// Ends everything that is under way. What the client is owed is not answered any more.
    pub(in crate::proxy) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Resolves once this relay has ended.
    pub(in crate::proxy) async fn ended(&self) {
        // Fails when the sender is gone, and that is ourselves.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// A task that ends with this relay.
    pub(in crate::proxy) fn run(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let mut over = self.over.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                _ = over.wait_for(|over| *over) => {}
            }
        });
    }

    pub(in crate::proxy) fn line(&self, line: String) {
        (self.tell)(Notice::Line(line));
    }

    /// Resolves once every request of the client is answered, but for subscriptions, which have no answer.
    pub(in crate::proxy) async fn is_answered(&self) {
        loop {
            let settled = self.settled.notified();
            let requests = self.gate.lock().map_or(0, |gate| gate.open_requests());
            if requests <= self.subscriptions() {
                return;
            }
            settled.await;
        }
    }

    fn subscriptions(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().filter(|open| open.is_subscription).count()
    }

    pub(in crate::proxy) async fn from_client(self: &Arc<Self>, channel: Channel, message: Vec<u8>) {
        let is_drill = {
            let mut drill = self.drill.lock().unwrap_or_else(PoisonError::into_inner);
            drill
                .as_mut()
                .is_some_and(|drill| drill.is_due(&message, Instant::now()))
        };
        let outputs = self.ask(|gate, now, outputs| {
            if is_drill {
                gate.arm_drill();
            }
            gate.from_client(channel, message, now, outputs);
        });
        self.carry_out(outputs).await;
    }

    pub(in crate::proxy) async fn from_server(self: &Arc<Self>, channel: Channel, message: Vec<u8>) {
        let outputs = self.ask(|gate, now, outputs| gate.from_server(channel, message, now, outputs));
        self.carry_out(outputs).await;
    }

    /// The list of tools may have changed without a word that reached us. For the gate that is the word: it reads the list
    /// anew, calls wait for it, and only what did change is told to the client.
    pub(in crate::proxy) fn changed_unseen(self: &Arc<Self>) {
        let changed = message::notification("notifications/tools/list_changed", "").into_bytes();
        let outputs = self.ask(|gate, now, outputs| gate.from_server(Channel::ONLY, changed, now, outputs));
        let relay = Arc::clone(self);
        self.run(async move { relay.carry_out(outputs).await });
    }

    /// An exchange ended without an answer.
    async fn closed(self: &Arc<Self>, channel: Channel) {
        let outputs = self.ask(|gate, now, outputs| gate.channel_closed(channel, now, outputs));
        self.carry_out(outputs).await;
    }

    /// What the gate wants after one step. A gate that failed half-way decides nothing any more: all ends.
    fn ask(&self, step: impl FnOnce(&mut Gate, Instant, &mut Vec<Output>)) -> Vec<Output> {
        let mut outputs = Vec::new();
        match self.gate.lock() {
            Ok(mut gate) => step(&mut gate, Instant::now(), &mut outputs),
            Err(_) => self.end(),
        }
        self.due.notify_one();
        self.settled.notify_waiters();
        outputs
    }

    async fn keep_time(self: Arc<Self>) {
        loop {
            let next = self.gate.lock().ok().and_then(|gate| gate.next_tick());
            let tick = async {
                match next {
                    Some(next) => sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tick => {
                    let outputs = self.ask(Gate::tick);
                    self.carry_out(outputs).await;
                }
                () = self.due.notified() => {}
            }
        }
    }

    /// Boxed, since a message that is carried out may bring the next.
    fn carry_out(self: &Arc<Self>, outputs: Vec<Output>) -> BoxFuture<'static, ()> {
        let relay = Arc::clone(self);
        async move {
            for output in outputs {
                match output {
                    Output::Event(event) => (relay.tell)(Notice::Event(event)),
                    Output::ToClient { channel, message } => relay.client.deliver(channel, message).await,
                    Output::ToServer { channel, message } => relay.to_server(channel, message).await,
                }
            }
        }
        .boxed()
    }

    async fn to_server(self: &Arc<Self>, channel: Channel, message: Vec<u8>) {
        if message.trim_ascii().is_empty() {
            // A blank line between messages; here there is no between.
            return;
        }
        let posting = Posting::read(&message);
        let asked = Asked::of(channel, &posting);
        if asked.is("notifications/cancelled") {
            if let Some(cancelled) = posting.cancelled() {
                self.cancel(cancelled);
            }
            if self.client.leaves_to_cancel() {
                return;
            }
        }
        let headers = self.client.headers(&asked, &posting);
        drop(posting);
        // Before anything else happens: the client's side may look whether something is under way.
        self.client.begins(&asked);
        if asked.id.is_some() {
            let (stop, stopped) = oneshot::channel();
            self.note_open(&asked, stop);
            let relay = Arc::clone(self);
            self.run(async move { relay.exchange(asked, headers, message, stopped).await });
            return;
        }
        let (taken, is_taken) = oneshot::channel::<()>();
        let relay = Arc::clone(self);
        self.run(async move {
            relay.tell_server(asked, headers, message).await;
            drop(taken);
        });
        let _ = timeout(IN_ORDER, is_taken).await;
    }

    /// A notification, or an answer of the client.
    async fn tell_server(self: &Arc<Self>, asked: Asked, headers: HeaderMap, message: Vec<u8>) {
        match self.remote.post(headers, message, false).await {
            Ok(posted) => {
                self.client.head(&asked, &posted).await;
                self.client.told(self, &asked);
            }
            Err(refusal) => drop(self.client.refused(&asked, refusal).await),
        }
        self.client.ends(&asked).await;
    }

    fn note_open(&self, asked: &Asked, stop: oneshot::Sender<Stop>) {
        let (id, channel) = (asked.id.clone().unwrap_or_default(), asked.channel);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_subscription = asked.is_subscription();
        let begun = Open {
            channel,
            is_subscription,
            stop,
        };
        open.insert(id, begun);
    }

    /// Takes a cancellation in: the exchange is left at once where that is the cancellation, else once its answer had time to
    /// be on its way already.
    fn cancel(self: &Arc<Self>, id: &str) {
        let open = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
        let Some(Open { mut stop, .. }) = open else { return };
        if self.client.leaves_to_cancel() {
            let _ = stop.send(Stop::GivenUp);
            return;
        }
        self.run(async move {
            // Ends with the exchange, when that gets its answer first.
            tokio::select! {
                () = stop.closed() => return,
                () = sleep(AFTER_CANCELLING) => {}
            }
            let _ = stop.send(Stop::GivenUp);
        });
    }

    /// One request, from its POST to its answer.
    async fn exchange(
        self: Arc<Self>,
        asked: Asked,
        headers: HeaderMap,
        message: Vec<u8>,
        mut stopped: oneshot::Receiver<Stop>,
    ) {
        let answered = tokio::select! {
            answered = self.carry(&asked, headers, message) => match answered {
                Carried::Answered => true,
                Carried::Ended => false,
                Carried::Elsewhere => {
                    let silence = self.remote.limits().silence;
                    matches!(timeout(silence, &mut stopped).await, Ok(Ok(Stop::Answered)))
                }
            },
            stop = &mut stopped => matches!(stop, Ok(Stop::Answered)),
        };
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            // Another request of that id may have taken the place.
            if let Some(id) = &asked.id
                && open.get(id).is_some_and(|open| open.channel == asked.channel)
            {
                open.remove(id);
            }
        }
        if !answered {
            self.closed(asked.channel).await;
        }
        if asked.is_subscription() {
            // What the server announces from now on, nobody hears.
            self.changed_unseen();
        }
        self.client.ends(&asked).await;
    }

    async fn carry(self: &Arc<Self>, asked: &Asked, headers: HeaderMap, message: Vec<u8>) -> Carried {
        // Only this may be said twice, in two transports. A probe of the new era tells nothing about the older one.
        let again = asked.is("initialize").then(|| message.clone());
        let waits = asked.channel != Channel::OWN;
        let mut posted = self.remote.post(headers.clone(), message, waits).await;
        if let (Err(refusal), Some(message)) = (&posted, again)
            && !self.remote.is_older()
            && let Some(older) = self.remote.open_older(refusal, headers.clone()).await
        {
            self.run(Arc::clone(self).hear_older(older));
            posted = self.remote.post(headers, message, waits).await;
        }
        let posted = match posted {
            Ok(posted) => posted,
            Err(refusal) => {
                let answer = self.client.refused(asked, refusal).await;
                return match answer {
                    Some(answer) => self.bring(asked, answer).await,
                    None => Carried::Ended,
                };
            }
        };
        self.client.head(asked, &posted).await;
        match posted.reply {
            Reply::Nothing => Carried::Elsewhere,
            Reply::Message(message) => self.bring(asked, message).await,
            Reply::Stream(messages) => self.carry_stream(asked, *messages).await,
        }
    }

    async fn carry_stream(self: &Arc<Self>, asked: &Asked, mut messages: Messages) -> Carried {
        let mut is_answered = false;
        let broken = loop {
            let next = match is_answered {
                false => messages.next().await,
                true => match timeout(AFTER_ANSWERING, messages.next()).await {
                    Ok(next) => next,
                    Err(_) => return Carried::Answered,
                },
            };
            match next {
                Ok(Some(event)) => {
                    if matches!(self.bring(asked, event.data).await, Carried::Answered) {
                        is_answered = true;
                        messages.has_its_answer();
                    }
                }
                Ok(None) => {
                    break WireError::Ended {
                        method: messages.method(),
                    };
                }
                Err(error) => break error,
            }
        };
        if is_answered {
            return Carried::Answered;
        }
        match self.client.refused(asked, broken.into()).await {
            Some(answer) => self.bring(asked, answer).await,
            None => Carried::Ended,
        }
    }

    /// Brings the gate a message that came on this exchange.
    async fn bring(self: &Arc<Self>, asked: &Asked, message: Vec<u8>) -> Carried {
        let answers = answered_id(&message).is_some_and(|id| asked.id.as_deref() == Some(id));
        self.client.heard(asked, &message);
        self.from_server(asked.channel, message).await;
        match answers {
            true => Carried::Answered,
            false => Carried::Ended,
        }
    }

    /// Everything that a server of the older transport says.
    async fn hear_older(self: Arc<Self>, mut older: Older) {
        let ended = loop {
            match older.next().await {
                Ok(Some(message)) => {
                    let open = answered_id(&message).and_then(|id| {
                        self.open
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .remove(id)
                    });
                    let asked = Asked {
                        channel: Channel::ONLY,
                        id: None,
                        method: None,
                        modern: None,
                    };
                    self.client.heard(&asked, &message);
                    self.from_server(Channel::ONLY, message).await;
                    if let Some(open) = open {
                        let _ = open.stop.send(Stop::Answered);
                    }
                }
                Ok(None) => break String::new(),
                Err(error) => break format!(": {error}"),
            }
        };
        self.remote.forget_older();
        self.line(format!("the server's event stream ended{ended}"));
        let open: Vec<Open> = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.drain().map(|(_, open)| open).collect()
        };
        for open in open {
            let _ = open.stop.send(Stop::GivenUp);
        }
    }
}

/// How an exchange ended.
enum Carried {
    /// With its answer.
    Answered,
    /// Without one.
    Ended,
    /// The message was taken; its answer comes on another stream.
    Elsewhere,
}
