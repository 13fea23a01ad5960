//! Drifts: what changed between two neighbouring observations of one server.
//!
//! Invariant: a drift and its changes are never edited. When a version between its two sides is observed later, the drift is
//! marked as replaced by the finer ones and left out of lists; it can still be read by its number.

use std::collections::{BTreeMap, BTreeSet};

use mcpindex_contract::change::{Change, ChangeKind, Subject};
use mcpindex_contract::surface::MemberKind;

use crate::search;
use crate::session::{Session, on};
use crate::surfaces::{corrupt, count, digest_from_text, member_kind};
use crate::text::{restored, restored_option, stored};
use crate::{Store, StoreError};

/// Bytes kept of a change's text on each side; the whole of it is the definition under its digest.
pub const MAX_EXCERPT: usize = 64 * 1024;

/// The subject kind of a change to what the server says of itself.
const SERVER: &str = "server";
/// The subject kind of a change to the server's instructions.
const INSTRUCTIONS: &str = "instructions";

/// One drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftRecord {
    /// The row's number.
    pub id: i64,
    /// The identity's written form.
    pub identity: String,
    /// The short id of the server.
    pub short_id: String,
    /// The observation before.
    pub before_observation: i64,
    /// The observation after.
    pub after_observation: i64,
    /// Its version.
    pub before_version: Option<String>,
    /// Its version.
    pub after_version: Option<String>,
    /// When the two sides were observed.
    pub before_observed_at: i64,
    /// When the two sides were observed.
    pub after_observed_at: i64,
    /// When the version after was published, as far as known.
    pub after_published_at: Option<i64>,
    /// What else differs between the two sides: `version` (another package, by version or integrity),
    /// `dependencies` (the same package, other dependencies), `unexplained` (the same package, the same
    /// dependencies) or `unknown` (no package, as with a remote or a command, or dependencies that are not known).
    pub cause: String,
    /// When it was recorded.
    pub found_at: i64,
    /// How many changes, by kind name, most first, then by name.
    pub kinds: Vec<(String, i64)>,
    /// How many tools, prompts, … changed without coming or going; a kind of which none did is left out.
    pub changed: Vec<(MemberKind, i64)>,
    /// Whether some change is safety relevant.
    pub safety_relevant: bool,
    /// Whether finer drifts have replaced it.
    pub replaced: bool,
}

macro_rules! drift {
    ($rest:literal) => {
        concat!(
            "SELECT d.id, d.identity, s.short_id, d.before_observation, d.after_observation, b.version, a.version,
                 b.observed_at, a.observed_at, a.published_at, d.cause, d.found_at, d.kinds, d.safety_relevant,
                 d.replaced_at, d.changed
             FROM drift d
             JOIN server s ON s.identity = d.identity
             JOIN observation b ON b.id = d.before_observation
             JOIN observation a ON a.id = d.after_observation
             WHERE ",
            $rest
        )
    };
}

type DriftRow = (
    i64,
    String,
    String,
    i64,
    i64,
    Option<String>,
    Option<String>,
    i64,
    i64,
    Option<i64>,
    String,
    i64,
    String,
    bool,
    Option<i64>,
    String,
);

fn drift_from_row(row: DriftRow) -> Result<DriftRecord, StoreError> {
    Ok(DriftRecord {
        id: row.0,
        identity: restored(row.1)?,
        short_id: row.2,
        before_observation: row.3,
        after_observation: row.4,
        before_version: restored_option(row.5)?,
        after_version: restored_option(row.6)?,
        before_observed_at: row.7,
        after_observed_at: row.8,
        after_published_at: row.9,
        cause: row.10,
        found_at: row.11,
        kinds: kinds_from_text(&row.12)?,
        safety_relevant: row.13,
        replaced: row.14.is_some(),
        changed: changed_from_text(&row.15)?,
    })
}

