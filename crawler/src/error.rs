//! What can go wrong with the crawl itself, as opposed to with a server (that is an `Outcome`).
//!
//! Invariant: no message carries an argument that looked like a credential.

/// A crawl that could not go on.
#[derive(Debug, thiserror::Error)]
pub enum CrawlError {
    /// A text that names no server.
    #[error(transparent)]
    Identity(#[from] mcpindex_contract::identity::IdentityError),
    /// A server that is named well but can't be looked at in this way.
    #[error("`{target}` can't be looked at: {reason}")]
    Target {
        /// What was given.
        target: String,
        /// One line, with the way out.
        reason: &'static str,
    },
    /// An argument, a URL's user info or a query that looks like a credential. Targets are stored, credentials never.
    #[error("a part of this target looks like a credential, and the index stores none: leave it out")]
    Credential,
    /// A list of targets that can't be read.
    #[error("{path}: {reason}")]
    TargetList {
        /// The file.
        path: String,
        /// One line, with the place.
        reason: String,
    },
    /// A setting that can't be used.
    #[error("`{setting}`: {reason}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// One line.
        reason: String,
    },
    /// A package client refused or failed.
    #[error(transparent)]
    Package(#[from] crate::package::PackageError),
    /// The database.
    #[error(transparent)]
    Store(#[from] mcpindex_store::StoreError),
    /// The cache folder can't be used.
    #[error("the package cache `{path}` can't be used: {reason}")]
    Cache {
        /// The folder.
        path: String,
        /// The system's words.
        reason: String,
    },
}
