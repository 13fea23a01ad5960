//! A server that is killed while it takes signals in, or whose Postgres is, loses nothing that it acknowledged and counts
//! nothing twice.
//!
//! `MCPINDEX_TORTURE_ROUNDS` says how often; 3 times when it doesn't.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcpindex_contract::signal::{Event, Fingerprint, InstallId, Sdk, Signal, write};
use mcpindex_store::Location;
use mcpindex_store::Store;
use mcpindex_store::signals::{Network, Received};
use mcpindex_store::testing::TestStore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::programs::{Place, client, until};

const SENDERS: u128 = 8;
const BATCH: u128 = 16;
/// Batches that are acknowledged before the kill, and how many more in each round.
const FIRST: usize = 20;
const MORE: usize = 7;

fn signal(install: u128, hour: i64) -> Signal {
    Signal {
        event: Event::Drift,
        server: Fingerprint::from_bytes([1; 16]),
        tool: Fingerprint::from_bytes([2; 16]),
        hash_before: Some(format!("sha256:{}", "a".repeat(64))),
        hash_after: format!("sha256:{}", "b".repeat(64)),
        digests: None,
        kinds: Vec::new(),
        safety_relevant: false,
        hour: Some(hour),
        sdk: Sdk::Rs,
        install: InstallId::from_bytes(install.to_be_bytes()),
    }
}

fn received(install: u128, hour: i64) -> Received {
    let loopback: IpAddr = [127, 0, 0, 1].into();
    Received {
        signal: signal(install, hour),
        network: Network::of(loopback),
        authenticated: false,
    }
}

/// What the senders know when nobody answers any more.
#[derive(Default)]
struct Sent {
    all: BTreeSet<u128>,
    acknowledged: BTreeSet<u128>,
}

/// One round: a server, senders, the kill.
async fn round(place: &Place, config: &str, first: u128, batches: usize, hour: i64) -> Sent {
    let served = place.serve(&["--no-crawl", "--config", config]).await;
    let address = format!("{}/api/v1/drift", served.base);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (address, acknowledged, client) = (address.clone(), Arc::clone(&acknowledged), client());
        senders.spawn(async move {
            let mut sent = Sent::default();
            for batch in 0.. {
                let start = first + (batch * SENDERS + sender) * BATCH;
                let installs = start..start + BATCH;
                let signals: Vec<Signal> = installs.clone().map(|install| signal(install, hour)).collect();
                sent.all.extend(installs.clone());
                let request = client.post(&address).header("content-type", "application/json");
                match request.body(write(&signals)).send().await {
                    Ok(answer) if answer.status() == 204 => {
                        sent.acknowledged.extend(installs);
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(answer) => panic!("{}", answer.status()),
                    Err(_) => break,
                }
            }
            sent
        });
    }
    until("enough acknowledged batches", async || {
        acknowledged.load(Ordering::Relaxed) >= batches
    })
    .await;
    served.kill().await;
    let mut together = Sent::default();
    for sent in senders.join_all().await {
        together.all.extend(sent.all);
        together.acknowledged.extend(sent.acknowledged);
    }
    together
}

