//! How often the engine is right over recorded data: digests and kinds of the published client, labelled drifts of real
//! servers, markers in real tools. The test `accuracy` holds the figures to their aims, `scripts/accuracy` prints them.
//!
//! The data is shared and not part of the project. What is not there is left out and said to be.
//!
//! Invariant: nothing here is measured by a rule of its own; every decision is the library's.

use mcpindex_contract::change::{Change, ChangeKind, Direction};
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::markers::{Level, scan_definition};
use mcpindex_contract::posture::{Decision, Posture, Reason, examine};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Line = BTreeMap<String, Box<RawValue>>;

/// All figures over one folder of data.
pub(crate) struct Figures {
    pub(crate) golden: Option<Golden>,
    pub(crate) drifts: Option<Drifts>,
    pub(crate) corpus: Option<Corpus>,
}

/// The published client's recorded cases.
#[derive(Default)]
pub(crate) struct Golden {
    pub(crate) cases: usize,
    /// Digests and hashes compared, and those that differ, each as `case field`.
    pub(crate) values: usize,
    pub(crate) different_values: Vec<String>,
    /// Cases whose kinds, in the published words, are the recorded ones.
    pub(crate) same_kinds: usize,
    /// The others, as `case: recorded | ours`.
    pub(crate) different_kinds: Vec<KindDifference>,
    /// Cases whose decision under guard is the recorded one.
    pub(crate) same_decisions: usize,
}

/// One case in which the published client and we name a change differently.
pub(crate) struct KindDifference {
    pub(crate) id: String,
    pub(crate) recorded: BTreeSet<String>,
    pub(crate) ours: BTreeSet<ChangeKind>,
}

impl KindDifference {
    /// Why the two differ, where a general rule says so.
    pub(crate) fn explanation(&self) -> Option<&'static str> {
        let has = |kind: ChangeKind| self.ours.contains(&kind);
        let recorded = |name: &str| self.recorded.contains(name);
        let goes = |direction| self.ours.iter().all(|kind| kind.direction() == direction);
        let published: BTreeSet<String> = self.ours.iter().map(|kind| kind.published().to_owned()).collect();
        Some(if has(ChangeKind::UndigestableChanged) {
            "it reads what two readers take differently; we don't"
        } else if self.ours.is_empty() {
            "the two are the same to RFC 8785"
        } else if self.recorded.is_empty() {
            "it has no kind for what its hash leaves out or takes as nothing"
        } else if goes(Direction::Hint) && recorded("annotation-flip-to-destructive") {
            "a hint stated at its default is no flip"
        } else if self.recorded.is_subset(&published) {
            "it names one change of an argument, and a description only where nothing else changed; we name all"
        } else if recorded("deep-schema-undiffable") {
            "we compare what it can't"
        } else if recorded("description-numeric") && has(ChangeKind::DescriptionOnly) {
            "a price, or too large a share of digits, is no churn"
        } else if has(ChangeKind::SchemaUndecided) {
            "we claim a narrowing only when we can show a call that is lost"
        } else if goes(Direction::Widening) {
            "it compares types as words; no call is lost"
        } else if goes(Direction::Narrowing) && has(ChangeKind::ConstraintNarrowed) {
            "inside a union we name what refuses the call"
        } else if recorded("output-schema-changed") && has(ChangeKind::ParamTextChanged) {
            "a text inside an output schema is a text"
        } else {
            return None;
        })
    }
}

/// Labelled drifts of real servers.
#[derive(Default)]
pub(crate) struct Drifts {
    pub(crate) rows: usize,
    pub(crate) clear: Tally,
    pub(crate) ambiguous: Tally,
    pub(crate) strict: Tally,
    /// Drifts with a change that could not be decided.
    pub(crate) opaque: usize,
}

/// Decisions beside labels.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) labelled_hold: usize,
    pub(crate) labelled_proceed: usize,
    /// Of those labelled proceed, the ones in which anything changed.
    pub(crate) labelled_proceed_changed: usize,
    pub(crate) let_through: Vec<Disagreement>,
    pub(crate) false_holds: Vec<Disagreement>,
}

/// One drift that is decided otherwise than labelled.
pub(crate) struct Disagreement {
    pub(crate) id: String,
    pub(crate) why: String,
    pub(crate) changes: Vec<Change>,
    pub(crate) reasons: Vec<Reason>,
}

/// Tools as captured from real servers.
#[derive(Default)]
pub(crate) struct Corpus {
    pub(crate) tools: usize,
    pub(crate) low: usize,
    /// Captures and names of those with markers of a high level.
    pub(crate) high: Vec<String>,
    pub(crate) asking_for_context: usize,
}

/// Measures over the data in `folder`.
pub(crate) fn measure(folder: &Path) -> Figures {
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).ok();
    Figures {
        golden: read("vectors/golden.jsonl").map(|lines| golden(&lines)),
        drifts: read("vectors/real-drifts.jsonl").map(|lines| drifts(&lines)),
        corpus: folder.join("corpus").is_dir().then(|| {
            let mut corpus = Corpus::default();
            captures(&folder.join("corpus"), &mut corpus);
            corpus
        }),
    }
}

fn string(line: &Line, field: &str) -> Option<String> {
    serde_json::from_str(line.get(field)?.get()).ok()?
}

/// The exact text of one side: the object as it stands, or a string that holds it.
fn side(line: &Line, name: &str) -> Option<Definition> {
    if let Some(text) = string(line, &format!("{name}_text")) {
        return Some(Definition::read(&text));
    }
    let text = line.get(name)?.get();
    (text != "null").then(|| Definition::read(text))
}

