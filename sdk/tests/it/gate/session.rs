//! A scripted exchange with a gate: what each side sends, and what goes where.
//!
//! Invariant: a message that comes out as it went in is written `as sent`, so that a transcript shows every byte that the
//! gate changed.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpindex::approvals::Approvals;
use mcpindex::clock::Clock;
use mcpindex::gate::event::Event;
use mcpindex::gate::hold::Hold;
use mcpindex::gate::{Channel, Gate, GateLimits, GateOptions, NewTools, Output};
use mcpindex::pins::Pins;
use mcpindex_contract::posture::Posture;
use serde_json::Value;

/// A clock that stands still.
pub(super) struct Still;

impl Clock for Still {
    fn unix_seconds(&self) -> i64 {
        1_800_000_000
    }
}

pub(super) fn options() -> GateOptions {
    GateOptions {
        posture: Posture::Guard,
        new_tools: NewTools::Review,
        list_timeout: Duration::from_secs(10),
        scan_results: false,
        tell_action: false,
        server: "npm:docs".to_owned(),
        limits: GateLimits::default(),
        clock: Arc::new(Still),
    }
}

/// See the module.
pub(super) struct Session {
    pub(super) gate: Gate,
    pub(super) now: Instant,
    /// What came out and was not looked at yet.
    pub(super) outputs: Vec<Output>,
    transcript: String,
    /// The ids of the gate's own requests that nobody answered yet.
    own: Vec<String>,
    prefix: Option<String>,
}

impl Session {
    pub(super) fn new(options: GateOptions, pins: Pins) -> Session {
        Session {
            gate: Gate::new(options, pins),
            now: Instant::now(),
            outputs: Vec::new(),
            transcript: String::new(),
            own: Vec::new(),
            prefix: None,
        }
    }

    /// Under guard, nothing pinned, the legacy handshake done.
    pub(super) fn legacy() -> Session {
        Session::legacy_with(options(), Pins::memory())
    }

    pub(super) fn legacy_with(options: GateOptions, pins: Pins) -> Session {
        let mut session = Session::new(options, pins);
        session.shake_hands("2025-06-18");
        session
    }

    /// The same, where an organisation's decisions about `npm:docs` are obeyed.
    pub(super) fn obeying(options: GateOptions, pins: Pins, approvals: &Approvals) -> Session {
        let mut session = Session::new(options.clone(), Pins::memory());
        session.gate = Gate::new(options, pins).obeying(approvals.clone(), "npm:docs");
        session.shake_hands("2025-06-18");
        session
    }

    pub(super) fn shake_hands(&mut self, version: &str) {
        self.client(&format!(
            r#"{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{{"protocolVersion":"{version}"}}}}"#
        ));
        self.server(&format!(
            r#"{{"jsonrpc":"2.0","id":"i","result":{{"protocolVersion":"{version}","capabilities":{{}}}}}}"#
        ));
        self.client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.transcript();
    }

    pub(super) fn client(&mut self, message: &str) -> &mut Session {
        self.client_bytes(message.as_bytes())
    }

    pub(super) fn client_bytes(&mut self, message: &[u8]) -> &mut Session {
        self.client_on(Channel::ONLY, message)
    }

    pub(super) fn client_on(&mut self, channel: Channel, message: &[u8]) -> &mut Session {
        let mut outputs = Vec::new();
        self.gate
            .from_client(channel, message.to_vec(), self.now, &mut outputs);
        self.write("client", message, outputs)
    }

    pub(super) fn server(&mut self, message: &str) -> &mut Session {
        self.server_bytes(message.as_bytes())
    }

    pub(super) fn server_bytes(&mut self, message: &[u8]) -> &mut Session {
        self.server_on(Channel::ONLY, message)
    }

    pub(super) fn server_on(&mut self, channel: Channel, message: &[u8]) -> &mut Session {
        let mut outputs = Vec::new();
        self.gate
            .from_server(channel, message.to_vec(), self.now, &mut outputs);
        self.write("server", message, outputs)
    }

    /// The client asks for the list, and the server gives this result.
    pub(super) fn list(&mut self, id: u64, result: &str) -> &mut Session {
        self.client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
        self.server(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
    }

    pub(super) fn call(&mut self, id: u64, tool: &str) -> &mut Session {
        self.client(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#
        ))
    }

    pub(super) fn list_changed(&mut self) -> &mut Session {
        self.server(LIST_CHANGED)
    }

