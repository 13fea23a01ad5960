//! `mcpindex check SERVER [TOOL]`: one verdict with reasons and an exit code of its own, from what this machine knows and, where
//! an index is chosen, from what that says.
//!
//! Invariant: the MCP server is never contacted; without an index that somebody chose, and with `--offline`, nothing is sent.

use clap::Args;
use mcpindex::check::online::{Consulted, Doubt, Subject, consult, joined};
use mcpindex::check::shape::IndexAnswer;
use mcpindex::check::{Answer, Verdict, check, no_such_server};
use mcpindex::gate::refusal::named;
use mcpindex::index::{self, Chosen, IndexClient, Variables};
use mcpindex::pins::{Pins, Record, ServerKey};
use mcpindex::state::StateDirectory;
use mcpindex::telemetry::OwnRegistries;
use mcpindex::visible::visible_within;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, Style};
use super::pins::{moment, name_of, print_document, state};
use super::server_name::ServerArguments;

#[derive(Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// One tool of it; all of them otherwise
    #[arg(value_name = "TOOL")]
    tool: Option<String>,

    /// One JSON document instead of text
    #[arg(long)]
    json: bool,

    /// Ask no index, but what is known on this machine
    #[arg(long)]
    offline: bool,
}

/// The longest code and sentence of an index that are shown whole, in characters.
const CODE: usize = 60;
const SENTENCE: usize = 300;

/// An index, and what came of asking it.
struct Index {
    /// Where it is; `None`: which one is meant can't be told.
    base: Option<String>,
    consulted: Consulted,
}

pub(super) fn run(arguments: CheckArguments, output: &mut Output) -> Exit {
    let state = match state() {
        Ok(state) => state,
        Err(mistake) => return mistake.tell(arguments.json, output),
    };
    let tool = arguments.tool.as_deref();
    let (key, record, verdict) = match arguments.server.key(&state) {
        Err(why) => (None, None, no_such_server(why)),
        Ok(key) => {
            let record = Pins::open(&state, &key).record();
            let verdict = check(record.as_deref(), tool);
            (Some(key), record.ok(), verdict)
        }
    };
    let index = match arguments.offline {
        true => None,
        false => {
            let server = match &key {
                Some(key) => Ok(&key.identity),
                None => Err(arguments.server.text()),
            };
            let own_registries = OwnRegistries::of_this_process();
            let subject = Subject {
                server,
                tool,
                record: record.as_deref(),
                context: key.as_ref().map(|key| &key.context),
                own_registries: &own_registries,
            };
            ask_index(&state, &subject)
        }
    };
    let answer = match &index {
        Some(index) => joined(&verdict, &index.consulted),
        None => verdict.answer,
    };
    if arguments.json {
        let document = document(
            key.as_ref(),
            tool,
            record.as_deref(),
            &verdict,
            index.as_ref(),
            answer,
        );
        print_document(output, &document);
    } else {
        print(key.as_ref(), tool, &verdict, index.as_ref(), answer, output);
    }
    exit(answer)
}

