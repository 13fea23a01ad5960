//! Taking in what installs tell, and answering what they told: the queue that commits many at once, the rule for
//! what is shown, and the work in the background (counting, days to come, days past keeping).
//!
//! Invariant: a signal is acknowledged after the commit that holds it and never before; whoever is turned away is told so,
//! and nothing of theirs is kept.

pub(crate) mod fleet;
mod queue;
pub(crate) mod recent;

use std::sync::Arc;
use std::time::Duration;

use mcpindex::clock::Clock;
use mcpindex_store::Store;
use mcpindex_store::receipts::ReceivedReceipt;
use mcpindex_store::signals::Received;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use fleet::FleetRule;
use queue::Queue;
use recent::Recent;

use crate::measure;

/// Between two countings.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// Between two looks at which days are to be prepared or to go.
const DAYS_EVERY: Duration = Duration::from_secs(3_600);

/// How signals are taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestRules {
    /// Whether whoever reaches the address may send and ask; else it takes a key.
    pub open: bool,
    /// What is shown of what installs told.
    pub fleet: FleetRule,
    /// Seconds that signals are kept; their counts stay.
    pub keep: i64,
    /// Whether receipts are taken.
    pub receipts: bool,
    /// Seconds that receipts are kept, those too that were taken when they were taken.
    pub keep_receipts: i64,
}

/// What handlers need of it.
pub struct Ingest {
    pub(crate) rules: IngestRules,
    pub(crate) queue: Queue<Received>,
    pub(crate) recent: Recent,
    /// `None` where receipts are not taken.
    pub(crate) receipts: Option<Queue<ReceivedReceipt>>,
}

/// The tasks behind an [`Ingest`].
pub struct Running {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Ingest {
    /// Starts the writers and the work in the background.
    pub fn start(store: &Store, clock: Arc<dyn Clock>, rules: IngestRules) -> (Arc<Ingest>, Running) {
        let stop = CancellationToken::new();
        let (queue, mut tasks) = Queue::start(store, &clock, &stop);
        tasks.push(tokio::spawn(count(store.clone(), stop.clone())));
        tasks.push(tokio::spawn(keep_days(
            store.clone(),
            Arc::clone(&clock),
            rules.keep,
            stop.clone(),
        )));
        tasks.push(tokio::spawn(keep_receipts(
            store.clone(),
            Arc::clone(&clock),
            rules.keep_receipts,
            stop.clone(),
        )));
        let receipts = rules.receipts.then(|| {
            let (queue, writers) = Queue::start(store, &clock, &stop);
            tasks.extend(writers);
            queue
        });
        let ingest = Ingest {
            rules,
            queue,
            recent: Recent::default(),
            receipts,
        };
        (Arc::new(ingest), Running { stop, tasks })
    }
}

impl Running {
    /// Takes nothing more in, writes what is waiting, and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a part of the ingest broke off");
            }
        }
    }
}

async fn count(store: Store, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(COUNT_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        // What is not counted now is counted the next time.
        if let Err(error) = store.count_signals().await {
            measure::store_error(&error);
            tracing::error!(%error, "signals could not be counted");
        }
    }
}

async fn keep_days(store: Store, clock: Arc<dyn Clock>, keep: i64, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(DAYS_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = clock.unix_seconds();
        if let Err(error) = store.prepare_signal_days(now).await {
            measure::store_error(&error);
            tracing::error!(%error, "the days to come could not be prepared");
        }
        match store.expire_signals(now, keep).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "signals past keeping are gone"),
            Err(error) => {
                measure::store_error(&error);
                tracing::error!(%error, "signals past keeping could not be let go");
            }
        }
    }
}

async fn keep_receipts(store: Store, clock: Arc<dyn Clock>, keep: i64, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(DAYS_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        match store.expire_receipts(clock.unix_seconds(), keep).await {
            Ok(0) => {}
            Ok(gone) => tracing::info!(gone, "receipts past keeping are gone"),
            Err(error) => {
                measure::store_error(&error);
                tracing::error!(%error, "receipts past keeping could not be let go");
            }
        }
    }
}
