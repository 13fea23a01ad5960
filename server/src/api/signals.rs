//! What installs tell and ask, in the published clients' own shapes, errors included: `{"error": "…"}` and no problem.
//!
//! Invariant: a request is refused whole, with nothing kept, or all of it is durable when it is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use mcpindex_contract::json::{self, Value};
use mcpindex_contract::signal::{self, Fingerprint, InstallId, MAX_SIGNALS, Signal};
use mcpindex_store::StoreError;
use mcpindex_store::accounts::SecretHash;
use mcpindex_store::signals::{Network, Received, Registration};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::shapes::{
    AnswerShape, AnswersShape, FingerprintsShape, InstallShape, NotRevokedShape, SignalBatch,
};
use crate::access::keys::KeyHolder;
use crate::access::limits::{Counted, Sender};
use crate::access::{Access, Caller, Read};
use crate::app::App;
use crate::assets::hex;
use crate::ingest::Ingest;
use crate::ingest::fleet::Answer;
use crate::measure;
use crate::problem::AsPublished;

/// The largest batch, in bytes: 256 signals of version 2 with many kinds each.
pub(super) const MAX_BATCH_BODY: usize = 1024 * 1024;
/// The largest question, in bytes: 256 fingerprints.
const MAX_QUESTION_BODY: usize = 64 * 1024;
/// The most fingerprints in one question.
const MAX_FINGERPRINTS: usize = 256;
/// The most installs of one batch that are looked at for proof.
const MAX_PROVED: usize = 32;
/// Where the install token is when `Authorization` has a key.
const INSTALL_TOKEN: &str = "mcpindex-install-token";
/// Seconds after which a batch that found no room may come again.
const BUSY_FOR: u64 = 5;

/// An error in the published form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    error: &'static str,
    retry_after: Option<u64>,
}

/// An error as the published clients know it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refusal)]
pub(crate) struct RefusalBody {
    error: &'static str,
    /// How many there may be, where there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<usize>,
}

/// A refusal without a time to come again.
pub(super) const fn refusal(status: StatusCode, error: &'static str) -> Refusal {
    Refusal {
        status,
        error,
        retry_after: None,
    }
}

pub(super) const NOT_FOUND: Refusal = refusal(StatusCode::NOT_FOUND, "not_found");
const MEDIA_TYPE: Refusal = refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type");
const TOO_LARGE: Refusal = refusal(StatusCode::PAYLOAD_TOO_LARGE, "too_large");
const INVALID_JSON: Refusal = refusal(StatusCode::BAD_REQUEST, "invalid_json");
const INVALID_INSTALL: Refusal = refusal(StatusCode::BAD_REQUEST, "invalid_install_id");
const INVALID_FP: Refusal = refusal(StatusCode::BAD_REQUEST, "invalid_fp");
const INVALID_FPS: Refusal = refusal(StatusCode::BAD_REQUEST, "invalid_fps");
const MISSING_TOKEN: Refusal = refusal(StatusCode::UNAUTHORIZED, "missing_token");
const REGISTERED: Refusal = refusal(StatusCode::CONFLICT, "already_registered");
/// A sender who did too much may come again after so many seconds.
fn limited(after: u16) -> Refusal {
    Refusal {
        status: StatusCode::TOO_MANY_REQUESTS,
        error: "rate_limited",
        retry_after: Some(after.into()),
    }
}

pub(super) const BUSY: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    error: "busy",
    retry_after: Some(BUSY_FOR),
};
const NO_IDENTITIES: Refusal = Refusal {
    status: StatusCode::SERVICE_UNAVAILABLE,
    error: "identity_store_unavailable",
    retry_after: Some(BUSY_FOR),
};

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = RefusalBody {
            error: self.error,
            max: None,
        };
        let mut response = as_published(self.status, &body);
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// An answer whose body stays as it is, whatever its status.
fn as_published(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.extensions_mut().insert(AsPublished);
    response
}

