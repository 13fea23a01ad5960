//! `wire`, `unwire` and the drill on the command line: what they say, what they write, how they end.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;
use serde_json::Value;

const EXECUTABLE: &str = env!("CARGO_BIN_EXE_mcpindex");

const CURSOR: &str = r#"{
  "mcpServers": {
    // the library's documentation
    "docs": {
      "command": "npx",
      "args": ["-y", "@example/docs@1.2.0", "--api-key", "abcdefghijkl"],
      "env": { "DOCS_TOKEN": "one-two-three" },
    },
    "board": {
      "url": "https://board.example.com/mcp",
      "headers": { "Authorization": "Bearer four-five-six" }
    },
    "signed-in": { "url": "https://sign.example.com/mcp" },
    "off": { "command": "uvx", "args": ["off-server"], "disabled": true }
  }
}
"#;

const CODEX: &str = "model = \"x\"\n\n[mcp_servers.clock]\ncommand = \"clock-server\"\n";

/// A home directory with these files.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Home {
        let home = Home {
            folder: tempfile::tempdir().unwrap(),
        };
        for (path, text) in files {
            home.put(path, text);
        }
        home
    }

    fn usual() -> Home {
        Home::new(&[(".cursor/mcp.json", CURSOR), (".codex/config.toml", CODEX)])
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(path)).unwrap()
    }

    fn has(&self, path: &str) -> bool {
        self.folder.path().join(path).exists()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
        Command::new(EXECUTABLE)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// What a person sees, with the places of this machine named.
    fn shown(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = format!(
            "exit {}\n{}--\n{}",
            output.status.code().unwrap_or(-1),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        self.named(&text)
    }

    fn named(&self, text: &str) -> String {
        text.replace(EXECUTABLE, "/opt/mcpindex")
            .replace(&self.folder.path().display().to_string(), "~")
    }
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn the_preview_shows_every_change_and_no_secret() {
    let home = Home::usual();
    let shown = home.shown(&["wire", "--dry-run"]);
    for secret in ["one-two-three", "four-five-six", "abcdefghijkl"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
    assert!(!home.has(".mcpindex"));
    assert_snapshot!(shown);
}

#[test]
fn without_a_terminal_nothing_is_written_unless_agreed_in_advance() {
    let home = Home::usual();
    let shown = home.shown(&["wire", "--host", "codex"]);
    assert_eq!(home.text(".codex/config.toml"), CODEX);
    assert_snapshot!(shown);
}

#[test]
fn wired_and_unwired_files_are_what_they_were() {
    let home = Home::usual();
    let wired = home.shown(&["wire", "--yes", "--posture", "strict"]);
    assert!(
        home.text(".codex/config.toml")
            .contains("\"--posture\", \"strict\", \"--\", \"clock-server\"")
    );
    assert!(
        home.text(".cursor/mcp.json")
            .contains("MCPINDEX_HEADER_AUTHORIZATION")
    );
    let again = home.shown(&["wire", "--yes"]);
    let unwired = home.shown(&["unwire", "--yes"]);
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
    assert_eq!(home.text(".codex/config.toml"), CODEX);
    assert!(
        wired.starts_with("exit 0") && wired.contains("Wired 4 servers in 2 files"),
        "{wired}"
    );
    assert_snapshot!("wired_again", again);
    assert_snapshot!("unwired", unwired);
}

/// What a person sees who answers so on a terminal.
fn answered(home: &Home, arguments: &[&str], answer: &str) -> (String, Option<i32>) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let end = || {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&name)
            .unwrap()
    };
    let mut terminal = std::fs::File::from(terminal);
    terminal.write_all(answer.as_bytes()).unwrap();
    let mut child = Command::new(EXECUTABLE)
        .args(arguments)
        .current_dir(home.folder.path())
        .env_clear()
        .env("HOME", home.folder.path())
        .env("NO_COLOR", "1")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    // A terminal that nobody writes to any more ends in an error.
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = terminal.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    let code = child.wait().unwrap().code();
    (
        home.named(&String::from_utf8(bytes).unwrap().replace('\r', "")),
        code,
    )
}

#[test]
fn on_a_terminal_each_file_is_asked_for() {
    let home = Home::usual();
    // The first is Codex's file, the second Cursor's.
    let (shown, code) = answered(&home, &["wire"], "n\ny\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(home.text(".codex/config.toml"), CODEX);
    assert!(home.text(".cursor/mcp.json").contains("gate"));
    assert!(
        shown.contains("Write this to ~/.codex/config.toml? [y/N]\nNot written."),
        "{shown}"
    );
    assert!(shown.contains("Wired 3 servers in 1 file."), "{shown}");
    let (shown, _) = answered(&home, &["unwire"], "yes\n");
    assert!(shown.contains("to the byte"), "{shown}");
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
    let (shown, _) = answered(&home, &["wire"], "\n\u{4}");
    assert!(shown.contains("Nothing was written."), "{shown}");
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
}

#[test]
fn one_server_of_one_host_is_wired() {
    let home = Home::usual();
    let shown = home.shown(&[
        "wire",
        "--yes",
        "--server",
        "clock",
        "--host",
        "codex",
        "--program",
        "mcpindex",
    ]);
    assert_snapshot!(shown);
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
}

#[test]
fn a_projects_file_is_wired_only_when_named() {
    let home = Home::new(&[
        (".mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}"),
        (".cursor/skip.json", "{}"),
    ]);
    assert_snapshot!(home.shown(&["wire", "--yes"]), @r##"
    exit 0
    No configuration of a known host was found. --config FILE names one.
    --
    "##);
    assert!(
        home.shown(&["wire", "--yes", "--config", ".mcp.json"])
            .contains("Wired 1 server in 1 file")
    );
    assert_snapshot!(home.shown(&["unwire", "--dry-run", "--config", ".mcp.json"]));
    home.run(&["unwire", "--yes", "--config", ".mcp.json"]);
    assert_eq!(
        home.text(".mcp.json"),
        "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_others_are_wired() {
    let home = Home::usual();
    home.put(
        ".kiro/settings/mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": }\n  }\n}",
    );
    let shown = home.shown(&["wire", "--yes", "--host", "kiro", "--host", "codex"]);
    assert!(home.text(".codex/config.toml").contains("gate"));
    assert_eq!(
        home.text(".kiro/settings/mcp.json"),
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": }\n  }\n}"
    );
    assert_snapshot!(shown);
}

#[test]
fn the_document_says_the_same() {
    let home = Home::usual();
    home.put(".kiro/settings/mcp.json", "{]");
    let output = home.run(&["wire", "--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(output.stderr.is_empty());
    assert_snapshot!(
        "wire_document",
        home.named(&String::from_utf8_lossy(&output.stdout))
    );
    let written = document(&home.run(&["wire", "--yes", "--json", "--host", "codex"]));
    assert_eq!(written["files"][0]["result"], "written");
    let unwired = document(&home.run(&["unwire", "--yes", "--json", "--host", "codex"]));
    assert_eq!(unwired["files"][0]["original"], true);
    assert_eq!(unwired["files"][0]["entries"][0]["fate"], "unwired");
}

#[test]
fn mistakes_are_told_in_one_line_and_nothing_is_written() {
    let home = Home::usual();
    let mut told = Vec::new();
    for arguments in [
        vec!["wire", "--host", "netscape"],
        vec!["wire", "--server", "nobody", "--yes"],
        vec!["wire", "--config", "missing.json", "--yes"],
        vec!["wire", "--config", ".cursor", "--yes"],
        vec!["wire", "--json"],
        vec!["wire", "--program", "./mcpindex", "--yes"],
        vec!["wire", "--program", "/nowhere/mcpindex", "--yes"],
        vec!["wire", "--approvals", "index", "--yes"],
        vec!["unwire", "--config", ".codex/config.toml", "--yes"],
    ] {
        told.push(format!("$ {}\n{}", arguments.join(" "), home.shown(&arguments)));
    }
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
    assert!(!home.has(".mcpindex/wired.json"));
    assert_snapshot!(told.join("\n"));
    for arguments in [
        vec!["wire", "--posture", "lax"],
        vec!["wire", "--yes", "--dry-run"],
        vec!["wire", "--off"],
        vec!["wire", "--drill", "--yes"],
        vec!["wire", "--host", "cursor", "--config", "x"],
    ] {
        assert_eq!(home.run(&arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_drill_is_a_file_that_comes_and_goes() {
    let home = Home::new(&[]);
    let armed = ".mcpindex/gate/drill-armed";
    assert_snapshot!("drill", home.shown(&["wire", "--drill"]));
    assert!(home.has(armed));
    assert_eq!(document(&home.run(&["wire", "--drill", "--json"]))["armed"], true);
    assert_snapshot!("drill_off", home.shown(&["wire", "--drill", "--off"]));
    assert!(!home.has(armed));
    assert_snapshot!("drill_off_again", home.shown(&["wire", "--drill", "--off"]));
    assert_eq!(
        document(&home.run(&["wire", "--drill", "--off", "--json"]))["armed"],
        false
    );
}

#[test]
fn another_state_directory_is_used_and_told() {
    let home = Home::usual();
    let state = home.folder.path().join("elsewhere");
    let output = home.run_with(&["wire", "--yes"], &[("MCPINDEX_STATE_DIR", &state)]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("only if its host hands the variable on"));
    assert!(home.has("elsewhere/wired.json") && !home.has(".mcpindex"));
    home.run_with(&["unwire", "--yes"], &[("MCPINDEX_STATE_DIR", &state)]);
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
}

#[test]
fn without_a_place_to_remember_nothing_is_written() {
    let home = Home::usual();
    home.put("state", "no folder");
    let state = home.folder.path().join("state");
    for command in ["wire", "unwire"] {
        let output = home.run_with(&[command, "--yes"], &[("MCPINDEX_STATE_DIR", &state)]);
        assert_eq!(output.status.code(), Some(1));
        let stderr = home.named(&String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            stderr,
            "mcpindex: ~/state/wired.json: Not a directory (os error 20)\n"
        );
    }
    let output = home.run_with(&["wire", "--yes"], &[("MCPINDEX_STATE_DIR", Path::new("state"))]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(home.text(".cursor/mcp.json"), CURSOR);
}

#[test]
fn the_record_is_this_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::usual();
    home.run(&["wire", "--yes"]);
    let path = home.folder.path().join(".mcpindex/wired.json");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let record = home.text(".mcpindex/wired.json");
    for secret in ["one-two-three", "four-five-six", "abcdefghijkl"] {
        assert!(!record.contains(secret), "{record}");
    }
}

#[test]
fn a_program_on_the_path_is_written_by_that_path() {
    let home = Home::usual();
    let bin = home.folder.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(EXECUTABLE, bin.join("mcpindex")).unwrap();
    home.run_with(&["wire", "--yes"], &[("PATH", &bin)]);
    let expected = format!("command = \"{}\"", bin.join("mcpindex").display());
    assert!(home.text(".codex/config.toml").contains(&expected));
}
