//! `mcpindex logout`: revokes the key at the index and removes it here.
//!
//! Invariant: whatever the index says, the key is no longer here afterwards; and unless the index said that the key is no longer
//! good, it is said that it is.

use clap::Args;
use mcpindex::index::{
    BASE_VARIABLE, Base, Chosen, Credentials, Granted, IndexClient, KEY_VARIABLE, Variables,
};
use mcpindex::state::StateDirectory;
use reqwest::StatusCode;
use secrecy::ExposeSecret;

use super::exit::Exit;
use super::index::{ANSWER_BYTES, no_index, refusal, until, who_am_i};
use super::login::runtime;
use super::output::{Output, Style};
use super::pins::{Mistake, state};

/// The sort of problem that an index gives about a key that the account does not have.
pub(super) const UNKNOWN_KEY: &str = "unknown-key";

#[derive(Args)]
#[command(after_help = "\
Examples:
  mcpindex logout                         from the default index
  mcpindex logout https://index.example   from this one
  mcpindex logout --keep-key              forgets the key here; it stays good elsewhere
  mcpindex logout --revoke                ends a key that was given with `login --with-token` too

Exit codes: 0 signed out, 5 signed out here, but the index could not be asked
to revoke the key.")]
pub(super) struct LogoutArguments {
    /// The index; without it, MCPINDEX_WEB_BASE, else the default one of a sign-in
    #[arg(value_name = "BASE")]
    base: Option<String>,

    /// Only remove the key here, without revoking it: for one that is used elsewhere too
    #[arg(long)]
    keep_key: bool,

    /// Revoke the key even if it was given with `login --with-token` and may be used elsewhere
    #[arg(long, conflicts_with = "keep_key")]
    revoke: bool,
}

pub(super) fn run(arguments: &LogoutArguments, output: &mut Output) -> Exit {
    match logout(arguments, output) {
        Ok(exit) => exit,
        Err(mistake) => mistake.tell(false, output),
    }
}

fn logout(arguments: &LogoutArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    if Variables::from_environment().key.is_some() {
        output.error(&format!(
            "note: {KEY_VARIABLE} is set and stays as it is: unset it to be signed out of what it opens"
        ));
    }
    let Some(base) = which(arguments.base.as_deref(), &state)? else {
        output.line(Style::Plain, "nobody was signed in to any index here");
        return Ok(Exit::Ok);
    };
    let Some(granted) = Credentials::load(&state)?.granted(&base) else {
        output.line(Style::Plain, &format!("nobody was signed in to {base} here"));
        return Ok(Exit::Ok);
    };
    // Before the key is revoked: one that is revoked and can't be removed would be taken for a good one.
    Credentials::rehearse(&state)?;
    let revoked = match (arguments.keep_key, granted.is_own || arguments.revoke) {
        (true, _) => Ok(Revoked::Kept),
        (false, false) => Ok(Revoked::Given),
        (false, true) => runtime()?.block_on(revoke(&base, &granted)),
    };
    let path = forget(&state, &base, &granted)?;
    let name = granted.key_id.as_deref().unwrap_or("its key");
    let removed = format!("signed out of {base}:");
    match revoked {
        Ok(Revoked::Now) => output.line(
            Style::Plain,
            &format!("{removed} {name} is revoked, and removed from `{path}`"),
        ),
        Ok(Revoked::Before) => output.line(
            Style::Plain,
            &format!("{removed} {name} was no longer good there, and is removed from `{path}`"),
        ),
        Ok(Revoked::Kept) => output.line(
            Style::Plain,
            &format!(
                "{removed} {name} is removed from `{path}`, and stays good {}",
                until(granted.expires_at.as_deref())
            ),
        ),
        Ok(Revoked::Given) => {
            output.line(
                Style::Plain,
                &format!("{removed} {name} is removed from `{path}`"),
            );
            output.error(&format!(
                "note: it was given with `--with-token` and may be used elsewhere, so it stays good {}; on a machine that is \
                 signed in, `mcpindex keys revoke {}` ends it",
                until(granted.expires_at.as_deref()),
                granted.key_id.as_deref().unwrap_or("ID"),
            ));
        }
        Err(why) => {
            output.line(
                Style::Plain,
                &format!("{removed} {name} is removed from `{path}`"),
            );
            output.error(&format!(
                "error: it could not be revoked, and stays good {}: {}; revoke it on {}, or by `mcpindex keys revoke {}` from a \
                 machine that is signed in",
                until(granted.expires_at.as_deref()),
                why.text(),
                base.at("account"),
                granted.key_id.as_deref().unwrap_or("ID"),
            ));
            return Ok(Exit::Undetermined);
        }
    }
    Ok(Exit::Ok)
}

/// The index that is named, in whatever way; a key in the environment plays no part. `None`: none is named, and nobody is signed
/// in to any.
fn which(base: Option<&str>, state: &StateDirectory) -> Result<Option<Base>, Mistake> {
    if let Some(base) = base {
        return Ok(Some(Base::parse(base)?));
    }
    if let Some(base) = Variables::from_environment().base {
        let base = Base::parse(&base);
        return base
            .map(Some)
            .map_err(|error| Mistake::new(Exit::Usage, format!("{BASE_VARIABLE}: {error}")));
    }
    let credentials = Credentials::load(state)?;
    match credentials.default_base() {
        Some(base) => Ok(Some(base)),
        None if credentials.bases().is_empty() => Ok(None),
        None => Err(no_index(state, "mcpindex logout")),
    }
}

enum Revoked {
    Now,
    /// The index does not know it any more.
    Before,
    /// On request.
    Kept,
    /// It was made elsewhere.
    Given,
}

/// Ends a key with the key itself.
async fn revoke(base: &Base, granted: &Granted) -> Result<Revoked, Mistake> {
    let client = IndexClient::new(&Chosen {
        base: base.clone(),
        key: Some(granted.key.clone()),
    })?;
    let id = match &granted.key_id {
        Some(id) => id.clone(),
        // One that was given with `--with-token` to an older version, or by hand.
        None => match client.get("api/v1/whoami", ANSWER_BYTES).await? {
            answer if answer.status == StatusCode::UNAUTHORIZED => return Ok(Revoked::Before),
            _ => who_am_i(&client).await?.key.id,
        },
    };
    match end(&client, &id).await? {
        true => Ok(Revoked::Now),
        false => Ok(Revoked::Before),
    }
}

/// Revokes a key of the client's account; `false`: it was not good any more, or is not known there.
pub(super) async fn end(client: &IndexClient, id: &str) -> Result<bool, Mistake> {
    let answer = client
        .delete(&format!("api/v1/keys/{}", segment(id)), ANSWER_BYTES)
        .await?;
    match answer.status {
        status if status.is_success() => Ok(true),
        StatusCode::UNAUTHORIZED => Ok(false),
        StatusCode::NOT_FOUND if answer.is_problem(UNKNOWN_KEY) => Ok(false),
        _ => Err(refusal(client.base(), &answer)),
    }
}

/// One segment of a path, whatever a person typed.
pub(super) fn segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

/// Removes the key, unless another one has taken its place meanwhile. Gives the file.
fn forget(state: &StateDirectory, base: &Base, granted: &Granted) -> Result<String, Mistake> {
    let path = Credentials::update(state, |stored| {
        let is_same = stored
            .key(base)
            .is_some_and(|key| key.expose_secret() == granted.key.expose_secret());
        if is_same {
            stored.forget(base);
        }
        stored.path().display().to_string()
    })?;
    Ok(path)
}
