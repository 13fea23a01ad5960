//! The commands, one file each, and what they share: settings, the data folder, the database, looking right away, stopping.
//!
//! Invariant: nothing is opened or made before the settings are understood, and a signal ends every command in order.

pub mod add;
pub mod admin;
pub mod backfill;
pub mod crawl;
pub mod default_config;
pub mod doctor;
pub mod lists;
pub mod migrate;
pub mod openapi;
pub mod serve;
mod webhooks;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpindex::clock::{Clock, SystemClock};
use mcpindex_contract::surface::{Listing, MemberKind, Surface};
use mcpindex_crawler::guarded_client::GuardedClient;
use mcpindex_crawler::package::Packages;
use mcpindex_crawler::target::TargetSpec;
use mcpindex_crawler::worker::Crawler;
use mcpindex_store::Store;
use mcpindex_store::targets::Target;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::args::{Arguments, Command};
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::progress::Look;

/// Wrappers send one signal twice, to the program and to its group; what comes within this time is the same one.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Runs the command. A second signal ends whatever it is doing.
pub async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let stop = CancellationToken::new();
    let at_once = CancellationToken::new();
    listen_for_signals(stop.clone(), at_once.clone())?;
    tokio::select! {
        result = dispatch(arguments, stop) => result,
        () = at_once.cancelled() => Err(Failure::Interrupted.into()),
    }
}

async fn dispatch(arguments: Arguments, stop: CancellationToken) -> anyhow::Result<Exit> {
    let settings = Settings::load(&arguments.flags(), variables());
    match arguments.command {
        Command::Serve(serve) => serve::run(settings?, serve, stop).await,
        Command::Add(add) => until_stopped(add::run(settings?, add), stop).await,
        Command::Backfill(backfill) => until_stopped(backfill::run(settings?, backfill), stop).await,
        Command::Crawl(crawl) => crawl::run(settings?, crawl, stop).await,
        Command::Migrate => until_stopped(migrate::run(settings?), stop).await,
        Command::Doctor(doctor) => {
            until_stopped(doctor::run(settings, &arguments.global.data, doctor), stop).await
        }
        Command::Admin(admin) => until_stopped(admin::run(settings?, admin), stop).await,
        Command::DefaultConfig => default_config::run(),
        Command::Openapi => openapi::run(),
    }
}

/// For commands that record each look by itself: what is under way when a signal comes is dropped, and its processes with it.
async fn until_stopped(
    command: impl Future<Output = anyhow::Result<Exit>>,
    stop: CancellationToken,
) -> anyhow::Result<Exit> {
    tokio::select! {
        result = command => result,
        () = stop.cancelled() => Err(Failure::Interrupted.into()),
    }
}

/// The first SIGINT or SIGTERM cancels `stop`, the second one `at_once`.
fn listen_for_signals(stop: CancellationToken, at_once: CancellationToken) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("signals can't be received")?;
    let mut terminate = signal(SignalKind::terminate()).context("signals can't be received")?;
    tokio::spawn(async move {
        let mut first: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            match first {
                None => {
                    first = Some(Instant::now());
                    stop.cancel();
                }
                Some(first) if first.elapsed() < SAME_SIGNAL => {}
                Some(_) => {
                    at_once.cancel();
                    return;
                }
            }
        }
    });
    Ok(())
}

/// The environment, as far as it is text: a variable of ours that isn't could not be understood anyway.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Makes the data folder (for its owner only) and checks that it can be written.
pub(crate) fn prepare_data_folder(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    let failed = |error: std::io::Error| Failure::DataFolder {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    tempfile::tempfile_in(path).map(drop).map_err(failed)
}

/// Opens the database that the settings name and brings its schema up to date.
pub(crate) async fn open_store(settings: &Settings) -> anyhow::Result<Store> {
    prepare_data_folder(&settings.data)?;
    let location = settings.location();
    let store = Store::open(&location).await?;
    let applied = store.migrate().await?;
    if applied > 0 {
        tracing::debug!(applied, %location, "the schema is up to date");
    }
    Ok(store)
}

/// A crawler with these settings, and what it tells.
pub(crate) fn crawler(
    store: &Store,
    settings: &Settings,
) -> anyhow::Result<(Crawler, mpsc::UnboundedReceiver<mcpindex_crawler::event::Event>)> {
    check_networks(settings)?;
    let (events, told) = mpsc::unbounded_channel();
    let crawler = Crawler::new(
        store.clone(),
        settings.for_crawler(),
        Arc::new(SystemClock),
        events,
    )?;
    Ok((crawler, told))
}

/// Refuses networks that the guarded client does not understand.
pub(crate) fn check_networks(settings: &Settings) -> Result<(), Failure> {
    GuardedClient::new(&settings.crawl.allow_networks, settings.crawl.allow_http)
        .map(drop)
        .map_err(|reason| Failure::Usage(format!("[crawl] allow_networks: {reason}")))
}

pub(crate) fn now() -> i64 {
    SystemClock.unix_seconds()
}

/// Looks at servers in this process, right away and one after the other, without a lease: there is no row that another
/// worker could claim for the same look.
pub(crate) struct Looker {
    store: Store,
    crawler: Crawler,
}

impl Looker {
    pub(crate) fn new(store: &Store, settings: &Settings) -> anyhow::Result<Looker> {
        // What would be told as an event is what `look` gives back.
        let (crawler, _) = crawler(store, settings)?;
        Ok(Looker {
            store: store.clone(),
            crawler,
        })
    }

    /// What gets packages, and the jails that they run in.
    pub(crate) fn packages(&self) -> &Packages {
        self.crawler.packages()
    }

    /// Looks at one version (`None`: the newest) and records what came of it.
    pub(crate) async fn look(
        &self,
        spec: &TargetSpec,
        version: Option<&str>,
        source: &str,
    ) -> anyhow::Result<Look> {
        self.store.add_server(&spec.identity, now()).await?;
        let target = Target {
            id: 0,
            identity: spec.identity.to_string(),
            version: version.map(str::to_owned),
            launch: spec.reach.to_json(),
            source: source.to_owned(),
            every: None,
            due: None,
            failures: 0,
            outcome: None,
        };
        let observation = self.crawler.look(&target).await;
        let recorded = self.store.record_observation(&observation, None).await?;
        let drift = match recorded.drift {
            Some(number) => self.store.drift(number).await?.map(|(drift, _)| drift),
            None => None,
        };
        let (kinds, changed) = drift
            .map(|drift| (drift.kinds, drift.changed))
            .unwrap_or_default();
        Ok(Look {
            identity: observation.identity,
            version: observation
                .artifact
                .map(|artifact| artifact.version)
                .or(target.version),
            outcome: observation.outcome,
            detail: observation.detail,
            tools: observation.surface.as_ref().and_then(listed_tools),
            drift: recorded.drift,
            kinds,
            changed,
            compared: recorded.compared,
        })
    }
}

/// How many tools were listed, where that list was read to its end.
fn listed_tools(surface: &Surface) -> Option<usize> {
    let failed = matches!(surface.listing(MemberKind::Tool), Listing::Failed { .. });
    (!failed).then(|| surface.members_of(MemberKind::Tool).count())
}

/// Where the page of a server is: a whole address where people's address is known, else its path.
pub(crate) fn page_of(settings: &Settings, short_id: &str) -> String {
    let path = format!("servers/{short_id}");
    match &settings.server.public_url {
        Some(base) => base.join(&path).map_or(path, String::from),
        None => format!("/{path}"),
    }
}
