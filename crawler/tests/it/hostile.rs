//! Servers that mean no good: each is looked at as a crawl looks, ends as its own outcome within its limit, and keeps
//! neither a connection nor a task of ours.
//!
//! What an address, a name service or a certificate may be is tested beside the guarded client; what one definition may
//! hold, with the contract.

mod bodies;
mod certificates;
mod lists;
mod redirects;
mod streams;
mod stub;
mod talk;
