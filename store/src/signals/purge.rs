//! Forgetting an install: its signals, its receipts, its token, and its part in what was counted.
//!
//! Invariant: after it, no row names the install, and counts whose signals are still there are as if it had never sent any.
//! A HyperLogLog count whose signals have expired keeps its registers, in which no install can be told from another; and a count
//! whose signals have expired keeps the networks, of which it doesn't know which install's they were.

use std::collections::BTreeSet;

use mcpindex_contract::signal::InstallId;

use super::counts::{Key, count_again, counts_with, forget, hold_mark, lower_mark};
use crate::session::on;
use crate::{Store, StoreError};

/// Signals that go in one transaction: all that is kept of their tools' days is counted again in it.
const SIGNALS: usize = 50;
/// Counts that are changed in one transaction.
const COUNTS: usize = 100;

row! {
    struct Gone {
        tool_fp: Vec<u8>,
        day: i64,
        event: String,
        server_fp: Vec<u8>,
        prev_hash: String,
        new_hash: String,
        prev_digest: String,
        new_digest: String,
    }
}

impl Store {
    /// Forgets an install. Gives how many of its signals and receipts there were. It may send again, and is then a new one.
    ///
    /// Done in pieces, so that nobody who writes waits long; when it breaks off, what is left goes with the next call.
    pub async fn purge_install(&self, install: InstallId) -> Result<u64, StoreError> {
        let id = install.as_bytes().as_slice();
        let mut purged = self.purge_receipts(id).await?;
        let mut session = self.read().await?;
        let signals: Vec<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT seq FROM signal WHERE install = $1 ORDER BY seq")
                .bind(id).fetch_all(connection).await?
        });
        drop(session);
        for piece in signals.chunks(SIGNALS) {
            if let (Some(first), Some(last)) = (piece.first(), piece.last()) {
                purged += self.purge_signals(id, *first, *last).await?;
            }
        }
        self.purge_counts(id).await?;
        Ok(purged)
    }

    /// Its token, and its receipts, of which it gives the number.
    async fn purge_receipts(&self, id: &[u8]) -> Result<u64, StoreError> {
        let mut session = self.write().await?;
        let receipts = on!(session, connection => {
            sqlx::query("DELETE FROM install_token WHERE install = $1").bind(id).execute(&mut *connection).await?;
            sqlx::query("DELETE FROM receipt WHERE install = $1").bind(id).execute(connection).await?.rows_affected()
        });
        session.commit().await?;
        Ok(receipts)
    }

    /// Its signals between these numbers, which are counted as if they had never come.
    async fn purge_signals(&self, id: &[u8], first: i64, last: i64) -> Result<u64, StoreError> {
        let mut session = self.write().await?;
        // Nothing is counted meanwhile.
        let mark = hold_mark(&mut session).await?;
        let gone: Vec<Gone> = on!(session, connection => {
            sqlx::query_as(
                "DELETE FROM signal WHERE install = $1 AND seq >= $2 AND seq <= $3
                 RETURNING tool_fp, day, event, server_fp, prev_hash, new_hash, prev_digest, new_digest",
            )
            .bind(id).bind(first).bind(last).fetch_all(connection).await?
        });
        let mut again = BTreeSet::new();
        for row in &gone {
            let hashes = (row.prev_hash.as_str(), row.new_hash.as_str());
            let digests = (row.prev_digest.as_str(), row.new_digest.as_str());
            again.insert(Key::of(
                &row.tool_fp,
                row.day,
                &row.event,
                &row.server_fp,
                hashes,
                digests,
            )?);
        }
        for key in &again {
            count_again(&mut session, key, mark).await?;
        }
        lower_mark(&mut session).await?;
        session.commit().await?;
        self.told_anew();
        Ok(u64::try_from(gone.len()).unwrap_or(u64::MAX))
    }

    /// Its part in counts of days whose signals have expired. Most counts know nothing of it, and are only read.
    async fn purge_counts(&self, id: &[u8]) -> Result<(), StoreError> {
        let mut after: Option<Key> = None;
        loop {
            let mut session = self.read().await?;
            let page = counts_with(&mut session, after.as_ref(), id).await?;
            drop(session);
            let Some((keys, last)) = page else {
                return Ok(());
            };
            for piece in keys.chunks(COUNTS) {
                let mut session = self.write().await?;
                hold_mark(&mut session).await?;
                for key in piece {
                    forget(&mut session, key, id).await?;
                }
                session.commit().await?;
                self.told_anew();
            }
            after = Some(last);
        }
    }
}
