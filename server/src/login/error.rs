//! Why somebody is not signed in, and the page that says so with a way on.
//!
//! Invariant: a page says whose turn it is (the person's, the administrator's, the provider's) and never what a token held.

use axum::http::StatusCode;
use mcpindex_store::StoreError;

use crate::problem::Problem;

/// The longest word of a provider that is shown, in letters.
const MAX_WORD: usize = 60;

/// Why a sign-in came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInError {
    /// This browser began no sign-in, or another one since.
    #[error("this browser has no sign-in under way that this answer belongs to")]
    NotBegun,
    /// It is over, or was answered before.
    #[error("this sign-in is over: it was answered before, or took more than 10 minutes")]
    Over,
    /// The answer lacks a code.
    #[error("the provider's answer has no code in it")]
    NoCode,
    /// The person said no at the provider.
    #[error("{provider} was not allowed to tell who you are")]
    Cancelled { provider: String },
    /// The provider refuses.
    #[error("{provider} refused the sign-in with `{word}`")]
    Refused { provider: String, word: String },
    /// The provider can't be reached or used.
    #[error("{provider} can't be used right now: {reason}")]
    Down { provider: String, reason: String },
    /// What the provider signed is not to be believed.
    #[error("what {provider} answered can't be believed: {reason}")]
    NotBelieved { provider: String, reason: String },
    /// The clocks differ.
    #[error("the clocks of this index and of {provider} differ too much: {reason}")]
    Clock { provider: String, reason: String },
    /// The settings let somebody else in.
    #[error("`{login}` of {provider} may not use this index: {lacking}")]
    NotAdmitted {
        provider: String,
        login: String,
        lacking: String,
    },
    /// An administrator disabled the account.
    #[error("the account `{login}` is disabled")]
    Disabled { login: String },
    /// Something failed here.
    #[error("{0}")]
    Internal(String),
    /// The database can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignInError {
    pub(crate) fn down(provider: &str, reason: &dyn std::fmt::Display) -> SignInError {
        SignInError::Down {
            provider: provider.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn not_believed(provider: &str, reason: impl Into<String>) -> SignInError {
        SignInError::NotBelieved {
            provider: provider.to_owned(),
            reason: reason.into(),
        }
    }

    /// Whether it is who signed in that can't come in here, and somebody else may.
    pub(crate) fn wants_another_account(&self) -> bool {
        matches!(
            self,
            SignInError::NotAdmitted { .. } | SignInError::Disabled { .. }
        )
    }

    /// The provider's own word for why, from a query or an answer.
    pub(crate) fn refused(provider: &str, word: &str) -> SignInError {
        let plain = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
        let provider = provider.to_owned();
        let word: String = word.chars().filter(plain).take(MAX_WORD).collect();
        match word.as_str() {
            "access_denied" => SignInError::Cancelled { provider },
            _ => SignInError::Refused { provider, word },
        }
    }
}

impl From<SignInError> for Problem {
    fn from(error: SignInError) -> Problem {
        let (status, kind, title, advice) = match &error {
            SignInError::Store(StoreError::Refused { .. }) => (
                StatusCode::BAD_GATEWAY,
                "provider-unusable",
                "What the provider tells can't be kept",
                "nobody was signed in; tell the administrator of this index",
            ),
            SignInError::Store(_) | SignInError::Internal(_) => {
                return match error {
                    SignInError::Store(error) => error.into(),
                    other => Problem::internal(&other),
                };
            }
            SignInError::NotBegun => (
                StatusCode::BAD_REQUEST,
                "sign-in-not-begun",
                "This sign-in was not begun here",
                "begin in this browser; where you did, cookies are off or another tab began one since",
            ),
            SignInError::Over | SignInError::NoCode => (
                StatusCode::BAD_REQUEST,
                "sign-in-over",
                "This sign-in is over",
                "begin again",
            ),
            SignInError::Cancelled { .. } => (
                StatusCode::FORBIDDEN,
                "sign-in-refused",
                "You are not signed in",
                "nothing was changed; sign in again when you want to",
            ),
            SignInError::Refused { .. } => (
                StatusCode::BAD_GATEWAY,
                "provider-refused",
                "The provider refused the sign-in",
                "try again; if it stays so, the client id, its secret or its callback address in the settings of this index \
                 may be wrong",
            ),
            SignInError::Down { .. } => (
                StatusCode::BAD_GATEWAY,
                "provider-down",
                "The provider can't be used right now",
                "try again in a moment, or sign in with another provider",
            ),
            SignInError::NotBelieved { .. } => (
                StatusCode::BAD_GATEWAY,
                "provider-not-believed",
                "The provider's answer can't be believed",
                "nobody was signed in; tell the administrator of this index",
            ),
            SignInError::Clock { .. } => (
                StatusCode::BAD_GATEWAY,
                "clock-skew",
                "The clocks differ",
                "nobody was signed in; the administrator of this index sets its clock right, then try again",
            ),
            SignInError::NotAdmitted { .. } => (
                StatusCode::FORBIDDEN,
                "not-admitted",
                "You may not use this index",
                "an administrator lets people in with `[login] allow`; or sign in with another account",
            ),
            SignInError::Disabled { .. } => (
                StatusCode::FORBIDDEN,
                "disabled",
                "This account is disabled",
                "an administrator of this index can enable it again",
            ),
        };
        tracing::warn!(cause = %error, "nobody was signed in");
        Problem::of_sign_in(status, kind, title, format!("{error}; {advice}"))
    }
}
