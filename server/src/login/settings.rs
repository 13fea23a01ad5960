//! `[login]`, `[github]`, `[google]` and `[oidc]`: which providers people sign in with, and who of them may.
//!
//! Invariant: a provider's secret is in no text that this module makes.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use secrecy::SecretString;
use url::Url;

/// What the settings say of sign-in.
#[derive(Debug, Clone)]
pub struct LoginSettings {
    /// Who may sign in. Whoever fits one of these.
    pub allow: Vec<Allow>,
    /// Whether anybody at this machine may sign in under any name.
    pub dev: bool,
    /// Whether programs without a browser may ask for a key.
    pub device: bool,
    /// Whether the published client's form is answered; `None`: where only this machine can reach the server.
    pub published_form: Option<bool>,
    /// `[github]`.
    pub github: ClientSettings,
    /// Where people sign in to GitHub.
    pub github_url: Option<Url>,
    /// Where GitHub's API is; `None` is what belongs to `github_url`.
    pub github_api_url: Option<Url>,
    /// `[google]`.
    pub google: ClientSettings,
    /// `[oidc]`.
    pub oidc: ClientSettings,
    /// The issuer, to the letter.
    pub oidc_issuer: Option<String>,
    /// What people call it.
    pub oidc_name: Option<String>,
}

impl Default for LoginSettings {
    fn default() -> LoginSettings {
        LoginSettings {
            allow: Vec::new(),
            dev: false,
            device: true,
            published_form: None,
            github: ClientSettings::default(),
            github_url: None,
            github_api_url: None,
            google: ClientSettings::default(),
            oidc: ClientSettings::default(),
            oidc_issuer: None,
            oidc_name: None,
        }
    }
}

/// What a provider knows this index by.
#[derive(Debug, Clone, Default)]
pub struct ClientSettings {
    /// The client id.
    pub id: Option<String>,
    /// The client's secret.
    pub secret: Option<SecretString>,
    /// A file with nothing but the secret in it.
    pub secret_file: Option<PathBuf>,
}

/// One entry of `[login] allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    /// `github-org:NAME`: the active members of an organisation.
    Organisation(String),
    /// `github:LOGIN`: whoever has this login there now.
    GithubLogin(String),
    /// `domain:NAME`: whoever's provider has verified an e-mail address in it.
    Domain(String),
    /// `email:ADDRESS`: whoever's provider has verified this e-mail address.
    Email(String),
    /// `everyone:PROVIDER`: all whom the provider knows.
    Everyone(Named),
}

/// A provider by the name that settings and addresses give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Named {
    /// GitHub, or a GitHub of the organisation's own.
    Github,
    /// Google.
    Google,
    /// The issuer of `[oidc]`.
    Oidc,
    /// Anybody at this machine.
    Dev,
}

impl Named {
    const ALL: [Named; 4] = [Named::Github, Named::Google, Named::Oidc, Named::Dev];

    /// `github`, `google`, `oidc` or `dev`.
    pub fn name(self) -> &'static str {
        match self {
            Named::Github => "github",
            Named::Google => "google",
            Named::Oidc => "oidc",
            Named::Dev => "dev",
        }
    }

    /// The provider of this name.
    pub fn from_name(name: &str) -> Option<Named> {
        Named::ALL.into_iter().find(|named| named.name() == name)
    }
}

impl FromStr for Allow {
    type Err = String;

    fn from_str(text: &str) -> Result<Allow, String> {
        let form = || {
            format!(
                "`{text}` names nobody: write `github-org:NAME`, `github:LOGIN`, `domain:example.com`, \
                 `email:NAME@example.com`, or `everyone:github`, `everyone:google` or `everyone:oidc`"
            )
        };
        let (kind, name) = text.split_once(':').ok_or_else(form)?;
        let name = name.trim().to_ascii_lowercase();
        let is_word = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
        let is_plain = is_word && !name.contains(['@', '/', '*', ':']);
        let is_address = is_word
            && name
                .split_once('@')
                .is_some_and(|(user, host)| !user.is_empty() && is_domain(host));
        match kind {
            "github-org" if is_plain => Ok(Allow::Organisation(name)),
            "github" if is_plain => Ok(Allow::GithubLogin(name)),
            "domain" if is_domain(&name) => Ok(Allow::Domain(name)),
            "email" if is_address => Ok(Allow::Email(name)),
            "everyone" => match Named::from_name(&name) {
                Some(named) if named != Named::Dev => Ok(Allow::Everyone(named)),
                _ => Err(form()),
            },
            _ => Err(form()),
        }
    }
}

/// Whether this is a host's name of at least two parts.
fn is_domain(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '-');
    name.contains('.') && name.split('.').all(is_part)
}

impl fmt::Display for Allow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allow::Organisation(name) => write!(formatter, "github-org:{name}"),
            Allow::GithubLogin(login) => write!(formatter, "github:{login}"),
            Allow::Domain(name) => write!(formatter, "domain:{name}"),
            Allow::Email(address) => write!(formatter, "email:{address}"),
            Allow::Everyone(named) => write!(formatter, "everyone:{}", named.name()),
        }
    }
}

/// The base of an API, with a slash at its end so that paths are added to it.
pub(crate) fn base_url(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| format!("`{text}` is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("`{text}` is no http(s) URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL with a user name or a password in it can't be used here".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("`{text}` has a query or a fragment"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// An issuer, which is compared to the letter and so kept as it was written.
pub(crate) fn issuer(text: &str) -> Result<String, String> {
    base_url(text)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_sign_in_is_written_in_five_ways() {
        for text in [
            "github-org:acme",
            "github:alice",
            "domain:example.com",
            "email:alice@example.com",
            "everyone:oidc",
        ] {
            let allow: Allow = text.parse().unwrap();
            assert_eq!(allow.to_string(), text);
        }
        assert_eq!(
            "domain:Example.COM".parse(),
            Ok(Allow::Domain("example.com".to_owned()))
        );
    }

    #[test]
    fn an_entry_that_names_nobody_is_refused() {
        for text in [
            "",
            "alice",
            "github:",
            "github:*",
            "everyone",
            "everyone:dev",
            "everyone:all",
            "domain:com",
            "domain:@example.com",
            "domain:*.example.com",
            "email:example.com",
            "email:@example.com",
            "org:acme",
        ] {
            assert!(text.parse::<Allow>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_issuer_keeps_its_last_slash_or_none() {
        assert_eq!(issuer("https://a.example/r/").unwrap(), "https://a.example/r/");
        assert_eq!(issuer("https://a.example/r").unwrap(), "https://a.example/r");
        for wrong in [
            "a.example",
            "ftp://a.example",
            "https://u:p@a.example",
            "https://a.example/?x",
        ] {
            assert!(issuer(wrong).is_err(), "{wrong}");
        }
    }
}
