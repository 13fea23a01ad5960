//! What waits for a person.
//!
//! Invariant: nothing is changed by looking.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct PendingArguments {}

pub(super) fn run(arguments: PendingArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("pending")
}
