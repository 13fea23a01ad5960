//! The servers that one configuration names: where their maps stand, how each is started, whether a gate is in front of it.
//!
//! Hosts differ in names only (`url`, `serverUrl`, `httpUrl`, `uri`; `env`, `envs`, `environment`), so the shape is told by
//! content and never by the file's name.
//!
//! Invariant: an entry that can't be understood is listed with the reason; none is dropped.

use std::path::Path;

use mcpindex_contract::identity::Identity;

use super::document::{Document, Fault, Kind, Member, Node, repeated_name};

const COMMAND_NAMES: [&str; 2] = ["command", "cmd"];
pub(super) const URL_NAMES: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];
pub(super) const HEADERS_NAMES: [&str; 2] = ["headers", "http_headers"];
pub(super) const ENV_NAMES: [&str; 3] = ["env", "envs", "environment"];
pub(super) const KIND_NAMES: [&str; 2] = ["type", "transport"];

/// What stands where a credential stood.
pub(super) const SECRET: &str = "<secret>";

/// How a host starts or reaches a server.
///
/// Arguments may hold credentials, so this has no `Debug`; [`Launch::shown`] is the form for people.
#[derive(Clone, PartialEq, Eq)]
pub enum Launch {
    /// The program and its arguments, never empty. A `command` that holds a whole line is taken apart.
    Command(Vec<String>),
    /// The address, as written.
    Url(String),
    /// Neither, and why.
    Other(String),
}

impl Launch {
    /// One line for people, without credentials.
    pub fn shown(&self) -> String {
        match self {
            Launch::Command(argv) => argv
                .split_first()
                .map(|(program, args)| {
                    let args = without_secrets(args);
                    [vec![program.clone()], args].concat().join(" ")
                })
                .unwrap_or_default(),
            Launch::Url(url) => shown_url(url),
            Launch::Other(reason) => reason.clone(),
        }
    }
}

/// Whether something stands in front of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wiring {
    /// The host starts the server itself.
    Direct,
    /// Our gate does, under this posture when the entry names one.
    Gate {
        /// What `--posture` says.
        posture: Option<String>,
        /// Whether it obeys the organisation's index (`--approvals index`).
        obeys: bool,
    },
    /// The published client's proxy does; it also keeps the pins.
    Published,
}

/// One server of one configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the host calls it.
    pub name: String,
    /// The names that lead to it from the top of the file.
    pub path: Vec<String>,
    /// The line of the file on which it stands, from 1.
    pub line: usize,
    /// The original line: for a wired entry what stands behind the gate.
    pub launch: Launch,
    /// Whether the host is told not to start it.
    pub is_disabled: bool,
    /// See [`Wiring`].
    pub wiring: Wiring,
    /// Which server the original line starts; `None` when that can't be said from the file alone.
    pub identity: Option<Identity>,
}

/// An entry's place in the tree.
#[derive(Clone)]
pub(super) struct Site<'a> {
    pub(super) name: String,
    pub(super) path: Vec<String>,
    pub(super) node: &'a Node,
    pub(super) offset: usize,
}

/// Every place where the document names a server. A name that stands twice is a fault: which one the host takes can't be known.
pub(super) fn sites(document: &Document) -> Result<Vec<Site<'_>>, Fault> {
    let Some(root) = &document.root else {
        return Ok(Vec::new());
    };
    let Some(members) = root.members() else {
        return Err(Fault {
            offset: root.span.start,
            problem: "expected a map of settings at the top".to_owned(),
        });
    };
    let mut found = Vec::new();
    for member in members {
        let here = vec![member.name.clone()];
        match member.name.as_str() {
            "mcpServers" | "servers" | "context_servers" | "mcp_servers" | "amp.mcpServers"
            | "mcp.servers" => {
                servers(here, &member.value, &mut found)?;
            }
            // Goose's; other hosts call other things so, and those have no launch line.
            "extensions" if has_launch_lines(&member.value) => servers(here, &member.value, &mut found)?,
            "mcp" => of_mcp(&here, &member.value, &mut found)?,
            "projects" => of_projects(&here, &member.value, &mut found)?,
            _ => continue,
        }
        if let Some((name, offset)) = repeated_name(members).filter(|(name, _)| *name == member.name) {
            return Err(twice(name, offset));
        }
    }
    Ok(found)
}

