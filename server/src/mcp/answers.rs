//! The tools' answers, made by the functions behind the API, in its shapes where they hold no server's words.
//!
//! Invariant: whoever may read gets here what the API says; arguments are closed shapes, and what can't be used of them is said
//! in one line that the agent reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcpindex::visible::visible_within;
use mcpindex_contract::change::{Change, ChangeKind, Subject, Treatment};
use mcpindex_contract::surface::MemberKind;
use mcpindex_store::drifts::DriftRecord;
use mcpindex_store::search::Found;
use mcpindex_store::sightings::Sightings;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::tools;
use super::untrusted::{self, DriftWords, FoundWords, ServerWords, ToolWords};
use crate::api::check::{self, AnswerBody, QuestionBody};
use crate::api::drifts::{self, DriftBody, drift_body};
use crate::app::App;
use crate::links;
use crate::pages::cause_sentence;
use crate::problem::Problem;
use crate::query::MAX_SEARCH;
use crate::state::State;
use crate::summary::summary;
use crate::vetting::Vetting;
use crate::when::rfc3339;

/// The most servers or drifts in one answer, and as many as there are when the agent doesn't say.
const MOST: i64 = 50;
const FEW: i64 = 10;
/// Characters of an identity or a version within a sentence of ours, and of a problem that repeats what was asked.
const NAME: usize = 200;
const PROBLEM: usize = 1_000;

/// Which tool is asked about.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckTool {
    /// The server: its identity (`npm:NAME`, `pypi:NAME`, `oci:NAME`, a URL), its name in a registry, or its short id here.
    #[schema(min_length = 1, max_length = 2048)]
    server: String,
    /// The tool's name, as the server declares it.
    #[schema(min_length = 1, max_length = 8192)]
    tool: String,
    /// The definition digest that you see; without it the answer is about what the server declares now.
    #[schema(pattern = "^(raw-)?sha256:[0-9a-f]{64}$")]
    digest: Option<String>,
    /// Whether to quote what the tool says of itself.
    #[serde(default)]
    #[schema(default = false)]
    include_untrusted: bool,
}

/// Which server is asked about.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckServer {
    /// Its identity (`npm:NAME`, `pypi:NAME`, `oci:NAME`, a URL), its name in a registry, or its short id here.
    #[schema(min_length = 1, max_length = 2048)]
    server: String,
    /// Whether to quote what its tools say of themselves.
    #[serde(default)]
    #[schema(default = false)]
    include_untrusted: bool,
}

/// What is looked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchServers {
    /// Words, of which each must begin a word of the server's names, tools or texts.
    #[schema(min_length = 1, max_length = 200)]
    query: String,
    /// The most servers; 10.
    #[schema(minimum = 1, maximum = 50)]
    limit: Option<i64>,
    /// Whether to quote the names that servers go by in registries, and those of the tools that were found.
    #[serde(default)]
    #[schema(default = false)]
    include_untrusted: bool,
}

/// Whose drifts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecentDrift {
    /// One server's alone: its identity, its name in a registry, or its short id here.
    #[schema(min_length = 1, max_length = 2048)]
    server: Option<String>,
    /// From `next_before` of the answer before.
    #[schema(minimum = 1)]
    before: Option<i64>,
    /// The most drifts; 10.
    #[schema(minimum = 1, maximum = 50)]
    limit: Option<i64>,
}

/// Which drift.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainDrift {
    /// Its number, as `check_tool`, `check_server` and `recent_drift` name it.
    #[schema(minimum = 1)]
    drift: i64,
    /// One tool's changes alone, by its name.
    #[schema(min_length = 1, max_length = 8192)]
    tool: Option<String>,
    /// Whether to quote what changed in the server's words.
    #[serde(default)]
    #[schema(default = false)]
    include_untrusted: bool,
}

/// What is known of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckedTool {
    answer: AnswerBody,
    /// What the tool says of itself: only with `include_untrusted`, null where the index does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    untrusted_text: Option<Option<ToolWords>>,
}

