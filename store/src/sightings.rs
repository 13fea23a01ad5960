//! What is known of servers and tools that somebody asks about: what the crawl saw of them and when, and what installs told.
//!
//! Invariant: all questions of one call are answered from one state of the database; nothing is judged here.

use std::collections::BTreeSet;

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::signal::Fingerprint;
use mcpindex_contract::surface::{Listing, MemberKind};

use crate::observations::{self, Artifact};
use crate::servers::{self, ServerRecord};
use crate::session::{Session, on};
use crate::signals::{ToldDefinition, fingerprints, told};
use crate::surfaces::{self, corrupt, digest_from_text};
use crate::text::{restored, stored};
use crate::{Store, StoreError};

/// Changes of one tool that are read, the latest drift's first.
const CHANGES: i64 = 500;
/// Tools of one name that are read of one server.
const NAMESAKES: i64 = 50;
/// Definitions that are looked for by one statement.
const DEFINITIONS: usize = 500;
/// Servers behind one fingerprint that are looked at: one registry name may lead to several.
const SERVERS: i64 = 20;

/// Somebody's question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// Which server.
    pub server: Reference,
    /// Which tool; none: the server as a whole.
    pub tool: Option<Reference>,
    /// Which definition of it; none: the one it declares now.
    pub digest: Option<Digest>,
    /// The published contract hash of the same definition.
    pub hash: Option<String>,
}

/// How something is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reference {
    /// By name: of a server its identity, short id or alias.
    Name(String),
    /// By fingerprint, under any key that the index knows.
    Fingerprint(Fingerprint),
}

/// What there is to say to one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// One for each server that may be meant, by identity; never empty. More than one where a name leads to several servers of
    /// which none fits the question better than the others.
    pub servers: Vec<Sightings>,
    /// Whether the name leads to more servers than were looked at.
    pub more: bool,
}

/// What there is to say of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sightings {
    /// The server; `None`: none goes by that name or fingerprint.
    pub server: Option<ServerRecord>,
    /// The tool's name where it was given or is known.
    pub tool: Option<String>,
    /// What became of the list of tools that says what is declared now; `None`: nothing was ever determined.
    pub listing: Option<Listing>,
    /// The digest of what is declared under the tool's name now.
    pub current: Option<Digest>,
    /// The digests of further tools that it declares under the same name now.
    pub namesakes: Vec<Digest>,
    /// The definition that was asked about, else the one declared now: its text, where the index has it.
    pub definition: Option<String>,
    /// Every definition that the server ever declared under the tool's name, newest in the timeline first.
    pub declared: Vec<Sighting>,
    /// The latest drift of the tool, or of the server.
    pub drift: Option<ToolDrift>,
    /// The kinds of every change to the tool, or to the server, that came since the time asked for: a later drift does not hide
    /// an earlier one. A change came with its version's publication, where that is known, else when it was first seen.
    pub changed: BTreeSet<ChangeKind>,
    /// When the drift was found with which the tool left the digest that was asked about.
    pub left_at: Option<i64>,
    /// For how long the tool had that digest, the last time that it did; `None` while it has it.
    pub stay: Option<Stay>,
    /// The newest package that was seen to declare the digest (asked about or declared now).
    pub artifact: Option<Artifact>,
    /// What installs told of the tool, under every fingerprint of it.
    pub told: Vec<ToldDefinition>,
}

/// One definition as the crawl saw it at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The definition.
    pub digest: Digest,
    /// When it was seen first.
    pub first_seen_at: i64,
    /// When it was seen last.
    pub last_seen_at: i64,
    /// The newest look in the timeline that saw it.
    pub observation: i64,
}

/// From when to when a tool had a definition, reckoned as changes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// `None`: it was there when the server was first looked at.
    pub came: Option<i64>,
    /// When another took its place.
    pub left: i64,
}

/// A drift, as far as one tool or server is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDrift {
    /// The drift's number.
    pub id: i64,
    /// When it was found.
    pub found_at: i64,
    /// The kinds of its changes to that tool, each once, by name.
    pub kinds: Vec<ChangeKind>,
}

impl Store {
    /// What is known of each, in the order asked, with what changed from `since` on.
    pub async fn sightings(&self, questions: &[Question], since: i64) -> Result<Vec<Found>, StoreError> {
        let mut session = self.read().await?;
        let mut all = Vec::with_capacity(questions.len());
        for question in questions {
            all.push(answer(&mut session, question, since).await?);
        }
        Ok(all)
    }

