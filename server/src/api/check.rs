//! "Has this been vetted?" for many tools at once: by name for a person, by fingerprint and digest for a program.
//!
//! Invariant: each question has its answer, in order; the shape is the one that `mcpindex::check::shape` reads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use mcpindex::check::shape::MAX_ITEMS;
use mcpindex_contract::approval::DEFAULT_TENANT;
use mcpindex_store::observations::Artifact;
use mcpindex_store::servers::ServerRecord;
use mcpindex_store::sightings::{Question, Reference, Sightings, ToolDrift};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::access::limits::Counted;
use crate::app::{App, MAX_REFERENCE};
use crate::links;
use crate::problem::Problem;
use crate::state::State as Standing;
use crate::vetting::{self, Decided, Declared, Installs, LATELY, MAX_SCANNED, Tools, Vetting};
use crate::when::rfc3339;

/// The largest question, in bytes: 256 items of names and digests.
const MAX_BODY: usize = 256 * 1024;
/// The longest name of a tool that is looked up, in bytes.
const MAX_TOOL: usize = 8 * 1024;

/// How long one request may wait and be looked up: less than our own client waits.
const WITHIN: Duration = Duration::from_secs(8);
/// Questions that are looked up and judged before the next ones are, so that few texts are in memory.
const PIECE: usize = 16;
/// Servers that are judged as a whole for one request.
const WHOLE_SERVERS: usize = 64;

const TOO_LONG: &str = "looking this up takes too long; ask about less at once";

/// Questions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionsBody {
    #[schema(min_items = 1, max_items = 256)]
    items: Vec<QuestionBody>,
}

/// One question: exactly one of `server` and `server_fp`, at most one of `tool` and `tool_fp`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionBody {
    /// An identity, a registry's name or a short id.
    #[schema(min_length = 1, max_length = 2048)]
    server: Option<String>,
    /// The server's fingerprint, under the public constant or the organisation's key.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    server_fp: Option<String>,
    /// The tool's name; neither this nor `tool_fp`: the whole server.
    #[schema(max_length = 8192)]
    tool: Option<String>,
    #[schema(pattern = "^[0-9a-f]{32}$")]
    tool_fp: Option<String>,
    /// The definition digest asked about, with a tool only; otherwise it is what the server declares now.
    #[schema(pattern = "^(raw-)?sha256:[0-9a-f]{64}$")]
    digest: Option<String>,
    /// The published contract hash of the same definition, with a digest only: what the published clients told of another
    /// one counts then.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    hash: Option<String>,
}

impl QuestionBody {
    /// Asked by name.
    pub(crate) fn by_name(server: String, tool: Option<String>, digest: Option<String>) -> QuestionBody {
        QuestionBody {
            server: Some(server),
            server_fp: None,
            tool,
            tool_fp: None,
            digest,
            hash: None,
        }
    }
}

/// Answers, as many as were asked, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AnswersBody {
    items: Vec<AnswerBody>,
}

/// What this index knows of a server or a tool.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CheckAnswer)]
pub(crate) struct AnswerBody {
    /// `ready`, `unknown`, `needs-person`, `no-such` or `try-later`.
    verdict: &'static str,
    /// What decided first; never empty.
    reasons: Vec<ReasonBody>,
    /// Null when there is none by that name or fingerprint.
    server: Option<CheckedServerBody>,
    tool: Option<String>,
    /// What the rest is about: the digest asked for, else the one declared now.
    digest: Option<String>,
    /// `now`, `before` or `never`, as the crawl saw it; null when that is not determined.
    declared: Option<&'static str>,
    /// What the crawl saw of the tool last.
    current_digest: Option<String>,
    /// When the crawl saw that digest first.
    first_seen: Option<String>,
    /// When the crawl saw that digest last.
    last_seen: Option<String>,
    /// When the crawl found that the server had left that digest; null while it declares it.
    drifted_since: Option<String>,
    /// The latest drift of the tool, or of the server.
    drift: Option<CheckedDriftBody>,
    /// Who sees that digest.
    seen_by: SeenByBody,
    /// Who sees another digest of the same tool; null without a tool.
    others: Option<SeenByBody>,
    /// Whether others see another contract of this tool and nobody else sees this one; null when that can't be said.
    alone: Option<bool>,
    /// What the organisation decided of it: `approved`, `refused`, `proposed` (one of two has approved), `expired`, `withdrawn`, `doubtful`
    /// (the chain of approvals is broken behind it), `none`, or `unknown` where it is not known what was asked about. Of a server:
    /// what stands of all its tools.
    approval: &'static str,
    /// The newest package with that digest.
    artifact: Option<CheckedArtifactBody>,
}

