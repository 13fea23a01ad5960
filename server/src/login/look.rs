//! What `doctor` sees of a provider: whether it answers, whether it is who the settings say, and whether its clock is ours.
//!
//! Invariant: it asks what a sign-in asks before anybody has signed in, and nothing more: no client id and no secret leaves.

use std::time::Duration;

use mcpindex::wire::http::HttpError;
use oauth2::HttpResponse;
use reqwest::header::{AGE, DATE, HeaderName};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use url::Url;

use super::github::Github;
use super::oidc::{Oidc, SKEW};
use super::outgoing::{Outgoing, OutgoingError};
use super::{Login, Provider};

/// For all that is asked of one provider.
const LOOK_TIME: Duration = Duration::from_secs(6);

/// What is known of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `github`, `google` or `oidc`.
    pub name: &'static str,
    /// What is there, or what is wrong and what to do.
    pub found: Found,
}

/// See [`Seen`]. Each text is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing is wrong.
    Well(String),
    /// People may be refused.
    Doubtful(String),
    /// Nobody can sign in with it.
    Wrong(String),
}

impl Login {
    /// Asks each provider, one after the other; not the sign-in of this machine alone. `now` is in unix seconds.
    pub async fn look(&self, now: i64) -> Vec<Seen> {
        let mut seen = Vec::new();
        let Some(out) = &self.out else {
            return seen;
        };
        for provider in &self.providers {
            let look = async {
                match provider {
                    Provider::Github(github) => Some(github_seen(github, out, now).await),
                    Provider::Google(oidc) | Provider::Oidc(oidc) => Some(oidc_seen(oidc, out, now).await),
                    Provider::Dev => None,
                }
            };
            let found = tokio::time::timeout(LOOK_TIME, look).await;
            let late = || {
                Found::Wrong(format!(
                    "{} doesn't answer within {} s; check its address, and the firewall between",
                    provider.label(),
                    LOOK_TIME.as_secs()
                ))
            };
            let found = found.unwrap_or_else(|_| Some(late()));
            let name = provider.named().name();
            seen.extend(found.map(|found| Seen { name, found }));
        }
        seen
    }
}

async fn oidc_seen(oidc: &Oidc, out: &Outgoing, now: i64) -> Found {
    let url = match oidc.configuration() {
        Ok(url) => url,
        Err(error) => return Found::Wrong(error.to_string()),
    };
    let answer = match out.get(&url).await {
        Ok(answer) => answer,
        Err(error) => return not_reached(&url, &error),
    };
    match answer.status().as_u16() {
        200 => {}
        status @ 500.. => {
            return Found::Wrong(format!("{url} answers with HTTP {status}; it is down, try later"));
        }
        status => {
            return Found::Wrong(format!(
                "{url} answers with HTTP {status}; the issuer in the settings is the address before `/.well-known`, to the letter"
            ));
        }
    }
    if let Err(error) = oidc.ask(out).await {
        return Found::Wrong(format!(
            "{error}; mend the issuer in the settings, or the provider"
        ));
    }
    let issuer = &oidc.issuer;
    skewed(&answer, now).unwrap_or_else(|| {
        Found::Well(format!(
            "`{issuer}` is reachable, is that issuer, and publishes its keys"
        ))
    })
}

/// Its pages, which browsers are sent to, and its API, which this server asks.
async fn github_seen(github: &Github, out: &Outgoing, now: i64) -> Found {
    let mut answers = Vec::new();
    for (url, setting) in [(&github.url, "url"), (&github.api, "api_url")] {
        let answer = match out.get(url).await {
            Ok(answer) => answer,
            Err(error) => return not_reached(url, &error),
        };
        match answer.status().as_u16() {
            status @ 500.. => {
                return Found::Wrong(format!("{url} answers with HTTP {status}; it is down, try later"));
            }
            404 => {
                return Found::Wrong(format!(
                    "{url} answers with HTTP 404, so there is no GitHub; check [github] {setting}"
                ));
            }
            _ => answers.push(answer),
        }
    }
    let skewed = answers.iter().find_map(|answer| skewed(answer, now));
    skewed.unwrap_or_else(|| Found::Well(format!("{} and {} are reachable", github.url, github.api)))
}

fn not_reached(url: &Url, error: &OutgoingError) -> Found {
    let way = match error {
        OutgoingError::Http(HttpError::Tls { .. }) => {
            "check the address, and that this machine trusts whoever issued the certificate"
        }
        OutgoingError::Http(HttpError::Blocked { .. }) => {
            "only the addresses in the settings may be inside a network; see [crawl] allow_networks"
        }
        OutgoingError::Http(HttpError::Unreachable { reason }) if reason.starts_with("TLS") => {
            "check the scheme and the port of the address: what answers there speaks no TLS, or none that is known here"
        }
        OutgoingError::Http(HttpError::Unreachable { .. } | HttpError::TimedOut) => {
            "check the address, this machine's name service, and the firewall between"
        }
        OutgoingError::Http(HttpError::OverLimit { .. } | HttpError::NotFollowed { .. })
        | OutgoingError::Unreadable(_)
        | OutgoingError::Status(_) => "check the address",
    };
    Found::Wrong(format!("{url}: {error}; {way}"))
}

/// Whether its clock and ours differ by more than a sign-in bears. `None`: no, or it doesn't tell.
fn skewed(answer: &HttpResponse, now: i64) -> Option<Found> {
    let header = |name: HeaderName| answer.headers().get(name)?.to_str().ok();
    let date = OffsetDateTime::parse(header(DATE)?, &Rfc2822)
        .ok()?
        .unix_timestamp();
    // A cache may have kept the answer for so long.
    let age = header(AGE)
        .and_then(|age| age.trim().parse::<i64>().ok())
        .unwrap_or(0);
    let ahead = date.saturating_add(age.max(0)).saturating_sub(now);
    if ahead.saturating_abs() <= SKEW {
        return None;
    }
    let which = if ahead > 0 { "behind" } else { "ahead of" };
    Some(Found::Doubtful(format!(
        "reachable, but this machine's clock is {} s {which} the provider's, and a sign-in bears {SKEW} s; set the clock of this \
         machine (NTP)",
        ahead.saturating_abs()
    )))
}
