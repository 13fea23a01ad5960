//! How many questions a second `/api/v1/drift/any` answers, over the index's whole stack and its database, beside a bare axum
//! handler that takes the same question and answers the same JSON, in the same run, on SQLite and on Postgres. Both are served as
//! `serve` does; of 4,000 tools each is asked for several times, as those are that many installs have.
//!
//! Clients, server and database share the machine; clients keep their connections. Rounds of both take turns; the median of the
//! ratios counts. Run by `cargo bench -p mcpindex-server --bench lookup`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use mcpindex::clock::{Clock, SystemClock};
use mcpindex_contract::signal::{Event, Fingerprint, InstallId, Sdk, Signal};
use mcpindex_server::access::{Access, AccessRules, Metrics, Rates, Read};
use mcpindex_server::app::App;
use mcpindex_server::approvals::Approvals;
use mcpindex_server::config::ApprovalSettings;
use mcpindex_server::ingest::{FleetRule, Ingest, IngestRules};
use mcpindex_server::login::Login;
use mcpindex_server::registry::Policy;
use mcpindex_server::router::router;
use mcpindex_store::signals::{Network, Received};
use mcpindex_store::testing::TestStore;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 7;
const CLIENTS: u64 = 16;
/// Questions of one client in one round.
const QUESTIONS: u64 = 1_000;
/// Tools that drifted; as many are asked for that did not.
const TOOLS: u64 = 2_000;
/// Installs that agree on each.
const INSTALLS: u64 = 10;

fn tool(number: u64) -> Fingerprint {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Fingerprint::from_bytes((u128::from(mixed) << 64 | u128::from(number)).to_be_bytes())
}

fn drift(number: u64, install: u64, hour: i64) -> Received {
    Received {
        signal: Signal {
            event: Event::Drift,
            server: Fingerprint::from_bytes([1; 16]),
            tool: tool(number),
            hash_before: Some(format!("sha256:{:064x}", 0)),
            hash_after: format!("sha256:{:064x}", 1),
            digests: None,
            kinds: vec!["added-required-param"],
            safety_relevant: true,
            hour: Some(hour),
            sdk: Sdk::Rs,
            install: InstallId::from_bytes(u128::from(install).to_be_bytes()),
        },
        network: Network::of([10, 0, u8::try_from(install % 4).unwrap_or(0), 1].into()),
        authenticated: false,
    }
}

/// Answers a second.
#[expect(clippy::disallowed_methods, reason = "a server of the bench itself")]
async fn asked(address: SocketAddr) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(TcpStream::connect(address).await.expect("a connection"));
    }
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for (client, mut connection) in (0..CLIENTS).zip(connections) {
        clients.spawn(async move {
            let mut answer = Vec::new();
            for question in 0..QUESTIONS {
                let fp = tool((client * 7_919 + question * 31) % (2 * TOOLS));
                let request = format!("GET /api/v1/drift/any?fp={fp} HTTP/1.1\r\nhost: {address}\r\n\r\n");
                connection.write_all(request.as_bytes()).await.expect("sent");
                answer.clear();
                // The body is one object without another inside, and nothing follows it.
                while !answer.ends_with(b"}") {
                    assert!(connection.read_buf(&mut answer).await.expect("an answer") > 0);
                }
                assert!(
                    answer.starts_with(b"HTTP/1.1 200"),
                    "{}",
                    String::from_utf8_lossy(&answer)
                );
            }
        });
    }
    clients.join_all().await;
    (CLIENTS * QUESTIONS) as f64 / start.elapsed().as_secs_f64()
}

async fn serve(service: Router) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    Ok(address)
}

#[derive(Deserialize)]
struct Question {
    fp: String,
}

#[derive(Serialize)]
struct Answer {
    fp: String,
    drifted: bool,
    #[serde(flatten)]
    known: Option<Known>,
}

#[derive(Serialize)]
struct Known {
    provenance: &'static str,
    sources: u64,
    safety_relevant: bool,
    last_seen: &'static str,
    change_kinds: [&'static str; 1],
    corroboration: &'static str,
}

/// Takes the same question and gives the same answer to it, out of nothing.
async fn bare(Query(question): Query<Question>) -> Json<Answer> {
    let fp: Fingerprint = question.fp.parse().expect("a fingerprint");
    let number = u128::from_be_bytes(*fp.as_bytes()) as u64;
    Json(Answer {
        fp: fp.to_string(),
        drifted: number < TOOLS,
        known: (number < TOOLS).then_some(Known {
            provenance: "installs",
            sources: INSTALLS,
            safety_relevant: true,
            last_seen: "2026-11-30T17:00:00Z",
            change_kinds: ["added-required-param"],
            corroboration: "anonymous",
        }),
    })
}

async fn measure(database: &TestStore) -> std::io::Result<()> {
    let store = &database.store;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.unix_seconds();
    store.prepare_signal_days(now).await.expect("days");
    for install in 0..INSTALLS {
        let signals: Vec<Received> = (0..TOOLS)
            .map(|number| drift(number, install, now - now % 3_600))
            .collect();
        store.record_signals(&signals, now).await.expect("written");
    }
    store.count_signals().await.expect("counted");
    let (ingest, running) = Ingest::start(
        store,
        Arc::clone(&clock),
        IngestRules {
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
        },
    );
    let access = AccessRules {
        read: Read::Public,
        registry: Read::Public,
        rates: Rates {
            lookups_per_minute: u64::MAX,
            ..Rates::default()
        },
        proxies: Vec::new(),
        metrics: Metrics::Open,
        badges: Vec::new(),
    };
    let app = App {
        store: store.clone(),
        clock: Arc::clone(&clock),
        version: "bench",
        crawling: None,
        ingest: Some(ingest),
        base: "http://127.0.0.1/".parse().expect("a URL"),
        access: Arc::new(Access::new(access, clock)),
        login: Arc::new(Login::none()),
        registry: Policy::All,
        approvals: Arc::new(Approvals::new(
            &ApprovalSettings::default(),
            CancellationToken::new(),
        )),
        webhooks: None,
    };
    let index = serve(router(app)).await?;
    let bare = serve(Router::new().route("/api/v1/drift/any", get(bare))).await?;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let (straight, whole) = (asked(bare).await, asked(index).await);
        // The first one warms up.
        if round > 0 {
            rounds.push((whole / straight, straight, whole));
        }
    }
    running.stop().await;
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (ratio, straight, whole) = rounds[rounds.len() / 2];
    writeln!(
        std::io::stdout(),
        "{:<8}  bare JSON handler {straight:>7.0}/s   drift/any {whole:>7.0}/s   ratio {ratio:.2} (target >= 0.7)",
        store.backend(),
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
