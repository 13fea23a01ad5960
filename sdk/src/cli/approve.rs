//! One decision without questions, for scripts.
//!
//! Invariant: only a digest that is held can be approved.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct ApproveArguments {}

pub(super) fn run(arguments: ApproveArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("approve")
}
