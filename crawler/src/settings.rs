//! The crawl's settings, and nothing that reads them from anywhere.

use std::path::PathBuf;

use mcpindex_contract::identity::Identity;

/// Seconds between two looks, by what is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every {
    /// At a package or a command: it changes with a version.
    pub package: i64,
    /// At a remote server: it changes at any time.
    pub remote: i64,
}

impl Every {
    /// Of this server.
    pub fn of(self, identity: &Identity) -> i64 {
        match identity {
            Identity::Remote { .. } => self.remote,
            _ => self.package,
        }
    }
}

/// How to crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often each target is looked at.
    pub every: Every,
    /// Addresses of registries whose servers are followed, and no others; `None` leaves those that the index follows as they are.
    pub registries: Option<Vec<String>>,
    /// Seconds between two readings of one.
    pub registries_every: i64,
    /// Looks at the same time.
    pub workers: usize,
    /// Networks that remote targets may be in although the address rules refuse them, as `10.1.0.0/16`.
    pub allow_networks: Vec<String>,
    /// Seconds between the end of a look at a remote server and the next look at any of its registrable domain, by whichever
    /// worker; 0: no pace.
    pub pace: i64,
    /// Whether `http:` URLs may be looked at (always, within `allow_networks`).
    pub allow_http: bool,
    /// What starts itself again to enter a jail: a program whose `main` calls `mcpindex::sandbox::enter_when_asked` first.
    pub entrance: PathBuf,
    /// Node.js; `None` looks for `node` on PATH.
    pub node: Option<PathBuf>,
    /// Python; `None` looks for `python3` on PATH.
    pub python: Option<PathBuf>,
    /// Folders that commands may read, beside those that their lines name.
    pub read: Vec<PathBuf>,
    /// Where packages are installed.
    pub cache: PathBuf,
    /// Seconds that a look may take before another worker takes it over.
    pub lease: i64,
}
