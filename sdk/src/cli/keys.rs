//! `mcpindex keys`: the keys of one's account at an index.
//!
//! Invariant: a key is printed once, on stdout and alone there, by the command that made it; the key that this machine uses is
//! never printed.

use clap::{Args, Subcommand, ValueEnum};
use mcpindex::index::{Base, Credentials, Granted, IndexClient, read_key};
use mcpindex::state::StateDirectory;
use mcpindex::visible::visible;
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::exit::Exit;
use super::index::{ANSWER_BYTES, SCHEMA, day, refusal, scopes, signed_in, unreadable, until, who_am_i};
use super::login::revoke_by_itself;
use super::login::runtime;
use super::logout::{UNKNOWN_KEY, segment};
use super::output::{Output, Style};
use super::pins::{Mistake, print_document, state};

#[derive(Args)]
#[command(after_help = "\
Examples:
  mcpindex keys list
  mcpindex keys create --name ci --scope read --days 90 > key
  mcpindex keys rotate                        the key of this machine
  mcpindex keys revoke key_0123456789abcdef

A key that is made is all that is written to stdout. It ends with the key
that asks, at the latest: `mcpindex login` gets one with a whole life.

Exit codes: 0 done, 11 nobody is signed in or it is not allowed,
12 no such key, 13 try later, 5 the index could not be asked.")]
pub(super) struct KeysArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the keys of your account
    List(ListArguments),
    /// Makes a key, and prints it once
    Create(CreateArguments),
    /// Replaces a key by a fresh one of the same rights; the old one ends in 24 hours
    Rotate(RotateArguments),
    /// Ends a key, within 30 seconds everywhere
    Revoke(RevokeArguments),
}

