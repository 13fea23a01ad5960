//! How people sign in, and how a program gets a key of theirs.
//!
//! Below it `settings` is what can be set, `github` and `oidc` are providers (`exchange` is what they share, `outgoing` their way
//! out), `admission` says who may in, `error` why not; `secret` is what a browser holds and what is derived from it, `cookie` how
//! it holds it, `session` who is signed in and whether a form is theirs; `program` is where a program on a desk
//! may be answered, `key` what it gets.
//!
//! Invariant: who somebody is, is a provider's word for its own accounts, never an e-mail address; nobody is signed in but by
//! a sign-in that their own browser began, once.

pub(crate) mod admission;
pub(crate) mod cookie;
pub(crate) mod error;
mod exchange;
mod github;
pub(crate) mod key;
mod oidc;
mod outgoing;
pub(crate) mod program;
pub(crate) mod secret;
pub mod session;
pub mod settings;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mcpindex::clock::Clock;
use mcpindex::index::is_loopback;
use mcpindex::wire::http::HttpClient;
use mcpindex_store::Store;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use url::{Host, Url};

use admission::Person;
use error::SignInError;
use exchange::Registered;
use github::Github;
use oidc::Oidc;
use outgoing::Outgoing;
use secret::Secret;
use settings::{Allow, ClientSettings, LoginSettings, Named};

/// Google's issuer.
const GOOGLE: &str = "https://accounts.google.com";
/// The most bytes of a file that holds a secret.
const MAX_SECRET: usize = 4_096;

/// How people sign in.
pub struct Login {
    providers: Vec<Provider>,
    allow: Vec<Allow>,
    /// Whether programs without a browser may ask for a key.
    pub(crate) device: bool,
    /// Whether the published client's form is answered.
    pub(crate) published_form: bool,
    out: Option<Outgoing>,
}

#[derive(Debug)]
enum Provider {
    Github(Github),
    Google(Oidc),
    Oidc(Oidc),
    Dev,
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .providers
            .iter()
            .map(|provider| provider.named().name())
            .collect();
        formatter
            .debug_struct("Login")
            .field("providers", &names)
            .finish_non_exhaustive()
    }
}

impl Provider {
    fn named(&self) -> Named {
        match self {
            Provider::Github(_) => Named::Github,
            Provider::Google(_) => Named::Google,
            Provider::Oidc(_) => Named::Oidc,
            Provider::Dev => Named::Dev,
        }
    }

    fn label(&self) -> &str {
        match self {
            Provider::Github(_) => github::LABEL,
            Provider::Google(oidc) | Provider::Oidc(oidc) => &oidc.label,
            Provider::Dev => "this machine",
        }
    }
}

/// A provider as the sign-in page lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) named: Named,
    pub(crate) label: String,
}

impl Login {
    /// Nobody can sign in.
    pub fn none() -> Login {
        Login {
            providers: Vec::new(),
            allow: Vec::new(),
            device: false,
            published_form: false,
            out: None,
        }
    }

