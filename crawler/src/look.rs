//! One look at one target: how it is reached, what it declared, or why that could not be determined.
//!
//! Invariant: a look writes nothing to the database and always ends in an observation; every failure on the way is an
//! outcome.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use mcpindex::clock::Clock;
use mcpindex::inspect::{Inspection, inspect_http, inspect_stdio};
use mcpindex::visible::visible_within;
use mcpindex::wire::http::Endpoint;
use mcpindex::wire::limits::Limits;
use mcpindex::wire::stdio::Launch;
use mcpindex_contract::identity::Registry;
use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::{Listing, MemberKind, Surface};
use mcpindex_store::observations::{Artifact, NewObservation};
use mcpindex_store::targets::Target;
use tokio::sync::Mutex;

use crate::guarded_client::GuardedClient;
use crate::package::{Installed, PackageError, PackageName, Packages, PublishedVersion};
use crate::schedule::{Ended, may_pass};
use crate::target::Reach;
use crate::version::sort_key;

/// Characters of a detail line.
const MAX_DETAIL: usize = 500;
/// Seconds for which a package's list of versions is taken as known: a backfill asks for it at each version.
const VERSIONS_KNOWN_FOR: i64 = 300;

/// What a variable is set to that a server wants and nobody gave.
const STAND_IN: &str = "MCPINDEX_DUMMY";

/// What one look came to.
pub(crate) struct Look {
    pub(crate) observation: NewObservation,
    /// How it ended, as far as the next one goes.
    pub(crate) ended: Ended,
}

