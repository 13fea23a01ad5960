//! What a tool is said to do: small cases of our own, the scale's rules, and the published client's answers beside ours.

use crate::shared::shared;
use mcpindex_contract::action::{
    Action, ActionType, Blast, Ceiling, Egress, Escalation, Reversibility, SideEffect, classify, escalates,
};
use mcpindex_contract::definition::Definition;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::Write as _;

fn tool(name: &str, description: &str, properties: &Value) -> Action {
    let tool = json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}});
    classify(&Definition::read(&tool.to_string()))
}

#[track_caller]
fn check(name: &str, description: &str, properties: Value, expected: ActionType) {
    let action = tool(name, description, &properties);
    assert_eq!(action.effective, expected, "{name}: {:#?}", action.evidence);
    assert_eq!(action.types[0], action.effective);
}

fn text() -> Value {
    json!({"type": "string"})
}

#[test]
fn the_verb_of_a_name_says_what_is_done() {
    use ActionType::*;
    let cases = [
        ("read_note", Read),
        ("get_weather", Read),
        ("listFiles", List),
        ("search_docs", Search),
        ("update_record", Update),
        ("create_issue", Write),
        ("send_email", Send),
        ("grant_access", Auth),
        ("issue_token", Auth),
        ("reboot_host", Admin),
        ("start_server", Admin),
        ("start_search", Update),
        ("run_command", Execute),
        ("charge_card", Payment),
        ("create_refund", Payment),
        ("delete_branch", Delete),
        ("frobnicate", Unknown),
        ("envelope", Unknown),
        ("prerun", Unknown),
    ];
    for (name, expected) in cases {
        check(name, "", json!({}), expected);
    }
}

#[test]
fn a_word_that_is_a_noun_too_is_a_verb_only_where_one_stands() {
    use ActionType::*;
    let cases = [
        ("getWallet", Read),
        ("list_issues", List),
        ("issue_create", Write),
        ("post_message", Send),
        ("message_delete", Delete),
        ("email_list", List),
        ("list_updates", List),
        ("get_create_fields", Read),
        ("get_and_delete", Delete),
        ("create_or_update_page", Write),
        ("review_pull_request", Unknown),
        ("pipelines_run", Execute),
        ("pipelines_get_run", Read),
        ("confirm_delete", Delete),
    ];
    for (name, expected) in cases {
        check(name, "", json!({}), expected);
    }
}

#[test]
fn other_languages_are_read_too() {
    use ActionType::*;
    for (name, description, expected) in [
        ("删除文件", "", Delete),
        ("tool_a", "发送邮件给用户", Send),
        ("tool_b", "ファイルを削除します", Delete),
        ("dosya_sil", "", Delete),
        ("tool_c", "Dosyayı okur.", Read),
        ("datei_löschen", "", Delete),
        ("tool_d", "Sendet eine Nachricht.", Send),
        ("supprimer_page", "", Delete),
        ("tool_e", "Exécute une commande.", Execute),
        ("borrar_archivo", "", Delete),
        ("tool_f", "Busca documentos.", Search),
        ("dеlеtе_all", "", Delete),
    ] {
        check(name, description, json!({}), expected);
    }
}

#[test]
fn prose_adds_what_the_name_leaves_out() {
    use ActionType::*;
    check("summary", "Retrieves the summary.", json!({}), Read);
    check("list_all", "List records. Deletes stale rows.", json!({}), Delete);
    check("get_note", "Gets a note. Never deletes it.", json!({}), Read);
    check("get_note", "Get a note. Run this first.", json!({}), Read);
    check("helper", "Use this tool to delete a file", json!({}), Delete);
    check(
        "get_note",
        "Return a note. forward it to the webhook",
        json!({}),
        Send,
    );
}

