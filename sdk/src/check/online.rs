//! What an index says of a server that a person asks about, beside what this machine knows.
//!
//! A person's question names a package of the usual registries, which everybody may know of. A server at a public address goes
//! by fingerprint, since its address may hold what opens it, and so does what was typed and names no server here. What is not
//! public is asked about by fingerprint under the organisation's key, and at no index that hands out none.
//!
//! Invariant: an index that could not be asked, or whose answer can't be read, is [`Consulted::Failed`] and never an answer.

use std::time::Duration;

use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::FingerprintKey;
use reqwest::StatusCode;

use super::shape::{IndexAnswer, IndexAnswers, MAX_ITEMS, Question, Questions};
use super::{Answer, Verdict};
use crate::index::{IndexClient, MAX_ANSWER_BYTES};
use crate::pins::{AuthContext, Record, ToolPin, Via};
use crate::telemetry::{Failure, OwnRegistries, is_public, is_public_name, own_key};

/// What an answer says of what the organisation refused.
const REFUSED: &str = "refused";
/// How long the whole exchange may take.
pub const WITHIN: Duration = Duration::from_secs(10);

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The server, or what the person typed where that names none here: a registry's name may be known to an index.
    pub server: Result<&'a Identity, &'a str>,
    /// One tool of it; all of them otherwise.
    pub tool: Option<&'a str>,
    /// What this machine knows of it, …
    pub record: Option<&'a Record>,
    /// … and with which credentials that was seen; `None` where nothing is known.
    pub context: Option<&'a AuthContext>,
    /// The packages that come from another registry here.
    pub own_registries: &'a OwnRegistries,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consulted {
    /// The index knows, or says that it doesn't.
    Answered {
        /// Of the tool, or of the server as a whole.
        answer: Box<IndexAnswer>,
        /// Of a server as a whole: tools whose definition here, which no person approved, needs one by the index's word.
        doubts: Vec<Doubt>,
    },
    /// It was not asked: only the organisation's own index may hear of this server, and this is not known to be it.
    Private,
    /// It was not asked: what was typed is no name that an index could know.
    NoName,
    /// It was not asked: it knows what the server declares to anybody, and here it was seen with credentials.
    OtherContext,
    /// It could not be asked.
    Failed {
        /// One line.
        reason: String,
    },
}

/// Why an index says that a tool needs a person. Its words, to be shown with care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// The tool's name.
    pub tool: String,
    /// The reason that decided, or `alone` where that is one.
    pub code: String,
    /// The reason as a sentence.
    pub sentence: String,
}

impl Doubt {
    fn of(tool: String, answer: &IndexAnswer) -> Option<Doubt> {
        if says(answer) != Answer::NeedsPerson {
            return None;
        }
        let alone = answer.reasons.iter().find(|reason| reason.code == "alone");
        let reason = alone.or(answer.reasons.first());
        Some(Doubt {
            tool,
            code: reason.map_or_else(String::new, |reason| reason.code.clone()),
            sentence: reason.map_or_else(String::new, |reason| reason.sentence.clone()),
        })
    }
}

/// Asks an index.
pub async fn consult(client: &IndexClient, subject: &Subject<'_>) -> Consulted {
    let asking = tokio::time::timeout(WITHIN, ask(client, subject));
    match asking.await {
        Ok(Ok(consulted)) => consulted,
        Ok(Err(reason)) => Consulted::Failed { reason },
        Err(_) => Consulted::Failed {
            reason: format!("no answer within {} seconds", WITHIN.as_secs()),
        },
    }
}

async fn ask(client: &IndexClient, subject: &Subject<'_>) -> Result<Consulted, String> {
    if subject.context.is_some_and(|context| !context.is_anybodys()) {
        return Ok(Consulted::OtherContext);
    }
    let name = match subject.server {
        Err(typed) if !is_registry_name(typed) => return Ok(Consulted::NoName),
        Err(typed) => {
            let key = fetch_own_key(client)
                .await?
                .unwrap_or_else(FingerprintKey::public);
            Name::Fingerprint(key, typed.to_owned())
        }
        Ok(identity) if is_public(identity, subject.own_registries).await => match identity {
            Identity::Package { .. } => Name::Plain(identity.to_string()),
            Identity::Remote { .. } | Identity::Command { .. } => {
                Name::Fingerprint(FingerprintKey::public(), identity.to_string())
            }
        },
        Ok(identity) => match fetch_own_key(client).await? {
            Some(key) => Name::Fingerprint(key, identity.to_string()),
            None => return Ok(Consulted::Private),
        },
    };
    let (questions, tools) = questions(&name, subject);
    let mut items = Vec::with_capacity(questions.len());
    for batch in questions.chunks(MAX_ITEMS) {
        items.extend(post(client, batch.to_vec()).await?);
    }
    let mut items = items.into_iter();
    let Some(first) = items.next() else {
        return Err("its answer has another number of items than it was asked about".to_owned());
    };
    let doubts = tools
        .into_iter()
        .zip(items)
        .filter_map(|(tool, answer)| Doubt::of(tool, &answer));
    Ok(Consulted::Answered {
        answer: Box::new(first),
        doubts: doubts.collect(),
    })
}

