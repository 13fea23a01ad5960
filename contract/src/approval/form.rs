//! A record's one written form: RFC 8785 of a closed object. It is what is hashed, served, exported and kept on disk.
//!
//! Invariant: what [`Record::text`] writes, [`Record::read`] reads back to the same record; an object with a member that
//! is not of the form is refused, so that nothing can travel beside what the hash covers.

use std::fmt::Write as _;

use super::{ChainHash, Decision, Record, TOO_LARGE};
use crate::canonical::write_string;
use crate::json::{self, Value};

/// The form's name and version, which is a member of it.
pub const FORMAT: &str = "mcpindex-approval/1";

/// What of a record is not as the form has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{member}: expected {expected}")]
pub struct RecordError {
    /// Which member; `record` for the whole.
    pub member: &'static str,
    /// What the form has there.
    pub expected: &'static str,
}

const MEMBERS: [&str; 14] = [
    "at",
    "before",
    "decision",
    "digest",
    "expires_at",
    "format",
    "identity",
    "needed",
    "reason",
    "reference",
    "sequence",
    "subject",
    "tenant",
    "tool",
];

impl Record {
    /// The record as RFC 8785 writes it: on one line, what is absent left out.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(512);
        // Writing to a text can't fail. The members' names are in RFC 8785's order.
        let _ = write!(
            text,
            r#"{{"at":{},"before":"{}","decision":"{}","digest":"{}","#,
            self.at, self.before, self.decision, self.digest
        );
        if let Some(expires_at) = self.expires_at {
            let _ = write!(text, r#""expires_at":{expires_at},"#);
        }
        let _ = write!(text, r#""format":"{FORMAT}","identity":"#);
        write_string(&mut text, &self.identity);
        let _ = write!(text, r#","needed":{},"#, self.needed);
        for (name, words) in [("reason", &self.reason), ("reference", &self.reference)] {
            if let Some(words) = words {
                let _ = write!(text, r#""{name}":"#);
                write_string(&mut text, words);
                text.push(',');
            }
        }
        let _ = write!(text, r#""sequence":{},"subject":"#, self.sequence);
        write_string(&mut text, &self.subject);
        text.push_str(r#","tenant":"#);
        write_string(&mut text, &self.tenant);
        text.push_str(r#","tool":"#);
        write_string(&mut text, &self.tool);
        text.push('}');
        text
    }

    /// The hash of this record, which the one after it carries.
    pub fn hash(&self) -> ChainHash {
        ChainHash::of(&self.text())
    }

    /// Reads a record from its text; the order of members and white space don't matter, anything else does.
    pub fn read(text: &str) -> Result<Record, RecordError> {
        let wrong = |member, expected| RecordError { member, expected };
        let document = json::read(text).map_err(|_| wrong("record", "JSON"))?;
        if !document.flaws.is_empty() {
            return Err(wrong("record", "each member once, and whole characters"));
        }
        let Value::Object(members) = &document.value else {
            return Err(wrong("record", "an object"));
        };
        if members.iter().any(|(name, _)| !MEMBERS.contains(&name.as_str())) {
            return Err(wrong("record", "no members but those of the form"));
        }
        let value = &document.value;
        let text = |member| {
            let text = value.get(member).and_then(Value::as_str);
            text.ok_or(wrong(member, "a text"))
        };
        let words = |member| {
            value
                .get(member)
                .map(|_| text(member).map(str::to_owned))
                .transpose()
        };
        let number = |member| {
            let number = match value.get(member) {
                Some(Value::Number(number)) => number.text().parse::<i64>().ok(),
                _ => None,
            };
            number
                .filter(|number| number.abs() < TOO_LARGE)
                .ok_or(wrong(member, "a whole number below 2^53"))
        };
        if text("format")? != FORMAT {
            return Err(wrong(
                "format",
                "`mcpindex-approval/1`, a newer mcpindex may know others",
            ));
        }
        let record = Record {
            tenant: text("tenant")?.to_owned(),
            sequence: u64::try_from(number("sequence")?)
                .map_err(|_| wrong("sequence", "a number from 1 on, below 2^53"))?,
            subject: text("subject")?.to_owned(),
            identity: text("identity")?.to_owned(),
            tool: text("tool")?.to_owned(),
            digest: text("digest")?
                .parse()
                .map_err(|_| wrong("digest", "`sha256:` or `raw-sha256:` and 64 hex digits"))?,
            decision: Decision::from_name(text("decision")?)
                .ok_or(wrong("decision", "`approve`, `refuse` or `withdraw`"))?,
            needed: u8::try_from(number("needed")?).map_err(|_| wrong("needed", "1 or 2"))?,
            reason: words("reason")?,
            reference: words("reference")?,
            expires_at: value
                .get("expires_at")
                .map(|_| number("expires_at"))
                .transpose()?,
            at: number("at")?,
            before: text("before")?
                .parse()
                .map_err(|_| wrong("before", "`sha256:` and 64 hex digits"))?,
        };
        record.check()?;
        Ok(record)
    }
}
