//! Servers by identity, their aliases, and how they stand now.
//!
//! Invariant: a server's state is that of the look which is last in its timeline; a server that was never looked at has
//! none, and a look that determined nothing is never shown as one that found no tools.

use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;

use crate::finding;
use crate::session::{Session, on};
use crate::surfaces::corrupt;
use crate::text::{MAX_IDENTITY, SEPARATOR, indexed, restored, restored_option, stored};
use crate::{Store, StoreError};

/// A longer search text matches nothing (SQLite refuses long patterns).
const MAX_SEARCH: usize = 2_000;
/// Bytes of an alias; it shares an index row with an identity.
const MAX_ALIAS: usize = 1_000;

/// One server as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRecord {
    /// The identity's written form.
    pub identity: String,
    /// 16 hex digits, for permalinks.
    pub short_id: String,
    /// `remote`, `npm`, `pypi`, `oci` or `command`.
    pub form: String,
    /// Registry names that lead here.
    pub aliases: Vec<String>,
    /// When it was first added.
    pub added_at: i64,
    /// The outcome of the look that is last in the timeline, `None` before the first one.
    pub outcome: Option<Outcome>,
    /// One line about that outcome.
    pub detail: Option<String>,
    /// When that look was.
    pub looked_at: Option<i64>,
    /// The observation that says what the server declares now: the newest determined one in timeline order.
    pub current_observation: Option<i64>,
    /// When that one was made: how old what is known is. Later looks may have failed.
    pub determined_at: Option<i64>,
    /// Its version.
    pub current_version: Option<String>,
    /// How many tools that one declares, `None` when none is known.
    pub tools: Option<i64>,
    /// How many drifts there are in lists.
    pub drifts: i64,
}

/// Which servers to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFilter {
    /// Part of the identity or an alias, case-insensitive.
    pub search: Option<String>,
    /// Only servers that stand so.
    pub standing: StandingFilter,
    /// Only identities after this one (keyset paging, ordered by identity).
    pub after: Option<String>,
    /// At most this many.
    pub limit: i64,
}

/// How a server stands, as a choice among lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StandingFilter {
    /// All servers.
    #[default]
    Any,
    /// Servers that were not looked at yet.
    Pending,
    /// Servers whose last look ended so.
    Outcome(Outcome),
}

macro_rules! server {
    ($($rest:expr),+) => {
        concat!(
            "SELECT s.identity, s.short_id, s.form,
                 (SELECT string_agg(a.name, $1 ORDER BY a.name) FROM alias a WHERE a.identity = s.identity),
                 s.added_at, s.outcome, s.detail, s.looked_at, s.current_observation, o.version, u.tools,
                 o.observed_at, (SELECT COUNT(*) FROM drift d WHERE d.identity = s.identity AND d.replaced_at IS NULL)
             FROM server s
             LEFT JOIN observation o ON o.id = s.current_observation
             LEFT JOIN surface u ON u.record = o.record
             WHERE ",
            $($rest),+
        )
    };
}