    /// By the settings, for a server that listens here and that people know by `base`. An error is one line that says what is
    /// wrong and what would be right.
    pub fn new(
        settings: &LoginSettings,
        base: &Url,
        public_url: Option<&Url>,
        listening: SocketAddr,
        client: Arc<dyn HttpClient>,
    ) -> Result<Login, String> {
        let mut providers = Vec::new();
        if let Some(client) = registered("github", &settings.github)? {
            providers.push(Provider::Github(Github::new(
                client,
                settings.github_url.clone(),
                settings.github_api_url.clone(),
                &settings.allow,
            )?));
        }
        if let Some(client) = registered("google", &settings.google)? {
            let google = Oidc::new("Google".to_owned(), GOOGLE.to_owned(), client, true);
            providers.push(Provider::Google(google));
        }
        match (registered("oidc", &settings.oidc)?, &settings.oidc_issuer) {
            (Some(client), Some(issuer)) => {
                let label = settings.oidc_name.clone().unwrap_or_else(|| host_of(issuer));
                providers.push(Provider::Oidc(Oidc::new(label, issuer.clone(), client, false)));
            }
            (Some(_), None) => return Err("[oidc] client_id needs [oidc] issuer".to_owned()),
            (None, Some(_)) => return Err("[oidc] issuer needs [oidc] client_id".to_owned()),
            (None, None) => {}
        }
        if !providers.is_empty() {
            if settings.allow.is_empty() {
                return Err(
                    "[login] allow is empty, so nobody could sign in: name who may, such as [\"github-org:acme\"] or \
                     [\"domain:example.com\"]; [\"everyone:github\"] lets all of GitHub in"
                        .to_owned(),
                );
            }
            if !is_loopback(base) && base.scheme() != "https" {
                return Err(format!(
                    "sign-in needs https, and people use {base}: set [server] public_url to the https address in front of this \
                     server"
                ));
            }
            if public_url.is_none() && !listening.ip().is_loopback() {
                return Err(format!(
                    "sign-in needs the address that people use, and this server listens on {listening} for all of them: set \
                     [server] public_url"
                ));
            }
        }
        if settings.dev {
            if let Some(url) = public_url {
                return Err(format!(
                    "[login] dev lets anybody in under any name, so it is for this machine alone, and [server] public_url is \
                     {url}: unset one of them"
                ));
            }
            if !listening.ip().is_loopback() {
                return Err(format!(
                    "[login] dev lets anybody in under any name, so it is for this machine alone, and this server listens on \
                     {listening}: listen on 127.0.0.1 or unset it"
                ));
            }
            providers.push(Provider::Dev);
        }
        let is_on = !providers.is_empty();
        Ok(Login {
            device: is_on && settings.device,
            published_form: is_on && settings.published_form.unwrap_or(listening.ip().is_loopback()),
            providers,
            allow: settings.allow.clone(),
            out: Some(Outgoing(client)),
        })
    }

    /// Whether anybody can sign in.
    pub fn is_on(&self) -> bool {
        !self.providers.is_empty()
    }

    /// What people are told at the start of the server.
    pub fn sentence(&self) -> String {
        if !self.is_on() {
            return "off; [github], [google] or [oidc] in the settings lets people sign in".to_owned();
        }
        let labels: Vec<&str> = self.providers.iter().map(Provider::label).collect();
        let allow: Vec<String> = self.allow.iter().map(ToString::to_string).collect();
        match (allow.as_slice(), self.has(Named::Dev)) {
            ([], _) => "anybody at this machine, under any name ([login] dev)".to_owned(),
            (allow, false) => format!("with {}; admits {}", labels.join(", "), allow.join(", ")),
            (allow, true) => format!(
                "with {}; admits {}, and anybody at this machine under any name",
                labels.join(", "),
                allow.join(", ")
            ),
        }
    }

    /// The providers, in the order of the page.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let choice = |provider: &Provider| Choice {
            named: provider.named(),
            label: provider.label().to_owned(),
        };
        self.providers.iter().map(choice).collect()
    }

    pub(crate) fn has(&self, named: Named) -> bool {
        self.provider(named).is_some()
    }

    /// What people call a provider.
    pub(crate) fn label(&self, named: Named) -> &str {
        self.provider(named).map_or(named.name(), Provider::label)
    }

    fn provider(&self, named: Named) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.named() == named)
    }

    fn out(&self) -> Result<&Outgoing, SignInError> {
        let none = || SignInError::Internal("no way out to a provider".to_owned());
        self.out.as_ref().ok_or_else(none)
    }

    /// Where the browser is sent to sign in with this provider; `None` for one that sends it nowhere, or isn't there.
    pub(crate) async fn authorize_url(
        &self,
        named: Named,
        base: &Url,
        secret: &Secret,
        now: i64,
    ) -> Result<Option<Url>, SignInError> {
        let redirect = redirect(base, named)?;
        match self.provider(named) {
            Some(Provider::Github(github)) => github.authorize_url(&redirect, secret).map(Some),
            Some(Provider::Google(oidc) | Provider::Oidc(oidc)) => oidc
                .authorize_url(self.out()?, &redirect, secret, now)
                .await
                .map(Some),
            Some(Provider::Dev) | None => Ok(None),
        }
    }

    /// Who comes back from this provider with a code, and `iss` beside it; somebody who may in.
    pub(crate) async fn person(
        &self,
        named: Named,
        base: &Url,
        answer: (&str, Option<&str>),
        secret: &Secret,
        now: i64,
    ) -> Result<Person, SignInError> {
        let redirect = redirect(base, named)?;
        let person = match self.provider(named) {
            Some(Provider::Github(github)) => github.person(self.out()?, &redirect, answer.0, secret).await?,
            Some(Provider::Google(oidc) | Provider::Oidc(oidc)) => {
                oidc.person(self.out()?, &redirect, answer, secret, now).await?
            }
            Some(Provider::Dev) | None => return Err(SignInError::NotBegun),
        };
        if !admission::admits(&self.allow, named, &person) {
            return Err(SignInError::NotAdmitted {
                provider: self.label(named).to_owned(),
                login: person
                    .login
                    .chars()
                    .filter(|c| !c.is_control() && *c != '`')
                    .take(100)
                    .collect(),
            });
        }
        Ok(person)
    }
}

