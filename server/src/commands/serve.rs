//! `serve`: pages, API and the crawler in one process, until a signal ends it.
//!
//! The address is taken before anything is written, so that a second server over the same folder stops at once. Lists are
//! planned in the background: the pages are up while the package clients are still asked.
//!
//! Invariant: what the terminal is told can't stop the server; a signal stops everything in order, within a limit.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mcpindex::clock::SystemClock;
use mcpindex::index::is_loopback;
use mcpindex::sandbox::Level;
use mcpindex_crawler::event::Event;
use mcpindex_crawler::guarded_client::GuardedClient;
use mcpindex_crawler::package::Packages;
use mcpindex_crawler::sources::{self, Listed};
use mcpindex_crawler::worker::Crawler;
use mcpindex_store::accounts::LOCAL;
use mcpindex_store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::lists::Plan;
use super::{crawler, open_store};
use crate::access::{Access, Read, setup};
use crate::api::fingerprint_key::organisation_key;
use crate::app::{App, Crawling};
use crate::approvals::Approvals;
use crate::args::Serve;
use crate::config::Settings;
use crate::exit::{Exit, Failure};
use crate::ingest::Ingest;
use crate::login::settings::Named;
use crate::login::{self, DEV, Login};
use crate::measure;
use crate::output::{self, Ink};
use crate::progress::{self, Look};
use crate::router::router;
use crate::webhooks::Webhooks;

/// How long answers and looks under way may take once a signal has come; then they are cut off.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Serves until a signal.
pub async fn run(settings: Settings, serve: Serve, stop: CancellationToken) -> anyhow::Result<Exit> {
    let lists = if serve.no_crawl {
        Vec::new()
    } else {
        lists(&settings, serve.starter)?
    };
    let listener = listen(settings.server.listen).await?;
    let address = listener.local_addr()?;
    let base = base(&settings, address)?;
    let login = login(&settings, &base, address)?;
    let store = open_store(&settings).await?;
    let crawling = if serve.no_crawl {
        None
    } else {
        Some(crawler(&store, &settings)?)
    };
    let (ingest, ingesting) = Ingest::start(&store, Arc::new(SystemClock), settings.for_ingest(address));
    let webhooks = Arc::new(webhooks(&settings, &store, &base)?);
    let access = Access::new(settings.for_access(address), Arc::new(SystemClock));
    let app = App {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        ingest: Some(ingest),
        version: env!("CARGO_PKG_VERSION"),
        crawling: crawling.as_ref().map(|_| Crawling {
            every: settings.for_crawler().every,
        }),
        base,
        access: Arc::new(access),
        login: Arc::new(login),
        approvals: Arc::new(Approvals::new(&settings.approvals, stop.clone())),
        registry: settings.registry,
        webhooks: Some(Arc::clone(&webhooks)),
    };
    let measuring = measure::start(stop.clone());
    let level = match &crawling {
        Some((crawler, _)) => Some(crawler.packages().jails().level().await),
        None => None,
    };
    start_up_lines(&settings, address, level)?;
    output::line(&[
        (Ink::Dim, format!("  {:<10}", "sign-in")),
        (Ink::Plain, app.login.sentence()),
    ])?;
    if app.login.is_on() && app.base.scheme() != "https" {
        tracing::info!(
            "over plain http, which is for this machine alone, cookies bear no `__Host-`: its other programs can set them"
        );
    }
    if let Some(warning) = proxy_warning(&settings) {
        output::line(&[
            (Ink::Warn, format!("  {:<10}", "proxies")),
            (Ink::Plain, warning.to_owned()),
        ])?;
    }
    if !app.login.has(Named::Dev) && app.store.demote_all_of(DEV, app.now()).await? > 0 {
        tracing::warn!(
            "who signed in at this index while [login] dev was on is no admin and no approver any more"
        );
    }
    if let Some(warning) = strangers(&app.store, &app.login).await? {
        output::line(&[
            (Ink::Warn, format!("  {:<10}", "accounts")),
            (Ink::Plain, warning),
        ])?;
    }
    access_line(&app).await?;
    if serve.starter {
        starter_lines(&lists)?;
    }

    let sending = webhooks.start(stop.clone());
    let finding = tokio::spawn(keep_older_servers(store.clone(), stop.clone()));
    let http = tokio::spawn({
        let stop = stop.clone().cancelled_owned();
        let service = router(app).into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service)
            .with_graceful_shutdown(stop)
            .into_future()
    });
    let sweeping = tokio::spawn(login::sweep(store.clone(), Arc::new(SystemClock), stop.clone()));
    let crawl = crawling.map(|(crawler, told)| {
        let home = home(&settings, address);
        start_crawl(
            store.clone(),
            settings.clone(),
            lists,
            crawler,
            told,
            home,
            stop.clone(),
        )
    });

    stop.cancelled().await;
    tracing::info!("stopping: what is under way is finished or given back; a second signal ends it at once");
    let ended = tokio::time::timeout(STOP_LIMIT, async {
        http.await??;
        // Nobody sends any more: what waits is written.
        ingesting.stop().await;
        if let Some(crawl) = crawl {
            crawl.await?;
        }
        sweeping.await?;
        sending.await?;
        finding.await?;
        measuring.await?;
        anyhow::Ok(())
    })
    .await;
    match ended {
        Ok(result) => result?,
        Err(_) => tracing::warn!(
            seconds = STOP_LIMIT.as_secs(),
            "not everything ended in time; the rest is cut off"
        ),
    }
    store.close().await;
    Ok(Exit::Done)
}

