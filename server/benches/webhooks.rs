//! How long reads take while 1,000 webhooks are in flight, beside idle rounds of the same run, on SQLite and on Postgres.
//!
//! A drift is told to 1,000 targets at once. Their receiver holds every delivery until it has them all and a round of reads is over
//! (*held*); then another drift is told while reads go on, and the receiver answers at once (*storm*). Readers, server, database,
//! sender and receiver share the machine. The median of the rounds' ratios counts. Run by
//! `cargo bench -p mcpindex-server --bench webhooks`.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use mcpindex::clock::{Clock, SystemClock};
use mcpindex_contract::identity::Identity;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Listing, Member, MemberKind, Surface};
use mcpindex_server::access::Access;
use mcpindex_server::access::key::KeyText;
use mcpindex_server::app::App;
use mcpindex_server::approvals::Approvals;
use mcpindex_server::config::ApprovalSettings;
use mcpindex_server::login::Login;
use mcpindex_server::registry::Policy;
use mcpindex_server::router::router;
use mcpindex_server::webhooks::Webhooks;
use mcpindex_server::webhooks::settings::WebhookSettings;
use mcpindex_store::Store;
use mcpindex_store::accounts::{NewKey, Role, Scope, Scopes};
use mcpindex_store::observations::NewObservation;
use mcpindex_store::testing::TestStore;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 5;
const TARGETS: usize = 1_000;
const CLIENTS: usize = 4;
/// Reads of one client in one round.
const READS: usize = 250;
/// Servers of the index, of which each has one drift.
const SERVERS: usize = 200;

async fn serve(service: Router) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = service.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    Ok(address)
}

