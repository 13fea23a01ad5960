//! `mcpindex wire` and `unwire`: shows what would change, asks, writes.
//!
//! Invariant: nothing is written that was not shown and agreed to.

mod drill;
mod show;

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use mcpindex::clients::{
    ConfigFile, Configuration, Entry, Environment, GateLine, HOSTS, Record, Rewrite, Unreadable,
    configurations,
};
use mcpindex::state::StateDirectory;
use mcpindex_contract::posture::Posture;

use super::exit::Exit;
use super::gate::{ApprovalsArgument, stored_index};
use super::output::Output;
use show::{Shown, Told};

#[derive(Args)]
pub(super) struct WireArguments {
    #[command(flatten)]
    selection: Selection,
    /// The posture of the gates: monitor, guard or strict (a gate without one is on guard)
    #[arg(long, value_name = "POSTURE", value_parser = posture)]
    posture: Option<Posture>,
    /// Whose decisions the gates obey: the organisation's, at the index that this machine is signed in to
    #[arg(long, value_enum, value_name = "WHERE")]
    approvals: Option<ApprovalsArgument>,
    /// What hosts start, instead of this very program: an absolute path, or a name on their PATH
    #[arg(long, value_name = "PROGRAM")]
    program: Option<String>,
    /// Wraps addresses without a credential beside them too; their host must not have to sign in
    #[arg(long)]
    url_entries: bool,
    /// Stages one harmless held call, so that you see what it looks like
    #[arg(long, conflicts_with_all = ["host", "config", "server", "yes", "dry_run", "posture", "approvals", "program", "url_entries"])]
    drill: bool,
    /// With --drill: takes the staged call back
    #[arg(long, requires = "drill")]
    off: bool,
}

#[derive(Args)]
pub(super) struct UnwireArguments {
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args)]
struct Selection {
    /// Only this host's configuration (repeatable)
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// This file instead of the hosts' own: the way to a project's file (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "host")]
    config: Vec<PathBuf>,
    /// Only the entry of this name (repeatable)
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Agrees to every change in advance
    #[arg(long)]
    yes: bool,
    /// Shows what would change, and writes nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// One JSON document instead of text
    #[arg(long)]
    json: bool,
}

fn posture(text: &str) -> Result<Posture, String> {
    Posture::ALL
        .into_iter()
        .find(|posture| posture.name() == text)
        .ok_or_else(|| "expected monitor, guard or strict".to_owned())
}

/// Which way.
enum Way {
    Wire(GateLine),
    Unwire,
}

pub(super) fn run(arguments: WireArguments, output: &mut Output) -> Exit {
    let state = match StateDirectory::from_environment() {
        Ok(state) => state,
        Err(error) => return refuse(output, &error.to_string(), Exit::Usage),
    };
    if arguments.drill {
        return drill::run(&state, arguments.off, arguments.selection.json, output);
    }
    let program = match arguments.program.map_or_else(own_program, checked_program) {
        Ok(program) => program,
        Err(reason) => return refuse(output, &reason, Exit::Usage),
    };
    if arguments.approvals.is_some()
        && let Err(reason) = stored_index(&state)
    {
        return refuse(output, &reason, Exit::Usage);
    }
    let line = GateLine {
        program,
        posture: arguments.posture,
        obeys: arguments.approvals.is_some(),
        url_entries: arguments.url_entries,
    };
    rewrite_all(&Way::Wire(line), &arguments.selection, &state, output)
}

pub(super) fn run_unwire(arguments: UnwireArguments, output: &mut Output) -> Exit {
    match StateDirectory::from_environment() {
        Ok(state) => rewrite_all(&Way::Unwire, &arguments.selection, &state, output),
        Err(error) => refuse(output, &error.to_string(), Exit::Usage),
    }
}

fn refuse(output: &mut Output, reason: &str, exit: Exit) -> Exit {
    output.error(&format!("mcpindex: {reason}"));
    exit
}

/// The path of this program as a host should start it: that on our PATH, if it is this one, since it outlives an update.
fn own_program() -> Result<String, String> {
    let own =
        std::env::current_exe().map_err(|error| format!("where this program is can't be told: {error}"))?;
    let resolved = own.canonicalize().unwrap_or_else(|_| own.clone());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| Some(folder.join(own.file_name()?)))
        .find(|candidate| {
            candidate
                .canonicalize()
                .is_ok_and(|candidate| candidate == resolved)
        });
    on_path
        .unwrap_or(own)
        .into_os_string()
        .into_string()
        .map_err(|_| "this program's path is no UTF-8: name one with --program".to_owned())
}

fn checked_program(program: String) -> Result<String, String> {
    let path = Path::new(&program);
    if program.trim().is_empty() {
        Err("--program: it is empty".to_owned())
    } else if !program.contains(['/', '\\']) {
        Ok(program)
    } else if !path.is_absolute() {
        Err(format!(
            "--program: `{program}` is relative, and each host starts programs from another folder"
        ))
    } else if !path.is_file() {
        Err(format!("--program: there is no file `{program}`"))
    } else {
        Ok(program)
    }
}

/// One file and what is to become of it.
struct Plan {
    hosts: Vec<&'static str>,
    path: PathBuf,
    work: Result<(ConfigFile, Rewrite), Unreadable>,
}

