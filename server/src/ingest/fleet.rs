//! When what installs told is shown to others, and what an answer says of a tool.
//!
//! Install ids are free to mint, so a number moves only where installs agree that prove who they are, or many that do not
//! from several networks. What the crawler saw itself is shown at once.
//!
//! Invariant: what one network sends shows nothing by itself, unless the settings of a private index say so.

use std::sync::Arc;

use mcpindex_contract::change::ChangeKind;
use mcpindex_store::signals::{CrawlDrift, FleetDrift, ToldDefinition, ToldDrifts};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::when::rfc3339;

/// How many must agree on a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRule {
    /// Installs that proved who they are, …
    pub authenticated_installs: u64,
    /// … and the networks that they send from.
    pub authenticated_networks: u64,
    /// Or installs that did not, …
    pub anonymous_installs: u64,
    /// … and their networks.
    pub anonymous_networks: u64,
}

/// The published answer to "has this tool drifted?", with one member of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answer {
    pub(crate) fp: String,
    /// `null`: it could not be found out.
    pub(crate) drifted: Option<bool>,
    #[serde(flatten)]
    pub(crate) known: Option<Known>,
}

/// What is said of a tool that drifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Known {
    /// `crawl` or `installs`.
    provenance: &'static str,
    sources: u64,
    safety_relevant: bool,
    last_seen: Option<String>,
    /// Names of the published vocabulary.
    change_kinds: Vec<String>,
    /// Which installs: `authenticated` or `anonymous`.
    #[serde(skip_serializing_if = "Option::is_none")]
    corroboration: Option<&'static str>,
}

impl FleetRule {
    /// How many installs agree, and which sort of them, where that is enough.
    fn corroborated(&self, drift: &FleetDrift) -> Option<(&'static str, u64)> {
        self.enough(
            (drift.authenticated, drift.authenticated_networks),
            (drift.anonymous, drift.anonymous_networks),
        )
    }

    /// How many installs see a definition, and which sort of them, where that is enough.
    pub(crate) fn see(&self, told: &ToldDefinition) -> Option<(&'static str, u64)> {
        self.enough(
            (told.authenticated, told.authenticated_networks),
            (told.anonymous, told.anonymous_networks),
        )
    }

    /// Installs and their networks, of both sorts.
    fn enough(&self, authenticated: (u64, u64), anonymous: (u64, u64)) -> Option<(&'static str, u64)> {
        if authenticated.0 >= self.authenticated_installs && authenticated.1 >= self.authenticated_networks {
            Some(("authenticated", authenticated.0))
        } else if anonymous.0 >= self.anonymous_installs && anonymous.1 >= self.anonymous_networks {
            Some(("anonymous", anonymous.0))
        } else {
            None
        }
    }
}

impl Answer {
    /// What is known of one tool.
    pub(crate) fn of(fp: String, told: &ToldDrifts, rule: &FleetRule) -> Answer {
        let known = match &told.crawl {
            Some(drift) => Some(of_crawl(drift)),
            None => told.fleet.iter().find_map(|drift| {
                let (corroboration, sources) = rule.corroborated(drift)?;
                Some(Known {
                    provenance: "installs",
                    sources,
                    safety_relevant: drift.safety_relevant,
                    last_seen: rfc3339(drift.last_seen_at),
                    change_kinds: published(drift.kinds.iter().map(String::as_str)),
                    corroboration: Some(corroboration),
                })
            }),
        };
        Answer {
            fp,
            drifted: Some(known.is_some()),
            known,
        }
    }

    /// As it is sent.
    pub(crate) fn written(&self) -> Arc<RawValue> {
        let written = to_raw_value(self).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Arc::from(written)
    }

    /// It could not be found out.
    pub(crate) fn unknown(fp: String) -> Answer {
        Answer {
            fp,
            drifted: None,
            known: None,
        }
    }
}

fn of_crawl(drift: &CrawlDrift) -> Known {
    Known {
        provenance: "crawl",
        sources: 1,
        safety_relevant: drift.kinds.iter().any(|kind| kind.safety_relevant()),
        last_seen: rfc3339(drift.found_at),
        change_kinds: published(drift.kinds.iter().map(|kind| kind.name())),
        corroboration: None,
    }
}

/// The published names for these kinds, sorted, each once.
pub(crate) fn published<'k>(kinds: impl Iterator<Item = &'k str>) -> Vec<String> {
    let mut names: Vec<String> = kinds
        .map(|name| match ChangeKind::from_name(name) {
            Some(kind) => kind.published().to_owned(),
            // A published name that no kind of ours has for its own.
            None => name.to_owned(),
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_enough_agree_on() {
        let rule = FleetRule {
            authenticated_installs: 2,
            authenticated_networks: 2,
            anonymous_installs: 10,
            anonymous_networks: 3,
        };
        let check = |counts: [u64; 4], shown: Option<(&'static str, u64)>| {
            let [
                authenticated,
                authenticated_networks,
                anonymous,
                anonymous_networks,
            ] = counts;
            let drift = FleetDrift {
                hashes: (String::new(), String::new()),
                digests: None,
                kinds: Vec::new(),
                safety_relevant: false,
                last_seen_at: 0,
                signals: 0,
                authenticated,
                authenticated_networks,
                anonymous,
                anonymous_networks,
            };
            assert_eq!(rule.corroborated(&drift), shown, "{counts:?}");
        };
        check([1, 1, 9, 9], None);
        check([2, 1, 0, 0], None);
        check([2, 2, 0, 0], Some(("authenticated", 2)));
        check([0, 0, 10_000, 2], None);
        check([0, 0, 9, 3], None);
        check([0, 0, 10, 3], Some(("anonymous", 10)));
        check([2, 2, 50, 9], Some(("authenticated", 2)));
    }
}
