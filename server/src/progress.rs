//! Looks, as people and scripts read them: one line each.
//!
//! Invariant: a look that determined nothing says why and never shows a number of tools.

use mcpindex_contract::outcome::Outcome;
use mcpindex_contract::surface::MemberKind;
use mcpindex_crawler::event::{Event, Read};

use crate::output::{Ink, Line};
use crate::summary::summary;

/// How many characters of a detail fit in a line; the page has all of it.
const DETAIL_CHARACTERS: usize = 240;

/// A registry that was read, in one line.
pub fn read_line(read: &Read) -> Line {
    let mut line = vec![(Ink::Strong, read.address.clone())];
    match &read.problem {
        Some(problem) => line.push((Ink::Warn, format!("  can't be read: {problem}"))),
        None => {
            let entries = match read.entries {
                1 => "1 entry".to_owned(),
                entries => format!("{entries} entries"),
            };
            line.push((Ink::Plain, format!("  {entries}, {} new to follow", read.new)));
            if read.dropped > 0 {
                line.push((Ink::Plain, format!(", {} followed no more", read.dropped)));
            }
        }
    }
    line
}

/// One look that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The server.
    pub identity: String,
    /// The version looked at.
    pub version: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, or what was odd.
    pub detail: Option<String>,
    /// Tools listed.
    pub tools: Option<usize>,
    /// The drift's number, when there is one.
    pub drift: Option<i64>,
    /// Its changes by kind name, most first.
    pub kinds: Vec<(String, i64)>,
    /// How many tools, prompts, … changed without coming or going.
    pub changed: Vec<(MemberKind, i64)>,
    /// Whether there was something to compare with.
    pub compared: bool,
}

impl Look {
    /// The look that an event tells of, if it tells of one that ended.
    pub fn of_event(event: Event) -> Option<Look> {
        match event {
            Event::Looked {
                identity,
                version,
                outcome,
                detail,
                tools,
                drift,
                kinds,
                changed,
                compared,
            } => Some(Look {
                identity,
                version,
                outcome,
                detail,
                tools,
                drift,
                kinds,
                changed,
                compared,
            }),
            Event::Started { .. } | Event::Read(_) => None,
        }
    }

    /// Whether the look determined what the server declares.
    pub fn determined(&self) -> bool {
        self.outcome.has_surface()
    }

    /// The line with the server's identity: `npm:NAME 1.2.0  11 tools  drift #4: 3 tools added`.
    pub fn line(&self) -> Line {
        let mut line = vec![(Ink::Strong, self.identity.clone())];
        if let Some(version) = &self.version {
            line.push((Ink::Plain, format!(" {version}")));
        }
        line.extend(self.findings());
        line
    }

    /// The line of one version among others of the same server: `1.2.0  11 tools  no change`.
    pub fn version_line(&self) -> Line {
        let version = self.version.clone().unwrap_or_else(|| "newest".to_owned());
        let mut line = vec![(Ink::Strong, version)];
        line.extend(self.findings());
        line
    }

    fn findings(&self) -> Line {
        if !self.determined() {
            let mut why = format!("  {}", self.outcome.name());
            if let Some(detail) = &self.detail {
                why.push_str(": ");
                why.push_str(&shortened(detail));
            }
            return vec![(Ink::Bad, why)];
        }
        let mut line = vec![(Ink::Plain, format!("  {}", self.tools_text()))];
        if self.outcome == Outcome::Partial {
            let detail = self.detail.as_deref().unwrap_or("some list could not be read");
            line.push((Ink::Warn, format!("  partial: {}", shortened(detail))));
        }
        line.push(match self.drift {
            Some(number) => (
                Ink::Warn,
                format!("  drift #{number}: {}", summary(&self.kinds, &self.changed)),
            ),
            None if self.compared => (Ink::Dim, "  no change".to_owned()),
            None => (Ink::Dim, "  first look".to_owned()),
        });
        line
    }

    fn tools_text(&self) -> String {
        match self.tools {
            Some(1) => "1 tool".to_owned(),
            Some(count) => format!("{count} tools"),
            None => "tools not determined".to_owned(),
        }
    }

    /// What a person can do about this outcome, where there is something.
    pub fn way_out(&self) -> Option<&'static str> {
        way_out(self.outcome)
    }

    /// For scripts.
    pub fn json(&self) -> serde_json::Value {
        let kinds: Vec<serde_json::Value> = self
            .kinds
            .iter()
            .map(|(kind, count)| serde_json::json!({ "kind": kind, "count": count }))
            .collect();
        serde_json::json!({
            "identity": self.identity,
            "version": self.version,
            "outcome": self.outcome.name(),
            "detail": self.detail,
            "tools": self.tools,
            "compared": self.compared,
            "drift": self.drift.map(|number| serde_json::json!({ "id": number, "kinds": kinds })),
        })
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(DETAIL_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn way_out(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::BlockedAddress => Some(
            "a server in your own network is looked at when its network is in `[crawl] allow_networks`, \
             for example MCPINDEX_CRAWL_ALLOW_NETWORKS=10.0.0.0/8",
        ),
        Outcome::SandboxUnavailable => Some(
            "nothing runs here without a sandbox that holds; `mcpindex-server doctor --sandbox` shows what is missing",
        ),
        Outcome::NeedsConfig => Some(
            "give the server's arguments after `--`; keys are not handed to servers yet, so one that needs a key can't be looked at",
        ),
        Outcome::PackageNotFound | Outcome::VersionNotFound => Some("check the spelling of name and version"),
        Outcome::InstallFailed => Some(
            "where the package is none of a server, nothing helps; else `mcpindex-server doctor` checks the package clients",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> Look {
        Look {
            identity: "npm:a".to_owned(),
            version: Some("1.2.0".to_owned()),
            outcome: Outcome::Ok,
            detail: None,
            tools: Some(11),
            drift: None,
            kinds: Vec::new(),
            changed: Vec::new(),
            compared: false,
        }
    }

    fn check(look: &Look, expected: &str) {
        let text: String = look.line().into_iter().map(|(_, piece)| piece).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn a_look_is_one_line() {
        check(&look(), "npm:a 1.2.0  11 tools  first look");
        check(
            &Look {
                compared: true,
                tools: Some(1),
                version: None,
                ..look()
            },
            "npm:a  1 tool  no change",
        );
        check(
            &Look {
                compared: true,
                drift: Some(4),
                kinds: vec![("tool-added".to_owned(), 12), ("tool-removed".to_owned(), 1)],
                ..look()
            },
            "npm:a 1.2.0  11 tools  drift #4: 12 tools added, 1 removed",
        );
    }

    #[test]
    fn a_look_that_determined_nothing_shows_no_tools() {
        let failed = Look {
            outcome: Outcome::Crashed,
            detail: Some("the process ended with code 1".to_owned()),
            tools: Some(0),
            ..look()
        };
        check(&failed, "npm:a 1.2.0  crashed: the process ended with code 1");
        assert_eq!(failed.json()["outcome"], "crashed");
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        assert_eq!(shortened(&"ä".repeat(300)).chars().count(), DETAIL_CHARACTERS + 1);
    }
}
