//! The one thread that tells an index what was seen and asks it about it, a batch at a time.
//!
//! Invariant: nothing is told before it is known how the index takes it and under which key; a batch is tried twice at most;
//! to an index that refused our signals nothing is sent again, in this process and in later ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcpindex_contract::signal::{InstallId, MAX_SIGNALS, Signal};
use reqwest::StatusCode;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::buffer::{Seen, Server};
use super::greeting::{Failure, Greeting, greet};
use super::kept::{Kept, LastBatch, LastQuestions, Refused};
use super::lookup::Lookups;
use super::payload::{self, Observed, Version};
use super::{Shared, scope};
use crate::index::{Answer, IndexClient, IndexError};

/// The most that is read of an answer.
const MAX_ANSWER: usize = 64 * 1024;
/// The longest time that an index may ask us to wait before the one retry.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest word of an index about a mistake that is kept.
const ERROR_LENGTH: usize = 64;

pub(super) struct Sender {
    shared: Arc<Shared>,
    client: IndexClient,
    kept: Kept,
    greeting: Option<Greeting>,
    /// What signals are sent with; `None` while that is not settled.
    teller: Option<Teller>,
    /// Why nothing is sent (any more).
    is_silent: bool,
    lookups: Lookups,
    /// Whether this session's questions were refused, as noted; `None` before the first.
    noted_refusal: Option<Option<String>>,
    /// Whether a server may be named to the public, by identity.
    public: HashMap<String, bool>,
}

/// Who we are to the index.
struct Teller {
    install: InstallId,
    /// With the install's token, where there is one; otherwise as for questions.
    client: IndexClient,
}

/// What became of a batch.
enum Sent {
    Taken,
    /// The index takes our signals for none.
    Refused(String),
    /// This batch can't be taken.
    NotTaken(String),
    /// The index takes none, or none from us.
    Closed(String),
    Failed(Failure),
}

#[derive(Serialize)]
struct Registration {
    install_id: String,
}

#[derive(Deserialize)]
struct Registered {
    install_token: String,
}

#[derive(Deserialize)]
struct Mistake {
    error: Option<String>,
    title: Option<String>,
}

impl Sender {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Sender, IndexError> {
        Ok(Sender {
            client: IndexClient::new(&shared.options.index)?,
            kept: Kept::of(&shared.options.state),
            greeting: None,
            teller: None,
            is_silent: !shared.options.mode.sends(),
            lookups: Lookups::default(),
            noted_refusal: None,
            public: HashMap::new(),
            shared,
        })
    }

