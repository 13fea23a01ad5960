//! The crawler's tests over its public face.
//!
//! Invariant: every MCP server here is one that the test itself started; only npm and pip talk to anything but loopback.

mod address_literals;
mod crawl;
mod desk;
mod evil_packages;
mod guarded_client;
mod hostile;
mod package;
mod reading;
mod registry_page;
mod registry_reached;
mod registry_source;
mod sources;
mod targets;
mod version;

/// What `main` does in programs: reqwest finds its crypto here.
fn install_tls_provider() {
    // The second and later tests of one process find it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
