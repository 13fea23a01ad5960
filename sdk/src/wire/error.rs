//! What can go wrong between a question and its answer.
//!
//! Invariant: every way to get no answer has a variant of its own, so that a failure is never taken for an empty answer.
//! Texts of the server inside are as sent: whoever shows them makes them visible first.

use std::time::Duration;

use crate::wire::http::HttpError;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The program could not be started at all.
    #[error("`{program}` could not be started: {reason}")]
    NotStarted {
        /// As given.
        program: String,
        /// `not found`, `permission denied`, …
        reason: String,
    },
    /// The server's end is closed: the process ended, or the answer's stream did.
    #[error("the connection ended before `{method}` was answered")]
    Ended {
        /// What was asked.
        method: &'static str,
    },
    /// No answer within the time allowed.
    #[error("no answer to `{method}` within {} s", tenths(*.within))]
    TimedOut {
        /// What was asked.
        method: &'static str,
        /// How long we waited.
        within: Duration,
    },
    /// What was sent came too slowly to be waited for.
    #[error("the answer came too slowly: fewer than {bytes} bytes in {} s", tenths(*.within))]
    TooSlow {
        /// What has to come at least.
        bytes: usize,
        /// In each such span of time.
        within: Duration,
    },
    /// The server sent more than allowed.
    #[error("more than {limit} {what}")]
    OverLimit {
        /// What there is too much of, in the plural.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A list leads back to a page that was read before.
    #[error("`{method}` gives a cursor that it gave before")]
    CursorLoop {
        /// The list.
        method: &'static str,
    },
    /// The server answered with an error.
    #[error("`{method}` was answered with {error}")]
    Refused {
        /// What was asked.
        method: &'static str,
        /// The server's error.
        error: ServerError,
    },
    /// An answer that can't be used: two results, no list where one was due, …
    #[error("the answer to `{method}` can't be used: {reason}")]
    Unusable {
        /// What was asked.
        method: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The server asks for a sign-in.
    #[error("HTTP {status}: a sign-in is needed")]
    AuthRequired {
        /// 401 or 403.
        status: u16,
    },
    /// There is something, but it does not speak MCP.
    #[error("no MCP server: {reason}")]
    NotMcp {
        /// What it did instead.
        reason: String,
    },
    /// The server is there and says that it can't answer now (HTTP 429, 5xx).
    #[error("HTTP {status}: the server can't answer now")]
    Unavailable {
        /// The status.
        status: u16,
        /// When it may be asked again, by its own word; at most a day.
        retry_after: Option<Duration>,
    },
    /// The HTTP request got no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// Seconds, to a tenth.
fn tenths(time: Duration) -> f32 {
    (time.as_secs_f32() * 10.0).round() / 10.0
}

/// A JSON-RPC error as the server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The code; `None` when it is no 64-bit integer.
    pub code: Option<i64>,
    /// The message; empty when it is no string.
    pub message: String,
    /// `data` as sent (JSON text).
    pub data: Option<String>,
}

impl ServerError {
    /// The method doesn't exist there (−32601).
    pub fn is_method_not_found(&self) -> bool {
        self.code == Some(-32601)
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(formatter, "error {code}: {}", self.message),
            None => write!(formatter, "an error without a code: {}", self.message),
        }
    }
}
