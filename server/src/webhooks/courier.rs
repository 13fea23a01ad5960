//! One attempt at one delivery: what is sent, how long it may take, and what is made of the answer.
//!
//! Invariant: nothing goes out but through the guarded client, no redirect is followed, no answer is read for longer or for more
//! than is needed; what is written down of a failure are our own words, never the receiver's and never a secret.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcpindex::clock::Clock;
use mcpindex::wire::http::{HttpClient, HttpError};
use mcpindex_contract::digest::Digest;
use mcpindex_store::Store;
use mcpindex_store::webhooks::{Claimed, Delivery, DeliveryLease, Ended, Finished, Form};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::{Method, Request, Response, StatusCode};
use url::Url;

use super::event::Told;
use super::issue::Github;
use super::key::KeyFile;
use super::target::Destination;
use super::{json, slack};

/// How we name ourselves.
pub(super) const NAME: &str = concat!("mcpindex-server/", env!("CARGO_PKG_VERSION"));
/// Seconds before its lease runs out in which an attempt has ended.
const BEFORE_LEASE_ENDS: i64 = 10;
/// What is read of an answer, so that its connection can be used again: bytes and time.
const MAX_ANSWER: usize = 16 * 1024;
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Seconds until the second attempt, three times as long after each, and at most.
const FIRST_PAUSE: i64 = 10;
const LONGEST_PAUSE: i64 = 6 * 3_600;
/// Seconds after which a delivery is given up.
const GIVEN_UP_AFTER: i64 = 3 * 86_400;

/// Makes deliveries.
pub(crate) struct Courier {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) client: Arc<dyn HttpClient>,
    pub(super) base: Url,
    pub(super) key: KeyFile,
    pub(super) secrets: Option<PathBuf>,
    pub(super) github: Option<Github>,
}

/// What came of an attempt that the receiver answered well.
pub(super) struct Arrived(pub(super) Option<u16>);

/// Why an attempt failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) status: Option<u16>,
    pub(super) words: String,
    pub(super) again: Again,
}

/// Whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// After the usual pause.
    Later,
    /// Not before so many seconds: the receiver asks for it.
    NotWithin(i64),
    /// The receiver says that it is gone for good, or there is nothing to tell any more.
    Never,
}

impl Failed {
    pub(super) fn new(words: impl Into<String>) -> Failed {
        Failed {
            status: None,
            words: words.into(),
            again: Again::Later,
        }
    }

    pub(super) fn never(words: impl Into<String>) -> Failed {
        Failed {
            again: Again::Never,
            ..Failed::new(words)
        }
    }
}

impl From<HttpError> for Failed {
    fn from(error: HttpError) -> Failed {
        Failed::new(match error {
            HttpError::TimedOut => "the receiver did not answer in time".to_owned(),
            other => other.to_string(),
        })
    }
}

impl From<mcpindex_store::StoreError> for Failed {
    fn from(error: mcpindex_store::StoreError) -> Failed {
        if let mcpindex_store::StoreError::ChainBroken { flaw } = &error {
            return Failed::new(format!(
                "decisions are not told while their chain is broken: {flaw}"
            ));
        }
        tracing::error!(%error, "what a webhook tells could not be read");
        Failed::new("the index's own database could not be read")
    }
}

impl Courier {
    /// Makes an attempt and says what comes of it; the caller writes that down.
    pub(crate) async fn attempt(&self, claimed: &Claimed) -> Finished {
        let seconds = claimed.webhook.form.lease() - BEFORE_LEASE_ENDS;
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let arrived = tokio::time::timeout(limit, self.deliver(claimed))
            .await
            .unwrap_or_else(|_| Err(HttpError::TimedOut.into()));
        let now = self.clock.unix_seconds();
        judged(&claimed.delivery, claimed.lease.clone(), arrived, now)
    }

