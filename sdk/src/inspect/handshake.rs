//! Finding out which of the protocol's two lives a server leads, and what it says of itself.
//!
//! `initialize` goes first, on both transports, and `server/discover` is tried when it was refused. The
//! specification's own probe is the other way round; three reasons stand against it here. Nearly every server of today
//! speaks the older protocol, and some hang or end on a first request they don't know. A probe that falls back on
//! silence makes the era a matter of the machine's load, and a server that speaks both may list differently in each: the
//! same server would drift with nothing changed. And a host that opens with `initialize`, as nearly all do, is shown what
//! we are shown. A server of 2026-07-28 alone must refuse `initialize`, so it is not missed; when its process ends over
//! that refusal (rmcp's does), it is started once more and asked to discover first. Silence is no refusal: a slow start has
//! the whole time. A process that ends without an answer is not started again: its stderr says why better than a second
//! try would.
//!
//! Invariant: a version that we don't speak is a failure, never a guess.

use tokio::time::Instant;

use crate::wire::error::WireError;
use crate::wire::limits::Limits;
use crate::wire::message::{elements, members, string};
use crate::wire::read_only::{Ask, Era, MODERN, NEWEST_LEGACY, ReadOnly};

use super::redact::Redactor;

/// What a server says of itself; JSON texts as sent.
pub(super) struct Hello {
    pub(super) version: String,
    pub(super) capabilities: Option<String>,
    pub(super) server_info: Option<String>,
    pub(super) instructions: Option<String>,
}

/// Shakes hands; afterwards lists may be asked for.
pub(super) async fn handshake(
    wire: &mut ReadOnly<'_>,
    limits: &Limits,
    redactor: &Redactor,
) -> Result<Hello, WireError> {
    let deadline = Instant::now() + limits.handshake;
    let refused = match wire.ask(Ask::Initialize, deadline).await {
        Ok(result) => match initialized(&redactor.json(within(result, limits)?)) {
            Ok(hello) => {
                wire.settle(Era::Legacy, &hello.version, deadline).await?;
                return Ok(hello);
            }
            Err(reason) => WireError::NotMcp { reason },
        },
        Err(error) => error,
    };
    if !matches!(refused, WireError::Refused { .. } | WireError::NotMcp { .. }) {
        return Err(refused);
    }
    let probe = deadline.min(Instant::now() + limits.era_probe);
    let mut discovery = wire.ask(Ask::Discover, probe).await;
    if let (WireError::Refused { .. }, Err(WireError::Ended { .. })) = (&refused, &discovery) {
        wire.restart().await?;
        discovery = wire.ask(Ask::Discover, deadline).await;
    }
    match discovery {
        Ok(result) => {
            let hello = discovered(&redactor.json(within(result, limits)?))
                .map_err(|reason| WireError::NotMcp { reason })?;
            wire.settle(Era::Modern, &hello.version, deadline).await?;
            Ok(hello)
        }
        // A sign-in may be asked of the second request alone.
        Err(error @ WireError::AuthRequired { .. }) => Err(error),
        // The first refusal says more than that of a method which most servers never heard of.
        Err(_) => Err(refused),
    }
}

fn within(result: String, limits: &Limits) -> Result<String, WireError> {
    match result.len() <= limits.hello_bytes {
        true => Ok(result),
        false => Err(WireError::OverLimit {
            what: "bytes in the answer to the handshake",
            limit: limits.hello_bytes,
        }),
    }
}

fn initialized(result: &str) -> Result<Hello, String> {
    let [version, capabilities, server_info, instructions] = members(
        result,
        ["protocolVersion", "capabilities", "serverInfo", "instructions"],
    )
    .map_err(|error| format!("the answer to `initialize` can't be used: {error}"))?;
    let version = version
        .and_then(string)
        .ok_or("the answer to `initialize` names no protocol version")?;
    if !is_date(&version) || *version > *NEWEST_LEGACY {
        return Err("the answer to `initialize` names a protocol version that is unknown".to_owned());
    }
    Ok(Hello {
        version: version.into_owned(),
        capabilities: capabilities.map(str::to_owned),
        server_info: server_info.map(str::to_owned),
        instructions: instructions.map(str::to_owned),
    })
}

fn discovered(result: &str) -> Result<Hello, String> {
    let unfit = |error| format!("the answer to `server/discover` can't be used: {error}");
    let [versions, capabilities, instructions, meta] = members(
        result,
        ["supportedVersions", "capabilities", "instructions", "_meta"],
    )
    .map_err(unfit)?;
    let spoken = versions
        .and_then(|versions| elements(versions, 100))
        .is_some_and(|versions| {
            versions
                .texts
                .iter()
                .any(|version| string(version).as_deref() == Some(MODERN))
        });
    if !spoken {
        return Err(format!("the answer to `server/discover` doesn't offer {MODERN}"));
    }
    let server_info = match meta {
        Some(meta) => members(meta, ["io.modelcontextprotocol/serverInfo"]).map_err(unfit)?[0],
        None => None,
    };
    Ok(Hello {
        version: MODERN.to_owned(),
        capabilities: capabilities.map(str::to_owned),
        server_info: server_info.map(str::to_owned),
        instructions: instructions.map(str::to_owned),
    })
}

/// `YYYY-MM-DD`: protocol versions compare as text.
fn is_date(version: &str) -> bool {
    version.len() == 10
        && version.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_up_to_the_one_offered_is_spoken() {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let hello = initialized(&format!(r#"{{"protocolVersion":"{version}"}}"#)).ok();
            assert_eq!(hello.map(|hello| hello.version).as_deref(), Some(version));
        }
    }

    #[test]
    fn any_other_version_is_no_guess() {
        for result in [
            r#"{"protocolVersion":"2026-07-28"}"#,
            r#"{"protocolVersion":"1.0"}"#,
            r#"{"protocolVersion":3}"#,
            "{}",
            "[]",
            r#"{"protocolVersion":"2025-06-18","protocolVersion":"2025-06-18"}"#,
        ] {
            assert!(initialized(result).is_err(), "{result}");
        }
        assert!(discovered(r#"{"supportedVersions":["2027-01-01"]}"#).is_err());
    }
}