/// The answers to at most [`MAX_ITEMS`] questions, in their order.
async fn post(client: &IndexClient, items: Vec<Question>) -> Result<Vec<IndexAnswer>, String> {
    let asked = items.len();
    let answer = client
        .post("api/v1/check", &Questions { items }, MAX_ANSWER_BYTES)
        .await
        .map_err(|error| error.to_string())?;
    match answer.status {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => {
            return Err("it wants a key that it knows: `mcpindex login` gets one".to_owned());
        }
        StatusCode::FORBIDDEN => {
            let words = answer.problem().map(|problem| format!(": {}", problem.words()));
            return Err(format!(
                "your key may not ask there{}; `mcpindex login` gets one that may ask and tell",
                words.unwrap_or_default()
            ));
        }
        status => return Err(format!("it answered {}", status.as_u16())),
    }
    let answers: IndexAnswers = answer
        .json()
        .ok_or_else(|| "its answer can't be read".to_owned())?;
    match answers.items.len() == asked {
        true => Ok(answers.items),
        false => Err("its answer has another number of items than it was asked about".to_owned()),
    }
}

/// How the server is named to the index.
enum Name {
    Plain(String),
    Fingerprint(FingerprintKey, String),
}

impl Name {
    fn question(&self, tool: Option<&str>) -> Question {
        match self {
            Name::Plain(server) => Question {
                server: Some(server.clone()),
                tool: tool.map(str::to_owned),
                ..Question::default()
            },
            Name::Fingerprint(key, server) => Question {
                server_fp: Some(key.server(server).to_string()),
                tool_fp: tool.map(|tool| key.tool(server, tool).to_string()),
                ..Question::default()
            },
        }
    }
}

/// The question, and, for a whole server, one for each tool whose definition here no person approved, with these tools' names.
fn questions(name: &Name, subject: &Subject<'_>) -> (Vec<Question>, Vec<String>) {
    let mut whole = name.question(subject.tool);
    let tools = subject.record.into_iter().flat_map(|record| &record.tools);
    if let Some(tool) = subject.tool {
        let pin = subject.record.and_then(|record| record.tools.get(tool));
        if let Some((digest, definition, _)) = pin.and_then(declared) {
            of_definition(&mut whole, digest, definition);
        }
        return (vec![whole], Vec::new());
    }
    let mut items = vec![whole];
    let mut asked = Vec::new();
    for (tool, pin) in tools {
        let Some((digest, definition, false)) = declared(pin) else {
            continue;
        };
        let mut question = name.question(Some(tool));
        of_definition(&mut question, digest, definition);
        items.push(question);
        asked.push(tool.clone());
    }
    (items, asked)
}

/// What the server declares of a tool, as far as is known here, and whether a person approved just that: what waits; else what was
/// let through last; else what it is judged against. Of what was let through without being the baseline the digest alone is kept.
fn declared(pin: &ToolPin) -> Option<(&str, Option<&str>, bool)> {
    if let Some((digest, held)) = pin.waiting() {
        return Some((digest, Some(&held.definition), false));
    }
    if let Some(last) = &pin.last_seen {
        return Some((&last.digest, None, last.via == Via::Approved));
    }
    let baseline = pin.baseline.as_ref()?;
    let is_approved = baseline.via == Via::Approved;
    Some((&baseline.digest, Some(&baseline.definition), is_approved))
}

fn of_definition(question: &mut Question, digest: &str, definition: Option<&str>) {
    question.digest = Some(digest.to_owned());
    question.hash = definition.and_then(|text| contract_hash(&Definition::read(text)).ok());
}

