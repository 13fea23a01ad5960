//! The table of settings, and the nearest name for one that is not in it.
//!
//! Invariant: a setting has one row, from which the file and the environment are read; a name that is no setting is answered
//! with what was likely meant.

use std::path::PathBuf;

use super::Settings;
use super::values::{
    addresses, at_least_one, keep, listen_address, metrics, policy, public_url, queue, read,
    registry_address, secret, short_id, word,
};
use crate::login::settings::{base_url, issuer};
use crate::webhooks::settings::hosts;

/// The most looks at the same time: each one is a process or a connection.
const MOST_WORKERS: i64 = 64;

/// The most deliveries at the same time: each one is a connection.
const MOST_DELIVERIES: i64 = 1_024;

/// One setting.
pub(super) struct Key {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) variable: &'static str,
    pub(super) set: Set,
}

/// What kind of value a setting takes, and where it goes. `Path` values are made absolute to where they were written.
pub(super) enum Set {
    Text(fn(&mut Settings, &str) -> Result<(), String>),
    Number(fn(&mut Settings, i64) -> Result<(), String>),
    Switch(fn(&mut Settings, bool)),
    List(fn(&mut Settings, Vec<String>) -> Result<(), String>),
    Path(fn(&mut Settings, PathBuf)),
    Database,
    /// A file with nothing but the same in it.
    DatabaseFile,
}

