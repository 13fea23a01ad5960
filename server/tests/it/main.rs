//! The server as its readers meet it over a store with a few servers in it, and the program from outside: real processes,
//! real sockets, temporary folders.
//!
//! Invariant: nothing here leaves the machine but through loopback, and nothing that a test starts outlives it.

mod access;
mod access_keys;
mod access_people;
mod admin;
mod admin_approvals;
mod admin_backup;
mod answers;
mod api;
mod approvals;
mod approvals_obeyed;
mod approvals_pages;
mod browser;
mod client;
mod commands;
mod crawl;
mod fake_github;
mod fake_issues;
mod feeds;
mod hostile;
mod login;
mod login_oidc;
mod login_peers;
mod login_programs;
mod mcp;
mod mcp_peers;
mod measure;
mod openapi;
mod own_issuer;
mod pages;
#[path = "../../../sdk/tests/peers/place.rs"]
mod peers;
mod programs;
mod published_client;
mod receipts;
mod registry;
mod seed;
mod signals;
mod signals_killed;
mod telemetry;
mod tidy;
mod verdicts;
mod webhooks;
