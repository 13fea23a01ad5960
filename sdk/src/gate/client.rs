//! What the client sends.
//!
//! Invariant: whatever goes on to the server is the client's message to the byte, and reads the same to every reader that
//! could stand behind the server; anything else is refused, with an answer where there is one to answer.

use std::time::Instant;

use mcpindex_contract::posture::{Decision, Posture};
use mcpindex_contract::surface::MemberKind;
use serde::de::IgnoredAny;

use crate::gate::calls::Call;
use crate::gate::event::Event;
use crate::gate::hold::HoldClass;
use crate::gate::ids::Id;
use crate::gate::open::{Open, Purpose, Refused};
use crate::gate::refusal::{INTERNAL, error_answer, held_answer};
use crate::gate::short_text::ShortText;
use crate::gate::{Channel, Gate, Output, WHITE_SPACE, send_to_client};
use crate::wire::message::{
    Envelope, MembersError, clear_members, elements, envelope, hides_a_message, id_before_damage, members,
    string,
};

/// The text is no JSON (JSON-RPC's own code).
const PARSE_ERROR: i64 = -32_700;
/// The message is no request that can be handled.
const INVALID_REQUEST: i64 = -32_600;
/// The request's params are not what its method takes.
const INVALID_PARAMS: i64 = -32_602;

/// What is done about one message.
enum Route {
    Forward,
    /// The client is answered with an error under this id (JSON text).
    Refuse {
        id: String,
        code: i64,
        message: String,
    },
    /// A request that goes on.
    Request {
        id: Id,
        id_text: ShortText,
        purpose: Purpose,
    },
    /// A request for the page behind a cursor.
    Page {
        id: Id,
        id_text: ShortText,
        cursor: String,
    },
    Call {
        id: Id,
        id_text: ShortText,
        tool: CalledTool,
    },
    /// A call that asks for no answer.
    UnansweredCall,
    Initialized,
    Cancelled(Id),
}

/// The tool that a call names.
enum CalledTool {
    Named(ShortText),
    /// The name's JSON text, which is no string.
    Unnameable(String),
}

impl Gate {
    /// One message of the client, or one element of a batch.
    pub(super) fn client_message(
        &mut self,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        let Ok(text) = str::from_utf8(&message) else {
            return refuse(channel, "null", PARSE_ERROR, "the message is not UTF-8", outputs);
        };
        let body = text.trim_matches(WHITE_SPACE);
        match body.as_bytes().first() {
            None => forward(channel, message, outputs),
            Some(b'{') => {
                let route = self.route(body);
                self.follow(route, channel, message, now, outputs);
            }
            Some(b'[') => self.client_batch(channel, body, now, outputs),
            Some(_) if serde_json::from_str::<IgnoredAny>(body).is_ok() => forward(channel, message, outputs),
            Some(_) => refuse(channel, "null", PARSE_ERROR, "the message is not JSON", outputs),
        }
    }

    fn client_batch(&mut self, channel: Channel, body: &str, now: Instant, outputs: &mut Vec<Output>) {
        let Some(batch) = elements(body, usize::MAX) else {
            return refuse(channel, "null", PARSE_ERROR, "the message is not JSON", outputs);
        };
        if !self.speech.has_batches() {
            let message = "arrays of messages are no part of the protocol version in use";
            return refuse(channel, "null", INVALID_REQUEST, message, outputs);
        }
        if batch.total == 0 {
            return refuse(channel, "null", INVALID_REQUEST, "the batch is empty", outputs);
        }
        for element in batch.texts {
            match element.starts_with('{') {
                true => self.client_message(channel, element.as_bytes().to_vec(), now, outputs),
                false => refuse(
                    channel,
                    "null",
                    INVALID_REQUEST,
                    "an element of the batch is no message",
                    outputs,
                ),
            }
        }
    }