    /// Tells what comes until the buffer is closed and empty.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let (buffer, pauses) = (&shared.buffer, &shared.options.pauses);
        let mut pause = pauses.first;
        loop {
            buffer.has(1).await;
            if !buffer.is_closed() {
                tokio::select! {
                    () = sleep(pause.some()) => {}
                    () = buffer.has(MAX_SIGNALS) => {}
                }
                pause = pauses.between;
            }
            loop {
                let seen = buffer.take(MAX_SIGNALS);
                if seen.is_empty() {
                    break;
                }
                self.tell(seen).await;
            }
            if buffer.is_closed() {
                return;
            }
        }
    }

    async fn tell(&mut self, seen: Vec<Seen>) {
        let count = seen.len();
        if let Err(failure) = self.greet().await {
            self.shared.count(|counts| counts.failed += count as u64);
            return self.note(0, Some(failure.reason));
        }
        let observed = self.observed(seen).await;
        if !self.shared.buffer.is_closed() {
            self.ask(&observed).await;
        }
        if self.may_send() {
            self.send(&observed).await;
        }
    }

    /// Gets to know the index, once, with one retry.
    async fn greet(&mut self) -> Result<(), Failure> {
        if self.greeting.is_some() {
            return Ok(());
        }
        let greeting = match greet(&self.client).await {
            Ok(greeting) => greeting,
            Err(failure) => {
                if !self.pause(&failure).await {
                    return Err(failure);
                }
                greet(&self.client).await?
            }
        };
        self.greeting = Some(greeting);
        Ok(())
    }

    /// Those that the index may hear of at all, with their digests.
    async fn observed(&mut self, seen: Vec<Seen>) -> Vec<(Arc<Server>, Observed)> {
        let is_own = self.greeting.as_ref().is_some_and(|greeting| greeting.is_own);
        let mut observed = Vec::with_capacity(seen.len());
        for Seen { server, sighting, at } in seen {
            if is_own || self.is_public(&server).await {
                let of = Observed::of(&server.identity, &sighting, at);
                observed.push((server, of));
            } else {
                self.shared.count(|counts| counts.left_out += 1);
            }
        }
        observed
    }

    async fn is_public(&mut self, server: &Server) -> bool {
        let name = server.identity.to_string();
        if let Some(is_public) = self.public.get(&name) {
            return *is_public;
        }
        let is_public = scope::is_public(&server.identity, &self.shared.options.own_registries).await;
        self.public.insert(name, is_public);
        is_public
    }

    async fn ask(&mut self, observed: &[(Arc<Server>, Observed)]) {
        let Some(greeting) = &self.greeting else {
            return;
        };
        let advice = tokio::select! {
            advice = self.lookups.ask(&self.client, &greeting.key, observed) => advice,
            // What is left of the time is for what has to be told.
            () = self.shared.buffer.closed() => Vec::new(),
        };
        for advice in advice {
            (self.shared.options.say)(advice);
        }
        let count = observed.len() as u64;
        self.shared.count(|counts| counts.asked += count);
        self.note_questions();
    }

    /// Keeps whether our key may ask, for `telemetry status`, when that is news.
    fn note_questions(&mut self) {
        let refused = self.lookups.refused().map(str::to_owned);
        if self.noted_refusal.as_ref() == Some(&refused) {
            return;
        }
        let base = self.client.base();
        let last = LastQuestions {
            index: base.to_string(),
            at: self.shared.options.clock.unix_seconds(),
            refused: refused.clone(),
        };
        // Nothing depends on it.
        let _ = self.kept.note_questions(base, &last);
        self.noted_refusal = Some(refused);
    }

    fn may_send(&mut self) -> bool {
        if self.is_silent {
            return false;
        }
        // Another process may have been told meanwhile. What can't be read is no permission.
        let base = self.client.base();
        if !matches!(self.kept.refused(base), Ok(None)) {
            self.is_silent = true;
        }
        !self.is_silent
    }

    async fn send(&mut self, observed: &[(Arc<Server>, Observed)]) {
        let Some(greeting) = &self.greeting else {
            return;
        };
        let Some(version) = greeting.version else {
            self.is_silent = true;
            return self.note(0, Some("it takes no signals".to_owned()));
        };
        let key = greeting.key.clone();
        let tellable = |install| -> Vec<Signal> {
            let signals = observed
                .iter()
                .map(|(_, observed)| observed.signal(version, &key, install));
            signals.flatten().collect()
        };
        // Whether there is anything to tell does not depend on who tells it.
        if tellable(InstallId::from_bytes([0; 16])).is_empty() {
            return;
        }
        if let Err(reason) = self.introduce().await {
            self.is_silent = true;
            return self.note(0, Some(reason));
        }
        let Some(teller) = &self.teller else {
            return;
        };
        let signals = tellable(teller.install);
        let mut sent = send(&teller.client, &signals).await;
        if let Sent::Failed(failure) = &sent
            && self.pause(failure).await
        {
            sent = send(&teller.client, &signals).await;
        }
        self.finish(sent, signals.len(), version);
    }

    fn finish(&mut self, sent: Sent, signals: usize, version: Version) {
        let failure = match sent {
            Sent::Taken => None,
            Sent::NotTaken(reason) | Sent::Failed(Failure { reason, .. }) => Some(reason),
            Sent::Closed(reason) => {
                self.is_silent = true;
                Some(reason)
            }
            Sent::Refused(error) => {
                self.is_silent = true;
                let base = self.client.base();
                let refused = Refused {
                    index: base.to_string(),
                    at: self.shared.options.clock.unix_seconds(),
                    error: error.clone(),
                    version: version.number(),
                };
                // What could not be kept holds for this process all the same.
                let _ = self.kept.refuse(base, &refused);
                Some(format!("it answered 400: {error}"))
            }
        };
        let count = signals as u64;
        self.shared.count(|counts| match &failure {
            None => counts.sent += count,
            Some(_) => counts.failed += count,
        });
        self.note(signals, failure);
    }

    /// Keeps how it went, for `telemetry status`.
    fn note(&self, signals: usize, failure: Option<String>) {
        let base = self.client.base();
        let version = self.greeting.as_ref().and_then(|greeting| greeting.version);
        let last = LastBatch {
            index: base.to_string(),
            at: self.shared.options.clock.unix_seconds(),
            signals,
            version: version.map_or(0, Version::number),
            failure,
        };
        // Nothing depends on it.
        let _ = self.kept.note_batch(base, &last);
    }

    /// Settles who we are to the index: the token that it gives an install is one request once, and two installs with one
    /// weigh as much there as ten without. Without one we are told all the same.
    async fn introduce(&mut self) -> Result<(), String> {
        if self.teller.is_some() {
            return Ok(());
        }
        let base = self.client.base().clone();
        let install = self
            .kept
            .install_or_new(&base)
            .map_err(|error| error.to_string())?;
        let token = match self.kept.token(&base) {
            Ok(Some(token)) => Some(token),
            Ok(None) if base.is_protected() && !self.shared.buffer.is_closed() => {
                self.register(install).await
            }
            _ => None,
        };
        let with_token = token.and_then(|token| self.client.with_install_token(&token).ok());
        let client = with_token.unwrap_or_else(|| self.client.clone());
        self.teller = Some(Teller { install, client });
        Ok(())
    }

    async fn register(&self, install: InstallId) -> Option<SecretString> {
        let registration = Registration {
            install_id: install.to_string(),
        };
        let answer = self
            .client
            .post("api/v1/drift/register", &registration, MAX_ANSWER)
            .await;
        let answer = answer.ok().filter(|answer| answer.status.is_success())?;
        let token = SecretString::from(answer.json::<Registered>()?.install_token);
        // One that can't be kept is asked for again, and refused then: signals go without it.
        let _ = self.kept.keep_token(self.client.base(), &token);
        Some(token)
    }

    /// Waits before the one retry; `false`: there is no time for one.
    async fn pause(&self, failure: &Failure) -> bool {
        let buffer = &self.shared.buffer;
        if buffer.is_closed() {
            return false;
        }
        let pause = self.shared.options.pauses.retry.some();
        let pause = pause.max(failure.retry_after.unwrap_or_default());
        tokio::select! {
            () = sleep(pause.min(LONGEST_PAUSE)) => {}
            () = buffer.closed() => {}
        }
        true
    }
}

