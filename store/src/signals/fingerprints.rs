//! Which servers and tools the fingerprints in signals stand for, and what the crawler saw of them.
//!
//! Kept for each identity and each alias, and for each tool that was ever declared there, under the published clients' constant
//! and under the organisation's own key. The published clients name a server by what a host's configuration or a registry calls
//! it, hence the aliases.
//!
//! Invariant: whatever adds an identity, an alias or a tool adds its fingerprints in the same transaction (`crate::finding`).

use std::collections::BTreeSet;

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::signal::{Fingerprint, FingerprintKey};

use crate::StoreError;
use crate::session::{Session, on};
use crate::text::{restored, stored};

/// Fingerprints of one statement: SQLite takes 32,766 parameters, and a row has 4.
const ROWS: usize = 1_000;
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

/// The tool's latest drift that the crawler saw. A tool that only came or went has not drifted.
pub(super) async fn crawl_drift(
    session: &mut Session,
    tool: Fingerprint,
) -> Result<Option<CrawlDrift>, StoreError> {
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

/// The keys that fingerprints are kept under: the public constant, and the organisation's once it has one.
pub(crate) async fn keys(session: &mut Session) -> Result<Vec<FingerprintKey>, StoreError> {
    let own: Option<Vec<u8>> = on!(*session, connection => {
        sqlx::query_scalar("SELECT fingerprint_key FROM organisation").fetch_optional(connection).await?
    });
    let own = own.map(|key| FingerprintKey::new(&key));
    Ok(std::iter::once(FingerprintKey::public()).chain(own).collect())
}

/// The identity (in its stored form) and its aliases, as people write them.
pub(crate) async fn names(session: &mut Session, identity: &str) -> Result<Vec<String>, StoreError> {
    let aliases: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar("SELECT name FROM alias WHERE identity = $1 ORDER BY name")
            .bind(identity).fetch_all(connection).await?
    });
    let stored_names = std::iter::once(identity.to_owned()).chain(aliases);
    stored_names.map(restored).collect()
}

/// Keeps these tools of an identity (in its stored form), and with `server` itself, under each of its names and each key.
pub(crate) async fn keep(
    session: &mut Session,
    identity: &str,
    tools: &BTreeSet<String>,
    server: bool,
) -> Result<(), StoreError> {
    let keys = keys(session).await?;
    let mut rows: Vec<(Fingerprint, &str, bool)> = Vec::new();
    for name in names(session, identity).await? {
        for key in &keys {
            rows.extend(server.then(|| (key.server(&name), "", false)));
            rows.extend(
                tools
                    .iter()
                    .map(|tool| (key.tool(&name, tool), tool.as_str(), true)),
            );
        }
    }
    for rows in rows.chunks(ROWS) {
        on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new("INSERT INTO fingerprint (fp, identity, tool, of_tool) ");
            statement.push_values(rows, |mut values, (fingerprint, tool, of_tool)| {
                values
                    .push_bind(fingerprint.as_bytes().as_slice())
                    .push_bind(identity)
                    .push_bind(stored(tool))
                    .push_bind(*of_tool);
            });
            statement.push(" ON CONFLICT (fp, identity) DO NOTHING");
            statement.build().execute(connection).await?;
        });
    }
    Ok(())
}
