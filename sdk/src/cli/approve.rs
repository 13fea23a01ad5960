//! `mcpindex approve`: one decision without questions, for scripts.
//!
//! Invariant: only a digest that is held can be approved, and exactly that.

use clap::Args;
use mcpindex::clock::{Clock, SystemClock};
use mcpindex::pins::{Record, ServerKey};
use mcpindex_contract::digest::Digest;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, Style};
use super::pins::{Mistake, SCHEMA, name_of, open, print_document, state};
use super::server_name::ServerArguments;

#[derive(Args)]
pub(super) struct ApproveArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// The tool's name
    #[arg(value_name = "TOOL", required_unless_present = "instructions")]
    tool: Option<String>,

    /// The whole digest, as `mcpindex pending` shows it
    #[arg(value_name = "DIGEST", required_unless_present = "instructions")]
    digest: Option<String>,

    /// Approve the server's instructions of this digest instead of a tool
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["tool", "digest"])]
    instructions: Option<String>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'d> {
    schema: &'static str,
    server: String,
    context: String,
    /// `null`: the instructions.
    tool: Option<&'d str>,
    digest: &'d str,
    /// `approved`, or `already` when it was the baseline before.
    decision: &'static str,
}

/// What came of it.
enum Outcome {
    Approved,
    Already,
    /// What is held instead.
    NotHeld(Vec<String>),
}

pub(super) fn run(arguments: ApproveArguments, output: &mut Output) -> Exit {
    match approve(&arguments, output) {
        Ok(exit) => exit,
        Err(mistake) => mistake.tell(arguments.json, output),
    }
}

fn approve(arguments: &ApproveArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let tool = arguments.tool.as_deref();
    // One of the two is there, or clap would have refused.
    let digest = arguments.instructions.as_ref().or(arguments.digest.as_ref());
    let digest = digest.map_or("", String::as_str);
    can_be_approved(digest)?;
    let state = state()?;
    let (key, mut pins) = open(&arguments.server, &state)?;
    let now = SystemClock.unix_seconds();
    let mut outcome = Outcome::NotHeld(Vec::new());
    pins.update(|record| {
        outcome = match tool {
            Some(tool) => decide_tool(record, tool, digest, now),
            None => decide_instructions(record, digest, now),
        };
    })?;
    let what = tool.map_or_else(|| "the instructions".to_owned(), |tool| format!("`{tool}`"));
    let decision = match outcome {
        Outcome::Approved => "approved",
        Outcome::Already => "already",
        Outcome::NotHeld(held) => return Err(not_held(&key, &what, digest, &held)),
    };
    if arguments.json {
        print_document(
            output,
            &Document {
                schema: SCHEMA,
                server: key.identity.to_string(),
                context: key.context.to_string(),
                tool,
                digest,
                decision,
            },
        );
    } else {
        let said = match decision {
            "approved" => "approved, and the baseline from now on",
            _ => "is the baseline already",
        };
        output.line(
            Style::Plain,
            &format!("{what} of {}: {digest} {said}", name_of(&key)),
        );
    }
    Ok(Exit::Ok)
}

fn decide_tool(record: &mut Record, tool: &str, digest: &str, now: i64) -> Outcome {
    if record.approve(tool, digest, now) {
        return Outcome::Approved;
    }
    let Some(pin) = record.tools.get(tool) else {
        return Outcome::NotHeld(Vec::new());
    };
    match &pin.baseline {
        Some(baseline) if baseline.digest == digest => Outcome::Already,
        _ => Outcome::NotHeld(pin.held.keys().cloned().collect()),
    }
}

fn decide_instructions(record: &mut Record, digest: &str, now: i64) -> Outcome {
    if record.approve_instructions(digest, now) {
        return Outcome::Approved;
    }
    match &record.instructions {
        Some(Some(pin)) if pin.digest == digest => Outcome::Already,
        _ => Outcome::NotHeld(record.held_instructions.keys().cloned().collect()),
    }
}

fn can_be_approved(digest: &str) -> Result<(), Mistake> {
    match digest.parse::<Digest>() {
        Err(error) => Err(Mistake::new(Exit::Usage, format!("`{digest}` is {error}"))),
        Ok(digest) if digest.is_raw() => Err(Mistake::new(
            Exit::Usage,
            "a raw digest can't be approved: readers disagree on what such a definition says, so another one could be meant by what \
             is shown; its author has to mend it (`mcpindex explain` says what is wrong)",
        )),
        Ok(_) => Ok(()),
    }
}

fn not_held(key: &ServerKey, what: &str, digest: &str, held: &[String]) -> Mistake {
    let instead = match held {
        [] => "nothing of it is; `mcpindex pending` lists what is".to_owned(),
        held => format!("held is {}", held.join(", ")),
    };
    let text = format!("{what} of {} is not held with {digest}: {instead}", name_of(key));
    Mistake::new(Exit::NoSuch, text)
}
