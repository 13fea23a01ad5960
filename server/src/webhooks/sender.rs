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
    /// Whether more has happened than deliveries were made of.
    more: bool,
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
            more: false,
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
                () = std::future::ready(()), if self.more => self.look(true).await,
                _ = looks.tick() => self.look(true).await,
                _ = sweeps.tick() => self.courier.store.sweep_deliveries(self.courier.clock.unix_seconds()).await.map(drop),
            };
            if let Err(error) = looked {
                self.more = false;
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
        if derive {
            // A share at a time: what ends meanwhile is to be written down before its lease runs out.
            self.more = store.webhooks_are_behind().await?
                && store
                    .derive_deliveries(self.courier.clock.unix_seconds())
                    .await?
                    .more;
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
        // In one order, as whoever removes a webhook goes over them.
        self.ended.sort_by_key(|finished| finished.lease.number);
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

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use axum::http::Response as HttpResponse;
    use mcpindex::clock::Clock;
    use mcpindex::wire::http::{HttpClient, HttpError};
    use mcpindex_store::Store;
    use mcpindex_store::testing::TestStore;
    use mcpindex_store::webhooks::{Delivery, DeliveryOutcome, Form, NewWebhook, Severity};

    use super::super::key::KeyFile;
    use super::*;

    const START: i64 = 1_796_058_245;

    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn unix_seconds(&self) -> i64 {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// A receiver that answers with one status, or with nothing at all.
    struct Receiver {
        status: Option<u16>,
        asked: AtomicUsize,
    }

    type Answer<'a> = Pin<Box<dyn Future<Output = Result<reqwest::Response, HttpError>> + Send + 'a>>;

    impl HttpClient for Receiver {
        fn send(&self, _request: reqwest::Request) -> Answer<'_> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let status = self.status;
            Box::pin(async move {
                match status {
                    Some(status) => {
                        let answer = HttpResponse::builder()
                            .status(status)
                            .body(String::new())
                            .unwrap();
                        Ok(answer.into())
                    }
                    None => std::future::pending().await,
                }
            })
        }
    }

    struct Trial {
        database: TestStore,
        clock: Arc<Hand>,
        receiver: Arc<Receiver>,
        sender: Sender,
        _folder: tempfile::TempDir,
    }

    impl Trial {
        /// `targets` webhooks with one delivery each, and a sender.
        async fn new(status: Option<u16>, targets: usize, at_once: usize) -> Trial {
            let database = TestStore::sqlite().await;
            let clock = Arc::new(Hand(AtomicI64::new(START)));
            let receiver = Arc::new(Receiver {
                status,
                asked: AtomicUsize::new(0),
            });
            let folder = tempfile::tempdir().unwrap();
            let key = KeyFile::new(None, folder.path());
            for target in 0..targets {
                let id = format!("hook_{target}");
                let wish = NewWebhook {
                    id: id.clone(),
                    name: "x".to_owned(),
                    form: Form::Json,
                    destination: "https://hooks.example.com/".to_owned(),
                    severity: Severity::All,
                    servers: Vec::new(),
                    untrusted: false,
                    key_check: key.key().unwrap().check(),
                    created_by: "x".to_owned(),
                };
                database.store.add_webhook(&wish, START).await.unwrap();
                database
                    .store
                    .add_test_delivery(&id, &format!("msg_{target}"), START - 60)
                    .await
                    .unwrap();
            }
            let courier = Courier {
                store: database.store.clone(),
                clock: Arc::<Hand>::clone(&clock),
                client: Arc::<Receiver>::clone(&receiver),
                base: "https://index.example/".parse().unwrap(),
                key,
                secrets: None,
                github: None,
            };
            Trial {
                sender: Sender::new(Arc::new(courier), at_once, "test".to_owned()),
                database,
                clock,
                receiver,
                _folder: folder,
            }
        }

        fn store(&self) -> &Store {
            &self.database.store
        }

        /// Everything that is due now is tried and written down.
        async fn round(&mut self) {
            self.sender.look(true).await.unwrap();
            while let Some(done) = self.sender.under_way.join_next_with_id().await {
                self.sender.take(done);
                self.sender.look(false).await.unwrap();
            }
        }

        async fn delivery(&self, target: usize) -> Delivery {
            let log = self
                .store()
                .deliveries(&format!("hook_{target}"), None, 1)
                .await
                .unwrap();
            log[0].clone()
        }
    }

    #[tokio::test]
    async fn a_receiver_that_answers_500_for_a_day_gets_it_when_it_is_well_again() {
        let mut trial = Trial::new(Some(500), 1, 8).await;
        let mut attempts = 0;
        while trial.clock.unix_seconds() < START + 86_400 {
            trial.round().await;
            attempts += 1;
            let delivery = trial.delivery(0).await;
            assert_eq!((delivery.attempts, delivery.status), (attempts, Some(500)));
            assert_eq!(delivery.error.as_deref(), Some("HTTP 500"));
            let due = delivery.due.unwrap();
            // Not a second too early.
            trial.clock.0.store(due - 1, Ordering::SeqCst);
            trial.round().await;
            assert_eq!(trial.delivery(0).await.attempts, attempts);
            trial.clock.0.store(due, Ordering::SeqCst);
        }
        assert!((8..16).contains(&attempts), "{attempts}");
        trial.sender.courier = Arc::new(Courier {
            store: trial.store().clone(),
            clock: Arc::<Hand>::clone(&trial.clock),
            client: Arc::new(Receiver {
                status: Some(204),
                asked: AtomicUsize::new(0),
            }),
            base: "https://index.example/".parse().unwrap(),
            key: KeyFile::new(None, trial._folder.path()),
            secrets: None,
            github: None,
        });
        trial.round().await;
        let delivery = trial.delivery(0).await;
        assert_eq!(delivery.outcome, Some(DeliveryOutcome::Delivered));
        assert_eq!(
            (delivery.status, delivery.error, delivery.attempts),
            (Some(204), None, attempts + 1)
        );
    }

    #[tokio::test]
    async fn one_that_is_gone_is_not_asked_again() {
        let mut trial = Trial::new(Some(410), 1, 8).await;
        trial.round().await;
        let delivery = trial.delivery(0).await;
        assert_eq!(delivery.outcome, Some(DeliveryOutcome::GaveUp));
        assert_eq!(
            delivery.error.as_deref(),
            Some("HTTP 410: the receiver is gone for good")
        );
        trial.clock.0.fetch_add(86_400, Ordering::SeqCst);
        trial.round().await;
        assert_eq!(trial.receiver.asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn no_more_than_may_be_are_under_way_and_at_the_end_they_are_given_back() {
        let mut trial = Trial::new(None, 120, 70).await;
        trial.sender.look(true).await.unwrap();
        assert_eq!(trial.sender.under_way.len(), 70);
        trial.sender.look(true).await.unwrap();
        assert_eq!(trial.sender.under_way.len(), 70);
        let Trial {
            database,
            sender,
            clock,
            ..
        } = trial;
        sender.end().await;
        let mut claimable = 0;
        loop {
            let claimed = database
                .store
                .claim_deliveries("next", clock.unix_seconds(), 50)
                .await
                .unwrap();
            assert!(claimed.iter().all(|claimed| claimed.delivery.attempts == 0));
            claimable += claimed.len();
            if claimed.is_empty() {
                break;
            }
        }
        assert_eq!(claimable, 120);
    }
}
