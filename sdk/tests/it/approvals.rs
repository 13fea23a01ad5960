//! The organisation's decisions: what is kept of them, who says them, and a gate that obeys.

mod cache;
pub(crate) mod chain;
mod following;
mod program;
mod review;
mod stand_in;
