//! Settings: defaults, then a TOML file, then `MCPINDEX_*` variables, then flags; the later wins.
//!
//! One table (`keys`) names every setting with its variable and what it sets, so that the file and the environment are
//! read by the same code and a misspelt name can be answered with the nearest one.
//!
//! Invariant: a setting that is not understood stops the program with its place; the database's password is in no text
//! that this module makes.

mod keys;
mod values;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mcpindex::index::is_loopback;
use mcpindex_store::Location;
use mcpindex_store::approvals::queue::Scope;
use secrecy::{ExposeSecret as _, SecretString};
use toml::de::{DeTable, DeValue};
use url::Url;

use crate::access::{AccessRules, Metrics, Rates, Read};
use crate::ingest::{FleetRule, IngestRules};
use crate::login::settings::LoginSettings;
use crate::registry::Policy;
use crate::webhooks::settings::WebhookSettings;
use keys::{KEYS, Key, Set, refuse_misspelt_variable, unknown_key, unknown_section};
use values::database;
pub use values::{Every, listen_address};

/// The settings as a file, every one with its default.
pub const DEFAULT_FILE: &str = include_str!("default.toml");

/// Seconds that one look may take before another worker takes it over: an installation and a whole inspection fit in.
const LEASE_SECONDS: i64 = 900;

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder for what this program keeps.
    pub data: PathBuf,
    /// The file that was read, if one was.
    pub file: Option<PathBuf>,
    /// `[server]`.
    pub server: ServerSettings,
    /// `[access]`.
    pub access: AccessSettings,
    /// `[badges]`: short ids of servers whose badge everybody may see on a members-only index.
    pub badges: Vec<String>,
    /// `[database]`; `None` is the SQLite file in the data folder.
    pub database: Option<Location>,
    /// `[crawl]`.
    pub crawl: CrawlSettings,
    /// `[ingest]`.
    pub ingest: IngestSettings,
    /// `[receipts]`.
    pub receipts: ReceiptSettings,
    /// `[fleet]`.
    pub fleet: FleetRule,
    /// `[login]`, `[github]`, `[google]` and `[oidc]`.
    pub login: LoginSettings,
    /// `[approvals]`.
    pub approvals: ApprovalSettings,
    /// `[registry]`: which servers it lists.
    pub registry: Policy,
    /// `[webhooks]`.
    pub webhooks: WebhookSettings,
}

/// `[server]`: where pages and API are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The address that people use, when it is another one.
    pub public_url: Option<Url>,
    /// Addresses of proxies whose `X-Forwarded-For` is believed.
    pub proxies: Vec<IpAddr>,
    /// Who may read `/metrics`; `None`: everybody where only this machine can reach the server, else admins.
    pub metrics: Option<Metrics>,
}

/// Where a server is and how it is reached, on which depends what it lets whom do when nothing is said.
#[derive(Debug, Clone, Copy)]
pub struct Place<'s> {
    /// Where it listens.
    pub listening: SocketAddr,
    /// The address that people use, when it is another one.
    pub public_url: Option<&'s Url>,
    /// The proxies in front of it.
    pub proxies: &'s [IpAddr],
}

impl Place<'_> {
    /// Whether only this machine is meant to reach it: a public address or a proxy in front says otherwise.
    pub fn is_local(&self) -> bool {
        self.listening.ip().is_loopback()
            && self.proxies.is_empty()
            && self.public_url.is_none_or(is_loopback)
    }
}

/// `[access]`: who may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessSettings {
    /// Who may; `None`: everybody where only this machine can reach the server, else members.
    pub read: Option<Read>,
    /// Who may read the registry; `None`: whoever may read.
    pub registry: Option<Read>,
}

/// `[approvals]`: how is decided about tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// Whether an approval takes two people.
    pub two_person: bool,
    /// Of which servers the tools wait that nobody decided about.
    pub queue: Scope,
}

