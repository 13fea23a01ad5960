//! What was wired is taken back from files that others wrote since, and nothing is written that should not be.

use std::path::Path;

use insta::assert_snapshot;
use mcpindex::clients::{ConfigFile, Fate, Record, Rewrite};
use mcpindex_contract::posture::Posture;

use crate::clients::{Desk, example};

/// Wires `before`, edits the wired text, unwires, and compares with the same edit of the original.
fn survives(name: &str, before: &str, edit: impl Fn(&str) -> String) {
    let desk = Desk::new(name, before.as_bytes());
    desk.wire(&[]);
    let wired = String::from_utf8(desk.text()).unwrap();
    let edited = edit(&wired);
    assert_ne!(edited, wired);
    std::fs::write(&desk.path, edited).unwrap();
    let (fates, is_original) = desk.unwire(&[]);
    assert!(fates.iter().all(|(_, fate)| *fate == Fate::Unwired), "{fates:?}");
    assert!(!is_original);
    assert_eq!(String::from_utf8(desk.text()).unwrap(), edit(before));
}

#[test]
fn edits_of_others_survive_the_unwiring() {
    for (name, host) in [
        ("a.json", "vscode"),
        ("a.json", "claude-code"),
        ("a.toml", "codex"),
        ("a.yaml", "continue"),
        ("a.json", "opencode"),
        ("a.json", "zed"),
    ] {
        let text = example(host);
        survives(name, text, |text| match name {
            "a.json" => format!("/* new */ {text}// end"),
            _ => format!("# new\n{text}# end"),
        });
        // Within the entries, beside and behind what is ours.
        survives(name, text, |text| {
            text.replace("@example/files", "@example/other")
                .replace("flow-server, --quiet", "flow-server, --loud")
                .replace("one-two-three", "nine")
                .replace("\"type\": ", "/* new */ \"more\": [1, ], \"type\": ")
                .replace("startup_timeout_sec = 20", "startup_timeout_sec = 30 # more")
                .replace("# the runner", "# who runs")
        });
    }
}

#[test]
fn a_host_that_writes_its_file_anew_does_not_keep_us_from_unwiring() {
    for (host, wrote) in [
        ("claude-code", "sorted"),
        ("windsurf", "sorted"),
        ("opencode", "sorted"),
        ("claude-code", "one line"),
        ("gemini", "one line"),
    ] {
        let before: serde_json::Value = serde_json::from_str(example(host)).unwrap();
        let desk = Desk::new("a.json", example(host).as_bytes());
        desk.wire(&[]);
        // Sorted by name, so that `args` stands before `command`.
        let wired: serde_json::Value = serde_json::from_slice(&desk.text()).unwrap();
        let text = match wrote {
            "sorted" => serde_json::to_string_pretty(&wired).unwrap(),
            _ => wired.to_string(),
        };
        std::fs::write(&desk.path, text).unwrap();
        let (fates, is_original) = desk.unwire(&[]);
        assert!(
            fates.iter().all(|(_, fate)| *fate == Fate::Unwired),
            "{host} {fates:?}"
        );
        assert!(!is_original);
        let after: serde_json::Value = serde_json::from_slice(&desk.text()).unwrap();
        assert_eq!(after, before, "{host}");
    }
}

