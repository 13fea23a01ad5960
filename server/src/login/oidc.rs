//! Any OpenID Connect issuer, by discovery; Google is one of them.
//!
//! What the issuer says of itself and its keys is kept for ten minutes. A token with a key that is not among them makes us
//! look again, once a minute at most, so that nobody can make us ask the issuer at will.
//!
//! Invariant: somebody is (issuer, `sub`) of an ID token that this issuer signed with RS256 or ES256, for this client, for
//! this very sign-in, and whose time is now; all of it compared to the letter.

use std::time::{Duration, SystemTime};

use mcpindex::clock::Clock;
use openidconnect::core::{
    CoreGenderClaim, CoreIdTokenVerifier, CoreJsonWebKeySet, CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
};
use openidconnect::{
    AdditionalClaims, ClaimsVerificationError, ClientId, IdToken, IdTokenClaims, IssuerUrl, Nonce,
    SignatureVerificationError,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use url::Url;

use super::admission::Person;
use super::error::SignInError;
use super::exchange::{self, Exchange, Registered};
use super::outgoing::{Outgoing, OutgoingError};
use super::secret::{Secret, same};

/// Google's issuer.
pub(crate) const GOOGLE: &str = "https://accounts.google.com";
/// Seconds that what an issuer says of itself is used.
const KEEP: i64 = 600;
/// Seconds between two looks for a key that is not known.
const LOOK_AGAIN: i64 = 60;
/// Seconds after a failed look in which no other is made.
const LEAVE_ALONE: i64 = 5;
/// Seconds that the issuer's clock may be ahead or behind.
pub(super) const SKEW: i64 = 60;

/// An issuer by the settings.
#[derive(Debug)]
pub(crate) struct Oidc {
    pub(crate) label: String,
    /// To the letter.
    pub(crate) issuer: String,
    pub(crate) client: Registered,
    /// Whether a domain counts only where the issuer hosts it (`hd`), as Google's rules ask.
    pub(crate) hosts_domains: bool,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    issuer: Option<(Issuer, i64)>,
    /// When a key was last looked for, and in vain.
    looked_again: Option<i64>,
    failed: Option<(i64, String)>,
}

/// What the issuer says of itself.
#[derive(Debug, Clone)]
pub(super) struct Issuer {
    metadata: Metadata,
    keys: CoreJsonWebKeySet,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// The claims that the crate has no name for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct More {
    /// The domain that Google hosts for this account.
    hd: Option<String>,
}

impl AdditionalClaims for More {}

type Token = IdToken<More, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;
type Claims = IdTokenClaims<More, CoreGenderClaim>;

/// The part of `/userinfo` that is used.
#[derive(Deserialize)]
struct UserInfo {
    sub: String,
    email: Option<String>,
    email_verified: Option<MaybeWritten>,
    preferred_username: Option<String>,
}

/// A truth value, which some issuers write as a text. The ID token's are read alike by the crate.
#[derive(Deserialize)]
#[serde(untagged)]
enum MaybeWritten {
    Bool(bool),
    Text(String),
}

impl MaybeWritten {
    fn is_true(&self) -> bool {
        match self {
            MaybeWritten::Bool(value) => *value,
            MaybeWritten::Text(text) => text == "true",
        }
    }
}

impl Oidc {
    pub(crate) fn new(label: String, issuer: String, client: Registered) -> Oidc {
        Oidc {
            label,
            hosts_domains: issuer == GOOGLE,
            issuer,
            client,
            known: Mutex::default(),
        }
    }

    /// Where the browser is sent.
    pub(crate) async fn authorize_url(
        &self,
        out: &Outgoing,
        redirect: &Url,
        secret: &Secret,
        clock: &dyn Clock,
    ) -> Result<Url, SignInError> {
        let metadata = self.known(out, clock).await?.metadata;
        let scopes = ["openid", "email", "profile"];
        exchange::authorize_url(
            &self.client,
            &metadata.authorization_endpoint,
            redirect,
            &scopes,
            secret,
            secret.derive("nonce"),
        )
    }

    /// Who brings this code. `iss` is what came beside it (RFC 9207).
    pub(crate) async fn person(
        &self,
        out: &Outgoing,
        redirect: &Url,
        answer: (&str, Option<&str>),
        secret: &Secret,
        clock: &dyn Clock,
    ) -> Result<Person, SignInError> {
        let (code, iss) = answer;
        let metadata = self.known(out, clock).await?.metadata;
        match iss {
            Some(iss) if iss != self.issuer => {
                return Err(self.not_believed("it comes from another issuer than the one that was asked"));
            }
            None if metadata.authorization_response_iss_parameter_supported => {
                return Err(self.not_believed("it doesn't say which issuer it comes from"));
            }
            _ => {}
        }
        let exchange = Exchange {
            provider: &self.label,
            client: &self.client,
            token_url: &metadata.token_endpoint,
            redirect,
            secret_in_body: self.client.secret.is_none()
                || metadata
                    .token_endpoint_auth_methods_supported
                    .as_ref()
                    .is_some_and(|methods| !methods.iter().any(|method| method == "client_secret_basic")),
        };
        let tokens = exchange.tokens(out, code, secret).await?;
        let token = tokens
            .id
            .ok_or_else(|| self.not_believed("there is no ID token in it"))?;
        let claims = self.claims(out, &token, secret, clock).await?;
        self.person_of(out, &metadata, &claims, &tokens.access).await
    }

    fn not_believed(&self, reason: impl Into<String>) -> SignInError {
        SignInError::not_believed(&self.label, reason)
    }

    /// The claims of a token that is to be believed.
    async fn claims(
        &self,
        out: &Outgoing,
        token: &SecretString,
        secret: &Secret,
        clock: &dyn Clock,
    ) -> Result<Claims, SignInError> {
        let now = clock.unix_seconds();
        let token: Token = token
            .expose_secret()
            .parse()
            .map_err(|_| self.not_believed("its ID token can't be read"))?;
        let nonce = secret.derive("nonce").map(Nonce::new);
        let nonce = nonce.ok_or_else(|| SignInError::Internal("no HMAC".to_owned()))?;
        let keys = self.known(out, clock).await?.keys;
        let claims = match self.verified(&token, &nonce, keys, now)? {
            Some(claims) => claims,
            // The issuer may have changed its keys since we looked.
            None => {
                let keys = self.look_again(out, clock).await?;
                self.verified(&token, &nonce, keys, now)?
            }
            .ok_or_else(|| {
                self.not_believed("its ID token is signed with a key that the issuer doesn't publish")
            })?,
        };
        // Whom it was given to, which a token for several clients must say.
        let is_for_us_alone = claims
            .audiences()
            .iter()
            .all(|audience| audience.as_str() == self.client.id);
        let is_given_to_us = match claims.authorized_party() {
            Some(party) => party.as_str() == self.client.id,
            None => is_for_us_alone,
        };
        if !is_given_to_us {
            return Err(self.not_believed("its ID token was made for another client (`azp`)"));
        }
        if claims.subject().as_str().trim().is_empty() {
            return Err(self.not_believed("its ID token doesn't say whom it is about (`sub`)"));
        }
        Ok(claims)
    }

    /// The claims, or `None` when the key is not among these.
    fn verified(
        &self,
        token: &Token,
        nonce: &Nonce,
        keys: CoreJsonWebKeySet,
        now: i64,
    ) -> Result<Option<Claims>, SignInError> {
        let issuer =
            IssuerUrl::new(self.issuer.clone()).map_err(|error| SignInError::Internal(error.to_string()))?;
        // A public client's verifier: a shared secret then signs nothing, whatever the token's header says.
        let verifier =
            CoreIdTokenVerifier::new_public_client(ClientId::new(self.client.id.clone()), issuer, keys)
                .set_allowed_algs([
                    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
                    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
                ])
                // The audiences beside us are judged with `azp`.
                .set_other_audience_verifier_fn(|_| true)
                .set_time_fn(move || at(now - SKEW).into())
                .set_issue_time_verifier_fn(move |issued| match issued.timestamp() - now {
                    ahead if ahead > SKEW => Err(format!("issued {ahead} s from now")),
                    _ => Ok(()),
                });
        let claims = match token.claims(&verifier, nonce) {
            Ok(claims) => claims.clone(),
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => {
                return Ok(None);
            }
            Err(error) => return Err(self.judged(&error)),
        };
        if claims.issuer().as_str() != self.issuer {
            return Err(self.not_believed("its ID token names another issuer"));
        }
        Ok(Some(claims))
    }

    /// What a refused token is told to be; the crate's own words quote what the token says.
    fn judged(&self, error: &ClaimsVerificationError) -> SignInError {
        tracing::warn!(provider = self.label, cause = %error, "an ID token was refused");
        match error {
            ClaimsVerificationError::Expired(_) => SignInError::Clock {
                provider: self.label.clone(),
                reason: "its ID token is over, or not yet made, by this index's clock".to_owned(),
            },
            ClaimsVerificationError::InvalidIssuer(_) => {
                self.not_believed("its ID token names another issuer")
            }
            ClaimsVerificationError::InvalidAudience(_) => {
                self.not_believed("its ID token was made for another client")
            }
            ClaimsVerificationError::InvalidNonce(_) => {
                self.not_believed("its ID token belongs to another sign-in")
            }
            ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoSignature
                | SignatureVerificationError::DisallowedAlg(_)
                | SignatureVerificationError::UnsupportedAlg(_),
            ) => self.not_believed("its ID token is not signed with RS256 or ES256"),
            ClaimsVerificationError::SignatureVerification(_) => {
                self.not_believed("the signature of its ID token is wrong")
            }
            _ => self.not_believed("its ID token can't be used"),
        }
    }

    async fn person_of(
        &self,
        out: &Outgoing,
        metadata: &Metadata,
        claims: &Claims,
        access: &SecretString,
    ) -> Result<Person, SignInError> {
        let subject = claims.subject().as_str().to_owned();
        let mut email = claims.email().map(|email| email.as_str().to_owned());
        let mut verified = claims.email_verified();
        let mut login = claims.preferred_username().map(|name| name.as_str().to_owned());
        // Strict issuers put these into `/userinfo` alone, or the one beside the other.
        let is_all_told = email.is_some() && verified.is_some() && login.is_some();
        if let (false, Some(url)) = (is_all_told, &metadata.userinfo_endpoint) {
            let more: UserInfo = out
                .json(url, Some(access))
                .await
                .map_err(|error| SignInError::down(&self.label, &error))?;
            if more.sub != subject {
                return Err(self.not_believed("its `userinfo` tells of somebody else"));
            }
            let more_verified = more.email_verified.as_ref().map(MaybeWritten::is_true);
            if email.is_none() {
                (email, verified) = (more.email, more_verified);
            } else if email == more.email {
                verified = verified.or(more_verified);
            }
            login = login.or(more.preferred_username);
        }
        let hosted = &claims.additional_claims().hd;
        // Google verified an address elsewhere once, when the account was made; it may have changed hands since.
        let vouched_for = |email: &String| {
            verified == Some(true)
                && (!self.hosts_domains || hosted.is_some() || email.ends_with("@gmail.com"))
        };
        let emails: Vec<String> = email.filter(vouched_for).into_iter().collect();
        Ok(Person {
            issuer: self.issuer.clone(),
            // Never a name, nor an address that nobody verified: people choose these themselves.
            login: login
                .or_else(|| emails.first().cloned())
                .unwrap_or_else(|| subject.clone()),
            subject,
            domains: match self.hosts_domains {
                true => hosted.clone().into_iter().collect(),
                false => Person::domains_of(&emails),
            },
            emails,
            organisations: Vec::new(),
        })
    }

    /// What the issuer says of itself, asked when it was not within the last ten minutes. Whoever comes meanwhile waits for that
    /// one look and shares what came of it, a failure too.
    async fn known(&self, out: &Outgoing, clock: &dyn Clock) -> Result<Issuer, SignInError> {
        let came_at = clock.unix_seconds();
        let mut known = self.known.lock().await;
        let now = clock.unix_seconds();
        if let Some((issuer, since)) = &known.issuer
            && (0..KEEP).contains(&(now - since))
        {
            return Ok(issuer.clone());
        }
        if let Some((since, reason)) = &known.failed
            && *since <= now
            && came_at - since < LEAVE_ALONE
        {
            return Err(SignInError::down(&self.label, reason));
        }
        match self.ask(out).await {
            Ok(issuer) => {
                known.issuer = Some((issuer.clone(), clock.unix_seconds()));
                known.failed = None;
                Ok(issuer)
            }
            Err(error) => {
                if let SignInError::Down { reason, .. } = &error {
                    known.failed = Some((clock.unix_seconds(), reason.clone()));
                }
                Err(error)
            }
        }
    }

    /// The keys anew, or those that came of looking within the last minute.
    async fn look_again(&self, out: &Outgoing, clock: &dyn Clock) -> Result<CoreJsonWebKeySet, SignInError> {
        let mut known = self.known.lock().await;
        let now = clock.unix_seconds();
        if let (Some(since), Some((issuer, _))) = (known.looked_again, &known.issuer)
            && (0..LOOK_AGAIN).contains(&(now - since))
        {
            return Ok(issuer.keys.clone());
        }
        known.looked_again = Some(now);
        let issuer = self.ask(out).await?;
        known.issuer = Some((issuer.clone(), clock.unix_seconds()));
        Ok(issuer.keys)
    }

    /// Where the issuer says what it is.
    pub(super) fn configuration(&self) -> Result<Url, SignInError> {
        let issuer = self.issuer.strip_suffix('/').unwrap_or(&self.issuer);
        let configuration = format!("{issuer}/.well-known/openid-configuration");
        Url::parse(&configuration).map_err(|error| SignInError::Internal(error.to_string()))
    }

    /// Looks at what the issuer says of itself and at its keys.
    pub(super) async fn ask(&self, out: &Outgoing) -> Result<Issuer, SignInError> {
        let down = |error: OutgoingError| SignInError::down(&self.label, &error);
        let metadata: Metadata = out.json(&self.configuration()?, None).await.map_err(down)?;
        if !same(&metadata.issuer, &self.issuer) {
            let found: String = metadata.issuer.chars().filter(|c| *c != '`').take(200).collect();
            return Err(self.not_believed(format!(
                "it calls itself `{found}`, and the settings say `{}`: they must be the same to the letter",
                self.issuer
            )));
        }
        let keys: CoreJsonWebKeySet = out.json(&metadata.jwks_uri, None).await.map_err(down)?;
        Ok(Issuer { metadata, keys })
    }
}

/// A time as the system writes it.
fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
