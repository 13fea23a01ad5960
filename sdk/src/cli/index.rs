//! Which index a command means, who this machine is there, and what an index's refusal means for the exit.
//!
//! Invariant: an index that could not be asked, or gave an answer that can't be read, is never taken for one that said no.

use std::fmt::Display;

use mcpindex::index::{
    Answer, Base, Chosen, Credentials, CredentialsError, IndexClient, IndexError, Variables, chosen,
};
use mcpindex::state::StateDirectory;
use mcpindex::visible::visible_within;
use reqwest::StatusCode;
use reqwest::header::LOCATION;
use serde::{Deserialize, Deserializer, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::exit::Exit;
use super::pins::Mistake;

/// The name and version of every document of `whoami` and `keys`.
pub(super) const SCHEMA: &str = "mcpindex.account/1";

/// An answer about an account is small; a long list of keys is not.
pub(super) const ANSWER_BYTES: usize = 1 << 20;

impl From<CredentialsError> for Mistake {
    fn from(error: CredentialsError) -> Mistake {
        let exit = match &error {
            CredentialsError::Busy { .. } => Exit::TryLater,
            CredentialsError::NotSaved { .. } => Exit::Internal,
            CredentialsError::NotRead { .. }
            | CredentialsError::OpenToOthers { .. }
            | CredentialsError::NoJson { .. }
            | CredentialsError::Shape { .. } => Exit::Undetermined,
        };
        Mistake::new(exit, error.to_string())
    }
}

impl From<IndexError> for Mistake {
    fn from(error: IndexError) -> Mistake {
        let exit = match error {
            IndexError::Credentials(error) => return error.into(),
            IndexError::NoBase { .. }
            | IndexError::BaseVariable(_)
            | IndexError::KeyVariable(_)
            | IndexError::PlainHttp { .. } => Exit::Usage,
            IndexError::Client { .. } | IndexError::Question { .. } => Exit::Internal,
            IndexError::NoAnswer { .. } => Exit::Undetermined,
        };
        Mistake::new(exit, error.to_string())
    }
}

/// The variables, with the index that an argument names before theirs.
fn variables(base: Option<&str>) -> Result<Variables, IndexError> {
    let mut variables = Variables::from_environment();
    if let Some(base) = base {
        variables.base = Some(Base::parse(base)?.to_string());
    }
    Ok(variables)
}

/// The index meant: the one named, else `MCPINDEX_WEB_BASE`, else the default one of a sign-in.
pub(super) fn meant(base: Option<&str>, state: &StateDirectory, command: &str) -> Result<Chosen, Mistake> {
    let chosen = chosen(state, &variables(base)?)?;
    chosen.map_or_else(|| Err(no_index(state, command)), Ok)
}

/// Why there is no index to ask, though none is named: none, several, or one that can't be said.
pub(super) fn no_index(state: &StateDirectory, command: &str) -> Mistake {
    let Ok(credentials) = Credentials::load(state) else {
        return Mistake::new(Exit::Usage, format!("no index is named: `{command} https://…`"));
    };
    let signed_in: Vec<String> = credentials.bases().iter().map(Base::to_string).collect();
    if !signed_in.is_empty() {
        let text = format!(
            "which index? This machine is signed in to {}, and none is the default: name one, or set MCPINDEX_WEB_BASE",
            signed_in.join(" and ")
        );
        return Mistake::new(Exit::Usage, text);
    }
    if credentials.has_published_key() {
        let text = format!(
            "`{}` holds a key of the published client, which does not say which index gave it, so it is sent to none: sign in with \
             `mcpindex login https://…`",
            credentials.path().display()
        );
        return Mistake::new(Exit::NeedsPerson, text);
    }
    Mistake::new(
        Exit::NeedsPerson,
        "there is no index: nobody has signed in here, and MCPINDEX_WEB_BASE is not set (`mcpindex login https://…` signs in)",
    )
}

/// The index meant, and a client that asks it with the key that is there for it.
pub(super) fn signed_in(
    base: Option<&str>,
    state: &StateDirectory,
    command: &str,
) -> Result<(Chosen, IndexClient), Mistake> {
    let chosen = meant(base, state, command)?;
    if chosen.key.is_none() {
        let text = format!(
            "nobody is signed in to {base} here: `mcpindex login {base}` signs in",
            base = chosen.base
        );
        return Err(Mistake::new(Exit::NeedsPerson, text));
    }
    let client = IndexClient::new(&chosen)?;
    Ok((chosen, client))
}

/// Who a key is, as the index says.
#[derive(Debug, Deserialize)]
pub(super) struct WhoAmI {
    pub(super) login: String,
    pub(super) role: String,
    pub(super) issuer: String,
    pub(super) key: KeyOfMine,
}

/// The key that was asked with.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all(serialize = "camelCase"))]
pub(super) struct KeyOfMine {
    pub(super) id: String,
    pub(super) name: String,
    /// Its beginning.
    pub(super) shown: String,
    #[serde(deserialize_with = "scopes")]
    pub(super) scopes: Vec<String>,
    pub(super) expires_at: Option<String>,
}

/// A list of names, or the names with blanks between them.
pub(super) fn scopes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Scopes {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Scopes::deserialize(deserializer)? {
        Scopes::List(list) => list,
        Scopes::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
    })
}

