//! Every command from outside: what it prints, what it leaves in the index, and how it ends.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use mcpindex_store::testing::TestStore;
use mcpindex_store::{Location, Store};

use crate::programs::{Ended, Place, ended, fixture, until};

/// Ends with this code, says nothing on stdout, and one line with these parts on stderr.
fn check_refused(ended: &Ended, code: i32, parts: &[&str]) {
    let line = ended.stderr();
    assert_eq!(ended.code(), Some(code), "{line}");
    assert_eq!(ended.stdout(), "");
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in parts {
        assert!(line.contains(part), "`{part}` is not in: {line}");
    }
}

#[tokio::test]
async fn a_port_that_is_taken_has_its_own_exit_code() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let place = Place::new();
    let ended = place.run(&["serve", "--listen", &address]).await;
    check_refused(&ended, 10, &[&address, "taken", "--listen"]);
    assert!(
        !place.path("data").exists(),
        "nothing is made before the port is had"
    );
}

#[tokio::test]
async fn a_database_that_does_not_answer_has_its_own_exit_code() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("its address").port();
    drop(free);
    let place = Place::with_database(format!("postgres://ann:hunter2@127.0.0.1:{port}/none"));
    let ended = place.run(&["migrate"]).await;
    check_refused(&ended, 11, &["127.0.0.1", "--database"]);
    assert!(!ended.stderr().contains("hunter2"));
}

#[tokio::test]
async fn a_data_folder_that_can_not_be_written_has_its_own_exit_code() {
    let place = Place::new();
    let file = place.write("file", "");
    let below = format!("{file}/data");
    let ended = place.run(&["migrate", "--data", &below]).await;
    check_refused(&ended, 12, &[&below, "--data"]);
}

#[tokio::test]
async fn a_database_of_a_newer_program_has_its_own_exit_code() {
    let place = Place::new();
    // An SQLite file whose record of migrations (the table that sqlx keeps) has number 9999 and nothing else.
    let file = place.path("newer.db");
    std::fs::write(&file, include_bytes!("newer.db")).expect("a file");
    let file = file.display().to_string();
    for command in ["migrate", "serve"] {
        let ended = place.run(&[command, "--database", &file]).await;
        check_refused(&ended, 13, &["9999", "newer"]);
    }
    let unwell = place.run(&["doctor", "--database", &file]).await;
    assert_eq!(unwell.code(), Some(1));
    assert!(
        unwell.stdout().contains("newer mcpindex-server"),
        "{}",
        unwell.stdout()
    );
    let after = std::fs::read(&file).expect("a file");
    assert!(
        after.windows(20).any(|part| part == b"from a newer program"),
        "nothing was written over"
    );
}

#[tokio::test]
async fn settings_that_are_not_understood_have_their_own_exit_code() {
    let place = Place::new();
    let file = place.write("mcpindex.toml", "[crawl]\nevry = \"1h\"\n");
    let ended = place.run(&["serve", "--config", &file]).await;
    check_refused(&ended, 2, &["mcpindex.toml:2:", "`evry`", "`every`"]);

    let mut command = place.command(&["migrate"]);
    command.env("MCPINDEX_CRAWL_WORKERS", "many");
    check_refused(
        &self::ended(command).await,
        2,
        &["MCPINDEX_CRAWL_WORKERS", "`many`"],
    );

    let mut command = place.command(&["add", "--later", "https://mcp.example/"]);
    command.env("MCPINDEX_CRAWL_ALLOW_NETWORKS", "everywhere");
    check_refused(&self::ended(command).await, 2, &["allow_networks", "everywhere"]);
}

#[tokio::test]
async fn what_names_no_server_is_refused_before_anything_is_made() {
    let place = Place::new();
    for unknown in ["gem:server", "just-a-name", "npm:Not A Name", "ftp://example/"] {
        let ended = place.run(&["add", unknown]).await;
        assert_eq!(ended.code(), Some(2), "{unknown}: {}", ended.stderr());
        assert_eq!(ended.stderr().lines().count(), 1, "{}", ended.stderr());
    }
    let ended = place
        .run(&["add", "--", "server", "--api-key", "abcdef0123456789"])
        .await;
    check_refused(&ended, 2, &["credential"]);
    assert!(!ended.stderr().contains("abcdef0123456789"));
    assert_eq!(place.run(&["add"]).await.code(), Some(2));
    assert!(!place.path("data").exists());
}

