//! How many signals a second are taken in over HTTP, each batch acknowledged after its commit, on SQLite and on Postgres, both as
//! durable as in use: in batches of 16 beside inserts of 1,000 rows by 2 writers straight into the same table, and one by one
//! beside as many clients that commit a row each straight.
//!
//! Clients, server and database share the machine. Rounds of both take turns; the median of the ratios counts. Postgres is
//! left out with `MCPINDEX_TEST_PG=off`. Run by `cargo bench -p mcpindex-server --bench ingest`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcpindex::clock::{Clock, SystemClock};
use mcpindex_contract::signal::{Event, Fingerprint, InstallId, Sdk, Signal, write};
use mcpindex_server::access::{Access, AccessRules, Metrics, Rates, Read};
use mcpindex_server::app::App;
use mcpindex_server::approvals::Approvals;
use mcpindex_server::config::ApprovalSettings;
use mcpindex_server::ingest::{FleetRule, Ingest, IngestRules};
use mcpindex_server::login::Login;
use mcpindex_server::registry::Policy;
use mcpindex_server::router::router;
use mcpindex_store::Store;
use mcpindex_store::signals::{Network, Received};
use mcpindex_store::testing::TestStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 5;
/// Signals of one round, of each of the two.
const SIGNALS: u64 = 32_000;
const WRITERS: u64 = 2;
const INSERT: u64 = 1_000;
const CLIENTS: u64 = 64;
const BATCH: u64 = 16;
/// Signals of one round that are sent, or committed, one by one.
const SINGLES: u64 = 64 * 30;

/// No signal is ever sent twice.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn signals(count: u64, hour: i64) -> Vec<Signal> {
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    (first..first + count)
        .map(|number| {
            // Spread as real fingerprints and installs are.
            let spread = |salt: u64| {
                let mixed = (number ^ salt)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .rotate_left(29);
                u128::from(mixed.wrapping_mul(0xBF58_476D_1CE4_E5B9)) << 64 | u128::from(number)
            };
            let hash = format!("sha256:{:064x}", number % 1_000);
            Signal {
                event: Event::Drift,
                server: Fingerprint::from_bytes([1; 16]),
                tool: Fingerprint::from_bytes((spread(1) % 5_000).to_be_bytes()),
                hash_before: Some(format!("sha256:{:064x}", 0)),
                hash_after: hash,
                digests: None,
                kinds: vec!["added-required-param"],
                safety_relevant: true,
                hour: Some(hour),
                sdk: Sdk::Rs,
                install: InstallId::from_bytes(spread(2).to_be_bytes()),
            }
        })
        .collect()
}

/// Signals a second by batched inserts.
async fn straight(store: &Store, now: i64) -> f64 {
    let network = Network::of([127, 0, 0, 1].into());
    let hour = now - now % 3_600;
    let mut batches: Vec<Vec<Vec<Received>>> = Vec::new();
    for _ in 0..WRITERS {
        let batch = || {
            let received = |signal| Received {
                signal,
                network: network.clone(),
                authenticated: false,
            };
            signals(INSERT, hour).into_iter().map(received).collect()
        };
        batches.push((0..SIGNALS / WRITERS / INSERT).map(|_| batch()).collect());
    }
    let start = Instant::now();
    let mut writers = JoinSet::new();
    for own in batches {
        let store = store.clone();
        writers.spawn(async move {
            for batch in own {
                let new = store.record_signals(&batch, now).await.expect("written");
                assert_eq!(new, INSERT);
            }
        });
    }
    writers.join_all().await;
    per_second(SIGNALS, start)
}

/// Signals a second by as many clients as there are over HTTP, each of which commits one row at a time.
async fn straight_singles(store: &Store, now: i64) -> f64 {
    let network = Network::of([127, 0, 0, 1].into());
    let hour = now - now % 3_600;
    let mut clients = JoinSet::new();
    let start = Instant::now();
    for _ in 0..CLIENTS {
        let (store, network) = (store.clone(), network.clone());
        let own = signals(SINGLES / CLIENTS, hour);
        clients.spawn(async move {
            for signal in own {
                let received = Received {
                    signal,
                    network: network.clone(),
                    authenticated: false,
                };
                assert_eq!(store.record_signals(&[received], now).await.expect("written"), 1);
            }
        });
    }
    clients.join_all().await;
    per_second(SINGLES, start)
}

/// How a round over HTTP went.
#[derive(Clone, Copy)]
struct Round {
    /// Signals a second.
    rate: f64,
    /// How long batches waited: the median, and the 99th of a hundred.
    median: Duration,
    slowest: Duration,
}

