//! Deciding about tools: who may, about what, and who is told that somebody did.
//!
//! What is decided about is exactly one definition, which the index must have seen at that server under that name: a decision about
//! anything else is one about something that nobody was shown.
//!
//! Invariant: nothing is decided but by an approver or an admin; a call decides all that it names, or nothing.

use std::time::Duration;

use mcpindex::visible::visible_within;
use mcpindex_contract::approval::{DEFAULT_TENANT, Decision, Record};
use mcpindex_contract::digest::Digest;
use mcpindex_store::accounts::{Account, Role};
use mcpindex_store::approvals::queue::Scope;
use mcpindex_store::approvals::{Appended, MAX_RECORDS, NewDecision};
use mcpindex_store::{Store, StoreError};
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::ApprovalSettings;

/// The most decisions of one call.
pub(crate) const MOST: usize = 256;
/// Seconds for which a decision can be undone by who made it.
pub(crate) const UNDO: i64 = 60;
/// The longest name of a tool that an error repeats, in characters.
const MAX_NAME: usize = 100;
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

impl Wish {
    fn about(&self) -> (&str, &str, Digest) {
        (&self.identity, &self.tool, self.digest)
    }
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecideError {
    /// Only approvers and admins decide.
    #[error(
        "only an approver or an admin decides; an admin gives the role with `mcpindex-server admin role NAME approver`"
    )]
    NotAllowed,
    /// Nobody can have been shown what this one is about.
    #[error("decisions[{item}]: {}", match .decision {
        Decision::Withdraw => "nobody has decided about this definition, so there is nothing to withdraw",
        Decision::Approve | Decision::Refuse => "the index has not seen this definition of the tool at this server",
    })]
    NotShown { item: usize, decision: Decision },
    /// Others have decided about the same definitions since.
    #[error("others have decided about the same definitions since")]
    Conflict(Vec<Record>),
    /// It is too late, or another's decision.
    #[error("record {sequence} {why}")]
    NotUndone { sequence: u64, why: &'static str },
    /// It is nothing that could be decided.
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
    scope: Scope,
    /// The last record that this process knows of.
    head: watch::Sender<u64>,
    /// Whoever holds it looks for all who wait.
    looking: Mutex<()>,
    waiting: Semaphore,
    stop: CancellationToken,
}