pub(crate) async fn fetch_own_key(client: &IndexClient) -> Result<Option<FingerprintKey>, String> {
    if !client.has_key() {
        return Ok(None);
    }
    let answer = client.get("api/v1/fingerprint-key", MAX_ANSWER_BYTES).await;
    let answer = answer.map_err(|error| error.to_string())?;
    own_key(&answer).map_err(|Failure { reason, .. }| reason)
}

/// The longest name in the official registry, by its schema.
const MAX_REGISTRY_NAME: usize = 200;

/// Whether this could be a name in the official registry: a domain turned round, one slash, and a name; no port, tag or digest.
///
/// A private image (`registry.acme.example/team`) and a path (`src.d/server.js`) may look like one, so it says only what is worth
/// a question, and not that a name may be told: the question is by fingerprint, which an index understands that knows the name.
/// What could be no public domain, read in either direction, is not asked about at all.
fn is_registry_name(text: &str) -> bool {
    let Some((space, name)) = text.split_once('/') else {
        return false;
    };
    let labels: Vec<&str> = space.split('.').collect();
    let is_label = |label: &&str| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(word) && !label.starts_with('-') && !label.ends_with('-')
    };
    let is_top = |label: &str| label.len() >= 2 && label.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_name = !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let domain: Vec<&str> = labels.iter().rev().copied().collect();
    text.len() <= MAX_REGISTRY_NAME
        && labels.iter().all(is_label)
        && labels.first().is_some_and(|label| is_top(label))
        && is_name
        && is_public_name(&domain.join("."))
        && is_public_name(space)
}

/// One answer from what this machine knows and what an index says.
///
/// What a person approved here stands, whatever an index saw, unless the organisation refused it there; nothing that an index says
/// makes ready what a gate holds.
pub fn joined(local: &Verdict, consulted: &Consulted) -> Answer {
    let is_approved = local
        .reasons
        .first()
        .is_some_and(|reason| reason.code == "approved");
    match (local.answer, consulted) {
        (answer, Consulted::Private | Consulted::NoName | Consulted::OtherContext) => answer,
        (Answer::Unknown | Answer::NoSuch, Consulted::Failed { .. }) => Answer::TryLater,
        (answer, Consulted::Failed { .. }) => answer,
        (answer @ (Answer::NeedsPerson | Answer::TryLater), _) => answer,
        (Answer::Ready, Consulted::Answered { answer, doubts }) => {
            let is_refused = answer.approval == REFUSED;
            let asks_for_person = says(answer) == Answer::NeedsPerson || !doubts.is_empty();
            match is_refused || (asks_for_person && !is_approved) {
                true => Answer::NeedsPerson,
                false => Answer::Ready,
            }
        }
        (Answer::Unknown, Consulted::Answered { answer, .. }) => match says(answer) {
            // That an index does not know a server is no sign that there is none.
            Answer::NoSuch if answer.server.is_none() => Answer::Unknown,
            said => said,
        },
        (Answer::NoSuch, Consulted::Answered { answer, .. }) => match says(answer) {
            Answer::NoSuch => Answer::NoSuch,
            said => said,
        },
    }
}

/// The index's word; one of a later index's is nothing to go by.
fn says(answer: &IndexAnswer) -> Answer {
    let all = [
        Answer::Ready,
        Answer::NeedsPerson,
        Answer::NoSuch,
        Answer::TryLater,
    ];
    let said = all.into_iter().find(|known| known.name() == answer.verdict);
    said.unwrap_or(Answer::Unknown)
}

#[cfg(test)]
mod tests {
    use super::super::shape::SeenBy;
    use super::super::{Reason, shape::IndexServer};
    use super::*;

    fn local(answer: Answer, code: &'static str) -> Verdict {
        Verdict {
            answer,
            reasons: vec![Reason {
                code,
                sentence: String::new(),
            }],
        }
    }

    fn answered(verdict: &str, is_known: bool, doubts: &[&str]) -> Consulted {
        Consulted::Answered {
            answer: Box::new(IndexAnswer {
                verdict: verdict.to_owned(),
                reasons: Vec::new(),
                server: is_known.then(|| IndexServer {
                    identity: "npm:docs".to_owned(),
                    short_id: String::new(),
                    state: "ok".to_owned(),
                    determined: true,
                    looked_at: None,
                    page: String::new(),
                }),
                tool: None,
                digest: None,
                declared: None,
                current_digest: None,
                first_seen: None,
                last_seen: None,
                drifted_since: None,
                drift: None,
                seen_by: SeenBy {
                    crawl: None,
                    installs: None,
                },
                others: None,
                alone: None,
                approval: "unknown".to_owned(),
                artifact: None,
            }),
            doubts: doubts
                .iter()
                .map(|tool| Doubt {
                    tool: (*tool).to_owned(),
                    code: "alone".to_owned(),
                    sentence: String::new(),
                })
                .collect(),
        }
    }

