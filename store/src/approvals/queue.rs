//! What waits for a decision: tools that a server declares now, of which nobody has decided about exactly this definition.
//!
//! It goes by servers, those first whose declaration is newest. A page looks at so many servers and reads so many tools and no more,
//! however many there are, and says where the next one begins; a server with more tools is read in pieces of its own.
//!
//! Invariant: nothing that waits is passed over: what a statement leaves out is approved or refused as [`Standings`] has it, and where a
//! page ended before its limit it says so.

use std::collections::{BTreeMap, BTreeSet};

use mcpindex_contract::approval::{Record, Standing, Standings, State};
use mcpindex_contract::digest::Digest;
use mcpindex_contract::signal::Fingerprint;

use super::{ChainState, fold, rows, verified};
use crate::definitions;
use crate::servers::{self, ServerRecord};
use crate::session::{Session, on};
use crate::signals::{ToldDefinition, fingerprints, told};
use crate::surfaces::{corrupt, digest_from_text};
use crate::text::{restored, stored};
use crate::{Store, StoreError};

/// Servers that are looked at for one page: where nearly all is decided, a page is short rather than slow.
pub const MAX_LOOKED_AT: i64 = 4_000;
/// Tools that those servers declare, after which the page ends too.
const MAX_LOOKED_AT_TOOLS: i64 = 100_000;
/// Servers of one statement.
const STEP: i64 = 100;
/// The most releases of one page.
pub const MAX_RELEASES: usize = 50;
/// The most tools of one release that are read at once.
pub const MAX_TOOLS: usize = 200;
/// Letters of definitions that are read for one page; one definition is read whole.
const MAX_TEXT: i64 = 2 * 1024 * 1024;
/// Up to so many waiting tools of a server are counted.
pub const MAX_COUNTED: i64 = 1_000;
/// Values of one list in a statement.
const LIST: usize = 500;

/// Of which servers tools wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// Servers of which a tool was ever decided about.
    #[default]
    Decided,
    /// Every server.
    All,
}

/// Where a page ended: at a server of this time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Since when the server declares what it declares.
    pub since: i64,
    /// Its identity.
    pub identity: String,
}

/// Where a piece of one server's tools ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPlace {
    /// What the server declared then; where it declares something else by now, its tools are read from the first one.
    pub record: String,
    /// The last one that was read.
    pub position: i64,
}

/// One page of what waits.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The chain that says what is decided; with a flaw, nothing from the flaw on has approved anything.
    pub chain: ChainState,
    /// Servers with something that waits, the newest declaration first.
    pub releases: Vec<Release>,
    /// Where the next page begins; `None`: there is no more.
    pub next: Option<Place>,
    /// How many servers were looked at.
    pub looked_at: i64,
}

/// What waits of one server, in what it declares now.
#[derive(Debug, Clone)]
pub struct Release {
    /// The server, with the version.
    pub server: ServerRecord,
    /// Since when it declares this.
    pub since: i64,
    /// How many of its tools wait; more than [`MAX_COUNTED`] are not counted.
    pub waiting: i64,
    /// Whether anything of it is approved here.
    pub is_trusted: bool,
    /// Those that were read, in the server's order.
    pub tools: Vec<Waiting>,
    /// Where the next piece begins; `None`: these are the last.
    pub next: Option<ToolPlace>,
}

/// A tool that waits.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// Its name.
    pub tool: String,
    /// What it is now.
    pub digest: Digest,
    /// The text that the digest covers.
    pub definition: String,
    /// What was decided about exactly this and does not settle it: one of two approved, it is over, it was taken back.
    pub standing: Option<Standing>,
    /// What to compare it with.
    pub baseline: Option<Baseline>,
    /// How many other definitions of the tool are refused.
    pub refused: usize,
    /// When it was seen at this server, first and last.
    pub first_seen_at: i64,
    /// See `first_seen_at`.
    pub last_seen_at: i64,
    /// How many other servers declared exactly this, ever.
    pub elsewhere: i64,
    /// What installs told of the tool.
    pub told: Vec<ToldDefinition>,
}

/// What a tool was before.
#[derive(Debug, Clone)]
pub struct Baseline {
    /// Its digest.
    pub digest: Digest,
    /// The text that the digest covers.
    pub definition: String,
    /// Why it is compared with this.
    pub origin: Origin,
}