/// So many signals over HTTP, in batches of this size.
#[expect(clippy::disallowed_methods, reason = "a server of the bench itself")]
async fn over_http(address: SocketAddr, now: i64, total: u64, batch: u64) -> Round {
    let hour = now - now % 3_600;
    let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
    for _ in 0..CLIENTS {
        let request = || {
            let body = write(&signals(batch, hour));
            let head = format!(
                "POST /api/v1/drift HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            [head.into_bytes(), body.into_bytes()].concat()
        };
        requests.push((0..total / CLIENTS / batch).map(|_| request()).collect());
    }
    let mut connections = Vec::new();
    for own in requests {
        connections.push((TcpStream::connect(address).await.expect("a connection"), own));
    }
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for (mut connection, own) in connections {
        clients.spawn(async move {
            let mut waited = Vec::with_capacity(own.len());
            let mut answer = Vec::new();
            for request in own {
                let sent = Instant::now();
                connection.write_all(&request).await.expect("sent");
                answer.clear();
                // A 204 is its head and nothing more.
                while !answer.ends_with(b"\r\n\r\n") {
                    assert!(connection.read_buf(&mut answer).await.expect("an answer") > 0);
                }
                assert!(
                    answer.starts_with(b"HTTP/1.1 204"),
                    "{}",
                    String::from_utf8_lossy(&answer)
                );
                waited.push(sent.elapsed());
            }
            waited
        });
    }
    let mut waited: Vec<Duration> = clients.join_all().await.concat();
    let rate = per_second(total, start);
    waited.sort_unstable();
    let at = |percent: usize| waited[waited.len() * percent / 100];
    Round {
        rate,
        median: at(50),
        slowest: at(99),
    }
}

fn per_second(signals: u64, start: Instant) -> f64 {
    signals as f64 / start.elapsed().as_secs_f64()
}

/// The round with the median of the ratios to what was straight beside it: that ratio, the straight rate, the round.
fn middle(mut rounds: Vec<(f64, Round)>) -> (f64, f64, Round) {
    rounds.sort_by(|(straight, one), (other_straight, other)| {
        (one.rate / straight).total_cmp(&(other.rate / other_straight))
    });
    let (straight, round) = rounds[rounds.len() / 2];
    (round.rate / straight, straight, round)
}

async fn measure(database: &TestStore) -> std::io::Result<()> {
    let store = &database.store;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.unix_seconds();
    store.prepare_signal_days(now).await.expect("days");
    let rules = IngestRules {
        open: true,
        fleet: FleetRule {
            authenticated_installs: 2,
            authenticated_networks: 2,
            anonymous_installs: 10,
            anonymous_networks: 3,
        },
        keep: 30 * 86_400,
        receipts: false,
        keep_receipts: 0,
    };
    let access = AccessRules {
        read: Read::Public,
        registry: Read::Public,
        rates: Rates {
            batches_per_minute: u64::MAX,
            signals_per_hour: u64::MAX,
            lookups_per_minute: u64::MAX,
            registrations_per_minute: u64::MAX,
            ..Rates::default()
        },
        proxies: Vec::new(),
        metrics: Metrics::Open,
        badges: Vec::new(),
    };
    let access = Access::new(access, Arc::clone(&clock));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (mut batches, mut singles) = (Vec::new(), Vec::new());
    let (ingest, running) = Ingest::start(store, Arc::clone(&clock), rules);
    let app = App {
        store: store.clone(),
        clock,
        version: "bench",
        crawling: None,
        ingest: Some(ingest),
        base: format!("http://{address}/").parse().expect("a URL"),
        access: Arc::new(access),
        login: Arc::new(Login::none()),
        registry: Policy::All,
        approvals: Arc::new(Approvals::new(
            &ApprovalSettings::default(),
            CancellationToken::new(),
        )),
        webhooks: None,
    };
    let service = router(app).into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(axum::serve(listener, service).into_future());
    for round in 0..=ROUNDS {
        let straight = straight(store, now).await;
        // What was inserted is counted in between, so that neither of the two pays for it.
        store.count_signals().await.expect("counted");
        let http = over_http(address, now, SIGNALS, BATCH).await;
        store.count_signals().await.expect("counted");
        let straight_singles = straight_singles(store, now).await;
        store.count_signals().await.expect("counted");
        let http_singles = over_http(address, now, SINGLES, 1).await;
        store.count_signals().await.expect("counted");
        // The first one warms up.
        if round > 0 {
            batches.push((straight, http));
            singles.push((straight_singles, http_singles));
        }
    }
    serving.abort();
    running.stop().await;
    let mut stdout = std::io::stdout();
    let (ratio, straight, http) = middle(batches);
    writeln!(
        stdout,
        "{:<8}  inserts of {INSERT} x {WRITERS} writers {straight:>7.0}/s   HTTP batches of {BATCH} x {CLIENTS} clients \
         {:>7.0}/s   p50 {:.1?}  p99 {:.1?}   ratio {ratio:.2} (target >= 0.5)",
        store.backend(),
        http.rate,
        http.median,
        http.slowest,
    )?;
    let (ratio, straight, http) = middle(singles);
    writeln!(
        stdout,
        "{:<8}  commits of one row x {CLIENTS} clients {straight:>7.0}/s   HTTP single signals x {CLIENTS} clients \
         {:>7.0}/s   p50 {:.1?}  p99 {:.1?} (target <= 500ms)   ratio {ratio:.2} (target >= 3)",
        store.backend(),
        http.rate,
        http.median,
        http.slowest,
    )
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        measure(&TestStore::sqlite().await).await?;
        match TestStore::on_durable_postgres().await {
            Some((_cluster, database)) => measure(&database).await,
            None => Ok(()),
        }
    })
}
