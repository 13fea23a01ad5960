//! `mcpindex inspect`: what a server declares, as text or as one JSON document.
//!
//! Invariant: with `--json` there is exactly one document on stdout, whatever the exit, and what could not be determined
//! is named in it.

mod document;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use mcpindex::inspect::{Inspection, inspect_http, inspect_stdio};
use mcpindex::wire::http::Endpoint;
use mcpindex::wire::limits::Limits;
use mcpindex::wire::stdio::Launch;
use mcpindex_contract::identity::Identity;
use reqwest::header::{HeaderName, HeaderValue};
use secrecy::SecretString;
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use super::desk_client::DeskClient;
use super::exit::Exit;
use super::launch_line;
use super::output::Output;

#[derive(Args)]
pub(super) struct InspectArguments {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,

    /// No text, only the exit code
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// A variable for the server: NAME=VALUE, or NAME to pass on your own; nothing else of your environment is passed
    #[arg(long = "env", value_name = "NAME[=VALUE]", conflicts_with = "url")]
    env: Vec<String>,

    /// Where the server runs; without it, in an empty directory of its own
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    cwd: Option<PathBuf>,

    /// A header for every request
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        requires = "url",
        conflicts_with = "command"
    )]
    headers: Vec<String>,

    /// A remote server (streamable HTTP, or SSE)
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The command that starts the server
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present = "url",
        conflicts_with = "url"
    )]
    command: Vec<String>,
}

/// What a server may take. Without an option, `Limits::desk`.
#[derive(Args)]
struct LimitArguments {
    /// How long the handshake and each request for a list may take
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    timeout: u64,

    /// How long the whole inspection may take
    #[arg(long, value_name = "MS", default_value_t = 120_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    deadline: u64,

    /// The longest message that is read
    #[arg(long, value_name = "BYTES", default_value_t = Limits::desk().message_bytes)]
    max_message_bytes: usize,

    /// The most that is read in all
    #[arg(long, value_name = "BYTES", default_value_t = Limits::desk().total_bytes)]
    max_total_bytes: usize,

    /// The most pages of one list
    #[arg(long, value_name = "N", default_value_t = Limits::desk().pages)]
    max_pages: usize,

    /// The most items of one list
    #[arg(long, value_name = "N", default_value_t = Limits::desk().items)]
    max_items: usize,
}

impl LimitArguments {
    fn limits(&self) -> Limits {
        let timeout = Duration::from_millis(self.timeout);
        Limits {
            handshake: timeout,
            request: timeout,
            whole: Duration::from_millis(self.deadline),
            message_bytes: self.max_message_bytes,
            total_bytes: self.max_total_bytes,
            pages: self.max_pages,
            items: self.max_items,
            // A person who admits long messages means the tools in them.
            item_bytes: self.max_message_bytes,
            ..Limits::desk()
        }
    }
}

/// The server that is looked at.
pub(super) enum Server {
    Command { given: Vec<String>, launch: Launch },
    Remote(Endpoint),
}

impl Server {
    /// Which server this is, wherever else it is spoken of.
    fn identity(&self) -> Option<Identity> {
        match self {
            Server::Command { given, .. } => Identity::from_launch(given)
                .ok()
                .map(|launched| launched.identity),
            Server::Remote(endpoint) => Identity::from_url(endpoint.url.as_str()).ok(),
        }
    }
}

pub(super) fn run(arguments: InspectArguments, output: &mut Output) -> Exit {
    let json = arguments.json;
    let limits = arguments.limits.limits();
    if arguments.quiet {
        output.silence();
    }
    let server = match server(arguments) {
        Ok(server) => server,
        Err(mistake) => {
            if json {
                print_usage_error(output, &mistake);
            }
            output.error(&format!("error: {mistake}"));
            return Exit::Usage;
        }
    };
    match look(&server, &limits, output) {
        Ok(Some(inspection)) => {
            let exit = Exit::of(inspection.outcome());
            if json {
                output.document(&document::document(&server, &inspection, exit));
            } else {
                text::print(&server, &inspection, output);
            }
            exit
        }
        Ok(None) => {
            if json {
                output.document(&document::bare("stopped", Exit::Stopped, "stopped by a signal"));
            }
            Exit::Stopped
        }
        Err(error) => {
            if json {
                output.document(&document::bare("internal", Exit::Internal, &format!("{error:#}")));
            }
            output.error(&format!("error: {error:#}"));
            Exit::Internal
        }
    }
}

/// The document for arguments that can't be used.
pub(super) fn print_usage_error(output: &mut Output, mistake: &str) {
    output.document(&document::bare("usage", Exit::Usage, mistake));
}

fn server(arguments: InspectArguments) -> Result<Server, String> {
    let Some(url) = arguments.url else {
        let here = std::env::current_dir()
            .map_err(|error| format!("the current directory is not there: {error}"))?;
        let launch = launch_line::resolve(&arguments.command, &arguments.env, arguments.cwd, &here)?;
        return Ok(Server::Command {
            given: arguments.command,
            launch,
        });
    };
    Ok(Server::Remote(remote(&url, &arguments.headers)?))
}

/// The server that `--url` and `--header` name. An error is one line for the person.
pub(super) fn remote(url: &str, headers: &[String]) -> Result<Endpoint, String> {
    let url = Url::parse(url).map_err(|error| format!("--url: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("--url: expected http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("--url: a name or password in a URL is not sent; use --header".to_owned());
    }
    let headers = headers
        .iter()
        .map(|header| written_header(header))
        .collect::<Result<_, _>>()?;
    Ok(Endpoint { url, headers })
}

/// `Name: value`.
fn written_header(text: &str) -> Result<(String, SecretString), String> {
    let (name, value) = text.split_once(':').ok_or("--header needs `Name: value`")?;
    header("--header", name.trim(), value.trim())
}

/// A header that can be sent. The value is in no message; `option` is what it was given by.
pub(super) fn header(option: &str, name: &str, value: &str) -> Result<(String, SecretString), String> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{option}: that is no header name"))?;
    HeaderValue::from_str(value).map_err(|_| format!("{option} {name}: the value can't be sent"))?;
    Ok((name.to_owned(), value.into()))
}

/// The inspection, or `None` when a signal came first: then the server has been ended.
fn look(server: &Server, limits: &Limits, output: &mut Output) -> anyhow::Result<Option<Inspection>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("the runtime could not be set up")?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).context("signals can't be received")?;
        let mut terminate = signal(SignalKind::terminate()).context("signals can't be received")?;
        // A terminal that is closed.
        let mut hangup = signal(SignalKind::hangup()).context("signals can't be received")?;
        let client;
        let mut inspection: futures::future::BoxFuture<'_, Inspection> = match server {
            Server::Command { launch, .. } => Box::pin(inspect_stdio(launch, limits)),
            Server::Remote(endpoint) => {
                client = DeskClient::new()?;
                Box::pin(inspect_http(&client, endpoint, limits))
            }
        };
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.tick().await;
        let mut seconds = 0;
        let found = loop {
            tokio::select! {
                found = &mut inspection => break Some(found),
                _ = interrupt.recv() => break None,
                _ = terminate.recv() => break None,
                _ = hangup.recv() => break None,
                _ = second.tick(), if output.is_watched() => {
                    seconds += 1;
                    output.progress(&format!("waiting for the server, {seconds} s"));
                }
            }
        };
        output.end_progress();
        Ok(found)
    })
}
