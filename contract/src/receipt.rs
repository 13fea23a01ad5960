//! Receipts: what the published Python client tells of calls that it let go, held or refused, in one closed shape
//! (`{"v":1,"receipts":[…],"install_id":"…"}`).
//!
//! The shape is one table ([`ENVELOPE`]): the reader follows it at every level, and the API's description is made from it.
//! Every text in it is of a closed set, or a plain word of bounded length, so a receipt has no room for anything else.
//!
//! Invariant: a batch is read whole or refused whole; what is kept of a receipt is its canonical text, in which no member
//! stands that the shape does not have.

mod shape;

pub use shape::{ENVELOPE, Letters, Member, Shape};

use crate::canonical::canonical;
use crate::json::{self, FlawKind, Value};
use crate::signal::InstallId;

/// The most receipts in one batch.
pub const MAX_RECEIPTS: usize = 256;

/// One receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// `rcpt_` and at most 40 letters and digits: its natural key within its install.
    pub id: String,
    /// The published contract hash of the tool that was called.
    pub tool_hash: String,
    /// `ALLOW`, `REVIEW` or `DENY`.
    pub verdict: String,
    /// The whole receipt as RFC 8785 writes it.
    pub text: String,
}

/// A batch as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Whose.
    pub install: InstallId,
    /// 1 to [`MAX_RECEIPTS`].
    pub receipts: Vec<Receipt>,
}

/// Why a batch was refused; nothing of it may be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// The body is not JSON in UTF-8.
    #[error("the body is not JSON: {reason}")]
    NotJson {
        /// What is wrong with it.
        reason: String,
    },
    /// The body is JSON of another shape.
    #[error("{place}: expected {expected}")]
    Invalid {
        /// Where: `receipts[3].outcome.status`, …
        place: String,
        /// What the shape has there.
        expected: String,
    },
}

impl ReceiptError {
    /// The published name: `invalid_json` or `invalid_receipt`.
    pub fn name(&self) -> &'static str {
        match self {
            ReceiptError::NotJson { .. } => "invalid_json",
            ReceiptError::Invalid { .. } => "invalid_receipt",
        }
    }
}

/// Reads a batch.
pub fn read(body: &[u8]) -> Result<Batch, ReceiptError> {
    let not_json = |reason: String| ReceiptError::NotJson { reason };
    let text = std::str::from_utf8(body).map_err(|_| not_json("it is not UTF-8".to_owned()))?;
    let document = json::read(text).map_err(|error| not_json(error.to_string()))?;
    if let Some(flaw) = document.flaws.first() {
        let expected = match flaw.kind {
            FlawKind::DuplicateMember => "each member once",
            FlawKind::LoneSurrogate => "whole characters",
        };
        return Err(invalid(&flaw.pointer, expected));
    }
    ENVELOPE
        .check(&document.value, &mut String::new())
        .map_err(|(place, expected)| ReceiptError::Invalid { place, expected })?;
    // The shape has said that all of this is there.
    let missing = || invalid("", "the members of a batch");
    let install = text_of(&document.value, "install_id").and_then(|text| text.parse().ok());
    let Some(Value::Array(receipts)) = document.value.get("receipts") else {
        return Err(missing());
    };
    let receipt = |value: &Value| {
        Some(Receipt {
            id: text_of(value, "receipt_id")?.to_owned(),
            tool_hash: text_of(value, "tool_hash")?.to_owned(),
            verdict: text_of(value, "verdict_at_call")?.to_owned(),
            text: canonical(value, None).ok()?,
        })
    };
    Ok(Batch {
        install: install.ok_or_else(missing)?,
        receipts: receipts
            .iter()
            .map(receipt)
            .collect::<Option<_>>()
            .ok_or_else(missing)?,
    })
}

fn text_of<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

fn invalid(place: &str, expected: &str) -> ReceiptError {
    let place = if place.is_empty() { "the body" } else { place };
    ReceiptError::Invalid {
        place: place.to_owned(),
        expected: expected.to_owned(),
    }
}
