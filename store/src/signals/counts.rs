//! What is counted of signals: for each day, tool and transition how many came, and from how many distinct installs and
//! networks, those with proof apart from those without.
//!
//! The counting follows the signals' order of arrival up to a mark. On Postgres a later number can be committed before an
//! earlier one; so the end of what is counted is read while no writer is under way.
//!
//! Invariant: each signal is counted once: the counts and the mark move in one transaction, which one program holds.

use std::collections::{BTreeMap, BTreeSet};

use super::sketch::Sketch;
use super::{hash_16, sixteen};
use crate::session::{Session, on};
use crate::{Store, StoreError};

/// Signals counted in one transaction: on SQLite writers wait that long.
const PIECE: i64 = 1_000;

/// Which count a signal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) tool: [u8; 16],
    pub(super) day: i64,
    transition: [u8; 16],
}

/// What does not vary within a count.
#[derive(Debug, Clone)]
struct Transition {
    server: Vec<u8>,
    event: String,
    hashes: (String, String),
    digests: (String, String),
}

/// What is counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) kinds: BTreeSet<String>,
    pub(super) safety_relevant: bool,
    pub(super) last_seen_at: i64,
    pub(super) signals: i64,
    pub(super) authenticated: Sketch,
    pub(super) authenticated_networks: Sketch,
    pub(super) anonymous: Sketch,
    pub(super) anonymous_networks: Sketch,
}

row! {
    /// A signal's row, as far as it is counted.
    struct SignalRow {
        seq: i64,
        day: i64,
        seen_at: i64,
        event: String,
        server_fp: Vec<u8>,
        tool_fp: Vec<u8>,
        prev_hash: String,
        new_hash: String,
        prev_digest: String,
        new_digest: String,
        kinds: String,
        safety_relevant: bool,
        install: Vec<u8>,
        network: Vec<u8>,
        authenticated: bool,
    }
}

macro_rules! signal {
    ($rest:literal) => {
        concat!(
            "SELECT seq, day, seen_at, event, server_fp, tool_fp, prev_hash, new_hash, prev_digest, new_digest, kinds,
                 safety_relevant, install, network, authenticated FROM signal ",
            $rest
        )
    };
}

row! {
    /// One row of counts.
    struct CountRow {
        prev_hash: String,
        new_hash: String,
        prev_digest: String,
        new_digest: String,
        kinds: String,
        safety_relevant: bool,
        last_seen_at: i64,
        signals: i64,
        authenticated: Vec<u8>,
        authenticated_networks: Vec<u8>,
        anonymous: Vec<u8>,
        anonymous_networks: Vec<u8>,
    }
}

/// Reads [`CountRow`]s.
macro_rules! counts {
    ($rest:literal) => {
        concat!(
            "SELECT prev_hash, new_hash, prev_digest, new_digest, kinds, safety_relevant, last_seen_at, signals,
                 authenticated, authenticated_networks, anonymous, anonymous_networks FROM signal_rollup ",
            $rest
        )
    };
}
pub(super) use counts;

impl Key {
    pub(super) fn of(
        tool: &[u8],
        day: i64,
        event: &str,
        server: &[u8],
        hashes: (&str, &str),
        digests: (&str, &str),
    ) -> Result<Key, StoreError> {
        Ok(Key {
            tool: sixteen("tool's fingerprint", tool)?,
            day,
            transition: hash_16([server], &[event, hashes.0, hashes.1, digests.0, digests.1]),
        })
    }
}

impl SignalRow {
    fn key(&self) -> Result<Key, StoreError> {
        let hashes = (self.prev_hash.as_str(), self.new_hash.as_str());
        let digests = (self.prev_digest.as_str(), self.new_digest.as_str());
        Key::of(
            &self.tool_fp,
            self.day,
            &self.event,
            &self.server_fp,
            hashes,
            digests,
        )
    }

    fn transition(&self) -> Transition {
        Transition {
            server: self.server_fp.clone(),
            event: self.event.clone(),
            hashes: (self.prev_hash.clone(), self.new_hash.clone()),
            digests: (self.prev_digest.clone(), self.new_digest.clone()),
        }
    }
}