impl Approvals {
    /// Nobody waits any more once `stop` is cancelled.
    pub fn new(settings: &ApprovalSettings, stop: CancellationToken) -> Approvals {
        Approvals {
            needed: if settings.two_person { 2 } else { 1 },
            scope: settings.queue,
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

    /// Whose tools wait for somebody to decide.
    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns when there are records after this one, or after this time, or when there is no more to wait for.
    pub(crate) async fn wait(&self, store: &Store, after: u64, longest: Duration) {
        let Ok(_place) = self.waiting.try_acquire() else {
            return;
        };
        let mut head = self.head.subscribe();
        let told = async {
            tokio::select! {
                _ = head.wait_for(|head| *head > after) => {}
                () = self.look(store) => {}
                () = self.stop.cancelled() => {}
            }
        };
        let _ = timeout(longest, told).await;
    }

    /// One of those who wait looks for all of them; when it goes, another does.
    async fn look(&self, store: &Store) {
        let _turn = self.looking.lock().await;
        loop {
            match store.approvals_head(DEFAULT_TENANT).await {
                Ok(head) => self.tell(head),
                Err(error) => tracing::warn!(%error, "whether somebody decided could not be looked up"),
            }
            sleep(LOOK).await;
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
        return Err(DecideError::Bad(format!("a call takes 1 to {MOST} decisions")));
    }
    let is_unreadable = |wish: &&Wish| wish.decision == Decision::Approve && wish.digest.is_raw();
    if let Some(wish) = wishes.iter().find(is_unreadable) {
        return Err(DecideError::Bad(format!(
            "`{}` is defined in a way that readers read differently, so that nobody knows what would be approved: it can be refused",
            visible_within(&wish.tool, MAX_NAME)
        )));
    }
    if let Some((item, decision)) = first_not_shown(app, wishes).await? {
        return Err(DecideError::NotShown { item, decision });
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

/// The first of these that nobody can have been shown: no look saw that definition at that server under that name, and no gate
/// asked about it; of what is withdrawn, nobody decided about it.
async fn first_not_shown(app: &App, wishes: &[Wish]) -> Result<Option<(usize, Decision)>, DecideError> {
    let definitions: Vec<(&str, &str, Digest)> = wishes.iter().map(Wish::about).collect();
    let mut shown = app.store.were_declared(&definitions).await?;
    if shown.contains(&false) {
        // What gates ask about may be of servers that nobody crawls.
        for (shown, requested) in shown
            .iter_mut()
            .zip(app.store.were_requested(&definitions).await?)
        {
            *shown |= requested;
        }
    }
    let withdrawn = wishes.iter().filter(|wish| wish.decision == Decision::Withdraw);
    let withdrawn: Vec<Digest> = withdrawn.map(|wish| wish.digest).collect();
    let decided = app.store.decisions_about(DEFAULT_TENANT, &withdrawn).await?;
    let is_shown = |(wish, shown): (&Wish, bool)| match wish.decision {
        Decision::Withdraw => decided.iter().any(|record| about(record) == wish.about()),
        Decision::Approve | Decision::Refuse => shown,
    };
    let items = wishes.iter().zip(shown).enumerate();
    let mut not_shown = items.filter(|(_, item)| !is_shown(*item));
    Ok(not_shown.next().map(|(item, (wish, _))| (item, wish.decision)))
}

fn about(record: &Record) -> (&str, &str, Digest) {
    (&record.identity, &record.tool, record.digest)
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
    let (Some(first), Some(last)) = (sequences.iter().min(), sequences.iter().max()) else {
        return Err(DecideError::Bad("no number of a record was given".to_owned()));
    };
    if sequences.len() > MOST {
        return Err(DecideError::Bad(format!(
            "a call takes at most {MOST} numbers of records"
        )));
    }
    let (now, who) = (app.now(), account.who());
    // What one person decided within a minute lies close together.
    let before = first.saturating_sub(1);
    let (_, found) = app
        .store
        .approvals_since(DEFAULT_TENANT, before, MAX_RECORDS)
        .await?;
    let mut undone = Vec::with_capacity(sequences.len());
    for sequence in sequences.iter().copied() {
        let not_undone = |why| DecideError::NotUndone { sequence, why };
        let record = found.iter().find(|record| record.sequence == sequence);
        let record = record.ok_or(not_undone("is not there"))?;
        if record.subject != who {
            return Err(not_undone("is another's decision"));
        }
        if now - record.at > UNDO {
            return Err(not_undone(
                "is older than a minute: decide anew, or withdraw the decision",
            ));
        }
        undone.push(record);
    }
    let digests: Vec<Digest> = undone.iter().map(|record| record.digest).collect();
    let decided = app.store.decisions_about(DEFAULT_TENANT, &digests).await?;
    let mut wishes = Vec::with_capacity(undone.len());
    for record in undone {
        let mut others: Vec<&Record> = decided
            .iter()
            .filter(|other| about(other) == about(record))
            .collect();
        others.sort_unstable_by_key(|other| other.sequence);
        if others.iter().any(|other| other.sequence > record.sequence) {
            others.retain(|other| other.sequence > record.sequence);
            return Err(DecideError::Conflict(others.into_iter().cloned().collect()));
        }
        let stood = others
            .into_iter()
            .rev()
            .find(|other| other.sequence < record.sequence);
        let stood = stood.filter(|stood| can_stand_again(stood, app.approvals.needed, &who, now));
        wishes.push(Wish {
            identity: record.identity.clone(),
            tool: record.tool.clone(),
            digest: record.digest,
            decision: stood.map_or(Decision::Withdraw, |stood| stood.decision),
            reason: stood.and_then(|stood| stood.reason.clone()),
            reference: Some(format!("undo of #{}", record.sequence)),
            expires_at: stood.and_then(|stood| stood.expires_at),
        });
    }
    append(app, account, &wishes, *last).await
}

/// Whether who undoes may restate this. Where approvals take two, another's would become theirs, and count as a second one.
fn can_stand_again(stood: &Record, needed: u8, who: &str, now: i64) -> bool {
    let is_good = stood.expires_at.is_none_or(|expires_at| expires_at > now);
    let most = needed.max(stood.needed);
    let is_theirs = most == 1 || (stood.subject == who && stood.needed <= needed);
    is_good && (stood.decision != Decision::Approve || is_theirs)
}
