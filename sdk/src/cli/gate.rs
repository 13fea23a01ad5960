//! Puts the gate in the path of a server: `mcpindex gate -- COMMAND`, `--url URL` or `--listen ADDRESS`.
//!
//! Invariant: nothing but the protocol is written to stdout, and what a person should know to stderr, one line each.

mod organisation;
mod told;

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use mcpindex::approvals::Approvals;
use mcpindex::clock::SystemClock;
use mcpindex::gate::{Gate, GateLimits, GateOptions, NewTools};
use mcpindex::index::{self, Chosen, Variables};
use mcpindex::pins::{AuthContext, Pins, ServerKey};
use mcpindex::proxy::drill::Drill;
use mcpindex::proxy::http::{self, HttpOptions, Notice, Tell};
use mcpindex::proxy::listen::{self, ListenError, ListenOptions, NewGate};
use mcpindex::proxy::own_process::{OwnInput, OwnOutput, StopSignals};
use mcpindex::proxy::pump::Peer;
use mcpindex::proxy::stdio::{self, Ended, StdioError};
use mcpindex::state::StateDirectory;
use mcpindex::telemetry::mode::choose;
use mcpindex::telemetry::{
    BufferLimits, ModeVariables, OwnRegistries, Pauses, Say, Telemetry, TelemetryOptions,
};
use mcpindex::wire::http::{Endpoint, RemoteLimits};
use mcpindex_contract::identity::Identity;
use mcpindex_contract::posture::Posture;
use secrecy::SecretString;

pub(super) use organisation::stored_index;

use super::desk_client::DeskClient;
use super::exit::Exit;
use super::inspect::{header, remote};
use super::output::Output;

/// Sessions that a listening gate keeps at a time, and for how long without use.
const SESSIONS: usize = 256;
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

#[derive(Args)]
pub(super) struct GateArguments {
    /// How much is held: what guard would hold is only noted under monitor; strict holds any drift
    #[arg(long, value_enum, default_value = "guard")]
    posture: PostureArgument,

    /// What happens to tools that a pinned server lists for the first time
    #[arg(long, value_enum, default_value = "review")]
    new_tools: NewToolsArgument,

    /// How long a call waits for the server's list of tools
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    list_timeout: u64,

    /// Withhold results of calls that carry text addressed to the model
    #[arg(long)]
    scan_results: bool,

    /// How the server is called in messages; without it, its identity
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

