//! The published Python client, as it is on PyPI, beside an index of ours: its signals come in, and the warning comes back.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::peers::path;
use crate::programs::{Place, ended, until};

/// Installs of the published client that see one drift.
const INSTALLS: usize = 3;

/// One process of the client, with a state directory of its own.
fn published_client(state: &Path, mode: &str, base: &str, role: &str) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/published_client.py");
    let mut command = Command::new(path("venv/bin/python"));
    command
        .arg(script)
        .args([base, role])
        .env("MCPINDEX_STATE_DIR", state)
        .env("MCPINDEX_DRIFT_TELEMETRY", mode)
        .env("MCPINDEX_AMBIENT_NOTICE", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

#[tokio::test]
async fn what_installs_of_the_published_client_saw_another_one_reads_back() {
    let place = Place::new();
    let settings = format!("[fleet]\nanonymous_installs = {INSTALLS}\nanonymous_networks = 1\n");
    let settings = place.write("index.toml", &settings);
    let served = place.serve(&["--no-crawl", "--config", &settings]).await;
    let mut fingerprint = Value::Null;
    for install in 0..INSTALLS {
        let state = place.path(&format!("install-{install}"));
        fingerprint = ended(published_client(&state, "detection", &served.base, "tell"))
            .await
            .json();
    }
    let fingerprint = fingerprint.as_str().expect("a fingerprint");
    let question = format!("api/v1/drift/any?fp={fingerprint}");
    until("the drift is counted", async || {
        served.json(&question).await["drifted"] == true
    })
    .await;
    let state = place.path("install-that-asks");
    let advisory = ended(published_client(&state, "lookup", &served.base, "ask"))
        .await
        .json();
    let expected = json!({ "provenance": "installs", "sources": INSTALLS, "safety_relevant": true });
    assert_eq!(advisory, expected);
    served.terminate().await;
}
