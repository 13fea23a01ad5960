//! What a tool can do: small cases of our own, the rules R1 to R6, hostile input, and the classes of real tools.

use crate::shared::shared;
use mcpindex_contract::action;
use mcpindex_contract::capability::{Capabilities, Class, Promise, classify, classify_resource, gained};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::words::{RULES_VERSION, rules_digest};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;

fn of(tool: &Value) -> Capabilities {
    classify(&Definition::read(&tool.to_string()))
}

fn tool(name: &str, description: &str, properties: &Value) -> Capabilities {
    of(
        &json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}),
    )
}

fn summary(capabilities: &Capabilities) -> String {
    let classes = capabilities.classes.iter();
    let classes: Vec<String> = classes
        .map(|one| format!("{}:{}", one.class, one.confidence))
        .collect();
    classes.join(" ")
}

#[track_caller]
fn check(name: &str, description: &str, properties: Value, expected: &str) {
    let found = tool(name, description, &properties);
    assert_eq!(summary(&found), expected, "{name}: {found:#?}");
}

fn text() -> Value {
    json!({"type": "string"})
}

#[test]
fn the_sample_of_the_public_description_is_classified() {
    let destructive = of(&json!({"name": "delete_branch", "annotations": {"destructiveHint": true}}));
    assert_eq!(summary(&destructive), "fs.delete:high");
    check(
        "read_env",
        "Reads credentials from the environment.",
        json!({}),
        "credentials:high",
    );
    check("run_command", "", json!({"command": text()}), "exec:high");
    check(
        "fetch_url",
        "",
        json!({"url": {"type": "string", "format": "uri"}}),
        "net:high",
    );
    check("read_file", "", json!({"path": text()}), "fs.read:high");
    check(
        "get_weather",
        "Weather at a place",
        json!({"city": text()}),
        "unknown:low",
    );
    check("tide_times", "", json!({}), "unknown:low");
}

#[test]
fn names_parameters_and_prose_each_show_a_class() {
    let file = || json!({"path": text()});
    check("exec", "", json!({}), "exec:high");
    check("execute_plan", "", json!({}), "exec:medium");
    check("helper", "Runs a shell command.", json!({}), "exec:medium");
    check("helper", "Runs the numbers.", json!({}), "unknown:low");
    check("rerun", "", json!({}), "exec:high");
    check("prerun", "", json!({}), "unknown:low");
    check("download_report", "", json!({}), "net:high");
    check("web_search", "", json!({}), "net:medium");
    check("lookup", "Searches the web.", json!({}), "net:medium");
    check("lookup", "", json!({"webhook": text()}), "net:high");
    check(
        "lookup",
        "",
        json!({"is_url": {"type": "boolean"}}),
        "unknown:low",
    );
    check("get_secret", "", json!({}), "credentials:high");
    check("get_api_key", "", json!({}), "credentials:high");
    check("count_tokens", "", json!({}), "unknown:low");
    check(
        "lookup",
        "Lists environment variables.",
        json!({}),
        "credentials:medium",
    );
    check(
        "lookup",
        "Answers in at most 500 tokens.",
        json!({}),
        "unknown:low",
    );
    check("envelope", "", json!({}), "unknown:low");
    check("remove_user", "", json!({}), "fs.delete:high");
    check("cleanup", "Deletes old rows.", json!({}), "fs.delete:medium");
    check("drop_here", "", json!({}), "fs.delete:low");
    check("drop_table", "", json!({}), "fs.delete:high");
    check(
        "write_file",
        "",
        json!({"path": text(), "content": text()}),
        "fs.write:high",
    );
    check("create_issue", "", json!({}), "fs.write:medium");
    check(
        "render_chart",
        "",
        json!({"width": {"type": "number"}}),
        "unknown:low",
    );
    check(
        "render_chart",
        "",
        json!({"output_path": text()}),
        "fs.write:high",
    );
    check("list_directory", "", file(), "fs.read:high");
    check("outline", "", file(), "fs.read:medium");
    check("install_package", "", json!({}), "install:high");
    check("send_email", "", json!({"to": text()}), "message-send:high");
    check("charge_card", "", json!({}), "payment:high");
    check("getWallet", "", json!({}), "unknown:low");
    check("query", "", json!({"sql": text()}), "db.write:high");
    check(
        "find",
        "Run a find query against a database.",
        json!({"database": text()}),
        "db.read:medium",
    );
    check("list_databases", "", json!({}), "db.read:medium");
    check("get_clipboard", "", json!({}), "clipboard:high");
    check("take_screenshot", "", json!({}), "screen:high");
    check("browser_screenshot", "", json!({}), "browser:high");
    check("spawn_agent", "", json!({}), "exec:medium agent-spawn:high");
    check("grant_role", "", json!({}), "privilege:high");
    check("删除文件", "", json!({}), "fs.delete:high");
    check("oku", "Dosyayı okur.", file(), "fs.read:high");
    check("supprimer", "", json!({}), "fs.delete:high");
}

