//! What a client gets in place of an answer: the text for its agent, the data for programs.
//!
//! Invariants: evidence in a neutral voice, no order to the model and no banner; whatever the server or the model wrote
//! is quoted, made visible and cut to a length.

use crate::gate::hold::Hold;

/// A held call or withheld result (JSON-RPC error −32010).
pub const HELD: i64 = -32010;
/// A fault of the gate's own (−32012).
pub const INTERNAL: i64 = -32012;
/// A listing that is not relayed, since it could not be read or judged (−32014).
pub const LIST_NOT_RELAYED: i64 = -32014;

/// The text for an agent, lines of at most some 200 characters.
pub fn agent_text(hold: &Hold) -> String {
    let _ = hold;
    todo!("refusal")
}

/// The one line for the person on stderr.
pub fn person_line(hold: &Hold) -> String {
    let _ = hold;
    todo!("refusal")
}

/// The whole answer (one JSON-RPC message) to the request of this id (JSON text).
pub fn held_answer(id: &str, hold: &Hold) -> Vec<u8> {
    let _ = (id, hold);
    todo!("refusal")
}

/// Any other refusal: an error with this code and message, and no data of the server's.
pub fn error_answer(id: &str, code: i64, message: &str) -> Vec<u8> {
    let _ = (id, code, message);
    todo!("refusal")
}