impl Counts {
    fn add(&mut self, row: &SignalRow) {
        self.kinds
            .extend(row.kinds.split_terminator(' ').map(str::to_owned));
        self.safety_relevant |= row.safety_relevant;
        self.last_seen_at = self.last_seen_at.max(row.seen_at);
        self.signals += 1;
        let (installs, networks) = if row.authenticated {
            (&mut self.authenticated, &mut self.authenticated_networks)
        } else {
            (&mut self.anonymous, &mut self.anonymous_networks)
        };
        installs.add(&row.install);
        networks.add(&row.network);
    }

    pub(super) fn of_row(row: &CountRow) -> Result<Counts, StoreError> {
        Ok(Counts {
            kinds: row.kinds.split_terminator(' ').map(str::to_owned).collect(),
            safety_relevant: row.safety_relevant,
            last_seen_at: row.last_seen_at,
            signals: row.signals,
            authenticated: Sketch::from_bytes(&row.authenticated)?,
            authenticated_networks: Sketch::from_bytes(&row.authenticated_networks)?,
            anonymous: Sketch::from_bytes(&row.anonymous)?,
            anonymous_networks: Sketch::from_bytes(&row.anonymous_networks)?,
        })
    }

    pub(super) fn merge(&mut self, other: Counts) {
        self.kinds.extend(other.kinds);
        self.safety_relevant |= other.safety_relevant;
        self.last_seen_at = self.last_seen_at.max(other.last_seen_at);
        self.signals += other.signals;
        self.authenticated.merge(&other.authenticated);
        self.authenticated_networks.merge(&other.authenticated_networks);
        self.anonymous.merge(&other.anonymous);
        self.anonymous_networks.merge(&other.anonymous_networks);
    }
}

impl Store {
    /// Counts the signals that came since the last time. Gives how many there were. Several programs may call it at once.
    pub async fn count_signals(&self) -> Result<u64, StoreError> {
        if !self.has_uncounted().await? {
            return Ok(0);
        }
        let end = self.committed_end().await?;
        let mut counted = 0;
        loop {
            let mut session = self.write().await?;
            let mark = hold_mark(&mut session).await?;
            let rows: Vec<SignalRow> = on!(session, connection => {
                sqlx::query_as(signal!("WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3"))
                    .bind(mark).bind(end).bind(PIECE).fetch_all(connection).await?
            });
            let Some(last) = rows.last().map(|row| row.seq) else {
                return Ok(counted);
            };
            count(&mut session, &rows).await?;
            move_mark(&mut session, last).await?;
            session.commit().await?;
            self.told_anew();
            counted += u64::try_from(rows.len()).unwrap_or(u64::MAX);
        }
    }

    /// Whether there is anything to count, without making a writer wait for the answer.
    async fn has_uncounted(&self) -> Result<bool, StoreError> {
        let mut session = self.read().await?;
        let found: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT seq FROM signal WHERE seq > (SELECT counted_to FROM signal_mark) LIMIT 1")
                .fetch_optional(connection).await?
        });
        Ok(found.is_some())
    }

    /// The last number before which no signal can come any more.
    async fn committed_end(&self) -> Result<i64, StoreError> {
        let mut session = self.write().await?;
        if session.is_postgres() {
            // Waits for the writers that are under way; those that come wait until the number is read.
            on!(session, connection => {
                sqlx::query("LOCK TABLE ONLY signal IN SHARE MODE").execute(connection).await?;
            });
        }
        let end: Option<i64> = on!(session, connection => {
            sqlx::query_scalar("SELECT MAX(seq) FROM signal").fetch_one(connection).await?
        });
        session.commit().await?;
        Ok(end.unwrap_or(0))
    }
}

