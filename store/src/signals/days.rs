//! The days of the signals: partitions made ahead on Postgres, and what is past keeping dropped there and deleted in
//! pieces on SQLite.
//!
//! Invariant: no signal goes before it is counted.

use sqlx::AssertSqlSafe;

use super::DAY;
use crate::session::{Session, on};
use crate::{Store, StoreError};

/// Postgres: a row fits no partition (`check_violation`).
pub(super) const NO_PARTITION: &str = "23514";
/// Days that are prepared before and after today: as far back as a signal's hour may lie, and as far ahead again.
const AROUND: i64 = 8;
/// Rows deleted in one transaction on SQLite: writers wait that long.
const PIECE: i64 = 5_000;
/// Programs that start at once make the days one after the other.
const DAYS_LOCK: i64 = 0x6d63_7069_6461_7973;

impl Store {
    /// Makes room for the signals of the days around `now`. Nothing is to be done on SQLite.
    pub async fn prepare_signal_days(&self, now: i64) -> Result<(), StoreError> {
        let today = now.div_euclid(DAY);
        self.prepare_days(&(today - AROUND..=today + AROUND).collect::<Vec<_>>())
            .await
    }

    pub(super) async fn prepare_days(&self, days: &[i64]) -> Result<(), StoreError> {
        let mut session = self.write().await?;
        if let Session::Postgres(transaction) = &mut session {
            sqlx::query("SELECT pg_advisory_xact_lock($1)")
                .bind(DAYS_LOCK)
                .execute(&mut **transaction)
                .await?;
            let there = partitions(&mut session).await?;
            for day in days.iter().filter(|day| !there.contains(day)) {
                let next = day + 1;
                // Numbers alone are put in.
                let make = format!(
                    "CREATE TABLE IF NOT EXISTS signal_day_{day} PARTITION OF signal FOR VALUES FROM ({day}) TO ({next})"
                );
                on!(session, connection => { sqlx::query(AssertSqlSafe(make)).execute(connection).await?; });
            }
        }
        session.commit().await
    }

    /// Lets go of the signals of the days before those of the last `keep` seconds; what was counted of them stays.
    /// Gives how many signals went, or on Postgres how many days.
    pub async fn expire_signals(&self, now: i64, keep: i64) -> Result<u64, StoreError> {
        self.count_signals().await?;
        let oldest = (now - keep).div_euclid(DAY);
        let mut session = self.write().await?;
        if session.is_postgres() {
            on!(session, connection => {
                sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(DAYS_LOCK).execute(connection).await?;
            });
            let past: Vec<i64> = partitions(&mut session)
                .await?
                .into_iter()
                .filter(|day| *day < oldest)
                .collect();
            let mut gone = 0;
            for day in past {
                let drop = format!("DROP TABLE signal_day_{day}");
                on!(session, connection => { sqlx::query(AssertSqlSafe(drop)).execute(connection).await?; });
                gone += 1;
            }
            session.commit().await?;
            return Ok(gone);
        }
        session.commit().await?;
        let mut gone = 0;
        loop {
            let mut session = self.write().await?;
            let piece = on!(session, connection => {
                sqlx::query("DELETE FROM signal WHERE seq IN (SELECT seq FROM signal WHERE day < $1 LIMIT $2)")
                    .bind(oldest).bind(PIECE).execute(connection).await?.rows_affected()
            });
            super::counts::lower_mark(&mut session).await?;
            session.commit().await?;
            gone += piece;
            if piece == 0 {
                return Ok(gone);
            }
        }
    }
}

/// The days that have a partition; none on SQLite.
async fn partitions(session: &mut Session) -> Result<Vec<i64>, StoreError> {
    let Session::Postgres(transaction) = session else {
        return Ok(Vec::new());
    };
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'signal'::regclass",
    )
    .fetch_all(&mut **transaction)
    .await?;
    Ok(names
        .iter()
        .filter_map(|name| name.strip_prefix("signal_day_")?.parse().ok())
        .collect())
}
