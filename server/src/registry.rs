//! The index as a registry of the official API (`/v0.1`), so that hosts which enforce a private registry see only what the
//! organisation allows.
//!
//! `name` gives each server its name there, `policy` says which are listed. Format: the official registry's OpenAPI document of
//! 2025-12-01 and its `server.json` of 2025-12-11.
//!
//! Invariant: hosts match servers by name alone, so a server is listed or delisted as a whole, by what it declares now; what can't be
//! told in the official form (commands, packages of other registries) is not listed; nothing that a server wrote is repeated.

pub(crate) mod name;
mod policy;

pub use policy::Policy;

use mcpindex_contract::approval::{DEFAULT_TENANT, Standing, Standings, State};
use mcpindex_contract::identity::{Identity, Registry};
use mcpindex_store::registry::{RegistryFilter, RegistryServer, RegistryVersion};
use mcpindex_store::sightings::{Question, Reference};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::api::check;
use crate::app::App;
use crate::links;
use crate::problem::Problem;
use crate::registry::name::name_of;
use crate::when::rfc3339;

/// The schema that entries follow.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// What the official registry says of an entry.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";
/// What this index says of it.
const OURS: &str = "dev.mcpindex/verdict";
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 100;
/// Servers that are read at once.
const STEP: i64 = 200;
/// Servers that are looked at for one answer, which may be short and yet have a next page.
const MAX_LOOKED_AT: i64 = 2_000;

/// A server as the registry has it.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) is_listed: bool,
    server: Identity,
    kept: RegistryServer,
    /// How its tools stand together.
    approval: &'static str,
    /// When what is said of all its versions changed last.
    changed_at: i64,
}

/// One version of it; of a server without versions the one that stands for what it declares now.
pub(crate) struct Entry<'l> {
    listed: &'l Listed,
    version: Option<&'l RegistryVersion>,
    is_latest: bool,
}

/// An entry in the official form.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegistryEntry)]
pub(crate) struct EntryBody {
    /// A `server.json`.
    #[schema(value_type = Object)]
    server: Value,
    /// `io.modelcontextprotocol.registry/official` and `dev.mcpindex/verdict`.
    #[serde(rename = "_meta")]
    #[schema(value_type = Object)]
    meta: Value,
}

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// After this server, and of it after this version.
    pub(crate) after: Option<(String, String)>,
    pub(crate) search: Option<String>,
    pub(crate) updated_since: Option<i64>,
    /// `latest`, or one version.
    pub(crate) version: Option<String>,
    /// Whether what is delisted is there too, as deleted.
    pub(crate) deleted: bool,
    pub(crate) limit: usize,
}

/// A page of entries, and after which server and version the next one begins.
pub(crate) async fn page(
    app: &App,
    wanted: &Wanted,
) -> Result<(Vec<EntryBody>, Option<(String, String)>), Problem> {
    let mut bodies = Vec::new();
    let mut place = wanted.after.clone();
    let mut looked_at = 0;
    // A server whose versions did not all fit is read again: the place names the last of them that was given.
    let mut begun = match &place {
        Some((identity, version)) if !version.is_empty() => of_identity(app, identity).await?,
        _ => None,
    };
    loop {
        let (servers, step) = match begun.take() {
            Some(listed) => (vec![listed], None),
            None => {
                let after = place.as_ref().map(|(identity, _)| identity.as_str());
                let found = app.store.registry_servers(&filter(app, wanted, after)).await?;
                let last = found
                    .last()
                    .map(|server| (server.identity.clone(), String::new()));
                let count = i64::try_from(found.len()).unwrap_or(STEP);
                (judged(app, found).await?, Some((count, last)))
            }
        };
        for listed in &servers {
            let given = place
                .as_ref()
                .filter(|(identity, _)| *identity == listed.kept.identity);
            let given = given.map(|(_, version)| version.clone());
            for entry in entries(listed, wanted, given.as_deref()) {
                if bodies.len() == wanted.limit {
                    return Ok((bodies, place));
                }
                place = Some((listed.kept.identity.clone(), entry.version()));
                bodies.push(entry.body(app));
            }
            place = Some((listed.kept.identity.clone(), String::new()));
        }
        if let Some((count, last)) = step {
            looked_at += count;
            place = last.or(place);
            if count < STEP {
                return Ok((bodies, None));
            }
        }
        if looked_at >= MAX_LOOKED_AT {
            return Ok((bodies, place));
        }
    }
}