fn has_launch_lines(node: &Node) -> bool {
    node.members().is_some_and(|members| {
        members.iter().any(|member| {
            let has = |names: &[&str]| names.iter().any(|name| member.value.get(name).is_some());
            has(&COMMAND_NAMES) || has(&["uri"])
        })
    })
}

/// VS Code's older form has `servers` below it, OpenCode its servers themselves, Gemini lists of names.
fn of_mcp<'a>(path: &[String], node: &'a Node, found: &mut Vec<Site<'a>>) -> Result<(), Fault> {
    let Some(members) = node.members() else {
        return Ok(());
    };
    let holds_maps = |node: &&Node| {
        node.members()
            .is_none_or(|members| members.iter().all(|member| member.value.is_map()))
    };
    if let Some(inner) = node.get("servers").filter(holds_maps) {
        if let Some((name, offset)) = repeated_name(members) {
            return Err(twice(name, offset));
        }
        return servers([path, &["servers".to_owned()]].concat(), inner, found);
    }
    let is_server = |member: &Member| {
        matches!(
            member.value.get("type").and_then(Node::text),
            Some("local" | "remote")
        ) || COMMAND_NAMES.iter().any(|name| member.value.get(name).is_some())
    };
    if members.iter().any(is_server) {
        servers(path.to_vec(), node, found)?;
    }
    Ok(())
}

fn of_projects<'a>(path: &[String], node: &'a Node, found: &mut Vec<Site<'a>>) -> Result<(), Fault> {
    let Some(projects) = node.members() else {
        return Ok(());
    };
    let before = found.len();
    for project in projects {
        if let Some(inner) = project.value.get("mcpServers") {
            let path = [path, &[project.name.clone(), "mcpServers".to_owned()]].concat();
            servers(path, inner, found)?;
        }
    }
    match repeated_name(projects) {
        Some((name, offset)) if found.len() > before => Err(twice(name, offset)),
        _ => Ok(()),
    }
}

fn servers<'a>(path: Vec<String>, node: &'a Node, found: &mut Vec<Site<'a>>) -> Result<(), Fault> {
    match &node.kind {
        Kind::Map(_, members) => {
            if let Some((name, offset)) = node.repeated() {
                return Err(twice(name, offset));
            }
            found.extend(members.iter().map(|member| Site {
                name: member.name.clone(),
                path: [path.as_slice(), std::slice::from_ref(&member.name)].concat(),
                node: &member.value,
                offset: member.name_span.start,
            }));
        }
        Kind::List(_, elements) => {
            if let Some((name, offset)) = node.repeated() {
                return Err(twice(name, offset));
            }
            let mut names = std::collections::BTreeSet::new();
            for (index, element) in elements.iter().enumerate() {
                let name = element.get("name").and_then(Node::text);
                if name.is_some_and(|name| !names.insert(name)) {
                    return Err(twice(name.unwrap_or_default(), element.span.start));
                }
                let name = name.map_or_else(|| format!("#{}", index + 1), str::to_owned);
                found.push(Site {
                    path: [path.as_slice(), std::slice::from_ref(&name)].concat(),
                    name,
                    node: element,
                    offset: element.span.start,
                });
            }
        }
        // A file that was begun and not filled in.
        Kind::Other => {}
        Kind::Text(_) | Kind::Bool(_) => {
            return Err(Fault {
                offset: node.span.start,
                problem: format!("expected servers under `{}`", path.join(".")),
            });
        }
    }
    Ok(())
}

fn twice(name: &str, offset: usize) -> Fault {
    Fault {
        offset,
        problem: format!("`{name}` stands here for the second time, and hosts differ in which one they take"),
    }
}

