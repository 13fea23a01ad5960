//! What is kept of a server beside what was observed, so that it is found: the fingerprints of all its tools (`signals`) and the
//! words it is searched by (`search`).
//!
//! Invariant: whatever adds an identity, an alias or a surface keeps what it is found by in the same transaction; what an older
//! program left out, or left without the organisation's key, is made up for in bounded steps.

use std::collections::BTreeSet;

use mcpindex_contract::surface::{MemberKind, Surface};

use crate::session::{Session, on};
use crate::signals::fingerprints;
use crate::text::restored;
use crate::{Store, StoreError, search};

/// Servers that are made up for in one transaction: on SQLite writers wait that long.
const PAGE: i64 = 20;
/// All is kept, but under the public constant alone.
const PUBLIC: i64 = 1;
/// All is kept, under the organisation's key too.
const ALL: i64 = 2;

impl Store {
    /// Makes up for servers that an older program added, or that were added before the organisation had a fingerprint key.
    /// Gives how many there were. May be stopped at any time, and several programs may call it at once.
    pub async fn keep_older_servers(&self) -> Result<usize, StoreError> {
        let mut done = 0;
        loop {
            // Found without the right to write, for which others would have to wait.
            let mut session = self.read().await?;
            let level = level(&mut session).await?;
            let identities: Vec<String> = on!(session, connection => {
                sqlx::query_scalar(
                    "SELECT identity FROM server WHERE findable < $1 ORDER BY findable, identity LIMIT $2",
                )
                .bind(level).bind(PAGE).fetch_all(connection).await?
            });
            drop(session);
            if identities.is_empty() {
                return Ok(done);
            }
            let mut session = self.write().await?;
            for identity in &identities {
                keep_all(&mut session, identity).await?;
            }
            session.commit().await?;
            done += identities.len();
        }
    }
}

/// How much can be kept now.
async fn level(session: &mut Session) -> Result<i64, StoreError> {
    let keys = fingerprints::keys(session).await?;
    Ok(if keys.len() > 1 { ALL } else { PUBLIC })
}

/// Keeps all that an identity (in its stored form) is found by.
pub(crate) async fn keep_all(session: &mut Session, identity: &str) -> Result<(), StoreError> {
    // First, since it waits for whoever records a look at this server: what they kept without the key is then seen here.
    on!(*session, connection => {
        sqlx::query("UPDATE server SET findable = findable WHERE identity = $1")
            .bind(identity).execute(connection).await?;
    });
    let level = level(session).await?;
    let tools: Vec<String> = on!(*session, connection => {
        sqlx::query_scalar(
            "SELECT DISTINCT m.name
             FROM (SELECT DISTINCT record FROM observation WHERE identity = $1 AND record IS NOT NULL) o
             JOIN surface_member m ON m.record = o.record
             WHERE m.kind = $2",
        )
        .bind(identity).bind(MemberKind::Tool.name()).fetch_all(connection).await?
    });
    let tools = tools.into_iter().map(restored).collect::<Result<_, _>>()?;
    fingerprints::keep(session, identity, &tools, true).await?;
    search::keep_words(session, identity, true).await?;
    on!(*session, connection => {
        sqlx::query("UPDATE server SET findable = $2 WHERE identity = $1")
            .bind(identity).bind(level).execute(connection).await?;
    });
    Ok(())
}

/// Keeps the tools of a surface that this identity (in its stored form) declares for the first time. The server is locked.
pub(crate) async fn keep_tools(
    session: &mut Session,
    identity: &str,
    surface: &Surface,
) -> Result<(), StoreError> {
    let tools: BTreeSet<String> = surface
        .members_of(MemberKind::Tool)
        .map(|tool| tool.name.clone())
        .collect();
    fingerprints::keep(session, identity, &tools, false).await
}

/// Keeps the words of what the server declares now, where that is another surface than before.
pub(crate) async fn keep_words(session: &mut Session, identity: &str) -> Result<(), StoreError> {
    search::keep_words(session, identity, false).await
}
