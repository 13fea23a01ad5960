//! What every answer carries: a request id, the rules for browsers, and a strong validator on reads.
//!
//! Invariant: no answer leaves without these, errors and answers of layers included.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, STRICT_TRANSPORT_SECURITY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::access::redaction::holds_key;
use crate::app::App;
use crate::assets::hex;

/// The header of the request id, on requests and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Browsers that were here over https come back over https alone, for a year.
const ONLY_HTTPS: &str = "max-age=31536000";

/// The longest request id that is taken from a proxy in front of us.
const MAX_REQUEST_ID: usize = 64;

const SECURITY: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
];

/// Lets the forms of this one page be answered with a redirect to `target` too, which browsers hold the policy against.
pub(crate) fn allow_form_target(response: &mut Response, target: &str) {
    let policy = SECURITY[0]
        .1
        .replace("form-action 'self'", &format!("form-action 'self' {target}"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
}

/// Drops a request id that is no plain word, or a key: it comes from outside and goes into logs and answers.
pub(crate) async fn plain_request_id(mut request: Request, next: Next) -> Response {
    let plain = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let is_key = value.to_str().is_ok_and(holds_key);
        !bytes.is_empty() && bytes.len() <= MAX_REQUEST_ID && bytes.iter().all(word) && !is_key
    };
    if !request.headers().get(REQUEST_ID).is_some_and(plain) {
        request.headers_mut().remove(REQUEST_ID);
    }
    next.run(request).await
}

/// Adds what browsers must keep to, and says how the answer may be cached unless its handler did.
pub(crate) async fn security(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let cache = if response.status().is_client_error() || response.status().is_server_error() {
        "no-store"
    } else {
        // Kept by caches, but asked for again with its validator each time.
        "no-cache"
    };
    let headers = response.headers_mut();
    for (name, value) in SECURITY {
        // A page whose form is answered elsewhere says so itself.
        headers
            .entry(HeaderName::from_static(name))
            .or_insert(HeaderValue::from_static(value));
    }
    if app.base.scheme() == "https" {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ONLY_HTTPS));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static(cache));
    response
}

/// Lets `Allow` stand only where the method is what is wrong: elsewhere it tells that an address is there.
pub(crate) async fn methods_only_where_asked(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().remove(ALLOW);
    }
    response
}

/// Gives reads a strong `ETag`, the SHA-256 of the bytes as sent (so each encoding has its own), and answers 304 to
/// whoever has them.
pub(crate) async fn conditional(request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = request.headers().get(IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if !is_read || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Answers are made in memory and bounded there: the store's pages and the surface's limits.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        tracing::error!("an answer broke off while it was made");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let tag = format!("\"{}\"", hex(&Sha256::digest(&bytes)));
    let is_known = known.is_some_and(|known| names(&known, &tag));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        parts.headers.insert(ETAG, tag);
    }
    if is_known {
        parts.status = StatusCode::NOT_MODIFIED;
        forget_body(&mut parts.headers);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// Removes the headers that describe a body.
pub(crate) fn forget_body(headers: &mut HeaderMap) {
    for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
        headers.remove(name);
    }
}

/// Whether an `If-None-Match` names this validator, by weak comparison as RFC 9110 asks.
fn names(header: &HeaderValue, tag: &str) -> bool {
    let Ok(header) = header.to_str() else {
        return false;
    };
    header
        .split(',')
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}
