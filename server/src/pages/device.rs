//! A program on a machine without a browser asks for a key: its code is typed in here, and then allowed or refused.
//!
//! Somebody who is talked into typing a stranger's code gives that stranger a key; so the page says where the request came
//! from and asks who began it, and the whole can be switched off.
//!
//! Invariant: a code is looked up and decided on by a form of ours in the reader's own session, ten times a minute at most.

use std::net::IpAddr;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use mcpindex::index::is_loopback;
use mcpindex::login::code;
use url::Url;

use super::sign_in::{OwnForm, at_its_name, sign_in_first, unkept};
use super::{Frame, page};
use crate::access::issue::USUAL_DAYS;
use crate::access::limits::{Counted, Sender};
use crate::api::sign_in::USER_CODE;
use crate::app::App;
use crate::login::session::{SignedIn, signed_in};
use crate::problem::Problem;
use crate::query::Query;
use crate::when::{When, when};
use crate::words::Words;

#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    frame: Frame,
    account: Words,
    csrf: String,
    step: Step,
    days: u32,
}

enum Step {
    /// The code is to be typed in; it may just have been wrong.
    Enter {
        wrong: Option<&'static str>,
    },
    /// The request is there, and is to be decided on.
    Decide {
        code: String,
        machine: Words,
        network: String,
        started: Option<When>,
    },
    Done {
        allowed: bool,
    },
}

fn is_on(app: &App) -> Result<(), Problem> {
    match app.login.device {
        true => Ok(()),
        false => Err(Problem::unknown(
            "no-device-sign-in",
            "Not switched on here",
            "programs without a browser can't ask for a key here (`[login] device`); make one on your account's page and give \
             it to `mcpindex login --with-token`"
                .to_owned(),
        )
        .with_way("/account", "Your keys")),
    }
}

fn show(app: &App, signed_in: &SignedIn, step: Step) -> Result<Response, Problem> {
    let page = page(&DevicePage {
        frame: Frame::new(app, "account"),
        account: Words::label(&signed_in.account.login),
        csrf: signed_in.csrf().to_owned(),
        step,
        days: USUAL_DAYS,
    })?;
    Ok(unkept(page))
}

/// `GET /device`
pub(crate) async fn device(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    is_on(&app)?;
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    match signed_in(&app, &headers).await? {
        Some(signed_in) => show(&app, &signed_in, Step::Enter { wrong: None }),
        None => Ok(sign_in_first(&app, "/device", None)),
    }
}

/// A form about a device: one of ours, and within what one address and one account may send, since whoever has many of the one
/// has few of the other.
async fn form(app: &App, request: Request, too_many: &str) -> Result<OwnForm, Problem> {
    is_on(app)?;
    let form = OwnForm::of(app, request).await?;
    let senders = [
        Sender::Address(form.address),
        Sender::Account(form.signed_in.account.id),
    ];
    let limits = &app.access.limits;
    match senders
        .into_iter()
        .all(|sender| limits.allows(Counted::DeviceEntry, sender, 1))
    {
        true => Ok(form),
        false => Err(Problem::limited(
            limits.come_again(Counted::DeviceEntry),
            too_many,
        )),
    }
}

/// The code that was typed in, as it is kept; `None` when it is none.
fn user_code(fields: &Query) -> Option<String> {
    let letters = code::typed(fields.value("code")?, USER_CODE)?;
    Some(code::grouped(&letters))
}

/// `POST /device`: a code was typed in.
pub(crate) async fn enter(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = form(&app, request, "too many codes were typed in").await?;
    let Some(code) = user_code(&form.fields) else {
        let wrong = Some("A code has eight letters, such as WDJB-MJHT.");
        return show(&app, &form.signed_in, Step::Enter { wrong });
    };
    let step = match app.store.device(&code, app.now()).await? {
        Some(asked) => Step::Decide {
            code,
            machine: Words::label(&asked.key_name),
            network: asked.network_shown,
            started: when(asked.started_at, app.now()),
        },
        None => Step::Enter {
            wrong: Some(
                "No program waits under this code. It is good for ten minutes: look at the terminal again, or begin again there.",
            ),
        },
    };
    show(&app, &form.signed_in, step)
}

/// `POST /device/decision`
pub(crate) async fn decide(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let form = form(&app, request, "too many codes were decided on").await?;
    let allowed = form.fields.value("decision") == Some("allow");
    let code = user_code(&form.fields).unwrap_or_default();
    let decided = app
        .store
        .decide_device(&code, form.signed_in.account.id, allowed, app.now())
        .await?;
    if !decided {
        return Err(Problem::of_sign_in(
            StatusCode::CONFLICT,
            "device-over",
            "Too late for this code",
            "it was decided on before, or took more than ten minutes; begin again in the terminal".to_owned(),
        )
        .with_way("/device", "Enter another code"));
    }
    show(&app, &form.signed_in, Step::Done { allowed })
}

/// Where a request comes from, as coarse as people need it to tell their own network from another. `base` is where people reach
/// this index: elsewhere, this machine's own address is that of a proxy that the settings don't name.
pub(crate) fn network_shown(address: IpAddr, base: &Url) -> String {
    match address.to_canonical() {
        address if address.is_loopback() && is_loopback(base) => "this server's own machine".to_owned(),
        address if address.is_loopback() => {
            "not known: the proxy on this server's machine is not named in `[server] proxies`".to_owned()
        }
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_shown_as_coarse_as_it_is_kept() {
        let at = |base: &str, address: &str| network_shown(address.parse().unwrap(), &base.parse().unwrap());
        let check = |address: &str, shown: &str| assert_eq!(at("http://127.0.0.1:8080/", address), shown);
        check("203.0.113.9", "203.0.113.0/24");
        check("::ffff:203.0.113.9", "203.0.113.0/24");
        check("2001:db8:1:2::3", "2001:db8:1::/48");
        check("127.0.0.1", "this server's own machine");
    }

    #[test]
    fn a_stranger_behind_a_proxy_that_nobody_named_is_not_this_machine() {
        let base = "https://index.example/".parse().unwrap();
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let shown = network_shown(address.parse().unwrap(), &base);
            assert!(shown.starts_with("not known"), "{address}: {shown}");
        }
    }
}