#[tokio::test]
async fn the_default_configuration_is_one_that_is_understood() {
    let place = Place::new();
    let printed = place.run(&["default-config"]).await.stdout();
    let file = place.write("mcpindex.toml", &printed);
    let ended = place.run(&["migrate", "--config", &file]).await;
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr());
    assert!(ended.stdout().contains("applied"), "{}", ended.stdout());
    let again = place.run(&["migrate"]).await.stdout();
    assert!(again.contains("up to date"), "{again}");
}

#[tokio::test]
async fn doctor_changes_nothing_and_its_exit_code_says_what_it_found() {
    let place = Place::new();
    let well = place.run(&["doctor", "--json"]).await;
    assert_eq!(well.code(), Some(0), "{}", well.stdout());
    assert_eq!(well.json()["ok"], true);
    assert!(!place.path("data").exists());

    let file = place.write("mcpindex.toml", "[crawls]\n");
    let unwell = place.run(&["doctor", "--config", &file]).await;
    assert_eq!(unwell.code(), Some(1));
    assert!(unwell.stdout().starts_with("fail "), "{}", unwell.stdout());
}

#[tokio::test]
async fn a_package_that_does_not_exist_is_recorded_as_that() {
    // A registry of our own that has nothing.
    let registry = axum::Router::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("its address"));
    tokio::spawn(axum::serve(listener, registry).into_future());

    let place = Place::new();
    for arguments in [
        ["add", "npm:no-such-server", "--json", "--every", "1h"],
        ["backfill", "npm:no-such-server", "--json", "--last", "2"],
    ] {
        let mut command = place.command(&arguments);
        command.env("npm_config_registry", &url);
        let ended = ended(command).await;
        assert_eq!(ended.code(), Some(1), "{}{}", ended.stdout(), ended.stderr());
        let json = ended.json();
        let look = json
            .pointer("/servers/0/look")
            .or(json.pointer("/versions/0"))
            .expect("a look");
        assert_eq!(look["outcome"], "package_not_found", "{json}");
        assert_eq!(look["tools"], serde_json::Value::Null);
    }
}

