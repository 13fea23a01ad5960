//! An OpenID Connect issuer of our own that makes exactly the wrong token that a test names.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpindex_server::login::settings::LoginSettings;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::browser::{client_of, listen};
use crate::client::NOW;

const CLIENT: &str = "mcpindex";
const SECRET: &str = "oidc-secret-hush";

/// What is wrong with its next answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    Issuer,
    IssuerWithSlash,
    Audience,
    SecondAudience,
    /// Two audiences, and given to us.
    SecondAudienceForUs,
    NoSubject,
    LongSubject,
    AuthorizedParty,
    Unsigned,
    SharedSecret,
    PublicKeyAsSecret,
    OtherKey,
    UnknownKey,
    Expired,
    FromTheFuture,
    NoNonce,
    OtherNonce,
    NoToken,
    NoSignatureBytes,
    /// The answer in the browser comes with the issuer of somebody else (RFC 9207), or without one.
    OtherIss,
    NoIss,
    UserInfoOfAnother,
    EmailNotVerified,
    /// The address is in the ID token, and whether it is verified in `userinfo` alone, as a text.
    EmailInBoth,
    /// The same, of another address.
    EmailsDiffer,
    /// The address is in the ID token, verified as a text.
    EmailInToken,
    /// Nobody says how the person is called, but for a name they chose.
    OnlyName,
    /// Discovery names another issuer.
    Discovery,
    /// Discovery fails.
    Broken,
}

pub(crate) struct OwnIssuer {
    pub(crate) url: String,
    state: Arc<Issuer>,
}

struct Issuer {
    url: Mutex<String>,
    wrong: Mutex<Wrong>,
    key: Mutex<Key>,
    nonces: Mutex<BTreeMap<String, String>>,
    asked_for_keys: AtomicUsize,
    asked_for_configuration: AtomicUsize,
    /// While somebody holds it, nobody is told the configuration.
    open: tokio::sync::RwLock<()>,
}

struct Key {
    id: String,
    pair: EcdsaKeyPair,
}

impl Key {
    fn new(id: &str) -> Key {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        Key {
            id: id.to_owned(),
            pair,
        }
    }

    fn published(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(&point[1..33]),
            "y": URL_SAFE_NO_PAD.encode(&point[33..65]),
        })
    }

    fn sign(&self, signed: &str) -> Vec<u8> {
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        signature.as_ref().to_vec()
    }
}

impl OwnIssuer {
    pub(crate) async fn start() -> OwnIssuer {
        let state = Arc::new(Issuer {
            url: Mutex::default(),
            wrong: Mutex::new(Wrong::Nothing),
            key: Mutex::new(Key::new("key-1")),
            nonces: Mutex::default(),
            asked_for_keys: AtomicUsize::new(0),
            asked_for_configuration: AtomicUsize::new(0),
            open: tokio::sync::RwLock::default(),
        });
        let shared = Arc::clone(&state);
        let url = listen(|url| {
            *shared.url.lock().unwrap() = url.to_owned();
            Router::new()
                .route("/.well-known/openid-configuration", get(configuration))
                .route("/authorize", get(authorize))
                .route("/token", post(token))
                .route("/userinfo", get(user_info))
                .route("/keys", get(keys))
                .with_state(shared)
        })
        .await;
        OwnIssuer { url, state }
    }

    pub(crate) fn settings(&self) -> LoginSettings {
        LoginSettings {
            oidc: client_of(CLIENT, SECRET),
            oidc_issuer: Some(self.url.clone()),
            oidc_name: Some("Own".to_owned()),
            allow: vec!["domain:acme.example".parse().unwrap()],
            ..LoginSettings::default()
        }
    }

    pub(crate) fn wrong(&self, wrong: Wrong) {
        *self.state.wrong.lock().unwrap() = wrong;
    }

    /// Puts a new key in the place of its own.
    pub(crate) fn change_key(&self) {
        *self.state.key.lock().unwrap() = Key::new("key-2");
    }

    /// How often its keys were asked for.
    pub(crate) fn asked_for_keys(&self) -> usize {
        self.state.asked_for_keys.load(Ordering::SeqCst)
    }

    /// It answers nothing until this is let go, and is broken then.
    pub(crate) async fn hang(&self) -> tokio::sync::RwLockWriteGuard<'_, ()> {
        self.wrong(Wrong::Broken);
        self.state.open.write().await
    }

    pub(crate) fn asked_for_configuration(&self) -> usize {
        self.state.asked_for_configuration.load(Ordering::SeqCst)
    }
}

impl Issuer {
    fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    fn wrong(&self) -> Wrong {
        *self.wrong.lock().unwrap()
    }

