//! `mcpindex check SERVER [TOOL]`: one verdict with reasons and an exit code of its own.
//!
//! Invariant: the MCP server is never contacted.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct CheckArguments {}

pub(super) fn run(arguments: CheckArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("check")
}
