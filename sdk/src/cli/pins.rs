//! `mcpindex pins`: what is pinned, since when and how.
//!
//! Invariant: nothing but `reset` and `import` changes a record; with `--json` there is exactly one document on stdout,
//! whatever the exit.

mod look;

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mcpindex::clock::{Clock, SystemClock};
use mcpindex::pins::{Pins, PinsError, PublishedPins, Record, ServerKey, published_pins, published_pins_in};
use mcpindex::state::StateDirectory;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::exit::Exit;
use super::output::{Output, Style};
use super::server_name::ServerArguments;

pub(super) use look::{pinned, since};

#[derive(Args)]
pub(super) struct PinsArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the servers that have pins
    List(ListArguments),
    /// Shows what is pinned of a server, or all that is known of one tool
    Show(ToolArguments),
    /// Shows every step of a server's tools: pinned, approved, let through, refused
    History(ToolArguments),
    /// Forgets a server: what it serves next is trusted on first sight
    Reset(ResetArguments),
    /// Takes over the pins that the published client has under an entry's name
    Import(ImportArguments),
}

#[derive(Args)]
struct ListArguments {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ToolArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// One tool alone
    #[arg(value_name = "TOOL")]
    tool: Option<String>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ResetArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Without asking
    #[arg(long)]
    yes: bool,

    /// One JSON document instead of text; asks nothing, so it needs --yes
    #[arg(long, requires = "yes")]
    json: bool,
}

#[derive(Args)]
struct ImportArguments {
    /// The name of the entry, as the published client has it
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    server: ServerArguments,

    /// The pin file; without it, all in the state directory's `pins/`
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// The name and version of every document of `pins`, `pending` and `approve`.
pub(super) const SCHEMA: &str = "mcpindex.pins/1";

/// What went wrong, and with which exit.
pub(super) struct Mistake {
    exit: Exit,
    text: String,
}

impl Mistake {
    pub(super) fn new(exit: Exit, text: impl Into<String>) -> Mistake {
        let text = text.into();
        Mistake { exit, text }
    }

    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Tells it, in a document of these commands where one is due.
    pub(super) fn tell(&self, json: bool, output: &mut Output) -> Exit {
        self.tell_as(SCHEMA, json, output)
    }

    /// The one place where a mistake is told: in a document of this schema where one is due.
    pub(super) fn tell_as(&self, schema: &'static str, json: bool, output: &mut Output) -> Exit {
        if json {
            print_mistake(output, schema, &self.text);
        }
        output.error(&format!("error: {}", self.text));
        self.exit
    }
}

impl From<PinsError> for Mistake {
    fn from(error: PinsError) -> Mistake {
        let exit = match &error {
            PinsError::Busy { .. } => Exit::TryLater,
            PinsError::NotSaved { .. } => Exit::Internal,
            PinsError::Context(_) => Exit::Usage,
            PinsError::Gone { .. }
            | PinsError::Unreadable { .. }
            | PinsError::Newer { .. }
            | PinsError::Altered { .. } => Exit::Undetermined,
        };
        Mistake::new(exit, error.to_string())
    }
}

/// The document for what could not be done.
pub(super) fn print_mistake(output: &mut Output, schema: &'static str, error: &str) {
    #[derive(Serialize)]
    struct Document<'d> {
        schema: &'static str,
        error: &'d str,
    }
    print_document(output, &Document { schema, error });
}

pub(super) fn print_document(output: &mut Output, document: &impl Serialize) {
    // Fails only for maps with keys that are no strings; there are none.
    output.document(&serde_json::to_string_pretty(document).unwrap_or_default());
}

pub(super) fn state() -> Result<StateDirectory, Mistake> {
    StateDirectory::from_environment().map_err(|error| Mistake::new(Exit::Usage, error.to_string()))
}

/// The server meant, and its pins.
pub(super) fn open(server: &ServerArguments, state: &StateDirectory) -> Result<(ServerKey, Pins), Mistake> {
    let key = server
        .key(state)
        .map_err(|mistake| Mistake::new(Exit::Usage, mistake))?;
    let pins = Pins::open(state, &key);
    Ok((key, pins))
}

/// How a server is called in a text: its identity, and its auth context where that is not the usual one.
pub(super) fn name_of(key: &ServerKey) -> String {
    match key.is_usual() {
        true => key.identity.to_string(),
        false => format!("{} ({})", key.identity, key.context),
    }
}

/// The UTC date of unix seconds.
pub(super) fn date(at: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(at);
    moment.map_or_else(|_| at.to_string(), |moment| moment.date().to_string())
}

/// Unix seconds as RFC 3339 in UTC.
pub(super) fn moment(at: i64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(at).ok();
    let written = moment.and_then(|moment| moment.format(&Rfc3339).ok());
    written.unwrap_or_else(|| at.to_string())
}

/// `1 tool`, `2 tools`.
pub(super) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

pub(super) fn run(arguments: PinsArguments, output: &mut Output) -> Exit {
    let (json, done) = match arguments.command {
        Command::List(list) => (list.json, look::list(list.json, output)),
        Command::Show(show) => (show.json, look::show(&show, output)),
        Command::History(history) => (history.json, look::history(&history, output)),
        Command::Reset(reset) => (reset.json, self::reset(&reset, output)),
        Command::Import(import) => (import.json, self::import(&import, output)),
    };
    match done {
        Ok(exit) => exit,
        Err(mistake) => mistake.tell(json, output),
    }
}

