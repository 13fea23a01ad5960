//! The edits that put a gate in front of one entry, and those that take it away again.
//!
//! An edit is as small as it can be: the program's name is replaced, and our words go in front of the arguments that are
//! there; what is behind them never moves. A header's value stays where it is: `headers` is renamed to `env` and each name
//! in it to a variable's, so no credential is copied, kept elsewhere or put on a command line.
//!
//! Invariant: what [`unwire`] needs is in [`Undo`] and in the file; no value of a variable or a header is in an `Undo`.

use std::ops::Range;

use mcpindex_contract::identity::Identity;
use mcpindex_contract::posture::Posture;
use serde::{Deserialize, Serialize};

use super::document::{Document, Format, Layout, Member, Node};
use super::entry::{
    CommandForm, ENV_NAMES, HEADERS_NAMES, KIND_NAMES, Launch, Site, URL_NAMES, command_form, launch,
    looks_secret, one_of, words,
};

/// What stands in an entry that is put behind the gate.
#[derive(Clone)]
pub struct GateLine {
    /// The program: an absolute path, or a name that the host finds on its PATH.
    pub program: String,
    /// `--posture`, when it is to be named.
    pub posture: Option<Posture>,
    /// Whether an address without a credential beside it is wrapped too.
    pub url_entries: bool,
}

/// One replacement in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) span: Range<usize>,
    pub(super) text: String,
}

/// How one edit is taken back. Names are those of the wired entry, from the entry on; texts are as they stood in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Undo {
    /// The value at this place was written so.
    Value { at: Vec<String>, was: String },
    /// The list at this place began behind our `--` and these words.
    Front {
        at: Vec<String>,
        words: Vec<String>,
        /// What it was if it held nothing.
        empty: Option<String>,
    },
    /// The list at this place, which ends with our `--` and these words, was not there.
    Added { at: Vec<String>, words: Vec<String> },
    /// The members from the first name to the last, which follow each other, stand for this one.
    Members {
        first: String,
        last: String,
        was: String,
    },
    /// The member of this name was called so.
    Name {
        within: Vec<String>,
        now: String,
        was: String,
    },
}

/// The edits of one entry, and how each is taken back.
pub(super) struct Change {
    pub(super) edits: Vec<Edit>,
    pub(super) undo: Vec<Undo>,
}

/// The text with all edits made. They don't overlap.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.span.start);
    let mut result = String::with_capacity(text.len() + 256);
    let mut done = 0;
    for edit in edits {
        result.push_str(text.get(done..edit.span.start).unwrap_or_default());
        result.push_str(&edit.text);
        done = edit.span.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    result
}

/// Puts the gate in front of an entry. An error says why it is left alone.
pub(super) fn wire(document: &Document, site: &Site<'_>, line: &GateLine) -> Result<Change, String> {
    if let Some((oddity, offset)) = site.node.first_oddity() {
        let (line, _) = document.position(offset);
        return Err(format!(
            "line {line} has {oddity}, which an edit could break: write it out, or wire the entry by hand"
        ));
    }
    match launch(site.node) {
        Launch::Other(reason) => Err(reason),
        Launch::Command(_) => wire_command(document, site, line),
        Launch::Url(url) => wire_url(document, site, line, &url),
    }
}

fn wire_command(document: &Document, site: &Site<'_>, line: &GateLine) -> Result<Change, String> {
    let form = command_form(site.node).ok_or("its command is no text")?;
    let mut front = gate_words(site, line);
    front.push("--".to_owned());
    let (program, args, within, map) = match form {
        CommandForm::List(list) => {
            let at = vec![list.name.clone()];
            let front = [vec![line.program.clone()], front].concat();
            let edit = put_in_front(document, &list.value, &front);
            let undo = Undo::Front {
                at,
                words: Vec::new(),
                empty: None,
            };
            return Ok(Change {
                edits: vec![edit],
                undo: vec![undo],
            });
        }
        CommandForm::Line { program, args } => (program, args, Vec::new(), site.node),
        CommandForm::Nested {
            command,
            program,
            args,
        } => (program, args, vec![command.name.clone()], &command.value),
    };
    let original = words(program.value.text().unwrap_or_default());
    front.extend(original.iter().cloned());
    let place = |name: &str| [within.clone(), vec![name.to_owned()]].concat();
    let replace_program = Edit {
        span: program.value.span.clone(),
        text: quoted(&line.program),
    };
    let (put_args, undo_args) = match args {
        Some(args) => {
            let is_empty = args.value.elements().is_some_and(<[Node]>::is_empty);
            let undo = Undo::Front {
                at: place("args"),
                words: original,
                empty: is_empty.then(|| document.slice(&args.value.span).to_owned()),
            };
            (put_in_front(document, &args.value, &front), undo)
        }
        None => {
            let text = format!("{}{}", name_of(document.format, "args"), flow_list(&front));
            let undo = Undo::Added {
                at: place("args"),
                words: original,
            };
            (put_behind(document, map, program, &text), undo)
        }
    };
    Ok(Change {
        edits: vec![replace_program, put_args],
        undo: vec![
            Undo::Value {
                at: place(&program.name),
                was: document.slice(&program.value.span).to_owned(),
            },
            undo_args,
        ],
    })
}