#[derive(Args)]
struct Common {
    /// The index; without it, MCPINDEX_WEB_BASE, else the default one of a sign-in
    #[arg(long, value_name = "BASE")]
    index: Option<String>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ListArguments {
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct CreateArguments {
    /// What it is for; shown wherever keys are listed
    #[arg(long, value_name = "NAME")]
    name: String,

    /// What it may do (repeatable); no more than the key that asks
    #[arg(long = "scope", value_enum, value_name = "SCOPE", default_value = "read")]
    scopes: Vec<Scope>,

    /// How many days it is good; it ends with the key that asks, at the latest
    #[arg(long, value_name = "N", default_value_t = 180, value_parser = clap::value_parser!(u32).range(1..=3_650))]
    days: u32,

    /// It does not end by itself, but with the key that asks
    #[arg(long, conflicts_with = "days")]
    no_expiry: bool,

    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scope {
    /// Reads all that members may read
    Read,
    /// Sends signals and receipts
    Ingest,
    /// Decides about tools, as far as its owner may
    Approve,
    /// Whatever its owner may do
    Admin,
}

impl Scope {
    fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Ingest => "ingest",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        }
    }
}

#[derive(Args)]
struct RotateArguments {
    /// The key, as `mcpindex keys list` names it; without it, the one that this machine uses
    #[arg(value_name = "ID")]
    id: Option<String>,

    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct RevokeArguments {
    /// The key, as `mcpindex keys list` names it
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    common: Common,
}

/// A key as the index lists it.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all(serialize = "camelCase"))]
struct Listed {
    id: String,
    name: String,
    /// Its beginning.
    shown: String,
    #[serde(deserialize_with = "scopes")]
    scopes: Vec<String>,
    created_at: Option<String>,
    expires_at: Option<String>,
    last_used_on: Option<String>,
    revoked_at: Option<String>,
    /// The key that took its place.
    replaced_by: Option<String>,
    /// Whether it is the key that asked.
    #[serde(default)]
    current: bool,
}

/// A key as the index makes it.
#[derive(Deserialize)]
struct Made {
    key: String,
    #[serde(flatten)]
    listed: Listed,
}

pub(super) fn run(arguments: &KeysArguments, output: &mut Output) -> Exit {
    let (json, done) = match &arguments.command {
        Command::List(arguments) => (arguments.common.json, list(arguments, output)),
        Command::Create(arguments) => (arguments.common.json, create(arguments, output)),
        Command::Rotate(arguments) => (arguments.common.json, rotate(arguments, output)),
        Command::Revoke(arguments) => (arguments.common.json, self::revoke(arguments, output)),
    };
    match done {
        Ok(()) => Exit::Ok,
        Err(mistake) => mistake.tell_as(SCHEMA, json, output),
    }
}

/// Where the keys are, and who asks for them.
struct Desk {
    state: StateDirectory,
    base: Base,
    client: IndexClient,
    /// Whether the key that asks is the one that is stored, so that another can take its place.
    uses_stored: bool,
}

impl Desk {
    fn open(common: &Common) -> Result<Desk, Mistake> {
        let state = state()?;
        let (chosen, client) = signed_in(common.index.as_deref(), &state, "mcpindex keys list --index")?;
        let stored = Credentials::load(&state)
            .ok()
            .and_then(|stored| stored.key(&chosen.base));
        let uses_stored = match (&stored, &chosen.key) {
            (Some(stored), Some(key)) => stored.expose_secret() == key.expose_secret(),
            _ => false,
        };
        Ok(Desk {
            state,
            base: chosen.base,
            client,
            uses_stored,
        })
    }
}

fn list(arguments: &ListArguments, output: &mut Output) -> Result<(), Mistake> {
    #[derive(Deserialize)]
    struct Answered {
        keys: Vec<Listed>,
    }
    #[derive(Serialize)]
    struct Document<'d> {
        schema: &'static str,
        base: &'d str,
        keys: &'d [Listed],
    }
    let desk = Desk::open(&arguments.common)?;
    let answer = runtime()?.block_on(desk.client.get("api/v1/keys", ANSWER_BYTES))?;
    if answer.status != StatusCode::OK {
        return Err(refusal(&desk.base, &answer));
    }
    let Answered { keys } = answer
        .json()
        .ok_or_else(|| unreadable(&desk.base, "api/v1/keys"))?;
    if arguments.common.json {
        let document = Document {
            schema: SCHEMA,
            base: desk.base.as_str(),
            keys: &keys,
        };
        print_document(output, &document);
        return Ok(());
    }
    output.line(Style::Strong, &format!("keys at {}", desk.base));
    let ids: Vec<String> = keys.iter().map(|key| visible(&key.id)).collect();
    let names: Vec<String> = keys.iter().map(|key| visible(&key.name)).collect();
    let (id_width, name_width) = (width(&ids), width(&names));
    for ((key, id), name) in keys.iter().zip(&ids).zip(&names) {
        let style = match key.revoked_at {
            Some(_) => Style::Faint,
            None => Style::Plain,
        };
        let text = format!("  {id:id_width$}  {name:name_width$}  {}", key.words());
        output.line(style, &text);
    }
    if keys.is_empty() {
        output.line(Style::Faint, "  none");
    }
    Ok(())
}

/// Of a column, which a single long text must not stretch.
fn width(texts: &[String]) -> usize {
    let widths = texts.iter().map(|text| text.chars().count());
    widths.max().unwrap_or(0).min(40)
}

impl Listed {
    /// All but its id and name.
    fn words(&self) -> String {
        let good = match &self.revoked_at {
            Some(at) => format!("revoked on {}", day(at)),
            None => until(self.expires_at.as_deref()),
        };
        let used = self.last_used_on.as_ref().map_or_else(
            || "never used".to_owned(),
            |at| format!("last used on {}", day(at)),
        );
        let replaced = self
            .replaced_by
            .as_ref()
            .map_or_else(String::new, |id| format!(", replaced by {id}"));
        let current = if self.current { ", the one that asks" } else { "" };
        format!(
            "{}  {}, {good}, {used}{replaced}{current}",
            self.shown,
            self.scopes.join(" ")
        )
    }
}

fn create(arguments: &CreateArguments, output: &mut Output) -> Result<(), Mistake> {
    #[derive(Serialize)]
    struct Question<'q> {
        name: &'q str,
        scopes: Vec<&'static str>,
        expires_in_days: Option<u32>,
    }
    let question = Question {
        name: &arguments.name,
        scopes: arguments.scopes.iter().map(|scope| scope.name()).collect(),
        expires_in_days: (!arguments.no_expiry).then_some(arguments.days),
    };
    let desk = Desk::open(&arguments.common)?;
    let (listed, key) = runtime()?.block_on(make(&desk, "api/v1/keys", &question))?;
    tell_made(&desk, &listed, Some(&key), arguments.common.json, output);
    Ok(())
}

fn rotate(arguments: &RotateArguments, output: &mut Output) -> Result<(), Mistake> {
    #[derive(Serialize)]
    struct Nothing {}
    let desk = Desk::open(&arguments.common)?;
    if desk.uses_stored {
        // Before there is a key that has to be stored.
        Credentials::rehearse(&desk.state)?;
    }
    let (old, listed, key, is_own) = runtime()?.block_on(async {
        let own = who_am_i(&desk.client).await?;
        let old = arguments.id.clone().unwrap_or_else(|| own.key.id.clone());
        let path = format!("api/v1/keys/{}/rotate", segment(&old));
        let (listed, key) = make(&desk, &path, &Nothing {}).await?;
        let is_own = old == own.key.id && desk.uses_stored;
        if is_own {
            let granted = Granted {
                key: key.clone(),
                key_id: Some(listed.id.clone()),
                login: Some(own.login),
                expires_at: listed.expires_at.clone(),
                is_own: true,
            };
            store(&desk, granted, &listed.id).await?;
        }
        Ok::<_, Mistake>((old, listed, key, is_own))
    })?;
    if is_own {
        output.error(&format!(
            "the key of this machine is {} now; {old} ends in 24 hours",
            listed.id
        ));
        tell_made(&desk, &listed, None, arguments.common.json, output);
    } else {
        output.error(&format!("{old} ends in 24 hours"));
        tell_made(&desk, &listed, Some(&key), arguments.common.json, output);
    }
    Ok(())
}

