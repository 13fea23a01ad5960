//! An HTTP client for the tests: loopback needs no rules.

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpindex::inspect::{Inspection, inspect_http};
use mcpindex::wire::http::{Endpoint, HttpClient, HttpError};
use mcpindex::wire::limits::Limits;
use secrecy::SecretString;

struct LoopbackClient(reqwest::Client);

impl HttpClient for LoopbackClient {
    fn send(&self, request: reqwest::Request) -> BoxFuture<'_, Result<reqwest::Response, HttpError>> {
        self.0
            .execute(request)
            .map(|answer| {
                answer.map_err(|error| HttpError::Unreachable {
                    reason: format!("connect: {}", error.is_connect()),
                })
            })
            .boxed()
    }
}

/// For whoever keeps one.
pub(crate) fn loopback() -> std::sync::Arc<dyn HttpClient> {
    std::sync::Arc::new(loopback_client())
}

#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
fn loopback_client() -> LoopbackClient {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none());
    LoopbackClient(builder.build().unwrap())
}

/// Looks at a URL with these headers.
pub(crate) async fn look_at(url: &str, headers: &[(&str, &str)], limits: &Limits) -> Inspection {
    let client = loopback_client();
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), SecretString::from(*value)))
        .collect();
    let endpoint = Endpoint {
        url: url.parse().unwrap(),
        headers,
    };
    inspect_http(&client, &endpoint, limits).await
}