/// The URLs that the administrator wrote into the settings: their origins are admitted wherever they lead. Plain http is refused
/// but to this machine and to the networks that the settings allow.
pub fn admitted(settings: &LoginSettings, networks: &[String]) -> Result<Vec<Url>, String> {
    let mut urls: Vec<Url> = [&settings.github_url, &settings.github_api_url]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    if let Some(issuer) = &settings.oidc_issuer {
        urls.push(settings::base_url(issuer)?);
    }
    for url in &urls {
        let inside = match url.host() {
            Some(Host::Ipv4(address)) => is_within(networks, address.into()),
            Some(Host::Ipv6(address)) => is_within(networks, address.into()),
            _ => false,
        };
        if url.scheme() == "http" && !is_loopback(url) && !inside {
            return Err(format!(
                "{url} is plain http, where whoever is on the way could sign in as anybody: use https, or an address in \
                 [crawl] allow_networks"
            ));
        }
    }
    Ok(urls)
}

fn is_within(networks: &[String], address: std::net::IpAddr) -> bool {
    let networks = networks
        .iter()
        .filter_map(|text| text.parse::<mcpindex_crawler::address::Network>().ok());
    networks.into_iter().any(|network| network.contains(address))
}

/// Between two sweepings.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// Removes what is over (sign-ins, codes, devices, sessions, long-ended keys), every hour until `stop`.
pub async fn sweep(store: Store, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(SWEEP_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        match store.sweep_accounts(clock.unix_seconds()).await {
            Ok(gone) => tracing::debug!(gone, "what was over of sign-ins is gone"),
            Err(error) => tracing::error!(%error, "what is over of sign-ins could not be let go"),
        }
    }
}

/// Where a provider sends the browser back to.
fn redirect(base: &Url, named: Named) -> Result<Url, SignInError> {
    base.join(&format!("auth/{}/callback", named.name()))
        .map_err(|error| SignInError::Internal(error.to_string()))
}

fn host_of(issuer: &str) -> String {
    let host = Url::parse(issuer)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| issuer.to_owned())
}

/// The client of a section; `None` when it is not set.
fn registered(section: &str, settings: &ClientSettings) -> Result<Option<Registered>, String> {
    let has_secret = settings.secret.is_some() || settings.secret_file.is_some();
    let Some(id) = &settings.id else {
        return match has_secret {
            true => Err(format!("[{section}] client_secret needs [{section}] client_id")),
            false => Ok(None),
        };
    };
    let secret =
        match (&settings.secret, &settings.secret_file) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "[{section}] has both client_secret and client_secret_file: keep one"
                ));
            }
            (Some(secret), None) => Some(secret.clone()),
            (None, Some(file)) => Some(secret_of(file).map_err(|problem| {
                format!("[{section}] client_secret_file `{}`: {problem}", file.display())
            })?),
            // A public client: PKCE alone holds. GitHub and Google know none.
            (None, None) if section == "oidc" => None,
            (None, None) => {
                return Err(format!(
                    "[{section}] client_id needs client_secret or client_secret_file"
                ));
            }
        };
    Ok(Some(Registered {
        id: id.clone(),
        secret,
    }))
}

fn secret_of(file: &std::path::Path) -> Result<SecretString, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let secret = text.trim();
    if secret.is_empty() || secret.len() > MAX_SECRET || secret.contains(char::is_whitespace) {
        return Err("expected the secret and nothing else in it".to_owned());
    }
    Ok(secret.into())
}

#[cfg(test)]
mod tests {
    use mcpindex_crawler::guarded_client::GuardedClient;

    use super::*;

