//! Which servers the registry lists.
//!
//! Invariant: under `approved` and `not-drifted` nothing is listed whose list of tools was not read to its end, that declares no
//! tool, or of which any tool is refused; what can't be verified of the chain of approvals has approved nothing.

use std::collections::BTreeMap;

use mcpindex_contract::approval::{Standing, Standings, State};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::posture::{Decision, Posture, examine};
use mcpindex_contract::surface::Listing;
use mcpindex_store::registry::RegistryServer;

/// The setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Every server that was determined.
    #[default]
    All,
    /// Those of which every tool that they declare now is approved.
    Approved,
    /// Those, and those that changed since only in what gates let through by themselves.
    NotDrifted,
}

impl Policy {
    /// As it stands in the settings: `all`, `approved` or `not-drifted`.
    pub fn name(self) -> &'static str {
        match self {
            Policy::All => "all",
            Policy::Approved => "approved",
            Policy::NotDrifted => "not-drifted",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Policy> {
        [Policy::All, Policy::Approved, Policy::NotDrifted]
            .into_iter()
            .find(|policy| policy.name() == name)
    }

    /// Why a server is delisted by it.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Policy::All => "",
            Policy::Approved => "the organisation has not approved all tools that it declares now",
            Policy::NotDrifted => "it drifted from what the organisation approved, or was never approved",
        }
    }

    /// Whether it lists this server. `texts` has what [`compared`] names.
    pub(crate) fn lists(
        self,
        server: &RegistryServer,
        standings: &Standings,
        texts: &BTreeMap<Digest, String>,
        now: i64,
    ) -> bool {
        let is_whole = matches!(server.listing, Listing::Complete) && !server.tools.is_empty();
        let is_approved = |tool: &str, digest: &Digest| {
            let standing = standings.of(&server.identity, tool, digest, now);
            standing.map(|Standing { state, .. }| state)
        };
        match self {
            Policy::All => true,
            Policy::Approved => {
                let mut tools = server.tools.iter();
                is_whole && tools.all(|(tool, digest)| is_approved(tool, digest) == Some(State::Approved))
            }
            Policy::NotDrifted => {
                let mut tools = server.tools.iter();
                is_whole
                    && tools.all(|(tool, digest)| match is_approved(tool, digest) {
                        Some(State::Approved) => true,
                        Some(State::Refused | State::Doubtful) => false,
                        Some(State::Proposed | State::Withdrawn | State::Expired) | None => {
                            let before = approved(server, standings, tool, now);
                            before.is_some_and(|before| proceeds(texts.get(&before), texts.get(digest)))
                        }
                    })
            }
        }
    }
}

/// What was approved of this tool last and still is.
fn approved(server: &RegistryServer, standings: &Standings, tool: &str, now: i64) -> Option<Digest> {
    let standings = standings.of_identity(&server.identity, now).into_iter();
    let approved =
        standings.filter(|standing| standing.state == State::Approved && standing.record.tool == tool);
    let last = approved.max_by_key(|standing| standing.record.sequence)?;
    Some(last.record.digest)
}

/// Whether a gate lets this step through by itself. What is not there to be compared does not.
fn proceeds(before: Option<&String>, after: Option<&String>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    let examination = examine(Some(&Definition::read(before)), Some(&Definition::read(after)));
    examination.verdict(Posture::Guard).decision == Decision::Proceed
}

/// The definitions that have to be compared to judge these servers.
pub(crate) fn compared(servers: &[RegistryServer], standings: &Standings, now: i64) -> Vec<Digest> {
    let mut digests = Vec::new();
    for server in servers {
        for (tool, digest) in &server.tools {
            let standing = standings.of(&server.identity, tool, digest, now);
            if standing.is_some_and(|standing| standing.state == State::Approved) {
                continue;
            }
            if let Some(before) = approved(server, standings, tool, now) {
                digests.extend([before, *digest]);
            }
        }
    }
    digests.sort_unstable();
    digests.dedup();
    digests
}