/// One reason.
#[derive(Debug, Serialize, ToSchema)]
struct ReasonBody {
    code: &'static str,
    sentence: String,
}

/// A server that was asked about.
#[derive(Debug, Serialize, ToSchema)]
struct CheckedServerBody {
    identity: String,
    short_id: String,
    /// How the last look ended; `pending` before the first.
    state: &'static str,
    determined: bool,
    looked_at: Option<String>,
    page: String,
}

/// A drift, as far as what was asked about is concerned.
#[derive(Debug, Serialize, ToSchema)]
struct CheckedDriftBody {
    id: i64,
    found_at: Option<String>,
    kinds: Vec<&'static str>,
    safety_relevant: bool,
    page: String,
}

/// Who sees a digest.
#[derive(Debug, Serialize, ToSchema)]
struct SeenByBody {
    /// Null when the crawl could not determine that.
    crawl: Option<bool>,
    /// Null where signals are not taken.
    installs: Option<InstallsBody>,
}

/// How many installs, as far as enough of them agree.
#[derive(Debug, Serialize, ToSchema)]
struct InstallsBody {
    /// 0, 1, 2, 10, 100, 1000 or 10000.
    at_least: u64,
    /// `authenticated` or `anonymous`.
    corroboration: Option<&'static str>,
}

/// A package that was seen to declare it.
#[derive(Debug, Serialize, ToSchema)]
struct CheckedArtifactBody {
    version: String,
    integrity: Option<String>,
    dependencies: Option<String>,
    runtime: Option<String>,
    published_at: Option<String>,
}

/// What is known of servers and tools, in one verdict each.
#[utoipa::path(
    post,
    path = "/api/v1/check",
    tag = "index",
    request_body = QuestionsBody,
    responses(
        (status = 200, body = AnswersBody),
        (status = 413, description = "More than 256 KiB"),
        (status = 415, description = "Not `application/json`"),
        (status = 429, description = "More than one address may ask; `Retry-After` says when to come again"),
    )
)]
pub(crate) async fn check(State(app): State<App>, request: Request) -> Result<Json<AnswersBody>, Problem> {
    let address = app.access.sender(request.extensions(), request.headers());
    let questions = read(request).await?;
    let amount = u64::try_from(questions.len()).unwrap_or(u64::MAX);
    if !app.access.limits.allows(Counted::Lookups, address, amount) {
        return Err(Problem::limited(
            app.access.limits.come_again(Counted::Lookups),
            "too much was asked from this address",
        ));
    }
    let items = answers(&app, &questions).await?;
    Ok(Json(AnswersBody {
        items: questions
            .iter()
            .zip(items)
            .map(|(question, known)| answer_body(question, &known.0, &known.1))
            .collect(),
    }))
}

/// What is known of each, and what that comes to. What is asked twice is looked up once.
pub(crate) async fn answers(
    app: &App,
    questions: &[Question],
) -> Result<Vec<Arc<(Sightings, Vetting)>>, Problem> {
    let looking = async {
        let _turn = app.access.checks.acquire().await;
        let mut different: Vec<Question> = Vec::new();
        let mut places: HashMap<&Question, usize> = HashMap::new();
        for question in questions {
            places.entry(question).or_insert_with(|| {
                different.push(question.clone());
                different.len() - 1
            });
        }
        let mut room = Room {
            tools: MAX_SCANNED,
            servers: WHOLE_SERVERS,
        };
        let mut known = Vec::with_capacity(different.len());
        for piece in different.chunks(PIECE) {
            known.extend(judged(app, piece, &mut room).await?.into_iter().map(Arc::new));
        }
        let answers = questions
            .iter()
            .filter_map(|question| known.get(*places.get(question)?).cloned());
        Ok(answers.collect())
    };
    timeout(WITHIN, looking)
        .await
        .unwrap_or_else(|_| Err(Problem::unavailable(TOO_LONG)))
}

/// How much may still be read for one request.
struct Room {
    tools: i64,
    servers: usize,
}