#[test]
fn several_medium_findings_are_high_together() {
    check(
        "execute_plan",
        "Executes the commands of a plan.",
        json!({}),
        "exec:high",
    );
}

#[test]
fn a_credential_parameter_is_a_note_and_no_class() {
    let found = tool("sync_account", "", &json!({"apiKey": text()}));
    assert_eq!(found.rank, Class::FsWrite);
    insta::assert_snapshot!(found.notes.join("\n"), @r#"takes a credential: parameter "apiKey" (string) at /inputSchema/properties/apiKey"#);
}

#[test]
fn a_working_directory_does_not_make_a_command_read_files() {
    check(
        "build_thing",
        "",
        json!({"command": text(), "directory": text()}),
        "exec:high",
    );
    check(
        "sneaky",
        "",
        json!({"command": text(), "directory": text()}),
        "exec:high",
    );
}

#[test]
fn a_softer_hint_changes_nothing_and_is_contradicted_aloud() {
    let declared = |annotations: Value| {
        of(&json!({"name": "quiet_helper", "annotations": annotations,
            "inputSchema": {"properties": {"command": {"type": "string"}}}}))
    };
    let bare = declared(json!({}));
    let soft = declared(json!({"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false}));
    assert_eq!(bare.classes, soft.classes);
    insta::assert_snapshot!(soft.warnings.join("\n"), @"its hint readOnlyHint: true contradicts what it declares: runs commands (high)");
    assert!(bare.contradicts(Promise::ReadOnly).is_some());
    assert!(bare.contradicts(Promise::NotDestructive).is_none());
}

#[test]
fn a_harder_hint_raises() {
    let found = of(
        &json!({"name": "helper", "annotations": {"destructiveHint": true, "openWorldHint": true, "readOnlyHint": false}}),
    );
    assert_eq!(summary(&found), "fs.delete:high net:low fs.write:low");
    assert!(found.destructive);
}

#[test]
fn one_branch_of_free_text_opens_a_list() {
    let closed = json!({"anyOf": [{"enum": ["a"]}, {"type": "null"}]});
    check("x", "", json!({"command": closed}), "unknown:low");
    let open = json!({"anyOf": [{"enum": ["a"]}, {"type": "string"}]});
    check("x", "", json!({"command": open}), "exec:high");
}

#[test]
fn evidence_says_where_and_what() {
    let found = tool(
        "run_command",
        "Runs a shell command.",
        &json!({"command": text()}),
    );
    let evidence: Vec<String> = found.classes[0]
        .evidence
        .iter()
        .map(ToString::to_string)
        .collect();
    insta::assert_snapshot!(evidence.join("\n"), @r#"
    name: "run" (high)
    description: "runs" (medium)
    parameter: parameter "command" (string) at /inputSchema/properties/command (high)
    "#);
}

#[test]
fn parameters_are_found_wherever_schemas_hide_them() {
    let hidden = || json!({"properties": {"command": {"type": "string"}}});
    let places = [
        json!({"properties": {"a": {"items": hidden()}}}),
        json!({"anyOf": [{}, hidden()]}),
        json!({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": hidden()}}),
        json!({"properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"oneOf": [hidden(), {"$ref": "#/definitions/x"}]}}}),
        json!({"if": {}, "then": hidden()}),
        json!({"prefixItems": [hidden()]}),
        json!({"additionalProperties": hidden()}),
        json!({"dependentSchemas": {"a": hidden()}}),
        json!({"properties": {"command": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": ["string", "null"]}}}),
    ];
    for schema in places {
        let found = of(&json!({"name": "x", "inputSchema": schema}));
        assert_eq!(found.rank, Class::Exec, "{schema}: {found:#?}");
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    }
    let number = of(
        &json!({"name": "x", "inputSchema": {"properties": {"command": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "integer"}}}}),
    );
    assert_eq!(number.rank, Class::Unknown);
}

#[test]
fn a_reference_that_leads_nowhere_is_said() {
    let found = of(&json!({"name": "x", "inputSchema": {"$ref": "https://example.org/x.json"}}));
    insta::assert_snapshot!(found.warnings.join("\n"), @r#"inputSchema refers to "https://example.org/x.json", which it does not hold: not classified"#);
}

#[test]
fn what_an_answer_holds_counts_too() {
    let found = of(
        &json!({"name": "login_helper", "outputSchema": {"properties": {"access_token": {"type": "string"}}}}),
    );
    assert_eq!(found.rank, Class::Credentials);
}

#[test]
fn a_resource_is_classified_by_its_address() {
    let check = |uri: &str, rank: Class, notes: usize| {
        let found = classify_resource(&Definition::read(&json!({"uri": uri, "name": "r"}).to_string()));
        assert_eq!((found.rank, found.notes.len()), (rank, notes), "{uri}");
    };
    check("file:///home/u/notes.txt", Class::FsRead, 0);
    check("file:///home/u/.ssh/id_rsa", Class::FsRead, 1);
    check("https://example.org/x", Class::Net, 0);
    check("notes://today", Class::Unknown, 0);
    assert_eq!(classify_resource(&Definition::read("7")).rank, Class::Unknown);
}

#[test]
fn gaining_a_class_is_told_from_a_hint_that_says_so() {
    let tool = |properties: Value, annotations: Value| {
        of(
            &json!({"name": "get_note", "annotations": annotations, "inputSchema": {"properties": properties}}),
        )
    };
    let before = tool(json!({}), json!({}));
    assert!(gained(&before, &before).is_empty());
    let by_schema = gained(&before, &tool(json!({"url": {"type": "string"}}), json!({})));
    assert_eq!(
        (by_schema.classes, by_schema.destructive),
        (vec![Class::Net], false)
    );
    let hinted = tool(json!({}), json!({"destructiveHint": true}));
    let by_hint = gained(&before, &hinted);
    assert_eq!(
        (by_hint.classes, by_hint.by_hint_alone),
        (vec![], vec![Class::FsDelete])
    );
    assert!(by_hint.destructive);
    assert!(gained(&hinted, &before).is_empty());
}

#[test]
fn names_of_classes_read_back() {
    for class in Class::ALL {
        assert_eq!(Class::from_name(class.name()), Some(class));
        assert!(class.rank() <= Class::FsDelete);
    }
    assert_eq!(Class::from_name("anything"), None);
}

/// A change of the word tables needs a new version, since seals remember which one classified them.
#[test]
fn the_word_tables_are_those_of_their_version() {
    insta::assert_snapshot!(format!("{RULES_VERSION} {}", rules_digest()));
}

#[test]
fn hostile_schemas_end_in_bounded_work() {
    let mut deep = json!({"properties": {"command": {"type": "string"}}});
    for _ in 0..200 {
        deep = json!({"properties": {"a": deep}});
    }
    let found = of(&json!({"name": "x", "inputSchema": deep}));
    assert_eq!((found.rank, found.warnings.len()), (Class::Unknown, 1));

    // Each definition refers twice to the next: 2^25 ways through, 26 definitions.
    let mut defs = serde_json::Map::new();
    for level in 0..25 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        defs.insert(
            format!("d{level}"),
            json!({"anyOf": [next.clone(), {"allOf": [next]}]}),
        );
    }
    defs.insert(
        "d25".to_owned(),
        json!({"properties": {"command": {"type": "string"}}}),
    );
    let found = of(
        &json!({"name": "x", "inputSchema": {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs}}),
    );
    assert_eq!(found.rank, Class::Exec);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);

    let wide: serde_json::Map<String, Value> = (0..300_000)
        .map(|index| (format!("a{index}"), json!({})))
        .collect();
    let found = of(&json!({"name": "x", "inputSchema": {"properties": wide}}));
    assert_eq!(found.warnings.len(), 1);

    // Ten thousand parameters that share one list of ten thousand choices, and one name of a megabyte with as many below.
    let shared: serde_json::Map<String, Value> = (0..10_000)
        .map(|index| (format!("action{index}_mode"), json!({"$ref": "#/$defs/a"})))
        .collect();
    let choices: Vec<String> = (0..10_000).map(|index| format!("delete_{index}")).collect();
    let found =
        of(&json!({"name": "x", "inputSchema": {"properties": shared, "$defs": {"a": {"enum": choices}}}}));
    assert_eq!((found.rank, found.warnings.len()), (Class::FsDelete, 1));
    let below: serde_json::Map<String, Value> = (0..10_000)
        .map(|index| (format!("a{index}"), json!({})))
        .collect();
    let long = json!({"a".repeat(1_000_000): {"properties": below}});
    let found = of(&json!({"name": "x", "inputSchema": {"properties": long}}));
    assert_eq!(found.warnings.len(), 1);

    let found = of(&json!({"name": "x", "description": "word ".repeat(30_000)}));
    insta::assert_snapshot!(found.warnings.join("\n"), @"the description is too long: its first 20000 words were classified");
    for not_a_tool in [
        "",
        "[]",
        "7",
        "{\"name\":7}",
        "{\"inputSchema\":[],\"annotations\":7}",
    ] {
        assert_eq!(classify(&Definition::read(not_a_tool)).rank, Class::Unknown);
    }
}

#[test]
fn what_evidence_repeats_is_escaped_and_cut() {
    let name = format!("com\u{202e}\u{7}\n{}_command", "x".repeat(500));
    let found = tool("x", "", &json!({name: text()}));
    let shown = format!("{}", found.classes[0].evidence[0]);
    assert!(
        shown
            .chars()
            .all(|character| !character.is_control() && character != '\u{202e}'),
        "{shown}"
    );
    assert!(shown.len() < 1_000, "{}", shown.len());
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop::sample::select(vec![
            "string",
            "integer",
            "uri",
            "#",
            "#/$defs/a",
            "#/properties/command",
            "delete"
        ])
        .prop_map(Value::from),
    ];
    let keyword = prop::sample::select(vec![
        "properties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "type",
        "enum",
        "command",
        "a",
        "format",
        "allOf",
        "url",
        "path",
    ]);
    leaf.prop_recursive(6, 60, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keyword.clone(), inner, 0..5).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// The same value with the members of every object in the opposite order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(reversed).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .rev()
                .map(|(name, value)| format!("{}:{}", json!(name), reversed(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

proptest! {
    #[test]
    fn any_schema_has_an_answer_whatever_the_order_of_its_members(schema in json_value(), name in "[a-z_]{0,12}") {
        let tool = json!({"name": name, "inputSchema": schema, "outputSchema": schema});
        let found = of(&tool);
        prop_assert_eq!(&found, &of(&tool));
        let other = classify(&Definition::read(&reversed(&tool)));
        prop_assert_eq!(found.classes, other.classes);
    }

    #[test]
    fn hints_only_add(name in "(get|delete|run|send|frob)_(note|command|secret)", hints in any::<[Option<bool>; 4]>()) {
        let with = |annotations: Value| of(&json!({"name": name, "annotations": annotations}));
        let names = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        let given = names.iter().zip(hints).filter_map(|(name, hint)| Some(((*name).to_owned(), json!(hint?))));
        let (bare, hinted) = (with(json!({})), with(Value::Object(given.collect())));
        prop_assert!(hinted.rank >= bare.rank);
        prop_assert!(hinted.destructive >= bare.destructive);
        for capability in bare.classes.iter().filter(|one| one.class != Class::Unknown) {
            prop_assert!(hinted.get(capability.class).is_some_and(|one| one.confidence >= capability.confidence));
        }
        prop_assert!(gained(&bare, &hinted).classes.is_empty());
    }
}

/// The classes of every captured tool, each distinct definition once; printed for whoever judges the rules.
#[test]
fn captured_tools_are_classified() {
    let Some(shared) = shared() else { return };
    let mut found = Vec::new();
    crate::corpus::captures(&shared.join("corpus"), &mut found);
    let mut tools: BTreeMap<String, String> = BTreeMap::new();
    for capture in &found {
        let capture: BTreeMap<&str, &serde_json::value::RawValue> = serde_json::from_str(capture).unwrap();
        let Some(list) = capture.get("tools") else {
            continue;
        };
        let Ok(items) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(list.get()) else {
            continue;
        };
        for item in items {
            let definition = Definition::read(item.get());
            tools.insert(definition.digest().to_string(), item.get().to_owned());
        }
    }
    let mut out = std::io::stderr().lock();
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    let mut ranks: BTreeMap<String, usize> = BTreeMap::new();
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    let mut warned = 0;
    for text in tools.values() {
        let definition = Definition::read(text);
        let found = classify(&definition);
        let action = action::classify(&definition);
        warned += usize::from(
            found
                .warnings
                .iter()
                .any(|warning| !warning.starts_with("its hint")),
        );
        *ranks.entry(found.rank.to_string()).or_default() += 1;
        *types
            .entry(action.effective_without_hints.to_string())
            .or_default() += 1;
        for capability in &found.classes {
            *classes.entry(capability.class.to_string()).or_default() += 1;
        }
        if std::env::var_os("MCPINDEX_SHOW").is_some() {
            let description: String = definition
                .description()
                .unwrap_or_default()
                .chars()
                .take(110)
                .collect();
            writeln!(
                out,
                "{}\t{}\t{:?}\t{}/{}/{}\t{:?}\t{description:?}",
                definition.name().unwrap_or_default(),
                summary(&found),
                action.types,
                action.blast.name(),
                action.egress.name(),
                action.ceiling.name(),
                found.warnings,
            )
            .unwrap();
            let evidence: Vec<String> = action.evidence.iter().map(ToString::to_string).collect();
            let reasons: Vec<String> = found
                .classes
                .iter()
                .map(|one| {
                    one.evidence
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join("; ")
                })
                .collect();
            writeln!(out, "    {}\n    {}", evidence.join("; "), reasons.join("; ")).unwrap();
        }
    }
    writeln!(
        out,
        "{} tools; ranks {ranks:?}; classes {classes:?}; actions {types:?}; {warned} not wholly looked at",
        tools.len()
    )
    .unwrap();
    assert!(tools.len() > 1_000);
    assert!(ranks.len() == 7, "every rank occurs among real tools");
}
