//! `doctor`: what `serve` and the package clients need, checked one by one, each with a line that says what to do.
//!
//! Invariant: it changes nothing: no folder, no database, no schema is made.

use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use mcpindex::sandbox::probe::{Trial, try_to_break_out};
use mcpindex::sandbox::{Level, Sandbox};
use mcpindex_crawler::jails::Jails;
use mcpindex_store::{Location, SchemaState, Store, StoreError};
use tokio::process::Command;

use super::{check_networks, now, serve};
use crate::access::Read;
use crate::args::Doctor;
use crate::config::{ConfigError, Settings, this_program};
use crate::exit::Exit;
use crate::login::Login;
use crate::login::look::Found;
use crate::output::{self, Ink};

/// For one program to tell its version, and for the database to answer.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// A machine whose clock is before this program was written (2026-01-01) or far after it (2100-01-01) dates everything wrong.
const SANE_CLOCK: std::ops::Range<i64> = 1_767_225_600..4_102_444_800;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        }
    }
}

struct Check {
    name: &'static str,
    state: State,
    text: String,
}

impl Check {
    fn new(name: &'static str, state: State, text: impl Into<String>) -> Check {
        Check {
            name,
            state,
            text: text.into(),
        }
    }
}

/// Checks and prints.
pub async fn run(
    settings: Result<Settings, ConfigError>,
    data: &Path,
    doctor: Doctor,
) -> anyhow::Result<Exit> {
    if doctor.sandbox {
        return sandbox_table(doctor.json).await;
    }
    let mut checks = vec![configuration(&settings)];
    let settings = settings.unwrap_or_else(|_| Settings::defaults(data.to_owned()));
    checks.push(networks(&settings));
    checks.push(data_folder(&settings));
    checks.push(database(&settings).await);
    checks.push(listen(&settings));
    checks.extend(access(&settings, doctor.offline).await);
    checks.extend(package_clients().await);
    checks.push(sandbox(&settings).await);
    checks.push(clock());
    let failed = checks.iter().any(|check| check.state == State::Fail);
    if doctor.json {
        output::json(&json(&checks))?;
    } else {
        for check in &checks {
            show(check)?;
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn configuration(settings: &Result<Settings, ConfigError>) -> Check {
    let name = "configuration";
    match settings {
        Ok(settings) => match &settings.file {
            Some(path) => Check::new(name, State::Ok, path.display().to_string()),
            None => Check::new(name, State::Ok, "defaults (no --config)"),
        },
        Err(error) => Check::new(
            name,
            State::Fail,
            format!("{error}; the checks below take the defaults"),
        ),
    }
}

fn networks(settings: &Settings) -> Check {
    let name = "networks";
    match check_networks(settings) {
        Err(error) => Check::new(name, State::Fail, error.to_string()),
        Ok(()) if settings.crawl.allow_networks.is_empty() => {
            Check::new(name, State::Ok, "private networks are not contacted")
        }
        Ok(()) => Check::new(
            name,
            State::Ok,
            format!(
                "private networks that may be contacted: {}",
                settings.crawl.allow_networks.join(", ")
            ),
        ),
    }
}

fn data_folder(settings: &Settings) -> Check {
    let name = "data folder";
    let path = &settings.data;
    let shown = path.display();
    // The nearest folder that is there decides whether the rest can be made.
    let there = path.ancestors().find(|folder| folder.exists());
    let there = match there {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match tempfile::tempfile_in(there) {
        Ok(_) if there == path => Check::new(name, State::Ok, format!("`{shown}` is writable")),
        Ok(_) => Check::new(
            name,
            State::Ok,
            format!("`{shown}` is not there yet; it is made when needed"),
        ),
        Err(error) => Check::new(
            name,
            State::Fail,
            format!("`{shown}` can't be written: {error}; choose another one with --data"),
        ),
    }
}

async fn database(settings: &Settings) -> Check {
    let name = "database";
    let location = settings.location();
    if let Location::Sqlite(path) = &location
        && !path.exists()
    {
        return Check::new(
            name,
            State::Ok,
            format!("{location} is not there yet; it is made when needed"),
        );
    }
    let asked = tokio::time::timeout(ANSWER_TIME, async {
        let store = Store::open(&location).await?;
        let state = store.schema_state().await;
        store.close().await;
        state
    });
    match asked.await {
        Err(_) => Check::new(
            name,
            State::Fail,
            format!(
                "{location} doesn't answer within {} s; check --database",
                ANSWER_TIME.as_secs()
            ),
        ),
        Ok(Err(error)) => Check::new(
            name,
            State::Fail,
            match error {
                // It names the place itself.
                StoreError::Unreachable { .. } => format!("{error}; check --database"),
                error => format!("{location}: {error}; check --database"),
            },
        ),
        Ok(Ok(SchemaState::Current)) => {
            Check::new(name, State::Ok, format!("{location}; the schema is up to date"))
        }
        Ok(Ok(SchemaState::Behind { missing })) => Check::new(
            name,
            State::Warn,
            format!("{location} lacks {missing} migrations; `serve` and `migrate` apply them"),
        ),
        Ok(Ok(SchemaState::Ahead)) => Check::new(
            name,
            State::Fail,
            format!("{location} was migrated by a newer mcpindex-server; use that one"),
        ),
    }
}

fn listen(settings: &Settings) -> Check {
    let name = "listen";
    let address = settings.server.listen;
    match TcpListener::bind(address) {
        Ok(_) => Check::new(name, State::Ok, format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Check::new(
            name,
            State::Warn,
            format!("{address} is taken: by a running mcpindex-server, or choose another one with --listen"),
        ),
        Err(error) => Check::new(
            name,
            State::Fail,
            format!("can't listen on {address}: {error}; choose another one with --listen"),
        ),
    }
}

/// Who may read, who can sign in and whether their providers are there, and whether anybody is an admin.
async fn access(settings: &Settings, offline: bool) -> Vec<Check> {
    let address = settings.server.listen;
    let login = serve::base(settings, address).and_then(|base| serve::login(settings, &base, address));
    let sign_in_is_on = login.as_ref().is_ok_and(Login::is_on);
    let mut checks = vec![
        match settings.for_access(address).read {
            Read::Public => Check::new("readers", State::Ok, format!("everybody who reaches {address}")),
            Read::Members if sign_in_is_on => {
                Check::new("readers", State::Ok, "members, who signed in or have a key")
            }
            Read::Members => Check::new(
                "readers",
                State::Warn,
                "members, and nobody can sign in; `mcpindex-server admin create-key NAME` makes a key, or set up sign-in",
            ),
        },
        match &login {
            Ok(login) => Check::new("sign-in", State::Ok, login.sentence()),
            Err(error) => Check::new("sign-in", State::Fail, format!("{error:#}")),
        },
    ];
    if let (Ok(login), false) = (&login, offline) {
        checks.extend(login.look(now()).await.into_iter().map(|seen| match seen.found {
            Found::Well(text) => Check::new(seen.name, State::Ok, text),
            Found::Doubtful(text) => Check::new(seen.name, State::Warn, text),
            Found::Wrong(text) => Check::new(seen.name, State::Fail, text),
        }));
    }
    if let Ok(login) = &login {
        checks.extend(accounts(settings, login).await);
    }
    if let Some(warning) = serve::proxy_warning(settings) {
        checks.push(Check::new("proxies", State::Warn, warning));
    }
    checks
}

/// Whether there is an admin where people sign in, and whether accounts are left of a provider that isn't set any more; nothing
/// where the database can't tell, since that has its own line.
async fn accounts(settings: &Settings, login: &Login) -> Vec<Check> {
    let location = settings.location();
    if matches!(&location, Location::Sqlite(path) if !path.exists()) {
        return Vec::new();
    }
    let asked = tokio::time::timeout(ANSWER_TIME, async {
        let store = Store::open(&location).await?;
        let found = match store.schema_state().await? {
            SchemaState::Current => Some((store.has_admin().await?, serve::strangers(&store, login).await?)),
            SchemaState::Behind { .. } | SchemaState::Ahead => None,
        };
        store.close().await;
        Ok::<_, StoreError>(found)
    });
    let Ok(Ok(Some((has_admin, strangers)))) = asked.await else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    if login.is_on() {
        checks.push(match has_admin {
            true => Check::new("admin", State::Ok, "there is one"),
            false => Check::new(
                "admin",
                State::Warn,
                "nobody is one; `mcpindex-server admin make-admin WHO`, or the set-up code that `serve` prints",
            ),
        });
    }
    checks.extend(strangers.map(|warning| Check::new("accounts", State::Warn, warning)));
    checks
}

/// What package targets need. A machine without them can still look at URLs and commands.
async fn package_clients() -> Vec<Check> {
    let ask = |name: &'static str, line: &'static [&'static str], needed_for: &'static str| async move {
        match version_of(line).await {
            Ok(version) => Check::new(name, State::Ok, version),
            Err(reason) => Check::new(
                name,
                State::Warn,
                format!("{reason}; {needed_for} can't be looked at"),
            ),
        }
    };
    let (node, npm, python, pip) = tokio::join!(
        ask("node", &["node", "--version"], "npm packages"),
        ask("npm", &["npm", "--version"], "npm packages"),
        ask("python3", &["python3", "--version"], "PyPI packages"),
        ask("pip", &["python3", "-m", "pip", "--version"], "PyPI packages"),
    );
    vec![node, npm, python, pip]
}

/// The first line that a program prints, or why there is none.
async fn version_of(line: &[&str]) -> Result<String, String> {
    let shown = line.join(" ");
    let [program, arguments @ ..] = line else {
        return Err("no program".to_owned());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let answer = tokio::time::timeout(ANSWER_TIME, command.output())
        .await
        .map_err(|_| format!("`{shown}` doesn't answer within {} s", ANSWER_TIME.as_secs()))?
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("`{program}` is not installed"),
            _ => format!("`{program}` can't be started: {error}"),
        })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    match text.lines().next() {
        // Where pip is installed is nobody's business here.
        Some(version) if answer.status.success() => {
            let version = version.split(" from ").next().unwrap_or(version);
            Ok(version.trim().to_owned())
        }
        _ => Err(format!("`{shown}` fails")),
    }
}

/// Whether what is looked at can be run at all, found out by trying.
async fn sandbox(settings: &Settings) -> Check {
    let name = "sandbox";
    match Jails::new(&settings.for_crawler()).level().await {
        Ok(level) => Check::new(
            name,
            State::Ok,
            format!("{}; `doctor --sandbox` shows what it holds", level.name()),
        ),
        Err(reason) => Check::new(
            name,
            State::Warn,
            format!("{reason}; packages and commands can't be looked at, URLs can"),
        ),
    }
}

/// Tries to break out of a jail of each level, and prints what held.
async fn sandbox_table(as_json: bool) -> anyhow::Result<Exit> {
    let tried: Vec<(Level, Result<Vec<Trial>, String>)> = tokio::task::spawn_blocking(|| {
        let program = this_program();
        let jail = |level| Sandbox::at(level, &program).and_then(|sandbox| try_to_break_out(&sandbox));
        Level::ALL.map(|level| (level, jail(level))).into()
    })
    .await?;
    let holds = |trials: &Result<Vec<Trial>, String>| {
        trials.as_ref().is_ok_and(|trials| trials.iter().all(Trial::held))
    };
    let chosen = tried
        .iter()
        .find(|(_, trials)| holds(trials))
        .map(|(level, _)| level.name());
    if as_json {
        let levels: Vec<serde_json::Value> = tried
            .iter()
            .map(|(level, trials)| {
                let shown = |trial: &Trial| {
                    serde_json::json!({ "what": trial.what, "held": trial.held(), "succeeded": trial.succeeded, "said": trial.said })
                };
                let trials_shown = trials.as_ref().map(|trials| trials.iter().map(shown).collect::<Vec<_>>());
                serde_json::json!({
                    "level": level.name(),
                    "holds": holds(trials),
                    "problem": trials.as_ref().err(),
                    "trials": trials_shown.unwrap_or_default(),
                })
            })
            .collect();
        output::json(&serde_json::json!({ "level": chosen, "levels": levels }))?;
    } else {
        for (level, trials) in &tried {
            output::line(&[(Ink::Strong, level.name().to_owned())])?;
            match trials {
                Ok(trials) => trials.iter().try_for_each(show_trial)?,
                Err(reason) => output::line(&[(Ink::Bad, format!("  not here: {reason}"))])?,
            }
        }
        output::line(&match chosen {
            Some(level) => [(Ink::Good, "used".to_owned()), (Ink::Plain, format!(": {level}"))],
            None => [
                (Ink::Bad, "none holds".to_owned()),
                (
                    Ink::Plain,
                    format!(": packages and commands are not run. {HOW_TO_GET_ONE}"),
                ),
            ],
        })?;
    }
    Ok(if chosen.is_some() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// What usually stands in the way.
const HOW_TO_GET_ONE: &str = "Install bubblewrap and let this user make namespaces (sysctl kernel.unprivileged_userns_clone=1, or \
     kernel.apparmor_restrict_unprivileged_userns=0 with AppArmor), or run on a Linux with Landlock (5.13 or newer), in a container too";

fn show_trial(trial: &Trial) -> std::io::Result<()> {
    let (ink, word) = match (trial.held(), trial.wanted) {
        (true, true) => (Ink::Good, "works"),
        (true, false) => (Ink::Good, "held"),
        (false, true) => (Ink::Bad, "does not work"),
        (false, false) => (Ink::Bad, "BROKEN"),
    };
    output::line(&[
        (Ink::Plain, format!("  {:<36}", trial.what)),
        (ink, format!("{word:<6}")),
        (Ink::Dim, format!(" {}", trial.said)),
    ])
}

fn clock() -> Check {
    let name = "clock";
    let seconds = now();
    let shown = time::OffsetDateTime::from_unix_timestamp(seconds).map_or_else(
        |_| format!("{seconds} seconds since 1970"),
        |time| format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute()),
    );
    if SANE_CLOCK.contains(&seconds) {
        Check::new(name, State::Ok, shown)
    } else {
        Check::new(
            name,
            State::Fail,
            format!("{shown} can't be right; set the machine's clock"),
        )
    }
}

fn show(check: &Check) -> std::io::Result<()> {
    let ink = match check.state {
        State::Ok => Ink::Good,
        State::Warn => Ink::Warn,
        State::Fail => Ink::Bad,
    };
    output::line(&[
        (ink, format!("{:<5}", check.state.name())),
        (Ink::Plain, format!("{:<14}{}", check.name, check.text)),
    ])
}

fn json(checks: &[Check]) -> serde_json::Value {
    let list: Vec<serde_json::Value> = checks
        .iter()
        .map(|check| serde_json::json!({ "name": check.name, "state": check.state.name(), "text": check.text }))
        .collect();
    let failed = checks.iter().any(|check| check.state == State::Fail);
    serde_json::json!({ "ok": !failed, "checks": list })
}