/// What the file says of one server.
pub(super) fn read(document: &Document, site: &Site<'_>) -> Entry {
    let written = launch(site.node);
    let (launch, wiring) = match &written {
        _ if is_published(site.node) => (written.clone(), Wiring::Published),
        Launch::Command(argv) => match behind_the_gate(argv) {
            Some((original, wiring)) => (original, wiring),
            None => (written.clone(), Wiring::Direct),
        },
        _ => (written.clone(), Wiring::Direct),
    };
    Entry {
        name: site.name.clone(),
        path: site.path.clone(),
        line: document.position(site.offset).0,
        identity: identity(&launch).filter(|_| wiring != Wiring::Published),
        launch,
        is_disabled: is_disabled(site.node),
        wiring,
    }
}

fn identity(launch: &Launch) -> Option<Identity> {
    match launch {
        Launch::Command(argv) => Some(Identity::from_launch(argv).ok()?.identity),
        Launch::Url(url) => Identity::from_url(url).ok(),
        Launch::Other(_) => None,
    }
}

fn is_disabled(node: &Node) -> bool {
    let flag = |name: &str| match node.get(name).map(|node| &node.kind) {
        Some(Kind::Bool(flag)) => Some(*flag),
        _ => None,
    };
    flag("disabled") == Some(true) || flag("enabled") == Some(false)
}

/// The published client leaves a member of its own, or its proxy's name in the arguments.
fn is_published(node: &Node) -> bool {
    let arguments = node.get("args").and_then(Node::texts).unwrap_or_default();
    node.get("_mcpindexWired").is_some()
        || arguments
            .iter()
            .any(|argument| argument == "mcpindex-proxy" || argument == "--mcpindex-stdio")
}

/// The member of a map that has one of these names.
pub(super) fn one_of<'a>(node: &'a Node, names: &[&str]) -> Option<&'a Member> {
    names.iter().find_map(|name| node.member(name))
}

/// How a command is written down.
pub(super) enum CommandForm<'a> {
    /// `"command": "npx"` or a whole line, beside `args` if there are any.
    Line {
        program: &'a Member,
        args: Option<&'a Member>,
    },
    /// `"command": ["npx", "-y", "x"]`
    List(&'a Member),
    /// `"command": {"path": "npx", "args": […]}`
    Nested {
        command: &'a Member,
        program: &'a Member,
        args: Option<&'a Member>,
    },
}

pub(super) fn command_form(node: &Node) -> Option<CommandForm<'_>> {
    let command = one_of(node, &COMMAND_NAMES)?;
    Some(match &command.value.kind {
        Kind::Text(_) => CommandForm::Line {
            program: command,
            args: node.member("args"),
        },
        Kind::List(..) => CommandForm::List(command),
        Kind::Map(..) => CommandForm::Nested {
            command,
            program: command.value.member("path")?,
            args: command.value.member("args"),
        },
        _ => return None,
    })
}

/// The line as written, the gate's included.
pub(super) fn launch(node: &Node) -> Launch {
    let other = |reason: &str| Launch::Other(reason.to_owned());
    if !node.is_map() {
        return other("the entry is no map");
    }
    let url = one_of(node, &URL_NAMES);
    let Some(command) = one_of(node, &COMMAND_NAMES) else {
        return match url.map(|url| url.value.text()) {
            Some(Some(url)) => Launch::Url(url.to_owned()),
            Some(None) => other("its address is no text"),
            None => match node.get("source").and_then(Node::text) {
                Some("extension") => other("an extension of the host starts it"),
                _ => other("it has neither a command nor an address"),
            },
        };
    };
    if url.is_some() {
        return other("it has both a command and an address");
    }
    let (program, args) = match command_form(node) {
        Some(CommandForm::List(list)) => {
            return match list.value.texts() {
                Some(argv) if argv.first().is_some_and(|program| !program.trim().is_empty()) => {
                    Launch::Command(argv)
                }
                _ => other("its command is empty or holds something that is no text"),
            };
        }
        Some(CommandForm::Line { program, args } | CommandForm::Nested { program, args, .. }) => {
            (program, args)
        }
        None => return other(&format!("its `{}` is no text", command.name)),
    };
    let Some(program) = program.value.text() else {
        return other("its command is no text");
    };
    let args = match args.map(|args| args.value.texts()) {
        None => Vec::new(),
        Some(Some(args)) => args,
        Some(None) => return other("its `args` is no list of texts"),
    };
    let words = words(program);
    if words.is_empty() {
        return other("its command is empty");
    }
    Launch::Command([words, args].concat())
}

