//! Where mcpindex keeps what it remembers on this machine, and how a file there is replaced.
//!
//! Invariant: a file is written whole, to a new name in the same directory, synced and renamed over the old one, so that a
//! crash leaves the old content or the new one and never a part; directories are 0700 and files 0600.

use std::io;
use std::path::{Path, PathBuf};

/// The state directory: `MCPINDEX_STATE_DIR`, else `~/.mcpindex`. The published client keeps its own files in the same
/// directory (`pins/`, `pending.json`, `consent.json`): they are read and never written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDirectory {
    path: PathBuf,
}

/// Why there is no state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The variable names no absolute path.
    #[error("MCPINDEX_STATE_DIR must be an absolute path, and `{0}` is none")]
    Relative(PathBuf),
    /// Neither the variable nor a home directory is there.
    #[error("there is no home directory to keep pins in: set MCPINDEX_STATE_DIR to an absolute path")]
    NoHome,
}

impl StateDirectory {
    /// From `MCPINDEX_STATE_DIR`, else the home directory.
    pub fn from_environment() -> Result<StateDirectory, StateError> {
        todo!("pins")
    }

    /// This directory.
    pub fn at(path: impl Into<PathBuf>) -> StateDirectory {
        StateDirectory { path: path.into() }
    }

    /// The directory itself. It need not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Replaces `path` by `bytes`: see the module. The directory is made when it is missing.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _ = (path, bytes);
    todo!("pins")
}
