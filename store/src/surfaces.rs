//! Surfaces as recorded: each distinct one once, its definitions by digest.
//!
//! A surface's `record` is a SHA-256 over everything that is kept of it, so a look that finds what an earlier look
//! (of any server) found adds no row here.
//!
//! Invariant: what is read back has the digests that were recorded, or it is [`StoreError::Corrupt`].

use std::collections::BTreeMap;

use mcpindex_contract::canonical::canonical;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::json::{self, Value};
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};

use crate::StoreError;
use crate::session::{Session, on};
use crate::text::{restored, restored_option, stored};

/// One recorded member, without its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberRow {
    pub(crate) kind: MemberKind,
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) meta_digest: Option<String>,
}

/// Records a surface unless it is there already; gives its `record`.
pub(crate) async fn save(session: &mut Session, surface: &Surface, now: i64) -> Result<String, StoreError> {
    let record = record_of(surface);
    let known: i64 = on!(*session, connection => {
        sqlx::query_scalar("SELECT COUNT(*) FROM surface WHERE record = $1")
            .bind(&record).fetch_one(connection).await?
    });
    if known > 0 {
        return Ok(record);
    }
    save_definitions(session, surface, now).await?;
    let [tools, prompts, resources, templates] = surface.listings.each_ref().map(listing_to_text);
    let tool_count = match surface.listing(MemberKind::Tool) {
        Listing::Failed { .. } => None,
        _ => Some(count(surface.members_of(MemberKind::Tool).count())),
    };
    // Another server's worker may record the same surface at the same time: whoever comes second waits here for the
    // first one's commit, and then has nothing left to add.
    let added = on!(*session, connection => {
        sqlx::query(
            "INSERT INTO surface (record, digest, protocol_version, server_info, capabilities, instructions_digest,
                 tool_listing, prompt_listing, resource_listing, resource_template_listing, tools)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (record) DO NOTHING",
        )
        .bind(&record)
        .bind(surface.digest().to_string())
        .bind(stored(&surface.protocol_version))
        .bind(surface.server_info.as_deref().map(stored))
        .bind(surface.capabilities.as_deref().map(stored))
        .bind(surface.instructions.as_ref().map(|instructions| instructions.digest.to_string()))
        .bind(stored(&tools)).bind(stored(&prompts)).bind(stored(&resources)).bind(stored(&templates))
        .bind(tool_count)
        .execute(connection).await?.rows_affected()
    });
    if added == 0 {
        return Ok(record);
    }
    for (position, member) in surface.members.iter().enumerate() {
        on!(*session, connection => {
            sqlx::query(
                "INSERT INTO surface_member (record, position, kind, name, digest, meta_digest)
                 VALUES ($1, $2, $3, $4, $5, $6)",
            )
            .bind(&record)
            .bind(count(position))
            .bind(member.kind.name())
            .bind(stored(&member.name))
            .bind(member.definition.digest().to_string())
            .bind(member.definition.meta().map(|meta| meta.digest.to_string()))
            .execute(connection).await?;
        });
    }
    Ok(record)
}

/// Notes what a server declares with a recorded surface. Called before the observation itself is recorded: when an
/// earlier one has the same surface, all is noted already, and this is false.
pub(crate) async fn declare(session: &mut Session, record: &str, identity: &str) -> Result<bool, StoreError> {
    let earlier: Option<i64> = on!(*session, connection => {
        sqlx::query_scalar("SELECT id FROM observation WHERE record = $1 AND identity = $2 LIMIT 1")
            .bind(record).bind(identity).fetch_optional(connection).await?
    });
    if earlier.is_some() {
        return Ok(false);
    }
    for statement in [
        "INSERT INTO declaration (digest, identity, kind)
         SELECT digest, $2, kind FROM surface_member WHERE record = $1
         ON CONFLICT (digest, identity, kind) DO NOTHING",
        "INSERT INTO declaration (digest, identity, kind)
         SELECT instructions_digest, $2, 'instructions' FROM surface
         WHERE record = $1 AND instructions_digest IS NOT NULL
         ON CONFLICT (digest, identity, kind) DO NOTHING",
    ] {
        on!(*session, connection => {
            sqlx::query(statement).bind(record).bind(identity).execute(connection).await?;
        });
    }
    Ok(true)
}

/// Notes since when and until when a server was seen to declare a surface, by a look that was recorded.
pub(crate) async fn see(session: &mut Session, observation: i64) -> Result<(), StoreError> {
    on!(*session, connection => {
        sqlx::query(
            "INSERT INTO surface_seen (identity, record, first_at, last_at, version_key, observation)
             SELECT identity, record, observed_at, observed_at, version_key, id FROM observation WHERE id = $1
             ON CONFLICT (identity, record) DO UPDATE SET
                 first_at = CASE WHEN excluded.first_at < surface_seen.first_at
                     THEN excluded.first_at ELSE surface_seen.first_at END,
                 last_at = CASE WHEN excluded.last_at > surface_seen.last_at
                     THEN excluded.last_at ELSE surface_seen.last_at END,
                 observation = CASE
                     WHEN (excluded.version_key, excluded.observation) > (surface_seen.version_key, surface_seen.observation)
                     THEN excluded.observation ELSE surface_seen.observation END,
                 version_key = CASE WHEN excluded.version_key > surface_seen.version_key
                     THEN excluded.version_key ELSE surface_seen.version_key END",
        )
        .bind(observation).execute(connection).await?;
    });
    Ok(())
}

