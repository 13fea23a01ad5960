//! A crawl set up for a test: loopback allowed, a clock that stands still.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mcpindex::clock::Clock;
use mcpindex::wire::limits::Limits;
use mcpindex_contract::identity::Identity;
use mcpindex_crawler::event::Event;
use mcpindex_crawler::settings::{Every, Settings};
use mcpindex_crawler::target::{Reach, TargetSpec};
use mcpindex_crawler::worker::Crawler;
use mcpindex_store::Store;
use mcpindex_store::servers::ServerRecord;
use mcpindex_store::targets::NewTarget;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::install_tls_provider;

pub(crate) const NOW: i64 = 1_800_000_000;
pub(crate) const DAY: i64 = 86_400;

/// A clock that tests set.
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn unix_seconds(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A crawler over a store, and what it tells.
pub(crate) struct Desk {
    pub(crate) store: Store,
    pub(crate) crawler: Arc<Crawler>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    pub(crate) stop: CancellationToken,
    clock: Arc<TestClock>,
    _cache: TempDir,
}

impl Desk {
    pub(crate) fn new(store: &Store) -> Desk {
        Desk::with(store, |_| {})
    }

    pub(crate) fn with(store: &Store, change: impl FnOnce(&mut Settings)) -> Desk {
        Desk::with_limits(store, Limits::crawl(), change)
    }

    /// For servers that hang: how soon a look at one is given up does not change what it comes to.
    pub(crate) fn impatient(store: &Store) -> Desk {
        let soon = Duration::from_secs(1);
        let limits = Limits {
            handshake: 2 * soon,
            request: soon,
            era_probe: soon,
            ..Limits::crawl()
        };
        Desk::with_limits(store, limits, |_| {})
    }

    fn with_limits(store: &Store, limits: Limits, change: impl FnOnce(&mut Settings)) -> Desk {
        install_tls_provider();
        let cache = tempfile::tempdir().unwrap();
        let mut settings = settings(cache.path());
        change(&mut settings);
        let (sender, events) = mpsc::unbounded_channel();
        let clock = Arc::new(TestClock(AtomicI64::new(NOW)));
        let reads = Arc::clone(&clock) as Arc<dyn Clock>;
        let crawler = Crawler::with_limits(store.clone(), settings, limits, reads, sender).unwrap();
        Desk {
            store: store.clone(),
            crawler: Arc::new(crawler),
            events,
            stop: CancellationToken::new(),
            clock,
            _cache: cache,
        }
    }

    /// Lets time pass.
    pub(crate) fn later(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) async fn crawl(&self) -> usize {
        self.crawler.run_until_idle(&self.stop).await.unwrap()
    }

    /// Adds a target that is looked at once; gives its identity.
    pub(crate) async fn add(&self, spec: &TargetSpec, source: &str) -> String {
        self.store
            .add_target(&spec.to_new_target(source, None, NOW), NOW)
            .await
            .unwrap();
        spec.identity.to_string()
    }

    pub(crate) async fn server(&self, identity: &str) -> ServerRecord {
        self.store.find_server(identity).await.unwrap().unwrap()
    }

    /// Waits until a look has begun.
    pub(crate) async fn started(&mut self) {
        let begun = tokio::time::timeout(Duration::from_secs(30), async {
            while let Some(event) = self.events.recv().await {
                if matches!(event, Event::Started { .. }) {
                    return;
                }
            }
        });
        begun.await.expect("a look begins");
    }
}

/// Settings for a test that looks at servers on loopback.
pub(crate) fn settings(cache: &Path) -> Settings {
    Settings {
        every: Every {
            package: DAY,
            remote: DAY,
        },
        registries: None,
        pace: 0,
        registries_every: 3_600,
        workers: 3,
        allow_networks: vec!["127.0.0.0/8".to_owned()],
        allow_http: false,
        entrance: FIXTURE.into(),
        node: None,
        python: None,
        read: Vec::new(),
        cache: cache.to_owned(),
        lease: 60,
    }
}

/// The sdk's fixture server: a real MCP server that behaves as its argument says.
pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_crawler-fixture-server");

/// The fixture server as a command.
pub(crate) fn fixture(arguments: &[&str]) -> TargetSpec {
    let mut argv = vec![FIXTURE.to_owned()];
    argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    TargetSpec::from_command(&argv).unwrap()
}

/// A version of a package that is really the fixture server.
pub(crate) fn as_version(version: &str, arguments: &[&str]) -> NewTarget {
    let spec = TargetSpec {
        identity: Identity::from_reference("npm:@demo/server").unwrap().identity,
        version: Some(version.to_owned()),
        reach: match fixture(arguments).reach {
            Reach::Command(argv) => Reach::Command(argv),
            other => panic!("{other:?}"),
        },
    };
    spec.to_new_target("shell", None, NOW)
}
