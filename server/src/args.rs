//! The command line, as clap reads it. Help texts are part of the product: short, with an example for each command.
//!
//! Invariant: what is parsed here is only what was typed; `config` turns it into settings.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mcpindex_contract::signal::InstallId;
use mcpindex_store::accounts::{Role, Scopes, UnknownScope};
use mcpindex_store::webhooks::{Form, Severity};
use secrecy::SecretString;

use crate::access::issue::USUAL_DAYS;
use crate::config::{Every, Flags, listen_address};
use crate::exit::Exit;

/// A private index of MCP servers: what each declares, what changed, and when.
#[derive(Debug, Parser)]
#[command(name = "mcpindex-server", version, arg_required_else_help = true, after_help = after_help())]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Everywhere alike.
    #[command(flatten)]
    pub global: Global,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Folder for the database and installed packages
    #[arg(
        long,
        value_name = "DIR",
        default_value = "./data",
        env = "MCPINDEX_DATA",
        hide_env_values = true,
        global = true
    )]
    pub data: PathBuf,
    /// postgres://USER:PASSWORD@HOST/NAME, or the path of an SQLite file [default: DIR/mcpindex.db] [env: MCPINDEX_DATABASE]
    // The variable is read with the other settings, since it is weaker than this flag and stronger than the file.
    #[arg(long, value_name = "URL", global = true)]
    pub database: Option<SecretString>,
    /// Settings in a TOML file; `mcpindex-server default-config` prints one
    #[arg(
        long,
        value_name = "FILE",
        env = "MCPINDEX_CONFIG",
        hide_env_values = true,
        global = true
    )]
    pub config: Option<PathBuf>,
    /// What to log to stderr: error, warn, info, debug, or a filter such as `info,mcpindex_crawler=debug`
    #[arg(
        long,
        value_name = "FILTER",
        env = "MCPINDEX_LOG",
        hide_env_values = true,
        global = true
    )]
    pub log: Option<String>,
    /// How to write the log
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "MCPINDEX_LOG_FORMAT",
        hide_env_values = true,
        global = true
    )]
    pub log_format: LogFormat,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve pages and API, and look at every known server again and again
    Serve(Serve),
    /// Add servers, and look at each right away
    Add(Add),
    /// Look at published versions of a package, oldest first, so that the index has its history
    Backfill(Backfill),
    /// Look at the servers that are due, without serving
    Crawl(Crawl),
    /// Bring the database's schema up to date
    Migrate,
    /// Check configuration, data folder, database, sign-in and package clients
    Doctor(Doctor),
    /// Accounts, roles, keys and webhooks, and what installs told
    Admin(Admin),
    /// Print a configuration file with every setting at its default
    DefaultConfig,
    /// Print the API's description (OpenAPI 3.1)
    Openapi,
}

/// `serve`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpindex-server serve
  mcpindex-server serve --starter               a live index of well-known servers, with their history
  mcpindex-server serve --listen 0.0.0.0:8080 --database postgres://mcpindex@db/mcpindex

Ctrl-C or SIGTERM ends it: looks under way are finished or given back. A second one ends it at once.")]
pub struct Serve {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:8080] [env: MCPINDEX_LISTEN]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Serve only; look at nothing
    #[arg(long, conflicts_with = "starter")]
    pub no_crawl: bool,
    /// Fill the index from the starter list: runs the packages on it (it is printed first) in a sandbox
    #[arg(long)]
    pub starter: bool,
}

/// `add`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpindex-server add npm:@modelcontextprotocol/server-everything
  mcpindex-server add npm:@modelcontextprotocol/server-filesystem@2026.8.31 -- /srv/files
  mcpindex-server add pypi:mcp-server-time
  mcpindex-server add https://mcp.example.com/mcp
  mcpindex-server add -- python3 -m my_server --stdio
  mcpindex-server add --list targets.toml