/// In the order of digests, so that two transactions with texts in common never wait for each other in a circle.
async fn save_definitions(session: &mut Session, surface: &Surface, now: i64) -> Result<(), StoreError> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for member in &surface.members {
        let definition = &member.definition;
        texts
            .entry(definition.digest().to_string())
            .or_insert_with(|| definition.digested_text());
        if let Some(meta) = definition.meta() {
            texts
                .entry(meta.digest.to_string())
                .or_insert_with(|| meta.text.clone());
        }
    }
    if let Some(instructions) = &surface.instructions {
        texts.insert(
            instructions.digest.to_string(),
            instructions_to_text(instructions)?,
        );
    }
    for (digest, text) in &texts {
        on!(*session, connection => {
            sqlx::query(
                "INSERT INTO definition (digest, text, first_seen_at) VALUES ($1, $2, $3)
                 ON CONFLICT (digest) DO NOTHING",
            )
            .bind(digest).bind(stored(text)).bind(now)
            .execute(connection).await?;
        });
    }
    Ok(())
}

/// A recorded surface, whole.
pub(crate) async fn load(session: &mut Session, record: &str) -> Result<Surface, StoreError> {
    type Row = (
        String,
        Option<String>,
        Option<String>,
        Option<String>,
        String,
        String,
        String,
        String,
    );
    let row: Row = on!(*session, connection => {
        sqlx::query_as(
            "SELECT protocol_version, server_info, capabilities, instructions_digest,
                 tool_listing, prompt_listing, resource_listing, resource_template_listing
             FROM surface WHERE record = $1",
        )
        .bind(record).fetch_one(connection).await?
    });
    let instructions = match row.3 {
        Some(digest) => Some(load_instructions(session, &digest).await?),
        None => None,
    };
    let mut members = Vec::new();
    for (row, text, meta) in load_members(session, record).await? {
        members.push(rebuild(&row, &text, meta.as_deref())?);
    }
    Ok(Surface {
        protocol_version: restored(row.0)?,
        server_info: restored_option(row.1)?,
        capabilities: restored_option(row.2)?,
        instructions,
        members,
        listings: [
            listing_from_text(row.4)?,
            listing_from_text(row.5)?,
            listing_from_text(row.6)?,
            listing_from_text(row.7)?,
        ],
    })
}

/// Every member with its text and the text of its `_meta`, in the order sent.
async fn load_members(
    session: &mut Session,
    record: &str,
) -> Result<Vec<(MemberRow, String, Option<String>)>, StoreError> {
    type Row = (String, String, String, Option<String>, String, Option<String>);
    let rows: Vec<Row> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT m.kind, m.name, m.digest, m.meta_digest, d.text, t.text
             FROM surface_member m
             JOIN definition d ON d.digest = m.digest
             LEFT JOIN definition t ON t.digest = m.meta_digest
             WHERE m.record = $1 ORDER BY m.position",
        )
        .bind(record).fetch_all(connection).await?
    });
    rows.into_iter()
        .map(|(kind, name, digest, meta_digest, text, meta)| {
            let row = MemberRow {
                kind: member_kind(&kind)?,
                name: restored(name)?,
                digest,
                meta_digest,
            };
            Ok((row, restored(text)?, restored_option(meta)?))
        })
        .collect()
}

/// The digests of one surface's members of one kind, in the order sent.
pub(crate) async fn member_rows(
    session: &mut Session,
    record: &str,
    kind: MemberKind,
) -> Result<Vec<MemberRow>, StoreError> {
    let rows: Vec<(String, String, Option<String>)> = on!(*session, connection => {
        sqlx::query_as(
            "SELECT name, digest, meta_digest FROM surface_member WHERE record = $1 AND kind = $2 ORDER BY position",
        )
        .bind(record).bind(kind.name()).fetch_all(connection).await?
    });
    rows.into_iter()
        .map(|(name, digest, meta_digest)| {
            Ok(MemberRow {
                kind,
                name: restored(name)?,
                digest,
                meta_digest,
            })
        })
        .collect()
}

/// One member as it was sent, but for the order and spacing of its text.
pub(crate) async fn load_member(session: &mut Session, row: &MemberRow) -> Result<Member, StoreError> {
    let text = load_text(session, &row.digest).await?;
    let meta = match &row.meta_digest {
        Some(digest) => Some(load_text(session, digest).await?),
        None => None,
    };
    rebuild(row, &text, meta.as_deref())
}

