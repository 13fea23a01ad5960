//! What a new optional argument lets a tool do: write a file, call an address, run code, use a credential.

use mcpindex_contract::capability::{Class, classify, gained};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::posture::{Decision, Posture, judge};
use serde_json::{Value, json};

fn tool(name: &str, description: &str, properties: &Value) -> Definition {
    let tool = json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    });
    Definition::read(&tool.to_string())
}

fn release(argument: &str, schema: &Value) -> (Definition, Definition) {
    let (name, description) = ("search_web", "Searches the web.");
    let before = tool(name, description, &json!({"query": {"type": "string"}}));
    let after = tool(
        name,
        description,
        &json!({"query": {"type": "string"}, argument: schema}),
    );
    (before, after)
}

fn described(text: &str) -> Value {
    match text {
        "" => json!({"type": "string"}),
        _ => json!({"type": "string", "description": text}),
    }
}

/// Classes that a tool that searches the web gains with an argument, and why guard holds it.
fn gain(argument: &str, text: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let (before, after) = release(argument, &described(text));
    let classes = gained(&classify(&before), &classify(&after)).classes;
    let verdict = judge(Posture::Guard, Some(&before), Some(&after));
    let codes = verdict.reasons.iter().map(|reason| reason.code).collect();
    (classes.into_iter().map(Class::name).collect(), codes)
}

#[track_caller]
fn check(class: &str, cases: &[(&str, &str)]) {
    for (argument, text) in cases {
        let (classes, codes) = gain(argument, text);
        assert!(classes.contains(&class), "{argument}: {text}: {classes:?}");
        assert!(codes.contains(&"capability-gained"), "{argument}: {codes:?}");
    }
}

#[test]
fn an_argument_that_saves_a_file_writes() {
    check(
        "fs.write",
        &[
            ("output_path", ""),
            ("outputFile", ""),
            ("save_to", ""),
            ("saveAs", ""),
            ("export_to", ""),
            ("write_to", ""),
            ("out_dir", ""),
            ("outfile", ""),
            ("download_dir", ""),
            ("destination_folder", ""),
            ("destPath", ""),
            ("backup_file", ""),
            ("filename", "File name to save the results to"),
            ("file", "If given, the answer is written to this file"),
            ("path", "Where the page is stored on disk"),
            ("output", "File that the results are exported to"),
            ("directory", "Pages are downloaded to this directory"),
            ("保存路径", ""),
            ("文件", "将结果保存到该文件"),
            ("保存先", ""),
            ("ファイル", "結果を保存するファイル"),
            ("dosya", "Sonuçların kaydedileceği dosya"),
            ("ausgabedatei", ""),
            ("datei", "Datei, in der die Ergebnisse gespeichert werden"),
            ("fichier", "Fichier où enregistrer les résultats"),
            ("fichier_sortie", "Chemin où exporter les résultats"),
            ("archivo", "Archivo donde guardar los resultados"),
        ],
    );
}

#[test]
fn a_picture_or_a_download_with_a_place_is_written() {
    for (name, description) in [
        ("take_screenshot", "Takes a screenshot of the page."),
        ("download_report", "Downloads a report."),
        ("capture_trace", "Captures a trace."),
    ] {
        let before = tool(name, description, &json!({"id": {"type": "string"}}));
        let after = tool(
            name,
            description,
            &json!({"id": {"type": "string"}, "filename": {"type": "string"}}),
        );
        let classes = gained(&classify(&before), &classify(&after)).classes;
        assert!(
            classes.iter().any(|class| class.name() == "fs.write"),
            "{name}: {classes:?}"
        );
    }
}