/// Where a baseline comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// It is the one approved last.
    Approved(Box<Record>),
    /// None is approved; the crawl saw this one before, last at that time.
    Seen(i64),
}

/// Whether `m`, a tool that `s` declares, is approved or refused: parameters are the tenant, the last record that counts, and now.
///
/// What [`Standings`] says, but that a record past a flaw takes a refusal away too: what is left out here must be settled, and what is
/// not is judged there.
macro_rules! settled {
    ($records:literal) => {
        concat!(
            "EXISTS (
                 SELECT 1 FROM ",
            $records,
            " r
                 WHERE r.tenant = $1 AND r.digest = m.digest AND r.identity = s.identity AND r.tool = m.name
                   AND r.sequence <= $2 AND r.decision <> 'withdraw' AND (r.expires_at IS NULL OR r.expires_at > $3)
                   AND NOT EXISTS (
                       SELECT 1 FROM ",
            $records,
            " l
                       WHERE l.tenant = r.tenant AND l.digest = r.digest AND l.identity = r.identity AND l.tool = r.tool
                         AND l.sequence > r.sequence AND (l.sequence <= $2 OR l.decision <> 'approve'))
                   AND (r.decision = 'refuse' OR r.needed < 2 OR EXISTS (
                       SELECT 1 FROM ",
            $records,
            " o
                       WHERE o.tenant = r.tenant AND o.digest = r.digest AND o.identity = r.identity AND o.tool = r.tool
                         AND o.decision = 'approve' AND o.subject <> r.subject AND o.sequence < r.sequence
                         AND (o.expires_at IS NULL OR o.expires_at > $3)
                         AND NOT EXISTS (
                             SELECT 1 FROM ",
            $records,
            " b
                             WHERE b.tenant = r.tenant AND b.digest = r.digest AND b.identity = r.identity AND b.tool = r.tool
                               AND b.sequence > o.sequence AND b.sequence < r.sequence
                               AND (b.decision <> 'approve' OR b.subject = o.subject)))))"
        )
    };
}

pub(super) use settled;

/// The servers after a place, each with whether something of it waits.
macro_rules! servers {
    ($records:literal, $which:literal) => {
        concat!(
            "SELECT s.identity, s.declared_since, s.tools, EXISTS (
                 SELECT 1 FROM surface_member m WHERE m.record = s.record AND m.kind = 'tool' AND NOT ",
            settled!($records),
            ")
             FROM (
                 SELECT s.identity, s.declared_since, o.record, COALESCE(u.tools, 0) AS tools
                 FROM server s
                 JOIN observation o ON o.id = s.current_observation
                 JOIN surface u ON u.record = o.record
                 WHERE s.declared_since IS NOT NULL AND (s.declared_since, s.identity) < ($4, $5) AND ",
            $which,
            " ORDER BY s.declared_since DESC, s.identity DESC LIMIT $6) s
             ORDER BY s.declared_since DESC, s.identity DESC"
        )
    };
}

/// What waits of the server `$4`, which declares `$5`, after the place `$6`.
macro_rules! tools {
    ($records:literal, $what:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM server s
             JOIN surface_member m ON m.record = $5 AND m.kind = 'tool' AND m.position > $6
             JOIN definition f ON f.digest = m.digest
             WHERE s.identity = $4 AND NOT ",
            settled!($records),
            $rest
        )
    };
}

/// The chain as one reading sees it.
#[derive(Clone, Copy)]
struct At<'a> {
    tenant: &'a str,
    good: i64,
    now: i64,
}

