//! What `pins list`, `pins show` and `pins history` say.
//!
//! Invariant: a record that can't be read is shown with the reason, never as one without pins.

use mcpindex::pins::{Pins, Record, ServerKey, ToolPin, published_pins};
use mcpindex::visible::visible_within;
use mcpindex_contract::definition::Definition;
use serde::Serialize;

use super::super::exit::Exit;
use super::super::output::{Output, Style};
use super::{
    Mistake, SCHEMA, ToolArguments, count, date, in_short, moment, name_of, nothing_pinned, open,
    print_document, state, waiting,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerList {
    schema: &'static str,
    servers: Vec<Server>,
    /// Files among the records that don't say whose they are.
    strays: Vec<String>,
    published: Vec<Published>,
    published_problems: Vec<String>,
    notices: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    server: String,
    short_id: String,
    context: String,
    file: String,
    /// Why its pins can't be used; then nothing else is known.
    problem: Option<String>,
    tools: Option<usize>,
    waiting: Option<usize>,
    since: Option<String>,
    #[serde(skip)]
    line: String,
}

#[derive(Serialize)]
struct Published {
    name: String,
    file: String,
    tools: usize,
}

pub(super) fn list(json: bool, output: &mut Output) -> Result<Exit, Mistake> {
    let state = state()?;
    let mut notices = Vec::new();
    let mut servers = Vec::new();
    for (key, mut pins) in Pins::all(&state) {
        let record = pins.record();
        notices.extend(pins.take_notice());
        let file = state.gate().join(key.file_name()).display().to_string();
        servers.push(match record {
            Ok(record) => Server {
                problem: None,
                tools: Some(pinned(&record).count()),
                waiting: Some(waiting(&record)),
                since: since(&record).map(moment),
                line: in_short(&record)
                    + &since(&record).map_or_else(String::new, |at| format!(", since {}", date(at))),
                ..Server::unread(&key, file)
            },
            Err(error) => Server {
                problem: Some(error.to_string()),
                ..Server::unread(&key, file)
            },
        });
    }
    let (published, published_problems): (Vec<_>, Vec<_>) =
        published_pins(&state).into_iter().partition(Result::is_ok);
    let list = ServerList {
        schema: SCHEMA,
        servers,
        strays: Pins::strays(&state)
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        published: published
            .into_iter()
            .flatten()
            .map(|pins| Published {
                tools: pins.tools.len() + pins.hash_only.len(),
                file: pins.file.display().to_string(),
                name: pins.server_id,
            })
            .collect(),
        published_problems: published_problems.into_iter().filter_map(Result::err).collect(),
        notices,
    };
    let is_whole = list.strays.is_empty() && list.servers.iter().all(|server| server.problem.is_none());
    if json {
        print_document(output, &list);
    } else {
        list.print(output);
    }
    Ok(if is_whole { Exit::Ok } else { Exit::Undetermined })
}

impl Server {
    fn unread(key: &ServerKey, file: String) -> Server {
        Server {
            server: key.identity.to_string(),
            short_id: key.identity.short_id(),
            context: key.context.to_string(),
            file,
            problem: None,
            tools: None,
            waiting: None,
            since: None,
            line: name_of(key),
        }
    }
}

impl ServerList {
    fn print(&self, output: &mut Output) {
        if self.servers.is_empty() && self.strays.is_empty() {
            output.line(Style::Plain, "nothing is pinned yet");
        }
        for server in &self.servers {
            output.line(Style::Strong, &format!("{}  {}", server.server, server.context));
            match &server.problem {
                None => output.line(Style::Plain, &format!("  {}  {}", server.short_id, server.line)),
                Some(problem) => output.line(Style::Alarm, &format!("  {problem}")),
            }
        }
        for stray in &self.strays {
            output.line(
                Style::Alarm,
                &format!("`{stray}` does not say whose pins it holds: restore it, or delete it"),
            );
        }
        for pins in &self.published {
            output.line(
                Style::Faint,
                &format!(
                    "the published client has {} under the name `{}`: `mcpindex pins import {} SERVER` takes them over",
                    count(pins.tools, "pin", "pins"),
                    pins.name,
                    pins.name
                ),
            );
        }
        for problem in &self.published_problems {
            output.line(Style::Faint, &format!("skipped: {problem}"));
        }
        for notice in &self.notices {
            output.error(&format!("note: {notice}"));
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'r> {
    schema: &'static str,
    server: String,
    short_id: String,
    context: String,
    file: String,
    instructions: Instructions<'r>,
    tools: Vec<Tool<'r>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Instructions<'r> {
    /// `null` where none were seen yet, or the server had none when it was first seen.
    digest: Option<&'r str>,
    since: Option<String>,
    via: Option<&'static str>,
    held: Vec<Held<'r>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'r> {
    name: &'r str,
    digest: Option<&'r str>,
    meta_digest: Option<&'r str>,
    since: Option<String>,
    via: Option<&'static str>,
    /// Of what the organisation approved: which decision of its index.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<u64>,
    /// Of what was let through by its age: what an index said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence<'r>>,
    definition: Option<&'r str>,
    last_seen: Option<Step<'r>>,
    held: Vec<Held<'r>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Evidence<'r> {
    index: &'r str,
    version: &'r str,
    published_at: String,
    first_seen: String,
    installs: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Held<'r> {
    digest: &'r str,
    first_seen: String,
    codes: &'r [String],
    refused: Option<String>,
    definition: &'r str,
}

#[derive(Serialize)]
struct Step<'r> {
    tool: &'r str,
    digest: &'r str,
    at: String,
    /// How it came to be trusted, or `refused`.
    via: &'static str,
}

pub(super) fn show(arguments: &ToolArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let (key, record, file) = read(arguments, output)?;
    let tools = chosen(arguments, &key, &record)?;
    if arguments.json {
        let shown = Shown {
            schema: SCHEMA,
            server: key.identity.to_string(),
            short_id: key.identity.short_id(),
            context: key.context.to_string(),
            file,
            instructions: instructions(&record),
            tools: tools.iter().map(|&(name, pin)| tool(name, pin)).collect(),
        };
        print_document(output, &shown);
        return Ok(Exit::Ok);
    }
    if arguments.tool.is_none() {
        output.line(Style::Strong, &format!("{}  {}", key.identity, key.context));
        output.line(Style::Plain, &format!("  {}", in_short(&record)));
        output.line(Style::Faint, &format!("  {file}"));
        print_instructions(&record, output);
    }
    for (name, pin) in tools {
        if arguments.tool.is_none() {
            output.line(Style::Plain, "");
        }
        print_tool(name, pin, arguments.tool.is_some(), output);
    }
    Ok(Exit::Ok)
}

pub(super) fn history(arguments: &ToolArguments, output: &mut Output) -> Result<Exit, Mistake> {
    let (key, record, _) = read(arguments, output)?;
    let mut steps: Vec<(i64, Step<'_>)> = Vec::new();
    for (tool, pin) in chosen(arguments, &key, &record)? {
        let step = |digest, at, via| {
            let written = moment(at);
            let at_text = Step {
                tool,
                digest,
                at: written,
                via,
            };
            (at, at_text)
        };
        steps.extend(
            pin.history
                .iter()
                .map(|accepted| step(accepted.digest.as_str(), accepted.at, accepted.via.name())),
        );
        steps.extend(
            pin.refused
                .iter()
                .map(|(digest, at)| step(digest.as_str(), *at, "refused")),
        );
    }
    // Stable, so that the steps of one tool at one time stay in their order.
    steps.sort_by_key(|(at, _)| *at);
    let steps: Vec<Step<'_>> = steps.into_iter().map(|(_, step)| step).collect();
    if arguments.json {
        #[derive(Serialize)]
        struct Document<'d> {
            schema: &'static str,
            server: String,
            context: String,
            steps: Vec<Step<'d>>,
        }
        print_document(
            output,
            &Document {
                schema: SCHEMA,
                server: key.identity.to_string(),
                context: key.context.to_string(),
                steps,
            },
        );
        return Ok(Exit::Ok);
    }
    output.line(Style::Strong, &format!("{}  {}", key.identity, key.context));
    for step in &steps {
        output.line(
            Style::Plain,
            &format!("  {}  {:11}  {}  {}", step.at, step.via, step.tool, step.digest),
        );
    }
    if steps.is_empty() {
        output.line(Style::Plain, "  no tool was pinned yet");
    }
    Ok(Exit::Ok)
}

/// The record that the arguments mean, which must be there.
fn read(
    arguments: &ToolArguments,
    output: &mut Output,
) -> Result<(ServerKey, std::sync::Arc<Record>, String), Mistake> {
    let state = state()?;
    let (key, mut pins) = open(&arguments.server, &state)?;
    let record = pins.record()?;
    if let Some(notice) = pins.take_notice() {
        output.error(&format!("note: {notice}"));
    }
    if *record == Record::default() {
        return Err(nothing_pinned(&key));
    }
    let file = state.gate().join(key.file_name()).display().to_string();
    Ok((key, record, file))
}

/// All tools, or the one that was named.
fn chosen<'r>(
    arguments: &ToolArguments,
    key: &ServerKey,
    record: &'r Record,
) -> Result<Vec<(&'r str, &'r ToolPin)>, Mistake> {
    let all = record.tools.iter().map(|(name, pin)| (name.as_str(), pin));
    let Some(wanted) = &arguments.tool else {
        return Ok(all.collect());
    };
    let chosen: Vec<_> = all.filter(|(name, _)| name == wanted).collect();
    if chosen.is_empty() {
        let text = format!(
            "{} has no tool `{wanted}` that was ever pinned or held",
            name_of(key)
        );
        return Err(Mistake::new(Exit::NoSuch, text));
    }
    Ok(chosen)
}

pub(in crate::cli) fn pinned(record: &Record) -> impl Iterator<Item = &mcpindex::pins::Pin> {
    record.tools.values().filter_map(|tool| tool.baseline.as_ref())
}

/// When the oldest baseline was pinned.
pub(in crate::cli) fn since(record: &Record) -> Option<i64> {
    pinned(record).map(|pin| pin.at).min()
}

fn instructions(record: &Record) -> Instructions<'_> {
    let pin = record.instructions.iter().flatten().next();
    Instructions {
        digest: pin.map(|pin| pin.digest.as_str()),
        since: pin.map(|pin| moment(pin.at)),
        via: pin.map(|pin| pin.via.name()),
        held: record
            .held_instructions
            .iter()
            .map(|(digest, entry)| held(digest, entry, None))
            .collect(),
    }
}

fn tool<'r>(name: &'r str, pin: &'r ToolPin) -> Tool<'r> {
    let baseline = pin.baseline.as_ref();
    Tool {
        name,
        digest: baseline.map(|pin| pin.digest.as_str()),
        meta_digest: baseline.and_then(|pin| pin.meta_digest.as_deref()),
        since: baseline.map(|pin| moment(pin.at)),
        via: baseline.map(|pin| pin.via.name()),
        decision: baseline.and_then(|pin| pin.decision),
        evidence: baseline
            .and_then(|pin| pin.evidence.as_ref())
            .map(|evidence| Evidence {
                index: &evidence.index,
                version: &evidence.version,
                published_at: moment(evidence.published_at),
                first_seen: moment(evidence.first_seen),
                installs: evidence.installs,
            }),
        definition: baseline.map(|pin| &*pin.definition),
        last_seen: pin.last_seen.as_ref().map(|last| Step {
            tool: name,
            digest: &last.digest,
            at: moment(last.at),
            via: last.via.name(),
        }),
        held: pin
            .held
            .iter()
            .map(|(digest, entry)| held(digest, entry, pin.refused.get(digest).copied()))
            .collect(),
    }
}

fn held<'r>(digest: &'r str, held: &'r mcpindex::pins::Held, refused: Option<i64>) -> Held<'r> {
    Held {
        digest,
        first_seen: moment(held.first_seen),
        codes: &held.codes,
        refused: refused.map(moment),
        definition: &held.definition,
    }
}

fn print_instructions(record: &Record, output: &mut Output) {
    match &record.instructions {
        None => {}
        Some(None) => output.line(Style::Plain, "  no instructions"),
        Some(Some(pin)) => output.line(
            Style::Plain,
            &format!(
                "  instructions  {}  since {}, {}",
                pin.digest,
                date(pin.at),
                pin.via.name()
            ),
        ),
    }
    for (digest, held) in &record.held_instructions {
        let seen = date(held.first_seen);
        output.line(
            Style::Alarm,
            &format!("  held instructions  {digest}  first seen {seen}"),
        );
    }
}

fn print_tool(name: &str, pin: &ToolPin, in_full: bool, output: &mut Output) {
    output.line(Style::Strong, name);
    match &pin.baseline {
        Some(baseline) => {
            let (since, via) = (date(baseline.at), baseline.via.name());
            output.line(
                Style::Plain,
                &format!("  pinned     {}  since {since}, {via}", baseline.digest),
            );
            if let Some(decision) = baseline.decision {
                output.line(
                    Style::Faint,
                    &format!("  by decision {decision} of the organisation"),
                );
            }
            if let Some(evidence) = &baseline.evidence {
                let line = format!(
                    "  {} says: published in {} on {}, seen since {}, by {} or more installs",
                    visible_within(&evidence.index, 200),
                    visible_within(&evidence.version, 80),
                    date(evidence.published_at),
                    date(evidence.first_seen),
                    evidence.installs
                );
                output.line(Style::Faint, &line);
            }
            if let Some(digest) = &baseline.meta_digest {
                output.line(Style::Faint, &format!("  its _meta  {digest}"));
            }
            if in_full {
                print_definition(&baseline.definition, output);
            }
        }
        None => output.line(Style::Plain, "  never pinned"),
    }
    if let Some(last) = &pin.last_seen {
        let (at, via) = (date(last.at), last.via.name());
        output.line(
            Style::Plain,
            &format!("  last seen  {}  since {at}, {via}", last.digest),
        );
    }
    for (digest, held) in &pin.held {
        let seen = date(held.first_seen);
        let codes = held.codes.join(", ");
        match pin.refused.get(digest) {
            Some(at) => output.line(
                Style::Plain,
                &format!("  refused    {digest}  on {}: {codes}", date(*at)),
            ),
            None => output.line(
                Style::Alarm,
                &format!("  held       {digest}  first seen {seen}: {codes}"),
            ),
        }
        if in_full {
            print_definition(&held.definition, output);
        }
    }
}

/// The server's own words, indented.
fn print_definition(text: &str, output: &mut Output) {
    let definition = Definition::read(text);
    let shown = definition.value().map(mcpindex_contract::json::Value::to_pretty);
    for line in shown.as_deref().unwrap_or(text).lines() {
        output.line(Style::Faint, &format!("    {line}"));
    }
}