/// `[crawl]`: how servers are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlSettings {
    /// Time between two looks at a package or a command.
    pub every: Every,
    /// The same at a remote server.
    pub remote_every: Every,
    /// Addresses of registries whose servers are followed, and no others; `None` leaves those that the index follows as they are.
    pub registries: Option<Vec<String>>,
    /// Time between two readings of one.
    pub registries_every: Every,
    /// Seconds between two looks at one registrable domain.
    pub pace: i64,
    /// Looks at the same time.
    pub workers: usize,
    /// Private networks that servers may be in.
    pub allow_networks: Vec<String>,
    /// Whether plain `http:` is used outside of those networks.
    pub allow_http: bool,
    /// Node.js, where it is not `node` on PATH.
    pub node: Option<PathBuf>,
    /// Python, where it is not `python3` on PATH.
    pub python: Option<PathBuf>,
    /// Folders that commands may read in the sandbox, beside those that their lines name.
    pub read: Vec<PathBuf>,
    /// Where packages are installed; `None` is `packages` in the data folder.
    pub cache: Option<PathBuf>,
    /// A list of servers to follow.
    pub targets: Option<PathBuf>,
}

/// `[receipts]`: what installs may tell of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptSettings {
    /// Whether receipts are taken.
    pub open: bool,
    /// How long they are kept.
    pub keep: Every,
}

/// `[ingest]`: what installs may tell and ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestSettings {
    /// Whether anybody may; `None`: where only this machine can reach the server.
    pub open: Option<bool>,
    /// How much one address may.
    pub rates: Rates,
    /// How long signals are kept.
    pub keep: Every,
}