/// A request of an install to an index that takes what installs tell.
pub(super) struct Asked {
    pub(super) ingest: Arc<Ingest>,
    access: Arc<Access>,
    /// The key it came with.
    key: Option<Arc<KeyHolder>>,
    /// Whether nobody is known to ask.
    is_anonymous: bool,
    pub(super) address: IpAddr,
    headers: HeaderMap,
    query: Option<String>,
    body: Body,
}

impl Asked {
    pub(super) fn of(app: &App, request: Request) -> Result<Asked, Refusal> {
        let ingest = app.ingest.clone().ok_or(NOT_FOUND)?;
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<Caller>();
        let key = match caller {
            Some(Caller::Key(holder)) => Some(Arc::clone(holder)),
            _ => None,
        };
        let is_anonymous = caller.is_none_or(Caller::is_anonymous);
        let address = app.access.sender(&parts.extensions, &parts.headers);
        Ok(Asked {
            ingest,
            access: Arc::clone(&app.access),
            key,
            is_anonymous,
            address,
            query: parts.uri.query().map(str::to_owned),
            headers: parts.headers,
            body,
        })
    }

    /// Whether what the crawl saw is told: at an index that is its members', where anybody may ask what installs told, only to them.
    fn sees_crawl(&self) -> bool {
        self.access.rules.read == Read::Public || !self.is_anonymous
    }

    pub(super) fn limit(&self, counted: Counted, amount: usize) -> Result<(), Refusal> {
        let amount = u64::try_from(amount).unwrap_or(u64::MAX);
        let limits = &self.access.limits;
        let by_key = match counted {
            Counted::Batches | Counted::ReceiptBatches => Some(Counted::KeyBatches),
            Counted::Signals | Counted::Receipts => Some(Counted::KeySignals),
            _ => None,
        };
        let allows_key = |counted| {
            let key = self.key.as_ref().map(|holder| Sender::Key(&holder.key.id));
            key.is_none_or(|key| limits.allows(counted, key, amount))
        };
        // A key may be used from many addresses, and an address have many keys.
        if !limits.allows(counted, self.address, amount) {
            return Err(limited(limits.come_again(counted)));
        }
        match by_key {
            Some(counted) if !allows_key(counted) => Err(limited(limits.come_again(counted))),
            _ => Ok(()),
        }
    }

    pub(super) fn is_json(&self) -> Result<(), Refusal> {
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let is_json =
            content_type.is_some_and(|value| value.to_ascii_lowercase().contains("application/json"));
        if is_json { Ok(()) } else { Err(MEDIA_TYPE) }
    }

    /// The whole body, of at most so many bytes.
    pub(super) async fn body(&mut self, most: usize) -> Result<Vec<u8>, Refusal> {
        let body = std::mem::take(&mut self.body);
        match to_bytes(body, most).await {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(if is_over_limit(error) {
                TOO_LARGE
            } else {
                INVALID_JSON
            }),
        }
    }

    /// `Authorization: Bearer TOKEN`, by the token's hash; beside a key, the token has a header of its own.
    pub(super) fn token(&self) -> Option<SecretHash> {
        if self.key.is_some() {
            let token = self.headers.get(INSTALL_TOKEN)?.to_str().ok()?.trim();
            return (!token.is_empty()).then(|| SecretHash::of(token));
        }
        let value = self.headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| SecretHash::of(token))
    }
}

/// Whether reading ended because there was more than asked for; else the sender broke off.
fn is_over_limit(error: axum::Error) -> bool {
    error.into_inner().is::<http_body_util::LengthLimitError>()
}

