//! `wired.json` in the state directory: what each wired entry was, so that it can be that again.
//!
//! A file is known by its path with links followed, an entry by the names that lead to it. Beside them stand the file's
//! digests before anything was wired and after, which tell whether somebody else wrote it since.
//!
//! Invariant: it is written before the configuration that it speaks of, and under a lock, so that no wired entry is ever
//! without its record.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use mcpindex_contract::digest::Digest;
use serde::{Deserialize, Serialize};

use super::undo::Undo;
use crate::state::{StateDirectory, make_directory, open_lock, read_own_file, write_atomically};

const SCHEMA: &str = "mcpindex.wired/1";
/// The largest record that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;

/// Why the record can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The record's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no record of this program.
    #[error(
        "{}:{line}:{column}: no record of wired entries can be read: mend it, or move it away (what it holds is then not undone)",
        path.display()
    )]
    Damaged {
        /// The record's path.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A newer version of this program wrote it.
    #[error("{}: it was written by a newer mcpindex (`{schema}`): use that one", path.display())]
    Newer {
        /// The record's path.
        path: PathBuf,
        /// What it calls itself.
        schema: String,
    },
}

/// What was done to files on this machine. Held open, nobody else changes it.
pub struct Record {
    path: PathBuf,
    files: BTreeMap<String, FileRecord>,
    _lock: Option<File>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    schema: String,
    files: BTreeMap<String, FileRecord>,
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRecord {
    /// The file's digest before anything was wired, while nobody but us has written it since.
    pub(super) before: Option<String>,
    /// Its digest as we left it.
    pub(super) after: String,
    pub(super) entries: Vec<EntryRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryRecord {
    pub(super) path: Vec<String>,
    pub(super) undo: Vec<Undo>,
}

impl Record {
    /// Reads the record as it is now, to show what would be done.
    pub fn read(state: &StateDirectory) -> Result<Record, RecordError> {
        let path = state.path().join("wired.json");
        let files = read(&path)?;
        Ok(Record {
            path,
            files,
            _lock: None,
        })
    }

    /// Reads the record and keeps others from changing it until this is dropped.
    pub fn open(state: &StateDirectory) -> Result<Record, RecordError> {
        let path = state.path().join("wired.json");
        let lock_path = state.path().join("wired.lock");
        let failed = |source| RecordError::Io {
            path: lock_path.clone(),
            source,
        };
        make_directory(state.path()).map_err(failed)?;
        let lock = open_lock(&lock_path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let files = read(&path)?;
        Ok(Record {
            path,
            files,
            _lock: Some(lock),
        })
    }

    /// The record's own path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn of(&self, target: &Path) -> Option<&FileRecord> {
        self.files.get(target.to_str()?)
    }

    /// Remembers this of a file, on the disk, and returns what was remembered before. One without entries is forgotten.
    pub(super) fn set(
        &mut self,
        target: &Path,
        record: Option<FileRecord>,
    ) -> Result<Option<FileRecord>, RecordError> {
        let failed = |source| RecordError::Io {
            path: self.path.clone(),
            source,
        };
        let name = target
            .to_str()
            .ok_or_else(|| failed(io::Error::other("the configuration's path is no UTF-8")))?
            .to_owned();
        let mut files = self.files.clone();
        let before = match record.filter(|record| !record.entries.is_empty()) {
            Some(record) => files.insert(name, record),
            None => files.remove(&name),
        };
        let content = Content {
            schema: SCHEMA.to_owned(),
            files,
        };
        let text = serde_json::to_string_pretty(&content).map_err(|error| failed(error.into()))?;
        write_atomically(&self.path, format!("{text}\n").as_bytes()).map_err(failed)?;
        self.files = content.files;
        Ok(before)
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, FileRecord>, RecordError> {
    let failed = |source| RecordError::Io {
        path: path.to_owned(),
        source,
    };
    let read = read_own_file(path, MAX_RECORD_BYTES);
    let Some(file) = read.map_err(|error| failed(std::io::Error::other(error)))? else {
        return Ok(BTreeMap::new());
    };
    let text = file.bytes;
    let damaged = |error: &serde_json::Error| RecordError::Damaged {
        path: path.to_owned(),
        line: error.line(),
        column: error.column().max(1),
    };
    let head: Head = serde_json::from_slice(&text).map_err(|error| damaged(&error))?;
    if head.schema != SCHEMA {
        return Err(RecordError::Newer {
            path: path.to_owned(),
            schema: head.schema,
        });
    }
    let content: Content = serde_json::from_slice(&text).map_err(|error| damaged(&error))?;
    Ok(content.files)
}

pub(super) fn digest(content: &str) -> String {
    Digest::of_raw(content).to_string()
}
