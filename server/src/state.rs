//! How a server stands, as readers are told: the outcome of its last look, or that there was none yet.
//!
//! Invariant: every state has a name, a sentence and a tone; none of them says "0 tools".

use mcpindex_contract::outcome::Outcome;
use mcpindex_store::servers::StandingFilter;

/// A server's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) Option<Outcome>);

impl State {
    /// Every state: the outcomes in their table's order, then `pending`.
    pub(crate) fn all() -> impl Iterator<Item = State> {
        let outcomes = Outcome::all().iter().map(|outcome| State(Some(*outcome)));
        outcomes.chain([State(None)])
    }

    /// The choice of the servers that stand so.
    pub(crate) fn filter(self) -> StandingFilter {
        self.0.map_or(StandingFilter::Pending, StandingFilter::Outcome)
    }

    /// The name in the API: an outcome's, or `pending`.
    pub(crate) fn name(self) -> &'static str {
        self.0.map_or("pending", Outcome::name)
    }

    /// The name for people: `auth required`.
    pub(crate) fn label(self) -> String {
        self.name().replace('_', " ")
    }

    /// One sentence.
    pub(crate) fn sentence(self) -> &'static str {
        self.0
            .map_or("Nobody has looked at this server yet.", Outcome::sentence)
    }

    /// The style of its badge: `good`, `partial`, `waiting` or `undetermined`.
    pub(crate) fn tone(self) -> &'static str {
        match self.0 {
            Some(Outcome::Ok) => "good",
            Some(Outcome::Partial) => "partial",
            None => "waiting",
            Some(_) => "undetermined",
        }
    }
}
