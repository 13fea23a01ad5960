//! Who may read this index: everybody, or its members.
//!
//! Invariant: a members-only index tells an anonymous visitor nothing, not even whether a server is in it.

/// Who may read pages, API, feeds and badges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Everybody who reaches the address.
    Public,
    /// Whoever signed in, or has a key.
    Members,
}

/// Who may do what.
#[derive(Debug)]
pub struct Access {
    /// Who may read.
    pub read: Read,
}

impl Access {
    /// Everybody may read.
    pub fn public() -> Access {
        Access { read: Read::Public }
    }
}
