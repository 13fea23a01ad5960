//! Signals: the two closed shapes, what is refused, fingerprints, and the published clients' own bodies.

use mcpindex_contract::change::ChangeKind;
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::Digest;
use mcpindex_contract::signal::{
    Digests, Event, Fingerprint, FingerprintKey, InstallId, Sdk, Signal, SignalError, read, write,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shared::shared;

/// 30 Nov 2026, 17:04:05 UTC.
const NOW: i64 = 1_796_058_245;
const HASH: &str = "sha256:a081a8ef183b69e571c14e22e479ac820c1469f09652bb80e9aaff7c68c26f10";

fn pin() -> Value {
    json!({
        "v": 1, "event": "pin", "server_fp": "00".repeat(16), "tool_fp": "11".repeat(16), "prev_hash": null,
        "new_hash": HASH, "change_kinds": null, "safety_relevant": false, "at_hour": "2026-11-30T15:00:00Z",
        "sdk": "py", "install_id": "22".repeat(16),
    })
}

fn drift() -> Value {
    with(
        pin(),
        &[
            ("event", json!("drift")),
            ("prev_hash", json!(HASH)),
            ("change_kinds", json!(["added-required-param"])),
            ("safety_relevant", json!(true)),
        ],
    )
}

/// The same drift of version 2.
fn drift_2() -> Value {
    with(
        drift(),
        &[
            ("v", json!(2)),
            ("prev_digest", json!(HASH)),
            ("new_digest", json!(format!("raw-{HASH}"))),
            ("change_kinds", json!(["enum-values-added"])),
        ],
    )
}

fn with(mut signal: Value, members: &[(&str, Value)]) -> Value {
    for (name, value) in members {
        signal[*name] = value.clone();
    }
    signal
}

fn without(mut signal: Value, name: &str) -> Value {
    signal.as_object_mut().unwrap().remove(name);
    signal
}

fn batch(signals: &[Value]) -> String {
    json!({ "signals": signals }).to_string()
}

fn read_one(signal: Value) -> Result<Signal, SignalError> {
    read(batch(&[signal]).as_bytes(), NOW).map(|mut signals| signals.remove(0))
}

fn check_refused(signal: Value, expected: &str) {
    let error = read_one(signal.clone()).expect_err(&signal.to_string());
    assert_eq!(error.to_string(), expected, "{signal}");
}

#[test]
fn a_pin_and_a_drift_are_read() {
    let signal = read_one(pin()).unwrap();
    assert_eq!(
        (signal.event, signal.version(), signal.hour),
        (Event::Pin, 1, Some(1_796_050_800))
    );
    assert_eq!(signal.kinds, Vec::<&str>::new());
    let signal = read_one(drift_2()).unwrap();
    assert_eq!((signal.event, signal.version()), (Event::Drift, 2));
    assert_eq!(signal.kinds, ["enum-values-added"]);
    assert!(signal.digests.unwrap().after.is_raw());
}

#[test]
fn what_is_not_of_the_shape_is_refused_by_its_place() {
    check_refused(with(pin(), &[("v", json!(3))]), "signals[0].v: expected 1 or 2");
    check_refused(with(pin(), &[("v", json!(1.0))]), "signals[0].v: expected 1 or 2");
    check_refused(
        with(pin(), &[("x", json!(1))]),
        "signals[0]: expected no member that its version doesn't have",
    );
    check_refused(
        with(pin(), &[("new_digest", json!(HASH))]),
        "signals[0]: expected no member that its version doesn't have",
    );
    check_refused(without(pin(), "sdk"), "signals[0].sdk: expected to be there");
    check_refused(
        without(drift_2(), "prev_digest"),
        "signals[0].prev_digest: expected to be there",
    );
    check_refused(
        with(pin(), &[("event", json!("seen"))]),
        "signals[0].event: expected `pin` or `drift`",
    );
    check_refused(
        with(pin(), &[("tool_fp", json!("AA".repeat(16)))]),
        "signals[0].tool_fp: expected 32 hex digits",
    );
    check_refused(
        with(pin(), &[("prev_hash", json!(HASH))]),
        "signals[0].prev_hash: expected null on a pin",
    );
    check_refused(
        with(pin(), &[("change_kinds", json!([]))]),
        "signals[0].change_kinds: expected null on a pin",
    );
    check_refused(
        with(pin(), &[("safety_relevant", json!(true))]),
        "signals[0].safety_relevant: expected false on a pin",
    );
    check_refused(
        with(drift(), &[("prev_hash", json!(null))]),
        "signals[0].prev_hash: expected a hash such as `sha256:` and 64 hex digits",
    );
    check_refused(
        with(
            drift(),
            &[(
                "new_hash",
                json!(format!("{}:{}", "a".repeat(33), "0".repeat(64))),
            )],
        ),
        "signals[0].new_hash: expected a hash such as `sha256:` and 64 hex digits",
    );
    check_refused(
        with(drift(), &[("change_kinds", json!(["enum-values-added"]))]),
        "signals[0].change_kinds: expected known kinds of change",
    );
    check_refused(
        with(drift(), &[("change_kinds", json!(vec!["tool-added"; 65]))]),
        "signals[0].change_kinds: expected a list of at most 64 kinds of change",
    );
    check_refused(
        with(pin(), &[("sdk", json!("go"))]),
        "signals[0].sdk: expected `py`, `ts` or `rs`",
    );
}

#[test]
fn a_batch_is_one_member_and_1_to_256_signals() {
    let name = |body: &str| read(body.as_bytes(), NOW).map_err(|error| error.name());
    assert_eq!(name("{\"signals\":[]}"), Err("invalid_signal"));
    assert_eq!(name("[]"), Err("invalid_signal"));
    assert_eq!(name(""), Err("invalid_json"));
    assert_eq!(name("{\"signals\":[}"), Err("invalid_json"));
    assert_eq!(name(&batch(&vec![pin(); 257])), Err("invalid_signal"));
    assert_eq!(name(&batch(&vec![pin(); 256])).unwrap().len(), 256);
    let body = batch(&[pin()]);
    assert_eq!(
        name(&body.replace("{\"signals\"", "{\"x\":1,\"signals\"")),
        Err("invalid_signal")
    );
    // Which of the two would be meant?
    assert_eq!(
        name(&body.replace("\"v\":1", "\"v\":1,\"v\":1")),
        Err("invalid_signal")
    );
    assert_eq!(
        name(&body.replace("\"signals\"", "\"signals\":[],\"signals\"")),
        Err("invalid_signal")
    );
    assert_eq!(read(b"\xff", NOW).unwrap_err().name(), "invalid_json");
    // One bad signal refuses all.
    assert_eq!(
        name(&batch(&[pin(), with(pin(), &[("v", json!(0))])])),
        Err("invalid_signal")
    );
}

#[test]
fn an_hour_is_of_the_last_seven_days_or_left_out_by_version_1() {
    let at = |signal: Value, hour: &str| read_one(with(signal, &[("at_hour", json!(hour))]));
    assert_eq!(at(drift(), "").unwrap().hour, None);
    assert!(at(drift(), "2026-11-23T18:00:00Z").is_ok());
    assert!(at(drift(), "2026-11-30T18:00:00Z").is_ok());
    let name = |result: Result<Signal, SignalError>| result.unwrap_err().name();
    assert_eq!(name(at(drift(), "2026-11-23T17:00:00Z")), "invalid_signal");
    assert_eq!(name(at(drift(), "2026-11-30T19:00:00Z")), "invalid_signal");
    assert_eq!(name(at(drift_2(), "2026-11-23T17:00:00Z")), "hour_out_of_range");
    assert_eq!(name(at(drift_2(), "2026-11-30T19:00:00Z")), "hour_out_of_range");
    assert_eq!(name(at(drift_2(), "")), "invalid_signal");
    assert_eq!(name(at(drift_2(), "2026-11-31T15:00:00Z")), "invalid_signal");
}

#[test]
fn kinds_are_kept_sorted_and_once() {
    let kinds = json!(["type-changed", "removed-param", "type-changed"]);
    let signal = read_one(with(drift(), &[("change_kinds", kinds)])).unwrap();
    assert_eq!(signal.kinds, ["removed-param", "type-changed"]);
}

#[test]
fn fingerprints_are_those_of_the_published_clients() {
    let key = FingerprintKey::public();
    assert_eq!(
        key.server("io.example/docs").to_string(),
        "c688a8238d6ef9916614a41c544ffa74"
    );
    assert_eq!(
        key.tool("io.example/docs", "search_docs").to_string(),
        "49c3a596f8b6edd6dddb8c4727cb5e42"
    );
    // RFC 4231, test case 2, cut to half.
    let key = FingerprintKey::new(b"Jefe");
    assert_eq!(
        key.server("what do ya want for nothing?").to_string(),
        "5bdcc146bf60754e6a042426089575c7"
    );
}

#[test]
fn what_the_published_client_sends_is_read() {
    let Some(shared) = shared() else { return };
    let text = std::fs::read_to_string(shared.join("vectors/telemetry_example.json")).unwrap();
    let example: Value = serde_json::from_str(&text).unwrap();
    let inputs = &example["inputs"];
    let hash = |which: &str| contract_hash(&Definition::read(&inputs[which].to_string())).unwrap();
    let key = FingerprintKey::public();
    for (which, event) in [("pin_signal", Event::Pin), ("drift_signal", Event::Drift)] {
        let body = example[which]["request"]["body"].as_str().unwrap();
        let signals = read(body.as_bytes(), NOW).unwrap();
        let [signal] = signals.as_slice() else {
            panic!("one signal")
        };
        assert_eq!((signal.event, signal.sdk), (event, Sdk::Py));
        assert_eq!(
            signal.tool,
            key.tool(inputs["server_id"].as_str().unwrap(), "search_docs")
        );
        assert_eq!(
            signal.hash_after,
            hash(if event == Event::Pin { "before" } else { "after" })
        );
        // Our encoder says the same.
        let ours: Value = serde_json::from_str(&write(&signals)).unwrap();
        assert_eq!(ours, serde_json::from_str::<Value>(body).unwrap());
    }
}

fn any_signal() -> impl Strategy<Value = Signal> {
    let bytes = any::<[u8; 16]>();
    let kinds = prop::collection::vec(0..ChangeKind::all().len(), 0..6);
    (
        bytes,
        bytes,
        bytes,
        any::<(bool, bool, bool)>(),
        kinds,
        0..169_i64,
        "[a-z0-9]{1,32}:[0-9a-f]{32,128}",
    )
        .prop_map(
            |(server, tool, install, (is_pin, is_second, safety), kinds, hours_ago, hash)| {
                let digest: Digest = HASH.parse().unwrap();
                let name = |kind: &usize| {
                    let kind = ChangeKind::all()[*kind];
                    if is_second { kind.name() } else { kind.published() }
                };
                let mut kinds: Vec<&'static str> = if is_pin {
                    Vec::new()
                } else {
                    kinds.iter().map(name).collect()
                };
                kinds.sort_unstable();
                kinds.dedup();
                Signal {
                    event: if is_pin { Event::Pin } else { Event::Drift },
                    server: Fingerprint::from_bytes(server),
                    tool: Fingerprint::from_bytes(tool),
                    hash_before: (!is_pin).then(|| hash.clone()),
                    hash_after: hash,
                    digests: is_second.then_some(Digests {
                        before: (!is_pin).then_some(digest),
                        after: digest,
                    }),
                    kinds,
                    safety_relevant: safety && !is_pin,
                    hour: (is_second || safety).then_some(1_796_058_000 - hours_ago.min(167) * 3_600),
                    sdk: Sdk::Rs,
                    install: InstallId::from_bytes(install),
                }
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(signals in prop::collection::vec(any_signal(), 1..5)) {
        prop_assert_eq!(read(write(&signals).as_bytes(), NOW), Ok(signals));
    }

    #[test]
    fn no_bytes_are_taken_for_more_than_they_say(signal in any_signal(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut body = write(&[signal]).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        // Refused, or a signal whose own text says the same in other words.
        if let Ok(signals) = read(&body, NOW) {
            prop_assert_eq!(read(write(&signals).as_bytes(), NOW), Ok(signals));
        }
    }

    #[test]
    fn any_bytes_are_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read(&body, NOW).is_err());
    }
}