/// `gate --server NAME` and the options.
fn gate_words(site: &Site<'_>, line: &GateLine) -> Vec<String> {
    let mut words = vec!["gate".to_owned()];
    if site.name.starts_with('-') {
        words.push(format!("--server={}", site.name));
    } else {
        words.extend(["--server".to_owned(), site.name.clone()]);
    }
    if let Some(posture) = line.posture {
        words.extend(["--posture".to_owned(), posture.name().to_owned()]);
    }
    words
}

/// Members by which a host is told how to sign in by itself.
const SIGN_IN_NAMES: [&str; 9] = [
    "oauth",
    "auth",
    "authentication",
    "authProviderType",
    "oauth_resource",
    "scopes",
    "requestOptions",
    "env_http_headers",
    "api_key_env",
];

fn wire_url(document: &Document, site: &Site<'_>, line: &GateLine, url: &str) -> Result<Change, String> {
    if let Some(member) = one_of(site.node, &SIGN_IN_NAMES) {
        return Err(format!(
            "its host signs in by itself (`{}`), and a gate in between could not",
            member.name
        ));
    }
    let filled_in = url.contains("${") || url.contains("{{");
    if !filled_in && Identity::from_url(url).is_err() {
        return Err("its address is no http or https URL".to_owned());
    }
    if looks_secret(url) {
        return Err(
            "its address holds what looks like a credential, which on a command line every user of this machine could read: \
             put it in a header, if the server takes one"
                .to_owned(),
        );
    }
    let headers = one_of(site.node, &HEADERS_NAMES);
    let names = headers.map(header_names).transpose()?.unwrap_or_default();
    let bearer = site.node.member("bearer_token_env_var");
    if !line.url_entries && bearer.is_none() && !names.iter().any(|name| names_credential(name)) {
        return Err(
            "its host may sign in by itself, since no credential stands beside the address: \
             --url-entries wraps it, if it needs none"
                .to_owned(),
        );
    }
    if let Some(env) = one_of(site.node, &ENV_NAMES).filter(|_| headers.is_some()) {
        return Err(format!(
            "it has both `{}` and headers, and the headers would have to become variables",
            env.name
        ));
    }
    if bearer.is_some() && site.node.member("env_vars").is_some() {
        return Err("it has both `env_vars` and `bearer_token_env_var`".to_owned());
    }

    let address = one_of(site.node, &URL_NAMES).ok_or("it has no address")?;
    let words_for = UrlWords::of(site.node, address);
    let mut gate = gate_words(site, line);
    gate.extend(["--url".to_owned(), url.to_owned()]);
    let mut change = Change {
        edits: Vec::new(),
        undo: Vec::new(),
    };
    if let Some(headers) = headers {
        let variables = rename_headers(document, headers, &names, words_for.env, &mut change);
        for (name, variable) in names.iter().zip(variables) {
            gate.extend(["--header-env".to_owned(), format!("{name}={variable}")]);
        }
    }
    if let Some(bearer) = bearer {
        let variable = bearer
            .value
            .text()
            .ok_or("its `bearer_token_env_var` is no text")?
            .to_owned();
        change.edits.push(Edit {
            span: bearer.name_span.start..bearer.value.span.end,
            text: format!(
                "{}{}",
                name_of(document.format, "env_vars"),
                flow_list(std::slice::from_ref(&variable))
            ),
        });
        change.undo.push(Undo::Members {
            first: "env_vars".to_owned(),
            last: "env_vars".to_owned(),
            was: document
                .slice(&(bearer.name_span.start..bearer.value.span.end))
                .to_owned(),
        });
        gate.extend(["--bearer-env".to_owned(), variable]);
    }
    if let Some(kind) = one_of(site.node, &KIND_NAMES).filter(|kind| kind.value.text().is_some()) {
        change.edits.push(Edit {
            span: kind.value.span.clone(),
            text: quoted(words_for.kind),
        });
        change.undo.push(Undo::Value {
            at: vec![kind.name.clone()],
            was: document.slice(&kind.value.span).to_owned(),
        });
    }
    let span = address.name_span.start..address.value.span.end;
    let (text, last) = if words_for.is_one_list {
        let line = [vec![line.program.clone()], gate].concat();
        let text = format!(
            "{}{}",
            name_of(document.format, words_for.command),
            flow_list(&line)
        );
        (text, words_for.command)
    } else {
        let command = format!(
            "{}{}",
            name_of(document.format, words_for.command),
            quoted(&line.program)
        );
        let args = format!("{}{}", name_of(document.format, "args"), flow_list(&gate));
        let separator = separator(document, site.node.layout(), address.name_span.start);
        (format!("{command}{separator}{args}"), "args")
    };
    change.undo.push(Undo::Members {
        first: words_for.command.to_owned(),
        last: last.to_owned(),
        was: document.slice(&span).to_owned(),
    });
    change.edits.push(Edit { span, text });
    Ok(change)
}

