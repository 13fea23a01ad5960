//! The edits that put a gate in front of one entry.
//!
//! An edit is as small as it can be: the program's name is replaced, and our words go in front of the arguments that are
//! there; what is behind them never moves. A header's value stays where it is: `headers` is renamed to `env` and each name
//! in it to a variable's, so no credential is copied, kept elsewhere or put on a command line.
//!
//! Invariant: what taking it back needs is in [`Undo`] and in the file; no value of a variable or a header is in an `Undo`.

use std::ops::Range;

use mcpindex_contract::identity::Identity;
use mcpindex_contract::posture::Posture;

use super::document::{Document, Kind, Member, Node};
use super::entry::{
    CommandForm, ENV_NAMES, HEADERS_NAMES, KIND_NAMES, Launch, Site, URL_NAMES, command_form, launch,
    looks_secret, one_of, words,
};
use super::text::{Edit, bare_or_quoted, flow_list, name_of, put_behind, put_in_front, quoted, separator};
use super::undo::Undo;

/// What stands in an entry that is put behind the gate.
#[derive(Clone)]
pub struct GateLine {
    /// The program: an absolute path, or a name that the host finds on its PATH.
    pub program: String,
    /// `--posture`, when it is to be named.
    pub posture: Option<Posture>,
    /// Whether the gate obeys what the organisation decides at its index (`--approvals index`).
    pub obeys: bool,
    /// Whether an address without a credential beside it is wrapped too.
    pub url_entries: bool,
}

/// The edits of one entry, and how each is taken back.
pub(super) struct Change {
    pub(super) edits: Vec<Edit>,
    pub(super) undo: Vec<Undo>,
}

/// Puts the gate in front of an entry. An error says why it is left alone.
pub(super) fn wire(document: &Document, site: &Site<'_>, line: &GateLine) -> Result<Change, String> {
    if let Some((oddity, offset)) = site.node.first_oddity() {
        let (line, _) = document.position(offset);
        return Err(format!(
            "line {line} has {oddity}, which an edit could break: write it out, or wire the entry by hand"
        ));
    }
    if matches!(
        site.node.get("sandboxEnabled").map(|node| &node.kind),
        Some(Kind::Bool(true))
    ) {
        return Err(
            "its host runs it in a sandbox (`sandboxEnabled`), where a gate could not keep its pins"
                .to_owned(),
        );
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
    if line.obeys {
        words.extend(["--approvals", "index"].map(str::to_owned));
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
            "its host may sign in by itself, since no credential stands beside the address \
             (--url-entries wraps it, if it needs none)"
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
