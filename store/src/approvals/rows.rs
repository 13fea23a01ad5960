//! The two tables as they lie there: on SQLite beside the others, on Postgres in the schema `mcplock`.
//!
//! Invariant: a row that is no record by its form is given as a flaw that names it, never as a record and never left out.

use mcpindex_contract::approval::{ChainFlaw, ChainHash, Decision, Head, Record};
use mcpindex_contract::digest::{Digest, DigestParseError};

use crate::StoreError;
use crate::session::{Session, on};
use crate::text::{SEPARATOR, restored, stored};

/// Rows of one statement: SQLite takes 32,766 parameters, and a row has 13.
const ROWS: usize = 500;

/// A statement over one of the tables, as this database calls it.
macro_rules! over {
    ($session:expr, $before:literal, $table:literal, $after:literal) => {
        if $session.is_postgres() {
            concat!($before, " mcplock.", $table, " ", $after)
        } else {
            concat!($before, " ", $table, " ", $after)
        }
    };
}

/// [`over`] the records, for reading whole ones: the place, and all else in one text, [`SEPARATOR`] between. A row of many
/// columns costs SQLite's driver several times as much, and a gate asks for all records at once.
macro_rules! records {
    ($session:expr, $after:literal) => {
        over!(
            $session,
            "SELECT sequence, subject || '\u{1f}' || identity || '\u{1f}' || tool || '\u{1f}' || digest || '\u{1f}' || decision
                 || '\u{1f}' || CAST(needed AS TEXT) || '\u{1f}' || COALESCE('=' || reason, '')
                 || '\u{1f}' || COALESCE('=' || reference, '') || '\u{1f}' || COALESCE(CAST(expires_at AS TEXT), '')
                 || '\u{1f}' || CAST(decided_at AS TEXT) || '\u{1f}' || hash_before FROM",
            "approval_record",
            $after
        )
    };
}

type RecordRow = (i64, String);

fn record_from_row((sequence, joined): RecordRow, tenant: &str) -> Result<Record, ChainFlaw> {
    let sequence = sequence.unsigned_abs();
    let unreadable = |what: &str| ChainFlaw::Unreadable {
        sequence,
        what: what.to_owned(),
    };
    let mut parts = joined.split(SEPARATOR);
    let columns: [Option<&str>; 11] = std::array::from_fn(|_| parts.next());
    let [
        Some(subject),
        Some(identity),
        Some(tool),
        Some(digest),
        Some(decision),
        Some(needed),
        Some(reason),
        Some(reference),
        Some(expires_at),
        Some(at),
        Some(before),
    ] = columns
    else {
        return Err(unreadable("a column is missing"));
    };
    if parts.next().is_some() {
        return Err(unreadable("a text holds what no stored text does"));
    }
    let text = |kept: &str| restored(kept.to_owned()).map_err(|error| unreadable(&error.to_string()));
    let words = |kept: &str| kept.strip_prefix('=').map(text).transpose();
    let time = |kept: &str, expected: &str| kept.parse::<i64>().map_err(|_| unreadable(expected));
    let record = Record {
        tenant: tenant.to_owned(),
        sequence,
        subject: text(subject)?,
        identity: text(identity)?,
        tool: text(tool)?,
        digest: digest
            .parse()
            .map_err(|error: DigestParseError| unreadable(&format!("digest: {error}")))?,
        decision: Decision::from_name(decision).ok_or_else(|| unreadable("decision: no such decision"))?,
        needed: needed
            .parse()
            .map_err(|_| unreadable("needed: expected 1 or 2"))?,
        reason: words(reason)?,
        reference: words(reference)?,
        expires_at: match expires_at {
            "" => None,
            kept => Some(time(kept, "expires_at: expected unix seconds")?),
        },
        at: time(at, "at: expected unix seconds")?,
        before: before
            .parse()
            .map_err(|_| unreadable("before: expected `sha256:` and 64 hex digits"))?,
    };
    record.check().map_err(|error| unreadable(&error.to_string()))?;
    Ok(record)
}

fn records_from_rows(rows: Vec<RecordRow>, tenant: &str) -> Vec<Result<Record, ChainFlaw>> {
    rows.into_iter().map(|row| record_from_row(row, tenant)).collect()
}