/// What is known of a server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CheckedServer {
    answer: AnswerBody,
    /// What its tools say of themselves: only with `include_untrusted`, null where the index does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    untrusted_text: Option<Option<ServerWords>>,
}

/// Servers, the closest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FoundServers {
    servers: Vec<FoundServer>,
    /// Whether there are more than those.
    more: bool,
}

/// A server that was found.
#[derive(Debug, Serialize, ToSchema)]
struct FoundServer {
    identity: String,
    short_id: String,
    /// How the last look ended; `pending` before the first.
    state: &'static str,
    sentence: &'static str,
    /// Whether some look has determined what the server declares.
    determined: bool,
    looked_at: Option<String>,
    version: Option<String>,
    /// Null when that could not be determined.
    tools: Option<i64>,
    drifts: i64,
    /// Where all words were found: `name`, in names of its tools too (`tool`), or in what they say of themselves too (`text`).
    matched: &'static str,
    page: String,
    /// Only with `include_untrusted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    untrusted_text: Option<FoundWords>,
}

/// Drifts, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Drifts {
    drifts: Vec<DriftBody>,
    /// What goes into `before` for the next ones; null on the last.
    next_before: Option<i64>,
}

/// A drift, kind by kind.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ExplainedDrift {
    drift: DriftBody,
    /// The tool that was asked about, if one was; the rest is about it alone then.
    tool: Option<String>,
    /// What is held first.
    kinds: Vec<ExplainedKind>,
    /// What changed, in the server's words: only with `include_untrusted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    untrusted_text: Option<DriftWords>,
}

/// The changes of one kind.
#[derive(Debug, Serialize, ToSchema)]
struct ExplainedKind {
    kind: &'static str,
    /// What such a change is.
    sentence: &'static str,
    /// `widening`, `narrowing`, `meaning`, `hint` or `opaque`.
    direction: &'static str,
    safety_relevant: bool,
    /// What a gate at its usual posture does with it: `hold` until a person approves it, `proceed`, `report`, or `proceed-if-…` where
    /// that depends on what came.
    gate: &'static str,
    changes: usize,
    /// How many tools, prompts and resources have such a change.
    members: usize,
}

/// The answer of the tool of this name; `None`: there is none.
pub(super) async fn answer(app: &App, tool: &str, arguments: JsonObject) -> Option<CallToolResult> {
    let answer = match tool {
        tools::CHECK_TOOL => check_tool(app, arguments).await,
        tools::CHECK_SERVER => check_server(app, arguments).await,
        tools::SEARCH_SERVERS => search_servers(app, arguments).await,
        tools::RECENT_DRIFT => recent_drift(app, arguments).await,
        tools::EXPLAIN_DRIFT => explain_drift(app, arguments).await,
        _ => return None,
    };
    Some(answer.unwrap_or_else(|problem| {
        let text = visible_within(&problem.detail, PROBLEM);
        CallToolResult::error(vec![ContentBlock::text(text)])
    }))
}

/// The arguments in their shape.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| not_usable(&format!("those of the tool's input schema ({error})")))
}

fn not_usable(expected: &str) -> Problem {
    let mut problem = Problem::bad_body(expected);
    problem.detail = format!("the arguments can't be used: expected {expected}");
    problem
}

/// An answer with the text beside it.
fn told(answer: &impl Serialize, text: String) -> Result<CallToolResult, Problem> {
    let value = serde_json::to_value(answer).map_err(|error| Problem::internal(&error))?;
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(value);
    Ok(result)
}

async fn check_tool(app: &App, arguments: JsonObject) -> Result<CallToolResult, Problem> {
    let asked: CheckTool = read(arguments)?;
    let question = QuestionBody::by_name(asked.server, Some(asked.tool), asked.digest);
    let (answer, checked) = checked(app, question).await?;
    let (found, vetting) = &*checked;
    let words = || {
        let definition = found.definition.as_deref()?;
        Some(untrusted::of_tool(found.tool.as_deref()?, definition))
    };
    let body = CheckedTool {
        untrusted_text: asked.include_untrusted.then(words),
        answer,
    };
    told(&body, verdict_text(app, found, vetting))
}

