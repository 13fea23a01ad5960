//! The command line: arguments in, one exit code out.
//!
//! Arguments are taken in two steps: clap says what was written, and each command resolves that against the world
//! (variables that must be set, paths that must exist) before anything is started.
//!
//! Invariant: a mistake in the arguments starts nothing and has an exit code of its own.

mod approve;
mod check;
mod desk_client;
mod exit;
mod explain;
mod export;
mod gate;
mod index;
mod inspect;
mod keys;
mod kinds;
mod launch_line;
mod login;
mod logout;
mod output;
mod pending;
mod pins;
mod review;
mod server_name;
mod status;
mod telemetry;
mod whoami;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::Exit;
use output::Output;

/// A memory for the Model Context Protocol: what servers declare, and what changed
#[derive(Parser)]
#[command(name = "mcpindex", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Says what a server declares: its tools, prompts and resources, each with its digest
    Inspect(inspect::InspectArguments),
    /// Says what a change of a tool means, and what a gate would do about it
    Explain(explain::ExplainArguments),
    /// Lists the kinds of change, each with what a gate does about it
    Kinds(kinds::KindsArguments),
    /// Stands between a client and a server, and holds calls of tools that changed
    Gate(gate::GateArguments),
    /// Shows what is held, and asks what to do about it
    Review(review::ReviewArguments),
    /// Approves exactly one held definition
    Approve(approve::ApproveArguments),
    /// Lists what is held and waits for a person
    Pending(pending::PendingArguments),
    /// Lists, shows and resets what is pinned
    Pins(pins::PinsArguments),
    /// Says what is gated, per host and server, and what is held
    Status(status::StatusArguments),
    /// Says whether a tool has been vetted, from what this machine and an index know
    Check(check::CheckArguments),
    /// Puts the gate in front of the servers that a host's configuration starts
    Wire(wire::WireArguments),
    /// Takes the gate away again: the file is what it was, to the byte
    Unwire(wire::UnwireArguments),
    /// Writes the servers that an index lists as a file for hosts that administrators manage
    Export(export::ExportArguments),
    /// Signs in to an index: gets a key and keeps it
    Login(login::LoginArguments),
    /// Says who this machine is at an index
    Whoami(whoami::WhoamiArguments),
    /// Signs out of an index: revokes the key and removes it
    Logout(logout::LogoutArguments),
    /// Lists, makes, replaces and revokes the keys of your account at an index
    Keys(keys::KeysArguments),
    /// Says whether an index hears of what gates see, and switches that on or off
    Telemetry(telemetry::TelemetryArguments),
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    let mut output = Output::for_terminal();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            if asks_for_json() {
                let mistake = error.kind().to_string();
                match std::env::args().nth(1).as_deref() {
                    Some("explain") => explain::print_usage_error(&mut output, &mistake),
                    Some("pins" | "pending" | "approve" | "telemetry") => {
                        pins::print_mistake(&mut output, pins::SCHEMA, &mistake);
                    }
                    Some("whoami" | "keys") => pins::print_mistake(&mut output, index::SCHEMA, &mistake),
                    _ => inspect::print_usage_error(&mut output, &mistake),
                }
            }
            output.usage(&error.render());
            return Exit::Usage.into();
        }
        Err(help) => {
            output.help(&help.render());
            return Exit::Ok.into();
        }
    };
    match arguments.command {
        Command::Inspect(arguments) => inspect::run(arguments, &mut output).into(),
        Command::Explain(arguments) => explain::run(&arguments, &mut output).into(),
        Command::Kinds(arguments) => kinds::run(&arguments, &mut output).into(),
        Command::Gate(arguments) => gate::run(arguments, &mut output).into(),
        Command::Review(arguments) => review::run(arguments, &mut output).into(),
        Command::Approve(arguments) => approve::run(arguments, &mut output).into(),
        Command::Pending(arguments) => pending::run(arguments, &mut output).into(),
        Command::Pins(arguments) => pins::run(arguments, &mut output).into(),
        Command::Status(arguments) => status::run(arguments, &mut output).into(),
        Command::Check(arguments) => check::run(arguments, &mut output).into(),
        Command::Wire(arguments) => wire::run(arguments, &mut output).into(),
        Command::Unwire(arguments) => wire::run_unwire(arguments, &mut output).into(),
        Command::Export(arguments) => export::run(&arguments, &mut output).into(),
        Command::Login(arguments) => login::run(&arguments, &mut output).into(),
        Command::Whoami(arguments) => whoami::run(&arguments, &mut output).into(),
        Command::Logout(arguments) => logout::run(&arguments, &mut output).into(),
        Command::Keys(arguments) => keys::run(&arguments, &mut output).into(),
        Command::Telemetry(arguments) => telemetry::run(arguments, &mut output).into(),
    }
}

/// Whether `--json` stands among our own arguments.
fn asks_for_json() -> bool {
    std::env::args()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}
