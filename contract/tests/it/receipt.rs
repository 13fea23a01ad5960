//! Receipts: the closed shape, what is refused and where, and that nothing but the shape is ever kept.

use mcpindex_contract::receipt::{ENVELOPE, Letters, ReceiptError, Shape, read};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shared::shared;

fn receipt() -> Value {
    json!({
        "receipt_id": "rcpt_00112233aabbccdd",
        "tool_hash": format!("sha256:{}", "0a".repeat(32)),
        "verdict_at_call": "REVIEW",
        "action_classification": {
            "action_types": ["write", "send"],
            "effective_action_type": "send",
            "resource": { "kind": "comms", "pattern": "single-arg", "scope_hint": "narrow" },
            "side_effect_class": "outbound",
            "reversibility": "hard-to-reverse",
            "egress": "external",
            "autonomy_ceiling": "needs-approval",
            "autonomy_ceiling_basis": "static",
            "known_risk_notes": [{
                "note_class": "annotation_contradicts_probe", "severity": "high",
                "source": { "ref_type": "schema_flag", "ref_id": "readonly_hint_vs_writeish" }, "provenance": "derived",
            }],
            "evidence": [{ "ref_type": "schema_flag", "ref_id": "domain.comms" }],
        },
        "run_context": {
            "autonomy_level": "reversible", "task_intent_class": "other", "human_in_loop": false, "framework": "other",
        },
        "outcome": {
            "executed": true, "status": "ok", "side_effect_observed": "none", "reverted": false,
            "latency_bucket": "sub-100ms",
        },
        "justified": "unclear",
        "ts": "2026-11-30T15:00:00Z",
    })
}

fn batch(receipts: &[Value]) -> Value {
    json!({ "v": 1, "receipts": receipts, "install_id": "0f".repeat(16) })
}

fn check_refused(batch: &Value, expected: &str) {
    let error = read(batch.to_string().as_bytes()).expect_err(expected);
    assert_eq!(
        (error.name(), error.to_string().as_str()),
        ("invalid_receipt", expected)
    );
}

/// The batch of one receipt with another value at a place.
fn with(pointer: &str, value: Value) -> Value {
    let mut batch = batch(&[receipt()]);
    *batch.pointer_mut(pointer).expect(pointer) = value;
    batch
}

