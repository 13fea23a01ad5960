//! The form `github-issue`: an issue for each drift, which is told when the drift goes on and closed when all of it is decided, or
//! when finer drifts have taken its place.
//!
//! What was opened is known by the store. Where a process ended between GitHub's answer and the store's, the fingerprint in the
//! issue's text, and a mark in each comment, keep the next attempt from telling it twice.
//!
//! Invariant: a server's words stand in code spans alone, in which GitHub reads no mention, link or markup; the token goes to
//! the API's own address and nowhere else.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use mcpindex::visible::visible_within;
use mcpindex::wire::http::HttpError;
use mcpindex_contract::approval::{DEFAULT_TENANT, Standing, State};
use mcpindex_contract::change::Subject;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::webhooks::{Claimed, Issue};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Request, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::Url;

use super::courier::{Again, Arrived, Courier, Failed, NAME, refusal};
use super::event::{Told, ToldDecision, ToldDrift};
use super::key::read_secret;
use super::target::repository;
use crate::when::rfc3339;

/// The public API.
const PUBLIC: &str = "https://api.github.com/";
const VERSION: HeaderName = HeaderName::from_static("x-github-api-version");
/// Issues, the newest first, among which one that was opened before is looked for: on a page, and pages.
const ON_PAGE: usize = 50;
const PAGES: usize = 4;
/// The most bytes of an answer: a page of issues, each of which may have 64 KiB of text.
const MAX_ANSWER: usize = 8 * 1024 * 1024;
/// Subjects that are named; more are counted.
const MOST_SUBJECTS: usize = 50;
/// Characters of a name.
const MAX_NAME: usize = 120;
/// Drifts of a server that are looked through for those that an issue was told of.
const THREAD: i64 = 200;

/// GitHub's API by the settings.
pub(crate) struct Github {
    api: Url,
    token: Token,
}

/// Where the token is.
pub(crate) enum Token {
    Text(SecretString),
    File(PathBuf),
}

#[derive(Deserialize)]
struct Found {
    number: i64,
    #[serde(default)]
    state: String,
    #[serde(default)]
    body: Option<String>,
}

#[derive(Deserialize)]
struct Comment {
    #[serde(default)]
    body: Option<String>,
}

impl Github {
    /// The API at this address, or the public one.
    pub(crate) fn new(api: Option<Url>, token: Token) -> Result<Github, String> {
        let api = match api {
            Some(api) => api,
            None => Url::parse(PUBLIC).map_err(|error| error.to_string())?,
        };
        Ok(Github { api, token })
    }

    pub(crate) fn api(&self) -> &Url {
        &self.api
    }

    pub(super) async fn deliver(
        &self,
        courier: &Courier,
        claimed: &Claimed,
        told: &Told,
    ) -> Result<Arrived, Failed> {
        let (owner, name) = repository(&claimed.webhook.destination)
            .ok_or_else(|| Failed::new("the destination is no repository"))?;
        let repository = Repository {
            courier,
            github: self,
            path: format!("repos/{owner}/{name}"),
        };
        match told {
            Told::Test => {
                // Reads only: a test leaves nothing behind.
                let _: Value = repository.ask(Method::GET, "", None).await?;
            }
            Told::Drift(told) => repository.tell(claimed, told).await?,
            Told::Decision(told) => repository.decided(claimed, told).await?,
        }
        Ok(Arrived(Some(StatusCode::OK.as_u16())))
    }
}

/// One repository's issues.
struct Repository<'c> {
    courier: &'c Courier,
    github: &'c Github,
    path: String,
}

