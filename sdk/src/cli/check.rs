//! `mcpindex check SERVER [TOOL]`: one verdict with reasons and an exit code of its own.
//!
//! Invariant: the MCP server is never contacted.

use clap::Args;
use mcpindex::check::{Answer, Verdict, check, no_such_server};
use mcpindex::gate::refusal::named;
use mcpindex::pins::{Pins, Record, ServerKey};
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
    if arguments.json {
        print_document(output, &document(key.as_ref(), tool, record.as_deref(), &verdict));
    } else {
        print(key.as_ref(), tool, &verdict, output);
    }
    exit(verdict.answer)
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

fn print(key: Option<&ServerKey>, tool: Option<&str>, verdict: &Verdict, output: &mut Output) {
    let server = key.map(name_of);
    let about = match (tool, server) {
        (_, None) => String::new(),
        (None, Some(server)) => format!(": {server}"),
        (Some(tool), Some(server)) => format!(": {} on {server}", named(tool)),
    };
    let (style, words) = match verdict.answer {
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
    let is_for_review = |code: &str| matches!(code, "held" | "instructions-held");
    if verdict.reasons.iter().any(|reason| is_for_review(reason.code)) {
        output.line(
            Style::Faint,
            "  `mcpindex review` shows it, and takes the decision",
        );
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
    /// What decided stands first.
    reasons: Vec<ReasonPart<'a>>,
    /// Of the tool, or of every tool: what is pinned.
    pins: Vec<PinPart<'a>>,
    /// Likewise: what waits for a person.
    held: Vec<HeldPart<'a>>,
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
        verdict: verdict.answer.name(),
        exit_code: exit(verdict.answer).code(),
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
    }
}
