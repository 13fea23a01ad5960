//! A record as its file says it: `{"version": 1, "identity", "context", "record"}`, indented, with a line end at the end.
//!
//! Invariant: what is read is whole (every prefix of a file is an error, but for the one that lacks only the last line end),
//! of a version that we know, and has no member that we don't.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key::ServerKey;
use super::record::Record;

const VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    version: u64,
    identity: Value,
    context: String,
    pub(super) record: Record,
}

/// Why bytes are no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DocumentError {
    /// A newer mcpindex wrote it.
    Newer(u64),
    /// It is damaged.
    Damaged(String),
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

/// What is written, without a copy of the record.
#[derive(Serialize)]
struct Written<'r> {
    version: u64,
    identity: Value,
    context: String,
    record: &'r Record,
}

impl Document {
    pub(super) fn read(bytes: &[u8]) -> Result<Document, DocumentError> {
        let error = match serde_json::from_slice::<Document>(bytes) {
            Ok(document) if document.version == VERSION => return Ok(document),
            Ok(document) => format!("there is no version {}", document.version),
            Err(_) if bytes.is_empty() => "it is empty".to_owned(),
            Err(error) => error.to_string(),
        };
        match serde_json::from_slice::<Version>(bytes) {
            Ok(Version { version }) if version > VERSION => Err(DocumentError::Newer(version)),
            _ => Err(DocumentError::Damaged(error)),
        }
    }

    /// Whose record it says it is; `None` where that is nobody.
    pub(super) fn key(&self) -> Option<ServerKey> {
        ServerKey::from_json(&self.identity, &self.context)
    }

    /// Writes the bytes of a record's file.
    pub(super) fn write(key: &ServerKey, record: &Record, mut file: impl Write) -> io::Result<()> {
        let written = Written {
            version: VERSION,
            identity: key.identity_json(),
            context: key.context.to_string(),
            record,
        };
        serde_json::to_writer_pretty(&mut file, &written)?;
        file.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use mcpindex_contract::definition::Definition;
    use mcpindex_contract::identity::Identity;

    use super::super::record::Via;
    use super::*;

    #[test]
    fn no_flipped_bit_makes_another_baseline() {
        let key = ServerKey::usual(Identity::from_reference("npm:docs").unwrap().identity);
        let mut record = Record::default();
        let one = Definition::read(r#"{"name":"a","title":"One","_meta":{"k":1}}"#);
        record.pin("a", &one, Via::FirstSight, 7);
        record.hold(
            "a",
            &Definition::read(r#"{"name":"a","title":"Two"}"#),
            &["title-changed"],
            8,
        );
        let mut whole = Vec::new();
        Document::write(&key, &record, &mut whole).unwrap();
        for (index, bit) in (0..whole.len()).flat_map(|index| (0..8).map(move |bit| (index, bit))) {
            let mut bytes = whole.clone();
            bytes[index] ^= 1 << bit;
            let Ok(document) = Document::read(&bytes) else {
                continue;
            };
            if document.key().as_ref() != Some(&key) || document.record.verify(&Record::default()).is_err() {
                continue;
            }
            // What is not hashed may differ: times and reasons.
            let texts = |record: &Record| {
                let pin = record.tools.get("a").cloned().unwrap_or_default();
                let held: Vec<String> = pin.held.into_values().map(|held| held.definition).collect();
                (record.tools.len(), pin.baseline.map(|pin| pin.definition), held)
            };
            assert_eq!(
                texts(&document.record),
                texts(&record),
                "bit {bit} of byte {index}"
            );
        }
    }
}
