//! `mcpindex pins`, `pending` and `approve`: the program itself, over a state directory that the library filled.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;
use mcpindex::pins::{AuthContext, Pins, Record, ServerKey, Via};
use mcpindex::state::StateDirectory;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::surface::{Instructions, MemberKind};
use tempfile::TempDir;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_mcpindex");

/// 2026-03-01 10:00 UTC.
const MARCH: i64 = 1_772_359_200;
const DAY: i64 = 24 * 60 * 60;

const SEARCH: &str = r#"{"name":"search","description":"Searches."}"#;
const SEARCH_ALL: &str = r#"{"name":"search","description":"Searches all, and tells."}"#;
const SEARCH_TITLE: &str = r#"{"name":"search","title":"Search","description":"Searches."}"#;
const DELETE: &str = r#"{"name":"delete","_meta":{"k":1}}"#;

struct Machine {
    directory: TempDir,
    state: StateDirectory,
}

fn key(reference: &str) -> ServerKey {
    ServerKey::usual(Identity::from_reference(reference).unwrap().identity)
}

impl Machine {
    fn new() -> Machine {
        let directory = tempfile::tempdir().unwrap();
        Machine {
            state: StateDirectory::at(directory.path().join("state")),
            directory,
        }
    }

    /// One with two servers, whose tools have been through everything.
    fn used() -> Machine {
        let machine = Machine::new();
        machine.update(&key("npm:docs"), |record| {
            record.pin("search", &Definition::read(SEARCH), Via::FirstSight, MARCH);
            record.pin("delete", &Definition::read(DELETE), Via::FirstSight, MARCH);
            let instructions = Instructions::read(r#""Ask first.""#);
            record.pin_instructions(
                instructions.as_ref(),
                Some(r#""Ask first.""#),
                Via::FirstSight,
                MARCH,
            );
        });
        machine.update(&key("npm:docs"), |record| {
            record.accept("search", &Definition::read(SEARCH_TITLE), MARCH + DAY);
            let refused = Definition::read(r#"{"name":"search"}"#);
            record.hold("search", &refused, &["description-changed"], MARCH + 3 * DAY);
            record.refuse("search", &refused.digest().to_string(), MARCH + 4 * DAY);
            record.hold(
                "search",
                &Definition::read(SEARCH_ALL),
                &["description-changed"],
                MARCH + 2 * DAY,
            );
            let bad = Definition::read(r#"{"name":"delete","x":1,"x":2}"#);
            record.hold("delete", &bad, &["duplicate-member"], MARCH + 2 * DAY);
            let other = Definition::read(r#"{"name":"new\u001b[2J"}"#);
            record.hold("new\u{1b}[2J", &other, &["tool-added"], MARCH + 2 * DAY);
            let instructions = Instructions::read(r#""Never ask.""#);
            record.pin_instructions(
                instructions.as_ref(),
                Some(r#""Never ask.""#),
                Via::FirstSight,
                MARCH + 2 * DAY,
            );
        });
        let remote = ServerKey {
            context: AuthContext::Header("authorization".to_owned()),
            ..key("https://mcp.example.com/v1")
        };
        machine.update(&remote, |record| {
            record.pin("search", &Definition::read(SEARCH), Via::FirstSight, MARCH);
        });
        machine
    }

    fn update(&self, key: &ServerKey, change: impl FnOnce(&mut Record)) {
        Pins::open(&self.state, key).update(change).unwrap();
    }

    fn record(&self, key: &ServerKey) -> Record {
        (*Pins::open(&self.state, key).record().unwrap()).clone()
    }

    fn file(&self, key: &ServerKey) -> PathBuf {
        self.state.gate().join(key.file_name())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(EXECUTABLE);
        command
            .args(arguments)
            .env("MCPINDEX_STATE_DIR", self.state.path())
            // No configuration of the machine's own is looked at.
            .env("HOME", self.directory.path())
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.shown(&self.command(arguments).output().unwrap())
    }

    /// Exit code, stdout and stderr, without what differs between machines.
    fn shown(&self, output: &Output) -> String {
        let text = format!(
            "exit {}\n{}--\n{}",
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        text.replace(&self.state.path().display().to_string(), "STATE")
    }
}

fn digest(text: &str) -> String {
    Definition::read(text).digest().to_string()
}

#[test]
fn a_new_machine_has_nothing_pinned() {
    let machine = Machine::new();
    assert_snapshot!(machine.run(&["pins", "list"]));
    assert_snapshot!(machine.run(&["pending"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs"]));
    assert!(!machine.state.path().exists(), "looking makes nothing");
}

#[test]
fn text_says_what_is_pinned_and_what_waits() {
    let machine = Machine::used();
    assert_snapshot!(machine.run(&["pins", "list"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs", "search"]));
    assert_snapshot!(machine.run(&["pins", "history", "1ab25d99ecf1907e"]));
    assert_snapshot!(machine.run(&["pins", "history", "https://mcp.example.com/v1", "search"]));
    assert_snapshot!(machine.run(&["pending"]));
    assert_snapshot!(machine.run(&["pending", "https://mcp.example.com/v1"]));
}

#[test]
fn a_document_says_the_same() {
    let machine = Machine::used();
    assert_snapshot!(machine.run(&["pins", "list", "--json"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs", "--json"]));
    assert_snapshot!(machine.run(&["pins", "history", "npm:docs", "--json"]));
    assert_snapshot!(machine.run(&["pending", "--json"]));
}

#[test]
fn mistakes_are_one_line_and_one_document() {
    let machine = Machine::used();
    assert_snapshot!(machine.run(&["pins", "show", "docs", "--json"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs", "sea", "--json"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs", "--context", "work", "--json"]));
    assert_snapshot!(machine.run(&["pins", "--json"]));
    let work = ServerKey {
        context: AuthContext::Named("work".to_owned()),
        ..key("npm:docs")
    };
    machine.update(&work, |record| {
        record.hold("search", &Definition::read(SEARCH), &["marker"], MARCH);
    });
    assert_snapshot!(machine.run(&["pending", "npm:docs"]));
    assert_snapshot!(machine.run(&["pending", "npm:docs", "--context", "work"]));
    let relative = machine
        .command(&["pins", "list"])
        .env("MCPINDEX_STATE_DIR", "state")
        .output();
    assert_snapshot!(machine.shown(&relative.unwrap()));
}

#[test]
fn the_name_of_an_entry_in_a_hosts_configuration_is_enough() {
    let machine = Machine::used();
    let cursor = machine.directory.path().join(".cursor");
    fs::create_dir(&cursor).unwrap();
    let entry = r#"{"mcpServers":{"papers":{"command":"npx","args":["-y","docs"]}}}"#;
    fs::write(cursor.join("mcp.json"), entry).unwrap();
    assert_eq!(
        machine.run(&["pins", "history", "papers"]),
        machine.run(&["pins", "history", "npm:docs"])
    );
}

#[test]
fn exactly_the_held_digest_is_approved() {
    let machine = Machine::used();
    let approve = |digest: &str| machine.run(&["approve", "npm:docs", "search", digest]);
    let before = fs::read(machine.file(&key("npm:docs"))).unwrap();
    assert_snapshot!(approve("sha256:1234"));
    assert_snapshot!(approve(&digest(SEARCH_TITLE)));
    assert_snapshot!(approve(&digest(SEARCH)));
    assert_snapshot!(machine.run(&[
        "approve",
        "npm:docs",
        "delete",
        &digest(r#"{"name":"delete","x":1,"x":2}"#)
    ]));
    assert_eq!(fs::read(machine.file(&key("npm:docs"))).unwrap(), before);
    assert_snapshot!(approve(&digest(SEARCH_ALL)));
    let record = machine.record(&key("npm:docs"));
    let pin = record.tools["search"].baseline.as_ref().unwrap();
    assert_eq!((&*pin.definition, pin.via), (SEARCH_ALL, Via::Approved));
    assert_eq!(record.tools["search"].held.len(), 1, "what was refused stays");
}

#[test]
fn instructions_are_approved_by_their_digest_too() {
    let machine = Machine::used();
    let never_ask = Instructions::read(r#""Never ask.""#).unwrap().digest.to_string();
    let approve = || machine.run(&["approve", "npm:docs", "--instructions", &never_ask, "--json"]);
    assert_snapshot!(approve());
    let pin = machine.record(&key("npm:docs")).instructions.unwrap().unwrap();
    assert_eq!(
        (pin.literal.as_str(), pin.via),
        (r#""Never ask.""#, Via::Approved)
    );
    assert!(approve().contains(r#""decision": "already""#));
}

#[test]
fn a_server_is_forgotten_only_when_that_is_confirmed() {
    let machine = Machine::used();
    assert_snapshot!(machine.run(&["pins", "reset", "npm:docs"]));
    assert_eq!(machine.record(&key("npm:docs")).tools.len(), 3);
    assert_snapshot!(machine.run(&["pins", "reset", "npm:docs", "--yes"]));
    assert_eq!(machine.record(&key("npm:docs")), Record::default());
    assert_snapshot!(machine.run(&["pins", "reset", "npm:docs", "--yes"]));
}

#[test]
fn one_damaged_record_hides_no_other_and_can_be_forgotten() {
    let machine = Machine::used();
    let file = machine.file(&key("npm:docs"));
    fs::write(&file, r#"{"version":1,"#).unwrap();
    fs::write(machine.state.gate().join("notes.json"), "{}").unwrap();
    assert_snapshot!(machine.run(&["pins", "list"]));
    assert_snapshot!(machine.run(&["pending", "--json"]));
    assert_snapshot!(machine.run(&["pins", "show", "npm:docs"]));
    fs::remove_file(&file).unwrap();
    assert_snapshot!(machine.run(&["pins", "history", "npm:docs"]));
    machine.run(&["pins", "reset", "npm:docs", "--yes"]);
    assert_eq!(machine.record(&key("npm:docs")), Record::default());
}

#[test]
fn a_lost_list_of_servers_is_told_once() {
    let machine = Machine::used();
    fs::remove_file(machine.state.path().join("gate-servers.json")).unwrap();
    assert_snapshot!(machine.run(&["pending", "npm:docs"]));
    assert!(machine.run(&["pending", "npm:docs"]).ends_with("--\n"));
}

#[test]
fn pins_of_the_published_client_are_taken_over_when_asked() {
    let machine = Machine::new();
    let pins = machine.state.path().join("pins");
    fs::create_dir_all(&pins).unwrap();
    let pin = |name: &str, rest: &str| {
        let hash = contract_hash(&Definition::read(&format!(r#"{{"name":"{name}"}}"#))).unwrap();
        format!(
            r#"{{"server_id":"docs","tool_name":"{name}","definition_hash":"{hash}","pinned_at":"2026-03-01T10:00:00+00:00"{rest}}}"#
        )
    };
    let store = [
        pin(
            "a",
            r#","schema":{"name":"a","title":"A","_mcpindex_contract_fields":3}"#,
        ),
        pin("b", r#","schema":{"name":"b"}"#),
        pin("c", ""),
    ];
    let store = format!(r#"{{"version":2,"pins":[{}]}}"#, store.join(","));
    fs::write(pins.join("docs.json"), &store).unwrap();
    fs::write(pins.join("other.json"), r#"{"version":1}"#).unwrap();
    assert_snapshot!(machine.run(&["pins", "list"]));
    assert_snapshot!(machine.run(&["pins", "import", "mail", "npm:docs"]));
    assert_snapshot!(machine.run(&["pins", "import", "docs", "npm:docs"]));
    assert_snapshot!(machine.run(&["pins", "history", "npm:docs"]));
    assert_snapshot!(machine.run(&["pins", "import", "docs", "npm:docs", "--json"]));
    let other = pins.join("other.json").display().to_string();
    assert_snapshot!(machine.run(&["pins", "import", "docs", "npm:docs", "--from", &other]));
    let untouched = fs::read_to_string(pins.join("docs.json")).unwrap();
    assert_eq!(untouched, store);
}

#[test]
fn eight_processes_at_once_lose_nothing() {
    const PROCESSES: usize = 8;
    let machine = Machine::new();
    let docs = key("npm:docs");
    let text = |tool: usize| format!(r#"{{"name":"t{tool}"}}"#);
    for round in 0..3 {
        let tools: Vec<usize> = (round * PROCESSES..(round + 1) * PROCESSES).collect();
        machine.update(&docs, |record| {
            for &tool in &tools {
                record.hold(&format!("t{tool}"), &Definition::read(&text(tool)), &[], MARCH);
            }
        });
        let processes: Vec<_> = tools
            .iter()
            .map(|&tool| {
                let (name, digest) = (format!("t{tool}"), digest(&text(tool)));
                machine
                    .command(&["approve", "npm:docs", &name, &digest])
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut process in processes {
            assert!(process.wait().unwrap().success());
        }
    }
    let record = machine.record(&docs);
    let pinned = record.tools.values().filter(|tool| tool.baseline.is_some());
    assert_eq!(pinned.count(), 3 * PROCESSES);
}

#[test]
fn a_full_disk_loses_nothing() {
    let machine = Machine::new();
    let docs = key("npm:docs");
    let long = format!(r#"{{"name":"long","description":"{}"}}"#, "x".repeat(20_000));
    machine.update(&docs, |record| {
        record.hold("long", &Definition::read(&long), &[], MARCH);
    });
    let before = fs::read(machine.file(&docs)).unwrap();
    // A limit on the size of files is the disk that is full in the middle of a write.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", EXECUTABLE])
        .args(["approve", "npm:docs", "long", &digest(&long)])
        .env("MCPINDEX_STATE_DIR", machine.state.path())
        .output()
        .unwrap();
    assert_snapshot!(machine.shown(&output));
    assert_eq!(fs::read(machine.file(&docs)).unwrap(), before);
    let left: Vec<_> = fs::read_dir(machine.state.gate()).unwrap().collect();
    assert_eq!(left.len(), 2, "the record and its lock: {left:?}");
}

/// Runs as another user, which takes root; `None` without.
fn as_another_user(machine: &Machine, arguments: &[&str]) -> Option<String> {
    if !is_root(machine.state.path()) {
        return None;
    }
    let mut command = machine.command(arguments);
    command.uid(65_534).gid(65_534);
    Some(machine.shown(&command.output().unwrap()))
}

/// Whether what this process makes belongs to root.
fn is_root(made: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(made).unwrap().uid() == 0
}

fn open_to_all(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn another_users_record_is_neither_read_nor_written() {
    let machine = Machine::used();
    let file = machine.file(&key("npm:docs"));
    open_to_all(machine.state.path().parent().unwrap(), 0o755);
    open_to_all(machine.state.path(), 0o755);
    open_to_all(&machine.state.gate(), 0o755);
    open_to_all(&file, 0o644);
    open_to_all(&machine.state.path().join("gate-servers.json"), 0o644);
    let before = fs::read(&file).unwrap();
    let arguments = ["approve", "npm:docs", "search", &digest(SEARCH_ALL)];
    let (Some(show), Some(approve)) = (
        as_another_user(&machine, &["pins", "show", "npm:docs"]),
        as_another_user(&machine, &arguments),
    ) else {
        return;
    };
    assert_snapshot!(show);
    assert_snapshot!(approve);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn adirectory_that_can_not_be_written_is_said() {
    let machine = Machine::new();
    fs::create_dir(machine.state.path()).unwrap();
    open_to_all(machine.state.path().parent().unwrap(), 0o755);
    open_to_all(machine.state.path(), 0o555);
    let arguments = ["approve", "npm:docs", "search", &digest(SEARCH)];
    let said = as_another_user(&machine, &arguments).unwrap_or_else(|| machine.run(&arguments));
    assert_snapshot!(said);
}

#[test]
fn a_prompt_is_reported_once_for_each_text() {
    let mut pins = Pins::memory();
    let mut note = |text: &str| {
        let prompt = Definition::read(text);
        let mut report = false;
        pins.update(|record| {
            report = record.note_member(MemberKind::Prompt, "p", &prompt.digest(), text, MARCH);
        })
        .unwrap();
        report
    };
    let (one, two) = (r#"{"name":"p"}"#, r#"{"name":"p","title":"P"}"#);
    assert_eq!(
        [note(one), note(one), note(two), note(two), note(one), note(two)],
        [false, false, true, false, false, false]
    );
}
