//! The configurations of hosts: found on three systems, read in every format, wired and unwired to the byte.

use std::path::PathBuf;

use insta::assert_snapshot;
use mcpindex::clients::{
    ConfigFile, Entry, Environment, Fate, GateLine, HOSTS, Platform, Record, Rewrite, Wiring, configurations,
};
use mcpindex::state::StateDirectory;

pub(crate) const PROGRAM: &str = "/usr/local/bin/mcpindex";

/// One folder with a configuration and the state.
pub(crate) struct Desk {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) line: GateLine,
}

impl Desk {
    pub(crate) fn new(name: &str, text: &[u8]) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        Desk {
            folder,
            path,
            line: GateLine {
                program: PROGRAM.to_owned(),
                posture: None,
                obeys: false,
                url_entries: false,
            },
        }
    }

    pub(crate) fn text(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(crate) fn state(&self) -> StateDirectory {
        StateDirectory::at(self.folder.path().join("state"))
    }

    pub(crate) fn file(&self) -> ConfigFile {
        ConfigFile::read(&self.path).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.file().entries().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Wires what `names` has, or everything, and says what became of each.
    pub(crate) fn wire(&self, names: &[&str]) -> Vec<(String, Fate)> {
        let mut record = Record::open(&self.state()).unwrap();
        let file = self.file();
        let is_meant = |entry: &Entry| names.is_empty() || names.contains(&entry.name.as_str());
        let rewrite = Rewrite::wire(&file, &record, &self.line, &is_meant).unwrap();
        if rewrite.changes() {
            rewrite.write(&file, &mut record).unwrap();
        }
        fates(&rewrite)
    }

    /// Wires everything, if the file can be read.
    pub(crate) fn try_wire(&self) {
        if ConfigFile::read(&self.path)
            .and_then(|file| file.entries())
            .is_ok()
        {
            self.wire(&[]);
        }
    }

    /// As [`Desk::wire`]; also whether the file is what it was.
    pub(crate) fn unwire(&self, names: &[&str]) -> (Vec<(String, Fate)>, bool) {
        let mut record = Record::open(&self.state()).unwrap();
        let file = self.file();
        let is_meant = |entry: &Entry| names.is_empty() || names.contains(&entry.name.as_str());
        let rewrite = Rewrite::unwire(&file, &record, &is_meant).unwrap();
        if rewrite.changes() {
            rewrite.write(&file, &mut record).unwrap();
        }
        (fates(&rewrite), rewrite.is_original)
    }

    pub(crate) fn record(&self) -> String {
        std::fs::read_to_string(self.state().path().join("wired.json")).unwrap()
    }

    /// The reason why the only entry is left alone; nothing is written.
    pub(crate) fn left_alone(&self) -> String {
        let before = self.text();
        let fates = self.wire(&[]);
        assert_eq!(self.text(), before);
        match fates.as_slice() {
            [(_, Fate::LeftAlone(reason))] => reason.clone(),
            other => panic!("{other:?}"),
        }
    }
}

fn fates(rewrite: &Rewrite) -> Vec<(String, Fate)> {
    rewrite
        .entries
        .iter()
        .map(|(entry, fate)| (entry.name.clone(), fate.clone()))
        .collect()
}

/// Wires every entry, checks that each is now gated and starts what it started, and that unwiring gives the file back to the
/// byte. What the wired file was is returned.
pub(crate) fn round_trip(desk: &Desk) -> String {
    let before = desk.text();
    let entries = desk.entries();
    let fates = desk.wire(&[]);
    let wired = desk.text();
    for ((entry, now), (name, fate)) in entries.iter().zip(desk.entries()).zip(&fates) {
        assert_eq!(*fate, Fate::Wired, "{name}");
        assert!(matches!(now.wiring, Wiring::Gate { .. }), "{name}");
        assert!(now.launch == entry.launch, "{name}: {}", now.launch.shown());
        assert_eq!(now.identity, entry.identity, "{name}");
    }
    let (fates, is_original) = desk.unwire(&[]);
    assert!(fates.iter().all(|(_, fate)| *fate == Fate::Unwired), "{fates:?}");
    assert!(is_original);
    assert_eq!(
        String::from_utf8_lossy(&desk.text()),
        String::from_utf8_lossy(&before)
    );
    assert_eq!(desk.text(), before);
    assert!(!desk.record().contains("\"path\""));
    String::from_utf8(wired).unwrap()
}

pub(crate) fn check(name: &str, text: &str) -> String {
    round_trip(&Desk::new(name, text.as_bytes()))
}

/// A file that each host may have.
pub(crate) fn example(host: &str) -> &'static str {
    match host {
        "amp" => {
            "{\n  \"amp.notifications.enabled\": true,\n  \"amp.mcpServers\": {\n    \"files\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"@example/files\", \"/data\"]\n    }\n  }\n}\n"
        }
        "claude-code" => {
            r#"{
  "numStartups": 12,
  "mcpServers": {
    "notes": {
      "type": "stdio",
      "command": "uvx",
      "args": [
        "notes-server",
        "--root",
        "/home/me/notes"
      ],
      "env": {
        "NOTES_TOKEN": "one-two-three"
      }
    },
    "board": {
      "type": "http",
      "url": "https://board.example.com/mcp",
      "headers": {
        "Authorization": "Bearer four-five-six"
      }
    }
  },
  "projects": {
    "/home/me/shop": {
      "allowedTools": [],
      "mcpServers": {
        "db": {
          "type": "stdio",
          "command": "docker",
          "args": [
            "run",
            "-i",
            "--rm",
            "example/db"
          ],
          "env": {}
        }
      }
    }
  }
}"#
        }
        "codex" => {
            r#"model = "x"   # the model

[mcp_servers.files] # ours
command = "npx"     # the runner
args = ["-y", "@example/files@1.2"]
env = { "ROOT" = "/data" }

[mcp_servers.clock]
command = "clock-server" # no arguments
startup_timeout_sec = 20

[mcp_servers.board]
url = "https://board.example.com/mcp"
bearer_token_env_var = "BOARD_TOKEN"

[mcp_servers.search]
url = 'https://search.example.com/mcp'
[mcp_servers.search.http_headers]
X-Api-Key = "seven-eight"

[mcp_servers."dotted.name"]
command = "npx"
args = [
  "-y",
  # which one
  "dotted",
]
"#
        }
        "continue" => {
            r#"name: mine
version: 0.0.1
mcpServers:
  # the notes
  - name: notes
    command: npx   # the runner
    args:
      - -y
      - "@example/notes"
    env:
      NOTES_TOKEN: ${{ secrets.NOTES_TOKEN }}
  - command: clock-server
    name: clock
  - name: flow
    command: uvx
    args: [flow-server, --quiet]
  - name: board
    type: streamable-http
    url: https://board.example.com/mcp
    headers:
      Authorization: Bearer four-five-six
"#
        }
        "goose" => {
            r#"GOOSE_PROVIDER: x
extensions:
  developer:
    type: builtin
    enabled: true
    name: developer
  fetch:
    enabled: true
    type: stdio
    name: fetch
    cmd: uvx
    args:
    - mcp-server-fetch
    envs: {}
    timeout: 300
  board:
    enabled: false
    type: streamable_http
    name: board
    uri: https://board.example.com/mcp
    headers:
      X-Api-Key: four-five-six
"#
        }
        "opencode" => {
            r#"{
  "$schema": "https://opencode.example/config.json",
  "mcp": {
    "files": {
      "type": "local",
      "command": ["npx", "-y", "@example/files"],
      "environment": { "ROOT": "/data" },
      "enabled": true
    },
    "board": {
      "type": "remote",
      "url": "https://board.example.com/mcp",
      "headers": { "Authorization": "Bearer four-five-six" }
    }
  }
}
"#
        }
        "vibe" => {
            "[[mcp_servers]]\nname = \"fetch\"\ntransport = \"stdio\"\ncommand = \"uvx\"\nargs = [\"mcp-server-fetch\"]\n\n[[mcp_servers]]\nname = \"board\"\ntransport = \"streamable-http\"\nurl = \"https://board.example.com/mcp\"\nheaders = { \"Authorization\" = \"Bearer four-five-six\" }\n"
        }
        "vscode" => {
            r#"{
	// what it asks for
	"inputs": [
		{ "type": "promptString", "id": "key", "password": true, },
	],
	"servers": {
		"files": {
			"type": "stdio",
			"command": "npx",
			"args": ["-y", "@example/files", "${workspaceFolder}"], // here
			"envFile": "${workspaceFolder}/.env",
		},
		"board": {
			"type": "http",
			"url": "https://board.example.com/mcp",
			"headers": { "Authorization": "Bearer ${input:key}" },
		},
	},
}
"#
        }
        "windsurf" | "jetbrains" | "antigravity" => {
            r#"{
  "mcpServers": {
    "board": {
      "serverUrl": "https://board.example.com/mcp",
      "headers": {"X-Api-Key": "${env:BOARD_KEY}", "X-Team": "blue"}
    },
    "clock": {"command": "clock-server", "args": []}
  }
}
"#
        }
        "gemini" => {
            r#"{
  "theme": "dark",
  "mcp": { "allowed": ["board"], "excluded": [] },
  "mcpServers": {
    "board": { "httpUrl": "https://board.example.com/mcp", "headers": { "Authorization": "Bearer $TOKEN" }, "timeout": 5000 },
    "files": { "command": "node", "args": ["server.js"], "cwd": "./files", "trust": false }
  }
}
"#
        }
        "zed" => {
            r#"// Zed settings
{
  "theme": "One Dark", // my own
  "context_servers": {
    "old": {
      "source": "custom",
      "command": {
        "path": "npx",
        "args": ["-y", "@example/old"],
        "env": { "OLD_KEY": "one-two-three" }
      }
    },
    "new": { "command": "uvx", "args": ["new-server"], "env": {} },
    "bare": { "command": { "path": "bare-server" } }
  }
}
"#
        }
        _ => "{\"mcpServers\":{\"files\":{\"command\":\"npx\",\"args\":[\"-y\",\"@example/files\"]}}}",
    }
}