    /// The server answers the gate's oldest question.
    pub(super) fn answer(&mut self, result: &str) -> &mut Session {
        let id = self.own.remove(0);
        self.server(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{result}}}"#))
    }

    pub(super) fn answer_with_error(&mut self) -> &mut Session {
        let id = self.own.remove(0);
        self.server(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32603,"message":"no"}}}}"#
        ))
    }

    /// The id of the gate's oldest question that nobody answered yet.
    pub(super) fn own_id(&self) -> String {
        self.own[0].clone()
    }

    /// The same, for an answer by hand.
    pub(super) fn take_own_id(&mut self) -> String {
        self.own.remove(0)
    }

    pub(super) fn has_own_question(&self) -> bool {
        !self.own.is_empty()
    }

    /// Time goes by, and the gate is woken whenever it asked to be.
    pub(super) fn pass(&mut self, time: Duration) -> &mut Session {
        let until = self.now + time;
        let mut woken = 0;
        while let Some(due) = self.gate.next_tick().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            woken += 1;
            assert!(woken < 1_000, "the gate asks to be woken again and again");
            let mut outputs = Vec::new();
            self.gate.tick(self.now, &mut outputs);
            self.write("time", b"", outputs);
        }
        self.now = until;
        self
    }

    /// Anything else that is done to the gate.
    pub(super) fn on(
        &mut self,
        what: &str,
        act: impl FnOnce(&mut Gate, Instant, &mut Vec<Output>),
    ) -> &mut Session {
        let mut outputs = Vec::new();
        act(&mut self.gate, self.now, &mut outputs);
        self.write(what, b"", outputs)
    }

    /// What happened since this was asked last.
    pub(super) fn transcript(&mut self) -> String {
        self.outputs.clear();
        std::mem::take(&mut self.transcript)
    }

    fn write(&mut self, who: &str, input: &[u8], outputs: Vec<Output>) -> &mut Session {
        let mut lines = String::new();
        for output in &outputs {
            match output {
                Output::ToServer { channel, message } => {
                    self.note_own(message);
                    let line = self.shown(input, message);
                    let _ = writeln!(lines, "  -> server{}: {line}", on(*channel));
                }
                Output::ToClient { channel, message } => {
                    let line = self.shown(input, message);
                    let _ = writeln!(lines, "  -> client{}: {line}", on(*channel));
                }
                Output::Event(event) => {
                    let _ = writeln!(lines, "  * {}", event_line(event));
                }
            }
        }
        let input = self.named(&String::from_utf8_lossy(input));
        let _ = writeln!(self.transcript, "{who}: {}", cut(&input));
        self.transcript.push_str(&lines);
        self.outputs.extend(outputs);
        self
    }

    fn note_own(&mut self, message: &[u8]) {
        let id = serde_json::from_slice::<Value>(message).ok();
        let id = id.and_then(|value| Some(value.get("id")?.as_str()?.to_owned()));
        let Some(id) = id.filter(|id| id.starts_with("mcpindex-")) else {
            return;
        };
        let (prefix, _) = id.rsplit_once('-').unwrap();
        self.prefix = Some(prefix.to_owned());
        self.own.push(id);
    }

    fn shown(&self, input: &[u8], message: &[u8]) -> String {
        if !input.is_empty() && input == message {
            return "as sent".to_owned();
        }
        let text = String::from_utf8_lossy(message);
        if let Ok(value) = serde_json::from_str::<Value>(&text)
            && let Some(data) = value["error"].get("data")
        {
            let codes: Vec<&str> = data["reasons"]
                .as_array()
                .map(|reasons| {
                    reasons
                        .iter()
                        .filter_map(|reason| reason["code"].as_str())
                        .collect()
                })
                .unwrap_or_default();
            return format!(
                "{} {} {} {} {}",
                value["id"],
                data["decision"].as_str().unwrap_or("?"),
                data["class"].as_str().unwrap_or("?"),
                data["tool"],
                codes.join(",")
            );
        }
        self.named(&text)
    }

    fn named(&self, text: &str) -> String {
        match &self.prefix {
            Some(prefix) => text.replace(prefix.as_str(), "mcpindex-RANDOM"),
            None => text.to_owned(),
        }
    }
}

pub(super) const LIST_CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn on(channel: Channel) -> String {
    match channel {
        Channel::ONLY => String::new(),
        Channel::OWN => " (own)".to_owned(),
        Channel(number) => format!(" ({number})"),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn hold_line(hold: &Hold) -> String {
    let codes: Vec<&str> = hold.reasons.iter().map(|reason| reason.code).collect();
    format!(
        "{} {} {:?} {}",
        hold.decision.name(),
        hold.class.name(),
        hold.tool,
        codes.join(",")
    )
}

fn event_line(event: &Event) -> String {
    match event {
        Event::FirstSight { pinned, withheld } => {
            format!("first sight: {pinned} pinned, {withheld} withheld")
        }
        Event::Withheld(hold) => format!("withheld: {}", hold_line(hold)),
        Event::Accepted {
            tool, changes, notes, ..
        } => {
            let kinds: Vec<&str> = changes.iter().map(|change| change.kind.name()).collect();
            let notes: Vec<&str> = notes.iter().map(|note| note.code).collect();
            format!("accepted: {tool:?} {} ({})", kinds.join(","), notes.join(","))
        }
        Event::Obeyed { tool, decision, .. } => format!("obeyed: {tool:?} by decision {decision}"),
        Event::ToolGone { tool } => format!("gone: {tool:?}"),
        Event::CallHeld(hold) => format!("call held: {}", hold_line(hold)),
        Event::ResultMarked { tool, withheld } => format!("result marked: {tool:?} withheld={withheld}"),
        Event::ContextDrift {
            kind,
            name,
            changes,
            withheld,
        } => {
            let kind = kind.map_or("instructions", |kind| kind.name());
            let changes: Vec<&str> = changes.iter().map(|change| change.kind.name()).collect();
            format!(
                "context: {kind} {name:?} {} withheld={withheld}",
                changes.join(",")
            )
        }
        Event::Dropped { reason } => format!("dropped: {reason}"),
        Event::ListingFailed { reason } => format!("listing failed: {reason}"),
        Event::PinsNotice { notice } => format!("notice: {}", notice.split(':').next().unwrap()),
        Event::PinsUnusable { reason } => format!("pins unusable: {}", reason.split(':').next().unwrap()),
        Event::Released { tool, .. } => format!("released: {tool:?}"),
    }
}
