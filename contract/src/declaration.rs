//! What a tool declares, as words: its name, its prose, its parameters wherever its schemas hide them, its hints.
//!
//! `action` and `capability` both judge by this and never by the raw definition. Parameters are found through `properties`,
//! items, branches, conditions, `$defs` and local `$ref`, each place once, with a bound on depth and on places.
//!
//! Invariant: no recursion, work linear in the definition up to [`MAX_WORK`]; what was not looked at is said in
//! `warnings`, and findings don't depend on the order of members.

mod parameters;
mod verbs;

use crate::definition::Definition;
use crate::json::Value;
use crate::words::{Sense, Words};
use parameters::Walk;
pub use parameters::{MAX_SCHEMA_DEPTH, MAX_WORK};
pub(crate) use parameters::{Parameter, credentials, is_credential_name};
use std::collections::BTreeSet;
use std::fmt;
use verbs::verbs_of_prose;
pub(crate) use verbs::{Verb, verbs_of_name};

/// The most characters of a server's word that evidence repeats.
const EXCERPT: usize = 64;

/// How many words after a verb its object is looked for in prose.
pub(crate) const OBJECT_REACH: usize = 5;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// One loose word, or a hint.
    Low,
    /// A verb with its object in prose, or a word that has other uses.
    Medium,
    /// Typed or structural: a parameter's name and type, a format, the exact verb in the name.
    High,
}

/// Where a finding comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The tool's name.
    Name,
    /// The tool's title.
    Title,
    /// The tool's description.
    Description,
    /// A parameter of the input schema.
    Parameter,
    /// The output schema.
    Output,
    /// An annotation: the server's own claim.
    Hint,
    /// A resource's address.
    Address,
}

/// Why something was found. The detail repeats the server's words escaped and cut.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence {
    /// Where it was found.
    pub source: Source,
    /// What was found, with the JSON pointer where there is one.
    pub detail: String,
    /// How much it says.
    pub confidence: Confidence,
}

/// What a tool declares, in words.
#[derive(Debug, Clone)]
pub struct Declaration<'d> {
    pub(crate) name: Words,
    pub(crate) title: Words,
    pub(crate) description: Words,
    /// By pointer.
    pub(crate) parameters: Vec<Parameter<'d>>,
    /// Properties of the output schema, by pointer.
    pub(crate) outputs: Vec<Parameter<'d>>,
    pub(crate) hints: Hints,
    /// What the tool is said to do: by its name first, then by the choices of a parameter, then by its description.
    pub(crate) verbs: Vec<Verb>,
    /// What was not looked at, and why.
    pub(crate) warnings: Vec<String>,
}

/// The hints that a server gave, where they are booleans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hints {
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