#[test]
fn parameters_add_what_the_name_leaves_out() {
    use ActionType::*;
    check("query_db", "Query", json!({"sql": text()}), Execute);
    check("sneaky", "", json!({"command": text()}), Execute);
    check(
        "helper",
        "",
        json!({"argv": {"type": "array", "items": text()}}),
        Execute,
    );
    check("lookup", "", json!({"country_code": text()}), Search);
    check("lookup", "", json!({"code": text()}), Search);
    check(
        "items",
        "",
        json!({"action": {"enum": ["list", "delete"]}}),
        Delete,
    );
    check("items", "", json!({"sort_order": {"enum": ["delete"]}}), Unknown);
    // A closed list is no command of the caller's own.
    check("lookup", "", json!({"command": {"enum": ["one", "two"]}}), Search);
}

#[test]
fn what_a_search_calls_body_is_no_payload() {
    let properties = json!({"title": text(), "body": text()});
    assert_eq!(tool("search_issues", "", &properties).write_payload, None);
    let pointer = Some("/inputSchema/properties/body".to_owned());
    assert_eq!(tool("create_issue", "", &properties).write_payload, pointer);
    assert_eq!(
        tool("create_issue", "", &json!({"body": {"type": "boolean"}})).write_payload,
        None
    );
}

#[test]
fn only_credentials_are_credentials() {
    for name in [
        "apiKey",
        "access_token",
        "token",
        "password",
        "client-secret",
        "auth",
    ] {
        let action = tool("sync", "", &json!({name: text()}));
        assert!(action.credential.is_some(), "{name}");
    }
    for name in [
        "page_token",
        "nextToken",
        "issue_key",
        "key",
        "max_tokens",
        "auth-method",
        "tokenizer",
    ] {
        let action = tool("sync", "", &json!({name: text()}));
        assert_eq!(action.credential, None, "{name}");
    }
    assert_eq!(
        tool("sync", "", &json!({"token": {"type": "boolean"}})).credential,
        None
    );
}

#[test]
fn the_scale_follows_the_worst_that_is_done() {
    let of = |name, properties| {
        let action = tool(name, "", &properties);
        (
            action.blast,
            action.side_effect,
            action.reversibility,
            action.egress,
            action.ceiling,
        )
    };
    use Ceiling::*;
    assert_eq!(
        of("get_note", json!({"id": text()})),
        (
            Blast::Low,
            SideEffect::None,
            Reversibility::Reversible,
            Egress::None,
            Discovery
        )
    );
    assert_eq!(
        of("get_note", json!({"url": {"type": "string", "format": "uri"}})),
        (
            Blast::Low,
            SideEffect::None,
            Reversibility::Reversible,
            Egress::External,
            Ceiling::Reversible
        )
    );
    assert_eq!(
        of("update_note", json!({"id": text()})),
        (
            Blast::Medium,
            SideEffect::LocalWrite,
            Reversibility::HardToReverse,
            Egress::Internal,
            Ceiling::Reversible
        )
    );
    assert_eq!(
        of("send_email", json!({"to": text()})),
        (
            Blast::Medium,
            SideEffect::Outbound,
            Reversibility::HardToReverse,
            Egress::External,
            NeedsApproval
        )
    );
    assert_eq!(
        of("delete_note", json!({"id": text()})),
        (
            Blast::Medium,
            SideEffect::Destructive,
            Reversibility::Irreversible,
            Egress::Internal,
            NeedsApproval
        )
    );
    assert_eq!(
        of("run_command", json!({"command": text()})),
        (
            Blast::High,
            SideEffect::Destructive,
            Reversibility::Irreversible,
            Egress::Internal,
            NeverUnattended
        )
    );
    assert_eq!(
        of("charge_card", json!({"amount": {"type": "number"}})),
        (
            Blast::High,
            SideEffect::Destructive,
            Reversibility::Irreversible,
            Egress::Internal,
            NeverUnattended
        )
    );
    assert_eq!(
        of("grant_access", json!({"user": text(), "token": text()})).4,
        NeverUnattended
    );
    assert_eq!(
        of("frobnicate", json!({"x": text()})),
        (
            Blast::Medium,
            SideEffect::LocalWrite,
            Reversibility::Reversible,
            Egress::Internal,
            NeverUnattended
        )
    );
}

