//! The strict reading of a batch: bytes in, signals out, or the first thing that is not of the shape.
//!
//! Invariant: every member is named in the table of its version and read by its own rule; one that is missing, sent twice,
//! unknown or of another type refuses the whole batch.

use super::{
    Digests, Event, Fingerprint, InstallId, MAX_AGE, MAX_AHEAD, MAX_ALGORITHM, MAX_KINDS, MAX_SIGNALS, Sdk,
    Signal, SignalError, hour_from_text,
};
use crate::change::ChangeKind;
use crate::json::{self, FlawKind, Value};
use std::str::FromStr;

/// The members of a signal of version 1.
const VERSION_1: [&str; 11] = [
    "v",
    "event",
    "server_fp",
    "tool_fp",
    "prev_hash",
    "new_hash",
    "change_kinds",
    "safety_relevant",
    "at_hour",
    "sdk",
    "install_id",
];
/// What version 2 has besides.
const VERSION_2: [&str; 2] = ["prev_digest", "new_digest"];

/// Reads a batch of 1 to [`MAX_SIGNALS`] signals; `now` in unix seconds decides which hours can be.
pub fn read(body: &[u8], now: i64) -> Result<Vec<Signal>, SignalError> {
    let not_json = |reason: String| SignalError::NotJson { reason };
    let text = std::str::from_utf8(body).map_err(|_| not_json("it is not UTF-8".to_owned()))?;
    let document = json::read(text).map_err(|error| not_json(error.to_string()))?;
    if let Some(flaw) = document.flaws.first() {
        return Err(SignalError::Invalid {
            place: if flaw.pointer.is_empty() {
                "the body".to_owned()
            } else {
                flaw.pointer.clone()
            },
            expected: match flaw.kind {
                FlawKind::DuplicateMember => "each member once",
                FlawKind::LoneSurrogate => "whole characters",
            },
        });
    }
    let invalid = |place: &str, expected| SignalError::Invalid {
        place: place.to_owned(),
        expected,
    };
    let Value::Object(members) = &document.value else {
        return Err(invalid("the body", "an object with the one member `signals`"));
    };
    let [(name, Value::Array(signals))] = members.as_slice() else {
        return Err(invalid(
            "the body",
            "an object with the one member `signals`, a list",
        ));
    };
    if name != "signals" {
        return Err(invalid("the body", "an object with the one member `signals`"));
    }
    if !(1..=MAX_SIGNALS).contains(&signals.len()) {
        return Err(invalid("signals", "1 to 256 signals"));
    }
    signals
        .iter()
        .enumerate()
        .map(|(index, value)| Reading { index, value }.signal(now))
        .collect()
}

/// One signal while it is read.
struct Reading<'v> {
    index: usize,
    value: &'v Value,
}

impl<'v> Reading<'v> {
    fn signal(&self, now: i64) -> Result<Signal, SignalError> {
        let Value::Object(members) = self.value else {
            return Err(self.refuse("", "an object"));
        };
        let version = match self.member("v")? {
            Value::Number(number) if number.text() == "1" => 1,
            Value::Number(number) if number.text() == "2" => 2,
            _ => return Err(self.refuse(".v", "1 or 2")),
        };
        // Each member is there, as the reading below finds out, and none is there twice, as the reader has found out.
        let added: &[&str] = if version == 2 { &VERSION_2 } else { &[] };
        let known = |name: &str| VERSION_1.contains(&name) || added.contains(&name);
        if !members.iter().all(|(name, _)| known(name)) {
            return Err(self.refuse("", "no member that its version doesn't have"));
        }

        let event = Event::from_name(self.text("event", "`pin` or `drift`")?)
            .ok_or_else(|| self.refuse(".event", "`pin` or `drift`"))?;
        let is_pin = event == Event::Pin;
        let hash_before = match (is_pin, self.member("prev_hash")?) {
            (true, Value::Null) => None,
            (true, _) => return Err(self.refuse(".prev_hash", "null on a pin")),
            (false, _) => Some(self.hash("prev_hash")?),
        };
        let hash_after = self.hash("new_hash")?;
        let digests = if version == 2 {
            Some(Digests {
                before: match (is_pin, self.member("prev_digest")?) {
                    (true, Value::Null) => None,
                    (true, _) => return Err(self.refuse(".prev_digest", "null on a pin")),
                    (false, _) => Some(self.parsed("prev_digest", "a definition digest")?),
                },
                after: self.parsed("new_digest", "a definition digest")?,
            })
        } else {
            None
        };
        let safety_relevant = match self.member("safety_relevant")? {
            Value::Bool(false) => false,
            Value::Bool(true) if !is_pin => true,
            Value::Bool(true) => return Err(self.refuse(".safety_relevant", "false on a pin")),
            _ => return Err(self.refuse(".safety_relevant", "true or false")),
        };
        Ok(Signal {
            event,
            server: self.parsed::<Fingerprint>("server_fp", "32 hex digits")?,
            tool: self.parsed::<Fingerprint>("tool_fp", "32 hex digits")?,
            hash_before,
            hash_after,
            digests,
            kinds: self.kinds(is_pin, version)?,
            safety_relevant,
            hour: self.hour(version, now)?,
            sdk: Sdk::from_name(self.text("sdk", "`py`, `ts` or `rs`")?)
                .ok_or_else(|| self.refuse(".sdk", "`py`, `ts` or `rs`"))?,
            install: self.parsed::<InstallId>("install_id", "32 hex digits")?,
        })
    }