impl<'d> Declaration<'d> {
    /// Reads what a definition declares. A definition that is no JSON object declares nothing.
    pub fn of(definition: &'d Definition) -> Declaration<'d> {
        let mut warnings = Vec::new();
        let (parameters, outputs) = {
            let mut schema = |member| match definition.member(member) {
                Some(schema) => Walk::over(schema, member, &mut warnings),
                None => Vec::new(),
            };
            (schema("inputSchema"), schema("outputSchema"))
        };
        let words = |text: Option<&str>| text.map(Words::of).unwrap_or_default();
        let mut declaration = Declaration {
            name: words(definition.name()),
            title: words(definition.title()),
            description: words(definition.description()),
            parameters,
            outputs,
            hints: Hints::of(definition),
            verbs: Vec::new(),
            warnings,
        };
        declaration.verbs = declaration.find_verbs();
        declaration.with_truncation_warnings()
    }

    fn find_verbs(&self) -> Vec<Verb> {
        let mut verbs = verbs_of_name(&self.name, Source::Name, Confidence::High);
        for parameter in &self.parameters {
            if !parameter.choices.is_empty() && parameter.words.ends_with(Sense::Choice) {
                let choices = parameter.choices.iter();
                verbs.extend(choices.flat_map(|choice| {
                    verbs_of_name(&Words::of(choice), Source::Parameter, Confidence::High)
                }));
            }
        }
        if verbs.is_empty() {
            verbs.extend(verbs_of_name(&self.title, Source::Title, Confidence::Medium));
        }
        let is_known = !verbs.is_empty();
        let said = verbs_of_prose(&self.description).into_iter();
        // `Run a search` runs no code: beside another verb, running needs something that can be run.
        verbs.extend(said.filter(|verb| {
            !is_known || !verb.is(Sense::Execute) || runs_code(&self.description, verb.index)
        }));
        if verbs.is_empty() && self.name.ends_with(Sense::Fact) {
            verbs.push(Verb::of_fact(&self.name));
        }
        // A word said a thousand times says no more, and must not cost more.
        let mut seen = BTreeSet::new();
        verbs.retain(|verb| seen.insert((verb.source, verb.word.clone())));
        verbs
    }

    /// Parameters that take code, a command or a program, and how sure that is.
    pub(crate) fn code_parameters(&self) -> Vec<(&Parameter<'d>, Confidence)> {
        let runs = |verb: &Verb| verb.is(Sense::Execute) || verb.is(Sense::Evaluate);
        let is_said_to_run = self.verbs.iter().any(runs);
        let by_name = |parameter: &Parameter<'d>| {
            let words = &parameter.words;
            let last = words.len().checked_sub(1)?;
            let sure = match words.text(last) {
                "command" | "commands" | "cmd" | "shell" | "script" | "scripts" | "argv" | "executable"
                | "bash" | "powershell" => true,
                // Codes of countries and errors, programs of events: only a whole name, or one that says of what.
                "code" if last == 0 => is_said_to_run,
                "code" => {
                    ["source", "script", "shell"].contains(&words.text(last - 1))
                        || words.has(last - 1, Sense::Code)
                }
                "program" | "expression" | "function" if last == 0 && is_said_to_run => true,
                _ => return None,
            };
            if !parameter.takes_free_text() || (!sure && last > 0) {
                return None;
            }
            Some(if sure {
                Confidence::High
            } else {
                Confidence::Medium
            })
        };
        let by_prose = |parameter: &Parameter<'d>| parameter.says_it_is_run().then_some(Confidence::Medium);
        let found = self.parameters.iter();
        found
            .filter_map(|parameter| {
                let confidence = by_name(parameter).or_else(|| by_prose(parameter))?;
                Some((parameter, confidence))
            })
            .collect()
    }

    /// Parameters that take statements of a query language, which can say anything that language can.
    pub(crate) fn statement_parameters(&self) -> impl Iterator<Item = &Parameter<'d>> {
        self.parameters
            .iter()
            .filter(|parameter| parameter.words.any(Sense::Statement) && parameter.takes_free_text())
    }

    fn with_truncation_warnings(mut self) -> Declaration<'d> {
        let texts = [
            ("name", &self.name),
            ("title", &self.title),
            ("description", &self.description),
        ];
        for (what, words) in texts {
            if words.truncated {
                self.warnings.push(format!(
                    "the {what} is too long: its first {} words were classified",
                    words.len()
                ));
            }
        }
        self
    }
}

impl Hints {
    fn of(definition: &Definition) -> Hints {
        let annotations = definition.member("annotations");
        let hint = |name| match annotations?.get(name)? {
            Value::Bool(value) => Some(*value),
            _ => None,
        };
        Hints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            open_world: hint("openWorldHint"),
        }
    }
}

/// Whether prose names code or a statement soon after a verb.
fn runs_code(prose: &Words, verb: usize) -> bool {
    (verb + 1..=verb + OBJECT_REACH)
        .any(|index| prose.has(index, Sense::Code) || prose.has(index, Sense::Statement))
}

/// A server's word between quotes, on one line, without anything a terminal would act on.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text, EXCERPT))
}

fn escaped(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).flat_map(char::escape_debug).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// The confidence of several pieces of evidence: two of medium from different places are high.
pub(crate) fn together(evidence: &[Evidence]) -> Confidence {
    let best = evidence
        .iter()
        .map(|one| one.confidence)
        .max()
        .unwrap_or(Confidence::Low);
    let mediums: BTreeSet<Source> = evidence
        .iter()
        .filter(|one| one.confidence == Confidence::Medium)
        .map(|one| one.source)
        .collect();
    if mediums.len() > 1 { Confidence::High } else { best }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Name => "name",
            Source::Title => "title",
            Source::Description => "description",
            Source::Parameter => "parameter",
            Source::Output => "output",
            Source::Hint => "hint",
            Source::Address => "address",
        })
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.source, self.detail, self.confidence)
    }
}