/// One page of servers: after `$2`, matching `$3`, at most `$4`, and so standing.
macro_rules! servers {
    ($standing:literal) => {
        server!(
            $standing,
            r" AND s.identity > $2
                 AND (lower(s.identity) LIKE $3 ESCAPE '\' OR s.identity IN (
                     SELECT n.identity FROM alias n WHERE lower(n.name) LIKE $3 ESCAPE '\'))
             ORDER BY s.identity LIMIT $4"
        )
    };
}

type ServerRow = (
    String,
    String,
    String,
    Option<String>,
    i64,
    Option<String>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    i64,
);

fn server_from_row(row: ServerRow) -> Result<ServerRecord, StoreError> {
    let aliases = row
        .3
        .as_deref()
        .map(|names| names.split(SEPARATOR))
        .into_iter()
        .flatten();
    Ok(ServerRecord {
        identity: restored(row.0)?,
        short_id: row.1,
        form: row.2,
        aliases: aliases
            .map(|name| restored(name.to_owned()))
            .collect::<Result<_, _>>()?,
        added_at: row.4,
        outcome: row.5.as_deref().map(outcome_from_text).transpose()?,
        detail: restored_option(row.6)?,
        looked_at: row.7,
        current_observation: row.8,
        current_version: restored_option(row.9)?,
        tools: row.10,
        determined_at: row.11,
        drifts: row.12,
    })
}

impl Store {
    /// Adds a server, or does nothing when it is known. True when it was new.
    pub async fn add_server(&self, identity: &Identity, now: i64) -> Result<bool, StoreError> {
        let mut session = self.write().await?;
        let added = insert(&mut session, identity, now).await?;
        session.commit().await?;
        Ok(added)
    }

    /// Lets a registry's name lead to a server that is known; the same again updates its source.
    pub async fn add_alias(
        &self,
        name: &str,
        identity: &Identity,
        source: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let identity = identity.to_string();
        let mut session = self.write().await?;
        let known: i64 = on!(session, connection => {
            sqlx::query_scalar("SELECT COUNT(*) FROM server WHERE identity = $1")
                .bind(stored(&identity)).fetch_one(connection).await?
        });
        if known == 0 {
            return Err(unknown_server(&identity));
        }
        let name = indexed("alias", name, MAX_ALIAS)?;
        let is_known: i64 = on!(session, connection => {
            sqlx::query_scalar("SELECT COUNT(*) FROM alias WHERE name = $1 AND identity = $2")
                .bind(&*name).bind(stored(&identity)).fetch_one(connection).await?
        });
        on!(session, connection => {
            sqlx::query(
                "INSERT INTO alias (name, identity, source, added_at) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (name, identity) DO UPDATE SET source = excluded.source",
            )
            .bind(&*name).bind(stored(&identity)).bind(stored(source)).bind(now)
            .execute(connection).await?;
        });
        if is_known == 0 {
            finding::keep_all(&mut session, &stored(&identity)).await?;
        }
        session.commit().await
    }

    /// The server that an identity's written form, a short id or an alias names, in this order. An alias of several
    /// servers gives the first by identity.
    pub async fn find_server(&self, reference: &str) -> Result<Option<ServerRecord>, StoreError> {
        let mut session = self.read().await?;
        find(&mut session, reference).await
    }

    /// Servers by identity.
    pub async fn servers(&self, filter: &ServerFilter) -> Result<Vec<ServerRecord>, StoreError> {
        let search = filter.search.as_deref().unwrap_or_default();
        if search.len() > MAX_SEARCH {
            return Ok(Vec::new());
        }
        let pattern = like_pattern(search);
        let after = stored(filter.after.as_deref().unwrap_or_default());
        let limit = filter.limit.max(0);
        let mut session = self.read().await?;
        let statement = match filter.standing {
            StandingFilter::Any => servers!("TRUE"),
            StandingFilter::Pending => servers!("s.outcome IS NULL"),
            StandingFilter::Outcome(_) => servers!("s.outcome = $5"),
        };
        let rows: Vec<ServerRow> = on!(session, connection => {
            let query = sqlx::query_as(statement).bind(SEPARATOR).bind(&*after).bind(&pattern).bind(limit);
            let query = match filter.standing {
                StandingFilter::Outcome(outcome) => query.bind(outcome.name()),
                StandingFilter::Any | StandingFilter::Pending => query,
            };
            query.fetch_all(connection).await?
        });
        rows.into_iter().map(server_from_row).collect()
    }

    /// How many servers stand at each outcome, most first; `None` counts those not looked at yet.
    pub async fn count_by_outcome(&self) -> Result<Vec<(Option<Outcome>, i64)>, StoreError> {
        let mut session = self.read().await?;
        let rows: Vec<(Option<String>, i64)> = on!(session, connection => {
            sqlx::query_as("SELECT outcome, COUNT(*) FROM server GROUP BY outcome").fetch_all(connection).await?
        });
        let mut counts = rows
            .into_iter()
            .map(|(outcome, number)| Ok((outcome.as_deref().map(outcome_from_text).transpose()?, number)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        counts.sort_by_key(|(outcome, number)| (-number, *outcome));
        Ok(counts)
    }
}

/// See [`Store::find_server`].
async fn find(session: &mut Session, reference: &str) -> Result<Option<ServerRecord>, StoreError> {
    match candidates(session, reference, 1).await?.first() {
        Some(identity) => by_identity(session, identity).await,
        None => Ok(None),
    }
}

/// The identities (in their stored form) that a name may stand for: the identity that is written so, else the one with this short
/// id, else all that an alias leads to; by identity, at most so many.
pub(crate) async fn candidates(
    session: &mut Session,
    reference: &str,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    for statement in [
        "SELECT identity FROM server WHERE identity = $1 LIMIT $2",
        "SELECT identity FROM server WHERE short_id = $1 ORDER BY identity LIMIT $2",
        "SELECT identity FROM alias WHERE name = $1 ORDER BY identity LIMIT $2",
    ] {
        let identities: Vec<String> = on!(*session, connection => {
            sqlx::query_scalar(statement).bind(stored(reference)).bind(limit).fetch_all(connection).await?
        });
        if !identities.is_empty() {
            return Ok(identities);
        }
    }
    Ok(Vec::new())
}

/// The server of this identity (in its stored form).
pub(crate) async fn by_identity(
    session: &mut Session,
    identity: &str,
) -> Result<Option<ServerRecord>, StoreError> {
    let row: Option<ServerRow> = on!(*session, connection => {
        sqlx::query_as(server!("s.identity = $2")).bind(SEPARATOR).bind(identity).fetch_optional(connection).await?
    });
    row.map(server_from_row).transpose()
}

/// Adds a server within a transaction. True when it was new.
pub(crate) async fn insert(session: &mut Session, identity: &Identity, now: i64) -> Result<bool, StoreError> {
    let written = identity.to_string();
    let kept = indexed("identity", &written, MAX_IDENTITY)?;
    let added = on!(*session, connection => {
        sqlx::query(
            "INSERT INTO server (identity, short_id, form, added_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (identity) DO NOTHING",
        )
        .bind(&*kept).bind(identity.short_id()).bind(identity.form()).bind(now)
        .execute(connection).await?.rows_affected()
    });
    if added == 1 {
        finding::keep_all(session, &kept).await?;
    }
    Ok(added == 1)
}

/// A call about a server that was never added.
pub(crate) fn unknown_server(identity: &str) -> StoreError {
    StoreError::Refused {
        what: format!("no server `{}` is known, add it first", identity.escape_debug()),
    }
}

/// An outcome from its column.
pub(crate) fn outcome_from_text(name: &str) -> Result<Outcome, StoreError> {
    Outcome::from_name(name).ok_or_else(|| corrupt("an outcome", name))
}

/// Text that stands anywhere, with what LIKE reads otherwise escaped. In lower case as the databases make it of the
/// columns, ASCII only: of a parameter Postgres would make it by the database's locale.
pub(crate) fn like_pattern(search: &str) -> String {
    let mut pattern = String::from("%");
    for character in stored(&search.to_ascii_lowercase()).chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
