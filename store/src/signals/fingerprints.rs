//! Which servers and tools the fingerprints in signals stand for, and what the crawler saw of them.
//!
//! Kept under the published clients' constant for each identity and each alias, and for each tool of theirs that drifted.
//! The published clients name a server by what a host's configuration or a registry calls it, hence the aliases.
//!
//! Invariant: whatever adds an identity, an alias or a drift adds its fingerprints in the same transaction.

use std::collections::BTreeSet;

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::signal::{Fingerprint, FingerprintKey};

use crate::session::{Session, on};
use crate::text::{restored, stored};
use crate::{Store, StoreError};

/// Servers of an older program that are caught up with in one transaction.
const PAGE: i64 = 200;
/// Changes of one tool that are read: those of its latest drift come first.
const CHANGES: i64 = 500;

/// What the crawler saw of a tool last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlDrift {
    /// The drift's number.
    pub drift: i64,
    /// Which server.
    pub identity: String,
    /// The kinds of change to this tool, each once, by name.
    pub kinds: Vec<ChangeKind>,
    /// When the drift was found.
    pub found_at: i64,
}

impl Store {
    /// Fingerprints the servers that an older program added. Gives how many there were.
    pub async fn fingerprint_older_servers(&self) -> Result<usize, StoreError> {
        let mut done = 0;
        loop {
            let mut session = self.write().await?;
            let identities: Vec<String> = on!(session, connection => {
                sqlx::query_scalar(
                    "SELECT s.identity FROM server s
                     WHERE NOT EXISTS (SELECT 1 FROM fingerprint f WHERE f.identity = s.identity)
                     ORDER BY s.identity LIMIT $1",
                )
                .bind(PAGE).fetch_all(connection).await?
            });
            for identity in &identities {
                keep_all(&mut session, identity).await?;
            }
            session.commit().await?;
            if identities.is_empty() {
                return Ok(done);
            }
            done += identities.len();
        }
    }

    /// The latest drift of each of these tools that the crawler saw, in the order given; `None` where it saw none. A tool
    /// that only came or went has not drifted.
    pub async fn crawl_drifts(&self, tools: &[Fingerprint]) -> Result<Vec<Option<CrawlDrift>>, StoreError> {
        let mut session = self.read().await?;
        let mut drifts = Vec::with_capacity(tools.len());
        for tool in tools {
            drifts.push(crawl_drift(&mut session, *tool).await?);
        }
        Ok(drifts)
    }
}

async fn crawl_drift(session: &mut Session, tool: Fingerprint) -> Result<Option<CrawlDrift>, StoreError> {
    let rows: Vec<(i64, String, i64, String)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT d.id, d.identity, d.found_at, c.kind
             FROM fingerprint f
             JOIN drift d ON d.identity = f.identity AND d.replaced_at IS NULL
             JOIN change c ON c.drift = d.id
             WHERE f.fp = $1 AND f.of_tool AND c.subject_kind = 'tool' AND c.subject_name = f.tool
               AND c.kind NOT IN ('tool-added', 'tool-removed')
             ORDER BY d.found_at DESC, d.id DESC, c.position LIMIT $2",
        )
        .bind(tool.as_bytes().as_slice()).bind(CHANGES).fetch_all(connection).await?
    });
    let Some((drift, identity, found_at, _)) = rows.first().cloned() else {
        return Ok(None);
    };
    let kinds: BTreeSet<&str> = rows
        .iter()
        .filter(|(of, ..)| *of == drift)
        .map(|(.., kind)| kind.as_str())
        .collect();
    Ok(Some(CrawlDrift {
        drift,
        identity: restored(identity)?,
        kinds: kinds
            .into_iter()
            .map(|kind| {
                ChangeKind::from_name(kind).ok_or_else(|| crate::surfaces::corrupt("a kind of change", kind))
            })
            .collect::<Result<_, _>>()?,
        found_at,
    }))
}

/// Keeps what there is to an identity (in its stored form): under each of its names, itself and its drifted tools.
pub(crate) async fn keep_all(session: &mut Session, identity: &str) -> Result<(), StoreError> {
    let tools: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT DISTINCT c.subject_name FROM drift d JOIN change c ON c.drift = d.id
             WHERE d.identity = $1 AND c.subject_kind = 'tool'",
        )
        .bind(identity).fetch_all(connection).await?
    });
    let key = FingerprintKey::public();
    for name in names(session, identity).await? {
        keep(session, key.server(&name), identity, None).await?;
    }
    let tools = tools.into_iter().map(restored).collect::<Result<Vec<_>, _>>()?;
    keep_tools(session, identity, tools.iter().map(String::as_str).collect()).await
}

/// Keeps these tools of an identity (in its stored form) under each of its names.
pub(crate) async fn keep_tools(
    session: &mut Session,
    identity: &str,
    tools: BTreeSet<&str>,
) -> Result<(), StoreError> {
    let key = FingerprintKey::public();
    for name in names(session, identity).await? {
        for tool in &tools {
            keep(session, key.tool(&name, tool), identity, Some(tool)).await?;
        }
    }
    Ok(())
}

/// The identity and its aliases, as people write them.
async fn names(session: &mut Session, identity: &str) -> Result<Vec<String>, StoreError> {
    let aliases: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar("SELECT name FROM alias WHERE identity = $1 ORDER BY name")
            .bind(identity).fetch_all(connection).await?
    });
    let stored_names = std::iter::once(identity.to_owned()).chain(aliases);
    stored_names.map(restored).collect()
}

async fn keep(
    session: &mut Session,
    fingerprint: Fingerprint,
    identity: &str,
    tool: Option<&str>,
) -> Result<(), StoreError> {
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO fingerprint (fp, identity, tool, of_tool) VALUES ($1, $2, $3, $4)
             ON CONFLICT (fp, identity) DO NOTHING",
        )
        .bind(fingerprint.as_bytes().as_slice()).bind(identity).bind(stored(tool.unwrap_or_default())).bind(tool.is_some())
        .execute(connection).await?;
    });
    Ok(())
}
