//! From a sighting to the signal that tells of it.
//!
//! Invariant: what is told holds fingerprints, digests, hashes, names of kinds of change, an hour and a number for this
//! install, and nothing that a server wrote; [`signal::write`] is the one encoder, for the sender and for `show-payload`.

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::{
    self, Digests, Event, Fingerprint, FingerprintKey, InstallId, MAX_KINDS, Sdk, Signal,
};

use crate::check::shape::Question;
use crate::gate::sighting::{Sight, Sighting};

const HOUR: i64 = 3_600;

/// The shape that an index takes signals in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The published clients' own.
    One,
    /// With definition digests, so that any drift can be told.
    Two,
}

impl Version {
    /// 1 or 2.
    pub fn number(self) -> u8 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }
}

/// What is known of a definition without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sum {
    digest: Digest,
    /// The published contract hash; some definitions have none.
    hash: Option<String>,
}

impl Sum {
    fn of(text: &str) -> Sum {
        let definition = Definition::read(text);
        Sum {
            digest: definition.digest(),
            hash: contract_hash(&definition).ok(),
        }
    }
}

/// A sighting of a tool of this server, ready to be told and asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    server: String,
    tool: String,
    what: What,
    after: Sum,
    hour: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Pinned,
    Withheld,
    Drifted { before: Sum, kinds: Vec<ChangeKind> },
}

impl Observed {
    /// Hashes and digests are computed here. `at` is in unix seconds.
    pub fn of(server: &Identity, sighting: &Sighting, at: i64) -> Observed {
        Observed {
            server: server.to_string(),
            tool: sighting.tool.clone(),
            what: match &sighting.sight {
                Sight::Pinned => What::Pinned,
                Sight::Withheld => What::Withheld,
                Sight::Drifted { before, kinds } => What::Drifted {
                    before: Sum::of(before),
                    kinds: kinds.clone(),
                },
            },
            after: Sum::of(&sighting.definition),
            hour: at - at.rem_euclid(HOUR),
        }
    }

    /// The tool's name, as the server spells it.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether it was pinned now, having had no pin.
    pub fn is_pinned(&self) -> bool {
        self.what == What::Pinned
    }

    /// Which tool, under this key.
    pub fn fingerprint(&self, key: &FingerprintKey) -> Fingerprint {
        key.tool(&self.server, &self.tool)
    }

