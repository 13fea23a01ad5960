//! Signals that installs sent: kept once each, counted, expired, and forgotten on request.
//!
//! A signal's natural key is a hash of all that it tells, so a replay is no second signal. Counts are made from the
//! signals in the order of arrival (`counts`), and outlive them. On Postgres the signals of each day lie in a partition
//! of their own (`days`).
//!
//! Invariant: what [`Store::record_signals`] has acknowledged is durable and counted exactly once; tokens are kept as
//! hashes alone.

/// A struct that is read from the columns of a row in the order of its fields.
macro_rules! row {
    ($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[$attribute])*
        pub(super) struct $name {
            $(pub(super) $field: $type,)+
        }

        impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for $name
        where
            ($($type,)+): sqlx::FromRow<'r, R>,
        {
            fn from_row(row: &'r R) -> Result<$name, sqlx::Error> {
                let ($($field,)+) = sqlx::FromRow::from_row(row)?;
                Ok($name { $($field,)+ })
            }
        }
    };
}

mod counts;
mod days;
pub(crate) mod fingerprints;
mod purge;
mod sketch;
mod tokens;
pub(crate) mod told;

pub use fingerprints::CrawlDrift;
pub use tokens::Registration;
pub use told::{FleetDrift, ToldDefinition, ToldDrifts};

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use mcpindex_contract::signal::Signal;
use sha2::{Digest as _, Sha256};
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqliteConnection;

use crate::session::on;
use crate::{Database, Store, StoreError};

pub(crate) const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// Bytes that are kept of an address.
const IPV4_BYTES: usize = 3;
const IPV6_BYTES: usize = 6;

/// Rows of one statement: SQLite takes 32,766 parameters, and a row has 17.
const ROWS: usize = 500;

/// Where a signal came from, as coarse as it is kept: an IPv4 /24 or an IPv6 /48.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(Vec<u8>);

impl Network {
    /// The network of an address.
    pub fn of(address: IpAddr) -> Network {
        Network(match address.to_canonical() {
            IpAddr::V4(address) => address.octets()[..IPV4_BYTES].to_vec(),
            IpAddr::V6(address) => address.octets()[..IPV6_BYTES].to_vec(),
        })
    }

    /// As people write it: `192.0.2.0/24`, `2001:db8:1::/48`.
    pub fn shown(&self) -> String {
        let octet = |index| self.0.get(index).copied().unwrap_or(0);
        if self.0.len() == IPV4_BYTES {
            return format!("{}.{}.{}.0/24", octet(0), octet(1), octet(2));
        }
        let mut octets = [0; 16];
        for (index, place) in octets.iter_mut().enumerate() {
            *place = octet(index);
        }
        format!("{}/48", Ipv6Addr::from(octets))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Network, StoreError> {
        match bytes.len() {
            IPV4_BYTES | IPV6_BYTES => Ok(Network(bytes)),
            length => Err(StoreError::Corrupt {
                what: format!("a network of {length} bytes"),
            }),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Network(…)")
    }
}

/// A signal as it came in.
#[derive(Debug, Clone)]
pub struct Received {
    /// What was told.
    pub signal: Signal,
    /// From where.
    pub network: Network,
    /// Whether the sender proved to be the signal's install.
    pub authenticated: bool,
}

/// A signal's place in the table, worked out before the transaction begins.
struct Row<'a> {
    day: i64,
    sig_id: [u8; 16],
    seen_at: i64,
    digests: (String, String),
    kinds: String,
    received: &'a Received,
}

impl<'a> Row<'a> {
    fn of(received: &'a Received, now: i64) -> Row<'a> {
        let signal = &received.signal;
        let seen_at = signal.hour.unwrap_or(now - now.rem_euclid(HOUR));
        let digests = signal.digests.map(|digests| digests.texts()).unwrap_or_default();
        Row {
            day: seen_at.div_euclid(DAY),
            sig_id: sig_id(signal, &digests),
            seen_at,
            digests,
            kinds: signal.kinds.join(" "),
            received,
        }
    }
}

/// The natural key. An hour that was left out is no part of it: the day of receipt stands beside it.
fn sig_id(signal: &Signal, digests: &(String, String)) -> [u8; 16] {
    let hour = signal.hour.map(|hour| hour.to_string()).unwrap_or_default();
    let texts = [
        signal.event.name(),
        signal.hash_before.as_deref().unwrap_or_default(),
        &signal.hash_after,
        &digests.0,
        &digests.1,
        &hour,
    ];
    let fixed = [
        signal.install.as_bytes(),
        signal.server.as_bytes(),
        signal.tool.as_bytes(),
    ];
    hash_16(fixed.map(<[u8; 16]>::as_slice), &texts)
}

/// The first half of SHA-256 over values of one length each and texts without U+0000.
fn hash_16<'b>(fixed: impl IntoIterator<Item = &'b [u8]>, texts: &[&str]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for bytes in fixed {
        hash.update(bytes);
    }
    for text in texts {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    let whole: [u8; 32] = hash.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&whole[..16]);
    half
}

impl Store {
    /// Keeps these signals, all or none, and gives how many of them were new. On Postgres their days must be prepared
    /// ([`Store::prepare_signal_days`]); a day that is not is prepared here.
    pub async fn record_signals(&self, signals: &[Received], now: i64) -> Result<u64, StoreError> {
        // In the order of the key, so that two writers of the same signals wait for each other and never in a circle.
        let rows: BTreeMap<(i64, [u8; 16]), Row<'_>> = signals
            .iter()
            .map(|received| Row::of(received, now))
            .map(|row| ((row.day, row.sig_id), row))
            .collect();
        let rows: Vec<Row<'_>> = rows.into_values().collect();
        match self.insert(&rows, now).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(days::NO_PARTITION) => {
                let days: Vec<i64> = rows.iter().map(|row| row.day).collect();
                self.prepare_days(&days).await?;
                Ok(self.insert(&rows, now).await?)
            }
            inserted => Ok(inserted?),
        }
    }

