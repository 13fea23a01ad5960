//! Who may pass to which address, decided in one place before any handler runs.
//!
//! Invariant: an address that is not named in [`Door::of`] is for those who may read, and an address that isn't there is
//! like one that is: whoever may not read gets the same answer from all of them, whatever the method.

use std::net::IpAddr;

use axum::extract::{MatchedPath, Request};
use axum::http::header::{CACHE_CONTROL, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use mcpindex_store::accounts::Scope;

use super::keys::Credential;
use super::redaction::holds_key;
use super::{Caller, Metrics, Read, feed_path};
use crate::app::App;
use crate::links;
use crate::problem::{Problem, is_for_programs};

/// Who passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    /// Everybody; who they are is not asked.
    Open,
    /// Everybody; the handler says more to those who may read.
    Told,
    /// Whoever may read.
    Readers,
    /// Whoever has the path: a person's own, to the feeds.
    FeedPath,
    /// Whoever has a key, whatever it is for.
    KeyHolders,
    /// Whoever has a key of the scope `admin`.
    Admins,
    /// Installs that send signals: by the ingest's own switch, or a key for that.
    Senders,
    /// The same, asking what others saw.
    Askers,
    /// Whoever may read what this process counts.
    Metrics,
    /// Hosts that take their servers from the registry.
    Registry,
}

impl Door {
    /// The door of a route of the table; `None` is an address that isn't in it.
    fn of(route: Option<&str>) -> Door {
        match route {
            Some("/healthz" | "/readyz" | "/assets/{file}" | "/api/v1/keys/report-leak") => Door::Open,
            // These say the same to everybody, and of badges there are only those that everybody may see.
            Some("/llms.txt" | "/badges/{file}") => Door::Open,
            // How people sign in and programs get keys; what needs a session there asks for it itself.
            Some(
                "/login"
                | "/auth/{provider}"
                | "/auth/{provider}/callback"
                | "/logout"
                | "/cli/login"
                | "/cli/published"
                | "/device"
                | "/device/decision"
                | "/setup"
                | "/account"
                | "/account/keys"
                | "/account/keys/{id}/revoke"
                | "/account/sessions/end"
                | "/account/feed-path"
                | "/account/feed-path/end"
                | "/approvals"
                | "/approvals/undo"
                | "/approvals/log"
                | "/admin/audit"
                | "/admin/webhooks"
                | "/admin/webhooks/{id}/test"
                | "/admin/webhooks/{id}/remove"
                | "/api/auth/login/start"
                | "/api/v1/cli/token"
                | "/api/v1/device/code"
                | "/api/v1/device/token",
            ) => Door::Open,
            Some("/feeds/t/{token}/drifts.atom" | "/feeds/t/{token}/servers/{file}") => Door::FeedPath,
            Some("/.well-known/mcp-index.json") => Door::Told,
            Some(
                "/api/v1/whoami"
                | "/api/v1/keys"
                | "/api/v1/keys/{id}"
                | "/api/v1/keys/{id}/rotate"
                | "/api/v1/fingerprint-key"
                | "/api/v1/approvals"
                | "/api/v1/approvals/queue"
                | "/api/v1/approvals/requests"
                | "/api/v1/approvals/undo"
                | "/api/v1/feed-path",
            ) => Door::KeyHolders,
            Some(
                "/api/v1/webhooks"
                | "/api/v1/webhooks/{id}"
                | "/api/v1/webhooks/{id}/test"
                | "/api/v1/webhooks/{id}/deliveries"
                | "/api/v1/webhooks/{id}/deliveries/{delivery}/redeliver",
            ) => Door::Admins,
            Some("/api/v1/drift" | "/api/v1/drift/register" | "/api/v1/receipts") => Door::Senders,
            Some("/api/v1/drift/any") => Door::Askers,
            Some("/metrics") => Door::Metrics,
            Some(
                "/v0.1/servers" | "/v0.1/servers/{name}/versions" | "/v0.1/servers/{name}/versions/{version}",
            ) => Door::Registry,
            _ => Door::Readers,
        }
    }
}

/// Refuses a request that has a key in its address, before anything else looks at it; finds out who is asking, and lets them pass
/// or not. The handler finds the [`Caller`] among the request's extensions.
pub(crate) async fn gate(app: &App, mut request: Request, next: Next) -> Response {
    let uri = request.uri();
    if holds_key(uri.path()) || uri.query().is_some_and(holds_key) {
        return Problem::key_in_address().into_response();
    }
    let route = request.extensions().get::<MatchedPath>();
    let door = Door::of(route.map(MatchedPath::as_str));
    // A browser asks that before it sends a key along.
    let is_preflight = door == Door::Registry && *request.method() == Method::OPTIONS;
    if door == Door::Open || is_preflight {
        request.extensions_mut().insert(Caller::Anonymous);
        return next.run(request).await;
    }
    let address = app.access.sender(request.extensions(), request.headers());
    let is_for_programs = is_for_programs(request.uri().path());
    if door == Door::FeedPath {
        return match Box::pin(feed_path::holder(app, request.uri().path(), address)).await {
            Ok(_) => {
                request.extensions_mut().insert(Caller::FeedPath);
                for_them_alone(next.run(request).await)
            }
            Err(problem) => for_them_alone(problem.into_response()),
        };
    }
    if matches!(door, Door::KeyHolders | Door::Admins) && !is_read(request.method()) {
        // A key that was revoked elsewhere and is still remembered here must not leave another one behind.
        if let Credential::Key(text) = Credential::of(request.headers()) {
            app.access.keys.forget_hash(text.hash());
        }
    }
    let caller = match caller(app, door, request.headers(), address, is_for_programs).await {
        Ok(caller) => caller,
        Err(problem) => return for_them_alone(problem.into_response()),
    };
    let read = match door {
        Door::Registry => app.access.rules.registry,
        _ => app.access.rules.read,
    };
    let is_private = read == Read::Members || !caller.is_anonymous();
    let response = match passes(app, door, &caller) {
        Ok(()) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        // A feed reader would take the sign-in for a broken feed.
        Err(Refused::Anonymous) if !is_for_programs && !is_feed(request.uri().path()) => {
            to_sign_in(request.method(), request.uri())
        }
        Err(Refused::Anonymous) => Problem::unauthorized().into_response(),
        Err(Refused::Scope(scope)) => Problem::lacks_scope(scope).into_response(),
    };
    if is_private {
        for_them_alone(response)
    } else {
        response
    }
}