/// The places of all hosts on one system.
fn places(platform: Platform, home: &str) -> String {
    let environment = Environment::new(platform, home);
    let mut lines = Vec::new();
    for host in HOSTS {
        for place in host.places(&environment) {
            lines.push(format!("{:14} {}", host.name, place.display()));
        }
    }
    lines.join("\n")
}

#[test]
fn each_system_has_its_places() {
    assert_snapshot!("places_linux", places(Platform::Linux, "/home/me"));
    assert_snapshot!("places_macos", places(Platform::MacOs, "/Users/me"));
    assert_snapshot!("places_windows", places(Platform::Windows, "C:/Users/me"));
}

#[test]
fn variables_move_places_and_a_relative_one_does_not() {
    let environment = Environment::new(Platform::Linux, "/home/me")
        .with_variable("XDG_CONFIG_HOME", "/cfg")
        .with_variable("CODEX_HOME", "/codex")
        .with_variable("COPILOT_HOME", "relative");
    let place = |name: &str| {
        let host = HOSTS.iter().find(|host| host.name == name).unwrap();
        host.places(&environment)[0].display().to_string()
    };
    assert_eq!(place("zed"), "/cfg/zed/settings.json");
    assert_eq!(place("codex"), "/codex/config.toml");
    assert_eq!(place("copilot"), "/home/me/.copilot/mcp-config.json");
}