    /// Keeps pins of its own for servers that list other tools with other credentials
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// A remote server (streamable HTTP, or SSE); the client stays on stdin and stdout
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// A header for every request
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        requires = "url",
        conflicts_with = "command"
    )]
    headers: Vec<String>,

    /// A header for every request, whose value a variable holds: it stands in no list of processes
    #[arg(
        long = "header-env",
        value_name = "NAME=VARIABLE",
        requires = "url",
        conflicts_with = "command"
    )]
    headers_env: Vec<String>,

    /// The variable that holds a bearer token for every request
    #[arg(long, value_name = "VARIABLE", requires = "url", conflicts_with = "command")]
    bearer_env: Option<String>,

    /// Listen for clients on this loopback address in place of stdin and stdout; their own authorization is passed on
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "url",
        conflicts_with = "command"
    )]
    listen: Option<SocketAddr>,

    /// Whose decisions are obeyed beside this machine's: what the organisation refuses at its index is held, what it approves
    /// proceeds
    #[arg(long, value_enum, value_name = "WHERE")]
    approvals: Option<ApprovalsArgument>,

    /// How long ago the index may have been heard for its approvals to set anything free; its refusals count for ever
    #[arg(long, value_name = "TIME", default_value = "7d", requires = "approvals", value_parser = organisation::age)]
    approvals_max_age: Duration,

    /// Lets a held change of text, or a widening, through without a person once an index knows exactly that definition as published
    /// and seen for this long, and independent installs see it
    #[arg(long, value_name = "TIME", value_parser = organisation::age)]
    accept_aged: Option<Duration>,

    /// The command that starts the server; it gets this environment and directory
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present = "url",
        conflicts_with = "url"
    )]
    command: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum PostureArgument {
    Monitor,
    Guard,
    Strict,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ApprovalsArgument {
    /// The index that `mcpindex login` or MCPINDEX_WEB_BASE names
    Index,
}

#[derive(Clone, Copy, ValueEnum)]
enum NewToolsArgument {
    /// They wait for a person
    Review,
    /// They are trusted on first sight
    Tofu,
}

pub(super) fn run(arguments: GateArguments, output: &mut Output) -> Exit {
    let (mut plan, target) = match resolve(&arguments) {
        Ok(resolved) => resolved,
        Err(mistake) => {
            output.error(&format!("error: {mistake}"));
            return Exit::Usage;
        }
    };
    if let Some(index) = plan.obeyed.take() {
        plan.approvals = Some(organisation::follow(&plan, index, arguments.approvals_max_age));
    }
    let _aged = plan
        .aged
        .take()
        .map(|index| organisation::follow_aged(&plan, index, arguments.accept_aged));
    plan.telemetry = telemetry(&plan.state, output);
    let telemetry = plan.telemetry.clone();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.error(&format!("error: the runtime could not be set up: {error}"));
            return Exit::Internal;
        }
    };
    let exit = runtime.block_on(async {
        match (target, arguments.listen) {
            (Target::Command(command), _) => Ok(gate_command(&plan, &command, output).await),
            (Target::Remote(endpoint), None) => gate_remote(&plan, endpoint, output).await,
            (Target::Remote(endpoint), Some(address)) => {
                gate_listening(plan, endpoint, address, output).await
            }
        }
    });
    if let Some(telemetry) = telemetry {
        runtime.block_on(telemetry.finish());
    }
    // A read of a terminal can't be taken back: nobody waits for it.
    runtime.shutdown_background();
    exit.unwrap_or_else(|error| {
        output.error(&format!("error: {error:#}"));
        Exit::Internal
    })
}

enum Target {
    Command(Vec<String>),
    Remote(Endpoint),
}

/// How each gate of this run is made.
struct Plan {
    state: StateDirectory,
    identity: Identity,
    context: Option<String>,
    options: GateOptions,
    telemetry: Option<Telemetry>,
    /// The index whose decisions are to be obeyed, until it is followed.
    obeyed: Option<Chosen>,
    /// The index that is asked for aged evidence, until it is.
    aged: Option<Chosen>,
    approvals: Option<Approvals>,
}

/// What the arguments mean on this machine. An error is one line for the person.
fn resolve(arguments: &GateArguments) -> Result<(Plan, Target), String> {
    let (target, identity) = match &arguments.url {
        None => (
            Target::Command(arguments.command.clone()),
            Identity::from_launch(&arguments.command).map(|launched| launched.identity),
        ),
        Some(url) => {
            let mut endpoint = remote(url, &arguments.headers)?;
            for header in &arguments.headers_env {
                endpoint.headers.push(header_of_variable(header)?);
            }
            if let Some(variable) = &arguments.bearer_env {
                endpoint.headers.push(bearer(variable)?);
            }
            let identity = Identity::from_url(endpoint.url.as_str());
            (Target::Remote(endpoint), identity)
        }
    };
    let identity = identity.map_err(|error| error.to_string())?;
    let server = match &arguments.server {
        Some(name) => name.clone(),
        None => identity.to_string(),
    };
    let state = StateDirectory::from_environment().map_err(|error| error.to_string())?;
    let obeyed = match arguments.approvals {
        Some(ApprovalsArgument::Index) => Some(organisation::index(&state)?),
        None => None,
    };
    let aged = match arguments.accept_aged {
        Some(_) => Some(organisation::aged_index(&state, arguments)?),
        None => None,
    };
    let plan = Plan {
        state,
        identity,
        context: arguments.context.clone(),
        options: GateOptions {
            posture: match arguments.posture {
                PostureArgument::Monitor => Posture::Monitor,
                PostureArgument::Guard => Posture::Guard,
                PostureArgument::Strict => Posture::Strict,
            },
            new_tools: match arguments.new_tools {
                NewToolsArgument::Review => NewTools::Review,
                NewToolsArgument::Tofu => NewTools::Tofu,
            },
            list_timeout: Duration::from_secs(arguments.list_timeout),
            scan_results: arguments.scan_results,
            tell_action: std::env::var("MCPINDEX_ACTION_CLASSIFICATION_ENABLED").as_deref() != Ok("0"),
            server,
            limits: GateLimits::default(),
            clock: Arc::new(SystemClock),
        },
        telemetry: None,
        obeyed,
        aged,
        approvals: None,
    };
    Ok((plan, target))
}