fn lines(text: &str) -> impl Iterator<Item = Line> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).expect("a line of the data is an object"))
}

fn golden(text: &str) -> Golden {
    let mut golden = Golden::default();
    for line in lines(text) {
        let id = string(&line, "id").unwrap_or_default();
        golden.cases += 1;
        let mut compare = |field: &str, ours: Option<String>| {
            golden.values += 1;
            let recorded = string(&line, field);
            if recorded != ours {
                golden.different_values.push(format!("{id} {field}"));
            }
        };
        for name in ["before", "after"] {
            let tool = side(&line, name);
            let hash = tool.as_ref().and_then(|tool| contract_hash(tool).ok());
            compare(&format!("contract_hash_{name}"), hash);
            let digest = tool
                .filter(|tool| tool.no_digest().is_none())
                .map(|tool| tool.digest().to_string());
            compare(&format!("tool_digest_{name}"), digest);
        }
        let (before, after) = (side(&line, "before"), side(&line, "after"));
        let examination = examine(before.as_ref(), after.as_ref());
        let recorded = recorded_kinds(&line);
        let ours: BTreeSet<ChangeKind> = examination.changes.iter().map(|change| change.kind).collect();
        let published: BTreeSet<String> = ours.iter().map(|kind| kind.published().to_owned()).collect();
        if published == recorded {
            golden.same_kinds += 1;
        } else {
            golden.different_kinds.push(KindDifference { id, recorded, ours });
        }
        let decision = examination.verdict(Posture::Guard).decision.name();
        if string(&line, "decision_guard").is_some_and(|recorded| recorded.eq_ignore_ascii_case(decision)) {
            golden.same_decisions += 1;
        }
    }
    golden
}

/// The kinds that the published client told: its differ, its labels, and what its gate made up where neither had one.
fn recorded_kinds(line: &Line) -> BTreeSet<String> {
    let kinds: Vec<String> = line
        .get("kinds")
        .and_then(|kinds| serde_json::from_str(kinds.get()).ok())
        .unwrap_or_default();
    let labels: Vec<BTreeMap<String, serde_json::Value>> = line
        .get("labels")
        .and_then(|labels| serde_json::from_str(labels.get()).ok())
        .unwrap_or_default();
    let labels = labels
        .into_iter()
        .filter_map(|label| Some(label.get("kind")?.as_str()?.to_owned()));
    let gate: Vec<BTreeMap<String, String>> = line
        .get("gate_drift")
        .and_then(|gate| serde_json::from_str(gate.get()).ok())
        .unwrap_or_default();
    let gate = gate.into_iter().filter_map(|mut change| change.remove("kind"));
    kinds.into_iter().chain(labels).chain(gate).collect()
}

fn drifts(text: &str) -> Drifts {
    let mut drifts = Drifts::default();
    for line in lines(text) {
        drifts.rows += 1;
        let (before, after) = (side(&line, "before"), side(&line, "after"));
        let examination = examine(before.as_ref(), after.as_ref());
        if examination.changes.iter().any(|change| {
            matches!(
                change.kind,
                ChangeKind::SchemaUndecided | ChangeKind::DeepSchemaUndiffable
            )
        }) {
            drifts.opaque += 1;
        }
        let flag = |name: &str| line.get(name).is_some_and(|flag| flag.get() == "true");
        let guard = match flag("ambiguous") {
            true => &mut drifts.ambiguous,
            false => &mut drifts.clear,
        };
        let mut sides = vec![(Posture::Guard, "guard", guard)];
        if !flag("ambiguous_strict") {
            sides.push((Posture::Strict, "strict", &mut drifts.strict));
        }
        for (posture, label, tally) in sides {
            let verdict = examination.verdict(posture);
            let disagreement = || Disagreement {
                id: string(&line, "id").unwrap_or_default(),
                why: string(&line, "why").unwrap_or_default(),
                changes: examination.changes.clone(),
                reasons: verdict.reasons.clone(),
            };
            let proceeds = verdict.decision == Decision::Proceed;
            match string(&line, label).as_deref() {
                Some("hold") => {
                    tally.labelled_hold += 1;
                    if proceeds {
                        tally.let_through.push(disagreement());
                    }
                }
                Some("proceed") => {
                    tally.labelled_proceed += 1;
                    if !examination.changes.is_empty() {
                        tally.labelled_proceed_changed += 1;
                    }
                    if !proceeds {
                        tally.false_holds.push(disagreement());
                    }
                }
                _ => {}
            }
        }
    }
    drifts
}

fn captures(folder: &Path, corpus: &mut Corpus) {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder of the data can be listed")
        .map(|entry| entry.expect("a folder of the data can be listed").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            captures(&path, corpus);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a capture can be read");
            let capture: BTreeMap<&str, &RawValue> = serde_json::from_str(&text).unwrap_or_default();
            let tools: Option<Vec<&RawValue>> = capture
                .get("tools")
                .and_then(|tools| serde_json::from_str(tools.get()).ok());
            for tool in tools.unwrap_or_default() {
                tool_figures(&path, tool, corpus);
            }
        }
    }
}

fn tool_figures(path: &Path, tool: &RawValue, corpus: &mut Corpus) {
    corpus.tools += 1;
    let definition = Definition::read(tool.get());
    let scan = scan_definition(&definition);
    match scan.level {
        Level::None => {}
        Level::Low => corpus.low += 1,
        Level::High => {
            let name = definition.name().unwrap_or_default();
            corpus.high.push(format!("{} {name}", path.display()));
        }
    }
    corpus.asking_for_context += usize::from(scan.asks_for_context);
}
