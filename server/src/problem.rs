//! What went wrong, once: RFC 9457 JSON under `/api`, the same as a page elsewhere.
//!
//! A handler returns a [`Problem`]; [`render`], around all handlers, writes it in the reader's form. Answers that layers
//! make (a time-out, a wrong method, a panic) become problems there too.
//!
//! Invariant: a problem says only what a reader may know; the cause goes to the log, under the request id that the
//! problem carries. Every problem has a way on.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use mcpindex_store::StoreError;
use mcpindex_store::accounts::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::redaction::{redacted, shown_path};
use crate::api::registry;
use crate::app::App;
use crate::headers::forget_body;
use crate::links;
use crate::measure;
use crate::pages::error::error_page;

/// A failed request, as its sender is told.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// The last part of the problem's `type`.
    kind: &'static str,
    pub(crate) title: &'static str,
    pub(crate) detail: String,
    /// The query parameter that is wrong.
    parameter: Option<String>,
    /// What to search for, to go on.
    search: Option<String>,
    /// Seconds after which the same may be asked again.
    retry_after: Option<u16>,
    /// Where to go on first, on pages.
    way: Option<Box<Link>>,
}

/// Beside an answer whose body is of a published shape: it is sent as it is, whatever its status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsPublished;

/// A way on.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Link {
    pub(crate) href: String,
    pub(crate) title: &'static str,
}

/// RFC 9457, with members of ours.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// `urn:mcpindex:problem:` and the problem's name.
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    /// The path that was asked for.
    instance: &'a str,
    /// Under this id the cause is in the log.
    request_id: &'a str,
    /// The query parameter that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<&'a str>,
    /// Where to go on.
    links: Vec<Link>,
}