async fn check_server(app: &App, arguments: JsonObject) -> Result<CallToolResult, Problem> {
    let asked: CheckServer = read(arguments)?;
    let question = QuestionBody::by_name(asked.server, None, None);
    let (answer, checked) = checked(app, question).await?;
    let (found, vetting) = &*checked;
    let observation = found
        .server
        .as_ref()
        .and_then(|server| server.current_observation);
    let surface = match observation.filter(|_| asked.include_untrusted) {
        Some(observation) => app.store.surface(observation).await?,
        None => None,
    };
    let body = CheckedServer {
        untrusted_text: asked
            .include_untrusted
            .then(|| surface.as_ref().map(untrusted::of_server)),
        answer,
    };
    told(&body, verdict_text(app, found, vetting))
}

type Checked = Arc<(Sightings, Vetting)>;

async fn checked(app: &App, question: QuestionBody) -> Result<(AnswerBody, Checked), Problem> {
    let question = check::question(question).map_err(|expected| not_usable(&expected))?;
    let mut answers = check::answers(app, std::slice::from_ref(&question)).await?;
    match answers.pop() {
        Some(checked) => {
            let (found, vetting) = &*checked;
            Ok((check::answer_body(&question, found, vetting), checked))
        }
        None => Err(Problem::internal(&"a question without an answer")),
    }
}

fn verdict_text(app: &App, found: &Sightings, vetting: &Vetting) -> String {
    let mut text = format!("Verdict: {}.", vetting.verdict.name());
    for reason in &vetting.reasons {
        text.push_str(&format!(" {} ({})", reason.sentence, reason.code));
    }
    if let Some(drift) = &found.drift {
        text.push_str(&format!(" The latest drift is number {}.", drift.id));
    }
    if let Some(server) = &found.server {
        let page = links::absolute(&app.base, &links::server_page(&server.short_id));
        text.push_str(&format!(" For people: {page}"));
    }
    text
}

async fn search_servers(app: &App, arguments: JsonObject) -> Result<CallToolResult, Problem> {
    let asked: SearchServers = read(arguments)?;
    let is_line = asked.query.chars().count() <= MAX_SEARCH && !asked.query.chars().any(char::is_control);
    if !is_line || asked.query.trim().is_empty() {
        return Err(not_usable(&format!(
            "at most {MAX_SEARCH} characters on one line as query"
        )));
    }
    let limit = limit(asked.limit)?;
    let mut rows = app.store.search(asked.query.trim(), None, limit + 1).await?;
    let more = more_than(&mut rows, limit);
    let servers: Vec<FoundServer> = rows
        .iter()
        .map(|found| found_server(found, asked.include_untrusted))
        .collect();
    let mut text = match (servers.len(), more) {
        (0, _) => "No server of this index was found by these words.".to_owned(),
        (count, false) => format!("{count} found:"),
        (count, true) => format!("The {count} closest:"),
    };
    for server in &servers {
        text.push_str(&format!("\n{} ({})", shown(&server.identity), server.state));
    }
    told(&FoundServers { servers, more }, text)
}

fn found_server(found: &Found, with_words: bool) -> FoundServer {
    let server = &found.server;
    let state = State(server.outcome);
    FoundServer {
        identity: server.identity.clone(),
        short_id: server.short_id.clone(),
        state: state.name(),
        sentence: state.sentence(),
        determined: server.current_observation.is_some(),
        looked_at: server.looked_at.and_then(rfc3339),
        version: server.current_version.clone(),
        tools: server.tools,
        drifts: server.drifts,
        matched: found.matched.name(),
        page: links::server_page(&server.short_id),
        untrusted_text: with_words.then(|| untrusted::of_names(&server.aliases, &found.tools)),
    }
}