impl Store {
    /// What waits after a place (`None`: from the newest on): at most so many releases, and so many tools of each, which
    /// [`MAX_RELEASES`] and [`MAX_TOOLS`] bound. A page may be short, or empty, and yet have a next one.
    pub async fn queue(
        &self,
        tenant: &str,
        scope: Scope,
        after: Option<&Place>,
        (releases, tools): (usize, usize),
        now: i64,
    ) -> Result<Queue, StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let chain = verified::chain(self, &mut session, tenant, known, now).await?;
        let mut queue = Queue {
            chain,
            releases: Vec::new(),
            next: after.cloned(),
            looked_at: 0,
        };
        let limit = releases.clamp(1, MAX_RELEASES);
        let (mut declared, mut text) = (0, MAX_TEXT);
        loop {
            let at = At::of(tenant, &queue.chain, now);
            let found = next_servers(&mut session, at, scope, queue.next.as_ref()).await?;
            let is_last = found.len() < usize::try_from(STEP).unwrap_or(usize::MAX);
            for (identity, since, tools_declared, waits) in found {
                if waits {
                    if queue.releases.len() == limit || text <= 0 {
                        return Ok(queue);
                    }
                    let release = release(
                        &mut session,
                        at,
                        &mut queue.chain,
                        &identity,
                        None,
                        tools,
                        &mut text,
                    );
                    queue.releases.extend(release.await?);
                }
                queue.looked_at += 1;
                declared += tools_declared;
                queue.next = Some(Place {
                    since,
                    identity: restored(identity)?,
                });
            }
            if is_last {
                queue.next = None;
                return Ok(queue);
            }
            if queue.looked_at >= MAX_LOOKED_AT || declared >= MAX_LOOKED_AT_TOOLS {
                return Ok(queue);
            }
        }
    }

    /// What waits of one server, whether it is in the queue or not, after a place among its tools; and how the chain stands. No release:
    /// nothing of it waits.
    pub async fn waiting_of(
        &self,
        tenant: &str,
        identity: &str,
        after: Option<&ToolPlace>,
        tools: usize,
        now: i64,
    ) -> Result<(ChainState, Option<Release>), StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let mut chain = verified::chain(self, &mut session, tenant, known, now).await?;
        let at = At::of(tenant, &chain, now);
        let mut text = MAX_TEXT;
        let identity = stored(identity);
        let release = release(&mut session, at, &mut chain, &identity, after, tools, &mut text).await?;
        Ok((chain, release))
    }
}

impl<'a> At<'a> {
    fn of(tenant: &'a str, chain: &ChainState, now: i64) -> At<'a> {
        At {
            tenant,
            good: rows::number(chain.good),
            now,
        }
    }
}

type ServerRow = (String, i64, i64, bool);

/// The next servers, newest declaration first, with how many tools they declare and whether something waits.
async fn next_servers(
    session: &mut Session,
    at: At<'_>,
    scope: Scope,
    after: Option<&Place>,
) -> Result<Vec<ServerRow>, StoreError> {
    let statement = match (session.is_postgres(), scope) {
        (false, Scope::All) => servers!("approval_record", "TRUE"),
        (true, Scope::All) => servers!("mcplock.approval_record", "TRUE"),
        (false, Scope::Decided) => servers!(
            "approval_record",
            "EXISTS (SELECT 1 FROM approval_record d WHERE d.tenant = $1 AND d.identity = s.identity)"
        ),
        (true, Scope::Decided) => servers!(
            "mcplock.approval_record",
            "EXISTS (SELECT 1 FROM mcplock.approval_record d WHERE d.tenant = $1 AND d.identity = s.identity)"
        ),
    };
    let (since, identity) = after.map_or((i64::MAX, ""), |place| (place.since, place.identity.as_str()));
    Ok(on!(*session, connection => {
        sqlx::query_as(statement)
            .bind(stored(at.tenant)).bind(at.good).bind(at.now).bind(since).bind(stored(identity)).bind(STEP)
            .fetch_all(connection).await?
    }))
}

/// What waits of one server (its identity in stored form).
async fn release(
    session: &mut Session,
    at: At<'_>,
    chain: &mut ChainState,
    identity: &str,
    after: Option<&ToolPlace>,
    tools: usize,
    text: &mut i64,
) -> Result<Option<Release>, StoreError> {
    let Some(server) = servers::by_identity(session, identity).await? else {
        return Ok(None);
    };
    let row: Option<(String, i64)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT o.record, s.declared_since FROM server s JOIN observation o ON o.id = s.current_observation
             WHERE s.identity = $1 AND s.declared_since IS NOT NULL",
        )
        .bind(identity).fetch_optional(connection).await?
    });
    let Some((record, since)) = row else {
        return Ok(None);
    };
    let after = after.filter(|place| place.record == record);
    let after = after.map_or(-1, |place| place.position);
    let waiting = count(session, at, identity, &record).await?;
    let limit = tools.clamp(1, MAX_TOOLS);
    let mut read = Vec::new();
    let mut next = None;
    for row in waiting_rows(session, at, identity, &record, after, limit + 1).await? {
        if read.len() == limit || (*text <= 0 && !read.is_empty()) {
            next = read.last().map(|row: &ToolRow| ToolPlace {
                record: record.clone(),
                position: row.position,
            });
            break;
        }
        *text -= row.length;
        read.push(row);
    }
    let stood = Stood::of(session, at, chain, identity, &read).await?;
    let tools = waiting_tools(session, at, identity, read, &stood).await?;
    // What the statement could not tell to be settled is settled as the records have it.
    let left_out = waiting.min(MAX_COUNTED) == 0 || (tools.is_empty() && next.is_none() && after < 0);
    Ok((!left_out).then_some(Release {
        server,
        since,
        waiting,
        is_trusted: stood.is_trusted,
        tools,
        next,
    }))
}