/// The server of this name; none: there is none, or none that is listed.
pub(crate) async fn of_name(app: &App, wanted: &str) -> Result<Option<Listed>, Problem> {
    for identity in name::may_mean(wanted) {
        let found = match app.store.find_server(&identity).await? {
            Some(server) => of_identity(app, &server.identity).await?,
            None => None,
        };
        // The name that the index gives it, and no other of its names: hosts match it letter by letter.
        if let Some(listed) = found.filter(|listed| listed.name == wanted && listed.is_listed) {
            return Ok(Some(listed));
        }
    }
    Ok(None)
}

async fn of_identity(app: &App, identity: &str) -> Result<Option<Listed>, Problem> {
    let found = app.store.registry_server(identity).await?;
    Ok(judged(app, found.into_iter().collect()).await?.pop())
}

fn filter(app: &App, wanted: &Wanted, after: Option<&str>) -> RegistryFilter {
    RegistryFilter {
        only: None,
        after: after.map(str::to_owned),
        words: wanted.search.as_deref().map(name::searched).unwrap_or_default(),
        since: wanted.updated_since,
        decided_by: (app.registry != Policy::All).then(|| DEFAULT_TENANT.to_owned()),
        limit: STEP,
    }
}

/// How each of them stands by the policy.
async fn judged(app: &App, found: Vec<RegistryServer>) -> Result<Vec<Listed>, Problem> {
    let identities: Vec<&str> = found.iter().map(|server| server.identity.as_str()).collect();
    let now = app.now();
    let stood = app.store.standings(DEFAULT_TENANT, &identities, now).await?;
    if let Some(flaw) = &stood.chain.flaw {
        tracing::error!(%flaw, "the chain of approvals is broken, so the registry counts nothing from there on");
    }
    let standings = stood.standing;
    let texts = match app.registry {
        Policy::NotDrifted => {
            let digests = policy::compared(&found, &standings, now);
            app.store.definition_texts(&digests).await?
        }
        Policy::All | Policy::Approved => Default::default(),
    };
    let policy = app.registry;
    // Definitions may be compared, which is work for the processor: not on the threads that answer everybody.
    let judging = tokio::task::spawn_blocking(move || {
        let judged = found.into_iter().filter_map(|kept| {
            let server = Identity::from_reference(&kept.identity).ok()?.identity;
            if !name::can_be_listed(&server) {
                return None;
            }
            let decided = standings.of_identity(&kept.identity, now);
            // A decision that has ended changes what is listed, as one that is made does.
            let over = |standing: &Standing| standing.record.expires_at.filter(|end| *end <= now);
            let last = decided
                .iter()
                .map(|standing| standing.record.at.max(over(standing).unwrap_or(i64::MIN)))
                .max();
            Some(Listed {
                name: name_of(&server, &kept.aliases, &kept.short_id),
                is_listed: policy.lists(&kept, &standings, &texts, now),
                approval: approval_of(&kept, &standings, now),
                changed_at: last.unwrap_or(i64::MIN).max(kept.declared_since),
                server,
                kept,
            })
        });
        judged.collect()
    });
    judging.await.map_err(|error| Problem::internal(&error))
}

/// How the tools that a server declares now stand together: `approved`, `refused` or `none`.
fn approval_of(server: &RegistryServer, standings: &Standings, now: i64) -> &'static str {
    let states: Vec<Option<State>> = server
        .tools
        .iter()
        .map(|(tool, digest)| {
            standings
                .of(&server.identity, tool, digest, now)
                .map(|Standing { state, .. }| state)
        })
        .collect();
    match states.contains(&Some(State::Refused)) {
        true => State::Refused.name(),
        false if !states.is_empty() && states.iter().all(|state| *state == Some(State::Approved)) => {
            State::Approved.name()
        }
        false => "none",
    }
}

/// The entries of a server that are wanted, the newest version first.
pub(crate) fn entries<'l>(listed: &'l Listed, wanted: &Wanted, after: Option<&str>) -> Vec<Entry<'l>> {
    let matches_name = wanted
        .search
        .as_deref()
        .is_none_or(|search| listed.name.to_lowercase().contains(&search.to_lowercase()));
    if !matches_name || !(listed.is_listed || wanted.deleted) {
        return Vec::new();
    }
    let versions: Vec<Option<&RegistryVersion>> = match listed.kept.versions.is_empty() {
        true => vec![None],
        false => listed.kept.versions.iter().map(Some).collect(),
    };
    let entries = versions.into_iter().enumerate().map(|(number, version)| Entry {
        listed,
        version,
        is_latest: number == 0,
    });
    let mut entries: Vec<Entry<'l>> = entries.collect();
    if let Some(after) = after {
        let place = entries.iter().position(|entry| entry.version() == after);
        entries.drain(..place.map_or(0, |place| place + 1));
    }
    entries.retain(|entry| {
        let is_version = match wanted.version.as_deref() {
            None => true,
            Some("latest") => entry.is_latest,
            Some(version) => entry.version() == version,
        };
        is_version
            && wanted
                .updated_since
                .is_none_or(|since| entry.updated_at() >= since)
    });
    entries
}

