//! An index as this machine's programs ask it: which one, with which key, and one client that asks.
//!
//! There is no index by default: without `MCPINDEX_WEB_BASE` and without a sign-in, [`chosen`] gives none and nothing is ever
//! sent anywhere.
//!
//! Invariant: a key is sent to the index that gave it and to no other, never over plain HTTP to another machine, and no
//! redirect is followed.

mod base;
mod client;
mod credentials;
pub mod key;

use secrecy::{ExposeSecret, SecretString};

use crate::state::StateDirectory;
use crate::wire::http::HttpError;

pub use base::{Base, is_loopback};
pub use client::{Answer, IndexClient, MAX_ANSWER_BYTES, Problem};
pub use credentials::{Credentials, CredentialsError, Granted};
pub use key::{KeyError, read_key};

/// Names the index; before the default one of a sign-in.
pub const BASE_VARIABLE: &str = "MCPINDEX_WEB_BASE";
/// The key, where no sign-in has stored one or another is meant.
pub const KEY_VARIABLE: &str = "MCPINDEX_API_KEY";

/// An index that was chosen, and the key for it where there is one.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Which index.
    pub base: Base,
    /// The key for it. Its `Debug` shows nothing of it.
    pub key: Option<SecretString>,
}

/// What the environment says about the index. An empty variable counts as none.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// `MCPINDEX_WEB_BASE`.
    pub base: Option<String>,
    /// `MCPINDEX_API_KEY`.
    pub key: Option<SecretString>,
}

impl Variables {
    /// This process's. What is no Unicode counts as unusable text, not as none.
    pub fn from_environment() -> Variables {
        let variable = |name| {
            let value = std::env::var_os(name)?;
            let text = value.to_string_lossy().trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        Variables {
            base: variable(BASE_VARIABLE),
            key: variable(KEY_VARIABLE).map(SecretString::from),
        }
    }
}

/// Why an index can't be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The text names no index.
    #[error("`{text}` is no address of an index: {why}")]
    NoBase {
        /// As given, without user info.
        text: String,
        /// What is wrong, and what is meant.
        why: &'static str,
    },
    /// `MCPINDEX_WEB_BASE` names no index.
    #[error("MCPINDEX_WEB_BASE: {0}")]
    BaseVariable(#[source] Box<IndexError>),
    /// `MCPINDEX_API_KEY` holds no key.
    #[error("MCPINDEX_API_KEY: {0}")]
    KeyVariable(#[source] KeyError),
    /// The key would cross a network unprotected.
    #[error("{base} would get the key over plain HTTP, where others can read it: use its https:// address")]
    PlainHttp {
        /// The index.
        base: Base,
    },
    /// What sign-ins have stored can't be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The HTTP client can't be set up.
    #[error("the HTTP client could not be set up: {reason}")]
    Client {
        /// One line.
        reason: String,
    },
    /// What was to be sent is no JSON: a fault of the caller.
    #[error("the question to {base} could not be written: {reason}")]
    Question {
        /// The index.
        base: Base,
        /// One line.
        reason: String,
    },
    /// No answer, or not in time, or more than was admitted.
    #[error("{base} gave no usable answer: {source}")]
    NoAnswer {
        /// The index.
        base: Base,
        /// Why.
        source: HttpError,
    },
}

/// The index that this machine's programs ask, and its key: `MCPINDEX_WEB_BASE`, else the default index of a sign-in;
/// `MCPINDEX_API_KEY`, else the key that this very index gave. `None`: there is no index, and nothing may be sent.
pub fn chosen(state: &StateDirectory, variables: &Variables) -> Result<Option<Chosen>, IndexError> {
    let named = variables.base.as_deref().map(Base::parse).transpose();
    let named = named.map_err(|error| IndexError::BaseVariable(Box::new(error)))?;
    let given = variables
        .key
        .as_ref()
        .map(|key| read_key(key.expose_secret()))
        .transpose()
        .map_err(IndexError::KeyVariable)?;
    if let (Some(base), Some(key)) = (&named, &given) {
        // Nothing that is stored is needed.
        return Ok(Some(Chosen {
            base: base.clone(),
            key: Some(key.clone()),
        }));
    }
    let credentials = Credentials::load(state)?;
    Ok(named.or_else(|| credentials.default_base()).map(|base| Chosen {
        key: given.or_else(|| credentials.key(&base)),
        base,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "mcpk_000000000000000000000000000000000000";

    fn check(state: &StateDirectory, base: Option<&str>, key: Option<&str>, expected: &str) {
        let variables = Variables {
            base: base.map(str::to_owned),
            key: key.map(SecretString::from),
        };
        let found = match chosen(state, &variables) {
            Err(error) => error.to_string(),
            Ok(None) => "none".to_owned(),
            Ok(Some(chosen)) => match chosen.key {
                None => chosen.base.to_string(),
                Some(key) => format!("{} {}", chosen.base, key.expose_secret()),
            },
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn there_is_no_index_until_one_is_named_or_signed_in_to() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let good = key::with_checksum("mcpk_EnvironmentEnvironmentEnvironm".to_owned());
        check(&state, None, None, "none");
        check(&state, None, Some(&good), "none");
        check(&state, Some("https://a.example"), None, "https://a.example/");
        let a = Base::parse("https://a.example").unwrap();
        let granted = Granted::of_key(SecretString::from("mcpk_of-a"));
        Credentials::update(&state, |stored| stored.remember(&a, granted, false)).unwrap();
        check(&state, None, None, "https://a.example/ mcpk_of-a");
        check(
            &state,
            Some("https://A.example/"),
            None,
            "https://a.example/ mcpk_of-a",
        );
        // Another index gets nothing of it.
        check(&state, Some("https://b.example/"), None, "https://b.example/");
        check(&state, Some("https://a.example/b"), None, "https://a.example/b/");
        check(
            &state,
            Some("https://b.example/"),
            Some(&good),
            &format!("https://b.example/ {good}"),
        );
        check(&state, None, Some(&good), &format!("https://a.example/ {good}"));
    }

    #[test]
    fn what_can_not_be_used_is_named_with_its_variable() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        check(
            &state,
            Some("index.example"),
            None,
            "MCPINDEX_WEB_BASE: `index.example` is no address of an index: it begins with https://, or with http:// on this machine",
        );
        check(
            &state,
            None,
            Some(KEY),
            "MCPINDEX_API_KEY: the key's checksum is wrong: a character of it was changed or left out",
        );
    }

    #[test]
    fn a_broken_store_does_not_matter_where_nothing_of_it_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(directory.path());
        let path = directory.path().join("credentials.json");
        crate::state::write_atomically(&path, b"{").unwrap();
        let good = key::with_checksum("mcpk_EnvironmentEnvironmentEnvironm".to_owned());
        check(
            &state,
            Some("https://b.example/"),
            Some(&good),
            &format!("https://b.example/ {good}"),
        );
        let error = chosen(&state, &Variables::default()).unwrap_err();
        assert!(
            matches!(error, IndexError::Credentials(CredentialsError::NoJson { .. })),
            "{error}"
        );
    }
}