async fn send(client: &IndexClient, signals: &[Signal]) -> Sent {
    let body = match RawValue::from_string(payload::body(signals)) {
        Ok(body) => body,
        Err(error) => return Sent::NotTaken(error.to_string()),
    };
    match client.post("api/v1/drift", &body, MAX_ANSWER).await {
        Ok(answer) => judged(&answer),
        Err(error) => Sent::Failed(error.into()),
    }
}

fn judged(answer: &Answer) -> Sent {
    if answer.status.is_success() {
        return Sent::Taken;
    }
    if let Some(failure) = Failure::of(answer) {
        return Sent::Failed(failure);
    }
    let status = answer.status.as_u16();
    let word = word(answer);
    let reason = match word.is_empty() {
        true => format!("it answered {status}"),
        false => format!("it answered {status}: {word}"),
    };
    match answer.status {
        StatusCode::BAD_REQUEST => Sent::Refused(word),
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => Sent::NotTaken(reason),
        _ => Sent::Closed(reason),
    }
}

/// What the index calls the mistake, as far as it is a word.
fn word(answer: &Answer) -> String {
    let mistake = answer.json::<Mistake>();
    let word = mistake.and_then(|mistake| mistake.error.or(mistake.title));
    let word = word.unwrap_or_default();
    let is_plain = |character: &char| character.is_ascii_graphic() || *character == ' ';
    word.chars().filter(is_plain).take(ERROR_LENGTH).collect()
}
