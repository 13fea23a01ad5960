//! What the server sends.
//!
//! Invariant: what goes on to the client is the server's message to the byte, but for what was cut out of a list, of the
//! handshake or of a result; an answer goes on only when the client asked for it and every reader takes it for that answer.

use std::ops::Range;
use std::time::Instant;

use crate::gate::ids::Id;
use crate::gate::listings::not_relayed;
use crate::gate::open::{Open, Purpose};
use crate::gate::refusal::{error_answer, held_answer};
use crate::gate::{Channel, Gate, Output, WHITE_SPACE, send_to_client};
use crate::wire::message::{
    Envelope, elements, envelope, hides_a_message, id_before_damage, members, place, string,
};

/// JSON-RPC's code for an internal error.
const INTERNAL_ERROR: i64 = -32_603;

/// What a message of the server is.
enum Kind {
    /// It passes: a request to the client, a notification, an object that is no message.
    Pass,
    /// The list of tools changed.
    ListChanged,
    /// It speaks of a request of the gate's own.
    AboutOwn,
    /// An answer under this id; the place of its result, `None` for an error.
    Answer {
        id: Option<Id>,
        result: Option<Range<usize>>,
    },
    /// Nobody can be sure what it says.
    Unclear { id: Option<Id>, reason: String },
}

impl Gate {
    /// One message of the server.
    pub(super) fn server_message(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        // What comes along with an answer to the gate belongs to no exchange of the client's.
        let channel = match channel {
            Channel::OWN => Channel::ONLY,
            of_the_client => of_the_client,
        };
        let text = match String::from_utf8(message) {
            Ok(text) => text,
            Err(error) => {
                let lossy = String::from_utf8_lossy(error.as_bytes());
                if may_be_json(&lossy) {
                    self.dropped("a message of the server that is not UTF-8", outputs);
                    let id = id_before_damage(&lossy).and_then(Id::read);
                    return self.unanswerable(id, "the server's answer is not UTF-8", now, outputs);
                }
                return send_to_client(outputs, channel, error.into_bytes());
            }
        };
        let is_before = |character| character == BYTE_ORDER_MARK || WHITE_SPACE.contains(&character);
        let body = text.trim_start_matches(is_before).trim_end_matches(WHITE_SPACE);
        let span = place(&text, body);
        match body.as_bytes().first() {
            Some(b'{') => self.server_object(channel, text, span, now, outputs),
            Some(b'[') if may_be_json(&text) => self.server_batch(channel, body, now, outputs),
            _ if may_be_json(&text) => {
                self.dropped(
                    "a message of the server that is not JSON to every reader",
                    outputs,
                );
            }
            _ => send_to_client(outputs, channel, text.into_bytes()),
        }
    }

    fn server_batch(&mut self, channel: Channel, body: &str, now: Instant, outputs: &mut Vec<Output>) {
        let Some(batch) = elements(body, usize::MAX) else {
            return self.dropped(
                "a message of the server that is not JSON to every reader",
                outputs,
            );
        };
        let has_batches = self.speech.has_batches();
        if !has_batches {
            self.dropped(
                "an array of messages, which the protocol version in use does not have",
                outputs,
            );
        }
        for element in batch.texts {
            if !element.starts_with('{') {
                self.dropped("an element of the server's batch that is no message", outputs);
            } else if has_batches {
                let span = 0..element.len();
                self.server_object(channel, element.to_owned(), span, now, outputs);
            } else if let Some(id) = envelope(element).id {
                self.unanswerable(
                    Id::read(id),
                    "the answer came in an array of messages",
                    now,
                    outputs,
                );
            }
        }
    }

    /// One object, which stands at `body` in the message.
    fn server_object(
        &mut self,
        channel: Channel,
        text: String,
        body: Range<usize>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let kind = self.kind(&text, body);
        match kind {
            Kind::Pass => send_to_client(outputs, channel, text.into_bytes()),
            Kind::ListChanged => self.list_changed(channel, text.into_bytes(), now, outputs),
            Kind::AboutOwn => {}
            Kind::Answer { id, result } => self.answered(channel, id, text, result, now, outputs),
            Kind::Unclear { id, reason } => {
                self.dropped(&format!("a message of the server: {reason}"), outputs);
                self.unanswerable(id, &format!("the server's answer: {reason}"), now, outputs);
            }
        }
    }

