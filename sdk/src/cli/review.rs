//! What is held, release by release, and a person's decision on each.
//!
//! Invariant: what is approved is the digest that was shown, never what is there by then.

use clap::Args;

use super::exit::Exit;
use super::output::Output;

#[derive(Args)]
pub(super) struct ReviewArguments {}

pub(super) fn run(arguments: ReviewArguments, output: &mut Output) -> Exit {
    let _ = (arguments, output);
    todo!("review")
}
