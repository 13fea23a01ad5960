//! What gates ask an approver to decide about: definitions that were held there, of servers that the crawl may never see.
//!
//! Invariant: one definition of one tool is asked about once, whoever asks; what was asked is kept, so that what was decided about can
//! be shown later; an account has a bounded number of questions that are open.

use mcpindex_contract::approval::{Standing, State};
use mcpindex_contract::digest::Digest;

use super::queue::settled;
use super::{ChainState, fold, refused, rows, verified};
use crate::session::{Session, on};
use crate::surfaces::digest_from_text;
use crate::text::{restored, stored};
use crate::{Store, StoreError};

/// The most questions of one account that are open at the same time.
pub const MAX_OPEN: i64 = 1_000;
/// The most questions of one reading.
pub const MAX_READ: i64 = 200;
/// Definitions that are looked for by one statement.
const DEFINITIONS: usize = 500;

/// A question to add, whose digest is that of its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRequest {
    /// Which server.
    pub identity: String,
    /// Which tool of it.
    pub tool: String,
    /// Of the definition.
    pub digest: Digest,
    /// What the gate holds.
    pub definition: String,
    /// What the tool is pinned to there, where it is.
    pub baseline: Option<String>,
    /// What the person there has to say.
    pub note: Option<String>,
}

/// A question that is open.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its place among all.
    pub id: i64,
    /// What is asked.
    pub request: NewRequest,
    /// Who asked first: `login@issuer` as of now.
    pub by: String,
    /// When, unix seconds.
    pub at: i64,
    /// What was decided about exactly this and does not settle it.
    pub standing: Option<Standing>,
}

/// What is asked and not settled: parameters are the tenant, the last record that counts, and now.
macro_rules! open {
    ($records:literal, $what:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $what,
            " FROM (SELECT id, tool AS name, digest, definition, baseline, note, account, requested_at FROM approval_request) m
             JOIN approval_request s ON s.id = m.id JOIN account a ON a.id = m.account WHERE NOT ",
            settled!($records),
            " ",
            $rest
        )
    };
}

type Row = (
    i64,
    String,
    String,
    String,
    String,
    Option<String>,
    Option<String>,
    String,
    String,
    i64,
);

impl Store {
    /// Adds what is not asked yet, all or none; how many were new.
    ///
    /// [`StoreError::Refused`]: more than [`MAX_OPEN`] of this account would be open.
    pub async fn add_requests(
        &self,
        tenant: &str,
        account: i64,
        requests: &[NewRequest],
        now: i64,
    ) -> Result<u64, StoreError> {
        let mut session = self.write().await?;
        let mut added = 0;
        for request in requests {
            added += on!(session, connection => {
                sqlx::query(
                    "INSERT INTO approval_request (identity, tool, digest, definition, baseline, note, account, requested_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (digest, identity, tool) DO NOTHING",
                )
                .bind(stored(&request.identity)).bind(stored(&request.tool)).bind(request.digest.to_string())
                .bind(stored(&request.definition)).bind(request.baseline.as_deref().map(stored))
                .bind(request.note.as_deref().map(stored)).bind(account).bind(now)
                .execute(connection).await?.rows_affected()
            });
        }
        let good = rows::number(rows::head(&mut session, tenant).await?.sequence);
        let statement = match session.is_postgres() {
            false => open!("approval_record", "COUNT(*)", "AND m.account = $4"),
            true => open!("mcplock.approval_record", "COUNT(*)", "AND m.account = $4"),
        };
        let open: i64 = on!(session, connection => {
            sqlx::query_scalar(statement).bind(stored(tenant)).bind(good).bind(now).bind(account)
                .fetch_one(connection).await?
        });
        if added > 0 && open > MAX_OPEN {
            return Err(refused(format!(
                "you would have {open} questions open, at most {MAX_OPEN} are taken: wait until some are decided"
            )));
        }
        session.commit().await?;
        Ok(added)
    }