    /// Reads one object and says what is to be done about it.
    fn route(&mut self, body: &str) -> Route {
        let envelope = envelope(body);
        let id = envelope.id.map(|text| (Id::read(text), text));
        if let Some(flaw) = &envelope.flaw {
            let code = match flaw {
                MembersError::NoObject => PARSE_ERROR,
                MembersError::Twice(_) | MembersError::Lookalike(_) => INVALID_REQUEST,
            };
            let is_about_id = matches!(flaw, MembersError::Twice("id") | MembersError::Lookalike("id"));
            let id = match id {
                Some((Some(_), text)) if !is_about_id => text,
                // One that waits for another answer already would take this for it.
                None => id_before_damage(body)
                    .filter(|text| Id::read(text).is_some_and(|id| !self.open.is_open(&id)))
                    .unwrap_or("null"),
                _ => "null",
            };
            return refused(
                id,
                code,
                format!("the message can't be read without doubt: {flaw}"),
            );
        }
        if hides_a_message(body) {
            return refused(
                "null",
                INVALID_REQUEST,
                "a carriage return in the message starts another one",
            );
        }
        let Some(method_text) = envelope.method.filter(|method| *method != "null") else {
            // An answer to the server, or nothing that any method could be read from.
            return Route::Forward;
        };
        let (id, id_text) = match id {
            None => (None, "null"),
            Some((Some(id), text)) => (Some(id), text),
            Some((None, _)) => {
                let message = "the id is neither a number nor a string of at most 1,024 bytes";
                return refused("null", INVALID_REQUEST, message);
            }
        };
        let Some(method) = string(method_text) else {
            return refused(id_text, INVALID_REQUEST, "the method is no string");
        };
        if envelope.result.is_some() || envelope.error.is_some() {
            return refused(
                id_text,
                INVALID_REQUEST,
                "the message is both a request and an answer",
            );
        }
        match id {
            None => notification_route(&method, envelope.params),
            Some(Id::Text(id)) if self.own.is_own(&id) => {
                refused("null", INVALID_REQUEST, "the id is one of the gate's own")
            }
            Some(id) => self.request_route(id, id_text, &method, &envelope),
        }
    }

    fn request_route(&mut self, id: Id, id_text: &str, method: &str, envelope: &Envelope<'_>) -> Route {
        if self.open.is_open(&id) {
            // An answer under this id would be taken for the answer to the other request.
            return refused("null", INVALID_REQUEST, "a request with this id is still open");
        }
        if let Some(params) = envelope.params {
            self.speech.heard(params);
        }
        let purpose = match method {
            "initialize" => {
                self.speech.initialize();
                self.listings.outdate();
                Purpose::Handshake {
                    settles_version: true,
                }
            }
            "server/discover" => Purpose::Handshake {
                settles_version: false,
            },
            "prompts/list" => Purpose::Context(MemberKind::Prompt),
            "resources/list" => Purpose::Context(MemberKind::Resource),
            "resources/templates/list" => Purpose::Context(MemberKind::ResourceTemplate),
            "tools/list" => match cursor(envelope.params) {
                Ok(None) => Purpose::Tools {
                    moment: self.listings.moment,
                },
                Ok(Some(cursor)) => {
                    let id_text = ShortText::from(id_text);
                    return Route::Page { id, id_text, cursor };
                }
                Err((code, message)) => return refused(id_text, code, message),
            },
            "tools/call" => match called_tool(envelope.params) {
                Ok(tool) => {
                    let id_text = ShortText::from(id_text);
                    return Route::Call { id, id_text, tool };
                }
                Err((code, message)) => return refused(id_text, code, message),
            },
            // What a call comes to that was made as a task; which tool that was is not kept.
            // In the newer protocol the state of a task carries it.
            "tasks/result" | "tasks/get" => Purpose::Call {
                tool: self.options.scan_results.then(|| method.to_owned()),
            },
            _ => Purpose::Plain,
        };
        Route::Request {
            id,
            id_text: ShortText::from(id_text),
            purpose,
        }
    }

    fn follow(
        &mut self,
        route: Route,
        channel: Channel,
        message: Vec<u8>,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) {
        match route {
            Route::Forward => forward(channel, message, outputs),
            Route::Refuse { id, code, message } => refuse(channel, &id, code, &message, outputs),
            Route::Request { id, id_text, purpose } => {
                let open = Open::new(channel, id_text, purpose);
                self.send_request(id, open, message, outputs);
            }
            Route::Page { id, id_text, cursor } => match self.page_at(&cursor, &id_text) {
                Some(page) => send_to_client(outputs, channel, page),
                None if self.options.posture == Posture::Monitor => {
                    let open = Open::new(channel, id_text, Purpose::Plain);
                    self.send_request(id, open, message, outputs);
                }
                None => {
                    let message = "this cursor belongs to a listing that changed; list again from the start";
                    refuse(channel, &id_text, INVALID_PARAMS, message, outputs);
                }
            },
            Route::Call { id, id_text, tool } => match tool {
                CalledTool::Named(tool) => {
                    let call = Call {
                        channel,
                        id,
                        id_text,
                        tool,
                        message,
                    };
                    self.call(call, now, outputs);
                }
                CalledTool::Unnameable(text) => {
                    let sentence = "The name in the call is no string, so no tool of the list can be meant.";
                    let hold = self.gate_hold(&text, HoldClass::NotListed, Decision::Hold, sentence);
                    send_to_client(outputs, channel, held_answer(&id_text, &hold));
                    outputs.push(Output::from(Event::CallHeld(hold)));
                }
            },
            Route::UnansweredCall if self.options.posture == Posture::Monitor => {
                forward(channel, message, outputs);
            }
            Route::UnansweredCall => self.dropped("a call without an id, which nobody could answer", outputs),
            Route::Initialized => {
                self.speech.initialized();
                forward(channel, message, outputs);
                self.pursue_listing(now, outputs);
            }
            Route::Cancelled(id) => {
                if self.open.cancelled(&id) == Some(&Purpose::WaitingCall) {
                    self.forget_waiting(&id);
                }
                forward(channel, message, outputs);
                self.pursue_listing(now, outputs);
            }
        }
    }