/// A drift of this server: its one tool reads differently each time.
async fn drift(store: &Store, server: usize, look: usize, now: i64) {
    let identity = format!("https://s{server}.example/mcp");
    let identity = Identity::from_reference(&identity).expect("an identity").identity;
    store.add_server(&identity, now).await.expect("added");
    let tool = json!({"name": "read", "description": format!("Reads, look {look}."), "inputSchema": {"type": "object"}});
    let observation = NewObservation {
        identity: identity.to_string(),
        version_key: None,
        artifact: None,
        context: "anonymous".to_owned(),
        observed_at: now,
        outcome: Outcome::Ok,
        detail: None,
        surface: Some(Surface {
            protocol_version: "2025-11-25".to_owned(),
            server_info: None,
            capabilities: Some(r#"{"tools":{}}"#.to_owned()),
            instructions: None,
            members: vec![Member::read(MemberKind::Tool, &tool.to_string())],
            listings: [
                Listing::Complete,
                Listing::NotDeclared,
                Listing::NotDeclared,
                Listing::NotDeclared,
            ],
        }),
        sandbox: None,
    };
    store
        .record_observation(&observation, None)
        .await
        .expect("recorded");
}

/// The time of each read, the shortest first.
#[expect(clippy::disallowed_methods, reason = "a server of the bench itself")]
async fn read(base: &str) -> Vec<Duration> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let base = base.to_owned();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        clients.spawn(async move {
            let mut times = Vec::with_capacity(READS);
            for number in 0..READS {
                let path = match (client + number) % 3 {
                    0 => "/api/v1/drifts?limit=20".to_owned(),
                    1 => "/servers".to_owned(),
                    _ => format!(
                        "/api/v1/servers/https%3A%2F%2Fs{}.example%2Fmcp",
                        number % SERVERS
                    ),
                };
                let start = Instant::now();
                let answer = http.get(format!("{base}{path}")).send().await.expect("an answer");
                assert_eq!(answer.status(), 200, "{path}");
                answer.bytes().await.expect("a body");
                times.push(start.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = clients.join_all().await.into_iter().flatten().collect();
    times.sort_unstable();
    times
}

fn p99(times: &[Duration]) -> f64 {
    times[times.len() * 99 / 100].as_secs_f64() * 1_000.0
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited 60 s for {what}");
}

async fn measure(database: &TestStore) -> std::io::Result<()> {
    let store = &database.store;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.unix_seconds();
    for server in 0..SERVERS {
        drift(store, server, 0, now).await;
        drift(store, server, 1, now).await;
    }
    // The receiver holds what comes while its gate is shut.
    let (gate, opened) = watch::channel(true);
    let (came, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let twice = Arc::new(AtomicUsize::new(0));
    let receiver = {
        let (came, answered, twice) = (Arc::clone(&came), Arc::clone(&answered), Arc::clone(&twice));
        let known = Arc::new(Mutex::new(HashSet::new()));
        post(async move |headers: HeaderMap| {
            let id = headers["webhook-id"].clone();
            if !known
                .lock()
                .expect("nobody panicked")
                .insert(id.as_bytes().to_owned())
            {
                twice.fetch_add(1, Ordering::SeqCst);
                return StatusCode::NO_CONTENT;
            }
            came.fetch_add(1, Ordering::SeqCst);
            let mut opened = opened.clone();
            opened.wait_for(|open| *open).await.expect("the bench goes on");
            answered.fetch_add(1, Ordering::SeqCst);
            StatusCode::NO_CONTENT
        })
    };
    let receiver = serve(Router::new().route("/{*path}", receiver)).await?;
    let data = tempfile::tempdir()?;
    let settings = WebhookSettings {
        hosts: vec!["127.0.0.1".parse().expect("a host")],
        at_once: TARGETS,
        ..WebhookSettings::default()
    };
    let base = "http://127.0.0.1/".parse().expect("a URL");
    let networks = ["127.0.0.0/8".to_owned()];
    let webhooks = Webhooks::new(
        store,
        Arc::clone(&clock),
        &base,
        &settings,
        &networks,
        data.path(),
    );
    let webhooks = Arc::new(webhooks.expect("right settings"));
    let app = App {
        store: store.clone(),
        clock,
        version: "bench",
        crawling: None,
        ingest: None,
        base,
        access: Arc::new(Access::public()),
        login: Arc::new(Login::none()),
        registry: Policy::All,
        approvals: Arc::new(Approvals::new(
            &ApprovalSettings::default(),
            CancellationToken::new(),
        )),
        webhooks: Some(Arc::clone(&webhooks)),
    };
    let index = format!("http://{}", serve(router(app)).await?);
    make(store, &index, receiver, now).await;
    let stop = CancellationToken::new();
    let sending = webhooks.start(stop.clone());

    let (mut held, mut storm) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (before, idle) = (came.load(Ordering::SeqCst), p99(&read(&index).await));
        gate.send_replace(false);
        drift(store, round, 2, now).await;
        until("1,000 deliveries in flight", || {
            came.load(Ordering::SeqCst) - before >= TARGETS
        })
        .await;
        let while_held = p99(&read(&index).await);
        assert_eq!(
            answered.load(Ordering::SeqCst),
            before,
            "the receiver held them all"
        );
        gate.send_replace(true);
        until("their end", || {
            answered.load(Ordering::SeqCst) - before >= TARGETS
        })
        .await;
        let idle_again = p99(&read(&index).await);
        drift(store, SERVERS - 1 - round, 2, now).await;
        let while_storming = p99(&read(&index).await);
        until("their end", || {
            answered.load(Ordering::SeqCst) - before >= 2 * TARGETS
        })
        .await;
        // The first one warms up.
        if round > 0 {
            held.push((while_held / idle, idle, while_held));
            storm.push((while_storming / idle_again, idle_again, while_storming));
        }
    }
    stop.cancel();
    sending.await.expect("the sender ends");
    let twice = twice.load(Ordering::SeqCst);
    assert_eq!(
        twice, 0,
        "a round took longer than a delivery may: this machine is too busy to tell"
    );
    for (name, mut rounds, target) in [
        ("held", held, " (target <= 1.20)"),
        ("storm", storm, " (no target)"),
    ] {
        rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (ratio, idle, busy) = rounds[rounds.len() / 2];
        writeln!(
            std::io::stdout(),
            "{:<8}  reads p99 idle {idle:>6.2} ms   {TARGETS} webhooks in flight, {name:<5} {busy:>6.2} ms   ratio {ratio:.2}{target}",
            store.backend(),
        )?;
    }
    Ok(())
}

/// Makes the targets, as an admin does over the API.
#[expect(clippy::disallowed_methods, reason = "a server of the bench itself")]
async fn make(store: &Store, index: &str, receiver: SocketAddr, now: i64) {
    let account = store.local_account("bench", now).await.expect("an account");
    store
        .set_role(account.id, Role::Admin, now)
        .await
        .expect("an admin");
    let text = KeyText::generate().expect("random numbers");
    let key = NewKey {
        account: account.id,
        hash: text.hash(),
        shown: text.shown(),
        name: "bench".to_owned(),
        scopes: Scopes::of(&[Scope::Admin]),
        expires_at: None,
        network: None,
        made_by: None,
    };
    store.add_key(&key, now).await.expect("a key");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for target in 0..TARGETS {
        let wish = json!({"name": format!("target {target}"), "form": "json", "destination": format!("http://{receiver}/{target}")});
        let answer = http
            .post(format!("{index}/api/v1/webhooks"))
            .bearer_auth(text.expose())
            .json(&wish)
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 201);
    }
}

fn main() -> std::io::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        measure(&TestStore::sqlite().await).await?;
        match TestStore::on_durable_postgres().await {
            Some((_cluster, database)) => measure(&database).await,
            None => Ok(()),
        }
    })
}
