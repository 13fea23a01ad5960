//! Signals: what one install tells an index about one tool it pinned or saw drift, in two closed shapes.
//!
//! Version 1 is the published clients' (`{"signals":[…]}`, eleven members, their contract hash); version 2 is version 1
//! with the definition digests beside the hashes, so that a drift outside the published hash can be told at all.
//! Servers and tools are named by fingerprints only ([`FingerprintKey`]).
//!
//! Invariant: a batch is read whole or refused whole; no member that is not of the shape survives the reading, so nothing
//! else can ever be stored. [`write()`] is the one encoder, and what it writes [`read()`] takes.

mod fingerprint;
mod hour;
mod read;

pub use fingerprint::{Fingerprint, FingerprintKey, InstallId, NotHex};
pub use hour::{hour_from_text, hour_text};
pub use read::read;

use crate::digest::Digest;
use std::fmt::Write as _;

/// The most signals in one batch.
pub const MAX_SIGNALS: usize = 256;
/// The most kinds of change in one signal.
pub const MAX_KINDS: usize = 64;
/// The longest name of a hash's algorithm (`sha256`), in characters; the published shape sets no bound.
pub const MAX_ALGORITHM: usize = 32;
/// How far back a signal's hour may lie, in seconds.
pub const MAX_AGE: i64 = 7 * 86_400;
/// How far ahead a signal's hour may lie, in seconds: clocks differ.
pub const MAX_AHEAD: i64 = 3_600;

/// What a signal tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A tool was pinned at first sight.
    Pin,
    /// A pinned tool differs from its pin.
    Drift,
}

impl Event {
    /// `pin` or `drift`.
    pub fn name(self) -> &'static str {
        match self {
            Event::Pin => "pin",
            Event::Drift => "drift",
        }
    }

    /// The event of this name.
    pub fn from_name(name: &str) -> Option<Event> {
        [Event::Pin, Event::Drift]
            .into_iter()
            .find(|event| event.name() == name)
    }
}

/// Which client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sdk {
    /// The published Python client.
    Py,
    /// The published TypeScript client.
    Ts,
    /// This one.
    Rs,
}

impl Sdk {
    /// `py`, `ts` or `rs`.
    pub fn name(self) -> &'static str {
        match self {
            Sdk::Py => "py",
            Sdk::Ts => "ts",
            Sdk::Rs => "rs",
        }
    }

    /// The client of this name.
    pub fn from_name(name: &str) -> Option<Sdk> {
        [Sdk::Py, Sdk::Ts, Sdk::Rs]
            .into_iter()
            .find(|sdk| sdk.name() == name)
    }
}

/// The definition digests that version 2 adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digests {
    /// Of the pinned definition; `None` on a pin.
    pub before: Option<Digest>,
    /// Of the definition that was seen.
    pub after: Digest,
}

impl Digests {
    /// The two digests as written, the first empty on a pin.
    pub fn texts(&self) -> (String, String) {
        let before = self.before.map(|digest| digest.to_string());
        (before.unwrap_or_default(), self.after.to_string())
    }
}

/// One signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// A pin or a drift.
    pub event: Event,
    /// Which server.
    pub server: Fingerprint,
    /// Which tool of it.
    pub tool: Fingerprint,
    /// The published contract hash that was pinned; `None` exactly on a pin.
    pub hash_before: Option<String>,
    /// The published contract hash that was seen.
    pub hash_after: String,
    /// The definition digests; `Some` makes it a signal of version 2.
    pub digests: Option<Digests>,
    /// Names of kinds of change, sorted, each once: of the published vocabulary in version 1, of [`crate::change`] in
    /// version 2. Empty on a pin.
    pub kinds: Vec<&'static str>,
    /// Whether some change is safety relevant; false on a pin.
    pub safety_relevant: bool,
    /// When, as unix seconds of a full hour; `None` where a version 1 client left it empty.
    pub hour: Option<i64>,
    /// Which client.
    pub sdk: Sdk,
    /// Which install.
    pub install: InstallId,
}

impl Signal {
    /// 1 or 2.
    pub fn version(&self) -> u8 {
        if self.digests.is_some() { 2 } else { 1 }
    }
}

/// Why a batch was refused; nothing of it may be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The body is not JSON in UTF-8.
    #[error("the body is not JSON: {reason}")]
    NotJson {
        /// What is wrong with it.
        reason: String,
    },
    /// The body is JSON of another shape.
    #[error("{place}: expected {expected}")]
    Invalid {
        /// Where: `signals`, `signals[3].v`, …
        place: String,
        /// What the shape has there.
        expected: &'static str,
    },
    /// A signal of version 2 has an hour that is too long ago or ahead of time.
    #[error("{place}: expected an hour from 7 days ago to one hour ahead")]
    HourOutOfRange {
        /// Where: `signals[3].at_hour`.
        place: String,
    },
}

impl SignalError {
    /// The name for an API: `invalid_json`, `invalid_signal` or `hour_out_of_range`.
    pub fn name(&self) -> &'static str {
        match self {
            SignalError::NotJson { .. } => "invalid_json",
            SignalError::Invalid { .. } => "invalid_signal",
            SignalError::HourOutOfRange { .. } => "hour_out_of_range",
        }
    }
}

/// A batch as JSON, each signal in its own version.
pub fn write(signals: &[Signal]) -> String {
    // Every text here is hex, a name from a table or an hour: nothing needs an escape.
    let quoted = |text: &str| format!("\"{text}\"");
    let or_null = |text: Option<String>| text.map_or_else(|| "null".to_owned(), |text| quoted(&text));
    let mut body = String::from("{\"signals\":[");
    for (index, signal) in signals.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        let kinds = match signal.event {
            Event::Pin => "null".to_owned(),
            Event::Drift => {
                let kinds: Vec<String> = signal.kinds.iter().map(|kind| quoted(kind)).collect();
                format!("[{}]", kinds.join(","))
            }
        };
        // Writing to a text can't fail.
        let _ = write!(
            body,
            r#"{{"v":{},"event":"{}","server_fp":"{}","tool_fp":"{}","prev_hash":{},"new_hash":"{}","#,
            signal.version(),
            signal.event.name(),
            signal.server,
            signal.tool,
            or_null(signal.hash_before.clone()),
            signal.hash_after,
        );
        if let Some(digests) = &signal.digests {
            let before = or_null(digests.before.map(|digest| digest.to_string()));
            let _ = write!(
                body,
                r#""prev_digest":{before},"new_digest":"{}","#,
                digests.after
            );
        }
        let _ = write!(
            body,
            r#""change_kinds":{kinds},"safety_relevant":{},"at_hour":"{}","sdk":"{}","install_id":"{}"}}"#,
            signal.safety_relevant,
            signal.hour.map(hour_text).unwrap_or_default(),
            signal.sdk.name(),
            signal.install,
        );
    }
    body.push_str("]}");
    body
}