impl Repository<'_> {
    async fn tell(&self, claimed: &Claimed, told: &ToldDrift) -> Result<(), Failed> {
        let store = &self.courier.store;
        let webhook = &claimed.webhook.id;
        let drift = &told.drift;
        if let Some(mut open) = store.open_issue(webhook, &drift.identity).await? {
            if open.last_drift >= drift.id {
                // It was told by an attempt whose end was not written down.
                return Ok(());
            }
            let stands_open = self.is_open(open.issue).await?;
            if stands_open && !self.thread(&open).await?.is_empty() {
                self.comment(&open, claimed, &goes_on(told, &self.courier.base))
                    .await?;
                open.last_drift = drift.id;
                return Ok(store.keep_issue(&open).await?);
            }
            if stands_open {
                let words = "Finer drifts have taken the place of this one: a version between its two sides was looked at.\n";
                self.comment(&open, claimed, words).await?;
                self.close(open.issue, "not_planned").await?;
            }
            let now = self.courier.clock.unix_seconds();
            store.close_issue(webhook, open.issue, now).await?;
        }
        if drift.replaced {
            return Ok(());
        }
        let fingerprint = told.fingerprint();
        let number = match self.find(&fingerprint).await? {
            Some(number) => number,
            None => self.open(told, &fingerprint).await?,
        };
        Ok(store
            .keep_issue(&Issue {
                webhook: webhook.clone(),
                issue: number,
                identity: drift.identity.clone(),
                fingerprint,
                first_drift: drift.id,
                last_drift: drift.id,
            })
            .await?)
    }

    /// Closes the issue about a server when there is a decision about each tool that its drifts have changed.
    async fn decided(&self, claimed: &Claimed, told: &ToldDecision) -> Result<(), Failed> {
        let store = &self.courier.store;
        let (webhook, identity) = (&claimed.webhook.id, &told.first.identity);
        let Some(open) = store.open_issue(webhook, identity).await? else {
            return Ok(());
        };
        let mut tools: BTreeMap<String, Digest> = BTreeMap::new();
        let mut drifts = self.thread(&open).await?;
        drifts.sort_unstable();
        for drift in drifts {
            let Some((_, changes)) = store.drift(drift).await? else {
                continue;
            };
            for change in changes {
                let Subject::Member(MemberKind::Tool, name) = change.subject else {
                    continue;
                };
                match change.after_digest {
                    Some(digest) => tools.insert(name, digest),
                    None => tools.remove(&name),
                };
            }
        }
        let definitions: Vec<(&str, &str, Digest)> = tools
            .iter()
            .map(|(tool, digest)| (identity.as_str(), tool.as_str(), *digest))
            .collect();
        let now = self.courier.clock.unix_seconds();
        let stood = store.standing_of(DEFAULT_TENANT, &definitions, now).await?;
        let state = |standing: &Option<Standing>| standing.as_ref().map(|standing| standing.state);
        let count = |wanted| {
            stood
                .standing
                .iter()
                .filter(|standing| state(standing) == Some(wanted))
                .count()
        };
        let (approved, refused) = (count(State::Approved), count(State::Refused));
        if definitions.is_empty() || approved + refused < definitions.len() {
            return Ok(());
        }
        if self.is_open(open.issue).await? {
            let words = format!(
                "All that changed here is decided: {approved} approved, {refused} refused, the last by {}.\n",
                code(&told.first.subject)
            );
            self.comment(&open, claimed, &words).await?;
            self.close(open.issue, "completed").await?;
        }
        Ok(store.close_issue(webhook, open.issue, now).await?)
    }

    /// The drifts that the issue was told of and that still stand.
    async fn thread(&self, open: &Issue) -> Result<Vec<i64>, Failed> {
        let drifts = self
            .courier
            .store
            .drifts(Some(&open.identity), None, THREAD)
            .await?;
        let told = open.first_drift..=open.last_drift;
        let drifts = drifts.into_iter().map(|drift| drift.id);
        Ok(drifts.filter(|drift| told.contains(drift)).collect())
    }

    /// False: somebody has closed or deleted it.
    async fn is_open(&self, issue: i64) -> Result<bool, Failed> {
        let found: Result<Found, Failed> = self.ask(Method::GET, &format!("/issues/{issue}"), None).await;
        match found {
            Ok(found) => Ok(found.state != "closed"),
            Err(failed) if matches!(failed.status, Some(404 | 410)) => Ok(false),
            Err(failed) => Err(failed),
        }
    }

    async fn find(&self, fingerprint: &str) -> Result<Option<i64>, Failed> {
        let mark = issue_mark(fingerprint);
        for page in 1..=PAGES {
            let path =
                format!("/issues?state=open&sort=created&direction=desc&per_page={ON_PAGE}&page={page}");
            let issues: Vec<Found> = self.ask(Method::GET, &path, None).await?;
            let found = issues
                .iter()
                .find(|issue| issue.body.as_deref().is_some_and(|body| body.contains(&mark)));
            if found.is_some() || issues.len() < ON_PAGE {
                return Ok(found.map(|issue| issue.number));
            }
        }
        Ok(None)
    }

    async fn open(&self, told: &ToldDrift, fingerprint: &str) -> Result<i64, Failed> {
        let body = json!({
            "title": title(told),
            "body": opening(told, fingerprint, &self.courier.base),
        });
        let made: Found = self.ask(Method::POST, "/issues", Some(&body)).await?;
        Ok(made.number)
    }

    /// Adds a comment, unless an attempt before this one has.
    async fn comment(&self, open: &Issue, claimed: &Claimed, words: &str) -> Result<(), Failed> {
        let mark = format!("<!-- mcpindex-delivery:{} -->", claimed.delivery.id);
        let issue = open.issue;
        let since = rfc3339(claimed.delivery.created_at.saturating_sub(3_600)).unwrap_or_default();
        let path = format!("/issues/{issue}/comments?since={since}&per_page=100");
        let comments: Vec<Comment> = self.ask(Method::GET, &path, None).await?;
        let is_there = |comment: &Comment| comment.body.as_deref().is_some_and(|body| body.contains(&mark));
        if comments.iter().any(is_there) {
            return Ok(());
        }
        let body = json!({"body": format!("{words}\n{mark}\n")});
        let _: Value = self
            .ask(Method::POST, &format!("/issues/{issue}/comments"), Some(&body))
            .await?;
        Ok(())
    }

    async fn close(&self, issue: i64, reason: &str) -> Result<(), Failed> {
        let body = json!({"state": "closed", "state_reason": reason});
        let _: Value = self
            .ask(Method::PATCH, &format!("/issues/{issue}"), Some(&body))
            .await?;
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failed> {
        let url = self
            .github
            .api
            .join(&format!("{}{path}", self.path))
            .map_err(|error| Failed::new(format!("no address of GitHub's API: {error}")))?;
        let mut request = Request::new(method, url);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        headers.insert(VERSION, HeaderValue::from_static("2022-11-28"));
        headers.insert(AUTHORIZATION, self.github.token.header()?);
        if let Some(body) = body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.to_string().into());
        }
        let mut response = self.courier.client.send(request).await?;
        if let Some(failed) = refusal(&response) {
            return Err(explained(failed));
        }
        let mut text = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| Failed::from(HttpError::of(&error)))?
        {
            if text.len() + chunk.len() > MAX_ANSWER {
                return Err(HttpError::OverLimit {
                    what: "bytes",
                    limit: MAX_ANSWER,
                }
                .into());
            }
            text.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&text).map_err(|_| Failed::new("GitHub's answer is no JSON as expected"))
    }
}

