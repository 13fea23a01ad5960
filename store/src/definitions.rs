//! Definitions by digest: each text is stored once, and its SHA-256 is its digest.

use std::collections::BTreeMap;

use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::{Member, MemberKind};

use crate::session::{Session, on};
use crate::surfaces::digest_from_text;
use crate::text::restored;
use crate::{Store, StoreError};

/// How many servers' declarations are named with a definition.
const MAX_DECLARED_BY: i64 = 50;
/// Texts that are read by one statement.
const TEXTS: usize = 500;

/// A stored text: a definition, a `_meta`, or instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// Its digest.
    pub digest: Digest,
    /// Canonical JSON (without `_meta`), or the text as sent where there is only a raw digest; instructions as a JSON
    /// string.
    pub text: String,
    /// When it was first seen anywhere.
    pub first_seen_at: i64,
    /// Who declares it now or did: identity, kind (of the member, or `instructions`), name; at most 50, by identity.
    /// Empty for a `_meta`.
    pub declared_by: Vec<(String, String, String)>,
}

impl Store {
    /// The text of this digest.
    pub async fn definition(&self, digest: &Digest) -> Result<Option<StoredDefinition>, StoreError> {
        let mut session = self.read().await?;
        let row: Option<(String, String, i64)> = on!(session, connection => {
            sqlx::query_as("SELECT digest, text, first_seen_at FROM definition WHERE digest = $1")
                .bind(digest.to_string()).fetch_optional(connection).await?
        });
        let Some((digest, text, first_seen_at)) = row else {
            return Ok(None);
        };
        let declared: Vec<(String, String)> = on!(session, connection => {
            sqlx::query_as("SELECT identity, kind FROM declaration WHERE digest = $1 ORDER BY identity, kind LIMIT $2")
                .bind(&digest).bind(MAX_DECLARED_BY).fetch_all(connection).await?
        });
        let text = restored(text)?;
        let declared_by = declared
            .into_iter()
            .map(|(identity, kind)| {
                // Instructions have no name; every other kind's stands in its text.
                let name = MemberKind::from_name(&kind).map(|kind| Member::read(kind, &text).name);
                Ok((restored(identity)?, kind, name.unwrap_or_default()))
            })
            .collect::<Result<_, StoreError>>()?;
        Ok(Some(StoredDefinition {
            digest: digest_from_text(&digest)?,
            text,
            first_seen_at,
            declared_by,
        }))
    }
}

/// The texts of these definitions, those that are kept.
pub(crate) async fn texts(
    session: &mut Session,
    digests: &[Digest],
) -> Result<BTreeMap<Digest, String>, StoreError> {
    let written: Vec<String> = digests.iter().map(Digest::to_string).collect();
    let mut texts = BTreeMap::new();
    for digests in written.chunks(TEXTS) {
        let rows: Vec<(String, String)> = on!(*session, connection => {
            let mut statement = sqlx::QueryBuilder::new("SELECT digest, text FROM definition WHERE digest IN (");
            let mut list = statement.separated(", ");
            for digest in digests {
                list.push_bind(digest.as_str());
            }
            statement.push(")");
            statement.build_query_as().fetch_all(connection).await?
        });
        for (digest, text) in rows {
            texts.insert(digest_from_text(&digest)?, restored(text)?);
        }
    }
    Ok(texts)
}