A package is installed without its scripts, and it or a command runs in a sandbox without network: `doctor --sandbox` tries that.
A command may read the folders that its line names.
Exit code 0: every server was looked at. 1: some look failed; it has its line, and is recorded.")]
pub struct Add {
    /// The server, as a person types it.
    #[arg(
        value_name = "SERVER",
        conflicts_with = "list",
        help = "npm:NAME[@VERSION], pypi:NAME[@VERSION] or a URL"
    )]
    pub server: Option<String>,
    /// Arguments for the package's server; without SERVER, the command that starts a server
    #[arg(last = true, value_name = "ARGUMENTS", conflicts_with = "list")]
    pub rest: Vec<String>,
    /// Add every server of a TOML list
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Only add: `serve` or `crawl` looks later
    #[arg(long)]
    pub later: bool,
    /// Time between two looks, such as 30m, 24h or 7d [default: `[crawl] every`]
    #[arg(long, value_name = "TIME")]
    pub every: Option<Every>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// `backfill`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpindex-server backfill npm:@modelcontextprotocol/server-everything --last 4
  mcpindex-server backfill npm:@modelcontextprotocol/server-everything --versions 2025.11.25,2026.8.18
  mcpindex-server backfill npm:@modelcontextprotocol/server-filesystem --last 4 -- /srv/files
  mcpindex-server backfill pypi:mcp-server-time --last 3

Each version is installed without its scripts, and runs in a sandbox without network.
Exit code 0: every version was determined. 1: some look failed; it has its line, and is recorded.")]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub struct Backfill {
    /// npm:NAME or pypi:NAME
    #[arg(value_name = "PACKAGE")]
    pub package: String,
    /// Exactly these versions (pre-releases too)
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', group = "which")]
    pub versions: Vec<String>,
    /// The last N published versions, pre-releases left out
    #[arg(long, value_name = "N", group = "which", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub last: Option<u16>,
    /// Look again at versions that are in the index
    #[arg(long)]
    pub again: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments for the package's server
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// `crawl`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpindex-server crawl --once          everything that is due, then end (for cron)
  mcpindex-server crawl                 on and on, beside a `serve --no-crawl`

Exit code 0: everything due was looked at, whatever was found.")]
pub struct Crawl {
    /// End when nothing is due any more
    #[arg(long)]
    pub once: bool,
    /// Print the result as JSON
    #[arg(long, requires = "once")]
    pub json: bool,
}

/// `admin`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpindex-server admin make-admin ada@example.com         the first admin, once ada has signed in
  mcpindex-server admin create-key ci --scopes read        a key for a program, without any sign-in
  mcpindex-server admin create-key root --scopes read,ingest,admin
  mcpindex-server admin keys revoke key_0123456789abcdef
  mcpindex-server admin purge --install 0123456789abcdef0123456789abcdef
  mcpindex-server admin approvals verify                   is what was approved as it was written?
  mcpindex-server admin approvals export --output approvals.jsonl
  mcpindex-server admin backup /backups/index.db           while the server runs (SQLite)
  mcpindex-server admin restore /backups/index.db --replace

WHO is an account's number or the e-mail address that its provider verified, as `admin users` shows them, or the name of an
account made on this shell. `login:NAME` is whoever is called so now, and people choose that themselves at many providers:
look at the line that says who it was.")]
pub struct Admin {
    /// What to do.
    #[command(subcommand)]
    pub command: AdminCommand,
}

