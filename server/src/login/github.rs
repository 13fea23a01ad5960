//! GitHub, or a GitHub of the organisation's own: plain OAuth 2, and its API for who it is.
//!
//! Invariant: somebody is their account's number, never its login or an e-mail address; no more is asked for than
//! `[login] allow` needs.

use serde::Deserialize;
use url::Url;

use super::admission::Person;
use super::error::SignInError;
use super::exchange::{self, Exchange, Registered};
use super::outgoing::{Outgoing, OutgoingError};
use super::secret::Secret;
use super::settings::Allow;
use crate::links;

/// GitHub by the settings.
#[derive(Debug)]
pub(crate) struct Github {
    pub(crate) client: Registered,
    /// With a slash at its end, as is the API's.
    pub(crate) url: Url,
    pub(crate) api: Url,
    /// Organisations whose members may sign in.
    pub(crate) organisations: Vec<String>,
    /// Whether somebody may sign in by an e-mail address or its domain.
    pub(crate) by_email: bool,
}

/// How people call it.
pub(crate) const LABEL: &str = "GitHub";

#[derive(Deserialize)]
struct User {
    id: i64,
    login: String,
}

#[derive(Deserialize)]
struct Email {
    email: String,
    verified: bool,
    #[serde(default)]
    primary: bool,
}

#[derive(Deserialize)]
struct Membership {
    state: String,
}

impl Github {
    pub(crate) fn new(
        client: Registered,
        url: Option<Url>,
        api: Option<Url>,
        allow: &[Allow],
    ) -> Result<Github, String> {
        let public = |text: &str| Url::parse(text).map_err(|error| error.to_string());
        let is_public = url.is_none();
        let url = url.map_or_else(|| public("https://github.com/"), Ok)?;
        let api = match api {
            Some(api) => api,
            None if is_public || url.host_str() == Some("github.com") => public("https://api.github.com/")?,
            None => join(&url, "api/v3/")?,
        };
        let organisation = |allow: &Allow| match allow {
            Allow::Organisation(name) => Some(name.clone()),
            _ => None,
        };
        Ok(Github {
            client,
            organisations: allow.iter().filter_map(organisation).collect(),
            by_email: allow
                .iter()
                .any(|allow| matches!(allow, Allow::Domain(_) | Allow::Email(_))),
            url,
            api,
        })
    }

    /// Whether it is the one where anybody has an account.
    pub(crate) fn is_public(&self) -> bool {
        self.url.host_str() == Some("github.com")
    }

    /// What its accounts are of.
    pub(crate) fn issuer(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    pub(crate) fn authorize_url(&self, redirect: &Url, secret: &Secret) -> Result<Url, SignInError> {
        let mut scopes = Vec::new();
        if !self.organisations.is_empty() {
            scopes.push("read:org");
        }
        if self.by_email {
            scopes.push("user:email");
        }
        let authorize = join(&self.url, "login/oauth/authorize").map_err(SignInError::Internal)?;
        exchange::authorize_url(&self.client, &authorize, redirect, &scopes, secret, None)
    }

    pub(crate) async fn person(
        &self,
        out: &Outgoing,
        redirect: &Url,
        code: &str,
        secret: &Secret,
    ) -> Result<Person, SignInError> {
        let token_url = join(&self.url, "login/oauth/access_token").map_err(SignInError::Internal)?;
        let exchange = Exchange {
            provider: LABEL,
            client: &self.client,
            token_url: &token_url,
            redirect,
            secret_in_body: true,
        };
        let token = exchange.tokens(out, code, secret).await?.access;
        let at = |path: &str| join(&self.api, path).map_err(SignInError::Internal);
        let down = |error: OutgoingError| SignInError::down(LABEL, &error);
        let user: User = out.json(&at("user")?, Some(&token)).await.map_err(down)?;
        let mut emails = Vec::new();
        if self.by_email {
            let mut all: Vec<Email> = out.json(&at("user/emails")?, Some(&token)).await.map_err(down)?;
            all.sort_by_key(|email| !email.primary);
            emails.extend(
                all.into_iter()
                    .filter(|email| email.verified)
                    .map(|email| email.email),
            );
        }
        let mut organisations = Vec::new();
        for name in &self.organisations {
            let path = format!("user/memberships/orgs/{}", links::segment(name));
            match out.json::<Membership>(&at(&path)?, Some(&token)).await {
                Ok(membership) if membership.state == "active" => organisations.push(name.clone()),
                // Invited only; not a member; or the organisation lets no foreign application see its members.
                Ok(_) | Err(OutgoingError::Status(403 | 404)) => {}
                Err(error) => return Err(down(error)),
            }
        }
        Ok(Person {
            issuer: self.issuer(),
            subject: user.id.to_string(),
            login: user.login,
            domains: Person::domains_of(&emails),
            emails,
            organisations,
        })
    }
}

fn join(base: &Url, path: &str) -> Result<Url, String> {
    base.join(path).map_err(|error| error.to_string())
}