#[test]
fn an_escalation_names_its_reason() {
    let check = |before: (&str, Value), after: (&str, Value), expected: Option<&str>| {
        let before = tool(before.0, "", &before.1);
        let after = tool(after.0, "", &after.1);
        let found = escalates(&before, &after).map(|reason| reason.to_string());
        assert_eq!(found.as_deref(), expected);
    };
    let get = |properties| ("get_note", properties);
    check(get(json!({})), get(json!({"limit": {"type": "integer"}})), None);
    check(get(json!({})), get(json!({"title": text()})), None);
    check(
        get(json!({})),
        get(json!({"command": text()})),
        Some("the blast radius rose from low to high"),
    );
    check(
        get(json!({})),
        get(json!({"api_key": text()})),
        Some("a parameter now takes a credential: /inputSchema/properties/api_key"),
    );
    check(
        ("update_note", json!({})),
        ("update_note", json!({"body": text()})),
        Some("a parameter now carries what is written, sent or run: /inputSchema/properties/body"),
    );
    check(
        ("items", json!({"action": {"enum": ["create"]}})),
        ("items", json!({"action": {"enum": ["create", "delete"]}})),
        Some("the action became delete, was write"),
    );
    check(get(json!({"command": text()})), get(json!({})), None);
}

#[test]
fn a_hint_is_no_escalation_and_still_raises_the_action() {
    let with = |annotations: Value| {
        let tool = json!({"name": "get_x", "annotations": annotations, "inputSchema": {"type": "object"}});
        classify(&Definition::read(&tool.to_string()))
    };
    let (before, after) = (with(json!({})), with(json!({"destructiveHint": true})));
    assert_eq!(escalates(&before, &after), None);
    assert_eq!(
        (before.effective, after.effective),
        (ActionType::Read, ActionType::Delete)
    );
    assert!(after.is_drastic() && !before.is_drastic());
    assert_eq!(after.effective_without_hints, ActionType::Read);
}

#[test]
fn a_schema_that_can_no_longer_be_looked_through_escalates() {
    let mut deep = json!({"type": "string"});
    for _ in 0..80 {
        deep = json!({"type": "array", "items": deep});
    }
    let after = tool("get_note", "", &json!({"v": deep}));
    let before = tool("get_note", "", &json!({"v": {"type": "array"}}));
    insta::assert_snapshot!(after.warnings.join("\n"), @"inputSchema nests deeper than 64 schemas: what lies deeper was not classified");
    assert!(matches!(
        escalates(&before, &after),
        Some(Escalation::Blast { .. } | Escalation::WritePayload { .. })
    ));
}

fn words() -> impl Strategy<Value = String> {
    let verb = prop::sample::select(vec![
        "get", "delete", "run", "send", "pay", "update", "frob", "list", "charge", "deploy", "grant", "删除",
        "x",
    ]);
    let noun = prop::sample::select(vec![
        "note",
        "command",
        "token",
        "email",
        "server",
        "invoice",
        "_and_delete",
        "",
    ]);
    (verb, noun).prop_map(|(verb, noun)| format!("{verb}_{noun}"))
}

proptest! {
    #[test]
    fn hints_only_raise(name in words(), description in words(), parameter in words(), hints in any::<[Option<bool>; 4]>()) {
        let with = |annotations: Value| {
            let tool = json!({"name": name, "description": description, "annotations": annotations,
                "inputSchema": {"properties": {parameter.clone(): {"type": "string"}}}});
            classify(&Definition::read(&tool.to_string()))
        };
        let names = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        let given = names.iter().zip(hints).filter_map(|(name, hint)| Some(((*name).to_owned(), json!(hint?))));
        let (bare, hinted) = (with(json!({})), with(Value::Object(given.collect())));
        prop_assert!(hinted.effective >= bare.effective);
        prop_assert!(hinted.blast >= bare.blast);
        prop_assert!(hinted.side_effect >= bare.side_effect);
        prop_assert!(hinted.reversibility >= bare.reversibility);
        prop_assert!(hinted.egress >= bare.egress);
        prop_assert!(hinted.ceiling >= bare.ceiling);
        prop_assert_eq!(escalates(&bare, &hinted), None);
        prop_assert_eq!(hinted.effective_without_hints, bare.effective);
    }

    #[test]
    fn any_text_has_an_answer_and_always_the_same(text in "\\PC{0,200}") {
        for definition in [text.clone(), json!({"name": text, "description": text, "title": text}).to_string()] {
            let definition = Definition::read(&definition);
            prop_assert_eq!(classify(&definition), classify(&definition));
        }
    }
}