    /// The newest open questions before this one (`None`: before the end), at most `limit` of them and [`MAX_READ`]; and how the chain
    /// stands that says what is open.
    pub async fn open_requests(
        &self,
        tenant: &str,
        before: Option<i64>,
        limit: i64,
        now: i64,
    ) -> Result<(ChainState, Vec<Request>), StoreError> {
        let known = self.verified.of(tenant);
        let mut session = self.read().await?;
        let mut chain = verified::chain(self, &mut session, tenant, known, now).await?;
        macro_rules! newest {
            ($records:literal) => {
                open!(
                    $records,
                    "m.id, s.identity, m.name, m.digest, m.definition, m.baseline, m.note, a.login, a.issuer, m.requested_at",
                    "AND m.id < $4 ORDER BY m.id DESC LIMIT $5"
                )
            };
        }
        let statement = match session.is_postgres() {
            false => newest!("approval_record"),
            true => newest!("mcplock.approval_record"),
        };
        let rows: Vec<Row> = on!(session, connection => {
            sqlx::query_as(statement)
                .bind(stored(tenant)).bind(rows::number(chain.good)).bind(now).bind(before.unwrap_or(i64::MAX))
                .bind(limit.clamp(0, MAX_READ)).fetch_all(connection).await?
        });
        let mut requests = Vec::with_capacity(rows.len());
        for row in rows {
            requests.push(request_from_row(row)?);
        }
        let digests: Vec<Digest> = requests.iter().map(|request| request.request.digest).collect();
        let standings = fold(
            rows::of_digests(&mut session, tenant, &digests, 0).await?,
            &mut chain,
        );
        for request in &mut requests {
            let NewRequest {
                identity,
                tool,
                digest,
                ..
            } = &request.request;
            request.standing = standings.of(identity, tool, digest, now);
        }
        // What the statement could not tell to be settled is settled as the records have it.
        requests.retain(|request| {
            let state = request.standing.as_ref().map(|standing| standing.state);
            !matches!(state, Some(State::Approved | State::Refused))
        });
        Ok((chain, requests))
    }

    /// Of each definition, by identity, tool and digest, whether somebody ever asked about it.
    pub async fn were_requested(
        &self,
        definitions: &[(&str, &str, Digest)],
    ) -> Result<Vec<bool>, StoreError> {
        let mut session = self.read().await?;
        let mut requested = vec![false; definitions.len()];
        for (part, requested) in definitions
            .chunks(DEFINITIONS)
            .zip(requested.chunks_mut(DEFINITIONS))
        {
            let asked = asked(&mut session, part).await?;
            for ((identity, tool, digest), requested) in part.iter().zip(requested) {
                let key = (
                    stored(identity).to_string(),
                    stored(tool).to_string(),
                    digest.to_string(),
                );
                *requested = asked.contains(&key);
            }
        }
        Ok(requested)
    }
}

async fn asked(
    session: &mut Session,
    definitions: &[(&str, &str, Digest)],
) -> Result<Vec<(String, String, String)>, StoreError> {
    Ok(on!(*session, connection => {
        let mut statement =
            sqlx::QueryBuilder::new("SELECT identity, tool, digest FROM approval_request WHERE digest IN (");
        let mut list = statement.separated(", ");
        for (.., digest) in definitions {
            list.push_bind(digest.to_string());
        }
        statement.push(")");
        statement.build_query_as().fetch_all(connection).await?
    }))
}

fn request_from_row(row: Row) -> Result<Request, StoreError> {
    let (id, identity, tool, digest, definition, baseline, note, login, issuer, at) = row;
    Ok(Request {
        id,
        request: NewRequest {
            identity: restored(identity)?,
            tool: restored(tool)?,
            digest: digest_from_text(&digest)?,
            definition: restored(definition)?,
            baseline: baseline.map(restored).transpose()?,
            note: note.map(restored).transpose()?,
        },
        by: format!("{}@{}", restored(login)?, restored(issuer)?),
        at,
        standing: None,
    })
}