    /// How many signals are kept now.
    pub async fn signals_kept(&self) -> Result<i64, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT COUNT(*) FROM signal").fetch_one(connection).await?
        }))
    }

    async fn insert(&self, rows: &[Row<'_>], now: i64) -> Result<u64, sqlx::Error> {
        match &self.database {
            Database::Postgres(pool) => insert_at_once(pool, rows, now).await,
            Database::Sqlite { writer, .. } => {
                let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await?;
                let mut new = 0;
                let mut rest = rows;
                while !rest.is_empty() {
                    let (rows, later) = rest.split_at(rows_of_statement(rest.len()));
                    new += insert_rows(&mut transaction, rows, now).await?;
                    rest = later;
                }
                transaction.commit().await?;
                Ok(new)
            }
        }
    }
}

/// One statement, prepared once whatever the number of rows, that is a transaction of its own: a group takes one round trip.
async fn insert_at_once(pool: &PgPool, rows: &[Row<'_>], now: i64) -> Result<u64, sqlx::Error> {
    fn column<'a, T>(rows: &'a [Row<'a>], value: impl Fn(&'a Row<'a>) -> T) -> Vec<T> {
        rows.iter().map(value).collect()
    }
    let statement = sqlx::query(
        "INSERT INTO signal (received_at, day, sig_id, seen_at, event, server_fp, tool_fp, prev_hash, new_hash,
             prev_digest, new_digest, kinds, safety_relevant, sdk, install, network, authenticated)
         SELECT $1, * FROM unnest($2::BIGINT[], $3::BYTEA[], $4::BIGINT[], $5::TEXT[], $6::BYTEA[], $7::BYTEA[],
             $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::BOOLEAN[], $14::TEXT[], $15::BYTEA[],
             $16::BYTEA[], $17::BOOLEAN[])
         ON CONFLICT (day, sig_id) DO NOTHING",
    );
    let inserted = statement
        .bind(now)
        .bind(column(rows, |row| row.day))
        .bind(column(rows, |row| row.sig_id.as_slice()))
        .bind(column(rows, |row| row.seen_at))
        .bind(column(rows, |row| row.received.signal.event.name()))
        .bind(column(rows, |row| {
            row.received.signal.server.as_bytes().as_slice()
        }))
        .bind(column(rows, |row| row.received.signal.tool.as_bytes().as_slice()))
        .bind(column(rows, |row| {
            row.received.signal.hash_before.as_deref().unwrap_or_default()
        }))
        .bind(column(rows, |row| row.received.signal.hash_after.as_str()))
        .bind(column(rows, |row| row.digests.0.as_str()))
        .bind(column(rows, |row| row.digests.1.as_str()))
        .bind(column(rows, |row| row.kinds.as_str()))
        .bind(column(rows, |row| row.received.signal.safety_relevant))
        .bind(column(rows, |row| row.received.signal.sdk.name()))
        .bind(column(rows, |row| {
            row.received.signal.install.as_bytes().as_slice()
        }))
        .bind(column(rows, |row| row.received.network.bytes()))
        .bind(column(rows, |row| row.received.authenticated));
    Ok(inserted.execute(pool).await?.rows_affected())
}

