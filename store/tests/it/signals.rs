//! Signals: kept once, counted once, expired, forgotten; tokens; what the crawler saw by fingerprint.

use std::collections::BTreeSet;

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::signal::{Digests, Event, Fingerprint, FingerprintKey, InstallId, Sdk, Signal};
use mcpindex_store::accounts::SecretHash;
use mcpindex_store::sightings::{Question, Reference};
use mcpindex_store::signals::{CrawlDrift, FleetDrift, Network, Received, Registration};
use mcpindex_store::testing::{on_each_backend, on_each_database};
use mcpindex_store::{Location, Store};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tokio::task::JoinSet;

use crate::fixture::{START, add, identity, look, record, surface};

const DAY: i64 = 86_400;
/// A full hour, the first of its day.
const NOW: i64 = 20_000 * DAY;

fn hash(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

/// One drift of one tool, from an install by number, seen at an hour.
fn drift(install: u128, hour: i64) -> Signal {
    Signal {
        event: Event::Drift,
        server: Fingerprint::from_bytes([1; 16]),
        tool: Fingerprint::from_bytes([2; 16]),
        hash_before: Some(hash('a')),
        hash_after: hash('b'),
        digests: None,
        kinds: vec!["removed-param"],
        safety_relevant: true,
        hour: Some(hour),
        sdk: Sdk::Py,
        install: InstallId::from_bytes(install.to_be_bytes()),
    }
}

fn pin(install: u128, hour: i64) -> Signal {
    Signal {
        event: Event::Pin,
        hash_before: None,
        kinds: Vec::new(),
        safety_relevant: false,
        ..drift(install, hour)
    }
}

fn received(signal: Signal) -> Received {
    from(signal, "192.0.2.1", false)
}

fn from(signal: Signal, address: &str, authenticated: bool) -> Received {
    Received {
        signal,
        network: Network::of(address.parse().unwrap()),
        authenticated,
    }
}

async fn send(store: &Store, signals: &[Received]) -> u64 {
    store.record_signals(signals, NOW).await.unwrap()
}

/// The one drift of the tool that the tests tell of, after counting.
async fn told(store: &Store) -> Option<FleetDrift> {
    store.count_signals().await.unwrap();
    let tool = Fingerprint::from_bytes([2; 16]);
    let mut drifts = store.told_drifts(&[tool]).await.unwrap().remove(0).fleet;
    assert!(drifts.len() <= 1, "{drifts:?}");
    drifts.pop()
}

/// What the crawler saw of each of these tools.
async fn crawl_drifts(store: &Store, tools: &[Fingerprint]) -> Vec<Option<CrawlDrift>> {
    let told = store.told_drifts(tools).await.unwrap();
    told.into_iter().map(|told| told.crawl).collect()
}

#[tokio::test]
async fn what_is_told_twice_is_kept_and_counted_once() {
    on_each_backend(async |store| {
        store.prepare_signal_days(NOW).await.unwrap();
        let batch = [
            received(drift(1, NOW)),
            received(drift(1, NOW)),
            received(pin(1, NOW)),
        ];
        assert_eq!(send(&store, &batch).await, 2);
        assert_eq!(send(&store, &batch).await, 0);
        // Another hour, another install, another event and another version are other signals.
        let second = Signal {
            digests: Some(Digests {
                before: Some(hash('a').parse().unwrap()),
                after: hash('b').parse().unwrap(),
            }),
            ..drift(1, NOW)
        };
        let others = [
            received(drift(1, NOW - 3_600)),
            received(drift(2, NOW)),
            received(second),
        ];
        assert_eq!(send(&store, &others).await, 3);
        assert_eq!(store.signals_kept().await.unwrap(), 5);
        assert_eq!(store.count_signals().await.unwrap(), 5);
        assert_eq!(store.count_signals().await.unwrap(), 0);
        let tool = Fingerprint::from_bytes([2; 16]);
        let drifts = store
            .told_drifts(&[tool, Fingerprint::from_bytes([9; 16])])
            .await
            .unwrap();
        assert!(drifts[1].fleet.is_empty());
        let counted: Vec<(bool, i64, u64)> = drifts[0]
            .fleet
            .iter()
            .map(|drift| (drift.digests.is_some(), drift.signals, drift.anonymous))
            .collect();
        assert_eq!(counted, [(false, 3, 2), (true, 1, 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_signal_without_an_hour_takes_the_day_of_its_receipt() {
    on_each_backend(async |store| {
        let no_hour = Signal {
            hour: None,
            ..drift(1, 0)
        };
        let batch = [received(no_hour)];
        let at = async |now| store.record_signals(&batch, now).await.unwrap();
        assert_eq!(at(NOW + 3_605).await, 1);
        assert_eq!(at(NOW + DAY - 1).await, 0);
        assert_eq!(told(&store).await.unwrap().last_seen_at, NOW + 3_600);
        // The next day it is told again.
        assert_eq!(at(NOW + DAY).await, 1);
        assert_eq!(told(&store).await.unwrap().signals, 2);
    })
    .await;
}

#[tokio::test]
async fn installs_with_proof_and_networks_are_counted_apart() {
    on_each_backend(async |store| {
        let batch = [
            from(drift(1, NOW), "192.0.2.1", false),
            from(drift(2, NOW), "192.0.2.77", false),
            from(drift(3, NOW), "2001:db8:1::1", false),
            from(drift(4, NOW), "2001:db8:1:9::1", true),
        ];
        send(&store, &batch).await;
        // On another day the same install is no other one.
        send(&store, &[from(drift(1, NOW - DAY), "192.0.2.1", false)]).await;
        let told = told(&store).await.unwrap();
        assert_eq!((told.anonymous, told.anonymous_networks), (3, 2));
        assert_eq!((told.authenticated, told.authenticated_networks), (1, 1));
        assert_eq!(
            (told.signals, told.last_seen_at, told.safety_relevant),
            (5, NOW, true)
        );
        assert_eq!(told.kinds, ["removed-param"]);
        assert_eq!(told.hashes, (hash('a'), hash('b')));
    })
    .await;
}

#[tokio::test]
async fn one_network_pushes_out_nothing_that_several_agree_on() {
    on_each_backend(async |store| {
        let tool = Fingerprint::from_bytes([2; 16]);
        let agreed: Vec<Received> = (0..12)
            .map(|install: u128| from(drift(install, NOW), &format!("198.51.{}.7", install % 4), false))
            .collect();
        send(&store, &agreed).await;
        // As many invented installs each as the old order took to come first, of more transitions than are read.
        for number in 0..205_u128 {
            let invented: Vec<Received> = (0..13)
                .map(|install| {
                    let signal = Signal {
                        hash_after: format!("sha256:{number:064x}"),
                        ..drift(1_000 + install, NOW)
                    };
                    from(signal, "203.0.113.9", false)
                })
                .collect();
            send(&store, &invented).await;
        }
        store.count_signals().await.unwrap();
        let drifts = store.told_drifts(&[tool]).await.unwrap().remove(0).fleet;
        assert_eq!(drifts[0].hashes.1, hash('b'));
        assert_eq!((drifts[0].anonymous, drifts[0].anonymous_networks), (12, 4));
        let question = Question {
            server: Reference::Fingerprint(Fingerprint::from_bytes([1; 16])),
            tool: Some(Reference::Fingerprint(tool)),
            digest: None,
            hash: None,
        };
        let found = store.sightings(&[question], 0).await.unwrap().remove(0);
        let seen = found.servers[0]
            .told
            .iter()
            .find(|told| told.hash == hash('b'))
            .unwrap();
        assert_eq!((seen.anonymous, seen.anonymous_networks), (12, 4));
    })
    .await;
}

#[tokio::test]
async fn thousands_of_installs_are_estimated() {
    on_each_backend(async |store| {
        for thousand in 0..3_u128 {
            let batch: Vec<Received> = (0..1_000)
                .map(|number| received(drift(thousand * 1_000 + number, NOW)))
                .collect();
            assert_eq!(send(&store, &batch).await, 1_000);
        }
        let told = told(&store).await.unwrap();
        assert_eq!(told.signals, 3_000);
        assert!((2_800..3_200).contains(&told.anonymous), "{}", told.anonymous);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_and_counters_at_once_count_each_signal_once() {
    on_each_database(async |database| {
        let other = Store::open(&database.location).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..4_u128 {
            let store = if task % 2 == 0 {
                database.store.clone()
            } else {
                other.clone()
            };
            tasks.spawn(async move {
                for batch in 0..25_u128 {
                    // Every batch has a signal that all tasks tell.
                    let own = task * 1_000 + batch + 1;
                    send(
                        &store,
                        &[received(drift(own, NOW)), received(drift(5_000 + batch, NOW))],
                    )
                    .await;
                    store.count_signals().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let told = told(&database.store).await.unwrap();
        assert_eq!((told.signals, told.anonymous), (125, 125));
        other.close().await;
    })
    .await;
}

#[tokio::test]
async fn days_past_keeping_go_and_their_counts_stay() {
    on_each_backend(async |store| {
        store.prepare_signal_days(NOW).await.unwrap();
        store.prepare_signal_days(NOW).await.unwrap();
        send(
            &store,
            &[
                received(drift(1, NOW - 3 * DAY)),
                received(drift(2, NOW - 3 * DAY)),
            ],
        )
        .await;
        send(&store, &[received(drift(3, NOW))]).await;
        assert!(store.expire_signals(NOW, 2 * DAY).await.unwrap() >= 1);
        assert_eq!(store.signals_kept().await.unwrap(), 1);
        assert_eq!(told(&store).await.unwrap().signals, 3);
        // They are not there any more: told again they would be new.
        assert_eq!(send(&store, &[received(drift(3, NOW))]).await, 0);
        assert_eq!(send(&store, &[received(drift(1, NOW - 3 * DAY))]).await, 1);
        // All of them, the last one too; what comes then is counted.
        store.expire_signals(NOW + 30 * DAY, 2 * DAY).await.unwrap();
        let later = NOW + 30 * DAY;
        store
            .record_signals(&[received(drift(7, later))], later)
            .await
            .unwrap();
        assert_eq!(told(&store).await.unwrap().signals, 5);
    })
    .await;
}

#[tokio::test]
async fn a_purged_install_is_in_no_row_and_no_count() {
    on_each_backend(async |store| {
        let one = InstallId::from_bytes(1_u128.to_be_bytes());
        send(
            &store,
            &[
                received(drift(1, NOW - 3 * DAY)),
                received(drift(2, NOW - 3 * DAY)),
            ],
        )
        .await;
        assert!(store.expire_signals(NOW, 2 * DAY).await.unwrap() >= 1);
        send(&store, &[received(drift(1, NOW)), received(drift(2, NOW))]).await;
        let token = SecretHash::of("t");
        store.register_install(one, token, None, NOW).await.unwrap();
        assert_eq!(told(&store).await.unwrap().anonymous, 2);
        // One more that is not counted yet.
        send(&store, &[received(drift(1, NOW - DAY))]).await;
        assert_eq!(store.purge_install(one).await.unwrap(), 2);
        assert_eq!(store.purge_install(one).await.unwrap(), 0);
        let counted = told(&store).await.unwrap();
        assert_eq!((counted.anonymous, counted.signals), (1, 3));
        assert!(!store.revoke_install(one, token).await.unwrap());
        // It may come back, and the mark has not gone past it.
        assert_eq!(send(&store, &[received(drift(1, NOW))]).await, 1);
        assert_eq!(told(&store).await.unwrap().anonymous, 2);
    })
    .await;
}

#[tokio::test]
async fn a_purge_in_many_pieces_leaves_nothing() {
    on_each_backend(async |store| {
        let one = InstallId::from_bytes(1_u128.to_be_bytes());
        let hours = 0..120;
        let signals: Vec<Received> = hours
            .flat_map(|hour| [1, 2].map(|install| received(drift(install, NOW - hour * 3_600))))
            .collect();
        send(&store, &signals).await;
        assert_eq!(store.purge_install(one).await.unwrap(), 120);
        let counted = told(&store).await.unwrap();
        assert_eq!((counted.anonymous, counted.signals), (1, 120));
    })
    .await;
}

#[tokio::test]
async fn a_token_is_given_once_rotated_by_its_holder_and_taken_back() {
    on_each_database(async |database| {
        let store = &database.store;
        let install = InstallId::from_bytes([7; 16]);
        let other = InstallId::from_bytes([8; 16]);
        let (first, second) = (SecretHash::of("first-token"), SecretHash::of("second-token"));
        let register = async |token, current| {
            store
                .register_install(install, token, current, NOW)
                .await
                .unwrap()
        };
        assert_eq!(register(first, None).await, Registration::Done);
        assert_eq!(register(second, None).await, Registration::Taken);
        assert_eq!(register(second, Some(second)).await, Registration::Taken);
        assert_eq!(register(second, Some(first)).await, Registration::Done);
        let both = BTreeSet::from([install, other]);
        let proved = async |token| store.installs_of_token(&both, token).await.unwrap();
        assert_eq!(proved(first).await, BTreeSet::new());
        assert_eq!(proved(second).await, BTreeSet::from([install]));
        assert!(!kept_anywhere(&database.location, "second-token").await);
        assert!(!store.revoke_install(install, first).await.unwrap());
        assert!(store.revoke_install(install, second).await.unwrap());
        assert_eq!(proved(second).await, BTreeSet::new());
    })
    .await;
}

/// Whether the token itself stands in its table.
async fn kept_anywhere(location: &Location, token: &str) -> bool {
    let read = "SELECT token_hash FROM install_token";
    let hashes: Vec<Vec<u8>> = match location {
        Location::Sqlite(path) => {
            let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
            sqlx::query_scalar(read).fetch_all(&mut connection).await.unwrap()
        }
        Location::Postgres(url) => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::query_scalar(read).fetch_all(&mut connection).await.unwrap()
        }
    };
    assert_eq!(hashes.len(), 1);
    hashes
        .iter()
        .any(|hash| hash == token.as_bytes() || hash.len() != 32)
}

#[tokio::test]
async fn the_crawlers_drifts_are_found_by_every_name_of_the_server() {
    on_each_database(async |database| {
        let store = &database.store;
        let key = FingerprintKey::public();
        add(store, "npm:a").await;
        record(
            store,
            &look("npm:a", "1.0", surface(&[("moved", "one"), ("still", "x")])),
        )
        .await;
        // A name from before the drift, and one from after it.
        store
            .add_alias("io.example/before", &identity("npm:a"), "registry", START)
            .await
            .unwrap();
        let drifted = surface(&[("moved", "two"), ("still", "x"), ("new", "x")]);
        let drift = record(store, &look("npm:a", "1.1", drifted)).await.drift;
        store
            .add_alias("io.example/after", &identity("npm:a"), "registry", START)
            .await
            .unwrap();

        for name in ["npm:a", "io.example/before", "io.example/after"] {
            let tools = ["moved", "still", "new"].map(|tool| key.tool(name, tool));
            let found = crawl_drifts(store, &tools).await;
            let moved = found[0].as_ref().expect(name);
            assert_eq!((Some(moved.drift), moved.identity.as_str()), (drift, "npm:a"));
            assert_eq!(moved.kinds, [ChangeKind::DescriptionOnly]);
            assert_eq!(found[1..], [None, None], "{name}");
        }
        let other = key.tool("npm:b", "moved");
        assert_eq!(crawl_drifts(store, &[other]).await, [None]);

        // An index of before has no fingerprints.
        forget_fingerprints(&database.location).await;
        let moved = key.tool("io.example/after", "moved");
        assert_eq!(crawl_drifts(store, &[moved]).await, [None]);
        assert_eq!(store.keep_older_servers().await.unwrap(), 1);
        assert_eq!(store.keep_older_servers().await.unwrap(), 0);
        assert!(crawl_drifts(store, &[moved]).await[0].is_some());
    })
    .await;
}

async fn forget_fingerprints(location: &Location) {
    let forget = ["DELETE FROM fingerprint", "UPDATE server SET findable = 0"];
    match location {
        Location::Sqlite(path) => {
            let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
            for statement in forget {
                sqlx::query(statement).execute(&mut connection).await.unwrap();
            }
        }
        Location::Postgres(url) => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            for statement in forget {
                sqlx::query(statement).execute(&mut connection).await.unwrap();
            }
        }
    }
}