/// Telemetry, where it is on and there is an index. What is wrong with it is told, and the gate does without.
fn telemetry(state: &StateDirectory, output: &mut Output) -> Option<Telemetry> {
    let choice = choose(state, &ModeVariables::from_environment());
    if let Some(problem) = choice.problem {
        output.error(&format!("mcpindex: telemetry: {problem}"));
    }
    if !choice.mode.asks() {
        return None;
    }
    let index = match index::chosen(state, &Variables::from_environment()) {
        Ok(index) => index?,
        Err(error) => {
            output.error(&format!("mcpindex: telemetry is off: {error}"));
            return None;
        }
    };
    let output = Mutex::new(Output::for_terminal());
    let say: Say = Arc::new(move |advice| {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.error(&advice.line());
    });
    Some(Telemetry::new(TelemetryOptions {
        mode: choice.mode,
        index,
        state: state.clone(),
        clock: Arc::new(SystemClock),
        say,
        own_registries: OwnRegistries::of_this_process(),
        pauses: Pauses::default(),
        limits: BufferLimits::default(),
    }))
}

impl Plan {
    /// A gate over the pins of the server as seen with these credentials, unless the person named a context.
    fn gate(&self, seen_with: AuthContext) -> Gate {
        let key = ServerKey {
            identity: self.identity.clone(),
            context: match &self.context {
                Some(name) => AuthContext::Named(name.clone()),
                None => seen_with,
            },
        };
        let gate = Gate::new(self.options.clone(), Pins::open(&self.state, &key));
        let gate = match &self.approvals {
            Some(approvals) => gate.obeying(approvals.clone(), &self.identity.to_string()),
            None => gate,
        };
        // What is listed to the bearer of a credential is nothing that others could see too.
        match self.telemetry.as_ref().filter(|_| key.context.is_anybodys()) {
            Some(telemetry) => gate.watched_by(telemetry.watch(&self.identity, &self.options.server)),
            None => gate,
        }
    }
}

/// `NAME=VARIABLE`. The variable's value is in no message.
fn header_of_variable(text: &str) -> Result<(String, SecretString), String> {
    let (name, variable) = text.split_once('=').ok_or("--header-env needs `NAME=VARIABLE`")?;
    let value = std::env::var(variable)
        .map_err(|_| format!("--header-env {name}: the variable `{variable}` is not set here"))?;
    header("--header-env", name.trim(), value.trim())
}

/// `Authorization` with the token in this variable. Its value is in no message.
fn bearer(variable: &str) -> Result<(String, SecretString), String> {
    match std::env::var(variable) {
        Ok(token) if !token.trim().is_empty() => {
            let value = format!("Bearer {}", token.trim());
            Ok(("Authorization".to_owned(), value.into()))
        }
        _ => Err(format!("--bearer-env {variable}: the variable is not set here")),
    }
}