/// How many tools of the server wait, up to one more than are counted.
async fn count(session: &mut Session, at: At<'_>, identity: &str, record: &str) -> Result<i64, StoreError> {
    macro_rules! count {
        ($records:literal) => {
            concat!(
                "SELECT COUNT(*) FROM (",
                tools!($records, "m.position", " LIMIT $7"),
                ") waiting"
            )
        };
    }
    let statement = match session.is_postgres() {
        false => count!("approval_record"),
        true => count!("mcplock.approval_record"),
    };
    Ok(on!(*session, connection => {
        sqlx::query_scalar(statement)
            .bind(stored(at.tenant)).bind(at.good).bind(at.now).bind(identity).bind(record).bind(-1_i64)
            .bind(MAX_COUNTED + 1).fetch_one(connection).await?
    }))
}

/// A waiting tool as it is found.
struct ToolRow {
    position: i64,
    tool: String,
    digest: Digest,
    /// Letters of its definition.
    length: i64,
}

async fn waiting_rows(
    session: &mut Session,
    at: At<'_>,
    identity: &str,
    record: &str,
    after: i64,
    limit: usize,
) -> Result<Vec<ToolRow>, StoreError> {
    macro_rules! waiting {
        ($records:literal) => {
            tools!(
                $records,
                "m.position, m.name, m.digest, CAST(length(f.text) AS BIGINT)",
                " ORDER BY m.position LIMIT $7"
            )
        };
    }
    let statement = match session.is_postgres() {
        false => waiting!("approval_record"),
        true => waiting!("mcplock.approval_record"),
    };
    let rows: Vec<(i64, String, String, i64)> = on!(*session, connection => {
        sqlx::query_as(statement)
            .bind(stored(at.tenant)).bind(at.good).bind(at.now).bind(identity).bind(record).bind(after)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX)).fetch_all(connection).await?
    });
    rows.into_iter()
        .map(|(position, tool, digest, length)| {
            Ok(ToolRow {
                position,
                tool: restored(tool)?,
                digest: digest_from_text(&digest)?,
                length,
            })
        })
        .collect()
}

/// What was decided about some tools of a server.
struct Stood {
    standings: Vec<Standing>,
    by_records: Standings,
    is_trusted: bool,
}

impl Stood {
    async fn of(
        session: &mut Session,
        at: At<'_>,
        chain: &mut ChainState,
        identity: &str,
        tools: &[ToolRow],
    ) -> Result<Stood, StoreError> {
        let written = restored(identity.to_owned())?;
        let names: BTreeSet<&str> = tools.iter().map(|tool| tool.tool.as_str()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let found = rows::of_tools(session, at.tenant, &written, &names).await?;
        let by_records = fold(found, chain);
        let standings = by_records.of_identity(&written, at.now);
        let is_trusted = match standings.iter().any(|standing| standing.state == State::Approved) {
            true => true,
            false => has_approval(session, at, identity).await?,
        };
        Ok(Stood {
            standings,
            by_records,
            is_trusted,
        })
    }

    /// Those of one tool.
    fn of_tool(&self, tool: &str) -> impl Iterator<Item = &Standing> {
        self.standings
            .iter()
            .filter(move |standing| standing.record.tool == tool)
    }
}

/// Whether anything of the server was approved and is not over.
async fn has_approval(session: &mut Session, at: At<'_>, identity: &str) -> Result<bool, StoreError> {
    macro_rules! approved {
        ($records:literal) => {
            concat!(
                "SELECT EXISTS (SELECT 1 FROM ",
                $records,
                " WHERE tenant = $1 AND identity = $4 AND sequence <= $2 AND decision = 'approve'
                     AND (expires_at IS NULL OR expires_at > $3))"
            )
        };
    }
    let statement = match session.is_postgres() {
        false => approved!("approval_record"),
        true => approved!("mcplock.approval_record"),
    };
    Ok(on!(*session, connection => {
        sqlx::query_scalar(statement)
            .bind(stored(at.tenant)).bind(at.good).bind(at.now).bind(identity).fetch_one(connection).await?
    }))
}

