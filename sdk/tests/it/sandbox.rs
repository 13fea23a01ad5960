//! Jails as they are on this machine: what each level holds, and that everything in one ends at its limits and with it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mcpindex::inspect::{Inspection, inspect_stdio};
use mcpindex::sandbox::probe::{TRIALS, Trial, try_to_break_out};
use mcpindex::sandbox::{Jail, JailLimits, Level, Sandbox};
use mcpindex::wire::limits::Limits;
use mcpindex_contract::outcome::Outcome;

use crate::stdio::launch;

fn entrance() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_fixture-server"))
}

fn sandbox(level: Level) -> Sandbox {
    Sandbox::at(level, entrance()).unwrap()
}

pub(crate) fn jail(level: Level, change: impl FnOnce(&mut JailLimits)) -> Jail {
    let mut limits = JailLimits::listing();
    change(&mut limits);
    let mut jail = sandbox(level).jail(limits);
    jail.read.push(entrance().to_owned());
    jail
}

async fn inspect_in(jail: Jail, program: &str, args: &[&str]) -> Inspection {
    let mut launch = launch(program, args);
    launch.jail = Some(Box::new(jail));
    inspect_stdio(&launch, &Limits::crawl()).await
}

/// What a shell script in a jail comes to, as outcome and reason.
async fn script(level: Level, change: impl FnOnce(&mut JailLimits), script: &str) -> (Outcome, String) {
    let inspection = inspect_in(jail(level, change), "sh", &["-c", script]).await;
    let reason = inspection
        .result
        .as_ref()
        .err()
        .map(|failure| failure.reason.clone());
    (inspection.outcome(), reason.unwrap_or_default())
}

#[test]
fn nobody_breaks_out_at_either_level() {
    for level in Level::ALL {
        let trials = try_to_break_out(&sandbox(level)).unwrap();
        let broken: Vec<&Trial> = trials.iter().filter(|trial| !trial.held()).collect();
        assert!(broken.is_empty(), "{}: {broken:#?}", level.name());
        assert_eq!(trials.len(), TRIALS);
    }
}

#[test]
fn the_strongest_level_that_holds_is_chosen() {
    assert_eq!(Sandbox::choose(entrance()).unwrap().level(), Level::Namespaces);
}

#[test]
fn a_program_that_can_t_enter_is_no_sandbox() {
    let error = Sandbox::choose(Path::new("/bin/false")).unwrap_err().to_string();
    assert!(
        error.starts_with("no sandbox holds on this machine: ns+landlock+seccomp: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_lists_its_tools_in_a_jail_as_outside() {
    let program = entrance().display().to_string();
    let outside = inspect_stdio(&launch(&program, &["plain"]), &Limits::crawl()).await;
    for level in Level::ALL {
        let inside = inspect_in(jail(level, |_| {}), &program, &["plain"]).await;
        assert_eq!(
            inside.result.unwrap().digest(),
            outside.result.as_ref().unwrap().digest(),
            "{}",
            level.name()
        );
    }
}

#[test]
fn runtimes_start_at_either_level() {
    let check = |level: Level, program: &str, args: &[&str]| {
        let home = tempfile::tempdir().unwrap();
        let args: Vec<String> = args.iter().map(|argument| (*argument).to_owned()).collect();
        let output = jail(level, |_| {})
            .command(home.path(), home.path(), program, &args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} at {}: {said}", level.name());
    };
    for level in Level::ALL {
        check(level, "node", &["-e", "require('crypto').randomUUID()"]);
        // The system's own, where there is one: another may be in somebody's home.
        if Path::new("/usr/bin/python3").exists() {
            let script = "import mimetypes, ssl; mimetypes.init(); ssl.create_default_context()";
            check(level, "/usr/bin/python3", &["-I", "-c", script]);
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_to_be_missing() {
    for level in Level::ALL {
        let inspection = inspect_in(jail(level, |_| {}), "mcpindex-no-such-program", &[]).await;
        let failure = inspection.result.unwrap_err();
        assert_eq!(failure.outcome, Outcome::Crashed);
        assert!(
            failure.reason.ends_with("can't be started: not found"),
            "{}",
            failure.reason
        );
    }
}

#[tokio::test]
async fn what_uses_too_much_is_over_its_limit() {
    let check = async |level: Level, change: fn(&mut JailLimits), line: &str, expected: &str| {
        let (outcome, reason) = script(level, change, line).await;
        assert_eq!(outcome, Outcome::OverLimit, "{}: {reason}", level.name());
        assert!(reason.contains(expected), "{reason}");
    };
    for level in Level::ALL {
        check(
            level,
            |_| {},
            "n=0; while [ $n -lt 100 ]; do sleep 60 & n=$((n+1)); done; wait",
            "64 processes at once",
        )
        .await;
        check(
            level,
            |limits| limits.memory = 64 << 20,
            "tail /dev/zero",
            "67108864 bytes of memory",
        )
        .await;
        check(
            level,
            |limits| limits.processor = 1,
            "while :; do :; done",
            "1 seconds of processor time",
        )
        .await;
    }
    check(
        Level::Landlock,
        |limits| limits.disk = 1 << 20,
        "head -c 9000000 /dev/zero >big; sleep 60",
        "1048576 bytes on disk",
    )
    .await;
}

#[tokio::test]
async fn within_namespaces_disk_is_memory_of_a_size() {
    let (_, reason) = script(
        Level::Namespaces,
        |limits| limits.disk = 1 << 20,
        "head -c 9000000 /dev/zero >big || echo full >&2",
    )
    .await;
    assert!(reason.contains("full"), "{reason}");
}

/// Whether a process of this machine has this text in its command line.
pub(crate) fn is_running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .any(|line| line.contains(mark))
}

#[tokio::test]
async fn the_whole_tree_ends_with_its_jail_however_it_hides() {
    for (level, mark) in Level::ALL.into_iter().zip(["3600.0117", "3600.0118"]) {
        // Two that leave: one into a session of its own where it may, one whose parent is gone.
        let line = format!("setsid sleep {mark} & (sleep {mark} &) ; exec sleep {mark}");
        let jail = jail(level, |_| {});
        let mut launch = launch("sh", &["-c", &line]);
        launch.jail = Some(Box::new(jail));
        let look = tokio::spawn(async move { inspect_stdio(&launch, &Limits::crawl()).await });
        until(|| is_running(mark)).await;
        look.abort();
        let _ = look.await;
        until(|| !is_running(mark)).await;
    }
}

/// Waits for a condition, for half a minute at most.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waited)
        .await
        .expect("it comes about");
}

#[test]
fn a_jail_hands_on_no_variable_of_ours() {
    for level in Level::ALL {
        let home = tempfile::tempdir().unwrap();
        let output = jail(level, |_| {})
            .command(
                home.path(),
                home.path(),
                "sh",
                &["-c".to_owned(), "env".to_owned()],
            )
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        // The shell sets `PWD`, `OLDPWD`, `SHLVL` and `_` by itself.
        names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
        let expected: &[&str] = match level {
            Level::Namespaces => &["HOME", "PATH"],
            Level::Landlock => &["HOME", "PATH", "TMPDIR"],
        };
        assert_eq!(names, expected, "{}", level.name());
    }
}
