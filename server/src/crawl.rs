//! What the crawl is doing: what is looked at now, what waits, what fails, and what its registries tell of.
//!
//! It is read from the database, so every replica says the same, whichever processes crawl.
//!
//! Invariant: numbers come from one moment's counts; nothing here starts, stops or changes a look.

use std::collections::BTreeMap;

use mcpindex_contract::outcome::Outcome;
use mcpindex_store::sources::{Coverage, SourceRecord};
use mcpindex_store::targets::{Target, TargetCount};
use mcpindex_store::{Store, StoreError};

/// Looks under way that are named; there are never more workers in one process, and rarely more processes than a few.
const MOST_RUNNING: i64 = 100;
/// Failing targets that are named.
const MOST_FAILING: i64 = 50;

/// The crawl at one moment.
pub(crate) struct Crawl {
    pub(crate) totals: Totals,
    /// By who asked for the targets.
    pub(crate) sources: Vec<(String, Totals)>,
    /// By how the last look ended.
    pub(crate) outcomes: Vec<(Option<Outcome>, i64)>,
    pub(crate) registries: Vec<(SourceRecord, Coverage)>,
    pub(crate) running: Vec<Target>,
    pub(crate) failing: Vec<Target>,
}

/// Targets, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) targets: i64,
    pub(crate) running: i64,
    pub(crate) waiting: i64,
    pub(crate) failing: i64,
}

impl Totals {
    fn add(&mut self, count: &TargetCount) {
        self.targets += count.targets;
        self.running += count.running;
        self.waiting += count.waiting;
        self.failing += count.failing;
    }
}

impl Crawl {
    pub(crate) async fn look(store: &Store, now: i64) -> Result<Crawl, StoreError> {
        let counts = store.count_targets(now).await?;
        let mut totals = Totals::default();
        let mut sources: BTreeMap<String, Totals> = BTreeMap::new();
        let mut outcomes: BTreeMap<Option<Outcome>, i64> = BTreeMap::new();
        for count in &counts {
            totals.add(count);
            sources.entry(count.source.clone()).or_default().add(count);
            *outcomes.entry(count.outcome).or_default() += count.targets;
        }
        Ok(Crawl {
            totals,
            sources: sources.into_iter().collect(),
            outcomes: outcomes.into_iter().collect(),
            registries: store.sources().await?,
            running: store.running_targets(now, MOST_RUNNING).await?,
            failing: store.failing_targets(MOST_FAILING).await?,
        })
    }
}
