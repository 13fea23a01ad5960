//! The task of each process that sends: makes deliveries of what happened, claims what is due, and writes down what became of it.
//!
//! Invariant: never more deliveries under way than the settings say; what ended is written down before anything of the same target
//! is claimed again; at the end of the process, what is under way is finished or given back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcpindex_store::StoreError;
use mcpindex_store::webhooks::{Claimed, DeliveryLease, Ended, Finished};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::courier::Courier;
use crate::measure;

/// Between two looks at whether anything happened or is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two tidyings of the log.
const SWEEP_EVERY: Duration = Duration::from_secs(600);
/// Claims of one transaction: more would hold up other writers.
const CLAIMS: usize = 50;
/// How long deliveries under way may take once the process is to end.
const STOP_LIMIT: Duration = Duration::from_secs(4);

/// Sends until `stop`.
pub(super) struct Sender {
    courier: Arc<Courier>,
    at_once: usize,
    /// Who this is, in leases.
    worker: String,
    under_way: JoinSet<Finished>,
    leases: HashMap<Id, (DeliveryLease, &'static str)>,
    /// What ended and could not be written down yet.
    ended: Vec<Finished>,
}

impl Sender {
    pub(super) fn new(courier: Arc<Courier>, at_once: usize, worker: String) -> Sender {
        Sender {
            courier,
            at_once,
            worker,
            under_way: JoinSet::new(),
            leases: HashMap::new(),
            ended: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut sweeps = tokio::time::interval(SWEEP_EVERY);
        loop {
            let looked = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = self.under_way.join_next_with_id() => {
                    self.take(done);
                    // Many end together: one transaction writes them all down.
                    while let Some(done) = self.under_way.try_join_next_with_id() {
                        self.take(done);
                    }
                    self.look(false).await
                }
                _ = looks.tick() => self.look(true).await,
                _ = sweeps.tick() => self.courier.store.sweep_deliveries(self.courier.clock.unix_seconds()).await.map(drop),
            };
            if let Err(error) = looked {
                measure::store_error(&error);
                tracing::error!(%error, "webhooks rest: the database can't be used");
            }
        }
        self.end().await;
    }

    /// Writes down what ended, and begins what is due.
    async fn look(&mut self, derive: bool) -> Result<(), StoreError> {
        self.write_down().await?;
        let store = self.courier.store.clone();
        if derive && store.webhooks_are_behind().await? {
            while store
                .derive_deliveries(self.courier.clock.unix_seconds())
                .await?
                .more
            {}
        }
        loop {
            let now = self.courier.clock.unix_seconds();
            let room = self.at_once.saturating_sub(self.under_way.len()).min(CLAIMS);
            if room == 0 || store.next_delivery_due().await?.is_none_or(|due| due > now) {
                return Ok(());
            }
            let claims = i64::try_from(room).unwrap_or(i64::MAX);
            let claimed = store.claim_deliveries(&self.worker, now, claims).await?;
            if claimed.is_empty() {
                return Ok(());
            }
            for one in claimed {
                self.begin(one);
            }
        }
    }

    fn begin(&mut self, claimed: Claimed) {
        let kept = (claimed.lease.clone(), claimed.webhook.form.name());
        let courier = Arc::clone(&self.courier);
        let task = self
            .under_way
            .spawn(async move { courier.attempt(&claimed).await });
        self.leases.insert(task.id(), kept);
        metrics::gauge!("mcpindex_webhook_deliveries_under_way").set(self.under_way.len() as f64);
    }

    fn take(&mut self, done: Result<(Id, Finished), tokio::task::JoinError>) {
        match done {
            Ok((id, finished)) => {
                let form = self.leases.remove(&id).map_or("unknown", |(_, form)| form);
                let outcome = match finished.ended {
                    Ended::Delivered => "delivered",
                    Ended::Again { .. } => "failed",
                    Ended::GaveUp => "gave_up",
                };
                metrics::counter!("mcpindex_webhook_attempts_total", "form" => form, "outcome" => outcome)
                    .increment(1);
                self.ended.push(finished);
            }
            Err(error) => {
                // The lease runs out, and somebody tries again.
                self.leases.remove(&error.id());
                tracing::error!(%error, "a delivery broke off");
            }
        }
        metrics::gauge!("mcpindex_webhook_deliveries_under_way").set(self.under_way.len() as f64);
    }

    async fn write_down(&mut self) -> Result<(), StoreError> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let now = self.courier.clock.unix_seconds();
        let lost = self.courier.store.finish_deliveries(&self.ended, now).await?;
        for number in lost {
            tracing::warn!(
                number,
                "a delivery took longer than its lease, or its webhook is gone"
            );
        }
        self.ended.clear();
        Ok(())
    }

    /// Finishes what is under way, as far as there is time, and gives the rest back, so that it is made elsewhere or at the next start.
    async fn end(mut self) {
        let finishing = async {
            while let Some(done) = self.under_way.join_next_with_id().await {
                self.take(done);
            }
        };
        let in_time = tokio::time::timeout(STOP_LIMIT, finishing).await.is_ok();
        let rest: Vec<DeliveryLease> = self.leases.drain().map(|(_, (lease, _))| lease).collect();
        self.under_way.abort_all();
        if !in_time {
            tracing::info!(deliveries = rest.len(), "webhooks under way are given back");
        }
        let written = self.write_down().await;
        let now = self.courier.clock.unix_seconds();
        let released = self.courier.store.release_deliveries(&rest, now).await;
        for error in [written.err(), released.err()].into_iter().flatten() {
            tracing::error!(%error, "webhooks under way are made again when their leases run out");
        }
    }
}