/// When a definition was seen at its server, and where that is in the timeline.
struct Seen {
    digest: Digest,
    first_at: i64,
    last_at: i64,
    /// The newest version that had it, and the newest look.
    place: (String, i64),
}

async fn waiting_tools(
    session: &mut Session,
    at: At<'_>,
    identity: &str,
    read: Vec<ToolRow>,
    stood: &Stood,
) -> Result<Vec<Waiting>, StoreError> {
    let written = restored(identity.to_owned())?;
    let names: BTreeSet<&str> = read.iter().map(|row| row.tool.as_str()).collect();
    let seen = seen(session, identity, &names).await?;
    let mut waiting = Vec::with_capacity(read.len());
    let mut known: BTreeSet<(&str, Digest)> = BTreeSet::new();
    for row in &read {
        let standing = stood.by_records.of(&written, &row.tool, &row.digest, at.now);
        let is_settled = (standing.as_ref())
            .is_some_and(|standing| matches!(standing.state, State::Approved | State::Refused));
        // The same definition twice is one decision.
        if is_settled || !known.insert((&row.tool, row.digest)) {
            continue;
        }
        waiting.push((row, standing, baseline(row, stood, &seen)));
    }
    let digests: BTreeSet<Digest> = waiting
        .iter()
        .flat_map(|(row, _, baseline)| {
            std::iter::once(row.digest).chain(baseline.as_ref().map(|found| found.0))
        })
        .collect();
    let digests: Vec<Digest> = digests.into_iter().collect();
    let texts = definitions::texts(session, &digests).await?;
    let text = |digest: &Digest| {
        let text = texts.get(digest).cloned();
        text.ok_or_else(|| corrupt("a missing definition", &digest.to_string()))
    };
    let current: BTreeSet<Digest> = waiting.iter().map(|(row, ..)| row.digest).collect();
    let elsewhere = elsewhere(session, identity, &current).await?;
    let mut told = told_of(session, identity, waiting.iter().map(|(row, ..)| *row)).await?;
    waiting
        .into_iter()
        .map(|(row, standing, baseline)| {
            let seen = seen.get(&row.tool).into_iter().flatten();
            let seen = seen.into_iter().find(|seen| seen.digest == row.digest);
            let refused = |standing: &&Standing| standing.state == State::Refused;
            let baseline = match baseline {
                None => None,
                // A definition that was decided about and is not kept here any more can't be compared with.
                Some((digest, origin)) => texts.get(&digest).cloned().map(|definition| Baseline {
                    digest,
                    definition,
                    origin,
                }),
            };
            Ok(Waiting {
                definition: text(&row.digest)?,
                standing,
                baseline,
                refused: stood.of_tool(&row.tool).filter(refused).count(),
                first_seen_at: seen.map_or(at.now, |seen| seen.first_at),
                last_seen_at: seen.map_or(at.now, |seen| seen.last_at),
                elsewhere: elsewhere.get(&row.digest).copied().unwrap_or(0),
                told: told.remove(&row.digest).unwrap_or_default(),
                tool: row.tool.clone(),
                digest: row.digest,
            })
        })
        .collect()
}

/// What to compare a tool with: what was approved last, else what the crawl saw before it.
fn baseline(row: &ToolRow, stood: &Stood, seen: &BTreeMap<String, Vec<Seen>>) -> Option<(Digest, Origin)> {
    let approved = stood
        .of_tool(&row.tool)
        .filter(|standing| standing.state == State::Approved && standing.record.digest != row.digest)
        .max_by_key(|standing| standing.record.sequence);
    if let Some(standing) = approved {
        let record = Box::new(standing.record.clone());
        return Some((record.digest, Origin::Approved(record)));
    }
    let others = seen.get(&row.tool).into_iter().flatten();
    let before = others
        .filter(|seen| seen.digest != row.digest)
        .max_by(|one, other| one.place.cmp(&other.place))?;
    Some((before.digest, Origin::Seen(before.last_at)))
}

