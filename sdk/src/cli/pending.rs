//! `mcpindex pending`: what waits for a person.
//!
//! Invariant: nothing is decided by looking, and a record that can't be read is said, never taken for one with nothing to
//! decide.

use std::sync::Arc;

use clap::Args;
use mcpindex::pins::{Pins, Record, ServerKey};
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, Style};
use super::pins::{Mistake, SCHEMA, count, date, moment, name_of, print_document, state};
use super::server_name::named;

#[derive(Args)]
pub(super) struct PendingArguments {
    /// One server alone
    #[arg(value_name = "SERVER")]
    server: Option<String>,

    /// Seen with which credentials, where it has pins under more than one
    #[arg(long, value_name = "CONTEXT", requires = "server")]
    context: Option<String>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'r> {
    schema: &'static str,
    pending: Vec<Entry<'r>>,
    /// Why the pins of a server can't be used, so that it is not known what waits there.
    problems: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'r> {
    server: String,
    context: String,
    /// `tool` or `instructions`.
    kind: &'static str,
    /// The tool's name.
    tool: Option<&'r str>,
    digest: &'r str,
    approved_digest: Option<&'r str>,
    first_seen: String,
    codes: &'r [String],
    /// As the server sent it (of instructions, the JSON string).
    definition: &'r str,
    #[serde(skip)]
    at: i64,
}

pub(super) fn run(arguments: PendingArguments, output: &mut Output) -> Exit {
    match pending(&arguments, output) {
        Ok(exit) => exit,
        Err(mistake) => mistake.tell(arguments.json, output),
    }
}

fn pending(arguments: &PendingArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let servers = match &arguments.server {
        None => Pins::all(&state),
        Some(server) => {
            let key = named(server, arguments.context.as_deref(), &state)
                .map_err(|text| Mistake::new(Exit::Usage, text))?;
            let pins = Pins::open(&state, &key);
            vec![(key, pins)]
        }
    };
    let mut records: Vec<(ServerKey, Arc<Record>)> = Vec::new();
    let mut problems = Vec::new();
    for (key, mut pins) in servers {
        match pins.record() {
            Ok(record) => records.push((key, record)),
            Err(error) => problems.push(error.to_string()),
        }
        if let Some(notice) = pins.take_notice() {
            output.error(&format!("note: {notice}"));
        }
    }
    if arguments.server.is_none() {
        let strays = Pins::strays(&state).into_iter();
        problems.extend(strays.map(|path| format!("`{}` does not say whose pins it holds", path.display())));
    }
    let exit = match problems.is_empty() {
        true => Exit::Ok,
        false => Exit::Undetermined,
    };
    if arguments.json {
        let pending = records
            .iter()
            .flat_map(|(key, record)| entries(key, record))
            .collect();
        let document = Document {
            schema: SCHEMA,
            pending,
            problems,
        };
        print_document(output, &document);
        return Ok(exit);
    }
    let mut waiting = 0;
    for (key, record) in &records {
        waiting += print(key, record, output);
    }
    for problem in &problems {
        output.line(Style::Alarm, problem);
    }
    let end = match waiting {
        0 if problems.is_empty() => "nothing waits for a decision".to_owned(),
        0 => "nothing else waits for a decision".to_owned(),
        _ => format!(
            "{} for a decision: `mcpindex review` shows what changed, `mcpindex approve SERVER TOOL DIGEST` accepts one",
            count(waiting, "definition waits", "definitions wait")
        ),
    };
    output.line(Style::Plain, &end);
    Ok(exit)
}

fn entries<'r>(key: &ServerKey, record: &'r Record) -> Vec<Entry<'r>> {
    let entry = |kind, tool, digest, approved_digest, held: &'r mcpindex::pins::Held| Entry {
        server: key.identity.to_string(),
        context: key.context.to_string(),
        kind,
        tool,
        digest,
        approved_digest,
        first_seen: moment(held.first_seen),
        codes: &held.codes,
        definition: &held.definition,
        at: held.first_seen,
    };
    let approved = record.instructions.iter().flatten().next();
    let approved = approved.map(|pin| pin.digest.as_str());
    let instructions = record
        .waiting_instructions()
        .map(|(digest, held)| entry("instructions", None, digest, approved, held))
        .into_iter();
    let tools = record.waiting().flat_map(|(name, pin)| {
        let approved = pin.baseline.as_ref().map(|pin| pin.digest.as_str());
        pin.waiting()
            .map(move |(digest, held)| entry("tool", Some(name), digest, approved, held))
    });
    instructions.chain(tools).collect()
}

/// How many there were.
fn print(key: &ServerKey, record: &Record, output: &mut Output) -> usize {
    let entries = entries(key, record);
    if entries.is_empty() {
        return 0;
    }
    output.line(Style::Strong, &name_of(key));
    for entry in &entries {
        let what = entry.tool.unwrap_or("(instructions)");
        let codes = entry.codes.join(", ");
        let is_new = match (entry.tool, entry.approved_digest) {
            (Some(_), None) => "never pinned, ",
            _ => "",
        };
        output.line(Style::Plain, &format!("  {what}  {}", entry.digest));
        let mut line = format!("    {is_new}first seen {}", date(entry.at));
        if entry.digest.starts_with("raw-") {
            line.push_str(", can't be approved since readers disagree on what it says");
        }
        if !codes.is_empty() {
            line.push_str(": ");
            line.push_str(&codes);
        }
        output.line(Style::Faint, &line);
    }
    output.line(Style::Plain, "");
    entries.len()
}
