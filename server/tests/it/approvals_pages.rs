//! The queue as an approver meets it: read without a script, decided by what was shown, undone within a minute.

use mcpindex_contract::approval::{DEFAULT_TENANT, State};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_server::login::settings::LoginSettings;
use mcpindex_store::Store;
use mcpindex_store::accounts::Role;
use mcpindex_store::testing::on_each_backend;
use serde_json::Value;

use crate::browser::{self, Browser, Index};
use crate::client::NOW;
use crate::seed::{found, look, surface, tool};

const NOTES: &str = "npm:notes";

fn digest(tool: &Value) -> Digest {
    Definition::read(&tool.to_string()).digest()
}

/// Twelve tools whose same words changed, one that can do more now, one that is new.
async fn release(store: &Store) -> Vec<Value> {
    let alike = |number: usize, words: &str| {
        tool(
            &format!("report_{number}"),
            &format!("Makes report {number}.{words}"),
        )
    };
    let mut first: Vec<Value> = (1..=12).map(|number| alike(number, "")).collect();
    let mut second: Vec<Value> = (1..=12)
        .map(|number| alike(number, " Asks before it overwrites anything."))
        .collect();
    let mut read = tool("clean", "Lists what could be deleted.");
    read["annotations"] = serde_json::json!({"readOnlyHint": true, "destructiveHint": false});
    let mut delete = tool("clean", "Deletes what is old.");
    delete["annotations"] = serde_json::json!({"readOnlyHint": false, "destructiveHint": true});
    first.push(read);
    second.push(delete);
    second.push(tool("share", "Shares a note."));
    look(store, NOTES, found("1.0.0", NOW - 99_999, surface(&first))).await;
    look(store, NOTES, found("2.0.0", NOW - 50, surface(&second))).await;
    second
}

async fn signed_in<'i>(index: &'i Index, store: &Store, login: &str, role: Role) -> Browser<'i> {
    let browser = index.browser();
    let page = browser.page("/login?next=%2Fapprovals").await;
    browser
        .post(
            "/auth/dev",
            &[("login", login), ("next", &browser::field(&page, "next"))],
        )
        .await;
    let account = store
        .find_accounts(&format!("login:{login}"))
        .await
        .unwrap()
        .remove(0);
    store.set_role(account.id, role, NOW).await.unwrap();
    browser
}

fn index(store: &Store) -> Index {
    let settings = LoginSettings {
        dev: true,
        ..LoginSettings::default()
    };
    Index::queueing_all(store, &settings)
}

async fn state(store: &Store, tool: &Value) -> Option<State> {
    let about = [(NOTES, tool["name"].as_str().unwrap(), digest(tool))];
    let stood = store.standing_of(DEFAULT_TENANT, &about, NOW).await.unwrap();
    stood.standing[0].as_ref().map(|standing| standing.state)
}

/// The values of all fields of this name.
fn values(page: &str, name: &str) -> Vec<String> {
    let start = format!("name=\"{name}\" value=\"");
    let found = page.match_indices(&start).map(|(at, _)| {
        let rest = &page[at + start.len()..];
        rest[..rest.find('"').unwrap()]
            .replace("&#34;", "\"")
            .replace("&#38;", "&")
    });
    found.collect()
}

/// The row's number in whose heading the tool stands.
fn row_of(page: &str, tool: &str) -> String {
    let values = (0..20).find(|row| {
        values(page, &format!("tool-{row}"))
            .iter()
            .any(|value| value.ends_with(&format!(" {tool}")))
    });
    values.unwrap().to_string()
}

#[tokio::test]
async fn an_approver_refuses_one_approves_the_rest_and_undoes_it() {
    on_each_backend(async |store| {
        let tools = release(&store).await;
        let index = index(&store);
        let ada = signed_in(&index, &store, "ada", Role::Approver).await;
        let page = ada.page("/approvals").await;
        assert!(page.contains("14 tools wait"), "{page}");
        assert!(page.contains("12 in the same way"), "{page}");
        // The dangerous one comes first, and is not part of the rest.
        assert!(page.find(">clean<").unwrap() < page.find(">report_1<").unwrap());
        let clean = format!("row-{}", row_of(&page, "clean"));
        let mut fields: Vec<(String, String)> = vec![
            ("csrf".to_owned(), browser::field(&page, "csrf")),
            ("seen".to_owned(), browser::field(&page, "seen")),
            ("of".to_owned(), NOTES.to_owned()),
            (clean.clone(), "refuse".to_owned()),
            ("reason".to_owned(), "it deletes".to_owned()),
            ("act".to_owned(), "rest".to_owned()),
        ];
        for row in 0..3 {
            for name in [format!("tool-{row}"), format!("calm-{row}")] {
                fields.extend(
                    values(&page, &name)
                        .into_iter()
                        .map(|value| (name.clone(), value)),
                );
            }
        }
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let there = ada.post("/approvals", &fields).await;
        let there = there.header("location").to_owned();
        assert_eq!(there, "/approvals?decided=1-14");
        for tool in &tools {
            let expected = if tool["name"] == "clean" {
                State::Refused
            } else {
                State::Approved
            };
            assert_eq!(state(&store, tool).await, Some(expected));
        }
        // The same form again is a conflict, which says what stands.
        let again = ada.post("/approvals", &fields).await;
        assert_eq!(again.status, 409);
        assert!(again.text().contains("it deletes"), "{}", again.text());
        let page = ada.page(&there).await;
        assert!(page.contains("Decided: 13 approved, 1 refused."), "{page}");
        let undo = [
            ("csrf", browser::field(&page, "csrf")),
            ("first", browser::field(&page, "first")),
            ("last", browser::field(&page, "last")),
        ];
        let undo: Vec<(&str, &str)> = undo.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = ada.post("/approvals/undo", &undo).await;
        assert_eq!(answer.header("location"), "/approvals?undone=14");
        assert_eq!(state(&store, &tools[0]).await, Some(State::Withdrawn));
        let log = ada.page("/approvals/log").await;
        assert!(log.contains("undo of #14") && log.contains("it deletes"), "{log}");
        // After a minute there is nothing to press.
        index.clock.forward(61);
        assert!(!ada.page(&there).await.contains("Undo"));
    })
    .await;
}

