//! What installs told of a tool, as answers are made of it: its transitions, and who sees which definition.
//!
//! Invariant: nothing here is more than a count; whether it is enough to be shown is for the reader's rule.

use std::collections::BTreeMap;

use mcpindex_contract::signal::{Event, Fingerprint};

use super::counts::{CountRow, Counts, counts};
use super::fingerprints::{CrawlDrift, crawl_drift};
use crate::session::{Session, on};
use crate::{Store, StoreError};

/// Definitions and transitions of one tool that an answer is made of. Those come first that were told from most networks on a
/// day, then on most days: installs are free to invent, and one network can't push out what several agree on.
const MOST: i64 = 40;
/// Counts of each that are joined: of the days with most networks.
const DAYS: i64 = 100;

/// One transition of a tool as installs told it, all days that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetDrift {
    /// The published contract hashes before and after.
    pub hashes: (String, String),
    /// The definition digests before and after, of version 2.
    pub digests: Option<(String, String)>,
    /// Names of kinds of change, sorted.
    pub kinds: Vec<String>,
    /// Whether some install called it safety relevant.
    pub safety_relevant: bool,
    /// The latest hour told.
    pub last_seen_at: i64,
    /// Signals.
    pub signals: i64,
    /// Distinct installs that proved who they are, and the networks they sent from.
    pub authenticated: u64,
    /// See `authenticated`.
    pub authenticated_networks: u64,
    /// Distinct installs that did not, and their networks.
    pub anonymous: u64,
    /// See `anonymous`.
    pub anonymous_networks: u64,
}

/// What is told of one tool's drifts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldDrifts {
    /// The latest that the crawler saw; `None` where it saw none.
    pub crawl: Option<CrawlDrift>,
    /// Those that installs told, the ones first on which most agree.
    pub fleet: Vec<FleetDrift>,
}

/// One definition of a tool as installs told that they see it, pinned or drifted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldDefinition {
    /// The published contract hash.
    pub hash: String,
    /// The definition digest, of version 2.
    pub digest: Option<String>,
    /// The latest hour told.
    pub last_seen_at: i64,
    /// Distinct installs that proved who they are, and the networks they sent from.
    pub authenticated: u64,
    /// See `authenticated`.
    pub authenticated_networks: u64,
    /// Distinct installs that did not, and their networks.
    pub anonymous: u64,
    /// See `anonymous`.
    pub anonymous_networks: u64,
}

impl Store {
    /// What is told of the drifts of each of these tools, in the order given: the latest that the crawler saw, and those that
    /// installs told, the ones first on which most agree.
    pub async fn told_drifts(&self, tools: &[Fingerprint]) -> Result<Vec<ToldDrifts>, StoreError> {
        let mut session = self.read().await?;
        let mut all = Vec::with_capacity(tools.len());
        for tool in tools {
            let crawl = crawl_drift(&mut session, *tool).await?;
            let fleet = fleet_drifts(&transitions(&mut session, *tool).await?)?;
            all.push(ToldDrifts { crawl, fleet });
        }
        Ok(all)
    }
}

/// The counts of a tool's transitions.
async fn transitions(session: &mut Session, tool: Fingerprint) -> Result<Vec<CountRow>, StoreError> {
    let transitions: Vec<(String, String, String, String)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT prev_hash, new_hash, prev_digest, new_digest FROM signal_rollup
             WHERE tool_fp = $1 AND event = $2 GROUP BY new_digest, new_hash, prev_digest, prev_hash
             ORDER BY MAX(networks) DESC, COUNT(DISTINCT day) DESC, SUM(installs) DESC LIMIT $3",
        )
        .bind(tool.as_bytes().as_slice()).bind(Event::Drift.name()).bind(MOST).fetch_all(connection).await?
    });
    let mut rows = Vec::new();
    for (prev_hash, new_hash, prev_digest, new_digest) in transitions {
        let days: Vec<CountRow> = on!(*session, connection => {
            sqlx::query_as(counts!(
                "WHERE tool_fp = $1 AND event = $2 AND new_digest = $3 AND new_hash = $4 AND prev_digest = $5
                     AND prev_hash = $6 ORDER BY networks DESC, installs DESC LIMIT $7"
            ))
            .bind(tool.as_bytes().as_slice()).bind(Event::Drift.name()).bind(new_digest).bind(new_hash)
            .bind(prev_digest).bind(prev_hash).bind(DAYS).fetch_all(connection).await?
        });
        rows.extend(days);
    }
    Ok(rows)
}