fn head_from_row(row: Option<(i64, String)>, tenant: &str) -> Head {
    let Some((sequence, hash)) = row else {
        return Head::empty(tenant);
    };
    Head {
        sequence: u64::try_from(sequence).unwrap_or(0),
        // What is no hash is the hash of nothing, and is found to differ.
        hash: hash
            .parse()
            .unwrap_or_else(|_| ChainHash::genesis(&format!("\n{hash}"))),
    }
}

/// The head as it is stated.
pub(super) async fn head(session: &mut Session, tenant: &str) -> Result<Head, StoreError> {
    let statement = over!(
        session,
        "SELECT sequence, hash FROM",
        "approval_head",
        "WHERE tenant = $1"
    );
    let row = on!(*session, connection => {
        sqlx::query_as(statement).bind(stored(tenant)).fetch_optional(connection).await?
    });
    Ok(head_from_row(row, tenant))
}

/// The head, which nobody else moves until this transaction ends; made if there is none.
pub(super) async fn hold_head(session: &mut Session, tenant: &str) -> Result<Head, StoreError> {
    let empty = Head::empty(tenant);
    let statement = over!(
        session,
        "INSERT INTO",
        "approval_head",
        "(tenant, sequence, hash) VALUES ($1, 0, $2) ON CONFLICT (tenant) DO NOTHING"
    );
    on!(*session, connection => {
        sqlx::query(statement).bind(stored(tenant)).bind(empty.hash.to_string()).execute(connection).await?;
    });
    let statement = over!(
        session,
        "UPDATE",
        "approval_head",
        "SET sequence = sequence WHERE tenant = $1 RETURNING sequence, hash"
    );
    let row: (i64, String) = on!(*session, connection => {
        sqlx::query_as(statement).bind(stored(tenant)).fetch_one(connection).await?
    });
    Ok(head_from_row(Some(row), tenant))
}

/// Moves a head that is held.
pub(super) async fn move_head(session: &mut Session, tenant: &str, head: &Head) -> Result<(), StoreError> {
    let statement = over!(
        session,
        "UPDATE",
        "approval_head",
        "SET sequence = $2, hash = $3 WHERE tenant = $1"
    );
    on!(*session, connection => {
        sqlx::query(statement).bind(stored(tenant)).bind(number(head.sequence)).bind(head.hash.to_string())
            .execute(connection).await?;
    });
    Ok(())
}

/// Adds records, which are checked and in their order.
pub(super) async fn insert(session: &mut Session, records: &[Record]) -> Result<(), StoreError> {
    let statement = over!(
        session,
        "INSERT INTO",
        "approval_record",
        "(tenant, sequence, subject, identity, tool, digest, decision, needed, reason, reference, expires_at, decided_at,
          hash_before) "
    );
    for records in records.chunks(ROWS) {
        on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(statement);
            statement.push_values(records, |mut values, record| {
                values
                    .push_bind(stored(&record.tenant))
                    .push_bind(number(record.sequence))
                    .push_bind(stored(&record.subject))
                    .push_bind(stored(&record.identity))
                    .push_bind(stored(&record.tool))
                    .push_bind(record.digest.to_string())
                    .push_bind(record.decision.name())
                    .push_bind(i64::from(record.needed))
                    .push_bind(record.reason.as_deref().map(stored))
                    .push_bind(record.reference.as_deref().map(stored))
                    .push_bind(record.expires_at)
                    .push_bind(record.at)
                    .push_bind(record.before.to_string());
            });
            statement.build().execute(connection).await?;
        });
    }
    Ok(())
}

/// At most `limit` records after this one, in their order.
pub(super) async fn after(
    session: &mut Session,
    tenant: &str,
    sequence: u64,
    limit: i64,
) -> Result<Vec<Result<Record, ChainFlaw>>, StoreError> {
    let statement = records!(
        session,
        "WHERE tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3"
    );
    let rows: Vec<RecordRow> = on!(*session, connection => {
        sqlx::query_as(statement).bind(stored(tenant)).bind(number(sequence)).bind(limit)
            .fetch_all(connection).await?
    });
    Ok(records_from_rows(rows, tenant))
}

