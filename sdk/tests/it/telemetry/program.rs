//! `mcpindex gate` and `mcpindex telemetry` with real processes.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use insta::assert_snapshot;
use mcpindex::index::{Credentials, Granted};
use mcpindex::state::StateDirectory;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::signal::FingerprintKey;
use secrecy::SecretString;
use tokio::process::Command;

use super::stand_in::Index;
use crate::proxy::{EXECUTABLE, Gated, until};
use crate::stdio::FIXTURE;

const NPX: [&str; 3] = ["npx", "-y", "notes"];

/// What the machine of whoever runs the tests may say about it.
const SILENCED: [(&str, &str); 10] = [
    ("MCPINDEX_DRIFT_TELEMETRY", ""),
    ("MCPINDEX_WEB_BASE", ""),
    ("CI", ""),
    ("DO_NOT_TRACK", ""),
    ("MCPINDEX_API_KEY", ""),
    ("npm_config_registry", ""),
    ("NPM_CONFIG_REGISTRY", ""),
    // What this machine says of registries is no matter of a test.
    ("NPM_CONFIG_USERCONFIG", "/nonexistent/npmrc"),
    ("NPM_CONFIG_GLOBALCONFIG", "/nonexistent/npmrc"),
    ("NO_PROXY", "127.0.0.1"),
];