/// Adds these signals to their counts.
async fn count(session: &mut Session, rows: &[SignalRow]) -> Result<(), StoreError> {
    let mut changed: BTreeMap<Key, (Transition, Counts)> = BTreeMap::new();
    for row in rows {
        let entry = changed.entry(row.key()?);
        entry
            .or_insert_with(|| (row.transition(), Counts::default()))
            .1
            .add(row);
    }
    for (key, (transition, mut counts)) in changed {
        let before: Option<CountRow> = on!(*session, connection => {
            sqlx::query_as(counts!("WHERE tool_fp = $1 AND day = $2 AND transition = $3"))
                .bind(key.tool.as_slice()).bind(key.day).bind(key.transition.as_slice())
                .fetch_optional(connection).await?
        });
        if let Some(before) = before {
            counts.merge(Counts::of_row(&before)?);
        }
        write(session, &key, &transition, &counts).await?;
    }
    Ok(())
}

async fn write(
    session: &mut Session,
    key: &Key,
    transition: &Transition,
    counts: &Counts,
) -> Result<(), StoreError> {
    let installs = counts
        .authenticated
        .count()
        .saturating_add(counts.anonymous.count());
    let networks = counts
        .authenticated_networks
        .count()
        .saturating_add(counts.anonymous_networks.count());
    let kinds: Vec<&str> = counts.kinds.iter().map(String::as_str).collect();
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO signal_rollup (tool_fp, day, transition, event, server_fp, prev_hash, new_hash, prev_digest,
                 new_digest, kinds, safety_relevant, last_seen_at, signals, installs, authenticated,
                 authenticated_networks, anonymous, anonymous_networks, networks)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
             ON CONFLICT (tool_fp, day, transition) DO UPDATE SET
                 kinds = excluded.kinds, safety_relevant = excluded.safety_relevant, networks = excluded.networks,
                 last_seen_at = excluded.last_seen_at, signals = excluded.signals, installs = excluded.installs,
                 authenticated = excluded.authenticated, authenticated_networks = excluded.authenticated_networks,
                 anonymous = excluded.anonymous, anonymous_networks = excluded.anonymous_networks",
        )
        .bind(key.tool.as_slice()).bind(key.day).bind(key.transition.as_slice()).bind(&transition.event)
        .bind(transition.server.as_slice()).bind(&transition.hashes.0).bind(&transition.hashes.1)
        .bind(&transition.digests.0).bind(&transition.digests.1).bind(kinds.join(" "))
        .bind(counts.safety_relevant).bind(counts.last_seen_at).bind(counts.signals)
        .bind(i64::try_from(installs).unwrap_or(i64::MAX))
        .bind(counts.authenticated.to_bytes()).bind(counts.authenticated_networks.to_bytes())
        .bind(counts.anonymous.to_bytes()).bind(counts.anonymous_networks.to_bytes())
        .bind(i64::try_from(networks).unwrap_or(i64::MAX))
        .execute(connection).await?;
    });
    Ok(())
}

/// Makes one count anew from the signals that are there and were counted.
pub(super) async fn count_again(session: &mut Session, key: &Key, mark: i64) -> Result<(), StoreError> {
    on!(*session, connection => {
        sqlx::query("DELETE FROM signal_rollup WHERE tool_fp = $1 AND day = $2 AND transition = $3")
            .bind(key.tool.as_slice()).bind(key.day).bind(key.transition.as_slice()).execute(connection).await?;
    });
    let mut after = 0;
    let mut again: Option<(Transition, Counts)> = None;
    loop {
        let rows: Vec<SignalRow> = on!(*session, connection => {
            sqlx::query_as(signal!("WHERE tool_fp = $1 AND day = $2 AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5"))
                .bind(key.tool.as_slice()).bind(key.day).bind(after).bind(mark).bind(PIECE)
                .fetch_all(connection).await?
        });
        let Some(last) = rows.last() else { break };
        after = last.seq;
        for row in &rows {
            if row.key()? == *key {
                again
                    .get_or_insert_with(|| (row.transition(), Counts::default()))
                    .1
                    .add(row);
            }
        }
    }
    match again {
        Some((transition, counts)) => write(session, key, &transition, &counts).await,
        None => Ok(()),
    }
}