impl Token {
    fn header(&self) -> Result<HeaderValue, Failed> {
        let read;
        let token = match self {
            Token::Text(token) => token,
            Token::File(path) => {
                read = read_secret(path)
                    .map_err(|problem| Failed::new(format!("[webhooks] github_token_file: {problem}")))?;
                &read
            }
        };
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
            .map_err(|_| Failed::new("the token for GitHub is no header"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// What a status of GitHub's means to whoever set this up.
fn explained(mut failed: Failed) -> Failed {
    let says = match failed.status {
        Some(401) => "GitHub does not know the token of [webhooks] github_token",
        Some(403) => "the token may not do that, or has asked too much",
        Some(404) => "no such repository or issue for this token",
        Some(410) => "issues are switched off in this repository",
        Some(422) => "GitHub refuses what was sent",
        _ => return failed,
    };
    let number = failed.status.unwrap_or_default();
    failed.words = format!("HTTP {number}: {says}");
    if failed.again == Again::Never {
        // A repository's issues can be switched on again.
        failed.again = Again::Later;
    }
    failed
}

fn issue_mark(fingerprint: &str) -> String {
    format!("<!-- mcpindex-drift:{fingerprint} -->")
}

/// GitHub reads no markup in titles, but a name may hold what misleads the eye.
fn title(told: &ToldDrift) -> String {
    let drift = &told.drift;
    let identity = visible_within(&drift.identity, MAX_NAME);
    match (&drift.before_version, &drift.after_version) {
        (Some(before), Some(after)) => format!(
            "MCP drift: {identity} {} → {}",
            visible_within(before, 40),
            visible_within(after, 40)
        ),
        _ => format!("MCP drift: {identity}"),
    }
}

fn opening(told: &ToldDrift, fingerprint: &str, base: &Url) -> String {
    let drift = &told.drift;
    let mut text = format!(
        "The MCP server {} declares something else than before{}.\n\n",
        code(&drift.identity),
        versions(told)
    );
    changes(&mut text, told, base);
    let _ = write!(
        text,
        "\nThis issue is told when the drift goes on. Fingerprint: `{fingerprint}`\n{}\n",
        issue_mark(fingerprint)
    );
    text
}

fn goes_on(told: &ToldDrift, base: &Url) -> String {
    let mut text = format!("The drift goes on{}.\n\n", versions(told));
    changes(&mut text, told, base);
    text
}

fn versions(told: &ToldDrift) -> String {
    match (&told.drift.before_version, &told.drift.after_version) {
        (Some(before), Some(after)) => format!(", {} → {}", code(before), code(after)),
        _ => String::new(),
    }
}

fn changes(text: &mut String, told: &ToldDrift, base: &Url) {
    // Writing to a String can't fail.
    let _ = write!(text, "{}", told.summary());
    if told.drift.safety_relevant {
        text.push_str(" (safety relevant)");
    }
    text.push_str("\n\n");
    let subjects = told.subjects();
    for subject in subjects.iter().take(MOST_SUBJECTS) {
        let name = subject
            .name()
            .map(|name| format!(" {}", code(name)))
            .unwrap_or_default();
        let _ = writeln!(text, "- {}{name}: {}", subject.kind(), subject.kinds().join(", "));
    }
    if subjects.len() > MOST_SUBJECTS {
        let _ = writeln!(text, "- and {} more", subjects.len() - MOST_SUBJECTS);
    }
    let _ = writeln!(
        text,
        "\n[What changed]({}) · [The server]({})",
        told.page(base),
        told.server(base)
    );
}

/// Text from outside as a code span.
fn code(text: &str) -> String {
    format!("`{}`", visible_within(text, MAX_NAME).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_its_code_span() {
        assert_eq!(code("a` @ada <img> `b"), "`a' @ada <img> 'b`");
        assert_eq!(code("two\nlines"), "`two\\nlines`");
    }
}
