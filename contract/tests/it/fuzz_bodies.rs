//! What must hold for any bytes: one body for each public function of the crate, with its invariants.
//!
//! The one copy of each: `fuzz.rs` feeds them in the tests, and `contract/fuzz` lets cargo-fuzz do so. A NUL byte separates
//! the two sides where a body compares; without one, both are the same text.

use mcpindex_contract::canonical::canonical;
use mcpindex_contract::capability::{self, classify_resource};
use mcpindex_contract::change::{Change, ChangeKind};
use mcpindex_contract::contract_hash::contract_hash;
use mcpindex_contract::declaration::MAX_WORK;
use mcpindex_contract::definition::Definition;
use mcpindex_contract::diff::{diff, diff_member};
use mcpindex_contract::digest::NoDigest;
use mcpindex_contract::identity::Identity;
use mcpindex_contract::json::read;
use mcpindex_contract::markers::{self, Level, MAX_MARKERS, Marker, MarkerClass, Scan};
use mcpindex_contract::numeric::is_numeric_churn;
use mcpindex_contract::posture::{Decision, Posture, examine, first_sight, judge, judge_instructions};
use mcpindex_contract::schema::{Acceptance, compare_input, compare_output};
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};
use mcpindex_contract::{action, words};
use std::borrow::Cow;

