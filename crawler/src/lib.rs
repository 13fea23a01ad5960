//! Looks at MCP servers again and again, and records what each declared.
//!
//! A target says how to reach a server ([`target`]); a package becomes something to start in [`package`]; a remote server is
//! reached through [`guarded_client`] alone; [`worker`] claims due targets, looks, and writes through `store`.
//!
//! Invariant: no outgoing HTTP but through the guarded client, nothing of a target run outside of a jail, and no failed look that
//! passes for an empty one.

pub mod address;
pub mod backfill;
mod domain;
pub mod error;
pub mod event;
pub mod guarded_client;
pub mod jails;
mod look;
pub mod package;
mod schedule;
pub mod settings;
pub mod sources;
pub mod target;
pub mod version;
pub mod worker;

pub use error::CrawlError;
