//! The HTTP client of a person at a desk, who may contact any address that they can reach.
//!
//! Invariant: no redirect is followed (headers that carry credentials go to the host that was named and to no other), and
//! no cookie is kept.

use std::time::Duration;

use anyhow::Context;
use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::wire::http::{HttpClient, HttpError};

const CONNECT: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct DeskClient {
    client: reqwest::Client,
}

impl DeskClient {
    /// The client. Fails when the machine's certificates can't be read.
    #[expect(clippy::disallowed_methods, reason = "a person at a desk names the address")]
    pub(super) fn new() -> anyhow::Result<DeskClient> {
        // Fails only when a provider was installed before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("mcpindex/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .build()
            .context("the HTTP client could not be set up")?;
        Ok(DeskClient { client })
    }
}

impl HttpClient for DeskClient {
    fn send(&self, request: reqwest::Request) -> BoxFuture<'_, Result<reqwest::Response, HttpError>> {
        self.client
            .execute(request)
            .map(|answer| answer.map_err(|error| HttpError::of(&error)))
            .boxed()
    }
}
