//! Puts the gate in the path of a server: `mcpindex gate -- COMMAND`, `--url URL` or `--listen ADDRESS`.
//!
//! Invariant: nothing but the protocol is written to stdout, and what a person should know to stderr.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct GateArguments {}

pub(super) fn run(arguments: GateArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("gate")
}