    fn id_token(&self, nonce: &str) -> String {
        let wrong = self.wrong();
        let mut claims = json!({
            "iss": self.url(), "sub": "subject-1", "aud": CLIENT, "nonce": nonce,
            "iat": NOW, "exp": NOW + 300, "preferred_username": "alice",
        });
        let mut header = json!({"alg": "ES256", "kid": "key-1", "typ": "JWT"});
        match wrong {
            Wrong::Issuer => claims["iss"] = json!("https://evil.example"),
            Wrong::IssuerWithSlash => claims["iss"] = json!(format!("{}/", self.url())),
            Wrong::Audience => claims["aud"] = json!("another-client"),
            Wrong::SecondAudience => claims["aud"] = json!([CLIENT, "another-client"]),
            Wrong::SecondAudienceForUs => {
                claims["aud"] = json!([CLIENT, "another-client"]);
                claims["azp"] = json!(CLIENT);
            }
            Wrong::NoSubject => claims["sub"] = json!(""),
            Wrong::LongSubject => claims["sub"] = json!("s".repeat(1_200)),
            Wrong::EmailInBoth | Wrong::EmailsDiffer => claims["email"] = json!("alice@acme.example"),
            Wrong::EmailInToken => {
                claims["email"] = json!("alice@acme.example");
                claims["email_verified"] = json!("true");
            }
            Wrong::OnlyName => {
                claims.as_object_mut().unwrap().remove("preferred_username");
            }
            Wrong::AuthorizedParty => claims["azp"] = json!("another-client"),
            Wrong::Expired => claims["exp"] = json!(NOW - 61),
            Wrong::FromTheFuture => {
                claims["iat"] = json!(NOW + 120);
                claims["exp"] = json!(NOW + 420);
            }
            Wrong::OtherNonce => claims["nonce"] = json!("another"),
            Wrong::NoNonce => {
                claims.as_object_mut().unwrap().remove("nonce");
            }
            Wrong::Unsigned => header = json!({"alg": "none"}),
            Wrong::SharedSecret | Wrong::PublicKeyAsSecret => {
                header = json!({"alg": "HS256", "kid": "key-1"});
            }
            Wrong::UnknownKey => header["kid"] = json!("key-nobody-has"),
            _ => {}
        }
        let key = self.key.lock().unwrap();
        if header["kid"] == "key-1" {
            header["kid"] = json!(key.id);
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let hmac = |secret: &[u8]| {
            let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
            ring::hmac::sign(&secret, signed.as_bytes()).as_ref().to_vec()
        };
        let signature = match wrong {
            Wrong::Unsigned | Wrong::NoSignatureBytes => Vec::new(),
            Wrong::SharedSecret => hmac(SECRET.as_bytes()),
            Wrong::PublicKeyAsSecret => hmac(key.pair.public_key().as_ref()),
            Wrong::OtherKey => Key::new(&key.id).sign(&signed),
            _ => key.sign(&signed),
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

type Shared = State<Arc<Issuer>>;

async fn configuration(State(issuer): Shared) -> Response {
    issuer.asked_for_configuration.fetch_add(1, Ordering::SeqCst);
    let _open = issuer.open.read().await;
    if issuer.wrong() == Wrong::Broken {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let url = issuer.url();
    let named = match issuer.wrong() {
        Wrong::Discovery => format!("{url}/"),
        _ => url.clone(),
    };
    Json(json!({
        "issuer": named,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "userinfo_endpoint": format!("{url}/userinfo"),
        "jwks_uri": format!("{url}/keys"),
        "authorization_response_iss_parameter_supported": true,
    }))
    .into_response()
}

async fn keys(State(issuer): Shared) -> Json<Value> {
    issuer.asked_for_keys.fetch_add(1, Ordering::SeqCst);
    // Beside its own, keys of kinds that nobody here can use: they are passed over.
    Json(json!({"keys": [
        {"kty": "oct", "kid": "secret", "k": "AAAA"},
        {"kty": "XYZ", "kid": "tomorrow"},
        issuer.key.lock().unwrap().published(),
    ]}))
}

async fn authorize(State(issuer): Shared, Query(query): Query<BTreeMap<String, String>>) -> Redirect {
    assert_eq!(query["client_id"], CLIENT);
    assert_eq!(query["scope"], "openid email profile");
    assert_eq!(query["code_challenge_method"], "S256");
    let mut nonces = issuer.nonces.lock().unwrap();
    let code = format!("code-{}", nonces.len());
    nonces.insert(code.clone(), query["nonce"].clone());
    let mut back: url::Url = query["redirect_uri"].parse().unwrap();
    back.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", &query["state"]);
    match issuer.wrong() {
        Wrong::OtherIss => back.query_pairs_mut().append_pair("iss", "https://evil.example"),
        Wrong::NoIss => &mut back.query_pairs_mut(),
        _ => back.query_pairs_mut().append_pair("iss", &issuer.url()),
    };
    Redirect::to(back.as_str())
}

async fn token(State(issuer): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{CLIENT}:{SECRET}"));
    if headers
        .get("authorization")
        .is_none_or(|value| value.to_str().unwrap() != format!("Basic {basic}"))
    {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "invalid_client"}))).into_response();
    }
    let Some(nonce) = issuer.nonces.lock().unwrap().remove(&form["code"]) else {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    };
    let mut answer = json!({"access_token": "access-hush", "token_type": "Bearer", "expires_in": 60});
    if issuer.wrong() != Wrong::NoToken {
        answer["id_token"] = json!(issuer.id_token(&nonce));
    }
    Json(answer).into_response()
}

/// The e-mail address is here alone, as strict issuers have it.
async fn user_info(State(issuer): Shared, headers: HeaderMap) -> Response {
    if headers["authorization"] != "Bearer access-hush" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let wrong = issuer.wrong();
    let sub = match wrong {
        Wrong::UserInfoOfAnother => "subject-2".to_owned(),
        Wrong::LongSubject => "s".repeat(1_200),
        _ => "subject-1".to_owned(),
    };
    let (email, verified) = match wrong {
        Wrong::EmailNotVerified => ("alice@acme.example", json!(false)),
        Wrong::EmailInBoth => ("alice@acme.example", json!("true")),
        Wrong::EmailsDiffer => ("other@acme.example", json!(true)),
        _ => ("alice@acme.example", json!(true)),
    };
    let name = "boss@acme.example";
    Json(json!({"sub": sub, "email": email, "email_verified": verified, "name": name})).into_response()
}
