//! The list of every server that was ever pinned, outside the records' directory: it is missed when a record is gone, and
//! says so.
//!
//! It is `<state>/gate-servers.json`: `{"version": 1, "servers": {FILE NAME: {"identity", "context", "tools"}}}`, where
//! `tools` says that the record had tools with a baseline. A list that is gone or damaged is made anew from the records.
//!
//! Invariant: a server comes onto the list after its record was written and leaves it only by a reset, so that a server on
//! the list without a record has lost it. The list is there before the first record is: without both, the machine is new.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::Document;
use super::file::not_written;
use super::key::ServerKey;
use super::lock::{LockError, lock};
use crate::state::{StateDirectory, read_own_file, write_atomically};

const VERSION: u64 = 1;
/// The largest list that is read: some 100,000 servers.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// What is listed of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    identity: Value,
    context: String,
    /// Whether tools of it were pinned.
    pub(super) tools: bool,
}

impl Entry {
    pub(super) fn of(key: &ServerKey, tools: bool) -> Entry {
        Entry {
            identity: key.identity_json(),
            context: key.context.to_string(),
            tools,
        }
    }

    fn key(&self) -> Option<ServerKey> {
        ServerKey::from_json(&self.identity, &self.context)
    }
}

/// Why the list can't be used.
#[derive(Debug)]
pub(super) enum IndexError {
    /// Another process kept it locked.
    Busy,
    /// A newer mcpindex wrote it.
    Newer(u64),
    /// It is damaged, and there are no records to make it anew from.
    Unreadable(String),
    /// It can't be written.
    NotSaved(String),
}

type Servers = BTreeMap<String, Entry>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u64,
    servers: Servers,
}

#[derive(Deserialize)]
struct Version {
    version: u64,
}

enum Found {
    Missing,
    Damaged(String),
    Readable(Servers),
}

/// Whether a list was there, or had to be made from the records.
enum Made {
    Before,
    Anew,
}

/// The list of one state directory.
#[derive(Debug, Clone)]
pub(super) struct Index {
    state: StateDirectory,
    lock_limit: Duration,
}