/// What every look needs.
pub(crate) struct Looker {
    http: GuardedClient,
    cache: PathBuf,
    packages: Packages,
    limits: Limits,
    versions: Mutex<HashMap<String, (i64, Vec<PublishedVersion>)>>,
    /// Whose turn it is, by identity: processes of one server run one after the other, since they share a directory.
    turns: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl Looker {
    pub(crate) fn new(http: GuardedClient, cache: PathBuf, packages: Packages, limits: Limits) -> Looker {
        Looker {
            http,
            cache,
            packages,
            limits,
            versions: Mutex::default(),
            turns: std::sync::Mutex::default(),
        }
    }

    /// Looks at one target.
    pub(crate) async fn look(&self, target: &Target, clock: &dyn Clock) -> Look {
        let reach = Reach::from_json(&target.launch);
        let private = private_paths(&self.cache, &reach);
        let seen = match reach {
            Err(error) => Seen::failed(
                Outcome::Interrupted,
                &format!("the stored target can't be read: {error}"),
            ),
            Ok(Reach::Url(url)) => self.look_at_url(&url).await,
            Ok(Reach::NeedsConfig(names)) => Seen::failed(
                Outcome::NeedsConfig,
                &format!("nobody gave what it is reached with: {}", names.join(", ")),
            ),
            Ok(Reach::Container {}) => Seen::failed(
                Outcome::NeedsContainerRuntime,
                "container images are not run here",
            ),
            Ok(Reach::Command(argv)) => self.look_at_command(target, argv).await,
            Ok(reach @ Reach::Package { .. }) => self.look_at_package(target, &reach, clock).await,
        };
        seen.without(&private).at(target, clock.unix_seconds())
    }

    /// The only way out.
    pub(crate) fn http(&self) -> &GuardedClient {
        &self.http
    }

    /// What gets packages, and the jails that they run in.
    pub(crate) fn packages(&self) -> &Packages {
        &self.packages
    }

    async fn look_at_url(&self, url: &str) -> Seen {
        let url = match url.parse() {
            Ok(url) => url,
            Err(error) => {
                return Seen::failed(
                    Outcome::Interrupted,
                    &format!("the stored URL can't be read: {error}"),
                );
            }
        };
        let endpoint = Endpoint {
            url,
            headers: Vec::new(),
        };
        Seen::inspected(inspect_http(&self.http, &endpoint, &self.limits).await)
    }

    async fn look_at_package(&self, target: &Target, reach: &Reach, clock: &dyn Clock) -> Seen {
        let (Some(package), Reach::Package { args, variables, .. }) = (reach.package(), reach) else {
            return Seen::failed(
                Outcome::Interrupted,
                "the stored target names an unknown package registry",
            );
        };
        let obtained = self.obtain(&package, target.version.as_deref(), clock).await;
        let Installed {
            artifact,
            mut launch,
            has_install_script,
        } = match obtained {
            Ok(installed) => installed,
            Err((error, known)) => return Seen::not_obtained(&error, known),
        };
        launch.args.extend_from_slice(args);
        let stand_ins = variables
            .iter()
            .map(|name| (name.clone(), STAND_IN.to_owned().into()));
        launch.env.extend(stand_ins);
        let mut seen = self.run(target, launch).await.given_stand_ins(variables);
        if seen.outcome == Outcome::NeedsInstallScript && !has_install_script {
            seen.outcome = Outcome::Crashed;
        }
        seen.artifact = Some(artifact);
        seen
    }

    async fn look_at_command(&self, target: &Target, argv: Vec<String>) -> Seen {
        let mut argv = argv.into_iter();
        let Some(program) = argv.next() else {
            return Seen::failed(Outcome::Interrupted, "the stored command is empty");
        };
        let args: Vec<String> = argv.collect();
        let jail = match self.packages.jails().commanding(&program, &args).await {
            Ok(jail) => jail,
            Err(error) => return Seen::not_obtained(&error, None),
        };
        let launch = Launch {
            program,
            args,
            env: Vec::new(),
            cwd: None,
            label: None,
            jail: Some(Box::new(jail)),
        };
        self.run(target, launch).await
    }

    /// Starts a server in the directory of its identity, so that one which names that directory says the same each time.
    async fn run(&self, target: &Target, mut launch: Launch) -> Seen {
        launch.label = Some(target.identity.clone());
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(target.identity.clone()).or_default())
        };
        let _turn = turn.lock().await;
        let mut seen = Seen::inspected(inspect_stdio(&launch, &self.limits).await);
        seen.sandbox = launch.jail.as_ref().map(|jail| jail.sandbox.level().name());
        seen
    }

    /// Installs the version asked for, or the newest that is no pre-release (the newest at all where there is no other).
    /// A failure comes with what was known of the version until then.
    async fn obtain(
        &self,
        package: &PackageName,
        version: Option<&str>,
        clock: &dyn Clock,
    ) -> Result<Installed, (PackageError, Option<Artifact>)> {
        // A named version is tried even when the list of versions can't be had: it only adds the publication time.
        let published = match (self.published(package, clock).await, version) {
            (Ok(published), _) => published,
            (Err(_), Some(_)) => Vec::new(),
            (Err(error), None) => return Err((error, None)),
        };
        let newest = || {
            let release = published.iter().rev().find(|one| !one.prerelease);
            release.or(published.last()).map(|one| one.version.as_str())
        };
        let Some(version) = version.or_else(newest) else {
            let error = PackageError::NotFound {
                registry: package.registry.name(),
                name: package.name.clone(),
            };
            return Err((error, None));
        };
        let published_at = published
            .iter()
            .find(|one| one.version == version)
            .and_then(|one| one.published_at);
        let known = Artifact {
            version: version.to_owned(),
            published_at,
            ..Artifact::default()
        };
        let mut installed = self
            .packages
            .install(package, version)
            .await
            .map_err(|error| (error, Some(known)))?;
        installed.artifact.published_at = installed.artifact.published_at.or(published_at);
        Ok(installed)
    }

    async fn published(
        &self,
        package: &PackageName,
        clock: &dyn Clock,
    ) -> Result<Vec<PublishedVersion>, PackageError> {
        let now = clock.unix_seconds();
        let key = format!(
            "{} {} {:?}",
            package.registry.name(),
            package.name,
            package.alternative
        );
        if let Some((at, versions)) = self.versions.lock().await.get(&key)
            && now - at < VERSIONS_KNOWN_FOR
        {
            return Ok(versions.clone());
        }
        let versions = self.packages.versions(package).await?;
        let mut known = self.versions.lock().await;
        known.retain(|_, (at, _)| now - *at < VERSIONS_KNOWN_FOR);
        known.insert(key, (now, versions.clone()));
        Ok(versions)
    }
}

/// Where this machine keeps what a look uses, which is nobody's business, and what is told in its place.
fn private_paths(cache: &Path, reach: &Result<Reach, String>) -> Vec<(String, &'static str)> {
    let mut paths = Vec::new();
    let spellings = [std::path::absolute(cache), cache.canonicalize()];
    for cache in spellings.into_iter().filter_map(Result::ok) {
        paths.push((cache.to_string_lossy().into_owned(), "<cache>"));
    }
    if let Ok(Reach::Command(argv)) = reach {
        let parts = argv.iter().map(Path::new).filter(|part| part.is_absolute());
        for folder in parts
            .filter_map(Path::parent)
            .filter(|folder| folder.parent().is_some())
        {
            paths.push((folder.to_string_lossy().into_owned(), "<folder>"));
        }
    }
    // One within another goes first.
    paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    paths
}

/// The look that our own side cut off.
pub(crate) fn interrupted(target: &Target, problem: &str, now: i64) -> Look {
    let mut seen = Seen::failed(Outcome::Interrupted, problem);
    seen.passing = true;
    seen.at(target, now)
}

