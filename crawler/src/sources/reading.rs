//! Reading the registries that an index follows: which is due, what its entries mean for what is followed, and when it is due again.
//!
//! Invariant: what a registry says starts nothing by itself; it becomes targets that are looked at as all others are, by the address
//! rules and in a jail.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::clock::Clock;
use mcpindex::visible::visible_within;
use mcpindex::wire::http::HttpClient;
use mcpindex_contract::identity::Identity;
use mcpindex_store::sources::{Coverage, Reading, ReadingEnd, SourceEntry, SourceRecord, Taken};
use mcpindex_store::targets::NewTarget;
use mcpindex_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use super::registry::{Entry, Page, Reached, Registry, RegistryError, RegistryLimits, Sink, Status};
use crate::CrawlError;
use crate::schedule::after_failed_reading;
use crate::settings::Every;
use crate::target::{Reach, TargetSpec};

/// Seconds that a reading may go without a page before another worker takes it over.
const LEASE: i64 = 900;
/// Seconds after which everything is read again, and not only what was changed: what could not be read once may be readable now.
const WHOLE_EVERY: i64 = 7 * 86_400;
/// Characters of a problem.
const MAX_PROBLEM: usize = 300;

/// What one reading came to, for whoever is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The source.
    pub address: String,
    /// Entries read.
    pub entries: usize,
    /// Targets that are new.
    pub new: i64,
    /// Targets that are followed no more.
    pub dropped: i64,
    /// Why it broke off.
    pub problem: Option<String>,
}

/// Reads the source that is due longest, if one is due.
pub(crate) async fn read_next(
    store: &Store,
    client: &dyn HttpClient,
    clock: &Arc<dyn Clock>,
    worker: &str,
    every: Every,
    stop: &CancellationToken,
) -> Result<Option<Read>, CrawlError> {
    let begun = clock.unix_seconds();
    let Some((source, reading)) = store.claim_source(worker, begun, LEASE).await? else {
        return Ok(None);
    };
    let since = since(&source, begun);
    let mut taker = Taker {
        store,
        clock,
        reading: &reading,
        every,
        taken: Taken::default(),
        found: 0,
    };
    let registry = Registry::new(client, &source.address, RegistryLimits::default());
    let read = async {
        match registry {
            Ok(registry) => registry.read(since, begun, &mut taker).await,
            Err(error) => Err(error),
        }
    };
    let read = stop.run_until_cancelled(read).await;
    let now = clock.unix_seconds();
    let Some(read) = read else {
        store
            .finish_reading(&reading, &ReadingEnd::Stopped, now, now)
            .await?;
        return Ok(None);
    };
    let taken = taker.taken;
    let (end, due) = match &read {
        Ok(summary) => {
            let end = ReadingEnd::Complete {
                mark: summary.newest,
                whole: since.is_none(),
                skipped: i64::try_from(summary.skipped).unwrap_or(i64::MAX),
            };
            (end, now.saturating_add(source.every))
        }
        // Another worker reads on, or the source is off the list.
        Err(RegistryError::NotKept(error)) if is_taken(error) => return Ok(None),
        Err(error) => {
            let problem = visible_within(&error.to_string(), MAX_PROBLEM);
            let asked_for = match error {
                RegistryError::RetryLater { after } => i64::try_from(*after).ok(),
                _ => None,
            };
            let due = after_failed_reading(source.every, source.failures, asked_for, now);
            (ReadingEnd::Failed { problem }, due)
        }
    };
    match store.finish_reading(&reading, &end, due, now).await {
        Ok(()) => {}
        Err(StoreError::SourceTaken { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    Ok(Some(Read {
        address: source.address,
        entries: read.as_ref().map_or(0, |summary| summary.entries),
        new: taken.new,
        dropped: taken.dropped,
        problem: match end {
            ReadingEnd::Failed { problem } => Some(problem),
            ReadingEnd::Complete { .. } | ReadingEnd::Stopped => None,
        },
    }))
}

/// From where a reading goes on; `None` reads everything.
fn since(source: &SourceRecord, now: i64) -> Option<i64> {
    let is_whole_due = source.whole_at.is_none_or(|at| now - at >= WHOLE_EVERY);
    source.mark.filter(|_| !is_whole_due)
}

fn is_taken(error: &CrawlError) -> bool {
    matches!(error, CrawlError::Store(StoreError::SourceTaken { .. }))
}

/// Takes pages into the store.
struct Taker<'r> {
    store: &'r Store,
    clock: &'r Arc<dyn Clock>,
    reading: &'r Reading,
    every: Every,
    taken: Taken,
    /// Targets found by this reading: each is due a second after the one before, so that a full registry is no burst, and what a
    /// person adds meanwhile does not wait behind all of it.
    found: i64,
}

impl Sink for Taker<'_> {
    fn take(&mut self, page: Page) -> BoxFuture<'_, Result<(), CrawlError>> {
        async move {
            let now = self.clock.unix_seconds();
            let latest = page.entries.iter().filter(|entry| entry.is_latest);
            let mut entries = Vec::new();
            for entry in latest {
                let entry = kept(entry, &self.reading.address, self.every, now + self.found);
                self.found += i64::try_from(entry.targets.len()).unwrap_or(0);
                entries.push(entry);
            }
            let taken = self
                .store
                .take_entries(self.reading, &entries, now + LEASE, now)
                .await?;
            self.taken.new += taken.new;
            self.taken.dropped += taken.dropped;
            Ok(())
        }
        .boxed()
    }
}