    /// Of each definition, by identity, tool and digest, whether a server of that identity ever declared it under that name.
    pub async fn were_declared(&self, definitions: &[(&str, &str, Digest)]) -> Result<Vec<bool>, StoreError> {
        let mut session = self.read().await?;
        let mut declared = vec![false; definitions.len()];
        for (part, declared) in definitions
            .chunks(DEFINITIONS)
            .zip(declared.chunks_mut(DEFINITIONS))
        {
            let rows: Vec<i64> = on!(session, connection => {
                let mut statement = sqlx::QueryBuilder::new("WITH asked (item, identity, tool, digest) AS (");
                statement.push_values((0_i64..).zip(part), |mut values, (item, (identity, tool, digest))| {
                    values
                        .push_bind(item)
                        .push_bind(stored(identity))
                        .push_bind(stored(tool))
                        .push_bind(digest.to_string());
                });
                // The name's beginning is what the index is over.
                statement.push(
                    ") SELECT a.item FROM asked a WHERE EXISTS (
                         SELECT 1 FROM surface_seen r JOIN surface_member m ON m.record = r.record
                             AND substr(m.name, 1, 100) = substr(a.tool, 1, 100) AND m.name = a.tool
                             AND m.digest = a.digest AND m.kind = ",
                );
                statement.push_bind(MemberKind::Tool.name()).push(" WHERE r.identity = a.identity)");
                statement.build_query_scalar().fetch_all(connection).await?
            });
            for item in rows {
                if let Some(declared) = usize::try_from(item).ok().and_then(|item| declared.get_mut(item)) {
                    *declared = true;
                }
            }
        }
        Ok(declared)
    }
}

async fn answer(session: &mut Session, question: &Question, since: i64) -> Result<Found, StoreError> {
    let mut candidates = match &question.server {
        Reference::Name(name) => servers::candidates(session, name, SERVERS + 1).await?,
        Reference::Fingerprint(fingerprint) => identities(session, *fingerprint, SERVERS + 1).await?,
    };
    let limit = usize::try_from(SERVERS).unwrap_or(usize::MAX);
    let more = candidates.len() > limit;
    candidates.truncate(limit);
    let mut servers: Vec<Sightings> = Vec::new();
    for identity in candidates {
        let tool = match &question.tool {
            Some(Reference::Fingerprint(fingerprint)) => tool_of(session, &identity, *fingerprint).await?,
            Some(Reference::Name(name)) => Some(name.clone()),
            None => None,
        };
        let found = of_server(session, question, &identity, tool, since).await?;
        let best = servers.first().map(|best| fit(question, best));
        if best.is_some_and(|best| fit(question, &found) > best) {
            servers.clear();
        }
        if best.is_none_or(|best| fit(question, &found) >= best) {
            servers.push(found);
        }
    }
    if servers.is_empty() {
        servers.push(Sightings {
            tool: match &question.tool {
                Some(Reference::Name(name)) => Some(name.clone()),
                _ => None,
            },
            ..Sightings::default()
        });
    }
    for found in &mut servers {
        found.told = told_of(session, question, found).await?;
    }
    Ok(Found { servers, more })
}

/// What installs told of the tool, under its fingerprint that was given and under all that are known.
async fn told_of(
    session: &mut Session,
    question: &Question,
    found: &Sightings,
) -> Result<Vec<ToldDefinition>, StoreError> {
    let mut tools: BTreeSet<Fingerprint> = BTreeSet::new();
    match &question.tool {
        Some(Reference::Fingerprint(fingerprint)) => tools.extend([*fingerprint]),
        Some(Reference::Name(_)) | None => {}
    }
    if let (Some(server), Some(tool)) = (&found.server, &found.tool) {
        let names = fingerprints::names(session, &stored(&server.identity)).await?;
        for key in fingerprints::keys(session).await? {
            tools.extend(names.iter().map(|name| key.tool(name, tool)));
        }
    }
    let digest = question.digest.or(found.current).map(|digest| digest.to_string());
    let tools: Vec<Fingerprint> = tools.into_iter().collect();
    told::definitions(session, &tools, digest.as_deref(), question.hash.as_deref()).await
}

/// How well a server of several by one name fits what was asked about: best the one that declares it now.
fn fit(question: &Question, found: &Sightings) -> u8 {
    let declares_now = |digest| found.current == Some(digest) || found.namesakes.contains(&digest);
    let declares = |digest| found.declared.iter().any(|sighting| sighting.digest == digest);
    match question.digest {
        Some(digest) if declares_now(digest) => 3,
        Some(digest) if declares(digest) => 2,
        _ => u8::from(!found.declared.is_empty()),
    }
}