impl Index {
    pub(super) fn of(state: &StateDirectory, lock_limit: Duration) -> Index {
        Index {
            state: state.clone(),
            lock_limit,
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.state.path().join("gate-servers.json")
    }

    /// What is listed of the server whose record has this file name, and what a person should know of the list itself.
    pub(super) fn entry(&self, file_name: &str) -> Result<(Option<Entry>, Option<String>), IndexError> {
        let why = match self.find()? {
            Found::Readable(mut servers) => return Ok((servers.remove(file_name), None)),
            Found::Missing if record_names(&self.state).is_empty() => return Ok((None, None)),
            Found::Damaged(reason) if record_names(&self.state).is_empty() => {
                return Err(IndexError::Unreadable(reason));
            }
            Found::Missing => "is gone".to_owned(),
            Found::Damaged(reason) => format!("can't be read ({reason})"),
        };
        let mut notice = format!(
            "the list of pinned servers `{}` {why}: it was made anew from the pins that are there, and pins that were lost before can't be missed",
            self.path().display()
        );
        let mut listed = None;
        match self.change(|servers| listed = servers.get(file_name).cloned()) {
            Ok(Made::Anew) => {}
            // Another process was faster.
            Ok(Made::Before) => return Ok((listed, None)),
            Err(IndexError::Newer(version)) => return Err(IndexError::Newer(version)),
            Err(_) => {
                notice = format!(
                    "the list of pinned servers `{}` {why} and can't be made anew: pins that are lost can't be missed",
                    self.path().display()
                );
            }
        }
        Ok((listed, Some(notice)))
    }

    /// Makes sure that there is a list, so that its absence means something.
    pub(super) fn prepare(&self) -> Result<(), IndexError> {
        match self.find()? {
            Found::Readable(_) => Ok(()),
            _ => self.change(|_| {}).map(drop),
        }
    }

    /// Puts a server onto the list.
    pub(super) fn insert(&self, file_name: &str, entry: Entry) -> Result<(), IndexError> {
        self.change(|servers| {
            servers.insert(file_name.to_owned(), entry);
        })
        .map(drop)
    }

    /// Takes a server from the list.
    pub(super) fn remove(&self, file_name: &str) -> Result<(), IndexError> {
        self.change(|servers| {
            servers.remove(file_name);
        })
        .map(drop)
    }

    /// Every server on the list, and every other that has a record, by file name; `Err` for a file that doesn't say whose it
    /// is.
    pub(super) fn all(&self) -> Vec<Result<ServerKey, PathBuf>> {
        let listed = match self.find() {
            Ok(Found::Readable(servers)) => servers,
            _ => Servers::new(),
        };
        let mut all: BTreeMap<String, Option<ServerKey>> = BTreeMap::new();
        for (name, entry) in listed {
            let key = entry.key().filter(|key| key.file_name() == name);
            all.insert(name, key);
        }
        for name in record_names(&self.state) {
            let key = all.entry(name.clone()).or_default();
            if key.is_none() {
                *key = self.record_key(&name);
            }
        }
        all.into_iter()
            .map(|(name, key)| key.ok_or_else(|| self.state.gate().join(name)))
            .collect()
    }

    fn find(&self) -> Result<Found, IndexError> {
        let bytes = match read_own_file(&self.path(), MAX_BYTES) {
            Ok(None) => return Ok(Found::Missing),
            Ok(Some(own)) => own.bytes,
            Err(error) => return Ok(Found::Damaged(error.to_string())),
        };
        match serde_json::from_slice::<File>(&bytes) {
            Ok(file) if file.version == VERSION => Ok(Found::Readable(file.servers)),
            read => match serde_json::from_slice::<Version>(&bytes) {
                Ok(Version { version }) if version > VERSION => Err(IndexError::Newer(version)),
                Ok(Version { version }) if version < VERSION => {
                    Ok(Found::Damaged(format!("there is no version {version}")))
                }
                _ => Ok(Found::Damaged(match read {
                    Err(error) => error.to_string(),
                    Ok(_) => "it says no version".to_owned(),
                })),
            },
        }
    }

    /// Changes the newest list under its lock; one that is gone or damaged is made anew before.
    fn change(&self, change: impl FnOnce(&mut Servers)) -> Result<Made, IndexError> {
        let path = self.path();
        let _lock = lock(&path.with_extension("lock"), self.lock_limit).map_err(|error| match error {
            LockError::Busy => IndexError::Busy,
            LockError::Failed(error) => not_saved(&error),
        })?;
        let (before, mut servers) = match self.find()? {
            Found::Readable(servers) => (Some(servers.clone()), servers),
            Found::Missing => (None, self.anew()),
            Found::Damaged(_) => {
                // What a person may want to look at is not written over.
                let aside = std::fs::rename(&path, path.with_extension("json.damaged"));
                aside.map_err(|error| not_saved(&error))?;
                (None, self.anew())
            }
        };
        change(&mut servers);
        let made = match &before {
            Some(before) if *before == servers => return Ok(Made::Before),
            Some(_) => Made::Before,
            None => Made::Anew,
        };
        let file = File {
            version: VERSION,
            servers,
        };
        let mut bytes =
            serde_json::to_vec_pretty(&file).map_err(|error| IndexError::NotSaved(error.to_string()))?;
        bytes.push(b'\n');
        write_atomically(&path, &bytes).map_err(|error| not_saved(&error))?;
        Ok(made)
    }

    /// As the records say.
    fn anew(&self) -> Servers {
        let mut servers = Servers::new();
        for name in record_names(&self.state) {
            if let Some(document) = self.record_document(&name)
                && let Some(key) = document.key().filter(|key| key.file_name() == name)
            {
                servers.insert(name, Entry::of(&key, !document.record.is_empty()));
            }
        }
        servers
    }

    fn record_key(&self, name: &str) -> Option<ServerKey> {
        self.record_document(name)?
            .key()
            .filter(|key| key.file_name() == name)
    }

    fn record_document(&self, name: &str) -> Option<Document> {
        let own = read_own_file(&self.state.gate().join(name), super::file::MAX_BYTES);
        Document::read(&own.ok()??.bytes).ok()
    }
}

fn not_saved(error: &io::Error) -> IndexError {
    IndexError::NotSaved(not_written(error))
}

/// The file names of all records, sorted. A directory that can't be read has none: each record in it then says so itself.
fn record_names(state: &StateDirectory) -> Vec<String> {
    let entries = std::fs::read_dir(state.gate()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".json") && !name.starts_with('.'))
        .collect();
    names.sort_unstable();
    names
}