impl Store {
    /// The latest drifts of all servers (or of one), newest first; `before` is the last number of the page before.
    /// For one server they come in timeline order, newest first. Replaced ones are left out.
    pub async fn drifts(
        &self,
        identity: Option<&str>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<DriftRecord>, StoreError> {
        let mut session = self.read().await?;
        let limit = limit.max(0);
        let rows: Vec<DriftRow> = match (identity, before) {
            (None, before) => on!(session, connection => {
                sqlx::query_as(drift!("d.replaced_at IS NULL AND d.id < $1 ORDER BY d.id DESC LIMIT $2"))
                    .bind(before.unwrap_or(i64::MAX)).bind(limit).fetch_all(connection).await?
            }),
            (Some(identity), None) => on!(session, connection => {
                sqlx::query_as(drift!(
                    "d.identity = $1 AND d.replaced_at IS NULL
                     ORDER BY d.version_key DESC, d.after_observation DESC LIMIT $2"
                ))
                .bind(stored(identity)).bind(limit).fetch_all(connection).await?
            }),
            (Some(identity), Some(before)) => {
                let Some(place) = place(&mut session, before).await? else {
                    return Ok(Vec::new());
                };
                on!(session, connection => {
                    sqlx::query_as(drift!(
                        "d.identity = $1 AND d.replaced_at IS NULL AND (d.version_key, d.after_observation) < ($2, $3)
                         ORDER BY d.version_key DESC, d.after_observation DESC LIMIT $4"
                    ))
                    .bind(stored(identity)).bind(&place.version_key).bind(place.after).bind(limit)
                    .fetch_all(connection).await?
                })
            }
        };
        rows.into_iter().map(drift_from_row).collect()
    }

    /// The latest drifts of the servers that [`Store::search`] finds by these words, newest first. Replaced ones are left out.
    pub async fn drifts_found(&self, question: &str, limit: i64) -> Result<Vec<DriftRecord>, StoreError> {
        let mut session = self.read().await?;
        let Some(words) = search::anywhere(&session, question) else {
            return Ok(Vec::new());
        };
        search::go_by_indexes(&mut session).await?;
        let rows: Vec<DriftRow> = match &mut session {
            Session::Sqlite(transaction) => {
                sqlx::query_as(drift!(
                    "d.replaced_at IS NULL AND d.identity IN (
                         SELECT w.identity
                         FROM server_words_index i JOIN server_words w INDEXED BY server_words_place ON w.id = i.rowid
                         WHERE server_words_index MATCH $1)
                     ORDER BY d.id DESC LIMIT $2"
                ))
                .bind(words)
                .bind(limit.max(0))
                .fetch_all(&mut **transaction)
                .await?
            }
            // The expression is that of the index.
            Session::Postgres(transaction) => {
                sqlx::query_as(drift!(
                    "d.replaced_at IS NULL AND d.identity IN (
                         SELECT identity FROM server_words
                         WHERE array_to_tsvector(string_to_array(names, ' ') || string_to_array(tools, ' ')
                             || string_to_array(texts, ' ')) @@ $1::tsquery)
                     ORDER BY d.id DESC LIMIT $2"
                ))
                .bind(words)
                .bind(limit.max(0))
                .fetch_all(&mut **transaction)
                .await?
            }
        };
        rows.into_iter().map(drift_from_row).collect()
    }

    /// One drift with its changes, replaced or not. Texts longer than [`MAX_EXCERPT`] bytes are cut and end with `…`.
    pub async fn drift(&self, id: i64) -> Result<Option<(DriftRecord, Vec<Change>)>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<DriftRow> = on!(session, connection => {
            sqlx::query_as(drift!("d.id = $1")).bind(id).fetch_optional(connection).await?
        });
        let Some(row) = row else {
            return Ok(None);
        };
        let changes = load_changes(&mut session, id).await?;
        Ok(Some((drift_from_row(row)?, changes)))
    }

    /// The drifts of the same server that stand before and after this one in its timeline. `None` where there is none,
    /// and for a number that names no drift. What took a replaced drift's place stands before it.
    pub async fn drift_neighbours(&self, id: i64) -> Result<(Option<i64>, Option<i64>), StoreError> {
        let mut session = self.read().await?;
        let Some(place) = place(&mut session, id).await? else {
            return Ok((None, None));
        };
        let mut neighbours = [None, None];
        for (neighbour, statement) in neighbours.iter_mut().zip([
            "SELECT id FROM drift
             WHERE identity = $1 AND replaced_at IS NULL AND (version_key, after_observation) <= ($2, $3) AND id <> $4
             ORDER BY version_key DESC, after_observation DESC LIMIT 1",
            "SELECT id FROM drift
             WHERE identity = $1 AND replaced_at IS NULL AND (version_key, after_observation) > ($2, $3) AND id <> $4
             ORDER BY version_key, after_observation LIMIT 1",
        ]) {
            *neighbour = on!(session, connection => {
                sqlx::query_scalar(statement)
                    .bind(&place.identity).bind(&place.version_key).bind(place.after).bind(id)
                    .fetch_optional(connection).await?
            });
        }
        Ok(neighbours.into())
    }

    /// How many drifts there are in lists.
    pub async fn count_drifts(&self) -> Result<i64, StoreError> {
        let mut session = self.read().await?;
        Ok(on!(session, connection => {
            sqlx::query_scalar("SELECT COUNT(*) FROM drift WHERE replaced_at IS NULL").fetch_one(connection).await?
        }))
    }
}

