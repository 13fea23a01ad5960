//! What `wire` and `unwire` say: text for people, or one document.
//!
//! Invariant: of a configuration only what [`Rewrite::shown`] lets through is printed.

use std::path::Path;

use mcpindex::clients::{ConfigFile, Entry, Fate, HOSTS, Launch, Record, Rewrite, Unreadable};
use mcpindex::state::StateDirectory;
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::super::exit::Exit;
use super::super::output::{Output, Style};
use super::Way;

/// Lines around a change.
const CONTEXT: usize = 2;

/// What became of a file.
pub(super) enum Told {
    Unchanged,
    WouldChange,
    /// There was nobody to ask.
    NotAsked,
    Declined,
    Written {
        is_original: bool,
    },
    Refused(String),
}

pub(super) struct Shown<'a> {
    output: &'a mut Output,
    is_wiring: bool,
    as_json: bool,
    files: Vec<Value>,
    /// Servers and files that were written.
    written: (usize, usize),
    would_change: usize,
    not_asked: bool,
    failed: bool,
    entries: usize,
    changing: usize,
}

impl<'a> Shown<'a> {
    pub(super) fn new(way: &Way, as_json: bool, output: &'a mut Output) -> Shown<'a> {
        Shown {
            output,
            is_wiring: matches!(way, Way::Wire(_)),
            as_json,
            files: Vec::new(),
            written: (0, 0),
            would_change: 0,
            not_asked: false,
            failed: false,
            entries: 0,
            changing: 0,
        }
    }

    fn line(&mut self, style: Style, text: &str) {
        if !self.as_json {
            self.output.line(style, text);
        }
    }

    fn error(&mut self, text: &str) {
        if !self.as_json {
            self.output.error(&format!("mcpindex: {text}"));
        }
    }

    /// What holds for every file.
    pub(super) fn notes(&mut self, state: &StateDirectory) {
        if self.is_wiring && std::env::var_os("MCPINDEX_STATE_DIR").is_some() && !self.as_json {
            self.output.error(&format!(
                "mcpindex: note: MCPINDEX_STATE_DIR is set here ({}); a gate keeps its pins there only if its host hands the variable on",
                state.path().display()
            ));
        }
    }

    pub(super) fn unreadable(&mut self, hosts: &[&'static str], path: &Path, error: &Unreadable) {
        self.failed = true;
        self.error(&format!("{error}; the file is left alone"));
        let mut file = file(hosts, path, "unreadable");
        file.insert("reason".to_owned(), json!(error.reason));
        if let Some((line, column)) = error.position {
            file.insert("line".to_owned(), json!(line));
            file.insert("column".to_owned(), json!(column));
        }
        self.files.push(Value::Object(file));
    }

    /// What is to become of a file.
    pub(super) fn preview(&mut self, hosts: &[&'static str], config: &ConfigFile, rewrite: &Rewrite) {
        self.entries += rewrite.entries.len();
        self.changing = rewrite
            .entries
            .iter()
            .filter(|(_, fate)| matches!(fate, Fate::Wired | Fate::Unwired))
            .count();
        let diff = diff(config.path(), rewrite);
        let mut file = file(hosts, config.path(), "unchanged");
        file.insert(
            "entries".to_owned(),
            rewrite.entries.iter().map(entry_document).collect(),
        );
        if rewrite.changes() {
            file.insert("diff".to_owned(), json!(diff));
        }
        self.files.push(Value::Object(file));
        // A host's settings without a server are no news, unless the file was named.
        if rewrite.entries.is_empty() && !hosts.is_empty() {
            return;
        }
        let labels: Vec<&str> = HOSTS
            .iter()
            .filter(|host| hosts.contains(&host.name))
            .map(|host| host.label)
            .collect();
        let heading = match labels.as_slice() {
            [] => config.path().display().to_string(),
            _ => format!("{}: {}", labels.join(", "), config.path().display()),
        };
        self.line(Style::Strong, &heading);
        if rewrite.entries.is_empty() {
            self.line(Style::Plain, "  no MCP server here");
        }
        for (entry, fate) in &rewrite.entries {
            self.line(Style::Plain, &format!("  {}", entry_line(entry, fate)));
        }
        if rewrite.changes() {
            self.line(Style::Plain, "");
            for line in diff.lines() {
                let style = match line.chars().next() {
                    Some('+') => Style::Strong,
                    Some('-' | '@') => Style::Faint,
                    _ => Style::Plain,
                };
                self.line(style, &line.replace('\t', "    "));
            }
        }
        self.line(Style::Plain, "");
    }

    pub(super) fn question(&mut self, path: &Path) {
        let question = format!("Write this to {}? [y/N]", path.display());
        self.line(Style::Strong, &question);
    }

    /// What became of the file that was shown last.
    pub(super) fn told(&mut self, told: Told) {
        let result = match told {
            Told::Unchanged => return,
            Told::WouldChange => {
                self.would_change += self.changing;
                "would-change"
            }
            Told::NotAsked => {
                self.not_asked = true;
                "would-change"
            }
            Told::Declined => {
                self.line(Style::Plain, "Not written.");
                self.line(Style::Plain, "");
                "declined"
            }
            Told::Written { is_original } => {
                self.written.0 += self.changing;
                self.written.1 += 1;
                if !self.is_wiring {
                    let text = if is_original {
                        "Written: the file is what it was before it was wired, to the byte."
                    } else {
                        "Written: these entries are as they were; everything else in the file is kept as it is now."
                    };
                    self.line(Style::Plain, text);
                    self.line(Style::Plain, "");
                    self.member("original", json!(is_original));
                }
                "written"
            }
            Told::Refused(reason) => {
                self.failed = true;
                self.error(&reason);
                self.member("reason", json!(reason));
                "refused"
            }
        };
        self.member("result", json!(result));
    }

    fn member(&mut self, name: &str, value: Value) {
        if let Some(Value::Object(file)) = self.files.last_mut() {
            file.insert(name.to_owned(), value);
        }
    }

    /// The sum, and how it ended.
    pub(super) fn end(mut self, record: &Record) -> Exit {
        if self.as_json {
            let document = json!({
                "schema": "mcpindex.wire/1",
                "command": if self.is_wiring { "wire" } else { "unwire" },
                "record": record.path().display().to_string(),
                "files": self.files,
            });
            self.output.document(&format!("{document:#}"));
        }
        if self.not_asked {
            self.error("nothing was written: there is no terminal to ask on; --yes agrees in advance");
            return Exit::Usage;
        }
        let summary = self.summary();
        self.line(Style::Plain, &summary);
        if self.failed { Exit::Undetermined } else { Exit::Ok }
    }

    fn summary(&self) -> String {
        let (servers, files) = self.written;
        match (self.is_wiring, servers) {
            _ if self.would_change > 0 => {
                let verb = if self.is_wiring { "wired" } else { "unwired" };
                format!(
                    "{} would be {verb}. Nothing was written.",
                    counted(self.would_change, "server")
                )
            }
            (true, 1..) => format!(
                "Wired {} in {}. Restart the host to have it start the gate. To take it back: mcpindex unwire",
                counted(servers, "server"),
                counted(files, "file")
            ),
            (false, 1..) => format!(
                "Unwired {} in {}. Restart the host to have it start the server itself.",
                counted(servers, "server"),
                counted(files, "file")
            ),
            _ if self.files.is_empty() => {
                "No configuration of a known host was found. --config FILE names one.".to_owned()
            }
            _ if self.entries == 0 && !self.failed => {
                "No MCP server was found in these configurations.".to_owned()
            }
            _ => "Nothing was written.".to_owned(),
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// `name  server  what becomes of it`.
fn entry_line(entry: &Entry, fate: &Fate) -> String {
    let server = match (&entry.identity, &entry.launch) {
        (Some(identity), _) => format!(" ({identity})"),
        (None, Launch::Other(_)) => String::new(),
        (None, launch) => format!(" ({})", launch.shown()),
    };
    let disabled = if entry.is_disabled { ", disabled" } else { "" };
    let becomes = match fate {
        Fate::Wired => "the gate comes in front of it".to_owned(),
        Fate::Unwired => "the gate is taken away".to_owned(),
        Fate::AlreadyWired => "already behind the gate".to_owned(),
        Fate::NotWired => "no gate in front of it".to_owned(),
        Fate::LeftAlone(reason) => format!("left alone: {reason}"),
    };
    format!("{}{server}{disabled}: {becomes}", entry.name)
}

fn diff(path: &Path, rewrite: &Rewrite) -> String {
    let (before, after) = rewrite.shown();
    let path = path.display().to_string();
    // Line ends are kept in the file; a carriage return shown on each line would hide what changes.
    let (before, after) = (before.replace('\r', ""), after.replace('\r', ""));
    TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&path, &path)
        .to_string()
}

fn file(hosts: &[&'static str], path: &Path, result: &str) -> Map<String, Value> {
    let mut file = Map::new();
    file.insert("path".to_owned(), json!(path.display().to_string()));
    file.insert("hosts".to_owned(), json!(hosts));
    file.insert("result".to_owned(), json!(result));
    file
}

fn entry_document((entry, fate): &(Entry, Fate)) -> Value {
    let (fate, reason) = match fate {
        Fate::Wired => ("wired", None),
        Fate::Unwired => ("unwired", None),
        Fate::AlreadyWired => ("already-wired", None),
        Fate::NotWired => ("not-wired", None),
        Fate::LeftAlone(reason) => ("left-alone", Some(reason)),
    };
    let launch = match &entry.launch {
        Launch::Other(_) => None,
        launch => Some(launch.shown()),
    };
    json!({
        "name": entry.name,
        "at": entry.path,
        "line": entry.line,
        "server": entry.identity.as_ref().map(ToString::to_string),
        "launch": launch,
        "disabled": entry.is_disabled,
        "fate": fate,
        "reason": reason,
    })
}
