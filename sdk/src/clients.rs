//! The configurations of MCP hosts (Claude, Cursor, VS Code, Zed, Codex, …): where they are, which servers they start, and
//! how an entry is put behind the gate and back.
//!
//! [`configurations`] reads them all; [`Rewrite`] says what wiring or unwiring makes of one file, and writes it.
//!
//! Invariant: nothing of a file changes but the entry that is wired; taking it back restores the file to the byte.

mod document;
mod edit;
mod entry;
mod file;
mod hosts;
pub mod managed;
mod record;
mod rewrite;
mod shown;
mod text;
mod undo;

use std::path::PathBuf;

pub use document::Format;
pub use edit::GateLine;
pub use entry::{Entry, Launch, Wiring};
pub use file::{ConfigFile, MAX_FILE_BYTES, Unreadable, WriteError};
pub use hosts::{Environment, HOSTS, Host, Platform};
pub use record::{Record, RecordError};
pub use rewrite::{Fate, Rewrite, RewriteError};

/// One configuration file of this machine.
pub struct Configuration {
    /// The names of the hosts that read it; two may share a file through a link.
    pub hosts: Vec<&'static str>,
    /// Where it was found.
    pub path: PathBuf,
    /// The file, or why it can't be read.
    pub file: Result<ConfigFile, Unreadable>,
}

impl Configuration {
    /// The servers that it names, or why that can't be said.
    pub fn entries(&self) -> Result<Vec<Entry>, Unreadable> {
        self.file.as_ref().map_err(Clone::clone)?.entries()
    }
}

impl ConfigFile {
    /// The servers that it names, in its order. A configuration without any is none of MCP's business, and empty.
    pub fn entries(&self) -> Result<Vec<Entry>, Unreadable> {
        let sites = entry::sites(&self.document).map_err(|fault| self.unreadable(fault))?;
        Ok(sites
            .iter()
            .map(|site| entry::read(&self.document, site))
            .collect())
    }
}

/// Every configuration file that a known host has in this environment, each once, in the order of [`HOSTS`].
pub fn configurations(environment: &Environment) -> Vec<Configuration> {
    let mut found: Vec<(PathBuf, Configuration)> = Vec::new();
    for host in HOSTS {
        for path in host.files(environment) {
            let target = path.canonicalize().unwrap_or_else(|_| path.clone());
            if let Some((_, known)) = found.iter_mut().find(|(known, _)| *known == target) {
                if !known.hosts.contains(&host.name) {
                    known.hosts.push(host.name);
                }
                continue;
            }
            let configuration = Configuration {
                hosts: vec![host.name],
                file: ConfigFile::read(&path),
                path,
            };
            found.push((target, configuration));
        }
    }
    found
        .into_iter()
        .map(|(_, configuration)| configuration)
        .collect()
}
