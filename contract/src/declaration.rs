//! What a tool declares, as words: its name, its prose, its parameters wherever its schemas hide them, its hints.
//!
//! `action` and `capability` both judge by this and never by the raw definition. Parameters are found through `properties`,
//! items, branches, conditions, `$defs` and local `$ref`, each place once, with a bound on depth and on places.
//!
//! Invariant: no recursion, work linear in the definition up to [`MAX_NODES`]; what was not looked at is said in
//! [`Declaration::warnings`], and findings don't depend on the order of members.

mod verbs;

use crate::definition::Definition;
use crate::json::{Value, push_token};
use crate::words::{Sense, Words};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use verbs::verbs_of_prose;
pub(crate) use verbs::{Verb, verbs_of_name};

/// The most schemas that may lie in one another; deeper ones are not looked at.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// The most schemas of one tool that are looked at.
pub const MAX_NODES: usize = 20_000;

/// The most characters of a server's word that evidence repeats.
const EXCERPT: usize = 64;

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

/// One property of a schema, wherever it stands.
#[derive(Debug, Clone)]
pub(crate) struct Parameter<'d> {
    pub(crate) name: &'d str,
    pub(crate) words: Words,
    pub(crate) pointer: String,
    /// Whether it is a property of the schema's root.
    pub(crate) is_top: bool,
    pub(crate) format: Option<&'d str>,
    /// The strings it is restricted to; empty when it is not.
    pub(crate) choices: Vec<&'d str>,
    types: u8,
}

/// The hints that a server gave, where they are booleans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hints {
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) open_world: Option<bool>,
}

const TYPES: [&str; 7] = [
    "string", "array", "object", "integer", "number", "boolean", "null",
];
const STRING: u8 = 1;
const ARRAY: u8 = 1 << 1;
const OBJECT: u8 = 1 << 2;
const NUMBERS: u8 = 1 << 3 | 1 << 4;

/// Keywords whose value is a schema for the same value, or for its items.
const SAME_VALUE: [&str; 12] = [
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "if",
    "then",
    "else",
    "allOf",
    "anyOf",
    "oneOf",
];

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
        verbs.extend(verbs_of_prose(&self.description));
        if verbs.is_empty() && self.name.ends_with(Sense::Fact) {
            verbs.push(Verb::of_fact(&self.name));
        }
        verbs
    }

    /// Parameters that take code, a command or a program, and how sure that is.
    pub(crate) fn code_parameters(&self) -> Vec<(&Parameter<'d>, Confidence)> {
        let runs = |verb: &Verb| verb.is(Sense::Execute) || verb.is(Sense::Evaluate);
        let is_said_to_run = self.verbs.iter().any(runs);
        let judge = |parameter: &Parameter<'d>| {
            let words = &parameter.words;
            let last = words.len().checked_sub(1)?;
            let sure = match words.text(last) {
                "command" | "commands" | "cmd" | "shell" | "script" | "argv" | "executable" => true,
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
        let found = self.parameters.iter();
        found
            .filter_map(|parameter| judge(parameter).map(|confidence| (parameter, confidence)))
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

impl Parameter<'_> {
    /// Whether it takes text, or anything that can carry text.
    pub(crate) fn takes_text(&self) -> bool {
        self.types == 0 || self.types & (STRING | ARRAY | OBJECT) != 0
    }

    /// Whether it takes text of the caller's own, not one of a list.
    pub(crate) fn takes_free_text(&self) -> bool {
        self.takes_text() && self.choices.is_empty()
    }

    pub(crate) fn takes_numbers(&self) -> bool {
        self.types & NUMBERS != 0
    }

    pub(crate) fn takes_arrays(&self) -> bool {
        self.types & ARRAY != 0
    }

    /// `parameter "path" (string) at /inputSchema/properties/path`
    pub(crate) fn describe(&self) -> String {
        let types: Vec<&str> = TYPES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.types & (1 << bit) != 0)
            .map(|(_, name)| *name)
            .collect();
        let types = if types.is_empty() {
            "any type".to_owned()
        } else {
            types.join(" or ")
        };
        format!(
            "parameter {} ({types}) at {}",
            quoted(self.name),
            escaped(&self.pointer, 4 * EXCERPT)
        )
    }

    /// Whether it names where on the network to go.
    pub(crate) fn is_address(&self) -> bool {
        let formats = ["uri", "url", "iri", "hostname", "idn-hostname", "ipv4", "ipv6"];
        if !self.takes_free_text() {
            return false;
        }
        let words = &self.words;
        let is_named = words.ends_with(Sense::Address)
            && (words.len() == 1
                || !matches!(
                    words.text(words.len() - 1),
                    "domain" | "domains" | "ip" | "website"
                ));
        is_named || self.format.is_some_and(|format| formats.contains(&format))
    }

    /// Whether it names a place in a file system.
    pub(crate) fn is_place(&self) -> bool {
        self.takes_free_text() && self.words.ends_with(Sense::Place)
    }

    fn is_credential(&self) -> bool {
        if !self.takes_text() && !self.takes_numbers() {
            return false;
        }
        is_credential_name(&self.words) && (self.takes_text() || self.words.ends_with(Sense::Secret))
    }
}