/// Where a drift stands in its server's timeline; texts in their stored form.
struct Place {
    identity: String,
    version_key: String,
    after: i64,
}

/// The place of this drift, replaced or not.
async fn place(session: &mut Session, id: i64) -> Result<Option<Place>, StoreError> {
    let row: Option<(String, String, i64)> = on!(*session, connection => {
        sqlx::query_as("SELECT identity, version_key, after_observation FROM drift WHERE id = $1")
            .bind(id).fetch_optional(connection).await?
    });
    Ok(row.map(|(identity, version_key, after)| Place {
        identity,
        version_key,
        after,
    }))
}

/// A drift to record; `changes` is not empty.
pub(crate) struct NewDrift<'a> {
    /// Stored form.
    pub(crate) identity: &'a str,
    pub(crate) before: i64,
    pub(crate) after: i64,
    /// Stored form of the version key of the observation after.
    pub(crate) version_key: &'a str,
    pub(crate) cause: &'static str,
    pub(crate) found_at: i64,
    pub(crate) changes: &'a [Change],
}

/// The standing drift that leads to this observation, and where it comes from.
pub(crate) async fn standing(session: &mut Session, after: i64) -> Result<Option<(i64, i64)>, StoreError> {
    Ok(on!(*session, connection => {
        sqlx::query_as(
            "SELECT id, before_observation FROM drift WHERE after_observation = $1 AND replaced_at IS NULL",
        )
        .bind(after).fetch_optional(connection).await?
    }))
}

/// Whether a recorded drift has exactly these changes.
pub(crate) async fn says(session: &mut Session, drift: i64, changes: &[Change]) -> Result<bool, StoreError> {
    let said = load_changes(session, drift).await?;
    Ok(said
        .iter()
        .eq(changes.iter().map(excerpted).collect::<Vec<_>>().iter()))
}

/// Marks a drift as replaced.
pub(crate) async fn replace(session: &mut Session, drift: i64, now: i64) -> Result<(), StoreError> {
    on!(*session, connection => {
        sqlx::query("UPDATE drift SET replaced_at = $2 WHERE id = $1")
            .bind(drift).bind(now).execute(connection).await?;
    });
    Ok(())
}

/// Records a drift with its changes; gives its number.
pub(crate) async fn insert(session: &mut Session, drift: &NewDrift<'_>) -> Result<i64, StoreError> {
    let safety_relevant = drift.changes.iter().any(|change| change.kind.safety_relevant());
    let id: i64 = on!(*session, connection => {
        sqlx::query_scalar(
            "INSERT INTO drift (identity, before_observation, after_observation, version_key, cause, found_at, kinds,
                 safety_relevant, changed)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id",
        )
        .bind(drift.identity).bind(drift.before).bind(drift.after).bind(drift.version_key).bind(drift.cause).bind(drift.found_at)
        .bind(kinds_to_text(drift.changes)).bind(safety_relevant).bind(changed_to_text(drift.changes))
        .fetch_one(connection).await?
    });
    for (position, change) in drift.changes.iter().enumerate() {
        let change = excerpted(change);
        let (subject_kind, subject_name) = match &change.subject {
            Subject::Server => (SERVER, ""),
            Subject::Instructions => (INSTRUCTIONS, ""),
            Subject::Member(kind, name) => (kind.name(), name.as_str()),
        };
        on!(*session, connection => {
            sqlx::query(
                "INSERT INTO change (drift, position, kind, subject_kind, subject_name, pointer, before_text,
                     after_text, before_digest, after_digest, witness, rule)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            )
            .bind(id).bind(count(position)).bind(change.kind.name())
            .bind(subject_kind).bind(stored(subject_name)).bind(stored(&change.pointer))
            .bind(change.before.as_deref().map(stored)).bind(change.after.as_deref().map(stored))
            .bind(change.before_digest.map(|digest| digest.to_string()))
            .bind(change.after_digest.map(|digest| digest.to_string()))
            .bind(change.witness.as_deref().map(stored)).bind(change.rule.as_deref().map(stored))
            .execute(connection).await?;
        });
    }
    Ok(id)
}