/// Instructions by their digest.
pub(crate) async fn load_instructions(
    session: &mut Session,
    digest: &str,
) -> Result<Instructions, StoreError> {
    let kept = load_text(session, digest).await?;
    let text = json::read(&kept)
        .ok()
        .and_then(|document| document.value.as_str().map(str::to_owned))
        .ok_or_else(|| corrupt("instructions", digest))?;
    Ok(Instructions {
        text,
        digest: digest_from_text(digest)?,
    })
}

async fn load_text(session: &mut Session, digest: &str) -> Result<String, StoreError> {
    let text: Option<String> = on!(*session, connection => {
        sqlx::query_scalar("SELECT text FROM definition WHERE digest = $1")
            .bind(digest).fetch_optional(connection).await?
    });
    restored(text.ok_or_else(|| corrupt("a missing definition", digest))?)
}

/// Puts `_meta` back where the digest had left it out (a raw digest's text still has it).
fn rebuild(row: &MemberRow, text: &str, meta: Option<&str>) -> Result<Member, StoreError> {
    let digest = digest_from_text(&row.digest)?;
    let definition = match (meta, text.strip_suffix('}')) {
        (Some(meta), Some(open)) if !digest.is_raw() => {
            let comma = if open.ends_with('{') { "" } else { "," };
            Definition::read(&format!("{open}{comma}\"_meta\":{meta}}}"))
        }
        _ => Definition::read(text),
    };
    if definition.digest() != digest {
        return Err(corrupt("a definition that is not", &row.digest));
    }
    Ok(Member {
        kind: row.kind,
        name: row.name.clone(),
        definition,
    })
}

/// Instructions are kept as the JSON string that their digest covers. Where half a surrogate pair left only a raw
/// digest, the text as sent is gone by now, and what is kept under that digest has U+FFFD in its place.
fn instructions_to_text(instructions: &Instructions) -> Result<String, StoreError> {
    canonical(&Value::String(instructions.text.clone()), None).map_err(|reason| StoreError::Refused {
        what: format!("instructions without canonical text: {reason}"),
    })
}

/// SHA-256 over everything that is recorded, each field with its length before it, so that no two surfaces give
/// the same text.
fn record_of(surface: &Surface) -> String {
    let mut fields = Fields("surface record 1".to_owned());
    fields.add(Some(&surface.protocol_version));
    fields.add(surface.server_info.as_deref());
    fields.add(surface.capabilities.as_deref());
    fields.add_digest(
        surface
            .instructions
            .as_ref()
            .map(|instructions| instructions.digest),
    );
    for listing in &surface.listings {
        fields.add(Some(&listing_to_text(listing)));
    }
    for member in &surface.members {
        fields.add(Some(member.kind.name()));
        fields.add(Some(&member.name));
        fields.add_digest(Some(member.definition.digest()));
        fields.add_digest(member.definition.meta().map(|meta| meta.digest));
    }
    Digest::of_canonical(&fields.0).hex()
}

struct Fields(String);

impl Fields {
    fn add(&mut self, field: Option<&str>) {
        match field {
            Some(field) => self.0.push_str(&format!("\n{}:{field}", field.len())),
            None => self.0.push_str("\n-"),
        }
    }

    fn add_digest(&mut self, digest: Option<Digest>) {
        self.add(digest.map(|digest| digest.to_string()).as_deref());
    }
}

fn listing_to_text(listing: &Listing) -> String {
    match listing {
        Listing::Complete => "complete".to_owned(),
        Listing::NotDeclared => "not-declared".to_owned(),
        Listing::Failed { reason } => format!("failed: {reason}"),
    }
}

/// A listing from its column.
pub(crate) fn listing_from_text(kept: String) -> Result<Listing, StoreError> {
    let text = restored(kept)?;
    match text.as_str() {
        "complete" => Ok(Listing::Complete),
        "not-declared" => Ok(Listing::NotDeclared),
        _ => match text.strip_prefix("failed: ") {
            Some(reason) => Ok(Listing::Failed {
                reason: reason.to_owned(),
            }),
            None => Err(corrupt("a listing", &text)),
        },
    }
}

/// A member's kind from its column.
pub(crate) fn member_kind(name: &str) -> Result<MemberKind, StoreError> {
    MemberKind::from_name(name).ok_or_else(|| corrupt("a member's kind", name))
}

/// A digest from its column.
pub(crate) fn digest_from_text(text: &str) -> Result<Digest, StoreError> {
    text.parse().map_err(|_| corrupt("a digest", text))
}

/// What was found where something else was due.
pub(crate) fn corrupt(what: &str, value: &str) -> StoreError {
    StoreError::Corrupt {
        what: format!("{what} `{}`", value.escape_debug()),
    }
}

/// A length as databases count.
pub(crate) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
