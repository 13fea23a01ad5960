//! What the organisation decided about tools, as an index's chain of records says it, for the gates of this machine.
//!
//! One thread ([`Approvals::follow`]) reads what was kept on disk (`cache`), asks the index for what came since, verifies it as
//! one chain and only then shows it to gates as a [`View`]. A gate looks at the view and never waits for the index.
//!
//! Invariants: nothing is shown to a gate that was not verified up to the head that the index stated; what does not continue
//! the chain that was verified before changes nothing, and is said; a refusal counts however long ago the index was heard, an
//! approval sets nothing free once that is longer ago than admitted.

mod cache;
mod follow;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::index::Chosen;
use crate::state::StateDirectory;
use follow::Follower;

pub use cache::{Cache, CacheError, Kept, MAX_RECORDS};
pub use view::{View, Word};

/// How long ago the index may have been heard for its approvals to set anything free.
pub const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a gate waits for what is kept on disk to be read, which takes milliseconds.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Told what a person should know, one line each; called from the thread that follows.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// What an index is followed with.
#[derive(Clone)]
pub struct FollowOptions {
    /// The index, and the key for it.
    pub index: Chosen,
    /// Where what it said is kept.
    pub state: StateDirectory,
    /// The servers whose decisions are wanted, by the written form of their identities; others are verified and not kept in memory.
    pub identities: Vec<String>,
    /// See [`MAX_AGE`].
    pub max_age: Duration,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Who is told of trouble.
    pub say: Say,
    /// How long it is waited between questions.
    pub pauses: Pauses,
}

/// How long it is waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// Between questions to an index that does not keep one open until there is news (3 s).
    pub between: Duration,
    /// Before the first retry (1 s); each one after it waits twice as long.
    pub retry: Duration,
    /// The longest wait before a retry (60 s).
    pub longest: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses {
            between: Duration::from_secs(3),
            retry: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

/// The organisation's decisions as they are known now. Clones are the same one; when the last is dropped, nobody follows the
/// index any more.
#[derive(Clone)]
pub struct Approvals {
    shared: Arc<Shared>,
    /// Dropped with the last clone, which ends the thread.
    _follows: Option<Arc<watch::Sender<()>>>,
}

/// What gates look at, and the thread writes.
struct Shared {
    view: RwLock<Arc<View>>,
    /// Counts the times at which some word may have become another one.
    turn: AtomicU64,
    /// Whether what is kept on disk was read.
    is_read: Mutex<bool>,
    read: Condvar,
}

impl Approvals {
    /// Decisions that nobody follows: they are what [`Approvals::show`] says.
    pub fn of(view: View) -> Approvals {
        Approvals {
            shared: Shared::new(view, true),
            _follows: None,
        }
    }

    /// Starts the thread that follows this index. Without one nothing is known, and that is said.
    pub fn follow(options: FollowOptions) -> Approvals {
        let shared = Shared::new(View::unheard(options.max_age), false);
        let (sender, stop) = watch::channel(());
        let work = {
            let (shared, options) = (Arc::clone(&shared), options.clone());
            move || follow_on(&shared, options, stop)
        };
        let thread = thread::Builder::new().name("approvals".to_owned()).spawn(work);
        if let Err(error) = thread {
            (options.say)(&format!(
                "the organisation's decisions are not followed: no thread could be started: {error}"
            ));
            shared.was_read();
        }
        Approvals {
            shared,
            _follows: Some(Arc::new(sender)),
        }
    }

    /// Shows other decisions from now on.
    pub fn show(&self, view: View) {
        self.shared.show(view, true);
    }

    /// What is known now. The first look waits until what is kept on disk was read, never for the index.
    pub fn view(&self) -> Arc<View> {
        self.shared.wait_until_read();
        let view = self.shared.view.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&view)
    }

    /// Another number whenever a word may have become another one for another reason than the time. Read before
    /// [`Approvals::view`], so that what comes between is seen as news.
    pub fn turn(&self) -> u64 {
        self.shared.turn.load(Ordering::Acquire)
    }
}

impl Shared {
    fn new(view: View, is_read: bool) -> Arc<Shared> {
        Arc::new(Shared {
            view: RwLock::new(Arc::new(view)),
            turn: AtomicU64::new(0),
            is_read: Mutex::new(is_read),
            read: Condvar::new(),
        })
    }

    fn show(&self, view: View, is_news: bool) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        if is_news {
            self.turn.fetch_add(1, Ordering::Release);
        }
    }

    fn was_read(&self) {
        *self.is_read.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.read.notify_all();
    }

    fn wait_until_read(&self) {
        let is_read = self.is_read.lock().unwrap_or_else(PoisonError::into_inner);
        // A disk that takes longer than that is news when it has been read, as everything later is.
        drop(
            self.read
                .wait_timeout_while(is_read, READ_LIMIT, |is_read| !*is_read),
        );
    }
}

fn follow_on(shared: &Arc<Shared>, options: FollowOptions, stop: watch::Receiver<()>) {
    let say = Arc::clone(&options.say);
    let mut follower = Follower::new(Arc::clone(shared), options);
    follower.read_kept();
    shared.was_read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            runtime.block_on(follower.run(stop));
            runtime.shutdown_background();
        }
        Err(error) => say(&format!(
            "the organisation's decisions are not followed: the runtime could not be set up: {error}"
        )),
    }
}