    /// What an index is told of it. `None` where the version has no words for it: a tool without a pin, one that the published
    /// clients have no hash for, and, in version 1, a drift that their hash does not cover.
    pub fn signal(&self, version: Version, key: &FingerprintKey, install: InstallId) -> Option<Signal> {
        let (event, before, kinds): (Event, Option<&Sum>, &[ChangeKind]) = match &self.what {
            What::Withheld => return None,
            What::Pinned => (Event::Pin, None, &[]),
            What::Drifted { before, kinds } => (Event::Drift, Some(before), kinds),
        };
        let hash_before = match before {
            None => None,
            Some(before) => Some(before.hash.clone()?),
        };
        let hash_after = self.after.hash.clone()?;
        if version == Version::One && hash_before.as_ref() == Some(&hash_after) {
            return None;
        }
        let mut names: Vec<&'static str> = kinds
            .iter()
            .map(|kind| match version {
                Version::One => kind.published(),
                Version::Two => kind.name(),
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(MAX_KINDS);
        Some(Signal {
            event,
            server: key.server(&self.server),
            tool: self.fingerprint(key),
            hash_before,
            hash_after,
            digests: (version == Version::Two).then(|| Digests {
                before: before.map(|before| before.digest),
                after: self.after.digest,
            }),
            kinds: names,
            safety_relevant: kinds.iter().any(|kind| kind.safety_relevant()),
            hour: Some(self.hour),
            sdk: Sdk::Rs,
            install,
        })
    }

    /// What an index is asked of it: whether others see the same.
    pub fn question(&self, key: &FingerprintKey) -> Question {
        Question {
            server_fp: Some(key.server(&self.server).to_string()),
            tool_fp: Some(self.fingerprint(key).to_string()),
            digest: Some(self.after.digest.to_string()),
            hash: self.after.hash.clone(),
            ..Question::default()
        }
    }
}

/// The body of the request that tells these signals, to the byte.
pub fn body(signals: &[Signal]) -> String {
    signal::write(signals)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::*;

    /// The worked example of the published clients.
    fn tool(token: bool) -> String {
        let mut properties = json!({"q": {"type": "string"}});
        let mut required = vec!["q"];
        if token {
            properties["token"] = json!({"type": "string"});
            required.push("token");
        }
        let schema = json!({"type": "object", "properties": properties, "required": required});
        json!({"name": "search_docs", "description": "Search the docs.", "inputSchema": schema}).to_string()
    }

    fn written(sight: Sight, definition: String, version: Version) -> String {
        let sighting = Sighting {
            tool: "search_docs".to_owned(),
            definition,
            sight,
        };
        let server = Identity::from_reference("npm:docs").unwrap().identity;
        let observed = Observed::of(&server, &sighting, 1_796_058_000 + 3_599);
        let signal = observed.signal(version, &FingerprintKey::public(), InstallId::from_bytes([7; 16]));
        let body = body(&signal.into_iter().collect::<Vec<_>>());
        // Whatever is written, an index takes.
        if body != r#"{"signals":[]}"# {
            signal::read(body.as_bytes(), 1_796_058_000).unwrap();
        }
        body
    }

    fn drifted(before: String, kinds: &[ChangeKind]) -> Sight {
        Sight::Drifted {
            before,
            kinds: kinds.to_vec(),
        }
    }

    #[test]
    fn a_pin_and_a_drift_are_written_in_both_versions() {
        assert_snapshot!(written(Sight::Pinned, tool(false), Version::One), @r#"
        {"signals":[{"v":1,"event":"pin","server_fp":"c4f0c79ea033c1dae508b5eee522add8","tool_fp":"bc195d2c409d0407b6fb2f07d3ccef17","prev_hash":null,"new_hash":"sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10","change_kinds":null,"safety_relevant":false,"at_hour":"2026-11-30T17:00:00Z","sdk":"rs","install_id":"07070707070707070707070707070707"}]}
        "#);
        assert_snapshot!(written(Sight::Pinned, tool(false), Version::Two), @r#"
        {"signals":[{"v":2,"event":"pin","server_fp":"c4f0c79ea033c1dae508b5eee522add8","tool_fp":"bc195d2c409d0407b6fb2f07d3ccef17","prev_hash":null,"new_hash":"sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10","prev_digest":null,"new_digest":"sha256:9c6fc4b40033391dfa860f20b03486dbd8dfe9042aaf576650c9b866ff88e6d0","change_kinds":null,"safety_relevant":false,"at_hour":"2026-11-30T17:00:00Z","sdk":"rs","install_id":"07070707070707070707070707070707"}]}
        "#);
        let kinds = [ChangeKind::AddedRequiredParam, ChangeKind::AddedRequiredParam];
        assert_snapshot!(written(drifted(tool(false), &kinds), tool(true), Version::One), @r#"
        {"signals":[{"v":1,"event":"drift","server_fp":"c4f0c79ea033c1dae508b5eee522add8","tool_fp":"bc195d2c409d0407b6fb2f07d3ccef17","prev_hash":"sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10","new_hash":"sha256:b33b6351e21b326a04cb79a2d0499a3033e571f701aa87cf97153cf4f98fd711","change_kinds":["added-required-param"],"safety_relevant":true,"at_hour":"2026-11-30T17:00:00Z","sdk":"rs","install_id":"07070707070707070707070707070707"}]}
        "#);
        assert_snapshot!(written(drifted(tool(false), &kinds), tool(true), Version::Two), @r#"
        {"signals":[{"v":2,"event":"drift","server_fp":"c4f0c79ea033c1dae508b5eee522add8","tool_fp":"bc195d2c409d0407b6fb2f07d3ccef17","prev_hash":"sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10","new_hash":"sha256:b33b6351e21b326a04cb79a2d0499a3033e571f701aa87cf97153cf4f98fd711","prev_digest":"sha256:9c6fc4b40033391dfa860f20b03486dbd8dfe9042aaf576650c9b866ff88e6d0","new_digest":"sha256:abbcbd65446d9b2a93a421309139f4fe2660a2bd79f67b56baf242ed92754036","change_kinds":["added-required-param"],"safety_relevant":true,"at_hour":"2026-11-30T17:00:00Z","sdk":"rs","install_id":"07070707070707070707070707070707"}]}
        "#);
    }

    #[test]
    fn a_drift_outside_the_published_hash_is_told_in_version_2() {
        let mut titled: Value = serde_json::from_str(&tool(false)).unwrap();
        titled["annotations"] = json!({"destructiveHint": true});
        let sight = || drifted(tool(false), &[ChangeKind::AnnotationFlipToDestructive]);
        assert_snapshot!(written(sight(), titled.to_string(), Version::One), @r#"{"signals":[]}"#);
        assert_snapshot!(written(sight(), titled.to_string(), Version::Two), @r#"
        {"signals":[{"v":2,"event":"drift","server_fp":"c4f0c79ea033c1dae508b5eee522add8","tool_fp":"bc195d2c409d0407b6fb2f07d3ccef17","prev_hash":"sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10","new_hash":"sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10","prev_digest":"sha256:9c6fc4b40033391dfa860f20b03486dbd8dfe9042aaf576650c9b866ff88e6d0","new_digest":"sha256:b17f51901f96b7696879e079143a6857ddffb2537ae7e6357f7ecf3d9f5d9af7","change_kinds":["annotation-flip-to-destructive"],"safety_relevant":true,"at_hour":"2026-11-30T17:00:00Z","sdk":"rs","install_id":"07070707070707070707070707070707"}]}
        "#);
    }

    #[test]
    fn what_has_no_pin_or_no_hash_is_not_told() {
        let none = r#"{"signals":[]}"#;
        assert_eq!(written(Sight::Withheld, tool(false), Version::Two), none);
        let odd = json!({"name": "search_docs", "description": 7}).to_string();
        assert_eq!(written(Sight::Pinned, odd, Version::Two), none);
    }

    #[test]
    fn a_question_names_nobody() {
        let sighting = Sighting {
            tool: "search_docs".to_owned(),
            definition: tool(false),
            sight: Sight::Pinned,
        };
        let server = Identity::from_reference("npm:docs").unwrap().identity;
        let observed = Observed::of(&server, &sighting, 0);
        let question = serde_json::to_string(&observed.question(&FingerprintKey::public())).unwrap();
        assert!(
            !question.contains("docs") && !question.contains("npm"),
            "{question}"
        );
        let own = serde_json::to_string(&observed.question(&FingerprintKey::new(&[1; 32]))).unwrap();
        assert_ne!(question, own);
    }
}