#[test]
fn configurations_are_found_by_any_name_within_a_folder_and_two_hosts_may_share_one() {
    let home = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let cursor = put(".cursor/mcp.json", "{\"mcpServers\": {}}");
    put(
        ".config/VSCodium/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}",
    );
    put(
        ".kiro/settings/mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"a\"},, }}",
    );
    put(".kimi/mcp.json", "");
    std::fs::create_dir_all(home.path().join(".lmstudio")).unwrap();
    std::os::unix::fs::symlink(&cursor, home.path().join(".lmstudio/mcp.json")).unwrap();
    std::fs::create_dir_all(home.path().join(".factory")).unwrap();
    std::os::unix::fs::symlink("nowhere", home.path().join(".factory/mcp.json")).unwrap();
    let found: Vec<String> = configurations(&Environment::new(Platform::Linux, home.path()))
        .iter()
        .map(|found| {
            let entries = match found.entries() {
                Ok(entries) => format!("{} servers", entries.len()),
                Err(error) => error.to_string(),
            };
            format!("{}: {entries}", found.hosts.join("+")).replace(&home.path().display().to_string(), "~")
        })
        .collect();
    assert_snapshot!(found.join("\n"), @r##"
    cline: 1 servers
    cursor+lmstudio: 0 servers
    factory: ~/.factory/mcp.json: it is a link that leads to no file
    kimi: 0 servers
    kiro: ~/.kiro/settings/mcp.json:1:39: unexpected token in object
    "##);
}

/// `name  launch  identity  disabled  wiring` of each entry.
fn listed(name: &str, text: &str) -> String {
    let desk = Desk::new(name, text.as_bytes());
    desk.entries()
        .iter()
        .map(|entry| {
            let identity = entry.identity.as_ref().map(ToString::to_string);
            let disabled = if entry.is_disabled { " disabled" } else { "" };
            let wiring = match &entry.wiring {
                Wiring::Direct => String::new(),
                other => format!(" {other:?}"),
            };
            format!(
                "{}:{} [{}] {}{disabled}{wiring}",
                entry.line,
                entry.name,
                entry.launch.shown(),
                identity.unwrap_or_else(|| "-".to_owned())
            )
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn files_without_a_server_are_no_error() {
    for text in [
        "",
        " \n",
        "{}",
        "// only this\n",
        "{\"editor.fontSize\": 12}",
        "{\"mcp\": {}}",
        "{\"mcp\": {\"servers\": {}}}",
        "{\"mcpServers\": {}}",
        "{\"mcpServers\": null}",
        "{\"mcp\": {\"allowed\": [\"a\"], \"serverCommand\": \"x\"}}",
        "{\"projects\": {\"/a\": {\"history\": []}}}",
        "{\"extensions\": {\"a\": true}, \"servers\": {}}",
    ] {
        assert_eq!(listed("settings.json", text), "", "{text}");
        let desk = Desk::new("settings.json", text.as_bytes());
        assert!(desk.wire(&[]).is_empty());
        assert_eq!(desk.text(), text.as_bytes());
    }
    assert_eq!(listed("config.yaml", "# nothing\n"), "");
    assert_eq!(listed("config.toml", ""), "");
}

#[test]
fn servers_are_read_wherever_a_host_keeps_them() {
    assert_snapshot!(listed("a.json", r#"{
        "mcpServers": {"a": {"command": "npx", "args": ["-y", "a@1"]}},
        "servers": {"b": {"url": "https://b.example.com/mcp", "headers": {}}},
        "context_servers": {"c": {"source": "extension", "settings": {}}, "c2": {"command": {"path": "uvx", "args": ["c"]}}},
        "mcp": {"servers": {"d": {"command": "d", "disabled": true}}},
        "amp.mcpServers": {"e": {"command": "e", "args": ["--token", "abc"]}},
        "projects": {"/x": {"mcpServers": {"f": {"command": "f", "enabled": false}}}}
    }"#), @r##"
    2:a [npx -y a@1] npm:a
    3:b [https://b.example.com/mcp] https://b.example.com/mcp
    4:c [an extension of the host starts it] -
    4:c2 [uvx c] pypi:c
    5:d [d] cmd:83ef656da27acdc5:d disabled
    6:e [e --token <secret>] cmd:9232d3a935467e64:e
    7:f [f] cmd:34957d160d8310bb:f disabled
    "##);
    assert_snapshot!(listed("a.json", r#"{"mcpServers": {
        "text": "npx", "none": {}, "both": {"command": "a", "url": "https://a.example.com"},
        "empty": {"command": " "}, "number": {"command": "a", "args": [1]}, "no list": {"command": "a", "args": "x"},
        "odd": {"command": 1}, "pipe": {"url": "unix:///sock"}, "key": {"url": "https://a.example.com/mcp?api_key=abc"}
    }}"#), @r##"
    2:text [the entry is no map] -
    2:none [it has neither a command nor an address] -
    2:both [it has both a command and an address] -
    3:empty [its command is empty] -
    3:number [its `args` is no list of texts] -
    3:no list [its `args` is no list of texts] -
    4:odd [its `command` is no text] -
    4:pipe [unix:///sock] -
    4:key [https://a.example.com/mcp?<secret>] https://a.example.com/mcp
    "##);
    assert_snapshot!(listed("a.json", r#"{"mcpServers": {
        "ours": {"command": "/x/mcpindex", "args": ["gate", "--server", "ours", "--posture", "strict", "--", "npx", "-y", "a"]},
        "by hand": {"command": "mcpindex.exe", "args": ["gate", "--url=https://a.example.com/mcp"]},
        "other name": {"command": "/x/mcpindex-next", "args": ["gate", "--server", "x", "--", "uvx", "b"]},
        "published": {"command": "uvx", "args": ["--from", "mcpindex-gate==1", "mcpindex-proxy", "--mcpindex-stdio", "--upstream-command=npx"]},
        "marked": {"command": "x", "_mcpindexWired": {"marker": "mcpindex"}},
        "another gate": {"command": "gatekeeper", "args": ["gate", "--", "x"]}
    }}"#), @r##"
    2:ours [npx -y a] npm:a Gate { posture: Some("strict"), obeys: false }
    3:by hand [https://a.example.com/mcp] https://a.example.com/mcp Gate { posture: None, obeys: false }
    4:other name [uvx b] pypi:b Gate { posture: None, obeys: false }
    5:published [uvx --from mcpindex-gate==1 mcpindex-proxy --mcpindex-stdio --upstream-command=npx] - Published
    6:marked [x] - Published
    7:another gate [gatekeeper gate -- x] cmd:2eb87a468ee550d9:gatekeeper
    "##);
}

#[test]
fn a_command_that_holds_a_whole_line_is_taken_apart_and_a_path_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Application Support/x/server");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "").unwrap();
    let path = path.display().to_string();
    let line = |command: &str| {
        let text =
            serde_json::json!({"mcpServers": {"a": {"command": command, "args": ["last"]}}}).to_string();
        let desk = Desk::new("a.json", text.as_bytes());
        let wired: serde_json::Value = serde_json::from_str(&round_trip(&desk)).unwrap();
        let args = wired["mcpServers"]["a"]["args"]
            .to_string()
            .replace(&path, "PATH");
        args.replace("[\"gate\",\"--server\",\"a\",\"--\",", "[")
    };
    assert_eq!(
        line("npx -y @example/server"),
        r#"["npx","-y","@example/server","last"]"#
    );
    assert_eq!(line("npx"), r#"["npx","last"]"#);
    assert_eq!(
        line("uvx x --name 'two words'"),
        r#"["uvx","x","--name","two words","last"]"#
    );
    assert_eq!(line("uvx x --name 'open"), r#"["uvx x --name 'open","last"]"#);
    assert_eq!(line(&path), r#"["PATH","last"]"#);
    assert_eq!(
        line(&format!("{path} --port 1")),
        r#"["PATH","--port","1","last"]"#
    );
    assert_eq!(
        line("/nowhere/Application Support/x/server"),
        r#"["/nowhere/Application Support/x/server","last"]"#
    );
    assert_eq!(
        line(r"C:\Program Files\nodejs\npx.cmd"),
        r#"["C:\\Program Files\\nodejs\\npx.cmd","last"]"#
    );
}

#[test]
fn the_forms_of_windows_are_one_server() {
    let identity = |entry: &str| listed("a.json", &format!("{{\"mcpServers\": {{\"a\": {entry}}}}}"));
    for entry in [
        r#"{"command": "npx", "args": ["-y", "@example/server"]}"#,
        r#"{"command": "npx.cmd", "args": ["-y", "@example/server"]}"#,
        r#"{"command": "cmd", "args": ["/c", "npx", "-y", "@example/server"]}"#,
        r#"{"command": "C:\\Windows\\System32\\cmd.exe", "args": ["/d", "/s", "/C", "npx.cmd", "-y", "@example/server@2"]}"#,
        r#"{"command": "cmd /c npx -y @example/server"}"#,
        r#"{"command": "C:\\Program Files\\nodejs\\npx.cmd", "args": ["-y", "@example/server"]}"#,
    ] {
        let found = identity(entry);
        assert!(found.ends_with(" npm:@example/server"), "{found}");
        check("a.json", &format!("{{\"mcpServers\": {{\"a\": {entry}}}}}"));
    }
}

#[test]
fn an_unreadable_file_names_line_and_column() {
    let reason = |name: &str, text: &[u8]| {
        let desk = Desk::new(name, text);
        let error = ConfigFile::read(&desk.path)
            .and_then(|file| file.entries())
            .err()
            .unwrap();
        let shown = error.to_string();
        shown.rsplit_once('/').unwrap().1.to_owned()
    };
    let reasons = [
        reason("a.json", b"{\n  \"mcpServers\": {,}\n}"),
        reason(
            "a.json",
            b"{\"mcpServers\": {\"a\": {\"command\": \"x\" \"args\": []}}}",
        ),
        reason("a.json", b"{\n\"mcpServers\": {"),
        reason("a.json", b"[]"),
        reason("a.json", b"{\"mcpServers\": \"x\"}"),
        reason("a.json", b"{\n \"mcpServers\": {\"a\": {}, \"a\": {}}}"),
        reason(
            "a.json",
            b"{\"mcpServers\": {\"a\": {\"command\": \"x\", \"command\": \"y\"}}}",
        ),
        reason("a.json", b"{\"mcpServers\": {}, \"mcpServers\": {}}"),
        reason("a.json", b"{\"a\": \"\n\xff\"}"),
        reason("a.json", &[0xff, 0xfe, b'{', 0, b'}', 0]),
        reason("a.json", "[".repeat(400).as_bytes()),
        reason("a.toml", b"[mcp_servers.a]\ncommand = \n"),
        reason("a.toml", b"[mcp_servers.a]\ncommand = 'a'\ncommand = 'b'\n"),
        reason("a.yaml", b"mcpServers:\n  a:\n   - b\n  c: [\n"),
        reason("a.yaml", b"mcpServers: {}\n---\nmcpServers: {}\n"),
        reason(
            "a.yaml",
            b"mcpServers:\n  - name: a\n    command: x\n  - name: a\n    command: y\n",
        ),
        reason("a.yaml", "- ".repeat(400).as_bytes()),
    ];
    assert_snapshot!(reasons.join("\n"));
}

#[test]
fn a_names_second_place_elsewhere_in_the_file_is_none_of_our_business() {
    check(
        "a.json",
        "{\"x\": 1, \"x\": 2, \"mcpServers\": {\"a\": {\"command\": \"a\"}}}",
    );
}
