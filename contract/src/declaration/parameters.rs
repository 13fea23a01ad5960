//! The parameters of a schema, found wherever the schema hides them.
//!
//! Invariant: each schema is looked at once for each parameter it is about, to a bound on depth and number; what is left out
//! is said in a warning.

use super::{Confidence, EXCERPT, OBJECT_REACH, escaped, quoted};
use crate::json::{Value, push_token};
use crate::words::{Sense, Words};
use std::collections::{BTreeSet, VecDeque};

/// The most schemas that may lie in one another; deeper ones are not looked at.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// How many bytes of one description are looked at, to learn what becomes of the argument.
const MAX_DESCRIPTION: usize = 240;

/// How much of one schema is looked at, in members, values of enums and eighths of a pointer's byte: a hundred times
/// what the largest real tools need.
pub const MAX_WORK: usize = 1_000_000;

/// One property of a schema, wherever it stands.
#[derive(Debug, Clone)]
pub(crate) struct Parameter<'d> {
    pub(crate) name: &'d str,
    pub(crate) words: Words,
    pub(crate) pointer: String,
    /// Whether it is a property of the schema's root.
    pub(crate) is_top: bool,
    pub(crate) format: Option<&'d str>,
    description: Option<&'d str>,
    /// The words that its description begins with, of an argument that takes text of the caller's own; empty for a result.
    prose: Words,
    /// The strings it is restricted to; empty when it is not.
    pub(crate) choices: Vec<&'d str>,
    types: u8,
    /// Whether some branch takes text without a list of what it may be.
    is_open: bool,
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

