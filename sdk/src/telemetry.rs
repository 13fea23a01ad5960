//! Tells an index of pins and drifts, and asks it whether others see the same: off unless a person switched it on.
//!
//! A gate is given a [`Watch`] ([`Telemetry::watch`]); what it shows there is put into a bounded buffer, from which one thread
//! of ours takes it. `telemetry on|off|status|show-payload|reset` is the person's end of it.
//!
//! | mode | asks | sends |
//! |---|---|---|
//! | `off` | no | no |
//! | `lookup` | yes | no |
//! | `detection`, `contribute` | yes | yes |
//!
//! Invariants: without an index that somebody chose, nothing is sent; no call and no listing ever waits for any of this;
//! what leaves the machine is fingerprints, digests and hashes, and a server that the public does not know is named to no
//! index but the organisation's own.

mod buffer;
mod greeting;
pub mod kept;
mod lookup;
pub mod mode;
mod payload;
mod preview;
mod registries;
mod scope;
mod sender;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use mcpindex_contract::identity::Identity;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::gate::sighting::{Sighting, Watch};
use crate::index::Chosen;
use crate::state::StateDirectory;
use buffer::{Buffer, Seen, Server};
use sender::Sender;

pub use buffer::BufferLimits;
pub(crate) use greeting::{Failure, own_key};
pub use lookup::Advice;
pub use mode::{Choice, Mode, ModeVariables, Source};
pub use payload::{Observed, Version, body};
pub use preview::{Preview, PreviewError, preview};
pub use registries::OwnRegistries;
pub(crate) use scope::{is_public, is_public_name};

/// How long [`Telemetry::finish`] waits for what is left to be told.
pub const FLUSH: Duration = Duration::from_millis(300);

/// Where telemetry keeps what it keeps.
fn directory(state: &StateDirectory) -> PathBuf {
    state.path().join("telemetry")
}

/// Told what an index answers; called from the thread of telemetry.
pub type Say = Arc<dyn Fn(Advice) + Send + Sync>;

/// What telemetry works with.
#[derive(Clone)]
pub struct TelemetryOptions {
    /// Anything but [`Mode::Off`] is asked about; see the module.
    pub mode: Mode,
    /// The index, and the key for it.
    pub index: Chosen,
    /// Where this install's number and the index's word are kept.
    pub state: StateDirectory,
    /// The time of day, for the hour in a signal.
    pub clock: Arc<dyn Clock>,
    /// Who is told of answers.
    pub say: Say,
    /// The packages that come from another registry here: the public does not know them.
    pub own_registries: OwnRegistries,
    /// How long it is waited between batches.
    pub pauses: Pauses,
    /// How much may wait to be told.
    pub limits: BufferLimits,
}

/// How long it is waited, each between two bounds, so that installs that see a new release at the same time don't all tell of
/// it in the same second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// From the first sighting to the first batch (1 to 4 s).
    pub first: Pause,
    /// Between later batches (22 to 38 s).
    pub between: Pause,
    /// Before the one retry of a batch (2 to 6 s); at most a minute where the index says so.
    pub retry: Pause,
}

/// Some time between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The shortest.
    pub from: Duration,
    /// The longest.
    pub to: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        let seconds = |from, to| Pause {
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
        };
        Pauses {
            first: seconds(1, 4),
            between: seconds(22, 38),
            retry: seconds(2, 6),
        }
    }
}

impl Pause {
    /// Another time between the bounds at each call.
    fn some(self) -> Duration {
        let mut random = [0; 4];
        // Without randomness all wait the same, which harms nobody.
        let _ = getrandom::fill(&mut random);
        let share = f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX);
        self.from + self.to.saturating_sub(self.from).mul_f64(share)
    }
}

/// What became of what was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sightings that gates showed.
    pub offered: u64,
    /// Sightings that found no room in the buffer.
    pub dropped: u64,
    /// Sightings of servers that this index must not hear of.
    pub left_out: u64,
    /// Sightings that the index was asked about, whatever it answered.
    pub asked: u64,
    /// Signals that the index acknowledged.
    pub sent: u64,
    /// Signals, or sightings where it did not get that far, that did not reach the index.
    pub failed: u64,
}

/// Telemetry at work. Clones are the same one.
#[derive(Clone)]
pub struct Telemetry {
    shared: Arc<Shared>,
    done: watch::Receiver<bool>,
}

struct Shared {
    options: TelemetryOptions,
    buffer: Buffer,
    counts: Mutex<Counts>,
    /// The thread is started by the first sighting: most sessions see nothing new.
    started: Once,
    done: watch::Sender<bool>,
}

impl Telemetry {
    /// Nothing is started, read or sent yet.
    pub fn new(options: TelemetryOptions) -> Telemetry {
        let (sender, done) = watch::channel(false);
        Telemetry {
            shared: Arc::new(Shared {
                buffer: Buffer::new(options.limits),
                counts: Mutex::default(),
                started: Once::new(),
                done: sender,
                options,
            }),
            done,
        }
    }

    /// For the gate of this server, which is called `shown` in texts for people.
    pub fn watch(&self, server: &Identity, shown: &str) -> Arc<dyn Watch> {
        Arc::new(Watching {
            shared: Arc::clone(&self.shared),
            server: Arc::new(Server {
                identity: server.clone(),
                shown: shown.to_owned(),
            }),
        })
    }

    /// What became of what was seen so far.
    pub fn counts(&self) -> Counts {
        let counts = *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (offered, dropped) = self.shared.buffer.counts();
        Counts {
            offered,
            dropped,
            ..counts
        }
    }

    /// Takes nothing in any more and tells what is left, for at most [`FLUSH`]; what is not told by then is lost. Needs a Tokio
    /// runtime with time.
    pub async fn finish(&self) {
        self.shared.buffer.close();
        if !self.shared.started.is_completed() {
            return;
        }
        let mut done = self.done.clone();
        // In vain, or the thread is gone: nobody waits longer.
        let _ = timeout(FLUSH, done.wait_for(|done| *done)).await;
    }
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn start(self: &Arc<Shared>) {
        let shared = Arc::clone(self);
        let work = move || {
            tell_all(&shared);
            shared.buffer.close();
            shared.done.send_replace(true);
        };
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(work);
        if thread.is_err() {
            self.buffer.close();
            self.done.send_replace(true);
        }
    }
}

fn tell_all(shared: &Arc<Shared>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    if let Ok(sender) = Sender::new(Arc::clone(shared)) {
        runtime.block_on(sender.run());
    }
    runtime.shutdown_background();
}

/// Shows what a gate sees to telemetry.
struct Watching {
    shared: Arc<Shared>,
    server: Arc<Server>,
}

impl Watch for Watching {
    fn seen(&self, sighting: Sighting) {
        if !self.shared.options.mode.asks() {
            return;
        }
        self.shared.buffer.offer(Seen {
            server: Arc::clone(&self.server),
            sighting,
            at: self.shared.options.clock.unix_seconds(),
        });
        self.shared.started.call_once(|| self.shared.start());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_another_one_each_time_and_within_its_bounds() {
        let pause = Pauses::default().between;
        let some: Vec<Duration> = (0..32).map(|_| pause.some()).collect();
        assert!(
            some.iter().all(|time| (pause.from..=pause.to).contains(time)),
            "{some:?}"
        );
        assert!(some.iter().any(|time| *time != some[0]), "{some:?}");
    }
}
