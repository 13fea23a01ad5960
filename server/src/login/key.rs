//! The keys that programs get by signing in: what they are for, and how long they live.
//!
//! Invariant: such a key reads and sends signals, whatever its owner's role: what an admin does takes a key made for that.

use std::net::IpAddr;

use axum::http::StatusCode;
use mcpindex_store::StoreError;
use mcpindex_store::accounts::{Account, KeyMaterial, KeyRecord, Scope, Scopes};
use mcpindex_store::signals::Network;

use crate::access::issue::{IssueError, USUAL_DAYS, Wish, issue};
use crate::access::key::KeyText;
use crate::app::App;
use crate::problem::Problem;
use crate::when::DAY;

/// What a key of the published client is called.
pub(crate) const PUBLISHED: &str = "mcpindex login (published client)";

/// What a program's key is for.
pub(crate) fn scopes() -> Scopes {
    Scopes::of(&[Scope::Read, Scope::Ingest])
}

/// A new key, before it is known whose it will be.
pub(crate) fn material(network: Network, now: i64) -> Result<(KeyText, KeyMaterial), Problem> {
    let text = KeyText::generate().map_err(|error| Problem::internal(&error))?;
    let material = KeyMaterial {
        hash: text.hash(),
        shown: text.shown(),
        scopes: scopes(),
        expires_at: Some(now.saturating_add(i64::from(USUAL_DAYS) * DAY)),
        network: Some(network),
    };
    Ok((text, material))
}

/// A key for somebody who asks for one in a browser.
pub(crate) async fn issued(
    app: &App,
    account: &Account,
    wish: &Wish,
    address: IpAddr,
) -> Result<(KeyText, KeyRecord), Problem> {
    let network = Some(Network::of(address));
    let issued = issue(&app.store, account, wish, network, app.now()).await;
    issued.map_err(|error| match error {
        IssueError::Wish(detail) | IssueError::NotAllowed(detail) => no_such_key(detail),
        IssueError::Store(error) => refused(error),
        IssueError::Random(error) => Problem::internal(&error),
    })
}

/// What somebody is told who asks for a key that can't be.
pub(crate) fn no_such_key(detail: String) -> Problem {
    Problem::of_sign_in(StatusCode::BAD_REQUEST, "no-such-key", "No key was made", detail)
        .with_way("/account", "Your keys")
}

/// What the store refuses is a limit, not a failure.
pub(crate) fn refused(error: StoreError) -> Problem {
    match error {
        StoreError::Refused { what } => {
            Problem::conflict(format!("{what}; revoke a key that is not needed any more"))
                .with_way("/account", "Your keys")
        }
        error => error.into(),
    }
}