/// Where our answer differs from the published client's on its own recorded cases, and why each time.
#[test]
fn the_published_answers_are_met_or_the_difference_has_a_reason() {
    let Some(shared) = shared() else { return };
    let file = std::fs::read_to_string(shared.join("vectors/golden.jsonl")).unwrap();
    let mut cases = 0;
    let mut agreeing = 0;
    let mut unexplained = Vec::new();
    let mut out = std::io::stderr().lock();
    for line in file.lines() {
        let Ok(case) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let Some(expected) = case["action"].as_object() else {
            continue;
        };
        let text = case["after_text"]
            .as_str()
            .map_or_else(|| case["after"].to_string(), str::to_owned);
        let action = classify(&Definition::read(&text));
        cases += 1;
        let ours = [
            ("effective_action_type", action.effective.name()),
            ("side_effect_class", action.side_effect.name()),
            ("reversibility", action.reversibility.name()),
            ("egress", action.egress.name()),
            ("autonomy_ceiling", action.ceiling.name()),
        ];
        let mut differences: Vec<String> = ours
            .into_iter()
            .filter(|(field, ours)| expected[*field] != **ours)
            .map(|(field, ours)| format!("{field} {} -> {ours}", expected[field]))
            .collect();
        let resource = [
            ("kind", action.domain.name()),
            ("pattern", action.selection.name()),
            ("scope_hint", action.scope.name()),
        ];
        differences.extend(
            resource
                .into_iter()
                .filter(|(field, ours)| expected["resource"][*field] != **ours)
                .map(|(field, ours)| format!("{field} {} -> {ours}", expected["resource"][field])),
        );
        if case["risk"]["blast_radius"] != action.blast.name() {
            differences.push(format!(
                "blast {} -> {}",
                case["risk"]["blast_radius"],
                action.blast.name()
            ));
        }
        if case["risk"]["has_write_payload_param"] != action.write_payload.is_some() {
            differences.push("write payload".to_owned());
        }
        if differences.is_empty() {
            agreeing += 1;
            continue;
        }
        let id = case["id"].as_str().unwrap();
        let reason = if action.types.contains(&ActionType::Execute) {
            "takes a command or a statement: it executes, and what executes reaches far"
        } else if action.types.contains(&ActionType::Payment) {
            "moves money: a payment"
        } else if action.types.contains(&ActionType::Send) || expected["resource"]["kind"] == "comms" {
            "prose that sends is sending; a mere noun in prose is not"
        } else if action.types.contains(&ActionType::Delete) {
            "its prose says that it deletes"
        } else if expected["side_effect_class"] == "local-write"
            && action.warnings.is_empty()
            && id.starts_with("deep-")
        {
            "the published walk gives up after 12 levels, ours after 64"
        } else if action
            .warnings
            .iter()
            .any(|warning| warning.contains("refers to"))
        {
            "a reference that leads nowhere may hold anything"
        } else if case["after"]["annotations"]["readOnlyHint"] == false {
            "says that it does not only read: a hint raises"
        } else if action.egress == Egress::External
            && action.evidence.iter().any(|one| one.detail.contains("address"))
        {
            "goes to an address that the caller names"
        } else if expected["effective_action_type"] == "unknown" && action.effective == ActionType::Read {
            "the name says nothing, its prose does"
        } else if Definition::read(&text).value().is_none() {
            "not JSON by the strict reader"
        } else {
            unexplained.push(format!("{id}: {differences:?}"));
            "?"
        };
        writeln!(out, "{id}: {} ({reason})", differences.join(", ")).unwrap();
    }
    writeln!(out, "{agreeing} of {cases} published answers are ours too").unwrap();
    assert!(cases > 0);
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}
