//! How programs get a key: a one-time code for it (`mcpindex login`), the device grant (RFC 8628), and the published client's
//! door.
//!
//! Invariant: a key stands in one answer, to the program that it was made for; whatever goes wrong says no more than a program
//! needs to go on.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use mcpindex::login::{challenge_of, code};
use mcpindex_store::accounts::{KeyRecord, Polled, Redeemed, SecretHash};
use mcpindex_store::signals::Network;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body_of;
use crate::access::key::KeyText;
use crate::access::limits::Counted;
use crate::app::App;
use crate::links;
use crate::login::key::{material, refused};
use crate::login::program::{PublishedCallback, machine_name};
use crate::login::secret::Secret;
use crate::pages::device::network_shown;
use crate::problem::{AsPublished, Problem};
use crate::query::Query;
use crate::when::rfc3339;

/// Seconds that a device's request is good for, and between two polls.
const DEVICE_EXPIRES_IN: i64 = 600;
const DEVICE_INTERVAL: i64 = 5;
/// How often a user code that is in use is made anew: with 10,000 requests open, one in two million is taken.
const USER_CODES: usize = 5;
/// Letters of a user code: there are 20^8 = 25,600,000,000.
pub(crate) const USER_CODE: usize = 8;

/// An answer that no cache keeps and whose body stays as it is.
fn as_it_is(status: StatusCode, body: impl Serialize) -> Response {
    let mut response = (status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response();
    response.extensions_mut().insert(AsPublished);
    response
}

/// Why there is no key, in one word.
#[derive(Serialize, ToSchema)]
#[schema(as = NoKey)]
pub(crate) struct NoKeyBody {
    error: &'static str,
}

/// The key, for the program that asked.
#[derive(Serialize, ToSchema)]
pub(crate) struct GivenKey {
    /// The whole key: it is shown in this answer alone.
    key: String,
    key_id: String,
    login: String,
    /// RFC 3339; null: it doesn't end by itself.
    #[schema(required)]
    expires_at: Option<String>,
}

fn given(text: &KeyText, record: KeyRecord) -> Response {
    as_it_is(
        StatusCode::OK,
        GivenKey {
            key: text.expose().to_owned(),
            key_id: record.id,
            login: record.login,
            expires_at: record.expires_at.and_then(rfc3339),
        },
    )
}

/// A one-time code, as it came to the program over loopback.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeBody {
    code: String,
    /// What the challenge that the program began with was made of (RFC 7636, S256).
    code_verifier: String,
}

/// Gives the key for a one-time code that somebody allowed. A code is good for 60 seconds and once: whoever brings it again ends
/// the key that it gave.
#[utoipa::path(
    post,
    path = "/api/v1/cli/token",
    tag = "sign-in",
    security(()),
    request_body = CodeBody,
    responses(
        (status = 200, body = GivenKey),
        (status = 409, description = "The account has too many keys"),
        (status = 413, description = "More than 64 KiB"),
        (status = 429, description = "Too many codes came from this address"),
    )
)]
pub(crate) async fn cli_token(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let address = app.access.sender(request.extensions(), request.headers());
    if !app.access.limits.allows(Counted::CodeRedeemed, address, 1) {
        return Err(Problem::limited(
            app.access.limits.come_again(Counted::CodeRedeemed),
            "too many codes came from your address",
        ));
    }
    let brought: CodeBody = body_of(request, "`{\"code\": …, \"code_verifier\": …}`").await?;
    let challenge = challenge_of(&brought.code_verifier);
    let (text, material) = material(Network::of(address), app.now())?;
    let redeemed = app
        .store
        .redeem_code(SecretHash::of(&brought.code), &challenge, &material, app.now())
        .await
        .map_err(refused)?;
    match redeemed {
        Redeemed::Key(record) => return Ok(given(&text, record)),
        Redeemed::Spent { revoked: Some(key) } => {
            app.access.keys.forget(&key);
            tracing::warn!(
                key,
                "a one-time code was brought twice: the key that it gave is revoked"
            );
        }
        Redeemed::Spent { revoked: None } | Redeemed::WrongVerifier => {
            tracing::warn!("a one-time code was brought by somebody whom it is not for");
        }
        Redeemed::Unknown => {}
    }
    Err(Problem::invalid_code())
}

/// Which machine asks.
#[derive(Deserialize, ToSchema)]
pub(crate) struct DeviceBody {
    /// What it calls itself.
    #[serde(default)]
    name: String,
}

/// RFC 8628's answer to a device.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeviceStarted {
    device_code: String,
    user_code: String,
    verification_uri: String,
    expires_in: i64,
    interval: i64,
}

fn device_is_on(app: &App) -> Result<(), Problem> {
    match app.login.device {
        true => Ok(()),
        false => Err(Problem::unknown(
            "no-device-sign-in",
            "Not switched on here",
            "programs without a browser can't ask for a key here (`[login] device`); `mcpindex login --with-token` takes one \
             that was made elsewhere"
                .to_owned(),
        )),
    }
}

