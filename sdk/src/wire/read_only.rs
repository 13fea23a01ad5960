//! The sending half that inspections hold: a type that can't send `tools/call`, `resources/read` or `prompts/get`.
//!
//! What may be sent is the closed enum [`Ask`] and three things that are sent without being asked for: the
//! `initialized` notification, the cancellation of a question that timed out, and the answers to a server's own requests
//! (ping is answered, everything else is refused). The transports are private to [`crate::wire`], so nobody who holds a
//! [`ReadOnly`] can reach past it.
//!
//! Invariant: one question is open at a time; an answer counts only under its own id, exactly as it was sent.

use std::path::Path;
use std::time::Duration;

use mcpindex_contract::surface::MemberKind;
use tokio::time::{Instant, timeout_at};

use crate::wire::error::WireError;
use crate::wire::http::{Endpoint, Http, HttpClient};
use crate::wire::limits::Limits;
use crate::wire::message::{self, Answer, Message};
use crate::wire::stdio::{Ending, Launch, Stdio};

/// The newest version that begins with `initialize`; what we offer.
pub const NEWEST_LEGACY: &str = "2025-11-25";

/// The version without `initialize`.
pub const MODERN: &str = "2026-07-28";

/// How many of the server's words (methods, noise lines) are kept for people.
const KEPT_FOR_PEOPLE: usize = 20;

/// Everything that may be asked.
#[derive(Debug, Clone, Copy)]
pub enum Ask<'a> {
    /// `initialize`, offering [`NEWEST_LEGACY`] and no capabilities.
    Initialize,
    /// `server/discover` of [`MODERN`].
    Discover,
    /// One page of a list.
    List {
        /// Which list.
        kind: MemberKind,
        /// The cursor's JSON text, as the server gave it; `None` for the first page.
        cursor: Option<&'a str>,
    },
}

impl Ask<'_> {
    /// The method's name.
    pub fn method(&self) -> &'static str {
        match self {
            Ask::Initialize => "initialize",
            Ask::Discover => "server/discover",
            Ask::List { kind, .. } => list_method(*kind),
        }
    }

    fn params(&self, era: Option<Era>) -> String {
        let client = format!(
            r#"{{"name":"mcpindex","version":"{}"}}"#,
            env!("CARGO_PKG_VERSION")
        );
        let meta = format!(
            r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientInfo":{client},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
        );
        match (self, era) {
            (Ask::Initialize, _) => {
                format!(
                    r#"{{"protocolVersion":"{NEWEST_LEGACY}","capabilities":{{}},"clientInfo":{client}}}"#
                )
            }
            (Ask::Discover, _) | (Ask::List { cursor: None, .. }, Some(Era::Modern)) => format!("{{{meta}}}"),
            (
                Ask::List {
                    cursor: Some(cursor), ..
                },
                Some(Era::Modern),
            ) => {
                format!(r#"{{{meta},"cursor":{cursor}}}"#)
            }
            (Ask::List { cursor: None, .. }, _) => "{}".to_owned(),
            (
                Ask::List {
                    cursor: Some(cursor), ..
                },
                _,
            ) => format!(r#"{{"cursor":{cursor}}}"#),
        }
    }
}

/// The method that lists this kind.
pub fn list_method(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Tool => "tools/list",
        MemberKind::Prompt => "prompts/list",
        MemberKind::Resource => "resources/list",
        MemberKind::ResourceTemplate => "resources/templates/list",
    }
}

/// Which of the protocol's two lives the server leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: `initialize` first, then a session.
    Legacy,
    /// From 2026-07-28: no session; each request says who asks.
    Modern,
}

/// What happened beside the answers.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The methods that the server asked of us, each once, at most twenty.
    pub server_asked: Vec<String>,
    /// How many requests it sent us.
    pub server_requests: usize,
    /// How many lines were no JSON-RPC.
    pub noise: usize,
    /// The first of those lines.
    pub first_noise: Option<String>,
    /// How many answers came to questions that were not open.
    pub stray_answers: usize,
    /// How many batches came.
    pub batches: usize,
}