fn reset(arguments: &ResetArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let (key, mut pins) = open(&arguments.server, &state)?;
    let record = pins.record();
    let is_known = record.is_err() || Pins::all(&state).iter().any(|(known, _)| *known == key);
    if !is_known {
        return Err(nothing_pinned(&key));
    }
    if !arguments.yes {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            let text = format!(
                "nothing was reset: confirm with --yes that {} is forgotten",
                name_of(&key)
            );
            return Err(Mistake::new(Exit::Usage, text));
        }
        match &record {
            Ok(record) => output.line(Style::Plain, &format!("{}: {}", name_of(&key), in_short(record))),
            Err(error) => output.line(Style::Plain, &error.to_string()),
        }
        output.line(
            Style::Strong,
            "Forget all of it, so that what the server declares next is trusted on first sight? [y/N]",
        );
        let mut answer = String::new();
        // Whatever can't be read is no consent.
        let read = io::stdin().read_line(&mut answer);
        if read.is_err() || !matches!(answer.trim(), "y" | "Y" | "yes") {
            output.line(Style::Plain, "nothing was reset");
            return Ok(Exit::Ok);
        }
    }
    pins.reset()?;
    if arguments.json {
        #[derive(Serialize)]
        struct Document {
            schema: &'static str,
            server: String,
            context: String,
            reset: bool,
        }
        print_document(
            output,
            &Document {
                schema: SCHEMA,
                server: key.identity.to_string(),
                context: key.context.to_string(),
                reset: true,
            },
        );
    } else {
        let name = name_of(&key);
        output.line(
            Style::Plain,
            &format!("{name} is forgotten: what it declares next is trusted on first sight"),
        );
    }
    Ok(Exit::Ok)
}

/// How much a record holds.
fn in_short(record: &Record) -> String {
    let pinned = record
        .tools
        .values()
        .filter(|tool| tool.baseline.is_some())
        .count();
    let waiting = waiting(record);
    let mut text = format!("{} pinned", count(pinned, "tool", "tools"));
    if waiting > 0 {
        text.push_str(&format!(", {waiting} held for review"));
    }
    text
}

/// How many definitions and instructions wait for a person.
pub(super) fn waiting(record: &Record) -> usize {
    record.waiting().count() + usize::from(record.waiting_instructions().is_some())
}

pub(super) fn nothing_pinned(key: &ServerKey) -> Mistake {
    let text = format!(
        "nothing is pinned of {}: `mcpindex pins list` shows the servers that have pins",
        name_of(key)
    );
    Mistake::new(Exit::NoSuch, text)
}

fn import(arguments: &ImportArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let (key, mut pins) = open(&arguments.server, &state)?;
    let source = published(arguments, &state)?;
    let now = SystemClock.unix_seconds();
    let mut became = None;
    pins.update(|record| became = Some(source.take_over(record, now)))?;
    let became = became.unwrap_or_default();
    if arguments.json {
        #[derive(Serialize)]
        struct Document<'d> {
            schema: &'static str,
            server: String,
            context: String,
            name: &'d str,
            file: String,
            taken: &'d [String],
            partial: &'d [String],
            kept: &'d [String],
            unusable: &'d [String],
        }
        print_document(
            output,
            &Document {
                schema: SCHEMA,
                server: key.identity.to_string(),
                context: key.context.to_string(),
                name: &source.server_id,
                file: source.file.display().to_string(),
                taken: &became.taken,
                partial: &became.partial,
                kept: &became.kept,
                unusable: &became.unusable,
            },
        );
        return Ok(Exit::Ok);
    }
    let taken = count(became.taken.len(), "pin", "pins");
    output.line(
        Style::Strong,
        &format!(
            "{taken} of `{}` taken over as the baseline of {}",
            source.server_id,
            name_of(&key)
        ),
    );
    let mut say = |names: &[String], why: &str| {
        if !names.is_empty() {
            output.line(Style::Plain, &format!("  {}: {}", why, names.join(", ")));
        }
    };
    say(&became.taken, "taken over");
    say(
        &became.partial,
        "recorded before version 0.19 with name, description and input schema alone, so what else the server declares is held for review",
    );
    say(&became.kept, "had a baseline already, which stays");
    say(
        &became.unusable,
        "not taken over, since there is no definition or one without a digest, and a contract hash alone covers too little",
    );
    Ok(Exit::Ok)
}

/// The one entry of that name among the published client's pins.
fn published(arguments: &ImportArguments, state: &StateDirectory) -> Result<PublishedPins, Mistake> {
    let found: Vec<Result<PublishedPins, String>> = match &arguments.from {
        Some(file) => {
            let read =
                published_pins_in(file).map_err(|problem| Mistake::new(Exit::Undetermined, problem))?;
            read.into_iter().map(Ok).collect()
        }
        None => published_pins(state),
    };
    let (read, problems): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    let (mut named, others): (Vec<_>, Vec<_>) = read
        .into_iter()
        .flatten()
        .partition(|pins| pins.server_id == arguments.name);
    match (named.pop(), named.pop()) {
        (Some(pins), None) => Ok(pins),
        (Some(first), Some(second)) => {
            let text = format!(
                "`{}` is in `{}` and in `{}`: say which with --from",
                arguments.name,
                second.file.display(),
                first.file.display()
            );
            Err(Mistake::new(Exit::Usage, text))
        }
        (None, _) => {
            if let Some(Err(problem)) = problems.into_iter().next() {
                return Err(Mistake::new(Exit::Undetermined, problem));
            }
            let names: Vec<&str> = others.iter().map(|pins| pins.server_id.as_str()).collect();
            let there = match names.is_empty() {
                true => "there are none at all (--from names a pin file elsewhere)".to_owned(),
                false => format!("there are those of {}", names.join(", ")),
            };
            let text = format!(
                "the published client has no pins under the name `{}`: {there}",
                arguments.name
            );
            Err(Mistake::new(Exit::NoSuch, text))
        }
    }
}