/// Takes a batch of signals in; acknowledged when it is durable.
#[utoipa::path(
    post,
    path = "/api/v1/drift",
    tag = "signals",
    security((), ("install" = []), ("key" = [])),
    request_body = SignalBatch,
    responses(
        (status = 204, description = "All of it is kept"),
        (status = 400, body = RefusalBody, description = "`invalid_json` or `invalid_signal`; nothing of it is kept"),
        (status = 404, body = RefusalBody, description = "Signals are not taken here"),
        (status = 413, body = RefusalBody, description = "More than 1 MiB"),
        (status = 415, body = RefusalBody, description = "Not `application/json`"),
        (status = 422, body = RefusalBody, description = "`hour_out_of_range`: a signal of version 2 is older than 7 days, or ahead of time"),
        (status = 429, body = RefusalBody, description = "More than one address may send; `Retry-After` says when to come again"),
        (status = 503, body = RefusalBody, description = "`busy`: nothing of it is kept; `Retry-After` says when to come again"),
    )
)]
pub(crate) async fn drift(State(app): State<Arc<App>>, request: Request) -> Response {
    let response = match take_in(&app, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    };
    measure::batch("signals", response.status());
    response
}

async fn take_in(app: &App, request: Request) -> Result<(), Refusal> {
    let mut asked = Asked::of(app, request)?;
    asked.is_json()?;
    asked.limit(Counted::Batches, 1)?;
    let body = asked.body(MAX_BATCH_BODY).await?;
    let signals = signal::read(&body, app.now()).map_err(|error| {
        tracing::debug!(%error, "a batch was refused");
        let status = match error.name() {
            "hour_out_of_range" => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        };
        refusal(status, error.name())
    })?;
    asked.limit(Counted::Signals, signals.len())?;
    let proved = match asked.token() {
        Some(token) => proved(app, &signals, token).await.map_err(|error| {
            measure::store_error(&error);
            tracing::error!(%error, "a token could not be looked up");
            BUSY
        })?,
        None => BTreeSet::new(),
    };
    let network = Network::of(asked.address);
    let received = signals.into_iter().map(|signal| Received {
        authenticated: proved.contains(&signal.install),
        network: network.clone(),
        signal,
    });
    asked.ingest.queue.put(received.collect()).await.map_err(|_| BUSY)
}

/// The installs of these signals that the token belongs to.
async fn proved(app: &App, signals: &[Signal], token: SecretHash) -> Result<BTreeSet<InstallId>, StoreError> {
    let mut installs = BTreeSet::new();
    for signal in signals {
        if installs.len() < MAX_PROVED {
            installs.insert(signal.install);
        }
    }
    app.store.installs_of_token(&installs, token).await
}

/// A token is shown to whoever asked for it and to nobody else.
#[derive(Serialize, ToSchema)]
pub(crate) struct RegisteredBody {
    install_id: String,
    install_token: String,
}