/// One machine: its state, and an `npx` that starts the fixture.
struct Machine {
    directory: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Machine {
    /// Where these variables are set, `{}` standing for the index's address.
    fn new(index: &Index, fixture: &str, variables: &[(&str, &str)]) -> Machine {
        let directory = tempfile::tempdir().unwrap();
        let programs = directory.path().join("programs");
        std::fs::create_dir(&programs).unwrap();
        let npx = programs.join("npx");
        let script = format!(
            "#!/bin/sh\nexec '{FIXTURE}' gated '{}' {fixture}\n",
            directory.path().join("log").display()
        );
        std::fs::write(&npx, script).unwrap();
        std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let all = SILENCED.iter().chain(variables);
        let variables =
            all.map(|(name, value)| ((*name).to_owned(), value.replace("{}", index.base.as_str())));
        Machine {
            variables: variables.chain([("PATH".to_owned(), path)]).collect(),
            directory,
        }
    }

    fn state(&self) -> StateDirectory {
        StateDirectory::at(self.directory.path().join("state"))
    }

    fn gate(self, gate: &[&str], server: &[&str]) -> (Gated, Vec<(String, String)>) {
        let variables: Vec<(&str, &str)> = self
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let gated = Gated::start_within(self.directory, &variables, gate, server);
        (gated, self.variables)
    }

    /// `mcpindex telemetry …`
    async fn telemetry(&self, arguments: &[&str]) -> Output {
        Command::new(EXECUTABLE)
            .arg("telemetry")
            .args(arguments)
            .env("MCPINDEX_STATE_DIR", self.state().path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .await
            .unwrap()
    }

    /// What it says, with what differs from run to run put in words.
    async fn says(&self, index: &Index, arguments: &[&str]) -> String {
        let output = self.telemetry(arguments).await;
        let text = format!(
            "exit {}\n{}--\n{}",
            output.status.code().unwrap(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let text = text.replace(index.base.as_str(), "INDEX/");
        let text = match text.contains(AT_HOUR) {
            true => text.replace(&hour(&text), "HOUR"),
            false => text,
        };
        let is_varied = |word: &str| {
            let plain = word.trim_matches(|character: char| !character.is_ascii_alphanumeric());
            plain.len() == 32 && plain.bytes().all(|byte| byte.is_ascii_hexdigit())
                || plain.len() == 20 && plain.ends_with('Z') && plain.contains('T')
        };
        let words = text
            .split_inclusive([' ', '\n'])
            .map(|word| match is_varied(word.trim()) {
                true => word.replace(|character: char| character.is_ascii_alphanumeric(), "x"),
                false => word.to_owned(),
            });
        words.collect()
    }
}

const AT_HOUR: &str = "\"at_hour\":\"";

/// The hour of the first signal in a text.
fn hour(text: &str) -> String {
    let (_, rest) = text.split_once(AT_HOUR).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// The machine again, once its gate has ended.
async fn ended(mut gated: Gated, variables: Vec<(String, String)>) -> (Machine, String) {
    let end = gated.end().await;
    let machine = Machine {
        directory: gated.directory,
        variables,
    };
    (machine, end)
}

const ON: [(&str, &str); 2] = [
    ("MCPINDEX_WEB_BASE", "{}"),
    ("MCPINDEX_DRIFT_TELEMETRY", "detection"),
];

#[tokio::test]
async fn a_gate_tells_what_it_pins_and_a_drift_that_nobody_ever_calls() {
    let index = Index::willing().await;
    let (mut gated, _) = Machine::new(&index, "change-after=1 announce", &ON).gate(&[], &NPX);
    gated.shake_hands().await;
    gated.call("a", "read_note").await;
    gated.ask("b", "tools/list", "{}").await;
    until("the drift was told", || index.signals().len() >= 4).await;
    let key = FingerprintKey::public();
    let names = ["big", "echo", "read_note"];
    let told: Vec<String> = index
        .signals()
        .iter()
        .map(|signal| {
            assert_eq!(signal.server, key.server("npm:notes"));
            let name = names
                .iter()
                .find(|name| key.tool("npm:notes", name) == signal.tool);
            format!("v{} {} {}", signal.version(), signal.event.name(), name.unwrap())
        })
        .collect();
    assert_eq!(
        told,
        [
            "v2 pin big",
            "v2 pin echo",
            "v2 pin read_note",
            "v2 drift read_note"
        ]
    );
    assert!(!index.signals()[3].kinds.is_empty());
    gated.end().await;
}

#[tokio::test]
async fn nothing_leaves_the_machine_unless_a_person_switched_it_on() {
    let index = Index::willing().await;
    let named = ("MCPINDEX_WEB_BASE", "{}");
    let on = ("MCPINDEX_DRIFT_TELEMETRY", "contribute");
    for variables in [
        vec![named],
        vec![named, ("MCPINDEX_DRIFT_TELEMETRY", "off")],
        vec![named, ("MCPINDEX_DRIFT_TELEMETRY", "everything")],
        vec![named, on, ("DO_NOT_TRACK", "1")],
        vec![on],
    ] {
        let (mut gated, _) = Machine::new(&index, "", &variables).gate(&[], &NPX);
        gated.shake_hands().await;
        gated.end().await;
        assert!(index.asked().is_empty(), "{variables:?}: {:?}", index.asked());
    }
    // On, but for a server that only this machine knows.
    let machine = Machine::new(&index, "", &ON);
    let log = machine.directory.path().join("log").display().to_string();
    let (mut gated, variables) = machine.gate(&[], &[FIXTURE, "gated", &log]);
    gated.shake_hands().await;
    index.until_asked("GET /.well-known/mcp-index.json", 1).await;
    let (machine, _) = ended(gated, variables).await;
    assert_eq!(index.questions(), ["GET /.well-known/mcp-index.json"]);
    let payload = machine.telemetry(&["show-payload"]).await;
    assert!(payload.stdout.is_empty());
    let note = String::from_utf8(payload.stderr).unwrap();
    assert!(note.contains("never sent there: cmd:"), "{note}");
}

#[tokio::test]
async fn a_dead_index_leaves_the_session_as_it_is() {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut index = Index::willing().await;
    let base = format!("http://{}/", dead.local_addr().unwrap());
    index.base = mcpindex::index::Base::parse(&base).unwrap();
    let (mut gated, _) = Machine::new(&index, "", &ON).gate(&[], &NPX);
    gated.shake_hands().await;
    for call in 0..100 {
        let answer = gated.call(&format!("c{call}"), "echo").await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    assert_eq!(gated.calls(), 100);
    assert_snapshot!(gated.end().await, @r#"
    exit 0
    --
    mcpindex: npm:notes is new: 3 tools pinned
    "#);
}

#[tokio::test]
async fn what_show_payload_prints_is_what_was_sent_to_the_byte() {
    let index = Index::willing().await;
    let (mut gated, variables) = Machine::new(&index, "", &ON).gate(&[], &NPX);
    gated.shake_hands().await;
    index.until_asked("POST /api/v1/drift", 1).await;
    let (machine, _) = ended(gated, variables).await;
    let payload = machine.telemetry(&["show-payload"]).await;
    let printed = String::from_utf8(payload.stdout).unwrap();
    let sent = &index.bodies("/api/v1/drift")[0];
    // The hour may have ended meanwhile.
    assert_eq!(
        printed,
        format!("{}\n", sent.replace(&hour(sent), &hour(&printed)))
    );
    assert_eq!(
        index.bodies("/api/v1/drift").len(),
        1,
        "nothing is sent by looking"
    );
}

#[tokio::test]
async fn an_index_that_refuses_is_named_by_status() {
    let index = Index::start(|asked, _| {
        (asked.what == "POST /api/v1/drift").then(|| (400, r#"{"error":"invalid_signal"}"#.to_owned()))
    })
    .await;
    let (mut gated, variables) = Machine::new(&index, "", &ON).gate(&[], &NPX);
    gated.shake_hands().await;
    let kept = gated.file("state/telemetry");
    until("the refusal was kept", || {
        let files = std::fs::read_dir(&kept).into_iter().flatten();
        let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with("refused-") || name.starts_with("last-"))
            .count()
            == 2
    })
    .await;
    let (machine, _) = ended(gated, variables).await;
    assert_snapshot!(machine.says(&index, &["status"]).await, @r#"
    exit 0
    telemetry is detection: set by MCPINDEX_DRIFT_TELEMETRY
    index: INDEX/
    this install is xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx there, with a token
    it refused our signals of version 2 on xxxx-xx-xxxxx:xx:xxx (invalid_signal): it is sent none any more; `mcpindex telemetry reset` tries again
    last batch: on xxxx-xx-xxxxx:xx:xxx, not taken: it answered 400: invalid_signal
    --
    "#);
    assert_snapshot!(machine.says(&index, &["reset"]).await, @r#"
    exit 0
    this machine is another install from now on, and an index that refused its signals is tried again
    --
    "#);
    assert_snapshot!(machine.says(&index, &["status", "--json"]).await, @r#"
    exit 0
    {
      "schema": "mcpindex.telemetry/1",
      "mode": "detection",
      "source": "variable",
      "asks": true,
      "sends": true,
      "index": "INDEX/",
      "hasKey": false,
      "installId": null,
      "hasToken": false,
      "refused": null,
      "lastBatch": null,
      "questionsRefused": null,
      "problems": []
    }
    --
    "#);
}

#[tokio::test]
async fn a_key_for_signals_alone_is_named_by_status() {
    let lacks = r#"{"title":"The key is not for this","detail":"the key lacks the scope `read`; use one that has it"}"#;
    let index = Index::start(move |asked, _| {
        let asks = ["POST /api/v1/check", "POST /api/v1/drift/any"];
        asks.contains(&asked.what.as_str())
            .then(|| (403, lacks.to_owned()))
    })
    .await;
    let (mut gated, variables) = Machine::new(&index, "", &ON).gate(&[], &NPX);
    gated.shake_hands().await;
    // It tells all the same.
    index.until_asked("POST /api/v1/drift", 1).await;
    let (machine, _) = ended(gated, variables).await;
    let status = machine.says(&index, &["status"]).await;
    let said = "questions: on xxxx-xx-xxxxx:xx:xxx, not answered: it answered 403: the key lacks the scope `read`; use one \
                that has it; `mcpindex login` gets a key that may ask and tell";
    assert!(status.contains(said), "{status}");
}

#[tokio::test]
async fn the_switch_is_kept_and_status_says_who_set_it() {
    let index = Index::willing().await;
    let machine = Machine::new(&index, "", &[("MCPINDEX_WEB_BASE", "{}")]);
    assert_snapshot!(machine.says(&index, &["status"]).await, @r#"
    exit 0
    telemetry is off: nobody switched it on
    index: INDEX/
    --
    "#);
    assert_snapshot!(machine.says(&index, &["show-payload"]).await, @r#"
    exit 0
    {"signals":[{"v":2,"event":"pin","server_fp":"5458bc44baa73c0577ee87519441b74f","tool_fp":"9e09dc7cfd78deac7454488f8c6fe326","prev_hash":null,"new_hash":"sha256:4c608e40c2e480554e537ffdfd2cc54319f043f07be60561127862b83136b8c1","prev_digest":null,"new_digest":"sha256:a13c79dbaac0aac8bc65512f31c634811b8446523707cab2ca2a82c987363af2","change_kinds":null,"safety_relevant":false,"at_hour":"HOUR","sdk":"rs","install_id":"00000000000000000000000000000000"}]}
    --
    no index was asked: version 2, fingerprints under the public constant; the number of the install is left at zeros
    nothing is pinned here yet: `search` of npm:example is made up
    none of it is sent: telemetry is off (nobody switched it on)
    "#);
    assert_snapshot!(machine.says(&index, &["on"]).await, @r#"
    exit 0
    telemetry is on (detection): the index is asked about what gates see, and told of pins and drifts by fingerprint and digest
    --
    "#);
    assert_snapshot!(machine.says(&index, &["on", "lookup"]).await, @r#"
    exit 0
    telemetry is on (lookup): the index is asked about what gates see, and told nothing of it
    --
    "#);
    assert_snapshot!(machine.says(&index, &["status"]).await, @r#"
    exit 0
    telemetry is lookup: set by `mcpindex telemetry`
    index: INDEX/
    --
    "#);
    assert!(index.asked().is_empty());
    let nowhere = Machine {
        variables: vec![
            ("CI".to_owned(), "true".to_owned()),
            ("MCPINDEX_WEB_BASE".to_owned(), String::new()),
        ],
        directory: machine.directory,
    };
    assert_snapshot!(nowhere.says(&index, &["on"]).await, @r#"
    exit 0
    telemetry is on (detection): the index is asked about what gates see, and told of pins and drifts by fingerprint and digest
    --
    here it is off all the same: CI is set, where only MCPINDEX_DRIFT_TELEMETRY switches it on
    no index is chosen, so nothing is sent or asked: `mcpindex login`, or set MCPINDEX_WEB_BASE to its address
    "#);
    assert_snapshot!(nowhere.says(&index, &["off"]).await, @r#"
    exit 0
    telemetry is off: nothing is sent and nothing asked
    --
    "#);
}

#[tokio::test]
async fn the_organisations_index_hears_of_a_server_inside_and_warns_who_is_alone() {
    let index = Index::start(|asked, _| match asked.what.as_str() {
        "GET /api/v1/fingerprint-key" => Some((200, format!(r#"{{"key":"{}"}}"#, "07".repeat(32)))),
        "POST /api/v1/check" => {
            let items = asked.body.matches("server_fp").count();
            let answer =
                r#"{"verdict":"unknown","reasons":[],"seen_by":{},"alone":true,"approval":"unknown"}"#;
            Some((200, format!(r#"{{"items":[{}]}}"#, vec![answer; items].join(","))))
        }
        _ => None,
    })
    .await;
    let machine = Machine::new(&index, "", &[("MCPINDEX_DRIFT_TELEMETRY", "contribute")]);
    let granted = Granted::of_key(SecretString::from("mcpk_of-this-index"));
    Credentials::update(&machine.state(), |stored| {
        stored.remember(&index.base, granted, true);
    })
    .unwrap();
    let log = machine.directory.path().join("log").display().to_string();
    let server = [FIXTURE, "gated", &log];
    let identity = Identity::from_launch(&server.map(str::to_owned))
        .unwrap()
        .identity;
    let (mut gated, _) = machine.gate(&["--server", "notes"], &server);
    gated.shake_hands().await;
    index.until_asked("POST /api/v1/drift", 1).await;
    let key = FingerprintKey::new(&[7; 32]);
    assert_eq!(index.signals()[0].server, key.server(&identity.to_string()));
    assert!(
        index
            .asked()
            .iter()
            .all(|asked| asked.authorization == "Bearer mcpk_of-this-index")
    );
    assert_snapshot!(gated.end().await, @r#"
    exit 0
    --
    mcpindex: notes is new: 3 tools pinned
    mcpindex: others see another contract than you of big, echo and read_note on notes: nobody else is known to be served this one
    "#);
}
