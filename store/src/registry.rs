//! What a registry of the official API is made of: servers that were determined, their versions, and what they declare now.
//!
//! Invariant: everything is read for many servers at once; nothing is judged here.

use std::collections::BTreeMap;

use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{Listing, MemberKind};

use crate::definitions;
use crate::servers::like_pattern;
use crate::session::{Session, on};
use crate::surfaces::{digest_from_text, listing_from_text};
use crate::text::{SEPARATOR, restored, stored};
use crate::{Store, StoreError};

/// Values of one list in a statement.
const LIST: usize = 500;

/// Which servers to read.
#[derive(Debug, Clone, Default)]
pub struct RegistryFilter {
    /// This one alone.
    pub only: Option<String>,
    /// After this identity; none: from the first.
    pub after: Option<String>,
    /// Whose identity, short id or aliases hold each of these words, in any case; more than [`RegistryFilter::WORDS`] are not looked for.
    pub words: Vec<String>,
    /// That were looked at, or of which a decision was made or ends, at this time or later.
    pub since: Option<i64>,
    /// Of which a tool was ever decided about, by this tenant.
    pub decided_by: Option<String>,
    /// At most so many.
    pub limit: i64,
}

impl RegistryFilter {
    /// Words that are looked for at most.
    pub const WORDS: usize = 3;
}

/// A server that some look has determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryServer {
    /// Its identity.
    pub identity: String,
    /// 16 hex digits.
    pub short_id: String,
    /// Its names in registries that lead to no other server.
    pub aliases: Vec<String>,
    /// Since when it declares what it declares now.
    pub declared_since: i64,
    /// Whether the last look determined it.
    pub last_look_good: bool,
    /// What it declares as a whole, where all of that has a digest.
    pub surface_digest: Option<String>,
    /// How its list of tools was read.
    pub listing: Listing,
    /// Its tools by name, in its order.
    pub tools: Vec<(String, Digest)>,
    /// Its versions, the newest first; none where it has none.
    pub versions: Vec<RegistryVersion>,
}

/// One version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryVersion {
    /// As its registry writes it.
    pub version: String,
    /// When it was published, where that is known.
    pub published_at: Option<i64>,
    /// When it was looked at first.
    pub first_seen_at: i64,
}

type ServerRow = (String, String, Option<String>, i64, bool, String, String, String);