async fn load_changes(session: &mut Session, drift: i64) -> Result<Vec<Change>, StoreError> {
    type Row = (
        String,
        String,
        String,
        String,
        Option<String>,
        Option<String>,
        Option<String>,
        Option<String>,
        Option<String>,
        Option<String>,
    );
    let rows: Vec<Row> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT kind, subject_kind, subject_name, pointer, before_text, after_text, before_digest, after_digest,
                 witness, rule
             FROM change WHERE drift = $1 ORDER BY position",
        )
        .bind(drift).fetch_all(connection).await?
    });
    rows.into_iter()
        .map(
            |(
                kind,
                subject_kind,
                name,
                pointer,
                before,
                after,
                before_digest,
                after_digest,
                witness,
                rule,
            )| {
                let subject = match subject_kind.as_str() {
                    SERVER => Subject::Server,
                    INSTRUCTIONS => Subject::Instructions,
                    member => Subject::Member(member_kind(member)?, restored(name)?),
                };
                Ok(Change {
                    kind: ChangeKind::from_name(&kind).ok_or_else(|| corrupt("a change's kind", &kind))?,
                    subject,
                    pointer: restored(pointer)?,
                    before: restored_option(before)?,
                    after: restored_option(after)?,
                    before_digest: before_digest.as_deref().map(digest_from_text).transpose()?,
                    after_digest: after_digest.as_deref().map(digest_from_text).transpose()?,
                    witness: restored_option(witness)?,
                    rule: restored_option(rule)?,
                })
            },
        )
        .collect()
}

/// The change as it is kept: its texts cut, and no witness that would have to be.
fn excerpted(change: &Change) -> Change {
    Change {
        before: change.before.as_deref().map(excerpt),
        after: change.after.as_deref().map(excerpt),
        witness: change
            .witness
            .clone()
            .filter(|witness| witness.len() <= MAX_EXCERPT),
        ..change.clone()
    }
}

fn excerpt(text: &str) -> String {
    const CUT: char = '…';
    if text.len() <= MAX_EXCERPT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_EXCERPT - CUT.len_utf8());
    format!("{}{CUT}", &text[..end])
}

/// `tool-added:2 description-only:1`, most first, then by name.
fn kinds_to_text(changes: &[Change]) -> String {
    let mut kinds: Vec<(&str, i64)> = Vec::new();
    for change in changes {
        let name = change.kind.name();
        match kinds.iter_mut().find(|(kind, _)| *kind == name) {
            Some((_, number)) => *number += 1,
            None => kinds.push((name, 1)),
        }
    }
    kinds.sort_by_key(|(name, number)| (-number, *name));
    let words: Vec<String> = kinds
        .iter()
        .map(|(name, number)| format!("{name}:{number}"))
        .collect();
    words.join(" ")
}

fn kinds_from_text(text: &str) -> Result<Vec<(String, i64)>, StoreError> {
    text.split(' ')
        .map(|word| {
            let (name, number) = word
                .split_once(':')
                .ok_or_else(|| corrupt("a drift's kinds", text))?;
            let number = number.parse().map_err(|_| corrupt("a drift's kinds", text))?;
            Ok((name.to_owned(), number))
        })
        .collect()
}

/// `tool:13 prompt:1`, in the order of kinds; nothing when no member changed in place.
fn changed_to_text(changes: &[Change]) -> String {
    let mut members: BTreeMap<MemberKind, BTreeSet<&str>> = BTreeMap::new();
    for change in changes.iter().filter(|change| !comes_or_goes(change.kind)) {
        if let Subject::Member(kind, name) = &change.subject {
            members.entry(*kind).or_default().insert(name);
        }
    }
    let words: Vec<String> = members
        .iter()
        .map(|(kind, names)| format!("{}:{}", kind.name(), names.len()))
        .collect();
    words.join(" ")
}

fn changed_from_text(text: &str) -> Result<Vec<(MemberKind, i64)>, StoreError> {
    let unreadable = || corrupt("a drift's changed members", text);
    let mut changed = text
        .split_terminator(' ')
        .map(|word| {
            let (kind, number) = word.split_once(':').ok_or_else(unreadable)?;
            let number = number.parse().map_err(|_| unreadable())?;
            Ok((member_kind(kind)?, number))
        })
        .collect::<Result<Vec<_>, StoreError>>()?;
    changed.sort_unstable();
    Ok(changed)
}

fn comes_or_goes(kind: ChangeKind) -> bool {
    matches!(
        kind,
        ChangeKind::ToolAdded
            | ChangeKind::ToolRemoved
            | ChangeKind::PromptAdded
            | ChangeKind::PromptRemoved
            | ChangeKind::ResourceAdded
            | ChangeKind::ResourceRemoved
            | ChangeKind::ResourceTemplateAdded
            | ChangeKind::ResourceTemplateRemoved
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(excerpt("short"), "short");
        let whole = "a".repeat(MAX_EXCERPT);
        assert_eq!(excerpt(&whole), whole);
        let cut = excerpt(&"ä".repeat(MAX_EXCERPT));
        assert!(cut.len() <= MAX_EXCERPT, "{}", cut.len());
        assert!(cut.ends_with("ä…"));
    }
}