fn rounds() -> usize {
    std::env::var("MCPINDEX_TORTURE_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap())
}

async fn check_kills(database: &TestStore) {
    let rounds = rounds();
    let place = Place::with_database(match &database.location {
        Location::Sqlite(path) => path.display().to_string(),
        Location::Postgres(url) => url.clone(),
    });
    let config = place.write(
        "mcpindex.toml",
        "[ingest]\nbatches_per_minute = 1000000\nsignals_per_hour = 100000000\n",
    );
    let now = i64::try_from(
        std::fs::metadata(&config)
            .unwrap()
            .modified()
            .unwrap()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    let hour = now - now % 3_600;
    let store = Store::open(&database.location).await.unwrap();
    let mut all = BTreeSet::new();
    for number in 0..rounds {
        let first = u128::try_from(number).unwrap() << 32;
        let sent = round(&place, &config, first, FIRST + MORE * (number % 5), hour).await;
        assert!(sent.acknowledged.len() >= FIRST * 16);
        // What was acknowledged is there: told again it is nothing new.
        let acknowledged: Vec<Received> = sent
            .acknowledged
            .iter()
            .map(|install| received(*install, hour))
            .collect();
        for batch in acknowledged.chunks(1_000) {
            assert_eq!(
                store.record_signals(batch, now).await.unwrap(),
                0,
                "round {number}: something was lost"
            );
        }
        // A client that got no answer sends again.
        let again: Vec<Received> = sent.all.iter().map(|install| received(*install, hour)).collect();
        for batch in again.chunks(1_000) {
            store.record_signals(batch, now).await.unwrap();
        }
        all.extend(sent.all);
        store.count_signals().await.unwrap();
        let told = store
            .told_drifts(&[Fingerprint::from_bytes([2; 16])])
            .await
            .unwrap()
            .remove(0)
            .fleet;
        assert_eq!(told.len(), 1);
        assert_eq!(
            told[0].signals,
            i64::try_from(all.len()).unwrap(),
            "round {number}: something was counted twice"
        );
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_it_takes_signals_loses_nothing_on_sqlite() {
    check_kills(&TestStore::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_it_takes_signals_loses_nothing_on_postgres() {
    if let Some(database) = TestStore::postgres().await {
        check_kills(&database).await;
    }
}

/// Sends batch after batch, each until it is acknowledged, and gives the installs of those that were.
async fn insist(
    address: String,
    sender: u128,
    hour: i64,
    acknowledged: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> BTreeSet<u128> {
    let client = client();
    let mut told = BTreeSet::new();
    for batch in 0.. {
        let start = (batch * SENDERS + sender) * BATCH;
        let installs = start..start + BATCH;
        let signals: Vec<Signal> = installs.clone().map(|install| signal(install, hour)).collect();
        let body = write(&signals);
        loop {
            let request = client.post(&address).header("content-type", "application/json");
            let answer = request
                .body(body.clone())
                .send()
                .await
                .expect("the server answers");
            match answer.status().as_u16() {
                204 => break,
                // The database is gone for the moment; what is told again is no second signal.
                503 => assert!(answer.headers().contains_key("retry-after")),
                other => panic!("{other}"),
            }
            if stop.is_cancelled() {
                return told;
            }
        }
        told.extend(installs);
        acknowledged.fetch_add(1, Ordering::Relaxed);
        if stop.is_cancelled() {
            return told;
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_restarts_under_load_loses_nothing() {
    let Some((mut cluster, database)) = TestStore::on_durable_postgres().await else {
        return;
    };
    let Location::Postgres(url) = &database.location else {
        panic!("a Postgres store is on Postgres");
    };
    let place = Place::with_database(url.clone());
    let config = place.write(
        "mcpindex.toml",
        "[ingest]\nbatches_per_minute = 1000000\nsignals_per_hour = 100000000\n",
    );
    let served = place.serve(&["--no-crawl", "--config", &config]).await;
    let now = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let hour = now - now % 3_600;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let stop = CancellationToken::new();
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        senders.spawn(insist(
            format!("{}/api/v1/drift", served.base),
            sender,
            hour,
            Arc::clone(&acknowledged),
            stop.clone(),
        ));
    }
    for round in 0..rounds() {
        // Some are acknowledged after each start, so each end comes in the middle of work.
        let enough = acknowledged.load(Ordering::Relaxed) + FIRST + MORE * (round % 5);
        until("enough acknowledged batches", async || {
            acknowledged.load(Ordering::Relaxed) >= enough
        })
        .await;
        cluster = tokio::task::spawn_blocking(move || {
            cluster.restart(round % 2 == 1);
            cluster
        })
        .await
        .unwrap();
    }
    let enough = acknowledged.load(Ordering::Relaxed) + FIRST;
    until("the server has found its database again", async || {
        acknowledged.load(Ordering::Relaxed) >= enough
    })
    .await;
    stop.cancel();
    let told: BTreeSet<u128> = senders.join_all().await.into_iter().flatten().collect();
    assert_eq!(served.terminate().await, Some(0));
    let store = Store::open(&database.location).await.unwrap();
    let again: Vec<Received> = told.iter().map(|install| received(*install, hour)).collect();
    for batch in again.chunks(1_000) {
        assert_eq!(
            store.record_signals(batch, now).await.unwrap(),
            0,
            "something was lost"
        );
    }
    store.count_signals().await.unwrap();
    let kept = store.signals_kept().await.unwrap();
    let tool = Fingerprint::from_bytes([2; 16]);
    let counted = store.told_drifts(&[tool]).await.unwrap().remove(0).fleet;
    assert_eq!(
        counted[0].signals, kept,
        "something was counted twice, or not at all"
    );
    store.close().await;
}
