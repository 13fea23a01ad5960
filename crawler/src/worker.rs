//! Claims due targets, looks at each, records what was found.
//!
//! Each look runs as a task of its own under a lease that is held for as long as the look takes. What goes wrong with one
//! target (a panic, a lease lost, a result that can't be stored) is logged and ends there; what goes wrong with the database
//! is waited out.
//!
//! Invariant: a result is written only under the lease that its look was made under, and a look that is stopped gives its
//! lease back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcpindex::clock::Clock;
use mcpindex::wire::limits::Limits;
use mcpindex_contract::surface::{Listing, MemberKind};
use mcpindex_store::observations::{Finish, NewObservation, Recorded};
use mcpindex_store::pace::Pace;
use mcpindex_store::targets::{Lease, Target};
use mcpindex_store::{Store, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::CrawlError;
use crate::domain::domain_of;
use crate::event::Event;
use crate::guarded_client::GuardedClient;
use crate::look::{Look, Looker, interrupted};
use crate::package::Packages;
use crate::schedule::{next_due, spread};
use crate::settings::{Every, Settings};
use crate::sources::reading::read_next;

/// Looks at all servers of one registrable domain together, a day.
const LOOKS_A_DAY: i64 = 500;
/// Other processes may add targets at any time: the longest wait before asking again.
const LONGEST_POLL: Duration = Duration::from_secs(5);
/// The same for registries.
const LONGEST_SOURCE_POLL: Duration = Duration::from_secs(60);
const SHORTEST_POLL: Duration = Duration::from_secs(1);
/// Between two tries while the database fails, at most.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Tries to store one result, a doubling second apart.
const RECORD_TRIES: u32 = 5;
/// Tries to claim before [`Crawler::run_until_idle`] gives the error back.
const CLAIM_TRIES: u32 = 5;

/// The crawler: the same code in-process and alone.
pub struct Crawler {
    shared: Arc<Shared>,
}

/// What every look of one crawler uses.
struct Shared {
    store: Store,
    looker: Looker,
    clock: Arc<dyn Clock>,
    events: mpsc::UnboundedSender<Event>,
    worker: String,
    workers: usize,
    lease: i64,
    pace: Option<Pace>,
    every: Every,
    registries: Option<Vec<String>>,
    registries_every: i64,
    woken: Notify,
}

impl Crawler {
    /// A crawler; events go to `events`, which may be dropped by its reader at any time. The process must have installed a
    /// rustls crypto provider.
    pub fn new(
        store: Store,
        settings: Settings,
        clock: Arc<dyn Clock>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Crawler, CrawlError> {
        Crawler::with_limits(store, settings, Limits::crawl(), clock, events)
    }

    /// The same, with other limits on what a server may send and how long it may take.
    pub fn with_limits(
        store: Store,
        settings: Settings,
        limits: Limits,
        clock: Arc<dyn Clock>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Crawler, CrawlError> {
        let at_least_one = |setting, value: i64| match value {
            1.. => Ok(()),
            _ => Err(CrawlError::Setting {
                setting,
                reason: format!("{value} is too small: expected at least 1"),
            }),
        };
        at_least_one("crawl.every", settings.every.package)?;
        at_least_one("crawl.remote_every", settings.every.remote)?;
        at_least_one("crawl.registries_every", settings.registries_every)?;
        at_least_one("crawl.lease", settings.lease)?;
        at_least_one(
            "crawl.workers",
            i64::try_from(settings.workers).unwrap_or(i64::MAX),
        )?;
        std::fs::create_dir_all(&settings.cache).map_err(|error| CrawlError::Cache {
            path: settings.cache.display().to_string(),
            reason: error.to_string(),
        })?;
        let http = GuardedClient::new(&settings.allow_networks, settings.allow_http);
        let http = http
            .map(GuardedClient::following_redirects)
            .map_err(|reason| CrawlError::Setting {
                setting: "crawl.allow_networks",
                reason,
            })?;
        Ok(Crawler {
            shared: Arc::new(Shared {
                store,
                pace: (settings.pace > 0).then(|| Pace {
                    gap: settings.pace.saturating_add(longest_look(&limits)),
                    per_day: LOOKS_A_DAY,
                    domain_of,
                }),
                every: settings.every,
                registries: settings.registries.clone(),
                registries_every: settings.registries_every,
                looker: Looker::new(http, settings.cache.clone(), Packages::new(&settings), limits),
                worker: worker_name(clock.unix_seconds()),
                clock,
                events,
                workers: settings.workers,
                lease: settings.lease,
                woken: Notify::new(),
            }),
        })
    }

    /// Looks at one target and makes the observation; writes nothing. Every failure is an outcome.
    pub async fn look(&self, target: &Target) -> NewObservation {
        self.shared
            .looker
            .look(target, self.shared.clock.as_ref())
            .await
            .observation
    }

    /// What gets packages, and the jails that they run in.
    pub fn packages(&self) -> &Packages {
        self.shared.looker.packages()
    }

    /// Tells a running crawl that there may be something due now.
    pub fn wake(&self) {
        self.shared.woken.notify_one();
    }

    /// Reads what registries are due, claims and looks until nothing is due, then returns how many looks there were. A database that
    /// keeps failing ends it.
    pub async fn run_until_idle(&self, stop: &CancellationToken) -> Result<usize, CrawlError> {
        self.shared.keep_sources().await?;
        while self.shared.read_next(stop).await? {}
        self.crawl(stop, true).await
    }

    /// Claims and looks until stopped; looks under way are given back. A database that fails is waited out, but for one that
    /// a newer program has migrated.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), CrawlError> {
        // Ends with the looks, however those end.
        let reading = stop.child_token();
        let looks = async {
            let looked = self.crawl(stop, false).await;
            reading.cancel();
            looked
        };
        let (looked, ()) = tokio::join!(looks, self.shared.follow_sources(&reading));
        looked.map(|_| ())
    }

    async fn crawl(&self, stop: &CancellationToken, until_idle: bool) -> Result<usize, CrawlError> {
        let shared = &self.shared;
        let mut looks: JoinSet<bool> = JoinSet::new();
        let mut recorded = 0;
        let mut failed_claims = 0;
        let ended = loop {
            if stop.is_cancelled() {
                break Ok(());
            }
            let wait = match shared.claim(shared.workers - looks.len()).await {
                Ok(claimed) => {
                    failed_claims = 0;
                    if until_idle && claimed.is_empty() && looks.is_empty() {
                        break Ok(());
                    }
                    for (target, lease) in claimed {
                        looks.spawn(Arc::clone(shared).attend(target, lease, stop.clone()));
                    }
                    shared.until_due().await
                }
                Err(error) => {
                    failed_claims += 1;
                    let hopeless = matches!(error, StoreError::NewerSchema { .. });
                    if hopeless || (until_idle && failed_claims >= CLAIM_TRIES) {
                        break Err(error.into());
                    }
                    tracing::error!(%error, "no targets can be claimed, trying again");
                    doubling(failed_claims - 1)
                }
            };
            let has_free_slot = looks.len() < shared.workers;
            tokio::select! {
                () = stop.cancelled() => {}
                Some(look) = looks.join_next() => recorded += count(look),
                () = shared.woken.notified(), if has_free_slot => {}
                () = sleep(wait), if has_free_slot => {}
            }
        };
        while let Some(look) = looks.join_next().await {
            recorded += count(look);
        }
        ended.map(|()| recorded)
    }
}

impl Shared {
    async fn claim(&self, free: usize) -> Result<Vec<(Target, Lease)>, StoreError> {
        if free == 0 {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(free).unwrap_or(i64::MAX);
        self.store
            .claim_targets(
                &self.worker,
                self.clock.unix_seconds(),
                self.lease,
                limit,
                self.pace.as_ref(),
            )
            .await
    }

    /// Follows the registries of the settings and no others, where the settings name any.
    async fn keep_sources(&self) -> Result<(), CrawlError> {
        let Some(registries) = &self.registries else {
            return Ok(());
        };
        let now = self.clock.unix_seconds();
        let dropped = self
            .store
            .keep_sources(registries, self.registries_every, now)
            .await?;
        for address in dropped {
            tracing::info!(
                address,
                "off the list of registries: its servers are followed no more"
            );
        }
        Ok(())
    }

    /// Reads registries when they are due, until stopped. A database that fails is waited out.
    async fn follow_sources(&self, stop: &CancellationToken) {
        let mut is_kept = false;
        while !stop.is_cancelled() {
            let read = async {
                if !is_kept {
                    self.keep_sources().await?;
                    is_kept = true;
                }
                self.read_next(stop).await
            };
            match read.await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "registries can't be read, trying again"),
            }
            let wait = match self.store.next_source_due().await {
                Ok(Some(due)) => {
                    let seconds = due.saturating_sub(self.clock.unix_seconds());
                    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
                        .clamp(SHORTEST_POLL, LONGEST_SOURCE_POLL)
                }
                Ok(None) | Err(_) => LONGEST_SOURCE_POLL,
            };
            stop.run_until_cancelled(sleep(wait)).await;
        }
    }

    /// Reads the registry that is due longest; false when none is.
    async fn read_next(&self, stop: &CancellationToken) -> Result<bool, CrawlError> {
        let http = self.looker.http();
        let read = read_next(&self.store, http, &self.clock, &self.worker, self.every, stop).await?;
        let Some(read) = read else { return Ok(false) };
        tracing::info!(
            address = read.address,
            entries = read.entries,
            new = read.new,
            dropped = read.dropped,
            problem = read.problem,
            "read a registry"
        );
        if read.new > 0 {
            self.woken.notify_one();
        }
        self.tell(Event::Read(read));
        Ok(true)
    }

    /// How long to wait for the next target.
    async fn until_due(&self) -> Duration {
        match self.store.next_due().await {
            Ok(Some(due)) => {
                let seconds = due.saturating_sub(self.clock.unix_seconds());
                Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).clamp(SHORTEST_POLL, LONGEST_POLL)
            }
            Ok(None) | Err(_) => LONGEST_POLL,
        }
    }

    /// Looks at one target under its lease and records what came of it; true when it is recorded.
    async fn attend(self: Arc<Self>, target: Target, lease: Lease, stop: CancellationToken) -> bool {
        self.tell(Event::Started {
            identity: target.identity.clone(),
            version: target.version.clone(),
        });
        let (shared, looked_at) = (Arc::clone(&self), target.clone());
        let look = async move { shared.looker.look(&looked_at, shared.clock.as_ref()).await };
        self.conclude(&target, lease, look, &stop).await
    }

    /// Runs a look to its end and records it; true when it is recorded.
    async fn conclude(
        &self,
        target: &Target,
        lease: Lease,
        look: impl Future<Output = Look> + Send + 'static,
        stop: &CancellationToken,
    ) -> bool {
        // A task of its own, so that a panic ends the look and not the crawl.
        let look = AbortOnDropHandle::new(tokio::spawn(look));
        let Some(ended) = self.hold(look, lease, target, stop).await else {
            return false;
        };
        let look = ended.unwrap_or_else(|error| {
            tracing::error!(identity = target.identity, %error, "a look broke off");
            let problem = "the look broke off by a fault of the crawler";
            interrupted(target, problem, self.clock.unix_seconds())
        });
        self.record(target, lease, &look, stop).await
    }

    /// Waits for a look and holds its lease meanwhile; `None` when the crawl is stopped (the lease is given back) or when
    /// another worker has taken the target over.
    async fn hold(
        &self,
        mut look: AbortOnDropHandle<Look>,
        lease: Lease,
        target: &Target,
        stop: &CancellationToken,
    ) -> Option<Result<Look, JoinError>> {
        let third = Duration::from_secs(u64::try_from(self.lease).unwrap_or(1)) / 3;
        let mut beat = interval_at(Instant::now() + third, third);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = &mut look => return Some(ended),
                () = stop.cancelled() => {
                    // Whatever the look started is ended before its target is anybody else's.
                    look.abort();
                    let _ = look.await;
                    if let Err(error) = self.store.release(lease, self.clock.unix_seconds()).await {
                        tracing::warn!(identity = target.identity, %error, "a lease can't be given back and will run out");
                    }
                    return None;
                }
                _ = beat.tick() => {
                    match self.store.extend_lease(lease, self.clock.unix_seconds() + self.lease).await {
                        Ok(()) => {}
                        Err(error @ StoreError::LeaseLost { .. }) => {
                            tracing::warn!(identity = target.identity, %error, "a look is dropped");
                            return None;
                        }
                        Err(error) => {
                            tracing::warn!(identity = target.identity, %error, "a lease can't be extended, trying again");
                        }
                    }
                }
            }
        }
    }

    /// Records a look and tells about it. A result that the database refuses is recorded as one that was cut off, so that its
    /// target does not come up again and again.
    async fn record(&self, target: &Target, lease: Lease, look: &Look, stop: &CancellationToken) -> bool {
        let error = match self.store_result(target, lease, look, stop).await {
            Ok(recorded) => {
                self.report(target, &look.observation, &recorded).await;
                return true;
            }
            Err(error) => error,
        };
        tracing::error!(identity = target.identity, %error, "a result is not recorded");
        if matches!(error, StoreError::LeaseLost { .. }) || stop.is_cancelled() {
            return false;
        }
        let cut_off = interrupted(
            target,
            "the result could not be stored",
            self.clock.unix_seconds(),
        );
        match self.store_result(target, lease, &cut_off, stop).await {
            Ok(recorded) => {
                self.report(target, &cut_off.observation, &recorded).await;
                true
            }
            Err(error) => {
                tracing::error!(identity = target.identity, %error, "nor is that; the lease will run out");
                false
            }
        }
    }

    async fn store_result(
        &self,
        target: &Target,
        lease: Lease,
        look: &Look,
        stop: &CancellationToken,
    ) -> Result<Recorded, StoreError> {
        let now = self.clock.unix_seconds();
        let due =
            next_due(target.every, target.failures, look.ended, now).map(|due| spread(target.id, now, due));
        let mut tries = 0;
        loop {
            let recorded = self
                .store
                .record_observation(&look.observation, Some(Finish { lease, due }))
                .await;
            let error = match recorded {
                Ok(recorded) => return Ok(recorded),
                Err(error) => error,
            };
            tries += 1;
            let may_pass = matches!(error, StoreError::Database(_) | StoreError::Unreachable { .. });
            if !may_pass || tries >= RECORD_TRIES || stop.is_cancelled() {
                return Err(error);
            }
            tracing::warn!(identity = target.identity, %error, "a result can't be stored, trying again");
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(doubling(tries - 1)) => {}
            }
        }
    }

    async fn report(&self, target: &Target, observation: &NewObservation, recorded: &Recorded) {
        let version = observation
            .artifact
            .as_ref()
            .map(|artifact| artifact.version.clone())
            .or_else(|| target.version.clone());
        let (kinds, changed) = match recorded.drift {
            Some(drift) => match self.store.drift(drift).await {
                Ok(Some((record, _))) => (record.kinds, record.changed),
                Ok(None) | Err(_) => Default::default(),
            },
            None => Default::default(),
        };
        tracing::info!(
            identity = target.identity,
            version,
            outcome = observation.outcome.name(),
            changes = recorded.changes,
            detail = observation.detail,
            "looked"
        );
        self.tell(Event::Looked {
            identity: target.identity.clone(),
            version,
            outcome: observation.outcome,
            detail: observation.detail.clone(),
            tools: listed_tools(observation),
            drift: recorded.drift,
            kinds,
            changed,
            compared: recorded.compared,
        });
    }

    fn tell(&self, event: Event) {
        // Whoever listened may be gone; the crawl is not for them alone.
        let _ = self.events.send(event);
    }
}