/// A parameter that takes a credential.
pub(crate) fn credentials<'p, 'd>(
    parameters: &'p [Parameter<'d>],
) -> impl Iterator<Item = &'p Parameter<'d>> {
    parameters.iter().filter(|parameter| parameter.is_credential())
}

/// Whether a name is that of a credential: `apiKey`, `access_token`, `password`; not `page_token` or `issue_key`.
pub(crate) fn is_credential_name(words: &Words) -> bool {
    let Some(last) = words.len().checked_sub(1) else {
        return false;
    };
    let before = |index: usize| {
        index
            .checked_sub(1)
            .map(|before| words.senses(before))
            .unwrap_or_default()
    };
    if words.has(last, Sense::Secret) {
        return true;
    }
    if words.has(last, Sense::Token) {
        // Counted tokens are numbers of words, not credentials.
        let counted = words.has(last, Sense::Inflected) && last == 0;
        return !counted && !before(last).has(Sense::Paging);
    }
    if words.has(last, Sense::Key) {
        return before(last).has(Sense::KeyKind);
    }
    // `auth`, `authorization`: the whole name only, since `auth-method` takes none.
    last == 0 && matches!(words.text(0), "auth" | "authorization" | "pat" | "pwd")
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

/// A schema that waits for its turn.
struct Visit<'d> {
    schema: &'d Value,
    pointer: String,
    /// The parameter that the schema is about, an index into the ones found.
    about: Option<usize>,
    depth: usize,
    /// Whether it is the root, or a branch of the root.
    is_root: bool,
}

/// The walk through one schema.
struct Walk<'d> {
    root: &'d Value,
    member: &'static str,
    visits: VecDeque<Visit<'d>>,
    /// Schemas that were looked at, by address within the value that is walked, and for which parameter.
    seen: BTreeSet<(usize, Option<usize>)>,
    found: Vec<Parameter<'d>>,
    is_too_deep: bool,
    unresolved: BTreeSet<&'d str>,
}