impl Entry<'_> {
    /// As its registry writes it; of a server without versions a text that is another one when the contract is.
    pub(crate) fn version(&self) -> String {
        match self.version {
            Some(version) => version.version.clone(),
            None => {
                let digest = self.listed.kept.surface_digest.as_deref().unwrap_or("sha256:0");
                let hex = digest.rsplit(':').next().unwrap_or_default();
                format!("0.0.0-{}", hex.chars().take(12).collect::<String>())
            }
        }
    }

    fn published_at(&self) -> i64 {
        match self.version {
            Some(version) => version.published_at.unwrap_or(version.first_seen_at),
            None => self.listed.kept.declared_since,
        }
    }

    fn updated_at(&self) -> i64 {
        let seen = self.version.map_or(i64::MIN, |version| version.first_seen_at);
        self.listed.changed_at.max(seen)
    }

    pub(crate) fn body(&self, app: &App) -> EntryBody {
        let policy = app.registry;
        let listed = self.listed;
        let version = self.version();
        let mut server = json!({
            "$schema": SCHEMA,
            "name": listed.name,
            "description": description(&listed.server),
            "version": version,
        });
        let members = match &listed.server {
            Identity::Remote { url } => ("remotes", json!([{"type": "streamable-http", "url": url}])),
            Identity::Package { registry, name, .. } => {
                ("packages", json!([package(*registry, name, &version)]))
            }
            Identity::Command { .. } => ("packages", json!([])),
        };
        server[members.0] = members.1;
        let status = if listed.is_listed { "active" } else { "deleted" };
        let mut official = json!({
            "status": status,
            "statusChangedAt": rfc3339(listed.changed_at),
            "publishedAt": rfc3339(self.published_at()),
            "updatedAt": rfc3339(self.updated_at()),
            "isLatest": self.is_latest,
        });
        if !listed.is_listed {
            official["statusMessage"] = json!(policy.says());
        }
        let mut meta = json!({});
        meta[OFFICIAL] = official;
        meta[OURS] = json!({
            "identity": listed.kept.identity,
            "policy": policy.name(),
            "approval": listed.approval,
            "declaredSince": rfc3339(listed.kept.declared_since),
            "lastLookGood": listed.kept.last_look_good,
            "tools": listed.kept.tools.len(),
            "page": links::absolute(&app.base, &links::server_page(&listed.kept.short_id)),
        });
        EntryBody { server, meta }
    }
}

impl EntryBody {
    /// The same with what the index says of the server as a whole, and why.
    pub(crate) async fn with_verdict(mut self, app: &App, listed: &Listed) -> Result<EntryBody, Problem> {
        let question = Question {
            server: Reference::Name(listed.kept.identity.clone()),
            tool: None,
            digest: None,
            hash: None,
        };
        let answers = check::answers(app, std::slice::from_ref(&question)).await?;
        if let Some((_, vetting)) = answers.first().map(|known| &**known) {
            let codes: Vec<&str> = vetting.reasons.iter().map(|reason| reason.code).collect();
            self.meta[OURS]["verdict"] = json!(vetting.verdict.name());
            self.meta[OURS]["reasons"] = json!(codes);
        }
        Ok(self)
    }
}

fn package(registry: Registry, name: &str, version: &str) -> Value {
    let stdio = json!({"type": "stdio"});
    match registry {
        Registry::Npm => json!({
            "registryType": "npm", "identifier": name, "version": version, "runtimeHint": "npx", "transport": stdio,
        }),
        Registry::Pypi => json!({
            "registryType": "pypi", "identifier": name, "version": version, "runtimeHint": "uvx", "transport": stdio,
        }),
        Registry::Oci => json!({
            "registryType": "oci", "identifier": format!("{name}:{version}"), "runtimeHint": "docker", "transport": stdio,
        }),
    }
}

/// What it is, in our words: the server's own are not repeated where an agent may read them.
fn description(server: &Identity) -> String {
    let text = match server {
        Identity::Remote { url } => format!("The MCP server at {url}"),
        Identity::Package {
            registry: Registry::Npm,
            name,
            ..
        } => format!("The npm package {name}"),
        Identity::Package {
            registry: Registry::Pypi,
            name,
            ..
        } => format!("The Python package {name}"),
        Identity::Package {
            registry: Registry::Oci,
            name,
            ..
        } => format!("The container image {name}"),
        Identity::Command { .. } => String::new(),
    };
    text.chars().take(MAX_DESCRIPTION).collect()
}
