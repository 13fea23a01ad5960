//! `mcpindex wire` and `unwire`: shows what would change, asks, writes.
//!
//! Invariant: nothing is written that was not shown and agreed to.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct WireArguments {}

pub(super) fn run(arguments: WireArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("wire")
}

#[derive(Args)]
pub(super) struct UnwireArguments {}

pub(super) fn run_unwire(arguments: UnwireArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("wire")
}