/// Asks a server what it declares, and nothing else.
pub struct ReadOnly<'c> {
    transport: Transport<'c>,
    limits: Limits,
    whole: Instant,
    next_id: u64,
    era: Option<Era>,
    traffic: Traffic,
    changed: [bool; 4],
}

enum Transport<'c> {
    Stdio { launch: &'c Launch, process: Box<Stdio> },
    Http(Box<Http<'c>>),
}

impl<'c> ReadOnly<'c> {
    /// Starts a server as a child process.
    pub fn start(launch: &'c Launch, limits: &Limits) -> Result<ReadOnly<'c>, WireError> {
        let process = Box::new(Stdio::start(launch, limits)?);
        Ok(ReadOnly::new(Transport::Stdio { launch, process }, limits))
    }

    /// Starts the process anew, when there is one, for a server that ended over a question it refused.
    pub async fn restart(&mut self) -> Result<(), WireError> {
        if let Transport::Stdio { launch, process } = &mut self.transport {
            let fresh = Box::new(process.start_again(launch, &self.limits)?);
            std::mem::replace(process, fresh).close().await;
        }
        Ok(())
    }

    /// Speaks with a remote server; nothing is sent yet.
    pub fn connect(client: &'c dyn HttpClient, endpoint: &'c Endpoint, limits: &Limits) -> ReadOnly<'c> {
        ReadOnly::new(
            Transport::Http(Box::new(Http::new(client, endpoint, limits))),
            limits,
        )
    }

    fn new<'t>(transport: Transport<'t>, limits: &Limits) -> ReadOnly<'t> {
        ReadOnly {
            transport,
            limits: limits.clone(),
            whole: Instant::now() + limits.whole,
            next_id: 1,
            era: None,
            traffic: Traffic::default(),
            changed: [false; 4],
        }
    }

    fn is_stdio(&self) -> bool {
        matches!(self.transport, Transport::Stdio { .. })
    }

    /// The directory that was made for the process, and whether the next look with the same label has it too.
    pub fn home(&self) -> Option<(&Path, bool)> {
        match &self.transport {
            Transport::Stdio { process, .. } => Some((process.home(), process.has_lasting_home())),
            Transport::Http(_) => None,
        }
    }

    /// What happened beside the answers.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Settles the era and the version once the handshake is done; in the older one, says so to the server.
    pub async fn settle(&mut self, era: Era, version: &str, deadline: Instant) -> Result<(), WireError> {
        self.era = Some(era);
        if let Transport::Http(http) = &mut self.transport {
            http.settle(version);
        }
        match era {
            Era::Modern => Ok(()),
            Era::Legacy => {
                let text = message::notification("notifications/initialized", "");
                self.send(&text, "notifications/initialized", deadline).await
            }
        }
    }

    /// Asks, and waits for the answer until `deadline`: the result's JSON text.
    pub async fn ask(&mut self, ask: Ask<'_>, deadline: Instant) -> Result<String, WireError> {
        let method = ask.method();
        let id = self.next_id;
        self.next_id += 1;
        if let Ask::List { kind, .. } = ask {
            // Whatever changed before this question is in its answer.
            self.changed[kind as usize] = false;
        }
        let text = message::request(id, method, &ask.params(self.era));
        let asked = Instant::now();
        let deadline = deadline.min(self.whole);
        let answer = async {
            self.send(&text, method, deadline).await?;
            // Over HTTP an answer that is still to come is one on a stream.
            let deadline = match self.is_stdio() {
                true => deadline,
                false => deadline.min(Instant::now() + self.limits.stream_wait),
            };
            let wanted = id.to_string();
            loop {
                // A server that never stops talking is always ready: the clock is looked at here too.
                if Instant::now() >= deadline {
                    return Err(timed_out(method, Duration::ZERO));
                }
                let text = self.receive(method, deadline).await?;
                if let Some(answer) = self.take(&text, &wanted, method, deadline).await? {
                    return answer;
                }
            }
        }
        .await;
        if answer == Err(timed_out(method, Duration::ZERO)) {
            self.cancel(id, method).await;
            return Err(timed_out(method, asked.elapsed()));
        }
        answer
    }

    /// Takes in what arrives within `quiet` without a question: a list may announce its change just after it was given.
    pub async fn listen(&mut self, quiet: Duration) {
        if let Transport::Http(_) = self.transport {
            return;
        }
        let deadline = (Instant::now() + quiet).min(self.whole);
        while let Ok(text) = self.receive("nothing", deadline).await {
            if Instant::now() >= deadline || self.take(&text, "none", "nothing", deadline).await.is_err() {
                return;
            }
        }
    }

    /// Whether a list was announced to have changed since it was asked for last.
    pub fn has_changed(&self, kind: MemberKind) -> bool {
        self.changed[kind as usize]
    }

    /// Ends the connection; for a process, ends its whole group and says how it went.
    pub(crate) async fn close(self) -> Option<Ending> {
        match self.transport {
            Transport::Stdio { process, .. } => Some(process.close().await),
            Transport::Http(http) => {
                http.close().await;
                None
            }
        }
    }

    /// One message: the answer that is waited for, or `None` after anything else was dealt with.
    async fn take(
        &mut self,
        text: &str,
        wanted: &str,
        method: &'static str,
        deadline: Instant,
    ) -> Result<Option<Result<String, WireError>>, WireError> {
        match message::read(text) {
            Message::Response { id, answer } if id == wanted => {
                return Ok(Some(match answer {
                    Answer::Result(result) => Ok(result.to_owned()),
                    Answer::Error(error) => Err(WireError::Refused { method, error }),
                }));
            }
            Message::Response { .. } => self.traffic.stray_answers += 1,
            Message::Unusable { reason } => return Ok(Some(Err(WireError::Unusable { method, reason }))),
            Message::Request { id, method: asked } => self.answer(id, &asked, method, deadline).await?,
            Message::Notification { method } => self.note_change(&method),
            Message::Batch => {
                self.traffic.batches += 1;
                self.note_noise(text)?;
            }
            Message::Noise => self.note_noise(text)?,
        }
        Ok(None)
    }

    async fn answer(
        &mut self,
        id: &str,
        asked: &str,
        method: &'static str,
        deadline: Instant,
    ) -> Result<(), WireError> {
        self.traffic.server_requests += 1;
        if self.traffic.server_requests > self.limits.server_requests {
            let limit = self.limits.server_requests;
            return Err(WireError::OverLimit {
                what: "requests from the server",
                limit,
            });
        }
        let seen = &mut self.traffic.server_asked;
        if seen.len() < KEPT_FOR_PEOPLE && !seen.iter().any(|known| known == asked) {
            seen.push(asked.to_owned());
        }
        let text = if asked == "ping" {
            message::pong(id)
        } else {
            message::refusal(id)
        };
        self.send_beside(&text, method, deadline).await
    }

    fn note_change(&mut self, notification: &str) {
        let kinds: &[MemberKind] = match notification {
            "notifications/tools/list_changed" => &[MemberKind::Tool],
            "notifications/prompts/list_changed" => &[MemberKind::Prompt],
            "notifications/resources/list_changed" => &[MemberKind::Resource, MemberKind::ResourceTemplate],
            _ => return,
        };
        for kind in kinds {
            self.changed[*kind as usize] = true;
        }
    }

    fn note_noise(&mut self, text: &str) -> Result<(), WireError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        self.traffic.noise += 1;
        if self.traffic.first_noise.is_none() {
            // Whole: a value of ours in it could not be recognised once it is cut.
            self.traffic.first_noise = Some(text.to_owned());
        }
        if self.traffic.noise > self.limits.noise_lines {
            let limit = self.limits.noise_lines;
            return Err(WireError::OverLimit {
                what: "lines that are no JSON-RPC",
                limit,
            });
        }
        Ok(())
    }

    async fn cancel(&mut self, id: u64, method: &'static str) {
        // `initialize` must not be cancelled, and over HTTP closing the stream is the cancellation.
        if method == "initialize" || !self.is_stdio() {
            return;
        }
        let text = message::notification("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        let moment = Instant::now() + Duration::from_millis(100);
        let _ = self.send(&text, "notifications/cancelled", moment).await;
    }

    async fn send(&mut self, text: &str, method: &'static str, deadline: Instant) -> Result<(), WireError> {
        let sent = async {
            match &mut self.transport {
                Transport::Stdio { process, .. } => process.send(text, method).await,
                Transport::Http(http) => http.send(text, method).await,
            }
        };
        timeout_at(deadline, sent)
            .await
            .unwrap_or(Err(timed_out(method, Duration::ZERO)))
    }

    /// Sends an answer of ours while a question of ours stays open.
    async fn send_beside(
        &mut self,
        text: &str,
        method: &'static str,
        deadline: Instant,
    ) -> Result<(), WireError> {
        let sent = async {
            match &mut self.transport {
                Transport::Stdio { process, .. } => process.send(text, method).await,
                Transport::Http(http) => http.send_beside(text, method).await,
            }
        };
        timeout_at(deadline, sent)
            .await
            .unwrap_or(Err(timed_out(method, Duration::ZERO)))
    }

    async fn receive(&mut self, method: &'static str, deadline: Instant) -> Result<String, WireError> {
        let received = async {
            match &mut self.transport {
                Transport::Stdio { process, .. } => process.receive(method).await,
                Transport::Http(http) => http.receive(method).await,
            }
        };
        let bytes = timeout_at(deadline, received)
            .await
            .unwrap_or(Err(timed_out(method, Duration::ZERO)))?;
        // Invalid UTF-8 becomes U+FFFD, which is no byte that was sent: such a line is noise, whatever it looks like.
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| format!("(not UTF-8) {}", String::from_utf8_lossy(error.as_bytes()))))
    }
}