/// Asks the index that is chosen, if one is.
fn ask_index(state: &StateDirectory, subject: &Subject<'_>) -> Option<Index> {
    let failed = |base: Option<String>, reason: String| {
        Some(Index {
            base,
            consulted: Consulted::Failed { reason },
        })
    };
    let chosen: Chosen = match index::chosen(state, &Variables::from_environment()) {
        Ok(chosen) => chosen?,
        Err(error) => return failed(None, error.to_string()),
    };
    let base = Some(chosen.base.to_string());
    let client = match IndexClient::new(&chosen) {
        Ok(client) => client,
        Err(error) => return failed(base, error.to_string()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(base, format!("the runtime could not be set up: {error}")),
    };
    let consulted = runtime.block_on(consult(&client, subject));
    // A look-up of a name that hangs is not waited for.
    runtime.shutdown_background();
    Some(Index { base, consulted })
}

fn exit(answer: Answer) -> Exit {
    match answer {
        Answer::Ready => Exit::Ok,
        Answer::Unknown => Exit::Unknown,
        Answer::NeedsPerson => Exit::NeedsPerson,
        Answer::NoSuch => Exit::NoSuch,
        Answer::TryLater => Exit::TryLater,
    }
}

fn print(
    key: Option<&ServerKey>,
    tool: Option<&str>,
    verdict: &Verdict,
    index: Option<&Index>,
    answer: Answer,
    output: &mut Output,
) {
    let server = key.map(name_of);
    let about = match (tool, server) {
        (_, None) => String::new(),
        (None, Some(server)) => format!(": {server}"),
        (Some(tool), Some(server)) => format!(": {} on {server}", named(tool)),
    };
    let (style, words) = match answer {
        Answer::Ready => (Style::Strong, "ready"),
        Answer::Unknown => (Style::Strong, "unknown"),
        Answer::NeedsPerson => (Style::Alarm, "needs a person"),
        Answer::NoSuch => (Style::Strong, "no such server or tool"),
        Answer::TryLater => (Style::Alarm, "try later"),
    };
    output.line(style, &format!("{words}{about}"));
    for reason in &verdict.reasons {
        output.line(Style::Plain, &format!("  {}  {}", reason.code, reason.sentence));
    }
    if let Some(index) = index {
        print_index(index, output);
    }
    let is_for_review = |code: &str| matches!(code, "held" | "instructions-held");
    if verdict.reasons.iter().any(|reason| is_for_review(reason.code)) {
        output.line(
            Style::Faint,
            "  `mcpindex review` shows it, and takes the decision",
        );
    }
}

fn print_index(index: &Index, output: &mut Output) {
    let base = index.base.as_deref().unwrap_or("the index");
    match &index.consulted {
        Consulted::Answered { answer, doubts } => {
            output.line(Style::Faint, &format!("  {base} says:"));
            for reason in &answer.reasons {
                let (code, sentence) = (visible_within(&reason.code, CODE), visible_within(&reason.sentence, SENTENCE));
                output.line(Style::Plain, &format!("  {code}  {sentence}"));
            }
            for doubt in doubts {
                let (code, sentence) = (visible_within(&doubt.code, CODE), visible_within(&doubt.sentence, SENTENCE));
                output.line(Style::Alarm, &format!("  {code}  {}: {sentence}", named(&doubt.tool)));
            }
        }
        Consulted::Private => output.line(
            Style::Faint,
            &format!("  {base} was not asked: this server is not public, and the index is not known to be your organisation's own"),
        ),
        Consulted::NoName => output.line(
            Style::Faint,
            &format!("  {base} was not asked: this is no name that an index could know"),
        ),
        Consulted::OtherContext => output.line(
            Style::Faint,
            &format!("  {base} was not asked: it knows what the server lists to anybody, and this was listed to a credential"),
        ),
        Consulted::Failed { reason } => {
            let reason = visible_within(reason, SENTENCE);
            output.line(Style::Alarm, &format!("  {base} could not be asked: {reason}"));
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    schema: &'static str,
    verdict: &'static str,
    exit_code: u8,
    server: Option<String>,
    context: Option<String>,
    tool: Option<&'a str>,
    /// By what this machine knows; what decides of it stands first.
    reasons: Vec<ReasonPart<'a>>,
    /// Of the tool, or of every tool: what is pinned.
    pins: Vec<PinPart<'a>>,
    /// Likewise: what waits for a person.
    held: Vec<HeldPart<'a>>,
    /// Null: none is chosen, or `--offline`.
    index: Option<IndexPart<'a>>,
}

/// What came of asking an index.
#[derive(Serialize)]
struct IndexPart<'a> {
    base: Option<&'a str>,
    /// `answered`, `private`, `no-name`, `other-context` or `failed`.
    asked: &'static str,
    /// Why it could not be asked.
    failure: Option<&'a str>,
    /// In the index's own shape.
    answer: Option<&'a IndexAnswer>,
    /// Of a server as a whole: tools whose definition here needs a person by the index's word.
    doubts: Vec<DoubtPart<'a>>,
}

#[derive(Serialize)]
struct DoubtPart<'a> {
    tool: &'a str,
    code: &'a str,
    sentence: &'a str,
}

fn index_part(index: &Index) -> IndexPart<'_> {
    let (asked, failure, answer, doubts): (_, _, _, &[Doubt]) = match &index.consulted {
        Consulted::Answered { answer, doubts } => ("answered", None, Some(&**answer), doubts),
        Consulted::Private => ("private", None, None, &[]),
        Consulted::NoName => ("no-name", None, None, &[]),
        Consulted::OtherContext => ("other-context", None, None, &[]),
        Consulted::Failed { reason } => ("failed", Some(reason.as_str()), None, &[]),
    };
    IndexPart {
        base: index.base.as_deref(),
        asked,
        failure,
        answer,
        doubts: doubts
            .iter()
            .map(|doubt| DoubtPart {
                tool: &doubt.tool,
                code: &doubt.code,
                sentence: &doubt.sentence,
            })
            .collect(),
    }
}

#[derive(Serialize)]
struct ReasonPart<'a> {
    code: &'static str,
    sentence: &'a str,
}

#[derive(Serialize)]
struct PinPart<'a> {
    tool: &'a str,
    digest: &'a str,
    via: &'static str,
    at: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldPart<'a> {
    tool: &'a str,
    digest: &'a str,
    first_seen: String,
    codes: &'a [String],
}

fn document<'a>(
    key: Option<&ServerKey>,
    tool: Option<&'a str>,
    record: Option<&'a Record>,
    verdict: &'a Verdict,
    index: Option<&'a Index>,
    answer: Answer,
) -> Document<'a> {
    let tools = record.into_iter().flat_map(|record| &record.tools);
    let tools: Vec<_> = tools
        .filter(|(name, _)| tool.is_none_or(|tool| tool == *name))
        .collect();
    let pins = tools.iter().filter_map(|(name, pin)| {
        let baseline = pin.baseline.as_ref()?;
        Some(PinPart {
            tool: name,
            digest: &baseline.digest,
            via: baseline.via.name(),
            at: moment(baseline.at),
        })
    });
    let held = tools.iter().flat_map(|(name, pin)| {
        pin.waiting().map(|(digest, held)| HeldPart {
            tool: name,
            digest,
            first_seen: moment(held.first_seen),
            codes: &held.codes,
        })
    });
    Document {
        schema: "mcpindex.check/1",
        verdict: answer.name(),
        exit_code: exit(answer).code(),
        server: key.map(|key| key.identity.to_string()),
        context: key.map(|key| key.context.to_string()),
        tool,
        reasons: verdict
            .reasons
            .iter()
            .map(|reason| ReasonPart {
                code: reason.code,
                sentence: &reason.sentence,
            })
            .collect(),
        pins: pins.collect(),
        held: held.collect(),
        index: index.map(index_part),
    }
}