/// How many tools were listed, where that list was read to its end.
fn listed_tools(observation: &NewObservation) -> Option<usize> {
    let surface = observation.surface.as_ref()?;
    let failed = matches!(surface.listing(MemberKind::Tool), Listing::Failed { .. });
    (!failed).then(|| surface.members_of(MemberKind::Tool).count())
}

fn count(look: Result<bool, JoinError>) -> usize {
    match look {
        Ok(recorded) => usize::from(recorded),
        Err(error) => {
            tracing::error!(%error, "a look was lost; its lease will run out");
            0
        }
    }
}

/// How long a look at a remote server may take, in seconds.
fn longest_look(limits: &Limits) -> i64 {
    i64::try_from(limits.whole.as_secs()).unwrap_or(i64::MAX)
}

fn doubling(times: u32) -> Duration {
    Duration::from_secs(1_u64 << times.min(6)).min(LONGEST_RETRY)
}

/// A name for this crawler's leases. It is for people who read the table: what keeps workers apart is the epoch.
fn worker_name(now: i64) -> String {
    static CRAWLERS: AtomicU32 = AtomicU32::new(0);
    let number = CRAWLERS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{now}-{number}", std::process::id())
}

#[cfg(test)]
mod tests {
    use mcpindex::clock::SystemClock;
    use mcpindex_contract::identity::Identity;
    use mcpindex_contract::outcome::Outcome;
    use mcpindex_store::targets::NewTarget;
    use mcpindex_store::testing::TestStore;

