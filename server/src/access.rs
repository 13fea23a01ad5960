//! Who may read this index: everybody, or its members; and who is asking.
//!
//! Below it `gate` lets each request pass or not; `key` is the text of an API key, `keys` looks one up, `issue` gives one
//! out, `feed_path` is the key in the path of a person's own feeds, `setup` makes the first admin, `redaction` keeps them
//! out of addresses and logs; `limits` counts what one address or one key does, `sender` says whose address it is.
//!
//! Invariant: a members-only index tells an anonymous visitor nothing, not even whether a server is in it.

pub(crate) mod feed_path;
pub(crate) mod gate;
pub(crate) mod issue;
pub mod key;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod redaction;
mod sender;
pub(crate) mod setup;

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{Extensions, HeaderMap};
use mcpindex::clock::{Clock, SystemClock};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::login::session::signed_in;
use crate::problem::Problem;
pub use limits::Rates;
pub use redaction::WithoutKeys;

use keys::{KeyHolder, Keys};
use limits::Limits;

/// Who may read pages, API, feeds and badges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Everybody who reaches the address.
    Public,
    /// Whoever signed in, or has a key.
    Members,
}

impl Read {
    /// `public` or `members`, as the settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Read::Public => "public",
            Read::Members => "members",
        }
    }
}

/// Who may read what this process counts (`/metrics`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metrics {
    /// Nobody.
    Off,
    /// Whoever reaches the address.
    Open,
    /// Whoever has a key of the scope `admin`.
    Admins,
}

/// What the settings say of access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRules {
    /// Who may read.
    pub read: Read,
    /// Who may read the registry: hosts that enforce one may send no key.
    pub registry: Read,
    /// How much one address or key may send and ask.
    pub rates: Rates,
    /// Addresses of proxies whose word on the sender's address counts.
    pub proxies: Vec<IpAddr>,
    /// Who may read `/metrics`.
    pub metrics: Metrics,
    /// Short ids of servers whose badge everybody may see on a members-only index.
    pub badges: Vec<String>,
}

/// Who may do what.
pub struct Access {
    /// What the settings say.
    pub rules: AccessRules,
    pub(crate) limits: Limits,
    pub(crate) keys: Keys,
    /// Turns of `/api/v1/check`.
    pub(crate) checks: Semaphore,
}

/// Requests of `/api/v1/check` that are looked up at the same time, so that other readers have connections too.
const CHECKS_AT_ONCE: usize = 2;

/// Who is asking.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Nobody says.
    Anonymous,
    /// A program, with a key that works.
    Key(Arc<KeyHolder>),
    /// A person who signed in with this browser.
    Session,
    /// A feed reader, by a person's own path to the feeds.
    FeedPath,
}

impl Caller {
    /// Who a browser's cookie says it is.
    async fn of_session(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
        let signed_in = signed_in(app, headers).await?;
        Ok(signed_in.map_or(Caller::Anonymous, |_| Caller::Session))
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self, Caller::Anonymous)
    }
}

impl Access {
    /// By these rules.
    pub fn new(rules: AccessRules, clock: Arc<dyn Clock>) -> Access {
        Access {
            limits: Limits::new(rules.rates.clone(), clock),
            keys: Keys::default(),
            checks: Semaphore::new(CHECKS_AT_ONCE),
            rules,
        }
    }

    /// Everybody may read.
    pub fn public() -> Access {
        let rules = AccessRules {
            read: Read::Public,
            registry: Read::Public,
            rates: Rates::default(),
            proxies: Vec::new(),
            metrics: Metrics::Open,
            badges: Vec::new(),
        };
        Access::new(rules, Arc::new(SystemClock))
    }

    /// The address that a request came from.
    pub(crate) fn sender(&self, extensions: &Extensions, headers: &HeaderMap) -> IpAddr {
        sender::address(extensions, headers, &self.rules.proxies)
    }
}