/// What a host calls the parts of an entry with a command.
struct UrlWords {
    command: &'static str,
    env: &'static str,
    kind: &'static str,
    is_one_list: bool,
}

impl UrlWords {
    fn of(node: &Node, address: &Member) -> UrlWords {
        let is_opencode = node.get("type").and_then(Node::text) == Some("remote");
        match address.name.as_str() {
            _ if is_opencode => UrlWords {
                command: "command",
                env: "environment",
                kind: "local",
                is_one_list: true,
            },
            // Goose's.
            "uri" => UrlWords {
                command: "cmd",
                env: "envs",
                kind: "stdio",
                is_one_list: false,
            },
            _ => UrlWords {
                command: "command",
                env: "env",
                kind: "stdio",
                is_one_list: false,
            },
        }
    }
}

fn header_names(headers: &Member) -> Result<Vec<String>, String> {
    let members = headers
        .value
        .members()
        .ok_or_else(|| format!("its `{}` is no map", headers.name))?;
    members
        .iter()
        .map(|member| {
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if member.value.text().is_none() {
                return Err(format!("its header `{}` is no text", member.name));
            }
            if member.name.is_empty() || !member.name.bytes().all(is_token) {
                return Err(format!("`{}` is no name of a header", member.name));
            }
            Ok(member.name.clone())
        })
        .collect()
}

fn names_credential(name: &str) -> bool {
    looks_secret(&format!("{name}: x"))
}

/// `headers` becomes `env`, and each header in it a variable; the values stay where they are.
fn rename_headers(
    document: &Document,
    headers: &Member,
    names: &[String],
    env: &str,
    change: &mut Change,
) -> Vec<String> {
    let mut rename = |within: Vec<String>, span: &Range<usize>, now: &str| {
        change.edits.push(Edit {
            span: span.clone(),
            text: bare_or_quoted(document.format, now),
        });
        change.undo.push(Undo::Name {
            within,
            now: now.to_owned(),
            was: document.slice(span).to_owned(),
        });
    };
    rename(Vec::new(), &headers.name_span, env);
    let mut variables: Vec<String> = Vec::new();
    let members = headers.value.members().unwrap_or_default();
    for (member, name) in members.iter().zip(names) {
        let variable = variable_name(name, &variables);
        rename(vec![env.to_owned()], &member.name_span, &variable);
        variables.push(variable);
    }
    variables
}

fn variable_name(header: &str, taken: &[String]) -> String {
    let upper: String = header
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect();
    let name = format!("MCPINDEX_HEADER_{upper}");
    if !taken.contains(&name) {
        return name;
    }
    (2..)
        .map(|number| format!("{name}_{number}"))
        .find(|name| !taken.contains(name))
        .unwrap_or(name)
}

/// A text in double quotes, written so that JSON, TOML and YAML all read it back.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.chars()
        .map(|character| match character {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                format!("\\u{:04x}", u32::from(character))
            }
            _ => character.to_string(),
        })
        .collect()
}

