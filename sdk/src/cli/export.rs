//! `mcpindex export`: the servers that an index's registry lists, as a file for hosts that take such a list from administrators.
//!
//! Invariant: all of the registry's pages are read or nothing is written; what can't be written is told, one line each.

use clap::{Args, ValueEnum};
use mcpindex::clients::managed::{Allowed, Launch, managed_mcp, managed_settings};
use mcpindex::index::{IndexClient, MAX_ANSWER_BYTES};
use reqwest::StatusCode;
use serde::Deserialize;

use super::exit::Exit;
use super::index::{meant, refusal, unreadable};
use super::login::runtime;
use super::output::Output;
use super::pins::{Mistake, count, print_document, state};

/// The most servers of one file.
const MOST: usize = 10_000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  mcpindex export managed-mcp --gated > managed-mcp.json
  mcpindex export managed-settings https://index.example > managed-settings.json

What is listed is for the index to say: `[registry] policy` of its settings (all, approved, not-drifted).
Claude Code reads managed-mcp.json in /etc/claude-code (Linux), /Library/Application Support/ClaudeCode (macOS)
or C:\\Program Files\\ClaudeCode, and starts these servers and no others.

Exit codes: 0 written, 11 the index wants a key, 5 the index could not be asked.")]
pub(super) struct ExportArguments {
    /// Which file
    #[arg(value_enum)]
    form: Form,

    /// The index; without it, MCPINDEX_WEB_BASE, else the default one of a sign-in
    #[arg(value_name = "BASE")]
    base: Option<String>,

    /// Puts a gate that obeys the index in front of each server
    #[arg(long)]
    gated: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// Claude Code's managed-mcp.json: these servers and no others
    ManagedMcp,
    /// Claude Code's managed settings: people add what they want of these
    ManagedSettings,
}

#[derive(Deserialize)]
struct Page {
    servers: Vec<Entry>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    server: Server,
}

#[derive(Deserialize)]
struct Server {
    name: String,
    #[serde(default)]
    packages: Vec<Package>,
    #[serde(default)]
    remotes: Vec<Remote>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    registry_type: String,
    identifier: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct Remote {
    url: String,
}

impl Server {
    /// The first way to start or reach it that these files have words for.
    fn launch(&self) -> Option<Launch> {
        let packages = self.packages.iter().find_map(|package| {
            let (name, version) = (package.identifier.clone(), package.version.clone());
            match package.registry_type.as_str() {
                "npm" => Some(Launch::Npm { name, version }),
                "pypi" => Some(Launch::Pypi { name, version }),
                "oci" => Some(Launch::Oci { image: name }),
                _ => None,
            }
        });
        let remote = || {
            self.remotes.first().map(|remote| Launch::Remote {
                url: remote.url.clone(),
            })
        };
        packages.or_else(remote)
    }
}

pub(super) fn run(arguments: &ExportArguments, output: &mut Output) -> Exit {
    match export(arguments, output) {
        Ok(()) => Exit::Ok,
        Err(mistake) => mistake.tell(false, output),
    }
}

fn export(arguments: &ExportArguments, output: &mut Output) -> Result<(), Mistake> {
    let chosen = meant(arguments.base.as_deref(), &state()?, "mcpindex export")?;
    let client = IndexClient::new(&chosen)?;
    let servers = runtime()?.block_on(listed(&client))?;
    let mut allowed = Vec::with_capacity(servers.len());
    for server in servers {
        let Some(launch) = server.launch() else {
            let name = server.name.escape_debug();
            output.error(&format!(
                "`{name}` is left out: these files have no words for how it is started"
            ));
            continue;
        };
        match (Allowed {
            name: server.name,
            launch,
        })
        .checked()
        {
            Ok(server) => allowed.push(server),
            Err(error) => output.error(&error.to_string()),
        }
    }
    let document = match arguments.form {
        Form::ManagedMcp => managed_mcp(&allowed, arguments.gated),
        Form::ManagedSettings => managed_settings(&allowed, arguments.gated),
    };
    print_document(output, &document);
    let counted = count(allowed.len(), "server", "servers");
    output.error(&format!("mcpindex: {counted} of {}", client.base()));
    Ok(())
}

/// The latest version of each server that the registry lists.
async fn listed(client: &IndexClient) -> Result<Vec<Server>, Mistake> {
    let mut servers = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("version", "latest").append_pair("limit", "100");
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let path = format!("v0.1/servers?{}", query.finish());
        let answer = client.get(&path, MAX_ANSWER_BYTES).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                let text = format!("{} has no registry: it is an older index, or none", client.base());
                return Err(Mistake::new(Exit::Undetermined, text));
            }
            _ => return Err(refusal(client.base(), &answer)),
        }
        let page: Page = answer
            .json()
            .ok_or_else(|| unreadable(client.base(), "v0.1/servers"))?;
        servers.extend(page.servers.into_iter().map(|entry| entry.server));
        let next = page.metadata.next_cursor.filter(|next| !next.is_empty());
        if next.is_none() {
            return Ok(servers);
        }
        if next == cursor || servers.len() > MOST {
            let text = format!(
                "{} lists more than {MOST} servers, or the same page again: too many for one file",
                client.base()
            );
            return Err(Mistake::new(Exit::Undetermined, text));
        }
        cursor = next;
    }
}
