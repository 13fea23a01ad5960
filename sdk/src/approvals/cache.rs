//! The chain of an index's decisions as it is kept on disk: `gate/approvals/<16 hex of its address>.json`, mode 0600.
//!
//! ```json
//! {"format":"mcpindex-approvals/1","index":…,"tenant":"default","heard_at":UNIX,"head":{"sequence":N,"hash":"sha256:…"},"records":[
//! <record 1, as it is hashed>,
//! …
//! ]}
//! ```
//!
//! Invariant: what is read was verified from the first record to the head; a file that is cut short, altered, of another index or
//! open to other users is an error with a name and gives nothing. It is written whole and never goes back.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpindex_contract::approval::{ChainFlaw, DEFAULT_TENANT, Head, Record, Verifier};
use mcpindex_contract::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::index::Base;
use crate::pins::lock::{LockError, lock};
use crate::state::{StateDirectory, make_directory, read_own_file, said, write_atomically_with};

/// The most records that are kept. What an index has beyond them is asked for again by each process.
pub const MAX_RECORDS: u64 = 200_000;
/// The largest file that is read.
const MAX_BYTES: u64 = 512 << 20;
/// How long another process may take to write.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
/// How old the time in the file may be before it is written anew for its sake alone, in seconds.
const HEARD_STEP: i64 = 60 * 60;

const FORMAT: &str = "mcpindex-approvals/1";
const RECORDS: &str = "\"records\":[";
const END: &str = "]}";

/// What is kept of one index.
#[derive(Debug, Clone)]
pub struct Cache {
    base: Base,
    path: PathBuf,
}

/// What was kept, verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// How far it goes.
    pub head: Head,
    /// When the index last stated that head, unix seconds.
    pub heard_at: i64,
    /// In their order.
    pub records: Vec<Record>,
}

/// Why nothing of what is kept is obeyed, or nothing is kept.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It is no file of this user's that can be read.
    #[error("`{path}` can't be read: {why}")]
    NotRead {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// Others may read or write it.
    #[error("`{path}` is open to other users (mode {mode:04o})")]
    OpenToOthers {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// It is not whole, or not what it should be.
    #[error("`{path}` is damaged: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// What, and where.
        why: String,
    },
    /// A newer mcpindex wrote it.
    #[error("`{path}` was written by a newer mcpindex")]
    Newer {
        /// The file.
        path: String,
    },
    /// It holds the decisions of another index.
    #[error("`{path}` holds the decisions of another index (`{index}`)")]
    OtherIndex {
        /// The file.
        path: String,
        /// Which, cut.
        index: String,
    },
    /// It holds the decisions of another organisation.
    #[error("`{path}` holds the decisions of another organisation")]
    OtherTenant {
        /// The file.
        path: String,
    },
    /// Its records are no chain.
    #[error("`{path}` was altered: {flaw}")]
    Flaw {
        /// The file.
        path: String,
        /// What, and where.
        flaw: ChainFlaw,
    },
    /// It can't be written.
    #[error("`{path}` can't be written: {why}")]
    NotSaved {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// There are more than are kept.
    #[error(
        "the index has more than {MAX_RECORDS} decisions: those beyond are not kept in `{path}`, so without the index they are not known"
    )]
    TooMany {
        /// The file.
        path: String,
    },
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    Done,
    /// The file holds something else than what these records follow: the whole chain has to be written.
    NotContinued,
}

/// The first line, up to the list of records.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    format: String,
    index: String,
    tenant: String,
    heard_at: i64,
    head: WrittenHead,
    // Always empty: the records stand on lines of their own.
    records: [u8; 0],
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenHead {
    pub(super) sequence: u64,
    pub(super) hash: String,
}

impl WrittenHead {
    fn of(head: Head) -> WrittenHead {
        WrittenHead {
            sequence: head.sequence,
            hash: head.hash.to_string(),
        }
    }

    /// The head that it names; `None` where the hash is none.
    pub(super) fn read(&self) -> Option<Head> {
        Some(Head {
            sequence: self.sequence,
            hash: self.hash.parse().ok()?,
        })
    }
}

/// A file that was read, its opening understood and its records not looked at yet.
struct Opened {
    text: String,
    /// Where the records begin.
    begin: usize,
    opening: Opening,
    head: Head,
}

