//! What an index is asked about tools that are seen for the first time, or changed, and what a person is told of its answer.
//!
//! Invariant: an index is asked by fingerprint and digest, never by name; what it answers is told in one line and moves no
//! decision; no answer is no advice.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcpindex_contract::signal::{Fingerprint, FingerprintKey};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

use super::buffer::Server;
use super::payload::Observed;
use crate::check::shape::{IndexAnswers, Questions};
use crate::index::{Answer, IndexClient, IndexError};
use crate::visible::visible_within;

/// The most that is read of an answer.
const MAX_ANSWER: usize = 1 << 20;
/// The most tools that are named in one line.
const NAMED: usize = 3;
/// The longest name that is shown whole.
const NAME_LENGTH: usize = 80;

/// What a person is told of an index's answer about tools of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    /// Others see another contract of these tools, and nobody else sees this one.
    Alone {
        /// How the server is called.
        server: String,
        /// The tools, as the server spells them.
        tools: Vec<String>,
    },
    /// These tools, pinned just now, have changed elsewhere.
    Drifted {
        /// How the server is called.
        server: String,
        /// The tools, as the server spells them.
        tools: Vec<String>,
        /// How many installs saw it at most; `None` where only the index's own crawl did.
        installs: Option<u64>,
        /// Whether some of the changes is safety relevant.
        safety_relevant: bool,
    },
}

impl Advice {
    /// The one line.
    pub fn line(&self) -> String {
        match self {
            Advice::Alone { server, tools } => format!(
                "mcpindex: others see another contract than you of {} on {server}: nobody else is known to be served this one",
                named(tools)
            ),
            Advice::Drifted {
                server,
                tools,
                installs,
                safety_relevant,
            } => {
                let by = match installs {
                    None => "the index's own crawl".to_owned(),
                    Some(1) => "1 install".to_owned(),
                    Some(installs) => format!("{installs} installs"),
                };
                let relevant = if *safety_relevant { ", safety relevant" } else { "" };
                format!(
                    "mcpindex: {} on {server} changed before, as seen by {by}{relevant}; what is there now is pinned",
                    named(tools)
                )
            }
        }
    }
}

/// The tools as a person reads them.
fn named(tools: &[String]) -> String {
    let mut text: Vec<String> = tools
        .iter()
        .take(NAMED)
        .map(|tool| visible_within(tool, NAME_LENGTH))
        .collect();
    let more = tools.len().saturating_sub(NAMED);
    if more > 0 {
        text.push(format!("{more} more"));
    }
    match text.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => text.concat(),
    }
}

/// Which questions this index answers, as far as that is known.
#[derive(Debug, Clone)]
pub(super) struct Lookups {
    any: bool,
    check: bool,
    /// Why the index answers us no questions: it knows them, and our key may not ask.
    refused: Option<String>,
}

impl Default for Lookups {
    fn default() -> Lookups {
        Lookups {
            any: true,
            check: true,
            refused: None,
        }
    }
}

/// Tools of servers, at most as many as fit into one question.
pub(super) type Tools<'o> = &'o [(Arc<Server>, Observed)];

#[derive(Serialize)]
struct Fingerprints {
    fps: Vec<String>,
}

#[derive(Deserialize)]
struct FleetAnswers {
    results: BTreeMap<String, FleetAnswer>,
}

#[derive(Deserialize)]
struct FleetAnswer {
    drifted: Option<bool>,
    #[serde(default)]
    provenance: Option<String>,
    #[serde(default)]
    sources: Option<u64>,
    #[serde(default)]
    safety_relevant: Option<bool>,
}

impl Lookups {
    /// Why the index answers us no questions, where it said so.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Asks about these tools; what is worth a line. An index that does not know a question is not asked it again.
    pub(super) async fn ask(
        &mut self,
        client: &IndexClient,
        key: &FingerprintKey,
        tools: Tools<'_>,
    ) -> Vec<Advice> {
        let mut advice = Vec::new();
        if self.check && !tools.is_empty() {
            let items = tools.iter().map(|(_, observed)| observed.question(key));
            let questions = Questions {
                items: items.collect(),
            };
            let answer = client.post("api/v1/check", &questions, MAX_ANSWER).await;
            let answer = taken(answer, &mut self.check, &mut self.refused);
            if let Some(answers) = answer.and_then(|answer| answer.json::<IndexAnswers>()) {
                advice.extend(alone(tools, &answers));
            }
        }
        let pinned: Vec<(Fingerprint, &(Arc<Server>, Observed))> = tools
            .iter()
            .filter(|(_, observed)| observed.is_pinned())
            .map(|tool| (tool.1.fingerprint(key), tool))
            .collect();
        if self.any && !pinned.is_empty() {
            let fps = pinned.iter().map(|(fingerprint, _)| fingerprint.to_string());
            let fps = Fingerprints { fps: fps.collect() };
            let answer = client.post("api/v1/drift/any", &fps, MAX_ANSWER).await;
            let answer = taken(answer, &mut self.any, &mut self.refused);
            if let Some(answers) = answer.and_then(|answer| answer.json::<FleetAnswers>()) {
                advice.extend(drifted(&pinned, &answers));
            }
        }
        advice
    }
}

