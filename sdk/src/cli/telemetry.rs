//! `mcpindex telemetry on|off|status|show-payload|reset`.
//!
//! Invariant: nothing is sent by any of these; `show-payload` writes to stdout what would be sent and nothing else.

use std::io;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use mcpindex::clock::{Clock, SystemClock};
use mcpindex::index::{self, Chosen, IndexError, Variables};
use mcpindex::state::StateDirectory;
use mcpindex::telemetry::kept::{Kept, KeptError, LastBatch, LastQuestions, Refused};
use mcpindex::telemetry::mode::{choose, keep_mode};
use mcpindex::telemetry::{Choice, Mode, ModeVariables, Preview, Source, Version, preview};
use mcpindex::visible::visible_within;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, Style};
use super::pins::{Mistake, moment, print_document, state};

#[derive(Args)]
pub(super) struct TelemetryArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Switches it on: an index that you chose is asked about what gates see, and told of it
    On(OnArguments),
    /// Switches it off: nothing is sent and nothing asked
    Off,
    /// Says whether it is on, who says so, and how the index took the last batch
    Status(StatusArguments),
    /// Prints what would be sent of all that is pinned and held here; sends nothing
    ShowPayload,
    /// Forgets the number of this install, and which index refused its signals; the mode stays
    Reset,
}

