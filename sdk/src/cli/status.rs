//! How this machine stands: which hosts' servers are gated, what is pinned and held, what can't be read.
//!
//! Invariant: what can't be read is listed as such, and nothing is changed or contacted by looking.

use std::collections::BTreeSet;
use std::path::Path;

use clap::Args;
use mcpindex::clients::{Configuration, Entry, Environment, HOSTS, Wiring, configurations};
use mcpindex::pins::{Pins, PublishedPins, ServerKey, published_pins};
use mcpindex_contract::identity::Identity;
use serde::Serialize;

use super::exit::Exit;
use super::output::{Output, Style};
use super::pins::{count, date, moment, name_of, pinned, print_document, since, state, waiting};

#[derive(Args)]
pub(super) struct StatusArguments {
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    schema: &'static str,
    state_directory: String,
    configurations: Vec<ConfigurationPart>,
    /// Servers with pins that no configuration names.
    other_servers: Vec<PinsPart>,
    /// Files among the pins that don't say whose they are.
    strays: Vec<String>,
    published: Vec<PublishedPart>,
    published_problems: Vec<String>,
    notices: Vec<String>,
    next: String,
}

#[derive(Serialize)]
struct ConfigurationPart {
    /// The hosts that read it.
    hosts: Vec<&'static str>,
    path: String,
    /// Why it can't be read; then its servers are not known.
    problem: Option<String>,
    servers: Vec<ServerPart>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerPart {
    name: String,
    line: usize,
    disabled: bool,
    /// `gate`, `published` (the published client's proxy) or `none`.
    gated_by: &'static str,
    /// Of our gate; `null` for another or none.
    posture: Option<String>,
    /// `index`, where our gate obeys the organisation's decisions there.
    #[serde(skip_serializing_if = "Option::is_none")]
    approvals: Option<&'static str>,
    /// `null` where the entry does not say which server it starts.
    identity: Option<String>,
    /// Its original line, without credentials.
    launch: String,
    /// One for each set of credentials that it was seen with.
    pins: Vec<PinsPart>,
}

#[derive(Serialize, Clone)]
#[serde(rename_all = "camelCase")]
struct PinsPart {
    server: String,
    short_id: String,
    context: String,
    /// Why the pins can't be used; every call is held until that is mended.
    problem: Option<String>,
    tools: Option<usize>,
    since: Option<String>,
    waiting: Option<usize>,
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    since_day: Option<String>,
    #[serde(skip)]
    identity: Identity,
}

#[derive(Serialize)]
struct PublishedPart {
    name: String,
    file: String,
    tools: usize,
}

pub(super) fn run(arguments: StatusArguments, output: &mut Output) -> Exit {
    let state = match state() {
        Ok(state) => state,
        Err(mistake) => return mistake.tell(arguments.json, output),
    };
    let mut notices = Vec::new();
    let pins: Vec<PinsPart> = Pins::all(&state)
        .into_iter()
        .map(|(key, mut pins)| {
            let part = pins_part(&key, &mut pins);
            notices.extend(pins.take_notice());
            part
        })
        .collect();
    let found = Environment::from_process().map_or_else(Vec::new, |environment| configurations(&environment));
    let configurations: Vec<ConfigurationPart> = found
        .iter()
        .map(|configuration| configuration_part(configuration, &pins))
        .collect();
    let named: BTreeSet<&str> = configurations
        .iter()
        .flat_map(|configuration| &configuration.servers)
        .filter_map(|server| server.identity.as_deref())
        .collect();
    let other_servers = pins.iter().filter(|pins| !named.contains(pins.server.as_str()));
    let (published, published_problems): (Vec<_>, Vec<_>) =
        published_pins(&state).into_iter().partition(Result::is_ok);
    let strays = Pins::strays(&state);
    let mut status = Status {
        schema: "mcpindex.status/1",
        state_directory: state.path().display().to_string(),
        other_servers: other_servers.cloned().collect(),
        configurations,
        strays: strays.iter().map(|path| shown(path)).collect(),
        published: published.into_iter().flatten().map(published_part).collect(),
        published_problems: published_problems.into_iter().filter_map(Result::err).collect(),
        notices,
        next: String::new(),
    };
    status.next = status.next_step(&pins);
    match arguments.json {
        true => print_document(output, &status),
        false => status.print(output),
    }
    match status.is_whole(&pins) {
        true => Exit::Ok,
        false => Exit::Undetermined,
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn pins_part(key: &ServerKey, pins: &mut Pins) -> PinsPart {
    let record = pins.record();
    let (record, problem) = match &record {
        Ok(record) => (Some(record.as_ref()), None),
        Err(error) => (None, Some(error.to_string())),
    };
    PinsPart {
        server: key.identity.to_string(),
        short_id: key.identity.short_id(),
        context: key.context.to_string(),
        problem,
        tools: record.map(|record| pinned(record).count()),
        since: record.and_then(since).map(moment),
        since_day: record.and_then(since).map(date),
        waiting: record.map(waiting),
        name: name_of(key),
        identity: key.identity.clone(),
    }
}

fn configuration_part(configuration: &Configuration, pins: &[PinsPart]) -> ConfigurationPart {
    let entries = configuration.entries();
    ConfigurationPart {
        hosts: configuration.hosts.clone(),
        path: shown(&configuration.path),
        problem: entries.as_ref().err().map(ToString::to_string),
        servers: entries
            .iter()
            .flatten()
            .map(|entry| server_part(entry, pins))
            .collect(),
    }
}

fn server_part(entry: &Entry, pins: &[PinsPart]) -> ServerPart {
    let (gated_by, posture, obeys) = match &entry.wiring {
        Wiring::Direct => ("none", None, false),
        // Guard is what a gate does that is told nothing else.
        Wiring::Gate { posture, obeys } => (
            "gate",
            Some(posture.clone().unwrap_or_else(|| "guard".to_owned())),
            *obeys,
        ),
        Wiring::Published => ("published", None, false),
    };
    let of_this = pins
        .iter()
        .filter(|pins| Some(&pins.identity) == entry.identity.as_ref());
    ServerPart {
        name: entry.name.clone(),
        line: entry.line,
        disabled: entry.is_disabled,
        gated_by,
        posture,
        approvals: obeys.then_some("index"),
        identity: entry.identity.as_ref().map(ToString::to_string),
        launch: entry.launch.shown(),
        pins: of_this.cloned().collect(),
    }
}

fn published_part(pins: PublishedPins) -> PublishedPart {
    PublishedPart {
        tools: pins.tools.len() + pins.hash_only.len(),
        file: shown(&pins.file),
        name: pins.server_id,
    }
}

impl Status {
    fn is_whole(&self, pins: &[PinsPart]) -> bool {
        self.strays.is_empty()
            && pins.iter().all(|pins| pins.problem.is_none())
            && self
                .configurations
                .iter()
                .all(|configuration| configuration.problem.is_none())
    }

    /// What to do first, in one line.
    fn next_step(&self, pins: &[PinsPart]) -> String {
        let servers = || {
            self.configurations
                .iter()
                .flat_map(|configuration| &configuration.servers)
        };
        let broken = pins.iter().filter(|pins| pins.problem.is_some()).count() + self.strays.len();
        let waiting: usize = pins.iter().filter_map(|pins| pins.waiting).sum();
        let bare = servers()
            .filter(|server| server.gated_by == "none" && !server.disabled)
            .count();
        let published = servers().filter(|server| server.gated_by == "published").count();
        let unreadable = self
            .configurations
            .iter()
            .filter(|configuration| configuration.problem.is_some());
        if broken > 0 {
            "mend the pins named above: until then every call of these servers is held".to_owned()
        } else if waiting > 0 {
            format!(
                "`mcpindex review`: {} for a decision",
                count(waiting, "definition waits", "definitions wait")
            )
        } else if bare > 0 {
            format!(
                "`mcpindex wire` puts the gate in front of {}",
                count(bare, "server that has none", "servers that have none")
            )
        } else if unreadable.count() > 0 {
            "mend the configuration named above; nothing is known of its servers".to_owned()
        } else if servers().next().is_none() && pins.is_empty() {
            "no host's configuration names a server here: `mcpindex gate -- COMMAND` gates one by hand"
                .to_owned()
        } else if published > 0 && published == servers().count() {
            "nothing here; the published client gates these servers".to_owned()
        } else {
            "nothing waits".to_owned()
        }
    }

    fn print(&self, output: &mut Output) {
        for configuration in &self.configurations {
            configuration.print(output);
        }
        if !self.other_servers.is_empty() {
            let heading = match self.configurations.is_empty() {
                true => "servers with pins",
                false => "servers with pins that no configuration here names",
            };
            output.line(Style::Strong, heading);
            for pins in &self.other_servers {
                output.line(pins.style(), &format!("  {}: {}", pins.name, pins.words()));
            }
        }
        for stray in &self.strays {
            let text = format!("`{stray}` does not say whose pins it holds: restore it, or delete it");
            output.line(Style::Alarm, &text);
        }
        if !self.published.is_empty() {
            let tools: usize = self.published.iter().map(|pins| pins.tools).sum();
            let servers = count(self.published.len(), "server", "servers");
            output.line(
                Style::Faint,
                &format!(
                    "the published client has {} of {servers}: `mcpindex pins import NAME SERVER` takes them over",
                    count(tools, "pin", "pins")
                ),
            );
        }
        for problem in &self.published_problems {
            output.line(
                Style::Faint,
                &format!("the published client's pins, skipped: {problem}"),
            );
        }
        for notice in &self.notices {
            output.error(&format!("note: {notice}"));
        }
        output.line(Style::Strong, &format!("next: {}", self.next));
    }
}

impl ConfigurationPart {
    fn print(&self, output: &mut Output) {
        let labels: Vec<&str> = self.hosts.iter().map(|name| label(name)).collect();
        output.line(Style::Strong, &format!("{}  {}", labels.join(", "), self.path));
        if let Some(problem) = &self.problem {
            output.line(Style::Alarm, &format!("  can't be read: {problem}"));
        } else if self.servers.is_empty() {
            output.line(Style::Faint, "  names no server");
        }
        let width = self
            .servers
            .iter()
            .map(|server| server.name.chars().count())
            .max();
        for server in &self.servers {
            server.print(width.unwrap_or(0).min(24), output);
        }
    }
}

impl ServerPart {
    fn print(&self, width: usize, output: &mut Output) {
        let gated = match (self.gated_by, &self.posture) {
            ("gate", Some(posture)) if self.approvals.is_some() => {
                format!("gated, {posture}, obeys the index")
            }
            ("gate", Some(posture)) => format!("gated, {posture}"),
            ("published", _) => "gated by the published client".to_owned(),
            _ => "not gated".to_owned(),
        };
        let disabled = if self.disabled {
            ", switched off in the host"
        } else {
            ""
        };
        let what = self.identity.as_ref().unwrap_or(&self.launch);
        let style = match self.gated_by == "none" && !self.disabled {
            true => Style::Alarm,
            false => Style::Plain,
        };
        output.line(
            style,
            &format!("  {:width$}  {gated}{disabled}  {what}", self.name),
        );
        for pins in &self.pins {
            let context = match self.pins.len() {
                1 => String::new(),
                _ => format!("{}: ", pins.context),
            };
            output.line(
                pins.style(),
                &format!("  {:width$}    {context}{}", "", pins.words()),
            );
        }
        if self.pins.is_empty() && self.gated_by == "gate" {
            let why = match self.identity {
                Some(_) => "nothing pinned yet: the host has not started it since",
                None => "which server it starts can't be said from the file",
            };
            output.line(Style::Faint, &format!("  {:width$}    {why}", ""));
        }
    }
}

impl PinsPart {
    fn style(&self) -> Style {
        match (&self.problem, self.waiting) {
            (Some(_), _) => Style::Alarm,
            (None, Some(0) | None) => Style::Faint,
            (None, Some(_)) => Style::Alarm,
        }
    }

    fn words(&self) -> String {
        if let Some(problem) = &self.problem {
            return problem.clone();
        }
        let tools = count(self.tools.unwrap_or(0), "tool", "tools");
        let since = self
            .since_day
            .as_ref()
            .map_or_else(String::new, |day| format!(" since {day}"));
        let held = match self.waiting.unwrap_or(0) {
            0 => "nothing held".to_owned(),
            waiting => format!("{waiting} held"),
        };
        format!("{tools} pinned{since}, {held}")
    }
}

/// What people call a host.
fn label(name: &str) -> &str {
    HOSTS
        .iter()
        .find(|host| host.name == name)
        .map_or(name, |host| host.label)
}