fn link(href: impl Into<String>, title: &'static str) -> Link {
    Link {
        href: href.into(),
        title,
    }
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: String) -> Problem {
        Problem {
            status,
            kind,
            title,
            detail,
            parameter: None,
            search: None,
            retry_after: None,
            way: None,
        }
    }

    /// Something of sign-in that came to nothing; the way on is to begin again.
    pub(crate) fn of_sign_in(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: String,
    ) -> Problem {
        Problem::new(status, kind, title, detail).with_way("/login", "Sign in")
    }

    /// The same with this as the first way on.
    pub(crate) fn with_way(mut self, href: impl Into<String>, title: &'static str) -> Problem {
        self.way = Some(Box::new(link(href, title)));
        self
    }

    /// Nothing in the index goes by this name.
    pub(crate) fn unknown_server(reference: &str) -> Problem {
        let shown: String = reference.chars().take(200).collect();
        let mut problem = Problem::new(
            StatusCode::NOT_FOUND,
            "unknown-server",
            "No such server in this index",
            format!(
                "no server goes by `{shown}` here: expected its identity (percent-encoded in a path), its short id of 16 \
                 hex digits, or its name in a registry; `mcpindex-server add` adds one"
            ),
        );
        // The last part of a name is what people are likely to have right.
        let word = shown
            .rsplit(['/', ':'])
            .find(|part| !part.is_empty())
            .unwrap_or(&shown);
        problem.search = Some(word.replace(char::is_control, ""));
        problem
    }

    /// Nothing of this kind and name; `way` is the sentence that says where they are listed.
    pub(crate) fn unknown(kind: &'static str, title: &'static str, detail: String) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, kind, title, detail)
    }

    /// No page or call has this address.
    pub(crate) fn no_page() -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "not-found",
            "Nothing at this address",
            "no page or call has this address".to_owned(),
        )
    }

    /// An identity was given with its slashes as they are.
    pub(crate) fn not_encoded() -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "not-found",
            "Nothing at this address",
            "no call has this address; an identity in a path must be percent-encoded (`npm:%40scope%2Fname`), or use the \
             short id that `/api/v1/servers` lists"
                .to_owned(),
        )
    }

    /// A query parameter can't be read as what it is for.
    pub(crate) fn bad_parameter(name: &str, expected: &str) -> Problem {
        let name: String = name.chars().take(60).collect();
        let mut problem = Problem::new(
            StatusCode::BAD_REQUEST,
            "bad-parameter",
            "A parameter can't be used",
            format!("the parameter `{name}` can't be used: expected {expected}"),
        );
        problem.parameter = Some(name);
        problem
    }

    /// Nobody who may is asking: no key, or one that doesn't work. Which of these it is is not said.
    pub(crate) fn unauthorized() -> Problem {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "This needs a key",
            "send a key that works as `Authorization: Bearer mcpk_…`; `mcpindex login` gets one".to_owned(),
        )
    }

    /// The key works, but not for this.
    pub(crate) fn lacks_scope(scope: Scope) -> Problem {
        Problem::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "The key is not for this",
            format!("the key lacks the scope `{}`; use one that has it", scope.name()),
        )
    }

    /// Whoever asks may not do this.
    pub(crate) fn forbidden(detail: String) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    /// What is asked for does not go with how things stand.
    pub(crate) fn conflict(detail: String) -> Problem {
        Problem::new(StatusCode::CONFLICT, "conflict", "Not as things stand", detail)
    }

    /// What was asked for can't be decided about.
    pub(crate) fn not_decided(detail: String) -> Problem {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "not-decided",
            "Nothing was decided",
            detail,
        )
    }

    /// The registry has no such entry.
    pub(crate) fn not_listed(detail: &str) -> Problem {
        Problem::new(
            StatusCode::NOT_FOUND,
            "not-listed",
            "Not in this registry",
            detail.to_owned(),
        )
    }

    /// Too much came from one sender, who may come again after so many seconds.
    pub(crate) fn limited(after: u16, detail: &str) -> Problem {
        let minutes = after.div_ceil(60);
        let when = match minutes {
            0 | 1 => "a minute".to_owned(),
            minutes => format!("{minutes} minutes"),
        };
        Problem {
            retry_after: Some(after),
            ..Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate-limited",
                "Too much at once",
                format!("{detail}; try again in {when}"),
            )
        }
    }

    /// There is a key in the request's path or query.
    pub(crate) fn key_in_address() -> Problem {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "key-in-address",
            "A key does not belong in an address",
            "send the key as `Authorization: Bearer mcpk_…`; addresses are kept in histories and logs, so revoke this \
             one and get another (`mcpindex keys revoke`, then `mcpindex login`)"
                .to_owned(),
        )
    }

    /// A one-time code that gives no key. Why is not said: whoever has a right one begins again all the same.
    pub(crate) fn invalid_code() -> Problem {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid-code",
            "The code gives no key",
            "the code is wrong, was brought before or took more than 60 seconds; begin again with `mcpindex login`".to_owned(),
        )
    }

    /// A request's body is not what the call takes.
    pub(crate) fn bad_body(expected: &str) -> Problem {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "bad-body",
            "The request's body can't be used",
            format!("the body can't be used: expected {expected}"),
        )
    }

    /// A body of another sort or size than the call takes.
    pub(crate) fn wrong_body(status: StatusCode, detail: String) -> Problem {
        Problem {
            detail,
            ..Problem::from_status(status)
        }
    }

    /// Something failed here; the cause is logged and not told.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Problem {
        tracing::error!(%cause, "a request failed");
        Problem::from_status(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The database can't be used now.
    pub(crate) fn unavailable(detail: &str) -> Problem {
        let mut problem = Problem::from_status(StatusCode::SERVICE_UNAVAILABLE);
        problem.detail = detail.to_owned();
        problem
    }

    /// The problem behind a bare status, which layers and extractors answer with.
    fn from_status(status: StatusCode) -> Problem {
        let (kind, title, detail) = match status {
            StatusCode::BAD_REQUEST => (
                "bad-request",
                "The request can't be read",
                "the path is not percent-encoded UTF-8",
            ),
            StatusCode::NOT_FOUND => return Problem::no_page(),
            StatusCode::METHOD_NOT_ALLOWED => (
                "method-not-allowed",
                "Not in this way",
                "this address answers only the methods in the `Allow` header",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => (
                "too-large",
                "The request is too large",
                "the request's body is larger than this address takes",
            ),
            StatusCode::SERVICE_UNAVAILABLE => (
                "unavailable",
                "Not available right now",
                "the answer could not be made in time; try again in a moment",
            ),
            _ if status.is_client_error() => (
                "bad-request",
                "The request can't be answered",
                "this address doesn't take such a request",
            ),
            _ => (
                "internal",
                "Something failed here",
                "the request failed on our side; the cause is in the server's log under the request id",
            ),
        };
        Problem::new(status, kind, title, detail.to_owned())
    }

    /// Where to go on, on pages.
    pub(crate) fn page_links(&self) -> Vec<Link> {
        let mut links: Vec<Link> = self.way.iter().map(|way| Link::clone(way)).collect();
        links.extend(self.search_link("/servers"));
        links.extend([
            link("/", "Home and search"),
            link("/servers", "All servers"),
            link("/drifts", "The latest drifts"),
        ]);
        links
    }

    /// Where to go on, in the API.
    fn api_links(&self) -> Vec<Link> {
        let mut links = self.search_link("/api/v1/servers");
        links.extend([
            link("/api/v1/servers", "All servers"),
            link("/api/v1/drifts", "The latest drifts"),
        ]);
        links
    }

    fn search_link(&self, path: &str) -> Vec<Link> {
        let href = |word: &String| links::with_query(path, &[("search", Some(word.clone()))]);
        self.search
            .iter()
            .map(|word| link(href(word), "Search for it"))
            .collect()
    }

    /// What a handler repeats of a request may hold a key that was sent in the wrong place.
    fn without_keys(mut self) -> Problem {
        self.detail = redacted(&self.detail).into_owned();
        self.search = self.search.map(|search| redacted(&search).into_owned());
        self.parameter = self.parameter.map(|name| redacted(&name).into_owned());
        self
    }

    fn json(&self, instance: &str, request_id: &str) -> Response {
        let body = ProblemBody {
            r#type: format!("urn:mcpindex:problem:{}", self.kind),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            instance,
            request_id,
            parameter: self.parameter.as_deref(),
            links: self.api_links(),
        };
        let mut response = (self.status, Json(body)).into_response();
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        measure::store_error(&error);
        match error {
            StoreError::Unreachable { .. } | StoreError::NewerSchema { .. } => {
                tracing::error!(cause = %error, "the database can't be used");
                Problem::unavailable("the index's database can't be used right now; try again in a moment")
            }
            _ => Problem::internal(&error),
        }
    }
}

impl IntoResponse for Problem {
    /// The bare status with the problem beside it, for [`render`] to write.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"mcpindex\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The answer to a panic, which the panic hook has logged.
pub(crate) fn panicked() -> Response {
    Problem::internal(&"a handler panicked").into_response()
}

/// Whether an address belongs to programs rather than to people.
pub(crate) fn is_for_programs(path: &str) -> bool {
    path.starts_with("/api/")
        || path == "/api"
        || path == "/healthz"
        || path == "/readyz"
        || path == "/metrics"
        || path == "/mcp"
        || path.starts_with(registry::ROOT)
}

/// Writes a failed answer as the problem it is, in the form its reader takes; any other answer stays as it is.
pub(crate) fn render(app: &App, uri: &Uri, request_id: &HeaderValue, response: Response) -> Response {
    let status = response.status();
    let failed = status.is_client_error() || status.is_server_error();
    if !failed || response.extensions().get::<AsPublished>().is_some() {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    let problem = parts
        .extensions
        .remove::<Problem>()
        .unwrap_or_else(|| Problem::from_status(status));
    let problem = problem.without_keys();
    let request_id = request_id.to_str().unwrap_or_default();
    let mut rendered = if uri.path().starts_with(registry::ROOT) {
        registry::error(&problem)
    } else if is_for_programs(uri.path()) {
        problem.json(shown_path(uri.path()), request_id)
    } else {
        error_page(app, &problem, request_id)
    };
    // What the answer said beside its body (`Allow`, `Retry-After`) stays.
    forget_body(&mut parts.headers);
    for (name, value) in &parts.headers {
        rendered.headers_mut().insert(name.clone(), value.clone());
    }
    rendered
}