#[derive(Args)]
struct OnArguments {
    /// How much: lookup only asks
    #[arg(value_enum, default_value = "detection")]
    mode: ModeArgument,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeArgument {
    Lookup,
    Detection,
    Contribute,
}

#[derive(Args)]
struct StatusArguments {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    schema: &'static str,
    mode: &'static str,
    /// `do-not-track`, `variable`, `ci`, `file`, `published-client` or `default`.
    source: &'static str,
    asks: bool,
    sends: bool,
    index: Option<String>,
    has_key: bool,
    /// The number of this install at that index; `null` before anything was sent.
    install_id: Option<String>,
    has_token: bool,
    /// Since when nothing is sent there any more, and why.
    refused: Option<RefusedPart>,
    last_batch: Option<LastPart>,
    /// Why questions are not answered there, and since when; `null` where they are, or none was asked.
    questions_refused: Option<UnansweredPart>,
    /// What can't be used.
    problems: Vec<String>,
    #[serde(skip)]
    says: Source,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusedPart {
    at: String,
    error: String,
    signal_version: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastPart {
    at: String,
    signals: usize,
    signal_version: u8,
    failure: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UnansweredPart {
    at: String,
    reason: String,
}

pub(super) fn run(arguments: TelemetryArguments, output: &mut Output) -> Exit {
    let (json, done) = match arguments.command {
        Command::On(arguments) => (false, switch(arguments.mode.into(), output)),
        Command::Off => (false, switch(Mode::Off, output)),
        Command::Status(arguments) => (arguments.json, status(arguments.json, output)),
        Command::ShowPayload => (false, show_payload(output)),
        Command::Reset => (false, reset(output)),
    };
    done.unwrap_or_else(|mistake| mistake.tell(json, output))
}

impl From<ModeArgument> for Mode {
    fn from(argument: ModeArgument) -> Mode {
        match argument {
            ModeArgument::Lookup => Mode::Lookup,
            ModeArgument::Detection => Mode::Detection,
            ModeArgument::Contribute => Mode::Contribute,
        }
    }
}

impl From<KeptError> for Mistake {
    fn from(error: KeptError) -> Mistake {
        Mistake::new(Exit::Internal, error.to_string())
    }
}

fn switch(mode: Mode, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let not_kept =
        |error: io::Error| Mistake::new(Exit::Internal, format!("the mode can't be kept: {error}"));
    keep_mode(&state, mode).map_err(not_kept)?;
    output.line(Style::Plain, &format!("telemetry is {}", said(mode)));
    let choice = choose(&state, &ModeVariables::from_environment());
    if choice.mode != mode {
        let note = format!(
            "here it is {} all the same: {}",
            choice.mode.name(),
            choice.source.sentence()
        );
        output.error(&note);
    }
    if mode.asks() && matches!(chosen(&state), Ok(None)) {
        output.error(NO_INDEX);
    }
    Ok(Exit::Ok)
}

const NO_INDEX: &str = "no index is chosen, so nothing is sent or asked: `mcpindex login`, or set MCPINDEX_WEB_BASE to its address";

fn said(mode: Mode) -> String {
    let what = match mode {
        Mode::Off => return "off: nothing is sent and nothing asked".to_owned(),
        Mode::Lookup => "the index is asked about what gates see, and told nothing of it",
        Mode::Detection | Mode::Contribute => {
            "the index is asked about what gates see, and told of pins and drifts by fingerprint and digest"
        }
    };
    format!("on ({}): {what}", mode.name())
}

fn chosen(state: &StateDirectory) -> Result<Option<Chosen>, IndexError> {
    index::chosen(state, &Variables::from_environment())
}

fn status(json: bool, output: &mut Output) -> Result<Exit, Mistake> {
    let status = Status::of(&state()?);
    match json {
        true => print_document(output, &status),
        false => status.print(output),
    }
    Ok(match status.problems.is_empty() {
        true => Exit::Ok,
        false => Exit::Undetermined,
    })
}

impl Status {
    /// Nothing is contacted.
    fn of(state: &StateDirectory) -> Status {
        let Choice {
            mode,
            source,
            problem,
        } = choose(state, &ModeVariables::from_environment());
        let mut problems: Vec<String> = problem.into_iter().collect();
        let chosen = chosen(state).unwrap_or_else(|error| {
            problems.push(error.to_string());
            None
        });
        let kept = Kept::of(state);
        let base = chosen.as_ref().map(|chosen| &chosen.base);
        let install = base.and_then(|base| or_problem(kept.install(base), &mut problems));
        let token = base.and_then(|base| or_problem(kept.token(base), &mut problems));
        let refused = base.and_then(|base| or_problem(kept.refused(base), &mut problems));
        let last = base.and_then(|base| or_problem(kept.last_batch(base), &mut problems));
        let questions = base.and_then(|base| or_problem(kept.last_questions(base), &mut problems));
        Status {
            schema: "mcpindex.telemetry/1",
            mode: mode.name(),
            source: source.name(),
            asks: mode.asks() && base.is_some(),
            sends: mode.sends() && base.is_some() && refused.is_none(),
            index: base.map(ToString::to_string),
            has_key: chosen.as_ref().is_some_and(|chosen| chosen.key.is_some()),
            install_id: install.map(|install| install.to_string()),
            has_token: token.is_some(),
            refused: refused.map(RefusedPart::from),
            last_batch: last.map(LastPart::from),
            questions_refused: questions.and_then(UnansweredPart::of),
            problems,
            says: source,
        }
    }

    fn print(&self, output: &mut Output) {
        let mut line = |text: String| output.line(Style::Plain, &text);
        line(format!("telemetry is {}: {}", self.mode, self.says.sentence()));
        match &self.index {
            None => line(NO_INDEX.to_owned()),
            Some(index) => {
                let key = if self.has_key { ", asked with your key" } else { "" };
                line(format!("index: {index}{key}"));
            }
        }
        if let Some(install) = &self.install_id {
            let token = if self.has_token { ", with a token" } else { "" };
            line(format!("this install is {install} there{token}"));
        }
        if let Some(refused) = &self.refused {
            line(format!(
                "it refused our signals of version {} on {} ({}): it is sent none any more; `mcpindex telemetry reset` tries again",
                refused.signal_version, refused.at, refused.error
            ));
        }
        if let Some(UnansweredPart { at, reason }) = &self.questions_refused {
            line(format!(
                "questions: on {at}, not answered: {reason}; `mcpindex login` gets a key that may ask and tell"
            ));
        }
        match &self.last_batch {
            None => {}
            Some(LastPart {
                at,
                signals,
                failure: None,
                ..
            }) => line(format!("last batch: {signals} signals on {at}, taken")),
            Some(LastPart {
                at,
                failure: Some(failure),
                ..
            }) => line(format!("last batch: on {at}, not taken: {failure}")),
        }
        for problem in &self.problems {
            output.error(&format!("error: {problem}"));
        }
    }
}

fn or_problem<T>(kept: Result<Option<T>, KeptError>, problems: &mut Vec<String>) -> Option<T> {
    kept.unwrap_or_else(|error| {
        problems.push(error.to_string());
        None
    })
}

impl From<Refused> for RefusedPart {
    fn from(refused: Refused) -> RefusedPart {
        RefusedPart {
            at: moment(refused.at),
            error: refused.error,
            signal_version: refused.version,
        }
    }
}

impl UnansweredPart {
    fn of(last: LastQuestions) -> Option<UnansweredPart> {
        Some(UnansweredPart {
            at: moment(last.at),
            reason: visible_within(&last.refused?, 400),
        })
    }
}

impl From<LastBatch> for LastPart {
    fn from(last: LastBatch) -> LastPart {
        LastPart {
            at: moment(last.at),
            signals: last.signals,
            signal_version: last.version,
            failure: last.failure,
        }
    }
}

fn show_payload(output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let failed = |error: anyhow::Error| Mistake::new(Exit::Internal, format!("{error:#}"));
    let choice = choose(&state, &ModeVariables::from_environment());
    if let Some(problem) = &choice.problem {
        output.error(problem);
    }
    let chosen = chosen(&state).map_err(|error| Mistake::new(Exit::Internal, error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime could not be set up")
        .map_err(failed)?;
    let now = SystemClock.unix_seconds();
    let previewed = runtime.block_on(preview(&state, chosen.as_ref(), choice.mode, now));
    let previewed = previewed.map_err(|error| Mistake::new(Exit::Undetermined, error.to_string()))?;
    for body in &previewed.bodies {
        output.document(body);
    }
    for note in notes(&previewed, &choice, &state) {
        output.error(&note);
    }
    Ok(match previewed.problems.is_empty() {
        true => Exit::Ok,
        false => Exit::Undetermined,
    })
}

/// What belongs beside the payload, one line each.
fn notes(preview: &Preview, choice: &Choice, state: &StateDirectory) -> Vec<String> {
    let mut notes = Vec::new();
    let key = match preview.is_own {
        true => "your organisation's key",
        false => "the public constant",
    };
    match (&preview.index, preview.version.map(Version::number)) {
        (Some(base), None) => notes.push(format!("{base} takes no signals, so nothing would be sent")),
        (Some(base), Some(version)) if preview.is_asked => notes.push(format!(
            "POST {}: version {version}, fingerprints under {key}",
            base.at("api/v1/drift")
        )),
        (_, version) => notes.push(format!(
            "no index was asked: version {}, fingerprints under {key}; the number of the install is left at zeros",
            version.unwrap_or_default()
        )),
    }
    if preview.is_example {
        notes.push("nothing is pinned here yet: `search` of npm:example is made up".to_owned());
    }
    for server in &preview.left_out {
        notes.push(format!("never sent there: {server} is not known to be public"));
    }
    notes.extend(preview.problems.iter().map(|problem| format!("error: {problem}")));
    if !choice.mode.sends() {
        notes.push(format!(
            "none of it is sent: telemetry is {} ({})",
            choice.mode.name(),
            choice.source.sentence()
        ));
    } else if preview.index.is_none() {
        notes.push(format!("none of it is sent: {NO_INDEX}"));
    } else if let Some(base) = &preview.index
        && !matches!(Kept::of(state).refused(base), Ok(None))
    {
        notes.push(
            "none of it is sent: this index refused our signals; see `mcpindex telemetry status`".to_owned(),
        );
    }
    notes
}

fn reset(output: &mut Output) -> Result<Exit, Mistake> {
    Kept::of(&state()?).forget()?;
    output.line(
        Style::Plain,
        "this machine is another install from now on, and an index that refused its signals is tried again",
    );
    Ok(Exit::Ok)
}