fn bare_or_quoted(format: Format, name: &str) -> String {
    match format {
        Format::Json => quoted(name),
        Format::Toml | Format::Yaml => name.to_owned(),
    }
}

fn name_of(format: Format, name: &str) -> String {
    match format {
        Format::Json => format!("{}: ", quoted(name)),
        Format::Toml => format!("{name} = "),
        Format::Yaml => format!("{name}: "),
    }
}

fn flow_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// The words as the first elements of a list, in the list's own style.
fn put_in_front(document: &Document, list: &Node, words: &[String]) -> Edit {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let elements = list.elements().unwrap_or_default();
    let Some(first) = elements.first() else {
        let inside = list.span.start + 1;
        return Edit {
            span: inside..inside,
            text: words.join(", "),
        };
    };
    let start = element_start(document, list.layout(), first);
    let text = match (list.layout(), line_start_of(document, start)) {
        (Layout::Block, _) => {
            let next = format!("{}- ", new_line_with(document, column_indent(document, start)));
            format!("- {}{}", words.join(&next), next.trim_end_matches("- "))
        }
        (Layout::Flow, Some(indent)) => {
            let next = format!(",{}", new_line_with(document, indent.to_owned()));
            format!("{}{next}", words.join(&next))
        }
        (Layout::Flow, None) => format!("{}, ", words.join(", ")),
    };
    Edit {
        span: start..start,
        text,
    }
}

/// Where an element begins: in a block, at its dash.
fn element_start(document: &Document, layout: Layout, element: &Node) -> usize {
    match layout {
        Layout::Flow => element.span.start,
        Layout::Block => document
            .slice(&(0..element.span.start))
            .rfind('-')
            .unwrap_or(element.span.start),
    }
}

/// A further member right behind `before`, which stands in `map`.
fn put_behind(document: &Document, map: &Node, before: &Member, text: &str) -> Edit {
    let separator = separator(document, map.layout(), before.name_span.start);
    let at = match map.layout() {
        Layout::Flow => before.value.span.end,
        // A comment may stand behind the value.
        Layout::Block => line_end(document, before.value.span.end),
    };
    Edit {
        span: at..at,
        text: format!("{separator}{text}"),
    }
}

/// What stands between two members of a map, the first of which begins at `start`.
fn separator(document: &Document, layout: Layout, start: usize) -> String {
    match (layout, line_start_of(document, start)) {
        (Layout::Block, Some(indent)) => new_line_with(document, indent.to_owned()),
        (Layout::Block, None) => new_line_with(document, column_indent(document, start)),
        (Layout::Flow, Some(indent)) => format!(",{}", new_line_with(document, indent.to_owned())),
        (Layout::Flow, None) => ", ".to_owned(),
    }
}

/// The white space before `offset` if there is nothing else on its line.
fn line_start_of(document: &Document, offset: usize) -> Option<&str> {
    let before = document.slice(&(0..offset));
    let start = before.rfind('\n')? + 1;
    let indent = &before[start..];
    indent
        .chars()
        .all(|character| character == ' ' || character == '\t')
        .then_some(indent)
}

/// As many spaces as there are characters before `offset` on its line.
fn column_indent(document: &Document, offset: usize) -> String {
    let (_, column) = document.position(offset);
    " ".repeat(column - 1)
}

