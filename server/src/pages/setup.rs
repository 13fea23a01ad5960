//! Where somebody who has signed in types the code that `serve` printed, and is the first admin.
//!
//! Invariant: nobody becomes an admin here without the code, nor while there is one; few codes can be tried.

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{Redirect, Response};

use super::sign_in::{OwnForm, at_its_name, sign_in_first, unkept};
use super::{Frame, page};
use crate::access::limits::Counted;
use crate::access::setup::typed;
use crate::app::App;
use crate::login::session::signed_in;
use crate::problem::Problem;
use crate::words::Words;

#[derive(Template)]
#[template(path = "setup.html")]
struct SetupPage {
    frame: Frame,
    csrf: String,
    login: Words,
}

/// `GET /setup`
pub(crate) async fn setup(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    let Some(signed_in) = signed_in(&app, &headers).await? else {
        return Ok(sign_in_first(&app, "/setup", None));
    };
    if app.store.has_admin().await? {
        return Err(has_admin());
    }
    let page = page(&SetupPage {
        frame: Frame::new(&app, ""),
        csrf: signed_in.csrf().to_owned(),
        login: Words::label(&signed_in.account.login),
    })?;
    Ok(unkept(page))
}

/// `POST /setup`
pub(crate) async fn claim(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = OwnForm::of(&app, request).await?;
    if !app.access.limits.allows(Counted::SetupCode, form.address, 1) {
        return Err(Problem::limited(
            app.access.limits.come_again(Counted::SetupCode),
            "too many set-up codes came from this address",
        ));
    }
    let claimed = match typed(form.fields.value("code").unwrap_or_default()) {
        Some(code) => {
            let claimed = app.store.claim_admin(form.signed_in.account.id, code, app.now());
            claimed.await?
        }
        None => false,
    };
    if claimed {
        tracing::warn!(
            account = form.signed_in.account.id,
            "the set-up code made an account the first admin"
        );
        return Ok(unkept(Redirect::to("/account")));
    }
    if app.store.has_admin().await? {
        return Err(has_admin());
    }
    Err(Problem::of_sign_in(
        StatusCode::BAD_REQUEST,
        "wrong-code",
        "That is not the code",
        "the code is not one that this server printed in the last 24 hours; `serve` prints a new one when it starts".to_owned(),
    )
    .with_way("/setup", "Type it again"))
}

fn has_admin() -> Problem {
    Problem::of_sign_in(
        StatusCode::CONFLICT,
        "has-admin",
        "This index has an admin",
        "set-up is over; an admin gives roles with `mcpindex-server admin role`".to_owned(),
    )
    .with_way("/account", "Your account")
}