    fn kind(&self, text: &str, body: Range<usize>) -> Kind {
        let body = text.get(body).unwrap_or_default();
        let Envelope {
            id,
            method,
            params,
            result,
            error,
            flaw,
        } = envelope(body);
        let unclear = |reason: &str| Kind::Unclear {
            id: id.and_then(Id::read),
            reason: reason.to_owned(),
        };
        if let Some(flaw) = flaw {
            return Kind::Unclear {
                id: id.or_else(|| id_before_damage(body)).and_then(Id::read),
                reason: flaw.to_string(),
            };
        }
        if hides_a_message(body) {
            return unclear("a carriage return in it starts another one");
        }
        // A member that is null says nothing beside its counterpart: some servers write all of them.
        let method = method.filter(|method| *method != "null");
        let error = error.filter(|error| *error != "null");
        let result = match error {
            Some(_) => result.filter(|result| *result != "null"),
            None => result,
        };
        let is_answer = method.is_none() && (result.is_some() || error.is_some());
        if is_answer && id.is_some_and(|id| Id::read(id).is_none()) {
            // Some clients make a number of it: `[1]`, `true`.
            return unclear("its id is no id");
        }
        match (method, result, error) {
            (None, None, None) => Kind::Pass,
            (Some(method), None, None) => match string(method) {
                None => unclear("its method is no string"),
                Some(_) if id.is_some() => Kind::Pass,
                Some(method) if method == "notifications/tools/list_changed" => Kind::ListChanged,
                Some(method) if self.is_about_own(&method, params) => Kind::AboutOwn,
                Some(_) => Kind::Pass,
            },
            (Some(_), ..) => unclear("it is both a request and an answer"),
            (None, Some(_), Some(_)) => unclear("it has both a result and an error"),
            (None, result, _) => Kind::Answer {
                id: id.and_then(Id::read),
                result: result.map(|result| place(text, result)),
            },
        }
    }

    /// Whether a notification speaks of a request of the gate's own, which the client knows nothing of.
    fn is_about_own(&self, method: &str, params: Option<&str>) -> bool {
        let Some(params) = params else {
            return false;
        };
        let name = match method {
            "notifications/progress" => "progressToken",
            "notifications/cancelled" => "requestId",
            _ => return self.own.is_named_in(params),
        };
        let named = members(params, [name]).ok().and_then(|[named]| named);
        named.is_some_and(|named| self.own.is_own_text(named))
    }

    fn answered(
        &mut self,
        channel: Channel,
        id: Option<Id>,
        text: String,
        result: Option<Range<usize>>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        if let Some(Id::Text(name)) = &id
            && self.own.is_own(name)
        {
            let result = result.ok_or_else(|| "the server answered with an error".to_owned());
            let number = self.own.number(name).unwrap_or_default();
            return self.own_answered(number, text, result, now, outputs);
        }
        let open = id.as_ref().and_then(|id| self.open.answered(id));
        match (open, result) {
            (None, None) if matches!(id, None | Some(Id::Null)) => {
                // Of a request that the server could not read far enough to know its id.
                send_to_client(outputs, channel, text.into_bytes());
            }
            (None, _) => self.dropped("an answer to a request that nobody made", outputs),
            (Some(open), None) => {
                let hold = match &open.purpose {
                    Purpose::Call { tool: Some(tool) } => self.scan_error(tool, &text, outputs),
                    _ => None,
                };
                let message = match hold {
                    Some(hold) => held_answer(&open.id, &hold),
                    None => text.into_bytes(),
                };
                send_to_client(outputs, open.channel, message);
                self.pursue_listing(now, outputs);
            }
            (Some(open), Some(result)) => self.result_came(open, text, result, now, outputs),
        }
    }

