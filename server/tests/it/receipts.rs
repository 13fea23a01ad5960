//! Receipts over HTTP: the published answers, what is refused, that what was acknowledged is there.

use axum::http::Method;
use mcpindex_contract::signal::InstallId;
use mcpindex_server::ingest::IngestRules;
use mcpindex_store::testing::{TestStore, on_each_backend};
use serde_json::{Value, json};

use crate::programs::until;
use crate::signals::{Index, rules, wire};

const RECEIPTS: &str = "/api/v1/receipts";
const HERE: &str = "192.0.2.1";

fn taken() -> IngestRules {
    IngestRules {
        receipts: true,
        ..rules()
    }
}

fn receipt(number: u64) -> Value {
    json!({
        "receipt_id": format!("rcpt_{number:016x}"),
        "tool_hash": format!("sha256:{}", "0a".repeat(32)),
        "verdict_at_call": "DENY",
        "action_classification": {
            "action_types": ["search"],
            "effective_action_type": "search",
            "resource": { "kind": "data", "pattern": "single-arg", "scope_hint": "narrow" },
            "side_effect_class": "none",
            "reversibility": "reversible",
            "egress": "none",
            "autonomy_ceiling": "discovery",
            "autonomy_ceiling_basis": "static",
            "known_risk_notes": [],
            "evidence": [{ "ref_type": "schema_flag", "ref_id": "domain.data" }],
        },
        "run_context": {
            "autonomy_level": "reversible", "task_intent_class": "other", "human_in_loop": false, "framework": "other",
        },
        "outcome": {
            "executed": false, "status": "held", "side_effect_observed": "none", "reverted": false,
            "latency_bucket": "sub-100ms",
        },
        "justified": "unclear",
        "ts": "2026-11-30T15:00:00Z",
    })
}

pub(crate) fn batch(numbers: impl IntoIterator<Item = u64>) -> Value {
    let receipts: Vec<Value> = numbers.into_iter().map(receipt).collect();
    json!({ "v": 1, "receipts": receipts, "install_id": "0f".repeat(16) })
}

fn install() -> InstallId {
    "0f".repeat(16).parse().unwrap()
}

#[tokio::test]
async fn the_published_answers_are_given() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, taken());
    let mut answers = Vec::new();
    for (what, body) in [
        ("a batch", batch(0..2).to_string()),
        ("no JSON", "{".to_owned()),
        ("no receipts", batch(0..0).to_string()),
        ("too many", batch(0..257).to_string()),
        ("too large", " ".repeat(1024 * 1024 + 1)),
    ] {
        let answer = index.post(HERE, RECEIPTS, body).await;
        answers.push(format!("{what}: {}", wire(&answer)));
    }
    let text = [("content-type", "text/plain")];
    let body = batch(5..6).to_string();
    let answer = index.send(HERE, Method::POST, RECEIPTS, &text, body).await;
    answers.push(format!("text: {}", wire(&answer)));
    insta::assert_snapshot!(answers.join("\n"), @r#"
    a batch: 204 | cache-control: no-cache | 
    no JSON: 400 | content-type: application/json | cache-control: no-store | {"error":"invalid_json"}
    no receipts: 400 | content-type: application/json | cache-control: no-store | {"error":"invalid_receipt"}
    too many: 400 | content-type: application/json | cache-control: no-store | {"error":"invalid_receipt"}
    too large: 413 | content-type: application/json | cache-control: no-store | {"error":"too_large"}
    text: 415 | content-type: application/json | cache-control: no-store | {"error":"unsupported_media_type"}
    "#);
    assert_eq!(database.store.receipts_kept().await.unwrap(), 2);
}

#[tokio::test]
async fn receipts_are_not_taken_unless_the_settings_say_so() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, rules());
    let answer = index.post(HERE, RECEIPTS, batch(0..1).to_string()).await;
    assert_eq!(
        wire(&answer),
        "404 | content-type: application/json | cache-control: no-store | {\"error\":\"not_found\"}"
    );
    assert_eq!(database.store.receipts_kept().await.unwrap(), 0);
}

#[tokio::test]
async fn receipts_go_after_their_time_where_none_are_taken_any_more() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, taken());
    let answer = index.post(HERE, RECEIPTS, batch(0..3).to_string()).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    index.running.stop().await;
    let closed = IngestRules {
        keep_receipts: -1,
        ..rules()
    };
    let index = Index::start(&database.store, closed);
    until("the receipts go", async || {
        database.store.receipts_kept().await.unwrap() == 0
    })
    .await;
    index.running.stop().await;
}

#[tokio::test]
async fn what_was_acknowledged_is_there_once() {
    on_each_backend(async |store| {
        let index = Index::start(&store, taken());
        for _ in 0..2 {
            let answer = index.post(HERE, RECEIPTS, batch(0..256).to_string()).await;
            assert_eq!(answer.status, 204, "{}", answer.text());
            assert_eq!(store.receipts_kept().await.unwrap(), 256);
        }
        let kept = store.receipts_of(install(), 1).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&kept[0]).unwrap(), receipt(0));
        index.running.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_batch_with_one_wrong_receipt_leaves_nothing() {
    let database = TestStore::sqlite().await;
    let index = Index::start(&database.store, taken());
    let mut body = batch(0..16);
    body["receipts"][15]["outcome"]["note"] = json!("what the user asked for");
    let answer = index.post(HERE, RECEIPTS, body.to_string()).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text().as_str()),
        (400, r#"{"error":"invalid_receipt"}"#)
    );
    assert_eq!(database.store.receipts_kept().await.unwrap(), 0);
}
