//! An index as this machine's programs ask it: which one, with which key, and one client that asks.
//!
//! Invariant: a key is sent to the index that gave it and to no other, never over plain HTTP to another machine, and no
//! redirect is followed.

use secrecy::SecretString;
use url::Url;

/// Where an index is: `https://index.example/`, or `http:` on loopback. Ends in a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Base(Url);

impl Base {
    /// The address as a URL.
    pub fn url(&self) -> &Url {
        &self.0
    }
}

/// An index that was chosen, and the key for it where there is one.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Which index.
    pub base: Base,
    /// The key that it gave.
    pub key: Option<SecretString>,
}
