//! What every answer carries: a request id, the rules for browsers, and a strong validator on reads.
//!
//! Invariant: no answer leaves without these, errors and answers of layers included.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::access::redaction::holds_key;
use crate::app::App;
use crate::assets::hex;

/// The header of the request id, on requests and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Browsers that were here over https come back over https alone, for a year.
const ONLY_HTTPS: &str = "max-age=31536000";

/// The longest request id that is taken from a proxy in front of us.
const MAX_REQUEST_ID: usize = 64;

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

static SECURITY: [(HeaderName, HeaderValue); 7] = [
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
];

/// Lets the forms of this one page be answered with a redirect to `target` too, which browsers hold the policy against.
pub(crate) fn allow_form_target(response: &mut Response, target: &str) {
    let policy = POLICY.replace("form-action 'self'", &format!("form-action 'self' {target}"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
}

/// The request's id: what a proxy in front of us calls it, or a new one, which the request has from now on. One that is no
/// plain word, or a key, is dropped: it comes from outside and goes into logs and answers.
pub(crate) fn request_id(request: &mut Request) -> HeaderValue {
    let plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let is_key = value.to_str().is_ok_and(holds_key);
        !bytes.is_empty() && bytes.len() <= MAX_REQUEST_ID && bytes.iter().all(word) && !is_key
    };
    if let Some(given) = request.headers().get(REQUEST_ID).filter(plain) {
        return given.clone();
    }
    let mut text = Uuid::encode_buffer();
    let text = Uuid::new_v4().as_hyphenated().encode_lower(&mut text);
    let id = HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("none"));
    request.headers_mut().insert(REQUEST_ID, id.clone());
    id
}

/// Adds what browsers must keep to, and says how the answer may be cached unless its handler did.
pub(crate) fn secure(app: &App, response: &mut Response) {
    let cache = if response.status().is_client_error() || response.status().is_server_error() {
        "no-store"
    } else {
        // Kept by caches, but asked for again with its validator each time.
        "no-cache"
    };
    let headers = response.headers_mut();
    // These, and what else an answer has beside them.
    headers.reserve(SECURITY.len() + 6);
    for (name, value) in &SECURITY {
        // A page whose form is answered elsewhere says so itself.
        headers.entry(name).or_insert_with(|| value.clone());
    }
    if app.base.scheme() == "https" {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ONLY_HTTPS));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static(cache));
}

/// Lets `Allow` stand only where the method is what is wrong: elsewhere it tells that an address is there.
pub(crate) fn methods_only_where_asked(mut response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().remove(ALLOW);
    }
    response
}

/// Gives the answer to a read a strong `ETag`, the SHA-256 of the bytes as sent (so each encoding has its own), and answers 304
/// to whoever has them: `known` is the request's `If-None-Match`.
pub(crate) async fn validated(known: Option<HeaderValue>, response: Response) -> Response {
    if response.status() != StatusCode::OK {
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
    if let Ok(tag) = HeaderValue::try_from(tag) {
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
