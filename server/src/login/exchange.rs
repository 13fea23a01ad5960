//! The part of OAuth 2 that all providers share: where the browser is sent, and the code for a token.
//!
//! Invariant: PKCE goes with every request, whether a provider asks for it or not; what a provider says on its error page is
//! told as one plain word.

use oauth2::basic::{
    BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::{
    AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, ExtraTokenFields,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, StandardRevocableToken,
    StandardTokenResponse, TokenResponse as _, TokenUrl,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::error::SignInError;
use super::outgoing::{Outgoing, OutgoingError};
use super::secret::Secret;

/// What a provider knows this index by, as it is used.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) secret: Option<SecretString>,
}

/// What the token's answer has beside the token.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Beside {
    #[serde(default, skip_serializing)]
    id_token: Option<String>,
}

impl ExtraTokenFields for Beside {}

type Client = oauth2::Client<
    BasicErrorResponse,
    StandardTokenResponse<Beside, BasicTokenType>,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
>;

/// What came for a code.
pub(crate) struct Tokens {
    pub(crate) access: SecretString,
    pub(crate) id: Option<SecretString>,
}

/// How a code is exchanged.
pub(crate) struct Exchange<'e> {
    pub(crate) provider: &'e str,
    pub(crate) client: &'e Registered,
    pub(crate) token_url: &'e Url,
    pub(crate) redirect: &'e Url,
    /// Whether the secret goes in the body rather than in a header.
    pub(crate) secret_in_body: bool,
}

fn internal(error: impl std::fmt::Display) -> SignInError {
    SignInError::Internal(error.to_string())
}

fn client(registered: &Registered) -> Client {
    let client = Client::new(ClientId::new(registered.id.clone()));
    match &registered.secret {
        Some(secret) => client.set_client_secret(ClientSecret::new(secret.expose_secret().to_owned())),
        None => client,
    }
}

fn verifier(secret: &Secret) -> Result<PkceCodeVerifier, SignInError> {
    let verifier = secret.derive("verifier").ok_or_else(|| internal("no HMAC"))?;
    Ok(PkceCodeVerifier::new(verifier))
}

/// Where the browser is sent; `nonce` for OpenID Connect.
pub(crate) fn authorize_url(
    registered: &Registered,
    authorize: &Url,
    redirect: &Url,
    scopes: &[&str],
    secret: &Secret,
    nonce: Option<String>,
) -> Result<Url, SignInError> {
    let state = secret.derive("state").ok_or_else(|| internal("no HMAC"))?;
    let challenge = PkceCodeChallenge::from_code_verifier_sha256(&verifier(secret)?);
    let client = client(registered)
        .set_auth_uri(AuthUrl::from_url(authorize.clone()))
        .set_redirect_uri(RedirectUrl::from_url(redirect.clone()));
    let mut request = client
        .authorize_url(|| CsrfToken::new(state))
        .set_pkce_challenge(challenge);
    for scope in scopes {
        request = request.add_scope(Scope::new((*scope).to_owned()));
    }
    if let Some(nonce) = nonce {
        request = request.add_extra_param("nonce", nonce);
    }
    Ok(request.url().0)
}

impl Exchange<'_> {
    /// The tokens for this code.
    pub(crate) async fn tokens(
        &self,
        out: &Outgoing,
        code: &str,
        secret: &Secret,
    ) -> Result<Tokens, SignInError> {
        let client = client(self.client)
            .set_auth_type(match self.secret_in_body {
                true => AuthType::RequestBody,
                false => AuthType::BasicAuth,
            })
            .set_token_uri(TokenUrl::from_url(self.token_url.clone()))
            .set_redirect_uri(RedirectUrl::from_url(self.redirect.clone()));
        let answer = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(verifier(secret)?)
            .request_async(out)
            .await
            .map_err(|error| self.failed(error))?;
        Ok(Tokens {
            access: answer.access_token().secret().clone().into(),
            id: answer.extra_fields().id_token.clone().map(SecretString::from),
        })
    }

    fn failed(&self, error: RequestTokenError<OutgoingError, BasicErrorResponse>) -> SignInError {
        let refused = |error: &str| SignInError::refused(self.provider, error);
        match error {
            RequestTokenError::ServerResponse(answer) => refused(answer.error().as_ref()),
            RequestTokenError::Request(error) => SignInError::down(self.provider, &error),
            // GitHub answers 200 to a code that it doesn't take.
            RequestTokenError::Parse(_, body) => match serde_json::from_slice::<BasicErrorResponse>(&body) {
                Ok(answer) => refused(answer.error().as_ref()),
                Err(_) => SignInError::down(self.provider, &"its answer to the code can't be read"),
            },
            RequestTokenError::Other(reason) => SignInError::down(self.provider, &reason),
        }
    }
}
