//! What drifted lately, tool by tool, and how much there is in all.
//!
//! Invariant: replaced drifts are in neither.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::surface::MemberKind;

use crate::session::{Session, on};
use crate::surfaces::corrupt;
use crate::text::restored;
use crate::{Store, StoreError};

/// Drifts that are read for one ledger, and changes of them.
const DRIFTS: i64 = 200;
const CHANGES: i64 = 5_000;

/// What one drift did to one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The drift's number.
    pub drift: i64,
    /// The server's identity.
    pub identity: String,
    /// The server's short id.
    pub short_id: String,
    /// When it was found.
    pub found_at: i64,
    /// The tool; `None`: what stands around the tools (instructions, prompts, resources).
    pub tool: Option<String>,
    /// The kinds of its changes, each once, by name.
    pub kinds: BTreeSet<ChangeKind>,
}

/// How much there is in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerTotals {
    /// Tools that drifted; one that only came or went has not.
    pub tools: i64,
    /// Drifts.
    pub drifts: i64,
    /// Servers that have one.
    pub servers: i64,
    /// Drifts that are safety relevant.
    pub safety_relevant: i64,
}

/// What drifted lately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// The latest entries, newest first, of at most 200 drifts.
    pub entries: Vec<LedgerEntry>,
    /// Of all drifts.
    pub totals: LedgerTotals,
}

/// The ledger that was read last, with the number of the newest drift in it. Drifts are only added, and one is replaced only when
/// others are, so while that number stays the ledger does.
pub(crate) type Kept = tokio::sync::Mutex<Option<(Option<i64>, Arc<Ledger>)>>;

impl Store {
    /// What drifted lately, of one state of the database. The totals take a look at every change there ever was, so it is read anew
    /// only after another drift was recorded, and by one caller for all who wait.
    pub async fn ledger(&self) -> Result<Arc<Ledger>, StoreError> {
        let mut kept = self.ledger.lock().await;
        let mut session = self.read().await?;
        let newest: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT MAX(id) FROM drift").fetch_one(connection).await?
        });
        if let Some((of, ledger)) = kept.as_ref()
            && *of == newest
        {
            return Ok(Arc::clone(ledger));
        }
        let ledger = Arc::new(read(&mut session).await?);
        *kept = Some((newest, Arc::clone(&ledger)));
        Ok(ledger)
    }
}

async fn read(session: &mut Session) -> Result<Ledger, StoreError> {
    type Row = (i64, String, String, i64, String, String, String);
    let rows: Vec<Row> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT d.id, d.identity, s.short_id, d.found_at, c.subject_kind, c.subject_name, c.kind
                 FROM (SELECT id, identity, found_at FROM drift WHERE replaced_at IS NULL ORDER BY id DESC LIMIT $1) d
                 JOIN server s ON s.identity = d.identity
                 JOIN change c ON c.drift = d.id
                 ORDER BY d.id DESC, c.position LIMIT $2",
        )
        .bind(DRIFTS).bind(CHANGES).fetch_all(connection).await?
    });
    let mut entries: Vec<LedgerEntry> = Vec::new();
    for (drift, identity, short_id, found_at, subject, name, kind) in rows {
        let tool = (subject == MemberKind::Tool.name())
            .then(|| restored(name))
            .transpose()?;
        let kind = ChangeKind::from_name(&kind).ok_or_else(|| corrupt("a kind of change", &kind))?;
        let known = entries
            .iter_mut()
            .rev()
            .take_while(|entry| entry.drift == drift)
            .find(|entry| entry.tool == tool);
        match known {
            Some(entry) => {
                entry.kinds.insert(kind);
            }
            None => entries.push(LedgerEntry {
                drift,
                identity: restored(identity)?,
                short_id,
                found_at,
                tool,
                kinds: BTreeSet::from([kind]),
            }),
        }
    }
    let (drifts, servers, safety_relevant): (i64, i64, i64) = on!(*session, connection => {
        sqlx::query_as(
            "SELECT COUNT(*), COUNT(DISTINCT identity), COUNT(CASE WHEN safety_relevant THEN 1 END)
             FROM drift WHERE replaced_at IS NULL",
        )
        .fetch_one(connection).await?
    });
    let tools: i64 = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT COUNT(*) FROM (
                     SELECT DISTINCT d.identity, c.subject_name FROM drift d JOIN change c ON c.drift = d.id
                     WHERE d.replaced_at IS NULL AND c.subject_kind = $1
                       AND c.kind NOT IN ('tool-added', 'tool-removed')) t",
        )
        .bind(MemberKind::Tool.name()).fetch_one(connection).await?
    });
    let totals = LedgerTotals {
        tools,
        drifts,
        servers,
        safety_relevant,
    };
    Ok(Ledger { entries, totals })
}