/// Gives an install its token, or a new one in the place of the one it shows.
#[utoipa::path(
    post,
    path = "/api/v1/drift/register",
    tag = "signals",
    security((), ("install" = []), ("key" = [])),
    request_body = InstallShape,
    responses(
        (status = 200, body = RegisteredBody),
        (status = 400, body = RefusalBody, description = "`invalid_json` or `invalid_install_id`"),
        (status = 404, body = RefusalBody, description = "Signals are not taken here"),
        (status = 409, body = RefusalBody, description = "The install has a token, and it was not shown"),
        (status = 413, body = RefusalBody, description = "More than 64 KiB"),
        (status = 429, body = RefusalBody, description = "More than one address may ask; `Retry-After` says when to come again"),
        (status = 503, body = RefusalBody, description = "`identity_store_unavailable`: try again later"),
    )
)]
pub(crate) async fn register(State(app): State<App>, request: Request) -> Response {
    match give_token(&app, request).await {
        Ok(body) => ([(CACHE_CONTROL, "no-store")], Json(body)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn give_token(app: &App, request: Request) -> Result<RegisteredBody, Refusal> {
    let mut asked = Asked::of(app, request)?;
    asked.limit(Counted::Registrations, 1)?;
    let body = asked.body(MAX_QUESTION_BODY).await?;
    let install = install_of_body(&body)?;
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| {
        tracing::error!(%error, "no random numbers to be had");
        NO_IDENTITIES
    })?;
    let token = hex(&random);
    let registering = app
        .store
        .register_install(install, SecretHash::of(&token), asked.token(), app.now());
    match registering.await {
        Ok(Registration::Done) => Ok(RegisteredBody {
            install_id: install.to_string(),
            install_token: token,
        }),
        Ok(Registration::Taken) => Err(REGISTERED),
        Err(error) => {
            measure::store_error(&error);
            tracing::error!(%error, "an install could not be registered");
            Err(NO_IDENTITIES)
        }
    }
}

/// Takes an install's token back; the token proves who asks.
#[utoipa::path(
    delete,
    path = "/api/v1/drift/register",
    tag = "signals",
    security(("install" = []), ("key" = [])),
    params(("install_id" = Option<String>, Query, pattern = "^[0-9a-f]{32}$", description = "The install; or it stands in the body")),
    request_body = Option<InstallShape>,
    responses(
        (status = 200, body = RevokedBody),
        (status = 400, body = RefusalBody, description = "`invalid_json` or `invalid_install_id`"),
        (status = 401, body = RefusalBody, description = "No token was shown"),
        (status = 404, body = NotRevokedShape, description = "It is not this install's token, or signals are not taken here"),
        (status = 413, body = RefusalBody, description = "More than 64 KiB"),
        (status = 429, body = RefusalBody, description = "More than one address may ask; `Retry-After` says when to come again"),
        (status = 503, body = RefusalBody, description = "`identity_store_unavailable`: try again later"),
    )
)]
pub(crate) async fn revoke(State(app): State<App>, request: Request) -> Response {
    match take_token_back(&app, request).await {
        Ok(true) => Json(RevokedBody { revoked: true }).into_response(),
        Ok(false) => as_published(StatusCode::NOT_FOUND, &RevokedBody { revoked: false }),
        Err(refusal) => refusal.into_response(),
    }
}

/// Whether the token was this install's.
#[derive(Serialize, ToSchema)]
pub(crate) struct RevokedBody {
    revoked: bool,
}

async fn take_token_back(app: &App, request: Request) -> Result<bool, Refusal> {
    let mut asked = Asked::of(app, request)?;
    asked.limit(Counted::Registrations, 1)?;
    let token = asked.token().ok_or(MISSING_TOKEN)?;
    let install = match parameter(asked.query.as_deref(), "install_id") {
        Some(install) => install.parse().map_err(|_| INVALID_INSTALL)?,
        None => install_of_body(&asked.body(MAX_QUESTION_BODY).await?)?,
    };
    app.store.revoke_install(install, token).await.map_err(|error| {
        measure::store_error(&error);
        tracing::error!(%error, "a token could not be taken back");
        NO_IDENTITIES
    })
}

/// `{"install_id": "…"}` and nothing else.
fn install_of_body(body: &[u8]) -> Result<InstallId, Refusal> {
    let value = read(body)?;
    let Value::Object(members) = value else {
        return Err(INVALID_INSTALL);
    };
    match members.as_slice() {
        [(name, Value::String(install))] if name == "install_id" => {
            install.parse().map_err(|_| INVALID_INSTALL)
        }
        _ => Err(INVALID_INSTALL),
    }
}

fn read(body: &[u8]) -> Result<Value, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| INVALID_JSON)?;
    json::read(text)
        .map(|document| document.value)
        .map_err(|_| INVALID_JSON)
}

fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// Whether a tool has drifted, by its fingerprint.
#[utoipa::path(
    get,
    path = "/api/v1/drift/any",
    tag = "signals",
    security((), ("key" = [])),
    params(("fp" = String, Query, pattern = "^[0-9A-Fa-f]{32}$", description = "The tool's fingerprint")),
    responses(
        (status = 200, body = AnswerShape),
        (status = 400, body = RefusalBody, description = "`invalid_fp`"),
        (status = 404, body = RefusalBody, description = "Nothing is told here"),
        (status = 429, body = RefusalBody, description = "More than one address may ask; `Retry-After` says when to come again"),
    )
)]
pub(crate) async fn any(State(app): State<Arc<App>>, request: Request) -> Response {
    let answered = async {
        let asked = Asked::of(&app, request)?;
        asked.limit(Counted::Lookups, 1)?;
        let fp = parameter(asked.query.as_deref(), "fp").ok_or(INVALID_FP)?;
        let fp = fp.to_ascii_lowercase().parse().map_err(|_| INVALID_FP)?;
        Ok(answers(&app, &asked.ingest, asked.sees_crawl(), &[fp]).await)
    };
    match answered.await {
        Ok(answers) => Json(answers.first().map(Arc::as_ref)).into_response(),
        Err::<_, Refusal>(refusal) => refusal.into_response(),
    }
}

/// Whether tools have drifted, by their fingerprints.
#[utoipa::path(
    post,
    path = "/api/v1/drift/any",
    tag = "signals",
    security((), ("key" = [])),
    request_body = FingerprintsShape,
    responses(
        (status = 200, body = AnswersShape),
        (status = 400, body = RefusalBody, description = "`invalid_json` or `invalid_fps`"),
        (status = 404, body = RefusalBody, description = "Nothing is told here"),
        (status = 413, body = RefusalBody, description = "More than 64 KiB"),
        (status = 415, body = RefusalBody, description = "Not `application/json`"),
        (status = 429, body = RefusalBody, description = "More than one address may ask; `Retry-After` says when to come again"),
    )
)]
pub(crate) async fn any_of_many(State(app): State<Arc<App>>, request: Request) -> Response {
    let answered = async {
        let mut asked = Asked::of(&app, request)?;
        asked.is_json()?;
        let body = asked.body(MAX_QUESTION_BODY).await?;
        let fps = fingerprints(&body)?;
        if fps.len() > MAX_FINGERPRINTS {
            return Ok(None);
        }
        asked.limit(Counted::Lookups, fps.len())?;
        let answers = answers(&app, &asked.ingest, asked.sees_crawl(), &fps).await;
        Ok(Some((fps, answers)))
    };
    match answered.await {
        Ok(Some((fps, answers))) => {
            let results = fps
                .iter()
                .map(ToString::to_string)
                .zip(answers.iter().map(Arc::as_ref));
            Json(AnswersBody {
                results: results.collect(),
            })
            .into_response()
        }
        Ok(None) => as_published(
            StatusCode::BAD_REQUEST,
            &RefusalBody {
                error: INVALID_FPS.error,
                max: Some(MAX_FINGERPRINTS),
            },
        ),
        Err::<_, Refusal>(refusal) => refusal.into_response(),
    }
}

/// An answer for each fingerprint.
#[derive(Serialize)]
struct AnswersBody<'a> {
    results: BTreeMap<String, &'a RawValue>,
}

/// `{"fps": […]}` and nothing else, at least one.
fn fingerprints(body: &[u8]) -> Result<Vec<Fingerprint>, Refusal> {
    let Value::Object(members) = read(body)? else {
        return Err(INVALID_FPS);
    };
    let [(name, Value::Array(items))] = members.as_slice() else {
        return Err(INVALID_FPS);
    };
    if name != "fps" || items.is_empty() {
        return Err(INVALID_FPS);
    }
    items
        .iter()
        .map(|item| item.as_str()?.to_ascii_lowercase().parse().ok())
        .collect::<Option<Vec<_>>>()
        .ok_or(INVALID_FPS)
}