/// How long after a failure it is tried again to make up for older servers.
const MAKE_UP_AGAIN: Duration = Duration::from_secs(60);

/// The source of what `[crawl] targets` lists: unlike what was added at the shell, it is followed only as long as it is listed.
const TARGETS: &str = "targets";

/// A list with the source that its targets carry.
type List = (&'static str, Vec<Listed>);

fn lists(settings: &Settings, starter: bool) -> anyhow::Result<Vec<List>> {
    let mut lists = Vec::new();
    if starter {
        lists.push(("starter", sources::starter()));
    }
    if let Some(path) = &settings.crawl.targets {
        lists.push((TARGETS, sources::read_list(path)?));
    }
    Ok(lists)
}

/// Makes up for what an older program left out of what servers are found by; the organisation's key comes first, so that all is
/// kept under it too.
async fn keep_older_servers(store: Store, stop: CancellationToken) {
    if organisation_key(&store).await.is_err() {
        // Logged where it failed; what is kept under the public constant is found all the same.
        tracing::warn!("installs of this organisation can't be found by its own fingerprints yet");
    }
    loop {
        match stop.run_until_cancelled(store.keep_older_servers()).await {
            None | Some(Ok(0)) => return,
            Some(Ok(servers)) => {
                tracing::info!(
                    servers,
                    "older servers are found by all fingerprints and words now"
                );
                return;
            }
            // What was made up for stays so; another program may have held the database.
            Some(Err(error)) => tracing::warn!(
                %error,
                seconds = MAKE_UP_AGAIN.as_secs(),
                "servers that were added by an older program are not all found by fingerprint and words yet; it is tried again"
            ),
        }
        if stop
            .run_until_cancelled(tokio::time::sleep(MAKE_UP_AGAIN))
            .await
            .is_none()
        {
            return;
        }
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Failure::PortTaken { address },
            _ => Failure::CantListen {
                address,
                reason: error.to_string(),
            },
        })
}

/// Everything that the crawl is made of, ended by `stop`: the worker, the lists' background work, and the lines for people.
fn start_crawl(
    store: Store,
    settings: Settings,
    lists: Vec<List>,
    crawler: Crawler,
    told: mpsc::UnboundedReceiver<Event>,
    home: String,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let (announce, announced) = oneshot::channel();
    let reporter = tokio::spawn(report(told, announced, home));
    let crawler = Arc::new(crawler);
    let filling = tokio::spawn({
        let (crawler, stop) = (Arc::clone(&crawler), stop.clone());
        async move {
            let filled = stop
                .run_until_cancelled(fill(&store, &settings, crawler.packages(), lists, announce))
                .await;
            if let Some(Err(error)) = filled {
                tracing::error!("the lists could not be taken in: {error:#}");
            }
            crawler.wake();
        }
    });
    tokio::spawn(async move {
        if let Err(error) = crawler.run(&stop).await {
            // The pages stay up: they are true for what was found until now.
            tracing::error!(%error, "the crawl has ended; restart the server to go on");
        }
        drop(crawler);
        for task in [filling, reporter] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a part of the crawl broke off");
            }
        }
    })
}

/// Plans every list, tells which looks are to be expected, and puts them down for the crawler.
async fn fill(
    store: &Store,
    settings: &Settings,
    packages: &Packages,
    lists: Vec<List>,
    announce: oneshot::Sender<HashSet<(String, String)>>,
) -> anyhow::Result<()> {
    let mut plans = Vec::new();
    let mut expected = HashSet::new();
    for (source, mut listed) in lists {
        if source == TARGETS {
            stop_following_what_is_off(&listed, store).await?;
        }
        if packages.jails().level().await.is_err() {
            // A history of looks that were refused is none.
            listed.iter_mut().for_each(|listed| listed.backfill = 0);
        }
        let plan = Plan::make(store, packages, listed).await?;
        for (spec, error) in &plan.failed {
            tracing::warn!(identity = %spec.identity, %error, "no history");
        }
        expected.extend(plan.looks());
        plans.push((source, plan));
    }
    // Before the first of these looks can end.
    if !plans.is_empty() {
        let _ = announce.send(expected);
    }
    for (source, plan) in plans {
        plan.put_down(store, settings, source).await?;
    }
    Ok(())
}

