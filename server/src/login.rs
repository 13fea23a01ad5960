//! How people sign in, and how a program gets a key of theirs.
//!
//! Invariant: who somebody is, is a provider's word for its own accounts, never an e-mail address.

/// The providers that people sign in with.
#[derive(Debug)]
pub struct Login {}

impl Login {
    /// Nobody can sign in.
    pub fn none() -> Login {
        Login {}
    }
}
