//! Packages of npm and PyPI: which versions there are, and how to get one that can be started, without running its scripts.
//!
//! The ordinary `npm` and `pip` clients do the asking and the installing, since they know the user's registry. A version is
//! installed once into a folder of the cache and started from there. Its dependencies are resolved as of the day of the
//! installation, as they are for whoever installs it that day, and not as of its publication: one version can declare
//! different contracts with different dependencies, so [`Installed::artifact`] says by digest which set it was.
//!
//! Invariant: no code of a package runs before the server itself is started. (An index other than PyPI may offer wheels that
//! depend on a URL, which pip builds while it resolves; PyPI takes no such uploads.) Clients and servers run in jails alone.

mod cache;
mod client;
pub mod npm;
pub mod pypi;

use std::path::PathBuf;
use std::sync::Arc;

use mcpindex::wire::stdio::Launch;
use mcpindex_contract::identity::Registry;
use mcpindex_contract::outcome::Outcome;
use mcpindex_store::observations::Artifact;

use crate::jails::Jails;
use crate::settings::Settings;
use crate::version;
use cache::{Place, Record};

/// Which package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageName {
    /// npm or PyPI.
    pub registry: Registry,
    /// The normalised name.
    pub name: String,
    /// Another registry's base URL.
    pub alternative: Option<String>,
}

impl PackageName {
    /// `npm`, `pypi` or `oci`.
    fn registry_name(&self) -> &'static str {
        match self.registry {
            Registry::Npm => "npm",
            Registry::Pypi => "pypi",
            Registry::Oci => "oci",
        }
    }

    /// Refuses a name that its registry can't have, so that none reaches a client that could take it for an option, a path
    /// or a URL.
    fn check(&self) -> Result<(), PackageError> {
        let valid = match self.registry {
            Registry::Npm => npm::is_name(&self.name),
            Registry::Pypi => pypi::is_name(&self.name),
            Registry::Oci => false,
        };
        if !valid {
            return Err(self.not_found());
        }
        let is_web =
            |url: &str| url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        match &self.alternative {
            Some(url) if !is_web(url) => Err(client::failed(
                self.client(),
                &format!("`{url}` is no http(s) URL of a registry"),
            )),
            _ => Ok(()),
        }
    }

    fn client(&self) -> &'static str {
        if self.registry == Registry::Npm {
            npm::CLIENT
        } else {
            pypi::CLIENT
        }
    }

    fn not_found(&self) -> PackageError {
        PackageError::NotFound {
            registry: self.registry_name(),
            name: self.name.clone(),
        }
    }

    fn no_such_version(&self, version: &str) -> PackageError {
        PackageError::NoSuchVersion {
            name: self.name.clone(),
            version: client::one_line(version),
        }
    }

    fn no_program(&self, version: &str) -> PackageError {
        PackageError::NoProgram {
            name: self.name.clone(),
            version: version.to_owned(),
        }
    }
}

/// A published version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedVersion {
    /// As the registry writes it.
    pub version: String,
    /// When it was published, where the client tells it.
    pub published_at: Option<i64>,
    /// A pre-release by its registry's rules.
    pub prerelease: bool,
}

/// A package that can be started.
pub struct Installed {
    /// Version, integrity, dependencies, runtime.
    pub artifact: Artifact,
    /// How to start it (without the arguments that the target adds).
    pub launch: Launch,
    /// Whether it, or one of its installed dependencies, has an install script (which did not run): a server that then
    /// ends before it answers may lack what the script would have made.
    pub has_install_script: bool,
}

/// Why a package could not be had; [`PackageError::outcome`] is how an observation records it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// No such package.
    #[error("{registry} has no package `{name}`")]
    NotFound {
        /// `npm` or `pypi`.
        registry: &'static str,
        /// The package.
        name: String,
    },
    /// No such version.
    #[error("`{name}` has no version `{version}`")]
    NoSuchVersion {
        /// The package.
        name: String,
        /// The version.
        version: String,
    },
    /// The client is not on this machine.
    #[error("`{client}` is not installed; it is needed for {registry} packages")]
    ClientMissing {
        /// `npm`, `node`, `python3` or `pip`.
        client: &'static str,
        /// `npm` or `pypi`.
        registry: &'static str,
    },
    /// Only a source distribution, of the package or of a dependency: building it would run its code.
    #[error("`{name}` {version} has no wheel for this machine, and building it would run its code")]
    NeedsBuild {
        /// The package, or its dependency.
        name: String,
        /// The version; for a dependency what is asked of it.
        version: String,
    },
    /// The package declares nothing to start, or a program that is not in it.
    #[error("`{name}` {version} has no program to start")]
    NoProgram {
        /// The package.
        name: String,
        /// The version.
        version: String,
    },
    /// The client could not reach its registry; another time it may.
    #[error("{client} could not reach its registry: {reason}")]
    RegistryUnreachable {
        /// `npm` or `pip`.
        client: &'static str,
        /// One line of its words.
        reason: String,
    },
    /// The client took longer than [`TIME_LIMIT`]; another time it may not.
    #[error("{client} took longer than {seconds} s")]
    TimedOut {
        /// `npm` or `pip`.
        client: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The client failed in another way.
    #[error("{client} failed: {reason}")]
    Client {
        /// `npm` or `pip`.
        client: &'static str,
        /// One line of its words.
        reason: String,
    },
    /// The client used more than it may.
    #[error("{client} used more than {limit} {what}")]
    OverLimit {
        /// `npm` or `pip`.
        client: &'static str,
        /// What of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// There is no jail to run anything in.
    #[error("{reason}")]
    SandboxUnavailable {
        /// One line.
        reason: String,
    },
    /// The cache can't be used.
    #[error("the package cache `{path}` can't be used: {reason}")]
    Cache {
        /// The file or folder in question.
        path: String,
        /// The system's words.
        reason: String,
    },
}

pub use client::{MAX_OUTPUT, TIME_LIMIT};

impl PackageError {
    /// How an observation records it.
    pub fn outcome(&self) -> Outcome {
        match self {
            PackageError::NotFound { .. } => Outcome::PackageNotFound,
            PackageError::NoSuchVersion { .. } => Outcome::VersionNotFound,
            PackageError::NeedsBuild { .. } => Outcome::NeedsInstallScript,
            PackageError::ClientMissing { .. }
            | PackageError::NoProgram { .. }
            | PackageError::RegistryUnreachable { .. }
            | PackageError::TimedOut { .. }
            | PackageError::Client { .. } => Outcome::InstallFailed,
            PackageError::OverLimit { .. } => Outcome::OverLimit,
            PackageError::SandboxUnavailable { .. } => Outcome::SandboxUnavailable,
            PackageError::Cache { .. } => Outcome::Interrupted,
        }
    }

    /// Whether trying again later may help without anyone changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            PackageError::RegistryUnreachable { .. } | PackageError::TimedOut { .. }
        )
    }
}