/// The servers of a filter; `$1` is the separator.
macro_rules! servers {
    ($records:literal) => {
        concat!(
            "SELECT s.identity, s.short_id,
                 (SELECT string_agg(a.name, $1 ORDER BY a.name) FROM alias a
                  WHERE a.identity = s.identity AND NOT EXISTS (
                      SELECT 1 FROM alias b WHERE b.name = a.name AND b.identity <> a.identity)),
                 s.declared_since, COALESCE(s.outcome IN ('ok', 'partial'), FALSE), u.digest, u.tool_listing, o.record
             FROM server s
             JOIN observation o ON o.id = s.current_observation
             JOIN surface u ON u.record = o.record
             WHERE s.identity > $2 AND s.declared_since IS NOT NULL AND s.form <> 'command'
               AND ($7 = '' OR s.identity = $7)
               AND ($3 = '' OR lower(s.identity) LIKE $3 ESCAPE '\\' OR s.short_id LIKE $3 ESCAPE '\\' OR EXISTS (
                   SELECT 1 FROM alias n WHERE n.identity = s.identity AND lower(n.name) LIKE $3 ESCAPE '\\'))
               AND ($8 = '' OR lower(s.identity) LIKE $8 ESCAPE '\\' OR s.short_id LIKE $8 ESCAPE '\\' OR EXISTS (
                   SELECT 1 FROM alias n WHERE n.identity = s.identity AND lower(n.name) LIKE $8 ESCAPE '\\'))
               AND ($9 = '' OR lower(s.identity) LIKE $9 ESCAPE '\\' OR s.short_id LIKE $9 ESCAPE '\\' OR EXISTS (
                   SELECT 1 FROM alias n WHERE n.identity = s.identity AND lower(n.name) LIKE $9 ESCAPE '\\'))
               AND ($4 < 0 OR s.looked_at >= $4 OR EXISTS (
                   SELECT 1 FROM ",
            $records,
            " t WHERE t.identity = s.identity AND (t.decided_at >= $4 OR t.expires_at >= $4)))
               AND ($5 = '' OR EXISTS (
                   SELECT 1 FROM ",
            $records,
            " d WHERE d.tenant = $5 AND d.identity = s.identity))
             ORDER BY s.identity LIMIT $6"
        )
    };
}

impl Store {
    /// One server, if some look has determined it and it can be told in a registry's form.
    pub async fn registry_server(&self, identity: &str) -> Result<Option<RegistryServer>, StoreError> {
        let filter = RegistryFilter {
            only: Some(identity.to_owned()),
            limit: 1,
            ..RegistryFilter::default()
        };
        Ok(self.registry_servers(&filter).await?.pop())
    }

    /// Servers by identity, with their versions and what they declare now.
    pub async fn registry_servers(&self, filter: &RegistryFilter) -> Result<Vec<RegistryServer>, StoreError> {
        let mut patterns = filter.words.iter().map(|word| like_pattern(word));
        let patterns: [String; RegistryFilter::WORDS] =
            std::array::from_fn(|_| patterns.next().unwrap_or_default());
        let [first, second, third] = patterns;
        let mut session = self.read().await?;
        let statement = match session.is_postgres() {
            true => servers!("mcplock.approval_record"),
            false => servers!("approval_record"),
        };
        let rows: Vec<ServerRow> = on!(session, connection => {
            sqlx::query_as(statement)
                .bind(SEPARATOR).bind(stored(filter.after.as_deref().unwrap_or_default()))
                .bind(first).bind(filter.since.unwrap_or(-1))
                .bind(stored(filter.decided_by.as_deref().unwrap_or_default())).bind(filter.limit.max(0))
                .bind(stored(filter.only.as_deref().unwrap_or_default())).bind(second).bind(third)
                .fetch_all(connection).await?
        });
        let identities: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
        let records: Vec<&str> = rows.iter().map(|row| row.7.as_str()).collect();
        let mut versions = versions(&mut session, &identities).await?;
        let tools = tools(&mut session, &records).await?;
        rows.iter()
            .map(
                |(identity, short_id, aliases, since, good, digest, listing, record)| {
                    let aliases = aliases.as_deref().unwrap_or_default().split(SEPARATOR);
                    let aliases = aliases.filter(|name| !name.is_empty());
                    Ok(RegistryServer {
                        short_id: short_id.clone(),
                        aliases: aliases
                            .map(|name| restored(name.to_owned()))
                            .collect::<Result<_, _>>()?,
                        declared_since: *since,
                        last_look_good: *good,
                        surface_digest: Some(digest.clone()).filter(|digest| !digest.is_empty()),
                        listing: listing_from_text(listing.clone())?,
                        tools: tools.get(record).cloned().unwrap_or_default(),
                        versions: versions.remove(identity).unwrap_or_default(),
                        identity: restored(identity.clone())?,
                    })
                },
            )
            .collect()
    }

    /// The texts of these definitions, those that are kept.
    pub async fn definition_texts(&self, digests: &[Digest]) -> Result<BTreeMap<Digest, String>, StoreError> {
        let mut session = self.read().await?;
        definitions::texts(&mut session, digests).await
    }
}

async fn versions(
    session: &mut Session,
    identities: &[&str],
) -> Result<BTreeMap<String, Vec<RegistryVersion>>, StoreError> {
    let mut found: BTreeMap<String, Vec<RegistryVersion>> = BTreeMap::new();
    for identities in identities.chunks(LIST) {
        let rows: Vec<(String, String, Option<i64>, i64)> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(
                "SELECT identity, version, MIN(published_at), MIN(observed_at) FROM observation
                 WHERE record IS NOT NULL AND version IS NOT NULL AND identity IN (",
            );
            let mut list = statement.separated(", ");
            for identity in identities {
                list.push_bind(*identity);
            }
            statement.push(") GROUP BY identity, version, version_key ORDER BY identity, version_key DESC, version DESC");
            statement.build_query_as().fetch_all(connection).await?
        });
        for (identity, version, published_at, first_seen_at) in rows {
            found.entry(identity).or_default().push(RegistryVersion {
                version: restored(version)?,
                published_at,
                first_seen_at,
            });
        }
    }
    Ok(found)
}

async fn tools(
    session: &mut Session,
    records: &[&str],
) -> Result<BTreeMap<String, Vec<(String, Digest)>>, StoreError> {
    let mut found: BTreeMap<String, Vec<(String, Digest)>> = BTreeMap::new();
    for records in records.chunks(LIST) {
        let rows: Vec<(String, String, String)> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(
                "SELECT record, name, digest FROM surface_member WHERE kind = ",
            );
            statement.push_bind(MemberKind::Tool.name()).push(" AND record IN (");
            let mut list = statement.separated(", ");
            for record in records {
                list.push_bind(*record);
            }
            statement.push(") ORDER BY record, position");
            statement.build_query_as().fetch_all(connection).await?
        });
        for (record, name, digest) in rows {
            let tool = (restored(name)?, digest_from_text(&digest)?);
            found.entry(record).or_default().push(tool);
        }
    }
    Ok(found)
}
