//! The conformance suite: every method of the store, on SQLite and on Postgres.

mod accounts;
mod accounts_keys;
mod accounts_sign_in;
mod approvals;
mod audit;
mod backup;
mod concurrency;
mod crash;
mod definitions;
mod drifts;
mod feed_paths;
mod fixture;
mod locale;
mod migrations;
mod observations;
mod opening;
mod partial;
mod postgres;
mod receipts;
mod search;
mod servers;
mod sightings;
mod signals;
mod targets;
mod text;
mod timeline;