impl Cache {
    /// What is kept of this index in this state directory. Nothing is read yet.
    pub fn of(state: &StateDirectory, base: &Base) -> Cache {
        let name = &Digest::of_raw(base.as_str()).hex()[..16];
        Cache {
            base: base.clone(),
            path: state.gate().join("approvals").join(format!("{name}.json")),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept; `None`: nothing.
    pub fn read(&self) -> Result<Option<Kept>, CacheError> {
        let Some(opened) = self.open()? else {
            return Ok(None);
        };
        let mut verifier = Verifier::after(DEFAULT_TENANT, Head::empty(DEFAULT_TENANT));
        let mut records = Vec::new();
        let flaw = |flaw| CacheError::Flaw {
            path: self.shown(),
            flaw,
        };
        for (number, line) in self.lines(&opened)?.enumerate() {
            let record = Record::read(line).map_err(|error| {
                flaw(ChainFlaw::Unreadable {
                    sequence: number as u64 + 1,
                    what: error.to_string(),
                })
            })?;
            verifier.push(&record).map_err(flaw)?;
            records.push(record);
        }
        let head = verifier.finish(&opened.head).map_err(flaw)?;
        Ok(Some(Kept {
            head,
            heard_at: opened.opening.heard_at,
            records,
        }))
    }

    /// Keeps these records, which follow `before` and lead to `head`, heard of at `heard_at`.
    pub(super) fn save(
        &self,
        before: Head,
        texts: &[String],
        head: Head,
        heard_at: i64,
    ) -> Result<Saved, CacheError> {
        let not_saved = |error: &io::Error| CacheError::NotSaved {
            path: self.shown(),
            why: said(error),
        };
        if head.sequence > MAX_RECORDS {
            return Err(CacheError::TooMany { path: self.shown() });
        }
        let directory = self.path.parent().unwrap_or(Path::new("."));
        make_directory(directory).map_err(|error| not_saved(&error))?;
        let held = lock(&self.path.with_extension("lock"), LOCK_LIMIT);
        let _held = held.map_err(|error| match error {
            LockError::Failed(error) => not_saved(&error),
            LockError::Busy => CacheError::NotSaved {
                path: self.shown(),
                why: "another process is writing it, and has been for too long".to_owned(),
            },
        })?;
        // What can't be used is written over.
        let opened = self.open().unwrap_or(None);
        let there = opened.as_ref().map(|opened| opened.head);
        let is_new = before.sequence == 0;
        let is_same = there == Some(head);
        let is_behind = there.is_some_and(|there| there.sequence > head.sequence);
        if is_behind && (!is_new || self.read().is_ok()) {
            // Another process has heard more already.
            return Ok(Saved::Done);
        }
        let heard_before = opened.as_ref().map_or(i64::MIN, |opened| opened.opening.heard_at);
        let is_heard = (heard_before..=heard_before.saturating_add(HEARD_STEP)).contains(&heard_at);
        if is_same && is_heard && !is_new {
            return Ok(Saved::Done);
        }
        if !is_new && !is_same && there != Some(before) {
            return Ok(Saved::NotContinued);
        }
        let kept = match &opened {
            Some(opened) if !is_new => self.lines(opened)?.collect::<Vec<&str>>(),
            _ => Vec::new(),
        };
        let new = texts.iter().map(String::as_str).filter(|_| is_new || !is_same);
        let lines = kept.into_iter().chain(new);
        self.write(head, heard_at, lines)
            .map_err(|error| not_saved(&error))?;
        Ok(Saved::Done)
    }

    fn write<'t>(&self, head: Head, heard_at: i64, lines: impl Iterator<Item = &'t str>) -> io::Result<()> {
        let opening = Opening {
            format: FORMAT.to_owned(),
            index: self.base.to_string(),
            tenant: DEFAULT_TENANT.to_owned(),
            heard_at,
            head: WrittenHead::of(head),
            records: [],
        };
        let mut first = serde_json::to_string(&opening)?;
        first.truncate(first.len() - END.len());
        write_atomically_with(&self.path, |file| {
            let mut file = BufWriter::new(file);
            file.write_all(first.as_bytes())?;
            for (number, line) in lines.enumerate() {
                let comma = if number == 0 { "" } else { "," };
                write!(file, "{comma}\n{line}")?;
            }
            writeln!(file, "\n{END}")?;
            file.flush()
        })
    }

    fn open(&self) -> Result<Option<Opened>, CacheError> {
        let path = self.shown();
        let read = read_own_file(&self.path, MAX_BYTES).map_err(|error| CacheError::NotRead {
            path: path.clone(),
            why: error.to_string(),
        })?;
        let Some(file) = read else {
            return Ok(None);
        };
        let mode = file.metadata.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(CacheError::OpenToOthers { path, mode });
        }
        let damaged = |why: &str| CacheError::Damaged {
            path: path.clone(),
            why: why.to_owned(),
        };
        let text = String::from_utf8(file.bytes).map_err(|_| damaged("it is no text"))?;
        let first = text.lines().next().unwrap_or_default();
        if !first.ends_with(RECORDS) {
            return Err(damaged("its first line is not as it is written"));
        }
        let mut whole = first.to_owned();
        let _ = write!(whole, "{END}");
        let opening: Opening = match serde_json::from_str(&whole) {
            Ok(opening) => opening,
            Err(_) if whole.contains("\"format\":\"mcpindex-approvals/") && !whole.contains(FORMAT) => {
                return Err(CacheError::Newer { path });
            }
            Err(_) => return Err(damaged("its first line is not as it is written")),
        };
        if opening.format != FORMAT {
            return Err(CacheError::Newer { path });
        }
        if opening.index != self.base.as_str() {
            let index = opening.index.chars().take(200).collect();
            return Err(CacheError::OtherIndex { path, index });
        }
        if opening.tenant != DEFAULT_TENANT {
            return Err(CacheError::OtherTenant { path });
        }
        let head = opening.head.read().ok_or_else(|| damaged("its head is none"))?;
        Ok(Some(Opened {
            begin: first.len(),
            text,
            opening,
            head,
        }))
    }

    /// The records' texts, of a file that is whole.
    fn lines<'o>(&self, opened: &'o Opened) -> Result<impl Iterator<Item = &'o str>, CacheError> {
        let rest = opened.text.get(opened.begin..).unwrap_or_default();
        let body = rest.strip_suffix("\n]}\n").ok_or_else(|| CacheError::Damaged {
            path: self.shown(),
            why: "it was cut short".to_owned(),
        })?;
        Ok(body
            .split('\n')
            .skip(1)
            .map(|line| line.strip_suffix(',').unwrap_or(line)))
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }
}
