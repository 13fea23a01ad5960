//! Deciding about tools: who may, about what, and who is told that somebody did.
//!
//! What is decided about is exactly one definition, which the index must have seen at that server under that name: a decision about
//! anything else is one about something that nobody was shown.
//!
//! Invariant: nothing is decided but by an approver or an admin; a call decides all that it names, or nothing.

use std::time::Duration;

use mcpindex_contract::approval::{DEFAULT_TENANT, Decision, Record};
use mcpindex_contract::digest::Digest;
use mcpindex_store::accounts::{Account, Role};
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::sightings::{Question, Reference};
use mcpindex_store::{Store, StoreError};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;

/// The most decisions of one call.
pub(crate) const MOST: usize = 256;
/// Seconds for which a decision can be undone by who made it.
pub(crate) const UNDO: i64 = 60;
/// Those who wait for the next decision at the same time; others are answered at once, and ask again.
const WAITING: usize = 2_000;
/// Between two looks at whether another process was told of a decision.
const LOOK: Duration = Duration::from_secs(1);

/// One decision that somebody wants to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) identity: String,
    pub(crate) tool: String,
    pub(crate) digest: Digest,
    pub(crate) decision: Decision,
    pub(crate) reason: Option<String>,
    pub(crate) reference: Option<String>,
    pub(crate) expires_at: Option<i64>,
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecideError {
    /// Only approvers and admins decide.
    #[error(
        "only an approver or an admin decides; an admin gives the role with `mcpindex-server admin role NAME approver`"
    )]
    NotAllowed,
    /// This definition was seen nowhere, so nobody can have been shown it.
    #[error("decisions[{item}]: the index has not seen this definition of the tool at this server")]
    NotShown { item: usize },
    /// Others have decided about the same definitions since.
    #[error("others have decided about the same definitions since")]
    Conflict(Vec<Record>),
    /// It is too late, or another's decision.
    #[error("record {sequence} {why}")]
    NotUndone { sequence: u64, why: &'static str },
    /// The request is no decision.
    #[error("{0}")]
    Bad(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How is decided here, and the news of it.
#[derive(Debug)]
pub struct Approvals {
    /// How many people an approval takes.
    needed: u8,
    /// The last record that this process knows of.
    head: watch::Sender<u64>,
    /// Whoever holds it looks for all who wait.
    looking: Mutex<()>,
    waiting: Semaphore,
    stop: CancellationToken,
}

impl Approvals {
    /// Nobody waits any more once `stop` is cancelled.
    pub fn new(two_person: bool, stop: CancellationToken) -> Approvals {
        Approvals {
            needed: if two_person { 2 } else { 1 },
            head: watch::Sender::new(0),
            looking: Mutex::new(()),
            waiting: Semaphore::new(WAITING),
            stop,
        }
    }

    /// How many people an approval takes.
    pub(crate) fn needed(&self) -> u8 {
        self.needed
    }

    /// Returns when there are records after this one, or after this time, or when there is no more to wait for.
    pub(crate) async fn wait(&self, store: &Store, after: u64, longest: Duration) {
        let Ok(_place) = self.waiting.try_acquire() else {
            return;
        };
        let mut head = self.head.subscribe();
        let told = async {
            tokio::select! {
                () = async { drop(head.wait_for(|head| *head > after).await) } => {}
                // One of those who wait looks for all of them; when it goes, another does.
                _turn = self.looking.lock() => self.look(store, after).await,
                () = self.stop.cancelled() => {}
            }
        };
        let _ = timeout(longest, told).await;
    }

    async fn look(&self, store: &Store, after: u64) {
        while !self.stop.is_cancelled() {
            match store.approvals_head(DEFAULT_TENANT).await {
                Ok(head) => self.tell(head),
                Err(error) => tracing::warn!(%error, "whether somebody decided could not be looked up"),
            }
            if *self.head.borrow() > after {
                return;
            }
            tokio::select! {
                () = sleep(LOOK) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    fn tell(&self, head: u64) {
        self.head.send_if_modified(|known| {
            let is_news = *known < head;
            *known = (*known).max(head);
            is_news
        });
    }
}

/// Decides, all or nothing. `seen` is the head's sequence when this person was shown what they decide about.
pub(crate) async fn decide(
    app: &App,
    account: &Account,
    wishes: &[Wish],
    seen: u64,
) -> Result<Vec<Record>, DecideError> {
    if account.role == Role::Member {
        return Err(DecideError::NotAllowed);
    }
    if wishes.is_empty() || wishes.len() > MOST {
        return Err(DecideError::Bad(format!("1 to {MOST} decisions")));
    }
    for (item, wish) in wishes.iter().enumerate() {
        if !was_shown(app, wish).await? {
            return Err(DecideError::NotShown { item });
        }
    }
    append(app, account, wishes, seen).await
}

async fn append(
    app: &App,
    account: &Account,
    wishes: &[Wish],
    seen: u64,
) -> Result<Vec<Record>, DecideError> {
    let decisions: Vec<NewDecision> = wishes
        .iter()
        .map(|wish| NewDecision {
            identity: wish.identity.clone(),
            tool: wish.tool.clone(),
            digest: wish.digest,
            decision: wish.decision,
            reason: wish.reason.clone(),
            reference: wish.reference.clone(),
            expires_at: wish.expires_at,
        })
        .collect();
    let needed = app.approvals.needed;
    let appended = app
        .store
        .append_approvals(
            DEFAULT_TENANT,
            &decisions,
            &account.who(),
            needed,
            seen,
            app.now(),
        )
        .await;
    match appended {
        Ok(Appended::Done(records)) => {
            app.approvals
                .tell(records.last().map_or(0, |record| record.sequence));
            Ok(records)
        }
        Ok(Appended::Conflict(others)) => Err(DecideError::Conflict(others)),
        Err(StoreError::Refused { what }) => Err(DecideError::Bad(what)),
        Err(error) => Err(error.into()),
    }
}

/// Whether the index saw this definition at this server under this name; of what is withdrawn, whether it was decided about.
async fn was_shown(app: &App, wish: &Wish) -> Result<bool, DecideError> {
    if wish.decision == Decision::Withdraw {
        let about = app
            .store
            .decisions_about(DEFAULT_TENANT, &wish.identity, &wish.tool, wish.digest)
            .await?;
        return Ok(!about.is_empty());
    }
    let question = Question {
        server: Reference::Name(wish.identity.clone()),
        tool: Some(Reference::Name(wish.tool.clone())),
        digest: Some(wish.digest),
        hash: None,
    };
    let found = app.store.sightings(&[question], app.now()).await?;
    Ok(found.iter().flat_map(|found| &found.servers).any(|found| {
        let is_it = (found.server.as_ref()).is_some_and(|server| server.identity == wish.identity);
        is_it
            && (found.namesakes.contains(&wish.digest)
                || (found.declared.iter()).any(|sighting| sighting.digest == wish.digest))
    }))
}

/// Takes back what this person decided within the last minute: what stood before is decided again, or else the decision withdrawn.
pub(crate) async fn undo(
    app: &App,
    account: &Account,
    sequences: &[u64],
) -> Result<Vec<Record>, DecideError> {
    if account.role == Role::Member {
        return Err(DecideError::NotAllowed);
    }
    if sequences.is_empty() || sequences.len() > MOST {
        return Err(DecideError::Bad(format!("1 to {MOST} numbers of records")));
    }
    let now = app.now();
    let mut wishes = Vec::with_capacity(sequences.len());
    for sequence in sequences.iter().copied() {
        let not_undone = |why| DecideError::NotUndone { sequence, why };
        let before = sequence
            .checked_sub(1)
            .ok_or(not_undone("is no record's number"))?;
        let (_, found) = app.store.approvals_since(DEFAULT_TENANT, before, 1).await?;
        let record = found.into_iter().find(|record| record.sequence == sequence);
        let record = record.ok_or(not_undone("is not there"))?;
        if record.subject != account.who() {
            return Err(not_undone("is another's decision"));
        }
        if now - record.at > UNDO {
            return Err(not_undone(
                "is older than a minute: decide anew, or withdraw the decision",
            ));
        }
        let (identity, tool) = (record.identity, record.tool);
        let mut about = app
            .store
            .decisions_about(DEFAULT_TENANT, &identity, &tool, record.digest)
            .await?;
        let later: Vec<Record> = about.extract_if(.., |other| other.sequence > sequence).collect();
        if !later.is_empty() {
            return Err(DecideError::Conflict(later));
        }
        let stood = about.into_iter().rev().find(|other| other.sequence < sequence);
        let stood = stood.filter(|stood| stood.expires_at.is_none_or(|expires_at| expires_at > now));
        wishes.push(Wish {
            identity,
            tool,
            digest: record.digest,
            decision: stood.as_ref().map_or(Decision::Withdraw, |stood| stood.decision),
            reason: stood.as_ref().and_then(|stood| stood.reason.clone()),
            reference: Some(format!("undo of #{sequence}")),
            expires_at: stood.and_then(|stood| stood.expires_at),
        });
    }
    let seen = sequences.iter().copied().max().unwrap_or(0);
    append(app, account, &wishes, seen).await
}