/// How many of so many rows go into the next statement: statements of few lengths, since a connection prepares each length anew.
fn rows_of_statement(rows: usize) -> usize {
    if rows < ROWS {
        rows.checked_ilog2().map_or(0, |power| 1 << power)
    } else {
        ROWS
    }
}

async fn insert_rows(
    connection: &mut SqliteConnection,
    rows: &[Row<'_>],
    now: i64,
) -> Result<u64, sqlx::Error> {
    let mut statement = sqlx::QueryBuilder::new(
        "INSERT INTO signal (day, sig_id, received_at, seen_at, event, server_fp, tool_fp, prev_hash, new_hash,
             prev_digest, new_digest, kinds, safety_relevant, sdk, install, network, authenticated) ",
    );
    statement.push_values(rows, |mut values, row| {
        let signal = &row.received.signal;
        values
            .push_bind(row.day)
            .push_bind(row.sig_id.as_slice())
            .push_bind(now)
            .push_bind(row.seen_at)
            .push_bind(signal.event.name())
            .push_bind(signal.server.as_bytes().as_slice())
            .push_bind(signal.tool.as_bytes().as_slice())
            .push_bind(signal.hash_before.as_deref().unwrap_or_default())
            .push_bind(signal.hash_after.as_str())
            .push_bind(row.digests.0.as_str())
            .push_bind(row.digests.1.as_str())
            .push_bind(row.kinds.as_str())
            .push_bind(signal.safety_relevant)
            .push_bind(signal.sdk.name())
            .push_bind(signal.install.as_bytes().as_slice())
            .push_bind(row.received.network.bytes())
            .push_bind(row.received.authenticated);
    });
    statement.push(" ON CONFLICT (day, sig_id) DO NOTHING");
    Ok(statement.build().execute(connection).await?.rows_affected())
}

/// A column of 16 bytes.
fn sixteen(what: &str, bytes: &[u8]) -> Result<[u8; 16], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt {
        what: format!("a {what} of {} bytes", bytes.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_a_slash_24_or_a_slash_48() {
        let check = |one: &str, other: &str, same| {
            let network = |text: &str| Network::of(text.parse().unwrap());
            assert_eq!(network(one) == network(other), same, "{one} {other}");
        };
        check("192.0.2.1", "192.0.2.255", true);
        check("192.0.2.1", "192.0.3.1", false);
        check("192.0.2.1", "::ffff:192.0.2.9", true);
        check("2001:db8:1:2::1", "2001:db8:1:ffff::1", true);
        check("2001:db8:1::1", "2001:db8:2::1", false);
    }

    #[test]
    fn rows_go_into_statements_of_few_lengths() {
        let check = |rows: usize, lengths: &[usize]| {
            let mut rest = rows;
            let parts = std::iter::from_fn(|| {
                let part = rows_of_statement(rest);
                rest -= part;
                (part > 0).then_some(part)
            });
            assert_eq!(parts.collect::<Vec<_>>(), lengths, "{rows}");
        };
        check(0, &[]);
        check(1, &[1]);
        check(64, &[64]);
        check(63, &[32, 16, 8, 4, 2, 1]);
        check(1_000, &[500, 500]);
        check(756, &[500, 256]);
    }

    #[test]
    fn a_network_is_shown_as_people_write_it() {
        let check = |address: &str, shown: &str| {
            let network = Network::of(address.parse().unwrap());
            assert_eq!(network.shown(), shown);
            assert_eq!(Network::from_bytes(network.bytes().to_vec()).unwrap(), network);
            assert_eq!(format!("{network:?}"), "Network(…)");
        };
        check("192.0.2.7", "192.0.2.0/24");
        check("2001:db8:1:2::3", "2001:db8:1::/48");
    }
}
