//! A record as its file says it: `{"version": 1, "identity", "context", "record"}`, indented, with a line end at the end.
//!
//! Invariant: what is read is whole (every prefix of a file is an error, but for the one that lacks only the last line end),
//! of a version that we know, and has no member that we don't.

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

    /// The bytes of a record's file.
    pub(super) fn write(key: &ServerKey, record: &Record) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(&Written {
            version: VERSION,
            identity: key.identity_json(),
            context: key.context.to_string(),
            record,
        })?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}