/// Packages as one crawler gets them.
#[derive(Clone)]
pub struct Packages {
    jails: Arc<Jails>,
    cache: PathBuf,
}

impl Packages {
    /// By these settings: their cache, and a jail for whatever runs.
    pub fn new(settings: &Settings) -> Packages {
        Packages {
            jails: Jails::new(settings),
            cache: settings.cache.clone(),
        }
    }

    /// The jails that clients and servers run in.
    pub fn jails(&self) -> &Jails {
        &self.jails
    }

    /// Every published version, oldest first by the registry's own order of versions (semver, PEP 440); a text that is no
    /// version comes before all that are. What is withdrawn (unpublished, yanked) is listed or not as the client does.
    pub async fn versions(&self, package: &PackageName) -> Result<Vec<PublishedVersion>, PackageError> {
        package.check()?;
        let mut versions = match package.registry {
            Registry::Npm => npm::versions(&self.jails, package).await?,
            Registry::Pypi => pypi::versions(&self.jails, package).await?,
            Registry::Oci => return Err(package.not_found()),
        };
        versions.sort_by_cached_key(|published| {
            (
                version::sort_key(package.registry, &published.version),
                published.version.clone(),
            )
        });
        Ok(versions)
    }

    /// Installs one exact version unless it is there, and says how to start it. A range or a tag is no version. Calls for one
    /// version, in this process and in others, wait for one another.
    pub async fn install(&self, package: &PackageName, version: &str) -> Result<Installed, PackageError> {
        package.check()?;
        let Some(exact) = version::exact(package.registry, version) else {
            return Err(package.no_such_version(version));
        };
        let place = Place::new(&self.cache, package, &exact)?;
        if let Some(installed) = self.installed_before(package, &place).await? {
            return Ok(installed);
        }
        let _locked = place.lock().await?;
        if let Some(installed) = self.installed_before(package, &place).await? {
            return Ok(installed);
        }
        let _partial = place.start().await?;
        let made = match package.registry {
            Registry::Npm => npm::install(&self.jails, package, &exact, &place.partial).await,
            Registry::Pypi => pypi::install(&self.jails, package, &exact, &place.partial).await,
            Registry::Oci => Err(package.not_found()),
        };
        let record = made?;
        // Builds of one version are one version to both registries.
        let release = |version: &str| version.split('+').next().map(str::to_owned);
        let answered = version::exact(package.registry, &record.version);
        if answered.as_deref().and_then(release) != release(&exact) {
            let other = format!("the registry answered with version {}", record.version);
            return Err(client::failed(package.client(), &other));
        }
        place.finish(&record).await?;
        self.ready(package, &place, record).await
    }

    /// The version as an earlier call left it; `None` when there is none, or none that still runs.
    async fn installed_before(
        &self,
        package: &PackageName,
        place: &Place,
    ) -> Result<Option<Installed>, PackageError> {
        let Some(record) = place.record() else {
            return Ok(None);
        };
        let runs =
            package.registry != Registry::Pypi || pypi::still_runs(&place.folder, self.jails.python().await?);
        match runs {
            true => self.ready(package, place, record).await.map(Some),
            false => Ok(None),
        }
    }

    /// How to start what is installed, in a jail that reads it.
    async fn ready(
        &self,
        package: &PackageName,
        place: &Place,
        record: Record,
    ) -> Result<Installed, PackageError> {
        let (interpreter, mut launch) = match package.registry {
            Registry::Npm => {
                let node = self.jails.node().await?;
                let launch = npm::launch(package, &record.version, &place.folder, &node.program)?;
                (node, launch)
            }
            _ => {
                let launch = pypi::launch(package, &record.version, &place.folder)?;
                (self.jails.python().await?, launch)
            }
        };
        launch.jail = Some(Box::new(self.jails.listing(vec![place.folder.clone()]).await?));
        Ok(Installed {
            artifact: record.artifact(interpreter.version.clone()),
            launch,
            has_install_script: record.has_install_script,
        })
    }
}