impl Parameter<'_> {
    /// Whether it takes text, or anything that can carry text.
    pub(crate) fn takes_text(&self) -> bool {
        self.types == 0 || self.types & (STRING | ARRAY | OBJECT) != 0
    }

    /// Whether it takes text of the caller's own, not one of a list.
    pub(crate) fn takes_free_text(&self) -> bool {
        self.takes_text() && (self.is_open || self.choices.is_empty())
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
        let formats = [
            "uri",
            "url",
            "iri",
            "uri-reference",
            "iri-reference",
            "uri-template",
            "hostname",
            "idn-hostname",
            "ipv4",
            "ipv6",
        ];
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

    /// Whether it names where something is put, and how sure that is.
    pub(crate) fn destination(&self) -> Option<Confidence> {
        if !self.takes_free_text() {
            return None;
        }
        let words = &self.words;
        let last = words.len().checked_sub(1)?;
        let ends_in_place = words.has(last, Sense::Place);
        let is_goal = (0..=last).any(|index| words.has(index, Sense::Goal));
        let is_done_into = last > 0
            && words.has(last, Sense::Into)
            && (words.has(last - 1, Sense::Kept) || words.has(last - 1, Sense::Goal));
        if words.any(Sense::Destination) || (ends_in_place && is_goal) || is_done_into {
            return Some(Confidence::High);
        }
        let may_be = ends_in_place || words.has(last, Sense::Goal) || words.any(Sense::Place);
        (may_be && self.says_it_is_kept()).then_some(Confidence::Medium)
    }

    /// Whether its description says that something is written to the place that it names.
    fn says_it_is_kept(&self) -> bool {
        let prose = &self.prose;
        (0..prose.len()).any(|index| {
            // The saved file is there already; `save file` makes one.
            let is_there = prose.has(index + 1, Sense::Place)
                && !prose.has(index, Sense::Write)
                && !prose.has(index, Sense::Make)
                && !prose.has(index, Sense::Foreign);
            let is_denied = (index.saturating_sub(3)..index).any(|before| prose.has(before, Sense::Not));
            prose.has(index, Sense::Kept) && !is_there && !is_denied
        })
    }

    /// Whether its description says that it is run: `Shell command to run afterwards`.
    pub(crate) fn says_it_is_run(&self) -> bool {
        if !self.takes_free_text() {
            return false;
        }
        let prose = &self.prose;
        let is_code = |index: usize| prose.has(index, Sense::Code);
        (0..prose.len()).any(|index| {
            // `Shell command`; `python, javascript` are languages.
            let is_kind_of_code = is_code(index)
                && is_code(index + 1)
                && matches!(
                    prose.text(index + 1),
                    "command" | "commands" | "script" | "scripts" | "code"
                );
            let is_run = is_code(index)
                && (index.saturating_sub(OBJECT_REACH)..=index + OBJECT_REACH)
                    .any(|near| near != index && prose.has(near, Sense::Ran) && !is_code(near));
            let is_named = (0..index).any(|before| is_label(prose.text(before)));
            (is_kind_of_code || is_run) && !is_named
        })
    }

    /// Whether something is sent to the address that it names.
    pub(crate) fn is_outlet(&self) -> bool {
        if !self.takes_free_text() {
            return false;
        }
        if self.words.any(Sense::Outlet) && self.words.len() < 4 {
            return true;
        }
        let prose = &self.prose;
        (0..prose.len()).any(|index| {
            let is_called = || {
                (index.saturating_sub(OBJECT_REACH)..=index + OBJECT_REACH).any(|near| {
                    matches!(
                        prose.text(near),
                        "post"
                            | "posted"
                            | "posts"
                            | "notify"
                            | "notified"
                            | "send"
                            | "sent"
                            | "sends"
                            | "called"
                            | "pinged"
                            | "delivered"
                            | "forward"
                            | "forwarded"
                            | "reported"
                    )
                })
            };
            let is_named = (0..index).any(|before| is_label(prose.text(before)));
            let is_web_address = matches!(
                prose.text(index),
                "url" | "uri" | "endpoint" | "webhook" | "callback"
            );
            is_web_address && (prose.has(index, Sense::Outlet) || is_called()) && !is_named
        })
    }

    fn is_credential(&self) -> bool {
        if !self.takes_text() && !self.takes_numbers() {
            return false;
        }
        (is_credential_name(&self.words) && (self.takes_text() || self.words.ends_with(Sense::Secret)))
            || (self.takes_free_text() && self.says_it_is_a_credential())
    }

    /// Whether its description begins with a credential: `Your API key for the service`.
    fn says_it_is_a_credential(&self) -> bool {
        let prose = &self.prose;
        let is_secret = |index: usize| {
            let before = |sense| index > 0 && prose.has(index - 1, sense);
            (prose.has(index, Sense::Secret) && !prose.has(index, Sense::Inflected))
                || (prose.has(index, Sense::Key) && before(Sense::KeyKind))
                || (prose.has(index, Sense::Token) && before(Sense::TokenKind))
        };
        // Further on it is said of something else.
        let first = (0..prose.len().min(4)).find(|index| is_secret(*index));
        first.is_some_and(|index| {
            // Secret scanning is no secret.
            let next = index + 1;
            let ends = next >= prose.len() || prose.begins_sentence(next) || is_link(prose.text(next));
            ends && !(0..=index + 1).any(|near| is_label(prose.text(near)) || prose.has(near, Sense::Place))
        })
    }
}

/// Words that make of a thing its label: the name of a command is not the command.
fn is_label(word: &str) -> bool {
    matches!(
        word,
        "name"
            | "names"
            | "id"
            | "ids"
            | "identifier"
            | "identifiers"
            | "type"
            | "kind"
            | "whether"
            | "number"
    )
}

/// Words that go on after a noun.
fn is_link(word: &str) -> bool {
    matches!(
        word,
        "for"
            | "of"
            | "to"
            | "used"
            | "from"
            | "with"
            | "that"
            | "if"
            | "as"
            | "or"
            | "and"
            | "needed"
            | "required"
            | "when"
            | "in"
            | "on"
    )
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
    // `auth_header`, `authorization_header`.
    if matches!(words.text(last), "header" | "headers") {
        return last > 0 && matches!(words.text(last - 1), "auth" | "authorization" | "cookie");
    }
    // `auth`, `authorization`: the whole name only, since `auth-method` takes none.
    last == 0 && matches!(words.text(0), "auth" | "authorization" | "pat" | "pwd")
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
pub(super) struct Walk<'d> {
    root: &'d Value,
    member: &'static str,
    visits: VecDeque<Visit<'d>>,
    /// Schemas that were looked at, by address within the value that is walked, and for which parameter.
    seen: BTreeSet<(usize, Option<usize>)>,
    found: Vec<Parameter<'d>>,
    /// What was looked at so far, in the unit of [`MAX_WORK`].
    work: usize,
    is_too_deep: bool,
    unresolved: BTreeSet<&'d str>,
}

