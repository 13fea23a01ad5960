//! Sign-in with a browser on any machine (RFC 8628): this one shows a code, the person types it on the index's page, and this
//! one asks until it was allowed.
//!
//! Invariant: the index is asked no oftener than it wants, and no longer than the code is good.

use std::pin::pin;
use std::time::Duration;

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::index::{Answer, Base, Granted, IndexClient, IndexError};
use crate::login::{ANSWER_BYTES, LoginError, granted, unexpected};
use crate::visible::visible_within;

const START: &str = "api/v1/device/code";
const POLL: &str = "api/v1/device/token";

/// RFC 8628 §3.2, where the index names none.
const INTERVAL: u64 = 5;
/// RFC 8628 §3.5.
const SLOWER: Duration = Duration::from_secs(5);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Whatever the index says, nobody waits longer.
const MAX_WAIT: Duration = Duration::from_secs(30 * 60);

/// A sign-in that waits for a person somewhere.
#[derive(Debug)]
pub struct Device {
    device_code: SecretString,
    /// What the person types, `WDJB-MJHT`.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    good_for: Duration,
    interval: Duration,
}

impl Device {
    /// Begins one. `name` is this machine's, for the person to know it by; `client` holds no key.
    pub async fn start(client: &IndexClient, name: &str) -> Result<Device, LoginError> {
        #[derive(Serialize)]
        struct Question<'q> {
            name: &'q str,
        }
        let answer = client.post(START, &Question { name }, ANSWER_BYTES).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Err(LoginError::NoDevice {
                    base: client.base().clone(),
                });
            }
            _ => return Err(unexpected(client.base(), START, &answer)),
        }
        Device::read(&answer).ok_or_else(|| LoginError::NoIndex {
            base: client.base().clone(),
            what: START,
            how: "something that holds no code".into(),
        })
    }

    fn read(answer: &Answer) -> Option<Device> {
        #[derive(Deserialize)]
        struct Given {
            device_code: String,
            user_code: String,
            verification_uri: String,
            expires_in: u64,
            interval: Option<u64>,
        }
        let given: Given = answer.json()?;
        let interval = Duration::from_secs(given.interval.unwrap_or(INTERVAL).max(1));
        Some(Device {
            device_code: given.device_code.into(),
            user_code: given.user_code,
            verification_uri: given.verification_uri,
            good_for: Duration::from_secs(given.expires_in).min(MAX_WAIT),
            interval: interval.min(MAX_INTERVAL),
        })
    }

    /// How long the code is good.
    pub fn good_for(&self) -> Duration {
        self.good_for
    }

    /// Asks until a person allowed or refused it, or the code is good no more; `None` when `stop` came before. An index that does
    /// not answer is asked again. A question under way is not given up: a key that is in the answer would be lost.
    pub async fn wait(
        &self,
        client: &IndexClient,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Granted>, LoginError> {
        #[derive(Serialize)]
        struct Question<'q> {
            device_code: &'q str,
        }
        let question = Question {
            device_code: self.device_code.expose_secret(),
        };
        let mut stop = pin!(stop);
        let end = Instant::now() + self.good_for;
        let mut interval = self.interval;
        let mut unheard: Option<IndexError> = None;
        loop {
            let next = Instant::now() + interval;
            if next > end {
                // That it was not reached at last is why nobody knows.
                return Err(unheard.map_or(LoginError::Expired, LoginError::Index));
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = &mut stop => return Ok(None),
            }
            let step = match client.post(POLL, &question, ANSWER_BYTES).await {
                Ok(answer) => {
                    unheard = None;
                    step(client.base(), &answer)?
                }
                Err(error) => {
                    unheard = Some(error);
                    Step::Unheard
                }
            };
            interval = match step {
                Step::Granted(granted) => return Ok(Some(granted)),
                Step::Pending => interval,
                Step::Slower => (interval + SLOWER).min(MAX_INTERVAL),
                Step::Unheard => (interval * 2).min(MAX_INTERVAL),
            };
        }
    }
}

/// What an answer to a poll means for the next.
#[derive(Debug)]
enum Step {
    Granted(Granted),
    Pending,
    Slower,
    /// It is not known whether it was heard (RFC 8628 §3.5 asks to back off).
    Unheard,
}

fn step(base: &Base, answer: &Answer) -> Result<Step, LoginError> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    match answer.status {
        StatusCode::OK => return granted(base, POLL, answer).map(Step::Granted),
        StatusCode::TOO_MANY_REQUESTS => return Ok(Step::Slower),
        status if status.is_server_error() => return Ok(Step::Unheard),
        StatusCode::BAD_REQUEST => {}
        _ => return Err(unexpected(base, POLL, answer)),
    }
    let Some(refusal) = answer.json::<Refusal>() else {
        return Err(unexpected(base, POLL, answer));
    };
    match refusal.error.as_str() {
        "authorization_pending" => Ok(Step::Pending),
        "slow_down" => Ok(Step::Slower),
        "access_denied" => Err(LoginError::Refused {
            reason: "the person at the other browser did not allow it".to_owned(),
        }),
        "expired_token" => Err(LoginError::Expired),
        other => Err(LoginError::Refused {
            reason: visible_within(other, 100),
        }),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderMap;

    use super::*;

    #[test]
    fn each_answer_has_its_step() {
        let check = |status: u16, body: &str, expected: &str| {
            let base = Base::parse("https://index.example").unwrap();
            let answer = Answer {
                status: StatusCode::from_u16(status).unwrap(),
                headers: HeaderMap::new(),
                body: body.into(),
            };
            let found = match step(&base, &answer) {
                Ok(Step::Granted(granted)) => format!("granted to {}", granted.login.unwrap_or_default()),
                Ok(step) => format!("{step:?}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected);
        };
        check(400, r#"{"error":"authorization_pending"}"#, "Pending");
        check(400, r#"{"error":"slow_down"}"#, "Slower");
        check(429, "", "Slower");
        check(503, "", "Unheard");
        check(502, "<html>", "Unheard");
        check(
            400,
            r#"{"error":"access_denied"}"#,
            "the sign-in was refused: the person at the other browser did not allow it",
        );
        check(
            400,
            r#"{"error":"expired_token"}"#,
            "nobody allowed it in time: sign in again",
        );
        check(
            400,
            "{\"error\":\"\\u001b[31mnew\"}",
            r"the sign-in was refused: \u{1b}[31mnew",
        );
        let no_index = "https://index.example/ is no index, or not one that signs people in: api/v1/device/token was answered with";
        check(400, "no", &format!("{no_index} 400 Bad Request"));
        check(404, "", &format!("{no_index} 404 Not Found"));
        check(200, "{}", &format!("{no_index} something that holds no key"));
        check(
            200,
            r#"{"key":"mcpk_0123456789abcdefghijABCDEFGHIJ14qmBa","login":"ann"}"#,
            "granted to ann",
        );
        check(
            200,
            r#"{"key":"mcpk_0123456789abcdefghijABCDEFGHIJ14qmBb","login":"ann"}"#,
            "https://index.example/ gave a key that is none: the key's checksum is wrong: a character of it was changed or left out",
        );
    }
}