/// What was seen, before it is an observation of a target.
struct Seen {
    outcome: Outcome,
    passing: bool,
    /// Not yet safe to show, nor bounded.
    detail: Option<String>,
    artifact: Option<Artifact>,
    surface: Option<Surface>,
    sandbox: Option<&'static str>,
    /// Seconds.
    retry_after: Option<i64>,
}

impl Seen {
    /// A failure before there was anything to inspect, which stays one until somebody changes something.
    fn failed(outcome: Outcome, problem: &str) -> Seen {
        Seen {
            outcome,
            passing: false,
            detail: Some(problem.to_owned()),
            artifact: None,
            surface: None,
            sandbox: None,
            retry_after: None,
        }
    }

    /// What was seen of a server that got stand-ins for these variables: where it ended, that may be why.
    fn given_stand_ins(mut self, variables: &[String]) -> Seen {
        if variables.is_empty() {
            return self;
        }
        if self.outcome == Outcome::Crashed {
            self.outcome = Outcome::NeedsConfig;
        }
        let note = format!("started with stand-ins for {}", variables.join(", "));
        self.detail = Some(match self.detail {
            Some(detail) => format!("{note}; {detail}"),
            None => note,
        });
        self
    }

    fn not_obtained(error: &PackageError, known: Option<Artifact>) -> Seen {
        let outcome = error.outcome();
        Seen {
            passing: error.is_transient() || may_pass(outcome),
            artifact: known,
            ..Seen::failed(outcome, &error.to_string())
        }
    }

    fn inspected(inspection: Inspection) -> Seen {
        let outcome = inspection.outcome();
        let mut retry_after = None;
        let (detail, surface) = match inspection.result {
            Ok(surface) => {
                let odd: Vec<String> = unlisted(&surface).chain(inspection.notes).collect();
                ((!odd.is_empty()).then(|| odd.join("; ")), Some(surface))
            }
            Err(failure) => {
                let seconds = failure.retry_after.map(|after| after.as_secs());
                retry_after = seconds.and_then(|seconds| i64::try_from(seconds).ok());
                (Some(failure.reason), None)
            }
        };
        Seen {
            outcome,
            passing: may_pass(outcome),
            detail,
            artifact: None,
            surface,
            sandbox: None,
            retry_after,
        }
    }

    /// Servers name their own files in their last words and in errors.
    fn without(mut self, private: &[(String, &'static str)]) -> Seen {
        let listings = self.surface.iter_mut().flat_map(|surface| &mut surface.listings);
        let reasons = listings.filter_map(|listing| match listing {
            Listing::Failed { reason } => Some(reason),
            Listing::Complete | Listing::NotDeclared => None,
        });
        for text in reasons.chain(&mut self.detail) {
            for (path, name) in private {
                *text = text.replace(path, name);
            }
        }
        self
    }

    fn at(self, target: &Target, now: i64) -> Look {
        // A look that failed before the package was there still was a look at the version that was asked for.
        let artifact = self.artifact.or_else(|| {
            target.version.clone().map(|version| Artifact {
                version,
                ..Artifact::default()
            })
        });
        let version_key = match (&artifact, registry_of(&target.identity)) {
            (Some(artifact), Some(registry)) => sort_key(registry, &artifact.version),
            _ => None,
        };
        let is_remote = matches!(Reach::from_json(&target.launch), Ok(Reach::Url(_)));
        let observation = NewObservation {
            identity: target.identity.clone(),
            version_key,
            artifact,
            context: if is_remote { "anonymous" } else { "local" }.to_owned(),
            observed_at: now,
            outcome: self.outcome,
            detail: self.detail.map(|detail| visible_within(&detail, MAX_DETAIL)),
            surface: self.surface,
            sandbox: self.sandbox.map(str::to_owned),
        };
        Look {
            ended: Ended {
                outcome: self.outcome,
                passing: self.passing,
                retry_after: self.retry_after,
            },
            observation,
        }
    }
}

/// What of a partial surface could not be listed, and why.
fn unlisted(surface: &Surface) -> impl Iterator<Item = String> {
    MemberKind::ALL
        .into_iter()
        .filter_map(|kind| match surface.listing(kind) {
            Listing::Failed { reason } => Some(format!("{}s not listed: {reason}", kind.name())),
            Listing::Complete | Listing::NotDeclared => None,
        })
}

/// The package registry of an identity's written form.
fn registry_of(identity: &str) -> Option<Registry> {
    match identity.split_once(':')?.0 {
        "npm" => Some(Registry::Npm),
        "pypi" => Some(Registry::Pypi),
        _ => None,
    }
}
