//! The index as people and programs read it (pages, the JSON API, and what every answer has in common), and the commands of
//! `mcpindex-server`.
//!
//! [`router::router`] is the whole of it as one service: it needs an [`app::App`] and nothing global, so tests call it
//! without a socket. [`commands::run`] is the program but for what `main` sets up.
//!
//! Invariant: nothing here writes SQL or trusts a server's text, no server is run but through the crawler; a failed look is
//! never shown as an empty one.

pub mod access;
pub mod api;
pub mod app;
pub mod approvals;
pub mod args;
mod assets;
mod badges;
pub mod commands;
pub mod config;
mod crawl;
pub mod exit;
mod feeds;
mod headers;
pub mod ingest;
mod links;
mod llms;
pub mod logging;
pub mod login;
mod mcp;
mod measure;
pub mod openapi;
pub mod output;
mod pages;
mod problem;
pub mod progress;
mod query;
mod queue;
pub mod registry;
pub mod router;
mod state;
mod summary;
mod vetting;
pub mod webhooks;
mod when;
mod words;