/// Begins a sign-in of a machine without a browser (RFC 8628).
#[utoipa::path(
    post,
    path = "/api/v1/device/code",
    tag = "sign-in",
    security(()),
    request_body = DeviceBody,
    responses(
        (status = 200, body = DeviceStarted),
        (status = 404, description = "Not switched on here"),
        (status = 413, description = "More than 64 KiB"),
        (status = 429, description = "Too many sign-ins were begun from this address"),
    )
)]
pub(crate) async fn device_code(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    device_is_on(&app)?;
    let address = app.access.sender(request.extensions(), request.headers());
    if !app.access.limits.allows(Counted::LoginStart, address, 1) {
        return Err(Problem::limited(
            app.access.limits.come_again(Counted::LoginStart),
            "too many sign-ins were begun from your address",
        ));
    }
    let asked: DeviceBody = body_of(request, "`{\"name\": …}`").await?;
    let device = Secret::generate().map_err(|error| Problem::internal(&error))?;
    let (name, network) = (machine_name(&asked.name), network_shown(address, &app.base));
    for _ in 0..USER_CODES {
        let letters = code::drawn(code::LETTERS, USER_CODE).map_err(|error| Problem::internal(&error))?;
        let user_code = code::grouped(&letters);
        let begun = app
            .store
            .begin_device(device.hash(), &user_code, &name, &network, app.now())
            .await?;
        if begun {
            return Ok(as_it_is(
                StatusCode::OK,
                DeviceStarted {
                    device_code: device.expose().to_owned(),
                    user_code,
                    verification_uri: format!("{}device", app.base),
                    expires_in: DEVICE_EXPIRES_IN,
                    interval: DEVICE_INTERVAL,
                },
            ));
        }
    }
    Err(Problem::unavailable("no code was free; try again in a moment"))
}

/// Which sign-in.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PollBody {
    #[schema(min_length = 1)]
    device_code: String,
}

/// Gives the key once somebody allowed it. Until then it is refused with RFC 8628's words: `authorization_pending`, `slow_down`,
/// `access_denied`, `expired_token`.
#[utoipa::path(
    post,
    path = "/api/v1/device/token",
    tag = "sign-in",
    security(()),
    request_body = PollBody,
    responses(
        (status = 200, body = GivenKey),
        (status = 400, body = NoKeyBody),
        (status = 404, description = "Not switched on here"),
        (status = 409, description = "The account has too many keys"),
        (status = 413, description = "More than 64 KiB"),
    )
)]
pub(crate) async fn device_token(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    device_is_on(&app)?;
    let address = app.access.sender(request.extensions(), request.headers());
    let poll: PollBody = body_of(request, "`{\"device_code\": …}`").await?;
    // A poll writes; whoever asks too often is told so in the grant's own words.
    if !app.access.limits.allows(Counted::DevicePoll, address, 1) {
        return Ok(as_it_is(
            StatusCode::BAD_REQUEST,
            NoKeyBody { error: "slow_down" },
        ));
    }
    let (text, material) = material(Network::of(address), app.now())?;
    let polled = app
        .store
        .poll_device(SecretHash::of(&poll.device_code), &material, app.now())
        .await
        .map_err(refused)?;
    let error = match polled {
        Polled::Key(record) => return Ok(given(&text, record)),
        Polled::Pending => "authorization_pending",
        Polled::SlowDown => "slow_down",
        Polled::Denied => "access_denied",
        Polled::Expired => "expired_token",
    };
    Ok(as_it_is(StatusCode::BAD_REQUEST, NoKeyBody { error }))
}

/// Where published clients lead a browser, with the published answers.
#[utoipa::path(
    get,
    path = "/api/auth/login/start",
    tag = "sign-in",
    security(()),
    params(
        ("cli_callback" = String, Query, description = "`http://127.0.0.1:PORT/…` or the same with `localhost`"),
        ("provider" = Option<String>, Query, description = "The provider to go straight to"),
    ),
    responses(
        (status = 303, description = "The browser goes on to sign in and to decide"),
        (status = 400, body = NoKeyBody),
        (status = 404, body = NoKeyBody),
        (status = 429, body = NoKeyBody),
    )
)]
pub(crate) async fn published_start(State(app): State<App>, uri: Uri, request: Request) -> Response {
    let refused = |status, error| as_it_is(status, NoKeyBody { error });
    if !app.login.published_form {
        return refused(StatusCode::NOT_FOUND, "not_found");
    }
    let address = app.access.sender(request.extensions(), request.headers());
    if !app.access.limits.allows(Counted::LoginStart, address, 1) {
        return refused(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    }
    let query = Query::lenient(&uri);
    let Some(callback) = query.value("cli_callback").and_then(PublishedCallback::parse) else {
        return refused(StatusCode::BAD_REQUEST, "bad_callback");
    };
    // Programs' addresses read no cookies, so a page goes on.
    let parameters = [
        ("cli_callback", Some(callback.as_str().to_owned())),
        ("provider", query.value("provider").map(str::to_owned)),
    ];
    let path = links::with_query("/cli/published", &parameters);
    ([(CACHE_CONTROL, "no-store")], Redirect::to(&path)).into_response()
}