/// Asks the index who the key is.
pub(super) async fn who_am_i(client: &IndexClient) -> Result<WhoAmI, Mistake> {
    let answer = client.get("api/v1/whoami", ANSWER_BYTES).await?;
    match answer.status {
        StatusCode::OK => answer
            .json()
            .ok_or_else(|| unreadable(client.base(), "api/v1/whoami")),
        _ => Err(refusal(client.base(), &answer)),
    }
}

/// A good status, and a body that no index gives.
pub(super) fn unreadable(base: &Base, path: &str) -> Mistake {
    let text = format!("{base} is no index, or a newer one: its answer to `{path}` can't be read");
    Mistake::new(Exit::Undetermined, text)
}

/// What an answer that is no success means.
pub(super) fn refusal(base: &Base, answer: &Answer) -> Mistake {
    let words = answer.problem().map(|problem| problem.words());
    let because = |fallback: &dyn Display| words.clone().unwrap_or_else(|| fallback.to_string());
    match answer.status {
        StatusCode::UNAUTHORIZED => Mistake::new(
            Exit::NeedsPerson,
            format!(
                "{base} does not accept the key: it has expired, was revoked, or is of another index; `mcpindex login {base}` gets a \
                 new one"
            ),
        ),
        StatusCode::FORBIDDEN => Mistake::new(
            Exit::NeedsPerson,
            format!("{base} does not allow it: {}", because(&"it gives no reason")),
        ),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let after = answer
                .retry_after()
                .map_or_else(String::new, |seconds| format!(" in {seconds} s"));
            Mistake::new(Exit::TryLater, format!("{base} asks to wait: try again{after}"))
        }
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT => Mistake::new(
            Exit::Usage,
            format!("{base} does not take it: {}", because(&answer.status)),
        ),
        status if status.is_redirection() => {
            let to = answer.headers.get(LOCATION).map_or_else(
                || "elsewhere".to_owned(),
                |to| {
                    format!(
                        "to `{}`",
                        visible_within(&String::from_utf8_lossy(to.as_bytes()), 200)
                    )
                },
            );
            let text =
                format!("{base} redirects {to}, which is not followed: name the index by its own address");
            Mistake::new(Exit::Undetermined, text)
        }
        status if status.is_server_error() => Mistake::new(
            Exit::Undetermined,
            format!("{base} can't answer now: {}", because(&status)),
        ),
        status => Mistake::new(
            Exit::Undetermined,
            format!("{base} is no index, or an older one: {}", because(&status)),
        ),
    }
}

/// `until 2027-05-29`, or that it does not end. A time that can't be read is shown as it came.
pub(super) fn until(expires_at: Option<&str>) -> String {
    match expires_at {
        None => "without end".to_owned(),
        Some(moment) => format!("until {}", day(moment)),
    }
}

/// The UTC day of an RFC 3339 time.
pub(super) fn day(moment: &str) -> String {
    match OffsetDateTime::parse(moment, &Rfc3339) {
        Ok(moment) => moment.to_utc().date().to_string(),
        Err(_) => visible_within(moment, 40),
    }
}