    /// Sends a request on and remembers it, unless too many are open.
    pub(super) fn send_request(&mut self, id: Id, open: Open, message: Vec<u8>, outputs: &mut Vec<Output>) {
        let channel = open.channel;
        match self.open.begin(id, open) {
            Ok(()) => forward(channel, message, outputs),
            Err(refused) => self.refuse_opening(&refused, channel, outputs),
        }
    }

    pub(super) fn refuse_opening(&self, refused: &Refused, channel: Channel, outputs: &mut Vec<Output>) {
        match refused {
            Refused::SameId => {
                let message = "a request with this id is still open";
                refuse(channel, "null", INVALID_REQUEST, message, outputs);
            }
            Refused::TooMany(open) => {
                let limit = self.options.limits.in_flight;
                let message = format!("{limit} requests wait for the server, and more are not taken");
                refuse(channel, &open.id, INTERNAL, &message, outputs);
            }
        }
    }
}

fn notification_route(method: &str, params: Option<&str>) -> Route {
    match method {
        "notifications/initialized" => Route::Initialized,
        "notifications/cancelled" => {
            let id = params.and_then(|params| members(params, ["requestId"]).ok());
            match id.and_then(|[id]| Id::read(id?)) {
                Some(id) => Route::Cancelled(id),
                None => Route::Forward,
            }
        }
        "tools/call" => Route::UnansweredCall,
        _ => Route::Forward,
    }
}

/// The cursor of a request for a list, unescaped.
fn cursor(params: Option<&str>) -> Result<Option<String>, (i64, String)> {
    let Some(params) = params else {
        return Ok(None);
    };
    let [cursor] = match clear_members(params, ["cursor"]) {
        Ok(found) => found,
        // Nothing that a cursor could be read from; the server may refuse it.
        Err(MembersError::NoObject) => return Ok(None),
        Err(flaw) => return Err(unclear_params(&flaw)),
    };
    match cursor {
        None | Some("null") => Ok(None),
        Some(cursor) => match string(cursor) {
            Some(cursor) => Ok(Some(cursor.into_owned())),
            None => Err((INVALID_PARAMS, "the cursor is no string".to_owned())),
        },
    }
}

fn called_tool(params: Option<&str>) -> Result<CalledTool, (i64, String)> {
    let unnamed = || {
        (
            INVALID_PARAMS,
            "a call takes an object of params with the tool's name".to_owned(),
        )
    };
    let [name] = clear_members(params.unwrap_or("null"), ["name"]).map_err(|flaw| match flaw {
        MembersError::NoObject => unnamed(),
        flaw => unclear_params(&flaw),
    })?;
    let name = name.ok_or_else(unnamed)?;
    Ok(match string(name) {
        Some(name) => CalledTool::Named(ShortText::from(&*name)),
        None => CalledTool::Unnameable(name.chars().take(200).collect()),
    })
}

fn unclear_params(flaw: &MembersError) -> (i64, String) {
    (
        INVALID_REQUEST,
        format!("the params can't be read without doubt: {flaw}"),
    )
}

fn refused(id: &str, code: i64, message: impl Into<String>) -> Route {
    Route::Refuse {
        id: id.to_owned(),
        code,
        message: message.into(),
    }
}

fn refuse(channel: Channel, id: &str, code: i64, message: &str, outputs: &mut Vec<Output>) {
    send_to_client(outputs, channel, error_answer(id, code, message));
}

fn forward(channel: Channel, message: Vec<u8>, outputs: &mut Vec<Output>) {
    outputs.push(Output::ToServer { channel, message });
}
