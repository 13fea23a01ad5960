//! What installs told of a tool, as answers are made of it: its transitions, and who sees which definition.
//!
//! Invariant: nothing here is more than a count; whether it is enough to be shown is for the reader's rule.

use std::collections::BTreeMap;

use mcpindex_contract::signal::{Event, Fingerprint};

use super::counts::{CountRow, Counts, counts};
use super::fingerprints::{CrawlDrift, crawl_drift};
use crate::session::{Session, on};
use crate::{Store, StoreError};

/// Counts of one tool that an answer is made of: those that most installs agree on.
const COUNTS: i64 = 200;

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
            let rows: Vec<CountRow> = on!(session, connection => {
                sqlx::query_as(counts!("WHERE tool_fp = $1 AND event = $2 ORDER BY installs DESC LIMIT $3"))
                    .bind(tool.as_bytes().as_slice()).bind(Event::Drift.name()).bind(COUNTS)
                    .fetch_all(connection).await?
            });
            let fleet = fleet_drifts(&rows)?;
            all.push(ToldDrifts { crawl, fleet });
        }
        Ok(all)
    }
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
    let is_asked = |row: &CountRow| match row.new_digest.as_str() {
        "" => hash == Some(&row.new_hash),
        told => digest == Some(told),
    };
    for tool in tools {
        for event in [Event::Pin, Event::Drift] {
            let rows: Vec<CountRow> = on!(*session, connection => {
                sqlx::query_as(counts!("WHERE tool_fp = $1 AND event = $2 ORDER BY installs DESC LIMIT $3"))
                    .bind(tool.as_bytes().as_slice()).bind(event.name()).bind(COUNTS)
                    .fetch_all(connection).await?
            });
            for row in rows.iter().filter(|row| !is_asked(row)) {
                add(&mut definitions, row)?;
            }
        }
        let asked = [
            digest.map(|digest| (digest, None)),
            hash.map(|hash| ("", Some(hash))),
        ];
        for (digest, hash) in asked.into_iter().flatten() {
            let rows: Vec<CountRow> = on!(*session, connection => {
                sqlx::query_as(counts!(
                    "WHERE tool_fp = $1 AND new_digest = $2 AND ($3 OR new_hash = $4) ORDER BY installs DESC LIMIT $5"
                ))
                .bind(tool.as_bytes().as_slice()).bind(digest).bind(hash.is_none()).bind(hash.unwrap_or_default())
                .bind(COUNTS).fetch_all(connection).await?
            });
            for row in &rows {
                add(&mut definitions, row)?;
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

fn add(definitions: &mut BTreeMap<(String, String), Counts>, row: &CountRow) -> Result<(), StoreError> {
    let key = (row.new_hash.clone(), row.new_digest.clone());
    definitions.entry(key).or_default().merge(Counts::of_row(row)?);
    Ok(())
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
    drifts.sort_by_key(|drift| std::cmp::Reverse(drift.authenticated + drift.anonymous));
    Ok(drifts)
}