async fn judged(
    app: &App,
    questions: &[Question],
    room: &mut Room,
) -> Result<Vec<(Sightings, Vetting)>, Problem> {
    let rule = app.ingest.as_ref().map(|ingest| ingest.rules.fleet.clone());
    let now = app.now();
    let mut answers = Vec::with_capacity(questions.len());
    let all = app.store.sightings(questions, now - LATELY).await?;
    for (question, found) in questions.iter().zip(all) {
        let mut servers = Vec::with_capacity(found.servers.len());
        for sightings in found.servers {
            let tools = match &question.tool {
                Some(_) => Tools::None,
                None => tools(app, &sightings, room).await?,
            };
            let decided = decided(app, question, &sightings).await?;
            servers.push((sightings, tools, decided));
        }
        let (question, rule) = (question.clone(), rule.clone());
        // Thousands of texts may be looked through, so not where other answers wait.
        let judging = tokio::task::spawn_blocking(move || {
            vetting::of_servers(&question, servers, found.more, rule.as_ref(), now)
        });
        let judged = judging.await.map_err(|error| Problem::internal(&error))?;
        answers.push(judged.ok_or_else(|| Problem::internal(&"a question without an answer"))?);
    }
    Ok(answers)
}

/// What was decided of what is asked about: of one definition, or at the whole server.
async fn decided(app: &App, question: &Question, found: &Sightings) -> Result<Decided, Problem> {
    // What gates have submitted may be of servers that nobody crawls.
    let identity = match (&found.server, &question.server) {
        (Some(server), _) => server.identity.as_str(),
        (None, Reference::Name(name)) => name.as_str(),
        (None, Reference::Fingerprint(_)) => return Ok(Decided::default()),
    };
    let now = app.now();
    let (chain, standings) = match (&question.tool, &found.tool, question.digest.or(found.current)) {
        (None, ..) => {
            let stood = app.store.standing(DEFAULT_TENANT, identity, now).await?;
            (stood.chain, stood.standing)
        }
        (Some(_), Some(tool), Some(digest)) => {
            let about = [(identity, tool.as_str(), digest)];
            let stood = app.store.standing_of(DEFAULT_TENANT, &about, now).await?;
            (stood.chain, stood.standing.into_iter().flatten().collect())
        }
        (Some(_), ..) => return Ok(Decided::default()),
    };
    Ok(Decided {
        standings,
        is_broken: chain.flaw.is_some(),
    })
}

/// What the server declares now, while there is room for it in this answer.
async fn tools(app: &App, found: &Sightings, room: &mut Room) -> Result<Tools, Problem> {
    let Some(server) = &found.server else {
        return Ok(Tools::None);
    };
    let Some(observation) = server.current_observation else {
        return Ok(Tools::None);
    };
    room.tools -= server.tools.unwrap_or(0);
    let Some(servers) = room.servers.checked_sub(1).filter(|_| room.tools >= 0) else {
        return Ok(Tools::TooMany);
    };
    room.servers = servers;
    let surface = app.store.surface(observation).await?;
    Ok(surface.map_or(Tools::None, |surface| Tools::Whole(Box::new(surface))))
}

async fn read(request: Request) -> Result<Vec<Question>, Problem> {
    let content_type = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let is_json = content_type.is_some_and(|value| value.to_ascii_lowercase().contains("application/json"));
    if !is_json {
        return Err(Problem::wrong_body(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be `application/json`".to_owned(),
        ));
    }
    let body = to_bytes(request.into_body(), MAX_BODY).await.map_err(|_| {
        let detail = format!("the body is larger than {} KiB, or broke off", MAX_BODY / 1024);
        Problem::wrong_body(StatusCode::PAYLOAD_TOO_LARGE, detail)
    })?;
    let body: QuestionsBody = serde_json::from_slice(&body)
        .map_err(|error| Problem::bad_body(&format!("a list of questions ({error})")))?;
    if body.items.is_empty() || body.items.len() > MAX_ITEMS {
        return Err(Problem::bad_body(&format!(
            "1 to {MAX_ITEMS} questions in `items`"
        )));
    }
    let questions = body.items.into_iter().enumerate().map(|(index, item)| {
        question(item).map_err(|expected| Problem::bad_body(&format!("{expected} in `items[{index}]`")))
    });
    questions.collect()
}