/// A `command` as program and arguments: a whole line is taken apart at its spaces, a path that has spaces is not.
///
/// The longest beginning that is a file is the program, as Windows has it too. When none is, only a line that begins with
/// a bare name (`npx -y x`) is taken apart: a path that doesn't exist here may have its spaces.
pub(super) fn words(command: &str) -> Vec<String> {
    let whole = || vec![command.to_owned()];
    let command_line = command.trim();
    if command_line.is_empty() {
        return Vec::new();
    }
    if !command_line.contains(char::is_whitespace) || Path::new(command_line).exists() {
        return whole();
    }
    let existing = command_line
        .char_indices()
        .rev()
        .filter(|(_, character)| character.is_whitespace())
        .find(|(index, _)| {
            let path = Path::new(&command_line[..*index]);
            path.is_absolute() && path.is_file()
        });
    let (program, rest) = match existing {
        Some((index, _)) => command_line.split_at(index),
        None => {
            let first = command_line.split_whitespace().next().unwrap_or_default();
            if first.contains(['/', '\\', '"', '\'']) {
                return whole();
            }
            command_line.split_at(first.len())
        }
    };
    match quoted_words(rest) {
        Some(rest) => [vec![program.to_owned()], rest].concat(),
        None => whole(),
    }
}

/// Words between spaces, quotes keeping spaces; `None` when a quote is left open.
fn quoted_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match quote {
            Some(end) if character == end => quote = None,
            Some(_) => word.get_or_insert_default().push(character),
            None if character == '"' || character == '\'' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// What stands behind the gate, if the line starts one: `mcpindex gate … -- COMMAND` or `mcpindex gate … --url URL`.
/// A program of another name counts when its arguments are those that we write.
pub(super) fn behind_the_gate(argv: &[String]) -> Option<(Launch, Wiring)> {
    let (program, args) = argv.split_first()?;
    let (first, options) = args.split_first()?;
    let base = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_ours = base.eq_ignore_ascii_case("mcpindex")
        || base.eq_ignore_ascii_case("mcpindex.exe")
        || options
            .first()
            .is_some_and(|option| option == "--server" || option.starts_with("--server="));
    if first != "gate" || !is_ours {
        return None;
    }
    let end = options.iter().position(|option| option == "--");
    let own = &options[..end.unwrap_or(options.len())];
    let wiring = Wiring::Gate {
        posture: option_value(own, "--posture"),
        obeys: option_value(own, "--approvals").is_some(),
    };
    let original = match end.map(|end| &options[end + 1..]) {
        Some([]) => return None,
        Some(command) => Launch::Command(command.to_vec()),
        None => Launch::Url(option_value(own, "--url")?),
    };
    Some((original, wiring))
}

fn option_value(options: &[String], name: &str) -> Option<String> {
    options.iter().enumerate().find_map(|(index, option)| {
        if option == name {
            return options.get(index + 1).cloned();
        }
        option
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
            .map(str::to_owned)
    })
}

/// The arguments as identities show them, each credential replaced.
pub(super) fn without_secrets(args: &[String]) -> Vec<String> {
    // The command form shows its arguments; a program that is no package runner gives it.
    let line = [&["-".to_owned()], args].concat();
    match Identity::from_launch(&line) {
        Ok(launched) => match launched.identity {
            Identity::Command { args, .. } => args,
            _ => vec![SECRET.to_owned(); args.len()],
        },
        Err(_) => vec![SECRET.to_owned(); args.len()],
    }
}

/// Whether a text looks as if it held a credential.
pub(super) fn looks_secret(text: &str) -> bool {
    without_secrets(&[text.to_owned()]) != [text]
}

fn shown_url(url: &str) -> String {
    if looks_secret(url) {
        let until_query = url.split(['?', '#']).next().unwrap_or_default();
        if looks_secret(until_query) {
            return SECRET.to_owned();
        }
        return format!("{until_query}?{SECRET}");
    }
    url.to_owned()
}
