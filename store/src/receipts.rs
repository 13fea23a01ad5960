//! Receipts that installs sent: kept once each, let go when they are past keeping, and forgotten with their install
//! (`signals::purge`).
//!
//! Invariant: what [`Store::record_receipts`] has acknowledged is durable; a receipt is its install's word under the id that it
//! gave, and the first one counts.

use std::collections::BTreeMap;

use mcpindex_contract::receipt::Receipt;
use mcpindex_contract::signal::InstallId;

use crate::session::on;
use crate::signals::Network;
use crate::{Store, StoreError};

/// Rows of one statement: SQLite takes 32,766 parameters, and a row has 8.
const ROWS: usize = 1_000;
/// Rows deleted in one transaction: writers wait that long.
const PIECE: i64 = 5_000;

/// A receipt as it came in.
#[derive(Debug, Clone)]
pub struct ReceivedReceipt {
    /// Whose.
    pub install: InstallId,
    /// What was told.
    pub receipt: Receipt,
    /// From where.
    pub network: Network,
    /// Whether the sender proved to be the install.
    pub authenticated: bool,
}

impl Store {
    /// Keeps these receipts, all or none, and gives how many of them were new.
    pub async fn record_receipts(&self, receipts: &[ReceivedReceipt], now: i64) -> Result<u64, StoreError> {
        // In the order of the key, so that two writers of the same receipts wait for each other and never in a circle.
        let mut rows: BTreeMap<([u8; 16], &str), &ReceivedReceipt> = BTreeMap::new();
        for received in receipts {
            rows.entry((*received.install.as_bytes(), &received.receipt.id))
                .or_insert(received);
        }
        let rows: Vec<&ReceivedReceipt> = rows.into_values().collect();
        let mut session = self.write().await?;
        let mut new = 0;
        for rows in rows.chunks(ROWS) {
            new += on!(session, connection => {
                let mut statement = sqlx::QueryBuilder::new(
                    "INSERT INTO receipt (install, receipt_id, received_at, tool_hash, verdict, body, network, authenticated) ",
                );
                statement.push_values(rows, |mut values, received| {
                    values
                        .push_bind(received.install.as_bytes().as_slice())
                        .push_bind(received.receipt.id.as_str())
                        .push_bind(now)
                        .push_bind(received.receipt.tool_hash.as_str())
                        .push_bind(received.receipt.verdict.as_str())
                        .push_bind(received.receipt.text.as_str())
                        .push_bind(received.network.bytes())
                        .push_bind(received.authenticated);
                });
                statement.push(" ON CONFLICT (install, receipt_id) DO NOTHING");
                statement.build().execute(connection).await?.rows_affected()
            });
        }
        session.commit().await?;
        Ok(new)
    }

    /// How many receipts are kept now.
    pub async fn receipts_kept(&self) -> Result<i64, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT COUNT(*) FROM receipt").fetch_one(connection).await?
        }))
    }

    /// The texts of an install's receipts, the latest received first.
    pub async fn receipts_of(&self, install: InstallId, limit: i64) -> Result<Vec<String>, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar(
                "SELECT body FROM receipt WHERE install = $1 ORDER BY received_at DESC, receipt_id LIMIT $2",
            )
            .bind(install.as_bytes().as_slice()).bind(limit).fetch_all(connection).await?
        }))
    }

    /// Lets go of the receipts that came in more than `keep` seconds ago. Gives how many went.
    pub async fn expire_receipts(&self, now: i64, keep: i64) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let mut session = self.write().await?;
            let piece = on!(session, connection => {
                sqlx::query(
                    "DELETE FROM receipt WHERE (install, receipt_id) IN
                     (SELECT install, receipt_id FROM receipt WHERE received_at < $1 ORDER BY received_at LIMIT $2)",
                )
                .bind(now - keep).bind(PIECE).execute(connection).await?.rows_affected()
            });
            session.commit().await?;
            gone += piece;
            if piece == 0 {
                return Ok(gone);
            }
        }
    }
}
