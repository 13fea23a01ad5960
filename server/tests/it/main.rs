//! The server as its readers meet it over a store with a few servers in it, and the program from outside: real processes,
//! real sockets, temporary folders.
//!
//! Invariant: nothing here leaves the machine but through loopback, and nothing that a test starts outlives it.

mod access;
mod access_keys;
mod api;
mod client;
mod commands;
mod hostile;
mod measure;
mod openapi;
mod pages;
#[path = "../../../sdk/tests/peers/place.rs"]
mod peers;
mod programs;
mod published_client;
mod receipts;
mod seed;
mod signals;
mod signals_killed;
mod telemetry;
mod tidy;
