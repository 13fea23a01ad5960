//! Group commit: batches that arrive together become durable in one transaction.
//!
//! There is one for each kind of item (signals, receipts). A writer takes all that is here, up to 1,000 items, and waits for nothing
//! that is still to come: while it commits, others gather, so groups grow with the load and a single batch is committed at once. What
//! waits is bounded by items, not by batches, since they are what takes memory and time.
//!
//! Invariant: [`Queue::put`] returns `Ok` after the commit; a batch is in one transaction, whole.

use std::sync::Arc;

use mcpindex::clock::Clock;
use mcpindex_contract::signal::MAX_SIGNALS;
use mcpindex_store::receipts::ReceivedReceipt;
use mcpindex_store::signals::Received;
use mcpindex_store::{Store, StoreError};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::measure;

/// Items that may wait.
const ROOM: usize = 20_000;
/// Items of one transaction.
const MAX_GROUP: usize = 1_000;
/// Writers at the same time. On SQLite the second collects while the first commits.
const WRITERS: usize = 2;

/// Why a batch was not taken; nothing of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Too much is waiting, or the program is stopping: try again later.
    #[error("too much is waiting, try again in a moment")]
    Full,
    /// The database did not take it.
    #[error("the database could not take it, try again in a moment")]
    NotWritten,
}

/// What is kept in batches.
pub(crate) trait Item: Clone + Send + Sync + Sized + 'static {
    /// What many of them are called.
    const NAME: &'static str;

    /// Keeps these, all or none; gives how many were new.
    fn record(
        store: &Store,
        items: &[Self],
        now: i64,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

impl Item for Received {
    const NAME: &'static str = "signals";

    async fn record(store: &Store, items: &[Received], now: i64) -> Result<u64, StoreError> {
        store.record_signals(items, now).await
    }
}

impl Item for ReceivedReceipt {
    const NAME: &'static str = "receipts";

    async fn record(store: &Store, items: &[ReceivedReceipt], now: i64) -> Result<u64, StoreError> {
        store.record_receipts(items, now).await
    }
}

struct Waiting<T> {
    items: Vec<T>,
    done: oneshot::Sender<Result<(), Refused>>,
    /// Given back when the batch is done.
    room: OwnedSemaphorePermit,
}

/// Where batches wait for their commit.
pub(crate) struct Queue<T> {
    sender: mpsc::UnboundedSender<Waiting<T>>,
    room: Arc<Semaphore>,
}

impl<T: Item> Queue<T> {
    /// Starts the writers. They end when `stop` is cancelled and nothing waits any more.
    pub(super) fn start(
        store: &Store,
        clock: &Arc<dyn Clock>,
        stop: &CancellationToken,
    ) -> (Queue<T>, Vec<JoinHandle<()>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let writers = (0..WRITERS)
            .map(|_| {
                tokio::spawn(write(
                    store.clone(),
                    Arc::clone(clock),
                    Arc::clone(&receiver),
                    stop.clone(),
                ))
            })
            .collect();
        let room = Arc::new(Semaphore::new(ROOM));
        (Queue { sender, room }, writers)
    }

    /// How many items wait.
    pub(crate) fn waiting(&self) -> usize {
        ROOM - self.room.available_permits().min(ROOM)
    }

    /// Keeps a batch of at most [`MAX_SIGNALS`]; returns when it is durable.
    pub(crate) async fn put(&self, items: Vec<T>) -> Result<(), Refused> {
        let size = u32::try_from(items.len()).map_err(|_| Refused::Full)?;
        let room = Arc::clone(&self.room)
            .try_acquire_many_owned(size)
            .map_err(|_| Refused::Full)?;
        let (done, written) = oneshot::channel();
        let waiting = Waiting { items, done, room };
        self.sender.send(waiting).map_err(|_| Refused::Full)?;
        written.await.unwrap_or(Err(Refused::NotWritten))
    }
}

async fn write<T: Item>(
    store: Store,
    clock: Arc<dyn Clock>,
    receiver: Arc<Mutex<mpsc::UnboundedReceiver<Waiting<T>>>>,
    stop: CancellationToken,
) {
    loop {
        let group = collect(&mut *receiver.lock().await, &stop).await;
        if group.is_empty() {
            return;
        }
        let (items, senders): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|waiting| (waiting.items, (waiting.done, waiting.room)))
            .unzip();
        let written = T::record(&store, &items.concat(), clock.unix_seconds()).await;
        match &written {
            Ok(new) => measure::written(T::NAME, items.iter().map(Vec::len).sum(), *new),
            Err(error) => {
                measure::store_error(error);
                tracing::error!(%error, batches = senders.len(), "{} could not be written", T::NAME);
            }
        }
        for (done, _room) in senders {
            // A sender that went away doesn't want to know.
            let _ = done.send(written.as_ref().map(|_| ()).map_err(|_| Refused::NotWritten));
        }
    }
}

/// What is to be committed together; empty when there will be no more.
async fn collect<T>(
    receiver: &mut mpsc::UnboundedReceiver<Waiting<T>>,
    stop: &CancellationToken,
) -> Vec<Waiting<T>> {
    let first = match stop.run_until_cancelled(receiver.recv()).await {
        Some(first) => first,
        None => {
            // What waits is written still; what comes now is turned away.
            receiver.close();
            receiver.recv().await
        }
    };
    let Some(first) = first else {
        return Vec::new();
    };
    let mut size = first.items.len();
    let mut group = vec![first];
    let mut let_others_run = false;
    while size + MAX_SIGNALS <= MAX_GROUP {
        match receiver.try_recv() {
            Ok(next) => {
                size += next.items.len();
                group.push(next);
                let_others_run = false;
            }
            // Requests that are here already come along, those that are still to come don't.
            Err(_) if !let_others_run => {
                tokio::task::yield_now().await;
                let_others_run = true;
            }
            Err(_) => break,
        }
    }
    group
}