#[test]
fn an_argument_that_calls_an_address_reaches_the_network() {
    let (name, description) = ("add_numbers", "Adds numbers.");
    for (argument, text) in [
        ("webhook", ""),
        ("callback_url", ""),
        ("notifyUrl", ""),
        ("endpoint", ""),
        ("on_done", "URL that is notified when the sum is known"),
        ("sink", "Webhook for the result"),
        ("report_to", "URL to post the result to"),
    ] {
        let before = tool(name, description, &json!({"a": {"type": "number"}}));
        let after = tool(
            name,
            description,
            &json!({"a": {"type": "number"}, argument: described(text)}),
        );
        let classes = gained(&classify(&before), &classify(&after)).classes;
        assert!(
            classes.iter().any(|class| class.name() == "net"),
            "{argument}: {classes:?}"
        );
        let verdict = judge(Posture::Guard, Some(&before), Some(&after));
        assert_eq!(verdict.decision, Decision::Hold, "{argument}");
    }
    // A tool that is on the network already gains another way out.
    for (argument, text) in [
        ("callback_url", ""),
        ("on_done", "URL that is notified when it is done"),
    ] {
        let (_, codes) = gain(argument, text);
        assert!(codes.contains(&"blast-radius-gained"), "{argument}: {codes:?}");
    }
}

#[test]
fn an_argument_that_is_run_executes() {
    check(
        "exec",
        &[
            ("command", ""),
            ("post_script", ""),
            ("shell", ""),
            ("powershell", ""),
            ("pre_command", ""),
            ("hook", "Shell command to run before the search"),
            ("filter", "Script that is executed on each result"),
            ("after", "Command the results are piped through"),
            ("nach", "Befehl, der danach ausgeführt wird"),
            ("apres", "Commande à exécuter ensuite"),
            ("despues", "Comando que se ejecuta después"),
            ("之后", "搜索之后执行的命令"),
        ],
    );
}

#[test]
fn an_argument_that_takes_a_credential_is_noted_and_held() {
    for (argument, text) in [
        ("api_key", ""),
        ("token", ""),
        ("accessToken", ""),
        ("password", ""),
        ("client_secret", ""),
        ("auth_header", ""),
        ("auth", "Your API key for the service"),
        ("login", "Access token of the account"),
    ] {
        let (before, after) = release(argument, &described(text));
        let notes = classify(&after).notes;
        assert!(
            notes.iter().any(|note| note.starts_with("takes a credential")),
            "{argument}: {notes:?}"
        );
        assert_eq!(
            gained(&classify(&before), &classify(&after)).classes,
            [],
            "{argument}"
        );
        let verdict = judge(Posture::Guard, Some(&before), Some(&after));
        assert_eq!(verdict.decision, Decision::Hold, "{argument}");
    }
}

#[test]
fn an_ordinary_argument_gains_nothing() {
    for (argument, text) in [
        ("output_format", "Format of the output, for example json"),
        ("output", "What to return: ids or full rows"),
        ("sort", "Order of the saved results"),
        ("saved_search", "Name of the saved search"),
        ("export_format", "Format that is exported"),
        ("command_id", "Id of the command"),
        ("topic", "Name of the command to explain"),
        ("script_name", "Name of the script that was run"),
        ("run_id", "Id of the run"),
        ("page_token", "Token of the next page"),
        ("issue_key", "Key of the issue"),
        ("secret_name", "Name of the secret"),
        ("source", "Only results from this source"),
        ("message", "Text that was posted"),
        ("link_type", "Type of the URL that was sent"),
        ("destination", "City to travel to"),
        ("country_code", "Country code"),
    ] {
        let (classes, codes) = gain(argument, text);
        assert!(
            classes.is_empty() && codes.is_empty(),
            "{argument}: {text}: {classes:?} {codes:?}"
        );
    }
    // A list of what it may be is nothing to write to or to run.
    for argument in ["output_path", "command", "callback_url"] {
        let (before, after) = release(argument, &json!({"enum": ["a", "b"]}));
        assert_eq!(
            gained(&classify(&before), &classify(&after)).classes,
            [],
            "{argument}"
        );
    }
}
