//! A program on the reader's own machine asks for a key, and they say yes or no: our form and the published client's.
//!
//! The page shows the code that the terminal shows too, so that nobody allows what somebody else began. Yes leads the browser
//! back to the program: with a one-time code in our form, with the key itself in the published one, which knows no other way.
//!
//! Invariant: no key and no code is made but by a form of a page of ours, in the session that the page was made for.

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use mcpindex::login::code;

use super::sign_in::{OwnForm, at_its_name, sign_in_first, unkept};
use super::{Frame, page};
use crate::access::issue::{USUAL_DAYS, Wish};
use crate::app::App;
use crate::headers::allow_form_target;
use crate::links;
use crate::login::key;
use crate::login::program::{CliRequest, PublishedCallback, Wrong};
use crate::login::secret::Secret;
use crate::login::session::{SignedIn, signed_in};
use crate::problem::Problem;
use crate::query::Query;
use crate::words::Words;

#[derive(Template)]
#[template(path = "consent.html")]
struct ConsentPage {
    frame: Frame,
    account: Words,
    csrf: String,
    action: &'static str,
    fields: Vec<(&'static str, String)>,
    /// What the machine calls itself.
    machine: Option<Words>,
    /// The code that the terminal shows.
    code: Option<String>,
    /// Where the browser is led.
    origin: String,
    days: u32,
}

/// `GET /cli/login`
pub(crate) async fn cli(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    let query = Query::lenient(&uri);
    let asked = read(&app, &query)?;
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    let Some(signed_in) = signed_in(&app, &headers).await? else {
        let parameters: Vec<(&str, Option<String>)> = asked
            .parameters()
            .into_iter()
            .map(|(name, value)| (name, Some(value)))
            .collect();
        let next = links::with_query("/cli/login", &parameters);
        return Ok(sign_in_first(&app, &next, query.value("provider")));
    };
    let code = Some(code::of_challenge(&asked.challenge));
    let mut response = consent(
        &app,
        &signed_in,
        "/cli/login",
        asked.parameters(),
        code,
        &asked.name,
        asked.origin(),
    )?;
    allow_form_target(&mut response, &asked.form_action());
    Ok(response)
}

fn read(app: &App, parameters: &Query) -> Result<CliRequest, Problem> {
    if !app.login.is_on() {
        return Err(Problem::unknown(
            "no-sign-in",
            "Nobody can sign in here",
            "this index has no provider to sign in with; a key made on the server's shell goes in by `mcpindex login \
             --with-token`"
                .to_owned(),
        ));
    }
    let wrong = |(name, expected): Wrong| {
        Problem::bad_parameter(name, &format!("{expected}; begin again with `mcpindex login`"))
    };
    CliRequest::read(|name| parameters.value(name).map(str::to_owned)).map_err(wrong)
}

fn consent(
    app: &App,
    signed_in: &SignedIn,
    action: &'static str,
    fields: Vec<(&'static str, String)>,
    code: Option<String>,
    machine: &str,
    origin: String,
) -> Result<Response, Problem> {
    let page = page(&ConsentPage {
        frame: Frame::new(app, "account"),
        account: Words::label(&signed_in.account.login),
        csrf: signed_in.csrf().to_owned(),
        action,
        fields,
        machine: Some(machine)
            .filter(|machine| !machine.is_empty())
            .map(Words::label),
        code,
        origin,
        days: USUAL_DAYS,
    })?;
    Ok(unkept(page))
}

/// To the program that waits on this machine. `Redirect` would do, but for a header that must not be logged.
fn to_program(url: &str) -> Result<Response, Problem> {
    let mut location = HeaderValue::from_str(url).map_err(|error| Problem::internal(&error))?;
    location.set_sensitive(true);
    Ok(unkept((StatusCode::SEE_OTHER, [(LOCATION, location)])))
}

/// `POST /cli/login`
pub(crate) async fn decide_cli(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    let asked = read(&app, &form.fields)?;
    if form.fields.value("decision") != Some("allow") {
        return to_program(&asked.refused(&app.base));
    }
    let code = Secret::generate().map_err(|error| Problem::internal(&error))?;
    app.store
        .add_code(
            code.hash(),
            form.signed_in.account.id,
            &asked.challenge,
            &asked.name,
            app.now(),
        )
        .await?;
    to_program(&asked.allowed(&app.base, code.expose()))
}

fn callback_of(app: &App, parameters: &Query) -> Result<PublishedCallback, Problem> {
    if !app.login.published_form {
        return Err(Problem::no_page());
    }
    let callback = parameters
        .value("cli_callback")
        .and_then(PublishedCallback::parse);
    callback.ok_or_else(|| {
        Problem::bad_parameter(
            "cli_callback",
            "`http://127.0.0.1:PORT/…`; begin again with the program that led you here",
        )
    })
}

/// `GET /cli/published`: where `/api/auth/login/start` leads.
pub(crate) async fn published(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::lenient(&uri);
    let callback = callback_of(&app, &query)?;
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    let fields = vec![("cli_callback", callback.as_str().to_owned())];
    let Some(signed_in) = signed_in(&app, &headers).await? else {
        let next = links::with_query(
            "/cli/published",
            &[("cli_callback", Some(callback.as_str().to_owned()))],
        );
        return Ok(sign_in_first(&app, &next, query.value("provider")));
    };
    let origin = callback.origin().to_owned();
    let mut response = consent(&app, &signed_in, "/cli/published", fields, None, "", origin)?;
    allow_form_target(&mut response, callback.origin());
    Ok(response)
}

/// `POST /cli/published`
pub(crate) async fn decide_published(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    let callback = callback_of(&app, &form.fields)?;
    if form.fields.value("decision") != Some("allow") {
        // The published client knows no refusal; its terminal waits until it gives up by itself.
        return Err(Problem::of_sign_in(
            StatusCode::FORBIDDEN,
            "consent-refused",
            "No key was made",
            "the program that asked got nothing; stop it with Ctrl-C in its terminal".to_owned(),
        )
        .with_way("/account", "Your keys"));
    }
    let wish = Wish {
        name: key::PUBLISHED.to_owned(),
        scopes: key::scopes(),
        days: Some(USUAL_DAYS),
    };
    let (text, _) = key::issued(&app, &form.signed_in.account, &wish, form.address).await?;
    to_program(&callback.with_key(text.expose()))
}
