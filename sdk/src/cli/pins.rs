//! What is pinned, since when and how.
//!
//! Invariant: nothing but `reset` and `import` changes a record.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct PinsArguments {}

pub(super) fn run(arguments: PinsArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("pins")
}