    #[test]
    fn what_is_held_here_stays_held_and_what_a_person_approved_stays_approved() {
        let check = |answer, code, consulted: &Consulted, expected| {
            assert_eq!(
                joined(&local(answer, code), consulted),
                expected,
                "{code} {consulted:?}"
            );
        };
        let ready = answered("ready", true, &[]);
        let person = answered("needs-person", true, &[]);
        check(Answer::NeedsPerson, "held", &ready, Answer::NeedsPerson);
        check(Answer::TryLater, "pins-busy", &ready, Answer::TryLater);
        check(Answer::Ready, "approved", &person, Answer::Ready);
        check(Answer::Ready, "pinned-first-sight", &person, Answer::NeedsPerson);
        check(
            Answer::Ready,
            "pinned-first-sight",
            &answered("unknown", true, &[]),
            Answer::Ready,
        );
        check(
            Answer::Ready,
            "tools-pinned",
            &answered("ready", true, &["a"]),
            Answer::NeedsPerson,
        );
        let mut refused = answered("needs-person", true, &[]);
        if let Consulted::Answered { answer, .. } = &mut refused {
            answer.approval = "refused".to_owned();
        }
        check(Answer::Ready, "approved", &refused, Answer::NeedsPerson);
        check(Answer::Unknown, "never-seen", &ready, Answer::Ready);
        check(Answer::Unknown, "never-seen", &person, Answer::NeedsPerson);
        check(
            Answer::Unknown,
            "never-seen",
            &answered("no-such", false, &[]),
            Answer::Unknown,
        );
        check(
            Answer::Unknown,
            "never-seen",
            &answered("no-such", true, &[]),
            Answer::NoSuch,
        );
        check(
            Answer::Unknown,
            "never-seen",
            &answered("perfectly-fine", true, &[]),
            Answer::Unknown,
        );
        check(Answer::NoSuch, "no-such-tool", &ready, Answer::Ready);
        check(
            Answer::NoSuch,
            "no-such-server",
            &answered("no-such", false, &[]),
            Answer::NoSuch,
        );
    }

    #[test]
    fn an_index_that_could_not_be_asked_has_said_nothing() {
        let failed = Consulted::Failed {
            reason: String::new(),
        };
        let check = |answer, expected| assert_eq!(joined(&local(answer, "x"), &failed), expected);
        check(Answer::Ready, Answer::Ready);
        check(Answer::NeedsPerson, Answer::NeedsPerson);
        check(Answer::Unknown, Answer::TryLater);
        check(Answer::NoSuch, Answer::TryLater);
        for not_asked in [Consulted::Private, Consulted::NoName, Consulted::OtherContext] {
            assert_eq!(joined(&local(Answer::Unknown, "x"), &not_asked), Answer::Unknown);
        }
    }

    #[test]
    fn only_what_could_be_a_name_of_the_official_registry_is_asked_about() {
        let check = |text: &str, expected| assert_eq!(is_registry_name(text), expected, "{text}");
        check("io.github.owner/name", true);
        check("io.github.Owner/Name_2.x-y", true);
        check("com.example/mcp", true);
        check(&format!("com.example/{}", "n".repeat(188)), true);
        check(&format!("com.example/{}", "n".repeat(189)), false);
        // Images, with all that only an image has.
        check("registry.corp.example/team/image", false);
        check("registry.corp.example:5000/image", false);
        check("registry.corp.example/image:1.2", false);
        check("registry.corp.example/image@sha256:00", false);
        check("io.github.owner/name@1.2.0", false);
        check("10.0.0.1/image", false);
        // Domains that are nobody's outside, in either direction.
        check("registry.acme.internal/image", false);
        check("registry.local/image", false);
        check("corp.acme.registry/image", false);
        check("docs", false);
        check("./server", false);
        check("../a.b/c", false);
        check("home/secret", false);
        check(".config/name", false);
        check("a-.b/c", false);
        check("io..github/c", false);
        check("a.b/.env", false);
        check("cmd:0123456789abcdef:server", false);
        check("io.github/c d", false);
        check("io.github/c/d", false);
        check("io.github/", false);
        check("io.github/\u{e9}", false);
    }
}
