//! The paths of pages and API calls, so that each has one spelling.
//!
//! Invariant: whatever comes from a server or a reader is percent-encoded here; permalinks carry the short id.

use mcpindex_contract::digest::Digest;
use url::Url;

/// One path segment: everything but letters, digits and `*-._` is percent-encoded.
pub(crate) fn segment(text: &str) -> String {
    // Form encoding differs from path encoding in the space alone.
    url::form_urlencoded::byte_serialize(text.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

/// A path with its query; parameters without a value are left out.
pub(crate) fn with_query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// The whole address of a path; the pages are at the root of their host.
pub(crate) fn absolute(base: &Url, path: &str) -> String {
    let base = base.as_str().trim_end_matches('/');
    format!("{base}{path}")
}

pub(crate) fn server_page(short_id: &str) -> String {
    format!("/servers/{short_id}")
}

/// A server's page by its identity, where the short id is not at hand.
pub(crate) fn server_page_of(identity: &str) -> String {
    format!("/servers/{}", segment(identity))
}

pub(crate) fn drift_page(id: i64) -> String {
    format!("/drifts/{id}")
}

pub(crate) fn drifts_feed() -> &'static str {
    "/feeds/drifts.atom"
}

/// The drifts of servers that are found by these words.
pub(crate) fn search_feed(words: &str) -> String {
    with_query(drifts_feed(), &[("q", Some(words.to_owned()))])
}

pub(crate) fn server_feed(short_id: &str) -> String {
    format!("/feeds/servers/{short_id}.atom")
}

pub(crate) fn definition_page(digest: &Digest) -> String {
    format!("/definitions/{digest}")
}

pub(crate) fn server_api(short_id: &str) -> String {
    format!("/api/v1/servers/{short_id}")
}

pub(crate) fn drift_api(id: i64) -> String {
    format!("/api/v1/drifts/{id}")
}

pub(crate) fn definition_api(digest: &Digest) -> String {
    format!("/api/v1/definitions/{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_hides_slashes_spaces_and_plus_signs() {
        insta::assert_snapshot!(segment("npm:@scope/a b+c"), @"npm%3A%40scope%2Fa%20b%2Bc");
    }

    #[test]
    fn parameters_without_a_value_are_left_out() {
        insta::assert_snapshot!(
            with_query("/x", &[("a", None), ("b", Some("1&2".to_owned()))]),
            @"/x?b=1%262"
        );
        insta::assert_snapshot!(with_query("/x", &[("a", None)]), @"/x");
    }
}