async fn recent_drift(app: &App, arguments: JsonObject) -> Result<CallToolResult, Problem> {
    let asked: RecentDrift = read(arguments)?;
    let limit = limit(asked.limit)?;
    let before = asked.before.map(|before| before.max(1));
    let server = match &asked.server {
        Some(reference) => Some(app.server(reference).await?.identity),
        None => None,
    };
    let mut rows = app.store.drifts(server.as_deref(), before, limit + 1).await?;
    let more = more_than(&mut rows, limit);
    let mut text = match rows.len() {
        0 => "No drift.".to_owned(),
        1 => "1 drift:".to_owned(),
        count => format!("{count} drifts, newest first:"),
    };
    for drift in &rows {
        text.push_str(&format!("\n{}", drift_line(drift)));
    }
    let body = Drifts {
        next_before: rows.last().filter(|_| more).map(|last| last.id),
        drifts: rows.iter().map(drift_body).collect(),
    };
    told(&body, text)
}

/// `12: npm:name: 2 tools added, safety relevant`
fn drift_line(drift: &DriftRecord) -> String {
    let relevant = if drift.safety_relevant {
        ", safety relevant"
    } else {
        ""
    };
    let what = summary(&drift.kinds, &drift.changed);
    format!("{}: {}: {what}{relevant}", drift.id, shown(&drift.identity))
}

async fn explain_drift(app: &App, arguments: JsonObject) -> Result<CallToolResult, Problem> {
    let asked: ExplainDrift = read(arguments)?;
    let (drift, changes) = drifts::find(app, &asked.drift.to_string()).await?;
    let is_asked = |change: &&Change| match (&asked.tool, &change.subject) {
        (None, _) => true,
        (Some(tool), Subject::Member(MemberKind::Tool, name)) => name == tool,
        (Some(_), _) => false,
    };
    let kinds = explained(changes.iter().filter(is_asked));
    let mut text = format!("Drift {}. {}", drift_line(&drift), cause_sentence(&drift.cause));
    if drift.replaced {
        text.push_str(" Finer drifts between the same two looks have taken its place.");
    }
    if kinds.is_empty() {
        text.push_str(" It changed nothing at that tool.");
    }
    for kind in &kinds {
        let (name, count, gate) = (kind.kind, kind.changes, kind.gate);
        text.push_str(&format!("\n{name} ({count}; gate: {gate}): {}", kind.sentence));
    }
    text.push_str(&format!(
        "\nFor people: {}",
        links::absolute(&app.base, &links::drift_page(drift.id))
    ));
    let body = ExplainedDrift {
        untrusted_text: asked
            .include_untrusted
            .then(|| untrusted::of_changes(changes.iter().filter(is_asked))),
        drift: drift_body(&drift),
        tool: asked.tool.clone(),
        kinds,
    };
    told(&body, text)
}

fn explained<'c>(changes: impl Iterator<Item = &'c Change>) -> Vec<ExplainedKind> {
    let mut by_kind: BTreeMap<ChangeKind, (usize, BTreeSet<&Subject>)> = BTreeMap::new();
    for change in changes {
        let (count, members) = by_kind.entry(change.kind).or_default();
        *count += 1;
        if matches!(change.subject, Subject::Member(..)) {
            members.insert(&change.subject);
        }
    }
    let mut kinds: Vec<ExplainedKind> = by_kind
        .into_iter()
        .map(|(kind, (changes, members))| ExplainedKind {
            kind: kind.name(),
            sentence: kind.sentence(),
            direction: kind.direction().name(),
            safety_relevant: kind.safety_relevant(),
            gate: kind.guard().name(),
            changes,
            members: members.len(),
        })
        .collect();
    let is_held = |kind: &ExplainedKind| kind.gate == Treatment::Hold.name();
    kinds.sort_by_key(|kind| (!is_held(kind), !kind.safety_relevant));
    kinds
}

fn limit(asked: Option<i64>) -> Result<i64, Problem> {
    let limit = asked.unwrap_or(FEW);
    match (1..=MOST).contains(&limit) {
        true => Ok(limit),
        false => Err(not_usable(&format!("a whole number from 1 to {MOST} as limit"))),
    }
}

/// Cuts the one more that was asked for off; whether there was one.
fn more_than<Row>(rows: &mut Vec<Row>, limit: i64) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    more
}

fn shown(identity: &str) -> String {
    visible_within(identity, NAME)
}