/// Why settings could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("the configuration `{path}` can't be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// A line of the file is not understood.
    #[error("{path}:{line}: {problem}")]
    Line {
        /// The file.
        path: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A variable is not understood.
    #[error("{variable}: {problem}")]
    Variable {
        /// Its name.
        variable: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A flag is not understood.
    #[error("{flag}: {problem}")]
    Flag {
        /// Its name.
        flag: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// The flags that are settings too.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--data`.
    pub data: PathBuf,
    /// `--database`.
    pub database: Option<SecretString>,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
}

impl Settings {
    /// The settings when nothing is set, with this data folder.
    pub fn defaults(data: PathBuf) -> Settings {
        Settings {
            data,
            file: None,
            server: ServerSettings {
                listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
                public_url: None,
                proxies: Vec::new(),
                metrics: None,
            },
            access: AccessSettings {
                read: None,
                registry: None,
            },
            badges: Vec::new(),
            database: None,
            crawl: CrawlSettings {
                every: Every::DAY,
                remote_every: Every::HOUR,
                registries: None,
                registries_every: Every::HOUR,
                pace: 10,
                workers: 4,
                node: None,
                python: None,
                read: Vec::new(),
                allow_networks: Vec::new(),
                allow_http: false,
                cache: None,
                targets: None,
            },
            receipts: ReceiptSettings {
                open: false,
                keep: Every::QUARTER,
            },
            ingest: IngestSettings {
                open: None,
                rates: Rates::default(),
                keep: Every::MONTH,
            },
            fleet: FleetRule {
                authenticated_installs: 2,
                authenticated_networks: 2,
                anonymous_installs: 10,
                anonymous_networks: 3,
            },
            login: LoginSettings::default(),
            approvals: ApprovalSettings::default(),
            registry: Policy::All,
            webhooks: WebhookSettings::default(),
        }
    }

    /// Reads the file that the flags name, then `variables`, then the flags.
    pub fn load(
        flags: &Flags,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings::defaults(flags.data.clone());
        if let Some(path) = &flags.config {
            let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
                path: path.display().to_string(),
                reason: error.to_string(),
            })?;
            settings.read_file(path, &text)?;
        }
        settings.read_variables(variables)?;
        if let Some(url) = &flags.database {
            let database = database(url.expose_secret(), Path::new(""));
            settings.database = Some(database.map_err(|problem| ConfigError::Flag {
                flag: "--database",
                problem,
            })?);
        }
        if let Some(listen) = flags.listen {
            settings.server.listen = listen;
        }
        Ok(settings)
    }

    /// Where the database is.
    pub fn location(&self) -> Location {
        self.database
            .clone()
            .unwrap_or_else(|| Location::Sqlite(self.data.join("mcpindex.db")))
    }

    /// Where packages are installed.
    pub fn cache(&self) -> PathBuf {
        self.crawl
            .cache
            .clone()
            .unwrap_or_else(|| self.data.join("packages"))
    }

    /// The crawler's part.
    pub fn for_crawler(&self) -> mcpindex_crawler::settings::Settings {
        mcpindex_crawler::settings::Settings {
            every: mcpindex_crawler::settings::Every {
                package: self.crawl.every.seconds(),
                remote: self.crawl.remote_every.seconds(),
            },
            registries: self.crawl.registries.clone(),
            pace: self.crawl.pace,
            registries_every: self.crawl.registries_every.seconds(),
            workers: self.crawl.workers,
            allow_networks: self.crawl.allow_networks.clone(),
            allow_http: self.crawl.allow_http,
            entrance: this_program(),
            node: self.crawl.node.clone(),
            python: self.crawl.python.clone(),
            read: self.crawl.read.clone(),
            cache: self.cache(),
            lease: LEASE_SECONDS,
        }
    }

    /// How signals are taken in by a server that listens here.
    pub fn for_ingest(&self, listening: SocketAddr) -> IngestRules {
        IngestRules {
            open: self.ingest.open.unwrap_or(self.place(listening).is_local()),
            fleet: self.fleet.clone(),
            keep: self.ingest.keep.seconds(),
            receipts: self.receipts.open,
            keep_receipts: self.receipts.keep.seconds(),
        }
    }

    /// Who may do what at a server that listens here.
    pub fn for_access(&self, listening: SocketAddr) -> AccessRules {
        let by_place = if self.place(listening).is_local() {
            Read::Public
        } else {
            Read::Members
        };
        let read = self.access.read.unwrap_or(by_place);
        AccessRules {
            read,
            registry: self.access.registry.unwrap_or(read),
            rates: self.ingest.rates.clone(),
            proxies: self.server.proxies.clone(),
            // An index that is made public elsewhere has not said so of its numbers.
            metrics: self.server.metrics.unwrap_or(match (by_place, read) {
                (Read::Public, Read::Public) => Metrics::Open,
                _ => Metrics::Admins,
            }),
            badges: self.badges.clone(),
        }
    }

    /// Where a server is that listens here.
    pub fn place(&self, listening: SocketAddr) -> Place<'_> {
        Place {
            listening,
            public_url: self.server.public_url.as_ref(),
            proxies: &self.server.proxies,
        }
    }

    fn read_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let at = |offset: usize, problem: String| ConfigError::Line {
            path: path.display().to_string(),
            line: line_of(text, offset),
            problem,
        };
        let base = path.parent().unwrap_or(Path::new(""));
        let document = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            at(offset, one_line(error.message()))
        })?;
        for (section, value) in in_file_order(document.get_ref()) {
            let name = section.get_ref().as_ref();
            let place = section.span().start;
            if !KEYS.iter().any(|key| key.section == name) {
                return Err(at(place, unknown_section(name)));
            }
            let DeValue::Table(table) = value.get_ref() else {
                return Err(at(place, format!("`{name}` is a section: write [{name}]")));
            };
            for (key, value) in in_file_order(table) {
                let place = key.span().start;
                let known = KEYS
                    .iter()
                    .find(|known| known.section == name && known.name == key.get_ref().as_ref())
                    .ok_or_else(|| at(place, unknown_key(name, key.get_ref())))?;
                self.set_from_file(known, value.get_ref(), base)
                    .map_err(|problem| at(place, format!("[{name}] {}: {problem}", known.name)))?;
            }
        }
        self.file = Some(path.to_owned());
        Ok(())
    }

    fn set_from_file(&mut self, key: &Key, value: &DeValue<'_>, base: &Path) -> Result<(), String> {
        match (&key.set, value) {
            (Set::Text(set), DeValue::String(text)) => set(self, text),
            (Set::Number(set), DeValue::Integer(number)) => {
                let number = i64::from_str_radix(number.as_str(), number.radix())
                    .map_err(|_| format!("{number} is too large"))?;
                set(self, number)
            }
            (Set::Switch(set), DeValue::Boolean(on)) => {
                set(self, *on);
                Ok(())
            }
            (Set::List(set), DeValue::Array(items)) => {
                let texts: Option<Vec<String>> = items
                    .iter()
                    .map(|item| item.get_ref().as_str().map(str::to_owned))
                    .collect();
                set(
                    self,
                    texts.ok_or("expected a list of texts, such as [\"10.1.0.0/16\"]")?,
                )
            }
            (Set::Path(set), DeValue::String(text)) => {
                set(self, base.join(text.as_ref()));
                Ok(())
            }
            (Set::Database, DeValue::String(text)) => {
                self.database = Some(database(text, base)?);
                Ok(())
            }
            (Set::DatabaseFile, DeValue::String(text)) => {
                self.database = Some(database_file(&base.join(text.as_ref()))?);
                Ok(())
            }
            (set, other) => Err(format!("expected {}, not a {}", set.expects(), other.type_str())),
        }
    }

    fn read_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        // An empty variable is one that is not set: that is how compose files hand on what the user left out.
        let given = variables
            .into_iter()
            .filter(|(name, value)| name.starts_with("MCPINDEX_") && !value.is_empty());
        for (name, value) in given {
            let result = match KEYS.iter().find(|key| key.variable == name) {
                Some(key) => self.set_from_variable(key, &value),
                None => refuse_misspelt_variable(&name),
            };
            result.map_err(|problem| ConfigError::Variable {
                variable: name,
                problem,
            })?;
        }
        Ok(())
    }

    fn set_from_variable(&mut self, key: &Key, text: &str) -> Result<(), String> {
        match &key.set {
            Set::Text(set) => set(self, text),
            Set::Number(set) => set(
                self,
                text.parse()
                    .map_err(|_| format!("expected a number, not `{text}`"))?,
            ),
            Set::Switch(set) => {
                set(
                    self,
                    text.parse()
                        .map_err(|_| format!("expected `true` or `false`, not `{text}`"))?,
                );
                Ok(())
            }
            Set::List(set) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                set(self, items.map(str::to_owned).collect())
            }
            Set::Path(set) => {
                set(self, PathBuf::from(text));
                Ok(())
            }
            Set::Database => {
                self.database = Some(database(text, Path::new(""))?);
                Ok(())
            }
            Set::DatabaseFile => {
                self.database = Some(database_file(Path::new(text))?);
                Ok(())
            }
        }
    }
}

