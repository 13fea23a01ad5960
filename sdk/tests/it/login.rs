//! `mcpindex login`, `whoami`, `logout` and `keys`: the program itself, with a stand-in for the index and for the browser.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use url::Url;

use crate::login_index::{Consent, StandIn, key_text};
use crate::review::{Machine, Terminal, terminal};

/// A desk with an index in its reach.
struct Desk {
    machine: Machine,
    index: StandIn,
}

impl Desk {
    fn new() -> Desk {
        Desk {
            machine: Machine::new(),
            index: StandIn::start(),
        }
    }

    /// One at which a person has signed in.
    fn signed_in() -> Desk {
        let desk = Desk::new();
        let said = desk.login(&[]);
        assert!(said.contains("exit 0"), "{said}");
        // It has this machine's name, which is another one elsewhere.
        desk.index.state().keys[0].name = "laptop".to_owned();
        desk
    }

    fn base(&self) -> &str {
        &self.index.base
    }

    fn file(&self) -> PathBuf {
        self.machine.state.path().join("credentials.json")
    }

    fn stored(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }

    /// What the program says, without what differs between machines; and no key in it.
    fn run(&self, arguments: &[&str]) -> String {
        self.shown(&self.machine.run(arguments))
    }

    fn run_command(&self, command: &mut Command) -> String {
        self.shown(&command.stdin(Stdio::null()).output().unwrap())
    }

    fn shown(&self, output: &Output) -> String {
        let shown = self.anywhere(&self.machine.shown(output));
        assert!(!shown.contains("mcpk_canary0"), "{shown}");
        shown
    }

    fn anywhere(&self, text: &str) -> String {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.machine
            .anywhere(text)
            .replace(self.base(), "BASE/")
            .replace(&format!("name={name}"), "name=NAME")
    }

    /// The program waits for a browser, which opens the address that it prints.
    fn login(&self, arguments: &[&str]) -> String {
        let mut login = Login::start(
            self.machine
                .command(&[&["login", self.base(), "--no-browser"], arguments].concat()),
        );
        let address = login.address();
        browse(&address);
        let said = login.ended(self);
        assert!(!said.contains("code-"), "{said}");
        said
    }

