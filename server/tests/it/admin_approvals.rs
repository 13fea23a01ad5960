//! `mcpindex-server admin approvals`: what was approved, verified, written out and taken in, from the server's shell.

use mcpindex_contract::approval::{Decision, State};
use mcpindex_contract::digest::Digest;
use mcpindex_store::approvals::{Appended, NewDecision};
use mcpindex_store::testing::{TestStore, on_each_database};
use mcpindex_store::{Location, Store};

use crate::client::NOW;
use crate::programs::{Ended, Place};

const TENANT: &str = "default";

fn place(database: &TestStore) -> Place {
    Place::with_database(match &database.location {
        Location::Sqlite(path) => path.display().to_string(),
        Location::Postgres(url) => url.clone(),
    })
}

/// Approves the tools `tool 1`, `tool 2`, … one after the other.
pub(crate) async fn approve(store: &Store, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let tool = format!("tool {number}");
        let decisions = [NewDecision {
            identity: "npm:a".to_owned(),
            digest: Digest::of_canonical(&tool),
            tool,
            decision: Decision::Approve,
            reason: Some("read \u{202e}it".to_owned()),
            reference: None,
            expires_at: None,
        }];
        let appended = store.append_approvals(TENANT, &decisions, "ada@local", 1, number - 1, NOW);
        assert!(matches!(appended.await.unwrap(), Appended::Done(_)));
    }
}

fn ends(ended: &Ended, code: i32, stdout: &str, stderr: &str) {
    assert_eq!(ended.code(), Some(code), "{}{}", ended.stdout(), ended.stderr());
    assert_eq!(ended.stdout(), stdout);
    assert_eq!(ended.stderr(), stderr);
}

#[tokio::test]
async fn a_chain_is_verified_and_each_flaw_named_with_what_it_means() {
    on_each_database(async |database| {
        let place = place(database);
        let verify = async || place.run(&["admin", "approvals", "verify"]).await;
        ends(&verify().await, 0, "the chain is whole: nothing was decided yet\n", "");
        approve(&database.store, 1..=4).await;
        let (head, _) = database.store.approvals_since(TENANT, 0, 0).await.unwrap();
        ends(
            &verify().await,
            0,
            &format!("the chain is whole: 4 records, head {}\n", head.hash),
            "",
        );
        let way_out = "nothing is added to the chain until it is as it was: `admin restore` brings back a copy of the index\n";
        let check = async |statements: &[&str], flaw: &str, meaning: &str| {
            for statement in statements {
                database.execute(statement).await;
            }
            ends(&verify().await, 1, &format!("{flaw}\n{meaning}\n{way_out}"), "");
        };
        let obeyed = "approvals from record 3 on are not obeyed, those up to record 2 are";
        check(
            &["UPDATE approval_record SET subject = 'eve@local' WHERE sequence = 3"],
            "record 3 is not as it was when record 4 was written after it: one of the two was altered, replaced or moved",
            obeyed,
        )
        .await;
        let json = place.run(&["admin", "approvals", "verify", "--json"]).await;
        assert_eq!(json.code(), Some(1));
        let json = json.json();
        assert_eq!(json["flaw"]["name"], "altered");
        assert_eq!((&json["whole"], &json["obeyed"], &json["head"]["sequence"]), (&false.into(), &2.into(), &4.into()));
        check(
            &["DELETE FROM approval_record WHERE sequence = 3"],
            "record 3 is missing, record 4 stands in its place: it was removed",
            obeyed,
        )
        .await;
        check(
            &["DELETE FROM approval_record WHERE sequence = 4"],
            "record 3 and what came after it are missing: they were removed",
            obeyed,
        )
        .await;
        check(
            &["UPDATE approval_head SET sequence = 1"],
            "the head stands at record 1, and records go on to 2: it was moved back, or records were put in past it",
            "approvals from record 2 on are not obeyed, those up to record 1 are",
        )
        .await;
        check(
            &["UPDATE approval_record SET decision = 'bless' WHERE sequence = 1"],
            "record 1 can't be read: decision: no such decision",
            "no approval is obeyed",
        )
        .await;
        // Nothing of it is written out, nor is anything taken in.
        let file = place.path("approvals.jsonl");
        let export = place.run(&["admin", "approvals", "export", "--output", file.to_str().unwrap()]).await;
        assert_eq!(export.code(), Some(1));
        assert!(export.stderr().contains("the chain of approvals is broken: record 1"), "{}", export.stderr());
        assert!(!file.exists());
    })
    .await;
}