/// Keeps the key; one that can't be kept is ended, since nobody would know it.
async fn store(desk: &Desk, granted: Granted, id: &str) -> Result<(), Mistake> {
    let kept = granted.clone();
    let Err(error) = Credentials::update(&desk.state, |stored| stored.remember(&desk.base, kept, false))
    else {
        return Ok(());
    };
    // By itself: a key that another took the place of ends no others.
    let ended = match revoke_by_itself(&desk.base, &granted, id).await {
        Ok(_) => format!("{id} was made and revoked again"),
        Err(_) => format!("{id} was made and could not be revoked: `mcpindex keys revoke {id}`"),
    };
    let mistake = Mistake::from(error);
    Err(Mistake::new(
        mistake.exit(),
        format!("{}; {ended}", mistake.text()),
    ))
}

/// Asks for a key.
async fn make(desk: &Desk, path: &str, question: &impl Serialize) -> Result<(Listed, SecretString), Mistake> {
    let answer = desk.client.post(path, question, ANSWER_BYTES).await?;
    match answer.status {
        StatusCode::OK | StatusCode::CREATED => {}
        StatusCode::NOT_FOUND if answer.is_problem(UNKNOWN_KEY) => return Err(no_such_key(&desk.base)),
        _ => return Err(refusal(&desk.base, &answer)),
    }
    let Made { key, listed } = answer.json().ok_or_else(|| unreadable(&desk.base, path))?;
    let key = read_key(&key).map_err(|error| {
        Mistake::new(
            Exit::Undetermined,
            format!("{} gave a key that is none: {error}", desk.base),
        )
    })?;
    Ok((listed, key))
}

fn tell_made(desk: &Desk, listed: &Listed, key: Option<&SecretString>, json: bool, output: &mut Output) {
    #[derive(Serialize)]
    struct Document<'d> {
        schema: &'static str,
        base: &'d str,
        /// The only time that it is told; not told where this machine keeps it.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<&'d str>,
        key: &'d Listed,
    }
    if json {
        let document = Document {
            schema: SCHEMA,
            base: desk.base.as_str(),
            secret: key.map(ExposeSecret::expose_secret),
            key: listed,
        };
        return print_document(output, &document);
    }
    output.error(&format!(
        "{} ({}) at {}: {}",
        listed.name,
        listed.id,
        desk.base,
        listed.words()
    ));
    if let Some(key) = key {
        output.error("the key, which is shown this once:");
        output.line(Style::Plain, key.expose_secret());
    }
}

fn no_such_key(base: &Base) -> Mistake {
    let text = format!("{base} has no such key of yours: `mcpindex keys list` names them");
    Mistake::new(Exit::NoSuch, text)
}

fn revoke(arguments: &RevokeArguments, output: &mut Output) -> Result<(), Mistake> {
    #[derive(Serialize)]
    struct Document<'d> {
        schema: &'static str,
        base: &'d str,
        id: &'d str,
        revoked: bool,
    }
    let desk = Desk::open(&arguments.common)?;
    let answer = runtime()?.block_on(
        desk.client
            .delete(&format!("api/v1/keys/{}", segment(&arguments.id)), ANSWER_BYTES),
    )?;
    match answer.status {
        status if status.is_success() => {}
        StatusCode::NOT_FOUND if answer.is_problem(UNKNOWN_KEY) => return Err(no_such_key(&desk.base)),
        _ => return Err(refusal(&desk.base, &answer)),
    }
    if arguments.common.json {
        let document = Document {
            schema: SCHEMA,
            base: desk.base.as_str(),
            id: &arguments.id,
            revoked: true,
        };
        print_document(output, &document);
    } else {
        output.line(
            Style::Plain,
            &format!(
                "{} is revoked; within 30 seconds nobody is let in with it",
                arguments.id
            ),
        );
    }
    // It is revoked, whatever becomes of this file.
    let was_own = Credentials::update(&desk.state, |stored| {
        let is_own = stored
            .granted(&desk.base)
            .is_some_and(|granted| granted.key_id.as_deref() == Some(arguments.id.as_str()));
        is_own && stored.forget(&desk.base)
    });
    match was_own {
        Ok(false) => {}
        Ok(true) => output.error(&format!(
            "it was the key of this machine, which is signed out of {base} now: `mcpindex login {base}`",
            base = desk.base
        )),
        Err(why) => output.error(&format!(
            "note: whether it is kept here can't be said: {}",
            Mistake::from(why).text()
        )),
    }
    Ok(())
}