/// One server (its identity in stored form).
async fn of_server(
    session: &mut Session,
    question: &Question,
    identity: &str,
    tool: Option<String>,
    since: i64,
) -> Result<Sightings, StoreError> {
    let mut found = Sightings {
        server: servers::by_identity(session, identity).await?,
        ..Sightings::default()
    };
    let observation = found
        .server
        .as_ref()
        .and_then(|server| server.current_observation);
    if let Some(observation) = observation {
        found.listing = Some(tool_listing(session, observation).await?);
    }
    let Some(tool) = tool else {
        if question.tool.is_none() {
            found.drift = server_drift(session, identity).await?;
            found.changed = changed(session, identity, None, since).await?;
        }
        return Ok(found);
    };
    if let Some(observation) = observation {
        let mut digests = declared_now(session, observation, &tool).await?.into_iter();
        found.current = digests.next();
        found.namesakes = digests.collect();
    }
    found.declared = declared(session, identity, &tool).await?;
    let digest = question.digest.or(found.current);
    (found.drift, found.left_at, found.stay) = tool_drift(session, identity, &tool, digest).await?;
    found.changed = changed(session, identity, Some(&tool), since).await?;
    if let Some(digest) = digest {
        found.definition = definition(session, digest).await?;
        // What is declared now is of the version looked at now, whatever other version was looked at since.
        let newest = match found.current == Some(digest) {
            true => observation,
            false => {
                let sighting = found.declared.iter().find(|sighting| sighting.digest == digest);
                sighting.map(|sighting| sighting.observation)
            }
        };
        if let Some(newest) = newest {
            found.artifact = observations::artifact(session, newest).await?;
        }
    }
    found.tool = Some(tool);
    Ok(found)
}

/// The identities (in their stored form) behind a server's fingerprint, at most so many.
async fn identities(
    session: &mut Session,
    fingerprint: Fingerprint,
    limit: i64,
) -> Result<Vec<String>, StoreError> {
    Ok(on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT identity FROM fingerprint WHERE fp = $1 AND NOT of_tool ORDER BY identity LIMIT $2",
        )
        .bind(fingerprint.as_bytes().as_slice()).bind(limit).fetch_all(connection).await?
    }))
}

/// The tool behind a tool's fingerprint, at this server.
async fn tool_of(
    session: &mut Session,
    identity: &str,
    fingerprint: Fingerprint,
) -> Result<Option<String>, StoreError> {
    let row: Option<String> = on!(*session, connection => {
        sqlx::query_scalar("SELECT tool FROM fingerprint WHERE fp = $1 AND identity = $2 AND of_tool")
            .bind(fingerprint.as_bytes().as_slice()).bind(identity).fetch_optional(connection).await?
    });
    row.map(restored).transpose()
}

async fn tool_listing(session: &mut Session, observation: i64) -> Result<Listing, StoreError> {
    let kept: String = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT u.tool_listing FROM observation o JOIN surface u ON u.record = o.record WHERE o.id = $1",
        )
        .bind(observation).fetch_one(connection).await?
    });
    surfaces::listing_from_text(kept)
}

/// What an observation has under a tool's name, in the order sent: usually one.
async fn declared_now(
    session: &mut Session,
    observation: i64,
    tool: &str,
) -> Result<Vec<Digest>, StoreError> {
    let rows: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT m.digest FROM observation o JOIN surface_member m ON m.record = o.record
             WHERE o.id = $1 AND m.kind = $2 AND substr(m.name, 1, 100) = substr($3, 1, 100) AND m.name = $3
             ORDER BY m.position LIMIT $4",
        )
        .bind(observation).bind(MemberKind::Tool.name()).bind(stored(tool)).bind(NAMESAKES)
        .fetch_all(connection).await?
    });
    rows.iter().map(|digest| digest_from_text(digest)).collect()
}

async fn declared(session: &mut Session, identity: &str, tool: &str) -> Result<Vec<Sighting>, StoreError> {
    let rows: Vec<(String, i64, i64, i64)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT m.digest, r.first_at, r.last_at, r.observation
             FROM surface_seen r JOIN surface_member m ON m.record = r.record AND m.kind = $2
                 AND substr(m.name, 1, 100) = substr($3, 1, 100) AND m.name = $3
             WHERE r.identity = $1
             ORDER BY r.version_key DESC, r.observation DESC",
        )
        .bind(identity).bind(MemberKind::Tool.name()).bind(stored(tool)).fetch_all(connection).await?
    });
    let mut sightings: Vec<Sighting> = Vec::new();
    for (digest, first_seen_at, last_seen_at, observation) in rows {
        let digest = digest_from_text(&digest)?;
        match sightings.iter_mut().find(|sighting| sighting.digest == digest) {
            Some(sighting) => {
                sighting.first_seen_at = sighting.first_seen_at.min(first_seen_at);
                sighting.last_seen_at = sighting.last_seen_at.max(last_seen_at);
            }
            None => sightings.push(Sighting {
                digest,
                first_seen_at,
                last_seen_at,
                observation,
            }),
        }
    }
    Ok(sightings)
}

/// When a drift `d` from the observation `b` to `a` came about: with the publication of another version, or when its outcome was
/// seen, whenever it was compared. A backfill finds today what changed long ago. Of the same version, looked at again with
/// other dependencies, the publication says nothing.
macro_rules! came {
    () => {
        "CASE WHEN b.version <> a.version AND a.published_at < a.observed_at THEN a.published_at ELSE a.observed_at END"
    };
}