/// Every definition that the server ever declared under these names.
async fn seen(
    session: &mut Session,
    identity: &str,
    names: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Vec<Seen>>, StoreError> {
    let names: Vec<&str> = names.iter().copied().collect();
    let mut found: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for names in names.chunks(LIST) {
        let rows: Vec<(String, String, i64, i64, String, i64)> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(
                "SELECT m.name, m.digest, MIN(r.first_at), MAX(r.last_at), MAX(r.version_key), MAX(r.observation)
                 FROM surface_seen r JOIN surface_member m ON m.record = r.record AND m.kind = 'tool'
                     AND substr(m.name, 1, 100) IN (",
            );
            let mut beginnings = statement.separated(", ");
            for name in names {
                beginnings.push_bind(stored(name).chars().take(100).collect::<String>());
            }
            statement.push(") AND m.name IN (");
            let mut list = statement.separated(", ");
            for name in names {
                list.push_bind(stored(name));
            }
            statement.push(") WHERE r.identity = ").push_bind(identity).push(" GROUP BY m.name, m.digest");
            statement.build_query_as().fetch_all(connection).await?
        });
        for (name, digest, first_at, last_at, version_key, observation) in rows {
            found.entry(restored(name)?).or_default().push(Seen {
                digest: digest_from_text(&digest)?,
                first_at,
                last_at,
                place: (version_key, observation),
            });
        }
    }
    Ok(found)
}

/// How many other servers declared each of these tools, where any did.
async fn elsewhere(
    session: &mut Session,
    identity: &str,
    digests: &BTreeSet<Digest>,
) -> Result<BTreeMap<Digest, i64>, StoreError> {
    let written: Vec<String> = digests.iter().map(Digest::to_string).collect();
    let mut counts = BTreeMap::new();
    for digests in written.chunks(LIST) {
        let rows: Vec<(String, i64)> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new(
                "SELECT digest, COUNT(*) FROM declaration WHERE kind = 'tool' AND identity <> ",
            );
            statement.push_bind(identity).push(" AND digest IN (");
            let mut list = statement.separated(", ");
            for digest in digests {
                list.push_bind(digest.as_str());
            }
            statement.push(") GROUP BY digest");
            statement.build_query_as().fetch_all(connection).await?
        });
        for (digest, count) in rows {
            counts.insert(digest_from_text(&digest)?, count);
        }
    }
    Ok(counts)
}

/// What installs told of these tools, by the definition that waits. Most are told of by nobody, which one statement finds out.
async fn told_of(
    session: &mut Session,
    identity: &str,
    tools: impl Iterator<Item = &ToolRow>,
) -> Result<BTreeMap<Digest, Vec<ToldDefinition>>, StoreError> {
    let names = fingerprints::names(session, identity).await?;
    let keys = fingerprints::keys(session).await?;
    let of = |tool: &str| -> Vec<Fingerprint> {
        keys.iter()
            .flat_map(|key| names.iter().map(|name| key.tool(name, tool)))
            .collect()
    };
    let tools: Vec<(Digest, Vec<Fingerprint>)> = tools.map(|row| (row.digest, of(&row.tool))).collect();
    let all: Vec<Vec<u8>> = tools
        .iter()
        .flat_map(|(_, fingerprints)| fingerprints)
        .map(|fingerprint| fingerprint.as_bytes().to_vec())
        .collect();
    let mut known: BTreeSet<Vec<u8>> = BTreeSet::new();
    for some in all.chunks(LIST) {
        let found: Vec<Vec<u8>> = on!(*session, connection => {
            let mut statement =
                sqlx::QueryBuilder::new("SELECT DISTINCT tool_fp FROM signal_rollup WHERE tool_fp IN (");
            let mut list = statement.separated(", ");
            for fingerprint in some {
                list.push_bind(fingerprint.as_slice());
            }
            statement.push(")");
            statement.build_query_scalar().fetch_all(connection).await?
        });
        known.extend(found);
    }
    let mut told = BTreeMap::new();
    for (digest, mut fingerprints) in tools {
        fingerprints.retain(|fingerprint| known.contains(fingerprint.as_bytes().as_slice()));
        if !fingerprints.is_empty() {
            let definitions =
                told::definitions(session, &fingerprints, Some(&digest.to_string()), None).await?;
            told.insert(digest, definitions);
        }
    }
    Ok(told)
}