fn timed_out(method: &'static str, within: Duration) -> WireError {
    WireError::TimedOut { method, within }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ask: Ask<'_>, era: Option<Era>, expected: &str) {
        let text = message::request(7, ask.method(), &ask.params(era));
        let client = format!(
            r#"{{"name":"mcpindex","version":"{}"}}"#,
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(text.replace(&client, "CLIENT"), expected);
    }

    #[test]
    fn the_handshakes_say_who_asks_and_declare_nothing() {
        check(
            Ask::Initialize,
            None,
            r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":CLIENT}}"#,
        );
        check(
            Ask::Discover,
            None,
            r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":CLIENT,"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        );
    }

    #[test]
    fn a_list_is_asked_for_in_the_manner_of_its_era_with_the_cursor_as_it_came() {
        let ask = Ask::List {
            kind: MemberKind::Tool,
            cursor: Some(r#""caf\u00e9""#),
        };
        check(
            ask,
            Some(Era::Legacy),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"caf\u00e9"}}"#,
        );
        check(
            ask,
            Some(Era::Modern),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":CLIENT,"io.modelcontextprotocol/clientCapabilities":{}},"cursor":"caf\u00e9"}}"#,
        );
    }

    #[test]
    fn each_kind_has_its_own_list_and_no_other_method_can_be_named() {
        let lists = MemberKind::ALL.map(|kind| Ask::List { kind, cursor: None }.method());
        assert_eq!(
            lists,
            [
                "tools/list",
                "prompts/list",
                "resources/list",
                "resources/templates/list"
            ]
        );
    }
}
