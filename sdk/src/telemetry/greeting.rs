//! What has to be known of an index before anything is told or asked: how it takes signals, and under which key its
//! fingerprints are.
//!
//! Invariant: an index that could not be asked is not taken for one that has no key of its own.

use std::time::Duration;

use mcpindex_contract::signal::FingerprintKey;
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use serde_json::Value;

use super::kept::bytes_of_hex;
use super::payload::Version;
use crate::index::{Answer, IndexClient, IndexError};

/// The most that is read of either answer.
const MAX_ANSWER: usize = 256 * 1024;

/// What is known of an index.
pub(super) struct Greeting {
    /// How it takes signals; `None`: it takes none.
    pub(super) version: Option<Version>,
    pub(super) key: FingerprintKey,
    /// Whether the key is the organisation's own, so that this is its index.
    pub(super) is_own: bool,
}

/// An index did not answer, or not now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// One line of ours.
    pub(super) reason: String,
    /// When it may be asked again, by its own word.
    pub(super) retry_after: Option<Duration>,
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Failure {
        Failure {
            reason: error.to_string(),
            retry_after: None,
        }
    }
}

impl Failure {
    /// An answer that is none: the server's own trouble, or too many questions.
    pub(super) fn of(answer: &Answer) -> Option<Failure> {
        let status = answer.status;
        let is_failure = status.is_server_error()
            || matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
            );
        is_failure.then(|| Failure {
            reason: format!("it answered {}", status.as_u16()),
            retry_after: answer
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.trim().parse().ok())
                .map(Duration::from_secs),
        })
    }
}

/// Asks what has to be known.
pub(super) async fn greet(client: &IndexClient) -> Result<Greeting, Failure> {
    let description = client.get(".well-known/mcp-index.json", MAX_ANSWER).await?;
    let version = version(&description)?;
    let own = match client.has_key() {
        true => own_key(&client.get("api/v1/fingerprint-key", MAX_ANSWER).await?)?,
        false => None,
    };
    Ok(Greeting {
        version,
        is_own: own.is_some(),
        key: own.unwrap_or_else(FingerprintKey::public),
    })
}

/// An index of ours says which versions it takes, or that it takes none; any other takes the published one.
fn version(description: &Answer) -> Result<Option<Version>, Failure> {
    if let Some(failure) = Failure::of(description) {
        return Err(failure);
    }
    if description.status.is_redirection() {
        return Err(Failure {
            reason: "it answers with a redirect, which is not followed: use the address that it leads to"
                .to_owned(),
            retry_after: None,
        });
    }
    let body: Option<Value> = description
        .status
        .is_success()
        .then(|| description.json())
        .flatten();
    let Some(signals) = body.as_ref().and_then(|body| body.get("signals")) else {
        return Ok(Some(Version::One));
    };
    let takes = |number: u64| {
        let versions = signals.get("versions").and_then(Value::as_array);
        versions.is_some_and(|versions| versions.iter().any(|version| version.as_u64() == Some(number)))
    };
    Ok(match (takes(2), takes(1)) {
        (true, _) => Some(Version::Two),
        (false, true) => Some(Version::One),
        (false, false) => None,
    })
}

/// The organisation's key; `None` where there is none, or none for us.
fn own_key(answer: &Answer) -> Result<Option<FingerprintKey>, Failure> {
    let none = [
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::GONE,
        StatusCode::FORBIDDEN,
    ];
    if none.contains(&answer.status) {
        return Ok(None);
    }
    if let Some(failure) = Failure::of(answer) {
        return Err(failure);
    }
    let failed = |reason: &str| Failure {
        reason: reason.to_owned(),
        retry_after: None,
    };
    if answer.status == StatusCode::UNAUTHORIZED {
        return Err(failed(
            "it does not know our key: `mcpindex login` gets a new one",
        ));
    }
    let body: Option<Value> = answer.status.is_success().then(|| answer.json()).flatten();
    let key = body.as_ref().and_then(|body| body.get("key")?.as_str());
    let bytes = key.and_then(bytes_of_hex);
    let bytes = bytes.ok_or_else(|| failed("its answer about its fingerprint key can't be read"))?;
    Ok(Some(FingerprintKey::new(&bytes)))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn version_2_is_for_an_index_that_names_it() {
        let check = |status, body: &str, expected: Result<Option<u8>, &str>| {
            let found = version(&answer(status, body));
            let found = found.map(|version| version.map(Version::number));
            assert_eq!(
                found
                    .map_err(|failure| failure.reason)
                    .as_ref()
                    .map_err(String::as_str),
                expected.as_ref().map_err(|reason| *reason),
                "{body}"
            );
        };
        check(200, r#"{"signals":{"versions":[1,2]}}"#, Ok(Some(2)));
        check(200, r#"{"signals":{"versions":[1]}}"#, Ok(Some(1)));
        check(200, r#"{"signals":{"versions":[3]}}"#, Ok(None));
        check(200, r#"{"signals":null}"#, Ok(None));
        check(200, r#"{"name":"mcpindex","drift_gate":{}}"#, Ok(Some(1)));
        check(200, "<html>", Ok(Some(1)));
        check(404, "", Ok(Some(1)));
        check(503, "", Err("it answered 503"));
        check(
            301,
            "",
            Err("it answers with a redirect, which is not followed: use the address that it leads to"),
        );
    }

    #[test]
    fn an_index_that_could_not_be_asked_has_not_said_that_it_has_no_key() {
        let check = |status, body: &str, expected: Result<bool, &str>| {
            let found = own_key(&answer(status, body)).map(|key| key.is_some());
            assert_eq!(
                found.as_ref().map_err(|failure| failure.reason.as_str()),
                expected.as_ref().map_err(|reason| *reason),
                "{status} {body}"
            );
        };
        check(200, &format!(r#"{{"key":"{}"}}"#, "0f".repeat(32)), Ok(true));
        check(404, "", Ok(false));
        check(403, "", Ok(false));
        check(
            200,
            r#"{"key":"00"}"#,
            Err("its answer about its fingerprint key can't be read"),
        );
        check(
            401,
            "",
            Err("it does not know our key: `mcpindex login` gets a new one"),
        );
        check(500, "", Err("it answered 500"));
        check(302, "", Err("its answer about its fingerprint key can't be read"));
    }

    #[test]
    fn a_busy_index_says_when_it_may_be_asked_again() {
        let mut busy = answer(429, "");
        busy.headers.insert(RETRY_AFTER, HeaderValue::from_static("60"));
        let failure = Failure::of(&busy).unwrap();
        assert_eq!(failure.retry_after, Some(Duration::from_secs(60)));
        assert_eq!(Failure::of(&answer(404, "")), None);
    }
}