/// Takes an install out of the counts of one key that can name it, and leaves the number of signals as it was.
pub(super) async fn forget(session: &mut Session, key: &Key, install: &[u8]) -> Result<(), StoreError> {
    let row: Option<CountRow> = on!(*session, connection => {
        sqlx::query_as(counts!("WHERE tool_fp = $1 AND day = $2 AND transition = $3"))
            .bind(key.tool.as_slice()).bind(key.day).bind(key.transition.as_slice())
            .fetch_optional(connection).await?
    });
    let Some(row) = row else { return Ok(()) };
    let mut counts = Counts::of_row(&row)?;
    // Both, whatever the first says.
    if !(counts.authenticated.remove(install) | counts.anonymous.remove(install)) {
        return Ok(());
    }
    let installs = counts
        .authenticated
        .count()
        .saturating_add(counts.anonymous.count());
    on!(*session, connection => {
        sqlx::query(
            "UPDATE signal_rollup SET authenticated = $4, anonymous = $5, installs = $6
             WHERE tool_fp = $1 AND day = $2 AND transition = $3",
        )
        .bind(key.tool.as_slice()).bind(key.day).bind(key.transition.as_slice())
        .bind(counts.authenticated.to_bytes()).bind(counts.anonymous.to_bytes())
        .bind(i64::try_from(installs).unwrap_or(i64::MAX))
        .execute(connection).await?;
    });
    Ok(())
}

/// The next counts after this one that know of an install, of as many as are read at a time, and the last that was read; `None`:
/// there are no more.
pub(super) async fn counts_with(
    session: &mut Session,
    after: Option<&Key>,
    install: &[u8],
) -> Result<Option<(Vec<Key>, Key)>, StoreError> {
    let first = Key {
        tool: [0; 16],
        day: i64::MIN,
        transition: [0; 16],
    };
    let after = after.unwrap_or(&first);
    type Row = (Vec<u8>, i64, Vec<u8>, Vec<u8>, Vec<u8>);
    let rows: Vec<Row> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT tool_fp, day, transition, authenticated, anonymous FROM signal_rollup
             WHERE (tool_fp, day, transition) > ($1, $2, $3) ORDER BY tool_fp, day, transition LIMIT $4",
        )
        .bind(after.tool.as_slice()).bind(after.day).bind(after.transition.as_slice()).bind(PIECE)
        .fetch_all(connection).await?
    });
    let (mut with, mut last) = (Vec::new(), None);
    for (tool, day, transition, authenticated, anonymous) in rows {
        let key = Key {
            tool: sixteen("tool's fingerprint", &tool)?,
            day,
            transition: sixteen("transition", &transition)?,
        };
        let mut sketches = [
            Sketch::from_bytes(&authenticated)?,
            Sketch::from_bytes(&anonymous)?,
        ];
        if sketches.iter_mut().any(|sketch| sketch.remove(install)) {
            with.push(key.clone());
        }
        last = Some(key);
    }
    Ok(last.map(|last| (with, last)))
}

/// Takes the right to count, until the transaction ends. Gives the last signal that is counted.
pub(super) async fn hold_mark(session: &mut Session) -> Result<i64, StoreError> {
    Ok(on!(*session, connection => {
        sqlx::query_scalar("UPDATE signal_mark SET counted_to = counted_to WHERE id = 1 RETURNING counted_to")
            .fetch_one(connection).await?
    }))
}

async fn move_mark(session: &mut Session, to: i64) -> Result<(), StoreError> {
    on!(*session, connection => {
        sqlx::query("UPDATE signal_mark SET counted_to = $1 WHERE id = 1").bind(to).execute(connection).await?;
    });
    Ok(())
}

/// After signals were deleted: SQLite gives the number of a last row that went to the next one, which must be counted too.
pub(super) async fn lower_mark(session: &mut Session) -> Result<(), StoreError> {
    if session.is_postgres() {
        return Ok(());
    }
    let mark = hold_mark(session).await?;
    let last: Option<i64> = on!(*session, connection => {
        sqlx::query_scalar("SELECT MAX(seq) FROM signal").fetch_one(connection).await?
    });
    let last = last.unwrap_or(0);
    if last < mark {
        move_mark(session, last).await?;
    }
    Ok(())
}