/// What `admin` does.
#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Make somebody who has an account an admin
    MakeAdmin {
        /// Whom
        who: String,
    },
    /// List everybody who has an account
    Users {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give somebody a role
    Role {
        /// Whom
        who: String,
        /// Which
        #[arg(value_parser = role)]
        role: Role,
    },
    /// End somebody's sessions and keys, and let them sign in no more
    Disable {
        /// Whom
        who: String,
    },
    /// Let somebody who was disabled sign in again; their keys stay revoked
    Enable {
        /// Whom
        who: String,
    },
    /// List, make and revoke keys
    #[command(subcommand)]
    Keys(AdminKeys),
    /// Make a key, as `keys create` does
    CreateKey(CreateKey),
    /// List, make, test and remove webhooks: who outside is told of drifts
    #[command(subcommand)]
    Webhooks(AdminWebhooks),
    /// Verify, export and import what was approved
    #[command(subcommand)]
    Approvals(AdminApprovals),
    /// Copy the SQLite database to a new file, also while a server runs
    Backup {
        /// The new file
        path: PathBuf,
    },
    /// Put a copy in the place of the SQLite database, which no server may have open
    Restore {
        /// The copy
        path: PathBuf,
        /// Also where a database has data; it is kept beside
        #[arg(long)]
        replace: bool,
    },
    /// Forget everything that one install told
    Purge {
        /// Its id, 32 hexadecimal digits
        #[arg(long, value_name = "ID")]
        install: InstallId,
    },
}