/// A good answer. `is_known` becomes false where the index has no such question, or none for us, and `refused` says why.
fn taken(
    answer: Result<Answer, IndexError>,
    is_known: &mut bool,
    refused: &mut Option<String>,
) -> Option<Answer> {
    let answer = answer.ok()?;
    if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let words = answer.problem().map(|problem| format!(": {}", problem.words()));
        let words = words.unwrap_or_default();
        *refused = Some(format!("it answered {}{words}", answer.status.as_u16()));
    }
    if answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS {
        *is_known = false;
    }
    answer.status.is_success().then_some(answer)
}

fn alone(tools: Tools<'_>, answers: &IndexAnswers) -> Vec<Advice> {
    if answers.items.len() != tools.len() {
        // Which answer belongs to which question can't be said.
        return Vec::new();
    }
    let mut of_server: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((server, observed), answer) in tools.iter().zip(&answers.items) {
        if answer.alone == Some(true) {
            let tools = of_server.entry(&server.shown).or_default();
            tools.push(observed.tool().to_owned());
        }
    }
    let advice = of_server.into_iter().map(|(server, tools)| Advice::Alone {
        server: server.to_owned(),
        tools,
    });
    advice.collect()
}

/// What is known of the drifts of one server's tools.
#[derive(Default)]
struct Fleet {
    tools: Vec<String>,
    installs: Option<u64>,
    safety_relevant: bool,
}

fn drifted(pinned: &[(Fingerprint, &(Arc<Server>, Observed))], answers: &FleetAnswers) -> Vec<Advice> {
    let mut of_server: BTreeMap<&str, Fleet> = BTreeMap::new();
    for (fingerprint, (server, observed)) in pinned {
        let Some(answer) = answers.results.get(&fingerprint.to_string()) else {
            continue;
        };
        if answer.drifted != Some(true) {
            continue;
        }
        let fleet = of_server.entry(&server.shown).or_default();
        fleet.tools.push(observed.tool().to_owned());
        fleet.safety_relevant |= answer.safety_relevant == Some(true);
        if answer.provenance.as_deref() == Some("installs") {
            let sources = answer.sources.unwrap_or(1).max(1);
            fleet.installs = fleet.installs.max(Some(sources));
        }
    }
    let advice = of_server.into_iter().map(|(server, fleet)| Advice::Drifted {
        server: server.to_owned(),
        tools: fleet.tools,
        installs: fleet.installs,
        safety_relevant: fleet.safety_relevant,
    });
    advice.collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn advice_is_one_line() {
        let tools = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let alone = |names: &[&str]| Advice::Alone {
            server: "npm:docs".to_owned(),
            tools: tools(names),
        };
        let drifted = |installs, safety_relevant| Advice::Drifted {
            server: "npm:docs".to_owned(),
            tools: tools(&["search"]),
            installs,
            safety_relevant,
        };
        let lines = [
            alone(&["search"]),
            alone(&["a", "b\u{1b}[2J\n"]),
            alone(&["a", "b", "c", "d", "e"]),
            drifted(None, false),
            drifted(Some(1), true),
            drifted(Some(25), true),
        ];
        let lines: Vec<String> = lines.iter().map(Advice::line).collect();
        assert_snapshot!(lines.join("\n"), @r#"
        mcpindex: others see another contract than you of search on npm:docs: nobody else is known to be served this one
        mcpindex: others see another contract than you of a and b\u{1b}[2J\n on npm:docs: nobody else is known to be served this one
        mcpindex: others see another contract than you of a, b, c and 2 more on npm:docs: nobody else is known to be served this one
        mcpindex: search on npm:docs changed before, as seen by the index's own crawl; what is there now is pinned
        mcpindex: search on npm:docs changed before, as seen by 1 install, safety relevant; what is there now is pinned
        mcpindex: search on npm:docs changed before, as seen by 25 installs, safety relevant; what is there now is pinned
        "#);
    }
}