    /// Reads a key as a person brings it.
    fn login_with_token(&self, text: &str) -> String {
        let mut child = self
            .machine
            .command(&["login", self.base(), "--with-token"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // What is wrong before stdin is read ends the reading.
        drop(child.stdin.take().unwrap().write_all(text.as_bytes()));
        self.shown(&child.wait_with_output().unwrap())
    }
}

/// A `mcpindex login` under way.
struct Login {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Login {
    fn start(mut command: Command) -> Login {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Login {
            child,
            stderr,
            said: String::new(),
        }
    }

    fn until(&mut self, is_enough: impl Fn(&str) -> bool) -> String {
        loop {
            let mut line = String::new();
            let read = self.stderr.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it ended: {}", self.said);
            self.said.push_str(&line);
            if is_enough(&line) {
                return line;
            }
        }
    }

    /// The address for the browser, once the program waits for it.
    fn address(&mut self) -> String {
        let address = self.until(|line| line.starts_with("  http"));
        self.until(|line| line.starts_with("waiting for it"));
        address.trim().to_owned()
    }

    fn ended(mut self, desk: &Desk) -> String {
        self.stderr.read_to_string(&mut self.said).unwrap();
        let mut stdout = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let said = desk.anywhere(&format!("exit {code}\n{stdout}--\n{}", self.said));
        assert!(!said.contains("mcpk_"), "{said}");
        without_secrets(&said)
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The text with what is new each time left out.
fn without_secrets(text: &str) -> String {
    let mut text = text.to_owned();
    for name in ["port", "challenge", "state"] {
        let mark = format!("{name}=");
        let Some(start) = text.find(&mark).map(|at| at + mark.len()) else {
            continue;
        };
        let length = text[start..].find(['&', '\n', ' ']).unwrap_or(text.len() - start);
        text.replace_range(start..start + length, "NEW");
    }
    let mark = "has to show this code: ";
    if let Some(start) = text.find(mark).map(|at| at + mark.len()) {
        text.replace_range(start..start + 9, "CODE-NEW");
    }
    text
}

/// Opens an address as a browser does, through redirects; the last status.
#[expect(clippy::disallowed_methods, reason = "a server of the test itself")]
fn browse(address: &str) -> String {
    let url = Url::parse(address).unwrap();
    let authority = format!("{}:{}", url.host().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(&authority).unwrap();
    let target = &url[url::Position::BeforePath..];
    let request = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let location = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.to_owned())
    });
    match location {
        Some(location) => browse(&location),
        None => answer.lines().next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn a_browser_signs_in_and_the_key_is_kept() {
    let desk = Desk::new();
    assert_snapshot!(desk.login(&["--provider", "github"]), @r"
    exit 0
    signed in to BASE/ as ann
    the key key_0000000000000001 is good until 2027-05-29, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    --
    open this address in a browser on this machine:
      BASE/cli/login?port=NEW&challenge=NEW&state=NEW&name=NAME&provider=github
    its page has to show this code: CODE-NEW
    waiting for it, 5 minutes at most; Ctrl-C ends it
    ");
    let stored = desk.stored();
    assert_eq!(stored["api_key"], key_text(1));
    assert_eq!(stored["default"], desk.base());
    assert_eq!(stored["indexes"][desk.base()]["key_id"], "key_0000000000000001");
    assert_eq!(
        fs::metadata(desk.file()).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    let state = desk.index.state();
    assert_eq!(state.requests.len(), 3);
    assert_eq!(state.requests[0], "GET /.well-known/mcp-index.json no key");
    assert!(
        state.requests[1].ends_with("&provider=github no key"),
        "{}",
        state.requests[1]
    );
    assert_eq!(state.requests[2], "POST /api/v1/cli/token no key");
}

#[test]
fn a_browser_is_opened_where_there_is_one() {
    let desk = Desk::new();
    let programs = tempfile::tempdir().unwrap();
    let opened = programs.path().join("opened");
    let opener = programs.path().join("xdg-open");
    fs::write(
        &opener,
        format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display()),
    )
    .unwrap();
    fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    let mut command = desk.machine.command(&["login", desk.base()]);
    command.env("DISPLAY", ":0").env("PATH", programs.path());
    let mut login = Login::start(command);
    let address = login.address();
    browse(&address);
    assert_snapshot!(login.ended(&desk), @r"
    exit 0
    signed in to BASE/ as ann
    the key key_0000000000000001 is good until 2027-05-29, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    --
    a browser opens this address:
      BASE/cli/login?port=NEW&challenge=NEW&state=NEW&name=NAME
    its page has to show this code: CODE-NEW
    waiting for it, 5 minutes at most; Ctrl-C ends it
    ");
    assert_eq!(fs::read_to_string(opened).unwrap().trim(), address);
}

#[test]
fn where_no_browser_can_be_opened_the_address_and_the_other_way_are_told() {
    let mut said = String::new();
    for variables in [
        &[][..],
        &[("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"), ("DISPLAY", ":0")],
    ] {
        let desk = Desk::new();
        let mut command = desk.machine.command(&["login", desk.base()]);
        command.envs(variables.iter().copied());
        let mut login = Login::start(command);
        browse(&login.address());
        said += &login.ended(&desk);
    }
    assert_snapshot!(said, @r"
    exit 0
    signed in to BASE/ as ann
    the key key_0000000000000001 is good until 2027-05-29, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    --
    no browser is opened: this machine has no display
    open this address in a browser on this machine:
      BASE/cli/login?port=NEW&challenge=NEW&state=NEW&name=NAME
    its page has to show this code: CODE-NEW
    no browser on this machine? `mcpindex login BASE/ --device` uses one on another
    waiting for it, 5 minutes at most; Ctrl-C ends it
    exit 0
    signed in to BASE/ as ann
    the key key_0000000000000001 is good until 2027-05-29, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    --
    no browser is opened: this is a session over SSH
    open this address in a browser on this machine:
      BASE/cli/login?port=NEW&challenge=NEW&state=NEW&name=NAME
    its page has to show this code: CODE-NEW
    no browser on this machine? `mcpindex login BASE/ --device` uses one on another
    waiting for it, 5 minutes at most; Ctrl-C ends it
    ");
}

#[test]
fn an_opener_that_is_missing_is_told_while_it_waits() {
    let desk = Desk::new();
    let mut command = desk.machine.command(&["login", desk.base()]);
    command.env("DISPLAY", ":0").env("PATH", "/nonexistent");
    let mut login = Login::start(command);
    let address = login.address();
    let told = login.until(|line| line.starts_with("no browser could be opened"));
    assert_snapshot!(told, @r"no browser could be opened (no program that opens one is installed): open the address above yourself");
    browse(&address);
    assert!(login.ended(&desk).starts_with("exit 0\n"));
}

#[test]
fn at_a_terminal_the_person_turns_to_another_machines_browser() {
    let desk = Desk::new();
    let mut command = desk.machine.command(&["login", desk.base()]);
    command.env("NO_COLOR", "1");
    let mut person = Terminal::start(command, 200);
    let before = person.read_until(|seen| seen.contains("waiting for it"));
    let after = person.types_last("what\nd\n");
    assert_snapshot!(without_secrets(&desk.anywhere(&format!("{before}{after}"))), @r"
    no browser is opened: this machine has no display
    open this address in a browser on this machine:
      BASE/cli/login?port=NEW&challenge=NEW&state=NEW&name=NAME
    its page has to show this code: CODE-NEW
    no browser on this machine? type d and Enter to use one on another
    waiting for it, 5 minutes at most; Ctrl-C ends it
    open this address in a browser on any machine:
      BASE/device
    and type this code there, if it is you who signs in: WDJB-MJHT
    waiting for it, 10 minutes at most; Ctrl-C ends it
    signed in to BASE/ as ann
    the key key_0000000000000001 is good until 2027-05-29, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    exit 0
    ");
}

#[test]
fn a_refused_consent_and_a_spent_code_store_nothing() {
    let desk = Desk::new();
    desk.index.state().consent = Consent::Refused;
    let mut said = last_line(&desk.login(&[]));
    desk.index.state().consent = Consent::OfAnother;
    said += &last_line(&desk.login(&[]));
    desk.index.state().consent = Consent::Given;
    desk.index.state().takes_no_code = true;
    said += &last_line(&desk.login(&[]));
    assert_snapshot!(said, @r"
    exit 11: error: the sign-in was refused: consent was not given in the browser
    exit 5: error: the answer came from `https://evil.example/`, and the sign-in began at `BASE/`: use the address that the index itself goes by
    exit 11: error: BASE/ does not take the code of this sign-in (The code is not known, was used or has ended): sign in again
    ");
    assert!(!desk.file().exists());
}

/// The exit and the last line.
fn last_line(said: &str) -> String {
    let exit = said.lines().next().unwrap_or_default();
    format!("{exit}: {}\n", said.lines().last().unwrap_or_default())
}

#[test]
fn a_request_that_is_not_of_this_sign_in_does_not_end_it() {
    let desk = Desk::new();
    let mut login = Login::start(desk.machine.command(&["login", desk.base(), "--no-browser"]));
    let address = login.address();
    let url = Url::parse(&address).unwrap();
    let port = url.query_pairs().find(|(name, _)| name == "port").unwrap().1;
    let status = browse(&format!("http://127.0.0.1:{port}/callback?code=x&state=y&iss=z"));
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert_eq!(browse(&address), "HTTP/1.1 200 OK");
    assert!(login.ended(&desk).starts_with("exit 0\n"));
}

#[test]
fn ctrl_c_ends_it_cleanly() {
    for arguments in [&["--no-browser"][..], &["--device"]] {
        let desk = Desk::new();
        desk.index.state().polls.extend(["authorization_pending"; 100]);
        let mut login = Login::start(
            desk.machine
                .command(&[&["login", desk.base()], arguments].concat()),
        );
        login.address();
        kill_process(Pid::from_child(&login.child), Signal::INT).unwrap();
        let said = login.ended(&desk);
        assert_eq!(
            last_line(&said),
            "exit 130: error: stopped: nobody was signed in\n",
            "{said}"
        );
        assert!(!desk.file().exists());
    }
}

#[test]
fn a_device_signs_in_once_a_person_allowed_it() {
    let desk = Desk::new();
    desk.index.state().polls.push_back("authorization_pending");
    assert_snapshot!(desk.run(&["login", desk.base(), "--device"]), @r"
    exit 0
    signed in to BASE/ as ann
    the key key_0000000000000001 is good until 2027-05-29, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    --
    open this address in a browser on any machine:
      BASE/device
    and type this code there, if it is you who signs in: WDJB-MJHT
    waiting for it, 10 minutes at most; Ctrl-C ends it
    ");
    assert_eq!(desk.stored()["api_key"], key_text(1));
}

#[test]
fn a_device_that_is_refused_or_not_offered_is_told_so() {
    let desk = Desk::new();
    let mut said = String::new();
    for error in ["access_denied", "expired_token", "invalid_grant"] {
        desk.index.state().polls.push_back(error);
        said += &last_line(&desk.run(&["login", desk.base(), "--device"]));
    }
    desk.index.state().has_no_device = true;
    said += &last_line(&desk.run(&["login", desk.base(), "--device"]));
    desk.index.state().failing = Some(429);
    said += &last_line(&desk.run(&["login", desk.base(), "--device"]));
    assert_snapshot!(said, @r"
    exit 11: error: the sign-in was refused: the person at the other browser did not allow it
    exit 11: error: nobody allowed it in time: sign in again
    exit 11: error: the sign-in was refused: invalid_grant
    exit 11: error: BASE/ offers no sign-in by device: sign in with a browser, or with `--with-token`
    exit 13: error: BASE/ asks to wait: try again in 60 s
    ");
    assert!(!desk.file().exists());
}

#[test]
fn a_key_from_stdin_is_kept_when_the_index_takes_it() {
    let desk = Desk::new();
    let key = desk.index.state().add_key("ci");
    assert_snapshot!(desk.login_with_token(&format!("{key}\n")), @r"
    exit 0
    signed in to BASE/ as ann
    the key key_0000000000000001 is good without end, and kept in `MACHINE/state/credentials.json`
    it is this machine's default index
    --
    ");
    assert_eq!(desk.stored()["api_key"], key.as_str());
    let mut said = String::new();
    for text in [
        "",
        "ghp_0123456789",
        &key[..40],
        &key.replace("canary", "Canary"),
        &key_text(99),
    ] {
        said += &last_line(&desk.login_with_token(text));
    }
    assert_snapshot!(said, @r"
    exit 2: error: stdin: there is no key: it is empty
    exit 2: error: stdin: this is no key of an index: keys begin with mcpk_
    exit 2: error: stdin: the key has 40 characters, and a key has 41: part of it is missing, or something was added
    exit 2: error: stdin: the key's checksum is wrong: a character of it was changed or left out
    exit 11: error: BASE/ does not accept the key: it has expired, was revoked, or is of another index; `mcpindex login BASE/` gets a new one
    ");
    assert_eq!(desk.stored()["api_key"], key.as_str());
}

#[test]
fn a_key_is_not_typed_at_a_terminal() {
    let desk = Desk::new();
    let person = terminal(
        &desk.machine,
        &["login", "https://index.example", "--with-token"],
        200,
    );
    assert_snapshot!(person.types_last(""), @r"
    error: --with-token reads the key from stdin, and stdin is a terminal, where it would be seen: `mcpindex login https://index.example/ --with-token < FILE`
    exit 2
    ");
}

#[test]
fn mistakes_ask_nothing() {
    let desk = Desk::new();
    let mut said = String::new();
    for arguments in [
        &["login"][..],
        &["login", "index.example"],
        &["login", "http://index.example"],
        &["login", "https://ann:canary@index.example"],
        &["whoami"],
        &["whoami", desk.base()],
        &["logout"],
        &["logout", desk.base()],
        &["keys", "list"],
        &["keys", "revoke", "key_1", "--index", "nonsense"],
    ] {
        said += &format!(
            "{}: {}",
            arguments.join(" ").replace(desk.base(), "BASE/"),
            desk.run(arguments)
        );
    }
    assert_snapshot!(said);
    assert_eq!(desk.index.state().requests.len(), 0);
}

#[test]
fn usage_is_told_and_a_document_where_one_is_due() {
    let desk = Desk::new();
    let mut said = String::new();
    for arguments in [
        &["login", "--device", "--with-token"][..],
        &["login", "--device", "--provider", "github"],
        &["whoami", "--json", "--nonsense"],
        &["keys", "create", "--json"],
    ] {
        said += &desk.run(arguments);
    }
    assert_snapshot!(said);
}

#[test]
fn each_help_has_examples() {
    let desk = Desk::new();
    let mut said = String::new();
    for command in ["login", "whoami", "logout", "keys"] {
        let help = desk.run(&[command, "--help"]);
        assert!(help.contains("Examples:\n"), "{help}");
        said += &help;
    }
    assert_snapshot!(said);
}

#[test]
fn nothing_is_asked_where_a_key_could_not_be_kept() {
    let mut said = String::new();
    // Not as root, whom no mode stops.
    let is_root = rustix::process::geteuid().is_root();
    let check = |prepare: &dyn Fn(&Desk)| {
        let desk = Desk::new();
        fs::create_dir_all(desk.machine.state.path()).unwrap();
        prepare(&desk);
        let mut told = String::new();
        for way in ["--no-browser", "--device", "--with-token"] {
            told = desk.run(&["login", desk.base(), way]);
        }
        assert_eq!(desk.index.state().requests.len(), 0);
        told
    };
    said += &check(&|desk| fs::write(desk.file(), "{}").unwrap());
    said += &check(&|desk| std::os::unix::fs::symlink("/nonexistent", desk.file()).unwrap());
    said += &check(&|desk| {
        fs::write(desk.file(), "{\"api_key\": ").unwrap();
        fs::set_permissions(desk.file(), Permissions::from_mode(0o600)).unwrap();
    });
    assert_snapshot!(said);
    if !is_root {
        let told = check(&|desk| {
            fs::set_permissions(desk.machine.state.path(), Permissions::from_mode(0o500)).unwrap();
        });
        assert!(told.contains("can't be written (permission denied)"), "{told}");
    }
}

#[test]
fn a_second_sign_in_ends_the_key_that_it_replaces() {
    let desk = Desk::signed_in();
    let said = desk.login(&[]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(desk.index.state().revoked(), ["key_0000000000000001"]);
    assert_eq!(desk.stored()["api_key"], key_text(2));
    // A key that somebody brought along is theirs.
    let brought = desk.index.state().add_key("ci");
    desk.login_with_token(&brought);
    assert_eq!(desk.index.state().revoked().len(), 2);
    desk.login(&[]);
    assert_eq!(desk.index.state().revoked().len(), 2);
    // One that can't be ended is told.
    desk.index.state().failing_deletes = Some(500);
    assert_snapshot!(last_line(&desk.login(&[])), @r"exit 0: note: key_0000000000000004, which it replaces, could not be revoked (BASE/ can't answer now: This is a test of what is said then) and stays good until 2027-05-29: `mcpindex keys revoke key_0000000000000004`");
}

#[test]
fn the_first_index_stays_the_default_one() {
    let desk = Desk::signed_in();
    let other = StandIn::start();
    let sign_in = |arguments: &[&str]| {
        let mut login = Login::start(
            desk.machine
                .command(&[&["login", &other.base, "--no-browser"], arguments].concat()),
        );
        browse(&login.address());
        login.ended(&desk).replace(&other.base, "OTHER/")
    };
    let told = sign_in(&[]);
    assert!(
        told.contains("\nthe default index stays BASE/: `--default` changes that\n"),
        "{told}"
    );
    assert_eq!(desk.stored()["default"], desk.base());
    assert!(desk.run(&["whoami"]).contains("ann at BASE/"));
    let told = sign_in(&["--default"]);
    assert!(told.contains("\nit is this machine's default index\n"), "{told}");
    assert_eq!(desk.stored()["default"], other.base.as_str());
    assert_eq!(desk.stored()["indexes"].as_object().unwrap().len(), 2);
    desk.run(&["logout"]);
    let told = desk.run(&["whoami"]);
    assert_snapshot!(told, @r"
    exit 2
    --
    error: which index? This machine is signed in to BASE/, and none is the default: name one, or set MCPINDEX_WEB_BASE
    ");
}

#[test]
fn the_index_says_who_this_machine_is() {
    let desk = Desk::signed_in();
    assert_snapshot!(desk.run(&["whoami"]), @r"
    exit 0
    ann at BASE/ (member, by https://github.example)
    key laptop (key_0000000000000001, mcpk_cana…): read ingest, until 2027-05-29
    --
    ");
    assert_snapshot!(desk.run(&["whoami", "--json"]), @r#"
    exit 0
    {
      "schema": "mcpindex.account/1",
      "base": "BASE/",
      "login": "ann",
      "role": "member",
      "issuer": "https://github.example",
      "key": {
        "id": "key_0000000000000001",
        "name": "laptop",
        "shown": "mcpk_cana…",
        "scopes": [
          "read",
          "ingest"
        ],
        "expiresAt": "2027-05-29T00:00:00Z"
      }
    }
    --
    "#);
    let mut command = desk.machine.command(&["whoami"]);
    let given = desk.index.state().add_key("ci");
    command.env("MCPINDEX_API_KEY", given);
    assert_snapshot!(desk.run_command(&mut command), @r"
    exit 0
    ann at BASE/ (member, by https://github.example)
    key ci (key_0000000000000002, mcpk_cana…): read, without end, given by MCPINDEX_API_KEY
    --
    ");
}

#[test]
fn a_program_signs_in_by_variables_alone() {
    let desk = Desk::new();
    let given = desk.index.state().add_key("ci");
    let mut command = desk.machine.command(&["whoami"]);
    command
        .env("MCPINDEX_WEB_BASE", desk.base())
        .env("MCPINDEX_API_KEY", &given);
    assert!(desk.run_command(&mut command).starts_with("exit 0\nann at BASE/"));
    let mut said = String::new();
    for (base, key) in [
        (desk.base(), &given[..40]),
        ("nonsense", &given),
        ("http://index.example", &given),
    ] {
        let mut command = desk.machine.command(&["whoami"]);
        command
            .env("MCPINDEX_WEB_BASE", base)
            .env("MCPINDEX_API_KEY", key);
        said += &desk.run_command(&mut command);
    }
    assert_snapshot!(said, @r"
    exit 2
    --
    error: MCPINDEX_API_KEY: the key has 40 characters, and a key has 41: part of it is missing, or something was added
    exit 2
    --
    error: MCPINDEX_WEB_BASE: `nonsense` is no address of an index: it begins with https://, or with http:// on this machine
    exit 2
    --
    error: http://index.example/ would get the key over plain HTTP, where others can read it: use its https:// address
    ");
}

#[test]
fn a_key_that_is_good_no_more_is_told_and_an_index_that_can_not_answer_too() {
    let desk = Desk::signed_in();
    let mut said = String::new();
    desk.index.state().keys[0].revoked = true;
    for status in [None, Some(403), Some(404), Some(429), Some(500), Some(302)] {
        desk.index.state().failing = status;
        said += &desk.run(&["whoami"]);
    }
    said += &desk.run(&["whoami", "--json"]);
    assert_snapshot!(said, @r#"
    exit 11
    --
    error: BASE/ does not accept the key: it has expired, was revoked, or is of another index; `mcpindex login BASE/` gets a new one
    exit 11
    --
    error: BASE/ does not allow it: This is a test of what is said then
    exit 5
    --
    error: BASE/ is no index, or an older one: This is a test of what is said then
    exit 13
    --
    error: BASE/ asks to wait: try again in 60 s
    exit 5
    --
    error: BASE/ can't answer now: This is a test of what is said then
    exit 5
    --
    error: BASE/ redirects elsewhere, which is not followed: name the index by its own address
    exit 5
    {
      "schema": "mcpindex.account/1",
      "error": "BASE/ redirects elsewhere, which is not followed: name the index by its own address"
    }
    --
    error: BASE/ redirects elsewhere, which is not followed: name the index by its own address
    "#);
}

#[test]
fn a_sign_out_revokes_and_removes() {
    let desk = Desk::signed_in();
    assert_snapshot!(desk.run(&["logout"]), @r"
    exit 0
    signed out of BASE/: key_0000000000000001 is revoked, and removed from `MACHINE/state/credentials.json`
    --
    ");
    assert_eq!(desk.index.state().revoked(), ["key_0000000000000001"]);
    assert_eq!(fs::read_to_string(desk.file()).unwrap(), "{}\n");
    assert_snapshot!(desk.run(&["logout", desk.base()]), @r"
    exit 0
    nobody was signed in to BASE/ here
    --
    ");
}

#[test]
fn a_sign_out_says_what_remains() {
    let mut said = String::new();
    let check = |prepare: &dyn Fn(&Desk), arguments: &[&str]| {
        let desk = Desk::signed_in();
        prepare(&desk);
        let told = desk.run(&[&["logout"], arguments].concat());
        assert_eq!(fs::read_to_string(desk.file()).unwrap(), "{}\n");
        told
    };
    said += &check(&|desk| desk.index.state().failing_deletes = Some(500), &[]);
    said += &check(&|desk| desk.index.state().failing_deletes = Some(503), &[]);
    said += &check(&|desk| desk.index.state().keys[0].revoked = true, &[]);
    said += &check(&|_| {}, &["--keep-key"]);
    assert_snapshot!(said, @r"
    exit 5
    signed out of BASE/: key_0000000000000001 is removed from `MACHINE/state/credentials.json`
    --
    error: it could not be revoked, and stays good until 2027-05-29: BASE/ can't answer now: This is a test of what is said then; revoke it on BASE/account, or by `mcpindex keys revoke key_0000000000000001` from a machine that is signed in
    exit 5
    signed out of BASE/: key_0000000000000001 is removed from `MACHINE/state/credentials.json`
    --
    error: it could not be revoked, and stays good until 2027-05-29: BASE/ asks to wait: try again in 60 s; revoke it on BASE/account, or by `mcpindex keys revoke key_0000000000000001` from a machine that is signed in
    exit 0
    signed out of BASE/: key_0000000000000001 was no longer good there, and is removed from `MACHINE/state/credentials.json`
    --
    exit 0
    signed out of BASE/: key_0000000000000001 is removed from `MACHINE/state/credentials.json`, and stays good until 2027-05-29
    --
    ");
}

#[test]
fn a_404_of_any_other_server_is_no_word_of_an_index() {
    let desk = Desk::signed_in();
    desk.index.state().failing = Some(404);
    assert!(
        desk.run(&["keys", "revoke", "key_0000000000000001"])
            .starts_with("exit 5\n")
    );
    let told = desk.run(&["logout"]);
    assert!(
        told.contains("could not be revoked, and stays good until 2027-05-29"),
        "{told}"
    );
}

#[test]
fn a_sign_out_leaves_a_key_that_was_given_to_its_other_users() {
    let desk = Desk::new();
    let key = desk.index.state().add_key("ci");
    desk.login_with_token(&key);
    let mut said = desk.run(&["logout"]);
    assert_eq!(desk.index.state().revoked(), [""; 0]);
    desk.login_with_token(&key);
    said += &desk.run(&["logout", "--revoke"]);
    assert_eq!(desk.index.state().revoked(), ["key_0000000000000001"]);
    assert_snapshot!(said, @r#"
    exit 0
    signed out of BASE/: key_0000000000000001 is removed from `MACHINE/state/credentials.json`
    --
    note: it was given with `--with-token` and may be used elsewhere, so it stays good without end; on a machine that is signed in, `mcpindex keys revoke key_0000000000000001` ends it
    exit 0
    signed out of BASE/: key_0000000000000001 is revoked, and removed from `MACHINE/state/credentials.json`
    --
    "#);
}

#[test]
fn an_index_that_signs_nobody_in_is_told_at_once() {
    let desk = Desk::new();
    let mut said = String::new();
    let mut check = |sign_in: Value, arguments: &[&str]| {
        desk.index.state().description = Some(json!({ "index": "mcpindex", "sign_in": sign_in }));
        said += &last_line(&desk.run(&[&["login", desk.base()], arguments].concat()));
    };
    check(json!({"providers": [], "device": false}), &[]);
    check(json!({"providers": [], "device": false}), &["--device"]);
    check(json!({"providers": ["github"], "device": false}), &["--device"]);
    check(
        json!({"providers": ["github", "oidc"], "device": true}),
        &["--provider", "okta"],
    );
    assert_snapshot!(said, @r#"
    exit 11: error: BASE/ signs nobody in: its administrator makes keys (`mcpindex-server admin create-key`), and `mcpindex login BASE/ --with-token` takes one
    exit 11: error: BASE/ signs nobody in: its administrator makes keys (`mcpindex-server admin create-key`), and `mcpindex login BASE/ --with-token` takes one
    exit 11: error: BASE/ offers no sign-in by device: sign in with a browser, or with `--with-token`
    exit 2: error: BASE/ has no provider `okta`: it has github, oidc
    "#);
    let asked = desk.index.state().requests.clone();
    assert_eq!(asked, ["GET /.well-known/mcp-index.json no key"; 4]);
}

#[test]
fn an_index_that_can_not_be_reached_is_told_before_anybody_waits() {
    let desk = Desk::new();
    let said = desk.run(&["login", "http://127.0.0.1:1/"]);
    assert!(said.starts_with("exit 5\n"), "{said}");
}

#[test]
fn a_sign_out_leaves_the_published_clients_key() {
    let desk = Desk::new();
    fs::create_dir_all(desk.machine.state.path()).unwrap();
    fs::write(desk.file(), "{\"api_key\":\"mcpk_published\"}\n").unwrap();
    fs::set_permissions(desk.file(), Permissions::from_mode(0o600)).unwrap();
    assert_snapshot!(desk.run(&["whoami"]), @r"
    exit 11
    --
    error: `MACHINE/state/credentials.json` holds a key of the published client, which does not say which index gave it, so it is sent to none: sign in with `mcpindex login https://…`
    ");
    desk.login(&[]);
    assert_eq!(desk.stored()["api_key"], key_text(1));
    desk.run(&["logout"]);
    assert_eq!(desk.stored(), serde_json::json!({"api_key": "mcpk_published"}));
}

#[test]
fn keys_are_listed() {
    let desk = Desk::signed_in();
    desk.index.state().add_key("\u{1b}[31mred");
    desk.index.state().add_key("old");
    desk.index.state().keys[2].revoked = true;
    assert_snapshot!(desk.run(&["keys", "list"]), @r"
    exit 0
    keys at BASE/
      key_0000000000000001  laptop         mcpk_cana…  read ingest, until 2027-05-29, never used, the one that asks
      key_0000000000000002  \u{1b}[31mred  mcpk_cana…  read, without end, never used
      key_0000000000000003  old            mcpk_cana…  read, revoked on 2026-12-01, never used
    --
    ");
    assert_snapshot!(desk.run(&["keys", "list", "--json"]));
}

#[test]
fn a_key_is_made_and_is_all_that_is_on_stdout() {
    let desk = Desk::signed_in();
    let made = desk
        .machine
        .run(&["keys", "create", "--name", "ci", "--days", "90"]);
    assert_eq!(
        String::from_utf8_lossy(&made.stdout),
        format!("{}\n", key_text(2))
    );
    assert_snapshot!(desk.anywhere(&String::from_utf8_lossy(&made.stderr)), @r"
    ci (key_0000000000000002) at BASE/: mcpk_cana…  read, until 2027-05-29, never used
    the key, which is shown this once:
    ");
    let made = desk.machine.run(&[
        "keys",
        "create",
        "--name",
        "ci",
        "--no-expiry",
        "--scope",
        "read",
        "--scope",
        "ingest",
        "--json",
    ]);
    let document: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(document["secret"], key_text(3));
    assert_eq!(document["key"]["scopes"], serde_json::json!(["read", "ingest"]));
    assert_eq!(document["key"]["expiresAt"], Value::Null);
    assert_snapshot!(desk.run(&["keys", "create", "--name", "root", "--scope", "admin"]), @r"
    exit 11
    --
    error: BASE/ does not allow it: A key makes keys of its own scopes, and no others
    ");
}

#[test]
fn this_machines_key_is_replaced_without_being_shown() {
    let desk = Desk::signed_in();
    assert_snapshot!(desk.run(&["keys", "rotate"]), @r"
    exit 0
    --
    the key of this machine is key_0000000000000002 now; key_0000000000000001 ends in 24 hours
    laptop (key_0000000000000002) at BASE/: mcpk_cana…  read ingest, until 2027-05-29, never used
    ");
    assert_eq!(desk.stored()["api_key"], key_text(2));
    assert_eq!(
        desk.stored()["indexes"][desk.base()]["key_id"],
        "key_0000000000000002"
    );
    let document: Value =
        serde_json::from_slice(&desk.machine.run(&["keys", "rotate", "--json"]).stdout).unwrap();
    assert_eq!(document["key"]["id"], "key_0000000000000003");
    assert_eq!(document.get("secret"), None);
    assert_eq!(desk.stored()["api_key"], key_text(3));
}

#[test]
fn another_key_is_replaced_and_shown_once() {
    let desk = Desk::signed_in();
    desk.index.state().add_key("ci");
    let rotated = desk.machine.run(&["keys", "rotate", "key_0000000000000002"]);
    assert_eq!(
        String::from_utf8_lossy(&rotated.stdout),
        format!("{}\n", key_text(3))
    );
    assert_eq!(desk.stored()["api_key"], key_text(1));
    assert_snapshot!(desk.run(&["keys", "rotate", "key_ffff"]), @r"
    exit 12
    --
    error: BASE/ has no such key of yours: `mcpindex keys list` names them
    ");
    // The key of a variable is not kept here, and so it is shown.
    let given = desk.index.state().add_key("given");
    let mut command = desk.machine.command(&["keys", "rotate"]);
    let rotated = command.env("MCPINDEX_API_KEY", given).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&rotated.stdout),
        format!("{}\n", key_text(5))
    );
    assert_eq!(desk.stored()["api_key"], key_text(1));
}

#[test]
fn a_key_is_revoked_and_ones_own_is_forgotten_too() {
    let desk = Desk::signed_in();
    desk.index.state().add_key("ci");
    let mut said = String::new();
    for id in [
        "key_0000000000000002",
        "key_0000000000000002",
        "../whoami?x",
        "key_0000000000000001",
    ] {
        said += &desk.run(&["keys", "revoke", id]);
    }
    said += &desk.run(&["keys", "list"]);
    assert_snapshot!(said, @r"
    exit 0
    key_0000000000000002 is revoked; within 30 seconds nobody is let in with it
    --
    exit 12
    --
    error: BASE/ has no such key of yours: `mcpindex keys list` names them
    exit 12
    --
    error: BASE/ has no such key of yours: `mcpindex keys list` names them
    exit 0
    key_0000000000000001 is revoked; within 30 seconds nobody is let in with it
    --
    it was the key of this machine, which is signed out of BASE/ now: `mcpindex login BASE/`
    exit 11
    --
    error: there is no index: nobody has signed in here, and MCPINDEX_WEB_BASE is not set (`mcpindex login https://…` signs in)
    ");
    assert_eq!(fs::read_to_string(desk.file()).unwrap(), "{}\n");
}

#[test]
fn a_key_is_revoked_even_where_the_keys_here_can_not_be_read() {
    let desk = Desk::signed_in();
    let key = desk.index.state().add_key("ci");
    fs::set_permissions(desk.file(), Permissions::from_mode(0o644)).unwrap();
    let mut command =
        desk.machine
            .command(&["keys", "revoke", "key_0000000000000002", "--index", desk.base()]);
    let said = desk.run_command(command.env("MCPINDEX_API_KEY", key));
    assert_snapshot!(said, @r#"
    exit 0
    key_0000000000000002 is revoked; within 30 seconds nobody is let in with it
    --
    note: whether it is kept here can't be said: `MACHINE/state/credentials.json` is open to other users (mode 0644) and not used: run `chmod 600 MACHINE/state/credentials.json`, and `mcpindex logout`, then `mcpindex login`, if others use this machine
    "#);
    assert_eq!(desk.index.state().revoked(), ["key_0000000000000002"]);
}

#[test]
fn no_address_that_was_asked_holds_a_secret() {
    let desk = Desk::signed_in();
    desk.run(&["whoami"]);
    desk.run(&["keys", "rotate"]);
    desk.run(&["logout"]);
    let state = desk.index.state();
    for request in &state.requests {
        assert!(
            !request.contains("mcpk_") && !request.contains("verifier"),
            "{request}"
        );
    }
    assert!(
        state
            .requests
            .iter()
            .any(|request| request.starts_with("DELETE "))
    );
}