#[test]
fn an_entry_is_wired_once_and_keeps_its_posture() {
    let mut desk = Desk::new("a.json", b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
    desk.wire(&[]);
    desk.line.posture = Some(Posture::Guard);
    assert_eq!(desk.wire(&[]), [("a".to_owned(), Fate::AlreadyWired)]);
    desk.line.posture = Some(Posture::Strict);
    assert_snapshot!(desk.left_alone(), @"it is behind the gate already, under guard: unwire it first to have it under strict");
}

#[test]
fn an_entry_is_wired_to_obey_the_index_once_and_keeps_that() {
    let before = b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}";
    let mut desk = Desk::new("a.json", before);
    desk.wire(&[]);
    desk.line.obeys = true;
    assert_snapshot!(desk.left_alone(), @"it is behind the gate already, without --approvals: unwire it first to have it obey the index");
    desk.unwire(&[]);
    assert_eq!(desk.text(), before);
    desk.wire(&[]);
    assert_snapshot!(String::from_utf8(desk.text()).unwrap(), @r#"{"mcpServers": {"a": {"command": "/usr/local/bin/mcpindex", "args": ["gate", "--server", "a", "--approvals", "index", "--", "a"]}}}"#);
    desk.line.obeys = false;
    assert_eq!(desk.wire(&[]), [("a".to_owned(), Fate::AlreadyWired)]);
    desk.unwire(&[]);
    assert_eq!(desk.text(), before);
}

#[test]
fn an_entry_that_was_edited_past_recognition_is_left_alone() {
    let desk = Desk::new(
        "a.json",
        b"{\"mcpServers\": {\"a\": {\"command\": \"npx -y x\"}}}",
    );
    desk.wire(&[]);
    let wired = String::from_utf8(desk.text()).unwrap();
    let refused = |edited: String| {
        std::fs::write(&desk.path, &edited).unwrap();
        let (fates, _) = desk.unwire(&[]);
        assert_eq!(desk.text(), edited.as_bytes());
        match fates.as_slice() {
            [(_, Fate::LeftAlone(reason))] => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_snapshot!(refused(wired.replace("\"npx\"", "\"bunx\"")), @"it was edited since it was wired, and the command behind its `--` is another one than it was: put back what stands behind its `--` by hand");
    assert_snapshot!(refused(wired.replace("\"a\": {", "\"renamed\": {")), @"there is no record of how it was written: put back what stands behind its `--` by hand");
    // More arguments, or others of the gate, are no reason.
    std::fs::write(
        &desk.path,
        wired
            .replace("\"x\"]", "\"x\", \"--more\"]")
            .replace("\"--\"", "\"--posture\", \"strict\", \"--\""),
    )
    .unwrap();
    desk.unwire(&[]);
    assert_snapshot!(String::from_utf8(desk.text()).unwrap(), @r##"{"mcpServers": {"a": {"command": "npx -y x", "args": ["--more"]}}}"##);
}

#[test]
fn entries_go_one_by_one_and_the_last_gives_the_original() {
    let before = example("codex");
    let desk = Desk::new("a.toml", before.as_bytes());
    for name in ["board", "files", "search", "clock", "dotted.name"] {
        assert_eq!(desk.wire(&[name]), [(name.to_owned(), Fate::Wired)]);
    }
    assert_eq!(desk.wire(&["clock"]), [("clock".to_owned(), Fate::AlreadyWired)]);
    for name in ["files", "dotted.name", "clock", "board"] {
        assert!(!desk.unwire(&[name]).1, "{name}");
    }
    assert!(desk.unwire(&[]).1);
    assert_eq!(String::from_utf8(desk.text()).unwrap(), before);
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_written() {
    let desk = Desk::new("a.json", b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
    let mut record = Record::open(&desk.state()).unwrap();
    let file = desk.file();
    let rewrite = Rewrite::wire(&file, &record, &desk.line, &|_| true).unwrap();
    std::fs::write(&desk.path, "{\"mcpServers\": {}}").unwrap();
    let error = rewrite.write(&file, &mut record).unwrap_err().to_string();
    assert_eq!(
        error.replace(&desk.path.display().to_string(), "FILE"),
        "FILE: it changed since it was shown, so nothing was written: run the command again"
    );
    assert_eq!(desk.text(), b"{\"mcpServers\": {}}");
    assert!(!desk.record().contains("\"path\""), "{}", desk.record());
    assert_eq!(left_overs(desk.folder.path()), Vec::<String>::new());
}

/// Files of ours that should not be there.
fn left_overs(folder: &Path) -> Vec<String> {
    folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".mcpindex-"))
        .collect()
}

#[test]
fn a_read_only_file_or_folder_is_not_written() {
    use std::os::unix::fs::PermissionsExt;
    for which in ["file", "folder"] {
        let desk = Desk::new("sub/a.json", b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
        let folder = desk.path.parent().unwrap();
        let (path, mode) = match which {
            "file" => (desk.path.as_path(), 0o444),
            _ => (folder, 0o555),
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut record = Record::open(&desk.state()).unwrap();
        let file = desk.file();
        let rewrite = Rewrite::wire(&file, &record, &desk.line, &|_| true).unwrap();
        let error = rewrite.write(&file, &mut record).unwrap_err().to_string();
        assert!(error.contains("read-only"), "{error}");
        assert_eq!(desk.text(), b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_link_stays_a_link_and_the_mode_stays_the_mode() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new("real/a.json", b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
    std::fs::set_permissions(&desk.path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = desk.folder.path().join("linked.json");
    std::os::unix::fs::symlink(&desk.path, &link).unwrap();
    let mut record = Record::open(&desk.state()).unwrap();
    let file = ConfigFile::read(&link).unwrap_or_else(|error| panic!("{error}"));
    let rewrite = Rewrite::wire(&file, &record, &desk.line, &|_| true).unwrap();
    rewrite.write(&file, &mut record).unwrap();
    drop(record);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(String::from_utf8(desk.text()).unwrap().contains("gate"));
    let mode = desk.path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // Whichever way it is named, it is the same file.
    assert!(desk.unwire(&[]).1);
    assert_eq!(desk.path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_comment_that_holds_a_credential_is_not_shown() {
    let text = "// old: Authorization: Bearer one-two-three\n{\"mcpServers\": { /* token=one-two-three */\n\"a\": {\"command\": \"a\"}}} // see https://a.example.com/mcp";
    let desk = Desk::new("a.json", text.as_bytes());
    let record = Record::read(&desk.state()).unwrap();
    let rewrite = Rewrite::wire(&desk.file(), &record, &desk.line, &|_| true).unwrap();
    assert_snapshot!(rewrite.shown().0, @r##"
    <secret>
    {"mcpServers": { <secret>
    "a": {"command": "a"}}} // see https://a.example.com/mcp
    "##);
}

#[test]
fn a_damaged_or_newer_record_is_named_and_nothing_is_written() {
    let desk = Desk::new("a.json", b"{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
    let put = |text: &str| {
        std::fs::create_dir_all(desk.state().path()).unwrap();
        std::fs::write(desk.state().path().join("wired.json"), text).unwrap();
        let error = Record::open(&desk.state()).err().unwrap().to_string();
        error
            .rsplit_once('/')
            .map_or(error.clone(), |(_, rest)| rest.to_owned())
    };
    assert_snapshot!(put("{\"schema\": \"mcpindex.wired/1\",\n"), @"wired.json:2:1: no record of wired entries can be read: mend it, or move it away (what it holds is then not undone)");
    assert_snapshot!(put("{\"schema\": \"mcpindex.wired/1\", \"files\": [], \"more\": 1}"), @"wired.json:1:40: no record of wired entries can be read: mend it, or move it away (what it holds is then not undone)");
    assert_snapshot!(put("{\"schema\": \"mcpindex.wired/2\"}"), @"2`): use that one");
}