pub(crate) fn question(item: QuestionBody) -> Result<Question, String> {
    const FINGERPRINT: &str = "a fingerprint of 32 hex digits";
    let server = reference(item.server, item.server_fp, MAX_REFERENCE)
        .map_err(|expected| format!("{expected} as server"))?
        .ok_or("exactly one of `server` and `server_fp`")?;
    let tool =
        reference(item.tool, item.tool_fp, MAX_TOOL).map_err(|expected| format!("{expected} as tool"))?;
    if matches!(&server, Reference::Name(name) if name.is_empty()) {
        return Err("a name that is not empty as server".to_owned());
    }
    if matches!(
        (&server, &tool),
        (Reference::Name(_), Some(Reference::Fingerprint(_)))
    ) {
        return Err(format!(
            "a name as tool where the server has one, not {FINGERPRINT}"
        ));
    }
    if tool.is_none() && item.digest.is_some() {
        return Err("a tool beside `digest`".to_owned());
    }
    if item.digest.is_none() && item.hash.is_some() {
        return Err("a `digest` beside `hash`".to_owned());
    }
    let digest = item.digest.map(|digest| digest.parse()).transpose();
    let digest = digest.map_err(|_| "`sha256:` or `raw-sha256:` and 64 hex digits as digest")?;
    let is_hash = |hash: &String| {
        hash.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    if item.hash.as_ref().is_some_and(|hash| !is_hash(hash)) {
        return Err("`sha256:` and 64 hex digits as hash".to_owned());
    }
    Ok(Question {
        server,
        tool,
        digest,
        hash: item.hash,
    })
}

/// A name or a fingerprint; both is an error.
fn reference(
    name: Option<String>,
    fingerprint: Option<String>,
    longest: usize,
) -> Result<Option<Reference>, &'static str> {
    match (name, fingerprint) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err("one of a name and a fingerprint"),
        (Some(name), None) if name.len() > longest || name.contains('\0') => {
            Err("a shorter name, without U+0000,")
        }
        (Some(name), None) => Ok(Some(Reference::Name(name))),
        (None, Some(fingerprint)) => match fingerprint.parse() {
            Ok(fingerprint) => Ok(Some(Reference::Fingerprint(fingerprint))),
            Err(_) => Err("a fingerprint of 32 hex digits"),
        },
    }
}

pub(crate) fn answer_body(question: &Question, found: &Sightings, vetting: &Vetting) -> AnswerBody {
    let digest = question.digest.or(found.current);
    let sighting = digest.and_then(|digest| found.declared.iter().find(|sighting| sighting.digest == digest));
    let left = found
        .left_at
        .filter(|_| vetting.declared == Some(Declared::Before));
    AnswerBody {
        verdict: vetting.verdict.name(),
        reasons: vetting
            .reasons
            .iter()
            .map(|reason| ReasonBody {
                code: reason.code,
                sentence: reason.sentence.clone(),
            })
            .collect(),
        server: found.server.as_ref().map(server_body),
        tool: found.tool.clone(),
        digest: digest.map(|digest| digest.to_string()),
        declared: vetting.declared.map(Declared::name),
        current_digest: found.current.map(|digest| digest.to_string()),
        first_seen: sighting.and_then(|sighting| rfc3339(sighting.first_seen_at)),
        last_seen: sighting.and_then(|sighting| rfc3339(sighting.last_seen_at)),
        drifted_since: left.and_then(rfc3339),
        drift: found.drift.as_ref().map(drift_body),
        seen_by: SeenByBody {
            crawl: vetting.declared.map(|declared| declared != Declared::Never),
            installs: vetting.seen.map(installs_body),
        },
        others: question.tool.as_ref().map(|_| SeenByBody {
            crawl: vetting.declared.map(|_| {
                found
                    .declared
                    .iter()
                    .any(|sighting| Some(sighting.digest) != digest)
            }),
            installs: vetting.others.map(installs_body),
        }),
        alone: vetting.alone,
        approval: vetting.approval.name(),
        artifact: found.artifact.as_ref().map(artifact_body),
    }
}

fn server_body(server: &ServerRecord) -> CheckedServerBody {
    CheckedServerBody {
        identity: server.identity.clone(),
        short_id: server.short_id.clone(),
        state: Standing(server.outcome).name(),
        determined: server.current_observation.is_some(),
        looked_at: server.looked_at.and_then(rfc3339),
        page: links::server_page(&server.short_id),
    }
}

fn drift_body(drift: &ToolDrift) -> CheckedDriftBody {
    CheckedDriftBody {
        id: drift.id,
        found_at: rfc3339(drift.found_at),
        kinds: drift.kinds.iter().map(|kind| kind.name()).collect(),
        safety_relevant: drift.kinds.iter().any(|kind| kind.safety_relevant()),
        page: links::drift_page(drift.id),
    }
}

fn installs_body(installs: Installs) -> InstallsBody {
    InstallsBody {
        at_least: installs.at_least,
        corroboration: installs.corroboration,
    }
}

fn artifact_body(artifact: &Artifact) -> CheckedArtifactBody {
    CheckedArtifactBody {
        version: artifact.version.clone(),
        integrity: artifact.integrity.clone(),
        dependencies: artifact.dependencies.clone(),
        runtime: artifact.runtime.clone(),
        published_at: artifact.published_at.and_then(rfc3339),
    }
}