/// What is kept of an entry. A package is followed at its newest version, as whoever starts it without a version gets it; what the
/// entry's own version changes is when it is looked at.
fn kept(entry: &Entry, address: &str, every: Every, due: i64) -> SourceEntry {
    let mut coverage = Coverage::default();
    let mut targets: Vec<NewTarget> = Vec::new();
    let mut follow = |identity: &Identity, reach: &Reach| {
        let is_there = targets.iter().any(|target| target.identity == *identity);
        if !is_there && entry.status != Status::Deleted {
            let spec = TargetSpec {
                identity: identity.clone(),
                version: None,
                reach: reach.clone(),
            };
            let every = every.of(identity);
            targets.push(spec.to_new_target(address, Some(every), due));
        }
    };
    for one in &entry.reached {
        match one {
            // A registry may name any package registry, and its client would ask there without our address rules.
            Reached::Target { spec } | Reached::NeedsConfig { spec: Some(spec), .. }
                if !spec.identity.is_of_usual_registry() && spec.reach.package().is_some() =>
            {
                coverage.unsupported += 1;
            }
            Reached::Target { spec } => {
                coverage.targets += 1;
                follow(&spec.identity, &spec.reach);
            }
            Reached::NeedsConfig {
                identity,
                spec,
                names,
                ..
            } => {
                coverage.needs_config += 1;
                let reach = match spec.as_ref().map(|spec| spec.reach.clone()) {
                    Some(Reach::Package {
                        registry,
                        name,
                        alternative,
                        args,
                        ..
                    }) => Reach::Package {
                        registry,
                        name,
                        alternative,
                        args,
                        variables: names.clone(),
                    },
                    _ => Reach::NeedsConfig(names.clone()),
                };
                if let Some(identity) = identity {
                    follow(identity, &reach);
                }
            }
            Reached::NeedsContainerRuntime { identity, .. } => {
                coverage.needs_container += 1;
                follow(identity, &Reach::Container {});
            }
            Reached::Unsupported { .. } => coverage.unsupported += 1,
            Reached::Refused { .. } => coverage.refused += 1,
        }
    }
    SourceEntry {
        name: entry.name.clone(),
        version: entry.version.clone(),
        status: match entry.status {
            Status::Active => "active",
            Status::Deprecated => "deprecated",
            Status::Deleted => "deleted",
        },
        updated_at: entry.updated_at,
        targets,
        coverage,
    }
}