    /// The result of a request of the client, by what was asked.
    fn result_came(
        &mut self,
        open: Open,
        text: String,
        result: Range<usize>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let Open {
            channel, id, purpose, ..
        } = open;
        let result_text = text.get(result.clone()).unwrap_or_default();
        match purpose {
            Purpose::Tools { moment } => {
                return self.list_answered((channel, id, moment), text, result, now, outputs);
            }
            Purpose::Handshake { settles_version } => {
                let answer = self.handshake_answer(text, result, settles_version, outputs);
                let message = match answer {
                    Ok(answer) => answer.into_bytes(),
                    Err(flaw) => {
                        let reason = format!("the server's answer: {flaw}");
                        self.dropped(&reason, outputs);
                        error_answer(&id, INTERNAL_ERROR, &reason)
                    }
                };
                return send_to_client(outputs, channel, message);
            }
            Purpose::Context(kind) => self.context_listed(kind, result_text, outputs),
            Purpose::Call { tool: Some(tool) } => {
                if let Some(hold) = self.scan_result(&tool, result_text, outputs) {
                    return send_to_client(outputs, channel, held_answer(&id, &hold));
                }
            }
            Purpose::Plain | Purpose::Call { tool: None } | Purpose::WaitingCall => {}
        }
        send_to_client(outputs, channel, text.into_bytes());
    }

    /// The answer under this id can't be used: whoever asked is told so.
    fn unanswerable(&mut self, id: Option<Id>, reason: &str, now: Instant, outputs: &mut Vec<Output>) {
        let Some(id) = id else {
            return;
        };
        if let Id::Text(name) = &id
            && let Some(number) = self.own.number(name)
        {
            return self.own_answered(number, String::new(), Err(reason.to_owned()), now, outputs);
        }
        let Some(Open {
            channel, id, purpose, ..
        }) = self.open.answered(&id)
        else {
            return;
        };
        let message = match purpose {
            Purpose::Tools { .. } => not_relayed(&id, reason),
            _ => error_answer(&id, INTERNAL_ERROR, reason),
        };
        send_to_client(outputs, channel, message);
        self.pursue_listing(now, outputs);
    }
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Whether some reader could take a text that is no strict JSON, or a piece of it, for an object or an array of objects.
/// Readers differ in what ends a line and in what they skip before a value.
fn may_be_json(text: &str) -> bool {
    let is_line_end = |character: char| {
        matches!(
            character,
            '\r' | '\n' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let is_skipped = |character: char| {
        character.is_whitespace()
            || character.is_control()
            || matches!(
                character,
                BYTE_ORDER_MARK | '\u{200b}' | char::REPLACEMENT_CHARACTER
            )
    };
    text.split(is_line_end).any(|piece| {
        let piece = piece.trim_start_matches(is_skipped);
        if piece.starts_with('{') {
            return true;
        }
        piece.starts_with('[') && leads_to_an_object(piece, is_skipped)
    })
}

/// Whether an array, to a reader that is lenient about what stands in it, has an object in it, be it behind other elements.
/// A line of a log that begins with a bracket goes on with something that is no JSON, or closes it first.
fn leads_to_an_object(array: &str, is_skipped: impl Fn(char) -> bool) -> bool {
    const LITERALS: [&str; 5] = ["null", "true", "false", "NaN", "Infinity"];
    let mut depth = 0_usize;
    let mut rest = array;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '{' => return true,
            '[' => {
                depth += 1;
                1
            }
            ']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return false;
                }
                1
            }
            '"' => match string_length(rest) {
                Some(length) => length,
                None => return false,
            },
            ',' | '+' | '-' | '.' | '0'..='9' | 'e' | 'E' => 1,
            other if is_skipped(other) => other.len_utf8(),
            _ => match LITERALS.iter().find(|literal| rest.starts_with(**literal)) {
                Some(literal) => literal.len(),
                None => return false,
            },
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

/// The length of the string literal that a text begins with, quotes included.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(place + 1),
            _ => {}
        }
    }
    None
}
