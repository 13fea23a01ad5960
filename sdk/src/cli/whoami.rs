//! `mcpindex whoami`: who this machine is at an index, as the index itself says.
//!
//! Invariant: what is stored here alone is no answer, since a key may have been revoked.

use clap::Args;
use mcpindex::index::KEY_VARIABLE;
use serde::Serialize;

use super::exit::Exit;
use super::index::{KeyOfMine, SCHEMA, signed_in, until, who_am_i};
use super::login::runtime;
use super::output::{Output, Style};
use super::pins::{Mistake, print_document, state};

#[derive(Args)]
#[command(after_help = "\
Examples:
  mcpindex whoami                         at the default index
  mcpindex whoami https://index.example   at this one
  mcpindex whoami --json                  as a document, for programs

MCPINDEX_API_KEY is asked about where it is set, else the key that is kept.

Exit codes: 0 signed in, 11 nobody is or the key is no longer good,
13 try later, 5 the index could not be asked.")]
pub(super) struct WhoamiArguments {
    /// The index; without it, MCPINDEX_WEB_BASE, else the default one of a sign-in
    #[arg(value_name = "BASE")]
    base: Option<String>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'d> {
    schema: &'static str,
    base: &'d str,
    login: &'d str,
    role: &'d str,
    issuer: &'d str,
    key: &'d KeyOfMine,
}

pub(super) fn run(arguments: &WhoamiArguments, output: &mut Output) -> Exit {
    match whoami(arguments, output) {
        Ok(()) => Exit::Ok,
        Err(mistake) => mistake.tell_as(SCHEMA, arguments.json, output),
    }
}

fn whoami(arguments: &WhoamiArguments, output: &mut Output) -> Result<(), Mistake> {
    let state = state()?;
    let (chosen, client) = signed_in(arguments.base.as_deref(), &state, "mcpindex whoami")?;
    let me = runtime()?.block_on(who_am_i(&client))?;
    if arguments.json {
        let document = Document {
            schema: SCHEMA,
            base: chosen.base.as_str(),
            login: &me.login,
            role: &me.role,
            issuer: &me.issuer,
            key: &me.key,
        };
        print_document(output, &document);
        return Ok(());
    }
    output.line(
        Style::Strong,
        &format!("{} at {} ({}, by {})", me.login, chosen.base, me.role, me.issuer),
    );
    let given = match std::env::var_os(KEY_VARIABLE).is_some_and(|key| !key.is_empty()) {
        true => format!(", given by {KEY_VARIABLE}"),
        false => String::new(),
    };
    output.line(
        Style::Plain,
        &format!(
            "key {} ({}, {}): {}, {}{given}",
            me.key.name,
            me.key.id,
            me.key.shown,
            me.key.scopes.join(" "),
            until(me.key.expires_at.as_deref())
        ),
    );
    Ok(())
}