impl<'d> Walk<'d> {
    pub(super) fn over(
        schema: &'d Value,
        member: &'static str,
        warnings: &mut Vec<String>,
    ) -> Vec<Parameter<'d>> {
        let mut walk = Walk {
            root: schema,
            member,
            visits: VecDeque::new(),
            seen: BTreeSet::new(),
            found: Vec::new(),
            work: 0,
            is_too_deep: false,
            unresolved: BTreeSet::new(),
        };
        walk.visits.push_back(Visit {
            schema,
            pointer: format!("/{member}"),
            about: None,
            depth: 0,
            is_root: true,
        });
        while let Some(visit) = walk.visits.pop_front() {
            walk.work += 1;
            if walk.work > MAX_WORK {
                break;
            }
            walk.visit(visit);
        }
        if walk.work > MAX_WORK {
            warnings.push(format!(
                "{member} is too large to look through: the rest was not classified"
            ));
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
            if member == "inputSchema" && parameter.takes_free_text() {
                let text = parameter.description.unwrap_or_default();
                parameter.prose = Words::of(&text[..text.floor_char_boundary(MAX_DESCRIPTION)]);
            }
        }
        found.sort_by(|left, right| left.pointer.cmp(&right.pointer));
        found
    }

    fn visit(&mut self, visit: Visit<'d>) {
        let Value::Object(members) = visit.schema else {
            return;
        };
        self.work += members.len();
        if let Some(about) = visit.about {
            self.work += self.found[about].learn(members);
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
            if !self.can_afford(&visit.pointer) {
                return;
            }
            let mut pointer = visit.pointer.clone();
            push_token(&mut pointer, keyword);
            push_token(&mut pointer, name);
            self.found.push(Parameter {
                name,
                words: Words::of(name),
                pointer,
                is_top: visit.is_root,
                format: None,
                description: None,
                prose: Words::default(),
                choices: Vec::new(),
                types: 0,
                is_open: false,
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

    /// Charges one more pointer that begins with this one; none is made when that is past the bound.
    fn can_afford(&mut self, pointer: &str) -> bool {
        self.work += 1 + pointer.len() / 8;
        self.work <= MAX_WORK
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
        if !self.can_afford(&from.pointer) {
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

    /// The schema that a local reference names. Each object on the way costs what it takes to search it.
    fn resolve(&mut self, reference: &str) -> Option<&'d Value> {
        let mut target = self.root;
        for token in reference.strip_prefix('#')?.split('/').skip(1) {
            self.work += match target {
                Value::Object(members) => members.len(),
                _ => 1,
            };
            target = target.pointer(&format!("/{token}"))?;
        }
        let is_pointer = reference == "#" || reference.starts_with("#/");
        is_pointer.then_some(target)
    }

    fn follow(&mut self, reference: &'d str, visit: &Visit<'d>) {
        let Some(target) = self.resolve(reference) else {
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
    /// Takes over what one schema of this parameter says, and says how many values that was.
    fn learn(&mut self, members: &'d [(String, Value)]) -> usize {
        let mut values_read = 0;
        let mut is_closed = false;
        let mut says_more_elsewhere = false;
        let earlier = std::mem::take(&mut self.types);
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("type", Value::String(name)) => self.learn_type(name),
                ("type", Value::Array(names)) => {
                    values_read += names.len();
                    names
                        .iter()
                        .filter_map(Value::as_str)
                        .for_each(|name| self.learn_type(name));
                }
                ("format", Value::String(format)) => self.format = self.format.max(Some(format)),
                ("description", Value::String(text)) => self.description = self.description.or(Some(text)),
                ("enum", Value::Array(values)) => {
                    values_read += values.len();
                    self.choices.extend(values.iter().filter_map(Value::as_str));
                    is_closed = true;
                }
                ("const", value) => {
                    self.choices.extend(value.as_str());
                    is_closed = true;
                }
                ("$ref" | "anyOf" | "oneOf" | "allOf" | "if", _) => says_more_elsewhere = true,
                _ => {}
            }
        }
        // One branch without a list is enough for text of the caller's own.
        let is_any_type = self.types == 0 && !says_more_elsewhere;
        self.is_open |= !is_closed && (is_any_type || self.types & (STRING | ARRAY | OBJECT) != 0);
        self.types |= earlier;
        values_read
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
