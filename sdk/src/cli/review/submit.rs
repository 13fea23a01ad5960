//! Sends held definitions to the organisation's queue, where approvers decide.
//!
//! Invariant: what is sent is what a person here would be shown, to the index that this machine is signed in to, and only on a
//! person's word; nothing is decided by it.

use mcpindex::index::{Base, IndexClient, MAX_ANSWER_BYTES};
use mcpindex::pins::{Pins, ServerKey};
use mcpindex::state::StateDirectory;
use mcpindex::visible::visible_within;
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

use super::super::exit::Exit;
use super::super::index::{refusal, signed_in, unreadable};
use super::super::login::runtime;
use super::super::output::{Output, Style};
use super::super::pins::{Mistake, count};
use super::organisation::Organisation;
use super::release::{Item, Release, Steps, What};

const PATH: &str = "api/v1/approvals/requests";
/// The most definitions of one question.
const MOST: usize = 100;
/// The most bytes of definitions of one question, unless a single one is longer.
const MOST_BYTES: usize = 256 << 10;
/// The longest note, in characters.
const NOTE: usize = 500;

/// The queue of the index that this machine is signed in to.
pub(super) struct Queue {
    client: IndexClient,
    runtime: tokio::runtime::Runtime,
}

/// One definition that somebody is to decide about.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Request<'a> {
    identity: &'a str,
    tool: &'a str,
    digest: &'a str,
    definition: &'a str,
    /// What it is pinned to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Body<'a> {
    requests: &'a [Request<'a>],
}

#[derive(Deserialize)]
struct Taken {
    requests: usize,
    queue: Option<String>,
}

/// What became of some requests.
pub(super) struct Sent {
    base: Base,
    count: usize,
    queue: Option<String>,
}

impl Sent {
    /// How many wait, and where.
    pub(super) fn line(&self) -> String {
        let place = match &self.queue {
            Some(queue) => format!(": {}", visible_within(queue, 300)),
            None => String::new(),
        };
        format!(
            "{} in the queue of {}{place}",
            count(self.count, "definition", "definitions"),
            self.base
        )
    }
}

impl<'a> Request<'a> {
    /// The request about this item; `None` where the organisation can't decide about it.
    pub(super) fn of(identity: &'a str, item: &'a Item, note: Option<&'a str>) -> Option<Request<'a>> {
        match &item.what {
            What::Tool(tool) if item.step.no_digest.is_none() => Some(Request {
                identity,
                tool,
                digest: &item.digest,
                definition: &item.held.definition,
                baseline: item.baseline.as_ref().map(|baseline| baseline.text.as_str()),
                note,
            }),
            _ => None,
        }
    }
}

impl Queue {
    /// Of the index that was chosen, with its key.
    pub(super) fn of(state: &StateDirectory) -> Result<Queue, Mistake> {
        let (_, client) = signed_in(None, state, "mcpindex review --submit")?;
        Ok(Queue {
            client,
            runtime: runtime()?,
        })
    }

    /// Sends them, some at a time. An error in the middle says what was taken before it.
    pub(super) fn send(&self, requests: &[Request<'_>]) -> Result<Sent, Mistake> {
        let mut sent = Sent {
            base: self.client.base().clone(),
            count: 0,
            queue: None,
        };
        let mut rest = requests;
        while !rest.is_empty() {
            let (some, later) = rest.split_at(share(rest));
            let taken = self.send_some(some).map_err(|mistake| match sent.count {
                0 => mistake,
                before => {
                    let text = format!("{} (the first {before} were taken)", mistake.text());
                    Mistake::new(mistake.exit(), text)
                }
            })?;
            sent.count += taken.requests;
            sent.queue = taken.queue.or(sent.queue);
            rest = later;
        }
        Ok(sent)
    }

    fn send_some(&self, requests: &[Request<'_>]) -> Result<Taken, Mistake> {
        let body = Body { requests };
        let asked = self.client.post(PATH, &body, MAX_ANSWER_BYTES);
        let answer = self.runtime.block_on(asked)?;
        let base = self.client.base();
        match answer.status {
            status if status.is_success() => answer.json().ok_or_else(|| unreadable(base, PATH)),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Err(Mistake::new(
                Exit::Undetermined,
                format!("{base} has no queue to submit to: it is an older index, or none"),
            )),
            _ => Err(refusal(base, &answer)),
        }
    }
}

/// How many of them go with the next question.
fn share(requests: &[Request<'_>]) -> usize {
    let mut bytes = 0;
    let fits = requests.iter().take(MOST).take_while(|request| {
        bytes += request.definition.len() + request.baseline.map_or(0, str::len);
        bytes <= MOST_BYTES
    });
    fits.count().max(1)
}

/// Submits all that is held and that the organisation has said nothing of.
pub(super) fn all(
    servers: Vec<(ServerKey, Pins)>,
    organisation: &Organisation,
    queue: &Queue,
    note: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Mistake> {
    let mut exit = Exit::Ok;
    let mut releases = Vec::new();
    for (key, mut pins) in servers {
        let identity = key.identity.to_string();
        match pins.record() {
            Ok(record) => {
                let release = Release::of(&record, &mut Steps::default()).with(organisation, &identity);
                releases.push((identity, release));
            }
            Err(error) => {
                output.error(&error.to_string());
                exit = Exit::Undetermined;
            }
        }
    }
    let items: Vec<(&str, &Item)> = releases
        .iter()
        .flat_map(|(identity, release)| {
            let items = release.rows.iter().flat_map(|row| &row.items);
            items.map(|item| (identity.as_str(), item))
        })
        .collect();
    let is_settled =
        |item: &Item| (item.said.as_ref()).is_some_and(|said| matches!(said.state, "approved" | "refused"));
    let open = items.iter().filter(|(_, item)| !is_settled(item));
    let requests: Vec<Request<'_>> = open
        .filter_map(|(identity, item)| Request::of(identity, item, note))
        .collect();
    let settled = items.iter().filter(|(_, item)| is_settled(item)).count();
    if settled > 0 {
        let line = format!(
            "{} decided by the organisation already: not submitted",
            count(settled, "definition is", "definitions are")
        );
        output.line(Style::Faint, &line);
    }
    if requests.is_empty() {
        output.line(
            Style::Plain,
            "nothing is held that the organisation could decide about",
        );
        return Ok(exit);
    }
    let left = items.len() - settled - requests.len();
    if left > 0 {
        let line = format!(
            "{} no tool that something can be pinned to: not submitted, `mcpindex review` shows it",
            count(left, "held item is", "held items are")
        );
        output.line(Style::Faint, &line);
    }
    let sent = queue.send(&requests)?;
    output.line(Style::Strong, &sent.line());
    Ok(exit)
}

/// A note as approvers are shown it.
pub(super) fn note(text: &str) -> Result<String, String> {
    match text.chars().count() <= NOTE && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected at most {NOTE} characters on one line")),
    }
}
