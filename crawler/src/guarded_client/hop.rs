//! Where an answer that redirects leads, and what of the request goes there.
//!
//! MCP is spoken in POSTs. One of them goes on only where the status keeps method and body, and only within its origin:
//! what it says was meant for whoever was named, and for nobody else.
//!
//! Invariant: no body, no credential and no session leaves the origin that it was made for, and nothing that was asked
//! over https is asked over http.

use mcpindex::wire::http::HttpError;
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, LOCATION, PROXY_AUTHORIZATION};
use reqwest::{Method, Request, StatusCode};
use url::Url;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Where this answer leads; `None` when it is the answer. Whether that may be contacted at all is not judged here.
pub(super) fn target(from: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = std::str::from_utf8(headers.get(LOCATION)?.as_bytes()).ok()?;
    from.join(location).ok()
}

/// The request that goes there, made of the one that was redirected.
pub(super) fn next(mut request: Request, status: StatusCode, to: Url) -> Result<Request, HttpError> {
    let from = request.url();
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(HttpError::Blocked {
            rule: "by a redirect: from https to http".to_owned(),
        });
    }
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let elsewhere = from.origin() != to.origin();
    let origin = to.origin().ascii_serialization();
    if !is_get {
        let keeps = matches!(status.as_u16(), 307 | 308);
        let method = request.method();
        let reason = match (keeps, elsewhere) {
            (true, false) => None,
            (true, true) => Some(format!(
                "HTTP {status} redirects a {method} to another origin, {origin}: not followed"
            )),
            (false, _) => Some(format!(
                "HTTP {status} redirects a {method} to {origin} and would make a GET of it: not followed"
            )),
        };
        if let Some(reason) = reason {
            return Err(HttpError::NotFollowed { reason });
        }
    }
    if elsewhere {
        forget(request.headers_mut());
    }
    *request.url_mut() = to;
    Ok(request)
}

/// Takes out what was for one origin alone.
fn forget(headers: &mut HeaderMap) {
    for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, SESSION] {
        headers.remove(name);
    }
    // What the caller gave is marked, whatever it is called.
    let secret: Vec<HeaderName> = headers
        .iter()
        .filter(|(_, value)| value.is_sensitive())
        .map(|(name, _)| name.clone())
        .collect();
    for name in secret {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{ACCEPT, HeaderValue};

    use super::*;

    fn request(method: &Method, url: &str) -> Request {
        let mut request = Request::new(method.clone(), url.parse().unwrap());
        let mut key = HeaderValue::from_static("key");
        key.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert("x-api-key", key);
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, SESSION, ACCEPT] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        request
    }

    /// What becomes of a request that is answered so.
    fn check(method: Method, from: &str, status: u16, location: &str, expected: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let headers = HeaderMap::from_iter([(LOCATION, location.parse().unwrap())]);
        let request = request(&method, from);
        let said = match target(request.url(), status, &headers) {
            None => "the answer".to_owned(),
            Some(to) => match next(request, status, to) {
                Ok(next) => {
                    let mut names: Vec<_> = next.headers().keys().map(HeaderName::as_str).collect();
                    names.sort_unstable();
                    format!("{} {} {}", next.method(), next.url(), names.join(" "))
                }
                Err(error) => error.to_string(),
            },
        };
        assert_eq!(said, expected, "{method} {from} {status} {location}");
    }

    const ALL: &str = "accept authorization cookie mcp-session-id proxy-authorization x-api-key";

    #[test]
    fn within_an_origin_everything_goes_along() {
        for status in [307, 308] {
            let expected = format!("POST https://a.example/b {ALL}");
            check(Method::POST, "https://a.example/a", status, "/b", &expected);
        }
        for status in [301, 302, 303, 307, 308] {
            let expected = format!("GET https://a.example/b {ALL}");
            check(
                Method::GET,
                "https://a.example/a",
                status,
                "https://a.example:443/b",
                &expected,
            );
        }
    }

    #[test]
    fn another_origin_learns_nothing_that_was_for_the_first() {
        for to in ["https://b.example/", "https://a.example:8443/", "//b.a.example/"] {
            let url = Url::parse("https://a.example/a").unwrap().join(to).unwrap();
            let expected = format!("GET {url} accept");
            check(Method::GET, "https://a.example/a", 307, to, &expected);
        }
    }

    #[test]
    fn a_post_goes_to_no_other_origin_and_becomes_no_get() {
        check(
            Method::POST,
            "https://a.example/a",
            308,
            "https://b.example/b?key=1",
            "HTTP 308 Permanent Redirect redirects a POST to another origin, https://b.example: not followed",
        );
        for status in [301, 302, 303] {
            let code = StatusCode::from_u16(status).unwrap();
            check(
                Method::POST,
                "https://a.example/a",
                status,
                "/b?key=1",
                &format!(
                    "HTTP {code} redirects a POST to https://a.example and would make a GET of it: not followed"
                ),
            );
        }
    }

    #[test]
    fn https_stays_https() {
        for method in [Method::GET, Method::POST] {
            check(
                method,
                "https://a.example/a",
                307,
                "http://a.example/a",
                "blocked address (by a redirect: from https to http)",
            );
        }
    }

    #[test]
    fn a_status_or_a_location_that_leads_nowhere_is_the_answer() {
        check(Method::GET, "https://a.example/", 300, "/b", "the answer");
        check(Method::GET, "https://a.example/", 304, "/b", "the answer");
        check(Method::GET, "https://a.example/", 302, "https://", "the answer");
        assert_eq!(
            target(
                &"https://a.example/".parse().unwrap(),
                StatusCode::FOUND,
                &HeaderMap::new()
            ),
            None
        );
    }
}