/// The definitions that installs told of under these fingerprints of one tool: those that most of them see, and the one of
/// `digest` (or of `hash`, where no digest was told) whatever else was told.
pub(crate) async fn definitions(
    session: &mut Session,
    tools: &[Fingerprint],
    digest: Option<&str>,
    hash: Option<&str>,
) -> Result<Vec<ToldDefinition>, StoreError> {
    let mut definitions: BTreeMap<(String, String), Counts> = BTreeMap::new();
    for tool in tools {
        for event in [Event::Pin, Event::Drift] {
            let mut told: Vec<(String, String)> = on!(*session, connection => {
                sqlx::query_as(
                    "SELECT new_hash, new_digest FROM signal_rollup WHERE tool_fp = $1 AND event = $2
                     GROUP BY new_digest, new_hash
                     ORDER BY MAX(networks) DESC, COUNT(DISTINCT day) DESC, SUM(installs) DESC LIMIT $3",
                )
                .bind(tool.as_bytes().as_slice()).bind(event.name()).bind(MOST).fetch_all(connection).await?
            });
            if told.is_empty() {
                continue;
            }
            let asked: Vec<(String, String)> = on!(*session, connection => {
                sqlx::query_as(
                    "SELECT DISTINCT new_hash, new_digest FROM signal_rollup WHERE tool_fp = $1 AND event = $2
                         AND ((new_digest <> '' AND new_digest = $3) OR (new_digest = '' AND new_hash = $4)) LIMIT $5",
                )
                .bind(tool.as_bytes().as_slice()).bind(event.name()).bind(digest.unwrap_or_default())
                .bind(hash.unwrap_or_default()).bind(MOST).fetch_all(connection).await?
            });
            for definition in asked {
                if !told.contains(&definition) {
                    told.push(definition);
                }
            }
            for (new_hash, new_digest) in told {
                let days: Vec<CountRow> = on!(*session, connection => {
                    sqlx::query_as(counts!(
                        "WHERE tool_fp = $1 AND event = $2 AND new_digest = $3 AND new_hash = $4
                         ORDER BY networks DESC, installs DESC LIMIT $5"
                    ))
                    .bind(tool.as_bytes().as_slice()).bind(event.name()).bind(&new_digest).bind(&new_hash).bind(DAYS)
                    .fetch_all(connection).await?
                });
                let counts = definitions.entry((new_hash, new_digest)).or_default();
                for row in &days {
                    counts.merge(Counts::of_row(row)?);
                }
            }
        }
    }
    Ok(definitions
        .into_iter()
        .map(|((hash, digest), counts)| ToldDefinition {
            hash,
            digest: Some(digest).filter(|digest| !digest.is_empty()),
            last_seen_at: counts.last_seen_at,
            authenticated: counts.authenticated.count(),
            authenticated_networks: counts.authenticated_networks.count(),
            anonymous: counts.anonymous.count(),
            anonymous_networks: counts.anonymous_networks.count(),
        })
        .collect())
}

fn fleet_drifts(rows: &[CountRow]) -> Result<Vec<FleetDrift>, StoreError> {
    let mut transitions: BTreeMap<[&str; 4], Counts> = BTreeMap::new();
    for row in rows {
        let key = [&row.prev_hash, &row.new_hash, &row.prev_digest, &row.new_digest].map(String::as_str);
        transitions.entry(key).or_default().merge(Counts::of_row(row)?);
    }
    let mut drifts: Vec<FleetDrift> = transitions
        .into_iter()
        .map(
            |([prev_hash, new_hash, prev_digest, new_digest], counts)| FleetDrift {
                hashes: (prev_hash.to_owned(), new_hash.to_owned()),
                digests: (!new_digest.is_empty()).then(|| (prev_digest.to_owned(), new_digest.to_owned())),
                kinds: counts.kinds.into_iter().collect(),
                safety_relevant: counts.safety_relevant,
                last_seen_at: counts.last_seen_at,
                signals: counts.signals,
                authenticated: counts.authenticated.count(),
                authenticated_networks: counts.authenticated_networks.count(),
                anonymous: counts.anonymous.count(),
                anonymous_networks: counts.anonymous_networks.count(),
            },
        )
        .collect();
    drifts.sort_by_key(|drift| {
        let networks = drift.authenticated_networks + drift.anonymous_networks;
        std::cmp::Reverse((networks, drift.authenticated + drift.anonymous))
    });
    Ok(drifts)
}
