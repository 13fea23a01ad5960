//! Group commit: batches that arrive together become durable in one transaction.
//!
//! A writer takes the first batch that waits, then what else comes within 5 ms, up to 1,000 signals. What waits is bounded
//! by signals, not by batches, since they are what takes memory and time.
//!
//! Invariant: [`Queue::put`] returns `Ok` after the commit; a batch is in one transaction, whole.

use std::sync::Arc;
use std::time::Duration;

use mcpindex::clock::Clock;
use mcpindex_contract::signal::MAX_SIGNALS;
use mcpindex_store::Store;
use mcpindex_store::signals::Received;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Signals that may wait.
const ROOM: usize = 20_000;
/// Signals of one transaction.
const MAX_GROUP: usize = 1_000;
/// How long a writer waits for more.
const WAIT: Duration = Duration::from_millis(5);
/// Writers at the same time. On SQLite the second collects while the first commits.
const WRITERS: usize = 2;

/// Why a batch was not taken; nothing of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Too much is waiting, or the program is stopping: try again later.
    #[error("too many signals are waiting, try again in a moment")]
    Full,
    /// The database did not take it.
    #[error("the database could not take the signals, try again in a moment")]
    NotWritten,
}

struct Waiting {
    signals: Vec<Received>,
    done: oneshot::Sender<Result<(), Refused>>,
    /// Given back when the batch is done.
    room: OwnedSemaphorePermit,
}

/// Where batches wait for their commit.
pub(crate) struct Queue {
    sender: mpsc::UnboundedSender<Waiting>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Starts the writers. They end when `stop` is cancelled and nothing waits any more.
    pub(super) fn start(
        store: &Store,
        clock: &Arc<dyn Clock>,
        stop: &CancellationToken,
    ) -> (Queue, Vec<JoinHandle<()>>) {
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

    /// Keeps a batch of at most [`MAX_SIGNALS`]; returns when it is durable.
    pub(crate) async fn put(&self, signals: Vec<Received>) -> Result<(), Refused> {
        let size = u32::try_from(signals.len()).map_err(|_| Refused::Full)?;
        let room = Arc::clone(&self.room)
            .try_acquire_many_owned(size)
            .map_err(|_| Refused::Full)?;
        let (done, written) = oneshot::channel();
        let waiting = Waiting { signals, done, room };
        self.sender.send(waiting).map_err(|_| Refused::Full)?;
        written.await.unwrap_or(Err(Refused::NotWritten))
    }
}

async fn write(
    store: Store,
    clock: Arc<dyn Clock>,
    receiver: Arc<Mutex<mpsc::UnboundedReceiver<Waiting>>>,
    stop: CancellationToken,
) {
    loop {
        let group = collect(&mut *receiver.lock().await, &stop).await;
        if group.is_empty() {
            return;
        }
        let (signals, senders): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|waiting| (waiting.signals, (waiting.done, waiting.room)))
            .unzip();
        let written = store
            .record_signals(&signals.concat(), clock.unix_seconds())
            .await;
        if let Err(error) = &written {
            tracing::error!(%error, batches = senders.len(), "signals could not be written");
        }
        for (done, _room) in senders {
            // A sender that went away doesn't want to know.
            let _ = done.send(written.as_ref().map(|_| ()).map_err(|_| Refused::NotWritten));
        }
    }
}

/// What is to be committed together; empty when there will be no more.
async fn collect(receiver: &mut mpsc::UnboundedReceiver<Waiting>, stop: &CancellationToken) -> Vec<Waiting> {
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
    let mut size = first.signals.len();
    let mut group = vec![first];
    let end = Instant::now() + WAIT;
    while size + MAX_SIGNALS <= MAX_GROUP {
        let Ok(Some(next)) = timeout_at(end, receiver.recv()).await else {
            break;
        };
        size += next.signals.len();
        group.push(next);
    }
    group
}
