//! HTTP+SSE, the transport of 2024-11-05: a GET opens one stream for everything the server says, whose first event names
//! the address that messages are posted to.
//!
//! Invariant: messages, and the headers that go with them, are posted only to the origin that the stream came from.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use tokio::time::timeout;
use url::Url;

use crate::wire::error::WireError;
use crate::wire::http::answer::{EventStream, Kind, judge};
use crate::wire::http::body::Budget;
use crate::wire::http::events::Events;
use crate::wire::http::{Endpoint, HttpClient, request};

/// How long a stream may take to name the address; it is its first event.
const ADDRESS: Duration = Duration::from_secs(10);

/// The longest address.
const ADDRESS_BYTES: usize = 8 << 10;

/// One connection.
pub(in crate::wire) struct Sse {
    post_to: Url,
    stream: EventStream,
}

impl Sse {
    /// Opens the stream and waits for the address. An answer that is no such stream is an error.
    pub(in crate::wire) async fn open(
        client: &dyn HttpClient,
        endpoint: &Endpoint,
        headers: HeaderMap,
        events: Events,
        budget: &mut Budget,
    ) -> Result<Sse, WireError> {
        let request = request(endpoint, &endpoint.url, Method::GET, headers, None)?;
        let opened = async {
            let response = client.send(request).await?;
            if response.url().origin() != endpoint.url.origin() {
                return Err(no_stream("the event stream of another origin"));
            }
            let kind = judge(response, "GET", false, ADDRESS_BYTES, budget)
                .await
                .map_err(|refusal| refusal.error)?;
            let Kind::Stream(body) = kind else {
                return Err(no_stream("no event stream"));
            };
            let mut stream = EventStream::new(body, events);
            let first = stream
                .next(budget)
                .await?
                .ok_or(no_stream("an empty event stream"))?;
            if first.name.as_deref() != Some(b"endpoint") {
                return Err(no_stream("an event stream that names no endpoint"));
            }
            let post_to = address(&endpoint.url, &first.data)?;
            Ok(Sse { post_to, stream })
        };
        timeout(ADDRESS, opened).await.unwrap_or(Err(WireError::TimedOut {
            method: "GET",
            within: ADDRESS,
        }))
    }

    /// Where messages are posted to.
    pub(in crate::wire) fn post_to(&self) -> &Url {
        &self.post_to
    }

    /// The next message; `None` when the stream ended. Safe to drop half-way.
    pub(in crate::wire) async fn next(&mut self, budget: &mut Budget) -> Result<Option<Vec<u8>>, WireError> {
        loop {
            match self.stream.next(budget).await? {
                None => return Ok(None),
                Some(event) if matches!(event.name.as_deref(), None | Some(b"message")) => {
                    return Ok(Some(event.data));
                }
                // A second address would move the messages elsewhere: it is not taken.
                Some(_) => {}
            }
        }
    }
}

fn no_stream(what: &str) -> WireError {
    WireError::NotMcp {
        reason: format!("GET gives {what}"),
    }
}

/// The address that an `endpoint` event names: relative to the URL of the stream, and of its origin.
fn address(base: &Url, data: &[u8]) -> Result<Url, WireError> {
    let text = std::str::from_utf8(data)
        .ok()
        .filter(|text| text.len() <= ADDRESS_BYTES);
    let url = text
        .and_then(|text| base.join(text.trim()).ok())
        .ok_or(no_stream("an endpoint that is no URL"))?;
    if url.origin() != base.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err(WireError::NotMcp {
            reason: format!(
                "its event stream names an endpoint of another origin, {}, which gets nothing from here",
                url.origin().ascii_serialization()
            ),
        });
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data: &str, expected: Result<&str, &str>) {
        let base = Url::parse("https://notes.example/a/sse?key=1").unwrap();
        let found = address(&base, data.as_bytes());
        let found = found.as_ref().map(Url::as_str).map_err(ToString::to_string);
        assert_eq!(found, expected.map_err(str::to_owned), "{data}");
    }

    #[test]
    fn the_address_is_relative_to_the_stream() {
        check(
            "/messages?session=1",
            Ok("https://notes.example/messages?session=1"),
        );
        check("messages", Ok("https://notes.example/a/messages"));
        check("https://notes.example:443/x", Ok("https://notes.example/x"));
    }

    #[test]
    fn another_origin_gets_nothing() {
        for (data, origin) in [
            ("https://evil.example/x", "https://evil.example"),
            ("//evil.example/x", "https://evil.example"),
            ("http://notes.example/x", "http://notes.example"),
            ("https://notes.example:444/x", "https://notes.example:444"),
            ("https://user@notes.example/x", "https://notes.example"),
            ("file:///etc/passwd", "null"),
        ] {
            let reason = format!(
                "no MCP server: its event stream names an endpoint of another origin, {origin}, which gets nothing from here"
            );
            check(data, Err(&reason));
        }
        check(
            "https://",
            Err("no MCP server: GET gives an endpoint that is no URL"),
        );
    }
}
