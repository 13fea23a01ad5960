//! The command line: arguments in, one exit code out.
//!
//! Arguments are taken in two steps: clap says what was written, and each command resolves that against the world
//! (variables that must be set, paths that must exist) before anything is started.
//!
//! Invariant: a mistake in the arguments starts nothing and has an exit code of its own.

mod desk_client;
mod exit;
mod explain;
mod inspect;
mod kinds;
mod launch_line;
mod output;

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
    }
}

/// Whether `--json` stands among our own arguments.
fn asks_for_json() -> bool {
    std::env::args()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}