async fn gate_command(plan: &Plan, command: &[String], output: &mut Output) -> Exit {
    let gate = plan.gate(AuthContext::Local);
    let server = &plan.options.server;
    let ended = stdio::run(command, gate, Drill::of(&plan.state), |event| {
        output.error(&told::line(server, &event));
    })
    .await;
    match ended {
        Ok(Ended::Server { status, spoke }) => {
            let code = code(status);
            if !spoke {
                // A script whose interpreter is not there ends with 126 or 127, having told its own name at most.
                let looked_up = match code {
                    126 | 127 => format!("; programs were looked up on {}", stdio::shown_path()),
                    _ => String::new(),
                };
                output.error(&format!(
                    "mcpindex: {server} ended with {code} before it said anything{looked_up}"
                ));
            }
            Exit::OfServer(code)
        }
        Ok(Ended::Client) => Exit::Ok,
        Ok(Ended::Stopped) => Exit::Stopped,
        Ok(Ended::TooLong(peer, limit)) => {
            let peer = match peer {
                Peer::Client => "the client",
                Peer::Server => server.as_str(),
            };
            output.error(&format!(
                "mcpindex: {peer} sent a message of more than {limit} bytes: the session was ended"
            ));
            Exit::Undetermined
        }
        Err(error) => {
            output.error(&format!("error: {error}"));
            match error {
                StdioError::NotOnPath { .. } | StdioError::NoSuchFile { .. } => Exit::OfServer(127),
                StdioError::NotStarted { .. } => Exit::OfServer(126),
                StdioError::Own { .. } => Exit::Internal,
            }
        }
    }
}

/// As shells tell it.
fn code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

async fn gate_remote(plan: &Plan, endpoint: Endpoint, output: &mut Output) -> anyhow::Result<Exit> {
    let mut signals = StopSignals::listen().context("signals can't be received")?;
    let input = OwnInput::open().context("stdin can't be used")?;
    let answers = OwnOutput::open().context("stdout can't be used")?;
    let gate = plan.gate(http::auth_context(&endpoint.headers));
    let options = HttpOptions {
        client: Arc::new(DeskClient::new()?),
        endpoint,
        limits: RemoteLimits::default(),
        drills: Some(plan.state.clone()),
    };
    let is_stopped = AtomicBool::new(false);
    let stop = async {
        signals.recv().await;
        is_stopped.store(true, Ordering::Relaxed);
    };
    let ended = http::run(options, gate, input, answers, teller(&plan.options), stop).await;
    Ok(match ended {
        Ok(()) if is_stopped.load(Ordering::Relaxed) => Exit::Stopped,
        Ok(()) => Exit::Ok,
        Err(end) => {
            output.error(&format!("mcpindex: {}: {end}", plan.options.server));
            Exit::Undetermined
        }
    })
}

async fn gate_listening(
    plan: Plan,
    endpoint: Endpoint,
    address: SocketAddr,
    output: &mut Output,
) -> anyhow::Result<Exit> {
    let mut signals = StopSignals::listen().context("signals can't be received")?;
    let options = ListenOptions {
        address,
        client: Arc::new(DeskClient::new()?),
        endpoint,
        limits: RemoteLimits::default(),
        sessions: SESSIONS,
        idle: SESSION_IDLE,
        drills: Some(plan.state.clone()),
    };
    let server = plan.options.server.clone();
    let tell = teller(&plan.options);
    let new_gate: NewGate = Arc::new(move |seen_with| plan.gate(seen_with));
    let listening = |url: &str| output.error(&format!("mcpindex: {server} is gated at {url}"));
    let stop = async move { signals.recv().await };
    match listen::run(options, new_gate, listening, tell, stop).await {
        Ok(()) => Ok(Exit::Stopped),
        Err(error) => {
            output.error(&format!("error: {error}"));
            Ok(match error {
                ListenError::NotLoopback(_) => Exit::Usage,
                ListenError::NotBound { .. } => Exit::Internal,
            })
        }
    }
}

/// Writes to stderr from whichever task.
fn teller(options: &GateOptions) -> Tell {
    let server = options.server.clone();
    let output = Mutex::new(Output::for_terminal());
    Arc::new(move |notice| {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Event(event) => output.error(&told::line(&server, &event)),
            Notice::Line(line) => output.error(&format!("mcpindex: {server}: {line}")),
        }
    })
}