/// An answer for each; `drifted: null` for those that are looked up while the database can't be asked.
async fn answers(app: &App, ingest: &Ingest, sees_crawl: bool, tools: &[Fingerprint]) -> Vec<Arc<RawValue>> {
    let told = app.store.told();
    // What is kept tells what the crawl saw.
    let recent = sees_crawl.then_some(&ingest.recent);
    let mut answers: Vec<Option<Arc<RawValue>>> = match recent {
        Some(recent) => recent.answers(told, tools),
        None => vec![None; tools.len()],
    };
    let asked: Vec<Fingerprint> = tools
        .iter()
        .zip(&answers)
        .filter(|(_, known)| known.is_none())
        .map(|(tool, _)| *tool)
        .collect();
    if !asked.is_empty() {
        // Most questions find their answer above: their futures need no room for this.
        let found = Box::pin(looked_up(app, ingest, sees_crawl, &asked)).await;
        if let (Some(found), Some(recent)) = (&found, recent) {
            recent.keep(told, &asked, found);
        }
        let mut found = found.into_iter().flatten();
        for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
            *answer = found.next();
        }
    }
    let unknown = |tool: &Fingerprint| Answer::unknown(tool.to_string()).written();
    let answers = answers.into_iter().zip(tools);
    answers
        .map(|(answer, tool)| answer.unwrap_or_else(|| unknown(tool)))
        .collect()
}

/// What the database says of each; `None` when it can't be asked.
async fn looked_up(
    app: &App,
    ingest: &Ingest,
    sees_crawl: bool,
    tools: &[Fingerprint],
) -> Option<Vec<Arc<RawValue>>> {
    match app.store.told_drifts(tools).await {
        Ok(mut told) => {
            if !sees_crawl {
                told.iter_mut().for_each(|told| told.crawl = None);
            }
            let rule = &ingest.rules.fleet;
            let answers = tools.iter().zip(&told);
            let answers = answers.map(|(tool, told)| Answer::of(tool.to_string(), told, rule).written());
            Some(answers.collect())
        }
        Err(error) => {
            measure::store_error(&error);
            tracing::error!(%error, "drifts could not be looked up");
            None
        }
    }
}

/// What this index is, for clients that look for one.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IndexBody {
    index: &'static str,
    /// Only for those who may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    api: &'static str,
    /// Who may read: `public` or `members`.
    read: &'static str,
    /// How people sign in, for whoever is about to.
    sign_in: SignInBody,
    /// Null where signals are not taken, or not from whoever asks.
    signals: Option<SignalsBody>,
}

/// The ways in.
#[derive(Debug, Serialize, ToSchema)]
struct SignInBody {
    /// Names that `/cli/login` takes as `provider`; none where nobody can sign in.
    providers: Vec<&'static str>,
    /// Whether a machine without a browser can ask for a key (`/api/v1/device/code`).
    device: bool,
}

/// Which signals are taken, and where.
#[derive(Debug, Serialize, ToSchema)]
struct SignalsBody {
    versions: [u8; 2],
    max_signals: usize,
    ingest: &'static str,
    register: &'static str,
    lookup: &'static str,
}

/// What this index is, and where what is.
#[utoipa::path(
    get,
    path = "/.well-known/mcp-index.json",
    tag = "operation",
    security((), ("key" = [])),
    responses((status = 200, body = IndexBody))
)]
pub(crate) async fn index(State(app): State<App>, Extension(caller): Extension<Caller>) -> Json<IndexBody> {
    let read = app.access.rules.read;
    let is_told = read == Read::Public || !caller.is_anonymous();
    let takes_signals = app
        .ingest
        .as_ref()
        .is_some_and(|ingest| ingest.rules.open || !caller.is_anonymous());
    let choices = app.login.choices();
    Json(IndexBody {
        index: "mcpindex",
        version: is_told.then_some(app.version),
        api: "/api/v1",
        read: read.name(),
        sign_in: SignInBody {
            providers: choices.iter().map(|choice| choice.named.name()).collect(),
            device: app.login.device,
        },
        signals: takes_signals.then_some(SignalsBody {
            versions: [1, 2],
            max_signals: MAX_SIGNALS,
            ingest: "/api/v1/drift",
            register: "/api/v1/drift/register",
            lookup: "/api/v1/drift/any",
        }),
    })
}