    fn new(settings: &LoginSettings, public: Option<&str>, listening: &str) -> Result<Login, String> {
        let public: Option<Url> = public.map(|url| url.parse().unwrap());
        let listening: SocketAddr = listening.parse().unwrap();
        let base = public
            .clone()
            .unwrap_or_else(|| format!("http://127.0.0.1:{}/", listening.port()).parse().unwrap());
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Arc::new(GuardedClient::new(&[], false).unwrap());
        Login::new(settings, &base, public.as_ref(), listening, client)
    }

    fn github() -> LoginSettings {
        LoginSettings {
            github: ClientSettings {
                id: Some("id".to_owned()),
                secret: Some("hush".into()),
                secret_file: None,
            },
            allow: vec!["github-org:acme".parse().unwrap()],
            ..LoginSettings::default()
        }
    }

    fn dev() -> LoginSettings {
        LoginSettings {
            dev: true,
            ..LoginSettings::default()
        }
    }

    #[track_caller]
    fn check_refused(settings: &LoginSettings, public: Option<&str>, listening: &str, part: &str) {
        let refused = new(settings, public, listening).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }

    #[test]
    fn the_dev_login_is_for_a_server_that_only_this_machine_reaches() {
        assert!(new(&dev(), None, "127.0.0.1:1").is_ok());
        assert!(new(&dev(), None, "[::1]:1").is_ok());
        check_refused(&dev(), None, "0.0.0.0:1", "listens on 0.0.0.0:1");
        check_refused(&dev(), None, "192.0.2.1:1", "listens on 192.0.2.1:1");
        check_refused(
            &dev(),
            Some("https://a.example/"),
            "127.0.0.1:1",
            "public_url is https://a.example/",
        );
    }

    #[test]
    fn a_provider_without_anybody_named_is_refused_since_nobody_could_sign_in() {
        let settings = LoginSettings {
            allow: Vec::new(),
            ..github()
        };
        check_refused(&settings, None, "127.0.0.1:1", "[login] allow is empty");
    }

    #[test]
    fn people_sign_in_over_https_or_at_this_machine() {
        assert!(new(&github(), None, "127.0.0.1:1").is_ok());
        assert!(new(&github(), Some("https://a.example/"), "0.0.0.0:1").is_ok());
        assert!(new(&github(), Some("http://127.0.0.1:9/"), "0.0.0.0:1").is_ok());
        check_refused(
            &github(),
            Some("http://a.example/"),
            "0.0.0.0:1",
            "sign-in needs https",
        );
        check_refused(&github(), None, "0.0.0.0:1", "set [server] public_url");
    }

    #[test]
    fn the_published_form_is_there_by_default_where_only_this_machine_is() {
        assert!(new(&github(), None, "127.0.0.1:1").unwrap().published_form);
        let public = new(&github(), Some("https://a.example/"), "0.0.0.0:1").unwrap();
        assert!(!public.published_form);
        assert!(!Login::none().published_form && !Login::none().device);
    }

    #[test]
    fn a_secret_comes_from_one_place_and_is_in_no_text() {
        let mut settings = github();
        assert!(!format!("{settings:?}").contains("hush"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "hush2\n").unwrap();
        settings.github.secret_file = Some(file.clone());
        check_refused(&settings, None, "127.0.0.1:1", "keep one");
        settings.github.secret = None;
        assert!(!format!("{:?}", new(&settings, None, "127.0.0.1:1").unwrap()).contains("hush"));
        std::fs::write(&file, "two words").unwrap();
        check_refused(&settings, None, "127.0.0.1:1", "nothing else in it");
        settings.github.secret_file = None;
        check_refused(&settings, None, "127.0.0.1:1", "needs client_secret");
        settings.github.id = None;
        assert!(!new(&settings, None, "127.0.0.1:1").unwrap().is_on());
    }

    #[test]
    fn plain_http_to_a_provider_is_for_this_machine_and_allowed_networks() {
        let check = |issuer: &str, admits: bool| {
            let settings = LoginSettings {
                oidc_issuer: Some(issuer.to_owned()),
                ..LoginSettings::default()
            };
            let found = admitted(&settings, &["10.1.0.0/16".to_owned()]);
            assert_eq!(found.is_ok(), admits, "{issuer}");
        };
        check("https://idp.corp", true);
        check("http://127.0.0.1:8/x", true);
        check("http://localhost:8", true);
        check("http://10.1.2.3", true);
        check("http://10.2.2.3", false);
        check("http://idp.corp", false);
    }
}