impl<'d> Walk<'d> {
    fn over(schema: &'d Value, member: &'static str, warnings: &mut Vec<String>) -> Vec<Parameter<'d>> {
        let mut walk = Walk {
            root: schema,
            member,
            visits: VecDeque::new(),
            seen: BTreeSet::new(),
            found: Vec::new(),
            is_too_deep: false,
            unresolved: BTreeSet::new(),
        };
        let mut nodes = 0;
        walk.visits.push_back(Visit {
            schema,
            pointer: format!("/{member}"),
            about: None,
            depth: 0,
            is_root: true,
        });
        while let Some(visit) = walk.visits.pop_front() {
            nodes += 1;
            if nodes > MAX_NODES {
                warnings.push(format!(
                    "{member} holds more than {MAX_NODES} schemas: the rest was not classified"
                ));
                break;
            }
            walk.visit(visit);
        }
        if walk.is_too_deep {
            warnings.push(format!(
                "{member} nests deeper than {MAX_SCHEMA_DEPTH} schemas: what lies deeper was not classified"
            ));
        }
        if let Some(reference) = walk.unresolved.first() {
            warnings.push(format!(
                "{member} refers to {}, which it does not hold: not classified",
                quoted(reference)
            ));
        }
        let mut found = walk.found;
        for parameter in &mut found {
            parameter.choices.sort_unstable();
            parameter.choices.dedup();
        }
        found.sort_by(|left, right| left.pointer.cmp(&right.pointer));
        found
    }

    fn visit(&mut self, visit: Visit<'d>) {
        let Value::Object(members) = visit.schema else {
            return;
        };
        if let Some(about) = visit.about {
            self.found[about].learn(members);
        }
        if let Some(reference) = visit.schema.get("$ref").and_then(Value::as_str) {
            self.follow(reference, &visit);
        }
        // The first time takes all that lies inside; a second one only tells the parameter its type.
        let address = std::ptr::from_ref(visit.schema) as usize;
        let is_new = self
            .seen
            .range((address, None)..=(address, Some(usize::MAX)))
            .next()
            .is_none();
        self.seen.insert((address, visit.about));
        for (keyword, value) in members {
            match keyword.as_str() {
                "properties" | "patternProperties" if is_new => self.take_properties(keyword, value, &visit),
                "$defs" | "definitions" | "dependentSchemas" if is_new => {
                    for (name, schema) in members_of(value) {
                        self.push(schema, &visit, &[keyword, name], None, false);
                    }
                }
                "prefixItems" => self.push_all(value, &visit, keyword),
                _ if SAME_VALUE.contains(&keyword.as_str()) && (is_new || visit.about.is_some()) => {
                    self.push_all(value, &visit, keyword);
                }
                _ => {}
            }
        }
    }

    fn take_properties(&mut self, keyword: &str, properties: &'d Value, visit: &Visit<'d>) {
        for (name, schema) in members_of(properties) {
            let mut pointer = visit.pointer.clone();
            push_token(&mut pointer, keyword);
            push_token(&mut pointer, name);
            self.found.push(Parameter {
                name,
                words: Words::of(name),
                pointer,
                is_top: visit.is_root,
                format: None,
                choices: Vec::new(),
                types: 0,
            });
            self.push(schema, visit, &[keyword, name], Some(self.found.len() - 1), false);
        }
    }

    /// Pushes a schema, or each schema of a list.
    fn push_all(&mut self, value: &'d Value, visit: &Visit<'d>, keyword: &str) {
        let is_branch = matches!(keyword, "allOf" | "anyOf" | "oneOf" | "then" | "else");
        let is_root = visit.is_root && is_branch;
        let Value::Array(schemas) = value else {
            return self.push(value, visit, &[keyword], visit.about, is_root);
        };
        for (index, schema) in schemas.iter().enumerate() {
            self.push(
                schema,
                visit,
                &[keyword, &index.to_string()],
                visit.about,
                is_root,
            );
        }
    }

    fn push(
        &mut self,
        schema: &'d Value,
        from: &Visit<'d>,
        tokens: &[&str],
        about: Option<usize>,
        is_root: bool,
    ) {
        if !matches!(schema, Value::Object(_)) {
            return;
        }
        if from.depth == MAX_SCHEMA_DEPTH {
            self.is_too_deep = true;
            return;
        }
        let mut pointer = from.pointer.clone();
        for token in tokens {
            push_token(&mut pointer, token);
        }
        self.visits.push_back(Visit {
            schema,
            pointer,
            about,
            depth: from.depth + 1,
            is_root,
        });
    }

    fn follow(&mut self, reference: &'d str, visit: &Visit<'d>) {
        let target = reference
            .strip_prefix('#')
            .and_then(|fragment| self.root.pointer(fragment));
        let Some(target) = target else {
            self.unresolved.insert(reference);
            return;
        };
        // A cycle of references ends here.
        if self
            .seen
            .contains(&(std::ptr::from_ref(target) as usize, visit.about))
        {
            return;
        }
        if visit.depth == MAX_SCHEMA_DEPTH {
            self.is_too_deep = true;
            return;
        }
        let pointer = format!("/{}{}", self.member, reference.trim_start_matches('#'));
        self.visits.push_back(Visit {
            schema: target,
            pointer,
            about: visit.about,
            depth: visit.depth + 1,
            is_root: visit.is_root,
        });
    }
}

impl<'d> Parameter<'d> {
    /// Takes over what one schema of this parameter says.
    fn learn(&mut self, members: &'d [(String, Value)]) {
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("type", Value::String(name)) => self.learn_type(name),
                ("type", Value::Array(names)) => names
                    .iter()
                    .filter_map(Value::as_str)
                    .for_each(|name| self.learn_type(name)),
                ("format", Value::String(format)) => self.format = self.format.max(Some(format)),
                ("enum", Value::Array(values)) => {
                    self.choices.extend(values.iter().filter_map(Value::as_str))
                }
                ("const", Value::String(value)) => self.choices.push(value),
                _ => {}
            }
        }
    }

    fn learn_type(&mut self, name: &str) {
        if let Some(bit) = TYPES.iter().position(|known| *known == name) {
            self.types |= 1 << bit;
        }
    }
}

/// The members of an object; of anything else none.
fn members_of(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = match value {
        Value::Object(members) => members.as_slice(),
        _ => &[],
    };
    members.iter().map(|(name, value)| (name.as_str(), value))
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