#[tokio::test]
async fn what_is_left_out_of_a_row_waits_and_an_empty_form_decides_nothing() {
    on_each_backend(async |store| {
        let tools = release(&store).await;
        let index = index(&store);
        let ada = signed_in(&index, &store, "ada", Role::Approver).await;
        let page = ada.page("/approvals").await;
        let row = row_of(&page, "report_3");
        let form = |choice: &str, leave: &str, until: &str| -> Vec<(String, String)> {
            let mut fields = vec![
                ("csrf".to_owned(), browser::field(&page, "csrf")),
                ("seen".to_owned(), browser::field(&page, "seen")),
                ("of".to_owned(), NOTES.to_owned()),
                (format!("row-{row}"), choice.to_owned()),
                ("until".to_owned(), until.to_owned()),
                ("act".to_owned(), "chosen".to_owned()),
            ];
            let ticked = values(&page, &format!("tool-{row}")).into_iter();
            let ticked = ticked.filter(|value| !value.ends_with(leave));
            fields.extend(ticked.map(|value| (format!("tool-{row}"), value)));
            fields
        };
        let send = async |fields: Vec<(String, String)>| {
            let fields: Vec<(&str, &str)> = fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            ada.post("/approvals", &fields).await
        };
        let none = send(form("", "-", "")).await;
        assert_eq!(none.status, 422);
        assert!(none.text().contains("Nothing was chosen"), "{}", none.text());
        let wrong = send(form("approve", "-", "soon")).await;
        assert!(wrong.text().contains("is no day"), "{}", wrong.text());
        assert_eq!(send(form("approve", " report_3", "2026-12-31")).await.status, 303);
        for tool in tools.iter().take(12) {
            let expected = (tool["name"] != "report_3").then_some(State::Approved);
            assert_eq!(state(&store, tool).await, expected);
        }
        let about = [(NOTES, "report_1", digest(&tools[0]))];
        let stood = store.standing_of(DEFAULT_TENANT, &about, NOW).await.unwrap();
        // The whole of that day.
        assert_eq!(stood.standing[0].as_ref().unwrap().until, Some(1_798_761_600));
        let page = ada.page("/approvals").await;
        assert!(page.contains("3 tools wait"), "{page}");
    })
    .await;
}

#[tokio::test]
async fn a_member_reads_the_queue_and_decides_nothing_and_a_stranger_signs_in() {
    on_each_backend(async |store| {
        release(&store).await;
        let index = index(&store);
        let stranger = index.browser();
        for path in ["/approvals", "/approvals/log", "/admin/audit"] {
            assert!(stranger.leads(path).await.starts_with("/login?next="), "{path}");
        }
        let max = signed_in(&index, &store, "max", Role::Member).await;
        let page = max.page("/approvals").await;
        assert!(
            page.contains("14 tools wait") && !page.contains("Decide what was chosen"),
            "{page}"
        );
        let token = max.token("/account").await;
        let form = [
            ("csrf", token.as_str()),
            ("of", NOTES),
            ("row-0", "approve"),
            (
                "tool-0",
                "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef clean",
            ),
        ];
        let answer = max.post("/approvals", &form).await;
        assert_eq!(answer.status, 403);
        assert!(
            answer.text().contains("Only an approver or an admin decides"),
            "{}",
            answer.text()
        );
        assert_eq!(max.get("/admin/audit").await.status, 403);
        let root = signed_in(&index, &store, "root", Role::Admin).await;
        let audit = root.page("/admin/audit?action=role-given").await;
        assert!(audit.contains("root@"), "{audit}");
        assert_eq!(root.get("/admin/audit?action=nothing").await.status, 400);
        // A server that waits no more, or is none, is an empty page and no error.
        assert!(
            root.page("/approvals?server=npm%3Anothing")
                .await
                .contains("Nothing waits of")
        );
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_on_the_page_is_no_part_of_the_rest() {
    on_each_backend(async |store| {
        let long = |name: &str| tool(name, &"Lists notes. ".repeat(50_000));
        let tools = [long("first"), long("second")];
        look(&store, NOTES, found("1.0.0", NOW - 50, surface(&tools))).await;
        let index = index(&store);
        let ada = signed_in(&index, &store, "ada", Role::Approver).await;
        let page = ada.page("/approvals").await;
        let (first, second) = (row_of(&page, "first"), row_of(&page, "second"));
        assert_eq!(page.matches("Not all of it fits on this page").count(), 1);
        let is_calm = |row: &str| !values(&page, &format!("calm-{row}")).is_empty();
        assert_ne!(is_calm(&first), is_calm(&second));
    })
    .await;
}
