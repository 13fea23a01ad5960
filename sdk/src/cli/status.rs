//! How this machine stands: which hosts' servers are gated, what is pinned and held, what can't be read.
//!
//! Invariant: what can't be read is listed as such.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct StatusArguments {}

pub(super) fn run(arguments: StatusArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("status")
}