/// Where the database is, from a file with nothing else in it: that is how containers are handed what holds a password.
fn database_file(path: &Path) -> Result<Location, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("`{shown}` can't be read: {error}"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    database(text.trim(), folder).map_err(|problem| format!("in `{shown}`: {problem}"))
}

type Entry<'t, 'i> = (
    &'t toml::Spanned<std::borrow::Cow<'i, str>>,
    &'t toml::Spanned<DeValue<'i>>,
);

/// The entries as they stand in the file, so that the first mistake is the one reported.
fn in_file_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
    let mut entries: Vec<Entry<'t, 'i>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

/// What starts itself again to enter a jail.
pub(crate) fn this_program() -> PathBuf {
    // Where that can't be known there is no sandbox, and the reason is said with it.
    std::env::current_exe().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, ConfigError> {
        let mut settings = Settings::defaults(PathBuf::from("data"));
        settings.read_file(Path::new("etc/mcpindex.toml"), text)?;
        Ok(settings)
    }

    fn check_refused(text: &str, expected: &str) {
        let error = read(text).expect_err("the text is not right");
        assert_eq!(error.to_string(), expected);
    }

    fn with_variables(variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let mut settings = Settings::defaults(PathBuf::from("data"));
        settings.read_variables(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )?;
        Ok(settings)
    }

    #[test]
    fn the_default_file_sets_the_defaults() {
        let read = read(DEFAULT_FILE).expect("the default file is right");
        let defaults = Settings::defaults(PathBuf::from("data"));
        assert_eq!(read.server, defaults.server);
        assert!(read.database.is_none());
        assert_eq!(read.crawl, defaults.crawl);
        assert_eq!(read.access, defaults.access);
        assert_eq!(read.badges, defaults.badges);
        assert_eq!(read.ingest, defaults.ingest);
        assert_eq!(read.receipts, defaults.receipts);
        assert_eq!(read.fleet, defaults.fleet);
    }

    #[test]
    fn the_default_file_names_every_setting_and_its_variable() {
        for key in KEYS {
            let line = |line: &str| {
                line.trim_start_matches("# ")
                    .starts_with(&format!("{} = ", key.name))
            };
            assert!(DEFAULT_FILE.lines().any(line), "{} is missing", key.name);
            assert!(DEFAULT_FILE.contains(key.variable), "{} is missing", key.variable);
        }
    }

    #[test]
    fn what_the_default_file_leaves_out_can_be_put_in() {
        let uncommented: Vec<&str> = DEFAULT_FILE
            .lines()
            // What is in that file is read along with the settings.
            .filter(|line| !line.contains("url_file = "))
            .map(|line| match line.strip_prefix("# ") {
                Some(setting) if setting.contains(" = ") => setting,
                _ => line,
            })
            .collect();
        let settings = read(&uncommented.join("\n")).expect("every setting is right");
        assert_eq!(
            settings.server.public_url.map(String::from).as_deref(),
            Some("https://mcpindex.example.com/")
        );
        assert!(matches!(settings.database, Some(Location::Postgres(_))));
        assert_eq!(settings.crawl.cache, Some(PathBuf::from("etc/packages")));
        assert_eq!(settings.crawl.targets, Some(PathBuf::from("etc/targets.toml")));
        assert_eq!(settings.ingest.open, Some(true));
    }

    #[test]
    fn a_misspelt_key_is_refused_with_its_line_and_the_nearest_one() {
        check_refused(
            "[server]\nlisten = \"127.0.0.1:1\"\n\n[crawl]\nevry = \"24h\"\n",
            "etc/mcpindex.toml:5: unknown key `evry` in [crawl]; did you mean `every`?",
        );
        check_refused(
            "[crawl]\ntimeout = 3\n",
            "etc/mcpindex.toml:2: unknown key `timeout` in [crawl]; known are every, remote_every, registries, registries_every, pace, workers, allow_networks, allow_http, node, python, read, cache, targets",
        );
        check_refused(
            "[craw]\n",
            "etc/mcpindex.toml:1: unknown section [craw]; did you mean [crawl]?",
        );
        check_refused(
            "listen = \"127.0.0.1:1\"\n",
            "etc/mcpindex.toml:1: `listen` belongs in [server]",
        );
        check_refused(
            "[server]\nevery = \"1h\"\n",
            "etc/mcpindex.toml:2: `every` belongs in [crawl], not in [server]",
        );
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_its_line() {
        check_refused(
            "[crawl]\nworkers = \"4\"\n",
            "etc/mcpindex.toml:2: [crawl] workers: expected a number, not a string",
        );
        check_refused(
            "[crawl]\nworkers = 0\n",
            "etc/mcpindex.toml:2: [crawl] workers: expected a number from 1 to 64, not 0",
        );
        check_refused(
            "[crawl]\nevery = \"daily\"\n",
            "etc/mcpindex.toml:2: [crawl] every: `daily` is no time: write it as 30m, 24h or 7d",
        );
        check_refused(
            "[crawl]\nallow_networks = [10]\n",
            "etc/mcpindex.toml:2: [crawl] allow_networks: expected a list of texts, such as [\"10.1.0.0/16\"]",
        );
        check_refused(
            "crawl = 3\n",
            "etc/mcpindex.toml:1: `crawl` is a section: write [crawl]",
        );
        let error = read("[crawl]\nevery = \n").expect_err("no value");
        assert!(error.to_string().starts_with("etc/mcpindex.toml:2: "), "{error}");
    }

    #[test]
    fn variables_are_stronger_than_the_file_and_flags_than_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mcpindex.toml");
        std::fs::write(
            &file,
            "[server]\nlisten = \"127.0.0.1:1\"\n[crawl]\nworkers = 1\nevery = \"1h\"\n",
        )
        .expect("written");
        let flags = Flags {
            config: Some(file),
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 3))),
            ..Flags::default()
        };
        let variables = [
            ("MCPINDEX_LISTEN", "127.0.0.1:2"),
            ("MCPINDEX_CRAWL_WORKERS", "2"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = Settings::load(&flags, variables).expect("right");
        assert_eq!(settings.server.listen.port(), 3);
        assert_eq!(settings.crawl.workers, 2);
        assert_eq!(settings.crawl.every.seconds(), 3600);
    }

    #[test]
    fn the_database_may_be_named_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            with_variables(&[("MCPINDEX_DATABASE_FILE", file.to_str().unwrap())])
        };
        let settings = load("postgres://mcpindex:word@db/mcpindex\n").unwrap();
        assert_eq!(settings.location().to_string(), "postgres://mcpindex@db/mcpindex");
        let refused = load("mysql://mcpindex:word@db/x").unwrap_err().to_string();
        assert!(refused.starts_with("MCPINDEX_DATABASE_FILE: in `"), "{refused}");
        assert!(!refused.contains("word"), "{refused}");
        let missing = with_variables(&[("MCPINDEX_DATABASE_FILE", "/none/url")]).unwrap_err();
        assert!(
            missing.to_string().contains("`/none/url` can't be read"),
            "{missing}"
        );
    }

    #[test]
    fn a_variable_has_the_type_of_its_setting() {
        let settings = with_variables(&[
            ("MCPINDEX_CRAWL_ALLOW_NETWORKS", "10.1.0.0/16, 192.168.0.0/24"),
            ("MCPINDEX_CRAWL_READ", "/srv/a,/srv/b"),
            ("MCPINDEX_CRAWL_EVERY", ""),
            ("MCPINDEX_SOMEONE_ELSES", "1"),
        ])
        .expect("right");
        assert_eq!(settings.crawl.allow_networks, ["10.1.0.0/16", "192.168.0.0/24"]);
        assert_eq!(
            settings.crawl.read,
            [PathBuf::from("/srv/a"), PathBuf::from("/srv/b")]
        );
        assert_eq!(settings.crawl.every.seconds(), 86_400);

        let refused = |name, value| {
            with_variables(&[(name, value)])
                .expect_err("not right")
                .to_string()
        };
        assert_eq!(
            refused("MCPINDEX_CRAWL_ALLOW_HTTP", "yes"),
            "MCPINDEX_CRAWL_ALLOW_HTTP: expected `true` or `false`, not `yes`"
        );
        assert_eq!(
            refused("MCPINDEX_CRAWL_RUN_PACKAGES", "true"),
            "MCPINDEX_CRAWL_RUN_PACKAGES: it is gone: what runs, runs in a sandbox; take it out"
        );
        assert_eq!(
            refused("MCPINDEX_CRAWL_EVRY", "1h"),
            "MCPINDEX_CRAWL_EVRY: no such setting; did you mean MCPINDEX_CRAWL_EVERY?"
        );
    }

    #[test]
    fn a_password_is_in_no_text() {
        let settings = with_variables(&[("MCPINDEX_DATABASE", "postgres://u:hunter2@h/n")]).expect("right");
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert!(!settings.location().to_string().contains("hunter2"));
        let refused =
            with_variables(&[("MCPINDEX_DATABASE", "mysql://u:hunter2@h/n")]).expect_err("not ours");
        assert_eq!(
            refused.to_string(),
            "MCPINDEX_DATABASE: `mysql:` is no database known here: expected a path, `sqlite:PATH` or `postgres://…`"
        );
    }

    fn ingest_rules(text: &str, listening: &str) -> IngestRules {
        let listening = listening.parse().expect("an address");
        read(text).expect("right").for_ingest(listening)
    }

    fn access_rules(text: &str, listening: &str) -> AccessRules {
        let listening = listening.parse().expect("an address");
        read(text).expect("right").for_access(listening)
    }

    #[test]
    fn signals_are_taken_on_loopback_unless_said_otherwise() {
        let check = |text: &str, listening: &str, open: bool| {
            assert_eq!(ingest_rules(text, listening).open, open, "{text} {listening}");
        };
        check("", "127.0.0.1:1", true);
        check(
            "[server]\npublic_url = \"https://a.example/\"\n",
            "127.0.0.1:1",
            false,
        );
        check("", "[::1]:1", true);
        check("", "0.0.0.0:1", false);
        check("[ingest]\nopen = true\n", "0.0.0.0:1", true);
        check("[ingest]\nopen = false\n", "127.0.0.1:1", false);
    }

    #[test]
    fn an_index_that_others_reach_is_its_members_unless_said_otherwise() {
        let check = |text: &str, listening: &str, expected: Read| {
            assert_eq!(access_rules(text, listening).read, expected, "{text} {listening}");
        };
        check("", "127.0.0.1:1", Read::Public);
        check("", "[::1]:1", Read::Public);
        check("", "0.0.0.0:1", Read::Members);
        check("", "192.0.2.1:1", Read::Members);
        check(
            "[server]\npublic_url = \"https://a.example/\"\n",
            "127.0.0.1:1",
            Read::Members,
        );
        check(
            "[server]\npublic_url = \"http://localhost:9/\"\n",
            "127.0.0.1:1",
            Read::Public,
        );
        // Others come through it, whatever address it has.
        check(
            "[server]\nproxies = [\"127.0.0.1\"]\n",
            "127.0.0.1:1",
            Read::Members,
        );
        check("[access]\nread = \"public\"\n", "0.0.0.0:1", Read::Public);
        check("[access]\nread = \"members\"\n", "127.0.0.1:1", Read::Members);
        check_refused(
            "[access]\nread = \"all\"\n",
            "etc/mcpindex.toml:2: [access] read: `all` is no answer to who may read: write public or members",
        );
    }

    #[test]
    fn public_badges_are_of_servers_however_they_are_named() {
        let settings = with_variables(&[("MCPINDEX_BADGES_PUBLIC", "npm:@scope/name@1.2, 0123456789abcdef")]);
        let rules = settings
            .expect("right")
            .for_access("0.0.0.0:1".parse().expect("an address"));
        let identity = mcpindex_contract::identity::Identity::from_reference("npm:@scope/name").expect("one");
        assert_eq!(
            rules.badges,
            [identity.identity.short_id(), "0123456789abcdef".to_owned()]
        );
        check_refused(
            "[badges]\npublic = [\"name\"]\n",
            "etc/mcpindex.toml:2: [badges] public: `name` names no server: write npm:NAME, pypi:NAME, oci:NAME, a URL or a short id",
        );
    }

    #[test]
    fn what_is_counted_is_for_admins_where_others_reach_the_server() {
        let check = |text: &str, listening: &str, metrics: Metrics| {
            assert_eq!(
                access_rules(text, listening).metrics,
                metrics,
                "{text} {listening}"
            );
        };
        check("", "127.0.0.1:1", Metrics::Open);
        check("", "0.0.0.0:1", Metrics::Admins);
        // Whoever reads the index need not know how much it is used.
        check("[access]\nread = \"public\"\n", "0.0.0.0:1", Metrics::Admins);
        // The numbers name the version, which a members-only index tells nobody.
        check("[access]\nread = \"members\"\n", "127.0.0.1:1", Metrics::Admins);
        check("[server]\nmetrics = \"open\"\n", "0.0.0.0:1", Metrics::Open);
        check("[server]\nmetrics = \"off\"\n", "127.0.0.1:1", Metrics::Off);
        check_refused(
            "[server]\nmetrics = \"everybody\"\n",
            "etc/mcpindex.toml:2: [server] metrics: `everybody` is no answer to who may read /metrics: write open, admins or off",
        );
    }

    #[test]
    fn receipts_are_taken_where_the_settings_say_so_and_kept_as_long_as_they_say() {
        let check = |text: &str, listening: &str, expected: (bool, i64)| {
            let rules = ingest_rules(text, listening);
            assert_eq!((rules.receipts, rules.keep_receipts), expected);
        };
        check("", "127.0.0.1:1", (false, 90 * 86_400));
        check("[receipts]\nopen = true\n", "0.0.0.0:1", (true, 90 * 86_400));
        check(
            "[receipts]\nopen = true\nkeep = \"1d\"\n",
            "127.0.0.1:1",
            (true, 86_400),
        );
    }

    #[test]
    fn a_rule_of_nobody_and_a_keeping_shorter_than_an_hour_may_be_old_are_refused() {
        check_refused(
            "[fleet]\nauthenticated_installs = 0\n",
            "etc/mcpindex.toml:2: [fleet] authenticated_installs: expected a number from 1 on, not 0",
        );
        check_refused(
            "[ingest]\nkeep = \"7d\"\n",
            "etc/mcpindex.toml:2: [ingest] keep: `7d` is too short: signals may be 7 days old when they come, so at least 8d",
        );
        check_refused(
            "[server]\nproxies = [\"10.0.0.0/8\"]\n",
            "etc/mcpindex.toml:2: [server] proxies: `10.0.0.0/8` is no address: write it as 10.0.0.1",
        );
    }

    #[test]
    fn an_sqlite_path_starts_where_it_was_written() {
        let settings = read("[database]\nurl = \"index.db\"\n").expect("right");
        assert_eq!(
            settings.location(),
            Location::Sqlite(PathBuf::from("etc/index.db"))
        );
        let settings = with_variables(&[("MCPINDEX_DATABASE", "sqlite:index.db")]).expect("right");
        assert_eq!(settings.location(), Location::Sqlite(PathBuf::from("index.db")));
    }
}