/// The tool's latest drift; when the latest one was found with which it left this digest; and how long it had it until then.
async fn tool_drift(
    session: &mut Session,
    identity: &str,
    tool: &str,
    digest: Option<Digest>,
) -> Result<(Option<ToolDrift>, Option<i64>, Option<Stay>), StoreError> {
    type Row = (i64, i64, i64, String, Option<String>, Option<String>);
    let rows: Vec<Row> = on!(*session, connection => {
        sqlx::query_as(concat!(
            "SELECT d.id, d.found_at, ", came!(), ", c.kind, c.before_digest, c.after_digest FROM drift d
             JOIN change c ON c.drift = d.id AND c.subject_kind = $2
                 AND substr(c.subject_name, 1, 100) = substr($3, 1, 100) AND c.subject_name = $3
             JOIN observation b ON b.id = d.before_observation
             JOIN observation a ON a.id = d.after_observation
             WHERE d.identity = $1 AND d.replaced_at IS NULL
             ORDER BY d.version_key DESC, d.after_observation DESC, c.position LIMIT $4",
        ))
        .bind(identity).bind(MemberKind::Tool.name()).bind(stored(tool)).bind(CHANGES).fetch_all(connection).await?
    });
    let digest = digest.map(|digest| digest.to_string());
    let is = |side: &Option<String>| side.is_some() && *side == digest;
    let mut earlier = rows.iter();
    let left = earlier.find(|(.., before, after)| is(before) && !is(after));
    let came = left.and_then(|_| earlier.find(|(.., before, after)| is(after) && !is(before)));
    let stay = left.map(|left| Stay {
        came: came.map(|came| came.2),
        left: left.2,
    });
    let left_at = left.map(|left| left.1);
    let Some((id, found_at, ..)) = rows.first().cloned() else {
        return Ok((None, left_at, stay));
    };
    let kinds: BTreeSet<&str> = rows
        .iter()
        .filter(|(of, ..)| *of == id)
        .map(|(_, _, _, kind, ..)| kind.as_str())
        .collect();
    let kinds = kinds.into_iter().map(kind_from_text).collect::<Result<_, _>>()?;
    Ok((Some(ToolDrift { id, found_at, kinds }), left_at, stay))
}

/// The kinds of all that changed since then, of one tool or of the server as a whole.
async fn changed(
    session: &mut Session,
    identity: &str,
    tool: Option<&str>,
    since: i64,
) -> Result<BTreeSet<ChangeKind>, StoreError> {
    let kinds: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar(concat!(
            "SELECT DISTINCT c.kind FROM drift d
             JOIN change c ON c.drift = d.id
             JOIN observation b ON b.id = d.before_observation
             JOIN observation a ON a.id = d.after_observation
             WHERE d.identity = $1 AND d.replaced_at IS NULL AND ", came!(), " >= $2
               AND ($3 OR (c.subject_kind = $4 AND substr(c.subject_name, 1, 100) = substr($5, 1, 100)
                   AND c.subject_name = $5))",
        ))
        .bind(identity).bind(since).bind(tool.is_none()).bind(MemberKind::Tool.name())
        .bind(stored(tool.unwrap_or_default())).fetch_all(connection).await?
    });
    kinds.iter().map(|kind| kind_from_text(kind)).collect()
}

async fn server_drift(session: &mut Session, identity: &str) -> Result<Option<ToolDrift>, StoreError> {
    let row: Option<(i64, i64)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT id, found_at FROM drift WHERE identity = $1 AND replaced_at IS NULL
             ORDER BY version_key DESC, after_observation DESC LIMIT 1",
        )
        .bind(identity).fetch_optional(connection).await?
    });
    let Some((id, found_at)) = row else {
        return Ok(None);
    };
    let kinds: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar("SELECT DISTINCT kind FROM change WHERE drift = $1 ORDER BY kind")
            .bind(id).fetch_all(connection).await?
    });
    let kinds = kinds
        .iter()
        .map(|kind| kind_from_text(kind))
        .collect::<Result<_, _>>()?;
    Ok(Some(ToolDrift { id, found_at, kinds }))
}

fn kind_from_text(kind: &str) -> Result<ChangeKind, StoreError> {
    ChangeKind::from_name(kind).ok_or_else(|| corrupt("a kind of change", kind))
}

async fn definition(session: &mut Session, digest: Digest) -> Result<Option<String>, StoreError> {
    let row: Option<String> = on!(*session, connection => {
        sqlx::query_scalar("SELECT text FROM definition WHERE digest = $1")
            .bind(digest.to_string()).fetch_optional(connection).await?
    });
    row.map(restored).transpose()
}