fn rewrite_all(way: &Way, selection: &Selection, state: &StateDirectory, output: &mut Output) -> Exit {
    let found = match selected(selection) {
        Ok(found) => found,
        Err(reason) => return refuse(output, &reason, Exit::Usage),
    };
    let asks = !selection.yes && !selection.dry_run;
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if asks && selection.json {
        return refuse(output, "--json asks nothing: add --yes or --dry-run", Exit::Usage);
    }
    let record = match Record::read(state) {
        Ok(record) => record,
        Err(error) => return refuse(output, &error.to_string(), Exit::Internal),
    };
    let plans = plans(way, selection, found, &record);
    if let Some(reason) = unknown_server(selection, &plans) {
        return refuse(output, &reason, Exit::Usage);
    }

    let is_writing = !selection.dry_run && (selection.yes || has_terminal);
    let mut shown = Shown::new(way, selection.json, output);
    shown.notes(state);
    for plan in plans {
        let (file, rewrite) = match plan.work {
            Ok(work) => work,
            Err(error) => {
                shown.unreadable(&plan.hosts, &plan.path, &error);
                continue;
            }
        };
        shown.preview(&plan.hosts, &file, &rewrite);
        if !rewrite.changes() {
            shown.told(Told::Unchanged);
            continue;
        }
        let told = if selection.dry_run {
            Told::WouldChange
        } else if !is_writing {
            Told::NotAsked
        } else if asks && !agrees(&mut shown, &plan.path) {
            Told::Declined
        } else {
            write(way, selection, state, &file, &rewrite)
        };
        shown.told(told);
    }
    shown.end(&record)
}

/// Planned again under the record's lock, so that nothing is lost of what another mcpindex did in the meantime, and written
/// if it is still what was shown.
fn write(
    way: &Way,
    selection: &Selection,
    state: &StateDirectory,
    file: &ConfigFile,
    shown: &Rewrite,
) -> Told {
    let mut record = match Record::open(state) {
        Ok(record) => record,
        Err(error) => return Told::Refused(error.to_string()),
    };
    let rewrite = match rewrite(way, selection, file, &record) {
        Ok(rewrite) => rewrite,
        Err(error) => return Told::Refused(error.to_string()),
    };
    if rewrite.shown() != shown.shown() {
        return Told::Refused(format!(
            "{}: another mcpindex wired or unwired it since it was shown, so nothing was written: run the command again",
            file.path().display()
        ));
    }
    match rewrite.write(file, &mut record) {
        Ok(()) => Told::Written {
            is_original: rewrite.is_original,
        },
        Err(error) => Told::Refused(error.to_string()),
    }
}

fn selected(selection: &Selection) -> Result<Vec<Configuration>, String> {
    if !selection.config.is_empty() {
        let named = |path: &PathBuf| Configuration {
            hosts: Vec::new(),
            file: ConfigFile::read(path),
            path: path.clone(),
        };
        let mut named: Vec<Configuration> = selection.config.iter().map(named).collect();
        let mut seen = BTreeSet::new();
        named.retain(|configuration| match &configuration.file {
            Ok(file) => seen.insert(file.target().to_owned()),
            Err(_) => true,
        });
        return Ok(named);
    }
    for name in &selection.host {
        if HOSTS.iter().all(|host| host.name != name) {
            let known: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
            return Err(format!(
                "--host: no host is called `{name}`; known are {}",
                known.join(", ")
            ));
        }
    }
    let environment = Environment::from_process()
        .ok_or("there is no home directory to look into: name files with --config")?;
    let is_meant = |configuration: &Configuration| {
        selection.host.is_empty()
            || configuration
                .hosts
                .iter()
                .any(|host| selection.host.iter().any(|name| name == host))
    };
    Ok(configurations(&environment)
        .into_iter()
        .filter(is_meant)
        .collect())
}

fn plans(way: &Way, selection: &Selection, found: Vec<Configuration>, record: &Record) -> Vec<Plan> {
    found
        .into_iter()
        .map(|configuration| {
            let work = configuration
                .file
                .and_then(|file| rewrite(way, selection, &file, record).map(|rewrite| (file, rewrite)));
            Plan {
                hosts: configuration.hosts,
                path: configuration.path,
                work,
            }
        })
        .collect()
}

fn rewrite(
    way: &Way,
    selection: &Selection,
    file: &ConfigFile,
    record: &Record,
) -> Result<Rewrite, Unreadable> {
    let is_meant = |entry: &Entry| selection.server.is_empty() || selection.server.contains(&entry.name);
    match way {
        Way::Wire(line) => Rewrite::wire(file, record, line, &is_meant),
        Way::Unwire => Rewrite::unwire(file, record, &is_meant),
    }
}

/// A name that fits no entry is a mistake, unless a file that could not be read may have it.
fn unknown_server(selection: &Selection, plans: &[Plan]) -> Option<String> {
    let works = || plans.iter().map(|plan| &plan.work);
    if works().any(Result::is_err) {
        return None;
    }
    let unknown = selection.server.iter().find(|name| {
        !works()
            .flatten()
            .any(|(_, rewrite)| rewrite.entries.iter().any(|(entry, _)| entry.name == **name))
    })?;
    Some(format!(
        "--server: no entry is called `{unknown}` in the files that were read"
    ))
}

fn agrees(shown: &mut Shown<'_>, path: &Path) -> bool {
    shown.question(path);
    let mut answer = String::new();
    // No answer is no.
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
