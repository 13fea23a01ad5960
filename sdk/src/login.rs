//! How a person gets a key of an index onto this machine: through a browser here ([`loopback`]), or through one anywhere
//! ([`device`]). Both show people codes ([`code`]).
//!
//! The browser's way is RFC 8252 with PKCE (RFC 7636): the address that is opened holds no secret, the answer at the loopback
//! address holds a code that is good once and only together with the verifier, which never leaves this process but for the index.
//!
//! Invariant: a key is in the body of one answer of the index, over TLS or on this machine, and in no address.

pub mod code;
pub mod device;
pub mod loopback;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use crate::index::{Answer, Base, Granted, IndexClient, IndexError, KeyError, read_key};
use crate::login::loopback::LoopbackError;

/// An answer with a key is a few hundred bytes.
const ANSWER_BYTES: usize = 64 << 10;

/// Why nobody is signed in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    NoRandomness(String),
    /// The browser's answer did not come, or was not for us.
    #[error(transparent)]
    Loopback(#[from] LoopbackError),
    /// The person, or the index, said no.
    #[error("the sign-in was refused: {reason}")]
    Refused {
        /// The index's words.
        reason: String,
    },
    /// The code is good no more.
    #[error("{base} does not take the code of this sign-in ({reason}): sign in again")]
    Code {
        /// The index.
        base: Base,
        /// The index's words.
        reason: String,
    },
    /// Device sign-in is not offered.
    #[error("{base} offers no sign-in by device: sign in with a browser, or with `--with-token`")]
    NoDevice {
        /// The index.
        base: Base,
    },
    /// Nobody allowed it in time.
    #[error("nobody allowed it in time: sign in again")]
    Expired,
    /// Too many at once.
    #[error("{base} asks to wait: try again{after}")]
    TryLater {
        /// The index.
        base: Base,
        /// ` in 60 s`, where it says so.
        after: String,
    },
    /// An answer that no index gives.
    #[error("{base} is no index, or not one that signs people in: {what} was answered with {how}")]
    NoIndex {
        /// The address.
        base: Base,
        /// The path that was asked.
        what: &'static str,
        /// The status, or what is wrong with the body.
        how: Box<str>,
    },
    /// A key that can't be one.
    #[error("{base} gave a key that is none: {why}")]
    Key {
        /// The index.
        base: Base,
        /// What is wrong with it.
        why: KeyError,
    },
    /// It can't be asked.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// One sign-in through a browser: what it will be recognised by.
#[derive(Debug)]
pub struct Attempt {
    verifier: SecretString,
    state: String,
}

impl Attempt {
    /// A fresh one.
    pub fn new() -> Result<Attempt, LoginError> {
        Ok(Attempt {
            verifier: random::<32>()?.into(),
            state: random::<16>()?,
        })
    }

    /// By which an answer of the browser is known to be of this attempt.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// The verifier's hash, as PKCE's `S256` has it.
    pub fn challenge(&self) -> String {
        challenge_of(self.verifier.expose_secret())
    }

    /// What the page that asks for consent shows too, so that a person can tell their own sign-in from another's.
    pub fn short_code(&self) -> String {
        code::of_challenge(&self.challenge())
    }

    /// What the browser is to open. `name` is this machine's, for the key's owner to know it by.
    pub fn address(
        &self,
        base: &Base,
        listener: &loopback::Loopback,
        name: &str,
        provider: Option<&str>,
    ) -> Url {
        let mut url = base.at("cli/login");
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("port", &listener.port().to_string())
                .append_pair("challenge", &self.challenge())
                .append_pair("state", &self.state)
                .append_pair("name", name);
            if listener.is_v6() {
                query.append_pair("v6", "1");
            }
            if let Some(provider) = provider {
                query.append_pair("provider", provider);
            }
        }
        url
    }

    /// Gives the code back for the key. `client` holds no key.
    pub async fn redeem(&self, client: &IndexClient, code: &SecretString) -> Result<Granted, LoginError> {
        #[derive(Serialize)]
        struct Question<'q> {
            code: &'q str,
            code_verifier: &'q str,
        }
        let question = Question {
            code: code.expose_secret(),
            code_verifier: self.verifier.expose_secret(),
        };
        let what = "api/v1/cli/token";
        let answer = client.post(what, &question, ANSWER_BYTES).await?;
        match answer.status {
            StatusCode::OK => granted(client.base(), what, &answer),
            StatusCode::BAD_REQUEST => Err(LoginError::Code {
                base: client.base().clone(),
                reason: reason(&answer).unwrap_or_else(|| "it gives no reason".to_owned()),
            }),
            _ => Err(unexpected(client.base(), what, &answer)),
        }
    }
}

/// The challenge that a verifier answers: its hash, as PKCE's `S256` has it (RFC 7636).
pub fn challenge_of(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// `bytes` random bytes as base64url.
fn random<const BYTES: usize>() -> Result<String, LoginError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| LoginError::NoRandomness(error.to_string()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The key in an answer of the index.
fn granted(base: &Base, what: &'static str, answer: &Answer) -> Result<Granted, LoginError> {
    #[derive(Deserialize)]
    struct Given {
        key: String,
        key_id: Option<String>,
        login: Option<String>,
        expires_at: Option<String>,
    }
    let given: Given = answer.json().ok_or_else(|| LoginError::NoIndex {
        base: base.clone(),
        what,
        how: "something that holds no key".into(),
    })?;
    let key = read_key(&given.key).map_err(|why| LoginError::Key {
        base: base.clone(),
        why,
    })?;
    Ok(Granted {
        key,
        key_id: given.key_id,
        login: given.login,
        expires_at: given.expires_at,
        is_own: true,
    })
}

fn unexpected(base: &Base, what: &'static str, answer: &Answer) -> LoginError {
    let base = base.clone();
    match answer.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => LoginError::TryLater {
            base,
            after: answer
                .retry_after()
                .map_or_else(String::new, |seconds| format!(" in {seconds} s")),
        },
        StatusCode::FORBIDDEN => LoginError::Refused {
            reason: reason(answer).unwrap_or_else(|| "it gives no reason".to_owned()),
        },
        status => LoginError::NoIndex {
            base,
            what,
            how: status.to_string().into(),
        },
    }
}

/// What the index says of it, where it says something.
fn reason(answer: &Answer) -> Option<String> {
    answer.problem().map(|problem| problem.words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_rfc() {
        // RFC 7636, appendix B.
        let attempt = Attempt {
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into(),
            state: String::new(),
        };
        assert_eq!(attempt.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_eq!(attempt.short_code(), "PGQZ-HBBK");
    }

    #[test]
    fn no_two_attempts_are_alike_and_none_shows_its_secret() {
        let (one, other) = (Attempt::new().unwrap(), Attempt::new().unwrap());
        assert_ne!(one.challenge(), other.challenge());
        assert_ne!(one.state(), other.state());
        assert_eq!(one.verifier.expose_secret().len(), 43);
        assert_eq!(one.state().len(), 22);
        assert!(!format!("{one:?}").contains(one.verifier.expose_secret()));
    }
}