    async fn deliver(&self, claimed: &Claimed) -> Result<Arrived, Failed> {
        let (delivery, webhook) = (&claimed.delivery, &claimed.webhook);
        let told = Told::read(&self.store, delivery.event, self.clock.unix_seconds())
            .await?
            .ok_or_else(|| Failed::never("what happened is not in the index any more"))?;
        match webhook.form {
            Form::Json => {
                let body = json::body(
                    &told,
                    &self.base,
                    &webhook.id,
                    webhook.untrusted,
                    delivery.created_at,
                )
                .map_err(|error| Failed::new(format!("the delivery can't be written: {error}")))?;
                let key = self.key.key().map_err(Failed::new)?;
                if key.check() != webhook.key_check {
                    return Err(Failed::new(
                        "this server has another key than the one that the webhook's secret was derived from: give every replica the \
                         same [webhooks] key_file, or make the webhook anew",
                    ));
                }
                let timestamp = self.clock.unix_seconds();
                let signature = key.secret_of(&webhook.id).sign(&delivery.id, timestamp, &body);
                let mut request = self.post(&webhook.destination, body)?;
                let mut header = |name: &'static str, value: &str| {
                    let value =
                        HeaderValue::from_str(value).map_err(|_| Failed::new("a header can't be written"))?;
                    request.headers_mut().insert(HeaderName::from_static(name), value);
                    Ok::<(), Failed>(())
                };
                header("webhook-id", &delivery.id)?;
                header("webhook-timestamp", &timestamp.to_string())?;
                header("webhook-signature", &signature)?;
                self.sent(request).await
            }
            Form::Slack => {
                let request = self.post(&webhook.destination, slack::body(&told, &self.base))?;
                self.sent(request).await
            }
            Form::GithubIssue => {
                let github = self
                    .github
                    .as_ref()
                    .ok_or_else(|| Failed::new("[webhooks] github_token or github_token_file is not set"))?;
                github.deliver(self, claimed, &told).await
            }
        }
    }

    fn post(&self, destination: &str, body: String) -> Result<Request, Failed> {
        let destination = Destination::read(destination).map_err(Failed::new)?;
        let url = destination
            .with_secrets(self.secrets.as_deref())
            .map_err(Failed::new)?;
        let mut request = Request::new(Method::POST, url);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    async fn sent(&self, request: Request) -> Result<Arrived, Failed> {
        let mut response = self.client.send(request).await?;
        let status = response.status();
        let refused = refusal(&response);
        // The status says it all; what comes after it may come as slowly as it likes.
        let rest = async {
            let mut read = 0;
            while let Ok(Some(chunk)) = response.chunk().await {
                read += chunk.len();
                if read > MAX_ANSWER {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(ANSWER_TIME, rest).await;
        match refused {
            None => Ok(Arrived(Some(status.as_u16()))),
            Some(failed) => Err(failed),
        }
    }
}

/// Why this answer is no success; `None` when it is one.
pub(super) fn refusal(response: &Response) -> Option<Failed> {
    let status = response.status();
    if status.is_success() {
        return None;
    }
    let number = status.as_u16();
    let words = if status.is_redirection() {
        format!(
            "HTTP {number}: the address leads elsewhere, and no redirect is followed; give the webhook the address itself"
        )
    } else if status == StatusCode::GONE {
        format!("HTTP {number}: the receiver is gone for good")
    } else {
        format!("HTTP {number}")
    };
    let again = if status == StatusCode::GONE {
        Again::Never
    } else {
        let asked = response.headers().get(RETRY_AFTER);
        let asked = asked.and_then(|value| value.to_str().ok()?.trim().parse::<i64>().ok());
        match asked {
            Some(seconds) if seconds > 0 => Again::NotWithin(seconds.min(LONGEST_PAUSE)),
            _ => Again::Later,
        }
    };
    Some(Failed {
        status: Some(number),
        words,
        again,
    })
}

/// What comes after this attempt.
fn judged(delivery: &Delivery, lease: DeliveryLease, arrived: Result<Arrived, Failed>, now: i64) -> Finished {
    let failed = match arrived {
        Ok(Arrived(status)) => {
            return Finished {
                lease,
                ended: Ended::Delivered,
                status,
                error: None,
            };
        }
        Err(failed) => failed,
    };
    let pause = match failed.again {
        Again::Later | Again::Never => pause(delivery),
        Again::NotWithin(seconds) => pause(delivery).max(seconds),
    };
    let due = now.saturating_add(pause);
    let (ended, words) = if failed.again == Again::Never {
        (Ended::GaveUp, failed.words)
    } else if due - delivery.created_at > GIVEN_UP_AFTER {
        (Ended::GaveUp, format!("{}; given up after 3 days", failed.words))
    } else {
        (Ended::Again { due }, failed.words)
    };
    Finished {
        lease,
        ended,
        status: failed.status,
        error: Some(words),
    }
}

/// Seconds until the next attempt: longer each time, and up to a tenth more, by the delivery's id, so that what failed together is not
/// tried again together.
fn pause(delivery: &Delivery) -> i64 {
    let attempts = u32::try_from(delivery.attempts).unwrap_or(u32::MAX);
    let pause = FIRST_PAUSE
        .saturating_mul(3_i64.saturating_pow(attempts))
        .min(LONGEST_PAUSE);
    let hash = Digest::of_canonical(&format!("{}\n{attempts}", delivery.id)).hex();
    let share = hash
        .get(..4)
        .and_then(|hex| i64::from_str_radix(hex, 16).ok())
        .unwrap_or_default();
    (pause + pause * share / 0xffff / 10).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use mcpindex_store::webhooks::Event;

    use super::*;

    const LEASE: DeliveryLease = DeliveryLease { number: 1, epoch: 1 };

    fn delivery(attempts: i64) -> Delivery {
        Delivery {
            number: 1,
            id: "msg_0".to_owned(),
            webhook: "hook_0".to_owned(),
            event: Event::Test,
            created_at: 0,
            due: Some(0),
            under_way: true,
            attempts,
            attempted_at: None,
            status: None,
            error: None,
            outcome: None,
        }
    }

    #[test]
    fn pauses_grow_from_ten_seconds_to_six_hours_and_three_days_are_the_end() {
        let (mut now, mut attempts) = (0, 0);
        let mut pauses = Vec::new();
        let last = loop {
            let failed = Err(Failed::new("HTTP 500"));
            let finished = judged(&delivery(attempts), LEASE, failed, now);
            match finished.ended {
                Ended::Again { due } => {
                    pauses.push(due - now);
                    now = due;
                    attempts += 1;
                }
                Ended::GaveUp => break finished,
                Ended::Delivered => panic!("it failed"),
            }
        };
        assert!((10..=11).contains(&pauses[0]), "{pauses:?}");
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE));
        assert!((15..25).contains(&pauses.len()), "{pauses:?}");
        assert_eq!(last.error.as_deref(), Some("HTTP 500; given up after 3 days"));
        assert!(
            now <= GIVEN_UP_AFTER && now > GIVEN_UP_AFTER - LONGEST_PAUSE,
            "{now}"
        );
    }

    #[test]
    fn a_receiver_may_ask_for_more_time_and_may_be_gone() {
        let failed = |again| Failed {
            status: Some(503),
            words: "HTTP 503".to_owned(),
            again,
        };
        let ended = |again| judged(&delivery(0), LEASE, Err(failed(again)), 100).ended;
        assert_eq!(ended(Again::NotWithin(300)), Ended::Again { due: 400 });
        assert_eq!(ended(Again::Never), Ended::GaveUp);
    }
}