    use super::*;

    #[tokio::test]
    async fn a_look_that_panics_is_recorded_as_interrupted_and_tried_again() {
        // The provider may be there from another test.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let database = TestStore::sqlite().await;
        let cache = tempfile::tempdir().unwrap();
        let settings = Settings {
            every: Every {
                package: 86_400,
                remote: 3_600,
            },
            registries: None,
            pace: 0,
            registries_every: 3_600,
            workers: 1,
            allow_networks: Vec::new(),
            allow_http: false,
            entrance: std::path::PathBuf::new(),
            node: None,
            python: None,
            read: Vec::new(),
            cache: cache.path().to_owned(),
            lease: 60,
        };
        let (events, _) = mpsc::unbounded_channel();
        let store = database.store.clone();
        let crawler = Crawler::new(store.clone(), settings, Arc::new(SystemClock), events).unwrap();
        let target = NewTarget {
            identity: Identity::from_url("https://mcp.example.com/mcp").unwrap(),
            version: None,
            launch: r#"{"url":"https://mcp.example.com/mcp"}"#.to_owned(),
            source: "shell".to_owned(),
            every: None,
            due: 0,
        };
        store.add_target(&target, 0).await.unwrap();
        let (target, lease) = crawler.shared.claim(1).await.unwrap().remove(0);
        let stop = CancellationToken::new();

        let broken = async { panic!("a fault that nobody thought of") };
        assert!(crawler.shared.conclude(&target, lease, broken, &stop).await);

        let after = store.targets(None).await.unwrap().remove(0);
        assert_eq!(after.outcome, Some(Outcome::Interrupted));
        assert!(after.due.is_some(), "{after:?}");
    }
}