/// What `admin approvals` does.
#[derive(Debug, Subcommand)]
pub enum AdminApprovals {
    /// Verify the whole chain of records; exit code 1 where something was altered, removed, reordered or moved back
    Verify {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write all records as JSON lines, the head first
    Export {
        /// To this file, in one piece; without it to stdout
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Add the records of an export to an empty chain, or to one that begins as they do
    Import {
        /// What `export` wrote
        file: PathBuf,
    },
}

/// What `admin keys` does.
#[derive(Debug, Subcommand)]
pub enum AdminKeys {
    /// List keys, never whole
    List {
        /// Only this account's
        #[arg(long, value_name = "WHO")]
        of: Option<String>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a key and print it, once
    Create(CreateKey),
    /// End a key
    Revoke {
        /// Its id, `key_…`
        id: String,
        /// And all that was made with it: for a key that somebody else may have had
        #[arg(long)]
        made: bool,
    },
}

/// `admin keys create`
#[derive(Debug, Args)]
pub struct CreateKey {
    /// Whose it is: a name, which becomes an account that only has keys, or the number of somebody who signed in
    pub who: String,
    /// What the key is called
    #[arg(long, default_value = "made on the server's shell")]
    pub name: String,
    /// What it is for: read, ingest, approve, admin (the last makes a name an admin; of a number they ask that its role allows it)
    #[arg(long, value_name = "A,B,…", default_value = "read,ingest", value_parser = scopes)]
    pub scopes: Scopes,
    /// Days until it ends
    #[arg(long, value_name = "N", default_value_t = USUAL_DAYS)]
    pub days: u32,
    /// It ends when it is revoked
    #[arg(long, conflicts_with = "days")]
    pub no_end: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `admin webhooks` does.
#[derive(Debug, Subcommand)]
pub enum AdminWebhooks {
    /// List webhooks, without their secrets
    List {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a webhook, and print its secret, once
    Add(AddWebhook),
    /// Remove a webhook with its log and what waits for it
    Remove {
        /// Its id, `hook_…`
        id: String,
    },
    /// Send a test now and say what came of it; exit code 1 when it did not arrive
    Test {
        /// The webhook's id, `hook_…`
        id: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// List what became of a webhook's latest deliveries
    Deliveries {
        /// The webhook's id, `hook_…`
        id: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a delivery again, under the same id
    Redeliver {
        /// The webhook's id, `hook_…`
        id: String,
        /// The delivery's id, `msg_…`
        delivery: String,
    },
}

/// `admin webhooks add`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mcpindex-server admin webhooks add siem https://hooks.example.com/mcp
  mcpindex-server admin webhooks add team https://hooks.slack.com/services/{secret:team} --form slack --severity safety-relevant
  mcpindex-server admin webhooks add issues acme/mcp-drifts --form github-issue --server npm:@acme/*

Deliveries go to hosts of `[webhooks] hosts` alone.")]
pub struct AddWebhook {
    /// What people call it
    pub name: String,
    /// A URL, in which `{secret:NAME}` stands for a file in the folder of `[webhooks] secrets`; or OWNER/REPOSITORY
    pub destination: String,
    /// How it is told: json (signed), slack or github-issue
    #[arg(long, default_value = "json", value_parser = form)]
    pub form: Form,
    /// Which drifts: all or safety-relevant
    #[arg(long, default_value = "all", value_parser = severity)]
    pub severity: Severity,
    /// Only of this server, or of those whose identity begins so (`npm:@acme/*`); may be given again
    #[arg(long = "server", value_name = "IDENTITY")]
    pub servers: Vec<String>,
    /// Send the servers' own words along, in members named `untrusted_…`
    #[arg(long)]
    pub untrusted: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

fn form(text: &str) -> Result<Form, String> {
    let names: Vec<&str> = Form::ALL.iter().map(|form| form.name()).collect();
    Form::from_name(text).ok_or_else(|| format!("expected {}", names.join(", ")))
}

fn severity(text: &str) -> Result<Severity, String> {
    let names: Vec<&str> = Severity::ALL.iter().map(|severity| severity.name()).collect();
    Severity::from_name(text).ok_or_else(|| format!("expected {}", names.join(", ")))
}

fn role(text: &str) -> Result<Role, String> {
    let names: Vec<&str> = Role::ALL.into_iter().map(Role::name).collect();
    Role::from_name(text).ok_or_else(|| format!("expected {}", names.join(", ")))
}

fn scopes(text: &str) -> Result<Scopes, UnknownScope> {
    text.replace(',', " ").parse()
}

/// `doctor`
#[derive(Debug, Args)]
#[command(after_help = "\
Changes nothing. Exit code 0: nothing failed (warnings are no failure). 1: a check failed; its line says what to do.")]
pub struct Doctor {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Do not ask the providers that people sign in with
    #[arg(long)]
    pub offline: bool,
    /// Build a jail of each level, try to break out of it, and print what held; nothing else is checked
    #[arg(long)]
    pub sandbox: bool,
}

impl Arguments {
    /// The flags that are settings too.
    pub fn flags(&self) -> Flags {
        Flags {
            config: self.global.config.clone(),
            data: self.global.data.clone(),
            database: self.global.database.clone(),
            listen: match &self.command {
                Command::Serve(serve) => serve.listen,
                _ => None,
            },
        }
    }
}

fn after_help() -> String {
    let codes: Vec<String> = Exit::ALL
        .iter()
        .map(|exit| format!("  {:<4} {}", exit.code(), exit.sentence()))
        .collect();
    format!(
        "\
Start here:
  mcpindex-server serve --starter      then open http://127.0.0.1:8080/

Exit codes:
{}",
        codes.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn add_takes_a_server_with_arguments_or_a_command() {
        let added = |line| match parse(line).expect(line).command {
            Command::Add(add) => (add.server, add.rest),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            added("mcpindex-server add npm:a -- --root /srv"),
            (
                Some("npm:a".to_owned()),
                vec!["--root".to_owned(), "/srv".to_owned()]
            )
        );
        assert_eq!(
            added("mcpindex-server add -- server --stdio"),
            (None, vec!["server".to_owned(), "--stdio".to_owned()])
        );
    }

    #[test]
    fn a_backfill_says_which_versions() {
        assert!(parse("mcpindex-server backfill npm:a").is_err());
        assert!(parse("mcpindex-server backfill npm:a --last 0").is_err());
        assert!(parse("mcpindex-server backfill npm:a --last 2 --versions 1.0.0").is_err());
        assert!(parse("mcpindex-server backfill npm:a --versions 1.0.0,1.1.0 --again").is_ok());
    }

    #[test]
    fn a_password_on_the_command_line_is_not_printed() {
        let arguments = parse("mcpindex-server migrate --database postgres://u:hunter2@h/n").expect("right");
        assert!(!format!("{arguments:?}").contains("hunter2"));
    }

    #[test]
    fn help_names_every_exit_code() {
        let help = Arguments::command().render_long_help().to_string();
        for exit in Exit::ALL {
            assert!(help.contains(exit.sentence()), "{}", exit.sentence());
        }
    }
}