/// All records about a server, in their order.
pub(super) async fn of_identity(
    session: &mut Session,
    tenant: &str,
    identity: &str,
) -> Result<Vec<Result<Record, ChainFlaw>>, StoreError> {
    let statement = records!(session, "WHERE tenant = $1 AND identity = $2 ORDER BY sequence");
    let rows: Vec<RecordRow> = on!(*session, connection => {
        sqlx::query_as(statement).bind(stored(tenant)).bind(stored(identity)).fetch_all(connection).await?
    });
    Ok(records_from_rows(rows, tenant))
}

/// All records about these servers, in their order.
pub(super) async fn of_identities(
    session: &mut Session,
    tenant: &str,
    identities: &[&str],
) -> Result<Vec<Result<Record, ChainFlaw>>, StoreError> {
    let statement = records!(session, "WHERE tenant = ");
    let mut found = Vec::new();
    for identities in identities.chunks(ROWS) {
        let rows: Vec<RecordRow> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(statement);
            statement.push_bind(stored(tenant)).push(" AND identity IN (");
            let mut list = statement.separated(", ");
            for identity in identities {
                list.push_bind(stored(identity));
            }
            statement.push(") ORDER BY sequence");
            statement.build_query_as().fetch_all(connection).await?
        });
        found.extend(records_from_rows(rows, tenant));
    }
    Ok(found)
}

/// The newest records before this one, of all servers or of one, the newest first.
pub(super) async fn before(
    session: &mut Session,
    tenant: &str,
    identity: Option<&str>,
    sequence: u64,
    limit: i64,
) -> Result<Vec<Result<Record, ChainFlaw>>, StoreError> {
    let all = records!(
        session,
        "WHERE tenant = $1 AND sequence < $2 ORDER BY sequence DESC LIMIT $3"
    );
    let of_one = records!(
        session,
        "WHERE tenant = $1 AND sequence < $2 AND identity = $4 ORDER BY sequence DESC LIMIT $3"
    );
    let rows: Vec<RecordRow> = on!(*session, connection => {
        let statement = sqlx::query_as(if identity.is_some() { of_one } else { all });
        let statement = statement.bind(stored(tenant)).bind(number(sequence)).bind(limit);
        let statement = match identity {
            Some(identity) => statement.bind(stored(identity)),
            None => statement,
        };
        statement.fetch_all(connection).await?
    });
    Ok(records_from_rows(rows, tenant))
}

/// All records about these tools of a server, those about one of them in their order.
pub(super) async fn of_tools(
    session: &mut Session,
    tenant: &str,
    identity: &str,
    tools: &[&str],
) -> Result<Vec<Result<Record, ChainFlaw>>, StoreError> {
    let statement = records!(session, "WHERE tenant = ");
    let mut found = Vec::new();
    for tools in tools.chunks(ROWS) {
        let rows: Vec<RecordRow> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(statement);
            statement.push_bind(stored(tenant)).push(" AND identity = ").push_bind(stored(identity));
            statement.push(" AND tool IN (");
            let mut list = statement.separated(", ");
            for tool in tools {
                list.push_bind(stored(tool));
            }
            statement.push(") ORDER BY sequence");
            statement.build_query_as().fetch_all(connection).await?
        });
        found.extend(records_from_rows(rows, tenant));
    }
    Ok(found)
}

/// All records about definitions of these digests after this one; those of one digest are in their order.
pub(super) async fn of_digests(
    session: &mut Session,
    tenant: &str,
    digests: &[Digest],
    after: u64,
) -> Result<Vec<Result<Record, ChainFlaw>>, StoreError> {
    let mut digests: Vec<String> = digests.iter().map(Digest::to_string).collect();
    digests.sort_unstable();
    digests.dedup();
    let statement = records!(session, "WHERE tenant = ");
    let mut found = Vec::new();
    for digests in digests.chunks(ROWS) {
        let rows: Vec<RecordRow> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(statement);
            statement.push_bind(stored(tenant)).push(" AND sequence > ").push_bind(number(after));
            statement.push(" AND digest IN (");
            let mut list = statement.separated(", ");
            for digest in digests {
                list.push_bind(digest.as_str());
            }
            statement.push(") ORDER BY sequence");
            statement.build_query_as().fetch_all(connection).await?
        });
        found.extend(records_from_rows(rows, tenant));
    }
    Ok(found)
}

/// A sequence as the databases keep it.
pub(super) fn number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