async fn caller(
    app: &App,
    door: Door,
    headers: &HeaderMap,
    address: IpAddr,
    is_for_programs: bool,
) -> Result<Caller, Problem> {
    match Credential::of(headers) {
        Credential::Key(text) => {
            // Boxed, as below: every request's future would have room for what few of them do.
            let holder = Box::pin(app.access.keys.holder(app, &text, address)).await?;
            Ok(Caller::Key(holder))
        }
        // An install token, which the handler reads.
        Credential::Token if matches!(door, Door::Senders | Door::Askers) => Ok(Caller::Anonymous),
        Credential::Token | Credential::Wrong => Err(Problem::unauthorized()),
        // A browser sends its cookie along with whatever another page makes it ask, so programs' addresses don't read it.
        Credential::None if is_for_programs => Ok(Caller::Anonymous),
        Credential::None => Box::pin(Caller::of_session(app, headers)).await,
    }
}

/// Why somebody does not pass.
enum Refused {
    /// Nobody is known to ask.
    Anonymous,
    /// The key is not for this.
    Scope(Scope),
}

fn passes(app: &App, door: Door, caller: &Caller) -> Result<(), Refused> {
    let is_public = app.access.rules.read == Read::Public;
    // What is switched off altogether is the handlers' to say.
    let takes_signals = app.ingest.as_ref().is_none_or(|ingest| ingest.rules.open);
    let scopes = match caller {
        Caller::Anonymous => {
            let passes = match door {
                Door::Open | Door::Told | Door::FeedPath => true,
                Door::Readers => is_public,
                Door::Registry => app.access.rules.registry == Read::Public,
                Door::Senders | Door::Askers => takes_signals,
                Door::KeyHolders | Door::Admins => false,
                Door::Metrics => match app.access.rules.metrics {
                    Metrics::Open => true,
                    // There is nothing, as at any other address that isn't there.
                    Metrics::Off => is_public,
                    Metrics::Admins => false,
                },
            };
            return if passes { Ok(()) } else { Err(Refused::Anonymous) };
        }
        Caller::Session | Caller::FeedPath => return Ok(()),
        Caller::Key(holder) => holder.scopes(),
    };
    let (passes, lacks) = match door {
        Door::Open | Door::Told | Door::FeedPath | Door::KeyHolders => (true, Scope::Read),
        Door::Registry => {
            let is_open = app.access.rules.registry == Read::Public;
            (is_open || scopes.contains(Scope::Read), Scope::Read)
        }
        Door::Readers => (is_public || scopes.contains(Scope::Read), Scope::Read),
        Door::Askers => {
            let may = scopes.contains(Scope::Read) || scopes.contains(Scope::Ingest);
            (takes_signals || may, Scope::Ingest)
        }
        Door::Admins => (scopes.contains(Scope::Admin), Scope::Admin),
        Door::Senders => (scopes.contains(Scope::Ingest), Scope::Ingest),
        Door::Metrics => (
            app.access.rules.metrics == Metrics::Open || scopes.contains(Scope::Admin),
            Scope::Admin,
        ),
    };
    if passes {
        Ok(())
    } else {
        Err(Refused::Scope(lacks))
    }
}

/// Whether feeds are asked for, whether there are such or not.
fn is_feed(path: &str) -> bool {
    path.starts_with("/feeds/")
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// People are sent to where they can sign in, and from there back.
fn to_sign_in(method: &Method, uri: &Uri) -> Response {
    let next = uri.path_and_query().map(ToString::to_string);
    let location = links::with_query("/login", &[("next", next.filter(|_| is_read(method)))]);
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

/// No shared cache may keep this answer, nor give it to another caller.
fn for_them_alone(mut response: Response) -> Response {
    let is_read = response.status().is_success();
    let headers = response.headers_mut();
    let cache = if is_read && !says_no_store(headers) {
        "private, no-cache"
    } else {
        "private, no-store"
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.append(VARY, HeaderValue::from_static("Authorization, Cookie"));
    response
}

fn says_no_store(headers: &HeaderMap) -> bool {
    let value = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.contains("no-store"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_for_readers() {
        for route in [None, Some("/"), Some("/api/v1/servers"), Some("/made/tomorrow")] {
            assert_eq!(Door::of(route), Door::Readers, "{route:?}");
        }
    }
}
