//! What every request handler is given: the store, the time, and what this process does.
//!
//! Invariant: there is no other shared state; two processes over one database answer alike (but for how much each lets one
//! address send and ask).

use std::sync::Arc;

use axum::extract::FromRef;
use mcpindex::clock::Clock;
use mcpindex_crawler::settings::Every;
use mcpindex_store::Store;
use mcpindex_store::servers::ServerRecord;
use url::Url;

use crate::access::Access;
use crate::approvals::Approvals;
use crate::ingest::Ingest;
use crate::login::Login;
use crate::problem::Problem;
use crate::registry::Policy;
use crate::webhooks::Webhooks;

/// The longest reference to a server that is looked up, in bytes. Longer ones name nothing that the index can hold.
pub(crate) const MAX_REFERENCE: usize = 2_048;

/// What handlers share; cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The index's memory.
    pub store: Store,
    /// The time, for "3 days ago".
    pub clock: Arc<dyn Clock>,
    /// This program's version, shown on pages and by `/healthz`.
    pub version: &'static str,
    /// What this process's own crawler does; `None` when it runs none.
    pub crawling: Option<Crawling>,
    /// Takes signals in and answers what they told; `None` where that is off.
    pub ingest: Option<Arc<Ingest>>,
    /// The address that people and programs use, ending in a slash.
    pub base: Url,
    /// Who may do what.
    pub access: Arc<Access>,
    /// How people sign in.
    pub login: Arc<Login>,
    /// How is decided about tools.
    pub approvals: Arc<Approvals>,
    /// Which servers the registry lists.
    pub registry: Policy,
    /// Who outside is told; `None` where nobody can be.
    pub webhooks: Option<Arc<Webhooks>>,
}

/// What the crawler in this process does, as far as readers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crawling {
    /// How often servers that are followed are looked at.
    pub every: Every,
}

/// Handlers that few call take a clone.
impl FromRef<Arc<App>> for App {
    fn from_ref(app: &Arc<App>) -> App {
        App::clone(app)
    }
}

impl App {
    /// Seconds since 1970-01-01 UTC.
    pub(crate) fn now(&self) -> i64 {
        self.clock.unix_seconds()
    }

    /// The server that an identity, a short id or a registry's name leads to, or the problem that says how to find one.
    pub(crate) async fn server(&self, reference: &str) -> Result<ServerRecord, Problem> {
        // Postgres refuses NUL in a text; no identity or alias has one, so it can't name anything.
        if reference.len() > MAX_REFERENCE || reference.contains('\0') {
            return Err(Problem::unknown_server(reference));
        }
        let found = self.store.find_server(reference).await?;
        found.ok_or_else(|| Problem::unknown_server(reference))
    }
}