    fn refuse(&self, member: &str, expected: &'static str) -> SignalError {
        SignalError::Invalid {
            place: format!("signals[{}]{member}", self.index),
            expected,
        }
    }

    fn member(&self, name: &str) -> Result<&'v Value, SignalError> {
        self.value
            .get(name)
            .ok_or_else(|| self.refuse(&format!(".{name}"), "to be there"))
    }

    fn text(&self, name: &str, expected: &'static str) -> Result<&'v str, SignalError> {
        let text = self.member(name)?.as_str();
        text.ok_or_else(|| self.refuse(&format!(".{name}"), expected))
    }

    fn parsed<T: FromStr>(&self, name: &str, expected: &'static str) -> Result<T, SignalError> {
        let parsed = self.text(name, expected)?.parse();
        parsed.map_err(|_| self.refuse(&format!(".{name}"), expected))
    }

    /// `^[a-z0-9]+:[0-9a-f]{32,128}$`, as the published server takes it.
    fn hash(&self, name: &str) -> Result<String, SignalError> {
        const EXPECTED: &str = "a hash such as `sha256:` and 64 hex digits";
        let text = self.text(name, EXPECTED)?;
        let is_hash = text.split_once(':').is_some_and(|(algorithm, hex)| {
            (1..=MAX_ALGORITHM).contains(&algorithm.len())
                && algorithm
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
                && (32..=128).contains(&hex.len())
                && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        });
        if is_hash {
            Ok(text.to_owned())
        } else {
            Err(self.refuse(&format!(".{name}"), EXPECTED))
        }
    }

    fn kinds(&self, is_pin: bool, version: u8) -> Result<Vec<&'static str>, SignalError> {
        let refuse = |expected| self.refuse(".change_kinds", expected);
        let items = match (is_pin, self.member("change_kinds")?) {
            (true, Value::Null) => return Ok(Vec::new()),
            (true, _) => return Err(refuse("null on a pin")),
            (false, Value::Array(items)) if items.len() <= MAX_KINDS => items,
            (false, _) => return Err(refuse("a list of at most 64 kinds of change")),
        };
        let known = |name: &str| {
            let mut kinds = ChangeKind::all().iter();
            match version {
                1 => kinds
                    .map(|kind| kind.published())
                    .find(|published| *published == name),
                _ => kinds.find(|kind| kind.name() == name).map(|kind| kind.name()),
            }
        };
        let mut kinds = items
            .iter()
            .map(|item| {
                item.as_str()
                    .and_then(known)
                    .ok_or_else(|| refuse("known kinds of change"))
            })
            .collect::<Result<Vec<_>, SignalError>>()?;
        kinds.sort_unstable();
        kinds.dedup();
        Ok(kinds)
    }

    fn hour(&self, version: u8, now: i64) -> Result<Option<i64>, SignalError> {
        const EXPECTED: &str = "a full hour of the last 7 days, such as `2026-11-30T15:00:00Z`";
        let text = self.text("at_hour", EXPECTED)?;
        if text.is_empty() && version == 1 {
            return Ok(None);
        }
        let hour = hour_from_text(text).ok_or_else(|| self.refuse(".at_hour", EXPECTED))?;
        if (now.saturating_sub(MAX_AGE)..=now.saturating_add(MAX_AHEAD)).contains(&hour) {
            return Ok(Some(hour));
        }
        Err(match version {
            1 => self.refuse(".at_hour", EXPECTED),
            _ => SignalError::HourOutOfRange {
                place: format!("signals[{}].at_hour", self.index),
            },
        })
    }
}