/// What a person took off the list is followed no more; what is known of it stays.
async fn stop_following_what_is_off(listed: &[Listed], store: &Store) -> anyhow::Result<()> {
    let keep: Vec<(String, Option<String>)> = listed
        .iter()
        .map(|listed| (listed.spec.identity.to_string(), listed.spec.version.clone()))
        .collect();
    for identity in store.keep_targets(TARGETS, &keep).await? {
        tracing::info!(identity, "off the list: not followed any more");
    }
    Ok(())
}

/// The looks of the lists, as far as they have come.
#[derive(Default)]
struct Expected {
    waiting: HashSet<(String, String)>,
    total: usize,
    determined: usize,
    drifts: usize,
}

impl Expected {
    fn new(waiting: HashSet<(String, String)>) -> Expected {
        Expected {
            total: waiting.len(),
            waiting,
            ..Expected::default()
        }
    }

    /// How far this look brings them, as `3/31`; `None` for a look that is none of theirs.
    fn count(&mut self, look: &Look) -> Option<String> {
        let key = (look.identity.clone(), look.version.clone()?);
        self.waiting.remove(&key).then(|| {
            self.determined += usize::from(look.determined());
            self.drifts += usize::from(look.drift.is_some());
            format!("{}/{}", self.total - self.waiting.len(), self.total)
        })
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Writes a line for every look, and one when the lists' looks are done. Lines that can't be written are let go.
async fn report(
    mut told: mpsc::UnboundedReceiver<Event>,
    mut announced: oneshot::Receiver<HashSet<(String, String)>>,
    home: String,
) {
    let mut expected = Expected::default();
    let mut announcing = true;
    loop {
        tokio::select! {
            biased;
            looks = &mut announced, if announcing => {
                announcing = false;
                let Ok(looks) = looks else { continue };
                expected = Expected::new(looks);
                let _ = output::plain(&match expected.total {
                    0 => format!("every listed version is in the index; see {home}"),
                    count => format!("{count} versions to look at, oldest first; see {home} meanwhile"),
                });
            }
            event = told.recv() => match event {
                Some(event) => tell(event, &mut expected, &home),
                None => return,
            },
        }
    }
}

fn tell(event: Event, expected: &mut Expected, home: &str) {
    if let Event::Read(read) = &event {
        let _ = output::line(&progress::read_line(read));
    }
    let Some(look) = Look::of_event(event) else { return };
    measure::look(look.outcome);
    let mut line = Vec::new();
    let counted = expected.count(&look);
    if let Some(place) = &counted {
        line.push((Ink::Dim, format!("[{place}] ")));
    }
    line.extend(look.line());
    let _ = output::line(&line);
    if counted.is_some() && expected.is_done() {
        let _ = output::line(&[
            (Ink::Good, "done".to_owned()),
            (
                Ink::Plain,
                format!(
                    ": {} of {} versions determined, {} with drift; see {home}",
                    expected.determined, expected.total, expected.drifts
                ),
            ),
        ]);
    }
}

fn start_up_lines(
    settings: &Settings,
    address: SocketAddr,
    level: Option<Result<Level, String>>,
) -> std::io::Result<()> {
    let home = home(settings, address);
    let fact =
        |name: &str, text: String| output::line(&[(Ink::Dim, format!("  {name:<10}")), (Ink::Plain, text)]);
    output::line(&[(
        Ink::Strong,
        format!("mcpindex-server {}", env!("CARGO_PKG_VERSION")),
    )])?;
    fact("listening", format!("http://{address}"))?;
    if home != format!("http://{address}/") {
        fact("pages", home.clone())?;
    }
    fact("API", format!("{home}api/v1/servers"))?;
    fact("database", settings.location().to_string())?;
    let readers = match settings.for_access(address).read {
        Read::Public => "everybody who reaches this address",
        Read::Members => "members, who signed in or have a key; `[access] read = \"public\"` lets everybody",
    };
    fact("readers", readers.to_owned())?;
    let signals = if settings.for_ingest(address).open {
        format!("taken from installs at {home}api/v1/drift")
    } else {
        "taken with a key only; `[ingest] open = true` takes them from whoever reaches this address"
            .to_owned()
    };
    fact("signals", signals)?;
    if settings.receipts.open {
        fact(
            "receipts",
            format!("taken from whoever may send signals, at {home}api/v1/receipts"),
        )?;
    }
    let Some(level) = level else {
        return fact("crawl", "off (--no-crawl)".to_owned());
    };
    fact(
        "crawl",
        format!(
            "packages and commands every {}, remote servers every {}; {} at the same time",
            settings.crawl.every, settings.crawl.remote_every, settings.crawl.workers
        ),
    )?;
    if let Some(registries) = settings
        .crawl
        .registries
        .as_ref()
        .filter(|named| !named.is_empty())
    {
        fact(
            "registry",
            format!(
                "{}, every {}",
                registries.join(", "),
                settings.crawl.registries_every
            ),
        )?;
    }
    match level {
        Ok(level) => fact("packages", format!("run in a sandbox: {}", level.name())),
        Err(reason) => output::line(&[
            (Ink::Warn, format!("  {:<10}", "packages")),
            (
                Ink::Plain,
                format!("are not run: {reason}; see `mcpindex-server doctor --sandbox`"),
            ),
        ]),
    }
}

/// What there is to say where people come through a proxy that the settings don't name.
pub(super) fn proxy_warning(settings: &Settings) -> Option<&'static str> {
    let is_elsewhere = settings
        .server
        .public_url
        .as_ref()
        .is_some_and(|url| !is_loopback(url));
    (is_elsewhere && settings.server.proxies.is_empty()).then_some(
        "public_url says that people come through a proxy, and `[server] proxies` names none: everybody behind it shares one \
         limit, and a device's request can't be told to come from elsewhere",
    )
}

/// Accounts of issuers that nobody signs in with here any more: their keys work on, and whoever left can't be told from who is
/// still there.
pub(super) async fn strangers(store: &Store, login: &Login) -> Result<Option<String>, StoreError> {
    let known = login.issuers();
    let issuers = store.issuers().await?.into_iter();
    let others: Vec<String> = issuers
        .filter(|(issuer, _)| issuer != LOCAL && issuer != DEV && !known.contains(issuer))
        .map(|(issuer, count)| format!("{count} of {issuer}"))
        .collect();
    Ok((!others.is_empty()).then(|| {
        format!(
            "{} can't sign in any more, since the settings don't name that provider, and their keys still work: `admin users` \
             lists them, `admin disable` ends them",
            others.join(", ")
        )
    }))
}

/// How somebody gets in who can't yet: the first admin, and members where nobody can sign in.
async fn access_line(app: &App) -> anyhow::Result<()> {
    let base = &app.base;
    let (name, text) = if app.login.is_on() {
        let Some(code) = setup::offer(&app.store, app.now()).await? else {
            return Ok(());
        };
        (
            "set-up",
            format!(
                "nobody is an admin yet: sign in, and type {code} at {base}setup within 24 hours, or run `mcpindex-server admin \
                 make-admin`"
            ),
        )
    } else if app.access.rules.read == Read::Members {
        (
            "keys",
            "nobody can sign in, so members need a key: `mcpindex-server admin create-key NAME` makes one"
                .to_owned(),
        )
    } else {
        return Ok(());
    };
    Ok(output::line(&[
        (Ink::Dim, format!("  {name:<10}")),
        (Ink::Plain, text),
    ])?)
}

fn starter_lines(lists: &[List]) -> std::io::Result<()> {
    output::plain("starter list, run now on this machine:")?;
    let starter = lists.iter().filter(|(source, _)| *source == "starter");
    for listed in starter.flat_map(|(_, listed)| listed) {
        let mut line = vec![(Ink::Strong, format!("  {}", listed.spec.identity))];
        if listed.backfill > 0 {
            line.push((Ink::Plain, format!("  last {} versions", listed.backfill)));
        }
        if let Some(about) = &listed.about {
            line.push((Ink::Dim, format!("  {about}")));
        }
        output::line(&line)?;
    }
    Ok(())
}

/// The address of the home page for people, with a slash at its end.
fn home(settings: &Settings, address: SocketAddr) -> String {
    if let Some(url) = &settings.server.public_url {
        let url = url.as_str();
        return if url.ends_with('/') {
            url.to_owned()
        } else {
            format!("{url}/")
        };
    }
    // An address that stands for all of them can't be opened in a browser.
    let mut address = address;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    format!("http://{address}/")
}

/// How people sign in here. Providers are asked through a client of their own, which admits what the settings name.
pub(super) fn login(settings: &Settings, base: &Url, address: SocketAddr) -> anyhow::Result<Login> {
    let admitted =
        login::admitted(&settings.login, &settings.crawl.allow_networks).map_err(Failure::Usage)?;
    let client = GuardedClient::new(&settings.crawl.allow_networks, false)
        .map_err(|problem| anyhow::anyhow!("{problem}"))?
        .admitting(&admitted);
    let login = Login::new(&settings.login, base, settings.place(address), Arc::new(client));
    Ok(login.map_err(Failure::Usage)?)
}

/// Who outside is told, by the settings.
pub(super) fn webhooks(settings: &Settings, store: &Store, base: &Url) -> anyhow::Result<Webhooks> {
    let webhooks = Webhooks::new(
        store,
        Arc::new(SystemClock),
        base,
        &settings.webhooks,
        &settings.crawl.allow_networks,
        &settings.data,
    );
    Ok(webhooks.map_err(Failure::Usage)?)
}

/// [`home`] as a URL.
pub(super) fn base(settings: &Settings, address: SocketAddr) -> anyhow::Result<Url> {
    Url::parse(&home(settings, address)).context("the address of this server is no URL")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use mcpindex_contract::outcome::Outcome;

    use super::*;

    #[test]
    fn the_home_page_is_where_people_find_it() {
        let check = |public: Option<&str>, address: &str, expected: &str| {
            let mut settings = Settings::defaults(PathBuf::from("data"));
            settings.server.public_url = public.map(|url| url.parse().expect("a URL"));
            assert_eq!(home(&settings, address.parse().expect("an address")), expected);
        };
        check(None, "127.0.0.1:8080", "http://127.0.0.1:8080/");
        check(None, "0.0.0.0:80", "http://127.0.0.1:80/");
        check(None, "[::]:80", "http://[::1]:80/");
        check(
            Some("https://a.example/index"),
            "0.0.0.0:80",
            "https://a.example/index/",
        );
    }

    #[test]
    fn people_who_come_through_a_proxy_that_nobody_named_are_a_warning() {
        let check = |public: Option<&str>, proxies: &[&str], warns: bool| {
            let mut settings = Settings::defaults(PathBuf::from("data"));
            settings.server.public_url = public.map(|url| url.parse().expect("a URL"));
            settings.server.proxies = proxies
                .iter()
                .map(|proxy| proxy.parse().expect("an address"))
                .collect();
            assert_eq!(
                proxy_warning(&settings).is_some(),
                warns,
                "{public:?} {proxies:?}"
            );
        };
        check(None, &[], false);
        check(Some("http://localhost:9/"), &[], false);
        check(Some("https://a.example/"), &[], true);
        check(Some("https://a.example/"), &["127.0.0.1"], false);
    }

    #[tokio::test]
    async fn accounts_of_a_provider_that_is_gone_are_named() {
        let database = mcpindex_store::testing::TestStore::sqlite().await;
        let store = &database.store;
        store.local_account("ci", 0).await.expect("made");
        assert_eq!(strangers(store, &Login::none()).await.expect("told"), None);
        let ada = mcpindex_store::accounts::SignIn {
            issuer: "https://gone.example".to_owned(),
            subject: "1".to_owned(),
            login: "ada".to_owned(),
            email: None,
        };
        store.sign_in(&ada, 0).await.expect("made");
        let told = strangers(store, &Login::none()).await.expect("told");
        assert!(told.is_some_and(|told| told.starts_with("1 of https://gone.example can't sign in")));
    }

    #[test]
    fn a_look_counts_once_and_only_when_expected() {
        let key = |version: &str| ("npm:a".to_owned(), version.to_owned());
        let mut expected = Expected::new(HashSet::from([key("1.0.0"), key("1.1.0")]));
        let mut look = Look {
            identity: "npm:a".to_owned(),
            version: Some("1.1.0".to_owned()),
            outcome: Outcome::Ok,
            detail: None,
            tools: Some(1),
            drift: Some(1),
            kinds: Vec::new(),
            changed: Vec::new(),
            compared: true,
        };
        assert_eq!(expected.count(&look).as_deref(), Some("1/2"));
        assert_eq!(expected.count(&look), None);
        look.version = Some("2.0.0".to_owned());
        assert_eq!(expected.count(&look), None);
        assert!(!expected.is_done());
        look.version = Some("1.0.0".to_owned());
        look.outcome = Outcome::Crashed;
        look.drift = None;
        assert_eq!(expected.count(&look).as_deref(), Some("2/2"));
        assert!(expected.is_done());
        assert_eq!((expected.determined, expected.drifts), (1, 1));
    }
}