#[test]
fn a_batch_is_read() {
    let batch = read(batch(&[receipt()]).to_string().as_bytes()).unwrap();
    assert_eq!(batch.install.to_string(), "0f".repeat(16));
    let read = &batch.receipts[0];
    assert_eq!(
        (read.id.as_str(), read.verdict.as_str()),
        ("rcpt_00112233aabbccdd", "REVIEW")
    );
    // Nothing is lost, and the text is the same however it was sent.
    assert_eq!(serde_json::from_str::<Value>(&read.text).unwrap(), receipt());
    assert!(
        read.text
            .starts_with(r#"{"action_classification":{"action_types":["write","send"],"#)
    );
}

#[test]
fn what_is_not_of_the_shape_is_refused_by_its_place() {
    check_refused(&with("/v", json!(2)), "v: expected 1");
    check_refused(&batch(&[]), "receipts: expected a list of 1 to 256");
    check_refused(
        &batch(&vec![receipt(); 257]),
        "receipts: expected a list of 1 to 256",
    );
    check_refused(
        &with("/install_id", json!("0F".repeat(16))),
        "install_id: expected 32 of [0-9a-f]",
    );
    check_refused(
        &with("/receipts/0/receipt_id", json!("rcpt_1234567")),
        "receipts[0].receipt_id: expected `rcpt_` and 8 to 40 of [a-z0-9]",
    );
    check_refused(
        &with("/receipts/0/outcome/status", json!("fine")),
        "receipts[0].outcome.status: expected one of `ok`, `error`, `denied_by_framework`, `rolled_back`, `held`",
    );
    check_refused(
        &with(
            "/receipts/0/action_classification/known_risk_notes/0/source/ref_id",
            json!("A b"),
        ),
        "receipts[0].action_classification.known_risk_notes[0].source.ref_id: expected 1 to 64 of [a-z0-9_.:-]",
    );
    check_refused(
        &with("/receipts/0/ts", json!("2026-11-30T")),
        "receipts[0].ts: expected a time such as `2026-11-30T15:00:00Z`",
    );
    check_refused(
        &json!([]),
        "the body: expected an object with exactly `v`, `receipts`, `install_id`",
    );
    let twice = batch(&[receipt()])
        .to_string()
        .replacen(r#""v":1"#, r#""v":1,"v":1"#, 1);
    let error = read(twice.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "/v: expected each member once");
    assert_eq!(read(b"{").unwrap_err().name(), "invalid_json");
    assert_eq!(read(b"\xff").unwrap_err().name(), "invalid_json");
}

/// Every object of a value, by pointer.
fn objects(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(pointer.to_owned());
            members
                .iter()
                .for_each(|(name, value)| objects(value, &format!("{pointer}/{name}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| objects(value, &format!("{pointer}/{index}"), found));
        }
        _ => {}
    }
}

#[test]
fn no_level_takes_another_member_or_misses_one() {
    let whole = batch(&[receipt()]);
    let mut found = Vec::new();
    objects(&whole, "", &mut found);
    assert_eq!(
        found.len(),
        9,
        "every kind of object of the shape is in the example"
    );
    for pointer in found {
        let mut more = whole.clone();
        let object = more.pointer_mut(&pointer).unwrap().as_object_mut().unwrap();
        object.insert("extra".to_owned(), json!("a user's words"));
        assert!(
            read(more.to_string().as_bytes()).is_err(),
            "{pointer} takes another member"
        );
        let names: Vec<String> = whole
            .pointer(&pointer)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        for name in names {
            let mut renamed = whole.clone();
            let object = renamed.pointer_mut(&pointer).unwrap().as_object_mut().unwrap();
            let value = object.remove(&name).unwrap();
            assert!(
                read(renamed.to_string().as_bytes()).is_err(),
                "{pointer} misses {name}"
            );
            let object = renamed.pointer_mut(&pointer).unwrap().as_object_mut().unwrap();
            object.insert("extra".to_owned(), value);
            let error = read(renamed.to_string().as_bytes()).unwrap_err();
            assert!(matches!(error, ReceiptError::Invalid { .. }), "{pointer} {name}");
        }
    }
}

/// Any value of a shape.
fn any_of(shape: Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::One => Just(json!(1)).boxed(),
        Shape::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Shape::Among(texts) => prop::sample::select(texts).prop_map(Value::from).boxed(),
        Shape::Text {
            start,
            letters,
            least,
            most,
        } => {
            let letters: Vec<char> = match letters {
                Letters::Hex => ('0'..='9').chain('a'..='f').collect(),
                Letters::Plain => ('0'..='9').chain('a'..='z').collect(),
                Letters::Name => ('0'..='9').chain('a'..='z').chain(['_']).collect(),
                Letters::Word => ('0'..='9').chain('a'..='z').chain(['_', '.', ':', '-']).collect(),
            };
            prop::collection::vec(prop::sample::select(letters), least..=most)
                .prop_map(move |rest| Value::from(format!("{start}{}", rest.into_iter().collect::<String>())))
                .boxed()
        }
        Shape::Time => prop::collection::vec(prop::sample::select(b"0123456789:.+-Z".to_vec()), 1..=32)
            .prop_map(|time| Value::from(format!("2026-11-30T{}", String::from_utf8(time).unwrap())))
            .boxed(),
        Shape::List { least, most, item } => {
            // A few are as good as many.
            prop::collection::vec(any_of(*item), least..=most.min(least + 2))
                .prop_map(Value::from)
                .boxed()
        }
        Shape::Object(members) => members
            .iter()
            .map(|(name, shape)| any_of(*shape).prop_map(move |value| ((*name).to_owned(), value)))
            .collect::<Vec<_>>()
            .prop_map(|members| Value::Object(members.into_iter().collect()))
            .boxed(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_of_the_shape_is_kept_whole(batch in any_of(ENVELOPE)) {
        let read = read(batch.to_string().as_bytes()).unwrap();
        let kept: Vec<Value> = read.receipts.iter().map(|receipt| serde_json::from_str(&receipt.text).unwrap()).collect();
        prop_assert_eq!(&Value::from(kept), &batch["receipts"]);
    }

    #[test]
    fn no_bytes_are_too_much_for_the_reader(body in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&body);
    }

    #[test]
    fn a_broken_batch_is_refused_or_still_of_the_shape(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut body = batch(&[receipt()]).to_string().into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        if let Ok(read) = read(&body) {
            // Read back, it is what was sent: nothing was taken for something else.
            let sent: Value = serde_json::from_slice(&body).unwrap();
            let kept: Value = serde_json::from_str(&read.receipts[0].text).unwrap();
            prop_assert_eq!(&kept, &sent["receipts"][0]);
        }
    }
}

#[test]
fn what_the_published_client_sends_is_read() {
    let Some(folder) = shared() else { return };
    let text = std::fs::read_to_string(folder.join("vectors/telemetry_example.json")).unwrap();
    let example: Value = serde_json::from_str(&text).unwrap();
    let body = example["receipts"]["request"]["body"].as_str().unwrap();
    let batch = read(body.as_bytes()).unwrap();
    assert_eq!(batch.receipts.len(), 2);
    assert_eq!(batch.receipts[1].verdict, "DENY");
}