/// A line end as the file has them, and the indent of the next line.
fn new_line_with(document: &Document, indent: String) -> String {
    let end = match document.text.find('\n') {
        Some(index) if document.text[..index].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    format!("{end}{indent}")
}

fn line_end(document: &Document, offset: usize) -> usize {
    let after = document.text.get(offset..).unwrap_or_default();
    let length = after.find('\n').unwrap_or(after.len());
    let line = &after[..length];
    offset + line.strip_suffix('\r').unwrap_or(line).len()
}

/// Takes the gate away from an entry. An error says what is not as we left it.
pub(super) fn unwire(document: &Document, entry: &Node, undo: &[Undo]) -> Result<Vec<Edit>, String> {
    undo.iter().map(|undo| take_back(document, entry, undo)).collect()
}

fn take_back(document: &Document, entry: &Node, undo: &Undo) -> Result<Edit, String> {
    let missing = |name: &str| format!("its `{name}` is gone");
    match undo {
        Undo::Value { at, was } => {
            let value = entry.at(at).ok_or_else(|| missing(&at.join(".")))?;
            Ok(Edit {
                span: value.span.clone(),
                text: was.clone(),
            })
        }
        Undo::Front { at, words, empty } => {
            let list = entry.at(at).ok_or_else(|| missing(&at.join(".")))?;
            let count = our_part(list, words)?;
            let elements = list.elements().unwrap_or_default();
            let (Some(first), Some(last)) = (elements.first(), elements.last()) else {
                return Err(missing("args"));
            };
            match (elements.get(count), empty) {
                (Some(next), _) => Ok(Edit {
                    span: element_start(document, list.layout(), first)
                        ..element_start(document, list.layout(), next),
                    text: String::new(),
                }),
                (None, Some(empty)) => Ok(Edit {
                    span: list.span.clone(),
                    text: empty.clone(),
                }),
                (None, None) if list.layout() == Layout::Flow => Ok(Edit {
                    span: first.span.start..last.span.end,
                    text: String::new(),
                }),
                (None, None) => Err("its arguments are gone".to_owned()),
            }
        }
        Undo::Added { at, words } => {
            let list = entry.at(at).ok_or_else(|| missing(&at.join(".")))?;
            let count = our_part(list, words)?;
            if list.elements().is_some_and(|elements| elements.len() > count) {
                let at = at.clone();
                let words = words.clone();
                return take_back(
                    document,
                    entry,
                    &Undo::Front {
                        at,
                        words,
                        empty: None,
                    },
                );
            }
            remove_member(document, entry, at)
        }
        Undo::Members { first, last, was } => {
            let members = entry.members().unwrap_or_default();
            let at = |name: &str| members.iter().position(|member| member.name == name);
            let (Some(start), Some(end)) = (at(first), at(last)) else {
                return Err(missing(last));
            };
            let follows = end == start || end == start + 1;
            let (Some(first), Some(last)) = (members.get(start), members.get(end).filter(|_| follows)) else {
                return Err(format!("its `{last}` does not follow its `{first}` any more"));
            };
            Ok(Edit {
                span: first.name_span.start..last.value.span.end,
                text: was.clone(),
            })
        }
        Undo::Name { within, now, was } => {
            let member = entry
                .at(within)
                .and_then(|node| node.member(now))
                .ok_or_else(|| missing(now))?;
            Ok(Edit {
                span: member.name_span.clone(),
                text: was.clone(),
            })
        }
    }
}

/// How many elements of the list are ours: all to the `--`, and the words behind it that were the command.
fn our_part(list: &Node, words: &[String]) -> Result<usize, String> {
    let elements = list.elements().ok_or("its arguments are no list any more")?;
    let text = |index: usize| elements.get(index).and_then(Node::text);
    let end = (0..elements.len())
        .find(|index| text(*index) == Some("--"))
        .ok_or("there is no `--` among its arguments any more")?;
    let is_original = words
        .iter()
        .enumerate()
        .all(|(index, word)| text(end + 1 + index) == Some(word));
    if is_original {
        Ok(end + 1 + words.len())
    } else {
        Err("the command behind its `--` is another one than it was".to_owned())
    }
}

fn remove_member(document: &Document, entry: &Node, at: &[String]) -> Result<Edit, String> {
    let (name, within) = at.split_last().ok_or("its arguments are gone")?;
    let map = entry.at(within).ok_or("its arguments are gone")?;
    let members = map.members().unwrap_or_default();
    let index = members
        .iter()
        .position(|member| member.name == *name)
        .ok_or("its arguments are gone")?;
    let member = &members[index];
    let start = match map.layout() {
        Layout::Block => {
            let indent = line_start_of(document, member.name_span.start)
                .ok_or("its arguments stand first in a list's element")?;
            let before = document.slice(&(0..member.name_span.start - indent.len()));
            let before = before.strip_suffix('\n').unwrap_or(before);
            before.strip_suffix('\r').unwrap_or(before).len()
        }
        Layout::Flow => match index.checked_sub(1).and_then(|index| members.get(index)) {
            Some(previous) => previous.value.span.end,
            None => {
                let end = members
                    .get(index + 1)
                    .map_or(member.value.span.end, |next| next.name_span.start);
                return Ok(Edit {
                    span: member.name_span.start..end,
                    text: String::new(),
                });
            }
        },
    };
    Ok(Edit {
        span: start..member.value.span.end,
        text: String::new(),
    })
}
