//! Forgetting an install: its signals, its receipts, its token, and its part in what was counted.
//!
//! Invariant: after it, no row names the install, and counts whose signals are still there are as if it had never sent any.
//! A HyperLogLog count whose signals have expired keeps its registers, in which no install can be told from another.

use std::collections::BTreeSet;

use mcpindex_contract::signal::InstallId;

use super::counts::{Key, count_again, forget, hold_mark, keys_after, lower_mark};
use crate::session::on;
use crate::{Store, StoreError};

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
    pub async fn purge_install(&self, install: InstallId) -> Result<u64, StoreError> {
        let id = install.as_bytes().as_slice();
        let mut session = self.write().await?;
        // Nothing is counted meanwhile.
        let mark = hold_mark(&mut session).await?;
        let gone: Vec<Gone> = on!(session, connection => {
            sqlx::query_as(
                "DELETE FROM signal WHERE install = $1
                 RETURNING tool_fp, day, event, server_fp, prev_hash, new_hash, prev_digest, new_digest",
            )
            .bind(id).fetch_all(connection).await?
        });
        let receipts = on!(session, connection => {
            sqlx::query("DELETE FROM install_token WHERE install = $1").bind(id).execute(&mut *connection).await?;
            sqlx::query("DELETE FROM receipt WHERE install = $1").bind(id).execute(connection).await?.rows_affected()
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
        // Counts of days whose signals have expired.
        let mut after: Option<Key> = None;
        loop {
            let keys = keys_after(&mut session, after.as_ref()).await?;
            for key in &keys {
                forget(&mut session, key, id).await?;
            }
            let Some(last) = keys.into_iter().next_back() else {
                break;
            };
            after = Some(last);
        }
        lower_mark(&mut session).await?;
        session.commit().await?;
        self.told_anew();
        Ok(u64::try_from(gone.len())
            .unwrap_or(u64::MAX)
            .saturating_add(receipts))
    }
}
