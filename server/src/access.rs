//! Who may read this index: everybody, or its members; and who is asking.
//!
//! Below it `key` is the text of an API key, `limits` counts what one address or one key does, `sender` says whose address it is.
//!
//! Invariant: a members-only index tells an anonymous visitor nothing, not even whether a server is in it.

pub mod key;
pub(crate) mod limits;
mod sender;

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{Extensions, HeaderMap};
use mcpindex::clock::{Clock, SystemClock};

pub use limits::Rates;

use limits::Limits;

/// Who may read pages, API, feeds and badges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Everybody who reaches the address.
    Public,
    /// Whoever signed in, or has a key.
    Members,
}

/// What the settings say of access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules {
    /// Who may read.
    pub read: Read,
    /// How much one address or key may send and ask.
    pub rates: Rates,
    /// Addresses of proxies whose word on the sender's address counts.
    pub proxies: Vec<IpAddr>,
}

/// Who may do what.
pub struct Access {
    /// What the settings say.
    pub rules: AccessRules,
    pub(crate) limits: Limits,
}

impl Access {
    /// By these rules.
    pub fn new(rules: AccessRules, clock: Arc<dyn Clock>) -> Access {
        Access {
            limits: Limits::new(rules.rates.clone(), clock),
            rules,
        }
    }

    /// Everybody may read.
    pub fn public() -> Access {
        let rules = AccessRules {
            read: Read::Public,
            rates: Rates::default(),
            proxies: Vec::new(),
        };
        Access::new(rules, Arc::new(SystemClock))
    }

    /// The address that a request came from.
    pub(crate) fn sender(&self, extensions: &Extensions, headers: &HeaderMap) -> IpAddr {
        sender::address(extensions, headers, &self.rules.proxies)
    }
}
