//! What a gate of the SDK makes of decisions at this server, both as real processes would have them: over HTTP, from disk, and with
//! the server gone.

use std::path::Path;
use std::sync::{Arc, Mutex};

use mcpindex::approvals::{Approvals, FollowOptions, MAX_AGE, Pauses, Word};
use mcpindex::clock::{Clock, SystemClock};
use mcpindex::index::{Base, Chosen};
use mcpindex::state::StateDirectory;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_store::Location;
use mcpindex_store::testing::{TestStore, on_each_database};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::client::NOW;
use crate::programs::{Place, Served, client, until};
use crate::seed::{found, look, surface, tool};

const NOTES: &str = "npm:notes";

fn digest(tool: &Value) -> Digest {
    Definition::read(&tool.to_string()).digest()
}

/// A key made on the server's shell.
async fn key(place: &Place, name: &str, scopes: &str) -> String {
    let made = place
        .run(&["admin", "create-key", name, "--scopes", scopes])
        .await;
    assert_eq!(made.code(), Some(0), "{}", made.stderr());
    let text = made.stdout();
    text.split_whitespace()
        .find(|word| word.starts_with("mcpk_"))
        .unwrap()
        .to_owned()
}

fn follow(base: &str, key: &str, state: &Path, said: &Arc<Mutex<Vec<String>>>) -> Approvals {
    let said = Arc::clone(said);
    Approvals::follow(FollowOptions {
        index: Chosen {
            base: base.parse::<Base>().unwrap(),
            key: Some(SecretString::from(key.to_owned())),
        },
        state: StateDirectory::at(state),
        identities: vec![NOTES.to_owned()],
        max_age: MAX_AGE,
        clock: Arc::new(SystemClock),
        say: Arc::new(move |line| said.lock().unwrap().push(line.to_owned())),
        pauses: Pauses::default(),
    })
}

fn word(approvals: &Approvals, tool: &Value) -> Word {
    let name = tool["name"].as_str().unwrap();
    let now = SystemClock.unix_seconds();
    approvals.view().word(NOTES, name, &digest(tool), now)
}

async fn decide(served: &Served, key: &str, seen: u64, decisions: &[(&Value, &str)]) {
    let decisions: Vec<Value> = decisions
        .iter()
        .map(|(tool, decision)| {
            json!({"identity": NOTES, "tool": tool["name"], "digest": digest(tool).to_string(), "decision": decision})
        })
        .collect();
    let answer = client()
        .post(format!("{}/api/v1/approvals", served.base))
        .bearer_auth(key)
        .json(&json!({"seen": seen, "decisions": decisions}))
        .send()
        .await
        .unwrap();
    let status = answer.status();
    assert_eq!(status, 200, "{}", answer.text().await.unwrap());
}

fn place(database: &TestStore) -> Place {
    Place::with_database(match &database.location {
        Location::Sqlite(path) => path.display().to_string(),
        Location::Postgres(url) => url.clone(),
    })
}

#[tokio::test]
async fn a_gate_hears_of_decisions_keeps_them_and_obeys_them_without_the_server() {
    on_each_database(async |database| {
        let (read, write) = (tool("read", "Reads."), tool("write", "Writes."));
        look(
            &database.store,
            NOTES,
            found("1.0.0", NOW, surface(&[read.clone(), write.clone()])),
        )
        .await;
        let place = place(database);
        let served = place.serve(&[]).await;
        let approver = key(&place, "approver", "read approve").await;
        let gate = key(&place, "gate", "read").await;
        let (state, said) = (tempfile::tempdir().unwrap(), Arc::default());
        let approvals = follow(&served.base, &gate, state.path(), &said);
        until("the first answer", async || {
            word(&approvals, &read) == Word::Nothing
        })
        .await;
        decide(&served, &approver, 0, &[(&read, "approve"), (&write, "refuse")]).await;
        let obeys = async |approvals: &Approvals| {
            until("what was decided", async || {
                matches!(
                    word(approvals, &read),
                    Word::Approved {
                        sequence: 1,
                        is_fresh: true,
                        ..
                    }
                ) && matches!(word(approvals, &write), Word::Refused { sequence: 2, .. })
            })
            .await;
        };
        obeys(&approvals).await;
        assert_eq!(*said.lock().unwrap(), Vec::<String>::new());
        drop(approvals);
        let base = served.base.clone();
        assert_eq!(served.terminate().await, Some(0));
        // Another gate of the machine, and nobody to ask.
        let approvals = follow(&base, &gate, state.path(), &said);
        obeys(&approvals).await;
        until("that nobody is heard", async || !said.lock().unwrap().is_empty()).await;
        let line = said.lock().unwrap()[0].clone();
        assert!(
            line.contains("Decisions up to #2 are obeyed as they are known"),
            "{line}"
        );
    })
    .await;
}
