//! The program `mcpindex`: see [`cli`] for its commands.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    mcpindex::sandbox::enter_when_asked().unwrap_or_else(cli::run)
}
