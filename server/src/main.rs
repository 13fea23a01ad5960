//! The program `mcpindex-server`: sets up what must exist once a process, runs one command, ends with its code.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use mcpindex_server::args::Arguments;
use mcpindex_server::{commands, exit, logging, output};

/// How long tasks that block a thread may hold up the end.
const LAST_WAIT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    mcpindex::sandbox::enter_when_asked().unwrap_or_else(start)
}

fn start() -> ExitCode {
    // Before anything that could speak TLS. An error says that a provider is there already, and then all is well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            output::usage(&error);
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(arguments) {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The whole chain is for whoever asked for it.
            tracing::debug!("{error:?}");
            let (exit, line) = exit::of(&error);
            if let Some(line) = line {
                output::error(&line);
            }
            exit.into()
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<exit::Exit> {
    logging::start(&arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(commands::run(arguments));
    // Drops what still runs, and with it every child process.
    runtime.shutdown_timeout(LAST_WAIT);
    result
}