/// Every setting of the file, in the order of `default.toml`.
pub(super) const KEYS: &[Key] = &[
    Key {
        section: "server",
        name: "listen",
        variable: "MCPINDEX_LISTEN",
        set: Set::Text(|settings, text| {
            settings.server.listen = listen_address(text)?;
            Ok(())
        }),
    },
    Key {
        section: "server",
        name: "public_url",
        variable: "MCPINDEX_PUBLIC_URL",
        set: Set::Text(|settings, text| {
            settings.server.public_url = Some(public_url(text)?);
            Ok(())
        }),
    },
    Key {
        section: "server",
        name: "proxies",
        variable: "MCPINDEX_PROXIES",
        set: Set::List(|settings, texts| {
            settings.server.proxies = addresses(&texts)?;
            Ok(())
        }),
    },
    Key {
        section: "server",
        name: "metrics",
        variable: "MCPINDEX_METRICS",
        set: Set::Text(|settings, text| {
            settings.server.metrics = Some(metrics(text)?);
            Ok(())
        }),
    },
    Key {
        section: "access",
        name: "read",
        variable: "MCPINDEX_ACCESS_READ",
        set: Set::Text(|settings, text| {
            settings.access.read = Some(read(text)?);
            Ok(())
        }),
    },
    Key {
        section: "access",
        name: "registry",
        variable: "MCPINDEX_ACCESS_REGISTRY",
        set: Set::Text(|settings, text| {
            settings.access.registry = Some(read(text)?);
            Ok(())
        }),
    },
    Key {
        section: "badges",
        name: "public",
        variable: "MCPINDEX_BADGES_PUBLIC",
        set: Set::List(|settings, texts| {
            settings.badges = texts
                .iter()
                .map(|text| short_id(text))
                .collect::<Result<_, _>>()?;
            Ok(())
        }),
    },
    Key {
        section: "database",
        name: "url",
        variable: "MCPINDEX_DATABASE",
        set: Set::Database,
    },
    Key {
        section: "database",
        name: "url_file",
        variable: "MCPINDEX_DATABASE_FILE",
        set: Set::DatabaseFile,
    },
    Key {
        section: "crawl",
        name: "every",
        variable: "MCPINDEX_CRAWL_EVERY",
        set: Set::Text(|settings, text| {
            settings.crawl.every = text.parse()?;
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "remote_every",
        variable: "MCPINDEX_CRAWL_REMOTE_EVERY",
        set: Set::Text(|settings, text| {
            settings.crawl.remote_every = text.parse()?;
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "registries",
        variable: "MCPINDEX_CRAWL_REGISTRIES",
        set: Set::List(|settings, addresses| {
            let read = addresses.iter().map(|address| registry_address(address));
            settings.crawl.registries = Some(read.collect::<Result<_, _>>()?);
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "registries_every",
        variable: "MCPINDEX_CRAWL_REGISTRIES_EVERY",
        set: Set::Text(|settings, text| {
            settings.crawl.registries_every = text.parse()?;
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "pace",
        variable: "MCPINDEX_CRAWL_PACE",
        set: Set::Number(|settings, seconds| {
            settings.crawl.pace = Some(seconds)
                .filter(|seconds| (0..=86_400).contains(seconds))
                .ok_or_else(|| format!("expected seconds from 0 to 86400, not {seconds}"))?;
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "workers",
        variable: "MCPINDEX_CRAWL_WORKERS",
        set: Set::Number(|settings, number| {
            settings.crawl.workers = usize::try_from(number)
                .ok()
                .filter(|_| (1..=MOST_WORKERS).contains(&number))
                .ok_or_else(|| format!("expected a number from 1 to {MOST_WORKERS}, not {number}"))?;
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "allow_networks",
        variable: "MCPINDEX_CRAWL_ALLOW_NETWORKS",
        set: Set::List(|settings, networks| {
            settings.crawl.allow_networks = networks;
            Ok(())
        }),
    },
    Key {
        section: "crawl",
        name: "allow_http",
        variable: "MCPINDEX_CRAWL_ALLOW_HTTP",
        set: Set::Switch(|settings, on| settings.crawl.allow_http = on),
    },
    Key {
        section: "crawl",
        name: "node",
        variable: "MCPINDEX_CRAWL_NODE",
        set: Set::Path(|settings, path| settings.crawl.node = Some(path)),
    },
    Key {
        section: "crawl",
        name: "python",
        variable: "MCPINDEX_CRAWL_PYTHON",
        set: Set::Path(|settings, path| settings.crawl.python = Some(path)),
    },
    Key {
        section: "crawl",
        name: "read",
        variable: "MCPINDEX_CRAWL_READ",
        set: Set::List(|settings, folders| {
            settings.crawl.read = folders.into_iter().map(PathBuf::from).collect();
            match settings.crawl.read.iter().find(|folder| !folder.is_absolute()) {
                Some(folder) => Err(format!("`{}` is no absolute path", folder.display())),
                None => Ok(()),
            }
        }),
    },
    Key {
        section: "crawl",
        name: "cache",
        variable: "MCPINDEX_CRAWL_CACHE",
        set: Set::Path(|settings, path| settings.crawl.cache = Some(path)),
    },
    Key {
        section: "crawl",
        name: "targets",
        variable: "MCPINDEX_CRAWL_TARGETS",
        set: Set::Path(|settings, path| settings.crawl.targets = Some(path)),
    },
    Key {
        section: "ingest",
        name: "open",
        variable: "MCPINDEX_INGEST_OPEN",
        set: Set::Switch(|settings, on| settings.ingest.open = Some(on)),
    },
    Key {
        section: "ingest",
        name: "batches_per_minute",
        variable: "MCPINDEX_INGEST_BATCHES_PER_MINUTE",
        set: Set::Number(|settings, number| {
            settings.ingest.rates.batches_per_minute = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "ingest",
        name: "signals_per_hour",
        variable: "MCPINDEX_INGEST_SIGNALS_PER_HOUR",
        set: Set::Number(|settings, number| {
            settings.ingest.rates.signals_per_hour = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "ingest",
        name: "lookups_per_minute",
        variable: "MCPINDEX_INGEST_LOOKUPS_PER_MINUTE",
        set: Set::Number(|settings, number| {
            settings.ingest.rates.lookups_per_minute = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "ingest",
        name: "registrations_per_minute",
        variable: "MCPINDEX_INGEST_REGISTRATIONS_PER_MINUTE",
        set: Set::Number(|settings, number| {
            settings.ingest.rates.registrations_per_minute = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "ingest",
        name: "key_batches_per_minute",
        variable: "MCPINDEX_INGEST_KEY_BATCHES_PER_MINUTE",
        set: Set::Number(|settings, number| {
            settings.ingest.rates.key_batches_per_minute = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "ingest",
        name: "key_signals_per_hour",
        variable: "MCPINDEX_INGEST_KEY_SIGNALS_PER_HOUR",
        set: Set::Number(|settings, number| {
            settings.ingest.rates.key_signals_per_hour = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "ingest",
        name: "keep",
        variable: "MCPINDEX_INGEST_KEEP",
        set: Set::Text(|settings, text| {
            settings.ingest.keep = keep(text)?;
            Ok(())
        }),
    },
    Key {
        section: "receipts",
        name: "open",
        variable: "MCPINDEX_RECEIPTS_OPEN",
        set: Set::Switch(|settings, on| settings.receipts.open = on),
    },
    Key {
        section: "receipts",
        name: "keep",
        variable: "MCPINDEX_RECEIPTS_KEEP",
        set: Set::Text(|settings, text| {
            settings.receipts.keep = text.parse()?;
            Ok(())
        }),
    },
    Key {
        section: "fleet",
        name: "authenticated_installs",
        variable: "MCPINDEX_FLEET_AUTHENTICATED_INSTALLS",
        set: Set::Number(|settings, number| {
            settings.fleet.authenticated_installs = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "fleet",
        name: "authenticated_networks",
        variable: "MCPINDEX_FLEET_AUTHENTICATED_NETWORKS",
        set: Set::Number(|settings, number| {
            settings.fleet.authenticated_networks = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "fleet",
        name: "anonymous_installs",
        variable: "MCPINDEX_FLEET_ANONYMOUS_INSTALLS",
        set: Set::Number(|settings, number| {
            settings.fleet.anonymous_installs = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "fleet",
        name: "anonymous_networks",
        variable: "MCPINDEX_FLEET_ANONYMOUS_NETWORKS",
        set: Set::Number(|settings, number| {
            settings.fleet.anonymous_networks = at_least_one(number)?;
            Ok(())
        }),
    },
    Key {
        section: "login",
        name: "allow",
        variable: "MCPINDEX_LOGIN_ALLOW",
        set: Set::List(|settings, texts| {
            settings.login.allow = texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
            Ok(())
        }),
    },
    Key {
        section: "login",
        name: "device",
        variable: "MCPINDEX_LOGIN_DEVICE",
        set: Set::Switch(|settings, on| settings.login.device = on),
    },
    Key {
        section: "login",
        name: "published_form",
        variable: "MCPINDEX_LOGIN_PUBLISHED_FORM",
        set: Set::Switch(|settings, on| settings.login.published_form = Some(on)),
    },
    Key {
        section: "login",
        name: "dev",
        variable: "MCPINDEX_LOGIN_DEV",
        set: Set::Switch(|settings, on| settings.login.dev = on),
    },
    Key {
        section: "github",
        name: "client_id",
        variable: "MCPINDEX_GITHUB_CLIENT_ID",
        set: Set::Text(|settings, text| {
            settings.login.github.id = Some(word(text)?);
            Ok(())
        }),
    },
    Key {
        section: "github",
        name: "client_secret",
        variable: "MCPINDEX_GITHUB_CLIENT_SECRET",
        set: Set::Text(|settings, text| {
            settings.login.github.secret = Some(secret(text)?);
            Ok(())
        }),
    },
    Key {
        section: "github",
        name: "client_secret_file",
        variable: "MCPINDEX_GITHUB_CLIENT_SECRET_FILE",
        set: Set::Path(|settings, path| settings.login.github.secret_file = Some(path)),
    },
    Key {
        section: "github",
        name: "url",
        variable: "MCPINDEX_GITHUB_URL",
        set: Set::Text(|settings, text| {
            settings.login.github_url = Some(base_url(text)?);
            Ok(())
        }),
    },
    Key {
        section: "github",
        name: "api_url",
        variable: "MCPINDEX_GITHUB_API_URL",
        set: Set::Text(|settings, text| {
            settings.login.github_api_url = Some(base_url(text)?);
            Ok(())
        }),
    },
    Key {
        section: "google",
        name: "client_id",
        variable: "MCPINDEX_GOOGLE_CLIENT_ID",
        set: Set::Text(|settings, text| {
            settings.login.google.id = Some(word(text)?);
            Ok(())
        }),
    },
    Key {
        section: "google",
        name: "client_secret",
        variable: "MCPINDEX_GOOGLE_CLIENT_SECRET",
        set: Set::Text(|settings, text| {
            settings.login.google.secret = Some(secret(text)?);
            Ok(())
        }),
    },
    Key {
        section: "google",
        name: "client_secret_file",
        variable: "MCPINDEX_GOOGLE_CLIENT_SECRET_FILE",
        set: Set::Path(|settings, path| settings.login.google.secret_file = Some(path)),
    },
    Key {
        section: "oidc",
        name: "issuer",
        variable: "MCPINDEX_OIDC_ISSUER",
        set: Set::Text(|settings, text| {
            settings.login.oidc_issuer = Some(issuer(text)?);
            Ok(())
        }),
    },
    Key {
        section: "oidc",
        name: "name",
        variable: "MCPINDEX_OIDC_NAME",
        set: Set::Text(|settings, text| {
            settings.login.oidc_name = Some(text.trim().to_owned()).filter(|name| !name.is_empty());
            Ok(())
        }),
    },
    Key {
        section: "oidc",
        name: "client_id",
        variable: "MCPINDEX_OIDC_CLIENT_ID",
        set: Set::Text(|settings, text| {
            settings.login.oidc.id = Some(word(text)?);
            Ok(())
        }),
    },
    Key {
        section: "oidc",
        name: "client_secret",
        variable: "MCPINDEX_OIDC_CLIENT_SECRET",
        set: Set::Text(|settings, text| {
            settings.login.oidc.secret = Some(secret(text)?);
            Ok(())
        }),
    },
    Key {
        section: "oidc",
        name: "client_secret_file",
        variable: "MCPINDEX_OIDC_CLIENT_SECRET_FILE",
        set: Set::Path(|settings, path| settings.login.oidc.secret_file = Some(path)),
    },
    Key {
        section: "approvals",
        name: "two_person",
        variable: "MCPINDEX_APPROVALS_TWO_PERSON",
        set: Set::Switch(|settings, on| settings.approvals.two_person = on),
    },
    Key {
        section: "approvals",
        name: "queue",
        variable: "MCPINDEX_APPROVALS_QUEUE",
        set: Set::Text(|settings, text| {
            settings.approvals.queue = queue(text)?;
            Ok(())
        }),
    },
    Key {
        section: "registry",
        name: "policy",
        variable: "MCPINDEX_REGISTRY_POLICY",
        set: Set::Text(|settings, text| {
            settings.registry = policy(text)?;
            Ok(())
        }),
    },
    Key {
        section: "webhooks",
        name: "hosts",
        variable: "MCPINDEX_WEBHOOKS_HOSTS",
        set: Set::List(|settings, texts| {
            settings.webhooks.hosts = hosts(&texts)?;
            Ok(())
        }),
    },
    Key {
        section: "webhooks",
        name: "at_once",
        variable: "MCPINDEX_WEBHOOKS_AT_ONCE",
        set: Set::Number(|settings, number| {
            settings.webhooks.at_once = usize::try_from(number)
                .ok()
                .filter(|_| (1..=MOST_DELIVERIES).contains(&number))
                .ok_or_else(|| format!("expected a number from 1 to {MOST_DELIVERIES}, not {number}"))?;
            Ok(())
        }),
    },
    Key {
        section: "webhooks",
        name: "key_file",
        variable: "MCPINDEX_WEBHOOKS_KEY_FILE",
        set: Set::Path(|settings, path| settings.webhooks.key_file = Some(path)),
    },
    Key {
        section: "webhooks",
        name: "secrets",
        variable: "MCPINDEX_WEBHOOKS_SECRETS",
        set: Set::Path(|settings, path| settings.webhooks.secrets = Some(path)),
    },
    Key {
        section: "webhooks",
        name: "github_token",
        variable: "MCPINDEX_WEBHOOKS_GITHUB_TOKEN",
        set: Set::Text(|settings, text| {
            settings.webhooks.github_token = Some(secret(text)?);
            Ok(())
        }),
    },
    Key {
        section: "webhooks",
        name: "github_token_file",
        variable: "MCPINDEX_WEBHOOKS_GITHUB_TOKEN_FILE",
        set: Set::Path(|settings, path| settings.webhooks.github_token_file = Some(path)),
    },
    Key {
        section: "webhooks",
        name: "github_api_url",
        variable: "MCPINDEX_WEBHOOKS_GITHUB_API_URL",
        set: Set::Text(|settings, text| {
            settings.webhooks.github_api_url = Some(base_url(text)?);
            Ok(())
        }),
    },
];

/// The variables that are read elsewhere (flags of the same meaning, and the tests'), so that none is taken for a misspelt setting.
const OTHER_VARIABLES: &[&str] = &[
    "MCPINDEX_CONFIG",
    "MCPINDEX_DATA",
    "MCPINDEX_LOG",
    "MCPINDEX_LOG_FORMAT",
];

impl Set {
    pub(super) fn expects(&self) -> &'static str {
        match self {
            Set::Text(_) | Set::Path(_) | Set::Database | Set::DatabaseFile => "a text in quotes",
            Set::Number(_) => "a number",
            Set::Switch(_) => "true or false",
            Set::List(_) => "a list of texts",
        }
    }
}

/// How many letters a name may differ in to be taken for a misspelling.
const MISSPELT: usize = 2;

pub(super) fn unknown_section(name: &str) -> String {
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return format!("`{name}` belongs in [{}]", key.section);
    }
    let mut sections: Vec<&str> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    match nearest(name, sections.iter().copied()) {
        Some(near) => format!("unknown section [{name}]; did you mean [{near}]?"),
        None => format!("unknown section [{name}]; there are [{}]", sections.join("], [")),
    }
}

/// Settings of older versions, with the variable of each and what to do instead. To go on as if one were not there would be to do
/// something else than was asked for.
const GONE: [(&str, &str, &str, &str); 1] = [(
    "crawl",
    "run_packages",
    "MCPINDEX_CRAWL_RUN_PACKAGES",
    "what runs, runs in a sandbox; take it out",
)];

pub(super) fn unknown_key(section: &str, name: &str) -> String {
    let here = || {
        KEYS.iter()
            .filter(|key| key.section == section)
            .map(|key| key.name)
    };
    if let Some((.., reason)) = GONE
        .iter()
        .find(|(gone, key, ..)| *gone == section && *key == name)
    {
        return format!("`{name}` in [{section}] is gone: {reason}");
    }
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return format!("`{name}` belongs in [{}], not in [{section}]", key.section);
    }
    match nearest(name, here()) {
        Some(near) => format!("unknown key `{name}` in [{section}]; did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = here().collect();
            format!(
                "unknown key `{name}` in [{section}]; known are {}",
                known.join(", ")
            )
        }
    }
}

/// Variables of other programs and of tests share the prefix, so only a near miss is refused.
pub(super) fn refuse_misspelt_variable(name: &str) -> Result<(), String> {
    if let Some((.., reason)) = GONE.iter().find(|(_, _, variable, _)| *variable == name) {
        return Err(format!("it is gone: {reason}"));
    }
    let known = || {
        KEYS.iter()
            .map(|key| key.variable)
            .chain(OTHER_VARIABLES.iter().copied())
    };
    if known().any(|variable| variable == name) {
        return Ok(());
    }
    match nearest(name, known()) {
        Some(near) => Err(format!("no such setting; did you mean {near}?")),
        None => Ok(()),
    }
}

/// The known name that `name` was likely meant to be.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= MISSPELT && *distance * 2 < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