/// A body and what it is called.
pub(crate) type Body = (&'static str, fn(&[u8]));

/// From how many bytes on an answer is not asked for a second time, to be compared.
const LARGE: usize = 20_000;

/// Every body.
pub(crate) const BODIES: [Body; 9] = [
    ("reader", reader),
    ("definition", definition),
    ("changes", changes),
    ("surface", surface),
    ("postures", postures),
    ("schema", schema),
    ("marker_scan", marker_scan),
    ("classes", classes),
    ("identity", identity),
];

/// `json::read`, `canonical`, `Value::to_pretty`, `Value::pointer`: what was read can be written and read again.
pub(crate) fn reader(bytes: &[u8]) {
    let Ok(document) = read(&text(bytes)) else { return };
    let _ = document.value.pointer("/a/0/~1");
    let pretty = read(&document.value.to_pretty());
    assert!(
        pretty.is_ok_and(|pretty| pretty.value == document.value),
        "the indented text is another value"
    );
    if !document.flaws.is_empty() {
        return;
    }
    if let Ok(once) = canonical(&document.value, None) {
        let again = read(&once).map(|document| canonical(&document.value, None));
        assert_eq!(again, Ok(Ok(once)), "the canonical text is not its own");
    }
}

/// `Definition` and `contract_hash`: the digest is that of the canonical text, and nothing else tells two apart.
pub(crate) fn definition(bytes: &[u8]) {
    let (one, other) = pair(bytes);
    let definitions = [&one, &other].map(|text| Definition::read(text));
    for definition in &definitions {
        let again = Definition::read(&definition.digested_text());
        assert_eq!(again.digest(), definition.digest());
        assert_eq!(definition.digest().is_raw(), definition.no_digest().is_some());
        assert_eq!(
            contract_hash(definition),
            contract_hash(&Definition::read(definition.text()))
        );
        let _ = (
            definition.name(),
            definition.title(),
            definition.description(),
            definition.input_schema(),
        );
    }
    let [one, other] = &definitions;
    if one.no_digest().is_none() && other.no_digest().is_none() {
        let is_same = one.digested_text() == other.digested_text();
        assert_eq!(one.digest() == other.digest(), is_same);
    }
}

/// `diff_member`: nothing differs from itself, and digests differ exactly when a change other than of `_meta` is told.
pub(crate) fn changes(bytes: &[u8]) {
    let (before, after) = pair(bytes);
    for kind in MemberKind::ALL {
        let [before, after] = [&before, &after].map(|text| Member {
            name: "same".to_owned(),
            ..Member::read(kind, text)
        });
        assert_eq!(diff_member(&before, &before), []);
        let changes = diff_member(&before, &after);
        check_told(&changes, &before.definition, &after.definition);
        if bytes.len() < LARGE {
            let again = diff_member(&before, &after);
            assert_eq!(changes, again, "another answer the second time");
        }
    }
}

/// `diff` and `Surface::digest`: the whole of what a server declares.
pub(crate) fn surface(bytes: &[u8]) {
    let (before, after) = pair(bytes);
    let [before, after] = [&before, &after].map(|text| surface_of(text));
    assert_eq!(diff(&before, &before), []);
    let _ = is_numeric_churn(&text(bytes), &text(bytes));
    let is_drift = |change: &Change| {
        !matches!(
            change.kind,
            ChangeKind::MetaChanged
                | ChangeKind::ServerInfoChanged
                | ChangeKind::CapabilitiesChanged
                | ChangeKind::ProtocolVersionChanged
        )
    };
    let has_drifted = diff(&before, &after).iter().any(is_drift);
    assert_eq!(before.digest() != after.digest(), has_drifted);
}

/// `examine`, `judge`, `first_sight`, `judge_instructions`: any pair has an end, strict holds whatever differs, monitor nothing.
pub(crate) fn postures(bytes: &[u8]) {
    let (before, after) = pair(bytes);
    let (old, new) = (Definition::read(&before), Definition::read(&after));
    for (before, after) in [(Some(&old), Some(&new)), (None, Some(&new)), (Some(&old), None)] {
        let examination = examine(before, after);
        let [monitor, guard, strict] = Posture::ALL.map(|posture| examination.verdict(posture));
        let is_no_tool =
            |side: &Definition| matches!(side.no_digest(), Some(NoDigest::NotJson | NoDigest::NotAnObject));
        let is_tool = ![before, after].into_iter().flatten().any(is_no_tool);
        assert_eq!(monitor.decision, Decision::Proceed);
        assert_eq!(strict.decision == Decision::Inconclusive, !is_tool);
        if !examination.changes.is_empty() && is_tool {
            assert_eq!(strict.decision, Decision::Hold, "strict lets a drift through");
        }
        if guard.decision == Decision::Hold {
            assert_eq!(strict.decision, Decision::Hold, "strict is milder than guard");
        }
        for (posture, verdict) in Posture::ALL.into_iter().zip([monitor, guard, strict]) {
            let holds = verdict.decision != Decision::Proceed;
            assert_eq!(holds, !verdict.reasons.is_empty(), "{posture:?}: {verdict:?}");
            if bytes.len() < LARGE {
                assert_eq!(judge(posture, before, after).decision, verdict.decision);
            }
        }
    }
    assert_eq!(first_sight(&new), first_sight(&new));
    let [before, after] = [&before, &after].map(|text| Instructions::read(text));
    for posture in Posture::ALL {
        let verdict = judge_instructions(posture, before.as_ref(), after.as_ref());
        let is_same = before == after;
        assert!(!is_same || verdict.decision == Decision::Proceed);
    }
}

/// `compare_input` and `compare_output`: equal to itself, and the same answer each time.
pub(crate) fn schema(bytes: &[u8]) {
    let (before, after) = pair(bytes);
    let (Ok(before), Ok(after)) = (read(&before), read(&after)) else {
        return;
    };
    for compare in [compare_input, compare_output] {
        let same = compare(&before.value, &before.value);
        assert_eq!((same.acceptance, same.differences.len()), (Acceptance::Equal, 0));
        let there = compare(&before.value, &after.value);
        if bytes.len() < LARGE {
            let again = compare(&before.value, &after.value);
            assert_eq!(there, again, "another answer the second time");
        }
        let back = compare(&after.value, &before.value);
        let is_contradiction = matches!(
            (there.acceptance, back.acceptance),
            (Acceptance::Equal, Acceptance::Narrower | Acceptance::Incomparable)
                | (Acceptance::Narrower | Acceptance::Incomparable, Acceptance::Equal)
        );
        assert!(
            !is_contradiction,
            "{:?}, and back {:?}",
            there.acceptance, back.acceptance
        );
    }
}

/// `scan_definition`, `scan_text`, `introduced`: bounded, the same each time, and pointing at what is there.
pub(crate) fn marker_scan(bytes: &[u8]) {
    let (before, after) = pair(bytes);
    let definition = Definition::read(&after);
    let scan = markers::scan_definition(&definition);
    assert_eq!(scan, markers::scan_definition(&definition));
    for marker in &scan.markers {
        let place = definition
            .value()
            .and_then(|value| value.pointer(&marker.pointer));
        // A pointer can't tell two members of one name apart; such a definition has no digest.
        let is_ambiguous = definition.no_digest().is_some();
        let is_nowhere = definition.value().is_none() || marker.pointer.is_empty();
        assert!(place.is_some() || is_ambiguous || is_nowhere);
        assert!(!marker.excerpt.contains(char::is_control), "{:?}", marker.excerpt);
    }
    check_scan(&scan, after.len());
    check_scan(&markers::scan_text(&after), after.len());
    assert_eq!(markers::introduced(&scan, &scan), []);
    let old = markers::scan_definition(&Definition::read(&before));
    let new = markers::introduced(&old, &scan);
    assert!(new.iter().all(|marker| scan.markers.contains(marker)));
    assert!(!new.iter().any(|marker| old.markers.contains(marker)));
    assert!(
        MarkerClass::all()
            .iter()
            .all(|class| MarkerClass::from_name(class.name()) == Some(*class))
    );
}

/// `action::classify`, `escalates`, `capability::classify`, `classify_resource`, `gained`: always some class, never worse
/// than itself.
pub(crate) fn classes(bytes: &[u8]) {
    let (before, after) = pair(bytes);
    let [before, after] = [&before, &after].map(|text| Definition::read(text));
    for definition in [&before, &after] {
        let found = capability::classify(definition);
        assert_eq!(found, capability::classify(definition));
        assert_eq!(
            found.classes.iter().map(|one| one.class.rank()).max(),
            Some(found.rank)
        );
        assert!(capability::gained(&found, &found).is_empty());
        assert!(!classify_resource(definition).classes.is_empty());
        let does = action::classify(definition);
        assert_eq!(does, action::classify(definition));
        assert_eq!(action::escalates(&does, &does), None);
        assert!(
            does.effective >= does.effective_without_hints,
            "a hint made it look better"
        );
    }
    let _ = (words::rules_digest(), MAX_WORK);
    let (old, new) = (capability::classify(&before), capability::classify(&after));
    let gained = capability::gained(&old, &new);
    assert!(gained.classes.iter().all(|class| new.get(*class).is_some()));
}

/// `Identity::from_reference`, `from_url`, `from_launch`: what has a normal form is its own.
pub(crate) fn identity(bytes: &[u8]) {
    let text = text(bytes);
    let argv: Vec<String> = text.split(['\0', ' ']).map(str::to_owned).collect();
    let found = [
        Identity::from_url(&text).ok(),
        Identity::from_reference(&text)
            .ok()
            .map(|launched| launched.identity),
        Identity::from_launch(&argv)
            .ok()
            .map(|launched| launched.identity),
    ];
    for identity in found.into_iter().flatten() {
        assert_eq!(identity.short_id().len(), 16);
        assert!(read(&identity.to_lock_json()).is_ok(), "{identity}");
        if identity.form() == "command" || matches!(identity, Identity::Command { .. }) {
            continue;
        }
        let again = Identity::from_reference(&identity.to_string()).map(|launched| launched.identity);
        assert_eq!(again, Ok(identity), "the normal form is another server's");
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Both sides of a comparison.
fn pair(bytes: &[u8]) -> (Cow<'_, str>, Cow<'_, str>) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (text(&bytes[..at]), text(&bytes[at + 1..])),
        None => (text(bytes), text(bytes)),
    }
}

/// A server that declares a text as one member of each kind, and as its instructions.
fn surface_of(text: &str) -> Surface {
    Surface {
        protocol_version: text.chars().take(4).collect(),
        server_info: Some(text.to_owned()),
        capabilities: Some(text.to_owned()),
        instructions: Instructions::read(text),
        members: MemberKind::ALL
            .into_iter()
            .map(|kind| Member::read(kind, text))
            .collect(),
        listings: [const { Listing::Complete }; 4],
    }
}

fn check_told(changes: &[Change], before: &Definition, after: &Definition) {
    let is_told = changes
        .iter()
        .any(|change| change.kind != ChangeKind::MetaChanged);
    assert_eq!(
        before.digest() != after.digest(),
        is_told,
        "digests and changes disagree: {changes:?}"
    );
    let is_meta_told = changes
        .iter()
        .any(|change| change.kind == ChangeKind::MetaChanged);
    if before.no_digest().is_none() && after.no_digest().is_none() {
        assert_eq!(before.meta() != after.meta(), is_meta_told);
    }
}

fn check_scan(scan: &Scan, bytes: usize) {
    assert!(scan.markers.len() <= MAX_MARKERS);
    assert_eq!(scan.level == Level::None, scan.markers.is_empty());
    let asks = |marker: &Marker| marker.class == MarkerClass::AsksForContext;
    assert_eq!(scan.asks_for_context, scan.markers.iter().any(asks));
    assert!(
        scan.markers
            .iter()
            .all(|marker| marker.offset <= bytes && (1..=10).contains(&marker.weight))
    );
}
