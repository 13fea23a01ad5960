//! Who did what, for admins: every decision, key, role and sign-in that the audit log has.
//!
//! Invariant: nothing is shown but to an admin who is signed in, and nothing here can be changed.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use mcpindex_store::accounts::Role;
use mcpindex_store::audit::{Action, AuditLine};

use super::sign_in::{at_its_name, sign_in_first, unkept};
use super::{Frame, page};
use crate::app::App;
use crate::links;
use crate::login::session::signed_in;
use crate::problem::Problem;
use crate::query::Query;
use crate::when::{When, when};
use crate::words::Words;

/// Lines of one page.
const LINES: i64 = 100;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    subject: String,
    actions: Vec<ActionView>,
    lines: Vec<LineView>,
    first: Option<String>,
    next: Option<String>,
}

struct ActionView {
    name: &'static str,
    chosen: bool,
}

struct LineView {
    at: Option<When>,
    subject: Words,
    action: &'static str,
    object: Words,
    detail: Option<Words>,
}

/// `GET /admin/audit?subject=&action=&before=`
pub(crate) async fn audit(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(there) = at_its_name(&app, &headers, &uri) {
        return Ok(there);
    }
    let Some(signed_in) = signed_in(&app, &headers).await? else {
        let path = uri.path_and_query().map_or("/admin/audit", |path| path.as_str());
        return Ok(sign_in_first(&app, path, None));
    };
    if signed_in.account.role != Role::Admin {
        return Err(Problem::of_sign_in(
            StatusCode::FORBIDDEN,
            "not-an-admin",
            "This is for admins",
            "the audit log is read by admins; `mcpindex-server admin make-admin` makes one".to_owned(),
        )
        .with_way("/account", "Your account"));
    }
    let query = Query::lenient(&uri);
    let subject = query.line("subject")?;
    let action = match query.value("action") {
        None => None,
        Some(name) => match Action::from_name(name) {
            Some(action) => Some(action),
            None => return Err(Problem::bad_parameter("action", "the name of an act")),
        },
    };
    let before = query.before("before")?;
    let lines = app
        .store
        .audit_of(subject.as_deref(), action, before, LINES)
        .await?;
    let is_full = i64::try_from(lines.len()).is_ok_and(|length| length >= LINES);
    let path = |before: Option<String>| {
        let parameters = [
            ("subject", subject.clone()),
            ("action", action.map(|action| action.name().to_owned())),
            ("before", before),
        ];
        links::with_query("/admin/audit", &parameters)
    };
    let now = app.now();
    let page = page(&AuditPage {
        frame: Frame::new(&app, "account"),
        next: lines
            .last()
            .filter(|_| is_full)
            .map(|last| path(Some(last.id.to_string()))),
        first: before.map(|_| path(None)),
        subject: subject.clone().unwrap_or_default(),
        actions: Action::ALL
            .into_iter()
            .map(|known| ActionView {
                name: known.name(),
                chosen: action == Some(known),
            })
            .collect(),
        lines: lines.iter().map(|line| line_view(line, now)).collect(),
    })?;
    Ok(unkept(page))
}

fn line_view(line: &AuditLine, now: i64) -> LineView {
    LineView {
        at: when(line.at, now),
        subject: Words::label(&line.subject),
        action: line.action.name(),
        object: Words::label(&line.object),
        detail: line.detail.as_deref().map(Words::label),
    }
}