#[tokio::test]
async fn an_export_is_taken_in_by_another_index_and_goes_on_where_it_ended() {
    on_each_database(async |database| {
        let from = place(database);
        approve(&database.store, 1..=2).await;
        let first = from.path("first.jsonl").display().to_string();
        let export = async |path: &str| from.run(&["admin", "approvals", "export", "--output", path]).await;
        ends(&export(&first).await, 0, &format!("2 records in `{first}`\n"), "");
        approve(&database.store, 3..=4).await;
        let second = from.path("second.jsonl").display().to_string();
        ends(&export(&second).await, 0, &format!("4 records in `{second}`\n"), "");
        let text = std::fs::read_to_string(&second).unwrap();
        // To stdout, it is the same; and neither has what could steer a terminal.
        let stdout = from.run(&["admin", "approvals", "export"]).await;
        ends(&stdout, 0, &text, "");
        assert_eq!(text.lines().count(), 5);
        assert!(text.starts_with(r#"{"format":"mcpindex-approvals/1","head":{"hash":"sha256:"#), "{text}");
        assert!(text.contains(r"read \u202eit") && !text.contains('\u{202e}'), "{text}");

        let other = TestStore::sqlite().await;
        let to = place(&other);
        let import = async |path: &str| to.run(&["admin", "approvals", "import", path]).await;
        let refused = |reason: &str| format!("mcpindex-server: nothing was imported: {reason}\n");
        ends(&import(&first).await, 0, "2 records imported\n", "");
        ends(&import(&first).await, 0, "the index has these 2 records already\n", "");
        ends(&import(&second).await, 0, "2 records imported after the 2 that were there\n", "");
        let goes_on = format!("the index has all 2 records of `{first}`, and goes on to record 4");
        ends(&import(&first).await, 2, "", &refused(&goes_on));
        let (here, there) = (&database.store, &other.store);
        assert_eq!(
            here.approvals_since(TENANT, 0, 10).await.unwrap(),
            there.approvals_since(TENANT, 0, 10).await.unwrap()
        );
        let stood = there.standing(TENANT, "npm:a", NOW).await.unwrap();
        assert_eq!((stood.chain.flaw, stood.standing.len()), (None, 4));
        assert!(stood.standing.iter().all(|standing| standing.state == State::Approved));

        let elsewhere = TestStore::sqlite().await;
        approve(&elsewhere.store, 1..=1).await;
        let differs = "record 1 is another one in this index, and two chains can't be made one; import into an empty index";
        elsewhere.execute("DELETE FROM approval_record").await;
        elsewhere.execute("DELETE FROM approval_head").await;
        let decisions = [NewDecision {
            identity: "npm:b".to_owned(),
            tool: "a".to_owned(),
            digest: Digest::of_canonical("a"),
            decision: Decision::Refuse,
            reason: None,
            reference: None,
            expires_at: None,
        }];
        let fresh = Store::open(&elsewhere.location).await.unwrap();
        fresh.append_approvals(TENANT, &decisions, "bob@local", 1, 0, NOW).await.unwrap();
        let ended = place(&elsewhere).run(&["admin", "approvals", "import", &second]).await;
        ends(&ended, 2, "", &refused(differs));
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_no_whole_export_is_refused_by_the_line() {
    let database = TestStore::sqlite().await;
    let place = place(&database);
    approve(&database.store, 1..=3).await;
    let text = place.run(&["admin", "approvals", "export"]).await.stdout();
    let lines: Vec<&str> = text.lines().collect();
    let other = TestStore::sqlite().await;
    let to = self::place(&other);
    let mut said = Vec::new();
    let mut check = async |text: String| {
        let path = to.write("file", &text);
        let ended = to.run(&["admin", "approvals", "import", &path]).await;
        assert_eq!(ended.code(), Some(2), "{}", ended.stdout());
        said.push(ended.stderr().replace(&path, "FILE"));
    };
    let joined = |lines: &[&str]| format!("{}\n", lines.join("\n"));
    check(String::new()).await;
    check("{}\n".to_owned()).await;
    check(text.replace("approvals/1", "approvals/2")).await;
    check(text.replacen("\"tenant\":\"default\"", "\"tenant\":\"other\"", 1)).await;
    check(text.trim_end().to_owned()).await;
    check(joined(&lines[..3])).await;
    check(joined(&[lines[0], lines[2], lines[1], lines[3]])).await;
    check(text.replacen("tool 2", "tool 9", 1)).await;
    check(text.replacen("\"needed\":1", "\"needed\":1,\"more\":1", 1)).await;
    check(format!("{text}{}\n", lines[3])).await;
    check("x".repeat(200_000)).await;
    insta::assert_snapshot!(said.concat(), @r#"
    mcpindex-server: `FILE`, line 1: expected the head of an export, as `admin approvals export` writes it
    mcpindex-server: `FILE`, line 1: expected the head of an export, as `admin approvals export` writes it
    mcpindex-server: `FILE`, line 1: expected the format `mcpindex-approvals/1`, a newer mcpindex may know others
    mcpindex-server: `FILE`, line 1: the records are of another organisation than `default`
    mcpindex-server: `FILE`, line 4: the line has no end: the file was cut short, or is no export of approvals
    mcpindex-server: nothing was imported: `FILE` is not as it was written: record 3 and what came after it are missing: they were removed
    mcpindex-server: nothing was imported: `FILE` is not as it was written: record 1 is missing, record 2 stands in its place: it was removed
    mcpindex-server: nothing was imported: `FILE` is not as it was written: record 2 is not as it was when record 3 was written after it: one of the two was altered, replaced or moved
    mcpindex-server: `FILE`, line 2: record: expected no members but those of the form
    mcpindex-server: nothing was imported: `FILE` is not as it was written: record 3 stands where record 4 is due
    mcpindex-server: `FILE`, line 1: the line has no end: the file was cut short, or is no export of approvals
    "#);
    let path = to.path("gone").display().to_string();
    let ended = to.run(&["admin", "approvals", "import", &path]).await;
    let reason = "can't be read: No such file or directory (os error 2)";
    ends(&ended, 2, "", &format!("mcpindex-server: `{path}` {reason}\n"));
    assert_eq!(
        other
            .store
            .approvals_since(TENANT, 0, 1)
            .await
            .unwrap()
            .0
            .sequence,
        0
    );
}