#[tokio::test]
async fn a_private_address_is_refused_with_the_setting_that_admits_it() {
    let mut server = std::process::Command::new(fixture())
        .args(["--http", "plain"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the fixture starts");
    let mut url = String::new();
    BufReader::new(server.stdout.take().expect("its stdout"))
        .read_line(&mut url)
        .expect("its URL");
    let url = url.trim();
    let place = Place::new();

    let refused = place.run(&["add", url]).await;
    assert_eq!(refused.code(), Some(1), "{}", refused.stderr());
    assert!(
        refused.stdout().contains("blocked_address"),
        "{}",
        refused.stdout()
    );
    assert!(
        refused.stdout().contains("allow_networks"),
        "{}",
        refused.stdout()
    );

    let mut command = place.command(&["add", url]);
    command.env("MCPINDEX_CRAWL_ALLOW_NETWORKS", "127.0.0.0/8");
    let admitted = ended(command).await;
    server.kill().expect("it runs");
    server.wait().expect("it ended");
    assert_eq!(
        admitted.code(),
        Some(0),
        "{}{}",
        admitted.stdout(),
        admitted.stderr()
    );
    assert!(
        admitted.stdout().contains("1 tool  first look"),
        "{}",
        admitted.stdout()
    );
}

#[tokio::test]
async fn a_server_that_crashes_is_recorded_and_is_never_one_without_tools() {
    let place = Place::new();
    let crash = fixture().display().to_string();
    let ended = place.run(&["add", "--", &crash, "crash"]).await;
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr());
    assert!(ended.stdout().contains("crashed"), "{}", ended.stdout());
    assert!(!ended.stdout().contains("0 tools"), "{}", ended.stdout());
    assert!(!ended.stdout().contains('\u{1b}'), "nothing raw from the server");
}

/// A command whose declarations are decided by a file, and its launch line.
fn changeable(place: &Place) -> (String, [String; 2]) {
    let scenario = place.write("scenario", "plain");
    let script = format!("exec '{}' \"$(cat '{scenario}')\"\n", fixture().display());
    (scenario, ["sh".to_owned(), place.write("server.sh", &script)])
}

/// The whole way: serve, add from another process, a change, its drift in API and page, an end without leftovers.
async fn a_change_shows_up(place: &Place) {
    let (scenario, [shell, script]) = changeable(place);
    let served = place.serve(&[]).await;

    let first = place.run(&["add", "--", &shell, &script]).await;
    assert_eq!(first.code(), Some(0), "{}{}", first.stdout(), first.stderr());
    assert!(
        first.stdout().contains("1 tool  first look"),
        "{}",
        first.stdout()
    );
    assert_eq!(served.json("api/v1/drifts").await["items"], serde_json::json!([]));

    std::fs::write(&scenario, "paged").expect("written");
    let second = place.run(&["add", "--json", "--", &shell, &script]).await;
    assert_eq!(second.code(), Some(0), "{}{}", second.stdout(), second.stderr());
    let json = second.json();
    let look = &json["servers"][0]["look"];
    assert_eq!(
        (&look["tools"], &look["compared"]),
        (&3.into(), &true.into()),
        "{json}"
    );
    assert_eq!(
        look["drift"]["kinds"],
        serde_json::json!([{ "kind": "tool-added", "count": 3 }, { "kind": "tool-removed", "count": 1 }])
    );

    let drifts = served.json("api/v1/drifts").await;
    assert_eq!(drifts["items"].as_array().map(Vec::len), Some(1), "{drifts}");
    assert_eq!(drifts["items"][0]["id"], look["drift"]["id"]);
    let page = json["servers"][0]["page"].as_str().expect("a page");
    let (status, body) = served.get(page.trim_start_matches('/')).await;
    assert_eq!(status, 200, "{page}: {body}");
    let page = format!("drifts/{}", look["drift"]["id"]);
    let (status, body) = served.get(&page).await;
    assert_eq!(status, 200, "{page}: {body}");
    assert!(
        body.contains("read_note"),
        "the tool that was removed is on the drift's page"
    );

    assert_eq!(served.terminate().await, Some(0));
}

#[tokio::test]
async fn a_change_shows_up_on_sqlite() {
    a_change_shows_up(&Place::new()).await;
}

#[tokio::test]
async fn a_change_shows_up_on_postgres() {
    let Some(database) = TestStore::empty_postgres().await else {
        return;
    };
    let Location::Postgres(url) = database.location.clone() else {
        panic!("not a Postgres");
    };
    a_change_shows_up(&Place::with_database(url)).await;
}

#[tokio::test]
async fn the_crawler_in_the_server_looks_at_what_was_added_for_later() {
    let place = Place::new();
    let (_, [shell, script]) = changeable(&place);
    let mut served = place.serve(&[]).await;
    let added = place.run(&["add", "--later", "--", &shell, &script]).await;
    assert!(added.stdout().contains("added"), "{}", added.stdout());
    served.line_with("1 tool  first look").await;
    assert_eq!(served.terminate().await, Some(0));
}

#[tokio::test]
async fn a_signal_during_a_look_ends_the_server_and_the_process_it_looked_at() {
    let place = Place::new();
    // What only this server's command line has.
    let mark = place.path("mark").display().to_string();
    let served = place.serve(&[]).await;
    let server = fixture().display().to_string();
    place.run(&["add", "--later", "--", &server, "hang", &mark]).await;
    let is_running = || {
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .any(|line| line.contains(&mark))
    };
    until("the look begins", async || is_running()).await;
    assert_eq!(served.terminate().await, Some(0));
    until("its process is gone", async || !is_running()).await;
}

#[tokio::test]
async fn a_crawl_looks_once_at_all_that_is_due() {
    let place = Place::new();
    let (_, [shell, script]) = changeable(&place);
    place.run(&["add", "--later", "--", &shell, &script]).await;
    let crawled = place.run(&["crawl", "--once", "--json"]).await;
    assert_eq!(crawled.code(), Some(0), "{}", crawled.stderr());
    let json = crawled.json();
    assert_eq!(json["complete"], true);
    assert_eq!(json["looks"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["looks"][0]["tools"], 1);
    let again = place.run(&["crawl", "--once"]).await;
    assert_eq!(again.stdout(), "nothing is due\n");
}

#[tokio::test]
async fn a_list_is_followed_and_its_commands_run_in_the_sandbox() {
    let place = Place::new();
    let (_, [shell, script]) = changeable(&place);
    let list = place.write(
        "targets.toml",
        &format!("[[target]]\ncommand = [\"{shell}\", \"{script}\"]\n"),
    );
    let added = place.run(&["add", "--list", &list]).await;
    assert_eq!(added.code(), Some(0), "{}{}", added.stdout(), added.stderr());

    let config = place.write("mcpindex.toml", "[crawl]\ntargets = \"targets.toml\"\n");
    let other = Place::new();
    let mut served = other.serve(&["--config", &config]).await;
    served.line_with("1 tool  first look").await;
    assert_eq!(served.terminate().await, Some(0));
}

#[tokio::test]
async fn what_is_taken_off_the_list_is_followed_no_more_and_the_rest_is() {
    let place = Place::new();
    let entry = |name: &str| format!("[[target]]\ncommand = [\"{name}\"]\n");
    place.write("targets.toml", &(entry("one") + &entry("two")));
    let config = place.write("mcpindex.toml", "[crawl]\ntargets = \"targets.toml\"\n");
    let added = place.run(&["add", "--later", "--", "three"]).await;
    assert_eq!(added.code(), Some(0), "{}", added.stderr());
    let store = Store::open(&Location::Sqlite(place.path("data/mcpindex.db")))
        .await
        .expect("the index");
    let followed = async || -> Vec<String> {
        let targets = store.targets(None).await.expect("targets");
        let name = |identity: String| identity.rsplit(':').next().map(str::to_owned);
        targets
            .into_iter()
            .filter_map(|target| name(target.identity))
            .collect()
    };

    let served = place.serve(&["--config", &config]).await;
    until("the list is taken in", async || followed().await.len() == 3).await;
    assert_eq!(served.terminate().await, Some(0));
    place.write("targets.toml", &entry("two"));
    let served = place.serve(&["--config", &config]).await;
    until("the list is taken in again", async || followed().await.len() == 2).await;
    assert_eq!(served.terminate().await, Some(0));
    assert_eq!(followed().await, ["three", "two"]);
    assert_eq!(
        store
            .count_by_outcome()
            .await
            .expect("counts")
            .iter()
            .map(|(_, count)| count)
            .sum::<i64>(),
        3,
        "what is known of a server stays"
    );
}

#[tokio::test]
async fn a_list_s_backfill_looks_at_the_versions_before_the_newest() {
    // A registry of our own that names versions and has none of them to give.
    let version = |version: &str| serde_json::json!({ "name": "many", "version": version, "bin": "many.js", "dist": { "tarball": "http://127.0.0.1:1/many.tgz" } });
    let document = serde_json::json!({
        "name": "many",
        "dist-tags": { "latest": "1.2.0" },
        "versions": { "1.0.0": version("1.0.0"), "1.1.0": version("1.1.0"), "1.2.0": version("1.2.0"), },
    });
    let registry = axum::Router::new().fallback(async move || axum::Json(document));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("its address"));
    tokio::spawn(axum::serve(listener, registry).into_future());

    let place = Place::new();
    let list = place.write("list.toml", "[[target]]\npackage = \"npm:many\"\nbackfill = 3\n");
    let mut command = place.command(&["add", "--list", &list, "--json"]);
    command
        .env("npm_config_registry", &url)
        .env("npm_config_fetch_retries", "0");
    let ended = ended(command).await;
    assert_eq!(ended.code(), Some(1), "{}{}", ended.stdout(), ended.stderr());
    let server = &ended.json()["servers"][0];
    let history = server["history"].as_array().expect("looks");
    let versions: Vec<&serde_json::Value> = history.iter().map(|look| &look["version"]).collect();
    assert_eq!(
        serde_json::json!(versions),
        serde_json::json!(["1.0.0", "1.1.0"]),
        "{server}"
    );
    assert_ne!(server["look"]["outcome"], "ok");
}
